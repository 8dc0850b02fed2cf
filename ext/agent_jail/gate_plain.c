/*
 * gate_plain.c - plain values that Marshal writes without the name of a class: nil, true, false,
 * numbers, Strings, Arrays, Hashes.
 */
#include <string.h>

#include "gate_cost.h"
#include "gate_reader.h"

enum { FLOAT_BYTES_MAX = 64 };

struct value gate_check_nil(struct gate *gate, bool ivars)
{
    (void)gate;
    (void)ivars;
    return gate_leaf(NIL, 0);
}

struct value gate_check_boolean(struct gate *gate, bool ivars)
{
    (void)gate;
    (void)ivars;
    return gate_leaf(BOOLEAN, 0);
}

struct value gate_check_fixnum(struct gate *gate, bool ivars)
{
    (void)ivars;
    gate->fixnum = gate_take_long(gate);
    return gate_leaf(FIXNUM, 0);
}

struct value gate_check_bignum(struct gate *gate, bool ivars)
{
    (void)ivars;
    if (!gate_take_if(gate, '+') && !gate_take_if(gate, '-')) {
        gate_refuse(gate, "an Integer has no sign");
    }
    struct span digits = gate_take_span(gate, 2);
    return gate_add_leaf(gate, gate_leaf(BIGNUM, digits.length));
}

/* Marshal leaves the digits to strtod, and once packed a mantissa behind a NUL: digits only. */
struct value gate_check_float(struct gate *gate, bool ivars)
{
    (void)ivars;
    struct span text = gate_take_span(gate, 1);
    struct value value = gate_leaf(FLOAT, 0);
    if (gate_span_is(gate, text, "nan")) {
        value.kind = NOT_A_NUMBER;
        value.parts = STEERED;
    } else if (!gate_span_is(gate, text, "inf") && !gate_span_is(gate, text, "-inf")) {
        bool digits = text.length > 0 && text.length <= FLOAT_BYTES_MAX;
        for (size_t i = 0; digits && i < text.length; i++) {
            uint8_t byte = gate->bytes[text.start + i];
            digits = byte && strchr("0123456789.eE+-", byte);
        }
        if (!digits) {
            return gate_refuse(gate, "a Float is not a number");
        }
    }
    return gate_add_leaf(gate, value);
}

struct value gate_check_string(struct gate *gate, bool ivars)
{
    struct value value = gate_leaf(STRING, gate_take_span(gate, 1).length);
    gate_add_object(gate, value);
    if (ivars) {
        gate_check_encoding(gate);
    }
    return value;
}

struct value gate_check_array(struct gate *gate, bool ivars)
{
    (void)ivars;
    size_t index = gate_add_object(gate, opened);
    uint32_t count = gate_take_count(gate, 1);
    struct value value = {.kind = CONTAINER, .cost = COST_CALL, .height = 1};
    while (count-- > 0 && !gate->refused) {
        gate_absorb(&value, gate_check_value(gate));
    }
    return gate_close_object(gate, index, value);
}

struct value gate_check_pairs(struct gate *gate, unsigned pairs)
{
    size_t index = gate_add_object(gate, pairs & OF_SET ? nothing : opened);
    uint32_t count = gate_take_count(gate, 2);
    uint32_t steered = 0;
    struct value value = {.kind = CONTAINER, .cost = COST_CALL, .height = 1};
    while (count-- > 0 && !gate->refused) {
        gate_charge_load(gate, LOAD_PAIR);
        struct value key = gate_check_value(gate);
        gate_absorb(&value, key);
        if (!(pairs & OF_SET)) {
            gate_absorb(&value, gate_check_value(gate));
        } else if (!gate_take_if(gate, 'T')) {
            gate_refuse(gate, "a Set is not in the form that Set has");
        }
        if (!(pairs & BY_IDENTITY)) {
            gate_charge_key(gate, key, &steered);
        }
    }
    if (pairs & OF_SET) {
        if (!gate_take_if(gate, 'F')) {
            gate_refuse(gate, "a Set is not in the form that Set has");
        }
    } else if (pairs & WITH_DEFAULT) {
        gate_absorb(&value, gate_check_value(gate));
    }
    value.parts = STEERED;
    return pairs & OF_SET ? value : gate_close_object(gate, index, value);
}

struct value gate_check_hash(struct gate *gate, bool ivars)
{
    (void)ivars;
    return gate_check_pairs(gate, BY_EQUALITY);
}

struct value gate_check_default_hash(struct gate *gate, bool ivars)
{
    (void)ivars;
    return gate_check_pairs(gate, WITH_DEFAULT);
}

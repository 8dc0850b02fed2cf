/*
 * result.c - the gate: decides on the bytes alone whether a result may be handed to Marshal.load.
 *
 * Marshal.load runs code of every class that the bytes name, loads a library for every encoding
 * that they name, and hashes every key. So the gate walks the same bytes with the same numbering
 * of objects and symbols, takes only what Marshal.dump makes of plain values and of permitted
 * classes, and refuses all else.
 *
 * gate.h tells its other files. Here are the classes that a policy permits, and the walk.
 */
#include <stdlib.h>
#include <string.h>

#include "gate_cost.h"
#include "gate_reader.h"

/* ---- values of permitted classes ---- */

static const struct value opaque = {.kind = OBJECT, .cost = COST_CALL, .parts = 1};

static struct value refuse_class(struct gate *gate, struct span name, const char *form)
{
    gate_refuse_name(gate, "class ", name, form, ": name it in permitted_classes");
    return nothing;
}

static bool is_permitted(const struct gate *gate, struct span name, enum result_form form)
{
    for (size_t i = 0; i < gate->policy->permit_count; i++) {
        const struct result_permit *permit = &gate->policy->permits[i];
        if ((permit->forms & form) && permit->length == name.length &&
            memcmp(permit->name, gate->bytes + name.start, name.length) == 0) {
            return true;
        }
    }
    return false;
}

/* The name of an instance variable: it becomes a Symbol that stays in the parent for ever. */
static struct span take_ivar_name(struct gate *gate)
{
    size_t known = gate->symbol_count;
    struct span name = gate_take_symbol(gate);

    if (gate->symbol_count > known && ++gate->names > RESULT_NAMES_MAX) {
        gate_refuse(gate, "it names too many instance variables");
    }
    if (name.length > RESULT_NAME_LENGTH_MAX) {
        gate_refuse_name(gate, "the name of an instance variable is too long: ", name, "", "");
    }
    return name;
}

/*
 * Any instance variables but the special ones. A subclass of Range compares its ends when it is
 * loaded, and a subclass of Set in Ruby 4 hashes again what it is given.
 */
static void check_ivars(struct gate *gate, bool encoded)
{
    for (uint32_t count = gate_take_count(gate, 2); count > 0 && !gate->refused; count--) {
        struct span name = take_ivar_name(gate);
        if (gate_is_special(gate, name)) {
            if (!encoded) {
                gate_refuse_name(gate, "an instance variable is named ", name, "", "");
            }
            gate_check_encoding_value(gate, name);
            encoded = false;
            continue;
        }
        bool shared = gate->at < gate->length && gate->bytes[gate->at] == '@';
        struct value value = gate_check_value(gate);
        if (gate_span_is(gate, name, "begin") || gate_span_is(gate, name, "end")) {
            gate_charge_ends(gate, value.cost);
        } else if (shared && gate_span_is(gate, name, "@hash")) {
            gate_charge(gate, value.cost);
        }
    }
}

/* Counted before its class is read. Hashing it is its class's affair, so it is opaque at once. */
static struct value check_object(struct gate *gate, bool ivars)
{
    (void)ivars;
    size_t index = gate_add_object(gate, opaque);
    struct span name = gate_take_symbol(gate);
    const struct plain_class *plain = gate_find_class(gate, name, RESULT_OBJECT);
    if (plain) {
        return gate_close_object(gate, index, gate_check_class(gate, plain, false));
    }
    if (!is_permitted(gate, name, RESULT_OBJECT)) {
        return refuse_class(gate, name, " is not permitted (wire form o)");
    }
    check_ivars(gate, false);
    return opaque;
}

static struct value check_struct(struct gate *gate, bool ivars)
{
    size_t index = gate_add_object(gate, opened);
    struct span name = gate_take_symbol(gate);
    struct value value = {.kind = OBJECT, .cost = COST_CALL, .height = 1};
    if (!is_permitted(gate, name, RESULT_STRUCT)) {
        return refuse_class(gate, name, " is not permitted (wire form S)");
    }
    for (uint32_t count = gate_take_count(gate, 2); count > 0 && !gate->refused; count--) {
        gate_take_symbol(gate);
        gate_absorb(&value, gate_check_value(gate));
    }
    if (ivars) {
        check_ivars(gate, false);
    }
    return gate_close_object(gate, index, value);
}

/* Counted after its class, and before what its marshal_load gets. */
static struct value check_user_marshal(struct gate *gate, bool ivars)
{
    (void)ivars;
    struct span name = gate_take_symbol(gate);
    size_t index = gate_add_object(gate, opaque);
    const struct plain_class *plain = gate_find_class(gate, name, RESULT_USER_MARSHAL);
    if (plain) {
        return gate_close_object(gate, index, gate_check_class(gate, plain, false));
    }
    if (!is_permitted(gate, name, RESULT_USER_MARSHAL)) {
        return refuse_class(gate, name, " is not permitted (wire form U)");
    }
    gate_check_value(gate);
    return opaque;
}

/* Counted last of all, after the instance variables of the bytes that its _load gets. */
static struct value check_user_defined(struct gate *gate, bool ivars)
{
    struct span name = gate_take_symbol(gate);
    const struct plain_class *plain = gate_find_class(gate, name, RESULT_USER_DEFINED);
    if (plain) {
        return gate_add_leaf(gate, gate_check_class(gate, plain, ivars));
    }
    if (!is_permitted(gate, name, RESULT_USER_DEFINED)) {
        return refuse_class(gate, name, " is not permitted (wire form u)");
    }
    gate_take_span(gate, 1);
    if (ivars) {
        check_ivars(gate, true);
    }
    return gate_add_leaf(gate, opaque);
}

/* The String, Array or Hash that follows the name of its subclass. */
static struct value check_subclass_body(struct gate *gate, bool ivars)
{
    unsigned identity = BY_EQUALITY;
    struct value value = nothing;
    bool string = gate_take_if(gate, '"');
    if (string) {
        value = gate_add_leaf(gate, gate_leaf(OBJECT, gate_take_span(gate, 1).length));
    } else if (gate_take_if(gate, '[')) {
        value = gate_check_array(gate, false);
    } else {
        if (gate_take_if(gate, 'C')) {
            identity = gate_span_is(gate, gate_take_symbol(gate), "Hash") ? BY_IDENTITY : OF_SET;
        }
        if (identity != OF_SET && gate_take_if(gate, '{')) {
            value = gate_check_pairs(gate, identity);
        } else if (identity != OF_SET && gate_take_if(gate, '}')) {
            value = gate_check_pairs(gate, identity | WITH_DEFAULT);
        } else {
            gate_refuse(gate, "a subclass is neither of String, nor of Array, nor of Hash");
        }
    }
    if (ivars) {
        check_ivars(gate, string);
    }
    return value;
}

/* C :Hash before a Hash is how Marshal marks one that compares by identity. */
static struct value check_subclass(struct gate *gate, bool ivars)
{
    struct span name = gate_take_symbol(gate);
    if (gate_span_is(gate, name, "Hash") && !ivars) {
        if (gate_take_if(gate, '{')) {
            return gate_check_pairs(gate, BY_IDENTITY);
        }
        if (gate_take_if(gate, '}')) {
            return gate_check_pairs(gate, BY_IDENTITY | WITH_DEFAULT);
        }
    }
    if (!is_permitted(gate, name, RESULT_SUBCLASS)) {
        return refuse_class(gate, name, " is not permitted (wire form C)");
    }
    return check_subclass_body(gate, ivars);
}

/* ---- the walk ---- */

/* What follows each type byte, or why it is refused. `ivars`: Marshal writes I before it. */
static const struct wire {
    struct value (*check)(struct gate *gate, bool ivars);
    bool ivars;
    const char *refusal;
} wires[UINT8_MAX + 1] = {
    ['0'] = {.check = gate_check_nil},
    ['T'] = {.check = gate_check_boolean},
    ['F'] = {.check = gate_check_boolean},
    ['i'] = {.check = gate_check_fixnum},
    ['l'] = {.check = gate_check_bignum},
    ['f'] = {.check = gate_check_float},
    ['"'] = {.check = gate_check_string, .ivars = true},
    [':'] = {.check = gate_check_symbol, .ivars = true},
    [';'] = {.check = gate_check_symbol_link},
    ['@'] = {.check = gate_check_link},
    ['['] = {.check = gate_check_array},
    ['{'] = {.check = gate_check_hash},
    ['}'] = {.check = gate_check_default_hash},
    ['o'] = {.check = check_object},
    ['S'] = {.check = check_struct, .ivars = true},
    ['U'] = {.check = check_user_marshal},
    ['u'] = {.check = check_user_defined, .ivars = true},
    ['C'] = {.check = check_subclass, .ivars = true},
    ['c'] = {.refusal = "a Class is not a plain value"},
    ['m'] = {.refusal = "a Module is not a plain value"},
    ['M'] = {.refusal = "a Class or Module is not a plain value"},
    ['e'] = {.refusal = "an object extended with a Module is not a plain value"},
    ['d'] = {.refusal = "an object of a C extension is not a plain value"},
    ['/'] = {.refusal = "a Regexp is not a plain value: matching it may never end"},
};

#define TEXT(number) #number
#define DEPTH_TEXT(number) TEXT(number)

struct value gate_check_value(struct gate *gate)
{
    if (gate->depth == RESULT_DEPTH_MAX) {
        return gate_refuse(gate, "it is nested deeper than " DEPTH_TEXT(RESULT_DEPTH_MAX));
    }
    bool ivars = gate_take_if(gate, 'I');
    const struct wire *wire = &wires[gate_take_byte(gate)];
    if (gate->refused) {
        return nothing;
    }
    if (!wire->check) {
        return gate_refuse(gate, wire->refusal ? wire->refusal : "a type is unknown to Marshal");
    }
    if (ivars && !wire->ivars) {
        return gate_refuse(gate, "a plain value has instance variables");
    }
    gate->depth++;
    gate_charge_load(gate, LOAD_VALUE);
    struct value value = wire->check(gate, ivars);
    gate->depth--;
    return value;
}

/* "1 byte too many", without stdio. */
static void refuse_rest(struct gate *gate, size_t rest)
{
    char number[24];
    char *start = number + sizeof(number) - 1;
    *start = '\0';
    for (size_t left = rest; left > 0; left /= 10) {
        *--start = (char)('0' + left % 10);
    }
    const char *bytes = rest == 1 ? " byte too many" : " bytes too many";
    gate_refuse_words(gate, (const char *const[]){start, bytes}, 2);
}

static void check_document(struct gate *gate)
{
    if (gate->length > INT32_MAX) {
        gate_refuse(gate, "it is longer than 2 GiB");
    }
    uint8_t major = gate_take_byte(gate), minor = gate_take_byte(gate);
    if (major != 4 || minor != 8) {
        gate_refuse(gate, "it is not in the format Marshal 4.8");
    }
    gate_check_value(gate);
    if (gate->at < gate->length) {
        refuse_rest(gate, gate->length - gate->at);
    }
}

bool result_check(const uint8_t *bytes, size_t length, const struct result_policy *policy,
                  struct result_refusal *refusal)
{
    struct gate gate = {
        .bytes = bytes,
        .length = length,
        .policy = policy,
        .refusal = refusal,
        .budget = (uint64_t)length + COST_FREE,
    };
    check_document(&gate);
    free(gate.objects);
    free(gate.symbols);
    return !gate.refused;
}

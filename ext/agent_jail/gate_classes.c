/*
 * gate_classes.c - plain values that Marshal writes by the name of their class, each in the form
 * that its class gives it: Range, Set, Rational, Complex, Date, DateTime, Time, BigDecimal.
 */
#include <string.h>

#include "gate_cost.h"
#include "gate_reader.h"

enum {
    COST_SMALL = 4, /* of a part that loading works on: no more than 63 bytes */
    TIME_BYTES_MIN = 8,
    TIME_BYTES_MAX = 64, /* the year follows the first 8: this one has 130 digits */
};

#define KIND(kind) (1U << (kind))
#define INTEGERS (KIND(FIXNUM) | KIND(BIGNUM))
#define REALS (INTEGERS | KIND(FLOAT) | KIND(NOT_A_NUMBER) | KIND(RATIONAL))
#define RANGE_ENDS                                                                                 \
    (INTEGERS | KIND(FLOAT) | KIND(RATIONAL) | KIND(COMPLEX) | KIND(DECIMAL) | KIND(NIL) |         \
     KIND(STRING) | KIND(SYMBOL) | KIND(DATE) | KIND(TIME))

/* One element of what a class dumps, or one instance variable of it. */
struct part {
    const char *name; /* NULL: by position */
    unsigned kinds;
    bool small;       /* loading calculates with it, or looks it up */
    int32_t min, max; /* of a Fixnum, unless both are 0 */
};

struct plain_class {
    const char *name;
    enum result_form form;
    enum kind kind;
    struct value (*check)(struct gate *gate, const struct plain_class *plain, bool ivars);
    const struct part *parts;
    size_t part_count;
};

static const struct part rational_parts[] = {{.kinds = INTEGERS}, {.kinds = INTEGERS}};

static const struct part complex_parts[] = {{.kinds = REALS}, {.kinds = REALS}};

/* Periods of 71149239 days, day in three of them, second, nanoseconds, offset, day of reform. */
static const struct part date_parts[] = {
    {.kinds = INTEGERS, .small = true},
    {.kinds = KIND(FIXNUM), .min = -366, .max = 3 * 71149239 + 366},
    {.kinds = KIND(FIXNUM), .min = 0, .max = 86399},
    {.kinds = INTEGERS | KIND(RATIONAL), .small = true},
    {.kinds = KIND(FIXNUM), .min = -86400, .max = 86400},
    {.kinds = KIND(FLOAT)},
};

static const struct part time_parts[] = {
    {.name = "offset", .kinds = INTEGERS | KIND(RATIONAL) | KIND(NIL), .small = true},
    {.name = "zone", .kinds = KIND(STRING) | KIND(NIL), .small = true},
    {.name = "nano_num", .kinds = INTEGERS, .small = true},
    {.name = "nano_den", .kinds = INTEGERS, .small = true},
    {.name = "submicro", .kinds = KIND(STRING), .small = true},
};

static const struct part range_parts[] = {
    {.name = "excl", .kinds = KIND(BOOLEAN)},
    {.name = "begin", .kinds = RANGE_ENDS},
    {.name = "end", .kinds = RANGE_ENDS},
};

static struct value check_part(struct gate *gate, const struct plain_class *plain,
                               const struct part *part)
{
    struct value value = gate_check_value(gate);
    bool bounded = part->min != part->max;
    uint32_t small = value.kind == RATIONAL ? COST_CALL + 2 * COST_SMALL : COST_SMALL;
    if (!(part->kinds & KIND(value.kind)) ||
        (bounded && (gate->fixnum < part->min || gate->fixnum > part->max))) {
        gate_refuse_words(gate, (const char *const[]){"a ", plain->name, " is not in its form"}, 3);
    } else if (part->small && value.cost > small) {
        gate_refuse_words(gate, (const char *const[]){"a ", plain->name, " has too long a part"},
                          3);
    }
    return value;
}

/* U with an Array of parts. The Array is Marshal's own. */
static struct value check_tuple(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    (void)ivars;
    struct value value = {.kind = (uint8_t)plain->kind, .cost = COST_CALL, .parts = 1};
    bool array = gate_take_if(gate, '[');
    gate_add_object(gate, nothing);
    if (!array || gate_take_count(gate, 1) != plain->part_count) {
        gate_refuse_words(gate, (const char *const[]){"a ", plain->name, " is not in its form"}, 3);
    }
    for (size_t i = 0; i < plain->part_count && !gate->refused; i++) {
        struct value part = check_part(gate, plain, &plain->parts[i]);
        value.cost = gate_plus(value.cost, part.cost);
        value.parts = part.parts == STEERED ? STEERED : value.parts;
    }
    return value;
}

/* Reads the value of the part named `name` and returns its place, or the number of parts. */
static size_t take_named_part(struct gate *gate, const struct plain_class *plain,
                              struct value *value)
{
    struct span name = gate_take_symbol(gate);
    for (size_t i = 0; i < plain->part_count; i++) {
        if (gate_span_is(gate, name, plain->parts[i].name)) {
            *value = check_part(gate, plain, &plain->parts[i]);
            return i;
        }
    }
    gate_refuse_words(gate, (const char *const[]){"a ", plain->name, " has instance variables"}, 3);
    return plain->part_count;
}

/* Named parts, each at most once; `found` has the bit of each one, `values` what was read. */
static unsigned check_named_parts(struct gate *gate, const struct plain_class *plain,
                                  struct value *values)
{
    unsigned found = 0;
    for (uint32_t count = gate_take_count(gate, 2); count > 0 && !gate->refused; count--) {
        struct value value = nothing;
        size_t place = take_named_part(gate, plain, &value);
        if (gate->refused) {
            break;
        }
        if (found & 1U << place) {
            gate_refuse_words(gate, (const char *const[]){"a ", plain->name, " repeats itself"}, 3);
        }
        found |= 1U << place;
        values[place] = value;
    }
    return found;
}

static struct value check_range(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    (void)ivars;
    struct value parts[3] = {nothing, nothing, nothing};
    struct value value = {.kind = CONTAINER, .cost = COST_CALL, .height = 1};
    if (check_named_parts(gate, plain, parts) != 7) {
        return gate_refuse(gate, "a Range is not in its form");
    }
    gate_absorb(&value, parts[1]);
    gate_absorb(&value, parts[2]);
    gate_charge_ends(gate, (uint64_t)parts[1].cost + parts[2].cost);
    return value;
}

static struct value check_set(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    (void)plain;
    (void)ivars;
    unsigned pairs = OF_SET;
    bool form =
        gate_take_count(gate, 2) == 1 && gate_span_is(gate, gate_take_symbol(gate), "@hash");
    if (form && gate_take_if(gate, 'C')) {
        form = gate_span_is(gate, gate_take_symbol(gate), "Hash");
        pairs |= BY_IDENTITY;
    }
    if (!form || !gate_take_if(gate, '}')) {
        return gate_refuse(gate, "a Set is not in its form");
    }
    struct value value = gate_check_pairs(gate, pairs);
    value.height = gate_plus_small(value.height, 1);
    return value;
}

static struct value check_time(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    struct value parts[sizeof(time_parts) / sizeof(time_parts[0])];
    struct span text = gate_take_span(gate, 1);
    if (!ivars || text.length < TIME_BYTES_MIN || text.length > TIME_BYTES_MAX) {
        return gate_refuse(gate, "a Time is not in its form");
    }
    gate_charge_load(gate, LOAD_TIME);
    check_named_parts(gate, plain, parts);
    return (struct value){.kind = TIME, .cost = COST_CALL, .parts = 1};
}

/* How many digits stand at `at`, up to `end`. */
static uint32_t digits(const struct gate *gate, uint32_t at, uint32_t end)
{
    uint32_t count = 0;
    while (at + count < end && gate->bytes[at + count] >= '0' && gate->bytes[at + count] <= '9') {
        count++;
    }
    return count;
}

static bool is_decimal(const struct gate *gate, struct span text)
{
    uint32_t at = text.start, end = text.start + text.length;
    if (at < end && gate->bytes[at] == '-') {
        at++;
    }
    struct span rest = {at, end - at};
    if (gate_span_is(gate, rest, "NaN") || gate_span_is(gate, rest, "Infinity")) {
        return true;
    }
    if (rest.length < 3 || memcmp(gate->bytes + at, "0.", 2) != 0) {
        return false;
    }
    at += 2;
    uint32_t fraction = digits(gate, at, end);
    at += fraction;
    if (at < end && gate->bytes[at] == 'e') {
        at += at + 1 < end && gate->bytes[at + 1] == '-' ? 2 : 1;
        uint32_t exponent = digits(gate, at, end);
        at += exponent;
        return fraction > 0 && exponent > 0 && exponent < 20 && at == end;
    }
    return fraction > 0 && at == end;
}

/* PRECISION:NUMBER. Loading allocates for the precision, so it is charged like digits. */
static struct value check_decimal(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    (void)plain;
    struct span text = gate_take_span(gate, 1);
    uint32_t end = text.start + text.length;
    uint32_t length = digits(gate, text.start, end);
    uint32_t colon = text.start + length;
    uint64_t precision = 0;
    for (uint32_t i = 0; i < length && length < 10; i++) {
        precision = precision * 10 + (uint64_t)(gate->bytes[text.start + i] - '0');
    }
    if (length == 0 || length >= 10 || colon == end || gate->bytes[colon] != ':' ||
        !is_decimal(gate, (struct span){colon + 1, end - colon - 1})) {
        return gate_refuse(gate, "a BigDecimal is not a number");
    }
    if (ivars) {
        gate_check_encoding(gate);
    }
    gate_charge_load(gate, LOAD_DECIMAL);
    gate_charge(gate, precision / COST_BYTES);
    struct value value = {.kind = DECIMAL, .parts = STEERED};
    value.cost = gate_plus(COST_CALL + text.length / COST_BYTES, precision / COST_BYTES);
    return value;
}

#define PARTS(parts) parts, sizeof(parts) / sizeof(parts[0])

static const struct plain_class plain_classes[] = {
    {"Range", RESULT_OBJECT, CONTAINER, check_range, PARTS(range_parts)},
    {"Set", RESULT_OBJECT, CONTAINER, check_set, NULL, 0},
    {"Rational", RESULT_USER_MARSHAL, RATIONAL, check_tuple, PARTS(rational_parts)},
    {"Complex", RESULT_USER_MARSHAL, COMPLEX, check_tuple, PARTS(complex_parts)},
    {"Date", RESULT_USER_MARSHAL, DATE, check_tuple, PARTS(date_parts)},
    {"DateTime", RESULT_USER_MARSHAL, DATE, check_tuple, PARTS(date_parts)},
    {"Time", RESULT_USER_DEFINED, TIME, check_time, PARTS(time_parts)},
    {"BigDecimal", RESULT_USER_DEFINED, DECIMAL, check_decimal, NULL, 0},
};

const struct plain_class *gate_find_class(const struct gate *gate, struct span name,
                                          enum result_form form)
{
    for (size_t i = 0; i < sizeof(plain_classes) / sizeof(plain_classes[0]); i++) {
        if (plain_classes[i].form == form && gate_span_is(gate, name, plain_classes[i].name)) {
            return &plain_classes[i];
        }
    }
    return NULL;
}

struct value gate_check_class(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    return plain->check(gate, plain, ivars);
}

/*
 * result.c - the gate: decides on the bytes alone whether a result may be handed to Marshal.load.
 *
 * Marshal.load runs code of every class that the bytes name, loads a library for every encoding
 * that they name, and hashes every key. So the gate walks the same bytes with the same numbering
 * of objects and symbols, takes only what Marshal.dump makes of plain values and of permitted
 * classes, and refuses all else.
 *
 * Refusal is sticky: the first reason stays and the position jumps to the end, so that every
 * reader below may go on blindly, finds no more bytes, and returns.
 */
#include <stdlib.h>
#include <string.h>

#include "jail.h"

/*
 * What hashing keys may cost. The child was forked from the parent, so it knows the parent's hash
 * seed; and it may share one big object between many keys at four bytes each. Costs are in units
 * of about 10 ns: what Ruby takes for the hash of an Integer, or for 16 bytes of a String. The
 * budget is COST_FREE and one unit a byte, which honest results do not come near: their keys are
 * short, or occur once. The worst that passes took Ruby 3.1, beside the loading itself, 1.0 s where
 * it was short (14,000 NaN keys) and would take 1.7 s at 64 MB. Beyond it are, in one Hash or Set,
 * more than some 3,500 BigDecimals or 2,800 Arrays of 13 elements as keys.
 */
enum {
    COST_LEAF = 1,
    COST_BYTES = 16,      /* bytes a unit */
    COST_CALL = 12,       /* a call of #hash or #eql? by name */
    COST_FREE = 96 << 20, /* what a short result may cost beside its length */
    COST_SMALL = 4,       /* of a part that loading works on: no more than 63 bytes */
    KEY_HEIGHT_MAX = 64,  /* of a key: its hash overflows a Fiber of Ruby 3.1 at 432 */
    KEY_PARTS_MAX = 12,   /* of a key whose hash counts as beyond the child's choice */
    STEERED = UINT8_MAX,  /* parts of a value whose hash the child chooses */
    TIME_BYTES_MIN = 8,
    TIME_BYTES_MAX = 64, /* the year follows the first 8: this one has 130 digits */
    FLOAT_BYTES_MAX = 64,
    NAME_SHOWN_MAX = 64,
};

enum kind {
    OPEN,     /* a container that is not read to its end */
    HIDDEN,   /* a helper object of Marshal's: no link leads to it in an honest dump */
    ENCODING, /* the name of an encoding: only other encodings link to it */
    NIL,
    BOOLEAN,
    SYMBOL,
    FIXNUM,
    BIGNUM,
    FLOAT,
    NOT_A_NUMBER,
    STRING,
    RATIONAL,
    COMPLEX,
    DECIMAL,
    DATE,
    TIME,
    CONTAINER,
    OBJECT, /* of a permitted class */
};

#define KIND(kind) (1U << (kind))
#define INTEGERS (KIND(FIXNUM) | KIND(BIGNUM))
#define REALS (INTEGERS | KIND(FLOAT) | KIND(NOT_A_NUMBER) | KIND(RATIONAL))
#define RANGE_ENDS                                                                                 \
    (INTEGERS | KIND(FLOAT) | KIND(RATIONAL) | KIND(COMPLEX) | KIND(DECIMAL) | KIND(NIL) |         \
     KIND(STRING) | KIND(SYMBOL) | KIND(DATE) | KIND(TIME))

/* What is kept of a value: eight bytes for each one that a link can lead to. Numbers saturate. */
struct value {
    uint32_t cost;  /* of one hash, shared things below counted as often as they occur */
    uint8_t kind;   /* enum kind */
    uint8_t height; /* containers on the longest way down */
    uint8_t parts;  /* how many hashes its own is mixed from */
};

static const struct value nothing = {.kind = HIDDEN};
static const struct value opened = {
    .kind = OPEN, .cost = UINT32_MAX, .height = UINT8_MAX, .parts = STEERED};
static const struct value opaque = {.kind = OBJECT, .cost = COST_CALL, .parts = 1};

struct span {
    uint32_t start, length;
};

struct gate {
    const uint8_t *bytes;
    size_t length, at;
    const struct result_policy *policy;
    struct result_refusal *refusal;
    bool refused;
    unsigned depth;
    uint64_t budget;       /* what is left for hashing */
    uint32_t load;         /* what it costs to load so far, at most RESULT_LOAD_MAX */
    uint32_t names;        /* of instance variables, which stay in the parent for ever */
    int64_t fixnum;        /* the one read last */
    struct value *objects; /* as `@` counts them */
    size_t object_count, object_room;
    struct span *symbols; /* as `;` counts them */
    size_t symbol_count, symbol_room;
};

/* ---- saying why ---- */

static void refuse_words(struct gate *gate, const char *const *words, size_t count)
{
    if (gate->refused) {
        return;
    }
    char *reason = gate->refusal->reason;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        size_t room = sizeof(gate->refusal->reason) - 1 - used;
        length = length < room ? length : room;
        memcpy(reason + used, words[i], length);
        used += length;
    }
    reason[used] = '\0';
    gate->refusal->offset = gate->at;
    gate->refused = true;
    gate->at = gate->length;
}

static struct value refuse(struct gate *gate, const char *reason)
{
    refuse_words(gate, &reason, 1);
    return nothing;
}

/* The name is the child's: some of it, and only what a terminal or a log takes. */
static void refuse_name(struct gate *gate, const char *before, struct span name, const char *after,
                        const char *last)
{
    char shown[NAME_SHOWN_MAX + 1] = "";
    for (size_t i = 0; i < name.length && i < NAME_SHOWN_MAX; i++) {
        uint8_t byte = gate->bytes[name.start + i];
        shown[i] = byte >= ' ' && byte <= '~' ? (char)byte : '?';
    }
    refuse_words(gate, (const char *const[]){before, shown, after, last}, 4);
}

static struct value refuse_class(struct gate *gate, struct span name, const char *form)
{
    refuse_name(gate, "class ", name, form, ": name it in permitted_classes");
    return nothing;
}

/* ---- reading ---- */

static uint8_t take_byte(struct gate *gate)
{
    if (gate->at == gate->length) {
        refuse(gate, "the bytes end early");
        return 0;
    }
    return gate->bytes[gate->at++];
}

static bool take_if(struct gate *gate, char byte)
{
    if (gate->at == gate->length || gate->bytes[gate->at] != (uint8_t)byte) {
        return false;
    }
    gate->at++;
    return true;
}

/* Marshal's packed integer: small in the first byte, else that many bytes, little end first. */
static int64_t take_long(struct gate *gate)
{
    int first = (int8_t)take_byte(gate);
    if (first > 4) {
        return first - 5;
    }
    if (first < -4) {
        return first + 5;
    }
    int bytes = first < 0 ? -first : first;
    int64_t number = 0;
    for (int i = 0; i < bytes; i++) {
        number |= (int64_t)take_byte(gate) << (8 * i);
    }
    return first < 0 ? number - ((int64_t)1 << (8 * bytes)) : number;
}

/* A number of things that take at least `unit` bytes each. */
static uint32_t take_count(struct gate *gate, size_t unit)
{
    int64_t count = take_long(gate);
    if (count < 0) {
        refuse(gate, "a length is negative");
        return 0;
    }
    if ((uint64_t)count > (gate->length - gate->at) / unit) {
        refuse(gate, "the bytes end early");
        return 0;
    }
    return (uint32_t)count;
}

static struct span take_span(struct gate *gate, size_t unit)
{
    size_t bytes = take_count(gate, unit) * unit;
    struct span span = {(uint32_t)gate->at, (uint32_t)bytes};
    gate->at += bytes;
    return span;
}

static bool span_is(const struct gate *gate, struct span span, const char *text)
{
    size_t length = strlen(text);
    return span.length == length && memcmp(gate->bytes + span.start, text, length) == 0;
}

/* ---- what links lead to ---- */

/* Room for one more item; doubled, so at most two items' room for each item that the bytes held. */
static bool grow(struct gate *gate, void **items, size_t count, size_t *room, size_t size)
{
    if (gate->refused) {
        return false;
    }
    if (count < *room) {
        return true;
    }
    size_t wanted = *room ? *room * 2 : 64;
    void *grown = realloc(*items, wanted * size);
    if (!grown) {
        refuse(gate, "there is no memory to check it");
        return false;
    }
    *items = grown;
    *room = wanted;
    return true;
}

/* Loading takes time and room that the bytes do not show; the caller stands still meanwhile. */
static void charge_load(struct gate *gate, uint32_t cost)
{
    gate->load += cost;
    if (gate->load > RESULT_LOAD_MAX) {
        gate->load = RESULT_LOAD_MAX;
        refuse(gate, "it holds more values than can be loaded in a few seconds");
    }
}

static size_t add_object(struct gate *gate, struct value value)
{
    charge_load(gate, LOAD_OBJECT);
    void *items = gate->objects;
    if (!grow(gate, &items, gate->object_count, &gate->object_room, sizeof(value))) {
        return 0;
    }
    gate->objects = items;
    gate->objects[gate->object_count] = value;
    return gate->object_count++;
}

static struct value add_leaf(struct gate *gate, struct value value)
{
    add_object(gate, value);
    return value;
}

static struct value close_object(struct gate *gate, size_t index, struct value value)
{
    if (!gate->refused) {
        gate->objects[index] = value;
    }
    return value;
}

static void add_symbol(struct gate *gate, struct span name)
{
    charge_load(gate, LOAD_OBJECT);
    void *items = gate->symbols;
    if (grow(gate, &items, gate->symbol_count, &gate->symbol_room, sizeof(name))) {
        gate->symbols = items;
        gate->symbols[gate->symbol_count++] = name;
    }
}

static struct value linked(struct gate *gate)
{
    int64_t index = take_long(gate);
    if (index < 0 || (uint64_t)index >= gate->object_count) {
        return refuse(gate, "a link leads to no object");
    }
    return gate->objects[index];
}

/* ---- values ---- */

static struct value check_value(struct gate *gate);

static uint32_t plus(uint32_t a, uint64_t b)
{
    return b < UINT32_MAX - a ? a + (uint32_t)b : UINT32_MAX;
}

static uint8_t plus_small(uint8_t a, unsigned b)
{
    return b < UINT8_MAX - (unsigned)a ? (uint8_t)(a + b) : UINT8_MAX;
}

static struct value leaf(enum kind kind, uint32_t bytes)
{
    return (struct value){
        .kind = (uint8_t)kind, .cost = COST_LEAF + bytes / COST_BYTES, .parts = 1};
}

static void absorb(struct value *value, struct value child)
{
    value->cost = plus(value->cost, child.cost);
    value->parts = plus_small(value->parts, child.parts);
    unsigned height = child.height + 1U;
    if (height > value->height) {
        value->height = height < UINT8_MAX ? (uint8_t)height : UINT8_MAX;
    }
}

static void charge(struct gate *gate, uint64_t cost)
{
    if (cost > gate->budget) {
        refuse(gate, "loading it would take too long: its keys are too big or too often shared");
    } else {
        gate->budget -= cost;
    }
}

/*
 * The hash of a key, and the comparisons with the keys before it whose hash may be the same.
 * Bytes go through SipHash, which leaves no way to many keys of one hash; BigDecimal adds its
 * exponent, Hash and Set combine by XOR, NaN is never equal, and a long Array gives room to build
 * collisions step by step. Of those every key in a Hash is taken to collide with all before it.
 */
static void charge_key(struct gate *gate, struct value key, uint32_t *steered)
{
    if (key.height > KEY_HEIGHT_MAX) {
        refuse(gate, "a key is nested too deep or leads back to itself");
    }
    if (key.parts > KEY_PARTS_MAX) {
        charge(gate, (uint64_t)key.cost * ++*steered);
    } else {
        charge(gate, key.cost);
    }
}

/* ---- symbols and encodings ---- */

/* Names that make Marshal do something else than set an instance variable. */
static bool is_special(const struct gate *gate, struct span name)
{
    return span_is(gate, name, "E") || span_is(gate, name, "encoding") || span_is(gate, name, "K");
}

static struct span linked_symbol(struct gate *gate)
{
    int64_t index = take_long(gate);
    if (index < 0 || (uint64_t)index >= gate->symbol_count) {
        refuse(gate, "a Symbol link leads to no Symbol");
        return (struct span){0, 0};
    }
    return gate->symbols[index];
}

/* Ruby makes one String of each encoding's name, and links to it from then on. */
static void check_encoding_name(struct gate *gate)
{
    if (take_if(gate, '@')) {
        if (linked(gate).kind != ENCODING) {
            refuse(gate, "an encoding's name is a link to something else");
        }
        return;
    }
    if (!take_if(gate, '"')) {
        refuse(gate, "an encoding's name is not a String");
        return;
    }
    struct span name = take_span(gate, 1);
    for (size_t i = 0; i < gate->policy->encoding_count; i++) {
        if (span_is(gate, name, gate->policy->encodings[i])) {
            add_object(gate, leaf(ENCODING, 0));
            return;
        }
    }
    refuse_name(gate, "encoding ", name, " is not built in", "");
}

static void check_encoding_value(struct gate *gate, struct span name)
{
    if (span_is(gate, name, "encoding")) {
        check_encoding_name(gate);
    } else if (!span_is(gate, name, "E")) {
        refuse(gate, "a plain value has instance variables");
    } else if (!take_if(gate, 'T') && !take_if(gate, 'F')) {
        refuse(gate, "an encoding is neither true nor false");
    }
}

static struct span take_symbol(struct gate *gate);

/*
 * The one instance variable that Marshal gives a String or Symbol. Its name never has an encoding
 * itself, which also ends the recursion from Symbols to their encodings.
 */
static void check_encoding(struct gate *gate)
{
    if (take_count(gate, 2) != 1) {
        refuse(gate, "a plain value has instance variables");
    }
    if (take_if(gate, 'I')) {
        refuse(gate, "a plain value has instance variables");
    }
    check_encoding_value(gate, take_symbol(gate));
}

/*
 * Counted before its encoding is read, as Ruby counts it. A Symbol that has an encoding cannot be
 * one of the special names: Ruby gives ASCII none, and takes such a name for an ordinary one.
 */
static struct span new_symbol(struct gate *gate, bool ivars)
{
    struct span name = take_span(gate, 1);
    add_symbol(gate, name);
    if (ivars) {
        if (is_special(gate, name)) {
            refuse(gate, "a Symbol has an encoding that Ruby would not give it");
        }
        check_encoding(gate);
    }
    return name;
}

/* A name: of a class, an instance variable, a member. */
static struct span take_symbol(struct gate *gate)
{
    if (take_if(gate, ';')) {
        return linked_symbol(gate);
    }
    bool ivars = take_if(gate, 'I');
    if (!take_if(gate, ':')) {
        refuse(gate, gate->at == gate->length ? "the bytes end early" : "a name is not a Symbol");
    }
    return new_symbol(gate, ivars);
}

static struct value check_symbol(struct gate *gate, bool ivars)
{
    new_symbol(gate, ivars);
    return leaf(SYMBOL, 0);
}

static struct value check_symbol_link(struct gate *gate, bool ivars)
{
    (void)ivars;
    linked_symbol(gate);
    return leaf(SYMBOL, 0);
}

/* ---- values without a class name ---- */

static struct value check_nil(struct gate *gate, bool ivars)
{
    (void)gate;
    (void)ivars;
    return leaf(NIL, 0);
}

static struct value check_boolean(struct gate *gate, bool ivars)
{
    (void)gate;
    (void)ivars;
    return leaf(BOOLEAN, 0);
}

static struct value check_fixnum(struct gate *gate, bool ivars)
{
    (void)ivars;
    gate->fixnum = take_long(gate);
    return leaf(FIXNUM, 0);
}

static struct value check_bignum(struct gate *gate, bool ivars)
{
    (void)ivars;
    if (!take_if(gate, '+') && !take_if(gate, '-')) {
        refuse(gate, "an Integer has no sign");
    }
    struct span digits = take_span(gate, 2);
    return add_leaf(gate, leaf(BIGNUM, digits.length));
}

/* Marshal leaves the digits to strtod, and once packed a mantissa behind a NUL: digits only. */
static struct value check_float(struct gate *gate, bool ivars)
{
    (void)ivars;
    struct span text = take_span(gate, 1);
    struct value value = leaf(FLOAT, 0);
    if (span_is(gate, text, "nan")) {
        value.kind = NOT_A_NUMBER;
        value.parts = STEERED;
    } else if (!span_is(gate, text, "inf") && !span_is(gate, text, "-inf")) {
        bool digits = text.length > 0 && text.length <= FLOAT_BYTES_MAX;
        for (size_t i = 0; digits && i < text.length; i++) {
            uint8_t byte = gate->bytes[text.start + i];
            digits = byte && strchr("0123456789.eE+-", byte);
        }
        if (!digits) {
            return refuse(gate, "a Float is not a number");
        }
    }
    return add_leaf(gate, value);
}

static struct value check_string(struct gate *gate, bool ivars)
{
    struct value value = leaf(STRING, take_span(gate, 1).length);
    add_object(gate, value);
    if (ivars) {
        check_encoding(gate);
    }
    return value;
}

static struct value check_link(struct gate *gate, bool ivars)
{
    (void)ivars;
    struct value value = linked(gate);
    if (value.kind == HIDDEN || value.kind == ENCODING) {
        return refuse(gate, "a link leads into the inside of another value");
    }
    return value;
}

static struct value check_array(struct gate *gate, bool ivars)
{
    (void)ivars;
    size_t index = add_object(gate, opened);
    uint32_t count = take_count(gate, 1);
    struct value value = {.kind = CONTAINER, .cost = COST_CALL, .height = 1};
    while (count-- > 0 && !gate->refused) {
        absorb(&value, check_value(gate));
    }
    return close_object(gate, index, value);
}

enum pairs {
    BY_EQUALITY = 0,
    BY_IDENTITY = 1 << 0, /* keys are compared as objects, and not hashed by what they hold */
    WITH_DEFAULT = 1 << 1,
    OF_SET = 1 << 2, /* the Hash inside a Set */
};

static struct value check_pairs(struct gate *gate, unsigned pairs)
{
    size_t index = add_object(gate, pairs & OF_SET ? nothing : opened);
    uint32_t count = take_count(gate, 2);
    uint32_t steered = 0;
    struct value value = {.kind = CONTAINER, .cost = COST_CALL, .height = 1};
    while (count-- > 0 && !gate->refused) {
        charge_load(gate, LOAD_PAIR);
        struct value key = check_value(gate);
        absorb(&value, key);
        if (!(pairs & OF_SET)) {
            absorb(&value, check_value(gate));
        } else if (!take_if(gate, 'T')) {
            refuse(gate, "a Set is not in the form that Set has");
        }
        if (!(pairs & BY_IDENTITY)) {
            charge_key(gate, key, &steered);
        }
    }
    if (pairs & OF_SET) {
        if (!take_if(gate, 'F')) {
            refuse(gate, "a Set is not in the form that Set has");
        }
    } else if (pairs & WITH_DEFAULT) {
        absorb(&value, check_value(gate));
    }
    value.parts = STEERED;
    return pairs & OF_SET ? value : close_object(gate, index, value);
}

static struct value check_hash(struct gate *gate, bool ivars)
{
    (void)ivars;
    return check_pairs(gate, BY_EQUALITY);
}

static struct value check_default_hash(struct gate *gate, bool ivars)
{
    (void)ivars;
    return check_pairs(gate, WITH_DEFAULT);
}

/* ---- values of plain classes that Marshal writes by name ---- */

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
    struct value value = check_value(gate);
    bool bounded = part->min != part->max;
    uint32_t small = value.kind == RATIONAL ? COST_CALL + 2 * COST_SMALL : COST_SMALL;
    if (!(part->kinds & KIND(value.kind)) ||
        (bounded && (gate->fixnum < part->min || gate->fixnum > part->max))) {
        refuse_words(gate, (const char *const[]){"a ", plain->name, " is not in its form"}, 3);
    } else if (part->small && value.cost > small) {
        refuse_words(gate, (const char *const[]){"a ", plain->name, " has too long a part"}, 3);
    }
    return value;
}

/* U with an Array of parts. The Array is Marshal's own. */
static struct value check_tuple(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    (void)ivars;
    struct value value = {.kind = (uint8_t)plain->kind, .cost = COST_CALL, .parts = 1};
    bool array = take_if(gate, '[');
    add_object(gate, nothing);
    if (!array || take_count(gate, 1) != plain->part_count) {
        refuse_words(gate, (const char *const[]){"a ", plain->name, " is not in its form"}, 3);
    }
    for (size_t i = 0; i < plain->part_count && !gate->refused; i++) {
        struct value part = check_part(gate, plain, &plain->parts[i]);
        value.cost = plus(value.cost, part.cost);
        value.parts = part.parts == STEERED ? STEERED : value.parts;
    }
    return value;
}

/* Reads the value of the part named `name` and returns its place, or the number of parts. */
static size_t take_named_part(struct gate *gate, const struct plain_class *plain,
                              struct value *value)
{
    struct span name = take_symbol(gate);
    for (size_t i = 0; i < plain->part_count; i++) {
        if (span_is(gate, name, plain->parts[i].name)) {
            *value = check_part(gate, plain, &plain->parts[i]);
            return i;
        }
    }
    refuse_words(gate, (const char *const[]){"a ", plain->name, " has instance variables"}, 3);
    return plain->part_count;
}

/* Named parts, each at most once; `found` has the bit of each one, `values` what was read. */
static unsigned check_named_parts(struct gate *gate, const struct plain_class *plain,
                                  struct value *values)
{
    unsigned found = 0;
    for (uint32_t count = take_count(gate, 2); count > 0 && !gate->refused; count--) {
        struct value value = nothing;
        size_t place = take_named_part(gate, plain, &value);
        if (gate->refused) {
            break;
        }
        if (found & 1U << place) {
            refuse_words(gate, (const char *const[]){"a ", plain->name, " repeats itself"}, 3);
        }
        found |= 1U << place;
        values[place] = value;
    }
    return found;
}

/* Loading compares the ends, which may take the time of a product. */
static void charge_ends(struct gate *gate, uint64_t cost)
{
    charge(gate, cost + (cost < UINT32_MAX ? cost * cost / 8 : UINT32_MAX));
}

static struct value check_range(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    (void)ivars;
    struct value parts[3] = {nothing, nothing, nothing};
    struct value value = {.kind = CONTAINER, .cost = COST_CALL, .height = 1};
    if (check_named_parts(gate, plain, parts) != 7) {
        return refuse(gate, "a Range is not in its form");
    }
    absorb(&value, parts[1]);
    absorb(&value, parts[2]);
    charge_ends(gate, (uint64_t)parts[1].cost + parts[2].cost);
    return value;
}

static struct value check_set(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    (void)plain;
    (void)ivars;
    unsigned pairs = OF_SET;
    bool form = take_count(gate, 2) == 1 && span_is(gate, take_symbol(gate), "@hash");
    if (form && take_if(gate, 'C')) {
        form = span_is(gate, take_symbol(gate), "Hash");
        pairs |= BY_IDENTITY;
    }
    if (!form || !take_if(gate, '}')) {
        return refuse(gate, "a Set is not in its form");
    }
    struct value value = check_pairs(gate, pairs);
    value.height = plus_small(value.height, 1);
    return value;
}

static struct value check_time(struct gate *gate, const struct plain_class *plain, bool ivars)
{
    struct value parts[sizeof(time_parts) / sizeof(time_parts[0])];
    struct span text = take_span(gate, 1);
    if (!ivars || text.length < TIME_BYTES_MIN || text.length > TIME_BYTES_MAX) {
        return refuse(gate, "a Time is not in its form");
    }
    charge_load(gate, LOAD_TIME);
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
    if (span_is(gate, rest, "NaN") || span_is(gate, rest, "Infinity")) {
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
    struct span text = take_span(gate, 1);
    uint32_t end = text.start + text.length;
    uint32_t length = digits(gate, text.start, end);
    uint32_t colon = text.start + length;
    uint64_t precision = 0;
    for (uint32_t i = 0; i < length && length < 10; i++) {
        precision = precision * 10 + (uint64_t)(gate->bytes[text.start + i] - '0');
    }
    if (length == 0 || length >= 10 || colon == end || gate->bytes[colon] != ':' ||
        !is_decimal(gate, (struct span){colon + 1, end - colon - 1})) {
        return refuse(gate, "a BigDecimal is not a number");
    }
    if (ivars) {
        check_encoding(gate);
    }
    charge_load(gate, LOAD_DECIMAL);
    charge(gate, precision / COST_BYTES);
    struct value value = {.kind = DECIMAL, .parts = STEERED};
    value.cost = plus(COST_CALL + text.length / COST_BYTES, precision / COST_BYTES);
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

static const struct plain_class *find_plain(const struct gate *gate, struct span name,
                                            enum result_form form)
{
    for (size_t i = 0; i < sizeof(plain_classes) / sizeof(plain_classes[0]); i++) {
        if (plain_classes[i].form == form && span_is(gate, name, plain_classes[i].name)) {
            return &plain_classes[i];
        }
    }
    return NULL;
}

/* ---- values of permitted classes ---- */

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
    struct span name = take_symbol(gate);

    if (gate->symbol_count > known && ++gate->names > RESULT_NAMES_MAX) {
        refuse(gate, "it names too many instance variables");
    }
    return name;
}

/*
 * Any instance variables but the special ones. A subclass of Range compares its ends when it is
 * loaded, and a subclass of Set in Ruby 4 hashes again what it is given.
 */
static void check_ivars(struct gate *gate, bool encoded)
{
    for (uint32_t count = take_count(gate, 2); count > 0 && !gate->refused; count--) {
        struct span name = take_ivar_name(gate);
        if (is_special(gate, name)) {
            if (!encoded) {
                refuse_name(gate, "an instance variable is named ", name, "", "");
            }
            check_encoding_value(gate, name);
            encoded = false;
            continue;
        }
        bool shared = gate->at < gate->length && gate->bytes[gate->at] == '@';
        struct value value = check_value(gate);
        if (span_is(gate, name, "begin") || span_is(gate, name, "end")) {
            charge_ends(gate, value.cost);
        } else if (shared && span_is(gate, name, "@hash")) {
            charge(gate, value.cost);
        }
    }
}

/* Counted before its class is read. Hashing it is its class's affair, so it is opaque at once. */
static struct value check_object(struct gate *gate, bool ivars)
{
    (void)ivars;
    size_t index = add_object(gate, opaque);
    struct span name = take_symbol(gate);
    const struct plain_class *plain = find_plain(gate, name, RESULT_OBJECT);
    if (plain) {
        return close_object(gate, index, plain->check(gate, plain, false));
    }
    if (!is_permitted(gate, name, RESULT_OBJECT)) {
        return refuse_class(gate, name, " is not permitted (wire form o)");
    }
    check_ivars(gate, false);
    return opaque;
}

static struct value check_struct(struct gate *gate, bool ivars)
{
    size_t index = add_object(gate, opened);
    struct span name = take_symbol(gate);
    struct value value = {.kind = OBJECT, .cost = COST_CALL, .height = 1};
    if (!is_permitted(gate, name, RESULT_STRUCT)) {
        return refuse_class(gate, name, " is not permitted (wire form S)");
    }
    for (uint32_t count = take_count(gate, 2); count > 0 && !gate->refused; count--) {
        take_symbol(gate);
        absorb(&value, check_value(gate));
    }
    if (ivars) {
        check_ivars(gate, false);
    }
    return close_object(gate, index, value);
}

/* Counted after its class, and before what its marshal_load gets. */
static struct value check_user_marshal(struct gate *gate, bool ivars)
{
    (void)ivars;
    struct span name = take_symbol(gate);
    size_t index = add_object(gate, opaque);
    const struct plain_class *plain = find_plain(gate, name, RESULT_USER_MARSHAL);
    if (plain) {
        return close_object(gate, index, plain->check(gate, plain, false));
    }
    if (!is_permitted(gate, name, RESULT_USER_MARSHAL)) {
        return refuse_class(gate, name, " is not permitted (wire form U)");
    }
    check_value(gate);
    return opaque;
}

/* Counted last of all, after the instance variables of the bytes that its _load gets. */
static struct value check_user_defined(struct gate *gate, bool ivars)
{
    struct span name = take_symbol(gate);
    const struct plain_class *plain = find_plain(gate, name, RESULT_USER_DEFINED);
    if (plain) {
        return add_leaf(gate, plain->check(gate, plain, ivars));
    }
    if (!is_permitted(gate, name, RESULT_USER_DEFINED)) {
        return refuse_class(gate, name, " is not permitted (wire form u)");
    }
    take_span(gate, 1);
    if (ivars) {
        check_ivars(gate, true);
    }
    return add_leaf(gate, opaque);
}

/* The String, Array or Hash that follows the name of its subclass. */
static struct value check_subclass_body(struct gate *gate, bool ivars)
{
    unsigned identity = BY_EQUALITY;
    struct value value = nothing;
    bool string = take_if(gate, '"');
    if (string) {
        value = add_leaf(gate, leaf(OBJECT, take_span(gate, 1).length));
    } else if (take_if(gate, '[')) {
        value = check_array(gate, false);
    } else {
        if (take_if(gate, 'C')) {
            identity = span_is(gate, take_symbol(gate), "Hash") ? BY_IDENTITY : OF_SET;
        }
        if (identity != OF_SET && take_if(gate, '{')) {
            value = check_pairs(gate, identity);
        } else if (identity != OF_SET && take_if(gate, '}')) {
            value = check_pairs(gate, identity | WITH_DEFAULT);
        } else {
            refuse(gate, "a subclass is neither of String, nor of Array, nor of Hash");
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
    struct span name = take_symbol(gate);
    if (span_is(gate, name, "Hash") && !ivars) {
        if (take_if(gate, '{')) {
            return check_pairs(gate, BY_IDENTITY);
        }
        if (take_if(gate, '}')) {
            return check_pairs(gate, BY_IDENTITY | WITH_DEFAULT);
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
    ['0'] = {.check = check_nil},
    ['T'] = {.check = check_boolean},
    ['F'] = {.check = check_boolean},
    ['i'] = {.check = check_fixnum},
    ['l'] = {.check = check_bignum},
    ['f'] = {.check = check_float},
    ['"'] = {.check = check_string, .ivars = true},
    [':'] = {.check = check_symbol, .ivars = true},
    [';'] = {.check = check_symbol_link},
    ['@'] = {.check = check_link},
    ['['] = {.check = check_array},
    ['{'] = {.check = check_hash},
    ['}'] = {.check = check_default_hash},
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

static struct value check_value(struct gate *gate)
{
    if (gate->depth == RESULT_DEPTH_MAX) {
        return refuse(gate, "it is nested deeper than " DEPTH_TEXT(RESULT_DEPTH_MAX));
    }
    bool ivars = take_if(gate, 'I');
    const struct wire *wire = &wires[take_byte(gate)];
    if (gate->refused) {
        return nothing;
    }
    if (!wire->check) {
        return refuse(gate, wire->refusal ? wire->refusal : "a type is unknown to Marshal");
    }
    if (ivars && !wire->ivars) {
        return refuse(gate, "a plain value has instance variables");
    }
    gate->depth++;
    charge_load(gate, LOAD_VALUE);
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
    refuse_words(gate, (const char *const[]){start, bytes}, 2);
}

static void check_document(struct gate *gate)
{
    if (gate->length > INT32_MAX) {
        refuse(gate, "it is longer than 2 GiB");
    }
    uint8_t major = take_byte(gate), minor = take_byte(gate);
    if (major != 4 || minor != 8) {
        refuse(gate, "it is not in the format Marshal 4.8");
    }
    check_value(gate);
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

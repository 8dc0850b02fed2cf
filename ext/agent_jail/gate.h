/*
 * gate.h - the gate: its state, and what its files offer each other, a section each.
 *
 * A file knows those before it and none behind it, but for gate_check_value: what holds values may
 * hold any. gate_reader.h and gate_cost.h, which know the refusal alone, are code to be inlined:
 * with calls for every byte and every value the gate takes up to twice the time.
 */
#ifndef AGENT_JAIL_GATE_H
#define AGENT_JAIL_GATE_H

#include "jail.h"

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

/* What is kept of a value: eight bytes for each one that a link can lead to. Numbers saturate. */
struct value {
    uint32_t cost;  /* of one hash, shared things below counted as often as they occur */
    uint8_t kind;   /* enum kind */
    uint8_t height; /* containers on the longest way down */
    uint8_t parts;  /* how many hashes its own is mixed from */
};

static const struct value nothing = {.kind = HIDDEN};

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

/* ---- gate_refusal.c: why the bytes are refused ---- */

void gate_refuse_words(struct gate *gate, const char *const *words, size_t count);
struct value gate_refuse(struct gate *gate, const char *reason);
void gate_refuse_name(struct gate *gate, const char *before, struct span name, const char *after,
                      const char *last);

/* ---- gate_objects.c: objects, and links to them ---- */

/* Makes room for one more item. */
bool gate_grow(struct gate *gate, void **items, size_t count, size_t *room, size_t size);
/* Returns its number. */
size_t gate_add_object(struct gate *gate, struct value value);
struct value gate_add_leaf(struct gate *gate, struct value value);
/* For what was counted before it was read. Returns the value. */
struct value gate_close_object(struct gate *gate, size_t index, struct value value);
/* What the link leads to whose number comes next. */
struct value gate_linked(struct gate *gate);
struct value gate_check_link(struct gate *gate, bool ivars);

/* ---- gate_symbols.c: Symbols, and encodings ---- */

/* Names that make Marshal do something else than set an instance variable. */
bool gate_is_special(const struct gate *gate, struct span name);
/* The value of an instance variable of that name, which must be an encoding. */
void gate_check_encoding_value(struct gate *gate, struct span name);
/* The instance variables of a String or Symbol: its encoding. */
void gate_check_encoding(struct gate *gate);
/* A name: of a class, an instance variable, a member. */
struct span gate_take_symbol(struct gate *gate);
struct value gate_check_symbol(struct gate *gate, bool ivars);
struct value gate_check_symbol_link(struct gate *gate, bool ivars);

/* ---- gate_plain.c: values without a class name ---- */

struct value gate_check_nil(struct gate *gate, bool ivars);
struct value gate_check_boolean(struct gate *gate, bool ivars);
struct value gate_check_fixnum(struct gate *gate, bool ivars);
struct value gate_check_bignum(struct gate *gate, bool ivars);
struct value gate_check_float(struct gate *gate, bool ivars);
struct value gate_check_string(struct gate *gate, bool ivars);
struct value gate_check_array(struct gate *gate, bool ivars);
struct value gate_check_hash(struct gate *gate, bool ivars);
struct value gate_check_default_hash(struct gate *gate, bool ivars);

enum pairs {
    BY_EQUALITY = 0,
    BY_IDENTITY = 1 << 0, /* keys are compared as objects, and not hashed by what they hold */
    WITH_DEFAULT = 1 << 1,
    OF_SET = 1 << 2, /* the Hash inside a Set */
};

/* A Hash: its pairs, and its default value where it has one. */
struct value gate_check_pairs(struct gate *gate, unsigned pairs);

/* ---- gate_classes.c: plain values that Marshal writes by the name of their class ---- */

struct plain_class;

/* NULL: no plain class has that name and comes in that form. */
const struct plain_class *gate_find_class(const struct gate *gate, struct span name,
                                          enum result_form form);
/* What follows the name. */
struct value gate_check_class(struct gate *gate, const struct plain_class *plain, bool ivars);

/* ---- result.c: permitted classes, and the walk ---- */

/* A value of any type, with all that it holds. */
struct value gate_check_value(struct gate *gate);

#endif

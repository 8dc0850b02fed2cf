/*
 * gate_symbols.c - the Symbols so far, numbered as Marshal numbers them; names, which are Symbols;
 * and the encodings of Strings and Symbols, which are told under such a name.
 */
#include "gate_cost.h"
#include "gate_reader.h"

/* ---- what links to Symbols lead to ---- */

static void add_symbol(struct gate *gate, struct span name)
{
    gate_charge_load(gate, LOAD_OBJECT);
    void *items = gate->symbols;
    if (gate_grow(gate, &items, gate->symbol_count, &gate->symbol_room, sizeof(name))) {
        gate->symbols = items;
        gate->symbols[gate->symbol_count++] = name;
    }
}

static struct span linked_symbol(struct gate *gate)
{
    int64_t index = gate_take_long(gate);
    if (index < 0 || (uint64_t)index >= gate->symbol_count) {
        gate_refuse(gate, "a Symbol link leads to no Symbol");
        return (struct span){0, 0};
    }
    return gate->symbols[index];
}

/* ---- encodings ---- */

bool gate_is_special(const struct gate *gate, struct span name)
{
    return gate_span_is(gate, name, "E") || gate_span_is(gate, name, "encoding") ||
           gate_span_is(gate, name, "K");
}

/* Ruby makes one String of each encoding's name, and links to it from then on. */
static void check_encoding_name(struct gate *gate)
{
    if (gate_take_if(gate, '@')) {
        if (gate_linked(gate).kind != ENCODING) {
            gate_refuse(gate, "an encoding's name is a link to something else");
        }
        return;
    }
    if (!gate_take_if(gate, '"')) {
        gate_refuse(gate, "an encoding's name is not a String");
        return;
    }
    struct span name = gate_take_span(gate, 1);
    for (size_t i = 0; i < gate->policy->encoding_count; i++) {
        if (gate_span_is(gate, name, gate->policy->encodings[i])) {
            gate_add_object(gate, gate_leaf(ENCODING, 0));
            return;
        }
    }
    gate_refuse_name(gate, "encoding ", name, " is not built in", "");
}

void gate_check_encoding_value(struct gate *gate, struct span name)
{
    if (gate_span_is(gate, name, "encoding")) {
        check_encoding_name(gate);
    } else if (!gate_span_is(gate, name, "E")) {
        gate_refuse(gate, "a plain value has instance variables");
    } else if (!gate_take_if(gate, 'T') && !gate_take_if(gate, 'F')) {
        gate_refuse(gate, "an encoding is neither true nor false");
    }
}

/*
 * The one instance variable that Marshal gives a String or Symbol. Its name never has an encoding
 * itself, which also ends the recursion from Symbols to their encodings.
 */
void gate_check_encoding(struct gate *gate)
{
    if (gate_take_count(gate, 2) != 1) {
        gate_refuse(gate, "a plain value has instance variables");
    }
    if (gate_take_if(gate, 'I')) {
        gate_refuse(gate, "a plain value has instance variables");
    }
    gate_check_encoding_value(gate, gate_take_symbol(gate));
}

/* ---- names and values ---- */

/*
 * Counted before its encoding is read, as Ruby counts it. A Symbol that has an encoding cannot be
 * one of the special names: Ruby gives ASCII none, and takes such a name for an ordinary one.
 */
static struct span new_symbol(struct gate *gate, bool ivars)
{
    struct span name = gate_take_span(gate, 1);
    add_symbol(gate, name);
    if (ivars) {
        if (gate_is_special(gate, name)) {
            gate_refuse(gate, "a Symbol has an encoding that Ruby would not give it");
        }
        gate_check_encoding(gate);
    }
    return name;
}

struct span gate_take_symbol(struct gate *gate)
{
    if (gate_take_if(gate, ';')) {
        return linked_symbol(gate);
    }
    bool ivars = gate_take_if(gate, 'I');
    if (!gate_take_if(gate, ':')) {
        gate_refuse(gate,
                    gate->at == gate->length ? "the bytes end early" : "a name is not a Symbol");
    }
    return new_symbol(gate, ivars);
}

struct value gate_check_symbol(struct gate *gate, bool ivars)
{
    new_symbol(gate, ivars);
    return gate_leaf(SYMBOL, 0);
}

struct value gate_check_symbol_link(struct gate *gate, bool ivars)
{
    (void)ivars;
    linked_symbol(gate);
    return gate_leaf(SYMBOL, 0);
}

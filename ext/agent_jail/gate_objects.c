/*
 * gate_objects.c - the objects so far, numbered as Marshal numbers them, and the links to them.
 */
#include <stdlib.h>

#include "gate_cost.h"
#include "gate_reader.h"

/* Room for one more item; doubled, so at most two items' room for each item that the bytes held. */
bool gate_grow(struct gate *gate, void **items, size_t count, size_t *room, size_t size)
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
        gate_refuse(gate, "there is no memory to check it");
        return false;
    }
    *items = grown;
    *room = wanted;
    return true;
}

size_t gate_add_object(struct gate *gate, struct value value)
{
    gate_charge_load(gate, LOAD_OBJECT);
    void *items = gate->objects;
    if (!gate_grow(gate, &items, gate->object_count, &gate->object_room, sizeof(value))) {
        return 0;
    }
    gate->objects = items;
    gate->objects[gate->object_count] = value;
    return gate->object_count++;
}

struct value gate_add_leaf(struct gate *gate, struct value value)
{
    gate_add_object(gate, value);
    return value;
}

struct value gate_close_object(struct gate *gate, size_t index, struct value value)
{
    if (!gate->refused) {
        gate->objects[index] = value;
    }
    return value;
}

struct value gate_linked(struct gate *gate)
{
    int64_t index = gate_take_long(gate);
    if (index < 0 || (uint64_t)index >= gate->object_count) {
        return gate_refuse(gate, "a link leads to no object");
    }
    return gate->objects[index];
}

struct value gate_check_link(struct gate *gate, bool ivars)
{
    (void)ivars;
    struct value value = gate_linked(gate);
    if (value.kind == HIDDEN || value.kind == ENCODING) {
        return gate_refuse(gate, "a link leads into the inside of another value");
    }
    return value;
}

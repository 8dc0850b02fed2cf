/*
 * gate_reader.h - the gate's bytes: numbers and spans taken from them.
 */
#ifndef AGENT_JAIL_GATE_READER_H
#define AGENT_JAIL_GATE_READER_H

#include <string.h>

#include "gate.h"

static inline uint8_t gate_take_byte(struct gate *gate)
{
    if (gate->at == gate->length) {
        gate_refuse(gate, "the bytes end early");
        return 0;
    }
    return gate->bytes[gate->at++];
}

static inline bool gate_take_if(struct gate *gate, char byte)
{
    if (gate->at == gate->length || gate->bytes[gate->at] != (uint8_t)byte) {
        return false;
    }
    gate->at++;
    return true;
}

/* Marshal's packed integer: small in the first byte, else that many bytes, little end first. */
static inline int64_t gate_take_long(struct gate *gate)
{
    int first = (int8_t)gate_take_byte(gate);
    if (first > 4) {
        return first - 5;
    }
    if (first < -4) {
        return first + 5;
    }
    int bytes = first < 0 ? -first : first;
    int64_t number = 0;
    for (int i = 0; i < bytes; i++) {
        number |= (int64_t)gate_take_byte(gate) << (8 * i);
    }
    return first < 0 ? number - ((int64_t)1 << (8 * bytes)) : number;
}

/* A number of things that take at least `unit` bytes each. */
static inline uint32_t gate_take_count(struct gate *gate, size_t unit)
{
    int64_t count = gate_take_long(gate);
    if (count < 0) {
        gate_refuse(gate, "a length is negative");
        return 0;
    }
    if ((uint64_t)count > (gate->length - gate->at) / unit) {
        gate_refuse(gate, "the bytes end early");
        return 0;
    }
    return (uint32_t)count;
}

static inline struct span gate_take_span(struct gate *gate, size_t unit)
{
    size_t bytes = gate_take_count(gate, unit) * unit;
    struct span span = {(uint32_t)gate->at, (uint32_t)bytes};
    gate->at += bytes;
    return span;
}

static inline bool gate_span_is(const struct gate *gate, struct span span, const char *text)
{
    size_t length = strlen(text);
    return span.length == length && memcmp(gate->bytes + span.start, text, length) == 0;
}

#endif

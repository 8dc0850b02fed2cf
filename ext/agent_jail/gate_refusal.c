/*
 * gate_refusal.c - why the gate refuses, in words that a caller, a terminal and a log can take.
 *
 * Refusal is sticky: the first reason stays and the position jumps to the end, so that every
 * reader may go on blindly, finds no more bytes, and returns.
 */
#include <string.h>

#include "gate.h"

enum { NAME_SHOWN_MAX = 64 };

void gate_refuse_words(struct gate *gate, const char *const *words, size_t count)
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

struct value gate_refuse(struct gate *gate, const char *reason)
{
    gate_refuse_words(gate, &reason, 1);
    return nothing;
}

/* The name is the child's: some of it, and only what a terminal or a log takes. */
void gate_refuse_name(struct gate *gate, const char *before, struct span name, const char *after,
                      const char *last)
{
    char shown[NAME_SHOWN_MAX + 1] = "";
    for (size_t i = 0; i < name.length && i < NAME_SHOWN_MAX; i++) {
        uint8_t byte = gate->bytes[name.start + i];
        shown[i] = byte >= ' ' && byte <= '~' ? (char)byte : '?';
    }
    gate_refuse_words(gate, (const char *const[]){before, shown, after, last}, 4);
}

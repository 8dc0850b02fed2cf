/*
 * gate_cost.h - what a value costs the parent: to load it, and to hash it as a key.
 */
#ifndef AGENT_JAIL_GATE_COST_H
#define AGENT_JAIL_GATE_COST_H

#include "gate.h"

/* ---- loading ---- */

/* Loading takes time and room that the bytes do not show; the caller stands still meanwhile. */
static inline void gate_charge_load(struct gate *gate, uint32_t cost)
{
    gate->load += cost;
    if (gate->load > RESULT_LOAD_MAX) {
        gate->load = RESULT_LOAD_MAX;
        gate_refuse(gate, "it holds more values than can be loaded in a few seconds");
    }
}

/* ---- hashing ---- */

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
    STEERED = UINT8_MAX,  /* parts of a value whose hash the child chooses */
};

static const struct value opened = {
    .kind = OPEN, .cost = UINT32_MAX, .height = UINT8_MAX, .parts = STEERED};

static inline uint32_t gate_plus(uint32_t a, uint64_t b)
{
    return b < UINT32_MAX - a ? a + (uint32_t)b : UINT32_MAX;
}

static inline uint8_t gate_plus_small(uint8_t a, unsigned b)
{
    return b < UINT8_MAX - (unsigned)a ? (uint8_t)(a + b) : UINT8_MAX;
}

static inline struct value gate_leaf(enum kind kind, uint32_t bytes)
{
    return (struct value){
        .kind = (uint8_t)kind, .cost = COST_LEAF + bytes / COST_BYTES, .parts = 1};
}

static inline void gate_absorb(struct value *value, struct value child)
{
    value->cost = gate_plus(value->cost, child.cost);
    value->parts = gate_plus_small(value->parts, child.parts);
    unsigned height = child.height + 1U;
    if (height > value->height) {
        value->height = height < UINT8_MAX ? (uint8_t)height : UINT8_MAX;
    }
}

void gate_charge(struct gate *gate, uint64_t cost);
/* `steered` counts, in one Hash, the keys whose hash the child chooses. */
void gate_charge_key(struct gate *gate, struct value key, uint32_t *steered);
/* Of a Range. */
void gate_charge_ends(struct gate *gate, uint64_t cost);

#endif

/*
 * gate_cost.c - the budget for hashing and comparing keys, and what is charged to it.
 */
#include "gate_cost.h"

enum {
    KEY_HEIGHT_MAX = 64, /* of a key: its hash overflows a Fiber of Ruby 3.1 at 432 */
    KEY_PARTS_MAX = 12,  /* of a key whose hash counts as beyond the child's choice */
};

void gate_charge(struct gate *gate, uint64_t cost)
{
    if (cost > gate->budget) {
        gate_refuse(gate,
                    "loading it would take too long: its keys are too big or too often shared");
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
void gate_charge_key(struct gate *gate, struct value key, uint32_t *steered)
{
    if (key.height > KEY_HEIGHT_MAX) {
        gate_refuse(gate, "a key is nested too deep or leads back to itself");
    }
    if (key.parts > KEY_PARTS_MAX) {
        gate_charge(gate, (uint64_t)key.cost * ++*steered);
    } else {
        gate_charge(gate, key.cost);
    }
}

/* Loading compares the ends, which may take the time of a product. */
void gate_charge_ends(struct gate *gate, uint64_t cost)
{
    gate_charge(gate, cost + (cost < UINT32_MAX ? cost * cost / 8 : UINT32_MAX));
}

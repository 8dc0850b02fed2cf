/*
 * bpf.h - an assembler for the kernel's classic BPF, with labels for where jumps go.
 *
 * A label is placed behind all that jumps to it: BPF knows no way back.
 */
#ifndef AGENT_JAIL_BPF_H
#define AGENT_JAIL_BPF_H

#include "jail.h"

/* Labels are numbers: BPF_NEXT, then the caller's own, then those that are made up. */
#define BPF_NEXT 0u /* the instruction behind this one */
#define BPF_OWN_MAX 64u
#define BPF_LABELS_MAX (BPF_OWN_MAX + SECCOMP_LENGTH_MAX)

/* An instruction whose jumps still name labels. */
struct operation {
    uint16_t code;
    uint16_t yes, no;     /* labels; of a jump only */
    bool far_yes, far_no; /* out of an 8-bit offset's reach: goes by a stepping stone */
    bool self;            /* the constant is the child's process id, or its negative */
    uint32_t k;
    uint16_t position; /* in the finished program */
};

struct assembler {
    struct operation operations[SECCOMP_LENGTH_MAX + 1];
    uint16_t count;
    uint16_t places[BPF_LABELS_MAX];       /* of each label: the index of its operation */
    bool wanted[BPF_LABELS_MAX];           /* labels that something jumps to */
    uint16_t labels;                       /* the next free label */
    const struct seccomp_options *options; /* what the checks are written by */
};

/* ---- instructions ---- */

/* `yes` and `no` are labels; BPF_NEXT for what is no jump. */
void bpf_emit(struct assembler *a, uint16_t code, uint32_t k, unsigned yes, unsigned no);
/* The label stands for the instruction that is emitted next. */
void bpf_place(struct assembler *a, unsigned label);
void bpf_load(struct assembler *a, size_t offset);
void bpf_mask(struct assembler *a, uint32_t bits);
void bpf_if_equal(struct assembler *a, uint32_t value, unsigned label);
void bpf_unless_equal(struct assembler *a, uint32_t value, unsigned label);
void bpf_if_any_bit(struct assembler *a, uint32_t bits, unsigned label);
void bpf_unless_any_bit(struct assembler *a, uint32_t bits, unsigned label);
/* Compares with the child's process id; seccomp_apply puts it in. `sign` is 1 or -1. */
void bpf_if_self(struct assembler *a, int sign, unsigned label);
void bpf_return(struct assembler *a, uint32_t value);

/* ---- searches and sets ---- */

/* Numbers from `first` to before the next run's, which all go to one label. */
struct bpf_run {
    uint32_t first;
    unsigned label;
};

/* Goes to the label of the run that holds the number loaded: halves the runs until one is left. */
void bpf_search(struct assembler *a, const struct bpf_run *runs, size_t count);

/* A set of numbers, a bit each. The last word stays empty, for all the numbers above. */
#define BPF_NUMBERS_MAX 512
#define BPF_SET_WORDS (BPF_NUMBERS_MAX / 32)

void bpf_set_add(uint32_t set[BPF_SET_WORDS], uint32_t number);
/* Goes to `member` if the number at `offset` is in the set, else to `other`. */
void bpf_if_in_set(struct assembler *a, size_t offset, const uint32_t set[BPF_SET_WORDS],
                   unsigned member, unsigned other);

/* ---- the program ---- */

/* False when it is too long. */
bool bpf_write(struct seccomp_program *program, struct assembler *a);

#endif

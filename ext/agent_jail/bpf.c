/*
 * bpf.c - the assembler of the filter: instructions whose jumps name labels, searches and sets of
 * numbers made of them, and the finished program, in which every jump is near enough.
 */
#include <linux/filter.h>

#include "bpf.h"

/* Stands for the child's process id until it has one. No process can have this one. */
#define SELF_UNKNOWN 0x7fffffffu

/* ---- instructions ---- */

void bpf_emit(struct assembler *a, uint16_t code, uint32_t k, unsigned yes, unsigned no)
{
    a->wanted[yes] = true;
    a->wanted[no] = true;
    a->operations[a->count] =
        (struct operation){.code = code, .k = k, .yes = (uint16_t)yes, .no = (uint16_t)no};
    if (a->count < SECCOMP_LENGTH_MAX)
        a->count++; /* a full program overwrites its last operation, and is refused at the end */
}

void bpf_place(struct assembler *a, unsigned label)
{
    a->places[label] = a->count;
}

void bpf_load(struct assembler *a, size_t offset)
{
    bpf_emit(a, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, BPF_NEXT, BPF_NEXT);
}

void bpf_mask(struct assembler *a, uint32_t bits)
{
    bpf_emit(a, BPF_ALU | BPF_AND | BPF_K, bits, BPF_NEXT, BPF_NEXT);
}

void bpf_if_equal(struct assembler *a, uint32_t value, unsigned label)
{
    bpf_emit(a, BPF_JMP | BPF_JEQ | BPF_K, value, label, BPF_NEXT);
}

void bpf_unless_equal(struct assembler *a, uint32_t value, unsigned label)
{
    bpf_emit(a, BPF_JMP | BPF_JEQ | BPF_K, value, BPF_NEXT, label);
}

void bpf_if_any_bit(struct assembler *a, uint32_t bits, unsigned label)
{
    bpf_emit(a, BPF_JMP | BPF_JSET | BPF_K, bits, label, BPF_NEXT);
}

void bpf_unless_any_bit(struct assembler *a, uint32_t bits, unsigned label)
{
    bpf_emit(a, BPF_JMP | BPF_JSET | BPF_K, bits, BPF_NEXT, label);
}

void bpf_if_self(struct assembler *a, int sign, unsigned label)
{
    bpf_if_equal(a, sign < 0 ? 0u - SELF_UNKNOWN : SELF_UNKNOWN, label);
    a->operations[a->count - 1].self = true;
}

void bpf_return(struct assembler *a, uint32_t value)
{
    bpf_emit(a, BPF_RET | BPF_K, value, BPF_NEXT, BPF_NEXT);
}

/* ---- searches and sets ---- */

void bpf_search(struct assembler *a, const struct bpf_run *runs, size_t count)
{
    size_t half = count / 2;
    unsigned above = count - half == 1 ? runs[half].label : a->labels++;
    unsigned below = half == 1 ? runs[0].label : BPF_NEXT;

    bpf_emit(a, BPF_JMP | BPF_JGE | BPF_K, runs[half].first, above, below);
    if (half > 1)
        bpf_search(a, runs, half);
    if (count - half > 1) {
        bpf_place(a, above);
        bpf_search(a, runs + half, count - half);
    }
}

void bpf_set_add(uint32_t set[BPF_SET_WORDS], uint32_t number)
{
    set[number / 32] |= 1u << number % 32;
}

/*
 * X becomes the number's bit in its word, the word is searched, the two are compared. This costs
 * three instructions for 32 numbers, where a search over numbers that alternate costs 32.
 */
void bpf_if_in_set(struct assembler *a, size_t offset, const uint32_t set[BPF_SET_WORDS],
                   unsigned member, unsigned other)
{
    struct bpf_run runs[BPF_SET_WORDS];
    uint32_t words[BPF_SET_WORDS];
    size_t count = 0;

    for (uint32_t i = 0; i < BPF_SET_WORDS; i++) {
        if (count > 0 && set[i] == words[count - 1])
            continue;
        words[count] = set[i];
        runs[count].first = i * 32;
        runs[count].label = set[i] == 0 ? other : a->labels++;
        count++;
    }
    bpf_load(a, offset);
    bpf_mask(a, 31);
    bpf_emit(a, BPF_MISC | BPF_TAX, 0, BPF_NEXT, BPF_NEXT);
    bpf_emit(a, BPF_LD | BPF_IMM, 1, BPF_NEXT, BPF_NEXT);
    bpf_emit(a, BPF_ALU | BPF_LSH | BPF_X, 0, BPF_NEXT, BPF_NEXT);
    bpf_emit(a, BPF_MISC | BPF_TAX, 0, BPF_NEXT, BPF_NEXT);
    bpf_load(a, offset);
    bpf_search(a, runs, count);
    for (size_t i = 0; i < count; i++) {
        if (words[i] == 0)
            continue;
        bpf_place(a, runs[i].label);
        bpf_emit(a, BPF_LD | BPF_IMM, words[i], BPF_NEXT, BPF_NEXT);
        bpf_emit(a, BPF_JMP | BPF_JSET | BPF_X, 0, member, other);
    }
}

/* ---- from operations to instructions ---- */

static bool is_jump(const struct operation *operation)
{
    return BPF_CLASS(operation->code) == BPF_JMP;
}

/* Where a jump lands: always further on, since every label is placed behind its uses. */
static const struct operation *target(const struct assembler *a, size_t from, unsigned label)
{
    return &a->operations[label == BPF_NEXT ? from + 1 : a->places[label]];
}

static size_t distance(const struct assembler *a, size_t from, unsigned label)
{
    return target(a, from, label)->position - (a->operations[from].position + 1u);
}

static void lay_out(struct assembler *a)
{
    uint16_t position = 0;

    for (size_t i = 0; i < a->count; i++) {
        struct operation *operation = &a->operations[i];

        operation->position = position;
        position = (uint16_t)(position + 1 + operation->far_yes + operation->far_no);
    }
    a->operations[a->count].position = position;
}

/*
 * A jump reaches 255 instructions. One that must go further gets a stepping stone right behind it,
 * which may push others out of reach: so again, until nothing changes.
 */
static void place_stones(struct assembler *a)
{
    bool changed = true;

    while (changed) {
        changed = false;
        lay_out(a);
        for (size_t i = 0; i < a->count; i++) {
            struct operation *operation = &a->operations[i];

            if (!is_jump(operation))
                continue;
            bool far_yes = distance(a, i, operation->yes) > UINT8_MAX;
            bool far_no = distance(a, i, operation->no) > UINT8_MAX;

            changed |= far_yes > operation->far_yes || far_no > operation->far_no;
            operation->far_yes |= far_yes;
            operation->far_no |= far_no;
        }
    }
}

/* The stone is the answer itself where the jump goes to one, else a jump without limit. */
static void write_stone(struct seccomp_instruction *stone, uint16_t position,
                        const struct operation *to)
{
    if (BPF_CLASS(to->code) == BPF_RET)
        *stone = (struct seccomp_instruction){.code = to->code, .k = to->k};
    else
        *stone = (struct seccomp_instruction){.code = BPF_JMP | BPF_JA,
                                              .k = to->position - (position + 1u)};
}

static void write_jump(struct seccomp_program *program, const struct assembler *a, size_t index)
{
    const struct operation *from = &a->operations[index];
    struct seccomp_instruction *instruction = &program->instructions[from->position];
    uint16_t stone = (uint16_t)(from->position + 1);

    if (from->far_yes) {
        instruction->jt = 0;
        write_stone(&program->instructions[stone], stone, target(a, index, from->yes));
        stone++;
    } else {
        instruction->jt = (uint8_t)distance(a, index, from->yes);
    }
    if (from->far_no) {
        instruction->jf = from->far_yes;
        write_stone(&program->instructions[stone], stone, target(a, index, from->no));
    } else {
        instruction->jf = (uint8_t)distance(a, index, from->no);
    }
}

bool bpf_write(struct seccomp_program *program, struct assembler *a)
{
    place_stones(a);
    program->length = a->operations[a->count].position;
    program->patch_count = 0;
    if (a->count == SECCOMP_LENGTH_MAX || program->length > SECCOMP_LENGTH_MAX)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct operation *operation = &a->operations[i];

        program->instructions[operation->position] =
            (struct seccomp_instruction){.code = operation->code, .k = operation->k};
        if (is_jump(operation))
            write_jump(program, a, i);
        if (!operation->self)
            continue;
        if (program->patch_count == SECCOMP_PATCH_MAX)
            return false;
        program->patches[program->patch_count++] = operation->position;
    }
    return true;
}

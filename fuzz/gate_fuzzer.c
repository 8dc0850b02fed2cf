/*
 * gate_fuzzer.c - libFuzzer target for the gate alone, without Ruby.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -I ext/agent_jail \
 *       fuzz/gate_fuzzer.c ext/agent_jail/{result,gate_*}.c -o gate_fuzzer
 *   ./gate_fuzzer -max_len=4096 fuzz/corpus
 */
#include <stdlib.h>
#include <string.h>

#include "jail.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const encodings[] = {"ASCII-8BIT", "UTF-16LE", "EUC-JP", "Shift_JIS"};

static const struct result_permit permits[] = {
    {"O", 1, RESULT_OBJECT},       {"S", 1, RESULT_STRUCT},       {"C", 1, RESULT_SUBCLASS},
    {"D", 1, RESULT_USER_DEFINED}, {"M", 1, RESULT_USER_MARSHAL},
};

static const struct result_policy strict = {.encodings = encodings, .encoding_count = 4};
static const struct result_policy open = {
    .permits = permits, .permit_count = 5, .encodings = encodings, .encoding_count = 4};

/* A reason is a non-empty text of printable ASCII that ends inside its array. */
static void demand_reason(const struct result_refusal *refusal, size_t size)
{
    const char *end = memchr(refusal->reason, '\0', sizeof(refusal->reason));
    if (!end || end == refusal->reason || refusal->offset > size) {
        abort();
    }
    for (const char *at = refusal->reason; at < end; at++) {
        if (*at < ' ' || *at > '~') {
            abort();
        }
    }
}

static bool accepts(const uint8_t *data, size_t size, const struct result_policy *policy)
{
    struct result_refusal refusal;
    memset(&refusal, 0xff, sizeof(refusal));
    bool accepted = result_check(data, size, policy, &refusal);
    if (!accepted) {
        demand_reason(&refusal, size);
    }
    return accepted;
}

/* What is plain stays plain when classes are permitted, and exactly one length is right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool plain = accepts(data, size, &strict);
    bool permitted = accepts(data, size, &open);
    if (plain && !permitted) {
        abort();
    }
    if (permitted && accepts(data, size - 1, &open)) {
        abort();
    }
    return 0;
}

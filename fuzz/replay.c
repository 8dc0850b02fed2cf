/*
 * replay.c - the parts that need neither Ruby nor the kernel's newer calls, for memory checkers: the gate, over each
 * file that is named, by way of its fuzz target; and every filter there is.
 *
 *   cc -g -D_GNU_SOURCE -I ext/agent_jail fuzz/replay.c fuzz/gate_fuzzer.c \
 *       ext/agent_jail/{result,gate_*,bpf,seccomp*,syscalls}.c -o replay
 *   valgrind --leak-check=full ./replay fuzz/corpus/...
 */
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jail.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, const char *name)
{
    (void)fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

/* In memory of just that size, so that a checker sees a byte too far. */
static uint8_t *contents(const char *path, size_t *size)
{
    static uint8_t most[1 << 16];
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;

    if (file == NULL)
        fail("cannot open", path);
    *size = fread(most, 1, sizeof(most), file);
    if (ferror(file) || !feof(file) || *size == 0)
        fail("cannot read", path);
    (void)fclose(file);
    bytes = malloc(*size);
    if (bytes == NULL)
        fail("no memory for", path);
    memcpy(bytes, most, *size);
    return bytes;
}

/* And each of its beginnings. */
static void replay(const char *path)
{
    size_t size;
    uint8_t *bytes = contents(path, &size);

    for (size_t length = size; length > 0; length--) {
        uint8_t *part = malloc(length);

        if (part == NULL)
            fail("no memory for", path);
        memcpy(part, bytes, length);
        (void)LLVMFuzzerTestOneInput(part, length);
        free(part);
    }
    free(bytes);
}

/* Written away, so that a checker sees what was never set. */
static void build(uint32_t arch, int doors)
{
    struct seccomp_options options = {
        .network = doors & 1, .processes = (doors & 2) != 0, .scoped = (doors & 4) != 0};
    struct seccomp_program *program = malloc(sizeof(*program));
    FILE *null = fopen("/dev/null", "wb");

    if (program == NULL || null == NULL || seccomp_build(program, arch, &options) != NULL)
        fail("cannot build", "a filter");
    if (fwrite(program->instructions, sizeof(program->instructions[0]), program->length, null) !=
            program->length ||
        fwrite(program->patches, sizeof(program->patches[0]), program->patch_count, null) !=
            program->patch_count ||
        fclose(null) != 0)
        fail("cannot write", "a filter");
    free(program);
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++)
        replay(paths[i]);
    for (int doors = 0; doors < 8; doors++) {
        build(AUDIT_ARCH_X86_64, doors);
        build(AUDIT_ARCH_AARCH64, doors);
    }
    (void)printf("%d files, 16 filters\n", count - 1);
    return 0;
}

/*
 * kernel.c - another kernel, as the process that this library is loaded into sees it.
 *
 * AGENT_JAIL_KERNEL says which, in words:
 *
 *   NUMBER=ERRNO     the system call with this number fails so: by a filter, that none gets past
 *   NUMBER.OPTION=ERRNO  the same where its first argument is OPTION
 *   NUMBER&MASK=ERRNO    the same where its first argument has a bit of MASK
 *   abi=N            Landlock of this ABI: later rights and flags are EINVAL, as that kernel answers; those that are
 *                    newer than the real kernel are taken and mean nothing
 *   unscoped         Landlock without the scope of signals, whatever the ABI
 *   bare=PATH        nothing is at PATH but an empty directory, in a mount namespace of its own
 *   readonly         nothing of the root file system can be written, in a mount namespace of its own
 *   capabilities=SET these, a hexadecimal number, and never more
 *   cgroup=PATH      in that control group
 *   user             all this for an ordinary user, as whom root executes the program
 *
 * Landlock is reached by libc's syscall() alone, so that function is put in its place.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446
#define ASK_VERSION 1u
#define PAGE 4096

struct ruleset {
    uint64_t files, network, scopes;
};

struct path_rule {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

/* What a kernel of an ABI knows. */
struct knowledge {
    struct ruleset rights;
    size_t size;
    unsigned restrict_flags;
};

static long abi = -1;
static int unscoped;
static long (*libc_syscall)(long, ...);

static struct knowledge known_by(long version)
{
    struct knowledge known = {.rights.files = (1u << 13) - 1, .size = 8};

    known.rights.files |= (version >= 2 ? 1u << 13 : 0) | (version >= 3 ? 1u << 14 : 0) |
                          (version >= 5 ? 1u << 15 : 0) | (version >= 9 ? 1u << 16 : 0);
    known.rights.network = (version >= 4 ? 3 : 0) | (version >= 10 ? 12 : 0);
    known.rights.scopes = version >= 6 ? 3 : 0;
    known.size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    known.restrict_flags = (version >= 7 ? 7 : 0) | (version >= 8 ? 8 : 0);
    return known;
}

static long refuse(int error)
{
    errno = error;
    return -1;
}

static long real_abi(void)
{
    return libc_syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
}

static int is_beyond(uint64_t rights, uint64_t known)
{
    return (rights & ~known) != 0;
}

static long create_ruleset(const void *attributes, size_t size, unsigned flags)
{
    struct knowledge known = known_by(abi), real = known_by(real_abi());
    struct ruleset asked = {0};

    if (flags == ASK_VERSION && attributes == NULL && size == 0)
        return abi;
    if (flags != 0 || size < 8)
        return refuse(EINVAL);
    if (size > PAGE)
        return refuse(E2BIG);
    for (size_t i = known.size; i < size; i++)
        if (((const char *)attributes)[i] != 0)
            return refuse(E2BIG);
    memcpy(&asked, attributes, size < known.size ? size : known.size);
    known.rights.scopes &= unscoped ? ~2ull : ~0ull;
    if (is_beyond(asked.files, known.rights.files) ||
        is_beyond(asked.network, known.rights.network) ||
        is_beyond(asked.scopes, known.rights.scopes))
        return refuse(EINVAL);
    asked.files &= real.rights.files;
    asked.network &= real.rights.network;
    asked.scopes &= real.rights.scopes;
    return libc_syscall(CREATE_RULESET, &asked, real.size, 0);
}

/* The real kernel knows which of them the ruleset handles. */
static long add_rule(long ruleset, long type, const struct path_rule *rule, long flags)
{
    struct knowledge known = known_by(abi), real = known_by(real_abi());
    struct path_rule asked = *rule;

    if (type != 1 || is_beyond(asked.allowed, known.rights.files))
        return refuse(EINVAL);
    asked.allowed &= real.rights.files;
    return asked.allowed == 0 ? 0 : libc_syscall(ADD_RULE, ruleset, type, &asked, flags);
}

static long restrict_self(long ruleset, unsigned flags)
{
    struct knowledge known = known_by(abi), real = known_by(real_abi());

    if (is_beyond(flags, known.restrict_flags))
        return refuse(EINVAL);
    return libc_syscall(RESTRICT_SELF, ruleset, flags & real.restrict_flags);
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long a[6];
    va_list arguments;

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (libc_syscall == NULL)
        libc_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (abi > 0 && number == CREATE_RULESET)
        return create_ruleset((const void *)a[0], (size_t)a[1], (unsigned)a[2]);
    if (abi > 0 && number == ADD_RULE)
        return add_rule(a[0], a[1], (const struct path_rule *)a[2], a[3]);
    if (abi > 0 && number == RESTRICT_SELF)
        return restrict_self(a[0], (unsigned)a[1]);
    return libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

__attribute__((noreturn)) static void give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(77);
}

/* ---- refusals ---- */

#define INSTRUCTIONS_MAX 1024

static struct sock_filter instructions[INSTRUCTIONS_MAX];
static unsigned short instruction_count;

static void emit(uint16_t code, uint32_t k, uint8_t otherwise)
{
    if (instruction_count == INSTRUCTIONS_MAX)
        give_up("too many refusals");
    instructions[instruction_count++] = (struct sock_filter){code, 0, otherwise, k};
}

static void load(size_t offset)
{
    emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0);
}

/* `test`: how the call's first argument is compared with `option`; 0: not at all. */
static void refuse_call(long number, uint16_t test, long option, long error)
{
    load(offsetof(struct seccomp_data, nr));
    emit(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, test == 0 ? 1 : 3);
    if (test != 0) {
        load(offsetof(struct seccomp_data, args[0]));
        emit(BPF_JMP | test | BPF_K, (uint32_t)option, 1);
    }
    emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error, 0);
}

static void filter(void)
{
    struct sock_fprog program = {.filter = instructions};

    if (instruction_count == 0)
        return;
    emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
    program.len = instruction_count;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        return;
    /* an ordinary user */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        give_up("seccomp");
}

static void move_apart(void)
{
    static int apart;

    if (!apart &&
        (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0))
        give_up("a mount namespace");
    apart = 1;
}

static void lay_bare(const char *path)
{
    move_apart();
    if (mount("none", path, "tmpfs", MS_RDONLY, NULL) != 0)
        give_up(path);
}

static void make_readonly(void)
{
    move_apart();
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        give_up("a read-only root");
}

static void enter_group(const char *path)
{
    FILE *file;

    if (chdir(path) != 0 || (file = fopen("cgroup.procs", "w")) == NULL)
        give_up(path);
    if (fprintf(file, "%d", getpid()) < 0 || fclose(file) != 0 || chdir("/") != 0)
        give_up(path);
}

static unsigned long long capabilities = ~0ull;

/* Last: the rest needs them. */
static void keep_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {0};

    if (capabilities == ~0ull)
        return;
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        if (!(capabilities >> i & 1) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0)
            give_up("prctl(PR_CAPBSET_DROP)");
    for (int i = 0; i < 2; i++)
        sets[i].permitted = sets[i].effective = (uint32_t)(capabilities >> 32 * i);
    if (syscall(SYS_capset, &header, sets) != 0)
        give_up("capset");
}

static void obey(const char *word)
{
    long number, option, error;

    if (sscanf(word, "%ld.%ld=%ld", &number, &option, &error) == 3)
        refuse_call(number, BPF_JEQ, option, error);
    else if (sscanf(word, "%ld&%ld=%ld", &number, &option, &error) == 3)
        refuse_call(number, BPF_JSET, option, error);
    else if (sscanf(word, "%ld=%ld", &number, &error) == 2)
        refuse_call(number, 0, 0, error);
    else if (strncmp(word, "bare=", 5) == 0)
        lay_bare(word + 5);
    else if (strcmp(word, "readonly") == 0)
        make_readonly();
    else if (strncmp(word, "cgroup=", 7) == 0)
        enter_group(word + 7);
    else if (strcmp(word, "unscoped") == 0)
        unscoped = 1;
    else if (strcmp(word, "user") != 0 && sscanf(word, "abi=%ld", &abi) != 1 &&
             sscanf(word, "capabilities=%llx", &capabilities) != 1)
        give_up(word);
}

/* What the process starts is no longer to be lied to, and has the filter all the same. */
__attribute__((constructor)) static void boot(void)
{
    const char *words = getenv("AGENT_JAIL_KERNEL");
    char *copy = words == NULL ? NULL : strdup(words), *rest;

    if (copy == NULL || (strstr(words, "user") != NULL && geteuid() == 0))
        return;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        obey(word);
    free(copy);
    filter();
    keep_capabilities();
    unsetenv("AGENT_JAIL_KERNEL");
    unsetenv("LD_PRELOAD");
}

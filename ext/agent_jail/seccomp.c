/*
 * seccomp.c - the filter over system calls: built from the table in syscalls.c, put on the child.
 *
 * The program reads: is this the right architecture; search the number; where the verdict hangs on
 * an argument, check it; answer. It is attached once per run, and the kernel then runs it for every
 * number there is to learn which calls are always allowed (those never enter the filter again). So
 * it is short, the search is balanced, and neighbours with one outcome are one leaf.
 *
 * bpf.c assembles it; the checks and the answers are in seccomp_checks.c.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp_checks.h"

#if defined(__x86_64__) && !defined(__ILP32__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && !defined(__ILP32__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "agent_jail has no system call table for this architecture"
#endif

_Static_assert(sizeof(struct seccomp_instruction) == sizeof(struct sock_filter),
               "the kernel reads the instructions as they are");

/* ---- from verdicts to labels ---- */

/* What a verdict means: a label, or `opened` where the run has what `opens` says. */
enum opening { NEVER, NETWORK, PROCESSES, SCOPED, SCOPED_PROCESSES };

static const struct {
    const char *name;
    enum label label;
    enum opening opens;
    enum label opened;
} verdicts[] = {
    [SECCOMP_ALLOW] = {"allow", ALLOW, NEVER, 0},
    [SECCOMP_ABSENT] = {"absent", REFUSE_ENOSYS, NEVER, 0},
    [SECCOMP_PRIVILEGE] = {"privilege", REFUSE_EPERM, NEVER, 0},
    [SECCOMP_OTHERS] = {"others", REFUSE_EPERM, NEVER, 0},
    [SECCOMP_SESSION] = {"session", REFUSE_EPERM, NEVER, 0},
    [SECCOMP_METADATA] = {"metadata", REFUSE_EACCES, NEVER, 0},
    [SECCOMP_XATTR] = {"xattr", REFUSE_EOPNOTSUPP, NEVER, 0},
    [SECCOMP_TRUNCATE] = {"truncate", REFUSE_EACCES, SCOPED, ALLOW},
    [SECCOMP_OPEN] = {"open", CHECK_OPEN, NEVER, 0},
    [SECCOMP_OPENAT] = {"openat", CHECK_OPENAT, NEVER, 0},
    [SECCOMP_CREATE] = {"create", CHECK_CREATE, NEVER, 0},
    [SECCOMP_CREATEAT] = {"createat", CHECK_CREATEAT, NEVER, 0},
    [SECCOMP_NETWORK] = {"network", REFUSE_ENETUNREACH, NETWORK, ALLOW},
    [SECCOMP_SOCKET] = {"socket", REFUSE_ENETUNREACH, NETWORK, CHECK_SOCKET},
    [SECCOMP_SOCKETPAIR] = {"socketpair", CHECK_SOCKETPAIR, NEVER, 0},
    [SECCOMP_SENDTO] = {"sendto", CHECK_SENDTO, NETWORK, ALLOW},
    [SECCOMP_SENDMSG] = {"sendmsg", CHECK_SENDMSG, NETWORK, ALLOW},
    [SECCOMP_PROCESS] = {"process", REFUSE_EPERM, PROCESSES, ALLOW},
    [SECCOMP_CLONE] = {"clone", CHECK_CLONE, NEVER, 0},
    [SECCOMP_KILL] = {"kill", CHECK_KILL, SCOPED_PROCESSES, ALLOW},
    [SECCOMP_TGKILL] = {"tgkill", CHECK_SIGNAL_SELF, SCOPED_PROCESSES, ALLOW},
    /* It names no process, so that of its own threads only the first is known. musl needs it. */
    [SECCOMP_TKILL] = {"tkill", CHECK_SIGNAL_SELF, SCOPED, ALLOW},
    [SECCOMP_PIDFD] = {"pidfd", REFUSE_EPERM, SCOPED_PROCESSES, ALLOW},
    [SECCOMP_SELF] = {"self", CHECK_SELF, NEVER, 0},
    [SECCOMP_SETPRIORITY] = {"setpriority", CHECK_SETPRIORITY, NEVER, 0},
    [SECCOMP_IOPRIO] = {"ioprio", CHECK_IOPRIO, NEVER, 0},
    [SECCOMP_IOCTL] = {"ioctl", CHECK_IOCTL, NEVER, 0},
    [SECCOMP_FCNTL] = {"fcntl", CHECK_FCNTL, NEVER, 0},
    [SECCOMP_PRCTL] = {"prctl", CHECK_PRCTL, NEVER, 0},
    [SECCOMP_PERSONALITY] = {"personality", CHECK_PERSONALITY, NEVER, 0},
};

static bool is_open(enum opening opening, const struct seccomp_options *options)
{
    switch (opening) {
    case NEVER:
        return false;
    case NETWORK:
        return options->network;
    case PROCESSES:
        return options->processes;
    case SCOPED:
        return options->scoped;
    case SCOPED_PROCESSES:
        return options->scoped && options->processes;
    }
    return false;
}

static unsigned label_for(enum seccomp_verdict verdict, const struct seccomp_options *options)
{
    return is_open(verdicts[verdict].opens, options) ? verdicts[verdict].opened
                                                     : verdicts[verdict].label;
}

const char *seccomp_verdict_name(enum seccomp_verdict verdict)
{
    return verdicts[verdict].name;
}

int seccomp_number(const struct seccomp_row *row, uint32_t audit_arch)
{
    return audit_arch == AUDIT_ARCH_X86_64 ? row->x86_64 : row->aarch64;
}

/* ---- from numbers to labels ---- */

/* Lays the table out by number; what has no row is absent. */
static const char *label_numbers(unsigned labels[BPF_NUMBERS_MAX], uint32_t audit_arch,
                                 const struct seccomp_options *options)
{
    size_t count;
    const struct seccomp_row *rows = seccomp_table(&count);

    for (size_t i = 0; i < BPF_NUMBERS_MAX; i++)
        labels[i] = BPF_NEXT;
    for (size_t i = 0; i < count; i++) {
        int number = seccomp_number(&rows[i], audit_arch);

        if (number < 0)
            continue;
        if (number >= BPF_NUMBERS_MAX - 32 || labels[number] != BPF_NEXT)
            return "seccomp_table";
        labels[number] = label_for(rows[i].verdict, options);
    }
    for (size_t i = 0; i < BPF_NUMBERS_MAX; i++)
        if (labels[i] == BPF_NEXT)
            labels[i] = REFUSE_ENOSYS;
    return NULL;
}

/*
 * Half of all numbers are allowed, strewn among the others: those are a set. Without them, the
 * search has long runs. The last of them, absent, also holds every number above: those of x32 too.
 */
static void emit_numbers(struct assembler *a, const unsigned labels[BPF_NUMBERS_MAX])
{
    const size_t number = offsetof(struct seccomp_data, nr);
    struct bpf_run runs[BPF_NUMBERS_MAX];
    uint32_t allowed[BPF_SET_WORDS] = {0};
    unsigned others = a->labels++;
    size_t count = 0;

    for (uint32_t i = 0; i < BPF_NUMBERS_MAX; i++) {
        if (labels[i] == ALLOW)
            bpf_set_add(allowed, i);
        else if (count == 0 || labels[i] != runs[count - 1].label)
            runs[count++] = (struct bpf_run){.first = i, .label = labels[i]};
    }
    bpf_if_in_set(a, number, allowed, ALLOW, others);
    bpf_place(a, others);
    bpf_load(a, number);
    bpf_search(a, runs, count);
}

/* ---- the parts that jail.h declares ---- */

const char *seccomp_build(struct seccomp_program *program, uint32_t audit_arch,
                          const struct seccomp_options *options)
{
    struct assembler assembler = {.labels = CHECKS_END, .options = options};
    struct assembler *a = &assembler;
    unsigned labels[BPF_NUMBERS_MAX];
    const char *failed;

    if (audit_arch == 0)
        audit_arch = NATIVE_ARCH;
    errno = EINVAL;
    if (audit_arch != AUDIT_ARCH_X86_64 && audit_arch != AUDIT_ARCH_AARCH64)
        return "seccomp_build";
    failed = label_numbers(labels, audit_arch, options);
    if (failed != NULL)
        return failed;

    bpf_load(a, offsetof(struct seccomp_data, arch));
    bpf_unless_equal(a, audit_arch, KILL_PROCESS);
    emit_numbers(a, labels);
    seccomp_emit_checks(a);
    seccomp_emit_answers(a);
    return bpf_write(program, a) ? NULL : "seccomp_build";
}

const char *seccomp_apply(struct seccomp_program *program, pid_t self)
{
    struct sock_fprog filter = {.len = program->length, .filter = (void *)program->instructions};
    long status;

    for (size_t i = 0; i < program->patch_count; i++) {
        uint32_t *k = &program->instructions[program->patches[i]].k;

        *k = (int32_t)*k < 0 ? 0u - (uint32_t)self : (uint32_t)self;
    }
    status = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (status > 0)
        errno = EBUSY; /* the id of a thread that could not be brought along */
    return status == 0 ? NULL : "seccomp";
}

/* The kernel looks at the flags first and at the program next: EFAULT is the sound of a yes. */
bool seccomp_available(void)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) == -1 &&
           errno == EFAULT;
}

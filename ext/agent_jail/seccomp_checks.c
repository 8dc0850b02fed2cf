/*
 * seccomp_checks.c - what the filter answers, and the checks of arguments that answers hang on.
 *
 * BPF sees the registers alone, as two halves of 32 bits each. Where the kernel takes an int, the
 * low half is the whole value and the high one is ignored by both; a pointer needs both halves.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "seccomp_checks.h"

/* ---- answers ---- */

static const uint32_t outcomes[OUTCOMES] = {
    [ALLOW] = SECCOMP_RET_ALLOW,
    /* Another architecture's call cannot be honest code's: all the tables here would mislead. */
    [KILL_PROCESS] = SECCOMP_RET_KILL_PROCESS,
    [REFUSE_EPERM] = SECCOMP_RET_ERRNO | EPERM,
    [REFUSE_EACCES] = SECCOMP_RET_ERRNO | EACCES,
    [REFUSE_EINVAL] = SECCOMP_RET_ERRNO | EINVAL,
    [REFUSE_ENOSYS] = SECCOMP_RET_ERRNO | ENOSYS,
    [REFUSE_EOPNOTSUPP] = SECCOMP_RET_ERRNO | EOPNOTSUPP,
    [REFUSE_ENETUNREACH] = SECCOMP_RET_ERRNO | ENETUNREACH,
    [REFUSE_EAFNOSUPPORT] = SECCOMP_RET_ERRNO | EAFNOSUPPORT,
};

static void answer(struct assembler *a, unsigned outcome)
{
    bpf_return(a, outcomes[outcome]);
}

/* ---- arguments, and lists of what they may be ---- */

/* Where the low half of an argument is, counted from 0; both architectures are little-endian. */
static size_t low_half(unsigned argument)
{
    return offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t);
}

static void load_low(struct assembler *a, unsigned argument)
{
    bpf_load(a, low_half(argument));
}

static void load_high(struct assembler *a, unsigned argument)
{
    bpf_load(a, low_half(argument) + sizeof(uint32_t));
}

/* Where a check lists what it allows: values, or ranges of them. */
struct range {
    uint32_t first, last;
};

static bool is_small(const struct range *range)
{
    return range->last < BPF_NUMBERS_MAX - 32;
}

static void if_in_range(struct assembler *a, const struct range *range, unsigned label)
{
    if (range->first == range->last) {
        bpf_if_equal(a, range->first, label);
    } else {
        unsigned other = a->labels++;

        bpf_emit(a, BPF_JMP | BPF_JGE | BPF_K, range->first, BPF_NEXT, other);
        bpf_emit(a, BPF_JMP | BPF_JGT | BPF_K, range->last, other, label);
        bpf_place(a, other);
    }
}

/* Goes to `label` if the argument is listed, else on, with the argument loaded. */
static void if_listed(struct assembler *a, unsigned argument, const struct range *ranges,
                      size_t count, unsigned label)
{
    uint32_t set[BPF_SET_WORDS] = {0};
    bool any_small = false;

    load_low(a, argument);
    for (size_t i = 0; i < count; i++) {
        if (!is_small(&ranges[i]))
            if_in_range(a, &ranges[i], label);
        else
            for (uint32_t value = ranges[i].first; value <= ranges[i].last; value++)
                bpf_set_add(set, value);
        any_small |= is_small(&ranges[i]);
    }
    if (any_small) {
        unsigned other = a->labels++;

        bpf_if_in_set(a, low_half(argument), set, label, other);
        bpf_place(a, other);
        load_low(a, argument);
    }
}

#define IF_LISTED(a, argument, ranges, label)                                                      \
    if_listed((a), (argument), (ranges), sizeof(ranges) / sizeof((ranges)[0]), (label))

/* ---- the checks: each begins at its label and ends in an answer ---- */

/* For arguments of 64 bits, pointers and longs: `value` and nothing in the high half. */
static void allow_only(struct assembler *a, unsigned argument, uint32_t value, unsigned refuse)
{
    load_low(a, argument);
    bpf_unless_equal(a, value, refuse);
    load_high(a, argument);
    bpf_unless_equal(a, 0, refuse);
    answer(a, ALLOW);
}

/*
 * A setuid file left in a granted directory would let anyone outside become the user who ran the
 * jail. chmod is refused, but creation takes a mode too.
 */
static void check_mode(struct assembler *a, unsigned mode)
{
    load_low(a, mode);
    bpf_if_any_bit(a, S_ISUID | S_ISGID, REFUSE_EACCES);
    answer(a, ALLOW);
}

/*
 * Landlock asks for the rights that the access mode names. Truncating what is opened to be read
 * needs none to write before ABI 3, and 3, an access mode of Linux for ioctl alone, needs none at
 * all. Nothing honest opens so. The mode counts only where a file is created.
 */
static void check_open(struct assembler *a, unsigned flags)
{
    const uint32_t access = 3; /* not O_ACCMODE, which in musl has O_PATH too */

    load_low(a, flags);
    bpf_mask(a, access | O_TRUNC);
    bpf_if_equal(a, O_RDONLY | O_TRUNC, REFUSE_EACCES);
    bpf_mask(a, access);
    bpf_if_equal(a, access, REFUSE_EACCES);
    load_low(a, flags);
    bpf_unless_any_bit(a, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), ALLOW);
    check_mode(a, flags + 1);
}

static void emit_open(struct assembler *a)
{
    check_open(a, 1);
}

static void emit_openat(struct assembler *a)
{
    check_open(a, 2);
}

static void emit_create(struct assembler *a)
{
    check_mode(a, 1);
}

static void emit_createat(struct assembler *a)
{
    check_mode(a, 2);
}

/* Packet, vsock, crypto and other families have no use here and a long record of kernel bugs. */
static void emit_socket(struct assembler *a)
{
    load_low(a, 0);
    bpf_if_equal(a, AF_INET, ALLOW);
    bpf_if_equal(a, AF_INET6, ALLOW);
    bpf_if_equal(a, AF_UNIX, ALLOW);
    bpf_unless_equal(a, AF_NETLINK, REFUSE_EAFNOSUPPORT);
    load_low(a, 2);
    bpf_unless_equal(a, 0 /* NETLINK_ROUTE, by which libc lists the addresses */,
                     REFUSE_EAFNOSUPPORT);
    answer(a, ALLOW);
}

/*
 * A datagram socket can send to an address (a path, an abstract name) without being connected, and
 * sendmsg keeps the address in memory, which no filter reads. So no datagram socket may come to be:
 * the types allowed are listed, since a Unix SOCK_RAW silently becomes one.
 */
static void emit_socketpair(struct assembler *a)
{
    unsigned refuse = a->options->network ? REFUSE_EAFNOSUPPORT : REFUSE_ENETUNREACH;

    load_low(a, 0);
    bpf_unless_equal(a, AF_UNIX, refuse);
    if (!a->options->network) {
        load_low(a, 1);
        bpf_mask(a, ~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC));
        bpf_if_equal(a, SOCK_STREAM, ALLOW);
        bpf_unless_equal(a, SOCK_SEQPACKET, REFUSE_ENETUNREACH);
    }
    answer(a, ALLOW);
}

static void emit_sendto(struct assembler *a)
{
    allow_only(a, 4, 0, REFUSE_ENETUNREACH);
}

/* A stream socket that was inherited would connect with it, and Landlock is not asked. */
static void emit_sendmsg(struct assembler *a)
{
    load_low(a, 2);
    bpf_if_any_bit(a, MSG_FASTOPEN, REFUSE_ENETUNREACH);
    answer(a, ALLOW);
}

/*
 * The kernel takes the low half of the flags. With CLONE_PARENT our parent would find a child
 * that it never made.
 */
static void emit_clone(struct assembler *a)
{
    const uint32_t namespaces = 0x80 /* CLONE_NEWTIME */ | CLONE_NEWNS | CLONE_NEWCGROUP |
                                CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                CLONE_NEWNET;

    load_low(a, 0);
    bpf_if_any_bit(a, namespaces | CLONE_PARENT | CLONE_PTRACE, REFUSE_EPERM);
    if (!a->options->processes)
        bpf_unless_any_bit(a, CLONE_THREAD, REFUSE_EPERM);
    answer(a, ALLOW);
}

/*
 * 0 and -self are the process group, which the child leads: its own tree, and the watcher, which
 * must not be stopped. Whoever else the block kills with it, it goes as well.
 */
static void emit_kill(struct assembler *a)
{
    unsigned group = a->labels++;

    load_low(a, 0);
    bpf_if_self(a, 1, ALLOW);
    bpf_if_equal(a, 0, group);
    bpf_if_self(a, -1, group);
    answer(a, REFUSE_EPERM);

    bpf_place(a, group);
    load_low(a, 1);
    bpf_if_equal(a, SIGSTOP, REFUSE_EPERM);
    answer(a, ALLOW);
}

static void emit_signal_self(struct assembler *a)
{
    load_low(a, 0);
    bpf_if_self(a, 1, ALLOW);
    answer(a, REFUSE_EPERM);
}

static void check_self(struct assembler *a, unsigned argument)
{
    load_low(a, argument);
    bpf_if_equal(a, 0, ALLOW);
    bpf_if_self(a, 1, ALLOW);
    answer(a, REFUSE_EPERM);
}

static void emit_self(struct assembler *a)
{
    check_self(a, 0);
}

static void emit_setpriority(struct assembler *a)
{
    load_low(a, 0);
    bpf_unless_equal(a, PRIO_PROCESS, REFUSE_EPERM);
    check_self(a, 1);
}

static void emit_ioprio(struct assembler *a)
{
    load_low(a, 0);
    bpf_unless_equal(a, 1 /* IOPRIO_WHO_PROCESS */, REFUSE_EPERM);
    check_self(a, 1);
}

/*
 * Every driver and every file system brings requests of its own. Some push keys into a terminal
 * (TIOCSTI, TIOCLINUX), stop its output, signal others or write metadata through a descriptor that
 * only reads, and Landlock looks at devices alone. A list of what is refused could not be complete.
 */
static const struct range ioctl_allowed[] = {
    {0x5401, 0x5401},         /* TCGETS: isatty */
    {0x802c542a, 0x802c542a}, /* TCGETS2 */
    {0x5413, 0x5413},         /* TIOCGWINSZ */
    {0x541b, 0x541b},         /* FIONREAD */
    {0x5421, 0x5421},         /* FIONBIO */
    {0x5450, 0x5451},         /* FIONCLEX FIOCLEX */
    {0x540f, 0x540f},         /* TIOCGPGRP */
    {0x5411, 0x5411},         /* TIOCOUTQ, SIOCOUTQ */
    {0x5429, 0x5429},         /* TIOCGSID */
    {0x5460, 0x5460},         /* FIOQSIZE */
    {0x40049409, 0x40049409}, /* FICLONE */
    {0x4020940d, 0x4020940d}, /* FICLONERANGE */
    {0xc0189436, 0xc0189436}, /* FIDEDUPERANGE */
    {0xc020660b, 0xc020660b}, /* FS_IOC_FIEMAP */
    {0x80086601, 0x80086601}, /* FS_IOC_GETFLAGS */
    {0x80087601, 0x80087601}, /* FS_IOC_GETVERSION */
    {0x801c581f, 0x801c581f}, /* FS_IOC_FSGETXATTR */
    {0x80045200, 0x80045200}, /* RNDGETENTCNT */
    {0x8903, 0x8905},         /* FIOGETOWN SIOCGPGRP SIOCATMARK */
};

static const struct range ioctl_of_networks[] = {
    {0x8910, 0x8910}, /* SIOCGIFNAME */
    {0x8912, 0x8913}, /* SIOCGIFCONF SIOCGIFFLAGS */
    {0x8915, 0x8915}, /* SIOCGIFADDR */
    {0x8917, 0x8917}, /* SIOCGIFDSTADDR */
    {0x8919, 0x8919}, /* SIOCGIFBRDADDR */
    {0x891b, 0x891b}, /* SIOCGIFNETMASK */
    {0x8921, 0x8921}, /* SIOCGIFMTU */
    {0x8927, 0x8927}, /* SIOCGIFHWADDR */
    {0x8933, 0x8933}, /* SIOCGIFINDEX */
};

static void emit_ioctl(struct assembler *a)
{
    IF_LISTED(a, 1, ioctl_allowed, ALLOW);
    if (a->options->network)
        IF_LISTED(a, 1, ioctl_of_networks, ALLOW);
    answer(a, REFUSE_EPERM);
}

/*
 * Not F_SETOWN, F_SETOWN_EX and F_SETSIG, which send signals to others; not F_SETLEASE, which makes
 * others wait; not F_NOTIFY, which watches; not F_SETPIPE_SZ, which takes what all pipes of a user
 * share. F_SETFL is looked at further.
 */
static const struct range fcntl_allowed[] = {
    {0, 3},       /* F_DUPFD F_GETFD F_SETFD F_GETFL */
    {5, 7},       /* F_GETLK F_SETLK F_SETLKW */
    {1027, 1030}, /* F_DUPFD_QUERY to F_DUPFD_CLOEXEC */
    {1032, 1038}, /* F_GETPIPE_SZ to F_SET_FILE_RW_HINT: seals */
    {36, 38},     /* F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW */
    {9, 9},       /* F_GETOWN */
    {11, 11},     /* F_GETSIG */
    {16, 17},     /* F_GETOWN_EX F_GETOWNER_UIDS */
    {1025, 1025}, /* F_GETLEASE */
};

static void emit_fcntl(struct assembler *a)
{
    unsigned flags = a->labels++;

    IF_LISTED(a, 1, fcntl_allowed, ALLOW);
    bpf_if_equal(a, F_SETFL, flags);
    answer(a, REFUSE_EPERM);

    bpf_place(a,
              flags); /* a terminal takes its foreground group for the owner: input would kill it */
    load_low(a, 2);
    bpf_if_any_bit(a, O_ASYNC, REFUSE_EPERM);
    answer(a, ALLOW);
}

static const struct range prctl_allowed[] = {
    {0x53564d41, 0x53564d41}, /* PR_SET_VMA: names memory; Ruby and malloc do */
    {2, 3},                   /* PR_GET_PDEATHSIG PR_GET_DUMPABLE */
    {15, 16},                 /* PR_SET_NAME PR_GET_NAME */
    {21, 23},                 /* PR_GET_SECCOMP PR_SET_SECCOMP PR_CAPBSET_READ */
    {5, 5},                   /* PR_GET_UNALIGN */
    {7, 7},                   /* PR_GET_KEEPCAPS */
    {25, 25},                 /* PR_GET_TSC */
    {27, 27},                 /* PR_GET_SECUREBITS */
    {29, 30},                 /* PR_SET_TIMERSLACK PR_GET_TIMERSLACK */
    {34, 34},                 /* PR_MCE_KILL_GET */
    {37, 40},                 /* PR_GET_CHILD_SUBREAPER PR_*_NO_NEW_PRIVS PR_GET_TID_ADDRESS */
    {41, 42},                 /* PR_SET_THP_DISABLE PR_GET_THP_DISABLE */
    {50, 52},                 /* PR_SVE_SET_VL PR_SVE_GET_VL PR_GET_SPECULATION_CTRL */
    {54, 56}, /* PR_PAC_RESET_KEYS PR_SET_TAGGED_ADDR_CTRL PR_GET_TAGGED_ADDR_CTRL */
    {61, 61}, /* PR_PAC_GET_ENABLED_KEYS */
    {63, 66}, /* PR_SME_SET_VL PR_SME_GET_VL PR_SET_MDWE PR_GET_MDWE */
    {68, 68}, /* PR_GET_MEMORY_MERGE */
    {74, 76}, /* PR_*_SHADOW_STACK_STATUS */
    {0x41555856, 0x41555856}, /* PR_GET_AUXV */
};

/* What the kernel has beside these is refused as such; an option outside is newer, and unknown. */
static const struct range prctl_known = {1, 79};

static void emit_prctl(struct assembler *a)
{
    unsigned death_signal = a->labels++;
    unsigned dumpable = a->labels++;

    IF_LISTED(a, 0, prctl_allowed, ALLOW);
    bpf_if_equal(a, 1 /* PR_SET_PDEATHSIG */, death_signal);
    bpf_if_equal(a, 4 /* PR_SET_DUMPABLE */, dumpable);
    if_in_range(a, &prctl_known, REFUSE_EPERM);
    bpf_if_equal(a, 0x59616d61 /* PR_SET_PTRACER: lets another process in */, REFUSE_EPERM);
    answer(a, REFUSE_EINVAL);

    bpf_place(a, death_signal); /* must not be cleared, or the child outlives the parent's death */
    allow_only(a, 1, SIGKILL, REFUSE_EPERM);

    bpf_place(a, dumpable); /* may only become harder to read */
    allow_only(a, 1, 0, REFUSE_EPERM);
}

static void emit_personality(struct assembler *a)
{
    load_low(a, 0);
    bpf_if_equal(a, 0 /* PER_LINUX */, ALLOW);
    bpf_if_equal(a, 0xffffffff /* asks */, ALLOW);
    answer(a, REFUSE_EPERM);
}

/* Those that hold the process id are neighbours: writing it should touch one page of the child. */
static const struct {
    enum label label;
    void (*emit)(struct assembler *a);
} checks[] = {
    {CHECK_KILL, emit_kill},
    {CHECK_SIGNAL_SELF, emit_signal_self},
    {CHECK_SELF, emit_self},
    {CHECK_SETPRIORITY, emit_setpriority},
    {CHECK_IOPRIO, emit_ioprio},
    {CHECK_OPEN, emit_open},
    {CHECK_OPENAT, emit_openat},
    {CHECK_CREATE, emit_create},
    {CHECK_CREATEAT, emit_createat},
    {CHECK_SOCKET, emit_socket},
    {CHECK_SOCKETPAIR, emit_socketpair},
    {CHECK_SENDTO, emit_sendto},
    {CHECK_SENDMSG, emit_sendmsg},
    {CHECK_CLONE, emit_clone},
    {CHECK_IOCTL, emit_ioctl},
    {CHECK_FCNTL, emit_fcntl},
    {CHECK_PRCTL, emit_prctl},
    {CHECK_PERSONALITY, emit_personality},
};

/* ---- the parts that seccomp_checks.h declares ---- */

void seccomp_emit_checks(struct assembler *a)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (!a->wanted[checks[i].label])
            continue;
        bpf_place(a, checks[i].label);
        checks[i].emit(a);
    }
}

void seccomp_emit_answers(struct assembler *a)
{
    for (unsigned outcome = ALLOW; outcome < OUTCOMES; outcome++) {
        if (!a->wanted[outcome])
            continue;
        bpf_place(a, outcome);
        answer(a, outcome);
    }
}

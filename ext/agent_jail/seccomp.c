/*
 * seccomp.c - the filter over system calls: built from the table in syscalls.c, put on the child.
 *
 * The program reads: is this the right architecture; search the number; where the verdict hangs on
 * an argument, check it; answer. It is attached once per run, and the kernel then runs it for every
 * number there is to learn which calls are always allowed (those never enter the filter again). So
 * it is short, the search is balanced, and neighbours with one outcome are one leaf.
 *
 * BPF sees the registers alone, as two halves of 32 bits each. Where the kernel takes an int, the
 * low half is the whole value and the high one is ignored by both; a pointer needs both halves.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail.h"

#if defined(__x86_64__) && !defined(__ILP32__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && !defined(__ILP32__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "agent_jail has no system call table for this architecture"
#endif

_Static_assert(sizeof(struct seccomp_instruction) == sizeof(struct sock_filter),
               "the kernel reads the instructions as they are");

/* Stands for the child's process id until it has one. No process can have this one. */
#define SELF_UNKNOWN 0x7fffffffu

/* ---- the assembler ---- */

/*
 * Where a jump can go. Outcomes end the program; checks look at arguments; what follows are labels
 * that the search makes up.
 */
enum label {
    NEXT, /* the instruction behind this one */

    ALLOW,
    KILL_PROCESS,
    REFUSE_EPERM,
    REFUSE_EACCES,
    REFUSE_EINVAL,
    REFUSE_ENOSYS,
    REFUSE_EOPNOTSUPP,
    REFUSE_ENETUNREACH,
    REFUSE_EAFNOSUPPORT,
    OUTCOMES,

    CHECK_OPEN = OUTCOMES,
    CHECK_OPENAT,
    CHECK_CREATE,
    CHECK_CREATEAT,
    CHECK_SOCKET,
    CHECK_SOCKETPAIR,
    CHECK_SENDTO,
    CHECK_SENDMSG,
    CHECK_CLONE,
    CHECK_KILL,
    CHECK_SIGNAL_SELF,
    CHECK_SELF,
    CHECK_SETPRIORITY,
    CHECK_IOPRIO,
    CHECK_IOCTL,
    CHECK_FCNTL,
    CHECK_PRCTL,
    CHECK_PERSONALITY,
    CHECKS_END,

    LABELS_MAX = CHECKS_END + SECCOMP_LENGTH_MAX,
};

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
    uint16_t places[LABELS_MAX]; /* of each label: the index of its operation */
    bool wanted[CHECKS_END];     /* outcomes and checks that something jumps to */
    uint16_t labels;             /* the next free label */
    const struct seccomp_options *options;
};

static void emit(struct assembler *a, uint16_t code, uint32_t k, unsigned yes, unsigned no)
{
    if (yes < CHECKS_END)
        a->wanted[yes] = true;
    if (no < CHECKS_END)
        a->wanted[no] = true;
    a->operations[a->count] =
        (struct operation){.code = code, .k = k, .yes = (uint16_t)yes, .no = (uint16_t)no};
    if (a->count < SECCOMP_LENGTH_MAX)
        a->count++; /* a full program overwrites its last operation, and is refused at the end */
}

static void place(struct assembler *a, unsigned label)
{
    a->places[label] = a->count;
}

static void load(struct assembler *a, size_t offset)
{
    emit(a, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, NEXT, NEXT);
}

/* Where the low half of an argument is, counted from 0; both architectures are little-endian. */
static size_t low_half(unsigned argument)
{
    return offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t);
}

static void load_low(struct assembler *a, unsigned argument)
{
    load(a, low_half(argument));
}

static void load_high(struct assembler *a, unsigned argument)
{
    load(a, low_half(argument) + sizeof(uint32_t));
}

static void mask(struct assembler *a, uint32_t bits)
{
    emit(a, BPF_ALU | BPF_AND | BPF_K, bits, NEXT, NEXT);
}

static void if_equal(struct assembler *a, uint32_t value, unsigned label)
{
    emit(a, BPF_JMP | BPF_JEQ | BPF_K, value, label, NEXT);
}

static void unless_equal(struct assembler *a, uint32_t value, unsigned label)
{
    emit(a, BPF_JMP | BPF_JEQ | BPF_K, value, NEXT, label);
}

static void if_any_bit(struct assembler *a, uint32_t bits, unsigned label)
{
    emit(a, BPF_JMP | BPF_JSET | BPF_K, bits, label, NEXT);
}

static void unless_any_bit(struct assembler *a, uint32_t bits, unsigned label)
{
    emit(a, BPF_JMP | BPF_JSET | BPF_K, bits, NEXT, label);
}

/* Compares with the child's process id; seccomp_apply puts it in. `sign` is 1 or -1. */
static void if_self(struct assembler *a, int sign, unsigned label)
{
    if_equal(a, sign < 0 ? 0u - SELF_UNKNOWN : SELF_UNKNOWN, label);
    a->operations[a->count - 1].self = true;
}

static void answer(struct assembler *a, unsigned outcome)
{
    emit(a, BPF_RET | BPF_K, outcomes[outcome], NEXT, NEXT);
}

/* ---- search and sets ---- */

/* Numbers from `first` to before the next run's, which all go to one label. */
struct run {
    uint32_t first;
    unsigned label;
};

/* Goes to the label of the run that holds the number loaded: halves the runs until one is left. */
static void search(struct assembler *a, const struct run *runs, size_t count)
{
    size_t half = count / 2;
    unsigned above = count - half == 1 ? runs[half].label : a->labels++;
    unsigned below = half == 1 ? runs[0].label : NEXT;

    emit(a, BPF_JMP | BPF_JGE | BPF_K, runs[half].first, above, below);
    if (half > 1)
        search(a, runs, half);
    if (count - half > 1) {
        place(a, above);
        search(a, runs + half, count - half);
    }
}

/* A set of numbers, a bit each. The last word stays empty, for all the numbers above. */
#define NUMBERS_MAX 512
#define WORDS (NUMBERS_MAX / 32)

static void set_add(uint32_t set[WORDS], uint32_t number)
{
    set[number / 32] |= 1u << number % 32;
}

/*
 * Goes to `member` if the number at `offset` is in the set, else to `other`: X becomes the number's
 * bit in its word, the word is searched, the two are compared. This costs three instructions for 32
 * numbers, where a search over numbers that alternate costs 32.
 */
static void if_in_set(struct assembler *a, size_t offset, const uint32_t set[WORDS],
                      unsigned member, unsigned other)
{
    struct run runs[WORDS];
    uint32_t words[WORDS];
    size_t count = 0;

    for (uint32_t i = 0; i < WORDS; i++) {
        if (count > 0 && set[i] == words[count - 1])
            continue;
        words[count] = set[i];
        runs[count].first = i * 32;
        runs[count].label = set[i] == 0 ? other : a->labels++;
        count++;
    }
    load(a, offset);
    mask(a, 31);
    emit(a, BPF_MISC | BPF_TAX, 0, NEXT, NEXT);
    emit(a, BPF_LD | BPF_IMM, 1, NEXT, NEXT);
    emit(a, BPF_ALU | BPF_LSH | BPF_X, 0, NEXT, NEXT);
    emit(a, BPF_MISC | BPF_TAX, 0, NEXT, NEXT);
    load(a, offset);
    search(a, runs, count);
    for (size_t i = 0; i < count; i++) {
        if (words[i] == 0)
            continue;
        place(a, runs[i].label);
        emit(a, BPF_LD | BPF_IMM, words[i], NEXT, NEXT);
        emit(a, BPF_JMP | BPF_JSET | BPF_X, 0, member, other);
    }
}

/* ---- the checks: each begins at its label and ends in an answer ---- */

/* Where a check lists what it allows: values, or ranges of them. */
struct range {
    uint32_t first, last;
};

static bool is_small(const struct range *range)
{
    return range->last < NUMBERS_MAX - 32;
}

static void if_in_range(struct assembler *a, const struct range *range, unsigned label)
{
    if (range->first == range->last) {
        if_equal(a, range->first, label);
    } else {
        unsigned other = a->labels++;

        emit(a, BPF_JMP | BPF_JGE | BPF_K, range->first, NEXT, other);
        emit(a, BPF_JMP | BPF_JGT | BPF_K, range->last, other, label);
        place(a, other);
    }
}

/* Goes to `label` if the argument is listed, else on, with the argument loaded. */
static void if_listed(struct assembler *a, unsigned argument, const struct range *ranges,
                      size_t count, unsigned label)
{
    uint32_t set[WORDS] = {0};
    bool any_small = false;

    load_low(a, argument);
    for (size_t i = 0; i < count; i++) {
        if (!is_small(&ranges[i]))
            if_in_range(a, &ranges[i], label);
        else
            for (uint32_t value = ranges[i].first; value <= ranges[i].last; value++)
                set_add(set, value);
        any_small |= is_small(&ranges[i]);
    }
    if (any_small) {
        unsigned other = a->labels++;

        if_in_set(a, low_half(argument), set, label, other);
        place(a, other);
        load_low(a, argument);
    }
}

#define IF_LISTED(a, argument, ranges, label)                                                      \
    if_listed((a), (argument), (ranges), sizeof(ranges) / sizeof((ranges)[0]), (label))

/* For arguments of 64 bits, pointers and longs: `value` and nothing in the high half. */
static void allow_only(struct assembler *a, unsigned argument, uint32_t value, unsigned refuse)
{
    load_low(a, argument);
    unless_equal(a, value, refuse);
    load_high(a, argument);
    unless_equal(a, 0, refuse);
    answer(a, ALLOW);
}

/*
 * A setuid file left in a granted directory would let anyone outside become the user who ran the
 * jail. chmod is refused, but creation takes a mode too.
 */
static void check_mode(struct assembler *a, unsigned mode)
{
    load_low(a, mode);
    if_any_bit(a, S_ISUID | S_ISGID, REFUSE_EACCES);
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
    mask(a, access | O_TRUNC);
    if_equal(a, O_RDONLY | O_TRUNC, REFUSE_EACCES);
    mask(a, access);
    if_equal(a, access, REFUSE_EACCES);
    load_low(a, flags);
    unless_any_bit(a, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), ALLOW);
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
    if_equal(a, AF_INET, ALLOW);
    if_equal(a, AF_INET6, ALLOW);
    if_equal(a, AF_UNIX, ALLOW);
    unless_equal(a, AF_NETLINK, REFUSE_EAFNOSUPPORT);
    load_low(a, 2);
    unless_equal(a, 0 /* NETLINK_ROUTE, by which libc lists the addresses */, REFUSE_EAFNOSUPPORT);
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
    unless_equal(a, AF_UNIX, refuse);
    if (!a->options->network) {
        load_low(a, 1);
        mask(a, ~(uint32_t)(SOCK_NONBLOCK | SOCK_CLOEXEC));
        if_equal(a, SOCK_STREAM, ALLOW);
        unless_equal(a, SOCK_SEQPACKET, REFUSE_ENETUNREACH);
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
    if_any_bit(a, MSG_FASTOPEN, REFUSE_ENETUNREACH);
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
    if_any_bit(a, namespaces | CLONE_PARENT | CLONE_PTRACE, REFUSE_EPERM);
    if (!a->options->processes)
        unless_any_bit(a, CLONE_THREAD, REFUSE_EPERM);
    answer(a, ALLOW);
}

/* 0 and -self are the process group, which the child leads: its own tree and nobody else. */
static void emit_kill(struct assembler *a)
{
    load_low(a, 0);
    if_equal(a, 0, ALLOW);
    if_self(a, 1, ALLOW);
    if_self(a, -1, ALLOW);
    answer(a, REFUSE_EPERM);
}

static void emit_signal_self(struct assembler *a)
{
    load_low(a, 0);
    if_self(a, 1, ALLOW);
    answer(a, REFUSE_EPERM);
}

static void check_self(struct assembler *a, unsigned argument)
{
    load_low(a, argument);
    if_equal(a, 0, ALLOW);
    if_self(a, 1, ALLOW);
    answer(a, REFUSE_EPERM);
}

static void emit_self(struct assembler *a)
{
    check_self(a, 0);
}

static void emit_setpriority(struct assembler *a)
{
    load_low(a, 0);
    unless_equal(a, PRIO_PROCESS, REFUSE_EPERM);
    check_self(a, 1);
}

static void emit_ioprio(struct assembler *a)
{
    load_low(a, 0);
    unless_equal(a, 1 /* IOPRIO_WHO_PROCESS */, REFUSE_EPERM);
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
 * others wait; not F_NOTIFY, which watches.
 */
static const struct range fcntl_allowed[] = {
    {0, 7},       /* F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW */
    {1027, 1038}, /* F_DUPFD_QUERY to F_SET_FILE_RW_HINT: F_DUPFD_CLOEXEC, pipe sizes, seals */
    {36, 38},     /* F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW */
    {9, 9},       /* F_GETOWN */
    {11, 11},     /* F_GETSIG */
    {16, 17},     /* F_GETOWN_EX F_GETOWNER_UIDS */
    {1025, 1025}, /* F_GETLEASE */
};

static void emit_fcntl(struct assembler *a)
{
    IF_LISTED(a, 1, fcntl_allowed, ALLOW);
    answer(a, REFUSE_EPERM);
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
    if_equal(a, 1 /* PR_SET_PDEATHSIG */, death_signal);
    if_equal(a, 4 /* PR_SET_DUMPABLE */, dumpable);
    if_in_range(a, &prctl_known, REFUSE_EPERM);
    if_equal(a, 0x59616d61 /* PR_SET_PTRACER: lets another process in */, REFUSE_EPERM);
    answer(a, REFUSE_EINVAL);

    place(a, death_signal); /* must not be cleared, or the child outlives the parent's death */
    allow_only(a, 1, SIGKILL, REFUSE_EPERM);

    place(a, dumpable); /* may only become harder to read */
    allow_only(a, 1, 0, REFUSE_EPERM);
}

static void emit_personality(struct assembler *a)
{
    load_low(a, 0);
    if_equal(a, 0 /* PER_LINUX */, ALLOW);
    if_equal(a, 0xffffffff /* asks */, ALLOW);
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
static const char *label_numbers(unsigned labels[NUMBERS_MAX], uint32_t audit_arch,
                                 const struct seccomp_options *options)
{
    size_t count;
    const struct seccomp_row *rows = seccomp_table(&count);

    for (size_t i = 0; i < NUMBERS_MAX; i++)
        labels[i] = NEXT;
    for (size_t i = 0; i < count; i++) {
        int number = seccomp_number(&rows[i], audit_arch);

        if (number < 0)
            continue;
        if (number >= NUMBERS_MAX - 32 || labels[number] != NEXT)
            return "seccomp_table";
        labels[number] = label_for(rows[i].verdict, options);
    }
    for (size_t i = 0; i < NUMBERS_MAX; i++)
        if (labels[i] == NEXT)
            labels[i] = REFUSE_ENOSYS;
    return NULL;
}

/*
 * Half of all numbers are allowed, strewn among the others: those are a set. Without them, the
 * search has long runs. The last of them, absent, also holds every number above: those of x32 too.
 */
static void emit_numbers(struct assembler *a, const unsigned labels[NUMBERS_MAX])
{
    const size_t number = offsetof(struct seccomp_data, nr);
    struct run runs[NUMBERS_MAX];
    uint32_t allowed[WORDS] = {0};
    unsigned others = a->labels++;
    size_t count = 0;

    for (uint32_t i = 0; i < NUMBERS_MAX; i++) {
        if (labels[i] == ALLOW)
            set_add(allowed, i);
        else if (count == 0 || labels[i] != runs[count - 1].label)
            runs[count++] = (struct run){.first = i, .label = labels[i]};
    }
    if_in_set(a, number, allowed, ALLOW, others);
    place(a, others);
    load(a, number);
    search(a, runs, count);
}

/* ---- from operations to instructions ---- */

static bool is_jump(const struct operation *operation)
{
    return BPF_CLASS(operation->code) == BPF_JMP;
}

/* Where a jump lands: always further on, since every label is placed behind its uses. */
static const struct operation *target(const struct assembler *a, size_t from, unsigned label)
{
    return &a->operations[label == NEXT ? from + 1 : a->places[label]];
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

static bool write_program(struct seccomp_program *program, struct assembler *a)
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

/* ---- the parts that jail.h declares ---- */

static void emit_checks(struct assembler *a)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (!a->wanted[checks[i].label])
            continue;
        place(a, checks[i].label);
        checks[i].emit(a);
    }
}

static void emit_answers(struct assembler *a)
{
    for (unsigned outcome = ALLOW; outcome < OUTCOMES; outcome++) {
        if (!a->wanted[outcome])
            continue;
        place(a, outcome);
        answer(a, outcome);
    }
}

const char *seccomp_build(struct seccomp_program *program, uint32_t audit_arch,
                          const struct seccomp_options *options)
{
    struct assembler assembler = {.labels = CHECKS_END, .options = options};
    struct assembler *a = &assembler;
    unsigned labels[NUMBERS_MAX];
    const char *failed;

    if (audit_arch == 0)
        audit_arch = NATIVE_ARCH;
    errno = EINVAL;
    if (audit_arch != AUDIT_ARCH_X86_64 && audit_arch != AUDIT_ARCH_AARCH64)
        return "seccomp_build";
    failed = label_numbers(labels, audit_arch, options);
    if (failed != NULL)
        return failed;

    load(a, offsetof(struct seccomp_data, arch));
    unless_equal(a, audit_arch, KILL_PROCESS);
    emit_numbers(a, labels);
    emit_checks(a);
    emit_answers(a);
    return write_program(program, a) ? NULL : "seccomp_build";
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

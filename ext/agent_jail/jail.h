/*
 * jail.h - what the parts of the extension offer each other, a section per file.
 *
 * Everything declared here is plain C, takes plain values that somebody has validated, and can be tested without Ruby.
 * The files that know Ruby share run.h.
 *
 * How failure is told: a function that returns `const char *` returns NULL when it succeeded, else the name of the
 * call that failed, with errno set. These failures mean "the jail broke", never "the jailed code broke".
 *
 * Who may call what: "parent" functions run before the fork and may allocate; "child" functions run between fork and
 * block, in a process with one thread, and neither allocate nor touch stdio.
 */
#ifndef AGENT_JAIL_H
#define AGENT_JAIL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct seccomp_program;
struct descriptors;

/* ---- report.c, report_linux.c, report_darwin.c: how far a child came, told by other ways than the block's ---- */

/*
 * A file without a name that parent and child share. The child notes its number in it as soon as it runs, so that the parent
 * knows it even when a fork hook raised; writes into it what broke when the jail cannot be closed; and marks it when the
 * jail is closed, which nobody can undo: on Linux by a seal, after which what the file holds is the block's doing; on
 * macOS by losing it, so that there is nothing left by which to undo it.
 */
enum report_stage {
    REPORT_STARTED,  /* hooks and confinement are under way, or ended with nothing said */
    REPORT_FAILED,   /* the jail could not be closed */
    REPORT_CONFINED, /* the jail was closed */
};

struct report_failure {
    int error;         /* errno of the failed call; 0: not a system call */
    char call[64];     /* the call, or the step, that failed */
    char detail[1024]; /* what else there is to say, or empty */
};

/* Where in the file the failure is. The beginning is left to report_linux.c and report_darwin.c. */
#define REPORT_FAILURE_AT 16
/* Bytes that the file has room for: a crash report is longer, and its beginning is enough. */
#define REPORT_LENGTH (64 << 10)

/* parent: makes the file. */
const char *report_open(int *report);
/* child: notes who it is. Async-signal-safe. */
void report_start(int report);
/* parent: the number that the child noted, or 0. */
pid_t report_child(int report);
/* child: notes the failure; never returns. */
void report_fail(int report, const char *call, int error, const char *detail)
    __attribute__((noreturn));
/* parent: has made ready what the child needs, and knows the child, by a descriptor where there are such: whatever becomes
 * of it, the parent will be told. */
const char *report_release(int report);
/* child: waits for that. */
void report_await_release(int report);
/* child: the jail is closed. */
const char *report_confined(int report);
/* parent: it was closed. */
bool report_is_confined(int report);
/* parent: how far it came. */
enum report_stage report_read(int report, struct report_failure *failure);
/* parent: the beginning of what the closed jail's runtime said when it crashed; 0 bytes: it did not. Written by the child,
 * so it is not to be believed. */
size_t report_crash(int report, char *text, size_t size);

/* ---- process.c, process_linux.c, process_darwin.c: a child's identity, its end, and what it used ---- */

/* How a child ended. */
struct process_end {
    bool known;      /* false: somebody else reaped it and the kernel does not tell */
    int signal;      /* the signal that killed it, or 0 */
    int exit_status; /* when signal is 0 */
    double cpu;      /* seconds of CPU time, its reaped children's included; negative: not known */
    long max_rss_kb; /* negative: not known */
};

/* A fork that a run has under way; between process_announce and process_child. */
struct process_fork {
    const void *thread; /* the runtime's, that forks */
    int report;
    const struct descriptors *descriptors; /* dead in the child before the fork hooks run */
    bool forked;
    struct process_fork *next;
};

/* parent, once: what the child does first of all in every fork that a run started. `thread` tells which of the runtime's
 * threads this is. */
const char *process_install_fork_handlers(const void *(*thread)(void));
/* parent: the next fork of this thread is a jail's, with this report and these descriptors. */
void process_announce(struct process_fork *fork, int report, const struct descriptors *descriptors);
/* parent, after that fork: the child's number, or 0 when there is none. `known` is what fork returned, or 0 when a fork
 * hook raised instead: then the report tells. */
pid_t process_child(struct process_fork *fork, pid_t known);
/* child: its own group, its death with the parent's, no handler of the parent's. Done in the fork, and again, since it
 * does no harm, where that cannot be taken for granted. */
const char *process_enter(void);
/* child: leaves somebody who ends its group when the parent is gone. On Linux a process, for the programs, which do not
 * die with the parent; on macOS a thread, for the child itself as well. */
const char *process_watch(pid_t parent);

/* parent: a descriptor that stands for the process, or -1 where the kernel has none. */
int process_open(pid_t pid);
/* parent: SIGKILL to the child and to all in its group. Call before the child is reaped. */
void process_kill_tree(pid_t pid, int pidfd);
/* parent: true once the child has ended (it may still wait to be reaped). Does not block. */
bool process_ended(pid_t pid, int pidfd);
/* parent: reaps a child that was killed or has ended. Waits up to `patience` seconds; false: it is not gone yet. */
bool process_reap(pid_t pid, int pidfd, double patience, struct process_end *end);
/* parent: a killed child whose memory takes the kernel a while to take down is reaped by a thread of its own, which
 * knows nothing of the runtime and ends with it. False: there is no such thread to be had. */
bool process_reap_behind(pid_t pid);
/* parent: a child that was killed and is not gone yet, or a group (negative), is reaped by a later call. */
void process_reap_later(pid_t pid);
void process_reap_left(void);
/* parent: seconds of CPU time the child's threads have used, or negative when it cannot be known. */
double process_cpu(pid_t pid);
/* Seconds on the monotonic clock. */
double process_clock(void);
void process_describe_status(struct process_end *end, int status);
/* A detached thread with a small stack that no signal reaches; false: there is none to be had. */
bool process_start_thread(void *(*run)(void *), void *argument);

/* process_linux.c, process_darwin.c: */

/* child: from here on it dies with its parent, where the kernel sees to that. */
const char *process_die_with_parent(void);
/* parent: the status of a process that somebody else reaped, where the descriptor knows it. */
void process_ask_status(int pidfd, struct process_end *end);
/* What wait4 says of the resident memory, in KiB. */
long process_rss_kb(long ru_maxrss);
/* macOS, parent: bytes of memory that a process has to itself, or that the largest of a group has; 0: not known. */
uint64_t process_footprint(pid_t pid);
uint64_t process_group_footprint(pid_t group);

/* ---- proc.c, proc_darwin.c: what the system tells of this process, asked without malloc or streams ---- */

/* Calls `visit` for each entry of an open directory that is a number (/proc/self/fd, /proc/self/task) until it says
 * false. The directory's own descriptor is among those of /proc/self/fd. */
const char *proc_each_number(int directory, bool (*visit)(int number, void *argument),
                             void *argument);
/* Calls `visit` for each descriptor that is open, in their order, until it says false. `told`: false when nothing tells
 * which are. */
const char *proc_each_descriptor(bool (*visit)(int number, void *argument), void *argument,
                                 bool *told);
/* child: closes the descriptors from `first` to `last`; false when it cannot be done at once. */
bool proc_close_range(int first, int last);
/* Bytes of address space that a process has; 0 when it cannot be known. */
uint64_t proc_address_space(pid_t pid);

/* Where the environment that the process was started with lies in its memory; false when it cannot be known. */
bool proc_environment(char **start, char **end);

/* ---- tree.c: removing what a block left in its private directory ---- */

/*
 * parent: removes a directory and all in it, whatever was done to it. One that is not there is no failure. What takes longer
 * than a moment is removed by a thread behind, whose failure nobody hears of.
 */
const char *tree_remove(const char *path);

/* ---- limits.c: resource limits ---- */

struct limits {
    uint64_t address_space; /* bytes, what was inherited included: the child's to know */
    uint64_t headroom;      /* bytes of these that were not inherited */
    uint64_t cpu_seconds;   /* whole seconds; the parent enforces the fraction */
    uint64_t file_size;     /* bytes */
    uint64_t open_files;    /* see descriptors_limit */
};

/* child */
const char *limits_apply(const struct limits *limits);

/* ---- descriptors.c: what was open in the parent is dead in the child ---- */

struct descriptors {
    int null;        /* /dev/null, opened read-only */
    const int *keep; /* sorted or not; these stay as they are */
    size_t keep_count;
    bool (*reserved)(int); /* the runtime's own descriptors */
    int *open;             /* what was open before the fork, sorted; to be freed */
    size_t open_count;
};

/*
 * parent: /dev/null, opened read-only. So is each standard stream from then on that the caller has closed: what the jail
 * works with would be taken for it in the child, and a runtime that opens anew what it needs after a fork would get its
 * number, to be broken by what the block prints.
 */
const char *descriptors_open_null(int *null);

/* Closes what is open, makes it -1, and leaves errno alone. */
void descriptors_close(int *fd);

/* parent: a pipe whose reading end does not wait. */
const char *descriptors_pipe(int ends[2]);

/* parent: fills in what is open. */
const char *descriptors_list(struct descriptors *descriptors);

/* parent: the limit on numbers (RLIMIT_NOFILE) under which `count` more can be opened. */
int descriptors_limit(const struct descriptors *descriptors, int count);

/*
 * child: stdin becomes /dev/null; every descriptor above 2 that is neither kept nor reserved becomes /dev/null too,
 * so that its number is not reused while an object in the child still believes it to be its own.
 */
const char *descriptors_deaden(const struct descriptors *descriptors);

/* ---- mappings.c: memory that the parent shares is the child's own ---- */

/* child: puts a private mapping in the place of every shared one. */
const char *mappings_privatise(void);

/* ---- capabilities.c: what root may still do ---- */

/* child, per thread: keeps CAP_DAC_OVERRIDE alone, and nothing that could come back. */
const char *capabilities_drop(void);
/* True when they can be set here. */
bool capabilities_available(void);

/* ---- landlock.c on Linux, seatbelt.c on macOS: which paths may be used, and how ---- */

/* lib/agent_jail/system_paths.rb has these numbers too. */
enum grant {
    GRANT_READ = 1 << 0,
    GRANT_WRITE = 1 << 1, /* read is not implied */
    GRANT_EXECUTE = 1 << 2,
    GRANT_DEVICE = 1 << 3,    /* ioctl on a device; on macOS who may write may do that */
    GRANT_FILE = 1 << 4,      /* the caller has seen that it is no directory ... */
    GRANT_DIRECTORY = 1 << 5, /* ... or that it is one */
    GRANT_ITSELF = 1 << 6,    /* a directory, and no symlink to one */
};

/* ---- landlock.c ---- */

#define LANDLOCK_ABI_NEWEST 10

struct landlock {
    int fd; /* the ruleset, or -1: the kernel has no Landlock */
    int abi;
    uint64_t handled; /* file rights that are denied unless granted */
    bool signals;     /* signals reach only processes of the same jail */
};

/* The ABI that this kernel speaks; 0: none. */
int landlock_abi(void);
/* parent: an empty ruleset with every right of the kernel's ABI in it. */
const char *landlock_create(struct landlock *landlock, bool network);
/* parent and child: grants `access` (enum grant) beneath a path, or on a single file. */
const char *landlock_grant(const struct landlock *landlock, const char *path, unsigned access);
/* child, per thread: enforces the ruleset. Needs no_new_privs. */
const char *landlock_enforce(const struct landlock *landlock);

/* ---- seatbelt.c: what macOS lets the jail do, as the text of a profile ---- */

struct seatbelt_options {
    bool network;
    bool processes;
};

/* Bytes of a profile; some thousands of paths. */
#define SEATBELT_LENGTH_MAX ((size_t)512 << 10)

struct seatbelt {
    size_t length;
    bool full;       /* it did not all fit, so it is of no use */
    char seen[4096]; /* the path whose directories were named last */
    char text[SEATBELT_LENGTH_MAX];
};

/* parent: a profile that grants what every jail needs, and what the options open; to be freed. NULL: there is no memory. */
struct seatbelt *seatbelt_create(const struct seatbelt_options *options);
/* parent: grants `access` (enum grant) to a file, or to a directory and all beneath it. EINVAL: the path holds a
 * control character. */
const char *seatbelt_grant(struct seatbelt *profile, const char *path, unsigned access);
/* parent: the path may be looked at (stat), not read. */
const char *seatbelt_see(struct seatbelt *profile, const char *path);
/* parent: after the last grant. */
const char *seatbelt_finish(struct seatbelt *profile);
/* True when this process can be put into a sandbox: it is in none. */
bool seatbelt_available(void);
/* child: enforces the profile on every thread. When that fails `why` says more. */
const char *seatbelt_apply(const struct seatbelt *profile, char *why, size_t size);

/* ---- relay.c: what the block prints ---- */

struct relay {
    int to;        /* the parent's output: 1 or 2 */
    int from;      /* the pipe's reading end, or -1: there is nothing to relay */
    int child;     /* what the child prints to, until the fork, or -1: to what it inherited */
    int own;       /* `to` where it was opened here, or -1 */
    uint64_t room; /* bytes that may still come */
    bool socket;   /* what `to` is */
    bool waits;    /* it is a pipe, and not to be had without waiting */
    bool full;     /* `to` takes no more for now */
    size_t at, filled;
    char buffer[PIPE_BUF]; /* what a pipe that is ready takes at once */
};

/* parent: makes a relay for descriptor 1 or 2 if that needs one. `room`: bytes of it at most. */
const char *relay_open(struct relay *relay, int fd, uint64_t room);
/* parent: true when both are the same thing; then one relay keeps the order of what is printed. */
bool relay_is_same(int fd, int other);
/* child: puts what it prints to in the output's place. */
const char *relay_enter(const struct relay *relay, int fd);
/* parent, after the fork. */
void relay_forked(struct relay *relay);
/* parent: writes on what is there; waits for nothing. */
void relay_pump(struct relay *relay);
/* parent: the descriptor to wait for, and for what (as poll has it), until pumping makes sense; -1: none. */
int relay_awaits(const struct relay *relay, short *events);
/* parent: writes on what is left and is taken by the deadline, and closes. Once more does nothing. */
void relay_close(struct relay *relay, double deadline);

/* ---- confine.c, confine_linux.c, confine_darwin.c: the steps that close the jail ---- */

struct jail {
    pid_t parent;
    bool watched; /* programs may be run, see process_watch */
    struct limits limits;
    struct descriptors descriptors;
    struct landlock landlock;
    struct relay relays[2]; /* of standard output and error; the first of both when they are one */
    bool one_output;
    struct seccomp_program *filter; /* NULL: the kernel takes none */
    struct seatbelt *seatbelt;      /* NULL: not on macOS */
    char why[256]; /* in the child: what the step that failed has to say beside errno */
};

/* child: walks the steps. Returns the failed call's name with errno set, or NULL when the jail is closed. */
const char *confine(struct jail *jail);

/* A step. What errno cannot tell goes to jail->why. */
typedef const char *confine_step(struct jail *jail);

/* The steps that every platform takes, and what confine_linux.c and confine_darwin.c make of them, up to a NULL. */
confine_step confine_check_parent, confine_unblock_signals, confine_enter_relays,
    confine_deaden_descriptors, confine_apply_limits;
extern confine_step *const confine_steps[];

/* ---- threads.c: every thread of the child is confined, or none is ---- */

/* True on a thread's own stack, false on one that the runtime made beside it, as for a fiber. */
bool threads_on_stack(void);
/* True when this process has one thread. */
bool threads_alone(void);
/* child: runs `apply` on every other thread of the process too. */
const char *threads_apply(const char *(*apply)(void *), void *argument);

/* ---- crash.c: what the runtime says when it crashes ---- */

/* parent, once. */
const char *crash_install(void);
/* child: from here on a crash report goes into the file (of report.c). After exhaustion_watch. */
void crash_capture(int file);
/* child: writes what C's stderr was keeping back. */
void crash_flush(void);

/* ---- exhaustion.c: whether a child that gives up had any memory left ---- */

/* child: from here on an abort for want of memory is told in the file (of report.c). `headroom`: as in struct limits. */
const char *exhaustion_watch(int file, uint64_t headroom);
/* child: tells it there if memory is out, once. Async-signal-safe. */
void exhaustion_tell(void);

/* ---- frame.c: the channel between child and parent ---- */

enum frame_kind {
    FRAME_VALUE = 1, /* a Marshal dump */
    FRAME_RAISED,    /* an exception, as strings */
    FRAME_REFUSED,   /* the value cannot be sent: why, as a string */
    FRAME_MEMORY,    /* NoMemoryError, with nothing more: there was no memory to say more */
};

#define FRAME_MAGIC 0x4c4a4741u

struct frame_header {
    uint32_t magic;
    uint32_t kind;
    uint64_t length; /* of the body, in bytes */
};

/* child: writes all of the bytes, or returns false with errno set. */
bool frame_write(int fd, const void *bytes, size_t length);
/* child: sends a frame whole, or returns false with errno set. */
bool frame_send(int fd, enum frame_kind kind, const void *body, size_t length);

/* ---- supervise.c: waiting for bytes, the child's end, or a deadline ---- */

enum supervise_event {
    SUPERVISE_PENDING, /* nothing yet */
    SUPERVISE_DONE,    /* the bytes that were asked for are there */
    SUPERVISE_ENDED,   /* the child ended without sending them */
    SUPERVISE_WALL,    /* the deadline is over */
    SUPERVISE_CPU,     /* the CPU time is used up */
    SUPERVISE_MEMORY,  /* the memory is used up */
};

struct supervision {
    int result;  /* the pipe's reading end, non-blocking */
    bool closed; /* nobody can write to it any more */
    pid_t pid;
    int pidfd;
    double deadline;  /* on process_clock() */
    double cpu_limit; /* seconds */
    double next_look; /* when the CPU clock is read next */
    int processors;
    uint64_t (*footprint)(pid_t); /* bytes that a process has; NULL: the kernel limits them */
    uint64_t footprint_limit;
    double next_memory_look;
    struct relay *relays; /* two, pumped meanwhile */
    char *buffer;         /* where the bytes go */
    size_t length, got;
};

/* parent: takes what is there and looks at the clocks; never blocks. */
enum supervise_event supervise_advance(struct supervision *supervision);
/* Seconds until supervise_advance wants to be called again even when nothing happened. */
double supervise_patience(const struct supervision *supervision);
/* parent: sleeps until something may have happened. False: a signal arrived. */
bool supervise_sleep(const struct supervision *supervision);

/* ---- result.c: the gate. What may be handed to Marshal.load, decided on the bytes alone ---- */

/*
 * The wire forms in which Marshal names a class. A class is permitted per form, since each form runs other code of
 * the class when it is loaded.
 */
enum result_form {
    RESULT_OBJECT = 1 << 0,       /* o: allocate, set instance variables */
    RESULT_STRUCT = 1 << 1,       /* S: Struct and Data */
    RESULT_SUBCLASS = 1 << 2,     /* C: a subclass of String, Array or Hash */
    RESULT_USER_DEFINED = 1 << 3, /* u: Class._load(String) */
    RESULT_USER_MARSHAL = 1 << 4, /* U: object.marshal_load(data) */
};

/* A class that the caller permits beside the plain types: its full name and the forms it may come in. */
struct result_permit {
    const char *name;
    size_t length;
    unsigned forms;
};

struct result_policy {
    const struct result_permit *permits;
    size_t permit_count;
    const char *const *encodings; /* names of the encodings that are built in; others are refused */
    size_t encoding_count;
};

/* Why a result was refused, in words that can follow "the result was refused: ". */
struct result_refusal {
    char reason[192];
    size_t offset; /* of the byte that was refused */
};

/*
 * parent: true when `bytes` is exactly one Marshal 4.8 document that holds nothing but plain values and permitted
 * classes, nested no deeper than RESULT_DEPTH_MAX. On false, `refusal` says why; on true it is left alone.
 * Allocates about the room of the objects and symbols that the bytes hold, eight bytes each, and frees it.
 *
 * The depth: Marshal.load in a Fiber of Ruby 3.1, the smallest stack it runs on, overflows at 2533 nested Arrays and at
 * 844 permitted subclasses with instance variables; half of that stack may be in use by the caller.
 */
#define RESULT_DEPTH_MAX 400
/*
 * What Marshal.load costs, in units of about 100 ns: it holds the GVL meanwhile, and makes far more memory of a value than
 * the value has bytes. The most is some four million objects, five million pairs of a Hash, or 48 million of nil; half a
 * million of Time, whose loading runs much of Ruby's calendar, and a million and a half of BigDecimal.
 */
enum { LOAD_VALUE = 1, LOAD_PAIR = 8, LOAD_OBJECT = 12, LOAD_DECIMAL = 20, LOAD_TIME = 70 };
#define RESULT_LOAD_MAX 48000000u
/* Different names of instance variables that one result may bring, and the bytes of one: the parent keeps them for ever. */
#define RESULT_NAMES_MAX 1000u
#define RESULT_NAME_LENGTH_MAX 255u
bool result_check(const uint8_t *bytes, size_t length, const struct result_policy *policy,
                  struct result_refusal *refusal);

/* ---- syscalls.c: every system call, and what the jail does with it ---- */

/* The verdicts. "Refused" names the errno, chosen so that the class of the error is certain in Ruby. */
enum seccomp_verdict {
    SECCOMP_ALLOW,     /* allowed */
    SECCOMP_ABSENT,    /* ENOSYS: as if the kernel did not have it, so that callers fall back */
    SECCOMP_PRIVILEGE, /* EPERM: what an administrator does to the host */
    SECCOMP_OTHERS,    /* EPERM: reaches into other processes, or shares with them by name */
    SECCOMP_SESSION,   /* EPERM: leaves the process group, by which the whole tree is killed */
    SECCOMP_METADATA, /* EACCES: modes, owners, times, attributes and watches, which Landlock does not govern */
    SECCOMP_XATTR, /* EOPNOTSUPP: reads extended attributes of a path, which Landlock does not govern */
    SECCOMP_TRUNCATE, /* EACCES unless `scoped`: Landlock governs it from ABI 3 on, and `scoped` proves ABI 6 */
    SECCOMP_OPEN, /* EACCES for setuid and setgid modes, and for truncating what is opened to be read */
    SECCOMP_OPENAT,   /* the same, an argument later */
    SECCOMP_CREATE,   /* EACCES for setuid and setgid modes */
    SECCOMP_CREATEAT, /* the same, an argument later */
    SECCOMP_NETWORK,  /* ENETUNREACH unless `network` */
    SECCOMP_SOCKET, /* ENETUNREACH unless `network`; then Unix, IP and routing netlink, else EAFNOSUPPORT */
    SECCOMP_SOCKETPAIR, /* Unix only; without `network` no datagrams either: those can be sent to an address */
    SECCOMP_SENDTO,  /* ENETUNREACH for sending to an address, unless `network` */
    SECCOMP_SENDMSG, /* ENETUNREACH for connecting by the way (MSG_FASTOPEN), unless `network` */
    SECCOMP_PROCESS, /* EPERM unless `processes` */
    SECCOMP_CLONE, /* threads; with `processes` also processes; EPERM for namespaces and foreign parents */
    SECCOMP_KILL,   /* EPERM unless to itself or its group; anyone Landlock lets with `processes` */
    SECCOMP_TGKILL, /* EPERM unless to itself; anyone Landlock lets with `processes` */
    SECCOMP_TKILL,  /* EPERM unless to its first thread; anyone Landlock lets */
    SECCOMP_PIDFD,  /* EPERM unless `processes`, and Landlock confines signals */
    SECCOMP_SELF,   /* EPERM unless for itself */
    SECCOMP_SETPRIORITY, /* EPERM unless for itself */
    SECCOMP_IOPRIO,      /* EPERM unless for itself */
    SECCOMP_IOCTL,       /* EPERM unless one of the requests listed in seccomp_checks.c */
    SECCOMP_FCNTL,       /* EPERM unless one of the commands listed in seccomp_checks.c */
    SECCOMP_PRCTL, /* EPERM or, where unknown, EINVAL unless one of the options listed in seccomp_checks.c */
    SECCOMP_PERSONALITY, /* EPERM unless it asks, or sets what is the default */
};

/* One system call: its numbers (-1: the architecture has none) and its verdict. */
struct seccomp_row {
    const char *name;
    int16_t x86_64, aarch64;
    enum seccomp_verdict verdict;
};

/* Every row, grouped by what the calls are for. */
const struct seccomp_row *seccomp_table(size_t *count);

/* ---- seccomp.c: the filter over system calls ---- */

#define SECCOMP_LENGTH_MAX 512
#define SECCOMP_PATCH_MAX 32

/* What a run opens in the filter. */
struct seccomp_options {
    bool network;   /* sockets of any family, not only socketpair(AF_UNIX) */
    bool processes; /* fork, exec, and signals to the jail's own children */
    bool scoped;    /* Landlock confines signals to the jail (ABI 6), so the filter need not */
};

/* The layout of struct sock_filter, without its header. */
struct seccomp_instruction {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};

/* A built filter. `patches` are the instructions whose constant becomes the child's own process id. */
struct seccomp_program {
    struct seccomp_instruction instructions[SECCOMP_LENGTH_MAX];
    uint16_t length;
    uint16_t patches[SECCOMP_PATCH_MAX];
    uint16_t patch_count;
};

/* parent: builds the filter for `audit_arch` (AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64; 0: the one compiled for). */
const char *seccomp_build(struct seccomp_program *program, uint32_t audit_arch,
                          const struct seccomp_options *options);

/* child: puts the filter on every thread of the process, with its own process id patched in. Needs no_new_privs. */
const char *seccomp_apply(struct seccomp_program *program, pid_t self);

/* The number of `row` on `audit_arch`, or -1. */
int seccomp_number(const struct seccomp_row *row, uint32_t audit_arch);

/* The verdict's name, such as "allow" or "setpriority", for the reference document. */
const char *seccomp_verdict_name(enum seccomp_verdict verdict);

/* True when this kernel takes filters. */
bool seccomp_available(void);

/* ---- enforcement.c: what this kernel has of what the jail is made of ---- */

struct enforcement {
    const char *mechanism; /* as in AgentJail::Platform::MECHANISMS */
    bool (*enforced)(void);
};

/* parent: every mechanism but Landlock itself, for which landlock_abi tells more. */
const struct enforcement *enforcement_table(size_t *count);
/* True when a mechanism that was not found may be there: the process had no room to look. */
bool enforcement_unknown(int error);

#endif

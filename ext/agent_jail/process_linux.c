/*
 * process_linux.c - what Linux alone has for a process: a descriptor that stands for it, and a death with the parent's.
 */
#include "jail.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* How long a process that has ended may take to be reaped by whoever reaps it, in milliseconds, and how often it is looked
 * at until it is given up: on a busy machine who reaps waits for his turn. */
#define HANG_UP_PATIENCE 100
#define HANG_UP_LOOKS 20

/* Where there are no process descriptors, the parent is looked for this often, in milliseconds. */
#define WATCH_INTERVAL 50

#define PIDFD_SIGNAL_GROUP (1u << 2) /* PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9 */

/* The kernel's interface since Linux 6.13, written out since headers are older than kernels. */
struct pidfd_information {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};

#define PIDFD_GET_INFORMATION _IOWR(0xFF, 11, struct pidfd_information)
#define PIDFD_INFORMATION_EXIT (1u << 3)

const char *process_die_with_parent(void)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return "prctl(PR_SET_PDEATHSIG)";
    return NULL;
}

static pid_t watched;

/* The watcher is in the group, too. */
static void end_group(int signal)
{
    (void)signal;
    (void)kill(-watched, SIGKILL);
}

/*
 * The thread of the parent that began the run is gone when the parent becomes another program, by an exec of another
 * thread, and nobody looks after the run any more. Other signals, which the block could send, do not reach the watcher.
 */
static void await_death_signal(void)
{
    const struct sigaction action = {.sa_handler = end_group};
    sigset_t others;

    (void)sigfillset(&others);
    (void)sigdelset(&others, SIGRTMAX);
    (void)sigaction(SIGRTMAX, &action, NULL);
    (void)sigprocmask(SIG_SETMASK, &others, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGRTMAX, 0, 0, 0);
}

/* All in the group is killed, and itself with it. */
__attribute__((noreturn)) static void watch(pid_t parent, pid_t group)
{
    struct pollfd gone = {.fd = STDIN_FILENO, .events = POLLIN};
    int pidfd = process_open(parent);

    watched = group;
    await_death_signal();
    if (pidfd >= 0)
        (void)dup2(pidfd, STDIN_FILENO);
    /* where that cannot be, nothing is open but /dev/null */
    (void)proc_close_range(STDIN_FILENO + 1, INT_MAX);
    while (getppid() == parent)
        if (poll(&gone, pidfd >= 0 ? 1 : 0, pidfd >= 0 ? -1 : WATCH_INTERVAL) > 0)
            break;
    end_group(SIGKILL);
    _exit(0);
}

/* As a child of the parent, not of the block, which may wait for all of its own. */
const char *process_watch(pid_t parent)
{
    pid_t group = getpid();
    long watcher = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

    if (watcher == 0)
        watch(parent, group);
    return watcher < 0 ? "clone" : NULL;
}

int process_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool signal_by_descriptor(int pidfd, unsigned flags)
{
    return pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, flags) == 0;
}

/*
 * By the descriptor where the kernel can (6.9), since it cannot mean another group: the number of a group whose leader
 * somebody else reaped may have been given away. ESRCH: the child has not come to setpgid yet, or all are gone.
 */
void process_kill_tree(pid_t pid, int pidfd)
{
    if (signal_by_descriptor(pidfd, PIDFD_SIGNAL_GROUP))
        return;
    if (pidfd >= 0 && errno == ESRCH)
        (void)signal_by_descriptor(pidfd, 0);
    else if (kill(-pid, SIGKILL) != 0)
        (void)kill(pid, SIGKILL);
}

/*
 * A process that somebody else reaped, or is about to: its descriptor still knows its status, since Linux 6.15, from the
 * moment that the descriptor hangs up. A kernel that knows less refuses, and one that is asked in that very moment says ESRCH
 * once.
 */
void process_ask_status(int pidfd, struct process_end *end)
{
    struct pollfd reaped = {.fd = pidfd, .events = 0};
    bool gone = false;

    for (int look = 0; pidfd >= 0 && look < HANG_UP_LOOKS; look++) {
        struct pidfd_information information = {.mask = PIDFD_INFORMATION_EXIT};

        if (ioctl(pidfd, PIDFD_GET_INFORMATION, &information) != 0) {
            if (errno != ESRCH || gone)
                return;
            gone = true;
            continue;
        }
        if (information.mask & PIDFD_INFORMATION_EXIT) {
            process_describe_status(end, information.exit_code);
            return;
        }
        (void)poll(&reaped, 1, HANG_UP_PATIENCE);
    }
}

double process_cpu(pid_t pid)
{
    struct timespec time;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return -1;
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

long process_rss_kb(long ru_maxrss)
{
    return ru_maxrss;
}

/*
 * process.c - a jailed child's identity, its end, and what it used.
 */
#include "jail.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A child that was forked says its number as soon as it runs at all; a machine may be slow to let it, in seconds. */
#define CHILD_PATIENCE 10.0

/* Real-time signals have no handlers but those that C libraries gave them for their own use. */
#define STANDARD_SIGNALS 31

/* For a thread that does nothing but wait. */
#define WAITER_STACK (64 << 10)

/* How long those of the group that others reap may take to be gone, in seconds. */
#define GROUP_PATIENCE 0.2

/* Children that the kernel could not end in time (a call stuck in a dead file server): reaped when they have. */
#define LEFT_MAX 64

/*
 * The forks that are under way. A runtime's thread may change the system's thread while a fork hook waits, so each is
 * known by the runtime's. Touched under the runtime's lock only, which a fork holds too.
 */
static struct process_fork *under_way;
static const void *(*current)(void);

/*
 * Signals whose disposition the runtime relies on: SIGVTALRM switches Ruby's threads, SIGSEGV and SIGBUS tell a stack
 * overflow from a crash, SIGCHLD wakes Process.wait before Ruby 3.3, SIGPIPE makes a write fail instead of killing.
 */
static bool signal_is_the_runtimes(int signal)
{
    return signal == SIGVTALRM || signal == SIGSEGV || signal == SIGBUS || signal == SIGCHLD ||
           signal == SIGPIPE;
}

/* async-signal-safe: no handler of the parent's runs in the child. SIGKILL, SIGSTOP and libc's own answer EINVAL. */
static void reset_signal_handlers(void)
{
    const struct sigaction action = {.sa_handler = SIG_DFL};

    for (int signal = 1; signal <= STANDARD_SIGNALS; signal++)
        if (!signal_is_the_runtimes(signal))
            (void)sigaction(signal, &action, NULL);
}

/*
 * The first thing that happens in the child, inside fork(2), with signals still blocked by the runtime: from here on
 * whatever a fork hook starts is in the child's group, the child dies with its parent where the kernel sees to that, and
 * the parent's traps are gone. Next come the descriptors: a hook that closes a connection in the child says goodbye on
 * it, which is the parent's.
 */
const char *process_enter(void)
{
    reset_signal_handlers();
    if (getpgrp() != getpid() && setpgid(0, 0) != 0)
        return "setpgid";
    return process_die_with_parent();
}

static struct process_fork *fork_of_this_thread(void)
{
    const void *thread = under_way == NULL ? NULL : current();
    struct process_fork *fork = under_way;

    while (fork != NULL && fork->thread != thread)
        fork = fork->next;
    return fork;
}

static void enter_child(void)
{
    const struct process_fork *fork = fork_of_this_thread();
    const char *failed;

    under_way = NULL;                 /* whatever the child forks is none of them */
    if (fork == NULL || fork->forked) /* a hook of the parent's forked as well */
        return;
    report_start(fork->report);
    failed = process_enter();
    if (failed == NULL)
        failed = descriptors_deaden(fork->descriptors);
    if (failed != NULL)
        report_fail(fork->report, failed, errno, "");
}

static void before_fork(void)
{
    errno = 0;
}

/* libc runs this after a fork that failed, too, and then errno says so. */
static void enter_parent(void)
{
    bool done = errno == 0;
    struct process_fork *fork = fork_of_this_thread();

    if (fork != NULL && done)
        fork->forked = true;
}

const char *process_install_fork_handlers(const void *(*thread)(void))
{
    current = thread;
    errno = pthread_atfork(before_fork, enter_parent, enter_child);
    return errno == 0 ? NULL : "pthread_atfork";
}

void process_announce(struct process_fork *fork, int report, const struct descriptors *descriptors)
{
    *fork = (struct process_fork){
        .thread = current(), .report = report, .descriptors = descriptors, .next = under_way};
    under_way = fork;
}

pid_t process_child(struct process_fork *fork, pid_t known)
{
    double deadline = process_clock() + CHILD_PATIENCE;
    struct process_fork **link = &under_way;

    while (*link != NULL && *link != fork)
        link = &(*link)->next;
    if (*link != NULL)
        *link = fork->next;
    while (known == 0 && fork->forked && report_child(fork->report) == 0 &&
           process_clock() < deadline)
        (void)sched_yield();
    return known != 0 ? known : report_child(fork->report);
}

bool process_ended(pid_t pid, int pidfd)
{
    siginfo_t info;

    if (pidfd >= 0) {
        struct pollfd ready = {.fd = pidfd, .events = POLLIN};
        return poll(&ready, 1, 0) > 0;
    }
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return errno == ECHILD;
    return info.si_pid == pid;
}

/* Sleeps until the process may have ended, but not beyond the deadline: woken by its descriptor, else after a moment. */
static void await_end(int pidfd, double deadline)
{
    struct pollfd ready = {.fd = pidfd, .events = POLLIN};
    double rest = fmax(0, deadline - process_clock()) * 1000;
    int most = pidfd >= 0 ? 50 : 1;

    (void)poll(&ready, pidfd >= 0 ? 1 : 0, rest < most ? (int)ceil(rest) : most);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/*
 * Waits until nobody is left in the group. All its members were killed. Those that are this process's to reap (the
 * watcher; the orphans too, where it is the first of its container or a subreaper) are waited for until the deadline: on
 * a busy machine a dying process waits for its turn like any other. The others are reaped by whoever is init here; an
 * init that reaps nobody leaves zombies in the group for ever, so these are given up soon.
 */
static void await_group(pid_t group, double deadline)
{
    double others_deadline = process_clock() + GROUP_PATIENCE;

    for (;;) {
        pid_t reaped = waitpid(-group, NULL, WNOHANG);
        double now = process_clock();

        if (reaped > 0)
            continue;
        if (reaped < 0 && (kill(-group, 0) != 0 || now >= others_deadline))
            return;
        if (reaped == 0 && now >= deadline) {
            process_reap_later(-group);
            return;
        }
        (void)poll(NULL, 0, 1);
    }
}

void process_describe_status(struct process_end *end, int status)
{
    end->known = true;
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static void describe_end(struct process_end *end, int status, const struct rusage *usage)
{
    process_describe_status(end, status);
    end->cpu = seconds_of(usage->ru_utime) + seconds_of(usage->ru_stime);
    end->max_rss_kb = process_rss_kb(usage->ru_maxrss);
}

bool process_reap(pid_t pid, int pidfd, double patience, struct process_end *end)
{
    double deadline = process_clock() + patience;
    struct rusage usage;
    int status;

    *end = (struct process_end){.cpu = -1, .max_rss_kb = -1};
    for (;;) {
        pid_t reaped = wait4(pid, &status, WNOHANG, &usage);

        if (reaped == pid) {
            describe_end(end, status, &usage);
            break;
        }
        if (reaped < 0 && errno == ECHILD) {
            /* SIGCHLD is ignored, or another thread waited for any child */
            if (!process_ended(pid, pidfd) && process_clock() < deadline) {
                await_end(pidfd, deadline);
                continue;
            }
            process_ask_status(pidfd, end);
            break;
        }
        if (process_clock() >= deadline)
            return false;
        await_end(pidfd, deadline);
    }
    await_group(pid, deadline);
    return true;
}

static _Atomic pid_t left[LEFT_MAX];

void process_reap_later(pid_t pid)
{
    for (size_t i = 0; i < LEFT_MAX; i++) {
        pid_t nobody = 0;

        if (atomic_compare_exchange_strong(&left[i], &nobody, pid))
            return;
    }
}

void process_reap_left(void)
{
    for (size_t i = 0; i < LEFT_MAX; i++) {
        pid_t pid = atomic_load(&left[i]);
        pid_t reaped = pid == 0 ? 0 : waitpid(pid, NULL, WNOHANG);

        while (reaped > 0) /* a group has several */
            reaped = waitpid(pid, NULL, WNOHANG);
        if (reaped < 0)
            (void)atomic_compare_exchange_strong(&left[i], &pid, 0);
    }
}

static void *reap(void *pid)
{
    (void)waitpid((pid_t)(intptr_t)pid, NULL, 0);
    return NULL;
}

static bool start_unsignalled(const pthread_attr_t *attributes, void *(*run)(void *),
                              void *argument)
{
    sigset_t all, before;
    pthread_t thread;
    bool started;

    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    started = pthread_create(&thread, attributes, run, argument) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool process_start_thread(void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    bool started;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    started = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
              pthread_attr_setstacksize(&attributes, WAITER_STACK) == 0 &&
              start_unsignalled(&attributes, run, argument);
    (void)pthread_attr_destroy(&attributes);
    return started;
}

bool process_reap_behind(pid_t pid)
{
    return process_start_thread(reap, (void *)(intptr_t)pid);
}

double process_clock(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC,
                        &time); /* cannot fail: the clock exists, the pointer is good */
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

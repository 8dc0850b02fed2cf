/*
 * process_darwin.c - what macOS alone has for a process: a queue that hears of its end, and what it uses.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <libproc.h>
#include <mach/mach_time.h>
#include <poll.h>
#include <signal.h>
#include <sys/event.h>
#include <sys/resource.h>
#include <unistd.h>

/* The parent is looked for this often, in milliseconds. */
#define WATCH_INTERVAL 100

/* Processes of a group whose memory is looked at. */
#define GROUP_MAX 512

/* Nothing ends a process with its parent: process_watch does. */
const char *process_die_with_parent(void)
{
    return NULL;
}

static pid_t watched_parent, watched_group;

/* Signals do not reach it, and it has no descriptor that somebody could close. The group is ended where that is allowed,
 * the process itself always is. */
static void *watch(void *unused)
{
    (void)unused;
    while (getppid() == watched_parent)
        (void)poll(NULL, 0, WATCH_INTERVAL);
    (void)kill(-watched_group, SIGKILL);
    (void)kill(getpid(), SIGKILL);
    return NULL;
}

const char *process_watch(pid_t parent)
{
    watched_parent = parent;
    watched_group = getpgrp();
    return process_start_thread(watch, NULL) ? NULL : "pthread_create";
}

/* A queue that poll does not take would look like an end that has come. */
static bool can_be_polled(int queue)
{
    struct pollfd polled = {.fd = queue, .events = POLLIN};

    return poll(&polled, 1, 0) >= 0 && (polled.revents & ~POLLIN) == 0;
}

/* A queue in which the end of the process lies from then on: it can be waited for with poll, like a pidfd. */
int process_open(pid_t pid)
{
    int queue = kqueue();
    struct kevent change;

    if (queue < 0)
        return -1;
    EV_SET(&change, (uintptr_t)pid, EVFILT_PROC, EV_ADD, NOTE_EXIT | NOTE_EXITSTATUS, 0, NULL);
    if (fcntl(queue, F_SETFD, FD_CLOEXEC) == 0 && kevent(queue, &change, 1, NULL, 0, NULL) == 0 &&
        can_be_polled(queue))
        return queue;
    (void)close(queue);
    return -1;
}

/* ESRCH: the child has not come to setpgid yet, or all are gone. EPERM is what a group of none but zombies gives. */
void process_kill_tree(pid_t pid, int pidfd)
{
    (void)pidfd;
    if (kill(-pid, SIGKILL) != 0)
        (void)kill(pid, SIGKILL);
}

void process_ask_status(int pidfd, struct process_end *end)
{
    const struct timespec now = {.tv_sec = 0};
    struct kevent event;

    if (pidfd >= 0 && kevent(pidfd, NULL, 0, &event, 1, &now) == 1 &&
        (event.fflags & NOTE_EXITSTATUS))
        process_describe_status(end, (int)event.data);
}

static bool usage_of(pid_t pid, struct rusage_info_v0 *usage)
{
    return proc_pid_rusage(pid, RUSAGE_INFO_V0, (rusage_info_t *)usage) == 0;
}

/* The kernel counts in the units of its clock, which are nanoseconds on Intel alone. */
double process_cpu(pid_t pid)
{
    struct rusage_info_v0 usage;
    mach_timebase_info_data_t unit;

    if (!usage_of(pid, &usage) || mach_timebase_info(&unit) != KERN_SUCCESS)
        return -1;
    return (double)(usage.ri_user_time + usage.ri_system_time) * unit.numer / unit.denom / 1e9;
}

uint64_t process_footprint(pid_t pid)
{
    struct rusage_info_v0 usage;

    return usage_of(pid, &usage) ? usage.ri_phys_footprint : 0;
}

uint64_t process_group_footprint(pid_t group)
{
    pid_t pids[GROUP_MAX];
    uint64_t largest = process_footprint(group);
    int filled = proc_listpids(PROC_PGRP_ONLY, (uint32_t)group, pids, (int)sizeof(pids));

    for (int i = 0; i < filled / (int)sizeof(pids[0]); i++) {
        uint64_t footprint = process_footprint(pids[i]);

        if (footprint > largest)
            largest = footprint;
    }
    return largest;
}

/* macOS counts in bytes. */
long process_rss_kb(long ru_maxrss)
{
    return ru_maxrss / 1024;
}

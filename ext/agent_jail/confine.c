/*
 * confine.c - the steps that close the jail, in their order.
 */
#include "jail.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The parent may have died before the child asked to die with it. */
static const char *check_parent(struct jail *jail)
{
    if (getppid() == jail->parent)
        return NULL;
    errno = ESRCH;
    return "getppid";
}

static const char *unblock_signals(struct jail *jail)
{
    sigset_t none;

    (void)jail;
    if (sigemptyset(&none) != 0 || sigprocmask(SIG_SETMASK, &none, NULL) != 0)
        return "sigprocmask";
    /* a file that grows past its limit is an error to report, not a death */
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? "signal(SIGXFSZ)" : NULL;
}

static const char *enter_relays(struct jail *jail)
{
    const char *failed = relay_enter(&jail->relays[0], STDOUT_FILENO);

    return failed != NULL ? failed
                          : relay_enter(&jail->relays[jail->one_output ? 0 : 1], STDERR_FILENO);
}

static const char *deaden_descriptors(struct jail *jail)
{
    return descriptors_deaden(&jail->descriptors);
}

static const char *apply_limits(struct jail *jail)
{
    return limits_apply(&jail->limits);
}

static const char *leave_watch(struct jail *jail)
{
    return jail->watched ? process_watch(jail->parent) : NULL;
}

/* Without /proc nothing tells what is shared. */
static const char *privatise_mappings(struct jail *jail)
{
    const char *failed = mappings_privatise();

    (void)jail;
    return failed != NULL && errno == ENOENT ? NULL : failed;
}

/* What belongs to a thread rather than to the process. */
static const char *confine_thread(void *argument)
{
    const struct jail *jail = argument;
    const char *failed = capabilities_drop();

    if (failed != NULL)
        return failed;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return "prctl(PR_SET_NO_NEW_PRIVS)";
    return landlock_enforce(&jail->landlock);
}

/* Its own /proc has a number that nobody knew before the fork. Where /proc is not mounted there is none to read. */
static const char *grant_own_proc(struct jail *jail)
{
    const char *failed =
        landlock_grant(&jail->landlock, "/proc/self", LANDLOCK_READ | LANDLOCK_DIRECTORY);

    return failed != NULL && errno == ENOENT ? NULL : failed;
}

static const char *confine_threads(struct jail *jail)
{
    const char *failed = confine_thread(jail);

    return failed != NULL ? failed : threads_apply(confine_thread, jail);
}

static const char *close_tools(struct jail *jail)
{
    if (jail->landlock.fd >= 0 && close(jail->landlock.fd) != 0)
        return "close(ruleset)";
    return close(jail->descriptors.null) != 0 ? "close(/dev/null)" : NULL;
}

/* Last, since it refuses some of the calls above. It covers every thread by itself. */
static const char *filter_calls(struct jail *jail)
{
    return jail->filter == NULL ? NULL : seccomp_apply(jail->filter, getpid());
}

static const char *(*const steps[])(struct jail *) = {
    check_parent,    unblock_signals,    enter_relays,   deaden_descriptors,
    leave_watch,     privatise_mappings, grant_own_proc, apply_limits,
    confine_threads, close_tools,        filter_calls,
};

const char *confine(struct jail *jail)
{
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const char *failed = steps[i](jail);

        if (failed != NULL)
            return failed;
    }
    return NULL;
}

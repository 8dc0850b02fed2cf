/*
 * confine_linux.c - the steps that close the jail on Linux, in their order.
 */
#include "jail.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

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
        landlock_grant(&jail->landlock, "/proc/self", GRANT_READ | GRANT_DIRECTORY);

    return failed != NULL && errno == ENOENT ? NULL : failed;
}

/* As late as can be: another thread of the parent's may map and unmap until the fork, and fork hooks after it. */
static const char *measure_memory(struct jail *jail)
{
    struct limits *limits = &jail->limits;
    uint64_t inherited = limits->headroom == 0 ? 0 : proc_address_space(getpid());

    if (limits->headroom != 0 && inherited == 0)
        return "read(/proc/self/statm)";
    limits->address_space = inherited + limits->headroom;
    return NULL;
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

confine_step *const confine_steps[] = {
    confine_check_parent,
    confine_unblock_signals,
    confine_enter_relays,
    confine_deaden_descriptors,
    leave_watch,
    privatise_mappings,
    grant_own_proc,
    measure_memory,
    confine_apply_limits,
    confine_threads,
    close_tools,
    filter_calls,
    NULL,
};

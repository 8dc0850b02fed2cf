/*
 * limits.c - resource limits.
 */
#include "jail.h"

#include <stdbool.h>
#include <sys/resource.h>

/* Bytes of a core. None fits in, so that no file is written; and by 1, other than by 0, the kernel starts no handler. */
#define CORE_NONE 1

/* Lowers a limit, never raises one: soft and hard are clamped to the hard limit that the parent already had. */
static bool lower(int resource, uint64_t soft, uint64_t hard)
{
    struct rlimit now, wanted;

    if (getrlimit(resource, &now) != 0)
        return false;
    wanted.rlim_max = hard < now.rlim_max ? (rlim_t)hard : now.rlim_max;
    wanted.rlim_cur = soft < wanted.rlim_max ? (rlim_t)soft : wanted.rlim_max;
    return setrlimit(resource, &wanted) == 0;
}

#ifdef RLIMIT_SIGPENDING
/*
 * Timers and queued signals. What is counted against it is all that the user has, in whatever
 * process: by the half of what he may have, blocks cannot take it all, and he would have to be near
 * his own end for a jail not to have what it needs itself.
 */
static bool halve_signals_pending(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_SIGPENDING, &limit) != 0)
        return false;
    return lower(RLIMIT_SIGPENDING, limit.rlim_cur / 2, limit.rlim_max / 2);
}
#endif

const char *limits_apply(const struct limits *limits)
{
    if (!lower(RLIMIT_CORE, CORE_NONE, CORE_NONE)) /* a core would hold the parent's secrets */
        return "setrlimit(RLIMIT_CORE)";
    if (!lower(RLIMIT_FSIZE, limits->file_size, limits->file_size))
        return "setrlimit(RLIMIT_FSIZE)";
    if (!lower(RLIMIT_NOFILE, limits->open_files, limits->open_files))
        return "setrlimit(RLIMIT_NOFILE)";
    /* soft below hard: SIGXCPU comes first, and SIGKILL a second later for who ignores it */
    if (!lower(RLIMIT_CPU, limits->cpu_seconds, limits->cpu_seconds + 1))
        return "setrlimit(RLIMIT_CPU)";
    if (limits->address_space != 0 &&
        !lower(RLIMIT_AS, limits->address_space, limits->address_space))
        return "setrlimit(RLIMIT_AS)";
#ifdef RLIMIT_SIGPENDING
    if (!halve_signals_pending())
        return "setrlimit(RLIMIT_SIGPENDING)";
#endif
    return NULL;
}

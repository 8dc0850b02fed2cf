/*
 * darwin.c - what Linux' libc has and macOS' has not.
 */
#include "darwin.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>

/* The only flag that is asked for here. */
static int set_flags(int fd, int flags)
{
    return flags & O_CLOEXEC ? fcntl(fd, F_SETFD, FD_CLOEXEC) : 0;
}

int darwin_pipe2(int ends[2], int flags)
{
    int error;

    if (pipe(ends) != 0)
        return -1;
    if (set_flags(ends[0], flags) == 0 && set_flags(ends[1], flags) == 0)
        return 0;
    error = errno;
    (void)close(ends[0]);
    (void)close(ends[1]);
    errno = error;
    return -1;
}

int darwin_dup3(int from, int to, int flags)
{
    if (from == to) {
        errno = EINVAL;
        return -1;
    }
    if (dup2(from, to) != to)
        return -1;
    return set_flags(to, flags) == 0 ? to : -1;
}

int darwin_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *time,
                 const sigset_t *mask)
{
    long milliseconds;

    if (mask != NULL) {
        errno = EINVAL;
        return -1;
    }
    if (time == NULL)
        return poll(watched, count, -1);
    milliseconds = time->tv_sec < INT_MAX / 1000
                       ? (long)time->tv_sec * 1000 + (time->tv_nsec + 999999) / 1000000
                       : INT_MAX;
    return poll(watched, count, (int)milliseconds);
}

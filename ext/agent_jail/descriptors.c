/*
 * descriptors.c - what was open in the parent is dead in the child.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* How far numbers are tried where nothing tells which are open. */
#define PROBED_MAX 65536

/* Room above the highest for what the child itself opened since the fork: the runtime's own among it. */
#define OPENED_SINCE 16

static bool kept(const struct descriptors *descriptors, int fd)
{
    if (fd <= STDERR_FILENO || fd == descriptors->null)
        return true;
    for (size_t i = 0; i < descriptors->keep_count; i++)
        if (descriptors->keep[i] == fd)
            return true;
    return descriptors->reserved(fd);
}

/* A read-only /dev/null: a write gives EBADF, a read end of file, and no socket call finds a socket. */
static bool deaden(const struct descriptors *descriptors, int fd)
{
    return kept(descriptors, fd) || dup3(descriptors->null, fd, O_CLOEXEC) == fd;
}

static bool note_highest(int fd, void *highest)
{
    int *noted = highest;

    if (fd > *noted)
        *noted = fd;
    return true;
}

/* Without /proc: as high as the limit allows. */
static int highest_allowed(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > PROBED_MAX)
        return PROBED_MAX;
    return (int)limit.rlim_cur;
}

int descriptors_highest(void)
{
    int highest = STDERR_FILENO;
    int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (list < 0)
        return highest_allowed();
    if (proc_each_number(list, note_highest, &highest) != NULL)
        highest = highest_allowed();
    (void)close(list);
    return highest;
}

/*
 * Above what was open before the fork there is only what fork hooks and the runtime opened in the child since, and what
 * a thread without the GVL opened in that moment, which no object in the child knows of.
 */
static const char *close_above(int highest)
{
    if (syscall(SYS_close_range, highest + 1, ~0u, 0) == 0)
        return NULL;
    if (errno != ENOSYS && errno != EPERM)
        return "close_range";
    for (int fd = highest + 1; fd <= highest_allowed(); fd++) /* before Linux 5.9 */
        (void)close(fd);
    return NULL;
}

const char *descriptors_deaden(const struct descriptors *descriptors, int *highest)
{
    *highest = descriptors->highest + OPENED_SINCE;
    if (dup3(descriptors->null, STDIN_FILENO, 0) != STDIN_FILENO)
        return "dup3(stdin)";
    for (int fd = STDERR_FILENO + 1; fd <= *highest; fd++)
        if (fcntl(fd, F_GETFD) >= 0 && !deaden(descriptors, fd))
            return "dup3";
    return close_above(*highest);
}

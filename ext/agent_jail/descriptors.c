/*
 * descriptors.c - what was open in the parent is dead in the child.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

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
static bool deaden(const struct descriptors *descriptors, int fd, int *highest)
{
    if (fd > *highest)
        *highest = fd;
    return kept(descriptors, fd) || dup3(descriptors->null, fd, O_CLOEXEC) == fd;
}

struct sweep {
    const struct descriptors *descriptors;
    int list; /* /proc/self/fd itself, which is closed when all is done */
    int *highest;
    bool failed;
};

static bool deaden_listed(int fd, void *argument)
{
    struct sweep *sweep = argument;

    sweep->failed = fd != sweep->list && !deaden(sweep->descriptors, fd, sweep->highest);
    return !sweep->failed;
}

/* Without /proc: every number that the limit allows. */
static const char *deaden_probed(const struct descriptors *descriptors, int *highest)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return "getrlimit(RLIMIT_NOFILE)";
    for (int fd = STDERR_FILENO + 1; (rlim_t)fd < limit.rlim_max && fd < 1 << 20; fd++)
        if (fcntl(fd, F_GETFD) >= 0 && !deaden(descriptors, fd, highest))
            return "dup3";
    return NULL;
}

/* By the kernel's own list. */
static const char *deaden_all(const struct descriptors *descriptors, int list, int *highest)
{
    struct sweep sweep = {.descriptors = descriptors, .list = list, .highest = highest};
    const char *failed = proc_each_number(list, deaden_listed, &sweep);

    if (failed == NULL && sweep.failed)
        failed = "dup3";
    if (close(list) != 0 && failed == NULL)
        failed = "close(/proc/self/fd)";
    return failed;
}

const char *descriptors_deaden(const struct descriptors *descriptors, int *highest)
{
    int list;

    *highest = STDERR_FILENO;
    if (dup3(descriptors->null, STDIN_FILENO, 0) != STDIN_FILENO)
        return "dup3(stdin)";
    list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return list < 0 ? deaden_probed(descriptors, highest) : deaden_all(descriptors, list, highest);
}

/*
 * descriptors.c - what was open in the parent is dead in the child.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* How far numbers are tried where nothing tells which are open. */
#define PROBED_MAX 65536

/* How many descriptors the child may have opened by itself since the fork. */
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
    if (kept(descriptors, fd) || dup3(descriptors->null, fd, O_CLOEXEC) == fd)
        return true;
    /* a number beyond the limit, which somebody lowered since, cannot be given away again either */
    return errno == EBADF && (close(fd) == 0 || errno == EBADF);
}

void descriptors_close(int *fd)
{
    int error = errno;

    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
    errno = error;
}

/* The kernel gives the lowest number that is free, so that nothing can be overwritten that came there meanwhile. */
const char *descriptors_open_null(int *null)
{
    do {
        *null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (*null < 0)
            return "open";
    } while (*null <= STDERR_FILENO && fcntl(*null, F_SETFD, 0) == 0);
    return *null > STDERR_FILENO ? NULL : "fcntl(F_SETFD)";
}

const char *descriptors_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return "pipe2";
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        return NULL;
    descriptors_close(&ends[0]);
    descriptors_close(&ends[1]);
    return "fcntl(O_NONBLOCK)";
}

/* Where a list is being made: numbers come in order. */
struct listing {
    int *list;
    size_t count, room;
};

static bool note(int fd, void *argument)
{
    struct listing *listing = argument;

    if (listing->count == listing->room) {
        size_t room = listing->room == 0 ? 64 : 2 * listing->room;
        int *list = realloc(listing->list, room * sizeof(*list));

        if (list == NULL)
            return false;
        listing->list = list;
        listing->room = room;
    }
    listing->list[listing->count++] = fd;
    return true;
}

/* Where nothing tells: every number that the limit allows. */
static void probe(struct listing *listing)
{
    struct rlimit limit;
    int end = PROBED_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < PROBED_MAX)
        end = (int)limit.rlim_cur;
    for (int fd = 0; fd < end; fd++)
        if (fcntl(fd, F_GETFD) >= 0 && !note(fd, listing))
            return;
}

const char *descriptors_list(struct descriptors *descriptors)
{
    struct listing listing = {.list = NULL};
    bool told;
    const char *failed = proc_each_descriptor(note, &listing, &told);

    if (failed != NULL) {
        free(listing.list);
        return failed;
    }
    if (!told)
        probe(&listing);
    descriptors->open = listing.list;
    descriptors->open_count = listing.count;
    return listing.list == NULL ? "malloc" : NULL;
}

/* Numbers that were free before the fork. Lowest first, the child itself has opened some of them since: the runtime's
 * own may be among them. Whatever is in the others came from a thread that held no lock of the runtime in the moment
 * before the fork, so that no object in the child knows of it. */
static bool clear_free(const struct descriptors *descriptors, int first, int last, int *looked_at)
{
    for (; first <= last && *looked_at < OPENED_SINCE; first++, ++*looked_at)
        if (fcntl(first, F_GETFD) >= 0 && !deaden(descriptors, first))
            return false;
    if (first > last || proc_close_range(first, last))
        return true;
    if (last > first + PROBED_MAX)
        last = first + PROBED_MAX; /* before Linux 5.9 */
    for (; first <= last; first++)
        (void)close(first);
    return true;
}

int descriptors_limit(const struct descriptors *descriptors, int count)
{
    int limit = 0;

    for (size_t i = 0; i < descriptors->open_count; i++) {
        int free_below = descriptors->open[i] - limit;

        if (count <= free_below)
            break;
        count -= free_below;
        limit = descriptors->open[i] + 1;
    }
    return limit + count;
}

const char *descriptors_deaden(const struct descriptors *descriptors)
{
    int looked_at = 0, next = STDERR_FILENO + 1;

    if (!descriptors->reserved(STDIN_FILENO) &&
        dup3(descriptors->null, STDIN_FILENO, 0) != STDIN_FILENO)
        return "dup3(stdin)";
    for (size_t i = 0; i < descriptors->open_count; i++) {
        int fd = descriptors->open[i];

        if (fd < next)
            continue;
        if (!clear_free(descriptors, next, fd - 1, &looked_at))
            return "dup3";
        if (!deaden(descriptors, fd))
            return "dup3";
        next = fd + 1;
    }
    return clear_free(descriptors, next, INT_MAX, &looked_at) ? NULL : "dup3";
}

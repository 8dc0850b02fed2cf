/*
 * relay.c - what the block prints.
 *
 * Standard output and error stay open in the jail, but not as the application has them: a file can be cut, written over
 * and read, a socket can be spoken with, and whoever opens a pipe again by its descriptor takes out what others wrote.
 * So the child gets a pipe in their place, and the parent writes on what comes out of it. Only a device (a terminal, the
 * null device) is left as it is: Landlock and the filter stand before it.
 *
 * The parent never waits for its own output: what that does not take stays in the pipe, and then the block waits.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pieces in one go: all that a pipe holds. A block that prints without end must not keep the parent from its clock. */
#define PIECES 32

/* How long output may take to be ready again for what a block that has ended left in the pipe, in milliseconds. */
#define LAST_PATIENCE 200

const char *relay_open(struct relay *relay, int fd)
{
    struct stat status;
    const char *failed;
    int ends[2];

    *relay = (struct relay){.to = fd, .from = -1, .child = -1};
    relay->closed = fstat(fd, &status) != 0;
    if (relay->closed || S_ISCHR(status.st_mode))
        return NULL;
    failed = descriptors_pipe(ends);
    if (failed != NULL)
        return failed;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
        int error = errno;

        (void)close(ends[0]);
        (void)close(ends[1]);
        errno = error;
        return "fcntl(O_NONBLOCK)";
    }
    relay->from = ends[0];
    relay->child = ends[1];
    relay->socket = S_ISSOCK(status.st_mode);
    return NULL;
}

bool relay_is_same(int fd, int other)
{
    struct stat one, two;

    return fstat(fd, &one) == 0 && fstat(other, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

const char *relay_enter(const struct relay *relay, int fd, int null)
{
    int output = relay->closed ? null : relay->child;

    return output >= 0 && dup3(output, fd, 0) != fd ? "dup3(output)" : NULL;
}

void relay_forked(struct relay *relay)
{
    if (relay->child >= 0)
        (void)close(relay->child);
    relay->child = -1;
}

/* A pipe that is ready takes PIPE_BUF bytes at once; a file takes all. */
static bool is_ready(const struct relay *relay, int patience)
{
    struct pollfd output = {.fd = relay->to, .events = POLLOUT};

    return poll(&output, 1, patience) > 0;
}

static ssize_t write_some(const struct relay *relay)
{
    const char *bytes = relay->buffer + relay->at;
    size_t size = relay->filled - relay->at;

    return relay->socket ? send(relay->to, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                         : write(relay->to, bytes, size);
}

/* False: the output takes no more for now. What it refuses for good is lost, as if the block had written it itself. */
static bool empty(struct relay *relay, int patience)
{
    while (relay->at < relay->filled) {
        ssize_t written;

        if (!is_ready(relay, patience))
            return false;
        written = write_some(relay);
        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        relay->at = written < 0 ? relay->filled : relay->at + (size_t)written;
    }
    return true;
}

static bool fill(struct relay *relay)
{
    ssize_t got = read(relay->from, relay->buffer, sizeof(relay->buffer));

    if (got == 0) { /* nobody can write to it any more */
        (void)close(relay->from);
        relay->from = -1;
    }
    relay->at = 0;
    relay->filled = got > 0 ? (size_t)got : 0;
    return got > 0;
}

static void pump(struct relay *relay, int patience)
{
    relay->full = !empty(relay, patience);
    for (int i = 0; i < PIECES && !relay->full && relay->from >= 0 && fill(relay); i++)
        relay->full = !empty(relay, patience);
}

void relay_pump(struct relay *relay)
{
    pump(relay, 0);
}

int relay_awaits(const struct relay *relay, short *events)
{
    *events = relay->full ? POLLOUT : POLLIN;
    return relay->full ? relay->to : relay->from;
}

void relay_close(struct relay *relay)
{
    relay_forked(relay);
    pump(relay, LAST_PATIENCE);
    if (relay->from >= 0)
        (void)close(relay->from);
    relay->from = -1;
}

/*
 * relay.c - what the block prints.
 *
 * Standard output and error stay open in the jail, but not as the application has them: a file can be cut, written over
 * and read, a socket can be spoken with, and whoever opens a pipe again by its descriptor takes out what others wrote.
 * So the child gets a pipe in their place, and the parent writes on what comes out of it, as much as a file may have. A
 * device is left as it is: Landlock and the filter stand before it. But a terminal is opened once more, to be written
 * alone: what is typed is not for the block, and flags that it sets would be the application's too.
 *
 * The parent never waits for its own output: what that does not take stays in the pipe, and then the block waits. A
 * pipe that is ready may be full again, by somebody else, when it is written to, so that is opened once more as well.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Pieces in one go: all that a pipe holds. A block that prints without end must not keep the parent from its clock. */
#define PIECES 32

/* What an open descriptor leads to, with flags of its own; -1 where that cannot be had. */
static int open_again(int fd)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* The terminal may be another user's, who lets nobody open it: then the block has it as it is. */
static const char *open_terminal(struct relay *relay)
{
    relay->child = open_again(relay->to);
    if (relay->child >= 0 && fcntl(relay->child, F_SETFL, 0) != 0)
        return "fcntl(terminal)";
    return NULL;
}

const char *relay_open(struct relay *relay, int fd, uint64_t room)
{
    struct stat status;
    const char *failed;
    int ends[2];

    *relay = (struct relay){.to = fd, .from = -1, .child = -1, .own = -1, .room = room};
    if (fstat(fd, &status) != 0)
        return "fstat(output)";
    if (S_ISCHR(status.st_mode))
        return isatty(fd) ? open_terminal(relay) : NULL;
    failed = descriptors_pipe(ends);
    if (failed != NULL)
        return failed;
    relay->from = ends[0];
    relay->child = ends[1];
    relay->socket = S_ISSOCK(status.st_mode);
    if (S_ISFIFO(status.st_mode))
        relay->own = open_again(fd);
    relay->waits = S_ISFIFO(status.st_mode) && relay->own < 0;
    if (relay->own >= 0)
        relay->to = relay->own;
    return NULL;
}

bool relay_is_same(int fd, int other)
{
    struct stat one, two;

    return fstat(fd, &one) == 0 && fstat(other, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

const char *relay_enter(const struct relay *relay, int fd)
{
    return relay->child >= 0 && dup3(relay->child, fd, 0) != fd ? "dup3(output)" : NULL;
}

void relay_forked(struct relay *relay)
{
    descriptors_close(&relay->child);
}

/* A pipe that is ready takes PIPE_BUF bytes at once; a file takes all. */
static bool is_ready(const struct relay *relay, double deadline)
{
    struct pollfd output = {.fd = relay->to, .events = POLLOUT};
    double rest;
    int ready;

    do {
        rest = fmax(0, deadline - process_clock()) * 1000;
        ready = poll(&output, 1, (int)ceil(rest));
    } while (ready < 0 && errno == EINTR && rest > 0);
    return ready > 0;
}

/* Somebody else may have filled a pipe since it was ready. Where it cannot be opened again, the kernel is asked not to
 * wait, this once; one before 6.4 knows that of no pipe. */
static ssize_t write_without_waiting(int fd, const char *bytes, size_t size)
{
#ifdef RWF_NOWAIT
    struct iovec all = {.iov_base = (char *)bytes, .iov_len = size};
    ssize_t written = pwritev2(fd, &all, 1, -1, RWF_NOWAIT);

    if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return written;
#endif
    return write(fd, bytes, size);
}

static ssize_t write_some(const struct relay *relay)
{
    const char *bytes = relay->buffer + relay->at;
    size_t size = relay->filled - relay->at;

    if (relay->socket)
        return send(relay->to, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return relay->waits ? write_without_waiting(relay->to, bytes, size)
                        : write(relay->to, bytes, size);
}

/* A signal that a write of this thread raised, and that is blocked in it. */
static void take_back(int signal)
{
    sigset_t one, pending;
    int taken;

    if (sigemptyset(&one) == 0 && sigaddset(&one, signal) == 0 && sigpending(&pending) == 0 &&
        sigismember(&pending, signal) == 1)
        (void)sigwait(&one, &taken);
}

/* What nobody reads any more, or a file has no room for, would end the parent: that is the block's, and not its. */
static ssize_t write_without_signals(const struct relay *relay)
{
    sigset_t deadly, before;
    ssize_t written;
    int error;

    if (sigemptyset(&deadly) != 0 || sigaddset(&deadly, SIGPIPE) != 0 ||
        sigaddset(&deadly, SIGXFSZ) != 0 || pthread_sigmask(SIG_BLOCK, &deadly, &before) != 0)
        return -1;
    written = write_some(relay);
    error = errno;
    if (written < 0 && (error == EPIPE || error == EFBIG))
        take_back(error == EPIPE ? SIGPIPE : SIGXFSZ);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

/* False: the output takes no more for now. What it refuses for good is lost, as if the block had written it itself. */
static bool empty(struct relay *relay, double deadline)
{
    while (relay->at < relay->filled) {
        ssize_t written;

        if (!is_ready(relay, deadline))
            return false;
        written = write_without_signals(relay);
        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        relay->at = written < 0 ? relay->filled : relay->at + (size_t)written;
    }
    return true;
}

static bool fill(struct relay *relay)
{
    size_t size = relay->room < sizeof(relay->buffer) ? (size_t)relay->room : sizeof(relay->buffer);
    ssize_t got = size == 0 ? 0 : read(relay->from, relay->buffer, size);

    if (got == 0) /* nobody can write to it any more, or has written too much */
        descriptors_close(&relay->from);
    relay->at = 0;
    relay->filled = got > 0 ? (size_t)got : 0;
    relay->room -= relay->filled;
    return got > 0;
}

static void pump(struct relay *relay, double deadline)
{
    relay->full = !empty(relay, deadline);
    for (int i = 0; i < PIECES && !relay->full && relay->from >= 0 && fill(relay); i++)
        relay->full = !empty(relay, deadline);
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

void relay_close(struct relay *relay, double deadline)
{
    relay_forked(relay);
    pump(relay, deadline);
    relay->at = relay->filled = 0;
    descriptors_close(&relay->from);
    descriptors_close(&relay->own);
}

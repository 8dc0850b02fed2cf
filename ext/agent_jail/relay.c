/*
 * relay.c - what the block prints, where the application's output is more than a stream.
 *
 * Standard output and error stay open in the jail. A pipe or a terminal takes what is written and gives nothing away.
 * But a file can be cut, written over and, opened for both, read; a socket can be spoken with. So where one of the two
 * is such a thing, the child gets a pipe in its place, and the parent writes on what comes out of it.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Buffers: all that a pipe holds. A block that prints without end must not keep the parent from its clock. */
#define PUMPED_AT_ONCE 32

static bool is_stream(int fd)
{
    struct stat status;

    return fstat(fd, &status) != 0 || S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode);
}

const char *relay_open(struct relay *relay, int fd)
{
    int ends[2];

    *relay = (struct relay){.to = fd, .from = -1, .child = -1};
    if (is_stream(fd))
        return NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return "pipe2";
    relay->from = ends[0];
    relay->child = ends[1];
    return fcntl(relay->from, F_SETFL, O_NONBLOCK) == 0 ? NULL : "fcntl(O_NONBLOCK)";
}

const char *relay_enter(const struct relay *relay)
{
    if (relay->child >= 0 && dup3(relay->child, relay->to, 0) != relay->to)
        return "dup3(output)";
    return NULL;
}

void relay_forked(struct relay *relay)
{
    if (relay->child >= 0)
        (void)close(relay->child);
    relay->child = -1;
}

/* What cannot be written is lost, as it would be if the block had written it itself and not looked. */
static void write_on(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, bytes, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        bytes += written;
        size -= (size_t)written;
    }
}

void relay_pump(struct relay *relay)
{
    char buffer[4096];
    ssize_t got = -1;

    if (relay->from < 0)
        return;
    for (int i = 0; i < PUMPED_AT_ONCE && (got = read(relay->from, buffer, sizeof(buffer))) > 0;
         i++)
        write_on(relay->to, buffer, (size_t)got);
    if (got == 0) {
        (void)close(relay->from);
        relay->from = -1;
    }
}

void relay_close(struct relay *relay)
{
    relay_pump(relay);
    relay_forked(relay);
    if (relay->from >= 0)
        (void)close(relay->from);
    relay->from = -1;
}

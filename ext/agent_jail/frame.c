/*
 * frame.c - the channel between child and parent.
 */
#include "jail.h"

#include <errno.h>
#include <unistd.h>

bool frame_write(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length > 0) {
        ssize_t sent = write(fd, at, length);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

bool frame_send(int fd, enum frame_kind kind, const void *body, size_t length)
{
    struct frame_header header = {.magic = FRAME_MAGIC, .kind = kind, .length = length};

    return frame_write(fd, &header, sizeof(header)) && frame_write(fd, body, length);
}

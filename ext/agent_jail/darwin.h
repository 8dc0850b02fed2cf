/*
 * darwin.h - what Linux' libc has and macOS' has not, by the same names. Included before anything else on macOS.
 */
#ifndef AGENT_JAIL_DARWIN_H
#define AGENT_JAIL_DARWIN_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A program that another thread starts between the two calls inherits the descriptors: the runtime's own threads hold
 * its lock to start one, and so does who calls this. */
int darwin_pipe2(int ends[2], int flags);
int darwin_dup3(int from, int to, int flags);
/* The time is rounded up to milliseconds, and the mask must be NULL. */
int darwin_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *time,
                 const sigset_t *mask);

#define pipe2 darwin_pipe2
#define dup3 darwin_dup3
#define ppoll darwin_ppoll

/* The runtime has a handler for SIGPIPE, which does nothing. */
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#endif

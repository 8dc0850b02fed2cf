#ifndef AGENT_JAIL_STUB_LIBC_POLL_H
#define AGENT_JAIL_STUB_LIBC_POLL_H

#define POLLIN 0x0001
#define POLLPRI 0x0002
#define POLLOUT 0x0004

typedef unsigned int nfds_t;

struct pollfd {
    int fd;
    short events;
    short revents;
};

int poll(struct pollfd *watched, nfds_t count, int timeout);

#endif

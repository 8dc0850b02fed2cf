#ifndef AGENT_JAIL_STUB_LIBC_SYS_SOCKET_H
#define AGENT_JAIL_STUB_LIBC_SYS_SOCKET_H

#include <sys/types.h>

#define MSG_DONTWAIT 0x80

ssize_t send(int socket, const void *bytes, size_t size, int flags);

#endif

#ifndef AGENT_JAIL_STUB_LIBC_SYS_SELECT_H
#define AGENT_JAIL_STUB_LIBC_SYS_SELECT_H

#include <sys/time.h>
#include <sys/types.h>

#define FD_SETSIZE 1024
#define NFDBITS (sizeof(int32_t) * 8)

typedef int32_t fd_mask;

typedef struct {
    int32_t fds_bits[FD_SETSIZE / (sizeof(int32_t) * 8)];
} fd_set;

#endif

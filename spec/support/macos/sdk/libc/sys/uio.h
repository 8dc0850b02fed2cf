#ifndef AGENT_JAIL_STUB_LIBC_SYS_UIO_H
#define AGENT_JAIL_STUB_LIBC_SYS_UIO_H

#include <sys/types.h>

struct iovec {
    void *iov_base;
    size_t iov_len;
};

#endif

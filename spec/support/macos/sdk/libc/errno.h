#ifndef AGENT_JAIL_STUB_LIBC_ERRNO_H
#define AGENT_JAIL_STUB_LIBC_ERRNO_H

int *__error(void);
#define errno (*__error())

#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define E2BIG 7
#define EPIPE 32
#define EFBIG 27
#define EBADF 9
#define ECHILD 10
#define ENOMEM 12
#define EACCES 13
#define EEXIST 17
#define ENOTDIR 20
#define EISDIR 21
#define EINVAL 22
#define EAGAIN 35
#define ELOOP 62
#define ENAMETOOLONG 63
#define ENOTEMPTY 66

#endif

#ifndef AGENT_JAIL_STUB_LIBC_LIMITS_H
#define AGENT_JAIL_STUB_LIBC_LIMITS_H

#include_next <limits.h>

#define PATH_MAX 1024
#define PIPE_BUF 512

#endif

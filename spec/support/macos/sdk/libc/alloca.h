#ifndef AGENT_JAIL_STUB_LIBC_ALLOCA_H
#define AGENT_JAIL_STUB_LIBC_ALLOCA_H

#include <stddef.h>

void *alloca(size_t size);
#define alloca(size) __builtin_alloca(size)

#endif

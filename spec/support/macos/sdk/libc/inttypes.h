#ifndef AGENT_JAIL_STUB_LIBC_INTTYPES_H
#define AGENT_JAIL_STUB_LIBC_INTTYPES_H

#include <stdint.h>

#define PRId64 "lld"
#define PRIu64 "llu"

#endif

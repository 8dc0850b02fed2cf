#ifndef AGENT_JAIL_STUB_LIBC_STRINGS_H
#define AGENT_JAIL_STUB_LIBC_STRINGS_H

#include <sys/types.h>

int strcasecmp(const char *one, const char *other);
int strncasecmp(const char *one, const char *other, size_t size);

#endif

#ifndef AGENT_JAIL_STUB_LIBC_STDIO_H
#define AGENT_JAIL_STUB_LIBC_STDIO_H

#include <sys/types.h>

typedef struct __sFILE FILE;

int renameat(int from_directory, const char *from, int to_directory, const char *to);
int snprintf(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

#ifndef AGENT_JAIL_STUB_LIBC_STDLIB_H
#define AGENT_JAIL_STUB_LIBC_STDLIB_H

#include <sys/types.h>

void free(void *block);
void *malloc(size_t size);
int mkstemp(char *path);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
char *realpath(const char *path, char *resolved);

#endif

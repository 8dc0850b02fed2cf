#ifndef AGENT_JAIL_STUB_LIBC_STRING_H
#define AGENT_JAIL_STUB_LIBC_STRING_H

#include <sys/types.h>

int memcmp(const void *one, const void *other, size_t size);
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *at, int byte, size_t size);
int strcmp(const char *one, const char *other);
char *strdup(const char *text);
size_t strcspn(const char *text, const char *stops);
size_t strlen(const char *text);
int strncmp(const char *one, const char *other, size_t size);
size_t strnlen(const char *text, size_t most);
char *strchr(const char *text, int byte);
char *strrchr(const char *text, int byte);
size_t strspn(const char *text, const char *accepted);

#endif

/*
 * proc.c - what /proc tells, read without malloc or streams.
 */
#include "jail.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* What getdents64 writes; libc has no name for it. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* The name of a directory entry as a number, or -1 for "." and "..". */
static int number_of(const char *name)
{
    int number = 0;

    for (; *name != '\0'; name++) {
        if (*name < '0' || *name > '9')
            return -1;
        number = number * 10 + (*name - '0');
    }
    return number;
}

const char *proc_each_number(int directory, bool (*visit)(int, void *), void *argument)
{
    _Alignas(struct entry) char buffer[1024];
    long filled;

    while ((filled = syscall(SYS_getdents64, directory, buffer, sizeof(buffer))) > 0) {
        for (long at = 0; at < filled;) {
            const struct entry *entry = (const struct entry *)(void *)(buffer + at);
            int number = number_of(entry->name);

            if (number >= 0 && !visit(number, argument))
                return NULL;
            at += entry->size;
        }
    }
    return filled < 0 ? "getdents64" : NULL;
}

const char *proc_each_descriptor(bool (*visit)(int, void *), void *argument, bool *told)
{
    int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *failed;

    *told = directory >= 0;
    if (!*told)
        return NULL;
    failed = proc_each_number(directory, visit, argument);
    (void)close(directory);
    return failed;
}

bool proc_close_range(int first, int last)
{
    return syscall(SYS_close_range, first, last, 0) == 0;
}

/* Reads the beginning of a file as a string; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return false;
    length = read(fd, text, size - 1);
    (void)close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return true;
}

uint64_t proc_address_space(pid_t pid)
{
    char path[32], text[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    if (!read_text(path, text, sizeof(text)))
        return 0;
    return strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Fields of /proc/self/stat, counted from the one behind the command's name. */
#define FIELD_ENV_START 47
#define FIELD_ENV_END 48

static char *address_at(const char *text, int field)
{
    for (; field > 0 && text != NULL; field--) {
        text = strchr(text, ' ');
        text = text == NULL ? NULL : text + 1;
    }
    return text == NULL ? NULL : (char *)(uintptr_t)strtoull(text, NULL, 10);
}

bool proc_environment(char **start, char **end)
{
    char text[1024];
    const char *fields;

    if (!read_text("/proc/self/stat", text, sizeof(text)))
        return false;
    fields = strrchr(text, ')'); /* the name may hold anything, parentheses too */
    if (fields == NULL)
        return false;
    *start = address_at(fields + 2, FIELD_ENV_START);
    *end = address_at(fields + 2, FIELD_ENV_END);
    return *start != NULL && *end > *start;
}

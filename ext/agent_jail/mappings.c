/*
 * mappings.c - memory that the parent shares is the child's own from here on.
 *
 * What is mapped MAP_SHARED (a database's index, counters of a server, a ring of a socket) is a way out: what the child
 * writes there, the parent reads. Each such mapping is put in place again as a private one, with what it held.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A larger mapping without a file is not copied: it is taken away, and touching it ends the child. */
#define COPIED_MAX ((size_t)64 << 20)
#define NAME_MAX_LENGTH 1024

/* The kernel's interface since Linux 6.11, written out since headers are older than kernels. */
struct map_query {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t device_major, device_minor, name_size, build_id_size;
    uint64_t name_address, build_id_address;
};

#define MAP_QUERY _IOWR('f', 17, struct map_query)
#define QUERY_READABLE 0x01u
#define QUERY_WRITABLE 0x02u
#define QUERY_EXECUTABLE 0x04u
#define QUERY_SHARED 0x08u
#define QUERY_OR_NEXT 0x10u

struct mapping {
    char *start;
    size_t length;
    int protection;
    uint64_t offset, inode;
    dev_t device;
    char name[NAME_MAX_LENGTH]; /* empty: none, or too long */
};

/* The file again, if it is the same: the path may lead elsewhere by now. A device is not opened, that may do things. */
static int open_again(const struct mapping *mapping)
{
    struct stat status;
    int fd;

    if (mapping->name[0] != '/' || stat(mapping->name, &status) != 0 || !S_ISREG(status.st_mode))
        return -1;
    if (status.st_dev != mapping->device || status.st_ino != mapping->inode)
        return -1;
    fd = open(mapping->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && (fstat(fd, &status) != 0 || status.st_ino != mapping->inode)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool map_file(const struct mapping *mapping, int fd)
{
    void *mapped = mmap(mapping->start, mapping->length, mapping->protection,
                        MAP_PRIVATE | MAP_FIXED, fd, (off_t)mapping->offset);

    return close(fd) == 0 && mapped == mapping->start;
}

static bool is_device(const struct mapping *mapping)
{
    return strncmp(mapping->name, "/dev/", 5) == 0 && strncmp(mapping->name, "/dev/shm/", 9) != 0 &&
           strncmp(mapping->name, "/dev/zero", 9) != 0;
}

/* Memory without a file: moved into place with what it held, where that can be read and is not too much. */
static bool map_copy(const struct mapping *mapping)
{
    bool copied =
        (mapping->protection & PROT_READ) && mapping->length <= COPIED_MAX && !is_device(mapping);
    void *copy = mmap(NULL, mapping->length, copied ? PROT_READ | PROT_WRITE : PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return false;
    if (copied) {
        memcpy(copy, mapping->start, mapping->length);
        if (mprotect(copy, mapping->length, mapping->protection) != 0)
            return false;
    }
    return mremap(copy, mapping->length, mapping->length, MREMAP_MAYMOVE | MREMAP_FIXED,
                  mapping->start) == mapping->start;
}

/* A file that was opened for reading alone can be shared: the kernel lets nobody make such a mapping writable. */
static bool can_be_written(const struct mapping *mapping)
{
    if (mapping->protection & PROT_WRITE)
        return true;
    return mprotect(mapping->start, mapping->length, mapping->protection | PROT_WRITE) == 0 ||
           errno != EACCES;
}

static const char *privatise(const struct mapping *mapping)
{
    int fd;

    if (!can_be_written(mapping))
        return NULL;
    fd = open_again(mapping);
    if (fd >= 0 ? map_file(mapping, fd) : map_copy(mapping))
        return NULL;
    return "mmap(shared memory)";
}

static int protection_of(uint64_t flags)
{
    return (flags & QUERY_READABLE ? PROT_READ : 0) | (flags & QUERY_WRITABLE ? PROT_WRITE : 0) |
           (flags & QUERY_EXECUTABLE ? PROT_EXEC : 0);
}

/* The first shared mapping at or above an address. 1: found, 0: there is none, -1: the kernel cannot be asked so. */
static int next_shared(int maps, const char *from, struct mapping *mapping)
{
    struct map_query query = {
        .size = sizeof(query),
        .flags = QUERY_SHARED | QUERY_OR_NEXT,
        .address = (uintptr_t)from,
        .name_size = sizeof(mapping->name),
        .name_address = (uintptr_t)mapping->name,
    };

    mapping->name[0] = '\0';
    if (ioctl(maps, MAP_QUERY, &query) != 0) {
        if (errno == ENAMETOOLONG) {
            query.name_size = 0;
            query.name_address = 0;
            mapping->name[0] = '\0';
        }
        if (errno != ENAMETOOLONG || ioctl(maps, MAP_QUERY, &query) != 0)
            return errno == ENOENT ? 0 : -1;
    }
    mapping->start = (char *)(uintptr_t)query.start;
    mapping->length = (size_t)(query.end - query.start);
    mapping->protection = protection_of(query.vma_flags);
    mapping->offset = query.offset;
    mapping->inode = query.inode;
    mapping->device = makedev(query.device_major, query.device_minor);
    return 1;
}

/* A line of /proc/self/maps: "7f00-7f10 rw-s 00000000 00:01 123   /path". False: it is not a shared mapping. */
static bool parse_line(const char *line, struct mapping *mapping)
{
    char permissions[5];
    unsigned long start, end, offset, major, minor, inode;
    int name = 0;

    if (sscanf(line, "%lx-%lx %4s %lx %lx:%lx %lu %n", &start, &end, permissions, &offset, &major,
               &minor, &inode, &name) < 7 ||
        permissions[3] != 's')
        return false;
    mapping->start = (char *)start;
    mapping->length = end - start;
    mapping->protection = (permissions[0] == 'r' ? PROT_READ : 0) |
                          (permissions[1] == 'w' ? PROT_WRITE : 0) |
                          (permissions[2] == 'x' ? PROT_EXEC : 0);
    mapping->offset = offset;
    mapping->inode = inode;
    mapping->device = makedev((unsigned)major, (unsigned)minor);
    memcpy(mapping->name, line + name, strnlen(line + name, sizeof(mapping->name) - 1) + 1);
    return true;
}

/* Lines of a file without stdio. */
struct reader {
    int fd;
    size_t at, filled;
    char buffer[4096];
};

/* The next byte, or -1 at the end. */
static int next_byte(struct reader *reader)
{
    if (reader->at == reader->filled) {
        ssize_t got = read(reader->fd, reader->buffer, sizeof(reader->buffer));

        reader->at = 0;
        reader->filled = got > 0 ? (size_t)got : 0;
    }
    return reader->at < reader->filled ? (unsigned char)reader->buffer[reader->at++] : -1;
}

/* A line without its end, cut to what fits; false at the end of the file. */
static bool next_line(struct reader *reader, char *line, size_t size)
{
    size_t length = 0;
    int byte;

    while ((byte = next_byte(reader)) >= 0 && byte != '\n')
        if (length < size - 1)
            line[length++] = (char)byte;
    line[length] = '\0';
    return length > 0;
}

/* Before Linux 6.11: by the text. */
static const char *privatise_listed(int maps)
{
    struct reader reader = {.fd = maps};
    struct mapping mapping;
    char line[NAME_MAX_LENGTH + 128];
    const char *failed = NULL;

    while (failed == NULL && next_line(&reader, line, sizeof(line)))
        if (parse_line(line, &mapping))
            failed = privatise(&mapping);
    return failed;
}

static const char *privatise_asked(int maps)
{
    struct mapping mapping;
    char *from = NULL;
    const char *failed = NULL;
    int found = 1;

    while (failed == NULL && (found = next_shared(maps, from, &mapping)) > 0) {
        failed = privatise(&mapping);
        from = mapping.start + mapping.length;
    }
    return found < 0 ? privatise_listed(maps) : failed;
}

const char *mappings_privatise(void)
{
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const char *failed;
    int error;

    if (maps < 0)
        return "open(/proc/self/maps)";
    failed = privatise_asked(maps);
    error = errno;
    if (close(maps) != 0 && failed == NULL)
        return "close(/proc/self/maps)";
    errno = error;
    return failed;
}

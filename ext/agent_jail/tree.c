/*
 * tree.c - removing what a block left in its private directory.
 *
 * The block may have nested directories deeper than a path can name or descriptors can follow, and taken their rights
 * away. So nothing is walked: a directory that is not empty gives what it holds to the top, and the top is emptied
 * again and again until it stays empty. Symlinks are removed, never followed. The child has been reaped: nobody
 * interferes.
 *
 * A block makes entries faster than they can be removed. The caller does not wait for that.
 */
#include "jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long the caller waits, in seconds. */
#define REMOVE_PATIENCE 0.1

/* More trees than these are not removed behind at a time: then the caller waits. */
#define BEHIND_MAX 8

struct removal {
    int top;
    double deadline;     /* on the monotonic clock */
    bool late;           /* it is over, and something is left */
    unsigned long moved; /* the next name for a directory that is moved up */
    bool found;          /* something was there in this round */
};

/* Does something to an entry of the directory `parent`; false with errno set ends it all. */
typedef bool visitor(struct removal *removal, int parent, const char *name);

static bool is_late(struct removal *removal)
{
    removal->late = removal->late || process_clock() >= removal->deadline;
    return removal->late;
}

/* Takes `fd` over. */
static bool each_entry(struct removal *removal, int fd, visitor *visit)
{
    DIR *directory = fdopendir(fd);
    const struct dirent *entry;
    bool done = true;

    if (directory == NULL) {
        (void)close(fd);
        return false;
    }
    while (done && !is_late(removal) && (entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            done = visit(removal, dirfd(directory), entry->d_name);
    int error = errno;
    (void)closedir(directory);
    errno = error;
    return done && !removal->late;
}

/* True when the entry is gone; false with ENOTEMPTY when it is a directory that holds something. */
static bool drop(int parent, const char *name)
{
    if (unlinkat(parent, name, 0) == 0)
        return true;
    if (errno != EISDIR && errno != EPERM)
        return false;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
        return true;
    if (errno == EEXIST)
        errno = ENOTEMPTY;
    return false;
}

/* A directory's owner may have taken his own rights away. By its descriptor: a name could be a symlink's by now. */
#ifdef O_PATH
static bool allow_all(int parent, const char *name)
{
    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[64];
    bool done;

    if (fd < 0)
        return false;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    done = chmod(path, S_IRWXU) == 0;
    (void)close(fd);
    return done;
}
#else
/* Where the call itself follows no symlink. */
static bool allow_all(int parent, const char *name)
{
    return fchmodat(parent, name, S_IRWXU, AT_SYMLINK_NOFOLLOW) == 0;
}
#endif

static bool drop_or_move_up(struct removal *removal, int parent, const char *name)
{
    char number[32];

    if (drop(parent, name))
        return true;
    if (errno != ENOTEMPTY || !allow_all(parent, name))
        return false;
    do {
        (void)snprintf(number, sizeof(number), "%lu", removal->moved++);
    } while (faccessat(removal->top, number, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
    return renameat(parent, name, removal->top, number) == 0;
}

static int open_directory(int parent, const char *name)
{
    if (!allow_all(parent, name))
        return -1;
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool drop_or_empty(struct removal *removal, int parent, const char *name)
{
    int fd;

    removal->found = true;
    if (drop(parent, name))
        return true;
    if (errno != ENOTEMPTY)
        return false;
    fd = open_directory(parent, name);
    return fd >= 0 && each_entry(removal, fd, drop_or_move_up) && drop(parent, name);
}

static bool empty_top(struct removal *removal)
{
    do {
        int fd = openat(removal->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        removal->found = false;
        if (fd < 0 || !each_entry(removal, fd, drop_or_empty))
            return false;
    } while (removal->found);
    return true;
}

/* Up to the deadline; `late` tells whether that was the end. */
static const char *remove_until(const char *path, double deadline, bool *late)
{
    struct removal removal = {
        .top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        .deadline = deadline,
    };
    const char *failed = NULL;
    int error;

    *late = false;
    if (removal.top < 0)
        return errno == ENOENT ? NULL : "open";
    if (!empty_top(&removal))
        failed = "unlink";
    else if (rmdir(path) != 0)
        failed = "rmdir";
    error = errno;
    *late = removal.late;
    (void)close(removal.top);
    errno = error;
    return failed;
}

static atomic_int behind;

/* To the end. Takes the path over. */
static void *remove_behind(void *path)
{
    bool late;

    (void)remove_until(path, INFINITY, &late);
    free(path);
    atomic_fetch_sub(&behind, 1);
    return NULL;
}

static bool start_behind(const char *path)
{
    char *copy = strdup(path);

    if (copy != NULL && atomic_fetch_add(&behind, 1) < BEHIND_MAX &&
        process_start_thread(remove_behind, copy))
        return true;
    if (copy != NULL)
        atomic_fetch_sub(&behind, 1);
    free(copy);
    return false;
}

const char *tree_remove(const char *path)
{
    bool late;
    const char *failed = remove_until(path, process_clock() + REMOVE_PATIENCE, &late);

    if (!late)
        return failed;
    return start_behind(path) ? NULL : remove_until(path, INFINITY, &late);
}

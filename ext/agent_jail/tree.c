/*
 * tree.c - removing what a block left in its private directory.
 *
 * The block may have nested directories deeper than a path can name or descriptors can follow, and taken their rights
 * away. So nothing is walked: a directory that is not empty gives what it holds to the top, and the top is emptied
 * again and again until it stays empty. Symlinks are removed, never followed. The child has been reaped: nobody
 * interferes.
 */
#include "jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct removal {
    int top;
    unsigned long moved; /* the next name for a directory that is moved up */
    bool found;          /* something was there in this round */
};

/* Does something to an entry of the directory `parent`; false with errno set ends it all. */
typedef bool visitor(struct removal *removal, int parent, const char *name);

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
    while (done && (entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            done = visit(removal, dirfd(directory), entry->d_name);
    int error = errno;
    (void)closedir(directory);
    errno = error;
    return done;
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

const char *tree_remove(const char *path)
{
    struct removal removal = {.top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    const char *failed = NULL;
    int error;

    if (removal.top < 0)
        return errno == ENOENT ? NULL : "open";
    if (!empty_top(&removal))
        failed = "unlink";
    else if (rmdir(path) != 0)
        failed = "rmdir";
    error = errno;
    (void)close(removal.top);
    errno = error;
    return failed;
}

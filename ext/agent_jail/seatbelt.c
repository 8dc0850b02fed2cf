/*
 * seatbelt.c - what macOS lets the jail do, as the text of a profile.
 *
 * The language has one rule of precedence: the last rule that matches decides. So a profile begins with a refusal of
 * everything, goes on with what every jail needs, then with what was granted, and ends with what no grant covers.
 *
 * The kernel compares the path that a file has, not the one that somebody came by: /tmp/x is /private/tmp/x. So roots
 * are resolved, and each symlink on the way to one may be looked at, and nothing more.
 *
 * Operations and filters that every macOS knows are named as they are; younger ones behind (defined? ...), since one
 * word that the system does not know voids the whole profile.
 */
#include "jail.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* libSystem's own, declared here: <sandbox.h> marks them as deprecated and has no name for a profile as text. */
int sandbox_init(const char *profile, uint64_t flags, char **error);
void sandbox_free_error(char *error);
int sandbox_check(pid_t pid, const char *operation, int type, ...);

#define PROFILE_AS_TEXT 0

/* As many as the kernel follows. */
#define LINKS_MAX 32

/*
 * The root directory's names are what dyld reads before it opens a library. Of sysctl only what describes the machine:
 * others describe processes, with their arguments and environment.
 */
static const char every_jail[] =
    "(version 1)\n"
    "(deny default)\n"
    "(allow file-read* (literal \"/\"))\n"
    "(allow file-read-metadata (literal \"/tmp\") (literal \"/var\") (literal \"/etc\") "
    "(literal \"/dev\"))\n"
    "(allow file-read* (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/random\") "
    "(literal \"/dev/urandom\"))\n"
    "(allow file-write-data (literal \"/dev/null\") (literal \"/dev/zero\"))\n"
    "(allow process-info* (target self))\n"
    "(allow signal (target self))\n"
    "(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))\n"
    "(allow sysctl-read (sysctl-name-prefix \"hw.\") (sysctl-name-prefix \"machdep.cpu.\") "
    "(sysctl-name \"kern.argmax\") (sysctl-name \"kern.hostname\") "
    "(sysctl-name \"kern.maxfilesperproc\") (sysctl-name \"kern.maxproc\") "
    "(sysctl-name \"kern.ngroups\") (sysctl-name \"kern.osproductversion\") "
    "(sysctl-name \"kern.osrelease\") (sysctl-name \"kern.ostype\") "
    "(sysctl-name \"kern.osversion\") (sysctl-name \"kern.secure_kernel\") "
    "(sysctl-name \"kern.usrstack64\") (sysctl-name \"kern.version\") "
    "(sysctl-name \"sysctl.proc_cputype\") (sysctl-name \"sysctl.proc_translated\") "
    "(sysctl-name \"vm.loadavg\"))\n"
    "(if (defined? 'dynamic-code-generation) (allow dynamic-code-generation))\n";

/* Unix sockets by path too: the name service is one. */
static const char with_network[] =
    "(allow network*)\n"
    "(allow system-socket)\n"
    "(if (defined? 'socket-ioctl) (allow socket-ioctl))\n"
    "(allow sysctl-read (sysctl-name-prefix \"net.routetable.\"))\n"
    "(allow mach-lookup (global-name \"com.apple.SystemConfiguration.DNSConfiguration\") "
    "(global-name \"com.apple.SystemConfiguration.configd\"))\n";

/* A socket is refused as such where the system can: what (deny default) covers is what is done with one. */
static const char without_network[] =
    "(if (defined? 'syscall-unix) (deny syscall-unix (syscall-number SYS_socket)))\n";

static const char with_processes[] = "(allow process-fork)\n"
                                     "(allow signal (target pgrp))\n";

/*
 * Modes, owners and times are nobody's to change, whatever was granted; a link gives a file that may be read a name where
 * it may be written. And nobody leaves the process group, by which the whole tree is ended: posix_spawn can do that on
 * the new process's behalf.
 */
static const char no_grant_covers[] =
    "(deny file-write-mode file-write-owner file-write-flags file-write-times "
    "file-write-setugid file-write-xattr)\n"
    "(if (defined? 'file-write-acl) (deny file-write-acl))\n"
    "(if (defined? 'file-link) (deny file-link))\n"
    "(if (defined? 'file-clone) (deny file-clone))\n"
    "(if (defined? 'syscall-unix) (deny syscall-unix (syscall-number SYS_setsid) "
    "(syscall-number SYS_setpgid) (syscall-number SYS_posix_spawn)))\n";

static void put_bytes(struct seatbelt *profile, const char *bytes, size_t length)
{
    if (length >= SEATBELT_LENGTH_MAX - profile->length) {
        profile->full = true;
        return;
    }
    memcpy(profile->text + profile->length, bytes, length);
    profile->length += length;
    profile->text[profile->length] = '\0';
}

static void put(struct seatbelt *profile, const char *words)
{
    put_bytes(profile, words, strlen(words));
}

/* A filter with a path: the name of the filter, and the path as a string of the language. */
static void put_path(struct seatbelt *profile, const char *filter, const char *path, size_t length)
{
    put(profile, " (");
    put(profile, filter);
    put(profile, " \"");
    for (size_t i = 0; i < length; i++) {
        if (path[i] == '\\' || path[i] == '"')
            put(profile, "\\");
        put_bytes(profile, path + i, 1);
    }
    put(profile, "\")");
}

/* True where a path cannot be written as a string: nothing says how the language reads a control character. */
static bool has_control(const char *path)
{
    for (; *path != '\0'; path++)
        if ((unsigned char)*path < ' ' || *path == 0x7f)
            return true;
    return false;
}

/* The length of what two paths have in common, in whole components. */
static size_t shared_length(const char *path, const char *other)
{
    size_t shared = 0, i = 0;

    for (; path[i] != '\0' && path[i] == other[i]; i++)
        if (path[i] == '/')
            shared = i;
    return (path[i] == '\0' || path[i] == '/') && (other[i] == '\0' || other[i] == '/') ? i
                                                                                        : shared;
}

/* The directories above a path may be looked at, so that realpath(3) and its like find the way. Those that the path before
 * has in common with it have been named already. */
static void see_above(struct seatbelt *profile, const char *path)
{
    size_t known = shared_length(path, profile->seen);
    bool begun = false;

    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] != '/' || i <= known)
            continue;
        if (!begun)
            put(profile, "(allow file-read-metadata");
        begun = true;
        put_path(profile, "literal", path, i);
    }
    if (begun)
        put(profile, ")\n");
    (void)snprintf(profile->seen, sizeof(profile->seen), "%s", path);
}

static void see(struct seatbelt *profile, const char *path)
{
    put(profile, "(allow file-read-metadata");
    put_path(profile, "literal", path, strlen(path));
    put(profile, ")\n");
}

/* Where a walk along a path has come to, without a symlink in it, and what is left of it. */
struct walk {
    char at[PATH_MAX], rest[PATH_MAX];
};

static bool append(char *path, const char *name, size_t length)
{
    size_t end = strlen(path);

    if (end + 1 + length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    path[end] = '/';
    memcpy(path + end + 1, name, length);
    path[end + 1 + length] = '\0';
    return true;
}

/* Puts what a symlink leads to in front of what is left. */
static bool follow(struct walk *walk, const char *link, const char *left)
{
    char target[PATH_MAX];
    ssize_t length = readlink(link, target, sizeof(target) - 1);

    if (length < 0)
        return false;
    target[length] = '\0';
    if (!append(target, left, strlen(left)))
        return false;
    (void)snprintf(walk->rest, sizeof(walk->rest), "%s", target);
    if (target[0] == '/')
        walk->at[0] = '\0';
    return true;
}

/* One component. 1: it is a symlink, which was followed; 0: it is none; -1: errno. */
static int step(struct seatbelt *profile, struct walk *walk, const char *name, size_t length)
{
    char next[PATH_MAX], left[PATH_MAX];
    struct stat status;

    (void)snprintf(next, sizeof(next), "%s", walk->at);
    (void)snprintf(left, sizeof(left), "%s", name + length);
    if (!append(next, name, length) || lstat(next, &status) != 0)
        return -1;
    if (!S_ISLNK(status.st_mode)) {
        memcpy(walk->at, next, sizeof(next));
        memmove(walk->rest, left, sizeof(left));
        return 0;
    }
    if (has_control(next)) {
        errno = EINVAL;
        return -1;
    }
    see(profile, next);
    return follow(walk, next, left) ? 1 : -1;
}

static void step_up(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL)
        *slash = '\0';
}

/* The symlinks on the way along a path, those that lead to others included. */
static bool see_links(struct seatbelt *profile, const char *path)
{
    struct walk walk = {.at = ""};
    int links = 0;

    if (strlen(path) >= sizeof(walk.rest)) {
        errno = ENAMETOOLONG;
        return false;
    }
    (void)snprintf(walk.rest, sizeof(walk.rest), "%s", path);
    while (walk.rest[0] != '\0' && links <= LINKS_MAX) {
        const char *name = walk.rest + strspn(walk.rest, "/");
        size_t length = strcspn(name, "/");
        int followed = 0;

        if (length == 0)
            return true;
        if (length == 2 && strncmp(name, "..", 2) == 0)
            step_up(walk.at);
        if (length <= 2 && strncmp(name, "..", length) == 0)
            memmove(walk.rest, name + length, strlen(name + length) + 1);
        else
            followed = step(profile, &walk, name, length);
        if (followed < 0)
            return false;
        links += followed;
    }
    errno = ELOOP;
    return links <= LINKS_MAX;
}

static const char *resolve(struct seatbelt *profile, const char *path, char *real)
{
    if (path[0] != '/') {
        errno = EINVAL;
        return "a Seatbelt profile wants absolute paths";
    }
    if (realpath(path, real) == NULL)
        return "realpath";
    if (has_control(real) || has_control(path)) {
        errno = EINVAL;
        return "a Seatbelt profile cannot name a path with a control character";
    }
    if (!see_links(profile, path))
        return "lstat";
    see_above(profile, real);
    return NULL;
}

struct seatbelt *seatbelt_create(const struct seatbelt_options *options)
{
    struct seatbelt *profile = malloc(sizeof(*profile));

    if (profile == NULL)
        return NULL;
    profile->length = 0;
    profile->full = false;
    profile->seen[0] = '\0';
    put(profile, every_jail);
    put(profile, options->network ? with_network : without_network);
    if (options->processes)
        put(profile, with_processes);
    return profile;
}

/* What may be read may also be mapped as code, since that is how extensions come; what may be written as well, only
 * where programs are run. */
static void put_operations(struct seatbelt *profile, unsigned access, const struct stat *status)
{
    put(profile, "(allow");
    if (access & GRANT_READ)
        put(profile, " file-read*");
    if (access & GRANT_WRITE)
        put(profile, " file-write*");
    if ((access & GRANT_WRITE) && S_ISCHR(status->st_mode))
        put(profile, " file-ioctl");
    if ((access & GRANT_EXECUTE) || !(access & GRANT_WRITE))
        put(profile, " file-map-executable");
    if (access & GRANT_EXECUTE)
        put(profile, " process-exec*");
}

/* What is granted stays where it is: in its place the block could put a symlink, for others to follow. */
static void keep_root(struct seatbelt *profile, const char *root)
{
    put(profile, "(deny file-write-create file-write-unlink");
    put_path(profile, "literal", root, strlen(root));
    put(profile, ")\n");
}

/* Before it was resolved it was this directory and is so after: nobody put a symlink in its place meanwhile. */
static bool is_same_directory(const struct stat *before, const struct stat *after)
{
    return S_ISDIR(before->st_mode) && before->st_dev == after->st_dev &&
           before->st_ino == after->st_ino;
}

const char *seatbelt_grant(struct seatbelt *profile, const char *path, unsigned access)
{
    char real[PATH_MAX];
    struct stat before = {0}, status;
    const char *failed;

    (void)lstat(path, &before); /* where it is not there, resolve says so */
    failed = resolve(profile, path, real);
    if (failed != NULL)
        return failed;
    if (stat(real, &status) != 0)
        return "stat";
    if ((access & GRANT_ITSELF) && !is_same_directory(&before, &status)) {
        errno = ENOTDIR;
        return "lstat";
    }
    put_operations(profile, access, &status);
    put_path(profile, S_ISDIR(status.st_mode) ? "subpath" : "literal", real, strlen(real));
    put(profile, ")\n");
    if (access & GRANT_WRITE)
        keep_root(profile, real);
    return NULL;
}

const char *seatbelt_see(struct seatbelt *profile, const char *path)
{
    char real[PATH_MAX];
    const char *failed = resolve(profile, path, real);

    if (failed == NULL)
        see(profile, real);
    return failed;
}

const char *seatbelt_finish(struct seatbelt *profile)
{
    put(profile, no_grant_covers);
    errno = E2BIG;
    return profile->full ? "a Seatbelt profile of so many paths" : NULL;
}

bool seatbelt_available(void)
{
    return sandbox_check(getpid(), NULL, 0) == 0;
}

const char *seatbelt_apply(const struct seatbelt *profile, char *why, size_t size)
{
    char *words = NULL;
    int error;

    if (sandbox_init(profile->text, PROFILE_AS_TEXT, &words) == 0)
        return NULL;
    error = errno;
    (void)snprintf(why, size, "%s%s",
                   error == EPERM ? "this process is in a sandbox already, and macOS puts none "
                                    "inside another: "
                                  : "",
                   words != NULL ? words : "no reason was given");
    if (words != NULL)
        sandbox_free_error(words);
    errno = error;
    return "sandbox_init";
}

/*
 * landlock.c - which paths may be used, and how.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* The kernel's interface, written out since headers are older than kernels. */
#define CREATE_RULESET_VERSION (1u << 0)
#define RULE_PATH_BENEATH 1

struct ruleset_attributes {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};

struct path_rule {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_MAKE_FIFO = 1 << 10,
    FS_MAKE_BLOCK = 1 << 11,
    FS_MAKE_SYM = 1 << 12,
    FS_REFER = 1 << 13,       /* ABI 2 */
    FS_TRUNCATE = 1 << 14,    /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15,   /* ABI 5 */
    FS_RESOLVE_UNIX = 1 << 16 /* ABI 9 */
};

#define FS_ABI_1 ((1u << 13) - 1)

/* What each ABI added to the file rights. An ABI newer than the last is treated as the last. */
static const uint64_t file_rights[LANDLOCK_ABI_NEWEST + 1] = {
    [1] = FS_ABI_1, [2] = FS_REFER, [3] = FS_TRUNCATE, [5] = FS_IOCTL_DEV, [9] = FS_RESOLVE_UNIX,
};

#define NET_TCP 0x3ull             /* ABI 4: bind, connect */
#define NET_UDP 0xcull             /* ABI 10: bind, connect or send */
#define SCOPE_ABSTRACT_UNIX 0x1ull /* ABI 6 */
#define SCOPE_SIGNAL 0x2ull        /* ABI 6 */

/* The rights that make sense on something that is not a directory: others are EINVAL there. */
#define FS_ON_FILE                                                                                 \
    (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV | FS_RESOLVE_UNIX)

/* What an access (enum grant) means in rights. Device nodes are never made. */
static const struct {
    unsigned access;
    uint64_t rights;
} meanings[] = {
    {GRANT_READ, FS_READ_FILE | FS_READ_DIR},
    {GRANT_WRITE, FS_WRITE_FILE | FS_TRUNCATE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR |
                      FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER |
                      FS_RESOLVE_UNIX},
    {GRANT_EXECUTE, FS_EXECUTE},
    {GRANT_DEVICE, FS_IOCTL_DEV},
};

static int create_ruleset(const struct ruleset_attributes *attributes, size_t size, unsigned flags)
{
    return (int)syscall(SYS_landlock_create_ruleset, attributes, size, flags);
}

int landlock_abi(void)
{
    static int known = -1; /* it does not change while the kernel runs */

    if (known < 0) {
        int abi = create_ruleset(NULL, 0, CREATE_RULESET_VERSION);
        known = abi < 0 ? 0 : abi;
    }
    return known;
}

/* How much of the attributes a kernel of this ABI knows. */
static size_t attributes_size(int abi)
{
    if (abi < 4)
        return offsetof(struct ruleset_attributes, handled_net);
    return abi < 6 ? offsetof(struct ruleset_attributes, scoped)
                   : sizeof(struct ruleset_attributes);
}

/* What is denied unless granted. An open network is open whole: Unix sockets by path and by abstract name too. */
static struct ruleset_attributes handled_by(int abi, bool network)
{
    struct ruleset_attributes handled = {0};

    for (int i = 1; i <= abi && i <= LANDLOCK_ABI_NEWEST; i++)
        handled.handled_fs |= file_rights[i];
    if (network)
        handled.handled_fs &= ~(uint64_t)FS_RESOLVE_UNIX;
    if (!network)
        handled.handled_net = (abi >= 4 ? NET_TCP : 0) | (abi >= 10 ? NET_UDP : 0);
    if (abi >= 6)
        handled.scoped = SCOPE_SIGNAL | (network ? 0 : SCOPE_ABSTRACT_UNIX);
    return handled;
}

const char *landlock_create(struct landlock *landlock, bool network)
{
    struct ruleset_attributes attributes;

    landlock->abi = landlock_abi();
    landlock->fd = -1;
    if (landlock->abi == 0)
        return NULL;
    attributes = handled_by(landlock->abi, network);
    landlock->fd = create_ruleset(&attributes, attributes_size(landlock->abi), 0);
    if (landlock->fd < 0 && errno == EINVAL) {
        attributes.scoped = 0; /* vendor kernels say ABI 6 and lack the scopes */
        landlock->fd = create_ruleset(&attributes, attributes_size(landlock->abi), 0);
    }
    landlock->handled = attributes.handled_fs;
    landlock->signals = (attributes.scoped & SCOPE_SIGNAL) != 0;
    return landlock->fd < 0 ? "landlock_create_ruleset" : NULL;
}

static uint64_t rights_of(unsigned access)
{
    uint64_t rights = 0;

    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (access & meanings[i].access)
            rights |= meanings[i].rights;
    return rights;
}

static bool is_file(int fd, unsigned access, bool *file)
{
    struct stat status;

    *file = (access & GRANT_FILE) != 0;
    if (access & (GRANT_FILE | GRANT_DIRECTORY))
        return true;
    if (fstat(fd, &status) != 0)
        return false;
    *file = !S_ISDIR(status.st_mode);
    return true;
}

/* Grants on an open path. EINVAL here would mean a right that the ruleset does not handle, so only those are asked. */
static const char *grant_open(const struct landlock *landlock, int fd, unsigned access)
{
    struct path_rule rule = {.allowed = rights_of(access) & landlock->handled, .parent = fd};
    bool file;

    if (!is_file(fd, access, &file))
        return "fstat";
    if (file)
        rule.allowed &= FS_ON_FILE;
    if (rule.allowed == 0)
        return NULL;
    if (syscall(SYS_landlock_add_rule, landlock->fd, RULE_PATH_BENEATH, &rule, 0) == 0)
        return NULL;
    if (errno == EINVAL && (access & GRANT_DIRECTORY)) /* the path has become a file since */
        return grant_open(landlock, fd, (access & ~(unsigned)GRANT_DIRECTORY) | GRANT_FILE);
    return "landlock_add_rule";
}

const char *landlock_grant(const struct landlock *landlock, const char *path, unsigned access)
{
    int fd = access & GRANT_ITSELF ? open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY)
                                   : open(path, O_PATH | O_CLOEXEC);
    const char *failed;
    int error;

    if (fd < 0)
        return "open";
    failed = landlock->fd < 0 ? NULL : grant_open(landlock, fd, access);
    error = errno;
    if (close(fd) != 0 && failed == NULL)
        return "close";
    errno = error;
    return failed;
}

const char *landlock_enforce(const struct landlock *landlock)
{
    if (landlock->fd < 0)
        return NULL;
    if (syscall(SYS_landlock_restrict_self, landlock->fd, 0) != 0)
        return "landlock_restrict_self";
    return NULL;
}

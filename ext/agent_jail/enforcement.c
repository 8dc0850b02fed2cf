/*
 * enforcement.c - what this kernel has of what the jail is made of: each is tried, none is guessed from a version.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* True when there was a descriptor, which is closed. */
static bool closed(int fd)
{
    return fd >= 0 && close(fd) == 0;
}

/* Some kernels say the ABI that has them, and lack them. */
static bool has_signals(void)
{
    struct landlock landlock;
    const char *failed = landlock_create(&landlock, false);

    return failed == NULL && closed(landlock.fd) && landlock.signals;
}

static bool has_pidfd(void)
{
    return closed(process_open(getpid()));
}

static bool has_address_space(void)
{
    return proc_address_space(getpid()) != 0;
}

static bool has_tools(void)
{
    int report;

    return closed(open("/dev/null", O_RDONLY | O_CLOEXEC)) && report_open(&report) == NULL &&
           closed(report);
}

static const struct enforcement rows[] = {
    {"signals", has_signals},
    {"seccomp", seccomp_available},
    {"capabilities", capabilities_available},
    {"pidfd", has_pidfd},
    {"address_space", has_address_space},
    {"tools", has_tools},
};

const struct enforcement *enforcement_table(size_t *count)
{
    *count = sizeof(rows) / sizeof(rows[0]);
    return rows;
}

bool enforcement_unknown(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/*
 * report_darwin.c - how far a child came, where there is no file in memory that can be sealed.
 *
 * The report is a file without a name. Its position, which parent and child share, is the child's word: first its own
 * number, then, beside that, that the jail is closed. With that the child closes its descriptor, and there is no other
 * way to the file: nothing that runs in the block can take the word back. What is in the file is the failure, and in its
 * first byte the parent's word that it knows the child.
 */
#include "jail.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define CLOSED ((off_t)1 << 40)
#define NUMBER ((off_t)0x7fffffff)

const char *report_open(int *report)
{
    char path[] = "/tmp/agent_jail.XXXXXX";

    *report = mkstemp(path);
    if (*report < 0)
        return "mkstemp(/tmp)";
    if (unlink(path) != 0)
        return "unlink";
    return fcntl(*report, F_SETFD, FD_CLOEXEC) == 0 ? NULL : "fcntl(FD_CLOEXEC)";
}

static off_t word(int report)
{
    off_t position = lseek(report, 0, SEEK_CUR);

    return position < 0 ? 0 : position;
}

/* The first notes itself: a fork hook may fork as well. */
void report_start(int report)
{
    if (report_child(report) == 0)
        (void)lseek(report, getpid(), SEEK_SET);
}

pid_t report_child(int report)
{
    return (pid_t)(word(report) & NUMBER);
}

const char *report_release(int report)
{
    return pwrite(report, "r", 1, 0) == 1 ? NULL : "pwrite(report)";
}

void report_await_release(int report)
{
    pid_t parent = getppid(); /* 1, which runs no jails: it is gone already */
    char released;

    /* the parent ends the child when it cannot; nobody watches for the parent's own end yet */
    while (pread(report, &released, 1, 0) != 1) {
        if (getppid() != parent || parent == 1)
            _exit(1);
        (void)poll(NULL, 0, 1);
    }
}

const char *report_confined(int report)
{
    if (lseek(report, word(report) | CLOSED, SEEK_SET) < 0)
        return "lseek";
    return close(report) == 0 ? NULL : "close(report)";
}

bool report_is_confined(int report)
{
    return (word(report) & CLOSED) != 0;
}

/* A jailed child has no way to it. */
size_t report_crash(int report, char *text, size_t size)
{
    (void)report;
    (void)text;
    (void)size;
    return 0;
}

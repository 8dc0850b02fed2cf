/*
 * report_darwin.c - how far a child came, where there is no file in memory that can be sealed.
 *
 * The report is a file without a name. Its position, which parent and child share, is the child's word: first its own
 * number, then, beside that, that the jail is closed. With that the child closes its descriptor, and there is no other
 * way to the file: nothing that runs in the block can take the word back. What is in the file is the failure, and in its
 * first byte the parent's word that it knows the child.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSED ((off_t)1 << 40)
#define NUMBER ((off_t)0x7fffffff)
#define FAILURE_AT 16

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

static void copy_words(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);

    memcpy(to, from, length);
    to[length] = '\0';
}

void report_fail(int report, const char *call, int error, const char *detail)
{
    struct report_failure failure = {.error = error};

    copy_words(failure.call, sizeof(failure.call), call);
    copy_words(failure.detail, sizeof(failure.detail), detail);
    _exit(pwrite(report, &failure, sizeof(failure), FAILURE_AT) == (ssize_t)sizeof(failure) ? 1
                                                                                            : 2);
}

const char *report_confined(int report)
{
    if (lseek(report, word(report) | CLOSED, SEEK_SET) < 0)
        return "lseek";
    return close(report) == 0 ? NULL : "close(report)";
}

enum report_stage report_read(int report, struct report_failure *failure)
{
    if (word(report) & CLOSED)
        return REPORT_CONFINED;
    if (pread(report, failure, sizeof(*failure), FAILURE_AT) != (ssize_t)sizeof(*failure))
        return REPORT_STARTED;
    failure->call[sizeof(failure->call) - 1] = '\0';
    failure->detail[sizeof(failure->detail) - 1] = '\0';
    return REPORT_FAILED;
}

/*
 * report_linux.c - how far a child came, told by a file in memory and what the kernel keeps beside it.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Seals can be added and never taken away: the first means that the jail is closed, by the second the file does not grow:
 * it would be memory that no limit counts. */
#define CLOSED F_SEAL_SHRINK
#define LIMITED F_SEAL_GROW

static const char *close_after(int *report, const char *failed)
{
    descriptors_close(report);
    return failed;
}

/* A file that outgrows the limit of who makes it costs him his life. */
static off_t length_allowed(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < REPORT_LENGTH)
        return (off_t)limit.rlim_cur;
    return REPORT_LENGTH;
}

/* Nor is it a program that could be run. */
const char *report_open(int *report)
{
    *report = memfd_create("agent_jail", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*report < 0)
        return "memfd_create";
    if (fchmod(*report, S_IRUSR | S_IWUSR) != 0)
        return close_after(report, "fchmod(report)");
    return ftruncate(*report, length_allowed()) == 0 ? NULL
                                                     : close_after(report, "ftruncate(report)");
}

/* In the file's owner, which costs no memory. Nobody asked for signals about the file, so none are sent. The first
 * notes itself: a fork hook may fork as well. */
void report_start(int report)
{
    if (report_child(report) == 0)
        (void)fcntl(report, F_SETOWN, getpid());
}

pid_t report_child(int report)
{
    pid_t child = fcntl(report, F_GETOWN);

    return child > 0 ? child : 0;
}

/* In the file's signal, which nobody ever sends: the file has no owner that asked for one. */
const char *report_release(int report)
{
    return fcntl(report, F_SETSIG, SIGURG) == 0 ? NULL : "fcntl(F_SETSIG)";
}

void report_await_release(int report)
{
    /* the parent ends the child when it cannot, and the child ends with the parent */
    while (fcntl(report, F_GETSIG) == 0)
        (void)poll(NULL, 0, 1);
}

const char *report_confined(int report)
{
    return fcntl(report, F_ADD_SEALS, CLOSED | LIMITED) == 0 ? NULL : "fcntl(F_ADD_SEALS)";
}

bool report_is_confined(int report)
{
    int seals = fcntl(report, F_GET_SEALS);

    return seals >= 0 && (seals & CLOSED) != 0;
}

size_t report_crash(int report, char *text, size_t size)
{
    ssize_t got = pread(report, text, size, 0);
    size_t length = got < 0 ? 0 : (size_t)got;

    while (length > 0 && text[length - 1] == '\0') /* what nobody wrote */
        length--;
    return length;
}

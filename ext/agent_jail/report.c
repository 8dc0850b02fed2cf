/*
 * report.c - what a child that failed has to say, in the file that report_linux.c or report_darwin.c makes.
 */
#include "jail.h"

#include <string.h>
#include <unistd.h>

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
    _exit(pwrite(report, &failure, sizeof(failure), REPORT_FAILURE_AT) == (ssize_t)sizeof(failure)
              ? 1
              : 2);
}

enum report_stage report_read(int report, struct report_failure *failure)
{
    struct report_failure told;

    if (report_is_confined(report))
        return REPORT_CONFINED;
    if (pread(report, &told, sizeof(told), REPORT_FAILURE_AT) != (ssize_t)sizeof(told) ||
        told.call[0] == '\0')
        return REPORT_STARTED;
    *failure = told;
    failure->call[sizeof(failure->call) - 1] = '\0';
    failure->detail[sizeof(failure->detail) - 1] = '\0';
    return REPORT_FAILED;
}

/*
 * sandbox.c - a sandbox_init for machines that have none: it writes down what it got, or fails when it is told to.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

int sandbox_init(const char *profile, uint64_t flags, char **error);
void sandbox_free_error(char *error);
int sandbox_check(pid_t pid, const char *operation, int type, ...);

/* AGENT_JAIL_SANDBOX_FAILS: "ERRNO" or "ERRNO:WORDS". */
static int fail(const char *how, char **error)
{
    const char *words = strchr(how, ':');

    *error = words == NULL ? NULL : strdup(words + 1);
    errno = atoi(how);
    return -1;
}

/* AGENT_JAIL_SANDBOX_RECORD: the file in which the flags and the profile are written down. */
int sandbox_init(const char *profile, uint64_t flags, char **error)
{
    const char *fails = getenv("AGENT_JAIL_SANDBOX_FAILS");
    const char *record = getenv("AGENT_JAIL_SANDBOX_RECORD");
    FILE *file;

    if (fails != NULL)
        return fail(fails, error);
    *error = NULL;
    if (record == NULL)
        return 0;
    file = fopen(record, "w");
    if (file == NULL)
        return fail("5:the record cannot be written", error);
    (void)fprintf(file, "%llu\n%s", (unsigned long long)flags, profile);
    return fclose(file);
}

void sandbox_free_error(char *error)
{
    free(error);
}

int sandbox_check(pid_t pid, const char *operation, int type, ...)
{
    (void)pid;
    (void)operation;
    (void)type;
    return getenv("AGENT_JAIL_SANDBOXED") != NULL;
}

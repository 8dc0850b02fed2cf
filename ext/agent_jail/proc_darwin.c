/*
 * proc_darwin.c - what macOS tells of this process.
 */
#include "jail.h"

#include <errno.h>
#include <libproc.h>
#include <stdlib.h>
#include <unistd.h>

/* Descriptors that the child may have open by itself. */
#define OPEN_MAX_IN_CHILD 512

static int list_descriptors(struct proc_fdinfo *list, size_t size)
{
    return proc_pidinfo(getpid(), PROC_PIDLISTFDS, 0, list, (int)size);
}

/* parent. The size that is asked for first has room for some that are opened meanwhile. */
const char *proc_each_descriptor(bool (*visit)(int, void *), void *argument, bool *told)
{
    int size = list_descriptors(NULL, 0), filled;
    struct proc_fdinfo *list;

    *told = size > 0;
    if (!*told)
        return NULL;
    list = malloc((size_t)size);
    if (list == NULL)
        return "malloc";
    filled = list_descriptors(list, (size_t)size);
    *told = filled > 0;
    for (int i = 0; i < filled / (int)sizeof(*list); i++)
        if (!visit(list[i].proc_fd, argument))
            break;
    free(list);
    return NULL;
}

bool proc_close_range(int first, int last)
{
    struct proc_fdinfo list[OPEN_MAX_IN_CHILD];
    int filled = list_descriptors(list, sizeof(list));

    if (filled <= 0 || filled == (int)sizeof(list))
        return false;
    for (int i = 0; i < filled / (int)sizeof(list[0]); i++)
        if (list[i].proc_fd >= first && list[i].proc_fd <= last)
            (void)close(list[i].proc_fd);
    return true;
}

/* What the process was started with is the kernel's to tell, by sysctl, which the jail refuses. */
bool proc_environment(char **start, char **end)
{
    (void)start;
    (void)end;
    return false;
}

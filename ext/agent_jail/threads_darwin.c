/*
 * threads_darwin.c - a process's threads, as macOS tells of them. Its sandbox belongs to the process: no thread is outside.
 */
#include "jail.h"

#include <libproc.h>
#include <pthread.h>
#include <unistd.h>

bool threads_alone(void)
{
    struct proc_taskinfo info;

    return proc_pidinfo(getpid(), PROC_PIDTASKINFO, 0, &info, (int)sizeof(info)) ==
               (int)sizeof(info) &&
           info.pti_threadnum == 1;
}

bool threads_on_stack(void)
{
    char here;
    uintptr_t top = (uintptr_t)pthread_get_stackaddr_np(pthread_self());

    return (uintptr_t)&here < top &&
           (uintptr_t)&here >= top - pthread_get_stacksize_np(pthread_self());
}

#ifndef AGENT_JAIL_STUB_LIBC_TIME_H
#define AGENT_JAIL_STUB_LIBC_TIME_H

#include <sys/types.h>

struct timespec {
    time_t tv_sec;
    long tv_nsec;
};

typedef enum { CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 6 } clockid_t;

int clock_gettime(clockid_t clock, struct timespec *time);

#endif

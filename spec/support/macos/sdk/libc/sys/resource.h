#ifndef AGENT_JAIL_STUB_LIBC_SYS_RESOURCE_H
#define AGENT_JAIL_STUB_LIBC_SYS_RESOURCE_H

#include <sys/time.h>
#include <sys/types.h>

typedef uint64_t rlim_t;

struct rlimit {
    rlim_t rlim_cur;
    rlim_t rlim_max;
};

#define RLIMIT_CPU 0
#define RLIMIT_FSIZE 1
#define RLIMIT_CORE 4
#define RLIMIT_AS 5
#define RLIMIT_NOFILE 8

struct rusage {
    struct timeval ru_utime;
    struct timeval ru_stime;
    long ru_maxrss;
    long others[13];
};

int getrlimit(int resource, struct rlimit *limit);
int setrlimit(int resource, const struct rlimit *limit);

#endif

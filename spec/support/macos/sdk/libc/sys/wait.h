#ifndef AGENT_JAIL_STUB_LIBC_SYS_WAIT_H
#define AGENT_JAIL_STUB_LIBC_SYS_WAIT_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#define WNOHANG 0x01
#define WEXITED 0x04
#define WNOWAIT 0x20

#define WSTATUS_OF(status) ((status)&0177)
#define WIFEXITED(status) (WSTATUS_OF(status) == 0)
#define WIFSIGNALED(status) (WSTATUS_OF(status) != 0177 && WSTATUS_OF(status) != 0)
#define WEXITSTATUS(status) (((status) >> 8) & 0xff)
#define WTERMSIG(status) WSTATUS_OF(status)

typedef enum { P_ALL, P_PID, P_PGID } idtype_t;

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage);
int waitid(idtype_t type, id_t id, siginfo_t *info, int options);
pid_t waitpid(pid_t pid, int *status, int options);

#endif

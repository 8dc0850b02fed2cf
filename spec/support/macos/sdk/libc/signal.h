#ifndef AGENT_JAIL_STUB_LIBC_SIGNAL_H
#define AGENT_JAIL_STUB_LIBC_SIGNAL_H

#include <sys/types.h>

#define SIGSEGV 11
#define SIGBUS 10
#define SIGKILL 9
#define SIGPIPE 13
#define SIGCHLD 20
#define SIGXFSZ 25
#define SIGVTALRM 26

#define SIG_BLOCK 1
#define SIG_SETMASK 3

typedef uint32_t sigset_t;

typedef struct __siginfo {
    int si_signo;
    int si_errno;
    int si_code;
    pid_t si_pid;
    uid_t si_uid;
    int si_status;
    void *si_addr;
    union {
        int sival_int;
        void *sival_ptr;
    } si_value;
    long si_band;
    unsigned long padding[7];
} siginfo_t;

struct sigaction {
    union {
        void (*__sa_handler)(int);
        void (*__sa_sigaction)(int, siginfo_t *, void *);
    } __sigaction_u;
    sigset_t sa_mask;
    int sa_flags;
};
#define sa_handler __sigaction_u.__sa_handler

#define SIG_DFL ((void (*)(int))0)
#define SIG_IGN ((void (*)(int))1)
#define SIG_ERR ((void (*)(int)) - 1)

int kill(pid_t pid, int signal);
int sigaction(int signal, const struct sigaction *action, struct sigaction *before);
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int sigaddset(sigset_t *set, int signal);
int sigemptyset(sigset_t *set);
int sigfillset(sigset_t *set);
int sigismember(const sigset_t *set, int signal);
int sigpending(sigset_t *set);
int sigwait(const sigset_t *set, int *signal);
void (*signal(int signal, void (*handler)(int)))(int);
int sigprocmask(int how, const sigset_t *set, sigset_t *before);

#endif

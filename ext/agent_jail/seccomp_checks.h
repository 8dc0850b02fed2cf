/*
 * seccomp_checks.h - the labels of the filter: its answers, and its checks of arguments.
 */
#ifndef AGENT_JAIL_SECCOMP_CHECKS_H
#define AGENT_JAIL_SECCOMP_CHECKS_H

#include "bpf.h"

/* Outcomes end the program; checks look at arguments and end in an outcome. */
enum label {
    ALLOW = 1, /* behind BPF_NEXT */
    KILL_PROCESS,
    REFUSE_EPERM,
    REFUSE_EACCES,
    REFUSE_EINVAL,
    REFUSE_ENOSYS,
    REFUSE_EOPNOTSUPP,
    REFUSE_ENETUNREACH,
    REFUSE_EAFNOSUPPORT,
    OUTCOMES,

    CHECK_OPEN = OUTCOMES,
    CHECK_OPENAT,
    CHECK_CREATE,
    CHECK_CREATEAT,
    CHECK_SOCKET,
    CHECK_SOCKETPAIR,
    CHECK_SENDTO,
    CHECK_SENDMSG,
    CHECK_CLONE,
    CHECK_KILL,
    CHECK_SIGNAL_SELF,
    CHECK_SELF,
    CHECK_SETPRIORITY,
    CHECK_IOPRIO,
    CHECK_IOCTL,
    CHECK_FCNTL,
    CHECK_PRCTL,
    CHECK_PERSONALITY,
    CHECKS_END,
};

_Static_assert(CHECKS_END <= BPF_OWN_MAX, "there is room for these labels");

/* The checks that something jumps to, each at its label. */
void seccomp_emit_checks(struct assembler *a);
/* The answers that something jumps to. Nothing may follow. */
void seccomp_emit_answers(struct assembler *a);

#endif

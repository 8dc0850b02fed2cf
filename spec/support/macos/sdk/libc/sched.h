#ifndef AGENT_JAIL_STUB_LIBC_SCHED_H
#define AGENT_JAIL_STUB_LIBC_SCHED_H

int sched_yield(void);

#endif

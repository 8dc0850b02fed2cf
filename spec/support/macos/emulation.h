/*
 * emulation.h - what macOS declares in headers that Linux has too.
 */
#ifndef AGENT_JAIL_EMULATION_H
#define AGENT_JAIL_EMULATION_H

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The resident memory in bytes. */
pid_t emulated_wait4(pid_t pid, int *status, int options, struct rusage *usage);
#define wait4 emulated_wait4

void *pthread_get_stackaddr_np(pthread_t thread);
size_t pthread_get_stacksize_np(pthread_t thread);

#endif

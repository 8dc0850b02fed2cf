#ifndef AGENT_JAIL_STUB_LIBC_PTHREAD_H
#define AGENT_JAIL_STUB_LIBC_PTHREAD_H

#include <signal.h>
#include <sys/types.h>

struct _opaque_pthread_t;
typedef struct _opaque_pthread_t *pthread_t;
typedef struct {
    long signature;
    char opaque[56];
} pthread_attr_t;

#define PTHREAD_CREATE_DETACHED 2

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int pthread_attr_destroy(pthread_attr_t *attributes);
int pthread_attr_init(pthread_attr_t *attributes);
int pthread_attr_setdetachstate(pthread_attr_t *attributes, int state);
int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t size);
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument);
void *pthread_get_stackaddr_np(pthread_t thread);
size_t pthread_get_stacksize_np(pthread_t thread);
pthread_t pthread_self(void);
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);

#endif

#ifndef AGENT_JAIL_STUB_SYSTEM_SYS_EVENT_H
#define AGENT_JAIL_STUB_SYSTEM_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

#define EVFILT_PROC (-5)
#define EV_ADD 0x0001
#define NOTE_EXIT 0x80000000
#define NOTE_EXITSTATUS 0x04000000

#pragma pack(4)
struct kevent {
    uintptr_t ident;
    int16_t filter;
    uint16_t flags;
    uint32_t fflags;
    intptr_t data;
    void *udata;
};
#pragma pack()

#define EV_SET(event, a, b, c, d, e, f)                                                            \
    do {                                                                                           \
        struct kevent *ev_set = (event);                                                           \
        ev_set->ident = (a);                                                                       \
        ev_set->filter = (b);                                                                      \
        ev_set->flags = (c);                                                                       \
        ev_set->fflags = (d);                                                                      \
        ev_set->data = (e);                                                                        \
        ev_set->udata = (f);                                                                       \
    } while (0)

int kqueue(void);
int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *time);

#endif

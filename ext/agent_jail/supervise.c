/*
 * supervise.c - waiting for bytes, the child's end, or a deadline.
 */
#include "jail.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* Without a descriptor for the process its end is looked for this often, in seconds. */
#define LOOK_FOR_END 0.005
/* The CPU clock is read no more often than this. */
#define LOOK_AT_CPU 0.01
/* Where the kernel does not limit memory, it is read no more often than this, */
#define LOOK_AT_MEMORY 0.01
/* and when the rest could be used up at the earliest: no processor takes new memory faster, in bytes per second. */
#define MEMORY_RATE 4e9

/* Takes the bytes that are there. The length that was asked for ends the read, not the end of file. */
static void take(struct supervision *supervision)
{
    while (supervision->got < supervision->length && !supervision->closed) {
        ssize_t taken = read(supervision->result, supervision->buffer + supervision->got,
                             supervision->length - supervision->got);

        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0 && errno == EAGAIN)
            return;
        if (taken <= 0)
            supervision->closed = true;
        else
            supervision->got += (size_t)taken;
    }
}

/*
 * RLIMIT_CPU counts whole seconds, so the child's clock is read here: again when the rest could be used up at the
 * earliest, with every processor busy for it.
 */
static bool cpu_is_used_up(struct supervision *supervision, double now)
{
    double used, rest;

    if (now < supervision->next_look)
        return false;
    used = process_cpu(supervision->pid);
    rest = used < 0 ? supervision->cpu_limit : supervision->cpu_limit - used;
    supervision->next_look = now + rest / supervision->processors;
    if (supervision->next_look < now + LOOK_AT_CPU)
        supervision->next_look = now + LOOK_AT_CPU;
    return rest <= 0;
}

static bool memory_is_used_up(struct supervision *supervision, double now)
{
    double rest;

    if (supervision->footprint == NULL || now < supervision->next_memory_look)
        return false;
    rest = (double)supervision->footprint_limit - (double)supervision->footprint(supervision->pid);
    supervision->next_memory_look = now + rest / MEMORY_RATE / supervision->processors;
    if (supervision->next_memory_look < now + LOOK_AT_MEMORY)
        supervision->next_memory_look = now + LOOK_AT_MEMORY;
    return rest < 0;
}

enum supervise_event supervise_advance(struct supervision *supervision)
{
    bool ended;
    double now;

    take(supervision);
    if (supervision->got == supervision->length)
        return SUPERVISE_DONE;
    ended = process_ended(supervision->pid, supervision->pidfd);
    if (ended) {
        take(supervision); /* what it wrote between the read and its end */
        return supervision->got == supervision->length ? SUPERVISE_DONE : SUPERVISE_ENDED;
    }
    now = process_clock();
    if (now >= supervision->deadline)
        return SUPERVISE_WALL;
    if (memory_is_used_up(supervision, now))
        return SUPERVISE_MEMORY;
    return cpu_is_used_up(supervision, now) ? SUPERVISE_CPU : SUPERVISE_PENDING;
}

double supervise_patience(const struct supervision *supervision)
{
    double until = supervision->deadline < supervision->next_look ? supervision->deadline
                                                                  : supervision->next_look;
    double patience;

    if (supervision->footprint != NULL && supervision->next_memory_look < until)
        until = supervision->next_memory_look;
    patience = until - process_clock();
    if (supervision->pidfd < 0 && patience > LOOK_FOR_END)
        patience = LOOK_FOR_END;
    return patience > 0 ? patience : 0;
}

bool supervise_sleep(const struct supervision *supervision)
{
    struct pollfd watched[] = {
        {.fd = supervision->closed ? -1 : supervision->result, .events = POLLIN},
        {.fd = supervision->pidfd, .events = POLLIN},
        {.fd = -1},
        {.fd = -1},
    };
    double patience = supervise_patience(supervision);
    struct timespec time = {.tv_sec = (time_t)patience};
    int ready;

    for (int i = 0; i < 2; i++)
        watched[2 + i].fd = relay_awaits(&supervision->relays[i], &watched[2 + i].events);
    time.tv_nsec = (long)((patience - (double)time.tv_sec) * 1e9);
    ready = ppoll(watched, sizeof(watched) / sizeof(watched[0]), &time, NULL);
    for (int i = 0; ready > 0 && i < 2; i++)
        if (watched[2 + i].revents != 0)
            relay_pump(&supervision->relays[i]);
    return ready >= 0 || errno != EINTR;
}

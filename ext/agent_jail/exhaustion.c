/*
 * exhaustion.c - whether a child that gives up had any memory left.
 *
 * What gives up for want of memory mostly does not say so: a compiler of the runtime's, or a C library, uses what malloc
 * could not give; Rust, and with it YJIT, and C++ abort. What is left of the address space tells, and only the child can
 * see it: its report then begins with that.
 */
#include "jail.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#define PROBE_MAX ((size_t)2 << 20)

/* In the child. */
static int report = -1;
static size_t probe;
static bool told;

/* malloc gives up when it cannot have 1 MiB more. */
static bool memory_is_out(void)
{
    void *room =
        probe == 0 ? NULL : mmap(NULL, probe, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (room == MAP_FAILED)
        return true;
    if (room != NULL)
        (void)munmap(room, probe);
    return false;
}

void exhaustion_tell(void)
{
    static const char out[] = "[FATAL] out of memory\n";

    if (!told && memory_is_out())
        (void)frame_write(report, out, sizeof(out) - 1); /* else it is a crash like any other */
    told = true;
}

/* The handler is gone by now, so that this ends the process as it would without one. */
static void give_up(int signal)
{
    exhaustion_tell();
    (void)raise(signal);
}

const char *exhaustion_watch(int file, uint64_t headroom)
{
    struct sigaction action = {.sa_handler = give_up, .sa_flags = (int)SA_RESETHAND | SA_ONSTACK};
    struct sigaction present;

    report = file;
    probe = headroom / 2 < PROBE_MAX ? (size_t)(headroom / 2) : PROBE_MAX;
    if (sigemptyset(&action.sa_mask) != 0 || sigaction(SIGABRT, NULL, &present) != 0)
        return "sigaction";
    if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL)
        return NULL; /* the caller's own */
    return sigaction(SIGABRT, &action, NULL) == 0 ? NULL : "sigaction";
}

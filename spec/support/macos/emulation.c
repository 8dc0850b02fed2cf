/*
 * emulation.c - what only macOS has, made of what Linux has, so that the extension's macOS parts can be run on Linux. A
 * sandbox there is not: sandbox.c writes down what one was asked for. Processes, their ends and their memory are real.
 */
#include "emulation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libproc.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <mach/mach_time.h>
#include <mach/mach_vm.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/event.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- kqueue: the pidfd of the one process that it watches ---- */

/* AGENT_JAIL_KQUEUE: "none", or "deaf": there is one, and poll does not take it. */
int kqueue(void)
{
    const char *how = getenv("AGENT_JAIL_KQUEUE");

    if (how != NULL && strcmp(how, "none") == 0) {
        errno = EMFILE;
        return -1;
    }
    return eventfd(0, 0);
}

/* A pipe that nobody reads: poll says so, unasked. */
static int deafen(int queue)
{
    int ends[2];
    int done;

    if (pipe(ends) != 0)
        return -1;
    (void)close(ends[0]);
    done = dup3(ends[1], queue, O_CLOEXEC);
    (void)close(ends[1]);
    return done;
}

static int watch(int queue, const struct kevent *change)
{
    int pidfd, done;

    if (change->filter != EVFILT_PROC || change->flags != EV_ADD ||
        change->fflags != (NOTE_EXIT | NOTE_EXITSTATUS)) {
        errno = ENOTSUP;
        return -1;
    }
    pidfd = (int)syscall(SYS_pidfd_open, change->ident, 0);
    if (pidfd < 0)
        return -1;
    done = getenv("AGENT_JAIL_KQUEUE") != NULL ? deafen(queue) : dup3(pidfd, queue, O_CLOEXEC);
    (void)close(pidfd);
    return done == queue ? 0 : -1;
}

/* The status that the kernel keeps with a pidfd, since Linux 6.15. */
static bool status_of(int pidfd, int *status)
{
    struct {
        uint64_t mask, cgroup;
        uint32_t ids[11];
        int32_t exit_code;
    } information = {.mask = 1u << 3};

    if (ioctl(pidfd, _IOWR(0xFF, 11, information), &information) != 0 ||
        !(information.mask & 1u << 3))
        return false;
    *status = information.exit_code;
    return true;
}

int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *time)
{
    struct pollfd ended = {.fd = queue, .events = POLLIN};
    int status = 0;

    if (change_count == 1)
        return watch(queue, changes);
    if (event_count != 1 || time == NULL || poll(&ended, 1, (int)time->tv_sec * 1000) != 1)
        return 0;
    for (int i = 0; i < 100 && !status_of(queue, &status); i++)
        (void)usleep(1000);
    *events = (struct kevent){
        .filter = EVFILT_PROC, .fflags = NOTE_EXIT | NOTE_EXITSTATUS, .data = status};
    return 1;
}

#undef wait4

pid_t emulated_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    pid_t reaped = wait4(pid, status, options, usage);

    usage->ru_maxrss *= 1024;
    return reaped;
}

/* ---- libproc: from /proc ---- */

static FILE *open_of(int pid, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return fopen(path, "re");
}

/* What a process has to itself: its anonymous pages. */
static uint64_t anonymous(int pid)
{
    FILE *file = open_of(pid, "status");
    char line[256];
    unsigned long long kib = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL && sscanf(line, "RssAnon: %llu", &kib) != 1)
        continue;
    (void)fclose(file);
    return kib * 1024;
}

/* The unit that mach_timebase_info tells is not the nanosecond, as on Apple's own processors. */
int proc_pid_rusage(int pid, int flavor, rusage_info_t *buffer)
{
    struct rusage_info_v0 *info = (struct rusage_info_v0 *)buffer;
    struct timespec time;
    clockid_t clock;

    if (flavor != RUSAGE_INFO_V0 || clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &time) != 0)
        return -1;
    memset(info, 0, sizeof(*info));
    info->ri_user_time = ((uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec) * 3 / 125;
    info->ri_phys_footprint = anonymous(pid);
    return info->ri_phys_footprint == 0 ? -1 : 0;
}

kern_return_t mach_timebase_info(mach_timebase_info_t info)
{
    *info = (struct mach_timebase_info){.numer = 125, .denom = 3};
    return KERN_SUCCESS;
}

static int list_descriptors(struct proc_fdinfo *list, int size)
{
    int count = 0, most = list == NULL ? 1 << 20 : size / (int)sizeof(*list);
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (directory != NULL && count < most && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(directory))
            continue;
        if (list != NULL)
            list[count] = (struct proc_fdinfo){.proc_fd = atoi(entry->d_name)};
        count++;
    }
    if (directory != NULL)
        (void)closedir(directory);
    return (list == NULL ? count + 20 : count) * (int)sizeof(*list);
}

int proc_pidinfo(int pid, int flavor, uint64_t arg, void *buffer, int size)
{
    struct proc_taskinfo *info = buffer;
    char line[256];
    FILE *file;

    (void)arg;
    if (flavor == PROC_PIDLISTFDS && pid == getpid())
        return list_descriptors(buffer, size);
    if (flavor != PROC_PIDTASKINFO || size != (int)sizeof(*info))
        return 0;
    file = open_of(pid, "status");
    if (file == NULL)
        return 0;
    memset(info, 0, sizeof(*info));
    while (fgets(line, sizeof(line), file) != NULL &&
           sscanf(line, "Threads: %d", &info->pti_threadnum) != 1)
        continue;
    (void)fclose(file);
    return size;
}

int proc_listpids(uint32_t type, uint32_t group, void *buffer, int size)
{
    pid_t *pids = buffer;
    int count = 0;

    if (type != PROC_PGRP_ONLY)
        return 0;
    for (int pid = (int)group; pid < (int)group + 64 && count < size / (int)sizeof(*pids); pid++)
        if (getpgid(pid) == (pid_t)group)
            pids[count++] = pid;
    return count * (int)sizeof(*pids);
}

/* ---- Mach's view of memory: from /proc/self/maps ---- */

mach_port_t mach_task_self_ = 42;

kern_return_t mach_vm_region_recurse(vm_map_t task, mach_vm_address_t *address,
                                     mach_vm_size_t *size, natural_t *depth,
                                     vm_region_recurse_info_t buffer, mach_msg_type_number_t *count)
{
    static FILE *file; /* read on: regions are asked for one after the other */
    struct vm_region_submap_info_64 *info = (struct vm_region_submap_info_64 *)buffer;
    char line[1024], permissions[5];
    unsigned long start, end;

    if (*address == 0)
        file = open_of(getpid(), "maps");
    if (task != mach_task_self_ || *depth != 0 || *count != VM_REGION_SUBMAP_INFO_COUNT_64 ||
        file == NULL)
        return KERN_NO_SPACE;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%lx-%lx %4s", &start, &end, permissions) != 3 || end <= *address)
            continue;
        *address = start;
        *size = end - start;
        memset(info, 0, sizeof(*info));
        info->inheritance = permissions[3] == 's' ? VM_INHERIT_SHARE : VM_INHERIT_COPY;
        info->protection = permissions[1] == 'w' ? VM_PROT_READ | VM_PROT_WRITE : VM_PROT_READ;
        info->max_protection = info->protection;
        return KERN_SUCCESS;
    }
    (void)fclose(file);
    return KERN_INVALID_ADDRESS;
}

kern_return_t mach_vm_remap(vm_map_t target, mach_vm_address_t *address, mach_vm_size_t size,
                            mach_vm_offset_t mask, int flags, vm_map_t source,
                            mach_vm_address_t from, boolean_t copy, vm_prot_t *current,
                            vm_prot_t *maximum, vm_inherit_t inheritance)
{
    bool fixed = flags == (VM_FLAGS_FIXED | VM_FLAGS_OVERWRITE);
    void *place = fixed ? (void *)(uintptr_t)*address : NULL;
    void *made;

    if (target != mach_task_self_ || source != mach_task_self_ || mask != 0 || !copy ||
        inheritance != VM_INHERIT_COPY || (!fixed && flags != VM_FLAGS_ANYWHERE))
        return KERN_NO_SPACE;
    made = mmap(place, size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
    if (made == MAP_FAILED)
        return KERN_NO_SPACE;
    memcpy(made, (void *)(uintptr_t)from, size);
    *address = (uintptr_t)made;
    *current = *maximum = VM_PROT_READ | VM_PROT_WRITE;
    return KERN_SUCCESS;
}

kern_return_t mach_vm_deallocate(vm_map_t task, mach_vm_address_t address, mach_vm_size_t size)
{
    return task == mach_task_self_ && munmap((void *)(uintptr_t)address, size) == 0 ? KERN_SUCCESS
                                                                                    : KERN_NO_SPACE;
}

/* ---- threads, and what is loaded ---- */

static void stack_of(pthread_t thread, char **low, size_t *size)
{
    pthread_attr_t attributes;
    void *start = NULL;

    *size = 0;
    if (pthread_getattr_np(thread, &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &start, size);
        (void)pthread_attr_destroy(&attributes);
    }
    *low = start;
}

void *pthread_get_stackaddr_np(pthread_t thread)
{
    char *low;
    size_t size;

    stack_of(thread, &low, &size);
    return low + size;
}

size_t pthread_get_stacksize_np(pthread_t thread)
{
    char *low;
    size_t size;

    stack_of(thread, &low, &size);
    return size;
}

uint32_t _dyld_image_count(void)
{
    return 2;
}

/* The second was taken away since it was counted. */
const char *_dyld_get_image_name(uint32_t index)
{
    return index == 0 ? "/usr/lib/agent_jail_emulated/libruby.dylib" : NULL;
}

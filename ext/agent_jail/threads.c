/*
 * threads.c - every thread of the child is confined, or none is.
 *
 * Landlock, capabilities and no_new_privs belong to a thread. A fork leaves one, but the runtime (Ruby's timer thread,
 * since 3.3), an allocator or a fork hook may have started more before the jail closes, and native code can make such
 * a thread run what it likes by sending it a signal. So each is interrupted by a signal that no thread can block, and
 * confines itself in the handler.
 */
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libc's own signal for making every thread change its ids: libc never lets a mask hold it. */
#define SIGNAL_EVERYWHERE 33
#define THREADS_MAX 64
#define PATIENCE 2.0 /* seconds for one thread to answer */

static struct {
    const char *(*apply)(void *);
    void *argument;
    _Atomic(const char *) failed;
    _Atomic int error;
    _Atomic int answered; /* the thread that answered last */
} order;

static void obey(int signal)
{
    int error = errno;
    const char *failed = order.apply(order.argument);

    (void)signal;
    if (failed != NULL) {
        atomic_store(&order.error, errno);
        atomic_store(&order.failed, failed);
    }
    atomic_store(&order.answered, (int)syscall(SYS_gettid));
    errno = error;
}

/*
 * unshare(CLONE_THREAD) does nothing in a process of one thread and is EINVAL in one of more; where a container's own
 * filter refuses it, /proc counts: a directory of n threads has n + 2 links.
 */
bool threads_alone(void)
{
    struct stat status;

    if (unshare(CLONE_THREAD) == 0)
        return true;
    return errno != EINVAL && stat("/proc/self/task", &status) == 0 && status.st_nlink == 3;
}

/* Below its top, the first thread's stack has this much to itself at least: the kernel maps nothing nearer. */
#define FIRST_STACK ((uintptr_t)128 << 20)

static bool is_between(uintptr_t address, uintptr_t low, uintptr_t high)
{
    return address >= low && address < high;
}

/* Asked of the thread library once: the stack of a thread stays where it is. */
static bool is_on_own_stack(uintptr_t here)
{
    static __thread uintptr_t low, high;
    pthread_attr_t attributes;
    void *start;
    size_t size;

    if (high == 0 && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &start, &size) == 0) {
            low = (uintptr_t)start;
            high = low + size;
        }
        (void)pthread_attr_destroy(&attributes);
    }
    return is_between(here, low, high);
}

bool threads_on_stack(void)
{
    char here;
    uintptr_t top = getauxval(AT_EXECFN); /* lies above the first thread's stack */

    if (syscall(SYS_gettid) == getpid())
        return is_between((uintptr_t)&here, top - FIRST_STACK, top);
    return is_on_own_stack((uintptr_t)&here);
}

/* The kernel's view of a signal action: libc refuses to set its own signals. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
#ifdef __x86_64__
    void (*restorer)(void);
#endif
    uint64_t mask;
};

static bool kernel_action(int signal, const struct kernel_action *set, struct kernel_action *get)
{
    return syscall(SYS_rt_sigaction, signal, set, get, sizeof(uint64_t)) == 0;
}

/* Installs the handler for an ordinary signal through libc, so that libc fills in what it fills in, and copies that. */
static bool install(struct kernel_action *before)
{
    struct sigaction action = {.sa_handler = obey}, old;
    struct kernel_action filled;

    if (sigfillset(&action.sa_mask) != 0 || sigaction(SIGURG, &action, &old) != 0)
        return false;
    if (!kernel_action(SIGURG, NULL, &filled) || sigaction(SIGURG, &old, NULL) != 0)
        return false;
    return kernel_action(SIGNAL_EVERYWHERE, &filled, before);
}

static const char *command(pid_t thread)
{
    double deadline = process_clock() + PATIENCE;

    atomic_store(&order.answered, 0);
    if (syscall(SYS_tgkill, getpid(), thread, SIGNAL_EVERYWHERE) != 0)
        return errno == ESRCH ? NULL : "tgkill"; /* it ended meanwhile */
    while (atomic_load(&order.answered) != thread) {
        if (process_clock() > deadline) {
            errno = ETIMEDOUT;
            return "confining a thread";
        }
        (void)sched_yield();
    }
    errno = atomic_load(&order.error);
    return atomic_load(&order.failed);
}

/* The threads that are confined, this one first. */
struct confined {
    pid_t threads[THREADS_MAX];
    size_t count;
    const char *failed;
};

static bool is_confined(const struct confined *confined, pid_t thread)
{
    for (size_t i = 0; i < confined->count; i++)
        if (confined->threads[i] == thread)
            return true;
    return false;
}

static bool confine_listed(int thread, void *argument)
{
    struct confined *confined = argument;

    if (is_confined(confined, thread))
        return true;
    if (confined->count == THREADS_MAX) {
        errno = E2BIG;
        confined->failed = "confining more threads than there can be";
    } else {
        confined->failed = command(thread);
        confined->threads[confined->count++] = thread;
    }
    return confined->failed == NULL;
}

static const char *command_listed(struct confined *confined)
{
    int list = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *failed;
    int error;

    if (list < 0)
        return "open(/proc/self/task)";
    failed = proc_each_number(list, confine_listed, confined);
    if (failed == NULL)
        failed = confined->failed;
    error = errno;
    (void)close(list);
    errno = error;
    return failed;
}

/* Again and again until a round finds nobody new: a thread that was not confined yet may have started another. */
static const char *command_all(void)
{
    struct confined confined = {.threads = {(pid_t)syscall(SYS_gettid)}, .count = 1};
    size_t before;

    do {
        before = confined.count;
        const char *failed = command_listed(&confined);

        if (failed != NULL)
            return failed;
    } while (confined.count > before);
    return NULL;
}

const char *threads_apply(const char *(*apply)(void *), void *argument)
{
    struct kernel_action before;
    const char *failed;
    int error;

    if (threads_alone())
        return NULL;
    order.apply = apply;
    order.argument = argument;
    if (!install(&before))
        return "rt_sigaction";
    failed = command_all();
    error = errno;
    if (!kernel_action(SIGNAL_EVERYWHERE, &before, NULL) && failed == NULL)
        return "rt_sigaction";
    errno = error;
    return failed;
}

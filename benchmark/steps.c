/*
 * steps.c - times the steps that close a jail, each by itself, in the process that calls it. steps.rb forks one for it.
 *
 * confine_linux.c is included, not linked: which step is which is nobody else's business.
 */
#include "../ext/agent_jail/confine_linux.c"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#define STEPS (sizeof(confine_steps) / sizeof(confine_steps[0]) - 1)

static const struct {
    const char *name;
    confine_step *step;
} names[] = {
    {"check_parent", confine_check_parent}, {"unblock_signals", confine_unblock_signals},
    {"enter_relays", confine_enter_relays}, {"deaden_descriptors", confine_deaden_descriptors},
    {"leave_watch", leave_watch},           {"privatise_mappings", privatise_mappings},
    {"grant_own_proc", grant_own_proc},     {"apply_limits", confine_apply_limits},
    {"confine_threads", confine_threads},   {"close_tools", close_tools},
    {"filter_calls", filter_calls},
};

__attribute__((visibility("default"))) size_t steps_count(void)
{
    return STEPS;
}

/* NULL for a step that this file does not know yet. */
__attribute__((visibility("default"))) const char *steps_name(size_t index)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].step == confine_steps[index])
            return names[i].name;
    return NULL;
}

static bool reserved(int fd)
{
    return fd < 0;
}

static const char *prepare(struct jail *jail, const char *const *paths, const unsigned *access,
                           size_t path_count, const int *keep)
{
    const struct seccomp_options options = {.scoped = true};
    const char *failed = landlock_create(&jail->landlock, false);

    for (size_t i = 0; failed == NULL && i < path_count; i++)
        failed = landlock_grant(&jail->landlock, paths[i], access[i]);
    if (failed != NULL)
        return failed;
    jail->filter = malloc(sizeof(*jail->filter));
    if (jail->filter == NULL)
        return "malloc";
    jail->descriptors.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    jail->descriptors.keep = keep;
    jail->descriptors.keep_count = 2;
    jail->descriptors.reserved = reserved;
    failed = descriptors_list(&jail->descriptors);
    return failed != NULL ? failed : seccomp_build(jail->filter, 0, &options);
}

static double now(void)
{
    struct timespec time;

    return clock_gettime(CLOCK_MONOTONIC, &time) == 0
               ? (double)time.tv_sec + (double)time.tv_nsec / 1e9
               : 0;
}

/* Closes a jail around this process, with `output` left open. The seconds of each step, or the call that failed. */
__attribute__((visibility("default"))) const char *steps_time(const char *const *paths,
                                                              const unsigned *access,
                                                              size_t path_count, int output,
                                                              double *seconds)
{
    int keep[2] = {output, -1};
    struct jail jail = {
        .parent = getppid(),
        .relays = {{.from = -1, .child = -1}, {.from = -1, .child = -1}},
        .limits = {.address_space = 1ULL << 40,
                   .cpu_seconds = 60,
                   .file_size = 1 << 30,
                   .open_files = 1024},
    };
    const char *failed = NULL;

    if (process_enter() != NULL)
        return "process_enter";
    failed = prepare(&jail, paths, access, path_count, keep);
    if (failed == NULL)
        keep[1] = jail.landlock.fd;
    for (size_t i = 0; failed == NULL && i < STEPS; i++) {
        double start = now();

        failed = confine_steps[i](&jail);
        seconds[i] = now() - start;
    }
    return failed;
}

/*
 * run_prepare.c - everything that can be done before the fork.
 */
#include "run.h"

#include <math.h>
#include <unistd.h>

/* ---- reading the options: every key is there, every value has the form that AgentJail::Option gives it ---- */

VALUE run_option(const struct run *run, const char *name)
{
    return rb_hash_fetch(run->options, ID2SYM(rb_intern(name)));
}

static uint64_t number_option(const struct run *run, const char *name)
{
    return NUM2ULL(run_option(run, name));
}

bool run_is_open(const struct run *run, const char *door)
{
    return RTEST(run_option(run, door));
}

static double cpu_timeout(const struct run *run)
{
    VALUE seconds = run_option(run, "cpu_timeout");

    return NUM2DBL(NIL_P(seconds) ? run_option(run, "timeout") : seconds);
}

/* ---- prepare: everything that can be done before the fork ---- */

static bool is_reserved(int fd)
{
    return rb_reserved_fd_p(fd) != 0;
}

/* Where the caller has closed an output, the runtime may have got its number before: that is left alone. */
static void prepare_relay(struct run *run, int fd)
{
    if (!is_reserved(fd))
        run_insist(relay_open(&run->jail.relays[fd - 1], fd, number_option(run, "max_file_mb")),
                   "");
}

static void prepare_relays(struct run *run)
{
    run->supervision.relays = run->jail.relays;
    run->jail.one_output = relay_is_same(STDOUT_FILENO, STDERR_FILENO);
    prepare_relay(run, STDOUT_FILENO);
    if (!run->jail.one_output)
        prepare_relay(run, STDERR_FILENO);
}

static void prepare_descriptors(struct run *run)
{
    VALUE inherit = run_option(run, "inherit");
    size_t count = 0;

    run_insist(report_open(&run->report), "");
    run->keep = ALLOC_N(int, (size_t)RARRAY_LEN(inherit) + 5);
    run->keep[count++] = run->result[1];
    run->keep[count++] = run->report;
    if (run->jail.landlock.fd >= 0)
        run->keep[count++] = run->jail.landlock.fd;
    for (long i = 0; i < RARRAY_LEN(inherit); i++)
        run->keep[count++] = NUM2INT(rb_funcall(RARRAY_AREF(inherit, i), rb_intern("fileno"), 0));
    run->jail.descriptors.keep = run->keep;
    run->jail.descriptors.keep_count = count;
    run->jail.descriptors.reserved = is_reserved;
    run_insist(descriptors_list(&run->jail.descriptors), "");
    run->hooks = run->jail.descriptors;
    for (int i = 0; i < 2; i++) /* the child's standard output is put there after the hooks */
        if (run->jail.relays[i].child >= 0)
            run->keep[run->hooks.keep_count++] = run->jail.relays[i].child;
}

/* Seconds after the parent that the kernel ends a block for its CPU time: before it does, the parent sees what else has
 * run out. */
#define KERNEL_LATER 0.5

static void prepare_limits(struct run *run)
{
    struct limits *limits = &run->jail.limits;

    limits->cpu_seconds = (uint64_t)ceil(cpu_timeout(run) + KERNEL_LATER);
    limits->file_size = number_option(run, "max_file_mb");
    limits->open_files = (uint64_t)descriptors_limit(&run->jail.descriptors,
                                                     (int)number_option(run, "max_open_files"));
    limits->headroom = number_option(run, "memory_mb");
    run_prepare_memory(run);
}

void run_prepare(struct run *run)
{
    struct supervision *supervision = &run->supervision;

    run->max_result = number_option(run, "max_result_mb");
    run->jail.parent = getpid();
    run->jail.watched = run_is_open(run, "processes");
    /* the first that is opened: it fills the standard streams */
    run_insist(descriptors_open_null(&run->jail.descriptors.null), "/dev/null");
    run_insist(descriptors_pipe(run->result), "");
    run_prepare_walls(run);
    prepare_relays(run);
    prepare_descriptors(run);
    prepare_limits(run);
    supervision->result = run->result[0];
    supervision->deadline = run->started + NUM2DBL(run_option(run, "timeout"));
    supervision->cpu_limit = cpu_timeout(run);
    supervision->processors = run_constants.processors;
}

/*
 * run_prepare.c - everything that can be done before the fork.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
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

static void prepare_pipe(struct run *run)
{
    if (pipe2(run->result, O_CLOEXEC) != 0)
        run_fail_call("pipe2", "");
    if (fcntl(run->result[0], F_SETFL, O_NONBLOCK) != 0)
        run_fail_call("fcntl", "O_NONBLOCK");
}

/* A path that the caller named must exist. */
static void grant_named(const struct run *run, const char *name, unsigned access)
{
    VALUE paths = run_option(run, name);

    if (run_is_open(run, "processes"))
        access |= LANDLOCK_EXECUTE;
    for (long i = 0; i < RARRAY_LEN(paths); i++) {
        VALUE path = RARRAY_AREF(paths, i);
        const char *failed = landlock_grant(&run->jail.landlock, StringValueCStr(path), access);

        if (failed != NULL)
            rb_syserr_fail_str(errno, rb_sprintf("%s: %" PRIsVALUE " (%s)", name, path, failed));
    }
}

static bool is_not_there(int error)
{
    return error == ENOENT || error == EACCES || error == ENOTDIR || error == ELOOP;
}

void run_grant_system(const struct run *run)
{
    for (long i = 0; i < RARRAY_LEN(run->system_grants); i++) {
        VALUE grant = RARRAY_AREF(run->system_grants, i);
        VALUE path = RARRAY_AREF(grant, 0);
        const char *failed = landlock_grant(&run->jail.landlock, StringValueCStr(path),
                                            NUM2UINT(RARRAY_AREF(grant, 1)));

        if (failed != NULL && !is_not_there(errno))
            run_fail_call(failed, RSTRING_PTR(path));
    }
}

static void prepare_landlock(struct run *run)
{
    const char *failed = landlock_create(&run->jail.landlock, run_is_open(run, "network"));

    if (failed != NULL)
        run_fail_call(failed, "");
    grant_named(run, "fs_allow", LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_DEVICE);
    grant_named(run, "fs_read_allow", LANDLOCK_READ);
}

/* One filter for each combination of what it depends on, built when it is first wanted. */
static struct seccomp_program *filter_for(const struct seccomp_options *options)
{
    static struct seccomp_program *filters[8];
    int index = options->network | options->processes << 1 | options->scoped << 2;
    const char *failed;

    if (filters[index] != NULL)
        return filters[index];
    struct seccomp_program *filter = ALLOC(struct seccomp_program);
    failed = seccomp_build(filter, 0, options);
    if (failed != NULL) {
        int error = errno;

        xfree(filter);
        errno = error;
        run_fail_call(failed, "");
    }
    return filters[index] = filter;
}

static void prepare_filter(struct run *run)
{
    struct seccomp_options options = {
        .network = run_is_open(run, "network"),
        .processes = run_is_open(run, "processes"),
        .scoped = run->jail.landlock.signals,
    };

    static int available = -1; /* it does not change while the kernel runs */

    if (available < 0)
        available = seccomp_available();
    run->jail.filter = available ? filter_for(&options) : NULL;
}

static void prepare_relay(struct run *run, int fd)
{
    const char *failed = relay_open(&run->jail.relays[fd - 1], fd);

    if (failed != NULL)
        run_fail_call(failed, "");
}

static void prepare_relays(struct run *run)
{
    run->supervision.relays = run->jail.relays;
    run->jail.one_output = relay_is_same(STDOUT_FILENO, STDERR_FILENO);
    prepare_relay(run, STDOUT_FILENO);
    if (!run->jail.one_output)
        prepare_relay(run, STDERR_FILENO);
}

static bool is_reserved(int fd)
{
    return rb_reserved_fd_p(fd) != 0;
}

static void prepare_descriptors(struct run *run)
{
    VALUE inherit = run_option(run, "inherit");
    const char *failed;
    size_t count = 0;

    run->report = report_open();
    if (run->report < 0)
        run_fail_call("memfd_create", "");
    run->jail.descriptors.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (run->jail.descriptors.null < 0)
        run_fail_call("open", "/dev/null");
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
    failed = descriptors_list(&run->jail.descriptors);
    if (failed != NULL)
        run_fail_call(failed, "");
    run->hooks = run->jail.descriptors;
    for (int i = 0; i < 2; i++) /* the child's standard output is put there after the hooks */
        if (run->jail.relays[i].child >= 0)
            run->keep[run->hooks.keep_count++] = run->jail.relays[i].child;
}

static void prepare_limits(struct run *run)
{
    struct limits *limits = &run->jail.limits;
    uint64_t inherited = proc_address_space();

    limits->cpu_seconds = (uint64_t)ceil(cpu_timeout(run));
    limits->file_size = number_option(run, "max_file_mb");
    limits->open_files = (uint64_t)descriptors_limit(&run->jail.descriptors,
                                                     (int)number_option(run, "max_open_files"));
    if (inherited == 0)
        run_fail_call("read", "/proc/self/statm");
    limits->headroom = number_option(run, "memory_mb");
    limits->address_space = inherited + limits->headroom;
}

void run_prepare(struct run *run)
{
    struct supervision *supervision = &run->supervision;

    run->max_result = number_option(run, "max_result_mb");
    run->jail.parent = getpid();
    run->jail.watched = run_is_open(run, "processes");
    prepare_pipe(run);
    prepare_landlock(run);
    prepare_filter(run);
    prepare_relays(run);
    prepare_descriptors(run);
    prepare_limits(run);
    supervision->result = run->result[0];
    supervision->deadline = run->started + NUM2DBL(run_option(run, "timeout"));
    supervision->cpu_limit = cpu_timeout(run);
    supervision->processors = run_constants.processors;
}

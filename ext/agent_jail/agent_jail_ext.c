/*
 * agent_jail_ext.c - the story of a run: prepare, fork, confine, block, supervise, conclude.
 *
 * The only file that knows Ruby. What it gets from lib/ is validated and plain; what it gives back is an outcome,
 * [kind, payload, usage], which lib/ turns into a value or an exception. The plain-C parts are in jail.h.
 */
#include <ruby.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/thread.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "jail.h"

#define REAP_PATIENCE                                                                              \
    10.0 /* seconds; a killed process is gone in milliseconds unless the kernel is stuck */
#define ANSWERED_PATIENCE                                                                          \
    0.002                   /* seconds; the child of a large parent takes longer to be taken down */
#define SCHEDULED_LOOK 0.05 /* seconds */
#define REFUSAL_MAX 4096    /* bytes of words in a frame that refuses the value */
#define CRASH_REPORT_MAX (64 << 10)
#define RAISED_MAX (4 << 20) /* bytes of an exception's strings */

enum fork_states {
    STATE_RETURN = 1,
    STATE_BREAK,
    STATE_NEXT,
    STATE_RETRY,
    STATE_REDO,
    STATE_RAISE,
    STATE_THROW,
    STATE_FATAL
};

/* How far the block has come: the same exception means another thing later. */
enum block_stage { STAGE_BLOCK, STAGE_DUMP, STAGE_DONE };

struct run {
    VALUE options, system_grants;
    struct jail jail;
    int *keep; /* what jail.descriptors.keep points to */
    struct supervision supervision;
    int result[2]; /* the pipe: [0] the parent's, [1] the child's */
    double started;
    size_t max_result;
    int report;    /* see report.c */
    bool answered; /* there is a value: how the child ends tells nothing more */
    pid_t child;   /* 0: none, or none any more */
    struct process_end end;
    enum block_stage stage; /* in the child */
    VALUE dump, exception;  /* in the child */
    VALUE result_io;        /* result[0] as an IO, where a fiber scheduler wants one */
    struct frame_header header;
    VALUE body; /* a String of header.length bytes */
};

static int processors;               /* of this machine */
static VALUE own_stdout, own_stderr; /* STDOUT and STDERR */
static VALUE encodings;              /* names of those that are built in */
static VALUE mReport;                /* AgentJail::Report, which puts exceptions into strings */
static ID id_pack, id_left, id_fork, id_list, id_kill, id_join, id_status, id_fileno, id_message;

/* ---- reading the options: every key is there, every value has the form that AgentJail::Option gives it ---- */

static VALUE option(const struct run *run, const char *name)
{
    return rb_hash_fetch(run->options, ID2SYM(rb_intern(name)));
}

static uint64_t number_option(const struct run *run, const char *name)
{
    return NUM2ULL(option(run, name));
}

static bool is_open(const struct run *run, const char *door)
{
    return RTEST(option(run, door));
}

static double cpu_timeout(const struct run *run)
{
    VALUE seconds = option(run, "cpu_timeout");

    return NUM2DBL(NIL_P(seconds) ? option(run, "timeout") : seconds);
}

/* ---- prepare: everything that can be done before the fork ---- */

static void fail_call(const char *call, const char *subject)
{
    VALUE what = rb_sprintf("%s%s%s%s", call, *subject ? "(" : "", subject, *subject ? ")" : "");

    rb_syserr_fail_str(errno, what);
}

static void prepare_pipe(struct run *run)
{
    if (pipe2(run->result, O_CLOEXEC) != 0)
        fail_call("pipe2", "");
    if (fcntl(run->result[0], F_SETFL, O_NONBLOCK) != 0)
        fail_call("fcntl", "O_NONBLOCK");
}

/* A path that the caller named must exist. */
static void grant_named(const struct run *run, const char *name, unsigned access)
{
    VALUE paths = option(run, name);

    if (is_open(run, "processes"))
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

/* System paths are granted where they exist. */
static void grant_system(const struct run *run)
{
    for (long i = 0; i < RARRAY_LEN(run->system_grants); i++) {
        VALUE grant = RARRAY_AREF(run->system_grants, i);
        VALUE path = RARRAY_AREF(grant, 0);
        const char *failed = landlock_grant(&run->jail.landlock, StringValueCStr(path),
                                            NUM2UINT(RARRAY_AREF(grant, 1)));

        if (failed != NULL && !is_not_there(errno))
            fail_call(failed, RSTRING_PTR(path));
    }
}

static void prepare_landlock(struct run *run)
{
    const char *failed = landlock_create(&run->jail.landlock, is_open(run, "network"));

    if (failed != NULL)
        fail_call(failed, "");
    grant_named(run, "fs_allow", LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_DEVICE);
    grant_named(run, "fs_read_allow", LANDLOCK_READ);
    grant_system(run);
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
        fail_call(failed, "");
    }
    return filters[index] = filter;
}

static void prepare_filter(struct run *run)
{
    struct seccomp_options options = {
        .network = is_open(run, "network"),
        .processes = is_open(run, "processes"),
        .scoped = run->jail.landlock.signals,
    };

    run->jail.filter = seccomp_available() ? filter_for(&options) : NULL;
}

static bool is_reserved(int fd)
{
    return rb_reserved_fd_p(fd) != 0;
}

static void prepare_descriptors(struct run *run)
{
    VALUE inherit = option(run, "inherit");
    const char *failed;
    size_t count = 0;

    run->report = report_open();
    if (run->report < 0)
        fail_call("memfd_create", "");
    run->jail.descriptors.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (run->jail.descriptors.null < 0)
        fail_call("open", "/dev/null");
    run->keep = ALLOC_N(int, (size_t)RARRAY_LEN(inherit) + 3);
    run->keep[count++] = run->result[1];
    run->keep[count++] = run->report;
    if (run->jail.landlock.fd >= 0)
        run->keep[count++] = run->jail.landlock.fd;
    for (long i = 0; i < RARRAY_LEN(inherit); i++)
        run->keep[count++] = NUM2INT(rb_funcall(RARRAY_AREF(inherit, i), id_fileno, 0));
    run->jail.descriptors.keep = run->keep;
    run->jail.descriptors.keep_count = count;
    run->jail.descriptors.reserved = is_reserved;
    failed = descriptors_list(&run->jail.descriptors);
    if (failed != NULL)
        fail_call(failed, "");
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
        rb_raise(rb_eRuntimeError,
                 "/proc/self/statm cannot be read, so memory_mb cannot be counted beyond it");
    limits->address_space = inherited + number_option(run, "memory_mb");
}

static void prepare(struct run *run)
{
    struct supervision *supervision = &run->supervision;

    run->max_result = number_option(run, "max_result_mb");
    run->jail.parent = getpid();
    prepare_pipe(run);
    prepare_landlock(run);
    prepare_filter(run);
    prepare_descriptors(run);
    prepare_limits(run);
    supervision->result = run->result[0];
    supervision->deadline = run->started + NUM2DBL(option(run, "timeout"));
    supervision->cpu_limit = cpu_timeout(run);
    supervision->processors = processors;
}

/* Flushes an IO, whatever state it is in. */
static void flush(VALUE io)
{
    int state;

    rb_protect(rb_io_flush, io, &state);
    rb_set_errinfo(Qnil);
}

/* STDOUT and STDERR where $stdout and $stderr are others: Ruby's own fork flushes only these. */
static void flush_replaced(void)
{
    if (rb_stdout != own_stdout)
        flush(own_stdout);
    if (rb_stderr != own_stderr)
        flush(own_stderr);
}

/* ---- the child: confine, block, report. Nothing here returns to the caller's frames ---- */

__attribute__((noreturn)) static void leave(const struct run *run, enum frame_kind kind, VALUE body)
{
    bool sent = NIL_P(body) ? frame_send(run->result[1], kind, "", 0)
                            : frame_send(run->result[1], kind, RSTRING_PTR(body),
                                         (size_t)RSTRING_LEN(body));

    _exit(sent ? 0 : 1);
}

static void flush_output(void)
{
    crash_flush();
    flush(rb_stdout);
    flush(rb_stderr);
    flush_replaced();
}

/* The exception that was raised, or nil when the block was left by break, throw, return or Thread#kill. */
static VALUE raised(int state)
{
    /* in the other states rb_errinfo() is nothing that may be touched */
    VALUE error = state == STATE_RAISE || state == STATE_FATAL ? rb_errinfo() : Qnil;

    rb_set_errinfo(Qnil);
    return RTEST(rb_obj_is_kind_of(error, rb_eException)) ? error : Qnil;
}

static VALUE describe(VALUE argument)
{
    struct run *run = (struct run *)argument;

    return rb_funcall(mReport, id_pack, 3, run->exception, run->options,
                      run->stage == STAGE_DUMP ? Qtrue : Qfalse);
}

static VALUE describe_leaving(VALUE state)
{
    return rb_funcall(mReport, id_left, 1, state);
}

static VALUE exit_status(VALUE exception)
{
    return rb_funcall(exception, id_status, 0);
}

__attribute__((noreturn)) static void leave_raised(struct run *run, VALUE exception, int state)
{
    VALUE body;
    int failed;

    if (RTEST(rb_obj_is_kind_of(exception, rb_eNoMemError)))
        leave(run, FRAME_MEMORY, Qnil);
    if (RTEST(rb_obj_is_kind_of(exception, rb_eSystemExit))) {
        VALUE status = rb_protect(exit_status, exception, &failed);
        _exit(failed == 0 && FIXNUM_P(status) ? FIX2INT(status) : 1);
    }
    run->exception = exception;
    body = NIL_P(exception) ? rb_protect(describe_leaving, INT2FIX(state), &failed)
                            : rb_protect(describe, (VALUE)run, &failed);
    if (failed == 0)
        leave(run, FRAME_RAISED, body);
    leave(run,
          RTEST(rb_obj_is_kind_of(raised(failed), rb_eNoMemError)) ? FRAME_MEMORY : FRAME_RAISED,
          Qnil);
}

/*
 * The dump of nil, true, false and a small Integer, or nil for all else. Marshal.dump makes the same; but a fork pays
 * for every page that it touches first, and Marshal's tables are most of what such a block would touch.
 */
static VALUE dump_simple(VALUE value)
{
    char bytes[4] = {4, 8};
    long length = 3;

    if (NIL_P(value)) {
        bytes[2] = '0';
    } else if (value == Qtrue || value == Qfalse) {
        bytes[2] = value == Qtrue ? 'T' : 'F';
    } else if (FIXNUM_P(value) && FIX2LONG(value) >= 0 && FIX2LONG(value) < 123) {
        bytes[2] = 'i';
        bytes[3] = (char)(FIX2LONG(value) == 0 ? 0 : FIX2LONG(value) + 5);
        length = 4;
    } else {
        return Qnil;
    }
    return rb_str_new(bytes, length);
}

static VALUE block_and_dump(VALUE argument)
{
    struct run *run = (struct run *)argument;
    VALUE value = rb_yield_values(0);

    flush_output();
    run->stage = STAGE_DUMP;
    run->dump = dump_simple(value);
    if (NIL_P(run->dump))
        run->dump = rb_marshal_dump(value, Qnil);
    return Qnil;
}

__attribute__((noreturn)) static void leave_too_large(const struct run *run)
{
    char words[128];
    int length =
        snprintf(words, sizeof(words), "the value's dump has %ld bytes", RSTRING_LEN(run->dump));

    _exit(frame_send(run->result[1], FRAME_REFUSED, words, (size_t)length) ? 0 : 1);
}

__attribute__((noreturn)) static void run_block(struct run *run)
{
    int state;

    rb_protect(block_and_dump, (VALUE)run, &state);
    if (state != 0) {
        VALUE exception = raised(state);

        if (run->stage == STAGE_BLOCK)
            flush_output();
        leave_raised(run, exception, state);
    }
    if ((size_t)RSTRING_LEN(run->dump) > run->max_result)
        leave_too_large(run);
    leave(run, FRAME_VALUE, run->dump);
}

/* A thread that a fork hook started would go on outside the jail: it was there before the jail closed. */
static VALUE stop_other_threads(VALUE unused)
{
    VALUE threads = rb_funcall(rb_cThread, id_list, 0);

    (void)unused;
    for (long i = 0; i < RARRAY_LEN(threads); i++) {
        VALUE thread = RARRAY_AREF(threads, i);

        if (thread == rb_thread_current())
            continue;
        rb_funcall(thread, id_kill, 0);
        rb_funcall(thread, id_join, 0);
    }
    return Qnil;
}

static VALUE words_of(VALUE exception)
{
    return rb_sprintf("%" PRIsVALUE ": %" PRIsVALUE, rb_obj_class(exception), exception);
}

/* What Ruby raised while the jail was being set up, told to the parent. */
__attribute__((noreturn)) static void fail_raised(struct run *run, const char *step, int state)
{
    VALUE exception = raised(state);
    int failed;
    VALUE words = NIL_P(exception) ? Qnil : rb_protect(words_of, exception, &failed);

    if (NIL_P(exception) || failed != 0)
        report_fail(run->report, step, 0, "an exception that cannot be described");
    rb_str_cat(words, "", 1);
    report_fail(run->report, step, 0, RSTRING_PTR(words));
}

__attribute__((noreturn)) static void be_the_child(struct run *run, int fork_state)
{
    const char *failed;
    int state = 0;

    if (fork_state != 0)
        fail_raised(run, "a Process._fork hook", fork_state);
    if (!threads_alone())
        rb_protect(stop_other_threads, Qnil, &state);
    if (state != 0)
        fail_raised(run, "stopping the threads of a fork hook", state);
    failed = confine(&run->jail);
    if (failed != NULL)
        report_fail(run->report, failed, errno, "");
    failed = report_confined(run->report);
    if (failed != NULL)
        report_fail(run->report, failed, errno, "");
    crash_capture(run->report);
    run_block(run);
}

/* ---- fork ---- */

static VALUE call_fork(VALUE unused)
{
    (void)unused;
    return rb_funcall(rb_mProcess, id_fork, 0);
}

/*
 * Through Process.fork, so that every library's fork hook runs. Who is who is told by getpid(): a hook may raise on
 * either side. The report knows the child even then.
 */
static void fork_child(struct run *run)
{
    int state;
    flush_replaced();
    process_announce(run->report);
    VALUE child = rb_protect(call_fork, Qnil, &state);

    if (getpid() != run->jail.parent)
        be_the_child(run, state);
    run->child = process_child(run->report, state == 0 ? NUM2PIDT(child) : 0);
    if (state != 0)
        rb_jump_tag(state);
}

/* ---- supervise: until the frame is whole, the child has ended, or a limit is reached ---- */

static void *supervise_without_gvl(void *argument)
{
    struct supervision *supervision = argument;
    enum supervise_event event;

    while ((event = supervise_advance(supervision)) == SUPERVISE_PENDING)
        if (!supervise_sleep(supervision))
            break; /* a signal: Ruby looks for interrupts and calls again */
    return (void *)(uintptr_t)event;
}

static enum supervise_event receive_blocking(struct run *run)
{
    enum supervise_event event;

    do {
        event = (enum supervise_event)(uintptr_t)rb_thread_call_without_gvl(
            supervise_without_gvl, &run->supervision, RUBY_UBF_IO, NULL);
    } while (event == SUPERVISE_PENDING);
    return event;
}

/* Under a fiber scheduler other fibers go on meanwhile: it watches the pipe, and the clocks are looked at in between. */
static enum supervise_event receive_scheduled(struct run *run, VALUE scheduler)
{
    enum supervise_event event;

    if (NIL_P(run->result_io)) {
        run->result_io = rb_io_fdopen(run->result[0], O_RDONLY, "agent_jail result");
        run->result[0] = -1; /* it is the IO's to close, so that the scheduler hears of it */
    }
    while ((event = supervise_advance(&run->supervision)) == SUPERVISE_PENDING) {
        double patience = supervise_patience(&run->supervision);

        /* a program may hold the pipe when the child has ended, and then the pipe does not tell */
        if (patience > SCHEDULED_LOOK && is_open(run, "processes"))
            patience = SCHEDULED_LOOK;
        rb_fiber_scheduler_io_wait(scheduler, run->result_io, INT2FIX(RUBY_IO_READABLE),
                                   DBL2NUM(patience));
    }
    return event;
}

static enum supervise_event receive(struct run *run, char *buffer, size_t length)
{
    VALUE scheduler = rb_fiber_scheduler_current();

    run->supervision.buffer = buffer;
    run->supervision.length = length;
    run->supervision.got = 0;
    return NIL_P(scheduler) ? receive_blocking(run) : receive_scheduled(run, scheduler);
}

static size_t longest_body(const struct run *run)
{
    switch (run->header.kind) {
    case FRAME_VALUE:
        return run->max_result;
    case FRAME_RAISED:
        return RAISED_MAX;
    case FRAME_REFUSED:
        return REFUSAL_MAX;
    default:
        return 0;
    }
}

static bool header_is_sound(const struct run *run)
{
    return run->header.magic == FRAME_MAGIC && run->header.kind >= FRAME_VALUE &&
           run->header.kind <= FRAME_MEMORY;
}

/* A String big enough never to be embedded: what it holds does not move while the GVL is released. */
static VALUE buffer_of(size_t length)
{
    return rb_str_buf_new((long)(length < 4096 ? 4096 : length));
}

static VALUE outcome(const struct run *run, const char *kind, VALUE payload)
{
    VALUE end = run->end.known ? rb_ary_new_from_args(2, INT2FIX(run->end.signal),
                                                      INT2FIX(run->end.exit_status))
                               : Qnil;
    VALUE cpu = run->end.cpu < 0 ? Qnil : DBL2NUM(run->end.cpu);
    VALUE rss = run->end.max_rss_kb < 0 ? Qnil : LONG2NUM(run->end.max_rss_kb);

    return rb_ary_new_from_args(
        4, ID2SYM(rb_intern(kind)), payload, end,
        rb_ary_new_from_args(3, DBL2NUM(process_clock() - run->started), cpu, rss));
}

/* ---- conclude: the true cause ---- */

struct reaping {
    struct run *run;
    bool behind; /* a child that takes long to be taken down need not be waited for */
    bool done;
};

static void *reap_without_gvl(void *argument)
{
    struct reaping *reaping = argument;
    struct run *run = reaping->run;
    double patience = reaping->behind ? ANSWERED_PATIENCE : REAP_PATIENCE;

    if (!process_reap(run->child, run->supervision.pidfd, patience, &run->end) &&
        !(reaping->behind && process_reap_behind(run->child)))
        process_reap_later(run->child);
    reaping->done = true;
    return NULL;
}

/* Kills the child and all that it started, and reaps it. Raises nothing, so that it can be part of an ensure. */
static void end_child(struct run *run)
{
    struct reaping reaping = {.run = run};

    if (run->child == 0)
        return;
    reaping.behind = run->answered && !is_open(run, "processes");
    process_kill_tree(run->child, run->supervision.pidfd);
    rb_thread_call_without_gvl2(reap_without_gvl, &reaping, NULL, NULL);
    if (!reaping.done) /* an interrupt is pending, and Ruby would rather look at that first */
        reap_without_gvl(&reaping);
    run->child = 0;
}

/* nil when there was no crash. */
static VALUE crash_report(const struct run *run)
{
    VALUE text = rb_str_buf_new(CRASH_REPORT_MAX);
    size_t length = crash_read(run->report, RSTRING_PTR(text), CRASH_REPORT_MAX);

    rb_str_set_len(text, (long)length);
    return length == 0 ? Qnil : text;
}

static VALUE conclude_ended(struct run *run)
{
    struct report_failure failure = {.call = "the child",
                                     .detail = "it ended before the jail was closed"};

    if (report_read(run->report, &failure) == REPORT_CONFINED)
        return outcome(run, "ended", crash_report(run));
    return outcome(run, "setup",
                   rb_ary_new_from_args(3, rb_str_new_cstr(failure.call), INT2FIX(failure.error),
                                        rb_str_new_cstr(failure.detail)));
}

static VALUE conclude_without_frame(struct run *run, enum supervise_event event)
{
    end_child(run);
    switch (event) {
    case SUPERVISE_WALL:
        return outcome(run, "wall", Qnil);
    case SUPERVISE_CPU:
        return outcome(run, "cpu", Qnil);
    default:
        return conclude_ended(run);
    }
}

static VALUE refused(struct run *run, const char *words)
{
    end_child(run);
    return outcome(run, "refused", rb_str_new_cstr(words));
}

static VALUE check_value(struct run *run);

static VALUE conclude_frame(struct run *run)
{
    process_kill_tree(run->child, run->supervision.pidfd);
    if (run->header.kind == FRAME_VALUE)
        return check_value(run); /* while the child is dying */
    end_child(run);
    switch (run->header.kind) {
    case FRAME_RAISED:
        return outcome(run, "raised", run->body);
    case FRAME_REFUSED:
        return outcome(run, "refused", run->body);
    default:
        return outcome(run, "memory", Qnil);
    }
}

static VALUE supervise(struct run *run)
{
    enum supervise_event event = receive(run, (char *)&run->header, sizeof(run->header));

    if (event != SUPERVISE_DONE)
        return conclude_without_frame(run, event);
    if (!header_is_sound(run))
        return refused(run, "the frame is not one that the jail sends");
    if (run->header.length > longest_body(run))
        return refused(run, "the frame announces more bytes than are allowed");
    run->body = buffer_of(run->header.length);
    event = receive(run, RSTRING_PTR(run->body), run->header.length);
    if (event != SUPERVISE_DONE)
        return conclude_without_frame(run, event);
    rb_str_set_len(run->body, (long)run->header.length);
    return conclude_frame(run);
}

/* ---- the gate ---- */

static struct result_permit *read_permits(VALUE permits, VALUE *holder)
{
    struct result_permit *read =
        rb_alloc_tmp_buffer2(holder, RARRAY_LEN(permits) + 1, sizeof(*read));

    for (long i = 0; i < RARRAY_LEN(permits); i++) {
        VALUE permit = RARRAY_AREF(permits, i);
        VALUE name = RARRAY_AREF(permit, 0);

        read[i].name = StringValueCStr(name);
        read[i].length = (size_t)RSTRING_LEN(name);
        read[i].forms = NUM2UINT(RARRAY_AREF(permit, 1));
    }
    return read;
}

static const char **read_names(VALUE names, VALUE *holder)
{
    const char **read = rb_alloc_tmp_buffer2(holder, RARRAY_LEN(names) + 1, sizeof(*read));

    for (long i = 0; i < RARRAY_LEN(names); i++) {
        VALUE name = RARRAY_AREF(names, i);
        read[i] = StringValueCStr(name);
    }
    return read;
}

/* nil when the gate accepts the bytes, else why not. */
static VALUE refusal(VALUE bytes, VALUE permits, VALUE encodings)
{
    VALUE permits_holder, encodings_holder;
    struct result_refusal why;
    struct result_policy policy = {
        .permits = read_permits(permits, &permits_holder),
        .permit_count = (size_t)RARRAY_LEN(permits),
        .encodings = read_names(encodings, &encodings_holder),
        .encoding_count = (size_t)RARRAY_LEN(encodings),
    };
    bool accepted = result_check((const uint8_t *)RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes),
                                 &policy, &why);

    rb_free_tmp_buffer(&permits_holder);
    rb_free_tmp_buffer(&encodings_holder);
    RB_GC_GUARD(permits);
    RB_GC_GUARD(encodings);
    RB_GC_GUARD(bytes);
    return accepted ? Qnil : rb_str_new_cstr(why.reason);
}

/* The counterpart of dump_simple; Qundef for all else. */
static VALUE load_simple(VALUE dump)
{
    const char *bytes = RSTRING_PTR(dump);

    if (RSTRING_LEN(dump) == 3 && bytes[2] == '0')
        return Qnil;
    if (RSTRING_LEN(dump) == 3 && (bytes[2] == 'T' || bytes[2] == 'F'))
        return bytes[2] == 'T' ? Qtrue : Qfalse;
    if (RSTRING_LEN(dump) == 4 && bytes[2] == 'i' && bytes[3] == 0)
        return INT2FIX(0);
    if (RSTRING_LEN(dump) == 4 && bytes[2] == 'i' && bytes[3] > 5)
        return INT2FIX(bytes[3] - 5);
    return Qundef;
}

static bool is_marshals(VALUE error)
{
    const VALUE classes[] = {rb_eTypeError, rb_eArgError,  rb_eRangeError,    rb_eZeroDivError,
                             rb_eEOFError,  rb_eNameError, rb_eEncodingError, rb_eFrozenError};

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (RTEST(rb_obj_is_kind_of(error, classes[i])))
            return true;
    return false;
}

static VALUE load_dump(VALUE dump)
{
    return rb_marshal_load(dump);
}

/* Only what the gate let through comes here. What Marshal raises all the same is a result that cannot be had; an
 * interrupt of this thread is none of the result's business and goes on. */
static VALUE load(struct run *run)
{
    VALUE error, value = load_simple(run->body);
    int state = 0;

    if (value == Qundef)
        value = rb_protect(load_dump, run->body, &state);
    run->answered = state == 0;
    if (state == 0)
        return rb_assoc_new(ID2SYM(rb_intern("value")), value);
    error = rb_errinfo();
    if (state != STATE_RAISE || !is_marshals(error))
        rb_jump_tag(state);
    rb_set_errinfo(Qnil);
    end_child(run);
    return outcome(
        run, "unloadable",
        rb_assoc_new(rb_class_name(rb_obj_class(error)), rb_funcall(error, id_message, 0)));
}

static VALUE check_value(struct run *run)
{
    VALUE why = refusal(run->body, option(run, "permitted_classes"), encodings);

    return NIL_P(why) ? load(run) : outcome(run, "refused", why);
}

/* ---- the story ---- */

static void close_descriptor(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static VALUE story(VALUE argument)
{
    struct run *run = (struct run *)argument;

    prepare(run);
    fork_child(run);
    close_descriptor(&run->result[1]);
    run->supervision.pid = run->child;
    run->supervision.pidfd = process_open(run->child);
    return supervise(run);
}

static VALUE clean_up(VALUE argument)
{
    struct run *run = (struct run *)argument;

    end_child(run);
    if (!NIL_P(run->result_io))
        rb_io_close(run->result_io);
    close_descriptor(&run->result[0]);
    close_descriptor(&run->result[1]);
    close_descriptor(&run->supervision.pidfd);
    close_descriptor(&run->report);
    close_descriptor(&run->jail.landlock.fd);
    close_descriptor(&run->jail.descriptors.null);
    free(run->jail.descriptors.open);
    xfree(run->keep);
    return Qnil;
}

/*
 * call-seq: Native.run(options, system_grants) { ... } -> [:value, value] or [kind, payload, end, usage]
 *
 * Runs the block in a jail. `options` are those of AgentJail::Configuration#resolve.
 */
static VALUE native_run(VALUE self, VALUE options, VALUE system_grants)
{
    struct run run = {
        .options = options,
        .system_grants = system_grants,
        .started = process_clock(),
        .result = {-1, -1},
        .report = -1,
        .supervision = {.pidfd = -1},
        .jail = {.landlock = {.fd = -1}, .descriptors = {.null = -1}},
        .result_io = Qnil,
        .body = Qnil,
        .dump = Qnil,
        .exception = Qnil,
    };

    (void)self;
    process_reap_left();
    return rb_ensure(story, (VALUE)&run, clean_up, (VALUE)&run);
}

/* call-seq: Native.refusal(bytes, permits, encodings) -> nil or a String that says why the gate refuses the bytes */
static VALUE native_refusal(VALUE self, VALUE bytes, VALUE permits, VALUE encodings)
{
    (void)self;
    Check_Type(bytes, T_STRING);
    Check_Type(permits, T_ARRAY);
    Check_Type(encodings, T_ARRAY);
    return refusal(bytes, permits, encodings);
}

/* call-seq: Native.landlock_abi -> Integer, 0 when the kernel has none */
static VALUE native_landlock_abi(VALUE self)
{
    (void)self;
    return INT2FIX(landlock_abi());
}

/* call-seq: Native.enforcement -> { mechanism => true or false }, as this kernel answers */
static VALUE native_enforcement(VALUE self)
{
    VALUE answers = rb_hash_new();
    int pidfd = process_open(getpid());

    (void)self;
    rb_hash_aset(answers, ID2SYM(rb_intern("seccomp")), seccomp_available() ? Qtrue : Qfalse);
    rb_hash_aset(answers, ID2SYM(rb_intern("pidfd")), pidfd >= 0 ? Qtrue : Qfalse);
    rb_hash_aset(answers, ID2SYM(rb_intern("address_space")),
                 proc_address_space() != 0 ? Qtrue : Qfalse);
    close_descriptor(&pidfd);
    return answers;
}

/* call-seq: Native.erase_environment -> nil. In the child: what the process was started with is nobody's business. */
static VALUE native_erase_environment(VALUE self)
{
    char *start, *end;

    (void)self;
    if (proc_environment(&start, &end))
        memset(start, 0, (size_t)(end - start));
    return Qnil;
}

struct tree {
    const char *path, *failed;
    int error;
};

static void *remove_without_gvl(void *argument)
{
    struct tree *tree = argument;

    tree->failed = tree_remove(tree->path);
    tree->error = errno;
    return NULL;
}

/* call-seq: Native.remove_tree(path) -> nil */
static VALUE native_remove_tree(VALUE self, VALUE path)
{
    struct tree tree = {.path = StringValueCStr(path)};

    (void)self;
    rb_thread_call_without_gvl(remove_without_gvl, &tree, NULL, NULL);
    if (tree.failed != NULL)
        rb_syserr_fail_str(tree.error, rb_sprintf("%s(%" PRIsVALUE ")", tree.failed, path));
    return Qnil;
}

static uint32_t audit_arch_of(VALUE name)
{
    if (strcmp(StringValueCStr(name), "x86_64") == 0)
        return AUDIT_ARCH_X86_64;
    if (strcmp(StringValueCStr(name), "aarch64") == 0)
        return AUDIT_ARCH_AARCH64;
    rb_raise(rb_eArgError, "no filter for %" PRIsVALUE, name);
}

/* call-seq: Native.filter(arch, network, processes, scoped) -> [instructions, patched indices] */
static VALUE native_filter(VALUE self, VALUE arch, VALUE network, VALUE processes, VALUE scoped)
{
    struct seccomp_options options = {
        .network = RTEST(network), .processes = RTEST(processes), .scoped = RTEST(scoped)};
    struct seccomp_program program;
    const char *failed = seccomp_build(&program, audit_arch_of(arch), &options);
    VALUE patches = rb_ary_new();

    (void)self;
    if (failed != NULL)
        fail_call(failed, "");
    for (int i = 0; i < program.patch_count; i++)
        rb_ary_push(patches, INT2FIX(program.patches[i]));
    return rb_assoc_new(rb_str_new((const char *)program.instructions,
                                   program.length * (long)sizeof(program.instructions[0])),
                        patches);
}

/* call-seq: Native.syscalls(arch) -> [[number, name, verdict], ...], sorted by number */
static VALUE native_syscalls(VALUE self, VALUE arch)
{
    uint32_t audit_arch = audit_arch_of(arch);
    VALUE rows = rb_ary_new();
    size_t count;
    const struct seccomp_row *row = seccomp_table(&count);

    (void)self;
    for (; count > 0; count--, row++)
        if (seccomp_number(row, audit_arch) >= 0)
            rb_ary_push(rows,
                        rb_ary_new_from_args(3, INT2FIX(seccomp_number(row, audit_arch)),
                                             rb_str_new_cstr(row->name),
                                             rb_str_new_cstr(seccomp_verdict_name(row->verdict))));
    return rb_ary_sort_bang(rows);
}

RUBY_FUNC_EXPORTED void Init_agent_jail_ext(void);

void Init_agent_jail_ext(void)
{
    VALUE mAgentJail = rb_define_module("AgentJail");
    VALUE mNative = rb_define_module_under(mAgentJail, "Native");
    const char *failed = process_install_fork_handlers();

    if (failed == NULL)
        failed = crash_install();
    if (failed != NULL)
        fail_call(failed, "");
    mReport = rb_const_get(mAgentJail, rb_intern("Report"));
    rb_gc_register_mark_object(mReport);
    id_pack = rb_intern("pack");
    id_left = rb_intern("left");
    id_fork = rb_intern("fork");
    id_list = rb_intern("list");
    id_kill = rb_intern("kill");
    id_join = rb_intern("join");
    id_status = rb_intern("status");
    id_fileno = rb_intern("fileno");
    id_message = rb_intern("message");
    encodings = rb_const_get(mReport, rb_intern("ENCODINGS"));
    rb_gc_register_mark_object(encodings);
    own_stdout = rb_const_get(rb_cObject, rb_intern("STDOUT"));
    own_stderr = rb_const_get(rb_cObject, rb_intern("STDERR"));
    rb_gc_register_mark_object(own_stdout);
    rb_gc_register_mark_object(own_stderr);
    processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 1)
        processors = 1;
    rb_define_singleton_method(mNative, "run", native_run, 2);
    rb_define_singleton_method(mNative, "refusal", native_refusal, 3);
    rb_define_singleton_method(mNative, "enforcement", native_enforcement, 0);
    rb_define_singleton_method(mNative, "erase_environment", native_erase_environment, 0);
    rb_define_singleton_method(mNative, "remove_tree", native_remove_tree, 1);
    rb_define_singleton_method(mNative, "filter", native_filter, 4);
    rb_define_singleton_method(mNative, "syscalls", native_syscalls, 1);
    rb_define_singleton_method(mNative, "landlock_abi", native_landlock_abi, 0);
}

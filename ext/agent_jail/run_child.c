/*
 * run_child.c - the child: confine, block, report. Nothing here returns to the caller's frames.
 */
#include "run.h"

#include <ruby/io.h>

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Flushes an IO, whatever state it is in. */
static void flush(VALUE io)
{
    int state;

    rb_protect(rb_io_flush, io, &state);
    rb_set_errinfo(Qnil);
}

/* STDOUT and STDERR where $stdout and $stderr are others: Ruby's own fork flushes only these. */
void run_flush_replaced(void)
{
    if (rb_stdout != run_constants.own_stdout)
        flush(run_constants.own_stdout);
    if (rb_stderr != run_constants.own_stderr)
        flush(run_constants.own_stderr);
}

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
    run_flush_replaced();
}

/* The exception that was raised, or nil when the block was left by break, throw, return or Thread#kill. */
static VALUE raised(int state)
{
    /* in the other states rb_errinfo() is nothing that may be touched */
    VALUE error = state == RUN_STATE_RAISE || state == RUN_STATE_FATAL ? rb_errinfo() : Qnil;

    rb_set_errinfo(Qnil);
    return RTEST(rb_obj_is_kind_of(error, rb_eException)) ? error : Qnil;
}

static VALUE describe(VALUE argument)
{
    struct run *run = (struct run *)argument;

    return rb_funcall(run_constants.report, rb_intern("pack"), 3, run->exception, run->options,
                      run->stage == RUN_STAGE_DUMP ? Qtrue : Qfalse);
}

static VALUE describe_leaving(VALUE state)
{
    return rb_funcall(run_constants.report, rb_intern("left"), 1, state);
}

static VALUE exit_status(VALUE exception)
{
    return rb_funcall(exception, rb_intern("status"), 0);
}

__attribute__((noreturn)) static void leave_raised(struct run *run, VALUE exception, int state)
{
    VALUE body;
    int failed;

    if (RTEST(rb_obj_is_kind_of(exception, rb_eNoMemError)))
        leave(run, FRAME_MEMORY, Qnil);
    if (RTEST(rb_obj_is_kind_of(exception, rb_eSystemExit))) {
        VALUE status = rb_protect(exit_status, exception, &failed);
        _exit(failed == 0 && FIXNUM_P(status) ? (int)(FIX2LONG(status) & 0xff) : 1);
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

static VALUE block_and_dump(VALUE argument)
{
    struct run *run = (struct run *)argument;
    VALUE value = rb_yield_values(0);

    flush_output();
    run->stage = RUN_STAGE_DUMP;
    run->dump = value_dump_simple(value);
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

        if (run->stage == RUN_STAGE_BLOCK)
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
    VALUE threads = rb_funcall(rb_cThread, rb_intern("list"), 0);

    (void)unused;
    for (long i = 0; i < RARRAY_LEN(threads); i++) {
        VALUE thread = RARRAY_AREF(threads, i);

        if (thread == rb_thread_current())
            continue;
        rb_funcall(thread, rb_intern("kill"), 0);
        rb_funcall(thread, rb_intern("join"), 0);
    }
    return Qnil;
}

/* With the NUL that ends a string in C. */
static VALUE words_of(VALUE exception)
{
    VALUE words = rb_sprintf("%" PRIsVALUE ": %" PRIsVALUE, rb_obj_class(exception), exception);

    return rb_str_cat(words, "", 1);
}

/* What Ruby raised while the jail was being set up, told to the parent. */
__attribute__((noreturn)) static void fail_raised(struct run *run, const char *step, int state)
{
    VALUE exception = raised(state);
    int failed;
    VALUE words = NIL_P(exception) ? Qnil : rb_protect(words_of, exception, &failed);

    if (NIL_P(exception) || failed != 0)
        report_fail(run->report, step, 0, "an exception that cannot be described");
    report_fail(run->report, step, 0, RSTRING_PTR(words));
}

/* Ends the child, with the call that failed for a reason, unless there is none. */
static void insist(const struct run *run, const char *failed)
{
    if (failed != NULL)
        report_fail(run->report, failed, errno, run->jail.why);
}

void run_child(struct run *run, int fork_state)
{
    int state = 0;

    if (getpgrp() != getpid()) { /* the fork itself did not know whose it was */
        report_start(run->report);
        insist(run, process_enter());
    }
    if (fork_state != 0)
        fail_raised(run, "a Process._fork hook", fork_state);
    if (!threads_alone())
        rb_protect(stop_other_threads, Qnil, &state);
    if (state != 0)
        fail_raised(run, "stopping the threads of a fork hook", state);
    report_await_release(run->report);
    insist(run, confine(&run->jail));
    insist(run, exhaustion_watch(run->report, run->jail.limits.headroom));
    insist(run, report_confined(run->report));
    crash_capture(run->report);
    run_constants.jailed = true;
    run_block(run);
}

/*
 * run_supervise.c - the parent, until the frame is whole, the child has ended, or a limit is reached; then the true
 * cause.
 */
#include "run.h"

#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/thread.h>

#include <fcntl.h>

/* Seconds. A killed process is gone in milliseconds unless the kernel is stuck. */
#define REAP_PATIENCE 10.0
/* Seconds. The child of a large parent takes longer to be taken down. */
#define ANSWERED_PATIENCE 0.002
/* Seconds between two looks at what a scheduler cannot watch. */
#define SCHEDULED_LOOK 0.05

/* Bytes of the frames that hold no value. */
#define REFUSAL_MAX 4096
#define RAISED_MAX (4 << 20)

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

static bool has_relay(const struct run *run)
{
    return run->jail.relays[0].from >= 0 || run->jail.relays[1].from >= 0;
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
        double patience;

        relay_pump(&run->jail.relays[0]);
        relay_pump(&run->jail.relays[1]);
        patience = supervise_patience(&run->supervision);
        /* a program may hold the pipe when the child has ended, and then the pipe does not tell */
        if (patience > SCHEDULED_LOOK && (run_is_open(run, "processes") || has_relay(run)))
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

VALUE run_outcome(const struct run *run, const char *kind, VALUE payload)
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
void run_end_child(struct run *run)
{
    struct reaping reaping = {.run = run};

    if (run->child == 0)
        return;
    reaping.behind = run->answered && !run_is_open(run, "processes") && !run_is_open(run, "tmpdir");
    process_kill_tree(run->child, run->supervision.pidfd);
    rb_thread_call_without_gvl2(reap_without_gvl, &reaping, NULL, NULL);
    if (!reaping.done) /* an interrupt is pending, and Ruby would rather look at that first */
        reap_without_gvl(&reaping);
    run->child = 0;
}

/* nil when there was no crash. */
static VALUE crash_report(const struct run *run)
{
    VALUE text = rb_str_buf_new(REPORT_LENGTH);
    size_t length = report_crash(run->report, RSTRING_PTR(text), REPORT_LENGTH);

    rb_str_set_len(text, (long)length);
    return length == 0 ? Qnil : text;
}

static VALUE conclude_ended(struct run *run)
{
    struct report_failure failure = {.call = "the child",
                                     .detail = "it ended before the jail was closed"};

    if (report_read(run->report, &failure) == REPORT_CONFINED)
        return run_outcome(run, "ended", crash_report(run));
    return run_outcome(run, "setup",
                       rb_ary_new_from_args(3, rb_str_new_cstr(failure.call),
                                            INT2FIX(failure.error),
                                            rb_str_new_cstr(failure.detail)));
}

static VALUE conclude_without_frame(struct run *run, enum supervise_event event)
{
    if ((event == SUPERVISE_WALL || event == SUPERVISE_CPU) && run_memory_is_out(run))
        event = SUPERVISE_MEMORY;
    run_end_child(run);
    switch (event) {
    case SUPERVISE_WALL:
        return run_outcome(run, "wall", Qnil);
    case SUPERVISE_CPU:
        return run_outcome(run, "cpu", Qnil);
    case SUPERVISE_MEMORY:
        return run_outcome(run, "memory", Qnil);
    default:
        return conclude_ended(run);
    }
}

static VALUE refused(struct run *run, const char *words)
{
    run_end_child(run);
    return run_outcome(run, "refused", rb_str_new_cstr(words));
}

static VALUE conclude_frame(struct run *run)
{
    if (run->header.kind == FRAME_VALUE) {
        process_kill_tree(run->child, run->supervision.pidfd);
        return value_take(run); /* while the child is dying */
    }
    run_end_child(run);
    switch (run->header.kind) {
    case FRAME_RAISED:
        return run_outcome(run, "raised", run->body);
    case FRAME_REFUSED:
        return run_outcome(run, "refused", run->body);
    default:
        return run_outcome(run, "memory", Qnil);
    }
}

VALUE run_supervise(struct run *run)
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

/*
 * agent_jail_ext.c - the story of a run: prepare, fork, confine, block, supervise, conclude.
 *
 * What the extension gets from lib/ is validated and plain; what it gives back is a value or an outcome,
 * [kind, payload, end, usage], of which lib/ makes an exception. The files that know Ruby share run.h; the plain-C
 * parts, one kernel concept each, are in jail.h.
 */
#include "run.h"

#include <ruby/io.h>
#include <ruby/thread.h>

#include <errno.h>
#include <unistd.h>

/* How long the output may take for what a block that has ended printed last, in seconds. */
#define LAST_WORDS_PATIENCE 0.2

struct run_constants run_constants;

void run_fail_call(const char *call, const char *subject)
{
    VALUE what = rb_sprintf("%s%s%s%s", call, *subject ? "(" : "", subject, *subject ? ")" : "");

    rb_exc_raise(
        rb_funcall(run_constants.setup_error, rb_intern("preparing"), 2, what, INT2FIX(errno)));
}

void run_insist(const char *failed, const char *subject)
{
    if (failed != NULL)
        run_fail_call(failed, subject);
}

/* ---- fork ---- */

/* Asked in every fork of this process, also one by a thread that is not Ruby's. */
static const void *current_thread(void)
{
    return ruby_native_thread_p() ? (const void *)rb_thread_current() : NULL;
}

static VALUE call_fork(VALUE unused)
{
    (void)unused;
    return rb_funcall(rb_mProcess, rb_intern("fork"), 0);
}

/*
 * Through Process.fork, so that every library's fork hook runs. Who is who is told by getpid(): a hook may raise on
 * either side. The report knows the child even then.
 */
static void fork_child(struct run *run)
{
    struct process_fork fork;
    VALUE child;
    int state;

    run_flush_replaced();
    process_announce(&fork, run->report, &run->hooks);
    child = rb_protect(call_fork, Qnil, &state);
    if (getpid() != run->jail.parent)
        run_child(run, state);
    run->child = process_child(&fork, state == 0 ? NUM2PIDT(child) : 0);
    if (state != 0)
        rb_jump_tag(state);
}

/* ---- the story ---- */

static VALUE story(VALUE argument)
{
    struct run *run = (struct run *)argument;

    run_prepare(run);
    fork_child(run);
    descriptors_close(&run->result[1]);
    relay_forked(&run->jail.relays[0]);
    relay_forked(&run->jail.relays[1]);
    run->supervision.pid = run->child;
    run->supervision.pidfd = process_open(run->child);
    run_finish_walls(run);
    run_insist(report_release(run->report), "");
    return run_supervise(run);
}

struct last_words {
    struct relay *relays;
    double deadline;
};

static void *close_relays(void *argument)
{
    const struct last_words *words = argument;

    relay_close(&words->relays[0], words->deadline);
    relay_close(&words->relays[1], words->deadline);
    return NULL;
}

static VALUE wait_for_relays(VALUE argument)
{
    rb_thread_call_without_gvl(close_relays, (void *)argument, RUBY_UBF_IO, NULL);
    return Qnil;
}

/* Other threads go on meanwhile. An interrupt of this one ends the waiting, and is for the end of the cleaning up. */
static int end_relays(struct run *run)
{
    struct last_words words = {run->jail.relays, process_clock() + LAST_WORDS_PATIENCE};
    int state = 0;

    if (words.relays[0].from >= 0 || words.relays[1].from >= 0)
        rb_protect(wait_for_relays, (VALUE)&words, &state);
    words.deadline = 0;
    close_relays(&words);
    return state;
}

static VALUE clean_up(VALUE argument)
{
    struct run *run = (struct run *)argument;
    int interrupted;

    /* the child never comes here; should it, it must not go on in the caller's code */
    if (getpid() != run->jail.parent && run->jail.parent != 0)
        _exit(1);
    run_end_child(run);
    interrupted = end_relays(run);
    if (!NIL_P(run->result_io))
        rb_io_close(run->result_io);
    descriptors_close(&run->result[0]);
    descriptors_close(&run->result[1]);
    descriptors_close(&run->supervision.pidfd);
    descriptors_close(&run->report);
    descriptors_close(&run->jail.landlock.fd);
    descriptors_close(&run->jail.descriptors.null);
    free(run->jail.descriptors.open);
    free(run->jail.seatbelt);
    xfree(run->keep);
    if (interrupted != 0)
        rb_jump_tag(interrupted);
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
        .jail = {.landlock = {.fd = -1},
                 .descriptors = {.null = -1},
                 .relays = {{.from = -1, .child = -1, .own = -1},
                            {.from = -1, .child = -1, .own = -1}}},
        .result_io = Qnil,
        .body = Qnil,
        .dump = Qnil,
        .exception = Qnil,
    };

    (void)self;
    if (run_constants.jailed)
        return run_outcome(&run, "setup",
                           rb_ary_new_from_args(3, rb_str_new_cstr("AgentJail.run"), INT2FIX(0),
                                                rb_str_new_cstr("there is no jail inside a jail")));
    process_reap_left();
    return rb_ensure(story, (VALUE)&run, clean_up, (VALUE)&run);
}

/* ---- what lib/ and the specs ask beside it ---- */

/* call-seq: Native.refusal(bytes, permits, encodings) -> nil or a String that says why the gate refuses the bytes */
static VALUE native_refusal(VALUE self, VALUE bytes, VALUE permits, VALUE encodings)
{
    const char **names;
    VALUE holder, why;

    (void)self;
    Check_Type(bytes, T_STRING);
    Check_Type(permits, T_ARRAY);
    Check_Type(encodings, T_ARRAY);
    names = rb_alloc_tmp_buffer2(&holder, RARRAY_LEN(encodings) + 1, sizeof(*names));
    value_read_names(encodings, names);
    why = value_refusal(bytes, permits, names, (size_t)RARRAY_LEN(encodings));
    rb_free_tmp_buffer(&holder);
    RB_GC_GUARD(encodings);
    return why;
}

/* call-seq: Native.fiber? -> true when called in another fiber than its thread's first */
static VALUE native_fiber_p(VALUE self)
{
    (void)self;
    return threads_on_stack() ? Qfalse : Qtrue;
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

static VALUE constant(VALUE module, const char *name)
{
    VALUE value = rb_const_get(module, rb_intern(name));

    rb_gc_register_mark_object(value);
    return value;
}

static void look_up_constants(VALUE mAgentJail)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    VALUE encodings;

    run_constants.processors = processors < 1 ? 1 : (int)processors;
    run_constants.own_stdout = constant(rb_cObject, "STDOUT");
    run_constants.own_stderr = constant(rb_cObject, "STDERR");
    run_constants.report = constant(mAgentJail, "Report");
    run_constants.setup_error = constant(mAgentJail, "SetupError");
    encodings = constant(run_constants.report, "ENCODINGS");
    run_constants.encoding_count = (size_t)RARRAY_LEN(encodings);
    run_constants.encodings = ALLOC_N(const char *, run_constants.encoding_count);
    value_read_names(encodings, run_constants.encodings);
}

RUBY_FUNC_EXPORTED void Init_agent_jail_ext(void);

void Init_agent_jail_ext(void)
{
    VALUE mAgentJail = rb_define_module("AgentJail");
    VALUE mNative = rb_define_module_under(mAgentJail, "Native");

    run_insist(process_install_fork_handlers(current_thread), "");
    run_insist(crash_install(), "");
    look_up_constants(mAgentJail);
    rb_define_singleton_method(mNative, "run", native_run, 2);
    rb_define_singleton_method(mNative, "refusal", native_refusal, 3);
    rb_define_singleton_method(mNative, "fiber?", native_fiber_p, 0);
    rb_define_singleton_method(mNative, "erase_environment", native_erase_environment, 0);
    rb_define_singleton_method(mNative, "remove_tree", native_remove_tree, 1);
    run_define_walls(mNative);
}

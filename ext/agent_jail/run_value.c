/*
 * run_value.c - how the block's value crosses: dumped in the child, let through by the gate, loaded in the parent.
 */
#include "run.h"

/*
 * The dump of nil, true, false and a small Integer, or nil for all else. Marshal.dump makes the same; but a fork pays
 * for every page that it touches first, and Marshal's tables are most of what such a block would touch.
 */
VALUE value_dump_simple(VALUE value)
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

void value_read_names(VALUE names, const char **read)
{
    for (long i = 0; i < RARRAY_LEN(names); i++) {
        VALUE name = RARRAY_AREF(names, i);
        read[i] = StringValueCStr(name);
    }
}

VALUE value_refusal(VALUE bytes, VALUE permits, const char *const *encodings, size_t encoding_count)
{
    VALUE holder;
    struct result_refusal why;
    struct result_policy policy = {
        .permits = read_permits(permits, &holder),
        .permit_count = (size_t)RARRAY_LEN(permits),
        .encodings = encodings,
        .encoding_count = encoding_count,
    };
    bool accepted = result_check((const uint8_t *)RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes),
                                 &policy, &why);

    rb_free_tmp_buffer(&holder);
    RB_GC_GUARD(permits);
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

/* Timeout::Error, or nil where nobody has loaded it. */
static VALUE timeout_error(void)
{
    ID timeout = rb_intern("Timeout");

    if (!rb_const_defined(rb_cObject, timeout))
        return Qnil;
    return rb_const_get(rb_const_get(rb_cObject, timeout), rb_intern("Error"));
}

/* An error of the loading itself, a permitted class's own code included. */
static bool is_marshals(VALUE error)
{
    VALUE timeout = timeout_error();

    return RTEST(rb_obj_is_kind_of(error, rb_eStandardError)) &&
           (NIL_P(timeout) || !RTEST(rb_obj_is_kind_of(error, timeout)));
}

struct loading {
    VALUE dump, value, error; /* error: nil when there is a value */
};

static VALUE load_dump(VALUE dump)
{
    return rb_marshal_load(dump);
}

/* Called as a block. What is no error of the loading goes on. */
static VALUE load_protected(RB_BLOCK_CALL_FUNC_ARGLIST(unused, argument))
{
    struct loading *loading = (struct loading *)argument;
    int state;

    (void)unused, (void)argc, (void)argv, (void)blockarg;
    loading->value = rb_protect(load_dump, loading->dump, &state);
    if (state == 0)
        return Qnil;
    loading->error = rb_errinfo();
    if (state != RUN_STATE_RAISE || !is_marshals(loading->error))
        rb_jump_tag(state);
    rb_set_errinfo(Qnil);
    return Qnil;
}

/*
 * A permitted class's code can be interrupted, and what Thread#raise then raises looks like an error of its own. So what
 * could be mistaken for one waits until the loading is over.
 */
static void load_undisturbed(struct loading *loading)
{
    VALUE timeout = timeout_error(), mask = rb_hash_new();

    rb_hash_aset(mask, rb_eStandardError, ID2SYM(rb_intern("never")));
    if (!NIL_P(timeout))
        rb_hash_aset(mask, timeout, ID2SYM(rb_intern("immediate")));
    rb_block_call(rb_cThread, rb_intern("handle_interrupt"), 1, &mask, load_protected,
                  (VALUE)loading);
}

/* Only what the gate let through comes here. What Marshal raises all the same is a result that cannot be had; an
 * interrupt of this thread is none of the result's business and goes on. */
static VALUE load(struct run *run)
{
    struct loading loading = {.dump = run->body, .value = load_simple(run->body), .error = Qnil};
    VALUE error;

    if (loading.value == Qundef) {
        loading.value = Qnil;
        load_undisturbed(&loading);
    }
    error = loading.error;
    run->answered = NIL_P(error);
    if (run->answered)
        return rb_assoc_new(ID2SYM(rb_intern("value")), loading.value);
    run_end_child(run);
    return run_outcome(run, "unloadable",
                       rb_assoc_new(rb_class_name(rb_obj_class(error)),
                                    rb_funcall(error, rb_intern("message"), 0)));
}

VALUE value_take(struct run *run)
{
    VALUE why = value_refusal(run->body, run_option(run, "permitted_classes"),
                              run_constants.encodings, run_constants.encoding_count);

    if (NIL_P(why))
        return load(run);
    run_end_child(run);
    return run_outcome(run, "refused", why);
}

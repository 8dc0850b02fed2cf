/*
 * run_walls.c - the paths of the options, granted by whatever walls the platform has.
 */
#include "run.h"

#include <errno.h>

static VALUE sorted(VALUE paths)
{
    return rb_funcall(rb_Array(paths), rb_intern("sort"), 0);
}

void run_grant_named(const struct run *run, const char *name, unsigned access)
{
    VALUE paths = sorted(run_option(run, name));

    if (run_is_open(run, "processes"))
        access |= GRANT_EXECUTE;
    for (long i = RARRAY_LEN(paths) - 1; i >= 0; i--) {
        VALUE path = RARRAY_AREF(paths, i);
        const char *failed = run_grant(run, StringValueCStr(path), access);

        if (failed != NULL)
            rb_syserr_fail_str(errno, rb_sprintf("%s: %" PRIsVALUE " (%s)", name, path, failed));
    }
}

void run_grant_system(const struct run *run)
{
    for (long i = 0; i < RARRAY_LEN(run->system_grants); i++) {
        VALUE grant = RARRAY_AREF(run->system_grants, i);
        VALUE path = RARRAY_AREF(grant, 0);
        const char *failed = run_grant(run, StringValueCStr(path), NUM2UINT(RARRAY_AREF(grant, 1)));

        if (failed != NULL && !run_grant_is_spared(errno))
            run_fail_call(failed, RSTRING_PTR(path));
    }
}

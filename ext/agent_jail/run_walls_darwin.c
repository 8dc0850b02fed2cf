/*
 * run_walls_darwin.c - the walls of a jail on macOS, from the options: the sandbox's profile, and the watch over memory.
 */
#include "run.h"

#include <errno.h>
#include <limits.h>
#include <mach-o/dyld.h>
#include <unistd.h>

const char *run_grant(const struct run *run, const char *path, unsigned access)
{
    return seatbelt_grant(run->jail.seatbelt, path, access);
}

/* EINVAL: it cannot be named, so it is not granted. */
bool run_grant_is_spared(int error)
{
    return error == ENOENT || error == EACCES || error == ENOTDIR || error == ELOOP ||
           error == EINVAL;
}

static void see_working_directory(struct seatbelt *seatbelt)
{
    char path[PATH_MAX];

    if (getcwd(path, sizeof(path)) != NULL)
        (void)seatbelt_see(seatbelt, path); /* where it cannot be, it cannot be looked at */
}

void run_prepare_walls(struct run *run)
{
    struct seatbelt_options options = {
        .network = run_is_open(run, "network"),
        .processes = run_is_open(run, "processes"),
    };

    run->jail.seatbelt = seatbelt_create(&options);
    if (run->jail.seatbelt == NULL)
        run_fail_call("malloc", "");
    run_grant_system(run);
    run_grant_named(run, "fs_read_allow", GRANT_READ);
    if (run_is_open(run, "tmpdir"))
        run_grant_named(run, "tmpdir", GRANT_READ | GRANT_WRITE | GRANT_ITSELF);
    run_grant_named(run, "fs_allow", GRANT_READ | GRANT_WRITE);
    see_working_directory(run->jail.seatbelt);
    run_insist(seatbelt_finish(run->jail.seatbelt), "");
}

/* The profile was finished before the fork: it is text. */
void run_finish_walls(const struct run *run)
{
    (void)run;
}

/* A child may come to have all that it inherited beside what it takes, page by page as it touches them. */
void run_prepare_memory(struct run *run)
{
    uint64_t inherited = process_footprint(getpid());

    if (inherited == 0)
        run_fail_call("proc_pid_rusage", "");
    run->supervision.footprint = process_group_footprint;
    run->supervision.footprint_limit = inherited + run->jail.limits.headroom;
}

/* The watch over it would have ended the child. */
bool run_memory_is_out(const struct run *run)
{
    (void)run;
    return false;
}

/* ---- what lib/ and the specs ask of them ---- */

/* call-seq: Native.enforcement -> { mechanism => true or false }, as this system answers */
static VALUE native_enforcement(VALUE self)
{
    VALUE answers = rb_hash_new();

    (void)self;
    rb_hash_aset(answers, ID2SYM(rb_intern("seatbelt")), seatbelt_available() ? Qtrue : Qfalse);
    rb_hash_aset(answers, ID2SYM(rb_intern("footprint")),
                 process_footprint(getpid()) != 0 ? Qtrue : Qfalse);
    return answers;
}

/* call-seq: Native.libraries -> paths of what is loaded into this process */
static VALUE native_libraries(VALUE self)
{
    VALUE paths = rb_ary_new();

    (void)self;
    for (uint32_t i = 0; i < _dyld_image_count(); i++) {
        const char *path = _dyld_get_image_name(i);

        if (path != NULL)
            rb_ary_push(paths, rb_str_new_cstr(path));
    }
    return paths;
}

void run_define_walls(VALUE mNative)
{
    rb_define_singleton_method(mNative, "enforcement", native_enforcement, 0);
    rb_define_singleton_method(mNative, "libraries", native_libraries, 0);
}

/*
 * run_walls_linux.c - the walls of a jail on Linux, from the options: Landlock's ruleset, the filter, the address space.
 */
#include "run.h"

#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *run_grant(const struct run *run, const char *path, unsigned access)
{
    return landlock_grant(&run->jail.landlock, path, access);
}

bool run_grant_is_spared(int error)
{
    return error == ENOENT || error == EACCES || error == ENOTDIR || error == ELOOP;
}

void run_finish_walls(const struct run *run)
{
    run_grant_system(run);
}

static void prepare_landlock(struct run *run)
{
    run_insist(landlock_create(&run->jail.landlock, run_is_open(run, "network")), "");
    run_grant_named(run, "fs_allow", GRANT_READ | GRANT_WRITE | GRANT_DEVICE);
    if (run_is_open(run, "tmpdir"))
        run_grant_named(run, "tmpdir", GRANT_READ | GRANT_WRITE | GRANT_DEVICE | GRANT_ITSELF);
    run_grant_named(run, "fs_read_allow", GRANT_READ);
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

void run_prepare_walls(struct run *run)
{
    prepare_landlock(run);
    prepare_filter(run);
}

/* The child measures what it inherited. */
void run_prepare_memory(struct run *run)
{
    (void)run;
}

/* Less than that is left: an object more cannot be had. */
#define LEAST (2 * (uint64_t)64 << 10) /* a page of Ruby's heap, and as much to align it */

/*
 * A block that has no memory left does not always come to say so: Ruby 3.3 runs in circles when it raises NoMemoryError
 * for want of a place for an object, and every Ruby may collect garbage without end before it does.
 */
bool run_memory_is_out(const struct run *run)
{
    const struct limits *limits = &run->jail.limits;
    uint64_t used = proc_address_space(run->child);
    uint64_t least = limits->headroom / 2 < LEAST ? limits->headroom / 2 : LEAST;
    struct rlimit limit;

    if (used == 0 || prlimit(run->child, RLIMIT_AS, NULL, &limit) != 0)
        return false;
    return limit.rlim_cur != RLIM_INFINITY && used + least > limit.rlim_cur;
}

/* ---- what lib/ and the specs ask of them ---- */

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
    size_t count;
    const struct enforcement *row = enforcement_table(&count);

    (void)self;
    for (; count > 0; count--, row++) {
        bool enforced;

        errno = 0;
        enforced = row->enforced();
        if (!enforced && enforcement_unknown(errno))
            rb_sys_fail(row->mechanism);
        rb_hash_aset(answers, ID2SYM(rb_intern(row->mechanism)), enforced ? Qtrue : Qfalse);
    }
    return answers;
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
    VALUE patches = rb_ary_new();

    (void)self;
    run_insist(seccomp_build(&program, audit_arch_of(arch), &options), "");
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

void run_define_walls(VALUE mNative)
{
    rb_define_singleton_method(mNative, "enforcement", native_enforcement, 0);
    rb_define_singleton_method(mNative, "filter", native_filter, 4);
    rb_define_singleton_method(mNative, "syscalls", native_syscalls, 1);
    rb_define_singleton_method(mNative, "landlock_abi", native_landlock_abi, 0);
}

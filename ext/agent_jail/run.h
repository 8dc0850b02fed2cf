/*
 * run.h - one run, for the files that know Ruby: its state, and what they offer each other.
 *
 * agent_jail_ext.c tells the story; run_prepare.c, run_child.c and run_supervise.c are its three acts; run_value.c is
 * how the block's value crosses; run_walls.c, with run_walls_linux.c or run_walls_darwin.c, is what stands around it.
 */
#ifndef AGENT_JAIL_RUN_H
#define AGENT_JAIL_RUN_H

#include <ruby.h>

#include "jail.h"

/* Why rb_protect came back, as Ruby numbers it. */
enum run_state {
    RUN_STATE_RAISE = 6,
    RUN_STATE_FATAL = 8,
};

/* How far the block has come: the same exception means another thing later. */
enum run_stage { RUN_STAGE_BLOCK, RUN_STAGE_DUMP };

struct run {
    VALUE options, system_grants;
    struct jail jail;
    struct descriptors hooks; /* jail.descriptors, as they are while fork hooks run in the child */
    int *keep;                /* what jail.descriptors.keep points to */
    struct supervision supervision;
    int result[2]; /* the pipe: [0] the parent's, [1] the child's */
    double started;
    size_t max_result; /* bytes */
    int report;        /* see report.c */
    pid_t child;       /* 0: none, or none any more */
    bool answered;     /* there is a value: how the child ends tells nothing more */
    struct process_end end;
    enum run_stage stage;  /* in the child */
    VALUE dump, exception; /* in the child */
    VALUE result_io;       /* result[0] as an IO, where a fiber scheduler wants one */
    struct frame_header header;
    VALUE body; /* a String of header.length bytes */
};

/* What is looked up once, when the extension is loaded. */
extern struct run_constants {
    bool jailed;                  /* this process is a jailed child */
    int processors;               /* of this machine */
    VALUE own_stdout, own_stderr; /* STDOUT and STDERR, whatever $stdout and $stderr are */
    const char **encodings;       /* names of those that are built in */
    size_t encoding_count;
    VALUE setup_error; /* AgentJail::SetupError */
    VALUE report;      /* AgentJail::Report, which puts exceptions into strings */
} run_constants;

/* Raises a SetupError of errno, naming the call and what it was about: nothing has been forked. */
void run_fail_call(const char *call, const char *subject) __attribute__((noreturn));
/* The same of a call that failed, unless `failed` is NULL. */
void run_insist(const char *failed, const char *subject);

/* ---- run_prepare.c: everything that can be done before the fork ---- */

/* The options of AgentJail::Configuration#resolve: every key is there, every value has been checked. */
VALUE run_option(const struct run *run, const char *name);
bool run_is_open(const struct run *run, const char *door);
void run_prepare(struct run *run);

/* ---- run_walls.c: the paths of the options ---- */

/* Grants what the caller named in an option; raises SystemCallError where that cannot be. What lies beneath another comes
 * before it: on macOS the first is the one that stays where it is, and who may write above could move it. */
void run_grant_named(const struct run *run, const char *name, unsigned access);
/* Grants what Ruby needs, of which not every system has all. */
void run_grant_system(const struct run *run);

/* ---- run_walls_linux.c, run_walls_darwin.c: what closes the jail, from the options ---- */

/* Grants `access` (enum grant). Returns the failed call's name with errno set, or NULL. */
const char *run_grant(const struct run *run, const char *path, unsigned access);
/* True where a grant for the system failed in a way that only leaves the path closed. */
bool run_grant_is_spared(int error);
void run_prepare_walls(struct run *run);
/* After the fork: system paths are granted where they exist, while the child comes up, which waits for report_release
 * before it closes the jail. */
void run_finish_walls(const struct run *run);
/* After the limits' headroom is known. */
void run_prepare_memory(struct run *run);
/* Of a child that is still there: it could not have one object more. */
bool run_memory_is_out(const struct run *run);
/* What lib/ and the specs ask of the walls. */
void run_define_walls(VALUE mNative);

/* ---- run_child.c: confine, block, report ---- */

/* STDOUT and STDERR where $stdout and $stderr are others: Ruby's own fork flushes only these. */
void run_flush_replaced(void);
/* The child's life after the fork. `fork_state` is what rb_protect said of the fork. */
void run_child(struct run *run, int fork_state) __attribute__((noreturn));

/* ---- run_supervise.c: the frame, or the true cause ---- */

/* [kind, payload, end, usage]: a run that ended without a value. */
VALUE run_outcome(const struct run *run, const char *kind, VALUE payload);
/* Kills the child and all that it started, and reaps it. Raises nothing. */
void run_end_child(struct run *run);
VALUE run_supervise(struct run *run);

/* ---- run_value.c: how the block's value crosses ---- */

/* child: the dump of the simplest values, or nil for all else. */
VALUE value_dump_simple(VALUE value);
/* nil when the gate accepts the bytes, else why not, as a String. */
VALUE value_refusal(VALUE bytes, VALUE permits, const char *const *encodings,
                    size_t encoding_count);
/* Points `read` to the names in an Array, which must outlive it. */
void value_read_names(VALUE names, const char **read);
/* parent: [:value, value] of run->body, or the outcome that says why there is none. */
VALUE value_take(struct run *run);

#endif

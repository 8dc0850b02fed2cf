/*
 * units.c - the plain-C files without Ruby: for C libraries and processors for which there is no Ruby here.
 *
 *   units CORPUS              the directory of the gate's corpus
 *   units CORPUS emulated     where the processor is emulated and the kernel is not: calls that reach the kernel in other
 *                             ways than a real processor's are passed over
 *
 * Prints a line for each check and then every filter, so that those of two builds can be compared. The exit status is 0
 * when every check held.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jail.h"

static int failures;
static bool emulated;

static void check(bool holds, const char *what)
{
    printf("%s %s\n", holds ? "ok    " : "FAILED", what);
    (void)fflush(stdout);
    failures += !holds;
}

static void pass_over(const char *what)
{
    printf("       passed over under an emulator: %s\n", what);
}

/* What the act answers in a process of its own; 255: it died. Each act is as its name says. */
static int apart(int (*act)(void *), void *argument)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(act(argument));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool holds_apart(int (*act)(void *), void *argument)
{
    return apart(act, argument) == 0;
}

/* ---- the gate ---- */

static const char *const encodings[] = {"ASCII-8BIT", "UTF-16LE", "EUC-JP", "Shift_JIS"};
static const struct result_permit permits[] = {
    {"O", 1, RESULT_OBJECT},       {"S", 1, RESULT_STRUCT},       {"C", 1, RESULT_SUBCLASS},
    {"D", 1, RESULT_USER_DEFINED}, {"M", 1, RESULT_USER_MARSHAL},
};

static size_t read_whole(const char *directory, const char *name, uint8_t *bytes, size_t size)
{
    char path[4096];
    FILE *file;
    size_t length;

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    length = fread(bytes, 1, size, file);
    (void)fclose(file);
    return length;
}

/* A file of the corpus says by its name what becomes of it. */
static bool gate_takes(const char *directory, const char *name)
{
    static uint8_t bytes[1 << 20];
    const struct result_policy policies[] = {
        {.encodings = encodings, .encoding_count = 4},
        {.permits = permits, .permit_count = 5, .encodings = encodings, .encoding_count = 4},
    };
    size_t length = read_whole(directory, name, bytes, sizeof(bytes));
    struct result_refusal refusal;

    for (int i = 0; i < 2; i++) {
        bool expected =
            strncmp(name, "plain_", 6) == 0 || (i == 1 && strncmp(name, "permitted_", 10) == 0);

        if (length == 0 || result_check(bytes, length, &policies[i], &refusal) != expected)
            return false;
    }
    return true;
}

static void gate(const char *directory)
{
    DIR *entries = opendir(directory);
    const struct dirent *entry;
    int count = 0;
    bool all = true;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (!gate_takes(directory, entry->d_name)) {
            printf("       %s\n", entry->d_name);
            all = false;
        }
    }
    if (entries != NULL)
        (void)closedir(entries);
    check(count > 30 && all, "the gate takes of the corpus what it should");
}

/* ---- the filter ---- */

/* Runs a program as the kernel does, on the instructions that our filters use. */
static uint32_t run_filter(const struct seccomp_program *program, const uint32_t data[16])
{
    uint32_t a = 0, x = 0;

    for (size_t pc = 0; pc < program->length; pc++) {
        const struct seccomp_instruction *at = &program->instructions[pc];
        bool jump = false;

        switch (at->code) {
        case 0x06:
            return at->k;
        case 0x20:
            a = data[at->k / 4];
            continue;
        case 0x00:
            a = at->k;
            continue;
        case 0x07:
            x = a;
            continue;
        case 0x54:
            a &= at->k;
            continue;
        case 0x6c:
            a <<= x;
            continue;
        case 0x05:
            pc += at->k;
            continue;
        case 0x15:
            jump = a == at->k;
            break;
        case 0x25:
            jump = a > at->k;
            break;
        case 0x35:
            jump = a >= at->k;
            break;
        case 0x45:
            jump = (a & at->k) != 0;
            break;
        case 0x4d:
            jump = (a & x) != 0;
            break;
        default:
            return 1;
        }
        pc += jump ? at->jt : at->jf;
    }
    return 1;
}

#define ALLOWED 0x7fff0000u
#define REFUSED(error) (0x00050000u | (uint32_t)(error))

/* What a verdict says of a call with no arguments; 0: it hangs on them. */
static uint32_t answer_of(enum seccomp_verdict verdict, const struct seccomp_options *options)
{
    switch (verdict) {
    case SECCOMP_ALLOW:
        return ALLOWED;
    case SECCOMP_ABSENT:
        return REFUSED(ENOSYS);
    case SECCOMP_PRIVILEGE:
    case SECCOMP_OTHERS:
    case SECCOMP_SESSION:
        return REFUSED(EPERM);
    case SECCOMP_METADATA:
        return REFUSED(EACCES);
    case SECCOMP_XATTR:
        return REFUSED(EOPNOTSUPP);
    case SECCOMP_TRUNCATE:
        return options->scoped ? ALLOWED : REFUSED(EACCES);
    case SECCOMP_NETWORK:
        return options->network ? ALLOWED : REFUSED(ENETUNREACH);
    case SECCOMP_PROCESS:
        return options->processes ? ALLOWED : REFUSED(EPERM);
    default:
        return 0;
    }
}

static bool walk(const struct seccomp_program *program, uint32_t arch,
                 const struct seccomp_options *options)
{
    size_t count, walked = 0;
    const struct seccomp_row *row = seccomp_table(&count);

    for (; count > 0; count--, row++) {
        uint32_t data[16] = {(uint32_t)seccomp_number(row, arch), arch};
        uint32_t expected = answer_of(row->verdict, options), answer;

        if (seccomp_number(row, arch) < 0)
            continue;
        walked++;
        answer = run_filter(program, data);
        if (expected != 0 && answer != expected) {
            printf("       %s answers %#x\n", row->name, answer);
            return false;
        }
        data[1] = AUDIT_ARCH_I386;
        if (run_filter(program, data) == ALLOWED)
            return false;
    }
    return walked > 250;
}

static void print_filter(const struct seccomp_program *program, uint32_t arch, int options)
{
    printf("filter %#x %d:", arch, options);
    for (size_t i = 0; i < program->length; i++)
        printf(" %x.%x.%x.%x", program->instructions[i].code, program->instructions[i].jt,
               program->instructions[i].jf, program->instructions[i].k);
    printf("\n");
}

static void filters(void)
{
    static const uint32_t arches[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};
    bool all = true;

    for (int i = 0; i < 16; i++) {
        struct seccomp_options options = {i & 1, (i & 2) != 0, (i & 4) != 0};
        struct seccomp_program program;

        all = all && seccomp_build(&program, arches[i / 8], &options) == NULL &&
              walk(&program, arches[i / 8], &options);
        print_filter(&program, arches[i / 8], i % 8);
    }
    check(all, "the filters of both architectures answer every number as the table says");
}

/* ---- frame, report, processes ---- */

static void frames(void)
{
    struct frame_header header;
    int ends[2];
    char body[8];

    if (pipe(ends) != 0)
        return check(false, "a pipe");
    check(frame_send(ends[1], FRAME_VALUE, "0123456", 8) &&
              read(ends[0], &header, sizeof(header)) == (ssize_t)sizeof(header) &&
              header.magic == FRAME_MAGIC && header.kind == FRAME_VALUE && header.length == 8 &&
              read(ends[0], body, 8) == 8 && memcmp(body, "0123456", 8) == 0,
          "a frame crosses a pipe as it was");
    (void)close(ends[0]);
    (void)signal(SIGPIPE, SIG_IGN);
    check(!frame_send(ends[1], FRAME_VALUE, "", 0) && errno == EPIPE, "a frame to nobody fails");
    (void)close(ends[1]);
}

__attribute__((noreturn)) static void wait_for_ever(void)
{
    for (;;)
        (void)pause();
}

static int fail_report(void *report)
{
    report_start(*(int *)report);
    report_fail(*(int *)report, "a call", ENOSPC, "words");
}

/* A number that is noted is told as long as there is such a process. */
static bool tells_child(int report)
{
    pid_t pid = fork();
    bool told = false;

    if (pid == 0) {
        report_start(report);
        wait_for_ever();
    }
    for (int i = 0; i < 5000 && !told; i++) {
        told = pid > 0 && report_child(report) == pid;
        (void)usleep(1000);
    }
    return kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid && told;
}

static int close_report(void *report)
{
    return report_confined(*(int *)report) == NULL ? 0 : 1;
}

static void reports(void)
{
    struct report_failure failure = {0};
    int report = -1, other = -1;

    check(report_open(&report) == NULL && report_open(&other) == NULL, "reports can be made");
    check(report_read(report, &failure) == REPORT_STARTED, "a report begins with nothing said");
    check(tells_child(other), "a report tells the number of the process that began it");
    check(apart(fail_report, &report) == 1 && report_read(report, &failure) == REPORT_FAILED &&
              failure.error == ENOSPC && strcmp(failure.call, "a call") == 0 &&
              strcmp(failure.detail, "words") == 0,
          "a report tells the failure of another process");
    check(holds_apart(close_report, &other) && report_read(other, &failure) == REPORT_CONFINED &&
              ftruncate(other, 0) != 0 && ftruncate(other, (off_t)1 << 20) != 0,
          "a report that is sealed stays so, and as long as it is");
    (void)close(report);
    (void)close(other);
}

static void processes(void)
{
    pid_t pid = fork();
    struct process_end end;
    int pidfd;

    if (pid == 0) {
        if (process_enter() != NULL || fork() < 0)
            _exit(1);
        wait_for_ever();
    }
    while (getpgid(pid) != pid)
        (void)usleep(1000);
    pidfd = process_open(pid);
    printf("       process descriptors: %s\n", pidfd < 0 ? "none here" : "yes");
    check(!process_ended(pid, pidfd) && process_cpu(pid) >= 0,
          "a process runs, and its clock is read");
    process_kill_tree(pid, pidfd);
    check(process_reap(pid, pidfd, 20, &end) && end.known && end.signal == SIGKILL,
          "a process is killed with its group, and its end is known");
    for (int i = 0; i < 5000 && kill(-pid, 0) == 0; i++)
        (void)usleep(1000);
    check(kill(-pid, 0) != 0 && errno == ESRCH, "nothing of the group is left");
    if (pidfd >= 0)
        (void)close(pidfd);
}

/* ---- what the child does to itself ---- */

static int lower_limits(void *unused)
{
    struct limits limits = {.cpu_seconds = 7, .file_size = 4096, .open_files = 40};
    struct rlimit cpu, file;

    (void)unused;
    if (limits_apply(&limits) != NULL || getrlimit(RLIMIT_CPU, &cpu) != 0 ||
        getrlimit(RLIMIT_FSIZE, &file) != 0)
        return 1;
    limits.file_size = 1 << 20; /* never raised again */
    if (limits_apply(&limits) != NULL || getrlimit(RLIMIT_FSIZE, &file) != 0)
        return 2;
    return cpu.rlim_cur == 7 && cpu.rlim_max == 8 && file.rlim_cur == 4096 ? 0 : 3;
}

static bool reserve_none(int fd)
{
    (void)fd;
    return false;
}

static int deaden(void *unused)
{
    int kept = dup(1), ends[2], late;
    struct descriptors descriptors = {.keep = &kept, .keep_count = 1, .reserved = reserve_none};

    (void)unused;
    descriptors.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (pipe(ends) != 0 || descriptors_list(&descriptors) != NULL)
        return 1;
    late = dup(ends[1]); /* opened after the list was made */
    if (descriptors_deaden(&descriptors) != NULL)
        return 2;
    if (write(ends[1], "x", 1) >= 0 || write(late, "x", 1) >= 0 || fcntl(ends[1], F_GETFD) < 0)
        return 3;
    return fcntl(kept, F_GETFD) >= 0 && read(0, ends, 1) == 0 ? 0 : 4;
}

static int privatise(void *shared)
{
    if (mappings_privatise() != NULL || *(char *)shared != 'p')
        return 1;
    *(char *)shared = 'c';
    return 0;
}

static void mappings(void)
{
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return check(false, "a shared mapping");
    *shared = 'p';
    check(holds_apart(privatise, shared) && *shared == 'p',
          "what is shared with the parent is a copy after mappings_privatise");
}

static int drop_capabilities(void *unused)
{
    (void)unused;
    return capabilities_drop() == NULL ? 0 : 1;
}

static bool count_number(int number, void *count)
{
    (void)number;
    ++*(int *)count;
    return true;
}

static void proc(void)
{
    int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
    char *start, *end;

    check(proc_address_space(getpid()) > 4096, "/proc tells the address space");
    check(proc_each_number(directory, count_number, &count) == NULL && count >= 4,
          "/proc lists descriptors");
    if (emulated)
        pass_over("/proc tells where the environment is");
    else
        check(proc_environment(&start, &end) && end > start,
              "/proc tells where the environment is");
    (void)close(directory);
}

static void trees(void)
{
    char path[] = "/tmp/agent_jail_units_XXXXXX", deep[128], link_path[128];

    if (mkdtemp(path) == NULL)
        return check(false, "a directory");
    (void)snprintf(deep, sizeof(deep), "%s/deep", path);
    (void)snprintf(link_path, sizeof(link_path), "%s/deep/link", path);
    if (mkdir(deep, 0700) != 0 || symlink("/", link_path) != 0 || chmod(deep, 0) != 0)
        return check(false, "a tree");
    check(tree_remove(path) == NULL && access(path, F_OK) != 0,
          "a tree is removed, closed directories too");
}

/* ---- threads ---- */

static _Atomic int applied;

static const char *count_thread(void *unused)
{
    (void)unused;
    applied++;
    return NULL;
}

__attribute__((noreturn)) static void *stay(void *unused)
{
    (void)unused;
    wait_for_ever();
}

static int apply_to_threads(void *unused)
{
    pthread_t thread;

    (void)unused;
    if (!threads_alone() || !threads_on_stack())
        return 1;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, stay, NULL) != 0)
            return 2;
    if (threads_alone())
        return 3;
    if (threads_apply(count_thread, NULL) != NULL)
        return 4;
    return applied == 2 ? 0 : 5;
}

/* ---- the whole jail ---- */

/* 0, or a number that says which. */
#define ACT(number, condition) ((condition) ? 0 : 1 << (number))

static int acts_in_jail(void *unused)
{
    struct jail jail = {.parent = getppid(),
                        .limits = {.cpu_seconds = 20, .file_size = 1 << 20, .open_files = 64},
                        .relays = {{.child = -1}, {.child = -1}}};
    struct seccomp_options options = {0};
    static struct seccomp_program program;
    int wrong = 0;

    (void)unused;
    jail.descriptors.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    jail.descriptors.reserved = reserve_none;
    if (landlock_create(&jail.landlock, false) != NULL ||
        landlock_grant(&jail.landlock, "/tmp", GRANT_READ) != NULL)
        return 1;
    options.scoped = jail.landlock.signals;
    if (seccomp_build(&program, 0, &options) != NULL)
        return 2;
    jail.filter = &program;
    jail.descriptors.keep = &jail.landlock.fd;
    jail.descriptors.keep_count = 1;
    if (descriptors_list(&jail.descriptors) != NULL)
        return 3;
    if (confine(&jail) != NULL)
        return 4;
    wrong |= ACT(0, open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES);
    wrong |= ACT(1, open("/tmp", O_RDONLY) >= 0);
    wrong |= ACT(2, socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == ENETUNREACH);
    wrong |= ACT(3, fork() < 0 && errno == EPERM);
    wrong |= ACT(4, kill(getppid(), 0) < 0 && errno == EPERM);
    wrong |= ACT(5, chmod("/tmp", 01777) < 0 && errno == EACCES);
    wrong |= ACT(6, malloc(100) != NULL);
    return wrong;
}

/* The same acts, of which none is refused without a jail. */
static int acts_without_jail(void *unused)
{
    pid_t pid;

    (void)unused;
    if (open("/etc/passwd", O_RDONLY) < 0 || open("/tmp", O_RDONLY) < 0 ||
        socket(AF_INET, SOCK_STREAM, 0) < 0 || kill(getppid(), 0) != 0)
        return 1;
    pid = fork();
    if (pid == 0)
        _exit(0);
    return pid > 0 ? 0 : 2;
}

static void jail(void)
{
    check(holds_apart(acts_without_jail, NULL), "the acts go through without a jail");
    if (emulated)
        return pass_over("a jail is closed, and refuses them");
    check(landlock_abi() > 0 && seccomp_available(), "there are Landlock and seccomp");
    check(holds_apart(acts_in_jail, NULL), "a jail is closed, and refuses them");
}

static void threads(void)
{
    if (emulated)
        return pass_over("every thread is reached");
    check(holds_apart(apply_to_threads, NULL), "every thread is reached");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    emulated = argc == 3 && strcmp(argv[2], "emulated") == 0;
    /* where it can be had: what a group leaves behind is reaped here, and not by whoever is init */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    gate(argv[1]);
    frames();
    reports();
    processes();
    proc();
    trees();
    mappings();
    check(holds_apart(lower_limits, NULL), "limits are lowered, and not raised again");
    check(holds_apart(deaden, NULL), "descriptors are dead but for those that are kept");
    check(holds_apart(drop_capabilities, NULL), "capabilities are dropped");
    threads();
    check(crash_install() == NULL, "crash reports are made ready");
    jail();
    filters();
    return failures == 0 ? 0 : 1;
}

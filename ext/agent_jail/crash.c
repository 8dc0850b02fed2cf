/*
 * crash.c - what the runtime says when it crashes.
 *
 * Ruby writes its crash report to C's stderr: "[BUG] Segmentation fault" and pages more, or "[FATAL] failed to allocate
 * memory". In a jail that is no news for the application's log: it belongs to the error. So C's stderr of the child is a
 * stream that lets lines pass until one of those words comes, and from there on puts descriptor 2 into the
 * report's file. Ruby's own $stderr, which writes to the descriptor, is left alone.
 *
 * A crash for want of memory mostly does not say so: a compiler of the runtime's, or a C library, uses what malloc could
 * not give. What is left of the address space tells, and only the child can see it: its report then begins with that.
 */
#include "jail.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROBE_MAX ((size_t)2 << 20)

static FILE *stream;

/* In the child. */
static int report = -1;
static bool crashed;
static char line[256];
static size_t filled;
static size_t probe;

static void pass(const char *bytes, size_t size)
{
    (void)frame_write(STDERR_FILENO, bytes, size); /* where it cannot be, there is nobody to tell */
}

void crash_flush(void)
{
    pass(line, filled);
    filled = 0;
}

static bool line_holds(const char *word)
{
    return memmem(line, filled, word, strlen(word)) != NULL;
}

/* malloc gives up when it cannot have 1 MiB more. */
static bool memory_is_out(void)
{
    void *room =
        probe == 0 ? NULL : mmap(NULL, probe, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (room == MAP_FAILED)
        return true;
    if (room != NULL)
        (void)munmap(room, probe);
    return false;
}

static void divert(void)
{
    static const char out[] = "[FATAL] out of memory\n";

    crashed = dup2(report, STDERR_FILENO) == STDERR_FILENO;
    if (crashed && memory_is_out())
        pass(out, sizeof(out) - 1);
}

/* The report's first line comes in pieces, so a line is kept back until it ends. */
static void take(char byte)
{
    line[filled++] = byte;
    if (!crashed && (line_holds("[BUG]") || line_holds("[FATAL]")))
        divert();
    if (crashed || byte == '\n' || filled == sizeof(line))
        crash_flush();
}

static ssize_t write_stderr(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    size_t i = 0;

    while (i < size && !crashed)
        take(bytes[i++]);
    pass(bytes + i, size - i);
    return (ssize_t)size;
}

const char *crash_install(void)
{
    stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_stderr});
    if (stream == NULL)
        return "fopencookie";
    stream->_fileno = STDERR_FILENO; /* what fileno() answers to who asks it of stderr */
    return setvbuf(stream, NULL, _IONBF, 0) == 0 ? NULL : "setvbuf";
}

void crash_capture(int file, uint64_t headroom)
{
    report = file;
    probe = headroom / 2 < PROBE_MAX ? (size_t)(headroom / 2) : PROBE_MAX;
    stderr = stream;
}

size_t crash_read(int file, char *text, size_t size)
{
    ssize_t got = pread(file, text, size, 0);
    size_t length = got < 0 ? 0 : (size_t)got;

    while (length > 0 && text[length - 1] == '\0') /* what nobody wrote */
        length--;
    return length;
}

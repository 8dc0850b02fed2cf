/*
 * crash.c - what the runtime says when it crashes.
 *
 * Ruby writes its crash report to C's stderr: "[BUG] Segmentation fault" and pages more, or "[FATAL] failed to allocate
 * memory". In a jail that is no news for the application's log: it belongs to the error. So C's stderr of the child is a
 * stream that lets lines pass until one of those words comes, and from there on puts descriptor 2 into the
 * report's file. Ruby's own $stderr, which writes to the descriptor, is left alone.
 */
#include "jail.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *stream;

/* In the child. */
static int report = -1;
static bool crashed;
static char line[256];
static size_t filled;

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

static void divert(void)
{
    crashed = dup2(report, STDERR_FILENO) == STDERR_FILENO;
    if (crashed)
        exhaustion_tell(); /* first: what comes first is the cause */
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

void crash_capture(int file)
{
    report = file;
    stderr = stream;
}

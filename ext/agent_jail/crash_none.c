/*
 * crash_none.c - where C's stderr cannot be taken over a crash report goes where it goes.
 */
#include "jail.h"

const char *crash_install(void)
{
    return NULL;
}

void crash_capture(int file)
{
    (void)file;
}

void crash_flush(void)
{
}

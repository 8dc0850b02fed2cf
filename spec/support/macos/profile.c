/*
 * profile.c - seatbelt.c for callers that know no structs: one profile at a time.
 */
#include "jail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *profile_begin(int network, int processes);
const char *profile_grant(const char *path, unsigned access);
const char *profile_see(const char *path);
const char *profile_finish(void);
const char *profile_apply(void);
const char *profile_text(void);
const char *profile_why(void);
int profile_error(void);

static struct seatbelt *profile;
static char why[256];
static int error;

static const char *told(const char *failed)
{
    error = errno;
    return failed;
}

const char *profile_begin(int network, int processes)
{
    struct seatbelt_options options = {.network = network != 0, .processes = processes != 0};

    free(profile);
    profile = seatbelt_create(&options);
    return told(profile == NULL ? "malloc" : NULL);
}

const char *profile_grant(const char *path, unsigned access)
{
    return told(seatbelt_grant(profile, path, access));
}

const char *profile_see(const char *path)
{
    return told(seatbelt_see(profile, path));
}

const char *profile_finish(void)
{
    return told(seatbelt_finish(profile));
}

const char *profile_apply(void)
{
    memset(why, 0, sizeof(why));
    return told(seatbelt_apply(profile, why, sizeof(why)));
}

const char *profile_text(void)
{
    return profile->text;
}

const char *profile_why(void)
{
    return why;
}

int profile_error(void)
{
    return error;
}

/*
 * capabilities.c - what root may still do.
 */
#include "jail.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Kept so that a path that was granted stays usable when it belongs to another user. It opens nothing else: Landlock
 * decides which paths there are. */
#define KEPT (1u << CAP_DAC_OVERRIDE)

/* To set what is set needs nothing. */
bool capabilities_available(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

    return syscall(SYS_capget, &header, sets) == 0 && syscall(SYS_capset, &header, sets) == 0;
}

const char *capabilities_drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, sets) != 0)
        return "capget";
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        sets[i].permitted &= i == 0 ? KEPT : 0;
        sets[i].effective = sets[i].permitted;
        sets[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, sets) != 0)
        return "capset";
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
        return "prctl(PR_CAP_AMBIENT)"; /* EINVAL: older than Linux 4.3, which has none */
    return NULL;
}

/*
 * confine_darwin.c - the steps that close the jail on macOS, in their order.
 */
#include "jail.h"

#include <unistd.h>

static const char *watch_parent(struct jail *jail)
{
    return process_watch(jail->parent);
}

static const char *privatise_mappings(struct jail *jail)
{
    (void)jail;
    return mappings_privatise();
}

static const char *close_tools(struct jail *jail)
{
    return close(jail->descriptors.null) != 0 ? "close(/dev/null)" : NULL;
}

/* Last, since it refuses some of the calls above. It covers every thread by itself. */
static const char *enter_sandbox(struct jail *jail)
{
    return seatbelt_apply(jail->seatbelt, jail->why, sizeof(jail->why));
}

confine_step *const confine_steps[] = {
    confine_check_parent, confine_unblock_signals,
    confine_enter_relays, confine_deaden_descriptors,
    watch_parent,         privatise_mappings,
    confine_apply_limits, close_tools,
    enter_sandbox,        NULL,
};

/*
 * confine.c - the steps that close the jail and that every platform takes. Their order, and the others, are in
 * confine_linux.c and confine_darwin.c.
 */
#include "jail.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* The parent may have died before the child asked to die with it. */
const char *confine_check_parent(struct jail *jail)
{
    if (getppid() == jail->parent)
        return NULL;
    errno = ESRCH;
    return "getppid";
}

const char *confine_unblock_signals(struct jail *jail)
{
    sigset_t none;

    (void)jail;
    if (sigemptyset(&none) != 0 || sigprocmask(SIG_SETMASK, &none, NULL) != 0)
        return "sigprocmask";
    /* a file that grows past its limit is an error to report, not a death */
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? "signal(SIGXFSZ)" : NULL;
}

const char *confine_enter_relays(struct jail *jail)
{
    const struct relay *error = &jail->relays[jail->one_output ? 0 : 1];
    const char *failed = relay_enter(&jail->relays[0], STDOUT_FILENO);

    return failed != NULL ? failed : relay_enter(error, STDERR_FILENO);
}

const char *confine_deaden_descriptors(struct jail *jail)
{
    return descriptors_deaden(&jail->descriptors);
}

const char *confine_apply_limits(struct jail *jail)
{
    return limits_apply(&jail->limits);
}

const char *confine(struct jail *jail)
{
    for (confine_step *const *step = confine_steps; *step != NULL; step++) {
        const char *failed = (*step)(jail);

        if (failed != NULL)
            return failed;
    }
    return NULL;
}

#ifndef AGENT_JAIL_STUB_SYSTEM_LIBPROC_H
#define AGENT_JAIL_STUB_SYSTEM_LIBPROC_H

#include <stdint.h>
#include <sys/proc_info.h>
#include <sys/resource.h>
#include <sys/types.h>

#ifndef RUSAGE_INFO_V0
#define RUSAGE_INFO_V0 0

typedef void *rusage_info_t;

struct rusage_info_v0 {
    uint8_t ri_uuid[16];
    uint64_t ri_user_time;
    uint64_t ri_system_time;
    uint64_t ri_pkg_idle_wkups;
    uint64_t ri_interrupt_wkups;
    uint64_t ri_pageins;
    uint64_t ri_wired_size;
    uint64_t ri_resident_size;
    uint64_t ri_phys_footprint;
    uint64_t ri_proc_start_abstime;
    uint64_t ri_proc_exit_abstime;
};
#endif

int proc_pid_rusage(int pid, int flavor, rusage_info_t *buffer);
int proc_pidinfo(int pid, int flavor, uint64_t arg, void *buffer, int buffersize);
int proc_listpids(uint32_t type, uint32_t typeinfo, void *buffer, int buffersize);

#endif

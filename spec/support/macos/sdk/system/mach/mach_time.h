#ifndef AGENT_JAIL_STUB_SYSTEM_MACH_MACH_TIME_H
#define AGENT_JAIL_STUB_SYSTEM_MACH_MACH_TIME_H

#include <mach/mach.h>
#include <stdint.h>

struct mach_timebase_info {
    uint32_t numer;
    uint32_t denom;
};
typedef struct mach_timebase_info mach_timebase_info_data_t;
typedef struct mach_timebase_info *mach_timebase_info_t;

kern_return_t mach_timebase_info(mach_timebase_info_t info);

#endif

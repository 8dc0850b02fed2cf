#ifndef AGENT_JAIL_STUB_SYSTEM_MACH_O_DYLD_H
#define AGENT_JAIL_STUB_SYSTEM_MACH_O_DYLD_H

#include <stdint.h>

uint32_t _dyld_image_count(void);
const char *_dyld_get_image_name(uint32_t index);

#endif

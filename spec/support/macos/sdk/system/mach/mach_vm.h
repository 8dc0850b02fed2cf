#ifndef AGENT_JAIL_STUB_SYSTEM_MACH_MACH_VM_H
#define AGENT_JAIL_STUB_SYSTEM_MACH_MACH_VM_H

#include <mach/mach.h>

typedef uint64_t mach_vm_address_t;
typedef uint64_t mach_vm_offset_t;
typedef uint64_t mach_vm_size_t;

kern_return_t mach_vm_region_recurse(vm_map_t task, mach_vm_address_t *address,
                                     mach_vm_size_t *size, natural_t *depth,
                                     vm_region_recurse_info_t info, mach_msg_type_number_t *count);
kern_return_t mach_vm_remap(vm_map_t target, mach_vm_address_t *address, mach_vm_size_t size,
                            mach_vm_offset_t mask, int flags, vm_map_t source,
                            mach_vm_address_t source_address, boolean_t copy, vm_prot_t *current,
                            vm_prot_t *maximum, vm_inherit_t inheritance);
kern_return_t mach_vm_deallocate(vm_map_t task, mach_vm_address_t address, mach_vm_size_t size);

#endif

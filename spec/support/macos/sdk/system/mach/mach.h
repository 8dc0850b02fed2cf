#ifndef AGENT_JAIL_STUB_SYSTEM_MACH_MACH_H
#define AGENT_JAIL_STUB_SYSTEM_MACH_MACH_H

#include <stdint.h>

typedef int kern_return_t;
typedef unsigned int natural_t;
typedef int integer_t;
typedef natural_t mach_port_t;
typedef mach_port_t vm_map_t;
typedef natural_t mach_msg_type_number_t;
typedef unsigned int boolean_t;
typedef int vm_prot_t;
typedef unsigned int vm_inherit_t;
typedef int vm_behavior_t;
typedef unsigned int vm32_object_id_t;
typedef unsigned long long memory_object_offset_t;

#define TRUE 1
#define FALSE 0

#define KERN_SUCCESS 0
#define KERN_INVALID_ADDRESS 1
#define KERN_NO_SPACE 3

#define VM_PROT_READ ((vm_prot_t)0x01)
#define VM_PROT_WRITE ((vm_prot_t)0x02)
#define VM_PROT_EXECUTE ((vm_prot_t)0x04)

#define VM_INHERIT_SHARE ((vm_inherit_t)0)
#define VM_INHERIT_COPY ((vm_inherit_t)1)

#define VM_FLAGS_FIXED 0x0000
#define VM_FLAGS_ANYWHERE 0x0001
#define VM_FLAGS_OVERWRITE 0x4000

#pragma pack(4)
struct vm_region_submap_info_64 {
    vm_prot_t protection;
    vm_prot_t max_protection;
    vm_inherit_t inheritance;
    memory_object_offset_t offset;
    unsigned int user_tag;
    unsigned int pages_resident;
    unsigned int pages_shared_now_private;
    unsigned int pages_swapped_out;
    unsigned int pages_dirtied;
    unsigned int ref_count;
    unsigned short shadow_depth;
    unsigned char external_pager;
    unsigned char share_mode;
    boolean_t is_submap;
    vm_behavior_t behavior;
    vm32_object_id_t object_id;
    unsigned short user_wired_count;
    unsigned short flags;
    unsigned int pages_reusable;
    unsigned long long object_id_full;
};
#pragma pack()

typedef int *vm_region_recurse_info_t;

#define VM_REGION_SUBMAP_INFO_COUNT_64                                                             \
    ((mach_msg_type_number_t)(sizeof(struct vm_region_submap_info_64) / sizeof(natural_t)))

extern mach_port_t mach_task_self_;
#define mach_task_self() mach_task_self_

#endif

/*
 * mappings_darwin.c - memory that the parent shares is the child's own from here on.
 *
 * A mapping that a fork shares instead of copying is a way out: what the child writes there, the parent reads. Each such
 * mapping is put in place again as a copy. Those of the system, which all processes share, lie in maps of their own, or
 * nobody can make them writable: they stay.
 */
#include "jail.h"

#include <errno.h>
#include <mach/mach.h>
#include <mach/mach_vm.h>

struct region {
    mach_vm_address_t start;
    mach_vm_size_t length;
    struct vm_region_submap_info_64 info;
};

/* The first region at or above `from`. */
static kern_return_t next_region(mach_vm_address_t from, struct region *region)
{
    mach_msg_type_number_t count = VM_REGION_SUBMAP_INFO_COUNT_64;
    natural_t depth = 0;

    region->start = from;
    return mach_vm_region_recurse(mach_task_self(), &region->start, &region->length, &depth,
                                  (vm_region_recurse_info_t)&region->info, &count);
}

static bool is_way_out(const struct region *region)
{
    return !region->info.is_submap && region->info.inheritance == VM_INHERIT_SHARE &&
           (region->info.max_protection & VM_PROT_WRITE) != 0;
}

static bool copy(mach_vm_address_t *to, int flags, mach_vm_address_t from, mach_vm_size_t length)
{
    vm_prot_t now, most;

    return mach_vm_remap(mach_task_self(), to, length, 0, flags, mach_task_self(), from, TRUE, &now,
                         &most, VM_INHERIT_COPY) == KERN_SUCCESS;
}

static bool privatise(const struct region *region)
{
    mach_vm_address_t aside = 0, place = region->start;
    bool done;

    if (!copy(&aside, VM_FLAGS_ANYWHERE, region->start, region->length))
        return false;
    done = copy(&place, VM_FLAGS_FIXED | VM_FLAGS_OVERWRITE, aside, region->length);
    return mach_vm_deallocate(mach_task_self(), aside, region->length) == KERN_SUCCESS && done;
}

const char *mappings_privatise(void)
{
    struct region region = {.start = 0};
    kern_return_t found;

    errno = 0; /* these calls have numbers of their own */
    while ((found = next_region(region.start + region.length, &region)) == KERN_SUCCESS)
        if (is_way_out(&region) && !privatise(&region))
            return "mach_vm_remap(shared memory)";
    return found == KERN_INVALID_ADDRESS ? NULL : "mach_vm_region_recurse";
}

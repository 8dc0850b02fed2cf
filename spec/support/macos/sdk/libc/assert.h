#ifndef AGENT_JAIL_STUB_LIBC_ASSERT_H
#define AGENT_JAIL_STUB_LIBC_ASSERT_H

#define assert(claim) ((void)(claim))

#endif

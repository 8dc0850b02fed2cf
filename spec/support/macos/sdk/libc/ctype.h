#ifndef AGENT_JAIL_STUB_LIBC_CTYPE_H
#define AGENT_JAIL_STUB_LIBC_CTYPE_H

int isalnum(int character);
int tolower(int character);
int toupper(int character);

#endif

#ifndef AGENT_JAIL_STUB_LIBC_DIRENT_H
#define AGENT_JAIL_STUB_LIBC_DIRENT_H

#include <sys/types.h>

struct dirent {
    uint64_t d_ino;
    uint64_t d_seekoff;
    uint16_t d_reclen;
    uint16_t d_namlen;
    uint8_t d_type;
    char d_name[1024];
};

typedef struct _dirstream DIR;

int closedir(DIR *directory);
int dirfd(DIR *directory);
DIR *fdopendir(int fd);
struct dirent *readdir(DIR *directory);

#endif

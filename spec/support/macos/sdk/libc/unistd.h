#ifndef AGENT_JAIL_STUB_LIBC_UNISTD_H
#define AGENT_JAIL_STUB_LIBC_UNISTD_H

#include <sys/types.h>

#define STDIN_FILENO 0
#define STDOUT_FILENO 1
#define STDERR_FILENO 2
#define F_OK 0
#define SEEK_SET 0
#define SEEK_CUR 1
#define _SC_NPROCESSORS_ONLN 58
#define _SC_PAGESIZE 29

int close(int fd);
int dup2(int from, int to);
void _exit(int status) __attribute__((noreturn));
int faccessat(int directory, const char *path, int mode, int flags);
char *getcwd(char *path, size_t size);
pid_t getpgrp(void);
pid_t getpid(void);
int isatty(int fd);
pid_t getppid(void);
off_t lseek(int fd, off_t offset, int whence);
int pipe(int ends[2]);
ssize_t pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t read(int fd, void *bytes, size_t size);
ssize_t readlink(const char *path, char *target, size_t size);
int rmdir(const char *path);
int setpgid(pid_t pid, pid_t group);
long sysconf(int name);
int unlink(const char *path);
int unlinkat(int directory, const char *path, int flags);
ssize_t write(int fd, const void *bytes, size_t size);

#endif

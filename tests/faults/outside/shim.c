/* Preloaded before libc: counts the calls that a process makes below one folder, and at the one it is told
 * kills the process, before the call or after it, or lets it fail. Whoever calls: Python, SQLite, anything. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { CHANGES = 1, LOOKS = 2 };
static atomic_int own;
static atomic_int *counted = &own; /* in memory that the parent sees, too: a killed process tells nobody */
static int armed, point, failure, lasting, kinds;
static char top[4096];

/* failure: 0 kills before the call, -1 after it, -2 writes only half, anything else is an errno. */
void fault_arm(const char *folder, int at, int how, int lasts, int which, void *shared) {
    counted = shared;
    snprintf(top, sizeof top, "%s/", folder);
    point = at, failure = how, lasting = lasts, kinds = which;
    atomic_store(counted, 0);
    armed = 1;
}

static int below_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strncmp(path, top, strlen(top)) == 0 || (strlen(path) + 1 == strlen(top) && !strncmp(path, top, size));
}
static int below(int dir, const char *path) {
    if (!path) return 0;
    if (path[0] == '/') return strncmp(path, top, strlen(top)) == 0;
    if (dir != AT_FDCWD) return below_fd(dir);
    char here[4096];
    return getcwd(here, sizeof here) && (strcat(here, "/"), strncmp(here, top, strlen(top)) == 0);
}
static int now(int kind, int ours) { /* whether it is this call's turn */
    if (!armed || !(kinds & kind) || !ours) return 0;
    int number = atomic_fetch_add(counted, 1);
    return lasting ? number >= point : number == point;
}
static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define AROUND(kind, ours, call)                                   \
    do {                                                           \
        int turn = now(kind, ours);                                \
        if (turn && failure == 0) die();                           \
        if (turn && failure > 0) { errno = failure; return -1; }   \
        __typeof__(call) result = call;                            \
        if (turn && failure == -1) die();                          \
        return result;                                             \
    } while (0)

static int kind_of(int flags) { return flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR) ? CHANGES : LOOKS; }
#define MODE                                        \
    mode_t mode = 0;                                \
    if (flags & (O_CREAT | O_TMPFILE)) {            \
        va_list more;                               \
        va_start(more, flags);                      \
        mode = va_arg(more, mode_t);                \
        va_end(more);                               \
    }
int open(const char *path, int flags, ...) { MODE AROUND(kind_of(flags), below(AT_FDCWD, path), REAL(open)(path, flags, mode)); }
int open64(const char *path, int flags, ...) { MODE AROUND(kind_of(flags), below(AT_FDCWD, path), REAL(open64)(path, flags, mode)); }
int openat(int dir, const char *path, int flags, ...) { MODE AROUND(kind_of(flags), below(dir, path), REAL(openat)(dir, path, flags, mode)); }
int openat64(int dir, const char *path, int flags, ...) { MODE AROUND(kind_of(flags), below(dir, path), REAL(openat64)(dir, path, flags, mode)); }
ssize_t write(int fd, const void *from, size_t size) {
    int turn = now(CHANGES, below_fd(fd));
    if (turn && failure == 0) die();
    if (turn && failure > 0) { errno = failure; return -1; }
    ssize_t done = REAL(write)(fd, from, turn && failure == -2 && size > 1 ? size / 2 : size);
    if (turn && failure == -1) die();
    return done;
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) { AROUND(CHANGES, below_fd(fd), REAL(pwrite)(fd, from, size, at)); }
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) { AROUND(CHANGES, below_fd(fd), REAL(pwrite64)(fd, from, size, at)); }
ssize_t read(int fd, void *into, size_t size) { AROUND(LOOKS, below_fd(fd), REAL(read)(fd, into, size)); }
int fsync(int fd) { AROUND(CHANGES, below_fd(fd), REAL(fsync)(fd)); }
int fdatasync(int fd) { AROUND(CHANGES, below_fd(fd), REAL(fdatasync)(fd)); }
int ftruncate(int fd, off_t size) { AROUND(CHANGES, below_fd(fd), REAL(ftruncate)(fd, size)); }
int ftruncate64(int fd, off64_t size) { AROUND(CHANGES, below_fd(fd), REAL(ftruncate64)(fd, size)); }
int rename(const char *old, const char *new) { AROUND(CHANGES, below(AT_FDCWD, new), REAL(rename)(old, new)); }
int renameat(int a, const char *old, int b, const char *new) { AROUND(CHANGES, below(b, new), REAL(renameat)(a, old, b, new)); }
int renameat2(int a, const char *old, int b, const char *new, unsigned int how) { AROUND(CHANGES, below(b, new), REAL(renameat2)(a, old, b, new, how)); }
int link(const char *old, const char *new) { AROUND(CHANGES, below(AT_FDCWD, new), REAL(link)(old, new)); }
int linkat(int a, const char *old, int b, const char *new, int how) { AROUND(CHANGES, below(b, new), REAL(linkat)(a, old, b, new, how)); }
int unlink(const char *path) { AROUND(CHANGES, below(AT_FDCWD, path), REAL(unlink)(path)); }
int unlinkat(int dir, const char *path, int how) { AROUND(CHANGES, below(dir, path), REAL(unlinkat)(dir, path, how)); }
int mkdir(const char *path, mode_t mode) { AROUND(CHANGES, below(AT_FDCWD, path), REAL(mkdir)(path, mode)); }
int mkdirat(int dir, const char *path, mode_t mode) { AROUND(CHANGES, below(dir, path), REAL(mkdirat)(dir, path, mode)); }
int rmdir(const char *path) { AROUND(CHANGES, below(AT_FDCWD, path), REAL(rmdir)(path)); }
int fchmod(int fd, mode_t mode) { AROUND(CHANGES, below_fd(fd), REAL(fchmod)(fd, mode)); }

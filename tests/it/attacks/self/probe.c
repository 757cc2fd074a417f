/* What needs a call of the kernel that no program of the system makes: one word, its arguments, and an end with code 0
 * if the call was let through. The tests compile it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* The attack could not even be tried. */
#define UNFIT 120

static int verdict(int through) { return through ? 0 : 1; }

/* Unlike an attach this does not stop the other process, and the end of this one takes it back. */
static int trace(pid_t pid) { return verdict(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0); }

static int read_memory(pid_t pid) {
    char here;
    struct iovec to = {&here, 1}, from = {(void *)0x10000, 1};
    /* Nothing is mapped there; whoever may not read is told so first. */
    return verdict(process_vm_readv(pid, &to, 1, &from, 1, 0) == 1 || errno == EFAULT);
}

static int take_descriptor(pid_t pid) {
    int process = syscall(SYS_pidfd_open, pid, 0);
    for (int number = 0; number < 64; number++)
        if (syscall(SYS_pidfd_getfd, process, number, 0) >= 0) return 0;
    return 1;
}

/* Whether the other process is gone within a second, its parent's not having noticed aside. */
static int has_ended(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int round = 0; round < 100; round++) {
        FILE *file = fopen(path, "r");
        if (!file) return 1;
        char *read = fgets(line, sizeof line, file);
        fclose(file);
        char *state = read ? strrchr(line, ')') : NULL;
        if (state && (state[2] == 'Z' || state[2] == 'X')) return 1;
        nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
    }
    return 0;
}

/* A signal that the kernel sends for us when there is something to read. */
static int signal_by_input(pid_t pid) {
    int ends[2];
    if (pipe(ends)) return UNFIT;
    if (fcntl(ends[0], F_SETOWN, pid) || fcntl(ends[0], F_SETSIG, SIGKILL)) return 1;
    if (fcntl(ends[0], F_SETFL, O_ASYNC)) return UNFIT;
    if (write(ends[1], "x", 1) != 1) return UNFIT;
    return verdict(has_ended(pid));
}

static int change_limits(pid_t pid) {
    struct rlimit now;
    if (prlimit(pid, RLIMIT_CORE, NULL, &now)) return 1;
    return verdict(prlimit(pid, RLIMIT_CORE, &now, NULL) == 0);
}

/* Into the namespaces of another process, by every way there is, and then a program. */
static int enter_and_run(pid_t pid, char **program) {
    const char *names[] = {"user", "mnt", "pid"};
    char path[64];
    int process = syscall(SYS_pidfd_open, pid, 0);
    setns(process, CLONE_NEWUSER | CLONE_NEWNS);
    setns(process, CLONE_NEWNS);
    for (int name = 0; name < 3; name++) {
        snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, names[name]);
        int space = open(path, O_RDONLY);
        if (space >= 0) setns(space, 0);
    }
    /* The user namespace above, and the one that owns the mounts (linux/nsfs.h). */
    int own = open("/proc/self/ns/user", O_RDONLY), above = ioctl(own, 0xb702);
    if (above >= 0) setns(above, CLONE_NEWUSER);
    int mounts = open("/proc/self/ns/mnt", O_RDONLY), owner = ioctl(mounts, 0xb701);
    if (owner >= 0) setns(owner, CLONE_NEWUSER);
    execvp(program[0], program);
    return UNFIT;
}

static int uncover_and_run(const char *cover, char **program) {
    umount2(cover, MNT_DETACH);
    execvp(program[0], program);
    return UNFIT;
}

/* A directory by its number alone, without a path that something covers: what of ext4, xfs and tmpfs a handle is made
 * of can be guessed, or comes from an earlier look. The third argument is where a look may find it. */
static int open_by_handle(const char *below, const char *handle_file, const char *inside) {
    struct { struct file_handle head; unsigned char bytes[MAX_HANDLE_SZ]; } handle;
    int file = open(handle_file, O_RDONLY);
    if (read(file, &handle, sizeof handle) < (ssize_t)sizeof handle.head) return UNFIT;
    int root = open(below, O_RDONLY | O_DIRECTORY);
    int found = open_by_handle_at(root, &handle.head, O_RDONLY | O_DIRECTORY);
    return verdict(found >= 0 && faccessat(found, inside, R_OK, 0) == 0);
}

static int write_handle(const char *path, const char *handle_file) {
    struct { struct file_handle head; unsigned char bytes[MAX_HANDLE_SZ]; } handle;
    int mount;
    handle.head.handle_bytes = MAX_HANDLE_SZ;
    if (name_to_handle_at(AT_FDCWD, path, &handle.head, &mount, 0)) return 1;
    int file = open(handle_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    return verdict(write(file, &handle, sizeof handle) == (ssize_t)sizeof handle);
}

static int connect_to(const char *name, int is_abstract) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length + 2 > sizeof address.sun_path) return UNFIT;
    memcpy(address.sun_path + is_abstract, name, length);
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + length + 1;
    return verdict(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, size) == 0);
}

static int find_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int through = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        int number = atoi(entry->d_name);
        if (number > 2 && number != dirfd(directory)) through = 1;
    }
    return verdict(through);
}

#define SESSION_KEYRING (-3)
#define JOIN_SESSION_KEYRING 1
#define SEARCH 10
#define READ 11

static int with_key(const char *name, char **program) {
    syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL);
    if (syscall(SYS_add_key, "user", name, "secret", 6, SESSION_KEYRING) < 0) return UNFIT;
    execvp(program[0], program);
    return UNFIT;
}

static int read_key(const char *name) {
    char secret[16];
    long key = syscall(SYS_keyctl, SEARCH, SESSION_KEYRING, "user", name, 0);
    return verdict(key >= 0 && syscall(SYS_keyctl, READ, key, secret, sizeof secret) == 6);
}

static int push_key(const char *path) {
    int terminal = open(path, O_RDWR | O_NOCTTY);
    if (terminal < 0) return 1;
    if (ioctl(terminal, TIOCSTI, "\n") == 0) return 0;
    setsid();
    ioctl(terminal, TIOCSCTTY, 1);
    return verdict(ioctl(terminal, TIOCSTI, "\n") == 0);
}

int main(int count, char **words) {
    if (count < 2) return UNFIT;
    const char *word = words[1], *first = count > 2 ? words[2] : "";
    pid_t pid = atoi(first);
    if (!strcmp(word, "trace")) return trace(pid);
    if (!strcmp(word, "read-memory")) return read_memory(pid);
    if (!strcmp(word, "take-descriptor")) return take_descriptor(pid);
    if (!strcmp(word, "signal-by-input")) return signal_by_input(pid);
    if (!strcmp(word, "change-limits")) return change_limits(pid);
    if (!strcmp(word, "connect")) return connect_to(first, 0);
    if (!strcmp(word, "connect-abstract")) return connect_to(first, 1);
    if (!strcmp(word, "find-descriptors")) return find_descriptors();
    if (!strcmp(word, "read-key")) return read_key(first);
    if (!strcmp(word, "push-key")) return push_key(first);
    if (!strcmp(word, "is-root")) return verdict(geteuid() == 0);
    if (!strcmp(word, "write-handle") && count > 3) return write_handle(first, words[3]);
    if (!strcmp(word, "open-by-handle") && count > 4) return open_by_handle(first, words[3], words[4]);
    if (!strcmp(word, "enter") && count > 3) return enter_and_run(pid, words + 3);
    if (!strcmp(word, "uncover") && count > 3) return uncover_and_run(first, words + 3);
    if (!strcmp(word, "with-key") && count > 3) return with_key(first, words + 3);
    return UNFIT;
}

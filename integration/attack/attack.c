/*
 * attack NAME [ARGS...]: one attempt to get through a boundary.
 *
 * Prints one line and exits: "DID ..." (0) when the attempt worked, "HELD
 * errno-name" (10) when the kernel refused it, "UNSUPPORTED ..." (11) when
 * this kernel can't do it at all. The tests run each attempt twice, inside
 * (it must be held) and outside (it must work), so an attempt that never
 * works anywhere proves nothing and is reported.
 *
 * Nothing here touches any process, file or socket but those named on the
 * command line; "all" means all processes of a pid namespace of its own.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int did(const char *what) { printf("DID %s\n", what); return 0; }
static int held(void) { printf("HELD %s\n", strerrorname_np(errno)); return 10; }
static int unsupported(const char *why) { printf("UNSUPPORTED %s\n", why); return 11; }

/* verdict of a call that returned r: a missing call can't tell unless outside. */
static int verdict(long r, const char *what) { return r >= 0 ? did(what) : held(); }

/* ---- files ---- */

static int a_read(char **v) {
	char buf[4096];
	int fd = open(v[0], O_RDONLY | O_NONBLOCK);
	if (fd < 0) return held();
	ssize_t n = read(fd, buf, sizeof buf - 1);
	if (n < 0) return held();
	buf[n] = 0;
	if (v[1] ? strstr(buf, v[1]) != NULL : n > 0) return did("read it");
	errno = ENODATA;
	return held();
}

static int a_list(char **v) {
	DIR *d = opendir(v[0]);
	struct dirent *e;
	if (!d) return held();
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) return did(e->d_name);
	errno = ENODATA;
	return held();
}

static int a_write(char **v) {
	int fd = open(v[0], O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0) return held();
	return verdict(write(fd, "attack\n", 7), "wrote it");
}

/* openw: only opens for writing, for files whose content must not change. */
static int a_openw(char **v) { return verdict(open(v[0], O_WRONLY), "opened it for writing"); }

static int a_rewrite(char **v) { /* writes back what it reads */
	char buf[256];
	int fd = open(v[0], O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf);
	if (n <= 0) return held();
	fd = open(v[0], O_WRONLY);
	if (fd < 0) return held();
	return verdict(write(fd, buf, n), "wrote it");
}

static int a_mkdir(char **v) { return verdict(mkdir(v[0], 0755), "made it"); }
static int a_unlink(char **v) { return verdict(unlink(v[0]), "removed it"); }
static int a_rmdir(char **v) { return verdict(rmdir(v[0]), "removed it"); }
static int a_rename(char **v) { return verdict(rename(v[0], v[1]), "renamed it"); }
static int a_exchange(char **v) {
	return verdict(renameat2(AT_FDCWD, v[0], AT_FDCWD, v[1], RENAME_EXCHANGE), "exchanged them");
}
static int a_link(char **v) { return verdict(link(v[0], v[1]), "linked it"); }
static int a_chmod(char **v) { return verdict(chmod(v[0], 0777), "changed its mode"); }
static int a_setuid(char **v) { return verdict(chmod(v[0], 04755), "set its set-user-ID bit"); }
/* A new file with the bit, by each call that makes one. */
static int a_makesetuid(char **v) {
	const char *how = v[0], *path = v[1];
	int made = -1;
	umask(0);
	if (!strcmp(how, "open")) made = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_EXCL | O_RDWR, 04755);
	else if (!strcmp(how, "creat")) made = creat(path, 04755);
	else if (!strcmp(how, "mknod")) made = mknod(path, S_IFREG | 04755, 0);
	else if (!strcmp(how, "openat2")) {
		unsigned long long open_how[3] = {O_CREAT | O_EXCL | O_RDWR, 04755, 0};
		made = syscall(437, AT_FDCWD, path, open_how, sizeof open_how);
	} else if (!strcmp(how, "tmpfile")) {
		char link[64];
		int fd = open(v[2], O_TMPFILE | O_RDWR, 04755);
		if (fd < 0 && errno == EOPNOTSUPP) return unsupported("its file system has no files without a name");
		if (fd < 0) return held();
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		made = linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
	}
	return verdict(made, "made a set-user-ID file");
}
static int a_truncate(char **v) { return verdict(truncate(v[0], 0), "truncated it"); }
static int a_utimes(char **v) { return verdict(utimensat(AT_FDCWD, v[0], NULL, 0), "changed its times"); }
static int a_xattr(char **v) {
	long r = syscall(SYS_setxattr, v[0], "user.attack", "x", 1L, 0);
	if (r < 0 && errno == EOPNOTSUPP) return unsupported("no extended attributes here");
	return verdict(r, "set an attribute");
}
static int a_mknod(char **v) { return verdict(mknod(v[0], S_IFBLK | 0600, 0x0100), "made a device"); }
static int a_fifo(char **v) {
	int fd = open(v[0], O_WRONLY | O_NONBLOCK);
	if (fd < 0) return held();
	return verdict(write(fd, "attack\n", 7), "wrote to it");
}

static int a_handle(char **v) {
	struct file_handle *h = calloc(1, sizeof *h + 128);
	int mnt, fd;
	h->handle_bytes = 128;
	if (name_to_handle_at(AT_FDCWD, v[0], h, &mnt, 0) < 0)
		return errno == EOPNOTSUPP ? unsupported("its file system has no handles, as an overlay") : held();
	fd = open(v[0], O_RDONLY | O_DIRECTORY);
	if (fd < 0) fd = open("/", O_RDONLY);
	return verdict(syscall(SYS_open_by_handle_at, fd, h, O_RDONLY), "opened by handle");
}

/* ---- descriptors ---- */

static int a_fd(char **v) {
	struct stat st;
	return verdict(fstat(atoi(v[0]), &st), "it is open");
}

static int a_fds(char **v) {
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	(void)v;
	if (!d) return held();
	while ((e = readdir(d))) {
		int n = atoi(e->d_name);
		if (e->d_name[0] != '.' && n > 2 && n != dirfd(d)) return did(e->d_name);
	}
	errno = ENOENT;
	return held();
}

/* ---- sockets ---- */

static struct sockaddr_un un(const char *path, socklen_t *len) {
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	if (n > sizeof a.sun_path - 1) { fputs("path too long\n", stderr); exit(2); }
	memcpy(a.sun_path, path, n);
	*len = offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '@' ? 0 : 1);
	if (path[0] == '@') a.sun_path[0] = 0;
	return a;
}

/* socketpair TYPE PATH: re-aims one end of a pair at a socket of the host. */
static int a_socketpair(char **v) {
	int sv[2], type = (int)strtol(v[0], NULL, 0);
	socklen_t len;
	struct sockaddr_un a = un(v[1], &len);
	if (socketpair(AF_UNIX, type, 0, sv) < 0) return held();
	if (connect(sv[0], (struct sockaddr *)&a, len) < 0) return held();
	return verdict(send(sv[0], "attack", 6, MSG_NOSIGNAL), "reached it");
}

static int a_unix(char **v) {
	int fd = socket(AF_UNIX, (int)strtol(v[0], NULL, 0), 0);
	socklen_t len;
	struct sockaddr_un a = un(v[1], &len);
	if (fd < 0) return held();
	if (connect(fd, (struct sockaddr *)&a, len) < 0) return held();
	return verdict(send(fd, "attack", 6, MSG_NOSIGNAL), "reached it");
}

static int a_socket(char **v) {
	int fd = socket((int)strtol(v[0], NULL, 0), (int)strtol(v[1], NULL, 0), (int)strtol(v[2], NULL, 0));
	if (fd < 0 && (errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
		return unsupported(strerrorname_np(errno));
	return verdict(fd, "made it");
}

/* socket64: the same with rubbish in the upper half of each argument. */
static int a_socket64(char **v) {
	unsigned long up = 1UL << 32;
	return verdict(syscall(SYS_socket, strtoul(v[0], NULL, 0) | up, strtoul(v[1], NULL, 0) | up, strtoul(v[2], NULL, 0) | up), "made it");
}

static int a_tcp(char **v) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(v[1]))};
	struct timeval tv = {3, 0};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, v[0], &a.sin_addr);
	if (fd < 0) return held();
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
	return verdict(connect(fd, (struct sockaddr *)&a, sizeof a), "connected");
}

static int a_udp(char **v) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(v[1]))};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	inet_pton(AF_INET, v[0], &a.sin_addr);
	if (fd < 0) return held();
	return verdict(sendto(fd, "attack", 6, 0, (struct sockaddr *)&a, sizeof a), "sent it");
}

/* ---- terminal ---- */

static int a_ioctl(char **v) { /* ioctl REQUEST, whose low half is a real one */
	char c = 0;
	return verdict(syscall(SYS_ioctl, 0, strtoul(v[0], NULL, 0), &c), "the terminal took it");
}

/* ---- namespaces and mounts ---- */

static int child(long pid, const char *what) {
	if (pid == 0) _exit(0);
	if (pid > 0) waitpid(pid, NULL, __WALL);
	return verdict(pid, what);
}

static int a_clone3(char **v) {
	struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; } a = {0};
	a.flags = strtoull(v[0], NULL, 0);
	a.exit_signal = SIGCHLD;
	return child(syscall(SYS_clone3, &a, sizeof a), "made a namespace");
}
static int a_clone(char **v) { return child(syscall(SYS_clone, strtoul(v[0], NULL, 0) | SIGCHLD, 0L, 0L, 0L, 0L), "made a namespace"); }
static int a_unshare(char **v) { return verdict(syscall(SYS_unshare, strtoul(v[0], NULL, 0)), "made a namespace"); }
static int a_setns(char **v) {
	int fd = open(v[0], O_RDONLY);
	if (fd < 0) return held();
	return verdict(setns(fd, 0), "joined it");
}
static int a_mount(char **v) { return verdict(mount("none", v[0], "tmpfs", 0, NULL), "mounted"); }
static int a_remount(char **v) { return verdict(mount(NULL, v[0], NULL, MS_REMOUNT | MS_BIND, NULL), "remounted"); }
static int a_umount(char **v) { return verdict(umount2(v[0], MNT_DETACH), "unmounted"); }
static int a_fsopen(char **v) { (void)v; return verdict(syscall(SYS_fsopen, "tmpfs", 0L), "opened a file system"); }
static int a_opentree(char **v) { return verdict(syscall(SYS_open_tree, AT_FDCWD, v[0], 1L /* OPEN_TREE_CLONE */), "cloned a mount"); }
static int a_chroot(char **v) { return verdict(chroot(v[0]), "changed the root"); }

/* ---- processes ---- */

static int a_kill(char **v) { return verdict(kill(atoi(v[0]), 0), "could signal it"); }

static int one_process(pid_t pid, const char *how) {
	if (!strcmp(how, "attach")) {
		if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0) return 0;
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
		return 1;
	}
	if (!strcmp(how, "mem")) {
		char p[64];
		snprintf(p, sizeof p, "/proc/%d/mem", pid);
		return open(p, O_RDWR) >= 0;
	}
	if (!strcmp(how, "environ")) {
		char p[64], b[1];
		snprintf(p, sizeof p, "/proc/%d/environ", pid);
		int fd = open(p, O_RDONLY);
		return fd >= 0 && read(fd, b, 1) > 0;
	}
	if (!strcmp(how, "fd")) {
		int p = syscall(SYS_pidfd_open, pid, 0), i;
		for (i = 0; p >= 0 && i < 16; i++)
			if (syscall(SYS_pidfd_getfd, p, i, 0) >= 0) return 1;
		return 0;
	}
	fputs("how?\n", stderr);
	exit(2);
}

/* process HOW PID|all: takes hold of a process that isn't ours. */
static int a_process(char **v) {
	char own[64];
	if (strcmp(v[1], "all")) {
		errno = 0;
		return one_process(atoi(v[1]), v[0]) ? did("took hold of it") : held();
	}
	if (readlink("/proc/self", own, sizeof own - 1) < 0) return held();
	DIR *d = opendir("/proc");
	struct dirent *e;
	int seen = 0;
	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);
		if (pid <= 0 || pid == getpid()) continue;
		seen++;
		if (one_process(pid, v[0])) { char s[64]; snprintf(s, sizeof s, "took hold of %d", pid); return did(s); }
	}
	if (!seen) errno = ESRCH;
	return held();
}

static int a_euid(char **v) { (void)v; return geteuid() == 0 && getuid() != 0 ? did("I am root") : (errno = EPERM, held()); }
static int a_exec(char **v) { execv(v[0], v); return held(); }

/* gain: a fresh memfd copy of nothing we own may not gain anything either. */
static int a_shm(char **v) {
	int id = shmget((key_t)strtol(v[0], NULL, 0), 0, 0);
	if (id < 0) return held();
	return verdict((long)shmat(id, NULL, SHM_RDONLY) == -1 ? -1 : 0, "attached it");
}
static int a_shmput(char **v) {
	int id = shmget((key_t)strtol(v[0], NULL, 0), 4096, IPC_CREAT | 0600);
	return verdict(id, "made it");
}
static int a_shmdel(char **v) {
	int id = shmget((key_t)strtol(v[0], NULL, 0), 0, 0);
	return id < 0 ? held() : verdict(shmctl(id, IPC_RMID, NULL), "removed it");
}

/* ---- kernel surface ---- */

static int a_call(char **v) { /* call NUMBER ARGS...: a refused number answers EPERM or ENOSYS */
	long a[6] = {0};
	int i;
	for (i = 0; i < 6 && v[i + 1]; i++) a[i] = strtol(v[i + 1], NULL, 0);
	long r = syscall(strtol(v[0], NULL, 0), a[0], a[1], a[2], a[3], a[4], a[5]);
	if (r < 0 && errno != EPERM && errno != ENOSYS) return did("the kernel looked at it");
	return verdict(r, "the kernel did it");
}

static int a_keyring(char **v) {
	(void)v;
	return verdict(syscall(SYS_add_key, "user", "attack", "x", 1L, -3 /* session */), "added a key");
}

static int a_persona(char **v) {
	return verdict(personality(strtoul(v[0], NULL, 0)), "changed personality");
}

#if defined(__x86_64__)
static int sub(void (*f)(void)) { /* runs f in a child, which a filter may kill */
	int st;
	pid_t p = fork();
	if (p == 0) { f(); _exit(99); }
	waitpid(p, &st, 0);
	if (WIFSIGNALED(st)) { printf("HELD SIG%s\n", sigabbrev_np(WTERMSIG(st))); return 10; }
	if (WEXITSTATUS(st) == 38) return unsupported("ENOSYS");
	return WEXITSTATUS(st) == 0 ? did("the call was made") : (errno = EPERM, held());
}
static void x32(void) {
	long r = syscall(0x40000000L | SYS_getpid);
	_exit(r > 0 ? 0 : errno == ENOSYS ? 38 : 1);
}
static void int80(void) {
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory");
	_exit(r > 0 ? 0 : r == -ENOSYS ? 38 : 1);
}
static int a_x32(char **v) { (void)v; return sub(x32); }
static int a_int80(char **v) { (void)v; return sub(int80); }
#endif

/* ---- what the host has replaced ---- */

static void woken(int sig) { (void)sig; }

/* wakes itself, whoever stops it, time and again: 8 timers, each MS and a bit. */
static int wake_up(long ms) {
	struct sigaction a = {.sa_handler = woken, .sa_flags = SA_RESTART};
	sigaction(SIGCONT, &a, NULL);
	for (long i = 0; ms && i < 8; i++) {
		struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
		struct timespec each = {.tv_nsec = ms * 1000000 + i * 370000};
		struct itimerspec s = {each, each};
		timer_t t;
		if (timer_create(CLOCK_MONOTONIC, &e, &t) || timer_settime(t, 0, &s, NULL)) return -1;
	}
	return 0;
}

static long long clock_ns(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/*
 * keep PATH READY HOW MS: gets hold of what the host puts at PATH after READY was
 * made, by HOW it opens it, and a second later writes "planted" by that; woken
 * each MS milliseconds unless that is 0. Before it writes it says how long it
 * has had hold of it, and what time it is, in nanoseconds.
 */
static int a_keep(char **v) {
	int how = !strcmp(v[2], "path") ? O_PATH : O_RDONLY, fd = -1, dir, out;
	struct stat old, now;
	char by[64];
	long long had = 0, seen = 0, left;
	if (stat(v[0], &old) || wake_up(atol(v[3])) || close(open(v[1], O_WRONLY | O_CREAT, 0644))) return held();
	dir = S_ISDIR(old.st_mode);
	for (time_t end = time(NULL) + 4; time(NULL) < end; close(fd), fd = -1) {
		fd = open(v[0], how);
		had = clock_ns(CLOCK_MONOTONIC);
		if (fd < 0 || fstat(fd, &now) || now.st_ino == old.st_ino) continue;
		if (!access(v[0], W_OK)) break;
		if (!seen) seen = had;
		if (had - seen > 1000000000LL) end = 0; /* it came, and was covered before it could be had */
	}
	if (fd < 0) { errno = ETIMEDOUT; return held(); }
	while ((left = had + 1000000000LL - clock_ns(CLOCK_MONOTONIC)) > 0) poll(NULL, 0, left / 1000000 + 1); /* SIGCONT interrupts it */
	printf("kept %lld %lld\n", clock_ns(CLOCK_MONOTONIC) - had, clock_ns(CLOCK_REALTIME));
	fflush(stdout);
	snprintf(by, sizeof by, "/proc/self/fd/%d%s", fd, dir ? "/planted" : "");
	out = open(by, O_WRONLY | O_APPEND | (dir ? O_CREAT : 0), 0755);
	return verdict(out < 0 ? out : write(out, "#planted\n", 9), "wrote to it");
}

/* ---- helpers for the tests ---- */

/* linger FILE: says in FILE that it runs, and stays until it is killed. */
static int a_linger(char **v) {
	int fd, i;
	for (i = 0; i < 2; i++)
		if (fork() == 0) { setsid(); break; }
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	fd = open(v[0], O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || write(fd, "running\n", 8) < 0) return held();
	for (;;) pause();
}

/* await FILE NAME [ARGS]: waits for FILE, then makes the attempt. */
static int attempt(char **v);
static int a_await(char **v) {
	int i;
	for (i = 0; i < 500; i++) {
		if (access(v[0], F_OK) == 0) return attempt(v + 1);
		poll(NULL, 0, 20);
	}
	errno = ETIMEDOUT;
	return held();
}

static const struct { const char *name; int args; int (*run)(char **); } attacks[] = {
	{"read", 1, a_read}, {"list", 1, a_list}, {"write", 1, a_write}, {"openw", 1, a_openw}, {"rewrite", 1, a_rewrite},
	{"mkdir", 1, a_mkdir}, {"unlink", 1, a_unlink}, {"rmdir", 1, a_rmdir}, {"rename", 2, a_rename}, {"exchange", 2, a_exchange},
	{"link", 2, a_link}, {"chmod", 1, a_chmod}, {"setuid", 1, a_setuid}, {"makesetuid", 3, a_makesetuid}, {"truncate", 1, a_truncate}, {"utimes", 1, a_utimes}, {"xattr", 1, a_xattr},
	{"mknod", 1, a_mknod}, {"fifo", 1, a_fifo}, {"handle", 1, a_handle},
	{"fd", 1, a_fd}, {"fds", 0, a_fds},
	{"socketpair", 2, a_socketpair}, {"unix", 2, a_unix}, {"socket", 3, a_socket}, {"socket64", 3, a_socket64},
	{"tcp", 2, a_tcp}, {"udp", 2, a_udp},
	{"ioctl", 1, a_ioctl},
	{"clone3", 1, a_clone3}, {"clone", 1, a_clone}, {"unshare", 1, a_unshare}, {"setns", 1, a_setns},
	{"mount", 1, a_mount}, {"remount", 1, a_remount}, {"umount", 1, a_umount}, {"fsopen", 0, a_fsopen},
	{"opentree", 1, a_opentree}, {"chroot", 1, a_chroot},
	{"kill", 1, a_kill}, {"process", 2, a_process}, {"euid", 0, a_euid}, {"exec", 1, a_exec},
	{"shm", 1, a_shm}, {"shmput", 1, a_shmput}, {"shmdel", 1, a_shmdel},
	{"call", 1, a_call}, {"keyring", 0, a_keyring}, {"persona", 1, a_persona},
#if defined(__x86_64__)
	{"x32", 0, a_x32}, {"int80", 0, a_int80},
#endif
	{"keep", 4, a_keep}, {"linger", 1, a_linger}, {"await", 2, a_await},
};

static int attempt(char **v) {
	size_t i;
	int n = 0;
	while (v[n]) n++;
	for (i = 0; i < sizeof attacks / sizeof *attacks; i++)
		if (n && !strcmp(v[0], attacks[i].name) && n - 1 >= attacks[i].args) return attacks[i].run(v + 1);
	fprintf(stderr, "attack: no such attempt, or too few arguments: %s\n", n ? v[0] : "");
	return 2;
}

int main(int argc, char **argv) {
	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	return attempt(argv + 1);
}

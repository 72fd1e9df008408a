/*
 * The few functions of the C library that the launcher and the front call, straight upon the kernel.
 *
 * A C library asks the processor dozens of questions before `main`. In a virtual machine each of them is an exit to the
 * host, and together they take longer than everything the launcher does before its program runs. Linked with this file
 * and without a library (-nostdlib) it starts in a third of the time. Where this does not link, the library is used.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words);

#if defined __x86_64__
static long enter(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

__asm__(".globl _start\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call begin\n");
#elif defined __aarch64__
static long enter(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}

__asm__(".globl _start\n"
	"_start:\n"
	"	mov x29, #0\n"
	"	mov x30, #0\n"
	"	mov x0, sp\n"
	"	bl begin\n");
#else
#error "no way into the kernel is known for this machine"
#endif

_Noreturn void _exit(int code)
{
	for (;;)
		enter(SYS_exit_group, code, 0, 0, 0, 0, 0);
}

char **environ;

/* The kernel leaves the number of words on the stack, behind it the words, a zero, and the environment. */
__attribute__((used)) _Noreturn void begin(long *stack)
{
	environ = (char **)(stack + 1 + stack[0] + 1);
	_exit(main((int)stack[0], (char **)(stack + 1)));
}

/* ---- Errors, and calls that are no more than that ---------------------------------------------------------------- */

static int error;

int *__errno_location(void)
{
	return &error;
}

static long returned(long result)
{
	if (result < 0 && result > -4096) {
		error = (int)-result;
		return -1;
	}
	return result;
}

#define CALL(number, a, b, c, d, e, f) \
	returned(enter(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))

long syscall(long number, ...)
{
	va_list words;
	long a[6];

	va_start(words, number);
	for (int each = 0; each < 6; each++)
		a[each] = va_arg(words, long);
	va_end(words);
	return CALL(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int bind(int socket, const struct sockaddr *address, socklen_t length)
{
	return (int)CALL(SYS_bind, socket, address, length, 0, 0, 0);
}

int chdir(const char *path)
{
	return (int)CALL(SYS_chdir, path, 0, 0, 0, 0, 0);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return (int)CALL(SYS_clock_gettime, clock, now, 0, 0, 0, 0);
}

int close(int descriptor)
{
	return (int)CALL(SYS_close, descriptor, 0, 0, 0, 0, 0);
}

int connect(int socket, const struct sockaddr *address, socklen_t length)
{
	return (int)CALL(SYS_connect, socket, address, length, 0, 0, 0);
}

int dup3(int from, int to, int flags)
{
	return (int)CALL(SYS_dup3, from, to, flags, 0, 0, 0);
}

int execve(const char *path, char *const words[], char *const variables[])
{
	return (int)CALL(SYS_execve, path, words, variables, 0, 0, 0);
}

int faccessat(int directory, const char *path, int rights, int flags)
{
	(void)flags; /* the kernel's own call has none */
	return (int)CALL(SYS_faccessat, directory, path, rights, 0, 0, 0);
}

int fchdir(int descriptor)
{
	return (int)CALL(SYS_fchdir, descriptor, 0, 0, 0, 0, 0);
}

int fchmod(int descriptor, mode_t mode)
{
	return (int)CALL(SYS_fchmod, descriptor, mode, 0, 0, 0, 0);
}

int fcntl(int descriptor, int command, ...)
{
	va_list words;

	va_start(words, command);
	long argument = va_arg(words, long);
	va_end(words);
	return (int)CALL(SYS_fcntl, descriptor, command, argument, 0, 0, 0);
}

int flock(int descriptor, int operation)
{
	return (int)CALL(SYS_flock, descriptor, operation, 0, 0, 0, 0);
}

pid_t fork(void)
{
	return (pid_t)CALL(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
}

int fstat(int descriptor, struct stat *found)
{
	return (int)CALL(SYS_fstat, descriptor, found, 0, 0, 0, 0);
}

int futimens(int descriptor, const struct timespec times[2])
{
	return (int)CALL(SYS_utimensat, descriptor, 0, times, 0, 0, 0);
}

gid_t getegid(void)
{
	return (gid_t)CALL(SYS_getegid, 0, 0, 0, 0, 0, 0);
}

uid_t geteuid(void)
{
	return (uid_t)CALL(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

gid_t getgid(void)
{
	return (gid_t)CALL(SYS_getgid, 0, 0, 0, 0, 0, 0);
}

uid_t getuid(void)
{
	return (uid_t)CALL(SYS_getuid, 0, 0, 0, 0, 0, 0);
}

pid_t getpid(void)
{
	return (pid_t)CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

pid_t getppid(void)
{
	return (pid_t)CALL(SYS_getppid, 0, 0, 0, 0, 0, 0);
}

int getrlimit(__rlimit_resource_t which, struct rlimit *limit)
{
	return (int)CALL(SYS_prlimit64, 0, which, 0, limit, 0, 0);
}

int setrlimit(__rlimit_resource_t which, const struct rlimit *limit)
{
	return (int)CALL(SYS_prlimit64, 0, which, limit, 0, 0, 0);
}

int getsockopt(int socket, int level, int option, void *restrict value, socklen_t *restrict length)
{
	return (int)CALL(SYS_getsockopt, socket, level, option, value, length, 0);
}

int ioctl(int descriptor, unsigned long request, ...)
{
	va_list words;

	va_start(words, request);
	long argument = va_arg(words, long);
	va_end(words);
	return (int)CALL(SYS_ioctl, descriptor, request, argument, 0, 0, 0);
}

int isatty(int descriptor)
{
	char settings[64];

	return ioctl(descriptor, 0x5401 /* TCGETS */, settings) == 0;
}

int kill(pid_t process, int number)
{
	return (int)CALL(SYS_kill, process, number, 0, 0, 0, 0);
}

int raise(int number)
{
	return kill((pid_t)CALL(SYS_getpid, 0, 0, 0, 0, 0, 0), number); /* there is one thread only */
}

int listen(int socket, int backlog)
{
	return (int)CALL(SYS_listen, socket, backlog, 0, 0, 0, 0);
}

int memfd_create(const char *name, unsigned flags)
{
	return (int)CALL(SYS_memfd_create, name, flags, 0, 0, 0, 0);
}

int mkdirat(int directory, const char *path, mode_t mode)
{
	return (int)CALL(SYS_mkdirat, directory, path, mode, 0, 0, 0);
}

void *mmap(void *where, size_t length, int rights, int flags, int descriptor, off_t offset)
{
	return (void *)CALL(SYS_mmap, where, length, rights, flags, descriptor, offset);
}

int mount(const char *source, const char *path, const char *kind, unsigned long flags, const void *data)
{
	return (int)CALL(SYS_mount, source, path, kind, flags, data, 0);
}

int openat(int directory, const char *path, int flags, ...)
{
	va_list words;

	va_start(words, flags);
	long mode = va_arg(words, long);
	va_end(words);
	return (int)CALL(SYS_openat, directory, path, flags, mode, 0, 0);
}

int open(const char *path, int flags, ...)
{
	return openat(AT_FDCWD, path, flags, 0L); /* the launcher creates nothing by this one */
}

int pipe2(int ends[2], int flags)
{
	return (int)CALL(SYS_pipe2, ends, flags, 0, 0, 0, 0);
}

int poll(struct pollfd *watched, nfds_t count, int milliseconds)
{
	struct timespec patience = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

	return (int)CALL(SYS_ppoll, watched, count, milliseconds < 0 ? NULL : &patience, 0, 0, 0);
}

int prctl(int option, ...)
{
	va_list words;
	long a[4];

	va_start(words, option);
	for (int each = 0; each < 4; each++)
		a[each] = va_arg(words, long);
	va_end(words);
	return (int)CALL(SYS_prctl, option, a[0], a[1], a[2], a[3], 0);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset)
{
	return CALL(SYS_pwrite64, descriptor, bytes, length, offset, 0, 0);
}

ssize_t read(int descriptor, void *bytes, size_t length)
{
	return CALL(SYS_read, descriptor, bytes, length, 0, 0, 0);
}

ssize_t readlink(const char *restrict path, char *restrict into, size_t room)
{
	return CALL(SYS_readlinkat, AT_FDCWD, path, into, room, 0, 0);
}

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	return CALL(SYS_recvmsg, socket, message, flags, 0, 0, 0);
}

ssize_t write(int descriptor, const void *bytes, size_t length)
{
	return CALL(SYS_write, descriptor, bytes, length, 0, 0, 0);
}

ssize_t send(int socket, const void *bytes, size_t length, int flags)
{
	return CALL(SYS_sendto, socket, bytes, length, flags, 0, 0);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
	return CALL(SYS_sendmsg, socket, message, flags, 0, 0, 0);
}

int setpgid(pid_t process, pid_t group)
{
	return (int)CALL(SYS_setpgid, process, group, 0, 0, 0, 0);
}

pid_t setsid(void)
{
	return (pid_t)CALL(SYS_setsid, 0, 0, 0, 0, 0, 0);
}

int sethostname(const char *name, size_t length)
{
	return (int)CALL(SYS_sethostname, name, length, 0, 0, 0, 0);
}

int socket(int family, int type, int protocol)
{
	return (int)CALL(SYS_socket, family, type, protocol, 0, 0, 0);
}

int symlinkat(const char *target, int directory, const char *path)
{
	return (int)CALL(SYS_symlinkat, target, directory, path, 0, 0, 0);
}

mode_t umask(mode_t mask)
{
	return (mode_t)CALL(SYS_umask, mask, 0, 0, 0, 0, 0);
}

int umount2(const char *path, int flags)
{
	return (int)CALL(SYS_umount2, path, flags, 0, 0, 0, 0);
}

int unshare(int flags)
{
	return (int)CALL(SYS_unshare, flags, 0, 0, 0, 0, 0);
}

pid_t waitpid(pid_t process, int *status, int options)
{
	return (pid_t)CALL(SYS_wait4, process, status, options, 0, 0, 0);
}

/* ---- Signals: the kernel's set of them has 64 bits, the library's more ------------------------------------------- */

#define SET_SIZE 8

int sigemptyset(sigset_t *set)
{
	for (size_t each = 0; each < sizeof set->__val / sizeof set->__val[0]; each++)
		set->__val[each] = 0;
	return 0;
}

int sigaddset(sigset_t *set, int number)
{
	set->__val[0] |= 1UL << (number - 1);
	return 0;
}

int sigismember(const sigset_t *set, int number)
{
	return set->__val[0] >> (number - 1) & 1;
}

int sigfillset(sigset_t *set)
{
	for (size_t each = 0; each < sizeof set->__val / sizeof set->__val[0]; each++)
		set->__val[each] = ~0UL;
	return 0;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
	return (int)CALL(SYS_rt_sigprocmask, how, set, before, SET_SIZE, 0, 0);
}

int sigwaitinfo(const sigset_t *set, siginfo_t *got)
{
	return (int)CALL(SYS_rt_sigtimedwait, set, got, 0, SET_SIZE, 0, 0);
}

int signalfd(int descriptor, const sigset_t *set, int flags)
{
	return (int)CALL(SYS_signalfd4, descriptor, set, SET_SIZE, flags, 0, 0);
}

/* For the default and for ignoring; a handler would need more. */
__sighandler_t signal(int number, __sighandler_t handler)
{
	struct {
		__sighandler_t handler;
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} action = {.handler = handler}, before = {.handler = SIG_DFL};

	return CALL(SYS_rt_sigaction, number, &action, &before, SET_SIZE, 0, 0) < 0 ? SIG_ERR : before.handler;
}

/* ---- Bytes and words --------------------------------------------------------------------------------------------- */

void *memcpy(void *restrict to, const void *restrict from, size_t length)
{
	for (size_t each = 0; each < length; each++)
		((volatile char *)to)[each] = ((const char *)from)[each];
	return to;
}

void *memset(void *to, int byte, size_t length)
{
	for (size_t each = 0; each < length; each++)
		((volatile char *)to)[each] = (char)byte;
	return to;
}

size_t strlen(const char *text)
{
	size_t length = 0;

	while (((const volatile char *)text)[length])
		length++;
	return length;
}

int strcmp(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return (unsigned char)*one - (unsigned char)*other;
}

int strncmp(const char *one, const char *other, size_t length)
{
	for (; length && *one && *one == *other; length--)
		one++, other++;
	return length ? (unsigned char)*one - (unsigned char)*other : 0;
}

char *strchr(const char *text, int letter)
{
	for (; *text; text++)
		if (*text == (char)letter)
			return (char *)text;
	return NULL;
}

char *strrchr(const char *text, int letter)
{
	const char *found = NULL;

	for (; *text; text++)
		if (*text == (char)letter)
			found = text;
	return (char *)found;
}

/* Memory is never given back: the launcher asks for two lists, and then becomes another program. */
void *calloc(size_t count, size_t size)
{
	void *found = mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return found == MAP_FAILED ? NULL : found;
}

long strtol(const char *text, char **end, int base)
{
	long value = 0;

	(void)end, (void)base;
	while (*text >= '0' && *text <= '9')
		value = value * 10 + (*text++ - '0');
	return value;
}

long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}

static void put(char *to, size_t room, int *length, char letter)
{
	if ((size_t)*length + 1 < room)
		to[*length] = letter;
	++*length;
}

static void put_number(char *to, size_t room, int *length, int value)
{
	char digits[12];
	int count = 0;
	unsigned rest = value < 0 ? 0u - (unsigned)value : (unsigned)value;

	do
		digits[count++] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		put(to, room, length, '-');
	while (count)
		put(to, room, length, digits[--count]);
}

/* Knows %d, %s, %.NUMBERs and %.*s: what the launcher says. */
int snprintf(char *to, size_t room, const char *form, ...)
{
	va_list words;
	int length = 0;

	va_start(words, form);
	for (; *form; form++) {
		if (*form != '%') {
			put(to, room, &length, *form);
			continue;
		}
		int most = -1;
		if (*++form == '.') {
			if (*++form == '*') {
				most = va_arg(words, int);
				form++;
			} else {
				most = (int)strtol(form, NULL, 10);
				while (*form >= '0' && *form <= '9')
					form++;
			}
		}
		if (*form == 'd') {
			put_number(to, room, &length, va_arg(words, int));
		} else {
			const char *text = va_arg(words, const char *);
			for (int each = 0; text[each] && (most < 0 || each < most); each++)
				put(to, room, &length, text[each]);
		}
	}
	va_end(words);
	if (room)
		to[(size_t)length < room ? (size_t)length : room - 1] = 0;
	return length;
}

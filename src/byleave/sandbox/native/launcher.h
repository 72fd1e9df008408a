/* What the launcher needs from the kernel, and from headers that may be older than the kernel. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exit codes of our own, as `byleave run` documents them. */
enum { NOT_SET_UP = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

enum { LAST_OF_OURS = 5 };

/* This less a signal is that signal for the whole process group of the program, as a terminal would send it. Of those
 * that wait, the lowest comes first: to stop comes before to go on. */
enum { FOR_ALL = 64 };

/* Places that are mounted anew when a process outside exchanges them, the signal that says so, and what covers them. */
enum { MOST_GUARDS = 8192, MOST_DIRECTORIES = 200, MOST_PINS = 64, NEWS = SIGIO };
#define COVER_DIRECTORY "/.byleave/void"
#define COVER_FILE "/.byleave/blank"

/* Kinds of places, as sandbox/linux/program.py writes them. LINKED: a system path that may be a link, such as /lib. ITSELF: a link
 * that is shown upon itself, and so stays. */
enum { DIRECTORY = 0, OTHER = 1, LINKED = 2, ITSELF = 3 };

/* Beside the kind of a place that is granted: it may have gone meanwhile, and then nothing is granted. */
enum { IF_THERE = 4 };

struct program {
	const uint8_t *now, *end;
};

/* One number per call, the same on every architecture since Linux 5.2. */
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#define MOVE_MOUNT_T_EMPTY_PATH 0x00000040
#endif
#ifndef FSOPEN_CLOEXEC
#define FSOPEN_CLOEXEC 1
#define FSMOUNT_CLOEXEC 1
enum { FSCONFIG_SET_FLAG = 0, FSCONFIG_SET_STRING = 1, FSCONFIG_CMD_CREATE = 6 };
#endif
#ifndef MOUNT_ATTR_RDONLY
struct mount_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};
#endif
#ifndef RESOLVE_NO_SYMLINKS
#define RESOLVE_NO_MAGICLINKS 0x02
#define RESOLVE_NO_SYMLINKS 0x04
#define RESOLVE_IN_ROOT 0x10
struct open_how {
	uint64_t flags, mode, resolve;
};
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef MOUNT_ATTR_NOEXEC
#define MOUNT_ATTR_NOSUID 0x00000002
#define MOUNT_ATTR_NODEV 0x00000004
#define MOUNT_ATTR_NOEXEC 0x00000008
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif
#ifndef SECCOMP_SET_MODE_FILTER
#define SECCOMP_SET_MODE_FILTER 1
#endif

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x00002000
#endif

struct landlock_attributes {
	uint64_t fs, net, scoped;
};

struct landlock_beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

_Noreturn void fail(int code, const char *step, const char *what);
_Noreturn void end_as(int status);
_Noreturn void play(int program, int errors);
int must(int result, const char *step, const char *what);

/* session.c: share a network and a /tmp with the other runs of an agent session. */
extern int session_tmp;   /* a mount that is attached nowhere yet; -1 outside of a session */
extern int session_alive; /* a pipe that ends with the session; the same */
void join_session(int control);
void adopt_session(int control);
_Noreturn void hold_session(void);
int receive_descriptors(int from, int *descriptors, unsigned count);
int send_descriptors(int to, char kind, const int *descriptors, unsigned count);

/* listing.c: keep names that are held out of lists of directories. It has the one descriptor by which the kernel reports
 * calls of the program, and hands notes.c those that are not about lists. */
void hide_name(const char *directory, const char *name);
int prepare_to_list(void);                       /* whether there is anything to hide or to note */
void be_listed(void);                            /* in the program */
int begin_to_list(void);                         /* in its parent: whether there is anything to do */
int attend_listing(siginfo_t *got, int control); /* wait for a signal, and attend to those calls meanwhile */
void be_stopped(const struct sock_fprog *filter); /* in the program: stop at the calls that the filter names */

/* notes.c: report what a program tries to write where all is read-only. */
void prepare_to_note(const char *root);
int is_noting(void);
void note_call(int control, int number, const uint64_t *arguments, pid_t thread);

/* trace.c: watch a program, and report on the control socket what it was refused. */
void prepare_to_trace(const char *calls, size_t length);
void be_traced(void);                   /* in the program: wait until it is watched */
void trace(pid_t program, int control); /* in its parent: watch it, and everything that it starts */
int traced(pid_t who, int status);      /* whether what waitpid said was news of this kind; then it is dealt with */
/* The same for further programs, if there is one that is watched. */
int prepare_another(void);
void be_traced_too(void);
void trace_another(pid_t program);

/* broker.c: run listed programs for a program that may execute nothing else. */
void prepare_to_broker(const char *stand_in, int control);
void open_for_business(void);
int attend(siginfo_t *got);             /* wait for a signal, and serve meanwhile */
int brokered(pid_t ended, int status);  /* whether it was one of these; then it is dealt with */
void stand_in_if_asked(char **words);   /* returns if we are no stand-in */

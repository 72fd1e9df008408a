/*
 * Lists of directories without the names that are held.
 *
 * A name that must not come into being is held by something that exists (sandbox/placeholders.py), and a program that lists
 * the directory would see it. So the kernel stops a program at getdents64, and the init, which gets the news, reads the
 * directory for it and leaves those names out. Any other directory the kernel reads as ever: that costs two changes of the
 * process for each list. Nothing rests on this: a program that gets at such a list in another way finds what is held, and
 * can do nothing with it.
 *
 * The kernel lets one process listen to a program, so the init attends to both kinds of calls: lists of directories, and
 * calls that write, which notes.c looks at and which then go on as they are. Where writing is noted, a filter of a later
 * step (`notify`) stops the program at both.
 *
 * Where the kernel is older than 5.19, or a sandbox around us listens already, the names are seen, and nothing is noted.
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <linux/seccomp.h>
#include <sys/uio.h>

enum { MOST_HIDDEN = 256 };

static struct hidden {
	const char *directory, *name;
	uint64_t device, number; /* of the directory */
} hidden[MOST_HIDDEN];
static unsigned count;

void hide_name(const char *directory, const char *name)
{
	if (count < MOST_HIDDEN) /* more of them are seen */
		hidden[count++] = (struct hidden){.directory = directory, .name = name};
}

#if defined SECCOMP_IOCTL_NOTIF_RECV && defined SECCOMP_FILTER_FLAG_NEW_LISTENER
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define SYNC_WAKE_UP _IOW('!', 4, uint64_t) /* SECCOMP_IOCTL_NOTIF_SET_FLAGS */

enum { STEPS_DESCRIPTOR = 3 }; /* the list of steps is read by then */

static int line[2] = {-1, -1}; /* from the program to the init: the descriptor by which the init gets the news */
static int listener = -1, signals = -1;

static int look_at(const char *path, uint64_t *device, uint64_t *number)
{
	struct statx found;

	if (syscall(SYS_statx, AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &found) < 0)
		return -1;
	*device = (uint64_t)found.stx_dev_major << 32 | found.stx_dev_minor;
	*number = found.stx_ino;
	return 0;
}

/* Before the program is there: find the directories, and make the way that the descriptor takes. */
int prepare_to_list(void)
{
	unsigned kept = 0;

	for (unsigned each = 0; each < count; each++) {
		struct hidden *before = kept ? &hidden[kept - 1] : NULL;
		if (before && !strcmp(before->directory, hidden[each].directory)) { /* most names are in the same one */
			hidden[each].device = before->device;
			hidden[each].number = before->number;
		} else if (look_at(hidden[each].directory, &hidden[each].device, &hidden[each].number) < 0) {
			continue;
		}
		hidden[kept++] = hidden[each];
	}
	count = kept;
	return (count || is_noting()) && syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) == 0;
}

/* In the program, which still has the right to: stop at the calls that a filter names from here on. */
void be_stopped(const struct sock_fprog *filter)
{
	/* A list that is begun for a process is finished, unless the process is killed: else a part of it would be lost. */
	unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

	if (line[1] < 0)
		return;
	int news = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, filter);
	if (news >= 0 && send_descriptors(line[1], 'L', &news, 1) < 0)
		fail(NOT_SET_UP, "list", ""); /* every such call would wait for ever */
	if (news >= 0)
		close(news);
	close(line[1]);
	line[1] = -1;
}

/* In the program: stop at lists of directories; where writing is noted, keep the way of the descriptor for that step. */
void be_listed(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getdents64, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};

	if (!is_noting()) {
		be_stopped(&program);
		return;
	}
	must((int)syscall(SYS_dup3, line[1], STEPS_DESCRIPTOR, O_CLOEXEC), "notes", "");
	line[1] = STEPS_DESCRIPTOR;
}

/* In the init: take the descriptor; -1 where there is none, and all names are seen. */
int begin_to_list(void)
{
	sigset_t all;

	close(line[1]);
	if (receive_descriptors(line[0], &listener, 1) < 0)
		listener = -1;
	close(line[0]);
	if (listener < 0)
		return 0;
	ioctl(listener, SYNC_WAKE_UP, 1UL); /* since Linux 6.6: the kernel changes to us and back at once */
	sigfillset(&all);
	signals = must(signalfd(-1, &all, SFD_CLOEXEC), "list", "");
	return 1;
}

/* Which process a thread belongs to: it has the descriptors. */
static pid_t process_of(pid_t thread)
{
	static const char FIELD[] = "\nTgid:\t";
	char path[64], text[512];

	snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
	if (file >= 0)
		close(file);
	text[length < 0 ? 0 : length] = 0;
	for (const char *at = text; *at; at++) {
		unsigned same = 0;
		while (FIELD[same] && at[same] == FIELD[same])
			same++;
		if (!FIELD[same])
			return (pid_t)strtol(at + same, NULL, 10);
	}
	return -1;
}

/* The very directory that a process reads, with the place in it that it has come to. */
static int copied_from(pid_t thread, int descriptor)
{
	pid_t process = process_of(thread);
	int alive = process > 0 ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
	int copy = alive < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, alive, descriptor, 0);

	if (alive >= 0)
		close(alive);
	return copy;
}

struct entry {
	uint64_t number, offset;
	uint16_t length;
	uint8_t kind;
	char name[];
};

static int is_hidden(const char *name, uint64_t device, uint64_t number)
{
	for (unsigned each = 0; each < count; each++)
		if (hidden[each].device == device && hidden[each].number == number && !strcmp(hidden[each].name, name))
			return 1;
	return 0;
}

/* Leave the hidden names out of a list; return how long it is then. */
static long without_hidden(char *list, long length, uint64_t device, uint64_t number)
{
	long kept = 0;

	for (long at = 0; at < length;) {
		const struct entry *entry = (const struct entry *)(const void *)(list + at);
		long size = entry->length, to = kept;
		if (!is_hidden(entry->name, device, number))
			kept += size;
		if (kept != to && to != at)
			for (long each = 0; each < size; each++)
				list[to + each] = list[at + each];
		at += size;
	}
	return kept;
}

/* Read a directory for a process, which gets what the kernel would say but for the hidden names. */
static void list_for(const struct seccomp_notif *asked, struct seccomp_notif_resp *reply, uint64_t device, uint64_t number)
{
	static char list[32768] __attribute__((aligned(8)));
	size_t room = (uint32_t)asked->data.args[2];
	int directory = copied_from((pid_t)asked->pid, (int)asked->data.args[0]);
	long length = 0, kept = 0;

	if (directory < 0)
		return; /* as it would be without us */
	do {
		length = syscall(SYS_getdents64, directory, list, room < sizeof list ? room : sizeof list);
		if (length > 0)
			kept = without_hidden(list, length, device, number);
	} while (length > 0 && kept == 0);
	close(directory);
	reply->flags = 0;
	if (length < 0)
		reply->error = -errno;
	if (length <= 0 || ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &asked->id) < 0)
		return;
	struct iovec ours = {.iov_base = list, .iov_len = (size_t)kept};
	struct iovec theirs = {.iov_base = (void *)(uintptr_t)asked->data.args[1], .iov_len = (size_t)kept};
	if (syscall(SYS_process_vm_writev, (long)asked->pid, &ours, 1L, &theirs, 1L, 0L) == kept)
		reply->val = kept;
	else
		reply->error = -EFAULT;
}

static void answer(int control)
{
	struct seccomp_notif asked;
	char path[64];
	uint64_t device, number;

	memset(&asked, 0, sizeof asked);
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
		return;
	struct seccomp_notif_resp reply = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)asked.pid, (int)asked.data.args[0]);
	if (asked.data.nr != SYS_getdents64)
		note_call(control, asked.data.nr, (const uint64_t *)asked.data.args, (pid_t)asked.pid);
	else if (look_at(path, &device, &number) == 0)
		for (unsigned each = 0; each < count; each++)
			if (hidden[each].device == device && hidden[each].number == number) {
				list_for(&asked, &reply, device, number);
				break;
			}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

/* Wait for a signal, and list directories and note calls meanwhile. */
int attend_listing(siginfo_t *got, int control)
{
	struct signalfd_siginfo one;

	for (;;) {
		struct pollfd watched[] = {{.fd = signals, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
		if (poll(watched, 2, -1) < 0)
			return -1;
		if (watched[1].revents & POLLIN)
			answer(control);
		else if (watched[1].revents) { /* no process is left that could ask */
			close(listener);
			listener = -1;
		}
		if (watched[0].revents & POLLIN && read(signals, &one, sizeof one) == (ssize_t)sizeof one) {
			memset(got, 0, sizeof *got);
			got->si_signo = (int)one.ssi_signo;
			got->si_code = one.ssi_code;
			return got->si_signo;
		}
	}
}
#else
int prepare_to_list(void)
{
	return 0;
}

void be_listed(void)
{
}

void be_stopped(const struct sock_fprog *filter)
{
	(void)filter;
}

int begin_to_list(void)
{
	return 0;
}

int attend_listing(siginfo_t *got, int control)
{
	(void)got;
	(void)control;
	return -1;
}
#endif

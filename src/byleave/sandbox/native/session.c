/*
 * Runs of one agent session: they share a network and a /tmp, which a small process holds as long as the session lasts.
 *
 * The holder is a launcher that never runs a program. It has namespaces of its own, an empty file system in memory as its
 * root, a socket on which runs ask, and a pidfd of the agent. Each run gets descriptors: the holder's user and network
 * namespaces, a copy of the mount of its root (which becomes /tmp of the run), the reading end of a pipe, and, if it wants
 * one, a socket that listens in that network. The writing end of the pipe is the holder's alone. So all that has to be
 * said about the end of a session is that the holder ends: when the agent has ended, when it is asked to, or killed. Then
 * the keeper of every run sees the end of the pipe, and kills its init. Nothing of it is on a disk.
 *
 *     J   a run joins      P   the same, and it needs a listening socket      E   the session ends
 */
#define _GNU_SOURCE
#include "launcher.h"

enum { MOST_PASSED = 5, PATIENCE = 1000 }; /* milliseconds that a run may take to say what it wants */

int session_tmp = -1, session_alive = -1;

static int asked = -1, agent = -1, users = -1, network = -1;

union passed {
	char bytes[CMSG_SPACE(MOST_PASSED * sizeof(int))];
	struct cmsghdr align;
};

/* Receive exactly so many descriptors; -1 if it is anything else. */
int receive_descriptors(int from, int *descriptors, unsigned count)
{
	char kind;
	struct iovec body = {.iov_base = &kind, .iov_len = 1};
	union passed extra = {{0}};
	struct msghdr message = {
		.msg_iov = &body, .msg_iovlen = 1, .msg_control = extra.bytes, .msg_controllen = sizeof extra.bytes};

	if (syscall(SYS_recvmsg, from, &message, MSG_CMSG_CLOEXEC) < 0)
		return -1;
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(count * sizeof(int))) {
		errno = EBADMSG;
		return -1;
	}
	memcpy(descriptors, CMSG_DATA(header), count * sizeof(int));
	return 0;
}

int send_descriptors(int to, char kind, const int *descriptors, unsigned count)
{
	struct iovec body = {.iov_base = &kind, .iov_len = 1};
	union passed extra = {{0}};
	struct msghdr message = {.msg_iov = &body,
				 .msg_iovlen = 1,
				 .msg_control = extra.bytes,
				 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
	return sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Enter the network of a session. The user namespace is only the way to it: what follows makes one of the run's own. */
void join_session(int control)
{
	int got[4];

	must(receive_descriptors(control, got, 4), "join", "");
	must((int)syscall(SYS_setns, got[0], CLONE_NEWUSER), "join", "user");
	must((int)syscall(SYS_setns, got[1], CLONE_NEWNET), "join", "net");
	close(got[0]);
	close(got[1]);
	session_tmp = got[2];
	session_alive = got[3];
}

/* In the holder: take the socket and the agent's pidfd, and keep hold of our namespaces while there is a /proc. */
void adopt_session(int control)
{
	int got[2];

	must(receive_descriptors(control, got, 2), "hold", "");
	asked = got[0];
	agent = got[1];
	users = must(open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC), "hold", "user");
	network = must(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), "hold", "net");
}

/* A socket that listens in the network of the session, at a port that is free; -1 if there is none. */
static int listening(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (listener >= 0 && (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 128) < 0)) {
		close(listener);
		return -1;
	}
	return listener;
}

/* Hand a run everything that it shares. What does not arrive is missed by the run, which then does not start. */
static void hand_over(int run, int alive, int with_listener)
{
	int given[MOST_PASSED] = {users, network, -1, alive, -1};

	given[2] = (int)syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (with_listener)
		given[4] = listening();
	if (given[2] >= 0 && (!with_listener || given[4] >= 0))
		send_descriptors(run, 'S', given, with_listener ? 5 : 4);
	if (given[2] >= 0)
		close(given[2]);
	if (given[4] >= 0)
		close(given[4]);
}

/* Whether the process at the other end is one of the user's own. */
static int is_ours(int run)
{
	struct ucred who;
	socklen_t size = sizeof who;

	return syscall(SYS_getsockopt, run, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == (uid_t)syscall(SYS_getuid);
}

static void answer(int run, int alive)
{
	struct pollfd watched = {.fd = run, .events = POLLIN};
	char said = 0;

	if (!is_ours(run) || poll(&watched, 1, PATIENCE) != 1 || syscall(SYS_recvfrom, run, &said, 1, MSG_DONTWAIT, 0, 0) != 1)
		return;
	if (said == 'E')
		_exit(0);
	if (said == 'J' || said == 'P')
		hand_over(run, alive, said == 'P');
}

/* Hold the session until the agent has ended. The process that was started leaves, so the run that started it knows that
 * all is ready, and has no child that it would have to wait for. */
_Noreturn void hold_session(void)
{
	int alive[2];

	must(pipe2(alive, O_CLOEXEC), "hold", "");
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (must(fork(), "hold", ""))
		_exit(0);
	for (;;) {
		struct pollfd watched[] = {{.fd = agent, .events = POLLIN}, {.fd = asked, .events = POLLIN}};
		if (poll(watched, 2, -1) < 0 && errno == EINTR)
			continue;
		if (watched[0].revents || watched[1].revents & ~POLLIN)
			_exit(0);
		int run = (int)syscall(SYS_accept4, asked, NULL, NULL, SOCK_CLOEXEC);
		if (run < 0)
			continue;
		answer(run, alive[0]);
		close(run);
	}
}

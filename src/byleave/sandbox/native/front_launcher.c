/*
 * A command in the sandbox: the service makes the plan, and the front starts the launcher as a child of its own.
 *
 * So the command is a descendant of the caller, with its streams, its limits and its place among the processes. What the
 * service needs of it, it is sent; signals to us are passed on. The launcher ends everything when the other end of its
 * control socket is closed, which is the service's: so our end, too, ends the command.
 *
 *                                              <-   L  start this launcher, with its steps, its control socket, a lock
 *     P  it runs, with its pidfd                ->
 *     F  it could not be started, and why       ->
 *     E  it has ended, and how                  ->
 *                                              <-   X  exit with this code
 */
#define _GNU_SOURCE
#include "front.h"

/* Descriptors of the launcher: its steps, the control socket and a lock. The report is ours until it runs. */
enum { STEPS = 3, MOST_GIVEN = 3, REPORT = STEPS + MOST_GIVEN, MASK_DIGITS = 16 };

static pid_t child; /* 0: there is none, or it has ended */
static int has_session;

/* ---- Starting it ------------------------------------------------------------------------------------------------- */

/* The signals that it starts with blocked: 16 hexadecimal digits, the lowest bit is signal 1. 0 if it is no mask. */
static int read_mask(const char *digits, sigset_t *mask)
{
	static const char known[] = "0123456789abcdef";

	sigemptyset(mask);
	for (int place = 0; place < MASK_DIGITS; place++) {
		const char *digit = strchr(known, digits[place]);
		if (!digit || !*digit)
			return 0;
		for (int bit = 0; bit < 4; bit++)
			if ((digit - known) >> bit & 1)
				sigaddset(mask, (MASK_DIGITS - 1 - place) * 4 + bit + 1);
	}
	return digits[MASK_DIGITS] == 0;
}

/* The words of an `L`, each with a zero at its end, and two more. NULL if it is not as it should be. */
static char **words_in(struct message *message, sigset_t *mask)
{
	static char *words[MOST_WORDS + 3], steps[] = "3", control[] = "4";
	size_t count = 0, at = 2 + MASK_DIGITS + 1;

	if (message->length < at + 2 || (message->bytes[1] != 's' && message->bytes[1] != '-') ||
	    !read_mask(message->bytes + 2, mask) || message->bytes[at] != '/')
		return NULL;
	if (message->bytes[message->length - 1] != 0 || message->count < MOST_GIVEN - 1 || message->count > MOST_GIVEN)
		return NULL;
	for (; at < message->length; at += strlen(message->bytes + at) + 1) {
		if (count == MOST_WORDS)
			return NULL;
		words[count++] = message->bytes + at;
	}
	words[count++] = steps;
	words[count++] = control;
	words[count] = NULL;
	return words;
}

/* Take the launcher's place; returns only if that fails. Why is for `report`, which is moved on the way. */
static void become_launcher(char **words, const int *given, unsigned count, const sigset_t *mask, int *report)
{
	char *nothing[] = {NULL};
	int high[MOST_GIVEN];

	if (has_session && setsid() < 0)
		return;
	/* Those that the caller may ignore, as Python does, and one that the launcher must not ignore. */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	/* First out of each other's way: any of them may have the number that another gets. */
	if ((*report = fcntl(*report, F_DUPFD_CLOEXEC, REPORT + 1)) < 0)
		return;
	for (unsigned each = 0; each < count; each++)
		if ((high[each] = fcntl(given[each], F_DUPFD_CLOEXEC, REPORT + 1)) < 0)
			return;
	for (unsigned each = 0; each < count; each++)
		if (dup3(high[each], STEPS + (int)each, 0) < 0)
			return;
	if (dup3(*report, REPORT, O_CLOEXEC) < 0)
		return;
	*report = REPORT;
	if (count < MOST_GIVEN)
		close(STEPS + MOST_GIVEN - 1);
	if (syscall(SYS_close_range, REPORT + 1u, ~0u, 0) < 0)
		return;
	sigprocmask(SIG_SETMASK, mask, NULL);
	execve(words[0], words, nothing);
}

/* Start the launcher; returns 0 once it runs, and else why it does not. */
static int start(char **words, const struct message *message, const sigset_t *mask)
{
	int report[2], error = 0;

	if (pipe2(report, O_CLOEXEC) < 0)
		return errno;
	child = fork();
	if (child == 0) {
		become_launcher(words, message->descriptors, message->count, mask, &report[1]);
		error = errno;
		ssize_t written = write(report[1], &error, sizeof error);
		_exit(written < 0 ? NOT_SET_UP : NOT_EXECUTABLE);
	}
	if (child < 0) {
		error = errno;
		child = 0; /* a signal to -1 would be for every process of the user */
	}
	close(report[1]);
	ssize_t length;
	do /* it is closed when the launcher runs */
		length = error ? 0 : read(report[0], &error, sizeof error);
	while (length < 0 && errno == EINTR);
	close(report[0]);
	for (unsigned each = 0; each < message->count; each++)
		close(message->descriptors[each]); /* the lock is the launcher's alone */
	return error;
}

/* End the child, if there is one, and wait for its end. */
static void end_child(void)
{
	if (!child)
		return;
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	child = 0;
}

/* ---- What is sent ------------------------------------------------------------------------------------------------ */

/* If it does not arrive, the connection is at its end, which is noticed where we wait. */
static void send_number(int connection, const char *kind, int number, int descriptor)
{
	char room[24];
	struct text text = TEXT(room);

	add(&text, kind);
	add_number(&text, (unsigned)number, 10);
	send_message(connection, text.bytes, text.length, &descriptor, descriptor >= 0);
}

static void report_start(int connection, int error)
{
	int pidfd = error ? -1 : (int)syscall(SYS_pidfd_open, child, 0);

	if (pidfd < 0) {
		error = error ? error : errno;
		end_child();
		send_number(connection, "F", error, -1);
		return;
	}
	send_number(connection, "P", child, pidfd);
	close(pidfd);
}

/* ---- Signals ----------------------------------------------------------------------------------------------------- */

static void handled_signals(sigset_t *set)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD};

	sigemptyset(set);
	for (size_t each = 0; each < sizeof numbers / sizeof numbers[0]; each++)
		sigaddset(set, numbers[each]);
}

/* Send the whole process group a signal, as a terminal would. What is not in a session of its own got it by itself. */
static void signal_all(int number)
{
	if (child && has_session)
		kill(child, FOR_ALL - number);
}

/* Stop with the command, until we are continued. */
static void stop(void)
{
	sigset_t stopping;

	sigemptyset(&stopping);
	sigaddset(&stopping, SIGTSTP);
	signal_all(SIGSTOP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stopping, NULL); /* here we stop */
	sigprocmask(SIG_BLOCK, &stopping, NULL);
	signal_all(SIGCONT);
}

/* Do what the signals that wait ask for. Returns whether there is still a child: without one, they are for us. */
static int attend_signals(int connection, int signals)
{
	struct signalfd_siginfo got;
	int status;

	while (child && read(signals, &got, sizeof got) == (ssize_t)sizeof got) {
		if (got.ssi_signo == SIGCHLD) {
			if (waitpid(child, &status, WNOHANG) == child) {
				child = 0;
				send_number(connection, "E", status, -1);
			}
		} else if (got.ssi_signo == SIGTSTP) {
			stop();
		} else if (got.ssi_code > 0) {
			signal_all((int)got.ssi_signo);
		} else {
			kill(child, (int)got.ssi_signo);
		}
	}
	return child != 0;
}

/* ---- Until the service says that it is over ---------------------------------------------------------------------- */

void attend_launcher(int connection, struct message *message)
{
	sigset_t handled, mask;
	char **words = words_in(message, &mask);

	if (!words)
		return;
	has_session = message->bytes[1] == 's';
	handled_signals(&handled);
	signal(SIGCHLD, SIG_DFL); /* our parent may ignore it, and then we would never get it */
	sigprocmask(SIG_BLOCK, &handled, NULL);
	int signals = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
	report_start(connection, signals < 0 ? errno : start(words, message, &mask));
	struct pollfd watched[] = {{.fd = connection, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	for (int attending = 1;;) {
		if (attending && !attend_signals(connection, signals)) {
			attending = 0;
			watched[1].fd = -1;
			sigprocmask(SIG_UNBLOCK, &handled, NULL);
		}
		if (poll(watched, 2, -1) < 0 && errno != EINTR)
			break;
		int got = watched[0].revents ? receive(connection, message) : 0;
		if (got > 0) {
			leave_if_told(message);
			break;
		} else if (got < 0) {
			break;
		}
	}
	end_child();
}

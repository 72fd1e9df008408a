/*
 * A call of a tool, which the process in the service runs: we wait for its exit code, and pass on what stops it.
 *
 *     S  this signal came                      ->
 *                                              <-   B  it goes on         X  exit with this code
 *
 * Until the first B a signal ends us, as it would end the command before it has anything to stop: then nothing is run.
 * A call may take as long as the tool host lets it, but a process that does not say so any more has come to a stop.
 * If we end, the connection ends, and the call with it.
 */
#define _GNU_SOURCE
#include "front.h"

/* The signals that stop a call (call_command.py). One that our parent has blocked would not reach the command either. */
static int stopping_signals(sigset_t *set)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t blocked;

	sigprocmask(SIG_BLOCK, NULL, &blocked);
	sigemptyset(set);
	for (size_t each = 0; each < sizeof numbers / sizeof numbers[0]; each++)
		if (!sigismember(&blocked, numbers[each]))
			sigaddset(set, numbers[each]);
	sigprocmask(SIG_BLOCK, set, NULL);
	return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Returns -1 if the service does not take them any more. */
static int pass_signals(int connection, int signals)
{
	struct signalfd_siginfo got;
	char room[16];

	while (read(signals, &got, sizeof got) == (ssize_t)sizeof got) {
		struct text said = TEXT(room);
		add(&said, "S");
		add_number(&said, got.ssi_signo, 10);
		if (send_message(connection, said.bytes, said.length, NULL, 0) < 0)
			return -1;
	}
	return 0;
}

void attend_call(int connection, struct message *message)
{
	sigset_t stopping;
	struct pollfd watched[] = {{.fd = connection, .events = POLLIN}, {.fd = -1, .events = POLLIN}};

	for (long until = now() + OTHERS_WITHIN, left; (left = until - now()) > 0;) {
		watched[0].revents = 0;
		if (poll(watched, 2, (int)left) < 0 && errno != EINTR)
			return;
		int got = watched[0].revents ? receive(connection, message) : 0;
		if (got > 0)
			leave_if_told(message);
		if (got < 0 || (got > 0 && !says(message, 'B')))
			return;
		if (got > 0)
			until = now() + OTHERS_WITHIN;
		if (got > 0 && watched[1].fd < 0) {
			watched[1].fd = stopping_signals(&stopping);
			if (watched[1].fd < 0) /* then they end us, and with us the call */
				sigprocmask(SIG_UNBLOCK, &stopping, NULL);
		}
		if (watched[1].fd >= 0 && pass_signals(connection, watched[1].fd) < 0)
			return;
	}
}

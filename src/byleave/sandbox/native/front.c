/*
 * byleave's front: hands a command to the resident service, or runs it in its own place.
 *
 *     front [--service DIR] PYTHON WORD...
 *     byleave WORD...                        under this name, with the Python that it was installed for
 *
 * PYTHON WORD... is the cold command: what runs without a service, with exactly the same answers. front_command.c says
 * which commands are served, front_service.c where the service is. With it, this file speaks in packets whose first byte
 * is a kind:
 *
 *     Q  the request, and the directory         ->
 *                                              <-   A  a process has taken it, and waits     N  not served
 *     G  go, with the streams                   ->
 *                                              <-   X  the exit code       L  start this launcher (front_launcher.c)
 *
 * Before `G` the service does not have the caller's streams, so whatever is wrong, or late, leads to the cold command;
 * and a service that is stopped keeps no pipe open whose end the caller waits for. After `G` nothing leads there, since
 * nothing may run twice: a hook then blocks its call.
 */
#define _GNU_SOURCE
#include "front.h"

#ifdef __SANITIZE_OPTIONS__
/* A build for tests (build.py). */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return __SANITIZE_OPTIONS__;
}
#endif

#ifdef FRONT_DIGEST
/* Of which sources this is the program: its file name stays the same, since agents' settings name it (build.py). */
__attribute__((used)) static const char sources[] = "sources " FRONT_DIGEST;
#endif

enum { LONGEST_NUMBERS = 64 }; /* of the first line of a request */

/* How long we wait for `A`, and from `G` on for an answer. The service has deadlines of its own, which are shorter. */
enum { TAKEN_WITHIN = 1000, HOOK_WITHIN = 22 * FRONT_SECOND, OTHERS_WITHIN = 60 * FRONT_SECOND };

long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

union passed {
	char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
	struct cmsghdr align;
};

int send_message(int connection, const char *bytes, size_t length, const int *descriptors, unsigned count)
{
	struct iovec body = {.iov_base = (char *)bytes, .iov_len = length};
	union passed extra = {{0}};
	struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1};

	if (count) {
		message.msg_control = extra.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
	}
	ssize_t sent;
	do
		sent = sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)length ? 0 : -1;
}

int receive(int connection, struct message *message)
{
	struct iovec body = {.iov_base = message->bytes, .iov_len = LONGEST_MESSAGE};
	union passed extra = {{0}};
	struct msghdr got = {
		.msg_iov = &body, .msg_iovlen = 1, .msg_control = extra.bytes, .msg_controllen = sizeof extra.bytes};
	ssize_t length;
	int resets = 0;

	message->length = message->count = 0;
	message->bytes[0] = 0;
	/* A service that closes before it has read all of ours is an error first; what it said before is still there. */
	do
		length = recvmsg(connection, &got, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (length < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
	if (length < 0)
		return errno == EAGAIN ? 0 : -1;
	if (length == 0 || got.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -1;
	struct cmsghdr *header = CMSG_FIRSTHDR(&got);
	if (header) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			return -1;
		message->count = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		if (message->count > MOST_DESCRIPTORS)
			return -1;
		memcpy(message->descriptors, CMSG_DATA(header), message->count * sizeof(int));
	}
	message->length = (size_t)length;
	message->bytes[length] = 0;
	return 1;
}

/* The same, but wait for one until then. */
static int receive_until(int connection, struct message *message, long until)
{
	for (;;) {
		struct pollfd watched = {.fd = connection, .events = POLLIN};
		long left = until - now();
		int ready = poll(&watched, 1, left > 0 ? (int)left : 0);
		if (ready < 0 && errno != EINTR)
			return -1;
		int got = ready > 0 ? receive(connection, message) : 0;
		if (got)
			return got;
		if (ready == 0 && left <= 0)
			return 0;
	}
}

static int says(const struct message *message, char kind)
{
	return message->length == 1 && message->bytes[0] == kind && message->count == 0;
}

void leave_if_told(const struct message *message)
{
	if (message->bytes[0] != 'X' || message->count)
		return;
	int code = number_in(message->bytes + 1, message->length - 1, 255);
	if (code >= 0)
		_exit(code);
}

/* ---- The request ------------------------------------------------------------------------------------------------- */

/* Put the command into a file in memory, at whose beginning the service reads; -1 if that fails. */
static int written_request(const struct command *command)
{
	static char room[LONGEST_NUMBERS + MOST_BYTES + 1];
	struct text request = TEXT(room);
	mode_t mask = umask(0);

	umask(mask);
	const struct {
		unsigned long value;
		unsigned base;
		const char *end;
	} numbers[] = {{command->words, 10, " "},
		       {command->variables, 10, " "},
		       {mask, 8, " "},
		       {(unsigned long)getppid(), 10, "\n"}};
	for (size_t each = 0; each < sizeof numbers / sizeof numbers[0]; each++) {
		add_number(&request, numbers[each].value, numbers[each].base);
		add(&request, numbers[each].end);
	}
	for (char **word = command->cold; *word; word++)
		add_bytes(&request, *word, strlen(*word) + 1);
	for (char **variable = environ; *variable; variable++)
		add_bytes(&request, *variable, strlen(*variable) + 1);
	int file = whole(&request) ? memfd_create("byleave-request", MFD_CLOEXEC) : -1;
	/* It is held to the limit for files. The signal would end us, and an agent takes that for no block. */
	__sighandler_t before = signal(SIGXFSZ, SIG_IGN);
	for (size_t done = 0; file >= 0 && done < request.length;) {
		ssize_t more = pwrite(file, request.bytes + done, request.length - done, (off_t)done);
		if (more > 0) {
			done += (size_t)more;
		} else if (more == 0 || errno != EINTR) {
			close(file);
			file = -1;
		}
	}
	signal(SIGXFSZ, before);
	return file;
}

/* The working directory; -1 if it is gone, also if it was removed and can still be opened. */
static int working_directory(void)
{
	struct stat found;
	int directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (directory >= 0 && (fstat(directory, &found) < 0 || found.st_nlink == 0)) {
		close(directory);
		return -1;
	}
	return directory;
}

static int send_request(const struct command *command, int connection, const char *proof)
{
	int given[] = {written_request(command), working_directory()}, sent = -1;
	char room[sizeof "Q" VERSION "\n" + LONGEST_PROOF];
	struct text asked = TEXT(room);

	add(&asked, "Q" VERSION "\n");
	add(&asked, proof);
	if (given[0] >= 0 && given[1] >= 0 && whole(&asked))
		sent = send_message(connection, asked.bytes, asked.length, given, 2);
	for (int each = 0; each < 2; each++)
		if (given[each] >= 0)
			close(given[each]);
	return sent;
}

/* ---- What is said at the end ------------------------------------------------------------------------------------- */

static _Noreturn void leave_unanswered(const struct command *command)
{
	const char *only = hook_option(command, "--only");

	if (command->kind == CHECK)
		leave(1, "byleave: the service ended without an answer\n  hint: try again\n");
	if (command->kind == RUN)
		leave(NOT_SET_UP, "byleave: the service ended, and with it the command\n");
	/* What is reported after a call cannot stop it any more. */
	if (only && strcmp(only, "outcome") == 0)
		_exit(0);
	leave(2, "byleave: the call is blocked: the service ended without an answer\n");
}

int main(int count, char **words)
{
	static struct command command;
	static struct message message;
	char room[LONGEST_PROOF];
	struct text proof = TEXT(room);
	static const int streams[] = {0, 1, 2};

	read_command(&command, count, words);
	if (!is_served(&command))
		go_cold(&command);
	int connection = connect_service(&command, &proof);
	if (connection < 0)
		go_cold(&command);
	long taken_until = now() + TAKEN_WITHIN;
	/* A `G` that cannot be sent reaches no queue: the service sees the end of the connection instead. */
	if (send_request(&command, connection, proof.bytes) < 0 || receive_until(connection, &message, taken_until) <= 0 ||
	    !says(&message, 'A') || send_message(connection, "G", 1, streams, 3) < 0) {
		close(connection);
		go_cold(&command);
	}
	long answered_until = now() + (command.kind == HOOK ? HOOK_WITHIN : OTHERS_WITHIN);
	if (receive_until(connection, &message, answered_until) > 0) {
		leave_if_told(&message);
		if (command.kind == RUN && message.bytes[0] == 'L')
			attend_launcher(connection, &message);
	}
	leave_unanswered(&command);
}

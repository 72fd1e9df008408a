/*
 * The broker: runs listed programs for a program that may execute nothing else (`access.commands`).
 *
 * On its PATH the program finds stand-ins: this very file under other names. A stand-in cannot connect to anything, so it
 * writes a line to a fifo, and the init fetches the rest from it:
 *
 *     r PID REPLY ADDRESS LENGTH MASK IGNORED   run what LENGTH bytes of mine at ADDRESS say; answer on descriptor REPLY
 *     k PID SIGNAL                              pass a signal on to what you run for me
 *
 * The host decides, never we: it gets the bytes as they are (`R`), and answers with the steps of a program (`A`) or a
 * reason (`N`). Then the init forks the real program, which never was in the program's own view, and reports to the
 * stand-in how it went:
 *
 *     B busy, ask again   N denied, and why   S started   E a step failed   X ended, and how
 *
 * Any process inside can write to the fifo. A line without sense is dropped, the process it names must be a stand-in, and
 * a stand-in has no rights beyond those of the process that started it: its requests are decided like any others.
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <sys/auxv.h>
#include <sys/uio.h>
#include <time.h>

enum {
	MOST_JOBS = 1024,
	MOST_QUESTIONS = 128, /* as many fit into the control socket, so that asking never waits */
	SPARE = 64,           /* descriptors, beside the two that each job holds */
	LONGEST_LINE = 128,
	LONGEST_REQUEST = 8 << 20, /* more than the kernel takes as words and variables */
	LONGEST_REASON = 4096,
	ANSWER = 1 + sizeof(uint64_t), /* a letter, and which request it is about */
	BUSY = 20,                     /* milliseconds until a stand-in asks again */
};

static const char REQUESTS[] = "/.byleave/requests";

/* ---- In the init: who asked for what ----------------------------------------------------------------------------- */

struct job {
	uint64_t id;    /* 0: there is none */
	pid_t asker;    /* the stand-in */
	int alive;      /* its pidfd */
	int reply;      /* its own socket, to which we report how it went */
	mode_t mask;    /* with which it would create files */
	uint64_t deaf;  /* signals that it was started to ignore, a bit for each */
	pid_t program;  /* 0 until it runs */
};

static struct job jobs[MOST_JOBS];
static int most_jobs = MOST_JOBS; /* fewer, where there are not as many descriptors */
static int requests = -1, signals = -1, control = -1;
static struct stat stand_in; /* the file that all of them are */

static struct job *job_of(uint64_t id)
{
	for (struct job *job = jobs; job < jobs + most_jobs; job++)
		if (job->id == id)
			return job;
	return NULL;
}

/* Whether as many questions wait for an answer as may. */
static int is_busy(void)
{
	int waiting = 0;

	for (struct job *job = jobs; job < jobs + most_jobs; job++)
		waiting += job->id && !job->program;
	return waiting >= MOST_QUESTIONS;
}

/* A stand-in that does not listen loses the report, and we lose no time. */
static void send_reply(int reply, const void *bytes, size_t length)
{
	send(reply, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void release(struct job *job)
{
	close(job->alive);
	close(job->reply);
	*job = (struct job){0};
}

static void refuse(struct job *job, const char *reason, size_t length)
{
	char bytes[1 + LONGEST_REASON] = {'N'};

	if (length > LONGEST_REASON)
		length = LONGEST_REASON;
	memcpy(bytes + 1, reason, length);
	send_reply(job->reply, bytes, 1 + length);
	release(job);
}

/* The stand-in is gone, so no process waits for its program any more. */
static void abandon(struct job *job)
{
	if (job->program > 0)
		kill(job->program, SIGKILL);
	release(job);
}

/* ---- In the init: from stand-ins to the host --------------------------------------------------------------------- */

static int is_stand_in(pid_t asker)
{
	char path[64];
	struct stat found;

	snprintf(path, sizeof path, "/proc/%d/exe", (int)asker);
	return stat(path, &found) == 0 && found.st_dev == stand_in.st_dev && found.st_ino == stand_in.st_ino;
}

static int is_gone(int alive)
{
	struct pollfd watched = {.fd = alive, .events = POLLIN};

	return poll(&watched, 1, 0) != 0;
}

/* Copy a request into a file that no other process can change; -1 if it cannot be had. */
static int fetch(pid_t asker, uint64_t address, uint64_t length)
{
	if (length == 0 || length > LONGEST_REQUEST)
		return -1;
	int copy = memfd_create("byleave-request", MFD_CLOEXEC);
	if (copy < 0 || ftruncate(copy, (off_t)length) < 0) {
		close(copy);
		return -1;
	}
	struct iovec theirs = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};
	struct iovec ours = {.iov_base = mmap(NULL, length, PROT_WRITE, MAP_SHARED, copy, 0), .iov_len = length};
	ssize_t got = ours.iov_base == MAP_FAILED ? -1 : process_vm_readv(asker, &ours, 1, &theirs, 1, 0);
	if (ours.iov_base != MAP_FAILED)
		munmap(ours.iov_base, length);
	if (got != (ssize_t)length) {
		close(copy);
		return -1;
	}
	return copy;
}

static int ask_host(uint64_t id, int request)
{
	char bytes[ANSWER] = {'R'};
	struct iovec body = {.iov_base = bytes, .iov_len = sizeof bytes};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} extra = {0};
	struct msghdr message = {
		.msg_iov = &body, .msg_iovlen = 1, .msg_control = extra.bytes, .msg_controllen = sizeof extra.bytes};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	memcpy(bytes + 1, &id, sizeof id);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &request, sizeof request);
	return sendmsg(control, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Take a request: `job` says who asks, and has no number yet. */
static void take(struct job job, uint64_t address, uint64_t length)
{
	static const char UNREADABLE[] = "the request is too long or could not be read";
	static const char FULL[] = "too many programs run at once";
	static uint64_t last;
	struct job *place = job_of(0);

	if (is_busy()) {
		send_reply(job.reply, "B", 1);
		release(&job);
		return;
	}
	if (!place) {
		refuse(&job, FULL, sizeof FULL - 1);
		return;
	}
	job.id = ++last;
	*place = job;
	int request = fetch(job.asker, address, length);
	if (request < 0 || is_gone(job.alive)) { /* gone: the bytes may be those of another process with its number */
		refuse(place, UNREADABLE, sizeof UNREADABLE - 1);
	} else if (ask_host(job.id, request) < 0) {
		send_reply(job.reply, "B", 1);
		release(place);
	}
	if (request >= 0)
		close(request);
}

/* Any process may have written the line: a descriptor is taken from a stand-in alone. */
static void meet(struct job job, int reply, uint64_t address, uint64_t length)
{
	pid_t asker = job.asker;

	if (asker <= 1 || (job.alive = (int)syscall(SYS_pidfd_open, asker, 0)) < 0)
		return;
	job.reply = is_stand_in(asker) ? (int)syscall(SYS_pidfd_getfd, job.alive, reply, 0) : -1;
	if (job.reply < 0) {
		close(job.alive);
		return;
	}
	take(job, address, length);
}

static void pass_on(pid_t asker, int number)
{
	for (struct job *job = jobs; job < jobs + most_jobs; job++)
		if (job->id && job->asker == asker && job->program > 0)
			kill(job->program, number);
}

static void heed(const char *line)
{
	unsigned long long address, length, deaf;
	unsigned mask;
	int asker, number;

	if (sscanf(line, "r %d %d %llx %llu %o %llx", &asker, &number, &address, &length, &mask, &deaf) == 6)
		meet((struct job){.asker = asker, .mask = mask & 0777, .deaf = deaf}, number, address, length);
	else if (sscanf(line, "k %d %d", &asker, &number) == 2)
		pass_on(asker, number);
}

/* Read some of what was written to the fifo. Lines begin and end with a newline, so that half a line spoils no other. */
static void hear_stand_ins(void)
{
	static char line[LONGEST_LINE];
	static size_t length;
	char bytes[PIPE_BUF];
	ssize_t got = read(requests, bytes, sizeof bytes);

	for (ssize_t each = 0; each < got; each++) {
		if (bytes[each] != '\n') {
			if (length < sizeof line)
				line[length++] = bytes[each];
			continue;
		}
		if (length < sizeof line) { /* a longer one was none of a stand-in's */
			line[length] = 0;
			heed(line);
		}
		length = 0;
	}
}

/* ---- In the init: from the host to programs ---------------------------------------------------------------------- */

/* Become the real program: with what it would have from the stand-in, and from there on what its steps say. */
static _Noreturn void become(const struct job *job, const int *streams, pid_t group, int steps)
{
	for (int stream = 0; stream < 3; stream++)
		if (dup2(streams[stream], stream) < 0)
			_exit(NOT_SET_UP);
	setpgid(0, group); /* fails if the stand-in is in another session: then signals are passed on one by one */
	umask(job->mask);
	for (int number = 1; number < 64; number++)
		if (job->deaf >> number & 1)
			signal(number, SIG_IGN);
	play(steps, job->reply);
}

static void start(struct job *job, int steps)
{
	static const char NOT_STARTED[] = "it could not be started";
	int streams[3];
	pid_t group = getpgid(job->asker);

	for (int stream = 0; stream < 3; stream++) {
		streams[stream] = (int)syscall(SYS_pidfd_getfd, job->alive, stream, 0);
		if (streams[stream] < 0) /* the stand-in was started without it */
			streams[stream] = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	pid_t program = prepare_another() < 0 ? -1 : fork();
	if (program == 0) {
		be_traced_too();
		become(job, streams, group, steps);
	}
	trace_another(program);
	for (int stream = 0; stream < 3; stream++)
		close(streams[stream]);
	if (program < 0) {
		refuse(job, NOT_STARTED, sizeof NOT_STARTED - 1);
		return;
	}
	job->program = program;
	setpgid(program, group);
	send_reply(job->reply, getpgid(program) == group ? "Sg" : "Sa", 2);
}

static void hear_host(void)
{
	char bytes[ANSWER + LONGEST_REASON];
	struct iovec body = {.iov_base = bytes, .iov_len = sizeof bytes};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} extra = {0};
	struct msghdr message = {
		.msg_iov = &body, .msg_iovlen = 1, .msg_control = extra.bytes, .msg_controllen = sizeof extra.bytes};
	ssize_t got = recvmsg(control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int steps = -1;
	uint64_t id = 0;

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		control = -1; /* the process that started us is gone: the keeper ends us */
	if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&steps, CMSG_DATA(header), sizeof steps);
	if (got >= ANSWER)
		memcpy(&id, bytes + 1, sizeof id);
	struct job *job = id ? job_of(id) : NULL;
	if (job && bytes[0] == 'A' && steps >= 0)
		start(job, steps);
	else if (job)
		refuse(job, bytes + ANSWER, (size_t)got - ANSWER);
	if (steps >= 0)
		close(steps);
}

/* ---- In the init: what the launcher calls ------------------------------------------------------------------------ */

void prepare_to_broker(const char *file, int to_host)
{
	sigset_t all;

	control = to_host;
	if (stat(file, &stand_in) < 0 || mkfifo(REQUESTS, 0600) < 0)
		fail(NOT_SET_UP, "broker", REQUESTS);
	/* For writing as well, so that it never ends. */
	requests = open(REQUESTS, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	sigfillset(&all);
	signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (requests < 0 || signals < 0)
		fail(NOT_SET_UP, "broker", REQUESTS);
}

/* Each program takes a few descriptors while it runs, and descriptors 0 to 2 are only ever those of programs. */
void open_for_business(void)
{
	struct rlimit files;
	int filler;

	while ((filler = open("/dev/null", O_RDWR)) >= 0 && filler < 3)
		;
	close(filler);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
		if (files.rlim_cur < 2 * MOST_JOBS + SPARE)
			most_jobs = files.rlim_cur > SPARE ? (int)(files.rlim_cur - SPARE) / 2 : 0;
	}
}

int attend(siginfo_t *got)
{
	enum { SIGNALS, FIFO, HOST, OTHERS };
	struct pollfd watched[OTHERS + MOST_JOBS];
	struct signalfd_siginfo news;

	for (;;) {
		watched[SIGNALS] = (struct pollfd){.fd = signals, .events = POLLIN};
		watched[FIFO] = (struct pollfd){.fd = requests, .events = POLLIN};
		watched[HOST] = (struct pollfd){.fd = control, .events = POLLIN};
		for (int each = 0; each < most_jobs; each++)
			watched[OTHERS + each] = (struct pollfd){.fd = jobs[each].id ? jobs[each].alive : -1, .events = POLLIN};
		if (poll(watched, OTHERS + (nfds_t)most_jobs, -1) < 0)
			continue;
		for (int each = 0; each < most_jobs; each++)
			if (watched[OTHERS + each].revents)
				abandon(&jobs[each]);
		if (watched[HOST].revents)
			hear_host();
		if (watched[FIFO].revents)
			hear_stand_ins();
		if (watched[SIGNALS].revents && read(signals, &news, sizeof news) == (ssize_t)sizeof news) {
			got->si_signo = (int)news.ssi_signo;
			got->si_code = news.ssi_code;
			return 0;
		}
	}
}

int brokered(pid_t ended, int status)
{
	char bytes[1 + sizeof status] = {'X'};

	if (!WIFEXITED(status) && !WIFSIGNALED(status))
		return 0;
	memcpy(bytes + 1, &status, sizeof status);
	for (struct job *job = jobs; job < jobs + most_jobs; job++)
		if (job->id && job->program == ended) {
			send_reply(job->reply, bytes, sizeof bytes);
			release(job);
			return 1;
		}
	return 0;
}

/* ---- The stand-in ------------------------------------------------------------------------------------------------ */

/* Signals that are meant for the program. Those that stop us stop it as well, as it is in our group. */
static const int PASSED_ON[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};

static const char *called; /* the path that we were started by */

static _Noreturn void give_up(int code, const char *why)
{
	const char *name = strrchr(called, '/');

	dprintf(2, "byleave: %s: %s\n", name ? name + 1 : called, why);
	_exit(code);
}

static char *add(char *to, const char *text)
{
	return stpcpy(to, text) + 1;
}

/* Write down what is asked for: texts with a NUL behind each. Our name, the directory, the number of words, the words,
 * the variables. */
static char *compose(char **words, size_t *length)
{
	extern char **environ;
	char *directory = getcwd(NULL, 0);
	char number[24];
	size_t count = 0, size = strlen(called) + 1 + (directory ? strlen(directory) : 0) + 1 + sizeof number;

	for (char **word = words; *word; word++, count++)
		size += strlen(*word) + 1;
	for (char **each = environ; *each; each++)
		size += strlen(*each) + 1;
	char *text = malloc(size), *end = text;
	if (!text)
		give_up(NOT_EXECUTABLE, "there is no memory");
	snprintf(number, sizeof number, "%zu", count);
	end = add(add(add(end, called), directory ? directory : ""), number);
	for (char **word = words; *word; word++)
		end = add(end, *word);
	for (char **each = environ; *each; each++)
		end = add(end, *each);
	*length = (size_t)(end - text);
	return text;
}

/* One line is written at once or not at all, as it is shorter than PIPE_BUF. */
static void say(int fifo, const char *line)
{
	while (write(fifo, line, strlen(line)) < 0)
		if (errno != EINTR)
			give_up(NOT_EXECUTABLE, "the broker does not listen");
}

static int open_fifo(void)
{
	int fifo = open(REQUESTS, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fifo < 0)
		give_up(NOT_EXECUTABLE, "there is no broker here");
	fcntl(fifo, F_SETFL, 0); /* from here on, wait while it is full */
	return fifo;
}

static uint64_t ignored(void)
{
	uint64_t found = 0;
	struct sigaction now;

	for (int number = 1; number < 64; number++)
		if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
			found |= 1ull << number;
	return found;
}

/* Hear of signals instead of dying of them, but for those that we were started to ignore. */
static int catch_signals(uint64_t deaf)
{
	sigset_t passed;

	sigemptyset(&passed);
	for (size_t each = 0; each < sizeof PASSED_ON / sizeof PASSED_ON[0]; each++)
		if (!(deaf >> PASSED_ON[each] & 1))
			sigaddset(&passed, PASSED_ON[each]);
	sigprocmask(SIG_BLOCK, &passed, NULL);
	return signalfd(-1, &passed, SFD_CLOEXEC);
}

/* `E` is what fail() sends: the code, the error, the step, and on what. */
static void report(const char *text)
{
	int code, error, at = 0;

	if (sscanf(text, "E%d %d %*s %n", &code, &error, &at) == 2 && at)
		dprintf(2, "byleave: %s: %s\n", text + at, strerror(error));
}

static void wait_a_moment(void)
{
	struct timespec moment = {.tv_nsec = BUSY * 1000000L};

	nanosleep(&moment, NULL);
}

/* Do what the init says; return whether the program shares our process group, -1 if that is not news. */
static int hear_init(int line, int fifo, const char *request)
{
	char bytes[2 + LONGEST_REASON + 512];
	ssize_t got = recv(line, bytes, sizeof bytes - 1, 0);
	int status;

	if (got < 1)
		give_up(NOT_EXECUTABLE, "the broker is gone");
	bytes[got] = 0;
	switch (bytes[0]) {
	case 'B':
		wait_a_moment();
		say(fifo, request);
		break;
	case 'N':
		give_up(NOT_EXECUTABLE, bytes + 1);
	case 'S':
		return bytes[1] == 'g';
	case 'E':
		report(bytes);
		break;
	case 'X':
		if (got != 1 + (ssize_t)sizeof status)
			give_up(NOT_EXECUTABLE, "the broker is gone");
		memcpy(&status, bytes + 1, sizeof status);
		end_as(status);
	}
	return -1;
}

static void hear_signal(int caught, int fifo, int grouped)
{
	struct signalfd_siginfo got;
	char line[LONGEST_LINE];

	if (read(caught, &got, sizeof got) != (ssize_t)sizeof got)
		return;
	if (grouped < 0) /* nothing runs yet: it is ours */
		end_as((int)got.ssi_signo);
	if (grouped && got.ssi_code > 0) /* the terminal sent it to both of us */
		return;
	snprintf(line, sizeof line, "\nk %d %d\n", (int)getpid(), (int)got.ssi_signo);
	say(fifo, line);
}

void stand_in_if_asked(char **words)
{
	size_t length;
	char request[LONGEST_LINE];
	int line[2];

	if (access(REQUESTS, F_OK) < 0)
		return; /* we are outside, and the launcher */
	called = (const char *)getauxval(AT_EXECFN);
	uint64_t deaf = ignored();
	int fifo = open_fifo(), caught = catch_signals(deaf);
	char *text = compose(words, &length);
	mode_t mask = umask(0);
	if (caught < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) < 0)
		give_up(NOT_EXECUTABLE, "there are no descriptors left");
	snprintf(request, sizeof request, "\nr %d %d %llx %zu %o %llx\n", (int)getpid(), line[1],
		 (unsigned long long)(uintptr_t)text, length, (unsigned)mask, (unsigned long long)deaf);
	say(fifo, request);
	struct pollfd watched[] = {{.fd = caught, .events = POLLIN}, {.fd = line[0], .events = POLLIN}};
	for (int grouped = -1;;) {
		if (poll(watched, 2, -1) < 0)
			continue;
		if (watched[1].revents) {
			int news = hear_init(line[0], fifo, request);
			grouped = news < 0 ? grouped : news;
		}
		if (watched[0].revents)
			hear_signal(caught, fifo, grouped);
	}
}

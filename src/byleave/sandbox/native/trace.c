/*
 * Watching a program: what was it refused?
 *
 * The filter of a program that is watched stops it at two kinds of calls, and at no others, so that it runs at full speed
 * in between:
 *
 *     SECCOMP_RET_TRACE   at calls that name a place or an address. They are let go, and their results looked at.
 *     SECCOMP_RET_TRAP    at calls that are refused. The kernel has refused them by then; the signal that says so never
 *                         reaches the program, which gets the error that it gets when it is not watched.
 *
 * Nothing here lets anything pass that the kernel would not, and what is read from the program is only reported. A program
 * that loses its tracer is ended (PTRACE_O_EXITKILL); a process that escapes it (CLONE_UNTRACED) can do less, not more:
 * the kernel refuses what it would have asked us about.
 *
 * A report is a message on the control socket: `struct report`, then texts, each with its length before it. Which
 * arguments of a call mean what came with the launcher's program (sandbox/diagnose/traced_calls.py).
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <time.h>

enum {
	MOST_CALLS = 256,
	MOST_PROCESSES = 1 << 22, /* the kernel's own limit, PID_MAX_LIMIT */
	MOST_WORDS = 16,
	LONGEST_WORD = 256,
	LONGEST_ADDRESS = 128,
	LONGEST_PACKET = 512,
	PATIENCE = 100, /* milliseconds that a reader may take before messages are dropped */
	LAST_PATIENCE = 2000, /* the same for the last message, which says how many were */
	REMEMBERED = 1 << 14,
	STACK_DEPTH = 1 << 14, /* how far up the stack the question to a name server is looked for */
	DNS_PORT = 53,
	MOST_QUESTIONS = 1000, /* how often a table of the kernel is read to find out more about a call */
	MARK = 0x6200, /* in what a filter says with a trap: this one is ours. The rest is the error */
	SECCOMP_TRAP = 1, /* si_code of the signal, SYS_SECCOMP */
	PAGE = 4096,
};

#define OPTIONS                                                                                                        \
	(PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |   \
	 PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC)

/* ptrace(2) of Linux 5.3; older headers have neither. */
#define GET_CALL 0x420e
enum { NO_CALL = 0, ENTERED = 1, LEFT = 2, STOPPED_BY_FILTER = 3 };

struct call_news {
	uint8_t kind;
	uint8_t unused[3];
	uint32_t architecture;
	uint64_t instruction, stack;
	union {
		struct {
			uint64_t number, arguments[6];
			uint32_t data; /* what the filter said with it */
		} entered;
		struct {
			int64_t value;
			uint8_t is_error;
		} left;
	};
};

/* Positions of a call's arguments; -1 where it has no such argument. `errors` has a bit for each that is worth a report. */
struct watched {
	int8_t first_at, first, second_at, second, address, packet, words, through;
	uint64_t number, errors[2];
};

struct call {
	uint64_t arguments[6];
	uint32_t number;
	uint16_t row;
	uint16_t inside;
};

struct report {
	char letter;
	uint8_t by_filter;
	uint16_t error;
	uint32_t number;
	uint64_t arguments[6];
};

static struct watched rows[MOST_CALLS];
static size_t row_count;
static struct call *calls; /* by thread: what it was let go to do */
static int gate[2];
static int prepared;
static pid_t watched_program;
static int reports = -1;
static uint32_t dropped;
static int reader_is_slow;

/* ---- Before anything runs ---------------------------------------------------------------------------------------- */

void prepare_to_trace(const char *bytes, size_t length)
{
	if (length > sizeof rows || length % sizeof rows[0]) {
		errno = E2BIG;
		fail(NOT_SET_UP, "trace", "");
	}
	memcpy(rows, bytes, length);
	row_count = length / sizeof rows[0];
	prepared = 1;
	if (pipe2(gate, O_CLOEXEC) < 0)
		fail(NOT_SET_UP, "trace", "");
}

void be_traced(void)
{
	char ready;

	close(gate[1]);
	if (read(gate[0], &ready, 1) != 1) /* the tracer is gone */
		_exit(NOT_SET_UP);
	close(gate[0]);
}

void trace(pid_t program, int control)
{
	size_t size = (size_t)MOST_PROCESSES * sizeof *calls;

	close(gate[0]);
	watched_program = program;
	reports = control;
	/* Only the pages of processes that there are ever come into being. */
	calls = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (calls == MAP_FAILED || ptrace(PTRACE_SEIZE, program, 0, OPTIONS) < 0)
		fail(NOT_SET_UP, "trace", "");
	if (write(gate[1], "", 1) != 1)
		fail(NOT_SET_UP, "trace", "");
	close(gate[1]);
}

int prepare_another(void)
{
	return prepared ? pipe2(gate, O_CLOEXEC) : 0;
}

/* The init hides its memory, and so do its children: until they are watched, this one does not. */
void be_traced_too(void)
{
	if (!prepared)
		return;
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	be_traced();
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Wait until it can be watched, which takes it but a moment. */
static int seize(pid_t program)
{
	struct timespec moment = {.tv_nsec = 100000};

	for (int each = 0; each < 10000; each++) {
		if (ptrace(PTRACE_SEIZE, program, 0, OPTIONS) == 0)
			return 0;
		if (errno != EPERM)
			break;
		nanosleep(&moment, NULL);
	}
	return -1;
}

/* Whoever cannot be watched does not run: the filter that it gets counts on us. */
void trace_another(pid_t program)
{
	if (!prepared)
		return;
	close(gate[0]);
	if (program > 0 && (seize(program) < 0 || write(gate[1], "", 1) != 1))
		kill(program, SIGKILL);
	close(gate[1]);
}

/* ---- Reading a program's memory ---------------------------------------------------------------------------------- */

/* Read as much as there is, up to `length`; page by page, for the next one may not be there. */
static size_t peek(pid_t who, uint64_t where, void *to, size_t length)
{
	size_t done = 0;

	while (done < length) {
		size_t rest = PAGE - (where + done) % PAGE;
		struct iovec ours = {.iov_base = (char *)to + done, .iov_len = rest < length - done ? rest : length - done};
		struct iovec theirs = {.iov_base = (void *)(uintptr_t)(where + done), .iov_len = ours.iov_len};
		ssize_t got = process_vm_readv(who, &ours, 1, &theirs, 1, 0);
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

/* Read a text that ends in a NUL; return its length without it. */
static size_t peek_text(pid_t who, uint64_t where, char *to, size_t room)
{
	size_t done = 0;

	while (done < room) {
		size_t rest = PAGE - (where + done) % PAGE;
		size_t got = peek(who, where + done, to + done, rest < room - done ? rest : room - done);
		const char *end = memchr(to + done, 0, got);
		if (end)
			return (size_t)(end - to);
		if (!got)
			break;
		done += got;
	}
	return done;
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static struct {
	struct report head;
	char texts[2 * 2 * (PATH_MAX + 2) + LONGEST_ADDRESS + LONGEST_PACKET + MOST_WORDS * (LONGEST_WORD + 2) + 8];
} message;
static size_t filled; /* of the texts */

/* Make room for a text of at most `most` bytes; `close_text` says how long it became. */
static char *open_text(void)
{
	return message.texts + filled + sizeof(uint16_t);
}

static void close_text(size_t length)
{
	uint16_t written = (uint16_t)length;

	memcpy(message.texts + filled, &written, sizeof written);
	filled += sizeof written + length;
}

/* Send the report, and do not wait long: a reader that sleeps must not stop the program. */
static void send_report(int patience)
{
	size_t length = sizeof message.head + filled;
	struct pollfd reader = {.fd = reports, .events = POLLOUT};

	if (send(reports, &message, length, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
		reader_is_slow = 0;
		return;
	}
	if (errno == EAGAIN && !reader_is_slow) {
		reader_is_slow = poll(&reader, 1, patience) <= 0;
		if (!reader_is_slow && send(reports, &message, length, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return;
	}
	dropped++;
}

/* Programs look in dozens of places where nothing is, thousands of times: it is enough to report that once. */
static int is_known(void)
{
	static uint64_t known[REMEMBERED];
	const unsigned char *bytes = (const unsigned char *)message.texts;
	uint64_t mark = 0xcbf29ce484222325u ^ message.head.number ^ (uint64_t)message.head.error << 32; /* FNV-1a */

	for (size_t each = 0; each < filled; each++)
		mark = (mark ^ bytes[each]) * 0x100000001b3u;
	uint64_t *place = &known[mark % REMEMBERED];
	if (*place == mark)
		return 1;
	*place = mark;
	return 0;
}

static int is_absence(int error)
{
	return error == ENOENT || error == ENOTDIR || error == EEXIST || error == EISDIR;
}

/* ---- What a call meant ------------------------------------------------------------------------------------------- */

/* Tell where a relative path starts: nothing if the path is absolute. */
static void put_base(pid_t who, const char *path, int at)
{
	char name[64];
	ssize_t length = 0;

	if (*path != '/') {
		if (at == AT_FDCWD)
			snprintf(name, sizeof name, "/proc/%d/cwd", who);
		else
			snprintf(name, sizeof name, "/proc/%d/fd/%d", who, at);
		length = readlink(name, open_text(), PATH_MAX);
	}
	close_text(length > 0 ? (size_t)length : 0);
}

static void put_path(pid_t who, const struct call *call, int at, int position)
{
	char path[PATH_MAX];

	if (position < 0)
		return;
	size_t length = peek_text(who, call->arguments[position], path, sizeof path);
	put_base(who, length ? path : "", at < 0 ? AT_FDCWD : (int)call->arguments[at]);
	memcpy(open_text(), path, length);
	close_text(length);
}

static void put_words(pid_t who, const struct call *call, int position)
{
	uint64_t words[MOST_WORDS];

	if (position < 0)
		return;
	size_t got = peek(who, call->arguments[position], words, sizeof words) / sizeof words[0];
	for (size_t each = 0; each < got && words[each]; each++)
		close_text(peek_text(who, words[each], open_text(), LONGEST_WORD));
}

/* ---- Names that are asked for ------------------------------------------------------------------------------------ */

/* How long a question for an address is that starts here: one name, as RFC 1035 writes it. 0 if it is none. */
static size_t question(const unsigned char *at, size_t length)
{
	size_t end = 12;

	/* Of the head: a standard question, one of them, and no answers. */
	if (length < 18 || at[2] & 0xfe || at[3] & 0x8f || at[4] || at[5] != 1 || at[6] || at[7] || at[8] || at[9] || at[10])
		return 0;
	while (end < length && at[end]) {
		size_t label = at[end++];
		if (label > 63)
			return 0;
		for (; label; label--, end++)
			if (end >= length || at[end] <= ' ' || at[end] >= 0x7f)
				return 0;
	}
	if (end == 12 || end + 5 > length || at[end + 1] || at[end + 3] || at[end + 4] != 1)
		return 0;
	return at[end + 2] == 1 || at[end + 2] == 28 ? end + 5 : 0; /* A and AAAA */
}

/* What a program is about to ask a name server: the message itself, or whatever lies ready on the stack above it. */
static void put_question(pid_t who, const struct call *call, const struct watched *row, uint64_t stack)
{
	static unsigned char bytes[STACK_DEPTH];
	uint64_t where = row->packet < 0 ? stack : call->arguments[row->packet];
	size_t got = peek(who, where, bytes, row->packet < 0 ? STACK_DEPTH : LONGEST_PACKET);

	for (size_t each = 0; each + 18 <= got; each++) {
		size_t length = question(bytes + each, got - each);
		if (length && length <= LONGEST_PACKET) {
			memcpy(open_text(), bytes + each, length);
			close_text(length);
			return;
		}
		if (row->packet >= 0)
			break;
	}
}

/* Such tables can be long, and a program can make them longer: it must not keep us busy with them. */
static int may_ask(void)
{
	static int asked;

	return asked < MOST_QUESTIONS && ++asked;
}

/* Whether a process in the sandbox waits for connections at a port. */
static int listens_inside(unsigned port)
{
	static const char *const TABLES[] = {"/proc/net/tcp", "/proc/net/tcp6"};
	char line[256];
	unsigned found, state;
	int listening = 0;

	for (size_t each = 0; each < 2; each++) {
		FILE *table = fopen(TABLES[each], "re");
		while (table && fgets(line, sizeof line, table))
			if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &found, &state) == 2)
				listening |= found == port && state == 0x0a; /* TCP_LISTEN */
		if (table)
			fclose(table);
	}
	return listening;
}

static void put_address(pid_t who, const struct call *call, const struct watched *row, uint64_t stack)
{
	if (row->address < 0)
		return;
	struct sockaddr_in address = {0}; /* an address of version 6 has its port in the same place */
	uint64_t length = call->arguments[row->address + 1];
	size_t got = peek(who, call->arguments[row->address], open_text(), length < LONGEST_ADDRESS ? length : LONGEST_ADDRESS);

	memcpy(&address, open_text(), got < sizeof address ? got : sizeof address);
	close_text(got);
	/* A connection that is only begun will come to nothing where no process listens. */
	if (message.head.error == EINPROGRESS)
		message.head.error = !may_ask() || listens_inside(ntohs(address.sin_port)) ? 0 : ECONNREFUSED;
	if ((address.sin_family == AF_INET || address.sin_family == AF_INET6) && ntohs(address.sin_port) == DNS_PORT)
		put_question(who, call, row, stack);
}

static void put_call(const struct call *call, int error, int by_filter)
{
	message.head = (struct report){.letter = 'T', .by_filter = (uint8_t)by_filter, .error = (uint16_t)error};
	message.head.number = call->number;
	memcpy(message.head.arguments, call->arguments, sizeof call->arguments);
	filled = 0;
}

/* ---- Registers --------------------------------------------------------------------------------------------------- */

#if defined __x86_64__
#define ARGUMENTS(registers)                                                                                           \
	{(registers).rdi, (registers).rsi, (registers).rdx, (registers).r10, (registers).r8, (registers).r9}
#define RESULT(registers) ((registers).rax)
#define SKIP(who, registers) ((registers).orig_rax = -1ul)
#define INSTRUCTION(registers) ((registers).rip)
#define CALLER(who, registers, to) peek(who, (registers).rsp, to, sizeof *(to)) /* nothing was pushed since */
#elif defined __aarch64__
#define ARGUMENTS(registers)                                                                                           \
	{(registers).regs[0], (registers).regs[1], (registers).regs[2],                                                   \
	 (registers).regs[3], (registers).regs[4], (registers).regs[5]}
#define RESULT(registers) ((registers).regs[0])
#define SKIP(who, registers) set_call(who, -1)
#define INSTRUCTION(registers) ((registers).pc)
#define CALLER(who, registers, to) (*(to) = (registers).regs[30])

static void set_call(pid_t who, int number)
{
	struct iovec all = {.iov_base = &number, .iov_len = sizeof number};

	ptrace(PTRACE_SETREGSET, who, NT_ARM_SYSTEM_CALL, &all);
}
#else
#error "the registers of this machine are not known"
#endif

/* ---- Stops ------------------------------------------------------------------------------------------------------- */

/* What resumes a process fails only if it was killed meanwhile; then waitpid has more to say. */
static void resume(int how, pid_t who, int number)
{
	ptrace(how, who, 0, (long)number);
}

/* Let a call fail as if it did not exist. */
static void skip(pid_t who)
{
	struct user_regs_struct registers;
	struct iovec all = {.iov_base = &registers, .iov_len = sizeof registers};

	if (ptrace(PTRACE_GETREGSET, who, NT_PRSTATUS, &all) == 0) {
		RESULT(registers) = (unsigned long)-ENOSYS;
		SKIP(who, registers);
		if (ptrace(PTRACE_SETREGSET, who, NT_PRSTATUS, &all) == 0) {
			resume(PTRACE_CONT, who, 0);
			return;
		}
	}
	kill(who, SIGKILL);
}

/* The filter stopped a call that names something: remember it, and stop again at its end. */
static void enter(pid_t who)
{
	struct call_news news;
	struct call *call = &calls[who];

	if (ptrace(GET_CALL, who, sizeof news, &news) < (long)offsetof(struct call_news, entered) + 60 ||
	    news.kind != STOPPED_BY_FILTER || news.entered.data >= row_count ||
	    news.entered.number != rows[news.entered.data].number) {
		skip(who); /* a filter of its own asks for a tracer: there is none but us, and we are none of its */
		return;
	}
	*call = (struct call){.number = (uint32_t)news.entered.number, .row = (uint16_t)news.entered.data, .inside = 1};
	memcpy(call->arguments, news.entered.arguments, sizeof call->arguments);
	resume(PTRACE_SYSCALL, who, 0);
}

static void leave(pid_t who)
{
	struct call_news news;
	struct call *call = &calls[who];
	int known = ptrace(GET_CALL, who, sizeof news, &news) > 0 && news.kind == LEFT && call->inside;
	int64_t error = known && news.left.is_error ? -news.left.value : 0;
	const struct watched *row = &rows[call->row];

	call->inside = 0;
	if (known && error >= 0 && error < 128 && row->errors[error / 64] >> error % 64 & 1) {
		put_call(call, (int)error, 0);
		if (row->through >= 0) /* what is reported of this argument is what it points to */
			peek(who, call->arguments[row->through], &message.head.arguments[row->through], sizeof(uint64_t));
		put_path(who, call, row->first_at, row->first);
		put_path(who, call, row->second_at, row->second);
		put_address(who, call, row, news.stack);
		put_words(who, call, row->words);
		if (!is_absence((int)error) || !is_known())
			send_report(PATIENCE);
	}
	resume(PTRACE_CONT, who, 0);
}

/* Find what is mapped at an address; return whether it is the C library. */
static int is_library(FILE *maps, uint64_t address)
{
	char line[PATH_MAX + 128];

	rewind(maps);
	while (fgets(line, sizeof line, maps)) {
		unsigned long from, to;
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && address >= from && address < to) {
			const char *name = strrchr(line, '/');
			return name && (!strncmp(name, "/libc.so", 8) || !strncmp(name, "/libc-", 6));
		}
	}
	return 0;
}

/* Whether the C library made a call for itself: it asks a daemon that few machines have (nscd) before it reads a file. */
static int by_library(pid_t who, const struct user_regs_struct *registers)
{
	char name[64];
	uint64_t caller = 0;

	snprintf(name, sizeof name, "/proc/%d/maps", who);
	FILE *maps = may_ask() ? fopen(name, "re") : NULL;
	if (!maps)
		return 0;
	(void)CALLER(who, *registers, &caller);
	int found = is_library(maps, INSTRUCTION(*registers)) && is_library(maps, caller);
	fclose(maps);
	return found;
}

/* The filter refused a call: give the program the error, and report it. */
static int refused(pid_t who)
{
	siginfo_t said;
	struct user_regs_struct registers;
	struct iovec all = {.iov_base = &registers, .iov_len = sizeof registers};

	if (ptrace(PTRACE_GETSIGINFO, who, 0, &said) < 0 || said.si_code != SECCOMP_TRAP || (said.si_errno & ~0xff) != MARK)
		return 0;
	if (ptrace(PTRACE_GETREGSET, who, NT_PRSTATUS, &all) < 0)
		return 0;
	struct call call = {.number = (uint32_t)said.si_syscall, .arguments = ARGUMENTS(registers)};
	int error = said.si_errno & 0xff;
	RESULT(registers) = (unsigned long)-error;
	if (ptrace(PTRACE_SETREGSET, who, NT_PRSTATUS, &all) < 0)
		return 0;
	put_call(&call, error, 1);
	if (call.number != SYS_socket || !by_library(who, &registers))
		send_report(PATIENCE);
	return 1;
}

static void say_what_is_missing(void)
{
	message.head = (struct report){.letter = 'D', .number = dropped};
	filled = 0;
	reader_is_slow = 0;
	if (dropped)
		send_report(LAST_PATIENCE);
}

int traced(pid_t who, int status)
{
	int event = status >> 16, number = WSTOPSIG(status);

	if (!WIFSTOPPED(status)) {
		if (who == watched_program)
			say_what_is_missing();
		return 0;
	}
	if (event == PTRACE_EVENT_SECCOMP)
		enter(who);
	else if (number == (SIGTRAP | 0x80))
		leave(who);
	else if (event == PTRACE_EVENT_STOP && number != SIGTRAP)
		resume(PTRACE_LISTEN, who, 0); /* stopped as a job, until it is continued */
	else if (event || (number == SIGSYS && refused(who)))
		resume(PTRACE_CONT, who, 0);
	else
		resume(PTRACE_CONT, who, number);
	return 1;
}

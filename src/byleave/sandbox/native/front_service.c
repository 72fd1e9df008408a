/*
 * Where the service of a command is: one for each user, installation, and set of namespaces, groups and rights.
 *
 * Its socket is in a directory that is the user's alone. The socket's name is a digest of everything that makes a
 * process see or do other things than the service would: what is in another sandbox finds no service there, and starts
 * its own.
 * The digest is a name, no secret: the service looks at the same things of the process at the other end by itself.
 */
#define _GNU_SOURCE
#include "front.h"

enum { KEY_LENGTH = 32, STARTS_APART = 10 }; /* seconds between two attempts to start a service */

struct place {
	char path[PATH_MAX]; /* of the directory */
	int directory;
	char key[KEY_LENGTH + 1];
};

/* ---- The directory ----------------------------------------------------------------------------------------------- */

/* Open a directory of the user's own that no other user can look into; -1 if it is anything else. */
static int open_private(int below, const char *name)
{
	struct stat found;
	int directory = openat(below, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (directory < 0)
		return -1;
	if (fstat(directory, &found) == 0 && found.st_uid == geteuid() && (found.st_mode & 07777) == 0700)
		return directory;
	close(directory);
	errno = EPERM;
	return -1;
}

/* Open the directory of the socket; one of our own naming is made if it is missing and a service may be started. */
static int open_place(struct place *place, const struct command *command)
{
	struct text path = TEXT(place->path);

	if (command->service) {
		add(&path, command->service);
		if (command->service[0] != '/' || !whole(&path))
			return -1;
		return place->directory = open_private(AT_FDCWD, place->path);
	}
	add(&path, FRONT_USERS_DIRECTORIES);
	add_number(&path, geteuid(), 10);
	int users = whole(&path) ? open_private(AT_FDCWD, place->path) : -1;
	if (users >= 0) {
		add(&path, "/");
	} else {
		path.length = 0;
		add(&path, FRONT_TEMPORARY);
	}
	size_t name = path.length;
	add(&path, "byleave");
	if (users < 0) {
		add(&path, "-");
		add_number(&path, geteuid(), 10);
	}
	if (!whole(&path))
		return -1;
	int below = users < 0 ? AT_FDCWD : users;
	const char *named = users < 0 ? place->path : place->path + name;
	place->directory = open_private(below, named);
	if (place->directory < 0 && errno == ENOENT && command->autostart) {
		mode_t mask = umask(0);
		int made = mkdirat(below, named, 0700);
		umask(mask);
		if (made == 0 || errno == EEXIST)
			place->directory = open_private(below, named);
	}
	if (users >= 0)
		close(users);
	return place->directory;
}

/* ---- The name of the socket -------------------------------------------------------------------------------------- */

/* FNV-1a with 128 bits, of lines. Its prime is 2^88 + 0x13b. */
static uint64_t high, low;

static void mix(const char *bytes, size_t length)
{
	for (size_t each = 0; each < length; each++) {
		low ^= (unsigned char)bytes[each];
		uint64_t right = (low & 0xffffffff) * 0x13b, left = (low >> 32) * 0x13b + (right >> 32);
		high = high * 0x13b + (left >> 32) + (low << 24);
		low = left << 32 | (right & 0xffffffff);
	}
}

static void mix_line(const char *line, size_t length)
{
	mix(line, length);
	mix("\n", 1);
}

static void mix_users(void)
{
	char room[48];
	struct text line = TEXT(room);

	add_number(&line, geteuid(), 10);
	add(&line, " ");
	add_number(&line, getegid(), 10);
	mix_line(line.bytes, line.length);
}

static int mix_namespaces(void)
{
	static const struct {
		const char *path;
		int optional; /* not of every kernel, or not there before the first child */
	} names[] = {{"/proc/self/ns/mnt", 0},		    {"/proc/self/ns/user", 0},
		     {"/proc/self/ns/pid", 0},		    {"/proc/self/ns/net", 0},
		     {"/proc/self/ns/ipc", 1},		    {"/proc/self/ns/uts", 1},
		     {"/proc/self/ns/cgroup", 1},	    {"/proc/self/ns/time", 1},
		     {"/proc/self/ns/pid_for_children", 1}, {"/proc/self/ns/time_for_children", 1}};
	char link[64];

	for (size_t each = 0; each < sizeof names / sizeof names[0]; each++) {
		ssize_t length = readlink(names[each].path, link, sizeof link);
		if (length < 0 && errno == ENOENT && names[each].optional)
			continue;
		if (length <= 0 || (size_t)length == sizeof link)
			return -1;
		mix_line(link, (size_t)length);
	}
	return 0;
}

/* A whole file of /proc; -1 if it is not shorter than its room. */
static ssize_t read_all(const char *path, char *into, size_t room)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;

	while (file >= 0 && length < room) {
		ssize_t more = read(file, into + length, room - length);
		if (more < 0 && errno == EINTR)
			continue;
		if (more <= 0) {
			close(file);
			return more < 0 ? -1 : (ssize_t)length;
		}
		length += (size_t)more;
	}
	if (file >= 0)
		close(file);
	return -1;
}

static int mix_rights(void)
{
	static const struct {
		const char *name;
		int optional; /* of a kernel that does not know it yet */
	} lines[] = {{"NoNewPrivs:", 0}, {"Seccomp:", 0}, {"Seccomp_filters:", 1}, {"Groups:", 0}, {"CapEff:", 0},
		     {"CapPrm:", 0},	 {"CapInh:", 0},  {"CapBnd:", 0},	   {"CapAmb:", 0}};
	static char status[1 << 14], label[1 << 12];
	ssize_t length = read_all("/proc/self/status", status, sizeof status - 1);

	if (length <= 0)
		return -1;
	status[length] = 0;
	for (size_t each = 0; each < sizeof lines / sizeof lines[0]; each++) {
		const char *line = status, *end;
		for (; (end = strchr(line, '\n')) && !begins(line, lines[each].name); line = end + 1)
			;
		if (end)
			mix_line(line, (size_t)(end - line));
		else if (!lines[each].optional)
			return -1;
	}
	/* What AppArmor, SELinux or another module of the kernel holds us by; nothing if there is none. */
	length = read_all("/proc/self/attr/current", label, sizeof label);
	mix_line(label, length > 0 ? (size_t)length : 0);
	return 0;
}

/* The root of all paths, which chroot changes alone, and limits: what is forked from a service has the service's. */
static int mix_bounds(void)
{
	static char limits[1 << 12];
	char room[48];
	struct text line = TEXT(room);
	struct stat root;
	ssize_t length = read_all("/proc/self/limits", limits, sizeof limits);
	int directory = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int known = directory >= 0 && fstat(directory, &root) == 0;

	if (directory >= 0)
		close(directory);
	if (length <= 0 || !known)
		return -1;
	add_number(&line, root.st_dev, 10);
	add(&line, " ");
	add_number(&line, root.st_ino, 10);
	mix_line(line.bytes, line.length);
	mix_line(limits, (size_t)length);
	return 0;
}

/* Where the packages are that ours needs: as the command says, else beside it. NULL if that is too long. */
static const char *packages_of(const struct command *command)
{
	static char room[PATH_MAX];
	struct text packages = TEXT(room);

	if (command->packages)
		return command->packages;
	add_bytes(&packages, command->package, strlen(command->package) - strlen("/byleave"));
	return whole(&packages);
}

static int find_key(struct place *place, const struct command *command)
{
	const char *python = command->cold[0], *packages = packages_of(command);

	if (!packages)
		return -1;

	high = 0x6c62272e07bb0142;
	low = 0x62b821756295c58d;
	mix_line(VERSION, sizeof VERSION - 1);
	mix_line(command->package, strlen(command->package));
	mix_line(python, (size_t)(strrchr(python, '/') - python));
	mix_line(packages, strlen(packages));
	mix_users();
	if (mix_namespaces() < 0 || mix_rights() < 0 || mix_bounds() < 0)
		return -1;
	for (int each = 0; each < KEY_LENGTH; each++)
		place->key[each] = "0123456789abcdef"[(each < 16 ? high >> (60 - 4 * each) : low >> (124 - 4 * each)) & 15];
	return 0;
}

/* ---- Starting the service ---------------------------------------------------------------------------------------- */

/* Whether it is our turn: a file says when it was tried last. */
static int may_try(const struct place *place)
{
	char room[KEY_LENGTH + 16];
	struct text name = TEXT(room);
	struct stat found;
	struct timespec time;

	add(&name, place->key);
	add(&name, ".starting");
	if (!whole(&name))
		return 0;
	int file = openat(place->directory, room, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file >= 0) {
		close(file);
		return 1;
	}
	file = errno == EEXIST ? openat(place->directory, room, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	if (file < 0)
		return 0;
	/* Of several that find it old, one is first. The others find it locked, or new. */
	int ours = 0;
	if (flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode) &&
	    clock_gettime(CLOCK_REALTIME, &time) == 0) {
		long age = time.tv_sec - found.st_mtim.tv_sec;
		ours = (age > STARTS_APART || age < -STARTS_APART) && futimens(file, NULL) == 0;
	}
	close(file);
	return ours;
}

static _Noreturn void become_service(char **words)
{
	static char *variables[] = {"LC_ALL=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", NULL};
	sigset_t none;
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int stream = 0; stream < 3; stream++)
		if (dup3(nothing, stream, 0) < 0)
			_exit(NOT_SET_UP);
	if (chdir("/") < 0 || syscall(SYS_close_range, 3u, ~0u, 0) < 0)
		_exit(NOT_SET_UP);
	umask(077);
	for (int number = 1; number <= FOR_ALL; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(words[0], words, variables);
	_exit(NOT_EXECUTABLE);
}

/* Start it as a process that is nobody's child, and do not wait for it: this command is cold. */
static void start_service(const struct place *place, const struct command *command)
{
	static char script_room[PATH_MAX];
	struct text script = TEXT(script_room);
	const char *packages = packages_of(command);

	add(&script, command->package);
	add(&script, "/service/__main__.py");
	if (!whole(&script) || !packages || !may_try(place))
		return;
	char *words[] = {command->cold[0], "-I", "-S", script_room, "--directory", (char *)place->path, "--key",
			 (char *)place->key, "--packages", (char *)packages, NULL};
	/* Without a signal at its end: the command that takes our place has no child that it does not know. */
	pid_t between = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (between == 0) {
		if (setsid() >= 0 && syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
			become_service(words);
		_exit(0);
	}
	while (between > 0 && waitpid(between, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* ---- Connecting -------------------------------------------------------------------------------------------------- */

/* Whether the process at the other end is the user's own, and lets us read what proves to it that we may look at it: the
 * name of a descriptor. A process that some sandbox holds may not, and gets no answer. */
static int is_users_own(int connection, struct text *proof)
{
	struct ucred who;
	socklen_t size = sizeof who;
	char room[64];
	struct text path = TEXT(room);

	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid() || who.pid <= 0)
		return 0;
	add(&path, "/proc/");
	add_number(&path, (unsigned long)who.pid, 10);
	add(&path, "/fd/3");
	ssize_t length = whole(&path) ? readlink(room, proof->bytes, proof->room - 1) : -1;
	if (length <= 0 || (size_t)length >= proof->room - 1)
		return 0;
	proof->length = (size_t)length;
	return whole(proof) != NULL;
}

int connect_service(const struct command *command, struct text *proof)
{
	static struct place place;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct text path = TEXT(address.sun_path);

	if (getuid() != geteuid() || getgid() != getegid() || open_place(&place, command) < 0)
		return -1;
	int connection = -1;
	if (find_key(&place, command) == 0) {
		add(&path, "/proc/self/fd/"); /* whatever takes the directory's name meanwhile */
		add_number(&path, (unsigned)place.directory, 10);
		add(&path, "/");
		add(&path, place.key);
		add(&path, ".sock");
		connection = whole(&path) ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
	}
	if (connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) < 0) {
		int absent = errno == ENOENT || errno == ECONNREFUSED;
		close(connection);
		connection = -1;
		if (absent && command->autostart)
			start_service(&place, command);
	}
	if (connection >= 0 && !is_users_own(connection, proof)) {
		close(connection);
		connection = -1;
	}
	close(place.directory);
	return connection;
}

/*
 * byleave's launcher: puts a program into the sandbox that a plan describes, then runs it.
 *
 *     launcher PROGRAM CONTROL
 *
 * PROGRAM is a descriptor with a list of steps, done in order (sandbox/linux/program.py writes it, STEPS below reads it).
 * CONTROL is a socket to the process that started us: an error, or a listening socket, goes out on it; when its other end is
 * closed, everything in the sandbox ends.
 *
 * Three processes take turns on the program:
 *
 *     keeper   enters new namespaces, forks the init, passes signals on, ends as the program ended
 *     init     process 1 in there: builds the view of the file system, forks the program, reaps whatever is left over
 *     program  gives everything up (capabilities, Landlock, seccomp), then execs
 *
 * The steps FORK and SPAWN hand the program on. Without them (where namespaces are not allowed) the first process does all.
 * Any step that fails stops the start: nothing ever runs in less than what was asked for.
 */
#define _GNU_SOURCE
#include "launcher.h"

#ifdef __SANITIZE_OPTIONS__
/* A build for tests (build.py): the sanitizers read their options here, as a launcher has no environment. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return __SANITIZE_OPTIONS__;
}
#endif

static int control = -1;

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* Say which step failed, on what, and why; then leave. The other side turns it into a sentence. */
_Noreturn void fail(int code, const char *step, const char *what)
{
	char text[4608];
	int error = errno;
	int length = snprintf(text, sizeof text, "E%d %d %s %.4096s", code, error, step, what);

	if (length > (int)sizeof text - 1)
		length = sizeof text - 1;
	while (send(control, text, (size_t)length, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
	_exit(code);
}

int must(int result, const char *step, const char *what)
{
	if (result < 0)
		fail(NOT_SET_UP, step, what);
	return result;
}

/* ---- Reading a program ------------------------------------------------------------------------------------------ */

static uint8_t *load(int descriptor, size_t *size)
{
	struct stat found;

	must(fstat(descriptor, &found), "program", "");
	*size = (size_t)found.st_size;
	void *bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
	if (bytes == MAP_FAILED)
		fail(NOT_SET_UP, "program", "");
	return bytes;
}

static uint64_t number(struct program *at)
{
	uint64_t value;

	if (at->end - at->now < (ptrdiff_t)sizeof value) {
		errno = EBADMSG;
		fail(NOT_SET_UP, "program", "number");
	}
	memcpy(&value, at->now, sizeof value);
	at->now += sizeof value;
	return value;
}

/* A string: its length, its bytes, a NUL. */
static const char *text(struct program *at, size_t *length)
{
	uint64_t size = number(at);

	if (size >= (uint64_t)(at->end - at->now) || at->now[size] != 0) {
		errno = EBADMSG;
		fail(NOT_SET_UP, "program", "text");
	}
	const char *found = (const char *)at->now;
	at->now += size + 1;
	if (length)
		*length = (size_t)size;
	return found;
}

static const char *word(struct program *at)
{
	return text(at, NULL);
}

/* ---- Namespaces -------------------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *content)
{
	int file = must(open(path, O_WRONLY | O_CLOEXEC), "write", path);

	must((int)write(file, content, strlen(content)), "write", path);
	close(file);
}

/* A network of one's own takes the kernel as long as everything else that is set up. So the keeper makes it, while the
 * init builds the view, and hands it over by this line. */
static int made_meanwhile; /* what the keeper makes, until the init has it */
static int network_line[2] = {-1, -1};

/* The upper half of the flags is what the keeper makes meanwhile. */
static void do_namespaces(struct program *at)
{
	uint64_t flags = number(at);
	const char *uids = word(at), *gids = word(at);
	int keeps_groups = (int)number(at);

	made_meanwhile = (int)(flags >> 32);
	must(unshare((int)(flags & 0xffffffff)), "namespaces", "");
	if (!keeps_groups)
		write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/uid_map", uids);
	write_file("/proc/self/gid_map", gids);
}

static void bring_up_loopback(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int any = must(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "loopback", "");

	must(ioctl(any, SIOCSIFFLAGS, &request), "loopback", "");
	close(any);
}

/* In the keeper. It ends if this fails, and the init with it. The kernel lets one process at a time change interfaces, also
 * while it takes away the networks of earlier runs: that is waited for here as well. */
static void make_network(void)
{
	must(unshare(made_meanwhile), "namespaces", "");
	bring_up_loopback();
	int network = must(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), "namespaces", "net");

	if (send_descriptors(network_line[1], 'N', &network, 1) < 0 && errno != EPIPE) /* else the init has ended: `keep` says how */
		fail(NOT_SET_UP, "namespaces", "net");
	close(network);
}

/* In the init: enter the network that the keeper has made, with its loopback. A keeper that could not has said so. */
static void do_network(struct program *at)
{
	int network;

	(void)at;
	if (network_line[0] < 0 || receive_descriptors(network_line[0], &network, 1) < 0)
		_exit(NOT_SET_UP);
	must((int)syscall(SYS_setns, network, made_meanwhile), "namespaces", "net");
	close(network);
	close(network_line[0]);
	network_line[0] = -1;
	made_meanwhile = 0;
}

static void do_join(struct program *at)
{
	(void)at;
	join_session(control);
}

static void do_adopt(struct program *at)
{
	(void)at;
	adopt_session(control);
}

static void do_hold(struct program *at)
{
	(void)at;
	hold_session();
}

/* ---- The view of the file system --------------------------------------------------------------------------------- */

static int host = -1; /* the root directory of the host, until the pivot */
static int view = -1; /* the root directory of the view that is being built */

static int open_at(int root, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};

	while (*path == '/')
		path++;
	return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

enum { BENEATH = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

/* A place of the host: the plan names it canonically, so a link in it was put there since. Magic links lead nowhere. */
static int open_host(const char *path)
{
	return open_at(host, path, O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* What is mounted below the /tmp of a session. The other runs can exchange the directories on the way there while we
 * build, so that one part of a plan would be done to what is shown and the next to something of theirs. A path below such
 * a mount begins at the mount itself. */
static struct pinned {
	const char *path;
	int place;
} pins[MOST_PINS];
static unsigned pinned;
static const char *shared_at;

/* What lies behind a path that another one begins with, by whole names; NULL if it does not. */
static const char *rest_of(const char *path, const char *above)
{
	for (; *above; path++, above++)
		if (*path != *above)
			return NULL;
	return *path && *path != '/' ? NULL : path;
}

/* Return where a path of the view begins, and move it on to what lies below. */
static int beginning_of(const char **path)
{
	for (unsigned each = pinned; each-- > 0;) {
		const char *rest = rest_of(*path, pins[each].path);
		if (rest) {
			*path = rest;
			return pins[each].place;
		}
	}
	return view;
}

/* Keep hold of a directory that was mounted at a path. */
static void pin(int tree, const char *path)
{
	struct stat found;

	if (!shared_at || !rest_of(path, shared_at) || fstat(tree, &found) < 0 || !S_ISDIR(found.st_mode))
		return;
	for (unsigned each = 0; each < pinned; each++)
		if (rest_of(path, pins[each].path))
			return;
	if (pinned == MOST_PINS) {
		errno = E2BIG;
		fail(NOT_SET_UP, "place", path);
	}
	pins[pinned].place = must(fcntl(tree, F_DUPFD_CLOEXEC, (long)LAST_OF_OURS + 1), "place", path);
	pins[pinned++].path = path;
}

static int open_within(const char *path, uint64_t flags)
{
	int root = beginning_of(&path);

	return open_at(root, path, flags, BENEATH);
}

static int open_view(const char *path)
{
	return open_within(path, O_PATH | O_NOFOLLOW);
}

/* Find the same places in a copy of the view, in which the old ones are not mounted. */
static void pin_again(void)
{
	unsigned count = pinned;

	pinned = 0;
	for (unsigned each = 0; each < count; each++) {
		struct stat before, now;
		int place = must(open_at(view, pins[each].path, O_PATH | O_NOFOLLOW | O_DIRECTORY, BENEATH), "place", pins[each].path);
		if (fstat(pins[each].place, &before) < 0 || fstat(place, &now) < 0 || before.st_dev != now.st_dev ||
		    before.st_ino != now.st_ino) {
			errno = ESTALE;
			fail(NOT_SET_UP, "place", pins[each].path);
		}
		close(pins[each].place);
		pins[each].place = place;
	}
	pinned = count;
}

/* The directory of the view that was looked up last: most steps are about names in the same few directories. It stays
 * open until another one is looked up. */
static struct {
	char path[PATH_MAX];
	int place;
} last = {.place = -1};

static void forget_parent(void)
{
	if (last.place >= 0)
		close(last.place);
	last.place = -1;
}

/* Find the directory that holds `path` in the view, and point `name` at the last name; -1 if there is none. It is not for
 * the caller to close. What the runs of a session share is looked up each time. */
static int find_parent(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	size_t length = (size_t)(slash - path);

	*name = slash + 1;
	if (length >= sizeof last.path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (last.place >= 0 && rest_of(path, last.path) == slash && !(shared_at && rest_of(path, shared_at)))
		return last.place;
	forget_parent();
	memcpy(last.path, path, length);
	last.path[length] = 0;
	last.place = open_within(last.path, O_PATH | O_NOFOLLOW | O_DIRECTORY);
	return last.place;
}

static int parent_of(const char *path, const char **name)
{
	return must(find_parent(path, name), "view", path);
}

static int same_kind(int place, uint64_t kind)
{
	struct stat found;

	if (fstat(place, &found) < 0)
		return 0;
	if (S_ISLNK(found.st_mode))
		return kind == ITSELF;
	return kind == DIRECTORY ? S_ISDIR(found.st_mode) : kind != ITSELF && !S_ISDIR(found.st_mode);
}

/* Give a mount its attributes; what is in it gets them too. */
static int limited(int tree, uint64_t set, int recursive, const char *path)
{
	struct mount_attr attributes = {.attr_set = set, .propagation = MS_PRIVATE};
	unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);

	must((int)syscall(SYS_mount_setattr, tree, "", flags, &attributes, sizeof attributes), "attributes", path);
	return tree;
}

/* Set the options of a file system of the kernel's own, each of which ends in a NUL, and return it as a mount that is
 * attached nowhere yet. */
static int made_mount(const char *kind, const char *options, size_t length, const char *path)
{
	int context = must((int)syscall(SYS_fsopen, kind, FSOPEN_CLOEXEC), "mount", path);

	for (const char *pair = options; pair < options + length; pair += strlen(pair) + 1) {
		char key[64];
		const char *value = strchr(pair, '=');
		snprintf(key, sizeof key, "%.*s", value ? (int)(value - pair) : 63, pair);
		unsigned how = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
		must((int)syscall(SYS_fsconfig, context, how, key, value ? value + 1 : NULL, 0), "mount", pair);
	}
	must((int)syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "mount", path);
	int tree = must((int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0), "mount", path);
	close(context);
	return tree;
}

/* Make the directory that the view is built in, upon a directory of the host's that no link has replaced. */
static void do_root(struct program *at)
{
	const char *staging = word(at);
	size_t length;
	const char *options = text(at, &length);

	host = must(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), "root", "/");
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private", "/");
	int place = must(open_host(staging), "root", staging);
	if (!same_kind(place, DIRECTORY)) {
		errno = ELOOP;
		fail(NOT_SET_UP, "root", staging);
	}
	view = limited(made_mount("tmpfs", options, length, staging), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, staging);
	must((int)syscall(SYS_move_mount, view, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), "root",
	     staging);
	close(place);
}

/* Make a directory of the view, and what is missing above it, whatever the caller's umask is. One that is there stays as
 * it is. Every name is looked up in the directory that was opened before it, and none of them through a link. */
static void make_directory(const char *path, mode_t mode)
{
	const char *below = path, *last_name;
	int above = find_parent(path, &last_name);
	mode_t before = umask(0);

	if (above >= 0 && mkdirat(above, last_name, mode) == 0) {
		umask(before);
		return;
	}
	int missing = above < 0 && errno == ENOENT, root = beginning_of(&below);
	int at = missing ? -1 : open_at(root, below, O_PATH | O_NOFOLLOW | O_DIRECTORY, BENEATH);
	if (at < 0)
		at = must(open_at(root, "/", O_PATH | O_DIRECTORY, BENEATH), "directory", path);
	else
		below = ""; /* it is there */
	for (const char *name = *below ? below + 1 : below, *end; *name; name = end + (*end == '/')) {
		char one[NAME_MAX + 1];
		end = strchr(name, '/');
		end = end ? end : name + strlen(name);
		if ((size_t)(end - name) >= sizeof one) {
			errno = ENAMETOOLONG;
			fail(NOT_SET_UP, "directory", path);
		}
		memcpy(one, name, (size_t)(end - name));
		one[end - name] = 0;
		int made = mkdirat(at, one, *end ? 0755 : mode);
		if (made < 0 && errno != EEXIST)
			fail(NOT_SET_UP, "directory", path);
		if (made == 0 && !*end)
			break;
		int next = must(open_at(at, one, O_PATH | O_NOFOLLOW | O_DIRECTORY, BENEATH), "directory", path);
		close(at);
		at = next;
	}
	close(at);
	umask(before);
}

static void do_directory(struct program *at)
{
	const char *path = word(at);

	make_directory(path, (mode_t)number(at));
}

/* Whether a name is left from an earlier run of the session, which shares its /tmp: what is mounted there covers it. */
static int is_left_over(int result)
{
	return result < 0 && errno == EEXIST && session_alive >= 0;
}

static void do_link(struct program *at)
{
	const char *target = word(at), *path = word(at), *name;
	int parent = parent_of(path, &name), made = symlinkat(target, parent, name);

	if (!is_left_over(made))
		must(made, "link", path);
}

static void do_file(struct program *at)
{
	const char *path = word(at);
	mode_t mode = (mode_t)number(at);
	size_t length;
	const char *content = text(at, &length), *name;
	int parent = parent_of(path, &name);

	if (!length) { /* most of them are there to be mounted on */
		mode_t before = umask(0);
		int made = (int)syscall(SYS_mknodat, parent, name, S_IFREG | mode, 0);
		umask(before);
		if (!is_left_over(made))
			must(made, "file", path);
		return;
	}
	int file = must(openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), "file", path);
	must((int)write(file, content, length), "file", path);
	must(fchmod(file, mode), "file", path);
	close(file);
}

/* Move a mount that is attached nowhere to a path of the view, which exists. If it is a link, it is not followed. */
static int moved(int tree, const char *path)
{
	const char *name;
	int above = find_parent(path, &name);

	return above < 0 ? -1 : (int)syscall(SYS_move_mount, tree, "", above, name, MOVE_MOUNT_F_EMPTY_PATH);
}

/* The same; then the mount is closed. */
static int try_to_move(int tree, const char *path)
{
	int done = moved(tree, path), why = errno;

	close(tree);
	errno = why;
	return done;
}

static void attach(int tree, uint64_t set, int recursive, const char *path)
{
	must(moved(limited(tree, set, recursive, path), path), "place", path);
	pin(tree, path);
	close(tree);
}

/* Copy what an open place shows, as a mount that is attached nowhere yet. */
static int copied(int place, unsigned depth, const char *path)
{
	return must((int)syscall(SYS_open_tree, place, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | depth), "copy",
		    path);
}

/* Show a place of the host at a path of the view. The place must be of the kind that the plan saw. */
static void do_bind(struct program *at)
{
	const char *source = word(at), *path = word(at);
	uint64_t set = number(at), kind = number(at);
	int place = must(open_host(source), "bind", source);

	if (!same_kind(place, kind)) {
		errno = ESTALE;
		fail(NOT_SET_UP, "bind", source);
	}
	attach(copied(place, AT_RECURSIVE, source), set, 1, path);
	close(place);
}

/* Cover a place of the view with something of the view, which is empty; below 0 if that place is not there. Many places
 * are covered by the same few things: each gets its attributes once, by a mount upon itself, and every copy of that has
 * them. */
static int cover_place(const char *what, const char *path, uint64_t set)
{
	static struct {
		const char *what;
		uint64_t set;
		int place;
	} ready[4];
	unsigned each = 0;

	while (each < 4 && ready[each].what && (strcmp(ready[each].what, what) || ready[each].set != set))
		each++;
	if (each == 4) {
		errno = E2BIG;
		fail(NOT_SET_UP, "cover", what);
	}
	if (!ready[each].what) {
		int bare = must(open_view(what), "cover", what);
		attach(copied(bare, 0, what), set, 0, what);
		close(bare);
		ready[each].place = must(open_view(what), "cover", what);
		ready[each].what = what;
		ready[each].set = set;
	}
	return try_to_move(copied(ready[each].place, 0, path), path);
}

static void do_cover(struct program *at)
{
	const char *what = word(at), *path = word(at);

	must(cover_place(what, path, number(at)), "place", path);
}

/* Cover a file of the kernel's or of the system's, if it is still there: modules come and go, and so do the temporary
 * files of what installs packages. Where the directory was exchanged since it was looked up, the other one is looked at. */
static void do_shade(struct program *at)
{
	const char *what = word(at), *path = word(at);
	uint64_t set = number(at);

	int done = cover_place(what, path, set);

	if (done < 0 && errno == ENOENT) {
		forget_parent();
		done = cover_place(what, path, set);
	}
	if (done < 0 && errno != ENOENT)
		fail(NOT_SET_UP, "cover", path);
}

/* Take rights away from a mount whose inside is finished. */
static void do_seal(struct program *at)
{
	const char *path = word(at);
	struct mount_attr attributes = {.attr_set = number(at)};
	int place = must(open_view(path), "seal", path);

	must((int)syscall(SYS_mount_setattr, place, "", AT_EMPTY_PATH, &attributes, sizeof attributes), "seal", path);
	close(place);
}

/* Let nothing be executed from a mount, nor from any mount inside it. One that has gone meanwhile, with what it stood on,
 * needs nothing: the init ends the sandbox when something comes into being there. What is no mount is refused. */
static void do_noexec(struct program *at)
{
	const char *path = word(at);
	struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOEXEC};
	int place = open_view(path);

	if (place < 0 && errno == ENOENT)
		return;
	must(place, "noexec", path);
	must((int)syscall(SYS_mount_setattr, place, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes),
	     "noexec", path);
	close(place);
}

/* Mount a file system of the kernel's own. */
static void do_mount(struct program *at)
{
	const char *kind = word(at), *path = word(at);
	size_t length;
	const char *options = text(at, &length);
	uint64_t set = number(at);

	attach(made_mount(kind, options, length, path), set, 0, path);
}

/* Show the directory that all runs of an agent session share. */
static void do_shared(struct program *at)
{
	const char *path = word(at);

	attach(session_tmp, number(at), 0, path);
	session_tmp = -1;
	shared_at = path;
}

/* Make the view the root of everything, and let go of the host's. */
static void do_pivot(struct program *at)
{
	uint64_t set = number(at);
	struct mount_attr attributes = {.attr_set = set, .propagation = MS_PRIVATE};

	if (made_meanwhile) { /* the plan has no step that enters it */
		errno = EBADMSG;
		fail(NOT_SET_UP, "namespaces", "net");
	}
	must((int)syscall(SYS_mount_setattr, view, "", AT_EMPTY_PATH, &attributes, sizeof attributes), "pivot", "");
	must(fchdir(view), "pivot", "");
	must((int)syscall(SYS_pivot_root, ".", "."), "pivot", "");
	must(umount2(".", MNT_DETACH), "pivot", "");
	must(chdir("/"), "pivot", "");
	forget_parent();
	close(host);
	close(view);
	host = view = -1;
}

/* ---- Places that others may exchange ----------------------------------------------------------------------------- */

/* A mount stands on a name of the host's. When a process outside removes or replaces what has that name (an editor saves,
 * git writes its configuration), the kernel takes the mount away, and the new thing would be open. So the directories
 * around such mounts are watched, and what is missing is mounted again. */
static struct guard {
	const char *path, *cover; /* no cover: the place itself, with fewer rights */
	uint64_t set, held; /* held: nothing may come into being here */
	const char *content; /* of the file that holds the name, if it is one */
	size_t length;
	int watched; /* since before something was mounted there */
	int made_anew; /* what holds the name came while the program ran: the program may have it open */
} guards[MOST_GUARDS];
static unsigned guarded;
static int watching = -1;

/* Whether an open failed because the place is not there. A link above it, which is none of the plan's, leads elsewhere. */
static int is_missing(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
}

/* Have the kernel report on a directory by dnotify: unlike inotify, it does not make our end wait. Says whether it does;
 * then the directory stays open, as closing it would end the watch. */
static int watch_cheaply(int directory)
{
	static struct {
		dev_t device;
		ino_t number;
	} known[MOST_DIRECTORIES];
	static unsigned count;
	struct stat found;

	if (fstat(directory, &found) < 0)
		return 0;
	for (unsigned each = 0; each < count; each++)
		if (known[each].device == found.st_dev && known[each].number == found.st_ino) {
			close(directory);
			return 1;
		}
	if (count == MOST_DIRECTORIES || fcntl(directory, F_NOTIFY, (long)(DN_CREATE | DN_DELETE | DN_RENAME | DN_MULTISHOT)) < 0)
		return 0;
	known[count].device = found.st_dev;
	known[count++].number = found.st_ino;
	return 1;
}

/* Begin to be reported to by inotify; says whether that works. */
static int begin_to_watch(void)
{
	if (watching < 0)
		watching = (int)syscall(SYS_inotify_init1, IN_NONBLOCK | IN_CLOEXEC);
	return watching >= 0 && fcntl(watching, F_SETOWN, (long)getpid()) >= 0 &&
	       fcntl(watching, F_SETFL, (long)(O_ASYNC | O_NONBLOCK)) >= 0;
}

static int watch(int place, uint32_t news)
{
	char opened[64];

	snprintf(opened, sizeof opened, "/proc/self/fd/%d", place);
	return (int)syscall(SYS_inotify_add_watch, watching, opened, news);
}

/* Watch one directory; watching it twice is watching it once. It is not for the caller to close. */
static void watch_directory(int directory, const char *path)
{
	if (watching < 0 && watch_cheaply(directory))
		return;
	if (!begin_to_watch() || watch(directory, IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR) < 0)
		fail(NOT_SET_UP, "guard", path);
	close(directory);
}

enum { OPEN, MOUNTED, GONE };

static int state_of(const char *path)
{
	struct statx found;
	const char *name;
	int above = find_parent(path, &name);

	if (above < 0 || syscall(SYS_statx, above, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &found) < 0)
		return is_missing() ? GONE : OPEN;
	return found.stx_attributes & STATX_ATTR_MOUNT_ROOT ? MOUNTED : OPEN;
}

/* Watch the directories from the mount around a place down to the place: exchanging any of them exchanges the place, and
 * one that has gone may come back. The outer ones come first, so that what comes after a look below is reported. */
static void watch_around(const char *path)
{
	char at[PATH_MAX];
	size_t whole = (size_t)(strrchr(path, '/') - path), length = whole;

	if (whole >= sizeof at) {
		errno = ENAMETOOLONG;
		fail(NOT_SET_UP, "guard", path);
	}
	memcpy(at, path, whole);
	for (at[length] = 0; length && state_of(at) != MOUNTED; at[length] = 0)
		length = (size_t)(strrchr(at, '/') - at);
	for (;;) {
		int directory = open_within(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (directory >= 0)
			watch_directory(directory, path);
		else if (is_missing())
			return;
		else if (length == whole)
			fail(NOT_SET_UP, "guard", path);
		if (length == whole)
			return;
		at[length] = '/';
		while (++length < whole && path[length] != '/')
			;
		at[length] = 0;
	}
}

/* Whether two paths are names in the same directory. */
static int is_beside(const char *path, const char *other)
{
	while (*path && *path == *other)
		path++, other++;
	return !strchr(path, '/') && !strchr(other, '/');
}

/* A guard that stands before the mount of its place has the directory around it watched from here on: then only news say
 * that something was exchanged. */
static void do_guard(struct program *at)
{
	struct guard each = {
		.path = word(at), .cover = word(at), .set = number(at), .held = number(at), .watched = view >= 0};
	const struct guard *before = guarded ? &guards[guarded - 1] : NULL;

	each.content = text(at, &each.length);
	if (guarded == MOST_GUARDS) {
		errno = E2BIG;
		fail(NOT_SET_UP, "guard", each.path);
	}
	if (each.watched && !(before && before->watched && is_beside(each.path, before->path)))
		watch_around(each.path);
	guards[guarded++] = each;
}

/* Whether the kernel has reported anything since we looked at the places last. It does so before the call returns that
 * changed something. */
static int has_news(void)
{
	uint64_t waiting = 0;

	must((int)syscall(SYS_rt_sigpending, &waiting, sizeof waiting), "guard", "");
	return waiting >> (NEWS - 1) & 1;
}

static int is_empty(const char *path)
{
	char names[256]; /* more than two entries, or a longer name than `..`, is something */
	int directory = open_within(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	long length = directory < 0 ? -1 : syscall(SYS_getdents64, directory, names, sizeof names);

	if (directory >= 0)
		close(directory);
	return length >= 0 && length <= 2 * 24; /* `.` and `..` take 24 bytes each */
}

/* Whether a name is held by a file as byleave makes it (sandbox/reserved_names.py). A later run does that where a process
 * outside has removed it. */
static int is_held_by_file(const struct guard *guard)
{
	char content[16];
	struct stat found;
	int file = open_within(guard->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	int same = file >= 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink == 1 &&
	           (found.st_mode & 07777) == 0444 && guard->length < sizeof content &&
	           read(file, content, sizeof content) == (ssize_t)guard->length;

	for (size_t each = 0; same && each < guard->length; each++)
		same = content[each] == guard->content[each];
	if (file >= 0)
		close(file);
	return same;
}

/* Such a file may have been made by the program, or opened by it before it was mounted: then the mount does not keep it
 * from changes. So the file itself is watched, by whatever name or descriptor it is reached. Says whether it is as it was
 * made after that. */
static int watch_file(const struct guard *guard)
{
	int place = open_view(guard->path);
	int watched = place >= 0 && begin_to_watch() && watch(place, IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE) >= 0;

	if (place >= 0)
		close(place);
	return watched && is_held_by_file(guard);
}

/* Take away the mount upon a place. */
static void uncover(const struct guard *guard)
{
	char opened[64];
	int place = open_view(guard->path);

	snprintf(opened, sizeof opened, "/proc/self/fd/%d", place);
	if (place < 0 || umount2(opened, MNT_DETACH) < 0)
		fail(NOT_SET_UP, "guard", guard->path);
	close(place);
}

/* A process outside removed what held a name, and something else has it now: it is kept, under a name that nothing runs
 * and no program can foresee. */
static void put_aside(const struct guard *guard)
{
	char other[NAME_MAX + 1];
	const char *name;
	unsigned chance;
	int above = find_parent(guard->path, &name);

	if (above < 0 && is_missing())
		return;
	must(above, "guard", guard->path);
	if (syscall(SYS_getrandom, &chance, sizeof chance, 0) != (long)sizeof chance)
		fail(NOT_SET_UP, "guard", guard->path);
	int length = snprintf(other, sizeof other, "%s.refused-by-byleave-%d", name, (int)(chance >> 1));
	if (length >= (int)sizeof other) {
		errno = ENAMETOOLONG;
		fail(NOT_SET_UP, "guard", guard->path);
	}
	if (syscall(SYS_renameat2, above, name, above, other, RENAME_NOREPLACE) < 0 && errno != ENOENT)
		fail(NOT_SET_UP, "guard", guard->path);
	if (*guard->cover && mkdirat(above, name, 0755) < 0 && errno != EEXIST)
		fail(NOT_SET_UP, "guard", guard->path);
}

/* What may not be looked into is only covered: under another name it could be read. */
static int is_mask(const struct guard *guard)
{
	return !strcmp(guard->cover, COVER_DIRECTORY) || !strcmp(guard->cover, COVER_FILE);
}

static int brokering; /* whether the init runs listed programs for the program */

/* Mount what is missing. What cannot be mounted ends the sandbox: better none than a weaker one. */
static void renew(void)
{
	char news[4096];

	while (watching >= 0 && syscall(SYS_read, watching, news, sizeof news) > 0)
		;
	forget_parent(); /* which may be another one by now */
	for (unsigned each = 0; each < guarded; each++) {
		struct guard *guard = &guards[each];
		int state = state_of(guard->path);
		if (state == GONE) {
			forget_parent();
			watch_around(guard->path); /* the directory around it may be another one by now */
			state = state_of(guard->path);
		}
		if (state == MOUNTED && guard->made_anew && !is_held_by_file(guard)) {
			uncover(guard);
			put_aside(guard);
			guard->made_anew = 0;
			continue;
		}
		if (state != OPEN)
			continue;
		if (brokering) { /* the program has a view of its own, into which we cannot mount */
			errno = ESTALE;
			fail(NOT_SET_UP, "exchanged", guard->path);
		}
		int as_made = guard->held && !*guard->cover && is_held_by_file(guard);
		if (guard->held && !is_mask(guard) && !as_made && !is_empty(guard->path))
			put_aside(guard);
		int place = open_view(guard->path);
		if (place < 0 && is_missing())
			continue;
		must(place, "guard", guard->path);
		int cover = *guard->cover ? must(open_view(same_kind(place, DIRECTORY) ? COVER_DIRECTORY : COVER_FILE), "guard",
						 guard->path)
					  : place;
		int tree = copied(cover, *guard->cover ? 0 : AT_RECURSIVE, guard->path);
		/* Whoever exchanges it again at this moment causes further news. */
		if (try_to_move(limited(tree, guard->set, !*guard->cover, guard->path), guard->path) < 0 && !is_missing())
			fail(NOT_SET_UP, "guard", guard->path);
		if (cover != place)
			close(cover);
		close(place);
		watch_around(guard->path);
		guard->made_anew = as_made;
		if (as_made && state_of(guard->path) == MOUNTED && !watch_file(guard)) {
			uncover(guard);
			put_aside(guard);
			guard->made_anew = 0;
		}
	}
	forget_parent();
}

/* Of what the program did last. Once something was mounted anew, not all that happens to it is reported. */
static void renew_at_end(void)
{
	int anew = 0;

	for (unsigned each = 0; each < guarded; each++)
		anew |= guards[each].made_anew;
	if (guarded && (anew || has_news()))
		renew();
}

/* Get news by a signal, which the init waits for anyway. */
static void do_watch(struct program *at)
{
	int late = 0;

	(void)at;
	view = must(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), "guard", "/");
	for (unsigned each = 0; each < guarded; each++)
		if (!guards[each].watched) {
			watch_around(guards[each].path);
			late = 1;
		}
	if (late || has_news()) /* something was exchanged before we watched, or while we mounted */
		renew();
}

/* Have a view of one's own: what is mounted from here on, this process and its children see alone. */
static void do_detach(struct program *at)
{
	(void)at;
	must(unshare(CLONE_NEWNS), "detach", "");
	forget_parent();
	host = must(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), "detach", "/");
	view = must(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), "detach", "/");
	pin_again();
}

/* ---- What else the init sets up ---------------------------------------------------------------------------------- */

static void do_loopback(struct program *at)
{
	(void)at;
	bring_up_loopback();
}

/* Pass a descriptor to the process that started us. */
static void hand_out(char kind, int descriptor, const char *step)
{
	struct iovec body = {.iov_base = &kind, .iov_len = 1};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} extra = {0};
	struct msghdr message = {
		.msg_iov = &body, .msg_iovlen = 1, .msg_control = extra.bytes, .msg_controllen = sizeof extra.bytes};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
	must((int)sendmsg(control, &message, MSG_NOSIGNAL), step, "");
}

/* Listen inside the namespace, and hand the socket out: who accepts from it is outside. */
static void do_listen(struct program *at)
{
	uint16_t port = (uint16_t)number(at);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "listen", "");

	must(bind(listener, (struct sockaddr *)&address, sizeof address), "listen", "");
	must(listen(listener, 128), "listen", "");
	hand_out('L', listener, "listen");
	close(listener);
}

/* Change a setting that belongs to our own namespaces. `required` says whether it must work. */
static void do_setting(struct program *at)
{
	const char *path = word(at), *value = word(at);
	uint64_t required = number(at);
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, value, strlen(value)) < 0) {
		if (required)
			fail(NOT_SET_UP, "setting", path);
	}
	if (file >= 0)
		close(file);
}

static void do_hostname(struct program *at)
{
	const char *name = word(at);

	must(sethostname(name, strlen(name)), "hostname", name);
}

/* ---- What the program gives up ----------------------------------------------------------------------------------- */

static void do_limit(struct program *at)
{
	uint64_t which = number(at);
	struct rlimit limit = {.rlim_cur = number(at)}, now;

	must(getrlimit((int)which, &now), "limit", "");
	if (limit.rlim_cur > now.rlim_max) /* never more than we have */
		limit.rlim_cur = now.rlim_max;
	limit.rlim_max = limit.rlim_cur;
	must(setrlimit((int)which, &limit), "limit", "");
}

/* No root, no fixup, no keeping of capabilities, no raising of ambient ones; and all of it for good. */
enum { KEEP_NOTHING = 0xFF };

static void do_drop(struct program *at)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	(void)at;
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs", "");
	for (int each = 0; prctl(PR_CAPBSET_DROP, each, 0, 0, 0) == 0; each++)
		;
	if (errno != EINVAL && errno != EPERM) /* past the last one, or nothing that exec could give back */
		fail(NOT_SET_UP, "capabilities", "");
	if (prctl(PR_SET_SECUREBITS, KEEP_NOTHING, 0, 0, 0) < 0 && errno != EPERM)
		fail(NOT_SET_UP, "securebits", "");
	must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "capabilities", "");
	must((int)syscall(SYS_capset, &header, none), "capabilities", "");
}

static int ruleset = -1;

static void do_landlock(struct program *at)
{
	struct landlock_attributes handled = {.fs = number(at), .net = number(at), .scoped = number(at)};
	uint64_t size = number(at); /* as much of it as this kernel's version knows */

	ruleset = must((int)syscall(SYS_landlock_create_ruleset, &handled, (size_t)size, 0), "landlock", "");
}

/* Open a place name by name, none of them a link, where the kernel's own call for that is refused: we are in a sandbox
 * ourselves, which can only take away. */
static int open_by_names(const char *path)
{
	int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (at >= 0 && *(path += *path == '/')) {
		char name[NAME_MAX + 1];
		size_t length = 0;
		struct stat found;
		for (; path[length] && path[length] != '/'; length++)
			if (length < NAME_MAX)
				name[length] = path[length];
		name[length < NAME_MAX ? length : NAME_MAX] = 0;
		path += length;
		int below = length > NAME_MAX ? -1 : openat(at, name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
		if (below >= 0 && (fstat(below, &found) < 0 || S_ISLNK(found.st_mode))) {
			close(below);
			below = -1;
			errno = ELOOP;
		}
		close(at);
		at = below;
	}
	return at;
}

/* The place must be there, as the view was built from the same plan, or else what it says is no longer needed. */
static void do_grant(struct program *at)
{
	const char *path = word(at);
	struct landlock_beneath rule = {.allowed = number(at)};
	uint64_t kind = number(at), may_be_gone = kind & IF_THERE;

	kind &= ~(uint64_t)IF_THERE;
	/* The plan's paths are canonical: where there is no view, a link in one was put there since. */
	struct open_how how = {.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	rule.parent = kind == LINKED ? open(path, O_PATH | O_CLOEXEC)
				     : (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	if (rule.parent < 0 && errno == ENOSYS)
		rule.parent = open_by_names(path);
	if (rule.parent >= 0 && kind != LINKED && !same_kind(rule.parent, kind)) {
		close(rule.parent);
		rule.parent = -1;
		errno = ESTALE;
	}
	if (rule.parent < 0 && may_be_gone)
		return;
	must(rule.parent, "grant", path);
	must((int)syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0), "grant", path);
	close(rule.parent);
}

/* The terminal that the caller's streams lead to is none of the view's: without this, no program opens /dev/stdout. */
static void do_streams(struct program *at)
{
	struct landlock_beneath rule = {.allowed = number(at)};

	for (rule.parent = 0; rule.parent < 3; rule.parent++)
		if (isatty(rule.parent))
			must((int)syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0), "grant", "terminal");
}

static void do_restrict(struct program *at)
{
	(void)at;
	must((int)syscall(SYS_landlock_restrict_self, ruleset, 0), "landlock", "restrict");
	close(ruleset);
	ruleset = -1;
}

static struct sock_fprog filter_from(struct program *at)
{
	static struct sock_filter filter[512];
	size_t length;
	const char *code = text(at, &length);

	if (length > sizeof filter || length % sizeof filter[0]) {
		errno = E2BIG;
		fail(NOT_SET_UP, "seccomp", "");
	}
	memcpy(filter, code, length);
	return (struct sock_fprog){.len = (unsigned short)(length / sizeof filter[0]), .filter = filter};
}

static void do_seccomp(struct program *at)
{
	struct sock_fprog program = filter_from(at);

	must((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp", "");
}

static void do_notes(struct program *at)
{
	prepare_to_note(word(at));
}

static void do_notify(struct program *at)
{
	struct sock_fprog program = filter_from(at);

	be_stopped(&program);
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

static char **list(struct program *at)
{
	uint64_t count = number(at);
	char **words = count < 1 << 20 ? calloc(count + 1, sizeof *words) : NULL;

	if (!words)
		fail(NOT_SET_UP, "program", "list");
	for (uint64_t each = 0; each < count; each++)
		words[each] = (char *)word(at);
	return words;
}

static sigset_t callers_mask;
static __sighandler_t callers_way_with_children;

static void do_exec(struct program *at)
{
	const char *program = word(at), *directory = word(at);
	char **arguments = list(at), **environment = list(at);

	if (chdir(directory) < 0)
		fail(NOT_SET_UP, "directory", directory);
	/* Nothing of ours and nothing of the caller's goes along, but for standard input, output and error. */
	if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		fail(NOT_SET_UP, "descriptors", "");
	signal(SIGCHLD, callers_way_with_children);
	sigprocmask(SIG_SETMASK, &callers_mask, NULL);
	execve(program, arguments, environment);
	fail(errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE, "exec", program);
}

/* ---- Keeper and init --------------------------------------------------------------------------------------------- */

/* A signal that the terminal sent reached the program by itself; one that a process sent to us alone did not. */
static int was_sent_to_us(int code)
{
	return code <= 0;
}

/* Whether the program leads a process group of its own: without a terminal, it need not be in the foreground. */
static int leads_group;

/* What a process sent to us alone is for the program alone; what a terminal sent to us is for all of its group. */
static void pass_on_to(pid_t program, int number)
{
	if (number < FOR_ALL && number >= FOR_ALL - SIGTSTP)
		kill(leads_group ? -program : program, FOR_ALL - number);
	else
		kill(program, number);
}

static pid_t forked(void)
{
	pid_t child = fork();

	return must(child, "fork", "");
}

/* End as the child ended, so that the process that waits for us learns it. */
_Noreturn void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		struct rlimit none = {0};
		sigset_t all;
		setrlimit(RLIMIT_CORE, &none);
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
		sigfillset(&all);
		sigprocmask(SIG_UNBLOCK, &all, NULL);
		_exit(128 + WTERMSIG(status));
	}
	_exit(WEXITSTATUS(status));
}

static int *shared_status; /* how the program ended: an init cannot end by a signal itself */

/* End whatever the program left behind, where no namespace ends with it: its orphans become our children. */
static void end_the_rest(void)
{
	char path[64], text[4096];

	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	while (waitpid(-1, NULL, WNOHANG) >= 0) {
		int file = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
		if (file < 0)
			return;
		close(file);
		if (length <= 0)
			continue;
		text[length] = 0;
		/* The last number may be cut in two by the end of the text: the next round gets it. */
		for (char *end, *at = text; (end = strchr(at, ' ')); at = end + 1)
			kill((pid_t)strtol(at, NULL, 10), SIGKILL);
		waitpid(-1, NULL, 0);
	}
}

static _Noreturn void keep(pid_t init)
{
	sigset_t all;

	sigfillset(&all);
	int signals = must(signalfd(-1, &all, SFD_CLOEXEC), "keeper", "");
	/* The caller's streams are the program's: who waits for their end does not wait for us. */
	for (int stream = 0; stream < 3; stream++)
		close(stream);
	struct pollfd watched[] = {
		{.fd = signals, .events = POLLIN}, {.fd = control, .events = 0}, {.fd = session_alive, .events = 0}};

	for (;;) {
		struct signalfd_siginfo got;
		int status;
		if (poll(watched, 3, -1) < 0 && errno != EINTR)
			kill(init, SIGKILL);
		for (int each = 1; each < 3; each++)
			if (watched[each].revents) { /* the process that started us is gone, or the session has ended */
				kill(init, SIGKILL);
				watched[each].fd = -1;
			}
		if (!(watched[0].revents & POLLIN) || read(signals, &got, sizeof got) != (ssize_t)sizeof got)
			continue;
		if (got.ssi_signo == SIGCHLD) {
			if (waitpid(init, &status, WNOHANG) == init) {
				end_the_rest();
				end_as(*shared_status >= 0 ? *shared_status : status);
			}
		} else if (got.ssi_signo == SIGTSTP || got.ssi_signo == SIGTTIN || got.ssi_signo == SIGTTOU) {
			raise(SIGSTOP); /* with the program, which got it as well */
		} else if (got.ssi_signo != SIGCONT && was_sent_to_us(got.ssi_code)) {
			kill(init, (int)got.ssi_signo);
		}
	}
}

static void do_fork(struct program *at)
{
	sigset_t all;

	(void)at;
	shared_status = mmap(NULL, sizeof *shared_status, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared_status == MAP_FAILED)
		fail(NOT_SET_UP, "keeper", "");
	*shared_status = -1;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "keeper", "");
	int alive[2]; /* its writing end is the keeper's alone */
	must(pipe2(alive, O_CLOEXEC), "keeper", "");
	if (made_meanwhile)
		must((int)syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, network_line), "keeper", "");
	pid_t init = forked();
	if (init) {
		if (made_meanwhile) {
			close(network_line[0]);
			make_network();
			close(network_line[1]);
		}
		keep(init);
	}
	if (made_meanwhile)
		close(network_line[1]); /* so that we learn of a keeper that ends before it hands over anything */
	must(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "init", "");
	close(alive[1]);
	struct pollfd keeper = {.fd = alive[0], .events = 0};
	if (poll(&keeper, 1, 0) != 0) /* the keeper died before that, so its end would not be noticed */
		_exit(NOT_SET_UP);
	close(alive[0]);
}

static int tracing; /* whether what the program is refused is reported */
enum { MOST_NEWS = 256 };

static void do_trace(struct program *at)
{
	size_t length;
	const char *calls = text(at, &length);

	prepare_to_trace(calls, length);
	tracing = 1;
}

static void do_broker(struct program *at)
{
	prepare_to_broker(word(at), control);
	brokering = 1;
}

static void do_hide(struct program *at)
{
	const char *directory = word(at);

	hide_name(directory, word(at));
}

static int lasting; /* whether what the program leaves behind goes on after its end */

static void do_lasting(struct program *at)
{
	(void)at;
	lasting = 1;
}

static void send_status(int status)
{
	char text[16];
	int length = snprintf(text, sizeof text, "S%d", status);

	send(control, text, (size_t)length, MSG_NOSIGNAL);
}

/* Where there is no keeper, the process that started us gets the status from here. */
static void report_status(int status)
{
	if (shared_status)
		*shared_status = status;
	else
		send_status(status);
}

/* The program shares its working directory with us, so that we know the last one however it ends. What it starts does
 * not. A program that is detached has left us before it was started. */
static pid_t forked_beside_us(void)
{
	return must((pid_t)syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0), "fork", "");
}

static void report_directory(void)
{
	char text[1 + PATH_MAX] = "C";
	long length = syscall(SYS_getcwd, text + 1, sizeof text - 1); /* with the zero at its end */

	if (length > 1)
		send(control, text, (size_t)length, MSG_NOSIGNAL);
}

static void do_spawn(struct program *at)
{
	(void)at;
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	int hiding = !tracing && !brokering && prepare_to_list();
	pid_t init = getpid(), program = brokering ? forked() : forked_beside_us();
	if (program == 0) {
		if (hiding)
			be_listed();
		if (tracing)
			be_traced();
		/* Where no namespace ends with the init, the program at least does. */
		must(prctl(PR_SET_PDEATHSIG, init == 1 ? 0 : SIGKILL, 0, 0, 0), "program", "");
		if (init != 1 && getppid() != init)
			_exit(NOT_SET_UP);
		if (leads_group)
			must(setpgid(0, 0), "program", "");
		/* What the init watches is open in the init: here it would count against the program's own limit. */
		forget_parent();
		must((int)syscall(SYS_close_range, LAST_OF_OURS + 1u, ~0u, 0), "program", "");
		return;
	}
	if (leads_group)
		setpgid(program, program); /* whichever of us comes first */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (tracing)
		trace(program, control);
	/* Let go of the caller's streams: only the program and its children keep them open. */
	for (int stream = 0; stream < 3; stream++)
		close(stream);
	if (brokering)
		open_for_business();
	if (hiding)
		hiding = begin_to_list();
	for (int ended_as = -1;;) {
		siginfo_t got;
		int status;
		if ((brokering ? attend(&got) : hiding ? attend_listing(&got, control) : sigwaitinfo(&all, &got)) < 0)
			continue;
		if (got.si_signo == NEWS) {
			renew();
			continue;
		}
		if (got.si_signo != SIGCHLD) {
			if (program && was_sent_to_us(got.si_code))
				pass_on_to(program, got.si_signo);
			continue;
		}
		int news = 0;
		pid_t ended = 1;
		for (; news < MOST_NEWS && (ended = waitpid(-1, &status, WNOHANG)) > 0; news++) {
			if ((tracing && traced(ended, status)) || (brokering && brokered(ended, status)))
				continue;
			if (ended == program) {
				renew_at_end();
				if (!brokering)
					report_directory();
				report_status(status);
				if (!lasting)
					_exit(0); /* the kernel ends whatever is left in here */
				program = 0;
				if (chdir("/") < 0) /* so that we keep no directory of the program in use */
					_exit(NOT_SET_UP);
				ended_as = status;
			}
		}
		if (!program && ended < 0) /* nothing is left */
			_exit(0);
		if (ended == 0 && ended_as >= 0) { /* something is: the program's own end is reported first, and once */
			send_status(ended_as);
			ended_as = -1;
		}
		if (news == MOST_NEWS) /* a program that is traced may have news without end: look at other signals as well */
			raise(SIGCHLD);
	}
}

/* We are process 1 of a sandbox that another program made: hand out what signals are sent by, and be sent some. */
static void do_report(struct program *at)
{
	int self = must((int)syscall(SYS_pidfd_open, getpid(), 0), "report", "");

	(void)at;
	/* The mask that we were started with was to keep signals from who started us. */
	memset(&callers_mask, 0, sizeof callers_mask);
	hand_out('P', self, "report");
	close(self);
}

/* ---- Doing it ---------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(struct program *);
} STEPS[] = {
	{"namespaces", do_namespaces}, {"fork", do_fork},         {"root", do_root},         {"directory", do_directory},
	{"link", do_link},             {"file", do_file},         {"bind", do_bind},         {"cover", do_cover},
	{"mount", do_mount},           {"pivot", do_pivot},       {"loopback", do_loopback}, {"listen", do_listen},
	{"setting", do_setting},       {"hostname", do_hostname}, {"spawn", do_spawn},       {"limit", do_limit},
	{"drop", do_drop},             {"landlock", do_landlock}, {"grant", do_grant},       {"restrict", do_restrict},
	{"seccomp", do_seccomp},       {"exec", do_exec},         {"streams", do_streams},
	{"seal", do_seal},             {"trace", do_trace},       {"report", do_report},
	{"noexec", do_noexec},         {"detach", do_detach},       {"broker", do_broker},
	{"guard", do_guard},           {"watch", do_watch},
	{"shade", do_shade},           {"join", do_join},         {"lasting", do_lasting},
	{"shared", do_shared},         {"adopt", do_adopt},       {"hold", do_hold},
	{"hide", do_hide},             {"notes", do_notes},       {"notify", do_notify},
	{"network", do_network},
};

/* Do the steps of a program, until one of them runs something else. Errors go out on a socket. */
_Noreturn void play(int descriptor, int errors)
{
	size_t size;

	control = errors;
	uint8_t *bytes = load(descriptor, &size);
	struct program read = {.now = bytes, .end = bytes + size};

	while (read.now < read.end) {
		uint64_t step = number(&read);
		if (step >= sizeof STEPS / sizeof STEPS[0]) {
			errno = EBADMSG;
			fail(NOT_SET_UP, "program", "step");
		}
		STEPS[step].run(&read);
	}
	errno = EBADMSG;
	fail(NOT_SET_UP, "program", "end");
}

int main(int count, char **arguments)
{
	stand_in_if_asked(arguments);
	if (count != 3)
		return NOT_SET_UP;
	control = atoi(arguments[2]);
	fcntl(control, F_SETFD, FD_CLOEXEC);
	/* What the caller left open is none of ours; descriptor 5 may be a lock, which is held as long as we are there. */
	if (syscall(SYS_close_range, LAST_OF_OURS + 1u, ~0u, 0) < 0)
		fail(NOT_SET_UP, "descriptors", "");
	sigprocmask(SIG_SETMASK, NULL, &callers_mask);
	/* A process that ignores this one never learns that a child has ended. The program gets it as the caller had it. */
	callers_way_with_children = signal(SIGCHLD, SIG_DFL);
	int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	leads_group = terminal < 0 && errno == ENXIO; /* we are in a session without one */
	if (terminal >= 0)
		close(terminal);
	play(atoi(arguments[1]), control);
}

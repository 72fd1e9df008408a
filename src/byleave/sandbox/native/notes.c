/*
 * What a program tried to write where everything is read-only: noted, so that its caller learns the name.
 *
 * A second filter has the kernel stop the program at calls that write, until the init has looked at the path and let the
 * call go on as it is (listing.c has the descriptor for that). Nothing is decided here: what is refused, the kernel
 * refuses, whatever the init has seen. It notes a path of the workspace whose mount is read-only, and reports each name
 * once on the control socket.
 */
#define _GNU_SOURCE
#include "launcher.h"

#include <sys/uio.h>
#include <sys/vfs.h>

#ifndef ST_RDONLY
#define ST_RDONLY 1
#endif

enum { MOST_NOTED = 16, PAGE = 4096, HERE = -1 };
/* What has to be there for a call to get as far as the mount: the name, no such name, or either. */
enum { THERE, MISSING, EITHER, OPENED, FOLLOWED = 8 };

static const struct {
	int number, directory, path, needs; /* places of arguments; HERE: the working directory */
} WRITING[] = {
#ifdef SYS_open
	{SYS_open, HERE, 0, OPENED | FOLLOWED},
	{SYS_creat, HERE, 0, EITHER | FOLLOWED},
	{SYS_unlink, HERE, 0, THERE},
	{SYS_rmdir, HERE, 0, THERE},
	{SYS_rename, HERE, 0, THERE},
	{SYS_rename, HERE, 1, EITHER},
	{SYS_mkdir, HERE, 0, MISSING},
	{SYS_mknod, HERE, 0, MISSING},
	{SYS_symlink, HERE, 1, MISSING},
	{SYS_link, HERE, 1, MISSING},
#endif
#ifdef SYS_renameat
	{SYS_renameat, 0, 1, THERE},
	{SYS_renameat, 2, 3, EITHER},
#endif
	{SYS_openat, 0, 1, OPENED | FOLLOWED},
	{SYS_truncate, HERE, 0, THERE | FOLLOWED},
	{SYS_unlinkat, 0, 1, THERE},
	{SYS_renameat2, 0, 1, THERE},
	{SYS_renameat2, 2, 3, EITHER},
	{SYS_mkdirat, 0, 1, MISSING},
	{SYS_mknodat, 0, 1, MISSING},
	{SYS_symlinkat, 1, 2, MISSING},
	{SYS_linkat, 2, 3, MISSING},
};

static const char *workspace;
static char noted[MOST_NOTED][PATH_MAX];
static unsigned number_noted;

/* Read a path of a stopped process, page by page: what follows its end may not be there. */
static int read_path(pid_t who, uint64_t from, char *path)
{
	size_t have = 0;

	while (have < PATH_MAX) {
		size_t piece = PAGE - (from + have) % PAGE;
		piece = piece > PATH_MAX - have ? PATH_MAX - have : piece;
		struct iovec ours = {path + have, piece}, theirs = {(void *)(uintptr_t)(from + have), piece};
		long got = syscall(SYS_process_vm_readv, who, &ours, 1L, &theirs, 1L, 0L);
		if (got <= 0)
			return -1;
		for (long each = 0; each < got; each++)
			if (!path[have + (size_t)each])
				return have + (size_t)each ? 0 : -1;
		have += (size_t)got;
	}
	return -1;
}

/* Report a name of the workspace, each once. */
static void report(int control, int place, const char *below)
{
	char self[64], text[1 + PATH_MAX] = "W", *name = text + 1;
	size_t above = strlen(workspace);

	snprintf(self, sizeof self, "/proc/self/fd/%d", place);
	long length = syscall(SYS_readlinkat, AT_FDCWD, self, name, (long)(PATH_MAX - 1));
	if (length <= 0 || length + (long)strlen(below) + 2 > PATH_MAX)
		return;
	if (*below) {
		name[length++] = '/';
		memcpy(name + length, below, strlen(below));
		length += (long)strlen(below);
	}
	name[length] = 0;
	for (size_t each = 0; each < above; each++)
		if (name[each] != workspace[each])
			return;
	if (name[above] != '/')
		return;
	for (unsigned each = 0; each < number_noted; each++)
		if (!strcmp(noted[each], name))
			return;
	memcpy(noted[number_noted++], name, (size_t)length + 1);
	send(control, text, (size_t)length + 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Look at one path that a call is about to write. */
static void consider(int control, pid_t who, int directory, const char *path, int needs, int creates)
{
	char whole[PATH_MAX + 64], *last = whole;
	int length = 0;

	if (path[0] != '/')
		length = directory == AT_FDCWD ? snprintf(whole, sizeof whole, "/proc/%d/cwd/", (int)who)
		                               : snprintf(whole, sizeof whole, "/proc/%d/fd/%d/", (int)who, directory);
	memcpy(whole + length, path, strlen(path) + 1);
	int place = open(whole, O_PATH | O_CLOEXEC | (needs & FOLLOWED ? 0 : O_NOFOLLOW));
	int kind = needs & ~FOLLOWED, missing = place < 0 && errno == ENOENT;
	const char *below = "";
	if (missing && kind != THERE && (kind != OPENED || creates)) {
		for (size_t end = strlen(whole); end > 1 && whole[end - 1] == '/'; end--)
			whole[end - 1] = 0;
		last = strrchr(whole, '/');
		if (!last)
			return;
		below = last + 1;
		*last = 0;
		place = open(last == whole ? "/" : whole, O_PATH | O_CLOEXEC | O_DIRECTORY);
	}
	struct statfs found;
	if (place >= 0 && (missing || kind != MISSING) && syscall(SYS_fstatfs, place, &found) == 0 &&
	    found.f_flags & ST_RDONLY)
		report(control, place, below);
	if (place >= 0)
		close(place);
}

/* Look at a call that is about to write, as the kernel reports it. */
void note_call(int control, int number, const uint64_t *arguments, pid_t thread)
{
	static char path[PATH_MAX];

	for (size_t each = 0; each < sizeof WRITING / sizeof WRITING[0] && number_noted < MOST_NOTED; each++) {
		if (WRITING[each].number != number)
			continue;
		int at = WRITING[each].directory, creates = 1;
		int directory = at == HERE ? AT_FDCWD : (int)arguments[at];
		if ((WRITING[each].needs & ~FOLLOWED) == OPENED)
			creates = (arguments[WRITING[each].path + 1] & O_CREAT) != 0;
		if (read_path(thread, arguments[WRITING[each].path], path) == 0)
			consider(control, thread, directory, path, WRITING[each].needs, creates);
	}
}

void prepare_to_note(const char *root)
{
	workspace = root;
}

int is_noting(void)
{
	return workspace != NULL;
}

/*
 * The command that the front was given: which Python runs it, whether a service may, and how it runs without one.
 *
 * Served are `hook`, `check`, `run` and `call`, where nothing of the caller's surroundings gives the Python command another
 * meaning than the service gives it: not a locale with another encoding, not a variable that changes Python, not a
 * terminal. In doubt the command is cold: that is slower, never different.
 */
#define _GNU_SOURCE
#include "front.h"

enum { FIRST_MINOR = 11, LAST_MINOR = 39 }; /* versions of Python 3 that an installation is looked for of */

/* ---- Leaving ----------------------------------------------------------------------------------------------------- */

/* Exit with this code whatever happens to the message: an agent that does not read it must not see another code. */
_Noreturn void leave(int code, const char *message)
{
	struct pollfd watched = {.fd = 2, .events = POLLOUT};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (poll(&watched, 1, 1000) == 1) { /* there is room for a line, so writing it does not wait */
		ssize_t written = write(2, message, strlen(message));
		(void)written;
	}
	_exit(code);
}

_Noreturn void go_cold(const struct command *command)
{
	execve(command->cold[0], command->cold, environ);
	int missing = errno == ENOENT;
	/* A shell's 127 is no answer for an agent, which would go on. */
	if (command->kind == HOOK)
		leave(2, "byleave: the call is blocked: its Python cannot be started\n");
	leave(missing ? NOT_FOUND : NOT_EXECUTABLE, "byleave: its Python cannot be started\n");
}

/* ---- Where an installation is ------------------------------------------------------------------------------------ */

/* Length of the path of the directory above, by its name alone, as Python does it; 0 if the name is no plain one. */
static size_t above(const char *path, size_t length)
{
	size_t slash = length;

	while (slash && path[slash - 1] != '/')
		slash--;
	size_t name = length - slash;
	if (slash < 2 || name == 0 || (name == 1 && path[slash] == '.') || (name == 2 && begins(path + slash, "..")))
		return 0;
	return slash - 1;
}

static int is_there(const char *path, int rights)
{
	return path && faccessat(AT_FDCWD, path, rights, 0) == 0;
}

/* Find the package beside a directory of programs (../lib/python3.N/...). Returns N; 0 if it is not there, or twice. */
static int find_package(struct text *package, const char *programs, size_t length)
{
	static const char *const libraries[] = {"/lib", "/lib64"}, *const names[] = {"/site-packages", "/dist-packages"};
	char room[PATH_MAX];
	size_t prefix = above(programs, length);
	int found = 0;

	for (int library = 0; prefix && library < 2 && !found; library++)
		for (int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++) {
			struct text path = TEXT(room);
			add_bytes(&path, programs, prefix);
			add(&path, libraries[library]);
			add(&path, "/python3.");
			add_number(&path, (unsigned)minor, 10);
			if (!is_there(whole(&path), F_OK))
				continue;
			size_t base = path.length;
			for (int name = 0; name < 2; name++) {
				path.length = base;
				add(&path, names[name]);
				size_t directory = path.length;
				add(&path, "/byleave/__init__.py");
				if (!is_there(whole(&path), F_OK))
					continue;
				if (found)
					return 0;
				found = minor;
				package->length = 0;
				add_bytes(package, path.bytes, directory);
				add(package, "/byleave");
			}
		}
	return found && whole(package) ? found : 0;
}

/* What an installer wrote at the beginning of a script beside us: `#!PYTHON`, or what it writes where PYTHON has a space
 * or is long: `#!/bin/sh` and a line `'''exec' "PYTHON" "$0" "$@"`. Returns 0 if it is neither. */
static int read_interpreter(const char *script, struct text *python)
{
	static const char shell[] = "#!/bin/sh\n'''exec' ";
	char head[PATH_MAX + 64], *at = head + 2, *end;
	int file = open(script, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, head, sizeof head - 1);

	if (file >= 0)
		close(file);
	if (length < 2)
		return 0;
	head[length] = 0;
	if (!begins(head, "#!"))
		return 0;
	if (begins(head, shell)) {
		at = head + sizeof shell - 1;
		char quote = *at == '"' || *at == '\'' ? *at++ : ' ';
		end = strchr(at, quote);
	} else {
		for (end = at; *end && *end != '\n' && *end != ' '; end++)
			;
	}
	if (!end || !*end || *at != '/')
		return 0;
	for (const char *each = at; each < end; each++)
		if (strchr("$`\\\"'\n", *each)) /* a shell would take it for more than a path */
			return 0;
	add_bytes(python, at, (size_t)(end - at));
	return is_there(whole(python), X_OK);
}

/* The Python that the program `byleave` in this directory was installed for. */
static const char *own_python(const char *programs, int minor)
{
	static const char *const elsewhere[] = {"/usr/bin", "/usr/local/bin"};
	static char python[PATH_MAX], path[PATH_MAX];
	struct text beside = TEXT(python), found = TEXT(path);

	add(&beside, programs);
	add(&beside, "/python3");
	int has_python = is_there(whole(&beside), X_OK);
	add(&found, programs);
	add(&found, "/../pyvenv.cfg");
	if (has_python && is_there(whole(&found), F_OK))
		return python;
	static char script[PATH_MAX];
	struct text other = TEXT(script);
	add(&other, programs);
	add(&other, "/byleave-tool");
	found.length = 0;
	if (whole(&other) && read_interpreter(script, &found))
		return path;
	for (int each = 0; minor && each < 2; each++) {
		found.length = 0;
		add(&found, elsewhere[each]);
		add(&found, "/python3.");
		add_number(&found, (unsigned)minor, 10);
		if (is_there(whole(&found), X_OK))
			return path;
	}
	return has_python ? python : NULL;
}

/* ---- Reading the command ----------------------------------------------------------------------------------------- */

static char package_room[PATH_MAX];

/* The directory of the program `byleave`, if that is what we are. */
static int is_installed(char *own, size_t room)
{
	static const char deleted[] = " (deleted)";
	ssize_t length = readlink("/proc/self/exe", own, room);

	if (length <= 0 || (size_t)length >= room)
		return 0;
	own[length] = 0;
	if (ends(own, deleted)) /* an update has just put another in our place */
		own[length - (ssize_t)sizeof deleted + 1] = 0;
	if (!ends(own, "/byleave"))
		return 0;
	*strrchr(own, '/') = 0;
	return 1;
}

/* The words behind the script. The package of a script is where it is; that of `-m byleave` is found later. */
static void read_script(struct command *command)
{
	static const char *const flags[] = {"-I", "-S", "-P", "-E", "-s", "-B"};
	static const char *const scripts[] = {"/hooks/__main__.py", "/cli/__main__.py", "/__main__.py"};
	enum { FLAGS = sizeof flags / sizeof flags[0] };
	char **word = command->cold + 1;
	int flag = 0;

	for (; *word; word++) {
		for (flag = 0; flag < FLAGS && strcmp(*word, flags[flag]) != 0; flag++)
			;
		if (flag == FLAGS)
			break;
		command->isolated |= flag == 0 || flag == 3;
	}
	if (!*word)
		return;
	if (strcmp(*word, "-m") == 0) {
		if (!word[1] || strcmp(word[1], "byleave") != 0)
			return;
		command->by_module = 1;
		command->own = word + 2;
		return;
	}
	for (int each = 0; each < 3 && **word == '/'; each++) {
		struct text package = TEXT(package_room);
		size_t length = strlen(*word), without = strlen(scripts[each]);
		if (!ends(*word, scripts[each]))
			continue;
		add_bytes(&package, *word, length - without);
		if (!whole(&package) || !ends(package.bytes, "/byleave"))
			continue;
		command->package = package.bytes;
		command->is_hook_script = each == 0;
		command->own = word + 1;
		if (each == 1 && word[1] && strcmp(word[1], "--packages") == 0 && word[2]) {
			command->packages = word[2]; /* in front of the command */
			command->own = word + 3;
		}
		return;
	}
}

/* A hook is installed with pairs of an option and its value; of two, the last counts. */
const char *hook_option(const struct command *command, const char *name)
{
	const char *value = NULL;

	if (command->kind != HOOK || !command->own[1])
		return NULL;
	for (char **word = command->own + 2; word[0] && word[1]; word += 2)
		if (strcmp(word[0], name) == 0)
			value = word[1];
	return value;
}

void read_command(struct command *command, int count, char **words)
{
	static char own[PATH_MAX];
	static const char *const kinds[] = {[HOOK] = "hook", [CHECK] = "check", [RUN] = "run", [CALL] = "call"};

	if (is_installed(own, sizeof own)) {
		struct text package = TEXT(package_room);
		int minor = find_package(&package, own, strlen(own));
		const char *python = own_python(own, minor);
		char **cold = calloc((size_t)count + 4, sizeof *cold);
		if (!python || !cold)
			leave(count > 1 && strcmp(words[1], "hook") == 0 ? 2 : NOT_FOUND,
			      "byleave: the Python that it was installed for is not there\n  hint: install byleave again\n");
		cold[0] = (char *)python;
		cold[1] = (char *)"-P";
		cold[2] = (char *)"-m";
		cold[3] = (char *)"byleave";
		for (int each = 1; each < count; each++)
			cold[each + 3] = words[each];
		command->cold = cold;
		read_script(command);
		command->package = minor ? package.bytes : NULL;
	} else {
		int given = count > 2 && strcmp(words[1], "--service") == 0 ? 2 : 0;
		if (count < 2 + given || words[1 + given][0] != '/')
			leave(2, *own ? "byleave: this is not how the front is started\n"
					"  hint: front [--service DIR] PYTHON WORD...\n"
				      : "byleave: /proc cannot be read, and byleave finds itself there\n"
					"  hint: mount -t proc proc /proc\n");
		command->service = given ? words[2] : NULL;
		command->cold = words + 1 + given;
		read_script(command);
		struct text package = TEXT(package_room);
		const char *python = command->cold[0];
		if (command->by_module && find_package(&package, python, (size_t)(strrchr(python, '/') - python)))
			command->package = package.bytes;
	}
	for (int kind = HOOK; command->own && command->own[0] && kind <= CALL; kind++)
		if (strcmp(command->own[0], kinds[kind]) == 0)
			command->kind = (enum kind)kind;
	if (command->is_hook_script)
		command->packages = hook_option(command, "--packages");
}

/* ---- Whether it is served ---------------------------------------------------------------------------------------- */

/* Whether a word names a place that is another one for each process, such as a descriptor of the caller's. */
static int names_own_place(const char *word)
{
	for (const char *slash = strchr(word, '/'); slash; slash = strchr(slash + 1, '/'))
		if (begins(slash, "/dev/fd") || begins(slash, "/proc/"))
			return 1;
	return 0;
}

static int has_cold_word(const struct command *command)
{
	static const char *const cold[] = {"--help", "--batch", "--diagnose", "--explain", "--mount", "--no-mount"};
	static const char *const cold_hooks[] = {"--install", "--uninstall", "--resume"};
	static const char *const cold_calls[] = {"--keep", "--schema"};

	for (char **word = command->own + 1; *word && strcmp(*word, "--") != 0; word++) {
		if (strcmp(*word, "-h") == 0 || strcmp(*word, "--add") == 0 || names_own_place(*word))
			return 1;
		for (size_t each = 0; each < sizeof cold / sizeof cold[0]; each++)
			if (begins(*word, cold[each]))
				return 1;
	}
	for (char **word = command->own + 1; command->kind == HOOK && *word; word++)
		for (size_t each = 0; each < sizeof cold_hooks / sizeof cold_hooks[0]; each++)
			if (begins(*word, cold_hooks[each]))
				return 1;
	for (char **word = command->own + 1; command->kind == CALL && *word; word++)
		for (size_t each = 0; each < sizeof cold_calls / sizeof cold_calls[0]; each++)
			if (begins(*word, cold_calls[each]))
				return 1;
	return 0;
}

/* Whether a locale's texts are UTF-8 for Python, which takes C and POSIX for that. */
static int is_utf8(const char *locale)
{
	static const char *const names[] = {"utf-8", "utf8"};
	const char *end = strchr(locale, '@');
	size_t length = end ? (size_t)(end - locale) : strlen(locale);

	if (strcmp(locale, "C") == 0 || strcmp(locale, "POSIX") == 0)
		return 1;
	for (int each = 0; each < 2; each++) {
		size_t wanted = strlen(names[each]), same = 0;
		for (; length >= wanted && same < wanted; same++) {
			char letter = locale[length - wanted + same];
			if ((letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter) != names[each][same])
				break;
		}
		if (same == wanted)
			return 1;
	}
	return 0;
}

/* Whether a variable changes what the loader or the libraries of a Python that starts do, which the service's has done. */
static int changes_libraries(const struct command *command, const char *variable)
{
	static const char *const all[] = {"LD_PRELOAD=", "LD_AUDIT="};
	static const char *const network[] = {"LD_LIBRARY_PATH=", "OPENSSL_CONF=", "OPENSSL_MODULES="};
	int speaks = command->kind == RUN || command->kind == CALL;

	for (int each = 0; each < 2; each++)
		if (begins(variable, all[each]) && variable[strlen(all[each])])
			return 1;
	for (int each = 0; speaks && each < 3; each++)
		if (begins(variable, network[each]) && variable[strlen(network[each])])
			return 1;
	return 0;
}

/* Look at every variable once: whether one of them makes the command cold, and how long they are. */
static int has_cold_variable(struct command *command)
{
	static const char *const harmless[] = {"PYTHONDONTWRITEBYTECODE=", "PYTHONUNBUFFERED=", "PYTHONPYCACHEPREFIX="};
	static const char *const names[] = {"LC_ALL=", "LC_CTYPE=", "LANG="};
	const char *locales[] = {NULL, NULL, NULL};
	int cold = 0;

	command->autostart = 1;
	for (char **variable = environ; *variable; variable++) {
		const char *text = *variable;
		command->variables++;
		command->bytes += strlen(text) + 1;
		for (int each = 0; each < 3; each++)
			if (!locales[each] && begins(text, names[each]))
				locales[each] = text + strlen(names[each]);
		if (begins(text, "PYTHON") && (command->by_module || !command->isolated)) {
			int is_harmless = 0;
			for (int each = 0; each < 3; each++)
				is_harmless |= begins(text, harmless[each]);
			cold |= !is_harmless;
		}
		cold |= strcmp(text, "BYLEAVE_SERVICE=off") == 0 || changes_libraries(command, text);
		if (begins(text, "CI=") && text[3] && strcmp(text + 3, "false") != 0 && strcmp(text + 3, "0") != 0)
			command->autostart = 0;
	}
	for (int each = 0; each < 3; each++)
		if (locales[each] && *locales[each])
			return cold | !is_utf8(locales[each]);
	return cold;
}

static int has_cold_stream(const struct command *command)
{
	int starts_programs = command->kind == RUN || command->kind == CALL;

	for (int stream = 0; stream < 3; stream++)
		if (fcntl(stream, F_GETFD) < 0 || (starts_programs && isatty(stream)))
			return 1;
	if (command->kind != CALL)
		return 0;
	for (char **word = command->own + 1; *word; word++)
		if (strcmp(*word, "--no-input") == 0)
			return 0;
	/* A call asks the person at the terminal that it belongs to, whatever its streams are. */
	int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (terminal >= 0)
		close(terminal);
	return terminal >= 0;
}

int is_served(struct command *command)
{
	if (command->kind == OTHER_COMMAND || !command->package || (command->is_hook_script && command->kind != HOOK))
		return 0;
	if (has_cold_word(command) || has_cold_variable(command) || has_cold_stream(command))
		return 0;
	for (char **word = command->cold; *word; word++) {
		command->words++;
		command->bytes += strlen(*word) + 1;
	}
	/* A name with a newline could pass for two of the names that the socket's own is made of. */
	return command->bytes <= MOST_BYTES && command->words + command->variables <= MOST_STRINGS &&
	       !strchr(command->package, '\n') && !strchr(command->cold[0], '\n') &&
	       !(command->packages && strchr(command->packages, '\n'));
}

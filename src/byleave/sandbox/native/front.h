/* What the parts of the front share. What it is: front.c. */
#include <linux/memfd.h>
#include <sys/file.h>
#include <sys/un.h>
#include <time.h>

#include "launcher.h"

/* A build for tests may wait less, and have places of its own for the socket. Nothing but the build sets them. */
#ifndef FRONT_SECOND
#define FRONT_SECOND 1000 /* milliseconds, of the time that an answer may take */
#endif
#ifndef FRONT_USERS_DIRECTORIES
#define FRONT_USERS_DIRECTORIES "/run/user/"
#endif
#ifndef FRONT_TEMPORARY
#define FRONT_TEMPORARY "/tmp/"
#endif

#define VERSION "byleave-service-1"

/* ---- Texts: front_text.c ----------------------------------------------------------------------------------------- */

/* A text that is put together in a room of fixed size. What does not fit is noticed, never cut. */
struct text {
	char *bytes;
	size_t room, length; /* a length as large as the room: it did not fit */
};

#define TEXT(array) {.bytes = (array), .room = sizeof(array)}

void add_bytes(struct text *to, const char *bytes, size_t length);
void add(struct text *to, const char *words);
void add_number(struct text *to, unsigned long value, unsigned base);
const char *whole(struct text *of); /* with a zero at its end; NULL if it did not fit */
int begins(const char *text, const char *with);
int ends(const char *text, const char *with);
int number_in(const char *digits, size_t length, int most); /* -1 if it is none, or larger */

/* ---- The command: front_command.c -------------------------------------------------------------------------------- */

/* Beyond these nothing is served. */
enum { MOST_BYTES = 1 << 20, MOST_STRINGS = 1 << 14 };

enum kind { OTHER_COMMAND, HOOK, CHECK, RUN, CALL };

struct command {
	char **cold;         /* PYTHON WORD...: what runs without a service */
	char **own;          /* of these, the words behind the script; NULL if it is not byleave's */
	enum kind kind;      /* the first of them */
	const char *service; /* the directory that was given for the socket; NULL if none was */
	const char *package; /* the directory of the package; NULL if it is not known */
	const char *packages; /* where others are that it needs; NULL if that is beside it */
	int by_module;       /* the script is `-m byleave` */
	int is_hook_script;  /* it is the one that agents start, which takes nothing but a hook */
	int isolated;        /* Python reads no PYTHON* variable */
	int autostart;       /* the service may be started */
	size_t words, variables, bytes; /* how many there are, and the length of all */
};

void read_command(struct command *command, int count, char **words); /* leaves, with a message, if there is none */
int is_served(struct command *command);
const char *hook_option(const struct command *command, const char *name); /* of an installed hook; NULL if absent */
_Noreturn void go_cold(const struct command *command);
_Noreturn void leave(int code, const char *message);

/* ---- The service: front_service.c -------------------------------------------------------------------------------- */

enum { LONGEST_PROOF = 128 };

int connect_service(const struct command *command, struct text *proof); /* -1: there is none; it may have been started */

/* ---- Messages: front.c ------------------------------------------------------------------------------------------- */

enum { LONGEST_MESSAGE = 1 << 16, MOST_DESCRIPTORS = 4, MOST_WORDS = 1024 };

struct message {
	char bytes[LONGEST_MESSAGE + 1]; /* of the kind, what follows it, and a zero */
	size_t length;
	int descriptors[MOST_DESCRIPTORS];
	unsigned count;
};

/* How long we wait for `A`, and from `G` on for an answer. The service has deadlines of its own, which are shorter. */
enum { TAKEN_WITHIN = 1000, HOOK_WITHIN = 22 * FRONT_SECOND, OTHERS_WITHIN = 60 * FRONT_SECOND };

long now(void); /* milliseconds of a clock that is never set */
int send_message(int connection, const char *bytes, size_t length, const int *descriptors, unsigned count);
int receive(int connection, struct message *message); /* 1: a message; 0: none yet; -1: a wrong one, or the end */
int says(const struct message *message, char kind); /* nothing but this */
void leave_if_told(const struct message *message);    /* if it says with which code to exit */

/* ---- The launcher as our child: front_launcher.c ----------------------------------------------------------------- */

void attend_launcher(int connection, struct message *message); /* returns only if the service said nothing more */

/* ---- A call of a tool, which the service runs: front_call.c ------------------------------------------------------- */

void attend_call(int connection, struct message *message); /* returns only if the service said nothing more */

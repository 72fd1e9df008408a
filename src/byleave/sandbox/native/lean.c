/*
 * What only the full launcher can do. The lean one has these in their place, and refuses a program that asks for it.
 */
#define _GNU_SOURCE
#include "launcher.h"

void prepare_to_trace(const char *calls, size_t length)
{
	(void)calls, (void)length;
	errno = ENOSYS;
	fail(NOT_SET_UP, "trace", "");
}

void be_traced(void)
{
}

void trace(pid_t program, int control)
{
	(void)program, (void)control;
}

int traced(pid_t who, int status)
{
	(void)who, (void)status;
	return 0;
}

void prepare_to_broker(const char *stand_in, int control)
{
	(void)stand_in, (void)control;
	errno = ENOSYS;
	fail(NOT_SET_UP, "broker", "");
}

void open_for_business(void)
{
}

int attend(siginfo_t *got)
{
	(void)got;
	return -1;
}

int brokered(pid_t ended, int status)
{
	(void)ended, (void)status;
	return 0;
}

void stand_in_if_asked(char **words)
{
	(void)words;
}

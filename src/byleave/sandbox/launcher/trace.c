/* Watching a program: what was it refused? */
#define _GNU_SOURCE
#include "launcher.h"

void be_traced(void)
{
	errno = ENOSYS;
	fail(NOT_SET_UP, "trace", "");
}

_Noreturn void trace(pid_t program, int control, int *status)
{
	(void)program, (void)control, (void)status;
	errno = ENOSYS;
	fail(NOT_SET_UP, "trace", "");
}

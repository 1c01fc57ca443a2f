#include "core/standard.h"

#include "core/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEAST_STACK (256 << 10)
#define THREAD_STACK (2 << 20)

/* The stacks of this thread and of later ones become large enough. False: they cannot; the reason
   has been said. */
static bool stacks_open(void)
{
	struct rlimit limit;
	pthread_attr_t attributes;
	size_t bytes = 0;

	if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LEAST_STACK)
		return true;
	limit.rlim_cur = limit.rlim_max < THREAD_STACK ? limit.rlim_max : THREAD_STACK;
	if (limit.rlim_cur < LEAST_STACK || setrlimit(RLIMIT_STACK, &limit) != 0) {
		bb_say(program_invocation_short_name,
		       "the limit of the stack is %llu KiB, and %d are needed; raise it by ulimit "
		       "-s %d",
		       (unsigned long long)limit.rlim_max >> 10, LEAST_STACK >> 10,
		       THREAD_STACK >> 10);
		return false;
	}
	/* The C library took the size of later stacks from the limit at the start. */
	if (pthread_getattr_default_np(&attributes) != 0)
		return true;
	if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < THREAD_STACK &&
	    pthread_attr_setstacksize(&attributes, THREAD_STACK) == 0)
		pthread_setattr_default_np(&attributes);
	pthread_attr_destroy(&attributes);
	return true;
}

bool bb_standard_open(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY,
				    O_WRONLY}; /* use fails, except of standard error */

	struct rlimit addresses;

	signal(SIGXFSZ, SIG_IGN);
	/* open returns the lowest free number. */
	for (int number = 0; number < 3; number++)
		if (fcntl(number, F_GETFD) < 0 && open("/dev/null", modes[number]) != number)
			return false;
#ifdef M_ARENA_MAX
	/* A heap of its own for each thread takes 64 MiB of addresses, before it has any memory. */
	if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
		mallopt(M_ARENA_MAX, 1);
#endif
	return stacks_open();
}

bb_status bb_standard_output(struct bb_error *error)
{
	const int flags = fcntl(STDOUT_FILENO, F_GETFL);

	if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "standard output is closed; send it to a file, or to /dev/null");
}

void bb_say(const char *program, const char *format, ...)
{
	char line[1024];
	const int n = snprintf(line, sizeof(line), "%.200s: ", program);
	va_list args;

	va_start(args, format);
	vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	bb_printable_clean_sentence(line);
	fprintf(stderr, "%s\n", line);
}

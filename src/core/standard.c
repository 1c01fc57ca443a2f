#include "core/standard.h"

#include "core/printable.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

bool bb_standard_open(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY,
				    O_WRONLY}; /* use fails, except of standard error */

	signal(SIGXFSZ, SIG_IGN);
	/* open returns the lowest free number. */
	for (int number = 0; number < 3; number++)
		if (fcntl(number, F_GETFD) < 0 && open("/dev/null", modes[number]) != number)
			return false;
	return true;
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

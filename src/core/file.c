#include "core/file.h"

#include "core/units.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 60000
#define FIRST_ROOM ((size_t)16 << 10)

static bb_status refuse(const struct bb_file_request *r, struct bb_error *error, const char *why,
			const char *more)
{
	return bb_fail(error, BB_EUSAGE, "%s%s%.200s: %s%s", r->option ? r->option : "",
		       r->option ? " " : "", r->path, why, more);
}

static bb_status refuse_size(const struct bb_file_request *r, struct bb_error *error)
{
	char most[BB_UNIT_TEXT];

	return refuse(r, error, "larger than ", bb_format_size(most, r->most));
}

static bool is_stdin(const struct bb_file_request *r)
{
	return r->stdin_too && strcmp(r->path, "-") == 0;
}

/* Does not wait for the other end of a pipe. */
static bb_status open_file(const struct bb_file_request *r, int *file, struct bb_error *error)
{
	struct stat st;

	*file = is_stdin(r) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
			    : open(r->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (*file < 0 || fstat(*file, &st) != 0)
		return refuse(r, error, "cannot be opened: ", strerror(errno));
	if (is_stdin(r) || S_ISFIFO(st.st_mode))
		return BB_OK;
	if (S_ISDIR(st.st_mode))
		return refuse(r, error, "a folder, not a file", "");
	if (!S_ISREG(st.st_mode))
		return refuse(r, error, "not a regular file or a pipe", "");
	return (uintmax_t)st.st_size > r->most ? refuse_size(r, error) : BB_OK;
}

static bb_status read_open(const struct bb_file_request *r, int file, char **text, size_t *length,
			   struct bb_error *error)
{
	size_t room = 0;

	for (*length = 0; *length <= r->most;) {
		if (*length + 1 >= room) {
			char *more = realloc(*text, room = room ? 2 * room : FIRST_ROOM);

			if (!more)
				return bb_no_memory(error, r->path);
			*text = more;
		}
		const ssize_t got = read(file, *text + *length, room - 1 - *length);
		if (got < 0 && errno != EINTR)
			return refuse(r, error, "cannot be read: ", strerror(errno));
		*length += got > 0 ? (size_t)got : 0;
		(*text)[*length] = '\0';
		if (got == 0)
			return BB_OK;
	}
	return refuse_size(r, error);
}

bb_status bb_file_read(const struct bb_file_request *request, char **text, size_t *length,
		       struct bb_error *error)
{
	int file = -1;
	bb_status st;

	*text = NULL;
	BB_TRY(st, open_file(request, &file, error), out);
	/* A pipe may have no writer, so the wait for its first byte is limited. */
	if (!is_stdin(request) &&
	    poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1,
		 request->patience_ms ? request->patience_ms : PATIENCE_MS) == 0)
		st = refuse(request, error,
			    "no data in this pipe; start the program that writes to it", "");
	else if (!is_stdin(request) && fcntl(file, F_SETFL, O_RDONLY) != 0)
		st = refuse(request, error, "cannot be read: ", strerror(errno));
	else
		st = read_open(request, file, text, length, error);
out:
	if (file >= 0)
		close(file);
	if (st != BB_OK) {
		free(*text);
		*text = NULL;
	}
	return st;
}

size_t bb_kernel_read(const char *path, char *text, size_t room)
{
	const int file = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got = 1;

	while (file >= 0 && length + 1 < room && got > 0) {
		got = read(file, text + length, room - 1 - length);
		length += got > 0 ? (size_t)got : 0;
	}
	if (file >= 0)
		close(file);
	text[length] = '\0';
	return length;
}

bool bb_kernel_line(const char *path, char *line, size_t room)
{
	const bool read = bb_kernel_read(path, line, room) > 0;

	line[strcspn(line, "\n")] = '\0';
	return read;
}

uint64_t bb_file_limit_raise(uint64_t files)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return files;
	const rlim_t before = limit.rlim_cur;
	if (before >= files)
		return before;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

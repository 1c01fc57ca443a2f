#include "core/output.h"

#include "core/printable.h"
#include "core/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bb_status bb_output_status(int cause)
{
	return cause == ENOSPC || cause == EDQUOT || cause == EFBIG || cause == EIO ? BB_EINTERNAL
										    : BB_EUSAGE;
}

void bb_output_cut(FILE *file, long whole)
{
	const int number = fileno(file), cause = errno, flags = fcntl(number, F_GETFL);
	struct stat st;

	__fpurge(file);
	/* The position in a file to which others append says nothing. */
	if (whole >= 0 && flags >= 0 && !(flags & O_APPEND) && fstat(number, &st) == 0 &&
	    S_ISREG(st.st_mode) && ftruncate(number, whole) == 0)
		(void)fseek(file, whole, SEEK_SET);
	errno = cause;
}

static bb_status refuse(const struct bb_output *o, int cause, struct bb_error *error)
{
	return bb_fail(error, bb_output_status(cause), "%s%s%.200s cannot be written: %s",
		       o->option ? o->option : "", o->option ? ": " : "", o->path,
		       cause == EWOULDBLOCK ? "it is being written already; give each run and "
					      "output its own file"
					    : strerror(cause));
}

static bool leaves(const char *path)
{
	if (*path == '/')
		return true;
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
			return true;
	}
	return false;
}

static bb_status resolve(const struct bb_output *o, char path[PATH_MAX], struct bb_error *error)
{
	if (!*o->path)
		return bb_fail(error, BB_EUSAGE, "%s: an empty file name",
			       o->option ? o->option : "output");
	if (o->folder && leaves(o->path))
		return bb_fail(error, BB_EUSAGE,
			       "%s %.150s: outside of --output-folder %.150s; give a path in it",
			       o->option ? o->option : "output", o->path, o->folder);
	if (snprintf(path, PATH_MAX, "%s%s%s", o->folder ? o->folder : "", o->folder ? "/" : "",
		     o->path) >= PATH_MAX)
		return refuse(o, ENAMETOOLONG, error);
	return BB_OK;
}

bool bb_output_is_same(const char *a, const char *b)
{
	struct stat sa, sb;
	char at[PATH_MAX], to[PATH_MAX], folder[2][PATH_MAX];
	const bool have_a = stat(a, &sa) == 0, have_b = stat(b, &sb) == 0;

	if (have_a && have_b)
		return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
	if (have_a != have_b)
		return false;
	/* Neither is there yet: the same name in the same folder. */
	snprintf(at, sizeof(at), "%s", a);
	snprintf(to, sizeof(to), "%s", b);
	if (!realpath(dirname(at), folder[0]) || !realpath(dirname(to), folder[1]))
		return strcmp(a, b) == 0;
	snprintf(at, sizeof(at), "%s", a);
	snprintf(to, sizeof(to), "%s", b);
	return strcmp(folder[0], folder[1]) == 0 && strcmp(basename(at), basename(to)) == 0;
}

bb_status bb_output_check(const struct bb_output *output, struct bb_error *error)
{
	char path[PATH_MAX], folder[PATH_MAX];
	struct stat st;
	bb_status status;
	int cause;

	if (strcmp(output->path, "-") == 0)
		return bb_standard_output(error);
	BB_TRY(status, resolve(output, path, error), out);
	snprintf(folder, sizeof(folder), "%s", path);
	if (stat(path, &st) == 0)
		cause = S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
	else if (errno != ENOENT)
		cause = errno;
	else if (path[strlen(path) - 1] == '/')
		cause = EISDIR;
	else
		cause = access(dirname(folder), W_OK | X_OK) == 0 ? 0 : errno;
	if (cause)
		status = refuse(output, cause, error);
out:
	return status;
}

bb_status bb_output_open(const struct bb_output *output, FILE **file, struct bb_error *error)
{
	const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY;
	char path[PATH_MAX];
	int number, cause;
	struct stat is;
	bb_status st = resolve(output, path, error);

	*file = NULL;
	if (st != BB_OK)
		return st;
	number = open(path, flags | (output->fresh ? O_EXCL : 0), 0666);
	if (number < 0) {
		cause = errno;
		st = refuse(output, cause, error);
		errno = cause;
		return st;
	}
	/* Devices may have several writers, and some file systems have no locks. */
	if (fstat(number, &is) != 0 || !S_ISREG(is.st_mode) ||
	    ((flock(number, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
	     ftruncate(number, 0) == 0))
		*file = fdopen(number, "w");
	if (*file)
		return BB_OK;
	cause = errno;
	close(number);
	return refuse(output, cause, error);
}

bb_status bb_write_text(const char *path, struct bb_strbuf *text, struct bb_error *error)
{
	return bb_output_write(&(const struct bb_output){.path = path}, text, error);
}

bb_status bb_output_write(const struct bb_output *output, struct bb_strbuf *text,
			  struct bb_error *error)
{
	const bool printed = strcmp(output->path, "-") == 0;
	bool good = !bb_strbuf_failed(text);
	FILE *file = stdout;
	bb_status st;

	BB_TRY(st, printed ? bb_standard_output(error) : bb_output_open(output, &file, error), out);
	if (printed && text->text)
		bb_printable_clean_lines(text->text);
	errno = good ? 0 : ENOMEM;
	good = good && fwrite(bb_strbuf_text(text), 1, text->length, file) == text->length &&
	       fflush(file) == 0;
	if (printed)
		return good ? BB_OK
			    : bb_fail(error, BB_EINTERNAL, "stdout cannot be written: %s",
				      strerror(errno ? errno : EIO));
	if (!good)
		bb_output_cut(file, 0);
	good = fclose(file) == 0 && good;
	if (!good)
		st = bb_fail(error, BB_EINTERNAL, "%s could not be written: %s", output->path,
			     strerror(errno ? errno : EIO));
out:
	return st;
}

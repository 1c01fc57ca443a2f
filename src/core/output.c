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

/* The errno with which PATH cannot be written; 0: it can. */
static int cause_against(const char *path)
{
	char folder[PATH_MAX];
	struct stat st;

	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
	if (errno != ENOENT)
		return errno;
	if (path[strlen(path) - 1] == '/')
		return EISDIR;
	snprintf(folder, sizeof(folder), "%s", path);
	return access(dirname(folder), W_OK | X_OK) == 0 ? 0 : errno;
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
	char path[PATH_MAX];
	bb_status st;
	int cause;

	if (strcmp(output->path, "-") == 0)
		return bb_standard_output(error);
	BB_TRY(st, resolve(output, path, error), out);
	cause = cause_against(path);
	if (cause)
		st = refuse(output, cause, error);
out:
	return st;
}

/* Devices may have several writers, and some file systems have no locks. */
static bool lock(int number)
{
	struct stat st;

	if (fstat(number, &st) != 0 || !S_ISREG(st.st_mode))
		return true;
	if (flock(number, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		return false;
	return ftruncate(number, 0) == 0;
}

bb_status bb_output_open(const struct bb_output *output, FILE **file, struct bb_error *error)
{
	const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY;
	char path[PATH_MAX];
	int number, cause;
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
	if (lock(number))
		*file = fdopen(number, "w");
	if (*file)
		return BB_OK;
	cause = errno;
	close(number);
	return refuse(output, cause, error);
}

static bool put(FILE *file, const struct bb_strbuf *text)
{
	return fwrite(bb_strbuf_text(text), 1, text->length, file) == text->length;
}

static bb_status print(struct bb_strbuf *text, struct bb_error *error)
{
	bb_status st = bb_standard_output(error);
	bool good;

	if (st != BB_OK)
		return st;
	if (text->text)
		bb_printable_clean_lines(text->text);
	errno = 0;
	good = put(stdout, text) && fflush(stdout) == 0 && !bb_strbuf_failed(text);
	return good ? BB_OK
		    : bb_fail(error, BB_EINTERNAL, "stdout cannot be written: %s",
			      strerror(errno ? errno : EIO));
}

bb_status bb_write_text(const char *path, struct bb_strbuf *text, struct bb_error *error)
{
	return bb_output_write(&(const struct bb_output){.path = path}, text, error);
}

bb_status bb_output_write(const struct bb_output *output, struct bb_strbuf *text,
			  struct bb_error *error)
{
	bool good = !bb_strbuf_failed(text);
	bb_status st;
	FILE *file;

	if (strcmp(output->path, "-") == 0)
		return print(text, error);
	BB_TRY(st, bb_output_open(output, &file, error), out);
	errno = good ? 0 : ENOMEM;
	good = good && put(file, text) && fflush(file) == 0;
	if (!good)
		bb_output_cut(file, 0);
	good = fclose(file) == 0 && good;
	if (!good)
		st = bb_fail(error, BB_EINTERNAL, "%s could not be written: %s", output->path,
			     strerror(errno ? errno : EIO));
out:
	return st;
}

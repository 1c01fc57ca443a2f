/*
 * json_file.c - reading a small file of JSON.
 */
#include "training_kernels/models/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)1 << 20) /* such files have a few KB */

struct source {
	const char *option, *path, *kind;
	struct bb_error *error;
};

static bb_status read_all(const struct source *s, int file, char *text, size_t *length)
{
	ssize_t got;

	for (*length = 0; *length <= MOST_BYTES; *length += (size_t)got) {
		got = read(file, text + *length, MOST_BYTES + 1 - *length);
		if (got == 0)
			return BB_OK;
		if (got < 0)
			return bb_fail(s->error, BB_EUSAGE, "%s %.200s: cannot be read: %s",
				       s->option, s->path, strerror(errno));
	}
	return bb_fail(s->error, BB_EUSAGE, "%s %.200s: larger than 1M, which no %s is", s->option,
		       s->path, s->kind);
}

/* Nothing that could block or never end is read. */
static bb_status open_file(const struct source *s, int *file)
{
	struct stat st;

	*file = open(s->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (*file < 0)
		return bb_fail(s->error, BB_EUSAGE, "%s %.200s: %s", s->option, s->path,
			       strerror(errno));
	if (fstat(*file, &st) == 0 && S_ISREG(st.st_mode))
		return BB_OK;
	close(*file);
	return bb_fail(s->error, BB_EUSAGE, "%s %.200s: not a regular file; give a %s", s->option,
		       s->path, s->kind);
}

static bb_status parse(const struct source *s, const char *text, size_t length, json_t **root)
{
	json_error_t problem;

	*root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
	if (!*root)
		return bb_fail(s->error, BB_EUSAGE, "%s %.200s: not JSON: line %d: %s", s->option,
			       s->path, problem.line, problem.text);
	if (json_is_object(*root))
		return BB_OK;
	json_decref(*root);
	*root = NULL;
	return bb_fail(s->error, BB_EUSAGE, "%s %.200s: not a JSON object, as a %s is", s->option,
		       s->path, s->kind);
}

bb_status bb_json_file_open(const char *option, const char *path, const char *kind,
			    struct json_t **root, struct bb_error *error)
{
	const struct source s = {option, path, kind, error};
	char *text = malloc(MOST_BYTES + 1);
	size_t length = 0;
	bb_status status;
	int file;

	*root = NULL;
	if (!text)
		return bb_fail(error, BB_EINTERNAL, "out of memory for %s", path);
	BB_TRY(status, open_file(&s, &file), out);
	status = read_all(&s, file, text, &length);
	close(file);
	if (status == BB_OK)
		status = parse(&s, text, length, root);
out:
	free(text);
	return status;
}

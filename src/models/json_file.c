/*
 * json_file.c - reading a small file of JSON.
 */
#include "models/json_file.h"

#include "core/file.h"

#include <jansson.h>
#include <stdlib.h>

#define MOST_BYTES ((size_t)1 << 20) /* such files have a few KB */

struct source {
	const char *option, *path, *kind;
	struct bb_error *error;
};

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
	const struct bb_file_request request = {.option = option, .path = path, .most = MOST_BYTES};
	char *text;
	size_t length;
	bb_status status;

	*root = NULL;
	BB_TRY(status, bb_file_read(&request, &text, &length, error), out);
	status = parse(&s, text, length, root);
	free(text);
out:
	return status;
}

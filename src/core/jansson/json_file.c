/*
 * json_file.c - reading a file of JSON.
 */
#include "core/jansson/json_file.h"

#include "core/printable.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Cleans the strings in VALUE, in place. */
static void strings_clean(json_t *value)
{
	const char *key;
	size_t i;
	json_t *inner;

	/* Every byte that is replaced becomes a character, so the string keeps its length. */
	if (json_is_string(value))
		bb_printable_clean((char *)(uintptr_t)json_string_value(value));
	json_array_foreach(value, i, inner) strings_clean(inner);
	json_object_foreach(value, key, inner) strings_clean(inner);
}

json_t *bb_json_parse(const char *text, size_t length, json_error_t *why)
{
	json_t *const value = json_loadb(text, length, JSON_REJECT_DUPLICATES, why);

	strings_clean(value);
	return value;
}

bb_status bb_json_file_open(const struct bb_file_request *request, const char *kind,
			    struct json_t **root, struct bb_error *error)
{
	char problem[JSON_ERROR_TEXT_LENGTH + 64], *text;
	json_error_t found;
	size_t length;
	bb_status status;

	*root = NULL;
	BB_TRY(status, bb_file_read(request, &text, &length, error), out);
	*root = bb_json_parse(text, length, &found);
	free(text);
	if (json_is_object(*root))
		return BB_OK;
	if (*root)
		snprintf(problem, sizeof(problem), "not a JSON object, as a %s is", kind);
	else
		snprintf(problem, sizeof(problem), "not JSON: line %d: %s", found.line, found.text);
	json_decref(*root);
	*root = NULL;
	status = bb_fail(error, BB_EUSAGE, "%s%s%.200s: %s", request->option ? request->option : "",
			 request->option ? " " : "", request->path, problem);
out:
	return status;
}

/*
 * json_file.c - reading a file of JSON.
 */
#include "core/json_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

bb_status bb_json_file_open(const struct bb_file_request *request, const char *kind,
			    struct json_t **root, struct bb_error *error)
{
	char problem[JSON_ERROR_TEXT_LENGTH + 64], *text;
	json_error_t found;
	size_t length;
	bb_status status;

	*root = NULL;
	BB_TRY(status, bb_file_read(request, &text, &length, error), out);
	*root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &found);
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

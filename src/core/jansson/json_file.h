/*
 * json_file.h - reads a JSON file that the user names. Only programs that link jansson contain it.
 */
#pragma once

#include "core/file.h"

#define BB_JSON_FILE_BYTES ((size_t)1 << 20) /* a file that describes something has a few KB */

struct json_t; /* of jansson */
struct json_error_t;

/* The JSON value in the LENGTH bytes of TEXT, its strings cleaned by bb_printable_clean; NULL: it
   is none, or has a key twice, for the reason in *WHY, which may be NULL. */
struct json_t *bb_json_parse(const char *text, size_t length, struct json_error_t *why);

/*
 * *ROOT = the JSON object in the file that REQUEST names, to be freed by json_decref; NULL on
 * failure. Duplicate keys are refused. KIND, such as "config.json", is for errors. BB_EUSAGE: the
 * error names option and path; BB_EINTERNAL: out of memory.
 */
BB_MUST bb_status bb_json_file_open(const struct bb_file_request *request, const char *kind,
				    struct json_t **root, struct bb_error *error);

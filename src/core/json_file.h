/*
 * json_file.h - reads a JSON file that the user names. Only programs that link jansson contain it.
 */
#ifndef BB_CORE_JSON_FILE_H
#define BB_CORE_JSON_FILE_H

#include "core/file.h"

#define BB_JSON_FILE_BYTES ((size_t)1 << 20) /* a file that describes something has a few KB */

struct json_t; /* of jansson */

/*
 * *ROOT = the JSON object in the file that REQUEST names, to be freed by json_decref; NULL on
 * failure. Duplicate keys are refused. KIND, such as "config.json", is for errors. BB_EUSAGE: the
 * error names option and path; BB_EINTERNAL: out of memory.
 */
BB_MUST bb_status bb_json_file_open(const struct bb_file_request *request, const char *kind,
				    struct json_t **root, struct bb_error *error);

#endif

/*
 * json_file.h - a file of JSON that the user names, read with care. It needs jansson and is part of
 * the programs alone that are linked with it.
 */
#ifndef BB_CORE_JSON_FILE_H
#define BB_CORE_JSON_FILE_H

#include "core/file.h"

#define BB_JSON_FILE_BYTES ((size_t)1 << 20) /* a file that describes something has a few KB */

struct json_t; /* of jansson */

/*
 * The JSON object in the file that REQUEST names, a KIND such as "config.json"; no object in it has
 * a key twice. BB_EUSAGE with a sentence that names option and path; BB_EINTERNAL without memory.
 * json_decref ROOT; NULL on failure.
 */
BB_MUST bb_status bb_json_file_open(const struct bb_file_request *request, const char *kind,
				    struct json_t **root, struct bb_error *error);

#endif

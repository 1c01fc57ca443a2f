/*
 * json_file.h - a small file of JSON that the user names, read with care.
 */
#ifndef BB_MODELS_JSON_FILE_H
#define BB_MODELS_JSON_FILE_H

#include "core/status.h"

struct json_t; /* of jansson */

/*
 * The JSON object in the file PATH, a KIND such as "config.json", that OPTION names. The file is
 * read whole, if it is regular and not larger than any such file is. BB_EUSAGE with a sentence that
 * names both; BB_EINTERNAL without memory. json_decref ROOT; NULL on failure.
 */
BB_MUST bb_status bb_json_file_open(const char *option, const char *path, const char *kind,
				    struct json_t **root, struct bb_error *error);

#endif

/*
 * json.h - writes JSON into a string. Asserts that calls nest as JSON does.
 *
 * It is the only writer of JSON and needs only libc. Programs that read JSON files link jansson
 * (jansson/json_file.h); bb_json_find_* read members of one object in a text, such as a line of
 * records, without it and without a tree.
 */
#pragma once

#include "core/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_JSON_DEPTH 16

struct bb_json {
	struct bb_strbuf *out;
	bool pretty; /* one member a line, two spaces a level */
	int depth;
	char open[BB_JSON_DEPTH]; /* '{' or '[' */
	bool used[BB_JSON_DEPTH]; /* has a member already */
};

void bb_json_init(struct bb_json *j, struct bb_strbuf *out, bool pretty);
void bb_json_end(struct bb_json *j); /* of the innermost object or array */

/* A member of an object with KEY; NULL: an element of an array, or the whole document. */
void bb_json_add_object(struct bb_json *j, const char *key);
void bb_json_add_array(struct bb_json *j, const char *key);
/* Escapes quotes, backslashes and control characters; bytes that are not UTF-8 become U+FFFD. NULL
   is null. */
void bb_json_add_string(struct bb_json *j, const char *key, const char *value);
void bb_json_add_int(struct bb_json *j, const char *key, int64_t value);
/* null if it is UNKNOWN. */
void bb_json_add_known(struct bb_json *j, const char *key, int64_t value, int64_t unknown);
void bb_json_add_uint(struct bb_json *j, const char *key, uint64_t value);
/* The shortest text that reads back; not finite: null. */
void bb_json_add_double(struct bb_json *j, const char *key, double value);
void bb_json_add_bool(struct bb_json *j, const char *key, bool value);
void bb_json_add_null(struct bb_json *j, const char *key);

/*
 * Each sets the value of member KEY of OBJECT itself, not of objects within it, and returns false
 * if there is none of that type. Malformed JSON gives false or a wrong value, but nothing beyond
 * the text is read.
 */
bool bb_json_find_number(const char *object, const char *key, double *value);
bool bb_json_find_bool(const char *object, const char *key, bool *value);
/* TEXT = the string, as it stands in the text: escapes are left. False where SIZE is too small. */
bool bb_json_find_string(const char *object, const char *key, char *text, size_t size);

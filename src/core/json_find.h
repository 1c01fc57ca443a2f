/*
 * json_find.h - members of one JSON object in a text, such as a line of records. No tree is made.
 */
#ifndef BB_CORE_JSON_FIND_H
#define BB_CORE_JSON_FIND_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Each gives the member KEY of OBJECT itself, not of objects in it, and false where there is none
 * of that kind. What is no JSON gives false or nonsense, but nothing beyond the text is read.
 */
bool bb_json_find_number(const char *object, const char *key, double *value);
bool bb_json_find_bool(const char *object, const char *key, bool *value);
/* TEXT = the string, as it stands in the text: escapes are left. False where SIZE is too small. */
bool bb_json_find_string(const char *object, const char *key, char *text, size_t size);

#endif

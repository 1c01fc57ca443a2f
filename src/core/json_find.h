/*
 * json_find.h - members of one JSON object in a text, such as a line of records. No tree is made.
 */
#ifndef BB_CORE_JSON_FIND_H
#define BB_CORE_JSON_FIND_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Each sets the value of member KEY of OBJECT itself, not of objects within it, and returns false
 * if there is none of that type. Malformed JSON gives false or a wrong value, but nothing beyond
 * the text is read.
 */
bool bb_json_find_number(const char *object, const char *key, double *value);
bool bb_json_find_bool(const char *object, const char *key, bool *value);
/* TEXT = the string, as it stands in the text: escapes are left. False where SIZE is too small. */
bool bb_json_find_string(const char *object, const char *key, char *text, size_t size);

#endif

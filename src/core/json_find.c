#include "core/json_find.h"

#include <stdlib.h>
#include <string.h>

static const char *blanks(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* The end of the string that begins at AT, or of the text if it is not terminated. */
static const char *past_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : at;
}

/* The end of the value that begins at AT, or of the text. */
static const char *past_value(const char *at)
{
	int depth = 0;

	while (*at) {
		if (*at == '"') {
			at = past_string(at);
			continue;
		}
		if (depth == 0 && strchr(",}]", *at))
			break;
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
	}
	return at;
}

/* Where the value of KEY begins, or NULL. */
static const char *find(const char *object, const char *key)
{
	const size_t length = strlen(key);
	const char *at = blanks(object);

	if (*at != '{')
		return NULL;
	for (at = blanks(at + 1); *at == '"'; at = blanks(at + 1)) {
		const char *name = at + 1, *end = past_string(at);
		const bool is_key =
			(size_t)(end - name) == length + 1 && strncmp(name, key, length) == 0;

		at = blanks(end);
		if (*at != ':')
			return NULL;
		at = blanks(at + 1);
		if (is_key)
			return at;
		at = blanks(past_value(at));
		if (*at != ',')
			return NULL;
	}
	return NULL;
}

bool bb_json_find_number(const char *object, const char *key, double *value)
{
	const char *at = find(object, key);
	char *end;

	if (!at || !strchr("-0123456789", *at) || !*at)
		return false;
	*value = strtod(at, &end);
	return end != at;
}

bool bb_json_find_bool(const char *object, const char *key, bool *value)
{
	const char *at = find(object, key);

	if (!at || (strncmp(at, "true", 4) != 0 && strncmp(at, "false", 5) != 0))
		return false;
	*value = *at == 't';
	return true;
}

bool bb_json_find_string(const char *object, const char *key, char *text, size_t size)
{
	const char *at = find(object, key), *end;
	size_t length;

	if (!at || *at != '"')
		return false;
	end = past_string(at);
	if (end[-1] != '"' || end < at + 2)
		return false;
	length = (size_t)(end - at) - 2;
	if (length >= size)
		return false;
	memcpy(text, at + 1, length);
	text[length] = '\0';
	return true;
}

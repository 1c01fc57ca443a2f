#include "core/json.h"
#include "core/printable.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bb_json_init(struct bb_json *j, struct bb_strbuf *out, bool pretty)
{
	*j = (struct bb_json){.out = out, .pretty = pretty};
}

static void new_line(struct bb_json *j)
{
	if (j->pretty)
		bb_strbuf_addf(j->out, "\n%*s", 2 * j->depth, "");
}

/* The comma and the line break before the next member of the innermost container. */
static void separate(struct bb_json *j)
{
	if (j->used[j->depth - 1])
		bb_strbuf_add(j->out, ",");
	j->used[j->depth - 1] = true;
	new_line(j);
}

/* What is unprintable is escaped, because a terminal may show the text. */
static void write_string(struct bb_strbuf *out, const char *s)
{
	static const char characters[] = "\"\\\n\r\t", letters[] = "\"\\nrt";

	bb_strbuf_add(out, "\"");
	for (size_t n; *s; s += n ? n : 1) {
		const char *const at = strchr(characters, *s);

		n = bb_utf8_length(s);
		const uint32_t c = n > 0 ? bb_utf8_code(s, n) : 0;
		if (n == 0)
			bb_strbuf_add(out, "\xef\xbf\xbd");
		else if (at)
			bb_strbuf_addf(out, "\\%c", letters[at - characters]);
		else if (bb_printable_character(s))
			bb_strbuf_add_bytes(out, s, n);
		else if (c > 0xffff)
			bb_strbuf_addf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10),
				       0xdc00 + (c & 0x3ff));
		else
			bb_strbuf_addf(out, "\\u%04x", c);
	}
	bb_strbuf_add(out, "\"");
}

/* Whatever stands in front of a value. */
static void begin_value(struct bb_json *j, const char *key)
{
	if (!j->depth) {
		assert(!key);
		return;
	}
	assert((j->open[j->depth - 1] == '{') == (key != NULL));
	separate(j);
	if (!key)
		return;
	write_string(j->out, key);
	bb_strbuf_add(j->out, j->pretty ? ": " : ":");
}

static void open_container(struct bb_json *j, const char *key, char kind)
{
	begin_value(j, key);
	assert(j->depth < BB_JSON_DEPTH);
	bb_strbuf_add_bytes(j->out, &kind, 1);
	j->open[j->depth] = kind;
	j->used[j->depth] = false;
	j->depth++;
}

void bb_json_add_object(struct bb_json *j, const char *key)
{
	open_container(j, key, '{');
}

void bb_json_add_array(struct bb_json *j, const char *key)
{
	open_container(j, key, '[');
}

void bb_json_end(struct bb_json *j)
{
	assert(j->depth > 0);
	j->depth--;
	if (j->used[j->depth])
		new_line(j);
	bb_strbuf_add(j->out, j->open[j->depth] == '{' ? "}" : "]");
}

void bb_json_add_string(struct bb_json *j, const char *key, const char *value)
{
	begin_value(j, key);
	if (value)
		write_string(j->out, value);
	else
		bb_strbuf_add(j->out, "null");
}

void bb_json_add_int(struct bb_json *j, const char *key, int64_t value)
{
	begin_value(j, key);
	bb_strbuf_addf(j->out, "%" PRId64, value);
}

void bb_json_add_known(struct bb_json *j, const char *key, int64_t value, int64_t unknown)
{
	if (value == unknown)
		bb_json_add_null(j, key);
	else
		bb_json_add_int(j, key, value);
}

void bb_json_add_uint(struct bb_json *j, const char *key, uint64_t value)
{
	begin_value(j, key);
	bb_strbuf_addf(j->out, "%" PRIu64, value);
}

void bb_json_add_double(struct bb_json *j, const char *key, double value)
{
	char text[32];

	begin_value(j, key);
	if (!isfinite(value)) {
		bb_strbuf_add(j->out, "null");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	bb_strbuf_add(j->out, text);
}

void bb_json_add_bool(struct bb_json *j, const char *key, bool value)
{
	begin_value(j, key);
	bb_strbuf_add(j->out, value ? "true" : "false");
}

void bb_json_add_null(struct bb_json *j, const char *key)
{
	begin_value(j, key);
	bb_strbuf_add(j->out, "null");
}

/* ---- members of an object in a text ------------------------------------------------------- */

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

	if (!at || *at != '"')
		return false;
	end = past_string(at);
	if (end[-1] != '"' || end < at + 2)
		return false;
	const size_t length = (size_t)(end - at) - 2;
	if (length >= size)
		return false;
	memcpy(text, at + 1, length);
	text[length] = '\0';
	return true;
}

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

static void before_value(struct bb_json *j)
{
	if (!j->depth)
		return;
	assert((j->open[j->depth - 1] == '{') == j->keyed);
	if (!j->keyed)
		separate(j);
	j->keyed = false;
}

static void open_container(struct bb_json *j, char kind)
{
	before_value(j);
	assert(j->depth < BB_JSON_DEPTH);
	bb_strbuf_add_bytes(j->out, &kind, 1);
	j->open[j->depth] = kind;
	j->used[j->depth] = false;
	j->depth++;
}

void bb_json_object(struct bb_json *j)
{
	open_container(j, '{');
}

void bb_json_array(struct bb_json *j)
{
	open_container(j, '[');
}

void bb_json_end(struct bb_json *j)
{
	assert(j->depth > 0 && !j->keyed);
	j->depth--;
	if (j->used[j->depth])
		new_line(j);
	bb_strbuf_add(j->out, j->open[j->depth] == '{' ? "}" : "]");
}

/* What is unprintable is escaped, because a terminal may show the text. */
static void write_string(struct bb_strbuf *out, const char *s)
{
	static const char characters[] = "\"\\\n\r\t", letters[] = "\"\\nrt";

	bb_strbuf_add(out, "\"");
	for (size_t n; *s; s += n ? n : 1) {
		const char *const at = strchr(characters, *s);
		uint32_t c;

		n = bb_utf8_length(s);
		c = n > 0 ? bb_utf8_code(s, n) : 0;
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

void bb_json_key(struct bb_json *j, const char *key)
{
	assert(j->depth > 0 && j->open[j->depth - 1] == '{' && !j->keyed);
	separate(j);
	write_string(j->out, key);
	bb_strbuf_add(j->out, j->pretty ? ": " : ":");
	j->keyed = true;
}

void bb_json_string(struct bb_json *j, const char *value)
{
	before_value(j);
	if (value)
		write_string(j->out, value);
	else
		bb_strbuf_add(j->out, "null");
}

void bb_json_int(struct bb_json *j, int64_t value)
{
	before_value(j);
	bb_strbuf_addf(j->out, "%" PRId64, value);
}

void bb_json_uint(struct bb_json *j, uint64_t value)
{
	before_value(j);
	bb_strbuf_addf(j->out, "%" PRIu64, value);
}

void bb_json_double(struct bb_json *j, double value)
{
	char text[32];

	before_value(j);
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

void bb_json_bool(struct bb_json *j, bool value)
{
	before_value(j);
	bb_strbuf_add(j->out, value ? "true" : "false");
}

void bb_json_null(struct bb_json *j)
{
	before_value(j);
	bb_strbuf_add(j->out, "null");
}

void bb_json_add_string(struct bb_json *j, const char *key, const char *value)
{
	bb_json_key(j, key);
	bb_json_string(j, value);
}

void bb_json_add_int(struct bb_json *j, const char *key, int64_t value)
{
	bb_json_key(j, key);
	bb_json_int(j, value);
}

void bb_json_add_uint(struct bb_json *j, const char *key, uint64_t value)
{
	bb_json_key(j, key);
	bb_json_uint(j, value);
}

void bb_json_add_double(struct bb_json *j, const char *key, double value)
{
	bb_json_key(j, key);
	bb_json_double(j, value);
}

void bb_json_add_bool(struct bb_json *j, const char *key, bool value)
{
	bb_json_key(j, key);
	bb_json_bool(j, value);
}

void bb_json_add_object(struct bb_json *j, const char *key)
{
	bb_json_key(j, key);
	bb_json_object(j);
}

void bb_json_add_array(struct bb_json *j, const char *key)
{
	bb_json_key(j, key);
	bb_json_array(j);
}

/*
 * log_lines.c - the lines of a log, as they were before containers and tools wrapped them, and the
 * tags before them.
 */
#include "logs/log_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- unwrapping -------------------------------------------------------------------------------
 */

static bool line_give(const char *text, size_t length, int number, bb_log_reader *read, void *state)
{
	char copy[BB_LOG_LINE];
	const size_t kept = length < sizeof(copy) - 1 ? length : sizeof(copy) - 1;

	memcpy(copy, text, kept);
	copy[kept] = '\0';
	return read(state, copy, number);
}

/* Returns the character of "\uXXXX", whose digits are at HEX: '?' beyond ASCII. */
static char ascii_of(const char *hex)
{
	char digits[5] = {0}, *end;
	unsigned long code;

	memcpy(digits, hex, strnlen(hex, 4));
	code = strtoul(digits, &end, 16);
	if (end != digits + 4)
		return '?';
	return code == 0 || code == 0xa0 ? ' ' : code < 0x80 ? (char)code : '?';
}

/* Resolves escapes in place. */
static void unescape(char *text)
{
	static const char from[] = "nrt\"/\\", to[] = "\n \t\"/\\";
	char *out = text;

	for (const char *c = text; *c; c++) {
		const char *const found = c[0] == '\\' && c[1] ? strchr(from, c[1]) : NULL;

		if (found) {
			*out++ = to[found - from];
			c++;
		} else if (c[0] == '\\' && c[1] == 'u' && strnlen(c + 2, 4) == 4) {
			*out++ = ascii_of(c + 2);
			c += 5;
		} else {
			*out++ = *c;
		}
	}
	*out = '\0';
}

/* Returns the string of a logger's JSON object, "{"log":"...", cut at its end; NULL: none. */
static char *logged(char *text)
{
	static const char *const keys[] = {
		"\"log\":", "\"message\":", "\"msg\":", "\"line\":", "\"textPayload\":"};

	text += strspn(text, " \t");
	for (size_t i = 0; *text == '{' && i < sizeof(keys) / sizeof(keys[0]); i++) {
		char *begin = strstr(text, keys[i]), *end;

		if (!begin)
			continue;
		begin += strlen(keys[i]);
		begin += strspn(begin, " ");
		if (*begin++ != '"')
			continue;
		for (end = begin; *end && *end != '"'; end++)
			end += end[0] == '\\' && end[1];
		*end = '\0';
		return begin;
	}
	return NULL;
}

/* Returns the string within TEXT that has the first escaped line break. */
static char *string_begin(char *text)
{
	char *const broken = strstr(text, "\\n");
	char *const quote = broken ? memrchr(text, '"', (size_t)(broken - text)) : NULL;

	return quote && (quote == text || quote[-1] != '\\') ? quote + 1 : text;
}

/* Breaks an array of lines in quotes Q, '["# nThread ...", "   1048576 ..."]', after its elements.
   Returns its first one; NULL: TEXT has none. */
static char *array_break(char *text, char q)
{
	char *first = NULL;
	bool is_array = false;

	for (int pass = 0; pass < 2; pass++) {
		for (char *c = text; (c = strchr(c, q)); c++) {
			const size_t next = c[1] == ',' ? 2 + strspn(c + 2, " ") : 0;

			if (next > 0 && c[next] == q && pass == 0)
				is_array |= c[next + 1] == '#' || c[next + 1] == ' ';
			if (pass == 0)
				continue;
			if (next > 0 && c[next] == q)
				c[1] = '\n', c[next] = ' ';
			else if (!first && c > text && c[-1] == '[')
				first = c + 1;
			else if (c[1] != ']')
				continue;
			*c = ' ';
		}
		if (!is_array)
			return NULL;
	}
	return first ? first : text;
}

/* Gives the lines within the LENGTH bytes of TEXT, which something wrapped. */
static bool wrapped_give(const char *text, size_t length, int number, bb_log_reader *read,
			 void *state)
{
	char *const copy = strndup(text, length), *at = copy, *next;
	bool good = copy;

	if (!good)
		return false;
	/* Ansible repeats "stdout" as "stdout_lines". */
	next = strstr(copy, "\"stdout_lines\":");
	if (next && strstr(copy, "\"stdout\":") && strstr(copy, "\"stdout\":") < next)
		*next = '\0';
	else if (next && strstr(next, "\"stdout\":"))
		*strstr(next, "\"stdout\":") = '\0';
	at = logged(copy);
	at = string_begin(at ? at : copy);
	for (int depth = 0; depth == 0 || (depth < 3 && strstr(at, "\\n")); depth++)
		unescape(at);
	next = array_break(at, '"');
	next = next ? next : array_break(at, '\'');
	at = next ? next : at;
	for (; good && at; at = next) {
		next = strchr(at, '\n');
		good = line_give(at, next ? (size_t)(next - at) : strlen(at), number, read, state);
		next = next && next[1] ? next + 1 : NULL;
	}
	free(copy);
	return good;
}

bool bb_log_lines(const char *text, size_t length, bb_log_reader *read, void *state)
{
	const char *const end = text + length;
	bool good = true;

	for (int number = 1; good && text < end; number++) {
		const char *const newline = memchr(text, '\n', (size_t)(end - text));
		const size_t n = (size_t)((newline ? newline : end) - text);
		const bool wrapped = memmem(text, n, "\\n", 2) || memmem(text, n, "\",", 2) ||
				     memmem(text, n, "',", 2) || memmem(text, n, "{\"", 2);

		good = wrapped ? wrapped_give(text, n, number, read, state)
			       : line_give(text, n, number, read, state);
		text += n + (newline != NULL);
	}
	return good;
}

/* ---- words ---------------------------------------------------------------------------------- */

void bb_log_clean(char *text)
{
	for (char *c = text; *c; c++) {
		size_t n = 0;

		if (c[0] == '\033' && c[1] == '[')
			n = 2 + strspn(c + 2, "0123456789;"), n += c[n] != '\0';
		else if (strncmp(c, "\xc2\xa0", 2) == 0)
			n = 2;
		else if (*c == '\r')
			n = 1;
		memset(c, ' ', n);
	}
}

void bb_log_blank(char *text)
{
	for (char *c = text; *c; c++)
		if (strchr("\"|#`", *c) || (*c == ',' && (!c[1] || strchr(" \t\"']", c[1]))))
			*c = ' ';
}

void bb_log_split(char *text, struct bb_log_words *words)
{
	const int most = (int)(sizeof(words->at) / sizeof(words->at[0]));
	char *rest, *word = strtok_r(text, " \t", &rest);

	words->n = 0;
	while (word && words->n < most) {
		words->at[words->n++] = word;
		word = strtok_r(NULL, " \t", &rest);
	}
}

int bb_log_find(const struct bb_log_words *words, const char *word)
{
	for (int i = 0; i < words->n; i++)
		if (strcmp(words->at[i], word) == 0)
			return i;
	return -1;
}

bool bb_log_is_whole(const char *word)
{
	return *word && strlen(word) < 19 && word[strspn(word, "0123456789")] == '\0';
}

/* ---- tags ----------------------------------------------------------------------------------- */

/* True for a date, a time, or seconds: "2026-01-01T00:00:00.123Z", "[12:00:01]", "1234.567". */
static bool is_time(const char *word, size_t n)
{
	size_t marks = 0, points = 0, digits = 0;

	for (size_t i = 0; i < n; i++) {
		if (!strchr("0123456789:-/.TZ+,[]", word[i]))
			return false;
		marks += strchr(":-/", word[i]) != NULL;
		points += word[i] == '.';
		digits += word[i] >= '0' && word[i] <= '9';
	}
	return digits > 2 && (marks > 1 || points > 0);
}

/* Returns the bytes of one tag at the begin of TEXT. */
static size_t tag_at(const char *text)
{
	const size_t n = strcspn(text, " \t");
	const size_t blanks = strspn(text + n, " \t");
	const char *end;

	/* "value:" and "name:" are YAML's. */
	if (n == 0 || strncmp(text, "value:", 6) == 0 || strncmp(text, "name:", 5) == 0)
		return 0;
	if (strchr("[(<", *text)) {
		end = strchr(text, *text == '[' ? ']' : *text == '(' ? ')' : '>');
		if (!end || end - text >= BB_LOG_TAG ||
		    (*text == '(' && !memmem(text, (size_t)(end - text), "pid=", 4)))
			return 0;
		return (size_t)(end + 1 - text) + (end[1] == ':');
	}
	if (is_time(text, n) || text[n - 1] == ':')
		return n;
	if (text[n + blanks] == '|' && !bb_log_is_whole(text) && *text != '|')
		return n + blanks + 1;
	return strncmp(text, "stdout F ", 9) == 0 || strncmp(text, "stderr F ", 9) == 0 ? 8 : 0;
}

size_t bb_log_tag_length(const char *text)
{
	size_t at = strspn(text, " \t"), n;

	while ((n = tag_at(text + at)) > 0) {
		at += n;
		at += strspn(text + at, " \t");
	}
	return at;
}

void bb_log_tag(char tag[BB_LOG_TAG], const char *text, size_t length)
{
	size_t used = 0, n;

	for (size_t i = 0; i < length; i += n) {
		n = strcspn(text + i, " \t\"");
		n = n < length - i ? n : length - i;
		if (n == 0)
			n = 1;
		else if (!is_time(text + i, n) && strspn(text + i, "0123456789") < n)
			for (size_t k = i; k < i + n && used < BB_LOG_TAG - 1; k++)
				tag[used++] = text[k];
	}
	tag[used] = '\0';
}

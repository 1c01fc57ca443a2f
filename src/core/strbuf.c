#include "core/strbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for MORE bytes and the final NUL. */
static bool reserve(struct bb_strbuf *s, size_t more)
{
	size_t capacity = s->capacity ? s->capacity : 64;

	if (s->failed)
		return false;
	if (more >= SIZE_MAX - s->length)
		goto fail;
	if (s->length + more < s->capacity)
		return true;
	while (capacity <= s->length + more) {
		if (capacity > SIZE_MAX / 2)
			goto fail;
		capacity *= 2;
	}
	char *text = realloc(s->text, capacity);
	if (!text)
		goto fail;
	text[s->length] = '\0';
	s->text = text;
	s->capacity = capacity;
	return true;
fail:
	s->failed = true;
	return false;
}

void bb_strbuf_add_bytes(struct bb_strbuf *s, const char *text, size_t length)
{
	if (!reserve(s, length))
		return;
	if (length)
		memcpy(s->text + s->length, text, length);
	s->length += length;
	s->text[s->length] = '\0';
}

void bb_strbuf_add(struct bb_strbuf *s, const char *text)
{
	bb_strbuf_add_bytes(s, text, strlen(text));
}

void bb_strbuf_vaddf(struct bb_strbuf *s, const char *format, va_list args)
{
	va_list again;

	va_copy(again, args);
	const int length = vsnprintf(NULL, 0, format, args);
	if (length < 0) {
		s->failed = true;
	} else if (reserve(s, (size_t)length)) {
		vsnprintf(s->text + s->length, (size_t)length + 1, format, again);
		s->length += (size_t)length;
	}
	va_end(again);
}

void bb_strbuf_addf(struct bb_strbuf *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(s, format, args);
	va_end(args);
}

bool bb_list_has(const char *list, char separator, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
		if ((at == list || at[-1] == separator) && (at[n] == separator || at[n] == '\0'))
			return true;
	return false;
}

void bb_strbuf_markdown(struct bb_strbuf *s, const char *text)
{
	for (; *text; text++)
		bb_strbuf_addf(s, *text == '|' ? "\\%c" : "%c", *text);
}

int bb_strbuf_columns(const char *text, size_t length)
{
	int n = 0;

	for (size_t i = 0; i < length; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

void bb_strbuf_wrap(struct bb_strbuf *s, const char *text, int at, int indent, int width)
{
	while (*(text += strspn(text, " "))) {
		const size_t length = strcspn(text, " ");
		const int word = bb_strbuf_columns(text, length);
		int blanks = at > indent ? 1 : indent - at;

		if (at > indent && at + 1 + word > width) {
			bb_strbuf_add(s, "\n");
			at = 0;
			blanks = indent;
		}
		bb_strbuf_addf(s, "%*s", blanks, "");
		bb_strbuf_add_bytes(s, text, length);
		at += blanks + word;
		text += length;
	}
	bb_strbuf_add(s, "\n");
}

void bb_strbuf_item(struct bb_strbuf *s, int indent, const char *name, int at, const char *text)
{
	const int end = indent + bb_strbuf_columns(name, strlen(name));

	bb_strbuf_addf(s, "%*s%s%s", indent, "", name, end < at ? "" : " ");
	bb_strbuf_wrap(s, text, end < at ? end : end + 1, at, 80);
}

/* LINE, of LENGTH bytes, ends with a line break or a NUL that is not part of it. */
static void fold_line(struct bb_strbuf *s, const char *line, size_t length, int width)
{
	const int indent = 1 + (int)strspn(line + 1, " ");
	int at = 0;

	for (size_t i = 0; i < length;) {
		const size_t blanks = strspn(line + i, " ");
		const size_t word = strcspn(line + i + blanks, " \n");
		const int columns = (int)blanks + bb_strbuf_columns(line + i + blanks, word);

		if (at > indent + 2 && at + columns > width) {
			bb_strbuf_addf(s, "\n#%*s", indent + 1, "");
			bb_strbuf_add_bytes(s, line + i + blanks, word);
			at = indent + 2 + columns - (int)blanks;
		} else {
			bb_strbuf_add_bytes(s, line + i, blanks + word);
			at += columns;
		}
		i += blanks + word;
	}
}

void bb_strbuf_fold(struct bb_strbuf *s, size_t from, int width)
{
	char *text = s->length > from ? strdup(s->text + from) : NULL;

	if (s->length > from && !text) {
		s->failed = true;
		return;
	}
	s->length = text ? from : s->length;
	for (const char *line = text; line && *line;) {
		const size_t length = strcspn(line, "\n");

		if (*line == '#' && bb_strbuf_columns(line, length) > width)
			fold_line(s, line, length, width);
		else
			bb_strbuf_add_bytes(s, line, length);
		if (line[length])
			bb_strbuf_add(s, "\n");
		line += length + (line[length] != '\0');
	}
	free(text);
}

void bb_strbuf_clear(struct bb_strbuf *s)
{
	s->length = 0;
	if (s->text)
		s->text[0] = '\0';
}

void bb_strbuf_free(struct bb_strbuf *s)
{
	free(s->text);
	*s = (struct bb_strbuf){0};
}

const char *bb_strbuf_text(const struct bb_strbuf *s)
{
	return s->text ? s->text : "";
}

bool bb_strbuf_failed(const struct bb_strbuf *s)
{
	return s->failed;
}

#include "core/strbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for MORE bytes and the final NUL. */
static bool reserve(struct bb_strbuf *s, size_t more)
{
	size_t capacity = s->capacity ? s->capacity : 64;
	char *text;

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
	text = realloc(s->text, capacity);
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
	int length;

	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, args);
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

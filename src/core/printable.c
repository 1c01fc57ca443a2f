#include "core/printable.h"

#include <stdbool.h>
#include <string.h>

size_t bb_utf8_length(const char *text)
{
	const unsigned char *const s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	const size_t length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return length;
}

uint32_t bb_utf8_code(const char *text, size_t length)
{
	const unsigned char *const s = (const unsigned char *)text;
	uint32_t code = length == 1 ? s[0] : s[0] & (0x7fu >> length);

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (s[i] & 0x3f);
	return code;
}

size_t bb_printable_character(const char *text)
{
	/* Characters that show nothing themselves but change what is shown: controls, and those of
	   Unicode's categories Cf, Zl and Zp that act without a script of their own. */
	static const struct {
		uint32_t first, last;
	} controls[] = {
		{0, 0x1f},          {0x7f, 0x9f},
		{0xad, 0xad},       /* a hyphen that shows only at the end of a line */
		{0x61c, 0x61c},     /* direction */
		{0x180e, 0x180e},   /* without width, as the next */
		{0x200b, 0x200f},   /* the last two: direction */
		{0x2028, 0x202e},   /* ends of lines, then direction */
		{0x2060, 0x206f},   /* without width, then direction */
		{0xfeff, 0xfeff},   /* a byte order mark */
		{0xfff9, 0xfffb},   /* annotations */
		{0xe0000, 0xe0fff}, /* tags */
	};
	const size_t length = bb_utf8_length(text);
	const uint32_t code = length > 0 ? bb_utf8_code(text, length) : 0;
	size_t i = 0;

	while (i < sizeof(controls) / sizeof(controls[0]) && code > controls[i].last)
		i++;
	return i < sizeof(controls) / sizeof(controls[0]) && code >= controls[i].first ? 0 : length;
}

/* Replaces what is unprintable in TEXT, except where KEPT begins, and TABS if those stay. */
static void text_clean(char *text, const char *kept, bool tabs)
{
	for (size_t n; *text; text += n ? n : 1) {
		n = bb_printable_character(text);
		if (n == 0 && !(kept && strncmp(text, kept, strlen(kept)) == 0) &&
		    !(tabs && *text == '\t'))
			*text = '?';
	}
}

void bb_printable_clean(char *text)
{
	text_clean(text, NULL, false);
}

void bb_printable_clean_sentence(char *text)
{
	text_clean(text, "\n  ", false);
}

void bb_printable_clean_lines(char *lines)
{
	text_clean(lines, "\n", true);
}

void bb_printable_add(struct bb_strbuf *out, const char *text)
{
	for (size_t n; *text; text += n ? n : 1) {
		n = bb_printable_character(text);
		bb_strbuf_add_bytes(out, n ? text : "?", n ? n : 1);
	}
}

void bb_printable_line(struct bb_strbuf *out, const char *format, ...)
{
	struct bb_strbuf line = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&line, format, args);
	va_end(args);
	bb_printable_add(out, bb_strbuf_text(&line));
	bb_strbuf_add(out, "\n");
	bb_strbuf_free(&line);
}

void bb_printable_xml(struct bb_strbuf *out, const char *text)
{
	for (size_t n; *text; text += n ? n : 1) {
		const char *const entity = *text == '&'   ? "&amp;"
					   : *text == '<' ? "&lt;"
					   : *text == '>' ? "&gt;"
					   : *text == '"' ? "&quot;"
							  : NULL;

		n = bb_printable_character(text);
		if (entity)
			bb_strbuf_add(out, entity);
		else
			bb_strbuf_add_bytes(out, n ? text : "?", n ? n : 1);
	}
}

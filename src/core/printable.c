#include "core/printable.h"

#include <string.h>

size_t bb_utf8_length(const char *text)
{
	const unsigned char *const s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
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

size_t bb_printable_character(const char *text)
{
	const unsigned char first = (unsigned char)text[0];
	const size_t length = bb_utf8_length(text);

	/* The second range of control characters is U+0080 to U+009F. */
	if (first < 0x20 || first == 0x7f ||
	    (length == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0))
		return 0;
	return length;
}

void bb_printable_clean(char *text)
{
	for (size_t n; *text; text += n ? n : 1) {
		n = bb_printable_character(text);
		if (n == 0 && strncmp(text, "\n  ", 3) != 0)
			*text = '?';
	}
}

void bb_printable_clean_lines(char *lines)
{
	for (size_t n; *lines; lines += n ? n : 1) {
		n = bb_printable_character(lines);
		if (n == 0 && *lines != '\n' && *lines != '\t')
			*lines = '?';
	}
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

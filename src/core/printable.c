/*
 * shown.c - text that others wrote, as a terminal or XML may have it.
 */
#include "acceptance/shown.h"

size_t bb_shown_character(const char *text)
{
	const unsigned char lead = (unsigned char)text[0];
	const size_t n = lead < 0x80   ? 1
			 : lead < 0xc2 ? 0
			 : lead < 0xe0 ? 2
			 : lead < 0xf0 ? 3
			 : lead < 0xf5 ? 4
				       : 0;

	for (size_t i = 1; i < n; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 0;
	/* The second range of control characters is U+0080 to U+009F. */
	if (lead < 32 || lead == 127 || (lead == 0xc2 && (unsigned char)text[1] < 0xa0))
		return 0;
	return n;
}

void bb_shown_add(struct bb_strbuf *out, const char *text)
{
	for (size_t n; *text; text += n ? n : 1) {
		n = bb_shown_character(text);
		bb_strbuf_add_bytes(out, n ? text : "?", n ? n : 1);
	}
}

void bb_shown_line(struct bb_strbuf *out, const char *format, ...)
{
	struct bb_strbuf line = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&line, format, args);
	va_end(args);
	bb_shown_add(out, bb_strbuf_text(&line));
	bb_strbuf_add(out, "\n");
	bb_strbuf_free(&line);
}

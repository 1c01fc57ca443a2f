/*
 * printable.h - makes foreign text safe for a terminal: host names, arguments, logs and files may
 * contain control characters.
 */
#ifndef BB_CORE_PRINTABLE_H
#define BB_CORE_PRINTABLE_H

#include "core/strbuf.h"

/* Bytes of the UTF-8 sequence that TEXT begins with (Unicode, table 3-7); 0: it is malformed. */
size_t bb_utf8_length(const char *text);
/* The same for a printable character; 0: a control character, or malformed. TEXT is not empty. */
size_t bb_printable_character(const char *text);

/* Replace each unprintable byte of a sentence by '?', in place. Only a line break before two blanks
   stays, so that no value begins a line of its own. */
void bb_printable_clean(char *text);
/* The same for whole lines: line breaks and tabs stay. */
void bb_printable_clean_lines(char *lines);
/* Append TEXT, with '?' for each unprintable byte. */
void bb_printable_add(struct bb_strbuf *out, const char *text);
/* The same for the formatted text, as a line. */
void bb_printable_line(struct bb_strbuf *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif

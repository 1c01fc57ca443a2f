/*
 * printable.h - text that others wrote, as a terminal may have it: names of hosts, arguments, logs
 * and files could hold what moves a cursor, sets a title, or ends a line.
 */
#ifndef BB_CORE_PRINTABLE_H
#define BB_CORE_PRINTABLE_H

#include "core/strbuf.h"

/* Bytes of the UTF-8 sequence that TEXT begins with (Unicode, table 3-7); 0: it is malformed. */
size_t bb_utf8_length(const char *text);
/* The same of a character that can be shown; 0: a control character, or no UTF-8. TEXT is not
   empty. */
size_t bb_printable_character(const char *text);

/* In place, a sentence: '?' for each byte that cannot be shown, but for an end of line before two
   blanks, so that no value in it begins a line of its own. */
void bb_printable_clean(char *text);
/* The same of whole lines: their ends and tabs stay. */
void bb_printable_clean_lines(char *lines);
/* TEXT for the inside of a line: '?' for each byte that cannot be shown. */
void bb_printable_add(struct bb_strbuf *out, const char *text);
/* The same of what FORMAT gives, as a line. */
void bb_printable_line(struct bb_strbuf *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif

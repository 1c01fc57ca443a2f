/*
 * shown.h - text that others wrote, as a terminal or XML may have it: names of hosts, logs of steps
 * and words of profiles could hold what moves a cursor or ends a line.
 */
#ifndef BB_ACCEPTANCE_SHOWN_H
#define BB_ACCEPTANCE_SHOWN_H

#include "core/strbuf.h"

/* Bytes of the character that TEXT, which is not empty, begins with; 0: a control character, or no
   UTF-8. */
size_t bb_shown_character(const char *text);
/* TEXT with '?' for each byte of those. */
void bb_shown_add(struct bb_strbuf *out, const char *text);
/* The same of what FORMAT gives, as a line. */
void bb_shown_line(struct bb_strbuf *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif

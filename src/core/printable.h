/*
 * printable.h - makes foreign text safe for a terminal: host names, arguments, logs and files may
 * contain control characters.
 */
#pragma once

#include "core/strbuf.h"

#include <stdint.h>

/* Bytes of the UTF-8 sequence that TEXT begins with (Unicode, table 3-7); 0: it is malformed. */
size_t bb_utf8_length(const char *text);
/* The code point of such a sequence of LENGTH bytes. */
uint32_t bb_utf8_code(const char *text, size_t length);
/* The bytes of a printable character; 0: malformed, or it controls what is shown: a control
   character, a line separator, one that sets the direction of text or has no width. TEXT is not
   empty. */
size_t bb_printable_character(const char *text);

/* Replace each unprintable byte of TEXT by '?', in place: for a value of a file, a peer or a user,
   where it is read. */
void bb_printable_clean(char *text);
/* The same for a sentence, whose values are clean: a line break before two blanks stays. */
void bb_printable_clean_sentence(char *text);
/* The same for whole lines: line breaks and tabs stay. */
void bb_printable_clean_lines(char *lines);
/* Append TEXT, with '?' for each unprintable byte. */
void bb_printable_add(struct bb_strbuf *out, const char *text);
/* The same for the formatted text, as a line. */
void bb_printable_line(struct bb_strbuf *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Append TEXT for XML, as text or as the value of an attribute in double quotes, with '?' for each
   unprintable byte. */
void bb_printable_xml(struct bb_strbuf *out, const char *text);

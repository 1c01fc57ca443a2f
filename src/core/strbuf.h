/*
 * strbuf.h - a string that grows. Running out of memory is remembered, not returned: append freely,
 * and check bb_strbuf_failed once at the end. After a failure the text is what was complete until
 * then, and every further append does nothing, until bb_strbuf_free.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct bb_strbuf {  /* zero-initialise */
	char *text; /* NUL-terminated once anything was appended; owned */
	size_t length;
	size_t capacity;
	bool failed;
};

void bb_strbuf_add(struct bb_strbuf *s, const char *text);
void bb_strbuf_add_bytes(struct bb_strbuf *s, const char *text, size_t length);
void bb_strbuf_addf(struct bb_strbuf *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void bb_strbuf_vaddf(struct bb_strbuf *s, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));
/* Is WORD, which is not empty, one of LIST, "self,tcp" with the SEPARATOR ','? */
bool bb_list_has(const char *list, char separator, const char *word);
/* Append TEXT as a cell of a table in Markdown, which a bar would end. */
void bb_strbuf_markdown(struct bb_strbuf *s, const char *text);
/* Columns of LENGTH bytes of TEXT: its characters, in UTF-8. */
int bb_strbuf_columns(const char *text, size_t length);
/* Append the words of TEXT in lines of at most WIDTH columns, unless a word is longer, indented to
   INDENT. The first line begins at column AT; the last one ends with a line break. */
void bb_strbuf_wrap(struct bb_strbuf *s, const char *text, int at, int indent, int width);
/* Append NAME at column INDENT, and TEXT from column AT on, in lines of at most 80 columns. */
void bb_strbuf_item(struct bb_strbuf *s, int indent, const char *name, int at, const char *text);
/* Break the lines of S from byte FROM on that begin with "#" and have more than WIDTH columns at
   words. Their further lines begin with "#" too, and are indented by two blanks more. */
void bb_strbuf_fold(struct bb_strbuf *s, size_t from, int width);
void bb_strbuf_clear(struct bb_strbuf *s); /* empty it, keep the memory and a failure */
void bb_strbuf_free(struct bb_strbuf *s);
const char *bb_strbuf_text(const struct bb_strbuf *s); /* never NULL */
bool bb_strbuf_failed(const struct bb_strbuf *s);

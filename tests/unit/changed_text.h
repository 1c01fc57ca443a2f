/*
 * changed_text.h - texts with a line changed, for sweeps over files.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* What is done to a line of a file. */
enum change { AS_IT_IS, WITHOUT, END, DIGITS, TAG, TWICE, JOINED, CHANGES };

static const char *const change_names[CHANGES] = {
	"as it is", "without a line", "cut", "digits", "a tag", "a line twice", "lines joined"};

/* TEXT with its line of LENGTH bytes at AT changed; to be freed. */
static inline char *changed(const char *text, const char *at, size_t length, enum change change)
{
	const size_t before = (size_t)(at - text), whole = strlen(text);
	char *const out = malloc(2 * whole + 16);
	char *to = out;

	assert_non_null(out);
	memcpy(to, text, before);
	to += before;
	if (change == TAG)
		to = stpcpy(to, "[1,0]<stdout>:");
	if (change == TWICE) {
		memcpy(to, at, length);
		to += length;
		*to++ = '\n';
	}
	if (change != WITHOUT && change != END) {
		memcpy(to, at, length);
		for (char *c = to; c < to + length && change == DIGITS; c++)
			*c = *c >= '0' && *c <= '9' ? (char)('0' + (*c - '0' + 3) % 10) : *c;
		to += length;
	}
	at += length;
	at += (change == WITHOUT || change == JOINED) && *at;
	strcpy(to, change == END ? "" : at);
	return out;
}

/*
 * trace_text.c - places, symbols and messages as text.
 */
#include "schedules/trace.h"

#include <stdio.h>

const char *bb_trace_buffer(enum bb_buffer buffer)
{
	static const char *const names[] = {[BB_IN] = "IN", [BB_OUT] = "OUT", [BB_TMP] = "TMP"};

	return names[buffer];
}

void bb_trace_place_text(char text[BB_PLACE_TEXT], struct bb_place place, size_t count)
{
	const char *name = bb_trace_buffer(place.buffer);

	if (count == 1)
		snprintf(text, BB_PLACE_TEXT, "%s[%zu]", name, place.offset);
	else
		snprintf(text, BB_PLACE_TEXT, "%s[%zu..%zu]", name, place.offset,
			 place.offset + count - 1);
}

/* The first rank of the run around the ring that RANKS form, or -1: they form several. */
static int run_start(uint64_t ranks, int n)
{
	int start = -1, starts = 0;

	for (int r = 0; r < n; r++) {
		if (ranks >> r & 1 && !(ranks >> (r + n - 1) % n & 1)) {
			start = r;
			starts++;
		}
	}
	return starts ? starts == 1 ? start : -1 : 0;
}

/* The element's letter; beyond z its number. */
static int element_text(char text[BB_SYMBOL_TEXT], uint32_t index)
{
	if (index < 26)
		return snprintf(text, BB_SYMBOL_TEXT, "%c", 'a' + (int)index);
	return snprintf(text, BB_SYMBOL_TEXT, "(%u)", index);
}

/* "c0+c1+c3"; with more than four ranks "c0..3" if they are consecutive, else "c:3". */
static int sum_text(char text[BB_SYMBOL_TEXT], const struct bb_symbol *s, int n)
{
	int length = 0, start = run_start(s->ranks, n), terms = __builtin_popcountll(s->ranks);
	char element[BB_SYMBOL_TEXT];

	if (n > 4 && terms > 1) {
		length = element_text(text, s->index);
		if (start < 0)
			return length + snprintf(text + length, BB_SYMBOL_TEXT - (size_t)length,
						 ":%d", terms);
		return length + snprintf(text + length, BB_SYMBOL_TEXT - (size_t)length, "%d..%d",
					 start, (start + terms - 1) % n);
	}
	element_text(element, s->index);
	for (int r = 0; r < n; r++) {
		if (s->ranks >> r & 1)
			length += snprintf(text + length, BB_SYMBOL_TEXT - (size_t)length,
					   "%s%.12s%d", length ? "+" : "", element, r);
	}
	return length;
}

void bb_trace_symbol_text(char text[BB_SYMBOL_TEXT], const struct bb_trace *p,
			  const struct bb_symbol *s)
{
	int length;

	if (!s->ranks) {
		snprintf(text, BB_SYMBOL_TEXT, ".");
		return;
	}
	length = sum_text(text, s, p->shape->nranks);
	if (p->algorithm->collective->flags & BB_REDUCES)
		snprintf(text + length, BB_SYMBOL_TEXT - (size_t)length, "=%llu",
			 (unsigned long long)s->index *
				 (unsigned long long)__builtin_popcountll(s->ranks));
}

void bb_trace_content_text(char text[BB_CONTENT_TEXT], const struct bb_trace *p,
			   const struct bb_trace_message *m, size_t columns)
{
	const size_t count = m->send->count;
	char first[BB_SYMBOL_TEXT], last[BB_SYMBOL_TEXT];
	size_t length = 0;

	bb_trace_symbol_text(first, p, &m->content[0]);
	bb_trace_symbol_text(last, p, &m->content[count - 1]);
	text[0] = '\0';
	for (size_t i = 0; i < count && length <= columns; i++) {
		char one[BB_SYMBOL_TEXT];

		bb_trace_symbol_text(one, p, &m->content[i]);
		length += (size_t)snprintf(text + length, BB_CONTENT_TEXT - length, "%s%s",
					   i ? " " : "", one);
	}
	if (length > columns && count > 1)
		length = (size_t)snprintf(text, BB_CONTENT_TEXT, "%s .. %s", first, last);
	if (length > columns && count > 1)
		snprintf(text, BB_CONTENT_TEXT, "%s ..", first);
}

void bb_trace_effect_text(char text[BB_CONTENT_TEXT], const struct bb_trace_message *m)
{
	const struct bb_step *step = m->receipt;
	char dst[BB_PLACE_TEXT], src[BB_PLACE_TEXT];

	bb_trace_place_text(dst, step->dst, step->count);
	bb_trace_place_text(src, step->src, step->count);
	if (step->kind == BB_RECV)
		snprintf(text, BB_CONTENT_TEXT, "%s = received", dst);
	else if (step->kind == BB_COPY)
		snprintf(text, BB_CONTENT_TEXT, "%s = %s", dst, src);
	else if (step->peer2 == BB_NO_PEER)
		snprintf(text, BB_CONTENT_TEXT, "%s = %s + received", dst, src);
	else
		snprintf(text, BB_CONTENT_TEXT, "%s = %s + received + %d's", dst, src,
			 step->peer == m->from ? step->peer2 : step->peer);
}

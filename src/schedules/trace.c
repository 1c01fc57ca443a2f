#include "schedules/trace.h"

#include "schedules/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECKED_SLOTS 16 /* outstanding messages of a pair */

/* ---- messages ------------------------------------------------------------------------ */

/* The receiver's step for the message of step K of SENDER. */
static const struct bb_step *receipt_of(const struct bb_trace *p, int sender, int k)
{
	const struct bb_step *send = &p->steps[sender][k];
	int before = 0;

	for (int i = 0; i < k; i++)
		before += p->steps[sender][i].kind == BB_SEND &&
			  p->steps[sender][i].peer == send->peer &&
			  p->steps[sender][i].channel == send->channel;
	for (int i = 0; i < p->nsteps[send->peer]; i++) {
		const struct bb_step *step = &p->steps[send->peer][i];
		const bool receives = step->kind == BB_RECV || step->kind == BB_RECV_REDUCE;

		if (receives && step->channel == send->channel &&
		    (step->peer == sender || step->peer2 == sender) && !before--)
			return step;
	}
	return NULL;
}

bool bb_trace_next(const struct bb_trace *p, struct bb_trace_message *m)
{
	for (; m->next_rank < p->shape->nranks; m->next_rank++, m->next_step = 0) {
		const int rank = m->next_rank;

		while (m->next_step < p->nsteps[rank]) {
			const int k = m->next_step++;
			const struct bb_step *step = &p->steps[rank][k];

			if (step->kind != BB_SEND && step->kind != BB_COPY)
				continue;
			m->from = rank;
			m->to = step->kind == BB_SEND ? step->peer : rank;
			m->send = step;
			m->receipt = step->kind == BB_SEND ? receipt_of(p, rank, k) : step;
			m->content = bb_symbols_at(&p->symbols[rank], step->src);
			return true;
		}
	}
	return false;
}

/* ---- rounds -------------------------------------------------------------------------- */

/* The elements that STEP of RANK writes become what it reads there, or nothing. */
static void take_own(struct bb_trace *p, int rank, const struct bb_step *step)
{
	struct bb_symbol *dst = bb_symbols_at(&p->symbols[rank], step->dst);

	for (size_t i = 0; i < step->count; i++)
		dst[i] = step->kind == BB_RECV ? (struct bb_symbol){0, 0, false}
					       : bb_symbols_at(&p->symbols[rank], step->src)[i];
}

static void take_message(struct bb_trace *p, const struct bb_trace_message *m)
{
	struct bb_symbol *dst = bb_symbols_at(&p->symbols[m->to], m->receipt->dst);

	for (size_t i = 0; i < m->send->count; i++) {
		dst[i].ranks |= m->content[i].ranks;
		dst[i].index = m->content[i].index;
	}
	p->messages++;
	p->elements += m->send->count;
}

bool bb_trace_begin(struct bb_trace *p)
{
	if (p->round == p->roles[0].rounds)
		return false;
	for (int rank = 0; rank < p->shape->nranks; rank++)
		p->nsteps[rank] = bb_algorithm_steps(p->algorithm, p->shape, &p->roles[rank],
						     p->round, p->steps[rank]);
	return true;
}

/* No step uses what another step of the round writes on its rank, so their order does not matter.
 */
void bb_trace_apply(struct bb_trace *p)
{
	struct bb_trace_message m = {0};

	for (int rank = 0; rank < p->shape->nranks; rank++)
		for (int k = 0; k < p->nsteps[rank]; k++)
			if (p->steps[rank][k].kind != BB_SEND)
				take_own(p, rank, &p->steps[rank][k]);
	while (bb_trace_next(p, &m))
		if (m.from != m.to)
			take_message(p, &m);
	p->round++;
}

bb_status bb_trace_open(struct bb_trace *p, const struct bb_algorithm *algorithm,
			const struct bb_shape *shape, struct bb_error *error)
{
	const char *(*refuses)(int) = algorithm->collective->refuses;
	const size_t n = (size_t)shape->nranks;
	bb_status st;

	*p = (struct bb_trace){.algorithm = algorithm, .shape = shape};
	if (shape->nranks < 1 || shape->nranks > BB_CHECKER_RANKS)
		return bb_fail(error, BB_EUSAGE, "--explain supports 1 to %d ranks, not %d",
			       BB_CHECKER_RANKS, shape->nranks);
	if (refuses && refuses(shape->nranks))
		return bb_fail(error, BB_EUNSUPPORTED, "%s", refuses(shape->nranks));
	BB_TRY(st, bb_check_algorithm(algorithm, shape, CHECKED_SLOTS, error), out);
	p->symbols = calloc(n, sizeof(*p->symbols));
	p->roles = calloc(n, sizeof(*p->roles));
	p->steps = calloc(n, sizeof(*p->steps));
	p->nsteps = calloc(n, sizeof(*p->nsteps));
	if (!p->symbols || !p->roles || !p->steps || !p->nsteps)
		st = bb_no_memory(error, "the explanation of a schedule");
	for (int rank = 0; rank < shape->nranks && st == BB_OK; rank++) {
		bb_algorithm_prepare(algorithm, shape, rank, &p->roles[rank]);
		if (bb_symbols_make(&p->symbols[rank], algorithm, shape, rank) != BB_OK)
			st = bb_no_memory(error, "the explanation of a schedule");
	}
out:
	return st;
}

void bb_trace_close(struct bb_trace *p)
{
	for (int rank = 0; p->symbols && rank < p->shape->nranks; rank++)
		bb_symbols_free(&p->symbols[rank]);
	free(p->symbols);
	free(p->roles);
	free(p->steps);
	free(p->nsteps);
}

/* ---- minima -------------------------------------------------------------------------- */

size_t bb_trace_least_elements(const struct bb_trace *p)
{
	const struct bb_collective *collective = p->algorithm->collective;
	size_t moved = 0, wanted = 0, sums, n = (size_t)p->shape->nranks;

	for (int rank = 0; rank < p->shape->nranks; rank++) {
		for (int k = 0; k < bb_collective_segments(collective, p->shape, rank); k++) {
			const struct bb_segment segment =
				bb_collective_segment(collective, p->shape, rank, k);

			if (segment.source == BB_REDUCED)
				wanted += segment.count;
			else if (segment.source != rank)
				moved += segment.count;
		}
	}
	sums = collective->flags & BB_SAME_OUTPUT ? wanted / n : wanted;
	return moved + sums * (n - 1) + wanted - sums;
}

int bb_trace_least(const struct bb_trace *p)
{
	return p->algorithm->collective == &bb_sendrecv ? p->shape->nranks > 1
							: bb_log2_up(p->shape->nranks);
}

/* ---- places, symbols and messages as text ------------------------------------------------ */

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

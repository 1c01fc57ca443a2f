#include "schedules/trace.h"

#include "schedules/parts.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOTS 16 /* outstanding messages of a pair */

/* ---- rounds -------------------------------------------------------------------------- */

/* Write the steps of RANK in this round; returns their number. */
static int steps_of(const struct bb_trace *p, int rank, struct bb_step steps[BB_MAX_STEPS])
{
	return bb_algorithm_steps(p->check.algorithm, p->check.shape, &p->check.ranks[rank].role,
				  p->round, steps);
}

/* The receiver's step for the message of step K of the STEPS of SENDER: the schedule has passed its
   checker. */
static struct bb_step receipt_of(const struct bb_trace *p, int sender, const struct bb_step *steps,
				 int k)
{
	const struct bb_step *send = &steps[k];
	struct bb_step received[BB_MAX_STEPS];
	int before = 0, i = -1;

	for (int s = 0; s < k; s++)
		before += steps[s].kind == BB_SEND && steps[s].peer == send->peer &&
			  steps[s].channel == send->channel;
	(void)steps_of(p, send->peer, received);
	while (before >= 0) {
		const struct bb_step *step = &received[++i];

		before -= (step->kind == BB_RECV || step->kind == BB_RECV_REDUCE) &&
			  step->channel == send->channel &&
			  (step->peer == sender || step->peer2 == sender);
	}
	return received[i];
}

bool bb_trace_begin(struct bb_trace *p)
{
	p->n = 0;
	if (p->round == p->rounds)
		return false;
	for (int rank = 0; rank < p->check.shape->nranks; rank++) {
		struct bb_step steps[BB_MAX_STEPS];
		const int n = steps_of(p, rank, steps);

		for (int k = 0; k < n; k++) {
			const bool sends = steps[k].kind == BB_SEND;

			if (!sends && steps[k].kind != BB_COPY)
				continue;
			p->messages[p->n++] = (struct bb_trace_message){
				rank, sends ? steps[k].peer : rank, steps[k],
				sends ? receipt_of(p, rank, steps, k) : steps[k]};
			p->sent += sends;
			p->elements += sends ? steps[k].count : 0;
		}
	}
	return true;
}

bb_status bb_trace_apply(struct bb_trace *p)
{
	return bb_check_advance(&p->check, ++p->round);
}

bb_status bb_trace_open(struct bb_trace *p, const struct bb_algorithm *algorithm,
			const struct bb_shape *shape, struct bb_error *error)
{
	const char *(*refuses)(int) = algorithm->collective->refuses;
	bb_status st;

	*p = (struct bb_trace){.round = 0};
	if (shape->nranks < 1 || shape->nranks > BB_CHECKER_RANKS)
		return bb_fail(error, BB_EUSAGE, "--explain supports 1 to %d ranks, not %d",
			       BB_CHECKER_RANKS, shape->nranks);
	if (refuses && refuses(shape->nranks))
		return bb_fail(error, BB_EUNSUPPORTED, "%s", refuses(shape->nranks));
	BB_TRY(st, bb_check_algorithm(algorithm, shape, SLOTS, error), out);
	BB_TRY(st, bb_check_open(&p->check, algorithm, shape, SLOTS, error), out);
	p->rounds = p->check.ranks[0].role.rounds;
	p->messages = calloc((size_t)shape->nranks * BB_MAX_STEPS, sizeof(*p->messages));
	if (!p->messages)
		st = bb_no_memory(error, "the explanation of a schedule");
out:
	return st;
}

void bb_trace_close(struct bb_trace *p)
{
	bb_check_close(&p->check);
	free(p->messages);
}

/* ---- minima -------------------------------------------------------------------------- */

size_t bb_trace_least_elements(const struct bb_trace *p)
{
	const struct bb_collective *collective = p->check.algorithm->collective;
	size_t moved = 0, wanted = 0, sums, n = (size_t)p->check.shape->nranks;

	for (int rank = 0; rank < p->check.shape->nranks; rank++) {
		for (int k = 0; k < bb_collective_segments(collective, p->check.shape, rank); k++) {
			const struct bb_segment segment =
				bb_collective_segment(collective, p->check.shape, rank, k);

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
	return p->check.algorithm->collective == &bb_sendrecv ? p->check.shape->nranks > 1
							      : bb_log2_up(p->check.shape->nranks);
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

void bb_trace_symbol_text(char text[BB_SYMBOL_TEXT], const struct bb_trace *p,
			  const struct bb_symbol *s)
{
	const int n = p->check.shape->nranks, terms = __builtin_popcountll(s->ranks);
	const int start = run_start(s->ranks, n);
	char element[16]; /* its letter; beyond z its number */
	int length = 0;

	if (s->index < 26)
		snprintf(element, sizeof(element), "%c", 'a' + (int)s->index);
	else
		snprintf(element, sizeof(element), "(%u)", s->index);
	/* "c0+c1+c3"; with more than four ranks "c0..3" if they are consecutive, else "c:3". */
	if (!s->ranks)
		snprintf(text, BB_SYMBOL_TEXT, ".");
	else if (n > 4 && terms > 1 && start < 0)
		length = snprintf(text, BB_SYMBOL_TEXT, "%s:%d", element, terms);
	else if (n > 4 && terms > 1)
		length = snprintf(text, BB_SYMBOL_TEXT, "%s%d..%d", element, start,
				  (start + terms - 1) % n);
	for (int r = 0; r < n && (n <= 4 || terms == 1); r++)
		if (s->ranks >> r & 1)
			length += snprintf(text + length, BB_SYMBOL_TEXT - (size_t)length, "%s%s%d",
					   length ? "+" : "", element, r);
	if (s->ranks && p->check.algorithm->collective->flags & BB_REDUCES)
		snprintf(text + length, BB_SYMBOL_TEXT - (size_t)length, "=%llu",
			 (unsigned long long)s->index * (unsigned long long)terms);
}

void bb_trace_content_text(char text[BB_CONTENT_TEXT], const struct bb_trace *p,
			   const struct bb_trace_message *m, size_t columns)
{
	const struct bb_symbol *content = bb_trace_content(p, m);
	const size_t count = m->send.count;
	char first[BB_SYMBOL_TEXT], last[BB_SYMBOL_TEXT];
	size_t length = 0;

	bb_trace_symbol_text(first, p, &content[0]);
	bb_trace_symbol_text(last, p, &content[count - 1]);
	text[0] = '\0';
	for (size_t i = 0; i < count && length <= columns; i++) {
		char one[BB_SYMBOL_TEXT];

		bb_trace_symbol_text(one, p, &content[i]);
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
	const struct bb_step *step = &m->receipt;
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

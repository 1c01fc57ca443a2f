/*
 * explain.c - runs a schedule round by round on symbols and prints what happens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"
#include "schedules/checker.h"
#include "schedules/explain.h"
#include "schedules/symbols.h"

#define LINE 100          /* columns of a line */
#define LABEL 17          /* of the rank and buffer before its contents */
#define CONTENTS_RANKS 16 /* contents are shown up to here … */
#define CONTENTS_CELLS 16 /* … and for buffers of so many elements */
#define WHICH 28          /* columns for the contents of a message */
#define CELL 80           /* bytes of one element's text; 64 ranks take less */

struct explanation {
	struct bb_strbuf *out;
	const struct bb_algorithm *algorithm;
	const struct bb_shape *shape;
	struct bb_symbols *symbols; /* by rank */
	struct bb_role *roles;
	struct bb_step (*steps)[BB_MAX_STEPS]; /* of this round, by rank */
	int *nsteps;
	size_t messages;
	size_t elements;
};

/* ---- names --------------------------------------------------------------------------- */

static bool reduces(const struct explanation *p)
{
	return p->algorithm->collective->flags & BB_REDUCES;
}

static const char *buffer_name(enum bb_buffer buffer)
{
	static const char *const names[] = {[BB_IN] = "IN", [BB_OUT] = "OUT", [BB_TMP] = "TMP"};

	return names[buffer];
}

/* "OUT[3]", "IN[4..7]" */
static void span_text(char text[CELL], struct bb_place place, size_t count)
{
	const char *name = buffer_name(place.buffer);

	if (count == 1)
		snprintf(text, CELL, "%s[%zu]", name, place.offset);
	else
		snprintf(text, CELL, "%s[%zu..%zu]", name, place.offset, place.offset + count - 1);
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
static int element_text(char text[CELL], uint32_t index)
{
	if (index < 26)
		return snprintf(text, CELL, "%c", 'a' + (int)index);
	return snprintf(text, CELL, "(%u)", index);
}

/* "c0+c1+c3"; with more than four ranks "c0..3" if they are consecutive, else "c:3". */
static int sum_text(char text[CELL], const struct bb_symbol *s, int n)
{
	int length = 0, start = run_start(s->ranks, n), terms = __builtin_popcountll(s->ranks);

	if (n > 4 && terms > 1) {
		length = element_text(text, s->index);
		if (start < 0)
			return length +
			       snprintf(text + length, CELL - (size_t)length, ":%d", terms);
		return length + snprintf(text + length, CELL - (size_t)length, "%d..%d", start,
					 (start + terms - 1) % n);
	}
	for (int r = 0; r < n; r++) {
		char element[CELL];

		if (!(s->ranks >> r & 1))
			continue;
		element_text(element, s->index);
		length += snprintf(text + length, CELL - (size_t)length, "%s%.12s%d",
				   length ? "+" : "", element, r);
	}
	return length;
}

static void symbol_text(char text[CELL], const struct explanation *p, const struct bb_symbol *s)
{
	int length;

	if (!s->ranks) {
		snprintf(text, CELL, ".");
		return;
	}
	length = sum_text(text, s, p->shape->nranks);
	if (reduces(p))
		snprintf(text + length, CELL - (size_t)length, "=%llu",
			 (unsigned long long)s->index *
				 (unsigned long long)__builtin_popcountll(s->ranks));
}

/* The elements, or the first and last ones that fit. */
static void symbols_text(char text[3 * CELL], const struct explanation *p,
			 const struct bb_symbol *s, size_t count)
{
	char first[CELL], last[CELL];
	size_t length = 0;

	symbol_text(first, p, &s[0]);
	symbol_text(last, p, &s[count - 1]);
	text[0] = '\0';
	for (size_t i = 0; i < count && length <= WHICH; i++) {
		char one[CELL];

		symbol_text(one, p, &s[i]);
		length += (size_t)snprintf(text + length, 3 * (size_t)CELL - length, "%s%s",
					   i ? " " : "", one);
	}
	if (length > WHICH && count > 1)
		length = (size_t)snprintf(text, 3 * (size_t)CELL, "%s .. %s", first, last);
	if (length > WHICH && count > 1)
		snprintf(text, 3 * (size_t)CELL, "%s ..", first);
}

/* ---- what is sent -------------------------------------------------------------------- */

static bool receives_from(const struct bb_step *step, int peer, int channel)
{
	return (step->kind == BB_RECV || step->kind == BB_RECV_REDUCE) &&
	       step->channel == channel && (step->peer == peer || step->peer2 == peer);
}

/* The receiver's step for the message of step K of SENDER. */
static const struct bb_step *receipt_of(const struct explanation *p, int sender, int k)
{
	const struct bb_step *send = &p->steps[sender][k];
	int before = 0;

	for (int i = 0; i < k; i++)
		before += p->steps[sender][i].kind == BB_SEND &&
			  p->steps[sender][i].peer == send->peer &&
			  p->steps[sender][i].channel == send->channel;
	for (int i = 0; i < p->nsteps[send->peer]; i++) {
		const struct bb_step *step = &p->steps[send->peer][i];

		if (receives_from(step, sender, send->channel) && !before--)
			return step;
	}
	return NULL;
}

static const struct bb_step *sending_of(const struct explanation *p, int receiver, int k, int peer)
{
	for (int i = 0; i < p->nsteps[peer]; i++) {
		const struct bb_step *step = &p->steps[peer][i];

		if (step->kind == BB_SEND && step->peer == receiver &&
		    receipt_of(p, peer, i) == &p->steps[receiver][k])
			return step;
	}
	return NULL;
}

/* "OUT[2] = IN[2] + received" */
static void effect_text(char text[3 * CELL], const struct bb_step *step, int sender)
{
	char dst[CELL], src[CELL];

	span_text(dst, step->dst, step->count);
	span_text(src, step->src, step->count);
	if (step->kind == BB_RECV)
		snprintf(text, 3 * (size_t)CELL, "%s = received", dst);
	else if (step->kind == BB_COPY)
		snprintf(text, 3 * (size_t)CELL, "%s = %s", dst, src);
	else if (step->peer2 == BB_NO_PEER)
		snprintf(text, 3 * (size_t)CELL, "%s = %s + received", dst, src);
	else
		snprintf(text, 3 * (size_t)CELL, "%s = %s + received + %d's", dst, src,
			 step->peer == sender ? step->peer2 : step->peer);
}

static void transfer(struct explanation *p, int sender, int k)
{
	const struct bb_step *step = &p->steps[sender][k];
	const struct bb_step *receipt = step->kind == BB_SEND ? receipt_of(p, sender, k) : step;
	char what[CELL], which[3 * CELL], effect[3 * CELL] = "", to[16];

	span_text(what, step->src, step->count);
	symbols_text(which, p, bb_symbols_at(&p->symbols[sender], step->src), step->count);
	if (receipt)
		effect_text(effect, receipt, sender);
	snprintf(to, sizeof(to), step->kind == BB_SEND ? "%d" : "itself", step->peer);
	bb_strbuf_addf(p->out, "  %4d -> %-6s  %-11s  %-*s  %s\n", sender, to, what, WHICH, which,
		       effect);
	if (step->kind == BB_SEND) {
		p->messages++;
		p->elements += step->count;
	}
}

static bool print_transfers(struct explanation *p, size_t round)
{
	bool any = false;

	for (int rank = 0; rank < p->shape->nranks; rank++) {
		for (int k = 0; k < p->nsteps[rank]; k++) {
			enum bb_step_kind kind = p->steps[rank][k].kind;

			if (kind != BB_SEND && kind != BB_COPY)
				continue;
			if (!any) {
				bb_strbuf_addf(p->out, "\nRound %zu of %zu\n", round + 1,
					       p->roles[0].rounds);
				bb_strbuf_addf(p->out, "  %4s -> %-6s  %-11s  %-*s  %s\n", "from",
					       "to", "sends", WHICH, "which is",
					       "the receiver does");
			}
			any = true;
			transfer(p, rank, k);
		}
	}
	return any;
}

/* ---- what every rank holds ----------------------------------------------------------- */

/* Does OUT[I] of RANK hold its final value? */
static bool complete(const struct explanation *p, int rank, size_t i)
{
	const struct bb_collective *collective = p->algorithm->collective;
	const struct bb_symbol *s = bb_symbols_at(&p->symbols[rank], (struct bb_place){BB_OUT, i});

	for (int k = 0; k < collective->segments(p->shape, rank); k++) {
		struct bb_segment segment;
		struct bb_symbol want;

		collective->segment(p->shape, rank, k, &segment);
		if (i < segment.out || i - segment.out >= segment.count)
			continue;
		want = bb_symbol_expected(&segment, p->shape->nranks, i - segment.out);
		return s->ranks == want.ranks && s->index == want.index;
	}
	return false;
}

static void cell_text(char text[CELL + 2], const struct explanation *p, int rank,
		      enum bb_buffer buffer, size_t i)
{
	char symbol[CELL];

	symbol_text(symbol, p, bb_symbols_at(&p->symbols[rank], (struct bb_place){buffer, i}));
	snprintf(text, CELL + 2, "%s%s", symbol,
		 buffer == BB_OUT && complete(p, rank, i) ? "*" : "");
}

static size_t widest(const struct explanation *p, enum bb_buffer buffer)
{
	size_t width = 4;

	for (int rank = 0; rank < p->shape->nranks; rank++) {
		for (size_t i = 0; i < p->symbols[rank].count[buffer]; i++) {
			char text[CELL + 2];

			cell_text(text, p, rank, buffer, i);
			width = strlen(text) > width ? strlen(text) : width;
		}
	}
	return width;
}

static size_t longest(const struct explanation *p, enum bb_buffer buffer)
{
	size_t most = 0;

	for (int rank = 0; rank < p->shape->nranks; rank++)
		most = p->symbols[rank].count[buffer] > most ? p->symbols[rank].count[buffer]
							     : most;
	return most;
}

/* Columns [first, end) of one buffer of all ranks that have it. */
static void print_columns(const struct explanation *p, enum bb_buffer buffer, size_t first,
			  size_t end, int width, const char *title)
{
	char text[CELL + 2];

	bb_strbuf_addf(p->out, "  %-*s", LABEL - 2, title);
	for (size_t i = first; i < end; i++) {
		snprintf(text, sizeof(text), "[%zu]", i);
		bb_strbuf_addf(p->out, " %-*s", i + 1 < end ? width : 0, text);
	}
	bb_strbuf_add(p->out, "\n");
	for (int rank = 0; rank < p->shape->nranks; rank++) {
		size_t count = p->symbols[rank].count[buffer];
		size_t last = count < end ? count : end;

		if (count <= first)
			continue;
		bb_strbuf_addf(p->out, "  rank %2d's %-5s", rank, buffer_name(buffer));
		for (size_t i = first; i < last; i++) {
			cell_text(text, p, rank, buffer, i);
			bb_strbuf_addf(p->out, " %-*s", i + 1 < last ? width : 0, text);
		}
		bb_strbuf_add(p->out, "\n");
	}
}

static void print_buffer(const struct explanation *p, enum bb_buffer buffer, const char *title)
{
	size_t cells = longest(p, buffer), width, fit;

	if (cells > CONTENTS_CELLS || p->shape->nranks > CONTENTS_RANKS)
		return;
	width = widest(p, buffer);
	fit = (LINE - LABEL) / (width + 1);
	fit = fit ? fit : 1;
	for (size_t first = 0; first < cells; first += fit)
		print_columns(p, buffer, first, cells < first + fit ? cells : first + fit,
			      (int)width, title);
}

/* ---- rounds -------------------------------------------------------------------------- */

static void add(struct bb_symbol *sum, const struct bb_symbol *from)
{
	sum->ranks |= from->ranks;
	sum->index = from->index;
}

/* No step uses what another step of the round writes, so their order does not matter. */
static void apply(struct explanation *p, int rank, int k)
{
	const struct bb_step *step = &p->steps[rank][k];
	const struct bb_step *sent[2] = {NULL, NULL};
	int peers[2] = {step->peer, step->peer2};

	if (step->kind == BB_SEND)
		return;
	for (int i = 0; i < 2; i++) {
		if (step->kind != BB_COPY && peers[i] != BB_NO_PEER)
			sent[i] = sending_of(p, rank, k, peers[i]);
	}
	for (size_t i = 0; i < step->count; i++) {
		struct bb_symbol sum = {0, 0, false};

		if (step->kind != BB_RECV)
			add(&sum, bb_symbols_at(&p->symbols[rank], step->src) + i);
		for (int s = 0; s < 2; s++) {
			if (sent[s])
				add(&sum, bb_symbols_at(&p->symbols[peers[s]], sent[s]->src) + i);
		}
		bb_symbols_at(&p->symbols[rank], step->dst)[i] = sum;
	}
}

static void explain_round(struct explanation *p, size_t round)
{
	for (int rank = 0; rank < p->shape->nranks; rank++)
		p->nsteps[rank] = bb_algorithm_steps(p->algorithm, p->shape, &p->roles[rank], round,
						     p->steps[rank]);
	if (!print_transfers(p, round))
		return;
	for (int rank = 0; rank < p->shape->nranks; rank++) {
		for (int k = 0; k < p->nsteps[rank]; k++)
			apply(p, rank, k);
	}
	print_buffer(p, BB_OUT, "then");
	print_buffer(p, BB_TMP, "");
}

/* ---- before and after ---------------------------------------------------------------- */

static void print_wrapped(struct bb_strbuf *out, const char *text)
{
	bb_strbuf_wrap(out, text, 0, 2, LINE - 1);
}

static void print_names(const struct explanation *p)
{
	struct bb_strbuf text = {0};

	bb_strbuf_addf(&text,
		       "A letter is an element of IN, the digit its rank: b%d is element 1 of rank "
		       "%d's IN.",
		       p->shape->root, p->shape->root);
	print_wrapped(p->out, bb_strbuf_text(&text));
	p->out->failed |= bb_strbuf_failed(&text);
	bb_strbuf_free(&text);
	if (longest(p, BB_TMP))
		print_wrapped(p->out, "TMP is scratch memory.");
}

static void print_intro(const struct explanation *p)
{
	const struct bb_collective *collective = p->algorithm->collective;
	bool many = p->shape->nranks > 4;

	bb_strbuf_addf(p->out, "%s by %s, %d rank%s%s", collective->name, p->algorithm->name,
		       p->shape->nranks, bb_plural(p->shape->nranks),
		       p->shape->in_place ? ", in place" : "");
	if (p->shape->count)
		bb_strbuf_addf(p->out, ", count %zu", p->shape->count);
	if (p->shape->chunk)
		bb_strbuf_addf(p->out, ", chunks of %zu", p->shape->chunk);
	if (collective->flags & BB_ROOTED)
		bb_strbuf_addf(p->out, ", root %d", p->shape->root);
	bb_strbuf_addf(p->out, "\n\nGoal: %s.\n", collective->brief);
	bb_strbuf_add(p->out, "How:\n");
	print_wrapped(p->out, p->algorithm->meaning);
	bb_strbuf_add(p->out, "Names:\n");
	print_names(p);
	if (reduces(p) && many)
		print_wrapped(
			p->out,
			"b2..5 is the sum of element 1 of ranks 2 to 5 (b6..1: from rank 6 on "
			"around the ring to rank 1), b:3 that of any three ranks.");
	else if (reduces(p))
		print_wrapped(p->out, "b0+b2 is the sum of element 1 of ranks 0 and 2.");
	if (reduces(p))
		print_wrapped(p->out,
			      "Element i of every IN is the number i, so a is 0, b is 1, c is "
			      "2; what follows = is the sum so far.");
	print_wrapped(p->out, "* marks a final value; . marks an element that is not written yet.");
	if (p->shape->in_place)
		print_wrapped(p->out, "In place: IN and OUT lie in one buffer.");
	if (longest(p, BB_IN) <= CONTENTS_CELLS && p->shape->nranks <= CONTENTS_RANKS) {
		bb_strbuf_add(p->out, "\nBefore\n");
		print_buffer(p, BB_IN, "");
	}
}

/* The least elements that any algorithm sends: all contributions but one to each sum, and every
   result that is needed in more than one place. */
static size_t least_elements(const struct explanation *p)
{
	const struct bb_collective *collective = p->algorithm->collective;
	size_t moved = 0, wanted = 0, sums, n = (size_t)p->shape->nranks;

	for (int rank = 0; rank < p->shape->nranks; rank++) {
		for (int k = 0; k < collective->segments(p->shape, rank); k++) {
			struct bb_segment segment;

			collective->segment(p->shape, rank, k, &segment);
			if (segment.source == BB_REDUCED)
				wanted += segment.count;
			else if (segment.source != rank)
				moved += segment.count;
		}
	}
	sums = collective->flags & BB_SAME_OUTPUT ? wanted / n : wanted;
	return moved + sums * (n - 1) + wanted - sums;
}

static int least_rounds(const struct explanation *p)
{
	int rounds = 0;

	if (p->algorithm->collective == &bb_sendrecv)
		return p->shape->nranks > 1;
	while (1 << rounds < p->shape->nranks)
		rounds++;
	return rounds;
}

static void print_result(const struct explanation *p)
{
	bb_strbuf_add(p->out, "\nResult as numbers\n");
	for (int rank = 0; rank < p->shape->nranks; rank++) {
		const struct bb_symbols *s = &p->symbols[rank];

		if (!s->count[BB_OUT])
			continue;
		bb_strbuf_addf(p->out, "  rank %2d:", rank);
		for (size_t i = 0; i < s->count[BB_OUT]; i++) {
			const struct bb_symbol *cell =
				bb_symbols_at(s, (struct bb_place){BB_OUT, i});

			bb_strbuf_addf(
				p->out, " %llu",
				(unsigned long long)cell->index *
					(unsigned long long)__builtin_popcountll(cell->ranks));
		}
		bb_strbuf_add(p->out, "\n");
	}
}

static void print_end(const struct explanation *p)
{
	size_t rounds, wire;
	double cost = bb_algorithm_cost(p->algorithm, p->shape, &rounds, &wire);

	if (reduces(p) && longest(p, BB_OUT) <= CONTENTS_CELLS &&
	    p->shape->nranks <= CONTENTS_RANKS)
		print_result(p);
	bb_strbuf_add(p->out, "\nTotal\n");
	bb_strbuf_addf(p->out, "  %-22s %8zu   minimum %d if a rank sends once a round\n", "rounds",
		       rounds, least_rounds(p));
	bb_strbuf_addf(p->out, "  %-22s %8zu\n", "messages", p->messages);
	bb_strbuf_addf(p->out, "  %-22s %8zu   minimum %zu\n", "elements sent", p->elements,
		       least_elements(p));
	bb_strbuf_addf(p->out, "  %-22s %8zu   by the busiest rank\n", "", wire);
	bb_strbuf_addf(p->out,
		       "  %-22s %8.1f   in elements copied; receiving and adding counts 1.5\n",
		       "memory traffic", cost);
}

static bb_status explanation_open(struct explanation *p)
{
	size_t n = (size_t)p->shape->nranks;

	p->symbols = calloc(n, sizeof(*p->symbols));
	p->roles = calloc(n, sizeof(*p->roles));
	p->steps = calloc(n, sizeof(*p->steps));
	p->nsteps = calloc(n, sizeof(*p->nsteps));
	if (!p->symbols || !p->roles || !p->steps || !p->nsteps)
		return BB_EINTERNAL;
	for (int rank = 0; rank < p->shape->nranks; rank++) {
		bb_algorithm_prepare(p->algorithm, p->shape, rank, &p->roles[rank]);
		if (bb_symbols_make(&p->symbols[rank], p->algorithm, p->shape, rank) != BB_OK)
			return BB_EINTERNAL;
	}
	return BB_OK;
}

static void explanation_close(struct explanation *p)
{
	for (int rank = 0; p->symbols && rank < p->shape->nranks; rank++)
		bb_symbols_free(&p->symbols[rank]);
	free(p->symbols);
	free(p->roles);
	free(p->steps);
	free(p->nsteps);
}

bb_status bb_explain(struct bb_strbuf *out, const struct bb_algorithm *algorithm,
		     const struct bb_shape *shape, struct bb_error *error)
{
	struct explanation explanation = {.out = out, .algorithm = algorithm, .shape = shape};
	const char *(*refuses)(int) = algorithm->collective->refuses;
	bb_status st;

	if (shape->nranks < 1 || shape->nranks > BB_CHECKER_RANKS)
		return bb_fail(error, BB_EUSAGE, "--explain supports 1 to %d ranks, not %d",
			       BB_CHECKER_RANKS, shape->nranks);
	if (refuses && refuses(shape->nranks))
		return bb_fail(error, BB_EUNSUPPORTED, "%s", refuses(shape->nranks));
	BB_TRY(st, bb_check_algorithm(algorithm, shape, 16, error), out);
	if (explanation_open(&explanation) != BB_OK) {
		st = bb_no_memory(error, "the explanation of a schedule");
		goto down;
	}
	print_intro(&explanation);
	for (size_t round = 0; round < explanation.roles[0].rounds; round++)
		explain_round(&explanation, round);
	print_end(&explanation);
	if (bb_strbuf_failed(out))
		st = bb_no_memory(error, "the explanation of a schedule");
down:
	explanation_close(&explanation);
out:
	return st;
}

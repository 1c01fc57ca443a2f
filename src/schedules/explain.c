/*
 * explain.c - runs a schedule, and prints it round by round: its messages and what every rank then
 * holds.
 */
#include "schedules/explain.h"
#include "core/array.h"
#include "core/table.h"
#include "core/units.h"
#include "schedules/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 16          /* outstanding messages of a pair */
#define NAME_COLUMNS 13   /* "rank 12's OUT" */
#define CONTENTS_RANKS 16 /* contents are shown up to here … */
#define CONTENTS_CELLS 16 /* … and for buffers of so many elements */
#define CELL (BB_SYMBOL_TEXT + 2)
#define CONTENT_COLUMNS 28
#define GOAL_TEXT 128

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
		BB_TRY(st, bb_no_memory(error, "the explanation of a schedule"), out);
	for (; bb_trace_begin(p); p->round++)
		for (int i = 0; i < p->n; i++) {
			const bool sends = p->messages[i].from != p->messages[i].to;

			p->sent += sends;
			p->elements += sends ? p->messages[i].send.count : 0;
		}
	p->round = 0;
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

static const char *trace_buffer(enum bb_buffer buffer)
{
	static const char *const names[] = {[BB_IN] = "IN", [BB_OUT] = "OUT", [BB_TMP] = "TMP"};

	return names[buffer];
}

void bb_trace_place_text(char text[BB_PLACE_TEXT], struct bb_place place, size_t count)
{
	const char *name = trace_buffer(place.buffer);

	if (count == 1)
		snprintf(text, BB_PLACE_TEXT, "%s[%zu]", name, place.offset);
	else
		snprintf(text, BB_PLACE_TEXT, "%s[%zu..%zu]", name, place.offset,
			 place.offset + count - 1);
}

/* "c0+c3=4", the sum of element 2 of ranks 0 and 3; "." before it is written. */
static void trace_symbol_text(char text[BB_SYMBOL_TEXT], const struct bb_trace *p,
			      const struct bb_symbol *s)
{
	const int n = p->check.shape->nranks, terms = __builtin_popcountll(s->ranks);
	/* The first ranks of runs around the ring, and that of a single one. */
	const uint64_t firsts = s->ranks & ~(s->ranks << 1 | s->ranks >> (n - 1));
	const int start = firsts ? __builtin_ctzll(firsts) : 0;
	const bool one_run = !(firsts & (firsts - 1));
	char element[16]; /* its letter; beyond z its number */
	int length = 0;

	if (s->index < 26)
		snprintf(element, sizeof(element), "%c", 'a' + (int)s->index);
	else
		snprintf(element, sizeof(element), "(%u)", s->index);
	/* "c0+c1+c3"; with more than four ranks "c0..3" if they are consecutive, else "c:3". */
	if (!s->ranks)
		snprintf(text, BB_SYMBOL_TEXT, ".");
	else if (n > 4 && terms > 1 && !one_run)
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

	trace_symbol_text(first, p, &content[0]);
	trace_symbol_text(last, p, &content[count - 1]);
	text[0] = '\0';
	for (size_t i = 0; i < count && length <= columns; i++) {
		char one[BB_SYMBOL_TEXT];

		trace_symbol_text(one, p, &content[i]);
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

/* ---- the explanation ------------------------------------------------------------------- */

/* What is said first, holds before, happens, follows from it, and how to see what does not fit. */
enum part { INTRO, BEFORE, BODY, END, NOTE, PARTS };

struct explanation {
	struct bb_trace trace;
	const struct bb_explain_view *view;
	int n, width;      /* ranks; columns of a line */
	bool reduces;      /* the collective does */
	size_t longest[3]; /* elements of IN, OUT and TMP of the rank that has most */
	struct bb_strbuf parts[PARTS];
	size_t *pieces; /* ends of pieces of BODY that are not to be cut */
	size_t npieces, piece_room;
};

static const struct bb_symbols *symbols_of(const struct explanation *p, int rank)
{
	return &p->trace.check.ranks[rank].symbols;
}

static void end_piece(struct explanation *p)
{
	if (!BB_ARRAY_PUT(p->pieces, p->npieces, p->piece_room, p->parts[BODY].length))
		p->parts[BODY].failed = true;
}

/* ---- what is sent -------------------------------------------------------------------- */

static void print_messages(struct explanation *p)
{
	static const struct bb_table_head heads[] = {{"from -> to", "", -1},
						     {"sends", "", -1},
						     {"which is", "", -1},
						     {"the receiver does", "", -1},
						     {NULL, NULL, 0}};
	struct bb_text_table table = {.limit = p->width};

	bb_table_columns(&table, heads, 1);
	for (int i = 0; i < p->trace.n; i++) {
		const struct bb_trace_message *m = &p->trace.messages[i];
		char place[BB_PLACE_TEXT], content[BB_CONTENT_TEXT], effect[BB_CONTENT_TEXT];

		bb_trace_place_text(place, m->send.src, m->send.count);
		bb_trace_content_text(content, &p->trace, m, CONTENT_COLUMNS);
		bb_trace_effect_text(effect, m);
		if (m->to == m->from)
			bb_table_cellf(&table, "%4d -> itself", m->from);
		else
			bb_table_cellf(&table, "%4d -> %d", m->from, m->to);
		bb_table_cellf(&table, "%s\t%s\t%s", place, content, effect);
	}
	bb_strbuf_addf(&p->parts[BODY], "\nRound %zu of %zu\n", p->trace.round + 1,
		       p->trace.rounds);
	if (p->trace.n == 0)
		bb_strbuf_add(&p->parts[BODY], "  no message\n");
	else
		bb_table_print(&table, &p->parts[BODY]);
	bb_table_free(&table);
	end_piece(p);
}

/* ---- what every rank holds ----------------------------------------------------------- */

/* An asterisk marks the final value of an element of OUT. */
static void cell_text(char text[CELL], const struct explanation *p, int rank, enum bb_buffer buffer,
		      size_t i)
{
	const struct bb_collective *collective = p->trace.check.algorithm->collective;
	const struct bb_shape *shape = p->trace.check.shape;
	const struct bb_symbol *s =
		bb_symbols_at(symbols_of(p, rank), (struct bb_place){buffer, i});
	const int segments = buffer == BB_OUT ? bb_collective_segments(collective, shape, rank) : 0;
	char symbol[BB_SYMBOL_TEXT];
	bool final = false;

	for (int k = 0; k < segments && !final; k++) {
		const struct bb_segment segment = bb_collective_segment(collective, shape, rank, k);
		const struct bb_symbol want =
			bb_symbol_expected(&segment, shape->nranks, i - segment.out);

		final = i >= segment.out && i - segment.out < segment.count &&
			s->ranks == want.ranks && s->index == want.index;
	}
	trace_symbol_text(symbol, &p->trace, s);
	snprintf(text, CELL, "%s%s", symbol, final ? "*" : "");
}

static bool is_shown(const struct explanation *p, enum bb_buffer buffer)
{
	const size_t cells = p->longest[buffer];

	return cells > 0 && cells <= CONTENTS_CELLS && p->n <= CONTENTS_RANKS;
}

/* BUFFER of all ranks that have it, in as many columns as fit, below each other. */
static void print_buffer(const struct explanation *p, enum bb_buffer buffer, const char *title,
			 struct bb_strbuf *out)
{
	const size_t cells = p->longest[buffer];
	size_t width = 4, fit;
	char text[CELL];

	if (!is_shown(p, buffer))
		return;
	for (int rank = 0; rank < p->n; rank++)
		for (size_t i = 0; i < symbols_of(p, rank)->count[buffer]; i++) {
			cell_text(text, p, rank, buffer, i);
			width = bb_most(width, strlen(text));
		}
	fit = bb_most(1, ((size_t)p->width - 2 - NAME_COLUMNS) / (width + 1));
	for (size_t first = 0; first < cells; first += fit) {
		const size_t end = bb_least(cells, first + fit);
		struct bb_text_table table = {.limit = p->width};

		bb_table_column(&table, title, "", -NAME_COLUMNS);
		bb_table_key(&table);
		for (size_t i = first; i < end; i++) {
			snprintf(text, sizeof(text), "[%zu]", i);
			bb_table_column(&table, text, "", -1);
		}
		for (int rank = 0; rank < p->n; rank++) {
			const size_t count = symbols_of(p, rank)->count[buffer];

			if (count <= first)
				continue;
			bb_table_cellf(&table, "rank %2d's %s", rank, trace_buffer(buffer));
			for (size_t i = first; i < end; i++) {
				if (i < count)
					cell_text(text, p, rank, buffer, i);
				bb_table_cell(&table, i < count ? text : "");
			}
		}
		bb_table_print(&table, out);
		bb_table_free(&table);
	}
}

/* ---- rounds -------------------------------------------------------------------------- */

static bb_status print_rounds(struct explanation *p)
{
	bb_status st = BB_OK;

	while (st == BB_OK && bb_trace_begin(&p->trace)) {
		/* Rounds in which this shape sends nothing are of interest only by number. */
		const bool viewed = p->view->round == p->trace.round + 1 ||
				    (p->view->round == 0 && p->trace.n > 0);
		const enum bb_buffer first = p->trace.round == 0 ? BB_IN : BB_OUT;

		if (viewed && p->npieces == 0 && is_shown(p, first)) {
			bb_strbuf_add(&p->parts[BEFORE], "\n");
			print_buffer(p, first, "before", &p->parts[BEFORE]);
			if (first == BB_OUT)
				print_buffer(p, BB_TMP, "", &p->parts[BEFORE]);
		}
		if (viewed)
			print_messages(p);
		st = bb_trace_apply(&p->trace);
		if (!viewed)
			continue;
		print_buffer(p, BB_OUT, "then", &p->parts[BODY]);
		print_buffer(p, BB_TMP, "", &p->parts[BODY]);
		end_piece(p);
	}
	return st;
}

/* ---- before and after ---------------------------------------------------------------- */

/* "How: The data …" in lines indented to the second one. */
static void print_item(struct explanation *p, const char *name, const char *text)
{
	bb_strbuf_addf(&p->parts[INTRO], "%s:", name);
	bb_strbuf_wrap(&p->parts[INTRO], text, (int)strlen(name) + 1, 2, p->width - 1);
}

static void print_intro(struct explanation *p)
{
	const struct bb_algorithm *algorithm = p->trace.check.algorithm;
	const struct bb_shape *shape = p->trace.check.shape;
	const int root = shape->root, element = p->longest[BB_IN] > 1;
	const int last = p->n - 1, other = last < 2 ? last : 2;
	const char name = (char)('a' + element);
	struct bb_strbuf text = {0};
	char goal[GOAL_TEXT];

	bb_strbuf_addf(&p->parts[INTRO], "%s by %s, %d rank%s%s", algorithm->collective->name,
		       algorithm->name, shape->nranks, bb_plural(shape->nranks),
		       shape->in_place ? ", in place" : "");
	if (shape->count)
		bb_strbuf_addf(&p->parts[INTRO], ", count %zu", shape->count);
	if (shape->chunk)
		bb_strbuf_addf(&p->parts[INTRO], ", chunks of %zu", shape->chunk);
	if (algorithm->collective->flags & BB_ROOTED)
		bb_strbuf_addf(&p->parts[INTRO], ", root %d", shape->root);
	bb_strbuf_add(&p->parts[INTRO], "\n\n");
	if (p->view->round == 0) {
		snprintf(goal, sizeof(goal), "%s.", algorithm->collective->brief);
		print_item(p, "Goal", goal);
		print_item(p, "How", algorithm->meaning);
	}
	bb_strbuf_addf(&text, "%c%d is element %d of rank %d's IN", name, root, element, root);
	if (p->reduces && last > 3)
		bb_strbuf_addf(&text,
			       ", %c1..3 its sum over ranks 1 to 3, %c%d..1 over ranks %d, 0 and "
			       "1, %c:3 over any three ranks",
			       name, name, last, last, name);
	else if (p->reduces && last > 0)
		bb_strbuf_addf(&text, ", %c0+%c%d its sum over ranks 0 and %d", name, name, other,
			       other);
	bb_strbuf_add(&text, ".");
	if (p->reduces)
		bb_strbuf_add(&text, " Element i of every IN is the number i, so a is 0, b is 1; "
				     "what follows = is the sum so far.");
	bb_strbuf_add(&text, " * marks a final value, . an element that is not written yet.");
	if (p->longest[BB_TMP])
		bb_strbuf_add(&text, " TMP is scratch memory.");
	if (shape->in_place)
		bb_strbuf_add(&text, " In place: IN and OUT lie in one buffer.");
	print_item(p, "Names", bb_strbuf_text(&text));
	p->parts[INTRO].failed |= bb_strbuf_failed(&text);
	bb_strbuf_free(&text);
}

/* Of a reduction the result as numbers, and of all the totals. */
static void print_end(struct explanation *p)
{
	static const struct bb_table_head heads[] = {
		{"total", "", -1}, {"number", "", 1}, {"", "", -1}, {NULL, NULL, 0}};
	struct bb_text_table table = {.limit = p->width};
	size_t rounds, wire;
	double cost =
		bb_algorithm_cost(p->trace.check.algorithm, p->trace.check.shape, &rounds, &wire);

	if (p->reduces && is_shown(p, BB_OUT)) {
		bb_strbuf_add(&p->parts[BODY], "\nResult as numbers\n");
		for (int rank = 0; rank < p->n; rank++) {
			const struct bb_symbol *out =
				bb_symbols_at(symbols_of(p, rank), (struct bb_place){BB_OUT, 0});
			const size_t count = symbols_of(p, rank)->count[BB_OUT];

			if (count > 0)
				bb_strbuf_addf(&p->parts[BODY], "  rank %2d:", rank);
			for (size_t i = 0; i < count; i++)
				bb_strbuf_addf(&p->parts[BODY], " %llu",
					       (unsigned long long)out[i].index *
						       (unsigned long long)__builtin_popcountll(
							       out[i].ranks));
			bb_strbuf_add(&p->parts[BODY], count > 0 ? "\n" : "");
		}
		end_piece(p);
	}
	bb_table_columns(&table, heads, 1);
	bb_table_cellf(&table, "rounds\t%zu\tminimum %d if a rank sends once a round", rounds,
		       bb_trace_least(&p->trace));
	bb_table_cellf(&table, "messages\t%zu\t", p->trace.sent);
	bb_table_cellf(&table, "elements sent\t%zu\tminimum %zu", p->trace.elements,
		       bb_trace_least_elements(&p->trace));
	bb_table_cellf(&table, "busiest rank sends\t%zu\t", wire);
	bb_table_cellf(&table,
		       "memory traffic\t%.1f\tin elements copied; receiving and adding counts 1.5",
		       cost);
	bb_strbuf_add(&p->parts[END], "\n");
	bb_table_print(&table, &p->parts[END]);
	bb_table_free(&table);
}

/* ---- as many lines as requested ------------------------------------------------------ */

static size_t count_lines(const struct bb_strbuf *text, size_t bytes)
{
	size_t lines = 0;

	for (size_t at = 0; at < bytes && at < text->length; at++)
		lines += text->text[at] == '\n';
	return lines;
}

/* Everything, or what fits into the lines: little of the rounds on a terminal of few columns. */
static void print_all(struct explanation *p, struct bb_strbuf *out)
{
	const struct bb_strbuf *const body = &p->parts[BODY];
	struct bb_strbuf text = {0};
	size_t lines[PARTS], always, room, k = 0, bytes = 0;

	bb_strbuf_addf(&text, "More than %d lines: ", BB_EXPLAIN_LINES);
	if (p->view->round == 0)
		bb_strbuf_addf(&text, "--round 1 to %zu shows one round, ", p->trace.rounds);
	bb_strbuf_addf(&text, "--all %severything.", p->view->round ? "shows " : "");
	bb_strbuf_add(&p->parts[NOTE], "\n");
	bb_strbuf_wrap(&p->parts[NOTE], bb_strbuf_text(&text), 0, 0, p->width);
	p->parts[NOTE].failed |= bb_strbuf_failed(&text);
	bb_strbuf_free(&text);
	for (int i = 0; i < PARTS; i++)
		out->failed |= bb_strbuf_failed(&p->parts[i]);
	if (out->failed)
		return;
	for (int i = 0; i < PARTS; i++)
		lines[i] = count_lines(&p->parts[i], SIZE_MAX);
	always = p->view->above + lines[INTRO] + lines[END];
	const bool whole = p->view->all || always + lines[BEFORE] + lines[BODY] <= BB_EXPLAIN_LINES;
	room = whole                                     ? SIZE_MAX
	       : always + lines[NOTE] < BB_EXPLAIN_LINES ? BB_EXPLAIN_LINES - always - lines[NOTE]
							 : 0;
	bb_strbuf_add(out, bb_strbuf_text(&p->parts[INTRO]));
	if (p->npieces > 0 && lines[BEFORE] + count_lines(body, p->pieces[0]) <= room) {
		bb_strbuf_add(out, bb_strbuf_text(&p->parts[BEFORE]));
		room -= lines[BEFORE];
	}
	/* All pieces that fit, or else the first lines. */
	while (k < p->npieces && count_lines(body, p->pieces[k]) <= room)
		k++;
	for (; k == 0 && room > 0 && bytes < body->length; bytes++)
		room -= body->text[bytes] == '\n';
	bb_strbuf_add_bytes(out, bb_strbuf_text(body), k > 0 ? p->pieces[k - 1] : bytes);
	bb_strbuf_add(out, bb_strbuf_text(&p->parts[END]));
	bb_strbuf_add(out, whole ? "" : bb_strbuf_text(&p->parts[NOTE]));
}

bb_status bb_explain(struct bb_strbuf *out, const struct bb_algorithm *algorithm,
		     const struct bb_shape *shape, const struct bb_explain_view *view,
		     struct bb_error *error)
{
	struct explanation p = {.view = view,
				.n = shape->nranks,
				.width = view->width > 0 ? view->width : BB_TABLE_LIMIT,
				.reduces = algorithm->collective->flags & BB_REDUCES};
	bb_status st;

	BB_TRY(st, bb_trace_open(&p.trace, algorithm, shape, error), out);
	for (int i = 0; i < 3 * p.n; i++)
		p.longest[i % 3] = bb_most(p.longest[i % 3], symbols_of(&p, i / 3)->count[i % 3]);
	print_intro(&p);
	BB_TRY(st, print_rounds(&p), out);
	if (view->round == 0)
		print_end(&p);
	print_all(&p, out);
	if (bb_strbuf_failed(out))
		st = bb_no_memory(error, "the explanation of a schedule");
out:
	bb_trace_close(&p.trace);
	for (int i = 0; i < PARTS; i++)
		bb_strbuf_free(&p.parts[i]);
	free(p.pieces);
	return st;
}

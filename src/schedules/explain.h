/*
 * explain.h - a schedule run round by round on symbols: its messages and what every rank holds, as
 * data (bb_trace) and as text (bb_explain).
 *
 *   BB_TRY(st, bb_trace_open(&r, algorithm, &shape, error), out);
 *   while (bb_trace_begin(&r)) {
 *           … r.messages[0 to r.n - 1] …
 *           BB_TRY(st, bb_trace_apply(&r), out);
 *   }
 *   bb_trace_close(&r);
 */
#pragma once

#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/checker.h"
#include "schedules/schedule.h"

#define BB_PLACE_TEXT 48
#define BB_SYMBOL_TEXT 80   /* of one element; 64 ranks take less */
#define BB_CONTENT_TEXT 240 /* of a message; effects of receiving it are as long */

/* A message of a round, or a copy within one rank (FROM is TO). */
struct bb_trace_message {
	int from, to;
	struct bb_step send, receipt; /* the receiver's step; of a copy both are the copy */
};

struct bb_trace {
	struct bb_check check;             /* the group, as it is before ROUND */
	size_t round, rounds;              /* from 0 */
	struct bb_trace_message *messages; /* of this round, ordered by sender */
	int n;
	size_t sent, elements; /* of all rounds: messages and what they move */
};

/*
 * Prepare TRACE to begin with the first round; SHAPE is borrowed. Close it whatever comes back.
 * BB_EUSAGE: too many ranks; BB_EUNSUPPORTED: the collective does not exist for so many; BB_EDATA:
 * the checker refutes the algorithm; BB_EINTERNAL: out of memory.
 */
BB_MUST bb_status bb_trace_open(struct bb_trace *trace, const struct bb_algorithm *algorithm,
				const struct bb_shape *shape, struct bb_error *error);
void bb_trace_close(struct bb_trace *trace);

/* Find the messages of the round. Returns false after the last one. */
bool bb_trace_begin(struct bb_trace *trace);
/* Perform the round and go on to the next one. BB_EDATA: the schedule is wrong; BB_EINTERNAL: out
   of memory. */
BB_MUST bb_status bb_trace_apply(struct bb_trace *trace);

/* SEND's count symbols, as they are before the round. */
static inline const struct bb_symbol *bb_trace_content(const struct bb_trace *trace,
						       const struct bb_trace_message *message)
{
	return bb_symbols_at(&trace->check.ranks[message->from].symbols, message->send.src);
}

/* The rounds and the elements sent that no algorithm can undercut: all contributions but one to
   each sum, and every result that is needed in more than one place. */
int bb_trace_least(const struct bb_trace *trace);
size_t bb_trace_least_elements(const struct bb_trace *trace);

/* "OUT[3]", "IN[4..7]" */
void bb_trace_place_text(char text[BB_PLACE_TEXT], struct bb_place place, size_t count);
/* The elements of the message, or the first and last ones that fit into COLUMNS, at most 80, unless
   a single one is longer. */
void bb_trace_content_text(char text[BB_CONTENT_TEXT], const struct bb_trace *trace,
			   const struct bb_trace_message *message, size_t columns);
/* "OUT[2] = IN[2] + received" */
void bb_trace_effect_text(char text[BB_CONTENT_TEXT], const struct bb_trace_message *message);

#define BB_EXPLAIN_LINES 40

/* What of a schedule is printed. Zero: its beginning, in at most BB_EXPLAIN_LINES lines of 80
   columns. */
struct bb_explain_view {
	size_t round; /* this round alone, from 1; 0: from the first on */
	bool all;     /* however many lines it takes */
	int width;    /* columns of a line; 0: 80 */
	size_t above; /* lines that are printed already, and count */
};

/*
 * Append to OUT what VIEW requests of: the goal of the collective, the idea of the algorithm, for
 * each round the messages and what every rank holds afterwards, and at the end the numbers of
 * rounds, messages and elements with their minimum. In reducing collectives element i of every IN
 * is the number i, so that sums can be checked by head (reduce-scatter of four ranks that each hold
 * [0, 1, 2, 3] ends in 0, 4, 8, 12). A round that the algorithm does not have is empty. BB_EUSAGE:
 * too many ranks; BB_EUNSUPPORTED: the collective does not exist for so many; BB_EDATA: the checker
 * refutes the algorithm; BB_EINTERNAL: out of memory.
 */
BB_MUST bb_status bb_explain(struct bb_strbuf *out, const struct bb_algorithm *algorithm,
			     const struct bb_shape *shape, const struct bb_explain_view *view,
			     struct bb_error *error);

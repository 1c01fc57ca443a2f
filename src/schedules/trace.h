/*
 * trace.h - a schedule run round by round on symbols: its messages, and what every rank holds.
 *
 *   BB_TRY(st, bb_trace_open(&r, algorithm, &shape, error), out);
 *   while (bb_trace_begin(&r)) {
 *           … r.messages[0 to r.n - 1] …
 *           BB_TRY(st, bb_trace_apply(&r), out);
 *   }
 *   bb_trace_close(&r);
 */
#ifndef BB_SCHEDULES_TRACE_H
#define BB_SCHEDULES_TRACE_H

#include "core/status.h"
#include "schedules/checker.h"

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
	size_t sent, elements; /* up to this round */
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

/* ---- as text --------------------------------------------------------------------------- */

/* "OUT" */
const char *bb_trace_buffer(enum bb_buffer buffer);
/* "OUT[3]", "IN[4..7]" */
void bb_trace_place_text(char text[BB_PLACE_TEXT], struct bb_place place, size_t count);
/* "c0+c3=4", the sum of element 2 of ranks 0 and 3; "." before it is written. */
void bb_trace_symbol_text(char text[BB_SYMBOL_TEXT], const struct bb_trace *trace,
			  const struct bb_symbol *symbol);
/* The elements of the message, or the first and last ones that fit into COLUMNS, at most 80, unless
   a single one is longer. */
void bb_trace_content_text(char text[BB_CONTENT_TEXT], const struct bb_trace *trace,
			   const struct bb_trace_message *message, size_t columns);
/* "OUT[2] = IN[2] + received" */
void bb_trace_effect_text(char text[BB_CONTENT_TEXT], const struct bb_trace_message *message);

#endif

/*
 * explain.h - prints a schedule step by step.
 */
#ifndef BB_SCHEDULES_EXPLAIN_H
#define BB_SCHEDULES_EXPLAIN_H

#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"

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

#endif

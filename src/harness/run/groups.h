/*
 * groups.h - the groups of a split world, each with a result of its own. On process 0.
 */
#ifndef BB_HARNESS_RUN_GROUPS_H
#define BB_HARNESS_RUN_GROUPS_H

#include "core/status.h"
#include "core/strbuf.h"
#include "harness/results/record.h"

struct bb_groups; /* who is in which group, and the results so far */

/* What one rank contributes. */
struct bb_group_part {
	double seconds;     /* of one operation */
	double busbw_bytes; /* of its group: busbw is these by the time */
};

/* INFOS is borrowed for good. *GROUPS is NULL for a world of one group. BB_EINTERNAL without
   memory. */
BB_MUST bb_status bb_groups_open(struct bb_groups **groups, const struct bb_rank_infos *infos);
void bb_groups_close(struct bb_groups *groups); /* NULL: nothing */

/*
 * The worst group is that which is furthest behind the median of the groups of its own size: others
 * do other work. From what each rank contributed (by rank), every group's time, over its ranks by
 * REDUCE, and busbw go into RESULT, which borrows them until the next call; they are kept for the
 * text. GROUPS NULL: nothing. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_groups_add(struct bb_groups *groups, const struct bb_group_part *parts,
				double (*reduce)(const double *seconds, int n, int64_t how),
				int64_t how, struct bb_result_record *result);

/* Append '#' lines: each result's groups side by side, and which group is behind. */
void bb_groups_text(const struct bb_groups *groups, struct bb_strbuf *out);

#endif

/*
 * groups.h - results of the groups of a split world, on process 0.
 */
#ifndef BB_COLLECTIVES_GROUPS_H
#define BB_COLLECTIVES_GROUPS_H

#include "core/status.h"
#include "core/strbuf.h"
#include "collectives/result.h"
#include "harness/results/record.h"

struct bb_groups; /* the members of each group, and the results so far */

/* The contribution of one rank. */
struct bb_group_part {
	double seconds;     /* of one operation */
	double busbw_bytes; /* of its group: busbw times its time */
};

/* *GROUPS = those of INFOS, which must last as long; NULL: there is only one. BB_EINTERNAL without
   memory. */
BB_MUST bb_status bb_groups_open(struct bb_groups **groups, const struct bb_rank_infos *infos);
void bb_groups_close(struct bb_groups *groups); /* NULL: nothing */

/*
 * Compute each group's time, by REDUCE over its ranks' PARTS (indexed by rank), and its busbw.
 * RESULT borrows them until the next call, and the text gets them too. The worst group is the one
 * furthest behind the median of the groups of its own size. GROUPS NULL: nothing. BB_EINTERNAL
 * without memory.
 */
BB_MUST bb_status bb_groups_add(struct bb_groups *groups, const struct bb_group_part *parts,
				double (*reduce)(const double *seconds, int n, int64_t how),
				int64_t how, struct bb_result_record *result);

/* Append '#' lines: each result's groups side by side, and the worst group. GROUPS NULL: nothing.
 */
void bb_groups_text(const struct bb_groups *groups, struct bb_strbuf *out);

#endif

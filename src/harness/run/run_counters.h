/*
 * run_counters.h - what the hosts of a run counted while it ran: one process of each host reads,
 * process 0 writes what moved. Nothing fails because a counter cannot be read.
 */
#ifndef BB_HARNESS_RUN_RUN_COUNTERS_H
#define BB_HARNESS_RUN_RUN_COUNTERS_H

#include "core/strbuf.h"
#include "harness/results/record.h"
#include "topology/probes/counters.h"

#define BB_RUN_MOVES 24 /* of a host at most, the gravest first */

struct bb_run;

struct bb_run_counters { /* zero-initialise */
	struct bb_counters before;
	struct bb_counter_move *moves; /* process 0: BB_RUN_MOVES of each process; unused: zeroed */
	int nprocs;                    /* whose moves there are */
};

struct bb_counter_record {
	const char *host, *device, *counter, *class;
	int64_t before, after, moved;
	bool matters;
};

extern const struct bb_record_kind bb_record_counter;

/* In every process, before the drivers. Nothing where time is virtual or nothing is done. */
void bb_run_counters_begin(struct bb_run *run);
/* Collective over the processes, after drivers that came to their end. */
BB_MUST bb_status bb_run_counters_gather(struct bb_run *run);
/* Process 0: a record for each counter that moved, and '#' lines about those that matter. Without
   gather, those of its own host. */
void bb_run_counters_tell(struct bb_run *run, struct bb_strbuf *text);
void bb_run_counters_end(struct bb_run *run);

#endif

/*
 * run_counters.h - counters of the hosts that moved during a run. One process of each host reads
 * them, process 0 reports them. A counter that cannot be read is no failure.
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
	int nprocs;                    /* processes whose moves are known */
};

#define BB_COUNTER_FIELDS(FIELD)                                                                   \
	FIELD(STRING, host, "", "whose counter it is")                                             \
	FIELD(STRING, device, "",                                                                  \
	      "eth0; mlx5_0:1: port 1 of mlx5_0; tcp and cpu: of the whole host")                  \
	FIELD(STRING, counter, "",                                                                 \
	      "the kernel's or the driver's name of it; least_MHz and mean_MHz: over processors")  \
	FIELD(STRING, class, "",                                                                   \
	      "link down, symbol error, error, discard, retransmit, frequency, or traffic, which " \
	      "others are a share of")                                                             \
	FIELD(INT, before, "", "its value before the drivers started")                             \
	FIELD(INT, after, "", "its value after they ended")                                        \
	FIELD(INT, moved, "", "after - before, whoever caused it; below 0: something reset it")    \
	FIELD(BOOL, matters, "",                                                                   \
	      "the text names it: a link went down, a symbol error, or, of a run on several "      \
	      "hosts, an error, 100 discards or retransmits, of TCP at least 0.1% of the "         \
	      "segments sent")

struct bb_counter_record {
	BB_COUNTER_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_counter;

/* Read the counters, in every process before its drivers; nothing if the backend moves no data. */
void bb_run_counters_begin(struct bb_run *run);
/* Gather the moves at process 0 after the drivers. Collective over the processes. */
BB_MUST bb_status bb_run_counters_gather(struct bb_run *run);
/* Process 0: deliver a record for each counter that moved, and append '#' lines about those that
   matter. Without gather, only those of its own host. */
void bb_run_counters_report(struct bb_run *run, struct bb_strbuf *text);
void bb_run_counters_end(struct bb_run *run);

#endif

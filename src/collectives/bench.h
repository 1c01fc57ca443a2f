/*
 * bench.h - the experiment of a collective, or of barriers: its cases, one after the other.
 *
 *   bench.c       the sequence of cases
 *   measure.c     one case in one placement: fill, warm up, time, verify; the speed of copies
 *   judge.c       a record from what all ranks measured
 *   accuracy.c    with --accuracy: the rounding errors of a case instead
 */
#pragma once

#include "backends/library.h"
#include "collectives/plan.h"
#include "collectives/summary.h"
#include "harness/measure/call.h"
#include "harness/measure/engine.h"

/* The state of a collective's benchmark. All drivers of a process share it, read-only except for
   rank 0's part. */
struct bb_bench {
	struct bb_collective_options settings; /* first: the rows are read into it */
	struct bb_native *own_natives;         /* or NULL */
	struct bb_plan plan;
	bool barriers; /* barrier_perf: out of place alone, and a record of its own for each case */

	/* Used by rank 0. */
	struct bb_results results;
	struct bb_groups *groups; /* NULL: one group */
	int simulated_rank;       /* split world in virtual time: a rank of the simulated group */
	struct bb_accuracy_record *accuracies; /* of the last size, root and cycle */
	size_t naccuracies, accuracy_room;
	double busbw_sum;
};

extern const struct bb_experiment bb_bench_experiment;

/* The `open_results` and `close` of both benchmarks (benchmark.h). */
BB_MUST bb_status bb_bench_open_results(struct bb_run *run);
void bb_bench_close(struct bb_run *run);

/* ---- one rank's run (bench.c, measure.c) ----------------------------------------------- */

#define BB_COPY_SPEEDS 64

/* The measurement of one rank of one case in one placement. */
struct bb_measured {
	double seconds;           /* mean of one timed operation */
	double busbw_bytes;       /* of its group: busbw times its time */
	double cpu_seconds;       /* the same in CPU time: see bb_measure */
	double clock_uncertainty; /* of the arrivals, which are on rank 0's clock */
	double cost_bytes;        /* bytes moved by its group, counted in copies; 0: unknown */
	double faultless;         /* seconds of one operation without the fault; NAN: unknown */
	const char *evaluator;    /* of virtual time; NULL: time is real */
	uint64_t wrong;
	size_t iterations;           /* timed */
	size_t nsamples;             /* samples of these; the same on all ranks */
	char chosen[BB_CHOSEN_TEXT]; /* choice reported by the library; empty: none */
	unsigned throttled;          /* 1 << enum bb_gpu_throttle: the rank's GPU was slowed down */
};

/* A driver's state through all cases. */
struct bb_session {
	struct bb_engine engine;
	struct bb_bench *bench;
	const struct bb_collective_options *settings; /* of the bench */
	struct bb_group *group; /* the world itself, or this rank's part of a split world */
	int me;                 /* rank in the group */
	int n;                  /* ranks of the group */
	int *members;           /* [rank in the group] */
	bool copies;            /* takes part in measuring the copy speed: one rank per device */
	struct bb_arena arena;
	size_t cache;                       /* of the GPU that has most; 0: no rank is a GPU */
	size_t *matrix;                     /* alltoallv: n * n counts */
	const struct bb_patterns *patterns; /* from the run's store; NULL: there is no data */
	size_t most_samples;
	/* For each sample: seconds of an operation, and when its first one was entered, on rank 0's
	   clock in the end; NAN: unknown. */
	double *samples, *arrivals; /* in one piece */
	struct bb_event **events;   /* with -I on a queue that runs beside the driver; else NULL */
	size_t nevents;
	double clock_seconds; /* time that one reading of the clock takes */
	struct {
		size_t bytes;
		double rate; /* of all devices together, bytes per second */
	} copy_speed[BB_COPY_SPEEDS];
	int ncopy_speeds;
	/* On rank 0: the last case whose stand-in was reported, and the last matrix. */
	const struct bb_case *reported;
	int reported_matrix;
	bool told_throttled;    /* the slowing of a GPU was reported */
	bool told_unregistered; /* the failure of -R was reported */
	int64_t cycle;

	/* The case that is being measured, in one placement. */
	const struct bb_case *c;
	struct bb_call call; /* settled, but without buffers */
	struct bb_layout layout;
	struct bb_measured measured;

	/* measure.c's own. */
	struct bb_call calls[BB_MOST_SETS]; /* the call on each set, made ahead of time */
	int pristine;                       /* the set of the verified iteration */
	int rotates;                        /* sets that the other iterations move through */
	/* There is only one set: it is refilled, and the last iteration timed alone. */
	bool refills;
	/* The main queue runs beside the driver, and no option waits for each iteration. */
	bool runs_ahead;
	/* The samples that are being taken: COUNT iterations in spans of SPAN, each of TIMES
	   operations. If they END the measurement, the last one runs on the pristine set. */
	size_t count, span;
	int64_t times;
	bool ends;
	int64_t sample; /* number of the next one */
	/* Captured iterations: a sample is LAUNCHES of the first graph, then one of the second
	   (NULL: none). */
	struct bb_graph *graphs[2];
	int64_t launches;
	double cpu, issued; /* CPU time at its begin; when it was issued */
	double operations;  /* timed */
};

/* R = what is known of a result of the case before it is run; all else is absent. */
void bb_bench_describe_case(const struct bb_session *session, struct bb_result_record *r);

/*
 * Measure the case. Collective over the world. With -C, cpu_seconds is the CPU time that the
 * driver's thread spends in the calls; on a GPU, as in nccl-tests, the time until all calls are
 * issued.
 */
BB_MUST bb_status bb_measure(struct bb_session *s);

/* Call the case once on set 0, untimed, with inputs IN; all ranks are done when it returns.
   Collective over the world. */
BB_MUST bb_status bb_measure_once(struct bb_session *s, const void *in);

/* *RATE = bytes per second of private copies of BYTES by all devices at once. Each of the first
   BB_COPY_SPEEDS sizes is measured once. Overwrites the arena, whose content does not matter
   between two measurements. Collective over the world. */
BB_MUST bb_status bb_measure_copy(struct bb_session *s, size_t bytes, double *rate);

/* ---- results (judge.c) ----------------------------------------------------------------- */

/*
 * Gather what all ranks measured; on rank 0 make the record, deliver it and add it to the sums. If
 * OBJECTION is not empty afterwards, the same on all ranks, there is no record: the measurement is
 * not one of the requested algorithm. Collective over the world.
 */
BB_MUST bb_status bb_judge(struct bb_session *s, char objection[BB_OBJECTION_TEXT]);

/* ---- rounding errors (accuracy.c) ----------------------------------------------------------- */

/*
 * Examine the case's errors: of a call, if the backend moves data, and of the algorithm's steps
 * among --accuracy-ranks; rank 0 delivers the rows. OBJECTION = why there are none. Collective over
 * the world.
 */
BB_MUST bb_status bb_accuracy(struct bb_session *s, char objection[BB_OBJECTION_TEXT]);
/* Append '#' lines: for each datatype the errors among the most ranks. */
void bb_accuracy_text(const struct bb_bench *bench, struct bb_strbuf *out);

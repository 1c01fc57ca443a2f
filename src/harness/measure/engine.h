/*
 * engine.h - the timed loops: of samples and of trials. An experiment is a plan of trials; the
 * engine runs them.
 *
 * A benchmark supplies its trials, the expectation of their data, and a function from measured
 * trials to records. The engine owns the world, memory, warm-up, barriers, clocks, deadlines,
 * faults, progress, precision, agreement between ranks, verification and statistics.
 */
#pragma once

#include "core/stats.h"
#include "harness/measure/runner.h"

#define BB_ENGINE_ROUNDS 5
#define BB_ENGINE_MOST_ROUNDS 100 /* with --precision */
#define BB_MOST_VICTIMS 12

struct bb_engine;

/* What every driver does. Each function gets the driver's state, which begins with a struct
   bb_engine. */
struct bb_experiment {
	size_t bytes; /* of a driver's state, which is zeroed at first */
	/* Runs before the ranks exchange their locations. NULL: nothing. Collective. */
	bb_status (*before)(struct bb_engine *engine);
	/* Returns the number of RANK's group. NULL: all ranks are in one. */
	int (*group_of)(const struct bb_run *run, int rank);
	/* Allocates memory and adds trials, or leaves them to RUN. The locations of all ranks are
	   known; rank 0 has printed nothing yet. NULL: nothing. Collective. */
	bb_status (*open)(struct bb_engine *engine);
	/* Measures everything. NULL: bb_engine_measure of all trials. Collective. */
	bb_status (*run)(struct bb_engine *engine);
	/* Gives every rank the results of the others. NULL: nothing. Collective. */
	bb_status (*gather)(struct bb_engine *engine);
	/* Rank 0: delivers the records. NULL: RUN has delivered them. */
	bb_status (*deliver)(struct bb_engine *engine);
	/* Frees what the state holds, except memory and trials of the engine; also after
	   a failed open. Unless engine->all_done, others may still use what this rank shared. NULL:
	   nothing. */
	void (*close)(struct bb_engine *engine);
};

/* The data that a trial must produce. Each function gets the trial's workload.own. */
struct bb_expectation {
	/* Writes known inputs, and outputs that differ from the result, before the verified step.
	   The engine waits for the rank's main queue behind it. NULL: the data is known anyway.
	   Collective. */
	bb_status (*fill)(void *own);
	/* Writes addresses of bytes that VERIFY checks, for --fault corrupt; returns how many. */
	int (*victims)(void *own, void *victims[BB_MOST_VICTIMS]);
	/* Adds the wrong elements of this rank to *WRONG. */
	bb_status (*verify)(void *own, uint64_t *wrong);
};

/* The order in which the steps of trials are timed. */
enum bb_timing {
	/* A few steps, then a few of the next trial, round after round, so that a disturbance of
	   the machine does not hit one trial alone. -n steps in all after -w; with --precision
	   until all medians are that precise or --max-time is over, but at least one round. */
	BB_TIMING_INTERLEAVED,
	/* All steps one after another, each of them watched. */
	BB_TIMING_STEPS
};

/* One program, and on every rank its result. */
struct bb_trial {
	struct bb_workload workload;
	char what[BB_WHAT_TEXT]; /* its name for progress and deadlines */
	enum bb_timing timing;
	size_t steps, warm; /* of BB_TIMING_STEPS; 0 steps: -n of them after -w */
	/* Called on all ranks with workload.own when the trial is first prepared, to read its
	   algorithms. NULL: nothing. */
	bb_status (*opened)(void *own, struct bb_runner *runner);
	/* Watches the last timed step of each round, or with BB_TIMING_STEPS all of them. Its
	   `done` may be NULL. */
	struct bb_timeline_watch watch;
	/* Called with workload.own after each timed step of BB_TIMING_STEPS, number STEP. NULL:
	   nothing. */
	void (*stepped)(void *own, size_t step);
	/* Verified after the last timed step of the first round, unless -c is 0 or the backend
	   moves no data. NULL: the data is not verified. */
	const struct bb_expectation *expects;
	bool optional; /* if it cannot run, bb_engine_measure does not fail */

	char *refusal;   /* why it cannot run here; NULL: it can */
	double *samples; /* seconds of each step, until the last rank is done */
	size_t n;
	struct bb_stats stats; /* of the samples */
	int64_t wrong;         /* elements, of all ranks; BB_ABSENT: not verified */
};

/* A driver's state; the states of benchmarks begin with it. */
struct bb_engine {
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_options *options; /* of the run */
	const struct bb_backend *backend;
	struct bb_rank *rank; /* the backend's, of this driver */
	struct bb_group *world;
	struct bb_trial *trials; /* in the order in which they were added */
	size_t ntrials;
	double copy_rate; /* bytes per second of private copies, for the run record; NAN: unknown */

	bool all_done; /* all ranks have reached the end */

	/* The engine's own. */
	size_t most_trials, measured;
	struct bb_engine_memory *memory;
};

/* Run the experiment of RUN: the `drive` of each driver (see bb_drivers_config). */
bb_status bb_engine_drive(struct bb_driver *driver, void *run);

/* True on the driver of rank 0, which alone writes. */
static inline bool bb_engine_leads(const struct bb_engine *engine)
{
	return bb_driver_leads(engine->driver);
}

/* True if time is virtual, so that this driver stands for all ranks. */
static inline bool bb_engine_is_virtual(const struct bb_engine *engine)
{
	return engine->backend->virtual;
}

/* True if data is moved and verified. */
static inline bool bb_engine_checks(const struct bb_engine *engine)
{
	return engine->backend->has_data && engine->run->options.check > 0;
}

/* Returns the samples in ROUND, from 0 on: every ROUNDS rounds have N samples together. */
static inline size_t bb_engine_samples_of(int64_t n, int rounds, int round)
{
	const int64_t r = round % rounds;

	return (size_t)(n * (r + 1) / rounds - n * r / rounds);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Add a copy of TRIAL, with REASON if it cannot run (NULL: it may). What the trial points to must
   last until it is measured. */
BB_MUST bb_status bb_engine_add(struct bb_engine *engine, const struct bb_trial *trial,
				const char *reason);

/*
 * Measure all trials that were added since the last call. BB_EUNSUPPORTED with the reason of the
 * first if none of them can run, unless one is optional. Collective: the plans are the same on all
 * ranks.
 */
BB_MUST bb_status bb_engine_measure(struct bb_engine *engine);

/* BB_EUNSUPPORTED with the reason unless trial INDEX can run. */
BB_MUST bb_status bb_engine_require(struct bb_engine *engine, size_t index);

/* Remove all trials, before another part of the experiment. */
void bb_engine_clear(struct bb_engine *engine);

/* ---- memory and data ------------------------------------------------------------------------- */

/*
 * *MEMORY = BYTES of this rank; where time is virtual NULL. Counted among the user's buffers, and
 * released when all ranks are done, or by bb_engine_release once no rank reaches it any more.
 */
BB_MUST bb_status bb_engine_alloc(struct bb_engine *engine, size_t bytes, void **memory);
void bb_engine_release(struct bb_engine *engine, void *memory); /* NULL: nothing */

/* *PATTERNS = known data of NRANKS ranks, of DTYPE reduced by OP (-1: not reduced), until the run
   ends; where time is virtual NULL. */
BB_MUST bb_status bb_engine_patterns(struct bb_engine *engine, enum bb_dtype dtype, int op,
				     int nranks, const struct bb_patterns **patterns);

/* MEMORY[0, COUNT) = elements FIRST … of what RANK of PATTERNS holds (BB_REDUCED: of the result).
   MEMORY NULL: nothing. */
BB_MUST bb_status bb_engine_fill(struct bb_engine *engine, void *memory,
				 const struct bb_patterns *patterns, int rank, size_t first,
				 size_t count);
/* *WRONG += elements of MEMORY[0, COUNT) that differ from those by more than bb_patterns_ulps.
   MEMORY NULL: nothing. */
BB_MUST bb_status bb_engine_verify(struct bb_engine *engine, const void *memory,
				   const struct bb_patterns *patterns, int rank, size_t first,
				   size_t count, uint64_t *wrong);

/* With --fault corrupt, flip bits of the byte at VICTIM on the rank that the fault names, as proof
   that the check can fail. NULL: nothing. */
BB_MUST bb_status bb_engine_corrupt(struct bb_engine *engine, void *victim);

/* Replace VALUES[0, n) by their sums over all ranks. Collective. */
BB_MUST bb_status bb_engine_sum(struct bb_engine *engine, uint64_t *values, size_t n);

/* Replace SECONDS[0, n), this rank's own, by the maximum over all ranks. Collective. */
BB_MUST bb_status bb_engine_slowest(struct bb_engine *engine, double *seconds, size_t n);

/* ---- timing outside of trials ----------------------------------------------------- */

/* Begin WHAT: a new deadline and line of progress. With --fault die, the rank that it names returns
   BB_ETIMEOUT: it leaves without a report, as a killed process would. */
BB_MUST bb_status bb_engine_begin(struct bb_engine *engine, const char *what);

/*
 * Operations of this rank, with others or alone, timed sample by sample. Without READY the end of a
 * sample is the begin of the next, so that they add up to the time of the loop.
 */
struct bb_sampling {
	/* Prepares each sample, untimed. NULL: nothing. */
	bb_status (*ready)(void *own);
	/* Runs sample number SAMPLE, from -warm on; negative ones are not timed. */
	bb_status (*operate)(void *own, int64_t sample);
	/* Waits for the sample. NULL: finishes the main queue. */
	bb_status (*finish)(void *own);
	/* Receives when sample number SAMPLE began, and the SECONDS of one of its operations. */
	bb_status (*on_sample)(void *own, int64_t sample, double begin, double seconds);
	void *own;
	int64_t warm, samples;
	double operations; /* of a sample */
	/* The device's events that time a sample; NULL: the clock. */
	struct bb_event *events[2];
	bool arrives;   /* --fault slow delays the rank before it begins; else what is timed */
	bool faultless; /* --fault slow delays nothing */
};

/*
 * Run the samples, warm-up first: every loop that is timed but that of the steps of a trial, whose
 * runner reads the clock itself. With --fault slow, the rank that it names is delayed at the begin
 * of each sample, for all of its operations; in virtual time the simulator delays it.
 */
BB_MUST bb_status bb_engine_sample(struct bb_engine *engine, const struct bb_sampling *sampling);

/*
 * *NEXT, the most samples to take after DONE (> 0), becomes 0 if every rank is PRECISE
 * (--precision), or --max-time has passed since BEGAN on rank 0's clock. Else it becomes the number
 * that the rest of that time has room for, at most DONE, because later ones may take longer.
 * Collective.
 */
BB_MUST bb_status bb_engine_agree_on_next(struct bb_engine *engine, bool precise, double began,
					  size_t done, size_t *next);

/* Print the '#' line FORMAT in the text, at any time. Rank 0 only. */
BB_MUST bb_status bb_engine_comment(struct bb_engine *engine, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same with '#' LINES, which are freed. */
BB_MUST bb_status bb_engine_comment_lines(struct bb_engine *engine, struct bb_strbuf *lines);
/* The same with LINES that answer the run (bb_run_answer). */
BB_MUST bb_status bb_engine_answer(struct bb_engine *engine, struct bb_strbuf *lines);

/* ---- rank 0's results ------------------------------------------------------------------------ */

/* Give RECORD, of KIND, to the sinks and count it; WRONG as in struct bb_trial. */
BB_MUST bb_status bb_engine_deliver(struct bb_engine *engine, const struct bb_record_kind *kind,
				    const void *record, int64_t wrong);
/* Report what is skipped, and why; the other ranks do nothing. */
BB_MUST bb_status bb_engine_skip(struct bb_engine *engine, const struct bb_skip_record *record);
/* The same for SUBJECT, by ALGORITHM and with elements of DTYPE; NULL: not said. */
BB_MUST bb_status bb_engine_skip_subject(struct bb_engine *engine, const char *subject,
					 const char *algorithm, const char *dtype,
					 const char *reason);

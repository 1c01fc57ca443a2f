/*
 * record.h - results as values.
 *
 * One table of fields per kind of record drives the CSV and JSON-lines sinks and docs/records.md.
 * Units are in the names. A double that is not known is NAN, an integer BB_ABSENT, a string
 * NULL: JSON null and an empty CSV cell.
 */
#ifndef BB_HARNESS_RESULTS_RECORD_H
#define BB_HARNESS_RESULTS_RECORD_H

#include "backends/backend.h"
#include "core/json.h"
#include "core/strbuf.h"

#include <math.h>

#define BB_SCHEMA 1 /* raised when a field is renamed or changes its meaning */
#define BB_ABSENT INT64_MIN
#define BB_RUN_ID_TEXT 33
#define BB_TIME_TEXT 32

struct bb_numbers {
	const double *values;
	size_t n;
};

struct bb_words {
	char *const *words;
	size_t n;
};

struct bb_rank_info {
	struct bb_location location;
	int group; /* color of its group */
};

struct bb_rank_infos {
	const struct bb_rank_info *ranks;
	size_t n;
};

#define BB_NETWORK_TEXT 256

/* Once, first. What is needed to repeat the run; never the environment. */
struct bb_run_record {
	char run_id[BB_RUN_ID_TEXT];
	char start_time[BB_TIME_TEXT]; /* UTC, ISO 8601 */
	const char *program;           /* "all_reduce_perf" */
	const char *version;
	struct bb_words args;
	const char *collective;
	const char *backend;
	const char *backend_reason; /* why it is that one; NULL: it was named */
	const char *library;        /* that moves the bytes, with its version; NULL: none */
	const char *library_p2p;    /* whether it works on a peer's memory; NULL: not told */
	const char *launch;         /* that connects the processes, likewise; NULL: one process */
	const char *host;
	const char *cpu;
	const char *os;
	const char *topology; /* digest of rank 0's host: the same on hosts that are alike */
	int64_t cores;        /* that this process may use */
	int64_t nranks, nprocs;
	int64_t threads, gpus;
	struct bb_rank_infos ranks;
	int64_t min_bytes, max_bytes;
	int64_t step_factor; /* 1: steps of step_bytes */
	int64_t step_bytes;
	int64_t warmup_iters, iters, agg_iters, run_cycles;
	double precision;
	int64_t check;
	int64_t blocking, graph, average, unalign, per_iter_skip;
	bool per_iter_timing, parallel_init, report_cputime, report_timestamps;
	const char *cache;
	int64_t seed;
	const char *algorithms;
	const char *fault; /* --fault as given, or NULL; so too link and split */
	const char *link;
	const char *cluster;
	const char *calibrate;
	char network[BB_NETWORK_TEXT]; /* what that is, in words; empty: none */
	const char *split;
	bool virtual_time;           /* times are computed, not measured */
	double link_noise;           /* fraction; NAN: none */
	double copy_GBps;            /* private memory copy of all ranks together, measured now */
	double clock_uncertainty_us; /* when comparing two ranks' clocks */
	double init_ms;              /* from start until every rank was attached */
	const char *pair_ranks;      /* "0-7,24-31": those whose pairs are measured; NULL: all */
	const char *topology_digest; /* of process 0's machine, NULL where it was not looked at */
};

/* One case in one placement. */
struct bb_result_record {
	const char *collective;
	const char *algorithm_asked;   /* "auto" */
	const char *algorithm;         /* the one that ran */
	const char *library_algorithm; /* what the library says it chose; NULL: not told */
	const char *dtype;
	const char *op; /* "none" where there is no reduction */
	int64_t root;   /* -1: none */
	int64_t nranks;
	int64_t size_bytes;
	int64_t count;
	bool in_place;
	double time_us; /* of one operation, reduced over ranks as -a says */
	double algbw_GBps;
	double busbw_GBps;
	int64_t wrong;        /* wrong elements; BB_ABSENT: not checked */
	int64_t iterations;   /* timed iterations */
	int64_t samples;      /* that they are told in */
	const char *verified; /* "pristine set", "refilled"; NULL: not checked */
	/* Of the samples: the time of an operation, its maximum over the ranks. */
	double min_us, p50_us, p95_us, p99_us, max_us, mean_us, stdev_us, cv_percent;
	double ci_low_us, ci_high_us;
	double busbw_low_GBps, busbw_high_GBps; /* of the interval's ends */
	struct bb_numbers samples_us;           /* each iteration; empty unless -I */
	struct bb_numbers rank_mean_us;         /* mean per rank */
	/* Of a split world, each group by itself; empty otherwise. */
	struct bb_numbers groups; /* their numbers */
	struct bb_numbers group_time_us, group_busbw_GBps;
	int64_t worst_group; /* that furthest behind the median of those of its size */
	/* How far apart the ranks entered an iteration. */
	double skew_p50_us, skew_max_us;
	int64_t last_rank;   /* that entered last most often */
	double last_share;   /* of the iterations, 0 … 1 */
	double last_late_us; /* how late it was after the median rank, on average */
	double clock_uncertainty_us;
	/* The least time that the bytes of this algorithm can take. */
	double bound_us;
	double bound_busbw_GBps; /* in that time */
	double percent_of_bound; /* bound_us / time_us * 100 */
	const char *bound_source;
	const char *cache;
	int64_t chunk_bytes;   /* of a pipelined schedule */
	double cpu_time_us;    /* spent in the call itself; -C */
	int64_t cycle;         /* of -N, from 1 */
	const char *evaluator; /* of virtual time: how it was played; NULL: time is real */
	double faultless_us;   /* the same without the fault of virtual time */
	double end_unix_s;     /* when it was done */
};

/* When one rank entered the iterations of a case in one placement: with -I. */
struct bb_arrival_record {
	const char *collective, *algorithm_asked, *algorithm, *dtype, *op;
	int64_t root, size_bytes;
	bool in_place;
	int64_t cycle, rank;
	struct bb_numbers late_us; /* of each iteration, after the first rank to enter it */
	double clock_uncertainty_us;
};

/* What a result in virtual time took of the machine that computed it. */
struct bb_cost_record {
	const char *collective, *algorithm_asked, *algorithm, *evaluator;
	int64_t nranks, size_bytes;
	bool in_place;
	double processor_s;
	int64_t peak_memory_bytes;
};

/* A case, or a whole algorithm (dtype NULL), that was asked for and is not run. */
struct bb_skip_record {
	const char *collective;
	const char *algorithm;
	const char *dtype;
	const char *op;
	int64_t root;
	int64_t size_bytes;    /* BB_ABSENT: all of them */
	const char *placement; /* "out-of-place", "in-place"; NULL: both */
	const char *reason;
};

/* Once, last. */
struct bb_end_record {
	const char *verdict; /* "passed", "wrong data", "below the gate", "interrupted", … */
	const char *error;   /* the first cause, NULL if none */
	int64_t exit_status;
	int64_t results;
	int64_t skipped;
	int64_t wrong;                /* results with wrong elements */
	double avg_busbw_GBps;        /* over all results; NAN without any */
	double min_busbw_GBps;        /* the gate; NAN: none */
	double faulty_s, faultless_s; /* of programs in virtual time, with and without --fault */
	const char *played_by; /* what collectives of programs in virtual time were done by; NULL */
	double wall_s;
	double processor_s; /* of this process */
	int64_t peak_memory_bytes;
	int64_t memory_init_bytes, memory_user_bytes, memory_call_bytes; /* -M */
	char end_time[BB_TIME_TEXT];
};

/* A random identity, and the present time as UTC text. */
void bb_run_id(char text[BB_RUN_ID_TEXT]);
void bb_time_text(char text[BB_TIME_TEXT]);

enum bb_field_type {
	BB_FIELD_STRING, /* const char * */
	BB_FIELD_TEXT,   /* char[] */
	BB_FIELD_INT,    /* int64_t */
	BB_FIELD_DOUBLE,
	BB_FIELD_BOOL,
	BB_FIELD_NUMBERS, /* struct bb_numbers */
	BB_FIELD_WORDS,   /* struct bb_words */
	BB_FIELD_RANKS    /* struct bb_rank_infos */
};

struct bb_field {
	const char *name;
	enum bb_field_type type;
	size_t offset;
	const char *unit; /* "" where there is none */
	const char *help;
};

/* One kind of record: a struct and what its fields are. Those of a single benchmark are its own. */
struct bb_record_kind {
	const char *name; /* "result" */
	const char *brief;
	const struct bb_field *fields; /* ends with name NULL */
	size_t size;                   /* of the struct */
};

extern const struct bb_record_kind bb_record_run, bb_record_result, bb_record_arrival,
	bb_record_cost, bb_record_skip, bb_record_end;

/* Every number of RECORD, a struct of KIND, absent, everything else zero. */
void bb_record_init(const struct bb_record_kind *kind, void *record);

/* One line without newline: {"schema":1,"kind":…,"run_id":…, the fields}. */
void bb_record_json(struct bb_strbuf *out, const struct bb_record_kind *kind, const char *run_id,
		    const void *record);
/* The header line and one row of tidy CSV, both with newline: schema, run_id, the fields. */
void bb_record_csv_header(struct bb_strbuf *out, const struct bb_record_kind *kind);
void bb_record_csv_row(struct bb_strbuf *out, const struct bb_record_kind *kind, const char *run_id,
		       const void *record);
/* docs/records.md: all KINDS, the last one NULL. */
void bb_record_markdown(struct bb_strbuf *out, const struct bb_record_kind *const *kinds);

#endif

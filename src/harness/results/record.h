/*
 * record.h - results as values.
 *
 * A field is declared once; from its declaration come the struct's member, the CSV and JSON-lines
 * sinks, the column in the text and docs/records.md. The fields of a record are a list, a macro
 * that calls FIELD for each:
 *
 *   #define BB_MOE_FIELDS(FIELD)                                                                 \
 *           FIELD(DOUBLE, skew, "", "exponent of Zipf's law", BB_COLUMN("skew", 5, 2))           \
 *           FIELD(DOUBLE, step_us, "us", "a step", BB_COLUMN("step", 9, 3), BB_MS)
 *   struct bb_moe_record { BB_MOE_FIELDS(BB_MEMBER) };              double skew; double step_us;
 *   #define BB_RECORD bb_moe_record
 *   BB_RECORD_KIND(bb_record_moe, BB_MOE_FIELDS, "moe", "A layer of experts.",
 *                  .about = moe_about);
 *
 * FIELD has a kind, the name, the unit ("": none), the help and members of struct bb_field. Units
 * are in the names. A double that is not known is NAN, an integer BB_ABSENT, a string NULL: JSON
 * null and an empty CSV cell.
 */
#pragma once

#include "backends/backend.h"
#include "core/json.h"
#include "core/strbuf.h"

#include <math.h>
#include <stddef.h>

/* Raised when a field is renamed, removed or changes its meaning; see docs/records.md. */
#define BB_SCHEMA 3
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
	int node;  /* its host: the hosts are numbered by their first ranks */
};

struct bb_rank_infos {
	const struct bb_rank_info *ranks;
	size_t n;
};

/* ---- how a record is declared ----------------------------------------------------------- */

#define BB_FIELD_TEXT_BYTES 256
#define BB_CELL_TEXT 48

/* KIND(name, type of the member, what docs/records.md calls it) */
#define BB_FIELD_KINDS(KIND)                                                                       \
	KIND(STRING, const char *, "string")                                                       \
	KIND(INT, int64_t, "integer")                                                              \
	KIND(DOUBLE, double, "number")                                                             \
	KIND(BOOL, bool, "boolean")                                                                \
	KIND(NUMBERS, struct bb_numbers, "array of numbers")                                       \
	KIND(WORDS, struct bb_words, "array of strings")                                           \
	KIND(RANKS, struct bb_rank_infos, "array of objects")

#define BB_FIELD_KIND_ENUM(kind, ...) BB_FIELD_##kind,
enum bb_field_type {
	BB_FIELD_KINDS(BB_FIELD_KIND_ENUM) BB_FIELD_TEXT /* char[BB_FIELD_TEXT_BYTES] */
};

#define BB_FIELD_KIND_TYPE(kind, type, name) typedef type bb_field_##kind;
BB_FIELD_KINDS(BB_FIELD_KIND_TYPE)
typedef char bb_field_TEXT[BB_FIELD_TEXT_BYTES];

struct bb_field {
	const char *name;
	enum bb_field_type type;
	size_t offset, size; /* of the member */
	const char *unit;    /* "" where there is none */
	const char *help;

	/* Its column in a table of text (bb_sink_table); head NULL: it has none. */
	const char *head, *head_unit; /* the two lines above it; head_unit NULL: UNIT in brackets */
	int width;                    /* negative: aligned to the left */
	/* A number is printed times SCALE (0: 1) with at most DECIMALS, or where they are negative
	   with that many significant digits; an absent one as N/A. */
	int decimals;
	double scale;
	int place; /* order of the columns; those with the same place are in the order of fields */
	bool key;  /* it and the columns before it name a row: repeated in each part of a wide table
		    */
	bool merges;   /* consecutive rows that differ in it alone share one */
	bool optional; /* a column only if the first row of its table has the field */
	/* TEXT = the cell, in place of the field's value. NULL: the value. */
	void (*cell)(const void *record, char text[BB_CELL_TEXT]);
};

/* Optional ends of a row in a list. */
#define BB_COLUMN(head_, width_, decimals_) .head = head_, .width = width_, .decimals = decimals_
#define BB_KEY .key = true
#define BB_MERGES .merges = true
#define BB_OPTIONAL .optional = true
#define BB_MS .head_unit = "(ms)", .scale = 1e-3
#define BB_MB .head_unit = "(MB)", .scale = 1e-6
#define BB_MIB .head_unit = "(MiB)", .scale = 1.0 / (1 << 20)
#define BB_SHARE .head_unit = "(%)", .scale = 100
#define BB_TIMES .head_unit = "(times)"

/* The members of a list; and its kind, where BB_RECORD is the tag of the struct. Members of struct
   bb_record_kind may follow. */
#define BB_MEMBER(kind, field, ...) bb_field_##kind field;
#define BB_RECORD_KIND(symbol, LIST, word, text, ...)                                              \
	static const struct bb_field symbol##_fields[] = {LIST(BB_FIELD_ROW){.name = NULL}};       \
	const struct bb_record_kind symbol = {.name = word,                                        \
					      .brief = text,                                       \
					      .fields = symbol##_fields,                           \
					      .size = sizeof(struct BB_RECORD),                    \
					      ##__VA_ARGS__}
#define BB_FIELD_ROW(kind, field, unit_, help_, ...)                                               \
	{.name = #field,                                                                           \
	 .type = BB_FIELD_##kind,                                                                  \
	 .size = sizeof(bb_field_##kind),                                                          \
	 .offset = offsetof(struct BB_RECORD, field),                                              \
	 .unit = unit_,                                                                            \
	 .help = help_,                                                                            \
	 __VA_ARGS__},

/* A kind of record: a struct and its fields. Each benchmark may declare kinds of its own. */
struct bb_record_kind {
	const char *name; /* "result" */
	const char *brief;
	const struct bb_field *fields; /* ends with name NULL */
	size_t size;                   /* of the struct */
	/* Appends '#' lines that stand once above its table, before the first row, which RECORD is.
	   NULL: none. */
	void (*about)(const void *record, struct bb_strbuf *out);
};

/* ---- records of every benchmark ----------------------------------------------------------- */

#define BB_RUN_FIELDS(FIELD)                                                                       \
	FIELD(TEXT, start_time, "", "start: UTC, ISO 8601")                                        \
	FIELD(STRING, program, "", "name of the binary")                                           \
	FIELD(STRING, version, "", "version of busbench")                                          \
	FIELD(WORDS, args, "", "the command line, word by word")                                   \
	FIELD(STRING, collective, "", "what is measured: a collective, or the benchmark")          \
	FIELD(STRING, backend, "", "how bytes move")                                               \
	FIELD(STRING, backend_reason, "", "why --backend auto chose it; null: it was named")       \
	FIELD(STRING, library, "", "library that moves the bytes, with its version; null: none")   \
	FIELD(WORDS, nccl_environment, "", "GPUs: variables NCCL_… of rank 0's process")           \
	FIELD(STRING, library_p2p, "",                                                             \
	      "pairs: whether the library lets one end access the other's memory, and how that "   \
	      "is known")                                                                          \
	FIELD(STRING, launch, "", "library that connects the processes; null: one process")        \
	FIELD(STRING, host, "", "host of rank 0")                                                  \
	FIELD(STRING, cpu, "", "processor of that host")                                           \
	FIELD(STRING, os, "", "operating system of that host")                                     \
	FIELD(STRING, topology, "",                                                                \
	      "digest of its topology (build/topology); equal on equal machines")                  \
	FIELD(INT, cores, "", "processors that the process of rank 0 may use")                     \
	FIELD(INT, nranks, "", "ranks in all processes")                                           \
	FIELD(INT, nprocs, "", "number of processes")                                              \
	FIELD(INT, threads, "", "-t")                                                              \
	FIELD(INT, gpus, "", "-g")                                                                 \
	FIELD(RANKS, ranks, "", "per rank: group, pid, host, device, numa, bus, name")             \
	FIELD(INT, min_bytes, "bytes", "-b")                                                       \
	FIELD(INT, max_bytes, "bytes", "-e")                                                       \
	FIELD(INT, step_factor, "", "-f; 1: step_bytes is added")                                  \
	FIELD(INT, step_bytes, "bytes", "-i")                                                      \
	FIELD(INT, warmup_iters, "", "-w")                                                         \
	FIELD(INT, iters, "", "-n")                                                                \
	FIELD(INT, agg_iters, "", "-m")                                                            \
	FIELD(INT, run_cycles, "", "-N")                                                           \
	FIELD(DOUBLE, precision, "fraction", "--precision; null without")                          \
	FIELD(INT, check, "", "-c")                                                                \
	FIELD(INT, blocking, "", "-z")                                                             \
	FIELD(INT, graph, "", "-G")                                                                \
	FIELD(INT, average, "",                                                                    \
	      "-a: time_us is that of 0: rank 0, 1: mean, 2: minimum, 3: maximum of all ranks")    \
	FIELD(INT, unalign, "elements", "-u")                                                      \
	FIELD(BOOL, per_iter_timing, "", "-I")                                                     \
	FIELD(INT, per_iter_skip, "", "-K")                                                        \
	FIELD(BOOL, parallel_init, "", "-p")                                                       \
	FIELD(BOOL, report_cputime, "", "-C")                                                      \
	FIELD(BOOL, report_timestamps, "", "-S")                                                   \
	FIELD(STRING, cache, "", "--cache: content of the caches before an iteration")             \
	FIELD(INT, seed, "", "--seed")                                                             \
	FIELD(STRING, algorithms, "", "--algo as given, or NCCL_ALGO's")                           \
	FIELD(STRING, fault, "", "--fault as given")                                               \
	FIELD(STRING, link, "", "--link as given")                                                 \
	FIELD(STRING, cluster, "", "--cluster as given")                                           \
	FIELD(STRING, calibrate, "", "--calibrate as given")                                       \
	FIELD(TEXT, network, "", "the cluster in words: ranks, nodes, rates, switches")            \
	FIELD(BOOL, virtual_time, "", "times are simulated with --link, --cluster or --calibrate") \
	FIELD(DOUBLE, link_noise, "fraction", "--noise; null without")                             \
	FIELD(STRING, split, "", "NCCL_TESTS_SPLIT or its mask as given")                          \
	FIELD(DOUBLE, copy_GBps, "GB/s",                                                           \
	      "private memory copies of all ranks at once, measured in this run")                  \
	FIELD(DOUBLE, clock_uncertainty_us, "us",                                                  \
	      "uncertainty when clocks of two ranks are compared")                                 \
	FIELD(DOUBLE, init_ms, "ms", "from the start until every rank was ready; of it:")          \
	FIELD(DOUBLE, connect_ms, "ms", "until the processes were connected and agreed")           \
	FIELD(DOUBLE, open_ms, "ms",                                                               \
	      "then until the backend, the topology and the plan were open")                       \
	FIELD(DOUBLE, attach_ms, "ms", "then until every rank had its device (CUDA's context)")    \
	FIELD(DOUBLE, world_ms, "ms", "then until all had joined (NCCL's communicator)")           \
	FIELD(DOUBLE, split_ms, "ms", "then until its groups were made; null: not split")          \
	FIELD(STRING, pair_ranks, "",                                                              \
	      "pairs: the ranks whose pairs are measured, as 0-7,24-31; null: all")

/* The first record: what is needed to repeat the run, never the environment. */
struct bb_run_record {
	char run_id[BB_RUN_ID_TEXT];
	bool lists_all; /* -v: the text names every rank */
	BB_RUN_FIELDS(BB_MEMBER)
};

#define BB_SKIP_FIELDS(FIELD)                                                                      \
	FIELD(STRING, collective, "", "what was requested")                                        \
	FIELD(STRING, algorithm, "", "as in --algo")                                               \
	FIELD(STRING, dtype, "", "element type; null: all")                                        \
	FIELD(STRING, op, "", "reduction; null: all")                                              \
	FIELD(INT, root, "", "rank; null: all")                                                    \
	FIELD(INT, size_bytes, "bytes", "null: all")                                               \
	FIELD(STRING, placement, "", "out-of-place or in-place; null: both")                       \
	FIELD(STRING, reason, "", "why it was not run")                                            \
	FIELD(STRING, matrix, "", "as in a result; null: all")

/* A requested case, or a whole algorithm (dtype NULL), that is not run. */
struct bb_skip_record {
	BB_SKIP_FIELDS(BB_MEMBER)
};

#define BB_END_FIELDS(FIELD)                                                                       \
	FIELD(TEXT, end_time, "", "UTC, ISO 8601")                                                 \
	FIELD(STRING, verdict, "", "passed, or what is wrong")                                     \
	FIELD(STRING, error, "", "first cause of a failure")                                       \
	FIELD(INT, exit_status, "", "of the process")                                              \
	FIELD(INT, results, "", "result records")                                                  \
	FIELD(INT, skipped, "", "skip records")                                                    \
	FIELD(INT, checked, "", "results whose data was checked")                                  \
	FIELD(INT, wrong, "", "results with wrong elements")                                       \
	FIELD(STRING, data, "", "outcome of the check of the data, in words")                      \
	FIELD(WORDS, answers, "", "sentences of the text that answer the run's question")          \
	FIELD(DOUBLE, avg_busbw_GBps, "GB/s", "mean busbw of all results")                         \
	FIELD(DOUBLE, min_busbw_GBps, "GB/s", "NCCL_TESTS_MIN_BW: the mean must reach 0.9 of it")  \
	FIELD(DOUBLE, faulty_s, "s", "virtual time of all programs with --fault")                  \
	FIELD(DOUBLE, faultless_s, "s", "virtual time of the same programs without the fault")     \
	FIELD(STRING, evaluated_by, "",                                                            \
	      "evaluators of the collectives of programs in virtual time, as all_reduce among "    \
	      "16: nvlstree:Simple model; null: time is real, or there are none")                  \
	FIELD(DOUBLE, wall_s, "s", "time from start to end")                                       \
	FIELD(DOUBLE, processor_s, "s", "processor time of the process of rank 0, all threads")    \
	FIELD(INT, peak_memory_bytes, "bytes", "peak memory of that process")                      \
	FIELD(INT, memory_init_bytes, "bytes", "memory taken by start-up; with -M")                \
	FIELD(INT, memory_user_bytes, "bytes", "memory taken by buffers; with -M")                 \
	FIELD(INT, memory_call_bytes, "bytes", "memory taken by the calls; with -M")

/* The last record. */
struct bb_end_record {
	BB_END_FIELDS(BB_MEMBER)
};

/* TEXT = a random identity; the present time in UTC. */
void bb_run_id(char text[BB_RUN_ID_TEXT]);
void bb_time_text(char text[BB_TIME_TEXT]);

extern const struct bb_record_kind bb_record_run, bb_record_skip, bb_record_end;

/* Make every number of RECORD, a struct of KIND, absent, and everything else zero. */
void bb_record_init(const struct bb_record_kind *kind, void *record);
/* The same, then set the fields that FROM, a record of kind FROM_KIND, has under the same name. */
void bb_record_init_from(const struct bb_record_kind *kind, void *record,
			 const struct bb_record_kind *from_kind, const void *from);

/* Add an array; KEY as in json.h. */
void bb_numbers_json(struct bb_json *j, const char *key, const struct bb_numbers *numbers);
/* Append one line without newline: {"schema":2,"kind":…,"run_id":…, the fields}. */
void bb_record_json(struct bb_strbuf *out, const struct bb_record_kind *kind, const char *run_id,
		    const void *record);
/* Append the header or a row of tidy CSV, with newline: schema, run_id, the fields. */
void bb_record_csv_header(struct bb_strbuf *out, const struct bb_record_kind *kind);
void bb_record_csv_row(struct bb_strbuf *out, const struct bb_record_kind *kind, const char *run_id,
		       const void *record);

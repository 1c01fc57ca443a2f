/*
 * pipeline.h - the benchmark of pipeline parallelism: the bubble of each schedule, predicted and
 * measured.
 *
 *   pipeline.c          its options, records, descriptor and text: rows of schedules and stages,
 *                       and the best
 *   drive.c             the experiment: predict, time, check, deliver
 *   data.c              numbers that go through the stages, and their verification
 *
 * Schedules are in order.h, their programs in program.h.
 */
#pragma once

#include "core/table.h"
#include "training_kernels/kernel/kernel.h"
#include "training_kernels/pipeline/program.h"

enum bb_pipeline_cost { BB_COST_STAGE, BB_COST_STEP };

/* For options that say more about --model. */
#define BB_NEEDS_MODEL .needs = {{"model"}}

#define BB_PIPELINE_OPTIONS(OPTION, COMMON)                                                        \
	OPTION(CHOICES, schedules, "schedule", 0, "all", "schedules", .choice = bb_pipeline_name,  \
	       .section = "Pipeline", .usual = true)                                               \
	OPTION(INT, stages, "stages", 0, NULL,                                                     \
	       "number of stages, one rank each (default: number of ranks, else 4)", .min = 1,     \
	       .max = BB_PIPELINE_STAGES, .usual = true)                                           \
	OPTION(INT, microbatches, "microbatches", 0, "8", "microbatches of a step", .min = 1,      \
	       .max = MOST_MICROBATCHES, .usual = true)                                            \
	OPTION(INT, chunks, "chunks", 0, "2", "parts of the model on each stage, for interleaved", \
	       .min = 1, .max = MOST_CHUNKS)                                                       \
	OPTION(INT, memory, "memory", 0, NULL,                                                     \
	       "for zb-auto: number of microbatches whose activations fit (default: twice the "    \
	       "stages)",                                                                          \
	       .min = 1, .max = MOST_MICROBATCHES)                                                 \
	OPTION(CHOICE, cost, "cost", 0, "stage",                                                   \
	       "for zb-auto: cost of a step. stage: the longest time of a stage from its "         \
	       "first pass to its last; step: the time until the last of all passes ends, as "     \
	       "where all stages meet before the optimizer",                                       \
	       .choices = costs)                                                                   \
	OPTION(FLAG, predict, "predict", 0, NULL,                                                  \
	       "predict only, for any number of stages; run nothing", .usual = true,               \
	       .excludes = {{"fault nthreads ngpus backend", "nothing is run"}})                   \
	OPTION(FLAG, gantt, "gantt", 0, NULL,                                                      \
	       "draw the passes of each stage over time, and write a record of each pass",         \
	       .usual = true)                                                                      \
	OPTION(INT, iters, "iters", 'n', "5", "timed steps of each schedule", .min = 1,            \
	       .max = 1000000, .usual = true)                                                      \
	BB_COMPUTE_OPTION(OPTION,                                                                  \
			  .needs = {{"model", "it has the FLOPs of passes", .value = "gemm"}})     \
	OPTION(DURATION, tf_ns, "tf", 0, "10ms",                                                   \
	       "forward pass of a microbatch through all chunks of a stage", .min = 1,             \
	       .max = BB_YEAR_NS)                                                                  \
	OPTION(DURATION, tb_ns, "tb", 0, "10ms",                                                   \
	       "half of the backward pass that computes the gradient of the input", .min = 1,      \
	       .max = BB_YEAR_NS)                                                                  \
	OPTION(DURATION, tw_ns, "tw", 0, "10ms",                                                   \
	       "half of the backward pass that computes the gradients of the weights", .min = 1,   \
	       .max = BB_YEAR_NS)                                                                  \
	OPTION(DURATION, tc_ns, "tc", 0, NULL,                                                     \
	       "time from the end of a pass until another stage has its "                          \
	       "result, for the prediction (default: measured; 0 with --predict)",                 \
	       .min = 0, .max = BB_YEAR_NS,                                                        \
	       .excludes = {{"link", "both set the time of messages"}})                            \
	OPTION(SIZE, mb_bytes, "mb", 0, "2M",                                                      \
	       "activations of a microbatch that the forward pass leaves on a stage", .min = 4,    \
	       .max = MOST_BYTES)                                                                  \
	OPTION(SIZE, mw_bytes, "mw", 0, NULL,                                                      \
	       "part of --mb that W still needs after B (default: half)", .min = 4,                \
	       .max = MOST_BYTES)                                                                  \
	OPTION(SIZE, message_bytes, "message", 0, "4K",                                            \
	       "size of a message between two parts of the model", .min = 4, .max = MOST_BYTES)    \
	BB_MODEL_OPTION(                                                                           \
		OPTION, NULL, "transformer that times and bytes follow from, with --flops: ",      \
		.section = "Model", .needs = {{"flops", "passes take the time of their FLOPs"}},   \
		.excludes = {{"tf tb tw mb mw message", "it sets times and sizes"}})               \
	BB_FLOPS_OPTION(OPTION, "", BB_NEEDS_MODEL)                                                \
	BB_SEQ_OPTION(OPTION, BB_NEEDS_MODEL)                                                      \
	BB_ATTENTION_OPTION(OPTION, "")                                                            \
	OPTION(INT, batch, "batch", 0, "1", "sequences of a microbatch", .min = 1,                 \
	       .max = INT64_C(1) << 30, BB_NEEDS_MODEL)                                            \
	OPTION(SIZE, rank_memory, "rank-memory", 0, "80G",                                         \
	       "memory of a rank, into which a stage of --model fits or not (default: that of "    \
	       "the GPUs of --cluster, else 80G)",                                                 \
	       .min = 1, .max = BB_MOST_BYTES, BB_NEEDS_MODEL)                                     \
	BB_RESERVE_OPTION(OPTION, BB_NEEDS_MODEL)

struct bb_pipeline_options {
	BB_OPTION_MEMBERS(BB_PIPELINE_OPTIONS)
};

/* ---- records --------------------------------------------------------------------------------- */

#define BB_PIPELINE_FIELDS(FIELD)                                                                  \
	FIELD(STRING, schedule, "", "as in --schedule")                                            \
	FIELD(INT, stages, "", "number of stages, one rank each")                                  \
	FIELD(INT, microbatches, "", "microbatches of a step")                                     \
	FIELD(INT, chunks, "", "chunks of the model on each stage")                                \
	FIELD(NUMBERS, layers, "", "layers of each stage; null: no --model, all stages are alike") \
	FIELD(DOUBLE, f_us, "us",                                                                  \
	      "forward pass of a microbatch through all chunks of a stage; with --model of "       \
	      "the busiest stage")                                                                 \
	FIELD(DOUBLE, b_us, "us", "half of the backward pass: gradient of the input")              \
	FIELD(DOUBLE, w_us, "us", "half of the backward pass: gradients of the weights")           \
	FIELD(DOUBLE, hop_us, "us",                                                                \
	      "time from the end of a pass until another stage has its result, as predicted with") \
	FIELD(STRING, hop_source, "", "source of hop_us: measured, simulated, --tc or --link")     \
	FIELD(STRING, compute, "",                                                                 \
	      "stand-in for computations: sleep, spin or gemm; null: nothing ran")                 \
	FIELD(DOUBLE, ideal_us, "us", "time of all passes of the busiest stage, without a bubble") \
	FIELD(DOUBLE, predicted_us, "us",                                                          \
	      "predicted step, from its start until the last pass ends")                           \
	FIELD(DOUBLE, predicted_span_us, "us",                                                     \
	      "predicted: the longest time of a stage from its first pass to its last")            \
	FIELD(DOUBLE, predicted_bubble_over_ideal, "fraction", "predicted_us / ideal_us - 1")      \
	FIELD(DOUBLE, predicted_bubble_over_total, "fraction", "1 - ideal_us / predicted_us")      \
	FIELD(DOUBLE, predicted_span_bubble_over_ideal, "fraction",                                \
	      "predicted_span_us / ideal_us - 1")                                                  \
	FIELD(DOUBLE, predicted_span_bubble_over_total, "fraction",                                \
	      "1 - ideal_us / predicted_span_us")                                                  \
	FIELD(DOUBLE, published_bubble_over_total, "fraction",                                     \
	      "interleaved: predicted with waits for messages around the ring only at the first "  \
	      "microbatch of each group of as many as stages (arXiv 2401.10241, Table 5)")         \
	FIELD(DOUBLE, p50_us, "us", "measured step: median")                                       \
	FIELD(DOUBLE, p99_us, "us", "measured step: 99th percentile")                              \
	FIELD(DOUBLE, min_us, "us", "measured step: minimum")                                      \
	FIELD(DOUBLE, max_us, "us", "measured step: maximum")                                      \
	FIELD(DOUBLE, span_us, "us", "maximum of stage_us")                                        \
	FIELD(DOUBLE, bubble_over_ideal, "fraction", "p50_us / ideal_us - 1")                      \
	FIELD(DOUBLE, bubble_over_total, "fraction", "1 - ideal_us / p50_us")                      \
	FIELD(DOUBLE, span_bubble_over_ideal, "fraction", "span_us / ideal_us - 1")                \
	FIELD(DOUBLE, span_bubble_over_total, "fraction", "1 - ideal_us / span_us")                \
	FIELD(DOUBLE, off_percent, "%", "p50_us / predicted_us - 1")                               \
	FIELD(NUMBERS, predicted_stage_us, "us",                                                   \
	      "predicted time of each stage from its first pass to its last")                      \
	FIELD(NUMBERS, stage_us, "us",                                                             \
	      "measured time of each stage from its first pass to its last: medians")              \
	FIELD(NUMBERS, peak_microbatches, "",                                                      \
	      "most activations that each stage holds, in microbatches")                           \
	FIELD(NUMBERS, stage_peak_bytes, "bytes", "most activations that each stage holds")        \
	FIELD(INT, peak_bytes, "bytes", "maximum of stage_peak_bytes")                             \
	FIELD(NUMBERS, counted_peak_microbatches, "",                                              \
	      "peak_microbatches, counted from the passes of the last timed step")                 \
	FIELD(INT, message_bytes, "bytes", "size of a message between two parts of the model")     \
	FIELD(INT, sent_bytes, "bytes", "bytes that all stages send in a step")                    \
	FIELD(NUMBERS, stage_sent_bytes, "bytes", "bytes that each stage sends in a step")         \
	FIELD(INT, counted_sent_bytes, "bytes",                                                    \
	      "sent_bytes, counted from the messages of the last timed step")                      \
	FIELD(NUMBERS, counted_stage_sent_bytes, "bytes", "stage_sent_bytes, counted likewise")    \
	BB_FIT_FIELDS(FIELD)                                                                       \
	FIELD(INT, iterations, "", "number of timed steps")                                        \
	FIELD(INT, wrong, "",                                                                      \
	      "elements of outputs and gradients that differ from those of one rank; null: not "   \
	      "verified")                                                                          \
	FIELD(DOUBLE, end_unix_s, "s", "time of the end, since 1970 UTC")

/* The results of one schedule. */
struct bb_pipeline_record {
	BB_PIPELINE_FIELDS(BB_MEMBER)
};

#define BB_PASS_FIELDS(FIELD)                                                                      \
	FIELD(STRING, schedule, "", "as in --schedule")                                            \
	FIELD(STRING, source, "", "predicted; measured or simulated: of the last timed step")      \
	FIELD(INT, stage, "", "stage of the pass")                                                 \
	FIELD(STRING, pass, "", "F, B, W, or BW: both halves of the backward pass")                \
	FIELD(INT, chunk, "", "chunk of the stage, from 0")                                        \
	FIELD(INT, microbatch, "", "number of the microbatch, from 0")                             \
	FIELD(DOUBLE, from_us, "us", "begin of the pass, since the step began")                    \
	FIELD(DOUBLE, to_us, "us", "end of the pass, since the step began")

/* One pass, with --gantt. */
struct bb_pass_record {
	BB_PASS_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_pipeline, bb_record_pass;

/* ---- the benchmark --------------------------------------------------------------------------- */

/* The state of the benchmark. */
struct bb_pipeline_state {
	struct bb_pipeline_options options; /* first: the rows are read into it */
	struct bb_pipeline pipeline;        /* without the hop, which may be measured */
	struct bb_link_model link;          /* of --link, for a prediction; rate 0: none */
	struct bb_model model;              /* of --model */
	struct bb_model_layout layout;
	struct bb_capacity capacity;
	/* In process 0: schedules that may be the best, in order of their memory, which decides
	   among equals; what their arrays point to is gone. */
	struct bb_pipeline_record *kept;
	size_t nkept, kept_room;
	/* And the text at the end: rows, those that fit, and sentences about the others. */
	struct bb_text_table schedules, stages;
	struct bb_strbuf fits, misfits;
	int64_t published; /* stages of a row as published; 0: none */
};

extern const struct bb_benchmark bb_pipeline_benchmark;

extern const struct bb_experiment bb_pipeline_experiment;

/* ---- its text -------------------------------------------------------------------------------- */

/* Print the head before the first record, and keep the rows of R, and R if it may be the best. */
BB_MUST bb_status bb_pipeline_text_add(struct bb_run *run, const struct bb_pipeline_record *r);

/* ---- data of the verification (data.c) ------------------------------------------------------- */

#define BB_PIPELINE_ELEMENTS 64 /* of a block, BB_UINT32 */

/*
 * Blocks of numbers of one stage. Part d computes y = w x^2 + x' from a block x and its weights w,
 * where x' is x rotated by one, all modulo 2^32, so that nothing is rounded. The gradient of the
 * last part is 3 y + 1. B computes the gradient of x, and what W needs for that of w.
 */
struct bb_pipeline_data {
	const struct bb_order *order; /* borrowed, as MEMORY */
	int stage;
	uint64_t seed;
	uint32_t *memory; /* [(chunk * microbatches + microbatch) * blocks + block][elements] */
};

/* Bytes of a stage of ORDER in the backend's memory. */
size_t bb_pipeline_data_bytes(const struct bb_order *order);
/* The data of STAGE in MEMORY, of that many bytes, before the first pass. */
struct bb_pipeline_data bb_pipeline_data_begin(const struct bb_order *order, int stage,
					       uint64_t seed, void *memory);

/* The compute and buffers of a struct bb_workload; OWN is a struct bb_pipeline_data. */
void bb_pipeline_compute(void *own, int rank, const struct bb_operation *operation);
void bb_pipeline_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			 void **out);

/* The numbers of a stage, whose OWN is a struct bb_pipeline_data: outputs and both gradients are
   those of one rank that computes all parts, microbatch by microbatch. BB_EINTERNAL without
   memory. */
extern const struct bb_expectation bb_pipeline_expectation;

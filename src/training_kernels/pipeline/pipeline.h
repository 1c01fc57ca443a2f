/*
 * pipeline.h - the benchmark of pipeline parallelism: what a schedule's bubble should be, and is.
 *
 *   pipeline.c          the benchmark: what it can do, how it begins and ends
 *   options.c           its options
 *   drive.c             the experiment: predict, time, check
 *   deliver.c           what that came to, as records
 *   data.c              numbers that go through the stages, and what must come of them
 *   record.c            the fields of its records
 *   text.c              the text: two rows for each schedule
 *   gantt.c             and who did what when, as characters
 *
 * What is scheduled, and how that becomes a program: order.h, program.h.
 */
#ifndef BB_TRAINING_KERNELS_PIPELINE_PIPELINE_H
#define BB_TRAINING_KERNELS_PIPELINE_PIPELINE_H

#include "harness/measure/engine.h"
#include "harness/measure/step_options.h"
#include "training_kernels/pipeline/program.h"

#define BB_PIPELINE_SCHEDULES 16 /* in a list, at most */

enum bb_pipeline_cost { BB_COST_STAGE, BB_COST_STEP };

#define BB_PIPELINE_OPTIONS(OPTION, COMMON)                                                        \
	OPTION(CHOICES, schedule_choices, "schedule", 0, "all", "schedules, one after the other",  \
	       .choice = schedule_name, .section = "Pipeline")                                     \
	OPTION(INT, stages, "stages", 0, NULL,                                                     \
	       "number of stages, a rank each (default: number of ranks, else 4)", .min = 1,       \
	       .max = BB_PIPELINE_STAGES)                                                          \
	OPTION(INT, microbatches, "microbatches", 0, "8", "microbatches of a step", .min = 1,      \
	       .max = MOST_MICROBATCHES)                                                           \
	OPTION(INT, chunks, "chunks", 0, "2", "parts of the model on each stage, for interleaved", \
	       .min = 1, .max = MOST_CHUNKS)                                                       \
	OPTION(INT, memory, "memory", 0, NULL,                                                     \
	       "for zb-auto: number of microbatches whose activations fit (default: twice the "    \
	       "stages)",                                                                          \
	       .min = 1, .max = MOST_MICROBATCHES)                                                 \
	OPTION(CHOICE, cost, "cost", 0, "stage",                                                   \
	       "for zb-auto: the cost of a step. stage: the longest time of a stage from its "     \
	       "first pass to its last; step: the time until the last pass of all is done, as "    \
	       "where all stages wait for each other before the optimizer",                        \
	       .choices = costs)                                                                   \
	OPTION(FLAG, predict, "predict", 0, NULL,                                                  \
	       "predict only, for any number of stages; run nothing")                              \
	OPTION(FLAG, gantt, "gantt", 0, NULL,                                                      \
	       "draw the passes of each stage over time, and write a record of each")              \
	OPTION(INT, iters, "iters", 'n', "5", "timed steps of each schedule", .min = 1,            \
	       .max = 1000000)                                                                     \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	OPTION(DURATION, tf_ns, "tf", 0, "10ms",                                                   \
	       "forward pass of a microbatch on a stage, all its chunks", .min = 1,                \
	       .max = BB_YEAR_NS)                                                                  \
	OPTION(DURATION, tb_ns, "tb", 0, "10ms",                                                   \
	       "backward pass, the half that makes the gradient of the input", .min = 1,           \
	       .max = BB_YEAR_NS)                                                                  \
	OPTION(DURATION, tw_ns, "tw", 0, "10ms",                                                   \
	       "backward pass, the half that makes the gradients of the weights", .min = 1,        \
	       .max = BB_YEAR_NS)                                                                  \
	OPTION(DURATION, tc_ns, "tc", 0, NULL,                                                     \
	       "for the prediction: time from the end of a pass until another stage has its "      \
	       "result (default: measured, with --predict 0)",                                     \
	       .min = 0, .max = BB_YEAR_NS)                                                        \
	OPTION(SIZE, mb_bytes, "mb", 0, "2M",                                                      \
	       "activations that F of a microbatch leaves on a stage", .min = 4,                   \
	       .max = MOST_BYTES)                                                                  \
	OPTION(SIZE, mw_bytes, "mw", 0, NULL,                                                      \
	       "part of them that W still needs when B is done (default: half of --mb)", .min = 4, \
	       .max = MOST_BYTES)                                                                  \
	OPTION(SIZE, message_bytes, "message", 0, "4K",                                            \
	       "message of a microbatch from one part to the next", .min = 4, .max = MOST_BYTES)   \
	BB_MODEL_OPTION(                                                                           \
		OPTION, NULL,                                                                      \
		"times and bytes from a transformer instead, with --flops: ", .section = "Model")  \
	BB_FLOPS_OPTION(OPTION, "")                                                                \
	BB_SEQ_OPTION(OPTION)                                                                      \
	OPTION(INT, batch, "batch", 0, "1", "sequences of a microbatch", .min = 1,                 \
	       .max = INT64_C(1) << 30)

struct bb_pipeline_options {
	BB_OPTION_MEMBERS(BB_PIPELINE_OPTIONS)

	/* Worked out from them. */
	const struct bb_pipeline_schedule *schedules[BB_PIPELINE_SCHEDULES];
	int nschedules;
	int layers;                         /* of a --model: times and bytes are those of one, */
	struct bb_pipeline_end first, last; /* and beside them these */
	bool by_link;                       /* it is predicted with --link: */
	double link_rate, link_latency;     /* bytes per second, seconds */
};

/* ---- records (record.c) ------------------------------------------------------------ */

#define BB_PIPELINE_FIELDS(FIELD)                                                                  \
	FIELD(STRING, schedule, "", "as in --schedule")                                            \
	FIELD(INT, stages, "", "ranks of the pipeline")                                            \
	FIELD(INT, microbatches, "", "of a step")                                                  \
	FIELD(INT, chunks, "", "parts of the model on each stage")                                 \
	FIELD(NUMBERS, layers, "", "of a --model, of each stage; null: all stages are alike")      \
	FIELD(DOUBLE, f_us, "us",                                                                  \
	      "forward pass of a microbatch on a stage, all its chunks; of a --model on the "      \
	      "stage that has most to do")                                                         \
	FIELD(DOUBLE, b_us, "us", "backward pass, the half for the gradient of the input")         \
	FIELD(DOUBLE, w_us, "us", "the half for the gradients of the weights")                     \
	FIELD(DOUBLE, hop_us, "us",                                                                \
	      "from the end of a pass until another stage has its result, as predicted with")      \
	FIELD(STRING, hop_source, "", "measured, in virtual time played; --tc or --link")          \
	FIELD(STRING, compute, "", "what passes were: sleep, spin or gemm; null: nothing ran")     \
	FIELD(DOUBLE, ideal_us, "us",                                                              \
	      "what the passes of a stage take, without a bubble: of that which has most to do")   \
	FIELD(DOUBLE, predicted_us, "us", "a step, from its start until the last pass is done")    \
	FIELD(DOUBLE, predicted_span_us, "us",                                                     \
	      "the longest that a stage takes from its first pass to its last")                    \
	FIELD(DOUBLE, predicted_bubble_over_ideal, "fraction", "predicted_us / ideal_us - 1")      \
	FIELD(DOUBLE, predicted_bubble_over_total, "fraction", "1 - ideal_us / predicted_us")      \
	FIELD(DOUBLE, predicted_span_bubble_over_ideal, "fraction",                                \
	      "the same with predicted_span_us")                                                   \
	FIELD(DOUBLE, predicted_span_bubble_over_total, "fraction", "likewise")                    \
	FIELD(DOUBLE, published_bubble_over_total, "fraction",                                     \
	      "interleaved: predicted with what goes around waited for only by the first of as "   \
	      "many microbatches as stages, as in Table 5 of arXiv 2401.10241")                    \
	FIELD(DOUBLE, p50_us, "us", "a step as measured: median")                                  \
	FIELD(DOUBLE, p99_us, "us", "their 99th percentile")                                       \
	FIELD(DOUBLE, min_us, "us", "the shortest")                                                \
	FIELD(DOUBLE, max_us, "us", "the longest")                                                 \
	FIELD(DOUBLE, span_us, "us", "the longest of stage_us")                                    \
	FIELD(DOUBLE, bubble_over_ideal, "fraction", "p50_us / ideal_us - 1")                      \
	FIELD(DOUBLE, bubble_over_total, "fraction", "1 - ideal_us / p50_us")                      \
	FIELD(DOUBLE, span_bubble_over_ideal, "fraction", "the same with span_us")                 \
	FIELD(DOUBLE, span_bubble_over_total, "fraction", "likewise")                              \
	FIELD(DOUBLE, off_percent, "%", "p50_us against predicted_us")                             \
	FIELD(NUMBERS, predicted_stage_us, "us", "of each stage, from its first pass to its last") \
	FIELD(NUMBERS, stage_us, "us", "the same as measured: medians")                            \
	FIELD(NUMBERS, peak_microbatches, "",                                                      \
	      "of each stage, most activations held, in units of what F leaves of a microbatch")   \
	FIELD(NUMBERS, stage_peak_bytes, "bytes", "the same in bytes")                             \
	FIELD(INT, peak_bytes, "bytes", "the most of them")                                        \
	FIELD(NUMBERS, counted_peak_microbatches, "",                                              \
	      "peak_microbatches as counted from the passes of the last timed step, as they were " \
	      "done")                                                                              \
	FIELD(INT, message_bytes, "bytes", "from one part of the model to the next")               \
	FIELD(INT, sent_bytes, "bytes", "in a step, by all stages")                                \
	FIELD(NUMBERS, stage_sent_bytes, "bytes", "by each stage")                                 \
	FIELD(INT, counted_sent_bytes, "bytes",                                                    \
	      "as counted from the messages of the last timed step, when they had been sent")      \
	FIELD(NUMBERS, counted_stage_sent_bytes, "bytes", "by each stage")                         \
	FIELD(INT, iterations, "", "timed steps")                                                  \
	FIELD(INT, wrong, "",                                                                      \
	      "numbers among outputs and gradients that differ from one rank's; null: not "        \
	      "checked")                                                                           \
	FIELD(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC")

/* One schedule. */
struct bb_pipeline_record {
	BB_PIPELINE_FIELDS(BB_MEMBER)
};

#define BB_PASS_FIELDS(FIELD)                                                                      \
	FIELD(STRING, schedule, "", "as in --schedule")                                            \
	FIELD(STRING, source, "",                                                                  \
	      "predicted, or measured in the last timed step, in virtual time played")             \
	FIELD(INT, stage, "", "that does it")                                                      \
	FIELD(STRING, pass, "", "F, B, W, or BW: both halves at once")                             \
	FIELD(INT, chunk, "", "of the stage, from 0")                                              \
	FIELD(INT, microbatch, "", "from 0")                                                       \
	FIELD(DOUBLE, from_us, "us", "since the step began")                                       \
	FIELD(DOUBLE, to_us, "us", "likewise")

/* One pass, with --gantt. */
struct bb_pass_record {
	BB_PASS_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_pipeline, bb_record_pass;

/* ---- the benchmark -------------------------------------------------------------------------- */

/* The state of the benchmark. */
struct bb_pipeline_state {
	struct bb_pipeline_options asked; /* first: the rows are read into it */
	struct bb_pipeline pipeline;      /* but for the hop, which is measured */
};

extern const struct bb_option bb_pipeline_rows[];
extern const struct bb_benchmark bb_pipeline_benchmark;

/* The check of the benchmark (see benchmark.h). */
BB_MUST bb_status bb_pipeline_check(const struct bb_benchmark *benchmark, void *own,
				    struct bb_options *options,
				    const struct bb_environment *environment,
				    struct bb_error *error);

extern const struct bb_experiment bb_pipeline_experiment;

/* bb_sink_open: schedules as text. */
bb_sink_open bb_sink_pipeline_open;

/* Append what N records of passes, all of one schedule and source, show: a line for each stage,
   WIDTH characters wide, with COLOURS for a terminal. */
void bb_pipeline_gantt(struct bb_strbuf *out, const struct bb_pass_record *passes, size_t n,
		       int width, bool colours);

/* ---- numbers that go through the stages (data.c) ----------------------------------- */

#define BB_PIPELINE_ELEMENTS 64 /* of a block, BB_UINT32 below a prime */

/*
 * Blocks of numbers of one stage. Part d makes y = w x^2 + x' of a block x and its weights w, x'
 * being x turned by one, all modulo a prime, so that nothing is rounded; the last part's gradient
 * is 3 y + 1. B makes the gradient of x, and what W needs to make that of w of this microbatch.
 */
struct bb_pipeline_data;

/* What STAGE of ORDER, which lasts as long, needs in the backend's memory. */
size_t bb_pipeline_data_bytes(const struct bb_order *order);
/* MEMORY, borrowed, has that many bytes. NULL without memory. */
struct bb_pipeline_data *bb_pipeline_data_open(const struct bb_order *order, int stage,
					       uint64_t seed, void *memory);
void bb_pipeline_data_close(struct bb_pipeline_data *data); /* NULL: nothing */

/* The output of this stage's first microbatch, which is looked at. */
void *bb_pipeline_data_output(const struct bb_pipeline_data *data);

/* As struct bb_play wants them; OWN is a struct bb_pipeline_data. */
void bb_pipeline_compute(void *own, int rank, const struct bb_operation *operation);
void bb_pipeline_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			 void **out);

/*
 * *WRONG += numbers that are not what one rank makes that does everything itself, one microbatch
 * after the other: outputs and both gradients of every microbatch on this stage. BB_EINTERNAL
 * without memory.
 */
BB_MUST bb_status bb_pipeline_data_verify(void *own, uint64_t *wrong);

#endif

/*
 * pipeline.h - the benchmark of pipeline parallelism: what a schedule's bubble should be, and is.
 *
 *   pipeline.c          the benchmark: what it can do, how it begins and ends
 *   options.c           its options
 *   drive.c             what every rank does: predict, play, check
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

#include "harness/run/run.h"
#include "training_kernels/pipeline/program.h"

#define BB_PIPELINE_SCHEDULES 16 /* in a list, at most */

enum bb_pipeline_cost { BB_COST_STAGE, BB_COST_STEP };

struct bb_pipeline_options {
	/* As given. */
	const char *schedule_text;
	int64_t stages, microbatches, chunks, memory;
	uint64_t tf_ns, tb_ns, tw_ns, tc_ns;
	uint64_t mb_bytes, mw_bytes, message_bytes;
	const char *model_text, *flops_text;
	int64_t seq, batch;
	int stand_in; /* enum bb_stand_in */
	int cost;     /* enum bb_pipeline_cost */
	int64_t iters;
	bool iters_given;
	bool predict, gantt;
	bool stages_given, tc_given, pass_given, bytes_given, seq_given, batch_given;

	/* Worked out from them. */
	const struct bb_pipeline_schedule *schedules[BB_PIPELINE_SCHEDULES];
	int nschedules;
	double rate;                        /* FLOPs per second; 0: not known */
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

/* What the benchmark does in each driver; RUN's own is a struct bb_pipeline_state. */
bb_status bb_pipeline_drive(struct bb_driver *driver, void *run);

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
/* MEMORY, borrowed, has that many bytes. FLAW: this stage turns a bit of what it makes first. NULL
   without memory. */
struct bb_pipeline_data *bb_pipeline_data_open(const struct bb_order *order, int stage,
					       uint64_t seed, bool flaw, void *memory);
void bb_pipeline_data_close(struct bb_pipeline_data *data); /* NULL: nothing */

/* As struct bb_play wants them; OWN is a struct bb_pipeline_data. */
void bb_pipeline_compute(void *own, int rank, const struct bb_operation *operation);
void bb_pipeline_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			 void **out);

/*
 * *WRONG = numbers that are not what one rank makes that does everything itself, one microbatch
 * after the other: outputs and both gradients of every microbatch on this stage. BB_EINTERNAL
 * without memory.
 */
BB_MUST bb_status bb_pipeline_data_verify(const struct bb_pipeline_data *data, uint64_t *wrong);

#endif

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

/* One schedule. */
struct bb_pipeline_record {
	const char *schedule;
	int64_t stages, microbatches, chunks;
	struct bb_numbers layers; /* of each stage */
	double f_us, b_us, w_us, hop_us;
	const char *hop_source; /* "measured", "--tc", "--link" */
	const char *compute;    /* what passes were; NULL: nothing was run */
	double ideal_us;
	double predicted_us, predicted_span_us;
	double predicted_bubble_over_ideal, predicted_bubble_over_total;
	double predicted_span_bubble_over_ideal, predicted_span_bubble_over_total;
	double published_bubble_over_total;
	double p50_us, p99_us, min_us, max_us, span_us;
	double bubble_over_ideal, bubble_over_total;
	double span_bubble_over_ideal, span_bubble_over_total;
	double off_percent;
	struct bb_numbers predicted_stage_us, stage_us; /* the span of each stage */
	/* Of each stage; as counted while it was played. */
	struct bb_numbers peak_microbatches, stage_peak_bytes, counted_peak_microbatches;
	struct bb_numbers stage_sent_bytes, counted_stage_sent_bytes;
	int64_t peak_bytes;
	int64_t message_bytes, sent_bytes, counted_sent_bytes;
	int64_t iterations, wrong;
	double end_unix_s;
};

/* One pass, with --gantt. */
struct bb_pass_record {
	const char *schedule;
	const char *source; /* "predicted", "measured" */
	int64_t stage;
	const char *pass; /* "F", "B", "W", "BW" */
	int64_t chunk, microbatch;
	double from_us, to_us;
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
BB_MUST bb_status bb_pipeline_data_verify(const struct bb_pipeline_data *data, uint64_t *wrong);

#endif

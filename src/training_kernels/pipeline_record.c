/*
 * pipeline_record.c - what a schedule's record and a pass's carry: one row a field.
 */
#include "training_kernels/pipeline.h"

#include <stddef.h>

#define ROW(record, kind, field, unit_, help_)                                                     \
	{                                                                                          \
		.name = #field, .type = kind, .offset = offsetof(struct record, field),            \
		.unit = unit_, .help = help_                                                       \
	}
#define PIPELINE(kind, field, unit_, help_) ROW(bb_pipeline_record, kind, field, unit_, help_)
#define PASS(kind, field, unit_, help_) ROW(bb_pass_record, kind, field, unit_, help_)

#define STRING BB_FIELD_STRING
#define INT BB_FIELD_INT
#define DOUBLE BB_FIELD_DOUBLE
#define NUMBERS BB_FIELD_NUMBERS

static const struct bb_field pipeline_fields[] = {
	PIPELINE(STRING, schedule, "", "as in --schedule"),
	PIPELINE(INT, stages, "", "ranks of the pipeline"),
	PIPELINE(INT, microbatches, "", "of a step"),
	PIPELINE(INT, chunks, "", "parts of the model on each stage"),
	PIPELINE(DOUBLE, f_us, "us", "forward pass of a microbatch on a stage, all its chunks"),
	PIPELINE(DOUBLE, b_us, "us", "backward pass, the half for the gradient of the input"),
	PIPELINE(DOUBLE, w_us, "us", "the half for the gradients of the weights"),
	PIPELINE(DOUBLE, hop_us, "us",
		 "from the end of a pass until another stage has its result, as predicted with"),
	PIPELINE(STRING, hop_source, "", "measured, --tc or --link"),
	PIPELINE(STRING, compute, "", "what passes were: sleep, spin or gemm; null: nothing ran"),
	PIPELINE(DOUBLE, ideal_us, "us", "what the passes of a stage take, without a bubble"),
	PIPELINE(DOUBLE, predicted_us, "us", "a step, from its start until the last pass is done"),
	PIPELINE(DOUBLE, predicted_span_us, "us",
		 "the longest that a stage takes from its first pass to its last"),
	PIPELINE(DOUBLE, predicted_bubble_over_ideal, "fraction", "predicted_us / ideal_us - 1"),
	PIPELINE(DOUBLE, predicted_bubble_over_total, "fraction", "1 - ideal_us / predicted_us"),
	PIPELINE(DOUBLE, predicted_span_bubble_over_ideal, "fraction",
		 "the same with predicted_span_us"),
	PIPELINE(DOUBLE, predicted_span_bubble_over_total, "fraction", "likewise"),
	PIPELINE(DOUBLE, published_bubble_over_total, "fraction",
		 "interleaved: predicted with what goes around waited for only by the first of as "
		 "many microbatches as stages, as in Table 5 of arXiv 2401.10241"),
	PIPELINE(DOUBLE, p50_us, "us", "a step as measured: median"),
	PIPELINE(DOUBLE, p99_us, "us", "their 99th percentile"),
	PIPELINE(DOUBLE, min_us, "us", "the shortest"),
	PIPELINE(DOUBLE, max_us, "us", "the longest"),
	PIPELINE(DOUBLE, span_us, "us", "the longest of stage_us"),
	PIPELINE(DOUBLE, bubble_over_ideal, "fraction", "p50_us / ideal_us - 1"),
	PIPELINE(DOUBLE, bubble_over_total, "fraction", "1 - ideal_us / p50_us"),
	PIPELINE(DOUBLE, span_bubble_over_ideal, "fraction", "the same with span_us"),
	PIPELINE(DOUBLE, span_bubble_over_total, "fraction", "likewise"),
	PIPELINE(DOUBLE, off_percent, "%", "p50_us against predicted_us"),
	PIPELINE(NUMBERS, predicted_stage_us, "us",
		 "of each stage, from its first pass to its last"),
	PIPELINE(NUMBERS, stage_us, "us", "the same as measured: medians"),
	PIPELINE(NUMBERS, peak_microbatches, "",
		 "of each stage, most activations held, in units of what F leaves of a microbatch"),
	PIPELINE(INT, peak_bytes, "bytes", "the most of them"),
	PIPELINE(INT, message_bytes, "bytes", "from one part of the model to the next"),
	PIPELINE(INT, sent_bytes, "bytes", "in a step, by all stages"),
	PIPELINE(INT, iterations, "", "timed steps"),
	PIPELINE(INT, wrong, "",
		 "numbers among outputs and gradients that differ from one rank's; null: not "
		 "checked"),
	PIPELINE(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC"),
	{.name = NULL},
};

static const struct bb_field pass_fields[] = {
	PASS(STRING, schedule, "", "as in --schedule"),
	PASS(STRING, source, "", "predicted, or measured in the last timed step"),
	PASS(INT, stage, "", "that does it"),
	PASS(STRING, pass, "", "F, B, W, or BW: both halves at once"),
	PASS(INT, chunk, "", "of the stage, from 0"),
	PASS(INT, microbatch, "", "from 0"),
	PASS(DOUBLE, from_us, "us", "since the step began"),
	PASS(DOUBLE, to_us, "us", "likewise"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_pipeline = {"pipeline", "Of pipelines: one schedule.",
						  pipeline_fields,
						  sizeof(struct bb_pipeline_record)};
const struct bb_record_kind bb_record_pass = {"pass",
					      "Of pipelines, with --gantt: one pass of one stage.",
					      pass_fields, sizeof(struct bb_pass_record)};

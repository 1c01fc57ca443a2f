/*
 * record.c - what a schedule's record and a pass's carry: one row a field.
 */
#include "harness/results/record_rows.h"
#include "training_kernels/pipeline/pipeline.h"

#define BB_RECORD bb_pipeline_record
static const struct bb_field pipeline_fields[] = {
	ROW(STRING, schedule, "", "as in --schedule"),
	ROW(INT, stages, "", "ranks of the pipeline"),
	ROW(INT, microbatches, "", "of a step"),
	ROW(INT, chunks, "", "parts of the model on each stage"),
	ROW(NUMBERS, layers, "", "of a --model, of each stage; null: all stages are alike"),
	ROW(DOUBLE, f_us, "us",
	    "forward pass of a microbatch on a stage, all its chunks; of a --model on the stage "
	    "that has most to do"),
	ROW(DOUBLE, b_us, "us", "backward pass, the half for the gradient of the input"),
	ROW(DOUBLE, w_us, "us", "the half for the gradients of the weights"),
	ROW(DOUBLE, hop_us, "us",
	    "from the end of a pass until another stage has its result, as predicted with"),
	ROW(STRING, hop_source, "", "measured, in virtual time played; --tc or --link"),
	ROW(STRING, compute, "", "what passes were: sleep, spin or gemm; null: nothing ran"),
	ROW(DOUBLE, ideal_us, "us",
	    "what the passes of a stage take, without a bubble: of that which has most to do"),
	ROW(DOUBLE, predicted_us, "us", "a step, from its start until the last pass is done"),
	ROW(DOUBLE, predicted_span_us, "us",
	    "the longest that a stage takes from its first pass to its last"),
	ROW(DOUBLE, predicted_bubble_over_ideal, "fraction", "predicted_us / ideal_us - 1"),
	ROW(DOUBLE, predicted_bubble_over_total, "fraction", "1 - ideal_us / predicted_us"),
	ROW(DOUBLE, predicted_span_bubble_over_ideal, "fraction",
	    "the same with predicted_span_us"),
	ROW(DOUBLE, predicted_span_bubble_over_total, "fraction", "likewise"),
	ROW(DOUBLE, published_bubble_over_total, "fraction",
	    "interleaved: predicted with what goes around waited for only by the first of as "
	    "many microbatches as stages, as in Table 5 of arXiv 2401.10241"),
	ROW(DOUBLE, p50_us, "us", "a step as measured: median"),
	ROW(DOUBLE, p99_us, "us", "their 99th percentile"),
	ROW(DOUBLE, min_us, "us", "the shortest"),
	ROW(DOUBLE, max_us, "us", "the longest"),
	ROW(DOUBLE, span_us, "us", "the longest of stage_us"),
	ROW(DOUBLE, bubble_over_ideal, "fraction", "p50_us / ideal_us - 1"),
	ROW(DOUBLE, bubble_over_total, "fraction", "1 - ideal_us / p50_us"),
	ROW(DOUBLE, span_bubble_over_ideal, "fraction", "the same with span_us"),
	ROW(DOUBLE, span_bubble_over_total, "fraction", "likewise"),
	ROW(DOUBLE, off_percent, "%", "p50_us against predicted_us"),
	ROW(NUMBERS, predicted_stage_us, "us", "of each stage, from its first pass to its last"),
	ROW(NUMBERS, stage_us, "us", "the same as measured: medians"),
	ROW(NUMBERS, peak_microbatches, "",
	    "of each stage, most activations held, in units of what F leaves of a microbatch"),
	ROW(NUMBERS, stage_peak_bytes, "bytes", "the same in bytes"),
	ROW(INT, peak_bytes, "bytes", "the most of them"),
	ROW(NUMBERS, counted_peak_microbatches, "",
	    "peak_microbatches as counted from the passes of the last timed step, as they were "
	    "done"),
	ROW(INT, message_bytes, "bytes", "from one part of the model to the next"),
	ROW(INT, sent_bytes, "bytes", "in a step, by all stages"),
	ROW(NUMBERS, stage_sent_bytes, "bytes", "by each stage"),
	ROW(INT, counted_sent_bytes, "bytes",
	    "as counted from the messages of the last timed step, when they had been sent"),
	ROW(NUMBERS, counted_stage_sent_bytes, "bytes", "by each stage"),
	ROW(INT, iterations, "", "timed steps"),
	ROW(INT, wrong, "",
	    "numbers among outputs and gradients that differ from one rank's; null: not "
	    "checked"),
	ROW(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_pass_record
static const struct bb_field pass_fields[] = {
	ROW(STRING, schedule, "", "as in --schedule"),
	ROW(STRING, source, "",
	    "predicted, or measured in the last timed step, in virtual time played"),
	ROW(INT, stage, "", "that does it"),
	ROW(STRING, pass, "", "F, B, W, or BW: both halves at once"),
	ROW(INT, chunk, "", "of the stage, from 0"),
	ROW(INT, microbatch, "", "from 0"),
	ROW(DOUBLE, from_us, "us", "since the step began"),
	ROW(DOUBLE, to_us, "us", "likewise"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_pipeline = {"pipeline", "Of pipelines: one schedule.",
						  pipeline_fields,
						  sizeof(struct bb_pipeline_record)};
const struct bb_record_kind bb_record_pass = {"pass",
					      "Of pipelines, with --gantt: one pass of one stage.",
					      pass_fields, sizeof(struct bb_pass_record)};

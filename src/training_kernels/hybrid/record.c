/*
 * record.c - what the records of hybrid-parallel training carry: one row a field.
 */
#include "harness/results/record_rows.h"
#include "training_kernels/hybrid/hybrid.h"

#define BB_RECORD bb_hybrid_plan_record

static const struct bb_field plan_fields[] = {
	ROW(STRING, model, "", "as it was asked for"),
	ROW(INT, place, "", "among all that fit, the fastest being 1"),
	ROW(STRING, reason, "", "where it wins or loses most"),
	ROW(BOOL, published, "", "the division of --preset"),
	ROW(INT, nranks, "", "of the plan"),
	ROW(INT, node, "", "ranks of a node"),
	ROW(STRING, order, "", "which ranks are next to each other"),
	ROW(INT, tp, "", "ranks that divide each layer"),
	ROW(INT, pp, "", "stages of the pipeline"),
	ROW(INT, dp, "", "replicas"),
	ROW(INT, ep, "", "replicas that divide the experts"),
	ROW(INT, micro_batch, "", "sequences of a micro-batch"),
	ROW(INT, micro_batches, "", "of a step, of each replica"),
	ROW(STRING, recompute, "", "what of the forward pass is made again"),
	ROW(INT, zero, "", "stage of ZeRO"),
	ROW(BOOL, sequence_parallel, "", "among the tensor ranks"),
	ROW(INT, memory_bytes, "bytes", "that the rank needs that needs most"),
	ROW(INT, memory_limit_bytes, "bytes", "that a rank has"),
	ROW(STRING, tightest, "", "what takes most of it"),
	ROW(DOUBLE, step_us, "us", "all of it"),
	ROW(DOUBLE, compute_us, "us", "computations of the slowest stage"),
	ROW(DOUBLE, bubble_us, "us", "what stages wait at the beginning and at the end"),
	ROW(DOUBLE, bubble_over_ideal, "fraction", "(pp - 1) / micro_batches"),
	ROW(DOUBLE, tensor_us, "us", "communication of tensor parallelism"),
	ROW(DOUBLE, expert_us, "us", "of expert parallelism"),
	ROW(DOUBLE, pipeline_us, "us", "messages between stages, as far as they are waited for"),
	ROW(DOUBLE, data_us, "us", "reduction of gradients, and what ZeRO gathers"),
	ROW(DOUBLE, embedding_us, "us", "reduction between head and embedding"),
	ROW(DOUBLE, tensor_bytes, "bytes", "that a rank of the slowest stage sends in a step"),
	ROW(DOUBLE, expert_bytes, "bytes", "likewise"),
	ROW(DOUBLE, pipeline_bytes, "bytes", "likewise"),
	ROW(DOUBLE, data_bytes, "bytes", "likewise"),
	ROW(DOUBLE, embedding_bytes, "bytes", "likewise"),
	ROW(INT, tensor_calls, "", "collectives of a rank in a step"),
	ROW(INT, expert_calls, "", "likewise"),
	ROW(INT, pipeline_calls, "", "messages that a rank sends in a step"),
	ROW(INT, data_calls, "", "collectives of a rank in a step"),
	ROW(INT, activation_bytes, "bytes", "of a micro-batch, from layer to layer"),
	ROW(INT, boundary_bytes, "bytes", "of a message between stages"),
	ROW(INT, tensor_crossing, "", "tensor groups that cross nodes"),
	ROW(INT, expert_crossing, "", "expert groups that do"),
	ROW(INT, pipeline_crossing, "", "pipelines that do"),
	ROW(INT, data_crossing, "", "data-parallel groups that do"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_hybrid_plan = {
	"hybrid_plan", "Of hybrid-parallel training: one way of dividing a model, as planned.",
	plan_fields, sizeof(struct bb_hybrid_plan_record)};

#undef BB_RECORD
#define BB_RECORD bb_hybrid_record

static const struct bb_field fields[] = {
	ROW(STRING, model, "", "as it was asked for"),
	ROW(STRING, part, "",
	    "step: all of it; else a part of it alone: compute, tensor, expert, pipeline, data, "
	    "embedding"),
	ROW(INT, nranks, "", "of the world"),
	ROW(STRING, order, "", "which ranks are next to each other"),
	ROW(INT, tp, "", "ranks that divide each layer"),
	ROW(INT, pp, "", "stages of the pipeline"),
	ROW(INT, dp, "", "replicas"),
	ROW(INT, ep, "", "replicas that divide the experts"),
	ROW(INT, zero, "", "stage of ZeRO"),
	ROW(BOOL, sequence_parallel, "", "among the tensor ranks"),
	ROW(INT, micro_batch, "", "sequences of a micro-batch"),
	ROW(INT, micro_batches, "", "of a step, of each replica"),
	ROW(STRING, algorithm, "", "of the collectives, as it was asked for"),
	ROW(STRING, compute, "", "what computations stood for: --compute"),
	ROW(INT, calls, "", "collectives, or messages sent, of the rank that sends most"),
	ROW(DOUBLE, sent_bytes, "bytes",
	    "that it sends in a step, by the algorithm that was run; where that is a library's "
	    "own the least that any sends"),
	ROW(INT, crossing, "", "groups whose members are on several hosts, or nodes of --cluster"),
	ROW(STRING, links, "", "what joins the ranks"),
	ROW(DOUBLE, time_us, "us", "until the last rank had done it: median"),
	ROW(DOUBLE, low_us, "us", "95% confidence interval of that median"),
	ROW(DOUBLE, high_us, "us", "its upper end"),
	ROW(INT, samples, "", "steps that were timed"),
	ROW(DOUBLE, sent_GBps, "GB/s", "sent_bytes / time_us"),
	ROW(DOUBLE, in_step_us, "us",
	    "that a rank spends on it in a whole step, waiting for partners included; of the "
	    "pipeline that computing waits for messages: mean"),
	ROW(DOUBLE, plan_us, "us",
	    "by --plan's formula for the same division, links and FLOPs, collectives by rings; of "
	    "the step with the bubble"),
	ROW(DOUBLE, plan_bubble_us, "us", "the bubble in it"),
	ROW(INT, wrong, "elements", "of all that was sent and reduced; null: not looked at"),
	ROW(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_hybrid = {
	"hybrid", "Of hybrid-parallel training: a step, or a part of it alone.", fields,
	sizeof(struct bb_hybrid_record)};

/*
 * record.c - what the record of a step of data-parallel training carries: one row a field.
 */
#include "harness/results/record_rows.h"
#include "training_kernels/ddp/ddp.h"

#define BB_RECORD bb_ddp_record
static const struct bb_field fields[] = {
	ROW(STRING, model, "", "as it was asked for"),
	ROW(STRING, family, "", "of models: gpt2, llama, …"),
	ROW(STRING, dtype, "", "of the gradients"),
	ROW(INT, nranks, "", "that reduce them"),
	ROW(INT, batches, "", "of each rank, of which the last one's gradients are reduced"),
	ROW(STRING, grouping, "",
	    "one: all in one bucket; tensor: each by itself; cap: in buckets"),
	ROW(INT, cap_bytes, "bytes", "at which a bucket is closed; null: no cap"),
	ROW(INT, first_cap_bytes, "bytes", "that of the first bucket"),
	ROW(STRING, algorithm, "", "of the all-reduce, as it was asked for"),
	ROW(STRING, overlap, "", "on: reduced while the backward pass goes on; off: after it"),
	ROW(INT, tensors, "", "of the model"),
	ROW(INT, parameters, "", "of the model"),
	ROW(INT, gradient_bytes, "bytes", "of all gradients"),
	ROW(INT, buckets, "", "how many"),
	ROW(INT, least_bytes, "bytes", "the smallest bucket"),
	ROW(DOUBLE, mean_bytes, "bytes", "their mean"),
	ROW(INT, most_bytes, "bytes", "the largest"),
	ROW(INT, last_bytes, "bytes", "the last, which nothing hides"),
	ROW(NUMBERS, bucket_bytes, "bytes", "each of them"),
	ROW(NUMBERS, bucket_tensors, "", "tensors of each"),
	ROW(NUMBERS, bucket_ready_us, "us", "when each is complete, in the backward pass"),
	ROW(DOUBLE, forward_us, "us", "forward pass of a batch"),
	ROW(DOUBLE, backward_us, "us", "its backward pass"),
	ROW(DOUBLE, predicted_step_us, "us",
	    "all batches until the last reduction is done: the step model, where something was run "
	    "fed with its parts as measured alone"),
	ROW(DOUBLE, predicted_reduce_us, "us", "all reductions one after the other"),
	ROW(DOUBLE, predicted_exposed_us, "us", "what of them the step waits for"),
	ROW(DOUBLE, predicted_hidden, "fraction", "1 - exposed / reduce"),
	ROW(DOUBLE, predicted_times_one, "", "how many times as fast as all in one bucket"),
	ROW(DOUBLE, predicted_times_tensor, "", "as each tensor by itself"),
	ROW(DOUBLE, predicted_times_25M, "", "as in buckets of 25 MiB"),
	ROW(STRING, compute, "", "what computations stood for: --compute; null: nothing was run"),
	ROW(DOUBLE, step_us, "us", "measured, until the last rank had done it: median"),
	ROW(DOUBLE, low_us, "us", "95% confidence interval of that median"),
	ROW(DOUBLE, high_us, "us", "its upper end"),
	ROW(DOUBLE, p95_us, "us", "95th percentile of the steps"),
	ROW(INT, samples, "", "steps that were timed"),
	ROW(DOUBLE, compute_us, "us", "the computations without communication: median"),
	ROW(DOUBLE, reduce_us, "us", "the reductions without computations, one after the other"),
	ROW(DOUBLE, reduce_busbw_GBps, "GB/s", "their bus bandwidth"),
	ROW(DOUBLE, exposed_us, "us", "step_us - compute_us: what the step waits for"),
	ROW(DOUBLE, hidden, "fraction",
	    "1 - exposed_us / reduce_us; null: the reductions are too short to tell"),
	ROW(DOUBLE, contention, "",
	    "how many times as long the backward pass takes beside the reductions"),
	ROW(DOUBLE, error_percent, "%", "of the prediction, against step_us"),
	ROW(DOUBLE, broadcast_us, "us",
	    "all parameters from rank 0, by the same algorithm; null: broadcast has none of that "
	    "name"),
	ROW(DOUBLE, times_one, "", "how many times as fast as all in one bucket"),
	ROW(DOUBLE, times_tensor, "", "as each tensor by itself"),
	ROW(DOUBLE, times_25M, "", "as in buckets of 25 MiB, PyTorch's default"),
	ROW(INT, best, "", "1: the shortest step of its overlap"),
	ROW(INT, as_good, "", "1: its confidence interval reaches that of the best"),
	ROW(INT, wrong, "elements", "that are not the average; null: not looked at"),
	ROW(NUMBERS, bucket_us, "us", "reduction of each bucket, without computations"),
	ROW(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_ddp = {
	"data_parallel", "Of data-parallel training: one way to put gradients into buckets.",
	fields, sizeof(struct bb_ddp_record)};

void bb_ddp_describe(const struct bb_ddp *ddp, int nranks, struct bb_ddp_record *r)
{
	const struct bb_ddp_options *a = &ddp->asked;
	const struct bb_model *m = &ddp->model;
	double forward_s, backward_s;

	bb_record_init(&bb_record_ddp, r);
	r->model = m->name;
	r->family = m->family;
	r->dtype = bb_dtype_name(a->dtype);
	r->nranks = nranks;
	r->batches = a->accumulate;
	r->tensors = (int64_t)m->ntensors;
	r->parameters = (int64_t)m->parameters;
	r->gradient_bytes = (int64_t)(m->parameters * bb_dtype_size(a->dtype));
	if (bb_ddp_compute(ddp, &forward_s, &backward_s)) {
		r->forward_us = 1e6 * forward_s;
		r->backward_us = 1e6 * backward_s;
	}
}

void bb_ddp_describe_buckets(struct bb_ddp_record *r, const struct bb_buckets *b, uint64_t cap,
			     uint64_t first, const double *ready_s, double *numbers)
{
	double *bytes = numbers, *tensors = bytes + b->n, *ready = tensors + b->n;
	const bool capped = cap != BB_BUCKET_UNLIMITED && cap != 1;

	for (size_t i = 0; i < b->n; i++) {
		bytes[i] = (double)b->list[i].bytes;
		tensors[i] = (double)b->list[i].count;
		ready[i] = ready_s ? 1e6 * ready_s[b->list[i].first + b->list[i].count - 1] : 0;
	}
	r->grouping = capped ? "cap" : cap == 1 ? "tensor" : "one";
	r->cap_bytes = capped ? (int64_t)cap : BB_ABSENT;
	r->first_cap_bytes = capped ? (int64_t)first : BB_ABSENT;
	r->buckets = (int64_t)b->n;
	r->least_bytes = (int64_t)bb_buckets_least(b);
	r->most_bytes = (int64_t)bb_buckets_most(b);
	r->last_bytes = (int64_t)b->list[b->n - 1].bytes;
	r->mean_bytes = (double)b->bytes / (double)b->n;
	r->bucket_bytes = (struct bb_numbers){bytes, b->n};
	r->bucket_tensors = (struct bb_numbers){tensors, b->n};
	r->bucket_ready_us = (struct bb_numbers){ready, ready_s ? b->n : 0};
}

/*
 * ddp_record.c - what the record of a step of data-parallel training carries: one row a field.
 */
#include "training_kernels/ddp.h"

#include <stddef.h>

#define ROW(kind, field, unit_, help_)                                                             \
	{                                                                                          \
		.name = #field, .type = BB_FIELD_##kind,                                           \
		.offset = offsetof(struct bb_ddp_record, field), .unit = unit_, .help = help_      \
	}

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
	ROW(DOUBLE, predicted_step_us, "us", "all batches until the last reduction is done"),
	ROW(DOUBLE, predicted_reduce_us, "us", "all reductions one after the other"),
	ROW(DOUBLE, predicted_exposed_us, "us", "what of them the step waits for"),
	ROW(DOUBLE, predicted_hidden, "fraction", "1 - exposed / reduce"),
	ROW(DOUBLE, predicted_times_one, "", "how many times as fast as all in one bucket"),
	ROW(DOUBLE, predicted_times_tensor, "", "as each tensor by itself"),
	ROW(DOUBLE, predicted_times_25M, "", "as in buckets of 25 MiB"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_ddp = {
	"data_parallel", "Of data-parallel training: one way to put gradients into buckets.",
	fields, sizeof(struct bb_ddp_record)};

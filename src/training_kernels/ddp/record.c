/*
 * record.c - the record of a step of data-parallel training, and its table.
 */
#include "training_kernels/ddp/ddp.h"

#include <stdio.h>

static void cap_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_ddp_record *r = record;
	char cap[BB_UNIT_TEXT];

	snprintf(text, BB_CELL_TEXT, "%s",
		 r->cap_bytes == BB_ABSENT ? r->grouping
					   : bb_format_size(cap, (uint64_t)r->cap_bytes));
}

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

/* ---- the table ------------------------------------------------------------------------------ */

const char *bb_ddp_cap_text(char text[BB_UNIT_TEXT], uint64_t cap)
{
	if (cap != BB_BUCKET_UNLIMITED && cap != 1)
		return bb_format_size(text, cap);
	snprintf(text, BB_UNIT_TEXT, "%s", cap == 1 ? "tensor" : "one");
	return text;
}

static void ddp_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_ddp_record *r = record;
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %lld parameters, %.2f MiB of gradients (%s)\n", r->model,
		       (long long)r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	bb_strbuf_addf(out, "# Batch: forward %s, backward %s (%s)",
		       bb_format_duration(forward, 1e-6 * r->forward_us),
		       bb_format_duration(backward, 1e-6 * r->backward_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %lld batches per step", (long long)r->batches);
	bb_strbuf_add(out,
		      "\n# Buckets: one = a single bucket, tensor = a bucket per tensor. Times "
		      "are medians.\n");
}

#define BB_RECORD bb_ddp_record
BB_RECORD_KIND(bb_record_ddp, BB_DDP_FIELDS, "data_parallel",
	       "Data-parallel training: one size of gradient buckets.", .about = ddp_about);

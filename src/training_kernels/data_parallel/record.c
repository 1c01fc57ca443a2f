/*
 * record.c - the record of a strategy, and its table.
 */
#include "core/units.h"
#include "training_kernels/data_parallel/data_parallel.h"

#include <stddef.h>
#include <stdio.h>

static void servers_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_dp_record *r = record;

	if (r->servers == BB_ABSENT)
		snprintf(text, BB_CELL_TEXT, "-");
	else if (r->colocated)
		snprintf(text, BB_CELL_TEXT, "all");
	else
		snprintf(text, BB_CELL_TEXT, "%lld", (long long)r->servers);
}

/* ---- the table ---------------------------------------------------------------------------- */

static void dp_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_dp_record *r = record;
	char batch[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %lld parameters, M = %.3f MiB of gradients (%s)\n", r->model,
		       (long long)r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	if (r->train_steps != BB_ABSENT) {
		bb_strbuf_addf(
			out,
			"# Trained for %lld steps of %lld samples; nothing is timed. #wrong: "
			"numbers that differ from one rank with all samples\n",
			(long long)r->train_steps, (long long)r->samples);
		return;
	}
	bb_strbuf_addf(out, "# Batch: forward and backward %s (%s)",
		       bb_format_duration(batch, 1e-6 * r->batch_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %lld batches per step", (long long)r->batches);
	bb_strbuf_add(out,
		      "\n# k: number of servers; all: every worker is one. root, worker: memory "
		      "of a root or server, and of a worker. wire: bytes of the busiest rank\n");
}

#define BB_RECORD bb_dp_record
BB_RECORD_KIND(bb_record_way, BB_DP_FIELDS, "way",
	       "Data-parallel training: a step by one strategy.", .about = dp_about);

/*
 * text.c - a sweep over sizes of buckets as a table.
 */
#include "harness/results/sink_table.h"
#include "training_kernels/ddp/ddp.h"

#include <stdio.h>

const char *bb_ddp_cap_text(char text[BB_UNIT_TEXT], uint64_t cap)
{
	if (cap != BB_BUCKET_UNLIMITED && cap != 1)
		return bb_format_size(text, cap);
	snprintf(text, BB_UNIT_TEXT, "%s", cap == 1 ? "tensor" : "one");
	return text;
}

static void cap_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_ddp_record *r = record;
	char cap[BB_UNIT_TEXT];

	snprintf(text, BB_CELL_TEXT, "%s",
		 r->cap_bytes == BB_ABSENT ? r->grouping
					   : bb_format_size(cap, (uint64_t)r->cap_bytes));
}

static void about(const void *record, struct bb_strbuf *out)
{
	const struct bb_ddp_record *r = record;
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %lld parameters, %.2f MiB of gradients (%s)\n", r->model,
		       (long long)r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	bb_strbuf_addf(out, "# A batch: forward %s, backward %s (%s)",
		       bb_format_duration(forward, 1e-6 * r->forward_us),
		       bb_format_duration(backward, 1e-6 * r->backward_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %lld batches a step", (long long)r->batches);
	bb_strbuf_add(out,
		      "\n# Buckets: one = all gradients in one, tensor = each by itself. Times "
		      "are medians.\n");
}

#define MS(head_, width_, field_)                                                                  \
	{                                                                                          \
		.head = head_, .unit = "(ms)", .width = width_, .field = field_, .scale = 1e-3,    \
		.decimals = 2                                                                      \
	}

static const struct bb_column columns[] = {
	{.head = "cap", .width = 7, .cell = cap_cell},
	{.head = "buckets", .width = 7, .field = "buckets"},
	{.head = "largest",
	 .unit = "(MiB)",
	 .width = 8,
	 .field = "most_bytes",
	 .scale = 1.0 / (1 << 20),
	 .decimals = 2},
	{.head = "algo", .width = 13, .field = "algorithm"},
	{.head = "overlap", .width = 7, .field = "overlap"},
	MS("reduce", 8, "reduce_us"),
	{.head = "busbw",
	 .unit = "(GB/s)",
	 .width = 7,
	 .field = "reduce_busbw_GBps",
	 .decimals = 2},
	MS("compute", 8, "compute_us"),
	MS("step", 8, "step_us"),
	MS("exposed", 8, "exposed_us"),
	{.head = "hidden",
	 .unit = "(%)",
	 .width = 6,
	 .field = "hidden",
	 .scale = 100,
	 .decimals = 1},
	{.head = "contend", .unit = "(times)", .width = 7, .field = "contention", .decimals = 2},
	MS("model", 8, "predicted_step_us"),
	{.head = "error", .unit = "(%)", .width = 6, .field = "error_percent", .decimals = 1},
	{.head = "vs one", .unit = "(times)", .width = 7, .field = "times_one", .decimals = 3},
	{.head = "vs tensor",
	 .unit = "(times)",
	 .width = 9,
	 .field = "times_tensor",
	 .decimals = 3},
	{.head = "vs 25M", .unit = "(times)", .width = 7, .field = "times_25M", .decimals = 3},
	{.head = "#wrong", .width = 6, .field = "wrong"},
	{.head = NULL},
};

static const struct bb_table table = {&bb_record_ddp, columns, about};

bb_status bb_ddp_text_open(struct bb_sink **sink, FILE *file, const char *path)
{
	return bb_sink_table_open(sink, file, path, &table);
}

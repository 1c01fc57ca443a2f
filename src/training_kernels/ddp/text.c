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

static const struct bb_table table = {&bb_record_ddp, about};

bb_status bb_ddp_text_open(struct bb_sink **sink, FILE *file, const char *path)
{
	return bb_sink_table_open(sink, file, path, &table);
}

/*
 * listing.c - the model and its buckets as text.
 */
#include "training_kernels/ddp/ddp.h"

#include "core/table.h"

#define MIB (1.0 / (1 << 20))
#define MOST_LINES 7 /* of a list of buckets, before the last one */

/* "291.6 GFLOPs" */
static void add_flops(struct bb_strbuf *out, double flops)
{
	static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
	size_t unit = 0;

	for (; flops >= 1000 && unit < 6; unit++)
		flops /= 1000;
	bb_strbuf_addf(out, "%.4g %sFLOPs", flops, units[unit]);
}

void bb_ddp_add_model(const struct bb_ddp *ddp, struct bb_strbuf *out)
{
	const struct bb_model *m = &ddp->replica.model;
	const uint64_t bytes = ddp->replica.bytes;

	bb_strbuf_addf(out, "# ddp_bucket_perf: %s (%s), gradients in %s\n", m->name, m->family,
		       bb_dtype_name(ddp->options.dtype));
	bb_model_add_origin(out, m);
	bb_strbuf_addf(out,
		       "# %zu tensors, %llu parameters, %llu bytes of gradients (%.2f MiB)\n# ",
		       m->ntensors, (unsigned long long)m->parameters, (unsigned long long)bytes,
		       (double)bytes * MIB);
	add_flops(out, m->forward);
	bb_strbuf_add(out, " forward, ");
	add_flops(out, m->backward);
	if (m->hyper.seq)
		bb_strbuf_addf(out, " backward, of a sequence of %lld tokens, %s\n",
			       (long long)m->hyper.seq,
			       bb_attention_name((enum bb_attention)ddp->options.attention));
	else
		bb_strbuf_add(out, " backward, of one sample\n");
}

/* A line for the equal buckets FIRST to END - 1 of CAP. */
static void add_bucket(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap, size_t first,
		       size_t end, const struct bb_ddp_reductions *timed, struct bb_text_table *t)
{
	const struct bb_bucket *b = &cap->buckets.list[first];

	if (end - first > 1)
		bb_table_cellf(t, "%zu-%zu", first, end - 1);
	else
		bb_table_cellf(t, "%zu", first);
	bb_table_cellf(t, "%zu\t%.3f", b->count, (double)b->bytes * MIB);
	if (ddp->replica.batch_s > 0)
		bb_table_cellf(t, "%.3f", 1e3 * bb_bucket_ready(b, ddp->ready_s));
	if (timed)
		bb_table_cellf(t, "%.3f\t%.3f", 1e3 * timed->start_s[first],
			       1e3 * timed->end_s[end - 1]);
}

static void add_list(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap,
		     const struct bb_ddp_reductions *timed, struct bb_strbuf *out)
{
	static const char *const heads[] = {"bucket", "tensors", "MiB", "ready", "start", "end"};
	const struct bb_ddp_cap *last = bb_ddp_last_same(ddp, cap);
	const bool computes = ddp->replica.batch_s > 0;
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};
	const size_t n = cap->buckets.n;
	size_t k = 0;

	while (last >= &ddp->caps[ddp->nrequested])
		last--;
	bb_strbuf_addf(out, "#\n# Buckets of %s%s%s%s%s\n", cap->name, last != cap ? " to " : "",
		       last != cap ? last->name : "",
		       computes ? ", in ms of the backward pass" : "",
		       timed && !timed->overlap ? ", reduced after it" : "");
	for (size_t i = 0; i < (timed ? 6 : computes ? 4 : 3); i++)
		bb_table_column(&t, heads[i], "", i == 1 ? 8 : 10);
	for (int line = 0; k < n && line < MOST_LINES; line++) {
		const struct bb_bucket *list = cap->buckets.list;
		size_t end = k + 1; /* of equal buckets */

		while (end < n && list[end].bytes == list[k].bytes &&
		       list[end].count == list[k].count)
			end++;
		add_bucket(ddp, cap, k, end, timed, &t);
		k = end;
	}
	bb_table_print(&t, out);
	if (k + 1 < n)
		bb_strbuf_addf(out, "#%11s %zu more\n", "...", n - 1 - k);
	if (k < n) {
		add_bucket(ddp, cap, n - 1, n, timed, &t);
		bb_table_print(&t, out);
	}
	bb_table_free(&t);
}

void bb_ddp_add_buckets(const struct bb_ddp *ddp, const struct bb_ddp_reductions *reductions,
			struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {
		{"cap", "", 9},           {"buckets", "", 8},  {"min", "(MiB)", 8},
		{"mean", "(MiB)", 8},     {"max", "(MiB)", 8}, {"last", "(MiB)", 8},
		{"tensors", "(mean)", 8}, {NULL, NULL, 0},
	};
	struct bb_text_table t = {.limit = bb_table_limit(stdout), .merges = 1};
	const uint64_t first = ddp->options.first_cap;
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "#\n# Buckets; the first is closed at %s\n",
		       first ? bb_format_size(size, first) : "cap");
	bb_table_columns(&t, heads, 1);
	for (size_t i = 0; i < ddp->nrequested; i++) {
		const struct bb_buckets *b = &ddp->caps[i].buckets;

		bb_table_cellf(&t, "%s\t%zu\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f", ddp->caps[i].name, b->n,
			       (double)b->least * MIB, (double)b->bytes * MIB / (double)b->n,
			       (double)b->most * MIB, (double)b->list[b->n - 1].bytes * MIB,
			       (double)ddp->replica.model.ntensors / (double)b->n);
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
	for (size_t i = 0; i < ddp->nrequested; i++)
		if (ddp->caps[i].same == i)
			add_list(ddp, &ddp->caps[i],
				 reductions && reductions[i].start_s ? &reductions[i] : NULL, out);
}

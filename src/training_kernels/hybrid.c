/*
 * hybrid.c - the benchmark of hybrid-parallel training.
 */
#include "training_kernels/hybrid.h"

static void list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "published runs (--preset):\n");
	for (const struct bb_hybrid_preset *p = bb_hybrid_presets; p->name; p++)
		bb_strbuf_addf(out, "    %-14s %s\n", p->name, p->source);
	bb_model_list(out);
}

static void close_hybrid(struct bb_run *run)
{
	struct bb_hybrid *h = run->own;

	bb_model_free(&h->model);
}

const struct bb_benchmark bb_hybrid_benchmark = {
	.brief = "Hybrid-parallel training: how should a model be divided among ranks?",
	.own_bytes = sizeof(struct bb_hybrid),
	.options = bb_hybrid_rows,
	.check = bb_hybrid_check,
	.list = list,
	.show = bb_hybrid_show,
	.rows = &bb_record_hybrid_plan,
	.close = close_hybrid,
};

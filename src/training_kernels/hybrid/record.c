/*
 * record.c - the records of hybrid-parallel training, and the table of its steps.
 */
#include "core/units.h"
#include "training_kernels/hybrid/hybrid.h"

#include <math.h>

#define BB_RECORD bb_hybrid_plan_record
BB_RECORD_KIND(bb_record_hybrid_plan, BB_HYBRID_PLAN_FIELDS, "hybrid_plan",
	       "Hybrid-parallel training: a division of a model, as planned.");

/* ---- the table ------------------------------------------------------------------------------ */

static void hybrid_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_hybrid_record *r = record;

	bb_strbuf_addf(
		out,
		"# %s: dp %lld, tp %lld, pp %lld, ep %lld (%s), ZeRO %lld%s, %lld micro-batch%s "
		"of %lld sequence%s per replica; collectives: %s; computations: %s\n",
		r->model, (long long)r->dp, (long long)r->tp, (long long)r->pp, (long long)r->ep,
		r->order, (long long)r->zero, r->sequence_parallel ? ", sequence parallel" : "",
		(long long)r->micro_batches, r->micro_batches == 1 ? "" : "es",
		(long long)r->micro_batch, bb_plural(r->micro_batch), r->algorithm, r->compute);
	bb_strbuf_addf(out, "# links: %s\n", r->links);
	if (!isnan(r->plan_us))
		bb_strbuf_addf(out,
			       "# plan: formula of --plan with rings and all stages as slow as the "
			       "slowest; the bubble of its step is %.3f ms\n",
			       1e-3 * r->plan_bubble_us);
	bb_strbuf_add(
		out, "# alone: median of the part without the others. in step: mean of ranks, with "
		     "waits for partners; pipeline: waits for messages\n"
		     "# sent: by the rank that sends most; by an algorithm of a library, the least "
		     "of all algorithms\n");
}

#undef BB_RECORD
#define BB_RECORD bb_hybrid_record
BB_RECORD_KIND(bb_record_hybrid, BB_HYBRID_FIELDS, "hybrid",
	       "Hybrid-parallel training: a step, or a part of it alone.", .about = hybrid_about);

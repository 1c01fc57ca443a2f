/*
 * text.c - fields of the records, and the table of stages.
 */
#include "core/units.h"
#include "training_kernels/zero/zero.h"

static void add_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_zero_record *r = record;

	bb_strbuf_addf(out, "# %s: %lld parameters in %lld layer%s, %s", r->model,
		       (long long)r->parameters, (long long)r->units, bb_plural(r->units),
		       r->dtype);
	if (r->accumulate > 1)
		bb_strbuf_addf(out, ", %lld microbatches per step", (long long)r->accumulate);
	if (r->alone)
		bb_strbuf_addf(out, "; only rank %lld of %lld", (long long)r->rank,
			       (long long)r->nranks);
	bb_strbuf_add(out, "\n");
}

void bb_zero_text_phases(const struct bb_zero_record *r, struct bb_strbuf *out)
{
	bb_strbuf_addf(out,
		       "#       forward %.2f ms (waits %.2f), backward %.2f (waits %.2f), "
		       "optimizer %.2f, gather %.2f",
		       1e-3 * r->forward_us, 1e-3 * r->forward_wait_us, 1e-3 * r->backward_us,
		       1e-3 * r->backward_wait_us, 1e-3 * r->optimise_us, 1e-3 * r->gather_us);
	if (r->skipped != BB_ABSENT)
		bb_strbuf_addf(out, "; %lld of %lld steps skipped, loss scale %g",
			       (long long)r->skipped, (long long)r->steps, r->loss_scale);
	bb_strbuf_add(out, "\n");
}

#define BB_RECORD bb_zero_record
BB_RECORD_KIND(bb_record_zero, BB_ZERO_FIELDS, "zero", "ZeRO: a stage, and the memory of one rank.",
	       .about = add_about);

#undef BB_RECORD
#define BB_RECORD bb_zero_moment_record
BB_RECORD_KIND(bb_record_zero_moment, BB_ZERO_MOMENT_FIELDS, "zero_moment",
	       "ZeRO: the memory of one rank at a point of its first step.");

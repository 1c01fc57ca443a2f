/*
 * record.c - the record of a layer of experts, and its table.
 */
#include "core/units.h"
#include "training_kernels/moe/moe.h"

static void moe_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_moe_record *r = record;

	bb_strbuf_addf(out,
		       "# %lld expert%s on %lld rank%s; %lld tokens of each rank through %lld "
		       "expert%s each, "
		       "%lld elements of %s: %.3f MB per rank\n",
		       (long long)r->experts, bb_plural(r->experts), (long long)r->nranks,
		       bb_plural(r->nranks), (long long)r->tokens, (long long)r->top_k,
		       bb_plural(r->top_k), (long long)r->hidden, r->dtype,
		       1e-6 * (double)r->sent_bytes);
	if (r->capacity > 0)
		bb_strbuf_addf(out, "# an expert takes at most %g times its even share\n",
			       r->capacity);
}

#define BB_RECORD bb_moe_record
BB_RECORD_KIND(bb_record_moe, BB_MOE_FIELDS, "experts",
	       "Expert parallelism: a layer of experts under one load.", .about = moe_about);

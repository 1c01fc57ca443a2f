/*
 * formula.c - bytes and times of a step that formulas give for the options of a run.
 */
#include "training_kernels/zero/zero.h"

#include <math.h>

void bb_zero_formula_bytes(const struct bb_zero_rank *z, struct bb_zero_record *r)
{
	const struct bb_zero_options *a = &z->zero->options;
	const uint64_t n = (uint64_t)z->zero->nranks, steps = (uint64_t)a->accumulate;
	const uint64_t among = z->reshard > 0 ? (uint64_t)z->reshard : n;
	const uint64_t size = bb_dtype_size(a->dtype);
	uint64_t sent = 0, across = 0;

	for (size_t u = 0; u < z->zero->units.n && !z->compressed; u++) {
		const uint64_t padded = z->places.list[u].padded, all = (n - 1) * (padded / n);
		const struct bb_coded_form *forms = z->live[u].forms;
		const uint64_t first = z->gathers_codes ? bb_coded_sent(&forms[0], 0) : all * size;
		const uint64_t again = z->zero->units.list[u].kept ? 0
				       : z->reshard > 0 ? (among - 1) * (padded / among) * size
							: first;
		const uint64_t node = z->reduces_codes ? bb_coded_sent(&forms[1], 0) : 0;
		const uint64_t reduce = z->reduces_codes ? bb_coded_sent(&forms[1], 1)
							 : all * bb_dtype_size(bb_zero_reduced(z));

		if (z->stage == 3)
			sent += steps * (first + again + node + reduce);
		else
			sent += bb_zero_bytes(&z->zero->recipe, padded, z->stage, n, steps) +
				steps * (reduce - all * size);
		across += steps * (first + (z->reshard > 0 && among < n ? 0 : again) +
				   reduce * (z->reduces_codes ? (uint64_t)a->qgz : 1));
	}
	for (size_t u = 0; u < z->zero->units.n && z->compressed && z->has_peers; u++)
		for (int phase = 0; phase < bb_coded_phases(&z->live[u].forms[1]); phase++)
			sent += bb_coded_sent(&z->live[u].forms[1], phase);
	r->formula_wire_bytes = (int64_t)sent;
	if (z->stage == 3 && z->nodes.local < z->zero->nranks)
		r->across_bytes = (int64_t)across;
}

void bb_zero_formula_passes(const struct bb_zero_rank *z, struct bb_zero_record *r)
{
	const struct bb_zero_options *a = &z->zero->options;
	const double each = 1.0 / (double)(a->accumulate * r->units);
	struct bb_zero_pace pace = {
		.units = (size_t)r->units,
		.compute = (r->forward_us - r->forward_wait_us) * each,
		.gather = r->forward_gather_us * each,
		.depth = (size_t)a->prefetch,
	};

	r->formula_forward_us = (double)a->accumulate * bb_zero_pass_seconds(&pace);
	pace.compute = (r->backward_us - r->backward_wait_us) * each;
	pace.reduce = r->reduce_us * each;
	pace.prefetch = (enum bb_zero_prefetch)a->backward_prefetch;
	pace.separate = a->separate;
	pace.kept = z->reshard == 1 || z->zero->units.list[z->zero->units.order[1][0]].kept;
	/* Of the units that are gathered, all but a kept one. */
	pace.gather = r->backward_gather_us /
		      (double)(a->accumulate * (r->units - (pace.kept && r->units > 1)));
	r->formula_backward_us = (double)a->accumulate * bb_zero_pass_seconds(&pace);
}

void bb_zero_formula_add(const struct bb_zero_options *a, const struct bb_zero_record *r,
			 struct bb_strbuf *out)
{
	if (r->stage < 3 || !(a->units_text_given || a->padding_given || a->prefetch_given ||
			      a->backward_prefetch_given || a->separate || a->reshard > 0 ||
			      a->qwz || a->qgz || a->reduce_dtype_given))
		return;
	bb_strbuf_addf(out,
		       "# units: %jd, at most %jd gathered at once; formula of equal units: "
		       "forward %.2f ms, backward %.2f ms, wire %.3f MB\n",
		       r->units, r->gathered_units, 1e-3 * r->formula_forward_us,
		       1e-3 * r->formula_backward_us, 1e-6 * (double)r->formula_wire_bytes);
	if (r->across_bytes != BB_ABSENT)
		bb_strbuf_addf(out, "# A node sends %.3f MB to others\n",
			       1e-6 * (double)r->across_bytes);
	for (int i = 0; i < 2; i++)
		if (!isnan(i ? r->reduce_error : r->gather_error))
			bb_strbuf_addf(out, "# %s: %.2f%% RMS error\n",
				       i ? "Gradients reduced in int4"
					 : "Parameters gathered in int8",
				       100 * (i ? r->reduce_error : r->gather_error));
}

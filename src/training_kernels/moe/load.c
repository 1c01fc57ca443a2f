#include "training_kernels/moe/load.h"

#include <math.h>
#include <stdlib.h>

int bb_moe_choice(const struct bb_moe_load *load, int64_t token, int slot)
{
	const double at = slot + ((double)token + 0.5) / (double)load->form.tokens;
	int low = 0, high = load->form.experts;

	while (high - low > 1) {
		const int middle = (low + high) / 2;

		if (load->shares[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

bb_status bb_moe_load_make(struct bb_moe_load *load, const struct bb_moe_form *f,
			   struct bb_error *error)
{
	const size_t n = (size_t)f->nranks, experts = (size_t)f->experts, each = experts / n;
	const double most = ceil(f->capacity * (double)f->tokens * f->top_k / f->experts);
	double left = f->top_k, rest = 0, below = 0;

	*load = (struct bb_moe_load){
		.form = *f,
		.shares = calloc(experts + 1, sizeof(*load->shares)),
		.rows = calloc(experts, sizeof(*load->rows)),
		.rows_to = calloc(n, sizeof(*load->rows_to)),
		.rows_before = calloc(n + 1, sizeof(*load->rows_before)),
	};
	if (!load->shares || !load->rows || !load->rows_to || !load->rows_before)
		return bb_no_memory(error, "the loads of experts");
	/* Shares of TOP_K in proportion to (e + 1)^-skew, at most 1 each, as running sums. Weights
	   fall, so the shares that are cut at 1 come first. */
	for (size_t e = 0; e < experts; e++) {
		load->shares[e] = pow((double)e + 1, -f->skew);
		rest += load->shares[e];
	}
	for (size_t e = 0; e < experts; e++) {
		const double weight = load->shares[e];
		const double share = rest > 0 ? left * weight / rest : 0;
		const double mine = share < 1 ? share : 1;

		load->shares[e] = below;
		below += mine;
		/* After the last cut share, the rest stays in proportion. */
		left -= mine;
		rest -= weight;
	}
	load->shares[experts] = f->top_k;
	for (int64_t token = 0; token < f->tokens; token++)
		for (int slot = 0; slot < f->top_k; slot++)
			load->rows[bb_moe_choice(load, token, slot)]++;
	for (size_t e = 0; e < experts; e++) {
		if (f->capacity > 0 && (double)load->rows[e] > most) {
			load->dropped += load->rows[e] - (int64_t)most;
			load->rows[e] = (int64_t)most;
		}
		load->rows_to[e / each] += load->rows[e];
	}
	for (int r = 0; r < f->nranks; r++) {
		load->rows_before[r + 1] = load->rows_before[r] + load->rows_to[r];
		if (load->rows_to[r] > load->rows_to[load->busiest])
			load->busiest = r;
	}
	return BB_OK;
}

void bb_moe_load_free(struct bb_moe_load *load)
{
	free(load->shares);
	free(load->rows);
	free(load->rows_to);
	free(load->rows_before);
	*load = (struct bb_moe_load){.shares = NULL};
}

int64_t bb_moe_rows_at(const struct bb_moe_load *load, int rank)
{
	return load->form.nranks * load->rows_to[rank];
}

int64_t bb_moe_rows_received(const struct bb_moe_load *load, int rank)
{
	return (load->form.nranks - 1) * load->rows_to[rank];
}

double bb_moe_imbalance(const struct bb_moe_load *load)
{
	const int n = load->form.nranks;

	return load->rows_before[n] > 0
		       ? (double)load->rows_to[load->busiest] * n / (double)load->rows_before[n]
		       : 1;
}

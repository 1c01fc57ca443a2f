#include "simulator/nccl/search.h"

#include <math.h>

/* The rates that NCCL tries, from the highest on; 0 ends them. */
static const double *rates_tried(const struct bb_nccl_constants *c, const struct bb_nccl_machine *m)
{
	return m->nodes > 1 ? c->channel_rates : c->channel_rates_node;
}

static double gpus_of_node(const struct bb_nccl_machine *m)
{
	return (double)m->ranks / m->nodes;
}

/* The channels of RATE for which the GPUs of a node have links. A factor above 1: the links may be
   an exact multiple of RATE but for rounding. */
static double links_for(const struct bb_nccl_machine *m, double rate, bool returns)
{
	const double gpus = gpus_of_node(m), each = floor(m->gpu_rate / rate * (1 + 1e-9));

	if (gpus == 1)
		return INFINITY;
	return returns ? each : floor(each * gpus / (gpus - 1));
}

static double nics_for(const struct bb_nccl_machine *m, double rate)
{
	return m->nodes > 1 ? m->rails * floor(m->nic_rate / rate) : INFINITY;
}

/* NCCL tries no rate below half of the best, and none once all links are in use. */
static bool is_done(const struct bb_nccl_machine *m, const struct bb_nccl_channels *best,
		    double rate)
{
	return best->count > 0 &&
	       (rate <= 0.49 * best->between || best->count * best->between >= m->gpu_rate);
}

struct bb_nccl_channels bb_nccl_search_rings(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m)
{
	const double *rates = rates_tried(c, m);
	struct bb_nccl_channels best = {.count = 0};

	for (int i = 0; i < BB_NCCL_CHANNEL_RATES && rates[i] > 0; i++) {
		double count;

		if (is_done(m, &best, rates[i]))
			break;
		count = fmin(c->channels_most,
			     fmin(nics_for(m, rates[i]), links_for(m, rates[i], m->nodes == 1)));
		if (count * rates[i] > best.count * best.between)
			best = (struct bb_nccl_channels){count, rates[i], rates[i]};
	}
	if (best.count == 0) /* NCCL then has one channel of a nominal rate. */
		best = (struct bb_nccl_channels){1, 0.1e9, 0.1e9};
	if (best.between >= c->channels_double[best.count > 4]) {
		const double count = fmin(2 * best.count, c->channels_most);

		best.inside = best.between = best.between / ceil(count / best.count);
		best.count = count;
	}
	return best;
}

/* NCCL raises the rate within a node until it is twice that between nodes, as far as links allow.
 */
static double raised(const struct bb_nccl_constants *c, const struct bb_nccl_machine *m,
		     double count, double rate)
{
	double inside = rate;
	int i = 0;

	while (i + 1 < BB_NCCL_CHANNEL_RATES && c->channel_rates[i + 1] > rate)
		i++;
	for (; i >= 0 && inside < 2 * rate && links_for(m, c->channel_rates[i], false) >= count;
	     i--)
		inside = fmax(inside, c->channel_rates[i]);
	return inside;
}

struct bb_nccl_channels bb_nccl_search_trees(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m,
					     const struct bb_nccl_channels *rings)
{
	const double *rates = rates_tried(c, m);
	struct bb_nccl_channels trees = *rings;

	for (int i = 0; i < BB_NCCL_CHANNEL_RATES && rates[i] > rings->between; i++)
		if (fmin(nics_for(m, rates[i]), links_for(m, rates[i], false)) >= rings->count) {
			trees.inside = trees.between = rates[i];
			break;
		}
	if (m->nodes > 1)
		trees.inside = raised(c, m, trees.count, trees.between);
	return trees;
}

/* Each head has a NIC of its own, if there are any. */
static double heads_for(const struct bb_nccl_constants *c, const struct bb_nccl_machine *m,
			double rate)
{
	const double heads = fmin(c->nvls_heads, gpus_of_node(m));

	if (m->nodes == 1)
		return heads;
	return rate <= m->nic_rate ? fmin(heads, m->rails) : 0;
}

struct bb_nccl_channels bb_nccl_search_heads(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m)
{
	const double *rates = rates_tried(c, m);
	struct bb_nccl_channels best = {.count = 0};

	for (int i = 0; i < BB_NCCL_CHANNEL_RATES && rates[i] > 0; i++) {
		const double heads = heads_for(c, m, rates[i]);

		if (is_done(m, &best, rates[i]))
			break;
		/* A head has the rate of all heads, and its own once more. */
		if ((heads + 1) * rates[i] <= m->gpu_rate * (1 + 1e-9) &&
		    (heads > best.count || heads * rates[i] > best.count * best.between))
			best = (struct bb_nccl_channels){heads, rates[i], rates[i]};
	}
	for (int i = BB_NCCL_CHANNEL_RATES - 1; i >= 0 && m->nodes > 1 && best.count > 0; i--)
		if (rates[i] > best.between && best.between < 2 * best.inside &&
		    rates[i] <= m->nic_rate)
			best.between = rates[i];
	return best;
}

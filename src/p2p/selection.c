/*
 * selection.c - the ranks whose pairs are measured: all; of many virtual ones those of some nodes,
 * which cover every kind of path and every rank that a fault concerns.
 */
#include "p2p/pairs.h"

#include <stdio.h>
#include <stdlib.h>

#define FIRST_NODES 4
#define FIRST_LINKED 8 /* ranks, where all links are alike */

/* The selected ranks, and those to select from. */
struct choice {
	const struct bb_pairs *pairs;
	int nranks, per_node;
	bool *chosen; /* [rank] */
};

static void choose_node(const struct choice *c, int node)
{
	for (int i = 0; i < c->per_node; i++)
		if (node * c->per_node + i < c->nranks)
			c->chosen[node * c->per_node + i] = true;
}

static void choose_rank(const struct choice *c, int rank)
{
	choose_node(c, rank / c->per_node);
}

/* Some nodes, so that a slow one is not typical, and the nearest ones behind other switches: in
   another domain, leaf and pod. */
static void choose_nodes(const struct choice *c, const struct bb_cluster *cluster)
{
	const double *f = cluster->figures;

	for (int i = 0; i < FIRST_NODES; i++)
		choose_node(c, i);
	choose_node(c, cluster->domain);
	choose_node(c, (int)f[BB_FIGURE_LEAF_NODES]);
	choose_node(c, (int)f[BB_FIGURE_POD_NODES]);
}

static void choose_faulty(const struct choice *c)
{
	const struct bb_backend_config *config = &c->pairs->run->options.config;
	const struct bb_virtual_config *virtual = &c->pairs->run->options.virtual;

	if (virtual->flawed)
		choose_node(c, virtual->flaw.node);
	if (config->slow_link.factor > 0) {
		choose_rank(c, config->slow_link.from);
		choose_rank(c, config->slow_link.to);
	}
	if (virtual->slow_rank.seconds > 0)
		choose_rank(c, virtual->slow_rank.rank);
}

static void choose(const struct choice *c)
{
	const struct bb_cluster *cluster = c->pairs->run->options.cluster;

	for (int i = 0; i < FIRST_LINKED && !cluster; i++)
		choose_rank(c, i);
	if (cluster)
		choose_nodes(c, cluster);
	choose_rank(c, c->nranks - 1);
	choose_faulty(c);
}

/* "0-7,24-31" */
static void add_text(struct bb_strbuf *out, const struct bb_pairs *pairs)
{
	for (int i = 0; i < pairs->n; i++) {
		const int first = pairs->ranks[i];

		while (i + 1 < pairs->n && pairs->ranks[i + 1] == pairs->ranks[i] + 1)
			i++;
		bb_strbuf_addf(out, "%s%d", bb_strbuf_text(out)[0] ? "," : "", first);
		if (pairs->ranks[i] > first)
			bb_strbuf_addf(out, "-%d", pairs->ranks[i]);
	}
}

bb_status bb_selection_choose(struct bb_pairs *pairs)
{
	struct bb_run *run = pairs->run;
	const struct bb_cluster *cluster = run->options.cluster;
	struct choice c = {pairs, run->world.nranks, cluster ? cluster->gpus : 1, NULL};

	pairs->n = c.nranks;
	if (!bb_pairs_are_virtual(pairs) || c.nranks <= BB_PAIR_ALL_ENDS)
		return BB_OK;
	c.chosen = calloc((size_t)c.nranks, sizeof(*c.chosen));
	pairs->ranks = calloc((size_t)c.nranks, sizeof(*pairs->ranks));
	if (c.chosen && pairs->ranks) {
		choose(&c);
		pairs->n = 0;
		for (int r = 0; r < c.nranks; r++)
			if (c.chosen[r])
				pairs->ranks[pairs->n++] = r;
		add_text(&pairs->selection_text, pairs);
		run->record.pair_ranks = bb_strbuf_text(&pairs->selection_text);
	}
	free(c.chosen);
	if (!pairs->ranks || bb_strbuf_failed(&pairs->selection_text))
		return bb_no_memory(&run->error, "the ranks");
	return BB_OK;
}

int bb_selection_read(const char *text, int *ranks)
{
	int n = 0;

	while (*text) {
		char *end;
		int first = (int)strtol(text, &end, 10), last = first;

		if (*end == '-')
			last = (int)strtol(end + 1, &end, 10);
		for (int r = first; r <= last; r++, n++)
			if (ranks)
				ranks[n] = r;
		text = *end == ',' ? end + 1 : end;
	}
	return n;
}

void bb_selection_close(struct bb_pairs *pairs)
{
	free(pairs->ranks);
	bb_strbuf_free(&pairs->selection_text);
}

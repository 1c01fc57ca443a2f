/*
 * normal.c - "is my number normal?" Judges a table by published runs, bounds and its own rows.
 */
#include "acceptance/normal_inside.h"

#include "core/option.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

static void describe_next(const struct bb_question *q, enum bb_normality n)
{
	if (n == BB_UNEVEN)
		bb_strbuf_add(
			q->out,
			"  Next: repeat it (another job may use the nodes or the network); check "
			"clocks and power limits; try NCCL_ALGO=Ring (a change of algorithm "
			"may cause it).\n");
	if (n != BB_LOW)
		return;
	if (!q->card)
		bb_strbuf_add(q->out,
			      "  Next: is the machine idle? build/topology shows its hardware, "
			      "build/mem_bandwidth_perf its memory bandwidth.\n");
	else if (bb_normal_is_near(q->card, q->ranks, q->nodes))
		bb_strbuf_add(
			q->out,
			"  Next: build/topology (NVLinks that are down, GPUs without P2P); "
			"build/p2p_bandwidth_perf (which pair is slow); NCCL_DEBUG=INFO (is NVLS "
			"used, is P2P or SHM disabled?); clocks and power limits.\n");
	else
		bb_strbuf_add(
			q->out,
			"  Next: build/topology (are a node's NICs as many and as fast as those of "
			"the published runs?); NCCL_DEBUG=INFO (are all used, with GPUDirect RDMA "
			"and the network plugin, not sockets?); the same on one node alone; "
			"build/diagnose (which node or link is slow).\n");
}

/* Explains a value above its bound. A bound by copies ignores caches. */
static void describe_beyond(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;

	bb_strbuf_addf(
		q->out, "  Above its bound: the largest size reaches %.0f%% of it%s (%s). %s\n",
		c->percent_of_bound, c->list[c->n - 1].in_place ? " in place" : "", c->bound_source,
		strstr(c->bound_source, "copy speed")
			? "The bound is that of copies between two buffers. Data that is "
			  "still in a cache takes less time, and so do in-place buffers, "
			  "which are half as large: larger sizes (-e) can be judged."
			: "The links cannot carry more: the link is another one, or the "
			  "bytes are miscounted.");
}

/* Explains that there are no published numbers, and for which cards there are. */
static void describe_unknown_card(const struct bb_question *q)
{
	const char *names[32] = {NULL}, *near;
	int n = 0;

	if (!q->gpu[0]) {
		bb_strbuf_add(q->out, "  The file names no GPU; name it with --gpu.\n");
		return;
	}
	bb_strbuf_addf(
		q->out,
		"  No published numbers for %s. Cards with published numbers or known systems:",
		q->gpu);
	for (; bb_card_at(n) && n < 31; n++) {
		names[n] = bb_card_at(n)->name;
		bb_strbuf_addf(q->out, "%s %s", n > 0 ? "," : "", names[n]);
	}
	near = bb_nearest(q->gpu, names);
	bb_strbuf_addf(q->out, ".%s%s%s\n", near ? " Did you mean " : "", near ? near : "",
		       near ? "?" : "");
}

/* Judges by the bound of the records on CPUs, for which there are no published runs. Unknown GPUs
   may reach any share of their bound. */
static enum bb_normality by_bound(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;
	const bool low = c->percent_of_bound < 100 * BB_NORMAL_BOUND;

	if (isnan(c->percent_of_bound) || strcmp(c->backend, "nccl") == 0) {
		describe_unknown_card(q);
		return BB_UNKNOWN;
	}
	if (c->percent_of_bound > 100 * BB_NORMAL_BEYOND) {
		describe_beyond(q);
		return BB_HIGH;
	}
	bb_strbuf_addf(q->out,
		       "  %s: the largest size reaches %.0f%% of its bound (%s). There are no "
		       "published runs of %s.\n",
		       low ? "Low" : "Normal", c->percent_of_bound, c->bound_source,
		       q->gpu[0] ? q->gpu : "such machines");
	return low ? BB_LOW : BB_NORMAL;
}

/* Judges by published runs or the bound of the records and, on GPUs, by the other rows: on CPUs
   caches make dips too. */
static enum bb_normality compare_all(const struct bb_question *q)
{
	const char *const backend = q->claims->backend;
	const bool on_gpus = !backend[0] || strcmp(backend, "nccl") == 0;
	const enum bb_normality n = q->card ? bb_normal_published(q) : by_bound(q);
	const enum bb_normality even = on_gpus ? bb_normal_evenness(q) : BB_NORMAL;

	return even > n ? even : n;
}

static void describe_title(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;

	bb_strbuf_addf(q->out, "%s%s%s", c->collective[0] ? c->collective : "a collective",
		       c->algorithm[0] ? ", " : "", c->algorithm);
	if (c->nranks > 0)
		bb_strbuf_addf(q->out, ", %lld rank%s", (long long)c->nranks, bb_plural(c->nranks));
	if (c->hosts > 0)
		bb_strbuf_addf(q->out, " on %lld host%s", (long long)c->hosts, bb_plural(c->hosts));
	bb_strbuf_addf(q->out, "%s%s: %zu result%s\n", c->gpu[0] ? ", " : "", c->gpu, c->n,
		       bb_plural(c->n));
	if (c->implausible > 0)
		bb_strbuf_addf(q->out,
			       "  %zu left out: algbw is not size over time, or busbw / algbw is "
			       "not that out of place.\n",
			       c->implausible);
	if (c->not_finite > 0)
		bb_strbuf_addf(q->out, "  %zu left out: nan or inf is among their numbers.\n",
			       c->not_finite);
}

/* Reports wrong and unchecked data. */
static void describe_data(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;

	if (c->wrong > 0)
		bb_strbuf_addf(q->out,
			       "  Wrong data in %zu result%s (#wrong is not 0): fast but wrong is "
			       "not normal.\n",
			       c->wrong, bb_plural(c->wrong));
	if (c->unchecked > 0)
		bb_strbuf_addf(q->out, "  The data of %zu result%s was not checked.\n",
			       c->unchecked, bb_plural(c->unchecked));
}

/* True if every rank was alone: nccl-tests then prints a busbw of 0. Rounding makes it 0 for small
   sizes of any number of ranks. */
static bool is_alone(const struct bb_claims *claims)
{
	bool fast = false;

	for (size_t i = 0; i < claims->n; i++) {
		if (claims->list[i].busbw_GBps > 0)
			return false;
		fast |= claims->list[i].algbw_GBps >= 0.1;
	}
	return fast;
}

enum bb_normality bb_normal(const struct bb_claims *claims, const struct bb_references *references,
			    const struct bb_circumstances *circumstances, struct bb_strbuf *out)
{
	struct bb_question q = {claims,    references,       circumstances,
				.gpu = "", .collective = "", .out = out};
	enum bb_normality n;

	describe_title(&q);
	if (claims->simulated) {
		bb_strbuf_add(out,
			      "  Simulated in virtual time: no hardware was measured, so nothing "
			      "is compared.\n");
		return BB_UNKNOWN;
	}
	describe_data(&q);
	if (claims->n == 0)
		return claims->wrong > 0 ? BB_WRONG : BB_IMPOSSIBLE;
	if (is_alone(claims)) {
		bb_strbuf_add(out,
			      "  busbw is 0: every rank was alone, and nothing went over any link. "
			      "If several ranks were started, nccl-tests was built without MPI=1, "
			      "or for another MPI than the launcher's.\n");
		return claims->wrong > 0 ? BB_WRONG : BB_IMPOSSIBLE;
	}
	if (!bb_normal_find_collective(&q))
		return claims->wrong > 0 ? BB_WRONG : BB_UNKNOWN;
	if (!bb_normal_find_ranks(&q))
		return claims->wrong > 0 ? BB_WRONG : BB_IMPOSSIBLE;
	q.gpu = circumstances->gpu ? circumstances->gpu : claims->gpu;
	q.card = bb_card_find(q.gpu);
	bb_normal_find_nodes(&q);
	n = bb_normal_is_latency(&q) ? BB_LATENCY : compare_all(&q);
	if (q.card && bb_normal_judge_bound(&q) == BB_IMPOSSIBLE)
		n = BB_IMPOSSIBLE;
	describe_next(&q, n);
	return claims->wrong > 0 ? BB_WRONG : n;
}

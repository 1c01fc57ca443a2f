/*
 * normal.c - "is my number normal?" Judges a table by published runs, bounds and its own rows.
 */
#include "acceptance/normal_inside.h"

#include "core/option.h"
#include "core/units.h"
#include "harness/run/plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Explains that nothing can be compared, and for which cards it could be. */
static void describe_unknown_card(const struct bb_question *q)
{
	const char *const near = bb_card_suggest(q->gpu);

	if (!q->gpu[0]) {
		bb_strbuf_add(q->out, "  The file names no GPU; name it with --gpu.\n");
		return;
	}
	bb_strbuf_addf(q->out, "  Nothing is known about %s. Known cards:", q->gpu);
	for (int n = 0; bb_card_at(n); n++)
		bb_strbuf_addf(q->out, "%s %s", n > 0 ? "," : "", bb_card_at(n)->name);
	bb_strbuf_addf(q->out, ".%s%s%s\n", near ? " Did you mean " : "", near ? near : "",
		       near ? "?" : "");
}

/* Judges by the bound of the records: of CPUs, for which there are no published runs, and of GPUs
   that the catalogue lacks. */
static enum bb_normality by_bound(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;
	const bool on_gpus = strcmp(c->backend, "nccl") == 0;
	const double least = on_gpus ? BB_NORMAL_SHARE : BB_NORMAL_BOUND;
	const bool low = c->percent_of_bound < 100 * least;

	if (isnan(c->percent_of_bound) && c->backend[0] && !on_gpus) {
		bb_strbuf_addf(
			q->out,
			"  Not judged: the data of %s is in the memory of CPUs, and this log "
			"names no bound.\n",
			c->backend);
		return BB_UNKNOWN;
	}
	if (isnan(c->percent_of_bound) ||
	    (on_gpus && low && bb_normal_largest(c).size_bytes < BB_NORMAL_WIDE)) {
		describe_unknown_card(q);
		return BB_UNKNOWN;
	}
	if (c->percent_of_bound > 100 * BB_NORMAL_BEYOND) {
		describe_beyond(q);
		return BB_HIGH;
	}
	bb_strbuf_addf(q->out,
		       "  %s: the largest size reaches %.0f%% of its bound (%s); low is below "
		       "%.0f%%. There are no published runs of %s.\n",
		       low ? "Low" : "Normal", c->percent_of_bound, c->bound_source, 100 * least,
		       q->gpu[0] ? q->gpu : "such machines");
	return low ? BB_LOW : BB_NORMAL;
}

enum bb_normality bb_normal_compare(const struct bb_question *q)
{
	const bool is_latency = bb_normal_is_latency(q->claims);
	enum bb_normality n = is_latency ? BB_UNKNOWN : bb_normal_by_published(q);

	if (n == BB_UNKNOWN)
		n = bb_normal_by_model(q);
	if (n == BB_UNKNOWN && is_latency) {
		const struct bb_claim row = bb_normal_largest(q->claims);

		bb_normal_describe_row(q, &row);
		bb_strbuf_add(q->out, "Bandwidth shows at larger sizes, such as -e 8G.\n");
		return BB_LATENCY;
	}
	return n == BB_UNKNOWN ? bb_normal_by_share(q) : n;
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

/* Several runs are in one table, not copies of one rank. */
static bool is_mixed(const struct bb_claims *claims)
{
	return claims->runs > 1 && !is_alone(claims);
}

/* Judges without a GPU: by every card, each on its first system that fits the log. Only what is low
   on all of them is. */
static enum bb_normality by_every_card(const struct bb_question *q)
{
	static const struct {
		enum bb_normality verdict;
		const char *text;
	} kinds[] = {{BB_LOW, "low"}, {BB_NORMAL, "normal"}, {BB_HIGH, "high"}};
	struct bb_strbuf lists[3] = {{0}}, unread = {0};
	int n[3] = {0};

	for (int i = 0; bb_card_at(i); i++) {
		struct bb_claimed_machine machine;
		struct bb_question of_card = *q;
		struct bb_error ignored = {0};
		enum bb_normality verdict = BB_UNKNOWN;

		of_card.card = bb_card_at(i);
		of_card.out = &unread;
		of_card.machine = &machine;
		bb_normal_find_nodes(&of_card);
		if (bb_normal_machine_find(&of_card, &machine, &ignored) == BB_OK &&
		    machine.cluster)
			verdict = bb_normal_compare(&of_card);
		bb_normal_machine_close(&machine);
		for (int k = 0; k < 3; k++)
			if (verdict == kinds[k].verdict)
				bb_strbuf_addf(&lists[k], "%s %s", n[k]++ ? "," : "",
					       of_card.card->name);
	}
	for (int k = 0; k < 3; k++)
		if (n[k] > 0)
			bb_strbuf_addf(q->out, "  It would be %s on%s.\n", kinds[k].text,
				       bb_strbuf_text(&lists[k]));
	for (int k = 0; k < 3; k++)
		bb_strbuf_free(&lists[k]);
	bb_strbuf_free(&unread);
	return n[0] > 0 && n[1] == 0 && n[2] == 0 ? BB_LOW : BB_UNKNOWN;
}

/* Judges by published runs, the model or bounds and, on GPUs, by the other rows: on CPUs caches
   make dips too. */
static enum bb_normality compare_all(const struct bb_question *q)
{
	const char *const backend = q->claims->backend;
	const bool on_gpus = !backend[0] || strcmp(backend, "nccl") == 0;
	enum bb_normality n, even;

	if (q->card && q->ranks == 0)
		bb_strbuf_addf(q->out, "  The number of ranks is unknown; give --ranks.\n");
	n = q->machine->cluster ? bb_normal_compare(q) : q->card ? BB_UNKNOWN : by_bound(q);
	if (n == BB_UNKNOWN && !q->card && q->ranks > 1 && on_gpus &&
	    isnan(q->claims->percent_of_bound))
		n = by_every_card(q);
	even = on_gpus && !is_mixed(q->claims) ? bb_normal_evenness(q) : BB_NORMAL;
	return even > n ? even : n;
}

/* Describes the machine that the numbers are compared with, and why that one. */
static void describe_machine(const struct bb_question *q)
{
	const struct bb_claimed_machine *const m = q->machine;
	const struct bb_fact *const nics = bb_normal_fact(q, BB_FACT_NICS);

	if (!m->cluster) {
		if (q->nodes > q->ranks && q->ranks > 0)
			bb_strbuf_addf(q->out, "  %lld ranks cannot be on %lld nodes.\n",
				       (long long)q->ranks, (long long)q->nodes);
		else if (q->card && q->ranks >= 2)
			bb_strbuf_addf(q->out,
				       "  No known system with %s has room for %lld ranks on %lld "
				       "node%s; --cluster or --topology describes one.\n",
				       q->card->name, (long long)q->ranks, (long long)q->nodes,
				       bb_plural(q->nodes));
		return;
	}
	if (q->claims->hosts == 0 && q->given->nodes == 0)
		bb_strbuf_addf(q->out,
			       "  The log does not name the nodes: %lld assumed; --nodes says "
			       "otherwise.\n",
			       (long long)q->nodes);
	if (q->nodes == 1 || m->nics.n == 0)
		return;
	bb_strbuf_addf(q->out, "  Machine: %s", m->name);
	if (!strstr(m->name, " with ")) {
		bb_strbuf_add(q->out, ", ");
		bb_normal_describe_nics(m, q->out);
	}
	if (m->assumed)
		bb_strbuf_add(q->out, " (assumed: the log does not name the NICs; --cluster, "
				      "--nics and --nic-rate do)");
	else if (nics && q->given->nics == 0 && nics->value == m->nics.n && nics->quote[0])
		bb_strbuf_addf(q->out, ". Line %d: %s", nics->line, nics->quote);
	bb_strbuf_add(q->out, "\n");
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

/* Did nccl-tests end with an error? A warning of NCCL alone may be harmless. */
static bool has_failed(const struct bb_question *q)
{
	const struct bb_fact *const error = bb_normal_fact(q, BB_FACT_ERROR);

	return error && strstr(error->quote, "Test ") && strstr(error->quote, " failure");
}

/* Judges claims whose subject is known. */
static bb_status judge(struct bb_question *q, enum bb_normality *n, struct bb_error *error)
{
	struct bb_claimed_machine machine;
	const bb_status st = bb_normal_machine_find(q, &machine, error);

	if (st != BB_OK)
		return st;
	q->machine = &machine;
	describe_machine(q);
	*n = compare_all(q);
	if (bb_normal_judge_bound(q) == BB_IMPOSSIBLE)
		*n = BB_IMPOSSIBLE;
	if (*n < BB_DIED && has_failed(q))
		*n = BB_DIED;
	bb_normal_explain(q, *n);
	bb_normal_machine_close(&machine);
	return BB_OK;
}

/* True if nothing in Q can be compared; says why. */
static bool is_hopeless(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;

	if (c->n == 0 && !(c->average_GBps > 0))
		return true;
	if (!is_alone(c))
		return false;
	bb_strbuf_add(q->out, "  busbw is 0: every rank was alone, and nothing went over any link. "
			      "If several ranks were started, nccl-tests was built without MPI=1, "
			      "or for another MPI than the launcher's.\n");
	return true;
}

/* The name of the GPU: by the user, by the machine that the user names, by the log. */
static bb_status find_gpu(struct bb_question *q, char model[BB_TEXT], struct bb_error *error)
{
	const struct bb_circumstances *const given = q->given;
	const struct bb_fact *const named = bb_normal_fact(q, BB_FACT_CARD);
	/* "L4" and "T4" are too short to be sure of in prose. */
	const struct bb_fact *const prose = named && strlen(named->text) > 3 ? named : NULL;
	struct bb_cluster *cluster = NULL;
	bb_status st;

	q->gpu = given->gpu          ? given->gpu
		 : q->claims->gpu[0] ? q->claims->gpu
		 : prose             ? prose->text
				     : "";
	if (given->machine) {
		int gpu;

		BB_TRY(st,
		       bb_cluster_open(given->machine, bb_plugin_parse_topology, &cluster, error),
		       out);
		gpu = bb_topology_device(cluster->node, BB_GPU, 0);
		snprintf(model, BB_TEXT, "%s", gpu >= 0 ? cluster->node->devices[gpu].model : "");
		bb_cluster_free(cluster);
		if (model[0])
			q->gpu = model;
	} else if (!given->gpu && !q->claims->gpu[0] && prose) {
		bb_strbuf_addf(q->out, "  Line %d names %s: %s\n", prose->line, prose->text,
			       prose->quote);
	}
	q->card = bb_card_find(q->gpu);
	if (q->claims->backend[0] && strcmp(q->claims->backend, "nccl") != 0)
		q->card = NULL;
	if (q->card && given->machine && q->claims->gpu[0] &&
	    bb_card_find(q->claims->gpu) != q->card)
		bb_strbuf_addf(q->out, "  The log names %s, but %s has %s.\n", q->claims->gpu,
			       given->machine, q->card->name);
	return BB_OK;
out:
	return st;
}

/* Judges claims with sizes and bandwidths. */
static bb_status judge_claims(struct bb_question *q, enum bb_normality *n, struct bb_error *error)
{
	char model[BB_TEXT];
	bb_status st = BB_OK;

	if (is_hopeless(q)) {
		*n = BB_IMPOSSIBLE;
	} else if (bb_normal_find_collective(q)) {
		if (!bb_normal_find_ranks(q)) {
			*n = BB_IMPOSSIBLE;
			return BB_OK;
		}
		st = find_gpu(q, model, error);
		if (st != BB_OK)
			return st;
		bb_normal_find_nodes(q);
		if (q->ranks == 1) {
			bb_strbuf_add(q->out,
				      "  One rank is a copy within a GPU: nothing went over "
				      "any link.\n");
			*n = BB_UNKNOWN;
			return BB_OK;
		}
		st = judge(q, n, error);
	}
	return st;
}

bb_status bb_normal(const struct bb_claims *claims, const struct bb_references *references,
		    const struct bb_circumstances *circumstances, enum bb_normality *n,
		    struct bb_strbuf *out, struct bb_error *error)
{
	struct bb_claims completed = *claims;
	struct bb_question q = {.claims = &completed,
				.references = references,
				.given = circumstances,
				.gpu = "",
				.collective = "",
				.out = out};
	bb_status st = BB_OK;

	*n = BB_UNKNOWN;
	describe_title(&q);
	if (claims->simulated) {
		bb_strbuf_add(out,
			      "  Simulated in virtual time: no hardware was measured, so nothing "
			      "is compared.\n");
		return BB_OK;
	}
	describe_data(&q);
	if (claims->incomplete && circumstances->ranks == 0) {
		bb_strbuf_add(out, "  OSU prints times of a rank's message, and this log no number "
				   "of ranks; give --ranks.\n");
		return BB_OK;
	}
	if (claims->incomplete) {
		completed.list = calloc(claims->n + 1, sizeof(*completed.list));
		if (!completed.list)
			return bb_no_memory(error, "the rows");
		memcpy(completed.list, claims->list, claims->n * sizeof(*completed.list));
		bb_claims_complete(&completed, circumstances->ranks);
	}
	if (is_mixed(claims))
		bb_strbuf_addf(out,
			       "  %lld runs are mixed here, and nothing tells their rows apart: "
			       "the slowest rows are judged. Give each a log of its own.\n",
			       (long long)claims->runs);
	st = judge_claims(&q, n, error);
	if (completed.list != claims->list)
		free(completed.list);
	*n = claims->wrong > 0 ? BB_WRONG : *n;
	return st;
}

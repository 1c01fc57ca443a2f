/*
 * normal.c - "is my number normal?" Judges a table by published runs, bounds and its own rows, and
 * names the likely causes of a low number.
 */
#include "acceptance/normal.h"

#include "core/units.h"
#include "harness/run/plugin.h"
#include "topology/bound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the subject: by the file and its ratios ------------------------------------------------ */

/* Returns the ratio of bandwidths of the last row where rounding does not matter; NAN: none. */
static double ratio_of(const struct bb_claims *c)
{
	for (size_t i = c->n; i > 0; i--)
		if (c->list[i - 1].algbw_GBps > 100 * c->rounding)
			return c->list[i - 1].busbw_GBps / c->list[i - 1].algbw_GBps;
	return NAN;
}

/* Was the data checked in place, or nowhere? nccl-tests never checks alltoall and sendrecv there.
 */
static bool in_place_checked(const struct bb_claims *c)
{
	return c->unchecked_in_place == 0 || c->unchecked > c->unchecked_in_place;
}

/* The collective whose rows have such a redop and root (nccl-tests, the *RunTest functions); "" if
   the columns lack or several have them. */
static const char *collective_of_columns(const struct bb_claims *c, double ratio)
{
	const bool is_once = ratio < 0.999, reduces = c->op[0] && strcmp(c->op, "none") != 0;
	const bool rooted = strcmp(c->root, "-1") != 0;
	bool in_place = false;

	for (size_t i = 0; i < c->n; i++)
		in_place |= c->list[i].in_place;
	if (!c->op[0] || !c->root[0] || !isfinite(ratio) || (!in_place && !rooted && !reduces))
		return "";
	if (is_once && !rooted)
		return reduces ? "reduce_scatter" : in_place_checked(c) ? "all_gather" : "alltoall";
	if (is_once)
		return "";
	if (rooted)
		return reduces ? "reduce" : "broadcast";
	return !reduces || !in_place ? "" : in_place_checked(c) ? "all_reduce" : "sendrecv";
}

/* Finds the collective; if the file does not name it, by the ratio of its bandwidths. Returns false
   if several have that ratio. */
static bool collective_find(struct bb_question *q)
{
	const double ratio = ratio_of(q->claims);
	int64_t least, most;

	q->collective = q->given->collective ? q->given->collective : q->claims->collective;
	if (q->collective[0])
		return true;
	SAY(q, "  The file does not name its collective; ");
	if (ratio > 1.001) {
		q->collective = "all_reduce";
		SAY(q, "busbw / algbw = %.4g is all_reduce's alone.\n", ratio);
		return true;
	}
	q->collective = collective_of_columns(q->claims, ratio);
	if (q->collective[0]) {
		SAY(q, "redop %s, root %s%s and busbw / algbw = %.4g are those of %s.\n",
		    q->claims->op, q->claims->root,
		    in_place_checked(q->claims) ? "" : ", no check in place", ratio, q->collective);
		return true;
	}
	if (!isfinite(ratio)) {
		SAY(q, "--collective does.\n");
		return false;
	}
	SAY(q, "busbw / algbw = %.4g fits ", ratio);
	if (ratio > 0.999)
		SAY(q, "broadcast, reduce or sendrecv, or all_reduce on 2 ranks");
	else if (!bb_claims_ranks(q->claims, "all_gather", &least, &most))
		SAY(q, "no number of ranks");
	else
		SAY(q, "all_gather, reduce_scatter, alltoall, gather or scatter on %lld rank%s",
		    (long long)least, bb_plural(least));
	SAY(q, "; name it with --collective.\n");
	return false;
}

/* Finds the number of ranks. Returns false if no number of ranks has the ratio of bandwidths. */
static bool ranks_find(struct bb_question *q)
{
	const int64_t given = q->given->ranks > 0 ? q->given->ranks : q->claims->nranks;
	const double ratio = ratio_of(q->claims);
	int64_t least, most;
	const bool fits = bb_claims_ranks(q->claims, q->collective, &least, &most);

	q->ranks = given;
	if (!fits && (least != 1 || most != 0)) {
		SAY(q,
		    "  Impossible: busbw / algbw = %.4g fits no number of ranks of %s in all rows. "
		    "Likely: another collective, or mixed-up columns.\n",
		    ratio, q->collective);
		return false;
	}
	/* A rounded ratio cannot distinguish large numbers of ranks. */
	if (!fits || (given == 0 && most >= 2 * least))
		return true;
	if (given >= least && given <= most) {
		SAY(q, "  busbw / algbw = %.4g fits %lld rank%s.\n", ratio, (long long)given,
		    bb_plural(given));
		return true;
	}
	q->ranks = least;
	if (given > 0)
		SAY(q, "  %s %lld rank%s, but ",
		    q->given->ranks > 0 ? "--ranks gives" : "The file gives", (long long)given,
		    bb_plural(given));
	else
		SAY(q, "  The file gives no number of ranks; ");
	SAY(q, "busbw / algbw = %.6g means %lld", ratio, (long long)least);
	if (most > least)
		SAY(q, " to %lld", (long long)most);
	SAY(q, " rank%s.\n", bb_plural(most));
	return true;
}

static void nodes_find(struct bb_question *q)
{
	const char *const colon = q->given->machine ? strrchr(q->given->machine, ':') : NULL;
	const int64_t named = colon ? strtol(colon + 1, NULL, 10) : 0;
	const int64_t given = q->given->nodes > 0 ? q->given->nodes : named;

	/* A list of ranks of which only some were pasted names too few hosts. */
	q->nodes = given > 0 ? given : q->claims->hosts;
	if (q->card && given == 0 && q->nodes < bb_card_nodes(q->card, q->ranks))
		q->nodes = bb_card_nodes(q->card, q->ranks);
}

/* The name of the GPU: by the user, by the machine that the user names, by the log. */
static bb_status find_gpu(struct bb_question *q, struct bb_error *error)
{
	const struct bb_circumstances *const given = q->given;
	const struct bb_fact *const named = bb_claims_fact(q->claims, BB_FACT_CARD);
	/* "L4" and "T4" are too short to be sure of in prose. */
	const struct bb_fact *const prose = named && strlen(named->text) > 3 ? named : NULL;
	struct bb_cluster *cluster = NULL;
	bb_status st = BB_OK;

	snprintf(q->gpu, sizeof(q->gpu), "%s",
		 given->gpu          ? given->gpu
		 : q->claims->gpu[0] ? q->claims->gpu
		 : prose             ? prose->text
				     : "");
	if (given->machine) {
		BB_TRY(st,
		       bb_cluster_open(given->machine, bb_plugin_parse_topology, &cluster, error),
		       out);
		const int gpu = bb_topology_device(cluster->node, BB_GPU, 0);
		if (gpu >= 0 && cluster->node->devices[gpu].model[0])
			snprintf(q->gpu, sizeof(q->gpu), "%s", cluster->node->devices[gpu].model);
		bb_cluster_free(cluster);
	} else if (!given->gpu && !q->claims->gpu[0] && prose) {
		SAY(q, "  Line %d names %s: %s\n", prose->line, prose->text, prose->quote);
	}
	if (!q->claims->backend[0] || strcmp(q->claims->backend, "nccl") == 0)
		q->card = bb_card_find(q->gpu);
	if (q->card && given->machine && q->claims->gpu[0] &&
	    bb_card_find(q->claims->gpu) != q->card)
		SAY(q, "  The log names %s, but %s has %s.\n", q->claims->gpu, given->machine,
		    q->card->name);
out:
	return st;
}
/* ---- the verdict by numbers ------------------------------------------------------------------ */

/* Judges by the bound of the records: of CPUs, for which there are no published runs, and of GPUs
   that the catalogue lacks. */
static enum bb_normality by_bound(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;
	const bool on_gpus = strcmp(c->backend, "nccl") == 0;
	const double least = on_gpus ? BB_NORMAL_SHARE : BB_NORMAL_BOUND;
	const bool low = c->percent_of_bound < 100 * least;

	if (isnan(c->percent_of_bound) && c->backend[0] && !on_gpus) {
		SAY(q,
		    "  Not judged: the data of %s is in the memory of CPUs, and this log names no "
		    "bound.\n",
		    c->backend);
		return BB_UNKNOWN;
	}
	if (isnan(c->percent_of_bound) || (on_gpus && low && q->row.size_bytes < BB_NORMAL_WIDE)) {
		const char *const near = bb_card_suggest(q->gpu);

		if (!q->gpu[0]) {
			SAY(q, "  The file names no GPU; name it with --gpu.\n");
			return BB_UNKNOWN;
		}
		SAY(q, "  Nothing is known about %s. Known cards:", q->gpu);
		for (int n = 0; bb_card_at(n); n++)
			SAY(q, "%s %s", n > 0 ? "," : "", bb_card_at(n)->name);
		SAY(q, ".%s%s%s\n", near ? " Did you mean " : "", near ? near : "",
		    near ? "?" : "");
		return BB_UNKNOWN;
	}
	if (c->percent_of_bound > 100 * BB_NORMAL_BEYOND) {
		/* A bound by copies ignores caches. */
		SAY(q, "  Above its bound: the largest size reaches %.0f%% of it%s (%s). %s\n",
		    c->percent_of_bound, c->list[c->n - 1].in_place ? " in place" : "",
		    c->bound_source,
		    strstr(c->bound_source, "copy speed")
			    ? "The bound is that of copies between two buffers. Data that is still "
			      "in a cache takes less time, and so do in-place buffers, which are "
			      "half as large: larger sizes (-e) can be judged."
			    : "The links cannot carry more: the link is another one, or the bytes "
			      "are miscounted.");
		return BB_HIGH;
	}
	SAY(q,
	    "  %s: the largest size reaches %.0f%% of its bound (%s); low is below %.0f%%. There "
	    "are no published runs of %s.\n",
	    low ? "Low" : "Normal", c->percent_of_bound, c->bound_source, 100 * least,
	    q->gpu[0] ? q->gpu : "such machines");
	return low ? BB_LOW : BB_NORMAL;
}

/* The verdict on Q on MACHINE, which is closed, but keeps its name and NICs. */
static enum bb_normality verdict_on(const struct bb_question *q, struct bb_claimed_machine *machine)
{
	struct bb_question other = *q;

	other.machine = machine;
	other.out = NULL;
	const enum bb_normality n = machine->cluster ? bb_normal_compare(&other) : BB_UNKNOWN;
	bb_cluster_free(machine->cluster);
	machine->cluster = NULL;
	return n;
}

/* Judges without a GPU: by every card, each on its first system that fits the log. Only what is low
   on all of them is. */
static enum bb_normality by_every_card(const struct bb_question *q)
{
	static const struct {
		enum bb_normality verdict;
		const char *text;
	} kinds[] = {{BB_LOW, "low"}, {BB_NORMAL, "normal"}, {BB_HIGH, "high"}};
	struct bb_strbuf lists[3] = {{0}};
	struct bb_claimed_machine machine;
	struct bb_question other = *q;
	struct bb_error ignored = {0};
	int n[3] = {0};

	for (int i = 0; (other.card = bb_card_at(i)); i++) {
		nodes_find(&other);
		if (bb_normal_machine_find(&other, &machine, &ignored) != BB_OK)
			continue;
		const enum bb_normality verdict = verdict_on(&other, &machine);
		for (int k = 0; k < 3; k++)
			if (verdict == kinds[k].verdict)
				bb_strbuf_addf(&lists[k], "%s %s", n[k]++ ? "," : "",
					       other.card->name);
	}
	for (int k = 0; k < 3; k++) {
		if (n[k] > 0)
			SAY(q, "  It would be %s on%s.\n", kinds[k].text,
			    bb_strbuf_text(&lists[k]));
		bb_strbuf_free(&lists[k]);
	}
	return n[0] > 0 && n[1] == 0 && n[2] == 0 ? BB_LOW : BB_UNKNOWN;
}

/* ---- what a number equals, and why it is low ------------------------------------------------- */

/* A number between these shares of what so many NICs carry equals them. */
#define EQUAL_LEAST 0.93
#define EQUAL_MOST 1.005

/* The machine carries what K of its NICs do. Ring and alltoall load all NICs of a node evenly; over
   two nodes trees do not, and their number is no whole one. */
static void describe_nics(const struct bb_question *q, enum bb_normality n)
{
	const double busbw = q->row.busbw_GBps;
	const struct bb_claimed_machine *const m = q->machine;
	const double bound = bb_normal_bound_on(m->cluster->node, bb_normal_ring_of(q)).GBps;
	const double equal = bound > 0 ? fmin(m->nics.n * busbw / bound, 1e6) : 0;
	const int k = (int)ceil(equal / EQUAL_MOST);
	struct bb_claimed_machine fewer;
	struct bb_error ignored = {0};

	if (!(bound > 0) || m->nics.n < 2 || k < 1 || k >= m->nics.n || equal < EQUAL_LEAST * k ||
	    q->ranks / q->nodes < m->nics.n)
		return;
	SAY(q, "  %.4g GB/s equals %d NIC%s of %.4g Gb/s (%.3g GB/s each): as if ", busbw, k,
	    k == 1 ? "" : "s", (double)m->nics.Mbps / m->nics.n / 1e3, busbw / k);
	if (2 * k == m->nics.n)
		SAY(q, "half of %d work.", m->nics.n);
	else
		SAY(q, "%d of %d work.", k, m->nics.n);
	if (m->assumed && n != BB_LOW)
		SAY(q, " If a node has %d, that is all they carry: --nics %d.", k, k);
	else if (m->assumed &&
		 bb_normal_machine_open(q, m->system, (struct bb_cluster_change){.nics = k}, &fewer,
					&ignored) == BB_OK &&
		 verdict_on(q, &fewer) == BB_NORMAL)
		SAY(q, " If a node has %d, that is normal: --nics %d.", k, k);
	else if (m->assumed)
		SAY(q, " If a node has %d, --nics %d compares with those.", k, k);
	SAY(q, "\n");
}

/* ---- causes --------------------------------------------------------------------------------- */

#define FEW_CHANNELS 4 /* fewer than NCCL's search finds over NVLink or several NICs */

static const struct cause {
	enum bb_fact_kind kind;
	enum { ANYWHERE, IN_A_NODE, OVER_NODES } where;
	const char *text;
} causes[] = {
	{BB_FACT_SHARED_GPU, ANYWHERE,
	 "ranks share a GPU, and so its memory and links; NCCL then takes them for ranks of "
	 "different hosts, which communicate over sockets or NICs"},
	{BB_FACT_P2P_OFF, IN_A_NODE,
	 "P2P is off, so data goes through host memory instead of NVLink or PCIe"},
	{BB_FACT_SHM_OFF, IN_A_NODE, "shared memory is off, so ranks without P2P use the network"},
	{BB_FACT_SOCKET, ANYWHERE, "NCCL communicates over sockets (TCP), without RDMA"},
	{BB_FACT_GDR_OFF, OVER_NODES,
	 "GPUDirect RDMA is off, so data to and from the NICs goes through host memory; "
	 "nvidia-peermem or DMA-BUF is missing, or ACS forbids it"},
	{BB_FACT_MNNVL_OFF, OVER_NODES, "NVLink between nodes is off, so they use the NICs"},
	{BB_FACT_NVLS_OFF, ANYWHERE, "NVLS is off, so NVSwitches do not reduce"},
	{BB_FACT_CHANNELS, ANYWHERE, "NCCL has few channels, of which each moves a bounded rate"},
	{BB_FACT_ALGORITHM, ANYWHERE, "the algorithm is prescribed, not NCCL's choice"},
	{BB_FACT_PROTOCOL, ANYWHERE, "the protocol is prescribed, not NCCL's choice"},
	{BB_FACT_ERROR, ANYWHERE, "a warning"},
};

/* Is there NVLS on the machine, or is the machine unknown? */
static bool has_nvls(const struct bb_question *q)
{
	const struct bb_normal_shape shape = {"all_reduce", "NVLS", q->ranks, q->nodes, false};

	return !q->machine->cluster ||
	       bb_normal_bound_on(q->machine->cluster->node, shape).GBps > 0;
}

static void add_finding(void *context, const char *text)
{
	bb_strbuf_addf(context, "  Finding in its topology: %s\n", text);
}

/* Appends what a low or uneven number equals, what in the log may be the cause, and what to do. */
static void verdict_explain(const struct bb_question *q, enum bb_normality n)
{
	const bool is_near = q->card && bb_normal_is_near(q->card, q->ranks, q->nodes);
	const bool is_far = q->machine->cluster && !is_near && q->nodes > 1;
	struct bb_error ignored = {0};
	int found = 0, quoted = 0, others = 0;

	if (is_far && (n == BB_LOW || ((n == BB_NORMAL || n == BB_UNEVEN) &&
				       strncmp(q->collective, "alltoall", 8) != 0)))
		describe_nics(q, n);
	/* Other known systems with such cards on which the number would be normal. */
	for (int i = 0;
	     is_far && n == BB_LOW && q->machine->assumed && q->card && bb_card_system(q->card, i);
	     i++) {
		const char *const system = bb_card_system(q->card, i);
		struct bb_claimed_machine machine;

		if (strcmp(system, q->machine->system) == 0 ||
		    bb_normal_machine_open(q, system, (struct bb_cluster_change){.nodes = 0},
					   &machine, &ignored) != BB_OK ||
		    verdict_on(q, &machine) != BB_NORMAL)
			continue;
		SAY(q, "%s %s (", others++ ? "," : "  Normal on", machine.name);
		bb_normal_describe_nics(&machine, q->out);
		SAY(q, ")");
	}
	if (others > 0)
		SAY(q, ": on %s nothing is wrong; --cluster judges by it.\n",
		    others == 1 ? "that" : "one of these");
	if (n != BB_LOW && n != BB_UNEVEN) {
		const struct bb_fact *const error = bb_claims_fact(q->claims, BB_FACT_ERROR);

		if (error)
			SAY(q, "  The log reports an error. Line %d: %s\n", error->line,
			    error->quote);
		return;
	}
	if (n == BB_LOW && q->machine->cluster && q->nodes == 1 && !q->given->machine)
		SAY(q,
		    "  The machine is assumed from its GPU: %s. --topology or --cluster names "
		    "another.\n",
		    q->machine->name);
	if (q->given->machine && q->machine->cluster)
		found = bb_topology_findings(q->machine->cluster->node, add_finding, q->out);
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		const struct bb_fact *const fact = bb_claims_fact(q->claims, causes[i].kind);

		if (!fact || (causes[i].kind == BB_FACT_CHANNELS && fact->value > FEW_CHANNELS) ||
		    (causes[i].kind == BB_FACT_NVLS_OFF && !has_nvls(q)) ||
		    (causes[i].where == IN_A_NODE && q->nodes > 0 && q->ranks <= q->nodes) ||
		    (causes[i].where == OVER_NODES && q->nodes == 1))
			continue;
		SAY(q, "  %s: %s. Line %d: %s\n", quoted++ ? "Also" : "Cause", causes[i].text,
		    fact->line, fact->quote);
	}
	if (quoted > 0 || found > 0)
		return;
	if (n == BB_UNEVEN)
		SAY(q, "  Next: repeat it (another job may use the nodes or the network); check "
		       "clocks and power limits; try NCCL_ALGO=Ring (a change of algorithm may "
		       "cause it).\n");
	else if (!q->card)
		SAY(q, "  Next: is the machine idle? build/topology shows its hardware, "
		       "build/mem_bandwidth_perf its memory bandwidth.\n");
	else if (is_near || q->nodes == 1)
		SAY(q,
		    "  Next: build/topology (NVLinks that are down, GPUs without P2P); "
		    "build/p2p_bandwidth_perf (which pair is slow); NCCL_DEBUG=INFO (%sis P2P or "
		    "SHM disabled?); clocks and power limits.\n",
		    has_nvls(q) ? "is NVLS used, " : "");
	else
		SAY(q, "  Next: build/topology (are a node's NICs as many and as fast as above?); "
		       "NCCL_DEBUG=INFO (are all used, with GPUDirect RDMA and the network plugin, "
		       "not sockets?); in virtual machines ACS and ATS, without which data goes "
		       "through the CPU; the same on one node alone; build/diagnose (which node or "
		       "link is slow).\n");
}

/* ---- the whole ------------------------------------------------------------------------------ */

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

/* Describes the machine that the numbers are compared with, and why that one. */
static void describe_machine(const struct bb_question *q)
{
	const struct bb_claimed_machine *const m = q->machine;
	const struct bb_fact *const nics = bb_claims_fact(q->claims, BB_FACT_NICS);

	if (!m->cluster) {
		if (q->nodes > q->ranks && q->ranks > 0)
			SAY(q, "  %lld ranks cannot be on %lld nodes.\n", q->ranks, q->nodes);
		else if (q->card && q->ranks >= 2)
			SAY(q,
			    "  No known system with %s has room for %lld ranks on %lld node%s; "
			    "--cluster or --topology describes one.\n",
			    q->card->name, q->ranks, q->nodes, bb_plural(q->nodes));
		return;
	}
	if (q->claims->hosts == 0 && q->given->nodes == 0)
		SAY(q, "  The log does not name the nodes: %lld assumed; --nodes says otherwise.\n",
		    q->nodes);
	if (q->nodes == 1 || m->nics.n == 0)
		return;
	SAY(q, "  Machine: %s", m->name);
	if (!strstr(m->name, " with ")) {
		SAY(q, ", ");
		bb_normal_describe_nics(m, q->out);
	}
	if (m->assumed)
		SAY(q, " (assumed: the log does not name the NICs; --cluster, --nics and "
		       "--nic-rate do)");
	else if (nics && q->given->nics == 0 && nics->value == m->nics.n && nics->quote[0])
		SAY(q, ". Line %d: %s", nics->line, nics->quote);
	SAY(q, "\n");
}

/* Judges claims with sizes and bandwidths: by published runs, the model or bounds and, on GPUs, by
   the other rows: on CPUs caches make dips too. */
static bb_status judge_claims(struct bb_question *q, enum bb_normality *n, struct bb_error *error)
{
	const struct bb_claims *const c = q->claims;
	const bool on_gpus = !c->backend[0] || strcmp(c->backend, "nccl") == 0;
	const bool alone = is_alone(c);
	const struct bb_fact *const failure = bb_claims_fact(c, BB_FACT_ERROR);
	struct bb_claimed_machine machine;
	bb_status st = BB_OK;

	if (alone)
		SAY(q, "  busbw is 0: every rank was alone, and nothing went over any link. If "
		       "several ranks were started, nccl-tests was built without MPI=1, or for "
		       "another MPI than the launcher's.\n");
	*n = BB_IMPOSSIBLE;
	if (alone || (c->n == 0 && !(c->average_GBps > 0)))
		return BB_OK;
	*n = BB_UNKNOWN;
	if (!collective_find(q))
		return BB_OK;
	*n = BB_IMPOSSIBLE;
	if (!ranks_find(q))
		return BB_OK;
	*n = BB_UNKNOWN;
	BB_TRY(st, find_gpu(q, error), out);
	nodes_find(q);
	if (q->ranks == 1) {
		SAY(q, "  One rank is a copy within a GPU: nothing went over any link.\n");
		return BB_OK;
	}
	BB_TRY(st, bb_normal_machine_find(q, &machine, error), out);
	q->machine = &machine;
	q->row = bb_normal_largest(c);
	q->is_latency = bb_normal_is_latency(c);
	describe_machine(q);
	if (q->card && q->ranks == 0)
		SAY(q, "  The number of ranks is unknown; give --ranks.\n");
	*n = machine.cluster ? bb_normal_compare(q) : q->card ? BB_UNKNOWN : by_bound(q);
	if (*n == BB_UNKNOWN && !q->card && q->ranks > 1 && on_gpus && isnan(c->percent_of_bound))
		*n = by_every_card(q);
	if (on_gpus && c->runs <= 1) {
		const enum bb_normality even = bb_normal_evenness(q);

		*n = even > *n ? even : *n;
	}
	if (bb_normal_judge_bound(q) == BB_IMPOSSIBLE)
		*n = BB_IMPOSSIBLE;
	/* A warning of NCCL alone may be harmless. */
	if (*n < BB_DIED && failure && strstr(failure->quote, "Test ") &&
	    strstr(failure->quote, " failure"))
		*n = BB_DIED;
	verdict_explain(q, *n);
	bb_normal_machine_close(&machine);
out:
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
				.collective = "",
				.out = out};
	bb_status st = BB_OK;

	*n = BB_UNKNOWN;
	bb_strbuf_addf(out, "%s%s%s", claims->collective[0] ? claims->collective : "a collective",
		       claims->algorithm[0] ? ", " : "", claims->algorithm);
	if (claims->nranks > 0)
		bb_strbuf_addf(out, ", %lld rank%s", (long long)claims->nranks,
			       bb_plural(claims->nranks));
	if (claims->hosts > 0)
		bb_strbuf_addf(out, " on %lld host%s", (long long)claims->hosts,
			       bb_plural(claims->hosts));
	bb_strbuf_addf(out, "%s%s: %zu result%s\n", claims->gpu[0] ? ", " : "", claims->gpu,
		       claims->n, bb_plural(claims->n));
	if (claims->implausible > 0)
		bb_strbuf_addf(out,
			       "  %zu left out: algbw is not size over time, or busbw / algbw is "
			       "not that out of place.\n",
			       claims->implausible);
	if (claims->not_finite > 0)
		bb_strbuf_addf(out, "  %zu left out: nan or inf is among their numbers.\n",
			       claims->not_finite);
	if (claims->simulated) {
		bb_strbuf_add(out, "  Simulated in virtual time: no hardware was measured, so "
				   "nothing is compared.\n");
		return BB_OK;
	}

	if (claims->wrong > 0)
		bb_strbuf_addf(out,
			       "  Wrong data in %zu result%s (#wrong is not 0): fast but wrong is "
			       "not normal.\n",
			       claims->wrong, bb_plural(claims->wrong));
	if (claims->unchecked > 0)
		bb_strbuf_addf(out, "  The data of %zu result%s was not checked.\n",
			       claims->unchecked, bb_plural(claims->unchecked));
	if (claims->incomplete && circumstances->ranks == 0) {
		bb_strbuf_add(out, "  OSU prints times of a rank's message, and this log no number "
				   "of ranks; give --ranks.\n");
		return BB_OK;
	}
	if (claims->incomplete) {
		completed.list = calloc(claims->n + 1, sizeof(*completed.list));
		if (!completed.list)
			return bb_no_memory(error, "the rows");
		if (claims->n > 0)
			memcpy(completed.list, claims->list, claims->n * sizeof(*completed.list));
		bb_claims_complete(&completed, circumstances->ranks);
	}
	if (claims->runs > 1 && !is_alone(claims))
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

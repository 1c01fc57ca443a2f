/*
 * pairs.c - the benchmarks of pairs: their options, plan and verdict.
 */
#include "p2p/pairs.h"

#include "core/array.h"
#include "core/units.h"
#include "harness/run/plugin.h"
#include "topology/topology.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Per sample, so that it is long compared with reading the clock: bytes of all transfers,
   transfers, round trips. */
#define SAMPLE_BYTES ((uint64_t)256 << 10)
#define GPU_SAMPLE_BYTES                                                                           \
	((uint64_t)128 << 20) /* starting a copy and polling for its end take longer */
#define SAMPLE_REPEATS 1000
#define SAMPLE_PINGS 50
#define GPU_SAMPLE_PINGS 500 /* starting a kernel takes longer */
#define MAX_ITERS 1000000
#define MOST_SAMPLES 50000000 /* of all ranks together */
#define SETS 3                /* a source, a target, and a target that is verified */

static const char *const p2p_names[] = {"on", "off", "both", NULL};
static const char *const direction_names[] = {
	[BB_UNIDIRECTIONAL] = "unidirectional", [BB_BIDIRECTIONAL] = "bidirectional",
	[BB_ALL_TO_ONE] = "all-to-one",         [BB_ONE_TO_ALL] = "one-to-all",
	[BB_BOTH_DIRECTIONS] = "both",          [BB_ALL_DIRECTIONS] = "all",
	[BB_ALL_DIRECTIONS + 1] = NULL};
static const char *const handles_names[] = {
	[BB_HANDLES_AUTO] = "auto", [BB_HANDLES_IPC] = "ipc", [BB_HANDLES_FABRIC] = "fabric", NULL};
static const char *const findings_names[] = {"report", "fail", NULL};

#define BB_OPTIONS struct bb_pair_options
static const struct bb_option bandwidth_rows[] = BB_OPTION_ROWS(BB_BANDWIDTH_OPTIONS);
static const struct bb_option latency_rows[] = BB_OPTION_ROWS(BB_LATENCY_OPTIONS);

/* ---- options ------------------------------------------------------------------------------ */

/* A library reads its switch when its process starts, so it is set before the library is loaded. */
static bb_status switch_library(const struct bb_pair_options *settings,
				const struct bb_backend *backend,
				const struct bb_environment *environment, struct bb_error *error)
{
	const struct bb_route_switch *library = backend->routes->library;
	const struct bb_library_state *state = library ? library->states : NULL;
	struct bb_strbuf lines = {0};
	char name[BB_SWITCH_TEXT];
	bb_status status;

	if (!state || !state->name)
		return BB_OK;
	if (settings->p2p == BB_P2P_BOTH && settings->p2p_given && environment->launch.nprocs > 1) {
		for (; state->name; state++)
			bb_strbuf_addf(&lines, "\n  %-46s # %s", state->setting, state->name);
		status = bb_fail(
			error, BB_EUSAGE,
			"--p2p both: the library of the %s backend chooses how it moves bytes when "
			"it starts. Leave out --p2p and repeat the launcher's command with each of "
			"these in front:%s",
			backend->name, bb_strbuf_text(&lines));
		bb_strbuf_free(&lines);
		return status;
	}
	if (settings->p2p != BB_P2P_OFF)
		return BB_OK;
	while (state->p2p)
		state++;
	const char *const value = strchr(state->setting, '=') + 1;
	snprintf(name, sizeof(name), "%.*s", (int)(value - state->setting - 1), state->setting);
	if (setenv(name, value, 1) != 0)
		return bb_no_memory(error, name);
	return BB_OK;
}

static bb_status check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_pair_options *settings = own;

	if (!o->backend->routes)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "the %s backend has no routes between two ranks (see --list)",
			       o->backend->name);
	if (o->backend->virtual && o->warmup_iters_given)
		return bb_fail(error, BB_EUSAGE,
			       "-w %lld: virtual ranks need no warm-up; leave it out",
			       (long long)o->warmup_iters);
	if (!o->backend->virtual && o->fault.kind == BB_FAULT_SLOW_LINK &&
	    settings->directions >= BB_ALL_TO_ONE && settings->directions != BB_BOTH_DIRECTIONS)
		return bb_fail(error, BB_EUSAGE,
			       "--fault %s: a link is slowed down between the two ranks of a pair; "
			       "give --direction both",
			       o->fault_text);
	o->config.reached = o->config.library_optional = true;
	o->config.handles = (enum bb_handles)settings->handles;
	const bb_status status = bb_child_find(&settings->child, error);
	if (status == BB_OK && settings->child) {
		/* The parent judges and writes the results. */
		settings->p2p = BB_P2P_OFF;
		settings->findings = BB_FINDINGS_REPORT;
		o->csv_file = NULL;
		o->json_file = "-"; /* its records, which the parent reads */
	}
	return status == BB_OK ? switch_library(settings, o->backend, environment, error) : status;
}

/* ---- the ranks whose pairs are measured ---------------------------------------------------- */

#define FIRST_NODES 4
#define FIRST_LINKED 8 /* ranks, where all links are alike */

/* Choose all ranks; of many virtual ones those of some nodes, which cover every kind of path and
   every rank that a fault concerns. */
static bb_status choose_ranks(struct bb_pairs *pairs)
{
	struct bb_run *run = pairs->run;
	const struct bb_virtual_config *virtual = &run->options.virtual;
	const struct bb_cluster *cluster = run->options.cluster;
	const int nranks = run->world.nranks, per_node = cluster ? cluster->gpus : 1;
	/* Some nodes, so that a slow one is not typical; with a cluster also the nearest ones
	   behind other switches: in another domain, leaf and pod. */
	int nodes[FIRST_LINKED + 8], n = 0;
	struct bb_strbuf *text = &pairs->selection_text;

	pairs->n = nranks;
	if (!bb_pairs_are_virtual(pairs) || nranks <= BB_PAIR_ALL_ENDS)
		return BB_OK;
	pairs->ranks = calloc((size_t)nranks, sizeof(*pairs->ranks));
	if (!pairs->ranks)
		return bb_no_memory(&run->error, "the ranks");
	while (n < (cluster ? FIRST_NODES : FIRST_LINKED))
		nodes[n] = n, n++;
	if (cluster) {
		nodes[n++] = cluster->domain;
		nodes[n++] = (int)cluster->figures[BB_FIGURE_LEAF_NODES];
		nodes[n++] = (int)cluster->figures[BB_FIGURE_POD_NODES];
	}
	nodes[n++] = (nranks - 1) / per_node;
	if (virtual->flawed)
		nodes[n++] = virtual->flaw.node;
	if (virtual->slow_link.factor > 0) {
		nodes[n++] = virtual->slow_link.from / per_node;
		nodes[n++] = virtual->slow_link.to / per_node;
	}
	if (virtual->slow_rank.seconds > 0)
		nodes[n++] = virtual->slow_rank.rank / per_node;
	pairs->n = 0;
	for (int r = 0; r < nranks; r++)
		for (int i = 0; i < n; i++)
			if (r / per_node == nodes[i]) {
				pairs->ranks[pairs->n++] = r;
				break;
			}
	for (int i = 0; i < pairs->n; i++) { /* "0-7,24-31" */
		const int first = pairs->ranks[i];

		while (i + 1 < pairs->n && pairs->ranks[i + 1] == pairs->ranks[i] + 1)
			i++;
		bb_strbuf_addf(text, "%s%d", bb_strbuf_text(text)[0] ? "," : "", first);
		if (pairs->ranks[i] > first)
			bb_strbuf_addf(text, "-%d", pairs->ranks[i]);
	}
	run->record.pair_ranks = bb_strbuf_text(text);
	return bb_strbuf_failed(text) ? bb_no_memory(&run->error, "the ranks") : BB_OK;
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

/* ---- cells ---------------------------------------------------------------------------------- */

#define FAN_GRAIN 256 /* bytes: parts begin at multiples of it */

struct bb_pair_range bb_cell_range(const struct bb_cell *cell, int n, int hub, int other)
{
	const size_t parts = (size_t)n - 1, k = (size_t)(other < hub ? other : other - 1);
	size_t ends[2] = {0, (size_t)cell->bytes};

	for (size_t i = 0; i < 2 && cell->fan; i++)
		if (k + i < parts)
			ends[i] = bb_part_start((size_t)cell->bytes, parts, k + i) / FAN_GRAIN *
				  FAN_GRAIN;
	return (struct bb_pair_range){ends[0], ends[1] - ends[0]};
}

/* ---- a GPU alone ---------------------------------------------------------------------------- */

/* Its pair is the GPU and the host: copies between spaces of memory, as mem_bandwidth_perf measures
   them, reported as pairs. True if the world is one rank on a GPU. */
static bool is_host_pair(const struct bb_run *run)
{
	return run->world.nranks == 1 && run->options.backend->gpu && run->options.backend->spaces;
}

/* The routes, each between the GPU's memory and a space of the host's. */
static const struct host_route {
	const char *name, *brief;
	int space;
	enum bb_memory_kind one, both;
} host_routes[] = {
	{"pinned", "copy engine and pinned memory", BB_SPACE_PINNED, BB_MEMORY_COPY,
	 BB_MEMORY_BOTH},
	{"pinned-kernel", "kernel and pinned memory", BB_SPACE_PINNED, BB_MEMORY_KERNEL_COPY,
	 BB_MEMORY_KERNEL_BOTH},
	{"pageable", "through pinned memory of the driver", BB_SPACE_PAGEABLE, BB_MEMORY_COPY,
	 BB_MEMORY_BOTH},
};
#define HOST_ROUTES (sizeof(host_routes) / sizeof(host_routes[0]))

static void host_pair_complete(struct bb_run *run, const struct bb_memory_case *c,
			       struct bb_pair_record *r)
{
	struct bb_pairs *pairs = run->own;
	const struct bb_location *gpu = &run->infos[0].location;
	const int64_t numa = gpu->numa < 0 ? BB_ABSENT : gpu->numa;
	const bool both = bb_memory_is_both(c), pinned = c->from + c->to == BB_SPACE_PINNED;
	double GBps = 0;

	r->from_host = r->to_host = gpu->host;
	if (c->from == BB_SPACE_DEVICE) {
		r->from = 0;
		r->from_device = gpu->device;
		r->from_numa = numa;
	} else {
		r->to = 0;
		r->to_device = gpu->device;
		r->to_numa = numa;
	}
	r->path = "GPU and its host";
	r->p2p = pinned ? "on" : "off";
	r->actor = both ? "both" : c->from == BB_SPACE_DEVICE ? "source" : "target";
	/* The bound by the links between the GPU and the memory of the CPUs. */
	if (!both && pinned && run->topology && run->link_bounds.n == 1) {
		const struct bb_rank_place at = run->link_bounds.places[0];
		const struct bb_rank_place two[] = {at, {.node = at.node, .device = BB_ON_HOST}};

		bb_strbuf_free(&pairs->host_bound);
		if (bb_speed_of_light(run->topology, two, 2, BB_BOUND_PAIR, &GBps,
				      &pairs->host_bound) != BB_OK)
			return;
		r->bound_source = bb_strbuf_text(&pairs->host_bound);
		bb_pair_fill_bound(r, GBps);
	}
}

static bb_status plan_host_pair(struct bb_pairs *pairs)
{
	const struct bb_pair_options *a = &pairs->settings;
	struct bb_run *run = pairs->run;
	const struct bb_options *o = &run->options;

	if (a->directions == BB_ALL_TO_ONE || a->directions == BB_ONE_TO_ALL)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--direction: a GPU and its host are two ends; give -g 2");
	if (o->precision != 0)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--precision: the pair of a GPU and its host is measured -n times; leave "
			"it out, or give -g 2");
	run->experiment = &bb_memory_experiment;
	pairs->host.complete = host_pair_complete;
	for (size_t i = 0; i < 2 * HOST_ROUTES; i++) {
		const struct host_route *route = &host_routes[i % HOST_ROUTES];
		const bool both = i >= HOST_ROUTES, direct = route->space == BB_SPACE_PINNED;

		if (a->directions == (both ? BB_UNIDIRECTIONAL : BB_BIDIRECTIONAL) ||
		    (a->p2p != BB_P2P_BOTH && (a->p2p == BB_P2P_ON) != direct))
			continue;
		for (uint64_t size = o->min_bytes; size; size = bb_options_next_size(o, size))
			/* From the GPU and to it, or both at once. */
			for (int to_gpu = both; to_gpu < 2; to_gpu++) {
				const struct bb_memory_case c = {
					.kind = both ? route->both : route->one,
					.route = route->name,
					.from = to_gpu ? route->space : BB_SPACE_DEVICE,
					.to = to_gpu ? BB_SPACE_DEVICE : route->space,
					.alone = true,
					.bytes = size,
					.skip = size % BB_WORK_ALIGNMENT != 0
							? "sizes between a GPU and its host are "
							  "multiples of 256 bytes"
							: NULL};
				const bb_status status = bb_memory_plan_add(&pairs->host, run, c);

				if (status != BB_OK)
					return status;
			}
	}
	return BB_OK;
}

/* ---- plan --------------------------------------------------------------------------------- */

static bool is_direct(const struct bb_pairs *pairs, const struct bb_route *route)
{
	return route->direct && (!route->switched || pairs->library_p2p);
}

/* Is ROUTE measured in DIRECTION? The transfers of a fan must go on at once. */
static bool is_wanted(const struct bb_pairs *pairs, const struct bb_route *route,
		      enum bb_direction direction, bool ping)
{
	const int p2p = pairs->settings.p2p;
	const int chosen = ping ? (int)BB_BIDIRECTIONAL : pairs->settings.directions;

	if (!(route->uses & (ping ? BB_ROUTE_PING : BB_ROUTE_TRANSFER)))
		return false;
	if (chosen != (int)direction && chosen != BB_ALL_DIRECTIONS &&
	    (chosen != BB_BOTH_DIRECTIONS || direction > BB_BIDIRECTIONAL))
		return false;
	if (pairs->settings.child
		    ? !route->switched
		    : p2p != BB_P2P_BOTH && is_direct(pairs, route) != (p2p == BB_P2P_ON))
		return false;
	if (direction < BB_ALL_TO_ONE)
		return true;
	if (route->actor == BB_BY_BOTH)
		return route->batches || bb_pairs_are_virtual(pairs);
	return route->actor == (direction == BB_ALL_TO_ONE ? BB_BY_SOURCE : BB_BY_TARGET);
}

/* A matrix for each direction, route and size; of latency for each route. */
static bb_status plan_cells(struct bb_pairs *pairs, bool ping)
{
	const struct bb_options *o = &pairs->run->options;
	const bool gpu = o->backend->gpu;
	const bool virtual = bb_pairs_are_virtual(pairs); /* reading its clock takes no time */
	const uint64_t most = pairs->run->memory / SETS / (uint64_t)pairs->run->world.nlocal;
	const struct bb_route *list = o->backend->routes->list;

	for (enum bb_direction d = 0; d < BB_DIRECTIONS; d++)
		for (const struct bb_route *r = list; r->name; r++)
			for (uint64_t size = ping ? 1 : o->min_bytes;
			     size && is_wanted(pairs, r, d, ping);
			     size = ping ? 0 : bb_options_next_size(o, size)) {
				const uint64_t fit = (gpu ? GPU_SAMPLE_BYTES : SAMPLE_BYTES) / size;
				struct bb_cell *c =
					BB_ARRAY_ADD(pairs->cells, pairs->ncells, pairs->room);

				if (!c)
					return bb_no_memory(&pairs->run->error, "the plan");
				*c = (struct bb_cell){
					.route = r,
					.direct = !pairs->settings.child && is_direct(pairs, r),
					.ping = ping,
					.bidirectional = d == BB_BIDIRECTIONAL,
					.fan = d >= BB_ALL_TO_ONE ? d : 0,
					.bytes = ping ? 0 : size,
					.repeats = fit > SAMPLE_REPEATS ? SAMPLE_REPEATS : fit};
				if (ping)
					c->repeats = gpu ? GPU_SAMPLE_PINGS : SAMPLE_PINGS;
				if (virtual || c->repeats == 0)
					c->repeats = 1;
				if (c->bytes > most)
					c->skip = "its buffers do not fit into memory";
				else if (c->fan && size / (uint64_t)(pairs->n - 1) < FAN_GRAIN)
					c->skip = "fewer than 256 bytes for each of the other "
						  "ranks";
				else if (c->bytes > pairs->most_bytes)
					pairs->most_bytes = c->bytes;
			}
	return BB_OK;
}

static bb_status check_world(const struct bb_pairs *pairs)
{
	struct bb_run *run = pairs->run;
	const char *const word = run->options.launch ? "-np" : "-g";
	const int n = pairs->n;

	if (n < 2)
		return bb_fail(&run->error, BB_EUSAGE, "%s 1: a pair needs two ranks; give %s 2",
			       word, word);
	if (n > BB_PAIR_MAX_RANKS)
		return bb_fail(&run->error, BB_EUSAGE,
			       "%d ranks make %d pairs; give at most %d ranks", n, n * (n - 1),
			       BB_PAIR_MAX_RANKS);
	if (run->options.iters > MOST_SAMPLES / n / n)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"-n %lld: too many samples for all pairs of %d ranks; give at most %d",
			(long long)run->options.iters, n, MOST_SAMPLES / n / n);
	return BB_OK;
}

static bb_status plan(struct bb_run *run)
{
	const bool latency = run->benchmark == &bb_latency_benchmark;
	struct bb_pairs *pairs = run->own;
	const struct bb_route_switch *library = run->options.backend->routes->library;
	const int directions = pairs->settings.directions;
	char text[BB_SWITCH_TEXT] = "";
	bb_status status;

	pairs->run = run;
	if (is_host_pair(run) && latency)
		return bb_fail(&run->error, BB_EUSAGE,
			       "-g 1: a GPU and its host exchange no messages; give -g 2, or use "
			       "mem_bandwidth_perf --work latency");
	if (is_host_pair(run))
		return plan_host_pair(pairs);
	BB_TRY(status, choose_ranks(pairs), out);
	BB_TRY(status, check_world(pairs), out);
	if (library) { /* what it reports counts, whatever was requested */
		BB_TRY(status, library->p2p(run->context, &pairs->library_p2p, text), out);
		snprintf(pairs->library_text, sizeof(pairs->library_text), "%s (%s)",
			 pairs->library_p2p ? "on" : "off", text);
		run->record.library_p2p = pairs->library_text;
	}
	if (pairs->settings.p2p == BB_P2P_OFF && pairs->library_p2p)
		return bb_fail(&run->error, BB_EBACKEND,
			       "--p2p off: P2P of the library cannot be turned off: %s", text);
	BB_TRY(status, plan_cells(pairs, latency), out);
	/* A process that a launcher started cannot start another rank. */
	for (size_t i = 0; i < pairs->ncells && !run->options.launch; i++)
		pairs->has_child |= pairs->settings.p2p == BB_P2P_BOTH && pairs->library_p2p &&
				    pairs->cells[i].route->switched;
	/* Before drivers are pinned. */
	if (sched_getaffinity(0, sizeof(pairs->cpus), pairs->cpus) != 0)
		return bb_fail(&run->error, BB_EINTERNAL,
			       "cannot read which CPUs this process may use");
	if (pairs->ncells == 0)
		status = bb_fail(&run->error, BB_EUNSUPPORTED,
				 "--p2p %s%s: the %s backend has no such route%s%s (see --list)",
				 p2p_names[pairs->settings.p2p],
				 directions == BB_ALL_TO_ONE   ? ", all-to-one"
				 : directions == BB_ONE_TO_ALL ? ", one-to-all"
							       : "",
				 run->options.backend->name,
				 *pairs->library_text ? "; P2P of the library is " : "",
				 pairs->library_text);
out:
	return status;
}

static bb_status open_results(struct bb_run *run)
{
	struct bb_pairs *pairs = run->own;
	uint64_t bytes = 0;

	if (run->experiment == &bb_memory_experiment)
		return bb_memory_open_results(run);
	/* A child process measures at most as many. */
	pairs->matrices = calloc(2 * pairs->ncells, sizeof(*pairs->matrices));
	pairs->judged = calloc(2 * pairs->ncells, sizeof(*pairs->judged));
	if (!pairs->matrices || !pairs->judged)
		return bb_no_memory(&run->error, "the findings");
	for (size_t i = 0; i < pairs->ncells; i++)
		bytes += pairs->cells[i].bytes;
	bb_ticker_start(&run->ticker, pairs->ncells, bytes);
	return BB_OK;
}

static void list_backend(struct bb_strbuf *out, const struct bb_backend *backend)
{
	bb_strbuf_addf(out, "backend %s: %s\n", backend->name, backend->brief);
	if (!backend->routes)
		bb_strbuf_add(out, "  no routes between two ranks\n");
	for (const struct bb_route *r = backend->routes ? backend->routes->list : NULL;
	     r && r->name; r++)
		bb_strbuf_addf(out, "    %-12s %-10s P2P %-7s %s\n", r->name,
			       r->uses & BB_ROUTE_PING ? "latency" : "bandwidth",
			       r->switched ? "on, off"
			       : r->direct ? "on"
					   : "off",
			       r->brief);
	if (!backend->gpu || !backend->spaces)
		return;
	bb_strbuf_add(out, "  a GPU alone (-g 1) and its host\n");
	for (size_t i = 0; i < HOST_ROUTES; i++)
		bb_strbuf_addf(out, "    %-13s bandwidth  P2P %-7s %s\n", host_routes[i].name,
			       host_routes[i].space == BB_SPACE_PINNED ? "on" : "off",
			       host_routes[i].brief);
}

static void list(struct bb_strbuf *out)
{
	bb_plugin_list(out, list_backend);
}

/* ---- verdict ------------------------------------------------------------------------------ */

static bb_status judge(struct bb_run *run, const char **verdict)
{
	const struct bb_pairs *pairs = run->own;

	*verdict = "findings";
	if (pairs->settings.findings != BB_FINDINGS_FAIL)
		return BB_OK;
	if (pairs->nfindings == 0 && pairs->nunjudged > 0)
		return bb_fail(&run->error, BB_EBACKEND,
			       "%zu suspect%s could not be judged for too few undisturbed rounds: "
			       "%s; repeat on a quieter machine",
			       pairs->nunjudged, bb_plural((long long)pairs->nunjudged),
			       bb_strbuf_text(&pairs->unjudged));
	return pairs->nfindings == 0 ? BB_OK : BB_EDATA;
}

static void tell(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_pairs *pairs = run->own;
	const size_t answer = out->length;

	if (pairs->nfindings > 0 && pairs->settings.findings == BB_FINDINGS_REPORT)
		bb_strbuf_addf(out,
			       "# findings: %zu, not counted in the verdict (--findings fail)\n",
			       pairs->nfindings);
	if (pairs->nunjudged > 0)
		bb_strbuf_addf(
			out,
			"# not judged: %zu suspect%s with too few undisturbed rounds; repeat "
			"on a quieter machine\n# suspects: %s\n",
			pairs->nunjudged, bb_plural((int64_t)pairs->nunjudged),
			bb_strbuf_text(&pairs->unjudged));
	else if (pairs->nmatrices > 0 && pairs->nfindings == 0)
		bb_strbuf_add(out, !run->options.exact && run->options.iters < BB_FINDING_ROUNDS
					   ? "# findings: too few iterations to judge (-n)\n"
					   : "# findings: none\n");
	bb_run_answer(run, out, answer);
}

static void close_pairs(struct bb_run *run)
{
	struct bb_pairs *pairs = run->own;

	bb_child_free(pairs);
	bb_pair_link_bounds_close(pairs);
	free(pairs->host.cases);
	bb_strbuf_free(&pairs->host_bound);
	free(pairs->ranks);
	bb_strbuf_free(&pairs->selection_text);
	bb_review_close(pairs);
	bb_strbuf_free(&pairs->unjudged);
	free(pairs->cells);
}

#define FAULTS                                                                                     \
	(1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_SLOW | 1u << BB_FAULT_DIE |                       \
	 1u << BB_FAULT_SLOW_LINK)

#define NOT_FITTED                                                                                 \
	{                                                                                          \
		"calibrate", "it fits the time of collectives, not the link of a pair; give "      \
			     "--link or --cluster"                                                 \
	}

/* What both benchmarks have. */
#define OF_PAIRS                                                                                   \
	.own_bytes = sizeof(struct bb_pairs), .programs = true, .check = check, .list = list,      \
	.text = &bb_sink_matrix, .rows = &bb_record_pair, .plan = plan,                            \
	.open_results = open_results, .experiment = &bb_pairs_experiment, .judge = judge,          \
	.tell = tell, .close = close_pairs

const struct bb_benchmark bb_bandwidth_benchmark = {
	OF_PAIRS,
	.brief = "Bandwidth between any two ranks, with P2P on and off.",
	.examples = {"-g 2 --p2p both", "--backend sim --cluster hgx-h100:2 -b 64M -e 64M"},
	.subject = &(const size_t){offsetof(struct bb_pairs, host)},
	.options = bandwidth_rows,
	.refuses = {NOT_FITTED},
	.faults = FAULTS,
};

const struct bb_benchmark bb_latency_benchmark = {
	OF_PAIRS,
	.brief = "Latency between any two ranks: half a round trip of a small message.",
	.examples = {"-g 2", "--backend sim --cluster hgx-h100:2"},
	.options = latency_rows,
	.refuses = {{BB_ALL_SIZES,
		     "latency is that of a small message of fixed size; leave it out, or use "
		     "p2p_bandwidth_perf"},
		    NOT_FITTED},
	.faults = FAULTS & ~(1u << BB_FAULT_CORRUPT),
};

/*
 * results.c - results of all ranks: a record for each pair, and findings.
 */
#include "p2p/pairs.h"

#include "core/bound.h"

#include "core/clock.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BB_RECORD bb_finding_record
BB_RECORD_KIND(bb_record_finding, BB_FINDING_FIELDS, "finding",
	       "Of pairs: something that looks wrong.");

static const char *direction_of(const struct bb_cell *cell)
{
	static const char *const names[] = {[BB_UNIDIRECTIONAL] = "unidirectional",
					    [BB_BIDIRECTIONAL] = "bidirectional",
					    [BB_ALL_TO_ONE] = "all-to-one",
					    [BB_ONE_TO_ALL] = "one-to-all"};

	return names[bb_cell_direction(cell)];
}

static const char *p2p_of(const struct bb_cell *cell)
{
	return cell->direct ? "on" : "off";
}

static const struct bb_pair_part *part_of(const struct bb_pairs *pairs,
					  const struct bb_pair_part *parts, int rank, int peer)
{
	return &parts[(size_t)rank * (size_t)pairs->n + (size_t)peer];
}

static const struct bb_pair_part *timed(const struct bb_pairs *pairs, const struct bb_cell *cell,
					const struct bb_pair_part *parts, int from, int to)
{
	const int rank = bb_pair_timer(cell, from, to);

	return part_of(pairs, parts, rank, rank == from ? to : from);
}

/* ---- records ------------------------------------------------------------------------------- */

/* PATH holds the name of the path, which R borrows. Virtual ranks have no host; in a cluster each
   is a GPU or core of a node. */
static void fill_ends(const struct bb_pairs *pairs, int from, int to, char path[BB_PAIR_PATH_TEXT],
		      struct bb_pair_record *r)
{
	const struct bb_location *a = &pairs->run->infos[from].location;
	const struct bb_location *b = &pairs->run->infos[to].location;
	const struct bb_cluster *c = pairs->run->options.cluster;

	r->from = bb_pair_rank(pairs, from);
	r->to = bb_pair_rank(pairs, to);
	bb_pair_path(pairs, from, to, path);
	r->path = from == to ? "private copy" : path;
	if (!bb_pairs_are_virtual(pairs)) {
		r->ends = pairs->run->options.backend->gpu ? "gpu" : "core";
		r->from_host = a->host;
		r->to_host = b->host;
		r->from_device = a->device;
		r->to_device = b->device;
		r->from_numa = a->numa < 0 ? BB_ABSENT : a->numa;
		r->to_numa = b->numa < 0 ? BB_ABSENT : b->numa;
		return;
	}
	r->ends = !c || c->inside == BB_INSIDE_NOTHING ? "rank"
		  : c->inside == BB_INSIDE_MEMORY      ? "core"
						       : "gpu";
	if (!c)
		return;
	r->from_node = bb_cluster_node(c, (int)r->from);
	r->to_node = bb_cluster_node(c, (int)r->to);
	r->from_device = r->from % c->gpus;
	r->to_device = r->to % c->gpus;
}

/* The kind of handle by which one end has mapped the other's memory; NULL: both are in one process,
   or a library moves the bytes. */
static const char *handle_of(const struct bb_pairs *pairs, const struct bb_cell *cell, int from,
			     int to)
{
	const struct bb_location *a = &pairs->run->infos[from].location;
	const struct bb_location *b = &pairs->run->infos[to].location;
	const struct bb_location *mapped = cell->route->actor == BB_BY_SOURCE ? b : a;

	if (!cell->route->direct || cell->route->switched || !mapped->handle[0] ||
	    (a->pid == b->pid && strcmp(a->host, b->host) == 0))
		return NULL;
	return mapped->handle;
}

static void fill_case(const struct bb_pairs *pairs, const struct bb_cell *cell,
		      const struct bb_pair_part *part, struct bb_pair_record *r)
{
	static const char *const actors[] = {
		[BB_BY_TARGET] = "target", [BB_BY_SOURCE] = "source", [BB_BY_BOTH] = "both"};

	r->quantity = cell->ping ? "latency" : "bandwidth";
	r->route = cell->route->name;
	r->p2p = p2p_of(cell);
	r->actor = actors[cell->route->actor];
	r->direction = direction_of(cell);
	r->size_bytes = cell->ping ? BB_ABSENT : (int64_t)cell->bytes;
	r->repeats = (int64_t)cell->repeats;
	r->child_process = pairs->settings.child;
	r->p50_us = part->p50 * 1e6;
	r->p99_us = part->p99 * 1e6;
	r->min_us = part->min * 1e6;
	r->max_us = part->max * 1e6;
	r->rounds = part->rounds;
	r->samples = part->samples;
	r->end_unix_s = bb_clock_unix();
}

static void add_wrong(struct bb_pair_record *r, const struct bb_pair_part *part)
{
	if (part->checked)
		r->wrong = (r->wrong == BB_ABSENT ? 0 : r->wrong) + (int64_t)part->wrong;
}

/* Add the bandwidth of PART: the median of its rounds and their quartiles. */
static void add_bandwidth(struct bb_pair_record *r, const struct bb_cell *cell,
			  const struct bb_pair_part *part)
{
	const double GB = 1e-9 * (double)cell->bytes;

	if (isnan(r->GBps))
		r->GBps = r->low_GBps = r->high_GBps = 0;
	r->GBps += GB * bb_pair_rate(part->mid);
	r->low_GBps += GB * bb_pair_rate(part->high);
	r->high_GBps += GB * bb_pair_rate(part->low);
}

void bb_pair_fill_bound(struct bb_pair_record *r, double GBps)
{
	if (GBps <= 0)
		return;
	r->bound_GBps = GBps;
	r->percent_of_bound = 100 * r->GBps / GBps;
	r->bound_doubt = bb_bound_doubt(r->percent_of_bound, 100 * r->low_GBps / GBps,
					r->bound_source == bb_pair_private_copy ||
							r->bound_source == bb_fan_private_copies
						? BB_BOUND_BY_COPIES
						: BB_BOUND_BY_LINKS);
}

/* Deliver a pair, or a rank with itself, if it was measured. */
static bb_status deliver_pair(struct bb_engine *engine, const struct bb_cell *cell,
			      const struct bb_pair_part *parts, int from, int to)
{
	struct bb_pairs *pairs = engine->run->own;
	const struct bb_pair_part *part = timed(pairs, cell, parts, from, to);
	char path[BB_PAIR_PATH_TEXT];
	struct bb_pair_record r;

	if (part->rounds == 0)
		return BB_OK;
	bb_record_init(&bb_record_pair, &r);
	fill_ends(pairs, from, to, path, &r);
	fill_case(pairs, cell, part, &r);
	r.handle = handle_of(pairs, cell, from, to);
	add_wrong(&r, part_of(pairs, parts, to, from));
	if (cell->bidirectional)
		add_wrong(&r, part_of(pairs, parts, from, to));
	if (!cell->ping) {
		const int actor = cell->route->actor == BB_BY_SOURCE ? from : to;

		add_bandwidth(&r, cell, part);
		/* The bandwidth of both directions at once is their sum. */
		if (cell->bidirectional)
			add_bandwidth(&r, cell, timed(pairs, cell, parts, to, from));
		bb_pair_fill_bound(&r, bb_pair_bound(pairs, cell, from, to,
						     part_of(pairs, parts, actor, actor)->mid,
						     &r.bound_source) /
					       1e9);
	}
	return bb_engine_deliver(engine, &bb_record_pair, &r, r.wrong);
}

/* Deliver the turn of HUB with all others, if it had one. Its path is their common one, if they
   have one. */
static bb_status deliver_fan(struct bb_engine *engine, const struct bb_cell *cell,
			     const struct bb_pair_part *parts, int hub)
{
	struct bb_pairs *pairs = engine->run->own;
	const bool in = cell->fan == BB_ALL_TO_ONE;
	const int n = pairs->n, next = (hub + 1) % n;
	const struct bb_pair_part *part = part_of(pairs, parts, hub, hub);
	char path[BB_PAIR_PATH_TEXT], other[BB_PAIR_PATH_TEXT];
	struct bb_pair_record r;

	if (part->rounds == 0)
		return BB_OK;
	bb_record_init(&bb_record_pair, &r);
	fill_ends(pairs, in ? next : hub, in ? hub : next, path, &r);
	for (int peer = 0; peer < n; peer++) {
		const int from = in ? peer : hub, to = in ? hub : peer;

		add_wrong(&r, part_of(pairs, parts, peer, hub));
		if (peer == hub)
			continue;
		bb_pair_path(pairs, from, to, other);
		if (strcmp(path, other) != 0)
			r.path = "several";
		r.handle = r.handle ? r.handle : handle_of(pairs, cell, from, to);
	}
	if (in) {
		r.from = r.from_node = r.from_device = r.from_numa = BB_ABSENT;
		r.from_host = NULL;
	} else {
		r.to = r.to_node = r.to_device = r.to_numa = BB_ABSENT;
		r.to_host = NULL;
	}
	fill_case(pairs, cell, part, &r);
	add_bandwidth(&r, cell, part);
	bb_pair_fill_bound(&r, bb_fan_bound(pairs, cell, hub, part_of(pairs, parts, hub, next)->mid,
					    &r.bound_source) /
				       1e9);
	return bb_engine_deliver(engine, &bb_record_pair, &r, r.wrong);
}

static bb_status skip(struct bb_engine *engine, const struct bb_cell *cell, const char *reason)
{
	struct bb_skip_record record;

	bb_record_init(&bb_record_skip, &record);
	record.algorithm = cell->route->name;
	record.size_bytes = cell->ping ? BB_ABSENT : (int64_t)cell->bytes;
	record.reason = reason;
	return bb_engine_skip(engine, &record);
}

bb_status bb_pairs_refuse(struct bb_engine *engine, const struct bb_cell *cell,
			  const struct bb_reach *reach)
{
	const int others = reach->refused - 1;
	struct bb_strbuf text = {0};
	bb_status status;

	if (reach->refused == 0 || cell->skip)
		return BB_OK;
	bb_strbuf_addf(&text, "%d <-> %d", reach->from, reach->to);
	if (others > 0)
		bb_strbuf_addf(&text, " and %d other pair%s", others, bb_plural(others));
	bb_strbuf_addf(&text, ": %s", reach->reason);
	status = skip(engine, cell, bb_strbuf_text(&text));
	bb_strbuf_free(&text);
	return status;
}

/* Private copies come first: pairs are compared with them. */
bb_status bb_pairs_deliver(struct bb_engine *engine, size_t number,
			   const struct bb_pair_part *parts)
{
	struct bb_pairs *pairs = engine->run->own;
	const struct bb_cell *cell = &pairs->cells[number];
	const int n = pairs->n;
	bb_status status = BB_OK;

	if (cell->skip)
		return skip(engine, cell, cell->skip);
	if (!cell->fan)
		status = bb_review_keep(pairs, number, parts);
	for (int r = 0; r < n && status == BB_OK; r++)
		status = cell->fan ? deliver_fan(engine, cell, parts, r)
				   : deliver_pair(engine, cell, parts, r, r);
	for (int i = 0; i < n * n && status == BB_OK && !cell->fan; i++)
		if (cell->bidirectional ? i / n < i % n : i / n != i % n)
			status = deliver_pair(engine, cell, parts, i / n, i % n);
	return status;
}

/* ---- findings ------------------------------------------------------------------------------ */

static const char *const finding_names[] = {
	[BB_FIND_SLOWER_DIRECT] = "P2P slower than staged",
	[BB_FIND_SLOW_RANK] = "slow rank",
	[BB_FIND_ASYMMETRY] = "asymmetry",
	[BB_FIND_SLOW_PAIR] = "slow pair",
	[BB_FIND_BELOW_BOUND] = "below bound",
};

/* Microseconds or GB/s. */
static double shown(const struct bb_cell *cell, double speed)
{
	return cell->ping ? 1e6 * bb_pair_rate(speed) : speed / 1e9;
}

static void add_speed(struct bb_strbuf *out, const struct bb_cell *cell, double speed)
{
	char text[BB_UNIT_TEXT];

	if (cell->ping)
		bb_strbuf_add(out, bb_format_duration(text, bb_pair_rate(speed)));
	else
		bb_strbuf_addf(out, "%.3g GB/s", speed / 1e9);
}

static void add_subject(struct bb_strbuf *out, const struct bb_pairs *pairs,
			const struct bb_finding *f)
{
	const int from = f->from < 0 ? -1 : bb_pair_rank(pairs, f->from);
	const int to = f->to < 0 ? -1 : bb_pair_rank(pairs, f->to);
	char path[BB_PAIR_PATH_TEXT] = "";

	if (f->from >= 0)
		bb_pair_path(pairs, f->from, f->to, path);
	switch (f->kind) {
	case BB_FIND_SLOWER_DIRECT:
		bb_strbuf_addf(out, "%d -> %d is slower with P2P on than off: ", from, to);
		break;
	case BB_FIND_SLOW_RANK:
		bb_strbuf_addf(out, "rank %d is slow in all its pairs",
			       bb_pair_rank(pairs, f->rank));
		if (f->from >= 0)
			bb_strbuf_addf(out, " (%s)", path);
		bb_strbuf_add(out, ": ");
		break;
	case BB_FIND_ASYMMETRY:
		bb_strbuf_addf(out, "%d -> %d is slower than %d -> %d: ", from, to, to, from);
		break;
	case BB_FIND_SLOW_PAIR:
		bb_strbuf_addf(out, "%d <-> %d is slower than other pairs (%s): ", from, to, path);
		break;
	case BB_FIND_BELOW_BOUND:
		bb_strbuf_addf(out, "%d pair%s (%s) far below the bound; the worst, %d -> %d: ",
			       f->pairs, f->pairs == 1 ? " is" : "s are", path, from, to);
		break;
	}
}

/* "0 -> 1 is slower than 1 -> 0: 3.1 GB/s, not 9.9 GB/s (read, unidirectional, 32M)" */
static void finding_describe(struct bb_strbuf *out, const struct bb_pairs *pairs,
			     const struct bb_finding *f, const char *cause)
{
	const struct bb_cell *cell = &pairs->judged[f->matrix].cell;
	char size[BB_UNIT_TEXT];

	add_subject(out, pairs, f);
	add_speed(out, cell, f->value);
	bb_strbuf_add(out, ", not ");
	add_speed(out, cell, f->reference);
	bb_strbuf_addf(out, " (%s", cell->route->name);
	if (cell->route->switched)
		bb_strbuf_addf(out, ", P2P %s", p2p_of(cell));
	if (!cell->ping)
		bb_strbuf_addf(out, ", %s, %s", direction_of(cell),
			       bb_format_size(size, cell->bytes));
	bb_strbuf_addf(out, ")%s%s", cause ? "; " : "", cause ? cause : "");
}

static int64_t rank_or_absent(const struct bb_pairs *pairs, int end)
{
	return end < 0 ? BB_ABSENT : bb_pair_rank(pairs, end);
}

static bb_status deliver_finding(struct bb_pairs *pairs, const struct bb_finding *f,
				 const char *cause)
{
	const struct bb_cell *cell = &pairs->judged[f->matrix].cell;
	char path[BB_PAIR_PATH_TEXT];
	struct bb_strbuf answer = {0};
	struct bb_finding_record r;
	bb_status status;

	bb_record_init(&bb_record_finding, &r);
	r.finding = finding_names[f->kind];
	r.rank = rank_or_absent(pairs, f->rank);
	r.from = rank_or_absent(pairs, f->from);
	r.to = rank_or_absent(pairs, f->to);
	r.pairs = f->pairs;
	if (f->from >= 0)
		bb_pair_path(pairs, f->from, f->to, path);
	r.path = f->from < 0 ? NULL : path;
	r.route = cell->route->name;
	r.p2p = p2p_of(cell);
	r.direction = direction_of(cell);
	r.size_bytes = cell->ping ? BB_ABSENT : (int64_t)cell->bytes;
	*(cell->ping ? &r.value_us : &r.value_GBps) = shown(cell, f->value);
	*(cell->ping ? &r.reference_us : &r.reference_GBps) = shown(cell, f->reference);
	r.share = f->value / f->reference;
	r.cause = cause;
	bb_strbuf_add(&answer, "finding: ");
	finding_describe(&answer, pairs, f, cause);
	bb_run_answer(pairs->run, &answer, 0);
	r.text = bb_strbuf_text(&answer) + strlen("finding: ");
	status = bb_sinks_record(&pairs->run->sinks, &bb_record_finding, &r);
	bb_strbuf_free(&answer);
	return status;
}

bb_status bb_pairs_judge(struct bb_pairs *pairs)
{
	struct bb_findings found;
	bb_status status = bb_review_find(pairs, &found);

	for (size_t i = 0; i < found.n && status == BB_OK; i++) {
		const struct bb_finding *f = &found.list[i];
		char text[BB_CAUSE_TEXT];
		const char *cause = bb_pair_cause(pairs, f, text);

		if (f->confirmed) {
			pairs->nfindings++;
			status = deliver_finding(pairs, f, cause);
			continue;
		}
		/* A suspect whose result may be chance. */
		if (pairs->nunjudged++ > 0)
			bb_strbuf_add(&pairs->unjudged, "; ");
		finding_describe(&pairs->unjudged, pairs, f, cause);
	}
	bb_findings_free(&found);
	return status;
}

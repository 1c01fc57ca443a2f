/*
 * results.c - results of all ranks: a record for each pair, and findings, judged by the undisturbed
 * rounds of each pair (suspects/retest.h); the pairs to measure again until every finding is
 * decided.
 */
#include "p2p/pairs.h"

#include "core/clock.h"
#include "core/random.h"
#include "core/stats.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EACH 8 /* suspects, and as many references, of a finding in a round */

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

/* Returns where the end that times a transfer FROM one TO the other has it among those of all ends
   and peers. */
static size_t timed_at(const struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to)
{
	const bool by_source = cell->ping || cell->route->actor == BB_BY_SOURCE;

	return (size_t)((by_source ? from : to) * pairs->n + (by_source ? to : from));
}

/* ---- records ------------------------------------------------------------------------------- */

/* Fill in one end of a record. Virtual ranks have no host; in a cluster each is a GPU or core of a
   node. */
static void fill_end(const struct bb_pairs *pairs, int end, int64_t *rank, int64_t *node,
		     int64_t *device, int64_t *numa, const char **host)
{
	const struct bb_location *at = &pairs->run->infos[end].location;
	const struct bb_cluster *c = pairs->run->options.cluster;

	*rank = bb_pair_rank(pairs, end);
	if (!bb_pairs_are_virtual(pairs)) {
		*host = at->host;
		*device = at->device;
		*numa = at->numa < 0 ? BB_ABSENT : at->numa;
	} else if (c) {
		*node = bb_cluster_node(c, (int)*rank);
		*device = *rank % c->gpus;
	}
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
	if (GBps <= 0) {
		r->bound_source = NULL;
		return;
	}
	r->bound_GBps = GBps;
	r->percent_of_bound = 100 * r->GBps / GBps;
	r->bound_doubt = bb_bound_doubt(r->percent_of_bound, 100 * r->low_GBps / GBps,
					r->bound_source == bb_pair_private_copy ||
							r->bound_source == bb_fan_private_copies
						? BB_BOUND_BY_COPIES
						: BB_BOUND_BY_LINKS);
}

/* Deliver the turn FROM one end TO the other, if there was one. Both are a rank with itself, or
   with all others, when its path is their common one, if they have one. */
static bb_status deliver_turn(struct bb_engine *engine, const struct bb_cell *cell,
			      const struct bb_pair_part *parts, int from, int to)
{
	static const char *const actors[] = {
		[BB_BY_TARGET] = "target", [BB_BY_SOURCE] = "source", [BB_BY_BOTH] = "both"};
	struct bb_pairs *pairs = engine->run->own;
	const struct bb_rank_info *infos = pairs->run->infos;
	const struct bb_cluster *cluster = pairs->run->options.cluster;
	const enum bb_inside inside = cluster ? cluster->inside : BB_INSIDE_NOTHING;
	const struct bb_pair_part *part = &parts[timed_at(pairs, cell, from, to)];
	const int actor = cell->route->actor == BB_BY_SOURCE ? from : to;
	const int next = (from + 1) % pairs->n; /* whose series with a hub has private copies */
	const struct bb_pair_part *private =
		cell->fan ? part_of(pairs, parts, from, next) : part_of(pairs, parts, actor, actor);
	char path[BB_PAIR_PATH_TEXT], other[BB_PAIR_PATH_TEXT];
	struct bb_pair_record r;

	if (part->rounds == 0)
		return BB_OK;
	bb_record_init(&bb_record_pair, &r);
	r.ends = !bb_pairs_are_virtual(pairs)  ? (engine->backend->gpu ? "gpu" : "core")
		 : inside == BB_INSIDE_NOTHING ? "rank"
		 : inside == BB_INSIDE_MEMORY  ? "core"
					       : "gpu";
	r.quantity = cell->ping ? "latency" : "bandwidth";
	r.route = cell->route->name;
	r.p2p = p2p_of(cell);
	r.actor = actors[cell->route->actor];
	r.direction = direction_of(cell);
	r.size_bytes = cell->ping ? BB_ABSENT : (int64_t)cell->bytes;
	r.repeats = (int64_t)cell->repeats;
	r.child_process = pairs->settings.child;
	r.p50_us = part->p50 * 1e6;
	r.p99_us = part->p99 * 1e6;
	r.min_us = part->min * 1e6;
	r.max_us = part->max * 1e6;
	r.rounds = part->rounds;
	r.samples = part->samples;
	r.end_unix_s = bb_clock_unix();
	if (cell->fan != BB_ALL_TO_ONE)
		fill_end(pairs, from, &r.from, &r.from_node, &r.from_device, &r.from_numa,
			 &r.from_host);
	if (cell->fan != BB_ONE_TO_ALL)
		fill_end(pairs, to, &r.to, &r.to_node, &r.to_device, &r.to_numa, &r.to_host);
	for (int peer = 0; peer < pairs->n; peer++) {
		const int source = cell->fan == BB_ALL_TO_ONE ? peer : from;
		const int target = cell->fan == BB_ONE_TO_ALL ? peer : to;
		const struct bb_location *a, *b;

		if (!cell->fan && peer != to)
			continue;
		add_wrong(&r, part_of(pairs, parts, peer, from));
		if (cell->fan && peer == from)
			continue;
		bb_pair_path(pairs, source, target, r.path ? other : path);
		if (!r.path)
			r.path = path;
		else if (strcmp(path, other) != 0)
			r.path = "several";
		/* By which one end has mapped the other's memory, unless both are in one process
		   or a library moves the bytes. */
		a = &infos[source].location;
		b = &infos[target].location;
		const char *const handle = (cell->route->actor == BB_BY_SOURCE ? b : a)->handle;
		if (!r.handle && cell->route->direct && !cell->route->switched && handle[0] &&
		    (a->pid != b->pid || strcmp(a->host, b->host) != 0))
			r.handle = handle;
	}
	if (from == to && !cell->fan)
		r.path = "private copy";
	if (cell->bidirectional)
		add_wrong(&r, part_of(pairs, parts, from, to));
	if (!cell->ping) {
		add_bandwidth(&r, cell, part);
		/* The bandwidth of both directions at once is their sum. */
		if (cell->bidirectional)
			add_bandwidth(&r, cell, &parts[timed_at(pairs, cell, to, from)]);
		bb_pair_fill_bound(
			&r,
			bb_pair_bound(pairs, cell, from, to, private->mid, &r.bound_source) / 1e9);
	}
	return bb_engine_deliver(engine, &bb_record_pair, &r, r.wrong);
}

/* ---- what findings are judged by ------------------------------------------------------------ */

static struct bb_floor *floor_of(const struct bb_pairs *pairs, size_t matrix, int from, int to)
{
	const struct bb_judged *judged = &pairs->judged[matrix];

	return &judged->floors[timed_at(pairs, &judged->cell, from, to)];
}

/* Add one direction to V. */
static void add_floor(struct bb_pair_value *v, const struct bb_floor *floor, double unit)
{
	v->best += unit * bb_pair_rate(floor->kept[0]);
	v->usual += unit * bb_pair_rate(bb_floor_usual(floor));
	v->near = v->rounds == 0 || floor->near < v->near ? floor->near : v->near;
	v->rounds = v->rounds == 0 || floor->rounds < v->rounds ? floor->rounds : v->rounds;
}

/* Returns the number of the matrix of CELL's route and direction, which holds the largest size;
   nmatrices: there is none yet. */
static size_t place_of(const struct bb_pairs *pairs, const struct bb_cell *cell)
{
	size_t k = 0;

	while (k < pairs->nmatrices && (pairs->judged[k].cell.route != cell->route ||
					pairs->judged[k].cell.direct != cell->direct ||
					pairs->judged[k].cell.bidirectional != cell->bidirectional))
		k++;
	return k;
}

/* Make matrix K that of CELL, number NUMBER; -1: a child process has measured it. */
static bb_status open_matrix(struct bb_pairs *pairs, size_t k, const struct bb_cell *cell,
			     int number)
{
	struct bb_judged *judged = &pairs->judged[k];
	const size_t all = (size_t)pairs->n * (size_t)pairs->n;

	if (k == pairs->nmatrices) {
		if (k == 2 * pairs->ncells)
			return bb_fail(&pairs->run->error, BB_EINTERNAL, "too many matrices");
		judged->floors = calloc(all, sizeof(*judged->floors));
		judged->values = calloc(all, sizeof(*judged->values));
		pairs->nmatrices++;
	}
	if (!judged->floors || !judged->values)
		return bb_no_memory(&pairs->run->error, "the findings");
	judged->cell = *cell;
	judged->number = number;
	pairs->matrices[k] = (struct bb_pair_matrix){
		.direct = cell->direct,
		.bidirectional = cell->bidirectional,
		.by_source = cell->route->actor == BB_BY_SOURCE,
		.by_target = cell->route->actor == BB_BY_TARGET,
		.exact = pairs->run->options.exact,
		.values = judged->values,
		.nranks = pairs->n,
	};
	return BB_OK;
}

bb_status bb_review_take(struct bb_pairs *pairs, const struct bb_cell *cell, int rank, int peer,
			 const struct bb_floor *floor)
{
	const size_t k = place_of(pairs, cell);
	bb_status status = open_matrix(pairs, k, cell, -1);

	if (status == BB_OK)
		pairs->judged[k].floors[rank * pairs->n + peer] = *floor;
	return status;
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

	if (reach->refused == 0 || cell->skip)
		return BB_OK;
	bb_strbuf_addf(&text, "%d <-> %d", reach->from, reach->to);
	if (others > 0)
		bb_strbuf_addf(&text, " and %d other pair%s", others, bb_plural(others));
	bb_strbuf_addf(&text, ": %s", reach->reason);
	const bb_status status = skip(engine, cell, bb_strbuf_text(&text));
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
	const size_t k = place_of(pairs, cell);
	bb_status status = BB_OK;

	if (cell->skip)
		return skip(engine, cell, cell->skip);
	/* The findings judge the largest size. */
	if (!cell->fan)
		status = open_matrix(pairs, k, cell, (int)number);
	for (int i = 0; i < n * n && status == BB_OK && !cell->fan; i++)
		pairs->judged[k].floors[i] = parts[i].floor;
	for (int r = 0; r < n && status == BB_OK; r++)
		status = deliver_turn(engine, cell, parts, r, r);
	for (int i = 0; i < n * n && status == BB_OK && !cell->fan; i++)
		if (cell->bidirectional ? i / n < i % n : i / n != i % n)
			status = deliver_turn(engine, cell, parts, i / n, i % n);
	return status;
}

/* FOUND = the findings of all that was kept. Free it whatever comes back. */
static bb_status find_all(struct bb_pairs *pairs, struct bb_findings *found)
{
	const int n = pairs->n;
	char path[BB_PAIR_PATH_TEXT];
	const char *source;

	for (size_t k = 0; k < pairs->nmatrices; k++)
		for (int i = 0; i < n * n; i++) {
			const struct bb_cell *cell = &pairs->judged[k].cell;
			const int from = i / n, to = i % n;
			const int actor = cell->route->actor == BB_BY_SOURCE ? from : to;
			const bool adds = cell->bidirectional && !cell->ping;
			const double unit = cell->ping ? 1 : (double)cell->bytes;
			struct bb_pair_value *v = &pairs->judged[k].values[i];

			*v = (struct bb_pair_value){.rounds = 0};
			/* A rank with itself is not judged. */
			if (cell->bidirectional ? from >= to : from == to)
				continue;
			v->from = from;
			v->to = to;
			v->like = bb_pair_path(pairs, from, to, path);
			v->factor = bb_pair_factor(pairs, cell, from, to);
			v->unit = adds ? 2 * unit : unit;
			add_floor(v, floor_of(pairs, k, from, to), unit);
			if (adds)
				add_floor(v, floor_of(pairs, k, to, from), unit);
			/* Where time is exact, one round says as much as many. */
			if (pairs->run->options.exact && v->rounds > 0)
				v->rounds = BB_FINDING_ROUNDS;
			v->planned_s =
				bb_pair_planned_s(pairs, cell->ping ? 0 : unit, from, to, &source);
			v->bound = bb_pair_bound(pairs, cell, from, to,
						 bb_floor_usual(floor_of(pairs, k, actor, actor)),
						 &source);
		}
	const bb_status status = bb_findings_make(found, pairs->matrices, pairs->nmatrices);
	return status == BB_OK ? BB_OK : bb_no_memory(&pairs->run->error, "the findings");
}

/* ---- measuring again ---------------------------------------------------------------- */

/* Does pair AT of matrix K belong to what F suspects? That includes private copies of the ends of
   suspects, which are their bound. If not: can it be a reference? */
static bool is_suspect(const struct bb_pairs *pairs, const struct bb_finding *f, size_t k, int at,
		       bool *measured)
{
	const int from = at / pairs->n, to = at % pairs->n;

	*measured = !(pairs->matrices[k].bidirectional && from > to) &&
		    floor_of(pairs, k, from, to)->rounds > 0;
	return f->rank >= 0 ? from == f->rank || to == f->rank
			    : (from == f->from || from == f->to) && (to == f->from || to == f->to);
}

/* Add at most EACH pairs of matrix K that F suspects, or others, in turn: the next ones in each
   ROUND. */
static void add_turns(const struct bb_pairs *pairs, const struct bb_finding *f, size_t k,
		      bool suspects, int round, struct bb_pair_turns *turns)
{
	const int n = pairs->n;
	int all = 0, number = 0;
	bool measured;

	for (int at = 0; at < n * n; at++)
		all += is_suspect(pairs, f, k, at, &measured) == suspects && measured;
	for (int at = 0; at < n * n; at++) {
		const struct bb_pair_turn turn = {(int32_t)pairs->judged[k].number, at / n, at % n};
		int before = 0;

		if (is_suspect(pairs, f, k, at, &measured) != suspects || !measured ||
		    (number++ + round * EACH) % all >= EACH)
			continue;
		while (before < turns->n && memcmp(&turns->list[before], &turn, sizeof(turn)) != 0)
			before++;
		if (before == turns->n && before < BB_PAIR_TURNS)
			turns->list[turns->n++] = turn;
	}
}

bb_status bb_review_list(struct bb_pairs *pairs, int round, struct bb_pair_turns *turns)
{
	uint64_t random = (uint64_t)round;
	struct bb_findings found;
	bb_status status = find_all(pairs, &found);

	turns->n = 0;
	for (size_t i = 0; i < found.n && status == BB_OK; i++) {
		const struct bb_finding *f = &found.list[i];
		const bool direct = f->kind == BB_FIND_SLOWER_DIRECT;

		for (size_t k = 0; k < pairs->nmatrices && !f->confirmed; k++) {
			/* P2P that is slower is compared with the routes without it. */
			if ((k != f->matrix && (!direct || pairs->matrices[k].bidirectional)) ||
			    pairs->judged[k].number < 0)
				continue;
			add_turns(pairs, f, k, true, round, turns);
			add_turns(pairs, f, k, false, round, turns);
		}
	}
	free(found.list);
	/* Another order in each ROUND, so that no pair always finds the caches of the same one. */
	for (int i = turns->n - 1; i > 0; i--) {
		const struct bb_pair_turn last = turns->list[i];
		const int with = (int)((bb_random_congruential(&random) >> 33) % (uint64_t)(i + 1));

		turns->list[i] = turns->list[with];
		turns->list[with] = last;
	}
	return status;
}

void bb_review_add(struct bb_pairs *pairs, const struct bb_pair_turns *turns, const double *seconds)
{
	for (int i = 0; i < turns->n; i++) {
		const struct bb_pair_turn *t = &turns->list[i];
		const size_t k = place_of(pairs, &pairs->cells[t->cell]);
		const int ends[2] = {t->from, t->to};

		for (int e = 0; e < (t->from == t->to ? 1 : 2); e++) {
			const double s = seconds[ends[e] * BB_PAIR_TURNS + i];

			if (s > 0)
				bb_floor_add(
					&pairs->judged[k].floors[ends[e] * pairs->n + ends[1 - e]],
					s);
		}
	}
}

void bb_review_close(struct bb_pairs *pairs)
{
	for (size_t i = 0; i < pairs->nmatrices; i++) {
		free(pairs->judged[i].floors);
		free(pairs->judged[i].values);
	}
	free(pairs->judged);
	free(pairs->matrices);
}

/* ---- findings ------------------------------------------------------------------------------ */

static const char *const finding_names[] = {
	[BB_FIND_SLOWER_DIRECT] = "P2P slower than staged",
	[BB_FIND_SLOW_RANK] = "slow rank",
	[BB_FIND_ASYMMETRY] = "asymmetry",
	[BB_FIND_SLOW_PAIR] = "slow pair",
	[BB_FIND_BELOW_BOUND] = "below bound",
};

static void add_speed(struct bb_strbuf *out, const struct bb_cell *cell, double speed)
{
	char text[BB_UNIT_TEXT];

	if (cell->ping)
		bb_strbuf_add(out, bb_format_duration(text, bb_pair_rate(speed)));
	else
		bb_strbuf_addf(out, "%.3g GB/s", speed / 1e9);
}

/* "0 -> 1 is slower than 1 -> 0: 3.1 GB/s, not 9.9 GB/s (read, unidirectional, 32M)". PATH: that
   between the ends. */
static void finding_describe(struct bb_strbuf *out, const struct bb_pairs *pairs,
			     const struct bb_finding *f, const char *path, const char *cause)
{
	const struct bb_cell *cell = &pairs->judged[f->matrix].cell;
	const int from = f->from < 0 ? -1 : bb_pair_rank(pairs, f->from);
	const int to = f->to < 0 ? -1 : bb_pair_rank(pairs, f->to);
	char size[BB_UNIT_TEXT];

	switch (f->kind) {
	case BB_FIND_SLOWER_DIRECT:
		bb_strbuf_addf(out, "%d -> %d is slower with P2P on than off: ", from, to);
		break;
	case BB_FIND_SLOW_RANK:
		bb_strbuf_addf(out, "rank %d is slow in all its pairs",
			       bb_pair_rank(pairs, f->rank));
		if (path)
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

bb_status bb_pairs_judge(struct bb_pairs *pairs)
{
	struct bb_findings found;
	bb_status status = find_all(pairs, &found);

	for (size_t i = 0; i < found.n && status == BB_OK; i++) {
		const struct bb_finding *f = &found.list[i];
		const struct bb_cell *cell = &pairs->judged[f->matrix].cell;
		char path_text[BB_PAIR_PATH_TEXT], cause_text[BB_CAUSE_TEXT];
		const char *path = f->from < 0 ? NULL : path_text;
		const char *cause = bb_pair_cause(pairs, f, cause_text);
		struct bb_strbuf answer = {0};
		struct bb_finding_record r;

		if (path)
			bb_pair_path(pairs, f->from, f->to, path_text);
		if (!f->confirmed) { /* a suspect whose result may be chance */
			if (pairs->nunjudged++ > 0)
				bb_strbuf_add(&pairs->unjudged, "; ");
			finding_describe(&pairs->unjudged, pairs, f, path, cause);
			continue;
		}
		pairs->nfindings++;
		bb_record_init(&bb_record_finding, &r);
		r.finding = finding_names[f->kind];
		r.rank = rank_or_absent(pairs, f->rank);
		r.from = rank_or_absent(pairs, f->from);
		r.to = rank_or_absent(pairs, f->to);
		r.pairs = f->pairs;
		r.path = path;
		r.route = cell->route->name;
		r.p2p = p2p_of(cell);
		r.direction = direction_of(cell);
		if (cell->ping) {
			r.value_us = 1e6 * bb_pair_rate(f->value);
			r.reference_us = 1e6 * bb_pair_rate(f->reference);
		} else {
			r.size_bytes = (int64_t)cell->bytes;
			r.value_GBps = f->value / 1e9;
			r.reference_GBps = f->reference / 1e9;
		}
		r.share = f->value / f->reference;
		r.cause = cause;
		bb_strbuf_add(&answer, "finding: ");
		finding_describe(&answer, pairs, f, path, cause);
		bb_run_answer(pairs->run, &answer, 0);
		r.text = bb_strbuf_text(&answer) + strlen("finding: ");
		status = bb_sinks_record(&pairs->run->sinks, &bb_record_finding, &r);
		bb_strbuf_free(&answer);
	}
	free(found.list);
	return status;
}

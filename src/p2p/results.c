/*
 * results.c - what the ranks measured, put together: a record for each pair, and findings.
 */
#include "p2p/pairs.h"

#include "core/clock.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *direction_of(const struct bb_cell *cell)
{
	return cell->both_ways && !cell->ping ? "bidirectional" : "unidirectional";
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

/* The rank that timed it, of a pair in one direction. */
static const struct bb_pair_part *timed(const struct bb_pairs *pairs, const struct bb_cell *cell,
					const struct bb_pair_part *parts, int from, int to)
{
	if (cell->ping || cell->route->actor == BB_BY_SOURCE)
		return part_of(pairs, parts, from, to);
	return part_of(pairs, parts, to, from);
}

/* Operations per second that SECONDS allow. */
static double rate(double seconds)
{
	return seconds > 0 ? 1 / seconds : 0;
}

/* Speeds of a pair: bytes, or words, per second. Both directions at once are added up. */
static struct bb_pair_value value_of(const struct bb_pairs *pairs, const struct bb_cell *cell,
				     const struct bb_pair_part *parts, int from, int to)
{
	const struct bb_pair_part *a = timed(pairs, cell, parts, from, to);
	const bool adds = cell->both_ways && !cell->ping;
	const struct bb_pair_part *b = adds ? timed(pairs, cell, parts, to, from) : NULL;
	const double unit = cell->ping ? 1 : (double)cell->bytes;
	char path[BB_PAIR_PATH_TEXT];
	struct bb_pair_value v = {.from = from,
				  .to = to,
				  .like = bb_pair_path(pairs, from, to, path),
				  .rounds = a->rounds};

	/* Where time is exact, one round says as much as many. */
	if (pairs->run->options.exact && v.rounds > 0)
		v.rounds = BB_FINDING_ROUNDS;
	v.low = unit * rate(a->high);
	v.mid = unit * rate(a->mid);
	v.high = unit * rate(a->low);
	if (b) {
		v.low += unit * rate(b->high);
		v.mid += unit * rate(b->mid);
		v.high += unit * rate(b->low);
	}
	return v;
}

/* Over a link that is paced or modelled, without faults; 0: there is none. */
static double over_link(const struct bb_pairs *pairs, double bytes, int from, int to,
			const char **source)
{
	const struct bb_options *o = &pairs->run->options;
	struct bb_cluster_way way;

	if (o->cluster) {
		way = bb_cluster_way(o->cluster, bb_pair_rank(pairs, from),
				     bb_pair_rank(pairs, to));
		*source = "its way in --cluster, without a fault";
		return bytes / (bytes / way.rate + way.latency +
				o->cluster->figures[BB_FIGURE_MESSAGE_OVERHEAD].value);
	}
	*source = "--link";
	return o->config.link_rate > 0
		       ? bytes / (bytes / o->config.link_rate + o->config.link_latency)
		       : 0;
}

/* What the pair could do: what its links allow, or where that is not known what who acts copies
   within its own memory; or its link. */
static double bound_of(struct bb_pairs *pairs, const struct bb_cell *cell,
		       const struct bb_pair_part *parts, int from, int to, const char **source)
{
	const bool by_source = cell->route->actor == BB_BY_SOURCE;
	const int actor = by_source ? from : to;
	const char *link;
	double bound = 0, linked;

	if (cell->ping || cell->both_ways || from == to)
		return 0;
	if (cell->direct)
		bound = bb_pair_light(pairs, from, to, source);
	if (bound == 0 && cell->direct && cell->route->actor != BB_BY_BOTH) {
		bound = (double)cell->bytes * rate(part_of(pairs, parts, actor, actor)->mid);
		*source = "private copy of the rank that acts, in this run";
	}
	linked = over_link(pairs, (double)cell->bytes, from, to, &link);
	if (linked > 0 && (bound == 0 || linked < bound)) {
		bound = linked;
		*source = link;
	}
	return bound;
}

/* ---- records ------------------------------------------------------------------------------- */

/* They live nowhere; a cluster says which GPU of a node each is. */
static void fill_virtual_ends(const struct bb_pairs *pairs, struct bb_pair_record *r)
{
	const struct bb_cluster *c = pairs->run->options.cluster;

	r->ends = c && c->inside != BB_INSIDE_NOTHING ? "gpu" : "rank";
	if (!c)
		return;
	r->from_node = bb_cluster_node(c, (int)r->from);
	r->to_node = bb_cluster_node(c, (int)r->to);
	r->from_device = r->from % c->gpus;
	r->to_device = r->to % c->gpus;
}

/* PATH keeps the name of the path. */
static void fill_ends(const struct bb_pairs *pairs, int from, int to, char path[BB_PAIR_PATH_TEXT],
		      struct bb_pair_record *r)
{
	const struct bb_location *a = &pairs->run->infos[from].location;
	const struct bb_location *b = &pairs->run->infos[to].location;

	r->from = bb_pair_rank(pairs, from);
	r->to = bb_pair_rank(pairs, to);
	bb_pair_path(pairs, from, to, path);
	r->path = from == to ? "private copy" : path;
	if (bb_pairs_are_virtual(pairs)) {
		fill_virtual_ends(pairs, r);
		return;
	}
	r->ends = pairs->run->options.backend->capabilities & BB_CAP_GPU ? "gpu" : "core";
	r->from_host = a->host;
	r->to_host = b->host;
	r->from_device = a->device;
	r->to_device = b->device;
	r->from_numa = a->numa < 0 ? BB_ABSENT : a->numa;
	r->to_numa = b->numa < 0 ? BB_ABSENT : b->numa;
}

static void fill_route(const struct bb_cell *cell, struct bb_pair_record *r)
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
	r->child_process = cell->child != NULL;
}

static void fill_times(const struct bb_cell *cell, const struct bb_pair_part *part,
		       struct bb_pair_record *r)
{

	r->p50_us = part->p50 * 1e6;
	r->p99_us = part->p99 * 1e6;
	r->min_us = part->min * 1e6;
	r->max_us = part->max * 1e6;
	r->rounds = part->rounds;
	r->samples = part->samples;
	r->end_unix_s = cell->child ? cell->child->end_unix_s : bb_clock_unix();
}

static void fill_wrong(const struct bb_pairs *pairs, const struct bb_cell *cell,
		       const struct bb_pair_part *parts, int from, int to, struct bb_pair_record *r)
{
	const struct bb_pair_part *a = part_of(pairs, parts, to, from);
	const struct bb_pair_part *b = part_of(pairs, parts, from, to);

	if (!a->checked)
		return;
	r->wrong = (int64_t)a->wrong;
	if (cell->both_ways)
		r->wrong += (int64_t)b->wrong;
}

static bb_status deliver_pair(struct bb_pairs *pairs, const struct bb_cell *cell,
			      const struct bb_pair_part *parts, struct bb_pair_value *v)
{
	struct bb_run *run = pairs->run;
	char path[BB_PAIR_PATH_TEXT];
	struct bb_pair_record r;

	bb_record_init(&bb_record_pair, &r);
	fill_ends(pairs, v->from, v->to, path, &r);
	fill_route(cell, &r);
	fill_times(cell, timed(pairs, cell, parts, v->from, v->to), &r);
	fill_wrong(pairs, cell, parts, v->from, v->to, &r);
	if (!cell->ping) {
		r.GBps = v->mid / 1e9;
		r.low_GBps = v->low / 1e9;
		r.high_GBps = v->high / 1e9;
	}
	if (v->bound > 0) {
		r.bound_GBps = v->bound / 1e9;
		r.percent_of_bound = 100 * v->mid / v->bound;
		bound_of(pairs, cell, parts, v->from, v->to, &r.bound_source);
	}
	run->end.results++;
	run->end.wrong += r.wrong != BB_ABSENT && r.wrong > 0;
	return bb_sinks_record(&run->sinks, &bb_record_pair, &r);
}

static bb_status skip(struct bb_pairs *pairs, const struct bb_cell *cell, const char *reason)
{
	struct bb_skip_record record;

	bb_record_init(&bb_record_skip, &record);
	record.algorithm = cell->route->name;
	record.size_bytes = cell->ping ? BB_ABSENT : (int64_t)cell->bytes;
	record.reason = reason;
	pairs->run->end.skipped++;
	return bb_sinks_record(&pairs->run->sinks, &bb_record_skip, &record);
}

bb_status bb_pairs_refuse(struct bb_pairs *pairs, size_t cell, const struct bb_way *way)
{
	const int others = way->refused - 1;
	struct bb_strbuf text = {0};
	bb_status status;

	if (way->refused == 0 || pairs->cells[cell].skip)
		return BB_OK;
	bb_strbuf_addf(&text, "%d <-> %d", way->from, way->to);
	if (others > 0)
		bb_strbuf_addf(&text, " and %d other pair%s", others, bb_plural(others));
	bb_strbuf_addf(&text, ": %s", way->reason);
	status = skip(pairs, &pairs->cells[cell], bb_strbuf_text(&text));
	bb_strbuf_free(&text);
	return status;
}

/* Findings are about the largest size: that of the last cell of its route and direction. */
static void keep(struct bb_pairs *pairs, size_t cell, struct bb_pair_value *values)
{
	const struct bb_cell *c = &pairs->cells[cell];
	struct bb_pair_matrix *m = pairs->matrices;
	size_t i = 0;

	while (i < pairs->nmatrices &&
	       (pairs->cells[pairs->matrix_cells[i]].route != c->route ||
		pairs->cells[pairs->matrix_cells[i]].direct != c->direct ||
		pairs->cells[pairs->matrix_cells[i]].both_ways != c->both_ways))
		i++;
	if (i == pairs->nmatrices)
		pairs->nmatrices++;
	free((void *)(uintptr_t)m[i].values);
	pairs->matrix_cells[i] = cell;
	m[i] = (struct bb_pair_matrix){
		.direct = c->direct,
		.both_ways = c->both_ways,
		.by_source = c->route->actor == BB_BY_SOURCE,
		.by_target = c->route->actor == BB_BY_TARGET,
		.values = values,
		.nranks = pairs->n,
	};
}

/* VALUE of a pair, or of a rank with itself, to the sinks. */
static bb_status deliver_value(struct bb_pairs *pairs, const struct bb_cell *cell,
			       const struct bb_pair_part *parts, int from, int to,
			       struct bb_pair_value *value)
{
	const char *source;

	*value = value_of(pairs, cell, parts, from, to);
	if (value->rounds == 0)
		return BB_OK;
	value->bound = bound_of(pairs, cell, parts, from, to, &source);
	return deliver_pair(pairs, cell, parts, value);
}

/* Private copies first: they are what the pairs are held against. */
static bb_status deliver_values(struct bb_pairs *pairs, const struct bb_cell *cell,
				const struct bb_pair_part *parts, struct bb_pair_value *values)
{
	const int n = pairs->n;
	bb_status status = BB_OK;

	for (int r = 0; r < n && status == BB_OK; r++) {
		struct bb_pair_value *v = &values[r * n + r];

		status = deliver_value(pairs, cell, parts, r, r, v);
		v->rounds = 0; /* not a pair to be judged */
	}
	for (int i = 0; i < n * n && status == BB_OK; i++)
		if (cell->both_ways ? i / n < i % n : i / n != i % n)
			status = deliver_value(pairs, cell, parts, i / n, i % n, &values[i]);
	return status;
}

bb_status bb_pairs_deliver(struct bb_pairs *pairs, size_t number, const struct bb_pair_part *parts)
{
	const struct bb_cell *cell = &pairs->cells[number];
	const size_t n = (size_t)pairs->n;
	struct bb_pair_value *values;

	bb_ticker_hide(&pairs->run->ticker);
	if (cell->skip)
		return skip(pairs, cell, cell->skip);
	values = calloc(n * n, sizeof(*values));
	if (!values)
		return bb_fail(&pairs->run->error, BB_EINTERNAL, "out of memory for the findings");
	keep(pairs, number, values);
	return deliver_values(pairs, cell, parts, values);
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
		bb_strbuf_add(out, bb_format_duration(text, rate(speed)));
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
		bb_strbuf_addf(out, "%d -> %d is slower than the way back: ", from, to);
		break;
	case BB_FIND_SLOW_PAIR:
		bb_strbuf_addf(out, "%d <-> %d is slower than other pairs (%s): ", from, to, path);
		break;
	case BB_FIND_BELOW_BOUND:
		bb_strbuf_addf(out,
			       "%d pair%s (%s) far below what is possible; the worst, %d -> %d: ",
			       f->pairs, f->pairs == 1 ? " is" : "s are", path, from, to);
		break;
	}
}

/* "0 -> 1 is slower than the way back: 3.1 GB/s, not 9.9 GB/s (read, unidirectional, 32M)" */
static void describe(struct bb_strbuf *out, const struct bb_pairs *pairs,
		     const struct bb_finding *f)
{
	const struct bb_cell *cell = &pairs->cells[pairs->matrix_cells[f->matrix]];
	char size[BB_UNIT_TEXT], text[BB_CAUSE_TEXT];
	const char *cause = bb_pair_cause(pairs, f, text);

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

static bb_status tell(struct bb_pairs *pairs, const struct bb_finding *f)
{
	const struct bb_cell *cell = &pairs->cells[pairs->matrix_cells[f->matrix]];
	char path[BB_PAIR_PATH_TEXT], cause[BB_CAUSE_TEXT];
	struct bb_strbuf text = {0};
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
	if (cell->ping) {
		r.value_us = 1e6 * rate(f->value);
		r.reference_us = 1e6 * rate(f->reference);
	} else {
		r.value_GBps = f->value / 1e9;
		r.reference_GBps = f->reference / 1e9;
	}
	r.share = f->value / f->reference;
	r.cause = bb_pair_cause(pairs, f, cause);
	describe(&text, pairs, f);
	r.text = bb_strbuf_text(&text);
	status = bb_sinks_record(&pairs->run->sinks, &bb_record_finding, &r);
	bb_strbuf_free(&text);
	return status;
}

bb_status bb_pairs_suspect(struct bb_pairs *pairs, unsigned char *suspects)
{
	struct bb_findings found;
	bb_status status = bb_findings_make(&found, pairs->matrices, pairs->nmatrices);

	if (status != BB_OK)
		bb_fail(&pairs->run->error, status, "out of memory for the findings");
	*suspects = found.n > 0;
	bb_findings_free(&found);
	return status;
}

void bb_pairs_review(struct bb_pairs *pairs, size_t number, const struct bb_pair_part *parts)
{
	const struct bb_cell *cell = &pairs->cells[number];
	const int n = pairs->n;
	struct bb_pair_value *values;
	const char *source;
	size_t k = 0;

	while (pairs->matrix_cells[k] != number)
		k++;
	values = (struct bb_pair_value *)(uintptr_t)pairs->matrices[k].values;
	for (int i = 0; i < n * n; i++) {
		const int from = i / n, to = i % n;
		struct bb_pair_value *v = &values[i], again;

		if (v->rounds == 0)
			continue;
		again = value_of(pairs, cell, parts, from, to);
		again.bound = bound_of(pairs, cell, parts, from, to, &source);
		if (again.bound > v->bound)
			again.bound = v->bound;
		if (again.mid > v->mid)
			*v = again;
		v->bound = again.bound;
	}
}

bb_status bb_pairs_judge(struct bb_pairs *pairs)
{
	struct bb_findings found;
	bb_status status = bb_findings_make(&found, pairs->matrices, pairs->nmatrices);

	if (status != BB_OK)
		bb_fail(&pairs->run->error, status, "out of memory for the findings");
	pairs->nfindings = found.n;
	for (size_t i = 0; i < found.n && status == BB_OK; i++)
		status = tell(pairs, &found.list[i]);
	bb_findings_free(&found);
	return status;
}

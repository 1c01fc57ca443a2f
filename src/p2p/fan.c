/*
 * fan.c - the turn of one rank with all others at once, over one route: all-to-one, where the
 * others send to it, and one-to-all, where it sends to them.
 */
#include "p2p/pairs.h"

#include <math.h>

/* ---- parts --------------------------------------------------------------------------------- */

struct bb_pair_range bb_fan_part_of(const struct bb_cell *cell, int n, int hub, int other)
{
	const size_t parts = (size_t)n - 1, k = (size_t)(other < hub ? other : other - 1);
	size_t ends[2];

	for (size_t i = 0; i < 2; i++)
		ends[i] = k + i == parts ? (size_t)cell->bytes
					 : bb_part_start((size_t)cell->bytes, parts, k + i) /
						   BB_FAN_GRAIN * BB_FAN_GRAIN;
	return (struct bb_pair_range){ends[0], ends[1] - ends[0]};
}

const char *bb_fan_refuses(const struct bb_cell *cell, int n)
{
	return cell->bytes / (uint64_t)(n - 1) < BB_FAN_GRAIN
		       ? "fewer than 256 bytes for each of the other ranks"
		       : NULL;
}

bool bb_fan_uses(const struct bb_backend *backend, const struct bb_route *route,
		 enum bb_direction direction)
{
	if (route->actor == BB_BY_BOTH)
		return route->batches || backend->virtual;
	return route->actor == (direction == BB_ALL_TO_ONE ? BB_BY_SOURCE : BB_BY_TARGET);
}

/* ---- a turn -------------------------------------------------------------------------------- */

static bool is_hub(const struct bb_turn *t)
{
	return t->s->me == t->from;
}

static bool fan_acts(const struct bb_turn *t)
{
	return !is_hub(t) || t->cell->route->actor == BB_BY_BOTH;
}

/* Moves the part between this rank and PEER, the hub or one of the others; with PEER this rank
   itself, a private copy. */
static bb_status fan_transfer(const struct bb_turn *t, int peer, enum bb_pairs_buffer target)
{
	const int other = is_hub(t) ? peer : t->s->me;
	const bool alone = peer == t->s->me, gives = is_hub(t) == (t->cell->fan == BB_ONE_TO_ALL);

	return bb_turn_transfer(t, peer, bb_fan_part_of(t->cell, t->s->n, t->from, other),
				gives || alone, !gives || alone, target);
}

/* Moves all parts of this rank at once. */
static bb_status fan_transfers(const struct bb_turn *t, enum bb_pairs_buffer target)
{
	const struct bb_pairs_session *s = t->s;
	const struct bb_routes *routes = s->engine.backend->routes;
	bb_status status = BB_OK;

	if (!is_hub(t))
		return fan_transfer(t, t->from, target);
	BB_TRY(status, routes->batch(s->engine.world, t->cell->route, false), out);
	for (int peer = 0; peer < s->n; peer++)
		if (peer != s->me)
			BB_TRY(status, fan_transfer(t, peer, target), out);
	status = routes->batch(s->engine.world, t->cell->route, true);
out:
	return status;
}

/* A turn's samples, or those of private copies by the same ranks. */
struct fan_run {
	const struct bb_turn *t;
	bool alone;
	double *times; /* of its samples, on this rank; 0: it did not act */
};

static bb_status fan_ready(void *own)
{
	const struct fan_run *r = own;

	return r->t->s->engine.backend->barrier(r->t->s->engine.world);
}

static bb_status fan_operate(void *own, int64_t sample)
{
	const struct fan_run *r = own;
	const struct bb_turn *t = r->t;
	const bool verified = t->final && sample >= 0;
	bb_status status = BB_OK;

	for (size_t i = 1; i <= t->cell->repeats && status == BB_OK && fan_acts(t); i++) {
		const bool last = i == t->cell->repeats;

		status = r->alone ? fan_transfer(t, t->s->me, BB_TARGET)
				  : fan_transfers(t, last && verified ? BB_VERIFIED : BB_TARGET);
	}
	return status;
}

static bb_status fan_record_sample(void *own, int64_t sample, double begin, double seconds)
{
	const struct fan_run *r = own;

	r->times[sample] = fan_acts(r->t) ? seconds : 0;
	return BB_OK;
}

/* Adds the times of the slowest ranks to the hub's SERIES. Collective over the world. */
static bb_status fan_sample(const struct bb_turn *t, bool alone, int series)
{
	struct bb_pairs_session *s = t->s;
	const struct bb_options *o = s->engine.options;
	const size_t samples = t->final ? 1 : bb_pair_samples(o, t->round);
	struct fan_run run = {t, alone, s->scratch + s->most_samples};
	const struct bb_sampling sampling = {.ready = fan_ready,
					     .operate = fan_operate,
					     .heard = fan_record_sample,
					     .own = &run,
					     .warm = t->round == 0 ? o->warmup_iters : 0,
					     .samples = (int64_t)samples,
					     .operations = (double)t->cell->repeats};
	bb_status status = bb_engine_sample(&s->engine, &sampling);

	if (status != BB_OK || t->final)
		return status;
	status = bb_engine_slowest(&s->engine, run.times, samples);
	for (size_t i = 0; i < samples && is_hub(t) && status == BB_OK; i++)
		bb_series_add(&s->series[series], run.times[i]);
	if (status == BB_OK)
		bb_series_end_round(&s->series[series], s->scratch);
	return status;
}

bb_status bb_fan_act(const struct bb_turn *t)
{
	const bool copies =
		!t->final && !t->s->engine.backend->gpu && t->cell->route->actor != BB_BY_BOTH;
	bb_status status = fan_sample(t, false, t->from);

	return status == BB_OK && copies ? fan_sample(t, true, (t->from + 1) % t->s->n) : status;
}

/* The hub has the parts of all others, each of these one of the hub's. */
bb_status bb_fan_verify(const struct bb_turn *t)
{
	struct bb_pairs_session *s = t->s;
	const struct bb_backend *backend = s->engine.backend;
	struct bb_series *series = &s->series[t->from];
	char *const got = bb_pairs_buffer(s, BB_VERIFIED);
	bb_status status = BB_OK;

	series->checked = true;
	for (int other = 0; other < s->n && status == BB_OK; other++) {
		const struct bb_pair_range part = bb_fan_part_of(t->cell, s->n, t->from, other);
		const struct bb_pattern sent =
			bb_patterns_get(s->patterns, is_hub(t) ? other : t->from);

		if (other == t->from || (!is_hub(t) && other != s->me))
			continue;
		status = bb_engine_corrupt(&s->engine, got + part.at + part.bytes / 2);
		if (status == BB_OK)
			status = backend->verify(s->engine.rank, got + part.at, &sent, part.at,
						 part.bytes, BB_INT8, 0, &series->wrong);
	}
	return status;
}

/* ---- bounds -------------------------------------------------------------------------------- */

/* Ports of a rank: over NVLink, over PCIe, and to the network. OWN: the link between two ends
   alone. */
enum port { NVLINK, PCIE, NET, PORTS, OWN = PORTS };

/* The link of the hub to one of the others. */
struct fan_link {
	double rate; /* 0: unknown */
	enum port port;
};

static struct fan_link modelled_link(const struct bb_pairs *pairs, int from, int to,
				     const char **source)
{
	const struct bb_options *o = &pairs->run->options;
	const struct bb_cluster *c = o->cluster;
	struct bb_cluster_route route;

	*source = "--link";
	if (!c)
		return (struct fan_link){o->config.link_rate, o->config.link_port ? NET : OWN};
	*source = "that rank's port in --cluster, without a fault";
	route = bb_cluster_route(c, bb_pair_rank(pairs, from), bb_pair_rank(pairs, to));
	if (route.path == BB_CLUSTER_NVLINK)
		return (struct fan_link){route.rate, c->inside == BB_INSIDE_LINKS ? OWN : NVLINK};
	return (struct fan_link){route.rate, route.path == BB_CLUSTER_PCIE ? PCIE : NET};
}

static struct fan_link gpu_link(struct bb_pairs *pairs, int from, int to, const char **source)
{
	const struct bb_run *run = pairs->run;
	const struct bb_rank_place *places = run->link_bounds.places;
	const char *why = NULL;
	struct fan_link link = {.rate = bb_pair_link_bound(pairs, from, to, &why), .port = NET};

	if (link.rate == 0)
		return link;
	*source = why;
	if (places[from].node == places[to].node) {
		const bool own = bb_topology_nvlinks(run->topology, places[from].device,
						     places[to].device) > 0;
		const bool nvlinks = bb_topology_path(run->topology, places[from].device,
						      places[to].device, NULL) == BB_PATH_NVLINK;

		link.port = own ? OWN : nvlinks ? NVLINK : PCIE;
	}
	if (link.port == OWN)
		*source = "that rank's links to each of the others";
	return link;
}

/* Returns the bandwidth of all links together, by the most loaded port; 0: unknown. */
static double port_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int hub, bool modelled,
			 const char **source)
{
	double bytes[PORTS] = {0}, rate[PORTS] = {0}, longest = 0;

	for (int other = 0; other < pairs->n; other++) {
		const double part = (double)bb_fan_part_of(cell, pairs->n, hub, other).bytes;
		const bool in = cell->fan == BB_ALL_TO_ONE;
		const int from = in ? other : hub, to = in ? hub : other;
		struct fan_link link;

		if (other == hub)
			continue;
		link = modelled ? modelled_link(pairs, from, to, source)
				: gpu_link(pairs, from, to, source);
		if (link.rate <= 0)
			return 0;
		if (link.port == OWN) {
			longest = fmax(longest, part / link.rate);
			continue;
		}
		bytes[link.port] += part;
		rate[link.port] = fmax(rate[link.port], link.rate);
	}
	for (int port = 0; port < PORTS; port++)
		if (bytes[port] > 0)
			longest = fmax(longest, bytes[port] / rate[port]);
	return longest > 0 ? (double)cell->bytes / longest : 0;
}

const char bb_fan_private_copies[] =
	"private copies of the same bytes by the ranks that act, in this run";

double bb_fan_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int hub, double private_s,
		    const char **source)
{
	const char *link = NULL;
	double bound = cell->direct ? port_bound(pairs, cell, hub, false, source) : 0, linked;

	if (bound == 0 && cell->direct && private_s > 0) {
		bound = (double)cell->bytes / private_s;
		*source = bb_fan_private_copies;
	}
	linked = port_bound(pairs, cell, hub, true, &link);
	if (linked > 0 && (bound == 0 || linked < bound)) {
		bound = linked;
		*source = link;
	}
	return bound;
}

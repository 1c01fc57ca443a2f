/*
 * paths.c - the path between two ranks: from the topology if they are GPUs that it knows, else from
 * their locations; its bound; and why a pair may be slow.
 */
#include "p2p/pairs.h"

#include "suspects/retest.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of path by location; those of the topology follow. */
enum { SAME_DEVICE, SAME_NUMA, SAME_HOST, OTHER_HOST, TOPOLOGY };
#define MOST_NVLINKS 64

static const char *const place_names[] = {
	[SAME_DEVICE] = "same device",
	[SAME_NUMA] = "same NUMA node",
	[SAME_HOST] = "across NUMA nodes",
	[OTHER_HOST] = "across hosts",
};

/* The bound of a pair by its links, once it was computed. */
struct bb_pair_link_bound {
	bool known;
	double GBps; /* 0: none */
	struct bb_strbuf why;
};

static bool on_topology(const struct bb_run *run)
{
	return run->options.backend->gpu && run->link_bounds.n == run->world.nranks;
}

static int by_place(const struct bb_location *a, const struct bb_location *b)
{
	if (strcmp(a->host, b->host) != 0)
		return OTHER_HOST;
	if (a->device == b->device && strcmp(a->bus, b->bus) == 0)
		return SAME_DEVICE;
	return a->numa == b->numa ? SAME_NUMA : SAME_HOST;
}

int bb_pair_path(const struct bb_pairs *pairs, int from, int to, char name[BB_PAIR_PATH_TEXT])
{
	const struct bb_run *run = pairs->run;
	const int place = by_place(&run->infos[from].location, &run->infos[to].location);
	const struct bb_rank_place *at = run->link_bounds.places;
	char text[BB_PATH_TEXT];
	enum bb_path path = BB_PATH_UNKNOWN;
	int nvlinks = 0;

	if (bb_pairs_are_virtual(pairs)) {
		const struct bb_cluster *c = run->options.cluster;
		struct bb_cluster_route route;

		snprintf(name, BB_PAIR_PATH_TEXT, "link");
		if (!c || from == to)
			return 0;
		/* Paths of a cluster with the same rate are alike, and so are all links. */
		route = bb_cluster_route(c, bb_pair_rank(pairs, from), bb_pair_rank(pairs, to));
		snprintf(name, BB_PAIR_PATH_TEXT, "%s", bb_cluster_path_name(c, route.path));
		return (int)route.path + BB_CLUSTER_PATHS * (int)(route.rate / 1e6);
	}
	if (on_topology(run) && place != OTHER_HOST && place != SAME_DEVICE)
		path = bb_topology_path(run->topology, at[from].device, at[to].device, &nvlinks);
	if (path == BB_PATH_UNKNOWN) {
		snprintf(name, BB_PAIR_PATH_TEXT, "%s", place_names[place]);
		return place;
	}
	snprintf(name, BB_PAIR_PATH_TEXT, "%s", bb_topology_path_text(text, path, nvlinks));
	return TOPOLOGY + (int)path * MOST_NVLINKS + nvlinks % MOST_NVLINKS;
}

double bb_pair_factor(const struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to)
{
	const struct bb_rank_info *infos = pairs->run->infos;
	const bool both = cell->bidirectional || cell->route->actor == BB_BY_BOTH;

	if (bb_pairs_are_virtual(pairs))
		return BB_SLOW_PAIR;
	const int place = by_place(&infos[from].location, &infos[to].location);
	if (bb_is_crowded(both ? 2 : 1, place == SAME_DEVICE ? 1 : 2))
		return BB_CROWDED;
	return place == OTHER_HOST || pairs->run->options.backend->gpu ? BB_SLOW_PAIR
								       : BB_SLOW_CORES;
}

/* ---- bounds ------------------------------------------------------------------------------ */

const char bb_pair_private_copy[] = "private copy of the rank that acts, in this run";
const char bb_fan_private_copies[] =
	"private copies of the same bytes by the ranks that act, in this run";

/* Returns the bandwidth in bytes per second that the links between two ends allow, 0 if that is not
   known. *WHY is the sentence that explains it and lasts as long as PAIRS. */
static double link_bound(struct bb_pairs *pairs, int from, int to, const char **why)
{
	const struct bb_run *run = pairs->run;
	const size_t n = (size_t)run->world.nranks;

	if (!on_topology(run))
		return 0;
	if (!pairs->link_bounds)
		pairs->link_bounds = calloc(n * n, sizeof(*pairs->link_bounds));
	if (!pairs->link_bounds)
		return 0;
	struct bb_pair_link_bound *bound = &pairs->link_bounds[(size_t)from * n + (size_t)to];
	if (!bound->known) {
		const struct bb_rank_place two[] = {run->link_bounds.places[from],
						    run->link_bounds.places[to]};

		bound->known = true;
		if (bb_speed_of_light(run->topology, two, 2, BB_BOUND_PAIR, &bound->GBps,
				      &bound->why) != BB_OK)
			bound->GBps = 0;
	}
	*why = bb_strbuf_text(&bound->why);
	return 1e9 * bound->GBps;
}

void bb_pair_link_bounds_close(struct bb_pairs *pairs)
{
	const size_t n = pairs->link_bounds ? (size_t)pairs->run->world.nranks : 0;

	for (size_t i = 0; i < n * n; i++)
		bb_strbuf_free(&pairs->link_bounds[i].why);
	free(pairs->link_bounds);
}

double bb_pair_planned_s(const struct bb_pairs *pairs, double bytes, int from, int to,
			 const char **source)
{
	const struct bb_options *o = &pairs->run->options;
	struct bb_cluster_route route;

	if (o->cluster) {
		route = bb_cluster_route(o->cluster, bb_pair_rank(pairs, from),
					 bb_pair_rank(pairs, to));
		*source = "its path in --cluster, without a fault";
		return bytes / route.rate + route.latency +
		       o->cluster->figures[BB_FIGURE_MESSAGE_OVERHEAD];
	}
	*source = "--link";
	return o->config.link_rate > 0 ? bytes / o->config.link_rate + o->config.link_latency : 0;
}

/* Ports of a rank: over NVLink, over PCIe, and to the network. OWN: the link between two ends
   alone. */
enum port { NVLINK, PCIE, NET, PORTS, OWN = PORTS };

/* Returns the rate of the link between a hub and one of the others, by --link or --cluster; 0:
   unknown. *PORT = the hub's port that it goes through. */
static double modelled_link(struct bb_pairs *pairs, int from, int to, enum port *port,
			    const char **source)
{
	const struct bb_options *o = &pairs->run->options;
	const struct bb_cluster *c = o->cluster;
	struct bb_cluster_route route;

	*source = "--link";
	*port = o->config.link_port ? NET : OWN;
	if (!c)
		return o->config.link_rate;
	*source = "that rank's port in --cluster, without a fault";
	route = bb_cluster_route(c, bb_pair_rank(pairs, from), bb_pair_rank(pairs, to));
	*port = route.path == BB_CLUSTER_PCIE     ? PCIE
		: route.path != BB_CLUSTER_NVLINK ? NET
		: c->inside == BB_INSIDE_LINKS    ? OWN
						  : NVLINK;
	return route.rate;
}

/* The same by the topology. */
static double gpu_link(struct bb_pairs *pairs, int from, int to, enum port *port,
		       const char **source)
{
	const struct bb_run *run = pairs->run;
	const struct bb_rank_place *places = run->link_bounds.places;
	const double rate = link_bound(pairs, from, to, source);

	*port = NET;
	if (rate == 0 || places[from].node != places[to].node)
		return rate;
	*port = bb_topology_nvlinks(run->topology, places[from].device, places[to].device) > 0 ? OWN
		: bb_topology_path(run->topology, places[from].device, places[to].device, NULL) ==
				BB_PATH_NVLINK
			? NVLINK
			: PCIE;
	if (*port == OWN)
		*source = "that rank's links to each of the others";
	return rate;
}

/* Returns the bandwidth of all links of HUB together, by the most loaded port; 0: unknown. */
static double port_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int hub, bool modelled,
			 const char **source)
{
	double bytes[PORTS] = {0}, rate[PORTS] = {0}, longest = 0;

	for (int other = 0; other < pairs->n; other++) {
		const double part = (double)bb_cell_range(cell, pairs->n, hub, other).bytes;
		const bool in = cell->fan == BB_ALL_TO_ONE;
		const int from = in ? other : hub, to = in ? hub : other;
		enum port port;

		if (other == hub)
			continue;
		double link = (modelled ? modelled_link : gpu_link)(pairs, from, to, &port, source);
		if (link <= 0)
			return 0;
		if (port == OWN) {
			longest = fmax(longest, part / link);
			continue;
		}
		bytes[port] += part;
		rate[port] = fmax(rate[port], link);
	}
	for (int port = 0; port < PORTS; port++)
		if (bytes[port] > 0)
			longest = fmax(longest, bytes[port] / rate[port]);
	return longest > 0 ? (double)cell->bytes / longest : 0;
}

double bb_pair_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int from, int to,
		     double private_s, const char **source)
{
	const double bytes = (double)cell->bytes;
	const char *link = NULL;
	double bound = 0, linked;

	if (cell->ping || cell->bidirectional || (from == to && !cell->fan))
		return 0;
	if (cell->direct)
		bound = cell->fan ? port_bound(pairs, cell, from, false, source)
				  : link_bound(pairs, from, to, source);
	if (bound == 0 && cell->direct && cell->route->actor != BB_BY_BOTH && private_s > 0) {
		bound = bytes / private_s;
		*source = cell->fan ? bb_fan_private_copies : bb_pair_private_copy;
	}
	linked = cell->fan ? port_bound(pairs, cell, from, true, &link)
			   : bytes * bb_pair_rate(bb_pair_planned_s(pairs, bytes, from, to, &link));
	if (linked > 0 && (bound == 0 || linked < bound)) {
		bound = linked;
		*source = link;
	}
	return bound;
}

/* ---- causes ------------------------------------------------------------------------------ */

static bool is_pinned(const struct bb_run *run, int rank)
{
	return !strstr(run->infos[rank].location.name, "(not pinned)");
}

/* True if a port above the device redirects its traffic to the host bridge. */
static bool is_redirected(const struct bb_topology *t, int device)
{
	for (int p = t->devices[device].pci; p >= 0; p = t->pcis[p].parent)
		if (t->pcis[p].acs == BB_ACS_REDIRECT)
			return true;
	return false;
}

/* Returns the links of a GPU that are down or narrow, written to CAUSE; NULL: there are none. */
static const char *find_device_cause(const struct bb_topology *t, int device,
				     char cause[BB_CAUSE_TEXT])
{
	const struct bb_device *d = &t->devices[device];
	const struct bb_pci *pci = d->pci >= 0 ? &t->pcis[d->pci] : NULL;
	int down = 0;

	for (int i = 0; i < t->nlinks; i++)
		if (t->links[i].device == device && t->links[i].kind == BB_NVLINK)
			down += t->links[i].down;
	if (down > 0)
		snprintf(cause, BB_CAUSE_TEXT, "%d NVLink%s of %s %s down", down, bb_plural(down),
			 d->name, down == 1 ? "is" : "are");
	else if (pci && pci->now.width > 0 && pci->now.width < pci->most.width)
		snprintf(cause, BB_CAUSE_TEXT, "%s's PCIe link has %d lanes of %d", d->name,
			 pci->now.width, pci->most.width);
	else
		return NULL;
	return cause;
}

static const char *const p2p_causes[] = {
	[BB_P2P_OK] = NULL,
	[BB_P2P_CHIPSET] = "NVML: the chipset does not support P2P between them",
	[BB_P2P_GPU] = "NVML: the GPUs do not support P2P",
	[BB_P2P_TOPOLOGY] = "NVML: the topology does not allow P2P between them",
	[BB_P2P_DISABLED] = "NVML: P2P is disabled by a setting of the driver",
	[BB_P2P_NOT_SUPPORTED] = "NVML: P2P is not supported between them",
	[BB_P2P_UNKNOWN] = NULL,
};

const char *bb_pair_cause(const struct bb_pairs *pairs, const struct bb_finding *f,
			  char cause[BB_CAUSE_TEXT])
{
	const struct bb_run *run = pairs->run;
	const struct bb_rank_place *places = run->link_bounds.places;
	const struct bb_topology *t = run->topology;
	int a = f->rank >= 0 ? f->rank : f->from, b = f->rank >= 0 ? f->rank : f->to;

	if (bb_pairs_are_virtual(pairs))
		return NULL; /* the cause is --fault */
	if (!is_pinned(run, a) || !is_pinned(run, b))
		return "a rank could not be pinned to its core";
	if (f->rank < 0 &&
	    by_place(&run->infos[a].location, &run->infos[b].location) == SAME_DEVICE)
		return "both ranks take turns on one device";
	/* The topology is that of rank 0's host. */
	if (!on_topology(run) || places[a].node != 0 || places[b].node != 0)
		return NULL;
	a = places[a].device;
	b = places[b].device;
	if (a != b && p2p_causes[bb_topology_p2p(t, a, b)])
		return p2p_causes[bb_topology_p2p(t, a, b)];
	const char *found = find_device_cause(t, a, cause) ?: find_device_cause(t, b, cause);
	const enum bb_path path = bb_topology_path(t, a, b, NULL);
	if (!found && (path == BB_PATH_PIX || path == BB_PATH_PXB) &&
	    (is_redirected(t, a) || is_redirected(t, b)))
		found = "ACS redirects their traffic to the host bridge";
	return found;
}

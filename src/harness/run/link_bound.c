#include "harness/run/link_bound.h"

#include <stdlib.h>
#include <string.h>

/* ---- where the ranks are ----------------------------------------------------------------- */

/* Returns the GPU at BUS, a PCI address without its function ("0000:3b:00"); -1: none. */
static int gpu_at(const struct bb_topology *t, const char *bus)
{
	const size_t length = strlen(bus);

	for (int i = 0; i < bb_topology_count(t, BB_GPU); i++) {
		const int d = bb_topology_device(t, BB_GPU, i), pci = t->devices[d].pci;

		if (pci >= 0 && length > 0 && strncmp(t->pcis[pci].id, bus, length) == 0)
			return d;
	}
	return -1;
}

bb_status bb_link_bounds_open(struct bb_link_bounds *links, struct bb_topology *topology,
			      const struct bb_rank_infos *infos, bool gpus)
{
	bool lost = false;

	*links = (struct bb_link_bounds){.topology = topology};
	if (!topology)
		return BB_OK;
	links->places = calloc(infos->n, sizeof(*links->places));
	if (!links->places)
		return BB_EINTERNAL;
	topology->nodes = 0;
	for (size_t r = 0; r < infos->n; r++) {
		const struct bb_rank_info *rank = &infos->ranks[r];
		const int device = gpus ? gpu_at(topology, rank->location.bus) : BB_ON_HOST;

		topology->nodes = rank->node < topology->nodes ? topology->nodes : rank->node + 1;
		if (rank->group != infos->ranks[0].group)
			continue;
		lost |= gpus && device < 0;
		links->places[links->n++] = (struct bb_rank_place){rank->node, device};
	}
	links->n = lost ? 0 : links->n;
	return BB_OK;
}

void bb_link_bounds_close(struct bb_link_bounds *links)
{
	for (int b = 0; b < BB_BOUNDS; b++)
		bb_strbuf_free(&links->bounds[b].why);
	free(links->places);
}

/* ---- bounds of algorithms -------------------------------------------------------------------- */

#define RING (1u << BB_BOUND_RING)
#define TREE (1u << BB_BOUND_TREE)
#define NVLS (1u << BB_BOUND_NVLS)
#define SHARP (1u << BB_BOUND_SHARP)
#define ALLTOALL (1u << BB_BOUND_ALLTOALL)

/*
 * The bounds of a collective by an algorithm, of which the highest counts. If each rank sends and
 * receives as much as in a ring, the ring's bound holds whichever rank forwards the data.
 */
static const struct {
	const struct bb_collective *collective;
	const char *algorithm; /* NULL: all that are not named before */
	unsigned bounds;
} rows[] = {
	{&bb_all_reduce, "ring", RING},
	{&bb_all_reduce, "tree", TREE},
	{&bb_all_reduce, "nvls", NVLS},
	{&bb_all_reduce, "auto", RING | TREE | NVLS | SHARP},
	{&bb_all_reduce, "native", RING | TREE},
	{&bb_all_gather, NULL, RING},
	{&bb_reduce_scatter, NULL, RING},
	{&bb_broadcast, "ring", RING},
	{&bb_broadcast, "auto", RING},
	{&bb_reduce, "ring", RING},
	{&bb_reduce, "auto", RING},
	{&bb_sendrecv, NULL, RING},
	{&bb_alltoall, NULL, ALLTOALL},
};

/* True if ALGORITHM, such as "busbench:ring" or "ring:LL", is NAME. */
static bool is_called(const char *algorithm, const char *name)
{
	const char *const own = bb_algorithm_own(algorithm);
	const size_t length = strlen(name);

	return strncmp(own, name, length) == 0 && (own[length] == '\0' || own[length] == ':');
}

double bb_link_bounds_find(struct bb_link_bounds *links, const struct bb_collective *collective,
			   const char *algorithm, const char **source)
{
	const size_t nrows = links->n >= 2 ? sizeof(rows) / sizeof(rows[0]) : 0;
	double most = 0;
	size_t row = 0;
	int best = 0;

	while (row < nrows && (rows[row].collective != collective ||
			       (rows[row].algorithm && !is_called(algorithm, rows[row].algorithm))))
		row++;
	for (int b = 0; b < BB_BOUNDS && row < nrows; b++) {
		double GBps = 0; /* unknown */

		if (!(rows[row].bounds >> b & 1))
			continue;
		if (!links->bounds[b].known &&
		    bb_speed_of_light(links->topology, links->places, links->n, (enum bb_bound)b,
				      &GBps, &links->bounds[b].why) == BB_OK)
			links->bounds[b].GBps = GBps;
		links->bounds[b].known = true;
		if (links->bounds[b].GBps > most) {
			best = b;
			most = links->bounds[b].GBps;
		}
	}
	if (most <= 0 || bb_strbuf_failed(&links->bounds[best].why))
		return 0;
	*source = bb_strbuf_text(&links->bounds[best].why);
	return most;
}

/*
 * host_pair.c - a GPU alone: its pair is the GPU and the host. Its transfers are copies between
 * spaces of memory, as mem_bandwidth_perf measures them, reported as pairs.
 */
#include "p2p/memory.h"

#include <stdlib.h>

bool bb_pairs_are_host(const struct bb_run *run)
{
	return run->world.nranks == 1 && run->options.backend->gpu && run->options.backend->spaces;
}

/* The bound by the links between the GPU and the memory of the CPUs. */
static void bound(struct bb_run *run, struct bb_pair_record *r)
{
	struct bb_pairs *pairs = run->own;
	struct bb_rank_place two[2];
	double GBps = 0;

	if (!run->topology || run->link_bounds.n != 1)
		return;
	two[0] = run->link_bounds.places[0];
	two[1] = (struct bb_rank_place){.node = two[0].node, .device = BB_ON_HOST};
	bb_strbuf_free(&pairs->host_bound);
	if (bb_speed_of_light(run->topology, two, 2, BB_BOUND_PAIR, &GBps, &pairs->host_bound) !=
	    BB_OK)
		return;
	r->bound_source = bb_strbuf_text(&pairs->host_bound);
	bb_pair_fill_bound(r, GBps);
}

static void complete(struct bb_run *run, const struct bb_memory_case *c, struct bb_pair_record *r)
{
	const struct bb_location *gpu = &run->infos[0].location;
	const int64_t numa = gpu->numa < 0 ? BB_ABSENT : gpu->numa;
	const bool both = bb_memory_is_both(c);

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
	r->p2p = c->from + c->to == BB_SPACE_PINNED ? "on" : "off";
	r->actor = both ? "both" : c->from == BB_SPACE_DEVICE ? "source" : "target";
	if (!both && c->from + c->to == BB_SPACE_PINNED)
		bound(run, r);
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

/* A copy over ROUTE from space FROM to space TO, by KIND also back at once, of SIZE bytes. */
static bb_status add(struct bb_pairs *pairs, const struct host_route *route,
		     enum bb_memory_kind kind, int from, int to, uint64_t size)
{
	struct bb_memory_case c = {.kind = kind,
				   .route = route->name,
				   .from = from,
				   .to = to,
				   .alone = true,
				   .bytes = size};

	if (size % BB_WORK_ALIGNMENT != 0)
		c.skip = "sizes between a GPU and its host are multiples of 256 bytes";
	return bb_memory_plan_add(pairs->host, pairs->run, c);
}

static bb_status add_sizes(struct bb_pairs *pairs, const struct host_route *route, bool both)
{
	const struct bb_options *o = &pairs->run->options;
	const int host = route->space, gpu = BB_SPACE_DEVICE;
	bb_status status = BB_OK;

	for (uint64_t size = o->min_bytes; size && status == BB_OK;
	     size = bb_options_next_size(o, size)) {
		if (both) {
			status = add(pairs, route, route->both, host, gpu, size);
			continue;
		}
		status = add(pairs, route, route->one, gpu, host, size);
		if (status == BB_OK)
			status = add(pairs, route, route->one, host, gpu, size);
	}
	return status;
}

static bool is_wanted(const struct bb_pairs *pairs, const struct host_route *route, bool both)
{
	const struct bb_pair_options *a = &pairs->settings;

	return a->directions != (both ? BB_UNIDIRECTIONAL : BB_BIDIRECTIONAL) &&
	       (a->p2p == BB_P2P_BOTH ||
		(a->p2p == BB_P2P_ON) == (route->space == BB_SPACE_PINNED));
}

bb_status bb_host_pair_plan(struct bb_pairs *pairs)
{
	struct bb_run *run = pairs->run;
	bb_status status = BB_OK;

	if (pairs->settings.directions == BB_ALL_TO_ONE ||
	    pairs->settings.directions == BB_ONE_TO_ALL)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--direction: a GPU and its host are two ends; give -g 2");
	if (run->options.precision != 0)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--precision: the pair of a GPU and its host is measured -n times; leave "
			"it out, or give -g 2");
	pairs->host = calloc(1, sizeof(*pairs->host));
	if (!pairs->host)
		return bb_no_memory(&run->error, "the plan");
	pairs->host->complete = complete;
	for (int both = 0; both < 2; both++)
		for (size_t i = 0; i < HOST_ROUTES && status == BB_OK; i++)
			if (is_wanted(pairs, &host_routes[i], both))
				status = add_sizes(pairs, &host_routes[i], both);
	return status;
}

void bb_host_pair_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "  a GPU alone (-g 1) and its host\n");
	for (size_t i = 0; i < HOST_ROUTES; i++)
		bb_strbuf_addf(out, "    %-13s bandwidth  P2P %-7s %s\n", host_routes[i].name,
			       host_routes[i].space == BB_SPACE_PINNED ? "on" : "off",
			       host_routes[i].brief);
}

void bb_host_pair_close(struct bb_pairs *pairs)
{
	if (pairs->host)
		free(pairs->host->cases);
	free(pairs->host);
	bb_strbuf_free(&pairs->host_bound);
}

/*
 * host_pair.c - a GPU alone: its pair is the GPU and the host. Its transfers are copies between
 * spaces of memory, as mem_bandwidth_perf measures them, reported as pairs.
 */
#include "p2p/pairs.h"

bool bb_pairs_are_host(const struct bb_run *run)
{
	return run->world.nranks == 1 && run->options.backend->gpu && run->options.backend->spaces;
}

static void complete(struct bb_run *run, const struct bb_memory_case *c, struct bb_pair_record *r)
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

/* Add the copies over ROUTE of all sizes: from the GPU and to it, or in BOTH directions at once. */
static bb_status add_sizes(struct bb_pairs *pairs, const struct host_route *route, bool both)
{
	const struct bb_options *o = &pairs->run->options;
	bb_status status = BB_OK;

	for (uint64_t size = o->min_bytes; size && status == BB_OK;
	     size = bb_options_next_size(o, size))
		for (int to_gpu = both; to_gpu < 2 && status == BB_OK; to_gpu++)
			status = bb_memory_plan_add(
				&pairs->host, pairs->run,
				(struct bb_memory_case){
					.kind = both ? route->both : route->one,
					.route = route->name,
					.from = to_gpu ? route->space : BB_SPACE_DEVICE,
					.to = to_gpu ? BB_SPACE_DEVICE : route->space,
					.alone = true,
					.bytes = size,
					.skip = size % BB_WORK_ALIGNMENT != 0
							? "sizes between a GPU and its host are "
							  "multiples of 256 bytes"
							: NULL});
	return status;
}

bb_status bb_host_pair_plan(struct bb_pairs *pairs)
{
	const struct bb_pair_options *a = &pairs->settings;
	struct bb_run *run = pairs->run;
	bb_status status = BB_OK;

	if (a->directions == BB_ALL_TO_ONE || a->directions == BB_ONE_TO_ALL)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--direction: a GPU and its host are two ends; give -g 2");
	if (run->options.precision != 0)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--precision: the pair of a GPU and its host is measured -n times; leave "
			"it out, or give -g 2");
	pairs->host.complete = complete;
	for (int both = 0; both < 2; both++)
		for (size_t i = 0; i < HOST_ROUTES && status == BB_OK; i++) {
			const bool direct = host_routes[i].space == BB_SPACE_PINNED;

			if (a->directions != (both ? BB_UNIDIRECTIONAL : BB_BIDIRECTIONAL) &&
			    (a->p2p == BB_P2P_BOTH || (a->p2p == BB_P2P_ON) == direct))
				status = add_sizes(pairs, &host_routes[i], both);
		}
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

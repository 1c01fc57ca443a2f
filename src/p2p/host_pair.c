/*
 * host_pair.c - a GPU alone: its pair is the GPU and the host. Its transfers are copies between
 * spaces of memory, as mem_bandwidth_perf measures them, reported as pairs.
 */
#include "p2p/memory.h"

#include <stdlib.h>

/* Spaces of a GPU (the backend's spaces). */
enum { DEVICE, PINNED, PAGEABLE, SPACES };

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
	r->bound_GBps = GBps;
	r->percent_of_bound = 100 * r->GBps / GBps;
	r->bound_source = bb_strbuf_text(&pairs->host_bound);
}

static void complete(struct bb_run *run, const struct bb_memory_case *c, struct bb_pair_record *r)
{
	const struct bb_location *gpu = &run->infos[0].location;
	const int64_t numa = gpu->numa < 0 ? BB_ABSENT : gpu->numa;
	const bool both = c->kind == BB_MEMORY_BOTH;

	r->from_host = r->to_host = gpu->host;
	if (c->from == DEVICE) {
		r->from = 0;
		r->from_device = gpu->device;
		r->from_numa = numa;
	} else {
		r->to = 0;
		r->to_device = gpu->device;
		r->to_numa = numa;
	}
	r->path = "GPU and its host";
	r->p2p = c->from + c->to == PINNED ? "on" : "off";
	r->actor = both ? "both" : c->from == DEVICE ? "source" : "target";
	if (!both && c->from + c->to == PINNED)
		bound(run, r);
}

/* A copy from space FROM to space TO, or also back at once, of SIZE bytes. */
static bb_status add(struct bb_pairs *pairs, enum bb_memory_kind kind, int from, int to,
		     uint64_t size)
{
	static const char *const routes[] = {[PINNED] = "pinned", [PAGEABLE] = "pageable"};
	struct bb_memory_case c = {
		.kind = kind, .route = routes[from + to], .from = from, .to = to, .bytes = size};

	if (size % BB_WORK_ALIGNMENT != 0)
		c.skip = "sizes between a GPU and its host are multiples of 256 bytes";
	return bb_memory_plan_add(pairs->host, pairs->run, c);
}

static bb_status add_unidirectional(struct bb_pairs *pairs, int space)
{
	const struct bb_options *o = &pairs->run->options;
	bb_status status = BB_OK;

	for (uint64_t size = o->min_bytes; size; size = bb_options_next_size(o, size)) {
		BB_TRY(status, add(pairs, BB_MEMORY_COPY, DEVICE, space, size), out);
		BB_TRY(status, add(pairs, BB_MEMORY_COPY, space, DEVICE, size), out);
	}
out:
	return status;
}

static bb_status add_bidirectional(struct bb_pairs *pairs, int space)
{
	const struct bb_options *o = &pairs->run->options;
	bb_status status = BB_OK;

	for (uint64_t size = o->min_bytes; size && status == BB_OK;
	     size = bb_options_next_size(o, size))
		status = add(pairs, BB_MEMORY_BOTH, space, DEVICE, size);
	return status;
}

static bool is_wanted(const struct bb_pairs *pairs, int space)
{
	return pairs->settings.p2p == BB_P2P_BOTH ||
	       (pairs->settings.p2p == BB_P2P_ON) == (space == PINNED);
}

bb_status bb_host_pair_plan(struct bb_pairs *pairs)
{
	struct bb_run *run = pairs->run;
	bb_status status = BB_OK;

	if (run->options.precision != 0)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--precision: the pair of a GPU and its host is measured -n times; leave "
			"it out, or give -g 2");
	pairs->host = calloc(1, sizeof(*pairs->host));
	if (!pairs->host)
		return bb_no_memory(&run->error, "the plan");
	pairs->host->complete = complete;
	for (int space = PINNED; space < SPACES && status == BB_OK; space++)
		if (is_wanted(pairs, space) && pairs->settings.directions != BB_BIDIRECTIONAL)
			status = add_unidirectional(pairs, space);
	for (int space = PINNED; space < SPACES && status == BB_OK; space++)
		if (is_wanted(pairs, space) && pairs->settings.directions != BB_UNIDIRECTIONAL)
			status = add_bidirectional(pairs, space);
	return status;
}

void bb_host_pair_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "  a GPU alone (-g 1) and its host\n"
			   "    pinned       bandwidth  P2P on      copy engine and pinned memory\n"
			   "    pageable     bandwidth  P2P off     through pinned memory of the "
			   "driver\n");
}

void bb_host_pair_close(struct bb_pairs *pairs)
{
	if (pairs->host)
		free(pairs->host->cases);
	free(pairs->host);
	bb_strbuf_free(&pairs->host_bound);
}

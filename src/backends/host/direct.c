/*
 * `direct`: no messages. Each piece of the result is made once, reading all its sources and
 * storing to all its destinations in one pass; that is the least traffic the collective needs.
 *
 * Work is divided into one share per rank (struct bb_collective's share says which). There are
 * three modes:
 *   flat    few bytes: every rank posts a copy of its input and makes its own output from the
 *           others' copies. Copies alternate between two places, so no rank waits for readers.
 *   static  a core for every rank: all enter, each does its own share, all leave.
 *   pooled  more ranks than cores: the last to enter opens the work, and whoever has a core
 *           does the next piece, so that a call costs each rank one turn on the core.
 */
#include "backends/host/host.h"

#include <string.h>

#define PIECE_BYTES ((size_t)256 << 10) /* of a share, pooled */
#define ALONE_BYTES ((size_t)64 << 10)  /* less work than this, the last to enter does alone */
#define REFRESH_CALLS (1u << 24)

/* A call, and the buffers of all members. */
struct work {
	const struct bb_group *group;
	const struct bb_call *call;
	size_t element;
	int flat; /* parity of the posted copies, or -1: the members' own buffers */
	bool stream;
};

static const char *input_of(const struct work *work, int rank)
{
	const struct bb_host_offer *offer = &work->group->team->offers[rank];

	return work->flat >= 0 ? (const char *)offer->flat[work->flat].data : offer->in;
}

static char *output_of(const struct work *work, int rank)
{
	return work->group->team->offers[rank].out;
}

/*
 * Reduce [at, at + count) of every input at `in` into the outputs of ndst ranks from `first` on.
 * Sources begin with the first destination's own, so that a partial result may overwrite it.
 */
static void reduce_piece(const struct work *work, const struct bb_segment *s, int first, int ndst)
{
	const struct bb_call *call = work->call;
	const int n = call->shape.nranks;
	bb_reduce_fn *reduce =
		work->group->rank->context->cpu.kernels->reduce[call->dtype][call->op];
	const void *src[BB_KERNEL_STREAMS];
	void *dst[BB_KERNEL_STREAMS];
	uint8_t weight[BB_KERNEL_STREAMS];
	struct bb_reduce_args args = {.divisor = 1, .weight = weight};
	void *partial = output_of(work, first) + s->out * work->element;
	int done = 0;

	while (done < n) {
		int nsrc = 0, to = 1;

		if (done > 0) {
			src[nsrc] = partial;
			weight[nsrc++] = 1;
		}
		for (; nsrc < BB_KERNEL_STREAMS && done < n; done++) {
			int rank = (first + done) % n;

			src[nsrc] = input_of(work, rank) + s->in * work->element;
			weight[nsrc++] = (uint8_t)bb_mulsum_weight(rank);
		}
		dst[0] = partial;
		if (done == n) {
			args.divisor = n;
			args.stream = work->stream;
			for (; to < ndst && to < BB_KERNEL_STREAMS; to++)
				dst[to] =
					output_of(work, (first + to) % n) + s->out * work->element;
		}
		reduce(dst, to, src, nsrc, s->count, &args);
	}
}

/* Copy FROM to the outputs of NDST ranks from FIRST on, except to itself. */
static void copy_piece(const struct work *work, const char *from, const struct bb_segment *s,
		       int first, int ndst)
{
	const struct bb_kernels *kernels = work->group->rank->context->cpu.kernels;
	const int n = work->call->shape.nranks;
	void *dst[BB_KERNEL_STREAMS];
	int to = 0;

	for (int i = 0; i < ndst; i++) {
		char *out = output_of(work, (first + i) % n) + s->out * work->element;

		if (out != from)
			dst[to++] = out;
		if (to == BB_KERNEL_STREAMS || (i == ndst - 1 && to > 0)) {
			kernels->copy(dst, to, from, s->count * work->element, work->stream);
			to = 0;
		}
	}
}

/* Carry segment S, of NDST ranks from FIRST on, from its sources to its destinations. */
static void carry(const struct work *work, const struct bb_segment *s, int first, int ndst)
{
	const char *from;

	if (s->count == 0)
		return;
	if (s->source == BB_REDUCED) {
		reduce_piece(work, s, first, ndst);
		if (ndst > BB_KERNEL_STREAMS) {
			from = output_of(work, first) + s->out * work->element;
			copy_piece(work, from, s, first + BB_KERNEL_STREAMS,
				   ndst - BB_KERNEL_STREAMS);
		}
		return;
	}
	from = input_of(work, s->source) + s->in * work->element;
	copy_piece(work, from, s, first, ndst);
}

/* Part PART of PARTS of a segment, cut at cache lines. */
static struct bb_segment cut(const struct work *work, const struct bb_segment *s, int parts,
			     int part)
{
	const size_t line = work->element < BB_LINE ? BB_LINE / work->element : 1;
	const size_t lines = (s->count + line - 1) / line;
	size_t start = bb_part_start(lines, parts, part) * line;
	size_t end = bb_part_start(lines, parts, part + 1) * line;
	struct bb_segment piece = *s;

	start = start < s->count ? start : s->count;
	end = end < s->count ? end : s->count;
	piece.in += start;
	piece.out += start;
	piece.count = end - start;
	return piece;
}

static bool same_output(const struct bb_call *call)
{
	return call->collective->flags & BB_SAME_OUTPUT;
}

/* Piece PIECE of PIECES of the share of rank OWNER. */
static void do_share(const struct work *work, int owner, int piece, int pieces)
{
	const struct bb_call *call = work->call;
	const struct bb_collective *c = call->collective;
	const struct bb_shape *shape = &call->shape;
	const bool by_destination = c->share == BB_SHARE_BY_DESTINATION;
	const int target = by_destination ? owner : same_output(call) ? 0 : shape->root;
	const int ndst = same_output(call) ? shape->nranks : 1;
	const int segments = bb_collective_segments(c, shape, target);

	for (int k = 0; k < segments; k++) {
		/* Each owner begins with another segment, so that not all read from the same rank
		   at once. */
		const struct bb_segment s =
			bb_collective_segment(c, shape, target, (owner + k) % segments);
		struct bb_segment part;

		if (c->share == BB_SHARE_BY_SOURCE && s.source != owner)
			continue;
		if (c->share == BB_SHARE_EVEN)
			part = cut(work, &s, shape->nranks * pieces, owner * pieces + piece);
		else
			part = cut(work, &s, pieces, piece);
		carry(work, &part, target, ndst);
	}
}

/* Store VALUE in *WORD, and wake the members that sleep. */
static void publish(const struct bb_group *group, atomic_uint *word, uint32_t value)
{
	bb_host_store(group->rank->context, word, value);
	bb_host_wake(group->rank->context, group->team->bells, group->team->n);
}

/* The word by which a member has posted its input of call NUMBER. */
#define POSTED(number) offsetof(struct bb_host_offer, flat[(number)&1].posted)

/* Wait until the word at OFFSET of PEER's offer has reached NUMBER. */
static bb_status wait_peer(struct bb_group *group, int peer, size_t offset, uint32_t number)
{
	struct bb_host_team *team = group->team;

	return bb_host_wait(group->rank->context, &team->bells[group->me],
			    (atomic_uint *)((char *)&team->offers[peer] + offset), number);
}

/* Those of all peers; each of them means that its member has entered the call. */
static bb_status wait_all(struct bb_group *group, size_t offset, uint32_t number)
{
	const int n = group->team->n;
	bb_status status = BB_OK;

	for (int i = 1; i < n && status == BB_OK; i++)
		status = wait_peer(group, (group->me + i) % n, offset, number);
	if (status == BB_OK)
		group->entered = number;
	return status;
}

/* ---- flat -------------------------------------------------------------------------- */

static bb_status run_flat(struct bb_group *group, struct work *work, size_t in_bytes)
{
	const struct bb_call *call = work->call;
	const struct bb_collective *c = call->collective;
	const uint32_t number = group->calls;
	struct bb_host_offer *offer = &group->team->offers[group->me];
	bb_status status = BB_OK;

	/* The copy before last may be overwritten once all have entered the last call. */
	if (!bb_reached(group->entered, number - 1))
		status = wait_all(group, POSTED(number - 1), number - 1);
	if (status != BB_OK)
		return status;
	work->flat = number & 1;
	if (in_bytes > 0)
		memcpy(offer->flat[work->flat].data, call->in, in_bytes);
	offer->out = call->out;
	publish(group, &offer->flat[work->flat].posted, number);
	const int segments = bb_collective_segments(c, &call->shape, group->me);
	/* Wait for the copies that this rank's output is made from. */
	for (int k = 0; k < segments && status == BB_OK; k++) {
		const struct bb_segment s = bb_collective_segment(c, &call->shape, group->me, k);

		if (s.source == BB_REDUCED) {
			status = wait_all(group, POSTED(number), number);
			break;
		}
		if (s.source != group->me)
			status = wait_peer(group, s.source, POSTED(number), number);
	}
	for (int k = 0; k < segments && status == BB_OK; k++) {
		const struct bb_segment s = bb_collective_segment(c, &call->shape, group->me, k);

		carry(work, &s, group->me, 1);
	}
	return status;
}

/* ---- pooled ------------------------------------------------------------------------ */

/* Do tasks of the open call until none is left; the rank that completes the last one closes it. */
static void help(struct bb_group *group, const struct work *work, uint32_t tasks, int pieces)
{
	struct bb_pool *pool = &group->team->pool;
	uint32_t task;

	while ((task = atomic_fetch_add(&pool->next, 1)) < tasks) {
		do_share(work, (int)task / pieces, (int)task % pieces, pieces);
		if (atomic_fetch_add(&pool->done, 1) + 1 == tasks)
			publish(group, &pool->closed, group->calls);
	}
}

static bb_status run_pooled(struct bb_group *group, const struct work *work, size_t bytes)
{
	struct bb_context *context = group->rank->context;
	struct bb_host_team *team = group->team;
	struct bb_pool *pool = &team->pool;
	struct bb_bell *bell = &team->bells[group->me];
	const uint32_t number = group->calls;
	const size_t wanted = bytes / (size_t)team->n / PIECE_BYTES;
	const int pieces = wanted < 1 ? 1 : wanted > 64 ? 64 : (int)wanted;
	const uint32_t tasks = (uint32_t)team->n * (uint32_t)pieces;
	const bool alone = bytes < ALONE_BYTES;
	bb_status status = BB_OK;

	if (atomic_fetch_add(&pool->arrived, 1) + 1 == number * (uint32_t)team->n) {
		atomic_store(&pool->next, 0);
		atomic_store(&pool->done, 0);
		if (alone)
			help(group, work, tasks, pieces);
		publish(group, &pool->open, number);
	} else {
		status = bb_host_wait(context, bell, &pool->open, number);
	}
	if (status == BB_OK && !alone)
		help(group, work, tasks, pieces);
	return status == BB_OK ? bb_host_wait(context, bell, &pool->closed, number) : status;
}

/* ---- the algorithm ----------------------------------------------------------------- */

/* In place, an exchange would overwrite what its peers have yet to read. */
static bool needs_staging(const struct bb_call *call)
{
	const struct bb_collective *c = call->collective;

	return call->shape.in_place && c->share == BB_SHARE_BY_DESTINATION &&
	       (c == &bb_sendrecv || c->flags & BB_RECEIVES_BLOCKS);
}

size_t bb_host_direct_tmp_bytes(const struct bb_call *call, int rank)
{
	return needs_staging(call) ? bb_call_in_bytes(call, rank) : 0;
}

bb_status bb_host_direct(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *context = group->rank->context;
	const int n = group->team->n;
	const size_t element = bb_dtype_size(call->dtype);
	const size_t size = bb_size_count(call->collective, &call->shape) * element;
	struct bb_host_offer *offer = &group->team->offers[group->me];
	struct work work = {.group = group, .call = call, .element = element, .flat = -1};

	/* The modes share one number of calls, but each has words of its own. A word that is unused
	   for half the range of a counter would seem to be ahead, so all are set to the last call
	   from time to time. */
	if (++group->calls % REFRESH_CALLS == 0) {
		const uint32_t last = group->calls - 1;

		bb_host_store(context, &offer->arrived, last);
		bb_host_store(context, &offer->left, last);
		bb_host_store(context, &offer->flat[0].posted, last);
		bb_host_store(context, &offer->flat[1].posted, last);
	}
	/* What was just read is in the cache, where a store is cheaper than past it. */
	work.stream = !(call->shape.in_place && (call->collective->flags & BB_REDUCES)) &&
		      bb_cpu_streams(&context->cpu, 2 * size, n);
	if (!context->cpu.crowded && size <= BB_FLAT_BYTES)
		return run_flat(group, &work, bb_call_in_bytes(call, group->me));
	offer->in = call->in;
	offer->out = call->out;
	if (needs_staging(call)) {
		void *tmp = call->tmp;

		context->cpu.kernels->copy(&tmp, 1, call->in, bb_call_in_bytes(call, group->me),
					   false);
		offer->in = tmp;
	}
	if (context->cpu.crowded)
		return run_pooled(group, &work, size * (size_t)n);
	/* static */
	publish(group, &offer->arrived, group->calls);
	const bb_status status =
		wait_all(group, offsetof(struct bb_host_offer, arrived), group->calls);
	if (status != BB_OK)
		return status;
	do_share(&work, group->me, 0, 1);
	publish(group, &offer->left, group->calls);
	return wait_all(group, offsetof(struct bb_host_offer, left), group->calls);
}

double bb_host_direct_cost(const struct bb_call *call)
{
	const struct bb_collective *c = call->collective;
	const int n = call->shape.nranks;
	const bool all = same_output(call), staged = needs_staging(call);
	double cost = 0;

	for (int target = 0; target < (all ? 1 : n); target++)
		for (int k = 0; k < bb_collective_segments(c, &call->shape, target); k++) {
			const struct bb_segment s =
				bb_collective_segment(c, &call->shape, target, k);
			const bool reduced = s.source == BB_REDUCED;
			/* In place, data that is already at its destination costs nothing. */
			const bool lies = call->shape.in_place && !staged && !reduced &&
					  (all || s.source == target);
			const int writes = (all ? n : 1) - lies;

			if (writes > 0)
				cost += 0.5 * (double)s.count * ((reduced ? n : 1) + writes);
		}
	for (int rank = 0; rank < n && staged; rank++)
		cost += (double)bb_collective_in(c, &call->shape, rank);
	return cost;
}

static const char *direct_refuses(const struct bb_native *native,
				  const struct bb_collective *collective)
{
	return strcmp(collective->name, "hypercube") == 0
		       ? "hypercube is an algorithm of its own; all_gather has direct"
		       : NULL;
}

const struct bb_native bb_host_natives[] = {
	{.name = "direct",
	 .brief = "each piece made once in registers, read from all and stored to all",
	 .refuses = direct_refuses},
	{.name = NULL},
};

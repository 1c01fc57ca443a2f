/*
 * tree.c - two kinds of trees, and collectives made of several phases on them. On a binomial tree
 * blocks are gathered and scattered. Pipelined double binary trees reduce and broadcast the data in
 * two halves, each going up or down its own tree in chunks, so that a rank that passes on one half
 * is a leaf for the other.
 */
#include "schedules/parts.h"

/* ---- binomial trees: scatter and gather of blocks ---------------------------------------- */

/* Rank v, counted from the root, serves the ranks v to v + 2^k - 1, where 2^k is the lowest bit
   of v. */
struct binomial {
	int n;
	int rank;
	int root;
	const size_t *row;       /* counts of the ranks' blocks, one behind the other, or NULL: */
	struct bb_blocks blocks; /* equal blocks, or balanced parts */
	struct bb_place top;     /* the root's blocks, by rank */
	struct bb_place own;     /* another rank's own block */
	struct bb_place held;    /* blocks that another rank holds for the ranks below it: */
	bool natural;            /* at their places among all blocks, else packed */
	bool final;              /* a rank's own block, once scattered, or the root's, gathered */
};

/* Equal blocks, which the root has in TOP, others in OWN, and TMP on the way. */
static struct binomial binomial_of(const struct bb_shape *shape, int rank, enum bb_buffer top,
				   enum bb_buffer own)
{
	return (struct binomial){.n = shape->nranks,
				 .rank = rank,
				 .root = shape->root,
				 .blocks = bb_blocks_equal(shape),
				 .top = bb_at(top, 0),
				 .own = bb_at(own, 0),
				 .held = bb_at(BB_TMP, 0),
				 .final = true};
}

/* Where rank K's block begins among all blocks. */
static size_t start_of(const struct binomial *b, int k)
{
	size_t start = 0;

	if (!b->row)
		return bb_block_start(&b->blocks, (size_t)k);
	for (int i = 0; i < k; i++)
		start += b->row[i];
	return start;
}

/* Elements of the blocks of ranks [from, to), counted from the root. */
static size_t count_of(const struct binomial *b, int from, int to)
{
	const int first = from + b->root, end = to + b->root;

	if (first >= b->n)
		return start_of(b, end - b->n) - start_of(b, first - b->n);
	if (end <= b->n)
		return start_of(b, end) - start_of(b, first);
	return start_of(b, b->n) - start_of(b, first) + start_of(b, end - b->n) - start_of(b, 0);
}

/* The rank's messages over the edges between ranks 2^LEVEL apart, DOWN or up. */
static void cross_level(struct bb_writer *w, const struct binomial *b, int level, bool down)
{
	const int self = bb_wrap(b->rank - b->root, b->n), bit = 1 << level, lower = self | bit;
	const int end = lower + bit < b->n ? lower + bit : b->n, other = self ^ bit;
	const int peer = bb_wrap(other + b->root, b->n);
	/* The lower rank's own block is separate, and the others may wrap around after rank
	   n - 1. */
	const int ends[] = {lower, lower + 1, b->n - b->root, end};

	if (self & (bit - 1) || lower >= b->n)
		return;
	for (int i = 0, from = lower; i < 3; i++) {
		int to = ends[i + 1] < from ? from : ends[i + 1] > end ? end : ends[i + 1];
		const size_t start = start_of(b, bb_wrap(from + b->root, b->n));
		/* Where the rank keeps the first block, its own or that of a rank below it. */
		const struct bb_place place =
			!self          ? bb_plus(b->top, start)
			: from == self ? b->own
			: b->natural   ? bb_plus(b->held, start)
				       : bb_plus(b->held, count_of(b, self + 1, from));
		const size_t count = from < to ? count_of(b, from, to) : 0;

		if ((self != lower) == down)
			bb_send(w, peer, place, count);
		else
			bb_recv(w, peer, place, count, b->final && (down ? from == lower : !self));
		from = to;
	}
}

/* Rounds of a scatter or gather: bb_log2_up(n). The root's own block is left to the caller. */
static void binomial_scatter(struct bb_writer *w, const struct binomial *b, size_t round)
{
	cross_level(w, b, bb_log2_up(b->n) - 1 - (int)round, true);
}

static void binomial_gather(struct bb_writer *w, const struct binomial *b, size_t round)
{
	cross_level(w, b, (int)round, false);
}

/* Elements that b->rank holds for others when packed. */
static size_t binomial_held(const struct binomial *b)
{
	const int self = bb_wrap(b->rank - b->root, b->n), bit = self & -self;

	if (!self)
		return 0;
	return count_of(b, self + 1, self + bit < b->n ? self + bit : b->n);
}

static size_t held_for_others(const struct bb_shape *shape, int rank)
{
	const struct binomial b = binomial_of(shape, rank, BB_IN, BB_OUT);

	return binomial_held(&b);
}

/* ---- gather, scatter ----------------------------------------------------------------- */

static void gather_round(struct bb_writer *w, size_t round)
{
	const struct binomial b = binomial_of(w->shape, w->rank, BB_OUT, BB_IN);

	binomial_gather(w, &b, round);
	if (!round && bb_is_root(w))
		bb_copy_own(w, bb_at(BB_IN, 0), bb_block_at(BB_OUT, &b.blocks, w->rank),
			    w->shape->count, true);
}

const struct bb_algorithm bb_tree_gather = {
	BB_NAMED("tree"),
	.collective = &bb_gather,
	.meaning = "A binomial tree: in round k, ranks 2^k apart join the 2^k blocks that each of "
		   "them holds, until the root holds all.",
	.tmp_count = held_for_others,
	.prepare = bb_prepare_log,
	.round = gather_round,
};

static void scatter_round(struct bb_writer *w, size_t round)
{
	const struct binomial b = binomial_of(w->shape, w->rank, BB_IN, BB_OUT);

	binomial_scatter(w, &b, round);
	if (!round && bb_is_root(w))
		bb_copy_own(w, bb_block_at(BB_IN, &b.blocks, w->rank), bb_at(BB_OUT, 0),
			    w->shape->count, true);
}

const struct bb_algorithm bb_tree_scatter = {
	BB_NAMED("tree"),
	.collective = &bb_scatter,
	.meaning = "A binomial tree: the root hands half of all blocks to one rank, then both hand "
		   "on half of what they hold, until every rank holds its own block.",
	.tmp_count = held_for_others,
	.prepare = bb_prepare_log,
	.round = scatter_round,
};

/* ---- alltoall, alltoallv: every rank in turn is the root of a scatter ------------------- */

static struct binomial row_of(const struct bb_shape *shape, int rank, int source)
{
	struct binomial b = binomial_of(shape, rank, BB_IN, BB_OUT);

	b.root = source;
	b.top = bb_alltoall_from(shape, source, 0);
	b.held.offset = bb_alltoall_saved(shape, rank);
	b.own.offset = bb_alltoall_out(shape, source, rank);
	if (shape->matrix)
		b.row = shape->matrix + (size_t)source * (size_t)shape->nranks;
	return b;
}

static size_t alltoall_tmp(const struct bb_shape *shape, int rank)
{
	size_t most = 0;

	for (int source = 0; source < shape->nranks; source++) {
		const struct binomial b = row_of(shape, rank, source);

		most = bb_most(most, binomial_held(&b));
	}
	return most;
}

static size_t alltoall_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return (size_t)shape->nranks * (size_t)bb_log2_up(shape->nranks);
}

static void alltoall_round(struct bb_writer *w, size_t round)
{
	const size_t depth = (size_t)bb_log2_up(w->n);
	const struct binomial b = row_of(w->shape, w->rank, (int)(round / depth));

	if (!round)
		bb_alltoall_keep(w);
	binomial_scatter(w, &b, round % depth);
}

#define TREE_EXCHANGE                                                                              \
	.meaning = "n scatters: every rank in turn is the root of a binomial tree on which its "   \
		   "blocks are handed out.",                                                       \
	.tmp_count = alltoall_tmp, .prepare = alltoall_prepare, .round = alltoall_round,           \
	BB_NAMED("tree")

const struct bb_algorithm bb_tree_alltoall = {TREE_EXCHANGE, .collective = &bb_alltoall};
const struct bb_algorithm bb_tree_alltoallv = {TREE_EXCHANGE, .collective = &bb_alltoallv};

/* ---- sendrecv: gather at rank 0, scatter from there -------------------------------------- */

static size_t sendrecv_tmp(const struct bb_shape *shape, int rank)
{
	const size_t n = (size_t)shape->nranks;

	return rank ? held_for_others(shape, rank) : (n + 1) * shape->count;
}

static size_t sendrecv_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return 2 * (size_t)bb_log2_up(shape->nranks);
}

/* Rank 0 keeps the data of rank s as block s + 1: block r is for rank r, and block n for rank 0. */
static void sendrecv_round(struct bb_writer *w, size_t round)
{
	const size_t count = w->shape->count, depth = (size_t)bb_log2_up(w->n);
	const bool down = round >= depth;
	struct binomial b = binomial_of(w->shape, w->rank, BB_TMP, down ? BB_OUT : BB_IN);

	b.top.offset = down ? 0 : count;
	b.final = down;
	if (down)
		binomial_scatter(w, &b, round - depth);
	else
		binomial_gather(w, &b, round);
	if (!w->rank && round == 0)
		bb_copy(w, bb_at(BB_IN, 0), b.top, count, false);
	if (!w->rank && round == depth)
		bb_copy(w, bb_at(BB_TMP, (size_t)w->n * count), bb_at(BB_OUT, 0), count, true);
}

const struct bb_algorithm bb_tree_sendrecv = {
	BB_NAMED("tree"),
	.collective = &bb_sendrecv,
	.meaning =
		"Everything is gathered at rank 0 on a binomial tree and scattered from there to "
		"its destinations.",
	.tmp_count = sendrecv_tmp,
	.prepare = sendrecv_prepare,
	.round = sendrecv_round,
};

/* ---- broadcast = scatter + all_gather by ring -------------------------------------------- */

static size_t scatter_all_gather_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return (size_t)bb_log2_up(shape->nranks) + (size_t)shape->nranks - 1;
}

static void scatter_all_gather_round(struct bb_writer *w, size_t round)
{
	const struct bb_blocks blocks = bb_blocks_of(0, w->shape->count, (size_t)w->n);
	const size_t depth = (size_t)bb_log2_up(w->n);
	const struct bb_place own = bb_block_at(BB_OUT, &blocks, w->rank);
	const struct bb_place top = bb_block_at(BB_IN, &blocks, w->rank);
	const struct binomial scatter = {.n = w->n,
					 .rank = w->rank,
					 .root = w->shape->root,
					 .blocks = blocks,
					 .top = bb_at(BB_IN, 0),
					 .own = own,
					 .held = bb_at(BB_OUT, 0),
					 .natural = true};

	if (round < depth)
		binomial_scatter(w, &scatter, round);
	else
		bb_ring_gather_all(w, round - depth, &blocks, bb_is_root(w) ? top : own);
	if (!round && bb_is_root(w))
		bb_copy_own(w, top, own, bb_block_count(&blocks, (size_t)w->rank), true);
}

const struct bb_algorithm bb_scatter_all_gather_broadcast = {
	BB_NAMED("scatter+all_gather"),
	.collective = &bb_broadcast,
	.meaning = "The root scatters n parts of its data on a binomial tree, then the ranks pass "
		   "the parts around the ring until all have all.",
	.prepare = scatter_all_gather_prepare,
	.round = scatter_all_gather_round,
};

/* ---- double binary trees ----------------------------------------------------------------- */

/*
 * The root stands above two binary trees of all other ranks; each carries one half of the data
 * in the same number of chunks. An inner rank of one tree is a leaf of the other.
 */
struct lane {       /* a rank's place in one of the trees */
	int parent; /* BB_NO_PEER: the root */
	int depth;
	int children;
	int child[2]; /* [1] is BB_NO_PEER unless there are two */
	struct bb_blocks chunks;
};

struct trees { /* lies at the front of role.at */
	size_t depth;
	size_t chunks;
	size_t window; /* elements of one of the two slots in TMP */
	struct lane lanes[2];
};

_Static_assert(sizeof(struct trees) <= sizeof(((struct bb_role *)0)->at), "fits a role");

/*
 * Nodes 1 to m in order: an odd node is a leaf, one whose lowest bit is 2^k has its children
 * 2^(k-1) to either side (nearer where the right one would lie beyond m); 0 is above the top.
 */
static int parent_of(int node, int m)
{
	for (int bit = node & -node;; bit *= 2) {
		const int parent = (node & ~bit) | 2 * bit;

		if (2 * bit > m)
			return 0;
		node = parent;
		if (parent <= m)
			return parent;
	}
}

/* The rank at NODE. Lane 1 assigns ranks to other nodes, so that inner nodes (even) become leaves
   (odd). */
static int rank_of(int lane, int node, int m)
{
	if (!lane || !node)
		return node;
	return m % 2 ? (node + m - 2) % m + 1 : m + 1 - node;
}

static void lane_prepare(struct lane *lane, int which, int n, int rank, int root)
{
	const int m = n - 1;
	int node = bb_wrap(rank - root, n), child[2], bit;

	if (which && node)
		node = m % 2 ? node % m + 1 : m + 1 - node;
	*lane = (struct lane){.parent = BB_NO_PEER, .child = {BB_NO_PEER, BB_NO_PEER}};
	if (node)
		lane->parent = bb_wrap(rank_of(which, parent_of(node, m), m) + root, n);
	bit = node & -node;
	if (!node && m) /* above the top */
		child[lane->children++] = 1 << bb_log2_down(m);
	if (bit > 1)
		child[lane->children++] = node - bit / 2;
	bit /= 2; /* nearer where the right child would lie beyond */
	while (bit > 0 && node + bit > m)
		bit /= 2;
	if (bit > 0)
		child[lane->children++] = node + bit;
	for (int k = 0; k < lane->children; k++)
		lane->child[k] = bb_wrap(rank_of(which, child[k], m) + root, n);
	for (; node; node = parent_of(node, m))
		lane->depth++;
}

/* Prepare ROLE for COUNT elements; returns the rounds of going up or down. APART: ranks 0 and 1 are
   each the top of one of the trees, so that no rank is the top of both. */
static size_t trees_prepare(const struct bb_shape *shape, struct bb_role *role, bool apart,
			    size_t count)
{
	struct trees *trees = (struct trees *)role->at;
	const int n = shape->nranks;

	trees->depth = (size_t)bb_log2_up(n);
	trees->chunks = bb_pieces(bb_part_count(count, 2, 0), shape->chunk);
	trees->window = 0;
	for (int which = 0; which < 2; which++) {
		struct lane *lane = &trees->lanes[which];

		if (apart) /* shifted by one rank, inner nodes become leaves */
			lane_prepare(lane, 0, n, role->rank, bb_wrap(which, n));
		else
			lane_prepare(lane, which, n, role->rank, shape->root);
		lane->chunks = bb_blocks_of(bb_part_start(count, 2, (size_t)which),
					    bb_part_count(count, 2, (size_t)which), trees->chunks);
		trees->window = bb_most(trees->window, bb_block_count(&lane->chunks, 0));
	}
	return trees->chunks + trees->depth - 1;
}

/* Elements of TMP for trees_up with a window. */
static size_t trees_window(const struct bb_shape *shape, int rank, size_t count)
{
	struct bb_role role = {.rank = rank};
	const struct trees *trees = (const struct trees *)role.at;

	trees_prepare(shape, &role, false, count);
	if (rank == shape->root || (!trees->lanes[0].children && !trees->lanes[1].children))
		return 0;
	return bb_least(2, trees->chunks) * trees->window;
}

static const struct trees *trees_of(const struct bb_writer *w)
{
	return (const struct trees *)w->role->at;
}

static size_t rounds_up(const struct trees *trees)
{
	return trees->chunks + trees->depth - 1;
}

/* The chunk that is due LAG rounds after the first one started; count 0: none. */
static size_t chunk_at(const struct trees *trees, const struct lane *lane, size_t round, size_t lag,
		       size_t *index, size_t *start)
{
	if (round < lag || round - lag >= trees->chunks)
		return 0;
	*index = round - lag;
	*start = bb_block_start(&lane->chunks, *index);
	return bb_block_count(&lane->chunks, *index);
}

/* Reduce towards the root: the rank adds IN, and sums go to SUM or, with WINDOWED, to a window of
   two slots at SUM. FINAL: what the root writes is not read again. */
static void trees_up(struct bb_writer *w, size_t round, struct bb_place sum, bool windowed,
		     bool final)
{
	const struct trees *trees = trees_of(w);
	const struct bb_place in = bb_at(BB_IN, 0);

	for (int which = 0; which < 2; which++) {
		const struct lane *lane = &trees->lanes[which];
		const size_t lag = trees->depth - (size_t)lane->depth;
		size_t k = 0, start = 0, count;

		if (lane->children) {
			count = chunk_at(trees, lane, round, lag - 1, &k, &start);
			bb_add_on(w, which, lane->child[0], lane->child[1], bb_plus(in, start),
				  bb_plus(sum, windowed ? (k & 1) * trees->window : start), count,
				  final && lane->parent == BB_NO_PEER);
		}
		if (lane->parent == BB_NO_PEER)
			continue;
		count = chunk_at(trees, lane, round, lag, &k, &start);
		if (!lane->children)
			bb_send_on(w, which, lane->parent, bb_plus(in, start), count);
		else
			bb_send_on(w, which, lane->parent,
				   bb_plus(sum, windowed ? (k & 1) * trees->window : start), count);
	}
}

/* Spread from the root's TOP to every other rank's OUT. */
static void trees_down(struct bb_writer *w, size_t round, struct bb_place top)
{
	const struct trees *trees = trees_of(w);
	const struct bb_place out = bb_at(BB_OUT, 0);

	for (int which = 0; which < 2; which++) {
		const struct lane *lane = &trees->lanes[which];
		const size_t depth = (size_t)lane->depth;
		size_t k = 0, start = 0, count;

		if (lane->children) {
			count = chunk_at(trees, lane, round, depth, &k, &start);
			for (int c = 0; c < lane->children; c++)
				bb_send_on(w, which, lane->child[c],
					   bb_plus(depth ? out : top, start), count);
		}
		if (depth) {
			count = chunk_at(trees, lane, round, depth - 1, &k, &start);
			bb_recv_on(w, which, lane->parent, bb_plus(out, start), count,
				   !lane->children);
		}
	}
}

/* ---- all_reduce ---------------------------------------------------------------------- */

static size_t all_reduce_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return trees_prepare(shape, role, true, shape->count) + (size_t)bb_log2_up(shape->nranks);
}

static void all_reduce_round(struct bb_writer *w, size_t round)
{
	const size_t depth = trees_of(w)->depth;
	const struct bb_place out = bb_at(BB_OUT, 0);

	trees_up(w, round, out, false, false);
	if (round >= depth)
		trees_down(w, round - depth, out);
}

const struct bb_algorithm bb_tree_all_reduce = {
	BB_NAMED("tree"),
	.collective = &bb_all_reduce,
	.meaning = "Two binary trees, below rank 0 and below rank 1, each for one half of the "
		   "data: sums go up chunk by chunk, and complete chunks come down while later "
		   "ones still go up.",
	.prepare = all_reduce_prepare,
	.round = all_reduce_round,
};

/* All_reduce = reduce + broadcast. */
static size_t reduce_broadcast_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return 2 * trees_prepare(shape, role, false, shape->count);
}

static void reduce_broadcast_round(struct bb_writer *w, size_t round)
{
	const struct bb_place out = bb_at(BB_OUT, 0);
	const size_t up = rounds_up(trees_of(w));

	if (round < up)
		trees_up(w, round, out, false, false);
	else
		trees_down(w, round - up, out);
}

const struct bb_algorithm bb_reduce_broadcast_all_reduce = {
	BB_NAMED("reduce+broadcast"),
	.collective = &bb_all_reduce,
	.meaning = "Everything is reduced to rank 0 on the double binary tree, and only then "
		   "broadcast from it.",
	.prepare = reduce_broadcast_prepare,
	.round = reduce_broadcast_round,
};

/* ---- broadcast, reduce --------------------------------------------------------------- */

static size_t rooted_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return trees_prepare(shape, role, false, shape->count);
}

static void broadcast_round(struct bb_writer *w, size_t round)
{
	const struct trees *trees = trees_of(w);

	trees_down(w, round, bb_at(BB_IN, 0));
	/* The root copies its own data, by chunks of the two halves. */
	for (int which = 0; which < 2 && bb_is_root(w); which++) {
		size_t k = 0, start = 0;
		const size_t count = chunk_at(trees, &trees->lanes[which], round, 0, &k, &start);

		bb_copy_own(w, bb_at(BB_IN, start), bb_at(BB_OUT, start), count, true);
	}
}

const struct bb_algorithm bb_tree_broadcast = {
	BB_NAMED("tree"),
	.collective = &bb_broadcast,
	.meaning = "The root feeds two binary trees of all other ranks, each with one half of the "
		   "data, chunk by chunk; a rank that passes on one half only receives the other.",
	.prepare = rooted_prepare,
	.round = broadcast_round,
};

static size_t reduce_tmp(const struct bb_shape *shape, int rank)
{
	return trees_window(shape, rank, shape->count);
}

static void reduce_round(struct bb_writer *w, size_t round)
{
	const bool root = bb_is_root(w);

	trees_up(w, round, bb_at(root ? BB_OUT : BB_TMP, 0), !root, true);
}

const struct bb_algorithm bb_tree_reduce = {
	BB_NAMED("tree"),
	.collective = &bb_reduce,
	.meaning =
		"Two binary trees below the root, each for one half of the data: every rank adds "
		"its children's chunks to its own and sends the sum up.",
	.tmp_count = reduce_tmp,
	.prepare = rooted_prepare,
	.round = reduce_round,
};

/* ---- all data passes through rank 0: in blocks, and in chunks on the double tree ---------- */

static size_t over_zero_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const size_t all = shape->count * (size_t)shape->nranks;

	return trees_prepare(shape, role, false, all) + (size_t)bb_log2_up(shape->nranks);
}

/* Binomial gather to rank 0, then broadcast of everything. */
static void all_gather_round(struct bb_writer *w, size_t round)
{
	const size_t depth = trees_of(w)->depth;
	const struct bb_place out = bb_at(BB_OUT, 0);
	struct binomial up = binomial_of(w->shape, w->rank, BB_OUT, BB_IN);

	up.held = out;
	up.natural = true;
	up.final = false;
	if (!round && !w->rank)
		bb_copy_own(w, bb_at(BB_IN, 0), out, w->shape->count, false);
	if (round < depth)
		binomial_gather(w, &up, round);
	else
		trees_down(w, round - depth, out);
}

const struct bb_algorithm bb_tree_all_gather = {
	BB_NAMED("tree"),
	.collective = &bb_all_gather,
	.meaning =
		"Blocks are gathered at rank 0 on a binomial tree; rank 0 then broadcasts all of "
		"them on the double binary tree.",
	.prepare = over_zero_prepare,
	.round = all_gather_round,
};

/* The same with a linear gather. */
static size_t gather_broadcast_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const size_t all = shape->count * (size_t)shape->nranks;

	return role->rounds + trees_prepare(shape, role, false, all);
}

static void gather_broadcast_round(struct bb_writer *w, size_t round)
{
	const size_t others = (size_t)w->n - 1;

	if (round < others)
		bb_linear_round(w, round);
	else
		trees_down(w, round - others, bb_at(BB_OUT, 0));
}

const struct bb_algorithm bb_gather_broadcast_all_gather = {
	BB_NAMED("gather+broadcast"),
	.collective = &bb_all_gather,
	.meaning = "Rank 0 gathers the blocks directly, one after the other, and broadcasts all of "
		   "them on the double binary tree.",
	.prepare = gather_broadcast_prepare,
	.round = gather_broadcast_round,
};

static size_t reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	const size_t all = shape->count * (size_t)shape->nranks;

	return rank ? bb_most(trees_window(shape, rank, all), held_for_others(shape, rank)) : all;
}

/* Reduce to rank 0, then binomial scatter. */
static void reduce_scatter_round(struct bb_writer *w, size_t round)
{
	const struct binomial down = binomial_of(w->shape, w->rank, BB_TMP, BB_OUT);
	const size_t up = rounds_up(trees_of(w));

	if (round < up)
		trees_up(w, round, bb_at(BB_TMP, 0), w->rank != 0, false);
	else
		binomial_scatter(w, &down, round - up);
	if (round == up && !w->rank)
		bb_copy(w, bb_at(BB_TMP, 0), bb_at(BB_OUT, 0), w->shape->count, true);
}

const struct bb_algorithm bb_tree_reduce_scatter = {
	BB_NAMED("tree"),
	.collective = &bb_reduce_scatter,
	.meaning =
		"Everything is reduced to rank 0 on the double binary tree; rank 0 then scatters "
		"the blocks on a binomial tree.",
	.tmp_count = reduce_scatter_tmp,
	.prepare = over_zero_prepare,
	.round = reduce_scatter_round,
};

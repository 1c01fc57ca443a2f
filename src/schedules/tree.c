/*
 * tree.c - pipelined double binary trees: the data in two halves, each going up or down its own
 * tree in chunks, so that a rank that passes on one half is a leaf for the other.
 */
#include "schedules/parts.h"

/* ---- the trees ----------------------------------------------------------------------- */

/*
 * Nodes 1 to m in order: an odd node is a leaf, one whose lowest bit is 2^k has its children
 * 2^(k-1) to either side (nearer where the right one would lie beyond m); 0 is above the top.
 */
static int parent_of(int node, int m)
{
	for (int bit = node & -node;; bit *= 2) {
		int parent = (node & ~bit) | 2 * bit;

		if (2 * bit > m)
			return 0;
		node = parent;
		if (parent <= m)
			return parent;
	}
}

static int children_of(int node, int m, int child[2])
{
	int bit = node & -node, children = 0;

	if (!node) { /* above the top */
		if (!m)
			return 0;
		child[0] = 1 << bb_log2_down(m);
		return 1;
	}
	if (bit > 1)
		child[children++] = node - bit / 2;
	for (int step = bit / 2; step; step /= 2) {
		if (node + step <= m) {
			child[children++] = node + step;
			break;
		}
	}
	return children;
}

/* Lane 1 assigns ranks to other nodes, so that inner nodes (even) become leaves (odd). */
static int node_of(int lane, int rank, int m)
{
	if (!lane || !rank)
		return rank;
	return m % 2 ? rank % m + 1 : m + 1 - rank;
}

static int rank_of(int lane, int node, int m)
{
	if (!lane || !node)
		return node;
	return m % 2 ? (node + m - 2) % m + 1 : m + 1 - node;
}

static void lane_prepare(struct bb_lane *lane, int which, int n, int rank, int root)
{
	int m = n - 1, node = node_of(which, bb_wrap(rank - root, n), m), child[2];

	lane->parent = BB_NO_PEER;
	if (node)
		lane->parent = bb_wrap(rank_of(which, parent_of(node, m), m) + root, n);
	lane->child[0] = lane->child[1] = BB_NO_PEER;
	lane->children = children_of(node, m, child);
	for (int k = 0; k < lane->children; k++)
		lane->child[k] = bb_wrap(rank_of(which, child[k], m) + root, n);
	lane->depth = 0;
	for (; node; node = parent_of(node, m))
		lane->depth++;
}

void bb_tree_prepare(struct bb_tree *tree, int n, int rank, int root, size_t count, size_t chunk)
{
	tree->depth = (size_t)bb_log2_up(n);
	tree->chunks = bb_pieces(bb_part_count(count, 2, 0), chunk);
	tree->window = 0;
	for (int which = 0; which < 2; which++) {
		struct bb_lane *lane = &tree->lanes[which];

		if (root == BB_TREES_APART) /* shifted by one rank, inner nodes become leaves */
			lane_prepare(lane, 0, n, rank, bb_wrap(which, n));
		else
			lane_prepare(lane, which, n, rank, root);
		lane->chunks = bb_blocks_of(bb_part_start(count, 2, which),
					    bb_part_count(count, 2, which), tree->chunks);
		tree->window = bb_most(tree->window, bb_block_count(&lane->chunks, 0));
	}
}

/* Elements of TMP for bb_tree_up with a window. */
static size_t tree_window(int n, int rank, int root, size_t count, size_t chunk)
{
	struct bb_tree tree;

	if (rank == root)
		return 0;
	bb_tree_prepare(&tree, n, rank, root, count, chunk);
	if (!tree.lanes[0].children && !tree.lanes[1].children)
		return 0;
	return bb_least(2, tree.chunks) * tree.window;
}

size_t bb_tree_rounds(const struct bb_tree *tree)
{
	return tree->chunks + tree->depth - 1;
}

/* The chunk that is due LAG rounds after the first one started; count 0: none. */
static size_t chunk_at(const struct bb_tree *tree, const struct bb_lane *lane, size_t round,
		       size_t lag, size_t *index, size_t *start)
{
	if (round < lag || round - lag >= tree->chunks)
		return 0;
	*index = round - lag;
	*start = bb_block_start(&lane->chunks, *index);
	return bb_block_count(&lane->chunks, *index);
}

void bb_tree_up(struct bb_writer *w, const struct bb_tree *tree, size_t round, struct bb_place in,
		struct bb_place sum, bool windowed, bool final)
{
	for (int which = 0; which < 2; which++) {
		const struct bb_lane *lane = &tree->lanes[which];
		size_t lag = tree->depth - (size_t)lane->depth, k = 0, start = 0, count;

		if (lane->children) {
			count = chunk_at(tree, lane, round, lag - 1, &k, &start);
			bb_write(w, &(struct bb_step){
					    .kind = BB_RECV_REDUCE,
					    .peer = lane->child[0],
					    .peer2 = lane->child[1],
					    .channel = which,
					    .final = final && lane->parent == BB_NO_PEER,
					    .src = bb_plus(in, start),
					    .dst = bb_plus(sum, windowed ? (k & 1) * tree->window
									 : start),
					    .count = count});
		}
		if (lane->parent == BB_NO_PEER)
			continue;
		count = chunk_at(tree, lane, round, lag, &k, &start);
		if (!lane->children)
			bb_send_on(w, which, lane->parent, bb_plus(in, start), count);
		else
			bb_send_on(w, which, lane->parent,
				   bb_plus(sum, windowed ? (k & 1) * tree->window : start), count);
	}
}

void bb_tree_down(struct bb_writer *w, const struct bb_tree *tree, size_t round,
		  struct bb_place top, struct bb_place out)
{
	for (int which = 0; which < 2; which++) {
		const struct bb_lane *lane = &tree->lanes[which];
		size_t depth = (size_t)lane->depth, k = 0, start = 0, count;

		if (lane->children) {
			count = chunk_at(tree, lane, round, depth, &k, &start);
			for (int c = 0; c < lane->children; c++)
				bb_send_on(w, which, lane->child[c],
					   bb_plus(depth ? out : top, start), count);
		}
		if (depth) {
			count = chunk_at(tree, lane, round, depth - 1, &k, &start);
			bb_recv_on(w, which, lane->parent, bb_plus(out, start), count,
				   !lane->children);
		}
	}
}

/* The root copies its own data from IN to OUT, by chunks of the two halves. */
static void copy_round(struct bb_writer *w, const struct bb_shape *shape,
		       const struct bb_tree *tree, size_t round)
{
	for (int which = 0; which < 2; which++) {
		size_t k = 0, start = 0;
		size_t count = chunk_at(tree, &tree->lanes[which], round, 0, &k, &start);

		bb_copy_over(w, shape, start, count);
	}
}

/* ---- all_reduce ---------------------------------------------------------------------- */

static void all_reduce_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	struct bb_tree *tree = bb_tree_of(role);

	bb_tree_prepare(tree, shape->nranks, rank, BB_TREES_APART, shape->count, shape->chunk);
	bb_role_fill(role, rank, tree->chunks + 2 * tree->depth - 1);
}

static void all_reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	const struct bb_tree *tree = bb_tree_in(role);
	struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);

	bb_tree_up(w, tree, round, in, out, false, false);
	if (round >= tree->depth)
		bb_tree_down(w, tree, round - tree->depth, out, out);
}

const struct bb_algorithm bb_tree_all_reduce = {
	.name = "tree",
	.collective = &bb_all_reduce,
	.meaning = "Two binary trees, below rank 0 and below rank 1, each for one half of the "
		   "data: sums go up chunk by chunk, and complete chunks come down while later "
		   "ones still go up.",
	.prepare = all_reduce_prepare,
	.round = all_reduce_round,
};

/* ---- broadcast, reduce --------------------------------------------------------------- */

static void rooted_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	struct bb_tree *tree = bb_tree_of(role);

	bb_tree_prepare(tree, shape->nranks, rank, shape->root, shape->count, shape->chunk);
	bb_role_fill(role, rank, bb_tree_rounds(tree));
}

static void broadcast_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			    struct bb_writer *w)
{
	bb_tree_down(w, bb_tree_in(role), round, bb_at(BB_IN, 0), bb_at(BB_OUT, 0));
	if (role->rank == shape->root)
		copy_round(w, shape, bb_tree_in(role), round);
}

const struct bb_algorithm bb_tree_broadcast = {
	.name = "tree",
	.collective = &bb_broadcast,
	.meaning = "The root feeds two binary trees of all other ranks, each with one half of the "
		   "data, chunk by chunk; a rank that passes on one half only receives the other.",
	.prepare = rooted_prepare,
	.round = broadcast_round,
};

static size_t reduce_tmp(const struct bb_shape *shape, int rank)
{
	return tree_window(shape->nranks, rank, shape->root, shape->count, shape->chunk);
}

static void reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	bool root = role->rank == shape->root;

	bb_tree_up(w, bb_tree_in(role), round, bb_at(BB_IN, 0), bb_at(root ? BB_OUT : BB_TMP, 0),
		   !root, true);
}

const struct bb_algorithm bb_tree_reduce = {
	.name = "tree",
	.collective = &bb_reduce,
	.meaning =
		"Two binary trees below the root, each for one half of the data: every rank adds "
		"its children's chunks to its own and sends the sum up.",
	.tmp_count = reduce_tmp,
	.prepare = rooted_prepare,
	.round = reduce_round,
};

/* ---- all_gather: binomial gather to rank 0, then broadcast of everything ---------------- */

/* All data passes through rank 0: in blocks on a binomial tree, in chunks on the double tree. */
static void over_root_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	struct bb_tree *tree = bb_tree_of(role);
	int n = shape->nranks;

	bb_tree_prepare(tree, n, rank, 0, shape->count * (size_t)n, shape->chunk);
	bb_role_fill(role, rank, tree->depth + bb_tree_rounds(tree));
}

static void all_gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	const struct bb_tree *tree = bb_tree_in(role);
	struct bb_place out = bb_at(BB_OUT, 0);
	struct bb_binomial up = {.n = shape->nranks,
				 .rank = role->rank,
				 .blocks = bb_blocks_within(0, shape->count, shape->count),
				 .top = out,
				 .own = bb_at(BB_IN, 0),
				 .held = out,
				 .natural = true};

	if (!round && !role->rank && !shape->in_place)
		bb_copy(w, bb_at(BB_IN, 0), out, shape->count, false);
	if (round < tree->depth)
		bb_binomial_gather(w, &up, round);
	else
		bb_tree_down(w, tree, round - tree->depth, out, out);
}

const struct bb_algorithm bb_tree_all_gather = {
	.name = "tree",
	.collective = &bb_all_gather,
	.meaning =
		"Blocks are gathered at rank 0 on a binomial tree; rank 0 then broadcasts all of "
		"them on the double binary tree.",
	.prepare = over_root_prepare,
	.round = all_gather_round,
};

/* ---- reduce_scatter: reduce to rank 0, then binomial scatter ---------------------------- */

static struct bb_binomial scatter_below_zero(const struct bb_shape *shape, int rank)
{
	return (struct bb_binomial){.n = shape->nranks,
				    .rank = rank,
				    .blocks = bb_blocks_within(0, shape->count, shape->count),
				    .top = bb_at(BB_TMP, 0),
				    .own = bb_at(BB_OUT, 0),
				    .held = bb_at(BB_TMP, 0),
				    .final = true};
}

static size_t reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	struct bb_binomial down = scatter_below_zero(shape, rank);
	size_t all = shape->count * (size_t)shape->nranks;

	if (!rank)
		return all;
	return bb_most(tree_window(shape->nranks, rank, 0, all, shape->chunk),
		       bb_binomial_held(&down));
}

static void reduce_scatter_round(const struct bb_shape *shape, const struct bb_role *role,
				 size_t round, struct bb_writer *w)
{
	const struct bb_tree *tree = bb_tree_in(role);
	struct bb_binomial down = scatter_below_zero(shape, role->rank);
	size_t up = bb_tree_rounds(tree);

	if (round < up) {
		bb_tree_up(w, tree, round, bb_at(BB_IN, 0), bb_at(BB_TMP, 0), role->rank != 0,
			   false);
	} else {
		bb_binomial_scatter(w, &down, round - up);
		if (round == up && !role->rank)
			bb_copy(w, bb_at(BB_TMP, 0), bb_at(BB_OUT, 0), shape->count, true);
	}
}

const struct bb_algorithm bb_tree_reduce_scatter = {
	.name = "tree",
	.collective = &bb_reduce_scatter,
	.meaning =
		"Everything is reduced to rank 0 on the double binary tree; rank 0 then scatters "
		"the blocks on a binomial tree.",
	.tmp_count = reduce_scatter_tmp,
	.prepare = over_root_prepare,
	.round = reduce_scatter_round,
};

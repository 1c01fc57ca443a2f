#include "simulator/openmpi/openmpi.h"
#include "core/embed.h"
#include "core/settings.h"
#include "core/units.h"
#include "schedules/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- trees ---------------------------------------------------------------------------- */

/* Those of coll/base (coll_base_topo.c). Ranks are counted from the root. In a round of a
   broadcast, ranks of one level send the whole data to one of their children. */

#define RADIX 4 /* coll_tuned_bcast_knomial_radix */

/* A round of a rank that has the edges to CHILD and PARENT, counted from the root: it sends to
   CHILD or receives from PARENT, BB_NO_PEER: neither. The root copies its own data in round 0. */
static void edge_perform(struct bb_writer *w, size_t round, int child, int parent)
{
	const int root = w->shape->root;
	const struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);

	if (child != BB_NO_PEER && child < w->n)
		bb_send(w, bb_wrap(child + root, w->n), bb_is_root(w) ? in : out, w->shape->count);
	if (parent != BB_NO_PEER)
		bb_recv(w, bb_wrap(parent + root, w->n), out, w->shape->count, false);
	if (bb_is_root(w) && !round)
		bb_copy_own(w, in, out, w->shape->count, true);
}

/* ---- binary: the children of rank v are 2v + 1 and 2v + 2 ----------------------------- */

static size_t binary_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return 2 * (size_t)bb_log2_down(shape->nranks);
}

static void binary_round(struct bb_writer *w, size_t round)
{
	const int self = bb_behind(w->shape, w->rank);
	const int depth = bb_log2_down(self + 1), level = (int)round / 2, side = (int)round % 2;
	const bool receives = depth == level + 1 && (self - 1) % 2 == side;

	edge_perform(w, round, depth == level ? 2 * self + 1 + side : BB_NO_PEER,
		     receives ? (self - 1) / 2 : BB_NO_PEER);
}

const struct bb_algorithm bb_openmpi_binary_broadcast = {
	.name = "binary_tree",
	.collective = &bb_broadcast,
	.meaning = "A binary tree: a rank that has the data sends all of it to two others.",
	.fan = 2,
	.prepare = binary_prepare,
	.round = binary_round,
};

/* ---- 4-nomial: the parent of v has v's lowest digit that is not 0 set to 0 ------------ */

/* Levels: the least number of digits that number N ranks. */
static int digits_of(int n)
{
	return (bb_log2_up(n) + 1) / 2;
}

static size_t knomial_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return (RADIX - 1) * (size_t)digits_of(shape->nranks);
}

static void knomial_round(struct bb_writer *w, size_t round)
{
	const int self = bb_behind(w->shape, w->rank);
	const int level = (int)round / (RADIX - 1), digit = 1 + (int)round % (RADIX - 1);
	const int unit = 1 << 2 * (digits_of(w->n) - 1 - level), low = self % (RADIX * unit);

	edge_perform(w, round, low == 0 ? self + digit * unit : BB_NO_PEER,
		     low == digit * unit ? self - low : BB_NO_PEER);
}

const struct bb_algorithm bb_openmpi_knomial_broadcast = {
	.name = "knomial",
	.collective = &bb_broadcast,
	.meaning = "A 4-nomial tree: every rank that has the data sends all of it to three that "
		   "have not, level by level.",
	.fan = RADIX - 1,
	.prepare = knomial_prepare,
	.round = knomial_round,
};

/* ---- binomial, in order: the parent of v has v's lowest bit set to 0 ------------------ */

/* A rank without a child at distance 1 has none. */
static bool has_child(int self, int n)
{
	return self % 2 == 0 && self + 1 < n;
}

static size_t binomial_tmp(const struct bb_shape *shape, int rank)
{
	const int self = bb_behind(shape, rank);

	return self > 0 && has_child(self, shape->nranks) ? shape->count : 0;
}

static void binomial_round(struct bb_writer *w, size_t round)
{
	const int n = w->n, self = bb_behind(w->shape, w->rank);
	const int bit = 1 << round, low = self % (2 * bit);
	const struct bb_place sum = bb_at(self ? BB_TMP : BB_OUT, 0);
	const struct bb_place from = round > 0 && has_child(self, n) ? sum : bb_at(BB_IN, 0);

	if (low == bit)
		bb_send(w, bb_ahead(w, -bit), from, w->shape->count);
	else if (low == 0 && self + bit < n)
		bb_add(w, bb_ahead(w, bit), from, sum, w->shape->count, !self && 2 * bit >= n);
}

const struct bb_algorithm bb_openmpi_binomial_reduce = {
	.name = "binomial",
	.collective = &bb_reduce,
	.meaning = "A binomial tree whose near ranks add first: in round k, ranks 2^k apart.",
	.tmp_count = binomial_tmp,
	.prepare = bb_prepare_log,
	.round = binomial_round,
};

/* ---- neighbor exchange ---------------------------------------------------------------- */

/* coll_base_allgather.c, for an even number of ranks: pairs of neighbours swap their blocks, then
   each rank passes the pair of blocks that it received last to its neighbours on both sides in
   turn. */

static const char *neighbor_refuses(const struct bb_shape *shape)
{
	return shape->nranks % 2 ? "the number of ranks is odd" : NULL;
}

static size_t neighbor_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return (size_t)shape->nranks / 2;
}

/* The first of the two blocks that RANK, in ROUND, passes on in the next one. */
static int held_after(int n, int rank, int round)
{
	const int pair = rank - rank % 2, times = round / 2 + round % 2;
	/* Even ranks receive from the right in even rounds, odd ranks in odd rounds. */
	const int away = (round % 2 == rank % 2 ? 2 : -2) * times;

	return ((pair + away) % n + n) % n;
}

static void neighbor_round(struct bb_writer *w, size_t round)
{
	const int n = w->n, rank = w->rank, at = (int)round;
	const int peer = bb_ahead(w, at % 2 == rank % 2 ? 1 : -1);
	const bool last = 2 * (at + 1) == n;
	const struct bb_blocks blocks = bb_blocks_equal(w->shape);
	const struct bb_place in = bb_at(BB_IN, 0);
	const size_t count = at == 0 ? w->shape->count : 2 * w->shape->count;

	if (at == 0)
		bb_copy_own(w, in, bb_block_at(BB_OUT, &blocks, rank), count, last);
	bb_send(w, peer, at == 0 ? in : bb_block_at(BB_OUT, &blocks, held_after(n, rank, at - 1)),
		count);
	bb_recv(w, peer, bb_block_at(BB_OUT, &blocks, at == 0 ? peer : held_after(n, rank, at)),
		count, last);
}

const struct bb_algorithm bb_openmpi_neighbor = {
	.name = "neighbor",
	.collective = &bb_all_gather,
	.meaning = "Neighbours swap blocks, then pass on pairs of blocks to both sides in turn.",
	.refuses = neighbor_refuses,
	.prepare = neighbor_prepare,
	.round = neighbor_round,
};

/* ---- recursive halving and doubling --------------------------------------------------- */

/* coll_base_allreduce.c, redscat_allgather: near partners swap the longest parts. Beyond a power of
   two P, each even rank of the first 2 (n - P) adds half of the data for its odd neighbour, which
   then stands for both. */

/* Rounds are: two of neighbours (where REST > 0), halving, doubling, one of neighbours. */
struct plan {
	struct bb_power power;
	int virtual; /* VIRTUAL is the rank among P; -1: its neighbour stands for it */
	bool is_neighbour;
	size_t count;
	enum bb_buffer sum;
};

static struct plan plan_of(const struct bb_writer *w)
{
	struct plan p = {.power = bb_power_of(w->n), .count = w->shape->count, .sum = BB_OUT};

	p.is_neighbour = w->rank < 2 * p.power.rest;
	p.virtual = !p.is_neighbour ? w->rank - p.power.rest : w->rank % 2 ? w->rank / 2 : -1;
	return p;
}

static size_t rabenseifner_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const struct bb_power power = bb_power_of(shape->nranks);

	return 2 * (size_t)power.levels + 3 * (size_t)(power.rest > 0);
}

/* What Open MPI allocates, which counts for caches; the steps need none. */
static size_t rabenseifner_tmp(const struct bb_shape *shape, int rank)
{
	return shape->count;
}

/* The neighbours' sum of its left half by the even rank, of its right half by the odd one. */
static void neighbours_add(struct bb_writer *w, const struct plan *p)
{
	const size_t left = p->count / 2, right = p->count - left;
	const bool odd = w->rank % 2;
	const size_t mine = odd ? left : 0, theirs = odd ? 0 : left;

	bb_send(w, w->rank ^ 1, bb_at(BB_IN, theirs), odd ? left : right);
	bb_add(w, w->rank ^ 1, bb_at(BB_IN, mine), bb_at(BB_OUT, mine), odd ? right : left, false);
}

/* COUNT elements of OUT from the even neighbour to the odd one, or (BACK) the other way. */
static void neighbours_pass(struct bb_writer *w, const struct plan *p, size_t count, bool back)
{
	if (w->rank % 2 == back)
		bb_send(w, w->rank ^ 1, bb_at(BB_OUT, 0), count);
	else
		bb_recv(w, w->rank ^ 1, bb_at(BB_OUT, 0), count, back);
}

/* The parts that RANK and its partner at distance 2^LEVEL swap when halving. */
struct halves {
	size_t start, count; /* kept and added to */
	size_t other, given; /* sent */
};

static struct halves halves_of(const struct plan *p, int level)
{
	struct halves h = {0, p->count, 0, 0};

	for (int i = 0; i <= level; i++) {
		const bool upper = p->virtual >> i & 1;
		const size_t left = h.count / 2, right = h.count - left;

		h.other = upper ? h.start : h.start + left;
		h.given = upper ? left : right;
		h.start += upper ? left : 0;
		h.count = upper ? right : left;
	}
	return h;
}

static int peer_of(const struct plan *p, int level)
{
	const int partner = p->virtual ^ (1 << level);

	return partner < p->power.rest ? 2 * partner + 1 : partner + p->power.rest;
}

static void halve(struct bb_writer *w, const struct plan *p, int level)
{
	const struct halves h = halves_of(p, level);
	const enum bb_buffer from = level > 0 || p->is_neighbour ? p->sum : BB_IN;

	bb_send(w, peer_of(p, level), bb_at(from, h.other), h.given);
	bb_add(w, peer_of(p, level), bb_at(from, h.start), bb_at(p->sum, h.start), h.count, false);
}

static void rabenseifner_round(struct bb_writer *w, size_t round)
{
	const struct plan p = plan_of(w);
	const int levels = p.power.levels, at = (int)round - 2 * (p.power.rest > 0);

	if (at == -2 && p.is_neighbour)
		neighbours_add(w, &p);
	else if (at == -1 && p.is_neighbour)
		neighbours_pass(w, &p, p.count / 2, false);
	else if (at == 2 * levels && p.is_neighbour)
		neighbours_pass(w, &p, p.count, true);
	else if (at >= 0 && at < levels && p.virtual >= 0)
		halve(w, &p, at);
	else if (at >= levels && at < 2 * levels && p.virtual >= 0) {
		const int level = 2 * levels - 1 - at;
		const struct halves h = halves_of(&p, level);

		bb_send(w, peer_of(&p, level), bb_at(BB_OUT, h.start), h.count);
		bb_recv(w, peer_of(&p, level), bb_at(BB_OUT, h.other), h.given,
			level == 0 && !p.is_neighbour);
	}
}

const struct bb_algorithm bb_openmpi_rabenseifner = {
	.name = "rabenseifner",
	.collective = &bb_all_reduce,
	.meaning = "Recursive halving, then doubling: near partners swap the longest parts.",
	.tmp_count = rabenseifner_tmp,
	.prepare = rabenseifner_prepare,
	.round = rabenseifner_round,
};

/* ---- reduce_scatter among a power of two ranks ---------------------------------------- */

static const char *butterfly_refuses(const struct bb_shape *shape)
{
	return bb_power_of(shape->nranks).rest > 0 ? "the number of ranks is no power of two"
						   : NULL;
}

static size_t butterfly_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return (size_t)bb_power_of(shape->nranks).levels + 1;
}

static size_t butterfly_tmp(const struct bb_shape *shape, int rank)
{
	return shape->count * (size_t)shape->nranks;
}

/* Halving leaves the block whose number has the rank's bits in reverse order. */
static int mirror(int rank, int levels)
{
	int mirrored = 0;

	for (int i = 0; i < levels; i++)
		mirrored |= (rank >> i & 1) << (levels - 1 - i);
	return mirrored;
}

static void butterfly_round(struct bb_writer *w, size_t round)
{
	const int levels = bb_power_of(w->n).levels, other = mirror(w->rank, levels);
	const struct bb_blocks blocks = bb_blocks_equal(w->shape);
	const struct bb_place held = bb_block_at(BB_TMP, &blocks, other), out = bb_at(BB_OUT, 0);
	struct plan p = plan_of(w);

	p.sum = BB_TMP;
	p.count *= (size_t)w->n;
	if ((int)round < levels) {
		halve(w, &p, (int)round);
	} else if (other == w->rank) {
		bb_copy(w, held, out, w->shape->count, true);
	} else {
		bb_send(w, other, held, w->shape->count);
		bb_recv(w, other, out, w->shape->count, true);
	}
}

const struct bb_algorithm bb_openmpi_butterfly = {
	.name = "butterfly",
	.collective = &bb_reduce_scatter,
	.meaning =
		"Recursive halving with near partners first; then each rank swaps the block that "
		"it holds for its own.",
	.refuses = butterfly_refuses,
	.tmp_count = butterfly_tmp,
	.prepare = butterfly_prepare,
	.round = butterfly_round,
};

BB_EMBED(bb_openmpi_data, "src/simulator/openmpi/openmpi.txt");

/* ---- rules ---------------------------------------------------------------------------- */

/* Copy the value of SECTION's first key above NUMBER to VALUE; false: there is no such section. */
static bool find_line(const char *section, int64_t number, char value[BB_SETTING_LINE])
{
	struct bb_settings s = {.name = "openmpi.txt", .rest = bb_openmpi_data, .section = section};
	struct bb_error ignored = {.text = ""};
	int64_t below;
	bool more = true;

	while (bb_settings_next(&s, &more, &ignored) == BB_OK && more)
		/* The last key is not a number. */
		if (!bb_parse_int(s.key, &below) || number < below) {
			snprintf(value, BB_SETTING_LINE, "%s", s.value);
			return true;
		}
	return false;
}

/* Set NAME to the algorithm of SECTION among N ranks, of the first rule NAME BYTES NAME … that
   holds for BYTES; false: there is no such section. */
static bool find_rule(const char *section, int n, size_t bytes, char name[32])
{
	char line[BB_SETTING_LINE], *rule = line;
	unsigned long long below;
	int length;

	if (!find_line(section, n, line))
		return false;
	while (sscanf(rule, "%31s%n", name, &length) == 1) {
		rule += length;
		if (sscanf(rule, "%llu%n", &below, &length) != 1 || bytes < below)
			break;
		rule += length;
	}
	return true;
}

void bb_openmpi_interval(double bytes, double *low, double *high)
{
	char ends[BB_SETTING_LINE] = "";

	*low = *high = NAN;
	if (find_line("interval", (int64_t)bytes, ends))
		sscanf(ends, "%lf %lf", low, high);
}

/* ---- algorithms as schedules ---------------------------------------------------------- */

static const struct way {
	const struct bb_collective *collective;
	const char *name; /* in Open MPI */
	const struct bb_algorithm *schedule;
	/* Instead of a schedule: collectives that follow each other, as the rules choose them. */
	const struct bb_collective *parts[BB_OPENMPI_PHASES];
	bool copies; /* IN to OUT first, and then works on OUT */
} ways[] = {
	{&bb_all_reduce, "basic_linear", &bb_linear_all_reduce, {NULL}, false},
	{&bb_all_reduce, "nonoverlapping", NULL, {&bb_reduce, &bb_broadcast}, false},
	{&bb_all_reduce, "recursive_doubling", &bb_doubling_all_reduce, {NULL}, true},
	{&bb_all_reduce, "ring", &bb_ring_all_reduce, {NULL}, true},
	{&bb_all_reduce, "rabenseifner", &bb_openmpi_rabenseifner, {NULL}, true},
	{&bb_all_gather, "two_proc", &bb_pairwise_all_gather, {NULL}, false},
	{&bb_all_gather, "recursive_doubling", &bb_doubling_all_gather, {NULL}, false},
	{&bb_all_gather, "bruck", &bb_bruck_all_gather, {NULL}, false},
	{&bb_all_gather, "neighbor", &bb_openmpi_neighbor, {NULL}, false},
	{&bb_all_gather, "ring", &bb_ring_all_gather, {NULL}, false},
	{&bb_reduce_scatter, "basic_linear", NULL, {&bb_reduce, &bb_scatter}, false},
	{&bb_reduce_scatter, "recursive_halving", &bb_halving_reduce_scatter, {NULL}, false},
	{&bb_reduce_scatter, "butterfly", &bb_openmpi_butterfly, {NULL}, false},
	{&bb_broadcast, "basic_linear", &bb_linear_broadcast, {NULL}, false},
	{&bb_broadcast, "pipeline", &bb_ring_broadcast, {NULL}, false},
	{&bb_broadcast, "binary_tree", &bb_openmpi_binary_broadcast, {NULL}, false},
	{&bb_broadcast, "binomial", &bb_doubling_broadcast, {NULL}, false},
	{&bb_broadcast, "knomial", &bb_openmpi_knomial_broadcast, {NULL}, false},
	{&bb_reduce, "linear", &bb_linear_reduce, {NULL}, false},
	{&bb_reduce, "pipeline", &bb_ring_reduce, {NULL}, false},
	{&bb_reduce, "binomial", &bb_openmpi_binomial_reduce, {NULL}, false},
	{&bb_gather, "basic_linear", &bb_linear_gather, {NULL}, false},
	{&bb_gather, "binomial", &bb_tree_gather, {NULL}, false},
	{&bb_scatter, "basic_linear", &bb_linear_scatter, {NULL}, false},
	{&bb_scatter, "linear_nb", &bb_linear_scatter, {NULL}, false},
	{&bb_scatter, "binomial", &bb_tree_scatter, {NULL}, false},
	{&bb_alltoall, "two_proc", &bb_pairwise_alltoall, {NULL}, false},
	{&bb_alltoall, "pairwise", &bb_pairwise_alltoall, {NULL}, false},
	{&bb_alltoall, "modified_bruck", &bb_bruck_alltoall, {NULL}, false},
	/* Without a limit to requests linear_sync posts all at once, as linear does. */
	{&bb_alltoall, "linear", &bb_naive_alltoall, {NULL}, false},
	{&bb_alltoall, "linear_sync", &bb_naive_alltoall, {NULL}, false},
	{&bb_alltoallv, "basic_linear", &bb_naive_alltoallv, {NULL}, false},
	{&bb_alltoallv, "pairwise", &bb_pairwise_alltoallv, {NULL}, false},
	{&bb_sendrecv, "MPI_Sendrecv", &bb_ring_sendrecv, {NULL}, false},
};

/* What Open MPI runs in place of NAME, which does not fit SHAPE; NAME if it fits. */
static const char *fallback_of(const struct bb_collective *collective, const char *name,
			       const struct bb_shape *shape)
{
	const struct bb_power ranks = bb_power_of(shape->nranks);

	/* Without a length of segments it is the ring. */
	if (strcmp(name, "segmented_ring") == 0)
		name = "ring";
	if (collective == &bb_all_reduce && strcmp(name, "ring") == 0)
		return shape->count < (size_t)shape->nranks ? "recursive_doubling" : name;
	if (collective == &bb_all_reduce && strcmp(name, "rabenseifner") == 0)
		return shape->count < (size_t)ranks.power ? "basic_linear" : name;
	if (collective == &bb_all_gather && strcmp(name, "recursive_doubling") == 0)
		return ranks.rest > 0 ? "bruck" : name;
	if (collective == &bb_all_gather && strcmp(name, "neighbor") == 0)
		return shape->nranks % 2 ? "ring" : name;
	return name;
}

/* ---- plans ---------------------------------------------------------------------------- */

static const char *add_phase(struct bb_openmpi_plan *plan, const struct bb_collective *collective,
			     const struct bb_shape *shape, size_t element, const char *name)
{
	const struct way *way = ways, *end = ways + sizeof(ways) / sizeof(ways[0]);
	const char *why = NULL;

	name = fallback_of(collective, name, shape);
	while (way < end && (way->collective != collective || strcmp(way->name, name) != 0))
		way++;
	if (way == end ||
	    (way->schedule && way->schedule->refuses && way->schedule->refuses(shape)))
		return "Open MPI's algorithm for this size and number of ranks has no model";
	plan->copies = way->copies && !shape->in_place;
	if (way->schedule) {
		plan->phase[plan->phases].schedule = way->schedule;
		plan->phase[plan->phases++].shape = *shape;
		return NULL;
	}
	for (int i = 0; i < BB_OPENMPI_PHASES && !why; i++) {
		const struct bb_collective *part = way->parts[i];
		struct bb_shape whole = *shape;
		char chosen[32];

		whole.root = 0;
		whole.in_place = false;
		if (collective == &bb_reduce_scatter && part == &bb_reduce)
			whole.count *= (size_t)shape->nranks;
		find_rule(part->name, shape->nranks, whole.count * element, chosen);
		why = add_phase(plan, part, &whole, element, chosen);
	}
	return why;
}

const char *bb_openmpi_choose(const struct bb_collective *collective, const struct bb_shape *shape,
			      size_t element, enum bb_openmpi_call call,
			      struct bb_openmpi_plan *plan)
{
	const bool nonblocking = call == BB_OPENMPI_NONBLOCKING;
	const size_t count =
		collective == &bb_alltoall ? bb_alltoall_count(shape, 0, 1) : shape->count;
	struct bb_shape whole = *shape;
	char section[64];

	*plan = (struct bb_openmpi_plan){.name = "MPI_Sendrecv"};
	whole.chunk = 0;
	snprintf(section, sizeof(section), "%s%s", collective->name,
		 nonblocking ? " nonblocking" : "");
	if (!find_rule(section, shape->nranks, count * element, plan->name) &&
	    (nonblocking || collective != &bb_sendrecv))
		return nonblocking ? "coll/libnbc has a model for all_reduce and broadcast alone"
				   : "Open MPI has no such collective";
	/* A binomial tree up, and one down. */
	if (strcmp(plan->name, "dissemination") == 0) {
		plan->phases = 2;
		plan->phase[0].schedule = &bb_openmpi_binomial_reduce;
		plan->phase[1].schedule = &bb_doubling_broadcast;
		plan->phase[0].shape = plan->phase[1].shape = whole;
		return NULL;
	}
	return add_phase(plan, collective, &whole, element, plan->name);
}

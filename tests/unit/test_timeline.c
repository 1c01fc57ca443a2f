/*
 * Virtual time of collectives: against closed forms (Thakur et al. 2005, Sanders et al. 2009) and
 * against lower bounds that no schedule can pass; and the choices that it makes.
 */
#include "simulator/timeline/timeline.h"
#include "links.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 17

/* ---- collectives --------------------------------------------------------------------- */

static void sweep(const struct bb_link_model *l, const struct bb_algorithm *schedule,
		  const struct bb_shape *shape, double *times)
{
	assert_int_equal(bb_timeline_collective(l, schedule, shape, 4, 0, times), BB_OK);
}

/* When the last rank is done that began at 0 with all others. */
static double latest(const struct bb_algorithm *schedule, const struct bb_shape *shape)
{
	double times[MOST] = {0}, last = 0;

	sweep(&links, schedule, shape, times);
	for (int rank = 0; rank < shape->nranks; rank++)
		last = fmax(last, times[rank]);
	return last;
}

/* N, S and L as those of ring_of_all. */
static double ring_of_blocks(double n, double s, double l)
{
	return (n - 1) * (ALPHA + s);
}

static double doubling_of_all(double n, double s, double l)
{
	return l * (ALPHA + s);
}

/* A binomial tree whose links are all its own: a rank is as many hops away as it has bits set. */
static double binomial(double n, double s, double l)
{
	int most = 0;

	for (int rank = 0; rank < (int)n; rank++)
		most = (int)fmax(most, __builtin_popcount((unsigned)rank));
	return most * (ALPHA + s);
}

static double doubling_of_blocks(double n, double s, double l)
{
	return l * ALPHA + (n - 1) * s;
}

static double halving_and_doubling(double n, double s, double l)
{
	return 2 * (l * ALPHA + (n - 1) / n * s);
}

static double chain(double n, double s, double l)
{
	return (n - 1) * (ALPHA + s);
}

/* The root has a link to each rank. */
static double at_once(double n, double s, double l)
{
	return ALPHA + s;
}

static double bruck_to_all(double n, double s, double l)
{
	return l * (ALPHA + n / 2 * s);
}

static double exchange(double n, double s, double l)
{
	return n > 1 ? ALPHA + s : 0;
}

static const struct form {
	const struct bb_collective *collective;
	const char *algorithm;
	bool powers; /* of two only */
	double (*seconds)(double n, double s, double l);
} forms[] = {
	{&bb_all_reduce, "ring", false, ring_of_all},
	{&bb_all_reduce, "recursive_doubling", true, doubling_of_all},
	{&bb_all_reduce, "halving_doubling", true, halving_and_doubling},
	{&bb_all_gather, "ring", false, ring_of_blocks},
	{&bb_all_gather, "recursive_doubling", true, doubling_of_blocks},
	{&bb_all_gather, "bruck", false, doubling_of_blocks},
	{&bb_all_gather, "pairwise", false, ring_of_blocks},
	{&bb_reduce_scatter, "ring", false, ring_of_blocks},
	{&bb_reduce_scatter, "pairwise", false, ring_of_blocks},
	{&bb_reduce_scatter, "halving_doubling", true, doubling_of_blocks},
	{&bb_broadcast, "ring", false, chain},
	{&bb_broadcast, "recursive_doubling", false, binomial},
	{&bb_broadcast, "linear", false, at_once},
	{&bb_reduce, "ring", false, chain},
	{&bb_reduce, "recursive_doubling", false, binomial},
	{&bb_reduce, "linear", false, at_once},
	{&bb_gather, "linear", false, at_once},
	{&bb_gather, "tree", true, doubling_of_blocks},
	{&bb_scatter, "linear", false, at_once},
	{&bb_scatter, "tree", true, doubling_of_blocks},
	{&bb_alltoall, "pairwise", false, ring_of_blocks},
	{&bb_alltoall, "bruck", true, bruck_to_all},
	{&bb_sendrecv, "ring", false, exchange},
};

static void test_closed_forms(void **state)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct form *f = &forms[i];
		const struct bb_algorithm *a = bb_algorithm_find(f->collective, f->algorithm);

		assert_non_null(a);
		for (int n = 2; n <= MOST; n++) {
			const struct bb_shape shape = {.nranks = n, .count = 12252240};
			const double want = f->seconds(n, FLOATS(shape.count), ceil(log2(n)));
			const double got = latest(a, &shape);

			if (f->powers && (n & (n - 1)))
				continue;
			if (!(fabs(got - want) <= 1e-12 * want))
				fail_msg("%s by %s, %d ranks: %.12g instead of %.12g",
					 f->collective->name, f->algorithm, n, got, want);
		}
	}
}

/* Chunks follow each other without a gap: only the first one feels how far the way is. */
static void test_pipelined_chain(void **state)
{
	const struct bb_algorithm *ring = bb_algorithm_find(&bb_broadcast, "ring");

	for (size_t chunks = 1; chunks <= 64; chunks *= 4)
		for (int n = 2; n <= MOST; n++) {
			const struct bb_shape shape = {
				.nranks = n, .count = 1 << 20, .chunk = (1 << 20) / chunks};
			const double c = FLOATS(shape.chunk);

			near(latest(ring, &shape),
			     (n - 1) * (ALPHA + c) + ((double)chunks - 1) * c);
		}
}

static void fill_matrix(size_t *matrix, struct bb_shape *shape)
{
	bb_alltoallv_matrix(matrix, shape->nranks, shape->count, 0.5);
	shape->matrix = matrix;
}

/* What must reach RANK from others, in elements. */
static double from_others(const struct bb_collective *collective, const struct bb_shape *shape,
			  int rank)
{
	double sum = 0;

	for (int k = 0; k < bb_collective_segments(collective, shape, rank); k++) {
		const struct bb_segment segment = bb_collective_segment(collective, shape, rank, k);

		if (segment.source != rank)
			sum += (double)segment.count;
	}
	return sum;
}

/* All that a rank must receive comes over n - 1 links, and what comes at all takes a latency. */
static double bound(const struct bb_collective *collective, const struct bb_shape *shape)
{
	double most = 0;

	for (int rank = 0; rank < shape->nranks; rank++)
		most = fmax(most, from_others(collective, shape, rank));
	return most > 0 ? ALPHA + FLOATS(most) / (shape->nranks - 1) : 0;
}

static void test_bounds(void **state)
{
	static const size_t counts[] = {0, 1, 5, 1000, 100003};
	size_t matrix[MOST * MOST];

	for (int a = 0; bb_algorithms[a]; a++)
		for (int n = 2; n <= MOST; n++)
			for (int i = 0; i < 10; i++) {
				const struct bb_collective *c = bb_algorithms[a]->collective;
				struct bb_shape shape = {.nranks = n,
							 .count = counts[i / 2],
							 .chunk = i % 2 ? 700 : 0};
				double least;

				if (c->refuses && c->refuses(n))
					continue;
				if (c->flags & BB_VARIABLE)
					fill_matrix(matrix, &shape);
				if (bb_algorithms[a]->refuses && bb_algorithms[a]->refuses(&shape))
					continue;
				least = bound(c, &shape);
				if (latest(bb_algorithms[a], &shape) < least * (1 - 1e-9))
					fail_msg("%s by %s, %d ranks, %zu: faster than possible",
						 c->name, bb_algorithms[a]->name, n, shape.count);
			}
}

/* Later arrivals: each rank is done when what it needs is there, not before, not after. */
static void test_arrivals(void **state)
{
	const struct bb_shape shape = {.nranks = 3, .count = 25000}; /* 4 us */
	double root_late[3] = {1e-3, 0, 0}, leaf_late[3] = {0, 0, 1e-3};
	const struct bb_algorithm *linear = bb_algorithm_find(&bb_broadcast, "linear");

	sweep(&links, linear, &shape, root_late);
	for (int rank = 0; rank < 3; rank++)
		near(root_late[rank], 1e-3 + 9e-6);
	sweep(&links, linear, &shape, leaf_late);
	near(leaf_late[0], 1e-3); /* what it sent has been taken */
	near(leaf_late[1], 9e-6);
	near(leaf_late[2], 1e-3);
}

static void test_noise(void **state)
{
	const struct bb_shape shape = {.nranks = 8, .count = 1 << 20};
	const struct bb_algorithm *ring = bb_algorithm_find(&bb_all_reduce, "ring");
	const struct bb_link_model
		noisy = {.rate = RATE, .latency = ALPHA, .noise = 0.05, .seed = 7},
		other = {.rate = RATE, .latency = ALPHA, .noise = 0.05, .seed = 8};
	double a[8] = {0}, b[8] = {0}, c[8] = {0}, d[8] = {0};
	const double quiet = latest(ring, &shape);

	sweep(&noisy, ring, &shape, a);
	sweep(&noisy, ring, &shape, b);
	sweep(&other, ring, &shape, c);
	assert_int_equal(bb_timeline_collective(&noisy, ring, &shape, 4, 1, d), BB_OK);
	assert_memory_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, c, sizeof(a));
	assert_memory_not_equal(a, d, sizeof(a));
	/* The slowest of many waits adds up, but by no more than the noise is. */
	assert_true(a[0] > quiet && a[0] < 1.2 * quiet);
}

/* ---- the choice ---------------------------------------------------------------------- */

static const struct bb_algorithm *choose(const char *name, struct bb_shape *shape)
{
	struct bb_error error = {0};
	const struct bb_algorithm *a =
		bb_timeline_choose(&links, name, &bb_broadcast, shape, 4, &error);

	if (!a)
		fail_msg("%s", error.text);
	return a;
}

static void test_choice(void **state)
{
	struct bb_shape shape = {.nranks = 8, .count = 1 << 24}, trial = shape;
	const struct bb_algorithm *best = choose(NULL, &shape);
	const double least = latest(best, &shape);

	for (int i = 0; bb_algorithms[i]; i++)
		if (bb_algorithms[i]->collective == &bb_broadcast)
			for (trial.chunk = 1 << 24; trial.chunk > 1 << 10; trial.chunk /= 2)
				assert_true(latest(bb_algorithms[i], &trial) >= 0.98 * least);
}

static void test_best_chunk(void **state)
{
	struct bb_shape shape = {.nranks = 8, .count = 1 << 24}, trial = shape;
	const struct bb_algorithm *ring = choose("ring", &shape);
	const double least = latest(ring, &shape);

	assert_string_equal(ring->name, "ring");
	assert_true(shape.chunk > 0);
	assert_true(least < 0.2 * 7 * (ALPHA + FLOATS(shape.count)));
	for (trial.chunk = 1 << 24; trial.chunk > 1 << 10; trial.chunk /= 2)
		assert_true(latest(ring, &trial) >= 0.98 * least);
}

static void test_no_choice(void **state)
{
	struct bb_shape shape = {.nranks = 8, .count = 8};
	struct bb_error error = {0}, other = {0};

	assert_null(bb_timeline_choose(&links, "rng", &bb_broadcast, &shape, 4, &error));
	assert_int_equal(bb_error_status(&error), BB_EUNSUPPORTED);
	assert_non_null(strstr(error.text, "broadcast has no schedule rng; it has ring, tree"));
	shape.nranks = 6;
	assert_null(bb_timeline_choose(&links, NULL, &bb_hypercube, &shape, 4, &other));
	assert_int_equal(bb_error_status(&other), BB_EUNSUPPORTED);
	assert_non_null(strstr(other.text, "hypercube among 6 ranks: "));
}

static void test_kept_choices(void **state)
{
	struct bb_shape shape = {.nranks = 8, .count = 1 << 24}, other = shape, again = shape;
	struct bb_choices choices = {0};
	const struct bb_link_model keeping = {.rate = RATE, .latency = ALPHA, .choices = &choices};
	const struct bb_algorithm *ring = bb_algorithm_find(&bb_broadcast, "ring");
	struct bb_error e = {0};

	other.count = 1 << 10;
	assert_ptr_equal(bb_timeline_choose(&keeping, "ring", &bb_broadcast, &shape, 4, &e), ring);
	assert_ptr_equal(bb_timeline_choose(&keeping, "ring", &bb_broadcast, &other, 4, &e), ring);
	assert_ptr_equal(bb_timeline_choose(&keeping, "ring", &bb_broadcast, &again, 4, &e), ring);
	assert_int_equal(again.chunk, shape.chunk);
	assert_int_not_equal(other.chunk, shape.chunk);
	assert_int_equal(choices.n, 2);
	assert_non_null(bb_timeline_choose(&keeping, NULL, &bb_broadcast, &again, 4, &e));
	assert_int_equal(choices.n, 3);
	bb_choices_free(&choices);
}

/* Two ranks that share NVSwitches, and two that do not: neither gets the other's choice. */
static void test_choices_of_domains(void **state)
{
	const struct bb_fabric_pair self = {0, 0, BB_CLUSTER_SELF};
	const int rail = 0, together[] = {0, 1}, apart[] = {1, 2};
	const struct bb_fabric fabric = {.nodes = 4,
					 .per_node = 1,
					 .domain = 2,
					 .leaf = 4,
					 .pod = 4,
					 .rails = 1,
					 .rail_of = &rail,
					 .pairs = &self,
					 .domain_second_per_byte = 1e-12,
					 .domain_latency = 1e-6,
					 .rail_second_per_byte = 1e-9,
					 .latency = {1e-6, 2e-6, 3e-6},
					 .leaf_taper = 1,
					 .pod_taper = 1};
	struct bb_choices choices = {0};
	struct bb_link_model placed = {.fabric = &fabric, .members = together, .choices = &choices};
	struct bb_shape shape = {.nranks = 2, .count = 4096}, again = shape;
	struct bb_error e = {0};

	assert_non_null(bb_timeline_choose(&placed, "ring", &bb_broadcast, &shape, 4, &e));
	placed.members = apart;
	assert_non_null(bb_timeline_choose(&placed, "ring", &bb_broadcast, &again, 4, &e));
	assert_int_equal(choices.n, 2);
	bb_choices_free(&choices);
}

static bool count_steps(void *own, const struct bb_algorithm *schedule, size_t done, size_t all)
{
	++*(int *)own;
	return true;
}

/* A collective is evaluated once for all that begin together; any other one is evaluated anew, with
   the same result as without what is kept. */
static void test_kept_times(void **state)
{
	static const struct {
		double start, late, noise; /* LATE: of member 2 */
		uint64_t count;
		bool kept;
	} calls[] = {{0, 0, 0, 4096, false},    {0, 0, 0, 4096, true},    {3, 0, 0, 4096, true},
		     {3, 1e-3, 0, 4096, false}, {3, 0, 0, 1024, false},   {5, 0, 0, 1024, true},
		     {0, 0, 0.1, 4096, false},  {0, 0, 0.1, 4096, false}, {7, 1e-3, 0, 1024, false},
		     {7, 0, 0, 4096, true}};
	struct bb_choices choices = {0};
	struct bb_error e = {0};
	int steps = 0;

	for (size_t c = 0; c < sizeof(calls) / sizeof(*calls); c++) {
		const struct bb_timeline_pace pace = {count_steps, &steps};
		struct bb_link_model keeping = {.rate = RATE,
						.latency = ALPHA,
						.noise = calls[c].noise,
						.choices = &choices,
						.pace = &pace};
		struct bb_shape shape = {.nranks = 6, .count = calls[c].count};
		const struct bb_algorithm *tree =
			bb_timeline_choose(&keeping, "tree", &bb_broadcast, &shape, 4, &e);
		double known[6], anew[6];
		int before;

		assert_non_null(tree);
		for (int i = 0; i < 6; i++)
			known[i] = anew[i] = calls[c].start + (i == 2 ? calls[c].late : 0);
		before = steps;
		assert_int_equal(bb_timeline_collective_known(&keeping, tree, &shape, 4, c, known),
				 BB_OK);
		assert_int_equal(steps == before, calls[c].kept);
		assert_int_equal(bb_timeline_collective(&keeping, tree, &shape, 4, c, anew), BB_OK);
		for (int i = 0; i < 6; i++)
			assert_true(fabs(known[i] - anew[i]) < 1e-14 * (1 + calls[c].start));
	}
	bb_choices_free(&choices);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_pipelined_chain),
		cmocka_unit_test(test_bounds),       cmocka_unit_test(test_arrivals),
		cmocka_unit_test(test_noise),        cmocka_unit_test(test_choice),
		cmocka_unit_test(test_best_chunk),   cmocka_unit_test(test_no_choice),
		cmocka_unit_test(test_kept_choices), cmocka_unit_test(test_choices_of_domains),
		cmocka_unit_test(test_kept_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

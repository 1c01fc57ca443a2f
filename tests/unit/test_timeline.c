/*
 * Virtual time against closed forms: of collectives (Thakur et al. 2005, Sanders et al. 2009), of
 * training steps, and against lower bounds that no schedule can pass.
 */
#include "schedules/timeline.h"
#include "script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 17
#define ALPHA 5e-6
#define RATE 25e9
#define FLOATS(count) ((double)(count)*4 / RATE)

static const struct bb_link_model links = {.rate = RATE, .latency = ALPHA};

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1e-3, fabs(want))))
		fail_msg("%.17g instead of %.17g", got, want);
}

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

/* N ranks; S: time that a call's count takes over a link; L: log2 n, rounded up. */
static double ring_of_all(double n, double s, double l)
{
	return 2 * (n - 1) * (ALPHA + s / n);
}

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
			if (fabs(got - want) > 1e-12 * want)
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

	for (int k = 0; k < collective->segments(shape, rank); k++) {
		struct bb_segment segment;

		collective->segment(shape, rank, k, &segment);
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

/* ---- programs ------------------------------------------------------------------------ */

/* What a watch heard. */
struct heard {
	int n;
	double last; /* end */
	int sources[64];
	int nsources;
	double digest;
};

static void hear(void *own, int rank, size_t index, const struct bb_operation *operation,
		 double from, double to, int source)
{
	struct heard *h = own;

	assert_true(to >= h->last && from <= to);
	h->last = to;
	h->n++;
	h->digest = h->digest * 1.000001 + to * (rank + 1) + (double)index;
	if (operation->act == BB_ACT_RECV_ANY)
		h->sources[h->nsources++] = source;
}

/* The end of the program, which is checked, played, and closed. */
static double play(const struct bb_link_model *l, struct script *s, struct heard *heard)
{
	struct heard mine = {0};
	struct bb_timeline_watch watch = {hear, heard ? heard : &mine};
	struct bb_error error = {0};
	size_t all = 0;
	double end, unwatched;

	if (bb_program_check(&s->program, &error) != BB_OK ||
	    bb_timeline_program(l, &s->program, &watch, &end, &error) != BB_OK ||
	    bb_timeline_program(l, &s->program, NULL, &unwatched, &error) != BB_OK)
		fail_msg("%s", error.text);
	for (int rank = 0; rank < s->program.nranks; rank++)
		all += s->lengths[rank];
	assert_int_equal(((struct heard *)watch.own)->n, all);
	assert_true(end == unwatched && end == ((struct heard *)watch.own)->last);
	script_close(s);
	return end;
}

/* Backward passes of unequal length on queue 0, the bucket of each is reduced on queue 1. */
static void open_ddp(struct script *s, int nranks, int buckets, const double *seconds,
		     const size_t *counts)
{
	script_open(s, nranks);
	s->program.algorithm = "ring";
	for (int rank = 0; rank < nranks; rank++)
		for (int k = 0; k < buckets; k++) {
			script_compute(s, rank, 0, seconds[k]);
			script_record(s, rank, 0, k);
			script_wait(s, rank, 1, k);
			script_all_reduce(s, rank, 1, 0, counts[k]);
		}
}

static void test_overlapped_buckets(void **state)
{
	static const double seconds[] = {1e-3, 2e-4, 3e-3, 1e-5, 5e-4};
	static const size_t counts[] = {8 << 20, 8 << 10, 8, 8 << 20, 8 << 22};
	const int n = 8;
	double ready = 0, end = 0;
	struct script s;

	for (int k = 0; k < 5; k++) {
		ready += seconds[k];
		end = fmax(ready, end) + ring_of_all(n, FLOATS(counts[k]), 3);
	}
	open_ddp(&s, n, 5, seconds, counts);
	near(play(&links, &s, NULL), end);
}

/* The slowest of all decides when a bucket is reduced. */
static void test_straggler(void **state)
{
	const double seconds = 1e-3;
	const size_t count = 8 << 10;
	struct script s;

	open_ddp(&s, 8, 1, &seconds, &count);
	s.operations[5][0].seconds = 2e-3;
	near(play(&links, &s, NULL), 2e-3 + ring_of_all(8, FLOATS(count), 3));
}

/* Who is done early with one collective comes early to the next. */
static void test_early_members(void **state)
{
	struct bb_operation reduce = {.act = BB_ACT_COLLECTIVE,
				      .collective = &bb_reduce,
				      .count = 25000,
				      .dtype = BB_FLOAT};
	const double hop = 9e-6;
	struct heard heard = {0};
	struct script s;

	script_open(&s, 3); /* a chain: 2 sends to 1, and 1 to 0 */
	s.program.algorithm = "ring";
	script_compute(&s, 0, 0, 1);
	for (int rank = 0; rank < 3; rank++)
		for (int k = 0; k < 2; k++)
			script_add(&s, rank, reduce);
	script_compute(&s, 2, 0, 0);
	script_record(&s, 2, 0, 0);
	near(play(&links, &s, &heard), 1 + hop);
}

static double ideal(int stages, int microbatches)
{
	return (microbatches + stages - 1) * 3.0;
}

/* (m + p - 1)(F + B), and what messages add on their critical way; p divides m. */
static void test_pipelines(void **state)
{
	const struct bb_link_model none = {0}, slow = {.latency = 0.01};

	for (int p = 2; p <= 8; p++)
		for (int m = p; m <= 4 * p; m += p) {
			struct script s;

			script_pipeline(&s, p, m, false, 1, 2);
			near(play(&none, &s, NULL), ideal(p, m));
			script_pipeline(&s, p, m, true, 1, 2);
			near(play(&none, &s, NULL), ideal(p, m));
			script_pipeline(&s, p, m, false, 1, 2);
			near(play(&slow, &s, NULL), ideal(p, m) + 2 * (p - 1) * 0.01);
			script_pipeline(&s, p, m, true, 1, 2);
			near(play(&slow, &s, NULL),
			     ideal(p, m) + (2.0 * (p - 1) * (m / p + 1) - 2) * 0.01);
		}
}

/* A message that is sent later but is there earlier is received first. */
static void test_recv_any(void **state)
{
	struct heard heard = {0};
	struct script s;

	script_open(&s, 4);
	script_compute(&s, 1, 0, 3);
	script_compute(&s, 2, 0, 1);
	script_compute(&s, 3, 0, 2);
	for (int rank = 1; rank < 4; rank++)
		script_send(&s, rank, 0, 0, 0, 1);
	for (int i = 0; i < 3; i++)
		script_recv_any(&s, 0, 0, 0, 1);
	near(play(&links, &s, &heard), 3 + ALPHA + FLOATS(1));
	assert_int_equal(heard.nsources, 3);
	assert_int_equal(heard.sources[0], 2);
	assert_int_equal(heard.sources[1], 3);
	assert_int_equal(heard.sources[2], 1);
}

/* Rank 0 is there after LATE seconds and receives from 1, who sends after 3, then from 2, who sends
   at once and computes 5. */
static double receive_two(double late, bool together)
{
	struct script s;

	script_open(&s, 3);
	script_compute(&s, 0, 0, late);
	script_recv(&s, 0, 0, 0, 1, 1);
	script_recv(&s, 0, 0, 0, 2, 1);
	s.operations[0][2].together = together;
	script_compute(&s, 1, 0, 3);
	script_send(&s, 1, 0, 0, 0, 1);
	script_send(&s, 2, 0, 0, 0, 1);
	script_compute(&s, 2, 0, 5);
	return play(&links, &s, NULL);
}

/* Of receives that are posted together whoever is there first is done first. */
static void test_posted_together(void **state)
{
	const double way = ALPHA + FLOATS(1);
	struct script s;

	assert_true(way < 2);
	near(receive_two(0, true), way + 5);
	near(receive_two(2, true), 2 + 5); /* it was there before it was received */
	near(receive_two(0, false), 3 + way + 5);
	near(receive_two(2, false), 3 + way + 5);

	/* The next message of the same rank is none of those. */
	script_open(&s, 3);
	script_recv(&s, 0, 0, 0, 1, 1);
	script_recv(&s, 0, 0, 0, 2, 1);
	s.operations[0][1].together = true;
	script_compute(&s, 0, 0, 10);
	script_recv(&s, 0, 0, 0, 2, 1);
	script_compute(&s, 1, 0, 3);
	script_send(&s, 1, 0, 0, 0, 1);
	for (int i = 0; i < 2; i++)
		script_send(&s, 2, 0, 0, 0, 1);
	script_compute(&s, 2, 0, 1);
	near(play(&links, &s, NULL), 3 + way + 10 + 1);
}

/* A server answers whoever asks; each worker asks again once it has its answer. */
static void open_server(struct script *s, int workers, int rounds)
{
	script_open(s, 1 + workers);
	for (int worker = 1; worker <= workers; worker++)
		for (int k = 0; k < rounds; k++) {
			script_compute(s, worker, 0, 0.1 * worker);
			script_send(s, worker, 0, 0, 0, 1000);
			script_recv(s, worker, 0, 1, 0, 1000);
		}
	for (int i = 0; i < workers * rounds; i++) {
		script_recv_any(s, 0, 0, 0, 1000);
		script_send(s, 0, 0, 1, BB_NO_PEER, 1000);
		s->operations[0][2 * i + 1].answers = (size_t)(2 * i);
	}
}

static void test_server(void **state)
{
	static const int order[] = {1, 2, 1, 1, 2, 2};
	const double way = ALPHA + FLOATS(1000);
	struct heard heard = {0};
	struct script s;

	open_server(&s, 2, 3);
	/* Worker 2's last: nobody stands in its way then. */
	near(play(&links, &s, &heard), 3 * (0.2 + 2 * way));
	assert_int_equal(heard.nsources, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(heard.sources[i], order[i]);
}

static double played(uint64_t seed, double *digest)
{
	const struct bb_link_model noisy = {
		.rate = RATE, .latency = ALPHA, .noise = 0.1, .seed = seed};
	struct heard heard = {0};
	struct script s;
	double end;

	open_server(&s, 5, 4);
	for (int rank = 0; rank < 6; rank++)
		script_all_reduce(&s, rank, 0, 0, 1000);
	end = play(&noisy, &s, &heard);
	*digest = heard.digest;
	return end;
}

static void test_noisy_program(void **state)
{
	double digests[3];
	const double a = played(1, &digests[0]), b = played(1, &digests[1]);
	const double c = played(2, &digests[2]);

	assert_true(a == b && digests[0] == digests[1]);
	assert_true(a != c && digests[0] != digests[2]);
}

static void test_unknown_algorithm(void **state)
{
	struct bb_error error = {0};
	struct script s;
	double end;

	script_open(&s, 2);
	s.program.algorithm = "direct";
	for (int rank = 0; rank < 2; rank++)
		script_all_reduce(&s, rank, 0, 0, 1);
	assert_int_equal(bb_timeline_program(&links, &s.program, NULL, &end, &error),
			 BB_EUNSUPPORTED);
	assert_non_null(strstr(error.text, "all_reduce has no schedule direct"));
	script_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed_forms),    cmocka_unit_test(test_pipelined_chain),
		cmocka_unit_test(test_bounds),          cmocka_unit_test(test_arrivals),
		cmocka_unit_test(test_noise),           cmocka_unit_test(test_choice),
		cmocka_unit_test(test_best_chunk),      cmocka_unit_test(test_no_choice),
		cmocka_unit_test(test_kept_choices),    cmocka_unit_test(test_overlapped_buckets),
		cmocka_unit_test(test_straggler),       cmocka_unit_test(test_early_members),
		cmocka_unit_test(test_pipelines),       cmocka_unit_test(test_recv_any),
		cmocka_unit_test(test_posted_together), cmocka_unit_test(test_server),
		cmocka_unit_test(test_noisy_program),   cmocka_unit_test(test_unknown_algorithm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

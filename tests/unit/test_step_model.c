/*
 * The step model: a small case worked out by hand, and what must hold of any.
 */
#include "training_kernels/reduce_time.h"
#include "training_kernels/step_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define M ((uint64_t)1 << 20)
#define MOST_TENSORS 1200

static double per_byte(void *own, size_t bucket, uint64_t bytes)
{
	return (double)bytes * *(const double *)own;
}

/* An all-reduce of BYTES over a ring of N ranks: 2 (N-1) rounds of LATENCY and BYTES / N at RATE
   each (Patarasuk and Yuan 2009). */
static double ring_seconds(uint64_t bytes, int n, double latency, double rate)
{
	return 2.0 * (n - 1) * (latency + (double)bytes / n / rate);
}

struct link {
	int n;
	double latency, rate;
};

static double ring(void *own, size_t bucket, uint64_t bytes)
{
	const struct link *link = own;

	return ring_seconds(bytes, link->n, link->latency, link->rate);
}

/* Three buckets of 4, 6 and 2 bytes, complete at 1, 2 and 5; a byte takes a second. */
static void test_by_hand(void **state)
{
	static const double ready[] = {0.5, 1, 2, 5};
	double second = 1;
	struct bb_bucket list[] = {{0, 2, 2, 4}, {2, 1, 3, 6}, {3, 1, 1, 2}};
	const struct bb_buckets buckets = {list, 3, 12};
	struct bb_step_request r = {.compute = {3, 5, ready},
				    .buckets = &buckets,
				    .overlap = true,
				    .accumulate = 1,
				    .reduce = per_byte,
				    .own = &second};
	struct bb_bucket_times each[3];
	struct bb_train_step s = bb_step_model(&r, each);

	/* 1 to 5, 5 to 11, 11 to 13 */
	assert_true(each[0].ready == 1 && each[0].start == 1 && each[0].end == 5);
	assert_true(each[1].ready == 2 && each[1].start == 5 && each[1].end == 11);
	assert_true(each[2].ready == 5 && each[2].start == 11 && each[2].end == 13);
	assert_true(s.step_s == 16 && s.compute_s == 8 && s.exposed_s == 8 && s.reduce_s == 12);
	assert_true(fabs(s.hidden - 4. / 12) < 1e-15);

	r.overlap = false;
	s = bb_step_model(&r, each);
	assert_true(each[0].start == 5 && each[0].ready == 1);
	assert_true(s.step_s == 20 && s.exposed_s == 12 && s.hidden == 0);

	/* Only the last of 4 batches is reduced. */
	r.overlap = true;
	r.accumulate = 4;
	s = bb_step_model(&r, NULL);
	assert_true(s.step_s == 3 * 8 + 16 && s.compute_s == 32 && s.exposed_s == 8);
}

/* The timeline of a ring is its formula, where all parts are as long; what is best is never worse.
 */
static void test_reduce_time(void **state)
{
	static const char *const names[] = {"ring", "tree", "halving_doubling", NULL};
	struct bb_error error = {.text = ""};

	for (int n = 2; n <= 32; n *= 2)
		for (uint64_t bytes = 4 * (uint64_t)n; bytes <= 64 * M; bytes *= 16) {
			double times[4];

			for (int i = 0; i < 4; i++) {
				struct bb_reduce_time r = {.links = {.rate = 1e9, .latency = 1e-5},
							   .algorithm = names[i],
							   .nranks = n,
							   .dtype = BB_FLOAT,
							   .error = &error};

				times[i] = bb_reduce_time_seconds(&r, 0, bytes);
				assert_true(bb_reduce_time_seconds(&r, 0, bytes) == times[i]);
				assert_int_equal(r.nknown, 1);
				assert_int_equal(r.status, BB_OK);
				bb_reduce_time_close(&r);
			}
			assert_true(fabs(times[0] / ring_seconds(bytes, n, 1e-5, 1e9) - 1) < 1e-9);
			for (int i = 0; i < 3; i++)
				assert_true(times[3] <= times[i]);
		}
}

static void test_no_such_algorithm(void **state)
{
	struct bb_error error = {.text = ""};
	struct bb_reduce_time r = {.links = {.rate = 1e9},
				   .algorithm = "direct",
				   .nranks = 4,
				   .dtype = BB_FLOAT,
				   .error = &error};

	assert_true(bb_reduce_time_seconds(&r, 0, M) == 0);
	assert_int_equal(r.status, BB_EUNSUPPORTED);
	assert_true(bb_reduce_time_seconds(&r, 1, 2 * M) == 0);
	bb_reduce_time_close(&r);
}

/* One rank has nothing to wait for. */
static void test_alone(void **state)
{
	static const double ready[] = {1};
	struct link link = {1, 1, 1};
	struct bb_bucket one = {0, 1, 1, 4};
	const struct bb_buckets buckets = {&one, 1, 4};
	const struct bb_step_request r = {{1, 1, ready}, &buckets, true, 1, ring, &link};
	const struct bb_train_step s = bb_step_model(&r, NULL);

	assert_true(s.step_s == 2 && s.exposed_s == 0 && isnan(s.hidden));
}

static struct bb_train_step step_of(const struct bb_model *m, uint64_t first, uint64_t cap,
				    bool overlap, struct link *link, double *last)
{
	struct bb_error error = {.text = ""};
	double ready[MOST_TENSORS];
	struct bb_buckets b;
	struct bb_train_step s;

	assert_int_equal(bb_buckets_make(&b, m, 4, first, cap, &error), BB_OK);
	bb_model_ready(m, 0.1, ready);
	s = bb_step_model(&(struct bb_step_request){.compute = {0.05, 0.1, ready},
						    .buckets = &b,
						    .overlap = overlap,
						    .accumulate = 1,
						    .reduce = ring,
						    .own = link},
			  NULL);
	*last = ring(link, 0, b.list[b.n - 1].bytes);
	bb_buckets_free(&b);
	return s;
}

/* exposed is at least the last bucket and at most all of them, and overlap never costs; one bucket
   hides nothing. */
static void test_bounds(void **state)
{
	static const char *const words[] = {"resnet50", "gpt2", "bert-large", "linear:20x2000"};
	static struct link links[] = {
		{2, 0, 1e9}, {8, 1e-5, 1e10}, {64, 1e-6, 1e11}, {512, 1e-4, 1e12}};
	static const uint64_t caps[] = {1, M, 5 * M, 25 * M, 200 * M, BB_BUCKET_UNLIMITED};
	struct bb_error error = {.text = ""};

	for (size_t w = 0; w < 4; w++) {
		struct bb_model m;

		assert_int_equal(bb_model_open(&m, words[w], 0, &error), BB_OK);
		for (size_t k = 0; k < 24; k++) {
			struct link *link = &links[k % 4];
			double last;
			struct bb_train_step on =
				step_of(&m, caps[k / 4], caps[k / 4], true, link, &last);
			struct bb_train_step off =
				step_of(&m, caps[k / 4], caps[k / 4], false, link, &last);

			assert_true(on.exposed_s >= last * (1 - 1e-9));
			assert_true(on.exposed_s <= on.reduce_s * (1 + 1e-9));
			assert_true(fabs(off.exposed_s / off.reduce_s - 1) < 1e-9);
			assert_true(on.step_s <= off.step_s);
			assert_true(on.hidden > -1e-9 && on.hidden < 1);
		}
		bb_model_free(&m);
	}
}

/* A third of GPT-2's bytes are complete only in the end: they cannot be hidden, however fast. */
static void test_embedding_is_exposed(void **state)
{
	struct link link = {8, 0, 1e12};
	struct bb_error error = {.text = ""};
	struct bb_model m;
	struct bb_train_step s;
	double last;

	assert_int_equal(bb_model_open(&m, "gpt2", 0, &error), BB_OK);
	s = step_of(&m, M, 25 * M, true, &link, &last);
	assert_true(last / s.reduce_s > 0.3);
	assert_true(fabs(s.exposed_s / last - 1) < 1e-9);
	assert_true(fabs(s.hidden - (1 - last / s.reduce_s)) < 1e-9);
	bb_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),

		cmocka_unit_test(test_reduce_time),
		cmocka_unit_test(test_no_such_algorithm),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_embedding_is_exposed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The model that is trained for real, whose sums are exact in any order; and which samples ranks
 * get, held against what DistributedSampler is said to do.
 */
#include "training_kernels/data_parallel/data_parallel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SEED 7

/* ---- the model ------------------------------------------------------------------------ */

/* Shares of the samples, summed from the last to the first. */
static void gradient_of_shares(const double *values, size_t samples, size_t shares, double *sum)
{
	memset(sum, 0, BB_TRAIN_ELEMENTS * sizeof(*sum));
	for (size_t k = shares; k-- > 0;) {
		const size_t first = samples * k / shares, end = samples * (k + 1) / shares;
		double share[BB_TRAIN_ELEMENTS] = {0};

		bb_train_add(values, SEED, first, end - first, share);
		for (size_t i = 0; i < BB_TRAIN_ELEMENTS; i++)
			sum[i] += share[i];
	}
}

static void test_exact_sums(void **state)
{
	double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS], other[BB_TRAIN_ELEMENTS];

	bb_train_begin(values, SEED);
	for (int step = 0; step < 20; step++) {
		gradient_of_shares(values, BB_TRAIN_MOST_SAMPLES, 1, sum);
		for (size_t shares = 2; shares < 12; shares++) {
			gradient_of_shares(values, BB_TRAIN_MOST_SAMPLES, shares, other);
			assert_memory_equal(sum, other, sizeof(sum));
		}
		bb_train_update(values, 0, BB_TRAIN_ELEMENTS, sum, BB_TRAIN_MOST_SAMPLES);
	}
}

/* The derivative of half the mean square, by differences: away from kinks it is the gradient. */
static void test_gradient(void **state)
{
	const double step = 0x1p-20;
	double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS];
	int near = 0;

	bb_train_begin(values, SEED);
	gradient_of_shares(values, 1, 1, sum);
	for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++) {
		double more[BB_TRAIN_ELEMENTS], less[BB_TRAIN_ELEMENTS], moved[BB_TRAIN_ELEMENTS];
		double slope;

		memcpy(moved, values, sizeof(moved));
		moved[i] = values[i] + step;
		gradient_of_shares(moved, 1, 1, more);
		moved[i] = values[i] - step;
		gradient_of_shares(moved, 1, 1, less);
		slope = (more[BB_TRAIN_PARAMETERS] - less[BB_TRAIN_PARAMETERS]) / (4 * step);
		near += fabs(slope - sum[i]) < 1e-6 * (1 + fabs(slope));
	}
	assert_int_equal(near, BB_TRAIN_PARAMETERS);
}

static void test_learning(void **state)
{
	double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS], first = 0;

	bb_train_begin(values, SEED);
	for (int step = 0; step < 100; step++) {
		gradient_of_shares(values, 200, 1, sum);
		bb_train_update(values, 0, BB_TRAIN_ELEMENTS, sum, 200);
		if (step == 0)
			first = values[BB_TRAIN_PARAMETERS];
	}
	assert_true(values[BB_TRAIN_PARAMETERS] < 0.5 * first);
	for (size_t i = 0; i < BB_TRAIN_PARAMETERS; i++)
		assert_true(values[i] == bb_train_round(values[i]));
}

/* ---- the sampler ---------------------------------------------------------------------- */

static size_t *order_of(const struct bb_sampler *s, uint64_t epoch)
{
	struct bb_error error = {0};
	size_t *order;

	if (bb_sampler_order(s, epoch, &order, &error) != BB_OK)
		fail_msg("%s", error.text);
	return order;
}

static void judge(const struct bb_sampler *s, uint64_t epoch)
{
	const size_t n = (size_t)s->nranks, length = bb_sampler_length(s), total = n * length;
	const size_t distinct = total < s->samples ? total : s->samples;
	size_t *order = order_of(s, epoch);
	struct bb_coverage c;
	struct bb_error error = {0};

	assert_int_equal(length, s->drop_last ? s->samples / n : (s->samples + n - 1) / n);
	assert_int_equal(bb_sampler_coverage(s, order, &c, &error), BB_OK);
	assert_int_equal(c.covered, distinct);
	assert_int_equal(c.repeated, total - distinct);
	assert_true(c.overlaps <= c.repeated);
	assert_true(s->drop_last ? c.overlaps == 0 : total - distinct < n);
	for (size_t i = s->samples; i < total; i++)
		assert_int_equal(order[i], order[i - s->samples]);
	free(order);
}

static void test_shares(void **state)
{
	for (size_t samples = 1; samples < 40; samples++)
		for (int n = 1; n < 10; n++)
			for (int drop = 0; drop < 2; drop++)
				for (uint64_t epoch = 0; epoch < 3; epoch++)
					judge(&(struct bb_sampler){samples, n, drop == 1, 5},
					      epoch);
}

/* Fewer samples than ranks: padded over and over. */
static void test_padding(void **state)
{
	const struct bb_sampler s = {2, 7, false, 1};
	size_t *order = order_of(&s, 0);

	assert_int_equal(bb_sampler_length(&s), 1);
	for (int i = 2; i < 7; i++)
		assert_int_equal(order[i], order[i % 2]);
	free(order);
}

/* Orders of two epochs have one place in common on average, as two random ones have; the same seed
   + epoch gives the same. */
static void test_epochs(void **state)
{
	const struct bb_sampler s = {50, 5, false, 3}, later = {50, 5, false, 4};
	size_t *first = order_of(&s, 0), *same = order_of(&later, 0), *one = order_of(&s, 1);
	size_t common = 0;

	assert_memory_equal(same, one, 50 * sizeof(*one));
	for (uint64_t epoch = 1; epoch <= 1000; epoch++) {
		size_t *next = order_of(&s, epoch);

		for (int i = 0; i < 50; i++)
			common += first[i] == next[i];
		free(next);
	}
	assert_in_range(common, 850, 1150);
	free(first);
	free(same);
	free(one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact_sums), cmocka_unit_test(test_gradient),
		cmocka_unit_test(test_learning),   cmocka_unit_test(test_shares),
		cmocka_unit_test(test_padding),    cmocka_unit_test(test_epochs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

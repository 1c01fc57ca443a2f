/*
 * The samples of ranks, and the small model that data-parallel strategies train: its gradients and
 * updates for drawn samples.
 */
#include "draws.h"

#include "training_kernels/data_parallel/data_parallel.h"

#include <fcntl.h>
#include <unistd.h>

static void sampler_add(struct sweep *s, const struct bb_sampler *sampler)
{
	struct bb_error error = {.text = ""};
	struct bb_strbuf text = {0};
	const size_t n = bb_sampler_length(sampler) * (size_t)sampler->nranks;

	sweep_add(s, (double)bb_sampler_length(sampler));
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		uint64_t hash = BB_RANDOM_HASH;
		struct bb_coverage c;
		size_t *order;

		sweep_add(s, bb_sampler_order(sampler, epoch, &order, &error));
		for (size_t i = 0; i < n; i++)
			hash_add(&hash, (int64_t)order[i]);
		hash_end(s, hash);
		/* Also of an order in which samples are missing and on several ranks. */
		for (int spoilt = 0; spoilt < 2; spoilt++) {
			sweep_add(s, bb_sampler_coverage(sampler, order, &c, &error));
			SWEEP_ADD(s, (double)c.covered, (double)c.repeated, (double)c.overlaps);
			for (size_t i = 0; i < n; i++)
				order[i] = order[i] / 2 + i % 2;
			for (size_t i = 0; i < n; i++)
				order[i] = order[i] < sampler->samples ? order[i] : 0;
		}
		free(order);
	}
	for (uint64_t epochs = 0; epochs < 4; epochs++)
		sweep_add(s, bb_sampler_describe(sampler, epochs, &text, &error));
	sweep_add_text(s, bb_strbuf_text(&text));
	bb_strbuf_free(&text);
}

/* Tables are as wide as a terminal: there is none. */
static void test_samplers(void **state)
{
	struct sweep s = sweep_open("sampler_orders");
	const int none = open("/dev/null", O_WRONLY), before = dup(STDOUT_FILENO);

	assert_true(none >= 0 && before >= 0);
	fflush(stdout);
	dup2(none, STDOUT_FILENO);
	for (int n = 1; n <= 9; n++) {
		for (size_t samples = 1; samples <= 40; samples++)
			for (int drop = 0; drop < 2; drop++) {
				const struct bb_sampler sampler = {samples, n, drop == 1,
								   samples % 5};

				sampler_add(&s, &sampler);
			}
		sweep_end(&s, "%d ranks", n);
	}
	fflush(stdout);
	dup2(before, STDOUT_FILENO);
	close(before);
	close(none);
	sweep_close(&s);
}

static void values_add(struct sweep *s, const double *values)
{
	for (int i = 0; i < BB_TRAIN_ELEMENTS; i++)
		sweep_add(s, values[i]);
}

static void test_training(void **state)
{
	struct sweep s = sweep_open("sampler_training");

	for (uint64_t seed = 0; seed < 12; seed++) {
		double values[BB_TRAIN_ELEMENTS], sum[BB_TRAIN_ELEMENTS] = {0};

		bb_train_begin(values, seed);
		values_add(&s, values);
		for (int step = 0; step < 12; step++) {
			const int count = 1 + drawn(seed, (uint64_t)step, 40);
			const int first = drawn(seed, 20 + (uint64_t)step, BB_TRAIN_ELEMENTS);
			const int part =
				drawn(seed, 40 + (uint64_t)step, BB_TRAIN_ELEMENTS - first + 1);

			if (step % 3 == 0)
				memset(sum, 0, sizeof(sum));
			bb_train_add(values, seed, (size_t)(7 * step), (size_t)count, sum);
			values_add(&s, sum);
			bb_train_update(values, (size_t)first, (size_t)part, sum + first, count);
			bb_train_update(values, 0, step % 2 ? BB_TRAIN_ELEMENTS : 0, sum, count);
			values_add(&s, values);
		}
		for (int i = -300; i <= 300; i++)
			sweep_add(&s, bb_train_round(i / 97. + (double)seed / 1000));
		sweep_end(&s, "seed %d", (int)seed);
	}
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samplers),
		cmocka_unit_test(test_training),
	};

	return cmocka_run_group_tests_name("sampler_sweep", tests, NULL, NULL);
}

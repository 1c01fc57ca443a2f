/*
 * 1-bit optimizers: what they exchange in each step, the bytes that this saves, and the arithmetic
 * of a step.
 */
#include "models/memory/onebit.h"
#include "models/memory/training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define NEAR(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

/* 1 / (w + (1 - w) / 16): "up to 5x" for 15 to 25% of warm-up. */
static void test_saving(void **state)
{
	static const struct {
		double freeze, saving;
		int bits;
	} known[] = {{150, 4.92, 16}, {200, 4.0, 16}, {250, 3.37, 16},
		     {0, 16, 16},     {1000, 1, 16},  {200, 4.44, 32}};
	struct bb_onebit o = bb_onebit_of(BB_ONEBIT_ADAM);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		o.freeze_step = known[i].freeze;
		NEAR(bb_onebit_saving(&o, known[i].bits, 1000), known[i].saving, 0.005);
	}
	o = bb_onebit_of(BB_ONEBIT_ZERO_ONE);
	/* 96 full steps of 1000; without any, and one exchange in 16 steps. */
	NEAR(bb_onebit_saving(&o, 16, 1000), 1000 / (96 + 904 / 16.0), 1e-9);
	o.freeze_step = 0;
	o.local_step_scaler = 1;
	NEAR(bb_onebit_saving(&o, 16, 1 << 20), 256, 0.5);
}

/* Steps 1 to LAST with EXCHANGE, as text. */
static void steps_of(const struct bb_onebit *o, enum bb_onebit_exchange exchange, int last,
		     char *text)
{
	struct bb_onebit_schedule s = {.step = 0};

	*text = '\0';
	while (s.step < last)
		if (bb_onebit_next(o, &s) == exchange)
			text += sprintf(text, "%d ", (int)s.step);
}

static void test_schedule(void **state)
{
	struct bb_onebit o = bb_onebit_of(BB_ONEBIT_ZERO_ONE);
	char text[8192];
	int n = 0;

	steps_of(&o, BB_ONEBIT_FULL, 1000, text);
	for (const char *c = text; *c; c++)
		n += *c == ' ';
	assert_int_equal(n, 96);
	assert_non_null(strstr(text, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 18 20 22 "));
	assert_non_null(strstr(text, " 928 960 992 "));
	o.var_update_scaler = 2;
	steps_of(&o, BB_ONEBIT_FULL, 100, text);
	assert_string_equal(text, "1 2 4 6 8 12 16 24 32 48 64 96 ");

	/* The interval of exchanges is 1 for three steps, 2, and then 3, its limit. */
	o.freeze_step = 2;
	o.local_step_scaler = 3;
	o.local_step_clipper = 3;
	steps_of(&o, BB_ONEBIT_SYNC, 18, text);
	assert_string_equal(text, "3 4 5 6 8 9 12 15 18 ");
	steps_of(&o, BB_ONEBIT_LOCAL, 12, text);
	assert_string_equal(text, "7 10 11 ");
	assert_true(bb_onebit_of(BB_ONEBIT_ZERO_ONE).local_step_scaler == 32678);
	assert_true(bb_onebit_of(BB_ONEBIT_ZERO_ONE).local_step_clipper == 16);

	o = bb_onebit_of(BB_ONEBIT_ADAM);
	o.freeze_step = 400;
	struct bb_onebit_schedule s = {.step = 399};
	assert_int_equal(bb_onebit_next(&o, &s), BB_ONEBIT_FULL);
	assert_int_equal(bb_onebit_next(&o, &s), BB_ONEBIT_CODED);
}

/* Without bias correction: the first step of Adam moves by 10 lr, not by lr. */
static void test_step(void **state)
{
	struct bb_onebit o = bb_onebit_of(BB_ONEBIT_ADAM);
	float g[] = {2, -4}, m[2] = {0, 0}, v[2] = {0, 0}, p[2] = {1, 1}, sum[2] = {0, 0}, x[2];

	o.weight_decay = 0.5;
	bb_onebit_moments(&o, 0.5f, g, m, v, 2);
	NEAR(m[0], 0.1, 1e-7);
	NEAR(m[1], -0.2, 1e-7);
	NEAR(v[1], 0.004, 1e-6);
	bb_onebit_apply(&o, 1, m, v, p, sum, 2);
	NEAR(p[0], 1 - 1e-3 * (0.1 / (sqrt(0.001) + 1e-8) + 0.5), 1e-6);
	NEAR(p[1], 1 - 1e-3 * (-0.2 / (sqrt(0.004) + 1e-8) + 0.5), 1e-6);
	NEAR(sum[0], p[0] - 1, 1e-7);
	/* A frozen variance; then the sum of updates is undone, exchanged and applied again. */
	bb_onebit_moments(&o, 0.5f, g, m, NULL, 2);
	NEAR(m[0], 0.19, 1e-7);
	NEAR(v[0], 0.001, 1e-6);
	const float before = p[0], change = sum[0];
	bb_onebit_undo(&o, v, p, sum, x, 2);
	NEAR(p[0], 1, 1e-7);
	NEAR(x[0], change * sqrt(0.001), 1e-6);
	assert_true(sum[0] == 0 && sum[1] == 0);
	bb_onebit_redo(&o, 2e-3f, x, v, m, p, 2);
	NEAR(p[0], before, 1e-7);
	NEAR(m[0], -change * sqrt(0.001) / 2e-3, 1e-4);
}

static void test_lamb(void **state)
{
	struct bb_onebit o = bb_onebit_of(BB_ONEBIT_LAMB);
	const float m[] = {3, -3, 1, 1, 1, 1, 0};
	const size_t lengths[] = {2, 4, 1};
	float scales[7], v[] = {4, 1}, fresh[] = {4, 1}, momentum[] = {0.9f, 0.9f};
	const float last[] = {1, 1}, p[] = {0, 0};
	double frozen = 0;

	bb_onebit_scales(m, lengths, 3, scales); /* mean of 3, 1 and 0 */
	NEAR(scales[0], 4.0 / 9, 1e-6);
	NEAR(scales[2], 4.0 / 3, 1e-6);
	NEAR(scales[5], 4.0 / 3, 1e-6);
	assert_true(scales[6] == 1);

	/* Updates of norms 2, 1, 1 and 1000. */
	static const float variance[] = {1, 1}, weights[][2] = {{0, 6}, {60, 80}, {0, 0}, {1, 0}};
	static const float momenta[][2] = {{2, 0}, {0, 1}, {1, 0}, {600, 800}};
	static const double trust[] = {3, 10, 1, 0.01}, means[] = {0.3, 1.27, 1.27, 1.144};
	o.eps = 0;
	for (int i = 0; i < 4; i++) {
		assert_true(bb_onebit_trust(&o, momenta[i], variance, weights[i], 2, &frozen) ==
			    trust[i]);
		NEAR(frozen, means[i], 1e-12);
	}
	o.eps = 1e-8;

	/* The gradient that follows is 0: the variance falls by β2, the factor rises. */
	NEAR(bb_onebit_factor(&o, momentum, last, v, p, fresh, 2, 1), sqrt(1 / 0.999), 1e-6);
	NEAR(fresh[0], 4 * 0.999, 1e-5);
	/* By a tenth a step, up to 4, and not below 0.5. */
	fresh[1] = 1e-6f;
	NEAR(bb_onebit_factor(&o, momentum, last, v, p, fresh, 2, 1), 1.1, 1e-6);
	NEAR(bb_onebit_factor(&o, momentum, last, v, p, fresh, 2, 3.9), 4, 1e-6);
	v[0] = v[1] = 1e-8f;
	fresh[0] = fresh[1] = 1;
	NEAR(bb_onebit_factor(&o, momentum, last, v, p, fresh, 2, 0.51), 0.5, 1e-6);
	NEAR(bb_onebit_factor(&o, momentum, last, v, p, fresh, 2, 1), 0.9, 1e-6);
}

/* 4 bytes of all parameters and of this rank's part, padded to a multiple of N lcm(N, 8). */
static void test_errors(void **state)
{
	const struct bb_recipe coded = {&bb_precisions[BB_MIXED], &bb_optimizers[BB_ADAM_1BIT]};
	const struct bb_recipe adam = {&bb_precisions[BB_MIXED], &bb_optimizers[BB_ADAMW]};

	assert_int_equal(bb_error_bytes(&coded, 335141888, 64), 4l * 335142912 / 64 * 65);
	assert_int_equal(bb_error_bytes(&coded, 1000, 4), 4 * (1024 + 256));
	assert_int_equal(bb_error_bytes(&coded, 1000, 6), 4 * (1008 + 168));
	assert_int_equal(bb_error_bytes(&coded, 25557032, 16), 4l * 25557248 / 16 * 17);
	assert_int_equal(bb_error_bytes(&coded, 1000, 1), 4 * 2000);
	assert_int_equal(bb_error_bytes(&adam, 1000, 4), 0);
	/* Moments of 1-bit Adam; 0/1 Adam adds a sum of updates, 1-bit LAMB a second variance. */
	assert_int_equal(bb_states_each(&coded).optimizer, 12);
	for (int i = BB_ADAM_0_1; i <= BB_LAMB_1BIT; i++)
		assert_int_equal(bb_states_each(&(struct bb_recipe){&bb_precisions[BB_MIXED],
								    &bb_optimizers[i]})
					 .optimizer,
				 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_saving), cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_step),   cmocka_unit_test(test_lamb),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

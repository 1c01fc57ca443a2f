/*
 * Virtual time with ports: what all messages of a rank share.
 */
#include "simulator/timeline/timeline.h"
#include "script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST 17
#define ALPHA 5e-6
#define RATE 25e9
#define FLOATS(count) ((double)(count)*4 / RATE)

static const struct bb_link_model ports = {.rate = RATE, .latency = ALPHA, .port = true};

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1e-3, fabs(want))))
		fail_msg("%.17g instead of %.17g", got, want);
}

/* N ranks, S: time that a call's count takes to leave. All that goes to one rank, or comes from
   one. */
static double at_a_root(double n, double s)
{
	return ALPHA + (n - 1) * s;
}

static double ring_of_all(double n, double s)
{
	return 2 * (n - 1) * (ALPHA + s / n);
}

static double ring_of_blocks(double n, double s)
{
	return (n - 1) * (ALPHA + s);
}

static const struct form {
	const struct bb_collective *collective;
	const char *algorithm;
	double (*seconds)(double n, double s);
} forms[] = {
	{&bb_broadcast, "linear", at_a_root},       {&bb_scatter, "linear", at_a_root},
	{&bb_gather, "linear", at_a_root},          {&bb_reduce, "linear", at_a_root},
	{&bb_all_reduce, "ring", ring_of_all},      {&bb_all_gather, "ring", ring_of_blocks},
	{&bb_alltoall, "pairwise", ring_of_blocks},
};

/* Through one port a root sends, or receives, one after the other; what a rank does with one peer
   at a time takes what it does over links. */
static void test_collectives(void **state)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		for (int n = 2; n <= MOST; n++) {
			const struct form *f = &forms[i];
			const struct bb_shape shape = {.nranks = n, .count = 12252240};
			double times[MOST] = {0}, last = 0;

			assert_int_equal(bb_timeline_collective(
						 &ports,
						 bb_algorithm_find(f->collective, f->algorithm),
						 &shape, 4, 0, times),
					 BB_OK);
			for (int rank = 0; rank < n; rank++)
				last = fmax(last, times[rank]);
			near(last, f->seconds(n, FLOATS(shape.count)));
		}
}

static double play(struct script *s)
{
	struct bb_error error = {0};
	double end = 0;

	if (bb_program_check(&s->program, &error) != BB_OK ||
	    bb_timeline_program(&ports, &s->program, NULL, &end, &error) != BB_OK)
		fail_msg("%s", error.text);
	script_close(s);
	return end;
}

/* Two queues of a rank share its way out, two senders their peer's way in; what comes first is in
   first, although it is received last. */
static void test_messages(void **state)
{
	const double way = FLOATS(1000);
	struct script s;

	script_open(&s, 3);
	script_send(&s, 0, 0, 0, 1, 1000);
	script_send(&s, 0, 1, 0, 2, 1000);
	script_recv(&s, 1, 0, 0, 0, 1000);
	script_recv(&s, 2, 0, 0, 0, 1000);
	near(play(&s), ALPHA + 2 * way);

	script_open(&s, 3);
	script_compute(&s, 2, 0, 1e-9);
	script_send(&s, 1, 0, 0, 0, 1000);
	script_send(&s, 2, 0, 0, 0, 2000);
	script_recv(&s, 0, 0, 0, 2, 2000);
	script_recv(&s, 0, 0, 0, 1, 1000);
	near(play(&s), ALPHA + 3 * way);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

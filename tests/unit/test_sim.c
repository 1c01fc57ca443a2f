/*
 * The sim backend by itself: what its clocks do. Its numbers are held against closed forms where
 * they come from (test_timeline) and where they come out (cli/test_sim).
 */
#include "backends/backend.h"
#include "backends/virtual.h"
#include "script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define N 6
#define ALPHA 5e-6
#define RATE 25e9

static const struct bb_backend *const sim = &bb_backend_sim;

struct stage {
	struct bb_context *context;
	struct bb_rank *rank;
	struct bb_group *world, *half; /* of ranks 0, 2 and 4 */
	struct bb_error error;
};

static void set_up(struct stage *s, double noise)
{
	const struct bb_world world = {.nranks = N, .nprocs = 1, .nlocal = 1};
	const struct bb_virtual_config virtual = {.noise = noise, .seed = 1};
	const struct bb_backend_config config = {
		.link_rate = RATE, .link_latency = ALPHA, .virtual = &virtual};
	const int members[N] = {0, 1, 2, 3, 4, 5}, even[N / 2] = {0, 2, 4};

	memset(s, 0, sizeof(*s));
	assert_int_equal(sim->open(&s->context, &world, &config, &s->error), BB_OK);
	assert_int_equal(sim->attach(s->context, 0, &s->rank, &(struct bb_location){0}, &s->error),
			 BB_OK);
	assert_int_equal(sim->group_open(s->rank, members, N, &s->world, &s->error), BB_OK);
	assert_int_equal(sim->group_open(s->rank, even, N / 2, &s->half, &s->error), BB_OK);
}

static void tear_down(struct stage *s)
{
	sim->group_close(s->half);
	sim->group_close(s->world);
	sim->detach(s->rank);
	sim->close(s->context);
}

static double ring(int n, double bytes)
{
	return 2 * (n - 1) * (ALPHA + bytes / n / RATE);
}

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1e-3, want)))
		fail_msg("%.17g instead of %.17g", got, want);
}

static struct bb_call ring_call(int n)
{
	return (struct bb_call){.collective = &bb_all_reduce,
				.schedule = bb_algorithm_find(&bb_all_reduce, "ring"),
				.dtype = BB_FLOAT,
				.shape = {.nranks = n, .count = 6000}};
}

/* A group's collective takes its members' time, which others notice at a barrier. */
static void test_clocks(void **state)
{
	const struct bb_call all = ring_call(N), half = ring_call(N / 2);
	struct stage s;
	double now;

	set_up(&s, 0);
	near(sim->now(s.rank), 0);
	assert_int_equal(sim->collective(s.world, NULL, &all), BB_OK);
	now = ring(N, 24000);
	near(sim->now(s.rank), now);
	assert_int_equal(sim->collective(s.half, NULL, &half), BB_OK);
	now += ring(N / 2, 24000);
	near(sim->now(s.rank), now);
	assert_int_equal(sim->barrier(s.half), BB_OK);
	near(sim->now(s.rank), now);
	sim->virtual->delay(s.rank, 2);
	near(sim->now(s.rank), now + 2);
	assert_int_equal(sim->barrier(s.world), BB_OK);
	assert_int_equal(sim->collective(s.world, NULL, &all), BB_OK);
	near(sim->now(s.rank), now + 2 + ring(N, 24000));
	tear_down(&s);
}

/* Ranks that come late are waited for: here those of the half, without a barrier. */
static void test_late_members(void **state)
{
	struct bb_call late = ring_call(N), half = ring_call(N / 2);
	struct stage s;

	set_up(&s, 0);
	assert_int_equal(sim->collective(s.half, NULL, &half), BB_OK);
	assert_int_equal(sim->collective(s.world, NULL, &late), BB_OK);
	assert_true(sim->now(s.rank) > ring(N / 2, 24000) + 0.5 * ring(N, 24000));
	assert_true(sim->now(s.rank) <= (1 + 1e-12) * (ring(N / 2, 24000) + ring(N, 24000)));
	tear_down(&s);
}

static void test_choice(void **state)
{
	struct bb_call call = ring_call(N), chosen;
	struct stage s;

	set_up(&s, 0);
	call.shape.count = 1 << 24;
	chosen = call;
	assert_int_equal(sim->choose(s.world, &chosen), BB_OK);
	assert_int_equal(sim->tune(s.world, &chosen), BB_OK);
	assert_int_equal(sim->tune(s.world, &call), BB_OK);
	assert_ptr_not_equal(chosen.schedule, call.schedule);
	assert_int_equal(call.shape.chunk, 0); /* a ring gains nothing from cutting */
	assert_int_not_equal(chosen.shape.chunk, 0);
	assert_null(sim->refuses(s.world, &chosen));
	tear_down(&s);
}

/* What is heard of a program: its last end, and how many operations. */
struct heard {
	double last;
	int n;
};

static void hear(void *own, int rank, size_t index, const struct bb_operation *operation,
		 double from, double to, int source)
{
	struct heard *h = own;

	h->last = to;
	h->n++;
}

/* A program begins when all can, and is heard of in seconds since then. */
static void test_program(void **state)
{
	struct heard heard = {0};
	const struct bb_timeline_watch watch = {hear, &heard};
	struct script program;
	struct stage s;
	double end;

	set_up(&s, 0);
	sim->virtual->delay(s.rank, 1);
	script_open(&program, N);
	program.program.algorithm = "ring";
	for (int rank = 0; rank < N; rank++) {
		script_compute(&program, rank, 0, 0.25);
		script_all_reduce(&program, rank, 0, 0, 6000);
	}
	assert_int_equal(sim->virtual->evaluate(s.rank, &program.program, &watch, &end, &s.error),
			 BB_OK);
	near(end, 0.25 + ring(N, 24000));
	near(sim->now(s.rank), 1 + end);
	assert_true(heard.last == end);
	assert_int_equal(heard.n, 2 * N);
	assert_int_equal(sim->virtual->evaluate(s.rank, &program.program, NULL, &end, &s.error),
			 BB_OK);
	near(end, 0.25 + ring(N, 24000));
	near(sim->now(s.rank), 1.5 + 2 * ring(N, 24000));
	program.program.algorithm = "none";
	assert_int_equal(sim->virtual->evaluate(s.rank, &program.program, NULL, &end, &s.error),
			 BB_EUNSUPPORTED);
	assert_non_null(strstr(s.error.text, "all_reduce has no schedule none"));
	script_close(&program);
	tear_down(&s);
}

/* Each time is drawn anew, all of it again from the same seed. */
static void test_noise(void **state)
{
	const struct bb_call call = ring_call(N);
	double ends[2][3];

	for (int k = 0; k < 2; k++) {
		struct stage s;
		double before = 0;

		set_up(&s, 0.1);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(sim->collective(s.world, NULL, &call), BB_OK);
			assert_int_equal(sim->barrier(s.world), BB_OK);
			ends[k][i] = sim->now(s.rank) - before;
			before = sim->now(s.rank);
		}
		tear_down(&s);
	}
	assert_memory_equal(ends[0], ends[1], sizeof(ends[0]));
	assert_true(ends[0][0] != ends[0][1] && ends[0][1] != ends[0][2]);
}

static void test_abort(void **state)
{
	const struct bb_call call = ring_call(N);
	struct script program;
	struct stage s;
	double end;

	set_up(&s, 0);
	script_open(&program, N);
	sim->abort(s.context);
	assert_int_equal(sim->collective(s.world, NULL, &call), BB_ETIMEOUT);
	assert_int_equal(sim->barrier(s.world), BB_ETIMEOUT);
	assert_int_equal(sim->virtual->evaluate(s.rank, &program.program, NULL, &end, &s.error),
			 BB_ETIMEOUT);
	script_close(&program);
	tear_down(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clocks), cmocka_unit_test(test_late_members),
		cmocka_unit_test(test_choice), cmocka_unit_test(test_program),
		cmocka_unit_test(test_noise),  cmocka_unit_test(test_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

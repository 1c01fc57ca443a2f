/*
 * Drivers in several processes: what they exchange, and how all of them end, with one cause told
 * once, when a process fails, dies, hangs or is told to stop.
 */
#include "harness/run/drivers.h"

#include "driven.h"
#include "processes.h"

#include <setjmp.h>
#include <signal.h>

#include <cmocka.h>

/* ---- exchanges ------------------------------------------------------------------------------- */

#define ROUNDS 30

struct given {
	int rank, round, filler[100];
};

static void exchange_once(struct bb_driver *driver, const struct scene *scene, int round)
{
	const int driven = scene->plot->n * scene->plot->nlocal;
	const struct given mine = {.rank = driver->rank, .round = round};
	const size_t count = sizeof(mine) / 4 - (size_t)(round * 37 % 100); /* changes */
	const size_t bytes = 4 * count;
	const struct bb_payload_field fields[] = {{"a word", BB_PAYLOAD_ANY, 0, 4, 1, 0, 0, 0},
						  {.name = NULL}};
	const struct bb_payload table = {"a word", 4, fields, NULL};
	struct meeting *m = scene->me->meeting;
	const void *all = NULL;

	if (round % 2 == 0)
		CHECK(m, bb_driver_gather(driver, &table, &mine, count, &all) == BB_OK);
	else
		CHECK(m, bb_driver_collect(driver, &table, &mine, count, &all) == BB_OK);
	if (round % 2 == 1 && scene->me->launch.proc != 0) {
		CHECK(m, all == NULL);
		return;
	}
	for (int r = 0; r < driven + scene->plot->undriven; r++) {
		struct given given = {0};

		memcpy(&given, (const char *)all + (size_t)r * bytes, bytes);
		CHECK(m, given.rank == (r < driven ? r : 0) && given.round == round);
	}
}

static bb_status exchange_much(struct bb_driver *driver, void *argument)
{
	const struct scene *scene = argument;

	for (int round = 0; round < ROUNDS; round++) {
		exchange_once(driver, scene, round);
		if (round % 3 == 0)
			CHECK(scene->me->meeting, bb_driver_barrier(driver) == BB_OK);
		if (driver->local == 0)
			bb_driver_deadline(driver, "a round");
	}
	atomic_store(&driver->progress->finished, true);
	return BB_OK;
}

static void test_exchange(void **state)
{
	for (int n = 1; n <= 4; n++)
		for (int nlocal = 1; nlocal <= 3; nlocal++) {
			struct plot plot = plot_of(n, nlocal, exchange_much);

			plot.undriven = n * nlocal == 1 ? 5 : 0;
			play_in_threads(&plot);
			for (int p = 0; p < n; p++) {
				assert_string_equal(plot.results[p].text, "");
				assert_int_equal(plot.results[p].status, BB_OK);
				assert_false(plot.results[p].outcome.caught ||
					     plot.results[p].outcome.stuck);
			}
			plot_free(&plot);
		}
}

/* Rank 1 objects to something and does not come to an end. */
static bb_status object_endlessly(struct bb_driver *driver, void *argument)
{
	char objection[BB_OBJECTION_TEXT];
	bb_status status;

	memset(objection, driver->rank == 1 ? 'x' : 0, sizeof(objection));
	status = bb_driver_share_objection(driver, objection);
	return driver->rank == 1 ? wait_for_abort(driver) : status;
}

static void test_nonsense(void **state)
{
	struct plot plot = plot_of(2, 1, object_endlessly);

	play_in_threads(&plot);
	assert_told_once(&plot, -1, BB_EBACKEND,
			 "rank 0 cannot exchange results with the other processes through shared "
			 "memory: process 1 sent an objection in which the objection has no end");
	plot_free(&plot);
}

/* ---- a rank that fails --------------------------------------------------------------------- */

enum failure { NAMELESS, NAMED, WORDLESS, BOTH, FAILURES };

static bb_status fail_somewhere(struct bb_driver *driver, void *argument)
{
	struct scene *scene = argument;
	const bool also = scene->plot->number == BOTH && driver->rank == scene->plot->culprit + 1;

	enter(driver, 1);
	if (driver->rank != scene->plot->culprit && !also)
		return wait_for_abort(driver);
	nap_ms(50);
	switch ((enum failure)scene->plot->number) {
	case NAMELESS:
		return bb_fail(&scene->error, BB_EDATA, "no luck with rank 777 or rank x");
	case WORDLESS:
		return BB_ETIMEOUT;
	default:
		return bb_fail(&scene->error, BB_EDATA, "rank %d has no luck", driver->rank);
	}
}

static void test_failure(void **state)
{
	static const char *const texts[FAILURES] = {
		[NAMELESS] = "rank 2 (h1, pid 1002): no luck with rank 777 or rank x",
		[NAMED] = "rank 2 has no luck",
		[WORDLESS] = "rank 2 ended before the run was over",
	};
	struct plot plot = plot_of(4, 1, fail_somewhere);

	plot.culprit = 2;
	for (plot.number = 0; plot.number < BOTH; plot.number++) {
		play_in_threads(&plot);
		assert_told_once(&plot, -1, plot.number == WORDLESS ? BB_EBACKEND : BB_EDATA,
				 texts[plot.number]);
	}
	play_in_threads(&plot);
	assert_told_once(&plot, -1, BB_EDATA,
			 strchr(plot.results[0].text, '3') ? "rank 3 has no luck" : texts[NAMED]);
	plot.culprit = 0;
	plot.number = NAMED;
	play_in_threads(&plot);
	assert_told_once(&plot, -1, BB_EDATA, "rank 0 has no luck");
	plot_free(&plot);
}

static void test_failure_among_locals(void **state)
{
	struct plot plot = plot_of(2, 3, fail_somewhere);

	plot.culprit = 4;
	plot.number = NAMED;
	play_in_threads(&plot);
	assert_told_once(&plot, -1, BB_EDATA, "rank 4 has no luck");
	plot_free(&plot);
}

/* ---- time is up ---------------------------------------------------------------------------- */

enum delay { BEFORE_ALL, BEFORE, INSIDE, AT_ONCE };

static bb_status be_late(struct bb_driver *driver, void *argument)
{
	const struct scene *scene = argument;
	const enum delay delay = (enum delay)scene->plot->number;
	const bool late = driver->rank == scene->plot->culprit;

	if (driver->local == 0)
		bb_driver_deadline(driver, "ring");
	atomic_fetch_add(&scene->plot->results[scene->me->launch.proc].began, 1);
	if (delay != BEFORE_ALL)
		enter(driver, delay == BEFORE && late ? 2 : 3);
	if (delay == INSIDE && !late)
		atomic_store(&driver->progress->phase, BB_PHASE_BETWEEN);
	return wait_for_abort(driver);
}

#define LATE "ring did not end within 1.00 s (-T); "
#define ARRIVED LATE "ranks that had arrived at the last collective: "

static void test_deadline(void **state)
{
	static const struct {
		int n, nlocal;
		enum delay delay;
		const char *text;
	} cases[] = {
		{3, 2, BEFORE, ARRIVED "0 to 3, 5; had not: 4"},
		{1, 3, INSIDE,
		 ARRIVED "0 to 2; had not: none, all are inside it or wait for another"},
		{3, 2, INSIDE, ARRIVED "0 to 5; had not: none, but still inside it: 4"},
		{2, 2, AT_ONCE,
		 ARRIVED "0 to 3; had not: none, all are inside it or wait for another"},
		{3, 1, BEFORE_ALL, LATE "no rank had entered a collective yet"},
		{10, 2, BEFORE,
		 ARRIVED "0 to 3, 5 to 19; "
			 "had not: 4"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct plot plot = plot_of(cases[i].n, cases[i].nlocal, be_late);

		plot.timeout = T_S;
		plot.culprit = 4;
		plot.number = cases[i].delay;
		play_in_threads(&plot);
		assert_told_once(&plot, -1, BB_ETIMEOUT, cases[i].text);
		plot_free(&plot);
	}
}

/* A process that is stopped says nothing. */
static void test_deadline_without_answer(void **state)
{
	struct plot plot = plot_of(4, 1, be_late);
	struct process all[4];
	struct meeting *m;

	plot.timeout = T_S;
	plot.culprit = 1;
	plot.number = BEFORE;
	m = start_play(&plot, all);
	kill(all[3].pid, SIGSTOP);
	for (int p = 0; p < 3; p++)
		assert_int_equal(await_fork(&all[p]), 0);
	kill(all[3].pid, SIGCONT);
	assert_int_equal(await_fork(&all[3]), 0);
	assert_told_once(&plot, 3, BB_ETIMEOUT,
			 ARRIVED "0, 2; had not: 1; no answer from: rank 3 (h1, pid 1003)");
	assert_true(plot.results[0].seconds > T_S + 0.7);
	assert_true(plot.results[3].outcome.silent);
	assert_int_equal(meeting_close(m), 0);
	plot_free(&plot);
}

/* Process 0 is stopped: one process per host says so, and it does not say it again. */
static void test_deadline_without_word(void **state)
{
	struct plot plot = plot_of(4, 1, be_late);
	struct process all[4];
	struct meeting *m;

	plot.timeout = T_S;
	m = start_play(&plot, all);
	kill(all[0].pid, SIGSTOP);
	for (int p = 1; p < 4; p++) {
		const struct result *r = &plot.results[p];

		assert_int_equal(await_fork(&all[p]), 0);
		assert_string_equal(
			r->text,
			"ring did not end in its time (-T), and process 0 does not respond");
		assert_int_equal(r->status, BB_ETIMEOUT);
		assert_int_equal(r->outcome.silent, p == 3);
		assert_true(r->seconds > T_S + 1);
	}
	kill(all[0].pid, SIGCONT);
	assert_int_equal(await_fork(&all[0]), 0);
	assert_int_equal(plot.results[0].status, BB_ETIMEOUT);
	assert_true(plot.results[0].outcome.silent);
	assert_int_equal(meeting_close(m), 0);
	plot_free(&plot);
}

/* ---- who is gone --------------------------------------------------------------------------- */

enum wait { FOR_ABORT, FOR_EVER, AND_COMPLAIN };

static bb_status wait_for_others(struct bb_driver *driver, void *argument)
{
	struct scene *scene = argument;
	bb_status status;

	if (scene->plot->number == FOR_EVER && scene->me->launch.proc == scene->plot->culprit)
		nap_ms(100); /* the others are in the barrier meanwhile */
	atomic_fetch_add(&scene->plot->results[scene->me->launch.proc].began, 1);
	if (scene->plot->number == FOR_EVER && scene->me->launch.proc == scene->plot->culprit)
		nap_ms(100000);
	if (scene->plot->number == FOR_EVER)
		return bb_driver_barrier(driver);
	while (atomic_load(&scene->plot->results[3].began) < 2 &&
	       scene->plot->number == AND_COMPLAIN)
		nap_ms(1);
	status = scene->plot->number == AND_COMPLAIN && driver->rank == 0
			 ? bb_fail(&scene->error, BB_EINTERNAL, "rank 0 has no connection")
			 : wait_for_abort(driver);
	return status;
}

#define IS_GONE "rank 2 (h1, pid 1002) is gone: its process ended without reporting a cause"

static void kill_one(struct plot *plot, int victim, int others_signal, int number)
{
	struct process all[MOST_PROCESSES];
	struct meeting *m;

	plot->culprit = victim;
	plot->number = number;
	m = start_play(plot, all);
	kill(all[victim].pid, SIGKILL);
	for (int p = 0; p < plot->n; p++)
		if (p != victim && others_signal)
			kill(all[p].pid, others_signal);
	if (number == AND_COMPLAIN)
		atomic_fetch_add(&plot->results[3].began, 1);
	end_play(plot, all, m, victim);
}

static void test_killed(void **state)
{
	struct plot plot = plot_of(4, 1, wait_for_others);

	kill_one(&plot, 2, 0, FOR_ABORT);
	assert_told_once(&plot, 2, BB_EBACKEND, IS_GONE);
	assert_false(plot.results[0].outcome.stuck);
	plot_free(&plot);
}

/* A launcher that loses a process ends the others, and does not wait long. */
static void test_killed_by_launcher(void **state)
{
	struct plot plot = plot_of(4, 1, wait_for_others);

	kill_one(&plot, 2, SIGTERM, FOR_EVER);
	assert_told_once(&plot, 2, BB_EBACKEND, IS_GONE);
	plot_free(&plot);
}

/* What a driver says first may be no more than a consequence. */
static void test_killed_and_noticed(void **state)
{
	struct plot plot = plot_of(4, 1, wait_for_others);

	kill_one(&plot, 2, 0, AND_COMPLAIN);
	assert_told_once(&plot, 2, BB_EINTERNAL, "rank 0 has no connection; " IS_GONE);
	plot_free(&plot);
}

/* Stuck where nothing can be done, they end all the same. */
static void test_stuck(void **state)
{
	struct plot plot = plot_of(4, 1, wait_for_others);

	kill_one(&plot, 2, 0, FOR_EVER);
	assert_told_once(&plot, 2, BB_EBACKEND, IS_GONE);
	for (int p = 0; p < 4; p++)
		assert_true(p == 2 || plot.results[p].outcome.stuck);
	plot_free(&plot);
}

static void test_first_killed(void **state)
{
	struct plot plot = plot_of(4, 1, wait_for_others);

	kill_one(&plot, 0, 0, FOR_ABORT);
	for (int p = 1; p < 4; p++) {
		const struct result *r = &plot.results[p];

		assert_string_equal(r->text, "rank 0 (h0, pid 1000) is gone: its process ended "
					     "without reporting a cause");
		assert_int_equal(r->status, BB_EBACKEND);
		assert_int_equal(r->outcome.silent, p == 3);
	}
	plot_free(&plot);
}

/* ---- signals ------------------------------------------------------------------------------- */

static void test_signalled(void **state)
{
	struct plot plot = plot_of(3, 1, wait_for_others);
	struct process all[3];
	struct meeting *m = start_play(&plot, all);

	for (int p = 2; p >= 0; p--) {
		kill(all[p].pid, SIGTERM);
		nap_ms(20);
	}
	end_play(&plot, all, m, -1);
	for (int p = 0; p < 3; p++) {
		assert_string_equal(plot.results[p].text, "");
		assert_int_equal(plot.results[p].status, BB_OK);
		assert_int_equal(plot.results[p].outcome.caught, SIGTERM);
		assert_int_equal(plot.results[p].outcome.silent, p != 0);
	}
	plot_free(&plot);
}

/* A signal to process 0 alone ends all, one to another alone as well. */
static void test_one_signalled(void **state)
{
	struct plot plot = plot_of(3, 1, wait_for_others);
	struct process all[3];
	struct meeting *m = start_play(&plot, all);

	kill(all[0].pid, SIGINT);
	end_play(&plot, all, m, -1);
	for (int p = 0; p < 3; p++)
		assert_int_equal(plot.results[p].outcome.caught, SIGINT);
	memset(plot.results, 0, 3 * sizeof(*plot.results));
	m = start_play(&plot, all);
	kill(all[2].pid, SIGTERM);
	end_play(&plot, all, m, -1);
	assert_told_once(&plot, -1, BB_EBACKEND, "rank 2 (h1, pid 1002) was ended by signal 15");
	plot_free(&plot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadline_without_answer),
		cmocka_unit_test(test_deadline_without_word),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_killed_by_launcher),
		cmocka_unit_test(test_killed_and_noticed),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_first_killed),
		cmocka_unit_test(test_signalled),
		cmocka_unit_test(test_one_signalled),
		cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_failure_among_locals),
		cmocka_unit_test(test_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

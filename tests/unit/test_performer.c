/* Who does a program's collectives instead of schedules: what he is asked, and what comes of it. */
#include "simulator/timeline/timeline.h"
#include "script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 4
#define TAKES 0.5

static const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6};

struct asked {
	int times, last; /* how often, and with how many members that have come */
	bool whole;      /* what it says */
	bool refuses;
};

/* All at once, TAKES after the last. */
static bb_status perform(void *own, const struct bb_operation *operation, const int *members, int n,
			 uint64_t number, double *times, bool *whole, struct bb_error *error)
{
	struct asked *asked = own;
	double latest = 0;

	asked->times++;
	asked->last = 0;
	for (int i = 0; i < n; i++) {
		asked->last += !isinf(times[i]);
		latest = fmax(latest, times[i]);
	}
	if (asked->refuses)
		return bb_fail(error, BB_EUNSUPPORTED, "%s: not by this one",
			       operation->collective->name);
	for (int i = 0; i < n; i++)
		times[i] = latest + TAKES;
	*whole = asked->whole;
	return BB_OK;
}

/* Every rank comes to COLLECTIVE so many seconds later than the one before. */
static bb_status play(struct asked *asked, const struct bb_collective *collective, double apart,
		      double *end)
{
	const struct bb_timeline_performer performer = {perform, asked};
	struct bb_error error = {0};
	struct script s;
	bb_status status;

	script_open(&s, RANKS);
	for (int rank = 0; rank < RANKS; rank++) {
		script_compute(&s, rank, 0, rank * apart);
		script_add(&s, rank,
			   (struct bb_operation){.act = BB_ACT_COLLECTIVE,
						 .collective = collective,
						 .count = 1000,
						 .dtype = BB_FLOAT,
						 .in_place = true});
	}
	status = bb_timeline_program_by(&performer, &links, &s.program, NULL, end, &error);
	if (status != BB_OK)
		assert_non_null(strstr(error.text, "not by this one"));
	script_close(&s);
	return status;
}

static void test_begins_with_the_last(void **state)
{
	struct asked asked = {0};
	double end;

	assert_int_equal(play(&asked, &bb_all_reduce, 1, &end), BB_OK);
	assert_true(end == (RANKS - 1) + TAKES);
	assert_int_equal(asked.times, 1);
	assert_int_equal(asked.last, RANKS);
}

/* Of a broadcast some may be done early: asked as each comes, unless nobody is. */
static void test_asked_until_whole(void **state)
{
	struct asked each = {0}, whole = {.whole = true};
	double end;

	assert_int_equal(play(&each, &bb_broadcast, 1, &end), BB_OK);
	assert_true(end == (RANKS - 1) + TAKES);
	assert_int_equal(each.times, RANKS);
	assert_int_equal(play(&whole, &bb_broadcast, 1, &end), BB_OK);
	assert_true(end == (RANKS - 1) + TAKES);
	assert_int_equal(whole.times, 2);
	assert_int_equal(whole.last, RANKS);
}

static void test_refusal_ends_it(void **state)
{
	struct asked asked = {.refuses = true};
	double end;

	assert_int_equal(play(&asked, &bb_all_reduce, 0, &end), BB_EUNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begins_with_the_last),
		cmocka_unit_test(test_asked_until_whole),
		cmocka_unit_test(test_refusal_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_conclude.c - the exit status and the verdict of a run that has measured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include "harness/run/run.h"

static bb_status pass(struct bb_run *run, const char **verdict)
{
	return BB_OK;
}

static bb_status stay_below(struct bb_run *run, const char **verdict)
{
	return BB_EDATA;
}

static bb_status find(struct bb_run *run, const char **verdict)
{
	*verdict = "culprit found";
	return BB_EDATA;
}

static bb_status doubt(struct bb_run *run, const char **verdict)
{
	return bb_fail(&run->error, BB_EBACKEND, "nobody can be compared");
}

static void verdicts_say_what_came_out(void **state)
{
	static const struct {
		bb_status (*judge)(struct bb_run *run, const char **verdict);
		int wrong;
		bb_status error; /* of the measurement */
		int status;
		const char *verdict;
	} cases[] = {
		{NULL, 0, BB_OK, 0, "passed"},
		{pass, 0, BB_OK, 0, "passed"},
		{stay_below, 0, BB_OK, 7, "below the gate"},
		{find, 0, BB_OK, 7, "culprit found"},
		{doubt, 0, BB_OK, 3, "could not judge"},
		{doubt, 2, BB_OK, 7, "wrong data"},
		{doubt, 0, BB_ETIMEOUT, 4, "timed out"},
		{pass, 0, BB_EBACKEND, 3, "failed"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_benchmark benchmark = {.judge = cases[i].judge};
		struct bb_run *run = calloc(1, sizeof(*run));

		assert_non_null(run);
		run->benchmark = &benchmark;
		run->end.results = 1;
		run->end.wrong = cases[i].wrong;
		if (cases[i].error != BB_OK)
			(void)bb_fail(&run->error, cases[i].error, "it ended");
		assert_int_equal(bb_run_conclude(run, 0), cases[i].status);
		assert_string_equal(run->end.verdict, cases[i].verdict);
		free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts_say_what_came_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What ranks find out of each other when the world opens.
 */
#include "harness/run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Each device has one rank that copies for all. */
static void test_first_on_device(void **state)
{
	const struct bb_rank_info infos[] = {
		{.location = {.device = 0, .host = "h1", .bus = "0000:3b:00"}},
		{.location = {.device = 1, .host = "h1", .bus = "0000:5e:00"}},
		{.location = {.device = 0, .host = "h1", .bus = "0000:3b:00"}},
		{.location = {.device = 0, .host = "h2", .bus = "0000:3b:00"}, .node = 1},
		/* Of a process that sees no other device. */
		{.location = {.device = 0, .host = "h1", .bus = "0000:af:00"}},
		/* Two parts of a GPU, each the only device of its process. */
		{.location = {.device = 0, .host = "h1", .bus = "0000:d8:00", .uuid = "01"}},
		{.location = {.device = 0, .host = "h1", .bus = "0000:d8:00", .uuid = "02"}},
	};
	static const bool first[] = {true, true, false, true, true, true, true};

	for (int r = 0; r < 7; r++)
		assert_int_equal(bb_is_first_on_device(infos, r), first[r]);
}

/* Hosts are numbered as they appear, also where ranks of a host do not stand together. */
static void test_nodes(void **state)
{
	struct bb_rank_info infos[] = {
		{.location.host = "h0"}, {.location.host = "h1"}, {.location.host = "h0"},
		{.location.host = "h2"}, {.location.host = "h2"}, {.location.host = "h1"},
	};
	static const int nodes[] = {0, 1, 0, 2, 2, 1};

	bb_number_nodes(infos, 6);
	for (int r = 0; r < 6; r++)
		assert_int_equal(infos[r].node, nodes[r]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_on_device),
					   cmocka_unit_test(test_nodes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

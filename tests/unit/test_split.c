#include "collectives/collective.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const struct {
	const char *split, *mask;
	int colors[8]; /* of ranks 0 to 7 */
} good[] = {
	{NULL, NULL, {0, 0, 0, 0, 0, 0, 0, 0}},
	{"", "", {0, 0, 0, 0, 0, 0, 0, 0}},
	{"AND 0x3", NULL, {0, 1, 2, 3, 0, 1, 2, 3}},
	{"and 0b100", NULL, {0, 0, 0, 0, 4, 4, 4, 4}},
	{"&1", NULL, {0, 1, 0, 1, 0, 1, 0, 1}},
	{"AND 0", NULL, {0, 0, 0, 0, 0, 0, 0, 0}},
	{"OR 6", NULL, {6, 7, 6, 7, 6, 7, 6, 7}},
	{"|0x6", NULL, {6, 7, 6, 7, 6, 7, 6, 7}},
	{"MOD 3", NULL, {0, 1, 2, 0, 1, 2, 0, 1}},
	{"mod2", NULL, {0, 1, 0, 1, 0, 1, 0, 1}},
	{"%2", NULL, {0, 1, 0, 1, 0, 1, 0, 1}},
	{"% 08", NULL, {0, 1, 2, 3, 4, 5, 6, 7}}, /* decimal, not octal */
	{"DIV 4", NULL, {0, 0, 0, 0, 1, 1, 1, 1}},
	{"  /  2  ", NULL, {0, 0, 1, 1, 2, 2, 3, 3}},
	{"+1%8/2", NULL, {0, 1, 1, 2, 2, 3, 3, 0}},
	{"+2%7 DIV 4", NULL, {0, 0, 1, 1, 1, 0, 0, 0}}, /* for a world of 7 ranks */
	{NULL, "3", {0, 1, 2, 3, 0, 1, 2, 3}},
	{NULL, "0x4", {0, 0, 0, 0, 4, 4, 4, 4}},
	{NULL, "c", {0, 0, 0, 0, 4, 4, 4, 4}},
	{"MOD 3", "1", {0, 1, 0, 1, 0, 1, 0, 1}}, /* the mask goes first */
};

static const char *const bad[] = {
	"XOR 3",  "AND",     "AND ",   "AND x",   "AND 0xg", "MOD 0",
	"DIV 0",  "%0",      "/ 0x0",  "3",       "MOD",     "MOD -2",
	"MOD +2", "MOD 2 3", "MOD 2x", "&0b2",    "MOD 1.5", "OR 99999999999",
	"+1/2",   "+1%0/2",  "+%8/2",  "+-1%8/2", "+1%8",    "+1%8+1%8/2",
};

static void test_good(void **state)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct bb_split_rule rule;
		struct bb_error error = {0};

		if (bb_split_parse(&rule, good[i].split, good[i].mask, &error) != BB_OK)
			fail_msg("%s", error.text);
		for (int rank = 0; rank < 8; rank++) {
			if (bb_split_color(&rule, rank) != good[i].colors[rank])
				fail_msg("row %zu: rank %d has color %d", i, rank,
					 bb_split_color(&rule, rank));
		}
	}
}

static void test_bad(void **state)
{
	struct bb_split_rule rule;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct bb_error error = {0};

		if (bb_split_parse(&rule, bad[i], NULL, &error) != BB_EUSAGE)
			fail_msg("'%s' was accepted", bad[i]);
		assert_non_null(strstr(error.text, "NCCL_TESTS_SPLIT"));
		assert_non_null(strstr(error.text, bad[i] + strspn(bad[i], " ")));
	}
	for (size_t i = 0; i < 3; i++) {
		static const char *const masks[] = {"xyz", "-1", "1ffffffff"};
		struct bb_error error = {0};

		assert_int_equal(bb_split_parse(&rule, NULL, masks[i], &error), BB_EUSAGE);
		assert_non_null(strstr(error.text, "NCCL_TESTS_SPLIT_MASK"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "core/recommend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void slower(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		   struct bb_strbuf *out)
{
	if (behind->own)
		bb_strbuf_addf(out, "%s, unlike %s", (const char *)behind->own, ahead->name);
}

static void says(const struct bb_recommendation *choice, const char *wanted)
{
	struct bb_strbuf out = {0};

	bb_recommend(choice, &out);
	assert_string_equal(bb_strbuf_text(&out), wanted);
	bb_strbuf_free(&out);
}

static void test_measured(void **state)
{
	const struct bb_candidate list[] = {
		{"a", 3e-3, 2.9e-3, 3.1e-3, "it waits"},
		{"b", 2e-3, 1.9e-3, 2.1e-3, NULL},
		{"c", 2.2e-3, 2.15e-3, 2.3e-3, NULL},
		{"d", 2.2e-3, 2.1e-3, 2.3e-3, NULL},
	};
	struct bb_recommendation c = {"strategy", "95% confidence", " per batch", list,
				      3,          slower,           NULL};

	says(&c, "# Best strategy: b, 2 ms per batch; next: c, 10.0% longer\n");
	c.n = 2;
	says(&c, "# Best strategy: b, 2 ms per batch; next: a, 50.0% longer: it waits, unlike b\n");
	c.n = 1;
	says(&c, "");
	c.n = 0;
	says(&c, "");
	/* An interval that reaches that of the first. */
	c.n = 4;
	says(&c,
	     "# Tied strategy (95% confidence): b or d, 2 ms per batch; next: c, 10.0% longer\n");
}

static void test_calculated(void **state)
{
	struct bb_candidate list[] = {{"a", 20.001, 0, 0, NULL}, {"b", 20, 0, 0, NULL},
				      {"c", 20.001, 0, 0, NULL}, {"d", 20, 0, 0, NULL},
				      {"e", 20, 0, 0, NULL},     {"f", 21, 0, 0, NULL}};
	struct bb_recommendation c = {"plan", NULL, "", list, 6, slower, NULL};

	says(&c, "# Tied plan (equal but for rounding): b or a or c or d or 1 more, 20 s; next: f, "
		 "5.0% "
		 "longer\n");
	c.n = 5;
	says(&c, "# Tied plan (equal but for rounding): b or a or c or d or 1 more, 20 s\n");
	/* In order of what they need, the first of the tied ones is named first. */
	c.preference = "no more memory";
	says(&c, "# Tied plan (equal but for rounding): a or b or c or d or 1 more, 20 s; the "
		 "first needs "
		 "no more memory than the others\n");
	/* The last bits of a sum do not decide. */
	c.preference = NULL;
	list[0].seconds = 20 * (1 + 0x1p-50);
	c.n = 2;
	says(&c, "# Tied plan (equal but for rounding): a or b, 20 s\n");
	/* Without times the order decides. */
	list[0].seconds = list[1].seconds = NAN;
	list[1].own = "it sends more";
	c.n = 2;
	says(&c, "# Best plan: a; next: b: it sends more, unlike a\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_measured),
		cmocka_unit_test(test_calculated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Bisection: whom the groups of a step and of the steps that narrow it convict.
 */
#include "acceptance/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Six hosts in pairs, and in pairs with the other neighbour: the last host is with the first. */
static void test_culprits(void **state)
{
	static const char profile[] =
		"name: p\nsteps:\n  - name: s\n    ranks: 2\n    nodes: 2\n    run: "
		"all_reduce_perf\n    gates:\n      - metric: busbw\n        from: {bound: 30%}\n";
	static const char hosts[] =
		"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"b\",\"virtual_time\":false,\"ranks\":["
		"{\"rank\":0,\"host\":\"h0\"},{\"rank\":1,\"host\":\"h1\"},{\"rank\":2,\"host\":"
		"\"h2\"},"
		"{\"rank\":3,\"host\":\"h3\"},{\"rank\":4,\"host\":\"h4\"},{\"rank\":5,\"host\":"
		"\"h5\"}]}\n";
	static const char result[] =
		"{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\",\"in_place\":true,"
		"\"wrong\":0,\"size_bytes\":1024,\"time_us\":1,\"busbw_GBps\":231,"
		"\"percent_of_bound\":40,\"bound_source\":\"link\",\"groups\":[0,1,2],"
		"\"group_busbw_GBps\":[";
	static const struct {
		const char *pairs, *shifted; /* GB/s; the limit is 173.25 */
		const char *words[3];
	} cases[] = {
		{"200,50,200", "200,50,200", {"h2: busbw 50 GB/s with h3, limit 173.2; h3 keeps"}},
		{"200,50,200",
		 "200,200,200",
		 {"h2 and h3: busbw 50 GB/s, limit 173.2; each keeps"}},
		{"60,200,200", "50,200,200", {"h0: busbw 60 GB/s with h1, limit 173.2; h1 keeps"}},
		/* Two neighbours of different pairs. */
		{"60,50,200",
		 "200,40,200",
		 {"h1: busbw 60 GB/s with h0", "h2: busbw 50 GB/s with h3"}},
		/* Both of a pair: each is slow with a good neighbour. */
		{"200,40,200",
		 "200,50,60",
		 {"h2: busbw 50 GB/s with h1", "h3: busbw 60 GB/s with h4"}},
		{"200,200,200", "200,200,200", {NULL}},
	};

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		const char *const values[] = {cases[k].pairs, cases[k].shifted};
		struct bb_judgements judgements = {.n = 0};
		struct bb_step_run runs[2] = {{.trouble = ""}};
		struct bb_evidence evidence[2];
		struct bb_error error = {0};
		struct bb_profile *p;
		struct bb_bisection b;
		char text[2048];

		assert_int_equal(bb_profile_read("p", profile, strlen(profile),
						 &(struct bb_scale){.nodes = 6}, &p, &error),
				 BB_OK);
		assert_int_equal(p->nsteps, 2);
		for (int i = 0; i < 2; i++) {
			snprintf(text, sizeof(text), "%s%s%s]}\n", hosts, result, values[i]);
			assert_int_equal(
				bb_records_read("r", text, strlen(text), &runs[i].records, &error),
				BB_OK);
			evidence[i] = (struct bb_evidence){
				.step = &p->steps[i], .runs = &runs[i], .nruns = 1};
			assert_int_equal(bb_judge_step(&evidence[i], &judgements, &error), BB_OK);
		}
		b = bb_bisect(evidence, 2, p->steps, &judgements);
		for (size_t i = 0; i < 3; i++) {
			struct bb_strbuf said = {0};

			if (i < b.n)
				bb_culprit_add_text(&b.list[i], &said);
			if ((i < b.n) != (cases[k].words[i] != NULL) ||
			    (i < b.n && !strstr(bb_strbuf_text(&said), cases[k].words[i])))
				fail_msg("case %zu: %zu culprits, %zu: %s", k, b.n, i,
					 bb_strbuf_text(&said));
			bb_strbuf_free(&said);
		}
		free(b.list);
		for (int i = 0; i < 2; i++)
			bb_records_free(&runs[i].records);
		bb_judgements_free(&judgements);
		bb_profile_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_culprits)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The commands of a profile: what each launcher gets, of real nodes and in virtual time, with words
 * that a shell would misread; and what a gate demands, as one line.
 */
#include "acceptance/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct bb_plan_cluster real = {.cluster = NULL};
static const struct bb_places places = {"bin", "out put"};

static struct bb_profile *profile_of(const char *text, long long nodes)
{
	struct bb_error error = {0};
	struct bb_profile *p = NULL;

	if (bb_profile_read("p", text, strlen(text), &(struct bb_scale){.nodes = nodes}, &p,
			    &error) != BB_OK)
		fail_msg("%s: %s", error.text, text);
	return p;
}

/* The words of STEP must be those of WANT, parted by blanks; "#" stands for the folder's. */
static void expect_words(const struct bb_words_list *words, const char *want)
{
	char copy[1024], *rest, *word;
	size_t n = 0;

	snprintf(copy, sizeof(copy), "%s", want);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest), n++) {
		const char *const wanted = strcmp(word, "#") == 0 ? "out put" : word;

		if (n >= words->n || strcmp(words->words[n], wanted) != 0)
			fail_msg("word %zu is %s, not %s: %s", n,
				 n < words->n ? words->words[n] : "missing", wanted, want);
	}
	assert_int_equal(words->n, n);
	assert_null(words->words[n]);
}

static void expect_command(const char *text, long long nodes, size_t step,
			   const struct bb_plan_cluster *simulated, const char *want)
{
	struct bb_profile *const p = profile_of(text, nodes);
	struct bb_error error = {0};
	struct bb_words_list words;

	assert_true(step < p->nsteps);
	assert_int_equal(
		bb_plan_command(p, &p->steps[step], simulated, NULL, &places, &words, &error),
		BB_OK);
	expect_words(&words, want);
	bb_words_free(&words);
	assert_null(words.words);
	bb_profile_free(p);
}

#define STEP(head, run, more)                                                                      \
	"name: p\n" head "steps:\n  - name: s\n    run: all_reduce_perf " run "\n" more

static void test_launchers(void **state)
{
#define BIN "bin/all_reduce_perf --output-folder # "
	static const struct {
		const char *profile;
		long long nodes;
		size_t step;
		const char *want;
	} cases[] = {
		{STEP("", "-b 8", ""), 0, 0, BIN "-b 8 --json -"},
		{STEP("ranks: 8\n", "-g {per_node} -n {ranks} -w {nodes} {other}", ""), 0, 0,
		 BIN "-g 8 -n 8 -w 1 {other} --json -"},
		/* -t and -g of a launcher's processes */
		{STEP("ranks: 8\nlauncher: mpirun\n", "", ""), 0, 0,
		 "mpirun -np 8 -N 8 " BIN "--json -"},
		{STEP("ranks: 8\nlauncher: mpirun\n", "-g 4", ""), 0, 0,
		 "mpirun -np 2 -N 2 " BIN "-g 4 --json -"},
		{STEP("ranks: 8\nlauncher: mpirun\n", "-t 2 --ngpus 4", ""), 0, 0,
		 "mpirun -np 1 -N 1 " BIN "-t 2 --ngpus 4 --json -"},
		{STEP("ranks: 8\nlauncher: mpirun\n", "-g 16", ""), 0, 0,
		 "mpirun -np 1 -N 1 " BIN "-g 16 --json -"},
		{STEP("ranks: 8\nlauncher: mpirun\n", "-g x -t 0", ""), 0, 0,
		 "mpirun -np 8 -N 8 " BIN "-g x -t 0 --json -"},
		{STEP("ranks: 8\nlauncher: srun\nlauncher_args: --a {ranks} {nodes}\n", "-g 2", ""),
		 0, 0,
		 "srun --mpi=pmix -K1 -N 1 -n 4 --ntasks-per-node=4 --a 8 1 " BIN "-g 2 --json -"},
		/* the arguments of the step win, and without a launcher there are none */
		{STEP("ranks: 8\nlauncher: mpirun\nlauncher_args: --a\n", "-g 8",
		      "    launcher_args: --b\n"),
		 0, 0, "mpirun -np 1 -N 1 --b " BIN "-g 8 --json -"},
		{STEP("ranks: 8\nlauncher: mpirun\nlauncher_args: --a\n", "-g 8",
		      "    launcher: local\n"),
		 0, 0, BIN "-g 8 --json -"},
		{STEP("ranks: 8\n", "-g 8", "    launcher: srun\n"), 0, 0,
		 "srun --mpi=pmix -K1 -N 1 -n 1 --ntasks-per-node=1 " BIN "-g 8 --json -"},
		/* Several nodes need a launcher: mpirun, the profile's, or another step's. */
		{STEP("ranks: 8\nnodes: 2\n", "-g 8", ""), 0, 0,
		 "mpirun -np 2 -N 1 " BIN "-g 8 --json -"},
		{STEP("ranks: 16\nnodes: 2\n", "-g 4", ""), 0, 0,
		 "mpirun -np 4 -N 2 " BIN "-g 4 --json -"},
		{STEP("ranks: 16\nnodes: 2\nlauncher: srun\n", "-g 4", ""), 0, 0,
		 "srun --mpi=pmix -K1 -N 2 -n 4 --ntasks-per-node=2 " BIN "-g 4 --json -"},
		{STEP("ranks: 16\nnodes: 2\nlauncher: srun\n", "", "    launcher: local\n"), 0, 0,
		 "srun --mpi=pmix -K1 -N 2 -n 16 --ntasks-per-node=8 " BIN "--json -"},
		{STEP("ranks: 16\nnodes: 2\n", "",
		      "  - name: t\n    run: all_reduce_perf\n    launcher: srun\n"
		      "  - name: u\n    run: all_reduce_perf\n    launcher: local\n"),
		 0, 0, "srun --mpi=pmix -K1 -N 2 -n 16 --ntasks-per-node=8 " BIN "--json -"},
		/* Groups of a split world: 4 nodes are two groups of 2. */
		{STEP("ranks: 16\nnodes: 2\n", "-n {ranks}", ""), 4, 0,
		 "env NCCL_TESTS_SPLIT=/16 mpirun -np 32 -N 8 -x NCCL_TESTS_SPLIT " BIN
		 "-n 16 --json -"},
		{STEP("ranks: 16\nnodes: 2\n", "", ""), 4, 1,
		 "env NCCL_TESTS_SPLIT=+8%32/16 mpirun -np 32 -N 8 -x NCCL_TESTS_SPLIT " BIN
		 "--json -"},
		{STEP("ranks: 16\nnodes: 2\nlauncher: srun\nlauncher_args: --a {ranks}\n", "", ""),
		 4, 0,
		 "env NCCL_TESTS_SPLIT=/16 srun --mpi=pmix -K1 -N 4 -n 32 --ntasks-per-node=8 "
		 "--a 32 " BIN "--json -"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_command(cases[i].profile, cases[i].nodes, cases[i].step, &real,
			       cases[i].want);
}

/* On a cluster all ranks are one process, with the fault where a step has it. */
static void test_virtual_time(void **state)
{
	static const struct bb_plan_cluster healthy = {.cluster = "h100:4"},
					    faulty = {.cluster = "h100:4",
						      .fault = "slow-rank:17:2",
						      .faulty = 18,
						      .ends = {17, 17},
						      .per_node = 8},
					    link = {.cluster = "h100:4",
						    .fault = "slow-link:9:17:2",
						    .faulty = 18,
						    .ends = {9, 17},
						    .per_node = 8};
	static const char one[] = STEP("ranks: 8\n", "-b 8", "");
	static const char any[] = STEP("", "-b 8", "");
	static const char four[] = STEP("ranks: 32\nnodes: 4\n", "-b 8", "");
	static const char pairs[] = STEP("ranks: 16\nnodes: 2\nlauncher: srun\n", "-n {ranks}", "");
#define SIM BIN "-b 8 --backend sim -t 1 -g "

	expect_command(one, 0, 0, &healthy, SIM "8 --cluster h100:4 --json -");
	expect_command(any, 0, 0, &healthy, BIN "-b 8 --backend sim --cluster h100:4 --json -");
	expect_command(four, 0, 0, &healthy, SIM "32 --cluster h100:4 --json -");
	/* 8 ranks do not reach rank 17; without a number all ranks take part. */
	expect_command(one, 0, 0, &faulty, SIM "8 --cluster h100:4 --json -");
	expect_command(any, 0, 0, &faulty,
		       BIN "-b 8 --backend sim --cluster h100:4 --fault slow-rank:17:2 --json -");
	expect_command(four, 0, 0, &faulty,
		       SIM "32 --cluster h100:4 --fault slow-rank:17:2 --json -");
	/* Rank 17 is on node 2: in the second group, and shifted by one in the first. */
	expect_command(pairs, 4, 0, &faulty,
		       "env NCCL_TESTS_SPLIT=/16 " BIN
		       "-n 16 --backend sim -t 1 -g 32 --cluster h100:4 --fault slow-rank:17:2 "
		       "--json -");
	/* The link of ranks 9 and 17, on nodes 1 and 2, is within a shifted group alone. */
	expect_command(pairs, 4, 0, &link,
		       "env NCCL_TESTS_SPLIT=/16 " BIN
		       "-n 16 --backend sim -t 1 -g 32 --cluster h100:4 --json -");
	expect_command(pairs, 4, 1, &link,
		       "env NCCL_TESTS_SPLIT=+8%32/16 " BIN
		       "-n 16 --backend sim -t 1 -g 32 --cluster h100:4 --fault slow-link:9:17:2 "
		       "--json -");
}

static void test_faulty_groups(void **state)
{
	static const struct {
		int one, other, faulty; /* ranks */
		long long nodes;
		size_t step;
		int64_t group;
	} cases[] = {
		{0, 0, 1, 4, 0, 0},
		{15, 15, 16, 4, 0, 0},
		{16, 16, 17, 4, 0, 1},
		{31, 31, 32, 4, 0, 1},
		{31, 31, 33, 4, 0, -1},
		{7, 8, 9, 4, 0, 0},
		{15, 16, 17, 4, 0, -1},
		/* shifted by a node: nodes 3 and 0, then 1 and 2 */
		{0, 0, 1, 4, 1, 0},
		{8, 8, 9, 4, 1, 1},
		{24, 24, 25, 4, 1, 0},
		{7, 24, 25, 4, 1, 0},
		{7, 8, 9, 4, 1, -1},
		/* five nodes: that left over is no group */
		{31, 31, 32, 5, 0, 1},
		{32, 32, 33, 5, 0, -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_profile *const p =
			profile_of(STEP("ranks: 16\nnodes: 2\n", "", ""), cases[i].nodes);
		struct bb_plan_cluster cluster = {.cluster = "c",
						  .fault = "f",
						  .faulty = cases[i].faulty,
						  .ends = {cases[i].one, cases[i].other},
						  .per_node = 8};
		const struct bb_profile_step *const step = &p->steps[cases[i].step];

		if (bb_plan_faulty_group(&cluster, step) != cases[i].group)
			fail_msg("%zu: group %lld", i,
				 (long long)bb_plan_faulty_group(&cluster, step));
		assert_int_equal(bb_plan_has_fault(&cluster, step), cases[i].group >= 0);
		/* Without a fault the simulator leaves out those left over. */
		assert_int_equal(bb_plan_nodes(&cluster, step),
				 cases[i].nodes == 5 && cases[i].group < 0 ? 4 : cases[i].nodes);
		assert_int_equal(bb_plan_nodes(&real, step), cases[i].nodes);
		assert_int_equal(bb_plan_nodes(NULL, step), cases[i].nodes);
		cluster.fault = NULL;
		assert_int_equal(bb_plan_faulty_group(&cluster, step), -1);
		assert_int_equal(bb_plan_faulty_group(NULL, step), -1);
		bb_profile_free(p);
	}
}

static void test_simulations(void **state)
{
	static const char text[] =
		STEP("ranks: 16\nnodes: 2\n", "-n {nodes}",
		     "    gates:\n      - metric: busbw\n        from: {cluster: \"h100:2\"}\n"
		     "        down: 10%\n      - metric: busbw\n"
		     "        from: {link: \"10GB/s,2us\"}\n        down: 10%\n");
	static const char *const want[] = {"--cluster h100:2", "--link 10GB/s,2us"};
	struct bb_profile *const p = profile_of(text, 0);
	struct bb_error error = {0};
	struct bb_words_list words;
	char line[256];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(bb_plan_command(p, p->steps, &real, &p->steps->gates[i], &places,
						 &words, &error),
				 BB_OK);
		snprintf(line, sizeof(line), BIN "-n 2 --backend sim -t 1 -g 16 %s --json -",
			 want[i]);
		expect_words(&words, line);
		bb_words_free(&words);
	}
	bb_profile_free(p);
}

static void test_lines(void **state)
{
	static const struct {
		const char *words[3], *line;
	} cases[] = {
		{{"a", "b-c_d", "/e.f:g=h,i+j@k%l"}, "a b-c_d /e.f:g=h,i+j@k%l"},
		{{"a b"}, "'a b'"},
		{{"a", "b c", "d"}, "a 'b c' d"},
		{{"it's"}, "'it'\\''s'"},
		{{"$x"}, "'$x'"},
		{{"\xc3\xa9"}, "'\xc3\xa9'"},
		{{"a\\b"}, "'a\\b'"},
		{{"a\tb"}, "$'a\\x09b'"},
		{{"\x1b'\\z\xff"}, "$'\\x1b\\'\\\\z\\xff'"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *words[4] = {NULL};
		struct bb_words_list list = {.words = words};
		struct bb_strbuf out = {0};

		for (; list.n < 3 && cases[i].words[list.n]; list.n++)
			words[list.n] = strdup(cases[i].words[list.n]);
		bb_plan_add_line(&out, &list);
		assert_string_equal(bb_strbuf_text(&out), cases[i].line);
		bb_strbuf_free(&out);
		for (int k = 0; k < 3; k++)
			free(words[k]);
	}
}

/* Each demand names what it selects, its margin and its source. */
static void test_gates(void **state)
{
	static const struct {
		const char *gate, *begins, *has, *lacks;
	} cases[] = {
		{"      - metric: busbw\n        from: {bound: 30%}\n", "busbw, at most ", "30%",
		 "ranks"},
		{"      - metric: busbw\n        where: {collective: all_reduce, size: 8G, ranks: "
		 "8}\n"
		 "        from: {reference: az_a100_1n}\n        down: 10%\n",
		 "busbw all_reduce 8G 8 ranks, at most 10% below: reference ", "231", "above"},
		{"      - metric: time\n        where: {collective: all_reduce, algorithm: ring, "
		 "dtype: float, op: sum, size: 1M, placement: in-place}\n"
		 "        from: {baseline: b.json}\n        up: 25%\n",
		 "time all_reduce ring float sum 1M in-place, at most 25% above: baseline ",
		 "b.json", "below"},
		{"      - metric: bandwidth\n        where: {kind: pair, direction: "
		 "unidirectional}\n"
		 "        from: {bound: 30%}\n",
		 "bandwidth pair unidirectional, at most ", "30%", NULL},
		{"      - shape: no-dip\n        down: 15%\n        from: {rule: because}\n",
		 "busbw dips by at most 15% as size grows: rule because", "", "below"},
		{"      - shape: crossover\n        between: tree, ring\n        window: 2K-16K\n"
		 "        from: {rule: because}\n",
		 "ring overtakes tree within 2K-16K: rule because", "", "busbw"},
		{"      - metric: busbw\n        from: {link: \"10GB/s,2us\"}\n        down: 10%\n",
		 "busbw, at most 10% below: simulator ", "10GB/s,2us", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_strbuf out = {0};
		struct bb_profile *p;
		const char *line;
		char text[1024];

		snprintf(text, sizeof(text), STEP("ranks: 8\n", "", "    gates:\n%s"),
			 cases[i].gate);
		p = profile_of(text, 0);
		bb_plan_add_gate(&out, &p->steps->gates[0]);
		line = bb_strbuf_text(&out);
		if (strncmp(line, cases[i].begins, strlen(cases[i].begins)) != 0 ||
		    !strstr(line, cases[i].has) || (cases[i].lacks && strstr(line, cases[i].lacks)))
			fail_msg("%s", line);
		bb_strbuf_free(&out);
		bb_profile_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launchers),     cmocka_unit_test(test_virtual_time),
		cmocka_unit_test(test_faulty_groups), cmocka_unit_test(test_simulations),
		cmocka_unit_test(test_lines),         cmocka_unit_test(test_gates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

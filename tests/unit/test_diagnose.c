/*
 * Who meets whom, what they do, and the arithmetic of who is to blame. How often that is right:
 * test_diagnose_score.c.
 */
#include "suspects/blocks.h"
#include "suspects/judge.h"
#include "diagnose/diagnose.h"
#include "diagnose/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- rounds --------------------------------------------------------------------------------- */

/* Every pair once, and nobody twice in a round. */
static void circle_meets_all(void **state)
{
	for (int n = 2; n <= 33; n++) {
		bool met[33][33] = {{false}};
		int meetings = 0;

		for (int r = 0; r < bb_circle_rounds(n); r++)
			for (int i = 0; i < n; i++) {
				const int p = bb_circle_partner(n, r, i);

				if (p == BB_NOBODY)
					continue;
				assert_int_not_equal(p, i);
				assert_int_equal(bb_circle_partner(n, r, p), i);
				assert_false(met[i][p]);
				met[i][p] = true;
				meetings++;
			}
		assert_int_equal(meetings, n * (n - 1));
	}
}

/* As many partners for each, all different, whatever the number of nodes. */
static void samples_are_even(void **state)
{
	static const int sizes[] = {100, 101};

	for (int k = 0; k < 2; k++) {
		const int n = sizes[k];
		struct bb_rounds rounds = {0};

		assert_int_equal(bb_rounds_survey(&rounds, n, 8, false, 7), BB_OK);
		assert_int_equal(rounds.n, 8);
		for (int i = 0; i < n; i++) {
			bool met[101] = {false};
			int partners = 0;

			for (int r = 0; r < rounds.n; r++) {
				const int p = bb_rounds_partner(&rounds, r, i);

				if (p == BB_NOBODY)
					continue;
				assert_false(met[p]);
				met[p] = true;
				partners++;
			}
			assert_true(partners >= 8 - n % 2);
		}
		bb_rounds_free(&rounds);
	}
}

/* Suspects meet nobody but proven nodes, suspected pairs each other, each as often as is promised.
 */
static void suspects_meet_the_proven(void **state)
{
	unsigned char standing[12] = {[3] = BB_SUSPECT, [5] = BB_QUESTIONED, [6] = BB_UNPROVEN};
	const struct bb_suspects suspects = {
		.nodes = 12, .standing = standing, .npairs = 1, .pairs = {{2, 5}}};
	struct bb_rounds rounds = {0};
	int alone = 0, pair = 0, met[12] = {0}, before = BB_NOBODY;

	assert_true(bb_suspects_any(&suspects));
	assert_int_equal(bb_rounds_confirm(&rounds, &suspects, 1), BB_OK);
	for (int r = 0; r < rounds.n; r++) {
		const int p = bb_rounds_partner(&rounds, r, 3);
		int resting = 0;

		/* Another one each time, and the others of the proven meet each other. */
		assert_true(p == BB_NOBODY || p != before);
		before = p != BB_NOBODY ? p : before;
		met[p != BB_NOBODY ? p : 3]++;
		for (int i = 0; i < 12; i++)
			resting += standing[i] == BB_PROVEN &&
				   bb_rounds_partner(&rounds, r, i) == BB_NOBODY;
		assert_in_range(resting, 0, 1);
		assert_true(p == BB_NOBODY || standing[p] == BB_PROVEN);
		alone += p != BB_NOBODY;
		pair += bb_rounds_partner(&rounds, r, 2) == 5;
		assert_int_equal(bb_rounds_partner(&rounds, r, 6), BB_NOBODY);
	}
	assert_int_equal(alone, BB_CONFIRMING);
	assert_int_equal(pair, BB_CONFIRMING);
	for (int i = 0; i < 12; i++)
		assert_true(standing[i] != BB_PROVEN || i == 2 || met[i] >= 2);
	bb_rounds_free(&rounds);
}

/* The same pairs in the same order, no more at a time than allowed; who rests alone still rests. */
static void split_rounds_have_the_same_pairs(void **state)
{
	struct bb_rounds whole = {0}, split = {0};
	int round = 0, first = 0, met = 0;

	assert_int_equal(bb_rounds_survey(&whole, 9, 9, false, 3), BB_OK);
	assert_int_equal(bb_rounds_survey(&split, 9, 9, false, 3), BB_OK);
	whole.rail[2] = split.rail[2] = 5;
	assert_int_equal(bb_rounds_split(&split, 3), BB_OK);
	assert_int_equal(split.n, 2 * whole.n);
	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(&split, &m); met++) {
		first = m.round > round ? met : first;
		round = m.round;
		assert_true(met - first < 2 * 3);
		assert_int_equal(bb_rounds_partner(&whole, m.round / 2, m.from), m.to);
		assert_int_equal(split.rail[m.round], whole.rail[m.round / 2]);
	}
	assert_int_equal(met, 9 * 8);
	bb_rounds_free(&whole);
	bb_rounds_free(&split);
}

/* One at a time, each followed by two others that are not suspected, over as many rails. */
static void who_is_alone(void **state)
{
	unsigned char standing[6] = {[3] = BB_SUSPECT, [5] = BB_QUESTIONED};
	const struct bb_suspects suspects = {.nodes = 6, .standing = standing};
	const struct bb_lone_plan plan = {3, 4, {{3, -1, -1}, {3, -1, 0}, {2, 5, 1}}};
	/* Turn by turn, the next that is good; the reference's second end also moves on against the
	 * first. */
	static const int partner[] = {0, 1, 2, 4};
	static const int reference[][4][2] = {{{0, 1}, {1, 4}, {2, 0}, {4, 2}},
					      {{0, 1}, {1, 4}, {2, 0}, {4, 2}},
					      {{0, 1}, {1, 4}, {4, 1}, {4, 0}}};
	struct bb_rounds rounds = {0};

	assert_int_equal(bb_rounds_alone(&rounds, &suspects, &plan), BB_OK);
	assert_int_equal(rounds.n, 24);
	for (int r = 0; r < rounds.n; r++) {
		const struct bb_lone *l = &plan.list[r / 2 % 3];
		const int turn = r / 6, *ends = reference[r / 2 % 3][turn];
		int met = 0;

		for (int i = 0; i < 6; i++)
			met += bb_rounds_partner(&rounds, r, i) != BB_NOBODY;
		assert_int_equal(met, 2);
		assert_int_equal(bb_rounds_partner(&rounds, r, l->node) != BB_NOBODY, r % 2 == 0);
		assert_int_equal(rounds.rail[r], l->rail);
		if (r % 2 == 0)
			assert_int_equal(bb_rounds_partner(&rounds, r, l->node),
					 l->peer >= 0 ? l->peer : partner[turn]);
		else
			assert_int_equal(bb_rounds_partner(&rounds, r, ends[0]), ends[1]);
	}
	bb_rounds_free(&rounds);
}

/* ---- programs ------------------------------------------------------------------------------- */

/* A node has as many rails as the smallest; ranks beyond are measured nowhere. */
static void ports_are_of_nodes(void **state)
{
	static struct bb_rank_info infos[7];
	static struct bb_run run;
	/* Nodes of 2, 2, 2 and 1 ranks have one rail; those of 3, 3 and 1 as well. */
	static const struct {
		int nranks, node_ranks, nodes, rails;
		int node[7], rail[7];
	} cases[] = {
		{7, 2, 4, 1, {0, -1, 1, -1, 2, -1, 3}, {0, 1, 0, 1, 0, 1, 0}},
		{7, 3, 3, 1, {0, -1, -1, 1, -1, -1, 2}, {0, 1, 2, 0, 1, 2, 0}},
		{6, 2, 3, 2, {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 0, 1}},
		{3, 0, 3, 1, {0, 1, 2}, {0, 0, 0}},
		{6, 3, 2, 3, {0, 0, 0, 1, 1, 1}, {0, 1, 2, 0, 1, 2}},
	};

	run.infos = infos;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_ports ports = {.nodes = 0};
		struct bb_error error = {0};

		run.world.nranks = cases[i].nranks;
		assert_int_equal(bb_ports_find(&ports, &run, cases[i].node_ranks, &error),
				 cases[i].nodes < 3 ? BB_EBACKEND : BB_OK);
		assert_int_equal(ports.nodes, cases[i].nodes);
		assert_int_equal(ports.rails, cases[i].rails);
		for (int r = 0; r < cases[i].nranks; r++) {
			const int node = ports.node[r], rail = ports.rail[r];

			assert_int_equal(node, cases[i].node[r]);
			assert_int_equal(rail, cases[i].rail[r]);
			if (node >= 0)
				assert_int_equal(ports.rank[node * ports.rails + rail], r);
		}
		free(ports.rank);
	}
}

/* Without a number of ranks, nodes are hosts; each rank of one host alone, or each of its own, is a
   node. */
static void nodes_are_hosts(void **state)
{
	static struct bb_rank_info infos[7];
	static struct bb_run run;
	static const struct {
		const char *hosts;
		int nodes, rails;
		int node[7], rail[7], rank[8];
	} cases[] = {
		{"abc", 3, 1, {0, 1, 2}, {0, 0, 0}, {0, 1, 2}},
		{"aaa", 3, 1, {0, 1, 2}, {0, 0, 0}, {0, 1, 2}},
		{"aabbcc", 3, 2, {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 0, 1}, {0, 1, 2, 3, 4, 5}},
		{"abcabc", 3, 2, {0, 1, 2, 0, 1, 2}, {0, 0, 0, 1, 1, 1}, {0, 3, 1, 4, 2, 5}},
		{"aababcc",
		 3,
		 2,
		 {0, 0, 1, -1, 1, 2, 2},
		 {0, 1, 0, 2, 1, 0, 1},
		 {0, 1, 2, 4, 5, 6}},
		{"abbbcca",
		 3,
		 2,
		 {0, 1, 1, -1, 2, 2, 0},
		 {0, 0, 1, 2, 0, 1, 1},
		 {0, 6, 1, 2, 4, 5}},
		{"aabb", 2, 2, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2, 3}},
	};

	run.infos = infos;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_ports ports = {.nodes = 0};
		struct bb_error error = {0};

		run.world.nranks = (int)strlen(cases[i].hosts);
		for (int r = 0; r < run.world.nranks; r++)
			infos[r].node = cases[i].hosts[r] - 'a';
		assert_int_equal(bb_ports_find(&ports, &run, 0, &error),
				 cases[i].nodes < 3 ? BB_EBACKEND : BB_OK);
		assert_int_equal(ports.nodes, cases[i].nodes);
		assert_int_equal(ports.rails, cases[i].rails);
		for (int r = 0; r < run.world.nranks; r++) {
			assert_int_equal(ports.node[r], cases[i].node[r]);
			assert_int_equal(ports.rail[r], cases[i].rail[r]);
		}
		for (int p = 0; p < ports.nodes * ports.rails; p++)
			assert_int_equal(ports.rank[p], cases[i].rank[p]);
		free(ports.rank);
	}
}

/* Sends match receives and everything ends, with a rank that sits out and one that is delayed. */
static void programs_keep_the_rules(void **state)
{
	int rank[] = {0, 1, 2, 3, 4, 5}, node[] = {0, 0, 1, 1, 2, 2, -1},
	    rail[] = {0, 1, 0, 1, 0, 1, 0};
	const struct bb_ports ports = {3, 2, rank, node, rail};
	struct bb_rounds rounds = {0};
	struct bb_program program;
	struct bb_error error = {0};
	int *met;

	assert_int_equal(bb_rounds_survey(&rounds, 3, 6, true, 1), BB_OK);
	rounds.rail[1] = 1; /* over one of the rails alone */
	met = bb_probe_met(&rounds, 2);
	assert_non_null(met);
	for (int how = 0; how < 4; how++) {
		const bool slow = how % 2;
		struct bb_probe probe = {
			.ports = &ports,
			.nranks = 7,
			.rounds = &rounds,
			.met = met,
			.in_turn = how / 2,
			.bytes = 1000,
			.large = 2,
			.steps = 3,
			.planted = {.rank = slow ? 2 : -1, .send_s = 1e-3, .late_s = 1e-3}};

		bb_probe_program(&program, &probe);
		assert_int_equal(bb_program_check(&program, &error), BB_OK);
		probe.rounds = NULL;
		bb_probe_program(&program, &probe);
		assert_int_equal(bb_program_check(&program, &error), BB_OK);
	}
	free(met);
	bb_rounds_free(&rounds);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static void numbers_are_right(void **state)
{
	double four[] = {4, 1, 3, 2}, five[] = {5, 4, 3, 2, 1};

	assert_true(bb_low_median(four, 4) == 2);
	assert_true(bb_low_median(five, 5) == 3);
	assert_true(isnan(bb_low_median(five, 0)));
	assert_true(bb_upper(five, 5, 0.25) == 4);
}

/* Paths that are far take longer, and nobody is to blame. */
static void far_paths_are_level(void **state)
{
	const struct bb_spot spots[4] = {{0, 0}, {0, 0}, {1, 0}, {1, 0}};
	struct bb_rounds rounds = {0};
	double level[BB_NEARNESSES];
	float log_s[12];
	struct bb_quantity m = {&rounds, 1, log_s, NULL};

	assert_int_equal(bb_rounds_survey(&rounds, 4, 3, false, 1), BB_OK);
	for (int i = 0; i < 12; i++) {
		const int p = rounds.partner[i];

		log_s[i] = spots[p].core == spots[i % 4].core ? 1 : 2;
	}
	assert_int_equal(bb_level_find(level, &m, spots), BB_OK);
	bb_level_apply(level, &m, spots);
	for (int i = 0; i < 12; i++)
		assert_true(fabsf(log_s[i] - 2) < 1e-6f);
	bb_rounds_free(&rounds);
}

/* Nodes that are fast with each other are a part; who is slow with everybody is of the part that it
   is as far from the others as. */
static void blocks_are_found(void **state)
{
	enum { NODES = 12, ALL = (NODES - 1) * NODES };
	struct bb_rounds rounds = {0};
	struct bb_view view = {.limit = 0};
	struct bb_block_map blocks = {.n = 0};
	float log_s[ALL];
	const struct bb_quantity m = {&rounds, 1, log_s, NULL};

	assert_int_equal(bb_rounds_survey(&rounds, NODES, NODES - 1, false, 1), BB_OK);
	for (int i = 0; i < ALL; i++) {
		const int node = i % NODES, p = rounds.partner[i];

		log_s[i] = (p == 2 || node == 2 ? 3 : 0) + ((p < 10) == (node < 10) ? 0 : 1);
	}
	assert_int_equal(bb_view_make(&view, &m, 0.2), BB_OK);
	assert_int_equal(bb_block_map_find(&blocks, &view), BB_OK);
	assert_int_equal(blocks.n, 2);
	assert_int_equal(blocks.size[0], 10);
	assert_int_equal(blocks.size[1], 2);
	for (int i = 0; i < NODES; i++)
		assert_int_equal(blocks.of[i], i >= 10);
	bb_block_map_apply(&blocks, &m);
	for (int i = 0; i < ALL; i++)
		assert_true(fabsf(log_s[i] - (i % NODES == 2 || rounds.partner[i] == 2 ? 3 : 0)) <
			    1e-6f);
	free(blocks.of);
	free(view.out);
	bb_rounds_free(&rounds);
}

/* Three times the time in all of a node's measurements is suspicious after the least survey. */
static void the_least_survey_suspects(void **state)
{
	for (int nodes = 3; nodes <= 40; nodes++) {
		struct bb_rounds rounds = {0};
		struct bb_view view = {.limit = 0};
		struct bb_suspects suspects = {0};
		struct bb_quantity m = {&rounds, 1, NULL, NULL};
		float *log_s;

		assert_int_equal(bb_rounds_survey(&rounds, nodes, bb_survey_least(nodes), false, 5),
				 BB_OK);
		log_s = calloc((size_t)(rounds.n * nodes), sizeof(*log_s));
		assert_non_null(log_s);
		for (int i = 0; i < rounds.n * nodes; i++)
			log_s[i] = i % nodes == 1 || rounds.partner[i] == 1 ? 1.1f : 0;
		m.log_s = log_s;
		assert_int_equal(bb_view_make(&view, &m, 0.2), BB_OK);
		assert_int_equal(bb_suspect(&suspects, &view, 1), BB_OK);
		for (int i = 0; i < nodes; i++)
			assert_int_equal(suspects.standing[i] == BB_SUSPECT, i == 1);
		free(suspects.standing);
		free(view.out);
		bb_rounds_free(&rounds);
		free(log_s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(circle_meets_all),
		cmocka_unit_test(samples_are_even),
		cmocka_unit_test(suspects_meet_the_proven),
		cmocka_unit_test(split_rounds_have_the_same_pairs),
		cmocka_unit_test(the_least_survey_suspects),
		cmocka_unit_test(who_is_alone),
		cmocka_unit_test(ports_are_of_nodes),
		cmocka_unit_test(nodes_are_hosts),
		cmocka_unit_test(programs_keep_the_rules),
		cmocka_unit_test(numbers_are_right),
		cmocka_unit_test(far_paths_are_level),
		cmocka_unit_test(blocks_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

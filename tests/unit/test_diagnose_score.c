/*
 * Who is to blame, in virtual time: clusters of pairs with measured noise and planted faults. Of
 * each kind the right answer must come in 95 of 100 draws, and of healthy clusters none is blamed.
 * Prints the table that docs/diagnose.md shows.
 */
#include "suspects/blocks.h"
#include "suspects/judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Under sanitizers all takes ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DRAWS 2
#define FEWEST_DRAWS 1
#define MOST_NODES 64
#else
#define DRAWS 100
#define FEWEST_DRAWS 2
#define MOST_NODES 4096
#endif
#define DRAWN_RANKS 400 /* of all draws of a size together, unless `all` is asked for */
#define RIGHT 95        /* percent of the draws */
#define TOLERANCE 0.2
#define STEPS 20
#define PARTNERS 12
#define MOST_FAULTS 4

/* ---- noise ---------------------------------------------------------------------------------- */

/*
 * Of real pairs: the logarithm of a round's time over the median of its pair's rounds, at these
 * shares of 1800 rounds of each quantity. Measured with `diagnose -g 3 --partners 900 --json` on
 * the host backend, November 2026, on a virtual machine with 2 cores and a load of 17: many
 * processes of others ran beside it.
 */
#define POINTS 14
static const double shares[POINTS] = {0,  .01, .05, .1,  .25,  .5,   .75,
				      .9, .95, .98, .99, .995, .998, 1};
static const double noise_of[BB_QUANTITIES][POINTS] = {
	{-.223, -.0914, -.0531, -.035, -.0172, 0, .0223, .0702, .2512, 1.654, 1.7403, 1.9492,
	 2.2419, 4.1436},
	{-.5125, -.4352, -.3773, -.2963, -.0428, 0, .12, .3175, .4222, .5476, .7607, 1.2973, 2.4283,
	 3.426},
};

/*
 * The same of 4 hosts of 2 ranks on 2 cores, made of namespaces, beside builds and tests of others:
 * 1152 rounds of pairs between hosts that were well, `diagnose -b 512K -n 1` under Open MPI.
 */
static const double busy_noise[BB_QUANTITIES][POINTS] = {
	{-4.8317, -3.687, -2.7319, -1.7437, -.5447, 0, .5904, 2.1772, 2.8883, 3.8319, 4.2238,
	 4.8221, 5.207, 6.6618},
	{-3.7661, -2.9265, -2.197, -1.6967, -.5337, 0, .6094, 1.4807, 2.0399, 2.6403, 3.0808,
	 3.5212, 4.6402, 5.3075},
};

static double uniform(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

#define STEPS_OF_NOISE 4096 /* at equal shares */

struct noise {
	float values[BB_QUANTITIES][STEPS_OF_NOISE];
};

static void fill_noise(struct noise *n, const double points[BB_QUANTITIES][POINTS])
{
	for (int q = 0; q < BB_QUANTITIES; q++)
		for (int i = 0, at = 0; i < STEPS_OF_NOISE; i++) {
			const double share = (i + 0.5) / STEPS_OF_NOISE;
			const double *values = points[q];

			while (shares[at + 1] < share)
				at++;
			n->values[q][i] =
				(float)(values[at] + (values[at + 1] - values[at]) *
							     (share - shares[at]) /
							     (shares[at + 1] - shares[at]));
		}
}

/* ---- clusters ------------------------------------------------------------------------------- */

enum fault { NODE, LINK, LINK_RAIL, PORT, RAIL, FLAPPING, STRAGGLER };

struct planted {
	enum fault fault;
	int node, peer, rail;
	double factor;
};

struct cluster {
	int nodes, rails;
	bool all; /* pairs are surveyed; else a sample */
	int nfaults;
	struct planted faults[MOST_FAULTS];
	bool blocks, busy;
	uint64_t state;
	const struct noise *noise;
};

static const struct scenario {
	const char *name;
	enum fault faults[MOST_FAULTS];
	int nfaults;
	bool needs_rails, needs_all;
	bool blocks; /* of the network: three of eight nodes are farther from the others */
	bool busy;   /* processors, which ranks share */
} scenarios[] = {
	{"none", {0}, 0, false, false, false, false},
	{"none, two blocks", {0}, 0, false, true, true, false},
	{"none, busy processors", {0}, 0, true, true, false, true},
	{"a slow node", {NODE}, 1, false, false, false, false},
	{"two slow nodes", {NODE, NODE}, 2, false, false, false, false},
	{"a slow link", {LINK}, 1, false, true, false, false},
	{"two slow links", {LINK, LINK}, 2, false, true, false, false},
	{"two nodes, two links", {NODE, NODE, LINK, LINK}, 4, false, true, false, false},
	{"a slow rail of a node", {PORT}, 1, true, false, false, false},
	{"a slow rail of all nodes", {RAIL}, 1, true, false, false, false},
	{"a flapping node", {FLAPPING}, 1, false, false, false, false},
	{"a straggler", {STRAGGLER}, 1, false, false, false, false},
	{"a slow node, two blocks", {NODE}, 1, false, true, true, false},
	{"a slow link, two blocks", {LINK}, 1, false, true, true, false},
	{"a slow rail of a node, busy processors", {PORT}, 1, true, true, false, true},
	{"a slow link on one rail", {LINK_RAIL}, 1, true, true, false, false},
};

static const struct size {
	int nodes, rails;
	bool all;
} sizes[] = {{4, 2, true},   {8, 1, true},    {8, 8, true},    {64, 1, true},
	     {64, 8, false}, {512, 1, false}, {4096, 1, false}};

static double noise(struct cluster *c, int quantity)
{
	return c->noise->values[quantity][(int)(uniform(&c->state) * STEPS_OF_NOISE)];
}

/* Not on a node that is planted already. */
static int free_node(struct cluster *c)
{
	for (;;) {
		const int node = (int)(uniform(&c->state) * c->nodes);
		bool taken = false;

		for (int i = 0; i < c->nfaults; i++)
			taken = taken || c->faults[i].node == node || c->faults[i].peer == node;
		if (!taken)
			return node;
	}
}

static void plant(struct cluster *c, enum fault fault)
{
	struct planted p = {.fault = fault, .node = free_node(c), .peer = -1, .rail = -1};

	p.factor = c->busy ? 60 : fault == FLAPPING ? 4 : 2.5;
	if (fault == LINK || fault == LINK_RAIL)
		do
			p.peer = free_node(c);
		while (p.peer == p.node);
	if (fault == PORT || fault == RAIL || fault == LINK_RAIL)
		p.rail = (int)(uniform(&c->state) * c->rails);
	if (fault == RAIL)
		p.node = -1;
	c->faults[c->nfaults++] = p;
}

/* By which factor a round's large messages from one to the other are slow. FLAPS: [node]. */
static double factor_of(const struct cluster *c, int from, int to, int rail, const bool *flaps)
{
	double factor = 1;

	for (int i = 0; i < c->nfaults; i++) {
		const struct planted *p = &c->faults[i];
		const bool end = p->node == from || p->node == to;
		const bool hit =
			(p->fault == NODE && end) ||
			((p->fault == LINK || (p->fault == LINK_RAIL && p->rail == rail)) &&
			 p->node == from && p->peer == to) ||
			(p->fault == PORT && end && p->rail == rail) ||
			(p->fault == RAIL && p->rail == rail) ||
			(p->fault == FLAPPING && end && flaps[i]);

		factor = hit && p->factor > factor ? p->factor : factor;
	}
	return factor;
}

#define FLAPS_IN 0.4 /* of the rounds */
#define FAR 1.8      /* times as long from one part to another */
#define WAITS_IN 0.3 /* of its rounds a slow rail keeps its neighbours waiting, */
#define WAITS 8      /* who take so many times as long */

static bool is_far(const struct cluster *c, int node)
{
	return c->blocks && 8 * node >= 5 * c->nodes;
}

/* Who waits for a processor that others keep busy because a rail of theirs is slow? */
static double waiting(struct cluster *c, const struct bb_rounds *rounds, int round, int from,
		      int to, int rail)
{
	for (int i = 0; i < c->nfaults && c->busy; i++) {
		const struct planted *p = &c->faults[i];

		if (p->rail != rail && (p->node == from || p->node == to) &&
		    bb_rounds_has(rounds, round, to, p->rail) && uniform(&c->state) < WAITS_IN)
			return WAITS;
	}
	return 1;
}

/* What would be measured in ROUNDS. The caller frees it. */
static float *measure(struct cluster *c, const struct bb_rounds *rounds, int quantity)
{
	const size_t n = (size_t)rounds->n * (size_t)c->nodes * (size_t)c->rails;
	float *log_s = malloc((n + 1) * sizeof(*log_s));
	size_t at = 0;

	assert_non_null(log_s);
	for (int r = 0; r < rounds->n; r++) {
		bool flaps[MOST_FAULTS];

		for (int i = 0; i < MOST_FAULTS; i++)
			flaps[i] = uniform(&c->state) < FLAPS_IN;
		for (int node = 0; node < c->nodes; node++)
			for (int k = 0; k < c->rails; k++, at++) {
				const int from = bb_rounds_partner(rounds, r, node);

				log_s[at] = NAN;
				if (!bb_rounds_has(rounds, r, node, k))
					continue;
				log_s[at] = (float)noise(c, quantity);
				if (is_far(c, from) != is_far(c, node))
					log_s[at] += (float)log(FAR);
				log_s[at] += (float)log(waiting(c, rounds, r, from, node, k));
				if (quantity == 1 || c->busy)
					log_s[at] += (float)log(factor_of(c, from, node, k, flaps));
			}
	}
	return log_s;
}

/* Seconds in the collective: a fifth of a step usually; who is late by a third of it waits less. */
static float *measure_steps(struct cluster *c)
{
	const int ranks = c->nodes * c->rails;
	float *waits = malloc((size_t)STEPS * (size_t)ranks * sizeof(*waits));

	assert_non_null(waits);
	for (int i = 0; i < STEPS; i++) {
		double late = 0;

		for (int f = 0; f < c->nfaults; f++)
			late = c->faults[f].fault == STRAGGLER ? 0.33e-3 : late;
		for (int r = 0; r < ranks; r++) {
			bool mine = false;

			for (int f = 0; f < c->nfaults; f++)
				mine = mine || (c->faults[f].fault == STRAGGLER &&
						c->faults[f].node * c->rails == r);
			waits[r * STEPS + i] =
				(float)(0.2e-3 * exp(noise(c, 0)) + (mine ? 0 : late));
		}
	}
	return waits;
}

/* Measured in some rounds: both quantities. */
struct taken {
	struct bb_rounds rounds;
	float *log_s[BB_QUANTITIES];
	struct bb_quantity of[BB_QUANTITIES];
};

/* As if all ways were alike, once PARTS are known. */
static void take(struct cluster *c, const struct bb_block_map *blocks, struct taken *t)
{
	for (int q = 0; q < BB_QUANTITIES; q++) {
		t->log_s[q] = measure(c, &t->rounds, q);
		t->of[q] = (struct bb_quantity){&t->rounds, c->rails, t->log_s[q], NULL};
		bb_block_map_apply(&blocks[q], &t->of[q]);
	}
}

static void drop(struct taken *t)
{
	for (int q = 0; q < BB_QUANTITIES; q++)
		free(t->log_s[q]);
	bb_rounds_free(&t->rounds);
}

/* As diagnose does with who was convicted. */
static void retest_alone(struct cluster *c, const struct bb_block_map *blocks,
			 const struct bb_suspects *suspects, const struct bb_view *views,
			 struct bb_verdicts *verdicts, int first)
{
	struct taken alone = {.rounds = {0}};
	struct bb_lone_plan plan;

	bb_lone_plan_make(&plan, verdicts, first);
	if (plan.n == 0)
		return;
	assert_int_equal(bb_rounds_alone(&alone.rounds, suspects, &plan), BB_OK);
	take(c, blocks, &alone);
	assert_int_equal(bb_acquit(verdicts, first, views, alone.of), BB_OK);
	drop(&alone);
}

static void confirm_suspects(struct cluster *c, const struct bb_block_map *blocks, uint64_t seed,
			     const struct bb_suspects *suspects, const struct bb_view *views,
			     struct bb_verdicts *verdicts)
{
	struct taken again = {.rounds = {0}};

	assert_int_equal(bb_rounds_confirm(&again.rounds, suspects, seed), BB_OK);
	take(c, blocks, &again);
	for (enum bb_accused who = BB_ACCUSED_NODES; who <= BB_ACCUSED_LINKS; who++) {
		const int first = verdicts->n;

		assert_int_equal(bb_convict(verdicts, who, suspects, views, again.of, TOLERANCE),
				 BB_OK);
		retest_alone(c, blocks, suspects, views, verdicts, first);
	}
	drop(&again);
}

static void view(struct bb_view *v, struct bb_block_map *blocks, struct taken *survey, int q)
{
	assert_int_equal(bb_view_make(v, &survey->of[q], TOLERANCE), BB_OK);
	assert_int_equal(bb_block_map_find(blocks, v), BB_OK);
	if (blocks->n == 0)
		return;
	bb_block_map_apply(blocks, &survey->of[q]);
	assert_int_equal(bb_view_make(v, &survey->of[q], TOLERANCE), BB_OK);
}

static void diagnose(struct cluster *c, uint64_t seed, struct bb_verdicts *verdicts)
{
	struct taken survey = {.rounds = {0}};
	struct bb_block_map blocks[BB_QUANTITIES] = {{.n = 0}};
	struct bb_view views[BB_QUANTITIES] = {{.limit = 0}};
	struct bb_suspects suspects = {0};
	float *waits;

	assert_int_equal(bb_rounds_survey(&survey.rounds, c->nodes, PARTNERS, c->all, seed), BB_OK);
	take(c, blocks, &survey);
	for (int q = 0; q < BB_QUANTITIES; q++)
		view(&views[q], &blocks[q], &survey, q);
	assert_int_equal(bb_suspect(&suspects, views, BB_QUANTITIES), BB_OK);
	if (bb_suspects_any(&suspects))
		confirm_suspects(c, blocks, seed, &suspects, views, verdicts);
	waits = measure_steps(c);
	assert_int_equal(
		bb_find_stragglers(verdicts, waits, STEPS, c->nodes * c->rails, 1e-3, TOLERANCE),
		BB_OK);
	free(waits);
	for (int q = 0; q < BB_QUANTITIES; q++) {
		free(views[q].out);
		free(blocks[q].of);
	}
	free(suspects.standing);
	drop(&survey);
}

/* ---- is it right? --------------------------------------------------------------------------- */

static bool matches(const struct cluster *c, const struct planted *p, const struct bb_diagnosis *v)
{
	if (v->flapping != (p->fault == FLAPPING))
		return false;
	switch (p->fault) {
	case NODE:
	case FLAPPING:
		return v->charge == BB_CHARGE_NODE && v->node == p->node;
	case LINK:
	case LINK_RAIL:
		return v->charge == BB_CHARGE_LINK && v->rail == p->rail &&
		       ((v->node == p->node && v->peer == p->peer && v->sends && !v->receives) ||
			(v->node == p->peer && v->peer == p->node && v->receives && !v->sends));
	case PORT:
		return v->charge == BB_CHARGE_PORT && v->node == p->node && v->rail == p->rail;
	case RAIL:
		return v->charge == BB_CHARGE_RAIL && v->rail == p->rail;
	case STRAGGLER:
		return v->charge == BB_CHARGE_STRAGGLER && v->node == p->node * c->rails;
	}
	return false;
}

struct score {
	int right, missed, blamed; /* draws; some may be both of the last two */
};

static void judge(const struct cluster *c, const struct bb_verdicts *verdicts, struct score *score)
{
	int found = 0, false_ones = 0;

	for (int i = 0; i < verdicts->n; i++) {
		bool right = false;

		if (verdicts->list[i].contended)
			continue;
		for (int f = 0; f < c->nfaults; f++)
			right = right || matches(c, &c->faults[f], &verdicts->list[i]);
		found += right;
		false_ones += !right;
	}
	score->right += found == c->nfaults && false_ones == 0;
	score->missed += found < c->nfaults;
	score->blamed += false_ones > 0;
}

static struct score play(const struct scenario *s, const struct size *size, int draws)
{
	struct score score = {0};
	struct noise noise;

	fill_noise(&noise, s->busy ? busy_noise : noise_of);
	for (int draw = 0; draw < draws; draw++) {
		struct cluster c = {.nodes = size->nodes,
				    .rails = size->rails,
				    .all = size->all,
				    .blocks = s->blocks,
				    .busy = s->busy,
				    .noise = &noise,
				    .state = (uint64_t)(draw + 1) * UINT64_C(0xd1342543de82ef95) +
					     (uint64_t)(s - scenarios)};
		struct bb_verdicts verdicts = {0};

		for (int i = 0; i < s->nfaults; i++)
			plant(&c, s->faults[i]);
		diagnose(&c, (uint64_t)draw, &verdicts);
		judge(&c, &verdicts, &score);
		free(verdicts.list);
	}
	return score;
}

static bool is_wanted(const struct scenario *s, const struct size *size)
{
	if (s->nfaults > 3 && size->nodes < 64)
		return false; /* hardly anybody would be healthy */
	if ((size->nodes < 8) != s->busy)
		return false; /* of a few nodes the noise alone */
	return (!s->needs_rails || size->rails > 1) && (!s->needs_all || size->all) &&
	       size->nodes <= MOST_NODES;
}

static int draws_of(const struct size *size, bool all)
{
	const int affordable = DRAWN_RANKS / (size->nodes * size->rails);

	return all || affordable > DRAWS   ? DRAWS
	       : affordable < FEWEST_DRAWS ? FEWEST_DRAWS
					   : affordable;
}

static void planted_faults(void **state)
{
	const bool all = *state;

	printf("| planted | nodes | rails | survey | draws | right | missed | false blame |\n"
	       "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			const struct scenario *s = &scenarios[i];
			const struct size *size = &sizes[k];
			const int draws = draws_of(size, all);
			struct score score;

			if (!is_wanted(s, size))
				continue;
			score = play(s, size, draws);
			printf("| %s | %d | %d | %s | %d | %d | %d | %d |\n", s->name, size->nodes,
			       size->rails, size->all ? "all pairs" : "12 partners", draws,
			       score.right, score.missed, score.blamed);
			fflush(stdout);
			/* Of few draws one may be missed: which, the last bit of a logarithm
			 * decides. */
			assert_true(draws - score.right <= (draws * (100 - RIGHT) + 99) / 100);
			assert_true(s->nfaults > 0 || score.blamed == 0);
		}
}

int main(int argc, char **argv)
{
	bool all = true; /* draws, as many of large clusters too */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(planted_faults, argc > 1 ? &all : NULL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

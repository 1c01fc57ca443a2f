/*
 * Verdicts of small clusters whose faults are known: every field, with next to no noise.
 */
#include "suspects/judge.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define NODES 9
#define TOLERANCE 0.2
#define PARTNERS 12
#define ANY (-1)

/* Messages from FROM to TO (ANY: all) over RAIL take FACTOR times as long, in one quantity. */
struct fault {
	int quantity, from, to, rail;
	double factor;
	int period;  /* only in one of so many rounds; 0: always */
	bool beside; /* only while others communicate */
};

struct cluster {
	int rails, nfaults;
	struct fault faults[8];
	const struct bb_spot *places; /* NULL: all pairs compare */
	double floor;                 /* above 0: ranks share processors */
};

/* Less than a thousandth, and never the same. */
static double noise_of(int round, int node, int rail)
{
	return 1e-4 * ((round * 7 + node * 5 + rail * 3) % 11 - 5);
}

struct taken {
	struct bb_rounds rounds;
	float *log_s[BB_QUANTITIES];
	struct bb_quantity of[BB_QUANTITIES];
};

static void measure(const struct cluster *c, struct taken *t, bool alone)
{
	const int n = t->rounds.n, rails = c->rails;

	for (int q = 0; q < BB_QUANTITIES; q++) {
		float *log_s = malloc((size_t)(n * NODES * rails + 1) * sizeof(*log_s));

		assert_non_null(log_s);
		for (int i = 0; i < n * NODES * rails; i++) {
			const int round = i / rails / NODES, node = i / rails % NODES,
				  k = i % rails;
			const int from = bb_rounds_partner(&t->rounds, round, node);

			log_s[i] = NAN;
			if (!bb_rounds_has(&t->rounds, round, node, k))
				continue;
			log_s[i] = (float)(q - 10 + noise_of(round, node, k));
			for (int f = 0; f < c->nfaults; f++) {
				const struct fault *fault = &c->faults[f];

				if (fault->quantity == q && (!alone || !fault->beside) &&
				    (fault->from == ANY || fault->from == from) &&
				    (fault->to == ANY || fault->to == node) &&
				    (fault->rail == ANY || fault->rail == k) &&
				    (fault->period == 0 || round % fault->period == 0))
					log_s[i] += (float)log(fault->factor);
			}
		}
		t->log_s[q] = log_s;
		t->of[q] = (struct bb_quantity){&t->rounds, rails, log_s, c->places};
	}
}

static void drop(struct taken *t)
{
	for (int q = 0; q < BB_QUANTITIES; q++)
		free(t->log_s[q]);
	bb_rounds_free(&t->rounds);
}

struct outcome {
	unsigned char standing[NODES];
	int npairs;
	struct bb_suspect_pair pair;
	bool rails;
	struct bb_verdicts verdicts;
};

static void retest(const struct cluster *c, const struct bb_suspects *suspects,
		   const struct bb_view *views, struct bb_verdicts *verdicts, int first)
{
	struct taken alone = {.rounds = {0}};
	struct bb_lone_plan plan;

	bb_lone_plan_make(&plan, verdicts, first);
	if (plan.n == 0)
		return;
	assert_int_equal(bb_rounds_alone(&alone.rounds, suspects, &plan), BB_OK);
	measure(c, &alone, true);
	assert_int_equal(bb_acquit(verdicts, first, views, alone.of), BB_OK);
	drop(&alone);
}

/* As diagnose does. */
static struct outcome diagnose(const struct cluster *c)
{
	struct taken survey = {.rounds = {0}}, again = {.rounds = {0}};
	struct bb_view views[BB_QUANTITIES] = {{.limit = 0}};
	struct bb_suspects s = {0};
	struct outcome o = {.npairs = 0};
	struct bb_verdicts *v = &o.verdicts;

	assert_int_equal(bb_rounds_survey(&survey.rounds, NODES, PARTNERS, true, 3), BB_OK);
	measure(c, &survey, false);
	for (int q = 0; q < BB_QUANTITIES; q++) {
		views[q].floor = c->floor;
		assert_int_equal(bb_view_make(&views[q], &survey.of[q], TOLERANCE), BB_OK);
		assert_true(fabs(views[q].limit - fmax(c->floor, -log(1 - TOLERANCE))) < 1e-12);
		assert_int_equal(views[q].of, survey.rounds.n * (NODES - 1) * c->rails);
	}
	assert_int_equal(bb_suspect(&s, views, BB_QUANTITIES), BB_OK);
	memcpy(o.standing, s.standing, NODES);
	o.npairs = s.npairs;
	o.pair = s.pairs[0];
	o.rails = s.rails;
	if (bb_suspects_any(&s)) {
		assert_int_equal(bb_rounds_confirm(&again.rounds, &s, 5), BB_OK);
		measure(c, &again, false);
		for (enum bb_accused who = BB_ACCUSED_NODES; who <= BB_ACCUSED_LINKS; who++) {
			const int first = v->n;

			assert_int_equal(bb_convict(v, who, &s, views, again.of, TOLERANCE), BB_OK);
			retest(c, &s, views, v, first);
		}
		drop(&again);
	}
	for (int q = 0; q < BB_QUANTITIES; q++)
		free(views[q].out);
	free(s.standing);
	drop(&survey);
	return o;
}

static int suspects_in(const struct outcome *o)
{
	int n = 0;

	for (int i = 0; i < NODES; i++)
		n += o->standing[i] == BB_SUSPECT;
	return n;
}

/* Verdict I is on NODE, PEER and RAIL, slow in these quantities and directions by FACTOR. */
static void assert_verdict(const struct bb_diagnosis *v, struct bb_diagnosis wanted)
{
	assert_int_equal(v->charge, wanted.charge);
	assert_int_equal(v->node, wanted.node);
	assert_int_equal(v->peer, wanted.peer);
	assert_int_equal(v->rail, wanted.rail);
	assert_int_equal(v->sends, wanted.sends);
	assert_int_equal(v->receives, wanted.receives);
	for (int q = 0; q < BB_QUANTITIES; q++) {
		assert_int_equal(v->slow[q], wanted.slow[q]);
		if (v->slow[q])
			assert_true(fabs(v->limit[q] + log(1 - TOLERANCE)) < 1e-3);
	}
	if (!(fabs(v->factor - wanted.factor) <= 2e-3 && fabs(v->share - wanted.share) <= 0.07))
		fail_msg("factor %g, share %g", v->factor, v->share);
	assert_int_equal(v->flapping, wanted.flapping);
	assert_int_equal(v->alone, wanted.alone);
	assert_int_equal(v->contended, wanted.contended);
	assert_int_equal(v->shares, wanted.shares);
	assert_true(v->measured >= BB_CONFIRMING);
	assert_true(v->chance < BB_FALSE_BLAME);
}

static void test_healthy(void **state)
{
	const struct outcome o = diagnose(&(struct cluster){.rails = 2});

	for (int i = 0; i < NODES; i++)
		assert_int_equal(o.standing[i], BB_PROVEN);
	assert_int_equal(o.npairs, 0);
	assert_false(o.rails);
	assert_int_equal(o.verdicts.n, 0);
	assert_false(o.verdicts.unjudged);
}

/* Sending, receiving, or both; in latency, bandwidth, or both; all the time or not. */
/* Where pairs compare only at the same distance, here all of them, the verdict is the same. */
static void test_node(void **state)
{
	static const struct bb_spot places[NODES];

	for (int how = 0; how < 8; how++) {
		const bool sends = how % 3 != 1, receives = how % 3 != 0, flaps = how > 5;
		const int rails = how % 2 ? 1 : 3;
		struct cluster c = {.rails = rails, .places = how == 5 ? places : NULL};
		struct outcome o;

		for (int q = how == 3; q < (how == 4 ? 1 : BB_QUANTITIES); q++) {
			if (sends)
				c.faults[c.nfaults++] =
					(struct fault){q, 4, ANY, ANY, 2, 3 * flaps, false};
			if (receives)
				c.faults[c.nfaults++] =
					(struct fault){q, ANY, 4, ANY, 2, 3 * flaps, false};
		}
		o = diagnose(&c);
		assert_int_equal(suspects_in(&o), 1);
		assert_int_equal(o.standing[4], BB_SUSPECT);
		assert_true(flaps || o.npairs == 0);
		assert_false(o.rails);
		assert_int_equal(o.verdicts.n, 1);
		assert_verdict(&o.verdicts.list[0],
			       (struct bb_diagnosis){.charge = BB_CHARGE_NODE,
						     .node = 4,
						     .peer = -1,
						     .rail = -1,
						     .sends = sends,
						     .receives = receives,
						     .slow = {how != 3, how != 4},
						     .factor = 2,
						     .share = flaps ? 1 / 3. : 1,
						     .flapping = flaps,
						     .alone = true});
		free(o.verdicts.list);
	}
}

/* A node that is slow only beside others is contended, and not to blame. */
static void test_contended(void **state)
{
	const struct cluster c = {
		.rails = 1, .nfaults = 1, .faults = {{1, 4, ANY, ANY, 2, 0, true}}};
	struct outcome o = diagnose(&c);

	assert_int_equal(o.verdicts.n, 1);
	assert_true(o.verdicts.list[0].alone);
	assert_true(o.verdicts.list[0].contended);
	free(o.verdicts.list);
}

/* One rail of a node, or of all nodes; and two rails of a node that are slow only together. */
static void test_rails(void **state)
{
	struct bb_diagnosis wanted = {.charge = BB_CHARGE_PORT,
				      .node = 6,
				      .peer = -1,
				      .rail = 2,
				      .sends = true,
				      .slow = {false, true},
				      .factor = 1.5,
				      .share = 1,
				      .alone = true};
	struct cluster c = {.rails = 4, .nfaults = 1, .faults = {{1, 6, ANY, 2, 1.5, 0, false}}};
	struct outcome o = diagnose(&c);

	assert_int_equal(o.standing[6], BB_SUSPECT);
	assert_int_equal(suspects_in(&o), 1);
	assert_int_equal(o.verdicts.n, 1);
	assert_verdict(&o.verdicts.list[0], wanted);
	free(o.verdicts.list);

	c.faults[0] = (struct fault){1, ANY, ANY, 2, 1.5, 0, false};
	o = diagnose(&c);
	assert_true(o.rails);
	assert_int_equal(suspects_in(&o), 0);
	assert_int_equal(o.verdicts.n, 1);
	wanted.charge = BB_CHARGE_RAIL;
	wanted.node = -1;
	wanted.receives = true;
	wanted.alone = false;
	assert_verdict(&o.verdicts.list[0], wanted);
	free(o.verdicts.list);

	c.faults[0] = (struct fault){1, 6, ANY, 1, 2, 0, true};
	c.faults[1] = (struct fault){1, 6, ANY, 2, 2, 0, true};
	c.nfaults = 2;
	o = diagnose(&c);
	assert_int_equal(o.verdicts.n, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(o.verdicts.list[i].charge, BB_CHARGE_PORT);
		assert_int_equal(o.verdicts.list[i].rail, 1 + i);
		assert_true(o.verdicts.list[i].shares);
		assert_false(o.verdicts.list[i].contended);
	}
	free(o.verdicts.list);
}

/* A link, there, back or both ways, over all rails or one of them. */
static void test_link(void **state)
{
	for (int how = 0; how < 5; how++) {
		const bool there = how != 1, back = how != 0;
		const int rail = how < 3 ? -1 : how - 3;
		struct cluster c = {.rails = how == 2 ? 1 : 2};
		struct outcome o;

		if (there)
			c.faults[c.nfaults++] = (struct fault){1, 2, 5, rail, 3, 0, false};
		if (back)
			c.faults[c.nfaults++] = (struct fault){1, 5, 2, rail, 3, 0, false};
		o = diagnose(&c);
		assert_int_equal(suspects_in(&o), 0);
		assert_int_equal(o.npairs, 1);
		assert_int_equal(o.pair.a, 2);
		assert_int_equal(o.pair.b, 5);
		assert_int_equal(o.verdicts.n, 1);
		assert_verdict(&o.verdicts.list[0], (struct bb_diagnosis){.charge = BB_CHARGE_LINK,
									  .node = 2,
									  .peer = 5,
									  .rail = rail,
									  .sends = there,
									  .receives = back,
									  .slow = {false, true},
									  .factor = 3,
									  .share = 1,
									  .alone = true});
		free(o.verdicts.list);
	}
}

/* Fewer than half are suspects: of five slow nodes of nine, four. */
static void test_too_many(void **state)
{
	struct cluster c = {.rails = 1};
	struct outcome o;

	for (int i = 0; i < 5; i++)
		c.faults[c.nfaults++] = (struct fault){1, i, ANY, ANY, 3 + i, 0, false};
	o = diagnose(&c);
	assert_in_range(suspects_in(&o), 0, 4);
	free(o.verdicts.list);
}

/* Where ranks share processors, only what takes longer than the floor is slow: 1.65 times. */
static void test_floor(void **state)
{
	for (int how = 0; how < 4; how++) {
		const double factor = how % 2 ? 1.5 : 2;
		struct cluster c = {.rails = 2, .floor = 0.5, .nfaults = 1};
		struct outcome o;

		c.faults[0] = how < 2 ? (struct fault){1, 4, ANY, ANY, factor, 0, false}
				      : (struct fault){1, 2, 5, ANY, factor, 0, false};
		o = diagnose(&c);
		/* The ends of the link were not measured again with others: nobody judges it. */
		assert_int_equal(o.verdicts.unjudged, how == 2);
		assert_int_equal(o.verdicts.n, how == 0);
		if (how == 0) {
			const struct bb_diagnosis *const v = &o.verdicts.list[0];

			assert_int_equal(v->charge, BB_CHARGE_NODE);
			assert_int_equal(v->node, 4);
			assert_int_equal(v->peer, -1);
			assert_true(v->sends && !v->receives && v->slow[1] && !v->slow[0]);
			assert_true(fabs(v->factor - 2) < 2e-3);
			assert_true(fabs(v->limit[1] - 0.5) < 1e-9);
			assert_false(v->flapping || v->contended);
		}
		free(o.verdicts.list);
	}
}

/* A link answers for what it is slower than its ends are with others, who are slow by less than the
   tolerance: the sender or the receiver. */
static void test_link_of_slow_ends(void **state)
{
	for (int how = 0; how < 4; how++) {
		struct cluster c = {.rails = how / 2 + 1};
		struct outcome o;

		c.faults[c.nfaults++] = (struct fault){1, 2, 5, ANY, 1.4, 0, false};
		c.faults[c.nfaults++] = how % 2 ? (struct fault){1, ANY, 5, ANY, 1.15, 0, false}
						: (struct fault){1, 2, ANY, ANY, 1.15, 0, false};
		o = diagnose(&c);
		assert_int_equal(o.verdicts.n, 1);
		assert_verdict(&o.verdicts.list[0], (struct bb_diagnosis){.charge = BB_CHARGE_LINK,
									  .node = 2,
									  .peer = 5,
									  .rail = -1,
									  .sends = true,
									  .slow = {false, true},
									  .factor = 1.4,
									  .share = 1,
									  .alone = true});
		free(o.verdicts.list);
	}
}

/* A bad node explains its links; a link that is slow beside it is another verdict. */
static void test_node_and_link(void **state)
{
	const struct cluster c = {.rails = 1,
				  .nfaults = 3,
				  .faults = {{1, 4, ANY, ANY, 2, 0, false},
					     {1, 2, 5, ANY, 3, 0, false},
					     {1, 4, 7, ANY, 3, 0, false}}};
	struct outcome o = diagnose(&c);

	assert_int_equal(o.verdicts.n, 2);
	assert_int_equal(o.verdicts.list[0].charge, BB_CHARGE_NODE);
	assert_int_equal(o.verdicts.list[0].node, 4);
	assert_int_equal(o.verdicts.list[1].charge, BB_CHARGE_LINK);
	assert_int_equal(o.verdicts.list[1].node, 2);
	assert_int_equal(o.verdicts.list[1].peer, 5);
	free(o.verdicts.list);
}

/* A rail that is far slower than the others of a slow node stands out of it; three alike of four
   are the node. */
static void test_rails_of_a_node(void **state)
{
	struct cluster c = {.rails = 4};
	struct outcome o;

	for (int k = 0; k < 4; k++)
		c.faults[c.nfaults++] = (struct fault){1, 4, ANY, k, k == 2 ? 4 : 1.4, 0, false};
	o = diagnose(&c);
	assert_int_equal(o.verdicts.n, 1);
	assert_int_equal(o.verdicts.list[0].charge, BB_CHARGE_NODE);
	assert_int_equal(o.verdicts.list[0].node, 4);
	free(o.verdicts.list);
	c.nfaults = 3; /* not the fourth */
	c.faults[2].factor = 1.4;
	o = diagnose(&c);
	assert_int_equal(o.verdicts.n, 1);
	assert_int_equal(o.verdicts.list[0].charge, BB_CHARGE_NODE);
	assert_int_equal(o.verdicts.list[0].rail, -1);
	assert_true(fabs(o.verdicts.list[0].factor - 1.4) < 2e-3);
	free(o.verdicts.list);
	/* two rails of four are no node */
	c.nfaults = 2;
	o = diagnose(&c);
	assert_int_equal(o.verdicts.n, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(o.verdicts.list[i].charge, BB_CHARGE_PORT);
		assert_int_equal(o.verdicts.list[i].rail, i);
		assert_false(o.verdicts.list[i].shares);
	}
	free(o.verdicts.list);
}

/* Nodes, ports and links are measured alone, as often as the worst of them needs. */
static void test_lone_plans(void **state)
{
	struct bb_diagnosis list[80] = {
		{.charge = BB_CHARGE_NODE, .node = 4, .peer = -1, .rail = -1},
		{.charge = BB_CHARGE_LINK, .node = 2, .peer = 5, .rail = 1},
		{.charge = BB_CHARGE_STRAGGLER, .node = 3, .peer = -1, .rail = -1},
		{.charge = BB_CHARGE_RAIL, .node = -1, .peer = -1, .rail = 1},
		{.charge = BB_CHARGE_PORT, .node = 6, .peer = -1, .rail = 2},
	};
	struct bb_verdicts verdicts = {.list = list, .n = 5};
	struct bb_lone_plan plan;

	bb_lone_plan_make(&plan, &verdicts, 0);
	assert_int_equal(plan.times, BB_RETEST_ROUNDS);
	assert_int_equal(plan.n, 3);
	assert_int_equal(plan.list[0].node, 4);
	assert_int_equal(plan.list[0].peer, -1);
	assert_int_equal(plan.list[1].node, 2);
	assert_int_equal(plan.list[1].peer, 5);
	assert_int_equal(plan.list[1].rail, 1);
	assert_int_equal(plan.list[2].node, 6);
	assert_int_equal(plan.list[2].rail, 2);
	bb_lone_plan_make(&plan, &verdicts, 2);
	assert_int_equal(plan.n, 1);
	assert_int_equal(plan.list[0].node, 6);
	list[1].flapping = true;
	bb_lone_plan_make(&plan, &verdicts, 2);
	assert_int_equal(plan.times, BB_RETEST_ROUNDS);
	bb_lone_plan_make(&plan, &verdicts, 1);
	assert_int_equal(plan.times, BB_CONFIRMING);
	bb_lone_plan_make(&plan, &verdicts, 5);
	assert_int_equal(plan.n, 0);
	for (verdicts.n = 0; verdicts.n < 80; verdicts.n++)
		list[verdicts.n] = list[0];
	bb_lone_plan_make(&plan, &verdicts, 0);
	assert_int_equal(plan.n, BB_MOST_LONE);
}

/* A rank that is late by 0.3 ms of a step of 1 ms makes the others wait; always or one time in
   three. Late by less than the tolerance it is none. */
static void test_stragglers(void **state)
{
	enum { STEPS = 30, RANKS = 6 };

	for (int how = 0; how < 3; how++) {
		const double late = how == 2 ? 0.19e-3 : 0.3e-3;
		struct bb_verdicts v = {.list = NULL};
		float waits[STEPS * RANKS];

		for (int i = 0; i < STEPS * RANKS; i++) {
			const bool is_late = i % RANKS == 2 && (how != 1 || i / RANKS % 3 == 0);

			waits[i % RANKS * STEPS + i / RANKS] =
				(float)(0.5e-3 - is_late * late +
					1e-3 * noise_of(i / RANKS, i % RANKS, 0));
		}
		assert_int_equal(bb_find_stragglers(&v, waits, STEPS, RANKS, 1e-3, TOLERANCE),
				 BB_OK);
		assert_int_equal(v.n, how < 2);
		if (how < 2) {
			const struct bb_diagnosis *d = v.list;

			assert_int_equal(d->charge, BB_CHARGE_STRAGGLER);
			assert_int_equal(d->node, 2);
			assert_true(d->peer == -1 && d->rail == -1);
			assert_true(fabs(d->factor - 1.3) < 1e-3);
			assert_true(fabs(d->share - (how ? 1 / 3. : 1)) < 1e-9);
			assert_int_equal(d->measured, STEPS);
			assert_int_equal(d->flapping, how == 1);
		}
		free(v.list);
	}
}

/* Ranks that always wait differently are no noise: only rank 5 is late by more than the tolerance.
 */
static void test_steady_ranks(void **state)
{
	enum { STEPS = 30, RANKS = 6 };
	static const double late[RANKS] = {0, 0.04e-3, 0.08e-3, 0.12e-3, 0.16e-3, 0.4e-3};
	struct bb_verdicts v = {.list = NULL};
	float waits[STEPS * RANKS];

	for (int i = 0; i < STEPS * RANKS; i++)
		waits[i % RANKS * STEPS + i / RANKS] =
			(float)(0.5e-3 - late[i % RANKS] +
				1e-3 * noise_of(i / RANKS, i % RANKS, 0));
	assert_int_equal(bb_find_stragglers(&v, waits, STEPS, RANKS, 1e-3, TOLERANCE), BB_OK);
	assert_int_equal(v.n, 1);
	assert_int_equal(v.list[0].node, 5);
	assert_true(fabs(v.list[0].factor - 1.28) < 1e-3);
	assert_true(fabs(v.list[0].limit[0]) < 1e-9);
	free(v.list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),       cmocka_unit_test(test_node),
		cmocka_unit_test(test_contended),     cmocka_unit_test(test_rails),
		cmocka_unit_test(test_link),          cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_floor),         cmocka_unit_test(test_link_of_slow_ends),
		cmocka_unit_test(test_node_and_link), cmocka_unit_test(test_rails_of_a_node),
		cmocka_unit_test(test_lone_plans),    cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_steady_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Who is suspected and blamed in made-up clusters of pairs: nodes x rails x faults x noise x
 * places, from the rounds to the verdicts; and what is found in matrices of pairs.
 */
#include "draws.h"

#include "suspects/blocks.h"
#include "suspects/findings.h"
#include "suspects/judge.h"

/* ---- clusters ------------------------------------------------------------------------------- */

#define MOST_NODES 17
#define MOST_FAULTS 5
#define ANY (-1)

/* Messages from FROM to TO (ANY: all) over RAIL take longer by the logarithm EXCESS. */
struct fault {
	int quantity, from, to, rail, period;
	double excess;
	bool beside; /* only while others communicate */
	bool both;
};

struct cluster {
	int nodes, rails, nfaults, block; /* nodes from BLOCK on are farther from the others */
	struct fault faults[MOST_FAULTS];
	struct bb_spot spots[MOST_NODES], *places;
	double floor, noise, tolerance, outliers;
	uint64_t seed;
};

static void fault_draw(struct cluster *c, struct fault *f)
{
	const int kind = (int)DRAW_BELOW(7), node = (int)DRAW_BELOW((size_t)c->nodes);
	const int other = (node + 1 + (int)DRAW_BELOW((size_t)c->nodes - 1)) % c->nodes;

	*f = (struct fault){.quantity = (int)DRAW(0, 1, 1, ANY),
			    .from = node,
			    .to = ANY,
			    .rail = ANY,
			    .period = (int)DRAW(0, 0, 0, 2, 3, 5),
			    .excess = DRAW(0.15, 0.22, 0.25, 0.3, 0.5, 0.7, 1.5, 3),
			    .beside = DRAW_BELOW(6) == 0};
	if (kind == 0)
		f->to = other;
	if (kind == 1) {
		f->to = other;
		f->both = true;
	}
	if (kind == 2 || kind == 3)
		f->rail = (int)DRAW_BELOW((size_t)c->rails);
	if (kind == 3)
		f->from = ANY;
	if (kind == 4) {
		f->from = ANY;
		f->to = node;
	}
	if (kind == 5)
		f->both = true;
	if (kind == 6) {
		f->to = other;
		f->rail = (int)DRAW_BELOW((size_t)c->rails);
	}
}

static struct cluster cluster_draw(void)
{
	struct cluster c = {.nodes = (int)DRAW(3, 4, 5, 6, 7, 8, 9, 12, 17),
			    .rails = (int)DRAW(1, 1, 2, 3, 4, 5),
			    .nfaults = (int)DRAW(0, 1, 1, 1, 2, 2, 3, MOST_FAULTS),
			    .noise = DRAW(0, 1e-4, 0.01, 0.05, 0.15),
			    .tolerance = DRAW(0.05, 0.2, 0.2, 0.5),
			    .outliers = DRAW(0, 0, 0.01, 0.05),
			    .floor = DRAW_BELOW(5) == 0 ? 0.2 + DRAW_UNIFORM : 0,
			    .seed = DRAWN_WORD};

	c.block = DRAW_BELOW(4) == 0 ? c.nodes - 2 - (int)DRAW_BELOW(3) : c.nodes;
	for (int i = 0; i < c.nodes; i++)
		c.spots[i] = (struct bb_spot){.core = i / 2, .numa = i / 4};
	for (int i = 0; i < c.nfaults; i++)
		fault_draw(&c, &c.faults[i]);
	return c;
}

struct taken {
	struct bb_rounds rounds;
	struct bb_quantity of[BB_QUANTITIES];
};

static bool is_hit(const struct fault *f, int quantity, int round, int from, int to, int rail)
{
	const bool there = (f->from == ANY || f->from == from) && (f->to == ANY || f->to == to);
	const bool back = (f->from == ANY || f->from == to) && (f->to == ANY || f->to == from);

	return (f->quantity == ANY || f->quantity == quantity) && (there || (f->both && back)) &&
	       (f->rail == ANY || f->rail == rail) && (f->period == 0 || round % f->period == 0);
}

static double log_s_of(struct cluster *c, int quantity, int round, int from, int to, int rail,
		       bool alone)
{
	double log_s = quantity - 10 + 0.125 * rail + c->noise * (DRAW_UNIFORM - 0.5);

	for (int f = 0; f < c->nfaults; f++)
		if ((!alone || !c->faults[f].beside) &&
		    is_hit(&c->faults[f], quantity, round, from, to, rail))
			log_s += c->faults[f].excess;
	if ((from >= c->block) != (to >= c->block))
		log_s += 0.75;
	if (c->places)
		log_s += 0.5 * bb_nearness(&c->places[from], &c->places[to]);
	return DRAW_UNIFORM < c->outliers ? log_s + 1 : log_s;
}

static void measure(struct cluster *c, struct taken *t, bool alone)
{
	for (int q = 0; q < BB_QUANTITIES; q++) {
		struct bb_quantity *const m = &t->of[q];

		*m = (struct bb_quantity){.rounds = &t->rounds, .rails = c->rails};
		m->log_s = malloc(((size_t)t->rounds.n * (size_t)c->nodes * (size_t)c->rails + 1) *
				  sizeof(*m->log_s));
		assert_non_null(m->log_s);
		for (int r = 0; r < t->rounds.n; r++)
			for (int node = 0; node < c->nodes; node++)
				for (int k = 0; k < c->rails; k++)
					m->log_s[bb_measured_place(m, r, node, k)] =
						bb_rounds_has(&t->rounds, r, node, k)
							? (float)log_s_of(
								  c, q, r,
								  bb_rounds_partner(&t->rounds, r,
										    node),
								  node, k, alone)
							: NAN;
	}
}

static void taken_free(struct taken *t)
{
	for (int q = 0; q < BB_QUANTITIES; q++)
		free(t->of[q].log_s);
	bb_rounds_free(&t->rounds);
}

static void rounds_add(struct sweep *s, const struct bb_rounds *rounds)
{
	sweep_add(s, rounds->n);
	for (int r = 0; r < rounds->n; r++) {
		sweep_add(s, rounds->rail[r]);
		for (int i = 0; i < rounds->nodes; i++)
			sweep_add(s, bb_rounds_partner(rounds, r, i));
	}
}

static void view_add(struct sweep *s, const struct bb_view *v, int nodes)
{
	SWEEP_ADD(s, v->noise.sigma, v->noise.rare, v->floor, v->limit, v->slow, v->of);
	for (int k = 0; k < v->measured.rails; k++)
		sweep_add(s, v->base[k]);
	for (int i = 0; i < 2 * nodes * v->measured.rails; i++)
		sweep_add(s, v->out[i]);
}

static void suspects_add(struct sweep *s, const struct bb_suspects *suspects)
{
	SWEEP_ADD(s, suspects->nodes, suspects->rails, suspects->npairs, bb_suspects_any(suspects),
		  bb_suspects_have(suspects, 0, 1));
	for (int i = 0; i < suspects->nodes; i++)
		sweep_add(s, suspects->standing[i]);
	for (int i = 0; i < suspects->npairs; i++)
		SWEEP_ADD(s, suspects->pairs[i].a, suspects->pairs[i].b);
}

static void verdicts_add(struct sweep *s, const struct bb_verdicts *verdicts)
{
	SWEEP_ADD(s, verdicts->n, verdicts->unjudged);
	for (int i = 0; i < verdicts->n; i++) {
		const struct bb_diagnosis *const v = &verdicts->list[i];

		SWEEP_ADD(s, v->charge, v->node, v->peer, v->rail, v->sends, v->receives,
			  v->slow[0], v->slow[1], v->limit[0], v->limit[1], v->factor, v->share,
			  v->measured, v->chance, v->flapping, v->alone, v->contended, v->shares);
	}
}

/* ---- from a survey to the verdicts, as diagnose goes on ------------------------------------- */

static void retest(struct sweep *s, struct cluster *c, const struct bb_suspects *suspects,
		   const struct bb_view *views, struct bb_verdicts *verdicts, int first)
{
	struct taken alone = {.rounds = {0}};
	struct bb_lone_plan plan;

	bb_lone_plan_make(&plan, verdicts, first);
	SWEEP_ADD(s, plan.n, plan.times);
	if (plan.n == 0)
		return;
	sweep_add(s, bb_rounds_alone(&alone.rounds, suspects, &plan));
	rounds_add(s, &alone.rounds);
	measure(c, &alone, true);
	sweep_add(s, bb_acquit(verdicts, first, views, alone.of));
	taken_free(&alone);
}

static void confirm(struct sweep *s, struct cluster *c, const struct bb_suspects *suspects,
		    const struct bb_view *views)
{
	struct taken again = {.rounds = {0}};
	struct bb_verdicts verdicts = {.n = 0};

	sweep_add(s, bb_rounds_confirm(&again.rounds, suspects, c->seed));
	rounds_add(s, &again.rounds);
	measure(c, &again, false);
	for (int q = 0; q < BB_QUANTITIES; q++)
		again.of[q].places = views[0].measured.places;
	for (enum bb_accused who = BB_ACCUSED_NODES; who <= BB_ACCUSED_LINKS; who++) {
		const int first = verdicts.n;

		sweep_add(s, bb_convict(&verdicts, who, suspects, views, again.of, c->tolerance));
		verdicts_add(s, &verdicts);
		retest(s, c, suspects, views, &verdicts, first);
	}
	verdicts_add(s, &verdicts);
	free(verdicts.list);
	taken_free(&again);
}

static void diagnosis_add(struct sweep *s, struct cluster *c)
{
	struct taken survey = {.rounds = {0}};
	struct bb_view views[BB_QUANTITIES] = {{.limit = 0}};
	struct bb_suspects suspects = {0};
	const bool places = DRAW_BELOW(4) == 0, level = DRAW_BELOW(2) == 0;

	c->places = places ? c->spots : NULL;
	sweep_add(s, bb_rounds_survey(&survey.rounds, c->nodes, (int)DRAW(2, 3, 6, 12),
				      DRAW_BELOW(2) == 0, c->seed));
	if (DRAW_BELOW(4) == 0)
		sweep_add(s, bb_rounds_split(&survey.rounds, 1 + (int)DRAW_BELOW(3)));
	rounds_add(s, &survey.rounds);
	measure(c, &survey, false);
	for (int q = 0; q < BB_QUANTITIES; q++) {
		struct bb_block_map blocks = {.n = 0};

		if (places && level) {
			double levels[BB_NEARNESSES];

			sweep_add(s, bb_level_find(levels, &survey.of[q], c->places));
			SWEEP_ADD(s, levels[0], levels[1], levels[2]);
			bb_level_apply(levels, &survey.of[q], c->places);
		}
		survey.of[q].places = c->places;
		sweep_add(s, bb_view_make(&views[q], &survey.of[q], c->tolerance));
		sweep_add(s, bb_block_map_find(&blocks, &views[q]));
		sweep_add(s, blocks.n);
		for (int i = 0; i < blocks.n; i++) {
			sweep_add(s, blocks.size[i]);
			for (int k = 0; k < blocks.n; k++)
				sweep_add(s, blocks.level[i][k]);
		}
		for (int i = 0; blocks.n > 0 && i < c->nodes; i++)
			sweep_add(s, blocks.of[i]);
		if (blocks.n > 0)
			bb_block_map_apply(&blocks, &survey.of[q]);
		free(blocks.of);
		views[q].floor = c->floor;
		sweep_add(s, bb_view_make(&views[q], &survey.of[q], c->tolerance));
		view_add(s, &views[q], c->nodes);
	}
	sweep_add(s, bb_suspect(&suspects, views, 1 + (int)DRAW_BELOW(BB_QUANTITIES)));
	suspects_add(s, &suspects);
	if (bb_suspects_any(&suspects))
		confirm(s, c, &suspects, views);
	for (int q = 0; q < BB_QUANTITIES; q++)
		free(views[q].out);
	free(suspects.standing);
	taken_free(&survey);
}

#define CLUSTERS 1000

static void test_clusters(void **none)
{
	struct sweep s = sweep_open("suspects_clusters");

	for (int i = 1; i <= CLUSTERS; i++) {
		drawn_begin((uint64_t)i);
		struct cluster c = cluster_draw();

		diagnosis_add(&s, &c);
		if (i % 50 == 0)
			sweep_end(&s, "clusters up to %d", i);
	}
	sweep_close(&s);
}

/* ---- stragglers, chances and floors --------------------------------------------------------- */

static void test_stragglers(void **none)
{
	struct sweep s = sweep_open("suspects_stragglers");

	for (int i = 1; i <= 2000; i++) {
		drawn_begin((uint64_t)i);
		const int ranks = (int)DRAW(1, 2, 3, 4, 8, 9), steps = (int)DRAW(0, 1, 4, 20, 33);
		const double noise = DRAW(0, 0.01, 0.1, 0.5), late = DRAW(0, 0.1, 0.3, 1, 4);
		const int who = (int)DRAW_BELOW((size_t)ranks), period = (int)DRAW(1, 1, 2, 3, 7);
		struct bb_verdicts verdicts = {.n = 0};
		float waits[9 * 33 + 1];

		for (int r = 0; r < ranks; r++)
			for (int k = 0; k < steps; k++)
				waits[r * steps + k] =
					(float)(1e-3 * (2 + noise * DRAW_UNIFORM -
							(r == who && k % period == 0 ? late : 0)));
		sweep_add(&s, bb_find_stragglers(&verdicts, waits, steps, ranks, 1e-3,
						 DRAW(0.05, 0.2, 0.5)));
		verdicts_add(&s, &verdicts);
		free(verdicts.list);
		if (i % 200 == 0)
			sweep_end(&s, "ranks up to %d", i);
	}
	sweep_close(&s);
}

static void test_chances(void **none)
{
	struct sweep s = sweep_open("suspects_chances");

	for (int n = 0; n < 20; n++) {
		for (int k = 0; k <= n + 1; k++)
			for (int m = 0; m < 60; m += 7)
				for (int x = 0; x <= m; x += 3)
					sweep_add(&s, bb_chance(k, n, x, m));
		sweep_end(&s, "chances of %d", n);
	}
	for (int nodes = 3; nodes < 80; nodes++)
		sweep_add(&s, bb_survey_least(nodes));
	sweep_end(&s, "rounds of a survey");
	for (int slow = 14; slow < 30; slow++)
		for (int of = 1; of < 400; of += 13)
			for (int near = 0; near <= of; near += 5)
				sweep_add(&s, bb_retest_convicts(slow, near, of, 1 + near % 40));
	sweep_end(&s, "retests");
	for (int i = 0; i < 400; i++) {
		drawn_begin((uint64_t)i);
		struct bb_floor floor = {.rounds = 0};

		for (int k = 0; k < 12; k++) {
			bb_floor_add(&floor, 1 + DRAW(0, 0.2, 0.25, 0.26, 1) * DRAW_UNIFORM);
			SWEEP_ADD(&s, floor.kept[0], floor.kept[1], floor.kept[2], floor.rounds,
				  floor.near, bb_floor_kept(&floor), bb_floor_usual(&floor),
				  bb_slow_factor(1 + DRAW_UNIFORM, 1, DRAW(0, 0.5, 2)));
		}
	}
	sweep_end(&s, "floors");
	sweep_close(&s);
}

/* ---- matrices ------------------------------------------------------------------------------- */

#define MATRICES 6
#define MOST_RANKS 6

struct machine {
	int ranks, kinds, rounds, odd;
	double factor, slow, noise;
	int hit, from, to; /* which pairs are slow, and of whom */
};

static double speed_of(const struct machine *m, const struct bb_pair_matrix *matrix, int from,
		       int to)
{
	const bool there = from == m->from && to == m->to, back = from == m->to && to == m->from;
	const bool both = matrix->bidirectional;
	const bool across = (from % m->kinds) != (to % m->kinds);
	const bool hits[] = {false,
			     there || (both && back),
			     there || back,
			     from == m->from,
			     to == m->from,
			     from == m->from || to == m->from,
			     (from == m->from || to == m->from) && across,
			     matrix->direct,
			     matrix->direct && there,
			     across,
			     matrix->by_source ? from == m->from : to == m->from,
			     there || (from == 0 && to == 1)};

	return (matrix->direct ? 10 : 8) * (across ? 0.6 : 1) * (both ? 1.8 : 1) /
	       (hits[m->hit] ? m->slow : 1) * (1 - m->noise * DRAW_UNIFORM);
}

static void value_draw(const struct machine *m, const struct bb_pair_matrix *matrix, int from,
		       int to, struct bb_pair_value *v)
{
	const double speed = speed_of(m, matrix, from, to);
	const int rounds =
		m->odd > 0 && DRAW_BELOW((size_t)m->odd) == 0 ? (int)DRAW_BELOW(20) : m->rounds;

	if (from == to || (matrix->bidirectional && from > to) || rounds == 0)
		return;
	*v = (struct bb_pair_value){.from = from,
				    .to = to,
				    .like = (from % m->kinds) != (to % m->kinds),
				    .best = speed,
				    .usual = speed * (1 - 0.1 * DRAW_UNIFORM),
				    .rounds = rounds,
				    .near = 1 + (int)DRAW_BELOW((size_t)rounds),
				    .bound = DRAW(0, 11, 11, 25, 40),
				    .factor = m->factor,
				    .planned_s = DRAW_BELOW(4) == 0 ? 0.05 : 0,
				    .unit = 1};
}

static void test_matrices(void **none)
{
	struct sweep s = sweep_open("suspects_matrices");

	for (int i = 1; i <= 6000; i++) {
		drawn_begin((uint64_t)i);
		const struct machine m = {.ranks = 1 + (int)DRAW_BELOW(MOST_RANKS),
					  .kinds = 1 + (int)DRAW_BELOW(3),
					  .rounds = (int)DRAW(1, 2, 3, 7, 16, 64),
					  .odd = (int)DRAW(0, 0, 3, 10),
					  .factor = DRAW(1, BB_SLOW_PAIR, BB_SLOW_CORES),
					  .slow = DRAW(1.1, 1.3, 1.7, 2.2, 5),
					  .noise = DRAW(0, 0.05, 0.2),
					  .hit = (int)DRAW_BELOW(12),
					  .from = (int)DRAW_BELOW(MOST_RANKS),
					  .to = (int)DRAW_BELOW(MOST_RANKS)};
		static struct bb_pair_value values[MATRICES][MOST_RANKS * MOST_RANKS];
		struct bb_pair_matrix matrices[MATRICES];
		struct bb_findings found = {.n = 0};
		const size_t n = DRAW_BELOW(MATRICES + 1);

		memset(values, 0, sizeof(values));
		for (size_t k = 0; k < n; k++) {
			const int kind = (int)DRAW_BELOW(6);

			matrices[k] = (struct bb_pair_matrix){.direct = kind != 2 && kind != 4,
							      .bidirectional = kind > 2,
							      .by_source = kind == 1,
							      .by_target = kind == 0 || kind == 3,
							      .exact = DRAW_BELOW(3) == 0,
							      .values = values[k],
							      .nranks = m.ranks};
			for (int at = 0; at < m.ranks * m.ranks; at++)
				value_draw(&m, &matrices[k], at / m.ranks, at % m.ranks,
					   &values[k][at]);
		}
		sweep_add(&s, bb_findings_make(&found, matrices, n));
		for (size_t k = 0; k < found.n; k++) {
			const struct bb_finding *const f = &found.list[k];

			SWEEP_ADD(&s, f->kind, (double)f->matrix, f->rank, f->from, f->to, f->like,
				  f->pairs, f->value, f->reference, f->rounds, f->near, f->of,
				  f->confirmed);
		}
		free(found.list);
		if (i % 300 == 0)
			sweep_end(&s, "matrices up to %d", i);
	}
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clusters),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_chances),
		cmocka_unit_test(test_matrices),
	};

	return cmocka_run_group_tests_name("suspects_sweep", tests, NULL, NULL);
}

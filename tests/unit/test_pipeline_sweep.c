/*
 * Orders of pipelines: those of all schedules for drawn pipelines, with and without layers, within
 * little and much memory; the times of their passes; rules; and what the checker finds in orders
 * that were spoilt.
 */
#include "draws.h"

#include "training_kernels/pipeline/draft.h"

#define DRAWN 24
#define SPOILT 40

static void passes_add(struct sweep *s, const struct bb_order *o)
{
	uint64_t hash = BB_RANDOM_HASH;

	for (size_t i = 0; i < (size_t)o->stages * o->length; i++) {
		hash_add(&hash, o->passes[i].kind);
		hash_add(&hash, o->passes[i].chunk);
		hash_add(&hash, o->passes[i].microbatch);
	}
	hash_end(s, hash);
}

/* Parts, stages and numbers of passes. */
static void parts_add(struct sweep *s, const struct bb_order *o)
{
	uint64_t hash = BB_RANDOM_HASH;

	for (int d = 0; d < bb_order_depths(o); d++) {
		const struct bb_part part = bb_part_of(o, d);

		for (int k = 0; k < BB_PASS_KINDS; k++)
			SWEEP_ADD(s, (double)part.cost[k], (double)part.change[k]);
		SWEEP_ADD(s, bb_part_layers(o, d), bb_order_stage(o, d));
	}
	for (int i = 0; i < o->stages; i++)
		SWEEP_ADD(s, (double)bb_stage_ns(o, i),
			  (double)bb_part_of_stage(o, i).change[BB_PASS_F],
			  (double)bb_part_of_stage(o, i).cost[BB_PASS_BW]);
	for (size_t i = 0; i < bb_order_slots(o); i++) {
		int depth;
		const struct bb_pass pass = bb_order_pass(o, i, &depth);

		hash_add(&hash, pass.kind);
		hash_add(&hash, pass.chunk);
		hash_add(&hash, pass.microbatch);
		hash_add(&hash, depth);
	}
	hash_end(s, hash);
}

/* Every pass as it is done, and the ends. */
static void follow_add(struct sweep *s, const struct bb_order *o)
{
	struct bb_error error = {.text = ""};
	const struct bb_pass *pass;
	struct bb_draft draft;
	uint64_t hash = BB_RANDOM_HASH;
	int64_t end;
	int stage;

	sweep_add(s, bb_draft_follow(&draft, o, &error));
	while ((pass = bb_draft_step(&draft, &stage)) != NULL) {
		hash_add(&hash, stage);
		hash_add(&hash, pass->kind);
		hash_add(&hash, pass->chunk);
		hash_add(&hash, pass->microbatch);
		hash_add(&hash, draft.stages[stage].time);
		hash_add(&hash, draft.stages[stage].held);
	}
	hash_end(s, hash);
	sweep_add(s, (double)bb_draft_span(&draft, &end));
	sweep_add(s, (double)end);
	sweep_add(s, (double)draft.bubble);
	for (int i = 0; i < o->stages; i++)
		SWEEP_ADD(s, (double)draft.stages[i].begin, (double)draft.stages[i].bubble);
	bb_draft_free(&draft);
}

static void check_add(struct sweep *s, const struct bb_order *o)
{
	struct bb_error error = {.text = ""};

	sweep_add(s, bb_order_check(o, &error));
	sweep_add_text(s, error.text);
}

static void order_add(struct sweep *s, const struct bb_pipeline_schedule *schedule,
		      const struct bb_pipeline *p)
{
	const char *const refusal = bb_pipeline_refuses(schedule, p);
	struct bb_error error = {.text = ""};
	struct bb_order o;

	sweep_add_text(s, refusal);
	sweep_add(s, bb_pipeline_chunks(schedule, p));
	if (refusal)
		return;
	const bb_status status = bb_order_make(schedule, p, &o, &error);

	sweep_add(s, status);
	sweep_add_text(s, error.text);
	SWEEP_ADD(s, o.stages, o.microbatches, o.chunks, o.split, o.folded, (double)o.length);
	if (status == BB_OK) {
		passes_add(s, &o);
		follow_add(s, &o);
		check_add(s, &o);
	}
	bb_order_free(&o);
}

/* Times that tie, that differ by little or by much, and without a pass or a hop. */
static struct bb_pipeline draw(uint64_t seed, int stages, int microbatches)
{
	static const int64_t times[] = {1000, 1000, 1000, 2000, 1500, 500, 100, 4000, 1, 0};
	const int ties = drawn(seed, 0, 3), few = drawn(seed, 1, 4) ? 8 : 10;
	struct bb_pipeline p = {.stages = stages, .microbatches = microbatches};
	int64_t *const list[] = {&p.f, &p.b, &p.w};

	for (int i = 0; i < 3; i++)
		*list[i] = ties == 0   ? 1000
			   : ties == 1 ? times[drawn(seed, 10 + i, few)]
				       : 1 + drawn(seed, 20 + i, 3000);
	p.hop = drawn(seed, 2, 2) ? 0 : times[drawn(seed, 3, 9)] / (1 + drawn(seed, 4, 10));
	p.kept = 2 + drawn(seed, 5, 30);
	p.kept_w = drawn(seed, 6, 3) ? p.kept / 2 : drawn(seed, 7, (int)p.kept + 1);
	p.by_step = drawn(seed, 8, 2);
	p.hasty = drawn(seed, 9, 3) == 0;
	p.chunks = 1 + drawn(seed, 13, 3);
	p.limit = 1 + drawn(seed, 14, 2 * stages + 2);
	if (drawn(seed, 15, 3) > 0)
		return p;
	p.layers = stages * (drawn(seed, 16, 2) ? 2 * p.chunks : 1);
	p.layers += drawn(seed, 17, 2) ? 0 : drawn(seed, 18, stages);
	p.first = (struct bb_pipeline_end){drawn(seed, 31, 900), drawn(seed, 32, 900),
					   drawn(seed, 33, 900), drawn(seed, 34, 9),
					   drawn(seed, 35, 3)};
	p.last = (struct bb_pipeline_end){drawn(seed, 41, 3000), drawn(seed, 42, 3000),
					  drawn(seed, 43, 3000), drawn(seed, 44, 30),
					  drawn(seed, 45, 9)};
	return p;
}

static void test_orders(void **state)
{
	static const int stages[] = {1, 2, 3, 4, 5, 7, 8, 13};
	struct sweep s = sweep_open("pipeline_orders");
	uint64_t seed = 1000;

	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
		for (int round = 0; round < 6; round++) {
			for (int n = 0; n < DRAWN; n++) {
				const int m = n % 2 ? 1 + drawn(seed, 50, 3 * stages[i] + 2)
						    : (round + 1) * stages[i];
				const struct bb_pipeline p = draw(seed++, stages[i], m);

				for (int k = 0; bb_pipeline_schedules[k].name; k++)
					order_add(&s, bb_pipeline_find(bb_pipeline_name(k)), &p);
				sweep_add(&s, (double)bb_auto_least(&p));
			}
			sweep_end(&s, "%d stages, round %d", stages[i], round);
		}
	/* So many passes that a hasty search does not try all limits. */
	for (int n = 0; n < 3; n++) {
		struct bb_pipeline p = draw(seed, 16, 64);

		p.f = 900 + n;
		p.b = 1250 - 31 * n;
		p.w = 430;
		p.hop = 77;
		p.hasty = true;
		p.limit = 24;
		p.by_step = n == 1;
		order_add(&s, bb_pipeline_find("zb-auto"), &p);
		sweep_end(&s, "hasty search %d", n);
	}
	sweep_close(&s);
}

/* Orders by rules as no schedule has them, and parts of any model. */
static void test_rules(void **state)
{
	struct sweep s = sweep_open("pipeline_rules");
	uint64_t seed = 1;

	for (int stages = 1; stages <= 5; stages++)
		for (int chunks = 1; chunks <= 3; chunks++) {
			for (int n = 0; n < DRAWN; n++, seed++) {
				const struct bb_pipeline p =
					draw(seed, stages, stages * (1 + n % 3));
				const int length = (n % 2 ? 3 : 2) * chunks * p.microbatches;
				struct bb_order o = {p,
						     stages,
						     p.microbatches,
						     chunks,
						     .split = n % 2,
						     .folded = n % 3 == 0,
						     .length = (size_t)length};

				o.passes = calloc((size_t)(stages * length), sizeof(*o.passes));
				assert_non_null(o.passes);
				parts_add(&s, &o);
				bb_order_write_rule(&o, drawn(seed, 61, 4), drawn(seed, 62, 4),
						    drawn(seed, 63, 2) ? 0
								       : 1 + drawn(seed, 64, 5));
				passes_add(&s, &o);
				follow_add(&s, &o);
				check_add(&s, &o);
				bb_order_free(&o);
			}
			sweep_end(&s, "%d stages of %d chunks", stages, chunks);
		}
	sweep_close(&s);
}

/* Two passes of a stage change places, or one is another. */
static void spoil(uint64_t seed, struct bb_order *o)
{
	const size_t list = (size_t)drawn(seed, 70, o->stages) * o->length;
	struct bb_pass *const a = &o->passes[list + (size_t)drawn(seed, 71, (int)o->length)];
	struct bb_pass *const b = &o->passes[list + (size_t)drawn(seed, 72, (int)o->length)];
	const struct bb_pass was = *a;

	switch (drawn(seed, 73, 8)) {
	case 0:
		a->kind = (uint8_t)drawn(seed, 74, BB_PASS_KINDS + 2);
		break;
	case 1:
		a->chunk = (uint8_t)drawn(seed, 74, o->chunks + 2);
		break;
	case 2:
		a->microbatch = (uint16_t)drawn(seed, 74, o->microbatches + 2);
		break;
	case 3:
		*a = *b;
		break;
	default:
		*a = *b;
		*b = was;
	}
}

static void test_checker(void **state)
{
	struct sweep s = sweep_open("pipeline_checker");
	uint64_t seed = 1;

	for (int k = 0; bb_pipeline_schedules[k].name; k++)
		for (int stages = 1; stages <= 4; stages++) {
			for (int n = 0; n < SPOILT; n++) {
				const struct bb_pipeline_schedule *of = &bb_pipeline_schedules[k];
				struct bb_pipeline p = draw(seed, stages, stages * (1 + n % 3));
				struct bb_error error = {.text = ""};
				struct bb_order o;

				if (bb_pipeline_refuses(of, &p))
					p.layers = 0;
				if (bb_order_make(of, &p, &o, &error) == BB_OK)
					for (int i = 0; i < 2; i++) {
						spoil(seed++, &o);
						check_add(&s, &o);
					}
				bb_order_free(&o);
				seed++;
			}
			sweep_end(&s, "%s, %d stages", bb_pipeline_schedules[k].name, stages);
		}
	sweep_add(&s, bb_pipeline_find("none") != NULL);
	sweep_end(&s, "no schedule");
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_checker),
	};

	return cmocka_run_group_tests_name("pipeline_sweep", tests, NULL, NULL);
}

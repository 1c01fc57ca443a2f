/*
 * Divisions of trainings: layouts of ranks, bubbles of all schedules, drawn divisions of several
 * models on drawn clusters with all their volumes and times, and plans.
 */
#include "draws.h"

#include "training_kernels/hybrid/plan.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- layouts --------------------------------------------------------------------------------- */

static void grid_add(struct sweep *s, const struct bb_grid *g)
{
	uint64_t hash = BB_RANDOM_HASH;

	hash_add(&hash, bb_grid_ranks(g));
	hash_add(&hash, bb_grid_expert_ranks(g));
	for (enum bb_axis axis = 0; axis < BB_AXES; axis++) {
		const int size = bb_grid_size(g, axis), groups = bb_grid_groups(g, axis);

		hash_add(&hash, size);
		hash_add(&hash, groups);
		for (int i = 0; i < groups * size; i++)
			hash_add(&hash, bb_grid_member(g, axis, i / size, i % size));
		for (int rank = 0; rank < bb_grid_ranks(g); rank++) {
			hash_add(&hash, bb_grid_place(g, axis, rank));
			hash_add(&hash, bb_grid_group(g, axis, rank));
		}
		for (int node = 1; node <= 9; node++) {
			hash_add(&hash, bb_grid_crossing(g, axis, node));
			hash_add(&hash, bb_grid_crosses(g, axis, node));
		}
	}
	hash_end(s, hash);
}

static void test_layouts(void **state)
{
	struct sweep s = sweep_open("hybrid_layouts");

	for (int tp = 1; tp <= 4; tp++)
		for (int pp = 1; pp <= 4; pp++) {
			for (int dp = 1; dp <= 6; dp++)
				for (int i = 0; i < 2 * dp * dp * tp; i++) {
					const int ep = i / 2 % dp + 1, cp = i / 2 / dp % dp + 1;
					const int etp = i / 2 / dp / dp + 1;
					const struct bb_grid g = {.tp = tp,
								  .pp = pp,
								  .dp = dp,
								  .ep = ep,
								  .order = i % 2,
								  .cp = cp,
								  .etp = etp};

					if (dp % ep == 0 && dp % cp == 0 && tp % etp == 0)
						grid_add(&s, &g);
				}
			sweep_end(&s, "%d tensor ranks, %d stages", tp, pp);
		}
	for (int i = 0; bb_grid_order_names[i]; i++)
		sweep_add_text(&s, bb_grid_order_names[i]);
	sweep_end(&s, "names");
	sweep_close(&s);
}

/* ---- bubbles --------------------------------------------------------------------------------- */

static void bubble_add(struct sweep *s, const struct bb_bubble_form *form,
		       struct bb_bubble_orders *orders, double most)
{
	struct bb_bubble bubble = {0, 0};
	struct bb_bubble_orders none = {.n = 0};

	sweep_add(s, bb_bubble_find(form, NULL, most, &bubble));
	SWEEP_ADD(s, bubble.idle, bubble.messages);
	sweep_add(s, bb_bubble_find(form, &none, most, &bubble));
	SWEEP_ADD(s, bubble.idle, bubble.messages, (double)none.n);
	free(none.list);
	for (int i = 0; i < 2; i++) {
		sweep_add(s, bb_bubble_find(form, orders, i ? INFINITY : most, &bubble));
		SWEEP_ADD(s, bubble.idle, bubble.messages, (double)orders->n);
	}
	for (uint64_t stage = 0; stage < form->stages; stage++)
		sweep_add(s, (double)bb_bubble_kept(form, stage));
}

/* One of few times, so that forms are alike but for one of them. */
static double few(uint64_t seed, uint64_t place)
{
	static const double times[] = {1e-3, 1e-3, 1.7e-3, 0.61e-3, 0.2e-3, 4.3e-3};

	return times[drawn(seed, place, COUNT(times))];
}

static void test_bubbles(void **state)
{
	struct sweep s = sweep_open("hybrid_bubbles");
	uint64_t seed = 1;

	for (int k = 0; bb_pipeline_schedules[k].name; k++)
		for (uint64_t stages = 1; stages <= 6; stages++) {
			struct bb_bubble_orders orders = {.n = 0};

			for (int n = 0; n < 40; n++, seed++) {
				const struct bb_pipeline_schedule *of = &bb_pipeline_schedules[k];
				const bool alike = drawn(seed, 1, 2) == 0;
				const int any = drawn(seed, 2, (int)(3 * stages) + 1) + 1;
				const int chunks = drawn(seed, 3, 3) + 1;
				const int kept = drawn(seed, 11, (int)(2 * stages)) + 1;
				const struct bb_bubble_form form = {
					.schedule = of,
					.stages = stages,
					.chunks = (uint64_t)(of->chunks ? of->chunks : chunks),
					.micro_batches =
						drawn(seed, 4, 3) ? stages * 3 : (uint64_t)any,
					.kept = alike ? stages : (uint64_t)kept,
					.forward = alike ? 1e-3 : few(seed, 5),
					.input = alike ? 1e-3 : few(seed, 6),
					.weights = alike ? 1e-3 : few(seed, 7),
					.hop = drawn(seed, 8, 3) ? 0.13 * few(seed, 9) : 0,
					.overlapped = drawn(seed, 10, 2)};

				bubble_add(&s, &form, &orders, few(seed, 12) * drawn(seed, 13, 3));
			}
			free(orders.list);
			sweep_end(&s, "%s, %d stages", bb_pipeline_schedules[k].name, (int)stages);
		}
	for (uint64_t chunks = 0; chunks < 4; chunks++)
		sweep_add_text(&s, bb_bubble_usual(chunks)->name);
	sweep_end(&s, "usual");
	sweep_close(&s);
}

/* ---- divisions ------------------------------------------------------------------------------- */

static const char *const models[] = {
	"gpt2:6x192x12x5000x480,tied=1",
	"gpt2:7x64x4x1x96,tied=0",
	"llama:10x384x12x32000x960x1056,kv=4",
	"mixtral:8x256x8x3200x1920x896x8x2,kv=4",
	"deepseek_v3:9x256x8x3200x720x512x12x4x64x16x16x24,dense=2,shared=1,expert_ffn=96",
	"qwen2_moe:6x128x4x900x240x512x6x3x80,moe_every=2,expert_ffn=160",
};
#define MODELS COUNT(models)

struct subject {
	struct bb_model model;
	struct bb_model_layout layout;
};

static void open_model(struct subject *u, const char *text)
{
	struct bb_error error = {.text = ""};

	memset(u, 0, sizeof(*u));
	if (bb_model_open(&u->model, text, 0, &error) != BB_OK ||
	    bb_model_layout_make(&u->layout, &u->model, 0, &error) != BB_OK)
		fail_msg("%s: %s", text, error.text);
}

static void close_model(struct subject *u)
{
	bb_model_layout_free(&u->layout);
	bb_model_free(&u->model);
}

/* A divisor of N. */
static int divisor(uint64_t seed, uint64_t place, int n)
{
	int d = 1 + drawn(seed, place, n);

	while (n % d)
		d--;
	return d;
}

static struct bb_hybrid_cluster draw_cluster(uint64_t seed, int ranks)
{
	static const double rates[] = {41e9, 97e9, 313e9, 7e9}, waits[] = {3.1e-6, 7.7e-6, 0, 1e-4};
	static const double flops[] = {101e12, 1.3e12, 9e9, 0.7e15};
	static const int nodes[] = {1, 2, 3, 4, 6, 8, 16};
	const double fast = rates[drawn(seed, 101, 4)];

	return (struct bb_hybrid_cluster){
		.ranks = ranks,
		.node = nodes[drawn(seed, 102, COUNT(nodes))],
		.inside = {fast, waits[drawn(seed, 103, 4)]},
		.between = {fast / (1 + drawn(seed, 104, 9)), waits[drawn(seed, 105, 4)]},
		.flops = flops[drawn(seed, 106, 4)],
		.attention_flops = drawn(seed, 107, 2) * flops[drawn(seed, 108, 4)] / 1.9,
		.memory_rate = drawn(seed, 109, 3) ? 1.1e12 / (1 + drawn(seed, 110, 50)) : 0,
		.launch = drawn(seed, 111, 3) ? 0 : 1e-3 * drawn(seed, 112, 9),
		.rails = drawn(seed, 113, 2),
		.memory = UINT64_C(1) << (22 + drawn(seed, 114, 12)),
	};
}

static struct bb_hybrid_division draw_division(uint64_t seed, const struct subject *u)
{
	static const int sizes[] = {1, 1, 2, 3, 4, 6, 8};
	const bool experts = u->model.hyper.experts > 0;
	struct bb_grid g = {.tp = 1 << drawn(seed, 1, 4),
			    .pp = 1 + drawn(seed, 2, u->model.blocks < 5 ? u->model.blocks : 5),
			    .dp = sizes[drawn(seed, 3, COUNT(sizes))] * (1 + drawn(seed, 4, 2)),
			    .order = drawn(seed, 5, 2)};
	struct bb_hybrid_division d = {
		.exchanges = drawn(seed, 6, 2),
		.by_node = drawn(seed, 7, 2),
		.kept = (uint64_t)drawn(seed, 8, 6),
		.scatter = drawn(seed, 9, 2),
		.overlap = drawn(seed, 10, BB_OVERLAP_EXPERTS + 1),
		.training = {.model = &u->model,
			     .layout = &u->layout,
			     .recipe = {&bb_precisions[drawn(seed, 11, 5)],
					&bb_optimizers[drawn(seed, 12, 3)]},
			     .trainable = 1,
			     .zero = drawn(seed, 13, 3) ? drawn(seed, 14, 2) : drawn(seed, 15, 4),
			     .eager = drawn(seed, 16, 2),
			     .chunks = drawn(seed, 17, 3) ? 1 : (uint64_t)(1 + drawn(seed, 18, 3)),
			     .micro_batch = (uint64_t)(1 + drawn(seed, 19, 3)),
			     .recompute = drawn(seed, 20, 3)}};
	const int k = drawn(seed, 21, 12);

	g.cp = drawn(seed, 22, 2) ? divisor(seed, 23, g.dp) : 1;
	g.ep = experts ? divisor(seed, 24, g.dp) : 1;
	g.etp = experts && drawn(seed, 25, 2) ? divisor(seed, 26, g.tp) : g.tp;
	d.training.sequence_parallel = g.tp > 1 && drawn(seed, 27, 2);
	d.training.micro_batches = (uint64_t)(drawn(seed, 28, 4) ? g.pp * (1 + drawn(seed, 29, 4))
								 : 1 + drawn(seed, 30, 9));
	if (k < 8 && bb_pipeline_schedules[k].chunks)
		d.schedule = &bb_pipeline_schedules[k];
	if (d.schedule)
		d.training.chunks = (uint64_t)d.schedule->chunks;
	bb_hybrid_division_set(&d, &g);
	return d;
}

static void volumes_add(struct sweep *s, const struct bb_hybrid_volumes *v)
{
	for (int i = 0; i < BB_TRAFFICS; i++)
		SWEEP_ADD(s, (double)v->of[i].calls, (double)v->of[i].rounds, v->of[i].sent);
	SWEEP_ADD(s, (double)v->boundary, (double)v->activation);
}

static void cost_add(struct sweep *s, const struct bb_hybrid_division *d)
{
	for (int i = 0; i < BB_TERMS; i++)
		sweep_add(s, d->cost.of[i]);
	SWEEP_ADD(s, d->cost.local, d->cost.step);
	for (int i = 0; i < BB_TRAFFICS; i++)
		sweep_add(s, d->crosses[i]);
	volumes_add(s, &d->volume);
}

static void division_add(struct sweep *s, struct bb_hybrid_division *d, uint64_t seed)
{
	struct bb_hybrid_cluster cluster = draw_cluster(seed, bb_grid_ranks(&d->grid));
	const struct bb_training *t = &d->training;
	const struct bb_bubble_form form = bb_hybrid_bubble(d);
	const double sorted = bb_sorted_bytes(d);
	const int blocks = t->model->blocks;

	sweep_add_text(s, form.schedule->name);
	SWEEP_ADD(s, (double)form.stages, (double)form.chunks, (double)form.micro_batches,
		  (double)form.kept, form.overlapped, sorted, (double)t->tp, (double)t->pp,
		  (double)t->dp, (double)t->ep);
	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_need need = bb_training_stage(t, stage);
		const struct bb_hybrid_volumes v = bb_hybrid_volumes_of(d, &need);
		const struct bb_memory_bytes bytes = bb_memory_bytes_of(d, &need, sorted);

		volumes_add(s, &v);
		SWEEP_ADD(s, bytes.pass, bytes.step);
	}
	for (int i = 0; i < 4; i++) {
		const int first = drawn(seed, 201 + (uint64_t)i, blocks + 1) - 1;
		const int last = first + 1 + drawn(seed, 211 + (uint64_t)i, blocks + 1 - first);
		const struct bb_hybrid_passes p = bb_hybrid_passes_of(
			d, first, last, cluster.flops, i % 2 ? 0 : 0.6 * cluster.flops);

		SWEEP_ADD(s, p.forward, p.input, p.weights, p.products);
	}
	for (int rails = 0; rails < 2; rails++) {
		cluster.rails = rails;
		bb_hybrid_division_cost(d, &cluster, NULL, INFINITY);
		cost_add(s, d);
	}
	if (drawn(seed, 221, 8) == 0 && !form.schedule->search)
		sweep_add(s, bb_hybrid_division_rate(d, &cluster, cluster.flops / 3));
}

static void test_divisions(void **state)
{
	struct sweep s = sweep_open("hybrid_divisions");
	uint64_t seed = 1;

	for (int i = 0; i < MODELS; i++) {
		struct subject u;

		open_model(&u, models[i]);
		for (int part = 0; part < 8; part++) {
			for (int n = 0; n < 60; n++, seed++) {
				struct bb_hybrid_division d = draw_division(seed, &u);

				division_add(&s, &d, seed);
			}
			sweep_end(&s, "%s, part %d", models[i], part);
		}
		close_model(&u);
	}
	for (int i = 0; i < BB_TERMS; i++)
		sweep_add_text(&s, bb_term_words[i]);
	for (int i = 0; bb_overlap_words[i]; i++)
		sweep_add_text(&s, bb_overlap_words[i]);
	sweep_end(&s, "words");
	sweep_close(&s);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void settings_add(struct sweep *s, const struct bb_hybrid_division *d)
{
	const struct bb_training *t = &d->training;
	const struct bb_grid *g = &d->grid;

	SWEEP_ADD(s, g->tp, g->pp, g->dp, g->ep, g->order, g->cp, g->etp, d->exchanges, d->by_node,
		  d->scatter, (double)t->tp, (double)t->pp, (double)t->dp, (double)t->ep, t->zero,
		  t->sequence_parallel, t->schedule, (double)t->chunks, (double)t->micro_batch,
		  (double)t->micro_batches, t->recompute, (double)d->need.total,
		  (double)d->need.stage);
	sweep_add_text(s, d->schedule ? d->schedule->name : NULL);
}

/* BB_ANY, or a value below N. */
static int any_or(uint64_t seed, uint64_t place, int n)
{
	return drawn(seed, place, 3) ? BB_ANY : drawn(seed, place + 1, n);
}

static struct bb_hybrid_space draw_space(uint64_t seed, const struct subject *u, int ranks)
{
	struct bb_hybrid_space p = {
		.any_experts = drawn(seed, 301, 2),
		.batch = (uint64_t)(4 * (1 + drawn(seed, 302, 24))),
		.micro_batch = drawn(seed, 303, 3) ? 0 : (uint64_t)(1 + drawn(seed, 304, 4)),
		.chunks = drawn(seed, 305, 3) ? drawn(seed, 306, 4) : BB_ANY,
		.exchanges = any_or(seed, 307, 2),
		.any_schedule = drawn(seed, 309, 2),
		.recompute = any_or(seed, 310, 3),
		.scatter = any_or(seed, 312, 2),
		.sequence_parallel = any_or(seed, 314, 2),
		.zero = any_or(seed, 316, 4),
		.base = draw_division(seed, u),
	};
	struct bb_grid *g = &p.grid;

	if (drawn(seed, 318, 3))
		p.base.schedule = NULL;
	if (drawn(seed, 319, 2))
		p.base.training.eager = false;
	if (drawn(seed, 340, 4) == 0) /* it goes with stage 0 of ZeRO alone */
		p.base.training.recipe.optimizer = &bb_optimizers[BB_ADAFACTOR];
	g->order = drawn(seed, 320, 2);
	g->tp = drawn(seed, 321, 5) ? 0 : divisor(seed, 322, ranks);
	g->pp = drawn(seed, 323, 5) ? 0 : divisor(seed, 324, ranks);
	g->dp = drawn(seed, 325, 5) ? 0 : divisor(seed, 326, ranks);
	g->cp = drawn(seed, 327, 3) ? 0 : 1 + drawn(seed, 328, 3);
	g->cp = drawn(seed, 329, 3) ? g->cp : BB_ANY;
	g->etp = drawn(seed, 330, 3) ? 0 : 1 + drawn(seed, 331, 4);
	g->ep = drawn(seed, 332, 2) ? 1 : 1 + drawn(seed, 333, 4);
	return p;
}

static void plan_add(struct sweep *s, const struct subject *u, uint64_t seed)
{
	static const int ranks[] = {1, 2, 4, 6, 8, 8, 12, 16, 24};
	const int n = ranks[drawn(seed, 400, COUNT(ranks))];
	const struct bb_hybrid_cluster cluster = draw_cluster(seed, n);
	const struct bb_hybrid_space space = draw_space(seed, u, n);
	struct bb_error error = {.text = ""};
	struct bb_hybrid_plan plan;

	sweep_add(s, bb_hybrid_plan_make(&plan, &cluster, &space, &error));
	SWEEP_ADD(s, (double)plan.n, (double)plan.tried);
	for (int i = 0; i < BB_MISFITS; i++)
		sweep_add(s, (double)plan.misfits[i]);
	for (size_t i = 0; i < plan.n; i++) {
		settings_add(s, &plan.list[i]);
		cost_add(s, &plan.list[i]);
	}
	if (plan.nearest.need.total > 0)
		settings_add(s, &plan.nearest);
	free(plan.list);
}

static void test_plans(void **state)
{
	struct sweep s = sweep_open("hybrid_plans");
	uint64_t seed = 50000;

	for (int i = 0; i < MODELS; i++) {
		struct subject u;

		open_model(&u, models[i]);
		for (int part = 0; part < 6; part++) {
			for (int n = 0; n < 40; n++)
				plan_add(&s, &u, seed++);
			sweep_end(&s, "%s, part %d", models[i], part);
		}
		close_model(&u);
	}
	for (int i = 0; i < BB_MISFITS; i++)
		sweep_add_text(&s, bb_misfit_reasons[i]);
	sweep_end(&s, "reasons");
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_bubbles),
		cmocka_unit_test(test_divisions),
		cmocka_unit_test(test_plans),
	};

	return cmocka_run_group_tests_name("hybrid_sweep", tests, NULL, NULL);
}

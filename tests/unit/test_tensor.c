/*
 * Split parts as programs: they keep the rules, send what the formulas say, and keep what they say;
 * and the unsplit part, which they are held against, has the gradients of what it computes.
 */
#include "models/memory/training.h"
#include "training_kernels/tensor/tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST_RANKS 8
#define MIB ((double)(1 << 20))

/* Divisible by all of 1 to 8. */
static struct bb_tensor_size even_size(void)
{
	return (struct bb_tensor_size){.tokens = 1680,
				       .seq = 840,
				       .hidden = 1680,
				       .queries = 1680,
				       .keys = 1680,
				       .heads = 840,
				       .kv_heads = 840,
				       .ffn = 3360,
				       .vocab = 8400,
				       .dtype = BB_BFLOAT16,
				       .loss_dtype = BB_FLOAT,
				       .project = 3e9,
				       .core = 4e9,
				       .core_back = 8e9,
				       .output = 1e9,
				       .mlp = 8e9,
				       .seconds = 1e-12};
}

/* GPT-3, a sequence: A is 48 MiB. */
static struct bb_tensor_size gpt3(void)
{
	return (struct bb_tensor_size){.tokens = 2048,
				       .seq = 2048,
				       .hidden = 12288,
				       .queries = 12288,
				       .keys = 12288,
				       .heads = 96,
				       .kv_heads = 96,
				       .ffn = 49152,
				       .vocab = 51200,
				       .dtype = BB_BFLOAT16,
				       .loss_dtype = BB_FLOAT};
}

static const struct bb_tensor_scheme *way_of(enum bb_tensor_part part, enum bb_tensor_mode mode)
{
	const struct bb_tensor_scheme *scheme = bb_tensor_schemes;

	while (scheme->of != part || scheme->mode != mode)
		scheme++;
	return scheme;
}

static void make(struct bb_taped *program, const struct bb_tensor_form *form, int nranks)
{
	struct bb_error error = {.text = ""};

	assert_null(bb_tensor_refuses(form->scheme, form->size, nranks));
	assert_int_equal(bb_tensor_write(program, form, nranks, &error), BB_OK);
}

static double play(const struct bb_tensor_form *form, int nranks, const struct bb_link_model *links)
{
	struct bb_error error = {.text = ""};
	struct bb_taped program;
	double end = -1;

	make(&program, form, nranks);
	if (bb_program_check(&program.program, &error) != BB_OK)
		fail_msg("%s of %s, %d ranks: %s", form->scheme->name, form->scheme->part, nranks,
			 error.text);
	assert_int_equal(bb_timeline_program(links, &program.program, NULL, &end, &error), BB_OK);
	bb_taped_free(&program);
	return end;
}

/* ---- programs ------------------------------------------------------------------------------- */

static void check_rules(const struct bb_tensor_scheme *scheme, int nranks)
{
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6};
	const struct bb_tensor_size size = even_size();
	struct bb_tensor_form form = {.scheme = scheme, .size = &size, .real = nranks % 2 == 0};

	for (form.layers = 1; form.layers < 4; form.layers += 2) {
		double times[3];

		for (int half = 0; half < 3; half++) {
			form.half = (enum bb_step_half)half;
			times[half] = play(&form, nranks, &links);
		}
		/* A step takes as long as its longer half, and no longer than both. */
		assert_true(times[0] >= times[1] && times[0] >= times[2] * (1 - 1e-9));
		assert_true(times[0] <= (times[1] + times[2]) * (1 + 1e-9));
		if (scheme->of == BB_TENSOR_LAYER)
			assert_true(fabs(times[1] - (double)form.layers * 48e-3 / nranks) < 1e-12);
	}
}

static void rules(void **state)
{
	for (const struct bb_tensor_scheme *scheme = bb_tensor_schemes; scheme->part; scheme++)
		for (int nranks = 1; nranks <= MOST_RANKS; nranks++)
			check_rules(scheme, nranks);
}

/* With links that are fast enough nothing of the blocks that go around is seen. */
static void ring_hides(void **state)
{
	const struct bb_link_model fast = {.rate = 1e12, .latency = 1e-7};
	const struct bb_tensor_size size = even_size();
	struct bb_tensor_form form = {
		.scheme = way_of(BB_TENSOR_LAYER, BB_TENSOR_RING), .size = &size, .layers = 1};
	double step, alone, all;

	step = play(&form, 4, &fast);
	form.half = BB_HALF_COMPUTE;
	alone = play(&form, 4, &fast);
	form.half = BB_HALF_COMMUNICATE;
	all = play(&form, 4, &fast);
	/* But for the last gradients on their way home. */
	assert_true(step - alone < all / 10 * 1.01);
}

static void refused(void **state)
{
	struct bb_tensor_size size = gpt3();

	assert_non_null(bb_tensor_refuses(way_of(BB_TENSOR_LAYER, BB_TENSOR_SPLIT), &size, 7));
	assert_non_null(bb_tensor_refuses(way_of(BB_TENSOR_LAYER, BB_TENSOR_RING), &size, 7));
	assert_non_null(
		bb_tensor_refuses(way_of(BB_TENSOR_EMBEDDING, BB_TENSOR_SEQUENCE), &size, 7));
	assert_null(bb_tensor_refuses(way_of(BB_TENSOR_EMBEDDING, BB_TENSOR_SPLIT), &size, 7));
	assert_null(bb_tensor_refuses(way_of(BB_TENSOR_LAYER, BB_TENSOR_ULYSSES), &size, 32));
	size.kv_heads = 8;
	assert_non_null(bb_tensor_refuses(way_of(BB_TENSOR_LAYER, BB_TENSOR_ULYSSES), &size, 32));
	assert_null(bb_tensor_refuses(way_of(BB_TENSOR_LAYER, BB_TENSOR_RING), &size, 32));
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static double counted(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *size,
		      int nranks, size_t layers, size_t *calls)
{
	const struct bb_tensor_form form = {.scheme = scheme, .size = size, .layers = layers};
	struct bb_taped program;
	struct bb_tape_traffic traffic;

	make(&program, &form, nranks);
	traffic = bb_taped_traffic(&program, 0, NULL);
	bb_taped_free(&program);
	if (calls)
		*calls = traffic.calls;
	return traffic.sent;
}

static void wire_is_the_formula(void **state)
{
	struct bb_tensor_size size = even_size();

	for (size_t keys = 1; keys <= 2; keys++, size.keys /= 2, size.kv_heads /= 2)
		for (const struct bb_tensor_scheme *scheme = bb_tensor_schemes; scheme->part;
		     scheme++)
			for (int nranks = 1; nranks <= MOST_RANKS; nranks++) {
				if (bb_tensor_refuses(scheme, &size, nranks))
					continue;
				assert_true(counted(scheme, &size, nranks, 1, NULL) ==
					    rint(bb_tensor_wire_formula(scheme, &size, nranks)));
			}
}

/* Bytes that a rank sends, worked out by hand: GPT-3 over 8 ranks. */
static void known_bytes(void **state)
{
	const struct bb_tensor_size size = gpt3();
	const struct {
		enum bb_tensor_part part;
		enum bb_tensor_mode mode;
		double bytes;
		size_t calls;
	} known[] = {
		{BB_TENSOR_LAYER, BB_TENSOR_SPLIT, 4 * 84 * MIB, 4},
		{BB_TENSOR_LAYER, BB_TENSOR_SEQUENCE, 10 * 42 * MIB, 10},
		{BB_TENSOR_LAYER, BB_TENSOR_ULYSSES, 8 * 42 * MIB / 8, 8},
		{BB_TENSOR_LAYER, BB_TENSOR_RING, (7 + 15) * 12 * MIB, 22},
		{BB_TENSOR_LOSS, BB_TENSOR_SPLIT, 3 * 2 * 7 / 8.0 * 8192, 3},
		{BB_TENSOR_LOSS, BB_TENSOR_GATHER, 7 / 8.0 * 2048 * 51200 * 2, 1},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct bb_tensor_scheme *scheme = way_of(known[i].part, known[i].mode);
		size_t calls;

		assert_true(counted(scheme, &size, 8, 1, &calls) == known[i].bytes);
		assert_int_equal(calls, known[i].calls);
		assert_true(counted(scheme, &size, 8, 3, NULL) == 3 * known[i].bytes);
	}
}

/* What the program leaves for its backward pass, with dropout's part, is what the formulas say. */
static void kept_is_the_formula(void **state)
{
	const struct bb_tensor_size size = even_size();

	for (const struct bb_tensor_scheme *scheme = bb_tensor_schemes;
	     scheme->of == BB_TENSOR_LAYER; scheme++)
		for (size_t t = 1; t <= MOST_RANKS; t++) {
			const struct bb_layer layer = {.seq = size.seq,
						       .batch = size.tokens / size.seq,
						       .hidden = size.hidden,
						       .heads = size.heads,
						       .queries = size.queries,
						       .keys = size.keys,
						       .ffn = size.ffn,
						       .routes = 1,
						       .eager = true,
						       .bytes = 2,
						       .tp = t,
						       .sequence_parallel =
							       scheme->mode != BB_TENSOR_SPLIT};
			const bool ring = scheme->mode == BB_TENSOR_RING;
			/* Two numbers of each token and head stand for its scores. */
			const uint64_t more = ring ? 2 * 2 * size.tokens / t * size.heads : 0;

			assert_int_equal(bb_tensor_kept(scheme, &size, t),
					 bb_layer_kept(&layer, ring ? BB_RECOMPUTE_SELECTIVE
								    : BB_RECOMPUTE_NONE) +
						 more);
		}
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* A part on one rank. */
struct whole {
	struct bb_tensor_size size;
	struct bb_tensor_state state;
	struct bb_taped program;
};

static void open_whole(struct whole *w, const struct bb_tensor_scheme *scheme,
		       const struct bb_tensor_size *size, bool grid)
{
	const struct bb_tensor_form form = {
		.scheme = scheme, .size = &w->size, .layers = 1, .real = true};

	w->size = *size;
	make(&w->program, &form, 1);
	w->state =
		(struct bb_tensor_state){.scheme = scheme, .size = &w->size, .t = 1, .grid = grid};
	bb_tensor_state_fill(&w->state,
			     malloc(bb_tensor_state_numbers(&w->state) * sizeof(double)));
}

/* Without a grid, which has no slope. */
static void open_smooth(struct whole *w, const struct bb_tensor_scheme *scheme)
{
	const struct bb_tensor_size size = {.tokens = 5,
					    .seq = 5,
					    .hidden = 6,
					    .queries = 6,
					    .keys = 6,
					    .heads = 2,
					    .kv_heads = 2,
					    .ffn = 7,
					    .vocab = 9,
					    .dtype = BB_DOUBLE,
					    .loss_dtype = BB_DOUBLE};

	open_whole(w, scheme, &size, false);
}

static void compute(struct whole *w)
{
	for (size_t i = 0; i < w->program.tapes->n; i++)
		if (w->program.tapes->list[i].act == BB_ACT_COMPUTE)
			bb_tensor_compute(&w->state, &w->program.tapes->list[i]);
}

static void close_whole(struct whole *w)
{
	free(w->state.memory);
	bb_taped_free(&w->program);
}

static size_t numbers_of(const struct whole *w, int slot)
{
	const struct bb_tensor_place p = bb_tensor_place_of(&w->state, slot);

	return p.rows * p.columns;
}

/* What the gradients are those of: the sum of the output times DZ; of the loss. */
static double objective(struct whole *w)
{
	double sum = 0;

	compute(w);
	if (w->state.scheme->of == BB_TENSOR_LOSS) {
		for (size_t i = 0; i < w->size.tokens; i++)
			sum += w->state.slots[BB_TS_LOSS][i];
		return sum;
	}
	for (size_t i = 0; i < numbers_of(w, BB_TS_X + 2); i++)
		sum += w->state.slots[BB_TS_X + 2][i] * w->state.slots[BB_TS_D(BB_TS_X + 2)][i];
	return sum;
}

static void assert_gradient(struct whole *w, int slot, int gradient)
{
	const double step = 1e-5;

	for (size_t i = 0; i < numbers_of(w, slot); i++) {
		double *x = &w->state.slots[slot][i];
		const double at = *x;
		double up, slope;

		*x = at + step;
		up = objective(w);
		*x = at - step;
		slope = (up - objective(w)) / (2 * step);
		*x = at;
		compute(w);
		if (!(fabs(slope - w->state.slots[gradient][i]) <= 1e-6))
			fail_msg("%s: number %zu of slot %d: slope %g, gradient %g",
				 w->state.scheme->name, i, slot, slope,
				 w->state.slots[gradient][i]);
	}
}

/* Against differences; a ring of one block, too. */
static void gradients(void **state)
{
	for (const struct bb_tensor_scheme *scheme = bb_tensor_schemes;
	     scheme->of == BB_TENSOR_LAYER; scheme++) {
		struct whole w;

		if (scheme->mode != BB_TENSOR_SPLIT && scheme->mode != BB_TENSOR_RING)
			continue;
		open_smooth(&w, scheme);
		assert_gradient(&w, BB_TS_X, BB_TS_D(BB_TS_X));
		for (int m = 0; m < BB_TENSOR_MATRICES; m++)
			assert_gradient(&w, BB_TS_WEIGHTS + m, BB_TS_D(BB_TS_WEIGHTS + m));
		close_whole(&w);
	}
}

static void gradient_of_the_loss(void **state)
{
	struct whole w;

	open_smooth(&w, way_of(BB_TENSOR_LOSS, BB_TENSOR_SPLIT));
	assert_gradient(&w, BB_TS_LOGITS, BB_TS_D(BB_TS_LOGITS));
	close_whole(&w);
}

/* ---- all ranks, in virtual time ------------------------------------------------------------- */

#define TEAM 3

/* The ranks of a split part. What they send each other is moved when the first of both ends has
   ended. */
struct team {
	struct bb_tensor_size size;
	struct bb_taped program;
	struct bb_tensor_state ranks[TEAM];
	bool *moved;                        /* of each collective */
	bool heard[TEAM][3][TEAM];          /* of each receiver's messages, by work and block */
	const struct bb_operation *missing; /* moves nothing; NULL: all do */
};

static size_t in_count(const struct bb_operation *o)
{
	return o->collective == &bb_all_gather || o->collective == &bb_all_reduce ? o->count
										  : o->count * TEAM;
}

/* OUT of RANK from copies of all ranks' inputs. */
static void collect(const struct bb_operation *o, double *out, double *const *in, size_t rank)
{
	const bool apart = o->collective == &bb_all_gather || o->collective == &bb_alltoall;
	const bool mine = o->collective == &bb_alltoall || o->collective == &bb_reduce_scatter;

	for (size_t r = 0; r < TEAM; r++)
		for (size_t i = 0; i < o->count; i++) {
			const double x = in[r][mine ? rank * o->count + i : i];

			if (apart)
				out[r * o->count + i] = x;
			else if (r == 0)
				out[i] = x;
			else
				out[i] = o->op == BB_SUM ? out[i] + x : fmax(out[i], x);
		}
}

static void move_collective(struct team *t, const struct bb_operation *o)
{
	const size_t n = in_count(o);
	double *in[TEAM];
	void *from, *to;

	for (size_t r = 0; r < TEAM; r++) {
		bb_tensor_buffers(&t->ranks[r], o, &from, &to);
		in[r] = malloc(n * sizeof(double));
		assert_non_null(in[r]);
		memcpy(in[r], from, n * sizeof(double));
	}
	for (size_t r = 0; r < TEAM; r++) {
		bb_tensor_buffers(&t->ranks[r], o, &from, &to);
		collect(o, to, in, r);
	}
	for (size_t r = 0; r < TEAM; r++)
		free(in[r]);
}

static bool is_missing(const struct team *t, const struct bb_operation *o)
{
	const struct bb_operation *m = t->missing;

	const bool same = m && m->work == o->work && m->item == o->item;

	/* Of a message, both ends. */
	return same && (m->act == o->act || (m->act == BB_ACT_RECV && o->act == BB_ACT_SEND));
}

static void done(void *own, int rank, size_t index, const struct bb_operation *o, double from,
		 double to, int source)
{
	struct team *t = own;
	void *sent, *mine, *unused;
	const bool message = o->act == BB_ACT_SEND || o->act == BB_ACT_RECV;
	const int peer = o->act == BB_ACT_SEND ? o->peer : rank;
	bool *heard = message ? &t->heard[peer][o->work][o->item / BB_TENSOR_STEPS] : NULL;

	if (o->act == BB_ACT_COMPUTE) {
		bb_tensor_compute(&t->ranks[rank], o);
	} else if (is_missing(t, o)) {
		return;
	} else if (message && !*heard) {
		*heard = true;
		bb_tensor_buffers(&t->ranks[(peer + TEAM - 1) % TEAM], o, &sent, &unused);
		bb_tensor_buffers(&t->ranks[peer], o, &unused, &mine);
		memcpy(mine, sent, bb_operation_bytes(o));
	} else if (o->act == BB_ACT_COLLECTIVE && !t->moved[index]) {
		/* The first that is done has heard from all others. */
		t->moved[index] = true;
		move_collective(t, o);
	}
}

static void play_team(struct team *t, const struct bb_tensor_scheme *scheme,
		      const struct bb_operation *missing)
{
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6};
	const struct bb_timeline_watch watch = {done, t};
	struct bb_error error = {.text = ""};
	double end;

	t->missing = missing;
	memset(t->heard, 0, sizeof(t->heard));
	t->moved = calloc(t->program.tapes->n, sizeof(*t->moved));
	assert_non_null(t->moved);
	for (size_t r = 0; r < TEAM; r++) {
		struct bb_tensor_state *s = &t->ranks[r];

		*s = (struct bb_tensor_state){.scheme = scheme,
					      .size = &t->size,
					      .rank = r,
					      .t = TEAM,
					      .grid = scheme->mode != BB_TENSOR_RING};
		bb_tensor_state_fill(s, malloc(bb_tensor_state_numbers(s) * sizeof(double)));
	}
	assert_int_equal(bb_timeline_program(&links, &t->program.program, &watch, &end, &error),
			 BB_OK);
	free(t->moved);
}

/* Numbers of SLOT that are not those of WHOLE. */
static size_t differences(const struct bb_tensor_state *s, const struct bb_tensor_state *whole,
			  int slot)
{
	const struct bb_tensor_place p = bb_tensor_place_of(s, slot);
	const double tolerance = s->grid ? 0 : 1e-12;
	size_t wrong = 0;

	for (size_t r = 0; r < p.rows; r++)
		for (size_t c = 0; c < p.columns; c++) {
			const double off =
				s->slots[slot][r * p.columns + c] -
				whole->slots[slot][(p.row + r) * p.whole_columns + p.column + c];

			wrong += !(fabs(off) <= tolerance);
		}
	return wrong;
}

static size_t wrong_without(struct team *t, const struct bb_tensor_scheme *scheme,
			    const struct bb_tensor_state *whole, const struct bb_operation *missing)
{
	size_t wrong = 0;

	play_team(t, scheme, missing);
	for (const struct bb_tensor_results *r = bb_tensor_results; r->part; r++)
		for (size_t rank = 0; rank < TEAM && r->of == scheme->of; rank++) {
			wrong += differences(&t->ranks[rank], whole, r->output);
			for (int i = 0; i < r->ngradients; i++)
				wrong += differences(&t->ranks[rank], whole,
						     bb_tensor_gradient(r, i));
		}
	for (size_t r = 0; r < TEAM; r++)
		free(t->ranks[r].memory);
	return wrong;
}

static void check_team(const struct bb_tensor_scheme *scheme)
{
	struct team t = {.size = {.tokens = 2 * TEAM,
				  .seq = 2 * TEAM,
				  .hidden = 4 * TEAM,
				  .queries = 4 * TEAM,
				  .keys = 4 * TEAM,
				  .heads = 2 * TEAM,
				  .kv_heads = 2 * TEAM,
				  .ffn = 8 * TEAM,
				  .vocab = 4 * TEAM,
				  .dtype = BB_DOUBLE,
				  .loss_dtype = BB_DOUBLE}};
	const struct bb_tensor_form form = {
		.scheme = scheme, .size = &t.size, .layers = 1, .real = true};
	struct whole w;

	open_whole(&w, way_of(scheme->of, BB_TENSOR_SPLIT), &t.size,
		   scheme->mode != BB_TENSOR_RING);
	compute(&w);
	make(&t.program, &form, TEAM);
	if (wrong_without(&t, scheme, &w.state, NULL) > 0)
		fail_msg("%s of %s is wrong", scheme->name, scheme->part);
	for (size_t i = 0; i < t.program.tapes->n; i++) {
		const struct bb_operation *o = &t.program.tapes->list[i];

		if ((o->act == BB_ACT_COLLECTIVE || o->act == BB_ACT_RECV) &&
		    wrong_without(&t, scheme, &w.state, o) == 0)
			fail_msg("%s of %s: nobody misses operation %zu", scheme->name,
				 scheme->part, i);
	}
	bb_taped_free(&t.program);
	close_whole(&w);
}

/* All together make what one makes alone, and not without any one collective or message. */
static void all_are_needed(void **state)
{
	for (const struct bb_tensor_scheme *scheme = bb_tensor_schemes; scheme->of != BB_TENSOR_MLP;
	     scheme++)
		check_team(scheme);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules),          cmocka_unit_test(ring_hides),
		cmocka_unit_test(refused),        cmocka_unit_test(wire_is_the_formula),
		cmocka_unit_test(known_bytes),    cmocka_unit_test(kept_is_the_formula),
		cmocka_unit_test(gradients),      cmocka_unit_test(gradient_of_the_loss),
		cmocka_unit_test(all_are_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

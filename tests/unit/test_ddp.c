/*
 * A step with buckets as a program: it keeps the rules, takes in virtual time what follows from its
 * parts, and a small case is worked out by hand.
 */
#include "simulator/timeline/timeline.h"
#include "training_kernels/ddp/step.h"
#include "buckets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define M ((uint64_t)1 << 20)
#define MOST_BUCKETS 256

struct setting {
	struct bb_model model;
	struct bb_buckets buckets;
	double *ready_s; /* of tensors */
	struct bb_ddp_step step;
};

static void open_setting(struct setting *s, const char *model, uint64_t cap)
{
	struct bb_error error = {.text = ""};

	memset(s, 0, sizeof(*s));
	assert_int_equal(bb_model_open(&s->model, model, 0, &error), BB_OK);
	assert_int_equal(ddp_buckets(&s->buckets, &s->model, BB_FLOAT, M < cap ? M : cap, cap),
			 BB_OK);
	s->ready_s = calloc(s->model.ntensors, sizeof(double));
	assert_non_null(s->ready_s);
	assert_true(s->buckets.n <= MOST_BUCKETS);
	bb_model_ready(&s->model, 0.1, s->ready_s);
	s->step = (struct bb_ddp_step){.forward_s = 0.05,
				       .ready_s = s->ready_s,
				       .buckets = &s->buckets,
				       .microbatches = 1,
				       .overlap = true,
				       .part = BB_DDP_STEP};
}

static void close_setting(struct setting *s)
{
	bb_fusion_free(&s->buckets);
	bb_model_free(&s->model);
	free(s->ready_s);
}

static double play(const struct bb_ddp_step *step, int nranks, const char *algorithm,
		   const struct bb_link_model *links)
{
	struct bb_error error = {.text = ""};
	struct bb_taped p;
	double end = -1;

	assert_int_equal(bb_ddp_write(&p, step, nranks, algorithm, &error), BB_OK);
	if (bb_program_check(&p.program, &error) != BB_OK)
		fail_msg("%s", error.text);
	assert_int_equal(bb_timeline_program(links, &p.program, NULL, &end, &error), BB_OK);
	bb_taped_free(&p);
	return end;
}

/* Seconds to reduce each bucket alone. */
static void reductions(const struct setting *s, int nranks, const char *algorithm,
		       const struct bb_link_model *links, double reduce_s[MOST_BUCKETS])
{
	for (size_t k = 0; k < s->buckets.n; k++) {
		const struct bb_buckets one = {
			.list = &s->buckets.list[k], .n = 1, .bytes = s->buckets.list[k].bytes};
		struct bb_ddp_step step = s->step;

		step.buckets = &one;
		step.part = BB_DDP_REDUCTIONS;
		reduce_s[k] = play(&step, nranks, algorithm, links);
	}
}

static void assert_same(double a, double b)
{
	if (!(fabs(a - b) <= 1e-12 * fabs(b)))
		fail_msg("%.17g, not %.17g", a, b);
}

/* Seconds of a step by its formula. */
struct times {
	double step_s, reduce_s;
	double exposed_s; /* not hidden behind the computations */
	double hidden;    /* the share of the reductions that is */
};

static struct times follow(const struct bb_ddp_step *step, double compute_s, double backward_s,
			   const double *reduce_s)
{
	const struct bb_ddp_alone alone = {compute_s, backward_s, reduce_s, 0, 0};
	struct times t = {.step_s = bb_ddp_formula(step, &alone)};

	for (size_t k = 0; k < step->buckets->n; k++)
		t.reduce_s += reduce_s[k];
	t.exposed_s = t.step_s - compute_s;
	t.hidden = t.reduce_s > 0 ? 1 - t.exposed_s / t.reduce_s : NAN;
	return t;
}

static struct times times_of(const struct setting *s, double alone_s, const double *reduce_s)
{
	return follow(&s->step, alone_s, 0.1, reduce_s);
}

/* Step, exposed communication and efficiency in virtual time are those that follow from the parts.
 */
static void compare(const char *name, uint64_t cap, int nranks, const char *algorithm)
{
	const struct bb_link_model links = {.rate = 2e9, .latency = 20e-6};
	double reduce_s[MOST_BUCKETS];
	struct setting s;

	open_setting(&s, name, cap);
	reductions(&s, nranks, algorithm, &links, reduce_s);
	for (int overlap = 0; overlap < 2; overlap++)
		for (size_t batches = 1; batches < 4; batches += 2) {
			struct times expected;
			double step, alone, reduce;

			s.step.overlap = overlap;
			s.step.microbatches = batches;
			s.step.part = BB_DDP_ALONE;
			alone = play(&s.step, nranks, algorithm, &links);
			assert_same(alone, (double)batches * 0.15);
			s.step.part = BB_DDP_REDUCTIONS;
			reduce = play(&s.step, nranks, algorithm, &links);
			s.step.part = BB_DDP_STEP;
			step = play(&s.step, nranks, algorithm, &links);
			expected = times_of(&s, alone, reduce_s);
			assert_same(step, expected.step_s);
			assert_same(reduce, expected.reduce_s);
			assert_true(fabs((step - alone) - expected.exposed_s) < 1e-12);
			if (overlap && nranks > 1)
				assert_true(fabs(1 - (step - alone) / reduce - expected.hidden) <
					    1e-9);
		}
	close_setting(&s);
}

static void test_follows_from_its_parts(void **state)
{
	static const char *const algorithms[] = {"ring", "tree", "recursive_doubling", NULL};
	static const uint64_t caps[] = {1, M, 25 * M, BB_BUCKET_UNLIMITED};

	for (size_t i = 0; i < 4; i++)
		for (size_t c = 0; c < sizeof(caps) / sizeof(*caps); c++) {
			compare("resnet50", caps[c], 4, algorithms[i]);
			compare("linear:5x64", caps[c], 8, algorithms[i]);
		}
	compare("gpt2", 25 * M, 4, "ring");
}

static void test_keeps_the_rules(void **state)
{
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6};
	struct setting s;

	open_setting(&s, "linear:7x128", 64 << 10);
	assert_true(s.buckets.n > 3);
	for (int n = 1; n <= 9; n++)
		for (int part = BB_DDP_STEP; part <= BB_DDP_START; part++)
			for (int overlap = 0; overlap < 2; overlap++) {
				s.step.part = (enum bb_ddp_part)part;
				s.step.overlap = overlap;
				s.step.microbatches = (size_t)n;
				assert_true(play(&s.step, n, NULL, &links) >= 0);
			}
	close_setting(&s);
}

/* Horovod's buckets of the model, with a cycle for each tenth of the backward pass. */
static void group_by_cycles(struct setting *s)
{
	const uint64_t threshold = 64 << 10;
	const struct bb_fusion_setting horovod = {.rule = &bb_fusion_rules[BB_FUSION_HOROVOD],
						  .caps = &threshold,
						  .ncaps = 1,
						  .cycle_s = 0.01 + 1e-9};
	struct bb_fusion_tensor *tensors = calloc(s->model.ntensors, sizeof(*tensors));
	struct bb_error error = {.text = ""};

	assert_non_null(tensors);
	bb_fusion_tensors(tensors, &s->model, BB_FLOAT, BB_FLOAT, s->ready_s, NULL);
	bb_fusion_free(&s->buckets);
	assert_int_equal(bb_fusion_make(&s->buckets, tensors, s->model.ntensors, &horovod, &error),
			 BB_OK);
	free(tensors);
	s->step.words = bb_fusion_words(s->model.ntensors);
}

/* So do cycles, whose negotiations have a queue of their own, and all-reduces by way of nodes, of
   which the last may be smaller; in virtual time they end no earlier than the computations and the
   last cycle. */
static void test_cycles_and_nodes(void **state)
{
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6};
	struct setting s;

	for (int cycles = 0; cycles < 2; cycles++) {
		open_setting(&s, "linear:7x129", 64 << 10);
		if (cycles)
			group_by_cycles(&s);
		assert_int_equal(s.buckets.ncycles, cycles ? 10 : 0);
		for (int n = 2; n <= 9; n++)
			for (int l = 0; l < n; l = l ? l + 1 : 2)
				for (int k = 0; k < 2; k++) {
					s.step.node_ranks = l;
					s.step.unequal = l && n % l != 0;
					s.step.overlap = k;
					s.step.part = BB_DDP_REDUCTIONS;
					const double reduce_s = play(&s.step, n, NULL, &links);
					s.step.part = BB_DDP_STEP;
					const double step_s = play(&s.step, n, NULL, &links);
					const double end = cycles && k ? 10 * (0.01 + 1e-9) : 0.1;

					assert_true(reduce_s > 0 && step_s > 0.05 + end);
					assert_true(step_s <=
						    0.05 + end + reduce_s + 10 * 20 * 1e-6 * n);
				}
		close_setting(&s);
	}
}

struct heard {
	size_t next;                   /* bucket to be reduced */
	double complete[MOST_BUCKETS]; /* when the backward pass had the bucket, in the last batch
					*/
	int reductions, forwards;
};

static void hear(void *own, int rank, size_t index, const struct bb_operation *o, double from,
		 double to, int source)
{
	struct heard *h = own;

	if (rank != 0)
		return;
	h->forwards += o->work == BB_DDP_FORWARD;
	if (o->work == BB_DDP_BACKWARD)
		h->complete[o->item] = to;
	if (o->work == BB_DDP_REDUCE) {
		assert_true(from >= h->complete[o->item]);
		assert_int_equal(o->item, h->next++);
		h->reductions++;
	}
}

/* Buckets are reduced in their order, once a step however many batches it has. */
static void test_order(void **state)
{
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-6, .noise = 0.1, .seed = 7};
	struct heard heard = {.next = 0};
	const struct bb_timeline_watch watch = {hear, &heard};
	struct bb_error error = {.text = ""};
	struct bb_taped p;
	struct setting s;
	double end;

	open_setting(&s, "linear:7x128", 64 << 10);
	s.step.microbatches = 4;
	assert_int_equal(bb_ddp_write(&p, &s.step, 3, "ring", &error), BB_OK);
	assert_int_equal(bb_timeline_program(&links, &p.program, &watch, &end, &error), BB_OK);
	assert_int_equal(heard.reductions, s.buckets.n);
	assert_int_equal(heard.forwards, 4);
	bb_taped_free(&p);
	close_setting(&s);
}

/* Three buckets of 4, 6 and 2 bytes, complete at 1, 2 and 5; a byte takes a second. */
static void test_by_hand(void **state)
{
	static const double ready[] = {0, 1, 2, 5}, reduce[] = {4, 6, 2};
	struct bb_bucket list[] = {{.last = 1, .padded = 2, .bytes = 4},
				   {.last = 2, .padded = 3, .bytes = 6},
				   {.last = 3, .padded = 1, .bytes = 2}};
	const struct bb_buckets buckets = {.list = list, .n = 3, .bytes = 12};
	struct bb_ddp_step step = {.forward_s = 3,
				   .ready_s = ready,
				   .buckets = &buckets,
				   .microbatches = 1,
				   .overlap = true,
				   .part = BB_DDP_STEP};
	struct times t;

	/* 1 to 5, 5 to 11, 11 to 13 */
	t = follow(&step, 8, 5, reduce);
	assert_true(t.step_s == 16 && t.exposed_s == 8 && t.reduce_s == 12);
	assert_true(fabs(t.hidden - 4. / 12) < 1e-15);
	/* A backward pass that takes twice as long: 2 to 6, 6 to 12, 12 to 14 */
	t = follow(&step, 13, 10, reduce);
	assert_true(t.step_s == 17 && t.exposed_s == 4);

	step.overlap = false;
	t = follow(&step, 8, 5, reduce);
	assert_true(t.step_s == 20 && t.exposed_s == 12 && fabs(t.hidden) < 1e-15);

	/* Only the last of 4 batches is reduced. */
	step.overlap = true;
	step.microbatches = 4;
	t = follow(&step, 32, 5, reduce);
	assert_true(t.step_s == 3 * 8 + 16 && t.exposed_s == 8);
}

/* An all-reduce of BYTES over a ring of N ranks: 2 (N-1) rounds of LATENCY and BYTES / N at RATE
   each (Patarasuk and Yuan 2009). */
static double ring_seconds(uint64_t bytes, int n, double latency, double rate)
{
	return 2.0 * (n - 1) * (latency + (double)bytes / n / rate);
}

/* A reduction by a ring is its formula, where all parts are as long; what is best is never worse;
   one rank has nothing to wait for. */
static void test_reductions(void **state)
{
	static const char *const names[] = {"ring", "tree", "halving_doubling", NULL};
	const struct bb_link_model links = {.rate = 1e9, .latency = 1e-5};
	struct times t;
	struct setting s;

	open_setting(&s, "linear:1x8", BB_BUCKET_UNLIMITED);
	for (int n = 1; n <= 32; n *= 2)
		for (uint64_t bytes = 4 * (uint64_t)n; bytes <= 64 * M; bytes *= 16) {
			double times[4][MOST_BUCKETS];

			s.buckets.list[0].padded = bytes / 4;
			s.buckets.list[0].bytes = bytes;
			for (int i = 0; i < 4; i++)
				reductions(&s, n, names[i], &links, times[i]);
			assert_true(fabs(times[0][0] - ring_seconds(bytes, n, 1e-5, 1e9)) <=
				    1e-9 * times[0][0]);
			for (int i = 0; i < 3; i++)
				assert_true(times[3][0] <= times[i][0]);
			t = times_of(&s, 0.15, times[0]);
			assert_true(n > 1 ? fabs(t.hidden) < 1e-9
					  : fabs(t.exposed_s) < 1e-15 && isnan(t.hidden));
		}
	close_setting(&s);
}

/* exposed is at least the last bucket and at most all of them, and overlap never costs; one bucket
   hides nothing. */
static void test_bounds(void **state)
{
	static const char *const words[] = {"resnet50", "gpt2", "linear:20x2000"};
	static const struct {
		int n;
		double latency, rate;
	} links[] = {{2, 0, 1e9}, {8, 1e-5, 1e10}, {64, 1e-6, 1e11}, {512, 1e-4, 1e12}};
	static const uint64_t caps[] = {1, M, 5 * M, 25 * M, 200 * M, BB_BUCKET_UNLIMITED};

	for (size_t w = 0; w < 3; w++)
		for (size_t k = 0; k < 24; k++) {
			double reduce_s[MOST_BUCKETS], last;
			struct times on, off;
			struct setting s;

			open_setting(&s, words[w], caps[k / 4]);
			for (size_t b = 0; b < s.buckets.n; b++)
				reduce_s[b] = ring_seconds(s.buckets.list[b].bytes, links[k % 4].n,
							   links[k % 4].latency, links[k % 4].rate);
			last = reduce_s[s.buckets.n - 1];
			on = times_of(&s, 0.15, reduce_s);
			s.step.overlap = false;
			off = times_of(&s, 0.15, reduce_s);
			assert_true(on.exposed_s >= last * (1 - 1e-9));
			assert_true(on.exposed_s <= on.reduce_s * (1 + 1e-9));
			assert_true(fabs(off.exposed_s / off.reduce_s - 1) < 1e-9);
			assert_true(on.step_s <= off.step_s);
			assert_true(on.hidden > -1e-9 && on.hidden < 1);
			close_setting(&s);
		}
}

/* A third of GPT-2's bytes are complete only in the end: they cannot be hidden, however fast. */
static void test_embedding_is_exposed(void **state)
{
	double reduce_s[MOST_BUCKETS], last;
	struct times t;
	struct setting s;

	open_setting(&s, "gpt2", 25 * M);
	for (size_t b = 0; b < s.buckets.n; b++)
		reduce_s[b] = ring_seconds(s.buckets.list[b].bytes, 8, 0, 1e12);
	last = reduce_s[s.buckets.n - 1];
	t = times_of(&s, 0.15, reduce_s);
	assert_true(last / t.reduce_s > 0.3);
	assert_true(fabs(t.exposed_s / last - 1) < 1e-9);
	assert_true(fabs(t.hidden - (1 - last / t.reduce_s)) < 1e-9);
	close_setting(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_follows_from_its_parts),
		cmocka_unit_test(test_keeps_the_rules),
		cmocka_unit_test(test_cycles_and_nodes),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_reductions),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_embedding_is_exposed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

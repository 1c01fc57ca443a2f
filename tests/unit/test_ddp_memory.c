/*
 * What a step does on memory: places of the optimizer against worked examples, copies and bytes by
 * hand, and Adam on real memory.
 */
#include "training_kernels/ddp/memory.h"
#include "training_kernels/kernel/adam.h"

#include "simulator/timeline/timeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 12

/* K buckets of 25 elements in fp32, each complete a second of BACKWARD after the one before. */
struct line {
	double ready[MOST], reduce[MOST + 1 + BB_DDP_EXTRAS];
	struct bb_bucket list[MOST];
	struct bb_buckets buckets;
	struct bb_ddp_step step;
};

static void make_line(struct line *l, size_t k, double backward, double reduce)
{
	memset(l, 0, sizeof(*l));
	for (size_t i = 0; i < k; i++) {
		l->ready[i] = (double)(i + 1) * backward;
		l->reduce[i] = reduce;
		l->list[i] = (struct bb_bucket){.first = i,
						.count = 1,
						.last = i,
						.before = 100 * i,
						.elements = 25,
						.padded = 25,
						.bytes = 100,
						.dtype = BB_FLOAT};
	}
	l->buckets = (struct bb_buckets){.list = l->list, .n = k, .bytes = 100 * k};
	l->step = (struct bb_ddp_step){.ready_s = l->ready,
				       .buckets = &l->buckets,
				       .microbatches = 1,
				       .overlap = true,
				       .part = BB_DDP_STEP};
}

/* The step by the recurrences; its program keeps the rules. */
static double step_of(const struct line *l, double copy_s, double update_s)
{
	const double backward = l->ready[l->buckets.n - 1];
	const struct bb_ddp_alone alone = {backward, backward, l->reduce, copy_s, update_s};
	struct bb_error error = {.text = ""};
	struct bb_taped taped;

	assert_int_equal(bb_ddp_write(&taped, &l->step, 1, NULL, &error), BB_OK);
	if (bb_program_check(&taped.program, &error) != BB_OK)
		fail_msg("%s", error.text);
	bb_taped_free(&taped);
	return bb_ddp_formula(&l->step, &alone);
}

/* K buckets, backward pass b, reduction c, update o. */
static void test_places(void **state)
{
	static const struct {
		size_t k;
		double b, c, o, after, own, comm;
	} examples[] = {{4, 10, 8, 3, 60, 51, 54},
			{4, 10, 12, 3, 70, 61, 70},
			{12, 2, 1, .5, 31, 25.5, 25.5}};
	struct line l;

	for (size_t i = 0; i < 3; i++) {
		const double updates = (double)examples[i].k * examples[i].o;

		make_line(&l, examples[i].k, examples[i].b, examples[i].c);
		l.step.place = BB_DDP_AFTER;
		assert_true(fabs(step_of(&l, 0, updates) - examples[i].after) < 1e-12);
		l.step.place = BB_DDP_OWN_QUEUE;
		assert_true(fabs(step_of(&l, 0, updates) - examples[i].own) < 1e-12);
		l.step.place = BB_DDP_COMM_QUEUE;
		assert_true(fabs(step_of(&l, 0, updates) - examples[i].comm) < 1e-12);
		/* Nothing is communicated: K (b + o). */
		l.step.place = BB_DDP_IN_BACKWARD;
		assert_true(fabs(step_of(&l, 0, updates) -
				 (double)examples[i].k * (examples[i].b + examples[i].o)) < 1e-12);
	}
}

/* The same programs in virtual time with the rate of memory: 28 bytes a parameter, 25 parameters a
   bucket, 700 bytes in 3 s. One rank's reductions take no time. */
static void test_rate(void **state)
{
	const struct bb_link_model none = {.rate = 0};
	static const double ends[] = {40, 52, 43, 43, 52};
	struct bb_error error = {.text = ""};
	struct bb_taped taped;
	struct line l;
	double end;

	make_line(&l, 4, 10, 0);
	l.step.memory_rate = 700. / 3;
	for (int place = 0; place < 5; place++) {
		l.step.place = (enum bb_ddp_place)place;
		assert_int_equal(bb_ddp_write(&taped, &l.step, 1, NULL, &error), BB_OK);
		assert_int_equal(bb_timeline_program(&none, &taped.program, NULL, &end, &error),
				 BB_OK);
		assert_true(fabs(end - ends[place]) < 1e-9);
		bb_taped_free(&taped);
	}
}

/* Three buckets, b 10, c 8. A copy of a bucket takes 1: with copies both ways, 6 in all. */
static void test_copies(void **state)
{
	struct line l;

	make_line(&l, 3, 10, 8);
	assert_true(step_of(&l, 0, 0) == 38);
	l.step.view = BB_DDP_VIEWS;
	/* ready 11, 22, 33; the last reduction ends at 41 */
	assert_true(fabs(step_of(&l, 3, 0) - 41) < 1e-12);
	assert_true(bb_ddp_part_bytes(&l.step, BB_DDP_COPIES) == 600);
	l.step.view = BB_DDP_COPIED;
	/* copies out at 33 and 34, and of the last bucket at 41 */
	assert_true(fabs(step_of(&l, 6, 0) - 42) < 1e-12);
	assert_true(bb_ddp_part_bytes(&l.step, BB_DDP_COPIES) == 1200);
	l.step.overlap = false;
	/* reductions from 33 to 57, copies out behind each */
	assert_true(fabs(step_of(&l, 6, 0) - 58) < 1e-12);
	l.step.overlap = true;
	/* A copy out and 2 of an update behind each reduction: 41 and 3 */
	l.step.place = BB_DDP_OWN_QUEUE;
	assert_true(fabs(step_of(&l, 6, 6) - 44) < 1e-12);
	/* 11 to 22, 22 to 33, 33 to 44 */
	l.step.place = BB_DDP_COMM_QUEUE;
	assert_true(fabs(step_of(&l, 6, 6) - 44) < 1e-12);
	l.step.place = BB_DDP_AFTER;
	assert_true(fabs(step_of(&l, 6, 6) - 48) < 1e-12);
	assert_true(bb_ddp_part_bytes(&l.step, BB_DDP_UPDATES) == 28 * 75);
	l.step.inspects = true;
	assert_true(bb_ddp_part_bytes(&l.step, BB_DDP_UPDATES) == 32 * 75);
	assert_true(fabs(step_of(&l, 6, 6) - 48) < 1e-12);
}

/* Broadcasts of 2 and 1 before the step, and 4 behind its reductions. */
static void test_extras(void **state)
{
	struct line l;

	make_line(&l, 3, 10, 8);
	l.reduce[4] = 2;
	l.reduce[5] = 1;
	l.reduce[6] = 4;
	l.step.extras[BB_DDP_BUFFERS] = 7;
	assert_true(step_of(&l, 0, 0) == 40);
	l.step.extras[BB_DDP_COUNTERS] = 1;
	assert_true(step_of(&l, 0, 0) == 41);
	l.step.extras[BB_DDP_USED] = 3;
	assert_true(step_of(&l, 0, 0) == 45);
}

/* ResNet-50 has 53 batch norms; models without them have no buffers. */
static void test_buffers(void **state)
{
	struct bb_error error = {.text = ""};
	struct bb_model model;

	assert_int_equal(bb_model_open(&model, "resnet50", 0, &error), BB_OK);
	assert_int_equal(model.buffers, 53120);
	assert_int_equal(model.counters, 53);
	bb_model_free(&model);
	assert_int_equal(bb_model_open(&model, "gpt2", 0, &error), BB_OK);
	assert_int_equal(model.buffers + model.counters, 0);
	bb_model_free(&model);
}

#define ELEMENTS 3000

/* Gradients are 4 and -2 by turns; of 2 ranks, halved by the copy, doubled by the all-reduce. */
static void open_memory(struct bb_ddp_memory *m, enum bb_dtype dtype)
{
	*m = (struct bb_ddp_memory){
		.dtype = dtype, .nranks = 2, .elements = ELEMENTS, .loss_scale = 1};
	m->gradients = calloc(ELEMENTS, 8);
	m->buckets = calloc(ELEMENTS, 8);
	m->parameters = dtype == BB_FLOAT ? NULL : calloc(ELEMENTS, 8);
	m->master = calloc(3 * ELEMENTS, sizeof(float));
	assert_true(m->gradients && m->buckets && m->master);
	m->moment1 = m->master + ELEMENTS;
	m->moment2 = m->moment1 + ELEMENTS;
	for (size_t i = 0; i < ELEMENTS; i++) {
		const float wide = i % 2 ? -2 : 4;

		bb_adam_narrow(dtype, &wide, m->gradients + i * bb_dtype_size(dtype), 1);
	}
	bb_ddp_memory_reset(m);
}

static void close_memory(struct bb_ddp_memory *m)
{
	free(m->gradients);
	free(m->buckets);
	free(m->parameters);
	free(m->master);
}

static void test_divides(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};

	for (size_t d = 0; d < 3; d++) {
		const size_t size = bb_dtype_size(dtypes[d]);
		struct bb_ddp_memory m;
		char before[ELEMENTS * 8];
		float got = 0;

		open_memory(&m, dtypes[d]);
		memcpy(before, m.gradients, ELEMENTS * size);
		bb_ddp_memory_work(&m, BB_DDP_COPY_IN, true, 5, 2500);
		assert_memory_equal(before, m.gradients, ELEMENTS * size);
		for (size_t i = 5; i < 2505; i++) {
			bb_adam_widen(dtypes[d], m.buckets + i * size, &got, 1);
			assert_true(got == (i % 2 ? -1 : 2));
		}
		/* The rest of the buckets is as it was. */
		for (size_t i = 0; i < size; i++)
			assert_true(!m.buckets[4 * size + i] && !m.buckets[2505 * size + i]);
		bb_ddp_memory_work(&m, BB_DDP_COPY_OUT, true, 5, 2500);
		assert_memory_equal(m.gradients + 5 * size, m.buckets + 5 * size, 2500 * size);
		/* In place */
		bb_ddp_memory_work(&m, BB_DDP_COPY_IN, false, 0, 2);
		assert_memory_equal(m.gradients + 0 * size, m.buckets + 6 * size, size);
		close_memory(&m);
	}
}

/* All parameters are as after Adam, and one wrong bit anywhere is found. */
static void test_adam(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_FLOAT, BB_HALF, BB_BFLOAT16};

	for (size_t d = 0; d < 3; d++) {
		struct bb_ddp_memory m;

		open_memory(&m, dtypes[d]);
		assert_int_equal(bb_ddp_memory_wrong(&m), ELEMENTS);
		bb_ddp_memory_work(&m, BB_DDP_UPDATE, false, 0, 1000);
		bb_ddp_memory_work(&m, BB_DDP_UPDATE, false, 1000, ELEMENTS - 1001);
		assert_int_equal(m.steps, 1);
		assert_int_equal(bb_ddp_memory_wrong(&m), 1);
		bb_ddp_memory_work(&m, BB_DDP_UPDATE, false, ELEMENTS - 1, 1);
		assert_int_equal(bb_ddp_memory_wrong(&m), 0);
		((char *)&m.moment1[17])[0] ^= 1;
		((char *)&m.master[18])[3] ^= 1;
		((char *)&m.moment2[19])[1] ^= 1;
		assert_int_equal(bb_ddp_memory_wrong(&m), 3);
		if (m.parameters) {
			m.parameters[40] ^= 1;
			assert_int_equal(bb_ddp_memory_wrong(&m), 4);
		}
		close_memory(&m);
	}
}

/* The norm of 1500 times 4 and -2 is sqrt(30000), 173.2; a scale of 8 hides in it. A gradient that
   has overflowed lets no parameter change. */
static void test_inspects(void **state)
{
	struct bb_ddp_memory m;

	open_memory(&m, BB_FLOAT);
	m.most_norm = 1;
	m.loss_scale = 8;
	bb_ddp_memory_work(&m, BB_DDP_INSPECT, false, 0, 0);
	assert_true(fabs(m.unscale - 1 / (sqrt(30000) + 8e-6)) < 1e-9);
	bb_ddp_memory_work(&m, BB_DDP_UPDATE, false, 0, ELEMENTS);
	assert_int_equal(bb_ddp_memory_wrong(&m), 0);
	/* Without the scale the result is another. */
	m.loss_scale = 1;
	m.most_norm = 0;
	assert_int_equal(bb_ddp_memory_wrong(&m), ELEMENTS);

	m.loss_scale = 2;
	bb_ddp_memory_reset(&m);
	((float *)m.gradients)[77] = INFINITY;
	bb_ddp_memory_work(&m, BB_DDP_INSPECT, false, 0, 0);
	assert_true(m.overflowed);
	bb_ddp_memory_work(&m, BB_DDP_UPDATE, false, 0, ELEMENTS);
	assert_int_equal(m.steps, 0);
	assert_int_equal(bb_ddp_memory_wrong(&m), 0);
	m.master[3] = 1;
	assert_int_equal(bb_ddp_memory_wrong(&m), 1);
	close_memory(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),  cmocka_unit_test(test_rate),
		cmocka_unit_test(test_copies),  cmocka_unit_test(test_extras),
		cmocka_unit_test(test_buffers), cmocka_unit_test(test_divides),
		cmocka_unit_test(test_adam),    cmocka_unit_test(test_inspects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

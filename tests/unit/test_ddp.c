/*
 * A step with buckets as a program: it keeps the rules, and in virtual time it is the step model.
 */
#include "training_kernels/ddp/step.h"
#include "training_kernels/reduce_time.h"
#include "training_kernels/step_model.h"

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
	double *ready_s;               /* of tensors */
	double bucket_s[MOST_BUCKETS]; /* of buckets */
	struct bb_ddp_step step;
};

static void open_setting(struct setting *s, const char *model, uint64_t cap)
{
	struct bb_error error = {.text = ""};

	memset(s, 0, sizeof(*s));
	assert_int_equal(bb_model_open(&s->model, model, 0, &error), BB_OK);
	assert_int_equal(bb_buckets_make(&s->buckets, &s->model, 4, M < cap ? M : cap, cap, &error),
			 BB_OK);
	s->ready_s = calloc(s->model.ntensors, sizeof(double));
	assert_non_null(s->ready_s);
	assert_true(s->buckets.n <= MOST_BUCKETS);
	bb_model_ready(&s->model, 0.1, s->ready_s);
	for (size_t k = 0; k < s->buckets.n; k++) {
		const struct bb_bucket *b = &s->buckets.list[k];

		s->bucket_s[k] = s->ready_s[b->first + b->count - 1];
	}
	s->step = (struct bb_ddp_step){.forward_s = 0.05,
				       .ready_s = s->bucket_s,
				       .buckets = &s->buckets,
				       .microbatches = 1,
				       .dtype = BB_FLOAT,
				       .overlap = true};
}

static void close_setting(struct setting *s)
{
	bb_buckets_free(&s->buckets);
	bb_model_free(&s->model);
	free(s->ready_s);
}

static double play(const struct bb_ddp_step *step, int nranks, const char *algorithm,
		   const struct bb_link_model *links)
{
	struct bb_error error = {.text = ""};
	struct bb_ddp_program p;
	double end = -1;

	assert_int_equal(bb_ddp_program_make(&p, step, nranks, algorithm, &error), BB_OK);
	if (bb_program_check(&p.program, &error) != BB_OK)
		fail_msg("%s", error.text);
	assert_int_equal(bb_timeline_program(links, &p.program, NULL, &end, &error), BB_OK);
	bb_ddp_program_free(&p);
	return end;
}

static double model(struct setting *s, int nranks, const char *algorithm,
		    const struct bb_link_model *links, struct bb_train_step *step)
{
	struct bb_error error = {.text = ""};
	struct bb_reduce_time reduce = {.links = *links,
					.algorithm = algorithm,
					.nranks = nranks,
					.dtype = BB_FLOAT,
					.error = &error};
	const struct bb_step_request request = {
		.compute = {s->step.forward_s, 0.1, s->ready_s},
		.buckets = &s->buckets,
		.overlap = s->step.overlap,
		.accumulate = (int)s->step.microbatches,
		.reduce = bb_reduce_time_seconds,
		.own = &reduce,
	};

	*step = bb_step_model(&request, NULL);
	assert_int_equal(reduce.status, BB_OK);
	bb_reduce_time_close(&reduce);
	return step->step_s;
}

static void assert_same(double a, double b)
{
	if (fabs(a - b) > 1e-12 * fabs(b))
		fail_msg("%.17g, not %.17g", a, b);
}

/* Step, exposed communication and efficiency in virtual time are those of the model. */
static void compare(const char *name, uint64_t cap, int nranks, const char *algorithm)
{
	const struct bb_link_model links = {.rate = 2e9, .latency = 20e-6};
	struct setting s;

	open_setting(&s, name, cap);
	for (int overlap = 0; overlap < 2; overlap++)
		for (size_t batches = 1; batches < 4; batches += 2) {
			struct bb_train_step expected;
			double step, alone, reduce;

			s.step.overlap = overlap;
			s.step.microbatches = batches;
			s.step.part = BB_DDP_STEP;
			step = play(&s.step, nranks, algorithm, &links);
			assert_same(step, model(&s, nranks, algorithm, &links, &expected));
			s.step.part = BB_DDP_ALONE;
			alone = play(&s.step, nranks, algorithm, &links);
			assert_same(alone, expected.compute_s);
			s.step.part = BB_DDP_REDUCTIONS;
			reduce = play(&s.step, nranks, algorithm, &links);
			assert_same(reduce, expected.reduce_s);
			assert_true(fabs((step - alone) - expected.exposed_s) < 1e-12);
			if (overlap && nranks > 1)
				assert_true(fabs(1 - (step - alone) / reduce - expected.hidden) <
					    1e-9);
		}
	close_setting(&s);
}

static void test_is_the_step_model(void **state)
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

struct heard {
	size_t next; /* bucket to be reduced */
	size_t nbuckets;
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
		h->complete[o->item % h->nbuckets] = to;
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
	struct bb_ddp_program p;
	struct setting s;
	double end;

	open_setting(&s, "linear:7x128", 64 << 10);
	heard.nbuckets = s.buckets.n;
	s.step.microbatches = 4;
	assert_int_equal(bb_ddp_program_make(&p, &s.step, 3, "ring", &error), BB_OK);
	assert_int_equal(bb_timeline_program(&links, &p.program, &watch, &end, &error), BB_OK);
	assert_int_equal(heard.reductions, s.buckets.n);
	assert_int_equal(heard.forwards, 4);
	bb_ddp_program_free(&p);
	close_setting(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_the_step_model),
		cmocka_unit_test(test_keeps_the_rules),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

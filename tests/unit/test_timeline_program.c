/* Virtual time of programs: of training steps, pipelines and servers, against closed forms. */
#include "simulator/timeline/timeline.h"
#include "links.h"
#include "script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* What a watch heard. */
struct heard {
	int n;
	double last; /* end */
	int sources[64];
	int nsources;
	double digest;
};

static void hear(void *own, int rank, size_t index, const struct bb_operation *operation,
		 double from, double to, int source)
{
	struct heard *h = own;

	assert_true(to >= h->last && from <= to);
	h->last = to;
	h->n++;
	h->digest = h->digest * 1.000001 + to * (rank + 1) + (double)index;
	if (operation->act == BB_ACT_RECV_ANY)
		h->sources[h->nsources++] = source;
}

/* The end of the program, which is checked, played, and closed. */
static double play(const struct bb_link_model *l, struct script *s, struct heard *heard)
{
	struct heard mine = {0};
	struct bb_timeline_watch watch = {hear, heard ? heard : &mine};
	struct bb_error error = {0};
	size_t all = 0;
	double end, unwatched;

	if (bb_program_check(&s->program, &error) != BB_OK ||
	    bb_timeline_program(l, &s->program, &watch, &end, &error) != BB_OK ||
	    bb_timeline_program(l, &s->program, NULL, &unwatched, &error) != BB_OK)
		fail_msg("%s", error.text);
	for (int rank = 0; rank < s->program.nranks; rank++)
		all += s->lengths[rank];
	assert_int_equal(((struct heard *)watch.own)->n, all);
	assert_true(end == unwatched && end == ((struct heard *)watch.own)->last);
	script_close(s);
	return end;
}

/* Backward passes of unequal length on queue 0, the bucket of each is reduced on queue 1. */
static void open_ddp(struct script *s, int nranks, int buckets, const double *seconds,
		     const size_t *counts)
{
	script_open(s, nranks);
	s->program.algorithm = "ring";
	for (int rank = 0; rank < nranks; rank++)
		for (int k = 0; k < buckets; k++) {
			script_compute(s, rank, 0, seconds[k]);
			script_record(s, rank, 0, k);
			script_wait(s, rank, 1, k);
			script_all_reduce(s, rank, 1, 0, counts[k]);
		}
}

static void test_overlapped_buckets(void **state)
{
	static const double seconds[] = {1e-3, 2e-4, 3e-3, 1e-5, 5e-4};
	static const size_t counts[] = {8 << 20, 8 << 10, 8, 8 << 20, 8 << 22};
	const int n = 8;
	double ready = 0, end = 0;
	struct script s;

	for (int k = 0; k < 5; k++) {
		ready += seconds[k];
		end = fmax(ready, end) + ring_of_all(n, FLOATS(counts[k]), 3);
	}
	open_ddp(&s, n, 5, seconds, counts);
	near(play(&links, &s, NULL), end);
}

/* The slowest of all decides when a bucket is reduced. */
static void test_straggler(void **state)
{
	const double seconds = 1e-3;
	const size_t count = 8 << 10;
	struct script s;

	open_ddp(&s, 8, 1, &seconds, &count);
	s.operations[5][0].seconds = 2e-3;
	near(play(&links, &s, NULL), 2e-3 + ring_of_all(8, FLOATS(count), 3));
}

/* Who is done early with one collective comes early to the next. */
static void test_early_members(void **state)
{
	struct bb_operation reduce = {.act = BB_ACT_COLLECTIVE,
				      .collective = &bb_reduce,
				      .count = 25000,
				      .dtype = BB_FLOAT};
	const double hop = 9e-6;
	struct heard heard = {0};
	struct script s;

	script_open(&s, 3); /* a chain: 2 sends to 1, and 1 to 0 */
	s.program.algorithm = "ring";
	script_compute(&s, 0, 0, 1);
	for (int rank = 0; rank < 3; rank++)
		for (int k = 0; k < 2; k++)
			script_add(&s, rank, reduce);
	script_compute(&s, 2, 0, 0);
	script_record(&s, 2, 0, 0);
	near(play(&links, &s, &heard), 1 + hop);
}

static double ideal(int stages, int microbatches)
{
	return (microbatches + stages - 1) * 3.0;
}

/* (m + p - 1)(F + B), and what messages add on their critical way; p divides m. */
static void test_pipelines(void **state)
{
	const struct bb_link_model none = {0}, slow = {.latency = 0.01};

	for (int p = 2; p <= 8; p++)
		for (int m = p; m <= 4 * p; m += p) {
			struct script s;

			script_pipeline(&s, p, m, false, 1, 2);
			near(play(&none, &s, NULL), ideal(p, m));
			script_pipeline(&s, p, m, true, 1, 2);
			near(play(&none, &s, NULL), ideal(p, m));
			script_pipeline(&s, p, m, false, 1, 2);
			near(play(&slow, &s, NULL), ideal(p, m) + 2 * (p - 1) * 0.01);
			script_pipeline(&s, p, m, true, 1, 2);
			near(play(&slow, &s, NULL),
			     ideal(p, m) + (2.0 * (p - 1) * (m / p + 1) - 2) * 0.01);
		}
}

/* A message that is sent later but is there earlier is received first. */
static void test_recv_any(void **state)
{
	struct heard heard = {0};
	struct script s;

	script_open(&s, 4);
	script_compute(&s, 1, 0, 3);
	script_compute(&s, 2, 0, 1);
	script_compute(&s, 3, 0, 2);
	for (int rank = 1; rank < 4; rank++)
		script_send(&s, rank, 0, 0, 0, 1);
	for (int i = 0; i < 3; i++)
		script_recv_any(&s, 0, 0, 0, 1);
	near(play(&links, &s, &heard), 3 + ALPHA + FLOATS(1));
	assert_int_equal(heard.nsources, 3);
	assert_int_equal(heard.sources[0], 2);
	assert_int_equal(heard.sources[1], 3);
	assert_int_equal(heard.sources[2], 1);
}

/* Rank 0 is there after LATE seconds and receives from 1, who sends after 3, then from 2, who sends
   at once and computes 5. */
static double receive_two(double late, bool together)
{
	struct script s;

	script_open(&s, 3);
	script_compute(&s, 0, 0, late);
	script_recv(&s, 0, 0, 0, 1, 1);
	script_recv(&s, 0, 0, 0, 2, 1);
	s.operations[0][2].together = together;
	script_compute(&s, 1, 0, 3);
	script_send(&s, 1, 0, 0, 0, 1);
	script_send(&s, 2, 0, 0, 0, 1);
	script_compute(&s, 2, 0, 5);
	return play(&links, &s, NULL);
}

/* Of receives that are posted together whoever is there first is done first. */
static void test_posted_together(void **state)
{
	const double way = ALPHA + FLOATS(1);
	struct script s;

	assert_true(way < 2);
	near(receive_two(0, true), way + 5);
	near(receive_two(2, true), 2 + 5); /* it was there before it was received */
	near(receive_two(0, false), 3 + way + 5);
	near(receive_two(2, false), 3 + way + 5);

	/* The next message of the same rank is none of those. */
	script_open(&s, 3);
	script_recv(&s, 0, 0, 0, 1, 1);
	script_recv(&s, 0, 0, 0, 2, 1);
	s.operations[0][1].together = true;
	script_compute(&s, 0, 0, 10);
	script_recv(&s, 0, 0, 0, 2, 1);
	script_compute(&s, 1, 0, 3);
	script_send(&s, 1, 0, 0, 0, 1);
	for (int i = 0; i < 2; i++)
		script_send(&s, 2, 0, 0, 0, 1);
	script_compute(&s, 2, 0, 1);
	near(play(&links, &s, NULL), 3 + way + 10 + 1);
}

/* A server answers whoever asks; each worker asks again once it has its answer. */
static void open_server(struct script *s, int workers, int rounds)
{
	script_open(s, 1 + workers);
	for (int worker = 1; worker <= workers; worker++)
		for (int k = 0; k < rounds; k++) {
			script_compute(s, worker, 0, 0.1 * worker);
			script_send(s, worker, 0, 0, 0, 1000);
			script_recv(s, worker, 0, 1, 0, 1000);
		}
	for (int i = 0; i < workers * rounds; i++) {
		script_recv_any(s, 0, 0, 0, 1000);
		script_send(s, 0, 0, 1, BB_NO_PEER, 1000);
		s->operations[0][2 * i + 1].answers = (size_t)(2 * i);
	}
}

static void test_server(void **state)
{
	static const int order[] = {1, 2, 1, 1, 2, 2};
	const double way = ALPHA + FLOATS(1000);
	struct heard heard = {0};
	struct script s;

	open_server(&s, 2, 3);
	/* Worker 2's last: nobody stands in its way then. */
	near(play(&links, &s, &heard), 3 * (0.2 + 2 * way));
	assert_int_equal(heard.nsources, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(heard.sources[i], order[i]);
}

static double played(uint64_t seed, double *digest)
{
	const struct bb_link_model noisy = {
		.rate = RATE, .latency = ALPHA, .noise = 0.1, .seed = seed};
	struct heard heard = {0};
	struct script s;
	double end;

	open_server(&s, 5, 4);
	for (int rank = 0; rank < 6; rank++)
		script_all_reduce(&s, rank, 0, 0, 1000);
	end = play(&noisy, &s, &heard);
	*digest = heard.digest;
	return end;
}

static void test_noisy_program(void **state)
{
	double digests[3];
	const double a = played(1, &digests[0]), b = played(1, &digests[1]);
	const double c = played(2, &digests[2]);

	assert_true(a == b && digests[0] == digests[1]);
	assert_true(a != c && digests[0] != digests[2]);
}

static void test_unknown_algorithm(void **state)
{
	struct bb_error error = {0};
	struct script s;
	double end;

	script_open(&s, 2);
	s.program.algorithm = "direct";
	for (int rank = 0; rank < 2; rank++)
		script_all_reduce(&s, rank, 0, 0, 1);
	assert_int_equal(bb_timeline_program(&links, &s.program, NULL, &end, &error),
			 BB_EUNSUPPORTED);
	assert_non_null(strstr(error.text, "all_reduce has no schedule direct"));
	script_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlapped_buckets),
		cmocka_unit_test(test_straggler),
		cmocka_unit_test(test_early_members),
		cmocka_unit_test(test_pipelines),
		cmocka_unit_test(test_recv_any),
		cmocka_unit_test(test_posted_together),
		cmocka_unit_test(test_server),
		cmocka_unit_test(test_noisy_program),
		cmocka_unit_test(test_unknown_algorithm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

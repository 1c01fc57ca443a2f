/*
 * The exchange of codes: bytes, 1-bit Adam's worked examples with their errors, and the errors of
 * schemes, with all ranks played by one thread.
 */
#include "core/random.h"
#include "training_kernels/kernel/coded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST_RANKS 32

/* All ranks of an exchange. */
struct world {
	struct bb_coded_form form;
	struct bb_coded ranks[MOST_RANKS];
	char *memory;
};

static struct bb_coded_form form_of(enum bb_coded_kind kind, const char *coding, size_t block,
				    size_t count, int nranks)
{
	const struct bb_coding *c = bb_coding_named(coding);

	assert_non_null(c);
	return (struct bb_coded_form){.scheme = &bb_coded_schemes[kind],
				      .coding = c,
				      .block = block,
				      .count = count,
				      .nranks = nranks,
				      .local = nranks};
}

static void world_open(struct world *w, struct bb_coded_form form)
{
	w->form = form;
	assert_null(bb_coded_refuses(&w->form));
	const size_t bytes = bb_coded_lay_out(&w->ranks[0], &w->form, 0, NULL);
	w->memory = calloc((size_t)form.nranks, bytes);
	assert_non_null(w->memory);
	for (int r = 0; r < form.nranks; r++)
		bb_coded_lay_out(&w->ranks[r], &w->form, r, w->memory + (size_t)r * bytes);
}

/* The collective of PHASE, as memory copies. */
static void world_exchange(struct world *w, int phase)
{
	const struct bb_coded_phase p = bb_coded_phase(&w->form, phase);
	const size_t bytes = p.chunks * bb_coded_chunk_bytes(&w->form);

	for (int r = 0; r < w->form.nranks; r++) {
		struct bb_operation o = {.act = BB_ACT_COLLECTIVE, .group = (int)p.family};
		int place = 0;

		bb_coded_complete(&w->form, r, &o);
		assert_true(o.group < bb_coded_groups(&w->form));
		assert_int_equal(bb_coded_group_size(&w->form, o.group), p.members);
		while (bb_coded_member(&w->form, o.group, place) != r)
			assert_true(++place < p.members);
		for (int i = 0; i < p.members; i++) {
			const struct bb_coded *from =
				&w->ranks[bb_coded_member(&w->form, o.group, i)];

			if (p.collective == &bb_alltoall)
				memcpy(w->ranks[r].comes + (size_t)i * bytes,
				       from->sent + (size_t)place * bytes, bytes);
			else if (p.collective == &bb_all_gather)
				memcpy(w->ranks[r].comes + (size_t)i * bytes, from->sent, bytes);
			else if ((i + 1) % p.members == place)
				memcpy(w->ranks[r].comes, from->sent, bytes);
		}
	}
}

static void world_step(struct world *w, size_t item)
{
	const struct bb_coded_phase p = bb_coded_phase(&w->form, (int)(item / BB_CODED_STEPS));
	const size_t bytes = p.comes * bb_coded_chunk_bytes(&w->form);
	char *const before = malloc(bytes);

	assert_non_null(before);
	if (item % BB_CODED_STEPS == BB_CODED_EXCHANGE)
		world_exchange(w, (int)(item / BB_CODED_STEPS));
	else
		for (int r = 0; r < w->form.nranks; r++) {
			memcpy(before, w->ranks[r].comes, bytes);
			bb_coded_compute(&w->ranks[r], item);
			assert_memory_equal(w->ranks[r].comes, before, bytes);
		}
	free(before);
}

static void world_round(struct world *w)
{
	for (int item = 0; item < BB_CODED_STEPS * bb_coded_phases(&w->form); item++)
		world_step(w, (size_t)item);
}

static void near(float a, double b)
{
	if (fabs((double)a - b) > 2e-6)
		fail_msg("%.9g instead of %.9g", (double)a, b);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static size_t sent(const struct bb_coded_form *form)
{
	size_t all = 0;

	for (int i = 0; i < bb_coded_phases(form); i++)
		all += bb_coded_sent(form, i);
	return all;
}

static void test_bytes(void **state)
{
	static const struct {
		size_t n;
		int nranks;
		size_t padded, bytes;
	} signs[] = {
		{335141888, 64, 335142912, 82477080},
		{335141888, 8, 335141888, 73312344},
		{1000, 4, 1024, 216},
		{1000, 6, 1008, 250},
		{25557032, 16, 25557248, 5990100},
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++) {
		const struct bb_coded_form form =
			form_of(BB_CODED_ALLTOALL, "sign", 0, signs[i].n, signs[i].nranks);

		assert_int_equal(bb_coded_padded(&form), signs[i].padded);
		assert_int_equal(sent(&form), signs[i].bytes);
	}
	/* Bytes per number at int8: 2 (N - 1) / N, but N - 1 of an all-gather. */
	struct bb_coded_form form = form_of(BB_CODED_ALLTOALL, "int8", 0, 1 << 20, 16);
	assert_int_equal(sent(&form), 30 * ((1 << 16) + 4));
	form.scheme = &bb_coded_schemes[BB_CODED_RING];
	assert_int_equal(sent(&form), 30 * ((1 << 16) + 4));
	form.scheme = &bb_coded_schemes[BB_CODED_ALLGATHER];
	assert_int_equal(sent(&form), 15 * ((1 << 20) + 4));
	/* PyTorch pads by a whole block where it divides. */
	form = form_of(BB_CODED_ALLGATHER, "torch-uint8", 512, 1024, 2);
	assert_int_equal(bb_coded_padded(&form), 1536);
	form.count = 1025;
	assert_int_equal(bb_coded_padded(&form), 1536);
	form.coding = bb_coding_named("int8");
	assert_int_equal(bb_coded_padded(&form), 1025);
}

/* qgZ: int4 in max(rows, columns, world) groups, reduced only. */
static void test_two_hops(void **state)
{
	struct bb_coded_form form =
		form_of(BB_CODED_TWO_HOPS, "ds-int4", 4096, (size_t)4096 * 4096, 32);

	form.local = 8;
	form.only_reduces = true;
	assert_int_equal(bb_coded_phases(&form), 2);
	assert_int_equal(bb_coded_sent(&form, 0), 7340032 + 14336);
	assert_int_equal(bb_coded_sent(&form, 1), 786432 + 1536);
	assert_int_equal(8 * bb_coded_sent(&form, 1), 6303744);
	form = form_of(BB_CODED_TWO_HOPS, "ds-int4", 1024, (size_t)1024 * 4096, 16);
	form.local = 8;
	form.only_reduces = true;
	assert_int_equal(bb_coded_sent(&form, 0), 1835008 + 14336);
	assert_int_equal(bb_coded_sent(&form, 1), 131072 + 1024);
	assert_int_equal(8 * bb_coded_sent(&form, 1), 1056768);
	/* qwZ gathers the codes of a partition. */
	form = form_of(BB_CODED_ALLTOALL, "ds-int8", 4096, (size_t)4096 * 4096, 8);
	form.only_gathers = true;
	assert_int_equal(bb_coded_phases(&form), 1);
	assert_int_equal(bb_coded_sent(&form, 0), 7 * 16793600 / 8);
	form.local = 8;
	form.scheme = &bb_coded_schemes[BB_CODED_TWO_HOPS];
	assert_non_null(bb_coded_refuses(&form));
	form.nranks = 12;
	assert_non_null(bb_coded_refuses(&form));
	form.nranks = 1;
	form.scheme = &bb_coded_schemes[BB_CODED_RING];
	assert_non_null(bb_coded_refuses(&form));
}

/* ---- 1-bit Adam ------------------------------------------------------------------------------ */

/* Two ranks and four numbers, eight of each, so that no chunk is padded and scales are the same. */
static void test_worked_example(void **state)
{
	static const double results[3][4] = {{1.5, 1.5, -1.5, 1.5},
					     {2.836644, -2.836644, .940944, .940944},
					     {1.717314, 1.717314, -2.382300, 2.382300}};
	static const double scales[3][2] = {
		{1.870829, 2.345208}, {2.505001, 2.956068}, {2.564954, 4.226043}};
	static const double errors[2][4] = {{1.129171, .870829, .129171, -1.870829},
					    {-1.345208, -1.345208, .345208, 1.654792}};
	static const double servers[4] = {.608018, -1.262810, 1.262810, .608018};
	static const float x[2][4] = {{3, -1, 2, 0}, {1, 1, -2, 4}};
	static const double means[4] = {2, 0, 0, 2};
	struct bb_coded_form form = form_of(BB_CODED_ALLTOALL, "sign", 0, 32, 2);
	double sums[4] = {0};
	struct world w;

	form.feedback = true;
	world_open(&w, form);
	for (int r = 0; r < 2; r++)
		for (int i = 0; i < 32; i++)
			w.ranks[r].x[i] = x[r][i / 8];
	for (int round = 0; round < 1000; round++) {
		double off = 0;

		world_step(&w, 0);
		for (int r = 0; r < 2 && round < 3; r++)
			for (size_t chunk = 0; chunk < 2; chunk++) /* each has the scale of all */
				near(bb_coding_scale(form.coding, w.ranks[r].sent + 6 * chunk, 16,
						     0)
					     .scale,
				     scales[round][r]);
		for (size_t item = 1; item < 6; item++)
			world_step(&w, item);
		for (int i = 0; i < 32; i++) {
			const float *const server = w.ranks[i / 16].error + 32 + i % 16;

			if (round == 0)
				near(*server, servers[i / 8]);
			for (int r = 0; r < 2; r++) {
				if (round < 3)
					near(w.ranks[r].result[i], results[round][i / 8]);
				if (round == 0)
					near(w.ranks[r].error[i], errors[r][i / 8]);
			}
			if (i % 8)
				continue;
			sums[i / 8] += (double)w.ranks[0].result[i];
			const double mean =
				((double)w.ranks[0].error[i] + (double)w.ranks[1].error[i]) / 2;
			assert_true(fabs(sums[i / 8] + mean + (double)*server -
					 means[i / 8] * (round + 1)) < 1e-6 * (round + 1));
			off = fmax(off, fabs(sums[i / 8] / (round + 1) - means[i / 8]));
		}
		/* The error of the average result falls as 1 / rounds. */
		assert_true(round != 9 || fabs(off - .129) < .0005);
		assert_true(round != 99 || fabs(off - .0201) < .00005);
		assert_true(round != 999 || fabs(off - .00115) < .000005);
	}
	free(w.memory);
}

/* ---- all schemes ----------------------------------------------------------------------------- */

/* Roughly normal. */
static float drawn(uint64_t *state)
{
	const double u = bb_random_positive(bb_random_next(state));
	const double v = bb_random_positive(bb_random_next(state));

	return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* Over several rounds: ranks agree, results and errors are the inputs, and only the errors of codes
   are between results and means. */
static void scheme_holds(const struct bb_coded_form *form)
{
	enum { ROUNDS = 4 };
	const int n = form->nranks;
	const size_t count = form->count, chunk = bb_coded_chunk(form);
	double *sums = calloc(2 * bb_coded_padded(form), sizeof(*sums));
	double *means = sums + bb_coded_padded(form);
	uint64_t seed = 7;
	struct world w;

	world_open(&w, *form);
	for (int round = 0; round < ROUNDS; round++) {
		for (int r = 0; r < n; r++)
			for (size_t i = 0; i < count; i++) {
				w.ranks[r].x[i] = drawn(&seed);
				means[i] += (double)w.ranks[r].x[i] / n;
			}
		world_round(&w);
		for (int r = 0; r < n; r++)
			assert_memory_equal(w.ranks[r].result, w.ranks[0].result,
					    bb_coded_padded(form) * sizeof(float));
		for (size_t i = 0; i < bb_coded_padded(form); i++)
			sums[i] += (double)w.ranks[0].result[i];
		for (size_t i = 0; i < count && round == 0 && form->coding->bits == 8; i++)
			assert_true(fabs(sums[i] - means[i]) < .5);
	}
	for (int r = 0; r < n && form->feedback; r++) {
		const float *error = w.ranks[r].error;

		for (int i = 0; i < bb_coded_phases(form); i++) {
			const struct bb_coded_phase p = bb_coded_phase(form, i);

			for (size_t k = 0; k < p.coded; k++)
				for (size_t j = 0; j < chunk; j++, error++) {
					const bool ring = p.collective == &bb_sendrecv;
					const size_t at =
						ring ? (size_t)((r - i - 1 + n) % n)
						: p.coded == 1 && p.reduces ? 0
						: !p.reduces                ? (size_t)r
						: p.coded < (size_t)n
							? k * (size_t)form->local +
								  (size_t)(r % form->local)
							: k;

					sums[at * chunk + j] +=
						(double)*error / (p.reduces ? n : 1);
				}
		}
		assert_int_equal(error - w.ranks[r].error, w.ranks[r].errors);
	}
	for (size_t i = 0; i < count && form->feedback; i++)
		assert_true(fabs(sums[i] - means[i]) < 1e-5);
	free(sums);
	free(w.memory);
}

static void test_schemes(void **state)
{
	static const char *const codings[] = {"sign",        "int8",     "ds-int4",
					      "torch-uint8", "fp8-e4m3", NULL};

	for (int kind = 0; bb_coded_schemes[kind].name; kind++)
		for (int i = 0; codings[i]; i++)
			for (int run = 0; run < 8; run++) {
				struct bb_coded_form form = form_of(
					(enum bb_coded_kind)kind, codings[i], run & 2 ? 0 : 16,
					run & 4 ? 1000 : 96, run & 4 ? 6 : 4);

				form.feedback = run & 1;
				form.local = 2;
				scheme_holds(&form);
			}
}

/* RMS error of the sum of normal numbers in DeepSpeed's int8, by a ring that codes each hop and by
   one hop: it grows faster than with the square root of the ranks. */
static void test_ring_error(void **state)
{
	static const struct {
		int nranks;
		double ring, once;
	} wanted[] = {{4, .0226, .0176}, {8, .045, .025}, {16, .101, .034}, {32, .195, .049}};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		const int n = wanted[i].nranks;
		const size_t count = 4096 * (size_t)n;
		double rms[2] = {0};

		for (int run = 0; run < 2; run++) {
			struct bb_coded_form form = form_of(run ? BB_CODED_ALLTOALL : BB_CODED_RING,
							    "ds-int8", 4096, count, n);
			uint64_t seed = 1;
			struct world w;

			form.only_reduces = true;
			world_open(&w, form);
			for (int r = 0; r < n; r++)
				for (size_t k = 0; k < count; k++)
					w.ranks[r].x[k] = drawn(&seed);
			world_round(&w);
			for (size_t k = 0; k < count; k++) {
				double sum = 0;

				for (int r = 0; r < n; r++)
					sum += (double)w.ranks[r].x[k];
				sum -= n * (double)w.ranks[k / 4096].sum[k % 4096];
				rms[run] += sum * sum / (double)count;
			}
			rms[run] = sqrt(rms[run]);
			free(w.memory);
		}
		/* The scale is that of the largest number drawn. */
		if (fabs(rms[0] / wanted[i].ring - 1) > .1 ||
		    fabs(rms[1] / wanted[i].once - 1) > .1)
			fail_msg("%d ranks: %.4f and %.4f", n, rms[0], rms[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),          cmocka_unit_test(test_two_hops),
		cmocka_unit_test(test_worked_example), cmocka_unit_test(test_schemes),
		cmocka_unit_test(test_ring_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

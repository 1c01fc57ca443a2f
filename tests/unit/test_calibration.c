/*
 * What a calibration makes of its points: the factor and interval of a prediction, the schedule
 * that it chooses, and the values that are fitted to times made by hand.
 */
#include "simulator/calibration/points.h"

#include "clusters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define US 1e-6
#define GB 1e9

static void near(int line, double got, double want, double part)
{
	if (!(fabs(got - want) <= part * fabs(want)))
		fail_msg("line %d: %.12g instead of %.12g", line, got, want);
}
#define NEAR(got, want) near(__LINE__, got, want, 1e-9)

/* ---- of NCCL -------------------------------------------------------------------------------- */

static struct bb_nccl_machine two_nodes(int ranks)
{
	return (struct bb_nccl_machine){.ranks = ranks,
					.nodes = 2,
					.fewest = ranks / 2,
					.nvlink = true,
					.nvswitch = true,
					.gpu_rate = 370 * GB,
					.gpu_share = 0.9,
					.rails = 8,
					.nic_rate = 50 * GB,
					.net_rate = 300 * GB,
					.rank_rate = 40 * GB,
					.rail_rate = 30 * GB,
					.nics = BB_NICS_INFINIBAND};
}

static struct bb_point measured(const struct bb_collective *collective, int ranks, double bytes,
				double left)
{
	return (struct bb_point){.call = {.collective = collective,
					  .algorithm = BB_NCCL_RING,
					  .protocol = BB_NCCL_SIMPLE,
					  .bytes = bytes},
				 .machine = two_nodes(ranks),
				 .nodes = 2,
				 .cost.nranks = ranks,
				 .time = bytes * 1e-9,
				 .left = left};
}

/* All_reduce among 8 ranks of three sizes, in place of one, and among 32; all_gather. */
struct known {
	struct bb_point points[6];
	struct bb_calibration_series series[4];
	struct bb_cross_error errors[32];
	struct bb_nccl_constants constants;
	struct bb_nccl_machine machine;
	struct bb_nccl_call call;
	struct bb_calibration c;
};

static const struct bb_cluster some_cluster = {.nodes = 2};

static void known_make(struct known *k)
{
	struct bb_error error = {.text = ""};

	*k = (struct known){.points = {measured(&bb_all_reduce, 8, 1024, 0.1),
				       measured(&bb_all_reduce, 8, 4096, 0.3),
				       measured(&bb_all_reduce, 8, 16384, -0.2),
				       measured(&bb_all_reduce, 8, 4096, 0.6),
				       measured(&bb_all_reduce, 32, 1024, 0.7),
				       measured(&bb_all_gather, 8, 1024, 0.8)},
			    .machine = two_nodes(8)};
	assert_int_equal(bb_nccl_constants_find(&k->constants, 90, &error), BB_OK);
	k->points[3].call.in_place = true;
	k->points[1].median = true;
	k->points[1].least = 3 * US;
	k->points[1].p95 = 5 * US;
	k->points[1].left_out = 4.5 * US;
	k->points[2].least = 3 * US;
	k->series[0] = (struct bb_calibration_series){k->points, 3};
	k->series[1] = (struct bb_calibration_series){k->points + 3, 1};
	k->series[2] = (struct bb_calibration_series){k->points + 4, 1};
	k->series[3] = (struct bb_calibration_series){k->points + 5, 1};
	k->call = (struct bb_nccl_call){.collective = &bb_all_reduce,
					.algorithm = BB_NCCL_RING,
					.protocol = BB_NCCL_SIMPLE,
					.machine = &k->machine};
	k->c = (struct bb_calibration){.cluster = &some_cluster,
				       .constants = &k->constants,
				       .points = k->points,
				       .n = 6,
				       .series = k->series,
				       .nseries = 4,
				       .errors = k->errors};
	for (int i = 0; i < BB_SITE_FIGURES; i++)
		k->c.site.described[i] = k->c.site.fitted[i] =
			i < BB_SITE_NIC_LATENCY ? 0.9 : 2 * US;
}

/* Between sizes what is left is interpolated; beyond them it halves every two octaves. */
static void test_factors_of_nccl(void **state)
{
	static const struct {
		const struct bb_collective *collective;
		enum bb_nccl_algorithm algorithm;
		int ranks;
		bool in_place;
		double bytes, left;
	} cases[] = {
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 1024, 0.1},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 2048, 0.2},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 4096, 0.3},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 8192, 0.05},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 16384, -0.2},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 65536, -0.2 / 2},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 262144, -0.2 / 4},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 256, 0.1 / 2},
		{&bb_all_reduce, BB_NCCL_RING, 8, false, 0.25, 0.1 / 32}, /* a byte at least */
		{&bb_all_reduce, BB_NCCL_RING, 8, true, 4096, 0.6},
		{&bb_all_reduce, BB_NCCL_RING, 8, true, 16384, 0.6 / 2},
		/* Other ranks, algorithms and collectives: the model alone. */
		{&bb_all_reduce, BB_NCCL_RING, 16, false, 1024, 0},
		{&bb_all_reduce, BB_NCCL_RING, 32, false, 1024, 0.7},
		{&bb_all_reduce, BB_NCCL_TREE, 8, false, 1024, 0},
		{&bb_reduce_scatter, BB_NCCL_RING, 8, false, 1024, 0},
		{&bb_all_gather, BB_NCCL_RING, 8, true, 1024, 0.8},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_calibrated support;
		struct known k;
		double factor;

		known_make(&k);
		k.machine = two_nodes(cases[i].ranks);
		k.call.collective = cases[i].collective;
		k.call.algorithm = cases[i].algorithm;
		k.call.in_place = cases[i].in_place;
		k.call.bytes = cases[i].bytes;
		factor = bb_calibration_of_nccl(&k.c, &k.call, &support);
		if (!(fabs(log(factor) - cases[i].left) <= 1e-9))
			fail_msg("%zu: %g instead of %g", i, log(factor), cases[i].left);
	}
}

/* What was measured of the very case. */
static void test_evidence(void **state)
{
	struct bb_calibrated support;
	struct known k;

	known_make(&k);
	k.call.bytes = 4096;
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.measured, 4096e-9);
	NEAR(support.measured_min, 3 * US);
	NEAR(support.measured_p95, 5 * US);
	NEAR(support.left_out, 4.5 * US);
	k.call.bytes = 16384; /* a single sample */
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.measured, 16384e-9);
	assert_true(isnan(support.measured_min) && isnan(support.measured_p95));
	assert_true(isnan(support.left_out));
	k.call.bytes = 2048;
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	assert_true(isnan(support.measured) && isnan(support.measured_min));
	k.call.bytes = 1024;
	k.call.in_place = true;
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	assert_true(isnan(support.measured));
}

static void errors_add(struct known *k, size_t n, enum bb_cross_kind kind, double beyond,
		       double error)
{
	for (size_t i = 0; i < n; i++)
		k->errors[k->c.nerrors++] =
			(struct bb_cross_error){&k->points[0], kind, beyond, error};
}

/* Of the nine errors nearest in size the largest is the interval. */
static void test_intervals(void **state)
{
	struct bb_calibrated support;
	double low, high;
	struct known k;

	known_make(&k);
	k.call.bytes = 1024;
	bb_nccl_interval(&k.constants, &k.call, &low, &high);
	errors_add(&k, 7, BB_CROSS_BETWEEN, 0, 0.05);
	errors_add(&k, 1, BB_CROSS_BETWEEN, 0, -0.2);
	errors_add(&k, 9, BB_CROSS_ALGORITHM, 0, 2);
	/* Eight are too few: the interval is that of unseen machines. */
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.low, low);
	NEAR(support.high, high);
	errors_add(&k, 1, BB_CROSS_BETWEEN, 0, 0.1);
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.low, 0.81); /* exp(-0.2) = 0.8187, exp(0.2) = 1.2214 */
	NEAR(support.high, 1.23);
	/* A tenth that is farther does not count, but a nearer one. */
	errors_add(&k, 1, BB_CROSS_BETWEEN, 0, 0.4);
	k.errors[k.c.nerrors - 1].of = &k.points[1];
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.low, 0.81);
	k.call.bytes = 3000;
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.low, 0.67);
	NEAR(support.high, 1.5);
	/* Among equally far ones the larger counts first. */
	k.call.bytes = 1024;
	k.errors[k.c.nerrors - 1].of = &k.points[0];
	k.errors[k.c.nerrors - 1].error = -0.4;
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.low, 0.67);
}

/* Beyond the sizes errors on the same side count, as far beyond if there are enough; the interval
   includes that of unseen machines. */
static void test_intervals_beyond(void **state)
{
	struct bb_calibrated support;
	double low, high;
	struct known k;

	known_make(&k);
	k.call.bytes = 65536; /* two octaves */
	bb_nccl_interval(&k.constants, &k.call, &low, &high);
	errors_add(&k, 9, BB_CROSS_BEYOND, -2, 3); /* below */
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.high, high);
	errors_add(&k, 8, BB_CROSS_BEYOND, 3, 2);
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.high, high);
	errors_add(&k, 1, BB_CROSS_BEYOND, 3.5, 0.1); /* too far, but enough with it */
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.low, 0.13);
	NEAR(support.high, 7.39);
	for (int i = 9; i < 17; i++)
		k.errors[i].error = 0.01;
	k.errors[17].error = 1.5;
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.high, 4.49);                    /* exp(1.5) = 4.4817 */
	errors_add(&k, 1, BB_CROSS_BEYOND, 1, 0.02); /* nine within an octave */
	bb_calibration_of_nccl(&k.c, &k.call, &support);
	NEAR(support.low, fmin(low, 0.98));
	NEAR(support.high, fmax(high, 1.03));
}

/* Of another collective the interval includes that of the cluster as it is described. */
static void test_described(void **state)
{
	struct bb_nccl_machine described;
	struct bb_nccl_call other;
	struct bb_calibrated support;
	double low, high, times;
	struct known k;

	known_make(&k);
	k.c.site.described[BB_SITE_GPU_EFFICIENCY] = 0.3;
	k.c.site.fitted[BB_SITE_NIC_EFFICIENCY] = 0.45;
	k.c.site.described[BB_SITE_NIC_LATENCY] = 50 * US;
	k.call.collective = &bb_broadcast;
	for (int large = 0; large < 2; large++) {
		k.call.bytes = large ? 0x1p33 : 64;
		described = k.machine;
		described.gpu_share = 0.3;
		described.net_rate *= 2;
		described.rank_rate *= 2;
		described.rail_rate *= 2;
		described.nic_latency = 50 * US;
		described.net_fill = described.issue = 2 * US;
		other = k.call;
		other.machine = &described;
		times = bb_nccl_call_time(&k.constants, &other) /
			bb_nccl_call_time(&k.constants, &k.call);
		assert_true(times > 1.1);
		bb_nccl_interval(&k.constants, &other, &low, &high);
		bb_calibration_of_nccl(&k.c, &k.call, &support);
		NEAR(support.high, ceil(100 * times * high) / 100);
		bb_nccl_interval(&k.constants, &k.call, &low, &high);
		NEAR(support.low, floor(100 * low) / 100);
		/* The other way round it is faster. */
		k.c.site.fitted[BB_SITE_GPU_EFFICIENCY] = 0.3;
		k.c.site.described[BB_SITE_GPU_EFFICIENCY] = 0.9;
		k.machine.gpu_share = 0.3;
		described.gpu_share = 0.9;
		times = bb_nccl_call_time(&k.constants, &other) /
			bb_nccl_call_time(&k.constants, &k.call);
		bb_nccl_interval(&k.constants, &other, &low, &high);
		bb_calibration_of_nccl(&k.c, &k.call, &support);
		if (large)
			NEAR(support.low, floor(100 * times * low) / 100);
		k.c.site.fitted[BB_SITE_GPU_EFFICIENCY] = 0.9;
		k.c.site.described[BB_SITE_GPU_EFFICIENCY] = 0.3;
		k.machine.gpu_share = 0.9;
	}
}

static void test_adjusted(void **state)
{
	struct bb_nccl_machine m, by_hand;
	struct bb_nccl_call call;
	struct known k;

	known_make(&k);
	k.c.site = (struct bb_site){.described = {0.9, 0.8, 0, 0, 0},
				    .fitted = {0.6, 0.4, 7 * US, 8 * US, 9 * US}};
	m = by_hand = two_nodes(8);
	bb_calibration_adjust(&k.c, &m);
	by_hand.gpu_share = 0.6;
	by_hand.net_rate /= 2;
	by_hand.rank_rate /= 2;
	by_hand.rail_rate /= 2;
	by_hand.nic_latency = 7 * US;
	by_hand.net_fill = 8 * US;
	by_hand.issue = 9 * US;
	NEAR(m.gpu_share, 0.6);
	NEAR(m.net_rate, 150 * GB);
	NEAR(m.rank_rate, 20 * GB);
	NEAR(m.rail_rate, 15 * GB);
	NEAR(m.nic_latency, 7 * US);
	NEAR(m.net_fill, 8 * US);
	NEAR(m.issue, 9 * US);
	call = k.points[0].call;
	call.machine = &by_hand;
	NEAR(bb_site_time(&k.c, &k.points[0]), bb_nccl_call_time(&k.constants, &call));
	assert_string_equal(bb_site_row(BB_SITE_NIC_LATENCY)->name, "nccl_nic_latency");
	assert_string_equal(bb_site_row(BB_SITE_ISSUE)->name, "nccl_issue");
}

/* Relative errors of a kind, of a series in both placements, at most two octaves beyond. */
static void test_selected_errors(void **state)
{
	double errors[16];
	struct known k;

	known_make(&k);
	errors_add(&k, 1, BB_CROSS_BETWEEN, 0, 0.1);
	errors_add(&k, 1, BB_CROSS_BETWEEN, 0, -0.1);
	errors_add(&k, 1, BB_CROSS_BEYOND, 2, 0.2);
	errors_add(&k, 1, BB_CROSS_BEYOND, -2.1, 0.3);
	errors_add(&k, 1, BB_CROSS_BETWEEN, 0, 0.4);
	k.errors[1].of = &k.points[3];
	k.errors[4].of = &k.points[4];
	assert_int_equal(bb_cross_select(&k.c, BB_CROSS_BETWEEN, NULL, errors), 3);
	NEAR(errors[0], exp(0.1) - 1);
	NEAR(errors[1], 1 - exp(-0.1));
	NEAR(errors[2], exp(0.4) - 1);
	assert_int_equal(bb_cross_select(&k.c, BB_CROSS_BETWEEN, &k.points[2], errors), 2);
	assert_int_equal(bb_cross_select(&k.c, BB_CROSS_BETWEEN, &k.points[4], errors), 1);
	NEAR(errors[0], exp(0.4) - 1);
	assert_int_equal(bb_cross_select(&k.c, BB_CROSS_BETWEEN, &k.points[5], errors), 0);
	assert_int_equal(bb_cross_select(&k.c, BB_CROSS_BEYOND, NULL, errors), 1);
	NEAR(errors[0], exp(0.2) - 1);
}

/* ---- of schedules --------------------------------------------------------------------------- */

static struct bb_calibration modelled(void)
{
	return (struct bb_calibration){.model = {.cores = 4,
						 .ncounts = 2,
						 .counts = {2, 8},
						 .nknots = 3,
						 .first = 10,
						 .values = {1 * US, 3 * US, 1e-9, 2e-9, 6e-9}}};
}

/* A round among the nearest number of ranks, and bytes by the knots around the size of all inputs,
   2^10, 2^12 and 2^14, shared by at most four cores. */
static void test_model(void **state)
{
	static const struct {
		int ranks;
		size_t count; /* bytes of each rank */
		double round, byte;
	} cases[] = {
		{2, 512, 1, 1},
		{2, 256, 1, 1},
		{2, 1024, 1, 1.5},
		{2, 2048, 1, 2},
		{2, 4096, 1, 4},
		{2, 8192, 1, 6},
		{2, 1 << 20, 1, 6},
		{8, 128, 3, 1},
		{8, 256, 3, 1.5},
		{4, 256, 1, 1},
		{3, 4096, 1, 2 + 4 * 0.79248125036},
		{5, 4096, 3, 6},
		{64, 64, 3, 2},
	};
	const struct bb_algorithm *const ring = bb_algorithm_find(&bb_all_reduce, "ring");
	const struct bb_calibration c = modelled();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_shape shape = {.nranks = cases[i].ranks, .count = cases[i].count};
		const struct bb_cost cost = bb_cost_of(ring, &shape, 1);
		struct bb_calibrated support;
		const double work = cost.moved / (cases[i].ranks < 4 ? cases[i].ranks : 4);
		const double want = cost.rounds * cases[i].round * US + work * cases[i].byte * 1e-9;

		assert_true(cost.rounds > 0 && cost.moved > 0);
		NEAR(cost.size, (double)cases[i].ranks * (double)cases[i].count);
		near((int)i, bb_calibration_time(&c, ring, &shape, 1, &support), want, 1e-9);
		assert_true(isnan(support.low) && isnan(support.high));
	}
}

/* A series among other numbers of ranks gives its factor, too; chunks are those of the nearest
   size. */
static void test_schedules(void **state)
{
	const struct bb_algorithm *const ring = bb_algorithm_find(&bb_all_reduce, "ring");
	const struct bb_algorithm *const tree = bb_algorithm_find(&bb_all_reduce, "tree");
	struct bb_point points[4];
	struct bb_calibration_series series[2] = {{points, 2}, {points + 2, 2}};
	struct bb_shape shape = {.nranks = 8, .count = 1024};
	struct bb_calibration c = modelled(), plain = modelled();
	struct bb_calibrated support;

	for (int i = 0; i < 4; i++) {
		shape.nranks = i < 2 ? 8 : 2;
		shape.count = i % 2 ? 65536 : 1024;
		points[i] = (struct bb_point){
			.call = {.collective = &bb_all_reduce, .bytes = 4.0 * (double)shape.count},
			.schedule = ring,
			.chunk = i % 2 ? 4096 : 256,
			.time = 77 * US,
			.cost = bb_cost_of(ring, &shape, 4),
			.left = i < 2 ? 0.5 + i : -0.5};
	}
	c.series = series;
	c.nseries = 2;
	shape = (struct bb_shape){.nranks = 8, .count = 1024};
	NEAR(bb_calibration_time(&c, ring, &shape, 4, &support),
	     exp(0.5) * bb_calibration_time(&plain, ring, &shape, 4, &support));
	bb_calibration_time(&c, ring, &shape, 4, &support);
	NEAR(support.measured, 77 * US);
	shape.count = 8192; /* half of six octaves */
	NEAR(bb_calibration_time(&c, ring, &shape, 4, &support),
	     exp(1) * bb_calibration_time(&plain, ring, &shape, 4, &support));
	/* Beyond the last size, which it keeps, and four times as many ranks or half of them. */
	shape.count = 1 << 20;
	NEAR(bb_calibration_time(&c, ring, &shape, 4, &support),
	     exp(1.5) * bb_calibration_time(&plain, ring, &shape, 4, &support));
	shape.nranks = 32;
	NEAR(bb_calibration_time(&c, ring, &shape, 4, &support),
	     exp(1.5) * bb_calibration_time(&plain, ring, &shape, 4, &support));
	shape.nranks = 3;
	NEAR(bb_calibration_time(&c, ring, &shape, 4, &support),
	     exp(-0.5) * bb_calibration_time(&plain, ring, &shape, 4, &support));
	shape.nranks = 8;
	NEAR(bb_calibration_time(&c, tree, &shape, 4, &support),
	     bb_calibration_time(&plain, tree, &shape, 4, &support));
	/* What was measured is chosen, although others are thought to be faster. */
	for (int i = 0; i < 4; i++) {
		static const size_t counts[] = {1, 8000, 8400, 1 << 20};

		shape = (struct bb_shape){.nranks = 8, .count = counts[i]};
		assert_ptr_equal(bb_calibration_choose(&c, NULL, &bb_all_reduce, &shape, 4), ring);
		assert_int_equal(shape.chunk, i < 2 ? 64 : 1024);
	}
	assert_ptr_equal(bb_calibration_choose(&c, "tree", &bb_all_reduce, &shape, 4), tree);
	assert_int_equal(shape.chunk, 0);
	assert_null(bb_calibration_choose(&c, "none", &bb_all_reduce, &shape, 4));
	/* Else the fastest by the model. */
	for (int i = 0; i < 2; i++) {
		const struct bb_algorithm *best;
		double least = INFINITY;

		shape = (struct bb_shape){.nranks = 8, .count = i ? 1 << 22 : 8};
		best = bb_calibration_choose(&plain, NULL, &bb_all_reduce, &shape, 4);
		assert_int_equal(shape.chunk, 0);
		for (int a = 0; bb_algorithms[a]; a++)
			if (bb_algorithms[a]->collective == &bb_all_reduce &&
			    (!bb_algorithms[a]->refuses || !bb_algorithms[a]->refuses(&shape)))
				least = fmin(least, bb_calibration_time(&plain, bb_algorithms[a],
									&shape, 4, &support));
		NEAR(bb_calibration_time(&plain, best, &shape, 4, &support), least);
	}
}

/* ---- fits ----------------------------------------------------------------------------------- */

static struct bb_calibration *fitted(const char *text, const struct bb_cluster *cluster,
				     const struct bb_nccl_constants *constants)
{
	char path[] = "/tmp/busbench-test-XXXXXX";
	const int fd = mkstemp(path);
	struct bb_calibration *c = NULL;
	struct bb_error error = {.text = ""};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	if (bb_calibration_read(&c, path, cluster, constants, &error) != BB_OK)
		print_message("%s\n", error.text);
	unlink(path);
	return c;
}

/* Times by a law are found again: the latency of a round of each number of ranks, and a byte's
   time at each knot. What was left out is predicted well. */
static void test_fit(void **state)
{
	static const double rounds[] = {1 * US, 4 * US};
	const struct bb_algorithm *const of[] = {
		bb_algorithm_find(&bb_all_reduce, "ring"),
		bb_algorithm_find(&bb_all_reduce, "recursive_doubling"),
		bb_algorithm_find(&bb_all_gather, "ring")};
	struct bb_strbuf text = {0};
	struct bb_calibration *c;
	struct bb_calibrated support;
	/* Of six series of six sizes: the four within each; each series, and each number of ranks,
	   by the other; the two algorithms of all_reduce, which has another; each collective, and
	   the only algorithm of all_gather. Without all sizes from 2^12 on there is no all_gather
	   of four ranks, from 2^11 on none at all. */
	static const size_t counts[BB_CROSS_KINDS] = {[BB_CROSS_BETWEEN] = 6 * 4,
						      [BB_CROSS_RANKS] = 36 + 36 + 6,
						      [BB_CROSS_ALGORITHM] = 24,
						      [BB_CROSS_COLLECTIVE] = 36 + 12 + 12};
	double errors[512];
	size_t n = 0;

	bb_strbuf_add(&text, "{\"schema\":1,\"kind\":\"run\",\"backend\":\"host\",\"cores\":2}\n");
	for (int a = 0; a < 3; a++)
		for (int r = 0; r < 2; r++)
			for (size_t count = 256; count <= 1 << 18; count *= 4) {
				const struct bb_shape shape = {.nranks = r ? 4 : 2, .count = count};
				const struct bb_cost cost = bb_cost_of(of[a], &shape, 4);
				/* 0.1 ns a byte up to 2^13 bytes, then 0.1 ns more each octave */
				const double byte = 1e-10 * fmax(1, log2(cost.size) - 12);

				bb_strbuf_addf(
					&text,
					"{\"kind\":\"result\",\"collective\":\"%s\",\"algorithm\":"
					"\"%s\",\"dtype\":\"float\",\"nranks\":%d,\"size_bytes\":"
					"%.17g,\"count\":%zu,\"in_place\":false,\"time_us\":"
					"%.17g}\n",
					of[a]->collective->name, of[a]->name, shape.nranks,
					4.0 * (double)bb_size_count(of[a]->collective, &shape),
					count,
					1e6 * (cost.rounds * rounds[r] + byte * cost.moved / 2));
				n++;
			}
	c = fitted(bb_strbuf_text(&text), NULL, NULL);
	assert_non_null(c);
	assert_int_equal(c->n, n);
	assert_int_equal(c->nseries, 6);
	assert_int_equal(c->model.cores, 2);
	assert_int_equal(c->model.ncounts, 2);
	for (int i = 0; i < 2; i++)
		near(__LINE__, c->model.values[i], c->model.counts[i] == 2 ? rounds[0] : rounds[1],
		     0.02);
	/* The smallest inputs have 2^11 bytes, the largest 2^24 of a gather. */
	assert_int_equal(c->model.first, 11);
	for (int knot = 0; knot < c->model.nknots; knot++) {
		const double octaves = c->model.first + 2 * knot;

		if (octaves >= 13 && octaves <= 21)
			near(knot, c->model.values[2 + knot], 1e-10 * fmax(1, octaves - 12), 0.05);
	}
	for (size_t i = 0; i < c->n; i++) {
		assert_true(fabs(c->points[i].left) < 0.02);
		if (i > 0 && c->points[i].schedule == c->points[i - 1].schedule &&
		    c->points[i].cost.nranks == c->points[i - 1].cost.nranks)
			assert_true(c->points[i].call.bytes > c->points[i - 1].call.bytes);
	}
	for (int kind = 0; kind < BB_CROSS_KINDS; kind++) {
		n = bb_cross_select(c, kind, NULL, errors);
		assert_true(n > 0 && n < sizeof(errors) / sizeof(errors[0]));
		if (kind != BB_CROSS_BEYOND)
			assert_int_equal(n, counts[kind]);
		for (size_t i = 0; i < n && kind == BB_CROSS_BETWEEN; i++)
			assert_true(errors[i] < 0.1);
	}
	/* A size between, whose neighbours were left out well. */
	{
		const struct bb_shape shape = {.nranks = 4, .count = 1 << 13};
		const struct bb_cost cost = bb_cost_of(of[0], &shape, 4);

		near(__LINE__, bb_calibration_time(c, of[0], &shape, 4, &support),
		     cost.rounds * rounds[1] + 1e-10 * (log2(cost.size) - 12) * cost.moved / 2,
		     0.03);
		assert_true(support.low > 0.8 && support.low <= 1 && support.high >= 1 &&
			    support.high < 1.2);
	}
	bb_calibration_free(c);
	bb_strbuf_free(&text);
}

/* Rows of NCCL on nodes whose figures are others than those described: these are found. */
static void test_fit_of_nccl(void **state)
{
	struct bb_cluster *const cluster = open_cluster("dgx-a100:2");
	struct bb_nccl_constants constants;
	struct bb_error error = {.text = ""};
	struct bb_strbuf text = {0};
	struct bb_nccl_machine m;
	struct bb_calibration *c;
	struct bb_site hidden = {.described = {0}};
	int members[16];

	for (int i = 0; i < 16; i++)
		members[i] = i;
	assert_int_equal(bb_nccl_constants_find(&constants, 80, &error), BB_OK);
	for (int pass = 0; pass < 3; pass++) {
		const int nodes = pass == 1 ? 2 : 1;
		const struct bb_collective *const of = nodes == 1 ? &bb_all_gather : &bb_all_reduce;
		const int n = 8 * nodes;

		assert_true(bb_nccl_shape_make(&m, cluster, 0, members, n));
		m.gpu_share *= 0.8;
		m.net_rate *= 0.7;
		m.rank_rate *= 0.7;
		m.rail_rate *= 0.7;
		m.nic_latency = 30 * US;
		m.issue = pass == 2 ? 60 * US : 0;
		bb_strbuf_clear(&text);
		bb_strbuf_addf(&text,
			       "mpirun -np %d -N 8 ./%s_perf\n# size count type redop root "
			       "time algbw busbw #wrong\n",
			       n, of->name);
		for (int i = 0; i < n; i++)
			bb_strbuf_addf(&text,
				       "#  Rank %2d Group  0 Pid %d on h%d device %d [0x%02x] "
				       "NVIDIA A100-SXM4-80GB\n",
				       i, 100 + i, i / 8, i % 8, 16 + i % 8);
		for (double bytes = pass == 0 ? 0x1p20 : 1024; bytes <= 0x1p34; bytes *= 4) {
			const struct bb_nccl_call call = {.collective = of,
							  .algorithm = BB_NCCL_ANY,
							  .protocol = BB_NCCL_ANY_PROTOCOL,
							  .machine = &m,
							  .dtype = BB_FLOAT,
							  .bytes = bytes};
			const double us = 1e6 * bb_nccl_call_time(&constants, &call);

			bb_strbuf_addf(&text, "%.0f %.0f float sum -1 %.6f %.6f %.6f 0\n", bytes,
				       (double)(nodes == 1 ? bytes / 4 / n : bytes / 4), us,
				       bytes / us / 1e3, bytes / us / 1e3 * of->bus_factor(n));
		}
		c = fitted(bb_strbuf_text(&text), cluster, &constants);
		assert_non_null(c);
		hidden = c->site;
		assert_int_equal(c->n, pass == 0 ? 8 : 13);
		assert_int_equal(c->nseries, 1);
		assert_int_equal(c->points[0].nodes, nodes);
		if (nodes == 1) {
			assert_int_equal(hidden.state[BB_SITE_GPU_EFFICIENCY], BB_SITE_FITTED);
			near(__LINE__, hidden.fitted[BB_SITE_GPU_EFFICIENCY],
			     0.8 * hidden.described[BB_SITE_GPU_EFFICIENCY], 0.03);
			assert_int_equal(hidden.state[BB_SITE_NIC_LATENCY], BB_SITE_ONE_NODE);
			assert_int_equal(hidden.state[BB_SITE_NIC_EFFICIENCY], BB_SITE_ONE_NODE);
		} else {
			assert_int_equal(hidden.state[BB_SITE_NIC_LATENCY], BB_SITE_FITTED);
			near(__LINE__, hidden.fitted[BB_SITE_NIC_LATENCY], 30 * US, 0.1);
			assert_int_equal(hidden.state[BB_SITE_NIC_EFFICIENCY], BB_SITE_FITTED);
			near(__LINE__, hidden.fitted[BB_SITE_NIC_EFFICIENCY],
			     0.7 * hidden.described[BB_SITE_NIC_EFFICIENCY], 0.05);
		}
		/* Over nodes small sizes have one time because of hops. */
		if (pass < 2)
			assert_int_equal(hidden.state[BB_SITE_ISSUE],
					 pass == 0 ? BB_SITE_NO_PLATEAU : BB_SITE_FEW_SIZES);
		else
			near(__LINE__, hidden.fitted[BB_SITE_ISSUE], 60 * US, 0.1);
		for (size_t i = 0; i < c->n && pass < 2; i++)
			assert_true(fabs(c->points[i].left) < 0.25);
		bb_calibration_free(c);
	}
	bb_strbuf_free(&text);
	bb_cluster_free(cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_factors_of_nccl), cmocka_unit_test(test_evidence),
		cmocka_unit_test(test_intervals),       cmocka_unit_test(test_intervals_beyond),
		cmocka_unit_test(test_described),       cmocka_unit_test(test_adjusted),
		cmocka_unit_test(test_selected_errors), cmocka_unit_test(test_model),
		cmocka_unit_test(test_schedules),       cmocka_unit_test(test_fit),
		cmocka_unit_test(test_fit_of_nccl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

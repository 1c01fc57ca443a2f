/*
 * Calibrations by made-up runs: schedules and collectives x ranks x sizes x placements with times
 * by a law and noise, and NCCL on clusters whose figures differ; what is fitted and predicted.
 */
#include "clusters.h"
#include "draws.h"

#include "simulator/calibration/points.h"

#include <sys/mman.h>
#include <unistd.h>

#define FILE_NUMBER 400 /* so that its name is the same in every run */

/* The calibration by TEXT; NULL: it is refused. */
static struct bb_calibration *calibration_read(struct sweep_texts *s, const char *text,
					       const struct bb_cluster *cluster,
					       const struct bb_nccl_constants *constants)
{
	const int file = memfd_create("records", 0);
	struct bb_calibration *c = NULL;
	struct bb_error error = {.text = ""};
	char path[64];

	assert_true(file >= 0);
	assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(dup2(file, FILE_NUMBER), FILE_NUMBER);
	close(file);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", FILE_NUMBER);
	sweep_add(&s->numbers, bb_calibration_read(&c, path, cluster, constants, &error));
	sweep_texts_add(s, error.text);
	close(FILE_NUMBER);
	if (c)
		c->path = "records";
	return c;
}

static void supported_add(struct sweep_texts *s, const struct bb_calibrated *support)
{
	SWEEP_ADD(&s->numbers, support->low, support->high, support->measured,
		  support->measured_min, support->measured_p95, support->left_out);
}

/* All that was fitted. */
static void calibration_add(struct sweep_texts *s, const struct bb_calibration *c)
{
	static double errors[1 << 14];
	struct bb_strbuf out = {0};

	SWEEP_ADD(&s->numbers, (double)c->n, (double)c->nseries, (double)c->nerrors,
		  (double)c->others, c->is_table, (double)c->far, (double)c->unlike, c->simulated,
		  c->names_gpu, c->model.cores, c->model.ncounts, c->model.nknots, c->model.first);
	for (int i = 0; i < c->model.ncounts + c->model.nknots; i++)
		sweep_add(&s->numbers, c->model.values[i]);
	for (int i = 0; i < BB_SITE_FIGURES; i++)
		SWEEP_ADD(&s->numbers, c->site.described[i], c->site.fitted[i], c->site.state[i]);
	for (size_t i = 0; i < c->n; i++)
		SWEEP_ADD(&s->numbers, c->points[i].time, c->points[i].left, c->points[i].left_out,
			  c->points[i].least, c->points[i].p95, c->points[i].median);
	for (size_t i = 0; i < c->nerrors; i++)
		SWEEP_ADD(&s->numbers, (double)(c->errors[i].of - c->points), c->errors[i].kind,
			  c->errors[i].beyond, c->errors[i].error);
	for (int kind = 0; kind < BB_CROSS_KINDS; kind++)
		for (int of = 0; of < 2; of++) {
			const size_t n = bb_cross_select(c, (enum bb_cross_kind)kind,
							 of ? c->points : NULL, errors);

			for (size_t i = 0; i < n; i++)
				sweep_add(&s->numbers, errors[i]);
		}
	bb_calibration_describe(c, &out);
	sweep_texts_add(s, bb_strbuf_text(&out));
	bb_strbuf_free(&out);
}

/* ---- schedules ------------------------------------------------------------------------------ */

static const struct bb_collective *const collectives[] = {&bb_all_reduce,     &bb_all_gather,
							  &bb_reduce_scatter, &bb_broadcast,
							  &bb_alltoall,       &bb_reduce};

static void point_draw(const struct bb_algorithm *a, const struct bb_shape *shape, double noise,
		       struct bb_strbuf *out)
{
	const struct bb_cost cost = bb_cost_of(a, shape, 4);
	const double byte = 1e-4 * fmax(1, 0.25 * log2(cost.size + 1) - 3);
	const double us = (cost.rounds * (1 + 0.25 * shape->nranks) + byte * cost.moved / 2 + 0.1) *
			  DRAW_WITHIN(1, 1 + noise);

	bb_strbuf_addf(out,
		       "{\"kind\":\"result\",\"collective\":\"%s\",\"algorithm\":\"%s%s\","
		       "\"dtype\":\"%s\",\"nranks\":%d,\"size_bytes\":%.17g,\"count\":%zu,"
		       "\"in_place\":%s,\"time_us\":%.17g",
		       a->collective->name, RARELY(2) ? "busbench:" : "",
		       RARELY(40) ? "odd" : a->name, RARELY(40) ? "odd" : "float", shape->nranks,
		       4.0 * (double)bb_size_count(a->collective, shape), shape->count,
		       shape->in_place ? "true" : "false", RARELY(60) ? 0 : us);
	if (RARELY(2))
		bb_strbuf_addf(out,
			       ",\"samples\":%d,\"p50_us\":%.17g,\"min_us\":%.17g,"
			       "\"p95_us\":%.17g",
			       (int)DRAW(1, 2, 20), us * 0.98, us * DRAW(0.9, 1.1),
			       us * DRAW(0.9, 1.2));
	if (shape->chunk > 0)
		bb_strbuf_addf(out, ",\"chunk_bytes\":%zu", 4 * shape->chunk);
	if (RARELY(60))
		bb_strbuf_add(out, ",\"library_algorithm\":\"ring:LL\"");
	bb_strbuf_add(out, "}\n");
}

static void series_draw(struct bb_strbuf *out)
{
	const int first = (int)DRAW_BELOW(4), number = 1 + (int)DRAW_BELOW(3);
	const int sizes = (int)DRAW(1, 2, 3, 5), apart = (int)DRAW(1, 2, 3),
		  placements = (int)DRAW(1, 3);
	const int few = (int)DRAW(2, 3, 4), several = (int)DRAW(0, 0, 4, 8);
	const int least = (int)DRAW(0, 4, 8, 10), most = 1 + (int)DRAW_BELOW(2);
	const double noise = DRAW(0, 0.02, 0.3);

	bb_strbuf_addf(out, "{\"schema\":1,\"kind\":\"run\",\"backend\":\"%s\",\"cores\":%d}\n",
		       RARELY(12) ? "nccl" : "host", (int)DRAW(0, 1, 2, 8));
	for (int k = first; k < first + number; k++) {
		int taken = 0;

		for (int i = 0; bb_algorithms[i] && taken < most; i++) {
			const struct bb_algorithm *const a = bb_algorithms[i];

			if (a->collective != collectives[k % 6] || RARELY(3))
				continue;
			taken++;
			for (int at = 0; at < 4 * sizes; at++) {
				struct bb_shape shape = {.nranks = at / sizes % 2 ? several : few,
							 .in_place = at / sizes / 2 == 1,
							 .count = (size_t)1
								  << (least + apart * (at % sizes)),
							 .chunk = (size_t)DRAW(0, 0, 256)};

				if (shape.nranks < 2 || !(placements & (shape.in_place + 1)))
					continue;
				shape.count += (size_t)(3 * RARELY(6));
				point_draw(a, &shape, noise, out);
			}
		}
	}
}

static void schedules_add(struct sweep_texts *s, const struct bb_calibration *c)
{
	for (size_t k = 0; k < 6; k++)
		for (int i = 0; i < 12; i++) {
			struct bb_shape shape = {
				.nranks = (int)DRAW(2, 3, 4, 8, 16),
				.in_place = RARELY(2),
				.count = (size_t)DRAW(0, 1, 16, 100, 1024, 5000, 1 << 14, 1 << 20)};
			struct bb_calibrated support;
			const struct bb_algorithm *const best = bb_calibration_choose(
				c, RARELY(3) ? "ring" : NULL, collectives[k], &shape, 4);

			sweep_texts_add(s, best ? best->name : "none");
			sweep_add(&s->numbers, (double)shape.chunk);
			if (!best)
				continue;
			sweep_add(&s->numbers, bb_calibration_time(c, best, &shape, 4, &support));
			supported_add(s, &support);
		}
}

static void test_schedules(void **none)
{
	struct sweep_texts s = sweep_texts_open("calibration_schedules");

	for (int i = 1; i <= 200; i++) {
		struct bb_strbuf text = {0};

		drawn_begin((uint64_t)i);
		series_draw(&text);
		struct bb_calibration *const c =
			calibration_read(&s, bb_strbuf_text(&text), NULL, NULL);
		if (c) {
			calibration_add(&s, c);
			schedules_add(&s, c);
		}
		bb_calibration_free(c);
		bb_strbuf_free(&text);
		if (i % 10 == 0)
			sweep_texts_end(&s, "runs", i);
	}
	sweep_texts_close(&s);
}

/* ---- NCCL ----------------------------------------------------------------------------------- */

static const char *const clusters[] = {"hgx-h100:2", "dgx-a100:1", "dgx-1v:2"};

/* The model's time of CALL with other figures, in us. */
static double nccl_us(const struct bb_nccl_constants *constants, struct bb_nccl_call call,
		      const double factors[4])
{
	struct bb_nccl_machine m = *call.machine;

	m.gpu_share *= factors[0];
	m.net_rate *= factors[1];
	m.rank_rate *= factors[1];
	m.rail_rate *= factors[1];
	m.nic_latency = m.nodes > 1 ? factors[2] : m.nic_latency;
	call.machine = &m;
	return fmax(1e6 * bb_nccl_call_time(constants, &call), factors[3]);
}

static void nccl_draw(const struct bb_cluster *cluster, const struct bb_nccl_constants *constants,
		      struct bb_strbuf *out)
{
	const double factors[4] = {DRAW(1, 0.8, 1.05), DRAW(1, 0.7), DRAW(2e-6, 2e-5, 1e-4),
				   DRAW(0, 0, 60)};
	const int sizes = (int)DRAW(1, 3, 4), least = (int)DRAW(3, 10, 20), apart = (int)DRAW(2, 3);
	const int ranks = RARELY(3) ? cluster->gpus : cluster->ranks;
	const int most = (int)DRAW(1, 1, 2);
	const double noise = DRAW(0, 0.02, 0.1), far = RARELY(12) ? 30 : 1;
	const char *const algorithms[] = {"auto", "ring", "tree"};
	const int members[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	const char *const gpu = RARELY(9) ? "NVIDIA GB200" : "";
	struct bb_nccl_machine machine;

	bb_strbuf_add(out, "{\"schema\":1,\"kind\":\"run\",\"backend\":\"nccl\",\"ranks\": [");
	for (int r = 0; r < ranks; r++)
		bb_strbuf_addf(out, "%s{\"rank\":%d,\"host\":\"h%d\"%s%s%s}", r > 0 ? "," : "", r,
			       r / cluster->gpus, *gpu ? ",\"name\":\"" : "", gpu,
			       *gpu ? "\"" : "");
	bb_strbuf_add(out, "]}\n");
	assert_true(bb_nccl_shape_make(&machine, cluster, 0, members, ranks));
	for (int k = 0; k < most; k++)
		for (int a = (int)DRAW_BELOW(2); a < 1 + (int)DRAW(1, 2); a++)
			for (int i = 0; i < 2 * sizes; i++) {
				struct bb_nccl_call call = {
					.collective = collectives[k],
					.algorithm = a == 0   ? BB_NCCL_ANY
						     : a == 1 ? BB_NCCL_RING
							      : BB_NCCL_TREE,
					.protocol = BB_NCCL_ANY_PROTOCOL,
					.machine = &machine,
					.dtype = BB_FLOAT,
					.in_place = i >= sizes,
					.bytes = (double)(1ll << (least + apart * (i % sizes)))};
				const double us = nccl_us(constants, call, factors);

				if (!isfinite(us) || RARELY(8))
					continue;
				bb_strbuf_addf(out,
					       "{\"kind\":\"result\",\"collective\":\"%s\","
					       "\"algorithm_asked\":\"%s\",\"dtype\":\"float\","
					       "\"op\":\"sum\",\"nranks\":%d,\"size_bytes\":%.17g,"
					       "\"in_place\":%s,\"time_us\":%.17g}\n",
					       collectives[k]->name, algorithms[a], ranks,
					       call.bytes, call.in_place ? "true" : "false",
					       us * far * DRAW_WITHIN(1, 1 + noise));
			}
}

static void predictions_add(struct sweep_texts *s, const struct bb_calibration *c)
{
	static const double sizes[] = {0.5, 8, 3000, 0x1p16, 0x1p20, 3 * 0x1p22, 0x1p28, 0x1p33};
	const struct bb_cluster *const cluster = c->cluster;
	const int members[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

	for (int i = 0; i < 60; i++) {
		struct bb_nccl_machine machine;
		struct bb_calibrated support;
		const int ranks = RARELY(2) ? cluster->ranks : RARELY(2) ? cluster->gpus : 2;
		const struct bb_nccl_call call = {
			.collective = collectives[DRAW_BELOW(3)],
			.algorithm = RARELY(2) ? BB_NCCL_RING : BB_NCCL_TREE,
			.protocol = RARELY(2) ? BB_NCCL_ANY_PROTOCOL : BB_NCCL_SIMPLE,
			.machine = &machine,
			.dtype = BB_FLOAT,
			.in_place = RARELY(2),
			.bytes = DRAW_OF(sizes)};

		assert_true(bb_nccl_shape_make(&machine, cluster, 0, members, ranks));
		bb_calibration_adjust(c, &machine);
		SWEEP_ADD(&s->numbers, machine.gpu_share, machine.net_rate, machine.rank_rate,
			  machine.rail_rate, machine.nic_latency, machine.net_fill, machine.issue);
		sweep_add(&s->numbers, bb_calibration_of_nccl(c, &call, &support));
		supported_add(s, &support);
	}
}

static void test_nccl(void **none)
{
	struct sweep_texts s = sweep_texts_open("calibration_nccl");

	for (int i = 0; i < 126; i++) {
		struct bb_cluster *const cluster = open_cluster(clusters[i % 3]);
		struct bb_nccl_constants constants;
		struct bb_strbuf text = {0};
		struct bb_error error = {.text = ""};

		drawn_begin((uint64_t)i);
		assert_int_equal(
			bb_nccl_constants_find(&constants, cluster->node->devices[0].sm, &error),
			BB_OK);
		nccl_draw(cluster, &constants, &text);
		struct bb_calibration *const c =
			calibration_read(&s, bb_strbuf_text(&text), cluster, &constants);
		if (c) {
			calibration_add(&s, c);
			predictions_add(&s, c);
		}
		bb_calibration_free(c);
		bb_strbuf_free(&text);
		bb_cluster_free(cluster);
		if (i % 9 == 8)
			sweep_texts_end(&s, "runs", i);
	}
	sweep_texts_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedules),
					   cmocka_unit_test(test_nccl)};

	return cmocka_run_group_tests_name("calibration_sweep", tests, NULL, NULL);
}

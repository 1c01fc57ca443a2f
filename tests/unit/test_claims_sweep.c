/*
 * Claims of made-up records and of JSON of nccl-tests (-J), whole and damaged, and the records that
 * are made of them.
 */
#include "draws.h"

#include "acceptance/claims.h"
#include "acceptance/records.h"

#include <jansson.h>

static void claims_add(struct sweep_texts *s, const struct bb_claims *c)
{
	const char *const texts[] = {c->collective, c->algorithm, c->gpu,  c->backend,     c->type,
				     c->op,         c->host,      c->root, c->bound_source};
	enum bb_dtype dtype;
	enum bb_op op;
	int64_t least = 0, most = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		sweep_texts_add(s, texts[i]);
	SWEEP_ADD(&s->numbers, (double)c->unchecked_in_place, (double)c->nranks, (double)c->hosts,
		  (double)c->runs, c->incomplete, c->average_GBps, c->factor,
		  (double)c->least_bytes, (double)c->most_bytes, (double)c->step_bytes, c->rounding,
		  c->percent_of_bound, (double)c->implausible, (double)c->not_finite, c->simulated,
		  (double)c->wrong, (double)c->unchecked);
	for (int kind = 0; kind < BB_FACTS; kind++) {
		const struct bb_fact *const f = bb_claims_fact(c, (enum bb_fact_kind)kind);

		if (!f)
			continue;
		SWEEP_ADD(&s->numbers, kind, f->line, f->observed, (double)f->value);
		sweep_texts_add(s, f->text);
		sweep_texts_add(s, f->quote);
	}
	for (size_t i = 0; i < c->n; i++)
		SWEEP_ADD(&s->numbers, (double)c->list[i].size_bytes, c->list[i].in_place,
			  c->list[i].wrong, c->list[i].time_us, c->list[i].algbw_GBps,
			  c->list[i].busbw_GBps, c->list[i].line);
	bb_claims_operand(c, &dtype, &op);
	sweep_add(&s->numbers, bb_claims_ranks(c, c->collective, &least, &most));
	SWEEP_ADD(&s->numbers, dtype, op, (double)least, (double)most);
}

static void records_add(struct sweep_texts *s, const struct bb_claim_file *file)
{
	struct bb_records records = {.n = 0};

	sweep_add(&s->numbers, bb_claims_records("path", file, &records));
	sweep_add(&s->numbers, (double)records.n);
	for (size_t i = 0; i < records.n; i++) {
		char *const text = json_dumps(records.list[i].json, JSON_SORT_KEYS);

		sweep_texts_add(s, records.list[i].kind);
		sweep_texts_add(s, text);
		sweep_add(&s->numbers, records.list[i].run != NULL);
		free(text);
	}
	bb_records_free(&records);
}

static void text_add(struct sweep_texts *s, const char *text, size_t length)
{
	struct bb_claim_file file = {.n = 0};
	struct bb_error error = {.text = ""};
	const bb_status st = bb_claims_read("path", text, length, &file, &error);

	sweep_add(&s->numbers, st);
	/* "path:12:"; what follows is the JSON library's. */
	error.text[strcspn(error.text, " ")] = '\0';
	sweep_texts_add(s, error.text);
	SWEEP_ADD(&s->numbers, (double)file.n, (double)file.cut, file.cut_line);
	for (size_t i = 0; i < file.n; i++)
		claims_add(s, &file.list[i]);
	if (st == BB_OK)
		records_add(s, &file);
	bb_claims_free(&file);
}

/* ---- records -------------------------------------------------------------------------------- */

static void run_draw(struct bb_strbuf *out)
{
	const int ranks = (int)DRAW(0, 1, 2, 4, 8), each = (int)DRAW(1, 2, 4);

	bb_strbuf_addf(out,
		       "{\"schema\":1,\"kind\":\"run\",\"run_id\":\"%d\",\"virtual_time\":%s%s",
		       (int)DRAW_BELOW(3), RARELY(5) ? "true" : "false",
		       DRAW_TEXT("", ",\"backend\":\"nccl\"", ",\"backend\":\"gloo\""));
	bb_strbuf_add(out, ranks > 0 ? ",\"ranks\":[" : "");
	for (int r = 0; r < ranks; r++) {
		bb_strbuf_addf(out, "%s{\"rank\":%d", r > 0 ? "," : "", r);
		if (!RARELY(12))
			bb_strbuf_addf(out, ",\"host\":\"h%d\"", r / each);
		if (!RARELY(3))
			bb_strbuf_add(out, ",\"name\":\"NVIDIA H100 80GB HBM3\"");
		bb_strbuf_add(out, "}");
	}
	bb_strbuf_add(out, ranks > 0 ? "]}\n" : "}\n");
}

static void result_draw(int nranks, struct bb_strbuf *out)
{
	const double us = DRAW(0, 5, 40, 40, 1e5) * DRAW_WITHIN(1, 2), size = DRAW(0, 8, 1e6, 1e9);
	const double algbw = RARELY(20) ? 0 : size / us / 1e3;

	bb_strbuf_addf(out, "{\"schema\":1,\"kind\":\"%s\"", RARELY(12) ? "pair" : "result");
	if (!RARELY(12))
		bb_strbuf_addf(out, ",\"collective\":\"%s\"",
			       DRAW_TEXT("all_reduce", "all_reduce", "all_reduce", "all_gather"));
	if (!RARELY(4))
		bb_strbuf_addf(out, ",\"algorithm_asked\":\"%s\"",
			       DRAW_TEXT("ring", "ring", "ring", "auto"));
	if (!RARELY(4))
		bb_strbuf_addf(out, ",\"nranks\":%d", nranks);
	bb_strbuf_addf(out, ",\"size_bytes\":%.0f,\"in_place\":%s,\"time_us\":%.9g", size,
		       RARELY(2) ? "true" : "false", us);
	if (isfinite(algbw) && !RARELY(12))
		bb_strbuf_addf(out, ",\"algbw_GBps\":%.9g,\"busbw_GBps\":%.9g", algbw,
			       RARELY(20) ? 0 : algbw * 2 * (nranks - 1) / nranks);
	if (!RARELY(4))
		bb_strbuf_addf(out, ",\"wrong\":%d", (int)DRAW(0, 0, 0, -1, 3));
	if (RARELY(3))
		bb_strbuf_addf(out, ",\"percent_of_bound\":%d,\"bound_source\":\"links\"",
			       (int)DRAW(5, 50, 120));
	bb_strbuf_add(out, "}\n");
}

static void test_records(void **none)
{
	struct sweep_texts s = sweep_texts_open("claims_records");

	for (int i = 1; i <= 1500; i++) {
		struct bb_strbuf text = {0};
		int lines;

		drawn_begin((uint64_t)i);
		lines = (int)DRAW(0, 1, 3, 8, 20);
		if (!RARELY(12))
			run_draw(&text);
		for (int k = 0; k < lines; k++) {
			if (RARELY(9))
				run_draw(&text);
			result_draw((int)DRAW(2, 8, 8, 8), &text);
			if (RARELY(30))
				bb_strbuf_add(&text, "launcher: a line of its own\n");
			if (RARELY(90))
				bb_strbuf_add(&text, "{\"schema\":1,\"kind\":\n");
		}
		text_add(&s, bb_strbuf_text(&text), text.length);
		bb_strbuf_free(&text);
		if (i % 75 == 0)
			sweep_texts_end(&s, "records", i);
	}
	sweep_texts_close(&s);
}

/* ---- JSON of nccl-tests --------------------------------------------------------------------- */

static void half_draw(const char *name, double size, int ranks, struct bb_strbuf *out)
{
	const double us = 5 + size / 1e5 * DRAW_WITHIN(1, 1.2), algbw = size / us / 1e3;

	if (RARELY(20))
		return;
	bb_strbuf_addf(out, ",\"%s\":{\"%s\":%.6g,\"alg_bw\":%.6g", name,
		       RARELY(5) ? "cpu_time" : "time", us, RARELY(30) ? 2 * algbw : algbw);
	if (!RARELY(30))
		bb_strbuf_addf(out, ",\"bus_bw\":%.6g", algbw * 2 * (ranks - 1) / ranks);
	if (!RARELY(4))
		bb_strbuf_addf(out, ",\"nwrong\":%d", (int)DRAW(0, 0, 0, 0, 5));
	bb_strbuf_add(out, "}");
}

static void object_draw(struct bb_strbuf *out)
{
	const int threads = (int)DRAW(1, 1, 2, 0, 2000), gpus = (int)DRAW(1, 1, 2, 4);
	const int devices = (int)DRAW(0, 1, 2, 4, 8), each = (int)DRAW(1, 2, 4);
	const int ranks = (int)DRAW(2, 4, 8), rows = (int)DRAW(0, 1, 4, 9);

	bb_strbuf_addf(out, "{\"args\":[\"%s\",\"-b\",\"8\"],\n\"env\":[",
		       DRAW_TEXT("./all_reduce_perf", "build/alltoall_perf", "x"));
	bb_strbuf_addf(out, "\"%s\",\"%s\",\"HOME=/root\"],\n",
		       DRAW_TEXT("NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5_0,mlx5_1", "A=b"),
		       DRAW_TEXT("NCCL_P2P_DISABLE=1", "NCCL_DEBUG=INFO", "NCCL_NVLS_ENABLE=0"));
	bb_strbuf_addf(out,
		       "\"config\":{\"nthreads\":%d,\"ngpus\":%d,\"minimum_bytes\":8,"
		       "\"maximum_bytes\":%d,\"step_bytes\":%d,\"step_factor\":%g,\n\"devices\":[",
		       threads, gpus, (int)DRAW(8, 1024, 1 << 30), (int)DRAW(0, 1024, 1 << 20),
		       DRAW(1, 2, 4));
	for (int d = 0; d < devices; d++) {
		bb_strbuf_addf(out, "%s{\"rank\":%d,\"device\":%d", d > 0 ? "," : "",
			       RARELY(30) ? -1
					  : d * (threads > 0 && threads < 9 ? threads * gpus : 1),
			       d % each);
		if (!RARELY(20))
			bb_strbuf_addf(out, ",\"hostname\":\"h%d\"", d / each);
		if (!RARELY(4))
			bb_strbuf_addf(out, ",\"device_hex\":\"0x%02x\"", d % each);
		if (!RARELY(4))
			bb_strbuf_addf(out, ",\"device_info\":\"%s\"",
				       DRAW_TEXT("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"));
		bb_strbuf_add(out, "}");
	}
	bb_strbuf_add(out, "]},\n\"results\":[");
	for (int i = 0; i < rows; i++) {
		const double size = (double)(8ll << (3 * i));

		bb_strbuf_addf(out, "%s{\"size\":%.0f,\"count\":%.0f", i > 0 ? ",\n" : "", size,
			       size / 4);
		if (!RARELY(20))
			bb_strbuf_addf(out, ",\"type\":\"%s\"",
				       DRAW_TEXT("float", "float", "half"));
		if (!RARELY(6))
			bb_strbuf_addf(out, ",\"redop\":\"%s\"",
				       DRAW_TEXT("sum", "sum", "", "max"));
		half_draw("out_of_place", size, ranks, out);
		half_draw("in_place", size, ranks, out);
		bb_strbuf_add(out, "}");
	}
	bb_strbuf_addf(out,
		       "],\n\"out_of_bounds\":{\"count\":%d,\"okay\":\"%s\"},"
		       "\"average_bus_bandwidth\":{\"bandwidth\":%g}}\n",
		       (int)DRAW(0, 0, 3), RARELY(4) ? "false" : "true", DRAW(0, 12.5, 300));
}

static void test_json(void **none)
{
	struct sweep_texts s = sweep_texts_open("claims_json");

	for (int i = 1; i <= 1500; i++) {
		struct bb_strbuf text = {0};

		drawn_begin((uint64_t)i);
		bb_strbuf_add(&text, DRAW_TEXT("", "", " \t\r\n", "x"));
		for (int k = 0; k < 3 && (k == 0 || RARELY(3)); k++)
			object_draw(&text);
		/* Cut somewhere. */
		text_add(&s, bb_strbuf_text(&text),
			 RARELY(6) ? DRAW_BELOW(text.length) : text.length);
		bb_strbuf_free(&text);
		if (i % 75 == 0)
			sweep_texts_end(&s, "objects", i);
	}
	sweep_texts_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_records),
					   cmocka_unit_test(test_json)};

	return cmocka_run_group_tests_name("claims_sweep", tests, NULL, NULL);
}

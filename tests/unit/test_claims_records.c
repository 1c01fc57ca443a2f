/*
 * Claims from records and from the JSON of nccl-tests, and the records that claims become.
 */
#include "acceptance/claims.h"
#include "acceptance/records.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void read_all(const char *text, size_t tables, struct bb_claim_file *file)
{
	struct bb_error error = {0};

	if (bb_claims_read("f", text, strlen(text), file, &error) != BB_OK)
		fail_msg("%s", error.text);
	assert_int_equal(file->n, tables);
}

/* ---- records --------------------------------------------------------------------------------- */

#define RUN(more) "{\"schema\":1,\"kind\":\"run\"" more "}\n"
#define RANKS                                                                                      \
	",\"backend\":\"nccl\",\"virtual_time\":true,\"ranks\":[{\"host\":\"a\",\"name\":"         \
	"\"H100\"},"                                                                               \
	"{\"host\":\"a\"},{\"host\":\"b\"},{\"rank\":3},{\"host\":\"b\"},{\"host\":\"c\"}]"

/* A result of all_gather among six ranks. */
struct result {
	const char *algorithm, *wrong, *more;
	int size;
	double time, algbw, busbw;
};

static void add_results(char text[8192], const struct result *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(text + strlen(text), 8192 - strlen(text),
			 "{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_gather\","
			 "\"algorithm_asked\":\"%s\",\"wrong\":%s%s,\"nranks\":6,"
			 "\"size_bytes\":%d,\"time_us\":%g,\"algbw_GBps\":%g,"
			 "\"busbw_GBps\":%g}\n",
			 rows[i].algorithm, rows[i].wrong, rows[i].more, rows[i].size, rows[i].time,
			 rows[i].algbw, rows[i].busbw);
}

static void test_records(void **state)
{
	static const struct result first[] = {
		{"ring", "0",
		 ",\"in_place\":true,\"percent_of_bound\":40,\"bound_source\":\"links\"", 1024, 2,
		 3, 4},
		{"ring", "7", "", 2048, 2, 3, 4},
		{"ring", "null", "", 4096, 2, 3, 4},
		/* no rows: without a size, without numbers */
		{"ring", "0", "", 0, 2, 3, 4},
		{"ring", "1", "", 8, 0, 3, 4},
		{"ring", "1", "", 8, 2, 0, 4},
		{"ring", "1", "", 8, 2, 3, 0},
		{"tree", "0", "", 8, 1, 1, 1},
	};
	static const struct result second[] = {{"tree", "0", "", 8, 1, 1, 1}};
	char text[8192] = RUN(RANKS);
	struct bb_claim_file file;
	const struct bb_claims *c;

	add_results(text, first, 8);
	strcat(text, RUN(""));
	add_results(text, second, 1);
	strcat(text, "{\"schema\":1,\"kind\":\"pair\",\"size_bytes\":8,\"time_us\":1}\n"
		     "{\"schema\":1,\"kind\":\"result\",\"collective\":\"alltoall\","
		     "\"size_bytes\":8,\"time_us\":1,\"algbw_GBps\":1,\"busbw_GBps\":1}\n");
	read_all(text, 4, &file);
	c = &file.list[0];
	assert_string_equal(c->collective, "all_gather");
	assert_string_equal(c->algorithm, "ring");
	assert_string_equal(c->backend, "nccl");
	assert_string_equal(c->gpu, "H100");
	assert_string_equal(c->bound_source, ""); /* that of its last row */
	assert_int_equal(c->nranks, 6);
	assert_int_equal(c->hosts, 3);
	assert_true(c->simulated);
	assert_float_equal(c->rounding, 1e-9, 1e-15);
	assert_int_equal(c->n, 3);
	assert_int_equal(c->wrong, 4);
	assert_int_equal(c->unchecked, 1);
	assert_int_equal(c->list[1].size_bytes, 2048);
	assert_true(c->list[0].in_place);
	assert_false(c->list[1].in_place);
	assert_float_equal(c->list[0].time_us, 2, 1e-12);
	assert_float_equal(c->list[0].algbw_GBps, 3, 1e-12);
	assert_float_equal(c->list[0].busbw_GBps, 4, 1e-12);
	c = &file.list[1];
	assert_string_equal(c->algorithm, "tree");
	assert_int_equal(c->n, 1);
	assert_true(c->simulated);
	c = &file.list[2]; /* another run of the same algorithm */
	assert_string_equal(c->algorithm, "tree");
	assert_int_equal(c->hosts, 0);
	assert_false(c->simulated);
	assert_string_equal(c->backend, "");
	c = &file.list[3];
	assert_string_equal(c->collective, "alltoall");
	assert_string_equal(c->algorithm, "");
	assert_int_equal(c->nranks, 0);
	assert_int_equal(c->unchecked, 1); /* it says nothing of its data */
	bb_claims_free(&file);
}

/* ---- JSON of nccl-tests ---------------------------------------------------------------------- */

#define CONFIG(more)                                                                               \
	"{\"args\":[\"./all_reduce_perf\",\"-b\",\"1M\"],\n\"env\":[\"NCCL_ALGO=Tree\",\"HOME=/"   \
	"x\","                                                                                     \
	"5],\"config\":{\"nthreads\":1,\"ngpus\":2,\"minimum_bytes\":1024,\"maximum_bytes\":"      \
	"4096" more ",\n\"devices\":[{\"rank\":0,\"hostname\":\"a\",\"device\":0,\"device_hex\":"  \
	"\"0x1b\",\"device_info\":\"X 1\"},{\"rank\":2,\"hostname\":\"b\",\"device\":0,"           \
	"\"device_hex\":\"0x1b\",\"device_info\":\"X 1\"}]},"
#define HALF(time, wrong) "{" time ",\"alg_bw\":100,\"bus_bw\":150,\"nwrong\":" wrong "}"
#define ROW(out, in)                                                                               \
	"\"results\":[{\"size\":1000000,\"count\":250000,\"type\":\"float\",\"redop\":\"sum\","    \
	"\"out_of_place\":" out ",\"in_place\":" in "}],"
#define FOOTER(okay)                                                                               \
	"\"out_of_bounds\":{\"count\":3,\"okay\":\"" okay "\"},\"average_bus_bandwidth\":{"        \
	"\"bandwidth\":150}}\n"

static void test_json(void **state)
{
	struct bb_claim_file file;
	const struct bb_claims *c;

	read_all(CONFIG(",\"step_factor\":2") ROW(HALF("\"time\":10", "0"),
						  HALF("\"cpu_time\":10", "null")) FOOTER("true"),
		 1, &file);
	c = &file.list[0];
	assert_string_equal(c->collective, "all_reduce");
	assert_string_equal(c->type, "float");
	assert_string_equal(c->op, "sum");
	assert_string_equal(c->host, "a");
	assert_string_equal(c->gpu, "X 1");
	assert_int_equal(c->nranks, 4);
	assert_int_equal(c->hosts, 2);
	assert_int_equal(c->least_bytes, 1024);
	assert_int_equal(c->most_bytes, 4096);
	assert_float_equal(c->factor, 2, 1e-12);
	assert_int_equal(c->step_bytes, 0);
	assert_int_equal(c->n, 2);
	assert_float_equal(c->list[0].time_us, 10, 1e-12);
	assert_float_equal(c->list[1].time_us, 10, 1e-12);
	assert_false(c->list[0].in_place);
	assert_true(c->list[1].in_place);
	assert_int_equal(c->wrong, 0);
	assert_int_equal(c->unchecked, 1);
	assert_int_equal(c->list[0].line, 0);
	assert_string_equal(bb_claims_fact(c, BB_FACT_ALGORITHM)->text, "Tree");
	assert_int_equal(bb_claims_fact(c, BB_FACT_ALGORITHM)->line, 2);
	assert_null(bb_claims_fact(c, BB_FACT_SHARED_GPU));
	bb_claims_free(&file);
	/* steps of bytes; a footer that says the data is wrong; two objects */
	read_all(CONFIG(",\"step_factor\":1,\"step_bytes\":512")
			 ROW(HALF("\"time\":10", "0"), HALF("\"time\":10", "4")) FOOTER("true")
				 CONFIG(",\"step_bytes\":512") ROW(HALF("\"time\":20", "0"), "{}")
					 FOOTER("false"),
		 2, &file);
	assert_int_equal(file.list[0].step_bytes, 512);
	assert_float_equal(file.list[0].factor, 0, 1e-12);
	assert_int_equal(file.list[0].n, 2);
	assert_int_equal(file.list[0].wrong, 1);
	assert_true(file.list[0].list[1].wrong);
	/* 20 us for 100 GB/s is no such row. */
	assert_int_equal(file.list[1].n, 0);
	assert_int_equal(file.list[1].implausible, 1);
	bb_claims_free(&file);
}

/* A device of the list has the ranks of all threads and GPUs of its process; without both numbers,
   or beyond 1023 of one, it has one. */
static void test_ranks_of_json(void **state)
{
	static const struct {
		const char *numbers;
		int64_t each;
	} cases[] = {
		{"\"nthreads\":1,\"ngpus\":3", 3},
		{"\"nthreads\":3,\"ngpus\":1", 3},
		{"\"nthreads\":2,\"ngpus\":3", 6},
		{"\"nthreads\":2,\"ngpus\":0", 1},
		{"\"nthreads\":0,\"ngpus\":3", 1},
		{"\"nthreads\":2", 1},
		{"\"ngpus\":2", 1},
		{"\"nthreads\":1,\"ngpus\":1023", 1023},
		{"\"nthreads\":1,\"ngpus\":1024", 1},
		{"\"nthreads\":1024,\"ngpus\":1", 1},
		/* A number of another type is that number's loss alone. */
		{"\"minimum_bytes\":\"8\",\"nthreads\":2,\"ngpus\":3", 6},
		{"\"nthreads\":\"2\",\"ngpus\":3", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim_file file;
		char text[2048];

		snprintf(text, sizeof(text),
			 "{\"args\":[\"./all_reduce_perf\"],\"config\":{%s,\"devices\":["
			 "{\"rank\":0,\"hostname\":\"a\",\"device\":0,\"device_hex\":\"0x1b\","
			 "\"device_info\":\"X 1\"},{\"rank\":5000,\"hostname\":\"a\",\"device\":1,"
			 "\"device_hex\":\"0x1c\",\"device_info\":\"X 1\"}]}," ROW(
				 HALF("\"time\":99", "0"), "{}") FOOTER("true"),
			 cases[i].numbers);
		read_all(text, 1, &file);
		if (file.list[0].nranks != 5000 + cases[i].each)
			fail_msg("%s: %d", cases[i].numbers, (int)file.list[0].nranks);
		bb_claims_free(&file);
	}
}

static void test_broken_json(void **state)
{
	static const char *const texts[] = {
		"{\"results\":[{\"alg_bw\":1",
		"{\"alg_bw\":1}\n",
		"{\"alg_bw\":1} {",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct bb_claim_file file;
		struct bb_error error = {0};

		assert_int_equal(bb_claims_read("f", texts[i], strlen(texts[i]), &file, &error),
				 BB_EUSAGE);
		assert_int_equal(file.n, 0);
	}
}

/* ---- records of claims ----------------------------------------------------------------------- */

static struct bb_claims claims_of(struct bb_claim *rows, size_t n)
{
	return (struct bb_claims){.collective = "all_reduce",
				  .algorithm = "ring",
				  .type = "half",
				  .host = "h",
				  .backend = "nccl",
				  .nranks = 8,
				  .rounding = 0.0051,
				  .list = rows,
				  .n = n};
}

static void expect_text(const json_t *record, const char *name, const char *text)
{
	const char *const said = bb_record_string(record, name);

	if (!text)
		assert_null(said);
	else if (!said || strcmp(said, text) != 0)
		fail_msg("%s is %s, not %s", name, said ? said : "missing", text);
}

static void test_records_of_claims(void **state)
{
	struct bb_claim rows[3] = {{1024, false, false, 1, 100, 175, 0},
				   {2048, true, false, 2, 200, 350, 0},
				   {4096, true, false, 3, 400, 700, 0}};
	struct bb_claims tables[5];
	const struct bb_claim_file file = {.list = tables, .n = 5};
	struct bb_records records = {.n = 0};
	size_t at = 0;

	tables[0] = claims_of(rows, 3);
	tables[0].wrong = 2; /* of a footer, which does not name them */
	tables[1] = claims_of(rows, 2);
	tables[1].nranks = 0; /* 1.75 is the ratio of 8 */
	tables[1].simulated = true;
	tables[2] = (struct bb_claims){.list = rows, .n = 1, .rounding = 0.0051};
	tables[3] = claims_of(NULL, 0);
	tables[4] = claims_of(rows, 2);
	snprintf(tables[4].collective, sizeof(tables[4].collective), "broadcast");
	tables[4].nranks = 0; /* of any number */
	assert_true(bb_claims_records("log", &file, &records));
	assert_int_equal(records.n, 5 + 8 + 5);
	for (size_t t = 0; t < 5; t++) {
		const struct bb_read_record *r = &records.list[at++];
		char id[16];

		snprintf(id, sizeof(id), "log:%zu", t + 1);
		assert_string_equal(r->kind, "run");
		expect_text(r->json, "run_id", id);
		expect_text(r->json, "program",
			    t == 2   ? NULL
			    : t == 4 ? "broadcast_perf"
				     : "all_reduce_perf");
		expect_text(r->json, "collective",
			    t == 2   ? NULL
			    : t == 4 ? "broadcast"
				     : "all_reduce");
		expect_text(r->json, "host", t == 2 ? NULL : "h");
		expect_text(r->json, "backend", t == 2 ? NULL : "nccl");
		assert_int_equal(bb_record_bool(r->json, "virtual_time"), t == 1);
		for (size_t k = 0; k < tables[t].n; k++) {
			r = &records.list[at++];
			assert_string_equal(r->kind, "result");
			assert_ptr_equal(r->run, records.list[at - 2 - k].json);
			expect_text(r->json, "algorithm_asked", t == 2 ? "library" : "ring");
			expect_text(r->json, "dtype", t == 2 ? NULL : "half");
			assert_int_equal(bb_record_int(r->json, "nranks"),
					 t == 2 || t == 4 ? BB_NO_NUMBER : 8);
			assert_int_equal(bb_record_int(r->json, "wrong"),
					 t == 0 && k < 2 ? 1 : BB_NO_NUMBER);
			assert_int_equal(bb_record_int(r->json, "size_bytes"), rows[k].size_bytes);
			assert_int_equal(bb_record_bool(r->json, "in_place"), rows[k].in_place);
			assert_float_equal(bb_record_number(r->json, "time_us"), rows[k].time_us,
					   1e-12);
			assert_float_equal(bb_record_number(r->json, "algbw_GBps"),
					   rows[k].algbw_GBps, 1e-12);
			assert_float_equal(bb_record_number(r->json, "busbw_GBps"),
					   rows[k].busbw_GBps, 1e-12);
		}
		r = &records.list[at++];
		assert_string_equal(r->kind, "end");
		expect_text(r->json, "verdict", t == 0 ? "wrong data" : "read from a log");
		assert_int_equal(bb_record_int(r->json, "exit_status"), t == 0 ? BB_EDATA : BB_OK);
		assert_int_equal(bb_record_int(r->json, "results"), tables[t].n);
		assert_int_equal(bb_record_int(r->json, "wrong"), t == 0 ? 2 : 0);
	}
	bb_records_free(&records);
	/* Rows that are wrong themselves. */
	rows[1].wrong = true;
	tables[0].wrong = 1;
	assert_true(bb_claims_records("log", &(struct bb_claim_file){.list = tables, .n = 1},
				      &records));
	for (size_t k = 0; k < 3; k++)
		assert_int_equal(bb_record_int(records.list[1 + k].json, "wrong"),
				 k == 1 ? 1 : BB_NO_NUMBER);
	bb_records_free(&records);
}

/* What nccl-tests does unless it is asked for something else. */
static void test_operands(void **state)
{
	static const struct {
		const char *type, *op;
		enum bb_dtype dtype;
		enum bb_op reduction;
	} cases[] = {{"half", "max", BB_HALF, BB_MAX},
		     {"", "", BB_FLOAT, BB_SUM},
		     {"words", "none", BB_FLOAT, BB_SUM},
		     {"double", "avg", BB_DOUBLE, BB_AVG}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claims claims = {.n = 0};
		enum bb_dtype dtype;
		enum bb_op op;

		snprintf(claims.type, sizeof(claims.type), "%s", cases[i].type);
		snprintf(claims.op, sizeof(claims.op), "%s", cases[i].op);
		bb_claims_operand(&claims, &dtype, &op);
		assert_int_equal(dtype, cases[i].dtype);
		assert_int_equal(op, cases[i].reduction);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),           cmocka_unit_test(test_json),
		cmocka_unit_test(test_ranks_of_json),     cmocka_unit_test(test_broken_json),
		cmocka_unit_test(test_records_of_claims), cmocka_unit_test(test_operands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "collectives/result.h"
#include "harness/results/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* Number of columns of one CSV row, quotes understood; every row must have as many. */
static int columns(const char *row)
{
	int n = 1;
	bool quoted = false;

	for (; *row; row++) {
		if (*row == '"')
			quoted = !quoted;
		n += !quoted && *row == ',';
	}
	assert_false(quoted);
	return n;
}

static void test_init(void **state)
{
	struct bb_run_record run;
	struct bb_result_record result;
	struct bb_skip_record skip;
	struct bb_end_record end;

	memset(&result, 0x55, sizeof(result));
	bb_record_init(&bb_record_run, &run);
	bb_record_init(&bb_record_result, &result);
	bb_record_init(&bb_record_skip, &skip);
	bb_record_init(&bb_record_end, &end);
	assert_true(isnan(result.time_us) && isnan(result.percent_of_bound));
	assert_true(result.wrong == BB_ABSENT && result.last_rank == BB_ABSENT);
	assert_null(result.algorithm);
	assert_int_equal(result.samples_us.n, 0);
	assert_true(isnan(run.precision) && run.nranks == BB_ABSENT);
	assert_true(skip.size_bytes == BB_ABSENT);
	assert_true(isnan(end.avg_busbw_GBps) && end.memory_init_bytes == BB_ABSENT);
}

static void test_absent_json(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_skip_record skip;

	bb_record_init(&bb_record_skip, &skip);
	skip.algorithm = "ring";
	skip.reason = "a \"reason\"\n";
	bb_record_json(&out, &bb_record_skip, "id", &skip);
	assert_string_equal(bb_strbuf_text(&out),
			    "{\"schema\":3,\"kind\":\"skip\",\"run_id\":\"id\",\"collective\":null,"
			    "\"algorithm\":\"ring\",\"dtype\":null,\"op\":null,\"root\":null,"
			    "\"size_bytes\":null,\"placement\":null,"
			    "\"reason\":\"a \\\"reason\\\"\\n\",\"matrix\":null}");
	bb_strbuf_free(&out);
}

static void test_values_json(void **state)
{
	static char word[] = "-b";
	static char *const words[] = {word, word};
	static const double samples[] = {1.5, NAN, 2};
	struct bb_rank_info info = {.location = {.pid = 7, .device = 3, .numa = -1}, .group = 1};
	struct bb_strbuf out = {0};
	struct bb_run_record run;
	struct bb_result_record r;
	const char *text;

	bb_record_init(&bb_record_run, &run);
	run.args = (struct bb_words){words, 2};
	run.ranks = (struct bb_rank_infos){&info, 1};
	run.per_iter_timing = true;
	bb_record_json(&out, &bb_record_run, "id", &run);
	text = bb_strbuf_text(&out);
	assert_non_null(strstr(text, "\"args\":[\"-b\",\"-b\"]"));
	assert_non_null(strstr(text, "\"ranks\":[{\"rank\":0,\"group\":1,\"pid\":7,\"host\":\"\","
				     "\"device\":3,\"numa\":null,"));
	assert_non_null(strstr(text, "\"per_iter_timing\":true,"));
	assert_non_null(strstr(text, "\"parallel_init\":false,"));

	bb_strbuf_clear(&out);
	bb_record_init(&bb_record_result, &r);
	r.samples_us = (struct bb_numbers){samples, 3};
	r.wrong = 0;
	r.time_us = 0.1;
	bb_record_json(&out, &bb_record_result, "id", &r);
	text = bb_strbuf_text(&out);
	assert_non_null(strstr(text, "\"samples_us\":[1.5,null,2],\"rank_mean_us\":[],"));
	assert_non_null(strstr(text, "\"time_us\":0.1,\"algbw_GBps\":null,"));
	assert_non_null(strstr(text, "\"wrong\":0,"));
	bb_strbuf_free(&out);
}

static void test_csv(void **state)
{
	static const double samples[] = {1.5, 2.25};
	struct bb_strbuf head = {0}, row = {0};
	struct bb_result_record r;

	bb_record_init(&bb_record_result, &r);
	r.collective = "all_reduce";
	r.algorithm = "says \"x, y\"";
	r.samples_us = (struct bb_numbers){samples, 2};
	r.root = -1;
	r.in_place = true;
	bb_record_csv_header(&head, &bb_record_result);
	bb_record_csv_row(&row, &bb_record_result, "id", &r);
	assert_int_equal(columns(bb_strbuf_text(&head)), columns(bb_strbuf_text(&row)));
	assert_int_equal(strncmp(bb_strbuf_text(&head), "schema,run_id,collective,", 25), 0);
	assert_int_equal(strncmp(bb_strbuf_text(&row),
				 "3,id,all_reduce,,\"says \"\"x, y\"\"\",,,,-1,,,,true,,,,,,,", 53),
			 0);
	assert_non_null(strstr(bb_strbuf_text(&row), ",1.5;2.25,"));
	assert_int_equal(row.text[row.length - 1], '\n');
	bb_strbuf_free(&head);
	bb_strbuf_free(&row);
}

static const struct bb_record_kind *const kinds[] = {&bb_record_run, &bb_record_result,
						     &bb_record_skip, &bb_record_end, NULL};

/* Names are unique in a record, units agree with names, everything is explained. */
static void test_fields(void **state)
{
	static const struct {
		const char *suffix, *unit;
	} suffixes[] = {{"_us", "us"}, {"_GBps", "GB/s"}, {"_bytes", "bytes"},
			{"_ms", "ms"}, {"_percent", "%"}, {"_s", "s"}};
	const struct bb_field *f, *g;

	for (int kind = 0; kinds[kind]; kind++) {
		for (f = kinds[kind]->fields; f->name; f++) {
			assert_true(f->offset < kinds[kind]->size);
			assert_true(f->help && *f->help && f->unit);
			for (g = f + 1; g->name; g++) {
				assert_string_not_equal(f->name, g->name);
				assert_true(f->offset != g->offset);
			}
			for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
				size_t n = strlen(f->name), m = strlen(suffixes[i].suffix);

				if (n > m && strcmp(f->name + n - m, suffixes[i].suffix) == 0)
					assert_string_equal(f->unit, suffixes[i].unit);
			}
		}
	}
}

static void test_identity(void **state)
{
	char a[BB_RUN_ID_TEXT], b[BB_RUN_ID_TEXT], now[BB_TIME_TEXT];

	bb_run_id(a);
	bb_run_id(b);
	assert_int_equal(strlen(a), BB_RUN_ID_TEXT - 1);
	assert_int_equal(strspn(a, "0123456789abcdef"), BB_RUN_ID_TEXT - 1);
	assert_string_not_equal(a, b);
	bb_time_text(now);
	assert_int_equal(strlen(now), strlen("2026-01-31T12:00:00.000Z"));
	assert_int_equal(now[10], 'T');
	assert_int_equal(now[strlen(now) - 1], 'Z');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init),        cmocka_unit_test(test_absent_json),
		cmocka_unit_test(test_values_json), cmocka_unit_test(test_csv),
		cmocka_unit_test(test_fields),      cmocka_unit_test(test_identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

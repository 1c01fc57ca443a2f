#include "collectives/result.h"
#include "harness/results/sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- numbers ----------------------------------------------------------------------- */

static void test_format_fit(void **state)
{
	static const struct {
		double value;
		int width;
		const char *text;
	} rows[] = {
		{0, 7, "   0.00"},        {1.005, 7, "   1.00"},     {9999.99, 7, "9999.99"},
		{9999.996, 7, "10000.0"}, {99999.94, 7, "99999.9"},  {99999.96, 7, " 100000"},
		{9999999, 7, "9999999"},  {9999999.6, 7, "1.0e+07"}, {12345678, 7, "1.2e+07"},
		{1e100, 7, "1.0e+100"},   {999.99, 6, "999.99"},     {999.996, 6, "1000.0"},
		{99999.6, 6, "100000"},   {999999.6, 6, " 1e+06"},   {1234567, 6, " 1e+06"},
		{NAN, 6, "   N/A"},       {0.004, 6, "  0.00"},
	};
	char text[BB_NUMBER_TEXT];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(bb_format_fit(text, rows[i].value, rows[i].width),
				    rows[i].text);
}

/* ---- records to write -------------------------------------------------------------- */

static struct bb_rank_info ranks[2] = {
	{.location = {.pid = 41, .device = 0, .host = "box", .bus = "0000:00:00", .name = "CPU X"}},
	{.location = {.pid = 41, .device = 12, .host = "box", .bus = "0000:01:0c", .name = "CPU X"},
	 .group = 1},
};

static struct bb_run_record run_record(void)
{
	struct bb_run_record run;

	bb_record_init(&bb_record_run, &run);
	snprintf(run.run_id, sizeof(run.run_id), "id");
	run.program = "all_reduce_perf";
	run.version = "1.2.3";
	run.backend = "host";
	run.cache = "rotate";
	run.nranks = 2;
	run.threads = 1;
	run.gpus = 2;
	run.ranks = (struct bb_rank_infos){ranks, 2};
	run.min_bytes = 1024;
	run.max_bytes = 2048;
	run.step_factor = 2;
	run.step_bytes = 0;
	run.warmup_iters = 1;
	run.iters = 20;
	run.agg_iters = 1;
	run.check = 1;
	run.blocking = run.graph = run.unalign = run.per_iter_skip = 0;
	run.seed = 1;
	return run;
}

static struct bb_result_record result_record(int64_t size, bool in_place, double time_us)
{
	struct bb_result_record r;

	bb_record_init(&bb_record_result, &r);
	r.collective = "all_reduce";
	r.algorithm_asked = r.algorithm = "ring";
	r.dtype = "float";
	r.op = "sum";
	r.root = -1;
	r.nranks = 2;
	r.size_bytes = size;
	r.count = size / 4;
	r.in_place = in_place;
	r.time_us = time_us;
	r.algbw_GBps = r.busbw_GBps = (double)size / time_us / 1000;
	r.wrong = 0;
	r.iterations = 20;
	r.cycle = 1;
	return r;
}

static struct bb_end_record end_record(void)
{
	struct bb_end_record end;

	bb_record_init(&bb_record_end, &end);
	end.verdict = "passed";
	end.wrong = 0;
	end.avg_busbw_GBps = 1.5;
	return end;
}

struct writing {
	FILE *file;
	struct bb_sink *sink;
	struct bb_run_record run;
	char text[16384];
};

static void begin(struct writing *w, const struct bb_sink_ops *ops, struct bb_run_record run)
{
	w->run = run;
	w->file = tmpfile();
	assert_non_null(w->file);
	w->sink = bb_sink_open(ops, w->file, "a file");
	assert_non_null(w->sink);
	w->sink->run = &w->run;
	w->sink->rows = &bb_record_result;
	if (w->sink->ops->begin)
		assert_int_equal(w->sink->ops->begin(w->sink, &w->run), BB_OK);
	else
		assert_int_equal(w->sink->ops->record(w->sink, &bb_record_run, &w->run), BB_OK);
}

static void put(struct writing *w, struct bb_result_record r)
{
	assert_int_equal(w->sink->ops->record(w->sink, &bb_record_result, &r), BB_OK);
}

/* What is in the file at this moment. */
static const char *now(struct writing *w)
{
	ssize_t n = pread(fileno(w->file), w->text, sizeof(w->text) - 1, 0);

	assert_true(n >= 0 && n < (ssize_t)sizeof(w->text) - 1);
	w->text[n] = '\0';
	return w->text;
}

static const char *finish(struct writing *w, struct bb_end_record end)
{
	if (w->sink->ops->end)
		assert_int_equal(w->sink->ops->end(w->sink, &end), BB_OK);
	else
		assert_int_equal(w->sink->ops->record(w->sink, &bb_record_end, &end), BB_OK);
	return now(w);
}

static void done(struct writing *w)
{
	bb_sink_close(w->sink);
	fclose(w->file);
}

/* ---- text -------------------------------------------------------------------------- */

#define HEAD                                                                                       \
	"# busbench version 1.2.3 backend=host\n"                                                  \
	"# Collective test starting: all_reduce_perf\n"                                            \
	"# nThread 1 nGpus 2 minBytes 1024 maxBytes 2048 step: 2(factor) warmup iters: 1 iters: "  \
	"20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n"                                      \
	"#\n"                                                                                      \
	"# Using devices\n"                                                                        \
	"#  Rank  0 Group  0 Pid     41 on        box device  0 [0000:00:00] CPU X\n"              \
	"#  Rank  1 Group  1 Pid     41 on        box device 12 [0000:01:0c] CPU X\n"              \
	"# Backend: host  ranks: 2  cache: rotate  seed: 1\n"

#define TABLE(algorithm)                                                                           \
	"#\n# Algorithm: " algorithm "\n#\n"                                                       \
	"#                                                              out-of-place             " \
	" "                                                                                        \
	"         in-place          \n"                                                            \
	"#       size         count      type   redop    root     time   algbw   busbw  #wrong   " \
	"  time   algbw   busbw  #wrong \n"                                                        \
	"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)           " \
	"  (us)  (GB/s)  (GB/s)         \n"

#define TAIL                                                                                       \
	"# Out of bounds values : 0 OK\n"                                                          \
	"# Avg bus bandwidth    : 1.5 \n"                                                          \
	"#\n"                                                                                      \
	"# Collective test concluded: all_reduce_perf\n"                                           \
	"#\n\n"

static void test_text(void **state)
{
	struct writing w;

	begin(&w, &bb_sink_text, run_record());
	put(&w, result_record(1024, false, 2));
	assert_string_equal(now(&w), HEAD); /* a row is written whole */
	put(&w, result_record(1024, true, 4));
	assert_string_equal(now(&w),
			    HEAD TABLE("ring") "        1024           256     float     sum      "
					       "-1     2.00    0.51    0.51       0"
					       "     4.00    0.26    0.26       0\n");
	finish(&w, end_record());
	assert_string_equal(w.text,
			    HEAD TABLE("ring") "        1024           256     float     sum      "
					       "-1     2.00    0.51    0.51       0"
					       "     4.00    0.26    0.26       0\n" TAIL);
	done(&w);
}

static int count(const char *text, const char *part)
{
	int n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

/* Every row of the text, whatever happened, has 13 columns; programs count on it. */
static void expect_columns(const char *text, int columns)
{
	char copy[16384], *line, *lines = NULL;

	assert_true(strlen(text) < sizeof(copy));
	memcpy(copy, text, strlen(text) + 1);
	for (line = strtok_r(copy, "\n", &lines); line; line = strtok_r(NULL, "\n", &lines)) {
		char *word, *words = NULL;
		int n = 0;

		if (line[0] == '#')
			continue;
		for (word = strtok_r(line, " ", &words); word; word = strtok_r(NULL, " ", &words))
			n++;
		assert_int_equal(n, columns);
	}
}

static void test_text_halves(void **state)
{
	struct bb_result_record r;
	struct bb_skip_record skip_record;
	struct writing w;

	begin(&w, &bb_sink_text, run_record());
	put(&w, result_record(1024, true, 2)); /* only in place */
	put(&w, result_record(2048, false, 2));
	put(&w, result_record(4096, false, 2)); /* the half before is left alone */
	bb_record_init(&bb_record_skip, &skip_record);
	skip_record.algorithm = "ring";
	skip_record.size_bytes = 4096;
	skip_record.dtype = "float";
	skip_record.op = "sum";
	skip_record.placement = "in-place";
	skip_record.reason = "because";
	assert_int_equal((w.sink->ops->record)(w.sink, &bb_record_skip, &skip_record), BB_OK);
	r = result_record(8192, false, 2);
	r.wrong = BB_ABSENT;
	put(&w, r);
	r.in_place = true;
	r.wrong = 1234567;
	put(&w, r);
	r = result_record(1024, false, 2);
	r.algorithm_asked = "tree";
	put(&w, r);
	assert_int_equal(w.sink->ops->comment(w.sink, "# a comment\n"), BB_OK);
	finish(&w, end_record());
	expect_columns(w.text, 13);
	assert_int_equal(count(w.text, "# Algorithm: "), 2);
	assert_int_equal(count(w.text, "\n        "), 5);
	assert_non_null(
		strstr(w.text, "      -1      N/A     N/A     N/A     N/A     2.00    0.51"));
	assert_non_null(strstr(w.text, "\n# skipped: ring 4096 B float sum in-place: because\n"));
	assert_non_null(
		strstr(w.text, "    4.10    4.10     N/A     2.00    4.10    4.10  1.23457e+06\n"));
	assert_non_null(strstr(w.text, "\n# a comment\n# Out of bounds"));
	done(&w);
}

static void test_text_extras(void **state)
{
	struct bb_run_record run = run_record();
	struct bb_result_record r = result_record(1024, false, 2);
	struct bb_end_record end = end_record();
	struct writing w;
	const char *text;

	run.per_iter_timing = run.report_timestamps = run.report_cputime = run.parallel_init = true;
	run.blocking = 3;
	run.per_iter_skip = 2;
	run.step_factor = 1;
	run.step_bytes = 512;
	run.precision = 0.01;
	run.link = "10G";
	run.copy_GBps = 12.34;
	begin(&w, &bb_sink_text, run);
	r.cpu_time_us = 1;
	r.min_us = 1.5;
	r.max_us = 30000;
	r.p99_us = 250.25;
	r.cv_percent = 12;
	put(&w, r);
	r.in_place = true;
	r.end_unix_s = 86400 * 365;
	put(&w, r);
	end.wrong = 3;
	end.min_busbw_GBps = 2;
	end.verdict = "wrong data";
	end.error = "it is wrong";
	end.memory_init_bytes = 512;
	end.memory_user_bytes = 20 << 20;
	text = finish(&w, end);
	assert_non_null(strstr(text, "step: 512(bytes)"));
	assert_non_null(strstr(text, "\n# Blocking Enabled: wait and barrier after each outer"));
	assert_non_null(strstr(text, "; summary skips first 2 iterations \n"));
	assert_non_null(strstr(text, "\n# Parallel Init Enabled"));
	assert_non_null(strstr(text, "  precision: 1%  link: 10G\n"));
	assert_non_null(strstr(text, "in this run: 12.3 GB/s\n"));
	assert_non_null(strstr(text, "  cputime   algbw   busbw  #wrong    i_min    i_max    i_p99"
				     "    i_cv%  cputime"));
	assert_non_null(strstr(text, "           timestamp\n"));
	assert_non_null(strstr(text, " %Y-%m-%d %H:%M:%S\n"));
	assert_non_null(strstr(text, "     1.00    0.51    0.51       0     1.50  30000.0   250.25"
				     "    12.00     1.00    0.51    0.51       0     1.50  30000.0"
				     "   250.25    12.00  197")); /* 1970 or 1971 */
	assert_non_null(strstr(text, "# Out of bounds values : 3 FAILED\n"
				     "# Avg bus bandwidth    : 1.5 FAILED\n#\n"
				     "# Verdict: wrong data\n"));
	assert_non_null(strstr(text,
			       "# Memory usage         : Initialization 512 B | User-Allocated "
			       "20.0 MB | Collective 0.00 B | Total  20.0 MB\n"
			       "#\n# error: it is wrong\n"));
	done(&w);
	end.min_busbw_GBps = 1.6; /* 0.9 of it is enough */
	begin(&w, &bb_sink_text, run_record());
	assert_non_null(strstr(finish(&w, end), "# Avg bus bandwidth    : 1.5 OK\n"));
	done(&w);
	/* Without any result there is nothing to sum up. */
	end.results = 0;
	begin(&w, &bb_sink_text, run_record());
	assert_null(strstr(finish(&w, end), "Avg bus bandwidth"));
	assert_null(strstr(w.text, "Out of bounds"));
	assert_non_null(strstr(w.text, "# Collective test concluded"));
	done(&w);
}

/* ---- the others -------------------------------------------------------------------- */

static void test_csv(void **state)
{
	struct writing w;

	begin(&w, &bb_sink_csv, run_record());
	assert_int_equal(count(now(&w), "\n"), 1);
	put(&w, result_record(1024, false, 2));
	assert_int_equal(count(now(&w), "\n"), 2);
	put(&w, result_record(1024, true, 2));
	finish(&w, end_record());
	assert_int_equal(count(w.text, "\n3,id,all_reduce,ring,ring,,float,sum,-1,2,1024,256,"), 2);
	done(&w);
}

static void test_jsonl(void **state)
{
	struct bb_skip_record skip_record;
	struct writing w;

	begin(&w, &bb_sink_jsonl, run_record());
	put(&w, result_record(1024, false, 2));
	bb_record_init(&bb_record_skip, &skip_record);
	assert_int_equal((w.sink->ops->record)(w.sink, &bb_record_skip, &skip_record), BB_OK);
	finish(&w, end_record());
	assert_int_equal(count(w.text, "\n"), 4);
	assert_int_equal(count(w.text, "{\"schema\":3,\"kind\":\"run\",\"run_id\":\"id\","), 1);
	assert_int_equal(count(w.text, "\n{\"schema\":3,\"kind\":\"result\",\"run_id\":\"id\","),
			 1);
	assert_int_equal(count(w.text, "\n{\"schema\":3,\"kind\":\"skip\",\"run_id\":\"id\","), 1);
	assert_int_equal(count(w.text, "\n{\"schema\":3,\"kind\":\"end\",\"run_id\":\"id\","), 1);
	done(&w);
}

/* Braces and brackets close in order, and nothing follows: enough to catch a torn document. */
static void expect_whole(const char *text)
{
	char open[64];
	int depth = 0;
	bool quoted = false;

	assert_int_equal(text[0], '{');
	for (; *text && *text != '\n'; text++) {
		if (quoted && *text == '\\')
			text++;
		else if (*text == '"')
			quoted = !quoted;
		else if (!quoted && (*text == '{' || *text == '['))
			open[depth++] = *text;
		else if (!quoted && (*text == '}' || *text == ']'))
			assert_int_equal(open[--depth], *text == '}' ? '{' : '[');
	}
	assert_int_equal(depth, 0);
	assert_string_equal(text, "\n");
}

static void test_nccl_json(void **state)
{
	struct bb_run_record run = run_record();
	struct bb_end_record end = end_record();
	struct bb_result_record r;
	struct writing w;

	run.step_factor = 1;
	begin(&w, &bb_sink_nccl_json, run);
	expect_whole(now(&w)); /* whatever happens next, the file can be read */
	put(&w, result_record(1024, false, 2));
	expect_whole(now(&w));
	put(&w, result_record(1024, true, 4));
	expect_whole(now(&w));
	assert_non_null(strstr(w.text,
			       "\"results\":[{\"size\":1024,\"count\":256,\"type\":\"float\","
			       "\"redop\":\"sum\",\"root\":\"    -1\",\"out_of_place\":{"
			       "\"time\":2,\"alg_bw\":0.512,\"bus_bw\":0.512,\"nwrong\":0},"
			       "\"in_place\":{\"time\":4,\"alg_bw\":0.256,\"bus_bw\":0.256,"
			       "\"nwrong\":0},\"actual_iterations\":20,"
			       "\"experiment_name\":\"ring\"}],"));
	r = result_record(2048, true, 4);
	r.wrong = BB_ABSENT;
	put(&w, r);
	assert_non_null(strstr(now(&w), ",{\"size\":2048,"));
	assert_non_null(strstr(w.text, "\"out_of_place\":null,\"in_place\":{"));
	assert_non_null(strstr(w.text, "\"nwrong\":null}"));
	put(&w, result_record(4096, false, 4));
	end.error = "an error";
	end.wrong = 1;
	end.avg_busbw_GBps = 1; /* shorter than what stood there */
	expect_whole(finish(&w, end));
	assert_int_equal(count(w.text, "{\"size\":"), 3);
	assert_non_null(strstr(w.text, "\"in_place\":null,\"actual_iterations\""));
	assert_non_null(strstr(w.text, "\"version\":3,\"start_time\":\""));
	assert_non_null(strstr(w.text, "\"env\":[],"));
	assert_non_null(strstr(w.text, "\"step_bytes\":0,"));
	assert_non_null(strstr(w.text,
			       "\"parallel_init\":\"false\",\"devices\":[{\"rank\":0,"
			       "\"group\":0,\"pid\":41,\"hostname\":\"box\",\"device\":0,"
			       "\"device_hex\":\"0000:00:00\",\"device_info\":\"CPU X\"},"));
	assert_non_null(strstr(w.text, "\"out_of_bounds\":{\"count\":1,\"okay\":\"false\"},"
				       "\"average_bus_bandwidth\":{\"bandwidth\":1,"
				       "\"okay\":\"unchecked\"},\"errors\":[\"an error\"],"
				       "\"end_time\":\""));
	done(&w);
}

static void test_nccl_json_per_iter(void **state)
{
	static const double samples[] = {1, 2.5};
	struct bb_run_record run = run_record();
	struct bb_result_record r = result_record(1024, false, 2);
	struct writing w;

	run.per_iter_timing = run.report_cputime = true;
	run.nprocs = 1;
	begin(&w, &bb_sink_nccl_json, run);
	r.samples_us = (struct bb_numbers){samples, 2};
	r.min_us = 1;
	r.cpu_time_us = 0.5;
	put(&w, r);
	expect_whole(finish(&w, end_record()));
	assert_non_null(strstr(w.text, "\"out_of_place\":{\"cpu_time\":0.5,"));
	assert_non_null(strstr(w.text, "\"out_of_place_per_iter\":{\"skipped_iterations\":0,"
				       "\"min_us\":1,"));
	assert_non_null(strstr(w.text, "\"times_us\":[1,2.5],"
				       "\"per_process_max_times_us\":[[1,2.5]]}"));
	done(&w);
}

/* ---- all together ------------------------------------------------------------------ */

struct set {
	char dir[32], csv[64], json[64], nccl[64];
	struct bb_options options;
	const char *output_file;
	struct bb_sinks sinks;
	struct bb_error error;
	struct bb_run_record run;
	FILE *text;
};

static void set_up(struct set *s)
{
	memset(s, 0, sizeof(*s));
	snprintf(s->dir, sizeof(s->dir), "/tmp/bb-sink-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->csv, sizeof(s->csv), "%s/a.csv", s->dir);
	snprintf(s->json, sizeof(s->json), "%s/a.jsonl", s->dir);
	snprintf(s->nccl, sizeof(s->nccl), "%s/a.json", s->dir);
	s->run = run_record();
	s->text = tmpfile();
	assert_non_null(s->text);
}

static bb_status open_all(struct set *s)
{
	bb_status st = bb_sinks_open(&s->sinks, &s->options, &bb_sink_text, &bb_record_result,
				     s->text, &s->error);

	return st == BB_OK ? bb_sinks_add_new(&s->sinks, &bb_sink_nccl_json, s->output_file) : st;
}

static void tear_down(struct set *s)
{
	char path[64];

	bb_sinks_close(&s->sinks);
	fclose(s->text);
	unlink(s->csv);
	unlink(s->json);
	unlink(s->nccl);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/a.json.%d", s->dir, i);
		unlink(path);
	}
	assert_int_equal(rmdir(s->dir), 0);
}

static void test_all(void **state)
{
	struct bb_result_record r = result_record(1024, false, 2);
	struct bb_end_record end = end_record();
	struct set s;

	set_up(&s);
	s.options.csv_file = s.csv;
	s.options.json_file = s.json;
	s.output_file = s.nccl;
	for (int i = 0; i < 3; i++) { /* an existing file is kept */
		assert_int_equal(open_all(&s), BB_OK);
		assert_int_equal(s.sinks.n, 4);
		if (i == 2)
			assert_string_equal(s.sinks.new_path + strlen(s.nccl), ".1");
		assert_int_equal(bb_sinks_begin(&s.sinks, &s.run), BB_OK);
		assert_int_equal(bb_sinks_record(&s.sinks, &bb_record_result, &r), BB_OK);
		assert_int_equal(bb_sinks_comment(&s.sinks, "# c\n"), BB_OK);
		assert_int_equal(bb_sinks_end_data(&s.sinks, &end), BB_OK);
		assert_int_equal(bb_sinks_end_text(&s.sinks, &end), BB_OK);
		assert_int_equal(access(s.sinks.new_path, R_OK), 0);
		bb_sinks_close(&s.sinks);
	}
	s.output_file = NULL;
	s.options.csv_file = "-"; /* CSV instead of the text */
	assert_int_equal(open_all(&s), BB_OK);
	assert_int_equal(s.sinks.n, 2);
	tear_down(&s);
}

static void test_full_disk(void **state)
{
	struct bb_result_record r = result_record(1024, true, 2);
	struct bb_end_record end = end_record();
	char text[8192];
	struct set s;
	size_t n;

	if (access("/dev/full", W_OK) != 0)
		skip();
	set_up(&s);
	s.options.csv_file = "/dev/full";
	s.options.json_file = s.json;
	assert_int_equal(open_all(&s), BB_OK);
	assert_int_equal(bb_sinks_begin(&s.sinks, &s.run), BB_EINTERNAL);
	assert_int_equal(bb_error_status(&s.error), BB_EINTERNAL);
	assert_string_equal(s.error.text, "/dev/full cannot be written: No space left on device");
	/* It stays so, and the others go on. */
	assert_int_equal(bb_sinks_record(&s.sinks, &bb_record_result, &r), BB_EINTERNAL);
	assert_int_equal(bb_sinks_end_data(&s.sinks, &end), BB_EINTERNAL);
	assert_int_equal(bb_sinks_end_text(&s.sinks, &end), BB_EINTERNAL);
	rewind(s.text);
	n = fread(text, 1, sizeof(text) - 1, s.text);
	text[n] = '\0';
	assert_non_null(strstr(text, "        1024           256"));
	assert_non_null(strstr(text, "# Collective test concluded"));
	tear_down(&s);
}

static void test_unwritable(void **state)
{
	struct set s;

	set_up(&s);
	s.options.json_file = s.dir;
	assert_int_equal(open_all(&s), BB_EUSAGE);
	assert_non_null(strstr(s.error.text, "--json"));
	bb_sinks_close(&s.sinks);
	s.options.json_file = NULL;
	s.output_file = "/nonexistent/x.json";
	s.error = (struct bb_error){0};
	assert_int_equal(open_all(&s), BB_EUSAGE);
	assert_non_null(strstr(s.error.text, "/nonexistent/x.json"));
	tear_down(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format_fit),  cmocka_unit_test(test_text),
		cmocka_unit_test(test_text_halves), cmocka_unit_test(test_text_extras),
		cmocka_unit_test(test_csv),         cmocka_unit_test(test_jsonl),
		cmocka_unit_test(test_nccl_json),   cmocka_unit_test(test_nccl_json_per_iter),
		cmocka_unit_test(test_all),         cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_unwritable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

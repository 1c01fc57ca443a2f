/*
 * Every caller in the table below runs once for each allocation that it makes, with just that one
 * failing, and once more with that one and all after it failing. It has to come back with an
 * orderly failure, and nothing that it allocated may be left.
 *
 * The allocator is replaced by the linker (--wrap, see the Makefile), so that this sees busbench's
 * own calls alone. To test one more caller, add a function to the table.
 */
#include "core/json.h"
#include "core/option.h"
#include "core/strbuf.h"
#include "collectives/result.h"
#include "collectives/summary.h"
#include "harness/run/pattern.h"
#include "collectives/plan.h"
#include "harness/results/sink.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MAX_LIVE 65536
#define NEVER SIZE_MAX

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *p);

/* The replaced functions have no argument to carry their state in. */
static struct {
	pthread_mutex_t lock;
	bool armed, stay;   /* counting; all calls after the failing one fail too */
	size_t calls, fail; /* calls so far, the one that fails */
	size_t live;
	void *blocks[MAX_LIVE];
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether this call may succeed. */
static bool allowed(void)
{
	bool ok = true;

	pthread_mutex_lock(&heap.lock);
	if (heap.armed) {
		size_t call = heap.calls++;

		ok = heap.stay ? call < heap.fail : call != heap.fail;
	}
	pthread_mutex_unlock(&heap.lock);
	return ok;
}

static void *born(void *block)
{
	pthread_mutex_lock(&heap.lock);
	if (heap.armed && block && heap.live < MAX_LIVE)
		heap.blocks[heap.live++] = block;
	pthread_mutex_unlock(&heap.lock);
	return block;
}

static void died(const void *block)
{
	pthread_mutex_lock(&heap.lock);
	for (size_t i = 0; block && i < heap.live; i++) {
		if (heap.blocks[i] == block) {
			heap.blocks[i] = heap.blocks[--heap.live];
			break;
		}
	}
	pthread_mutex_unlock(&heap.lock);
}

void *__wrap_malloc(size_t size)
{
	return allowed() ? born(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return allowed() ? born(__real_calloc(n, size)) : NULL;
}

void *__wrap_realloc(void *old, size_t size)
{
	void *block;

	if (!allowed())
		return NULL;
	died(old); /* before another thread can be given the same address */
	block = __real_realloc(old, size);
	return born(block ? block : old);
}

void __wrap_free(void *p)
{
	died(p);
	__real_free(p);
}

/* The callers. Each returns whether all went well, and is asked with *ORDERLY preset to true. */

static bool call_strbuf(bool *orderly)
{
	struct bb_strbuf s = {0};
	bool ok;

	for (int i = 0; i < 100; i++) {
		bb_strbuf_add(&s, "text ");
		bb_strbuf_addf(&s, "%d ", i);
		bb_strbuf_add_bytes(&s, "bytes", 5);
	}
	ok = !bb_strbuf_failed(&s);
	*orderly = strlen(bb_strbuf_text(&s)) == s.length;
	bb_strbuf_free(&s);
	return ok;
}

static bool call_json(bool *orderly)
{
	struct bb_strbuf s = {0};
	struct bb_json j;
	bool ok;

	bb_json_init(&j, &s, true);
	bb_json_add_object(&j, NULL);
	for (int i = 0; i < 20; i++) {
		bb_json_add_array(&j, "key");
		bb_json_add_string(&j, NULL, "a\nb\xff");
		bb_json_add_double(&j, NULL, i / 3.0);
		bb_json_end(&j);
	}
	bb_json_end(&j);
	ok = !bb_strbuf_failed(&s);
	*orderly = j.depth == 0;
	bb_strbuf_free(&s);
	return ok;
}

struct request {
	int64_t iters;
	int type;
};

static const char *const types[] = {"float", "half", NULL};

static const struct bb_option rows[] = {
	{"iters", 'n', BB_OPT_INT, offsetof(struct request, iters), .initial = "20",
	 .help = "iterations", .min = 1, .max = 1000, .section = "Repetition"},
	{"type", 'd', BB_OPT_CHOICE, offsetof(struct request, type), .initial = "half",
	 .choices = types, .help = "datatype"},
	{.name = NULL},
};

static bb_status parse(const char *word, struct bb_error *error)
{
	char *argv[] = {(char *)"program", (char *)"-n", (char *)"3", (char *)word, NULL};
	struct request r;
	const struct bb_option_table tables[] = {{rows, &r, NULL}, {NULL, NULL, NULL}};

	return bb_options_parse(tables, 4, argv, error);
}

static bool call_options(bool *orderly)
{
	struct bb_error error = {0};
	bb_status st = parse("-dhalf", &error);

	*orderly = st == BB_OK || (st == BB_EINTERNAL && error.text[0]);
	return st == BB_OK;
}

/* A refusal may say less without memory, but has to name the word. */
static bool call_options_refused(bool *orderly)
{
	static const char *const wrong[] = {"-dhafl", "--itres"};
	bool ok = true;

	for (size_t i = 0; i < 2; i++) {
		struct bb_error error = {0};
		bb_status st = parse(wrong[i], &error);

		*orderly = *orderly && ((st == BB_EUSAGE && strstr(error.text, wrong[i])) ||
					(st == BB_EINTERNAL && error.text[0]));
		ok = ok && st == BB_EUSAGE;
	}
	return ok;
}

static bool call_help(bool *orderly)
{
	const struct bb_option_table tables[] = {{rows, NULL, NULL}, {NULL, NULL, NULL}};
	struct bb_strbuf help = {0}, markdown = {0};
	bool ok;

	bb_options_help(tables, true, &help);
	bb_options_markdown(tables, &markdown);
	ok = !bb_strbuf_failed(&help) && !bb_strbuf_failed(&markdown);
	bb_strbuf_free(&help);
	bb_strbuf_free(&markdown);
	return ok;
}

static bool call_patterns(bool *orderly)
{
	struct bb_patterns *patterns = NULL;
	bb_status st = bb_patterns_make(&patterns, BB_FLOAT, BB_SUM, 2, 1);

	*orderly = st == BB_OK || (st == BB_EINTERNAL && !patterns);
	bb_patterns_free(patterns);
	return st == BB_OK;
}

static bool call_plan(bool *orderly)
{
	struct bb_options options = {.min_bytes = 1024, .max_bytes = 4096, .step_factor = 2};
	struct bb_collective_options settings = {
		.algorithms = "all", .dtypes = 1u << BB_FLOAT, .ops = 1u << BB_SUM, .spread = 1};
	struct bb_plan plan = {.options = &options,
			       .settings = &settings,
			       .collective = &bb_alltoallv,
			       .backend = &bb_backend_host,
			       .nranks = 4,
			       .nroots = 4,
			       .nlocal = 4,
			       .memory = 20000};
	struct bb_error error = {0};
	bb_status st = bb_plan_make(&plan, &error);

	*orderly = st == BB_OK || (st == BB_EINTERNAL && error.text[0]);
	bb_plan_free(&plan);
	return st == BB_OK;
}

/* One size under one of two algorithms. */
static struct bb_result_record some_result(int i)
{
	struct bb_result_record r;

	bb_record_init(&bb_record_result, &r);
	r.collective = "all_reduce";
	r.algorithm_asked = r.algorithm = i % 2 ? "ring" : "tree";
	r.dtype = "float";
	r.op = "sum";
	r.root = -1;
	r.size_bytes = (int64_t)1024 * (i / 2 + 1);
	r.in_place = true;
	r.time_us = 1 + i;
	return r;
}

static bool call_compare(bool *orderly)
{
	struct bb_results compare = {.n = 0};
	struct bb_sinks sinks = {.n = 0};
	struct bb_strbuf out = {0};
	bool ok = true;

	for (int i = 0; i < 200 && ok; i++) {
		struct bb_result_record r = some_result(i);

		ok = bb_results_keep(&compare, &r) == BB_OK;
	}
	if (ok)
		bb_compare_text(&compare, &out, NULL);
	ok = ok && !bb_strbuf_failed(&out);
	ok = ok && bb_compare_records(&compare, &sinks) == BB_OK;
	bb_strbuf_free(&out);
	bb_results_free(&compare);
	return ok;
}

/* Every kind of sink, on a file that takes everything. */
static bool call_sinks(bool *orderly)
{
	struct bb_options options = {.csv_file = "/dev/null", .json_file = "/dev/null"};
	struct bb_error error = {0};
	struct bb_sinks sinks;
	struct bb_run_record run;
	struct bb_end_record end;
	FILE *null = fopen("/dev/null", "w");
	bb_status st;

	bb_record_init(&bb_record_run, &run);
	run.program = run.version = run.backend = "x";
	bb_record_init(&bb_record_end, &end);
	st = null ? bb_sinks_open(&sinks, &options, &bb_sink_text, &bb_record_result, null, &error)
		  : BB_EINTERNAL;
	if (null && st == BB_OK) {
		struct bb_result_record r = some_result(0);

		bb_sinks_begin(&sinks, &run);
		bb_sinks_record(&sinks, &bb_record_result, &r);
		bb_sinks_end_data(&sinks, &end);
		st = bb_sinks_end_text(&sinks, &end);
	}
	*orderly = st == BB_OK || !null || error.text[0];
	if (null)
		bb_sinks_close(&sinks);
	if (null)
		fclose(null);
	return st == BB_OK;
}

static const struct {
	const char *name;
	bool (*call)(bool *orderly);
	bool degrades; /* may succeed although an allocation failed */
} callers[] = {
	{"strbuf", call_strbuf, false},
	{"json", call_json, false},
	{"options", call_options, false},
	{"options refused", call_options_refused, true},
	{"help and markdown", call_help, false},
	{"patterns", call_patterns, false},
	{"plan", call_plan, false},
	{"compare", call_compare, false},
	{"sinks", call_sinks, false},
};

/* Runs caller I with call FAIL failing; returns how many allocations it asked for. */
static size_t attempt(size_t i, size_t fail, bool stay)
{
	bool ok, orderly = true;

	heap.calls = heap.live = 0;
	heap.fail = fail;
	heap.stay = stay;
	heap.armed = true;
	ok = callers[i].call(&orderly);
	heap.armed = false;
	if (!orderly || heap.live)
		fail_msg("%s, allocation %zu fails: %s, %zu blocks left", callers[i].name, fail,
			 orderly ? "orderly" : "not orderly", heap.live);
	if (fail == NEVER ? !ok : ok && !callers[i].degrades)
		fail_msg("%s, allocation %zu fails: reported as %s", callers[i].name, fail,
			 ok ? "success" : "failure");
	return heap.calls;
}

static void test_every_failure(void **state)
{
	for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]); i++) {
		size_t calls = attempt(i, NEVER, false);

		assert_true(calls > 0); /* 0: the linker did not replace the allocator */
		for (size_t fail = 0; fail < calls; fail++) {
			attempt(i, fail, false);
			attempt(i, fail, true);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_failure)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

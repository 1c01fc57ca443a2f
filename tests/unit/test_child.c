/* The half that a child process measures: what a parent takes from its records, and what not. The
   children are this program, which does what its first word says. */
#include "harness/run/drivers.h"
#include "p2p/pairs.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NRANKS 2

static const struct bb_route route = {.name = "send", .switched = true, .direct = true};

/* A parent, as far as it has to do with its child. */
struct world {
	struct bb_run run;
	struct bb_pairs pairs;
	struct bb_cell cell;
	struct bb_drivers_config config;
	struct bb_drivers drivers;
	struct bb_driver driver;
};

static void open_world(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->run.world.nranks = NRANKS;
	w->pairs.run = &w->run;
	w->pairs.n = NRANKS;
	w->cell = (struct bb_cell){.route = &route, .direct = true, .bytes = 64, .repeats = 10};
	w->pairs.cells = &w->cell;
	w->pairs.ncells = 1;
	w->drivers.config = &w->config;
	pthread_mutex_init(&w->drivers.lock, NULL);
	w->driver.drivers = &w->drivers;
	sched_getaffinity(0, sizeof(w->pairs.cpus), w->pairs.cpus);
}

static void close_world(struct world *w)
{
	bb_child_free(&w->pairs);
	bb_review_close(&w->pairs);
	pthread_mutex_destroy(&w->drivers.lock);
}

/* ---- children -------------------------------------------------------------------------------- */

#define RUN "{\"kind\":\"run\",\"args\":[\"a\"],\"library_p2p\":\"off\"}\n"
#define PAIR                                                                                       \
	"{\"kind\":\"pair\",\"quantity\":\"bandwidth\",\"from\":0,\"to\":1,\"from_host\":\"a "     \
	"\\\"b\\\"\",\"path\":\"NV18\",\"route\":\"send\",\"p2p\":\"off\",\"actor\":\"both\","     \
	"\"direction\":\"unidirectional\",\"size_bytes\":64,\"GBps\":0.1,\"low_GBps\":null,"       \
	"\"p50_us\":2.5,\"max_us\":3,\"wrong\":0,\"child_process\":true}\n"
#define SKIP "{\"kind\":\"skip\",\"algorithm\":\"send\",\"reason\":\"it is too large\"}\n"
#define FLOOR(rank, near)                                                                          \
	"{\"kind\":\"floor\",\"route\":\"send\",\"bidirectional\":false,\"size_bytes\":64,"        \
	"\"rank\":" rank ",\"peer\":1,\"shortest_s\":0.5,\"second_s\":0.625,\"third_s\":0.75,"     \
	"\"rounds\":4,\"near\":" near "}\n"
#define ALIVE "{\"schema\":3,\"kind\":\"alive\"}\n"
#define END "{\"kind\":\"end\",\"results\":2,\"exit_status\":0}\n"
#define WHOLE RUN ALIVE PAIR PAIR SKIP FLOOR("0", "3") END
#define JUNK "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ\n"

static const struct scene {
	const char *name, *lines;
	int exits;        /* -1: killed, -2: stays */
	bb_status status; /* that the parent finds */
	const char *says;
} scenes[] = {
	{"whole", WHOLE, BB_OK, BB_OK, ""},
	{"wrong data", WHOLE, BB_EDATA, BB_OK, ""},
	{"one result", RUN PAIR END, BB_OK, BB_EINTERNAL, "sent 1 of its 2 results"},
	{"nothing", "", BB_OK, BB_EINTERNAL, "sent no end after 0 results"},
	{"half a line", RUN PAIR "{\"kind\":\"pai", BB_OK, BB_EINTERNAL,
	 "sent no end after 1 results"},
	{"once more", RUN PAIR PAIR PAIR END, BB_OK, BB_EINTERNAL, "sent 3 of its 2 results"},
	{"after the end", WHOLE ALIVE, BB_OK, BB_EINTERNAL, "it comes after the end"},
	{"no count", RUN "{\"kind\":\"end\"}\n", BB_OK, BB_EINTERNAL, "counts no results"},
	{"impossible", RUN FLOOR("0", "5"), BB_OK, BB_EINTERNAL, "sent an invalid record"},
	{"another world", RUN FLOOR("2", "3"), BB_OK, BB_EINTERNAL, "sent an invalid record"},
	{"no route", RUN "{\"kind\":\"pair\",\"from\":0,\"to\":1}\n", BB_OK, BB_EINTERNAL,
	 "sent an invalid record after 0 results"},
	{"no reason", RUN "{\"kind\":\"skip\"}\n", BB_OK, BB_EINTERNAL, "sent an invalid record"},
	{"junk", JUNK, BB_OK, BB_EINTERNAL, "it has no kind"},
	{"unusable", "", BB_EBACKEND, BB_EBACKEND, "failed with exit status 3"},
	{"unsupported", "", BB_EUNSUPPORTED, BB_EUNSUPPORTED, "failed with exit status 5"},
	{"failing", WHOLE, BB_ETIMEOUT, BB_ETIMEOUT, "failed with exit status 4"},
	{"killed", RUN, -1, BB_EBACKEND, "was ended by signal 9"},
	{"stays", RUN, -2, BB_OK, NULL},
};
#define SCENES (sizeof(scenes) / sizeof(*scenes))

static int be_child(const char *name)
{
	struct bb_error error = {.text = ""};
	const struct scene *s = scenes;
	bool is = false;

	if (bb_child_find(&is, &error) != BB_OK || !is)
		return BB_EINTERNAL;
	while (strcmp(s->name, name) != 0)
		s++;
	if (write(STDOUT_FILENO, s->lines, strlen(s->lines)) != (ssize_t)strlen(s->lines))
		return BB_EINTERNAL;
	if (s->exits == -1)
		raise(SIGKILL);
	while (s->exits == -2)
		pause();
	return s->exits;
}

/* ---- parents --------------------------------------------------------------------------------- */

static bb_status run_child(struct world *w, const char *name)
{
	char *const words[] = {(char *)(uintptr_t) "test_child", (char *)(uintptr_t)name, NULL};

	w->run.record.args = (struct bb_words){words, 2};
	strcpy(w->pairs.library_text, "on");
	return bb_child_run(&w->driver, &w->pairs);
}

static void every_scene(void **state)
{
	for (size_t i = 0; i < SCENES; i++) {
		struct world w;

		if (!scenes[i].says)
			continue;
		open_world(&w);
		if (run_child(&w, scenes[i].name) != scenes[i].status ||
		    !strstr(w.run.error.text, scenes[i].says))
			fail_msg("%s: \"%s\"", scenes[i].name, w.run.error.text);
		close_world(&w);
	}
}

/* What the parent's sinks get. */
static struct bb_pair_record pair;
static struct bb_skip_record skip;

static bb_status sink_record(struct bb_sink *sink, const struct bb_record_kind *kind,
			     const void *record)
{
	if (kind == &bb_record_pair)
		pair = *(const struct bb_pair_record *)record;
	if (kind == &bb_record_skip)
		skip = *(const struct bb_skip_record *)record;
	return BB_OK;
}

static void what_is_sent(void **state)
{
	static const struct bb_route list[] = {route, {.name = NULL}};
	static const struct bb_routes routes = {.list = list};
	static const struct bb_backend backend = {.routes = &routes};
	static const struct bb_sink_ops ops = {.record = sink_record};
	struct bb_sink sink = {.ops = &ops};
	struct bb_engine engine;
	struct world w;

	open_world(&w);
	assert_int_equal(run_child(&w, "whole"), BB_OK);
	assert_string_equal(w.pairs.library_text, "on; in a child process off");
	w.run.own = &w.pairs;
	w.run.sinks = (struct bb_sinks){.list = {&sink}, .n = 1, .error = &w.run.error};
	w.pairs.matrices = calloc(2, sizeof(*w.pairs.matrices));
	w.pairs.judged = calloc(2, sizeof(*w.pairs.judged));
	engine = (struct bb_engine){.run = &w.run, .driver = &w.driver, .backend = &backend};
	assert_int_equal(bb_child_deliver(&engine), BB_OK);
	assert_int_equal(w.run.end.results, 2);
	assert_string_equal(pair.from_host, "a \"b\"");
	assert_string_equal(pair.route, "send");
	assert_true(pair.child_process && pair.GBps == 0.1 && isnan(pair.low_GBps));
	assert_true(pair.to == 1 && pair.to_numa == BB_ABSENT && pair.p50_us == 2.5);
	assert_null(pair.to_host);
	assert_string_equal(skip.reason, "it is too large");
	assert_int_equal(w.pairs.nmatrices, 1);
	assert_int_equal(w.pairs.judged[0].number, -1);
	assert_false(w.pairs.matrices[0].direct);
	assert_true(w.pairs.judged[0].floors[1].kept[0] == 0.5 &&
		    bb_floor_usual(&w.pairs.judged[0].floors[1]) == 0.75);
	assert_int_equal(w.pairs.judged[0].floors[1].near, 3);
	close_world(&w);
}

/* The run is being abandoned: its cause is reported elsewhere. */
static void ends_with_the_run(void **state)
{
	struct world w;

	open_world(&w);
	atomic_store(&w.drivers.stop, true);
	assert_int_equal(run_child(&w, "stays"), BB_ETIMEOUT);
	assert_int_equal(bb_error_status(&w.run.error), BB_OK);
	close_world(&w);
}

static void keeps_its_cpus(void **state)
{
	cpu_set_t before, after;
	struct world w;

	open_world(&w);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(run_child(&w, "whole"), BB_OK);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
	close_world(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_scene),
		cmocka_unit_test(what_is_sent),
		cmocka_unit_test(ends_with_the_run),
		cmocka_unit_test(keeps_its_cpus),
	};

	if (argc > 1 && getenv("BUSBENCH_P2P_PARENT"))
		return be_child(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The half that a child process measures: what a parent takes from it, and what not. The children
   are this program, which does what its first word says. */
#include "harness/run/crew_watch.h"
#include "p2p/pairs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NRANKS 2
#define CELLS 2
#define BEFORE 1 /* cells that the parent measures */
#define PIPE 3

static const struct bb_route route = {.name = "send", .switched = true, .direct = true};

/* A parent or a child, as far as they have to do with each other. */
struct world {
	struct bb_run run;
	struct bb_pairs pairs;
	struct bb_cell cells[BEFORE + CELLS];
	struct bb_crew_config config;
	struct bb_crew crew;
	struct bb_driver driver;
};

static void set_cell(struct bb_cell *cell, uint64_t bytes)
{
	*cell = (struct bb_cell){.route = &route, .bytes = bytes, .repeats = 10};
}

static void open_world(struct world *w, bool child)
{
	const int before = child ? 0 : BEFORE;

	memset(w, 0, sizeof(*w));
	w->run.world.nranks = NRANKS;
	w->pairs.run = &w->run;
	w->pairs.settings.child = child;
	w->pairs.cells = w->cells;
	w->pairs.ncells = (size_t)before + CELLS;
	for (int i = 0; i < before; i++)
		set_cell(&w->cells[i], 64);
	for (int i = 0; i < CELLS; i++) {
		set_cell(&w->cells[before + i], 64u << i);
		w->cells[before + i].child = child ? NULL : calloc(1, sizeof(struct bb_child_cell));
	}
	w->crew.config = &w->config;
	pthread_mutex_init(&w->crew.lock, NULL);
	w->driver.crew = &w->crew;
	sched_getaffinity(0, sizeof(w->pairs.cpus), w->pairs.cpus);
}

static void close_world(struct world *w)
{
	for (size_t i = 0; i < w->pairs.ncells; i++)
		bb_child_cell_free(w->cells[i].child);
	pthread_mutex_destroy(&w->crew.lock);
}

static void make_parts(struct bb_pair_part parts[NRANKS * NRANKS], double seconds)
{
	memset(parts, 0, NRANKS * NRANKS * sizeof(*parts));
	for (int i = 0; i < NRANKS * NRANKS; i++) {
		parts[i].low = parts[i].mid = seconds;
		parts[i].high = seconds + i;
		parts[i].rounds = 3;
		parts[i].samples = 4;
		parts[i].wrong = (uint64_t)i;
	}
}

/* ---- children -------------------------------------------------------------------------------- */

static bb_status tell_cell(struct world *w, size_t cell, double seconds, bool again)
{
	struct bb_pair_part parts[NRANKS * NRANKS];

	make_parts(parts, seconds);
	return bb_child_send_cell(&w->pairs, cell, parts, again);
}

static bb_status tell_whole(struct world *w)
{
	bb_status status;

	strcpy(w->pairs.library_text, "off");
	w->cells[1].skip = "it is too large";
	BB_TRY(status, bb_child_send_begin(&w->pairs), out);
	BB_TRY(status, bb_child_send_alive(&w->pairs), out);
	BB_TRY(status, tell_cell(w, 0, 1, false), out);
	BB_TRY(status, tell_cell(w, 1, 2, false), out);
	BB_TRY(status, tell_cell(w, 0, 0.5, true), out);
	status = bb_child_send_end(&w->pairs);
out:
	return status;
}

static bb_status tell_one(struct world *w)
{
	return tell_cell(w, 0, 1, false);
}

static bb_status tell_nothing(struct world *w)
{
	return BB_OK;
}

static bb_status tell_twice(struct world *w)
{
	bb_status status = tell_cell(w, 0, 1, false);

	return status == BB_OK ? tell_cell(w, 0, 1, false) : status;
}

static bb_status tell_again_first(struct world *w)
{
	return tell_cell(w, 0, 1, true);
}

static bb_status tell_impossible(struct world *w)
{
	return tell_cell(w, 0, NAN, false);
}

static bb_status tell_another_size(struct world *w)
{
	w->cells[0].bytes++;
	return tell_cell(w, 0, 1, false);
}

static bb_status tell_another_world(struct world *w)
{
	w->run.world.nranks = 1;
	return tell_cell(w, 0, 1, false);
}

static bb_status tell_too_many(struct world *w)
{
	return bb_child_send_end(&w->pairs) == BB_OK ? bb_child_send_alive(&w->pairs)
						     : BB_EINTERNAL;
}

static bb_status tell_junk(struct world *w)
{
	char junk[1000];

	memset(junk, 0x5a, sizeof(junk));
	return write(PIPE, junk, sizeof(junk)) == sizeof(junk) ? BB_OK : BB_EINTERNAL;
}

static bb_status tell_half(struct world *w)
{
	return write(PIPE, "half", 4) == 4 ? BB_OK : BB_EINTERNAL;
}

static bb_status end_wrong(struct world *w)
{
	return tell_whole(w) == BB_OK ? BB_EDATA : BB_EINTERNAL;
}

static bb_status end_unusable(struct world *w)
{
	return BB_EBACKEND;
}

static bb_status end_unsupported(struct world *w)
{
	return BB_EUNSUPPORTED;
}

static bb_status end_failing(struct world *w)
{
	return tell_whole(w) == BB_OK ? BB_ETIMEOUT : BB_EINTERNAL;
}

static bb_status be_killed(struct world *w)
{
	raise(SIGKILL);
	return BB_OK;
}

static bb_status stay(struct world *w)
{
	pause();
	return BB_OK;
}

static const struct scene {
	const char *name;
	bb_status (*play)(struct world *w);
	bb_status status; /* that the parent finds */
	const char *says;
} scenes[] = {
	{"whole", tell_whole, BB_OK, ""},
	{"wrong data", end_wrong, BB_OK, ""},
	{"one cell", tell_one, BB_EINTERNAL, "sent 1 of its 2 cells"},
	{"nothing", tell_nothing, BB_EINTERNAL, "sent 0 of its 2 cells"},
	{"half a message", tell_half, BB_EINTERNAL, "sent 0 of its 2 cells"},
	{"twice", tell_twice, BB_EINTERNAL, "invalid message after 1 of its cells"},
	{"again first", tell_again_first, BB_EINTERNAL, "sent an invalid message"},
	{"impossible", tell_impossible, BB_EINTERNAL, "sent an invalid message"},
	{"another size", tell_another_size, BB_EINTERNAL, "sent an invalid message"},
	{"another world", tell_another_world, BB_EINTERNAL, "sent an invalid message"},
	{"too many", tell_too_many, BB_EINTERNAL, "sent an invalid message"},
	{"junk", tell_junk, BB_EINTERNAL, "sent an invalid message"},
	{"unusable", end_unusable, BB_EBACKEND, "failed with exit status 3"},
	{"unsupported", end_unsupported, BB_EUNSUPPORTED, "failed with exit status 5"},
	{"failing", end_failing, BB_ETIMEOUT, "failed with exit status 4"},
	{"killed", be_killed, BB_EBACKEND, "was ended by signal 9"},
};

static int be_child(const char *name)
{
	struct bb_error error = {.text = ""};
	struct world w;
	bool is = false;
	int status = BB_EINTERNAL;

	if (bb_child_find(&is, &error) != BB_OK || !is)
		return BB_EINTERNAL;
	open_world(&w, true);
	if (strcmp(name, "stay") == 0)
		status = stay(&w);
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		if (strcmp(name, scenes[i].name) == 0)
			status = scenes[i].play(&w);
	close_world(&w);
	return status;
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
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++) {
		struct world w;

		open_world(&w, false);
		if (run_child(&w, scenes[i].name) != scenes[i].status ||
		    !strstr(w.run.error.text, scenes[i].says))
			fail_msg("%s: \"%s\"", scenes[i].name, w.run.error.text);
		close_world(&w);
	}
}

static void what_is_told(void **state)
{
	struct bb_pair_part parts[NRANKS * NRANKS];
	const struct bb_child_cell *cell;
	struct world w;

	open_world(&w, false);
	assert_int_equal(run_child(&w, "whole"), BB_OK);
	assert_string_equal(w.pairs.library_text, "on; in a child process off");
	cell = w.cells[BEFORE].child;
	make_parts(parts, 1);
	assert_memory_equal(cell->first, parts, sizeof(parts));
	make_parts(parts, 0.5);
	assert_memory_equal(cell->again, parts, sizeof(parts));
	assert_true(cell->end_unix_s > 0);
	assert_null(w.cells[BEFORE].skip);
	assert_string_equal(w.cells[BEFORE + 1].skip, "it is too large");
	assert_null(w.cells[BEFORE + 1].child->first);
	close_world(&w);
}

/* The run is being abandoned: its cause is told elsewhere. */
static void ends_with_the_run(void **state)
{
	struct world w;

	open_world(&w, false);
	atomic_store(&w.crew.stop, true);
	assert_int_equal(run_child(&w, "stay"), BB_ETIMEOUT);
	assert_int_equal(bb_error_status(&w.run.error), BB_OK);
	close_world(&w);
}

static void keeps_its_cpus(void **state)
{
	cpu_set_t before, after;
	struct world w;

	open_world(&w, false);
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
		cmocka_unit_test(what_is_told),
		cmocka_unit_test(ends_with_the_run),
		cmocka_unit_test(keeps_its_cpus),
	};

	if (argc > 1 && getenv("BUSBENCH_P2P_PARENT"))
		return be_child(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

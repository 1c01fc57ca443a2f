/*
 * play - runs a small program on any backend, some times, and checks what came of it: the data,
 * and the order of what was told. Nothing is measured, no time is judged but that it is not too
 * short.
 */
#include "scripts.h"

#include "collectives/result.h"
#include "harness/run/benchmark.h"
#include "harness/measure/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAYINGS 3

#define OPTIONS(OPTION, COMMON)                                                                    \
	OPTION(CHOICE, kernel, "kernel", 0, "ddp", "which program", .choices = kernel_names)       \
	OPTION(CHOICE, stand_in, "compute", 0, "sleep", "of its computations",                     \
	       .choices = bb_stand_in_names)                                                       \
	OPTION(STRING, algorithm, "algo", 0, NULL, "of its collectives")                           \
	OPTION(DURATION, pass_ns, "pass", 0, "2ms", "of a computation", .max = BB_YEAR_NS)         \
	OPTION(FLAG, overlap, "overlap", 0, NULL,                                                  \
	       "a collective must end while something is computed")                                \
	OPTION(FLAG, own_buffers, "own-buffers", 0, NULL,                                          \
	       "the runner's own, whose data is not checked")

struct asked {
	BB_OPTION_MEMBERS(OPTIONS)
};

#define BB_OPTIONS struct asked
static const struct bb_option rows[] = BB_OPTION_ROWS(OPTIONS);

struct state {
	struct asked asked;
	struct script script;
};

/* One driver's. */
struct session {
	struct bb_engine engine;
	struct bb_run *run;
	struct bb_driver *driver;
	const struct script *script;
	const struct bb_backend *backend;
	int32_t *memory; /* SLOTS slots */
	int32_t *slot;   /* one, in host memory */
	/* What was told, of the ranks that this driver plays. */
	size_t told;
	double latest; /* end */
	struct heard {
		double done[BB_PROGRAM_QUEUES]; /* the latest end of each queue */
		size_t next[BB_PROGRAM_QUEUES]; /* the index that may come next in it */
		double recorded[2 * SLOTS], waited[2 * SLOTS]; /* [event] */
	} heard[MOST_RANKS];
	double last_computation, first_collective;
	char wrong[128]; /* the first thing that is; empty: none */
};

static void wrong(struct session *s, const char *what, size_t index)
{
	if (!s->wrong[0])
		snprintf(s->wrong, sizeof(s->wrong), "rank %d, operation %zu: %s", s->driver->rank,
			 index, what);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static bool plays(const struct session *s, int rank)
{
	return rank == s->driver->rank || s->backend->virtual;
}

static void hear_source(struct session *s, size_t index, const struct bb_operation *o, int source)
{
	const bool receives = o->act == BB_ACT_RECV || o->act == BB_ACT_RECV_ANY;

	if (o->act == BB_ACT_RECV && source != o->peer)
		wrong(s, "it came from somebody else", index);
	if (receives && (source < 0 || source >= s->script->program.nranks))
		wrong(s, "it came from nobody", index);
}

static void hear(void *own, int rank, size_t index, const struct bb_operation *o, double from,
		 double to, int source)
{
	struct session *s = own;
	struct heard *h = &s->heard[rank];
	const int q = o->queue;

	if (!plays(s, rank)) {
		wrong(s, "it is another rank's", index);
		return;
	}
	if (from > to || to < s->latest)
		wrong(s, "it ends before it may", index);
	if (from < h->done[q] || index < h->next[q])
		wrong(s, "it is not its turn", index);
	/* Of the same time, either may be told first. */
	if (o->act == BB_ACT_WAIT)
		h->waited[o->event] = to;
	if ((o->act == BB_ACT_WAIT && h->recorded[o->event] < INFINITY &&
	     to < h->recorded[o->event]) ||
	    (o->act == BB_ACT_RECORD && to > h->waited[o->event]))
		wrong(s, "it waits for what has not come", index);
	hear_source(s, index, o, source);
	if (o->act == BB_ACT_RECORD)
		h->recorded[o->event] = to;
	if (o->act == BB_ACT_COMPUTE)
		s->last_computation = from;
	if (o->act == BB_ACT_COLLECTIVE && to < s->first_collective)
		s->first_collective = to;
	h->done[q] = s->latest = to;
	h->next[q] = index + 1;
	s->told++;
}

static void expect_silence(struct session *s)
{
	s->told = 0;
	s->latest = 0;
	s->last_computation = 0;
	s->first_collective = INFINITY;
	memset(s->heard, 0, sizeof(s->heard));
	for (int r = 0; r < MOST_RANKS; r++)
		for (int e = 0; e < 2 * SLOTS; e++)
			s->heard[r].recorded[e] = s->heard[r].waited[e] = INFINITY;
}

/* The least that it takes: what one queue computes. */
static double least(const struct session *s)
{
	const int rank = s->driver->rank;
	double seconds = 0;

	for (size_t i = 0; i < s->script->length[rank]; i++)
		seconds += s->script->operations[rank][i].seconds;
	return seconds;
}

static size_t operations(const struct session *s)
{
	size_t n = 0;

	for (int r = 0; r < s->script->program.nranks; r++)
		n += plays(s, r) ? s->script->length[r] : 0;
	return n;
}

/* Nothing takes time on null. */
static void judge_told(struct session *s, const struct asked *asked, double end)
{
	const bool takes_time = strcmp(s->backend->name, "null") != 0;

	if (s->told != operations(s))
		wrong(s, "so many were told of", s->told);
	if (s->latest > end)
		wrong(s, "something ended after all", 0);
	if (takes_time && asked->stand_in != BB_GEMM && end < 0.999 * least(s))
		wrong(s, "all was computed too fast", 0);
	if (takes_time && asked->overlap && s->first_collective > s->last_computation)
		wrong(s, "nothing was reduced while something was computed", 0);
}

/* ---- data ------------------------------------------------------------------------------------ */

static int32_t *slot_at(const struct session *s, int slot)
{
	return s->memory + (size_t)slot * SLOT_COUNT;
}

static void find_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct session *s = own;

	*in = slot_at(s, script_reads(o));
	*out = slot_at(s, script_writes(o));
}

static bb_status fill(struct session *s)
{
	bb_status status = BB_OK;

	for (int k = 0; k < SLOTS && status == BB_OK; k++) {
		for (size_t i = 0; i < SLOT_COUNT; i++)
			s->slot[i] = script_before(s->driver->rank, k, i);
		status = s->backend->copy(s->driver->handle, slot_at(s, k), s->slot,
					  SLOT_COUNT * sizeof(*s->slot));
	}
	return status == BB_OK ? s->backend->finish(s->driver->handle, NULL) : status;
}

static bb_status judge_data(struct session *s)
{
	bb_status status = BB_OK;

	for (int k = 0; k < SLOTS && status == BB_OK; k++) {
		const size_t n = script_count(s->script, s->driver->rank, k);

		status = s->backend->copy(s->driver->handle, s->slot, slot_at(s, k),
					  SLOT_COUNT * sizeof(*s->slot));
		for (size_t i = 0; i < n && status == BB_OK; i++)
			if (s->slot[i] != script_after(s->script, s->driver->rank, k, i)) {
				wrong(s, "its slot is wrong", (size_t)k);
				break;
			}
	}
	return status;
}

/* ---- a driver -------------------------------------------------------------------------------- */

static bb_status play_once(struct session *s, struct bb_runner *runner, const struct asked *asked,
			   bool watched)
{
	const struct bb_timeline_watch watch = {hear, s};
	const bool has_data = s->backend->has_data && !asked->own_buffers;
	double end = 0;
	bb_status status = BB_OK;

	bb_driver_deadline(s->driver, kernel_names[asked->kernel]);
	if (has_data)
		status = fill(s);
	expect_silence(s);
	if (status == BB_OK)
		status = bb_runner_run(runner, watched ? &watch : NULL, &end);
	if (status == BB_OK && watched)
		judge_told(s, asked, end);
	if (status == BB_OK && has_data)
		status = judge_data(s);
	if (status == BB_OK && s->wrong[0])
		status = bb_fail(&s->run->error, BB_EDATA, "%s", s->wrong);
	return status;
}

static bb_status play(struct session *s, const struct asked *asked)
{
	const struct bb_workload what = {.program = &s->script->program,
					 .stand_in = (enum bb_stand_in)asked->stand_in,
					 .buffers = asked->own_buffers ? NULL : find_buffers,
					 .own = s};
	const struct bb_fault *fault = &s->run->options.fault;
	struct bb_error refusal = {0};
	struct bb_runner *runner = NULL;
	bb_status status = bb_runner_open(&runner, s->run, s->driver, &what, &refusal);

	if (status == BB_EUNSUPPORTED)
		return bb_fail(&s->run->error, status, "%s", refusal.text);
	for (int k = 0; k < PLAYINGS && status == BB_OK; k++) {
		if (k == 1 && fault->kind == BB_FAULT_DIE && fault->rank == s->driver->rank)
			_exit(9);
		status = play_once(s, runner, asked, k != 1);
	}
	if (bb_driver_leads(s->driver) && status == BB_OK)
		s->run->end.results = PLAYINGS;
	if (status != BB_OK)
		bb_driver_abandon(s->driver);
	bb_runner_close(runner);
	return status;
}

static bb_status open_session(struct bb_engine *engine)
{
	struct session *s = (struct session *)engine;
	const struct state *state = engine->run->own;

	s->run = engine->run;
	s->driver = engine->driver;
	s->backend = engine->backend;
	s->script = &state->script;
	s->slot = calloc(SLOT_COUNT, sizeof(*s->slot));
	if (!s->slot)
		return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory");
	return bb_engine_alloc(engine, SLOTS * SLOT_COUNT * sizeof(int32_t), (void **)&s->memory);
}

static bb_status run_session(struct bb_engine *engine)
{
	struct session *s = (struct session *)engine;
	const struct state *state = s->run->own;

	return play(s, &state->asked);
}

static void close_session(struct bb_engine *engine)
{
	free(((struct session *)engine)->slot);
}

static const struct bb_experiment experiment = {
	.bytes = sizeof(struct session),
	.open = open_session,
	.run = run_session,
	.close = close_session,
};

/* ---- the program ----------------------------------------------------------------------------- */

static bb_status check(const struct bb_benchmark *benchmark, void *own, struct bb_options *options,
		       const struct bb_environment *environment, struct bb_error *error)
{
	return BB_OK;
}

static void list(struct bb_strbuf *out)
{
}

static bb_status plan(struct bb_run *run)
{
	struct state *state = run->own;

	if (!script_write(&state->script, (enum kernel)state->asked.kernel, run->world.nranks,
			  1e-9 * (double)state->asked.pass_ns, state->asked.algorithm))
		return bb_fail(&run->error, BB_EUNSUPPORTED, "%s: not among %d ranks",
			       kernel_names[state->asked.kernel], run->world.nranks);
	return BB_OK;
}

static void close_run(struct bb_run *run)
{
}

int main(int argc, char **argv)
{
	const struct bb_benchmark benchmark = {
		.brief = "Plays a small program, and checks what comes of it.",
		.own_bytes = sizeof(struct state),
		.options = rows,
		.faults = 1u << BB_FAULT_DIE,
		.queues = true,
		.check = check,
		.list = list,
		.text = &bb_sink_jsonl,
		.rows = &bb_record_result,
		.plan = plan,
		.experiment = &experiment,
		.close = close_run,
	};

	return bb_main(argc, argv, &benchmark);
}

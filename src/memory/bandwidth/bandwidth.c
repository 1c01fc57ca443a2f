/*
 * bandwidth.c - the benchmark of memory: its options, its plan and the experiment, which measures
 * one case after the other, at one place after the other. A place is a NUMA node of a host, a GPU,
 * or all GPUs of a host; the ranks of the others sleep meanwhile. All GPUs of a host share nothing
 * with those of other hosts, so all hosts work at once.
 */
#include "memory/bandwidth/bandwidth.h"

#include "core/array.h"
#include "core/clock.h"
#include "core/random.h"
#include "core/units.h"
#include "topology/probes/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHES 4 /* size of an array in last-level caches, as in STREAM */
#define LEAST_BYTES ((uint64_t)64 << 20)
#define MOST_ARRAYS 3
#define MOST_ITERS 100000                /* every sample is kept */
#define PERIOD 1021                      /* of the data, in doubles */
#define SAMPLE_BYTES ((size_t)256 << 10) /* long compared with reading the clock */
#define LINK_SAMPLE_BYTES                                                                          \
	((size_t)128 << 20) /* of copies between spaces: starting them takes longer */
#define SAMPLE_REPEATS 1000
#define HOPS 20000 /* of a chase, in one sample */

enum array { A, B, C, D, ARRAYS };

/* What an array holds: known doubles, three times these, bytes of 1, or poison. */
enum data { NONE, BASE, TRIPLE, ONES, POISON, DATA };

static const struct kind {
	const char *name; /* in records */
	enum bb_memory_work work;
	int counts; /* bytes that are counted per byte of an array (backends/spaces.h) */
	enum data before[ARRAYS]; /* NONE: there is no such array */
	enum data after[ARRAYS];  /* what the work writes; NONE: nothing */
} kinds[BB_MEMORY_KINDS] = {
	[BB_MEMORY_READ] = {"read", BB_WORK_READ, 1, {BASE}, {NONE}},
	[BB_MEMORY_WRITE] = {"write", BB_WORK_WRITE, 1, {POISON}, {ONES}},
	[BB_MEMORY_COPY] = {"copy", BB_WORK_COPY, 2, {POISON, BASE}, {BASE}},
	[BB_MEMORY_KERNEL_COPY] = {"kernel-copy", BB_WORK_KERNEL_COPY, 2, {POISON, BASE}, {BASE}},
	[BB_MEMORY_TRIAD] = {"triad", BB_WORK_TRIAD, 3, {POISON, BASE, BASE}, {TRIPLE}},
	[BB_MEMORY_BOTH] =
		{"both", BB_WORK_COPY, 2, {POISON, BASE, POISON, BASE}, {BASE, NONE, BASE}},
	[BB_MEMORY_KERNEL_BOTH] = {"kernel-both",
				   BB_WORK_KERNEL_COPY,
				   2,
				   {POISON, BASE, POISON, BASE},
				   {BASE, NONE, BASE}},
	[BB_MEMORY_CHASE] = {.name = "latency", .before = {POISON}},
};

static const char *const work_names[] = {"read",    "write",       "copy", "triad",
					 "latency", "kernel-copy", NULL};
static const char *const worker_names[] = {"all", "one", "both", NULL};

#define BB_OPTIONS struct bb_memory_options
static const struct bb_option memory_rows[] = BB_OPTION_ROWS(BB_MEMORY_OPTIONS);

#define BB_RECORD bb_pair_record
BB_RECORD_KIND(bb_record_pair, BB_PAIR_FIELDS, "pair",
	       "Of pairs and memory: one of them over one route at one size.");

/* ---- options ------------------------------------------------------------------------------- */

/* Without -b and -e, and without a number of ranks, those that show the memory of this machine. */
static bb_status check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	/* In the order of the names. */
	static const enum bb_memory_kind named[] = {BB_MEMORY_READ,  BB_MEMORY_WRITE,
						    BB_MEMORY_COPY,  BB_MEMORY_TRIAD,
						    BB_MEMORY_CHASE, BB_MEMORY_KERNEL_COPY};
	struct bb_memory_options *a = own;
	struct bb_machine *machine;

	if (o->backend->virtual)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "the %s backend models links, not memory, and this program measures "
			       "the memory of the machine that it runs on; leave out --backend and "
			       "--cluster, or use p2p_bandwidth_perf for links",
			       o->backend->name);
	if (!o->backend->spaces)
		return bb_fail(error, BB_EUNSUPPORTED, "the %s backend has no memory to work on",
			       o->backend->name);
	for (int i = 0; work_names[i]; i++)
		if (a->work >> i & 1)
			a->works |= 1u << named[i];
	/* Copies between two spaces are also measured in both directions at once. */
	if (a->works & 1u << BB_MEMORY_COPY)
		a->works |= 1u << BB_MEMORY_BOTH;
	if (a->works & 1u << BB_MEMORY_KERNEL_COPY)
		a->works |= 1u << BB_MEMORY_KERNEL_BOTH;
	const bb_status status = bb_machine_open(&machine, error);
	if (status != BB_OK)
		return status;
	if (!o->gpus_given && !o->threads_given && !o->backend->gpu)
		o->gpus = machine->ncores < o->backend->max_local ? machine->ncores
								  : o->backend->max_local;
	if (!o->min_bytes_given && !o->max_bytes_given) {
		const uint64_t caches = CACHES * (uint64_t)machine->l3;

		o->min_bytes = o->max_bytes = caches > LEAST_BYTES ? caches : LEAST_BYTES;
	}
	bb_machine_close(machine);
	o->iters = a->iters;
	o->config.library_optional = true;
	return BB_OK;
}

static void list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "work on memory, and the bytes counted for arrays of n bytes\n"
			   "  read     n: reads an array\n"
			   "  write    n: writes an array, past the caches\n"
			   "  copy     2 n: reads one, writes another; between two spaces n\n"
			   "  triad    3 n: reads two, writes a third: a = b + 2 c\n"
			   "  latency  dependent loads in random order\n"
			   "  kernel-copy  as copy, by a kernel of a GPU; pinned memory\n");
}

/* ---- plan ---------------------------------------------------------------------------------- */

static const struct bb_memory_plan *plan_of(const struct bb_run *run)
{
	return (const void *)((const char *)run->own + *(const size_t *)run->benchmark->subject);
}

bb_status bb_memory_plan_add(struct bb_memory_plan *plan, struct bb_run *run,
			     struct bb_memory_case c)
{
	if (c.bytes > run->memory / MOST_ARRAYS)
		c.skip = "its arrays do not fit into memory";
	return BB_ARRAY_PUT(plan->cases, plan->ncases, plan->room, c)
		       ? BB_OK
		       : bb_no_memory(&run->error, "the plan");
}

/* Is KIND measured on spaces TO and FROM, by one worker (ALONE) or all? Only a GPU copies between
   two spaces, and one of them is its own. */
static bool is_wanted(const struct bb_run *run, enum bb_memory_kind kind, int to, int from,
		      bool alone)
{
	const struct bb_memory_options *a = &((const struct bb_memory *)run->own)->settings;
	const bool gpu = run->options.backend->gpu, chases = kind == BB_MEMORY_CHASE;
	const bool by_kernel = kind == BB_MEMORY_KERNEL_COPY || kind == BB_MEMORY_KERNEL_BOTH;

	/* A chase has one worker, and a GPU that is the only rank works alone. */
	if (chases || (gpu && run->world.nranks == 1)
		    ? !alone
		    : a->workers == (int)(alone ? BB_WORKERS_ALL : BB_WORKERS_ONE))
		return false;
	if (!(a->works >> kind & 1) ||
	    (by_kernel && (!gpu || to > BB_SPACE_PINNED || from > BB_SPACE_PINNED)))
		return false;
	if (kind == BB_MEMORY_BOTH || kind == BB_MEMORY_KERNEL_BOTH)
		return gpu && to == 0 && from > 0;
	if (!gpu || chases)
		return to == from && (!gpu || to <= BB_SPACE_PINNED);
	return kind == BB_MEMORY_COPY || by_kernel ? to == 0 || from == 0 : to == 0 && from == 0;
}

/* Whole units of work, at least one. */
static size_t aligned(uint64_t bytes)
{
	const size_t units = (size_t)(bytes / BB_WORK_ALIGNMENT);

	return (units > 0 ? units : 1) * BB_WORK_ALIGNMENT;
}

/* Spaces are outermost, so that arrays are reused. */
static bb_status plan(struct bb_run *run)
{
	const struct bb_options *o = &run->options;
	const int spaces = o->backend->spaces->count(run->context);
	struct bb_memory *m = run->own;
	bb_status status = BB_OK;

	for (int i = 0; i < 2 * spaces * spaces; i++) { /* all workers, then one */
		const int to = i / 2 / spaces, from = i / 2 % spaces;
		const bool alone = i % 2;

		for (enum bb_memory_kind kind = 0; kind < BB_MEMORY_KINDS; kind++)
			for (uint64_t size = o->min_bytes;
			     size && is_wanted(run, kind, to, from, alone);
			     size = bb_options_next_size(o, size)) {
				const struct bb_memory_case c = {kind,  kinds[kind].name,
								 to,    from,
								 alone, .bytes = aligned(size)};

				BB_TRY(status, bb_memory_plan_add(&m->plan, run, c), out);
			}
	}
	if (m->plan.ncases == 0)
		status = bb_fail(&run->error, BB_EUNSUPPORTED,
				 "--work, --workers %s: this machine has no such case",
				 worker_names[m->settings.workers]);
out:
	return status;
}

bb_status bb_memory_open_results(struct bb_run *run)
{
	const struct bb_memory_plan *plan = plan_of(run);
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->ncases; i++)
		bytes += plan->cases[i].bytes;
	bb_ticker_start(&run->ticker, plan->ncases, bytes);
	return BB_OK;
}

/* ---- the experiment ---------------------------------------------------------------------- */

struct array_of {
	void *memory;
	size_t bytes;
	int space;
};

/* The ranks of a place that work at once. */
struct team {
	int *places; /* of each rank, numbered in the order of their first ranks */
	int nplaces;
	int mine;               /* this rank's place */
	int n;                  /* ranks that work at it */
	bool works;             /* this rank is one of them */
	struct bb_group *group; /* those that begin together; NULL: this one alone */
};

/* A driver's state. */
struct memory_session {
	struct bb_engine engine;
	const struct bb_memory_plan *plan;
	int n;
	struct team teams[2]; /* of all ranks of a place; of one, see struct bb_memory_case */
	const struct bb_memory_case *c; /* at hand */
	struct array_of arrays[ARRAYS];
	struct bb_queue *queues[2]; /* for both directions at once; or NULL */
	double *data;               /* DATA tables of 2 * PERIOD */
	double *report;             /* REPORT_HEAD numbers, then the samples: seconds of one work */
	double *times;              /* rank 0's scratch, 2 * iters */
};

enum report { IS_WORKER, BYTES, WRONG, CHECKED, REPEATS, REPORT_HEAD };

/* ---- before the first case ------------------------------------------------------------------ */

static const struct team *team_of(const struct memory_session *s)
{
	return &s->teams[s->c->alone];
}

/* True if all places work at once. */
static bool all_hosts(const struct memory_session *s, bool alone)
{
	return s->engine.backend->gpu && !alone;
}

static bb_status open_team(struct memory_session *s, bool alone)
{
	const struct bb_rank_info *const infos = s->engine.run->infos;
	const bool gpu = s->engine.backend->gpu;
	const int me = s->engine.driver->rank;
	struct team *t = &s->teams[alone];
	int *members = calloc((size_t)s->n, sizeof(*members)), n = 0;
	bb_status status = BB_OK;

	t->places = calloc((size_t)s->n, sizeof(*t->places));
	if (!members || !t->places) {
		free(members);
		return bb_no_memory(&s->engine.run->error, "the ranks");
	}
	for (int r = 0; r < s->n; r++) {
		int first = gpu && alone ? r : 0;

		while (infos[first].node != infos[r].node ||
		       (!gpu && infos[first].location.numa != infos[r].location.numa))
			first++;
		t->places[r] = first < r ? t->places[first] : t->nplaces++;
	}
	t->mine = t->places[me];
	for (int r = 0; r < s->n; r++)
		if (t->places[r] == t->mine)
			members[n++] = r;
	t->works = !alone || members[0] == me;
	t->n = alone ? 1 : n;
	if (all_hosts(s, alone) || t->n == s->n)
		t->group = s->n > 1 ? s->engine.world : NULL;
	else if (t->n > 1)
		status = s->engine.backend->group_open(s->engine.rank, members, t->n, &t->group,
						       &s->engine.run->error);
	free(members);
	return status;
}

static bb_status memory_open(struct bb_engine *engine)
{
	struct memory_session *s = (struct memory_session *)engine;
	const size_t iters = (size_t)engine->options->iters;
	bool both = false;
	bb_status status = BB_OK;

	s->plan = plan_of(engine->run);
	s->n = engine->run->world.nranks;
	s->report = calloc(REPORT_HEAD + iters, sizeof(*s->report));
	s->times = calloc(2 * iters, sizeof(*s->times));
	s->data = calloc(DATA * 2 * PERIOD, sizeof(*s->data));
	if (!s->report || !s->times || !s->data)
		return bb_no_memory(&engine->run->error, "the ranks");
	for (int i = 0; i < 2 * PERIOD; i++) {
		s->data[BASE * 2 * PERIOD + i] = i % PERIOD + 1;
		s->data[TRIPLE * 2 * PERIOD + i] = 3 * (i % PERIOD + 1);
	}
	memset(s->data + ONES * 2 * PERIOD, 1, 2 * PERIOD * sizeof(double));
	memset(s->data + POISON * 2 * PERIOD, 0xa5, 2 * PERIOD * sizeof(double));
	for (int alone = 0; alone < 2 && status == BB_OK; alone++)
		status = open_team(s, alone);
	for (size_t i = 0; i < s->plan->ncases; i++)
		both = both || bb_memory_is_both(&s->plan->cases[i]);
	for (int q = 0; q < 2 && both && status == BB_OK; q++)
		status = engine->backend->queue_open(engine->rank, &s->queues[q],
						     &engine->run->error);
	return status;
}

static void release(struct memory_session *s, struct array_of *array)
{
	if (array->memory)
		s->engine.backend->spaces->release(s->engine.rank, array->space, array->memory,
						   array->bytes);
	*array = (struct array_of){.memory = NULL};
}

static void memory_close(struct bb_engine *engine)
{
	struct memory_session *s = (struct memory_session *)engine;

	for (int i = 0; i < ARRAYS; i++)
		release(s, &s->arrays[i]);
	for (int q = 0; q < 2; q++)
		engine->backend->queue_close(s->queues[q]);
	for (int alone = 0; alone < 2; alone++) {
		if (s->teams[alone].group != engine->world)
			engine->backend->group_close(s->teams[alone].group);
		free(s->teams[alone].places);
	}
	free(s->report);
	free(s->times);
	free(s->data);
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* Returns the bytes of this rank's part of an array, never 0. */
static size_t share(const struct memory_session *s)
{
	return aligned(s->c->bytes / (uint64_t)team_of(s)->n);
}

static struct bb_pattern pattern(const struct memory_session *s, enum data which)
{
	return (struct bb_pattern){s->data + (size_t)which * 2 * PERIOD, PERIOD, sizeof(double), 0};
}

/* An array of that size in that space is kept; its content is written again. */
static bb_status open_array(struct memory_session *s, int which)
{
	struct array_of *array = &s->arrays[which];
	const size_t bytes = share(s);
	const int space = which == A || which == D ? s->c->to : s->c->from;
	const struct bb_pattern p = pattern(s, kinds[s->c->kind].before[which]);
	bb_status status = BB_OK;

	if (array->memory && (array->space != space || array->bytes != bytes))
		release(s, array);
	if (!array->memory) {
		status = s->engine.backend->spaces->alloc(s->engine.rank, space, bytes,
							  &array->memory, &s->engine.run->error);
		if (status != BB_OK) {
			array->memory = NULL;
			return bb_fail(&s->engine.run->error, status,
				       "rank %d cannot allocate %zu bytes", s->engine.driver->rank,
				       bytes);
		}
		array->space = space;
		array->bytes = bytes;
	}
	status = s->engine.backend->fill(s->engine.rank, array->memory, &p, 0,
					 bytes / sizeof(double));
	if (status == BB_OK && s->c->kind == BB_MEMORY_CHASE)
		status = s->engine.backend->spaces->chase_lay(s->engine.rank, array->memory, bytes,
							      (uint64_t)s->engine.options->seed *
								      BB_RANDOM_STEP);
	return status;
}

static bb_status verify_array(struct memory_session *s, int which)
{
	const struct bb_pattern p = pattern(s, kinds[s->c->kind].after[which]);
	const struct array_of *array = &s->arrays[which];
	uint64_t wrong = 0;
	bb_status status = BB_OK;

	if (which == A)
		BB_TRY(status,
		       bb_engine_corrupt(&s->engine, (char *)array->memory + array->bytes / 2),
		       out);
	status = s->engine.backend->verify(s->engine.rank, array->memory, &p, 0,
					   array->bytes / sizeof(double), BB_DOUBLE, 0, &wrong);
	s->report[WRONG] += (double)(wrong * sizeof(double));
	s->report[CHECKED] = 1;
out:
	return status;
}

/* ---- timed ---------------------------------------------------------------------------------- */

/* Works, or hops, of one sample. */
static size_t repeats_of(const struct memory_session *s)
{
	const size_t repeats =
		(s->c->to != s->c->from ? LINK_SAMPLE_BYTES : SAMPLE_BYTES) / share(s);

	if (s->c->kind == BB_MEMORY_CHASE)
		return 1;
	return repeats < 1 ? 1 : repeats > SAMPLE_REPEATS ? SAMPLE_REPEATS : repeats;
}

static bb_status memory_ready(void *own)
{
	const struct memory_session *s = own;
	struct bb_group *const team = team_of(s)->group;

	return team ? s->engine.backend->barrier(team) : BB_OK;
}

static bb_status memory_operate(void *own, int64_t sample)
{
	struct memory_session *s = own;
	const enum bb_memory_work works = kinds[s->c->kind].work;
	const struct bb_spaces *spaces = s->engine.backend->spaces;
	const struct array_of *a = s->arrays;
	const bool both = bb_memory_is_both(s->c);
	const size_t repeats = repeats_of(s), bytes = share(s);
	bb_status status = BB_OK;

	if (s->c->kind == BB_MEMORY_CHASE) {
		/* Each sample begins elsewhere, warm-up ones too, so that caches do not hold what
		   it loads. */
		const int64_t number = sample < 0 ? s->engine.options->iters - sample : sample;
		const size_t stops = a[A].bytes / BB_CHASE_STRIDE;
		const size_t start =
			(size_t)((uint64_t)(number + 1) * BB_RANDOM_STEP >> 16) % stops;

		return spaces->chase(s->engine.rank, (char *)a[A].memory + start * BB_CHASE_STRIDE,
				     HOPS);
	}
	for (size_t i = 0; i < repeats && status == BB_OK; i++) {
		status = spaces->work(s->engine.rank, both ? s->queues[0] : NULL, works,
				      a[A].memory, a[B].memory, both ? NULL : a[C].memory, bytes);
		if (both && status == BB_OK)
			status = spaces->work(s->engine.rank, s->queues[1], works, a[C].memory,
					      a[D].memory, NULL, bytes);
	}
	return status;
}

static bb_status memory_finish(void *own)
{
	struct memory_session *s = own;
	bb_status status = s->engine.backend->finish(s->engine.rank, NULL);

	for (int q = 0; q < 2 && s->queues[q] && status == BB_OK; q++)
		status = s->engine.backend->finish(s->engine.rank, s->queues[q]);
	return status;
}

static bb_status memory_record_sample(void *own, int64_t sample, double begin, double seconds)
{
	struct memory_session *s = own;

	s->report[REPORT_HEAD + sample] = seconds;
	return BB_OK;
}

/* ---- results -------------------------------------------------------------------------------- */

/* With several hosts a place begins with its host. */
static void name_place(const struct memory_session *s, int place, char name[BB_TEXT])
{
	const struct bb_rank_info *const infos = s->engine.run->infos;
	char host[BB_TEXT - 16] = "";
	int rank = 0;

	while (team_of(s)->places[rank] != place)
		rank++;
	const struct bb_location *const at = &infos[rank].location;
	for (int r = 0; r < s->n && !*host; r++)
		if (infos[r].node != infos[rank].node)
			snprintf(host, sizeof(host), "%.44s ", at->host);
	if (!s->engine.backend->gpu)
		snprintf(name, BB_TEXT, "%snode %d", host, at->numa < 0 ? 0 : at->numa);
	else if (s->c->alone)
		snprintf(name, BB_TEXT, "%sGPU %d", host, at->device);
	else
		snprintf(name, BB_TEXT, "%sGPUs", host);
}

/* Work takes as long as the slowest worker of PLACE. */
static bb_status deliver(struct memory_session *s, int place, const double *reports)
{
	const struct bb_memory_case *c = s->c;
	const size_t iters = (size_t)s->engine.options->iters;
	const bool chases = c->kind == BB_MEMORY_CHASE, reads = c->kind == BB_MEMORY_READ;
	char from[BB_SPACE_TEXT], to[BB_SPACE_TEXT], at[BB_TEXT];
	struct bb_pair_record r;
	struct bb_stats stats;
	double bytes = 0; /* of an array, of all workers together */

	bb_record_init(&bb_record_pair, &r);
	r.workers = 0;
	memset(s->times, 0, iters * sizeof(*s->times));
	for (int rank = 0; rank < s->n; rank++) {
		const double *report = reports + (size_t)rank * (REPORT_HEAD + iters);

		if (report[IS_WORKER] == 0 || team_of(s)->places[rank] != place)
			continue;
		for (size_t i = 0; i < iters; i++)
			s->times[i] = fmax(s->times[i], report[REPORT_HEAD + i]);
		if (report[CHECKED] != 0)
			r.wrong = (r.wrong == BB_ABSENT ? 0 : r.wrong) + (int64_t)report[WRONG];
		r.repeats = (int64_t)report[REPEATS];
		r.workers++;
		bytes += report[BYTES];
	}
	bb_stats_compute(s->times, iters, &stats);
	name_place(s, place, at);
	s->engine.backend->spaces->name(s->engine.run->context, c->from, from);
	s->engine.backend->spaces->name(s->engine.run->context, c->to, to);
	r.quantity = chases ? "latency" : "bandwidth";
	r.ends = "memory";
	r.place = at;
	r.memory_from = c->kind == BB_MEMORY_WRITE ? NULL : chases || reads ? to : from;
	r.memory_to = chases || reads ? NULL : to;
	r.route = c->route;
	r.direction = bb_memory_is_both(c) ? "bidirectional" : "unidirectional";
	r.size_bytes = (int64_t)c->bytes;
	r.p50_us = stats.p50 * 1e6;
	r.p99_us = stats.p99 * 1e6;
	r.min_us = stats.min * 1e6;
	r.max_us = stats.max * 1e6;
	if (!chases) {
		/* A copy between two spaces counts once: the link between them carries it once. */
		const bool once = c->to != c->from && !bb_memory_is_both(c);
		const double counts = (once ? 1 : kinds[c->kind].counts) * bytes / 1e9;

		r.GBps = counts / stats.p50;
		r.low_GBps = counts / s->times[iters - 1 - iters / 4];
		r.high_GBps = counts / s->times[iters / 4];
	}
	r.rounds = 1;
	r.samples = (int64_t)iters;
	r.end_unix_s = bb_clock_unix();
	if (s->plan->complete)
		s->plan->complete(s->engine.run, c, &r);
	return bb_engine_deliver(&s->engine, &bb_record_pair, &r, r.wrong);
}

/* ---- all cases ------------------------------------------------------------------------------ */

/* The case at hand at the N places from FIRST on, at once. */
static bb_status run_at(struct memory_session *s, int first, int n)
{
	const struct kind *kind = &kinds[s->c->kind];
	const struct team *t = team_of(s);
	const size_t length = REPORT_HEAD + (size_t)s->engine.options->iters;
	const bool works = t->works && t->mine >= first && t->mine < first + n;
	const struct bb_sampling sampling = {
		.ready = memory_ready,
		.operate = memory_operate,
		.finish = memory_finish,
		.on_sample = memory_record_sample,
		.own = s,
		.warm = s->engine.options->warmup_iters,
		.samples = s->engine.options->iters,
		.operations = s->c->kind == BB_MEMORY_CHASE ? HOPS : (double)repeats_of(s)};
	char size[BB_UNIT_TEXT], what[BB_WHAT_TEXT];
	const void *all;
	bb_status status;

	snprintf(what, sizeof(what), "%s of %s", s->c->route, bb_format_size(size, s->c->bytes));
	BB_TRY(status, bb_engine_begin(&s->engine, what), out);
	memset(s->report, 0, length * sizeof(*s->report));
	s->report[IS_WORKER] = works;
	s->report[BYTES] = (double)share(s);
	s->report[REPEATS] = works ? (double)repeats_of(s) : 0;
	for (int i = 0; i < ARRAYS && works; i++)
		if (kind->before[i] != NONE)
			BB_TRY(status, open_array(s, i), out);
	if (works)
		BB_TRY(status, s->engine.backend->finish(s->engine.rank, NULL), out);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	if (works)
		BB_TRY(status, bb_engine_sample(&s->engine, &sampling), out);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	for (int i = 0; i < ARRAYS && works && s->engine.options->check > 0; i++)
		if (kind->after[i] != NONE)
			BB_TRY(status, verify_array(s, i), out);
	BB_TRY(status,
	       bb_driver_collect(s->engine.driver, &bb_payload_real, s->report, length, &all), out);
	for (int place = first; place < first + n && status == BB_OK; place++)
		if (bb_driver_leads(s->engine.driver))
			status = deliver(s, place, all);
out:
	return status;
}

static bb_status memory_run(struct bb_engine *engine)
{
	struct memory_session *s = (struct memory_session *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < s->plan->ncases && status == BB_OK; i++) {
		const struct bb_memory_case *c = s->c = &s->plan->cases[i];
		const int places = team_of(s)->nplaces;
		const int at_once = all_hosts(s, c->alone) ? places : 1;

		if (c->skip) {
			struct bb_skip_record r;

			bb_record_init(&bb_record_skip, &r);
			r.collective = "memory";
			r.algorithm = c->route;
			r.size_bytes = (int64_t)c->bytes;
			r.reason = c->skip;
			status = bb_engine_skip(engine, &r);
		}
		for (int at = 0; at < places && !c->skip && status == BB_OK; at += at_once)
			status = run_at(s, at, at_once);
		if (bb_driver_leads(engine->driver))
			bb_ticker_step(&engine->run->ticker, c->bytes);
	}
	return status;
}

const struct bb_experiment bb_memory_experiment = {
	.bytes = sizeof(struct memory_session),
	.open = memory_open,
	.run = memory_run,
	.close = memory_close,
};

/* ---- the benchmark ----------------------------------------------------------------------- */

static void close_memory(struct bb_run *run)
{
	free(plan_of(run)->cases);
}

const struct bb_benchmark bb_memory_benchmark = {
	.brief = "Bandwidth and latency of memory, from each NUMA node to each.",
	.examples = {"--work copy", "-b 1M -e 64M -f 8 --workers one"},
	.subject = &(const size_t){offsetof(struct bb_memory, plan)},
	.own_bytes = sizeof(struct bb_memory),
	.options = memory_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_SLOW | 1u << BB_FAULT_DIE,
	.check = check,
	.list = list,
	.text = &bb_sink_memory,
	.rows = &bb_record_pair,
	.plan = plan,
	.open_results = bb_memory_open_results,
	.experiment = &bb_memory_experiment,
	.close = close_memory,
};

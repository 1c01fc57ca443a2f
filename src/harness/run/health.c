/*
 * health.c - counters of hosts, and the state of GPUs, before and after a run.
 */
#include "harness/run/health.h"

#include <stdlib.h>
#include <string.h>

/* ---- counters ------------------------------------------------------------------------------ */

#define BB_RECORD bb_counter_record
BB_RECORD_KIND(bb_record_counter, BB_COUNTER_FIELDS, "counter",
	       "Before the end: a counter of a host that moved during the run; at most 24 of a "
	       "host, the gravest first.");

/* True if this process reads the counters of its host, of which none moves without data. */
static bool reads(const struct bb_run *run)
{
	return run->options.backend->has_data && bb_assembly_before(&run->assembly) == 0;
}

void bb_run_counters_begin(struct bb_run *run)
{
	if (reads(run))
		bb_counters_read(&run->counters.before, &bb_counters_here);
}

static void find_moves(const struct bb_run *run, struct bb_counter_move moves[BB_RUN_MOVES])
{
	struct bb_counters after = {.n = 0};
	size_t n = 0;

	if (reads(run)) {
		bb_counters_read(&after, &bb_counters_here);
		n = bb_counters_moved(&run->counters.before, &after, moves, BB_RUN_MOVES);
		bb_counters_free(&after);
	}
	memset(moves + n, 0, (BB_RUN_MOVES - n) * sizeof(*moves));
}

static const struct bb_payload_field move_fields[] = {
	BB_PAYLOAD_FIELD("the device", BB_PAYLOAD_TEXT, struct bb_counter_move, device),
	BB_PAYLOAD_FIELD("the counter", BB_PAYLOAD_TEXT, struct bb_counter_move, name),
	BB_PAYLOAD_FIELD("the class", BB_PAYLOAD_SIGNED, struct bb_counter_move, class,
			 .high = BB_COUNTER_NCLASSES - 1),
	BB_PAYLOAD_FIELD("the value before", BB_PAYLOAD_SIGNED, struct bb_counter_move, before,
			 .low = -INT64_MAX, .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the value after", BB_PAYLOAD_SIGNED, struct bb_counter_move, after,
			 .low = -INT64_MAX, .high = INT64_MAX),
	{.name = NULL}};
static const struct bb_payload move_table = {"a counter", sizeof(struct bb_counter_move),
					     move_fields, NULL};

bb_status bb_run_counters_gather(struct bb_run *run)
{
	struct bb_counter_move mine[BB_RUN_MOVES];
	void *all = NULL;
	bb_status status;

	if (run->launch.nprocs <= 1 || !run->options.backend->has_data)
		return BB_OK;
	find_moves(run, mine);
	status = bb_assembly_collect(&run->assembly, &move_table, mine, BB_RUN_MOVES, false, &all);
	run->counters.moves = all;
	run->counters.nprocs = all ? run->launch.nprocs : 0;
	return status;
}

/* The least move that matters. A run on one host needs no network, but a link that goes down is
   broken nevertheless. */
static const struct {
	int64_t least;
	bool alone; /* also if all ranks share a host */
} limits[BB_COUNTER_NCLASSES] = {
	[BB_COUNTER_LINK_DOWN] = {1, true},        [BB_COUNTER_SYMBOL_ERROR] = {1, true},
	[BB_COUNTER_ERROR] = {1, false},           [BB_COUNTER_DISCARD] = {100, false},
	[BB_COUNTER_RETRANSMIT] = {100, false},    [BB_COUNTER_FREQUENCY] = {INT64_MAX, false},
	[BB_COUNTER_TRAFFIC] = {INT64_MAX, false},
};
#define TCP_SHARE 1e-3 /* share of segments that a healthy network retransmits at most */

static int64_t moved(const struct bb_counter_move *m)
{
	int64_t difference;

	return __builtin_sub_overflow(m->after, m->before, &difference) ? INT64_MAX : difference;
}

/* Returns the segments that the host of MOVES sent; 0: unknown. */
static int64_t sent(const struct bb_counter_move moves[BB_RUN_MOVES])
{
	for (int i = 0; i < BB_RUN_MOVES; i++)
		if (*moves[i].device && moves[i].class == BB_COUNTER_TRAFFIC)
			return moved(&moves[i]);
	return 0;
}

static bool is_tcp_retransmit(const struct bb_counter_move *m)
{
	return m->class == BB_COUNTER_RETRANSMIT && strcmp(m->device, "tcp") == 0;
}

/* True if M matters. SEGMENTS were sent. */
static bool matters(const struct bb_counter_move *m, bool alone, int64_t segments)
{
	if (moved(m) < limits[m->class].least || (alone && !limits[m->class].alone))
		return false;
	return !is_tcp_retransmit(m) || (double)moved(m) >= TCP_SHARE * (double)segments;
}

void bb_run_counters_report(struct bb_run *run, struct bb_strbuf *text)
{
	const bool alone = bb_assembly_here(&run->assembly) == run->launch.nprocs;
	bool named = false;

	if (!run->counters.moves) {
		run->counters.moves = calloc(BB_RUN_MOVES, sizeof(*run->counters.moves));
		run->counters.nprocs = run->counters.moves ? 1 : 0;
		if (run->counters.moves)
			find_moves(run, run->counters.moves);
	}
	for (int i = 0; i < run->counters.nprocs * BB_RUN_MOVES; i++) {
		/* The moves of its host, and the first of its device and class, which moved
		   furthest. */
		const struct bb_counter_move *const m = &run->counters.moves[i];
		const struct bb_counter_move *const host_moves = m - i % BB_RUN_MOVES;
		const struct bb_counter_move *first = host_moves;
		const struct bb_member *members = run->assembly.members;
		const int64_t segments = sent(host_moves);
		const struct bb_counter_record record = {
			.host = members ? members[i / BB_RUN_MOVES].host : run->record.host,
			.device = m->device,
			.counter = m->name,
			.class = bb_counter_class_name(m->class),
			.before = m->before,
			.after = m->after,
			.moved = moved(m),
			.matters = matters(m, alone, segments),
		};

		if (!*m->device)
			continue;
		bb_sinks_record(&run->sinks, &bb_record_counter, &record);
		while (first->class != m->class || strcmp(first->device, m->device) != 0)
			first++;
		if (!record.matters || first < m)
			continue;
		if (!named)
			bb_strbuf_add(text, "# Counters that rose during the run, of the whole "
					    "host, whoever caused it:\n");
		named = true;
		bb_strbuf_addf(text, "# %s %s: %s rose by %lld (%s", record.host, m->device,
			       m->name, (long long)record.moved, record.class);
		if (is_tcp_retransmit(m) && segments > 0)
			bb_strbuf_addf(text, ", %.2g%% of the segments sent",
				       100 * (double)record.moved / (double)segments);
		bb_strbuf_add(text, ")\n");
	}
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

_Static_assert(BB_GPU_UNKNOWN == BB_ABSENT, "what the driver does not say is absent");

#undef BB_RECORD
#define BB_RECORD bb_gpu_record
BB_RECORD_KIND(bb_record_gpu, BB_GPU_FIELDS, "gpu",
	       "Before the end, for each rank whose GPU's driver answers: what may make it slow.");

struct change {
	struct bb_gpu_health before, after;
};

#define CHANGE(name, ...)                                                                          \
	BB_PAYLOAD_FIELD(#name, BB_PAYLOAD_ANY, struct change, before.name),                       \
		BB_PAYLOAD_FIELD(#name, BB_PAYLOAD_ANY, struct change, after.name),
static const struct bb_payload_field change_fields[] = {
	BB_PAYLOAD_FIELD("the driver", BB_PAYLOAD_TEXT, struct change, before.driver),
	BB_PAYLOAD_FIELD("the driver", BB_PAYLOAD_TEXT, struct change, after.driver),
	BB_GPU_STATES(CHANGE) BB_GPU_COUNTS(CHANGE){.name = NULL}};
static const struct bb_payload change_table = {"a GPU", sizeof(struct change), change_fields, NULL};

void bb_run_gpus_read(const struct bb_run *run, struct bb_driver *driver,
		      struct bb_gpu_health *health)
{
	memset(health, 0, sizeof(*health));
	if (run->options.backend->gpu)
		run->options.backend->gpu->health(driver->handle, health);
}

bb_status bb_run_gpus_report(struct bb_run *run, struct bb_driver *driver,
			     const struct bb_gpu_health *before)
{
	struct change mine = {.before = *before};
	const void *all = NULL;

	if (!run->options.backend->gpu)
		return BB_OK;
	bb_run_gpus_read(run, driver, &mine.after);
	bb_status status = bb_driver_collect(driver, &change_table, &mine, 1, &all);
	if (!bb_driver_leads(driver))
		return status;
	for (int r = 0; r < run->world.nranks && status == BB_OK; r++) {
		const struct change *const c = (const struct change *)all + r;
		const struct bb_location *const at = &run->infos[r].location;
#define STATE(member, ...) .member = c->after.member,
#define COUNT(member, ...) .member##_before = c->before.member, .member = c->after.member,
		const struct bb_gpu_record record = {.rank = r,
						     .host = at->host,
						     .bus = at->bus,
						     .driver = c->after.driver,
						     BB_GPU_STATES(STATE) BB_GPU_COUNTS(COUNT)};

		if (c->after.driver[0])
			status = bb_sinks_record(&run->sinks, &bb_record_gpu, &record);
	}
	return status;
}

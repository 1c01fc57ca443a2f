/*
 * bandwidth.c - the benchmark of memory: its options and plan.
 */
#include "memory/bandwidth/bandwidth.h"

#include "core/array.h"
#include "topology/probes/machine.h"

#include <stdlib.h>
#include <string.h>

#define CACHES 4 /* size of an array in last-level caches, as in STREAM */
#define LEAST_BYTES ((uint64_t)64 << 20)
#define MOST_ARRAYS 3
#define MOST_ITERS 100000 /* every sample is kept */

const struct bb_memory_kind_row bb_memory_kinds[BB_MEMORY_KINDS] = {
	[BB_MEMORY_READ] = {"read", BB_WORK_READ, 1},
	[BB_MEMORY_WRITE] = {"write", BB_WORK_WRITE, 1},
	[BB_MEMORY_COPY] = {"copy", BB_WORK_COPY, 2},
	[BB_MEMORY_KERNEL_COPY] = {"kernel-copy", BB_WORK_KERNEL_COPY, 2},
	[BB_MEMORY_TRIAD] = {"triad", BB_WORK_TRIAD, 3},
	[BB_MEMORY_BOTH] = {"both", BB_WORK_COPY, 2},
	[BB_MEMORY_KERNEL_BOTH] = {"kernel-both", BB_WORK_KERNEL_COPY, 2},
	[BB_MEMORY_CHASE] = {.name = "latency"},
};

static const char *const work_names[] = {"read",    "write",       "copy", "triad",
					 "latency", "kernel-copy", NULL};
static const enum bb_memory_kind works[] = {BB_MEMORY_READ,  BB_MEMORY_WRITE,
					    BB_MEMORY_COPY,  BB_MEMORY_TRIAD,
					    BB_MEMORY_CHASE, BB_MEMORY_KERNEL_COPY};
static const char *const worker_names[] = {"all", "one", "both", NULL};

#define BB_OPTIONS struct bb_memory_options
const struct bb_option bb_memory_rows[] = BB_OPTION_ROWS(BB_MEMORY_OPTIONS);

/* ---- options ------------------------------------------------------------------------------- */

/* Without -b and -e, and without a number of ranks, those that show the memory of this machine. */
static bb_status check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_memory_options *a = own;
	struct bb_machine *machine;
	bb_status status;

	if (o->backend->virtual)
		return bb_fail(
			error, BB_EUNSUPPORTED,
			"the %s backend models links, not memory, and this program measures the "
			"memory of the machine that it runs on; leave out --backend and "
			"--cluster, or use p2p_bandwidth_perf for links",
			o->backend->name);
	if (!o->backend->spaces)
		return bb_fail(error, BB_EUNSUPPORTED, "the %s backend has no memory to work on",
			       o->backend->name);
	for (int i = 0; work_names[i]; i++)
		if (a->work >> i & 1)
			a->works |= 1u << works[i];
	/* Copies between two spaces are also measured in both directions at once. */
	if (a->works & 1u << BB_MEMORY_COPY)
		a->works |= 1u << BB_MEMORY_BOTH;
	if (a->works & 1u << BB_MEMORY_KERNEL_COPY)
		a->works |= 1u << BB_MEMORY_KERNEL_BOTH;
	status = bb_machine_open(&machine, error);
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

const struct bb_memory_plan *bb_memory_plan_of(const struct bb_run *run)
{
	return (const void *)((const char *)run->own + *(const size_t *)run->benchmark->subject);
}

bb_status bb_memory_plan_add(struct bb_memory_plan *plan, struct bb_run *run,
			     struct bb_memory_case c)
{
	struct bb_memory_case *added = BB_ARRAY_ADD(plan->cases, plan->ncases, plan->room);

	if (!added)
		return bb_no_memory(&run->error, "the plan");
	if (c.bytes > run->memory / MOST_ARRAYS)
		c.skip = "its arrays do not fit into memory";
	*added = c;
	return BB_OK;
}

/* True if KIND works on spaces TO and FROM. Only a GPU copies between two spaces, and one of them
   is its own. */
static bool goes_together(bool gpu, enum bb_memory_kind kind, int to, int from)
{
	const bool by_kernel = kind == BB_MEMORY_KERNEL_COPY || kind == BB_MEMORY_KERNEL_BOTH;

	if (by_kernel && (!gpu || to > BB_SPACE_PINNED || from > BB_SPACE_PINNED))
		return false;
	if (kind == BB_MEMORY_BOTH || kind == BB_MEMORY_KERNEL_BOTH)
		return gpu && to == 0 && from > 0;
	if (!gpu)
		return to == from;
	if (kind == BB_MEMORY_CHASE)
		return to == from && to <= BB_SPACE_PINNED;
	return kind == BB_MEMORY_COPY || by_kernel ? to == 0 || from == 0 : to == 0 && from == 0;
}

static bb_status add_spaces(struct bb_run *run, int to, int from)
{
	const struct bb_options *o = &run->options;
	struct bb_memory *m = run->own;
	bb_status status = BB_OK;

	const bool only = o->backend->gpu && run->world.nranks == 1;

	for (int alone = 0; alone < 2; alone++)
		for (enum bb_memory_kind kind = 0; kind < BB_MEMORY_KINDS; kind++) {
			const enum bb_workers other = alone ? BB_WORKERS_ALL : BB_WORKERS_ONE;

			/* A chase has one worker, and a GPU that is the only rank works alone. */
			if (!(m->settings.works >> kind & 1) ||
			    (kind == BB_MEMORY_CHASE || only ? !alone
							     : m->settings.workers == (int)other) ||
			    !goes_together(o->backend->gpu, kind, to, from))
				continue;
			for (uint64_t size = o->min_bytes; size && status == BB_OK;
			     size = bb_options_next_size(o, size))
				status = bb_memory_plan_add(
					&m->plan, run,
					(struct bb_memory_case){
						kind, bb_memory_kinds[kind].name, to, from, alone,
						.bytes = size < BB_WORK_ALIGNMENT
								 ? BB_WORK_ALIGNMENT
								 : size / BB_WORK_ALIGNMENT *
									   BB_WORK_ALIGNMENT});
		}
	return status;
}

/* Spaces are outermost, so that arrays are reused. */
static bb_status plan(struct bb_run *run)
{
	const struct bb_memory *m = run->own;
	const int spaces = run->options.backend->spaces->count(run->context);
	bb_status status = BB_OK;

	for (int to = 0; to < spaces; to++)
		for (int from = 0; from < spaces && status == BB_OK; from++)
			status = add_spaces(run, to, from);
	if (status == BB_OK && m->plan.ncases == 0)
		status = bb_fail(&run->error, BB_EUNSUPPORTED,
				 "--work, --workers %s: this machine has no such case",
				 worker_names[m->settings.workers]);
	return status;
}

bb_status bb_memory_open_results(struct bb_run *run)
{
	const struct bb_memory_plan *plan = bb_memory_plan_of(run);
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->ncases; i++)
		bytes += plan->cases[i].bytes;
	bb_ticker_start(&run->ticker, plan->ncases, bytes);
	return BB_OK;
}

static void close_memory(struct bb_run *run)
{
	free(bb_memory_plan_of(run)->cases);
}

const struct bb_benchmark bb_memory_benchmark = {
	.brief = "Bandwidth and latency of memory, from each NUMA node to each.",
	.examples = {"--work copy", "-b 1M -e 64M -f 8 --workers one"},
	.subject = &(const size_t){offsetof(struct bb_memory, plan)},
	.own_bytes = sizeof(struct bb_memory),
	.options = bb_memory_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_SLOW | 1u << BB_FAULT_DIE,
	.check = check,
	.list = list,
	.open_text = bb_sink_memory_open,
	.rows = &bb_record_pair,
	.plan = plan,
	.open_results = bb_memory_open_results,
	.experiment = &bb_memory_experiment,
	.close = close_memory,
};

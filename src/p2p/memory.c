/*
 * memory.c - the benchmark of memory: its options and plan.
 */
#include "p2p/memory.h"

#include "core/array.h"
#include "topology/probes/machine.h"

#include <stdlib.h>
#include <string.h>

#define CACHES 4 /* size of an array in last-level caches, as in STREAM */
#define LEAST_BYTES ((uint64_t)64 << 20)
#define MOST_ARRAYS 3
#define MOST_ITERS 100000 /* every sample is kept */

static const char *const work_names[] = {"read",    "write",       "copy", "triad",
					 "latency", "kernel-copy", NULL};
static const enum bb_memory_kind works[] = {BB_MEMORY_READ,  BB_MEMORY_WRITE,
					    BB_MEMORY_COPY,  BB_MEMORY_TRIAD,
					    BB_MEMORY_CHASE, BB_MEMORY_KERNEL_COPY};
static const char *const worker_names[] = {"all", "one", "both", NULL};

#define BB_OPTIONS struct bb_memory_options
const struct bb_option bb_memory_rows[] = BB_OPTION_ROWS(BB_MEMORY_OPTIONS);

static const char *name_of(enum bb_memory_kind kind)
{
	static const char *const names[] = {"read",  "write", "copy",        "kernel-copy",
					    "triad", "both",  "kernel-both", "latency"};

	return names[kind];
}

double bb_memory_counts(const struct bb_memory_case *c)
{
	switch (c->kind) {
	case BB_MEMORY_COPY:
	case BB_MEMORY_KERNEL_COPY:
		return c->to == c->from ? 2 : 1;
	case BB_MEMORY_TRIAD:
		return 3;
	case BB_MEMORY_BOTH:
	case BB_MEMORY_KERNEL_BOTH:
		return 2;
	default:
		return 1;
	}
}

/* ---- options ------------------------------------------------------------------------------- */

/* Copies between two spaces are also measured in both directions at once. */
static void choose_works(struct bb_memory_options *a)
{
	for (int i = 0; work_names[i]; i++)
		if (a->work >> i & 1)
			a->works |= 1u << works[i];
	if (a->works & 1u << BB_MEMORY_COPY)
		a->works |= 1u << BB_MEMORY_BOTH;
	if (a->works & 1u << BB_MEMORY_KERNEL_COPY)
		a->works |= 1u << BB_MEMORY_KERNEL_BOTH;
}

/* Ranks and sizes that show the memory of this machine, unless they were given. */
static bb_status choose_defaults(struct bb_options *o, struct bb_error *error)
{
	const bool ranks_given = o->gpus_given || o->threads_given;
	struct bb_machine *machine;
	bb_status status = bb_machine_open(&machine, error);

	if (status != BB_OK)
		return status;
	if (!ranks_given && !o->backend->gpu)
		o->gpus = bb_machine_cores(machine) < o->backend->max_local
				  ? bb_machine_cores(machine)
				  : o->backend->max_local;
	if (!o->min_bytes_given && !o->max_bytes_given) {
		const uint64_t caches = CACHES * (uint64_t)bb_machine_l3(machine);

		o->min_bytes = o->max_bytes = caches > LEAST_BYTES ? caches : LEAST_BYTES;
	}
	bb_machine_close(machine);
	return BB_OK;
}

static bb_status check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
		       const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_memory_options *a = own;
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
	choose_works(a);
	BB_TRY(status, choose_defaults(o, error), out);
	o->iters = a->iters;
	o->config.library_optional = true;
out:
	return status;
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

static struct bb_memory *of(struct bb_run *run)
{
	return run->own;
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
static bool goes_together(const struct bb_memory *m, enum bb_memory_kind kind, int to, int from)
{
	const bool gpu = m->run->options.backend->gpu;
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

static bb_status add_sizes(struct bb_memory *m, struct bb_memory_case model)
{
	const struct bb_options *o = &m->run->options;
	bb_status status = BB_OK;

	for (uint64_t size = o->min_bytes; size && status == BB_OK;
	     size = bb_options_next_size(o, size)) {
		model.bytes = size < BB_WORK_ALIGNMENT
				      ? BB_WORK_ALIGNMENT
				      : size / BB_WORK_ALIGNMENT * BB_WORK_ALIGNMENT;
		status = bb_memory_plan_add(&m->plan, m->run, model);
	}
	return status;
}

/* Are cases wanted in which one rank of a place works, or all of them? A GPU that is the only rank
   works alone. */
static bool is_wanted(const struct bb_memory *m, bool alone)
{
	const bool only = m->run->options.backend->gpu && m->run->world.nranks == 1;

	if (only)
		return alone;
	return m->settings.workers == BB_WORKERS_BOTH ||
	       m->settings.workers == (alone ? BB_WORKERS_ONE : BB_WORKERS_ALL);
}

/* Spaces are outermost, so that arrays are reused. */
static bb_status add_spaces(struct bb_memory *m, int to, int from)
{
	bb_status status = BB_OK;

	for (int alone = 0; alone < 2; alone++)
		for (int kind = 0; kind < BB_MEMORY_KINDS && status == BB_OK; kind++) {
			if (!(m->settings.works >> kind & 1) ||
			    !goes_together(m, (enum bb_memory_kind)kind, to, from))
				continue;
			/* A chase has one worker. */
			if (kind == BB_MEMORY_CHASE ? !alone : !is_wanted(m, alone))
				continue;
			status = add_sizes(m, (struct bb_memory_case){
						      .kind = (enum bb_memory_kind)kind,
						      .route = name_of((enum bb_memory_kind)kind),
						      .to = to,
						      .from = from,
						      .alone = alone});
		}
	return status;
}

static bb_status plan(struct bb_run *run)
{
	struct bb_memory *m = of(run);
	bb_status status = BB_OK;

	m->run = run;
	m->nspaces = run->options.backend->spaces->count(run->context);
	for (int to = 0; to < m->nspaces; to++)
		for (int from = 0; from < m->nspaces && status == BB_OK; from++)
			status = add_spaces(m, to, from);
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

const struct bb_memory_plan *bb_memory_plan_of(const struct bb_run *run)
{
	const struct bb_pairs *pairs = run->own;

	return run->benchmark == &bb_memory_benchmark ? &((const struct bb_memory *)run->own)->plan
						      : pairs->host;
}

static void close_memory(struct bb_run *run)
{
	free(of(run)->plan.cases);
}

const struct bb_benchmark bb_memory_benchmark = {
	.brief = "Bandwidth and latency of memory, from each NUMA node to each.",
	.examples = {"--work copy", "-b 1M -e 64M -f 8 --workers one"},
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

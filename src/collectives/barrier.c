/*
 * barrier.c - the benchmark of barriers: cases of an all-reduce of 8 bytes, each timed alone after
 * a barrier.
 */
#include "collectives/bench.h"

#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- algorithms --------------------------------------------------------------- */

/* Numbers of --algo: the backend's barrier, then all-reduces. */
enum { BARRIER, AUTO, SCHEDULES };

static const struct bb_algorithm *barrier_schedule(int index)
{
	for (int i = 0; bb_algorithms[i]; i++)
		if (bb_algorithms[i]->collective == &bb_all_reduce && index-- == SCHEDULES)
			return bb_algorithms[i];
	return NULL;
}

static const char *barrier_algorithm(int index)
{
	const struct bb_algorithm *schedule = barrier_schedule(index);

	return index == BARRIER ? "barrier"
	       : index == AUTO  ? "auto"
	       : schedule       ? schedule->name
				: NULL;
}

#define BB_OPTIONS struct bb_collective_options
static const struct bb_option barrier_rows[] = BB_OPTION_ROWS(BB_BARRIER_OPTIONS);

static void barrier_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "barriers (--algo):\n");
	for (int index = 0; barrier_algorithm(index); index++)
		bb_strbuf_addf(out, "    %s\n", barrier_algorithm(index));
}

/* ---- the plan ---------------------------------------------------------------------------- */

/* Each barrier is timed alone, after another, in one set of buffers. */
static bb_status barrier_plan(struct bb_run *run)
{
	struct bb_bench *bench = run->own;
	struct bb_collective_options *a = &bench->settings;
	struct bb_plan *p = &bench->plan;

	a->cache = BB_CACHE_REUSE;
	a->blocking = 3;
	a->agg_iters = a->run_cycles = 1;
	bench->barriers = true;
	*p = (struct bb_plan){.settings = a,
			      .collective = &bb_all_reduce,
			      .choices = calloc(a->barriers.n, sizeof(*p->choices)),
			      .cases = calloc(a->barriers.n, sizeof(*p->cases))};
	if (!p->choices || !p->cases)
		return bb_no_memory(&run->error, "the plan");
	for (p->ncases = 0; p->ncases < a->barriers.n; p->ncases++) {
		const int index = a->barriers.list[p->ncases];

		p->choices[p->ncases] = (struct bb_choice){.name = barrier_algorithm(index),
							   .schedule = barrier_schedule(index)};
		p->cases[p->ncases] = (struct bb_case){.choice = &p->choices[p->ncases],
						       .dtype = BB_INT64,
						       .op = BB_SUM,
						       .root = BB_NO_ROOT,
						       .matrix = BB_NO_MATRIX,
						       .count = 1,
						       .size_bytes = sizeof(int64_t),
						       .barrier = index == BARRIER};
	}
	bb_fail(&run->nothing, BB_EUNSUPPORTED, "none of the barriers can be measured here");
	return BB_OK;
}

/* ---- the benchmark ----------------------------------------------------------------------- */

static void barrier_name(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_barrier_record *r = record;

	snprintf(text, BB_CELL_TEXT, strcmp(r->algorithm_asked, "auto") ? "%s" : "%s: %s",
		 r->algorithm_asked, r->algorithm);
}

static void barrier_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_barrier_record *r = record;

	bb_strbuf_addf(out, "# Barrier of %lld rank%s; a sample is one barrier\n",
		       (long long)r->nranks, bb_plural(r->nranks));
}

#define BB_RECORD bb_barrier_record
BB_RECORD_KIND(bb_record_barrier, BB_BARRIER_FIELDS, "barrier", "One kind of barrier, timed.",
	       .about = barrier_about);

const struct bb_benchmark bb_barrier_benchmark = {
	.brief = "Barriers: how long all ranks need to meet.",
	.examples = {"-g 4 -n 100 --precision 5% --max-time 1",
		     "--backend sim --cluster hgx-h100:16"},
	.own_bytes = sizeof(struct bb_bench),
	.options = barrier_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "a barrier has no size; leave it out"}},
	.list = barrier_list,
	.text = &bb_sink_table,
	.rows = &bb_record_barrier,
	.plan = barrier_plan,
	.open_results = bb_bench_open_results,
	.experiment = &bb_bench_experiment,
	.close = bb_bench_close,
};

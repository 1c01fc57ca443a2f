/*
 * benchmark.c - the benchmark of a collective: its plan, its part of the run record, its verdict.
 */
#include "collectives/bench.h"

#include "collectives/result.h"
#include "core/output.h"

#include <stdlib.h>
#include <string.h>

static struct bb_bench *of(struct bb_run *run)
{
	return run->own;
}

/* ---- --explain --------------------------------------------------------------------------- */

static bb_status show(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_bench *bench = of(run);
	bb_status status = bb_algorithms_natives(&bench->plan.natives, &bench->own_natives,
						 run->options.backend, bench->settings.algorithms,
						 &run->error);

	if (status == BB_OK)
		status = bb_estimate_open(run, &bb_record_message, bench->settings.explained_ranks,
					  bench->settings.algorithms);
	if (status == BB_OK) {
		status = bb_explanation_add(out, run, &bench->settings, bench->plan.natives);
		status = bb_estimate_end(run, out, status);
	}
	bb_sinks_close(&run->sinks);
	free(bench->own_natives);
	return status;
}

/* ---- plan --------------------------------------------------------------------------------- */

/*
 * *LEAST, *FIRST, *MOST = sizes of the smallest, the first and the largest group that runs. In
 * virtual time one group is simulated for all; with --fault only that of the first rank that it
 * concerns runs.
 */
static bb_status choose_groups(struct bb_run *run, int *least, int *first, int *most)
{
	const struct bb_options *o = &run->options;
	const struct bb_fault *fault = &o->fault;
	const struct bb_fabric_flaw *flaw = &o->virtual.flaw;
	const struct bb_split_rule *split = &of(run)->settings.split;
	const bool flawed = o->backend->virtual && o->virtual.flawed;
	const bool slow = o->backend->virtual && fault->kind == BB_FAULT_SLOW;
	const bool link = o->backend->virtual && fault->kind == BB_FAULT_SLOW_LINK;
	const int n = run->world.nranks;
	int rank = slow || link ? fault->rank : 0;

	*most = *first = *least = n;
	while (flawed && rank < n &&
	       (bb_cluster_node(o->cluster, rank) != flaw->node ||
		(flaw->rail >= 0 && bb_cluster_rail(o->cluster, rank) != flaw->rail)))
		rank++;
	if (rank == n)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--fault %s: none of the %d ranks is there; name a node and a rail "
			       "that they use",
			       o->fault_text, n);
	if (link && split->kind != BB_SPLIT_NONE &&
	    bb_split_color(split, rank) != bb_split_color(split, fault->to))
		return bb_fail(&run->error, BB_EUSAGE,
			       "--fault %s: ranks %d and %d are in different groups of the split "
			       "world, which exchange nothing; name two ranks of one group",
			       o->fault_text, rank, fault->to);
	of(run)->simulated_rank = rank;
	if (split->kind == BB_SPLIT_NONE)
		return BB_OK;
	*most = 0;
	for (int r = 0; r < n; r++) {
		const int color = bb_split_color(split, r);
		int size = 0;

		if ((flawed || slow || link) && color != bb_split_color(split, rank))
			continue;
		for (int other = 0; other < n; other++)
			size += bb_split_color(split, other) == color;
		if (*most == 0)
			*first = size;
		*least = size < *least ? size : *least;
		*most = size > *most ? size : *most;
	}
	return BB_OK;
}

static void bench_describe(const struct bb_collective_options *a,
			   const struct bb_environment *environment, struct bb_run_record *r)
{
	r->agg_iters = a->agg_iters;
	r->run_cycles = a->run_cycles;
	r->blocking = a->blocking;
	r->graph = a->cudagraph;
	r->average = a->average;
	r->unalign = a->unalign;
	r->per_iter_skip = a->per_iter_skip;
	r->per_iter_timing = a->per_iter_timing != 0;
	r->report_cputime = a->report_cputime != 0;
	r->report_timestamps = a->report_timestamps != 0;
	r->cache = bb_cache_names[a->cache];
	r->algorithms = a->algorithms;
	r->split = environment->split ? environment->split : environment->split_mask;
}

static bb_status plan(struct bb_run *run)
{
	struct bb_bench *bench = of(run);
	struct bb_plan *p = &bench->plan;
	int most;
	bb_status status;

	*p = (struct bb_plan){
		.options = &run->options,
		.settings = &bench->settings,
		.collective = run->benchmark->subject,
		.backend = run->options.backend,
		.nlocal = run->world.nlocal,
		.memory = run->memory,
	};
	run->record.collective = p->collective->name;
	bench_describe(&bench->settings, &run->environment, &run->record);
	BB_TRY(status, choose_groups(run, &p->nroots, &p->nranks, &most), out);
	if (p->backend->virtual && p->nroots != most)
		return bb_fail(&run->error, BB_EUNSUPPORTED,
			       "the %s backend simulates one group for all; these have %d to %d "
			       "ranks: split the world into groups of one size",
			       p->backend->name, p->nroots, most);
	/* The root must be in the smallest group of a split world. */
	if (p->collective->flags & BB_ROOTED)
		BB_TRY(status,
		       bb_check_rank("-r", NULL, bench->settings.root, p->nroots,
				     p->nroots < run->world.nranks ? "in the smallest group, of"
								   : "among",
				     &run->error),
		       out);
	BB_TRY(status,
	       bb_algorithms_natives(&p->natives, &bench->own_natives, p->backend,
				     bench->settings.algorithms, &run->error),
	       out);
	BB_TRY(status,
	       bb_collective_check_matrices(&bench->settings, p->nranks, most,
					    run->options.max_bytes_given ? run->options.max_bytes
									 : UINT64_MAX,
					    "-e", &run->error),
	       out);
	status = bb_plan_make(p, &run->nothing);
	/* Nothing runs: one cycle reports it. The record, made already, keeps the -N given. */
	if (p->runnable == 0)
		bench->settings.run_cycles = 1;
	/* Skips are recorded, even if there is nothing else. */
	if (status == BB_EUNSUPPORTED && p->ncases + (size_t)p->nskips > 0)
		status = BB_OK;
	if (status != BB_OK)
		bb_fail(&run->error, status, "%s", run->nothing.text);
out:
	return status;
}

/* ---- results ----------------------------------------------------------------------------- */

bb_status bb_bench_open_results(struct bb_run *run)
{
	struct bb_bench *bench = of(run);
	const struct bb_plan *p = &bench->plan;
	uint64_t bytes = 0;

	for (size_t i = 0; i < p->ncases; i++)
		bytes += p->cases[i].skip ? 0 : p->cases[i].size_bytes;
	bb_ticker_start(&run->ticker, p->ncases, bytes);
	return bb_sinks_add_new(&run->sinks, &bb_sink_nccl_json, bench->settings.output_file);
}

static bb_status judge(struct bb_run *run, const char **verdict)
{
	const struct bb_bench *bench = of(run);
	struct bb_end_record *end = &run->end;
	const double gate = bench->settings.min_bw;

	if (end->results > 0)
		end->avg_busbw_GBps = bench->busbw_sum / (double)end->results;
	if (gate > 0)
		end->min_busbw_GBps = gate;
	*verdict = "below the gate";
	return gate > 0 && end->avg_busbw_GBps < 0.9 * gate ? BB_EDATA : BB_OK;
}

static bb_status write_tuner_conf(struct bb_run *run)
{
	const struct bb_output output = {.option = "--tuner-conf",
					 .path = of(run)->settings.tuner_conf,
					 .folder = run->options.output_folder};
	const struct bb_cluster *cluster = run->options.cluster;
	struct bb_strbuf text = {0};
	int rows, nodes = 0;
	bb_status status;

	for (int r = 0; r < run->world.nranks; r++) {
		const int node = cluster ? bb_cluster_node(cluster, r) : run->infos[r].node;

		nodes = node < nodes ? nodes : node + 1;
	}
	status = bb_compare_tuner(&of(run)->results, nodes, run->world.nranks, &text, &rows);
	if (status == BB_OK)
		status = bb_output_write(&output, &text, &run->error);
	if (status == BB_OK && rows == 0)
		status = bb_sinks_comment(&run->sinks,
					  "# Warning: --tuner-conf: no rows, as it is not known "
					  "what NCCL ran; --algo all names it\n");
	bb_strbuf_free(&text);
	return status;
}

static bb_status sum_up(struct bb_run *run)
{
	bb_status status = bb_compare_records(&of(run)->results, &run->sinks);

	if (status == BB_OK && of(run)->settings.tuner_conf)
		status = write_tuner_conf(run);
	return status;
}

/* Appends the slowest path from a rank of a cluster to the next one. */
static void add_slowest_path(const struct bb_cluster *c, int n, struct bb_strbuf *out)
{
	struct bb_cluster_route slowest = {.rate = INFINITY};
	int from = -1;

	for (int r = 0; r < n; r++) {
		const struct bb_cluster_route route = bb_cluster_route(c, r, (r + 1) % n);

		if (route.rate < slowest.rate ||
		    (route.rate == slowest.rate && route.latency > slowest.latency)) {
			slowest = route;
			from = r;
		}
	}
	if (from >= 0)
		bb_strbuf_addf(out,
			       "# Slowest path between neighbours: %d -> %d over %s, %.4g GB/s "
			       "and %.3g us; p2p_bandwidth_perf shows all pairs\n",
			       from, (from + 1) % n, bb_cluster_path_name(c, slowest.path),
			       slowest.rate / 1e9, 1e6 * slowest.latency);
}

static void tell(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_cluster *cluster = run->options.cluster;
	struct bb_strbuf answers = {0};

	if (cluster && run->benchmark->subject == &bb_sendrecv && !run->record.split)
		add_slowest_path(cluster, run->world.nranks, out);
	bb_compare_text(&of(run)->results, out, &answers);
	bb_run_answer(run, &answers, 0);
	bb_strbuf_free(&answers);
	if (run->options.backend->virtual && run->record.split &&
	    run->options.fault.kind != BB_FAULT_NONE)
		bb_strbuf_addf(out,
			       "# Simulated: the group of rank %d, which --fault concerns; all "
			       "groups run at once\n",
			       of(run)->simulated_rank);
	bb_costs_text(&of(run)->results, run->options.fault_text,
		      cluster || run->options.calibrate_text, out);
	bb_groups_text(of(run)->groups, &of(run)->results, out);
}

static void free_settings(void *own)
{
	struct bb_bench *bench = own;

	bb_matrices_free(&bench->settings.matrices);
}

void bb_bench_close(struct bb_run *run)
{
	struct bb_bench *bench = of(run);

	bb_results_free(&bench->results);
	bb_groups_close(bench->groups);
	bb_plan_free(&bench->plan);
	free(bench->own_natives);
}

struct bb_benchmark bb_collective_benchmark(const struct bb_collective *collective)
{
	struct bb_benchmark benchmark = {
		.brief = collective->brief,
		.examples = {"-g 4 -b 1K -e 1M -f 4 --algo all",
			     "--backend sim --cluster hgx-h100:16 -b 64K -e 4G -f 16"},
		.subject = collective,
		.own_bytes = sizeof(struct bb_bench),
		.options = bb_collective_rows,
		.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_SLOW | 1u << BB_FAULT_DIE,
		.shows = "explain",
		.check = bb_collective_check,
		.free_options = free_settings,
		.list = bb_algorithms_list,
		.show = show,
		.text = &bb_sink_text,
		.rows = &bb_record_result,
		.plan = plan,
		.open_results = bb_bench_open_results,
		.experiment = &bb_bench_experiment,
		.judge = judge,
		.sum_up = sum_up,
		.tell = tell,
		.close = bb_bench_close,
	};

	if (!(collective->flags & BB_VARIABLE))
		benchmark.refuses[0] = (struct bb_option_refusal){
			"matrix matrix-scale",
			"the collective has no matrix of traffic; use alltoallv_perf"};
	return benchmark;
}

int bb_collective_main(int argc, char **argv, const struct bb_collective *collective)
{
	const struct bb_benchmark benchmark = bb_collective_benchmark(collective);

	return bb_main(argc, argv, &benchmark);
}

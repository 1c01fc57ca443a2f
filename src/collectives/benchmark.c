/*
 * benchmark.c - the benchmark of a collective: what --explain prints and records, its plan, its
 * part of the run record, its verdict.
 */
#include "collectives/bench.h"

#include "core/output.h"
#include "core/table.h"
#include "core/units.h"
#include "schedules/explain.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct bb_bench *of(struct bb_run *run)
{
	return run->own;
}

/* ---- --explain: records ------------------------------------------------------------------- */

#define CONTENT_COLUMNS 64 /* in a record */

struct explanation {
	struct bb_run *run;
	struct bb_strbuf *out;
	const struct bb_collective *collective;
	struct bb_shape shape;
	const char *matrix; /* its name; NULL: it has none */
	struct bb_explain_view view;
	int explained;
};

#define BB_SCHEDULE_FIELDS(FIELD)                                                                  \
	FIELD(STRING, collective, "", "what is explained")                                         \
	FIELD(STRING, algorithm, "", "algorithm of the messages that follow")                      \
	FIELD(STRING, meaning, "", "its idea in a sentence")                                       \
	FIELD(STRING, matrix, "",                                                                  \
	      "alltoallv: matrix of --matrix; null: the generated one, or none")                   \
	FIELD(BOOL, reduces, "", "ranks add up what arrives")                                      \
	FIELD(INT, nranks, "", "ranks that take part")                                             \
	FIELD(INT, root, "", "rank; null: the collective has none")                                \
	FIELD(INT, count, "elements", "count parameter of the call; 0 with --matrix")              \
	FIELD(INT, rounds, "", "rounds of the call")                                               \
	FIELD(INT, least_rounds, "", "minimum of any algorithm whose ranks send once a round")     \
	FIELD(INT, messages, "", "messages in all rounds")                                         \
	FIELD(INT, elements, "elements", "elements sent in all messages")                          \
	FIELD(INT, least_elements, "elements", "minimum of any algorithm")                         \
	FIELD(INT, busiest_elements, "elements", "elements sent by the busiest rank")              \
	FIELD(DOUBLE, traffic_elements, "elements",                                                \
	      "memory traffic in elements copied; receiving and adding one counts 1.5")

/* An algorithm for the requested ranks. */
struct bb_schedule_record {
	BB_SCHEDULE_FIELDS(BB_MEMBER)
};

#define BB_MESSAGE_FIELDS(FIELD)                                                                   \
	FIELD(STRING, collective, "", "as in the schedule")                                        \
	FIELD(STRING, algorithm, "", "as in the schedule")                                         \
	FIELD(INT, round, "", "from 1")                                                            \
	FIELD(INT, from, "", "rank that sends")                                                    \
	FIELD(INT, to, "", "rank that receives; that of from: a copy in its memory")               \
	FIELD(INT, channel, "",                                                                    \
	      "messages of a pair are in order within a channel; a double tree "                   \
	      "has one per tree")                                                                  \
	FIELD(INT, count, "elements", "length")                                                    \
	FIELD(TEXT, source, "", "where it lies at the sender, as IN[4..7]")                        \
	FIELD(TEXT, content, "", "what it is, as c0+c3=4: the sum of element 2 of ranks 0 and 3")  \
	FIELD(INT, part, "",                                                                       \
	      "number of the part of the data that it is: its first element; where nothing is "    \
	      "added, counted through the IN of all ranks")                                        \
	FIELD(BOOL, adds, "", "the receiver adds it to what it has")                               \
	FIELD(TEXT, effect, "", "what the receiver does, as OUT[2] = IN[2] + received")

/* A message of a round. */
struct bb_message_record {
	BB_MESSAGE_FIELDS(BB_MEMBER)
};

#define BB_RECORD bb_schedule_record
BB_RECORD_KIND(bb_record_schedule, BB_SCHEDULE_FIELDS, "schedule",
	       "With --explain: an algorithm for the requested ranks; its messages follow.");

#undef BB_RECORD
#define BB_RECORD bb_message_record
BB_RECORD_KIND(bb_record_message, BB_MESSAGE_FIELDS, "message",
	       "With --explain: a message of one round, or a copy within a rank.");

static bb_status record_schedule(const struct explanation *l, const struct bb_trace *trace)
{
	const struct bb_algorithm *algorithm = trace->check.algorithm;
	struct bb_strbuf answer = {0};
	struct bb_schedule_record r;
	size_t steps, wire;

	bb_record_init(&bb_record_schedule, &r);
	r.collective = l->collective->name;
	r.algorithm = algorithm->name;
	r.meaning = algorithm->meaning;
	r.matrix = l->matrix;
	r.reduces = l->collective->flags & BB_REDUCES;
	r.nranks = l->shape.nranks;
	if (l->collective->flags & BB_ROOTED)
		r.root = l->shape.root;
	r.count = (int64_t)l->shape.count;
	r.traffic_elements = bb_algorithm_cost(algorithm, &l->shape, &steps, &wire);
	r.rounds = (int64_t)steps;
	r.least_rounds = bb_trace_least(trace);
	r.messages = (int64_t)trace->sent;
	r.elements = (int64_t)trace->elements;
	r.least_elements = (int64_t)bb_trace_least_elements(trace);
	r.busiest_elements = (int64_t)wire;
	bb_strbuf_addf(&answer, "%s: %zu round%s, %zu message%s", algorithm->name, steps,
		       bb_plural((long long)steps), trace->sent, bb_plural((long long)trace->sent));
	bb_run_answer(l->run, &answer, 0);
	bb_strbuf_free(&answer);
	return bb_estimate_record(l->run, &bb_record_schedule, &r);
}

static bb_status record_message(const struct explanation *l, const struct bb_trace *trace,
				const struct bb_trace_message *m)
{
	const struct bb_symbol *first = bb_trace_content(trace, m);
	struct bb_message_record r;

	bb_record_init(&bb_record_message, &r);
	r.collective = l->collective->name;
	r.algorithm = trace->check.algorithm->name;
	r.round = (int64_t)trace->round + 1;
	r.from = m->from;
	r.to = m->to;
	r.channel = m->send.channel;
	r.count = (int64_t)m->send.count;
	bb_trace_place_text(r.source, m->send.src, m->send.count);
	bb_trace_content_text(r.content, trace, m, CONTENT_COLUMNS);
	/* The first element; where nothing is added, behind those of the ranks before. */
	r.part = (int64_t)first->index;
	for (int s = 0; !(l->collective->flags & BB_REDUCES) && !(first->ranks >> s & 1); s++)
		r.part += (int64_t)bb_collective_in(l->collective, &l->shape, s);
	r.adds = m->receipt.kind == BB_RECV_REDUCE;
	bb_trace_effect_text(r.effect, m);
	return bb_estimate_record(l->run, &bb_record_message, &r);
}

/* The totals of a schedule, then its messages in the rounds in view. */
static bb_status record_algorithm(const struct explanation *l, const struct bb_algorithm *algorithm)
{
	struct bb_trace trace;
	bb_status st;

	if (l->run->sinks.n == 0)
		return BB_OK;
	BB_TRY(st, bb_trace_open(&trace, algorithm, &l->shape, &l->run->error), out);
	BB_TRY(st, record_schedule(l, &trace), out);
	while (bb_trace_begin(&trace)) {
		const bool viewed = l->view.round == 0 || l->view.round == trace.round + 1;

		for (int i = 0; i < trace.n && viewed; i++)
			BB_TRY(st, record_message(l, &trace, &trace.messages[i]), out);
		BB_TRY(st, bb_trace_apply(&trace), out);
	}
out:
	bb_trace_close(&trace);
	return st;
}

/* ---- which algorithms ---------------------------------------------------------------------- */

static void separate(const struct explanation *l)
{
	if (l->out->length > 0)
		bb_strbuf_add(l->out, "\n");
}

static void decline(struct explanation *l, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void decline(struct explanation *l, const char *name, const char *format, ...)
{
	va_list args;

	separate(l);
	const size_t at = l->out->length;
	bb_strbuf_addf(l->out, "%s: ", name);
	va_start(args, format);
	bb_strbuf_vaddf(l->out, format, args);
	va_end(args);
	/* The first reason stays. */
	(void)bb_fail(&l->run->nothing, BB_EUNSUPPORTED, "%s", bb_strbuf_text(l->out) + at);
	bb_strbuf_add(l->out, "\n");
}

static bb_status explain(struct explanation *l, const struct bb_algorithm *algorithm)
{
	struct bb_role role;
	bb_status st;

	bb_algorithm_prepare(algorithm, &l->shape, 0, &role);
	if (l->view.round > role.rounds) {
		decline(l, algorithm->name, "only %zu round%s, no round %zu (--round)", role.rounds,
			bb_plural((long long)role.rounds), l->view.round);
		return BB_OK;
	}
	separate(l);
	l->explained++;
	BB_TRY(st, bb_explain(l->out, algorithm, &l->shape, &l->view, &l->run->error), out);
	st = record_algorithm(l, algorithm);
out:
	return st;
}

/*
 * The requested algorithms. The choice of auto is known only at run time; a classic algorithm is
 * shown instead. One without a schedule, as those of the backend, gets a line with the reason.
 */
static bb_status explain_requested(struct explanation *l)
{
	const struct bb_bench *bench = of(l->run);
	const char *const classic = l->collective == &bb_hypercube ? "hypercube" : "ring";
	const char *const backend = l->run->options.backend->name;
	const char *rest = bench->settings.algorithms;
	char name[BB_WORD];
	bb_status st = BB_OK;

	if (strcmp(rest, "all") == 0) {
		for (int i = 0; bb_algorithms[i] && st == BB_OK; i++)
			if (bb_algorithms[i]->collective == l->collective)
				st = explain(l, bb_algorithms[i]);
		return st;
	}
	if (strcmp(rest, "auto") == 0) {
		bb_strbuf_addf(l->out,
			       "auto is the backend's choice at run time; this is %s (others: "
			       "--algo NAME).\n",
			       classic);
		l->view.above = 2;
		rest = classic;
	}
	for (; st == BB_OK && bb_next_word(&rest, name); rest += *rest == ',') {
		const struct bb_algorithm *algorithm = bb_algorithm_find(l->collective, name);

		if (algorithm)
			st = explain(l, algorithm);
		else if (strcmp(name, "auto") == 0)
			decline(l, name,
				"no algorithm of its own, but the %s backend's choice at run time",
				backend);
		else if (bb_native_find(bench->plan.natives, name))
			decline(l, name, "has no schedule to explain: it is the %s backend's own",
				backend);
		else
			decline(l, name, "not an algorithm of %s, see --list", l->collective->name);
	}
	return st;
}

/*
 * Appends to OUT an explanation of every requested algorithm, with one element per chunk unless -b
 * gives more, and hands its records to the sinks of RUN. BB_EUNSUPPORTED with the first reason if
 * nothing could be explained.
 */
static bb_status explain_all(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_collective *collective = run->benchmark->subject;
	const struct bb_options *o = &run->options;
	const struct bb_collective_options *settings = &of(run)->settings;
	const struct bb_matrices *m = &settings->matrices;
	const int n = settings->explained_ranks;
	const size_t ranks = (size_t)n, share = collective->flags & BB_ROUNDED ? ranks : 1;
	struct explanation l = {.run = run,
				.out = out,
				.collective = collective,
				.shape = {.nranks = n},
				.view = {.all = settings->all, .width = bb_table_limit(stdout)}};
	size_t *matrix = NULL;
	bb_status st = BB_OK;

	if (settings->round_given)
		l.view.round = (size_t)settings->round;
	l.shape.count =
		(o->min_bytes_given ? o->min_bytes / bb_dtype_size(BB_FLOAT) : ranks) / share;
	if (collective->flags & BB_ROOTED)
		l.shape.root = settings->root;
	if (collective->flags & BB_VARIABLE) {
		l.shape.matrix = matrix = calloc(ranks * ranks, sizeof(*matrix));
		if (!matrix)
			return bb_no_memory(&run->error, "the explanation");
		/* One element could not be shared out unevenly. */
		l.shape.count = l.shape.count < 2 ? 2 : l.shape.count;
		if (m->n == 0)
			bb_alltoallv_matrix(matrix, n, l.shape.count, settings->spread);
	}
	if (m->n == 0)
		st = explain_requested(&l);
	for (size_t k = 0; k < m->n && st == BB_OK; k++) {
		l.shape.count = 0;
		l.matrix = m->names[k];
		bb_matrices_counts(m, k, n, bb_dtype_size(BB_FLOAT), matrix);
		separate(&l);
		bb_strbuf_add(out, "Matrix ");
		bb_matrices_describe(m, k, n, out);
		bb_strbuf_add(out, "\n");
		st = explain_requested(&l);
	}
	free(matrix);
	if (st == BB_OK && l.explained == 0)
		st = bb_fail(&run->error, BB_EUNSUPPORTED, "%s", run->nothing.text);
	return st;
}

static bb_status show(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_bench *bench = of(run);
	const struct bb_collective_options *a = &bench->settings;
	bb_status status;

	BB_TRY(status,
	       bb_algorithms_natives(&bench->plan.natives, &bench->own_natives,
				     run->options.backend, a->algorithms, &run->error),
	       out);
	BB_TRY(status, bb_estimate_open(run, &bb_record_message, a->explained_ranks, a->algorithms),
	       out);
	status = bb_estimate_end(run, out, explain_all(run, out));
out:
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
	if (link && split->sign && bb_split_color(split, rank) != bb_split_color(split, fault->to))
		return bb_fail(&run->error, BB_EUSAGE,
			       "--fault %s: ranks %d and %d are in different groups of the split "
			       "world, which exchange nothing; name two ranks of one group",
			       o->fault_text, rank, fault->to);
	of(run)->simulated_rank = rank;
	if (!split->sign)
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

static bb_status plan(struct bb_run *run)
{
	struct bb_bench *bench = of(run);
	struct bb_plan *p = &bench->plan;
	const struct bb_collective_options *a = &bench->settings;
	struct bb_run_record *r = &run->record;
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
	r->collective = p->collective->name;
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
	if (a->accuracy) {
		run->text = &bb_sink_table;
		run->rows = &bb_record_accuracy;
	}
	r->split = run->environment.split ? run->environment.split : run->environment.split_mask;
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

	if (end->results > 0 && !bench->settings.accuracy)
		end->avg_busbw_GBps = bench->busbw_sum / (double)end->results;
	if (gate > 0)
		end->min_busbw_GBps = gate;
	*verdict = "below the gate";
	return gate > 0 && end->avg_busbw_GBps < 0.9 * gate ? BB_EDATA : BB_OK;
}

static bb_status sum_up(struct bb_run *run)
{
	const struct bb_results *results = &of(run)->results;
	const struct bb_cluster *cluster = run->options.cluster;
	const struct bb_output output = {.option = "--tuner-conf",
					 .path = of(run)->settings.tuner_conf,
					 .folder = run->options.output_folder};
	struct bb_strbuf text = {0};
	int rows, nodes = 0;
	bb_status status = bb_compare_records(results, &run->sinks);

	if (status != BB_OK || !output.path)
		return status;
	for (int r = 0; r < run->world.nranks; r++) {
		const int node = cluster ? bb_cluster_node(cluster, r) : run->infos[r].node;

		nodes = node < nodes ? nodes : node + 1;
	}
	status = bb_compare_tuner(results, nodes, run->world.nranks, &text, &rows);
	if (status == BB_OK)
		status = bb_output_write(&output, &text, &run->error);
	if (status == BB_OK && rows == 0)
		status = bb_sinks_comment(&run->sinks,
					  "# Warning: --tuner-conf: no rows, as it is not known "
					  "what NCCL ran; --algo all names it\n");
	bb_strbuf_free(&text);
	return status;
}

static void tell(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_cluster *c = run->options.cluster;
	const bool paths = c && run->benchmark->subject == &bb_sendrecv && !run->record.split;
	const int n = run->world.nranks;
	struct bb_cluster_route slowest = {.rate = INFINITY}; /* from a rank to the next one */
	struct bb_strbuf answers = {0};
	const size_t before = out->length;
	int from = -1;

	bb_accuracy_text(of(run), out);
	bb_run_answer(run, out, before);

	for (int r = 0; paths && r < n; r++) {
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
	bb_compare_text(&of(run)->results, out, &answers);
	bb_run_answer(run, &answers, 0);
	bb_strbuf_free(&answers);
	if (run->options.backend->virtual && run->record.split &&
	    run->options.fault.kind != BB_FAULT_NONE)
		bb_strbuf_addf(out,
			       "# Simulated: the group of rank %d, which --fault concerns; all "
			       "groups run at once\n",
			       of(run)->simulated_rank);
	bb_costs_text(&of(run)->results, run->options.fault_text, c || run->options.calibrate_text,
		      out);
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
	free(bench->groups);
	free(bench->accuracies);
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
	if (!(collective->flags & BB_REDUCES))
		benchmark.refuses[!(collective->flags & BB_VARIABLE)] = (struct bb_option_refusal){
			"accuracy accuracy-ranks",
			"the collective adds nothing; use all_reduce_perf"};
	return benchmark;
}

int bb_collective_main(int argc, char **argv, const struct bb_collective *collective)
{
	const struct bb_benchmark benchmark = bb_collective_benchmark(collective);

	return bb_main(argc, argv, &benchmark);
}

/*
 * data_parallel.c - strategies of data-parallel training: options, records, the experiment and the
 * descriptor of the benchmark.
 */
#include "training_kernels/data_parallel/data_parallel.h"

#include "core/units.h"
#include "harness/measure/algorithms.h"
#include "harness/run/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_CODED_STEPS 16384
#define MOST_SIZES 32 /* numbers of ranks: 1, 2, 4, … and all */

/* ---- options --------------------------------------------------------------------------------- */

static const char *strategy_name(int index)
{
	return bb_strategies[index].name;
}

static const char *coded_name(int index)
{
	return bb_coded_strategies[index].name;
}

static const char *const colocated_names[] = {"off", "on", "both", NULL};
static const char *const server_names[] = {"aggregate", "update", NULL};

#define BB_OPTIONS struct bb_dp_options
static const struct bb_option dp_rows[] = BB_OPTION_ROWS(BB_DP_OPTIONS);

/* ---- the check ------------------------------------------------------------------------------- */

static bb_status dp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			  const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_dp *dp = own;
	struct bb_dp_options *a = &dp->options;
	const bb_status status = bb_algorithms_check_one(a->algo_text, o, error);
	bool averages = false;

	if (status != BB_OK || a->sampler_given)
		return status;
	if (!a->train_given && o->fault.kind == BB_FAULT_CORRUPT)
		return bb_fail(error, BB_EUSAGE, "--fault %s: only --train verifies data",
			       o->fault_text);
	if (a->coded.n > 0 && a->train > MOST_CODED_STEPS)
		return bb_fail(error, BB_EUSAGE,
			       "--train %jd: --coded has a program of all steps; give at most %d",
			       a->train, MOST_CODED_STEPS);
	for (size_t i = 0; i < a->strategies.n; i++)
		averages |= bb_strategies[a->strategies.list[i]].kind == BB_BY_AVERAGE;
	if (a->train_given && averages && a->train % a->every != 0)
		return bb_fail(error, BB_EUSAGE,
			       "--train %jd: average needs a multiple of --every %jd steps",
			       a->train, a->every);
	return bb_replica_open(&dp->replica, &BB_REPLICA_REQUEST(a), o, error);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void servers_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_dp_record *r = record;

	if (r->servers == BB_ABSENT)
		snprintf(text, BB_CELL_TEXT, "-");
	else if (r->colocated)
		snprintf(text, BB_CELL_TEXT, "all");
	else
		snprintf(text, BB_CELL_TEXT, "%jd", r->servers);
}

static void dp_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_dp_record *r = record;
	char batch[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %jd parameters, M = %.3f MiB of gradients (%s)\n", r->model,
		       r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	if (r->train_steps != BB_ABSENT) {
		bb_strbuf_addf(out,
			       "# Trained for %jd steps of %jd samples; nothing is timed. "
			       "#wrong: numbers that differ from one rank with all samples\n",
			       r->train_steps, r->samples);
		return;
	}
	bb_strbuf_addf(out, "# DDP %s\n", r->fit);
	bb_strbuf_addf(out, "# Batch: forward and backward %s (%s)",
		       bb_format_duration(batch, 1e-6 * r->batch_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %jd batches per step", r->batches);
	bb_strbuf_add(out,
		      "\n# k: number of servers; all: every worker is one. root, worker: memory "
		      "of a root or server, and of a worker. wire: bytes of the busiest rank\n");
}

#define BB_RECORD bb_dp_record
BB_RECORD_KIND(bb_record_strategy, BB_DP_FIELDS, "strategy",
	       "Data-parallel training: a step by one strategy.", .about = dp_about);

/* ---- variants -------------------------------------------------------------------------------- */

/* A driver's state. */
struct dp_sweep {
	struct bb_kernel kernel;
	struct bb_dp *dp;
	struct bb_link_model links;
	/* Buffers without known contents: for sends and collectives, and for receives. NULL in
	   virtual time. */
	char *out, *in;
	struct bb_strategy_setting *settings;
};

static struct dp_sweep *dp_sweep_of(const struct bb_dp_variant *v)
{
	return (struct dp_sweep *)v->variant.kernel;
}

static struct bb_dp_variant *dp_variant(const struct dp_sweep *s, size_t setting)
{
	return (struct bb_dp_variant *)bb_kernel_variant(&s->kernel, setting, 0);
}

/* Server 0: the staleness of each gradient that arrives. */
static void dp_observe(void *own, int rank, size_t index, const struct bb_operation *operation,
		       double from, double to, int source)
{
	struct bb_dp_variant *v = own;

	if (rank != 0 || operation->act != BB_ACT_RECV_ANY)
		return;
	if (index == 0) {
		v->update = 0;
		memset(v->fetched, 0, (size_t)v->setting.nranks * sizeof(*v->fetched));
	}
	const uint64_t age = v->update - v->fetched[source];
	v->fetched[source] = ++v->update;
	v->staleness[age < BB_STALENESS_MOST ? age : BB_STALENESS_MOST - 1]++;
}

static void dp_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
		       void **out)
{
	const struct dp_sweep *s = dp_sweep_of(own);

	*in = s->out;
	*out = s->in;
	if (operation->act == BB_ACT_COLLECTIVE)
		bb_kernel_in_place(operation, rank, s->out, in, out);
}

/* NULL: of --coded the backend chooses, as it has no algorithm for all of its collectives. */
static const char *algorithm_of(const struct bb_strategy *s, const struct bb_dp_options *a)
{
	return s->reduces && s->kind != BB_BY_CODES ? a->algo_text : NULL;
}

static bb_status dp_write(struct bb_variant *variant, struct bb_trial *trial, const char **refusal)
{
	struct bb_dp_variant *v = (struct bb_dp_variant *)variant;
	const struct dp_sweep *s = dp_sweep_of(v);
	const struct bb_dp_options *a = &s->dp->options;
	const struct bb_strategy *strategy = s->settings[variant->setting].strategy;

	v->setting = s->settings[variant->setting];
	v->loss = v->apart = v->gap = NAN;
	variant->subject = strategy->name;
	variant->algorithm = algorithm_of(strategy, a);
	trial->workload.stand_in = (enum bb_stand_in)a->stand_in;
	trial->workload.buffers = s->out ? dp_buffers : NULL;
	snprintf(trial->what, sizeof(trial->what), "%s of %d ranks", strategy->name,
		 v->setting.active);
	*refusal = bb_strategy_refuses(&v->setting);
	if (*refusal)
		return BB_OK;
	const bb_status status = bb_strategy_write(&variant->taped, &v->setting, a->algo_text,
						   &variant->kernel->engine.run->error);
	if (status != BB_OK || a->train_given)
		return status == BB_OK ? bb_dp_train_begin(v, trial) : status;
	if (strategy->synchronous || !strategy->servers)
		return BB_OK;
	trial->watch = (struct bb_timeline_watch){dp_observe, v};
	v->fetched =
		bb_kernel_keep(variant->kernel, (size_t)v->setting.nranks, sizeof(*v->fetched));
	return v->fetched ? BB_OK : BB_EINTERNAL;
}

/* Adds BASE on 1, 2, 4, … and all ranks, or on all ranks only; with COLOCATED servers on each of
   them. Returns the number of settings. */
static size_t add_sizes(struct dp_sweep *s, size_t n, const struct bb_strategy_setting *base)
{
	int active = s->dp->options.scale ? 1 : base->nranks;

	for (;; active = 2 * active < base->nranks ? 2 * active : base->nranks) {
		struct bb_strategy_setting *setting = &s->settings[n];

		*setting = *base;
		setting->active = active;
		setting->servers = base->colocated ? active : base->servers;
		/* Refusals of fewer ranks are not reported. */
		n += active == base->nranks || !bb_strategy_refuses(setting);
		if (active == base->nranks)
			return n;
	}
}

static bb_status dp_open(struct bb_engine *engine)
{
	struct dp_sweep *s = (struct dp_sweep *)engine;
	const struct bb_backend_config *config = &engine->run->options.config;
	const struct bb_dp *dp = s->dp = engine->run->own;
	const struct bb_dp_options *a = &dp->options;
	const struct bb_model *m = &dp->replica.model;
	const bool trains = a->train_given;
	struct bb_strategy_setting base = {
		.nranks = engine->run->world.nranks,
		.elements = trains ? BB_TRAIN_ELEMENTS : (size_t)m->parameters,
		.dtype = trains ? BB_DOUBLE : a->dtype,
		.compute_s = trains ? 0 : dp->replica.batch_s,
		.flops = (m->forward + m->backward) * (double)a->batch,
		.batches = (size_t)a->accumulate,
		.every = (size_t)a->every,
		.steps = (size_t)(trains ? a->train : a->steps),
		.updates = a->server_does == 1,
		.real = trains,
	};
	/* Parts have one length: up to one element of padding for each rank. */
	const size_t bytes = (base.elements + (size_t)base.nranks) * bb_dtype_size(base.dtype);
	size_t n = a->strategies.n * (a->servers.n + 1) * MOST_SIZES + a->coded.n;
	bb_status status = BB_OK;

	s->links = (struct bb_link_model){.rate = config->link_rate,
					  .latency = config->link_latency,
					  .port = config->link_port};
	if (!trains) {
		BB_TRY(status, bb_engine_alloc(engine, bytes, (void **)&s->out), out);
		BB_TRY(status, bb_engine_alloc(engine, bytes, (void **)&s->in), out);
	}
	s->settings = bb_kernel_keep(&s->kernel, n, sizeof(*s->settings));
	if (!s->settings)
		return BB_EINTERNAL;
	n = 0;
	for (size_t i = 0; i < a->strategies.n + a->coded.n; i++) {
		const struct bb_strategy *strategy =
			i < a->strategies.n
				? &bb_strategies[a->strategies.list[i]]
				: &bb_coded_strategies[a->coded.list[i - a->strategies.n]];
		const bool pairs = strategy->servers && strategy->synchronous;

		base.strategy = strategy;
		base.colocated = false;
		for (size_t k = 0; k < (strategy->servers ? a->servers.n : 1); k++) {
			base.servers = strategy->servers ? a->servers.list[k] : 1;
			if (!pairs || a->colocated != BB_COLOCATED_ON)
				n = add_sizes(s, n, &base);
		}
		base.colocated = true;
		if (pairs && a->colocated != BB_COLOCATED_OFF)
			n = add_sizes(s, n, &base);
	}
	status = bb_kernel_sweep(&s->kernel, n, 1, sizeof(struct bb_dp_variant), dp_write);
out:
	return status;
}

static const char *dp_formula(const struct dp_sweep *s, const struct bb_strategy *strategy)
{
	return s->links.port && strategy->shared ? strategy->shared : strategy->formula;
}

/* ---- one row --------------------------------------------------------------------------------- */

static void dp_describe(const struct bb_kernel *k, size_t setting, void *record)
{
	const struct dp_sweep *sweep = (const struct dp_sweep *)k;
	const struct bb_dp *dp = sweep->dp;
	const struct bb_dp_variant *v = dp_variant(sweep, setting);
	const struct bb_strategy_setting *s = &v->setting;
	const struct bb_strategy *strategy = s->strategy;
	const struct bb_strategy_memory memory = bb_strategy_memory(s);
	const struct bb_link_model *links = &sweep->links;
	const struct bb_trial *trial = bb_variant_trial(&v->variant);
	const double batches_us = 1e6 * s->compute_s * (double)s->batches;
	const bool trains = dp->options.train_given;
	const char *name = algorithm_of(strategy, &dp->options);
	const char *own = name ? bb_algorithm_own(name) : NULL;
	/* A library's own tree sends other bytes than the schedule of its name; rings are equal. */
	const bool differs = name && own == name && strcmp(name, "ring") != 0 &&
			     bb_native_find(k->engine.run->options.backend->natives, name);
	struct bb_dp_record *r = record;
	struct bb_error cause = {.text = ""};
	double all = 0, sum = 0, end;

	r->strategy = strategy->name;
	if (strategy->servers) {
		r->servers = s->servers;
		r->server_does = s->updates || !strategy->synchronous ? "update" : "aggregate";
	}
	r->colocated = s->colocated;
	r->nranks = s->active;
	r->workers = bb_strategy_workers(s);
	r->model = trains ? "two layers" : dp->replica.model.name;
	r->parameters = (int64_t)s->elements - trains;
	r->gradient_bytes = (int64_t)(s->elements * bb_dtype_size(s->dtype));
	r->dtype = bb_dtype_name(s->dtype);
	r->compute = trains ? "real" : bb_stand_in_names[dp->options.stand_in];
	r->batches = (int64_t)s->batches;
	if (strategy->kind == BB_BY_AVERAGE)
		r->every = (int64_t)s->every;
	r->program_steps = (int64_t)bb_strategy_steps(s);
	r->algorithm = name;
	r->most_bytes = (int64_t)memory.most;
	if (memory.worker != memory.most)
		r->worker_bytes = (int64_t)memory.worker;
	if (!name || (!differs && bb_algorithm_find(&bb_all_reduce, own)))
		r->wire_bytes = (int64_t)bb_strategy_wire(&v->variant.taped, s, own);
	if (trains) {
		r->train_steps = dp->options.train;
		r->samples = dp->options.samples;
		r->loss = v->loss;
		r->apart = v->apart;
		r->feedback_gap = v->gap;
		if (v->losses)
			r->losses = (struct bb_numbers){v->losses, s->steps};
		r->wrong = trial->wrong;
		r->end_unix_s = bb_clock_unix();
		return;
	}
	BB_FIT_SET(r, &dp->replica.fit);
	r->batch_us = 1e6 * s->compute_s;
	BB_TIMES_SET(r, step_us, trial, r->program_steps);
	r->p95_us = 1e6 / (double)r->program_steps * trial->stats.p95;
	r->exposed_us = r->step_us - batches_us;
	r->updates_per_s = 1e6 / r->step_us * (strategy->synchronous ? 1 : (double)r->workers);
	r->speedup = (double)r->workers * batches_us / r->step_us;
	r->efficiency = r->speedup / (double)r->nranks;
	if (links->port && r->wire_bytes != BB_ABSENT)
		r->port_busy = (double)r->wire_bytes / links->rate / (1e-6 * r->step_us);
	if (links->rate > 0)
		r->formula = dp_formula(sweep, strategy);
	/* The step over the links alone, whatever the backend. */
	if (links->rate > 0 &&
	    bb_timeline_program(links, &v->variant.taped.program, NULL, &end, &cause) == BB_OK) {
		r->predicted_us = 1e6 * end / (double)r->program_steps;
		r->error_percent = 100 * (r->predicted_us - r->step_us) / r->step_us;
		/* Without the rest of rounding, which has a sign. */
		if (fabs(r->error_percent) < 1e-9)
			r->error_percent = 0;
	}
	for (int age = 0; age < BB_STALENESS_MOST; age++) {
		all += v->staleness[age];
		sum += v->staleness[age] * age;
		if (v->staleness[age] > 0)
			r->staleness_most = age;
	}
	if (all > 0) {
		r->staleness_mean = sum / all;
		r->staleness = (struct bb_numbers){v->staleness, (size_t)r->staleness_most + 1};
	}
}

/* ---- notes and the best ---------------------------------------------------------------------- */

/* OWN of a candidate is its record. */
static void strategy_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
			   struct bb_strbuf *out)
{
	const struct bb_dp_record *a = ahead->own, *b = behind->own;
	char text[BB_UNIT_TEXT];

	if (b->workers < a->workers)
		bb_strbuf_addf(out, "only %jd of its %jd ranks compute", b->workers, b->nranks);
	else
		bb_strbuf_addf(out, "its step waits %s longer for communication",
			       bb_format_duration(text, 1e-6 * (b->exposed_us - a->exposed_us)));
}

static bb_status dp_deliver(struct bb_engine *engine)
{
	struct dp_sweep *s = (struct dp_sweep *)engine;
	const struct bb_dp_options *a = &s->dp->options;
	struct bb_best best = {.choice = {.subject = "strategy to reduce gradients",
					  .noise = bb_estimate_noise(engine->run),
					  .unit = " per batch",
					  .cause = strategy_cause}};
	struct bb_strbuf out = {0};

	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		const bb_status status =
			bb_kernel_deliver_setting(&s->kernel, i, &bb_record_strategy, dp_describe);

		if (status != BB_OK)
			return status;
	}
	if (a->train_given)
		bb_strbuf_add(&out, "# average and ps_async differ from one rank by design; see "
				    "apart and loss\n");
	else if (s->links.rate == 0)
		bb_strbuf_add(&out, "# Formulas need --link RATE,LATENCY[,port]\n");
	else
		bb_strbuf_add(&out, "# Formulas: C batches, M gradients, B rate, L latency, n "
				    "ranks, k servers\n");
	for (size_t i = 0; i < a->strategies.n && !a->train_given && s->links.rate > 0; i++) {
		const struct bb_strategy *strategy = &bb_strategies[a->strategies.list[i]];

		bb_strbuf_addf(&out, "#   %-9s %s\n", strategy->name, dp_formula(s, strategy));
	}
	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		const struct bb_dp_variant *v = dp_variant(s, i);
		const struct bb_strategy *strategy = v->setting.strategy;
		const bool all = v->setting.active == v->setting.nranks;
		const struct bb_dp_record *r = v->variant.record;

		if (!r)
			continue;
		if (r->staleness.n > 0)
			bb_strbuf_addf(&out,
				       "# Staleness with %jd worker%s and %jd server%s: mean "
				       "%.2f updates, maximum %jd:",
				       r->workers, bb_plural(r->workers), r->servers,
				       bb_plural(r->servers), r->staleness_mean, r->staleness_most);
		for (size_t age = 0; age < r->staleness.n; age++)
			if (r->staleness.values[age] > 0)
				bb_strbuf_addf(&out, " %zu:%.0f", age, r->staleness.values[age]);
		bb_strbuf_add(&out, r->staleness.n > 0 ? "\n" : "");
		const size_t n = r->losses.n, last = n > 4 ? 4 : n - (n > 0);
		for (size_t q = 0; q <= last && n > 0; q++) {
			const double loss = r->losses.values[last ? q * (n - 1) / last : 0];

			bb_strbuf_addf(&out, q == 0 ? "# %s: loss " : "%.0s, ", r->strategy);
			bb_strbuf_addf(&out, isnan(loss) ? "diverged" : "%.4f", loss);
		}
		if (last > 0)
			bb_strbuf_add(&out, " from the first step to the last");
		if (!isnan(r->feedback_gap))
			bb_strbuf_addf(&out, "; feedback: nothing lost beyond %.1e",
				       r->feedback_gap);
		bb_strbuf_add(&out, n > 0 ? "\n" : "");
		if (r->servers != BB_ABSENT && !r->colocated && all && r->port_busy > 0)
			bb_strbuf_addf(&out,
				       "# %s, %jd server%s: the busiest port is %.0f%% busy in "
				       "each direction\n",
				       r->strategy, r->servers, bb_plural(r->servers),
				       100 * r->port_busy);
		/* The best is one of those with the results of one rank. */
		if (!a->train_given && strategy->synchronous && all &&
		    strategy->kind != BB_BY_AVERAGE)
			bb_best_add(&best,
				    bb_best_steps(bb_variant_trial(&v->variant),
						  (double)(r->workers * r->batches), r),
				    r->servers == BB_ABSENT ? "%s"
				    : r->colocated          ? "%s with a server on every rank"
							    : "%s with %lld server%s",
				    r->strategy, (long long)r->servers, bb_plural(r->servers));
	}
	const size_t answer = out.length;
	if (!a->train_given)
		bb_best_recommend(&best, &out);
	bb_run_answer(engine->run, &out, answer);
	return bb_engine_comment_lines(engine, &out);
}

/* Compares trained models. */
static bb_status dp_gather(struct bb_engine *engine)
{
	struct dp_sweep *s = (struct dp_sweep *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < s->kernel.nvariants && status == BB_OK; i++)
		if (dp_variant(s, i)->trainee)
			status = bb_dp_train_compare(dp_variant(s, i));
	return status;
}

static const struct bb_experiment dp_experiment = {
	.bytes = sizeof(struct dp_sweep),
	.open = dp_open,
	.gather = dp_gather,
	.deliver = dp_deliver,
	.close = bb_kernel_close,
};

/* ---- the benchmark --------------------------------------------------------------------------- */

static void dp_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "strategies (--strategy):\n");
	for (const struct bb_strategy *s = bb_strategies; s->name; s++) {
		bb_strbuf_item(out, 2, s->name, 13, s->brief);
		bb_strbuf_item(out, 2, "", 13, s->formula);
		if (s->shared)
			bb_strbuf_item(out, 2, "with ports", 13, s->shared);
	}
	bb_strbuf_add(out, "with --train (--coded):\n");
	for (const struct bb_strategy *s = bb_coded_strategies; s->name; s++)
		bb_strbuf_item(out, 2, s->name, 13, s->brief);
	bb_model_list(out);
}

static bb_status dp_show(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_dp *dp = run->own;
	const struct bb_sampler sampler = {
		.samples = (size_t)dp->options.sampler,
		.nranks = bb_estimate_ranks(&run->options, &run->environment),
		.drop_last = dp->options.drop_last,
		.seed = (uint64_t)run->options.seed,
	};

	return bb_sampler_describe(&sampler, (uint64_t)dp->options.epochs, out, &run->error);
}

static bb_status dp_plan(struct bb_run *run)
{
	struct bb_dp *dp = run->own;

	run->record.algorithms = dp->options.algo_text;
	if (!dp->options.train_given)
		return bb_replica_plan(&dp->replica, run, 2, "gradients and parameters",
				       "fewer ranks, a smaller datatype or --backend sim");
	if (dp->options.samples < run->world.nranks)
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--samples %jd: fewer than the %d ranks; give at least one for each rank",
			dp->options.samples, run->world.nranks);
	return BB_OK;
}

static void dp_free(void *own)
{
	bb_model_free(&((struct bb_dp *)own)->replica.model);
}

const struct bb_benchmark bb_dp_benchmark = {
	.brief = "Data-parallel training: the same step by different strategies.",
	.examples = {"-g 5 --train 12", "--backend sim --cluster hgx-h100:16 --model gpt2"},
	.own_bytes = sizeof(struct bb_dp),
	.options = dp_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "the model's gradients are sent; leave it out, --model selects "
				   "them"}},
	.queues = true,
	.shows = "sampler",
	.check = dp_check,
	.free_options = dp_free,
	.list = dp_list,
	.show = dp_show,
	.text = &bb_sink_table,
	.rows = &bb_record_strategy,
	.plan = dp_plan,
	.experiment = &dp_experiment,
};

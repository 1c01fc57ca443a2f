/*
 * sweep.c - the experiment: a program for each strategy and setting, timed against each other or
 * trained by; and their rows.
 */
#include "core/units.h"
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A driver's state. */
struct dp_sweep {
	struct bb_kernel kernel;
	struct bb_dp *dp;
	struct bb_link_model links;
	/* Buffers without known contents: for sends and collectives, and for receives. NULL in
	   virtual time. */
	char *out, *in;
	struct bb_dp_record *rows; /* [variant], at the end */
};

static struct dp_sweep *dp_sweep_of(const struct bb_dp_variant *v)
{
	return (struct dp_sweep *)v->variant.kernel;
}

static struct bb_dp_variant *dp_variant(const struct dp_sweep *s, size_t i)
{
	return (struct bb_dp_variant *)s->kernel.variants[i];
}

static const char *dp_refusal(const struct bb_dp_variant *v)
{
	return bb_variant_trial(&v->variant)->refusal;
}

/* Server 0: the staleness of each gradient that arrives. */
static void dp_observe(void *own, int rank, size_t index, const struct bb_operation *operation,
		       double from, double to, int source)
{
	struct bb_dp_variant *c = own;
	uint64_t age;

	if (rank != 0 || operation->act != BB_ACT_RECV_ANY)
		return;
	if (index == 0) {
		c->update = 0;
		memset(c->fetched, 0, (size_t)c->setting.nranks * sizeof(*c->fetched));
	}
	age = c->update - c->fetched[source];
	c->fetched[source] = ++c->update;
	c->staleness[age < BB_STALENESS_MOST ? age : BB_STALENESS_MOST - 1]++;
}

void bb_dp_in_place(const struct bb_operation *o, int rank, void *all, void **in, void **out)
{
	char *own = (char *)all + bb_operation_bytes(o) * (size_t)rank;

	*in = o->collective == &bb_all_gather ? own : all;
	*out = o->collective == &bb_reduce_scatter ? own : all;
}

static void dp_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
		       void **out)
{
	const struct dp_sweep *s = dp_sweep_of(own);

	*in = s->out;
	*out = s->in;
	if (operation->act == BB_ACT_COLLECTIVE)
		bb_dp_in_place(operation, rank, s->out, in, out);
}

/* ---- variants -------------------------------------------------------------------------------- */

static struct bb_strategy_setting setting_of(const struct dp_sweep *s, int active)
{
	const struct bb_dp *dp = s->dp;
	const struct bb_dp_options *a = &dp->options;
	const struct bb_model *m = &dp->replica.model;

	return (struct bb_strategy_setting){
		.nranks = s->kernel.engine.run->world.nranks,
		.active = active,
		.elements = a->train_given ? BB_TRAIN_ELEMENTS : (size_t)m->parameters,
		.dtype = a->train_given ? BB_DOUBLE : a->dtype,
		.compute_s = a->train_given ? 0 : dp->replica.batch_s,
		.flops = (m->forward + m->backward) * (double)a->batch,
		.batches = (size_t)a->accumulate,
		.every = (size_t)a->every,
		.steps = a->train_given ? (size_t)a->train : (size_t)a->steps,
		.servers = 1,
		.updates = a->server_does == 1,
		.real = a->train_given,
	};
}

static void dp_release(struct bb_variant *v)
{
	bb_taped_free(&((struct bb_dp_variant *)v)->program.taped);
}

static bb_status dp_add(struct dp_sweep *s, const struct bb_strategy *strategy,
			const struct bb_strategy_setting *setting)
{
	const struct bb_dp_options *a = &s->dp->options;
	const char *reason = strategy->refuses ? strategy->refuses(setting) : NULL;
	struct bb_dp_variant *v;
	struct bb_trial trial = {.workload = {.stand_in = (enum bb_stand_in)a->stand_in,
					      .buffers = s->out ? dp_buffers : NULL}};
	bb_status status = BB_OK;

	/* Refusals of fewer ranks are not reported. */
	if (reason && setting->active < setting->nranks)
		return BB_OK;
	v = bb_variant_new(&s->kernel, sizeof(*v));
	if (!v)
		return BB_EINTERNAL;
	v->variant.release = dp_release;
	v->strategy = strategy;
	v->setting = *setting;
	v->wrong = BB_ABSENT;
	v->loss = v->apart = NAN;
	trial.workload.program = &v->program.taped.program;
	if (!reason)
		BB_TRY(status,
		       bb_strategy_program_make(&v->program, strategy, setting, a->algo_text,
						&s->kernel.engine.run->error),
		       out);
	if (!reason && a->train_given)
		BB_TRY(status, bb_dp_train_add(v, &trial), out);
	if (!strategy->synchronous && strategy->servers && !a->train_given) {
		trial.watch = (struct bb_timeline_watch){dp_observe, v};
		v->fetched =
			bb_kernel_keep(&s->kernel, (size_t)setting->nranks, sizeof(*v->fetched));
		if (!v->fetched)
			return BB_EINTERNAL;
	}
	status = bb_variant_add(&v->variant, &trial, reason, "%s of %d ranks", strategy->name,
				setting->active);
out:
	return status;
}

/* With 1, 2, 4, … and all ranks, or with all ranks only; SERVERS 0: colocated. */
static bb_status dp_add_sizes(struct dp_sweep *s, const struct bb_strategy *strategy, int servers)
{
	const int nranks = s->kernel.engine.run->world.nranks;
	bb_status status = BB_OK;
	int active = s->dp->options.scale ? 1 : nranks;

	for (; status == BB_OK; active = 2 * active < nranks ? 2 * active : nranks) {
		struct bb_strategy_setting setting = setting_of(s, active);

		setting.colocated = servers == 0;
		setting.servers = servers == 0 ? active : servers;
		status = dp_add(s, strategy, &setting);
		if (active == nranks)
			break;
	}
	return status;
}

static bb_status dp_add_strategy(struct dp_sweep *s, const struct bb_strategy *strategy)
{
	const struct bb_dp_options *a = &s->dp->options;
	bb_status status = BB_OK;

	if (!strategy->servers)
		return dp_add_sizes(s, strategy, 1);
	if (a->colocated != BB_COLOCATED_ON || !strategy->synchronous)
		for (size_t i = 0; i < a->servers.n && status == BB_OK; i++)
			status = dp_add_sizes(s, strategy, a->servers.list[i]);
	if (a->colocated != BB_COLOCATED_OFF && strategy->synchronous && status == BB_OK)
		status = dp_add_sizes(s, strategy, 0);
	return status;
}

static bb_status dp_open(struct bb_engine *engine)
{
	const struct bb_backend_config *config = &engine->run->options.config;
	struct dp_sweep *s = (struct dp_sweep *)engine;
	const struct bb_dp_options *a;
	struct bb_strategy_setting all;
	size_t bytes;
	bb_status status = BB_OK;

	s->dp = engine->run->own;
	a = &s->dp->options;
	s->links = (struct bb_link_model){.rate = config->link_rate,
					  .latency = config->link_latency,
					  .port = config->link_port};
	all = setting_of(s, engine->run->world.nranks);
	/* Parts have one length: up to one element of padding for each rank. */
	bytes = (all.elements + (size_t)all.nranks) * bb_dtype_size(all.dtype);
	if (!a->train_given) {
		BB_TRY(status, bb_engine_alloc(engine, bytes, (void **)&s->out), out);
		BB_TRY(status, bb_engine_alloc(engine, bytes, (void **)&s->in), out);
	}
	for (size_t i = 0; i < a->strategies.n; i++)
		BB_TRY(status, dp_add_strategy(s, bb_strategies[a->strategies.list[i]]), out);
out:
	return status;
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Does a rank send the bytes of the schedule with this name? A library's own tree differs; rings
   are equal. */
static bool sends_as_schedule(const struct bb_dp_variant *c)
{
	const char *name = dp_sweep_of(c)->dp->options.algo_text, *own = bb_algorithm_own(name);
	const struct bb_native *native = c->variant.kernel->engine.run->options.backend->natives;

	for (; own == name && native->name && strcmp(name, "ring") != 0; native++)
		if (strcmp(native->name, name) == 0)
			return false;
	return bb_algorithm_find(&bb_all_reduce, own) != NULL;
}

static void dp_describe(struct bb_dp_record *r, const struct bb_dp_variant *c)
{
	const struct bb_dp *dp = dp_sweep_of(c)->dp;
	const struct bb_strategy_setting *s = &c->setting;
	const struct bb_strategy_memory memory = c->strategy->memory(s);

	r->way = c->strategy->name;
	if (c->strategy->servers) {
		r->servers = s->servers;
		r->server_does = s->updates || !c->strategy->synchronous ? "update" : "aggregate";
	}
	r->colocated = s->colocated;
	r->nranks = s->active;
	r->workers = bb_strategy_workers(c->strategy, s);
	r->model = dp->options.train_given ? "two layers" : dp->replica.model.name;
	r->parameters = (int64_t)s->elements - dp->options.train_given;
	r->gradient_bytes = (int64_t)(s->elements * bb_dtype_size(s->dtype));
	if (!dp->options.train_given)
		BB_FIT_SET(r, &dp->replica.fit);
	r->dtype = bb_dtype_name(s->dtype);
	r->compute = dp->options.train_given ? "real" : bb_stand_in_names[dp->options.stand_in];
	r->batches = (int64_t)s->batches;
	if (c->strategy == &bb_strategy_average)
		r->every = (int64_t)s->every;
	r->program_steps = (int64_t)bb_strategy_steps(c->strategy, s);
	r->algorithm = c->strategy->reduces ? dp->options.algo_text : NULL;
	r->most_bytes = (int64_t)memory.most;
	if (memory.worker != memory.most)
		r->worker_bytes = (int64_t)memory.worker;
	if (!c->strategy->reduces || sends_as_schedule(c))
		r->wire_bytes = (int64_t)bb_strategy_wire(&c->program,
							  bb_algorithm_own(dp->options.algo_text));
}

/* The step over the links alone, whatever the backend. */
static void dp_simulate(struct bb_dp_record *r, const struct bb_dp_variant *c)
{
	const struct bb_link_model *links = &dp_sweep_of(c)->links;
	struct bb_error cause = {.text = ""};
	double end;

	if (links->rate == 0)
		return;
	r->formula =
		links->port && c->strategy->shared ? c->strategy->shared : c->strategy->formula;
	if (bb_timeline_program(links, &c->program.taped.program, NULL, &end, &cause) != BB_OK)
		return;
	r->predicted_us = 1e6 * end / (double)bb_strategy_steps(c->strategy, &c->setting);
	r->error_percent = 100 * (r->predicted_us - r->step_us) / r->step_us;
	/* Without the rest of rounding, which has a sign. */
	if (fabs(r->error_percent) < 1e-9)
		r->error_percent = 0;
}

static void dp_measure(struct bb_dp_record *r, const struct bb_dp_variant *c)
{
	const struct bb_link_model *links = &dp_sweep_of(c)->links;
	const struct bb_trial *trial = bb_variant_trial(&c->variant);
	const double steps = (double)bb_strategy_steps(c->strategy, &c->setting);
	const double batches_us = 1e6 * c->setting.compute_s * (double)c->setting.batches;

	r->batch_us = 1e6 * c->setting.compute_s;
	BB_TIMES_SET(r, step_us, trial, steps);
	r->p95_us = 1e6 / steps * trial->stats.p95;
	r->exposed_us = r->step_us - batches_us;
	r->updates_per_s = 1e6 / r->step_us * (c->strategy->synchronous ? 1 : (double)r->workers);
	r->speedup = (double)r->workers * batches_us / r->step_us;
	r->efficiency = r->speedup / (double)r->nranks;
	if (links->port && r->wire_bytes != BB_ABSENT)
		r->port_busy = (double)r->wire_bytes / links->rate / (1e-6 * r->step_us);
	dp_simulate(r, c);
}

static void dp_fill(struct bb_dp_record *r, const struct bb_dp_variant *c)
{
	const struct bb_dp_options *a = &dp_sweep_of(c)->dp->options;

	bb_record_init(&bb_record_strategy, r);
	dp_describe(r, c);
	if (!a->train_given) {
		double all = 0, sum = 0;

		dp_measure(r, c);
		for (int age = 0; age < BB_STALENESS_MOST; age++) {
			all += c->staleness[age];
			sum += c->staleness[age] * age;
			if (c->staleness[age] > 0)
				r->staleness_most = age;
		}
		if (all == 0)
			return;
		r->staleness_mean = sum / all;
		r->staleness = (struct bb_numbers){c->staleness, (size_t)r->staleness_most + 1};
		return;
	}
	r->train_steps = a->train;
	r->samples = a->samples;
	r->loss = c->loss;
	r->apart = c->apart;
	r->wrong = c->wrong;
	r->end_unix_s = bb_clock_unix();
}

/* ---- notes ----------------------------------------------------------------------------------- */

static void add_formulas(const struct dp_sweep *s, struct bb_strbuf *out)
{
	if (s->links.rate == 0) {
		bb_strbuf_add(out, "# Formulas need --link RATE,LATENCY[,port]\n");
		return;
	}
	bb_strbuf_add(
		out, "# Formulas: C batches, M gradients, B rate, L latency, n ranks, k servers\n");
	for (size_t i = 0; i < s->dp->options.strategies.n; i++) {
		const struct bb_strategy *strategy =
			bb_strategies[s->dp->options.strategies.list[i]];

		bb_strbuf_addf(out, "#   %-9s %s\n", strategy->name,
			       s->links.port && strategy->shared ? strategy->shared
								 : strategy->formula);
	}
}

static void add_staleness(const struct bb_dp_record *r, struct bb_strbuf *out)
{
	bb_strbuf_addf(out,
		       "# Staleness with %lld worker%s and %lld server%s: mean %.2f updates, "
		       "maximum %lld:",
		       (long long)r->workers, bb_plural(r->workers), (long long)r->servers,
		       bb_plural(r->servers), r->staleness_mean, (long long)r->staleness_most);
	for (size_t age = 0; age < r->staleness.n; age++)
		if (r->staleness.values[age] > 0)
			bb_strbuf_addf(out, " %zu:%.0f", age, r->staleness.values[age]);
	bb_strbuf_add(out, "\n");
}

/* ---- the best -------------------------------------------------------------------------------- */

/* OWN of a candidate is its record. */
static void way_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		      struct bb_strbuf *out)
{
	const struct bb_dp_record *a = ahead->own, *b = behind->own;
	char text[BB_UNIT_TEXT];

	if (b->workers < a->workers)
		bb_strbuf_addf(out, "only %lld of its %lld ranks compute", (long long)b->workers,
			       (long long)b->nranks);
	else
		bb_strbuf_addf(out, "its step waits %s longer for communication",
			       bb_format_duration(text, 1e-6 * (b->exposed_us - a->exposed_us)));
}

/* The way of all ranks with the shortest step for each batch, of those with the results of one
   rank. */
static void add_best(const struct dp_sweep *s, struct bb_strbuf *out)
{
	struct bb_best best = {.choice = {.subject = "way to reduce gradients",
					  .noise = bb_estimate_noise(s->kernel.engine.run),
					  .unit = " per batch",
					  .cause = way_cause}};

	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		const struct bb_dp_variant *v = dp_variant(s, i);
		const struct bb_dp_record *r = &s->rows[i];
		const double batches = 1e6 * (double)r->workers * (double)r->batches;
		const struct bb_candidate step = {.seconds = r->step_us / batches,
						  .low = r->low_us / batches,
						  .high = r->high_us / batches,
						  .own = r};

		if (dp_refusal(v) || !v->strategy->synchronous ||
		    v->strategy == &bb_strategy_average ||
		    v->setting.active != s->kernel.engine.run->world.nranks)
			continue;
		bb_best_add(&best, step,
			    r->servers == BB_ABSENT ? "%s"
			    : r->colocated          ? "%s with a server on every rank"
						    : "%s with %lld server%s",
			    r->way, (long long)r->servers, bb_plural(r->servers));
	}
	bb_best_recommend(&best, out);
}

static bb_status deliver_notes(struct dp_sweep *s)
{
	struct bb_strbuf out = {0};
	size_t answer;

	if (!s->dp->options.train_given)
		add_formulas(s, &out);
	else
		bb_strbuf_add(
			&out,
			"# average and ps_async differ from one rank by design; see apart and "
			"loss\n");
	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		const struct bb_dp_record *r = &s->rows[i];

		if (dp_refusal(dp_variant(s, i)))
			continue;
		if (r->staleness.n > 0)
			add_staleness(r, &out);
		if (r->servers != BB_ABSENT && !r->colocated &&
		    r->nranks == s->kernel.engine.run->world.nranks && r->port_busy > 0)
			bb_strbuf_addf(&out,
				       "# %s, %lld server%s: the busiest port is %.0f%% busy in "
				       "each direction\n",
				       r->way, (long long)r->servers, bb_plural(r->servers),
				       100 * r->port_busy);
	}
	answer = out.length;
	if (!s->dp->options.train_given)
		add_best(s, &out);
	bb_run_answer(s->kernel.engine.run, &out, answer);
	return bb_engine_comment_lines(&s->kernel.engine, &out);
}

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status dp_deliver(struct bb_engine *engine)
{
	struct dp_sweep *s = (struct dp_sweep *)engine;
	bb_status status = BB_OK;

	s->rows = bb_kernel_keep(&s->kernel, s->kernel.nvariants, sizeof(*s->rows));
	if (!s->rows)
		return BB_EINTERNAL;
	for (size_t i = 0; i < s->kernel.nvariants && status == BB_OK; i++) {
		const struct bb_dp_variant *v = dp_variant(s, i);

		if (dp_refusal(v)) {
			status = bb_engine_skip_subject(
				engine, v->strategy->name,
				v->strategy->reduces ? s->dp->options.algo_text : NULL, NULL,
				dp_refusal(v));
			continue;
		}
		dp_fill(&s->rows[i], v);
		status = bb_engine_deliver(engine, &bb_record_strategy, &s->rows[i],
					   s->rows[i].wrong);
	}
	return status == BB_OK ? deliver_notes(s) : status;
}

/* Compares trained models. */
static bb_status dp_gather(struct bb_engine *engine)
{
	struct dp_sweep *s = (struct dp_sweep *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < s->kernel.nvariants && status == BB_OK; i++)
		if (s->dp->options.train_given && !dp_refusal(dp_variant(s, i)))
			status = bb_dp_train_compare(dp_variant(s, i));
	return status;
}

const struct bb_experiment bb_dp_experiment = {
	.bytes = sizeof(struct dp_sweep),
	.open = dp_open,
	.gather = dp_gather,
	.deliver = dp_deliver,
	.close = bb_kernel_close,
};

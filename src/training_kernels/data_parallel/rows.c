/*
 * rows.c - the results of strategies: rows and notes.
 */
#include "core/clock.h"
#include "core/units.h"
#include "core/recommend.h"
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/kernel/estimate.h"

#include <stdlib.h>
#include <string.h>

/* ---- one row --------------------------------------------------------------------------------- */

/* Does a rank send the bytes of the schedule with this name? A library's own tree differs; rings
   are equal. */
static bool sends_as_schedule(const struct bb_dp_cell *c)
{
	const char *name = c->sweep->dp->options.algo_text, *own = bb_algorithm_own(name);
	const struct bb_native *native = c->sweep->engine.run->options.backend->natives;

	for (; own == name && native->name && strcmp(name, "ring") != 0; native++)
		if (strcmp(native->name, name) == 0)
			return false;
	return bb_algorithm_find(&bb_all_reduce, own) != NULL;
}

static void dp_describe(struct bb_dp_record *r, const struct bb_dp_cell *c)
{
	const struct bb_dp *dp = c->sweep->dp;
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
	r->end_unix_s = bb_clock_unix();
}

static void dp_predict(struct bb_dp_record *r, const struct bb_dp_cell *c)
{
	const struct bb_dp_sweep *s = c->sweep;
	const bool ring = strcmp(bb_algorithm_own(s->dp->options.algo_text), "ring") == 0;

	if (s->links.rate == 0 || (c->strategy->reduces && !ring))
		return;
	r->formula =
		s->links.port && c->strategy->shared ? c->strategy->shared : c->strategy->formula;
	r->predicted_us = 1e6 * c->strategy->seconds(&c->setting, &s->links);
	r->error_percent = 100 * (r->predicted_us - r->step_us) / r->step_us;
	/* Without the rest of rounding, which has a sign. */
	if (fabs(r->error_percent) < 1e-9)
		r->error_percent = 0;
}

static void dp_measure(struct bb_dp_record *r, const struct bb_dp_cell *c,
		       const struct bb_stats *stats)
{
	const struct bb_dp_sweep *s = c->sweep;
	const double us = 1e6 / (double)bb_strategy_steps(c->strategy, &c->setting);
	const double batches_us = 1e6 * c->setting.compute_s * (double)c->setting.batches;

	r->batch_us = 1e6 * c->setting.compute_s;
	r->step_us = us * stats->p50;
	r->low_us = us * stats->ci_low;
	r->high_us = us * stats->ci_high;
	r->p95_us = us * stats->p95;
	r->samples = (int64_t)stats->n;
	r->exposed_us = r->step_us - batches_us;
	r->updates_per_s = 1e6 / r->step_us * (c->strategy->synchronous ? 1 : (double)r->workers);
	r->speedup = (double)r->workers * batches_us / r->step_us;
	r->efficiency = r->speedup / (double)r->nranks;
	if (s->links.port && r->wire_bytes != BB_ABSENT)
		r->port_busy = (double)r->wire_bytes / s->links.rate / (1e-6 * r->step_us);
	dp_predict(r, c);
}

static void describe_staleness(struct bb_dp_record *r, const struct bb_dp_cell *c)
{
	double all = 0, sum = 0;

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
}

static void dp_fill(struct bb_dp_record *r, const struct bb_dp_cell *c,
		    const struct bb_trial *trial)
{
	const struct bb_dp_options *a = &c->sweep->dp->options;

	bb_record_init(&bb_record_strategy, r);
	dp_describe(r, c);
	if (!a->train_given) {
		dp_measure(r, c, &trial->stats);
		describe_staleness(r, c);
		return;
	}
	r->train_steps = a->train;
	r->samples = a->samples;
	r->loss = c->loss;
	r->apart = c->apart;
	r->wrong = c->wrong;
}

/* ---- notes ----------------------------------------------------------------------------------- */

static void add_formulas(const struct bb_dp_sweep *s, struct bb_strbuf *out)
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

static void dp_add_notes(const struct bb_dp_sweep *s, size_t i, struct bb_strbuf *out)
{
	struct bb_dp_record r;

	if (s->engine.trials[i].refusal)
		return;
	dp_fill(&r, &s->cells[i], &s->engine.trials[i]);
	if (r.staleness.n > 0)
		add_staleness(&r, out);
	if (s->cells[i].strategy->servers && !r.colocated &&
	    r.nranks == s->engine.run->world.nranks && r.port_busy > 0)
		bb_strbuf_addf(out,
			       "# %s, %lld server%s: the busiest port is %.0f%% busy in each "
			       "direction\n",
			       r.way, (long long)r.servers, bb_plural(r.servers),
			       100 * r.port_busy);
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
static void add_best(const struct bb_dp_sweep *s, struct bb_strbuf *out)
{
	struct bb_dp_record *records = calloc(s->engine.ntrials, sizeof(*records));
	struct bb_candidate *list = calloc(s->engine.ntrials, sizeof(*list));
	struct bb_recommendation choice = {.subject = "way to reduce gradients",
					   .noise = bb_estimate_noise(s->engine.run),
					   .unit = " per batch",
					   .list = list,
					   .cause = way_cause};

	for (size_t i = 0; i < s->engine.ntrials && records && list; i++) {
		const struct bb_dp_cell *cell = &s->cells[i];
		struct bb_dp_record *r = &records[choice.n];
		struct bb_candidate *c = &list[choice.n];
		double batches;

		if (s->engine.trials[i].refusal || !cell->strategy->synchronous ||
		    cell->strategy == &bb_strategy_average ||
		    cell->setting.active != s->engine.run->world.nranks)
			continue;
		dp_fill(r, cell, &s->engine.trials[i]);
		batches = 1e6 * (double)r->workers * (double)r->batches;
		*c = (struct bb_candidate){.seconds = r->step_us / batches,
					   .low = r->low_us / batches,
					   .high = r->high_us / batches,
					   .own = r};
		if (r->servers == BB_ABSENT)
			snprintf(c->name, sizeof(c->name), "%s", r->way);
		else if (r->colocated)
			snprintf(c->name, sizeof(c->name), "%s with a server on every rank",
				 r->way);
		else
			snprintf(c->name, sizeof(c->name), "%s with %lld server%s", r->way,
				 (long long)r->servers, bb_plural(r->servers));
		choice.n++;
	}
	bb_recommend(&choice, out);
	out->failed |= !records || !list;
	free(records);
	free(list);
}

static bb_status deliver_notes(struct bb_dp_sweep *s)
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
	for (size_t i = 0; i < s->engine.ntrials; i++)
		dp_add_notes(s, i, &out);
	answer = out.length;
	if (!s->dp->options.train_given)
		add_best(s, &out);
	bb_run_answer(s->engine.run, &out, answer);
	return bb_engine_comment_lines(&s->engine, &out);
}

/* ---- delivery -------------------------------------------------------------------------------- */

static bb_status deliver_skip(struct bb_dp_sweep *s, size_t i)
{
	const struct bb_strategy *strategy = s->cells[i].strategy;

	return bb_engine_skip_subject(&s->engine, strategy->name,
				      strategy->reduces ? s->dp->options.algo_text : NULL, NULL,
				      s->engine.trials[i].refusal);
}

static bb_status deliver_row(struct bb_dp_sweep *s, size_t i)
{
	struct bb_dp_record r;

	dp_fill(&r, &s->cells[i], &s->engine.trials[i]);
	return bb_engine_deliver(&s->engine, &bb_record_strategy, &r, r.wrong);
}

bb_status bb_dp_deliver(struct bb_engine *engine)
{
	struct bb_dp_sweep *s = (struct bb_dp_sweep *)engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < engine->ntrials && status == BB_OK; i++)
		status = engine->trials[i].refusal ? deliver_skip(s, i) : deliver_row(s, i);
	return status == BB_OK ? deliver_notes(s) : status;
}

/*
 * rows.c - the results of a sweep.
 */
#include "core/clock.h"
#include "core/units.h"
#include "core/recommend.h"
#include "training_kernels/ddp/sweep.h"
#include "training_kernels/estimate.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_SEEN 0.01 /* of a step: shorter reductions are not judged */

/* A row in the making. */
struct row {
	const struct bb_ddp_layout *size;
	const struct bb_ddp_trial *trial; /* the step, of all sizes with the same buckets */
	const struct bb_stats *stats;     /* of that trial */
	struct bb_ddp_record record;
	double *numbers; /* four of each bucket; owned */
};

struct rows {
	struct bb_ddp_sweep *sweep;
	struct row *list;
	size_t n;
	double *ready_s; /* scratch, of each tensor */
};

/* The first trial of PART by an algorithm with buckets of size number CAP. The broadcast is for one
   size alone. */
static const struct bb_ddp_trial *trial_find(const struct bb_ddp_sweep *s, enum bb_ddp_part part,
					     size_t cap, size_t algorithm)
{
	for (size_t i = 0; i < s->engine.ntrials; i++) {
		const struct bb_ddp_trial *t = &s->list[i];

		if (t->part == part && (t->cap == cap || part == BB_DDP_START) &&
		    t->algorithm == algorithm)
			return t;
	}
	return NULL;
}

/* The engine's trial of T. */
static const struct bb_trial *measured(const struct bb_ddp_sweep *s, const struct bb_ddp_trial *t)
{
	return &s->engine.trials[t - s->list];
}

/* The reduction of each bucket alone. */
static void settle_reductions(struct bb_ddp_stamps *stamps)
{
	double seconds[BB_ENGINE_MOST_ROUNDS];

	for (size_t k = 0; k < stamps->nbuckets; k++) {
		const double *end = stamps->ends + k * BB_ENGINE_MOST_ROUNDS;

		for (int r = 0; r < stamps->rounds; r++)
			seconds[r] = end[r] - (k > 0 ? end[r - BB_ENGINE_MOST_ROUNDS] : 0);
		stamps->reduce_s[k] = bb_stats_median(seconds, (size_t)stamps->rounds);
	}
}

/* Watched rounds become medians. */
static void stamps_settle(struct bb_ddp_sweep *s)
{
	for (size_t i = 0; i < s->engine.ntrials; i++) {
		struct bb_ddp_stamps *stamps = &s->list[i].stamps;

		if (s->list[i].part == BB_DDP_REDUCTIONS)
			settle_reductions(stamps);
		stamps->backward_s[0] = bb_stats_median(stamps->backward_s, (size_t)stamps->rounds);
	}
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Is ROW of a size with the same buckets as an earlier one? */
static bool row_repeats(const struct rows *rows, const struct row *row)
{
	return row->size != &rows->sweep->caps[row->trial->cap];
}

/* The fields that follow from the request. */
static void row_describe(const struct rows *rows, struct row *row)
{
	const struct bb_ddp_sweep *s = rows->sweep;
	struct bb_ddp_record *r = &row->record;

	bb_ddp_describe(s->ddp, s->engine.run->world.nranks, r);
	bb_model_ready(&s->ddp->model, s->backward_s, rows->ready_s);
	bb_ddp_describe_cap(r, &row->size->cap, rows->ready_s, row->numbers);
	if (row_repeats(rows, row))
		r->measured_as = s->caps[row->trial->cap].cap.name;
	r->compute = bb_stand_in_names[s->ddp->options.stand_in];
	r->algorithm = s->ddp->options.algorithms[row->trial->algorithm];
	r->overlap = row->trial->overlap ? "on" : "off";
}

static double reduce_seconds(void *own, size_t bucket, uint64_t bytes)
{
	return ((const struct bb_ddp_stamps *)own)->reduce_s[bucket];
}

/* The step model, from the parts as measured alone. */
static struct bb_train_step row_predict(const struct rows *rows, const struct row *row,
					const struct bb_ddp_trial *alone,
					const struct bb_ddp_trial *reductions)
{
	const struct bb_ddp_sweep *s = rows->sweep;
	const double all_s = measured(s, alone)->stats.p50,
		     backward_s = alone->stamps.backward_s[0];
	const struct bb_step_request request = {
		/* All forward passes, and all backward passes but the last. */
		.compute = {all_s - backward_s, backward_s, rows->ready_s},
		.buckets = &s->caps[row->trial->cap].cap.buckets,
		.overlap = row->trial->overlap,
		.accumulate = 1,
		.reduce = reduce_seconds,
		.own = (void *)&reductions->stamps,
	};

	bb_model_ready(&s->ddp->model, backward_s, rows->ready_s);
	return bb_step_model(&request, NULL);
}

static void row_measure(const struct rows *rows, struct row *row)
{
	const struct bb_ddp_sweep *s = rows->sweep;
	const struct bb_ddp_trial *step = row->trial;
	const struct bb_ddp_trial *alone = trial_find(s, BB_DDP_ALONE, 0, 0);
	const struct bb_ddp_trial *reductions =
		trial_find(s, BB_DDP_REDUCTIONS, step->cap, step->algorithm);
	const struct bb_trial *start = measured(s, trial_find(s, BB_DDP_START, 0, step->algorithm));
	const double alone_s = measured(s, alone)->stats.p50, step_s = row->stats->p50;
	const double reduce_s = measured(s, reductions)->stats.p50;
	const struct bb_train_step predicted = row_predict(rows, row, alone, reductions);
	const size_t n = step->stamps.nbuckets;
	double *us = row->numbers + 3 * n;
	struct bb_ddp_record *r = &row->record;

	r->step_us = 1e6 * step_s;
	r->low_us = 1e6 * row->stats->ci_low;
	r->high_us = 1e6 * row->stats->ci_high;
	r->p95_us = 1e6 * row->stats->p95;
	r->samples = (int64_t)row->stats->n;
	r->compute_us = 1e6 * alone_s;
	r->reduce_us = 1e6 * reduce_s;
	if (reduce_s > 0)
		r->reduce_busbw_GBps = 1e-9 * (double)s->bytes / reduce_s *
				       bb_all_reduce.bus_factor(s->engine.run->world.nranks);
	/* Reductions shorter than the spread of steps cannot be seen in them. */
	if (reduce_s > row->stats->ci_high - row->stats->ci_low && reduce_s > LEAST_SEEN * step_s)
		r->hidden = 1 - (step_s - alone_s) / reduce_s;
	r->exposed_us = 1e6 * (step_s - alone_s);
	if (alone->stamps.backward_s[0] > 0)
		r->contention = step->stamps.backward_s[0] / alone->stamps.backward_s[0];
	r->predicted_step_us = 1e6 * predicted.step_s;
	r->predicted_reduce_us = 1e6 * predicted.reduce_s;
	r->predicted_exposed_us = 1e6 * predicted.exposed_s;
	r->predicted_hidden = predicted.hidden;
	if (step_s > 0)
		r->error_percent = 100 * (predicted.step_s - step_s) / step_s;
	r->wrong = measured(s, step)->wrong;
	for (size_t k = 0; k < n; k++)
		us[k] = 1e6 * reductions->stamps.reduce_s[k];
	r->bucket_us = (struct bb_numbers){us, n};
	if (!start->refusal)
		r->broadcast_us = 1e6 * start->stats.p50;
	r->end_unix_s = bb_clock_unix();
}

/* ---- comparison of rows ---------------------------------------------------------------------- */

static double row_times(const struct rows *rows, const struct row *row, uint64_t cap)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *o = &rows->list[i];

		if (o->trial->algorithm == row->trial->algorithm &&
		    o->trial->overlap == row->trial->overlap && o->size->cap.bytes == cap &&
		    row->record.step_us > 0)
			return o->record.step_us / row->record.step_us;
	}
	return NAN;
}

static struct row *rows_best(const struct rows *rows, bool overlap)
{
	struct row *found = NULL;

	for (size_t i = 0; i < rows->n; i++) {
		struct row *row = &rows->list[i];

		if (row->trial->overlap == overlap &&
		    (!found || row->record.step_us < found->record.step_us))
			found = row;
	}
	return found;
}

static void rows_compare(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct row *row = &rows->list[i];
		const struct row *best = rows_best(rows, row->trial->overlap);

		row->record.times_one = row_times(rows, row, BB_BUCKET_UNLIMITED);
		row->record.times_tensor = row_times(rows, row, 1);
		row->record.times_25M = row_times(rows, row, BB_DDP_DEFAULT_CAP);
		row->record.best = row == best;
		row->record.as_good = row->record.low_us <= best->record.high_us;
	}
}

/* ---- the recommendation ------------------------------------------------------------------- */

/* Why one step is longer than another with the same computations: its reductions take longer, or
   are hidden less. OWN of a candidate is its row. */
static void row_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		      struct bb_strbuf *out)
{
	const struct bb_ddp_record *a = &((const struct row *)ahead->own)->record;
	const struct bb_ddp_record *b = &((const struct row *)behind->own)->record;

	bb_ddp_add_cause(1e-6 * (b->reduce_us - a->reduce_us),
			 1e-6 * (b->exposed_us - a->exposed_us), out);
}

/* The last size with the buckets of number CAP. */
static const struct bb_ddp_layout *last_same(const struct bb_ddp_sweep *s, size_t cap)
{
	size_t last = s->ncaps - 1;

	while (s->caps[last].same != s->caps[cap].same)
		last--;
	return &s->caps[last];
}

static void add_best(const struct rows *rows, bool overlap, struct bb_candidate *list,
		     struct bb_strbuf *out)
{
	const struct bb_ddp_options *a = &rows->sweep->ddp->options;
	struct bb_recommendation choice = {.subject = overlap ? "buckets, overlap on"
							      : "buckets, overlap off",
					   .noise = bb_estimate_noise(rows->sweep->engine.run),
					   .unit = "",
					   .list = list,
					   .cause = row_cause};

	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->list[i];
		const struct bb_stats *s = row->stats;
		struct bb_candidate *c = &list[choice.n];

		if (row->trial->overlap != overlap || row_repeats(rows, row))
			continue;
		*c = (struct bb_candidate){
			.seconds = s->p50, .low = s->ci_low, .high = s->ci_high, .own = row};
		bb_ddp_name_caps(c->name, &row->size->cap,
				 &last_same(rows->sweep, row->trial->cap)->cap,
				 a->nalgorithms > 1 ? row->record.algorithm : NULL);
		choice.n++;
	}
	bb_recommend(&choice, out);
}

/* "100M to 200M: the same 2 buckets, measured once" */
static void add_same_caps(const struct bb_ddp_sweep *s, struct bb_strbuf *out)
{
	for (size_t i = 0; i < s->ncaps; i++) {
		const struct bb_ddp_layout *last = last_same(s, i);
		const size_t n = last->cap.buckets.n;

		if (s->caps[i].same == i && last != &s->caps[i])
			bb_strbuf_addf(out, "# %s to %s: the same %zu bucket%s, measured once\n",
				       s->caps[i].cap.name, last->cap.name, n,
				       bb_plural((long long)n));
	}
}

static bb_status recommend(const struct rows *rows)
{
	struct bb_ddp_sweep *s = rows->sweep;
	struct bb_candidate *list = calloc(rows->n, sizeof(*list));
	struct bb_strbuf out = {.failed = !list};
	size_t answer;

	for (size_t a = 0; a < s->ddp->options.nalgorithms; a++) {
		const struct bb_ddp_trial *start = trial_find(s, BB_DDP_START, 0, a);

		if (measured(s, start)->refusal)
			continue;
		bb_strbuf_addf(&out,
			       "# Rank 0 broadcasts the parameters before the first step (%s): "
			       "%.2f ms\n",
			       s->ddp->options.algorithms[a], 1e3 * measured(s, start)->stats.p50);
	}
	add_same_caps(s, &out);
	answer = out.length;
	for (int overlap = 0; overlap < 2 && list; overlap++)
		add_best(rows, overlap == 1, list, &out);
	bb_run_answer(s->engine.run, &out, answer);
	free(list);
	return bb_engine_comment_lines(&s->engine, &out);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bb_status rows_add(struct rows *rows, const struct bb_ddp_trial *trial,
			  const struct bb_ddp_layout *size)
{
	struct row *row = &rows->list[rows->n++];

	row->size = size;
	row->trial = trial;
	row->stats = &measured(rows->sweep, trial)->stats;
	row->numbers = calloc(trial->stamps.nbuckets, 4 * sizeof(double));
	if (!row->numbers)
		return BB_EINTERNAL;
	row_describe(rows, row);
	row_measure(rows, row);
	return BB_OK;
}

/* A refusal holds for buckets of any size: it is reported once for its algorithm. BB_EUNSUPPORTED
   if there are no rows. */
static bb_status deliver_refusals(struct bb_ddp_sweep *s, size_t nrows)
{
	struct bb_error first = {.text = ""};
	bb_status status = BB_OK;

	for (size_t a = 0; a < s->ddp->options.nalgorithms && status == BB_OK; a++) {
		const struct bb_ddp_trial *t = trial_find(s, BB_DDP_STEP, 0, a);

		if (!measured(s, t)->refusal)
			continue;
		(void)bb_fail(&first, BB_EUNSUPPORTED, "%s", measured(s, t)->refusal);
		status = bb_engine_skip_subject(
			&s->engine, bb_all_reduce.name, s->ddp->options.algorithms[a],
			bb_dtype_name(s->ddp->options.dtype), measured(s, t)->refusal);
	}
	if (status == BB_OK && nrows == 0)
		status = bb_fail(&s->engine.run->error, BB_EUNSUPPORTED, "%s", first.text);
	return status;
}

static bb_status make_rows(struct rows *rows)
{
	const struct bb_ddp_sweep *s = rows->sweep;
	bb_status status = BB_OK;

	rows->list = calloc(s->engine.ntrials * s->ncaps, sizeof(*rows->list));
	rows->ready_s = calloc(s->ddp->model.ntensors, sizeof(double));
	if (!rows->list || !rows->ready_s)
		status = BB_EINTERNAL;
	for (size_t i = 0; i < s->engine.ntrials; i++)
		for (size_t c = 0; c < s->ncaps && status == BB_OK; c++)
			if (s->list[i].part == BB_DDP_STEP && s->caps[c].same == s->list[i].cap &&
			    !measured(s, &s->list[i])->refusal)
				status = rows_add(rows, &s->list[i], &s->caps[c]);
	if (status != BB_OK)
		return bb_no_memory(&s->engine.run->error, "the rows");
	rows_compare(rows);
	return BB_OK;
}

bb_status bb_ddp_deliver(struct bb_engine *engine)
{
	struct bb_ddp_sweep *sweep = (struct bb_ddp_sweep *)engine;
	struct rows rows = {.sweep = sweep};
	bb_status status;

	stamps_settle(sweep);
	status = make_rows(&rows);
	if (status == BB_OK)
		status = deliver_refusals(sweep, rows.n);
	for (size_t i = 0; i < rows.n && status == BB_OK; i++)
		status = bb_engine_deliver(engine, &bb_record_ddp, &rows.list[i].record,
					   rows.list[i].record.wrong);
	if (status == BB_OK && rows.n > 0)
		status = recommend(&rows);
	for (size_t i = 0; i < rows.n; i++)
		free(rows.list[i].numbers);
	free(rows.list);
	free(rows.ready_s);
	return status;
}

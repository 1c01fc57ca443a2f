/*
 * What the ranks measured, put together: one record per case and placement.
 */
#include "harness/bench.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One rank's summary, gathered as it is. */
struct summary {
	struct bb_measured measured;
	double mean; /* seconds */
};

/* Over all ranks and iterations; rank 0's. */
struct view {
	int nranks;
	size_t iterations;
	size_t skipped;        /* leading iterations left out of the statistics, -K */
	const double *samples; /* [rank * 2 * iterations + i], then as many arrivals */
	double *work;          /* 4 * (iterations + nranks) */
};

static double sample(const struct view *v, int rank, size_t i)
{
	return v->samples[(size_t)rank * 2 * v->iterations + i];
}

static double arrival(const struct view *v, int rank, size_t i)
{
	return v->samples[((size_t)rank * 2 + 1) * v->iterations + i];
}

/* Time over ranks as -a says. */
static double over_ranks(const struct summary *all, int n, int64_t how, bool cpu)
{
	double sum = 0, least = INFINITY, most = 0;

	for (int r = 0; r < n; r++) {
		double x = cpu ? all[r].measured.cpu_seconds : all[r].measured.seconds;

		sum += x;
		least = x < least ? x : least;
		most = x > most ? x : most;
	}
	switch (how) {
	case BB_AVERAGE_RANK0:
		return cpu ? all[0].measured.cpu_seconds : all[0].measured.seconds;
	case BB_AVERAGE_MIN:
		return least;
	case BB_AVERAGE_MAX:
		return most;
	default:
		return sum / n;
	}
}

/* The iteration takes as long as its slowest rank; each of them in result->samples' memory. */
static void fill_statistics(const struct view *v, struct bb_result_record *result)
{
	double *longest = v->work, *sorted = v->work + v->iterations;
	struct bb_stats stats;

	for (size_t i = 0; i < v->iterations; i++) {
		longest[i] = 0;
		for (int r = 0; r < v->nranks; r++)
			if (sample(v, r, i) > longest[i])
				longest[i] = sample(v, r, i);
		longest[i] *= 1e6;
	}
	memcpy(sorted, longest + v->skipped, (v->iterations - v->skipped) * sizeof(*sorted));
	bb_stats_compute(sorted, v->iterations - v->skipped, &stats);
	result->min_us = stats.min;
	result->p50_us = stats.p50;
	result->p95_us = stats.p95;
	result->p99_us = stats.p99;
	result->max_us = stats.max;
	result->mean_us = stats.mean;
	result->stdev_us = stats.stdev;
	result->cv_percent = stats.cv * 100;
	result->ci_low_us = stats.ci_low;
	result->ci_high_us = stats.ci_high;
}

static int compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Who came last, how often, and how late against the median rank. */
static void fill_skew(const struct view *v, struct bb_result_record *result)
{
	double *skews = v->work + v->iterations, *sorted = skews + v->iterations;
	double *late = sorted + v->nranks, *times_last = late + v->nranks;
	struct bb_stats stats;
	int last = 0;

	memset(late, 0, 2 * (size_t)v->nranks * sizeof(*late));
	for (size_t i = 0; i < v->iterations; i++) {
		int latest = 0;
		double median;

		for (int r = 0; r < v->nranks; r++) {
			sorted[r] = arrival(v, r, i);
			if (sorted[r] > arrival(v, latest, i))
				latest = r;
		}
		qsort(sorted, (size_t)v->nranks, sizeof(*sorted), compare_doubles);
		median = sorted[(v->nranks - 1) / 2];
		skews[i] = (sorted[v->nranks - 1] - sorted[0]) * 1e6;
		late[latest] += (arrival(v, latest, i) - median) * 1e6;
		times_last[latest]++;
	}
	for (int r = 1; r < v->nranks; r++)
		if (times_last[r] > times_last[last])
			last = r;
	result->last_rank = last;
	result->last_share = times_last[last] / (double)v->iterations;
	result->last_late_us = times_last[last] > 0 ? late[last] / times_last[last] : 0;
	bb_stats_compute(skews, v->iterations, &stats);
	result->skew_p50_us = stats.p50;
	result->skew_max_us = stats.max;
}

static void fill_case(const struct bb_session *s, const struct bb_case *c,
		      const struct bb_call *call, const struct bb_layout *layout,
		      struct bb_result_record *result)
{
	const struct bb_options *options = s->bench->options;
	const bool verified = options->check > 0 && (s->bench->backend->capabilities & BB_CAP_DATA);
	struct timespec now;

	bb_result_record_init(result);
	clock_gettime(CLOCK_REALTIME, &now);
	result->collective = s->bench->collective->name;
	result->algorithm_asked = c->choice->name;
	result->algorithm = call->schedule ? call->schedule->name
			    : call->native ? call->native->name
					   : c->choice->name;
	result->dtype = bb_dtype_name(c->dtype);
	result->op = c->op == BB_NO_OP ? "none" : bb_op_name((enum bb_op)c->op);
	result->root = c->root == BB_NO_ROOT ? -1 : c->root;
	result->nranks = s->n;
	result->size_bytes = (int64_t)c->size_bytes;
	result->count = (int64_t)c->count;
	result->in_place = call->shape.in_place;
	result->cache = bb_cache_names[options->cache];
	result->chunk_bytes = call->schedule && call->shape.chunk
				      ? (int64_t)(call->shape.chunk * bb_dtype_size(c->dtype))
				      : BB_ABSENT;
	result->verified = !verified ? NULL : layout->sets < 2 ? "refilled" : "pristine set";
	result->cycle = s->cycle;
	result->end_unix_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fill_bandwidth(const struct bb_session *s, double seconds,
			   struct bb_result_record *result)
{
	const double bytes = (double)result->size_bytes;

	result->time_us = seconds * 1e6;
	result->algbw_GBps = seconds > 0 ? bytes / seconds / 1e9 : 0;
	result->busbw_GBps = result->algbw_GBps * s->bench->collective->bus_factor(s->n);
}

/* The least time that the bytes of this algorithm take at this run's copy or link speed. */
static bb_status fill_bound(struct bb_session *s, const struct bb_call *call,
			    struct bb_result_record *result)
{
	const struct bb_options *options = s->bench->options;
	const double cost =
		s->bench->backend->cost_bytes ? s->bench->backend->cost_bytes(s->group, call) : 0;
	double rate;
	bb_status status;

	if (options->link.link_rate > 0 && call->schedule) {
		size_t rounds, wire;

		bb_algorithm_cost(call->schedule, &call->shape, &rounds, &wire);
		result->bound_us =
			1e6 * ((double)wire * (double)bb_dtype_size(call->dtype) /
			       (double)(s->n > 1 ? s->n - 1 : 1) / options->link.link_rate);
		result->bound_source = "the most bytes a rank sends, spread over all its links";
	} else if (cost > 0) {
		status = bb_measure_copy(s, (size_t)result->size_bytes, &rate);
		if (status != BB_OK)
			return status;
		/* Split groups run at the same time and share the machine. */
		result->bound_us = 1e6 * cost / s->n * s->bench->world->nranks / rate;
		result->bound_source = "bytes this algorithm moves at this run's copy speed";
	} else {
		return BB_OK;
	}
	if (result->time_us > 0)
		result->percent_of_bound = 100 * result->bound_us / result->time_us;
	return BB_OK;
}

/* Rank 0: to the sinks, and into the sums. */
static bb_status deliver(struct bb_session *s, const struct bb_result_record *result)
{
	struct bb_bench *bench = s->bench;
	bb_status status;

	bench->end.results++;
	bench->end.wrong += result->wrong > 0;
	bench->busbw_sum += result->busbw_GBps;
	bb_ticker_hide(bench->ticker);
	status = bb_sinks_result(bench->sinks, result);
	return status == BB_OK ? bb_compare_add(bench->compare, result) : status;
}

/* Rank 0: from what all ranks gave to a delivered record. */
static bb_status put_together(struct bb_session *s, const struct summary *all,
			      const double *samples, size_t iterations,
			      struct bb_result_record *result)
{
	const struct bb_options *options = s->bench->options;
	const int n = s->bench->world->nranks;
	struct view v = {.nranks = n, .iterations = iterations, .samples = samples};
	double *means;
	bb_status status;

	v.skipped = (size_t)options->per_iter_skip < iterations ? (size_t)options->per_iter_skip : 0;
	v.work = calloc(4 * (iterations + (size_t)n), sizeof(*v.work));
	means = calloc((size_t)n, sizeof(*means));
	if (!v.work || !means) {
		free(v.work);
		free(means);
		return bb_fail(s->bench->error, BB_EINTERNAL, "out of memory for statistics");
	}
	result->iterations = (int64_t)iterations;
	for (int r = 0; r < n; r++)
		means[r] = all[r].measured.seconds * 1e6;
	if (result->verified) {
		result->wrong = 0;
		for (int r = 0; r < n; r++)
			result->wrong += (int64_t)all[r].measured.wrong;
	}
	if (options->report_cputime)
		result->cpu_time_us = 1e6 * over_ranks(all, n, options->average, true);
	result->clock_uncertainty_us = s->bench->run.clock_uncertainty_us;
	fill_statistics(&v, result);
	fill_skew(&v, result);
	if (options->per_iter_timing)
		result->samples_us = (struct bb_numbers){v.work, iterations};
	result->rank_mean_us = (struct bb_numbers){means, (size_t)n};
	status = deliver(s, result);
	free(v.work);
	free(means);
	return status;
}

bb_status bb_judge(struct bb_session *s, const struct bb_case *c, const struct bb_call *call,
		   const struct bb_layout *layout, const struct bb_measured *measured)
{
	const size_t n = (size_t)s->bench->world->nranks, iterations = measured->iterations;
	const struct summary mine = {.measured = *measured};
	struct bb_result_record result;
	struct summary *all;
	const void *gathered;
	bb_status status;

	/* Samples, then arrivals, in one piece. */
	memmove(s->samples + iterations, s->arrivals, iterations * sizeof(*s->samples));
	fill_case(s, c, call, layout, &result);
	status = bb_crew_gather(s->driver, &mine, sizeof(mine), &gathered);
	if (status != BB_OK)
		return status;
	all = malloc(n * sizeof(*all));
	if (!all)
		return bb_fail(s->bench->error, BB_EINTERNAL, "out of memory for statistics");
	memcpy(all, gathered, n * sizeof(*all));
	fill_bandwidth(s, over_ranks(all, (int)n, s->bench->options->average, false), &result);
	status = fill_bound(s, call, &result);
	if (status == BB_OK)
		status = bb_crew_gather(s->driver, s->samples, 2 * iterations * sizeof(double),
					&gathered);
	if (status == BB_OK && bb_driver_leads(s->driver))
		status = put_together(s, all, gathered, iterations, &result);
	free(all);
	return status;
}

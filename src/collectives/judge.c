/*
 * judge.c - one record per case and placement from what all ranks measured.
 */
#include "collectives/bench.h"

#include "backends/gpu.h"
#include "backends/library.h"
#include "backends/virtual.h"
#include "core/clock.h"
#include "core/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char copy_source[] = "bytes this algorithm moves at this run's copy speed";

/* The samples of all ranks, on rank 0. */
struct view {
	int nranks;
	size_t n;              /* samples */
	size_t skipped;        /* leading ones left out of the statistics, -K */
	const double *samples; /* [rank * 2 * n + i], then as many arrivals */
	double *work;          /* 4 * (n + nranks) */
};

static double sample(const struct view *v, int rank, size_t i)
{
	return v->samples[(size_t)rank * 2 * v->n + i];
}

static double arrival(const struct view *v, int rank, size_t i)
{
	return v->samples[((size_t)rank * 2 + 1) * v->n + i];
}

/* Returns the time over N ranks by -a, HOW. Rank 0 is the first of them. */
static double over_ranks(const double *seconds, int n, int64_t how)
{
	double sum = 0, least = INFINITY, most = 0;

	for (int r = 0; r < n; r++) {
		sum += seconds[r];
		least = seconds[r] < least ? seconds[r] : least;
		most = seconds[r] > most ? seconds[r] : most;
	}
	return how == BB_AVERAGE_RANK0 ? seconds[0]
	       : how == BB_AVERAGE_MIN ? least
	       : how == BB_AVERAGE_MAX ? most
				       : sum / n;
}

/* Busbw in US instead of in the record's time. */
static double busbw_in(const struct bb_result_record *r, double us)
{
	return us > 0 ? r->busbw_GBps * r->time_us / us : NAN;
}

/* Fills in statistics of the iterations, whose times, those of the slowest ranks, stay in the work
   area. */
static void fill_statistics(const struct view *v, struct bb_result_record *result)
{
	double *longest = v->work, *sorted = v->work + v->n;
	struct bb_stats stats;

	for (size_t i = 0; i < v->n; i++) {
		longest[i] = 0;
		for (int r = 0; r < v->nranks; r++)
			if (sample(v, r, i) > longest[i])
				longest[i] = sample(v, r, i);
		longest[i] *= 1e6;
	}
	memcpy(sorted, longest + v->skipped, (v->n - v->skipped) * sizeof(*sorted));
	bb_stats_compute(sorted, v->n - v->skipped, &stats);
	result->mean_us = stats.mean;
	if (v->n == 1 && result->iterations > 1)
		return; /* one sample of many iterations has no distribution */
	result->min_us = stats.min;
	result->p50_us = stats.p50;
	result->p95_us = stats.p95;
	result->p99_us = stats.p99;
	result->max_us = stats.max;
	result->stdev_us = stats.stdev;
	result->cv_percent = stats.cv * 100;
	if (stats.n < BB_STATS_INTERVAL)
		return; /* too few for an interval */
	result->ci_low_us = stats.ci_low;
	result->ci_high_us = stats.ci_high;
	result->busbw_low_GBps = busbw_in(result, result->ci_high_us);
	result->busbw_high_GBps = busbw_in(result, result->ci_low_us);
}

/* Fills in the arrival skew of N MEMBERS: the rank that arrived last most often, how often, and how
   long after the median rank. */
static void fill_skew(const struct view *v, const int *members, int n,
		      struct bb_result_record *result)
{
	double *skews = v->work + v->n, *sorted = skews + v->n;
	double *late = sorted + v->nranks, *times_last = late + v->nranks;
	struct bb_stats stats;
	int last = 0;

	memset(late, 0, 2 * (size_t)v->nranks * sizeof(*late));
	for (size_t i = 0; i < v->n; i++) {
		int latest = 0;

		for (int m = 0; m < n; m++) {
			sorted[m] = arrival(v, members[m], i);
			if (sorted[m] > arrival(v, members[latest], i))
				latest = m;
		}
		bb_stats_sort(sorted, (size_t)n);
		const double median = sorted[(n - 1) / 2];
		skews[i] = (sorted[n - 1] - sorted[0]) * 1e6;
		late[latest] += (sorted[n - 1] - median) * 1e6;
		times_last[latest]++;
	}
	for (int m = 1; m < n; m++)
		if (times_last[m] > times_last[last])
			last = m;
	result->last_rank = members[last];
	result->last_share = times_last[last] / (double)v->n;
	result->last_late_us = times_last[last] > 0 ? late[last] / times_last[last] : 0;
	bb_stats_compute(skews, v->n, &stats);
	result->skew_p50_us = stats.p50;
	result->skew_max_us = stats.max;
}

static void fill_case(const struct bb_session *s, struct bb_result_record *result)
{
	const struct bb_library *library = s->engine.backend->library;
	const struct bb_call *call = &s->call;

	bb_bench_describe_case(s, result);
	result->algorithm = call->schedule
				    ? bb_schedule_name(call->schedule, s->bench->plan.natives)
			    : call->native ? call->native->name
					   : s->c->choice->name;
	result->library_algorithm = s->measured.chosen[0] ? s->measured.chosen : NULL;
	result->registration =
		library && library->registered ? library->registered(s->group) : NULL;
	result->in_place = call->shape.in_place;
	if (call->schedule && call->shape.chunk)
		result->chunk_bytes = (int64_t)(call->shape.chunk * bb_dtype_size(call->dtype));
	if (s->engine.options->check > 0 && s->patterns && !s->c->barrier)
		result->verified = s->refills ? "refilled" : "pristine set";
	result->evaluator = s->measured.evaluator;
	result->faultless_us = 1e6 * s->measured.faultless;
}

static double algbw_bytes(const struct bb_call *call)
{
	return (double)bb_algbw_count(call->collective, &call->shape) *
	       (double)bb_dtype_size(call->dtype);
}

/* Fills in what follows from the summaries of ALL ranks, the time of the row first. ROOM holds 4
   numbers per rank; RESULT borrows it. Returns why GPUs were slowed down. */
static unsigned fill_from_ranks(const struct bb_session *s, const struct bb_measured *all,
				double *room, struct bb_result_record *result)
{
	const int64_t how = s->settings->average;
	const int n = s->engine.run->world.nranks;
	double *seconds = room, *means = room + n, *cpu = means + n, *bytes = cpu + n;
	double time, uncertainty = 0;
	uint64_t wrong = 0;
	unsigned throttled = 0;

	for (int r = 0; r < n; r++) {
		seconds[r] = all[r].seconds;
		means[r] = all[r].seconds * 1e6;
		cpu[r] = all[r].cpu_seconds * 1e6;
		bytes[r] = all[r].busbw_bytes;
		uncertainty = fmax(uncertainty, all[r].clock_uncertainty);
		wrong += all[r].wrong;
		throttled |= all[r].throttled;
	}
	time = over_ranks(seconds, n, how);
	result->time_us = time * 1e6;
	result->algbw_GBps = time > 0 ? algbw_bytes(&s->call) / time / 1e9 : 0;
	result->busbw_GBps = result->algbw_GBps * s->call.collective->bus_factor(s->n);
	if (!s->engine.backend->virtual) /* one driver stands for all ranks */
		result->rank_mean_us = (struct bb_numbers){means, (size_t)n};
	if (result->verified)
		result->wrong = (int64_t)wrong;
	if (s->settings->report_cputime)
		result->cpu_time_us = over_ranks(cpu, n, how);
	result->clock_uncertainty_us = uncertainty * 1e6;
	result->iterations = (int64_t)all[0].iterations;
	result->samples = (int64_t)all[0].nsamples;
	bb_groups_add(s->bench->groups, seconds, bytes, over_ranks, how, result);
	return throttled;
}

/* Fills in the least time of the algorithm's bytes at the link speed, at RATE, that of copies, or
   by the links of the machine. */
static void fill_bound(const struct bb_session *s, double rate, struct bb_result_record *result)
{
	const struct bb_backend_config *config = &s->engine.options->config;
	const struct bb_call *call = &s->call;
	const struct bb_measured *measured = &s->measured;
	struct bb_run *run = s->engine.run;

	if (config->link_rate > 0 && call->schedule) {
		const bool port = config->link_port;
		const double links = s->n > 1 && !port ? s->n - 1 : 1;
		size_t rounds, wire;

		bb_algorithm_cost(call->schedule, &call->shape, &rounds, &wire);
		result->bound_us = 1e6 * ((double)wire * (double)bb_dtype_size(call->dtype) /
					  links / config->link_rate);
		result->bound_source = port ? "the most bytes a rank sends, through its port"
					    : "the most bytes a rank sends, spread over all its "
					      "links";
	} else if (measured->cost_bytes > 0) {
		/* Split groups run at the same time and share the machine. */
		result->bound_us = 1e6 * measured->cost_bytes / s->n * run->world.nranks / rate;
		result->bound_source = copy_source;
	} else {
		const double GBps = bb_link_bounds_find(&run->link_bounds, call->collective,
							result->algorithm, &result->bound_source);

		if (GBps > 0)
			result->bound_us = measured->busbw_bytes / GBps / 1e3;
	}
	result->bound_busbw_GBps = busbw_in(result, result->bound_us);
	if (result->time_us > 0)
		result->percent_of_bound = 100 * result->bound_us / result->time_us;
}

/*
 * True if the library ran RAN ("ring:LL128") although NATIVE forced another algorithm or protocol.
 * An algorithm that has no such name (a kind of CollNet) counts as what was requested.
 */
static bool is_another(const struct bb_backend *backend, const struct bb_native *native,
		       const char *ran)
{
	const size_t length = strcspn(ran, ":"), forced = strcspn(native->name, ":");
	char name[BB_CHOSEN_TEXT];

	if (native->name[forced] && strcmp(native->name + forced, ran + length) != 0)
		return true;
	if ((forced == 4 && strncmp(native->name, "auto", forced) == 0) ||
	    (forced == length && strncmp(native->name, ran, length) == 0))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)length, ran);
	return bb_native_find(backend->natives, name);
}

/* Reports WARNING if it IS so and was not TOLD before. */
static bb_status warn_once(struct bb_session *s, bool is, bool *told, const char *warning)
{
	if (!is || *told)
		return BB_OK;
	*told = true;
	return bb_engine_comment(&s->engine, "# Warning: %s\n", warning);
}

/* Fills in why any GPU was slowed down, by REASONS; reports it, and that -R had no effect, once. */
static bb_status fill_warnings(struct bb_session *s, unsigned reasons,
			       struct bb_result_record *result)
{
	static const char *const names[1 << BB_GPU_THROTTLES] = {
		[1 << BB_GPU_POWER] = "power",
		[1 << BB_GPU_THERMAL] = "temperature",
		[1 << BB_GPU_POWER | 1 << BB_GPU_THERMAL] = "power and temperature"};
	const char *registered = result->registration;
	bb_status status;

	result->throttled = names[reasons];
	BB_TRY(status,
	       warn_once(s, registered && strcmp(registered, "none") == 0, &s->told_unregistered,
			 "-R: the library cannot register these buffers here; they are used "
			 "unregistered"),
	       out);
	status = warn_once(s, reasons != 0, &s->told_throttled,
			   "the driver lowered the clock of a GPU while it was measured; the "
			   "records' throttled and gpu say why");
out:
	return status;
}

/* Delivers RESULT on rank 0, and adds it to the sums. The bound is doubted by the longer of the
   mean and the end of the interval. */
static bb_status deliver(struct bb_session *s, struct bb_result_record *result)
{
	struct bb_bench *bench = s->bench;
	const double end = isnan(result->ci_high_us) ? 0 : result->ci_high_us;
	struct bb_barrier_record barrier;

	if (bench->barriers) {
		bb_record_init_from(&bb_record_barrier, &barrier, &bb_record_result, result);
		return bb_engine_deliver(&s->engine, &bb_record_barrier, &barrier, result->wrong);
	}
	if (result->bound_source)
		result->bound_doubt =
			bb_bound_doubt(result->percent_of_bound,
				       100 * result->bound_us / fmax(result->time_us, end),
				       result->bound_source == copy_source ? BB_BOUND_BY_COPIES
									   : BB_BOUND_BY_LINKS);
	bench->busbw_sum += result->busbw_GBps;
	bb_status status = bb_engine_deliver(&s->engine, &bb_record_result, result, result->wrong);
	return status == BB_OK ? bb_results_keep(&bench->results, result) : status;
}

/* Delivers, with -I, when each rank of rank 0's group entered each iteration. Overwrites the
   samples. */
static bb_status deliver_arrivals(const struct bb_session *s, const struct view *v,
				  const struct bb_result_record *result)
{
	struct bb_arrival_record r;
	bb_status status = BB_OK;
	const int *members = s->members;
	double *first = v->work, *late = v->work + v->n;

	bb_record_init_from(&bb_record_arrival, &r, &bb_record_result, result);
	r.late_us = (struct bb_numbers){late, v->n};
	for (size_t i = 0; i < v->n; i++) {
		first[i] = arrival(v, members[0], i);
		for (int m = 1; m < s->n; m++)
			first[i] = fmin(first[i], arrival(v, members[m], i));
	}
	for (int m = 0; m < s->n && status == BB_OK; m++) {
		for (size_t i = 0; i < v->n; i++)
			late[i] = (arrival(v, members[m], i) - first[i]) * 1e6;
		r.rank = members[m];
		status = bb_sinks_record(&s->engine.run->sinks, &bb_record_arrival, &r);
	}
	return status;
}

/* Makes and delivers the record on rank 0. RATE is that of copies, where a group's bound is. END is
   when it was measured. */
static bb_status put_together(struct bb_session *s, const struct bb_measured *all, double rate,
			      const double *samples, double end)
{
	const struct bb_virtual *virtual = s->engine.backend->virtual;
	const struct bb_evaluation *said = virtual ? virtual->evaluated(s->group) : NULL;
	const size_t skip = (size_t)s->settings->per_iter_skip;
	const size_t n = (size_t)s->engine.run->world.nranks, nsamples = all[0].nsamples;
	const struct view v = {
		.nranks = (int)n,
		.n = nsamples,
		.skipped = skip < nsamples ? skip : 0,
		.samples = samples,
		.work = calloc(4 * (nsamples + 2 * n), sizeof(*v.work)),
	};
	struct bb_result_record result;
	bb_status status;

	if (!v.work)
		return bb_no_memory(&s->engine.run->error, "statistics");
	double *const room = v.work + 4 * (nsamples + n);
	fill_case(s, &result);
	result.end_unix_s = end;
	BB_TRY(status, fill_warnings(s, fill_from_ranks(s, all, room, &result), &result), out);
	if (said) { /* what a model says of its own time */
		result.predicted_low_us = said->support.low * result.time_us;
		result.predicted_high_us = said->support.high * result.time_us;
		result.predicted_from = said->basis[0] ? said->basis : NULL;
		result.measured_us = said->support.measured * 1e6;
		result.measured_min_us = said->support.measured_min * 1e6;
		result.measured_p95_us = said->support.measured_p95 * 1e6;
		result.left_out_us = said->support.left_out * 1e6;
		result.other_versions = said->otherwise[0] ? said->otherwise : NULL;
	}
	fill_bound(s, rate, &result);
	fill_statistics(&v, &result);
	/* Only the ranks of a group wait for each other, so the skew is that of rank 0's group. */
	if (s->n > 1 && !isnan(arrival(&v, 0, 0)))
		fill_skew(&v, s->members, s->n, &result);
	if (s->settings->per_iter_timing)
		result.samples_us = (struct bb_numbers){v.work, v.n};
	BB_TRY(status, deliver(s, &result), out);
	if (result.samples_us.n > 0 && result.last_rank != BB_ABSENT)
		status = deliver_arrivals(s, &v, &result);
out:
	free(v.work);
	return status;
}

/* EVALUATOR is a pointer that only the process that sent it uses. */
static const struct bb_payload_field measured_fields[] = {
	{"the times", BB_PAYLOAD_ANY, 0, offsetof(struct bb_measured, wrong), 1, 0, 0, 0},
	BB_PAYLOAD_FIELD("the number of wrong elements", BB_PAYLOAD_UNSIGNED, struct bb_measured,
			 wrong, .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the number of iterations", BB_PAYLOAD_UNSIGNED, struct bb_measured,
			 iterations, .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the number of samples", BB_PAYLOAD_UNSIGNED, struct bb_measured, nsamples,
			 .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the choice", BB_PAYLOAD_TEXT, struct bb_measured, chosen),
	BB_PAYLOAD_FIELD("the throttling", BB_PAYLOAD_UNSIGNED, struct bb_measured, throttled,
			 .high = (1 << BB_GPU_THROTTLES) - 1),
	{.name = NULL}};
static const struct bb_payload measured_table = {"a measurement", sizeof(struct bb_measured),
						 measured_fields, NULL};

bb_status bb_judge(struct bb_session *s, char objection[BB_OBJECTION_TEXT])
{
	const size_t n = (size_t)s->engine.run->world.nranks, nsamples = s->measured.nsamples;
	const struct bb_native *native = s->call.native;
	const double end = bb_clock_unix();
	const void *gathered;
	uint64_t wrong = 0;
	bool copied = false;
	double rate = 0;
	bb_status status;

	/* Samples, then arrivals, in one piece. */
	memmove(s->samples + nsamples, s->arrivals, nsamples * sizeof(*s->samples));
	if (!s->bench->barriers)
		s->measured.cost_bytes = s->engine.backend->cost_bytes(s->group, &s->call);
	s->measured.busbw_bytes = algbw_bytes(&s->call) * s->call.collective->bus_factor(s->n);
	status = bb_driver_gather(s->engine.driver, &measured_table, &s->measured, 1, &gathered);
	if (status != BB_OK)
		return status;
	struct bb_measured *const all = malloc(n * sizeof(*all));
	if (!all)
		return bb_no_memory(&s->engine.run->error, "statistics");
	memcpy(all, gathered, n * sizeof(*all));
	*objection = '\0';
	for (size_t r = n; r-- > 0;) {
		wrong += all[r].wrong;
		/* Only some groups may need the copy speed, but all ranks measure it. */
		copied |= all[r].cost_bytes > 0;
		if (native && all[r].chosen[0] &&
		    is_another(s->engine.backend, native, all[r].chosen))
			snprintf(objection, BB_OBJECTION_TEXT, "the library ran %s instead",
				 all[r].chosen);
	}
	/* Wrong data is worse. */
	if (wrong > 0)
		*objection = '\0';
	if (*objection)
		goto out;
	if (copied)
		BB_TRY(status, bb_measure_copy(s, (size_t)s->c->size_bytes, &rate), out);
	BB_TRY(status,
	       bb_driver_collect(s->engine.driver, &bb_payload_number, s->samples, 2 * nsamples,
				 &gathered),
	       out);
	if (bb_engine_leads(&s->engine))
		status = put_together(s, all, rate, gathered, end);
out:
	free(all);
	return status;
}

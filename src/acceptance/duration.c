/*
 * duration.c - times of steps from an earlier run or from the profile, and their sum.
 */
#include "acceptance/duration.h"

#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bb_status bb_durations_open(const char *dir, struct bb_durations *durations, struct bb_error *error)
{
	char path[1200];

	*durations = (struct bb_durations){.dir = dir};
	if (!dir)
		return BB_OK;
	snprintf(path, sizeof(path), "%s/verdict.json", dir);
	durations->verdict = json_load_file(path, 0, NULL);
	if (!durations->verdict)
		return bb_fail(error, BB_EUSAGE,
			       "--times %s: holds no verdict.json of acceptance run", dir);
	if (bb_record_bool(durations->verdict, "virtual_time"))
		return bb_fail(error, BB_EUSAGE,
			       "--times %s: that run was simulated; no time of it is real", dir);
	return BB_OK;
}

void bb_durations_free(struct bb_durations *durations)
{
	json_decref(durations->verdict);
	durations->verdict = NULL;
}

/* Returns the mean time of the runs of step NAME that ended by themselves; 0: there is none. */
static double time_measured(const struct bb_durations *d, const char *name)
{
	double sum = 0;
	size_t i, k, n = 0;
	json_t *step, *run;

	json_array_foreach(json_object_get(d->verdict, "steps"), i, step)
	{
		const char *const found = bb_record_string(step, "name");

		json_array_foreach(found && strcmp(found, name) == 0 ? json_object_get(step, "runs")
								     : NULL,
				   k, run)
		{
			const double seconds = bb_record_number(run, "wall_s");

			if (!(seconds > 0) || bb_record_bool(run, "timed_out"))
				continue;
			sum += seconds;
			n++;
		}
	}
	return n > 0 ? sum / (double)n : 0;
}

/* *MEASURED = is it of an earlier run? */
static double time_find(const struct bb_durations *d, const struct bb_profile_step *step,
			bool *measured)
{
	double seconds = time_measured(d, step->name);

	if (seconds == 0)
		seconds = time_measured(d, bb_step_declared(step)->name);
	*measured = seconds > 0;
	return *measured ? seconds : (double)step->takes_ns / 1e9;
}

double bb_duration_of(const struct bb_durations *durations, const struct bb_profile_step *step)
{
	bool measured;

	return time_find(durations, step, &measured);
}

void bb_duration_add(double seconds, struct bb_strbuf *out)
{
	const long long s = llround(seconds), minutes = s / 60;

	if (seconds < 9.95)
		bb_strbuf_addf(out, "%.2g s", seconds);
	else if (minutes > 0 && minutes < 60 && s % 60 == 0)
		bb_strbuf_addf(out, "%lld min", minutes);
	else if (minutes >= 60)
		bb_strbuf_addf(out, "%lld h %lld min", minutes / 60, minutes % 60);
	else if (minutes > 0)
		bb_strbuf_addf(out, "%lld min %lld s", minutes, s % 60);
	else
		bb_strbuf_addf(out, "%lld s", s);
}

/* The runs that always take place, or those after a failure. */
struct total {
	double seconds, limit;
	long long runs, unknown, measured;
};

static struct total runs_sum(const struct bb_durations *d, const struct bb_acceptance_session *s,
			     bool after_failure)
{
	struct total t = {.seconds = 0};

	for (uint32_t i = 0; i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];
		const long long runs = bb_session_repeats(s, step);
		bool measured;
		double seconds;

		if (!(step->mode & s->mode) || step->after_failure != after_failure)
			continue;
		seconds = time_find(d, step, &measured);
		t.runs += runs;
		t.seconds += (double)runs * seconds;
		t.limit += (double)runs * (double)step->limit_ns / 1e9;
		t.unknown += seconds > 0 ? 0 : runs;
		t.measured += measured ? runs : 0;
	}
	return t;
}

void bb_durations_add_total(const struct bb_durations *durations,
			    const struct bb_acceptance_session *s, struct bb_strbuf *out)
{
	const struct total healthy = runs_sum(durations, s, false);
	const struct total more = runs_sum(durations, s, true);
	const long long stated = healthy.runs - healthy.unknown - healthy.measured;

	bb_strbuf_addf(out, "Runs: %lld", healthy.runs);
	if (more.runs > 0)
		bb_strbuf_addf(out, ", at most %lld more after a failure", more.runs);
	if (s->simulated.cluster) {
		bb_strbuf_add(out, "; simulated, the times of real runs do not apply\n");
		return;
	}
	if (healthy.measured > 0)
		bb_strbuf_addf(out, "; time of %lld as measured in %s", healthy.measured,
			       durations->dir);
	if (stated > 0)
		bb_strbuf_addf(out, "; time of %lld as the profile states, not measured", stated);
	if (healthy.unknown > 0)
		bb_strbuf_addf(out, "; time of %lld unknown, give takes: or --times",
			       healthy.unknown);
	bb_strbuf_add(out, "\nTime: ");
	if (healthy.unknown > 0) {
		bb_strbuf_add(out, "unknown; the time limits allow ");
		bb_duration_add(healthy.limit + more.limit, out);
	} else {
		bb_duration_add(healthy.seconds, out);
		bb_strbuf_add(out, " if healthy");
	}
	if (healthy.unknown == 0 && more.runs > 0) {
		bb_strbuf_add(out, ", at most ");
		bb_duration_add(more.seconds, out);
		bb_strbuf_add(out, " more after a failure");
	}
	bb_strbuf_add(out, "\n");
}

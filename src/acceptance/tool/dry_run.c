/*
 * dry_run.c - acceptance run --dry-run: commands, gates, and how long the steps take: times of an
 * earlier run, or of the profile, and their sum.
 */
#include "acceptance/baseline.h"
#include "acceptance/tool/tool.h"
#include "acceptance/verdict.h"
#include "core/output.h"
#include "core/printable.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- times ----------------------------------------------------------------------------------- */

/* Returns the mean time of the runs of step NAME in VERDICT that ended by themselves; 0: none. */
static double time_measured(const json_t *verdict, const char *name)
{
	double sum = 0;
	size_t i, k, n = 0;
	json_t *step, *run;

	json_array_foreach(json_object_get(verdict, "steps"), i, step)
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

/* Returns the seconds of a run of STEP on a healthy system: the mean of those in VERDICT (NULL:
   none), else what the profile says of the step, for narrower groups of the step that they replace;
   0: unknown. *MEASURED = is it of an earlier run? */
static double time_of(const json_t *verdict, const struct bb_profile_step *step, bool *measured)
{
	double seconds = time_measured(verdict, step->name);

	if (seconds == 0)
		seconds = time_measured(verdict, bb_step_declared(step)->name);
	*measured = seconds > 0;
	return *measured ? seconds : (double)step->takes_ns / 1e9;
}

/* Appends "10 min 30 s". */
static void time_add(double seconds, struct bb_strbuf *out)
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

static struct total runs_sum(const json_t *verdict, const struct bb_acceptance_session *s,
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
		seconds = time_of(verdict, step, &measured);
		t.runs += runs;
		t.seconds += (double)runs * seconds;
		t.limit += (double)runs * (double)step->limit_ns / 1e9;
		t.unknown += seconds > 0 ? 0 : runs;
		t.measured += measured ? runs : 0;
	}
	return t;
}

/* Appends two lines: how many runs, and how long the steps of S take on real nodes while nothing
   fails, what a failure adds, and where these times come from: VERDICT is that of folder DIR. */
static void total_add(const json_t *verdict, const char *dir, const struct bb_acceptance_session *s,
		      struct bb_strbuf *out)
{
	const struct total healthy = runs_sum(verdict, s, false);
	const struct total more = runs_sum(verdict, s, true);
	const long long stated = healthy.runs - healthy.unknown - healthy.measured;

	bb_strbuf_addf(out, "Runs: %lld", healthy.runs);
	if (more.runs > 0)
		bb_strbuf_addf(out, ", at most %lld more after a failure", more.runs);
	if (s->simulated.cluster) {
		bb_strbuf_add(out, "; simulated, the times of real runs do not apply\n");
		return;
	}
	if (healthy.measured > 0)
		bb_strbuf_addf(out, "; time of %lld as measured in %s", healthy.measured, dir);
	if (stated > 0)
		bb_strbuf_addf(out, "; time of %lld as the profile states, not measured", stated);
	if (healthy.unknown > 0)
		bb_strbuf_addf(out, "; time of %lld unknown, give takes: or --times",
			       healthy.unknown);
	bb_strbuf_add(out, "\nTime: ");
	if (healthy.unknown > 0) {
		bb_strbuf_add(out, "unknown; the time limits allow ");
		time_add(healthy.limit + more.limit, out);
	} else {
		time_add(healthy.seconds, out);
		bb_strbuf_add(out, " if healthy");
	}
	if (healthy.unknown == 0 && more.runs > 0) {
		bb_strbuf_add(out, ", at most ");
		time_add(more.seconds, out);
		bb_strbuf_add(out, " more after a failure");
	}
	bb_strbuf_add(out, "\n");
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void add_step(const struct bb_acceptance_session *s, const json_t *verdict,
		     const struct bb_profile_step *step, struct bb_strbuf *out,
		     struct bb_words_list *words)
{
	const int64_t repeats = bb_session_repeats(s, step);
	bool measured;
	const double seconds = time_of(verdict, step, &measured);
	int narrower = 0;

	bb_strbuf_addf(out, "step %s: %lld run%s", step->name, (long long)repeats,
		       bb_plural(repeats));
	if (seconds > 0 && !s->simulated.cluster) {
		bb_strbuf_add(out, " of about ");
		time_add(seconds, out);
	}
	bb_strbuf_addf(out, ", each at most %.6g s%s\n", (double)step->limit_ns / 1e9,
		       step->after_failure ? ", if an earlier step fails" : "");
	if (s->scale.nodes > 0) {
		bb_strbuf_addf(out, "  on %lld ", step->groups);
		if (step->nodes == 1)
			bb_strbuf_addf(out, "node%s, each alone", bb_plural(step->groups));
		else
			bb_strbuf_addf(out, "group%s of %lld nodes", bb_plural(step->groups),
				       step->nodes);
		if (step->left > 1)
			bb_strbuf_addf(out, " and 1 of %lld", step->left);
		bb_strbuf_addf(out, "%s%s\n", bb_step_is_split(step) ? ", all at once" : "",
			       step->shift > 0 ? "; the last node is in the first group" : "");
		if (step->left == 1 && step->shift == 0 && !step->narrows)
			bb_strbuf_addf(out, "  the last node is tested by %s@%lld+1\n", step->name,
				       step->nodes);
		if (bb_step_diagnoses(step))
			bb_strbuf_add(out, "  sees: slow and flapping nodes, rails and links, and ranks that come late\n"
					   "  cannot see: links between nodes that do not meet, congestion of collectives\n");
		else if (step->nodes == 1)
			bb_strbuf_add(out, "  sees: GPUs, NVLink, PCIe and memory of each node\n"
					   "  cannot see: NICs, cables, switches\n");
		else
			bb_strbuf_addf(out,
				       "  sees: NICs and rails of each node, %s\n"
				       "  cannot see: which node%s is slow\n",
				       bb_step_is_split(step) ? "paths within its group"
							      : "the network under full load",
				       bb_step_is_split(step) ? " of a group" : "");
	}
	for (uint32_t i = 0; i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const other = &s->profile->steps[i];

		if (other->narrows == step && other->after_failure)
			bb_strbuf_addf(out,
				       narrower++ == 0 ? "  if it fails: groups of %lld%s"
						       : ", %lld%s",
				       other->nodes, other->shift > 0 ? " shifted by a node" : "");
	}
	if (narrower > 0)
		bb_strbuf_addf(out, ": at most %d run%s until the culprit is found\n", narrower,
			       bb_plural(narrower));
	bb_strbuf_add(out, "  ");
	bb_plan_add_line(out, words);
	bb_strbuf_addf(out, "\n  gate: %s\n",
		       bb_step_diagnoses(step) ? "no culprit" : "no wrong data");
	for (size_t i = 0; i < step->ngates; i++) {
		struct bb_strbuf gate = {0}, line = {0};

		bb_plan_add_gate(&gate, &step->gates[i]);
		bb_printable_line(&line, "  gate: %s", bb_strbuf_text(&gate));
		bb_acceptance_prose(bb_strbuf_text(&line), out);
		bb_strbuf_free(&gate);
		bb_strbuf_free(&line);
	}
}

bb_status bb_acceptance_dry_run(struct bb_acceptance_session *s, const char *times,
				struct bb_error *error)
{
	json_t *verdict = NULL;
	struct bb_strbuf out = {0};
	char path[1200];
	bb_status st = BB_OK;

	if (times) {
		snprintf(path, sizeof(path), "%s/verdict.json", times);
		verdict = json_load_file(path, 0, NULL);
	}
	if (times && !verdict)
		st = bb_fail(error, BB_EUSAGE,
			     "--times %s: holds no verdict.json of acceptance run", times);
	else if (bb_record_bool(verdict, "virtual_time"))
		st = bb_fail(error, BB_EUSAGE,
			     "--times %s: that run was simulated; no time of it is real", times);
	for (uint32_t i = 0; st == BB_OK && i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];
		struct bb_words_list words = {.n = 0};

		if (step->mode == 0)
			bb_strbuf_addf(&out, "step %s: left out; nodes: all needs --nodes\n",
				       step->name);
		if (!(step->mode & s->mode) || (step->narrows && step->after_failure))
			continue;
		st = bb_plan_command(s->profile, step, &s->simulated, &s->places, &words, error);
		if (st == BB_OK)
			add_step(s, verdict, step, &out, &words);
		bb_words_free(&words);
	}
	total_add(verdict, times, s, &out);
	if (st == BB_OK)
		st = bb_write_text("-", &out, error);
	for (uint32_t i = 0; st == BB_OK && i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];
		json_t *file = NULL;

		for (size_t k = 0; st == BB_OK && (step->mode & s->mode) && k < step->ngates; k++) {
			if (step->gates[k].from->kind == BB_FROM_BASELINE)
				st = bb_baseline_open(s->profile_path, &step->gates[k], &file,
						      error);
			json_decref(file);
			file = NULL;
		}
	}
	json_decref(verdict);
	bb_strbuf_free(&out);
	return st;
}

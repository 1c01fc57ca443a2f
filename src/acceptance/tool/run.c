/*
 * run.c - acceptance run, with --dry-run its commands, gates and times, and acceptance baseline: a
 * baseline made, read, and kept as history.
 */
#include "acceptance/plan.h"
#include "acceptance/records.h"
#include "acceptance/tool/tool.h"
#include "acceptance/verdict.h"
#include "core/jansson/json_file.h"
#include "core/output.h"
#include "core/printable.h"
#include "core/share.h"
#include "core/units.h"
#include "core/version.h"
#include "harness/results/record.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BASELINE_BYTES (64 << 20)
#define BASELINE_HISTORY 100 /* former baselines in a file */
#define DUMP (JSON_INDENT(2) | JSON_REAL_PRECISION(17))

/* ---- baselines: making ----------------------------------------------------------------------- */

/* Adds METRIC of RECORD's subject over all runs of E to ENTRIES, unless none has it. VALUES has
   ROOM. Returns false without memory. */
static bool add_entry(const struct bb_evidence *e, const struct bb_metric *metric,
		      const struct bb_read_record *record, double *values, size_t room,
		      json_t *entries)
{
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	char subject[BB_SUBJECT_TEXT];
	double least = INFINITY, most = -INFINITY;
	size_t n = 0;

	bb_record_subject(subject, record, BB_SUBJECT_ALL);
	while (n < room && (r = bb_evidence_next(e, &at))) {
		const double value = bb_record_metric(r->json, metric);

		if (!isfinite(value) || strcmp(r->kind, record->kind) != 0 ||
		    !bb_record_is(r, subject))
			continue;
		values[n++] = value;
		least = fmin(least, value);
		most = fmax(most, value);
	}
	if (n == 0)
		return true;
	const struct bb_confidence c = bb_confidence_of(values, n);
	return json_array_append_new(
		       entries,
		       json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "step",
				 e->step->name, "subject", subject, "metric", metric->name, "unit",
				 metric->unit, "n", (json_int_t)n, "mean", c.mean, "stdev", c.stdev,
				 "min", least, "max", most, "low", c.low, "high", c.high)) == 0;
}

/* Judges a step without its gates: a baseline must have run, with right data (in virtual time there
   is none). */
static bb_status baseline_step_check(const struct bb_evidence *evidence, struct bb_error *error)
{
	struct bb_profile_step plain = *evidence->step;
	struct bb_judgements judgements = {.n = 0};
	struct bb_evidence e = *evidence;
	bool inside = false; /* it ended by an internal error, such as a full disk */

	plain.ngates = 0;
	e.step = &plain;
	bb_status st = bb_judge_step(&e, &judgements, error);
	const struct bb_judgement *const own = judgements.list;
	for (size_t i = 0; i < e.nruns; i++)
		inside |= e.runs[i].outcome.status == BB_EINTERNAL;
	if (st == BB_OK && own->verdict > BB_WARNED &&
	    (own->verdict != BB_SKIPPED || e.runs[0].outcome.status != BB_OK))
		st = bb_fail(error,
			     own->verdict == BB_FAILED ? BB_EDATA
			     : inside                  ? BB_EINTERNAL
						       : BB_EBACKEND,
			     "no baseline: %s: %s", plain.name, own->reason);
	bb_judgements_free(&judgements);
	return st;
}

/* Returns FORMER followed by its own history, as far as there is room; NULL without memory. */
static json_t *history_of(const json_t *former)
{
	static const char *const left_out[] = {"schema", "kind", "profile", "history"};
	const json_t *const older = json_object_get(former, "history");
	json_t *const history = json_array(), *entry = json_copy((json_t *)former);
	size_t bytes = 0;

	for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++)
		json_object_del(entry, left_out[i]);
	for (size_t i = 0; entry && i < BASELINE_HISTORY; i++) {
		bytes += json_dumpb(entry, NULL, 0, DUMP);
		if (bytes > BASELINE_BYTES / 2 || json_array_append(history, entry) != 0)
			break;
		json_decref(entry);
		entry = json_incref(json_array_get(older, i));
	}
	json_decref(entry);
	return history;
}

/*
 * Appends to OUT the baseline of a session whose steps have all run: mean, spread and number of
 * runs of every metric of every result, with date, versions and the topology's digest; as its
 * history FORMER (NULL: none), then the history of FORMER, without the oldest if they are too many.
 * BB_EBACKEND: a step did not run; BB_EDATA: data was wrong.
 */
static bb_status baseline_make(const struct bb_acceptance_session *s, const json_t *former,
			       struct bb_strbuf *out, struct bb_error *error)
{
	const json_t *const run = bb_records_first(&s->evidence[0].runs[0].records, "run");
	static const char *const members[] = {"backend", "library", "host",
					      "cpu",     "os",      "topology"};
	json_t *const entries = json_array(), *baseline;
	char now[BB_TIME_TEXT], *dump = NULL;
	bool good = entries;
	bb_status st = BB_OK;

	for (size_t i = 0; st == BB_OK && i < s->n; i++)
		if (!s->evidence[i].unneeded)
			st = baseline_step_check(&s->evidence[i], error);
	/* An entry for every metric of every record in the first run of a step, over all its runs.
	 */
	for (size_t i = 0; st == BB_OK && i < s->n; i++) {
		const struct bb_records *const first = &s->evidence[i].runs[0].records;
		const size_t room = s->evidence[i].nruns * 64;
		double *const values = calloc(room, sizeof(*values));

		good &= values != NULL;
		for (size_t k = 0; values && k < first->n; k++)
			for (int m = 0; bb_metrics[m].name; m++)
				good &= add_entry(&s->evidence[i], &bb_metrics[m], &first->list[k],
						  values, room, entries);
		free(values);
	}
	bb_time_text(now);
	baseline = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:s}", "schema", BB_SCHEMA, "kind",
			     "acceptance_baseline", "run_id", s->run_id, "date", now, "profile",
			     s->profile->name, "n", (json_int_t)s->evidence[0].nruns, "version",
			     BB_VERSION);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		good &= json_object_set(baseline, members[i],
					json_object_get(run, members[i]) ?: json_null()) == 0;
	good &= json_object_set_new(baseline, "entries", entries) == 0;
	if (former)
		good &= json_object_set_new(baseline, "history", history_of(former)) == 0;
	if (good && st == BB_OK)
		dump = json_dumps(baseline, DUMP);
	if (dump)
		bb_strbuf_addf(out, "%s\n", dump);
	else if (st == BB_OK)
		st = bb_no_memory(error, "a baseline");
	json_decref(baseline);
	free(dump);
	return st;
}

/* ---- baselines: reading ---------------------------------------------------------------------- */

/* *FILE = the baseline that REQUEST names; the caller releases it whatever comes back. */
static bb_status baseline_load(const struct bb_file_request *request, json_t **file,
			       struct bb_error *error)
{
	const bb_status st = bb_json_file_open(request, "baseline", file, error);

	if (st != BB_OK || bb_record_says(*file, "kind", "acceptance_baseline"))
		return st;
	return bb_fail(error, BB_EUSAGE, "%s%s%s is no baseline",
		       request->option ? request->option : "", request->option ? " " : "",
		       request->path);
}

/*
 * Opens those that the gates of S name, each a file beside the profile, and sets them into the
 * evidence. Their origin is added to the source of the gate. BB_EUSAGE: a file is no baseline.
 */
static bb_status baselines_open(struct bb_acceptance_session *s, struct bb_error *error)
{
	const char *const profile = s->profile_path, *const slash = strrchr(profile, '/');
	char path[1024];
	const struct bb_file_request request = {.path = path, .most = BASELINE_BYTES};
	struct bb_error why = {0};

	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < s->evidence[i].step->ngates; k++) {
			struct bb_gate *const g = &s->evidence[i].step->gates[k];
			json_t **const file = &s->evidence[i].expected[k].baseline;
			struct bb_source *const from = &g->from;

			if (from->kind != BB_FROM_BASELINE)
				continue;
			/* Relative to the folder of the profile. */
			if (from->baseline[0] == '/' || !slash)
				snprintf(path, sizeof(path), "%s", from->baseline);
			else
				snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - profile),
					 profile, from->baseline);
			if (baseline_load(&request, file, &why) != BB_OK)
				return bb_fail(error, BB_EUSAGE,
					       "%s:%d: from: baseline: %s; `acceptance baseline` "
					       "makes one",
					       profile, g->line, why.text);
			snprintf(from->origin, sizeof(from->origin),
				 "%s: %lld runs on %s, %s, busbench %s, topology %s",
				 from->baseline, (long long)bb_record_int(*file, "n"),
				 bb_record_string(*file, "host") ?: "?",
				 bb_record_string(*file, "date") ?: "?",
				 bb_record_string(*file, "version") ?: "?",
				 bb_record_string(*file, "topology") ?: "?");
		}
	return BB_OK;
}

/*
 * *FORMER = the baseline in the file PATH, which a new one of PROFILE replaces; the caller releases
 * it whatever comes back. NULL: there is no file. BB_EUSAGE: it holds no baseline, or that of
 * another profile.
 */
static bb_status baseline_former(const char *path, const char *profile, json_t **former,
				 struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--into", .path = path, .most = BASELINE_BYTES};
	struct bb_error why = {0};

	*former = NULL;
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return BB_OK;
	if (baseline_load(&request, former, &why) != BB_OK)
		return bb_fail(error, BB_EUSAGE, "%s; give a new path or a baseline", why.text);
	if (bb_record_says(*former, "profile", profile))
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "--into %s: holds the baseline of profile %.60s, not of %.60s", path,
		       bb_record_string(*former, "profile") ?: "without a name", profile);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Returns the seconds of a run of STEP on a healthy system: the mean of those in VERDICT (NULL:
   none) that ended by themselves, of narrower groups else of the step that they replace, else what
   the profile says; 0: unknown. *MEASURED = is it of an earlier run? */
static double time_of(const json_t *verdict, const struct bb_profile_step *step, bool *measured)
{
	const char *const names[] = {step->name, bb_step_declared(step)->name};
	double sum = 0;
	size_t i, k, n = 0;
	json_t *of, *run;

	for (int name = 0; name < 2 && n == 0; name++)
		json_array_foreach(json_object_get(verdict, "steps"), i, of)
		{
			const bool same = bb_record_says(of, "name", names[name]);

			json_array_foreach(same ? json_object_get(of, "runs") : NULL, k, run)
			{
				const double seconds = bb_record_number(run, "wall_s");

				if (!(seconds > 0) || bb_record_bool(run, "timed_out"))
					continue;
				sum += seconds;
				n++;
			}
		}
	*measured = n > 0;
	return n > 0 ? sum / (double)n : (double)step->takes_ns / 1e9;
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

/* Runs of several steps. */
struct total {
	double seconds, limit;
	long long runs, unknown, measured;
};

/* Appends two lines: how many runs, and how long the steps of S take on real nodes while nothing
   fails, what a failure adds, and where these times come from: measured ones from folder DIR. */
static void total_add(const struct total *healthy, const struct total *more, const char *dir,
		      const struct bb_acceptance_session *s, struct bb_strbuf *out)
{
	const long long stated = healthy->runs - healthy->unknown - healthy->measured;
	bb_strbuf_addf(out, "Runs: %lld", healthy->runs);
	if (more->runs > 0)
		bb_strbuf_addf(out, ", at most %lld more after a failure", more->runs);
	if (s->simulated.cluster) {
		bb_strbuf_add(out, "; simulated, the times of real runs do not apply\n");
		return;
	}
	if (healthy->measured > 0)
		bb_strbuf_addf(out, "; time of %lld as measured in %s", healthy->measured, dir);
	if (stated > 0)
		bb_strbuf_addf(out, "; time of %lld as the profile states, not measured", stated);
	if (healthy->unknown > 0)
		bb_strbuf_addf(out, "; time of %lld unknown, give takes: or --times",
			       healthy->unknown);
	bb_strbuf_add(out, "\nTime: ");
	if (healthy->unknown > 0) {
		bb_strbuf_add(out, "unknown; the time limits allow ");
		time_add(healthy->limit + more->limit, out);
	} else {
		time_add(healthy->seconds, out);
		bb_strbuf_add(out, " if healthy");
	}
	if (healthy->unknown == 0 && more->runs > 0) {
		bb_strbuf_add(out, ", at most ");
		time_add(more->seconds, out);
		bb_strbuf_add(out, " more after a failure");
	}
	bb_strbuf_add(out, "\n");
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void plan_add_step(const struct bb_acceptance_session *s, long long runs, double seconds,
			  const struct bb_profile_step *step, struct bb_strbuf *out,
			  struct bb_words_list *words)
{
	int narrower = 0;

	bb_strbuf_addf(out, "step %s: %lld run%s", step->name, runs, bb_plural(runs));
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
			bb_strbuf_add(out, "  sees: slow and flapping nodes, rails and links, and "
					   "ranks that come late\n"
					   "  cannot see: links between nodes that do not meet, "
					   "congestion of collectives\n");
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

/* Print the plan of S, with the times of an earlier run in folder TIMES, unless that is NULL, and
   check that its baselines exist. */
static bb_status dry_run(struct bb_acceptance_session *s, const char *times, struct bb_error *error)
{
	struct total totals[2] = {{.runs = 0}}; /* what always takes place, and after a failure */
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
		if (!(step->mode & s->mode))
			continue;
		const long long runs = bb_session_repeats(s, step);
		struct total *const t = &totals[step->after_failure];
		bool measured;
		const double seconds = time_of(verdict, step, &measured);
		t->runs += runs;
		t->seconds += (double)runs * seconds;
		t->limit += (double)runs * (double)step->limit_ns / 1e9;
		t->unknown += seconds > 0 ? 0 : runs;
		t->measured += measured ? runs : 0;
		if (step->narrows && step->after_failure)
			continue;
		st = bb_plan_command(s->profile, step, &s->simulated, NULL, &s->places, &words,
				     error);
		if (st == BB_OK)
			plan_add_step(s, runs, seconds, step, &out, &words);
		bb_words_free(&words);
	}
	total_add(&totals[0], &totals[1], times, s, &out);
	if (st == BB_OK)
		st = bb_write_text("-", &out, error);
	if (st == BB_OK)
		st = baselines_open(s, error);
	json_decref(verdict);
	bb_strbuf_free(&out);
	return st;
}

/* ---- the begin of run and baseline ----------------------------------------------------------- */

/* Reads the profile and the settings: those of the options, else those of the interrupted run that
   --resume continues without a profile. Paths are relative to where its profile was. */
static bb_status begin(const struct bb_acceptance_job *job, struct bb_acceptance_session *s,
		       struct bb_error *error)
{
	const struct bb_acceptance_options *const o = job->o;
	const char *const operand = job->operands[0], *mode;
	char runs[1200], kept[1200], now[BB_TIME_TEXT], *text = NULL;
	struct bb_error none = {0};
	struct bb_strbuf why = {0};
	size_t length;
	bb_status st;

	if (job->noperands > 1)
		return bb_fail(error, BB_EUSAGE, "%s: one profile at a time", job->operands[1]);
	if (job->noperands == 0) {
		snprintf(runs, sizeof(runs), "%s/runs.jsonl", o->resume);
		snprintf(kept, sizeof(kept), "%s/profile.yaml", o->resume);
		if (bb_read_whole(runs, BB_RECORDS_BYTES, &text, &length, &none) == BB_OK)
			s->before = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, NULL);
		free(text);
		if (!s->before)
			return bb_fail(error, BB_EUSAGE, "--resume %s: holds no run of acceptance",
				       o->resume);
		snprintf(s->profile_path, sizeof(s->profile_path), "%s",
			 bb_record_string(s->before, "profile") ?: kept);
	} else if (!bb_shelf_find(&bb_shelf_profiles, operand, s->profile_path)) {
		/* A name with a dot or a slash is a path, whose reader reports that it does not
		   exist. */
		if (!strpbrk(operand, "./") || strlen(operand) >= sizeof(s->profile_path)) {
			bb_shelf_explain(&bb_shelf_profiles, operand, &why);
			st = bb_fail(error, BB_EUSAGE, "%s", bb_strbuf_text(&why));
			bb_strbuf_free(&why);
			return st;
		}
		snprintf(s->profile_path, sizeof(s->profile_path), "%s", operand);
	}
	BB_TRY(st,
	       bb_read_whole(s->before ? kept : s->profile_path, BB_PROFILE_BYTES, &s->text,
			     &length, error),
	       out);
	/* A run of an older version has no nodes. */
	s->scale.nodes = json_integer_value(json_object_get(s->before, "nodes"));
	s->scale.per_node = json_integer_value(json_object_get(s->before, "ranks_per_node"));
	s->scale.nodes = o->all_nodes > 0 ? o->all_nodes : s->scale.nodes;
	s->scale.per_node = o->ranks_per_node > 0 ? o->ranks_per_node : s->scale.per_node;
	BB_TRY(st, bb_profile_read(s->profile_path, s->text, length, &s->scale, &s->profile, error),
	       out);
	if (!bb_own_folder(s->places.binaries, sizeof(s->places.binaries)))
		return bb_fail(error, BB_EINTERNAL, "/proc/self/exe cannot be read");
	bb_time_text(now);
	for (char *c = now; *c; c++)
		*c = *c == ':' ? '-' : *c;
	if (o->resume || o->output)
		snprintf(s->dir, sizeof(s->dir), "%s", o->resume ? o->resume : o->output);
	else
		snprintf(s->dir, sizeof(s->dir), "acceptance-%s-%.19sZ", s->profile->name, now);
	snprintf(s->places.outputs, sizeof(s->places.outputs), "%s/files", s->dir);
	mode = bb_record_string(s->before, "mode");
	s->mode = o->quick || (!o->full && mode && strcmp(mode, "quick") == 0) ? BB_QUICK : BB_FULL;
	s->repeats = o->repeats;
	s->simulated.cluster = o->cluster ?: bb_record_string(s->before, "cluster");
	s->simulated.fault = o->fault ?: bb_record_string(s->before, "fault");
	s->resume = o->resume != NULL;
	s->quiet = o->quiet;
	BB_TRY(st,
	       bb_plan_check(s->profile, s->profile_path, s->places.binaries, s->mode,
			     &s->simulated, error),
	       out);
	st = bb_session_prepare(s, error);
out:
	return st;
}

/* Appends the command that resumes an interrupted SUBJECT. */
static void add_resume(const struct bb_acceptance_session *s, const char *subject, bool strict,
		       struct bb_strbuf *out)
{
	char binary[1200], repeats[24];
	const char *words[8] = {binary, subject, "--resume", s->dir};
	struct bb_words_list list = {(char **)words, 4, NULL};

	snprintf(binary, sizeof(binary), "%s/acceptance", s->places.binaries);
	snprintf(repeats, sizeof(repeats), "%lld", (long long)s->repeats);
	if (strict)
		words[list.n++] = "--strict";
	if (s->repeats > 0) {
		words[list.n++] = "-n";
		words[list.n++] = repeats;
	}
	bb_strbuf_add(out, "To resume: ");
	bb_plan_add_line(out, &list);
	bb_strbuf_add(out, "\n");
}

/* ---- run ------------------------------------------------------------------------------------- */

/* True if a run of E failed, or the fault changed a time of it, by more than rounding, or data. An
   unknown time is no evidence. */
static bool fault_shows(const struct bb_evidence *e)
{
	static const char *const times[][2] = {{"time_us", "faultless_us"},
					       {"faulty_s", "faultless_s"}};
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	bool shows = false;

	for (size_t i = 0; i < e->nruns; i++)
		shows |= e->runs[i].outcome.status != BB_OK;
	while (!shows && (r = bb_evidence_next(e, &at))) {
		shows = bb_record_int(r->json, "wrong") > 0;
		for (int i = 0; i < 2; i++) {
			const double usual = bb_record_number(r->json, times[i][1]);

			shows |= fabs(bb_record_number(r->json, times[i][0]) - usual) >
				 1e-9 * fabs(usual);
		}
	}
	return shows;
}

/* Passing with a fault that no step touches proves nothing: if --fault was planted in the steps of
   S and changed none of their times, appends a judgement "fault" that could not be judged: it names
   the steps that would see it. */
static void planted_judge(const struct bb_acceptance_session *s, struct bb_judgements *judgements)
{
	const struct bb_plan_cluster *const p = &s->simulated;
	const enum bb_mode other = s->mode == BB_QUICK ? BB_FULL : BB_QUICK;
	struct bb_evidence largest = {.step = s->evidence[0].step};
	struct bb_strbuf here = {0}, there = {0};
	bool shows = false;

	if (!p->fault)
		return;
	for (size_t i = 0; i < s->n; i++) {
		const struct bb_evidence *const e = &s->evidence[i];

		if (!e->unneeded && bb_plan_has_fault(p, e->step)) {
			shows |= fault_shows(e);
			bb_strbuf_addf(&here, "%s%s", here.length > 0 ? ", " : "", e->step->name);
		}
		if (bb_step_all_ranks(e->step) > bb_step_all_ranks(largest.step))
			largest.step = e->step;
	}
	/* Those that the other mode would run in any case. */
	for (uint32_t i = 0; i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];

		if ((step->mode & other) && !step->after_failure && bb_plan_has_fault(p, step))
			bb_strbuf_addf(&there, "%s%s", there.length > 0 ? ", " : "", step->name);
	}
	const int nodes = (p->faulty + p->per_node - 1) / p->per_node;
	struct bb_judgement j = bb_judgement_of(&largest, NULL, "fault");
	if (here.length > 0)
		bb_judgement_decide(&j, BB_UNJUDGED,
				    "--fault %s changes no time: nothing of %s goes over it; plant "
				    "it where they communicate",
				    p->fault, bb_strbuf_text(&here));
	else if (there.length > 0)
		bb_judgement_decide(
			&j, BB_UNJUDGED,
			"--fault %s is in no step of --%s; steps of --%s that see it: %s", p->fault,
			bb_mode_name(s->mode), bb_mode_name(other), bb_strbuf_text(&there));
	else
		bb_judgement_decide(&j, BB_UNJUDGED,
				    "--fault %s is in no step: a step of %d ranks on %d nodes or "
				    "more sees it, and the largest, %s, has %lld on %lld",
				    p->fault, nodes * p->per_node, nodes, j.step->name,
				    j.step->ranks, j.step->nodes);
	if (shows)
		free(j.reason);
	else
		bb_judgements_add(judgements, &j);
	bb_strbuf_free(&here);
	bb_strbuf_free(&there);
}

#define REPORT_NS (UINT64_C(300) * 1000000000)

/* Makes the page of a run whose verdict is written, by scripts/report.py, installed or of the
   source tree. SAID gets its path, or why there is none: the last line that it wrote. */
static void report_make(const char *dir, struct bb_strbuf *said)
{
	char script[BB_SHARE_PATH], out[1200], err[1200], line[320] = "";
	char *const words[] = {script, (char *)dir, NULL};
	char *text = NULL;
	size_t length;
	struct bb_outcome outcome;
	struct bb_error why = {0};

	if (!bb_share_find("scripts/report.py", "scripts/report.py", script)) {
		bb_strbuf_add(said, "No report: scripts/report.py is neither installed nor beside "
				    "the build folder\n");
		return;
	}
	snprintf(out, sizeof(out), "%s/logs/report.out.txt", dir);
	snprintf(err, sizeof(err), "%s/logs/report.txt", dir);
	if (bb_command_run(&(struct bb_command){words, out, err, REPORT_NS}, &outcome, &why) !=
	    BB_OK) {
		bb_strbuf_addf(said, "No report: %s\n", why.text);
	} else if (outcome.status == 0 && !outcome.timed_out) {
		bb_strbuf_addf(said, "Report: %s/report/index.html\n", dir);
	} else {
		if (bb_read_whole(err, 1 << 20, &text, &length, &why) == BB_OK)
			for (char *rest = text, *last; (last = strtok_r(rest, "\n", &rest));)
				snprintf(line, sizeof(line), "%.300s", last);
		free(text);
		bb_strbuf_addf(said, "No report: %s\n", line[0] ? line : "report.py failed");
	}
}

static bb_status write_file(const struct bb_acceptance *a, const char *name,
			    void (*add)(const struct bb_acceptance *a, struct bb_strbuf *out),
			    struct bb_error *error)
{
	struct bb_strbuf out = {0};
	char path[1200];

	if (name)
		snprintf(path, sizeof(path), "%s/%s", a->session->dir, name);
	add(a, &out);
	const bb_status st = bb_write_text(name ? path : "-", &out, error);
	bb_strbuf_free(&out);
	return st;
}

static bb_status conclude(const struct bb_acceptance_session *s,
			  const struct bb_acceptance_options *o, bb_status *verdict,
			  struct bb_error *error)
{
	struct bb_judgements judgements = {.n = 0};
	struct bb_nodes nodes = {.n = 0};
	struct bb_strbuf text = {0};
	struct bb_acceptance a = {s, &judgements, &nodes, {.status = BB_OK}, o->strict, o->verbose};
	bb_status st;

	for (size_t i = 0; i < s->n; i++)
		BB_TRY(st, bb_judge_step(&s->evidence[i], &judgements, error), out);
	planted_judge(s, &judgements);
	if (judgements.failed)
		BB_TRY(st, bb_no_memory(error, "verdicts"), out);
	BB_TRY(st, bb_nodes_judge(s->evidence, s->n, &judgements, &nodes, error), out);
	a.totals = bb_judgements_total(&judgements, o->strict);
	if (o->strict && bb_nodes_suspected(&nodes) > 0)
		a.totals.status = BB_EDATA;
	BB_TRY(st, write_file(&a, "verdict.json", bb_acceptance_json, error), out);
	BB_TRY(st, write_file(&a, "junit.xml", bb_acceptance_junit, error), out);
	BB_TRY(st, write_file(&a, NULL, bb_acceptance_text, error), out);
	if (!o->no_report && !s->stopped_by)
		report_make(s->dir, &text);
	if (s->stopped_by)
		add_resume(s, "run", o->strict, &text);
	bb_strbuf_addf(&text, "Verdict: %s%s\n", bb_acceptance_word(&a),
		       s->simulated.cluster ? " (simulated)" : "");
	BB_TRY(st, bb_write_text("-", &text, error), out);
	*verdict = a.totals.status;
out:
	bb_strbuf_free(&text);
	bb_nodes_free(&nodes);
	bb_judgements_free(&judgements);
	return st;
}

bb_status bb_acceptance_run(struct bb_acceptance_job *job, struct bb_error *error)
{
	struct bb_acceptance_session s = {.profile = NULL};
	bb_status st, verdict = BB_OK;

	BB_TRY(st, begin(job, &s, error), out);
	if (job->o->dry_run) {
		st = dry_run(&s, job->o->times, error);
		goto out;
	}
	BB_TRY(st, bb_commands_prepare(error), out);
	BB_TRY(st, bb_session_open(&s, error), out);
	BB_TRY(st, baselines_open(&s, error), out);
	BB_TRY(st, bb_session_run(&s, error), out);
	BB_TRY(st, conclude(&s, job->o, &verdict, error), out);
	job->signal = s.stopped_by;
	st = verdict;
out:
	bb_session_free(&s);
	return st;
}

/* ---- baseline -------------------------------------------------------------------------------- */

bb_status bb_acceptance_baseline(struct bb_acceptance_job *job, struct bb_error *error)
{
	struct bb_acceptance_session s = {.profile = NULL};
	struct bb_strbuf out = {0};
	const struct bb_output into = {.option = "--into", .path = job->o->into};
	json_t *former = NULL;
	char path[1200], fresh[1300];
	bb_status st;

	BB_TRY(st, begin(job, &s, error), out);
	s.healthy = true;
	snprintf(path, sizeof(path), "%s%s", into.path ? into.path : s.dir,
		 into.path ? "" : "/baseline.json");
	if (into.path) { /* before hours of measuring */
		BB_TRY(st, bb_output_check(&into, error), out);
		BB_TRY(st, baseline_former(path, s.profile->name, &former, error), out);
		json_decref(former);
		former = NULL;
	}
	BB_TRY(st, bb_commands_prepare(error), out);
	BB_TRY(st, bb_session_open(&s, error), out);
	BB_TRY(st, bb_session_run(&s, error), out);
	job->signal = s.stopped_by;
	if (job->signal) {
		add_resume(&s, "baseline", false, &out);
		st = bb_write_text("-", &out, error);
		goto out;
	}
	BB_TRY(st, baseline_former(path, s.profile->name, &former, error), out);
	BB_TRY(st, baseline_make(&s, former, &out, error), out);
	/* The file is replaced at once, because it may hold the only copy of the history. */
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	BB_TRY(st, bb_write_text(fresh, &out, error), out);
	if (rename(fresh, path) != 0)
		BB_TRY(st,
		       bb_fail(error, bb_output_status(errno), "%s cannot be written: %s", path,
			       strerror(errno)),
		       out);
	bb_strbuf_clear(&out);
	bb_strbuf_addf(&out, "Baseline of %lld runs: %s\n", (long long)s.repeats, path);
	st = bb_write_text("-", &out, error);
out:
	json_decref(former);
	bb_strbuf_free(&out);
	bb_session_free(&s);
	return st;
}

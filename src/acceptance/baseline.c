/*
 * baseline.c - a baseline made, read, and kept as history.
 */
#include "acceptance/baseline.h"

#include "core/jansson/json_file.h"
#include "core/version.h"
#include "harness/results/record.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DUMP (JSON_INDENT(2) | JSON_REAL_PRECISION(17))

/* ---- making ---------------------------------------------------------------------------------- */

/* Adds METRIC of RECORD's subject over all runs of E to ENTRIES, unless none has it. VALUES has
   ROOM. Returns false without memory. */
static bool add_entry(const struct bb_evidence *e, const struct bb_metric *metric,
		      const struct bb_read_record *record, double *values, size_t room,
		      json_t *entries)
{
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	struct bb_confidence c;
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
	c = bb_confidence_of(values, n);
	return json_array_append_new(
		       entries,
		       json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "step",
				 e->step->name, "subject", subject, "metric", metric->name, "unit",
				 metric->unit, "n", (json_int_t)n, "mean", c.mean, "stdev", c.stdev,
				 "min", least, "max", most, "low", c.low, "high", c.high)) == 0;
}

/* Judges a step without its gates: a baseline must have run, with right data (in virtual time there
   is none). */
static bb_status step_check(const struct bb_evidence *evidence, struct bb_error *error)
{
	struct bb_profile_step plain = *evidence->step;
	struct bb_judgements judgements = {.n = 0};
	struct bb_evidence e = *evidence;
	const struct bb_judgement *own;
	bool inside = false; /* it ended by an internal error, such as a full disk */
	bb_status st;

	plain.ngates = 0;
	e.step = &plain;
	st = bb_judge_step(&e, &judgements, error);
	own = judgements.list;
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
	for (size_t i = 0; entry && i < BB_BASELINE_HISTORY; i++) {
		bytes += json_dumpb(entry, NULL, 0, DUMP);
		if (bytes > BB_BASELINE_BYTES / 2 || json_array_append(history, entry) != 0)
			break;
		json_decref(entry);
		entry = json_incref(json_array_get(older, i));
	}
	json_decref(entry);
	return history;
}

bb_status bb_baseline_make(const struct bb_acceptance_session *s, const json_t *former,
			   struct bb_strbuf *out, struct bb_error *error)
{
	const struct bb_read_record *const run =
		bb_records_first(&s->evidence[0].runs[0].records, "run");
	static const char *const members[] = {"backend", "library", "host",
					      "cpu",     "os",      "topology"};
	json_t *const entries = json_array(), *baseline;
	char now[BB_TIME_TEXT], *dump = NULL;
	bool good = entries;
	bb_status st = BB_OK;

	for (size_t i = 0; st == BB_OK && i < s->n; i++)
		if (!s->evidence[i].unneeded)
			st = step_check(&s->evidence[i], error);
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
					json_object_get(run ? run->json : NULL, members[i])
						?: json_null()) == 0;
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

/* ---- reading --------------------------------------------------------------------------------- */

/* *FILE = the baseline that REQUEST names; the caller releases it. */
static bb_status baseline_load(const struct bb_file_request *request, json_t **file,
			       struct bb_error *error)
{
	const bb_status st = bb_json_file_open(request, "baseline", file, error);

	if (st != BB_OK || bb_record_says(*file, "kind", "acceptance_baseline"))
		return st;
	json_decref(*file);
	*file = NULL;
	return bb_fail(error, BB_EUSAGE, "%s%s%s is no baseline",
		       request->option ? request->option : "", request->option ? " " : "",
		       request->path);
}

bb_status bb_baselines_open(struct bb_acceptance_session *s, struct bb_error *error)
{
	const char *const profile = s->profile_path, *const slash = strrchr(profile, '/');
	char path[1024];
	const struct bb_file_request request = {.path = path, .most = BB_BASELINE_BYTES};
	struct bb_error why = {0};

	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < s->evidence[i].step->ngates; k++) {
			const struct bb_gate *const g = &s->evidence[i].step->gates[k];
			json_t **const file = &s->evidence[i].expected[k].baseline;
			struct bb_source *const from = g->from;

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

/* ---- history --------------------------------------------------------------------------------- */

bb_status bb_baseline_former(const char *path, const char *profile, json_t **former,
			     struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--into", .path = path, .most = BB_BASELINE_BYTES};
	struct bb_error why = {0};
	const char *name;

	*former = NULL;
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return BB_OK;
	if (baseline_load(&request, former, &why) != BB_OK)
		return bb_fail(error, BB_EUSAGE, "%s; give a new path or a baseline", why.text);
	if (bb_record_says(*former, "profile", profile))
		return BB_OK;
	name = bb_record_string(*former, "profile");
	bb_fail(error, BB_EUSAGE, "--into %s: holds the baseline of profile %.60s, not of %.60s",
		path, name ? name : "without a name", profile);
	json_decref(*former);
	*former = NULL;
	return BB_EUSAGE;
}

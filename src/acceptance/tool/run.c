/*
 * run.c - acceptance run and acceptance baseline.
 */
#include "acceptance/baseline.h"
#include "acceptance/plan.h"
#include "acceptance/process.h"
#include "acceptance/records.h"
#include "acceptance/tool/tool.h"
#include "acceptance/verdict.h"
#include "core/output.h"
#include "core/printable.h"
#include "core/share.h"
#include "core/units.h"
#include "harness/run/plugin.h"
#include "harness/results/record.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The begin of both subjects. */
struct begun {
	struct bb_profile *profile;
	char *text;
	json_t *before; /* the interrupted run, if no profile is given; NULL: one is */
	char folder[1024], dir[1024], outputs[1200], kept[1200], found[BB_SHARE_PATH];
	struct bb_acceptance_session session;
};

/* Reads the profile and the settings: those of the options, else those of the interrupted run that
   --resume continues without a profile. Paths are relative to where its profile was. */
static bb_status begin(const struct bb_acceptance_job *job, struct begun *b, struct bb_error *error)
{
	const struct bb_acceptance_options *const o = job->o;
	const char *path = job->operands[0], *file = b->found, *mode;
	char runs[1200], now[BB_TIME_TEXT], *text = NULL;
	struct bb_error none = {0};
	struct bb_strbuf why = {0};
	struct bb_scale scale;
	size_t length;
	bb_status st;

	if (job->noperands > 1)
		return bb_fail(error, BB_EUSAGE, "%s: one profile at a time", job->operands[1]);
	if (job->noperands == 0) {
		snprintf(runs, sizeof(runs), "%s/runs.jsonl", o->resume);
		snprintf(b->kept, sizeof(b->kept), "%s/profile.yaml", o->resume);
		file = b->kept;
		if (bb_read_whole(runs, BB_RECORDS_BYTES, &text, &length, &none) == BB_OK)
			b->before = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, NULL);
		free(text);
		if (!b->before)
			return bb_fail(error, BB_EUSAGE, "--resume %s: holds no run of acceptance",
				       o->resume);
		path = bb_record_string(b->before, "profile");
		path = path ? path : b->kept;
	} else if (bb_shelf_find(&bb_shelf_profiles, path, b->found)) {
		path = b->found;
	} else if (strpbrk(path, "./") && strlen(path) < sizeof(b->found)) {
		/* A name with a dot or a slash is a path, whose reader reports that it does not
		   exist. */
		snprintf(b->found, sizeof(b->found), "%s", path);
		path = b->found;
	} else {
		bb_shelf_explain(&bb_shelf_profiles, path, &why);
		st = bb_fail(error, BB_EUSAGE, "%s", bb_strbuf_text(&why));
		bb_strbuf_free(&why);
		return st;
	}
	BB_TRY(st, bb_read_whole(file, BB_PROFILE_BYTES, &b->text, &length, error), out);
	/* A run of an older version has no nodes. */
	scale.nodes = json_integer_value(json_object_get(b->before, "nodes"));
	scale.per_node = json_integer_value(json_object_get(b->before, "ranks_per_node"));
	scale.nodes = o->all_nodes > 0 ? o->all_nodes : scale.nodes;
	scale.per_node = o->ranks_per_node > 0 ? o->ranks_per_node : scale.per_node;
	BB_TRY(st, bb_profile_read(path, b->text, length, &scale, &b->profile, error), out);
	if (!bb_own_folder(b->folder, sizeof(b->folder)))
		return bb_fail(error, BB_EINTERNAL, "/proc/self/exe cannot be read");
	bb_time_text(now);
	for (char *c = now; *c; c++)
		*c = *c == ':' ? '-' : *c;
	if (o->resume || o->output)
		snprintf(b->dir, sizeof(b->dir), "%s", o->resume ? o->resume : o->output);
	else
		snprintf(b->dir, sizeof(b->dir), "acceptance-%s-%.19sZ", b->profile->name, now);
	snprintf(b->outputs, sizeof(b->outputs), "%s/files", b->dir);
	mode = bb_record_string(b->before, "mode");
	b->session = (struct bb_acceptance_session){
		.profile = b->profile,
		.profile_path = path,
		.text = b->text,
		.dir = b->dir,
		.places = {b->folder, b->outputs},
		.mode = o->quick || (!o->full && mode && strcmp(mode, "quick") == 0) ? BB_QUICK
										     : BB_FULL,
		.scale = scale,
		.repeats = o->repeats,
		.simulated = {o->cluster ? o->cluster : bb_record_string(b->before, "cluster"),
			      o->fault ? o->fault : bb_record_string(b->before, "fault")},
		.resume = o->resume != NULL,
		.quiet = o->quiet};
	st = bb_plan_check(&(struct bb_planned){b->profile, path, b->folder, b->session.mode,
						&b->session.simulated, bb_plugin_parse_topology},
			   error);
out:
	return st;
}

static void end(struct begun *b)
{
	bb_session_free(&b->session);
	bb_profile_free(b->profile);
	json_decref(b->before);
	free(b->text);
}

/* Appends the command that resumes an interrupted SUBJECT. */
static void add_resume(const struct begun *b, const char *subject, bool strict,
		       struct bb_strbuf *out)
{
	char binary[1200], repeats[24];
	const char *words[8] = {binary, subject, "--resume", b->dir};
	struct bb_words_list list = {(char **)words, 4, NULL};

	snprintf(binary, sizeof(binary), "%s/acceptance", b->folder);
	snprintf(repeats, sizeof(repeats), "%lld", (long long)b->session.repeats);
	if (strict)
		words[list.n++] = "--strict";
	if (b->session.repeats > 0) {
		words[list.n++] = "-n";
		words[list.n++] = repeats;
	}
	bb_strbuf_add(out, "To resume: ");
	bb_plan_add_line(out, &list);
	bb_strbuf_add(out, "\n");
}

/* ---- run ------------------------------------------------------------------------------------- */

/* True if two times differ by more than rounding; an unknown time is no evidence. */
static bool times_differ(const struct bb_read_record *r, const char *faulty, const char *faultless)
{
	const double usual = bb_record_number(r->json, faultless);

	return fabs(bb_record_number(r->json, faulty) - usual) > 1e-9 * fabs(usual);
}

/* True if the fault was in the step of E. */
static bool has_fault(const struct bb_acceptance_session *s, const struct bb_evidence *e)
{
	return !e->unneeded && bb_plan_has_fault(&s->simulated, e->step);
}

/* True if a run of E failed, or the fault changed a time of it or data. */
static bool fault_shows(const struct bb_evidence *e)
{
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	bool shows = false;

	for (size_t i = 0; i < e->nruns; i++)
		shows |= e->runs[i].outcome.status != BB_OK;
	while (!shows && (r = bb_evidence_next(e, &at)))
		shows = times_differ(r, "time_us", "faultless_us") ||
			times_differ(r, "faulty_s", "faultless_s") ||
			bb_record_int(r->json, "wrong") > 0;
	return shows;
}

/* Explains which steps would notice the fault. */
static void fault_explain(const struct bb_acceptance_session *s, struct bb_judgement *j)
{
	const struct bb_plan_cluster *const p = &s->simulated;
	const bool quick = s->mode == BB_QUICK;
	const int nodes = (p->faulty + p->per_node - 1) / p->per_node;
	struct bb_strbuf here = {0}, there = {0};

	for (size_t i = 0; i < s->n; i++)
		if (has_fault(s, &s->evidence[i]))
			bb_strbuf_addf(&here, "%s%s", here.length > 0 ? ", " : "",
				       s->evidence[i].step->name);
	/* Those that the other mode would run in any case. */
	for (uint32_t i = 0; i < s->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &s->profile->steps[i];

		if ((step->mode & (quick ? BB_FULL : BB_QUICK)) && !step->after_failure &&
		    bb_plan_has_fault(p, step))
			bb_strbuf_addf(&there, "%s%s", there.length > 0 ? ", " : "", step->name);
	}
	if (here.length > 0)
		bb_judgement_decide(j, BB_UNJUDGED,
				    "--fault %s changes no time: nothing of %s goes over it; plant it where they communicate",
				    p->fault, bb_strbuf_text(&here));
	else if (there.length > 0)
		bb_judgement_decide(
			j, BB_UNJUDGED,
			"--fault %s is in no step of --%s; steps of --%s that see it: %s", p->fault,
			quick ? "quick" : "full", quick ? "full" : "quick", bb_strbuf_text(&there));
	else
		bb_judgement_decide(j, BB_UNJUDGED,
				    "--fault %s is in no step: a step of %d ranks on %d nodes or more sees it, and the largest, %s, has %lld on %lld",
				    p->fault, nodes * p->per_node, nodes, j->step->name,
				    j->step->ranks, j->step->nodes);
	bb_strbuf_free(&here);
	bb_strbuf_free(&there);
}

/* Passing with a fault that no step touches proves nothing: if --fault was planted in the steps of
   S and changed none of their times, appends a judgement "fault" that could not be judged: it names
   the steps that would see it. */
static void planted_judge(const struct bb_acceptance_session *s, struct bb_judgements *judgements)
{
	struct bb_evidence largest = {.step = s->evidence[0].step};
	struct bb_judgement j;

	if (!s->simulated.fault)
		return;
	for (size_t i = 0; i < s->n; i++) {
		const struct bb_evidence *const e = &s->evidence[i];

		if (has_fault(s, e) && fault_shows(e))
			return;
		if (bb_step_all_ranks(e->step) > bb_step_all_ranks(largest.step))
			largest.step = e->step;
	}
	j = bb_judgement_of(&largest, NULL, "fault");
	j.own = "fault";
	fault_explain(s, &j);
	bb_judgements_add(judgements, &j);
}

#define REPORT_NS (UINT64_C(300) * 1000000000)

/* Makes the page of a run whose verdict is written, by scripts/report.py, installed or of the
   source tree. SAID gets its path, or why there is none: the last line that it wrote. */
static void report_make(const char *dir, struct bb_strbuf *said)
{
	char script[BB_SHARE_PATH], out[1200], err[1200], line[320] = "";
	char *const words[] = {script, (char *)dir, NULL};
	char *text, *rest;
	size_t length;
	struct bb_outcome outcome;
	struct bb_error why = {0};

	if (!bb_share_find("scripts/report.py", "scripts/report.py", script)) {
		bb_strbuf_add(said, "No report: scripts/report.py is neither installed nor beside the build folder\n");
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
		if (bb_read_whole(err, 1 << 20, &text, &length, &why) != BB_OK)
			text = NULL;
		for (char *word = text ? strtok_r(text, "\n", &rest) : NULL; word;
		     word = strtok_r(NULL, "\n", &rest))
			snprintf(line, sizeof(line), "%.300s", word);
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
	bb_status st;

	if (name)
		snprintf(path, sizeof(path), "%s/%s", a->session->dir, name);
	add(a, &out);
	st = bb_write_text(name ? path : "-", &out, error);
	bb_strbuf_free(&out);
	return st;
}

static bb_status conclude(const struct begun *b, const struct bb_acceptance_options *o,
			  bb_status *verdict, struct bb_error *error)
{
	const struct bb_acceptance_session *const s = &b->session;
	struct bb_judgements judgements = {.n = 0};
	struct bb_nodes nodes = {.n = 0};
	struct bb_strbuf text = {0};
	struct bb_acceptance a = {s, &judgements, &nodes, {.status = BB_OK}, o->strict, o->verbose};
	bb_status st = BB_OK;

	for (size_t i = 0; st == BB_OK && i < s->n; i++)
		st = bb_judge_step(&s->evidence[i], &judgements, error);
	BB_TRY(st, st, out);
	BB_TRY(st, bb_bisections_judge(s->evidence, s->n, &judgements, error), out);
	planted_judge(s, &judgements);
	if (judgements.failed)
		st = bb_no_memory(error, "verdicts");
	BB_TRY(st, st, out);
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
		add_resume(b, "run", o->strict, &text);
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
	struct bb_baselines baselines = {NULL, 0};
	struct begun b = {.profile = NULL};
	bb_status st, verdict = BB_OK;

	BB_TRY(st, begin(job, &b, error), out);
	if (job->o->dry_run) {
		st = bb_acceptance_dry_run(&b.session, job->o->times, error);
		goto out;
	}
	BB_TRY(st, bb_commands_prepare(error), out);
	BB_TRY(st, bb_session_open(&b.session, error), out);
	BB_TRY(st, bb_baselines_open(&b.session, &baselines, error), out);
	BB_TRY(st, bb_session_run(&b.session, error), out);
	BB_TRY(st, conclude(&b, job->o, &verdict, error), out);
	job->signal = b.session.stopped_by;
	st = verdict;
out:
	end(&b);
	bb_baselines_free(&baselines);
	return st;
}

/* ---- baseline -------------------------------------------------------------------------------- */

bb_status bb_acceptance_baseline(struct bb_acceptance_job *job, struct bb_error *error)
{
	struct begun b = {.profile = NULL};
	struct bb_strbuf out = {0};
	const struct bb_output into = {.option = "--into", .path = job->o->into};
	json_t *former = NULL;
	char path[1200], fresh[1300];
	bb_status st;

	BB_TRY(st, begin(job, &b, error), out);
	b.session.healthy = true;
	snprintf(path, sizeof(path), "%s%s", into.path ? into.path : b.dir,
		 into.path ? "" : "/baseline.json");
	if (into.path) { /* before hours of measuring */
		BB_TRY(st, bb_output_check(&into, error), out);
		BB_TRY(st, bb_baseline_former(path, b.profile->name, &former, error), out);
		json_decref(former);
		former = NULL;
	}
	BB_TRY(st, bb_commands_prepare(error), out);
	BB_TRY(st, bb_session_open(&b.session, error), out);
	BB_TRY(st, bb_session_run(&b.session, error), out);
	job->signal = b.session.stopped_by;
	if (job->signal) {
		add_resume(&b, "baseline", false, &out);
		st = bb_write_text("-", &out, error);
		goto out;
	}
	BB_TRY(st, bb_baseline_make(&b.session, &out, error), out);
	BB_TRY(st, bb_baseline_former(path, b.profile->name, &former, error), out);
	if (former)
		BB_TRY(st, bb_baseline_add_history(&out, former, error), out);
	/* The file is replaced at once, because it may hold the only copy of the history. */
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	BB_TRY(st, bb_write_text(fresh, &out, error), out);
	if (rename(fresh, path) != 0)
		BB_TRY(st,
		       bb_fail(error, bb_output_status(errno), "%s cannot be written: %s", path,
			       strerror(errno)),
		       out);
	bb_strbuf_clear(&out);
	bb_strbuf_addf(&out, "Baseline of %lld runs: %s\n", (long long)b.session.repeats, path);
	st = bb_write_text("-", &out, error);
out:
	json_decref(former);
	bb_strbuf_free(&out);
	end(&b);
	return st;
}

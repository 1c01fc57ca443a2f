/*
 * run.c - acceptance run and acceptance baseline.
 */
#include "acceptance/baseline.h"
#include "acceptance/bisect.h"
#include "acceptance/duration.h"
#include "acceptance/plan.h"
#include "acceptance/planted.h"
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

static void name_dir(const struct bb_acceptance_options *o, const struct bb_profile *p, char *dir,
		     size_t room)
{
	char now[BB_TIME_TEXT];

	bb_time_text(now);
	if (o->resume || o->output)
		snprintf(dir, room, "%s", o->resume ? o->resume : o->output);
	else
		snprintf(dir, room, "acceptance-%s-%.19sZ", p->name, now);
	for (char *c = dir; !o->resume && !o->output && *c; c++)
		*c = *c == ':' ? '-' : *c;
}

/* Reads the run that --resume continues without a profile. *PATH = the path of its profile, to
   which other paths are relative. */
static bb_status recall(struct begun *b, const char *dir, const char **path, struct bb_error *error)
{
	char runs[1200], *text;
	struct bb_error none = {0};
	size_t length;

	snprintf(runs, sizeof(runs), "%s/runs.jsonl", dir);
	snprintf(b->kept, sizeof(b->kept), "%s/profile.yaml", dir);
	if (bb_read_whole(runs, BB_RECORDS_BYTES, &text, &length, &none) == BB_OK)
		b->before = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, NULL);
	free(text);
	if (!b->before)
		return bb_fail(error, BB_EUSAGE, "--resume %s: holds no run of acceptance", dir);
	*path = bb_record_string(b->before, "profile");
	if (!*path)
		*path = b->kept;
	return BB_OK;
}

/* The nodes of O, else those of the interrupted run BEFORE; a run of an older version has none. */
static struct bb_scale scale_of(const struct bb_acceptance_options *o, const json_t *before)
{
	const int64_t nodes = json_integer_value(json_object_get(before, "nodes"));
	const int64_t per_node = json_integer_value(json_object_get(before, "ranks_per_node"));

	return (struct bb_scale){o->all_nodes > 0 ? o->all_nodes : nodes,
				 o->ranks_per_node > 0 ? o->ranks_per_node : per_node};
}

/* Sets mode and simulation of S: those of O, else those of the interrupted run. */
static void choose(const struct bb_acceptance_options *o, const json_t *before,
		   struct bb_acceptance_session *s)
{
	const char *const mode = bb_record_string(before, "mode");

	s->mode = o->quick || (!o->full && mode && strcmp(mode, "quick") == 0) ? BB_QUICK : BB_FULL;
	s->simulated.cluster = o->cluster ? o->cluster : bb_record_string(before, "cluster");
	s->simulated.fault = o->fault ? o->fault : bb_record_string(before, "fault");
}

/* B->found = the path of the profile NAME. A name with a dot or a slash is a path, whose reader
   reports that it does not exist. */
static bb_status find_profile(struct begun *b, const char *name, struct bb_error *error)
{
	struct bb_strbuf why = {0};
	bb_status st;

	if (bb_shelf_find(&bb_shelf_profiles, name, b->found))
		return BB_OK;
	if (strpbrk(name, "./") && strlen(name) < sizeof(b->found)) {
		snprintf(b->found, sizeof(b->found), "%s", name);
		return BB_OK;
	}
	bb_shelf_explain(&bb_shelf_profiles, name, &why);
	st = bb_fail(error, BB_EUSAGE, "%s", bb_strbuf_text(&why));
	bb_strbuf_free(&why);
	return st;
}

static bb_status begin(const struct bb_acceptance_job *job, struct begun *b, struct bb_error *error)
{
	const struct bb_acceptance_options *const o = job->o;
	struct bb_scale scale;
	const char *path = job->operands[0], *file = path;
	size_t length;
	bb_status st;

	if (job->noperands > 1)
		return bb_fail(error, BB_EUSAGE, "%s: one profile at a time", job->operands[1]);
	if (o->quick && o->full)
		return bb_fail(error, BB_EUSAGE, "--quick and --full: one of them");
	if (o->resume && o->output)
		return bb_fail(error, BB_EUSAGE, "--resume goes on in its own folder; no -o");
	if (job->noperands == 0) {
		BB_TRY(st, recall(b, o->resume, &path, error), out);
		file = b->kept;
	} else {
		BB_TRY(st, find_profile(b, path, error), out);
		path = file = b->found;
	}
	BB_TRY(st, bb_read_whole(file, BB_PROFILE_BYTES, &b->text, &length, error), out);
	scale = scale_of(o, b->before);
	BB_TRY(st, bb_profile_read(path, b->text, length, &scale, &b->profile, error), out);
	if (!bb_own_folder(b->folder, sizeof(b->folder)))
		return bb_fail(error, BB_EINTERNAL, "/proc/self/exe cannot be read");
	name_dir(o, b->profile, b->dir, sizeof(b->dir));
	snprintf(b->outputs, sizeof(b->outputs), "%s/files", b->dir);
	b->session = (struct bb_acceptance_session){.profile = b->profile,
						    .profile_path = path,
						    .text = b->text,
						    .dir = b->dir,
						    .places = {b->folder, b->outputs},
						    .scale = scale,
						    .repeats = o->repeats,
						    .resume = o->resume != NULL,
						    .quiet = o->quiet};
	choose(o, b->before, &b->session);
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

/* Appends the groups of STEP: "on 14 groups of 2 nodes and 1 of 3, all at once". */
static void add_groups(const struct bb_profile_step *step, struct bb_strbuf *out)
{
	const char *const together = bb_step_is_split(step) ? ", all at once" : "";

	bb_strbuf_addf(out, "  on %lld ", (long long)step->groups);
	if (step->nodes == 1)
		bb_strbuf_addf(out, "node%s, each alone", bb_plural(step->groups));
	else
		bb_strbuf_addf(out, "group%s of %lld nodes", bb_plural(step->groups),
			       (long long)step->nodes);
	if (step->left > 1)
		bb_strbuf_addf(out, " and 1 of %lld", (long long)step->left);
	bb_strbuf_addf(out, "%s%s\n", together,
		       step->shift > 0 ? "; the last node is in the first group" : "");
}

/* Appends how many nodes STEP is run on, and what that can show. */
static void add_scope(const struct bb_profile_step *step, struct bb_strbuf *out)
{
	add_groups(step, out);
	if (step->left == 1 && step->shift == 0 && !step->narrows)
		bb_strbuf_addf(out, "  the last node is tested by %s@%lld+1\n", step->name,
			       (long long)step->nodes);
	if (bb_step_diagnoses(step))
		bb_strbuf_add(out,
			      "  sees: slow and flapping nodes, rails and links, and ranks that "
			      "come late\n"
			      "  cannot see: links between nodes that do not meet, congestion "
			      "of collectives\n");
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

/* Appends the steps of P that narrow STEP when it fails, on one line, and the one for a node left
   over. */
static void add_narrowing(const struct bb_profile *p, const struct bb_profile_step *step,
			  struct bb_strbuf *out)
{
	int n = 0;

	for (uint32_t i = 0; i < p->nsteps; i++) {
		const struct bb_profile_step *const s = &p->steps[i];

		if (s->narrows != step || !s->after_failure)
			continue;
		bb_strbuf_addf(out, n++ == 0 ? "  if it fails: groups of %lld%s" : ", %lld%s",
			       (long long)s->nodes, s->shift > 0 ? " shifted by a node" : "");
	}
	if (n > 0)
		bb_strbuf_addf(out, ": at most %d run%s until the culprit is found\n", n,
			       bb_plural(n));
}

static void add_step(const struct begun *b, const struct bb_durations *durations,
		     const struct bb_profile_step *step, struct bb_strbuf *out,
		     struct bb_words_list *words)
{
	const int64_t repeats = bb_session_repeats(&b->session, step);
	const double seconds = bb_duration_of(durations, step);

	bb_strbuf_addf(out, "step %s: %lld run%s", step->name, (long long)repeats,
		       bb_plural(repeats));
	if (seconds > 0 && !b->session.simulated.cluster) {
		bb_strbuf_add(out, " of about ");
		bb_duration_add(seconds, out);
	}
	bb_strbuf_addf(out, ", each at most %.6g s%s\n", (double)step->limit_ns / 1e9,
		       step->after_failure ? ", if an earlier step fails" : "");
	if (b->session.scale.nodes > 0)
		add_scope(step, out);
	add_narrowing(b->profile, step, out);
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

/* Checks that the baselines of a step exist. */
static bb_status check_baselines(const struct begun *b, const struct bb_profile_step *step,
				 struct bb_error *error)
{
	bb_status st = BB_OK;

	for (uint32_t i = 0; st == BB_OK && i < step->ngates; i++) {
		json_t *file = NULL;

		if (step->gates[i].from->kind == BB_FROM_BASELINE)
			st = bb_baseline_open(b->session.profile_path, &step->gates[i], &file,
					      error);
		json_decref(file);
	}
	return st;
}

static bb_status dry_run(const struct begun *b, const char *times, struct bb_error *error)
{
	struct bb_durations durations;
	struct bb_strbuf out = {0};
	bb_status st = bb_durations_open(times, &durations, error);

	for (uint32_t i = 0; st == BB_OK && i < b->profile->nsteps; i++) {
		const struct bb_profile_step *const step = &b->profile->steps[i];
		struct bb_words_list words = {.n = 0};

		if (step->mode == 0)
			bb_strbuf_addf(&out, "step %s: left out; nodes: all needs --nodes\n",
				       step->name);
		if (!(step->mode & b->session.mode) || (step->narrows && step->after_failure))
			continue;
		st = bb_plan_command(b->profile, step, &b->session.simulated, &b->session.places,
				     &words, error);
		if (st == BB_OK)
			add_step(b, &durations, step, &out, &words);
		bb_words_free(&words);
	}
	bb_durations_add_total(&durations, &b->session, &out);
	if (st == BB_OK)
		st = bb_write_text("-", &out, error);
	for (uint32_t i = 0; st == BB_OK && i < b->profile->nsteps; i++)
		if (b->profile->steps[i].mode & b->session.mode)
			st = check_baselines(b, &b->profile->steps[i], error);
	bb_durations_free(&durations);
	bb_strbuf_free(&out);
	return st;
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
	bb_planted_judge(s, &judgements);
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
		bb_acceptance_report(s->dir, &text);
	if (s->stopped_by)
		add_resume(b, "run", o->strict, &text);
	bb_acceptance_conclusion(&a, &text);
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

	if (job->o->times && !job->o->dry_run) {
		st = bb_fail(error, BB_EUSAGE, "--times is for --dry-run");
		goto out;
	}
	BB_TRY(st, begin(job, &b, error), out);
	if (job->o->dry_run) {
		st = dry_run(&b, job->o->times, error);
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

/* Replaces the file at once, because it may hold the only copy of the history. */
static bb_status replace_file(const char *path, struct bb_strbuf *text, struct bb_error *error)
{
	char fresh[1300];
	bb_status st;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	st = bb_write_text(fresh, text, error);
	if (st == BB_OK && rename(fresh, path) != 0)
		st = bb_fail(error, bb_output_status(errno), "%s cannot be written: %s", path,
			     strerror(errno));
	return st;
}

static bb_status write_baseline(const struct begun *b, const char *path, struct bb_strbuf *out,
				struct bb_error *error)
{
	struct json_t *former = NULL;
	bb_status st;

	BB_TRY(st, bb_baseline_make(&b->session, out, error), out);
	BB_TRY(st, bb_baseline_former(path, b->profile->name, &former, error), out);
	if (former)
		BB_TRY(st, bb_baseline_add_history(out, former, error), out);
	st = replace_file(path, out, error);
out:
	json_decref(former);
	return st;
}

/* Checks --into before hours of measuring. */
static bb_status check_into(const struct begun *b, const char *path, struct bb_error *error)
{
	const struct bb_output output = {.option = "--into", .path = path};
	struct json_t *former;
	bb_status st = bb_output_check(&output, error);

	if (st == BB_OK &&
	    (st = bb_baseline_former(path, b->profile->name, &former, error)) == BB_OK)
		json_decref(former);
	return st;
}

bb_status bb_acceptance_baseline(struct bb_acceptance_job *job, struct bb_error *error)
{
	struct begun b = {.profile = NULL};
	struct bb_strbuf out = {0};
	char path[1200];
	bb_status st;

	BB_TRY(st, begin(job, &b, error), out);
	b.session.healthy = true;
	if (job->o->into)
		BB_TRY(st, check_into(&b, job->o->into, error), out);
	snprintf(path, sizeof(path), "%s%s", job->o->into ? job->o->into : b.dir,
		 job->o->into ? "" : "/baseline.json");
	BB_TRY(st, bb_commands_prepare(error), out);
	BB_TRY(st, bb_session_open(&b.session, error), out);
	BB_TRY(st, bb_session_run(&b.session, error), out);
	job->signal = b.session.stopped_by;
	if (job->signal) {
		add_resume(&b, "baseline", false, &out);
		st = bb_write_text("-", &out, error);
		goto out;
	}
	BB_TRY(st, write_baseline(&b, path, &out, error), out);
	bb_strbuf_clear(&out);
	bb_strbuf_addf(&out, "Baseline of %lld runs: %s\n", (long long)b.session.repeats, path);
	st = bb_write_text("-", &out, error);
out:
	bb_strbuf_free(&out);
	end(&b);
	return st;
}

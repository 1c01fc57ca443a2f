/*
 * session.c - runs the steps of a profile, ends all that they started, and notes those that have
 * ended.
 */
#include "acceptance/session.h"

#include "acceptance/nodes.h"
#include "acceptance/plan.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/output.h"
#include "core/signals.h"
#include "core/standard.h"
#include "harness/results/record.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_BYTES (1 << 20)

/* ---- commands ------------------------------------------------------------------------------
 *
 * mpirun puts its ranks into process groups of their own, so that killing its group is not enough:
 * as a subreaper this process inherits whatever loses its parent, and ends that as well.
 */

#define GRACE_S 3.0 /* from SIGTERM until SIGKILL */

static void fill_waited(sigset_t *set)
{
	bb_signals_fill(set);
	sigaddset(set, SIGCHLD);
}

bb_status bb_commands_prepare(struct bb_error *error)
{
	sigset_t waited;

	fill_waited(&waited);
	if (sigprocmask(SIG_BLOCK, &waited, NULL) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return bb_fail(error, BB_EINTERNAL, "cannot wait for commands: %s",
			       strerror(errno));
	return BB_OK;
}

/*
 * Waits until PID ends, UNTIL passes, or SIGHUP, SIGINT or SIGTERM comes. Returns 0 with the STATUS
 * of PID, -1, or the signal.
 */
static int wait_for(pid_t pid, double until, int *status)
{
	sigset_t waited;

	fill_waited(&waited);
	for (;;) {
		const double left = until - bb_clock_now();
		struct timespec time = {0, 0};

		if (waitpid(pid, status, WNOHANG) == pid)
			return 0;
		if (left <= 0)
			return -1;
		time.tv_sec = (time_t)left;
		time.tv_nsec = (long)((left - (double)time.tv_sec) * 1e9);
		const int signal = sigtimedwait(&waited, NULL, &time);
		if (bb_signal_ends(signal))
			return signal;
	}
}

/* Ends every child of this process, and those that it then inherits. */
static void end_orphans(void)
{
	char path[64], list[4096], *end;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	for (int round = 0; round < 10000; round++) {
		bool any = false;

		if (bb_kernel_read(path, list, sizeof(list)) == 0)
			list[0] = '\0';
		/* Every whole number ends with a blank; one that is cut off waits for the next
		 * round. */
		for (char *at = list;; at = end) {
			const long pid = strtol(at, &end, 10);

			if (end == at || *end != ' ')
				break;
			kill((pid_t)pid, SIGKILL);
			any = true;
		}
		while (waitpid(-1, NULL, any ? 0 : WNOHANG) > 0)
			any = false; /* wait for one, then for those that are dead already */
		if (waitpid(-1, NULL, WNOHANG) < 0)
			return;
	}
}

bb_status bb_command_run(const struct bb_command *c, struct bb_outcome *outcome,
			 struct bb_error *error)
{
	const double began = bb_clock_now();
	const int flags = O_WRONLY | O_CREAT | O_TRUNC;
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none;
	int status = 0, ended, err;
	pid_t pid = 0;

	*outcome = (struct bb_outcome){.status = -1};
	/* Empty input, output to files, a process group of its own and no blocked signals. */
	sigemptyset(&none);
	posix_spawnattr_init(&how);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setpgroup(&how, 0);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_init(&files);
	err = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
		      ?: posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, c->out, flags, 0666)
		      ?: posix_spawn_file_actions_addopen(&files, STDERR_FILENO, c->err, flags, 0666)
		      ?: posix_spawnp(&pid, c->words[0], &files, &how, c->words, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	if (err != 0)
		return bb_fail(error, BB_EUSAGE, "%s cannot be started: %s", c->words[0],
			       strerror(err));
	ended = wait_for(pid, began + (double)c->limit_ns / 1e9, &status);
	outcome->timed_out = ended < 0;
	outcome->stopped_by = ended > 0 ? ended : 0;
	if (ended != 0) {
		kill(-pid, SIGTERM);
		if (wait_for(pid, bb_clock_now() + GRACE_S, &status) != 0) {
			kill(-pid, SIGKILL);
			waitpid(pid, &status, 0);
		}
	}
	kill(-pid, SIGKILL);
	end_orphans();
	outcome->wall_s = bb_clock_now() - began;
	outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return BB_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bb_status make_folder(const char *path, struct bb_error *error)
{
	if (mkdir(path, 0777) == 0 || errno == EEXIST)
		return BB_OK;
	return bb_fail(error, bb_output_status(errno), "%s: %s", path, strerror(errno));
}

#define PATH_TEXT 1024
#define NAME_TEXT (BB_STEP_NAME + 16) /* of a step's run */

/* PATH = DIR/FORMAT. bb_session_open has checked that it fits. */
__attribute__((format(printf, 3, 4))) static void
path_make(const struct bb_acceptance_session *s, char path[PATH_TEXT], const char *format, ...)
{
	const int n = snprintf(path, PATH_TEXT, "%s/", s->dir);
	va_list args;

	va_start(args, format);
	vsnprintf(path + n, (size_t)(PATH_TEXT - n), format, args);
	va_end(args);
}

/* Appends LINE to runs.jsonl. What a killed session, or a full disk, has left of an unfinished line
   is no run that has ended. */
static bb_status append_line(struct bb_acceptance_session *s, const struct bb_strbuf *line,
			     struct bb_error *error)
{
	struct bb_strbuf whole = {0};
	char path[PATH_TEXT];
	bb_status st = BB_OK;
	ssize_t n = 1;

	path_make(s, path, "runs.jsonl");
	bb_strbuf_addf(&whole, "%s%s\n", s->cut_off ? "\n" : "", bb_strbuf_text(line));
	const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	whole.failed |= bb_strbuf_failed(line);
	for (size_t at = 0; file >= 0 && n > 0 && !whole.failed && at < whole.length;
	     at += (size_t)n)
		n = write(file, whole.text + at, whole.length - at);
	if (file < 0 || n <= 0 || fsync(file) != 0)
		st = bb_fail(error, bb_output_status(errno), "%s: %s", path, strerror(errno));
	else if (bb_strbuf_failed(&whole))
		st = bb_no_memory(error, path);
	if (file >= 0)
		close(file);
	bb_strbuf_free(&whole);
	s->cut_off = false;
	return st;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* True if the member NAME of FIRST is VALUE; NULL: no string. */
static bool is_same(const json_t *first, const char *name, const char *value)
{
	return value ? bb_record_says(first, name, value) : !bb_record_string(first, name);
}

/* Takes over the run whose first line is FIRST, if S continues it. */
static bb_status check_first(struct bb_acceptance_session *s, const json_t *first,
			     struct bb_error *error)
{
	const char *const mode = bb_record_string(first, "mode");
	const char *const id = bb_record_string(first, "run_id");
	const char *const start = bb_record_string(first, "start_time");
	/* Sessions of older versions have no nodes. */
	const json_int_t nodes = json_integer_value(json_object_get(first, "nodes"));
	const json_int_t per_node = json_integer_value(json_object_get(first, "ranks_per_node"));
	const char *other = NULL;

	if (!mode || !id || !start)
		return bb_fail(error, BB_EUSAGE, "--resume %s: holds no run of acceptance", s->dir);
	if (strcmp(mode, bb_mode_name(s->mode)) != 0)
		return bb_fail(error, BB_EUSAGE, "--resume %s: that was --%s, not --%s", s->dir,
			       mode, bb_mode_name(s->mode));
	if (bb_record_int(first, "repeats") != s->repeats)
		other = "-n";
	else if (nodes != s->scale.nodes || per_node != s->scale.per_node)
		other = "--nodes or --ranks-per-node";
	else if (!is_same(first, "cluster", s->simulated.cluster) ||
		 !is_same(first, "fault", s->simulated.fault))
		other = "--cluster or --fault";
	if (other)
		return bb_fail(error, BB_EUSAGE, "--resume %s: that had another %s", s->dir, other);
	snprintf(s->run_id, sizeof(s->run_id), "%s", id);
	snprintf(s->start_time, sizeof(s->start_time), "%s", start);
	return BB_OK;
}

static bb_status read_state(struct bb_acceptance_session *s, struct bb_error *error)
{
	char path[PATH_TEXT], *text = NULL, *old = NULL;
	size_t length;
	bb_status st;
	bool first = true;

	path_make(s, path, "profile.yaml");
	BB_TRY(st, bb_read_whole(path, BB_PROFILE_BYTES, &old, &length, error), out);
	if (strcmp(old, s->text) != 0)
		BB_TRY(st,
		       bb_fail(error, BB_EUSAGE, "--resume %s: %s is not the profile of that run",
			       s->dir, s->profile_path),
		       out);
	path_make(s, path, "runs.jsonl");
	BB_TRY(st, bb_read_whole(path, BB_RECORDS_BYTES, &text, &length, error), out);
	s->cut_off = length > 0 && text[length - 1] != '\n';
	for (char *rest = text, *line; st == BB_OK && (line = strtok_r(rest, "\n", &rest));
	     first = false) {
		/* A broken one, as the last line of a killed session may be, is no run that has
		   ended. */
		json_t *const json = json_loads(line, 0, NULL);
		const int64_t run = bb_record_int(json, "run");
		const int64_t status = bb_record_int(json, "status");

		if (first)
			st = check_first(s, json, error);
		for (size_t i = 0; !first && i < s->n; i++)
			if (is_same(json, "step", s->evidence[i].step->name) && run >= 1 &&
			    (size_t)run <= s->evidence[i].nruns && status >= 0)
				s->evidence[i].runs[run - 1].outcome = (struct bb_outcome){
					.status = (int)status,
					.timed_out = bb_record_bool(json, "timed_out"),
					.wall_s = bb_record_number(json, "wall_s")};
		json_decref(json);
	}
	if (st == BB_OK && first)
		st = bb_fail(error, BB_EUSAGE, "--resume %s: holds no run of acceptance", s->dir);
out:
	free(old);
	free(text);
	return st;
}

int64_t bb_session_repeats(const struct bb_acceptance_session *s,
			   const struct bb_profile_step *step)
{
	/* Virtual time without noise is the same in every run. */
	return s->simulated.cluster ? 1 : s->repeats > 0 ? s->repeats : step->repeats;
}

bb_status bb_session_prepare(struct bb_acceptance_session *s, struct bb_error *error)
{
	const struct bb_profile *const p = s->profile;

	s->evidence = calloc(p->nsteps, sizeof(*s->evidence));
	if (!s->evidence)
		return bb_no_memory(error, "steps");
	for (uint32_t i = 0; i < p->nsteps; i++) {
		struct bb_evidence *const e = &s->evidence[s->n];
		const struct bb_profile_step *const step = &p->steps[i];

		if (!(step->mode & s->mode))
			continue;
		s->n++;
		e->step = step;
		e->simulated = &s->simulated;
		e->nruns = (size_t)bb_session_repeats(s, step);
		e->runs = calloc(e->nruns, sizeof(*e->runs));
		e->expected = calloc(step->ngates + 1, sizeof(*e->expected));
		if (!e->runs || !e->expected)
			return bb_no_memory(error, "steps");
		for (size_t k = 0; k < e->nruns; k++)
			e->runs[k].outcome.status = -1;
	}
	return BB_OK;
}

bb_status bb_session_open(struct bb_acceptance_session *s, struct bb_error *error)
{
	static const char *const folders[] = {"records", "logs", "files"};
	char path[PATH_TEXT], *whole = NULL;
	struct bb_strbuf text = {0}, line = {0};
	struct bb_json j;
	bb_status st;

	if (strlen(s->dir) + NAME_TEXT + sizeof("/records/.jsonl") > PATH_TEXT)
		return bb_fail(error, BB_EUSAGE, "-o: the path is too long");
	if (s->n == 0)
		return bb_fail(error, BB_EUSAGE, "%s: no step belongs to --%s", s->profile_path,
			       bb_mode_name(s->mode));
	if (s->resume)
		return read_state(s, error);
	BB_TRY(st, make_folder(s->dir, error), out);
	path_make(s, path, "runs.jsonl");
	if (access(path, F_OK) == 0)
		BB_TRY(st,
		       bb_fail(error, BB_EUSAGE,
			       "-o %s: holds a run already; --resume %s continues it", s->dir,
			       s->dir),
		       out);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		path_make(s, path, "%s", folders[i]);
		BB_TRY(st, make_folder(path, error), out);
	}
	bb_run_id(s->run_id);
	bb_time_text(s->start_time);
	path_make(s, path, "profile.yaml");
	bb_strbuf_add(&text, s->text);
	BB_TRY(st, bb_write_text(path, &text, error), out);
	whole = realpath(s->profile_path, NULL);
	bb_json_init(&j, &line, false);
	bb_json_add_object(&j, NULL);
	bb_json_add_string(&j, "run_id", s->run_id);
	bb_json_add_string(&j, "start_time", s->start_time);
	bb_json_add_string(&j, "profile", whole);
	bb_json_add_string(&j, "mode", bb_mode_name(s->mode));
	bb_json_add_int(&j, "repeats", s->repeats);
	bb_json_add_int(&j, "nodes", s->scale.nodes);
	bb_json_add_int(&j, "ranks_per_node", s->scale.per_node);
	bb_json_add_string(&j, "cluster", s->simulated.cluster);
	bb_json_add_string(&j, "fault", s->simulated.fault);
	bb_json_end(&j);
	st = append_line(s, &line, error);
out:
	free(whole);
	bb_strbuf_free(&text);
	bb_strbuf_free(&line);
	return st;
}

void bb_session_free(struct bb_acceptance_session *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct bb_evidence *const e = &s->evidence[i];

		for (size_t k = 0; e->runs && k < e->nruns; k++)
			bb_records_free(&e->runs[k].records);
		for (size_t k = 0; e->expected && k < e->step->ngates; k++) {
			bb_records_free(&e->expected[k].predicted.records);
			json_decref(e->expected[k].baseline);
		}
		free(e->runs);
		free(e->expected);
	}
	free(s->evidence);
	bb_profile_free(s->profile);
	json_decref(s->before);
	free(s->text);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* TROUBLE = the first message of a binary in a log, else its first line of text. */
static void read_trouble(const char *path, char *trouble, size_t room)
{
	struct bb_error ignored = {0};
	char *text;
	size_t length;

	if (bb_read_whole(path, LOG_BYTES, &text, &length, &ignored) != BB_OK)
		return;
	for (char *rest = text, *line; (line = strtok_r(rest, "\r\n", &rest));) {
		const char *const own = strstr(line, "_perf: ");

		if (own || (!trouble[0] && line[strspn(line, " -*#")]))
			snprintf(trouble, room, "%s", line);
		if (own)
			break;
	}
	free(text);
}

/* Runs STEP for the time NUMBER, or predicts it for GATE of that number (NULL: it runs), unless
   that was done; then reads the records of RUN, and the message in its log if it failed. */
static bb_status execute(struct bb_acceptance_session *s, const struct bb_profile_step *step,
			 const struct bb_gate *gate, size_t number, struct bb_step_run *run,
			 struct bb_error *error)
{
	char out[PATH_TEXT], err[PATH_TEXT], *const trouble = run->trouble, *text;
	const char *const kind = gate ? "sim" : "";
	struct bb_words_list words = {.n = 0};
	struct bb_error why = {0};
	size_t length;

	path_make(s, out, "records/%s.%s%zu.jsonl", step->name, kind, number);
	path_make(s, err, "logs/%s.%s%zu.txt", step->name, kind, number);
	bb_status st =
		bb_plan_command(s->profile, step, &s->simulated, gate, &s->places, &words, error);
	if (st != BB_OK)
		return st;
	if (run->outcome.status < 0) {
		const struct bb_command command = {words.words, out, err, step->limit_ns};

		if (bb_command_run(&command, &run->outcome, &why) != BB_OK) {
			run->outcome.status = 127;
			snprintf(trouble, sizeof(run->trouble), "%s", why.text);
			goto out;
		}
		s->stopped_by = run->outcome.stopped_by;
	}
	if (run->outcome.status != BB_OK && run->outcome.status != BB_EDATA)
		read_trouble(err, trouble, sizeof(run->trouble));
	if (run->outcome.status == BB_EINTERNAL && !trouble[0])
		snprintf(trouble, sizeof(run->trouble), "its log is empty; the disk may be full");
	st = bb_read_whole(out, BB_RECORDS_BYTES, &text, &length, &why);
	if (st == BB_OK) {
		st = bb_records_read(out, text, length, &run->records, &why);
		free(text);
	}
	if (st != BB_OK && !trouble[0])
		snprintf(trouble, sizeof(run->trouble), "%s", why.text);
out:
	bb_words_free(&words);
	return BB_OK;
}

static bb_status run_step(struct bb_acceptance_session *s, struct bb_evidence *e,
			  struct bb_error *error)
{
	struct bb_strbuf line = {0};
	struct bb_json j;
	char path[PATH_TEXT];
	bb_status st = BB_OK;

	for (size_t i = 0; i < e->nruns && !s->stopped_by; i++) {
		struct bb_step_run *const run = &e->runs[i];
		const bool fresh = run->outcome.status < 0;

		if (fresh && !s->quiet)
			bb_say("acceptance", "%s, run %zu of %zu", e->step->name, i + 1, e->nruns);
		BB_TRY(st, execute(s, e->step, NULL, i + 1, run, error), out);
		if (s->simulated.cluster && run->outcome.status == BB_EUSAGE) {
			/* --cluster, --fault or run: is wrong, so that the session cannot be
			   resumed. */
			path_make(s, path, "runs.jsonl");
			st = unlink(path) != 0
				     ? bb_fail(error, BB_EUSAGE, "%s: %s", path, strerror(errno))
				     : bb_fail(error, BB_EUSAGE, "step %s: %s", e->step->name,
					       run->trouble);
			goto out;
		}
		if (!fresh || s->stopped_by)
			continue;
		bb_strbuf_clear(&line);
		bb_json_init(&j, &line, false);
		bb_json_add_object(&j, NULL);
		bb_json_add_string(&j, "step", e->step->name);
		bb_json_add_uint(&j, "run", i + 1);
		bb_json_add_int(&j, "status", run->outcome.status);
		bb_json_add_bool(&j, "timed_out", run->outcome.timed_out);
		bb_json_add_double(&j, "wall_s", run->outcome.wall_s);
		bb_json_end(&j);
		BB_TRY(st, append_line(s, &line, error), out);
	}
out:
	bb_strbuf_free(&line);
	return st;
}

/* *NEEDED = has one of the first N steps not passed or, if step N narrows one, are the groups of
   that to be narrowed further? Pairs show also paths between two halves, which no larger group
   does. Not if another step already shows who is slow. */
static bb_status find_needed(const struct bb_acceptance_session *s, size_t n, bool *needed,
			     struct bb_error *error)
{
	const struct bb_profile_step *const narrowed = s->evidence[n].step->narrows;
	struct bb_judgements judgements = {.n = 0};
	bool further = false, known = false;
	bb_status st = BB_OK;

	for (size_t i = 0; st == BB_OK && i < n; i++)
		st = bb_judge_step(&s->evidence[i], &judgements, error);
	*needed = false;
	for (size_t i = 0; i < judgements.n; i++)
		*needed |= judgements.list[i].verdict >= BB_UNJUDGED;
	for (size_t i = 0; *needed && narrowed && i < n; i++) {
		const struct bb_profile_step *const step = s->evidence[i].step;
		struct bb_bisection b = {.n = 0};

		if (!step->narrows)
			b = bb_bisect(s->evidence, n, step, &judgements);
		if (step == narrowed)
			further = s->evidence[n].step->nodes == 2 ? b.any : b.last;
		else
			known |= b.n > 0;
		free(b.list);
	}
	if (narrowed)
		*needed = further && !known;
	bb_judgements_free(&judgements);
	return st;
}

bb_status bb_session_run(struct bb_acceptance_session *s, struct bb_error *error)
{
	bb_status st = BB_OK;

	for (size_t i = 0; st == BB_OK && i < s->n && !s->stopped_by; i++) {
		struct bb_evidence *const e = &s->evidence[i];
		bool needed = !(s->healthy && e->step->after_failure);

		if (needed && e->step->after_failure)
			st = find_needed(s, i, &needed, error);
		e->unneeded = !needed;
		if (st != BB_OK || e->unneeded)
			continue;
		st = run_step(s, e, error);
		/* The predictions for gates whose expectation is the simulator's. */
		for (size_t k = 0; st == BB_OK && k < e->step->ngates && !s->stopped_by; k++) {
			const struct bb_gate *const g = &e->step->gates[k];
			struct bb_step_run *const run = &e->expected[k].predicted;

			if (g->from.kind != BB_FROM_SIMULATOR)
				continue;
			run->outcome.status = -1;
			st = execute(s, e->step, g, k + 1, run, error);
			if (st == BB_OK && run->outcome.status != 0 && !run->trouble[0])
				snprintf(run->trouble, sizeof(run->trouble),
					 "the simulator ends with exit status %d",
					 run->outcome.status);
		}
	}
	return st;
}

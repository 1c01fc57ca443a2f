/*
 * profile_check.c - reads the texts of a profile and its steps.
 */
#include "acceptance/profile.h"

#include "core/option.h"
#include "core/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bb_status bb_profile_refuse(const struct bb_profile_spot *at, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return bb_fail(at->error, BB_EUSAGE, "%s:%d: %s%s%s%s", at->path, at->line,
		       at->step ? "gate of " : "", at->step ? at->step->name : "",
		       at->step ? ": " : "", text);
}

static bb_status launcher_check(const struct bb_profile_spot *at, const char *launcher)
{
	static const char *const launchers[] = {"local", "mpirun", "srun", NULL};

	for (int i = 0; launchers[i]; i++)
		if (!launcher || strcmp(launcher, launchers[i]) == 0)
			return BB_OK;
	return bb_profile_refuse(at, "launcher: %s is not local, mpirun or srun", launcher);
}

/* A whole number; INHERITED if TEXT is missing. */
static bb_status count_check(const struct bb_profile_spot *at, const char *key, const char *text,
			     int64_t most, int64_t inherited, int64_t *value)
{
	*value = inherited;
	if (!text || (bb_parse_int(text, value) && *value >= 1 && *value <= most))
		return BB_OK;
	return bb_profile_refuse(at, "%s: %s is not a whole number from 1 to %lld", key, text,
				 (long long)most);
}

static bb_status time_check(const struct bb_profile_spot *at, const char *key, const char *text,
			    uint64_t inherited, uint64_t *ns)
{
	*ns = inherited;
	if (!text ||
	    (bb_parse_duration(text, ns) && *ns >= 1000000 && *ns <= UINT64_C(86400) * 1000000000))
		return BB_OK;
	return bb_profile_refuse(at, "%s: %s is not a time such as 90s or 10m, 1ms to 24h", key,
				 text);
}

/* "quick, full" */
static bb_status modes_check(const struct bb_profile_spot *at, struct bb_profile_step *s)
{
	const char *word = s->modes;
	size_t n;

	s->mode = word ? 0 : BB_QUICK | BB_FULL;
	for (; word && *(word += strspn(word, " ,")); word += n) {
		n = strcspn(word, " ,");
		if (n == 5 && strncmp(word, "quick", n) == 0)
			s->mode |= BB_QUICK;
		else if (n == 4 && strncmp(word, "full", n) == 0)
			s->mode |= BB_FULL;
		else
			return bb_profile_refuse(at, "modes: %.*s is not quick or full", (int)n,
						 word);
	}
	return s->mode ? BB_OK : bb_profile_refuse(at, "modes: names none; quick, full, or both");
}

/* A name becomes part of the names of files. */
static bb_status name_check(const struct bb_profile_spot *at, const char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

	if (strlen(name) <= 60 && name[0] != '.' && name[strspn(name, letters)] == '\0')
		return BB_OK;
	return bb_profile_refuse(at, "name: %s is not up to 60 letters, digits, '_', '-' and '.'",
				 name);
}

bool bb_step_diagnoses(const struct bb_profile_step *step)
{
	const char *const word = step->run + strspn(step->run, " \t\r\n");

	return strcspn(word, " \t\r\n") == 8 && strncmp(word, "diagnose", 8) == 0;
}

/* Only busbench's own binaries are run, from the folder of acceptance. */
static bb_status run_check(const struct bb_profile_spot *at, const struct bb_profile_step *s)
{
	const char *const word = s->run + strspn(s->run, " \t\r\n");
	const int n = (int)strcspn(word, " \t\r\n");
	const bool perf = n > 5 && n < 60 && strncmp(word + n - 5, "_perf", 5) == 0;

	if (!memchr(word, '/', (size_t)n) && (perf || bb_step_diagnoses(s)))
		return BB_OK;
	return bb_profile_refuse(
		at,
		"run: %.*s is not the name of a perf binary, such as all_reduce_perf, or "
		"diagnose",
		n, word);
}

#define MOST_RANKS (1 << 20)

/* Spreads S over the nodes of SCALE. */
static bb_status step_scale(const struct bb_profile_spot *at, struct bb_profile_step *s,
			    bool on_all, const struct bb_scale *scale)
{
	const int64_t per_node = scale->per_node > 0 ? scale->per_node : s->ranks / s->nodes;

	s->groups = 1;
	if (on_all && scale->nodes == 0)
		s->mode = 0;
	if (on_all && scale->nodes > 0)
		s->nodes = scale->nodes;
	if (scale->nodes > 0 && s->nodes > scale->nodes)
		return bb_profile_refuse(at, "--nodes %lld: step %s needs %lld nodes",
					 (long long)scale->nodes, s->name, (long long)s->nodes);
	if (scale->nodes > 0) {
		s->groups = scale->nodes / s->nodes;
		s->left = scale->nodes % s->nodes;
	}
	s->ranks = s->nodes * per_node;
	s->counted |= scale->per_node > 0;
	return BB_OK;
}

static bb_status step_check(const struct bb_profile *p, int i,
			    const struct bb_profile_step *inherited, const char *path,
			    const struct bb_scale *scale, struct bb_error *error)
{
	struct bb_profile_step *const s = &p->declared[i];
	const struct bb_profile_spot at = {.path = path, .line = s->line, .error = error};
	const bool on_all = s->nodes_text && strcmp(s->nodes_text, "all") == 0;
	bb_status st;

	for (int k = 0; k < i; k++)
		if (strcmp(p->declared[k].name, s->name) == 0)
			return bb_profile_refuse(&at, "name: %s is that of line %d, too", s->name,
						 p->declared[k].line);
	BB_TRY(st, name_check(&at, s->name), out);
	BB_TRY(st, run_check(&at, s), out);
	BB_TRY(st, launcher_check(&at, s->launcher), out);
	BB_TRY(st, modes_check(&at, s), out);
	if (s->when && strcmp(s->when, "failed") != 0)
		return bb_profile_refuse(&at, "when: %s is not failed", s->when);
	s->after_failure = s->when != NULL;
	st = count_check(&at, "ranks", s->ranks_text, MOST_RANKS, inherited->ranks, &s->ranks);
	BB_TRY(st, st, out);
	st = count_check(&at, "nodes", on_all ? NULL : s->nodes_text, MOST_RANKS, inherited->nodes,
			 &s->nodes);
	BB_TRY(st, st, out);
	st = count_check(&at, "repeats", s->repeats_text, BB_MOST_REPEATS, inherited->repeats,
			 &s->repeats);
	BB_TRY(st, st, out);
	st = time_check(&at, "time_limit", s->limit_text, inherited->limit_ns, &s->limit_ns);
	BB_TRY(st, st, out);
	st = time_check(&at, "takes", s->takes_text, inherited->takes_ns, &s->takes_ns);
	BB_TRY(st, st, out);
	s->counted = s->ranks_text || p->ranks_text;
	if (s->ranks % s->nodes != 0)
		return bb_profile_refuse(&at, "%lld ranks cannot be spread evenly over %lld nodes",
					 (long long)s->ranks, (long long)s->nodes);
	BB_TRY(st, step_scale(&at, s, on_all, scale), out);
	if (s->mode != 0)
		st = bb_gates_check(p, s, path, error);
out:
	return st;
}

bb_status bb_profile_check(struct bb_profile *p, const char *path, const struct bb_scale *scale,
			   struct bb_error *error)
{
	const struct bb_key_lines *const at = &p->at;
	/* The profile as a step, from which steps inherit. */
	struct bb_profile_step all = {.line = 1};
	bb_status st;

#define AT(key) (&(struct bb_profile_spot){.path = path, .line = at->key, .error = error})
	BB_TRY(st, name_check(AT(name), p->name), out);
	BB_TRY(st, launcher_check(AT(launcher), p->launcher), out);
	st = count_check(AT(ranks), "ranks", p->ranks_text, MOST_RANKS, 1, &all.ranks);
	BB_TRY(st, st, out);
	st = count_check(AT(nodes), "nodes", p->nodes_text, MOST_RANKS, 1, &all.nodes);
	BB_TRY(st, st, out);
	st = count_check(AT(repeats), "repeats", p->repeats_text, BB_MOST_REPEATS, 1, &all.repeats);
	BB_TRY(st, st, out);
	st = time_check(AT(time_limit), "time_limit", p->limit_text, UINT64_C(300) * 1000000000,
			&all.limit_ns);
	BB_TRY(st, st, out);
	BB_TRY(st, time_check(AT(takes), "takes", p->takes_text, 0, &all.takes_ns), out);
#undef AT
	for (uint32_t i = 0; i < p->ndeclared; i++)
		BB_TRY(st, step_check(p, (int)i, &all, path, scale, error), out);
out:
	return st;
}

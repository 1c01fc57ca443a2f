/*
 * profile_check.c - what profiles and their steps say, given its meaning.
 */
#include "acceptance/profile.h"

#include "core/option.h"
#include "core/units.h"

#include <stdio.h>
#include <string.h>

static const char *const launchers[] = {"local", "mpirun", "srun", NULL};

static bb_status check_launcher(const char *path, int line, const char *launcher,
				struct bb_error *error)
{
	for (int i = 0; launchers[i]; i++)
		if (!launcher || strcmp(launcher, launchers[i]) == 0)
			return BB_OK;
	return bb_fail(error, BB_EUSAGE, "%s:%d: launcher: %s is not local, mpirun or srun", path,
		       line, launcher);
}

/* A whole number; INHERITED where TEXT is missing. */
static bb_status whole(const char *path, int line, const char *key, const char *text, int64_t most,
		       int64_t inherited, int64_t *value, struct bb_error *error)
{
	*value = inherited;
	if (!text || (bb_parse_int(text, value) && *value >= 1 && *value <= most))
		return BB_OK;
	return bb_fail(error, BB_EUSAGE, "%s:%d: %s: %s is not a whole number from 1 to %lld", path,
		       line, key, text, (long long)most);
}

static bb_status limit(const char *path, int line, const char *text, uint64_t inherited,
		       uint64_t *ns, struct bb_error *error)
{
	*ns = inherited;
	if (!text ||
	    (bb_parse_duration(text, ns) && *ns >= 1000000 && *ns <= UINT64_C(86400) * 1000000000))
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s:%d: time_limit: %s is not a time such as 90s or 10m, 1ms to 24h", path,
		       line, text);
}

/* "quick, full" */
static bb_status modes(const char *path, struct bb_profile_step *s, struct bb_error *error)
{
	const char *at = s->modes;
	size_t n;

	s->mode = at ? 0 : BB_QUICK | BB_FULL;
	for (; at && *(at += strspn(at, " ,")); at += n) {
		n = strcspn(at, " ,");
		if (n == 5 && strncmp(at, "quick", n) == 0)
			s->mode |= BB_QUICK;
		else if (n == 4 && strncmp(at, "full", n) == 0)
			s->mode |= BB_FULL;
		else
			return bb_fail(error, BB_EUSAGE, "%s:%d: modes: %.*s is not quick or full",
				       path, s->line, (int)n, at);
	}
	if (s->mode)
		return BB_OK;
	return bb_fail(error, BB_EUSAGE, "%s:%d: modes: names none; quick, full, or both", path,
		       s->line);
}

/* A name becomes part of the names of files. */
static bb_status check_name(const char *path, int line, const char *name, struct bb_error *error)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

	if (strlen(name) <= 60 && name[0] != '.' && name[strspn(name, letters)] == '\0')
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s:%d: name: %s is not up to 60 letters, digits, '_', '-' and '.'", path,
		       line, name);
}

bool bb_step_diagnoses(const struct bb_profile_step *step)
{
	const char *const word = step->run + strspn(step->run, " \t\r\n");

	return strcspn(word, " \t\r\n") == 8 && strncmp(word, "diagnose", 8) == 0;
}

/* Only busbench's own binaries are run, from the folder that acceptance is in. */
static bb_status check_run(const char *path, const struct bb_profile_step *s,
			   struct bb_error *error)
{
	const char *const word = s->run + strspn(s->run, " \t\r\n");
	const int n = (int)strcspn(word, " \t\r\n");
	const bool perf = n > 5 && n < 60 && strncmp(word + n - 5, "_perf", 5) == 0;

	if (!memchr(word, '/', (size_t)n) && (perf || bb_step_diagnoses(s)))
		return BB_OK;
	return bb_fail(error, BB_EUSAGE,
		       "%s:%d: run: %.*s is not the name of a perf binary, such as "
		       "all_reduce_perf, or diagnose",
		       path, s->line, n, word);
}

static bb_status check_step(const struct bb_profile *p, int i,
			    const struct bb_profile_step *inherited, const char *path,
			    struct bb_error *error)
{
	struct bb_profile_step *const s = &p->steps[i];
	const int line = s->line;
	bb_status st;

	for (int k = 0; k < i; k++)
		if (strcmp(p->steps[k].name, s->name) == 0)
			return bb_fail(error, BB_EUSAGE, "%s:%d: name: %s is that of line %d, too",
				       path, line, s->name, p->steps[k].line);
	BB_TRY(st, check_name(path, line, s->name, error), out);
	BB_TRY(st, check_run(path, s, error), out);
	BB_TRY(st, check_launcher(path, line, s->launcher, error), out);
	BB_TRY(st, modes(path, s, error), out);
	BB_TRY(st,
	       whole(path, line, "ranks", s->said_ranks, 1 << 20, inherited->ranks, &s->ranks,
		     error),
	       out);
	BB_TRY(st,
	       whole(path, line, "nodes", s->said_nodes, 1 << 20, inherited->nodes, &s->nodes,
		     error),
	       out);
	BB_TRY(st,
	       whole(path, line, "repeats", s->said_repeats, BB_MOST_REPEATS, inherited->repeats,
		     &s->repeats, error),
	       out);
	BB_TRY(st, limit(path, line, s->said_limit, inherited->limit_ns, &s->limit_ns, error), out);
	s->counted = s->said_ranks || p->said_ranks;
	if (s->ranks % s->nodes != 0)
		return bb_fail(error, BB_EUSAGE,
			       "%s:%d: %lld ranks cannot be spread evenly over %lld nodes", path,
			       line, (long long)s->ranks, (long long)s->nodes);
	st = bb_gates_check(p, s, path, error);
out:
	return st;
}

bb_status bb_profile_check(struct bb_profile *p, const char *path, struct bb_error *error)
{
	struct bb_profile_step all = {.line = 1};
	const struct bb_key_lines *const at = &p->at;
	bb_status st;

	BB_TRY(st, check_name(path, at->name, p->name, error), out);
	BB_TRY(st, check_launcher(path, at->launcher, p->launcher, error), out);
	BB_TRY(st, whole(path, at->ranks, "ranks", p->said_ranks, 1 << 20, 1, &all.ranks, error),
	       out);
	BB_TRY(st, whole(path, at->nodes, "nodes", p->said_nodes, 1 << 20, 1, &all.nodes, error),
	       out);
	BB_TRY(st,
	       whole(path, at->repeats, "repeats", p->said_repeats, BB_MOST_REPEATS, 1,
		     &all.repeats, error),
	       out);
	BB_TRY(st,
	       limit(path, at->time_limit, p->said_limit, UINT64_C(300) * 1000000000, &all.limit_ns,
		     error),
	       out);
	for (uint32_t i = 0; i < p->nsteps; i++)
		BB_TRY(st, check_step(p, (int)i, &all, path, error), out);
out:
	return st;
}

/*
 * gates_check.c - a gate must name its metric, its expectation and the source, and be able to fail.
 */
#include "acceptance/profile.h"
#include "acceptance/reference.h"
#include "core/units.h"
#include "harness/run/options_check.h"
#include "schedules/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct bb_metric bb_metrics[] = {
	{"busbw", "busbw_GBps", "GB/s", true, false}, {"peak", "busbw_GBps", "GB/s", true, true},
	{"algbw", "algbw_GBps", "GB/s", true, false}, {"time", "time_us", "us", false, false},
	{"p99", "p99_us", "us", false, false},        {"skew", "skew_p50_us", "us", false, false},
	{"bandwidth", "GBps", "GB/s", true, false},   {"latency", "p50_us", "us", false, false},
	{"step", "step_us", "us", false, false},      {NULL, NULL, NULL, false, false},
};

/* A looser gate can hardly fail: the largest tolerance, and the least share of a bound less its
   tolerance, with room for rounding. */
#define MOST_DOWN 0.95
#define LEAST_SHARE 0.999e-3

/* What is wrong if BROKEN: KEY, VALUE and WHY make the sentence. */
struct rule {
	bool broken;
	const char *key, *value, *why;
};

/* BB_EUSAGE with the first of N RULES that is broken. */
static bb_status rules_keep(const struct bb_profile_spot *at, const struct rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rules[i].broken)
			return bb_profile_refuse(at, "%s%s%s", rules[i].key, rules[i].value,
						 rules[i].why);
	return BB_OK;
}
#define KEEP(at, rules) rules_keep(at, rules, sizeof(rules) / sizeof(rules[0]))

/* True if TEXT is missing or a percentage, the FRACTION; NAN: it is missing. */
static bool fraction_read(const char *text, double *fraction)
{
	*fraction = NAN;
	return !text || bb_parse_percent(text, fraction);
}

/* "16M" or "1M-1G" */
static bool sizes_read(const char *text, uint64_t *least, uint64_t *most)
{
	const char *const dash = strchr(text, '-');
	char first[BB_UNIT_TEXT];

	if (!dash) {
		*most = 0;
		return bb_parse_size(text, least) && (*most = *least) > 0;
	}
	if ((size_t)(dash - text) >= sizeof(first))
		return false;
	memcpy(first, text, (size_t)(dash - text));
	first[dash - text] = '\0';
	return bb_parse_size(first, least) && bb_parse_size(dash + 1, most);
}

static bb_status where_check(const struct bb_profile_spot *at, struct bb_where *w)
{
	const char *const place = w->placement;
	bool sized, counted;

	w->least_bytes = 0;
	w->most_bytes = UINT64_MAX;
	w->in_place = !place ? -1 : strcmp(place, "in-place") == 0;
	sized = !w->size || sizes_read(w->size, &w->least_bytes, &w->most_bytes);
	counted = !w->ranks || (bb_parse_int(w->ranks, &w->nranks) && w->nranks >= 1);
	return KEEP(at,
		    ((const struct rule[]){
			    {!sized, "where: size: ", w->size,
			     " is not a size such as 16M, or a range 1M-1G"},
			    {w->least_bytes > w->most_bytes, "where: size: ", w->size,
			     " selects nothing"},
			    {w->collective && !bb_collective_find(w->collective),
			     "where: collective: there is no ", w->collective, ""},
			    {!counted, "where: ranks: ", w->ranks, " is not a number of ranks"},
			    {w->in_place == 0 && strcmp(place, "out-of-place") != 0,
			     "where: placement: ", place, " is not out-of-place or in-place"}}));
}

/* ---- the source of the expectation ------------------------------------------------------ */

const char *bb_source_name(enum bb_source_kind kind)
{
	static const char *const names[BB_SOURCES] = {
		"copy", "bound", "topology", "simulator", "reference", "baseline", "rule"};

	return names[kind];
}

/* Reads "80% of ring" as a share of a bound of the profile's system on the step's nodes. */
static bb_status topology_check(const struct bb_profile_spot *at, struct bb_source *s)
{
	const char *const of = strstr(s->topology, "% of ");
	struct bb_topology *t = NULL;
	struct bb_rank_place *gpus = NULL;
	struct bb_strbuf why = {0};
	const int64_t nodes = at->step->nodes;
	char share[BB_UNIT_TEXT];
	bb_status st;
	int n = 0, what = 0;

	snprintf(share, sizeof(share), "%.*s", of ? (int)(of - s->topology) + 1 : 0, s->topology);
	while (of && what < BB_BOUNDS && strcmp(of + 5, bb_bound_name(what)) != 0)
		what++;
	if (!of || what == BB_BOUNDS || !bb_parse_percent(share, &s->percent))
		return bb_profile_refuse(at,
					 "from: topology: %s is not such as 80%% of ring (pair, "
					 "ring, tree, NVLS, SHARP, all-to-all)",
					 s->topology);
	if (!at->profile->system)
		return bb_profile_refuse(at, "from: topology: the profile names no system");
	st = bb_topology_system(at->profile->system, &t, at->error);
	if (st != BB_OK)
		return st;
	gpus = nodes < 1 << 14 ? bb_all_gpus(t, (int)nodes, &n) : NULL;
	if (gpus && n > 1 && n == at->step->ranks) {
		t->nodes = (int)nodes;
		st = bb_speed_of_light(t, gpus, n, what, &s->GBps, &why);
		snprintf(s->origin, sizeof(s->origin), "speed of light of %lld x %s, %s: %.200s",
			 (long long)nodes, at->profile->system, bb_bound_name(what),
			 bb_strbuf_text(&why));
		st = st == BB_OK && s->GBps > 0
			     ? BB_OK
			     : bb_profile_refuse(at, "from: topology: %s: a bound on nothing",
						 bb_strbuf_text(&why));
	} else {
		st = bb_profile_refuse(at, "from: topology: %lld x %s has %d GPUs, not %lld ranks",
				       (long long)nodes, at->profile->system, n, at->step->ranks);
	}
	free(gpus);
	bb_strbuf_free(&why);
	bb_topology_free(t);
	return st;
}

static bb_status reference_check(const struct bb_profile_spot *at, struct bb_source *s)
{
	const struct bb_where *const w = at->gate->where;
	const struct bb_reference *row;
	struct bb_references table;
	struct bb_error why = {0};
	bb_status st;

	if (!w || !w->collective || !w->size || w->least_bytes != w->most_bytes)
		return bb_profile_refuse(
			at, "from: reference: needs where: with a collective and one size");
	if (strcmp(at->gate->measure->name, "busbw") != 0)
		return bb_profile_refuse(at, "from: reference: the table knows busbw, not %s",
					 at->gate->metric);
	BB_TRY(st, bb_references_own(&table, at->error), out);
	if (bb_references_find(&table, s->reference, w->collective, w->least_bytes, at->step->ranks,
			       w->in_place, &row, &why) != BB_OK) {
		st = bb_profile_refuse(at, "from: %s", why.text);
	} else {
		s->GBps = row->busbw_GBps;
		snprintf(s->origin, sizeof(s->origin),
			 "%s: %g GB/s, %s, %s %s, %s; table of " BB_REFERENCE_DATE, row->id,
			 row->busbw_GBps, row->system, row->fabric, row->kind, row->source);
	}
	bb_references_free(&table);
out:
	return st;
}

/* Checks that G, of which S is a share of a bound, TEXT, can fail. */
static bb_status share_check(const struct bb_profile_spot *at, const struct bb_gate *g,
			     struct bb_source *s, const char *text)
{
	const char *const source = bb_source_name(s->kind);
	bb_status st;

	if (strcmp(g->metric, "busbw") != 0 && strcmp(g->metric, "peak") != 0 &&
	    strcmp(g->metric, "bandwidth") != 0)
		return bb_profile_refuse(at, "from: %s: is for busbw, peak or bandwidth", source);
	if (s->kind == BB_FROM_TOPOLOGY)
		BB_TRY(st, topology_check(at, s), out);
	else if (!bb_parse_percent(text, &s->percent))
		return bb_profile_refuse(at, "from: %s: %s is not a percentage such as 20%%",
					 source, text);
	st = BB_OK;
	if (!(s->percent > 0))
		st = bb_profile_refuse(at, "from: %s: 0%% is a gate that cannot fail", source);
	else if (s->percent * (1 - g->lower) < LEAST_SHARE)
		st = bb_profile_refuse(
			at, "from: %s: %s%s%s can hardly fail; at least 0.1%% of the bound", source,
			text, g->down ? " less down: " : "", g->down ? g->down : "");
out:
	return st;
}

static bb_status source_check(const struct bb_profile_spot *at, struct bb_source *s)
{
	static const struct {
		const char *key;
		size_t offset;
		enum bb_source_kind kind;
	} keys[] = {
#define KEY(key, kind) {#key, offsetof(struct bb_source, key), BB_FROM_##kind},
		BB_SOURCE_TEXTS(KEY)
#undef KEY
	};
	static const char *const of_what[BB_SOURCES] = {
		[BB_FROM_COPY] = " of what the copy speed of the same run allows",
		[BB_FROM_BOUND] = " of the bound that the record carries",
		[BB_FROM_SIMULATOR] = " in virtual time"};
	const bool shape = at->gate->kind != BB_GATE_VALUE;
	const char *text = NULL;
	bb_status st;
	int n = 0;

	for (size_t i = 0; s && i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *const value = *(char **)((char *)s + keys[i].offset);

		s->kind = value ? keys[i].kind : s->kind;
		text = value ? value : text;
		n += value != NULL;
	}
	if (n != 1)
		return bb_profile_refuse(at,
					 "%s; from: is one of copy, bound, topology, cluster, "
					 "link, reference, baseline, rule",
					 n ? "from: names several sources"
					   : "does not say where it comes from");
	BB_TRY(st,
	       KEEP(at,
		    ((const struct rule[]){
			    {s->kind == BB_FROM_RULE && !shape,
			     "from: rule: is for gates with shape:; a value needs a source with a "
			     "number",
			     "", ""},
			    {s->kind != BB_FROM_RULE && shape,
			     "from: a gate with shape: needs rule:, a sentence that explains it",
			     "", ""},
			    {shape && text[strspn(text, " \t\r\n")] == '\0',
			     "from: rule: is empty; it needs a sentence that explains the gate", "",
			     ""}})),
	       out);
	snprintf(s->origin, sizeof(s->origin), "%.400s%s", text,
		 of_what[s->kind] ? of_what[s->kind] : "");
	if (s->kind <= BB_FROM_TOPOLOGY)
		BB_TRY(st, share_check(at, at->gate, s, text), out);
	if (s->kind == BB_FROM_REFERENCE)
		BB_TRY(st, reference_check(at, s), out);
	if ((s->kind == BB_FROM_TOPOLOGY || s->kind == BB_FROM_REFERENCE) && !(s->GBps > 0))
		return bb_profile_refuse(at, "expects 0: it cannot fail");
out:
	return st;
}

/* ---- the gate itself ----------------------------------------------------------------------- */

static bb_status value_check(const struct bb_profile_spot *at, struct bb_gate *g)
{
	const char *names[16] = {NULL};
	char hint[BB_SUGGESTION];
	double worst;
	bool more;

	for (int i = 0; bb_metrics[i].name; i++) {
		names[i] = bb_metrics[i].name;
		if (g->metric && strcmp(g->metric, bb_metrics[i].name) == 0)
			g->measure = &bb_metrics[i];
	}
	if (!g->metric)
		return bb_profile_refuse(at, "needs a metric, such as busbw, or a shape");
	if (!g->measure)
		return bb_profile_refuse(at, "metric: \"%s\" is not a metric%s", g->metric,
					 bb_suggest(hint, g->metric, names));
	more = g->measure->more_is_better;
	worst = more ? g->lower : g->upper;
	if (more && isnan(g->lower))
		g->lower = 0;
	if (!more && isnan(g->upper))
		g->upper = 0;
	return KEEP(
		at,
		((const struct rule[]){
			{g->between || g->window, "between and window belong to shape: crossover",
			 "", ""},
			{more && worst >= 1, "down: ", g->down, " can never fail; less than 100%"},
			{more && worst > MOST_DOWN, "down: ", g->down,
			 " can hardly fail; at most 95%"},
			{!more && worst > 10, "up: ", g->up, " can hardly fail; at most 1000%"},
			{g->warning >= (isnan(worst) ? 0 : worst), "warn: ", g->warn,
			 " is not less than the tolerance at which it fails"}}));
}

/* Returns the size that the last of the options -KEY and --NAME in RUN gives; 0: none. */
static uint64_t size_in(const char *run, char key, const char *name)
{
	const size_t n = strlen(name);
	char word[BB_UNIT_TEXT] = "";
	uint64_t size = 0;

	for (const char *at = run; *(at += strspn(at, " \t\n")); at += strcspn(at, " \t\n")) {
		if (at[0] == '-' && at[1] == key)
			at += 2;
		else if (strncmp(at, "--", 2) == 0 && strncmp(at + 2, name, n) == 0)
			at += 2 + n;
		else
			continue;
		at += strspn(at, "= \t\n");
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " \t\n"), at);
	}
	return bb_parse_size(word, &size) ? size : 0;
}

static bb_status shape_check(const struct bb_profile_spot *at, struct bb_gate *g)
{
	const uint64_t least = size_in(at->step->run, 'b', "minbytes");
	const bool dip = strcmp(g->shape, "no-dip") == 0;
	const char *const names = g->between ? g->between : "";
	const char *const rest = names + strcspn(names, " ,");
	bool two, window;

	g->kind = dip ? BB_GATE_NO_DIP : BB_GATE_CROSSOVER;
	snprintf(g->first, sizeof(g->first), "%.*s", (int)(rest - names), names);
	snprintf(g->second, sizeof(g->second), "%s", rest + strspn(rest, " ,"));
	two = g->first[0] && g->second[0] && rest - names < 32 && !strpbrk(g->second, " ,") &&
	      strcmp(g->first, g->second) != 0 && strlen(rest + strspn(rest, " ,")) < 32;
	window = g->window && sizes_read(g->window, &g->least_bytes, &g->most_bytes) &&
		 g->least_bytes < g->most_bytes;
	return KEEP(at,
		    ((const struct rule[]){
			    {g->where && g->where->least_bytes == g->where->most_bytes,
			     "where: size: ", g->where ? g->where->size : "",
			     " is one size, and a shape needs several"},
			    {least > 0 && least == size_in(at->step->run, 'e', "maxbytes"),
			     "run: has one size, and a shape needs several", "", ""},
			    {g->up || g->warn, "up and warn are for gates with a metric", "", ""},
			    {dip && (isnan(g->lower) || g->lower > MOST_DOWN),
			     "shape: no-dip needs down:, at most 95%", "", ""},
			    {!dip && strcmp(g->shape, "crossover") != 0, "shape: ", g->shape,
			     " is not no-dip or crossover"},
			    {!dip && g->down, "shape: crossover has a window:, no down:", "", ""},
			    {!dip && !two,
			     "shape: crossover needs between: two algorithms, such as tree, ring: "
			     "the first is faster below",
			     "", ""},
			    {!dip && !window,
			     "shape: crossover needs window: of sizes, such as 64K-4M", "", ""}}));
}

bb_status bb_gates_check(const struct bb_profile *p, struct bb_profile_step *step, const char *path,
			 struct bb_error *error)
{
	bb_status st = BB_OK;

	for (size_t i = 0; i < step->ngates; i++) {
		struct bb_gate *const g = &step->gates[i];
		const struct bb_profile_spot at = {path, g->line, p, step, g, error};
		const char *const why = " is not a percentage such as 5%";

		BB_TRY(st,
		       KEEP(&at,
			    ((const struct rule[]){
				    {!fraction_read(g->down, &g->lower), "down: ", g->down, why},
				    {!fraction_read(g->up, &g->upper), "up: ", g->up, why},
				    {!fraction_read(g->warn, &g->warning), "warn: ", g->warn, why},
				    {g->shape && g->metric, "has a metric and a shape; two gates",
				     "", ""}})),
		       out);
		if (g->where)
			BB_TRY(st, where_check(&at, g->where), out);
		BB_TRY(st, (g->shape ? shape_check : value_check)(&at, g), out);
		BB_TRY(st, source_check(&at, g->from), out);
	}
out:
	return st;
}

/*
 * profile.c - reads a profile by libyaml: its keys as tables, what steps inherit, the steps that
 * find the culprit of a group that failed, and gates, which must name their metric, their
 * expectation and its source, and be able to fail.
 */
#include "acceptance/profile.h"

#include "acceptance/reference.h"
#include "core/units.h"
#include "harness/run/options.h"
#include "schedules/schedule.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define WORD_MOST 4096
#define MOST_RANKS (1 << 20)
#define ALL_NODES (-1)

/* What a message is about: a line of the profile at PATH, and the gate of a step there. */
struct spot {
	const char *path;
	int line;
	const struct bb_profile *profile;
	const struct bb_profile_step *step; /* NULL: no gate */
	struct bb_gate *gate;
	struct bb_error *error;
	/* While it is read: */
	yaml_document_t *document;
	yaml_node_item_t last; /* node that was read */
};

/* BB_EUSAGE with the place and the reason. */
__attribute__((format(printf, 2, 3))) static bb_status refuse(const struct spot *at,
							      const char *format, ...)
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

/* ---- values ---------------------------------------------------------------------------------- */

/* A key of a mapping. */
struct key {
	const char *name;
	/* Reads TEXT, the value, into member TO. NULL: the value is a mapping by KEYS or, if MOST
	   is not 0, a list of so many of these. */
	bb_status (*read)(const struct spot *at, const struct key *key, char *text, void *to);
	size_t member;
	bool needed, all; /* ALL: the value may be "all" */
	int64_t most;
	const struct key *keys;
	/* Of a list: the size of its structures, and the members of their number and of a line. */
	size_t size, number, line;
};

static bb_status text_read(const struct spot *at, const struct key *key, char *text, void *to)
{
	if (!*text || strlen(text) > WORD_MOST)
		return refuse(at, "%s: is not a text of 1 to %d bytes", key->name, WORD_MOST);
	*(char **)to = text;
	return BB_OK;
}

/* A name becomes part of the names of files. */
static bb_status name_read(const struct spot *at, const struct key *key, char *text, void *to)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

	if (strlen(text) <= 60 && text[0] != '.' && text[strspn(text, letters)] == '\0')
		return text_read(at, key, text, to);
	return refuse(at, "name: %s is not up to 60 letters, digits, '_', '-' and '.'", text);
}

static bb_status launcher_read(const struct spot *at, const struct key *key, char *text, void *to)
{
	if (strcmp(text, "local") == 0 || strcmp(text, "mpirun") == 0 || strcmp(text, "srun") == 0)
		return text_read(at, key, text, to);
	return refuse(at, "launcher: %s is not local, mpirun or srun", text);
}

static bb_status count_read(const struct spot *at, const struct key *key, char *text, void *to)
{
	int64_t value = ALL_NODES;

	if ((!key->all || strcmp(text, "all") != 0) &&
	    (!bb_parse_int(text, &value) || value < 1 || value > key->most))
		return refuse(at, "%s: %s is not a whole number from 1 to %lld", key->name, text,
			      (long long)key->most);
	*(long long *)to = value;
	return BB_OK;
}

static bb_status time_read(const struct spot *at, const struct key *key, char *text, void *to)
{
	uint64_t *const ns = to;

	if (bb_parse_duration(text, ns) && *ns >= 1000000 && *ns <= UINT64_C(86400) * 1000000000)
		return BB_OK;
	return refuse(at, "%s: %s is not a time such as 90s or 10m, 1ms to 24h", key->name, text);
}

/* ---- keys ------------------------------------------------------------------------------------ */

#define ROW(key, reader, at, ...)                                                                  \
	{                                                                                          \
		.name = key, .read = reader, .member = at, __VA_ARGS__                             \
	}
#define STEP(key) offsetof(struct bb_profile_step, key)
#define GATE(key) offsetof(struct bb_gate, key)
#define PROFILE(key) offsetof(struct bb_profile, key)
#define LAST ROW(NULL, NULL, 0)

#define WHERE(key) ROW(#key, text_read, offsetof(struct bb_where, key)),
static const struct key where_keys[] = {BB_WHERE_TEXTS(WHERE) LAST};

#define SOURCE(key, kind) ROW(#key, text_read, offsetof(struct bb_source, key)),
static const struct key source_keys[] = {BB_SOURCE_TEXTS(SOURCE) LAST};

#define GATE_TEXT(key) ROW(#key, text_read, GATE(key)),
static const struct key gate_keys[] = {BB_GATE_TEXTS(GATE_TEXT)
					       ROW("where", NULL, GATE(where), .keys = where_keys),
				       ROW("from", NULL, GATE(from), .keys = source_keys), LAST};

/* Keys of a step at byte AT, and of the profile for all steps. */
#define INHERITED(at, nodes_all)                                                                   \
	ROW("launcher", launcher_read, (at) + STEP(launcher)),                                     \
		ROW("launcher_args", text_read, (at) + STEP(launcher_args)),                       \
		ROW("ranks", count_read, (at) + STEP(ranks), .most = MOST_RANKS),                  \
		ROW("nodes", count_read, (at) + STEP(nodes), .most = MOST_RANKS,                   \
		    .all = nodes_all),                                                             \
		ROW("repeats", count_read, (at) + STEP(repeats), .most = BB_MOST_REPEATS),         \
		ROW("time_limit", time_read, (at) + STEP(limit_ns)),                               \
		ROW("takes", time_read, (at) + STEP(takes_ns))

static const struct key step_keys[] = {ROW("name", name_read, STEP(name), .needed = true),
				       ROW("run", text_read, STEP(run), .needed = true),
				       ROW("modes", text_read, STEP(modes)),
				       ROW("when", text_read, STEP(when)),
				       ROW("gates", NULL, STEP(gates), .most = BB_MOST_GATES,
					   .keys = gate_keys, .size = sizeof(struct bb_gate),
					   .number = STEP(ngates), .line = GATE(line)),
				       INHERITED(0, true),
				       LAST};

static const struct key profile_keys[] = {ROW("name", name_read, PROFILE(name), .needed = true),
					  ROW("about", text_read, PROFILE(about)),
					  ROW("system", text_read, PROFILE(system)),
					  ROW("steps", NULL, PROFILE(declared), .needed = true,
					      .most = BB_MOST_STEPS, .keys = step_keys,
					      .size = sizeof(struct bb_profile_step),
					      .number = PROFILE(ndeclared), .line = STEP(line)),
					  INHERITED(PROFILE(all), false),
					  LAST};

/* Goes to node ID. Nodes are numbered as they begin; one before the last is that of an alias. */
static bb_status node_open(struct spot *at, yaml_node_item_t id, const yaml_node_t **node)
{
	*node = yaml_document_get_node(at->document, id);
	at->line = (int)(*node)->start_mark.line + 1;
	if (id <= at->last)
		return refuse(at, "an alias repeats this; write it again instead");
	at->last = id;
	return BB_OK;
}

static bb_status keys_read(struct spot *at, yaml_node_item_t id, const struct key *keys, char *into,
			   size_t line);

/* Reads node ID, the value of KEY, into the structure INTO. */
static bb_status value_read(struct spot *at, yaml_node_item_t id, const struct key *key, char *into)
{
	const yaml_node_t *node;
	char *text, *list;
	bb_status st;

	if (!key->read && key->most == 0)
		return keys_read(at, id, key->keys, into + key->member, 0);
	BB_TRY(st, node_open(at, id, &node), out);
	if (node->type != (key->read ? YAML_SCALAR_NODE : YAML_SEQUENCE_NODE))
		return refuse(at, "%s: is no %s", key->name, key->read ? "text" : "list");
	text = (char *)node->data.scalar.value;
	if (key->read)
		return strlen(text) == node->data.scalar.length
			       ? key->read(at, key, text, into + key->member)
			       : refuse(at, "%s: holds a byte of 0", key->name);
	const yaml_node_item_t *const items = node->data.sequence.items.start;
	const size_t n = (size_t)(node->data.sequence.items.top - items);
	if (n > (size_t)key->most || n < key->needed)
		return refuse(at, "%s: has %zu entries, not %d to %lld", key->name, n, key->needed,
			      (long long)key->most);
	*(void **)(into + key->member) = list = calloc(n + 1, key->size);
	if (!list)
		return bb_no_memory(at->error, at->path);
	*(size_t *)(into + key->number) = n;
	for (size_t i = 0; st == BB_OK && i < n; i++)
		st = keys_read(at, items[i], key->keys, list + i * key->size, key->line);
out:
	return st;
}

/* Reads node ID, a mapping, into the structure INTO, which KEYS describe. Its member LINE gets the
   line, unless that is 0. */
static bb_status keys_read(struct spot *at, yaml_node_item_t id, const struct key *keys, char *into,
			   size_t line)
{
	const yaml_node_t *node, *name;
	unsigned seen = 0;
	bb_status st;

	BB_TRY(st, node_open(at, id, &node), out);
	if (node->type != YAML_MAPPING_NODE)
		return refuse(at, "no mapping: keys with values are needed here");
	if (line > 0)
		*(int *)(into + line) = at->line;
	for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top; pair++) {
		const char *word;
		int k = 0;

		BB_TRY(st, node_open(at, pair->key, &name), out);
		word = name->type == YAML_SCALAR_NODE ? (char *)name->data.scalar.value : "?";
		while (keys[k].name && strcmp(keys[k].name, word) != 0)
			k++;
		if (!keys[k].name)
			return refuse(at, "Unexpected key: %.60s", word);
		if (seen >> k & 1)
			return refuse(at, "%s: is there twice", word);
		seen |= 1u << k;
		BB_TRY(st, value_read(at, pair->value, &keys[k], into), out);
	}
	at->line = (int)node->start_mark.line + 1;
	for (int k = 0; keys[k].name; k++)
		if (keys[k].needed && !(seen >> k & 1))
			return refuse(at, "Missing key: %s", keys[k].name);
out:
	return st;
}

/* ---- gates ----------------------------------------------------------------------------------- */

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

/* "16M" or "1M-1G" */
static bool sizes_read(const char *text, uint64_t *least, uint64_t *most)
{
	const size_t length = strcspn(text, "-");
	char first[BB_UNIT_TEXT];

	snprintf(first, sizeof(first), "%.*s", (int)length, text);
	*most = 0;
	if (length >= sizeof(first) || !bb_parse_size(first, least))
		return false;
	return text[length] ? bb_parse_size(text + length + 1, most) : (*most = *least) > 0;
}

/* Reads every text of W. */
static bb_status where_check(const struct spot *at, struct bb_where *w)
{
	w->least_bytes = 0;
	w->most_bytes = UINT64_MAX;
	w->in_place = !w->placement ? -1 : strcmp(w->placement, "in-place") == 0;
	if (w->size && !sizes_read(w->size, &w->least_bytes, &w->most_bytes))
		return refuse(at, "where: size: %s is not a size such as 16M, or a range 1M-1G",
			      w->size);
	if (w->least_bytes > w->most_bytes)
		return refuse(at, "where: size: %s selects nothing", w->size);
	if (w->collective && !bb_collective_find(w->collective))
		return refuse(at, "where: collective: there is no %s", w->collective);
	if (w->ranks && (!bb_parse_int(w->ranks, &w->nranks) || w->nranks < 1))
		return refuse(at, "where: ranks: %s is not a number of ranks", w->ranks);
	if (w->in_place == 0 && strcmp(w->placement, "out-of-place") != 0)
		return refuse(at, "where: placement: %s is not out-of-place or in-place",
			      w->placement);
	return BB_OK;
}

/* ---- the source of the expectation ------------------------------------------------------ */

const char *const bb_source_names[BB_SOURCES] = {"copy",      "bound",    "topology", "simulator",
						 "reference", "baseline", "rule"};

/* Reads "80% of ring" as a share of a bound of the profile's system on the step's nodes. */
static bb_status topology_check(const struct spot *at, struct bb_source *s)
{
	const char *const of = strstr(s->topology, "% of ");
	struct bb_topology *t = NULL;
	struct bb_rank_place *gpus = NULL;
	struct bb_strbuf why = {0};
	const int64_t nodes = at->step->nodes;
	char share[BB_UNIT_TEXT];
	int n = 0, what = 0;

	snprintf(share, sizeof(share), "%.*s", of ? (int)(of - s->topology) + 1 : 0, s->topology);
	while (of && what < BB_BOUNDS && strcmp(of + 5, bb_bound_name(what)) != 0)
		what++;
	if (!of || what == BB_BOUNDS || !bb_parse_percent(share, &s->percent))
		return refuse(at,
			      "from: topology: %s is not such as 80%% of ring (pair, ring, tree, "
			      "NVLS, SHARP, all-to-all)",
			      s->topology);
	if (!at->profile->system)
		return refuse(at, "from: topology: the profile names no system");
	bb_status st = bb_topology_system(at->profile->system, &t, at->error);
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
			     : refuse(at, "from: topology: %s: a bound on nothing",
				      bb_strbuf_text(&why));
	} else {
		st = refuse(at, "from: topology: %lld x %s has %d GPUs, not %lld ranks",
			    (long long)nodes, at->profile->system, n, at->step->ranks);
	}
	free(gpus);
	bb_strbuf_free(&why);
	bb_topology_free(t);
	return st;
}

static bb_status reference_check(const struct spot *at, struct bb_source *s)
{
	const struct bb_where *const w = &at->gate->where;
	const struct bb_reference *row;
	struct bb_references table;
	struct bb_error why = {0};
	bb_status st;

	if (!w->collective || !w->size || w->least_bytes != w->most_bytes)
		return refuse(at, "from: reference: needs where: with a collective and one size");
	if (strcmp(at->gate->measure->name, "busbw") != 0)
		return refuse(at, "from: reference: the table knows busbw, not %s",
			      at->gate->metric);
	BB_TRY(st, bb_references_own(&table, at->error), out);
	if (bb_references_find(&table, s->reference, w->collective, w->least_bytes, at->step->ranks,
			       w->in_place, &row, &why) != BB_OK) {
		st = refuse(at, "from: %s", why.text);
	} else {
		s->GBps = row->busbw_GBps;
		snprintf(s->origin, sizeof(s->origin),
			 "%s: %g GB/s, %s, %s %s, %s; table of " BB_REFERENCE_DATE, row->id,
			 row->busbw_GBps, row->system, row->fabric, row->kind, row->source);
	}
out:
	free(table.rows);
	return st;
}

/* Checks that G, of which S is a share of a bound, TEXT, can fail. */
static bb_status share_check(const struct spot *at, const struct bb_gate *g, struct bb_source *s,
			     const char *text)
{
	const char *const source = bb_source_names[s->kind];
	bb_status st;

	if (strcmp(g->metric, "busbw") != 0 && strcmp(g->metric, "peak") != 0 &&
	    strcmp(g->metric, "bandwidth") != 0)
		return refuse(at, "from: %s: is for busbw, peak or bandwidth", source);
	if (s->kind == BB_FROM_TOPOLOGY)
		BB_TRY(st, topology_check(at, s), out);
	else if (!bb_parse_percent(text, &s->percent))
		return refuse(at, "from: %s: %s is not a percentage such as 20%%", source, text);
	if (!(s->percent > 0))
		return refuse(at, "from: %s: 0%% is a gate that cannot fail", source);
	if (s->percent * (1 - g->lower) < LEAST_SHARE)
		return refuse(at, "from: %s: %s%s%s can hardly fail; at least 0.1%% of the bound",
			      source, text, g->down ? " less down: " : "", g->down ? g->down : "");
	st = BB_OK;
out:
	return st;
}

static bb_status source_check(const struct spot *at, struct bb_source *s)
{
#define KIND(key, kind) BB_FROM_##kind,
	static const enum bb_source_kind kinds[] = {BB_SOURCE_TEXTS(KIND)}; /* of source_keys */
#undef KIND
	static const char *const of_what[BB_SOURCES] = {
		[BB_FROM_COPY] = " of what the copy speed of the same run allows",
		[BB_FROM_BOUND] = " of the bound that the record carries",
		[BB_FROM_SIMULATOR] = " in virtual time"};
	const bool shape = at->gate->kind != BB_GATE_VALUE;
	const char *text = NULL;
	bb_status st;
	int n = 0;

	for (int i = 0; source_keys[i].name; i++) {
		const char *const value = *(char **)((char *)s + source_keys[i].member);

		s->kind = value ? kinds[i] : s->kind;
		text = value ? value : text;
		n += value != NULL;
	}
	if (n != 1)
		return refuse(at,
			      "%s; from: is one of copy, bound, topology, cluster, link, "
			      "reference, baseline, rule",
			      n ? "from: names several sources"
				: "does not say where it comes from");
	if (s->kind == BB_FROM_RULE && !shape)
		return refuse(at, "from: rule: is for gates with shape:; a value needs a source "
				  "with a number");
	if (s->kind != BB_FROM_RULE && shape)
		return refuse(at,
			      "from: a gate with shape: needs rule:, a sentence that explains it");
	if (shape && text[strspn(text, BB_BLANKS)] == '\0')
		return refuse(at,
			      "from: rule: is empty; it needs a sentence that explains the gate");
	snprintf(s->origin, sizeof(s->origin), "%.400s%s", text,
		 of_what[s->kind] ? of_what[s->kind] : "");
	if (s->kind <= BB_FROM_TOPOLOGY)
		BB_TRY(st, share_check(at, at->gate, s, text), out);
	if (s->kind == BB_FROM_REFERENCE)
		BB_TRY(st, reference_check(at, s), out);
	if ((s->kind == BB_FROM_TOPOLOGY || s->kind == BB_FROM_REFERENCE) && !(s->GBps > 0))
		return refuse(at, "expects 0: it cannot fail");
out:
	return st;
}

/* ---- the gate itself ----------------------------------------------------------------------- */

static bb_status value_check(const struct spot *at, struct bb_gate *g)
{
	const char *names[16] = {NULL};
	char hint[BB_SUGGESTION];

	for (int i = 0; bb_metrics[i].name; i++) {
		names[i] = bb_metrics[i].name;
		if (g->metric && strcmp(g->metric, bb_metrics[i].name) == 0)
			g->measure = &bb_metrics[i];
	}
	if (!g->metric)
		return refuse(at, "needs a metric, such as busbw, or a shape");
	if (!g->measure)
		return refuse(at, "metric: \"%s\" is not a metric%s", g->metric,
			      bb_suggest(hint, g->metric, names));
	const bool more = g->measure->more_is_better;
	const double worst = more ? g->lower : g->upper;
	if (more && isnan(g->lower))
		g->lower = 0;
	if (!more && isnan(g->upper))
		g->upper = 0;
	if (g->between || g->window)
		return refuse(at, "between and window belong to shape: crossover");
	if (more && worst >= 1)
		return refuse(at, "down: %s can never fail; less than 100%%", g->down);
	if (more && worst > MOST_DOWN)
		return refuse(at, "down: %s can hardly fail; at most 95%%", g->down);
	if (!more && worst > 10)
		return refuse(at, "up: %s can hardly fail; at most 1000%%", g->up);
	if (g->warning >= (isnan(worst) ? 0 : worst))
		return refuse(at, "warn: %s is not less than the tolerance at which it fails",
			      g->warn);
	return BB_OK;
}

void bb_step_option(const char *text, const char *name, char letter, char word[BB_STEP_WORD])
{
	*word = '\0';
	for (size_t n; *(text += strspn(text, BB_BLANKS)); text += n) {
		const size_t length = strcspn(text, "=" BB_BLANKS);
		const char *at;

		n = strcspn(text, BB_BLANKS);
		if (text[0] == '-' && letter && text[1] == letter)
			at = text + 2;
		else if (length > 3 && strncmp(text, "--", 2) == 0 &&
			 strncmp(text + 2, name, length - 2) == 0)
			at = text + length + (text[length] == '=');
		else
			continue;
		at += at == text + n ? strspn(at, BB_BLANKS) : 0;
		snprintf(word, BB_STEP_WORD, "%.*s", (int)strcspn(at, BB_BLANKS), at);
	}
}

static bb_status shape_check(const struct spot *at, struct bb_gate *g)
{
	const bool dip = strcmp(g->shape, "no-dip") == 0;
	char first[BB_STEP_WORD], last[BB_STEP_WORD];
	uint64_t least = 0, most = 0;
	int end = 0;

	bb_step_option(at->step->arguments, "minbytes", 'b', first);
	bb_step_option(at->step->arguments, "maxbytes", 'e', last);
	g->kind = dip ? BB_GATE_NO_DIP : BB_GATE_CROSSOVER;
	if (g->where.least_bytes == g->where.most_bytes)
		return refuse(at, "where: size: %s is one size, and a shape needs several",
			      g->where.size);
	if (bb_parse_size(first, &least) && bb_parse_size(last, &most) && least > 0 &&
	    least == most)
		return refuse(at, "run: has one size, and a shape needs several");
	if (g->up || g->warn)
		return refuse(at, "up and warn are for gates with a metric");
	if (dip)
		return g->lower <= MOST_DOWN
			       ? BB_OK
			       : refuse(at, "shape: no-dip needs down:, at most 95%%");
	if (strcmp(g->shape, "crossover") != 0)
		return refuse(at, "shape: %s is not no-dip or crossover", g->shape);
	if (g->down)
		return refuse(at, "shape: crossover has a window:, no down:");
	if (!g->between ||
	    sscanf(g->between, "%31[^ ,]%*[ ,]%31[^ ,]%n", g->first, g->second, &end) != 2 ||
	    g->between[end] || strcmp(g->first, g->second) == 0)
		return refuse(at, "shape: crossover needs between: two algorithms, such as tree, "
				  "ring: the first is faster below");
	if (!g->window || !sizes_read(g->window, &g->least_bytes, &g->most_bytes) ||
	    g->least_bytes >= g->most_bytes)
		return refuse(at, "shape: crossover needs window: of sizes, such as 64K-4M");
	return BB_OK;
}

/* Reads every text of the gates of AT's step. */
static bb_status gates_check(struct spot at)
{
	bb_status st = BB_OK;

	for (size_t i = 0; i < at.step->ngates; i++) {
		struct bb_gate *const g = at.gate = &at.step->gates[i];
		const struct {
			const char *key, *text;
			double *fraction;
		} shares[] = {{"down", g->down, &g->lower},
			      {"up", g->up, &g->upper},
			      {"warn", g->warn, &g->warning}};

		at.line = g->line;
		for (int k = 0; k < 3; k++) {
			*shares[k].fraction = NAN;
			if (shares[k].text && !bb_parse_percent(shares[k].text, shares[k].fraction))
				return refuse(&at, "%s: %s is not a percentage such as 5%%",
					      shares[k].key, shares[k].text);
		}
		if (g->shape && g->metric)
			return refuse(&at, "has a metric and a shape; two gates");
		BB_TRY(st, where_check(&at, &g->where), out);
		BB_TRY(st, (g->shape ? shape_check : value_check)(&at, g), out);
		BB_TRY(st, source_check(&at, &g->from), out);
	}
out:
	return st;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Only busbench's own binaries are run, from the folder of acceptance. Gives step I what it does
   not say itself, and spreads it over the nodes of SCALE. */
static bb_status step_check(struct bb_profile *p, size_t i, const char *path,
			    const struct bb_scale *scale, struct bb_error *error)
{
	const struct bb_profile_step *const all = &p->all;
	struct bb_profile_step *const s = &p->declared[i];
	struct spot at = {.path = path, .line = s->line, .profile = p, .error = error};
	const char *const word = s->run + strspn(s->run, BB_BLANKS);
	size_t length = strcspn(word, BB_BLANKS);
	const bool perf = length > 5 && length < 60 && strncmp(word + length - 5, "_perf", 5) == 0;

	for (size_t k = 0; k < i; k++)
		if (strcmp(p->declared[k].name, s->name) == 0)
			return refuse(&at, "name: %s is that of line %d, too", s->name,
				      p->declared[k].line);
	snprintf(s->binary, sizeof(s->binary), "%.*s", (int)length, word);
	s->arguments = word + length;
	if (memchr(word, '/', length) || (!perf && !bb_step_diagnoses(s)))
		return refuse(&at,
			      "run: %.*s is not the name of a perf binary, such as "
			      "all_reduce_perf, or diagnose",
			      (int)length, word);
	/* "quick, full" */
	s->mode = s->modes ? 0 : BB_QUICK | BB_FULL;
	for (const char *mode = s->modes; mode && *(mode += strspn(mode, " ,")); mode += length) {
		length = strcspn(mode, " ,");
		if (length == 5 && strncmp(mode, "quick", length) == 0)
			s->mode |= BB_QUICK;
		else if (length == 4 && strncmp(mode, "full", length) == 0)
			s->mode |= BB_FULL;
		else
			return refuse(&at, "modes: %.*s is not quick or full", (int)length, mode);
	}
	if (s->mode == 0)
		return refuse(&at, "modes: names none; quick, full, or both");
	if (s->when && strcmp(s->when, "failed") != 0)
		return refuse(&at, "when: %s is not failed", s->when);
	s->after_failure = s->when != NULL;
	const bool on_all = s->nodes == ALL_NODES;
	s->counted = s->ranks > 0 || all->ranks > 0 || scale->per_node > 0;
	s->ranks = s->ranks ?: all->ranks ?: 1;
	s->nodes = s->nodes > 0 ? s->nodes : all->nodes ?: 1;
	s->repeats = s->repeats ?: all->repeats ?: 1;
	s->limit_ns = s->limit_ns ?: all->limit_ns ?: UINT64_C(300) * 1000000000;
	s->takes_ns = s->takes_ns ?: all->takes_ns;
	if (s->ranks % s->nodes != 0)
		return refuse(&at, "%lld ranks cannot be spread evenly over %lld nodes", s->ranks,
			      s->nodes);
	s->ranks = scale->per_node > 0 ? scale->per_node : s->ranks / s->nodes;
	if (on_all && scale->nodes > 0)
		s->nodes = scale->nodes;
	s->ranks *= s->nodes;
	s->groups = 1;
	if (scale->nodes > 0) {
		if (s->nodes > scale->nodes)
			return refuse(&at, "--nodes %lld: step %s needs %lld nodes", scale->nodes,
				      s->name, s->nodes);
		s->groups = scale->nodes / s->nodes;
		s->left = scale->nodes % s->nodes;
	} else if (on_all) {
		s->mode = 0;
		return BB_OK;
	}
	at.step = s;
	return gates_check(at);
}

/* ---- narrower steps: halving the groups of all nodes at once takes log2 of their size. In pairs
   with either neighbour a slow node is slow twice, and a slow path between two nodes once. ------
 */

#define MOST_NARROWER 24 /* log2 of the most nodes, a shift, and room */

/* Adds to P groups of NODES nodes instead of those of STEP. */
static void narrower_add(struct bb_profile *p, const struct bb_profile_step *step, int64_t nodes,
			 int64_t shift)
{
	struct bb_profile_step *const new = &p->steps[p->nsteps++];
	const int64_t span = bb_step_nodes(step);

	*new = *step;
	new->narrows = step;
	new->ranks = nodes *(step->ranks / step->nodes);
	new->nodes = nodes;
	new->groups = span / nodes;
	new->left = span % nodes;
	new->shift = shift;
	new->after_failure = nodes < step->nodes || step->left != 1;
	new->repeats = new->after_failure ? 1 : step->repeats;
	snprintf(new->own_name, sizeof(new->own_name), "%s@%lld%s", step->name, (long long)nodes,
		 shift > 0 ? "+1" : "");
	new->name = new->own_name;
}

/* The declared steps of P, each followed by those that narrow it. */
static bb_status steps_narrow(struct bb_profile *p, struct bb_error *error)
{
	p->steps = calloc(p->ndeclared * MOST_NARROWER, sizeof(*p->steps));
	if (!p->steps)
		return bb_no_memory(error, "steps");
	for (size_t i = 0; i < p->ndeclared; i++) {
		struct bb_profile_step *const step = &p->steps[p->nsteps++];
		int64_t nodes = p->declared[i].nodes;

		*step = p->declared[i];
		if (step->mode == 0 || step->after_failure || bb_step_diagnoses(step) ||
		    nodes < 2 || bb_step_nodes(step) < 3)
			continue;
		if (step->left == 1)
			narrower_add(p, step, nodes, 1);
		while (nodes > 2) {
			/* About half, at least a pair. No node should be left over of all. */
			int64_t half = (nodes + 1) / 2;

			while (half > 2 && half < nodes && bb_step_nodes(step) % half == 1)
				half++;
			nodes = half < nodes ? half : 2;
			narrower_add(p, step, nodes, 0);
		}
		if (step->nodes > 2 || step->left != 1)
			narrower_add(p, step, 2, 1);
	}
	return BB_OK;
}

/* ---- the profile ---------------------------------------------------------------------------- */

/* A profile with the document that holds its texts. */
struct held {
	struct bb_profile profile;
	yaml_document_t document;
};

void bb_profile_free(struct bb_profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->ndeclared; i++)
		free(p->declared[i].gates);
	free(p->declared);
	free(p->steps);
	yaml_document_delete(&((struct held *)p)->document);
	free(p);
}

bb_status bb_profile_read(const char *path, const char *text, size_t length,
			  const struct bb_scale *scale, struct bb_profile **profile,
			  struct bb_error *error)
{
	yaml_document_t second = {.nodes = {NULL, NULL, NULL}};
	struct spot at = {.path = path, .error = error};
	yaml_parser_t parser;
	bb_status st;

	*profile = NULL;
	if (length > BB_PROFILE_BYTES)
		return bb_fail(error, BB_EUSAGE, "%s: larger than any profile (%d bytes)", path,
			       BB_PROFILE_BYTES);
	if (!yaml_parser_initialize(&parser))
		return bb_no_memory(error, path);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	struct held *h = calloc(1, sizeof(*h));
	if (!h)
		BB_TRY(st, bb_no_memory(error, path), out);
	at.document = &h->document;
	bool good = yaml_parser_load(&parser, &h->document);
	at.line = good ? 0 : (int)parser.problem_mark.line + 1;
	if (parser.error == YAML_MEMORY_ERROR)
		BB_TRY(st, bb_no_memory(error, path), out);
	if (!good)
		BB_TRY(st, refuse(&at, "libyaml: %s", parser.problem), out);
	if (!yaml_document_get_root_node(&h->document))
		BB_TRY(st, refuse(&at, "empty; a profile has a name and steps"), out);
	BB_TRY(st, keys_read(&at, 1, profile_keys, (char *)&h->profile, 0), out);
	good = yaml_parser_load(&parser, &second);
	at.line = (int)(good ? second.start_mark : parser.problem_mark).line + 1;
	if (!good || yaml_document_get_root_node(&second))
		st = refuse(&at, "a second document begins; a profile is one");
	yaml_document_delete(&second);
	for (size_t i = 0; st == BB_OK && i < h->profile.ndeclared; i++)
		st = step_check(&h->profile, i, path, scale, error);
	if (st == BB_OK)
		st = steps_narrow(&h->profile, error);
out:
	yaml_parser_delete(&parser);
	if (st == BB_OK)
		*profile = &h->profile;
	else
		bb_profile_free(h ? &h->profile : NULL);
	return st;
}

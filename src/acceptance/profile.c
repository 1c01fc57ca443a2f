/*
 * profile.c - reads a profile by libyaml: its keys as tables, what steps inherit, and the steps
 * that find the culprit of a group that failed.
 */
#include "acceptance/profile.h"

#include "core/option.h"
#include "core/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define WORD_MOST 4096
#define MOST_RANKS (1 << 20)
#define ALL_NODES (-1)

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

/* ---- values ---------------------------------------------------------------------------------- */

/* A key of a mapping. */
struct key {
	const char *name;
	/* Reads TEXT, the value, into member TO. NULL: the value is a mapping by KEYS or, if MOST
	   is not 0, a list of so many of these. */
	bb_status (*read)(const struct bb_profile_spot *at, const struct key *key, char *text,
			  void *to);
	size_t member;
	bool needed, all; /* ALL: the value may be "all" */
	int64_t most;
	const struct key *keys;
	size_t size, number, line; /* of a structure; members of the number and of a line */
};

static bb_status text_read(const struct bb_profile_spot *at, const struct key *key, char *text,
			   void *to)
{
	if (!*text || strlen(text) > WORD_MOST)
		return bb_profile_refuse(at, "%s: is not a text of 1 to %d bytes", key->name,
					 WORD_MOST);
	*(char **)to = text;
	return BB_OK;
}

/* A name becomes part of the names of files. */
static bb_status name_read(const struct bb_profile_spot *at, const struct key *key, char *text,
			   void *to)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

	if (strlen(text) <= 60 && text[0] != '.' && text[strspn(text, letters)] == '\0')
		return text_read(at, key, text, to);
	return bb_profile_refuse(at, "name: %s is not up to 60 letters, digits, '_', '-' and '.'",
				 text);
}

static bb_status launcher_read(const struct bb_profile_spot *at, const struct key *key, char *text,
			       void *to)
{
	if (strcmp(text, "local") == 0 || strcmp(text, "mpirun") == 0 || strcmp(text, "srun") == 0)
		return text_read(at, key, text, to);
	return bb_profile_refuse(at, "launcher: %s is not local, mpirun or srun", text);
}

static bb_status count_read(const struct bb_profile_spot *at, const struct key *key, char *text,
			    void *to)
{
	int64_t value = ALL_NODES;

	if ((!key->all || strcmp(text, "all") != 0) &&
	    (!bb_parse_int(text, &value) || value < 1 || value > key->most))
		return bb_profile_refuse(at, "%s: %s is not a whole number from 1 to %lld",
					 key->name, text, (long long)key->most);
	*(long long *)to = value;
	return BB_OK;
}

static bb_status time_read(const struct bb_profile_spot *at, const struct key *key, char *text,
			   void *to)
{
	uint64_t *const ns = to;

	if (bb_parse_duration(text, ns) && *ns >= 1000000 && *ns <= UINT64_C(86400) * 1000000000)
		return BB_OK;
	return bb_profile_refuse(at, "%s: %s is not a time such as 90s or 10m, 1ms to 24h",
				 key->name, text);
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
static const struct key gate_keys[] = {
	BB_GATE_TEXTS(GATE_TEXT) ROW("where", NULL, GATE(where), .keys = where_keys,
				     .size = sizeof(struct bb_where)),
	ROW("from", NULL, GATE(from), .keys = source_keys, .size = sizeof(struct bb_source)), LAST};

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

struct reader {
	struct bb_profile_spot at;
	yaml_document_t *document;
	yaml_node_item_t last; /* node that was read */
};

/* Goes to node ID. Nodes are numbered as they begin; one before the last is that of an alias. */
static bb_status node_open(struct reader *r, yaml_node_item_t id, const yaml_node_t **node)
{
	*node = yaml_document_get_node(r->document, id);
	r->at.line = (int)(*node)->start_mark.line + 1;
	if (id <= r->last)
		return bb_profile_refuse(&r->at, "an alias repeats this; write it again instead");
	r->last = id;
	return BB_OK;
}

static bb_status keys_read(struct reader *r, yaml_node_item_t id, const struct key *keys,
			   char *into, size_t line);

/* Reads node ID, the value of KEY, into the structure INTO. */
static bb_status value_read(struct reader *r, yaml_node_item_t id, const struct key *key,
			    char *into)
{
	const yaml_node_t *node = yaml_document_get_node(r->document, id);
	char *const text = (char *)node->data.scalar.value, *list;
	size_t n;
	bb_status st;

	if (!key->read && key->most == 0) {
		*(void **)(into + key->member) = list = calloc(1, key->size);
		return list ? keys_read(r, id, key->keys, list, 0)
			    : bb_no_memory(r->at.error, r->at.path);
	}
	BB_TRY(st, node_open(r, id, &node), out);
	if (node->type != (key->read ? YAML_SCALAR_NODE : YAML_SEQUENCE_NODE))
		return bb_profile_refuse(&r->at, "%s: is no %s", key->name,
					 key->read ? "text" : "list");
	if (key->read)
		return strlen(text) == node->data.scalar.length
			       ? key->read(&r->at, key, text, into + key->member)
			       : bb_profile_refuse(&r->at, "%s: holds a byte of 0", key->name);
	n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (n > (size_t)key->most || n < key->needed)
		return bb_profile_refuse(&r->at, "%s: has %zu entries, not %d to %lld", key->name,
					 n, key->needed, (long long)key->most);
	*(void **)(into + key->member) = list = calloc(n + 1, key->size);
	if (!list)
		return bb_no_memory(r->at.error, r->at.path);
	*(size_t *)(into + key->number) = n;
	for (size_t i = 0; st == BB_OK && i < n; i++)
		st = keys_read(r, node->data.sequence.items.start[i], key->keys,
			       list + i * key->size, key->line);
out:
	return st;
}

/* Reads node ID, a mapping, into the structure INTO, which KEYS describe. Its member LINE gets the
   line, unless that is 0. */
static bb_status keys_read(struct reader *r, yaml_node_item_t id, const struct key *keys,
			   char *into, size_t line)
{
	const yaml_node_t *node, *name;
	unsigned seen = 0;
	bb_status st;

	BB_TRY(st, node_open(r, id, &node), out);
	if (node->type != YAML_MAPPING_NODE)
		return bb_profile_refuse(&r->at, "no mapping: keys with values are needed here");
	if (line > 0)
		*(int *)(into + line) = r->at.line;
	for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top; pair++) {
		const char *word;
		int k = 0;

		BB_TRY(st, node_open(r, pair->key, &name), out);
		word = name->type == YAML_SCALAR_NODE ? (char *)name->data.scalar.value : "?";
		while (keys[k].name && strcmp(keys[k].name, word) != 0)
			k++;
		if (!keys[k].name)
			return bb_profile_refuse(&r->at, "Unexpected key: %.60s", word);
		if (seen >> k & 1)
			return bb_profile_refuse(&r->at, "%s: is there twice", word);
		seen |= 1u << k;
		BB_TRY(st, value_read(r, pair->value, &keys[k], into), out);
	}
	r->at.line = (int)node->start_mark.line + 1;
	for (int k = 0; keys[k].name; k++)
		if (keys[k].needed && !(seen >> k & 1))
			return bb_profile_refuse(&r->at, "Missing key: %s", keys[k].name);
out:
	return st;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* "quick, full" */
static bb_status modes_read(const struct bb_profile_spot *at, struct bb_profile_step *s)
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

bool bb_step_diagnoses(const struct bb_profile_step *step)
{
	const char *const word = step->run + strspn(step->run, " \t\r\n");

	return strcspn(word, " \t\r\n") == 8 && strncmp(word, "diagnose", 8) == 0;
}

/* Gives S what it does not say itself, and spreads it over the nodes of SCALE. */
static bb_status step_scale(const struct bb_profile_spot *at, struct bb_profile_step *s,
			    const struct bb_profile_step *all, const struct bb_scale *scale)
{
	const bool on_all = s->nodes == ALL_NODES;

	s->counted = s->ranks > 0 || all->ranks > 0 || scale->per_node > 0;
	s->ranks = s->ranks ? s->ranks : all->ranks ? all->ranks : 1;
	s->nodes = s->nodes > 0 ? s->nodes : all->nodes ? all->nodes : 1;
	s->repeats = s->repeats ? s->repeats : all->repeats ? all->repeats : 1;
	s->limit_ns = s->limit_ns     ? s->limit_ns
		      : all->limit_ns ? all->limit_ns
				      : UINT64_C(300) * 1000000000;
	s->takes_ns = s->takes_ns ? s->takes_ns : all->takes_ns;
	if (s->ranks % s->nodes != 0)
		return bb_profile_refuse(at, "%lld ranks cannot be spread evenly over %lld nodes",
					 s->ranks, s->nodes);
	s->ranks = scale->per_node > 0 ? scale->per_node : s->ranks / s->nodes;
	s->groups = 1;
	if (on_all && scale->nodes == 0)
		s->mode = 0;
	if (on_all && scale->nodes > 0)
		s->nodes = scale->nodes;
	s->ranks *= s->nodes;
	if (scale->nodes == 0)
		return BB_OK;
	if (s->nodes > scale->nodes)
		return bb_profile_refuse(at, "--nodes %lld: step %s needs %lld nodes", scale->nodes,
					 s->name, s->nodes);
	s->groups = scale->nodes / s->nodes;
	s->left = scale->nodes % s->nodes;
	return BB_OK;
}

/* Only busbench's own binaries are run, from the folder of acceptance. */
static bb_status step_check(const struct bb_profile *p, size_t i, const char *path,
			    const struct bb_scale *scale, struct bb_error *error)
{
	struct bb_profile_step *const s = &p->declared[i];
	const struct bb_profile_spot at = {.path = path, .line = s->line, .error = error};
	const char *const word = s->run + strspn(s->run, " \t\r\n");
	const int n = (int)strcspn(word, " \t\r\n");
	const bool perf = n > 5 && n < 60 && strncmp(word + n - 5, "_perf", 5) == 0;
	bb_status st;

	for (size_t k = 0; k < i; k++)
		if (strcmp(p->declared[k].name, s->name) == 0)
			return bb_profile_refuse(&at, "name: %s is that of line %d, too", s->name,
						 p->declared[k].line);
	if (memchr(word, '/', (size_t)n) || (!perf && !bb_step_diagnoses(s)))
		return bb_profile_refuse(&at,
					 "run: %.*s is not the name of a perf binary, such as "
					 "all_reduce_perf, or diagnose",
					 n, word);
	BB_TRY(st, modes_read(&at, s), out);
	if (s->when && strcmp(s->when, "failed") != 0)
		return bb_profile_refuse(&at, "when: %s is not failed", s->when);
	s->after_failure = s->when != NULL;
	BB_TRY(st, step_scale(&at, s, &p->all, scale), out);
	if (s->mode != 0)
		st = bb_gates_check(p, s, path, error);
out:
	return st;
}

/* ---- narrower steps: halving the groups of all nodes at once takes log2 of their size. In pairs
   with either neighbour a slow node is slow twice, and a slow path between two nodes once. ------
 */

#define MOST_NARROWER 24 /* log2 of the most nodes, a shift, and room */

/* Returns about half of NODES, at least a pair. No node should be left over of all SPAN. */
static int64_t half_of(int64_t nodes, int64_t span)
{
	int64_t half = (nodes + 1) / 2;

	while (half > 2 && half < nodes && span % half == 1)
		half++;
	return half < nodes ? half : 2;
}

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
			nodes = half_of(nodes, bb_step_nodes(step));
			narrower_add(p, step, nodes, 0);
		}
		if (step->nodes > 2 || step->left != 1)
			narrower_add(p, step, 2, 1);
	}
	return BB_OK;
}

/* ---- the profile ------------------------------------------------------------------------------
 */

/* A profile with the document that holds its texts. */
struct held {
	struct bb_profile profile;
	yaml_document_t document;
};

void bb_profile_free(struct bb_profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->ndeclared; i++) {
		for (size_t k = 0; k < p->declared[i].ngates; k++) {
			free(p->declared[i].gates[k].where);
			free(p->declared[i].gates[k].from);
		}
		free(p->declared[i].gates);
	}
	free(p->declared);
	free(p->steps);
	yaml_document_delete(&((struct held *)p)->document);
	free(p);
}

/* Reads the only document of PARSER into H. */
static bb_status document_read(yaml_parser_t *parser, struct held *h, const char *path,
			       struct bb_error *error)
{
	struct reader r = {.at = {.path = path, .error = error}, .document = &h->document};
	yaml_document_t second = {.nodes = {NULL, NULL, NULL}};
	bool good = yaml_parser_load(parser, &h->document);
	bb_status st;

	r.at.line = good ? 0 : (int)parser->problem_mark.line + 1;
	if (parser->error == YAML_MEMORY_ERROR)
		return bb_no_memory(error, path);
	if (!good)
		return bb_profile_refuse(&r.at, "libyaml: %s", parser->problem);
	if (!yaml_document_get_root_node(&h->document))
		return bb_profile_refuse(&r.at, "empty; a profile has a name and steps");
	BB_TRY(st, keys_read(&r, 1, profile_keys, (char *)&h->profile, 0), out);
	good = yaml_parser_load(parser, &second);
	r.at.line = (int)(good ? second.start_mark : parser->problem_mark).line + 1;
	if (!good || yaml_document_get_root_node(&second))
		st = bb_profile_refuse(&r.at, "a second document begins; a profile is one");
	yaml_document_delete(&second);
out:
	return st;
}

bb_status bb_profile_read(const char *path, const char *text, size_t length,
			  const struct bb_scale *scale, struct bb_profile **profile,
			  struct bb_error *error)
{
	struct held *h;
	yaml_parser_t parser;
	bb_status st;

	*profile = NULL;
	if (length > BB_PROFILE_BYTES)
		return bb_fail(error, BB_EUSAGE, "%s: larger than any profile (%d bytes)", path,
			       BB_PROFILE_BYTES);
	if (!yaml_parser_initialize(&parser))
		return bb_no_memory(error, path);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	h = calloc(1, sizeof(*h));
	st = h ? document_read(&parser, h, path, error) : bb_no_memory(error, path);
	yaml_parser_delete(&parser);
	for (size_t i = 0; st == BB_OK && i < h->profile.ndeclared; i++)
		st = step_check(&h->profile, i, path, scale, error);
	if (st == BB_OK)
		st = steps_narrow(&h->profile, error);
	if (st == BB_OK)
		*profile = &h->profile;
	else
		bb_profile_free(h ? &h->profile : NULL);
	return st;
}

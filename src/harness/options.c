/*
 * options.c - from words to values: backend, datatypes, operations, root, algorithms, fault, link
 * and environment. Whether the values go together is judged in options_check.c.
 */
#include "harness/options.h"
#include "core/units.h"
#include "harness/options_check.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WORD 64 /* longest name in a list, with its end */
/* --link: beyond these nothing would be measured but a slip of the pen. */
#define LEAST_RATE 1e3
#define MOST_RATE 1e15
#define MOST_LATENCY_NS UINT64_C(60000000000)

#define VARIABLE(name, field)                                                                      \
	{                                                                                          \
		name, offsetof(struct bb_environment, field)                                       \
	}

const struct bb_environment_row bb_environment_rows[BB_NENVIRONMENT] = {
	VARIABLE("NCCL_ALGO", nccl_algo),
	VARIABLE("NCCL_TESTS_SPLIT", split),
	VARIABLE("NCCL_TESTS_SPLIT_MASK", split_mask),
	VARIABLE("NCCL_TESTS_MIN_BW", min_bw),
	VARIABLE("NCCL_TESTS_ALLTOALLV_SPREAD", spread),
	VARIABLE("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", matrix_file),
	VARIABLE("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", matrix_scale),
	VARIABLE("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", print_summary),
	VARIABLE("BUSBENCH_ISA", isa),
};

struct bb_environment bb_environment_read(void)
{
	struct bb_environment e = {.launch = bb_launch_hint_read()};

	for (int i = 0; i < BB_NENVIRONMENT; i++)
		*(const char **)((char *)&e + bb_environment_rows[i].offset) =
			getenv(bb_environment_rows[i].name);
	return e;
}

const char *bb_environment_value(const struct bb_environment *environment, int row)
{
	return *(const char *const *)((const char *)environment + bb_environment_rows[row].offset);
}

static bool is_set(const char *text)
{
	return text && *text;
}

/* "; did you mean X?" or nothing, for the end of a sentence. */
static const char *suggest(char text[64], const char *word, const char *const *names)
{
	const char *near = bb_nearest(word, names);

	if (near)
		snprintf(text, 64, "; did you mean \"%s\"?", near);
	else
		text[0] = '\0';
	return text;
}

/* Copy the word at *LIST and step to the comma or end behind it. False: empty or too long. */
static bool next_word(const char **list, char word[WORD])
{
	size_t length = strcspn(*list, ",");

	snprintf(word, WORD, "%.*s", (int)(length < WORD ? length : WORD - 1), *list);
	*list += length;
	return length > 0 && length < WORD;
}

static bb_status unknown_backend(const struct bb_options *o, struct bb_error *error)
{
	const char *names[16] = {"auto"};
	char hint[64];
	size_t n = 1;

	for (int i = 0; bb_backends[i] && n < 15; i++)
		names[n++] = bb_backends[i]->name;
	for (const struct bb_loadable *l = bb_loadables; l->name && n < 15; l++)
		names[n++] = l->name;
	names[n] = NULL;
	return bb_fail(error, BB_EUSAGE, "--backend: there is no backend \"%s\"%s (see --list)",
		       o->backend_text, suggest(hint, o->backend_text, names));
}

/* Because a launcher started this process, what it needs is loaded though nobody asked for it. */
static bb_status load_for_launcher(struct bb_plugin *plugin, const struct bb_launch_hint *launch,
				   struct bb_error *error)
{
	struct bb_error cause = {.text = ""};
	bb_status st = bb_plugin_load(plugin, bb_loadable_find(BB_LAUNCHER), &cause);

	if (st == BB_OK && plugin->launch)
		return BB_OK;
	if (st == BB_OK)
		st = bb_fail(&cause, BB_EBACKEND,
			     "the " BB_LAUNCHER " backend cannot connect processes; rebuild it");
	if (launch->nprocs > 1)
		return bb_fail(error, st, "%s started %d processes: %s", launch->launcher,
			       launch->nprocs, cause.text);
	return bb_fail(error, st,
		       "%s started this, so the backend is " BB_LAUNCHER
		       " (unless --backend host is given): %s",
		       launch->launcher, cause.text);
}

static bb_status resolve_backend(struct bb_options *o, const struct bb_launch_hint *launch,
				 struct bb_error *error)
{
	const bool automatic = strcmp(o->backend_text, "auto") == 0;
	const struct bb_loadable *loadable = bb_loadable_find(o->backend_text);
	struct bb_plugin plugin = {.backend = NULL};
	bb_status st = BB_OK;

	if (automatic && launch->launcher)
		st = load_for_launcher(&plugin, launch, error);
	else if (loadable)
		st = bb_plugin_load(&plugin, loadable, error);
	else
		plugin.backend = bb_backend_find(automatic ? "host" : o->backend_text);
	o->backend = plugin.backend;
	o->launch = plugin.launch;
	if (st != BB_OK || o->backend)
		return st;
	if (o->launch)
		return bb_fail(
			error, BB_EBACKEND,
			"the %s backend can connect processes, but has no backend; rebuild it",
			o->launch->name);
	return unknown_backend(o, error);
}

/* Several processes need a launch, whatever the backend. */
static bb_status resolve_launch(struct bb_options *o, const struct bb_launch_hint *launch,
				struct bb_error *error)
{
	struct bb_plugin plugin;
	bb_status st;

	if (o->launch || o->explain || launch->nprocs <= 1)
		return BB_OK;
	if (!(o->backend->capabilities & BB_CAP_PROCESSES))
		return bb_fail(error, BB_EUSAGE,
			       "the %s backend is one process, and %s started %d; use "
			       "--backend " BB_LAUNCHER ", or start one",
			       o->backend->name, launch->launcher, launch->nprocs);
	st = load_for_launcher(&plugin, launch, error);
	o->launch = plugin.launch;
	return st;
}

/*
 * A list of NAMES, or all, as a bit mask. FLAG and WHAT are for the error's sentence.
 */
static bb_status resolve_set(const char *flag, const char *what, const char *list,
			     const char *const *names, unsigned *set, bool *all,
			     struct bb_error *error)
{
	char word[WORD], hint[64];
	const char *rest = list;
	int i;

	*set = 0;
	*all = strcmp(list, "all") == 0;
	for (i = 0; *all && names[i]; i++)
		*set |= 1u << i;
	if (*all)
		return BB_OK;
	do {
		bool whole = next_word(&rest, word);

		if (!*word)
			return bb_fail(error, BB_EUSAGE,
				       "%s %s: there is an empty name in the list", flag, list);
		for (i = 0; names[i] && strcmp(names[i], word) != 0; i++)
			;
		if (!whole || !names[i])
			return bb_fail(error, BB_EUSAGE, "%s: \"%s\" is not %s%s (see --list)",
				       flag, word, what, suggest(hint, word, names));
		*set |= 1u << i;
	} while (*rest++ == ',');
	return BB_OK;
}

static bb_status resolve_dtypes(struct bb_options *o, struct bb_error *error)
{
	const char *names[BB_NDTYPES + 1] = {NULL};
	int i;

	for (i = 0; i < BB_NDTYPES; i++)
		names[i] = bb_dtype_name((enum bb_dtype)i);
	return resolve_set("-d", "a datatype", o->dtype_text, names, &o->dtypes, &o->dtypes_all,
			   error);
}

static bb_status resolve_ops(struct bb_options *o, struct bb_error *error)
{
	const char *names[BB_NOPS + 1] = {NULL};
	int i;

	for (i = 0; i < BB_NOPS; i++)
		names[i] = bb_op_name((enum bb_op)i);
	return resolve_set("-o", "an operation", o->op_text, names, &o->ops, &o->ops_all, error);
}

static bool parse_rank(const char *text, int *rank)
{
	int64_t value;

	if (!bb_parse_int(text, &value) || value < 0 || value > INT_MAX)
		return false;
	*rank = (int)value;
	return true;
}

static bb_status resolve_root(struct bb_options *o, struct bb_error *error)
{
	if (strcmp(o->root_text, "all") == 0 || strcmp(o->root_text, "-1") == 0) {
		o->root = BB_ROOT_ALL;
		return BB_OK;
	}
	if (parse_rank(o->root_text, &o->root))
		return BB_OK;
	return bb_fail(error, BB_EUSAGE, "-r: \"%s\" is not a root; give a rank from 0, or all",
		       o->root_text);
}

/* Names of every schedule of any collective, of this backend's own, auto and all. */
static bool known_algorithm(const struct bb_backend *backend, const char *word)
{
	const struct bb_native *native;
	int i;

	if (strcmp(word, "auto") == 0 || strcmp(word, "all") == 0)
		return true;
	for (i = 0; bb_algorithms[i]; i++) {
		if (strcmp(bb_algorithms[i]->name, word) == 0)
			return true;
	}
	for (native = backend->natives; native && native->name; native++) {
		size_t length = strlen(native->name);

		if (strcmp(native->name, word) == 0)
			return true;
		/* What only the library can name; whether it does is seen later. */
		if (backend->discover && strncmp(native->name, word, length) == 0 &&
		    word[length] == ':' && word[length + 1])
			return true;
	}
	return false;
}

static const char *nearest_algorithm(const struct bb_options *o,
				     const struct bb_collective *collective, const char *word,
				     char hint[64])
{
	const char *names[64] = {"auto", "all"};
	const struct bb_native *native;
	int i, n = 2;

	for (i = 0; bb_algorithms[i] && n < 63; i++) {
		if (bb_algorithms[i]->collective == collective)
			names[n++] = bb_algorithms[i]->name;
	}
	for (native = o->backend->natives; native && native->name && n < 63; native++)
		names[n++] = native->name;
	names[n] = NULL;
	return suggest(hint, word, names);
}

/* The backend other than O's that has WORD of its own, as far as is known here; NULL: none. */
static const char *whose_algorithm(const struct bb_options *o, const char *word)
{
	for (int i = 0; bb_backends[i]; i++) {
		const struct bb_native *native = bb_backends[i]->natives;

		for (; native && native->name; native++)
			if (bb_backends[i] != o->backend && strcmp(native->name, word) == 0)
				return bb_backends[i]->name;
	}
	/* No backend need be loaded for that. */
	return strcmp(word, "native") == 0 ? "mpi or nccl" : NULL;
}

static bb_status unknown_algorithm(const struct bb_options *o,
				   const struct bb_collective *collective, const char *word,
				   struct bb_error *error)
{
	const char *owner = whose_algorithm(o, word);
	char hint[64];

	if (owner)
		return bb_fail(error, BB_EUSAGE,
			       "--algo: %s is an algorithm of the %s backend; this is %s (see "
			       "--list)",
			       word, owner, o->backend->name);
	return bb_fail(error, BB_EUSAGE, "--algo: \"%s\" is not an algorithm%s (see --list)", word,
		       nearest_algorithm(o, collective, word, hint));
}

static bb_status resolve_algorithms(struct bb_options *o, const struct bb_collective *collective,
				    struct bb_error *error)
{
	char word[WORD];
	const char *rest = o->algo_text;

	o->algorithms = o->algo_text;
	do {
		bool whole = next_word(&rest, word);

		if (!*word)
			return bb_fail(error, BB_EUSAGE,
				       "--algo %s: there is an empty name in the list",
				       o->algo_text);
		if (!whole || !known_algorithm(o->backend, word))
			return unknown_algorithm(o, collective, word, error);
		if (strcmp(word, "all") == 0 && strcmp(o->algo_text, "all") != 0)
			return bb_fail(error, BB_EUSAGE,
				       "--algo %s: all stands alone, not in a list", o->algo_text);
	} while (*rest++ == ',');
	return BB_OK;
}

static bb_status resolve_nccl_algo(struct bb_options *o, const char *value, struct bb_error *error)
{
	static const char *const names[] = {"ring", "tree"};
	int i;

	for (i = 0; i < 2; i++) {
		if (strcasecmp(value, names[i]) == 0) {
			o->algorithms = names[i];
			return BB_OK;
		}
	}
	if (o->backend->capabilities & BB_CAP_GPU)
		return BB_OK; /* the library reads it itself */
	return bb_fail(error, BB_EUSAGE,
		       "NCCL_ALGO=\"%s\": the %s backend understands Ring and Tree; unset it, or "
		       "choose with --algo (see --list)",
		       value, o->backend->name);
}

static bb_status resolve_fault(struct bb_options *o, struct bb_error *error)
{
	static const struct {
		const char *word;
		enum bb_fault_kind kind;
	} kinds[] = {{"corrupt", BB_FAULT_CORRUPT}, {"slow", BB_FAULT_SLOW}, {"die", BB_FAULT_DIE}};
	char copy[64], *rank, *time = NULL;
	uint64_t ns = 0;
	size_t i;

	if (!o->fault_text)
		return BB_OK;
	snprintf(copy, sizeof(copy), "%s", o->fault_text);
	rank = strchr(copy, ':');
	if (rank)
		*rank++ = '\0';
	for (i = 0; i < 3 && strcmp(copy, kinds[i].word) != 0; i++)
		;
	if (i == 3 || !rank || strlen(o->fault_text) >= sizeof(copy))
		goto bad;
	o->fault.kind = kinds[i].kind;
	if (o->fault.kind == BB_FAULT_SLOW) {
		time = strchr(rank, ':');
		if (!time)
			goto bad;
		*time++ = '\0';
		if (!bb_parse_duration(time, &ns))
			goto bad;
	}
	if (!parse_rank(rank, &o->fault.rank))
		goto bad;
	o->fault.seconds = (double)ns * 1e-9;
	return BB_OK;
bad:
	return bb_fail(error, BB_EUSAGE,
		       "--fault: \"%s\" is not understood; give corrupt:RANK, slow:RANK:TIME "
		       "(slow:2:5ms) or die:RANK",
		       o->fault_text);
}

static bb_status resolve_link(struct bb_options *o, struct bb_error *error)
{
	char rate[64];
	const char *comma;
	uint64_t ns = 0;
	size_t length;

	if (!o->link_text)
		return BB_OK;
	errno = EINVAL;
	comma = strchr(o->link_text, ',');
	length = comma ? (size_t)(comma - o->link_text) : strlen(o->link_text);
	if (length >= sizeof(rate))
		goto bad;
	memcpy(rate, o->link_text, length);
	rate[length] = '\0';
	if (!bb_parse_rate(rate, &o->link.link_rate) ||
	    (comma && !bb_parse_duration(comma + 1, &ns)))
		goto bad;
	errno = ERANGE;
	if (o->link.link_rate < LEAST_RATE || o->link.link_rate > MOST_RATE || ns > MOST_LATENCY_NS)
		goto bad;
	o->link.link_latency = (double)ns * 1e-9;
	return BB_OK;
bad:
	return bb_fail(error, BB_EUSAGE,
		       "--link %s: %s; give a rate from 1KB/s to 1000TB/s with its unit, and "
		       "perhaps a latency up to 1m: 10GB/s or 100Gb/s,2us",
		       o->link_text, errno == ERANGE ? "out of range" : "not understood");
}

/* A number from the environment within LOW … HIGH; absent leaves VALUE. */
static bb_status resolve_number(const char *name, const char *text, double low, double high,
				double *value, struct bb_error *error)
{
	char *end;
	double v;

	if (!is_set(text))
		return BB_OK;
	v = strtod(text, &end);
	if (end == text || *end || !(v >= low && v <= high))
		return bb_fail(error, BB_EUSAGE, "%s=\"%s\" is not a number from %g to %g", name,
			       text, low, high);
	*value = v;
	return BB_OK;
}

/* What nccl-tests would obey and busbench cannot must not pass in silence. */
static bb_status refuse_unsupported(const struct bb_environment *e, struct bb_error *error)
{
	const struct {
		const char *name, *value;
	} rows[] = {
		{"MATRIX_FILE", e->matrix_file},
		{"MATRIX_SCALE", e->matrix_scale},
		{"PRINT_SUMMARY", e->print_summary},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (is_set(rows[i].value) && strcmp(rows[i].value, "0") != 0)
			return bb_fail(error, BB_EUNSUPPORTED,
				       "NCCL_TESTS_ALLTOALLV_%s=\"%s\" is not supported; unset it "
				       "(NCCL_TESTS_ALLTOALLV_SPREAD shapes the traffic)",
				       rows[i].name, rows[i].value);
	}
	return BB_OK;
}

static bb_status resolve_environment(struct bb_options *o, const struct bb_collective *collective,
				     const struct bb_environment *e, struct bb_error *error)
{
	bb_status st;

	if (collective->flags & BB_VARIABLE)
		BB_TRY(st, refuse_unsupported(e, error), out);
	if (!o->algo_given && is_set(e->nccl_algo))
		BB_TRY(st, resolve_nccl_algo(o, e->nccl_algo, error), out);
	BB_TRY(st, bb_split_parse(&o->split, e->split, e->split_mask, error), out);
	BB_TRY(st, resolve_number("NCCL_TESTS_MIN_BW", e->min_bw, 0, 1e9, &o->min_bw, error), out);
	o->spread = 1;
	st = resolve_number("NCCL_TESTS_ALLTOALLV_SPREAD", e->spread, 0, 1, &o->spread, error);
out:
	return st;
}

bb_status bb_options_read(struct bb_options *o, const struct bb_collective *collective, int argc,
			  char **argv, const struct bb_environment *environment,
			  struct bb_error *error)
{
	bb_status st;

	memset(o, 0, sizeof(*o));
	o->program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	BB_TRY(st,
	       bb_options_parse((const struct bb_option_table[]){{bb_option_rows, o}, {NULL, NULL}},
				argc, argv, error),
	       out);
	if (o->help || o->help_markdown || o->version || o->list)
		goto out;
	if (o->step_bytes_given && !o->step_factor_given)
		o->step_factor = 1;
	BB_TRY(st, resolve_backend(o, &environment->launch, error), out);
	BB_TRY(st, resolve_dtypes(o, error), out);
	BB_TRY(st, resolve_ops(o, error), out);
	BB_TRY(st, resolve_root(o, error), out);
	BB_TRY(st, resolve_algorithms(o, collective, error), out);
	BB_TRY(st, resolve_fault(o, error), out);
	BB_TRY(st, resolve_link(o, error), out);
	BB_TRY(st, resolve_environment(o, collective, environment, error), out);
	BB_TRY(st, bb_options_check(o, collective, &environment->launch, error), out);
	st = resolve_launch(o, &environment->launch, error);
out:
	return st;
}

uint64_t bb_options_next_size(const struct bb_options *o, uint64_t bytes)
{
	uint64_t factor = (uint64_t)o->step_factor;

	if (factor > 1)
		return bytes > o->max_bytes / factor ? 0 : bytes * factor;
	if (o->step_bytes == 0 || bytes >= o->max_bytes || o->max_bytes - bytes < o->step_bytes)
		return 0;
	return bytes + o->step_bytes;
}

bool bb_options_stdout_taken(const struct bb_options *o)
{
	return (o->csv_file && strcmp(o->csv_file, "-") == 0) ||
	       (o->json_file && strcmp(o->json_file, "-") == 0);
}

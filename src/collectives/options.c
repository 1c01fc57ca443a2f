/*
 * options.c - checks the options of collectives: datatypes, operations, root, algorithms
 * and environment, and their conflicts.
 */

#include "collectives/collective.h"

#include "backends/library.h"
#include "backends/virtual.h"
#include "collectives/plan.h"
#include "collectives/summary.h"
#include "core/file.h"
#include "core/output.h"
#include "core/units.h"
#include "schedules/checker.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MATRIX_VARIABLE "NCCL_TESTS_ALLTOALLV_MATRIX_FILE"

const char *const bb_cache_names[] = {"rotate", "reuse", "rewrite", NULL};

static const char *dtype_name(int index)
{
	return index < BB_NDTYPES ? bb_dtype_name((enum bb_dtype)index) : NULL;
}

/* Those of the schedules; a library may have others. */
static const char *algorithm_name(int index)
{
	for (int i = 0; bb_algorithms[i]; i++)
		if (index == i + 1)
			return bb_algorithms[i]->name;
	return index == 0 ? "auto" : NULL;
}

static const char *op_name(int index)
{
	return index < BB_NOPS ? bb_op_name((enum bb_op)index) : NULL;
}

#define BB_OPTIONS struct bb_collective_options
const struct bb_option bb_collective_rows[] = BB_OPTION_ROWS(BB_COLLECTIVE_OPTIONS);

/* ---- a split world ------------------------------------------------------------------------- */

/* Reads TEXT as an int without a sign; spaces may surround it, anything else is an error. */
static bool split_number(const char *text, int base, int *value)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	if (base == 0 && strncasecmp(text, "0b", 2) == 0) {
		text += 2;
		base = 2;
	} else if (base == 0 && strncasecmp(text, "0x", 2) != 0) {
		base = 10;
	}
	if (!isalnum((unsigned char)*text))
		return false;
	errno = 0;
	const unsigned long v = strtoul(text, &end, base);
	if (end == text || errno || v > INT_MAX)
		return false;
	while (isspace((unsigned char)*end))
		end++;
	if (*end)
		return false;
	*value = (int)v;
	return true;
}

bb_status bb_split_parse(struct bb_split_rule *rule, const char *split, const char *mask,
			 struct bb_error *error)
{
	static const char signs[] = "&|%/";
	static const char *const words[] = {"AND", "OR", "MOD", "DIV"};
	int read = 0;

	*rule = (struct bb_split_rule){.sign = '\0'};
	if (mask && *mask) {
		rule->sign = '&';
		if (split_number(mask, 16, &rule->operand))
			return BB_OK;
		return bb_fail(error, BB_EUSAGE,
			       "NCCL_TESTS_SPLIT_MASK=\"%s\" is not a hexadecimal number such as "
			       "0x7",
			       mask);
	}
	if (!split || !*split)
		return BB_OK;
	while (isspace((unsigned char)*split))
		split++;
	const char *const whole = split;
	if (*split == '+') {
		if (sscanf(split, "+%9d%%%9d%n", &rule->shift, &rule->nranks, &read) != 2 ||
		    read == 0 || rule->shift < 0 || rule->nranks < 1)
			return bb_fail(error, BB_EUSAGE,
				       "NCCL_TESTS_SPLIT=\"%s\": a shift is as in +8%%32: by 8 of "
				       "32 ranks",
				       whole);
		split += read + (int)strspn(split + read, " ");
	}
	for (int i = 0; signs[i]; i++) {
		const size_t length = *split == signs[i] ? 1 : strlen(words[i]);

		if (*split != signs[i] && strncasecmp(split, words[i], length) != 0)
			continue;
		rule->sign = signs[i];
		if (!split_number(split + length, 0, &rule->operand))
			break;
		if (rule->operand == 0 && (rule->sign == '%' || rule->sign == '/'))
			return bb_fail(error, BB_EUSAGE,
				       "NCCL_TESTS_SPLIT=\"%s\": a division by zero; give a number "
				       "of at least 1",
				       whole);
		return BB_OK;
	}
	return bb_fail(error, BB_EUSAGE,
		       "NCCL_TESTS_SPLIT=\"%s\" is not understood; give AND, OR, MOD or DIV "
		       "(or & | %% /) and a number: \"MOD 2\", \"AND 0x7\"",
		       whole);
}

int bb_split_color(const struct bb_split_rule *rule, int rank)
{
	if (rule->nranks > 0)
		rank = (rank + rule->shift) % rule->nranks;
	return rule->sign == '&'   ? rank & rule->operand
	       : rule->sign == '|' ? rank | rule->operand
	       : rule->sign == '%' ? rank % rule->operand
	       : rule->sign == '/' ? rank / rule->operand
				   : 0;
}

/* ---- the checks ---------------------------------------------------------------------------- */

static bool is_set(const char *text)
{
	return text && *text;
}

/* With --proto, each algorithm with each protocol: "ring:LL,ring:LL128". */
static bb_status resolve_protocols(struct bb_collective_options *a, struct bb_error *error)
{
	static const char *const names[] = {"LL", "LL128", "Simple", NULL};
	const char *rest = a->algorithms;
	char algorithm[BB_WORD], word[BB_WORD], hint[BB_SUGGESTION];
	size_t used = 0;

	if (!a->proto_text)
		return BB_OK;
	do {
		const char *list = a->proto_text;

		if (!bb_next_word(&rest, algorithm) || strchr(algorithm, ':') ||
		    strcmp(algorithm, "all") == 0)
			return bb_fail(
				error, BB_EUSAGE,
				"--algo %s: under --proto give plain names (ring, tree, auto)",
				a->algorithms);
		do {
			const bool whole = bb_next_word(&list, word);
			const char *const *name = names;

			while (*name && strcasecmp(*name, word) != 0)
				name++;
			if (!whole || !*name)
				return bb_fail(error, BB_EUSAGE,
					       "--proto: \"%s\" is not a protocol%s", word,
					       bb_suggest(hint, word, names));
			used += (size_t)snprintf(a->algorithms_text + used,
						 BB_ALGORITHMS_TEXT - used, "%s%s:%s",
						 used ? "," : "", algorithm, *name);
			if (used >= BB_ALGORITHMS_TEXT)
				return bb_fail(error, BB_EUSAGE,
					       "--proto %s: too many algorithms and protocols",
					       a->proto_text);
		} while (*list++ == ',');
	} while (*rest++ == ',');
	a->algorithms = a->algorithms_text;
	return BB_OK;
}

/* *VALUE = TEXT, the value of variable NAME, from LOW to HIGH; unchanged if it is not set. */
static bb_status resolve_number(const char *name, const char *text, double low, double high,
				double *value, struct bb_error *error)
{
	char *end;

	if (!is_set(text))
		return BB_OK;
	const double v = strtod(text, &end);
	if (end == text || *end || !(v >= low && v <= high))
		return bb_fail(error, BB_EUSAGE, "%s=\"%s\" is not a number from %g to %g", name,
			       text, low, high);
	*value = v;
	return BB_OK;
}

#define MATRIX_BYTES ((size_t)64 << 20) /* of a file: 2500 ranks with numbers of ten digits */

bb_status bb_collective_check_matrices(const struct bb_collective_options *a, int first,
				       int group_max, uint64_t most, const char *limit,
				       struct bb_error *error)
{
	const struct bb_matrices *m = &a->matrices;
	char size[BB_UNIT_TEXT], room[BB_UNIT_TEXT];

	if (m->n > 0 && (size_t)group_max > m->nranks)
		return bb_fail(
			error, BB_EUSAGE,
			"--matrix %.200s: it is for %zu rank%s, and there are %d; give fewer ranks "
			"or a larger matrix",
			a->matrix_file, m->nranks, bb_plural((long long)m->nranks), group_max);
	for (size_t k = 0; k < m->n; k++) {
		const uint64_t bytes = bb_matrices_busiest(m, k, first);

		if (bytes > most)
			return bb_fail(error, BB_EUSAGE,
				       "a rank of matrix \"%s\" moves %s, more than the %s of %s; "
				       "--matrix-scale makes all matrices smaller",
				       m->names[k], bb_format_size(size, bytes),
				       bb_format_size(room, most), limit);
	}
	return BB_OK;
}

/* --matrix, or nccl-tests' variables in its place. */
static bb_status resolve_matrices(struct bb_collective_options *a, const struct bb_options *o,
				  const struct bb_collective *collective,
				  const struct bb_environment *e, struct bb_error *error)
{
	struct bb_file_request request = {.option = "--matrix", .most = MATRIX_BYTES};
	struct bb_strbuf origin = {0};
	char *text = NULL;
	size_t length;
	bb_status st = BB_OK;

	if (!(collective->flags & BB_VARIABLE))
		return BB_OK;
	if (is_set(e->print_summary) && strcmp(e->print_summary, "0") != 0)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=\"%s\" is not supported; unset "
			       "it (rank_mean_us of --json has the time of each rank)",
			       e->print_summary);
	if (!a->matrix_scale_given)
		BB_TRY(st,
		       resolve_number("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", e->matrix_scale, 0,
				      (double)BB_MOST_COUNT, &a->matrix_scale, error),
		       out);
	if (!a->matrix_file && is_set(e->matrix_file)) {
		a->matrix_file = e->matrix_file;
		request.option = MATRIX_VARIABLE;
	}
	if (!a->matrix_file && a->matrix_scale_given)
		return bb_fail(error, BB_EUSAGE, "--matrix-scale: there is no --matrix to scale");
	if (a->matrix_file && o->min_bytes != o->max_bytes)
		return bb_fail(error, BB_EUSAGE,
			       "%s: the matrices have their own sizes; leave out -b and -e, or "
			       "give both the same value as room for the largest",
			       request.option);
	if (!a->matrix_file)
		return BB_OK;
	request.path = a->matrix_file;
	bb_strbuf_addf(&origin, "%s %.200s", request.option, a->matrix_file);
	st = bb_file_read(&request, &text, &length, error);
	if (st == BB_OK)
		st = bb_matrices_parse(&a->matrices, bb_strbuf_text(&origin), a->matrix_file, text,
				       length, a->matrix_scale, error);
	bb_strbuf_free(&origin);
	free(text);
out:
	return st;
}

/* Appends the names of the datatypes or operations in SET, separated by commas. */
static void add_names(struct bb_strbuf *out, unsigned set, const char *(*name)(int index))
{
	for (int i = 0; set >> i; i++)
		if (set >> i & 1)
			bb_strbuf_addf(out, "%s%s", out->length > 0 ? "," : "", name(i));
}

/* Refuses a request in which no operation accepts any of the datatypes; the plan sorts out others.
 */
static bb_status check_op(const struct bb_collective_options *a,
			  const struct bb_collective *collective, struct bb_error *error)
{
	struct bb_strbuf dtypes = {0}, ops = {0};

	if (!(collective->flags & BB_REDUCES))
		return BB_OK;
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		for (int op = 0; op < BB_NOPS; op++) {
			if ((a->dtypes >> dtype & 1) && (a->ops >> op & 1) &&
			    bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				return BB_OK;
		}
	}
	add_names(&dtypes, a->dtypes, dtype_name);
	add_names(&ops, a->ops, op_name);
	bb_fail(error, BB_EUSAGE,
		"-o %s does not take -d %s: logical and bitwise operations take integers, maxloc "
		"and minloc take %s, all others any number",
		bb_strbuf_text(&ops), bb_strbuf_text(&dtypes), bb_dtype_name(BB_FLOAT_INT));
	bb_strbuf_free(&dtypes);
	bb_strbuf_free(&ops);
	return BB_EUSAGE;
}

/* --explain shows one root, sums, and as many elements as can be read, for the ranks that a run
   with the same options would have. */
static bb_status check_explain(struct bb_collective_options *a, const struct bb_options *o,
			       const struct bb_collective *collective,
			       const struct bb_launch_hint *launch, struct bb_error *error)
{
	const unsigned others = a->ops & ~(1u << BB_SUM);
	const int64_t local = o->threads * o->gpus;
	const int nprocs = launch->nprocs > 1 ? launch->nprocs : 1;
	const uint64_t least = (collective->flags & BB_ROUNDED ? (uint64_t)(local * nprocs) : 1) *
			       bb_dtype_size(BB_FLOAT);
	char size[BB_UNIT_TEXT];

	if (local * nprocs > BB_CHECKER_RANKS)
		return bb_fail(error, BB_EUSAGE,
			       "--explain shows at most %d ranks, and this would be %lld in each "
			       "of %d process%s; give fewer",
			       BB_CHECKER_RANKS, (long long)local, nprocs, nprocs > 1 ? "es" : "");
	a->explained_ranks = (int)(local * nprocs);
	if ((collective->flags & BB_REDUCES) && others)
		return bb_fail(error, BB_EUSAGE, "-o %s: --explain shows sums; leave -o out",
			       bb_op_name((enum bb_op)__builtin_ctz(others)));
	if ((collective->flags & BB_ROOTED) && a->root == BB_ROOT_ALL)
		return bb_fail(error, BB_EUSAGE, "-r all: --explain shows one root; name it");
	if (o->min_bytes_given && (o->min_bytes < least || o->min_bytes > BB_EXPLAIN_BYTES))
		return bb_fail(error, BB_EUSAGE,
			       "-b %s: --explain shows every element, 4 bytes each; give from "
			       "%llu to %d bytes, or leave -b out for the fewest",
			       bb_format_size(size, o->min_bytes), (unsigned long long)least,
			       BB_EXPLAIN_BYTES);
	if (collective->flags & BB_ROOTED)
		return bb_check_rank("-r", NULL, a->root, a->explained_ranks, "among", error);
	return bb_collective_check_matrices(a, a->explained_ranks, a->explained_ranks,
					    BB_EXPLAIN_BYTES, "--explain", error);
}

/* --accuracy sums floating-point numbers of one group; by default of all types of at most 32 bits,
   by the classic schedules and by the backend's choice. */
static bb_status check_accuracy(struct bb_collective_options *a, struct bb_options *o,
				const struct bb_collective *collective,
				const struct bb_environment *e, struct bb_error *error)
{
	const unsigned floats = 1u << BB_HALF | 1u << BB_FLOAT | 1u << BB_BFLOAT16 |
				1u << BB_F8E4M3 | 1u << BB_F8E5M2;
	const unsigned others = a->dtypes & ~(floats | 1u << BB_DOUBLE);

	if (others)
		return bb_fail(error, BB_EUSAGE,
			       "-d %s: --accuracy is that of rounding; give floating-point types",
			       dtype_name(__builtin_ctz(others)));
	if (a->ops & ~(1u << BB_SUM))
		return bb_fail(error, BB_EUSAGE, "-o %s: --accuracy is that of sums; leave -o out",
			       op_name(__builtin_ctz(a->ops & ~(1u << BB_SUM))));
	if (a->split.sign)
		return bb_fail(error, BB_EUSAGE,
			       "NCCL_TESTS_SPLIT%s: --accuracy examines one group; unset it",
			       e->split ? "" : "_MASK");
	a->dtypes = a->dtypes_given ? a->dtypes : floats;
	a->algorithms = a->algo_text_given ? a->algorithms : BB_OWN "ring," BB_OWN "tree,auto";
	/* Enough elements for 1024 ranks, and few enough for one core. */
	if (!o->min_bytes_given)
		o->min_bytes = collective->flags & BB_ROUNDED ? 32 << 10 : 4 << 10;
	o->max_bytes = o->max_bytes_given ? o->max_bytes : o->min_bytes;
	return BB_OK;
}

bb_status bb_collective_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			      const struct bb_environment *e, struct bb_error *error)
{
	const struct bb_collective *collective = benchmark->subject;
	struct bb_collective_options *a = own;
	struct bb_output more[BB_MORE_OUTPUTS] = {{.option = "-J"}, {.option = "--tuner-conf"}};
	bb_status st;

	BB_TRY(st, bb_algorithms_check(a->algo_text, o, collective, error), out);
	a->algorithms = a->algo_text;
	/* NCCL_ALGO, where no library reads it itself. */
	if (!a->algo_text_given && is_set(e->nccl_algo) && !o->backend->gpu)
		a->algorithms = strcasecmp(e->nccl_algo, "ring") == 0   ? "ring"
				: strcasecmp(e->nccl_algo, "tree") == 0 ? "tree"
									: NULL;
	if (!a->algorithms)
		return bb_fail(error, BB_EUSAGE,
			       "NCCL_ALGO=\"%s\": the %s backend understands Ring and Tree; unset "
			       "it, or choose with --algo (see --list)",
			       e->nccl_algo, o->backend->name);
	BB_TRY(st, bb_split_parse(&a->split, e->split, e->split_mask, error), out);
	BB_TRY(st, resolve_number("NCCL_TESTS_MIN_BW", e->min_bw, 0, 1e9, &a->min_bw, error), out);
	a->spread = 1;
	BB_TRY(st,
	       resolve_number("NCCL_TESTS_ALLTOALLV_SPREAD", e->spread, 0, 1, &a->spread, error),
	       out);
	if (a->accuracy)
		BB_TRY(st, check_accuracy(a, o, collective, e, error), out);
	BB_TRY(st, resolve_protocols(a, error), out);
	BB_TRY(st, resolve_matrices(a, o, collective, e, error), out);
	if (a->explain) {
		BB_TRY(st, check_explain(a, o, collective, &e->launch, error), out);
		st = bb_check_outputs(o, NULL, e->launch.proc == 0, error);
		goto out;
	}
	if (a->per_iter_skip >= o->iters)
		return bb_fail(error, BB_EUSAGE,
			       "-K %lld leaves none of -n %lld iterations; give less than -n",
			       (long long)a->per_iter_skip, (long long)o->iters);
	BB_TRY(st, check_op(a, collective, error), out);
	if (a->tuner_conf && !bb_compare_is_tunable(collective->name))
		return bb_fail(error, BB_EUNSUPPORTED,
			       "--tuner-conf: NCCL has no algorithms to choose from for %s",
			       collective->name);
	const char *const dot = a->output_file ? strrchr(a->output_file, '.') : NULL;
	if (a->output_file && (!dot || strcasecmp(dot, ".json") != 0))
		return bb_fail(error, BB_EUSAGE,
			       "-J %s: the file name must end in .json (for other formats see "
			       "--csv and --json)",
			       a->output_file);
	more[0].path = a->output_file;
	more[1].path = a->tuner_conf;
	more[0].folder = more[1].folder = o->output_folder;
	BB_TRY(st, bb_check_outputs(o, more, e->launch.proc == 0, error), out);
	if (a->device_implementation > 0) {
		snprintf(a->algorithms_text, sizeof(a->algorithms_text), "device:%lld",
			 (long long)a->device_implementation);
		a->algorithms = a->algorithms_text;
	}
	/* Values of the enum are those of the option. */
	o->config.peers = collective == &bb_sendrecv ? 2 : 0;
	o->config.registration = (enum bb_registration)a->local_register;
	o->config.cta_policy = (int)a->cta_policy;
	o->config.device_blocks = (int)a->device_cta_count;
	o->config.default_stream = a->stream_null != 0;
out:
	return st;
}

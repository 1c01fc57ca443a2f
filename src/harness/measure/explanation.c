#include "harness/measure/explanation.h"

#include "harness/measure/plan.h"
#include "harness/run/options_check.h"
#include "schedules/explain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON 160

struct explanation {
	struct bb_strbuf *out;
	const struct bb_options *options;
	const struct bb_collective_options *settings;
	const struct bb_collective *collective;
	const struct bb_native *natives;
	struct bb_shape shape;
	struct bb_error *error;
	int explained;
	char reason[REASON + 40]; /* why the first one was not explained */
};

static void separate(const struct explanation *l)
{
	if (l->out->length > 0)
		bb_strbuf_add(l->out, "\n");
}

static void decline(struct explanation *l, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void decline(struct explanation *l, const char *name, const char *format, ...)
{
	char why[REASON];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	separate(l);
	bb_strbuf_addf(l->out, "%s: %s\n", name, why);
	if (!*l->reason)
		snprintf(l->reason, sizeof(l->reason), "%.31s: %s", name, why);
}

static bb_status explain(struct explanation *l, const struct bb_algorithm *algorithm)
{
	const char *reason = algorithm->refuses && !(l->collective->flags & BB_VARIABLE)
				     ? algorithm->refuses(&l->shape)
				     : NULL;

	if (reason) {
		decline(l, algorithm->name, "not for this request: %s", reason);
		return BB_OK;
	}
	separate(l);
	l->explained++;
	return bb_explain(l->out, algorithm, &l->shape, l->error);
}

static bb_status explain_named(struct explanation *l, const char *name)
{
	const struct bb_algorithm *algorithm = bb_algorithm_find(l->collective, name);

	if (algorithm)
		return explain(l, algorithm);
	if (strcmp(name, "auto") == 0)
		decline(l, name, "no algorithm of its own, but the %s backend's choice at run time",
			l->options->backend->name);
	else if (bb_native_find(l->natives, name))
		decline(l, name, "has no schedule to explain: it is the %s backend's own",
			l->options->backend->name);
	else
		decline(l, name, "not an algorithm of %s, see --list", l->collective->name);
	return BB_OK;
}

/* The choice of auto is known only at run time; a classic algorithm is shown instead. */
static bb_status explain_default(struct explanation *l)
{
	const char *name = strcmp(l->collective->name, "hypercube") == 0 ? "hypercube" : "ring";

	bb_strbuf_addf(l->out,
		       "auto is the backend's choice at run time; this is %s (others: --algo "
		       "NAME).\n",
		       name);
	return explain_named(l, name);
}

static bb_status explain_all(struct explanation *l)
{
	bb_status st = BB_OK;

	for (int i = 0; bb_algorithms[i] && st == BB_OK; i++) {
		if (bb_algorithms[i]->collective == l->collective)
			st = explain(l, bb_algorithms[i]);
	}
	return st;
}

static bb_status explain_list(struct explanation *l)
{
	const char *rest = l->settings->algorithms;
	char name[BB_WORD];
	bb_status st = BB_OK;

	while (st == BB_OK && bb_next_word(&rest, name)) {
		st = explain_named(l, name);
		rest += *rest == ',';
	}
	return st;
}

static size_t explained_count(const struct bb_options *o, const struct bb_collective *collective,
			      int n)
{
	const size_t ranks = collective->flags & BB_ROUNDED ? (size_t)n : 1;
	size_t count = (size_t)n / ranks;

	if (o->min_bytes_given)
		count = o->min_bytes / bb_dtype_size(BB_FLOAT) / ranks;
	/* One element could not be shared out unevenly. */
	return collective->flags & BB_VARIABLE && count < 2 ? 2 : count;
}

static bb_status explain_requested(struct explanation *l)
{
	if (strcmp(l->settings->algorithms, "auto") == 0)
		return explain_default(l);
	if (strcmp(l->settings->algorithms, "all") == 0)
		return explain_all(l);
	return explain_list(l);
}

/* The algorithms with each matrix of --matrix, or with the one that is generated. */
static bb_status explain_variable(struct explanation *l)
{
	const struct bb_matrices *m = &l->settings->matrices;
	const size_t ranks = (size_t)l->shape.nranks;
	size_t *matrix = calloc(ranks * ranks, sizeof(*matrix));
	bb_status st = BB_OK;

	if (!matrix)
		return bb_no_memory(l->error, "the explanation");
	l->shape.matrix = matrix;
	if (m->n == 0) {
		bb_alltoallv_matrix(matrix, l->shape.nranks, l->shape.count, l->settings->spread);
		st = explain_requested(l);
	}
	for (size_t k = 0; k < m->n && st == BB_OK; k++) {
		l->shape.count = 0;
		bb_matrices_counts(m, k, l->shape.nranks, bb_dtype_size(BB_FLOAT), matrix);
		separate(l);
		bb_strbuf_add(l->out, "Matrix ");
		bb_matrices_describe(m, k, l->shape.nranks, l->out);
		bb_strbuf_add(l->out, "\n");
		st = explain_requested(l);
	}
	free(matrix);
	return st;
}

bb_status bb_explanation_add(struct bb_strbuf *out, const struct bb_options *options,
			     const struct bb_collective_options *settings,
			     const struct bb_collective *collective,
			     const struct bb_native *natives, struct bb_error *error)
{
	const int n = settings->explained_ranks;
	struct explanation l = {.out = out,
				.options = options,
				.settings = settings,
				.collective = collective,
				.natives = natives,
				.error = error};
	bb_status st;

	l.shape = (struct bb_shape){.nranks = n, .count = explained_count(options, collective, n)};
	if (collective->flags & BB_ROOTED)
		l.shape.root = settings->root;
	st = collective->flags & BB_VARIABLE ? explain_variable(&l) : explain_requested(&l);
	if (st == BB_OK && l.explained == 0)
		st = bb_fail(error, BB_EUNSUPPORTED, "%s", l.reason);
	return st;
}

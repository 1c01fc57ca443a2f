/*
 * plan.c - expands a request into cases: algorithms first, then datatypes, ops, roots and sizes.
 */
#include "collectives/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_skip(struct bb_plan *plan, const char *algorithm, const char *reason)
{
	for (int i = 0; i < plan->nskips; i++)
		if (strcmp(plan->skips[i].algorithm, algorithm) == 0)
			return;
	plan->skips[plan->nskips++] =
		(struct bb_plan_skip){.algorithm = algorithm, .reason = reason};
}

static void add_choice(struct bb_plan *plan, struct bb_choice choice)
{
	for (int i = 0; i < plan->nchoices; i++)
		if (strcmp(plan->choices[i].name, choice.name) == 0)
			return;
	plan->choices[plan->nchoices++] = choice;
}

/* Adds the algorithm GIVEN as a choice, or as a skip with the reason: WHY_NOT, unless that is NULL,
   if the collective has no algorithm of that name. */
static void add_algorithm(struct bb_plan *plan, const char *given, const char *why_not)
{
	struct bb_choice choice;
	const char *other = "unknown",
		   *reason = bb_choice_find(&choice, plan->natives, plan->collective, plan->nranks,
					    given);

	if (choice.schedule)
		choice.name = bb_schedule_name(choice.schedule, plan->natives);
	/* The skip's name lasts: that of another collective's algorithm, as the options checked. */
	for (int i = 0; !choice.name && bb_algorithms[i]; i++)
		if (strcmp(bb_algorithms[i]->name, bb_algorithm_own(given)) == 0)
			other = bb_algorithms[i]->name;
	if (!choice.name)
		add_skip(plan, other, why_not ? why_not : reason);
	else if (reason)
		add_skip(plan, choice.name, reason);
	else
		add_choice(plan, choice);
}

/* `all` has neither what the library discovered for other collectives, nor variants such as
   "ring:LL", which the backend lists itself. */
static bb_status choose_algorithms(struct bb_plan *plan, struct bb_error *error)
{
	const struct bb_collective_options *a = plan->settings;
	/* The name may also come from the environment. */
	const char *why_not = a->algorithms == a->algo_text
				      ? NULL
				      : "not an algorithm of this collective (NCCL_ALGO)";
	const bool all = strcmp(a->algorithms, "all") == 0;
	char name[BB_WORD];

	for (int i = 0; all && bb_algorithms[i]; i++)
		if (bb_algorithms[i]->collective == plan->collective &&
		    !bb_native_find(plan->natives, bb_algorithms[i]->name))
			add_algorithm(plan, bb_algorithms[i]->name, NULL);
	for (const struct bb_native *n = all ? plan->natives : NULL; n && n->name; n++)
		if (!strchr(n->name, ':') || (!bb_native_find(plan->backend->natives, n->name) &&
					      !(n->refuses && n->refuses(n, plan->collective))))
			add_algorithm(plan, n->name, NULL);
	if (all)
		add_choice(plan, (struct bb_choice){.name = "auto"});
	for (const char *rest = all ? "" : a->algorithms; bb_next_word(&rest, name);
	     rest += *rest == ',') {
		if (strchr(bb_algorithm_own(name), ':') && !bb_native_find(plan->natives, name))
			return bb_algorithms_unknown(plan->backend, plan->natives, plan->collective,
						     bb_algorithm_own(name), error);
		add_algorithm(plan, name, why_not);
	}
	return BB_OK;
}

/* ---- cases ------------------------------------------------------------------------- */

/* True if the datatype and the op, BB_NO_OP for any that is not reduced, are requested and go
   together. */
static bool has_pair(const struct bb_plan *plan, int dtype, int op)
{
	const struct bb_collective_options *a = plan->settings;

	return (a->dtypes >> dtype & 1) &&
	       (op == BB_NO_OP ||
		((a->ops >> op & 1) && bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype)));
}

/* Adds a skip for each pair that excludes itself and whose two parts were named; pairs that `all`
   made are dropped silently. */
static void skip_pairs(struct bb_plan *plan)
{
	const struct bb_collective_options *a = plan->settings;

	if (!(plan->collective->flags & BB_REDUCES) || a->dtypes == (1u << BB_NDTYPES) - 1 ||
	    a->ops == (1u << BB_NOPS) - 1)
		return;
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++)
		for (int op = 0; op < BB_NOPS; op++) {
			struct bb_plan_skip *skip = &plan->skips[plan->nskips];

			if (!(a->dtypes >> dtype & 1) || !(a->ops >> op & 1) ||
			    has_pair(plan, dtype, op))
				continue;
			plan->nskips++;
			skip->algorithm = a->algorithms;
			skip->reason = skip->text;
			snprintf(skip->text, sizeof(skip->text), "-o %s does not take -d %s",
				 bb_op_name((enum bb_op)op), bb_dtype_name((enum bb_dtype)dtype));
		}
}

/* Returns the bytes of one set of buffers for all ranks of this process. */
static double buffer_bytes(const struct bb_plan *plan, const struct bb_case *c,
			   const struct bb_shape *shape)
{
	const struct bb_collective *collective = plan->collective;
	const struct bb_algorithm *schedule =
		c->choice->schedule ? c->choice->schedule : c->choice->stand_in;
	double most = 0, sum = 0, unalign = 2 * (double)plan->settings->unalign;
	const int groups = (plan->nlocal + plan->nranks - 1) / plan->nranks;

	for (int rank = 0; rank < plan->nranks; rank++) {
		double here = unalign + (double)bb_collective_in(collective, shape, rank) +
			      (double)bb_collective_out(collective, shape, rank);

		if (schedule)
			here += (double)bb_algorithm_tmp_count(schedule, shape, rank);
		sum += here;
		most = here > most ? here : most;
	}
	sum = plan->nlocal < plan->nranks ? most * plan->nlocal : sum * groups;
	return sum * (double)bb_dtype_size(c->dtype);
}

/* Adds a case like MODEL for each size or matrix, with its counts, and its skip if it cannot be
   run. MATRIX is scratch. */
static bb_status add_sizes(struct bb_plan *plan, const struct bb_case *model, size_t *matrix)
{
	const int nmatrices = (int)plan->settings->matrices.n;
	const size_t element = bb_dtype_size(model->dtype);
	uint64_t size = plan->options->min_bytes;

	for (int i = 0; plan->ncases <= BB_PLAN_MAX_CASES && (nmatrices ? i < nmatrices : size > 0);
	     i++, size = bb_options_next_size(plan->options, size)) {
		struct bb_case *c = plan->cases ? &plan->cases[plan->ncases] : NULL;
		char text[96];

		plan->ncases++;
		if (!c)
			continue;
		*c = *model;
		c->matrix = nmatrices ? i : BB_NO_MATRIX;
		if (!nmatrices)
			c->count = bb_count_for_size(plan->collective, size, element, plan->nranks);
		struct bb_shape shape = bb_plan_shape(plan, c, plan->nranks, false, matrix);
		c->size_bytes = (uint64_t)bb_size_count(plan->collective, &shape) * element;
		const double need = buffer_bytes(plan, c, &shape);
		c->memory = need < 0x1p63 ? (uint64_t)need : UINT64_MAX;
		if (c->memory <= plan->memory) {
			plan->runnable++;
			continue;
		}
		snprintf(text, sizeof(text),
			 "needs %.2f GiB for its buffers, %.2f GiB are available", need / 0x1p30,
			 (double)plan->memory / 0x1p30);
		c->skip = strdup(text);
		if (!c->skip)
			return BB_EINTERNAL;
	}
	return BB_OK;
}

/* Adds all cases; as long as there is no room for them, only counts them, up to one too many. */
static bb_status add_cases(struct bb_plan *plan, size_t *matrix)
{
	const unsigned flags = plan->collective->flags;
	const int nops = flags & BB_REDUCES ? BB_NOPS : 1;
	const int root = flags & BB_ROOTED ? plan->settings->root : BB_NO_ROOT;
	const bool all_roots = flags & BB_ROOTED && root == BB_ROOT_ALL;
	struct bb_case model = {.count = 0};
	bb_status st = BB_OK;

	plan->ncases = 0;
	for (int i = 0; i < plan->nchoices * BB_NDTYPES * nops; i++) {
		model.choice = &plan->choices[i / nops / BB_NDTYPES];
		model.dtype = (enum bb_dtype)(i / nops % BB_NDTYPES);
		model.op = flags & BB_REDUCES ? i % nops : BB_NO_OP;
		model.root = all_roots ? 0 : root;
		if (!has_pair(plan, (int)model.dtype, model.op))
			continue;
		do
			BB_TRY(st, add_sizes(plan, &model, matrix), out);
		while (all_roots && ++model.root < plan->nroots);
	}
out:
	return st;
}

bb_status bb_plan_make(struct bb_plan *plan, struct bb_error *error)
{
	const struct bb_collective *collective = plan->collective;
	const char *reason = collective->refuses ? collective->refuses(plan->nranks) : NULL;
	const size_t n = (size_t)plan->nranks;
	const struct bb_native *native;
	size_t *matrix = NULL; /* scratch of alltoallv */
	size_t room = 2;
	bb_status st;

	/* Room for the different names that a request can have, auto and the list among them. */
	for (int i = 0; bb_algorithms[i]; i++)
		room++;
	for (native = plan->natives; native && native->name; native++)
		room++;
	plan->choices = calloc(room, sizeof(*plan->choices));
	plan->skips = calloc(room + BB_NDTYPES * BB_NOPS, sizeof(*plan->skips));
	if (!plan->choices || !plan->skips)
		goto memory;
	if (reason) {
		add_skip(plan, plan->settings->algorithms, reason);
		return bb_fail(error, BB_EUNSUPPORTED, "%s on %d ranks: %s", collective->name,
			       plan->nranks, reason);
	}
	BB_TRY(st, choose_algorithms(plan, error), out);
	skip_pairs(plan);
	BB_TRY(st, add_cases(plan, NULL), out);
	if (plan->ncases > BB_PLAN_MAX_CASES) {
		plan->ncases = 0;
		return bb_fail(error, BB_EUSAGE,
			       "this makes more than %d rows; give a larger step (-i or -f), or "
			       "fewer datatypes, operations, roots or algorithms",
			       BB_PLAN_MAX_CASES);
	}
	plan->cases = calloc(plan->ncases ? plan->ncases : 1, sizeof(*plan->cases));
	if (collective->flags & BB_VARIABLE)
		matrix = calloc(n * n, sizeof(*matrix));
	if (!plan->cases || (collective->flags & BB_VARIABLE && !matrix)) {
		plan->ncases = 0;
		goto memory;
	}
	BB_TRY(st, add_cases(plan, matrix), memory);
	if (plan->runnable == 0 && plan->ncases > 0)
		st = bb_fail(error, BB_EUNSUPPORTED, "no size of %s can be run: %s",
			     collective->name, plan->cases[0].skip);
	else if (plan->runnable == 0 && plan->nskips > 0)
		st = bb_fail(error, BB_EUNSUPPORTED, "%s by %s is not possible on %s: %s",
			     collective->name, plan->skips[0].algorithm, plan->backend->name,
			     plan->skips[0].reason);
	else if (plan->runnable == 0)
		st = bb_fail(error, BB_EUNSUPPORTED,
			     "no requested datatype goes with a requested operation");
	goto out;
memory:
	st = bb_no_memory(error, "the plan");
out:
	free(matrix);
	return st;
}

void bb_plan_free(struct bb_plan *plan)
{
	for (size_t i = 0; i < plan->ncases; i++)
		free(plan->cases[i].skip);
	free(plan->cases);
	free(plan->choices);
	free(plan->skips);
	*plan = (struct bb_plan){.nranks = 0};
}

struct bb_shape bb_plan_shape(const struct bb_plan *plan, const struct bb_case *c, int nranks,
			      bool in_place, size_t *matrix)
{
	struct bb_shape shape = {
		.nranks = nranks,
		.root = c->root == BB_NO_ROOT ? 0 : c->root,
		.in_place = in_place,
		.count = c->count,
	};

	if (matrix && (plan->collective->flags & BB_VARIABLE)) {
		if (c->matrix == BB_NO_MATRIX)
			bb_alltoallv_matrix(matrix, nranks, c->count, plan->settings->spread);
		else
			bb_matrices_counts(&plan->settings->matrices, (size_t)c->matrix, nranks,
					   bb_dtype_size(c->dtype), matrix);
		shape.matrix = matrix;
	}
	return shape;
}

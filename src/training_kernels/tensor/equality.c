/*
 * equality.c - the comparison of split parts with unsplit ones, number by number.
 */
#include "training_kernels/tensor/tensor.h"
#include "training_kernels/tensor/part.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 32 /* the time grows with the cube of the ranks */
/*
 * Attention in blocks rescales its sums by exponentials as larger scores arrive, so it rounds
 * differently from attention at once. Sums of at most 8 MOST_RANKS numbers follow, each off by at
 * most a unit in its last place: this is the tolerance, relative to the largest number of a matrix.
 */
#define RING_ULPS 256

/* The findings of one rank in one module. */
struct found {
	uint64_t compared[2], wrong[2]; /* of outputs, of gradients */
	double off;
};

struct job {
	struct bb_engine *engine;
	struct bb_tensor_size size;
	struct bb_tensor_program program;
	struct bb_tensor_state mine, whole;
};

const char *bb_tensor_equality_refuses(const struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;

	if (!backend->has_data)
		return "the backend moves no data";
	if (backend->gpu)
		return "the CPU multiplies its matrices, and cannot access the memory of "
		       "GPUs";
	if (run->world.nranks > MOST_RANKS)
		return "its matrices are too large for more than 32 ranks";
	return NULL;
}

/* Sizes that every scheme can divide among T ranks: two tokens and two heads per rank. */
static struct bb_tensor_size small_size(size_t t)
{
	return (struct bb_tensor_size){.tokens = 2 * t,
				       .seq = 2 * t,
				       .hidden = 4 * t,
				       .queries = 4 * t,
				       .keys = 4 * t,
				       .heads = 2 * t,
				       .kv_heads = 2 * t,
				       .ffn = 8 * t,
				       .vocab = 4 * t,
				       .dtype = BB_DOUBLE,
				       .loss_dtype = BB_DOUBLE};
}

/* ---- the unsplit part ------------------------------------------------------------------------ */

/* A single rank does its computations in order and sends nothing. */
static bb_status make_whole(struct job *j, const struct bb_tensor_scheme *scheme)
{
	struct bb_tensor_form form = {
		.scheme = bb_tensor_schemes, .size = &j->size, .layers = 1, .real = true};
	struct bb_tensor_program program;
	bb_status status;

	while (form.scheme->of != scheme->of)
		form.scheme++;
	j->whole = (struct bb_tensor_state){
		.scheme = form.scheme, .size = &j->size, .t = 1, .grid = j->mine.grid};
	j->whole.memory = malloc(bb_tensor_state_numbers(&j->whole) * sizeof(double));
	if (!j->whole.memory)
		return bb_no_memory(&j->engine->run->error, "the unsplit part");
	bb_tensor_state_fill(&j->whole, j->whole.memory);
	status = bb_tensor_program_make(&program, &form, 1, &j->engine->run->error);
	for (size_t i = 0; status == BB_OK && i < program.tape.n; i++)
		if (program.tape.list[i].act == BB_ACT_COMPUTE)
			bb_tensor_compute(&j->whole, &program.tape.list[i]);
	bb_tensor_program_free(&program);
	return status;
}

/* ---- the split part -------------------------------------------------------------------------- */

static void equality_compute(void *own, int rank, const struct bb_operation *operation)
{
	bb_tensor_compute(&((struct job *)own)->mine, operation);
}

static void equality_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			     void **out)
{
	bb_tensor_buffers(&((struct job *)own)->mine, operation, in, out);
}

static bb_status run_split(struct job *j)
{
	struct bb_trial trial = {.workload = {.program = &j->program.program,
					      .compute = equality_compute,
					      .buffers = equality_buffers,
					      .own = j},
				 .timing = BB_TIMING_STEPS,
				 .steps = 1};
	bb_status status;

	snprintf(trial.what, sizeof(trial.what), "check of %s by %s", j->mine.scheme->part,
		 j->mine.scheme->name);
	status = bb_engine_add(j->engine, &trial, NULL);
	return status == BB_OK ? bb_engine_measure(j->engine) : status;
}

static bb_status open_mine(struct job *j, const struct bb_tensor_scheme *scheme)
{
	const struct bb_tensor_form form = {
		.scheme = scheme, .size = &j->size, .layers = 1, .real = true};
	void *memory;
	bb_status status = bb_tensor_program_make(&j->program, &form, j->engine->run->world.nranks,
						  &j->engine->run->error);

	if (status != BB_OK)
		return status;
	j->mine = (struct bb_tensor_state){.scheme = scheme,
					   .size = &j->size,
					   .rank = (size_t)j->engine->driver->rank,
					   .t = (size_t)j->engine->run->world.nranks,
					   .grid = scheme->mode != BB_TENSOR_RING};
	status = bb_engine_alloc(j->engine, bb_tensor_state_numbers(&j->mine) * sizeof(double),
				 &memory);
	if (status != BB_OK)
		return status;
	bb_tensor_state_fill(&j->mine, memory);
	return BB_OK;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static void equality_compare(const struct job *j, int slot, int kind, struct found *found)
{
	const struct bb_tensor_place all = bb_tensor_place_of(&j->whole, slot);
	const struct bb_tensor_place p = bb_tensor_place_of(&j->mine, slot);
	const double *mine = j->mine.slots[slot], *whole = j->whole.slots[slot];
	const double tolerance = j->mine.grid ? 0 : RING_ULPS;
	double most = 0;

	for (size_t i = 0; i < all.rows * all.columns; i++)
		most = fmax(most, fabs(whole[i]));
	for (size_t r = 0; r < p.rows; r++)
		for (size_t c = 0; c < p.columns; c++) {
			const double a = mine[r * p.columns + c];
			const double b = whole[(p.row + r) * p.whole_columns + p.column + c];
			const double off = a == b ? 0 : fabs(a - b) / (DBL_EPSILON * most);

			found->wrong[kind] += !(off <= tolerance);
			if (!(off <= found->off))
				found->off = off;
		}
	found->compared[kind] += p.rows * p.columns;
}

/* ---- records --------------------------------------------------------------------------------- */

static struct bb_tensor_equality_record
equality_sum(const struct job *j, const struct bb_tensor_results *results, const struct found *all)
{
	const bool must_differ = j->mine.scheme->mode == BB_TENSOR_ROWS;
	struct bb_tensor_equality_record r;
	bool equal;

	bb_record_init(&bb_record_tensor_equality, &r);
	r.module = results->part;
	r.way = j->mine.scheme->name;
	r.nranks = j->engine->run->world.nranks;
	r.tolerance_ulps = j->mine.grid ? 0 : RING_ULPS;
	r.outputs = r.gradients = r.wrong_outputs = r.wrong_gradients = 0;
	r.off_ulps = 0;
	for (int rank = 0; rank < r.nranks; rank++) {
		r.outputs += (int64_t)all[rank].compared[0];
		r.gradients += (int64_t)all[rank].compared[1];
		r.wrong_outputs += (int64_t)all[rank].wrong[0];
		r.wrong_gradients += (int64_t)all[rank].wrong[1];
		if (!(all[rank].off <= r.off_ulps))
			r.off_ulps = all[rank].off;
	}
	equal = r.wrong_outputs + r.wrong_gradients == 0;
	r.passed = equal != must_differ;
	if (must_differ)
		r.verdict = equal ? "equal, and must not be" : "wrong, as it must be";
	else
		r.verdict = equal ? "equal" : "wrong";
	return r;
}

static bb_status equality_deliver(struct job *j, const struct bb_tensor_results *results)
{
	const struct bb_tensor_place p = bb_tensor_place_of(&j->mine, results->output);
	double *const middle = &j->mine.slots[results->output][p.rows * p.columns / 2];
	struct bb_tensor_equality_record record;
	struct found mine = {.off = 0};
	const void *all;
	bb_status status;

	/* The highest byte of a number: its change exceeds any tolerance. */
	BB_TRY(status, bb_engine_corrupt(j->engine, (char *)middle + sizeof(double) - 1), out);
	equality_compare(j, results->output, 0, &mine);
	for (size_t i = 0; i < results->ngradients; i++)
		equality_compare(j, results->gradients[i], 1, &mine);
	BB_TRY(status,
	       bb_crew_gather(j->engine->driver, &bb_payload_number, &mine,
			      sizeof(mine) / sizeof(uint64_t), &all),
	       out);
	if (!bb_engine_leads(j->engine))
		return BB_OK;
	record = equality_sum(j, results, all);
	status = bb_engine_deliver(j->engine, &bb_record_tensor_equality, &record, !record.passed);
out:
	return status;
}

static bb_status check_scheme(struct job *j, const struct bb_tensor_scheme *scheme)
{
	bb_status status;

	BB_TRY(status, open_mine(j, scheme), out);
	BB_TRY(status, make_whole(j, scheme), out);
	BB_TRY(status, run_split(j), out);
	for (const struct bb_tensor_results *r = bb_tensor_results; r->part; r++)
		if (r->of == scheme->of)
			BB_TRY(status, equality_deliver(j, r), out);
	/* Memory is released once no rank reads it any more. */
	BB_TRY(status, bb_crew_barrier(j->engine->driver), out);
	bb_engine_release(j->engine, j->mine.memory);
out:
	bb_engine_clear(j->engine);
	bb_tensor_program_free(&j->program);
	free(j->whole.memory);
	j->whole.memory = NULL;
	return status;
}

bb_status bb_tensor_equality(struct bb_engine *engine)
{
	const int nranks = engine->run->world.nranks;
	struct job j = {.engine = engine, .size = small_size((size_t)nranks)};
	bb_status status = BB_OK;

	for (const struct bb_tensor_scheme *scheme = bb_tensor_schemes;
	     scheme->part && status == BB_OK; scheme++) {
		/* On one rank the rows are not split. */
		if (scheme->mode == BB_TENSOR_ROWS && nranks == 1)
			continue;
		status = check_scheme(&j, scheme);
	}
	return status;
}

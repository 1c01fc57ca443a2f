/*
 * equality.c - the comparison of split parts with unsplit ones, number by number.
 */
#include "training_kernels/tensor/tensor.h"

#include <float.h>
#include <math.h>

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

/* A split part of this rank, and the unsplit one. */
struct check {
	struct bb_variant variant;
	struct bb_tensor_size size;
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

static void check_compute(void *own, int rank, const struct bb_operation *operation)
{
	bb_tensor_compute(&((struct check *)own)->mine, operation);
}

static void check_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			  void **out)
{
	bb_tensor_buffers(&((struct check *)own)->mine, operation, in, out);
}

/* The parts of SCHEME, the whole one as it is computed by a single rank, which sends nothing. */
static bb_status check_open(struct check *c, const struct bb_tensor_scheme *scheme)
{
	struct bb_kernel *k = c->variant.kernel;
	const size_t t = (size_t)k->engine.run->world.nranks;
	const struct bb_trial trial = {
		.workload = {.compute = check_compute, .buffers = check_buffers},
		.timing = BB_TIMING_STEPS,
		.steps = 1};
	struct bb_tensor_form form = {
		.scheme = scheme, .size = &c->size, .layers = 1, .real = true};
	struct bb_error *error = &k->engine.run->error;
	struct bb_taped alone = {.tapes = NULL}; /* the program of the whole */
	void *memory;
	bb_status status;

	/* Every scheme can divide two tokens and two heads for each rank. */
	c->size = (struct bb_tensor_size){.tokens = 2 * t,
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
	c->mine = (struct bb_tensor_state){.scheme = scheme,
					   .size = &c->size,
					   .rank = (size_t)k->engine.driver->rank,
					   .t = t,
					   .grid = scheme->mode != BB_TENSOR_RING};
	BB_TRY(status, bb_tensor_write(&c->variant.taped, &form, (int)t, error), out);
	BB_TRY(status,
	       bb_engine_alloc(&k->engine, bb_tensor_state_numbers(&c->mine) * sizeof(double),
			       &memory),
	       out);
	bb_tensor_state_fill(&c->mine, memory);
	form.scheme = bb_tensor_schemes;
	while (form.scheme->of != scheme->of)
		form.scheme++;
	c->whole = (struct bb_tensor_state){
		.scheme = form.scheme, .size = &c->size, .t = 1, .grid = c->mine.grid};
	memory = bb_kernel_keep(k, bb_tensor_state_numbers(&c->whole), sizeof(double));
	if (!memory)
		return BB_EINTERNAL;
	bb_tensor_state_fill(&c->whole, memory);
	BB_TRY(status, bb_tensor_write(&alone, &form, 1, error), out);
	for (size_t i = 0; i < alone.tapes->n; i++)
		if (alone.tapes->list[i].act == BB_ACT_COMPUTE)
			bb_tensor_compute(&c->whole, &alone.tapes->list[i]);
	status = bb_variant_add(&c->variant, &trial, NULL, "check of %s by %s", scheme->part,
				scheme->name);
out:
	bb_taped_free(&alone);
	return status;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static void equality_compare(const struct check *c, int slot, int kind, struct found *found)
{
	const struct bb_tensor_place all = bb_tensor_place_of(&c->whole, slot);
	const struct bb_tensor_place p = bb_tensor_place_of(&c->mine, slot);
	const double *mine = c->mine.slots[slot], *whole = c->whole.slots[slot];
	const double tolerance = c->mine.grid ? 0 : RING_ULPS;
	double most = 0;

	for (size_t i = 0; i < all.rows * all.columns; i++)
		most = fmax(most, fabs(whole[i]));
	for (size_t r = 0; r < p.rows; r++)
		for (size_t i = 0; i < p.columns; i++) {
			const double a = mine[r * p.columns + i];
			const double b = whole[(p.row + r) * p.whole_columns + p.column + i];
			const double off = a == b ? 0 : fabs(a - b) / (DBL_EPSILON * most);

			found->wrong[kind] += !(off <= tolerance);
			if (!(off <= found->off))
				found->off = off;
		}
	found->compared[kind] += p.rows * p.columns;
}

static bb_status equality_deliver(struct check *c, const struct bb_tensor_results *results)
{
	const bool must_differ = c->mine.scheme->mode == BB_TENSOR_ROWS;
	const struct bb_tensor_place p = bb_tensor_place_of(&c->mine, results->output);
	double *const middle = &c->mine.slots[results->output][p.rows * p.columns / 2];
	struct bb_engine *e = &c->variant.kernel->engine;
	struct bb_tensor_equality_record r;
	struct found mine = {.off = 0};
	const struct found *found;
	const void *all;
	bb_status status;

	/* The highest byte of a number: its change exceeds any tolerance. */
	BB_TRY(status, bb_engine_corrupt(e, (char *)middle + sizeof(double) - 1), out);
	equality_compare(c, results->output, 0, &mine);
	for (size_t i = 0; i < results->ngradients; i++)
		equality_compare(c, results->gradients[i], 1, &mine);
	BB_TRY(status,
	       bb_driver_gather(e->driver, &bb_payload_number, &mine,
				sizeof(mine) / sizeof(uint64_t), &all),
	       out);
	if (!bb_engine_leads(e))
		return BB_OK;
	bb_record_init(&bb_record_tensor_equality, &r);
	r.module = results->part;
	r.scheme = c->mine.scheme->name;
	r.nranks = (int64_t)c->mine.t;
	r.tolerance_ulps = c->mine.grid ? 0 : RING_ULPS;
	r.outputs = r.gradients = r.wrong_outputs = r.wrong_gradients = 0;
	r.off_ulps = 0;
	for (found = all; found < (const struct found *)all + c->mine.t; found++) {
		r.outputs += (int64_t)found->compared[0];
		r.gradients += (int64_t)found->compared[1];
		r.wrong_outputs += (int64_t)found->wrong[0];
		r.wrong_gradients += (int64_t)found->wrong[1];
		if (!(found->off <= r.off_ulps))
			r.off_ulps = found->off;
	}
	const bool equal = r.wrong_outputs + r.wrong_gradients == 0;
	r.passed = equal != must_differ;
	r.verdict = must_differ ? equal ? "equal, and must not be" : "wrong, as it must be"
		    : equal     ? "equal"
				: "wrong";
	status = bb_engine_deliver(e, &bb_record_tensor_equality, &r, !r.passed);
out:
	return status;
}

bb_status bb_tensor_equality(struct bb_kernel *k)
{
	bb_status status = BB_OK;

	for (const struct bb_tensor_scheme *s = bb_tensor_schemes; s->part && status == BB_OK;
	     s++) {
		/* On one rank the rows are not split. */
		if (s->mode == BB_TENSOR_ROWS && k->engine.run->world.nranks == 1)
			continue;
		struct check *const c = bb_variant_new(k, sizeof(*c));
		BB_TRY(status, c ? check_open(c, s) : BB_EINTERNAL, out);
		BB_TRY(status, bb_engine_measure(&k->engine), out);
		for (const struct bb_tensor_results *r = bb_tensor_results; r->part; r++)
			if (r->of == s->of)
				BB_TRY(status, equality_deliver(c, r), out);
		/* Memory is released once no rank reads it any more. */
		BB_TRY(status, bb_driver_barrier(k->engine.driver), out);
		bb_engine_release(&k->engine, c->mine.memory);
		bb_kernel_close(&k->engine);
	}
out:
	bb_kernel_close(&k->engine);
	return status;
}

/*
 * data.c - known data for the communication of a step, and its verification: sums and gathered
 * tokens of layers, rows of experts, messages between stages, averaged gradients and gathered
 * parameters.
 */
#include "training_kernels/hybrid/hybrid.h"

#include "core/array.h"
#include "models/memory/states.h"

#include <stdlib.h>

#define LANES 2 /* forward and backward, as in any pipeline that is not folded */

static int data_place(const struct bb_hybrid_data *d, enum bb_axis axis)
{
	return bb_grid_place(&d->shape->grid, axis, d->engine->driver->rank);
}

/* Member I of this rank's group along AXIS. */
static int data_member(const struct bb_hybrid_data *d, enum bb_axis axis, int i)
{
	const struct bb_grid *g = &d->shape->grid;

	return bb_grid_member(g, axis, bb_grid_group(g, axis, d->engine->driver->rank), i);
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* The next BYTES of MEMORY. NULL: they are only counted. */
static char *carve(char *memory, size_t *at, size_t bytes)
{
	char *const here = memory ? memory + *at : NULL;

	*at += (bytes + 63) / 64 * 64;
	return here;
}

static void lay_out_halves(struct bb_hybrid_data *d, int rank, size_t *at)
{
	const struct bb_hybrid_shape *s = d->shape;
	const size_t element = bb_dtype_size(s->dtype);
	const int different = s->sequence_parallel && s->load ? BB_HYBRID_HALVES : 1;

	for (int i = 0; i < different && s->grid.tp > 1; i++) {
		struct bb_hybrid_half *h = &d->halves[i];

		h->part = bb_hybrid_part(s, i, rank);
		h->whole = s->sequence_parallel ? h->part * (size_t)s->grid.tp : h->part;
		h->summands = carve(d->memory, at, h->whole * element);
		h->sum = carve(d->memory, at, h->part * element);
		if (!s->sequence_parallel)
			continue;
		h->piece = carve(d->memory, at, h->part * element);
		h->gathered = carve(d->memory, at, h->whole * element);
	}
	for (int i = different; i < BB_HYBRID_HALVES; i++)
		d->halves[i] = d->halves[0];
}

/* Embedding and head also use the data of the first half of a layer. */
static void lay_out_ends(struct bb_hybrid_data *d, int rank, size_t *at)
{
	const struct bb_hybrid_shape *s = d->shape;
	const int stage = bb_grid_place(&s->grid, BB_AXIS_PP, rank), last = s->grid.pp - 1;

	if (stage == last && s->grid.tp > 1) {
		d->losses = carve(d->memory, at, s->tokens * sizeof(float));
		d->loss = carve(d->memory, at, s->tokens * sizeof(float));
	}
	if (s->shared > 0 && last > 0 && (stage == 0 || stage == last))
		d->embedding = carve(d->memory, at, s->shared * bb_dtype_size(s->gradient_dtype));
}

static void lay_out_replicas(struct bb_hybrid_data *d, int rank, size_t *at)
{
	const struct bb_hybrid_shape *s = d->shape;
	const size_t stage = (size_t)bb_grid_place(&s->grid, BB_AXIS_PP, rank);
	const uint64_t *const elements[] = {s->gradients, s->experts};

	for (int i = 0; i < 2 && elements[i]; i++) {
		struct bb_hybrid_replica *r = &d->replicas[i];
		size_t n, whole;

		r->axis = i == 0 ? BB_AXIS_DP : BB_AXIS_EDP;
		n = (size_t)bb_grid_size(&s->grid, r->axis);
		if (n == 1)
			continue;
		r->elements = (size_t)elements[i][stage];
		r->part = (size_t)bb_partition(r->elements, n);
		whole = n * r->part;
		r->gradients = carve(d->memory, at, whole * bb_dtype_size(s->gradient_dtype));
		if (s->zero)
			r->parameters = carve(d->memory, at, whole * bb_dtype_size(s->dtype));
	}
}

/* Lays out all data of RANK; returns its bytes. */
static size_t data_lay_out(struct bb_hybrid_data *d, int rank)
{
	const struct bb_hybrid_shape *s = d->shape;
	const size_t message = bb_hybrid_boundary(s) * bb_dtype_size(s->dtype);
	size_t at = 0;

	lay_out_halves(d, rank, &at);
	lay_out_ends(d, rank, &at);
	lay_out_replicas(d, rank, &at);
	if (s->grid.pp > 1) {
		d->sent = carve(d->memory, &at, message);
		for (int lane = 0; lane < LANES; lane++)
			d->got[lane] = carve(d->memory, &at, message);
	}
	if (!s->load || s->grid.ep == 1)
		return at;
	d->rows = (struct bb_moe_rows){.load = s->load,
				       .hidden = s->hidden,
				       .dtype = s->dtype,
				       .place = bb_grid_place(&s->grid, BB_AXIS_EP, rank),
				       .ranks = d->ranks};
	d->rows.mine = carve(d->memory, &at, bb_moe_bytes_mine(&d->rows));
	d->rows.back = carve(d->memory, &at, bb_moe_bytes_mine(&d->rows));
	d->rows.theirs = carve(d->memory, &at, bb_moe_bytes_theirs(&d->rows));
	return at;
}

size_t bb_hybrid_data_bytes(const struct bb_hybrid_shape *shape, int rank)
{
	struct bb_hybrid_data d = {.shape = shape};

	return data_lay_out(&d, rank);
}

/* ---- known data ------------------------------------------------------------------------------ */

/* COUNT elements AT: those of RANK of PATTERNS from FIRST on. */
struct bb_hybrid_region {
	char *at;
	const struct bb_patterns *patterns;
	int rank;
	size_t first, count;
};

static void add_region(struct bb_hybrid_regions *to, char *at, const struct bb_patterns *patterns,
		       int rank, size_t first, size_t count)
{
	struct bb_hybrid_region *added = at ? BB_ARRAY_ADD(to->list, to->n, to->room) : NULL;

	to->failed |= at && !added;
	if (added)
		*added = (struct bb_hybrid_region){at, patterns, rank, first, count};
}

/* GOT has PART elements of each member of this rank's group along AXIS, in order; NULL: nothing. */
static void check_gathered(struct bb_hybrid_data *d, char *got, enum bb_axis axis, size_t part)
{
	const size_t bytes = part * bb_dtype_size(d->shape->dtype);

	for (int i = 0; i < bb_grid_size(&d->shape->grid, axis) && got; i++)
		add_region(&d->checks, got + (size_t)i * bytes, d->moved, data_member(d, axis, i),
			   0, part);
}

static void list_half(struct bb_hybrid_data *d, const struct bb_hybrid_half *h,
		      const struct bb_patterns *sums)
{
	const int rank = d->engine->driver->rank, place = data_place(d, BB_AXIS_TP);
	const size_t before = d->shape->sequence_parallel ? (size_t)place * h->part : 0;

	add_region(&d->fills, h->summands, sums, place, 0, h->whole);
	add_region(&d->fills, h->sum, d->moved, rank, 0, h->part);
	add_region(&d->fills, h->piece, d->moved, rank, 0, h->part);
	/* Shifted, so that even the rank's own piece is wrong until it is moved. */
	add_region(&d->fills, h->gathered, d->moved, rank, 1, h->whole);
	add_region(&d->checks, h->sum, sums, BB_REDUCED, before, h->part);
	check_gathered(d, h->gathered, BB_AXIS_TP, h->part);
}

static void list_replica(struct bb_hybrid_data *d, const struct bb_hybrid_replica *r,
			 const struct bb_patterns *averages)
{
	const struct bb_hybrid_shape *s = d->shape;
	const int rank = d->engine->driver->rank, place = data_place(d, r->axis);
	const size_t before = (size_t)place * r->part;
	const size_t whole = (size_t)bb_grid_size(&s->grid, r->axis) * r->part;
	char *const mine =
		s->zero ? r->gradients + before * bb_dtype_size(s->gradient_dtype) : r->gradients;

	add_region(&d->fills, r->gradients, averages, place, 0, whole);
	add_region(&d->checks, mine, averages, BB_REDUCED, s->zero ? before : 0,
		   s->zero ? r->part : r->elements);
	if (!r->parameters)
		return;
	add_region(&d->fills, r->parameters, d->moved, rank, 1, whole);
	add_region(&d->fills, r->parameters + before * bb_dtype_size(s->dtype), d->moved, rank, 0,
		   r->part);
	check_gathered(d, r->parameters, r->axis, r->part);
}

/* What a step finds, and what it must leave. */
static bb_status list_regions(struct bb_hybrid_data *d)
{
	const struct bb_hybrid_shape *s = d->shape;
	const struct bb_grid *g = &s->grid;
	struct bb_engine *e = d->engine;
	const int rank = e->driver->rank, tensor = data_place(d, BB_AXIS_TP);
	const int stage = data_place(d, BB_AXIS_PP);
	const size_t message = bb_hybrid_boundary(s);
	const struct bb_patterns *sums, *losses, *ends, *averages;
	bb_status status;

	BB_TRY(status, bb_engine_patterns(e, s->dtype, BB_SUM, g->tp, &sums), out);
	BB_TRY(status, bb_engine_patterns(e, s->dtype, -1, e->run->world.nranks, &d->moved), out);
	BB_TRY(status, bb_engine_patterns(e, BB_FLOAT, BB_SUM, g->tp, &losses), out);
	BB_TRY(status, bb_engine_patterns(e, s->gradient_dtype, BB_SUM, 2, &ends), out);
	for (int i = 0; i < BB_HYBRID_HALVES; i++)
		if (i == 0 || d->halves[i].sum != d->halves[0].sum)
			list_half(d, &d->halves[i], sums);
	for (int i = 0; i < 2; i++) {
		struct bb_hybrid_replica *r = &d->replicas[i];

		if (!r->gradients)
			continue;
		BB_TRY(status,
		       bb_engine_patterns(e, s->gradient_dtype, BB_AVG, bb_grid_size(g, r->axis),
					  &averages),
		       out);
		list_replica(d, r, averages);
	}
	add_region(&d->fills, d->losses, losses, tensor, 0, s->tokens);
	/* Different from any sum. */
	add_region(&d->fills, d->loss, losses, tensor, 1, s->tokens);
	add_region(&d->checks, d->loss, losses, BB_REDUCED, 0, s->tokens);
	add_region(&d->fills, d->embedding, ends, stage > 0, 0, s->shared);
	add_region(&d->checks, d->embedding, ends, BB_REDUCED, 0, s->shared);
	add_region(&d->fills, d->sent, d->moved, rank, 0, message);
	for (int lane = 0; lane < LANES && g->pp > 1; lane++) {
		const int from = stage + (lane == 0 ? -1 : 1);

		add_region(&d->fills, d->got[lane], d->moved, rank, 0, message);
		if (from >= 0 && from < g->pp)
			add_region(&d->checks, d->got[lane], d->moved,
				   data_member(d, BB_AXIS_PP, from), 0, message);
	}
	if (d->fills.failed || d->checks.failed)
		status = bb_no_memory(&e->run->error, "a step's data");
out:
	return status;
}

bb_status bb_hybrid_data_open(struct bb_hybrid_data *d, const struct bb_hybrid_shape *shape,
			      struct bb_engine *engine)
{
	const int ep = shape->grid.ep, rank = engine->driver->rank;
	const size_t bytes = bb_hybrid_data_bytes(shape, rank);
	bb_status status;

	*d = (struct bb_hybrid_data){.shape = shape, .engine = engine};
	if (bb_engine_is_virtual(engine))
		return BB_OK;
	d->ranks = calloc((size_t)ep, sizeof(*d->ranks));
	if (!d->ranks)
		return bb_no_memory(&engine->run->error, "a step's data");
	for (int i = 0; i < ep; i++)
		d->ranks[i] = data_member(d, BB_AXIS_EP, i);
	/* A single rank sends nothing. */
	if (bytes == 0)
		return BB_OK;
	status = bb_engine_alloc(engine, bytes, (void **)&d->memory);
	if (status != BB_OK)
		return status;
	data_lay_out(d, rank);
	return list_regions(d);
}

void bb_hybrid_data_close(struct bb_hybrid_data *d)
{
	free(d->ranks);
	free(d->fills.list);
	free(d->checks.list);
}

static bb_status hybrid_fill(void *own)
{
	struct bb_hybrid_data *d = own;
	bb_status status;

	for (size_t i = 0; i < d->fills.n; i++) {
		const struct bb_hybrid_region *r = &d->fills.list[i];

		BB_TRY(status,
		       bb_engine_fill(d->engine, r->at, r->patterns, r->rank, r->first, r->count),
		       out);
	}
	if (d->rows.mine)
		BB_TRY(status, bb_moe_rows_fill(&d->rows, d->engine, d->moved), out);
	status = d->engine->backend->finish(d->engine->rank, NULL);
out:
	return status;
}

static bb_status hybrid_verify(void *own, uint64_t *wrong)
{
	struct bb_hybrid_data *d = own;
	bb_status status = BB_OK;

	for (size_t i = 0; i < d->checks.n; i++) {
		const struct bb_hybrid_region *r = &d->checks.list[i];

		BB_TRY(status,
		       bb_engine_verify(d->engine, r->at, r->patterns, r->rank, r->first, r->count,
					wrong),
		       out);
	}
	if (d->rows.mine)
		status = bb_moe_rows_verify(&d->rows, d->engine, d->moved, wrong);
out:
	return status;
}

static int hybrid_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	const struct bb_hybrid_data *d = own;
	const struct bb_hybrid_replica *r = d->replicas;
	const size_t element = bb_dtype_size(d->shape->gradient_dtype);
	const struct bb_moe_rows *rows = &d->rows;
	/* Rows of another rank, as a rank's own are not moved. */
	const int peer = rows->load ? (rows->place + 1) % rows->load->form.nranks : 0;
	const struct bb_operation from = {.act = BB_ACT_RECV, .item = (size_t)peer};
	int n = 0;

	victims[n++] = d->halves[0].sum;
	victims[n++] = d->halves[0].gathered;
	victims[n++] = d->loss;
	victims[n++] = d->embedding;
	victims[n++] = d->got[data_place(d, BB_AXIS_PP) == 0];
	for (int i = 0; i < 2; i++)
		if (r[i].gradients) {
			const size_t mine = d->shape->zero ? (size_t)data_place(d, r[i].axis) : 0;

			victims[n++] = r[i].gradients + mine * r[i].part * element;
			victims[n++] = r[i].parameters;
		}
	for (int combines = 0; combines < 2 && rows->mine; combines++)
		victims[n++] = bb_moe_rows_of(rows, combines, &from);
	return n;
}

const struct bb_expectation bb_hybrid_expectation = {hybrid_fill, hybrid_victims, hybrid_verify};

/* ---- buffers --------------------------------------------------------------------------------- */

void bb_hybrid_data_buffers(void *own, int rank, const struct bb_operation *o, void **in,
			    void **out)
{
	const struct bb_hybrid_data *d = own;
	const struct bb_hybrid_half *h = &d->halves[o->item % BB_HYBRID_HALVES];
	const struct bb_hybrid_replica *r = &d->replicas[o->item % 2];
	size_t before;

	switch (o->work) {
	case BB_HYBRID_EXPERT:
		*(o->act == BB_ACT_SEND ? in : out) = bb_moe_rows_of(&d->rows, o->lane % 2, o);
		break;
	case BB_HYBRID_PIPELINE:
		if (o->act == BB_ACT_SEND)
			*in = d->sent;
		else
			*out = d->got[o->lane];
		break;
	case BB_HYBRID_DATA:
		/* In place: the part of this rank is one of the two buffers. */
		before = (size_t)data_place(d, r->axis) * r->part * bb_dtype_size(o->dtype);
		*in = *out = o->collective == &bb_all_gather ? r->parameters : r->gradients;
		if (o->collective == &bb_reduce_scatter)
			*out = r->gradients + before;
		else if (o->collective == &bb_all_gather)
			*in = r->parameters + before;
		break;
	case BB_HYBRID_EMBEDDING:
		*in = *out = d->embedding;
		break;
	default:
		if (o->item == BB_HYBRID_LOSS) {
			*in = d->losses;
			*out = d->loss;
			break;
		}
		*in = o->collective == &bb_all_gather ? h->piece : h->summands;
		*out = o->collective == &bb_all_gather ? h->gathered : h->sum;
	}
}

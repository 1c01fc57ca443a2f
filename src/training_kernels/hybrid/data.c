/*
 * data.c - known data for the communication of a step, and its verification: sums and gathered
 * tokens of layers, rows of experts, messages between stages, averaged gradients and gathered
 * parameters.
 */
#include "training_kernels/hybrid/hybrid.h"

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

/* ---- open and close -------------------------------------------------------------------------- */

static bb_status open_patterns(struct bb_hybrid_data *d)
{
	const struct bb_hybrid_shape *s = d->shape;
	const struct bb_grid *g = &s->grid;
	struct bb_engine *e = d->engine;
	bb_status status;

	BB_TRY(status, bb_engine_patterns(e, s->dtype, BB_SUM, g->tp, &d->sums), out);
	BB_TRY(status, bb_engine_patterns(e, s->dtype, -1, e->run->world.nranks, &d->moved), out);
	BB_TRY(status, bb_engine_patterns(e, BB_FLOAT, BB_SUM, g->tp, &d->loss_sums), out);
	BB_TRY(status, bb_engine_patterns(e, s->gradient_dtype, BB_SUM, 2, &d->embedding_sums),
	       out);
	for (int i = 0; i < 2; i++)
		if (d->replicas[i].gradients)
			BB_TRY(status,
			       bb_engine_patterns(e, s->gradient_dtype, BB_AVG,
						  bb_grid_size(g, d->replicas[i].axis),
						  &d->replicas[i].averages),
			       out);
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
	return open_patterns(d);
}

void bb_hybrid_data_close(struct bb_hybrid_data *d)
{
	free(d->ranks);
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* In place: the part of this rank is one of the two buffers. */
static void replica_buffers(const struct bb_hybrid_data *d, const struct bb_operation *o, void **in,
			    void **out)
{
	const struct bb_hybrid_replica *r = &d->replicas[o->item];
	const size_t before = (size_t)data_place(d, r->axis) * r->part;

	*in = *out = o->collective == &bb_all_gather ? r->parameters : r->gradients;
	if (o->collective == &bb_reduce_scatter)
		*out = r->gradients + before * bb_dtype_size(o->dtype);
	else if (o->collective == &bb_all_gather)
		*in = r->parameters + before * bb_dtype_size(o->dtype);
}

void bb_hybrid_data_buffers(void *own, int rank, const struct bb_operation *o, void **in,
			    void **out)
{
	const struct bb_hybrid_data *d = own;
	const struct bb_hybrid_half *h = &d->halves[o->item % BB_HYBRID_HALVES];

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
		replica_buffers(d, o, in, out);
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

static bb_status fill_half(struct bb_hybrid_data *d, const struct bb_hybrid_half *h)
{
	const int rank = d->engine->driver->rank;
	bb_status status;

	BB_TRY(status,
	       bb_engine_fill(d->engine, h->summands, d->sums, data_place(d, BB_AXIS_TP), 0,
			      h->whole),
	       out);
	BB_TRY(status, bb_engine_fill(d->engine, h->sum, d->moved, rank, 0, h->part), out);
	BB_TRY(status, bb_engine_fill(d->engine, h->piece, d->moved, rank, 0, h->part), out);
	/* Shifted, so that even the rank's own piece is wrong until it is moved. */
	BB_TRY(status, bb_engine_fill(d->engine, h->gathered, d->moved, rank, 1, h->whole), out);
out:
	return status;
}

static bb_status fill_replica(struct bb_hybrid_data *d, const struct bb_hybrid_replica *r)
{
	const struct bb_grid *g = &d->shape->grid;
	const size_t element = bb_dtype_size(d->shape->dtype);
	const size_t before = (size_t)data_place(d, r->axis) * r->part;
	const size_t whole = (size_t)bb_grid_size(g, r->axis) * r->part;
	const int rank = d->engine->driver->rank;
	bb_status status;

	BB_TRY(status,
	       bb_engine_fill(d->engine, r->gradients, r->averages, data_place(d, r->axis), 0,
			      whole),
	       out);
	BB_TRY(status, bb_engine_fill(d->engine, r->parameters, d->moved, rank, 1, whole), out);
	if (r->parameters)
		BB_TRY(status,
		       bb_engine_fill(d->engine, r->parameters + before * element, d->moved, rank,
				      0, r->part),
		       out);
out:
	return status;
}

bb_status bb_hybrid_data_fill(void *own)
{
	struct bb_hybrid_data *d = own;
	const size_t message = bb_hybrid_boundary(d->shape);
	const int rank = d->engine->driver->rank;
	bb_status status;

	for (int i = 0; i < BB_HYBRID_HALVES; i++)
		BB_TRY(status, fill_half(d, &d->halves[i]), out);
	for (int i = 0; i < 2; i++)
		if (d->replicas[i].gradients)
			BB_TRY(status, fill_replica(d, &d->replicas[i]), out);
	BB_TRY(status,
	       bb_engine_fill(d->engine, d->losses, d->loss_sums, data_place(d, BB_AXIS_TP), 0,
			      d->shape->tokens),
	       out);
	/* Different from any sum. */
	BB_TRY(status,
	       bb_engine_fill(d->engine, d->loss, d->loss_sums, data_place(d, BB_AXIS_TP), 1,
			      d->shape->tokens),
	       out);
	BB_TRY(status,
	       bb_engine_fill(d->engine, d->embedding, d->embedding_sums,
			      data_place(d, BB_AXIS_PP) > 0, 0, d->shape->shared),
	       out);
	BB_TRY(status, bb_engine_fill(d->engine, d->sent, d->moved, rank, 0, message), out);
	for (int lane = 0; lane < LANES; lane++)
		BB_TRY(status, bb_engine_fill(d->engine, d->got[lane], d->moved, rank, 0, message),
		       out);
	if (d->rows.mine)
		BB_TRY(status, bb_moe_rows_fill(&d->rows, d->engine, d->moved), out);
	status = d->engine->backend->finish(d->engine->rank, NULL);
out:
	return status;
}

/* ---- verification
 * ---------------------------------------------------------------------------------
 */

static bb_status verify_ends(struct bb_hybrid_data *d, uint64_t *wrong)
{
	const bb_status status = bb_engine_verify(d->engine, d->loss, d->loss_sums, BB_REDUCED, 0,
						  d->shape->tokens, wrong);

	return status == BB_OK ? bb_engine_verify(d->engine, d->embedding, d->embedding_sums,
						  BB_REDUCED, 0, d->shape->shared, wrong)
			       : status;
}

/* Verifies PART elements of each member of this rank's group along AXIS, in order. */
static bb_status verify_gathered(struct bb_hybrid_data *d, const char *got, enum bb_axis axis,
				 size_t part, uint64_t *wrong)
{
	const int n = bb_grid_size(&d->shape->grid, axis);
	const size_t bytes = part * bb_dtype_size(d->shape->dtype);
	bb_status status = BB_OK;

	for (int i = 0; i < n && got && status == BB_OK; i++)
		status = bb_engine_verify(d->engine, got + (size_t)i * bytes, d->moved,
					  data_member(d, axis, i), 0, part, wrong);
	return status;
}

static bb_status verify_half(struct bb_hybrid_data *d, const struct bb_hybrid_half *h,
			     uint64_t *wrong)
{
	const size_t before =
		d->shape->sequence_parallel ? (size_t)data_place(d, BB_AXIS_TP) * h->part : 0;
	const bb_status status =
		bb_engine_verify(d->engine, h->sum, d->sums, BB_REDUCED, before, h->part, wrong);

	return status == BB_OK ? verify_gathered(d, h->gathered, BB_AXIS_TP, h->part, wrong)
			       : status;
}

static bb_status verify_replica(struct bb_hybrid_data *d, const struct bb_hybrid_replica *r,
				uint64_t *wrong)
{
	const size_t before = d->shape->zero ? (size_t)data_place(d, r->axis) * r->part : 0;
	const bb_status status = bb_engine_verify(
		d->engine, r->gradients + before * bb_dtype_size(d->shape->gradient_dtype),
		r->averages, BB_REDUCED, before, d->shape->zero ? r->part : r->elements, wrong);

	return status == BB_OK ? verify_gathered(d, r->parameters, r->axis, r->part, wrong)
			       : status;
}

static bb_status verify_messages(struct bb_hybrid_data *d, uint64_t *wrong)
{
	bb_status status = BB_OK;

	for (int lane = 0; lane < LANES && status == BB_OK; lane++) {
		const int from = data_place(d, BB_AXIS_PP) + (lane == 0 ? -1 : 1);

		if (from >= 0 && from < d->shape->grid.pp)
			status = bb_engine_verify(d->engine, d->got[lane], d->moved,
						  data_member(d, BB_AXIS_PP, from), 0,
						  bb_hybrid_boundary(d->shape), wrong);
	}
	return status;
}

int bb_hybrid_data_victims(void *own, void *victims[BB_MOST_VICTIMS])
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

bb_status bb_hybrid_data_verify(void *own, uint64_t *wrong)
{
	struct bb_hybrid_data *d = own;
	bb_status status = BB_OK;

	for (int i = 0; i < BB_HYBRID_HALVES; i++)
		if (i == 0 || d->halves[i].sum != d->halves[0].sum)
			BB_TRY(status, verify_half(d, &d->halves[i], wrong), out);
	BB_TRY(status, verify_ends(d, wrong), out);
	for (int i = 0; i < 2; i++)
		if (d->replicas[i].gradients)
			BB_TRY(status, verify_replica(d, &d->replicas[i], wrong), out);
	if (d->rows.mine)
		BB_TRY(status, bb_moe_rows_verify(&d->rows, d->engine, d->moved, wrong), out);
	status = d->shape->grid.pp > 1 ? verify_messages(d, wrong) : BB_OK;
out:
	return status;
}

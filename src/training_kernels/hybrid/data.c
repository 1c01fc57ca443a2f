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
	return bb_grid_place(&d->shape->grid, axis, d->rank);
}

/* Member I of this rank's group along AXIS. */
static int data_member(const struct bb_hybrid_data *d, enum bb_axis axis, int i)
{
	const struct bb_grid *g = &d->shape->grid;

	return bb_grid_member(g, axis, bb_grid_group(g, axis, d->rank), i);
}

/* ---- layout: what a step finds, and what it must leave --------------------------------------- */

/* COUNT elements AT: those of RANK of PATTERNS from FIRST on. */
struct bb_hybrid_region {
	char *at;
	const struct bb_patterns *patterns;
	int rank;
	size_t first, count;
};

/* Without AT nothing is added. */
static void add_region(struct bb_hybrid_regions *to, char *at, const struct bb_patterns *patterns,
		       int rank, size_t first, size_t count)
{
	struct bb_hybrid_region *added = at ? BB_ARRAY_ADD(to->list, to->n, to->room) : NULL;

	to->failed |= at && !added;
	if (added)
		*added = (struct bb_hybrid_region){at, patterns, rank, first, count};
}

/* GOT has PART elements of each member of this rank's group along AXIS, in order. */
static void check_gathered(struct bb_hybrid_data *d, char *got, enum bb_axis axis, size_t part)
{
	const size_t bytes = part * bb_dtype_size(d->shape->dtype);

	for (int i = 0; i < bb_grid_size(&d->shape->grid, axis) && got; i++)
		add_region(&d->checks, got + (size_t)i * bytes, d->moved, data_member(d, axis, i),
			   0, part);
}

/* The next BYTES of the memory. NULL: they are only counted. */
static char *carve(struct bb_hybrid_data *d, size_t bytes)
{
	char *const here = d->memory ? d->memory + d->bytes : NULL;

	d->bytes += (bytes + 63) / 64 * 64;
	return here;
}

/* The next COUNT elements of DTYPE: before a step those of RANK of PATTERNS from FIRST on. */
static char *lay_out(struct bb_hybrid_data *d, size_t count, enum bb_dtype dtype,
		     const struct bb_patterns *patterns, int rank, size_t first)
{
	char *const here = carve(d, count * bb_dtype_size(dtype));

	add_region(&d->fills, here, patterns, rank, first, count);
	return here;
}

static void lay_out_half(struct bb_hybrid_data *d, int half)
{
	const struct bb_hybrid_shape *s = d->shape;
	const size_t place = (size_t)data_place(d, BB_AXIS_TP);
	const size_t part = bb_hybrid_part(s, half, d->rank);
	const size_t whole = s->sequence_parallel ? part * (size_t)s->grid.tp : part;
	struct bb_hybrid_half *h = &d->halves[half];

	h->summands = lay_out(d, whole, s->dtype, d->sums, (int)place, 0);
	h->sum = lay_out(d, part, s->dtype, d->moved, d->rank, 0);
	add_region(&d->checks, h->sum, d->sums, BB_REDUCED, s->sequence_parallel ? place * part : 0,
		   part);
	if (!s->sequence_parallel)
		return;
	h->piece = lay_out(d, part, s->dtype, d->moved, d->rank, 0);
	/* Shifted, so that even the rank's own piece is wrong until it is moved. */
	h->gathered = lay_out(d, whole, s->dtype, d->moved, d->rank, 1);
	check_gathered(d, h->gathered, BB_AXIS_TP, part);
}

/* ELEMENTS that the replicas along AXIS share. */
static void lay_out_replica(struct bb_hybrid_data *d, struct bb_hybrid_replica *r,
			    enum bb_axis axis, size_t elements)
{
	const struct bb_hybrid_shape *s = d->shape;
	const size_t n = (size_t)bb_grid_size(&s->grid, axis), place = (size_t)data_place(d, axis);
	const size_t part = (size_t)bb_partition(elements, n), before = place * part;

	if (n == 1)
		return;
	r->place = (int)place;
	r->gradients = lay_out(d, n * part, s->gradient_dtype, r->averages, (int)place, 0);
	r->mine = r->gradients;
	if (r->gradients && s->zero)
		r->mine += before * bb_dtype_size(s->gradient_dtype);
	add_region(&d->checks, r->mine, r->averages, BB_REDUCED, s->zero ? before : 0,
		   s->zero ? part : elements);
	if (!s->zero)
		return;
	r->parameters = lay_out(d, n * part, s->dtype, d->moved, d->rank, 1);
	if (r->parameters)
		add_region(&d->fills, r->parameters + before * bb_dtype_size(s->dtype), d->moved,
			   d->rank, 0, part);
	check_gathered(d, r->parameters, axis, part);
}

/* Lays out all data of the rank. Embedding and head also use that of the first half of a layer. */
static void data_lay_out(struct bb_hybrid_data *d)
{
	const struct bb_hybrid_shape *s = d->shape;
	const int stage = data_place(d, BB_AXIS_PP), last = s->grid.pp - 1;
	const int place = data_place(d, BB_AXIS_TP);

	if (s->grid.tp > 1)
		lay_out_half(d, 0);
	d->halves[1] = d->halves[0];
	if (s->grid.tp > 1 && s->sequence_parallel && s->load)
		lay_out_half(d, 1);
	if (stage == last && s->grid.tp > 1) {
		d->losses = lay_out(d, s->tokens, BB_FLOAT, d->loss_sums, place, 0);
		/* Different from any sum. */
		d->loss = lay_out(d, s->tokens, BB_FLOAT, d->loss_sums, place, 1);
		add_region(&d->checks, d->loss, d->loss_sums, BB_REDUCED, 0, s->tokens);
	}
	if (s->shared > 0 && last > 0 && (stage == 0 || stage == last)) {
		d->embedding = lay_out(d, s->shared, s->gradient_dtype, d->end_sums, stage > 0, 0);
		add_region(&d->checks, d->embedding, d->end_sums, BB_REDUCED, 0, s->shared);
	}
	lay_out_replica(d, &d->replicas[0], BB_AXIS_DP, (size_t)s->gradients[stage]);
	if (s->experts)
		lay_out_replica(d, &d->replicas[1], BB_AXIS_EDP, (size_t)s->experts[stage]);
	if (last > 0) {
		const size_t message = bb_hybrid_boundary(s);

		d->sent = lay_out(d, message, s->dtype, d->moved, d->rank, 0);
		for (int lane = 0; lane < LANES; lane++) {
			const int from = stage + (lane == 0 ? -1 : 1);

			d->got[lane] = lay_out(d, message, s->dtype, d->moved, d->rank, 0);
			if (from >= 0 && from <= last)
				add_region(&d->checks, d->got[lane], d->moved,
					   data_member(d, BB_AXIS_PP, from), 0, message);
		}
	}
	if (!s->load || s->grid.ep == 1)
		return;
	d->rows = (struct bb_moe_rows){.load = s->load,
				       .hidden = s->hidden,
				       .dtype = s->dtype,
				       .place = data_place(d, BB_AXIS_EP),
				       .ranks = d->ranks};
	d->rows.mine = carve(d, bb_moe_bytes_mine(&d->rows));
	d->rows.back = carve(d, bb_moe_bytes_mine(&d->rows));
	d->rows.theirs = carve(d, bb_moe_bytes_theirs(&d->rows));
}

size_t bb_hybrid_data_bytes(const struct bb_hybrid_shape *shape, int rank)
{
	struct bb_hybrid_data d = {.shape = shape, .rank = rank};

	data_lay_out(&d);
	return d.bytes;
}

bb_status bb_hybrid_data_open(struct bb_hybrid_data *d, const struct bb_hybrid_shape *s,
			      struct bb_engine *e)
{
	const struct bb_grid *g = &s->grid;
	const int rank = e->driver->rank;
	const size_t bytes = bb_hybrid_data_bytes(s, rank);
	bb_status status;

	*d = (struct bb_hybrid_data){.shape = s, .engine = e, .rank = rank};
	/* A single rank sends nothing. */
	if (bb_engine_is_virtual(e) || bytes == 0)
		return BB_OK;
	d->ranks = calloc((size_t)g->ep, sizeof(*d->ranks));
	if (!d->ranks)
		return bb_no_memory(&e->run->error, "a step's data");
	for (int i = 0; i < g->ep; i++)
		d->ranks[i] = data_member(d, BB_AXIS_EP, i);
	BB_TRY(status, bb_engine_patterns(e, s->dtype, BB_SUM, g->tp, &d->sums), out);
	BB_TRY(status, bb_engine_patterns(e, s->dtype, -1, e->run->world.nranks, &d->moved), out);
	BB_TRY(status, bb_engine_patterns(e, BB_FLOAT, BB_SUM, g->tp, &d->loss_sums), out);
	BB_TRY(status, bb_engine_patterns(e, s->gradient_dtype, BB_SUM, 2, &d->end_sums), out);
	for (int i = 0; i < (s->experts ? 2 : 1); i++)
		BB_TRY(status,
		       bb_engine_patterns(e, s->gradient_dtype, BB_AVG,
					  bb_grid_size(g, i == 0 ? BB_AXIS_DP : BB_AXIS_EDP),
					  &d->replicas[i].averages),
		       out);
	BB_TRY(status, bb_engine_alloc(e, bytes, (void **)&d->memory), out);
	data_lay_out(d);
	if (d->fills.failed || d->checks.failed)
		status = bb_no_memory(&e->run->error, "a step's data");
out:
	return status;
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
	int n = 0;

	victims[n++] = d->halves[0].sum;
	victims[n++] = d->halves[0].gathered;
	victims[n++] = d->loss;
	victims[n++] = d->embedding;
	victims[n++] = d->got[data_place(d, BB_AXIS_PP) == 0];
	for (int i = 0; i < 2; i++) {
		victims[n++] = d->replicas[i].mine;
		victims[n++] = d->replicas[i].parameters;
	}
	return d->rows.mine ? n + bb_moe_rows_victims(&d->rows, victims + n) : n;
}

const struct bb_expectation bb_hybrid_expectation = {hybrid_fill, hybrid_victims, hybrid_verify};

/* ---- buffers --------------------------------------------------------------------------------- */

void bb_hybrid_data_buffers(void *own, int rank, const struct bb_operation *o, void **in,
			    void **out)
{
	const struct bb_hybrid_data *d = own;
	const struct bb_hybrid_half *h = &d->halves[o->item % BB_HYBRID_HALVES];
	const struct bb_hybrid_replica *r = &d->replicas[o->item % 2];

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
		bb_kernel_in_place(o, r->place,
				   o->collective == &bb_all_gather ? r->parameters : r->gradients,
				   in, out);
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

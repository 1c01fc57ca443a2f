/*
 * works.c - the computations of a part.
 */
#include "training_kernels/tensor/math.h"
#include "training_kernels/tensor/state.h"

#include <math.h>
#include <string.h>

#define GELU_BITS 10

/* Tokens of the residual stream, and tokens that matrices process, on this rank. */
static size_t stream(const struct bb_tensor_state *s)
{
	return s->scheme->mode == BB_TENSOR_SPLIT ? s->size->tokens : s->size->tokens / s->t;
}

static size_t here(const struct bb_tensor_state *s)
{
	return bb_tensor_splits(s) ? s->size->tokens : s->size->tokens / s->t;
}

/* Widths on this rank: of the projected heads, and of the MLP's inner product. */
static size_t projected(const struct bb_tensor_state *s)
{
	return bb_tensor_splits(s) ? s->size->queries / s->t : s->size->queries;
}

static size_t inner(const struct bb_tensor_state *s)
{
	return bb_tensor_splits(s) ? s->size->ffn / s->t : s->size->ffn;
}

static const double *weights(const struct bb_tensor_state *s, int matrix)
{
	return s->slots[BB_TS_WEIGHTS + matrix];
}

static double *gradients(const struct bb_tensor_state *s, int matrix)
{
	return s->slots[BB_TS_DWEIGHTS + matrix];
}

/* ---- norms and the residual stream; WHOSE: 0 attention, 1 MLP -------------------------------- */

/* The normed input of all tokens that the matrices process. */
static const double *input(const struct bb_tensor_state *s, size_t whose)
{
	return s->slots[(bb_tensor_gathers(s) ? BB_TS_GATHERED : BB_TS_NORM) + whose];
}

static double *block_sum(const struct bb_tensor_state *s, size_t slot, size_t whose)
{
	/* Reduce-scattered there; all-reduced in place, or complete as it is. */
	return s->slots[(bb_tensor_gathers(s) ? slot + 2 : slot) + whose];
}

/* The output of the block. */
static double *output(const struct bb_tensor_state *s, size_t whose)
{
	return whose ? s->slots[BB_TS_Z] : s->slots[BB_TS_X + 1];
}

static const double *output_gradient(const struct bb_tensor_state *s, size_t whose)
{
	return whose ? s->slots[BB_TS_DZ] : s->slots[BB_TS_DX + 1];
}

static const double *gradient(const struct bb_tensor_state *s, size_t whose)
{
	return bb_tensor_gathers(s) ? s->slots[BB_TS_BACK_GATHERED + whose]
				    : output_gradient(s, whose);
}

static void norm(struct bb_tensor_state *s, size_t whose)
{
	bb_tm_norm(s->grid, s->slots[BB_TS_NORM + whose], s->slots[BB_TS_X + whose], stream(s),
		   s->size->hidden);
}

static void add(struct bb_tensor_state *s, size_t whose)
{
	const double *x = s->slots[BB_TS_X + whose], *more = block_sum(s, BB_TS_PARTIAL, whose);
	double *out = output(s, whose);

	for (size_t i = 0; i < stream(s) * s->size->hidden; i++)
		out[i] = x[i] + more[i];
	/* Not kept, as the backward pass gathers it again. */
	if (bb_tensor_gathers(s))
		memset(s->slots[BB_TS_GATHERED + whose], 0,
		       s->size->tokens * s->size->hidden * sizeof(*out));
}

static void back_norm(struct bb_tensor_state *s, size_t whose)
{
	const double *more = output_gradient(s, whose);
	double *dx = s->slots[BB_TS_DX + whose];

	bb_tm_norm_back(s->grid, dx, block_sum(s, BB_TS_BACK_PARTIAL, whose),
			s->slots[BB_TS_X + whose], stream(s), s->size->hidden);
	for (size_t i = 0; i < stream(s) * s->size->hidden; i++)
		dx[i] += more[i];
}

/* ---- the MLP --------------------------------------------------------------------------------- */

static void gelu(bool grid, double *out, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = bb_tm_round(grid, bb_tm_gelu(x[i]), GELU_BITS);
}

static void mlp(struct bb_tensor_state *s, size_t none)
{
	const size_t n = here(s), h = s->size->hidden, f = inner(s);

	bb_tm_product(s->slots[BB_TS_INNER], input(s, 1), weights(s, 4), n, h, f, false);
	gelu(s->grid, s->slots[BB_TS_GELU], s->slots[BB_TS_INNER], n * f);
	bb_tm_product(s->slots[BB_TS_PARTIAL + 1], s->slots[BB_TS_GELU], weights(s, 5), n, f, h,
		      false);
}

static void back_mlp(struct bb_tensor_state *s, size_t none)
{
	const size_t n = here(s), h = s->size->hidden, f = inner(s);
	double *d = s->slots[BB_TS_DINNER];

	bb_tm_product_bt(d, gradient(s, 1), weights(s, 5), n, h, f, false);
	for (size_t i = 0; i < n * f; i++)
		d[i] *= bb_tm_round(s->grid, bb_tm_gelu_slope(s->slots[BB_TS_INNER][i]), GELU_BITS);
	bb_tm_product_bt(s->slots[BB_TS_BACK_PARTIAL + 1], d, weights(s, 4), n, f, h, false);
}

static void mlp_weights(struct bb_tensor_state *s, size_t none)
{
	const size_t n = here(s), h = s->size->hidden, f = inner(s);

	bb_tm_product_at(gradients(s, 4), input(s, 1), s->slots[BB_TS_DINNER], h, n, f);
	bb_tm_product_at(gradients(s, 5), s->slots[BB_TS_GELU], gradient(s, 1), f, n, h);
}

/* The first matrix by rows: GeLU of partial sums. */
static void rows_mlp(struct bb_tensor_state *s, size_t none)
{
	const size_t n = s->size->tokens, h = s->size->hidden, f = s->size->ffn;
	double *const all = s->slots[BB_TS_ROWS_OUT];

	for (size_t i = 0; i < n; i++) {
		double *product = s->slots[BB_TS_ROWS_INNER];

		bb_tm_product(product, s->slots[BB_TS_ROWS_X] + i * (h / s->t),
			      s->slots[BB_TS_ROWS_FIRST], 1, h / s->t, f, false);
		gelu(s->grid, product, product, f);
		bb_tm_product(all + i * h, product, s->slots[BB_TS_ROWS_SECOND], 1, f, h, false);
	}
}

/* ---- attention: projections ------------------------------------------------------------------ */

static struct bb_tm_attention attention(const struct bb_tensor_state *s)
{
	const bool ring = s->scheme->mode == BB_TENSOR_RING;

	return (struct bb_tm_attention){
		.grid = s->grid,
		.rows = ring ? s->size->tokens / s->t : s->size->tokens,
		.heads = ring ? s->size->heads : s->size->heads / s->t,
		.width = s->size->queries / s->size->heads,
	};
}

/* Ulysses: packs the matrix into blocks of each rank's heads, or unpacks it. */
static void reorder(const struct bb_tensor_state *s, double *to, const double *from, bool pack)
{
	const size_t n = here(s), q = s->size->queries, part = q / s->t;

	for (size_t j = 0; j < s->t; j++)
		for (size_t i = 0; i < n; i++) {
			const size_t block = (j * n + i) * part, row = i * q + j * part;

			memcpy(to + (pack ? block : row), from + (pack ? row : block),
			       part * sizeof(*to));
		}
}

/* The ring begins with the rank's own keys and values. */
static void begin_ring(struct bb_tensor_state *s)
{
	const size_t n = here(s) * s->size->queries;

	memcpy(s->slots[BB_TS_BLOCK], s->slots[BB_TS_Q + 1], n * sizeof(double));
	memcpy(s->slots[BB_TS_BLOCK] + n, s->slots[BB_TS_Q + 2], n * sizeof(double));
}

static void project(struct bb_tensor_state *s, size_t none)
{
	for (int m = 0; m < 3; m++) {
		bb_tm_product(s->slots[BB_TS_Q + m], input(s, 0), weights(s, m), here(s),
			      s->size->hidden, projected(s), false);
		if (s->scheme->mode == BB_TENSOR_ULYSSES)
			reorder(s, s->slots[BB_TS_PACKED + m], s->slots[BB_TS_Q + m], true);
	}
	if (s->scheme->mode == BB_TENSOR_RING)
		begin_ring(s);
}

/* Divides by the sums of all blocks of the ring. */
static void divide(struct bb_tensor_state *s)
{
	const size_t width = s->size->queries / s->size->heads;
	double *out = s->slots[BB_TS_OUT];

	for (size_t i = 0; i < here(s) * s->size->queries; i++)
		out[i] /= s->slots[BB_TS_EXP_SUM][i / width];
}

static void project_out(struct bb_tensor_state *s, size_t none)
{
	if (s->scheme->mode == BB_TENSOR_ULYSSES)
		reorder(s, s->slots[BB_TS_OUT], s->slots[BB_TS_OUT_PACKED], false);
	if (s->scheme->mode == BB_TENSOR_RING)
		divide(s);
	bb_tm_product(s->slots[BB_TS_PARTIAL], s->slots[BB_TS_OUT], weights(s, 3), here(s),
		      projected(s), s->size->hidden, false);
}

static void back_out(struct bb_tensor_state *s, size_t none)
{
	bb_tm_product_bt(s->slots[BB_TS_DOUT], gradient(s, 0), weights(s, 3), here(s),
			 s->size->hidden, projected(s), false);
	if (s->scheme->mode == BB_TENSOR_ULYSSES)
		reorder(s, s->slots[BB_TS_OUT_PACKED], s->slots[BB_TS_DOUT], true);
	if (s->scheme->mode == BB_TENSOR_RING) {
		begin_ring(s);
		memset(s->slots[BB_TS_DQ], 0, here(s) * s->size->queries * sizeof(double));
	}
}

static void out_weights(struct bb_tensor_state *s, size_t none)
{
	bb_tm_product_at(gradients(s, 3), s->slots[BB_TS_OUT], gradient(s, 0), projected(s),
			 here(s), s->size->hidden);
}

/* The gradients of keys and values have returned to their rank. */
static void end_ring(struct bb_tensor_state *s)
{
	const size_t n = here(s) * s->size->queries;
	const double *home = s->slots[BB_TS_DBLOCK + (s->t > 1 ? (int)(s->t % 2) : 0)];

	memcpy(s->slots[BB_TS_DQ + 1], home, n * sizeof(double));
	memcpy(s->slots[BB_TS_DQ + 2], home + n, n * sizeof(double));
}

static void back_project_input(struct bb_tensor_state *s)
{
	if (s->scheme->mode == BB_TENSOR_RING)
		end_ring(s);
	for (int m = 0; m < 3; m++) {
		if (s->scheme->mode == BB_TENSOR_ULYSSES)
			reorder(s, s->slots[BB_TS_DQ + m], s->slots[BB_TS_PACKED + m], false);
		bb_tm_product_bt(s->slots[BB_TS_BACK_PARTIAL], s->slots[BB_TS_DQ + m],
				 weights(s, m), here(s), projected(s), s->size->hidden, m > 0);
	}
}

static void project_weights(struct bb_tensor_state *s)
{
	for (int m = 0; m < 3; m++)
		bb_tm_product_at(gradients(s, m), input(s, 0), s->slots[BB_TS_DQ + m],
				 s->size->hidden, here(s), projected(s));
}

/* ---- attention: the core --------------------------------------------------------------------- */

/* Ulysses computes on the result of all-to-alls, others on their projections. */
static void core(struct bb_tensor_state *s, size_t none)
{
	const struct bb_tm_attention a = attention(s);
	const bool ulysses = s->scheme->mode == BB_TENSOR_ULYSSES;
	double **const q = &s->slots[ulysses ? BB_TS_HEADS : BB_TS_Q];

	bb_tm_attend(&a, s->slots[ulysses ? BB_TS_OUT_HEADS : BB_TS_OUT], s->slots[BB_TS_SOFTMAX],
		     q[0], q[1], q[2]);
}

static void back_core(struct bb_tensor_state *s, size_t none)
{
	const struct bb_tm_attention a = attention(s);
	const bool ulysses = s->scheme->mode == BB_TENSOR_ULYSSES;
	double **const q = &s->slots[ulysses ? BB_TS_HEADS : BB_TS_Q];
	double **const d = &s->slots[ulysses ? BB_TS_DHEADS : BB_TS_DQ];

	bb_tm_attend_back(&a, d[0], d[1], d[2], s->slots[ulysses ? BB_TS_DOUT_HEADS : BB_TS_DOUT],
			  s->slots[BB_TS_SOFTMAX], q[0], q[1], q[2]);
}

static void ring_block(struct bb_tensor_state *s, size_t item)
{
	const struct bb_tm_attention a = attention(s);
	const double *k = s->slots[BB_TS_BLOCK + (int)(item % 2)];

	bb_tm_block(&a, s->slots[BB_TS_OUT], s->slots[BB_TS_EXP_SUM], s->slots[BB_TS_MOST],
		    s->slots[BB_TS_Q], k, k + here(s) * s->size->queries, item == 0);
}

static void back_ring_block(struct bb_tensor_state *s, size_t item)
{
	const struct bb_tm_attention a = attention(s);
	const size_t n = here(s) * s->size->queries;
	const double *k = s->slots[BB_TS_BLOCK + (int)(item % 2)];
	double *own = s->slots[BB_TS_OWN];

	bb_tm_block_back(&a, s->slots[BB_TS_DQ], own, own + n, s->slots[BB_TS_DOUT],
			 s->slots[BB_TS_OUT], s->slots[BB_TS_EXP_SUM], s->slots[BB_TS_MOST],
			 s->slots[BB_TS_Q], k, k + n);
}

static void add_own(struct bb_tensor_state *s, size_t item)
{
	double *so_far = s->slots[BB_TS_DBLOCK + (int)(item % 2)];
	const double *own = s->slots[BB_TS_OWN];

	for (size_t i = 0; i < 2 * here(s) * s->size->queries; i++)
		so_far[i] = (item > 0 ? so_far[i] : 0) + own[i];
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void attend(struct bb_tensor_state *s, size_t none)
{
	project(s, 0);
	core(s, 0);
	project_out(s, 0);
}

static void back_attend(struct bb_tensor_state *s, size_t none)
{
	back_out(s, 0);
	back_core(s, 0);
	back_project_input(s);
}

static void attention_weights(struct bb_tensor_state *s, size_t none)
{
	out_weights(s, 0);
	project_weights(s);
}

static void back_project(struct bb_tensor_state *s, size_t none)
{
	back_project_input(s);
	project_weights(s);
}

void bb_tensor_compute(struct bb_tensor_state *s, const struct bb_operation *o)
{
	/* K: WHOSE for works of both halves, else the item. */
	static void (*const works[BB_TW_LOOKUP])(struct bb_tensor_state * s, size_t k) = {
		[BB_TW_NORM] = norm,
		[BB_TW_NORM + 1] = norm,
		[BB_TW_INNER] = attend,
		[BB_TW_INNER + 1] = mlp,
		[BB_TW_ADD] = add,
		[BB_TW_ADD + 1] = add,
		[BB_TW_BACK_INNER] = back_attend,
		[BB_TW_BACK_INNER + 1] = back_mlp,
		[BB_TW_WEIGHTS] = attention_weights,
		[BB_TW_WEIGHTS + 1] = mlp_weights,
		[BB_TW_BACK_NORM] = back_norm,
		[BB_TW_BACK_NORM + 1] = back_norm,
		[BB_TW_PROJECT] = project,
		[BB_TW_CORE] = core,
		[BB_TW_BLOCK] = ring_block,
		[BB_TW_OUTPUT] = project_out,
		[BB_TW_BACK_OUTPUT] = back_out,
		[BB_TW_OUTPUT_WEIGHTS] = out_weights,
		[BB_TW_BACK_CORE] = back_core,
		[BB_TW_BACK_BLOCK] = back_ring_block,
		[BB_TW_BACK_ADD] = add_own,
		[BB_TW_BACK_PROJECT] = back_project,
		[BB_TW_ROWS] = rows_mlp,
	};

	if (o->work >= BB_TW_LOOKUP)
		bb_tensor_compute_vocabulary(s, o->work);
	else
		works[o->work](s, o->work < BB_TW_PROJECT ? (size_t)o->work % 2 : o->item);
}

/* The slots of a communication; equal: in place. */
struct route {
	int in, out;
};

/* That of WORK, with K as in bb_tensor_compute. What is not gathered or scattered is summed in
   place. */
static struct route route_of(const struct bb_tensor_state *s, int work, int k)
{
	static const struct route routes[BB_TW_WORKS] = {
		[BB_TW_GATHER] = {BB_TS_NORM, BB_TS_GATHERED},
		[BB_TW_SUM] = {BB_TS_PARTIAL, BB_TS_SUM},
		[BB_TW_GATHER_AGAIN] = {BB_TS_NORM, BB_TS_GATHERED},
		[BB_TW_BACK_SUM] = {BB_TS_BACK_PARTIAL, BB_TS_BACK_SUM},
		[BB_TW_TO_HEADS] = {BB_TS_PACKED, BB_TS_HEADS},
		[BB_TW_TO_TOKENS] = {BB_TS_OUT_HEADS, BB_TS_OUT_PACKED},
		[BB_TW_BACK_TO_HEADS] = {BB_TS_OUT_PACKED, BB_TS_DOUT_HEADS},
		[BB_TW_BACK_TO_TOKENS] = {BB_TS_DHEADS, BB_TS_PACKED},
		[BB_TW_REDUCE_WEIGHTS] = {BB_TS_DWEIGHTS, BB_TS_DWEIGHTS},
		[BB_TW_EMBED_SUM] = {BB_TS_EMBEDDED, BB_TS_EMBEDDED_SUM},
		[BB_TW_EMBED_GATHER] = {BB_TS_DEMBEDDED, BB_TS_DEMBEDDED_GATHERED},
		[BB_TW_ALL_MAX] = {BB_TS_LOGITS_MOST, BB_TS_LOGITS_MOST},
		[BB_TW_ALL_TARGET] = {BB_TS_TARGET, BB_TS_TARGET},
		[BB_TW_ALL_EXP] = {BB_TS_LOGITS_EXP, BB_TS_LOGITS_EXP},
		[BB_TW_LOGITS] = {BB_TS_LOGITS, BB_TS_LOGITS_ALL},
		[BB_TW_ROWS_SUM] = {BB_TS_ROWS_OUT, BB_TS_ROWS_OUT},
	};
	const int from = k % 2, to = (k + 1) % 2;

	switch (work) {
	case BB_TW_BACK_GATHER:
		return (struct route){k ? BB_TS_DZ : BB_TS_DX + 1, BB_TS_BACK_GATHERED + k};
	case BB_TW_PASS:
		return (struct route){BB_TS_BLOCK + from, BB_TS_BLOCK + to};
	case BB_TW_BACK_PASS:
		return (struct route){BB_TS_DBLOCK + from, BB_TS_DBLOCK + to};
	case BB_TW_SUM:
	case BB_TW_BACK_SUM:
		if (!bb_tensor_gathers(s))
			return (struct route){routes[work].in + k, routes[work].in + k};
		break;
	case BB_TW_EMBED_SUM:
		if (!bb_tensor_gathers(s))
			return (struct route){BB_TS_EMBEDDED_SUM, BB_TS_EMBEDDED_SUM};
	}
	return (struct route){routes[work].in + k, routes[work].out + k};
}

void bb_tensor_buffers(struct bb_tensor_state *s, const struct bb_operation *o, void **in,
		       void **out)
{
	const int whose = o->work % 2;
	const struct route route = o->work < BB_TW_PROJECT ? route_of(s, o->work - whose, whose)
							   : route_of(s, o->work, (int)o->item);

	*in = s->slots[route.in];
	*out = s->slots[route.out];
}

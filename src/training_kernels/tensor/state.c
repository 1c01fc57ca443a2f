/*
 * state.c - the matrices of a rank, their initial numbers, and the computations on them.
 */
#include "training_kernels/tensor/state.h"

#include "core/random.h"
#include "training_kernels/tensor/math.h"

#include <math.h>
#include <string.h>

#define FLASH_SUM 4 /* bytes of a row of scores */
#define GELU_BITS 10
#define EXP_BITS 30 /* of exponentials that are summed over ranks */

const struct bb_tensor_results bb_tensor_results[] = {
	{"attention",
	 BB_TENSOR_LAYER,
	 BB_TS_X + 1,
	 {BB_TS_DX, BB_TS_DWEIGHTS, BB_TS_DWEIGHTS + 1, BB_TS_DWEIGHTS + 2, BB_TS_DWEIGHTS + 3},
	 5},
	{"mlp",
	 BB_TENSOR_LAYER,
	 BB_TS_Z,
	 {BB_TS_DX + 1, BB_TS_DWEIGHTS + 4, BB_TS_DWEIGHTS + 5},
	 3},
	{"embedding", BB_TENSOR_EMBEDDING, BB_TS_EMBEDDED_SUM, {BB_TS_DTABLE}, 1},
	{"loss", BB_TENSOR_LOSS, BB_TS_LOSS, {BB_TS_DLOGITS}, 1},
	{"mlp", BB_TENSOR_MLP, BB_TS_ROWS_OUT, {0}, 0},
	{.part = NULL},
};

/* ---- shapes ---------------------------------------------------------------------------------- */

enum width { ONE, TOKENS, HIDDEN, QUERIES, BOTH, KEYS, FFN, VOCAB, HEADS, SCORES, WIDTHS };

/* The division of a matrix. */
enum share {
	WHOLE,       /* on every rank */
	STREAM,      /* by tokens if the scheme divides tokens; else whole */
	HERE,        /* by tokens unless the scheme splits matrices */
	COLUMNS,     /* by columns if the scheme splits matrices; else whole */
	ROWS,        /* likewise by rows */
	ALL_COLUMNS, /* by columns, always */
	ALL_ROWS,
	PART /* one of t equal parts, whichever */
};

/* Slots FIRST … until the next of the table. */
struct shape {
	uint8_t first;
	uint8_t rows, columns; /* enum width, of the whole */
	uint8_t share;         /* enum share */
	uint8_t only;          /* schemes that have it, as bits of enum bb_tensor_mode */
	uint8_t instead;       /* slot whose memory others have there; 0: none */
};

#define EVERY 0xff
#define SEQUENCE (1 << BB_TENSOR_SEQUENCE)
#define ULYSSES (1 << BB_TENSOR_ULYSSES)
#define RING (1 << BB_TENSOR_RING)

static const struct shape shapes[] = {
	{BB_TS_X, TOKENS, HIDDEN, STREAM, EVERY, 0},
	{BB_TS_GATHERED, TOKENS, HIDDEN, WHOLE, SEQUENCE, BB_TS_NORM},
	{BB_TS_PARTIAL, TOKENS, HIDDEN, HERE, EVERY, 0},
	{BB_TS_SUM, TOKENS, HIDDEN, STREAM, SEQUENCE, BB_TS_PARTIAL},
	{BB_TS_BACK_GATHERED, TOKENS, HIDDEN, WHOLE, SEQUENCE, BB_TS_DX + 1},
	{BB_TS_BACK_PARTIAL, TOKENS, HIDDEN, HERE, EVERY, 0},
	{BB_TS_BACK_SUM, TOKENS, HIDDEN, STREAM, SEQUENCE, BB_TS_BACK_PARTIAL},
	{BB_TS_DX, TOKENS, HIDDEN, STREAM, EVERY, 0},
	{BB_TS_WEIGHTS, HIDDEN, QUERIES, COLUMNS, EVERY, 0},
	{BB_TS_WEIGHTS + 3, QUERIES, HIDDEN, ROWS, EVERY, 0},
	{BB_TS_WEIGHTS + 4, HIDDEN, FFN, COLUMNS, EVERY, 0},
	{BB_TS_WEIGHTS + 5, FFN, HIDDEN, ROWS, EVERY, 0},
	{BB_TS_DWEIGHTS, HIDDEN, QUERIES, COLUMNS, EVERY, 0},
	{BB_TS_DWEIGHTS + 3, QUERIES, HIDDEN, ROWS, EVERY, 0},
	{BB_TS_DWEIGHTS + 4, HIDDEN, FFN, COLUMNS, EVERY, 0},
	{BB_TS_DWEIGHTS + 5, FFN, HIDDEN, ROWS, EVERY, 0},
	{BB_TS_INNER, TOKENS, FFN, PART, EVERY, 0},
	{BB_TS_Q, TOKENS, QUERIES, PART, EVERY, 0},
	{BB_TS_Q + 1, TOKENS, KEYS, PART, EVERY, 0},
	{BB_TS_DQ, TOKENS, QUERIES, PART, EVERY, 0},
	{BB_TS_DQ + 1, TOKENS, KEYS, PART, EVERY, 0},
	{BB_TS_OUT, TOKENS, QUERIES, PART, EVERY, 0},
	{BB_TS_SOFTMAX, HEADS, SCORES, PART, EVERY & ~RING, 0},
	{BB_TS_PACKED, TOKENS, QUERIES, PART, ULYSSES, 0},
	{BB_TS_BLOCK, TOKENS, BOTH, PART, RING, 0},
	{BB_TS_EXP_SUM, TOKENS, HEADS, PART, RING, 0},
	{BB_TS_TABLE, VOCAB, HIDDEN, ALL_ROWS, EVERY, 0},
	{BB_TS_EMBEDDED, TOKENS, HIDDEN, WHOLE, SEQUENCE, BB_TS_EMBEDDED_SUM},
	{BB_TS_EMBEDDED_SUM, TOKENS, HIDDEN, STREAM, EVERY, 0},
	{BB_TS_DEMBEDDED_GATHERED, TOKENS, HIDDEN, WHOLE, SEQUENCE, BB_TS_DEMBEDDED},
	{BB_TS_DTABLE, VOCAB, HIDDEN, ALL_ROWS, EVERY, 0},
	{BB_TS_LOGITS, TOKENS, VOCAB, ALL_COLUMNS, EVERY, 0},
	{BB_TS_LOGITS_ALL, TOKENS, VOCAB, WHOLE, EVERY, 0},
	{BB_TS_LOGITS_MOST, TOKENS, ONE, WHOLE, EVERY, 0},
	{BB_TS_LOSS, TOKENS, ONE, STREAM, EVERY, 0},
	{BB_TS_DLOGITS, TOKENS, VOCAB, ALL_COLUMNS, EVERY, 0},
	{BB_TS_ROWS_X, TOKENS, HIDDEN, ALL_COLUMNS, EVERY, 0},
	{BB_TS_ROWS_FIRST, HIDDEN, FFN, ALL_ROWS, EVERY, 0},
	{BB_TS_ROWS_SECOND, FFN, HIDDEN, STREAM, EVERY, 0},
	{BB_TS_ROWS_INNER, ONE, FFN, WHOLE, EVERY, 0},
	{BB_TS_ROWS_OUT, TOKENS, HIDDEN, WHOLE, EVERY, 0},
	{BB_TS_SLOTS, ONE, ONE, WHOLE, EVERY, 0},
};

static const struct shape *shape_of(int slot)
{
	const struct shape *shape = shapes;

	while (slot >= shape[1].first)
		shape++;
	return shape;
}

static size_t width_of(const struct bb_tensor_size *s, enum width width)
{
	const size_t widths[WIDTHS] = {
		1,       s->tokens, s->hidden, s->queries, 2 * s->queries,
		s->keys, s->ffn,    s->vocab,  s->heads,   s->tokens * s->seq};

	return widths[width];
}

struct bb_tensor_place bb_tensor_place_of(const struct bb_tensor_state *s, enum bb_tensor_slot slot)
{
	const struct shape *shape = shape_of((int)slot);
	const bool splits = bb_tensor_splits(s);
	const bool streams = bb_tensor_gathers(s) || s->scheme->mode == BB_TENSOR_ULYSSES ||
			     s->scheme->mode == BB_TENSOR_RING;
	const bool columns = shape->share == ALL_COLUMNS || (shape->share == COLUMNS && splits);
	const bool rows = shape->share == ALL_ROWS || (shape->share == ROWS && splits) ||
			  (shape->share == STREAM && streams) || (shape->share == HERE && !splits);
	struct bb_tensor_place place = {
		.rows = width_of(s->size, shape->rows),
		.columns = width_of(s->size, shape->columns),
		.whole_columns = width_of(s->size, shape->columns),
	};

	if (rows)
		place.row = s->rank * (place.rows /= s->t);
	if (columns)
		place.column = s->rank * (place.columns /= s->t);
	return place;
}

/* Numbers of a slot; 0 if the scheme does not have it. */
static size_t slot_numbers(const struct bb_tensor_state *s, int slot)
{
	const enum bb_tensor_part of = slot < BB_TS_TABLE    ? BB_TENSOR_LAYER
				       : slot < BB_TS_LOGITS ? BB_TENSOR_EMBEDDING
				       : slot < BB_TS_ROWS_X ? BB_TENSOR_LOSS
							     : BB_TENSOR_MLP;
	const struct shape *shape = shape_of(slot);
	const struct bb_tensor_place p = bb_tensor_place_of(s, (enum bb_tensor_slot)slot);

	if (s->scheme->of != of || !(shape->only >> s->scheme->mode & 1))
		return 0;
	return shape->share == PART ? p.rows * p.columns / s->t : p.rows * p.columns;
}

size_t bb_tensor_state_numbers(const struct bb_tensor_state *s)
{
	size_t all = 0;

	for (int slot = 0; slot < BB_TS_SLOTS; slot++)
		all += slot_numbers(s, slot);
	return all;
}

uint64_t bb_tensor_kept(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *size,
			size_t t, bool dropout)
{
	static const int kept[] = {BB_TS_X,     BB_TS_X + 1, BB_TS_NORM,    BB_TS_NORM + 1,
				   BB_TS_Q,     BB_TS_Q + 1, BB_TS_Q + 2,   BB_TS_OUT,
				   BB_TS_INNER, BB_TS_GELU,  BB_TS_EXP_SUM, BB_TS_MOST};
	const struct bb_tensor_state s = {.scheme = scheme, .size = size, .t = t};
	const uint64_t bytes = bb_dtype_size(size->dtype);
	const uint64_t scores = slot_numbers(&s, BB_TS_SOFTMAX);
	uint64_t all = size->flash ? scores / size->seq * FLASH_SUM : scores * bytes;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		all += slot_numbers(&s, kept[i]) * bytes;
	if (dropout)
		all += 2 * slot_numbers(&s, BB_TS_X) + (size->flash ? 0 : scores * (1 + bytes));
	return all;
}

/* ---- initial numbers ------------------------------------------------------------------------- */

/* An integer from -MOST to MOST that follows from SLOT and I. */
static double drawn(int slot, size_t i, int most)
{
	const uint64_t x =
		bb_random_mix((uint64_t)slot * BB_RANDOM_STEP + i * UINT64_C(0xbf58476d1ce4e5b9));

	return (double)(x % (uint64_t)(2 * most + 1)) - most;
}

static void draw_slot(struct bb_tensor_state *s, enum bb_tensor_slot slot, int most, double unit)
{
	const struct bb_tensor_place p = bb_tensor_place_of(s, slot);
	double *to = s->slots[slot];

	for (size_t r = 0; r < p.rows; r++)
		for (size_t c = 0; c < p.columns; c++)
			*to++ = unit * drawn((int)slot,
					     (p.row + r) * p.whole_columns + p.column + c, most);
}

void bb_tensor_state_fill(struct bb_tensor_state *s, double *memory)
{
	s->memory = memory;
	memset(memory, 0, bb_tensor_state_numbers(s) * sizeof(*memory));
	for (int slot = 0; slot < BB_TS_SLOTS; slot++) {
		s->slots[slot] = memory;
		memory += slot_numbers(s, slot);
	}
	for (int slot = 0; slot < BB_TS_SLOTS; slot++) {
		const struct shape *shape = shape_of(slot);

		if (shape->instead && slot_numbers(s, slot) == 0)
			s->slots[slot] = s->slots[shape->instead + slot - shape->first];
	}
	switch (s->scheme->of) {
	case BB_TENSOR_LAYER:
		draw_slot(s, BB_TS_X, 8, 0.25);
		draw_slot(s, BB_TS_DZ, 8, 0.125);
		for (int m = 0; m < BB_TENSOR_MATRICES; m++)
			draw_slot(s, (enum bb_tensor_slot)(BB_TS_WEIGHTS + m), 8, 1.0 / 32);
		break;
	case BB_TENSOR_EMBEDDING:
		draw_slot(s, BB_TS_TABLE, 100, 1);
		draw_slot(s, BB_TS_DEMBEDDED, 100, 1);
		break;
	case BB_TENSOR_LOSS:
		draw_slot(s, BB_TS_LOGITS, 64, 0.125);
		break;
	case BB_TENSOR_MLP:
		draw_slot(s, BB_TS_ROWS_X, 8, 0.25);
		draw_slot(s, BB_TS_ROWS_FIRST, 8, 1.0 / 32);
		draw_slot(s, BB_TS_ROWS_SECOND, 8, 1.0 / 32);
		break;
	}
}

/* ---- computations ---------------------------------------------------------------------------- */

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

static void norm(struct bb_tensor_state *s, size_t whose)
{
	bb_tm_norm(s->grid, s->slots[BB_TS_NORM + whose], s->slots[BB_TS_X + whose], stream(s),
		   s->size->hidden);
}

static void add(struct bb_tensor_state *s, size_t whose)
{
	const double *x = s->slots[BB_TS_X + whose], *more = s->slots[BB_TS_SUM + whose];
	double *out = s->slots[BB_TS_X + whose + 1];

	for (size_t i = 0; i < stream(s) * s->size->hidden; i++)
		out[i] = x[i] + more[i];
	/* Not kept, as the backward pass gathers it again. */
	if (bb_tensor_gathers(s))
		memset(s->slots[BB_TS_GATHERED + whose], 0,
		       s->size->tokens * s->size->hidden * sizeof(*out));
}

static void back_norm(struct bb_tensor_state *s, size_t whose)
{
	const double *more = s->slots[BB_TS_DX + whose + 1];
	double *dx = s->slots[BB_TS_DX + whose];

	bb_tm_norm_back(s->grid, dx, s->slots[BB_TS_BACK_SUM + whose], s->slots[BB_TS_X + whose],
			stream(s), s->size->hidden);
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

	bb_tm_product(s->slots[BB_TS_INNER], s->slots[BB_TS_GATHERED + 1], weights(s, 4), n, h, f,
		      false);
	gelu(s->grid, s->slots[BB_TS_GELU], s->slots[BB_TS_INNER], n * f);
	bb_tm_product(s->slots[BB_TS_PARTIAL + 1], s->slots[BB_TS_GELU], weights(s, 5), n, f, h,
		      false);
}

static void back_mlp(struct bb_tensor_state *s, size_t none)
{
	const size_t n = here(s), h = s->size->hidden, f = inner(s);
	double *d = s->slots[BB_TS_DINNER];

	bb_tm_product_bt(d, s->slots[BB_TS_BACK_GATHERED + 1], weights(s, 5), n, h, f, false);
	for (size_t i = 0; i < n * f; i++)
		d[i] *= bb_tm_round(s->grid, bb_tm_gelu_slope(s->slots[BB_TS_INNER][i]), GELU_BITS);
	bb_tm_product_bt(s->slots[BB_TS_BACK_PARTIAL + 1], d, weights(s, 4), n, f, h, false);
}

static void mlp_weights(struct bb_tensor_state *s, size_t none)
{
	const size_t n = here(s), h = s->size->hidden, f = inner(s);

	bb_tm_product_at(gradients(s, 4), s->slots[BB_TS_GATHERED + 1], s->slots[BB_TS_DINNER], h,
			 n, f);
	bb_tm_product_at(gradients(s, 5), s->slots[BB_TS_GELU], s->slots[BB_TS_BACK_GATHERED + 1],
			 f, n, h);
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
		bb_tm_product(s->slots[BB_TS_Q + m], s->slots[BB_TS_GATHERED], weights(s, m),
			      here(s), s->size->hidden, projected(s), false);
		if (s->scheme->mode == BB_TENSOR_ULYSSES)
			reorder(s, s->slots[BB_TS_PACKED + m], s->slots[BB_TS_Q + m], true);
	}
	if (s->scheme->mode == BB_TENSOR_RING)
		begin_ring(s);
}

static void project_out(struct bb_tensor_state *s, size_t none)
{
	const size_t n = here(s), width = s->size->queries / s->size->heads;

	if (s->scheme->mode == BB_TENSOR_ULYSSES)
		reorder(s, s->slots[BB_TS_OUT], s->slots[BB_TS_OUT_PACKED], false);
	/* By the sums of all blocks of the ring. */
	for (size_t i = 0; s->scheme->mode == BB_TENSOR_RING && i < n * s->size->queries; i++)
		s->slots[BB_TS_OUT][i] /= s->slots[BB_TS_EXP_SUM][i / width];
	bb_tm_product(s->slots[BB_TS_PARTIAL], s->slots[BB_TS_OUT], weights(s, 3), n, projected(s),
		      s->size->hidden, false);
}

static void back_out(struct bb_tensor_state *s, size_t none)
{
	bb_tm_product_bt(s->slots[BB_TS_DOUT], s->slots[BB_TS_BACK_GATHERED], weights(s, 3),
			 here(s), s->size->hidden, projected(s), false);
	if (s->scheme->mode == BB_TENSOR_ULYSSES)
		reorder(s, s->slots[BB_TS_OUT_PACKED], s->slots[BB_TS_DOUT], true);
	if (s->scheme->mode == BB_TENSOR_RING) {
		begin_ring(s);
		memset(s->slots[BB_TS_DQ], 0, here(s) * s->size->queries * sizeof(double));
	}
}

static void out_weights(struct bb_tensor_state *s, size_t none)
{
	bb_tm_product_at(gradients(s, 3), s->slots[BB_TS_OUT], s->slots[BB_TS_BACK_GATHERED],
			 projected(s), here(s), s->size->hidden);
}

static void back_project_input(struct bb_tensor_state *s)
{
	const size_t n = here(s) * s->size->queries;

	/* The gradients of keys and values have returned to their rank. */
	if (s->scheme->mode == BB_TENSOR_RING) {
		const double *home = s->slots[BB_TS_DBLOCK + (s->t > 1 ? (int)(s->t % 2) : 0)];

		memcpy(s->slots[BB_TS_DQ + 1], home, n * sizeof(double));
		memcpy(s->slots[BB_TS_DQ + 2], home + n, n * sizeof(double));
	}
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
		bb_tm_product_at(gradients(s, m), s->slots[BB_TS_GATHERED], s->slots[BB_TS_DQ + m],
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

/* ---- embedding and loss ---------------------------------------------------------------------- */

/* The token at place I, the target of the one before it. */
static size_t token(const struct bb_tensor_state *s, size_t i)
{
	return (i * 2654435761u + 7) % s->size->vocab;
}

static size_t vocab_part(const struct bb_tensor_state *s)
{
	return s->size->vocab / s->t;
}

/* Does this rank have ENTRY of the vocabulary? *ROW = its row on the rank that has it. */
static bool is_mine(const struct bb_tensor_state *s, size_t entry, size_t *row)
{
	*row = entry % vocab_part(s);
	return entry / vocab_part(s) == s->rank;
}

static void embedding_look_up(struct bb_tensor_state *s, size_t none)
{
	const size_t h = s->size->hidden;
	double *out = s->slots[BB_TS_EMBEDDED];
	size_t row;

	for (size_t i = 0; i < s->size->tokens; i++) {
		if (is_mine(s, token(s, i), &row))
			memcpy(out + i * h, s->slots[BB_TS_TABLE] + row * h, h * sizeof(*out));
		else
			memset(out + i * h, 0, h * sizeof(*out));
	}
}

static void back_look_up(struct bb_tensor_state *s, size_t none)
{
	const size_t h = s->size->hidden;
	const double *g = s->slots[BB_TS_DEMBEDDED_GATHERED];
	double *table = s->slots[BB_TS_DTABLE];
	size_t row;

	memset(table, 0, vocab_part(s) * h * sizeof(*table));
	for (size_t i = 0; i < s->size->tokens; i++)
		for (size_t c = 0; is_mine(s, token(s, i), &row) && c < h; c++)
			table[row * h + c] += g[i * h + c];
}

/* Logit ENTRY of token I, of all that are gathered. */
static double gathered_logit(const struct bb_tensor_state *s, size_t i, size_t entry)
{
	const size_t v = vocab_part(s);

	return s->slots[BB_TS_LOGITS_ALL][(entry / v * s->size->tokens + i) * v + entry % v];
}

static void loss_most(struct bb_tensor_state *s, size_t none)
{
	const size_t v = vocab_part(s);

	for (size_t i = 0; i < s->size->tokens; i++) {
		const double *l = s->slots[BB_TS_LOGITS] + i * v;
		double most = l[0];

		for (size_t c = 1; c < v; c++)
			most = fmax(most, l[c]);
		s->slots[BB_TS_LOGITS_MOST][i] = most;
	}
}

static double exponential(const struct bb_tensor_state *s, size_t i, double logit)
{
	return bb_tm_round(s->grid, exp(logit - s->slots[BB_TS_LOGITS_MOST][i]), EXP_BITS);
}

static void loss_exp(struct bb_tensor_state *s, size_t none)
{
	const size_t v = vocab_part(s);
	size_t row;

	for (size_t i = 0; i < s->size->tokens; i++) {
		const double *l = s->slots[BB_TS_LOGITS] + i * v;
		double sum = 0;

		for (size_t c = 0; c < v; c++)
			sum += exponential(s, i, l[c]);
		s->slots[BB_TS_LOGITS_EXP][i] = sum;
		s->slots[BB_TS_TARGET][i] = is_mine(s, token(s, i + 1), &row) ? l[row] : 0;
	}
}

static void loss_end(struct bb_tensor_state *s, size_t none)
{
	const size_t v = vocab_part(s);
	size_t row;

	for (size_t i = 0; i < s->size->tokens; i++) {
		const double sum = s->slots[BB_TS_LOGITS_EXP][i];
		const bool mine = is_mine(s, token(s, i + 1), &row);

		s->slots[BB_TS_LOSS][i] =
			log(sum) + s->slots[BB_TS_LOGITS_MOST][i] - s->slots[BB_TS_TARGET][i];
		for (size_t c = 0; c < v; c++)
			s->slots[BB_TS_DLOGITS][i * v + c] =
				exponential(s, i, s->slots[BB_TS_LOGITS][i * v + c]) / sum -
				(mine && c == row);
	}
}

/* All logits are here, so no all-reduce is needed. */
static void loss_whole(struct bb_tensor_state *s, size_t none)
{
	for (size_t i = 0; i < s->size->tokens; i++) {
		double most = gathered_logit(s, i, 0), sum = 0;

		for (size_t w = 1; w < s->size->vocab; w++)
			most = fmax(most, gathered_logit(s, i, w));
		s->slots[BB_TS_LOGITS_MOST][i] = most;
		for (size_t w = 0; w < s->size->vocab; w++)
			sum += exponential(s, i, gathered_logit(s, i, w));
		s->slots[BB_TS_LOGITS_EXP][i] = sum;
		s->slots[BB_TS_TARGET][i] = gathered_logit(s, i, token(s, i + 1));
	}
	loss_end(s, none);
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
	static void (*const works[BB_TW_WORKS])(struct bb_tensor_state * s, size_t k) = {
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
		[BB_TW_LOOKUP] = embedding_look_up,
		[BB_TW_EMBED_BACK] = back_look_up,
		[BB_TW_LOSS_MAX] = loss_most,
		[BB_TW_LOSS_EXP] = loss_exp,
		[BB_TW_LOSS_END] = loss_end,
		[BB_TW_LOSS_WHOLE] = loss_whole,
	};

	works[o->work](s, o->work < BB_TW_PROJECT ? (size_t)o->work % 2 : o->item);
}

void bb_tensor_buffers(struct bb_tensor_state *s, const struct bb_operation *o, void **in,
		       void **out)
{
	/* What is not gathered or scattered is summed in place. */
	static const struct {
		uint8_t in, out;
	} routes[BB_TW_WORKS] = {
		[BB_TW_GATHER] = {BB_TS_NORM, BB_TS_GATHERED},
		[BB_TW_SUM] = {BB_TS_PARTIAL, BB_TS_SUM},
		[BB_TW_BACK_GATHER] = {BB_TS_DX + 1, BB_TS_BACK_GATHERED},
		[BB_TW_GATHER_AGAIN] = {BB_TS_NORM, BB_TS_GATHERED},
		[BB_TW_BACK_SUM] = {BB_TS_BACK_PARTIAL, BB_TS_BACK_SUM},
		[BB_TW_TO_HEADS] = {BB_TS_PACKED, BB_TS_HEADS},
		[BB_TW_TO_TOKENS] = {BB_TS_OUT_HEADS, BB_TS_OUT_PACKED},
		[BB_TW_PASS] = {BB_TS_BLOCK, BB_TS_BLOCK},
		[BB_TW_BACK_TO_HEADS] = {BB_TS_OUT_PACKED, BB_TS_DOUT_HEADS},
		[BB_TW_BACK_TO_TOKENS] = {BB_TS_DHEADS, BB_TS_PACKED},
		[BB_TW_BACK_PASS] = {BB_TS_DBLOCK, BB_TS_DBLOCK},
		[BB_TW_REDUCE_WEIGHTS] = {BB_TS_DWEIGHTS, BB_TS_DWEIGHTS},
		[BB_TW_EMBED_SUM] = {BB_TS_EMBEDDED, BB_TS_EMBEDDED_SUM},
		[BB_TW_EMBED_GATHER] = {BB_TS_DEMBEDDED, BB_TS_DEMBEDDED_GATHERED},
		[BB_TW_ALL_MAX] = {BB_TS_LOGITS_MOST, BB_TS_LOGITS_MOST},
		[BB_TW_ALL_TARGET] = {BB_TS_TARGET, BB_TS_TARGET},
		[BB_TW_ALL_EXP] = {BB_TS_LOGITS_EXP, BB_TS_LOGITS_EXP},
		[BB_TW_LOGITS] = {BB_TS_LOGITS, BB_TS_LOGITS_ALL},
		[BB_TW_ROWS_SUM] = {BB_TS_ROWS_OUT, BB_TS_ROWS_OUT},
	};
	const bool twice = o->work < BB_TW_PROJECT; /* of both halves */
	const bool turns = o->work == BB_TW_PASS || o->work == BB_TW_BACK_PASS;
	const int work = twice ? o->work - o->work % 2 : o->work;
	const size_t k = twice ? (size_t)o->work % 2 : o->item;

	*in = s->slots[routes[work].in + (turns ? k % 2 : k)];
	*out = s->slots[routes[work].out + (turns ? (k + 1) % 2 : k)];
}

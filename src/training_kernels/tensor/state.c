#include "training_kernels/tensor/state.h"

#include "core/random.h"

#include <string.h>

#define FLASH_SUM 4 /* bytes of a row of scores */

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

/* The division of a matrix. */
enum share {
	WHOLE,   /* on every rank */
	TOKENS,  /* by tokens if the scheme divides tokens; else whole */
	COLUMNS, /* by columns if the scheme splits matrices; else whole */
	ROWS,
	ALL_COLUMNS, /* by columns, always */
	ALL_ROWS
};

struct shape {
	size_t rows, columns; /* whole */
	enum share share;
};

static bool by_tokens(const struct bb_tensor_state *s)
{
	return bb_tensor_gathers(s) || s->scheme->mode == BB_TENSOR_ULYSSES ||
	       s->scheme->mode == BB_TENSOR_RING;
}

static struct shape of_matrix(const struct bb_tensor_state *s, int matrix)
{
	const size_t h = s->size->hidden, q = s->size->queries, f = s->size->ffn;

	if (matrix < 3)
		return (struct shape){h, q, COLUMNS};
	if (matrix == 3)
		return (struct shape){q, h, ROWS};
	return matrix == 4 ? (struct shape){h, f, COLUMNS} : (struct shape){f, h, ROWS};
}

/* Shapes that all schemes share: of initial matrices, of results, and of all matrices that a layer
   does not have. */
static struct shape common_shape(const struct bb_tensor_state *s, int slot)
{
	const size_t n = s->size->tokens, h = s->size->hidden, v = s->size->vocab;

	if (slot >= BB_TS_WEIGHTS && slot < BB_TS_DWEIGHTS)
		return of_matrix(s, slot - BB_TS_WEIGHTS);
	if (slot >= BB_TS_DWEIGHTS && slot < BB_TS_INNER)
		return of_matrix(s, slot - BB_TS_DWEIGHTS);
	switch (slot) {
	case BB_TS_TABLE:
	case BB_TS_DTABLE:
		return (struct shape){v, h, ALL_ROWS};
	case BB_TS_LOGITS:
	case BB_TS_DLOGITS:
		return (struct shape){n, v, ALL_COLUMNS};
	case BB_TS_LOSS:
		return (struct shape){n, 1, TOKENS};
	case BB_TS_ROWS_X:
		return (struct shape){n, h, ALL_COLUMNS};
	case BB_TS_ROWS_FIRST:
		return (struct shape){h, s->size->ffn, ALL_ROWS};
	case BB_TS_ROWS_SECOND:
		return (struct shape){s->size->ffn, h, TOKENS};
	case BB_TS_ROWS_INNER:
		return (struct shape){1, s->size->ffn, WHOLE};
	case BB_TS_EMBEDDED:
	case BB_TS_DEMBEDDED_GATHERED:
	case BB_TS_ROWS_OUT:
		return (struct shape){n, h, WHOLE};
	case BB_TS_LOGITS_ALL:
		return (struct shape){n, v, WHOLE};
	case BB_TS_LOGITS_MOST:
	case BB_TS_TARGET:
	case BB_TS_LOGITS_EXP:
		return (struct shape){n, 1, WHOLE};
	default:
		return (struct shape){n, h, TOKENS};
	}
}

struct bb_tensor_place bb_tensor_place_of(const struct bb_tensor_state *s, enum bb_tensor_slot slot)
{
	const struct shape shape = common_shape(s, (int)slot);
	const bool columns =
		shape.share == ALL_COLUMNS || (shape.share == COLUMNS && bb_tensor_splits(s));
	const bool rows = shape.share == ALL_ROWS || (shape.share == ROWS && bb_tensor_splits(s)) ||
			  (shape.share == TOKENS && by_tokens(s));
	struct bb_tensor_place place = {.rows = rows ? shape.rows / s->t : shape.rows,
					.columns = columns ? shape.columns / s->t : shape.columns,
					.whole_columns = shape.columns};

	place.row = rows ? s->rank * place.rows : 0;
	place.column = columns ? s->rank * place.columns : 0;
	return place;
}

static size_t place_numbers(const struct bb_tensor_state *s, int slot)
{
	const struct bb_tensor_place p = bb_tensor_place_of(s, (enum bb_tensor_slot)slot);

	return p.rows * p.columns;
}

/* Numbers of a slot of a layer; 0 if the scheme does not have it. */
static size_t layer_numbers(const struct bb_tensor_state *s, int slot)
{
	const size_t n = s->size->tokens, h = s->size->hidden, q = s->size->queries, t = s->t;
	const size_t rows = by_tokens(s) ? n / t : n;
	const size_t here = bb_tensor_splits(s) ? n : n / t; /* tokens that go through matrices */
	const bool sequence = bb_tensor_gathers(s);
	const bool ulysses = s->scheme->mode == BB_TENSOR_ULYSSES;
	const bool ring = s->scheme->mode == BB_TENSOR_RING;

	if (slot >= BB_TS_WEIGHTS && slot < BB_TS_INNER)
		return place_numbers(s, slot);
	if (slot >= BB_TS_GATHERED && slot < BB_TS_PARTIAL)
		return sequence ? n * h : 0;
	if (slot >= BB_TS_BACK_GATHERED && slot < BB_TS_BACK_PARTIAL)
		return sequence ? n * h : 0;
	if ((slot >= BB_TS_PARTIAL && slot < BB_TS_SUM) ||
	    (slot >= BB_TS_BACK_PARTIAL && slot < BB_TS_BACK_SUM))
		return here * h;
	if (slot < BB_TS_WEIGHTS)
		return rows * h;
	if (slot < BB_TS_Q)
		return here * (bb_tensor_splits(s) ? s->size->ffn / t : s->size->ffn);
	if (slot < BB_TS_OUT && (slot - BB_TS_Q) % 3 > 0)
		return n * s->size->keys / t;
	if (slot < BB_TS_SOFTMAX)
		return n * q / t;
	if (slot == BB_TS_SOFTMAX)
		return ring ? 0 : s->size->heads / t * n * s->size->seq;
	if (slot < BB_TS_BLOCK)
		return ulysses ? n * q / t : 0;
	if (slot < BB_TS_EXP_SUM)
		return ring ? 2 * n * q / t : 0;
	return ring ? n / t * s->size->heads : 0;
}

static bool slot_belongs(const struct bb_tensor_state *s, int slot)
{
	switch (s->scheme->of) {
	case BB_TENSOR_LAYER:
		return slot < BB_TS_TABLE;
	case BB_TENSOR_EMBEDDING:
		return slot >= BB_TS_TABLE && slot < BB_TS_LOGITS;
	case BB_TENSOR_LOSS:
		return slot >= BB_TS_LOGITS && slot < BB_TS_ROWS_X;
	case BB_TENSOR_MLP:
		break;
	}
	return slot >= BB_TS_ROWS_X;
}

static size_t numbers(const struct bb_tensor_state *s, int slot)
{
	if (!slot_belongs(s, slot))
		return 0;
	return slot < BB_TS_TABLE ? layer_numbers(s, slot) : place_numbers(s, slot);
}

size_t bb_tensor_state_numbers(const struct bb_tensor_state *s)
{
	size_t all = 0;

	for (int slot = 0; slot < BB_TS_SLOTS; slot++)
		all += numbers(s, slot);
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
	const uint64_t scores = layer_numbers(&s, BB_TS_SOFTMAX);
	uint64_t all = size->flash ? scores / size->seq * FLASH_SUM : scores * bytes;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		all += layer_numbers(&s, kept[i]) * bytes;
	if (dropout)
		all += 2 * layer_numbers(&s, BB_TS_X) + (size->flash ? 0 : scores * (1 + bytes));
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
		memory += numbers(s, slot);
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

/*
 * part.c - what can be split; the steps and matrices of the parts.
 */
#include "training_kernels/tensor/part.h"

#define FLASH_SUM 4 /* bytes of a row of scores */

#define EVERY 0xff
#define SPLIT (1 << BB_TENSOR_SPLIT)
#define SEQUENCE (1 << BB_TENSOR_SEQUENCE)
#define ULYSSES (1 << BB_TENSOR_ULYSSES)
#define RING (1 << BB_TENSOR_RING)
#define GATHER (1 << BB_TENSOR_GATHER)

const struct bb_tensor_scheme bb_tensor_schemes[] = {
	{"layer", "tensor", "attention by heads, MLP by columns, then rows", BB_TENSOR_LAYER,
	 BB_TENSOR_SPLIT},
	{"layer", "sequence", "the same, and by tokens between the matrices", BB_TENSOR_LAYER,
	 BB_TENSOR_SEQUENCE},
	{"layer", "ulysses", "by tokens; attention by heads, between all-to-alls", BB_TENSOR_LAYER,
	 BB_TENSOR_ULYSSES},
	{"layer", "ring", "by tokens; blocks of keys and values go around the ring",
	 BB_TENSOR_LAYER, BB_TENSOR_RING},
	{"embedding", "tensor", "by vocabulary, summed", BB_TENSOR_EMBEDDING, BB_TENSOR_SPLIT},
	{"embedding", "sequence", "by vocabulary, summed for the tokens of each rank",
	 BB_TENSOR_EMBEDDING, BB_TENSOR_SEQUENCE},
	{"loss", "tensor", "cross-entropy of logits by vocabulary: three small all-reduces",
	 BB_TENSOR_LOSS, BB_TENSOR_SPLIT},
	{"loss", "gather", "cross-entropy of logits that every rank gathers", BB_TENSOR_LOSS,
	 BB_TENSOR_GATHER},
	{"mlp", "rows", "first matrix by rows: GeLU of partial sums, which is wrong", BB_TENSOR_MLP,
	 BB_TENSOR_ROWS},
	{.part = NULL},
};

#define STEP(part, schemes, kind_, out_, in_, ...)                                                 \
	{                                                                                          \
		.of = BB_TENSOR_##part, .modes = schemes, .kind = BB_TK_##kind_,                   \
		.out = BB_TS_##out_, .in = BB_TS_##in_, ##__VA_ARGS__                              \
	}
#define COST(forward, backward)                                                                    \
	.cost = offsetof(struct bb_tensor_size, forward),                                          \
	.back = offsetof(struct bb_tensor_size, backward)

const struct bb_tensor_step bb_tensor_steps[BB_TENSOR_STEPS] = {
	STEP(LAYER, EVERY, NORM, NORM, X),
	STEP(LAYER, EVERY, GATHER, GATHERED, NORM),
	STEP(LAYER, EVERY, PRODUCT, Q, GATHERED, .with = BB_TS_WEIGHTS, .more = 2,
	     COST(project, project)),
	STEP(LAYER, SPLIT | SEQUENCE, CORE, OUT, Q, COST(core, core_back)),
	STEP(LAYER, ULYSSES, PACK, PACKED, Q, .more = 2),
	STEP(LAYER, ULYSSES, EXCHANGE, HEADS, PACKED, .more = 2),
	STEP(LAYER, ULYSSES, CORE, OUT_HEADS, HEADS, COST(core, core_back)),
	STEP(LAYER, ULYSSES, EXCHANGE, OUT_PACKED, OUT_HEADS),
	STEP(LAYER, ULYSSES, UNPACK, OUT, OUT_PACKED),
	STEP(LAYER, RING, RING, OUT, Q, COST(core, core_back)),
	STEP(LAYER, EVERY, PRODUCT, PARTIAL, OUT, .with = BB_TS_WEIGHTS + 3, COST(output, output)),
	STEP(LAYER, EVERY, SUM, SUM, PARTIAL),
	STEP(LAYER, EVERY, ADD, X + 1, X, .with = BB_TS_SUM),

	/* The cost of the MLP is that of its first product. */
	STEP(LAYER, EVERY, NORM, NORM + 1, X + 1),
	STEP(LAYER, EVERY, GATHER, GATHERED + 1, NORM + 1),
	STEP(LAYER, EVERY, PRODUCT, INNER, GATHERED + 1, .with = BB_TS_WEIGHTS + 4, COST(mlp, mlp)),
	STEP(LAYER, EVERY, GELU, GELU, INNER),
	STEP(LAYER, EVERY, PRODUCT, PARTIAL + 1, GELU, .with = BB_TS_WEIGHTS + 5),
	STEP(LAYER, EVERY, SUM, SUM + 1, PARTIAL + 1),
	STEP(LAYER, EVERY, ADD, X + 2, X + 1, .with = BB_TS_SUM + 1),

	STEP(EMBEDDING, EVERY, LOOK_UP, EMBEDDED, TABLE),
	STEP(EMBEDDING, EVERY, SUM, EMBEDDED_SUM, EMBEDDED),

	STEP(LOSS, GATHER, GATHER, LOGITS_ALL, LOGITS),
	STEP(LOSS, EVERY, LOSS_MOST, LOGITS_MOST, LOGITS),
	STEP(LOSS, SPLIT, MOST, LOGITS_MOST, LOGITS_MOST),
	STEP(LOSS, EVERY, LOSS_EXP, LOGITS_EXP, LOGITS),
	STEP(LOSS, SPLIT, TOTAL, TARGET, TARGET),
	STEP(LOSS, SPLIT, TOTAL, LOGITS_EXP, LOGITS_EXP),
	STEP(LOSS, EVERY, LOSS_END, LOSS, LOGITS),

	STEP(MLP, EVERY, PRODUCT, ROWS_INNER, ROWS_X, .with = BB_TS_ROWS_FIRST, COST(mlp, mlp)),
	STEP(MLP, EVERY, GELU, ROWS_GELU, ROWS_INNER),
	STEP(MLP, EVERY, PRODUCT, ROWS_OUT, ROWS_GELU, .with = BB_TS_ROWS_SECOND),
	STEP(MLP, EVERY, TOTAL, ROWS_OUT, ROWS_OUT),
};

const struct bb_tensor_results bb_tensor_results[] = {
	{"attention", BB_TENSOR_LAYER, BB_TS_X + 1, 5, BB_TS_X, BB_TS_WEIGHTS},
	{"mlp", BB_TENSOR_LAYER, BB_TS_X + 2, 3, BB_TS_X + 1, BB_TS_WEIGHTS + 4},
	{"embedding", BB_TENSOR_EMBEDDING, BB_TS_EMBEDDED_SUM, 1, BB_TS_TABLE, 0},
	{"loss", BB_TENSOR_LOSS, BB_TS_LOSS, 1, BB_TS_LOGITS, 0},
	{"mlp", BB_TENSOR_MLP, BB_TS_ROWS_OUT, 0, 0, 0},
	{.part = NULL},
};

/* ---- shapes ---------------------------------------------------------------------------------- */

enum width { ONE, TOKENS, HIDDEN, QUERIES, KEYS, BOTH, FFN, VOCAB, HEADS, SCORES, WIDTHS };

/* The division of a matrix. */
enum share {
	WHOLE,       /* on every rank */
	STREAM,      /* by tokens if the scheme divides tokens; else whole */
	HERE,        /* by tokens unless the scheme splits matrices */
	COLUMNS,     /* by columns if the scheme splits matrices; else whole */
	ROWS,        /* likewise by rows */
	ACROSS,      /* by columns if the scheme splits matrices; else by tokens */
	ALL_COLUMNS, /* by columns, always */
	ALL_ROWS,
	PART /* one of t equal parts, whichever */
};

/* Slots FIRST … until the next of the table, and their gradients. */
struct shape {
	uint8_t first;
	uint8_t rows, columns; /* enum width, of the whole */
	uint8_t share;         /* enum share */
	uint8_t only;          /* schemes that have it, as bits of enum bb_tensor_mode */
	int8_t instead;        /* the earlier slot that others have there; below 0: none */
};

static const struct shape shapes[] = {
	{BB_TS_X, TOKENS, HIDDEN, STREAM, EVERY, -1},
	{BB_TS_GATHERED, TOKENS, HIDDEN, WHOLE, SEQUENCE, BB_TS_NORM},
	{BB_TS_PARTIAL, TOKENS, HIDDEN, HERE, EVERY, -1},
	{BB_TS_SUM, TOKENS, HIDDEN, STREAM, SEQUENCE, BB_TS_PARTIAL},
	{BB_TS_WEIGHTS, HIDDEN, QUERIES, COLUMNS, EVERY, -1},
	{BB_TS_WEIGHTS + 1, HIDDEN, KEYS, COLUMNS, EVERY, -1},
	{BB_TS_WEIGHTS + 3, QUERIES, HIDDEN, ROWS, EVERY, -1},
	{BB_TS_WEIGHTS + 4, HIDDEN, FFN, COLUMNS, EVERY, -1},
	{BB_TS_WEIGHTS + 5, FFN, HIDDEN, ROWS, EVERY, -1},
	{BB_TS_INNER, TOKENS, FFN, ACROSS, EVERY, -1},
	{BB_TS_Q, TOKENS, QUERIES, ACROSS, EVERY, -1},
	{BB_TS_Q + 1, TOKENS, KEYS, ACROSS, EVERY, -1},
	{BB_TS_OUT, TOKENS, QUERIES, ACROSS, EVERY, -1},
	{BB_TS_SOFTMAX, HEADS, SCORES, PART, EVERY & ~RING, -1},
	{BB_TS_PACKED, TOKENS, QUERIES, PART, ULYSSES, -1},
	{BB_TS_PACKED + 1, TOKENS, KEYS, PART, ULYSSES, -1},
	{BB_TS_HEADS, TOKENS, QUERIES, PART, ULYSSES, -1},
	{BB_TS_HEADS + 1, TOKENS, KEYS, PART, ULYSSES, -1},
	{BB_TS_OUT_HEADS, TOKENS, QUERIES, PART, ULYSSES, -1},
	{BB_TS_BLOCK, TOKENS, BOTH, PART, RING, -1},
	{BB_TS_EXP_SUM, TOKENS, HEADS, PART, RING, -1},
	{BB_TS_TABLE, VOCAB, HIDDEN, ALL_ROWS, EVERY, -1},
	{BB_TS_EMBEDDED_SUM, TOKENS, HIDDEN, STREAM, EVERY, -1},
	{BB_TS_EMBEDDED, TOKENS, HIDDEN, WHOLE, SEQUENCE, BB_TS_EMBEDDED_SUM},
	{BB_TS_LOGITS, TOKENS, VOCAB, ALL_COLUMNS, EVERY, -1},
	{BB_TS_LOGITS_ALL, TOKENS, VOCAB, WHOLE, GATHER, -1},
	{BB_TS_LOGITS_MOST, TOKENS, ONE, WHOLE, EVERY, -1},
	{BB_TS_ROWS_X, TOKENS, HIDDEN, ALL_COLUMNS, EVERY, -1},
	{BB_TS_ROWS_FIRST, HIDDEN, FFN, ALL_ROWS, EVERY, -1},
	{BB_TS_ROWS_SECOND, FFN, HIDDEN, WHOLE, EVERY, -1},
	{BB_TS_ROWS_INNER, TOKENS, FFN, WHOLE, EVERY, -1},
	{BB_TS_ROWS_OUT, TOKENS, HIDDEN, WHOLE, EVERY, -1},
	{BB_TS_VALUES, ONE, ONE, WHOLE, EVERY, -1},
};

/* The shape of *SLOT, which becomes the one whose memory the scheme uses there. */
static const struct shape *shape_of(const struct bb_tensor_state *s, int *slot)
{
	const struct shape *shape = shapes;

	while (*slot % BB_TS_VALUES >= shape[1].first)
		shape++;
	if (shape->instead < 0 || shape->only >> s->scheme->mode & 1)
		return shape;
	*slot += shape->instead - shape->first;
	return shape_of(s, slot);
}

struct bb_tensor_place bb_tensor_place_of(const struct bb_tensor_state *s, int slot)
{
	const struct bb_tensor_size *z = s->size;
	const size_t widths[WIDTHS] = {1,        z->tokens,         z->hidden, z->queries,
				       z->keys,  2 * z->keys,       z->ffn,    z->vocab,
				       z->heads, z->tokens * z->seq};
	const struct shape *shape = shape_of(s, &slot);
	const enum bb_tensor_mode mode = s->scheme->mode;
	const enum share share = shape->share;
	const bool splits = mode == BB_TENSOR_SPLIT || mode == BB_TENSOR_SEQUENCE;
	const bool streams =
		mode == BB_TENSOR_SEQUENCE || mode == BB_TENSOR_ULYSSES || mode == BB_TENSOR_RING;
	struct bb_tensor_place p = {.rows = widths[shape->rows],
				    .columns = widths[shape->columns],
				    .whole_columns = widths[shape->columns]};

	if (share == ALL_ROWS || (share == ROWS && splits) || (share == STREAM && streams) ||
	    ((share == HERE || share == ACROSS) && !splits))
		p.row = s->rank * (p.rows = (p.rows + s->t - 1) / s->t);
	if (share == ALL_COLUMNS || ((share == COLUMNS || share == ACROSS) && splits))
		p.column = s->rank * (p.columns = (p.columns + s->t - 1) / s->t);
	return p;
}

size_t bb_tensor_numbers(const struct bb_tensor_state *s, int slot)
{
	const int value = slot % BB_TS_VALUES;
	const enum bb_tensor_part of = value < BB_TS_TABLE    ? BB_TENSOR_LAYER
				       : value < BB_TS_LOGITS ? BB_TENSOR_EMBEDDING
				       : value < BB_TS_ROWS_X ? BB_TENSOR_LOSS
							      : BB_TENSOR_MLP;
	const struct shape *shape = shape_of(s, &slot);
	const struct bb_tensor_place p = bb_tensor_place_of(s, slot);

	if (s->scheme->of != of || !(shape->only >> s->scheme->mode & 1))
		return 0;
	return shape->share == PART ? p.rows * p.columns / s->t : p.rows * p.columns;
}

uint64_t bb_tensor_kept(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *size,
			size_t t)
{
	static const int kept[] = {BB_TS_X,     BB_TS_X + 1, BB_TS_NORM,    BB_TS_NORM + 1,
				   BB_TS_Q,     BB_TS_Q + 1, BB_TS_Q + 2,   BB_TS_OUT,
				   BB_TS_INNER, BB_TS_GELU,  BB_TS_EXP_SUM, BB_TS_MOST};
	const struct bb_tensor_state s = {.scheme = scheme, .size = size, .t = t};
	const uint64_t bytes = bb_dtype_size(size->dtype);
	const uint64_t scores = bb_tensor_numbers(&s, BB_TS_SOFTMAX);
	uint64_t all = 2 * bb_tensor_numbers(&s, BB_TS_X) +
		       (size->flash ? scores / size->seq * FLASH_SUM : scores * (1 + 2 * bytes));

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		all += bb_tensor_numbers(&s, kept[i]) * bytes;
	return all;
}

int bb_tensor_own(const struct bb_tensor_state *s, int slot)
{
	(void)shape_of(s, &slot);
	return slot;
}

size_t bb_tensor_state_numbers(const struct bb_tensor_state *s)
{
	size_t all = 0;

	for (int slot = 0; slot < BB_TS_SLOTS; slot++)
		all += bb_tensor_own(s, slot) == slot ? bb_tensor_numbers(s, slot) : 0;
	return all;
}

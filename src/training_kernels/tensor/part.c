/*
 * part.c - what can be split, the steps and matrices of the parts, their initial numbers, and the
 * computations on them.
 */
#include "training_kernels/tensor/part.h"

#include "core/random.h"
#include "training_kernels/tensor/math.h"

#include <math.h>
#include <string.h>

#define FLASH_SUM 4 /* bytes of a row of scores */
#define GELU_BITS 10
#define EXP_BITS 30 /* of exponentials that are summed over ranks */

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
	{"attention",
	 BB_TENSOR_LAYER,
	 BB_TS_X + 1,
	 {BB_TS_D(BB_TS_X), BB_TS_D(BB_TS_WEIGHTS), BB_TS_D(BB_TS_WEIGHTS + 1),
	  BB_TS_D(BB_TS_WEIGHTS + 2), BB_TS_D(BB_TS_WEIGHTS + 3)},
	 5},
	{"mlp",
	 BB_TENSOR_LAYER,
	 BB_TS_X + 2,
	 {BB_TS_D(BB_TS_X + 1), BB_TS_D(BB_TS_WEIGHTS + 4), BB_TS_D(BB_TS_WEIGHTS + 5)},
	 3},
	{"embedding", BB_TENSOR_EMBEDDING, BB_TS_EMBEDDED_SUM, {BB_TS_D(BB_TS_TABLE)}, 1},
	{"loss", BB_TENSOR_LOSS, BB_TS_LOSS, {BB_TS_D(BB_TS_LOGITS)}, 1},
	{"mlp", BB_TENSOR_MLP, BB_TS_ROWS_OUT, {0}, 0},
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
	int8_t instead;        /* the slot that others have there; below 0: none */
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
	{BB_TS_EMBEDDED, TOKENS, HIDDEN, WHOLE, SEQUENCE, BB_TS_EMBEDDED_SUM},
	{BB_TS_EMBEDDED_SUM, TOKENS, HIDDEN, STREAM, EVERY, -1},
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
			size_t t, bool dropout)
{
	static const int kept[] = {BB_TS_X,     BB_TS_X + 1, BB_TS_NORM,    BB_TS_NORM + 1,
				   BB_TS_Q,     BB_TS_Q + 1, BB_TS_Q + 2,   BB_TS_OUT,
				   BB_TS_INNER, BB_TS_GELU,  BB_TS_EXP_SUM, BB_TS_MOST};
	const struct bb_tensor_state s = {.scheme = scheme, .size = size, .t = t};
	const uint64_t bytes = bb_dtype_size(size->dtype);
	const uint64_t scores = bb_tensor_numbers(&s, BB_TS_SOFTMAX);
	uint64_t all = size->flash ? scores / size->seq * FLASH_SUM : scores * bytes;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		all += bb_tensor_numbers(&s, kept[i]) * bytes;
	if (dropout)
		all += 2 * bb_tensor_numbers(&s, BB_TS_X) +
		       (size->flash ? 0 : scores * (1 + bytes));
	return all;
}

/* ---- memory and initial numbers -------------------------------------------------------------- */

static bool has_memory(const struct bb_tensor_state *s, int slot)
{
	int own = slot;

	(void)shape_of(s, &own);
	return own == slot;
}

size_t bb_tensor_state_numbers(const struct bb_tensor_state *s)
{
	size_t all = 0;

	for (int slot = 0; slot < BB_TS_SLOTS; slot++)
		all += has_memory(s, slot) ? bb_tensor_numbers(s, slot) : 0;
	return all;
}

/* An integer from -MOST to MOST that follows from SEED and I. */
static double drawn(int seed, size_t i, int most)
{
	const uint64_t x =
		bb_random_mix((uint64_t)seed * BB_RANDOM_STEP + i * UINT64_C(0xbf58476d1ce4e5b9));

	return (double)(x % (uint64_t)(2 * most + 1)) - most;
}

void bb_tensor_state_fill(struct bb_tensor_state *s, double *memory)
{
	static const struct {
		int slot, n; /* slots */
		int seed;    /* of the first */
		int most;
		double unit;
	} initial[] = {
		{BB_TS_X, 1, 0, 8, 0.25},
		{BB_TS_D(BB_TS_X + 2), 1, 19, 8, 0.125},
		{BB_TS_WEIGHTS, BB_TENSOR_MATRICES, 20, 8, 1.0 / 32},
		{BB_TS_TABLE, 1, 63, 100, 1},
		{BB_TS_D(BB_TS_EMBEDDED_SUM), 1, 66, 100, 1},
		{BB_TS_LOGITS, 1, 69, 64, 0.125},
		{BB_TS_ROWS_X, 1, 76, 8, 0.25},
		{BB_TS_ROWS_FIRST, 2, 77, 8, 1.0 / 32},
	};

	s->memory = memory;
	memset(memory, 0, bb_tensor_state_numbers(s) * sizeof(*memory));
	for (int slot = 0; slot < BB_TS_SLOTS; slot++)
		if (has_memory(s, slot)) {
			s->slots[slot] = memory;
			memory += bb_tensor_numbers(s, slot);
		}
	for (int slot = 0; slot < BB_TS_SLOTS; slot++) {
		int own = slot;

		(void)shape_of(s, &own);
		s->slots[slot] = s->slots[own];
	}
	for (size_t k = 0; k < sizeof(initial) / sizeof(initial[0]); k++)
		for (int i = 0; i < initial[k].n; i++) {
			const int slot = initial[k].slot + i;
			const struct bb_tensor_place p = bb_tensor_place_of(s, slot);
			double *to = s->slots[slot];

			for (size_t j = 0; j < bb_tensor_numbers(s, slot); j++)
				to[j] = initial[k].unit *
					drawn(initial[k].seed + i,
					      (p.row + j / p.columns) * p.whole_columns + p.column +
						      j % p.columns,
					      initial[k].most);
		}
}

/* ---- attention ------------------------------------------------------------------------------- */

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

/* Packs a matrix, and MORE that follow, into blocks of each rank's
   heads, or unpacks them. */
static void reorder(const struct bb_tensor_state *s, int to, int from, int more, bool pack)
{
	const size_t rows = s->size->tokens / s->t, q = s->size->queries, part = q / s->t;

	for (int m = 0; m <= more; m++)
		for (size_t j = 0; j < s->t; j++)
			for (size_t i = 0; i < rows; i++) {
				const size_t block = (j * rows + i) * part, row = i * q + j * part;

				memcpy(s->slots[to + m] + (pack ? block : row),
				       s->slots[from + m] + (pack ? row : block),
				       part * sizeof(double));
			}
}

/* The keys and values that the ring has brought for block K; those of the rank itself come first.
 */
static double *ring_block(const struct bb_tensor_state *s, size_t k)
{
	return s->slots[k == 0 ? BB_TS_Q + 1 : BB_TS_BLOCK + (int)(k % 2)];
}

/* Their gradients so far, which go around with them until they are home. */
static double *ring_gradients(const struct bb_tensor_state *s, size_t k)
{
	return s->slots[k == s->t || s->t == 1 ? BB_TS_D(BB_TS_Q + 1)
					       : BB_TS_D(BB_TS_BLOCK + (int)(k % 2))];
}

static void ring_forward(struct bb_tensor_state *s, size_t k)
{
	const struct bb_tm_attention a = attention(s);
	const size_t n = bb_tensor_numbers(s, BB_TS_Q);
	double *keys = ring_block(s, k), *out = s->slots[BB_TS_OUT];

	bb_tm_block(&a, out, s->slots[BB_TS_EXP_SUM], s->slots[BB_TS_MOST], s->slots[BB_TS_Q], keys,
		    keys + n, k == 0);
	for (size_t i = 0; i < n && k + 1 == s->t; i++)
		out[i] /= s->slots[BB_TS_EXP_SUM][i / a.width];
}

static void ring_back(struct bb_tensor_state *s, size_t k)
{
	const struct bb_tm_attention a = attention(s);
	const size_t n = bb_tensor_numbers(s, BB_TS_Q);
	double *keys = ring_block(s, k), *own = s->slots[BB_TS_OWN];
	double *queries = s->slots[BB_TS_D(BB_TS_Q)];

	if (k == 0)
		memset(queries, 0, n * sizeof(*queries));
	bb_tm_block_back(&a, queries, own, own + n, s->slots[BB_TS_D(BB_TS_OUT)],
			 s->slots[BB_TS_OUT], s->slots[BB_TS_EXP_SUM], s->slots[BB_TS_MOST],
			 s->slots[BB_TS_Q], keys, keys + n);
}

static void ring_add(struct bb_tensor_state *s, size_t k)
{
	double *so_far = ring_gradients(s, k);

	for (size_t i = 0; i < 2 * bb_tensor_numbers(s, BB_TS_Q); i++)
		so_far[i] = (k > 0 ? so_far[i] : 0) + s->slots[BB_TS_OWN][i];
}

/* ---- embedding and loss ---------------------------------------------------------------------- */

/* The token at place I, the target of the one before it. */
static size_t token(const struct bb_tensor_state *s, size_t i)
{
	return (i * 2654435761u + 7) % s->size->vocab;
}

/* Looks up the tokens that this rank has, or adds to their gradients. */
static void look_up(const struct bb_tensor_state *s, bool back)
{
	const size_t v = s->size->vocab / s->t, h = s->size->hidden;
	double *table = s->slots[back ? BB_TS_D(BB_TS_TABLE) : BB_TS_TABLE];
	double *out = s->slots[back ? BB_TS_D(BB_TS_EMBEDDED) : BB_TS_EMBEDDED];

	if (back)
		memset(table, 0, v * h * sizeof(*table));
	else
		memset(out, 0, s->size->tokens * h * sizeof(*out));
	for (size_t i = 0; i < s->size->tokens; i++, out += h) {
		double *row = table + token(s, i) % v * h;

		for (size_t c = 0; c < h && token(s, i) / v == s->rank; c++) {
			if (back)
				row[c] += out[c];
			else
				out[c] = row[c];
		}
	}
}

static double exponential(const struct bb_tensor_state *s, size_t i, double logit)
{
	return bb_tm_round(s->grid, exp(logit - s->slots[BB_TS_LOGITS_MOST][i]), EXP_BITS);
}

/* The largest of the logits that this rank has, of each token; or with LARGEST known, the sum of
   their exponentials, and the target's. */
static void loss_look(struct bb_tensor_state *s, bool largest_known)
{
	const size_t v = s->size->vocab / s->t, n = s->size->tokens;
	const bool all = s->scheme->mode == BB_TENSOR_GATHER;

	for (size_t i = 0; i < n; i++) {
		double most = -INFINITY, sum = 0, target = 0;

		for (size_t part = all ? 0 : s->rank; part < (all ? s->t : s->rank + 1); part++) {
			const double *l = all ? s->slots[BB_TS_LOGITS_ALL] + (part * n + i) * v
					      : s->slots[BB_TS_LOGITS] + i * v;

			for (size_t c = 0; c < v; c++) {
				most = fmax(most, l[c]);
				sum += largest_known ? exponential(s, i, l[c]) : 0;
			}
			if (token(s, i + 1) / v == part)
				target = l[token(s, i + 1) % v];
		}
		if (!largest_known)
			s->slots[BB_TS_LOGITS_MOST][i] = most;
		s->slots[BB_TS_LOGITS_EXP][i] = sum;
		s->slots[BB_TS_TARGET][i] = target;
	}
}

static void loss_end(struct bb_tensor_state *s)
{
	const size_t v = s->size->vocab / s->t;

	for (size_t i = 0; i < s->size->tokens; i++) {
		const double sum = s->slots[BB_TS_LOGITS_EXP][i];
		const size_t target = token(s, i + 1);

		s->slots[BB_TS_LOSS][i] =
			log(sum) + s->slots[BB_TS_LOGITS_MOST][i] - s->slots[BB_TS_TARGET][i];
		for (size_t c = 0; c < v; c++)
			s->slots[BB_TS_D(BB_TS_LOGITS)][i * v + c] =
				exponential(s, i, s->slots[BB_TS_LOGITS][i * v + c]) / sum -
				(target == s->rank * v + c);
	}
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The step forward. K: the block of a ring. */
static void step_forward(struct bb_tensor_state *s, const struct bb_tensor_step *p, size_t k)
{
	const struct bb_tensor_place in = bb_tensor_place_of(s, p->in);
	const struct bb_tm_attention a = attention(s);
	double **slots = s->slots, *out = slots[p->out];

	switch ((enum bb_tensor_kind)p->kind) {
	case BB_TK_NORM:
		bb_tm_norm(s->grid, out, slots[p->in], in.rows, in.columns);
		break;
	case BB_TK_PRODUCT:
		for (int m = 0; m <= p->more; m++)
			bb_tm_product(slots[p->out + m], slots[p->in], slots[p->with + m], in.rows,
				      in.columns, bb_tensor_place_of(s, p->out + m).columns);
		break;
	case BB_TK_GELU:
		for (size_t i = 0; i < bb_tensor_numbers(s, p->in); i++)
			out[i] = bb_tm_round(s->grid, bb_tm_gelu(slots[p->in][i]), GELU_BITS);
		break;
	case BB_TK_ADD:
		for (size_t i = 0; i < bb_tensor_numbers(s, p->in); i++)
			out[i] = slots[p->in][i] + slots[p->with][i];
		/* What the backward pass receives again is not kept. */
		if (s->scheme->mode == BB_TENSOR_SEQUENCE)
			memset(slots[BB_TS_GATHERED + p->in - BB_TS_X], 0,
			       bb_tensor_numbers(s, BB_TS_GATHERED) * sizeof(*out));
		memset(slots[BB_TS_BLOCK], 0, 2 * bb_tensor_numbers(s, BB_TS_BLOCK) * sizeof(*out));
		break;
	case BB_TK_PACK:
	case BB_TK_UNPACK:
		reorder(s, p->out, p->in, p->more, p->kind == BB_TK_PACK);
		break;
	case BB_TK_CORE:
		bb_tm_attend(&a, out, slots[BB_TS_SOFTMAX], slots[p->in], slots[p->in + 1],
			     slots[p->in + 2]);
		break;
	case BB_TK_RING:
		ring_forward(s, k);
		break;
	case BB_TK_LOOK_UP:
		look_up(s, false);
		break;
	case BB_TK_LOSS_MOST:
	case BB_TK_LOSS_EXP:
		loss_look(s, p->kind == BB_TK_LOSS_EXP);
		break;
	case BB_TK_LOSS_END:
		loss_end(s);
		break;
	default: /* communicates */
		break;
	}
}

/* The gradient of its input from that of its output. */
static void step_back(struct bb_tensor_state *s, const struct bb_tensor_step *p, size_t k)
{
	const struct bb_tensor_place in = bb_tensor_place_of(s, p->in);
	const struct bb_tm_attention a = attention(s);
	const size_t n = bb_tensor_numbers(s, p->in);
	double **slots = s->slots, **d = slots + BB_TS_VALUES;

	switch ((enum bb_tensor_kind)p->kind) {
	case BB_TK_NORM: /* beside that of the residual stream */
		bb_tm_norm_back(s->grid, d[p->in], d[p->out], slots[p->in], in.rows, in.columns);
		break;
	case BB_TK_PRODUCT:
		for (int m = 0; m <= p->more; m++)
			bb_tm_product_bt(d[p->in], d[p->out + m], slots[p->with + m], in.rows,
					 bb_tensor_place_of(s, p->out + m).columns, in.columns,
					 m > 0);
		break;
	case BB_TK_GELU:
		for (size_t i = 0; i < n; i++)
			d[p->in][i] =
				d[p->out][i] *
				bb_tm_round(s->grid, bb_tm_gelu_slope(slots[p->in][i]), GELU_BITS);
		break;
	case BB_TK_ADD:
		memcpy(d[p->in], d[p->out], n * sizeof(**d));
		memcpy(d[p->with], d[p->out], n * sizeof(**d));
		break;
	case BB_TK_PACK:
	case BB_TK_UNPACK:
		reorder(s, BB_TS_D(p->in), BB_TS_D(p->out), p->more, p->kind == BB_TK_UNPACK);
		break;
	case BB_TK_CORE:
		bb_tm_attend_back(&a, d[p->in], d[p->in + 1], d[p->in + 2], d[p->out],
				  slots[BB_TS_SOFTMAX], slots[p->in], slots[p->in + 1],
				  slots[p->in + 2]);
		break;
	case BB_TK_RING:
		ring_back(s, k);
		break;
	case BB_TK_LOOK_UP:
		look_up(s, true);
		break;
	default: /* communicates, or has no gradient */
		break;
	}
}

/* The gradients of its weights; a ring's of keys and values. */
static void step_weights(struct bb_tensor_state *s, const struct bb_tensor_step *p, size_t k)
{
	const struct bb_tensor_place in = bb_tensor_place_of(s, p->in);

	if (p->kind == BB_TK_RING)
		ring_add(s, k);
	for (int m = 0; m <= p->more && p->kind == BB_TK_PRODUCT; m++)
		bb_tm_product_at(s->slots[BB_TS_D(p->with + m)], s->slots[p->in],
				 s->slots[BB_TS_D(p->out + m)], in.columns, in.rows,
				 bb_tensor_place_of(s, p->out + m).columns);
}

void bb_tensor_compute(struct bb_tensor_state *s, const struct bb_operation *o)
{
	static void (*const works[])(struct bb_tensor_state * s, const struct bb_tensor_step *p,
				     size_t k) = {[BB_TW_FORWARD] = step_forward,
						  [BB_TW_INPUT] = step_back,
						  [BB_TW_WEIGHTS] = step_weights};
	const struct bb_tensor_step *p = &bb_tensor_steps[o->item % BB_TENSOR_STEPS];

	for (size_t i = 0; i < o->count; i++, p += o->work == BB_TW_FORWARD ? 1 : -1)
		if (bb_tensor_has(s->scheme, p))
			works[o->work](s, p, o->item / BB_TENSOR_STEPS);
}

void bb_tensor_buffers(struct bb_tensor_state *s, const struct bb_operation *o, void **in,
		       void **out)
{
	const struct bb_tensor_step *p = &bb_tensor_steps[o->item % BB_TENSOR_STEPS];
	const size_t k = o->item / BB_TENSOR_STEPS;
	const int back = o->work == BB_TW_INPUT;

	if (o->act != BB_ACT_COLLECTIVE) {
		*in = o->work == BB_TW_WEIGHTS ? ring_gradients(s, k) : ring_block(s, k);
		*out = o->work == BB_TW_WEIGHTS ? ring_gradients(s, k + 1) : ring_block(s, k + 1);
	} else if (o->work == BB_TW_REDUCE) {
		*in = *out = s->slots[BB_TS_D(BB_TS_WEIGHTS) + (int)k];
	} else {
		*in = s->slots[(back ? BB_TS_D(p->out) : p->in) + (int)k];
		*out = s->slots[(back ? BB_TS_D(p->in) : p->out) + (int)k];
	}
}

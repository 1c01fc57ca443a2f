/*
 * numbers.c - the numbers of a rank: how they begin, and the computations on them, in double
 * precision and stored by rows.
 *
 * With a grid, norms, softmax and GeLU are rounded to multiples of a power of two: sums of products
 * of such numbers are exact in any order.
 */
#include "core/random.h"
#include "training_kernels/tensor/part.h"

#include <math.h>
#include <string.h>

/* Bits of multiples of a power of two, to which results are rounded with a grid. */
#define NORM_BITS 10 /* of norms and GeLU */
#define CORE_BITS 16 /* of softmax and its gradient */
#define HEAD_BITS 20 /* of gradients of queries, keys and values */
#define EXP_BITS 30  /* of exponentials that are summed over ranks */
#define EPSILON 1e-5 /* added to the variance in a norm */

/* X, rounded to a multiple of 2^-BITS if GRID. */
static double grid_round(bool grid, double x, int bits)
{
	return grid ? ldexp(nearbyint(ldexp(x, bits)), -bits) : x;
}

/* ---- products -------------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* A += C B. */
static void add_times(double *a, double c, const double *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		a[i] += c * b[i];
}

/* OUT (rows x columns) = A (rows x inner) B (inner x columns). */
static void product(double *out, const double *a, const double *b, size_t rows, size_t inner,
		    size_t columns)
{
	memset(out, 0, rows * columns * sizeof(*out));
	for (size_t i = 0; i < rows; i++)
		for (size_t k = 0; k < inner; k++)
			add_times(out + i * columns, a[i * inner + k], b + k * columns, columns);
}

/* The same with A B^T, where B is columns x inner; with MORE it is added. */
static void product_bt(double *out, const double *a, const double *b, size_t rows, size_t inner,
		       size_t columns, bool more)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < columns; j++) {
			const double sum = dot(a + i * inner, b + j * inner, inner);

			out[i * columns + j] = more ? out[i * columns + j] + sum : sum;
		}
}

/* OUT (rows x columns) = A^T B, where A is inner x rows. */
static void product_at(double *out, const double *a, const double *b, size_t rows, size_t inner,
		       size_t columns)
{
	memset(out, 0, rows * columns * sizeof(*out));
	for (size_t k = 0; k < inner; k++)
		for (size_t i = 0; i < rows; i++)
			add_times(out + i * columns, a[k * rows + i], b + k * columns, columns);
}

/* ---- GeLU and norm --------------------------------------------------------------------------- */

static double gelu(double x)
{
	return 0.5 * x * (1 + erf(x * M_SQRT1_2));
}

static double gelu_slope(double x)
{
	return 0.5 * (1 + erf(x * M_SQRT1_2)) +
	       x * exp(-0.5 * x * x) * 0.5 * M_2_SQRTPI * M_SQRT1_2;
}

/* *MEAN = mean of X; returns 1 / its standard deviation. */
static double moments(const double *x, size_t n, double *mean)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		sum += x[i];
	*mean = sum / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (x[i] - *mean) * (x[i] - *mean);
	return 1 / sqrt(squares / (double)n + EPSILON);
}

/* OUT = rows of WIDTH minus their mean, over their standard deviation; no gain, no bias. */
static void norm(bool grid, double *out, const double *x, size_t rows, size_t width)
{
	for (size_t r = 0; r < rows; r++, x += width, out += width) {
		double mean;
		const double scale = moments(x, width, &mean);

		for (size_t i = 0; i < width; i++)
			out[i] = grid_round(grid, (x[i] - mean) * scale, NORM_BITS);
	}
}

/* DX += the gradient of X, from that of its norm, G. */
static void norm_back(bool grid, double *dx, const double *g, const double *x, size_t rows,
		      size_t width)
{
	for (size_t r = 0; r < rows; r++, x += width, g += width, dx += width) {
		double mean, sum = 0, along = 0;
		const double scale = moments(x, width, &mean);

		for (size_t i = 0; i < width; i++) {
			sum += g[i];
			along += g[i] * (x[i] - mean) * scale;
		}
		sum /= (double)width;
		along /= (double)width;
		for (size_t i = 0; i < width; i++)
			dx[i] += grid_round(grid,
					    (g[i] - sum - (x[i] - mean) * scale * along) * scale,
					    NORM_BITS);
	}
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Attention of ROWS queries over as many keys: all matrices rows x (heads x width). */
struct attention {
	bool grid;
	size_t rows, heads, width;
};

/* Row I of head H in a matrix of all heads. */
static size_t row_at(const struct attention *a, size_t i, size_t h)
{
	return (i * a->heads + h) * a->width;
}

static double score(const struct attention *a, const double *q, const double *k)
{
	return dot(q, k, a->width) / sqrt((double)a->width);
}

static void softmax(bool grid, double *p, size_t n)
{
	double most = p[0], sum = 0;

	for (size_t j = 1; j < n; j++)
		most = fmax(most, p[j]);
	for (size_t j = 0; j < n; j++)
		sum += p[j] = exp(p[j] - most);
	for (size_t j = 0; j < n; j++)
		p[j] = grid_round(grid, p[j] / sum, CORE_BITS);
}

/* OUT = softmax(Q K^T / sqrt(width)) V of each head; P (heads x rows x rows) = the softmax. */
static void attend(const struct attention *a, double *out, double *p, const double *q,
		   const double *k, const double *v)
{
	memset(out, 0, a->rows * a->heads * a->width * sizeof(*out));
	for (size_t h = 0; h < a->heads; h++)
		for (size_t i = 0; i < a->rows; i++, p += a->rows) {
			for (size_t j = 0; j < a->rows; j++)
				p[j] = score(a, q + row_at(a, i, h), k + row_at(a, j, h));
			softmax(a->grid, p, a->rows);
			for (size_t j = 0; j < a->rows; j++)
				add_times(out + row_at(a, i, h), p[j], v + row_at(a, j, h),
					  a->width);
		}
}

static void round_all(bool grid, double *x, size_t n, int bits)
{
	for (size_t i = 0; i < n; i++)
		x[i] = grid_round(grid, x[i], bits);
}

static void attend_back(const struct attention *a, double *dq, double *dk, double *dv,
			const double *g, const double *p, const double *q, const double *k,
			const double *v)
{
	const size_t n = a->rows * a->heads * a->width;
	const double scale = 1 / sqrt((double)a->width);

	memset(dq, 0, n * sizeof(*dq));
	memset(dk, 0, n * sizeof(*dk));
	memset(dv, 0, n * sizeof(*dv));
	for (size_t h = 0; h < a->heads; h++)
		for (size_t i = 0; i < a->rows; i++, p += a->rows) {
			const double *gi = g + row_at(a, i, h);
			double mean = 0;

			for (size_t j = 0; j < a->rows; j++)
				mean += p[j] * dot(gi, v + row_at(a, j, h), a->width);
			for (size_t j = 0; j < a->rows; j++) {
				const double d = dot(gi, v + row_at(a, j, h), a->width) - mean;
				const double ds = scale * grid_round(a->grid, p[j] * d, CORE_BITS);

				add_times(dq + row_at(a, i, h), ds, k + row_at(a, j, h), a->width);
				add_times(dk + row_at(a, j, h), ds, q + row_at(a, i, h), a->width);
				add_times(dv + row_at(a, j, h), p[j], gi, a->width);
			}
		}
	round_all(a->grid, dq, n, HEAD_BITS);
	round_all(a->grid, dk, n, HEAD_BITS);
	round_all(a->grid, dv, n, HEAD_BITS);
}

/* ---- attention block by block ---------------------------------------------------------------- */

/* Rescales row OUT and its SUM to the largest score NOW, if that exceeds MOST. */
static void raise(double *out, double *sum, double *most, double now, size_t width)
{
	const double less = exp(*most - now);

	if (now <= *most)
		return;
	for (size_t i = 0; i < width; i++)
		out[i] *= less;
	*sum *= less;
	*most = now;
}

/*
 * Attention block by block of keys: SUM and MOST (rows x heads) are the sum of exponentials so far
 * and the largest score, OUT is not divided by SUM yet. FIRST: the first block.
 */
static void block(const struct attention *a, double *out, double *sum, double *most,
		  const double *q, const double *k, const double *v, bool first)
{
	if (first)
		memset(out, 0, a->rows * a->heads * a->width * sizeof(*out));
	for (size_t i = 0; i < a->rows; i++)
		for (size_t h = 0; h < a->heads; h++, sum++, most++) {
			if (first) {
				*sum = 0;
				*most = -INFINITY;
			}
			for (size_t j = 0; j < a->rows; j++)
				raise(out + row_at(a, i, h), sum, most,
				      score(a, q + row_at(a, i, h), k + row_at(a, j, h)), a->width);
			for (size_t j = 0; j < a->rows; j++) {
				const double e = exp(
					score(a, q + row_at(a, i, h), k + row_at(a, j, h)) - *most);

				*sum += e;
				add_times(out + row_at(a, i, h), e, v + row_at(a, j, h), a->width);
			}
		}
}

/* DQ += and DK, DV = the gradients by this block, from G. OUT (divided), SUM and MOST are those of
   all blocks. */
static void block_back(const struct attention *a, double *dq, double *dk, double *dv,
		       const double *g, const double *out, const double *sum, const double *most,
		       const double *q, const double *k, const double *v)
{
	const size_t n = a->rows * a->heads * a->width;
	const double scale = 1 / sqrt((double)a->width);

	memset(dk, 0, n * sizeof(*dk));
	memset(dv, 0, n * sizeof(*dv));
	for (size_t i = 0; i < a->rows; i++)
		for (size_t h = 0; h < a->heads; h++, sum++, most++) {
			const size_t me = row_at(a, i, h);
			const double mean = dot(g + me, out + me, a->width);

			for (size_t j = 0; j < a->rows; j++) {
				const size_t other = row_at(a, j, h);
				const double p = exp(score(a, q + me, k + other) - *most) / *sum;
				const double d = dot(g + me, v + other, a->width) - mean;

				add_times(dq + me, scale * p * d, k + other, a->width);
				add_times(dk + other, scale * p * d, q + me, a->width);
				add_times(dv + other, p, g + me, a->width);
			}
		}
}

/* ---- initial numbers ------------------------------------------------------------------------- */

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
		if (bb_tensor_own(s, slot) == slot) {
			s->slots[slot] = memory;
			memory += bb_tensor_numbers(s, slot);
		}
	for (int slot = 0; slot < BB_TS_SLOTS; slot++)
		s->slots[slot] = s->slots[bb_tensor_own(s, slot)];
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

static struct attention attention_of(const struct bb_tensor_state *s)
{
	const bool ring = s->scheme->mode == BB_TENSOR_RING;

	return (struct attention){
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
	const struct attention a = attention_of(s);
	const size_t n = bb_tensor_numbers(s, BB_TS_Q);
	double *keys = ring_block(s, k), *out = s->slots[BB_TS_OUT];

	block(&a, out, s->slots[BB_TS_EXP_SUM], s->slots[BB_TS_MOST], s->slots[BB_TS_Q], keys,
	      keys + n, k == 0);
	for (size_t i = 0; i < n && k + 1 == s->t; i++)
		out[i] /= s->slots[BB_TS_EXP_SUM][i / a.width];
}

static void ring_back(struct bb_tensor_state *s, size_t k)
{
	const struct attention a = attention_of(s);
	const size_t n = bb_tensor_numbers(s, BB_TS_Q);
	double *keys = ring_block(s, k), *own = s->slots[BB_TS_OWN];
	double *queries = s->slots[BB_TS_D(BB_TS_Q)];

	if (k == 0)
		memset(queries, 0, n * sizeof(*queries));
	block_back(&a, queries, own, own + n, s->slots[BB_TS_D(BB_TS_OUT)], s->slots[BB_TS_OUT],
		   s->slots[BB_TS_EXP_SUM], s->slots[BB_TS_MOST], s->slots[BB_TS_Q], keys,
		   keys + n);
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
	return grid_round(s->grid, exp(logit - s->slots[BB_TS_LOGITS_MOST][i]), EXP_BITS);
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
	const struct attention a = attention_of(s);
	double **slots = s->slots, *out = slots[p->out];

	switch ((enum bb_tensor_kind)p->kind) {
	case BB_TK_NORM:
		norm(s->grid, out, slots[p->in], in.rows, in.columns);
		break;
	case BB_TK_PRODUCT:
		for (int m = 0; m <= p->more; m++)
			product(slots[p->out + m], slots[p->in], slots[p->with + m], in.rows,
				in.columns, bb_tensor_place_of(s, p->out + m).columns);
		break;
	case BB_TK_GELU:
		for (size_t i = 0; i < bb_tensor_numbers(s, p->in); i++)
			out[i] = grid_round(s->grid, gelu(slots[p->in][i]), NORM_BITS);
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
		attend(&a, out, slots[BB_TS_SOFTMAX], slots[p->in], slots[p->in + 1],
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
	const struct attention a = attention_of(s);
	const size_t n = bb_tensor_numbers(s, p->in);
	double **slots = s->slots, **d = slots + BB_TS_VALUES;

	switch ((enum bb_tensor_kind)p->kind) {
	case BB_TK_NORM: /* beside that of the residual stream */
		norm_back(s->grid, d[p->in], d[p->out], slots[p->in], in.rows, in.columns);
		break;
	case BB_TK_PRODUCT:
		for (int m = 0; m <= p->more; m++)
			product_bt(d[p->in], d[p->out + m], slots[p->with + m], in.rows,
				   bb_tensor_place_of(s, p->out + m).columns, in.columns, m > 0);
		break;
	case BB_TK_GELU:
		for (size_t i = 0; i < n; i++)
			d[p->in][i] = d[p->out][i] *
				      grid_round(s->grid, gelu_slope(slots[p->in][i]), NORM_BITS);
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
		attend_back(&a, d[p->in], d[p->in + 1], d[p->in + 2], d[p->out],
			    slots[BB_TS_SOFTMAX], slots[p->in], slots[p->in + 1], slots[p->in + 2]);
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
		product_at(s->slots[BB_TS_D(p->with + m)], s->slots[p->in],
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

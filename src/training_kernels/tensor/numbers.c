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

/* A matrix in memory: the steps from a row to the next, and from a column to the next. */
struct view {
	const double *x;
	size_t down, right;
};

/* OUT (rows x columns) = A B, with MORE added. */
static void product(double *out, bool more, struct view a, struct view b, size_t rows, size_t inner,
		    size_t columns)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < columns; j++) {
			double sum = 0;

			for (size_t k = 0; k < inner; k++)
				sum += a.x[i * a.down + k * a.right] *
				       b.x[k * b.down + j * b.right];
			out[i * columns + j] = more ? out[i * columns + j] + sum : sum;
		}
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

/* Attention of ROWS queries over as many keys: all matrices rows x (heads x width); D… are
   gradients. */
struct attention {
	bool grid;
	size_t rows, heads, width;
	const double *q, *k, *v, *dout;
	double *out, *dq, *dk, *dv;
	double *softmax;    /* heads x rows x rows; NULL: block by block */
	double *sum, *most; /* block by block: rows x heads, exponentials and largest score */
};

/* Row I of head H in a matrix of all heads. */
static size_t row_at(const struct attention *a, size_t i, size_t h)
{
	return (i * a->heads + h) * a->width;
}

static size_t attention_bytes(const struct attention *a)
{
	return a->rows * a->heads * a->width * sizeof(double);
}

static double score(const struct attention *a, size_t query, size_t key)
{
	return dot(a->q + query, a->k + key, a->width) / sqrt((double)a->width);
}

/* OUT = softmax(Q K^T / sqrt(width)) V of each head. */
static void attend(const struct attention *a)
{
	double *p = a->softmax;

	memset(a->out, 0, attention_bytes(a));
	for (size_t h = 0; h < a->heads; h++)
		for (size_t i = 0; i < a->rows; i++, p += a->rows) {
			double most = -INFINITY, sum = 0;

			for (size_t j = 0; j < a->rows; j++) {
				p[j] = score(a, row_at(a, i, h), row_at(a, j, h));
				most = fmax(most, p[j]);
			}
			for (size_t j = 0; j < a->rows; j++)
				sum += p[j] = exp(p[j] - most);
			for (size_t j = 0; j < a->rows; j++) {
				p[j] = grid_round(a->grid, p[j] / sum, CORE_BITS);
				add_times(a->out + row_at(a, i, h), p[j], a->v + row_at(a, j, h),
					  a->width);
			}
		}
}

/* Block by block of keys: OUT is divided by SUM after the last one. A larger score than those of
   the blocks before rescales what they gave. */
static void attend_block(const struct attention *a, bool first, bool last)
{
	double *sum = a->sum, *most = a->most;

	for (size_t i = 0; i < a->rows; i++)
		for (size_t h = 0; h < a->heads; h++, sum++, most++) {
			double *out = a->out + row_at(a, i, h);
			const double before = *most;

			for (size_t j = 0; j < a->rows; j++) {
				const double now = score(a, row_at(a, i, h), row_at(a, j, h));

				*most = first && j == 0 ? now : fmax(*most, now);
			}
			const double less = first ? 0 : exp(before - *most);
			*sum *= less;
			for (size_t c = 0; c < a->width; c++)
				out[c] *= less;
			for (size_t j = 0; j < a->rows; j++) {
				const double e =
					exp(score(a, row_at(a, i, h), row_at(a, j, h)) - *most);

				*sum += e;
				add_times(out, e, a->v + row_at(a, j, h), a->width);
			}
			for (size_t c = 0; c < a->width && last; c++)
				out[c] /= *sum;
		}
}

/* By all keys at once, or by a block, whose DK and DV are those by it alone; FIRST: DQ begins. */
static void attend_back(const struct attention *a, bool first)
{
	double *const all[] = {a->dk, a->dv, a->dq};
	const double scale = 1 / sqrt((double)a->width);

	for (int m = 0; m < (first ? 3 : 2); m++)
		memset(all[m], 0, attention_bytes(a));
	for (size_t i = 0; i < a->rows; i++)
		for (size_t h = 0; h < a->heads; h++) {
			const double *softmax =
				a->softmax ? &a->softmax[(h * a->rows + i) * a->rows] : NULL;
			const size_t me = row_at(a, i, h), at = i * a->heads + h;
			const double mean = dot(a->dout + me, a->out + me, a->width);

			for (size_t j = 0; j < a->rows; j++) {
				const size_t other = row_at(a, j, h);
				const double p = softmax ? softmax[j]
							 : exp(score(a, me, other) - a->most[at]) /
								   a->sum[at];
				const double d = dot(a->dout + me, a->v + other, a->width) - mean;
				const double along = scale * grid_round(a->grid, p * d, CORE_BITS);

				add_times(a->dq + me, along, a->k + other, a->width);
				add_times(a->dk + other, along, a->q + me, a->width);
				add_times(a->dv + other, p, a->dout + me, a->width);
			}
		}
	for (int m = 0; m < 3; m++)
		for (size_t i = 0; i < attention_bytes(a) / sizeof(double); i++)
			all[m][i] = grid_round(a->grid, all[m][i], HEAD_BITS);
}

/* ---- initial numbers ------------------------------------------------------------------------- */

void bb_tensor_state_fill(struct bb_tensor_state *s, double *memory)
{
	static const struct {
		int slot, n; /* slots */
		int seed;    /* of the first */
		int most;    /* integers from -MOST to MOST, times UNIT */
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
		} else { /* of an earlier one */
			s->slots[slot] = s->slots[bb_tensor_own(s, slot)];
		}
	for (size_t k = 0; k < sizeof(initial) / sizeof(initial[0]); k++)
		for (int i = 0; i < initial[k].n; i++) {
			const int slot = initial[k].slot + i;
			const struct bb_tensor_place p = bb_tensor_place_of(s, slot);
			double *to = s->slots[slot];

			for (size_t j = 0; j < bb_tensor_numbers(s, slot); j++) {
				const size_t at = (p.row + j / p.columns) * p.whole_columns +
						  p.column + j % p.columns;
				const int most = initial[k].most;
				const uint64_t x =
					bb_random_at((uint64_t)(initial[k].seed + i), at);

				to[j] = initial[k].unit *
					((double)(x % (uint64_t)(2 * most + 1)) - most);
			}
		}
}

/* ---- heads and blocks of attention ----------------------------------------------------------- */

/* Packs a matrix, and MORE that follow, into blocks of each rank's heads, or unpacks them. */
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

/* The attention of step P, of a ring with block K. */
static struct attention attention_of(const struct bb_tensor_state *s,
				     const struct bb_tensor_step *p, size_t k)
{
	const bool ring = p->kind == BB_TK_RING;
	const size_t n = bb_tensor_numbers(s, BB_TS_Q);
	double *const *const d = s->slots + BB_TS_VALUES;

	return (struct attention){
		.grid = s->grid,
		.rows = ring ? s->size->tokens / s->t : s->size->tokens,
		.heads = ring ? s->size->heads : s->size->heads / s->t,
		.width = s->size->queries / s->size->heads,
		.q = s->slots[p->in],
		.k = ring ? ring_block(s, k) : s->slots[p->in + 1],
		.v = ring ? ring_block(s, k) + n : s->slots[p->in + 2],
		.out = s->slots[p->out],
		.dout = d[p->out],
		.dq = d[p->in],
		.dk = ring ? s->slots[BB_TS_OWN] : d[p->in + 1],
		.dv = ring ? s->slots[BB_TS_OWN] + n : d[p->in + 2],
		.softmax = ring ? NULL : s->slots[BB_TS_SOFTMAX],
		.sum = s->slots[BB_TS_EXP_SUM],
		.most = s->slots[BB_TS_MOST],
	};
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
	const size_t n = bb_tensor_numbers(s, p->in), rows = in.rows, inner = in.columns;
	struct attention a;
	double **slots = s->slots, *out = slots[p->out];

	switch ((enum bb_tensor_kind)p->kind) {
	case BB_TK_NORM:
		norm(s->grid, out, slots[p->in], rows, inner);
		break;
	case BB_TK_PRODUCT:
		for (int m = 0; m <= p->more; m++) {
			const size_t columns = bb_tensor_place_of(s, p->out + m).columns;

			product(slots[p->out + m], false, (struct view){slots[p->in], inner, 1},
				(struct view){slots[p->with + m], columns, 1}, rows, inner,
				columns);
		}
		break;
	case BB_TK_GELU:
		for (size_t i = 0; i < n; i++)
			out[i] = grid_round(s->grid, gelu(slots[p->in][i]), NORM_BITS);
		break;
	case BB_TK_ADD:
		for (size_t i = 0; i < n; i++)
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
		a = attention_of(s, p, k);
		attend(&a);
		break;
	case BB_TK_RING:
		a = attention_of(s, p, k);
		attend_block(&a, k == 0, k + 1 == s->t);
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
	const size_t n = bb_tensor_numbers(s, p->in), rows = in.rows, inner = in.columns;
	struct attention a;
	double **slots = s->slots, **d = slots + BB_TS_VALUES;

	switch ((enum bb_tensor_kind)p->kind) {
	case BB_TK_NORM: /* beside that of the residual stream */
		norm_back(s->grid, d[p->in], d[p->out], slots[p->in], rows, inner);
		break;
	case BB_TK_PRODUCT:
		for (int m = 0; m <= p->more; m++) {
			const size_t columns = bb_tensor_place_of(s, p->out + m).columns;

			product(d[p->in], m > 0, (struct view){d[p->out + m], columns, 1},
				(struct view){slots[p->with + m], 1, columns}, rows, columns,
				inner);
		}
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
	case BB_TK_RING:
		a = attention_of(s, p, k);
		attend_back(&a, k == 0);
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
	double *so_far = ring_gradients(s, k);

	for (size_t i = 0; i < 2 * bb_tensor_numbers(s, BB_TS_Q) && p->kind == BB_TK_RING; i++)
		so_far[i] = (k > 0 ? so_far[i] : 0) + s->slots[BB_TS_OWN][i];
	for (int m = 0; m <= p->more && p->kind == BB_TK_PRODUCT; m++) {
		const size_t columns = bb_tensor_place_of(s, p->out + m).columns;

		product(s->slots[BB_TS_D(p->with + m)], false,
			(struct view){s->slots[p->in], 1, in.columns},
			(struct view){s->slots[BB_TS_D(p->out + m)], columns, 1}, in.columns,
			in.rows, columns);
	}
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

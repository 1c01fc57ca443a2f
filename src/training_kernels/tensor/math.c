#include "training_kernels/tensor/math.h"

#include <math.h>
#include <string.h>

#define NORM_BITS 10 /* of norms and GeLU */
#define CORE_BITS 16 /* of softmax and its gradient */
#define HEAD_BITS 20 /* of gradients of queries, keys and values */
#define EPSILON 1e-5 /* added to the variance in a norm */

double bb_tm_round(bool grid, double x, int bits)
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

void bb_tm_product(double *out, const double *a, const double *b, size_t rows, size_t inner,
		   size_t columns)
{
	memset(out, 0, rows * columns * sizeof(*out));
	for (size_t i = 0; i < rows; i++)
		for (size_t k = 0; k < inner; k++)
			add_times(out + i * columns, a[i * inner + k], b + k * columns, columns);
}

void bb_tm_product_bt(double *out, const double *a, const double *b, size_t rows, size_t inner,
		      size_t columns, bool more)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < columns; j++) {
			const double sum = dot(a + i * inner, b + j * inner, inner);

			out[i * columns + j] = more ? out[i * columns + j] + sum : sum;
		}
}

void bb_tm_product_at(double *out, const double *a, const double *b, size_t rows, size_t inner,
		      size_t columns)
{
	memset(out, 0, rows * columns * sizeof(*out));
	for (size_t k = 0; k < inner; k++)
		for (size_t i = 0; i < rows; i++)
			add_times(out + i * columns, a[k * rows + i], b + k * columns, columns);
}

/* ---- GeLU and norm --------------------------------------------------------------------------- */

double bb_tm_gelu(double x)
{
	return 0.5 * x * (1 + erf(x * M_SQRT1_2));
}

double bb_tm_gelu_slope(double x)
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

void bb_tm_norm(bool grid, double *out, const double *x, size_t rows, size_t width)
{
	for (size_t r = 0; r < rows; r++, x += width, out += width) {
		double mean;
		const double scale = moments(x, width, &mean);

		for (size_t i = 0; i < width; i++)
			out[i] = bb_tm_round(grid, (x[i] - mean) * scale, NORM_BITS);
	}
}

void bb_tm_norm_back(bool grid, double *dx, const double *g, const double *x, size_t rows,
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
			dx[i] += bb_tm_round(grid,
					     (g[i] - sum - (x[i] - mean) * scale * along) * scale,
					     NORM_BITS);
	}
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Row I of head H in a matrix of all heads. */
static size_t row_at(const struct bb_tm_attention *a, size_t i, size_t h)
{
	return (i * a->heads + h) * a->width;
}

static double score(const struct bb_tm_attention *a, const double *q, const double *k)
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
		p[j] = bb_tm_round(grid, p[j] / sum, CORE_BITS);
}

void bb_tm_attend(const struct bb_tm_attention *a, double *out, double *p, const double *q,
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
		x[i] = bb_tm_round(grid, x[i], bits);
}

void bb_tm_attend_back(const struct bb_tm_attention *a, double *dq, double *dk, double *dv,
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
				const double ds = scale * bb_tm_round(a->grid, p[j] * d, CORE_BITS);

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

void bb_tm_block(const struct bb_tm_attention *a, double *out, double *sum, double *most,
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

void bb_tm_block_back(const struct bb_tm_attention *a, double *dq, double *dk, double *dv,
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

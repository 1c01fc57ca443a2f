/*
 * math.h - the arithmetic of a transformer on small matrices in double precision, row by
 * row, plain. With a grid, what is no sum of products (norms, softmax, GeLU) is rounded to
 * multiples of a power of two: sums of such numbers are exact, in whatever order they are taken.
 */
#ifndef BB_TRAINING_KERNELS_TENSOR_MATH_H
#define BB_TRAINING_KERNELS_TENSOR_MATH_H

#include <stdbool.h>
#include <stddef.h>

/* X, to a multiple of 2^-BITS where GRID. */
double bb_tm_round(bool grid, double x, int bits);

/* OUT (rows x columns) = or += A (rows x inner) B (inner x columns), all row by row. */
void bb_tm_product(double *out, const double *a, const double *b, size_t rows, size_t inner,
		   size_t columns, bool more);
/* = or += A B^T, B being columns x inner. */
void bb_tm_product_bt(double *out, const double *a, const double *b, size_t rows, size_t inner,
		      size_t columns, bool more);
/* OUT (rows x columns) = A^T B, A being inner x rows. */
void bb_tm_product_at(double *out, const double *a, const double *b, size_t rows, size_t inner,
		      size_t columns);

double bb_tm_gelu(double x);       /* x times the normal distribution function of x */
double bb_tm_gelu_slope(double x); /* its derivative */

/* Rows of WIDTH less their mean, over their standard deviation; no gain, no bias. */
void bb_tm_norm(bool grid, double *out, const double *x, size_t rows, size_t width);
/* DX = gradient of X from G, that of the norm of X. */
void bb_tm_norm_back(bool grid, double *dx, const double *g, const double *x, size_t rows,
		     size_t width);

/* Attention of ROWS queries over as many keys: all matrices rows x (heads x width). */
struct bb_tm_attention {
	bool grid;
	size_t rows, heads, width;
};
/* OUT = softmax(Q K^T / sqrt(width)) V of each head; P (heads x rows x rows) = the softmax. */
void bb_tm_attend(const struct bb_tm_attention *a, double *out, double *p, const double *q,
		  const double *k, const double *v);
void bb_tm_attend_back(const struct bb_tm_attention *a, double *dq, double *dk, double *dv,
		       const double *g, const double *p, const double *q, const double *k,
		       const double *v);

/*
 * The same over a block of keys after the other: SUM and MOST (rows x heads) are the sum of
 * exponentials so far and the largest score, OUT what is not divided by SUM yet. FIRST: nothing so
 * far.
 */
void bb_tm_block(const struct bb_tm_attention *a, double *out, double *sum, double *most,
		 const double *q, const double *k, const double *v, bool first);
/* DQ += and DK, DV = what the block makes of G. OUT, divided, SUM and MOST are those of all
   blocks. */
void bb_tm_block_back(const struct bb_tm_attention *a, double *dq, double *dk, double *dv,
		      const double *g, const double *out, const double *sum, const double *most,
		      const double *q, const double *k, const double *v);

#endif

/*
 * math.h - the arithmetic of a transformer on small matrices in double precision, stored by rows.
 * With a grid, norms, softmax and GeLU are rounded to multiples of a power of two: sums of products
 * of such numbers are exact in any order.
 */
#ifndef BB_TRAINING_KERNELS_TENSOR_MATH_H
#define BB_TRAINING_KERNELS_TENSOR_MATH_H

#include <stdbool.h>
#include <stddef.h>

/* X, rounded to a multiple of 2^-BITS if GRID. */
double bb_tm_round(bool grid, double x, int bits);

/* OUT (rows x columns) = A (rows x inner) B (inner x columns). */
void bb_tm_product(double *out, const double *a, const double *b, size_t rows, size_t inner,
		   size_t columns);
/* The same with A B^T, where B is columns x inner; with MORE it is added. */
void bb_tm_product_bt(double *out, const double *a, const double *b, size_t rows, size_t inner,
		      size_t columns, bool more);
/* OUT (rows x columns) = A^T B, where A is inner x rows. */
void bb_tm_product_at(double *out, const double *a, const double *b, size_t rows, size_t inner,
		      size_t columns);

double bb_tm_gelu(double x);       /* x times the normal distribution function of x */
double bb_tm_gelu_slope(double x); /* its derivative */

/* OUT = rows of WIDTH minus their mean, over their standard deviation; no gain, no bias. */
void bb_tm_norm(bool grid, double *out, const double *x, size_t rows, size_t width);
/* DX += the gradient of X, from that of its norm, G. */
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
 * Attention block by block of keys: SUM and MOST (rows x heads) are the sum of exponentials so far
 * and the largest score, OUT is not divided by SUM yet. FIRST: the first block.
 */
void bb_tm_block(const struct bb_tm_attention *a, double *out, double *sum, double *most,
		 const double *q, const double *k, const double *v, bool first);
/* DQ += and DK, DV = the gradients by this block, from G. OUT (divided), SUM and MOST are those of
   all blocks. */
void bb_tm_block_back(const struct bb_tm_attention *a, double *dq, double *dk, double *dv,
		      const double *g, const double *out, const double *sum, const double *most,
		      const double *q, const double *k, const double *v);

#endif

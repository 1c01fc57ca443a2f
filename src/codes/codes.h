/*
 * codes.h - arrays of fp32 numbers in fewer bits and back, block by block. Pure and deterministic.
 *
 * Coded numbers are the codes of all of them, packed from the low bit on, then the scales of all
 * blocks; nothing is aligned. The last block may be shorter. With scale s, zero z and point p of a
 * block
 *
 *   integers   code = round(p + (x - z) / s) within its range, x = z + (code - p) s
 *   fp8        code = x / s in E4M3 or E5M2, at most its largest number
 *   sign       code = 0 below 0, else 1, also of -0; x = -s or s
 *
 * where halves round to even. Different blocks have different scales, so a sum adds decoded
 * numbers, never codes.
 *
 * A block with a NaN or an infinity, or whose range exceeds fp32, decodes to NaN throughout, so
 * that a lost number never looks like a small one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_block_scale {
	float scale; /* s; 0: all numbers of the block are z */
	float zero;  /* z: the number that code p stands for */
	float point; /* p */
	/* (x - z) * up / down = (x - z) / s, calculated as the source of the coding does; not of
	   decoded scales. */
	float up, down;
};

enum bb_code_kind { BB_CODE_INTEGER, BB_CODE_E4M3, BB_CODE_E5M2, BB_CODE_SIGN };

struct bb_coding {
	const char *name, *brief;
	enum bb_code_kind kind;
	unsigned bits; /* of a code: 8, 4 or 1 */
	/* What a code stands for, before its scale; signs: 0. Codes are unsigned from 0 on; a
	   lowest one beyond the negative highest one is DeepSpeed's. */
	int lowest, highest;
	size_t block; /* usual numbers of a block; 0: all are one */
	/* Of a block: 4 is its scale; 8 also its zero, or its point where codes are unsigned; 1 a
	   power of two (E8M0). */
	size_t scale_bytes;
};

extern const struct bb_coding bb_codings[]; /* ends with a name of NULL */
/* The coding of that name; NULL: there is none. */
const struct bb_coding *bb_coding_named(const char *name);

/* BLOCK, of these functions: numbers of a block, a multiple of 8; 0: all N are one block. */

/* Bytes of N coded numbers, codes and scales. */
size_t bb_coding_bytes(const struct bb_coding *coding, size_t block, size_t n);
/* CODED[bb_coding_bytes] = X[0, N). */
void bb_coding_encode(const struct bb_coding *coding, size_t block, const float *x, size_t n,
		      void *coded);
/* The scale of X[0, N) as one block. */
struct bb_block_scale bb_coding_fit(const struct bb_coding *coding, const float *x, size_t n);
/* CODES and SCALE_BYTES = X[0, N) as one block with SCALE, such as that of more numbers. */
void bb_coding_encode_block(const struct bb_coding *coding, const struct bb_block_scale *scale,
			    const float *x, size_t n, void *codes, void *scale_bytes);
/* X[0, N) = the numbers of CODED. */
void bb_coding_decode(const struct bb_coding *coding, size_t block, const void *coded, size_t n,
		      float *x);
/* SUM[0, N) += FACTOR times the numbers of CODED. */
void bb_coding_add(const struct bb_coding *coding, size_t block, const void *coded, size_t n,
		   float factor, float *sum);

/* Code I of CODED numbers: an integer's value, else its bits. */
int bb_coding_code(const struct bb_coding *coding, const void *coded, size_t i);
/* Scale, zero and point of block B of N CODED numbers. */
struct bb_block_scale bb_coding_scale(const struct bb_coding *coding, const void *coded, size_t n,
				      size_t b);

/*
 * Blocks in which ZeRO++ codes N weights (qwZ): the least number from ceil(N / 8000) on that
 * divides N into multiples of 8 (CUDAQuantizer of deepspeed/runtime/zero/partition_parameters.py).
 * 0: there is none, which DeepSpeed refuses.
 */
size_t bb_coding_qwz_blocks(size_t n);

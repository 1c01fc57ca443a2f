/*
 * datatype.h - the datatypes and reduction operations, their names and which go together.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bb_dtype {
	BB_INT8,
	BB_UINT8,
	BB_INT32,
	BB_UINT32,
	BB_INT64,
	BB_UINT64,
	BB_HALF,
	BB_FLOAT,
	BB_DOUBLE,
	BB_BFLOAT16,
	BB_F8E4M3,
	BB_F8E5M2,
	BB_FLOAT_INT, /* struct bb_float_int: the value-index pair of maxloc and minloc */
	BB_NDTYPES
};

struct bb_float_int {
	float value;
	int32_t index;
};

enum bb_op {
	BB_SUM,
	BB_PROD,
	BB_MIN,
	BB_MAX,
	BB_AVG,    /* sum, then divided by the number of ranks (integers: towards zero) */
	BB_MULSUM, /* sum of each rank's input times 1 (even ranks) or 2 (odd ranks) */
	BB_LAND,
	BB_LOR,
	BB_LXOR,
	BB_BAND,
	BB_BOR,
	BB_BXOR,
	BB_MAXLOC, /* largest value, at equal values the lowest index */
	BB_MINLOC,
	BB_NOPS
};

const char *bb_dtype_name(enum bb_dtype dtype);
size_t bb_dtype_size(enum bb_dtype dtype);
bool bb_dtype_is_float(enum bb_dtype dtype); /* a floating-point scalar, fp8 included */
/* The datatype of that name, BB_NDTYPES if there is none. */
enum bb_dtype bb_dtype_named(const char *name);

const char *bb_op_name(enum bb_op op);
/* The operation of that name, BB_NOPS if there is none. */
enum bb_op bb_op_named(const char *name);
/* Logical and bitwise ops take integers, maxloc and minloc the pair, all others any scalar. */
bool bb_op_accepts(enum bb_op op, enum bb_dtype dtype);

/* The weight that mulsum gives to RANK's input. */
static inline int bb_mulsum_weight(int rank)
{
	return rank % 2 == 0 ? 1 : 2;
}

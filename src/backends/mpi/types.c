/*
 * Datatypes and operations. MPI performs the operations that it defines as busbench does. It lacks
 * the small floating-point types, which travel as integers of their size. They, and integers where
 * the library does not wrap (Open MPI 4.1 saturates sums of bytes), are reduced by busbench's
 * kernels.
 */
#include "backends/mpi/mpi.h"

#include "core/scalar.h"

#include <assert.h>
#include <string.h>

/* Only the kernels for the compiler's target are linked. */
#pragma weak bb_kernels_avx2
#pragma weak bb_kernels_avx512

/* ---- busbench's own operations ----------------------------------------------------------- */

static void combine(const struct bb_kernels *kernels, enum bb_dtype dtype, enum bb_op op, void *in,
		    void *inout, bb_mpi_count count)
{
	const void *sources[2] = {in, inout};
	const struct bb_reduce_args args = {.stream = false};

	kernels->reduce[dtype][op](&inout, 1, sources, 2, (size_t)count, &args);
}

/* MPI passes only data to an operation, so there is one for each combination. */
#define OP(isa, dtype, op)                                                                         \
	static void isa##_##dtype##_##op(void *in, void *inout, bb_mpi_count *count,               \
					 MPI_Datatype *type)                                       \
	{                                                                                          \
		combine(&bb_kernels_##isa, BB_##dtype, BB_##op, in, inout, *count);                \
	}
#define OPS_OF_TYPE(isa, dtype)                                                                    \
	OP(isa, dtype, SUM) OP(isa, dtype, PROD) OP(isa, dtype, MIN) OP(isa, dtype, MAX)
#define FOR_TYPES(what, isa)                                                                       \
	what(isa, INT8) what(isa, UINT8) what(isa, INT32) what(isa, UINT32) what(isa, INT64)       \
		what(isa, UINT64) what(isa, HALF) what(isa, BFLOAT16) what(isa, F8E4M3)            \
			what(isa, F8E5M2)

FOR_TYPES(OPS_OF_TYPE, plain)
FOR_TYPES(OPS_OF_TYPE, avx2)
FOR_TYPES(OPS_OF_TYPE, avx512)

#define ROW(isa, dtype)                                                                            \
	[BB_##dtype] = {[BB_SUM] = isa##_##dtype##_SUM,                                            \
			[BB_PROD] = isa##_##dtype##_PROD,                                          \
			[BB_MIN] = isa##_##dtype##_MIN,                                            \
			[BB_MAX] = isa##_##dtype##_MAX},

static const struct {
	const struct bb_kernels *kernels;
	bb_mpi_operation *op[BB_NDTYPES][BB_NOPS]; /* NULL: MPI has it */
} sets[] = {
	{&bb_kernels_plain, {FOR_TYPES(ROW, plain)}},
	{&bb_kernels_avx2, {FOR_TYPES(ROW, avx2)}},
	{&bb_kernels_avx512, {FOR_TYPES(ROW, avx512)}},
};

static bb_mpi_operation *own_op(const struct bb_kernels *kernels, enum bb_dtype dtype,
				enum bb_op op)
{
	size_t set = 0;

	while (sets[set].kernels != kernels)
		set++;
	return sets[set].op[dtype][op];
}

/* ---- what MPI has ----------------------------------------------------------------------- */

static_assert(sizeof(struct bb_float_int) == sizeof(float) + sizeof(int), "that of MPI_FLOAT_INT");

static const MPI_Datatype named_types[BB_NDTYPES] = {
	[BB_INT8] = MPI_INT8_T,         [BB_UINT8] = MPI_UINT8_T,     [BB_INT32] = MPI_INT32_T,
	[BB_UINT32] = MPI_UINT32_T,     [BB_INT64] = MPI_INT64_T,     [BB_UINT64] = MPI_UINT64_T,
	[BB_HALF] = MPI_UINT16_T,       [BB_BFLOAT16] = MPI_UINT16_T, [BB_F8E4M3] = MPI_UINT8_T,
	[BB_F8E5M2] = MPI_UINT8_T,      [BB_FLOAT] = MPI_FLOAT,       [BB_DOUBLE] = MPI_DOUBLE,
	[BB_FLOAT_INT] = MPI_FLOAT_INT,
};

static const MPI_Op named_ops[BB_NOPS] = {
	[BB_SUM] = MPI_SUM,       [BB_AVG] = MPI_SUM,       [BB_MULSUM] = MPI_SUM,
	[BB_PROD] = MPI_PROD,     [BB_MIN] = MPI_MIN,       [BB_MAX] = MPI_MAX,
	[BB_LAND] = MPI_LAND,     [BB_LOR] = MPI_LOR,       [BB_LXOR] = MPI_LXOR,
	[BB_BAND] = MPI_BAND,     [BB_BOR] = MPI_BOR,       [BB_BXOR] = MPI_BXOR,
	[BB_MAXLOC] = MPI_MAXLOC, [BB_MINLOC] = MPI_MINLOC,
};

/* Does the library perform the op as busbench does? There are enough elements for its vector
   code. */
#define SAMPLES 256

static bool means_the_same(MPI_Datatype type, MPI_Op op, enum bb_dtype dtype, enum bb_op meant)
{
	const size_t size = bb_dtype_size(dtype);
	char in[SAMPLES * sizeof(uint64_t)], inout[sizeof(in)], expected[sizeof(in)];
	uint64_t state = 1;

	for (size_t i = 0; i < sizeof(in); i++) {
		const uint64_t word = bb_random_next(&state);

		in[i] = (char)word;
		inout[i] = (char)(word >> 8);
	}
	memcpy(expected, inout, sizeof(inout));
	for (size_t i = 0; i < SAMPLES; i++)
		bb_scalar_reduce(dtype, meant, &expected[i * size], &in[i * size]);
	return MPI_Reduce_local(in, inout, SAMPLES, type, op) == MPI_SUCCESS &&
	       memcmp(inout, expected, SAMPLES * size) == 0;
}

int bb_mpi_types_open(struct bb_mpi_types *types, const struct bb_kernels *kernels, MPI_Comm comm)
{
	for (enum bb_dtype dtype = 0; dtype < BB_NDTYPES; dtype++) {
		const bool is_small_float =
			bb_dtype_is_float(dtype) && dtype != BB_FLOAT && dtype != BB_DOUBLE;

		types->type[dtype] = named_types[dtype];
		for (enum bb_op op = 0; op < BB_NOPS; op++)
			types->own[dtype][op] =
				own_op(kernels, dtype, op) &&
				(is_small_float ||
				 !means_the_same(types->type[dtype], named_ops[op], dtype, op));
	}
	/* An op must be the same on all ranks, whatever their processors. */
	int code = MPI_Allreduce(MPI_IN_PLACE, types->own, sizeof(types->own), MPI_UINT8_T, MPI_BOR,
				 comm);
	if (code != MPI_SUCCESS)
		memset(types->own, 0, sizeof(types->own));
	for (enum bb_dtype dtype = 0; dtype < BB_NDTYPES; dtype++) {
		for (enum bb_op op = 0; op < BB_NOPS; op++) {
			types->op[dtype][op] = named_ops[op];
			if (types->own[dtype][op] && code == MPI_SUCCESS)
				code = BB_MPI(Op_create)(own_op(kernels, dtype, op), true,
							 &types->op[dtype][op]);
			types->own[dtype][op] &= code == MPI_SUCCESS;
		}
		types->op[dtype][BB_AVG] = types->op[dtype][BB_SUM];
		types->op[dtype][BB_MULSUM] = types->op[dtype][BB_SUM];
	}
	return code;
}

void bb_mpi_types_close(struct bb_mpi_types *types)
{
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++)
		for (int op = 0; op < BB_NOPS; op++)
			if (types->own[dtype][op])
				MPI_Op_free(&types->op[dtype][op]);
}

/*
 * What the ranks of a collective get.
 */
#include "fake.h"

#include "backends/cpu/kernels.h"
#include "core/scalar.h"

#include <stdlib.h>
#include <string.h>

/* By number: not every header has all the names. */
static const enum bb_dtype dtypes[] = {
	[ncclInt8] = BB_INT8,      [ncclUint8] = BB_UINT8,
	[ncclInt32] = BB_INT32,    [ncclUint32] = BB_UINT32,
	[ncclInt64] = BB_INT64,    [ncclUint64] = BB_UINT64,
	[ncclFloat16] = BB_HALF,   [ncclFloat32] = BB_FLOAT,
	[ncclFloat64] = BB_DOUBLE, [BB_NCCL_BFLOAT16] = BB_BFLOAT16,
	[10] = BB_F8E4M3,          [11] = BB_F8E5M2,
};

size_t fake_bytes(size_t count, ncclDataType_t type)
{
	return count * bb_dtype_size(dtypes[type]);
}

bool fake_is_two(ncclDataType_t type, uint64_t bits)
{
	return bb_dtype_is_float(dtypes[type]) ? bb_scalar_decode(dtypes[type], &bits) == 2.0
					       : (bits & 0xff) == 2;
}

/* ---- what a rank gets -------------------------------------------------------------- */

/* As NCCL: floats are multiplied before they are added, integers divided at the end. */
static void multiply(void *out, const void *in, size_t count, enum bb_dtype dtype, int n)
{
	const size_t size = bb_dtype_size(dtype);
	char factor[8];

	bb_scalar_encode(dtype, 1.0 / n, factor);
	for (size_t i = 0; i < count; i++)
		bb_scalar_encode(dtype,
				 bb_scalar_decode(dtype, (const char *)in + i * size) *
					 bb_scalar_decode(dtype, factor),
				 (char *)out + i * size);
}

/* COUNT elements of everybody's IN, from element FIRST on, reduced. */
static void reduce(const struct fake_meeting *m, int n, size_t first, size_t count, void *out)
{
	static const enum bb_op ops[] = {
		[ncclSum] = BB_SUM, [ncclProd] = BB_PROD, [ncclMax] = BB_MAX,
		[ncclMin] = BB_MIN, [ncclAvg] = BB_AVG,   [ncclNumOps] = BB_MULSUM};
	const struct bb_kernels *const kernels = bb_kernels_select();
	const enum bb_dtype dtype = dtypes[m->calls[0].type];
	const size_t bytes = count * bb_dtype_size(dtype);
	enum bb_op op = ops[m->calls[0].op];
	const bool multiplies = op == BB_AVG && bb_dtype_is_float(dtype);
	struct bb_reduce_args args = {.divisor = n};
	uint8_t weights[FAKE_MOST_RANKS];
	const void *in[FAKE_MOST_RANKS];
	char *scaled = multiplies ? malloc(bytes * (size_t)n + 1) : NULL;

	for (int r = 0; r < n; r++) {
		in[r] = (const char *)m->calls[r].in + first * bb_dtype_size(dtype);
		weights[r] = (uint8_t)m->calls[r].weight;
		if (multiplies) {
			multiply(scaled + (size_t)r * bytes, in[r], count, dtype, n);
			in[r] = scaled + (size_t)r * bytes;
		}
	}
	if (multiplies)
		op = BB_SUM;
	args.weight = op == BB_MULSUM ? weights : NULL;
	kernels->reduce[dtype][op](&out, 1, in, n, count, &args);
	free(scaled);
}

/* Elements that RANK gets. */
size_t fake_out_count(const struct fake_call *c, int rank, int n)
{
	switch (c->kind) {
	case FAKE_ALL_GATHER:
	case FAKE_ALLTOALL:
		return c->count * (size_t)n;
	case FAKE_REDUCE:
		return rank == c->root ? c->count : 0;
	case FAKE_GATHER:
		return rank == c->root ? c->count * (size_t)n : 0;
	default:
		return c->count;
	}
}

void fake_compute(const struct fake_meeting *m, int rank, int n, char *out)
{
	const struct fake_call *c = &m->calls[rank];
	const size_t block = fake_bytes(c->count, c->type), mine = (size_t)rank * block;

	switch (c->kind) {
	case FAKE_ALL_REDUCE:
	case FAKE_REDUCE:
		reduce(m, n, 0, c->count, out);
		break;
	case FAKE_REDUCE_SCATTER:
		reduce(m, n, (size_t)rank * c->count, c->count, out);
		break;
	case FAKE_BROADCAST:
		memcpy(out, m->calls[c->root].in, block);
		break;
	case FAKE_SCATTER:
		memcpy(out, (const char *)m->calls[c->root].in + mine, block);
		break;
	case FAKE_ALL_GATHER:
	case FAKE_GATHER:
		for (int r = 0; r < n; r++)
			memcpy(out + (size_t)r * block, m->calls[r].in, block);
		break;
	case FAKE_ALLTOALL:
		for (int r = 0; r < n; r++)
			memcpy(out + (size_t)r * block, (const char *)m->calls[r].in + mine, block);
		break;
	}
}

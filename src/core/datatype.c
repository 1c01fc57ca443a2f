#include "core/datatype.h"

#include <string.h>

static const struct {
	const char *name;
	size_t size;
	bool is_float;
} dtypes[BB_NDTYPES] = {
	[BB_INT8] = {"int8", 1, false},
	[BB_UINT8] = {"uint8", 1, false},
	[BB_INT32] = {"int32", 4, false},
	[BB_UINT32] = {"uint32", 4, false},
	[BB_INT64] = {"int64", 8, false},
	[BB_UINT64] = {"uint64", 8, false},
	[BB_HALF] = {"half", 2, true},
	[BB_FLOAT] = {"float", 4, true},
	[BB_DOUBLE] = {"double", 8, true},
	[BB_BFLOAT16] = {"bfloat16", 2, true},
	[BB_F8E4M3] = {"f8e4m3", 1, true},
	[BB_F8E5M2] = {"f8e5m2", 1, true},
	[BB_FLOAT_INT] = {"float_int", sizeof(struct bb_float_int), false},
};

static const char *const op_names[BB_NOPS] = {
	[BB_SUM] = "sum",       [BB_PROD] = "prod",     [BB_MIN] = "min",   [BB_MAX] = "max",
	[BB_AVG] = "avg",       [BB_MULSUM] = "mulsum", [BB_LAND] = "land", [BB_LOR] = "lor",
	[BB_LXOR] = "lxor",     [BB_BAND] = "band",     [BB_BOR] = "bor",   [BB_BXOR] = "bxor",
	[BB_MAXLOC] = "maxloc", [BB_MINLOC] = "minloc",
};

const char *bb_dtype_name(enum bb_dtype dtype)
{
	return dtypes[dtype].name;
}

size_t bb_dtype_size(enum bb_dtype dtype)
{
	return dtypes[dtype].size;
}

bool bb_dtype_is_float(enum bb_dtype dtype)
{
	return dtypes[dtype].is_float;
}

enum bb_dtype bb_dtype_named(const char *name)
{
	int dtype = 0;

	while (dtype < BB_NDTYPES && strcmp(name, dtypes[dtype].name) != 0)
		dtype++;
	return (enum bb_dtype)dtype;
}

const char *bb_op_name(enum bb_op op)
{
	return op_names[op];
}

enum bb_op bb_op_named(const char *name)
{
	int op = 0;

	while (op < BB_NOPS && strcmp(name, op_names[op]) != 0)
		op++;
	return (enum bb_op)op;
}

bool bb_op_accepts(enum bb_op op, enum bb_dtype dtype)
{
	if (op == BB_MAXLOC || op == BB_MINLOC)
		return dtype == BB_FLOAT_INT;
	if (op >= BB_LAND && op <= BB_BXOR)
		return dtype != BB_FLOAT_INT && !bb_dtype_is_float(dtype);
	return dtype != BB_FLOAT_INT;
}

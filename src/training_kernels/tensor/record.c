/*
 * record.c - what records of tensor parallelism carry.
 */
#include "training_kernels/tensor/tensor.h"

#define BB_RECORD bb_tensor_record
BB_RECORD_KIND(bb_record_tensor, BB_TENSOR_FIELDS, "tensor_parallel",
	       "Of tensor parallelism: a part of a model, split one way.");

#undef BB_RECORD
#define BB_RECORD bb_tensor_equality_record
BB_RECORD_KIND(bb_record_tensor_equality, BB_TENSOR_EQUALITY_FIELDS, "tensor_equality",
	       "Of tensor parallelism: a module on small matrices, against the unsplit one.");

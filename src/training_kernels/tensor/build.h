/*
 * build.h - the operations of split parts. Known to program.c only.
 */
#ifndef BB_TRAINING_KERNELS_TENSOR_BUILD_H
#define BB_TRAINING_KERNELS_TENSOR_BUILD_H

#include "training_kernels/tensor/program.h"

/* Sets the operations of one layer of PROGRAM and its numbers of queues, lanes, events and groups;
   its form and ranks are set. False: no memory. */
bool bb_tensor_build(struct bb_tensor_program *program);

#endif

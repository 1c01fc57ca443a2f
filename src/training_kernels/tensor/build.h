/*
 * build.h - what makes the operations of split parts. Known to program.c only.
 */
#ifndef BB_TRAINING_KERNELS_TENSOR_BUILD_H
#define BB_TRAINING_KERNELS_TENSOR_BUILD_H

#include "training_kernels/tensor/program.h"

/* Put down the operations of one layer, and what PROGRAM then has of queues, lanes, events and
   groups; its form and ranks are known. False: out of memory. */
bool bb_tensor_build(struct bb_tensor_program *program);

#endif

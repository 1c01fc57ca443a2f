/*
 * units.h - FSDP's units of a model: modules whose parameters are sharded, gathered and reduced
 * together. A unit has the parameters of its module that no unit inside it has; the root unit has
 * those that are left. A model's tied head has no tensor, so it belongs to the embedding's unit.
 *
 * Modules follow from the names of tensors: "model.layers.3.mlp.up_proj.weight" is the parameter
 * "weight" of the module "model.layers.3.mlp.up_proj".
 */
#pragma once

#include "models/model.h"

/* min_num_params of size_based_auto_wrap_policy. */
#define BB_UNITS_LEAST UINT64_C(100000000)

struct bb_fsdp_unit {
	char name[BB_TENSOR_NAME]; /* of its module; "": the root, which is the whole model */
	size_t begin, end;         /* tensors of its module, with those of units inside it */
	uint64_t elements;         /* its own */
};

/* Units in the order in which the forward pass of a model enters their modules: a unit stands
   before those inside it, and the root, unless it has no parameters, first. */
struct bb_fsdp_units {
	struct bb_fsdp_unit *list; /* owned */
	size_t n;
	size_t *of; /* [tensor of the model]: its unit; owned */
};

/*
 * What becomes a unit. BY_LAYER: each layer, also those before and behind all blocks, so that the
 * root has nothing. BY_BLOCK: each block, as by transformer_auto_wrap_policy; of VGG a stage counts
 * as one. BY_SIZE: modules by FSDP1's size_based_auto_wrap_policy with a min_num_params: from the
 * innermost modules outwards, a module is a unit if at least as many of its elements are in no unit
 * inside it. Lists of modules (nn.ModuleList) are none, and nn.MultiheadAttention stays whole
 * (torch/distributed/fsdp/wrap.py: _recursive_wrap and size_based_auto_wrap_policy of PyTorch
 * 2.15).
 */
enum bb_unit_division { BB_UNITS_BY_LAYER, BB_UNITS_BY_BLOCK, BB_UNITS_BY_SIZE };

/* The units of MODEL by DIVISION; LEAST (at least 1) is the min_num_params. BB_EINTERNAL without
   memory. Free UNITS whatever comes back. */
BB_MUST bb_status bb_units_divide(struct bb_fsdp_units *units, const struct bb_model *model,
				  enum bb_unit_division division, uint64_t least,
				  struct bb_error *error);
void bb_units_free(struct bb_fsdp_units *units); /* zeroed: no-op */

/* Dimension 0 of TENSOR. */
uint64_t bb_units_rows(const struct bb_tensor *tensor);

/*
 * record.c - what the records of hybrid-parallel training carry.
 */
#include "training_kernels/hybrid/hybrid.h"

#define BB_RECORD bb_hybrid_plan_record
BB_RECORD_KIND(bb_record_hybrid_plan, BB_HYBRID_PLAN_FIELDS, "hybrid_plan",
	       "Of hybrid-parallel training: one way of dividing a model, as planned.");

#undef BB_RECORD
#define BB_RECORD bb_hybrid_record
BB_RECORD_KIND(bb_record_hybrid, BB_HYBRID_FIELDS, "hybrid",
	       "Of hybrid-parallel training: a step, or a part of it alone.");

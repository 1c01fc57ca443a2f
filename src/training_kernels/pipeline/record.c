/*
 * record.c - the records of schedules and passes.
 */
#include "training_kernels/pipeline/pipeline.h"

#define BB_RECORD bb_pipeline_record
BB_RECORD_KIND(bb_record_pipeline, BB_PIPELINE_FIELDS, "pipeline",
	       "Pipelines: the results of one schedule.");

#undef BB_RECORD
#define BB_RECORD bb_pass_record
BB_RECORD_KIND(bb_record_pass, BB_PASS_FIELDS, "pass",
	       "Pipelines with --gantt: one pass of one stage.");

/*
 * record.c - what the records of ZeRO carry.
 */
#include "memory/zero/zero.h"

#define BB_RECORD bb_zero_record
BB_RECORD_KIND(bb_record_zero, BB_ZERO_FIELDS, "zero", "Of ZeRO: a stage, its memory of one rank.");

#undef BB_RECORD
#define BB_RECORD bb_zero_moment_record
BB_RECORD_KIND(bb_record_zero_moment, BB_ZERO_MOMENT_FIELDS, "zero_moment",
	       "Of ZeRO: the memory of rank 0 at a point of its first step.");

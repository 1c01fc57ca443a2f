/*
 * pair_record.c - what a pair's record and a finding's carry.
 */
#include "p2p/pairs.h"

#define BB_RECORD bb_pair_record
BB_RECORD_KIND(bb_record_pair, BB_PAIR_FIELDS, "pair",
	       "Of pairs and memory: one of them over one route at one size.");

#undef BB_RECORD
#define BB_RECORD bb_finding_record
BB_RECORD_KIND(bb_record_finding, BB_FINDING_FIELDS, "finding",
	       "Of pairs: something that looks wrong.");

#include "memory/bandwidth/pair_record.h"

#define BB_RECORD bb_pair_record
BB_RECORD_KIND(bb_record_pair, BB_PAIR_FIELDS, "pair",
	       "Of pairs and memory: one of them over one route at one size.");

/*
 * record.c - the fields of a diagnosis' records, and the table.
 */
#include "diagnose/diagnose.h"

#define BB_RECORD bb_node_record
BB_RECORD_KIND(bb_record_node, BB_NODE_FIELDS, "node", "Diagnosis: a node and its verdict.");

#undef BB_RECORD
#define BB_RECORD bb_culprit_record
BB_RECORD_KIND(bb_record_culprit, BB_CULPRIT_FIELDS, "culprit", "Diagnosis: a culprit.");

#undef BB_RECORD
#define BB_RECORD bb_meeting_record
BB_RECORD_KIND(bb_record_meeting, BB_MEETING_FIELDS, "meeting",
	       "Diagnosis: two nodes in one round.");

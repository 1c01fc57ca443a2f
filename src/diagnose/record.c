/*
 * record.c - what the records of a diagnosis carry, and the tables.
 */
#include "diagnose/diagnose.h"
#include "harness/results/record_rows.h"
#include "harness/results/sink_table.h"

#define BB_RECORD bb_node_record
static const struct bb_field node_fields[] = {
	ROW(STRING, host, "", "where it is"),
	ROW(INT, node, "", "its number"),
	ROW(INT, first_rank, "", "its first rank"),
	ROW(STRING, verdict, "", "OK or BAD"),
	ROW(STRING, code, "",
	    "BB-OK, BB-SLOW-NODE, BB-SLOW-RAIL, BB-SHARED-RAIL or BB-STRAGGLER; FLAPPING instead "
	    "of "
	    "SLOW, or before STRAGGLER, if it is so now and then; of several the first found"),
	ROW(STRING, reason, "", "the same in words; of several the others' codes too"),
	ROW(DOUBLE, sends_GBps, "GB/s", "usual of its large messages, over one rail"),
	ROW(DOUBLE, receives_GBps, "GB/s", "likewise of those that it receives"),
	ROW(DOUBLE, latency_us, "us", "usual of small messages that it asks for, there and back"),
	ROW(DOUBLE, sends_share, "fraction", "its speed of sending as a share of what is usual"),
	ROW(DOUBLE, receives_share, "fraction", "likewise of receiving"),
	ROW(INT, partners, "", "rounds of the survey that it took part in"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_culprit_record
static const struct bb_field culprit_fields[] = {
	ROW(STRING, code, "",
	    "BB-SLOW-NODE, BB-SLOW-RAIL, BB-SHARED-RAIL, BB-SLOW-RAIL-EVERYWHERE, BB-SLOW-LINK or "
	    "BB-STRAGGLER; FLAPPING likewise"),
	ROW(STRING, host, "", "of the node; null: all"),
	ROW(STRING, peer_host, "", "of a link, where it leads"),
	ROW(INT, node, "", "null: all"),
	ROW(INT, peer, "", "of a link, the other node"),
	ROW(INT, rail, "", "null: all, or most"),
	ROW(INT, rank, "", "the rank, or the node's first"),
	ROW(STRING, direction, "", "sends, receives or both; of a link: there, back or both"),
	ROW(STRING, quantity, "", "in which it is slow: latency, bandwidth, both, or arrival"),
	ROW(DOUBLE, factor, "", "of the usual time, when it is slow"),
	ROW(DOUBLE, share, "fraction", "of its measurements that were slow"),
	ROW(INT, measured, "", "how many there were, after it was suspected"),
	ROW(DOUBLE, confidence, "fraction",
	    "1 - the chance that anything healthy in this run looks so"),
	ROW(BOOL, flapping, "", "slow now and then, not steadily"),
	ROW(STRING, text, "", "the same as a sentence"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_meeting_record
static const struct bb_field meeting_fields[] = {
	ROW(STRING, stage, "", "survey, confirm or alone"),
	ROW(INT, round, "", "of the stage"),
	ROW(INT, from, "", "node that the data comes from"),
	ROW(INT, to, "", "node that asked for it"),
	ROW(INT, rail, "", "of both"),
	ROW(DOUBLE, latency_us, "us", "from asking to a small message, median of the round"),
	ROW(DOUBLE, GBps, "GB/s", "of large messages, likewise"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_node = {"node", "Of a diagnosis: a node and its verdict.",
					      node_fields, sizeof(struct bb_node_record)};
const struct bb_record_kind bb_record_culprit = {"culprit", "Of a diagnosis: who is to blame.",
						 culprit_fields, sizeof(struct bb_culprit_record)};
const struct bb_record_kind bb_record_meeting = {"meeting",
						 "Of a diagnosis: two nodes in one round.",
						 meeting_fields, sizeof(struct bb_meeting_record)};

static const struct bb_column columns[] = {
	{.head = "host", .width = -20, .field = "host"},
	{.head = "node", .width = 5, .field = "node"},
	{.head = "sends", .unit = "(GB/s)", .width = 8, .field = "sends_GBps", .decimals = 3},
	{.head = "of usual",
	 .unit = "(%)",
	 .width = 8,
	 .field = "sends_share",
	 .scale = 100,
	 .decimals = 0},
	{.head = "receives", .unit = "(GB/s)", .width = 8, .field = "receives_GBps", .decimals = 3},
	{.head = "of usual",
	 .unit = "(%)",
	 .width = 8,
	 .field = "receives_share",
	 .scale = 100,
	 .decimals = 0},
	{.head = "latency", .unit = "(us)", .width = 9, .field = "latency_us", .decimals = 2},
	{.head = "verdict", .width = -7, .field = "verdict"},
	{.head = "code", .width = -24, .field = "code"},
	{.head = NULL},
};

static const struct bb_table table = {&bb_record_node, columns, NULL};

bb_status bb_diagnose_text_open(struct bb_sink **sink, FILE *file, const char *path)
{
	return bb_sink_table_open(sink, file, path, &table);
}

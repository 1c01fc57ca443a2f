/*
 * pair_record.c - what a pair's record and a finding's carry: one row a field.
 */
#include "harness/results/record_rows.h"
#include "p2p/pairs.h"

#define BB_RECORD bb_pair_record
static const struct bb_field pair_fields[] = {
	ROW(STRING, quantity, "", "bandwidth or latency"),
	ROW(STRING, ends, "", "what the ends are: core, gpu, memory, or a virtual rank"),
	ROW(INT, from, "", "rank that the data comes from; null: the host, or memory"),
	ROW(INT, to, "", "rank that it goes to; itself: a private copy; null: likewise"),
	ROW(STRING, place, "", "for memory: where the ranks that work are, a NUMA node or a GPU"),
	ROW(INT, workers, "", "for memory: how many of them work at once"),
	ROW(STRING, memory_from, "", "for memory: where what is read is"),
	ROW(STRING, memory_to, "", "for memory: where what is written is"),
	ROW(STRING, from_host, "", "where that rank lives"),
	ROW(STRING, to_host, "", "where the other lives"),
	ROW(INT, from_node, "", "of --cluster: the node of that rank"),
	ROW(INT, to_node, "", "that of the other"),
	ROW(INT, from_device, "", "its core or GPU; of --cluster: which GPU of its node"),
	ROW(INT, to_device, "", "that of the other"),
	ROW(INT, from_numa, "", "its NUMA node"),
	ROW(INT, to_numa, "", "that of the other"),
	ROW(STRING, path, "", "what lies between them"),
	ROW(STRING, route, "", "how the bytes go, or what is done with memory: see --list"),
	ROW(STRING, p2p, "",
	    "on: one end works on the other's memory; off: there is a place between"),
	ROW(STRING, actor, "", "who moves the bytes: target, source or both"),
	ROW(STRING, direction, "",
	    "unidirectional; bidirectional: both directions at once, added up"),
	ROW(INT, size_bytes, "bytes", "of one transfer; null for latency"),
	ROW(DOUBLE, GBps, "GB/s", "median of the rounds"),
	ROW(DOUBLE, low_GBps, "GB/s", "their lower quartile"),
	ROW(DOUBLE, high_GBps, "GB/s", "their upper quartile"),
	ROW(DOUBLE, p50_us, "us", "one transfer, or half a round trip: median of the samples"),
	ROW(DOUBLE, p99_us, "us", "their 99th percentile"),
	ROW(DOUBLE, min_us, "us", "the least"),
	ROW(DOUBLE, max_us, "us", "the most"),
	ROW(INT, rounds, "", "times that the pair had its turn among the others"),
	ROW(INT, samples, "", "readings of the clock in all of them"),
	ROW(INT, repeats, "", "transfers or round trips of one sample"),
	ROW(INT, wrong, "bytes", "that are not what was sent; null: not checked"),
	ROW(BOOL, child_process, "",
	    "measured by a child process, in which P2P of the library is off"),
	ROW(DOUBLE, bound_GBps, "GB/s", "what the pair could do"),
	ROW(DOUBLE, percent_of_bound, "%", "GBps / bound_GBps"),
	ROW(STRING, bound_source, "", "where the bound comes from"),
	ROW(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC"),
	{.name = NULL},
};

#undef BB_RECORD
#define BB_RECORD bb_finding_record
static const struct bb_field finding_fields[] = {
	ROW(STRING, finding, "",
	    "P2P slower than staged, slow rank, asymmetry, slow pair, or below bound"),
	ROW(INT, rank, "", "that is slow; null: it is about pairs"),
	ROW(INT, from, "", "the pair, or the worst of them"),
	ROW(INT, to, "", "where its data goes"),
	ROW(INT, pairs, "", "how many pairs it is about"),
	ROW(STRING, path, "", "what lies between the pair"),
	ROW(STRING, route, "", "where it shows most"),
	ROW(STRING, p2p, "", "of that route: on or off"),
	ROW(STRING, direction, "", "where it shows most"),
	ROW(INT, size_bytes, "bytes", "null for latency"),
	ROW(DOUBLE, value_GBps, "GB/s", "what was measured; null for latency"),
	ROW(DOUBLE, reference_GBps, "GB/s", "what it is held against; null for latency"),
	ROW(DOUBLE, value_us, "us", "what was measured; null for bandwidth"),
	ROW(DOUBLE, reference_us, "us", "what it is held against; null for bandwidth"),
	ROW(DOUBLE, share, "fraction", "speed as a share of what it is held against"),
	ROW(STRING, cause, "", "why, where it is known"),
	ROW(STRING, text, "", "the finding as a sentence"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_pair = {
	"pair", "Of pairs and memory: one of them over one route at one size.", pair_fields,
	sizeof(struct bb_pair_record)};
const struct bb_record_kind bb_record_finding = {"finding", "Of pairs: something that looks wrong.",
						 finding_fields, sizeof(struct bb_finding_record)};

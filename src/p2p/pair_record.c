/*
 * pair_record.c - what a pair's record and a finding's carry: one row a field.
 */
#include "p2p/pairs.h"

#include <stddef.h>

#define ROW(record, kind, field, unit_, help_)                                                     \
	{                                                                                          \
		.name = #field, .type = kind, .offset = offsetof(struct record, field),            \
		.unit = unit_, .help = help_                                                       \
	}
#define PAIR(kind, field, unit_, help_) ROW(bb_pair_record, kind, field, unit_, help_)
#define FINDING(kind, field, unit_, help_) ROW(bb_finding_record, kind, field, unit_, help_)

#define STRING BB_FIELD_STRING
#define INT BB_FIELD_INT
#define DOUBLE BB_FIELD_DOUBLE
#define BOOL BB_FIELD_BOOL

static const struct bb_field pair_fields[] = {
	PAIR(STRING, quantity, "", "bandwidth or latency"),
	PAIR(STRING, ends, "", "what the ends are: core, gpu or memory"),
	PAIR(INT, from, "", "rank that the data comes from; null: the host, or memory"),
	PAIR(INT, to, "", "rank that it goes to; itself: a private copy; null: likewise"),
	PAIR(STRING, place, "", "for memory: where the ranks that work are, a NUMA node or a GPU"),
	PAIR(INT, workers, "", "for memory: how many of them work at once"),
	PAIR(STRING, memory_from, "", "for memory: where what is read is"),
	PAIR(STRING, memory_to, "", "for memory: where what is written is"),
	PAIR(STRING, from_host, "", "where that rank lives"),
	PAIR(STRING, to_host, "", "where the other lives"),
	PAIR(INT, from_device, "", "its core or GPU"),
	PAIR(INT, to_device, "", "that of the other"),
	PAIR(INT, from_numa, "", "its NUMA node"),
	PAIR(INT, to_numa, "", "that of the other"),
	PAIR(STRING, path, "", "what lies between them"),
	PAIR(STRING, route, "", "how the bytes go, or what is done with memory: see --list"),
	PAIR(STRING, p2p, "",
	     "on: one end works on the other's memory; off: there is a place between"),
	PAIR(STRING, actor, "", "who moves the bytes: target, source or both"),
	PAIR(STRING, direction, "",
	     "unidirectional; bidirectional: both directions at once, added up"),
	PAIR(INT, size_bytes, "bytes", "of one transfer; null for latency"),
	PAIR(DOUBLE, GBps, "GB/s", "median of the rounds"),
	PAIR(DOUBLE, low_GBps, "GB/s", "their lower quartile"),
	PAIR(DOUBLE, high_GBps, "GB/s", "their upper quartile"),
	PAIR(DOUBLE, p50_us, "us", "one transfer, or half a round trip: median of the samples"),
	PAIR(DOUBLE, p99_us, "us", "their 99th percentile"),
	PAIR(DOUBLE, min_us, "us", "the least"),
	PAIR(DOUBLE, max_us, "us", "the most"),
	PAIR(INT, rounds, "", "times that the pair had its turn among the others"),
	PAIR(INT, samples, "", "readings of the clock in all of them"),
	PAIR(INT, repeats, "", "transfers or round trips of one sample"),
	PAIR(INT, wrong, "bytes", "that are not what was sent; null: not checked"),
	PAIR(BOOL, child_process, "",
	     "measured by a child process, in which P2P of the library is off"),
	PAIR(DOUBLE, bound_GBps, "GB/s", "what the pair could do"),
	PAIR(DOUBLE, percent_of_bound, "%", "GBps / bound_GBps"),
	PAIR(STRING, bound_source, "", "where the bound comes from"),
	PAIR(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC"),
	{.name = NULL},
};

static const struct bb_field finding_fields[] = {
	FINDING(STRING, finding, "",
		"P2P slower than staged, slow rank, asymmetry, slow pair, or below bound"),
	FINDING(INT, rank, "", "that is slow; null: it is about pairs"),
	FINDING(INT, from, "", "the pair, or the worst of them"),
	FINDING(INT, to, "", "where its data goes"),
	FINDING(INT, pairs, "", "how many pairs it is about"),
	FINDING(STRING, path, "", "what lies between the pair"),
	FINDING(STRING, route, "", "where it shows most"),
	FINDING(STRING, p2p, "", "of that route: on or off"),
	FINDING(STRING, direction, "", "where it shows most"),
	FINDING(INT, size_bytes, "bytes", "null for latency"),
	FINDING(DOUBLE, value_GBps, "GB/s", "what was measured; null for latency"),
	FINDING(DOUBLE, reference_GBps, "GB/s", "what it is held against; null for latency"),
	FINDING(DOUBLE, value_us, "us", "what was measured; null for bandwidth"),
	FINDING(DOUBLE, reference_us, "us", "what it is held against; null for bandwidth"),
	FINDING(DOUBLE, share, "fraction", "speed as a share of what it is held against"),
	FINDING(STRING, cause, "", "why, where it is known"),
	FINDING(STRING, text, "", "the finding as a sentence"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_pair = {
	"pair", "Of pairs and memory: one of them over one route at one size.", pair_fields,
	sizeof(struct bb_pair_record)};
const struct bb_record_kind bb_record_finding = {"finding", "Of pairs: something that looks wrong.",
						 finding_fields, sizeof(struct bb_finding_record)};

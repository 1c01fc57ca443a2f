/*
 * pair_record.h - the record of a pair of ranks, or of one that works on memory: how fast bytes
 * move from one end to the other.
 */
#ifndef BB_MEMORY_BANDWIDTH_PAIR_RECORD_H
#define BB_MEMORY_BANDWIDTH_PAIR_RECORD_H

#include "harness/results/record.h"

#define BB_PAIR_FIELDS(FIELD)                                                                      \
	FIELD(STRING, quantity, "", "bandwidth or latency")                                        \
	FIELD(STRING, ends, "", "kind of the two ends: core, gpu, memory, or rank (virtual)")      \
	FIELD(INT, from, "", "source rank; null: the host, memory, or all ranks but to")           \
	FIELD(INT, to, "",                                                                         \
	      "target rank; equal to from: a private copy; null: the host, memory, or all ranks "  \
	      "but from")                                                                          \
	FIELD(STRING, place, "",                                                                   \
	      "memory: NUMA node or GPU that works; GPUs: all of a host at once")                  \
	FIELD(INT, workers, "", "memory: number of ranks that work at once")                       \
	FIELD(STRING, memory_from, "", "memory: location of what is read")                         \
	FIELD(STRING, memory_to, "", "memory: location of what is written")                        \
	FIELD(STRING, from_host, "", "host of the source")                                         \
	FIELD(STRING, to_host, "", "host of the target")                                           \
	FIELD(INT, from_node, "", "with --cluster: node of the source")                            \
	FIELD(INT, to_node, "", "with --cluster: node of the target")                              \
	FIELD(INT, from_device, "",                                                                \
	      "core or GPU of the source; with --cluster: its number in the node")                 \
	FIELD(INT, to_device, "", "core or GPU of the target, likewise")                           \
	FIELD(INT, from_numa, "", "NUMA node of the source")                                       \
	FIELD(INT, to_numa, "", "NUMA node of the target")                                         \
	FIELD(STRING, path, "", "path between the two ends")                                       \
	FIELD(STRING, route, "", "route of the bytes, or kind of work on memory: see --list")      \
	FIELD(STRING, p2p, "", "on: one end accesses the other's memory; off: data is staged")     \
	FIELD(STRING, handle, "",                                                                  \
	      "kind of CUDA's handle by which the end that moves the bytes has mapped memory of "  \
	      "another process: ipc or fabric; null: none")                                        \
	FIELD(STRING, actor, "", "end that moves the bytes: target, source or both")               \
	FIELD(STRING, direction, "",                                                               \
	      "unidirectional; bidirectional: sum of both directions at once; all-to-one, "        \
	      "one-to-all: sum of a rank's transfers from or to all others at once")               \
	FIELD(INT, size_bytes, "bytes",                                                            \
	      "size of one transfer, or of all at once together; null for latency")                \
	FIELD(DOUBLE, GBps, "GB/s", "median of the rounds")                                        \
	FIELD(DOUBLE, low_GBps, "GB/s", "lower quartile of the rounds")                            \
	FIELD(DOUBLE, high_GBps, "GB/s", "upper quartile of the rounds")                           \
	FIELD(DOUBLE, p50_us, "us", "one transfer, or half a round trip: median of all samples")   \
	FIELD(DOUBLE, p99_us, "us", "99th percentile of all samples")                              \
	FIELD(DOUBLE, min_us, "us", "shortest sample")                                             \
	FIELD(DOUBLE, max_us, "us", "longest sample")                                              \
	FIELD(INT, rounds, "", "rounds over all pairs")                                            \
	FIELD(INT, samples, "", "samples in all rounds")                                           \
	FIELD(INT, repeats, "", "transfers or round trips per sample")                             \
	FIELD(INT, wrong, "bytes", "bytes that differ from what was sent; null: not checked")      \
	FIELD(BOOL, child_process, "",                                                             \
	      "measured by a child process in which the library's P2P is off")                     \
	FIELD(DOUBLE, bound_GBps, "GB/s", "bandwidth by bound_source")                             \
	FIELD(DOUBLE, percent_of_bound, "%", "GBps / bound_GBps")                                  \
	FIELD(STRING, bound_source, "", "source of the bound")                                     \
	FIELD(STRING, bound_doubt, "",                                                             \
	      "why the bound does not hold, where the lower quartile beats it by more than 5%; "   \
	      "null: it may hold")                                                                 \
	FIELD(DOUBLE, end_unix_s, "s", "end of the measurement, since 1970 UTC")

/* One ordered pair over one route at one size. Bidirectional bandwidth and latency: one unordered
   pair. */
struct bb_pair_record {
	BB_PAIR_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_pair;

#endif

/*
 * counters.h - the kernel's counters of network errors on this host, and the frequency of its
 * processors.
 */
#ifndef BB_TOPOLOGY_PROBES_COUNTERS_H
#define BB_TOPOLOGY_PROBES_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The gravest first. */
enum bb_counter_class {
	BB_COUNTER_LINK_DOWN,
	BB_COUNTER_SYMBOL_ERROR,
	BB_COUNTER_ERROR,
	BB_COUNTER_DISCARD,
	BB_COUNTER_RETRANSMIT,
	BB_COUNTER_FREQUENCY,
	BB_COUNTER_TRAFFIC, /* what the others are a share of */
	BB_COUNTER_NCLASSES
};

#define BB_COUNTER_DEVICE 40
#define BB_COUNTER_NAME 48

struct bb_counter {
	char device[BB_COUNTER_DEVICE]; /* "eth0", "mlx5_0:1" (port 1), "tcp", "cpu": all of the
					   host's */
	char name[BB_COUNTER_NAME];     /* as the kernel names it */
	enum bb_counter_class class;
	int64_t value;
};

/* Sorted by device and name, each pair once. */
struct bb_counters { /* zero-initialise */
	struct bb_counter *list;
	size_t n, room;
};

/* What bb_counters_read reads: tests have files and a driver of their own. */
struct bb_counters_source {
	const char *root; /* of /proc and /sys; "" is the real one */
	/* ioctl(SIOCETHTOOL) of DEVICE with REQUEST; false: it failed */
	bool (*ethtool)(const char *device, void *request);
};

extern const struct bb_counters_source bb_counters_here; /* this machine */

/*
 * Read all counters. Those that are missing, unreadable or find no memory are left out; nothing
 * fails.
 */
void bb_counters_read(struct bb_counters *counters, const struct bb_counters_source *source);
void bb_counters_free(struct bb_counters *counters);

/* One counter between two readings. */
struct bb_counter_move {
	char device[BB_COUNTER_DEVICE];
	char name[BB_COUNTER_NAME];
	int32_t class; /* enum bb_counter_class */
	int64_t before, after;
};

/*
 * The first ROOM of those that both readings have with different values, the gravest class first,
 * then the largest move. Traffic is listed only where it is the base of something. Returns how
 * many are in MOVES.
 */
size_t bb_counters_moved(const struct bb_counters *before, const struct bb_counters *after,
			 struct bb_counter_move *moves, size_t room);

/* "link down", "symbol error", "error", "discard", "retransmit", "frequency", "traffic" */
const char *bb_counter_class_name(enum bb_counter_class class);

#endif

/*
 * counters.h - counters of network errors and frequency of the processors on this host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In descending order of severity. */
enum bb_counter_class {
	BB_COUNTER_LINK_DOWN,
	BB_COUNTER_SYMBOL_ERROR,
	BB_COUNTER_ERROR,
	BB_COUNTER_DISCARD,
	BB_COUNTER_RETRANSMIT,
	BB_COUNTER_FREQUENCY,
	BB_COUNTER_TRAFFIC, /* the base of shares */
	BB_COUNTER_NCLASSES
};

#define BB_COUNTER_DEVICE 40
#define BB_COUNTER_NAME 48

struct bb_counter {
	char device[BB_COUNTER_DEVICE]; /* "eth0", "mlx5_0:1" (port 1); of the whole host: "tcp",
					   "cpu" */
	char name[BB_COUNTER_NAME];     /* of the kernel */
	enum bb_counter_class class;
	int64_t value;
};

/* Sorted by device and name, each pair once. */
struct bb_counters { /* zero-initialise */
	struct bb_counter *list;
	size_t n, room;
};

/* The sources of bb_counters_read; tests replace them. */
struct bb_counters_source {
	const char *root; /* prefix of /proc and /sys; "": none */
	/* ioctl(SIOCETHTOOL) of DEVICE with REQUEST; false: it failed */
	bool (*ethtool)(const char *device, void *request);
};

extern const struct bb_counters_source bb_counters_here; /* this machine */

/*
 * Read all counters into COUNTERS, whose previous ones are dropped. Counters that are unreadable,
 * or find no memory, are left out.
 */
void bb_counters_read(struct bb_counters *counters, const struct bb_counters_source *source);
void bb_counters_free(struct bb_counters *counters);

/* A counter that changed between two readings. */
struct bb_counter_move {
	char device[BB_COUNTER_DEVICE];
	char name[BB_COUNTER_NAME];
	int32_t class; /* enum bb_counter_class */
	int64_t before, after;
};

/*
 * Set MOVES to the counters that differ between both readings, in order of class, then of the size
 * of the change; at most ROOM. Traffic is listed only if an error class is. Returns their number.
 */
size_t bb_counters_moved(const struct bb_counters *before, const struct bb_counters *after,
			 struct bb_counter_move *moves, size_t room);

/* "link down", "symbol error", "error", "discard", "retransmit", "frequency", "traffic" */
const char *bb_counter_class_name(enum bb_counter_class class);

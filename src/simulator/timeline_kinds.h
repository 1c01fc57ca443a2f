/*
 * timeline_kinds.h - ranks grouped by what they do and over which links, for schedules whose
 * partners stay the same; for timeline*.c only.
 */
#ifndef BB_SIMULATOR_TIMELINE_KINDS_H
#define BB_SIMULATOR_TIMELINE_KINDS_H

#include "simulator/timeline_parts.h"

#define BB_SLOTS (BB_CHANNELS * BB_PARTNERS) /* a slot is a partner on a channel */
#define BB_NO_SLOT (-1)

/* Ranks with equal keys do the same at the same time while they receive the same. */
struct bb_kind_key {
	uint64_t number; /* the algorithm's */
	double time;     /* when they enter */
	double second_per_byte[BB_SLOTS], latency[BB_SLOTS];
	/* OUTSIDE: the port. LINK: the first slot of the same partner, BB_NO_SLOT without one.
	   ORDER: partners that are nearer around the ring. */
	int outside[BB_SLOTS], link[BB_SLOTS], order[BB_SLOTS];
};

struct bb_kind {
	struct bb_kind_key key;
	struct bb_role role;    /* of one of the ranks */
	int partners[BB_SLOTS]; /* of that rank */
	bool twice[BB_SLOTS];   /* the partner has another slot */
	/* Of this round, in the order of steps: */
	int nsends, nreceipts;
	int sends[BB_MAX_STEPS], receipts[2 * BB_MAX_STEPS]; /* slots */
	double entries[BB_MAX_STEPS], bytes[BB_MAX_STEPS];   /* of what is sent */
	double received[2 * BB_MAX_STEPS];                   /* bytes */
	/* It adds what it receives; it sends to the partner in the same round. */
	bool adds[2 * BB_MAX_STEPS], swaps[2 * BB_MAX_STEPS];
};

struct bb_kinds {
	struct bb_kind *kinds;
	int n, room;
};

/*
 * Fill KINDS (zeroed; to be freed whatever is returned) with the kinds of the ranks that enter
 * SCHEDULE of SHAPE at TIMES. KIND_OF[rank] is its kind. ENDS[rank * BB_SLOTS + slot] is the
 * partner and the partner's slot for the rank, as partner * BB_SLOTS + slot, or BB_NO_SLOT.
 * BB_EINTERNAL: out of memory.
 */
BB_MUST bb_status bb_kinds_find(struct bb_kinds *kinds, const struct bb_link_model *links,
				const struct bb_algorithm *schedule, const struct bb_shape *shape,
				const double *times, int *kind_of, int *ends);
void bb_kinds_free(struct bb_kinds *kinds);

/* The slot of PARTNER, which is one of PARTNERS, on CHANNEL. */
static inline int bb_kind_slot(const int *partners, int partner, int channel)
{
	int slot = channel * BB_PARTNERS;

	while (partners[slot] != partner)
		slot++;
	return slot;
}

#endif

/*
 * agenda.h - a queue of events, at most one for each of several items, earliest first; at
 * equal times the lowest item first.
 */
#ifndef BB_SIMULATOR_TIMELINE_AGENDA_H
#define BB_SIMULATOR_TIMELINE_AGENDA_H

#include "simulator/timeline/slabs.h"

struct bb_agenda {    /* zero-initialise */
	double *time; /* [item], while it is in the heap */
	int *heap;
	int *place; /* [item]: in the heap; -1: it has no event */
	int n;      /* in the heap */
};

/* For COUNT items without events, in SLABS, which may be lacking then. */
void bb_agenda_open(struct bb_agenda *agenda, struct bb_slabs *slabs, size_t count);

/* Set the event of ITEM to TIME; it replaces an earlier one. */
void bb_agenda_set(struct bb_agenda *agenda, int item, double time);
/* Remove the earliest event, of which there is one; returns its item. */
int bb_agenda_pop(struct bb_agenda *agenda);

#endif

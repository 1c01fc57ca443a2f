/*
 * timeline_agenda.h - what is ahead of each of several, the soonest first; at the same time of the
 * one with the lowest number.
 */
#ifndef BB_SIMULATOR_TIMELINE_AGENDA_H
#define BB_SIMULATOR_TIMELINE_AGENDA_H

#include "core/status.h"

#include <stddef.h>

struct bb_agenda {    /* zero-initialise */
	double *time; /* [one of them], while it is in the heap */
	int *heap;
	int *place; /* [one of them]: in the heap; -1: nothing is ahead of it */
	int n;      /* in the heap */
};

/* For COUNT of them, with nothing ahead. BB_EINTERNAL without memory; close it whatever comes
   back. */
BB_MUST bb_status bb_agenda_open(struct bb_agenda *agenda, size_t count);
void bb_agenda_close(struct bb_agenda *agenda);

/* What is ahead of ONE comes at TIME, now or instead of before. */
void bb_agenda_set(struct bb_agenda *agenda, int one, double time);
/* Who comes first of those that there are; it is taken off. */
int bb_agenda_take(struct bb_agenda *agenda);

#endif

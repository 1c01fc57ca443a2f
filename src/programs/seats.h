/*
 * seats.h - the members of a program's groups, found from either side: a seat is a member's place
 * in a group. Known to src/schedules only.
 */
#ifndef BB_PROGRAMS_SEATS_H
#define BB_PROGRAMS_SEATS_H

#include "programs/program.h"

struct bb_seats {
	size_t *first; /* [group]: number of its first seat; [groups]: seats in all */
	int *rank;     /* [seat] */
	size_t *mine;  /* [rank]: where its own begin in OWN; [nranks]: seats in all */
	size_t *own;   /* seats by rank, of each in the order of groups */
	int *group;    /* [seat] */
};

/* BB_EINTERNAL for a group that is empty, or that a member is no rank of or twice in, and without
   memory. Free SEATS whatever comes back. */
BB_MUST bb_status bb_seats_make(struct bb_seats *seats, const struct bb_program *program,
				struct bb_error *error);
void bb_seats_free(struct bb_seats *seats); /* zeroed: nothing */

/* The seat of RANK in GROUP, or SIZE_MAX. */
size_t bb_seats_find(const struct bb_seats *seats, int group, int rank);

static inline int bb_seats_size(const struct bb_seats *seats, int group)
{
	return (int)(seats->first[group + 1] - seats->first[group]);
}

#endif

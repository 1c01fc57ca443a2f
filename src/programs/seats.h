/*
 * seats.h - the members of a program's groups, found by group and by rank: a seat is a member's
 * place in a group.
 */
#ifndef BB_PROGRAMS_SEATS_H
#define BB_PROGRAMS_SEATS_H

#include "programs/program.h"

struct bb_seats {
	size_t *first; /* [group]: its first seat; [groups]: number of seats */
	int *rank;     /* [seat] */
	size_t *mine;  /* [rank]: its first index in OWN; [nranks]: number of seats */
	size_t *own;   /* seats ordered by rank, then by group */
	int *group;    /* [seat] */
};

/* BB_EINTERNAL for an empty group, for a member that is not a rank or is twice in its group, and
   without memory. Free SEATS whatever comes back. */
BB_MUST bb_status bb_seats_make(struct bb_seats *seats, const struct bb_program *program,
				struct bb_error *error);
void bb_seats_free(struct bb_seats *seats); /* zeroed: no-op */

/* The seat of RANK in GROUP, or SIZE_MAX. */
size_t bb_seats_find(const struct bb_seats *seats, int group, int rank);

static inline int bb_seats_size(const struct bb_seats *seats, int group)
{
	return (int)(seats->first[group + 1] - seats->first[group]);
}

#endif

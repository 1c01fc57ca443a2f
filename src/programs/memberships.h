/*
 * memberships.h - the members of a program's groups, found by group and by rank: a membership is a
 * member's place in a group.
 */
#ifndef BB_PROGRAMS_MEMBERSHIPS_H
#define BB_PROGRAMS_MEMBERSHIPS_H

#include "programs/program.h"

struct bb_memberships {
	size_t *first; /* [group]: its first membership; [groups]: number of memberships */
	int *rank;     /* [membership] */
	size_t *mine;  /* [rank]: its first index in OWN; [nranks]: number of memberships */
	size_t *own;   /* memberships ordered by rank, then by group */
	int *group;    /* [membership] */
};

/* BB_EINTERNAL for an empty group, for a member that is not a rank or is twice in its group, and
   without memory. Free MEMBERSHIPS whatever comes back. */
BB_MUST bb_status bb_memberships_make(struct bb_memberships *memberships,
				      const struct bb_program *program, struct bb_error *error);
void bb_memberships_free(struct bb_memberships *memberships); /* zeroed: no-op */

/* The membership of RANK in GROUP, or SIZE_MAX. */
size_t bb_memberships_find(const struct bb_memberships *memberships, int group, int rank);

static inline int bb_memberships_size(const struct bb_memberships *memberships, int group)
{
	return (int)(memberships->first[group + 1] - memberships->first[group]);
}

#endif

#include "programs/program.h"

#include <stdlib.h>

int bb_program_rank_itself(const struct bb_program *program, int group, int i)
{
	return i;
}

/* ---- memberships ---------------------------------------------------------------------- */

bb_status bb_memberships_make(struct bb_memberships *s, const struct bb_program *p,
			      struct bb_error *error)
{
	size_t all = 0;

	*s = (struct bb_memberships){.first = calloc((size_t)p->groups + 1, sizeof(*s->first)),
				     .mine = calloc((size_t)p->nranks + 2, sizeof(*s->mine))};
	if (!s->first || !s->mine)
		return bb_no_memory(error, "the groups of a program");
	for (int g = 0; g < p->groups; g++) {
		const int size = p->group_size(p, g);

		if (size < 1)
			return bb_fail(error, BB_EINTERNAL, "group %d has no members", g);
		s->first[g + 1] = all += (size_t)size;
	}
	s->rank = calloc(all + 1, sizeof(*s->rank));
	s->group = calloc(all + 1, sizeof(*s->group));
	s->own = calloc(all + 1, sizeof(*s->own));
	if (!s->rank || !s->group || !s->own)
		return bb_no_memory(error, "the groups of a program");
	/* Ranks of all memberships, and in mine[rank + 2] how many each has. */
	for (int g = 0; g < p->groups; g++)
		for (size_t membership = s->first[g]; membership < s->first[g + 1]; membership++) {
			const int rank = p->member(p, g, (int)(membership - s->first[g]));

			if (rank < 0 || rank >= p->nranks)
				return bb_fail(error, BB_EINTERNAL,
					       "member %zu of group %d is rank %d of %d",
					       membership - s->first[g], g, rank, p->nranks);
			s->rank[membership] = rank;
			s->group[membership] = g;
			s->mine[rank + 2]++;
		}
	for (int rank = 0; rank < p->nranks; rank++)
		s->mine[rank + 2] += s->mine[rank + 1];
	for (size_t membership = 0; membership < all; membership++)
		s->own[s->mine[s->rank[membership] + 1]++] = membership;
	for (size_t i = 1; i < all; i++) {
		const size_t membership = s->own[i], before = s->own[i - 1];

		if (s->rank[membership] == s->rank[before] &&
		    s->group[membership] == s->group[before])
			return bb_fail(error, BB_EINTERNAL, "rank %d is twice in group %d",
				       s->rank[membership], s->group[membership]);
	}
	return BB_OK;
}

void bb_memberships_free(struct bb_memberships *memberships)
{
	free(memberships->first);
	free(memberships->rank);
	free(memberships->mine);
	free(memberships->own);
	free(memberships->group);
}

size_t bb_memberships_find(const struct bb_memberships *memberships, int group, int rank)
{
	size_t low = memberships->mine[rank], high = memberships->mine[rank + 1];

	while (low < high) {
		const size_t middle = low + (high - low) / 2, membership = memberships->own[middle];

		if (memberships->group[membership] == group)
			return membership;
		if (memberships->group[membership] < group)
			low = middle + 1;
		else
			high = middle;
	}
	return SIZE_MAX;
}

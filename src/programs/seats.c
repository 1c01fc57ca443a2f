#include "programs/seats.h"

#include <stdlib.h>

bb_status bb_seats_make(struct bb_seats *s, const struct bb_program *p, struct bb_error *error)
{
	size_t all = 0;

	*s = (struct bb_seats){.first = calloc((size_t)p->groups + 1, sizeof(*s->first)),
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
	/* Ranks of all seats, and in mine[rank + 2] how many each has. */
	for (int g = 0; g < p->groups; g++)
		for (size_t seat = s->first[g]; seat < s->first[g + 1]; seat++) {
			const int rank = p->member(p, g, (int)(seat - s->first[g]));

			if (rank < 0 || rank >= p->nranks)
				return bb_fail(error, BB_EINTERNAL,
					       "member %zu of group %d is rank %d of %d",
					       seat - s->first[g], g, rank, p->nranks);
			s->rank[seat] = rank;
			s->group[seat] = g;
			s->mine[rank + 2]++;
		}
	for (int rank = 0; rank < p->nranks; rank++)
		s->mine[rank + 2] += s->mine[rank + 1];
	for (size_t seat = 0; seat < all; seat++)
		s->own[s->mine[s->rank[seat] + 1]++] = seat;
	for (size_t i = 1; i < all; i++) {
		const size_t seat = s->own[i], before = s->own[i - 1];

		if (s->rank[seat] == s->rank[before] && s->group[seat] == s->group[before])
			return bb_fail(error, BB_EINTERNAL, "rank %d is twice in group %d",
				       s->rank[seat], s->group[seat]);
	}
	return BB_OK;
}

void bb_seats_free(struct bb_seats *seats)
{
	free(seats->first);
	free(seats->rank);
	free(seats->mine);
	free(seats->own);
	free(seats->group);
}

size_t bb_seats_find(const struct bb_seats *seats, int group, int rank)
{
	size_t low = seats->mine[rank], high = seats->mine[rank + 1];

	while (low < high) {
		const size_t middle = low + (high - low) / 2, seat = seats->own[middle];

		if (seats->group[seat] == group)
			return seat;
		if (seats->group[seat] < group)
			low = middle + 1;
		else
			high = middle;
	}
	return SIZE_MAX;
}

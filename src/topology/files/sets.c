#include "topology/files/sets.h"

#include <stdlib.h>

static hwloc_bitmap_t *bitmaps(int n)
{
	hwloc_bitmap_t *list = calloc((size_t)n + 1, sizeof(*list));

	for (int i = 0; list && i < n; i++) {
		list[i] = hwloc_bitmap_alloc();
		if (!list[i]) {
			while (i-- > 0)
				hwloc_bitmap_free(list[i]);
			free(list);
			return NULL;
		}
	}
	return list;
}

static void free_bitmaps(hwloc_bitmap_t *list, int n)
{
	for (int i = 0; list && i < n; i++)
		hwloc_bitmap_free(list[i]);
	free(list);
}

/* Assign the processors of a NUMA node to its cores: first processors, then the others in turn, as
   systems number them. LEFT is working memory. */
static void assign_processors(struct bb_sets *s, const struct bb_host *h, int numa,
			      hwloc_bitmap_t left)
{
	int pu, c = -1, tried;

	hwloc_bitmap_copy(left, s->numas[numa]);
	for (int i = 0; i < h->ncores; i++)
		if (h->cores[i].numa == h->numas[numa].os && h->cores[i].pu >= 0 &&
		    hwloc_bitmap_isset(left, (unsigned)h->cores[i].pu)) {
			hwloc_bitmap_only(s->cores[i], (unsigned)h->cores[i].pu);
			hwloc_bitmap_clr(left, (unsigned)h->cores[i].pu);
		}
	for (pu = hwloc_bitmap_first(left); pu >= 0; pu = hwloc_bitmap_next(left, pu)) {
		for (tried = 0; tried < h->ncores; tried++) {
			c = (c + 1) % h->ncores;
			if (h->cores[c].numa == h->numas[numa].os &&
			    !hwloc_bitmap_iszero(s->cores[c]))
				break;
		}
		if (tried < h->ncores)
			hwloc_bitmap_set(s->cores[c], (unsigned)pu);
	}
}

bool bb_sets_open(struct bb_sets *s, const struct bb_topology *t)
{
	const struct bb_host *h = &t->host;
	hwloc_bitmap_t taken = hwloc_bitmap_alloc();

	*s = (struct bb_sets){.nnumas = h->nnumas, .ncores = h->ncores};
	s->numas = bitmaps(h->nnumas);
	s->cores = bitmaps(h->ncores);
	if (!taken || !s->numas || !s->cores) {
		hwloc_bitmap_free(taken);
		return false;
	}
	for (int i = 0; i < h->nnumas; i++) {
		if (!h->numas[i].cpus ||
		    hwloc_bitmap_list_sscanf(s->numas[i], h->numas[i].cpus) != 0)
			hwloc_bitmap_zero(s->numas[i]);
		hwloc_bitmap_andnot(s->numas[i], s->numas[i], taken);
		hwloc_bitmap_or(taken, taken, s->numas[i]);
	}
	s->made_up = hwloc_bitmap_iszero(taken);
	if (s->made_up && h->nnumas > 0)
		hwloc_bitmap_only(s->numas[0], 0);
	for (int i = 0; i < h->nnumas; i++)
		assign_processors(s, h, i, taken);
	hwloc_bitmap_free(taken);
	return true;
}

void bb_sets_close(struct bb_sets *s)
{
	free_bitmaps(s->numas, s->nnumas);
	free_bitmaps(s->cores, s->ncores);
}

bool bb_sets_meet(const struct bb_sets *s, const struct bb_topology *t, int k, int numa)
{
	const struct bb_host *h = &t->host;

	for (int c = 0; c < h->ncores; c++)
		if (h->cores[c].package == k && h->cores[c].numa == h->numas[numa].os &&
		    !hwloc_bitmap_iszero(s->cores[c]))
			return true;
	return false;
}

bool bb_sets_wide(const struct bb_sets *s, const struct bb_topology *t, int numa)
{
	const int package = t->host.numas[numa].package;

	for (int k = 0; k < t->host.npackages; k++)
		if (k != package && bb_sets_meet(s, t, k, numa))
			return true;
	return package < 0;
}

void bb_sets_collect(const struct bb_sets *s, const struct bb_topology *t, int k, int numa,
		     hwloc_bitmap_t cpus, hwloc_bitmap_t nodes)
{
	const struct bb_host *h = &t->host;

	for (int i = 0; i < h->nnumas; i++) {
		if ((numa >= 0 && i != numa) ||
		    (k >= 0 && h->numas[i].package != k && !bb_sets_meet(s, t, k, i)))
			continue;
		hwloc_bitmap_set(nodes, (unsigned)h->numas[i].os);
		if (k < 0 || !bb_sets_wide(s, t, i)) {
			hwloc_bitmap_or(cpus, cpus, s->numas[i]);
			continue;
		}
		for (int c = 0; c < h->ncores; c++)
			if (h->cores[c].package == k && h->cores[c].numa == h->numas[i].os)
				hwloc_bitmap_or(cpus, cpus, s->cores[c]);
	}
}

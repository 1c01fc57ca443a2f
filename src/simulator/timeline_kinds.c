/*
 * timeline_kinds.c - ranks grouped by what they do and over which links.
 */
#include "simulator/timeline_kinds.h"
#include "core/array.h"

#include <stdlib.h>
#include <string.h>

struct finding {
	const struct bb_link_model *links;
	const struct bb_algorithm *schedule;
	const struct bb_shape *shape;
	int n;
	struct bb_kinds *found;
	int *places; /* numbers of kinds, a hash table by their keys */
	size_t nplaces;
};

static int ring_distance(const struct finding *f, int from, int to)
{
	return (to - from + f->n) % f->n;
}

static void fill_slot(const struct finding *f, int rank, struct bb_kind *kind, int slot)
{
	struct bb_kind_key *key = &kind->key;
	const int partner = kind->partners[slot];
	struct bb_fabric_route route;

	key->link[slot] = BB_NO_SLOT;
	if (partner == BB_NO_PEER)
		return;
	key->link[slot] = slot;
	for (int other = BB_SLOTS - 1; other >= 0; other--) {
		const int its = kind->partners[other];

		if (its == partner) {
			kind->twice[slot] |= other != slot;
			key->link[slot] = other;
		}
		key->order[slot] += its != BB_NO_PEER &&
				    ring_distance(f, its, rank) < ring_distance(f, partner, rank);
	}
	route = bb_link_route(f->links, rank, partner);
	key->second_per_byte[slot] = route.second_per_byte;
	key->latency[slot] = route.latency;
	key->outside[slot] = route.outside;
}

static void fill_kind(const struct finding *f, int rank, double time, struct bb_kind *kind)
{
	int partners[BB_CHANNELS][BB_PARTNERS];

	memset(kind, 0, sizeof(*kind));
	bb_algorithm_prepare(f->schedule, f->shape, rank, &kind->role);
	kind->key.number = f->schedule->partners(&kind->role, partners);
	kind->key.time = time;
	memcpy(kind->partners, partners, sizeof(partners));
	for (int slot = 0; slot < BB_SLOTS; slot++)
		fill_slot(f, rank, kind, slot);
}

static uint64_t hash_of(const struct bb_kind_key *key)
{
	uint64_t words[sizeof(*key) / sizeof(uint64_t)], hash = 0;

	_Static_assert(sizeof(*key) % sizeof(uint64_t) == 0, "no padding is hashed or compared");
	memcpy(words, key, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = bb_draw(hash, words[i]);
	return hash;
}

/* The number of the kind equal to KIND, which is added if there is none; -1: out of memory. */
static int number_of(struct finding *f, const struct bb_kind *kind)
{
	size_t at = (size_t)hash_of(&kind->key) & (f->nplaces - 1);
	struct bb_kinds *found = f->found;
	struct bb_kind *more;

	for (; f->places[at] >= 0; at = (at + 1) & (f->nplaces - 1))
		if (memcmp(&found->kinds[f->places[at]].key, &kind->key, sizeof(kind->key)) == 0)
			return f->places[at];
	more = BB_ARRAY_ADD(found->kinds, found->n, found->room);
	if (!more)
		return -1;
	*more = *kind;
	return f->places[at] = found->n - 1;
}

/* PARTNERS: of each rank, by slot. */
static bb_status find_kinds(struct finding *f, const double *times, int *kind_of, int *partners)
{
	for (int rank = 0; rank < f->n; rank++) {
		struct bb_kind kind;

		fill_kind(f, rank, times[rank], &kind);
		memcpy(&partners[rank * BB_SLOTS], kind.partners, sizeof(kind.partners));
		kind_of[rank] = number_of(f, &kind);
		if (kind_of[rank] < 0)
			return BB_EINTERNAL;
	}
	return BB_OK;
}

static int end_of(const int *partners, int rank, int slot)
{
	const int partner = partners[rank * BB_SLOTS + slot];

	if (partner == BB_NO_PEER)
		return BB_NO_SLOT;
	return partner * BB_SLOTS +
	       bb_kind_slot(&partners[partner * BB_SLOTS], rank, slot / BB_PARTNERS);
}

bb_status bb_kinds_find(struct bb_kinds *kinds, const struct bb_link_model *links,
			const struct bb_algorithm *schedule, const struct bb_shape *shape,
			const double *times, int *kind_of, int *ends)
{
	const size_t n = (size_t)shape->nranks;
	struct finding f = {links, schedule, shape, shape->nranks, kinds, NULL, 2};
	int *partners = malloc(n * BB_SLOTS * sizeof(*partners));
	bb_status status = BB_EINTERNAL;

	while (f.nplaces < 2 * n)
		f.nplaces *= 2;
	f.places = malloc(f.nplaces * sizeof(*f.places));
	for (size_t i = 0; f.places && i < f.nplaces; i++)
		f.places[i] = -1;
	if (partners && f.places)
		status = find_kinds(&f, times, kind_of, partners);
	for (int i = 0; status == BB_OK && i < f.n * BB_SLOTS; i++)
		ends[i] = end_of(partners, i / BB_SLOTS, i % BB_SLOTS);
	free(partners);
	free(f.places);
	return status;
}

void bb_kinds_free(struct bb_kinds *kinds)
{
	free(kinds->kinds);
}

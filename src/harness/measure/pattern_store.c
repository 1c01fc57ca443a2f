#include "harness/measure/pattern_store.h"

#include <stdlib.h>

struct bb_stored_patterns {
	struct bb_stored_patterns *next;
	enum bb_dtype dtype;
	int op;
	int nranks;
	uint64_t seed;
	int users;
	struct bb_patterns *patterns;
};

void bb_pattern_store_open(struct bb_pattern_store *store)
{
	store->first = NULL;
	pthread_mutex_init(&store->lock, NULL);
}

static void unlink_and_free(struct bb_stored_patterns **link)
{
	struct bb_stored_patterns *s = *link;

	*link = s->next;
	bb_patterns_free(s->patterns);
	free(s);
}

void bb_pattern_store_close(struct bb_pattern_store *store)
{
	while (store->first)
		unlink_and_free(&store->first);
	pthread_mutex_destroy(&store->lock);
}

/* Makes WANTED under the lock: the other drivers need the same patterns and wait. */
static bb_status add(struct bb_pattern_store *store, const struct bb_stored_patterns *wanted,
		     struct bb_stored_patterns **added)
{
	struct bb_stored_patterns *s = malloc(sizeof(*s));
	bb_status status;

	if (!s)
		return BB_EINTERNAL;
	*s = *wanted;
	status = bb_patterns_make(&s->patterns, s->dtype, s->op, s->nranks, s->seed);
	if (status != BB_OK) {
		free(s);
		return status;
	}
	s->next = store->first;
	store->first = s;
	*added = s;
	return BB_OK;
}

bb_status bb_pattern_store_take(struct bb_pattern_store *store, enum bb_dtype dtype, int op,
				int nranks, uint64_t seed, const struct bb_patterns **patterns)
{
	const struct bb_stored_patterns wanted = {
		.dtype = dtype, .op = op, .nranks = nranks, .seed = seed};
	struct bb_stored_patterns *s;
	bb_status status = BB_OK;

	pthread_mutex_lock(&store->lock);
	for (s = store->first; s; s = s->next)
		if (s->dtype == dtype && s->op == op && s->nranks == nranks && s->seed == seed)
			break;
	if (!s)
		status = add(store, &wanted, &s);
	if (status == BB_OK) {
		s->users++;
		*patterns = s->patterns;
	}
	pthread_mutex_unlock(&store->lock);
	return status;
}

void bb_pattern_store_give(struct bb_pattern_store *store, const struct bb_patterns *patterns)
{
	struct bb_stored_patterns **link;

	pthread_mutex_lock(&store->lock);
	for (link = &store->first; *link; link = &(*link)->next) {
		if ((*link)->patterns != patterns)
			continue;
		if (--(*link)->users == 0)
			unlink_and_free(link);
		break;
	}
	pthread_mutex_unlock(&store->lock);
}

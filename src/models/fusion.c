#include "models/fusion.h"

#include "core/array.h"

#include <stdlib.h>

bb_status bb_buckets_make(struct bb_buckets *buckets, const struct bb_model *model,
			  size_t element_size, uint64_t first_cap, uint64_t cap,
			  struct bb_error *error)
{
	struct bb_bucket *open = NULL;
	size_t room = 0;

	*buckets = (struct bb_buckets){.list = NULL};
	for (size_t i = 0; i < model->ntensors; i++) {
		const uint64_t elements = model->tensors[model->order[i]].elements;

		if (!open) {
			open = BB_ARRAY_ADD(buckets->list, buckets->n, room);
			if (!open)
				return bb_no_memory(error, "the buckets");
			*open = (struct bb_bucket){.first = i,
						   .before = buckets->bytes / element_size};
		}
		open->count++;
		open->elements += elements;
		open->bytes += elements * element_size;
		buckets->bytes += elements * element_size;
		if (open->bytes >= (buckets->n == 1 ? first_cap : cap))
			open = NULL;
	}
	buckets->least = UINT64_MAX;
	for (size_t i = 0; i < buckets->n; i++) {
		const uint64_t bytes = buckets->list[i].bytes;

		buckets->least = bytes < buckets->least ? bytes : buckets->least;
		buckets->most = bytes > buckets->most ? bytes : buckets->most;
	}
	return BB_OK;
}

void bb_buckets_free(struct bb_buckets *buckets)
{
	free(buckets->list);
	*buckets = (struct bb_buckets){.list = NULL};
}

bool bb_buckets_are_same(const struct bb_buckets *a, const struct bb_buckets *b)
{
	for (size_t i = 0; i < a->n && a->n == b->n; i++)
		if (a->list[i].count != b->list[i].count)
			return false;
	return a->n == b->n;
}

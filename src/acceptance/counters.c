/*
 * counters.c - counters that rose.
 */
#include "acceptance/counters.h"
#include "core/array.h"

#include <stdlib.h>
#include <string.h>

static int compare_rises(const void *left, const void *right)
{
	const struct bb_rise *const a = left, *const b = right;
	const int hosts = strcmp(a->host, b->host), devices = strcmp(a->device, b->device);

	if (a->class != b->class)
		return a->class < b->class ? -1 : 1;
	return hosts ? hosts : devices ? devices : strcmp(a->counter, b->counter);
}

/* *RISE = the counter of RECORD; returns false if it is none that means trouble. */
static bool rise_read(const struct bb_read_record *record, struct bb_rise *rise)
{
	const char *const class = bb_record_string(record->json, "class");

	*rise = (struct bb_rise){.host = bb_record_string(record->json, "host"),
				 .device = bb_record_string(record->json, "device"),
				 .counter = bb_record_string(record->json, "counter"),
				 .by = bb_record_int(record->json, "moved")};
	while (class && rise->class < BB_COUNTER_FREQUENCY &&
	       strcmp(class, bb_counter_class_name(rise->class)) != 0)
		rise->class ++;
	return strcmp(record->kind, "counter") == 0 && class &&
	       rise->class < BB_COUNTER_FREQUENCY && rise->host && rise->device && rise->counter &&
	       rise->by > 0;
}

bool bb_rises_have(const struct bb_rises *rises, const struct bb_rise *one)
{
	return rises->n > 0 &&
	       bsearch(one, rises->list, rises->n, sizeof(*one), compare_rises) != NULL;
}

/* Merges the rises of one counter, which are neighbours. */
static void rises_sum(struct bb_rises *rises)
{
	size_t n = 0;

	for (size_t i = 0; i < rises->n; i++) {
		const struct bb_rise *const rise = &rises->list[i];
		struct bb_rise *const last = n > 0 ? &rises->list[n - 1] : NULL;

		if (!last || compare_rises(last, rise) != 0)
			rises->list[n++] = *rise;
		else if (__builtin_add_overflow(last->by, rise->by, &last->by))
			last->by = INT64_MAX;
	}
	rises->n = n;
}

bool bb_rises_add(struct bb_rises *rises, const struct bb_records *records)
{
	for (size_t i = 0; i < records->n; i++) {
		struct bb_rise one, *new;

		if (!rise_read(&records->list[i], &one))
			continue;
		new = BB_ARRAY_ADD(rises->list, rises->n, rises->room);
		if (!new)
			return false;
		*new = one;
	}
	if (rises->n > 0)
		qsort(rises->list, rises->n, sizeof(*rises->list), compare_rises);
	rises_sum(rises);
	return true;
}

void bb_rise_name(const struct bb_rise *rise, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "%s %s %s", rise->host, rise->device, rise->counter);
}

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

bool bb_rises_have(const struct bb_rises *rises, const struct bb_rise *one)
{
	return rises->n > 0 &&
	       bsearch(one, rises->list, rises->n, sizeof(*one), compare_rises) != NULL;
}

bool bb_rises_add(struct bb_rises *rises, const struct bb_records *records)
{
	size_t n = 0;

	for (size_t i = 0; i < records->n; i++) {
		const struct json_t *const record = records->list[i].json;
		const char *const class = bb_record_string(record, "class");
		struct bb_rise one = {.host = bb_record_string(record, "host"),
				      .device = bb_record_string(record, "device"),
				      .counter = bb_record_string(record, "counter"),
				      .by = bb_record_int(record, "moved")},
			       *new;

		while (class && one.class < BB_COUNTER_FREQUENCY &&
		       strcmp(class, bb_counter_class_name(one.class)) != 0)
			one.class ++;
		if (strcmp(records->list[i].kind, "counter") != 0 || !class ||
		    one.class >= BB_COUNTER_FREQUENCY || !one.host || !one.device || !one.counter ||
		    one.by <= 0)
			continue;
		new = BB_ARRAY_ADD(rises->list, rises->n, rises->room);
		if (!new)
			return false;
		*new = one;
	}
	if (rises->n > 0)
		qsort(rises->list, rises->n, sizeof(*rises->list), compare_rises);
	/* The rises of one counter, which are neighbours, become one. */
	for (size_t i = 0; i < rises->n; i++) {
		const struct bb_rise *const rise = &rises->list[i];
		struct bb_rise *const last = n > 0 ? &rises->list[n - 1] : NULL;

		if (!last || compare_rises(last, rise) != 0)
			rises->list[n++] = *rise;
		else if (__builtin_add_overflow(last->by, rise->by, &last->by))
			last->by = INT64_MAX;
	}
	rises->n = n;
	return true;
}

void bb_rise_name(const struct bb_rise *rise, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "%s %s %s", rise->host, rise->device, rise->counter);
}

#include "acceptance/moved.h"
#include "core/array.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const struct bb_moved *a, const struct bb_moved *b)
{
	const int hosts = strcmp(a->host, b->host), devices = strcmp(a->device, b->device);

	return hosts ? hosts : devices ? devices : strcmp(a->counter, b->counter);
}

static int by_name(const void *a, const void *b)
{
	return compare_names(a, b);
}

/* False: RECORD is no counter that means trouble. */
static bool read_moved(const struct bb_read_record *record, struct bb_moved *m)
{
	const char *const class = bb_record_string(record->json, "class");

	if (strcmp(record->kind, "counter") != 0)
		return false;
	*m = (struct bb_moved){.host = bb_record_string(record->json, "host"),
			       .device = bb_record_string(record->json, "device"),
			       .counter = bb_record_string(record->json, "counter"),
			       .moved = bb_record_int(record->json, "moved")};
	while (class && m->class < BB_COUNTER_FREQUENCY &&
	       strcmp(class, bb_counter_class_name(m->class)) != 0)
		m->class ++;
	return class && m->class < BB_COUNTER_FREQUENCY && m->host && m->device && m->counter &&
	       m->moved > 0;
}

bool bb_moved_has(const struct bb_moved_list *moved, const struct bb_moved *one)
{
	return moved->n > 0 &&
	       bsearch(one, moved->list, moved->n, sizeof(*moved->list), by_name) != NULL;
}

/* Those of one name, which stand beside each other, become one. */
static void sum_up(struct bb_moved_list *moved)
{
	size_t n = 0;

	for (size_t i = 0; i < moved->n; i++) {
		struct bb_moved *const last = n > 0 ? &moved->list[n - 1] : NULL,
				       *const m = &moved->list[i];

		if (!last || compare_names(last, m) != 0)
			moved->list[n++] = *m;
		else if (__builtin_add_overflow(last->moved, m->moved, &last->moved))
			last->moved = INT64_MAX;
	}
	moved->n = n;
}

bool bb_moved_add(struct bb_moved_list *moved, const struct bb_records *records)
{
	for (size_t i = 0; i < records->n; i++) {
		struct bb_moved one, *new;

		if (!read_moved(&records->list[i], &one))
			continue;
		new = BB_ARRAY_ADD(moved->list, moved->n, moved->room);
		if (!new)
			return false;
		*new = one;
	}
	if (moved->n > 0)
		qsort(moved->list, moved->n, sizeof(*moved->list), by_name);
	sum_up(moved);
	return true;
}

const struct bb_moved *bb_moved_next(const struct bb_moved_list *moved, const struct bb_moved *at)
{
	const struct bb_moved *const end = moved->n > 0 ? &moved->list[moved->n] : NULL;
	enum bb_counter_class class = at ? at->class : BB_COUNTER_LINK_DOWN;

	for (at = at ? at + 1 : moved->list; class < BB_COUNTER_FREQUENCY; class ++) {
		for (; at < end; at++)
			if (at->class == class)
				return at;
		at = moved->list;
	}
	return NULL;
}

void bb_moved_free(struct bb_moved_list *moved)
{
	free(moved->list);
	*moved = (struct bb_moved_list){.n = 0};
}

void bb_moved_name(const struct bb_moved *moved, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "%s %s %s", moved->host, moved->device, moved->counter);
}

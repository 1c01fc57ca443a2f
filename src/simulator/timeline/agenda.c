#include "simulator/timeline/agenda.h"

#define NOWHERE (-1)

void bb_agenda_open(struct bb_agenda *a, struct bb_slabs *slabs, size_t count)
{
	BB_TAKE(slabs, a->time, count);
	BB_TAKE(slabs, a->heap, count);
	BB_TAKE(slabs, a->place, count);
	for (size_t i = 0; a->place && i < count; i++)
		a->place[i] = NOWHERE;
}

static bool is_before(const struct bb_agenda *a, int item, int other)
{
	const double x = a->time[item], y = a->time[other];

	return x < y || (x == y && item < other);
}

static void put(struct bb_agenda *a, int at, int item)
{
	a->heap[at] = item;
	a->place[item] = at;
}

/* Place ITEM at AT or nearer to the top. */
static void rise(struct bb_agenda *a, int at, int item)
{
	for (; at > 0 && is_before(a, item, a->heap[(at - 1) / 2]); at = (at - 1) / 2)
		put(a, at, a->heap[(at - 1) / 2]);
	put(a, at, item);
}

/* Place ITEM at AT or further from the top. */
static void sink(struct bb_agenda *a, int at, int item)
{
	for (;;) {
		int child = 2 * at + 1;

		if (child + 1 < a->n && is_before(a, a->heap[child + 1], a->heap[child]))
			child++;
		if (child >= a->n || !is_before(a, a->heap[child], item))
			break;
		put(a, at, a->heap[child]);
		at = child;
	}
	put(a, at, item);
}

void bb_agenda_set(struct bb_agenda *a, int item, double time)
{
	const bool later = a->place[item] != NOWHERE && time > a->time[item];

	a->time[item] = time;
	if (later)
		sink(a, a->place[item], item);
	else
		rise(a, a->place[item] == NOWHERE ? a->n++ : a->place[item], item);
}

int bb_agenda_pop(struct bb_agenda *a)
{
	const int first = a->heap[0], last = a->heap[--a->n];

	if (a->n > 0)
		sink(a, 0, last);
	a->place[first] = NOWHERE;
	return first;
}

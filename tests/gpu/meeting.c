#include "meeting.h"

#include "core/clock.h"

#include <string.h>

void meeting_open(struct meeting *meeting, int n)
{
	*meeting = (struct meeting){.n = n};
	pthread_mutex_init(&meeting->lock, NULL);
	pthread_cond_init(&meeting->changed, NULL);
}

void meeting_close(struct meeting *meeting)
{
	pthread_cond_destroy(&meeting->changed);
	pthread_mutex_destroy(&meeting->lock);
}

void meeting_stop(struct meeting *meeting)
{
	pthread_mutex_lock(&meeting->lock);
	meeting->stopped = true;
	pthread_cond_broadcast(&meeting->changed);
	pthread_mutex_unlock(&meeting->lock);
}

/* Locked. */
static bool wait_for_all(struct meeting *m)
{
	const unsigned passed = m->passed;

	if (++m->waiting == m->n) {
		m->waiting = 0;
		m->passed++;
		pthread_cond_broadcast(&m->changed);
	}
	while (m->passed == passed && !m->stopped)
		pthread_cond_wait(&m->changed, &m->lock);
	return m->passed != passed;
}

static bb_status gather(void *own, int local, const struct bb_payload *table, const void *mine,
			void *all)
{
	const size_t bytes = table->bytes;
	struct meeting *m = own;
	bool met;

	if (bytes * (size_t)m->n > sizeof(m->gathered))
		return BB_EINTERNAL;
	pthread_mutex_lock(&m->lock);
	memcpy(m->gathered + (size_t)local * bytes, mine, bytes);
	met = wait_for_all(m);
	if (met) {
		memcpy(all, m->gathered, bytes * (size_t)m->n);
		/* Nobody writes what others have not read. */
		met = wait_for_all(m);
	}
	pthread_mutex_unlock(&m->lock);
	return met ? BB_OK : BB_ETIMEOUT;
}

struct bb_exchange meeting_exchange(struct meeting *meeting)
{
	return (struct bb_exchange){.gather = gather, .own = meeting};
}

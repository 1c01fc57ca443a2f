/*
 * Copies, and words to and fro.
 */
#include "cases.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define MOST 50
#define LONG 300007

/* ---- copy ---------------------------------------------------------------------------- */

static bool copy_one(struct rig *r, struct bb_gpu_lane lane, size_t to_offset, size_t from_offset,
		     size_t count)
{
	char *to, *expected;

	if (!rig_batch_add(r, to_offset, count, &to, &expected, "%zu bytes to offset %zu from %zu",
			   count, to_offset, from_offset))
		return false;
	memcpy(expected, r->host_source[0] + from_offset, count);
	return CALL(r, bb_gpu_copy(lane, to, r->source[0] + from_offset, count));
}

static bool run_copy(struct rig *r, const struct kernel_case *c)
{
	for (size_t i = 0; i < LONG + 16; i++)
		r->host_source[0][i] = (char)rig_draw(i);
	if (!rig_put(r, r->source[0], r->host_source[0], LONG + 16) ||
	    !rig_batch_open(r, BB_NDTYPES, 1))
		return false;
	for (size_t to = 0; to < 16; to++)
		for (size_t from = 0; from < 16; from++)
			for (size_t count = 0; count <= MOST; count++)
				if (!copy_one(r, r->lane, to, from, count))
					return false;
	for (size_t i = 0; i < 16 * RIG_LANES; i++)
		if (!copy_one(r, rig_lane(r, rig_lane_blocks[i % RIG_LANES]), i / RIG_LANES,
			      7 * i % 16, LONG - i))
			return false;
	return rig_batch_close(r);
}

/* ---- ping ---------------------------------------------------------------------------- */

#define ROUNDS 1000
#define BEFORE 0xfffffe00u /* the word before the first; they pass 2^32 */

/* The host is the other end. */
struct other_end {
	struct rig *r;
	bool is_first;
	unsigned rounds; /* that were right */
};

/* Wait for WORD; any other but the one before it ends the game, and so does too long a silence. */
static bool await(struct rig *r, unsigned word)
{
	const time_t end = time(NULL) + RIG_SECONDS;
	unsigned seen;

	while ((seen = __atomic_load_n(&r->words[RIG_THEIRS], __ATOMIC_ACQUIRE)) == word - 1) {
		if (time(NULL) > end)
			return false;
		sched_yield();
	}
	return seen == word;
}

static void *play(void *argument)
{
	struct other_end *const o = argument;
	unsigned *const words = o->r->words;

	for (unsigned word = BEFORE + 1; word != BEFORE + ROUNDS + 1; word++, o->rounds++) {
		if (o->is_first)
			__atomic_store_n(&words[RIG_MINE], word, __ATOMIC_RELEASE);
		if (!await(o->r, word))
			break;
		if (!o->is_first)
			__atomic_store_n(&words[RIG_MINE], word, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&words[RIG_HALT], 1, __ATOMIC_RELEASE); /* for a kernel that still waits */
	return NULL;
}

static cudaError_t issue_ping(struct rig *r, bool is_first)
{
	return bb_gpu_ping(r->lane, &r->words[RIG_THEIRS], &r->words[RIG_MINE], &r->words[RIG_HALT],
			   BEFORE, is_first, ROUNDS);
}

static bool ping_once(struct rig *r, bool is_first)
{
	struct other_end o = {.r = r, .is_first = !is_first};
	pthread_t thread;
	bool ended;

	r->words[RIG_HALT] = 0;
	r->words[RIG_THEIRS] = r->words[RIG_MINE] = BEFORE;
	if (pthread_create(&thread, NULL, play, &o) != 0)
		return rig_fail(r, "no thread for the other end");
	ended = CALL(r, issue_ping(r, is_first));
	pthread_join(thread, NULL);
	if (!ended || !rig_wait(r))
		return false;
	if (o.rounds != ROUNDS)
		return rig_fail(r, "round %u of %d: the word is 0x%x, expected 0x%x", o.rounds,
				ROUNDS, r->words[RIG_THEIRS], BEFORE + 1 + o.rounds);
	return true;
}

static bool run_ping(struct rig *r, const struct kernel_case *c)
{
	if (!ping_once(r, true) || !ping_once(r, false))
		return false;
	/* Nobody answers, and the run is over. */
	r->words[RIG_HALT] = 1;
	r->words[RIG_THEIRS] = r->words[RIG_MINE] = BEFORE;
	if (!CALL(r, issue_ping(r, true)) || !rig_wait(r))
		return false;
	return r->words[RIG_THEIRS] == BEFORE + 1 ||
	       rig_fail(r, "the word is 0x%x, expected 0x%x", r->words[RIG_THEIRS], BEFORE + 1);
}

void transfers_list(struct case_list *list)
{
	case_add(list, (struct kernel_case){.run = run_copy}, "copy");
	case_add(list, (struct kernel_case){.run = run_ping}, "ping");
}

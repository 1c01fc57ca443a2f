/*
 * The checker against algorithms that are wrong on purpose: right ones with one thing changed, and
 * some that lock up or claim too much.
 */
#include "schedules/checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- one thing changed in rank 1's steps -------------------------------------------------- */

typedef int mutation(struct bb_step *steps, int n, int nranks);

static int drop_step(struct bb_step *steps, int n, int nranks)
{
	return n ? n - 1 : 0;
}

static int swap_peer(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind == BB_SEND) {
			do {
				steps[k].peer = (steps[k].peer + 1) % nranks;
			} while (steps[k].peer == 1);
			break;
		}
	}
	return n;
}

static int no_such_peer(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++)
		steps[k].peer = steps[k].kind == BB_COPY ? BB_NO_PEER : nranks;
	return n;
}

static int itself_as_peer(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++)
		steps[k].peer = 1;
	return n;
}

static int shift_source(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind == BB_SEND)
			steps[k].src.offset++;
	}
	return n;
}

static int shift_destination(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind != BB_SEND)
			steps[k].dst.offset += steps[k].dst.offset ? (size_t)-1 : 1;
	}
	return n;
}

static int shorten(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind == BB_SEND && steps[k].count > 1)
			steps[k].count--;
	}
	return n;
}

static int empty_step(struct bb_step *steps, int n, int nranks)
{
	if (n)
		steps[0].count = 0;
	return n;
}

static int add_twice(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind == BB_RECV) {
			steps[k].kind = BB_RECV_REDUCE; /* what is there is part of it already */
			steps[k].src = steps[k].dst;
		} else if (steps[k].kind == BB_RECV_REDUCE) {
			steps[k].src.offset = steps[k].src.offset ? 0 : 1;
		}
	}
	return n;
}

static int forget_own(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind == BB_RECV_REDUCE && steps[k].peer2 == BB_NO_PEER)
			steps[k].kind = BB_RECV;
	}
	return n;
}

static int always_final(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++)
		steps[k].final = true;
	return n;
}

static int other_channel(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind == BB_SEND)
			steps[k].channel ^= 1;
	}
	return n;
}

static int write_in(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++)
		steps[k].dst.buffer = BB_IN;
	return n;
}

static int send_twice(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		if (steps[k].kind == BB_SEND && n < BB_MAX_STEPS) {
			steps[n] = steps[k];
			return n + 1;
		}
	}
	return n;
}

static int collide(struct bb_step *steps, int n, int nranks)
{
	for (int k = 0; k < n; k++) {
		for (int i = 0; i < n; i++) {
			if (steps[k].kind == BB_SEND && steps[i].kind == BB_RECV_REDUCE)
				steps[k].src = steps[i].dst;
		}
	}
	return n;
}

static void mutated(const struct bb_collective *collective, const char *name, mutation *mutate,
		    struct bb_writer *w, size_t round)
{
	bb_algorithm_find(collective, name)->round(w, round);
	if (w->rank == 1)
		w->nsteps = mutate(w->steps, w->nsteps, w->n);
}

#define MUTANT(collective, name, mutation)                                                         \
	static void collective##_##name##_##mutation(struct bb_writer *w, size_t round)            \
	{                                                                                          \
		mutated(&bb_##collective, #name, mutation, w, round);                              \
	}

#define MUTANTS(collective, name)                                                                  \
	MUTANT(collective, name, drop_step)                                                        \
	MUTANT(collective, name, swap_peer)                                                        \
	MUTANT(collective, name, no_such_peer)                                                     \
	MUTANT(collective, name, itself_as_peer)                                                   \
	MUTANT(collective, name, shift_source)                                                     \
	MUTANT(collective, name, shift_destination)                                                \
	MUTANT(collective, name, shorten)                                                          \
	MUTANT(collective, name, empty_step)                                                       \
	MUTANT(collective, name, add_twice)                                                        \
	MUTANT(collective, name, always_final)                                                     \
	MUTANT(collective, name, other_channel)                                                    \
	MUTANT(collective, name, write_in)                                                         \
	MUTANT(collective, name, send_twice)

MUTANTS(all_reduce, ring)
MUTANTS(all_reduce, tree)
MUTANTS(all_reduce, recursive_doubling)
MUTANTS(all_reduce, halving_doubling)
MUTANTS(all_gather, ring)
MUTANT(all_reduce, ring, forget_own)
MUTANT(all_reduce, recursive_doubling, forget_own)
MUTANT(all_reduce, recursive_doubling, collide)
MUTANT(reduce, ring, forget_own)

typedef void round_fn(struct bb_writer *, size_t);

struct mutant {
	const struct bb_collective *collective;
	const char *name;
	const char *what;
	round_fn *round;
};

#define ROW(c, name, mutation)                                                                     \
	{                                                                                          \
		&bb_##c, #name, #mutation, c##_##name##_##mutation                                 \
	}
#define ROWS(c, name)                                                                              \
	ROW(c, name, drop_step), ROW(c, name, swap_peer), ROW(c, name, no_such_peer),              \
		ROW(c, name, itself_as_peer), ROW(c, name, shift_source),                          \
		ROW(c, name, shift_destination), ROW(c, name, shorten), ROW(c, name, empty_step),  \
		ROW(c, name, add_twice), ROW(c, name, always_final), ROW(c, name, other_channel),  \
		ROW(c, name, write_in), ROW(c, name, send_twice)

static const struct mutant mutants[] = {
	ROWS(all_reduce, ring),
	ROWS(all_reduce, tree),
	ROWS(all_reduce, recursive_doubling),
	ROWS(all_reduce, halving_doubling),
	ROWS(all_gather, ring),
	ROW(all_reduce, ring, forget_own),
	ROW(all_reduce, recursive_doubling, forget_own),
	ROW(all_reduce, recursive_doubling, collide),
	ROW(reduce, ring, forget_own),
};

static bb_status check(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
		       struct bb_error *error)
{
	memset(error, 0, sizeof(*error));
	return bb_check_algorithm(algorithm, shape, 16, error);
}

static void test_mutants_are_caught(void **state)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
		const struct mutant *m = &mutants[i];
		struct bb_algorithm wrong = *bb_algorithm_find(m->collective, m->name);
		struct bb_shape shape = {.nranks = 8, .root = 3, .count = 24, .chunk = 3};
		struct bb_error error;

		if (!(m->collective->flags & BB_ROOTED))
			shape.root = 0;
		wrong.flags = 0;
		assert_int_equal(check(&wrong, &shape, &error), BB_OK);
		wrong.round = m->round;
		if (check(&wrong, &shape, &error) != BB_EDATA)
			fail_msg("%s %s with %s passes", m->collective->name, m->name, m->what);
		assert_true(strlen(error.text) > 0);
	}
}

/* ---- written to be wrong ------------------------------------------------------------------ */

static size_t two_rounds(const struct bb_shape *shape, struct bb_role *role)
{
	return 2;
}

static size_t own_rounds(const struct bb_shape *shape, struct bb_role *role)
{
	return (size_t)role->rank;
}

/* sendrecv in which everyone waits before sending */
static void wait_first(struct bb_writer *w, size_t round)
{
	w->steps[w->nsteps++] = (struct bb_step){.kind = round ? BB_SEND : BB_RECV,
						 .peer = (w->rank + (round ? 1 : w->n - 1)) % w->n,
						 .peer2 = BB_NO_PEER,
						 .src = {BB_IN, 0},
						 .dst = {BB_OUT, 0},
						 .count = w->shape->count};
}

/* sendrecv in place that overwrites what it sent one round ago: nobody may write first */
static void overwrite(struct bb_writer *w, size_t round)
{
	const struct bb_step send = {.kind = BB_SEND,
				     .peer = (w->rank + 1) % w->n,
				     .peer2 = BB_NO_PEER,
				     .src = {BB_IN, 0},
				     .count = 1};
	const struct bb_step receive = {.kind = BB_RECV,
					.peer = (w->rank + w->n - 1) % w->n,
					.peer2 = BB_NO_PEER,
					.dst = {BB_OUT, 0},
					.count = 1};

	w->steps[w->nsteps++] = round ? receive : send;
}

static void nothing(struct bb_writer *w, size_t round)
{
}

static void too_many(struct bb_writer *w, size_t round)
{
	w->nsteps = BB_MAX_STEPS + 1;
}

static void expect_wrong(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			 const char *why)
{
	struct bb_error error;

	assert_int_equal(check(algorithm, shape, &error), BB_EDATA);
	if (!strstr(error.text, why))
		fail_msg("'%s' does not say '%s'", error.text, why);
}

static void test_written_to_be_wrong(void **state)
{
	struct bb_shape shape = {.nranks = 3, .count = 1};
	struct bb_algorithm a = {.name = "wrong", .collective = &bb_sendrecv};

	a.prepare = two_rounds;
	a.round = wait_first;
	expect_wrong(&a, &shape, "waits forever");
	a.round = nothing;
	expect_wrong(&a, &shape, "instead of");
	a.round = too_many;
	expect_wrong(&a, &shape, "too many");
	a.round = overwrite;
	shape.in_place = true;
	expect_wrong(&a, &shape, "");
	a.prepare = own_rounds;
	expect_wrong(&a, &shape, "another number of rounds");
	shape.nranks = 65;
	expect_wrong(&a, &shape, "1 to 64");
}

static void test_false_shift_claim(void **state)
{
	struct bb_shape shape = {.nranks = 8, .count = 64};
	struct bb_algorithm a = *bb_algorithm_find(&bb_all_reduce, "tree");

	a.flags |= BB_SHIFT_INVARIANT;
	expect_wrong(&a, &shape, "shifted");
	a = *bb_algorithm_find(&bb_all_reduce, "recursive_doubling");
	a.flags |= BB_SHIFT_INVARIANT;
	expect_wrong(&a, &shape, "shifted");
}

static size_t less_tmp(const struct bb_shape *shape, int rank)
{
	return bb_algorithm_find(&bb_reduce, "ring")->tmp_count(shape, rank) - (rank == 2);
}

static void test_tmp_is_bounded(void **state)
{
	struct bb_shape shape = {.nranks = 4, .count = 10, .chunk = 3};
	struct bb_algorithm a = *bb_algorithm_find(&bb_reduce, "ring");

	a.tmp_count = less_tmp;
	expect_wrong(&a, &shape, "beyond its buffer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mutants_are_caught),
		cmocka_unit_test(test_written_to_be_wrong),
		cmocka_unit_test(test_false_shift_claim),
		cmocka_unit_test(test_tmp_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * checker.c - runs an algorithm on symbols. Ranks are deterministic and interact only by messages,
 * so one greedy execution decides about deadlock and data for every timing.
 */
#include <stdlib.h>
#include <string.h>

#include "schedules/checker.h"
#include "schedules/parts.h"
#include "core/array.h"

/* ---- symbols --------------------------------------------------------------------------- */

/* Make RANK's buffers as they are before the call. False: out of memory. */
static bool symbols_make(struct bb_symbols *s, const struct bb_algorithm *algorithm,
			 const struct bb_shape *shape, int rank)
{
	const size_t all = bb_algorithm_lay_out(algorithm, shape, rank, s->start, s->count);

	s->cells = calloc(all ? all : 1, sizeof(*s->cells));
	for (size_t i = 0; i < s->count[BB_IN] && s->cells; i++)
		s->cells[s->start[BB_IN] + i] =
			(struct bb_symbol){.ranks = UINT64_C(1) << rank, .index = (uint32_t)i};
	return s->cells;
}

static bool holds(const struct bb_symbols *s, struct bb_place place, size_t count)
{
	const size_t all = s->count[place.buffer];

	return count <= all && place.offset <= all - count;
}

/* ---- a group ---------------------------------------------------------------------------- */

struct bb_check_message {
	struct bb_step send;
	size_t round;
};

/* A step that has to wait for another rank; it is never a failure. */
#define BLOCKED BB_ETIMEOUT

/* Report what is wrong, after the names of the algorithm and of the shape. */
#define REFUTE(c, format, ...)                                                                     \
	bb_fail((c)->error, BB_EDATA, "%s %s, %d ranks: " format,                                  \
		(c)->algorithm->collective->name, (c)->algorithm->name, (c)->shape->nranks,        \
		##__VA_ARGS__)

/* Report what is wrong with M's next step. */
static bb_status wrong_step(const struct bb_check *c, const struct bb_check_rank *m,
			    const char *what)
{
	return REFUTE(c, "rank %d, round %zu, step %d %s", m->rank, m->round, m->next, what);
}

/* ---- one rank's steps of one round --------------------------------------------------- */

static bool reads(const struct bb_step *step)
{
	return step->kind != BB_RECV;
}

static bool writes(const struct bb_step *step)
{
	return step->kind != BB_SEND;
}

static bool overlap(const struct bb_symbols *s, struct bb_place a, size_t na, struct bb_place b,
		    size_t nb)
{
	size_t first = s->start[a.buffer] + a.offset, second = s->start[b.buffer] + b.offset;

	return first < second + nb && second < first + na;
}

static bool is_peer(const struct bb_check *c, const struct bb_check_rank *m, int peer)
{
	return peer >= 0 && peer < c->shape->nranks && peer != m->rank;
}

static const char *fault_of(const struct bb_check *c, const struct bb_check_rank *m,
			    const struct bb_step *step)
{
	if (!step->count)
		return "is empty";
	if (step->kind != BB_COPY && !is_peer(c, m, step->peer))
		return "has no such peer";
	if (step->kind != BB_COPY && (step->channel < 0 || step->channel >= BB_CHANNELS))
		return "has no such channel";
	if (step->peer2 != BB_NO_PEER && (step->kind != BB_RECV_REDUCE ||
					  step->peer2 == step->peer || !is_peer(c, m, step->peer2)))
		return "cannot have that second peer";
	if (reads(step) && !holds(&m->symbols, step->src, step->count))
		return "reads beyond its buffer";
	if (writes(step) && !holds(&m->symbols, step->dst, step->count))
		return "writes beyond its buffer";
	if (writes(step) && step->dst.buffer == BB_IN)
		return "writes to IN";
	if (reads(step) && writes(step) &&
	    overlap(&m->symbols, step->src, step->count, step->dst, step->count) &&
	    (step->kind == BB_COPY ||
	     bb_symbols_at(&m->symbols, step->src) != bb_symbols_at(&m->symbols, step->dst)))
		return "overlaps itself";
	return NULL;
}

static bb_status load(const struct bb_check *c, struct bb_check_rank *m)
{
	const struct bb_symbols *const s = &m->symbols;
	struct bb_step steps[BB_MAX_STEPS];
	int n = bb_algorithm_steps(c->algorithm, c->shape, &m->role, m->round, steps);

	m->nsteps = m->next = 0;
	if (n < 0 || n > BB_MAX_STEPS)
		return wrong_step(c, m, "is one too many");
	for (int pass = 0; pass < 2; pass++) { /* sends are posted first */
		for (int k = 0; k < n; k++) {
			if ((steps[k].kind != BB_SEND) == pass)
				m->steps[m->nsteps++] = steps[k];
		}
	}
	for (m->next = 0; m->next < n; m->next++) {
		const struct bb_step *const a = &m->steps[m->next];
		const char *fault = fault_of(c, m, a);

		for (int k = 0; k < n && !fault; k++) {
			const struct bb_step *const b = &m->steps[k];

			if (k != m->next && writes(a) &&
			    ((reads(b) && overlap(s, a->dst, a->count, b->src, b->count)) ||
			     (writes(b) && overlap(s, a->dst, a->count, b->dst, b->count))))
				fault = "writes what another step of the round uses";
		}
		if (fault)
			return wrong_step(c, m, fault);
	}
	m->next = 0;
	m->loaded = true;
	return BB_OK;
}

/* ---- messages ------------------------------------------------------------------------ */

static bb_status post(const struct bb_check *c, struct bb_check_rank *m, const struct bb_step *step)
{
	const struct bb_check_message sent = {*step, m->round};
	int waiting = 0;

	for (size_t i = 0; i < m->nsent; i++)
		waiting += m->sent[i].send.peer == step->peer &&
			   m->sent[i].send.channel == step->channel;
	if (waiting >= c->slots)
		return BLOCKED;
	return BB_ARRAY_PUT(m->sent, m->nsent, m->room, sent)
		       ? BB_OK
		       : bb_no_memory(c->error, "the checker");
}

static const struct bb_check_message *arrival(const struct bb_check *c,
					      const struct bb_check_rank *m, int from, int channel)
{
	const struct bb_check_rank *peer = &c->ranks[from];

	for (size_t i = 0; i < peer->nsent; i++)
		if (peer->sent[i].send.peer == m->rank && peer->sent[i].send.channel == channel)
			return &peer->sent[i];
	return NULL;
}

/* ---- data ---------------------------------------------------------------------------- */

static bb_status apply(const struct bb_check *c, const struct bb_check_rank *m,
		       const struct bb_step *step, const struct bb_symbol *from[3], int nfrom)
{
	struct bb_symbol *dst = bb_symbols_at(&m->symbols, step->dst);

	for (size_t i = 0; i < step->count; i++) {
		struct bb_symbol sum = {.final = step->final};

		for (int k = 0; k < nfrom; k++) {
			const struct bb_symbol *const add = &from[k][i];
			const char *const fault =
				!add->ranks              ? "reads what nothing has written"
				: add->final             ? "reads what was final"
				: sum.ranks & add->ranks ? "adds a contribution twice"
				: sum.ranks && sum.index != add->index ? "adds different elements"
								       : NULL;

			if (fault)
				return wrong_step(c, m, fault);
			sum.ranks |= add->ranks;
			sum.index = add->index;
		}
		dst[i] = sum;
	}
	return BB_OK;
}

static bb_status execute(const struct bb_check *c, struct bb_check_rank *m,
			 const struct bb_step *step)
{
	const int peers[2] = {step->peer, step->peer2};
	const int npeers = step->kind == BB_COPY ? 0 : step->peer2 == BB_NO_PEER ? 1 : 2;
	const struct bb_symbol *from[3];
	int nfrom = 0;

	if (reads(step))
		from[nfrom++] = bb_symbols_at(&m->symbols, step->src);
	for (int k = 0; k < npeers; k++) {
		const struct bb_check_message *message = arrival(c, m, peers[k], step->channel);

		if (!message)
			return BLOCKED;
		if (message->send.count != step->count)
			return wrong_step(c, m, "gets a message of another length");
		if (message->round != m->round)
			return wrong_step(c, m, "gets a message of another round");
		from[nfrom++] = bb_symbols_at(&c->ranks[peers[k]].symbols, message->send.src);
	}
	/* A peer may have yet to read what the step writes. */
	for (size_t i = 0; i < m->nsent; i++)
		if (overlap(&m->symbols, step->dst, step->count, m->sent[i].send.src,
			    m->sent[i].send.count))
			return BLOCKED;
	const bb_status status = apply(c, m, step, from, nfrom);
	if (status != BB_OK)
		return status;
	for (int k = 0; k < npeers; k++) {
		struct bb_check_rank *peer = &c->ranks[peers[k]];
		size_t i = (size_t)(arrival(c, m, peers[k], step->channel) - peer->sent);

		peer->nsent--;
		memmove(&peer->sent[i], &peer->sent[i + 1],
			(peer->nsent - i) * sizeof(*peer->sent));
	}
	return BB_OK;
}

/* ---- all ranks ----------------------------------------------------------------------- */

/* Advance M as far as possible. BB_OK: past all rounds below ROUNDS. */
static bb_status advance(const struct bb_check *c, struct bb_check_rank *m, size_t rounds,
			 bool *moved)
{
	bb_status st = BB_OK;

	for (; m->round < rounds; m->round++, m->loaded = false) {
		if (!m->loaded)
			BB_TRY(st, load(c, m), out);
		for (; m->next < m->nsteps; m->next++) {
			const struct bb_step *step = &m->steps[m->next];

			BB_TRY(st, step->kind == BB_SEND ? post(c, m, step) : execute(c, m, step),
			       out);
			*moved = true;
		}
	}
out:
	return st;
}

bb_status bb_check_advance(struct bb_check *c, size_t rounds)
{
	const struct bb_check_rank *stuck;
	bool moved;

	do {
		stuck = NULL;
		moved = false;
		for (int rank = 0; rank < c->shape->nranks; rank++) {
			const bb_status st = advance(c, &c->ranks[rank], rounds, &moved);

			if (st == BLOCKED)
				stuck = &c->ranks[rank];
			else if (st != BB_OK)
				return st;
		}
	} while (stuck && moved);
	return stuck ? wrong_step(c, stuck, "waits forever") : BB_OK;
}

/* Has RANK, at the end, received all that was sent, and what the collective promises? */
static bb_status compare(const struct bb_check *c, int rank)
{
	const struct bb_check_rank *m = &c->ranks[rank];
	const struct bb_collective *collective = c->algorithm->collective;
	int segments = bb_collective_segments(collective, c->shape, rank);
	size_t covered = 0;

	if (m->nsent)
		return REFUTE(c, "rank %d, round %zu: no step receives the message to rank %d",
			      rank, m->sent[0].round, m->sent[0].send.peer);
	for (int k = 0; k < segments; k++) {
		const struct bb_segment segment =
			bb_collective_segment(collective, c->shape, rank, k);
		const struct bb_symbol *out =
			bb_symbols_at(&m->symbols, (struct bb_place){BB_OUT, segment.out});

		covered += segment.count;
		for (size_t i = 0; i < segment.count; i++) {
			struct bb_symbol want = bb_symbol_expected(&segment, c->shape->nranks, i);

			if (out[i].ranks != want.ranks || out[i].index != want.index)
				return REFUTE(c,
					      "OUT[%zu] of rank %d holds element %u of ranks %#llx "
					      "instead of %u of %#llx",
					      segment.out + i, rank, out[i].index,
					      (unsigned long long)out[i].ranks, want.index,
					      (unsigned long long)want.ranks);
		}
	}
	if (covered != m->symbols.count[BB_OUT])
		return REFUTE(c, "segments of rank %d do not tile OUT", rank);
	return BB_OK;
}

/* ---- BB_SHIFT_INVARIANT -------------------------------------------------------------- */

/* Does A of RANK do what B of rank 0 does? Balanced parts may differ by one element. */
static bool same_but_shifted(const struct bb_step *a, const struct bb_step *b, int rank, int n)
{
	size_t difference = a->count > b->count ? a->count - b->count : b->count - a->count;
	bool peers = a->kind == BB_COPY || (a->peer - rank + n) % n == b->peer;
	bool seconds = a->peer2 == BB_NO_PEER ? b->peer2 == BB_NO_PEER
					      : (a->peer2 - rank + n) % n == b->peer2;

	return a->kind == b->kind && a->channel == b->channel && a->final == b->final &&
	       difference <= 1 && peers && seconds;
}

static bb_status check_shift(const struct bb_check *c, int rank)
{
	struct bb_step a[BB_MAX_STEPS], b[BB_MAX_STEPS];

	for (size_t round = 0; round < c->ranks[0].role.rounds; round++) {
		int na = bb_algorithm_steps(c->algorithm, c->shape, &c->ranks[rank].role, round, a);
		int nb = bb_algorithm_steps(c->algorithm, c->shape, &c->ranks[0].role, round, b);
		int i = 0, j = 0;

		/* In order; one of a single element may be missing on the other side. */
		while (i < na || j < nb) {
			if (i < na && j < nb &&
			    same_but_shifted(&a[i], &b[j], rank, c->shape->nranks))
				i++, j++;
			else if (i < na && a[i].count == 1)
				i++;
			else if (j < nb && b[j].count == 1)
				j++;
			else
				return REFUTE(c,
					      "round %zu of rank %d is not that of rank 0 shifted",
					      round, rank);
		}
	}
	return BB_OK;
}

/* ---- the whole ----------------------------------------------------------------------- */

void bb_check_close(struct bb_check *c)
{
	for (int rank = 0; c->ranks && rank < c->shape->nranks; rank++) {
		free(c->ranks[rank].symbols.cells);
		free(c->ranks[rank].sent);
	}
	free(c->ranks);
}

bb_status bb_check_open(struct bb_check *c, const struct bb_algorithm *algorithm,
			const struct bb_shape *shape, int slots, struct bb_error *error)
{
	*c = (struct bb_check){algorithm, shape, slots, error, NULL};
	if (shape->nranks < 1 || shape->nranks > BB_CHECKER_RANKS)
		return bb_fail(error, BB_EDATA, "the checker supports 1 to %d ranks",
			       BB_CHECKER_RANKS);
	c->ranks = calloc((size_t)shape->nranks, sizeof(*c->ranks));
	for (int rank = 0; rank < shape->nranks; rank++) {
		struct bb_check_rank *m = c->ranks ? &c->ranks[rank] : NULL;

		if (!m || !symbols_make(&m->symbols, algorithm, shape, rank))
			return bb_no_memory(error, "the checker");
		m->rank = rank;
		bb_algorithm_prepare(algorithm, shape, rank, &m->role);
		if (m->role.rounds != c->ranks[0].role.rounds)
			return REFUTE(c, "rank %d has another number of rounds than rank 0", rank);
	}
	return BB_OK;
}

bb_status bb_check_algorithm(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			     int slots, struct bb_error *error)
{
	struct bb_check check;
	bb_status st;

	BB_TRY(st, bb_check_open(&check, algorithm, shape, slots, error), out);
	BB_TRY(st, bb_check_advance(&check, check.ranks[0].role.rounds), out);
	for (int rank = 0; rank < shape->nranks; rank++) {
		BB_TRY(st, compare(&check, rank), out);
		if (rank && algorithm->flags & BB_SHIFT_INVARIANT)
			BB_TRY(st, check_shift(&check, rank), out);
	}
out:
	bb_check_close(&check);
	return st;
}

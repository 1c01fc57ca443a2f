/*
 * checker.c - runs an algorithm on symbols. Ranks are deterministic and interact only by messages,
 * so one greedy execution decides about deadlock and data for every timing.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/checker.h"
#include "schedules/parts.h"
#include "core/array.h"

/* ---- symbols --------------------------------------------------------------------------- */

bb_status bb_symbols_make(struct bb_symbols *symbols, const struct bb_algorithm *algorithm,
			  const struct bb_shape *shape, int rank)
{
	const struct bb_collective *collective = algorithm->collective;
	struct bb_symbols s = {
		.count = {[BB_IN] = bb_collective_in(collective, shape, rank),
			  [BB_OUT] = bb_collective_out(collective, shape, rank),
			  [BB_TMP] = bb_algorithm_tmp_count(algorithm, shape, rank)}};
	size_t all;

	s.start[BB_OUT] = s.count[BB_IN];
	if (shape->in_place) {
		s.start[BB_IN] = bb_collective_at(collective, shape, rank, BB_IN);
		s.start[BB_OUT] = bb_collective_at(collective, shape, rank, BB_OUT);
	}
	s.start[BB_TMP] =
		bb_most(s.start[BB_IN] + s.count[BB_IN], s.start[BB_OUT] + s.count[BB_OUT]);
	all = s.start[BB_TMP] + s.count[BB_TMP];
	s.cells = calloc(all ? all : 1, sizeof(*s.cells));
	for (size_t i = 0; i < s.count[BB_IN] && s.cells; i++)
		s.cells[s.start[BB_IN] + i] =
			(struct bb_symbol){.ranks = UINT64_C(1) << rank, .index = (uint32_t)i};
	*symbols = s;
	return s.cells ? BB_OK : BB_EINTERNAL;
}

void bb_symbols_free(struct bb_symbols *symbols)
{
	free(symbols->cells);
	symbols->cells = NULL;
}

/* ---- a group ---------------------------------------------------------------------------- */

struct message {
	int to;
	int channel;
	struct bb_place src;
	size_t count;
	size_t round;
};

struct member {
	int rank;
	struct bb_role role;
	struct bb_symbols symbols;
	size_t round;
	bool loaded; /* steps are those of round, in the order of execution */
	int nsteps;
	int next;
	struct bb_step steps[BB_MAX_STEPS];
	struct message *sent; /* not yet received, oldest first */
	size_t nsent;
	size_t capacity;
};

struct check {
	const struct bb_algorithm *algorithm;
	const struct bb_shape *shape;
	int slots;
	struct bb_error *error;
	struct member *members;
};

enum outcome { DONE, BLOCKED, WRONG };

static bb_status refute(const struct check *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Report what is wrong, after the names of the algorithm and of the shape. */
static bb_status refute(const struct check *c, const char *format, ...)
{
	char text[160];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return bb_fail(c->error, BB_EDATA, "%s %s, %d ranks: %s", c->algorithm->collective->name,
		       c->algorithm->name, c->shape->nranks, text);
}

/* Report what is wrong with M's next step. */
static enum outcome wrong_step(const struct check *c, const struct member *m, const char *what)
{
	(void)refute(c, "rank %d, round %zu, step %d %s", m->rank, m->round, m->next, what);
	return WRONG;
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

static bool receives(const struct bb_step *step)
{
	return step->kind == BB_RECV || step->kind == BB_RECV_REDUCE;
}

static bool overlap(const struct bb_symbols *s, struct bb_place a, size_t na, struct bb_place b,
		    size_t nb)
{
	size_t first = s->start[a.buffer] + a.offset, second = s->start[b.buffer] + b.offset;

	return first < second + nb && second < first + na;
}

static bool is_peer(const struct check *c, const struct member *m, int peer)
{
	return peer >= 0 && peer < c->shape->nranks && peer != m->rank;
}

static const char *fault_of(const struct check *c, const struct member *m,
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
	if (reads(step) && !bb_symbols_hold(&m->symbols, step->src, step->count))
		return "reads beyond its buffer";
	if (writes(step) && !bb_symbols_hold(&m->symbols, step->dst, step->count))
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

/* Does A write what B reads or writes? */
static bool disturbs(const struct member *m, const struct bb_step *a, const struct bb_step *b)
{
	return writes(a) &&
	       ((reads(b) && overlap(&m->symbols, a->dst, a->count, b->src, b->count)) ||
		(writes(b) && overlap(&m->symbols, a->dst, a->count, b->dst, b->count)));
}

static enum outcome load(const struct check *c, struct member *m)
{
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
		const char *fault = fault_of(c, m, &m->steps[m->next]);

		if (fault)
			return wrong_step(c, m, fault);
		for (int k = 0; k < n; k++) {
			if (k != m->next && disturbs(m, &m->steps[m->next], &m->steps[k]))
				return wrong_step(c, m,
						  "writes what another step of the round uses");
		}
	}
	m->next = 0;
	m->loaded = true;
	return DONE;
}

/* ---- messages ------------------------------------------------------------------------ */

static enum outcome post(const struct check *c, struct member *m, const struct bb_step *step)
{
	struct message *sent;
	int waiting = 0;

	for (size_t i = 0; i < m->nsent; i++)
		waiting += m->sent[i].to == step->peer && m->sent[i].channel == step->channel;
	if (waiting >= c->slots)
		return BLOCKED;
	sent = BB_ARRAY_ADD(m->sent, m->nsent, m->capacity);
	if (!sent) {
		(void)bb_no_memory(c->error, "the checker");
		return WRONG;
	}
	*sent = (struct message){.to = step->peer,
				 .channel = step->channel,
				 .src = step->src,
				 .count = step->count,
				 .round = m->round};
	return DONE;
}

static const struct message *arrival(const struct check *c, const struct member *m, int from,
				     int channel)
{
	const struct member *peer = &c->members[from];

	for (size_t i = 0; i < peer->nsent; i++) {
		if (peer->sent[i].to == m->rank && peer->sent[i].channel == channel)
			return &peer->sent[i];
	}
	return NULL;
}

static void remove_message(const struct check *c, int from, const struct message *message)
{
	struct member *peer = &c->members[from];
	size_t i = (size_t)(message - peer->sent);

	peer->nsent--;
	memmove(&peer->sent[i], &peer->sent[i + 1], (peer->nsent - i) * sizeof(*peer->sent));
}

/* Would STEP write what a peer has yet to read? */
static bool must_wait(const struct member *m, const struct bb_step *step)
{
	for (size_t i = 0; i < m->nsent; i++) {
		if (overlap(&m->symbols, step->dst, step->count, m->sent[i].src, m->sent[i].count))
			return true;
	}
	return false;
}

/* ---- data ---------------------------------------------------------------------------- */

/* Add the contents of FROM to *SUM. Returns NULL, or the fault. */
static const char *add(struct bb_symbol *sum, const struct bb_symbol *from)
{
	if (!from->ranks)
		return "reads what nothing has written";
	if (from->final)
		return "reads what was final";
	if (sum->ranks & from->ranks)
		return "adds a contribution twice";
	if (sum->ranks && sum->index != from->index)
		return "adds different elements";
	sum->ranks |= from->ranks;
	sum->index = from->index;
	return NULL;
}

static enum outcome apply(const struct check *c, const struct member *m, const struct bb_step *step,
			  const struct bb_symbol *from[3], int nfrom)
{
	struct bb_symbol *dst = bb_symbols_at(&m->symbols, step->dst);

	for (size_t i = 0; i < step->count; i++) {
		struct bb_symbol sum = {.final = step->final};

		for (int k = 0; k < nfrom; k++) {
			const char *fault = add(&sum, &from[k][i]);

			if (fault)
				return wrong_step(c, m, fault);
		}
		dst[i] = sum;
	}
	return DONE;
}

static enum outcome execute(const struct check *c, struct member *m, const struct bb_step *step)
{
	int peers[2] = {step->peer, step->peer2}, npeers = 0, nfrom = 0;
	const struct bb_symbol *from[3];

	if (receives(step))
		npeers = step->peer2 == BB_NO_PEER ? 1 : 2;
	if (reads(step))
		from[nfrom++] = bb_symbols_at(&m->symbols, step->src);
	for (int k = 0; k < npeers; k++) {
		const struct message *message = arrival(c, m, peers[k], step->channel);

		if (!message)
			return BLOCKED;
		if (message->count != step->count)
			return wrong_step(c, m, "gets a message of another length");
		if (message->round != m->round)
			return wrong_step(c, m, "gets a message of another round");
		from[nfrom++] = bb_symbols_at(&c->members[peers[k]].symbols, message->src);
	}
	if (must_wait(m, step))
		return BLOCKED;
	if (apply(c, m, step, from, nfrom) != DONE)
		return WRONG;
	for (int k = 0; k < npeers; k++)
		remove_message(c, peers[k], arrival(c, m, peers[k], step->channel));
	return DONE;
}

/* ---- all ranks ----------------------------------------------------------------------- */

/* Advance M as far as possible. DONE: to the end. */
static enum outcome advance(const struct check *c, struct member *m, bool *moved)
{
	enum outcome outcome;

	for (; m->round < m->role.rounds; m->round++, m->loaded = false) {
		if (!m->loaded && load(c, m) != DONE)
			return WRONG;
		for (; m->next < m->nsteps; m->next++) {
			const struct bb_step *step = &m->steps[m->next];

			outcome = step->kind == BB_SEND ? post(c, m, step) : execute(c, m, step);
			if (outcome != DONE)
				return outcome;
			*moved = true;
		}
	}
	return DONE;
}

static bb_status run(const struct check *c)
{
	const struct member *stuck;
	bool moved;

	do {
		stuck = NULL;
		moved = false;
		for (int rank = 0; rank < c->shape->nranks; rank++) {
			enum outcome outcome = advance(c, &c->members[rank], &moved);

			if (outcome == WRONG)
				return bb_error_status(c->error);
			if (outcome == BLOCKED)
				stuck = &c->members[rank];
		}
	} while (stuck && moved);
	if (stuck) {
		(void)wrong_step(c, stuck, "waits forever");
		return BB_EDATA;
	}
	for (int rank = 0; rank < c->shape->nranks; rank++) {
		const struct member *m = &c->members[rank];

		if (m->nsent)
			return refute(c,
				      "rank %d, round %zu: no step receives the message to rank %d",
				      rank, m->sent[0].round, m->sent[0].to);
	}
	return BB_OK;
}

static bb_status compare(const struct check *c, int rank)
{
	const struct bb_collective *collective = c->algorithm->collective;
	const struct bb_symbols *symbols = &c->members[rank].symbols;
	int segments = bb_collective_segments(collective, c->shape, rank);
	size_t covered = 0;

	for (int k = 0; k < segments; k++) {
		const struct bb_segment segment =
			bb_collective_segment(collective, c->shape, rank, k);
		const struct bb_symbol *out =
			bb_symbols_at(symbols, (struct bb_place){BB_OUT, segment.out});

		covered += segment.count;
		for (size_t i = 0; i < segment.count; i++) {
			struct bb_symbol want = bb_symbol_expected(&segment, c->shape->nranks, i);

			if (out[i].ranks != want.ranks || out[i].index != want.index)
				return refute(c,
					      "OUT[%zu] of rank %d holds element %u of ranks %#llx "
					      "instead of %u of %#llx",
					      segment.out + i, rank, out[i].index,
					      (unsigned long long)out[i].ranks, want.index,
					      (unsigned long long)want.ranks);
		}
	}
	if (covered != symbols->count[BB_OUT])
		return refute(c, "segments of rank %d do not tile OUT", rank);
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

/* Compare the steps in order; one of a single element may be missing on the other side. */
static bool same_round(const struct bb_step *a, int na, const struct bb_step *b, int nb, int rank,
		       int n)
{
	int i = 0, j = 0;

	while (i < na || j < nb) {
		if (i < na && j < nb && same_but_shifted(&a[i], &b[j], rank, n))
			i++, j++;
		else if (i < na && a[i].count == 1)
			i++;
		else if (j < nb && b[j].count == 1)
			j++;
		else
			return false;
	}
	return true;
}

static bb_status check_shift(const struct check *c, int rank)
{
	struct bb_step a[BB_MAX_STEPS], b[BB_MAX_STEPS];

	for (size_t round = 0; round < c->members[0].role.rounds; round++) {
		int na = bb_algorithm_steps(c->algorithm, c->shape, &c->members[rank].role, round,
					    a);
		int nb = bb_algorithm_steps(c->algorithm, c->shape, &c->members[0].role, round, b);

		if (!same_round(a, na, b, nb, rank, c->shape->nranks))
			return refute(c, "round %zu of rank %d is not that of rank 0 shifted",
				      round, rank);
	}
	return BB_OK;
}

/* ---- the whole ----------------------------------------------------------------------- */

static bb_status member_make(const struct check *c, int rank)
{
	struct member *m = &c->members[rank];

	m->rank = rank;
	bb_algorithm_prepare(c->algorithm, c->shape, rank, &m->role);
	if (m->role.rounds != c->members[0].role.rounds)
		return refute(c, "rank %d has another number of rounds than rank 0", rank);
	return bb_symbols_make(&m->symbols, c->algorithm, c->shape, rank) == BB_OK
		       ? BB_OK
		       : bb_no_memory(c->error, "the checker");
}

bb_status bb_check_algorithm(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			     int slots, struct bb_error *error)
{
	struct check check = {algorithm, shape, slots, error, NULL};
	bb_status st = BB_OK;

	if (shape->nranks < 1 || shape->nranks > BB_CHECKER_RANKS)
		return bb_fail(error, BB_EDATA, "the checker supports 1 to %d ranks",
			       BB_CHECKER_RANKS);
	check.members = calloc((size_t)shape->nranks, sizeof(*check.members));
	if (!check.members)
		return bb_no_memory(error, "the checker");
	for (int rank = 0; rank < shape->nranks; rank++)
		BB_TRY(st, member_make(&check, rank), out);
	BB_TRY(st, run(&check), out);
	for (int rank = 0; rank < shape->nranks; rank++) {
		BB_TRY(st, compare(&check, rank), out);
		if (rank && algorithm->flags & BB_SHIFT_INVARIANT)
			BB_TRY(st, check_shift(&check, rank), out);
	}
out:
	for (int rank = 0; rank < shape->nranks; rank++) {
		bb_symbols_free(&check.members[rank].symbols);
		free(check.members[rank].sent);
	}
	free(check.members);
	return st;
}

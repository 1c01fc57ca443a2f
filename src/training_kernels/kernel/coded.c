#include "training_kernels/kernel/coded.h"

#include "core/random.h"

#include <string.h>

const struct bb_coded_scheme bb_coded_schemes[] = {
	{BB_CODED_ALLTOALL, "alltoall", "all-to-all, sum, all-gather (1-bit Adam)"},
	{BB_CODED_RING, "ring", "a ring that codes the partial sum at each hop, all-gather"},
	{BB_CODED_ALLGATHER, "allgather", "all-gather of all arrays, sum (PyTorch's hooks)"},
	{BB_CODED_TWO_HOPS, "two-hops", "all-to-all in nodes, then across, all-gather (qgZ)"},
	{.name = NULL}};

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t gcd_of(size_t a, size_t b)
{
	return b ? gcd_of(b, a % b) : a;
}

static size_t up_to(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

size_t bb_coded_padded(const struct bb_coded_form *f)
{
	const size_t n = (size_t)f->nranks;
	const bool is_sign = f->coding->kind == BB_CODE_SIGN;

	if (f->scheme->kind == BB_CODED_ALLGATHER)
		return f->coding->lowest == 0 && f->coding->highest > 0 && f->block
			       ? f->count - f->count % f->block + f->block
			       : f->count;
	return up_to(f->count, n * (is_sign ? 8 * n / gcd_of(n, 8) : 8));
}

size_t bb_coded_chunk(const struct bb_coded_form *f)
{
	const size_t padded = bb_coded_padded(f);

	return f->scheme->kind == BB_CODED_ALLGATHER ? padded : padded / (size_t)f->nranks;
}

size_t bb_coded_chunk_bytes(const struct bb_coded_form *f)
{
	return bb_coding_bytes(f->coding, f->block, bb_coded_chunk(f));
}

const char *bb_coded_refuses(const struct bb_coded_form *f)
{
	if (f->nranks < 2)
		return "there is one rank; give at least 2";
	if (f->scheme->kind == BB_CODED_TWO_HOPS &&
	    (f->local < 2 || f->local >= f->nranks || f->nranks % f->local))
		return "two-hops needs at least 2 nodes of equally many ranks, at least 2 each; "
		       "--node-ranks divides the ranks into nodes";
	return NULL;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static int hops_of(const struct bb_coded_form *f)
{
	return f->only_gathers                        ? 0
	       : f->scheme->kind == BB_CODED_RING     ? f->nranks - 1
	       : f->scheme->kind == BB_CODED_TWO_HOPS ? 2
						      : 1;
}

int bb_coded_phases(const struct bb_coded_form *f)
{
	return hops_of(f) + (f->scheme->kind != BB_CODED_ALLGATHER && !f->only_reduces);
}

struct bb_coded_phase bb_coded_phase(const struct bb_coded_form *f, int phase)
{
	const enum bb_coded_kind kind = f->scheme->kind;
	const size_t n = (size_t)f->nranks, local = (size_t)f->local;
	const int all = f->nranks;

	if (phase >= hops_of(f) || kind == BB_CODED_ALLGATHER)
		return (struct bb_coded_phase){&bb_all_gather,    BB_CODED_WORLD, all, 1, 1, n,
					       phase < hops_of(f)};
	if (kind == BB_CODED_RING)
		return (struct bb_coded_phase){&bb_sendrecv, BB_CODED_WORLD, all, 1, 1, 1, true};
	if (kind == BB_CODED_ALLTOALL)
		return (struct bb_coded_phase){&bb_alltoall, BB_CODED_WORLD, all, 1, n, n, true};
	if (phase == 0)
		return (struct bb_coded_phase){
			&bb_alltoall, BB_CODED_NODE, f->local, n / local, n, n, true};
	return (struct bb_coded_phase){
		&bb_alltoall, BB_CODED_ACROSS, all / f->local, 1, n / local, n / local, true};
}

size_t bb_coded_sent(const struct bb_coded_form *f, int phase)
{
	const struct bb_coded_phase p = bb_coded_phase(f, phase);
	const bool is_ring = p.collective == &bb_sendrecv;

	return (is_ring ? 1 : p.comes - p.chunks) * bb_coded_chunk_bytes(f);
}

void bb_coded_write(const struct bb_coded_form *f, struct bb_tape *tape, int queue, int coding,
		    int exchange, size_t item, double memory_rate)
{
	const size_t bytes = bb_coded_chunk_bytes(f), chunk = bb_coded_chunk(f) * sizeof(float);

	for (int i = 0; i < bb_coded_phases(f); i++) {
		const struct bb_coded_phase p = bb_coded_phase(f, i);
		const bool is_ring = p.collective == &bb_sendrecv; /* reads its own chunk, too */
		const size_t codes = p.coded * (bytes + chunk * (f->feedback ? 3 : 1));
		const size_t decodes =
			p.comes * bytes + chunk * (p.reduces ? p.chunks + is_ring : p.comes);

		bb_tape_compute(tape, queue, coding, item++, (double)codes / memory_rate, 0);
		struct bb_operation *const o =
			bb_tape_collective(tape, queue, exchange, item++, p.collective,
					   p.chunks * bytes, BB_UINT8, BB_SUM);
		o->in_place = false;
		o->group = (int)p.family;
		bb_tape_compute(tape, queue, coding, item++, (double)decodes / memory_rate, 0);
	}
}

/* ---- groups ---------------------------------------------------------------------------------- */

int bb_coded_groups(const struct bb_coded_form *f)
{
	return f->scheme->kind == BB_CODED_TWO_HOPS ? 1 + f->nranks / f->local + f->local : 1;
}

void bb_coded_complete(const void *form, int rank, struct bb_operation *o)
{
	const struct bb_coded_form *const f = form;

	if (o->act == BB_ACT_COLLECTIVE && o->group == BB_CODED_NODE)
		o->group = 1 + rank / f->local;
	else if (o->act == BB_ACT_COLLECTIVE && o->group == BB_CODED_ACROSS)
		o->group = 1 + f->nranks / f->local + rank % f->local;
}

int bb_coded_group_size(const struct bb_coded_form *f, int group)
{
	return group == 0                      ? f->nranks
	       : group <= f->nranks / f->local ? f->local
					       : f->nranks / f->local;
}

int bb_coded_member(const struct bb_coded_form *f, int group, int i)
{
	const int nodes = group == 0 ? 0 : f->nranks / f->local;

	return group == 0       ? i
	       : group <= nodes ? (group - 1) * f->local + i
				: i * f->local + group - 1 - nodes;
}

/* ---- memory ---------------------------------------------------------------------------------- */

size_t bb_coded_lay_out(struct bb_coded *c, const struct bb_coded_form *f, int rank, char *memory)
{
	enum { X, SUM, RESULT, ERROR, SENT, COMES, PLACES };
	/* A later phase has no more in a message, and codes no more chunks. */
	const struct bb_coded_phase first = bb_coded_phase(f, 0);
	const size_t chunk = bb_coded_chunk(f), bytes = bb_coded_chunk_bytes(f);
	const size_t numbers = bb_coded_padded(f) * sizeof(float);
	size_t errors = 0, all = 0;
	char *places[PLACES];

	for (int i = 0; i < bb_coded_phases(f) && f->feedback; i++)
		errors += bb_coded_phase(f, i).coded * chunk;
	const size_t sizes[] = {f->only_gathers ? chunk * sizeof(float) : numbers,
				first.chunks * chunk * sizeof(float),
				f->only_reduces ? 0 : numbers,
				errors * sizeof(float),
				first.coded * bytes,
				(size_t)f->nranks * bytes};
	for (int i = 0; i < PLACES; i++) {
		places[i] = memory ? memory + all : NULL;
		all += up_to(sizes[i], 64);
	}
	*c = (struct bb_coded){.form = f,
			       .rank = rank,
			       .x = (float *)(void *)places[X],
			       .sum = (float *)(void *)places[SUM],
			       .result = (float *)(void *)places[RESULT],
			       .error = f->feedback ? (float *)(void *)places[ERROR] : NULL,
			       .errors = errors,
			       .sent = places[SENT],
			       .comes = places[COMES]};
	return all;
}

/* ---- what is computed ------------------------------------------------------------------------ */

/* The number of the chunk that a ring's rank sends at HOP; it ends with its own. */
static size_t ring_chunk(const struct bb_coded *c, int hop)
{
	const int n = c->form->nranks;

	return (size_t)((c->rank - hop - 1 + 2 * n) % n);
}

/* Chunk K of what is sent to member P is that of place K members + P. */
static void coded_code(const struct bb_coded *c, int phase)
{
	const struct bb_coded_form *const f = c->form;
	const struct bb_coded_phase p = bb_coded_phase(f, phase);
	const size_t chunk = bb_coded_chunk(f), bytes = bb_coded_chunk_bytes(f);
	const size_t n = p.coded * chunk, members = p.coded / p.chunks;
	const bool is_ring = p.collective == &bb_sendrecv;
	const float *x = phase > 0 ? c->sum : c->x + (is_ring ? ring_chunk(c, 0) * chunk : 0);
	float *error = c->error;

	for (int i = 0; i < phase && error; i++)
		error += bb_coded_phase(f, i).coded * chunk;
	for (size_t i = 0; i < n && error; i++)
		error[i] += x[i];
	x = error ? error : x;
	/* Without blocks, all chunks have one scale. */
	const struct bb_block_scale scale = bb_coding_fit(f->coding, x, f->block ? 0 : n);
	for (size_t i = 0; i < p.coded; i++) {
		char *const to = c->sent + (i % members * p.chunks + i / members) * bytes;

		if (f->block)
			bb_coding_encode(f->coding, f->block, x + i * chunk, chunk, to);
		else
			bb_coding_encode_block(f->coding, &scale, x + i * chunk, chunk, to,
					       to + bytes - f->coding->scale_bytes);
		if (error)
			bb_coding_add(f->coding, f->block, to, chunk, -1, error + i * chunk);
	}
}

static void coded_decode(const struct bb_coded *c, int phase)
{
	const struct bb_coded_form *const f = c->form;
	const struct bb_coded_phase p = bb_coded_phase(f, phase);
	const size_t chunk = bb_coded_chunk(f), bytes = bb_coded_chunk_bytes(f);
	float *const sum = f->scheme->kind == BB_CODED_ALLGATHER ? c->result : c->sum;

	if (p.collective == &bb_sendrecv)
		memcpy(sum, c->x + ring_chunk(c, phase + 1) * chunk, chunk * sizeof(*sum));
	else if (p.reduces)
		memset(sum, 0, p.chunks * chunk * sizeof(*sum));
	for (size_t i = 0; i < p.comes; i++)
		if (p.reduces)
			bb_coding_add(f->coding, f->block, c->comes + i * bytes, chunk, 1,
				      sum + i % p.chunks * chunk);
		else
			bb_coding_decode(f->coding, f->block, c->comes + i * bytes, chunk,
					 c->result + i * chunk);
	for (size_t i = 0; i < p.chunks * chunk && p.reduces && phase + 1 == hops_of(f); i++)
		sum[i] /= (float)f->nranks;
}

void bb_coded_compute(const struct bb_coded *c, size_t item)
{
	if (item % BB_CODED_STEPS == BB_CODED_CODE)
		coded_code(c, (int)(item / BB_CODED_STEPS));
	else
		coded_decode(c, (int)(item / BB_CODED_STEPS));
}

void bb_coded_alone(const struct bb_coded *all)
{
	const struct bb_coded_form *f = all->form;
	const size_t bytes = bb_coded_chunk_bytes(f), n = (size_t)f->nranks;

	for (int phase = 0; phase < bb_coded_phases(f); phase++) {
		const size_t item = (size_t)(BB_CODED_STEPS * phase);
		const bool gathers = bb_coded_phase(f, phase).collective == &bb_all_gather;

		for (size_t r = 0; r < n; r++)
			bb_coded_compute(&all[r], item + BB_CODED_CODE);
		for (size_t r = 0; r < n * n; r++)
			memcpy(all[r / n].comes + r % n * bytes,
			       all[r % n].sent + (gathers ? 0 : r / n) * bytes, bytes);
		for (size_t r = 0; r < n; r++)
			bb_coded_compute(&all[r], item + BB_CODED_DECODE);
	}
}

/* ---- the balance ----------------------------------------------------------------------------- */

/* From -1 to 1. */
static double weight_of(uint64_t element)
{
	return (double)(int64_t)bb_random_at(1, element) * 0x1p-63;
}

void bb_coded_round(const struct bb_coded *c, uint64_t first, struct bb_coded_balance *b)
{
	for (size_t i = 0; i < c->form->count; i++) {
		const double x = (double)c->x[i], error = (double)c->error[i];

		b->open += weight_of(first + i) * ((double)c->result[i] - x);
		b->squares += x * x + error * error;
	}
}

double bb_coded_errors(const struct bb_coded *c, uint64_t first)
{
	const size_t padded = bb_coded_padded(c->form), chunk = bb_coded_chunk(c->form);
	const size_t mine = (size_t)c->rank * chunk;
	double sum = 0;

	for (size_t i = 0; i < c->form->count; i++) {
		/* A rank has the errors of its chunk of the mean, whose weight is that of all. */
		const bool own = i / chunk == (size_t)c->rank;

		sum += weight_of(first + i) *
		       ((double)c->error[i] +
			(own ? c->form->nranks * (double)c->error[padded + i - mine] : 0));
	}
	return sum;
}

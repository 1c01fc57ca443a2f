/*
 * check.c - what became of the parameters: compared with one who trains alone, or summed.
 */
#include "memory/zero/session.h"

#include <string.h>

#define MOST_CHECKED (UINT64_C(1) << 22) /* elements that are trained once more, by one */
#define MOST_DRAWN (UINT64_C(1) << 30)   /* gradients of them, in all steps */

bb_status bb_zero_open_reference(struct bb_zero_session *s)
{
	const struct bb_zero_data *d = &s->zero->data;
	const uint64_t drawn = d->elements * (uint64_t)d->nranks * (uint64_t)d->microbatches;
	bb_status status;

	if (!bb_zero_has_data(s) || s->engine.run->options.check == 0 ||
	    d->elements > MOST_CHECKED || drawn > MOST_DRAWN / (uint64_t)s->steps)
		return BB_OK;
	status = bb_zero_reference_open(&s->reference, d, &s->zero->scale, &s->engine.run->error);
	s->has_reference = status == BB_OK;
	for (int64_t step = 1; step <= s->steps && status == BB_OK; step++)
		bb_zero_reference_step(&s->reference, step);
	return status;
}

static uint64_t count_wrong(const void *got, const void *wanted, size_t size, size_t n)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += memcmp((const char *)got + i * size, (const char *)wanted + i * size,
				size) != 0;
	return wrong;
}

/* N elements FIRST … of the model, which are at PARAMETERS. OWN: this rank's to sum. */
static bb_status look_at_parameters(const struct bb_zero_session *s, struct bb_zero_rank *z,
				    uint64_t first, size_t n, char *parameters, bool own,
				    struct bb_zero_measured *m)
{
	const size_t size = bb_zero_size(z);
	bb_status status = BB_OK;
	void *seen;

	for (size_t at = 0; at < n && status == BB_OK; at += BB_ZERO_BLOCK) {
		const size_t block = n - at < BB_ZERO_BLOCK ? n - at : BB_ZERO_BLOCK;

		status = bb_zero_see(z, 0, parameters + at * size, block * size, false, &seen);
		if (status == BB_OK && own)
			m->sum.checksum +=
				bb_zero_sum(z->zero->asked.dtype, first + at, block, seen);
		if (status == BB_OK && s->has_reference)
			m->sum.wrong += count_wrong(
				seen, s->reference.parameters + (first + at) * size, size, block);
	}
	return status;
}

static bb_status look_at_master(const struct bb_zero_session *s, struct bb_zero_rank *z,
				uint64_t first, size_t n, size_t at, struct bb_zero_measured *m)
{
	bb_status status = BB_OK;
	void *seen;

	for (size_t i = 0; i < n && status == BB_OK; i += BB_ZERO_BLOCK) {
		const size_t block = n - i < BB_ZERO_BLOCK ? n - i : BB_ZERO_BLOCK;

		status = bb_zero_see(z, 0, z->master.memory + (at + i) * sizeof(float),
				     block * sizeof(float), z->zero->asked.offload, &seen);
		if (status == BB_OK)
			m->sum.wrong += count_wrong(seen, s->reference.master + first + i,
						    sizeof(float), block);
	}
	return status;
}

/* All that this rank has of UNIT: its own part, which is summed, and beside it what it was given.
 */
static bb_status look_at_unit(const struct bb_zero_session *s, struct bb_zero_rank *z, size_t unit,
			      struct bb_zero_measured *m)
{
	const struct bb_zero_unit *u = &z->zero->units.list[unit];
	const struct bb_zero_place *p = &z->places.list[unit];
	const size_t size = bb_zero_size(z);
	const uint64_t begin = p->mine < u->elements ? p->mine : u->elements;
	const uint64_t end = p->mine + p->part < u->elements ? p->mine + p->part : u->elements;
	const bool divided = z->stage == 3;
	char *const row = z->parameters.memory + (divided ? p->part_at : p->at) * size;
	bb_status status;

	BB_TRY(status,
	       look_at_parameters(s, z, u->first + begin, (size_t)(end - begin),
				  row + (divided ? 0 : begin * size), z->stage > 0 || z->rank == 0,
				  m),
	       out);
	if (!divided) {
		BB_TRY(status, look_at_parameters(s, z, u->first, (size_t)begin, row, false, m),
		       out);
		BB_TRY(status,
		       look_at_parameters(s, z, u->first + end, (size_t)(u->elements - end),
					  row + end * size, false, m),
		       out);
	}
	if (s->has_reference && z->master.memory)
		status = look_at_master(s, z, u->first + begin, (size_t)(end - begin),
					(size_t)p->part_at, m);
out:
	return status;
}

bb_status bb_zero_look_at_result(struct bb_zero_session *s, struct bb_zero_rank *z,
				 struct bb_zero_measured *m)
{
	bb_status status = BB_OK;

	if (!bb_zero_has_data(s))
		return BB_OK;
	BB_TRY(status, bb_engine_corrupt(&s->engine, z->parameters.memory + z->places.list[0].at),
	       out);
	for (size_t u = 0; u < z->zero->units.n; u++)
		BB_TRY(status, look_at_unit(s, z, u, m), out);
	BB_TRY(status,
	       bb_engine_sum(&s->engine, (uint64_t *)&m->sum, sizeof(m->sum) / sizeof(uint64_t)),
	       out);
	/* Without a reference the first stage is what the others must be like. */
	if (!s->has_checksum)
		s->checksum = m->sum.checksum;
	s->has_checksum = true;
	if (!s->has_reference)
		m->sum.wrong = m->sum.checksum != s->checksum;
out:
	return status;
}

/*
 * check.c - verification of the parameters: compared with the reference, and summed.
 */
#include "training_kernels/zero/session.h"

#include <string.h>

#define MOST_CHECKED (UINT64_C(1) << 22) /* elements of a reference */
#define MOST_DRAWN (UINT64_C(1) << 30)   /* gradients of a reference, in all steps */

bb_status bb_zero_open_reference(struct bb_zero_session *s)
{
	const struct bb_zero_data *d = &s->zero->data;
	const uint64_t drawn = d->elements * (uint64_t)d->nranks * (uint64_t)d->microbatches;
	bb_status status;

	if (!bb_zero_trains(s->zero, s->engine.run) || s->engine.run->options.check == 0 ||
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

/* Elements of an array of this rank. */
struct span {
	char *array;
	size_t at, n;          /* in the array */
	size_t size;           /* of an element */
	uint64_t first;        /* index in the model */
	bool host;             /* in host memory on any backend */
	bool summed;           /* belongs to the checksum */
	const char *reference; /* of the whole model; NULL: none */
};

static bb_status verify_span(struct bb_zero_rank *z, const struct span *e,
			     struct bb_zero_measured *m)
{
	bb_status status = BB_OK;
	void *seen;

	for (size_t i = 0; i < e->n; i += BB_ZERO_BLOCK) {
		const size_t block = e->n - i < BB_ZERO_BLOCK ? e->n - i : BB_ZERO_BLOCK;

		BB_TRY(status,
		       bb_zero_view(z, 0, e->array + (e->at + i) * e->size, block * e->size,
				    e->host, &seen),
		       out);
		if (e->summed)
			m->sum.checksum +=
				bb_zero_sum(z->zero->options.dtype, e->first + i, block, seen);
		if (e->reference)
			m->sum.wrong += count_wrong(seen, e->reference + (e->first + i) * e->size,
						    e->size, block);
	}
out:
	return status;
}

/* Verify all elements of UNIT on this rank: its own part, which is summed, what it received of the
   others' parts, and the master copy of its part. */
static bb_status verify_unit(const struct bb_zero_session *s, struct bb_zero_rank *z, size_t unit,
			     struct bb_zero_measured *m)
{
	const struct bb_zero_unit *u = &z->zero->units.list[unit];
	const struct bb_zero_place *p = &z->places.list[unit];
	const uint64_t begin = p->mine < u->elements ? p->mine : u->elements;
	const uint64_t end = p->mine + p->part < u->elements ? p->mine + p->part : u->elements;
	const bool divided = z->stage == 3;
	const bool has_master = s->has_reference && z->master.memory;
	const struct span row = {.array = z->parameters.memory,
				 .size = bb_zero_size(z),
				 .reference = s->has_reference ? s->reference.parameters : NULL};
	struct span own = row, before = row, after = row;
	const struct span master = {.array = z->master.memory,
				    .at = (size_t)p->part_at,
				    .n = has_master ? (size_t)(end - begin) : 0,
				    .size = sizeof(float),
				    .first = u->first + begin,
				    .host = z->zero->options.offload,
				    .reference = (const char *)s->reference.master};
	bb_status status;

	own.at = (size_t)(divided ? p->part_at : p->at + begin);
	own.n = (size_t)(end - begin);
	own.first = u->first + begin;
	own.summed = z->stage > 0 || z->rank == 0;
	before.at = (size_t)p->at;
	before.n = divided ? 0 : (size_t)begin;
	before.first = u->first;
	after.at = (size_t)(p->at + end);
	after.n = divided ? 0 : (size_t)(u->elements - end);
	after.first = u->first + end;
	BB_TRY(status, verify_span(z, &own, m), out);
	BB_TRY(status, verify_span(z, &before, m), out);
	BB_TRY(status, verify_span(z, &after, m), out);
	status = verify_span(z, &master, m);
out:
	return status;
}

bb_status bb_zero_verify(struct bb_zero_session *s, struct bb_zero_rank *z,
			 struct bb_zero_measured *m)
{
	bb_status status = BB_OK;

	if (!bb_zero_trains(s->zero, s->engine.run))
		return BB_OK;
	BB_TRY(status, bb_engine_corrupt(&s->engine, z->parameters.memory + z->places.list[0].at),
	       out);
	for (size_t u = 0; u < z->zero->units.n; u++)
		BB_TRY(status, verify_unit(s, z, u, m), out);
	BB_TRY(status,
	       bb_engine_sum(&s->engine, (uint64_t *)&m->sum, sizeof(m->sum) / sizeof(uint64_t)),
	       out);
	/* Without a reference all stages must agree with the first one. */
	if (!s->has_checksum)
		s->checksum = m->sum.checksum;
	s->has_checksum = true;
	if (!s->has_reference)
		m->sum.wrong = m->sum.checksum != s->checksum;
out:
	return status;
}

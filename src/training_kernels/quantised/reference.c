#include "training_kernels/quantised/quantised.h"

#include "core/random.h"

#include <math.h>
#include <string.h>

void bb_quantised_draw(const struct bb_coded_form *f, uint64_t seed, int rank, bool errors,
		       size_t first, size_t n, float *to)
{
	const float scale = ldexpf(sqrtf(3) / 0x1p16f, errors ? -(int)f->coding->bits : 0);
	const size_t at = errors ? bb_coded_padded(f) + first : first;

	seed += (uint64_t)rank * BB_RANDOM_STEP;
	for (size_t i = 0; i < n; i++) {
		const uint64_t word = bb_random_at(seed, at + i);
		const int32_t sum = (int32_t)((word & 0xffff) + (word >> 16 & 0xffff) +
					      (word >> 32 & 0xffff) + (word >> 48));

		to[i] = errors || first + i < f->count ? (float)(sum - 2 * 0xffff) * scale : 0;
	}
}

size_t bb_quantised_lay_out(struct bb_quantised_reference *ref, const struct bb_coded_form *f,
			    char *memory)
{
	const size_t n = bb_coded_padded(f);
	struct bb_coded coded;

	(void)bb_coded_lay_out(&coded, f, 0, NULL);
	ref->form = f;
	if (memory) {
		ref->exact = (double *)(void *)memory;
		ref->kept = ref->exact + n;
		ref->mean = (float *)(ref->kept + n);
		ref->numbers = ref->mean + n;
		ref->old = ref->numbers + n;
		ref->back = ref->old + n;
		ref->sum = ref->back + n;
		ref->node = ref->sum + n;
		ref->errors = ref->node + n;
		ref->codes = (char *)(ref->errors + coded.errors);
	}
	return n * (2 * sizeof(double) + 6 * sizeof(float)) + coded.errors * sizeof(float) +
	       (size_t)f->nranks * bb_coded_chunk_bytes(f);
}

/* The numbers are N of the array of RANK, from FIRST on. */
static void reference_load(struct bb_quantised_reference *ref, int rank, size_t first, size_t n)
{
	bb_quantised_draw(ref->form, ref->seed, rank, false, first, n, ref->numbers);
	for (size_t i = 0; i < n; i++)
		ref->exact[first + i] += (double)ref->numbers[i] / ref->form->nranks;
}

/*
 * Back are the decoded codes that RANK makes of N numbers and their old errors, ERRORS the first of
 * them. Chunk k of the numbers is chunk k STRIDE + FIRST of the array, whose mean has SHARE of it.
 */
static void reference_code(struct bb_quantised_reference *ref, int rank, size_t n, size_t errors,
			   size_t stride, size_t first, double share)
{
	const struct bb_coded_form *const f = ref->form;
	const size_t chunk = bb_coded_chunk(f), unit = f->block ? chunk : n;
	float *const b = ref->numbers, *const old = ref->old;

	if (f->feedback)
		bb_quantised_draw(f, ref->seed, rank, true, errors, n, old);
	for (size_t i = 0; i < n && f->feedback; i++)
		b[i] += old[i];
	for (size_t i = 0; i < n; i += unit) {
		bb_coding_encode(f->coding, f->block, b + i, unit, ref->codes);
		bb_coding_decode(f->coding, f->block, ref->codes, unit, ref->back + i);
	}
	for (size_t i = 0; i < n; i++) {
		const float now = b[i] - ref->back[i];

		ref->kept[(i / chunk * stride + first) * chunk + i % chunk] +=
			share * ((double)now - (f->feedback ? (double)old[i] : 0));
		if (f->feedback && rank == ref->rank)
			ref->errors[errors + i] = now;
	}
}

/* The sum of what ranks send of their whole arrays, by nodes if there are two hops. */
static void reference_sum(struct bb_quantised_reference *ref)
{
	const struct bb_coded_form *const f = ref->form;
	const bool hops = f->scheme->kind == BB_CODED_TWO_HOPS;
	const size_t padded = bb_coded_padded(f), chunk = bb_coded_chunk(f);
	const int local = hops ? f->local : f->nranks, nodes = f->nranks / local;

	for (int rank = 0; rank < f->nranks; rank++) {
		if (rank % local == 0)
			memset(ref->node, 0, padded * sizeof(float));
		reference_load(ref, rank, 0, padded);
		reference_code(ref, rank, padded, 0, 1, 0, 1.0 / f->nranks);
		for (size_t i = 0; i < padded; i++)
			ref->node[i] += ref->back[i];
		for (int place = 0; place < local && rank % local == local - 1; place++) {
			float *const own = ref->node + (size_t)place * chunk;
			const size_t step = (size_t)local * chunk;

			for (int k = 0; k < nodes && hops; k++)
				memcpy(ref->numbers + (size_t)k * chunk, own + (size_t)k * step,
				       chunk * sizeof(float));
			if (hops)
				reference_code(ref, rank - local + 1 + place, (size_t)nodes * chunk,
					       padded, (size_t)local, (size_t)place,
					       1.0 / f->nranks);
			for (int k = 0; k < nodes && hops; k++)
				memcpy(own + (size_t)k * step, ref->back + (size_t)k * chunk,
				       chunk * sizeof(float));
		}
		for (size_t i = 0; i < padded && rank % local == local - 1; i++)
			ref->sum[i] += ref->node[i];
	}
}

/* The sum of each chunk, from rank to rank until its own. */
static void reference_ring(struct bb_quantised_reference *ref)
{
	const int n = ref->form->nranks;
	const size_t chunk = bb_coded_chunk(ref->form);

	for (int c = 0; c < n; c++) {
		const size_t first = (size_t)c * chunk;

		reference_load(ref, (c + 1) % n, first, chunk);
		for (int hop = 0; hop < n - 1; hop++) {
			reference_code(ref, (c + 1 + hop) % n, chunk, (size_t)hop * chunk, 1,
				       (size_t)c, 1.0 / n);
			reference_load(ref, (c + 2 + hop) % n, first, chunk);
			for (size_t i = 0; i < chunk; i++)
				ref->numbers[i] += ref->back[i];
		}
		memcpy(ref->sum + first, ref->numbers, chunk * sizeof(float));
	}
}

void bb_quantised_compute(struct bb_quantised_reference *ref)
{
	const struct bb_coded_form *const f = ref->form;
	const size_t padded = bb_coded_padded(f), chunk = bb_coded_chunk(f);
	const bool gathers = f->scheme->kind != BB_CODED_ALLGATHER;
	size_t errors = 0; /* of the phases that reduce */

	memset(ref->exact, 0, padded * sizeof(double));
	memset(ref->kept, 0, padded * sizeof(double));
	memset(ref->sum, 0, padded * sizeof(float));
	if (f->scheme->kind == BB_CODED_RING)
		reference_ring(ref);
	else
		reference_sum(ref);
	for (int i = 0; i + 1 < bb_coded_phases(f); i++)
		errors += bb_coded_phase(f, i).coded * chunk;
	for (size_t i = 0; i < padded; i++)
		ref->mean[i] = ref->sum[i] / (float)f->nranks;
	for (int c = 0; c < f->nranks && gathers; c++) {
		memcpy(ref->numbers, ref->mean + (size_t)c * chunk, chunk * sizeof(float));
		reference_code(ref, c, chunk, errors, 1, (size_t)c, 1);
		memcpy(ref->mean + (size_t)c * chunk, ref->back, chunk * sizeof(float));
	}
}

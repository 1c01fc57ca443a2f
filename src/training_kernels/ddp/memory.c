#include "training_kernels/ddp/memory.h"

#include "core/random.h"
#include "training_kernels/kernel/adam.h"

#include <math.h>
#include <string.h>

#define BLOCK 1024

/* Multiples of 2^-14 below 1/16. */
static float initial_parameter(size_t i)
{
	return (float)(int)(bb_random_mix(i + 1) % 2047 - 1023) * 0x1p-14f;
}

/* TO = FROM divided by the number of ranks, as PyTorch does: multiplied by the rounded 1/n. */
static void divide(const struct bb_ddp_memory *m, const char *from, char *to, size_t n)
{
	const double share = 1.0 / m->nranks;
	const float narrow_share = (float)share;
	float wide[BLOCK];

	if (m->dtype == BB_DOUBLE) {
		for (size_t i = 0; i < n; i++)
			((double *)to)[i] = ((const double *)from)[i] * share;
	} else if (m->dtype == BB_FLOAT) {
		for (size_t i = 0; i < n; i++)
			((float *)to)[i] = ((const float *)from)[i] * narrow_share;
	} else {
		bb_adam_widen(m->dtype, from, wide, n);
		for (size_t i = 0; i < n; i++)
			wide[i] *= narrow_share;
		bb_adam_narrow(m->dtype, wide, to, n);
	}
}

/* The gradients of a block, in fp32; WIDE has room for them. */
static const float *gradients_of(const struct bb_ddp_memory *m, size_t first, size_t n, float *wide)
{
	const char *from = m->gradients + first * bb_dtype_size(m->dtype);

	if (m->dtype == BB_FLOAT)
		return (const float *)from;
	bb_adam_widen(m->dtype, from, wide, n);
	return wide;
}

/* As torch.nn.utils.clip_grad_norm_, and unscale_ of torch.amp.GradScaler; Adam multiplies. */
static void inspect(struct bb_ddp_memory *m)
{
	double squares = 0;
	float wide[BLOCK];

	for (size_t first = 0, n; first < m->elements; first += n) {
		n = m->elements - first < BLOCK ? m->elements - first : BLOCK;
		const float *g = gradients_of(m, first, n, wide);
		for (size_t i = 0; i < n; i++)
			squares += (double)g[i] * g[i];
	}
	const double norm = sqrt(squares) / m->loss_scale;
	m->overflowed = !isfinite(norm);
	m->unscale = (float)(1 / m->loss_scale);
	if (m->most_norm > 0)
		m->unscale *= (float)fmin(1, m->most_norm / (norm + 1e-6));
}

/* Adam's step T with the gradients of a block. */
static void update(const struct bb_ddp_memory *m, uint64_t t, size_t first, size_t n, float *master,
		   float *moment1, float *moment2, char *parameters)
{
	float wide[BLOCK];

	bb_adam_step(t, m->unscale, gradients_of(m, first, n, wide), master, moment1, moment2, n);
	if (parameters)
		bb_adam_narrow(m->dtype, master, parameters, n);
}

void bb_ddp_memory_work(struct bb_ddp_memory *m, enum bb_ddp_work work, bool copied, size_t first,
			size_t count)
{
	const size_t size = bb_dtype_size(m->dtype);
	char *const buckets = copied ? m->buckets : m->gradients;

	if (work == BB_DDP_INSPECT)
		inspect(m);
	if (work == BB_DDP_COPY_OUT)
		memcpy(m->gradients + first * size, m->buckets + first * size, count * size);
	if (work == BB_DDP_UPDATE && !m->overflowed)
		m->steps += first == 0; /* the first bucket is updated first */
	for (size_t i = first, n; i < first + count; i += n) {
		n = first + count - i < BLOCK ? first + count - i : BLOCK;
		if (work == BB_DDP_COPY_IN)
			divide(m, m->gradients + i * size, buckets + i * size, n);
		else if (work == BB_DDP_UPDATE && !m->overflowed)
			update(m, m->steps, i, n, m->master + i, m->moment1 + i, m->moment2 + i,
			       m->parameters ? m->parameters + i * size : NULL);
	}
}

void bb_ddp_memory_reset(struct bb_ddp_memory *m)
{
	for (size_t i = 0; i < m->elements; i++)
		m->master[i] = initial_parameter(i);
	memset(m->moment1, 0, m->elements * sizeof(float));
	memset(m->moment2, 0, m->elements * sizeof(float));
	m->steps = 0;
	m->unscale = 1;
	m->overflowed = false;
}

uint64_t bb_ddp_memory_wrong(const struct bb_ddp_memory *m)
{
	struct bb_ddp_memory expected = *m;
	const size_t size = bb_dtype_size(m->dtype);
	uint64_t wrong = 0;

	expected.unscale = 1;
	if (m->most_norm > 0 || m->loss_scale != 1)
		inspect(&expected);
	for (size_t first = 0, n; first < m->elements; first += n) {
		float master[BLOCK], moments[2][BLOCK] = {{0}};
		char rounded[BLOCK * sizeof(float)];

		n = m->elements - first < BLOCK ? m->elements - first : BLOCK;
		for (size_t i = 0; i < n; i++)
			master[i] = initial_parameter(first + i);
		if (!expected.overflowed)
			update(&expected, 1, first, n, master, moments[0], moments[1],
			       m->parameters ? rounded : NULL);
		for (size_t i = 0; i < n; i++)
			wrong += memcmp(&master[i], &m->master[first + i], sizeof(float)) != 0 ||
				 memcmp(&moments[0][i], &m->moment1[first + i], sizeof(float)) !=
					 0 ||
				 memcmp(&moments[1][i], &m->moment2[first + i], sizeof(float)) !=
					 0 ||
				 (m->parameters && !expected.overflowed &&
				  memcmp(rounded + i * size, m->parameters + (first + i) * size,
					 size) != 0);
	}
	return wrong;
}

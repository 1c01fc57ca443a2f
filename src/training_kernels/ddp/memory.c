#include "training_kernels/ddp/memory.h"

#include "core/random.h"
#include "training_kernels/kernel/adam.h"

#include <math.h>
#include <string.h>

#define BLOCK 1024

/* Parameters and moments before the first step: those of COUNT elements, FIRST in the model. The
   former are multiples of 2^-14 below 1/16. */
static void memory_initialise(struct bb_ddp_memory *m, size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		m->master[i] = (float)(int)(bb_random_mix(first + i + 1) % 2047 - 1023) * 0x1p-14f;
	memset(m->moment1, 0, count * sizeof(float));
	memset(m->moment2, 0, count * sizeof(float));
	m->steps = 0;
}

/* As torch.nn.utils.clip_grad_norm_, and unscale_ of torch.amp.GradScaler; Adam multiplies. */
static void memory_inspect(struct bb_ddp_memory *m)
{
	double squares = 0;
	float wide[BLOCK];

	for (size_t first = 0, n; first < m->elements; first += n) {
		n = m->elements - first < BLOCK ? m->elements - first : BLOCK;
		bb_adam_widen(m->dtype, m->gradients + first * bb_dtype_size(m->dtype), wide, n);
		for (size_t i = 0; i < n; i++)
			squares += (double)wide[i] * wide[i];
	}
	const double norm = sqrt(squares) / m->loss_scale;
	m->overflowed = !isfinite(norm);
	m->unscale = (float)(1 / m->loss_scale);
	if (m->most_norm > 0)
		m->unscale *= (float)fmin(1, m->most_norm / (norm + 1e-6));
}

void bb_ddp_memory_work(struct bb_ddp_memory *m, enum bb_ddp_work work, bool copied, size_t first,
			size_t count)
{
	const size_t size = bb_dtype_size(m->dtype);
	const float share = (float)(1.0 / m->nranks); /* PyTorch multiplies by it, too */
	char *const buckets = copied ? m->buckets : m->gradients;
	float wide[BLOCK];

	if (work == BB_DDP_INSPECT)
		memory_inspect(m);
	if (work == BB_DDP_INSPECT || (work == BB_DDP_UPDATE && m->overflowed))
		return;
	m->steps += work == BB_DDP_UPDATE && first == 0; /* the first bucket is updated first */
	for (size_t i = first, n; i < first + count; i += n) {
		n = first + count - i < BLOCK ? first + count - i : BLOCK;
		if (work == BB_DDP_COPY_OUT) {
			memcpy(m->gradients + i * size, buckets + i * size, n * size);
			continue;
		}
		bb_adam_widen(m->dtype, m->gradients + i * size, wide, n);
		if (work == BB_DDP_COPY_IN) {
			for (size_t j = 0; j < n; j++)
				wide[j] *= share;
			bb_adam_narrow(m->dtype, wide, buckets + i * size, n);
		} else {
			bb_adam_step_by(BB_ADAM_RATE, m->steps, m->unscale, wide, m->master + i,
					m->moment1 + i, m->moment2 + i, n);
			if (m->parameters)
				bb_adam_narrow(m->dtype, m->master + i, m->parameters + i * size,
					       n);
		}
	}
}

void bb_ddp_memory_reset(struct bb_ddp_memory *m)
{
	memory_initialise(m, 0, m->elements);
	m->unscale = 1;
	m->overflowed = false;
}

uint64_t bb_ddp_memory_wrong(const struct bb_ddp_memory *m)
{
	const size_t size = bb_dtype_size(m->dtype);
	float states[3][BLOCK];
	char rounded[BLOCK * sizeof(float)];
	struct bb_ddp_memory one = *m; /* of a block */
	uint64_t wrong = 0;

	one.unscale = 1;
	one.overflowed = false;
	if (m->most_norm > 0 || m->loss_scale != 1)
		memory_inspect(&one);
	one.master = states[0];
	one.moment1 = states[1];
	one.moment2 = states[2];
	one.parameters = m->parameters ? rounded : NULL;
	for (size_t first = 0, n; first < m->elements; first += n) {
		n = m->elements - first < BLOCK ? m->elements - first : BLOCK;
		one.gradients = m->gradients + first * size;
		memory_initialise(&one, first, n);
		bb_ddp_memory_work(&one, BB_DDP_UPDATE, false, 0, n);
		for (size_t i = 0, at = first; i < n; i++, at++)
			wrong += memcmp(&states[0][i], &m->master[at], sizeof(float)) != 0 ||
				 memcmp(&states[1][i], &m->moment1[at], sizeof(float)) != 0 ||
				 memcmp(&states[2][i], &m->moment2[at], sizeof(float)) != 0 ||
				 (one.parameters && !one.overflowed &&
				  memcmp(rounded + i * size, m->parameters + at * size, size) != 0);
	}
	return wrong;
}

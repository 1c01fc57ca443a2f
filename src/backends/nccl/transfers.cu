/*
 * Kernels that copy bytes, or exchange flags, between the memory of two GPUs.
 */
#include "backends/nccl/pieces.cuh"

namespace
{

const int EACH = 4; /* loads in flight of a thread */

__global__ void __launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) copy_bytes(const work w)
{
	const uint64_t t = thread_index(), n = thread_count();
	char *const to = w.dst + w.head;
	const char *const from = w.src[0] + w.head;
	uint64_t element, i = t;
	uint4 v[EACH];

	if (stray_element(w, 1, t, &element))
		w.dst[element] = w.src[0][element];
	for (; i + (EACH - 1) * n < w.pieces; i += EACH * n) {
		for (int k = 0; k < EACH; k++)
			v[k] = load_piece(from + (i + k * n) * PIECE);
		for (int k = 0; k < EACH; k++)
			((uint4 *)to)[i + k * n] = v[k];
	}
	for (; i < w.pieces; i += n)
		((uint4 *)to)[i] = load_piece(from + i * PIECE);
}

/* One thread: it polls its own GPU's memory and writes to the other's. */
__global__ void ping_pong(const work w)
{
	const unsigned *const mine = (const unsigned *)w.src[0];
	const unsigned *const halt = (const unsigned *)w.src[1];
	unsigned *const theirs = (unsigned *)w.dst;
	const bool first = w.nsrc != 0;
	unsigned flag = (unsigned)w.first;

	if (thread_index() > 0)
		return;
	for (uint64_t i = 0; i < w.count; i++) {
		flag++;
		if (first)
			__stwt(theirs, flag);
		for (unsigned polls = 1; __ldcv(mine) != flag; polls++)
			if (polls % 1024 == 0 && __ldcv(halt))
				return;
		if (!first)
			__stwt(theirs, flag);
	}
}

} // namespace

cudaError_t bb_gpu_copy(struct bb_gpu_lane lane, void *dst, const void *src, uint64_t bytes)
{
	work w = {};

	w.dst = (char *)dst;
	w.src[0] = (const char *)src;
	cut(&w, dst, 1, bytes);
	return launch(copy_bytes, &w, lane, EACH);
}

cudaError_t bb_gpu_ping(struct bb_gpu_lane lane, unsigned *theirs, const unsigned *mine,
			const unsigned *halt, unsigned flag, bool first, uint64_t rounds)
{
	work w = {};

	w.dst = (char *)theirs;
	w.src[0] = (const char *)mine;
	w.src[1] = (const char *)halt;
	w.nsrc = first;
	w.first = flag;
	w.count = rounds;
	return launch(ping_pong, &w, lane, 1);
}

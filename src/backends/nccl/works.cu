/*
 * Kernels that measure memory: its bandwidth, its latency, and a kernel that only takes time; and
 * those that copy bytes, or exchange flags, between the memory of two GPUs.
 */
#include "backends/nccl/pieces.cuh"

namespace
{

const int EACH = 4; /* loads in flight of a thread */

/* Without the comparison at the end the compiler would remove the loads. */
__global__ void __launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) read_memory(const work w)
{
	const uint4 *const from = (const uint4 *)w.src[0];
	uint4 sum = make_uint4(0, 0, 0, 0);

	for (uint64_t i = thread_index(); i < w.pieces; i += thread_count()) {
		const uint4 v = from[i];

		sum.x ^= v.x;
		sum.y ^= v.y;
		sum.z ^= v.z;
		sum.w ^= v.w;
	}
	if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == BB_GPU_READ_MARK)
		*w.wrong = BB_GPU_READ_MARK;
}

__global__ void __launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) write_memory(const work w)
{
	const uint4 v = make_uint4(0x01010101, 0x01010101, 0x01010101, 0x01010101);

	for (uint64_t i = thread_index(); i < w.pieces; i += thread_count())
		((uint4 *)w.dst)[i] = v;
}

__global__ void __launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) triad(const work w)
{
	for (uint64_t i = thread_index(); i < w.pieces; i += thread_count()) {
		const double2 b = ((const double2 *)w.src[0])[i];
		const double2 c = ((const double2 *)w.src[1])[i];

		((double2 *)w.dst)[i] = make_double2(b.x + 2 * c.x, b.y + 2 * c.y);
	}
}

/* One thread. Without the store at the end the compiler would remove the loads. */
__global__ void chase(const work w)
{
	const char *at = w.dst;

	if (thread_index() > 0)
		return;
	for (uint64_t i = 0; i < w.count; i++)
		at = *(const char *const *)at;
	*w.wrong = (unsigned long long)(uintptr_t)at;
}

/* One thread. */
__global__ void spin(const work w)
{
	const unsigned *const halt = (const unsigned *)w.src[0];
	const uint64_t begin = device_ns();

	if (thread_index() > 0)
		return;
	for (unsigned polls = 1; device_ns() - begin < w.count; polls++)
		if (polls % 1024 == 0 && __ldcv(halt))
			return;
}

/* ---- between two GPUs ------------------------------------------------------------------ */

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

cudaError_t bb_gpu_spin(struct bb_gpu_lane lane, uint64_t ns, const unsigned *halt)
{
	work w = {};

	w.src[0] = (const char *)halt;
	w.count = ns;
	return launch(spin, &w, lane, 1);
}

cudaError_t bb_gpu_work_on(struct bb_gpu_lane lane, enum bb_gpu_works what, void *a, const void *b,
			   const void *c, uint64_t bytes, unsigned long long *sink)
{
	static bb_gpu_kernel *const kernels[] = {read_memory, write_memory, triad};
	work w = {};

	w.dst = (char *)a;
	w.src[0] = (const char *)(what == BB_GPU_READ ? a : b);
	w.src[1] = (const char *)c;
	w.pieces = bytes / PIECE;
	w.count = w.pieces;
	w.wrong = sink;
	return launch(kernels[what], &w, lane, EACH);
}

cudaError_t bb_gpu_chase(struct bb_gpu_lane lane, void *memory, uint64_t hops,
			 unsigned long long *sink)
{
	work w = {};

	w.dst = (char *)memory;
	w.count = hops;
	w.wrong = sink;
	return launch(chase, &w, lane, 1);
}

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

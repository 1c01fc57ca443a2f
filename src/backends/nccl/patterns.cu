/*
 * Kernels that write and verify patterns. A block of a pattern is contiguous in its table.
 */
#include "backends/nccl/pieces.cuh"

namespace
{

/* As bb_pattern_rotation of backend.h. */
__device__ uint32_t rotation(const work &w, uint64_t block)
{
	uint64_t x = w.pattern.seed + block * 0x9e3779b97f4a7c15u, rest;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	rest = x - __umul64hi(x, w.period_magic) * w.pattern.period;
	return (uint32_t)(rest < w.pattern.period ? rest : rest - w.pattern.period);
}

/* Where BLOCK begins in the table. */
__device__ const char *block_start(const work &w, uint64_t block)
{
	return (const char *)w.pattern.table + rotation(w, block) * w.pattern.element_size;
}

/* Where byte AT of the pattern is in the table; *LEFT = bytes from there to the end of *BLOCK. */
__device__ const char *table_place(const work &w, uint64_t at, uint64_t *block, uint32_t *left)
{
	uint32_t inside;

	*block = __umul64hi(at, w.block_magic);
	inside = (uint32_t)(at - *block * w.block_bytes);
	*left = w.block_bytes - inside;
	return block_start(w, *block) + inside;
}

/* The low BYTES (0 to 8) bytes. */
__device__ uint64_t low_bytes(int bytes)
{
	return bytes <= 0 ? 0 : bytes >= 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * bytes) - 1;
}

__device__ void choose_words(uint32_t *low, uint32_t *high, uint64_t mask, uint32_t other_low,
			     uint32_t other_high)
{
	*low = (*low & (uint32_t)mask) | (other_low & ~(uint32_t)mask);
	*high = (*high & (uint32_t)(mask >> 32)) | (other_high & ~(uint32_t)(mask >> 32));
}

/* The 16 bytes of the pattern from byte AT on; they may lie in two blocks. */
__device__ uint4 pattern_piece(const work &w, uint64_t at)
{
	uint64_t block;
	uint32_t left;
	const char *const from = table_place(w, at, &block, &left);
	uint4 v = load_piece(from), next;

	if (left < (uint32_t)PIECE) {
		next = load_piece(block_start(w, block + 1) - left);
		choose_words(&v.x, &v.y, low_bytes((int)left), next.x, next.y);
		choose_words(&v.z, &v.w, low_bytes((int)left - 8), next.z, next.w);
	}
	return v;
}

__global__ void __launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) fill(const work w)
{
	const uint32_t size = w.pattern.element_size;
	const uint64_t body = w.head * size;
	uint64_t element, block;
	uint32_t left;

	for (uint64_t i = thread_index(); i < w.pieces; i += thread_count())
		*(uint4 *)(w.dst + body + i * PIECE) = pattern_piece(w, w.first + body + i * PIECE);
	if (stray_element(w, size, thread_index(), &element)) {
		const char *const from = table_place(w, w.first + element * size, &block, &left);

		for (uint32_t b = 0; b < size; b++)
			w.dst[element * size + b] = from[b];
	}
}

/* Position of BITS in the order of all values; *NUMBER becomes false for a NaN. */
__device__ uint64_t order_of(const work &w, uint64_t bits, bool *number)
{
	const uint64_t top = (uint64_t)1 << (8 * w.pattern.element_size - 1);
	const uint64_t magnitude = bits & (top - 1);

	if (w.order == BB_GPU_UNSIGNED)
		return bits;
	if (w.order == BB_GPU_SIGNED)
		return bits ^ top;
	*number = *number && w.order == BB_GPU_FLOATING && magnitude <= w.largest;
	return bits & top ? top - 1 - magnitude : top + magnitude;
}

__device__ bool is_wrong(const work &w, uint64_t got, uint64_t expected)
{
	bool number = true;
	uint64_t x, y;

	if (got == expected)
		return false;
	if (w.ulps == 0)
		return true;
	x = order_of(w, got, &number);
	y = order_of(w, expected, &number);
	return !number || (x < y ? y - x : x - y) > w.ulps;
}

__device__ uint64_t read_element(const char *p, uint32_t size)
{
	return size == 1   ? *(const uint8_t *)p
	       : size == 2 ? *(const uint16_t *)p
	       : size == 4 ? *(const uint32_t *)p
			   : *(const uint64_t *)p;
}

/* Element K of a piece. */
__device__ uint64_t piece_element(const uint4 &v, uint32_t size, uint32_t k)
{
	const uint64_t half = k * size < 8 ? v.x | (uint64_t)v.y << 32 : v.z | (uint64_t)v.w << 32;

	return half >> 8 * (k * size & 7) & low_bytes((int)size);
}

__device__ unsigned long long wrong_in_piece(const work &w, const uint4 &got, const uint4 &expected)
{
	const uint32_t size = w.pattern.element_size;
	unsigned long long wrong = 0;

	for (uint32_t k = 0; k < PIECE / size; k++)
		wrong += is_wrong(w, piece_element(got, size, k), piece_element(expected, size, k));
	return wrong;
}

__global__ void __launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) verify(const work w)
{
	const uint32_t size = w.pattern.element_size;
	const uint64_t body = w.head * size;
	unsigned long long wrong = 0;
	uint64_t element, block;
	uint32_t left;

	for (uint64_t i = thread_index(); i < w.pieces; i += thread_count()) {
		const uint4 got = *(const uint4 *)(w.src[0] + body + i * PIECE);
		const uint4 expected = pattern_piece(w, w.first + body + i * PIECE);

		if (got.x != expected.x || got.y != expected.y || got.z != expected.z ||
		    got.w != expected.w)
			wrong += wrong_in_piece(w, got, expected);
	}
	if (stray_element(w, size, thread_index(), &element)) {
		const char *const from = table_place(w, w.first + element * size, &block, &left);

		wrong += is_wrong(w, read_element(w.src[0] + element * size, size),
				  read_element(from, size));
	}
	if (wrong)
		atomicAdd(w.wrong, wrong);
}

void use_pattern(work *w, const struct bb_gpu_pattern *pattern, uint64_t first)
{
	const uint64_t all = ~(uint64_t)0;

	w->pattern = *pattern;
	w->first = first * pattern->element_size;
	w->block_bytes = pattern->period * pattern->element_size;
	w->block_magic = all / w->block_bytes + 1;
	w->period_magic = all / pattern->period;
}

/* The largest magnitude that is not NaN. */
uint64_t largest_number(enum bb_dtype dtype)
{
	return dtype == BB_HALF       ? 0x7c00
	       : dtype == BB_BFLOAT16 ? 0x7f80
	       : dtype == BB_FLOAT    ? 0x7f800000
	       : dtype == BB_DOUBLE   ? 0x7ff0000000000000
	       : dtype == BB_F8E4M3   ? 0x7e
				      : 0x7c;
}

enum bb_gpu_order order_of_type(enum bb_dtype dtype)
{
	const bool is_signed = dtype == BB_INT8 || dtype == BB_INT32 || dtype == BB_INT64;

	return bb_dtype_is_float(dtype) ? BB_GPU_FLOATING
	       : dtype == BB_FLOAT_INT  ? BB_GPU_NO_ORDER
	       : is_signed              ? BB_GPU_SIGNED
					: BB_GPU_UNSIGNED;
}

} // namespace

cudaError_t bb_gpu_fill(struct bb_gpu_lane lane, void *dst, const struct bb_gpu_pattern *pattern,
			uint64_t first, uint64_t count)
{
	work w = {};

	w.dst = (char *)dst;
	use_pattern(&w, pattern, first);
	cut(&w, dst, pattern->element_size, count);
	return launch(fill, &w, lane, 1);
}

cudaError_t bb_gpu_verify(struct bb_gpu_lane lane, const void *got,
			  const struct bb_gpu_pattern *pattern, uint64_t first, uint64_t count,
			  enum bb_dtype dtype, int ulps, unsigned long long *wrong)
{
	work w = {};

	w.src[0] = (const char *)got;
	w.wrong = wrong;
	w.ulps = (uint64_t)ulps;
	w.order = order_of_type(dtype);
	w.largest = largest_number(dtype);
	use_pattern(&w, pattern, first);
	cut(&w, got, pattern->element_size, count);
	return launch(verify, &w, lane, 1);
}

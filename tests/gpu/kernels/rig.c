#include "rig.h"

#include "core/scalar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_SLOTS 20000

const unsigned rig_lane_blocks[RIG_LANES] = {0, 1, 3};

bool rig_fail(struct rig *r, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(r->reason, sizeof(r->reason), format, arguments);
	va_end(arguments);
	r->outcome = RIG_FAILED;
	return false;
}

bool rig_skip(struct rig *r, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(r->reason, sizeof(r->reason), format, arguments);
	va_end(arguments);
	r->outcome = RIG_SKIPPED;
	return false;
}

bool rig_call(struct rig *r, cudaError_t result, const char *call)
{
	if (result == cudaSuccess)
		return true;
	r->is_lost = true;
	return rig_fail(r, "%.*s: %s", (int)strcspn(call, "("), call, cudaGetErrorString(result));
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool rig_wait(struct rig *r)
{
	const double end = seconds_now() + RIG_SECONDS;
	cudaError_t state;

	while ((state = cudaStreamQuery(r->lane.stream)) == cudaErrorNotReady) {
		if (seconds_now() > end) {
			r->is_lost = true;
			return rig_fail(r, "it has not ended after %d s", RIG_SECONDS);
		}
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	return rig_call(r, state, "the device");
}

bool rig_put(struct rig *r, void *device, const void *host, size_t bytes)
{
	return CALL(r,
		    cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, r->lane.stream)) &&
	       rig_wait(r);
}

bool rig_get(struct rig *r, void *host, const void *device, size_t bytes)
{
	return CALL(r,
		    cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, r->lane.stream)) &&
	       rig_wait(r);
}

struct bb_gpu_lane rig_lane(const struct rig *r, unsigned blocks)
{
	struct bb_gpu_lane lane = r->lane;

	if (blocks > 0)
		lane.blocks = blocks;
	return lane;
}

uint64_t rig_draw(uint64_t i)
{
	uint64_t x = i * 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	return x ^ (x >> 27);
}

/* ---- the device ---------------------------------------------------------------------- */

static char *host_bytes(size_t bytes)
{
	char *const memory = aligned_alloc(64, bytes);

	if (!memory)
		abort();
	return memory;
}

/* Zeros: kernels read the whole words that an element lies in. */
static bool device_bytes(struct rig *r, char **memory)
{
	return CALL(r, cudaMalloc((void **)memory, RIG_BYTES)) &&
	       CALL(r, cudaMemsetAsync(*memory, 0, RIG_BYTES, r->lane.stream));
}

static bool open_device(struct rig *r)
{
	struct cudaDeviceProp device;
	int processors, threads;

	if (!CALL(r, cudaSetDevice(0)) || !CALL(r, cudaGetDeviceProperties(&device, 0)) ||
	    !CALL(r, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0)) ||
	    !CALL(r, cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0)) ||
	    !CALL(r, cudaStreamCreateWithFlags(&r->lane.stream, cudaStreamNonBlocking)))
		return false;
	snprintf(r->name, sizeof(r->name), "%s", device.name);
	r->lane.blocks = bb_gpu_blocks(processors, threads);
	for (int i = 0; i < RIG_SOURCES; i++)
		if (!device_bytes(r, &r->source[i]))
			return false;
	return device_bytes(r, &r->destination) && device_bytes(r, &r->table) &&
	       CALL(r, cudaMallocHost((void **)&r->words, RIG_WORDS * sizeof(*r->words)));
}

const char *rig_open(struct rig *r)
{
	int devices = 0;

	if (!CALL(r, cudaGetDeviceCount(&devices)) || !open_device(r))
		return r->reason;
	for (int i = 0; i < RIG_SOURCES; i++)
		r->host_source[i] = host_bytes(RIG_BYTES);
	r->got = host_bytes(RIG_BYTES);
	r->expected = host_bytes(RIG_BYTES);
	r->slots = (struct rig_slot *)host_bytes(MOST_SLOTS * sizeof(*r->slots));
	return NULL;
}

/* What a device that is lost holds goes with the process. */
void rig_close(struct rig *r)
{
	for (int i = 0; i < RIG_SOURCES; i++)
		free(r->host_source[i]);
	free(r->got);
	free(r->expected);
	free(r->slots);
	if (r->is_lost)
		return;
	for (int i = 0; i < RIG_SOURCES; i++)
		CALL(r, cudaFree(r->source[i]));
	CALL(r, cudaFree(r->destination));
	CALL(r, cudaFree(r->table));
	CALL(r, cudaFreeHost(r->words));
	CALL(r, cudaStreamDestroy(r->lane.stream));
}

/* ---- comparing ----------------------------------------------------------------------- */

static bool is_nan(enum bb_dtype dtype, const char *element)
{
	const double value = bb_scalar_decode(dtype, element);

	return value != value;
}

static bool is_equal(const struct rig *r, const char *a, const char *b)
{
	return memcmp(a, b, r->size) == 0 ||
	       (r->dtype < BB_NDTYPES && bb_dtype_is_float(r->dtype) && is_nan(r->dtype, a) &&
		is_nan(r->dtype, b));
}

static uint64_t bits_of(const char *element, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, element, size); /* little-endian, as all hosts of CUDA are */
	return bits;
}

bool rig_compare(struct rig *r, const char *got, const char *expected, size_t count,
		 const char *text)
{
	const size_t size = r->size;

	if (memcmp(got, expected, count * size) == 0)
		return true;
	for (size_t i = 0; i < count; i++, got += size, expected += size)
		if (!is_equal(r, got, expected))
			return rig_fail(r, "%s: element %zu is 0x%0*llx, expected 0x%0*llx", text,
					i, (int)size * 2, (unsigned long long)bits_of(got, size),
					(int)size * 2, (unsigned long long)bits_of(expected, size));
	return true;
}

static bool is_guarded(struct rig *r, const char *guard, const char *text, const char *where)
{
	for (int i = 0; i < RIG_GUARD; i++)
		if (guard[i] != RIG_GUARD_BYTE)
			return rig_fail(r, "%s: wrote %s what it was given", text, where);
	return true;
}

bool rig_batch_open(struct rig *r, enum bb_dtype dtype, size_t size)
{
	r->dtype = dtype;
	r->size = size;
	r->used = r->nslots = 0;
	return CALL(r, cudaMemsetAsync(r->destination, RIG_GUARD_BYTE, RIG_BYTES, r->lane.stream));
}

bool rig_batch_close(struct rig *r)
{
	if (!rig_get(r, r->got, r->destination, r->used))
		return false;
	for (size_t i = 0; i < r->nslots; i++) {
		const struct rig_slot *const s = &r->slots[i];
		const char *const got = r->got + s->at;

		if (!rig_compare(r, got, r->expected + s->at, s->count, s->text) ||
		    !is_guarded(r, got - RIG_GUARD, s->text, "before") ||
		    !is_guarded(r, got + s->count * r->size, s->text, "behind"))
			return false;
	}
	return true;
}

bool rig_batch_add(struct rig *r, size_t offset, size_t count, char **to, char **expected,
		   const char *format, ...)
{
	const size_t room = (2 * RIG_GUARD + (offset + count) * r->size + 15) & ~(size_t)15;
	struct rig_slot *slot;
	va_list arguments;

	if (r->nslots == MOST_SLOTS || r->used + room > RIG_BYTES)
		if (!rig_batch_close(r) || !rig_batch_open(r, r->dtype, r->size))
			return false;
	slot = &r->slots[r->nslots++];
	slot->at = r->used + RIG_GUARD + offset * r->size;
	slot->count = count;
	r->used += room;
	va_start(arguments, format);
	vsnprintf(slot->text, sizeof(slot->text), format, arguments);
	va_end(arguments);
	*to = r->destination + slot->at;
	*expected = r->expected + slot->at;
	return true;
}

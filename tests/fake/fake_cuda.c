/*
 * Devices, memory, copies and kernels. Memory is the host's, poisoned, and known by its address.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GPUS 8
#define DEVICE_BYTES (1l << 30)
#define POISON 0xdb

struct block {
	struct block *next;
	char *at;
	size_t bytes;
	int device;
	int known;    /* to communicators */
	void *origin; /* what is mapped there; NULL: the memory was allocated as it is */
};

static struct {
	pthread_mutex_t lock;
	struct block *blocks; /* of devices */
	struct block *pinned; /* of the host */
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int device;

int fake_device(void)
{
	return device;
}

long fake_number(const char *name, long otherwise)
{
	const char *const given = getenv(name);

	return given ? atol(given) : otherwise;
}

static int devices(void)
{
	const long n = fake_number("BUSBENCH_FAKE_GPUS", GPUS);

	return n < FAKE_MOST_RANKS ? (int)n : FAKE_MOST_RANKS;
}

/* ---- devices ------------------------------------------------------------------------- */

int fake_gpu(int ordinal)
{
	return (int)fake_number("BUSBENCH_FAKE_FIRST", 0) + ordinal;
}

static int driver_version(void)
{
	return (int)fake_number("BUSBENCH_FAKE_DRIVER", CUDART_VERSION);
}

static atomic_bool loads_eagerly;

bool fake_loads_eagerly(void)
{
	return atomic_load(&loads_eagerly);
}

cudaError_t cudaGetDeviceCount(int *count)
{
	const char *const loading = getenv("CUDA_MODULE_LOADING");

	FAKE_CUDA();
	atomic_store(&loads_eagerly, loading && strcmp(loading, "EAGER") == 0);
	*count = devices();
	if (driver_version() < CUDART_VERSION)
		return cudaErrorInsufficientDriver;
	return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	FAKE_CUDA();
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	FAKE_CUDA();
	*version = driver_version();
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal)
{
	FAKE_CUDA();
	if (ordinal < 0 || ordinal >= devices())
		return cudaErrorInvalidDevice;
	device = ordinal;
	fake_context(ordinal); /* from CUDA 12 on */
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *ordinal)
{
	FAKE_CUDA();
	*ordinal = device;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int ordinal)
{
	const int capability = (int)fake_number("BUSBENCH_FAKE_CAPABILITY", 90);

	FAKE_CUDA();
	*value = attribute == cudaDevAttrMultiProcessorCount           ? 2
		 : attribute == cudaDevAttrMaxThreadsPerMultiProcessor ? 2048
		 : attribute == cudaDevAttrComputeCapabilityMajor      ? capability / 10
								       : capability % 10;
	return cudaSuccess;
}

int fake_card(int gpu)
{
	return gpu / (int)fake_number("BUSBENCH_FAKE_MIG", 1);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int ordinal)
{
	FAKE_CUDA();
	/* Where the stand-in of NVML has them. */
	snprintf(text, (size_t)room, "0000:%02X:00.0", 0x10 + 0x11 * fake_card(fake_gpu(ordinal)));
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int ordinal)
{
	const int capability = (int)fake_number("BUSBENCH_FAKE_CAPABILITY", 90);

	FAKE_CUDA();
	memset(properties, 0, sizeof(*properties));
	snprintf(properties->name, sizeof(properties->name), "Fake GPU");
	properties->major = capability / 10;
	properties->minor = capability % 10;
	properties->multiProcessorCount = 2;
	properties->maxThreadsPerMultiProcessor = 2048;
	properties->l2CacheSize = (int)fake_number("BUSBENCH_FAKE_L2", 0);
	properties->uuid.bytes[15] = (char)(1 + fake_gpu(ordinal));
	return cudaSuccess;
}

/* ---- memory ------------------------------------------------------------------------ */

static struct block **find_in(struct block **link, const void *at)
{
	while (*link &&
	       ((const char *)at < (*link)->at || (const char *)at >= (*link)->at + (*link)->bytes))
		link = &(*link)->next;
	return link;
}

static struct block **find(const void *at)
{
	return find_in(&memory.blocks, at);
}

static bool is_in(struct block **blocks, const void *at)
{
	bool is;

	pthread_mutex_lock(&memory.lock);
	is = *find_in(blocks, at) != NULL;
	pthread_mutex_unlock(&memory.lock);
	return is;
}

static bool is_pinned(const void *at)
{
	return is_in(&memory.pinned, at);
}

static bool is_device(const void *at)
{
	return is_in(&memory.blocks, at);
}

void fake_add_memory(void *at, size_t bytes, void *origin)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		abort();
	*block = (struct block){.at = at, .bytes = bytes, .device = device, .origin = origin};
	fake_made(FAKE_MEMORY);
	pthread_mutex_lock(&memory.lock);
	block->next = memory.blocks;
	memory.blocks = block;
	pthread_mutex_unlock(&memory.lock);
}

void *fake_memory_origin(const void *at, size_t *offset)
{
	const struct block *block;
	void *origin;

	pthread_mutex_lock(&memory.lock);
	block = *find(at);
	origin = block ? block->origin : NULL;
	*offset = block ? (size_t)((const char *)at - block->at) : 0;
	pthread_mutex_unlock(&memory.lock);
	return origin;
}

bool fake_take_memory(void **at, size_t bytes)
{
	bytes = bytes ? bytes : 1;
	*at = fake_alloc(bytes);
	if (!*at)
		return false;
	memset(*at, POISON, bytes);
	fake_add_memory(*at, bytes, NULL);
	return true;
}

size_t fake_remove_memory(void *at)
{
	struct block **link, *block;
	size_t bytes;
	int known = 0;

	fake_settle(); /* as CUDA does */
	pthread_mutex_lock(&memory.lock);
	link = find(at);
	block = *link;
	if (block && block->at == at) {
		*link = block->next;
		known = block->known;
	}
	pthread_mutex_unlock(&memory.lock);
	/* After a failure communicators are not asked any more. */
	if (known > 0 && !fake_is_failing())
		fake_misused("memory is let go that %d communicators know", known);
	if (!block || block->at != at)
		return 0;
	bytes = block->bytes;
	free(block);
	fake_let_go(FAKE_MEMORY);
	return bytes;
}

bool fake_give_memory(void *at)
{
	const size_t bytes = fake_remove_memory(at);

	if (bytes > 0)
		fake_free(at, bytes);
	return bytes > 0;
}

static void forget(struct block **blocks, bool pinned)
{
	while (*blocks) {
		struct block *block = *blocks;

		*blocks = block->next;
		if (pinned)
			free(block->at);
		else
			fake_free(block->at, block->bytes);
		free(block);
		fake_let_go(FAKE_MEMORY);
	}
}

void fake_forget_memory(void)
{
	fake_settle_ended();
	pthread_mutex_lock(&memory.lock);
	forget(&memory.blocks, false);
	forget(&memory.pinned, true);
	pthread_mutex_unlock(&memory.lock);
}

void fake_known(const void *at, int change)
{
	struct block *block;

	pthread_mutex_lock(&memory.lock);
	block = *find(at);
	if (block)
		block->known += change;
	else if (!fake_is_failing())
		fake_misused("memory is made known, or forgotten, that is not there");
	pthread_mutex_unlock(&memory.lock);
}

cudaError_t cudaMalloc(void **at, size_t bytes)
{
	FAKE_CUDA();
	return fake_take_memory(at, bytes) ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* As with streams, gone even where the call is to fail. */
cudaError_t cudaFree(void *at)
{
	const bool fails = fake_enter(__func__), known = fake_give_memory(at);

	return fails ? cudaErrorUnknown : known ? cudaSuccess : cudaErrorInvalidValue;
}

/* Pinned: any memory of the host will do. */
cudaError_t cudaMallocHost(void **at, size_t bytes)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		abort();
	if (fake_enter(__func__)) {
		free(block);
		return cudaErrorUnknown;
	}
	block->bytes = (bytes + FAKE_ALIGNMENT - 1) & ~(FAKE_ALIGNMENT - 1);
	*at = block->at = aligned_alloc(FAKE_ALIGNMENT, block->bytes);
	if (!block->at) {
		free(block);
		return cudaErrorMemoryAllocation;
	}
	fake_made(FAKE_MEMORY);
	pthread_mutex_lock(&memory.lock);
	block->next = memory.pinned;
	memory.pinned = block;
	pthread_mutex_unlock(&memory.lock);
	return cudaSuccess;
}

cudaError_t cudaFreeHost(void *at)
{
	const bool fails = fake_enter(__func__);
	struct block **link, *block;

	pthread_mutex_lock(&memory.lock);
	link = find_in(&memory.pinned, at);
	block = *link;
	if (block)
		*link = block->next;
	pthread_mutex_unlock(&memory.lock);
	if (block)
		fake_let_go(FAKE_MEMORY);
	if (block)
		free(block->at);
	free(block);
	return fails ? cudaErrorUnknown : block || !at ? cudaSuccess : cudaErrorInvalidValue;
}

/* BUSBENCH_FAKE_PINS=0: as where the user may not lock as much memory. */
cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
	FAKE_CUDA();
	if (fake_number("BUSBENCH_FAKE_PINS", 1) == 0)
		return cudaErrorMemoryAllocation;
	fake_made(FAKE_REGISTRATION);
	return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *at)
{
	const bool fails = fake_enter(__func__);

	fake_let_go(FAKE_REGISTRATION);
	return fails ? cudaErrorUnknown : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
	FAKE_CUDA();
	*left = *total = (size_t)fake_number("BUSBENCH_FAKE_BYTES", DEVICE_BYTES);
	pthread_mutex_lock(&memory.lock);
	for (const struct block *b = memory.blocks; b; b = b->next)
		if (b->device == device)
			*left -= b->bytes < *left ? b->bytes : *left;
	pthread_mutex_unlock(&memory.lock);
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *at)
{
	FAKE_CUDA();
	memset(attributes, 0, sizeof(*attributes));
	attributes->type = is_device(at)   ? cudaMemoryTypeDevice
			   : is_pinned(at) ? cudaMemoryTypeHost
					   : cudaMemoryTypeUnregistered;
	return cudaSuccess;
}

/* ---- peers --------------------------------------------------------------------------- */

cudaError_t cudaDeviceCanAccessPeer(int *can, int from, int to)
{
	FAKE_CUDA();
	*can = from != to && fake_number("BUSBENCH_FAKE_PEERS", 1) != 0;
	return cudaSuccess;
}

/* Nobody remembers it: it is as if it had been so always. */
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	FAKE_CUDA();
	return fake_number("BUSBENCH_FAKE_PEERS", 1) != 0 ? cudaErrorPeerAccessAlreadyEnabled
							  : cudaErrorPeerAccessUnsupported;
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

/* A process sees its own GPUs, and if FAKE_FIRST is 0 all. */
cudaError_t cudaDeviceGetByPCIBusId(int *ordinal, const char *text)
{
	char bus[16];

	FAKE_CUDA();
	for (int i = 0; i < FAKE_MOST_RANKS; i++) {
		snprintf(bus, sizeof(bus), "0000:%02X:00.0", 0x10 + 0x11 * fake_card(fake_gpu(i)));
		*ordinal = i;
		if (strcmp(bus, text) == 0)
			return cudaSuccess;
	}
	return cudaErrorInvalidDevice;
}

/* In another process memory is at the same place. */
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *at)
{
	FAKE_CUDA();
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &at, sizeof(at));
	return is_device(at) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaIpcOpenMemHandle(void **at, cudaIpcMemHandle_t handle, unsigned flags)
{
	FAKE_CUDA();
	memcpy(at, &handle, sizeof(*at));
	fake_made(FAKE_REGISTRATION);
	return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *at)
{
	const bool fails = fake_enter(__func__);

	fake_let_go(FAKE_REGISTRATION);
	return fails ? cudaErrorUnknown : cudaSuccess;
}

/* ---- copies ------------------------------------------------------------------------ */

struct copy {
	void *dst;
	const void *src;
	size_t bytes;
	void *snapshot; /* of host memory, which the caller may change at once */
};

static cudaError_t do_copy(void *payload)
{
	const struct copy *c = payload;
	const struct timespec t = {.tv_nsec = fake_number("BUSBENCH_FAKE_COPY_US", 0) * 1000};

	if (t.tv_nsec > 0)
		nanosleep(&t, NULL); /* a copy that nobody waits for is late then */
	memmove(c->dst, c->snapshot ? c->snapshot : c->src, c->bytes);
	return cudaSuccess;
}

static void drop_copy(void *payload)
{
	free(((struct copy *)payload)->snapshot);
}

cudaError_t fake_copy(void *dst, const void *src, size_t bytes, cudaStream_t stream)
{
	struct copy c = {.dst = dst, .src = src, .bytes = bytes};

	if (bytes == 0)
		return cudaSuccess;
	return fake_issue(stream, &(struct fake_task){.run = do_copy,
						      .drop = drop_copy,
						      .bytes = sizeof(c),
						      .payload = &c});
}

/* As CUDA does with pageable memory of the host: all work before it is waited for, it is read at
   once, or written on return. */
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	struct copy c = {.dst = dst, .src = src, .bytes = bytes};
	const bool from_host = !is_device(src), to_host = !is_device(dst);
	cudaError_t error;

	FAKE_CUDA();
	if ((from_host || to_host) && fake_is_capturing(stream))
		return cudaErrorStreamCaptureUnsupported;
	if (bytes == 0)
		return cudaSuccess;
	if (from_host) {
		fake_drain(stream);
		c.snapshot = malloc(bytes);
		if (!c.snapshot)
			abort();
		memcpy(c.snapshot, src, bytes);
	}
	error = fake_issue(stream, &(struct fake_task){.run = do_copy,
						       .drop = drop_copy,
						       .bytes = sizeof(c),
						       .payload = &c});
	return error == cudaSuccess && to_host ? fake_drain(stream) : error;
}

struct set {
	void *dst;
	int value;
	size_t bytes;
};

static cudaError_t do_set(void *payload)
{
	const struct set *s = payload;

	memset(s->dst, s->value, s->bytes);
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
	const struct set s = {dst, value, bytes};

	FAKE_CUDA();
	return fake_issue(stream,
			  &(struct fake_task){.run = do_set, .bytes = sizeof(s), .payload = &s});
}

/* ---- kernels ----------------------------------------------------------------------- */

struct launch {
	fake_grid *run;
	const void *kernel;
	unsigned blocks, threads;
	_Alignas(16) char argument[256];
};

static cudaError_t do_launch(void *payload)
{
	const struct launch *l = payload;

	l->run(l->kernel, l->argument, l->blocks, l->threads);
	return cudaSuccess;
}

cudaError_t fake_launch(fake_grid *run, const void *kernel, const void *argument, size_t bytes,
			dim3 grid, dim3 block, cudaStream_t stream)
{
	struct launch l = {.run = run, .kernel = kernel, .blocks = grid.x, .threads = block.x};

	if (fake_enter("cudaLaunchKernel"))
		return cudaErrorUnknown;
	if (bytes > sizeof(l.argument))
		abort();
	memcpy(l.argument, argument, bytes);
	return fake_issue(stream,
			  &(struct fake_task){.run = do_launch, .bytes = sizeof(l), .payload = &l});
}

struct host_call {
	void (*function)(void *argument);
	void *argument;
};

static cudaError_t do_host_call(void *payload)
{
	const struct host_call *h = payload;

	h->function(h->argument);
	return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
	const struct host_call h = {function, argument};

	FAKE_CUDA();
	return fake_issue(stream, &(struct fake_task){
					  .run = do_host_call, .bytes = sizeof(h), .payload = &h});
}

#include "backends/cpu/memory.h"
#include "core/random.h"
#include "core/scalar.h"

#include <numa.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_PAGE ((size_t)4096)

static size_t mapped_bytes(size_t bytes)
{
	size_t page = bytes >= HUGE_PAGE ? HUGE_PAGE : SMALL_PAGE;

	return ((bytes ? bytes : 1) + page - 1) & ~(page - 1);
}

bb_status bb_cpu_alloc(struct bb_rank *rank, size_t bytes, void **memory)
{
	const size_t size = mapped_bytes(bytes);
	const size_t slack = size >= HUGE_PAGE ? HUGE_PAGE : 0;
	char *p = mmap(NULL, size + slack, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return BB_EINTERNAL;
	size_t head = slack ? (HUGE_PAGE - ((uintptr_t)p & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1) : 0;
	if (head)
		munmap(p, head);
	if (slack > head)
		munmap(p + head + size, slack - head);
	p += head;
	if (slack)
		madvise(p, size, MADV_HUGEPAGE); /* optional: small pages work as well */
	for (size_t at = 0; at < size; at += SMALL_PAGE)
		((volatile char *)p)[at] = 0;
	*memory = p;
	return BB_OK;
}

void bb_cpu_release(struct bb_rank *rank, void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, mapped_bytes(bytes));
}

/* The piece of the table that holds elements FIRST …; *LENGTH of them, at most COUNT. */
static const char *piece(const struct bb_pattern *pattern, size_t first, size_t count,
			 size_t *length)
{
	const size_t offset = first % pattern->period;
	const size_t start =
		offset + bb_pattern_rotation(pattern, (uint64_t)(first / pattern->period));
	const size_t left = pattern->period - offset;

	*length = left < count ? left : count;
	return (const char *)pattern->table + start * pattern->element_size;
}

bb_status bb_cpu_fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
		      size_t first, size_t count)
{
	char *to = dst;
	size_t length;

	for (; count > 0; first += length, count -= length) {
		const char *const from = piece(pattern, first, count, &length);

		memcpy(to, from, length * pattern->element_size);
		to += length * pattern->element_size;
	}
	return BB_OK;
}

static uint64_t count_wrong(const char *got, const char *expected, size_t count, size_t size,
			    enum bb_dtype dtype, int ulps)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < count; i++, got += size, expected += size) {
		if (memcmp(got, expected, size) != 0)
			wrong += bb_scalar_ulps(dtype, got, expected) > (uint64_t)ulps;
	}
	return wrong;
}

bb_status bb_cpu_verify(struct bb_rank *rank, const void *got, const struct bb_pattern *pattern,
			size_t first, size_t count, enum bb_dtype dtype, int ulps, uint64_t *wrong)
{
	const size_t size = pattern->element_size;
	const char *at = got;
	size_t length;

	for (; count > 0; first += length, count -= length, at += length * size) {
		const char *const expected = piece(pattern, first, count, &length);

		if (memcmp(at, expected, length * size) != 0)
			*wrong += count_wrong(at, expected, length, size, dtype, ulps);
	}
	return BB_OK;
}

#define PROBED_PAGES 64                /* of an allocation, whose node is checked */
#define BLOCK_BYTES ((size_t)32 << 10) /* the source of all writes, which stays in the caches */

/* ---- where ------------------------------------------------------------------------------- */

static const struct bb_host *host_of(const struct bb_context *context)
{
	return &((const struct bb_cpu_context *)context)->machine->host;
}

/* Nodes that have memory; without NUMA there is one. */
static int space_count(struct bb_context *context)
{
	const int n = host_of(context)->nnumas;

	return n > 0 ? n : 1;
}

static void space_name(struct bb_context *context, int space, char name[BB_SPACE_TEXT])
{
	const struct bb_host *host = host_of(context);

	snprintf(name, BB_SPACE_TEXT, "node %d", host->nnumas > 0 ? host->numas[space].os : 0);
}

static bool is_on(const char *memory, size_t bytes, int node)
{
	const size_t pages = (bytes + SMALL_PAGE - 1) / SMALL_PAGE;
	const size_t step = pages > PROBED_PAGES ? pages / PROBED_PAGES : 1;

	for (size_t page = 0; page < pages; page += step) {
		void *at = (char *)memory + page * SMALL_PAGE;
		int found = -1;

		if (numa_move_pages(0, 1, &at, NULL, &found, 0) == 0 && found >= 0 && found != node)
			return false;
	}
	return true;
}

static bb_status space_alloc(struct bb_rank *rank, int space, size_t bytes, void **memory,
			     struct bb_error *error)
{
	const struct bb_host *host = &bb_cpu_of(rank)->machine->host;

	if (host->nnumas <= 1 || numa_available() < 0) /* there is only one node */
		return bb_cpu_alloc(rank, bytes, memory);
	const int node = host->numas[space].os;
	struct bitmask *const nodes = numa_allocate_nodemask();
	if (!nodes)
		return BB_EINTERNAL;
	numa_bitmask_setbit(nodes, (unsigned)node);
	numa_set_membind(nodes);
	const bb_status status = bb_cpu_alloc(rank, bytes, memory);
	numa_set_localalloc();
	numa_bitmask_free(nodes);
	if (status != BB_OK || is_on(*memory, bytes, node))
		return status;
	bb_cpu_release(rank, *memory, bytes);
	return bb_fail(error, BB_EBACKEND, "the system does not put memory on NUMA node %d", node);
}

static void space_release(struct bb_rank *rank, int space, void *memory, size_t bytes)
{
	bb_cpu_release(rank, memory, bytes);
}

/* ---- bandwidth --------------------------------------------------------------------------- */

/* A vector for which every CPU of the target has a register. Wider ones become several, whose sums
   are spilled in each iteration; that halved the bandwidth. */
typedef uint64_t words __attribute__((vector_size(16), may_alias));

/* The sum keeps the compiler from removing the loads. The hardware prefetches better than
   software. */
static void read_all(const void *a, size_t bytes)
{
	const words *const from = a, *const end = from + bytes / sizeof(words) / 4 * 4;
	words first = {0}, second = {0}, third = {0}, fourth = {0};

	for (const words *at = from; at < end; at += 4) {
		first ^= at[0];
		second ^= at[1];
		third ^= at[2];
		fourth ^= at[3];
	}
	first ^= second ^ third ^ fourth;
	__asm__ volatile("" : : "r"(first[0] ^ first[1]));
}

static bb_status space_work(struct bb_rank *rank, struct bb_queue *queue, enum bb_memory_work what,
			    void *a, const void *b, const void *c, size_t bytes)
{
	static const _Alignas(64) char block[BLOCK_BYTES] = {[0 ... BLOCK_BYTES - 1] = 1};
	static const uint8_t weight[] = {1, 2}; /* a = b + 2 c */
	const struct bb_reduce_args args = {.stream = true, .weight = weight};
	const struct bb_kernels *kernels = bb_cpu_of(rank)->kernels;
	const void *const sources[] = {b, c};

	if (queue || what == BB_WORK_KERNEL_COPY)
		return BB_EUNSUPPORTED;
	switch (what) {
	case BB_WORK_READ:
		read_all(a, bytes);
		break;
	case BB_WORK_WRITE:
		for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
			void *to = (char *)a + at;
			const size_t left = bytes - at;

			kernels->copy(&to, 1, block, left < BLOCK_BYTES ? left : BLOCK_BYTES, true);
		}
		break;
	case BB_WORK_COPY:
		kernels->copy(&a, 1, b, bytes, true);
		break;
	default:
		kernels->reduce[BB_DOUBLE][BB_MULSUM](&a, 1, sources, 2, bytes / sizeof(double),
						      &args);
	}
	return BB_OK;
}

/* ---- latency ----------------------------------------------------------------------------- */

struct stop {
	struct stop *next;
	char rest[BB_CHASE_STRIDE - sizeof(void *)];
};

/*
 * One cycle through all stops in an order that no prefetcher can predict: Sattolo's shuffle, in
 * place.
 */
void bb_cpu_chase_lay(void *memory, void *at, size_t bytes, uint64_t seed)
{
	struct stop *const stops = memory, *const there = at;
	const size_t n = bytes / sizeof(*stops);

	for (size_t i = 0; i < n; i++)
		stops[i].next = &there[i];
	for (size_t i = n; i-- > 1;) {
		struct stop *const kept = stops[i].next;
		const size_t j = (size_t)(bb_random_next(&seed) % i);

		stops[i].next = stops[j].next;
		stops[j].next = kept;
	}
}

static bb_status space_chase_lay(struct bb_rank *rank, void *memory, size_t bytes, uint64_t seed)
{
	bb_cpu_chase_lay(memory, memory, bytes, seed);
	return BB_OK;
}

static bb_status space_chase(struct bb_rank *rank, void *memory, size_t hops)
{
	const struct stop *at = memory;

	while (hops-- > 0)
		at = at->next;
	__asm__ volatile("" : : "r"(at));
	return BB_OK;
}

const struct bb_spaces bb_cpu_spaces = {
	.count = space_count,
	.name = space_name,
	.alloc = space_alloc,
	.release = space_release,
	.work = space_work,
	.chase_lay = space_chase_lay,
	.chase = space_chase,
};

#include "backends/cpu/memory.h"
#include "core/scalar.h"

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
	size_t head;

	if (p == MAP_FAILED)
		return BB_EINTERNAL;
	head = slack ? (HUGE_PAGE - ((uintptr_t)p & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1) : 0;
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

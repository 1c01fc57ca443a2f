#include "backends/cpu/memory.h"
#include "core/scalar.h"

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

void bb_cpu_locate(const struct bb_machine *machine, int core, const char *unbound,
		   struct bb_location *location)
{
	const struct bb_core c = bb_machine_core(machine, core);

	bb_location_here(location);
	location->device = c.pu;
	location->numa = c.numa;
	snprintf(location->bus, sizeof(location->bus), "%04x:%02x:%02x", c.package & 0xffff,
		 c.numa & 0xff, c.pu & 0xff);
	snprintf(location->name, sizeof(location->name), "%s%s", bb_machine_cpu(machine), unbound);
}

bb_status bb_cpu_alloc(size_t bytes, void **memory)
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
		madvise(p, size, MADV_HUGEPAGE); /* a wish: small pages work as well */
	for (size_t at = 0; at < size; at += SMALL_PAGE)
		((volatile char *)p)[at] = 0;
	*memory = p;
	return BB_OK;
}

void bb_cpu_release(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, mapped_bytes(bytes));
}

/*
 * Non-temporal stores save reading what is overwritten, but send it to memory. They pay once the
 * buffers of a core exceed its L2 by far and those of all ranks a good part of the L3; ranks that
 * share cores leave more of each other's data there.
 */
#define STREAM_L2S 4
#define STREAM_L3_PART 5
#define CROWDED_STREAM_L3_PART 4

bool bb_cpu_streams(const struct bb_machine *machine, size_t bytes, int n, int cores, bool crowded)
{
	const size_t total = bytes * (size_t)n;
	const size_t part = crowded ? CROWDED_STREAM_L3_PART : STREAM_L3_PART;

	return total / (size_t)(n < cores ? n : cores) >= STREAM_L2S * bb_machine_l2(machine) &&
	       total >= bb_machine_l3(machine) / part;
}

/* The longest piece of the table that holds elements FIRST …, at most COUNT of them. */
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

void bb_cpu_fill(void *dst, const struct bb_pattern *pattern, size_t first, size_t count)
{
	char *to = dst;
	size_t length;

	for (; count > 0; first += length, count -= length) {
		const char *const from = piece(pattern, first, count, &length);

		memcpy(to, from, length * pattern->element_size);
		to += length * pattern->element_size;
	}
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

uint64_t bb_cpu_verify(const void *got, const struct bb_pattern *pattern, size_t first,
		       size_t count, enum bb_dtype dtype, int ulps)
{
	const size_t size = pattern->element_size;
	const char *at = got;
	uint64_t wrong = 0;
	size_t length;

	for (; count > 0; first += length, count -= length, at += length * size) {
		const char *const expected = piece(pattern, first, count, &length);

		if (memcmp(at, expected, length * size) != 0)
			wrong += count_wrong(at, expected, length, size, dtype, ulps);
	}
	return wrong;
}

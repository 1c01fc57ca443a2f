#include "backends/cpu/memory.h"
#include "core/scalar.h"

#include <string.h>

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

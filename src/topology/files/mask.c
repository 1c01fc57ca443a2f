/*
 * mask.c - sets of processors and NUMA nodes in comma-separated hexadecimal words of 32 bits, the
 * highest first. hwloc's own reader ends the process on some malformed ones.
 */
#include "topology/files/formats.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 2048 /* 65536 processors */
#define ULONG_BITS (8 * sizeof(unsigned long))

hwloc_bitmap_t bb_read_mask(const char *mask)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	int words = 1;

	for (const char *c = mask; *c && words <= WORDS; c++)
		words += *c == ',';
	while (set && words-- > 0 && words < WORDS) {
		/* An empty word is 0. */
		const char *const at = mask + (strncmp(mask, "0x", 2) == 0 ? 2 : 0);
		const size_t digits = strspn(at, "0123456789abcdefABCDEF");
		const unsigned long word = digits > 0 ? strtoul(at, NULL, 16) : 0;

		if (digits > 8 || (at[digits] != ',' && at[digits] != '\0'))
			break;
		for (unsigned bit = 0; bit < 32; bit++)
			if (word >> bit & 1)
				hwloc_bitmap_set(set, 32 * (unsigned)words + bit);
		mask = at + digits + (at[digits] == ',');
	}
	if (set && (words >= 0 || hwloc_bitmap_iszero(set))) {
		hwloc_bitmap_free(set);
		set = NULL;
	}
	return set;
}

char *bb_cpu_list(const char *mask)
{
	hwloc_bitmap_t set = bb_read_mask(mask);
	char *list = NULL;

	if (set && hwloc_bitmap_list_asprintf(&list, set) < 0)
		list = NULL;
	hwloc_bitmap_free(set);
	return list;
}

char *bb_cpu_mask(const char *list)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();
	struct bb_strbuf mask = {0};

	if (set && hwloc_bitmap_list_sscanf(set, list) == 0)
		for (int i = hwloc_bitmap_last(set) / 32; i >= 0; i--) {
			const unsigned long pair =
				hwloc_bitmap_to_ith_ulong(set, (unsigned)i * 32 / ULONG_BITS);

			bb_strbuf_addf(&mask, "%s%08lx", mask.length > 0 ? "," : "",
				       pair >> (unsigned)i * 32 % ULONG_BITS & 0xffffffff);
		}
	hwloc_bitmap_free(set);
	return mask.text;
}

/*
 * mask.c - sets of processors and NUMA nodes in comma-separated hexadecimal words of 32 bits, the
 * highest first. hwloc's own reader ends the process on some malformed ones.
 */
#include "topology/files/formats.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 2048 /* 65536 processors */
#define ULONG_BITS (8 * sizeof(unsigned long))

/* Read a word up to the next comma or the end; an empty one is 0. */
static bool read_word(const char **text, uint32_t *word)
{
	const char *at = *text;
	int digits = 0;

	if (strncmp(at, "0x", 2) == 0)
		at += 2;
	for (*word = 0; isxdigit((unsigned char)*at); at++) {
		int digit = isdigit((unsigned char)*at) ? *at - '0' : tolower(*at) - 'a' + 10;

		if (++digits > 8)
			return false;
		*word = *word << 4 | (uint32_t)digit;
	}
	*text = at;
	return *at == ',' || *at == '\0';
}

static int count_words(const char *text)
{
	int words = 1;

	for (; *text && words <= WORDS; text++)
		words += *text == ',';
	return words;
}

hwloc_bitmap_t bb_read_mask(const char *mask)
{
	int words = count_words(mask);
	hwloc_bitmap_t set = words <= WORDS ? hwloc_bitmap_alloc() : NULL;

	while (set && words-- > 0) {
		uint32_t word;

		if (!read_word(&mask, &word)) {
			hwloc_bitmap_free(set);
			return NULL;
		}
		for (int bit = 0; bit < 32; bit++)
			if (word >> bit & 1)
				hwloc_bitmap_set(set, (unsigned)(32 * words + bit));
		mask += *mask == ',';
	}
	if (set && hwloc_bitmap_iszero(set)) {
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

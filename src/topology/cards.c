/*
 * cards.c - GPUs by name. Product names are those that drivers report (nvidia-smi -L, the devices
 * that nccl-tests lists) and those of reports/reference/reference_busbw.csv.
 */
#include "topology/cards.h"

#include "core/option.h"
#include "topology/systems.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAMES(...)                                                                                 \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* Peaks by NVIDIA's and AMD's data sheets. */
static const struct bb_card cards[] = {
	{"V100", 16, 16, 125, NAMES("V100-SXM2-16GB", "V100-SXM2-32GB", "V100-SXM3-32GB")},
	{"V100 PCIe", 0, 0, 0, NAMES("V100-PCIE-16GB", "V100-PCIE-32GB", "V100S-PCIE-32GB")},
	{"T4", 0, 0, 0, NULL},
	{"RTX 2080 Ti", 0, 0, 0, NULL},
	{"A100", 8, 8, 312,
	 NAMES("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-SXM-80GB", "A100-SXM-64GB", "A100-40",
	       "A100-80")},
	{"A100 PCIe", 0, 0, 0, NAMES("A100-PCIE-40GB", "A100-PCIE-80GB", "A100 80GB PCIe")},
	{"A800", 8, 8, 0, NAMES("A800-SXM4-40GB", "A800-SXM4-80GB")},
	{"A30", 0, 0, 0, NULL},
	{"A40", 0, 0, 0, NULL},
	{"A10", 0, 0, 0, NAMES("A10G")},
	{"RTX A6000", 0, 0, 0, NAMES("A6000")},
	{"RTX 3090", 0, 0, 0, NULL},
	{"H100", 8, 8, 989, NAMES("H100 80GB HBM3", "H100 SXM5", "H100 SXM")},
	{"H100 PCIe", 0, 0, 756, NULL},
	{"H100 NVL", 0, 0, 0, NULL},
	{"H800", 8, 8, 0, NAMES("H800 SXM5", "H800 SXM")},
	{"H20", 8, 8, 0, NAMES("H20-3e", "H20 SXM5 141GB")},
	{"H200", 8, 8, 989, NAMES("H200 SXM5", "H200 SXM")},
	{"H200 NVL", 0, 0, 0, NULL},
	{"GH200", 4, 4, 989, NAMES("GH200 120GB", "GH200 480GB", "GH200 144G HBM3e")},
	{"B200", 8, 8, 2250, NULL},
	{"GB200", 4, 72, 2450, NULL},
	{"GB300", 4, 72, 0, NULL},
	{"B300", 8, 8, 0, NAMES("B300 SXM6 AC")},
	{"GB10", 1, 0, 0, NULL},
	{"L4", 0, 0, 0, NULL},
	{"L20", 0, 0, 0, NULL},
	{"L40", 0, 0, 0, NULL},
	{"L40S", 0, 0, 0, NULL},
	{"RTX 6000 Ada", 0, 0, 0, NAMES("RTX 6000 Ada Generation")},
	{"RTX 4090", 0, 0, 0, NULL},
	{"RTX 5090", 0, 0, 0, NULL},
	{"RTX 6000D", 0, 0, 0, NAMES("RTX PRO 6000D", "RTX PRO 6000D Blackwell Server Edition")},
	{"RTX PRO 6000", 0, 0, 0,
	 NAMES("RTX PRO 6000 Blackwell Server Edition",
	       "RTX PRO 6000 Blackwell Workstation Edition",
	       "RTX PRO 6000 Blackwell Max-Q Workstation Edition")},
	{"MI250X", 8, 8, 0, NULL},
	{"MI300X", 8, 8, 1307, NAMES("MI300X OAM", "MI300X VF")},
	{"MI308X", 8, 8, 0, NAMES("MI308X OAM")},
	{"MI325X", 8, 8, 0, NAMES("MI325X OAM")},
	{"MI350X", 8, 8, 0, NULL},
	{"MI355X", 8, 8, 0, NULL},
};

#define CARDS (int)(sizeof(cards) / sizeof(cards[0]))

const struct bb_card *bb_card_at(int i)
{
	return i >= 0 && i < CARDS ? &cards[i] : NULL;
}

#define SEPARATORS " -_" /* of words of a name */

/* NAME without vendor and brand. */
static const char *product_of(const char *name)
{
	static const char *const brands[] = {"NVIDIA ", "AMD ", "Tesla ", "GeForce ", "Instinct "};

	for (size_t i = 0; i < sizeof(brands) / sizeof(brands[0]); i++)
		if (strncasecmp(name, brands[i], strlen(brands[i])) == 0)
			name += strlen(brands[i]);
	return name;
}

static bool same_name(const char *a, const char *b)
{
	while (*a && *b &&
	       (strncasecmp(a, b, 1) == 0 || (strchr(SEPARATORS, *a) && strchr(SEPARATORS, *b)))) {
		a++;
		b++;
	}
	return !*a && !*b;
}

/* The K-th name of CARD; NULL beyond the last. */
static const char *card_name(const struct bb_card *card, int k)
{
	return k == 0 ? card->name : card->also ? card->also[k - 1] : NULL;
}

const struct bb_card *bb_card_find(const char *name)
{
	const struct bb_system *const system = bb_system_find(name);
	const char *product = system && system->gpu ? system->gpu->card : product_of(name);

	for (int i = 0; bb_system_at(i); i++)
		if (bb_system_at(i)->gpu && same_name(bb_system_at(i)->gpu->model, product))
			product = bb_system_at(i)->gpu->card;
	for (int i = 0; i < CARDS; i++)
		for (int k = 0; card_name(&cards[i], k); k++)
			if (same_name(card_name(&cards[i], k), product))
				return &cards[i];
	return NULL;
}

const char *bb_card_system(const struct bb_card *card, int i)
{
	for (int s = 0; bb_system_at(s); s++)
		if (bb_system_at(s)->gpu && strcmp(bb_system_at(s)->gpu->card, card->name) == 0 &&
		    i-- == 0)
			return bb_system_at(s)->name;
	return NULL;
}

/* ---- suggestions ---------------------------------------------------------------------------- */

#define KEY 64

/* Write the words of NAME without a digit into WORDS, a space after each, and those with one into
   NUMBERS, in lower case: "rtx pro " and "6000d". Returns the number of WORDS. */
static int split_name(const char *name, char words[KEY], char numbers[KEY])
{
	size_t nwords = 0, nnumbers = 0;
	int n = 0;

	while (*name) {
		const size_t length = strcspn(name, SEPARATORS);
		const bool number = strcspn(name, "0123456789") < length;

		for (size_t i = 0; i < length; i++) {
			const char c = (char)tolower((unsigned char)name[i]);

			if (number && nnumbers < KEY - 1)
				numbers[nnumbers++] = c;
			else if (!number && nwords < KEY - 2)
				words[nwords++] = c;
		}
		if (!number && length > 0) {
			words[nwords++] = ' ';
			n++;
		}
		nwords = nwords < KEY - 2 ? nwords : KEY - 2;
		name += length + (name[length] != '\0');
	}
	words[nwords] = numbers[nnumbers] = '\0';
	return n;
}

static bool is_misspelt(const char *name, const char *product)
{
	char words[KEY], numbers[KEY], its_words[KEY], its_numbers[KEY], joined[2 * KEY];
	const char *only[] = {its_words, NULL};
	const int n = split_name(name, words, numbers);
	const int its_n = split_name(product, its_words, its_numbers);

	/* One word more is another product: "RTX 4090 D", "H800 PCIe". */
	if (strcmp(numbers, its_numbers) == 0 && n == its_n)
		return bb_nearest(words, only);
	/* A space is missing: "RTX4090". */
	its_words[strcspn(its_words, " ")] = '\0';
	snprintf(joined, sizeof(joined), "%s%s", its_words, its_numbers);
	return !words[0] && strcmp(numbers, joined) == 0;
}

const char *bb_card_suggest(const char *name)
{
	const char *const product = product_of(name);

	for (int i = 0; i < CARDS; i++)
		for (int k = 0; card_name(&cards[i], k); k++)
			if (is_misspelt(product, card_name(&cards[i], k)))
				return card_name(&cards[i], k);
	return NULL;
}

/*
 * cards.c - GPUs by name. Product names are those that drivers report (nvidia-smi -L, the devices
 * that nccl-tests lists) and those of reports/reference/reference_busbw.csv.
 */
#include "topology/cards.h"

#include "topology/systems.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define NAMES(...)                                                                                 \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

static const struct bb_card cards[] = {
	{"V100", 16, 16, NAMES("V100-SXM2-16GB", "V100-SXM2-32GB", "V100-SXM3-32GB")},
	{"A100", 8, 8,
	 NAMES("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-SXM-80GB", "A100-40", "A100-80")},
	{"H100", 8, 8, NAMES("H100 80GB HBM3")},
	{"H100 PCIe", 0, 0, NULL},
	{"H200", 8, 8, NULL},
	{"GH200", 4, 4, NAMES("GH200 120GB", "GH200 480GB")},
	{"B200", 8, 8, NULL},
	{"GB200", 4, 72, NULL},
	{"GB300", 4, 72, NULL},
	{"B300", 8, 8, NAMES("B300 SXM6 AC")},
	{"L40S", 0, 0, NULL},
	{"RTX 4090", 0, 0, NULL},
	{"RTX 5090", 0, 0, NULL},
	{"RTX PRO 6000", 0, 0,
	 NAMES("RTX PRO 6000 Blackwell Server Edition",
	       "RTX PRO 6000 Blackwell Workstation Edition",
	       "RTX PRO 6000 Blackwell Max-Q Workstation Edition")},
	{"MI300X", 8, 8, NAMES("MI300X OAM", "MI300X VF")},
	{"MI350X", 8, 8, NULL},
};

#define CARDS (int)(sizeof(cards) / sizeof(cards[0]))

const struct bb_card *bb_card_at(int i)
{
	return i >= 0 && i < CARDS ? &cards[i] : NULL;
}

/* NAME without vendor and brand. */
static const char *product_of(const char *name)
{
	static const char *const brands[] = {"NVIDIA ", "AMD ", "Tesla ", "GeForce ", "Instinct "};

	for (size_t i = 0; i < sizeof(brands) / sizeof(brands[0]); i++)
		if (strncasecmp(name, brands[i], strlen(brands[i])) == 0)
			name += strlen(brands[i]);
	return name;
}

static bool is_separator(char c)
{
	return c == ' ' || c == '-' || c == '_';
}

static bool same_name(const char *a, const char *b)
{
	while (*a && *b && (strncasecmp(a, b, 1) == 0 || (is_separator(*a) && is_separator(*b)))) {
		a++;
		b++;
	}
	return !*a && !*b;
}

static bool is_called(const struct bb_card *card, const char *product)
{
	bool found = same_name(card->name, product);

	for (int i = 0; card->also && card->also[i] && !found; i++)
		found = same_name(card->also[i], product);
	return found;
}

const struct bb_card *bb_card_find(const char *name)
{
	const struct bb_system *const system = bb_system_find(name);
	const char *product = system && system->gpu ? system->gpu->card : product_of(name);

	for (int i = 0; bb_system_at(i); i++)
		if (bb_system_at(i)->gpu && same_name(bb_system_at(i)->gpu->model, product))
			product = bb_system_at(i)->gpu->card;
	for (int i = 0; i < CARDS; i++)
		if (is_called(&cards[i], product))
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

#include "models/memory/capacity.h"

#include <stdio.h>
#include <string.h>

/* Total memory in nvidia-smi, as public logs of 2023 to 2026 show it; of the cards of one nominal
   size the most usual in training first. Cards whose driver reports the nominal size, such as A100
   and MI300X, are left out. */
static const struct {
	const char *card; /* as in topology/cards.c */
	unsigned gib, mib;
} cards[] = {
	{"V100", 16, 16160},      {"T4", 16, 15360},           {"V100", 32, 32510},
	{"V100 PCIe", 32, 32510}, {"RTX 5090", 32, 32607},     {"H100", 80, 81559},
	{"H100 PCIe", 80, 81559}, {"H800", 80, 81559},         {"H100 NVL", 94, 95830},
	{"H20", 96, 97871},       {"GH200", 96, 97871},        {"RTX PRO 6000", 96, 97887},
	{"H200", 141, 143771},    {"H200 NVL", 141, 143771},   {"B200", 180, 183359},
	{"GB200", 186, 189471},   {"B300", 268, 275040},       {"RTX 4090", 24, 24564},
	{"L4", 24, 23034},        {"A10", 24, 23028},          {"L40S", 48, 46068},
	{"L40", 48, 46068},       {"L20", 48, 46068},          {"A40", 48, 46068},
	{"RTX A6000", 48, 49140}, {"RTX 6000 Ada", 48, 49140},
};

bb_status bb_capacity_open(struct bb_capacity *c, const char *option, uint64_t size,
			   const char *card, uint64_t reserve, struct bb_error *error)
{
	*c = (struct bb_capacity){.reported = size, .reserve = reserve};
	for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]) && !c->card; i++)
		if ((uint64_t)cards[i].gib << 30 == size &&
		    (!card || strcmp(card, cards[i].card) == 0)) {
			c->reported = (uint64_t)cards[i].mib << 20;
			c->card = cards[i].card;
		}
	if (reserve >= c->reported)
		return bb_fail(error, BB_EUSAGE,
			       "--reserve: %.2f GB leave nothing of %s %.2f GB; give less, as in "
			       "--reserve 0",
			       1e-9 * (double)reserve, option, 1e-9 * (double)c->reported);
	c->usable = c->reported - reserve;
	return BB_OK;
}

void bb_capacity_add(struct bb_strbuf *out, const struct bb_capacity *c)
{
	bb_strbuf_addf(out, "%.2f GB", 1e-9 * (double)c->usable);
	if (c->card)
		bb_strbuf_addf(out, " (%.2f by the driver of %s", 1e-9 * (double)c->reported,
			       c->card);
	else if (c->reserve > 0)
		bb_strbuf_addf(out, " (%.2f", 1e-9 * (double)c->reported);
	if (c->reserve > 0)
		bb_strbuf_addf(out, ", less %.2f in reserve", 1e-9 * (double)c->reserve);
	if (c->card || c->reserve > 0)
		bb_strbuf_add(out, ")");
}

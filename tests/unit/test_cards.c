/*
 * GPUs by name: full product names alone, and one table for them and the known systems.
 */
#include "topology/build.h"
#include "topology/cards.h"
#include "topology/systems.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void test_names(void **state)
{
	static const struct {
		const char *name, *card; /* NULL: in no table */
	} cases[] = {
		{"NVIDIA H100 80GB HBM3", "H100"},
		{"h100", "H100"},
		{"NVIDIA H100 PCIe", "H100 PCIe"},
		{"NVIDIA H100 NVL", NULL},
		{"NVIDIA A100-SXM4-80GB", "A100"},
		{"A100 SXM4 40GB", "A100"},
		{"NVIDIA A100 80GB PCIe", NULL},
		{"NVIDIA A100-PCIE-40GB", NULL},
		{"Tesla V100-SXM2-16GB", "V100"},
		{"Tesla V100-PCIE-16GB", NULL},
		{"NVIDIA GH200 480GB", "GH200"},
		{"NVIDIA H200 NVL", NULL},
		{"NVIDIA GeForce RTX 4090", "RTX 4090"},
		{"NVIDIA GeForce RTX 4090 D", NULL},
		{"AMD Instinct MI300X", "MI300X"},
		{"AMD Instinct MI300A", NULL},
		{"AMD Instinct MI350X", "MI350X"},
		{"NVIDIA B300 SXM6 AC", "B300"},
		{"NVIDIA GeForce RTX 5090", "RTX 5090"},
		{"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"},
		{"dgx-b200", "B200"},
		{"dgx-b300", "B300"},
		{"hgx-h100-roce", "H100"},
		{"H100 SXM5 80GB", "H100"},
		{"", NULL},
		{"NVIDIA ", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_card *const card = bb_card_find(cases[i].name);

		if (!card != !cases[i].card || (card && strcmp(card->name, cases[i].card) != 0))
			print_message("%s: %s\n", cases[i].name, card ? card->name : "none");
		assert_true(!card == !cases[i].card);
		if (card)
			assert_string_equal(card->name, cases[i].card);
	}
}

/* No name stands for two cards, and each card is found by what it is called. */
static void test_one_table(void **state)
{
	for (int i = 0; bb_card_at(i); i++) {
		const struct bb_card *const card = bb_card_at(i);

		assert_ptr_equal(bb_card_find(card->name), card);
		for (int k = 0; card->also && card->also[k]; k++)
			assert_ptr_equal(bb_card_find(card->also[k]), card);
	}
}

/* A system's nodes have no more GPUs than nodes of its card, and its NVSwitches join as many. */
static void test_systems(void **state)
{
	for (int i = 0; bb_system_at(i); i++) {
		const struct bb_system *const s = bb_system_at(i);
		const struct bb_card *const card = bb_card_find(s->name);
		int gpus = 0, systems = 0;
		bool found = false;

		if (!s->gpu)
			continue;
		assert_non_null(card);
		assert_ptr_equal(bb_card_find(s->gpu->model), card);
		for (; bb_card_system(card, systems); systems++)
			found |= strcmp(bb_card_system(card, systems), s->name) == 0;
		assert_true(found);
		for (int k = 0; s->slots[k].card != BB_CARD_NONE; k++)
			gpus += s->slots[k].card == BB_CARD_GPU;
		assert_true(card->of_node == 0 || gpus <= card->of_node);
		if (s->switched > 0)
			assert_true(gpus * (s->nodes > 0 ? s->nodes : 1) <= card->of_domain);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_one_table),
		cmocka_unit_test(test_systems),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

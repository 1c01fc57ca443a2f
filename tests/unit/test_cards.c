/*
 * GPUs by name: full product names alone, and one table for them and the known systems.
 */
#include "topology/bound.h"
#include "topology/build.h"
#include "topology/cards.h"
#include "topology/systems.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
		{"NVIDIA H100 NVL", "H100 NVL"},
		{"NVIDIA A100-SXM4-80GB", "A100"},
		{"A100 SXM4 40GB", "A100"},
		{"NVIDIA A100 80GB PCIe", "A100 PCIe"},
		{"NVIDIA A100-PCIE-40GB", "A100 PCIe"},
		{"Tesla V100-SXM2-16GB", "V100"},
		{"Tesla V100-PCIE-32GB", "V100 PCIe"},
		{"NVIDIA GH200 480GB", "GH200"},
		{"NVIDIA H200 NVL", "H200 NVL"},
		{"NVIDIA H20", "H20"},
		{"NVIDIA H800", "H800"},
		{"NVIDIA H800 PCIe", NULL},
		{"NVIDIA A800-SXM4-80GB", "A800"},
		{"NVIDIA L20", "L20"},
		{"NVIDIA L2", NULL},
		{"NVIDIA L40", "L40"},
		{"NVIDIA A40", "A40"},
		{"NVIDIA A10", "A10"},
		{"NVIDIA A10G", "A10"},
		{"NVIDIA A30", "A30"},
		{"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"},
		{"NVIDIA RTX 6000D", "RTX 6000D"},
		{"NVIDIA RTX PRO 6000D", "RTX 6000D"},
		{"AMD Instinct MI250X", "MI250X"},
		{"AMD Instinct MI308X", "MI308X"},
		{"AMD Instinct MI210", NULL},
		{"NVIDIA GB10", "GB10"},
		{"NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti"},
		{"NVIDIA GeForce RTX 3090", "RTX 3090"},
		{"NVIDIA GeForce RTX 3090 Ti", NULL},
		{"Tesla T4", "T4"},
		{"NVIDIA RTX A6000", "RTX A6000"},
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
		assert_non_null(bb_card_system(card, 0));
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
		for (const char *slot = s->slots; *slot; slot++)
			gpus += *slot == 'G';
		assert_true(card->of_node == 0 || gpus <= card->of_node);
		if (s->switched > 0)
			assert_true(gpus * (s->nodes > 0 ? s->nodes : 1) <= card->of_domain);
	}
}

/* A typing error, but never another card. */
static void test_suggestions(void **state)
{
	static const struct {
		const char *name, *suggestion;
	} cases[] = {
		{"H100 PCLe", "H100 PCIe"},
		{"NVIDIA H100 NLV", "H100 NVL"},
		{"RTX4090", "RTX 4090"},
		{"GTX 3090", "RTX 3090"},
		{"RTX 6000 Aada", "RTX 6000 Ada"},
		{"B100", NULL},
		{"H10", NULL},
		{"H1000", NULL},
		{"NVIDIA H800 PCIe", NULL},
		{"MI300A", NULL},
		{"AMD Instinct MI210", NULL},
		{"NVIDIA GeForce RTX 4090 D", NULL},
		{"NVIDIA GeForce RTX 4080", NULL},
		{"A10X", NULL},
		{"", NULL},
		{"NVIDIA", NULL},
		{"-", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const got = bb_card_suggest(cases[i].name);

		assert_null(bb_card_find(cases[i].name));
		if (!got != !cases[i].suggestion)
			print_message("%s: %s\n", cases[i].name, got ? got : "none");
		assert_true(!got == !cases[i].suggestion);
		if (got)
			assert_string_equal(got, cases[i].suggestion);
	}
}

/* Every card has a bound on one node, if there are two in it, and on two nodes. */
static void test_bounds(void **state)
{
	for (int i = 0; bb_card_at(i); i++) {
		const struct bb_card *const card = bb_card_at(i);
		struct bb_topology *t = NULL;
		struct bb_error error = {0};

		assert_int_equal(bb_topology_system(bb_card_system(card, 0), &t, &error), BB_OK);
		for (int nodes = 1; nodes <= 2; nodes++) {
			struct bb_strbuf why = {0};
			struct bb_rank_place *ranks;
			double GBps;
			int n;
			bb_status st;

			if (nodes * bb_topology_count(t, BB_GPU) < 2 ||
			    (nodes > 1 && bb_topology_count(t, BB_NIC) == 0))
				continue;
			t->nodes = nodes;
			t->nvlink_nodes = t->nvlink_nodes > 1 ? nodes : 1;
			ranks = bb_all_gpus(t, nodes, &n);
			st = bb_speed_of_light(t, ranks, n, BB_BOUND_RING, &GBps, &why);
			if (st != BB_OK)
				print_message("%s: %s\n", t->name, bb_strbuf_text(&why));
			assert_int_equal(st, BB_OK);
			free(ranks);
			bb_strbuf_free(&why);
		}
		bb_topology_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),   cmocka_unit_test(test_one_table),
		cmocka_unit_test(test_systems), cmocka_unit_test(test_suggestions),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

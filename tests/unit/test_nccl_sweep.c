/*
 * The model of NCCL on all known systems: every collective by every algorithm and protocol, in both
 * views, healthy and with a fault; the choice, the messages, and the intervals.
 */
#include "clusters.h"
#include "nccl_constants_of.h"
#include "sweep.h"

#include "topology/systems.h"

static const struct bb_collective *const collectives[] = {
	&bb_all_reduce, &bb_all_gather, &bb_reduce_scatter, &bb_broadcast, &bb_reduce,
	&bb_alltoall,   &bb_gather,     &bb_scatter,        &bb_sendrecv,  &bb_alltoallv,
};
#define COLLECTIVES (sizeof(collectives) / sizeof(collectives[0]))

static const double sizes[] = {8,          1000,   0x1p15,     0x1p18, 0x1p20,
			       3 * 0x1p21, 0x1p26, 7 * 0x1p26, 0x1p30, 0x1p34};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* All times of M, and what is chosen. */
static void machine_add(struct sweep *s, const struct bb_nccl_constants *c,
			const struct bb_nccl_machine *m, const char *name)
{
	for (size_t k = 0; k < COLLECTIVES; k++) {
		struct bb_nccl_call call = {
			.collective = collectives[k], .machine = m, .dtype = BB_FLOAT};

		for (size_t i = 0; i < SIZES; i++) {
			struct bb_nccl_call chosen = {.algorithm = BB_NCCL_ANY};
			struct bb_nccl_basis basis = {0, 0};
			double low, high;

			call.bytes = sizes[i];
			call.in_place = i % 2;
			for (call.algorithm = 0; call.algorithm < BB_NCCL_ALGORITHMS;
			     call.algorithm++)
				for (call.protocol = 0; call.protocol < BB_NCCL_PROTOCOLS;
				     call.protocol++) {
					sweep_add(s, bb_nccl_time(c, &call, BB_NCCL_AS_TUNED));
					sweep_add(s, bb_nccl_time(c, &call, BB_NCCL_AS_MEASURED));
				}
			call.algorithm = BB_NCCL_ANY;
			call.protocol = BB_NCCL_ANY_PROTOCOL;
			sweep_add(s, bb_nccl_choose(c, &call, &chosen));
			sweep_add(s, chosen.algorithm);
			sweep_add(s, chosen.protocol);
			sweep_add(s, bb_nccl_call_time(c, &call));
			sweep_add(s, bb_nccl_messages_time(c, &call));
			bb_nccl_interval(c, &call, &low, &high);
			sweep_add(s, low);
			sweep_add(s, high);
			sweep_add(s, bb_nccl_basis(c, &call, &basis));
			sweep_add(s, basis.rows);
			sweep_add(s, bb_nccl_slow_plugin(c, &call));
			sweep_add(s, bb_nccl_fast_host(c, &call));
			sweep_add_text(s, bb_nccl_path_unknown(c, &call));
		}
		for (enum bb_nccl_algorithm a = 0; a <= BB_NCCL_ANY; a++) {
			sweep_add_text(s, bb_nccl_lacks(collectives[k], a));
			sweep_add_text(s, bb_nccl_unfit(c, m, a));
			for (call.dtype = 0; call.dtype < BB_NDTYPES; call.dtype++)
				for (call.op = 0; call.op < BB_NOPS; call.op++)
					sweep_add_text(s, bb_nccl_cannot_reduce(c, &call, a));
			call.dtype = BB_FLOAT;
			call.op = BB_SUM;
		}
	}
	sweep_end(s, "%s", name);
}

/* What NCCL finds of a group. */
static void shape_add(struct sweep *s, const struct bb_nccl_machine *m)
{
	const double values[] = {m->ranks,
				 m->nodes,
				 m->fewest,
				 m->nvlink,
				 m->some_gpus,
				 m->wide,
				 m->nvswitch,
				 m->nvls_off,
				 m->through_host,
				 m->near_nics,
				 m->staged,
				 m->amd,
				 m->x86,
				 m->gpu_rate,
				 m->gpu_share,
				 m->alone_rate,
				 m->rails,
				 m->nic_rate,
				 m->net_rate,
				 m->rank_rate,
				 m->rail_rate,
				 m->nic_latency,
				 m->nics,
				 m->taper.ring,
				 m->taper.tree,
				 m->taper.pat,
				 m->taper.alltoall,
				 m->taper.root,
				 m->taper.sendrecv,
				 m->net_fault,
				 m->node_fault,
				 m->slow_path.factor,
				 m->slow_path.from,
				 m->slow_path.to,
				 m->net_fill,
				 m->issue,
				 m->process_gpus};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		sweep_add(s, values[i]);
	sweep_add_text(s, m->unknown);
}

#define MOST 512

/* Groups of a cluster: all, one rank of each node, two of each, half of a node. */
static int members_of(const struct bb_cluster *c, int kind, int members[MOST])
{
	const int step = kind == 1 ? c->gpus : kind == 2 ? (c->gpus + 1) / 2 : 1;
	const int end = kind == 3 ? (c->gpus + 1) / 2 : c->ranks;
	int n = 0;

	for (int rank = kind == 2; rank < end && n < MOST; rank += step)
		members[n++] = rank;
	return n;
}

static void test_systems(void **state)
{
	static const int nodes[] = {1, 2, 3, 16, 40};
	struct sweep s = sweep_open("nccl_systems");

	for (int i = 0; bb_system_at(i); i++)
		for (size_t k = 0; k < sizeof(nodes) / sizeof(nodes[0]); k++) {
			struct bb_error error = {.text = ""};
			struct bb_cluster *c = NULL;
			struct bb_nccl_constants constants;
			int members[MOST];
			char name[128];

			snprintf(name, sizeof(name), "%s:%d", bb_system_at(i)->name, nodes[k]);
			if (bb_cluster_open(name, NULL, &c, &error) != BB_OK) {
				sweep_add_text(&s, error.text);
				sweep_end(&s, "%s", name);
				continue;
			}
			if (!bb_cluster_has_gpus(c)) {
				bb_cluster_free(c);
				continue;
			}
			assert_int_equal(
				bb_nccl_constants_find(&constants, c->node->devices[0].sm, &error),
				BB_OK);
			for (int kind = 0; kind < 4 && constants.generation; kind++) {
				const int n = members_of(c, kind, members);
				struct bb_nccl_machine m;

				if (n < 1 || n > c->ranks)
					continue;
				assert_true(bb_nccl_shape_make(&m, c, c->ranks, members, n));
				snprintf(name, sizeof(name), "%s:%d group %d",
					 bb_system_at(i)->name, nodes[k], kind);
				shape_add(&s, &m);
				machine_add(&s, &constants, &m, name);
			}
			bb_cluster_free(c);
		}
	sweep_close(&s);
}

/* Faults of every kind, and a tapered network. */
static void test_faults(void **state)
{
	static const char *const names[] = {"hgx-h100:6", "dgx-1v:5", "gb200-nvl72:40", "aws-p5:3",
					    "pcie-4090:4"};
	struct sweep s = sweep_open("nccl_faults");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct bb_cluster *c = open_cluster(names[i]);
		const struct bb_fabric_flaw flaws[] = {
			{.node = 1, .rail = 0, .factor = 0},
			{.node = 0, .rail = 1 % c->rails, .factor = 3},
			{.node = 2, .rail = -1, .factor = 2},
		};
		struct bb_nccl_constants constants;
		struct bb_error error = {.text = ""};
		int members[MOST];
		char name[128];

		assert_int_equal(bb_nccl_constants_find(&constants, c->node->devices[0].sm, &error),
				 BB_OK);
		c->figures[BB_FIGURE_LEAF_NODES] = 2;
		c->figures[BB_FIGURE_LEAF_TAPER] = 2;
		c->figures[BB_FIGURE_POD_NODES] = 4;
		c->figures[BB_FIGURE_POD_TAPER] = 1.5;
		for (int kind = 0; kind < 3; kind++) {
			const int n = members_of(c, kind, members);
			struct bb_nccl_machine m;

			for (size_t f = 0; f < sizeof(flaws) / sizeof(flaws[0]); f++) {
				assert_true(bb_nccl_shape_make(&m, c, c->ranks, members, n));
				bb_nccl_shape_apply_flaw(&m, c, &flaws[f], c->ranks, members, n);
				snprintf(name, sizeof(name), "%s group %d flaw %zu", names[i], kind,
					 f);
				shape_add(&s, &m);
				machine_add(&s, &constants, &m, name);
			}
			for (int to = 1; to < n && to < 5; to++) {
				assert_true(bb_nccl_shape_make(&m, c, c->ranks, members, n));
				m.slow_path = (struct bb_nccl_slow_path){4, to - 1, to % m.nodes};
				snprintf(name, sizeof(name), "%s group %d path to %d", names[i],
					 kind, to);
				machine_add(&s, &constants, &m, name);
			}
		}
		bb_cluster_free(c);
	}
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_systems),
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests_name("nccl_sweep", tests, NULL, NULL);
}

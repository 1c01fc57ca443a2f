/*
 * Messages of a program divide the links that they share, at each moment anew: ends by hand.
 */
#include "simulator/timeline/links.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define FLOWS 4
#define BYTES 12.

/* Three nodes of four ranks, two of them on each of two rails, at one byte a second. */
static const int rail_of[] = {0, 0, 1, 1};
static const struct bb_fabric three_nodes = {.nodes = 3,
					     .per_node = 4,
					     .domain = 1,
					     .leaf = 3,
					     .pod = 3,
					     .rails = 2,
					     .rail_of = rail_of,
					     .rail_second_per_byte = 1,
					     .leaf_taper = 1,
					     .pod_taper = 1,
					     .packages = 1};

static void hear_end(void *own, int flow, double end)
{
	((double *)own)[flow] = end;
}

static struct bb_flows *open_flows(const struct bb_fabric *fabric, struct bb_slabs *slabs,
				   double ends[FLOWS])
{
	const struct bb_link_model model = {.fabric = fabric};
	struct bb_flows *flows = bb_flows_open(
		&model, slabs, FLOWS, &(struct bb_flows_watch){.ends = hear_end, .own = ends});

	assert_non_null(flows);
	return flows;
}

/* Rank FROM sends to rank TO over PATH. */
static struct bb_flow flow_of(int from, int to, enum bb_cluster_path path)
{
	return (struct bb_flow){.from = from,
				.to = to,
				.route = {.second_per_byte = 1,
					  .outside = true,
					  .out_rail = rail_of[from % 4],
					  .in_rail = rail_of[to % 4],
					  .path = path},
				.bytes = BYTES,
				.factor = 1};
}

static void assert_end(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-9))
		fail_msg("ends at %.9g, not %.9g", got, wanted);
}

/* One that joins slows the other from then on, and one that leaves speeds it up. */
static void test_moments(void **state)
{
	struct bb_slabs slabs = {0};
	double ends[FLOWS] = {0};
	struct bb_flows *flows = open_flows(&three_nodes, &slabs, ends);
	const struct bb_flow first = flow_of(0, 4, BB_CLUSTER_LEAF),
			     other = flow_of(1, 8, BB_CLUSTER_LEAF);

	bb_flows_join(flows, 0, &first, 0);
	assert_end(ends[0], BYTES);
	bb_flows_join(flows, 2, &other, 4);
	assert_end(ends[0], 4 + 2 * 8);
	assert_end(ends[2], 4 + 2 * BYTES);
	bb_flows_leave(flows, 0, 20);
	assert_end(ends[2], 24);
	/* The place is free again, and a flow that begins anew has all its bytes. */
	bb_flows_join(flows, 0, &first, 22);
	assert_end(ends[2], 22 + 2 * 2);
	assert_end(ends[0], 22 + 2 * BYTES);
	bb_flows_leave(flows, 2, 26);
	assert_end(ends[0], 26 + 10);
	bb_slabs_free(&slabs);
}

/* Whether flows from A to B and from C to D slow each other. */
static void assert_share(int a, int b, int c, int d, bool shared)
{
	struct bb_slabs slabs = {0};
	double ends[FLOWS] = {0};
	struct bb_flows *flows = open_flows(&three_nodes, &slabs, ends);
	const struct bb_flow first = flow_of(a, b, BB_CLUSTER_LEAF),
			     other = flow_of(c, d, BB_CLUSTER_LEAF);

	bb_flows_join(flows, 1, &first, 0);
	bb_flows_join(flows, 3, &other, 0);
	assert_end(ends[1], shared ? 2 * BYTES : BYTES);
	assert_end(ends[3], shared ? 2 * BYTES : BYTES);
	bb_slabs_free(&slabs);
}

/* A rail of a node is shared by what leaves over it, or by what arrives; not by both. */
static void test_sides(void **state)
{
	assert_share(0, 4, 1, 8, true);
	assert_share(0, 4, 2, 8, false); /* another rail */
	assert_share(4, 0, 8, 1, true);
	assert_share(0, 4, 4, 0, false);
	assert_share(0, 4, 4, 8, false);
	/* The sender's rail is not the receiver's. */
	assert_share(0, 6, 1, 8, true);
	assert_share(0, 6, 2, 8, false);
	assert_share(0, 6, 8, 7, true);
	assert_share(0, 6, 8, 5, false);
	assert_share(6, 0, 10, 1, true);
	assert_share(6, 0, 7, 10, true);
}

/* Of three on one rail, and one of them on another's: the busiest link decides. */
static void test_busiest(void **state)
{
	struct bb_slabs slabs = {0};
	double ends[FLOWS] = {0};
	struct bb_flows *flows = open_flows(&three_nodes, &slabs, ends);
	static const int from[] = {0, 1, 0, 4}, to[] = {4, 8, 9, 10};

	for (int i = 0; i < FLOWS; i++) {
		const struct bb_flow flow = flow_of(from[i], to[i], BB_CLUSTER_LEAF);

		bb_flows_join(flows, i, &flow, 0);
	}
	for (int i = 0; i < 3; i++)
		assert_end(ends[i], 3 * BYTES);
	assert_end(ends[3], BYTES);
	/* From the middle, the front and the back of a link's users. */
	bb_flows_leave(flows, 1, 6);
	assert_end(ends[0], 6 + 2 * 10);
	assert_end(ends[2], 6 + 2 * 10);
	bb_flows_leave(flows, 2, 6);
	assert_end(ends[0], 6 + 10);
	bb_flows_leave(flows, 0, 6);
	assert_end(ends[3], BYTES);
	bb_slabs_free(&slabs);
}

/* Tapered leaves of two nodes: 4 seconds a byte for the rail of both. A flow within a leaf does not
   pass them; a factor slows what the links allow. */
static void test_leaves(void **state)
{
	struct bb_fabric fabric = three_nodes;
	struct bb_slabs slabs = {0};
	double ends[FLOWS] = {0};
	struct bb_flow inside = flow_of(0, 4, BB_CLUSTER_LEAF), out = flow_of(1, 8, BB_CLUSTER_POD);
	struct bb_flow late = flow_of(5, 9, BB_CLUSTER_POD);
	struct bb_flows *flows;

	fabric.leaf = 2;
	fabric.leaf_taper = 8;
	flows = open_flows(&fabric, &slabs, ends);
	bb_flows_join(flows, 0, &inside, 0);
	bb_flows_join(flows, 1, &out, 0);
	assert_end(ends[0], 2 * BYTES);
	assert_end(ends[1], 4 * BYTES);
	late.factor = 1.5;
	bb_flows_join(flows, 2, &late, 0);
	assert_end(ends[0], 2 * BYTES);
	assert_end(ends[1], 8 * BYTES);
	assert_end(ends[2], 1.5 * 8 * BYTES);
	bb_slabs_free(&slabs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_sides),
		cmocka_unit_test(test_busiest),
		cmocka_unit_test(test_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

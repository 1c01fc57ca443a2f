/*
 * Counters of the network, read from folders that look like those of other hosts.
 */
#include "topology/probes/counters.h"

#include <limits.h>
#include <linux/ethtool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

struct tree {
	char root[64];
};

/* The folders of PATH below the root, and TEXT into the file. */
static void put(const struct tree *t, const char *path, const char *text)
{
	char full[PATH_MAX];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", t->root, path);
	for (char *slash = strchr(full + strlen(t->root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0777);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	assert_int_equal(fputs(text, file) < 0, 0);
	assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (!t)
		return -1;
	snprintf(t->root, sizeof(t->root), "/tmp/busbench_counters_XXXXXX");
	*state = t;
	return mkdtemp(t->root) ? 0 : -1;
}

static int tear_down(void **state)
{
	struct tree *t = *state;
	char command[96];
	int left;

	snprintf(command, sizeof(command), "rm -r %s", t->root);
	left = system(command);
	free(t);
	return left;
}

/* What the driver of eth0 has; sysfs has the first of them, too. */
static const struct {
	char name[ETH_GSTRING_LEN];
	uint64_t value;
} statistics[] = {
	{"rx_dropped", 4711},
	{"rx_packets", 1},
	{"link_down_events_phy", 2},
	{"rx_err_lane_0_phy", 100},
	{"rx0_wqe_err", 1},
	{"tx-1.drops", 1},
	{"rx_pcs_symbol_err_phy", 12},
	{"queue_3_tx_errors", 1},
	{"drop_name_without_end_of_32_byte", 7},
};
#define NSTATISTICS (sizeof(statistics) / sizeof(*statistics))

static bool driver(const char *device, void *request)
{
	struct ethtool_sset_info *const info = request;
	struct ethtool_gstrings *const names = request;
	struct ethtool_stats *const stats = request;

	if (strcmp(device, "eth0") != 0)
		return false;
	if (info->cmd == ETHTOOL_GSSET_INFO)
		info->data[0] = NSTATISTICS;
	for (size_t i = 0; i < NSTATISTICS && names->cmd == ETHTOOL_GSTRINGS; i++)
		memcpy(names->data + i * ETH_GSTRING_LEN, statistics[i].name, ETH_GSTRING_LEN);
	for (size_t i = 0; i < NSTATISTICS && stats->cmd == ETHTOOL_GSTATS; i++)
		stats->data[i] = statistics[i].value;
	return true;
}

#define IB "/sys/class/infiniband/mlx5_0"

/* A host with an Ethernet port and an InfiniBand one. */
static void put_host(const struct tree *t)
{
	put(t, "/sys/class/net/eth0/statistics/rx_errors", "3\n");
	put(t, "/sys/class/net/eth0/statistics/rx_dropped", "10\n");
	put(t, "/sys/class/net/eth0/statistics/rx_bytes", "123456\n");
	put(t, "/sys/class/net/eth0/carrier_down_count", "1\n");
	put(t, IB "/ports/1/counters/symbol_error", "0\n");
	put(t, IB "/ports/1/counters/link_downed", "0\n");
	put(t, IB "/ports/1/counters/port_xmit_data", "77\n");
	put(t, IB "/ports/1/hw_counters/local_ack_timeout_err", "5\n");
	put(t, IB "/ports/1/hw_counters/req_cqe_flush_error", "9\n");
	put(t, IB "/ports/2/counters/symbol_error", "N/A (no PMA)\n");
	put(t, "/proc/net/snmp",
	    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
	    "Tcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 5000 7 0\n");
	put(t, "/proc/net/netstat", "TcpExt: TW TCPLostRetransmit\nTcpExt: 4 2\n");
}

static struct bb_counters reading(const struct tree *t)
{
	struct bb_counters c = {.n = 0};

	bb_counters_read(&c, &(struct bb_counters_source){t->root, driver});
	return c;
}

static void test_what_is_read(void **state)
{
	static const struct bb_counter known[] = {
		{"eth0", "carrier_down_count", BB_COUNTER_LINK_DOWN, 1},
		{"eth0", "drop_name_without_end_of_32_byte", BB_COUNTER_DISCARD, 7},
		{"eth0", "link_down_events_phy", BB_COUNTER_LINK_DOWN, 2},
		{"eth0", "rx_dropped", BB_COUNTER_DISCARD, 10},
		{"eth0", "rx_errors", BB_COUNTER_ERROR, 3},
		{"eth0", "rx_pcs_symbol_err_phy", BB_COUNTER_SYMBOL_ERROR, 12},
		{"mlx5_0:1", "link_downed", BB_COUNTER_LINK_DOWN, 0},
		{"mlx5_0:1", "local_ack_timeout_err", BB_COUNTER_RETRANSMIT, 5},
		{"mlx5_0:1", "symbol_error", BB_COUNTER_SYMBOL_ERROR, 0},
		{"tcp", "InErrs", BB_COUNTER_ERROR, 0},
		{"tcp", "OutSegs", BB_COUNTER_TRAFFIC, 5000},
		{"tcp", "RetransSegs", BB_COUNTER_RETRANSMIT, 7},
		{"tcp", "TCPLostRetransmit", BB_COUNTER_RETRANSMIT, 2},
	};
	const struct tree *t = *state;
	struct bb_counters c;

	put_host(t);
	c = reading(t);
	assert_int_equal(c.n, sizeof(known) / sizeof(*known));
	for (size_t i = 0; i < c.n; i++) {
		assert_string_equal(c.list[i].device, known[i].device);
		assert_string_equal(c.list[i].name, known[i].name);
		assert_int_equal(c.list[i].class, known[i].class);
		assert_int_equal(c.list[i].value, known[i].value);
	}
	bb_counters_free(&c);
}

static void frequencies(const struct tree *t, int64_t least, int64_t mean)
{
	struct bb_counters c = reading(t);

	assert_int_equal(c.n, 2);
	assert_string_equal(c.list[0].name, "least_MHz");
	assert_int_equal(c.list[0].value, least);
	assert_string_equal(c.list[1].name, "mean_MHz");
	assert_int_equal(c.list[1].value, mean);
	bb_counters_free(&c);
}

/* Where /proc/cpuinfo has none, sysfs is asked. */
static void test_frequency(void **state)
{
	const struct tree *t = *state;

	put(t, "/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50.00\n");
	put(t, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1200000\n");
	put(t, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "800400\n");
	put(t, "/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1\n");
	frequencies(t, 800, 1000);
	put(t, "/proc/cpuinfo",
	    "processor\t: 0\ncpu MHz\t\t: 2600.700\n\n"
	    "processor\t: 1\ncpu MHz\t\t: 3000.100\ncpu MHz\n");
	frequencies(t, 2601, 2800);
}

static void test_nothing_there(void **state)
{
	struct bb_counters c = reading(*state);

	assert_int_equal(c.n, 0);
	bb_counters_free(&c);
}

static void test_garbage(void **state)
{
	const struct tree *t = *state;
	struct bb_counters c;

	put(t, "/proc/net/snmp", "Tcp: RetransSegs InErrs");
	put(t, "/proc/net/netstat", "TcpExt: TCPLostRetransmit\nTcpExt: x\nTcpExt:");
	put(t, "/sys/class/net/eth2/statistics/rx_errors", "");
	put(t, "/sys/class/net/eth3/statistics/rx_errors", "99999999999999999999\n");
	c = reading(t);
	assert_int_equal(c.n, 0);
	bb_counters_free(&c);
}

/* The gravest first, counters of one reading alone left out. */
static void test_what_moved(void **state)
{
	const struct tree *t = *state;
	struct bb_counters before, after;
	struct bb_counter_move moves[8];

	put_host(t);
	before = reading(t);
	put(t, "/sys/class/net/eth0/statistics/rx_dropped", "12\n");
	put(t, "/sys/class/net/eth1/statistics/rx_dropped", "50\n");
	put(t, IB "/ports/1/counters/link_downed", "1\n");
	put(t, IB "/ports/1/hw_counters/local_ack_timeout_err", "0\n");
	put(t, "/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 6000 107\n");
	after = reading(t);
	assert_int_equal(bb_counters_moved(&before, &after, moves, 8), 5);
	assert_string_equal(moves[0].name, "link_downed");
	assert_int_equal(moves[0].before, 0);
	assert_int_equal(moves[0].after, 1);
	assert_string_equal(moves[1].name, "rx_dropped");
	assert_string_equal(moves[1].device, "eth0");
	assert_string_equal(moves[2].name, "RetransSegs");
	assert_string_equal(moves[3].name, "local_ack_timeout_err");
	assert_int_equal(moves[3].before, 5);
	assert_int_equal(moves[3].after, 0);
	assert_string_equal(moves[4].name, "OutSegs");
	assert_int_equal(bb_counters_moved(&before, &after, moves, 2), 2);
	assert_string_equal(moves[0].name, "link_downed");
	assert_string_equal(moves[1].name, "rx_dropped");
	assert_int_equal(bb_counters_moved(&before, &before, moves, 8), 0);
	bb_counters_free(&before);
	bb_counters_free(&after);
}

static void test_traffic_alone(void **state)
{
	const struct tree *t = *state;
	struct bb_counters before, after;
	struct bb_counter_move moves[8];

	put_host(t);
	before = reading(t);
	put(t, "/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 6000 7\n");
	after = reading(t);
	assert_int_equal(bb_counters_moved(&before, &after, moves, 8), 0);
	put(t, "/proc/cpuinfo", "cpu MHz : 2000\n");
	bb_counters_read(&before, &(struct bb_counters_source){t->root, driver});
	put(t, "/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 7000 7\n");
	put(t, "/proc/cpuinfo", "cpu MHz : 1500\n");
	bb_counters_read(&after, &(struct bb_counters_source){t->root, driver});
	assert_int_equal(bb_counters_moved(&before, &after, moves, 8), 2);
	assert_int_equal(moves[0].class, BB_COUNTER_FREQUENCY);
	assert_int_equal(moves[1].class, BB_COUNTER_FREQUENCY);
	bb_counters_free(&before);
	bb_counters_free(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_frequency, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_there, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_garbage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_moved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_traffic_alone, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * counters_ethtool.c - statistics of NIC drivers, which have their own names.
 */
#include "topology/probes/counters_parts.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 65536 /* statistics of a device */

static bool ask_kernel(const char *device, void *request)
{
	const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = {.ifr_data = request};
	bool done;

	if (s < 0)
		return false;
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", device);
	done = ioctl(s, SIOCETHTOOL, &r) == 0;
	close(s);
	return done;
}

const struct bb_counters_source bb_counters_here = {"", ask_kernel};

static uint32_t count_statistics(const struct bb_counters_source *source, const char *device)
{
	union {
		struct ethtool_sset_info head;
		char room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
	} set = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_STATS}};

	if (!source->ethtool(device, &set) || !set.head.sset_mask || set.head.data[0] > MOST)
		return 0;
	return set.head.data[0];
}

/* Whether NAME counts a queue: there is one per processor, and totals include them. */
static bool is_of_queue(const char *name)
{
	const bool direction = strncmp(name, "rx", 2) == 0 || strncmp(name, "tx", 2) == 0 ||
			       strncmp(name, "ch", 2) == 0;

	return (direction && isdigit((unsigned char)name[2 + (name[2] == '-')])) ||
	       strstr(name, "queue_");
}

static bool has_counter(const struct bb_counters *c, size_t n, const char *device, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(c->list[i].name, name) == 0 && strcmp(c->list[i].device, device) == 0)
			return true;
	return false;
}

static void add_statistics(struct bb_counters *c, const char *device, const char *names,
			   const struct ethtool_stats *stats)
{
	const size_t known = c->n;

	for (uint32_t i = 0; i < stats->n_stats; i++) {
		char name[ETH_GSTRING_LEN + 1];

		snprintf(name, sizeof(name), "%.*s", ETH_GSTRING_LEN, names + i * ETH_GSTRING_LEN);
		if (!is_of_queue(name) && !has_counter(c, known, device, name))
			bb_counters_add(c, device, name, (int64_t)stats->data[i]);
	}
}

static void read_statistics(struct bb_counters *c, const struct bb_counters_source *source,
			    const char *device)
{
	const uint32_t n = count_statistics(source, device);
	/* Room for twice as many, since the kernel writes as many as exist by then. */
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + 2 * n * ETH_GSTRING_LEN);
	struct ethtool_stats *stats = calloc(1, sizeof(*stats) + 2 * n * sizeof(stats->data[0]));

	if (n > 0 && names && stats) {
		*names = (struct ethtool_gstrings){
			.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = n};
		*stats = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = n};
		/* If the number has changed, names and values may not match. */
		if (source->ethtool(device, names) && source->ethtool(device, stats) &&
		    names->len == n && stats->n_stats == n)
			add_statistics(c, device, (const char *)names->data, stats);
	}
	free(names);
	free(stats);
}

void bb_counters_read_ethtool(struct bb_counters *c, const struct bb_counters_source *source)
{
	char pattern[PATH_MAX];
	glob_t found = {.gl_pathc = 0};

	snprintf(pattern, sizeof(pattern), "%s/sys/class/net/*", source->root);
	if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			read_statistics(c, source, strrchr(found.gl_pathv[i], '/') + 1);
	globfree(&found);
}

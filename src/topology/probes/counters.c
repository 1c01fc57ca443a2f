#include "topology/probes/counters.h"

#include "core/array.h"
#include "core/file.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 65536 /* statistics of a device */

/*
 * Drivers name thousands of counters, so parts of names classify them: the first part that a name
 * contains, in any case, decides. NCLASSES is not an error: each closed connection flushes
 * completions, and errors per lane count before correction.
 */
static const struct {
	enum bb_counter_class class;
	const char *name, *parts[7];
} classes[] = {
	{BB_COUNTER_NCLASSES, NULL, {"cqe", "flush_err", "err_lane", "corrected"}},
	{BB_COUNTER_LINK_DOWN, "link down", {"link_down", "carrier_down"}},
	{BB_COUNTER_SYMBOL_ERROR, "symbol error", {"symbol_err"}},
	{BB_COUNTER_RETRANSMIT,
	 "retransmit",
	 {"retrans", "packet_seq_err", "implied_nak", "out_of_sequence", "ack_timeout", "rnr_nak"}},
	{BB_COUNTER_DISCARD,
	 "discard",
	 {"discard", "drop", "out_of_buffer", "missed_err", "allowance_exceeded"}},
	{BB_COUNTER_ERROR, "error", {"err"}},
	{BB_COUNTER_FREQUENCY, "frequency", {"_MHz"}},
	{BB_COUNTER_TRAFFIC, "traffic", {"OutSegs"}},
};

#define CLASSES (sizeof(classes) / sizeof(classes[0]))

const char *bb_counter_class_name(enum bb_counter_class class)
{
	size_t i = 0;

	while (classes[i].class != class)
		i++;
	return classes[i].name;
}

static enum bb_counter_class classify(const char *name)
{
	for (size_t i = 0; i < CLASSES; i++)
		for (const char *const *part = classes[i].parts; *part; part++)
			if (strcasestr(name, *part))
				return classes[i].class;
	return BB_COUNTER_NCLASSES;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Add a counter, unless NAME has no class. */
static void add_counter(struct bb_counters *c, const char *device, const char *name, int64_t value)
{
	const enum bb_counter_class class = classify(name);

	if (class == BB_COUNTER_NCLASSES)
		return;
	struct bb_counter *new = BB_ARRAY_ADD(c->list, c->n, c->room);
	if (!new)
		return;
	*new = (struct bb_counter){.class = class, .value = value};
	snprintf(new->device, BB_COUNTER_DEVICE, "%s", device);
	snprintf(new->name, BB_COUNTER_NAME, "%s", name);
}

static bool to_number(const char *text, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return end > text && errno == 0;
}

/* Add the counter in "/sys/class/KIND/DEVICE/…" or, of a port, in
   "/sys/class/KIND/DEVICE/ports/PORT/…". */
static void add_counter_file(struct bb_counters *c, const char *root, const char *path)
{
	const char *const name = strrchr(path, '/') + 1;
	char device[BB_COUNTER_DEVICE], port[8] = "", line[64], label[BB_COUNTER_DEVICE + 8];
	int64_t value;

	if (classify(name) == BB_COUNTER_NCLASSES ||
	    sscanf(path + strlen(root), "/sys/class/%*[^/]/%31[^/]/ports/%7[^/]", device, port) < 1)
		return;
	snprintf(label, sizeof(label), "%s%s%s", device, *port ? ":" : "", port);
	if (bb_kernel_line(path, line, sizeof(line)) && to_number(line, &value))
		add_counter(c, label, name, value);
}

/* Set *FOUND to the files of PATTERN, whose "%s" is ROOT; the caller calls globfree. */
__attribute__((format(printf, 1, 0))) static void find_files(const char *pattern, const char *root,
							     glob_t *found)
{
	char path[PATH_MAX];

	*found = (glob_t){.gl_pathc = 0};
	snprintf(path, sizeof(path), pattern, root);
	if (glob(path, GLOB_NOSORT, NULL, found) != 0)
		found->gl_pathc = 0;
}

/* The rest of the next line of *TEXT that begins with HEAD; NULL: none. */
static char *next_line(char **text, const char *head)
{
	char *line;

	while ((line = strsep(text, "\n")))
		if (strncmp(line, head, strlen(head)) == 0)
			return line + strlen(head);
	return NULL;
}

/* Read names in one line and values in the next, both behind HEAD. */
static void read_protocol(struct bb_counters *c, const char *root, const char *file,
			  const char *head)
{
	char path[PATH_MAX], text[16 << 10], *rest = text, *names, *values, *name, *value;
	int64_t number;

	snprintf(path, sizeof(path), "%s/proc/net/%s", root, file);
	if (bb_kernel_read(path, text, sizeof(text)) == 0)
		return;
	names = next_line(&rest, head);
	values = rest ? next_line(&rest, head) : NULL;
	while (values && (name = strsep(&names, " ")) && (value = strsep(&values, " ")))
		if (to_number(value, &number))
			add_counter(c, "tcp", name, number);
}

/* Frequencies of several processors. */
struct frequencies {
	int n;
	double least, sum; /* MHz */
};

static void note_frequency(struct frequencies *f, double MHz)
{
	if (!(MHz > 0 && MHz < 1e6))
		return;
	f->least = f->n == 0 || MHz < f->least ? MHz : f->least;
	f->sum += MHz;
	f->n++;
}

#define CPUINFO_BYTES ((size_t)1 << 20) /* some 600 processors, which suffice */

/* /proc/cpuinfo comes first: some kernels wait 10 ms for each scaling_cur_freq, but there only
   once. */
static void read_frequencies(struct bb_counters *c, const char *root)
{
	char path[PATH_MAX], *const text = malloc(CPUINFO_BYTES), *rest = text, *line,
				    short_line[64];
	struct frequencies f = {.n = 0};
	glob_t found;

	snprintf(path, sizeof(path), "%s/proc/cpuinfo", root);
	if (text && bb_kernel_read(path, text, CPUINFO_BYTES) > 0)
		while ((line = next_line(&rest, "cpu MHz")) && (line = strchr(line, ':')))
			note_frequency(&f, strtod(line + 1, NULL));
	free(text);
	if (f.n == 0) {
		find_files("%s/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", root,
			   &found);
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (bb_kernel_line(found.gl_pathv[i], short_line, sizeof(short_line)))
				note_frequency(&f, strtod(short_line, NULL) / 1000);
		globfree(&found);
	}
	if (f.n == 0)
		return;
	add_counter(c, "cpu", "least_MHz", (int64_t)(f.least + 0.5));
	add_counter(c, "cpu", "mean_MHz", (int64_t)(f.sum / f.n + 0.5));
}

static bool ask_kernel(const char *device, void *request)
{
	const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = {.ifr_data = request};

	if (s < 0)
		return false;
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", device);
	const bool done = ioctl(s, SIOCETHTOOL, &r) == 0;
	close(s);
	return done;
}

const struct bb_counters_source bb_counters_here = {"", ask_kernel};

/* Whether NAME counts a queue: there is one per processor, and totals include them. */
static bool is_of_queue(const char *name)
{
	const bool direction = strncmp(name, "rx", 2) == 0 || strncmp(name, "tx", 2) == 0 ||
			       strncmp(name, "ch", 2) == 0;

	return (direction && isdigit((unsigned char)name[2 + (name[2] == '-')])) ||
	       strstr(name, "queue_");
}

static void read_statistics(struct bb_counters *c, const struct bb_counters_source *source,
			    const char *device)
{
	union {
		struct ethtool_sset_info head;
		char room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
	} set = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_STATS}};
	const bool has =
		source->ethtool(device, &set) && set.head.sset_mask && set.head.data[0] <= MOST;
	const uint32_t n = has ? set.head.data[0] : 0;
	/* Room for twice as many, since the kernel writes as many as exist by then. */
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + 2 * n * ETH_GSTRING_LEN);
	struct ethtool_stats *stats = calloc(1, sizeof(*stats) + 2 * n * sizeof(stats->data[0]));
	const size_t known = c->n; /* by sysfs */
	bool same = false;

	if (n > 0 && names && stats) {
		*names = (struct ethtool_gstrings){
			.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = n};
		*stats = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = n};
		/* If the number has changed, names and values may not match. */
		same = source->ethtool(device, names) && source->ethtool(device, stats) &&
		       names->len == n && stats->n_stats == n;
	}
	for (uint32_t i = 0; same && i < n; i++) {
		char name[ETH_GSTRING_LEN + 1];
		size_t k = 0;

		snprintf(name, sizeof(name), "%.*s", ETH_GSTRING_LEN,
			 (const char *)names->data + i * ETH_GSTRING_LEN);
		while (k < known && (strcmp(c->list[k].name, name) != 0 ||
				     strcmp(c->list[k].device, device) != 0))
			k++;
		if (k == known && !is_of_queue(name))
			add_counter(c, device, name, (int64_t)stats->data[i]);
	}
	free(names);
	free(stats);
}

static int by_name(const void *left, const void *right)
{
	const struct bb_counter *const a = left, *const b = right;
	const int devices = strcmp(a->device, b->device);

	return devices ? devices : strcmp(a->name, b->name);
}

void bb_counters_read(struct bb_counters *c, const struct bb_counters_source *source)
{
	static const char *const patterns[] = {
		"%s/sys/class/net/*/statistics/*",
		"%s/sys/class/net/*/carrier_down_count",
		"%s/sys/class/infiniband/*/hw_counters/*",
		"%s/sys/class/infiniband/*/ports/*/counters/*",
		"%s/sys/class/infiniband/*/ports/*/hw_counters/*",
	};
	glob_t found;

	c->n = 0;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		find_files(patterns[i], source->root, &found);
		for (size_t k = 0; k < found.gl_pathc; k++)
			add_counter_file(c, source->root, found.gl_pathv[k]);
		globfree(&found);
	}
	/* Statistics of the drivers, which have their own names. */
	find_files("%s/sys/class/net/*", source->root, &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		read_statistics(c, source, strrchr(found.gl_pathv[i], '/') + 1);
	globfree(&found);
	read_protocol(c, source->root, "snmp", "Tcp: ");
	read_protocol(c, source->root, "netstat", "TcpExt: ");
	read_frequencies(c, source->root);
	if (c->n > 0)
		qsort(c->list, c->n, sizeof(*c->list), by_name);
}

void bb_counters_free(struct bb_counters *c)
{
	free(c->list);
	*c = (struct bb_counters){.n = 0};
}

/* ---- two readings ---------------------------------------------------------------------------- */

static uint64_t move_size(const struct bb_counter_move *m)
{
	return m->after > m->before ? (uint64_t)m->after - (uint64_t)m->before
				    : (uint64_t)m->before - (uint64_t)m->after;
}

size_t bb_counters_moved(const struct bb_counters *before, const struct bb_counters *after,
			 struct bb_counter_move *moves, size_t room)
{
	size_t n = 0;

	for (size_t i = 0, k = 0; i < before->n && k < after->n;) {
		const struct bb_counter *const a = &before->list[i], *const b = &after->list[k];
		const int order = by_name(a, b);
		size_t at = n;
		struct bb_counter_move move = {
			.class = (int32_t)b->class, .before = a->value, .after = b->value};

		memcpy(move.device, b->device, sizeof(move.device));
		memcpy(move.name, b->name, sizeof(move.name));
		i += order <= 0;
		k += order >= 0;
		if (order != 0 || a->value == b->value)
			continue;
		/* Sorted; if they are ROOM, the least grave is dropped. */
		while (at > 0 &&
		       (move.class != moves[at - 1].class ? move.class < moves[at - 1].class
							  : move_size(&move) >
								    move_size(&moves[at - 1])))
			at--;
		if (at == room)
			continue;
		n += n < room;
		memmove(&moves[at + 1], &moves[at], (n - at - 1) * sizeof(*moves));
		moves[at] = move;
	}
	/* Segments are sent in any run. */
	while (n > 0 && moves[0].class >= BB_COUNTER_FREQUENCY &&
	       moves[n - 1].class == BB_COUNTER_TRAFFIC)
		n--;
	return n;
}

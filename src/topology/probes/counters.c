#include "topology/probes/counters_parts.h"

#include "core/array.h"
#include "core/file.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bb_counter_class_name(enum bb_counter_class class)
{
	static const char *const names[BB_COUNTER_NCLASSES] = {
		[BB_COUNTER_LINK_DOWN] = "link down",   [BB_COUNTER_SYMBOL_ERROR] = "symbol error",
		[BB_COUNTER_ERROR] = "error",           [BB_COUNTER_DISCARD] = "discard",
		[BB_COUNTER_RETRANSMIT] = "retransmit", [BB_COUNTER_FREQUENCY] = "frequency",
		[BB_COUNTER_TRAFFIC] = "traffic",
	};

	return names[class];
}

/*
 * Drivers name thousands of counters, so parts of names classify them: the first part that a name
 * contains, in any case, decides. NCLASSES is not an error: each closed connection flushes
 * completions, and errors per lane count before correction.
 */
static const struct {
	const char *part;
	enum bb_counter_class class;
} parts[] = {
	{"cqe", BB_COUNTER_NCLASSES},
	{"flush_err", BB_COUNTER_NCLASSES},
	{"err_lane", BB_COUNTER_NCLASSES},
	{"corrected", BB_COUNTER_NCLASSES},
	{"link_down", BB_COUNTER_LINK_DOWN},
	{"carrier_down", BB_COUNTER_LINK_DOWN},
	{"symbol_err", BB_COUNTER_SYMBOL_ERROR},
	{"retrans", BB_COUNTER_RETRANSMIT},
	{"packet_seq_err", BB_COUNTER_RETRANSMIT},
	{"implied_nak", BB_COUNTER_RETRANSMIT},
	{"out_of_sequence", BB_COUNTER_RETRANSMIT},
	{"ack_timeout", BB_COUNTER_RETRANSMIT},
	{"rnr_nak", BB_COUNTER_RETRANSMIT},
	{"discard", BB_COUNTER_DISCARD},
	{"drop", BB_COUNTER_DISCARD},
	{"out_of_buffer", BB_COUNTER_DISCARD},
	{"missed_err", BB_COUNTER_DISCARD},
	{"allowance_exceeded", BB_COUNTER_DISCARD},
	{"err", BB_COUNTER_ERROR},
	{"_MHz", BB_COUNTER_FREQUENCY},
	{"OutSegs", BB_COUNTER_TRAFFIC},
};

static enum bb_counter_class classify(const char *name)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strcasestr(name, parts[i].part))
			return parts[i].class;
	return BB_COUNTER_NCLASSES;
}

/* ---- reading -------------------------------------------------------------------------------- */

void bb_counters_add(struct bb_counters *c, const char *device, const char *name, int64_t value)
{
	const enum bb_counter_class class = classify(name);
	struct bb_counter *new;

	if (class == BB_COUNTER_NCLASSES)
		return;
	new = BB_ARRAY_ADD(c->list, c->n, c->room);
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
		bb_counters_add(c, label, name, value);
}

static void read_sysfs(struct bb_counters *c, const char *root)
{
	static const char *const patterns[] = {
		"/sys/class/net/*/statistics/*",
		"/sys/class/net/*/carrier_down_count",
		"/sys/class/infiniband/*/hw_counters/*",
		"/sys/class/infiniband/*/ports/*/counters/*",
		"/sys/class/infiniband/*/ports/*/hw_counters/*",
	};
	char pattern[PATH_MAX];

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		glob_t found = {.gl_pathc = 0};

		snprintf(pattern, sizeof(pattern), "%s%s", root, patterns[i]);
		if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
			for (size_t k = 0; k < found.gl_pathc; k++)
				add_counter_file(c, root, found.gl_pathv[k]);
		globfree(&found);
	}
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
			bb_counters_add(c, "tcp", name, number);
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

static void read_cpuinfo(struct frequencies *f, const char *root)
{
	char path[PATH_MAX], *const text = malloc(CPUINFO_BYTES), *rest = text, *line;

	snprintf(path, sizeof(path), "%s/proc/cpuinfo", root);
	if (text && bb_kernel_read(path, text, CPUINFO_BYTES) > 0)
		while ((line = next_line(&rest, "cpu MHz")) && (line = strchr(line, ':')))
			note_frequency(f, strtod(line + 1, NULL));
	free(text);
}

static void read_cpufreq(struct frequencies *f, const char *root)
{
	char pattern[PATH_MAX], line[64];
	glob_t found = {.gl_pathc = 0};

	snprintf(pattern, sizeof(pattern),
		 "%s/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", root);
	if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (bb_kernel_line(found.gl_pathv[i], line, sizeof(line)))
				note_frequency(f, strtod(line, NULL) / 1000);
	globfree(&found);
}

/* /proc/cpuinfo comes first: some kernels wait 10 ms for each scaling_cur_freq, but there only
   once. */
static void read_frequencies(struct bb_counters *c, const char *root)
{
	struct frequencies f = {.n = 0};

	read_cpuinfo(&f, root);
	if (f.n == 0)
		read_cpufreq(&f, root);
	if (f.n == 0)
		return;
	bb_counters_add(c, "cpu", "least_MHz", (int64_t)(f.least + 0.5));
	bb_counters_add(c, "cpu", "mean_MHz", (int64_t)(f.sum / f.n + 0.5));
}

static int compare_counters(const struct bb_counter *a, const struct bb_counter *b)
{
	const int devices = strcmp(a->device, b->device);

	return devices ? devices : strcmp(a->name, b->name);
}

static int by_name(const void *a, const void *b)
{
	return compare_counters(a, b);
}

void bb_counters_read(struct bb_counters *c, const struct bb_counters_source *source)
{
	c->n = 0;
	read_sysfs(c, source->root);
	bb_counters_read_ethtool(c, source);
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

/* Whether A is listed before B. */
static bool is_graver(const struct bb_counter_move *a, const struct bb_counter_move *b)
{
	return a->class != b->class ? a->class < b->class : move_size(a) > move_size(b);
}

/* Insert MOVE into the N sorted MOVES; if they are ROOM, the least grave is dropped. Returns their
   new number. */
static size_t insert_move(struct bb_counter_move *moves, size_t n, size_t room,
			  const struct bb_counter_move *move)
{
	size_t at = n;

	while (at > 0 && is_graver(move, &moves[at - 1]))
		at--;
	if (at == room)
		return n;
	n += n < room;
	memmove(&moves[at + 1], &moves[at], (n - at - 1) * sizeof(*moves));
	moves[at] = *move;
	return n;
}

static struct bb_counter_move move_of(const struct bb_counter *before,
				      const struct bb_counter *after)
{
	struct bb_counter_move m = {
		.class = (int32_t)after->class, .before = before->value, .after = after->value};

	memcpy(m.device, after->device, sizeof(m.device));
	memcpy(m.name, after->name, sizeof(m.name));
	return m;
}

size_t bb_counters_moved(const struct bb_counters *before, const struct bb_counters *after,
			 struct bb_counter_move *moves, size_t room)
{
	size_t n = 0;

	for (size_t i = 0, k = 0; i < before->n && k < after->n;) {
		const struct bb_counter *const a = &before->list[i], *const b = &after->list[k];
		const int order = compare_counters(a, b);
		const struct bb_counter_move move = move_of(a, b);

		if (order == 0 && a->value != b->value)
			n = insert_move(moves, n, room, &move);
		i += order <= 0;
		k += order >= 0;
	}
	/* Segments are sent in any run. */
	while (n > 0 && moves[0].class >= BB_COUNTER_FREQUENCY &&
	       moves[n - 1].class == BB_COUNTER_TRAFFIC)
		n--;
	return n;
}

/*
 * hwloc_links.c - NVLinks in hwloc's XML.
 */
#include "topology/build.h"
#include "topology/files/formats.h"
#include "topology/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int device_of(const struct bb_gp *gps, int ngps, int64_t gp)
{
	for (int i = 0; i < ngps; i++)
		if (gps[i].gp == gp)
			return gps[i].device;
	return BB_PEER_MISSING;
}

static bool is_gpu(const struct bb_topology *t, int device)
{
	return device >= 0 && t->devices[device].kind == BB_GPU;
}

/* ---- busbench's own ------------------------------------------------------------------------ */

/* Repetitions of "kind peer version count down MB/s". */
static bb_status read_links(const char *text, int device, struct bb_topology *t,
			    struct bb_error *error)
{
	int kind, peer, version, count, down, MBps, length = 0;
	bb_status st = BB_OK;

	while (sscanf(text, "%d %d %d %d %d %d%n", &kind, &peer, &version, &count, &down, &MBps,
		      &length) == 6) {
		struct bb_link l = {.kind = kind == BB_C2C ? BB_C2C : BB_NVLINK,
				    .device = device,
				    .peer = peer,
				    .version = version & 0xf,
				    .count = count,
				    .down = down,
				    .GBps = MBps / 1000.0};

		if (peer >= 0)
			l.peer = bb_topology_device(t, BB_GPU, peer);
		if (l.peer < BB_PEER_CPU || (peer >= 0 && l.peer < 0) || l.peer == device ||
		    count < 0 || count > 999 || down < 0 || down > 999 || MBps < 0)
			return bb_fail(error, BB_EUSAGE, "%.40s: not a valid link of a GPU", text);
		BB_TRY(st, bb_add_link(t, &l, error), out);
		text += length;
	}
out:
	return st;
}

static bb_status read_p2p(const char *digits, int device, struct bb_topology *t,
			  struct bb_error *error)
{
	const int n = bb_topology_count(t, BB_GPU);
	bb_status st = bb_add_p2p(t, error);

	for (int i = 0;
	     i < n && st == BB_OK && digits[i] >= '0' && digits[i] < '0' + BB_P2P_UNKNOWN; i++)
		t->p2p[device * n + i] = (uint8_t)(digits[i] - '0');
	return st;
}

bb_status bb_read_own_links(const struct bb_gp *gps, int ngps, const struct bb_xml *x,
			    struct bb_topology *t, struct bb_error *error)
{
	int device = BB_PEER_MISSING;
	bb_status st = BB_OK;

	if (strcmp(bb_xml_text(x, "type"), "OSDev") == 0)
		device = device_of(gps, ngps, bb_xml_number(x, "gp_index", 0, INT64_MAX, -1));
	for (const struct bb_xml *c = x->child; c; c = c->next) {
		const char *name = bb_xml_text(c, "name"), *value = bb_xml_text(c, "value");

		if (bb_xml_is(c, "object"))
			BB_TRY(st, bb_read_own_links(gps, ngps, c, t, error), out);
		if (!bb_xml_is(c, "info") || !is_gpu(t, device))
			continue;
		if (strcmp(name, BB_INFO_NVLINK) == 0)
			BB_TRY(st, read_links(value, device, t, error), out);
		if (strcmp(name, BB_INFO_P2P) == 0)
			BB_TRY(st, read_p2p(value, device, t, error), out);
	}
out:
	return st;
}

/* ---- hwloc's matrix ------------------------------------------------------------------------ */

#define MOST_ENDS 256 /* GPUs, switches and packages */

struct matrix {
	int n;
	int ends[MOST_ENDS]; /* device, BB_PEER_* or BB_PEER_MISSING */
};

/* "OSDev:802 PCIDev:449" or, where all are of one type, "802 803". */
static void read_ends(const struct bb_gp *gps, int ngps, const char *text, struct matrix *m)
{
	while (m->n < MOST_ENDS) {
		size_t length = strcspn(text, " \t\r\n");
		const char *colon = memchr(text, ':', length);
		const char *number = colon ? colon + 1 : text;
		char *end;
		long long gp = strtoll(number, &end, 10);

		if (length == 0 && !*text)
			return;
		if (length > 0)
			m->ends[m->n++] = end > number ? device_of(gps, ngps, gp) : BB_PEER_MISSING;
		text += length + (text[length] != '\0');
	}
}

/* Add the links of a value of the matrix, MB/s of all links from A to B. */
static bb_status add_links(int a, int b, double MBps, struct bb_topology *t, struct bb_error *error)
{
	struct bb_link l = {.kind = BB_NVLINK, .device = a, .peer = b};
	struct bb_nvlink nvlink;
	double each;

	if (!is_gpu(t, a) || (b >= 0 && !is_gpu(t, b)) || b == BB_PEER_MISSING || a == b ||
	    MBps <= 0)
		return BB_OK;
	nvlink = bb_nvlink_of(t->devices[a].sm);
	l.version = nvlink.version;
	l.GBps = nvlink.payload;
	each = l.GBps > 0 ? l.GBps * 1000 : MBps;
	l.count = (int)lround(MBps / each);
	return l.count > 0 && l.count < 1000 ? bb_add_link(t, &l, error) : BB_OK;
}

bb_status bb_read_hwloc_nvlinks(const struct bb_gp *gps, int ngps, const struct bb_xml *matrix,
				struct bb_topology *t, struct bb_error *error)
{
	struct matrix m = {0};
	int at = 0;
	bb_status st = BB_OK;

	for (const struct bb_xml *c = matrix->child; c; c = c->next)
		if (bb_xml_is(c, "indexes"))
			read_ends(gps, ngps, c->text, &m);
	for (const struct bb_xml *c = matrix->child; c; c = c->next) {
		const char *text = bb_xml_is(c, "u64values") ? c->text : "";
		char *end;

		for (;; text = end, at++) {
			unsigned long long value = strtoull(text, &end, 10);

			if (end == text || at >= m.n * m.n)
				break;
			/* Larger values stand on the diagonal. */
			if (value < 1000000000)
				BB_TRY(st,
				       add_links(m.ends[at / m.n], m.ends[at % m.n], (double)value,
						 t, error),
				       out);
		}
	}
out:
	return st;
}

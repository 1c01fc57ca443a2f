/*
 * print.h - a topology as text and as JSON.
 */
#pragma once

#include "topology/bound.h"

/* What is printed, and where. Lines have at most WIDTH columns if their text can be wrapped or
   cut. */
struct bb_printer {
	const struct bb_topology *t;
	int width;
	struct bb_strbuf *out; /* is appended to */
	const struct bb_rank_place *ranks;
	int nranks;
};

/* Device D: "1b:00.0 Gen5 x16, H100 80GB HBM3, 18 NVLink4 to switches". */
void bb_describe_device(const struct bb_topology *t, int d, struct bb_strbuf *out);
/* A summary, and the tree of devices. */
void bb_print_tree(const struct bb_printer *p);
/* GPUs and NICs as in nvidia-smi topo -m, with its legend; nothing for less than two devices. */
void bb_print_matrix(const struct bb_printer *p);
/* Distances of NUMA nodes by the firmware; nothing for a single node. */
void bb_print_numas(const struct bb_printer *p);
/* Findings, or "none". */
void bb_print_findings(const struct bb_printer *p);
/* The speed of light of the ranks; nothing for a single rank. */
void bb_print_bounds(const struct bb_printer *p);
/* Everything as one JSON object. */
void bb_print_json(const struct bb_printer *p);

/*
 * A sentence for each difference between two machines, called NAME_A and NAME_B. Returns their
 * number.
 *
 * Devices are compared by their bus addresses if most of them are the same, the others by their
 * names.
 * Not compared is what varies between machines of one kind: numbers of PCI buses, host names; less
 * than 1 percent of memory; the current generation of PCIe links, which idle GPUs lower; the number
 * of nodes.
 */
int bb_print_diff(const struct bb_topology *a, const struct bb_topology *b, const char *name_a,
		  const char *name_b, int width, struct bb_strbuf *out);

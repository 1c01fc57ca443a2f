/*
 * print.h - a topology as text and as JSON.
 */
#ifndef BB_TOPOLOGY_TOOL_PRINT_H
#define BB_TOPOLOGY_TOOL_PRINT_H

#include "topology/bound.h"

/* Lines have at most WIDTH columns where their text can be split or shortened. */

/* A summary, and the devices by their path to the CPUs. */
void bb_print_tree(const struct bb_topology *t, int width, struct bb_strbuf *out);
/* GPUs and NICs like nvidia-smi topo -m, with its legend; nothing if there are none. */
void bb_print_matrix(const struct bb_topology *t, int width, struct bb_strbuf *out);
/* NUMA nodes: the distances that the firmware gives; nothing if there is only one node. */
void bb_print_numas(const struct bb_topology *t, int width, struct bb_strbuf *out);
/* Findings, or that there are none. */
void bb_print_findings(const struct bb_topology *t, int width, struct bb_strbuf *out);
/* The speed of light of N ranks. */
void bb_print_bounds(const struct bb_topology *t, const struct bb_rank_place *ranks, int n,
		     int width, struct bb_strbuf *out);

/* All of that, for programs: one object. */
void bb_print_json(const struct bb_topology *t, const struct bb_rank_place *ranks, int n,
		   struct bb_strbuf *out);

#endif

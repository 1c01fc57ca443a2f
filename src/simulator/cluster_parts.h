/*
 * cluster_parts.h - shared by the parts of a cluster's description.
 */
#ifndef BB_SIMULATOR_CLUSTER_PARTS_H
#define BB_SIMULATOR_CLUSTER_PARTS_H

#include "simulator/cluster.h"

/* Settings of a file other than figures; empty or 0 where it has none. */
struct bb_figure_head {
	char system[BB_TEXT], topology[BB_SETTING_LINE];
	int nodes;
};

/*
 * Read figures of a TEXT of settings into FIGURES (NULL: skip them), other
 * settings into HEAD (NULL: they are errors). BB_EUSAGE names the line that is wrong.
 */
BB_MUST bb_status bb_figures_read(const struct bb_settings *text, double *figures,
				  struct bb_figure_head *head, struct bb_error *error);
/* The same of SECTION of clusters.txt; there may be none. */
BB_MUST bb_status bb_figures_read_known(const char *section, double *figures,
					struct bb_error *error);

/* BB_EUSAGE where FIGURES contradict each other; NAME is for the error. */
BB_MUST bb_status bb_figures_check(const char *name, const double *figures, struct bb_error *error);

/* Derive from c->node the ranks of a node, the links between them and the rails; and both rates
   where c->figures has none. BB_EUNSUPPORTED: the topology lacks a rate. */
BB_MUST bb_status bb_cluster_derive(struct bb_cluster *c, struct bb_error *error);

/* Does device NIC of T serve a GPU or, where there are none, the host? */
bool bb_cluster_nic_serves(const struct bb_topology *t, int nic);

/* The rate between GPUs A and B over PCIe, bytes per second; 0 unknown. */
double bb_cluster_pcie_rate(const struct bb_topology *t, int a, int b);

#endif

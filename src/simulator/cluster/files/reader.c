/*
 * reader.c - the symbol that backends/topology.so exports.
 */
#include "simulator/cluster/cluster.h"
#include "topology/files/files.h"

const struct bb_topology_reader bb_plugin_topology = {BB_READER_ABI, bb_topology_parse};

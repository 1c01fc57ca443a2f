/*
 * counters_parts.h - internals of the readers of counters.
 */
#ifndef BB_TOPOLOGY_PROBES_COUNTERS_PARTS_H
#define BB_TOPOLOGY_PROBES_COUNTERS_PARTS_H

#include "topology/probes/counters.h"

/* Add a counter, unless NAME has no class. */
void bb_counters_add(struct bb_counters *counters, const char *device, const char *name,
		     int64_t value);

/* Add statistics of the drivers, except those that sysfs has given under the same name. */
void bb_counters_read_ethtool(struct bb_counters *counters,
			      const struct bb_counters_source *source);

#endif

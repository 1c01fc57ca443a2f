/*
 * counters_parts.h - what the readers of counters share.
 */
#ifndef BB_TOPOLOGY_PROBES_COUNTERS_PARTS_H
#define BB_TOPOLOGY_PROBES_COUNTERS_PARTS_H

#include "topology/probes/counters.h"

/* Nothing where NAME is of no class. */
void bb_counters_add(struct bb_counters *counters, const char *device, const char *name,
		     int64_t value);

/* Statistics of the drivers, but for those that sysfs gave already under the same name. */
void bb_counters_read_ethtool(struct bb_counters *counters,
			      const struct bb_counters_source *source);

#endif

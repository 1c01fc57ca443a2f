/*
 * fan.h - the turn of one rank with all others at once, over one route: all-to-one, where the
 * others send to it, and one-to-all, where it sends to them. Each of the others moves a part of the
 * bytes of the cell, so all of them go through that rank's port.
 *
 * The ends that move bytes are the others, one transfer each; where both ends act, the route
 * batches the transfers of that rank (backends/routes.h).
 */
#ifndef BB_P2P_FAN_H
#define BB_P2P_FAN_H

#include "p2p/turn.h"

#define BB_FAN_GRAIN 256 /* bytes: parts begin at multiples of it */

/* Returns the part of CELL that OTHER moves from or to HUB, of N ends. */
struct bb_pair_range bb_fan_part_of(const struct bb_cell *cell, int n, int hub, int other);

/* NULL, or why CELL cannot be split among N ends. */
const char *bb_fan_refuses(const struct bb_cell *cell, int n);

/* True if transfers of ROUTE in DIRECTION go on at once. */
bool bb_fan_uses(const struct bb_backend *backend, const struct bb_route *route,
		 enum bb_direction direction);

/*
 * bb_turn_act and bb_turn_verify of a fan. The series of the hub with itself gets the time until
 * the last transfer has ended; on CPUs, where one end acts, its series with the next rank that of
 * private copies of the same bytes by the same ranks.
 */
BB_MUST bb_status bb_fan_act(const struct bb_turn *t);
BB_MUST bb_status bb_fan_verify(const struct bb_turn *t);

/* Returns the bandwidth in bytes per second that HUB's port allows, or, where it is not known,
   those private copies, which take PRIVATE_S seconds; 0: none is known. *SOURCE names it. On rank
   0. */
double bb_fan_bound(struct bb_pairs *pairs, const struct bb_cell *cell, int hub, double private_s,
		    const char **source);

#endif

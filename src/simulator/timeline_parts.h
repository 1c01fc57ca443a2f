/*
 * timeline_parts.h - what the timelines of collectives and of programs share. Known to timeline*.c
 * only.
 */
#ifndef BB_SIMULATOR_TIMELINE_PARTS_H
#define BB_SIMULATOR_TIMELINE_PARTS_H

#include "core/random.h"
#include "simulator/timeline.h"

#include <math.h>

/* Mix WORD into what was drawn for so far. */
static inline uint64_t bb_draw(uint64_t so_far, uint64_t word)
{
	return bb_random_mix(so_far + BB_RANDOM_STEP + word);
}

/* How much longer than without noise something takes that DRAWN is for: lognormal, its median 1
   (Box and Muller's transform). */
static inline double bb_noise_factor(const struct bb_link_model *links, uint64_t drawn)
{
	double u, v;

	if (links->noise == 0)
		return 1;
	u = bb_random_positive(bb_draw(drawn, 1));
	v = bb_random_uniform(bb_draw(drawn, 2));
	return exp(links->noise * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* How long BYTES take to enter a link. */
static inline double bb_link_entry(const struct bb_link_model *links, double bytes)
{
	return links->rate > 0 ? bytes / links->rate : 0;
}

/* The rank of the world that MEMBER of a group is. */
static inline int bb_link_member(const struct bb_link_model *links, int member)
{
	return links->members ? links->members[member] : member;
}

/* Do messages of a rank share ports? */
static inline bool bb_link_ports(const struct bb_link_model *links)
{
	return links->port || links->fabric;
}

/* Do several ranks share links? */
static inline bool bb_link_shares(const struct bb_link_model *links)
{
	return links->fabric && bb_fabric_shares_any(links->fabric);
}

/* How many times as long as alone a byte takes over MEMBER's shared resource of LEVEL. */
static inline double bb_link_crowd(const struct bb_link_model *links, enum bb_fabric_level level,
				   int member)
{
	return links->crowd ? links->crowd[member * BB_LEVELS + level] : 1;
}

/* Seconds that each byte over MEMBER's RAIL takes. */
static inline double bb_link_rail(const struct bb_link_model *links, int member, int rail)
{
	const int node = bb_link_member(links, member) / links->fabric->per_node;

	return bb_fabric_shared_second_per_byte(links->fabric, BB_LEVEL_RAIL, node, rail) *
	       bb_link_crowd(links, BB_LEVEL_RAIL, member);
}

/* How a message gets from FROM to another member, TO: outside says which of a rank's two ways. */
static inline struct bb_fabric_way bb_link_way(const struct bb_link_model *links, int from, int to)
{
	const int a = bb_link_member(links, from), b = bb_link_member(links, to);
	struct bb_fabric_way way = {
		.second_per_byte = links->rate > 0 ? 1 / links->rate : 0,
		.latency = links->latency,
	};

	if (links->fabric)
		way = bb_fabric_way(links->fabric, a, b);
	if (links->crowd && way.outside)
		way.second_per_byte = fmax(bb_link_rail(links, from, way.out_rail),
					   bb_link_rail(links, to, way.in_rail));
	if (links->slow_link.factor > 0 && links->slow_link.from == a && links->slow_link.to == b) {
		way.second_per_byte *= links->slow_link.factor;
		way.latency *= links->slow_link.factor;
	}
	return way;
}

/* How long BYTES take on WAY's ends where a byte takes SECOND_PER_BYTE. On links that are all alike
   as bb_link_entry has it, bit for bit. */
static inline double bb_way_entry(const struct bb_link_model *links, double second_per_byte,
				  double bytes)
{
	if (links->fabric)
		return links->fabric->overhead + bytes * second_per_byte;
	return links->slow_link.factor > 0 ? bytes * second_per_byte : bb_link_entry(links, bytes);
}

/* Whoever paces LINKS hears that DONE of ALL rounds of N ranks are played, every some thousand
   ranks. False: the play is to end. */
static inline bool bb_goes_on(const struct bb_link_model *links,
			      const struct bb_algorithm *schedule, size_t done, size_t all, int n)
{
	const size_t mask = n < 64 ? 1023 : n < 4096 ? 63 : 0;

	return !links->pace || (done & mask) != 0 ||
	       links->pace->goes_on(links->pace->own, schedule, done, all);
}

/* ---- what several ranks share in one round (timeline_loads.c) ------------------------- */

struct bb_loads;

/* Of N members. NULL: out of memory. */
struct bb_loads *bb_loads_open(const struct bb_link_model *links, int n);
void bb_loads_close(struct bb_loads *loads); /* NULL: nothing */
/* A message of BYTES from FROM to TO is there in this round; the round is over. */
void bb_loads_add(struct bb_loads *loads, int from, int to, const struct bb_fabric_way *way,
		  double bytes);
void bb_loads_drop(struct bb_loads *loads, int from, int to, const struct bb_fabric_way *way);
/* Seconds that each of its bytes takes, once all of the round are there: at least the way's. */
double bb_loads_second_per_byte(const struct bb_loads *loads, int from, int to,
				const struct bb_fabric_way *way);

/* ---- all ranks at once (timeline_alike.c) --------------------------------------------- */

/* Rounds times ranks that are really played. */
double bb_alike_work(const struct bb_link_model *links, const struct bb_algorithm *schedule,
		     const struct bb_shape *shape);
/* SHAPE with parts as long as the longest. */
struct bb_shape bb_alike_shape(const struct bb_algorithm *schedule, const struct bb_shape *shape);
/* BB_EUNSUPPORTED, with TIMES as they were: ranks that differ have too many links to keep. */
BB_MUST bb_status bb_timeline_alike(const struct bb_link_model *links,
				    const struct bb_algorithm *schedule,
				    const struct bb_shape *shape, double element, double *times);

/* ---- ranks that are at the same point at once (timeline_classes.c) ---------------------- */

/* Of a schedule with partners, without noise, and where nothing is shared. */
BB_MUST bb_status bb_timeline_classes(const struct bb_link_model *links,
				      const struct bb_algorithm *schedule,
				      const struct bb_shape *shape, double element, double *times);

#endif

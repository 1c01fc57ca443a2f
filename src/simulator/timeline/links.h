/*
 * links.h - how long messages take over links, for all timelines: for this folder alone.
 */
#pragma once

#include "core/random.h"
#include "simulator/timeline/timeline.h"

#include <math.h>
#include <stdlib.h>

/* ---- slabs of memory that are freed together ------------------------------------------ */

struct bb_slab {
	struct bb_slab *next;
	_Alignas(16) char bytes[];
};

struct bb_slabs { /* zero-initialise */
	struct bb_slab *first;
	bool lacking; /* there was no memory for one of them */
};

static inline void *bb_slabs_take(struct bb_slabs *slabs, size_t bytes, bool zeroed)
{
	struct bb_slab *new =
		zeroed ? calloc(1, sizeof(*new) + bytes) : malloc(sizeof(*new) + bytes);

	if (!new) {
		slabs->lacking = true;
		return NULL;
	}
	new->next = slabs->first;
	slabs->first = new;
	return new->bytes;
}

static inline void bb_slabs_free(struct bb_slabs *slabs)
{
	while (slabs->first) {
		struct bb_slab *next = slabs->first->next;

		free(slabs->first);
		slabs->first = next;
	}
}

/* Set POINTER to room for COUNT elements: NULL where SLABS are lacking. */
#define BB_TAKE(slabs, pointer, count)                                                             \
	((pointer) = bb_slabs_take((slabs), (count) * sizeof(*(pointer)), false))
#define BB_TAKE_ZEROED(slabs, pointer, count)                                                      \
	((pointer) = bb_slabs_take((slabs), (count) * sizeof(*(pointer)), true))

/* ---- noise and links ------------------------------------------------------------------ */

/* Mix WORD into the identity that a random number is drawn for. */
static inline uint64_t bb_draw(uint64_t so_far, uint64_t word)
{
	return bb_random_mix(so_far + BB_RANDOM_STEP + word);
}

/* The noise factor drawn for the identity DRAWN: lognormal with median 1 (Box and Muller's
   transform). */
static inline double bb_noise_factor(const struct bb_link_model *links, uint64_t drawn)
{
	double u, v;

	if (links->noise == 0)
		return 1;
	u = bb_random_positive(bb_draw(drawn, 1));
	v = bb_random_uniform(bb_draw(drawn, 2));
	return exp(links->noise * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* The rank in the world of MEMBER of a group. */
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
	for (enum bb_fabric_level level = 0; links->fabric && level < BB_LEVELS; level++)
		if (bb_fabric_shares(links->fabric, level))
			return true;
	return false;
}

/* The factor by which ranks outside the group slow MEMBER's shared link of LEVEL. */
static inline double bb_link_crowd(const struct bb_link_model *links, enum bb_fabric_level level,
				   int member)
{
	return links->crowd ? links->crowd[member * BB_LEVELS + level] : 1;
}

/* Seconds per byte over MEMBER's RAIL. */
static inline double bb_link_rail(const struct bb_link_model *links, int member, int rail)
{
	return bb_fabric_shared_second_per_byte(links->fabric, BB_LEVEL_RAIL,
						bb_link_member(links, member), rail) *
	       bb_link_crowd(links, BB_LEVEL_RAIL, member);
}

/* The route of a message from member FROM to another, TO; route.outside selects the port. */
static inline struct bb_fabric_route bb_link_route(const struct bb_link_model *links, int from,
						   int to)
{
	const int a = bb_link_member(links, from), b = bb_link_member(links, to);
	struct bb_fabric_route route = {
		.second_per_byte = links->rate > 0 ? 1 / links->rate : 0,
		.latency = links->latency,
	};

	if (links->fabric)
		route = bb_fabric_route(links->fabric, a, b);
	if (links->crowd && route.outside)
		route.second_per_byte = fmax(bb_link_rail(links, from, route.out_rail),
					     bb_link_rail(links, to, route.in_rail));
	if (links->slow_link.factor > 0 && links->slow_link.from == a && links->slow_link.to == b) {
		route.second_per_byte *= links->slow_link.factor;
		route.latency *= links->slow_link.factor;
	}
	return route;
}

/* How long a message takes, in seconds. */
struct bb_passage {
	double entry;   /* on the port that it enters or, without ports, into its link */
	double exit;    /* on the port that it leaves by */
	double latency; /* from its beginning at one port to that at the other */
	bool pulled;    /* the receiver copies it, once it has come to the receive */
	double sum;     /* to add it to what the receiver has */
	/* It arrives so much later if its receiver sends to the sender at once: between CPUs each
	   has the work of a fragment twice. */
	double swap;
};

/* The passage of BYTES over ROUTE at SECOND, at least the route's seconds per byte, where memory
   gives MEMORY seconds per byte to copies, which read and write: an addition reads twice and
   writes. On identical links a message takes its bytes over the rate, bit for bit. */
static inline struct bb_passage bb_link_passage(const struct bb_link_model *links,
						const struct bb_fabric_route *route, double second,
						double bytes, double memory)
{
	const struct bb_fabric *f = links->fabric;
	struct bb_passage p = {.entry = bytes * second, .latency = route->latency};
	double delay = 0;

	if (!f) {
		if (links->slow_link.factor <= 0)
			p.entry = links->rate > 0 ? bytes / links->rate : 0;
		p.exit = p.entry;
		return p;
	}
	for (int i = 0; i < BB_FABRIC_LIMITS; i++)
		if (bytes > f->limits[i].most)
			delay += f->limits[i].latency;
	p.latency += delay;
	p.entry = f->overhead + bytes * second;
	p.sum = bytes * fmax(f->sum_second_per_byte, 1.5 * memory);
	p.pulled = f->pulls && !route->outside && bytes > f->limits[BB_FABRIC_LIMITS - 1].most;
	p.exit = p.pulled ? f->overhead : p.entry;
	if (f->pulls && !route->outside && bytes > f->limits[0].most)
		p.swap = f->limits[0].latency;
	return p;
}

/* Does one of N STEPS send to PEER? */
static inline bool bb_steps_send_to(const struct bb_step *steps, int n, int peer)
{
	for (int i = 0; i < n; i++)
		if (steps[i].kind == BB_SEND && steps[i].peer == peer)
			return true;
	return false;
}

/* Report to links->pace, once every few thousand ranks, that DONE of ALL rounds of N ranks are
   evaluated. Returns false when the evaluation is to end. */
static inline bool bb_pace_allows(const struct bb_link_model *links,
				  const struct bb_algorithm *schedule, size_t done, size_t all,
				  int n)
{
	const size_t mask = n < 64 ? 1023 : n < 4096 ? 63 : 0;

	return !links->pace || (done & mask) != 0 ||
	       links->pace->goes_on(links->pace->own, schedule, done, all);
}

/* ---- load of shared links in one round (loads.c) ----------------------------- */

struct bb_loads;

/* For N members that perform SCHEDULE, in SLABS, which may be lacking then. */
struct bb_loads *bb_loads_open(const struct bb_link_model *links, struct bb_slabs *slabs,
			       const struct bb_algorithm *schedule, int n);
/* Add a message of BYTES from FROM to TO to the round. */
void bb_loads_add(struct bb_loads *loads, int from, int to, const struct bb_fabric_route *route,
		  double bytes);
/* End the round. */
void bb_loads_clear(struct bb_loads *loads);
/* Its seconds per byte once all messages of the round are added: at least those of its route.
 *MEMORY = those of the memory of TO, which it shares with others of the round. */
double bb_loads_second_per_byte(const struct bb_loads *loads, int from, int to,
				const struct bb_fabric_route *route, double *memory);

/* ---- messages of a program on shared links (flows.c) ------------------------- */

/* A rail, the uplinks of a leaf or a pod (fabric.h): concurrent messages divide a link evenly; one
   that joins slows the others, one that leaves speeds them up. */

struct bb_flows;

/* A callback for a changed end: FLOW ends at END unless another joins or leaves. */
struct bb_flows_watch {
	void (*ends)(void *own, int flow, double end);
	void *own;
};

/* Open COUNT flows, none active, in SLABS, which may be lacking then. */
struct bb_flows *bb_flows_open(const struct bb_link_model *model, struct bb_slabs *slabs,
			       size_t count, const struct bb_flows_watch *watch);

/* BYTES, above 0, of rank FROM go to rank TO from NOW on. Each takes ROUTE's time at least;
   everything takes FACTOR times as long. */
struct bb_flow {
	int from, to;
	struct bb_fabric_route route;
	double bytes, factor;
};
void bb_flows_join(struct bb_flows *flows, int flow, const struct bb_flow *what, double now);
/* FLOW has ended. */
void bb_flows_leave(struct bb_flows *flows, int flow, double now);

/* ---- all ranks at once (alike.c) --------------------------------------------- */

/* Rounds times ranks that are evaluated. */
double bb_timeline_alike_work(const struct bb_link_model *links,
			      const struct bb_algorithm *schedule, const struct bb_shape *shape);
/* SHAPE with parts as long as the longest. */
struct bb_shape bb_timeline_alike_shape(const struct bb_algorithm *schedule,
					const struct bb_shape *shape);
/* BB_EUNSUPPORTED, with TIMES unchanged: ranks that differ have too many links to keep. */
BB_MUST bb_status bb_timeline_alike(const struct bb_link_model *links,
				    const struct bb_algorithm *schedule,
				    const struct bb_shape *shape, double element, double *times);

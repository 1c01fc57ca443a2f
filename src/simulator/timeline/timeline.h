/*
 * timeline.h - schedules and programs in virtual time, over a model of the links. Pure: the same
 * inputs give the same times, bit for bit.
 *
 * The model is that of --link on the host backend: every ordered pair of ranks has a link of its
 * own, in each group and on each lane. A message enters its link when it has been sent and the
 * message before it has left, takes bytes / rate to enter, and arrives LATENCY later. Reading,
 * adding and copying take no time. A rank is done with a collective when its OUT is complete and
 * everything that it sent has arrived.
 *
 * With PORT a rank has one output port and one input port, which all its messages share as they
 * share a NIC. A message leaves when the one before has left, whatever its destination. LATENCY
 * later it reaches the input port, which it occupies for bytes / rate once the messages before it
 * are in, whatever their source. All messages of a program share these ports; a collective shares
 * them among its own messages only.
 */
#pragma once

#include "simulator/fabric.h"
#include "programs/program.h"

/* The schedules chosen so far on one link model. Zero-initialise. */
struct bb_choices {
	struct bb_chosen *chosen;
	size_t n, room;
};

void bb_choices_free(struct bb_choices *choices);

/* A callback for the progress of an evaluation, which it may end. */
struct bb_timeline_pace {
	/* DONE of ALL rounds of SCHEDULE, or (NULL) operations of a program, are evaluated. Returns
	   false to end the evaluation with BB_ETIMEOUT. */
	bool (*goes_on)(void *own, const struct bb_algorithm *schedule, size_t done, size_t all);
	void *own;
};

/* Messages from rank FROM of the world to rank TO take FACTOR times as long; 0: all are healthy. */
struct bb_slow_link {
	int from, to;
	double factor;
};

struct bb_link_model {
	double rate;    /* bytes per second; 0: a message takes no time to enter */
	double latency; /* seconds */
	/* Each computation and each message takes a random factor longer: lognormal with median 1;
	   this is the standard deviation of its logarithm. The factor follows from the seed and
	   from the identity of the operation, not from the order of evaluation. 0: no noise. */
	double noise;
	uint64_t seed;
	bool port; /* one output and one input port of each rank instead of a link of each pair */
	/* A network instead of identical links: rate, latency and port are ignored. */
	const struct bb_fabric *fabric;
	struct bb_slow_link slow_link;
	const int *members; /* ranks of the world that form the group; NULL: 0, 1, … */
	/* [member * BB_LEVELS + level]: how many times as long a byte takes over the member's
	   shared resource of that level (fabric.h), because ranks outside the group use it too;
	   NULL: no others do. */
	const double *crowd;
	/* A cache of choices and of the times of chosen collectives, for this model alone. NULL: no
	   cache. */
	struct bb_choices *choices;
	const struct bb_timeline_pace *pace; /* NULL: none */
};

/*
 * The evaluators of a collective. Both give the same times, bit for bit. CPU seconds are of one x86
 * core.
 *   sweep  Every round, rank by rank and message by message; for every algorithm. all_reduce by
 *          tree in 256 chunks: 3.7 to 7.7 s among 102,400 ranks.
 *   alike  BB_SHIFT_INVARIANT algorithms without noise: what rank 0 does in a round, all do, so a
 *          round is a few passes over arrays of ranks. Where routes repeat, only the first period
 *          of ranks is evaluated. all_gather by ring over links: 0.0002 instead of 1.5 s among
 *          4,096 ranks; 0.006 s among 102,400, where a sweep is 600 times as much work.
 * Where parts differ by an element, alike rounds all parts up to the longest. It is then used only
 * where a sweep would take too long.
 *
 * Sweep and alike divide shared links (fabric.h) by the load of each round where the fabric has
 * any; their names then are "loads" and "alike+loads".
 */
enum bb_evaluator { BB_EVALUATOR_SWEEP, BB_EVALUATOR_ALIKE };

/* The name of EVALUATOR on LINKS, such as "alike+loads". */
const char *bb_evaluator_name(enum bb_evaluator evaluator, const struct bb_link_model *links);

/* The evaluator that bb_timeline_collective uses. */
enum bb_evaluator bb_timeline_evaluator(const struct bb_link_model *links,
					const struct bb_algorithm *schedule,
					const struct bb_shape *shape);

/* Seconds that each rank takes to copy its IN before SCHEDULE, whose memory the caches hold in
   part; 0 without a fabric. */
double bb_timeline_copy(const struct bb_link_model *links, const struct bb_algorithm *schedule,
			const struct bb_shape *shape, size_t element);

/*
 * Evaluate SCHEDULE for SHAPE with elements of ELEMENT bytes. TIMES has one entry for each member:
 * on entry the time at which it enters, on return the time at which it is done, in seconds. CALL
 * numbers the collectives for the noise. BB_EINTERNAL: out of memory; BB_ETIMEOUT: links->pace
 * ended it.
 */
BB_MUST bb_status bb_timeline_collective(const struct bb_link_model *links,
					 const struct bb_algorithm *schedule,
					 const struct bb_shape *shape, size_t element,
					 uint64_t call, double *times);

/* The same, remembered in links->choices for a SCHEDULE chosen there whose members all enter at the
   same time: a later equal one, of members placed alike, takes the same seconds. */
BB_MUST bb_status bb_timeline_collective_known(const struct bb_link_model *links,
					       const struct bb_algorithm *schedule,
					       const struct bb_shape *shape, size_t element,
					       uint64_t call, double *times);

/* The same by EVALUATOR, for comparisons of evaluators: one that can evaluate SCHEDULE. Alike falls
   back to the sweep where ranks that differ have too many links to keep. */
BB_MUST bb_status bb_timeline_collective_by(enum bb_evaluator evaluator,
					    const struct bb_link_model *links,
					    const struct bb_algorithm *schedule,
					    const struct bb_shape *shape, size_t element,
					    uint64_t call, double *times);

/* The noise factor of CALL as a whole, for models that do not evaluate single messages. */
double bb_timeline_noise(const struct bb_link_model *links, uint64_t call);

/*
 * The schedule of COLLECTIVE called NAME or (NULL) the one that takes the least time on LINKS
 * without noise. Sets shape->chunk to the fastest chunk. Returns NULL with the reason in ERROR;
 * BB_ETIMEOUT: links->pace ended it.
 */
const struct bb_algorithm *bb_timeline_choose(const struct bb_link_model *links, const char *name,
					      const struct bb_collective *collective,
					      struct bb_shape *shape, size_t element,
					      struct bb_error *error);

/* A callback for every completed operation, in the order of completion. */
struct bb_timeline_watch {
	/* FROM is when the queue reached it (a collective: when this member did), TO when it was
	   done; SOURCE is the sender of a received message. */
	void (*done)(void *own, int rank, size_t index, const struct bb_operation *operation,
		     double from, double to, int source);
	void *own;
};

/*
 * Evaluate PROGRAM, which has passed its check, from time 0; *END = when all of it is done. WATCH
 * may be NULL. BB_EUNSUPPORTED: a collective has no schedule of the requested name; BB_EINTERNAL:
 * out of memory; BB_ETIMEOUT: links->pace ended it.
 */
BB_MUST bb_status bb_timeline_program(const struct bb_link_model *links,
				      const struct bb_program *program,
				      const struct bb_timeline_watch *watch, double *end,
				      struct bb_error *error);

/* How the collectives of a program are evaluated. */
struct bb_timeline_performer {
	/*
	 * TIMES has one entry for each of the N MEMBERS of the group: on entry when it reaches
	 * OPERATION, on return when it is done. INFINITY: not known yet; nor are the members that
	 * depend on it. A collective that some members may finish early is performed again as each
	 * member arrives; finished members stay finished. *WHOLE set to true states that no member
	 * finishes before all have arrived; then it is performed once more only. NUMBER numbers the
	 * collectives for the noise.
	 */
	bb_status (*perform)(void *own, const struct bb_operation *operation, const int *members,
			     int n, uint64_t number, double *times, bool *whole,
			     struct bb_error *error);
	void *own;
};

/* The same, with collectives done by PERFORMER (NULL: schedules by the program's name). */
BB_MUST bb_status bb_timeline_program_by(const struct bb_timeline_performer *performer,
					 const struct bb_link_model *links,
					 const struct bb_program *program,
					 const struct bb_timeline_watch *watch, double *end,
					 struct bb_error *error);

/*
 * timeline.h - when things happen: schedules and programs in virtual time, over a model of the
 * links. Pure: the same inputs give the same times, bit for bit.
 *
 * The model is that of --link on the host backend: every ordered pair of ranks has a link of its
 * own, in each group and on each lane. A message enters it when it is sent and the one before has
 * left, takes bytes / rate to do so, and is there LATENCY later. Reading, adding and copying take
 * no time. A collective is done on a rank when its OUT is complete and what it sent has arrived.
 *
 * With PORT a rank has one way out and one way in, which all its messages share as they share a
 * network card: a message leaves when the one before has left, whomever it goes to, and LATENCY
 * later comes in, bytes / rate long, once what came before it is in, whomever that is from. All
 * messages of a program share them; a collective those of its own messages.
 */
#ifndef BB_SIMULATOR_TIMELINE_H
#define BB_SIMULATOR_TIMELINE_H

#include "simulator/fabric.h"
#include "programs/program.h"

/* What was chosen so far, on one model of the links. Zero it at first. */
struct bb_choices {
	struct bb_chosen *chosen;
	size_t n, room;
};

void bb_choices_free(struct bb_choices *choices);

/* Who hears, now and then, how far a play has come, and may end it. */
struct bb_timeline_pace {
	/* DONE of ALL rounds of SCHEDULE, or (NULL) operations of a program, are played. False: the
	   play ends with BB_ETIMEOUT. */
	bool (*goes_on)(void *own, const struct bb_algorithm *schedule, size_t done, size_t all);
	void *own;
};

struct bb_link_model {
	double rate;    /* bytes per second; 0: a message takes no time to enter */
	double latency; /* seconds */
	/* Each computation and each message takes a factor more that is drawn for it, with this
	   standard deviation (of its logarithm); 0: none. What is drawn follows from the seed and
	   from what it is drawn for, not from when. */
	double noise;
	uint64_t seed;
	bool port; /* one way out and one way in of each rank, instead of a link of each pair */
	/* A network instead of links that are all alike: rate, latency and port mean nothing. */
	const struct bb_fabric *fabric;
	struct {
		int from, to;  /* ranks of the world: what goes this way */
		double factor; /* takes so many times as long; 0: none */
	} slow_link;
	const int *members; /* the ranks of the world that a collective is among; NULL: 0, 1, … */
	/* [member * BB_LEVELS + level]: a byte over what it shares there (fabric.h) takes so many
	   times as long, because ranks that are no members use it too; NULL: nobody else does. */
	const double *crowd;
	/* Choosing, without noise and faults, takes many times as long as playing: what is chosen
	   is added here, and found here again. NULL: it is not kept. */
	struct bb_choices *choices;
	const struct bb_timeline_pace *pace; /* NULL: nobody hears */
};

/*
 * How a collective is played:
 *   sweep   round after round, rank by rank, message by message
 *   loads   the same, and what is shared is divided by what passes it in a round
 *   alike   of an algorithm whose ranks do the same but for a shift (BB_SHIFT_INVARIANT): all
 *           ranks at once, of ranks whose ways repeat only the first period
 *   classes of an algorithm whose ranks keep their partners: ranks that have always been at the
 *           same point at once
 * All come to the same. But where parts differ by an element, alike takes them to be as long as
 * the longest: then it is taken only where a sweep would take too long.
 */
enum bb_evaluator {
	BB_EVALUATOR_SWEEP,
	BB_EVALUATOR_LOADS,
	BB_EVALUATOR_ALIKE,
	BB_EVALUATOR_ALIKE_LOADS,
	BB_EVALUATOR_CLASSES,
	BB_EVALUATORS
};
const char *bb_evaluator_name(enum bb_evaluator evaluator); /* "alike+loads" */

/* Which of them bb_timeline_collective takes. */
enum bb_evaluator bb_timeline_evaluator(const struct bb_link_model *links,
					const struct bb_algorithm *schedule,
					const struct bb_shape *shape);

/*
 * TIMES, one of each member, are when they enter SCHEDULE of SHAPE with elements of ELEMENT bytes,
 * and become when they are done. CALL tells one collective from the next to what is drawn.
 * BB_EINTERNAL without memory, BB_ETIMEOUT where whoever paces it ends it.
 */
BB_MUST bb_status bb_timeline_collective(const struct bb_link_model *links,
					 const struct bb_algorithm *schedule,
					 const struct bb_shape *shape, size_t element,
					 uint64_t call, double *times);

/* The same by EVALUATOR, which must be one that can do it: to hold them against each other. */
BB_MUST bb_status bb_timeline_collective_by(enum bb_evaluator evaluator,
					    const struct bb_link_model *links,
					    const struct bb_algorithm *schedule,
					    const struct bb_shape *shape, size_t element,
					    uint64_t call, double *times);

/* The factor that LINKS' noise draws for CALL as a whole, where that is not played message by
   message. */
double bb_timeline_noise(const struct bb_link_model *links, uint64_t call);

/*
 * What a collective of SHAPE is done by where NAME is asked for (NULL: what takes the least time on
 * LINKS), with shape->chunk set to the best length of its messages. NULL with the reason in ERROR:
 * BB_ETIMEOUT where whoever paces LINKS ended it.
 */
const struct bb_algorithm *bb_timeline_choose(const struct bb_link_model *links, const char *name,
					      const struct bb_collective *collective,
					      struct bb_shape *shape, size_t element,
					      struct bb_error *error);

/* Who hears of every operation that is done, in the order of their ends. */
struct bb_timeline_watch {
	/* FROM is when the queue came to it (a collective: when this member did), TO when it was
	   done; SOURCE, of a message that was received, is the rank that sent it. */
	void (*done)(void *own, int rank, size_t index, const struct bb_operation *operation,
		     double from, double to, int source);
	void *own;
};

/*
 * Play PROGRAM from time 0; *END = when all is done. PROGRAM has passed its check. WATCH may be
 * NULL. BB_EUNSUPPORTED for a collective that cannot be done in the way asked for, BB_EINTERNAL
 * without memory.
 */
BB_MUST bb_status bb_timeline_program(const struct bb_link_model *links,
				      const struct bb_program *program,
				      const struct bb_timeline_watch *watch, double *end,
				      struct bb_error *error);

/* Who does the collectives of a program. */
struct bb_timeline_performer {
	/*
	 * TIMES, one of each of the N MEMBERS of its group, are when they come to OPERATION, and
	 * become when they are done; INFINITY: never, as far as is known, and who depends on such a
	 * member stays so too. Of a collective that some may be done with early it is asked again
	 * as each member comes, and who is done stays done; not once *WHOLE is set, which says that
	 * here nobody is done before all have come. NUMBER tells one collective from the next to
	 * what is drawn.
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

#endif

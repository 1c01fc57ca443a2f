/*
 * play.h - has a backend do a program: rank by rank where ranks are real, all at once where time is
 * virtual (backends/virtual.h). What comes of it is the same: when each operation began and ended.
 */
#ifndef BB_HARNESS_MEASURE_PLAY_H
#define BB_HARNESS_MEASURE_PLAY_H

#include "harness/run/run.h"
#include "programs/program.h"
#include "simulator/timeline.h"

/* What computations stand for where their real kernel does not matter. */
enum bb_stand_in {
	BB_SLEEP, /* the queue is occupied, no core or GPU is */
	BB_SPIN,  /* a core, or a part of the GPU, is busy */
	BB_GEMM,  /* matrices are multiplied, as many as the operation's flops say (cuBLAS) */
	BB_STAND_INS
};
extern const char *const bb_stand_in_names[]; /* ends with NULL */

/* What a kernel gives beside the program. */
struct bb_play {
	const struct bb_program *program;
	enum bb_stand_in stand_in;
	/*
	 * Does a computation for real, in its queue's order, on whatever thread; RANK's memory
	 * is within reach. NULL: stand-ins.
	 */
	void (*compute)(void *own, int rank, const struct bb_operation *operation);
	/*
	 * *in and *out = the buffers of a collective, or of a message (*out of what is received,
	 * *in of what is sent), in the backend's memory, until the program has been played. Not
	 * called where time is virtual. NULL: the player has buffers of its own, one of each
	 * operation's size for all of a queue, the contents of which mean nothing.
	 */
	void (*buffers)(void *own, int rank, const struct bb_operation *operation, void **in,
			void **out);
	void *own;
};

struct bb_player; /* one driver's */

/*
 * Make ready what all playings of PLAY's program have in common: queues, events, groups, calls
 * settled, buffers. Collective over the world, after bb_run_attend. *PLAYER is closed by
 * bb_player_close; PLAY and its program must last as long. BB_EUNSUPPORTED, on all ranks, for what
 * the backend cannot do, with the first reason of any in REFUSAL: then nothing is open, and the
 * caller may go on with another program. Any other failure is in the run's error.
 */
BB_MUST bb_status bb_player_open(struct bb_player **player, struct bb_run *run,
				 struct bb_driver *driver, const struct bb_play *play,
				 struct bb_error *refusal);
void bb_player_close(struct bb_player *player); /* NULL: nothing */

/*
 * Play it once, from a barrier on. *END = seconds until this rank had done all (until all had,
 * where time is virtual). WATCH, which may be NULL, then hears of the operations of the ranks that
 * this driver plays, on this rank's clock from the barrier on; a watched playing may take longer by
 * what the stamps take. Collective over the world.
 */
BB_MUST bb_status bb_player_play(struct bb_player *player, const struct bb_timeline_watch *watch,
				 double *end);

/* In virtual time, the clock had there been no fault; NAN: there is none, or time is real. */
double bb_faultless_now(const struct bb_backend *backend, struct bb_group *world);
/* Of a run in virtual time: it took TOOK seconds more, and FAULTLESS without the fault (NAN: there
   is none). */
void bb_run_add_faulted(struct bb_run *run, double took, double faultless);

/*
 * *SENT = what RANK does of WORK in the program: collectives and messages sent, and their bytes, by
 * the algorithm that does them here. Of a collective it is what the member sends that sends most,
 * and where a library does it in a way of its own the least that any algorithm sends. RANK is the
 * one that plays, or any where time is virtual. Failures are in the run's error.
 */
struct bb_sent {
	uint64_t calls;
	double bytes;
};
BB_MUST bb_status bb_player_count(struct bb_player *player, int rank, int work,
				  struct bb_sent *sent);

#endif

/* Programs written down operation by operation, for tests. */
#ifndef BB_TESTS_SCRIPT_H
#define BB_TESTS_SCRIPT_H

#include "programs/program.h"

#define SCRIPT_RANKS 16
#define SCRIPT_GROUPS 4

struct script {
	struct bb_program program;
	struct bb_operation *operations[SCRIPT_RANKS];
	size_t lengths[SCRIPT_RANKS];
	int sizes[SCRIPT_GROUPS];
	int members[SCRIPT_GROUPS][SCRIPT_RANKS];
};

/* Group 0 has all NRANKS ranks. */
void script_open(struct script *script, int nranks);
void script_close(struct script *script);

/* Append to what RANK does; queues, lanes and events are as many as are used. */
void script_add(struct script *script, int rank, struct bb_operation operation);
/* The same, of the usual kinds; messages and all_reduce are of COUNT floats. */
void script_compute(struct script *script, int rank, int queue, double seconds);
void script_record(struct script *script, int rank, int queue, int event);
void script_wait(struct script *script, int rank, int queue, int event);
void script_send(struct script *script, int rank, int queue, int lane, int peer, size_t count);
void script_recv(struct script *script, int rank, int queue, int lane, int peer, size_t count);
void script_recv_any(struct script *script, int rank, int queue, int lane, size_t count);
void script_all_reduce(struct script *script, int rank, int queue, int group, size_t count);

/* One step of a pipeline of STAGES stages and MICROBATCHES: all forwards, then all backwards, or
   1F1B. A forward takes FORWARD seconds, a backward BACKWARD, a message has one float. */
void script_pipeline(struct script *script, int stages, int microbatches, bool one_f_one_b,
		     double forward, double backward);

#endif

/*
 * hybrid_program.h - a step of training that is divided in several ways at once, as a program
 * (schedules/program.h): each replica's micro-batches go through the stages by 1F1B, the tensor
 * ranks of a stage do every pass together, and in the end gradients are averaged over replicas.
 *
 * All tensor ranks of a stage of all replicas do the same. In a pass each layer is twice a
 * computation and an all-reduce behind it, which the rest of the pass waits for. Stages of another
 * replica or tensor rank never talk to each other. Embedding, head and loss are left out.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_PROGRAM_H
#define BB_TRAINING_KERNELS_HYBRID_PROGRAM_H

#include "schedules/program.h"
#include "training_kernels/hybrid_layout.h"

/* What an operation is: its work. Bits, of which a program has some. */
enum bb_hybrid_work {
	BB_HYBRID_COMPUTE = 1,
	BB_HYBRID_TENSOR = 2,
	BB_HYBRID_PIPELINE = 4, /* messages, and the events around them */
	BB_HYBRID_DATA = 8,
	BB_HYBRID_STEP = 15
};

/* The queue of computations and collectives; those of messages are beside it. */
#define BB_HYBRID_COMPUTES 0

struct bb_hybrid_shape {
	struct bb_grid grid;
	int layers; /* of the model: stage i of p has i L / p … (i + 1) L / p - 1 */
	int micro_batches;
	double forward_s, backward_s; /* of a layer and micro-batch, on a rank */
	double flops;                 /* of both; 0: not known */
	size_t activation;            /* elements of a micro-batch, from layer to layer */
	const uint64_t *gradients;    /* elements of a rank: [stage]; borrowed */
	enum bb_dtype dtype, gradient_dtype;
	unsigned parts; /* of enum bb_hybrid_work */
};

struct bb_hybrid_program; /* what the program's own points to */

/*
 * *PROGRAM = SHAPE by ALGORITHM (see struct bb_program), whose own is to be closed by
 * bb_hybrid_program_close. BB_EUSAGE for more passes than a pipeline may have, BB_EINTERNAL without
 * memory; nothing is open then.
 */
BB_MUST bb_status bb_hybrid_program_open(struct bb_program *program,
					 const struct bb_hybrid_shape *shape, const char *algorithm,
					 struct bb_error *error);
void bb_hybrid_program_close(struct bb_program *program); /* of a zeroed one: nothing */

/* What RANK does of WORK in PROGRAM: how often it calls or sends, and the bytes that it sends for
   it, all-reduces going around a ring: of n ranks and S bytes 2 (n-1) / n S. */
struct bb_hybrid_count {
	uint64_t calls;
	double sent;
};
struct bb_hybrid_count bb_hybrid_program_count(const struct bb_program *program, int rank,
					       enum bb_hybrid_work work);

#endif

/*
 * program.h - a step of training that is divided in several ways at once, as a program
 * (schedules/program.h): each replica's micro-batches go through the stages by 1F1B, the tensor
 * ranks of a stage do every pass together, replicas that divide the experts send tokens to each
 * other, and in the end gradients are averaged over replicas.
 *
 * All tensor ranks of a stage of all replicas do the same. In a pass each layer is two halves,
 * attention and feed-forward network, and whatever comes next waits for what came before:
 *
 *   forward    a computation and an all-reduce; with sequence parallelism an all-gather, a
 *              computation and a reduce-scatter, in which each rank sends and has its own tokens
 *   backward   the same; with sequence parallelism the input is gathered again as well
 *   experts    the second half begins with a dispatch of rows to their experts and ends with a
 *              combine (training_kernels/moe/exchange.h), so that with sequence parallelism what is gathered
 *              between them is the rows at a rank's experts
 *
 * Where all is made again, a backward pass begins with the forward pass of the stage's layers. The
 * first stage sums what its tensor ranks look up in the embedding, the last one computes the head
 * and sums its input's gradient and three numbers of a token for the loss (volume.h).
 *
 * At the end of the step the first stage and the last sum the gradient of an embedding that both
 * have. Then comes an all-reduce of the gradients or, by stage 1 of ZeRO, a reduce-scatter of them
 * and an all-gather of the parameters; those of experts go among the replicas that hold the same
 * ones.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_PROGRAM_H
#define BB_TRAINING_KERNELS_HYBRID_PROGRAM_H

#include "programs/program.h"
#include "training_kernels/hybrid/layout.h"
#include "training_kernels/moe/load.h"

/* What an operation is: its work. Bits, of which a program has some. */
enum bb_hybrid_work {
	BB_HYBRID_COMPUTE = 1,
	BB_HYBRID_TENSOR = 2,   /* its item is the half of the layer, or BB_HYBRID_LOSS */
	BB_HYBRID_PIPELINE = 4, /* messages, and the events around them */
	BB_HYBRID_DATA = 8,     /* its item is 1 of experts' gradients and parameters, else 0 */
	/* Messages, whose item is the peer's place, of even lanes dispatches and of odd ones
	   combines; and events. */
	BB_HYBRID_EXPERT = 16,
	BB_HYBRID_EMBEDDING = 32,
	BB_HYBRID_STEP = 63
};

/* The queue of computations and collectives; those of messages are beside it. */
#define BB_HYBRID_COMPUTES 0

#define BB_HYBRID_HALVES 2
#define BB_HYBRID_LOSS BB_HYBRID_HALVES

/* Of a micro-batch on a rank. */
struct bb_hybrid_time {
	double forward_s, backward_s;
	double flops; /* of both; 0: not known */
};

struct bb_hybrid_shape {
	struct bb_grid grid;
	int layers; /* of the model, divided as bb_layers_before says */
	int micro_batches;
	struct bb_hybrid_time layer, embedding, head;
	size_t activation; /* elements of a micro-batch, from layer to layer */
	size_t tokens;     /* of a micro-batch */
	size_t shared;     /* elements of a rank's embedding that is the head's, too; 0: none */
	bool sequence_parallel; /* tp divides the activation */
	bool made_again;        /* the forward pass of layers, in the backward pass */
	int zero;               /* 0 or 1 */
	/* Tokens of a rank among EP ranks; borrowed. NULL: there are no experts. */
	const struct bb_moe_load *load;
	size_t hidden; /* elements of a token's row */
	/* Elements of a rank: [stage], borrowed; those of experts apart, NULL: there are none. */
	const uint64_t *gradients, *experts;
	enum bb_dtype dtype, gradient_dtype;
	unsigned parts; /* of enum bb_hybrid_work */
};

/* Elements that RANK of SHAPE gathers, or has left of a sum, in a HALF of a layer; of all tensor
   ranks TP times as many. Without sequence parallelism all of them are summed. */
size_t bb_hybrid_part(const struct bb_hybrid_shape *shape, int half, int rank);

/* Elements of a message between stages. */
size_t bb_hybrid_boundary(const struct bb_hybrid_shape *shape);

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

#endif

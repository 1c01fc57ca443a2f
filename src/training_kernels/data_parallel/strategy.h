/*
 * strategy.h - strategies of data-parallel training: a step of each as a program, with a formula of
 * its time.
 *
 * In the formulas C is the time of the batches of a rank, M the bytes of all gradients (and of all
 * parameters), B the rate of links and L their latency.
 */
#ifndef BB_TRAINING_KERNELS_DATA_PARALLEL_STRATEGY_H
#define BB_TRAINING_KERNELS_DATA_PARALLEL_STRATEGY_H

#include "programs/tape.h"

/* The work of an operation, and its item. */
enum bb_strategy_work {
	BB_STRATEGY_COMPUTE, /* forward and backward pass of batch ITEM of the step */
	BB_STRATEGY_ADD,     /* the gradient of worker ITEM, or a part of it, to the sum */
	BB_STRATEGY_UPDATE,  /* of the parameters, or of part ITEM, by the sum */
	BB_STRATEGY_PUSH,    /* message: part ITEM of a gradient to the rank that sums it */
	BB_STRATEGY_PULL,    /* message: part ITEM of the result to a worker */
	BB_STRATEGY_REDUCE,  /* collective: sum of gradients */
	BB_STRATEGY_GATHER,  /* collective: parameters from parts */
	BB_STRATEGY_AVERAGE  /* collective: average of parameters */
};

/* A strategy with its setting: what a step is. */
struct bb_strategy_setting {
	const struct bb_strategy *strategy;
	int nranks;
	int active; /* ranks 0 to active-1 take part, the others are idle */
	size_t elements;
	enum bb_dtype dtype;
	double compute_s, flops; /* of a batch */
	size_t batches;          /* of a rank for one gradient */
	size_t every;            /* average: steps from one averaging to the next */
	size_t steps;            /* ps_async: of each worker, in one program */
	int servers;    /* ps and ps_async: number of servers, each with a part of the parameters */
	bool colocated; /* all ranks are servers and workers; else servers are not workers */
	bool updates;   /* servers update parameters; else workers do, by the sum */
	/* Sums and updates are computed, by operations of their own that take no time. */
	bool real;
};

struct bb_strategy {
	const char *name, *brief;
	const char *formula; /* time of a step, in the letters above */
	const char *shared;  /* the formula with ports; NULL: the same */
	bool synchronous;    /* all gradients of a step belong to the same parameters */
	bool servers;        /* it has servers */
	bool reduces;        /* it communicates by collectives */
	/* Appends the operations of all ranks to TAPES[rank]. */
	void (*write)(struct bb_tape *tapes, const struct bb_strategy_setting *setting);
};

extern const struct bb_strategy bb_strategy_dp, bb_strategy_zero, bb_strategy_average;
/* All of them, in the order of --list; ends with NULL. */
extern const struct bb_strategy *const bb_strategies[];

/* The reason why SETTING is impossible, or NULL. */
const char *bb_strategy_refuses(const struct bb_strategy_setting *setting);
/* Steps of one run of the program. */
size_t bb_strategy_steps(const struct bb_strategy_setting *setting);
/* The number of active ranks that compute gradients. */
int bb_strategy_workers(const struct bb_strategy_setting *setting);
/* The number of RANK among the workers; -1: not a worker. */
int bb_strategy_worker(const struct bb_strategy_setting *setting, int rank);

/* Bytes that a rank holds: parameters, gradients, sums. */
struct bb_strategy_memory {
	uint64_t most;   /* of a root or server; of any rank if all are equal */
	uint64_t worker; /* of the other ranks */
};
struct bb_strategy_memory bb_strategy_memory(const struct bb_strategy_setting *setting);

/*
 * TAPED = all operations of all ranks of SETTING, which is not refused. TAPED must not move.
 * ALGORITHM: see struct bb_program. BB_EINTERNAL without memory. Free TAPED whatever comes back.
 */
BB_MUST bb_status bb_strategy_write(struct bb_taped *taped,
				    const struct bb_strategy_setting *setting,
				    const char *algorithm, struct bb_error *error);

/* The maximum over ranks of bytes sent and bytes received in a step of TAPED, with collectives by
   the schedule ALGORITHM; those of an unknown schedule count 0. */
double bb_strategy_wire(const struct bb_taped *taped, const struct bb_strategy_setting *setting,
			const char *algorithm);

#endif

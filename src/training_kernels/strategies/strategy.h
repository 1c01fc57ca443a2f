/*
 * way.h - ways of doing a step of data-parallel training, as programs, each with the model of what
 * it costs.
 *
 *   way.c     the table of ways; programs put together, and what they send
 *   root.c    dp: one rank hands out parameters and gathers gradients
 *   server.c  ps and ps_async: parameter servers
 *   peers.c   ddp, zero and average: all ranks alike
 *
 * C below is what a rank computes for its batches, M the bytes of all gradients (those of the
 * parameters too), B the rate of links and L their latency.
 */
#ifndef BB_TRAINING_KERNELS_STRATEGIES_STRATEGY_H
#define BB_TRAINING_KERNELS_STRATEGIES_STRATEGY_H

#include "programs/program.h"
#include "simulator/timeline.h"

/* What an operation is; its item says of whom or what. */
enum bb_strategy_work {
	BB_STRATEGY_COMPUTE, /* forward and backward pass of a batch: number ITEM of its step */
	BB_STRATEGY_ADD, /* to the sum: the gradient, or part of it, that came from worker ITEM */
	BB_STRATEGY_UPDATE,  /* parameters, or part ITEM of them, by the sum */
	BB_STRATEGY_PUSH,    /* messages: part ITEM of a gradient to whoever sums it */
	BB_STRATEGY_PULL,    /* messages: part ITEM of what comes of it to a worker */
	BB_STRATEGY_REDUCE,  /* collectives: gradients, */
	BB_STRATEGY_GATHER,  /* parameters from parts, */
	BB_STRATEGY_AVERAGE, /* parameters */
	BB_STRATEGY_READY    /* events */
};

/* A step as asked for. */
struct bb_strategy_setting {
	int nranks;
	int active; /* ranks 0 … active-1 take part, the others do nothing */
	size_t elements;
	enum bb_dtype dtype;
	double compute_s, flops; /* of a batch */
	size_t batches;          /* that a rank computes before it lets go of a gradient */
	size_t every;            /* average: steps from one averaging to the next */
	size_t steps;            /* ps_async: of each worker, in one program */
	int servers;             /* of ps and ps_async, each with a part of the parameters */
	bool colocated;          /* all ranks are servers and workers, else servers are none */
	bool updates;            /* servers update parameters, else workers do, by the sum */
	/* Sums and updates are computed for real: they have operations of their own, of no
	   seconds. */
	bool real;
};

/* Bytes of what a rank holds: parameters, gradients, what sums them. */
struct bb_strategy_memory {
	uint64_t most;   /* root or server; where all are alike, each */
	uint64_t worker; /* the others */
};

struct bb_strategy_writer;

struct bb_strategy {
	const char *name, *brief;
	const char *formula; /* of a step, in the letters above */
	const char *shared;  /* with ports; NULL: the same */
	bool synchronous;    /* all gradients of a step are of the same parameters */
	bool servers;        /* settings of servers mean something */
	bool reduces;        /* by collectives */
	/* NULL, or why it cannot be had. NULL: always can. */
	const char *(*refuses)(const struct bb_strategy_setting *setting);
	void (*write)(struct bb_strategy_writer *writer, const struct bb_strategy_setting *setting);
	/* Seconds of a step by the formula, collectives being rings. */
	double (*seconds)(const struct bb_strategy_setting *setting,
			  const struct bb_link_model *links);
	struct bb_strategy_memory (*memory)(const struct bb_strategy_setting *setting);
};

/* In the order in which they are shown; ends with NULL. */
extern const struct bb_strategy *const bb_strategies[];
const struct bb_strategy *bb_strategy_find(const char *name); /* or NULL */

/* Steps that one playing of the program does. */
size_t bb_strategy_steps(const struct bb_strategy *strategy,
			 const struct bb_strategy_setting *setting);
/* Ranks that compute gradients, of those that are active. */
int bb_strategy_workers(const struct bb_strategy *strategy,
			const struct bb_strategy_setting *setting);
/* RANK's number among the workers; -1: it is none. */
int bb_strategy_worker(const struct bb_strategy *strategy,
		       const struct bb_strategy_setting *setting, int rank);

/* A way with a setting, written down: all operations of all ranks. */
struct bb_strategy_program {
	struct bb_program program;
	const struct bb_strategy *strategy;
	struct bb_strategy_setting setting;
	struct bb_strategy_list *lists; /* [rank] */
};

/*
 * PROGRAM, which stays where it is, does WAY, which does not refuse SETTING. ALGORITHM as in struct
 * bb_program. BB_EINTERNAL without memory. To be freed whatever comes back.
 */
BB_MUST bb_status bb_strategy_program_make(struct bb_strategy_program *program,
					   const struct bb_strategy *strategy,
					   const struct bb_strategy_setting *setting,
					   const char *algorithm, struct bb_error *error);
void bb_strategy_program_free(struct bb_strategy_program *program); /* of a zeroed one: nothing */

/* Bytes that the busiest rank sends or receives in a step, whichever are more, collectives by
   ALGORITHM, a schedule's name. 0: it is none. */
double bb_strategy_wire(const struct bb_strategy_program *program, const char *algorithm);

#endif

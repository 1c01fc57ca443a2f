/*
 * hybrid.h - the benchmark of training that is divided in several ways at once.
 *
 *   hybrid.c           the benchmark: what it can do, how it ends
 *   options.c          its options; presets.c published runs
 *   show.c             --plan: ways of dividing a model held against each other, nothing run
 *   job.c              the step that is run, worked out from the options
 *   drive.c            what every driver does: a step and its parts timed
 *   data.c             known data for what a step sends, and whether it came right
 *   record.c           the fields of its records; text.c the table
 *
 * What it is about: layout.h, volume.h, plan.h, program.h.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_HYBRID_H
#define BB_TRAINING_KERNELS_HYBRID_HYBRID_H

#include "harness/measure/engine.h"
#include "training_kernels/hybrid/plan.h"
#include "training_kernels/hybrid/program.h"
#include "training_kernels/moe/exchange.h"

struct bb_hybrid_options {
	/* As given. */
	const char *preset_text, *model_text, *flops_text, *node_link_text, *algo_text;
	int64_t ranks, node, tp, pp, dp, ep, seq, batch, micro_batch, best;
	int order;     /* enum bb_grid_order */
	int recompute; /* enum bb_recompute, or one more: any */
	int precision, optimizer;
	int64_t zero;
	uint64_t memory;
	bool sequence_parallel, scatter, plan;
	bool ranks_given, node_given, tp_given, pp_given, dp_given, ep_given, order_given;
	bool model_given, seq_given, batch_given, micro_batch_given, recompute_given, zero_given,
		memory_given;
	bool best_given;
	int64_t iters;
	bool iters_given;
	int stand_in;     /* enum bb_stand_in */
	uint64_t pass_ns; /* forward and backward of a micro-batch on a stage */
	bool pass_given, algo_given;

	/* Worked out from them. */
	const struct bb_hybrid_preset *preset; /* NULL: none */
	struct bb_hybrid_link between;
	bool between_given;
	double flops; /* 0: not given */
};

/* A published run; what is asked for besides has precedence. */
struct bb_hybrid_preset {
	const char *name, *source;
	const char *assumed; /* what the source does not say */
	const char *model;
	struct bb_grid grid;
	int node;
	uint64_t batch, micro_batch;
	enum bb_recompute recompute;
	int zero;
	uint64_t memory;
	/* Of a rank, per second: what the whole run reached, communication and bubble included; or
	   else what computations alone do. */
	double run_flops, flops;
	struct bb_hybrid_link inside, between;
};

extern const struct bb_hybrid_preset bb_hybrid_presets[]; /* ends with name NULL */

/* *FLOPS = what a rank of PRESET computes per second: its flops, or what is left of the rate of the
   run without what the plan adds (bb_hybrid_way_rate). Failures are those of opening its model. */
BB_MUST bb_status bb_hybrid_preset_rate(const struct bb_hybrid_preset *preset, double *flops,
					struct bb_error *error);

/* ---- records (record.c) -------------------------------------------------------------- */

/* One way of dividing the ranks, as planned. */
struct bb_hybrid_plan_record {
	const char *model, *order, *recompute, *tightest, *reason;
	int64_t nranks, node, place;
	int64_t tp, pp, dp, ep, micro_batch, micro_batches, zero;
	bool sequence_parallel, published;
	int64_t memory_bytes, memory_limit_bytes;
	double step_us, compute_us, bubble_us, tensor_us, expert_us, pipeline_us, data_us;
	double embedding_us;
	double bubble_over_ideal;
	double tensor_bytes, expert_bytes, pipeline_bytes, data_bytes, embedding_bytes;
	int64_t tensor_calls, expert_calls, pipeline_calls, data_calls;
	int64_t activation_bytes, boundary_bytes;
	int64_t tensor_crossing, expert_crossing, pipeline_crossing, data_crossing;
};

/* A step, or a part of it alone. */
struct bb_hybrid_record {
	const char *model, *part, *order, *algorithm, *compute, *links;
	int64_t nranks, tp, pp, dp, ep, zero, micro_batch, micro_batches;
	bool sequence_parallel;
	int64_t calls, crossing;
	double sent_bytes, sent_GBps;
	double time_us, low_us, high_us;
	int64_t samples;
	double in_step_us;
	double plan_us, plan_bubble_us;
	int64_t wrong;
	double end_unix_s;
};

extern const struct bb_record_kind bb_record_hybrid_plan, bb_record_hybrid;

/* ---- the benchmark -------------------------------------------------------------------------- */

/* The state of the benchmark. */
struct bb_hybrid {
	struct bb_hybrid_options asked; /* first: the rows are read into it */
	struct bb_model model;
	struct bb_grid grid;      /* of the world; known once that is */
	struct bb_cluster *nodes; /* that --node-link makes of --link; NULL: none */
};

extern const struct bb_option bb_hybrid_rows[];
extern const struct bb_benchmark bb_hybrid_benchmark;

/* The benchmark's check (see benchmark.h). Opens the model, which its show or close frees. */
BB_MUST bb_status bb_hybrid_check(const struct bb_benchmark *benchmark, void *own,
				  struct bb_options *options,
				  const struct bb_environment *environment, struct bb_error *error);

/* ---- the step that is run (job.c) ----------------------------------------------------- */

struct bb_hybrid_job {
	struct bb_hybrid_shape shape; /* of which the rest is what it borrows */
	uint64_t *gradients, *experts, shared;
	struct bb_moe_load load;
	double flops; /* per second, of a rank */
	/* What --plan's formula says of the same division, links and rate; step 0: of links nothing
	   is known. */
	struct bb_hybrid_cost plan;
};

/* Of HYBRID, whose grid is known, over the links of CONFIG. BB_EUSAGE where the model cannot be
   divided so, BB_EINTERNAL without memory. Close JOB whatever comes back. */
BB_MUST bb_status bb_hybrid_job_open(struct bb_hybrid_job *job, const struct bb_hybrid *hybrid,
				     const struct bb_backend_config *config,
				     struct bb_error *error);
void bb_hybrid_job_close(struct bb_hybrid_job *job);

/* ---- its data (data.c) ---------------------------------------------------------------- */

/* Of a half of a layer: what is summed and what this rank has of the sum, PART elements of WHOLE;
   and with sequence parallelism what it gives, PART elements, and what is gathered. */
struct bb_hybrid_half {
	size_t part, whole;
	char *summands, *sum, *piece, *gathered;
};

/* What replicas hold alike: PART elements of each, together at least ELEMENTS. */
struct bb_hybrid_replica {
	enum bb_axis axis;
	size_t part, elements;
	char *gradients, *parameters;
	const struct bb_patterns *averages;
};

/* Of one rank; what there is nothing of is NULL. */
struct bb_hybrid_data {
	const struct bb_hybrid_shape *shape;
	struct bb_engine *engine;
	char *memory; /* the engine's; NULL: time is virtual, or nothing is sent */
	struct bb_hybrid_half halves[BB_HYBRID_HALVES];
	struct bb_hybrid_replica replicas[2]; /* the second of experts */
	struct bb_moe_rows rows;
	int *ranks;          /* of those that divide the experts */
	char *sent, *got[2]; /* to other stages, and from them on each lane */
	char *losses, *loss; /* a number of each token, before and after its sum */
	char *embedding;     /* its gradient, summed in the first stage and the last */
	const struct bb_patterns *sums, *moved, *loss_sums, *embedding_sums;
};

/* Bytes of RANK's. */
size_t bb_hybrid_data_bytes(const struct bb_hybrid_shape *shape, int rank);

/* Failures are in the run's error. Close DATA whatever comes back. */
BB_MUST bb_status bb_hybrid_data_open(struct bb_hybrid_data *data,
				      const struct bb_hybrid_shape *shape,
				      struct bb_engine *engine);
void bb_hybrid_data_close(struct bb_hybrid_data *data);

/* A bb_play's buffers, of DATA. */
void bb_hybrid_data_buffers(const struct bb_hybrid_data *data, const struct bb_operation *o,
			    void **in, void **out);
/* Known data; everything that is to be overwritten holds something else. */
BB_MUST bb_status bb_hybrid_data_fill(struct bb_hybrid_data *data);
/* The first byte of each thing that is verified; NULL of what there is none. Returns how many. */
int bb_hybrid_data_victims(const struct bb_hybrid_data *data, void *victims[BB_MOST_VICTIMS]);
/* Adds to *WRONG the elements that are not what they must be after a step. */
BB_MUST bb_status bb_hybrid_data_verify(struct bb_hybrid_data *data, uint64_t *wrong);

extern const struct bb_experiment bb_hybrid_experiment;

bb_sink_open bb_hybrid_text_open;

/* The benchmark's show. */
BB_MUST bb_status bb_hybrid_show(struct bb_run *run, struct bb_strbuf *out);

#endif

/*
 * hybrid.h - the benchmark of training that is divided in several ways at once.
 *
 *   hybrid.c           the benchmark: what it can do, how it ends
 *   options.c          its options; presets.c published runs
 *   show.c             --plan: ways of dividing a model held against each other, nothing run
 *   job.c              the step that is run, worked out from the options
 *   drive.c            what every driver does: a step and its parts timed
 *   data.c             known data for what a step sends, and whether it came right
 *   record.c           its records, and the table
 *
 * What it is about: layout.h, volume.h, plan.h, program.h.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_HYBRID_H
#define BB_TRAINING_KERNELS_HYBRID_HYBRID_H

#include "harness/measure/engine.h"
#include "harness/measure/step_options.h"
#include "training_kernels/hybrid/plan.h"
#include "training_kernels/hybrid/program.h"
#include "training_kernels/moe/exchange.h"

#define BB_HYBRID_OPTIONS(OPTION, COMMON)                                                          \
	OPTION(CHOICE, preset_choice, "preset", 0, NULL,                                           \
	       "a published run; other options override its settings", .argument = "NAME",         \
	       .choice = preset_name, .section = "Model")                                          \
	BB_MODEL_OPTION(OPTION, "gpt2", "a transformer: ")                                         \
	BB_SEQ_OPTION(OPTION)                                                                      \
	OPTION(INT, batch, "batch", 0, NULL,                                                       \
	       "sequences of a step, of all replicas (default: 4 for each rank)", .min = 1,        \
	       .max = MOST_BATCH)                                                                  \
	OPTION(INT, micro_batch, "micro-batch", 0, "1",                                            \
	       "sequences of a micro-batch (default with --plan: whatever is fastest)", .min = 1,  \
	       .max = MOST_BATCH)                                                                  \
	OPTION(CHOICE, precision, "precision", 0, "mixed",                                         \
	       "formats of parameters, gradients and states", .choices = bb_precision_words)       \
	OPTION(CHOICE, optimizer, "optimizer", 0, "adamw", "optimizer, whose states take memory",  \
	       .choices = bb_optimizer_words)                                                      \
	OPTION(INT, tp, "tp", 0, NULL,                                                             \
	       "ranks that divide each layer (default with --plan: any; likewise --pp, --dp)",     \
	       .min = 1, .max = MOST_RANKS, .section = "Division")                                 \
	OPTION(INT, pp, "pp", 0, NULL, "number of stages of the pipeline", .min = 1,               \
	       .max = MOST_RANKS)                                                                  \
	OPTION(INT, dp, "dp", 0, NULL, "number of replicas", .min = 1, .max = MOST_RANKS)          \
	OPTION(INT, ep, "ep", 0, "1", "number of replicas that divide the experts", .min = 1,      \
	       .max = MOST_RANKS)                                                                  \
	OPTION(CHOICE, order, "order", 0, "tp-pp-dp",                                              \
	       "order of ranks: tensor ranks are neighbours, then those of the stages or of the "  \
	       "replicas",                                                                         \
	       .choices = bb_grid_order_words)                                                     \
	OPTION(FLAG, sequence_parallel, "sequence-parallel", 0, NULL,                              \
	       "all-gather and reduce-scatter instead of all-reduce in tensor parallelism")        \
	OPTION(FLAG, scatter, "scatter-gather", 0, NULL,                                           \
	       "tensor ranks send a part each to the next stage")                                  \
	OPTION(INT, zero, "zero", 0, "0",                                                          \
	       "stage of ZeRO among the replicas; steps that are run know 0 and 1", .min = 0,      \
	       .max = 3)                                                                           \
	OPTION(CHOICE, recompute, "recompute", 0, "any",                                           \
	       "what the backward pass recomputes of the forward pass; any: whatever is fastest, " \
	       "in steps that are run nothing",                                                    \
	       .choices = recompute_words)                                                         \
	OPTION(FLAG, plan, "plan", 0, NULL,                                                        \
	       "compare all ways of dividing the model, by --link, --node-link, --flops and "      \
	       "--memory; run nothing",                                                            \
	       .section = "Plan")                                                                  \
	OPTION(INT, ranks, "ranks", 0, NULL, "number of ranks of the plan", .min = 1,              \
	       .max = MOST_RANKS)                                                                  \
	OPTION(INT, node, "node", 0, "8", "ranks of a node, which --link joins", .min = 1,         \
	       .max = MOST_RANKS)                                                                  \
	OPTION(LINK, node_link, "node-link", 0, NULL,                                              \
	       "link of a rank to another node, as in 25GB/s,5us (default: as --link); for "       \
	       "--plan and sim")                                                                   \
	OPTION(SIZE, memory, "memory", 0, "80G", "memory of a rank", .min = 1,                     \
	       .max = BB_MOST_BYTES)                                                               \
	BB_FLOPS_OPTION(OPTION, "")                                                                \
	OPTION(INT, best, "best", 0, "8", "number of ways that are printed; --json has all",       \
	       .min = 1, .max = 1000)                                                              \
	COMMON("iters", 'n', "5", "timed steps of each kind", .min = 1, .max = 1000000,            \
	       .section = "Steps")                                                                 \
	OPTION(STRING, algo_text, "algo", 0, "auto",                                               \
	       "algorithm of the collectives; auto: whichever is best for each",                   \
	       .argument = "NAME")                                                                 \
	OPTION(DURATION, pass_ns, "pass-time", 0, "30ms",                                          \
	       "instead of --flops: time of forward and backward pass of a stage's layers for a "  \
	       "micro-batch; the head's time follows",                                             \
	       .min = 1, .max = BB_YEAR_NS)                                                        \
	BB_COMPUTE_OPTION(OPTION)

struct bb_hybrid_options {
	BB_OPTION_MEMBERS(BB_HYBRID_OPTIONS)

	/* Worked out from them. */
	const struct bb_hybrid_preset *preset; /* NULL: none */
	struct bb_hybrid_link between;
	bool between_given;
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
   run without what the plan adds (bb_hybrid_division_rate). Failures are those of opening its
   model. */
BB_MUST bb_status bb_hybrid_preset_rate(const struct bb_hybrid_preset *preset, double *flops,
					struct bb_error *error);

/* ---- records (record.c) -------------------------------------------------------------- */

#define BB_HYBRID_PLAN_FIELDS(FIELD)                                                               \
	FIELD(STRING, model, "", "as it was asked for")                                            \
	FIELD(INT, place, "", "among all that fit, the fastest being 1")                           \
	FIELD(STRING, reason, "", "where it wins or loses most")                                   \
	FIELD(BOOL, published, "", "the division of --preset")                                     \
	FIELD(INT, nranks, "", "number of ranks of the plan")                                      \
	FIELD(INT, node, "", "ranks of a node")                                                    \
	FIELD(STRING, order, "", "which ranks are next to each other")                             \
	FIELD(INT, tp, "", "ranks that divide each layer")                                         \
	FIELD(INT, pp, "", "number of stages of the pipeline")                                     \
	FIELD(INT, dp, "", "number of replicas")                                                   \
	FIELD(INT, ep, "", "replicas that divide the experts")                                     \
	FIELD(INT, micro_batch, "", "sequences of a micro-batch")                                  \
	FIELD(INT, micro_batches, "", "of a step, of each replica")                                \
	FIELD(STRING, recompute, "", "what of the forward pass is made again")                     \
	FIELD(INT, zero, "", "stage of ZeRO")                                                      \
	FIELD(BOOL, sequence_parallel, "", "among the tensor ranks")                               \
	FIELD(INT, memory_bytes, "bytes", "that the rank needs that needs most")                   \
	FIELD(INT, memory_limit_bytes, "bytes", "that a rank has")                                 \
	FIELD(STRING, tightest, "", "what takes most of it")                                       \
	FIELD(DOUBLE, step_us, "us", "all of it")                                                  \
	FIELD(DOUBLE, compute_us, "us", "computations of the slowest stage")                       \
	FIELD(DOUBLE, bubble_us, "us", "what stages wait at the beginning and at the end")         \
	FIELD(DOUBLE, bubble_over_ideal, "fraction", "(pp - 1) / micro_batches")                   \
	FIELD(DOUBLE, tensor_us, "us", "communication of tensor parallelism")                      \
	FIELD(DOUBLE, expert_us, "us", "of expert parallelism")                                    \
	FIELD(DOUBLE, pipeline_us, "us", "messages between stages, as far as they are waited for") \
	FIELD(DOUBLE, data_us, "us", "reduction of gradients, and what ZeRO gathers")              \
	FIELD(DOUBLE, embedding_us, "us", "reduction between head and embedding")                  \
	FIELD(DOUBLE, tensor_bytes, "bytes", "that a rank of the slowest stage sends in a step")   \
	FIELD(DOUBLE, expert_bytes, "bytes", "likewise")                                           \
	FIELD(DOUBLE, pipeline_bytes, "bytes", "likewise")                                         \
	FIELD(DOUBLE, data_bytes, "bytes", "likewise")                                             \
	FIELD(DOUBLE, embedding_bytes, "bytes", "likewise")                                        \
	FIELD(INT, tensor_calls, "", "collectives of a rank in a step")                            \
	FIELD(INT, expert_calls, "", "likewise")                                                   \
	FIELD(INT, pipeline_calls, "", "messages that a rank sends in a step")                     \
	FIELD(INT, data_calls, "", "collectives of a rank in a step")                              \
	FIELD(INT, activation_bytes, "bytes", "of a micro-batch, from layer to layer")             \
	FIELD(INT, boundary_bytes, "bytes", "of a message between stages")                         \
	FIELD(INT, tensor_crossing, "", "tensor groups that cross nodes")                          \
	FIELD(INT, expert_crossing, "", "expert groups that do")                                   \
	FIELD(INT, pipeline_crossing, "", "pipelines that do")                                     \
	FIELD(INT, data_crossing, "", "data-parallel groups that do")

/* One way of dividing the ranks, as planned. */
struct bb_hybrid_plan_record {
	BB_HYBRID_PLAN_FIELDS(BB_MEMBER)
};

#define BB_HYBRID_FIELDS(FIELD)                                                                    \
	FIELD(STRING, model, "", "as it was asked for")                                            \
	FIELD(STRING, part, "",                                                                    \
	      "step: all of it; else a part of it alone: compute, tensor, expert, pipeline, "      \
	      "data, embedding",                                                                   \
	      BB_COLUMN("part", -9, 0))                                                            \
	FIELD(INT, nranks, "", "of the world")                                                     \
	FIELD(STRING, order, "", "which ranks are next to each other")                             \
	FIELD(INT, tp, "", "ranks that divide each layer")                                         \
	FIELD(INT, pp, "", "number of stages of the pipeline")                                     \
	FIELD(INT, dp, "", "number of replicas")                                                   \
	FIELD(INT, ep, "", "replicas that divide the experts")                                     \
	FIELD(INT, zero, "", "stage of ZeRO")                                                      \
	FIELD(BOOL, sequence_parallel, "", "among the tensor ranks")                               \
	FIELD(INT, micro_batch, "", "sequences of a micro-batch")                                  \
	FIELD(INT, micro_batches, "", "of a step, of each replica")                                \
	FIELD(STRING, algorithm, "", "of the collectives, as it was asked for")                    \
	FIELD(STRING, compute, "", "what computations stood for: --compute")                       \
	FIELD(INT, calls, "", "collectives, or messages sent, of the rank that sends most",        \
	      BB_COLUMN("calls", 8, 0))                                                            \
	FIELD(DOUBLE, sent_bytes, "bytes",                                                         \
	      "that it sends in a step, by the algorithm that was run; where that is a library's " \
	      "own the least that any sends",                                                      \
	      BB_COLUMN("sent", 10, 3), BB_MB)                                                     \
	FIELD(INT, crossing, "",                                                                   \
	      "groups whose members are on several hosts, or nodes of --cluster",                  \
	      BB_COLUMN("across", 8, 0), .head_unit = "(nodes)")                                   \
	FIELD(STRING, links, "", "what joins the ranks")                                           \
	FIELD(DOUBLE, time_us, "us", "until the last rank had done it: median",                    \
	      BB_COLUMN("alone", 10, 3), BB_MS)                                                    \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of that median",                      \
	      BB_COLUMN("from", 10, 3), BB_MS)                                                     \
	FIELD(DOUBLE, high_us, "us", "its upper end", BB_COLUMN("to", 10, 3), BB_MS)               \
	FIELD(INT, samples, "", "steps that were timed")                                           \
	FIELD(DOUBLE, sent_GBps, "GB/s", "sent_bytes / time_us", BB_COLUMN("rate", 8, 2))          \
	FIELD(DOUBLE, in_step_us, "us",                                                            \
	      "that a rank spends on it in a whole step, waiting for partners included; of the "   \
	      "pipeline that computing waits for messages: mean",                                  \
	      BB_COLUMN("in step", 10, 3), BB_MS)                                                  \
	FIELD(DOUBLE, plan_us, "us",                                                               \
	      "by --plan's formula for the same division, links and FLOPs, collectives by rings; " \
	      "of the step with the bubble",                                                       \
	      BB_COLUMN("plan", 10, 3), BB_MS)                                                     \
	FIELD(DOUBLE, plan_bubble_us, "us", "the bubble in it")                                    \
	FIELD(INT, wrong, "elements", "of all that was sent and reduced; null: not looked at",     \
	      BB_COLUMN("#wrong", 7, 0), .head_unit = "")                                          \
	FIELD(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC")

/* A step, or a part of it alone. */
struct bb_hybrid_record {
	BB_HYBRID_FIELDS(BB_MEMBER)
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

/* The buffers of a struct bb_play, and the functions of a struct bb_expectation; OWN is a struct
   bb_hybrid_data. Everything that a step overwrites is filled with other data. Some victims are
   NULL. */
void bb_hybrid_data_buffers(void *own, int rank, const struct bb_operation *o, void **in,
			    void **out);
BB_MUST bb_status bb_hybrid_data_fill(void *own);
int bb_hybrid_data_victims(void *own, void *victims[BB_MOST_VICTIMS]);
BB_MUST bb_status bb_hybrid_data_verify(void *own, uint64_t *wrong);

extern const struct bb_experiment bb_hybrid_experiment;

bb_sink_open bb_hybrid_text_open;

/* The benchmark's show. */
BB_MUST bb_status bb_hybrid_show(struct bb_run *run, struct bb_strbuf *out);

#endif

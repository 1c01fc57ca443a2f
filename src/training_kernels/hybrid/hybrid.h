/*
 * hybrid.h - the benchmark of hybrid-parallel training: tensor, pipeline, data and expert
 * parallelism at once.
 *
 *   hybrid.c           its options, published runs, records and descriptor
 *   show.c             --plan: divisions of a model compared, without a run
 *   drive.c            the step that is run, its known data, and the experiment: it and its parts,
 *                      timed
 *
 * Divisions are in layout.h and plan.h, their costs in cost.h, programs in program.h.
 */
#pragma once

#include "training_kernels/kernel/kernel.h"
#include "training_kernels/hybrid/plan.h"
#include "training_kernels/hybrid/program.h"
#include "training_kernels/moe/exchange.h"

/* For options of the plan alone. */
#define BB_NEEDS_PLAN .needs = {{"plan"}}

#define BB_HYBRID_OPTIONS(OPTION, COMMON)                                                          \
	OPTION(CHOICE, preset_choice, "preset", 0, NULL,                                           \
	       "a published run; other options override its settings", .argument = "NAME",         \
	       .choice = hybrid_preset_name, .section = "Model", .usual = true)                    \
	BB_MODEL_OPTION(OPTION, "gpt2", "transformer: ")                                           \
	BB_SEQ_OPTION(OPTION)                                                                      \
	OPTION(INT, batch, "batch", 0, NULL,                                                       \
	       "sequences of a step, of all replicas (default: 4 per rank)", .min = 1,             \
	       .max = MOST_BATCH)                                                                  \
	OPTION(INT, micro_batch, "micro-batch", 0, "1",                                            \
	       "sequences of a micro-batch (default with --plan: the fastest)", .min = 1,          \
	       .max = MOST_BATCH)                                                                  \
	OPTION(CHOICE, precision, "precision", 0, "mixed",                                         \
	       "formats of parameters, gradients and states", .choices = bb_precision_words)       \
	OPTION(CHOICE, optimizer, "optimizer", 0, "adamw",                                         \
	       "optimizer, for the memory of its states", .choices = bb_optimizer_words)           \
	OPTION(INT, tp, "tp", 0, NULL,                                                             \
	       "ranks that divide each layer (default with --plan: any, as --pp and --dp)",        \
	       .min = 1, .max = MOST_RANKS, .section = "Division", .usual = true)                  \
	OPTION(INT, pp, "pp", 0, NULL, "number of stages of the pipeline", .min = 1,               \
	       .max = MOST_RANKS, .usual = true)                                                   \
	OPTION(INT, dp, "dp", 0, NULL, "number of replicas", .min = 1, .max = MOST_RANKS,          \
	       .usual = true)                                                                      \
	OPTION(INT, ep, "ep", 0, "1",                                                              \
	       "groups of --etp ranks that divide the experts; default with --plan: any",          \
	       .min = 1, .max = MOST_RANKS)                                                        \
	OPTION(INT, etp, "etp", 0, NULL,                                                           \
	       "ranks that divide each expert (default: as --tp; with --plan, without --ep: any)", \
	       .min = 1, .max = MOST_RANKS, BB_NEEDS_PLAN)                                         \
	OPTION(CHOICE, dispatch, "dispatch", 0, "ranks",                                           \
	       "rows of experts: each to its rank, or once to each node and on from there, as by " \
	       "DeepEP",                                                                           \
	       .choices = bb_dispatch_words, BB_NEEDS_PLAN)                                        \
	OPTION(INT, cp, "cp", 0, "1", "ranks that divide each sequence; default with --plan: any", \
	       .min = 1, .max = MOST_RANKS, BB_NEEDS_PLAN)                                         \
	OPTION(CHOICE, context, "cp-by", 0, "any",                                                 \
	       "communication of --cp: keys and values in rings, or all-to-alls of heads "         \
	       "(Ulysses); any: the faster, with --fixed rings",                                   \
	       .choices = bb_context_words, BB_NEEDS_PLAN)                                         \
	OPTION(CHOICE, schedule, "schedule", 0, NULL,                                              \
	       "schedule of the pipeline (default: 1f1b, interleaved with virtual stages; with "   \
	       "--plan: the fastest of 1f1b, interleaved, zb-h1 and zb-h2)",                       \
	       .argument = "NAME", .choice = bb_pipeline_name, BB_NEEDS_PLAN)                      \
	OPTION(INT, kept, "kept", 0, NULL,                                                         \
	       "for zb-auto: micro-batches whose activations a stage keeps (default: twice the "   \
	       "stages)",                                                                          \
	       .min = 1, .max = MOST_BATCH, .needs = {{"plan"}, {"schedule=zb-auto"}})             \
	OPTION(INT, chunks, "virtual-stages", 0, "1",                                              \
	       "virtual stages of each stage, interleaved; default with --plan: any", .min = 1,    \
	       .max = 1000, BB_NEEDS_PLAN)                                                         \
	OPTION(CHOICE, order, "order", 0, "tp-pp-dp",                                              \
	       "order of ranks: tensor ranks are neighbours, then stages or "                      \
	       "replicas",                                                                         \
	       .choices = bb_grid_order_names)                                                     \
	OPTION(FLAG, sequence_parallel, "sequence-parallel", 0, NULL,                              \
	       "all-gather and reduce-scatter instead of all-reduce in tensor parallelism")        \
	OPTION(FLAG, scatter, "scatter-gather", 0, NULL,                                           \
	       "each tensor rank sends a part to the next stage; default with --plan: if faster",  \
	       BB_NEEDS_PLAN)                                                                      \
	OPTION(INT, zero, "zero", 0, "0",                                                          \
	       "stage of ZeRO among the replicas; without --plan 0 or 1 (default with --plan: "    \
	       "any)",                                                                             \
	       .min = 0, .max = 3,                                                                 \
	       .needs = {{"plan", "runs have stages 0 and 1", .value = "2"},                       \
			 {"plan", "runs have stages 0 and 1", .value = "3"}})                      \
	OPTION(CHOICE, recompute, "recompute", 0, "any",                                           \
	       "part of the forward pass that is recomputed; any: the fastest with --plan, "       \
	       "else none",                                                                        \
	       .choices = recompute_names)                                                         \
	OPTION(FLAG, plan, "plan", 0, NULL,                                                        \
	       "compare all divisions of the model, by --link, --node-link, --flops and "          \
	       "--memory; run nothing",                                                            \
	       .section = "Plan", .usual = true,                                                   \
	       .needs = {{"ranks cluster preset"}, {"link cluster preset"}, {"flops preset"}},     \
	       .excludes = {{"fault pass-time algo nthreads ngpus",                                \
			     "a plan runs nothing; --ranks sets their number"}})                   \
	OPTION(FLAG, fixed, "fixed", 0, NULL,                                                      \
	       "with --plan: no search for --zero, --sequence-parallel, --scatter-gather, --cp, "  \
	       "--ep, --schedule and --virtual-stages; what is not given is as without --plan",    \
	       BB_NEEDS_PLAN)                                                                      \
	OPTION(INT, ranks, "ranks", 0, NULL, "number of ranks of the plan", .min = 1,              \
	       .max = MOST_RANKS, BB_NEEDS_PLAN)                                                   \
	OPTION(INT, node, "node", 0, "8",                                                          \
	       "ranks of a node, connected by --link; with --cluster fewer than it has", .min = 1, \
	       .max = MOST_RANKS, .needs = {{"node-link plan"}})                                   \
	OPTION(LINK, node_link, "node-link", 0, NULL,                                              \
	       "link of a rank to other nodes, as in 25GB/s,5us (default: as --link); for "        \
	       "--plan and sim",                                                                   \
	       .excludes = {{"cluster", "it has the links between nodes"}})                        \
	BB_MEMORY_OPTION(OPTION, .usual = true)                                                    \
	BB_FLOPS_OPTION(OPTION, "",                                                                \
			.excludes = {{"pass-time", "both set the time of computations"}})          \
	OPTION(FLOPS, attention_flops, "attention-flops", 0, NULL,                                 \
	       "FLOPs per second of attention's products, which stay in 16 bits where others "     \
	       "have 8 (default: as --flops)",                                                     \
	       BB_NEEDS_PLAN)                                                                      \
	OPTION(FLOPS, peak, "peak", 0, NULL,                                                       \
	       "peak of a rank, for the MFU (default: 16-bit peak of the GPU of --cluster)",       \
	       BB_NEEDS_PLAN)                                                                      \
	OPTION(INT, best, "best", 0, "8", "number of divisions in the text; --json has all",       \
	       .min = 1, .max = 1000, BB_NEEDS_PLAN)                                               \
	BB_ATTENTION_OPTION(OPTION, "; a preset: eager")                                           \
	OPTION(CHOICE, overlap, "overlap", 0, "none",                                              \
	       "communication beside computations: of data parallelism; all: also of tensors, "    \
	       "context and stages; experts: of experts, too",                                     \
	       .choices = bb_overlap_words, BB_NEEDS_PLAN)                                         \
	OPTION(LINK, memory_rate, "memory-rate", 0, NULL,                                          \
	       "rate of a rank's memory, as in 1.7TB/s, for operations that it limits "            \
	       "(default: they take no time)",                                                     \
	       BB_NEEDS_PLAN)                                                                      \
	OPTION(DURATION, launch_ns, "launch-time", 0, NULL,                                        \
	       "time of the CPU to launch a layer with experts for a micro-batch (default: none)", \
	       .min = 1, .max = BB_YEAR_NS, BB_NEEDS_PLAN)                                         \
	COMMON("iters", 'n', "5", "timed steps of each kind", .min = 1, .max = 1000000,            \
	       .section = "Steps", .usual = true)                                                  \
	OPTION(STRING, algo_text, "algo", 0, "auto",                                               \
	       "algorithm of the collectives; auto: the best for each", .argument = "NAME")        \
	OPTION(DURATION, pass_ns, "pass-time", 0, "30ms",                                          \
	       "instead of --flops: forward and backward pass of the layers of a stage for a "     \
	       "micro-batch; the time of the head follows",                                        \
	       .min = 1, .max = BB_YEAR_NS)                                                        \
	BB_COMPUTE_OPTION(OPTION)

struct bb_hybrid_options {
	BB_OPTION_MEMBERS(BB_HYBRID_OPTIONS)

	/* Derived from them. */
	const struct bb_hybrid_preset *preset; /* NULL: none */
};

/* A published run; other options override its settings. */
struct bb_hybrid_preset {
	const char *name, *source;
	const char *assumed; /* not given by the source */
	const char *model;
	struct bb_grid grid;
	int node;
	uint64_t batch, micro_batch;
	enum bb_recompute recompute;
	int zero;
	uint64_t memory;
	/* FLOPs per second of a rank: of the whole run with communication and bubble; or of
	   computations alone. The other one is 0. */
	double run_flops, flops;
	struct bb_cluster_link inside, between;
};

extern const char *const bb_context_words[];  /* of --cp-by, ends with NULL */
extern const char *const bb_dispatch_words[]; /* of --dispatch, ends with NULL */

/* Sets nodes and links of CLUSTER to those of the system C: a GPU's to the others of its node, or
   of the nodes that share NVSwitches with it, which count as one, and its share of a NIC. */
void bb_hybrid_cluster_set(struct bb_hybrid_cluster *cluster, const struct bb_cluster *c);

/* ---- records --------------------------------------------------------------------------------- */

#define BB_HYBRID_PLAN_FIELDS(FIELD)                                                               \
	FIELD(STRING, model, "", "name of the model, as requested")                                \
	FIELD(INT, place, "", "place among all divisions that fit; 1: the fastest")                \
	FIELD(STRING, reason, "", "largest difference from the best or the second-best division")  \
	FIELD(BOOL, published, "", "whether it is the division of --preset")                       \
	FIELD(INT, nranks, "", "number of ranks of the plan")                                      \
	FIELD(INT, node, "", "ranks of a node")                                                    \
	FIELD(STRING, order, "", "order of ranks")                                                 \
	FIELD(INT, tp, "", "ranks that divide each layer")                                         \
	FIELD(INT, pp, "", "number of stages of the pipeline")                                     \
	FIELD(INT, dp, "", "number of replicas")                                                   \
	FIELD(INT, ep, "", "groups of etp ranks that divide the experts")                          \
	FIELD(INT, etp, "", "ranks that divide each expert")                                       \
	FIELD(STRING, dispatch, "", "rows of experts: as in --dispatch; null: ep is 1")            \
	FIELD(INT, cp, "", "ranks that divide each sequence")                                      \
	FIELD(STRING, context, "", "communication of cp: ring or all-to-all; null: cp is 1")       \
	FIELD(STRING, schedule, "", "schedule of the pipeline; null: there is none")               \
	FIELD(INT, virtual_stages, "", "virtual stages of each stage")                             \
	FIELD(STRING, attention, "", "kernels of attention")                                       \
	FIELD(STRING, overlap, "", "communication beside computations")                            \
	FIELD(INT, micro_batch, "", "sequences of a micro-batch")                                  \
	FIELD(INT, micro_batches, "", "micro-batches of a step of each replica")                   \
	FIELD(STRING, recompute, "", "part of the forward pass that is recomputed")                \
	FIELD(INT, zero, "", "stage of ZeRO")                                                      \
	FIELD(BOOL, sequence_parallel, "", "whether tensor ranks are sequence parallel")           \
	FIELD(BOOL, scatter_gather, "", "whether tensor ranks send a part each to the next stage") \
	FIELD(INT, memory_bytes, "bytes", "memory of the rank that needs most")                    \
	FIELD(INT, memory_limit_bytes, "bytes", "memory of a rank")                                \
	FIELD(STRING, tightest, "", "largest part of memory_bytes")                                \
	FIELD(DOUBLE, step_us, "us", "time of a step")                                             \
	FIELD(DOUBLE, tokens_per_s, "1/s", "tokens that a rank trains per second")                 \
	FIELD(DOUBLE, flops_share, "fraction",                                                     \
	      "FLOPs of the model, without recomputation and what FlashAttention skips, over "     \
	      "--flops")                                                                           \
	FIELD(DOUBLE, mfu, "fraction", "the same FLOPs over --peak; null: the peak is unknown")    \
	FIELD(DOUBLE, compute_us, "us", "computations of the slowest stage")                       \
	FIELD(DOUBLE, local_us, "us", "part of them that the memory limits")                       \
	FIELD(DOUBLE, launch_us, "us", "waits of the slowest stage for the CPU: --launch-time")    \
	FIELD(DOUBLE, bubble_us, "us", "waits of stages at the beginning and at the end")          \
	FIELD(DOUBLE, bubble_over_ideal, "fraction", "(pp - 1) / micro_batches")                   \
	FIELD(DOUBLE, tensor_us, "us", "communication of tensor parallelism")                      \
	FIELD(DOUBLE, expert_us, "us", "communication of expert parallelism")                      \
	FIELD(DOUBLE, context_us, "us", "exposed communication of context parallelism")            \
	FIELD(DOUBLE, pipeline_us, "us", "exposed messages between stages")                        \
	FIELD(DOUBLE, data_us, "us", "reduction of gradients, and all-gathers of ZeRO")            \
	FIELD(DOUBLE, embedding_us, "us",                                                          \
	      "reduction of the gradient that head and embedding share")                           \
	FIELD(DOUBLE, tensor_bytes, "bytes", "sent by a rank of the slowest stage in a step")      \
	FIELD(DOUBLE, expert_bytes, "bytes", "sent likewise")                                      \
	FIELD(DOUBLE, pipeline_bytes, "bytes", "sent likewise")                                    \
	FIELD(DOUBLE, data_bytes, "bytes", "sent likewise")                                        \
	FIELD(DOUBLE, embedding_bytes, "bytes", "sent likewise")                                   \
	FIELD(INT, tensor_calls, "", "collectives of a rank in a step")                            \
	FIELD(INT, expert_calls, "", "all-to-alls of a rank in a step")                            \
	FIELD(INT, pipeline_calls, "", "messages that a rank sends in a step")                     \
	FIELD(INT, data_calls, "", "collectives of a rank in a step")                              \
	FIELD(INT, activation_bytes, "bytes", "activations of a micro-batch between layers")       \
	FIELD(INT, boundary_bytes, "bytes", "size of a message between stages")                    \
	FIELD(INT, tensor_crossing, "", "tensor groups that cross nodes")                          \
	FIELD(INT, expert_crossing, "", "expert groups that cross nodes")                          \
	FIELD(INT, pipeline_crossing, "", "pipelines that cross nodes")                            \
	FIELD(INT, data_crossing, "", "data-parallel groups that cross nodes")

/* A division of the ranks, as planned. */
struct bb_hybrid_plan_record {
	BB_HYBRID_PLAN_FIELDS(BB_MEMBER)
};

#define BB_HYBRID_FIELDS(FIELD)                                                                    \
	FIELD(STRING, model, "", "name of the model, as requested")                                \
	FIELD(STRING, part, "",                                                                    \
	      "step: the whole step; else a part alone: compute, tensor, expert, pipeline, "       \
	      "data, embedding",                                                                   \
	      BB_COLUMN("part", -9, 0))                                                            \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(STRING, order, "", "order of ranks")                                                 \
	FIELD(INT, tp, "", "ranks that divide each layer")                                         \
	FIELD(INT, pp, "", "number of stages of the pipeline")                                     \
	FIELD(INT, dp, "", "number of replicas")                                                   \
	FIELD(INT, ep, "", "number of replicas that divide the experts")                           \
	FIELD(INT, zero, "", "stage of ZeRO")                                                      \
	FIELD(BOOL, sequence_parallel, "", "whether tensor ranks are sequence parallel")           \
	FIELD(INT, micro_batch, "", "sequences of a micro-batch")                                  \
	FIELD(INT, micro_batches, "", "micro-batches of a step of each replica")                   \
	FIELD(STRING, attention, "", "kernels of attention")                                       \
	BB_FIT_FIELDS(FIELD)                                                                       \
	FIELD(STRING, algorithm, "", "algorithm of the collectives, as requested")                 \
	FIELD(STRING, compute, "", "stand-in for computations: --compute")                         \
	FIELD(INT, calls, "", "collectives, or sent messages, of the rank that sends most",        \
	      BB_COLUMN("calls", 8, 0))                                                            \
	FIELD(DOUBLE, sent_bytes, "bytes",                                                         \
	      "bytes that it sends in a step by the algorithm that ran; by an algorithm of a "     \
	      "library: the least of all algorithms",                                              \
	      BB_COLUMN("sent", 10, 3), BB_MB)                                                     \
	FIELD(INT, crossing, "", "groups with members on several hosts, or nodes of --cluster",    \
	      BB_COLUMN("across", 8, 0), .head_unit = "(nodes)")                                   \
	FIELD(STRING, links, "", "links of the ranks")                                             \
	FIELD(DOUBLE, time_us, "us", "time until the last rank ends: median",                      \
	      BB_COLUMN("alone", 10, 3), BB_MS)                                                    \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of the median, lower end",            \
	      BB_COLUMN("from", 10, 3), BB_MS)                                                     \
	FIELD(DOUBLE, high_us, "us", "its upper end", BB_COLUMN("to", 10, 3), BB_MS)               \
	FIELD(INT, samples, "", "number of timed steps")                                           \
	FIELD(DOUBLE, sent_GBps, "GB/s", "sent_bytes / time_us", BB_COLUMN("rate", 8, 2))          \
	FIELD(DOUBLE, in_step_us, "us",                                                            \
	      "time that a rank spends on it in a whole step, with waits for partners; of the "    \
	      "pipeline: wait of computations for messages; mean of ranks",                        \
	      BB_COLUMN("in step", 10, 3), BB_MS)                                                  \
	FIELD(DOUBLE, plan_us, "us",                                                               \
	      "the same by the formula of --plan, with rings; of the "                             \
	      "step with the bubble",                                                              \
	      BB_COLUMN("plan", 10, 3), BB_MS)                                                     \
	FIELD(DOUBLE, plan_bubble_us, "us", "bubble in plan_us")                                   \
	FIELD(INT, wrong, "elements",                                                              \
	      "wrong elements among results of communication; null: not verified",                 \
	      BB_COLUMN("#wrong", 7, 0), .head_unit = "")                                          \
	FIELD(DOUBLE, end_unix_s, "s", "time of the end, since 1970 UTC")

/* A step, or a part of it alone. */
struct bb_hybrid_record {
	BB_HYBRID_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_hybrid_plan, bb_record_hybrid;

/* ---- the benchmark --------------------------------------------------------------------------- */

/* The state of the benchmark. */
struct bb_hybrid {
	struct bb_hybrid_options options; /* first: the rows are read into it */
	struct bb_model model;
	struct bb_cluster *nodes; /* nodes of --link and --node-link; NULL: none */
	struct bb_capacity capacity;

	/* The step that is run, once the world is known; its shape borrows from the model and
	   the next two. */
	struct bb_hybrid_shape shape;
	uint64_t *gradients; /* [stage], followed by those of experts */
	struct bb_moe_load load;
	struct bb_fit_verdict fit;
	struct bb_hybrid_cost plan; /* by the formula of --plan; step 0: the links are unknown */
};

extern const struct bb_benchmark bb_hybrid_benchmark;

/* ---- the step that is run (drive.c) ---------------------------------------------------------- */

/* The benchmark's plan: settles the step. BB_EUSAGE if the ranks or the model cannot be divided so,
   BB_EUNSUPPORTED if there is no room for the data of a rank. */
BB_MUST bb_status bb_hybrid_settle(struct bb_run *run);
extern const struct bb_experiment bb_hybrid_experiment;

/* The benchmark's show. */
BB_MUST bb_status bb_hybrid_show(struct bb_run *run, struct bb_strbuf *out);

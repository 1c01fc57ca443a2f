/*
 * cost.c - the predicted time of a step of a division.
 */
#include "training_kernels/hybrid/cost.h"

#include "training_kernels/hybrid/memory_time.h"

#include <math.h>

/* SMs that exchange rows beside products. */
#define EXCHANGE_SMS (20. / 132)

const char *const bb_overlap_words[] = {"none", "data", "all", "experts", NULL};

/* ---- stages ---------------------------------------------------------------------------------- */

static uint64_t layers_begin(const struct bb_training *t, uint64_t stage)
{
	return bb_layers_before((uint64_t)t->model->blocks, t->pp, stage);
}

/* STAGE of T, for volumes and times. */
static struct bb_hybrid_part hybrid_stage(const struct bb_training *t, uint64_t stage)
{
	const struct bb_need need = bb_training_stage(t, stage);

	return (struct bb_hybrid_part){
		.layers = need.layers,
		.sparse = need.sparse,
		.first = stage == 0,
		.last = stage == t->pp - 1,
		.elements = need.elements,
		.experts = need.experts,
	};
}

uint64_t bb_hybrid_context(const struct bb_hybrid_division *division)
{
	return (uint64_t)bb_grid_size(&division->grid, BB_AXIS_CP);
}

double bb_attention_flops(const struct bb_model *m)
{
	const struct bb_hyper *h = &m->hyper;

	return 2.0 * (double)(h->seq * h->seq) * (double)(h->heads * (h->head_dim + h->value_dim));
}

/* ---- computations ---------------------------------------------------------------------------- */

/* FLOPs of the layers FIRST to LAST - 1, of which BB_LAYER_BEFORE is the first. */
static struct bb_work layers_work(const struct bb_training *t, int first, int last)
{
	const struct bb_work *end = &t->layout->works[last - BB_LAYER_BEFORE];
	const struct bb_work *begin = &t->layout->works[first - BB_LAYER_BEFORE];

	return (struct bb_work){.forward = end->forward - begin->forward,
				.input = end->input - begin->input,
				.weights = end->weights - begin->weights};
}

/* Seconds of a rank of STAGE for one micro-batch: passes as in order.h, with recomputation before
   the backward pass; PRODUCTS: of all of them without attention. FlashAttention skips the masked
   half of causal attention, and its backward pass repeats the product of queries and keys. */
struct stage_time {
	double forward, input, weights, products;
};

static struct stage_time stage_time(const struct bb_hybrid_division *division, uint64_t stage,
				    double flops, double attention_flops)
{
	const struct bb_training *t = &division->training;
	const struct bb_model *m = t->model;
	const int begin = (int)layers_begin(t, stage), end = (int)layers_begin(t, stage + 1);
	const struct bb_work blocks = layers_work(t, begin, end);
	const struct bb_work all = layers_work(t, stage == 0 ? BB_LAYER_BEFORE : begin,
					       stage == t->pp - 1 ? m->blocks + 1 : end);
	const double each =
		(double)t->micro_batch / (double)t->tp / (double)bb_hybrid_context(division);
	const double core = bb_attention_flops(m) * (end - begin);
	const double causal = !t->eager && !m->encoder ? 0.5 : 1;
	const double again = t->recompute == BB_RECOMPUTE_FULL ? 1 : 0;
	const double core_again = t->recompute == BB_RECOMPUTE_NONE ? 0 : causal;
	const double core_input = core_again + (t->eager ? 2 : 2.5 * causal);
	const double forward = all.forward - core;
	const double input = all.input - 2 * core + again * (blocks.forward - core);
	const double fast = each / flops, slow = each / attention_flops;

	return (struct stage_time){
		.forward = forward * fast + core * causal * slow,
		.input = input * fast + core * core_input * slow,
		.weights = all.weights * fast,
		.products = (forward + input + all.weights) * fast,
	};
}

static struct bb_hybrid_step step_of(const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const struct bb_hyper *h = &t->model->hyper;

	return (struct bb_hybrid_step){
		.grid = division->grid,
		.seq = (uint64_t)h->seq / bb_hybrid_context(division),
		.hidden = (uint64_t)h->hidden,
		.exchanges = division->exchanges,
		.queries = (uint64_t)h->head_dim * bb_partition((uint64_t)h->heads, t->tp),
		.keys = (uint64_t)h->head_dim * bb_partition((uint64_t)h->kv_heads, t->tp),
		.chunks = t->chunks,
		.routes = (uint64_t)h->top_k,
		.micro_batch = t->micro_batch,
		.micro_batches = t->micro_batches,
		.embedding = t->layout->embedding,
		.recipe = t->recipe,
		.zero = t->zero,
		.sequence_parallel = t->sequence_parallel,
		.scatter = division->scatter && division->grid.tp > 1,
		.recomputes = t->recompute == BB_RECOMPUTE_FULL,
	};
}

/* ---- links ----------------------------------------------------------------------------------- */

void bb_hybrid_cross(struct bb_hybrid_division *division, int node)
{
	const struct bb_grid *g = &division->grid;

	for (int i = 0; i < BB_TRAFFICS; i++)
		division->crosses[i] = bb_grid_crosses(g, bb_traffic_axes[i], node);
	if (bb_grid_expert_tensor(g) < g->tp)
		division->crosses[BB_TRAFFIC_EXPERT] |= division->crosses[BB_TRAFFIC_TENSOR];
}

/* Members of the first group along AXIS on its first member's node. */
static int members_on_node(const struct bb_grid *g, enum bb_axis axis, int node)
{
	int members = 1;

	while (members < bb_grid_size(g, axis) && bb_grid_member(g, axis, 0, members) < node)
		members++;
	return members;
}

/* The link of the ring of TRAFFIC. */
static struct bb_hybrid_link ring_link(const struct bb_hybrid_division *division,
				       const struct bb_hybrid_cluster *c, int traffic)
{
	struct bb_hybrid_link link = division->crosses[traffic] ? c->between : c->inside;
	const struct bb_grid *g = &division->grid;
	const enum bb_axis axis = bb_traffic_axes[traffic];

	if (!c->rails || !division->crosses[traffic] || axis == BB_AXIS_PP ||
	    bb_grid_size(g, axis) == 1)
		return link;
	link.rate = fmin(link.rate * members_on_node(g, axis, c->node), c->inside.rate);
	return link;
}

static double ring_seconds(const struct bb_volume *v, const struct bb_hybrid_link *link)
{
	return (double)v->rounds * link->latency + v->sent / link->rate;
}

/* Ranks of an all-to-all, and those of them on a rank's node. */
struct exchange {
	int ranks, members;
};

/* Replicas, and the tensor ranks that hold different experts. */
static struct exchange expert_exchange(const struct bb_hybrid_division *division, int node)
{
	const struct bb_grid *g = &division->grid;
	const int tensors = members_on_node(g, BB_AXIS_TP, node) / bb_grid_expert_tensor(g);
	struct exchange e = {.ranks = bb_grid_expert_ranks(g)};

	e.members = !division->crosses[BB_TRAFFIC_EXPERT] ? e.ranks
		    : division->crosses[BB_TRAFFIC_TENSOR]
			    ? tensors
			    : tensors * members_on_node(g, BB_AXIS_EP, node);
	e.members = e.members > 0 ? e.members : 1;
	return e;
}

/* All-to-alls of E: what stays on the node and what leaves it by the rank's own link move at the
   same time, or, without rails, one message after another. SHARE of what would leave the node does;
   INSIDE of what is sent moves within nodes. */
static double exchange_seconds(const struct bb_volume *v, const struct bb_hybrid_cluster *c,
			       struct exchange e, double share, double inside)
{
	const int others = e.ranks - e.members;
	const double away = e.ranks > 1 ? (double)others / (e.ranks - 1) : 0;
	const double across = v->sent * away * share / c->between.rate;
	const double within = v->sent * inside / c->inside.rate;
	const double calls = (double)v->rounds;

	if (!c->rails)
		return calls * ((e.members - 1) * c->inside.latency + others * c->between.latency) +
		       across + within;
	return calls * (others > 0 ? c->between.latency : c->inside.latency) + fmax(across, within);
}

/* Rows of experts: directly from rank to rank, or once to each node of a token's experts, of which
   even loads give each the same chance, and from there to the ranks. */
static double expert_seconds(const struct bb_hybrid_division *division, const struct bb_volume *v,
			     const struct bb_hybrid_cluster *c)
{
	const struct exchange e = expert_exchange(division, c->node);
	const double others = e.ranks > 1 ? e.ranks - 1 : 1;
	const double nodes = (double)e.ranks / e.members;
	const double routes = (double)division->training.model->hyper.top_k;

	if (!division->by_node)
		return exchange_seconds(v, c, e, 1, (e.members - 1) / others);
	return exchange_seconds(v, c, e, nodes * (1 - pow(1 - 1 / nodes, routes)) / routes,
				(e.members - 1) * nodes / others);
}

static double context_seconds(const struct bb_hybrid_division *division, const struct bb_volume *v,
			      const struct bb_hybrid_cluster *c)
{
	const struct exchange e = {bb_grid_size(&division->grid, BB_AXIS_CP),
				   members_on_node(&division->grid, BB_AXIS_CP, c->node)};
	const double others = e.ranks > 1 ? e.ranks - 1 : 1;

	return exchange_seconds(v, c, e, 1, (e.members - 1) / others);
}

/* EACH traffic of a rank, of volumes V, without overlap. */
static void traffic_seconds(const struct bb_hybrid_division *division,
			    const struct bb_hybrid_cluster *c, const struct bb_hybrid_volumes *v,
			    double each[BB_TRAFFICS])
{
	for (int i = 0; i < BB_TRAFFICS; i++) {
		const struct bb_hybrid_link link = ring_link(division, c, i);

		each[i] = ring_seconds(&v->of[i], &link);
	}
	each[BB_TRAFFIC_EXPERT] = expert_seconds(division, &v->of[BB_TRAFFIC_EXPERT], c);
	if (division->exchanges)
		each[BB_TRAFFIC_CONTEXT] = context_seconds(division, &v->of[BB_TRAFFIC_CONTEXT], c);
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* A stage in a step, of seconds. */
struct stage_cost {
	struct stage_time time; /* of a micro-batch */
	struct bb_hybrid_volumes volume;
	double compute, local, optimizer;
	double launch; /* waits for the CPU */
	double traffic[BB_TRAFFICS];
};

/* Shortens the traffic of a stage by what runs beside its computations. */
static void hide_traffic(const struct bb_hybrid_division *division,
			 const struct bb_hybrid_part *part, struct stage_cost *s)
{
	const struct bb_training *t = &division->training;
	const double m = (double)t->micro_batches;
	const double beside = t->zero > 1 ? s->compute : s->compute / m;
	const double least = s->traffic[BB_TRAFFIC_DATA] /
			     (double)(part->layers * (t->zero > 1 ? t->micro_batches : 1));
	const double products = m * s->time.products;
	const double attention = m * (s->time.forward + s->time.input + s->time.weights) - products;
	double *tensor = &s->traffic[BB_TRAFFIC_TENSOR];
	double *context = &s->traffic[BB_TRAFFIC_CONTEXT];
	double *expert = &s->traffic[BB_TRAFFIC_EXPERT];

	if (division->overlap >= BB_OVERLAP_DATA)
		s->traffic[BB_TRAFFIC_DATA] = fmax(s->traffic[BB_TRAFFIC_DATA] - beside, least);
	if (division->overlap < BB_OVERLAP_ALL)
		return;
	if (!division->crosses[BB_TRAFFIC_TENSOR])
		*tensor = fmax(*tensor / (double)t->tp, *tensor - products);
	if (!division->exchanges)
		*context = fmax(*context - attention, 0);
	if (division->overlap >= BB_OVERLAP_EXPERTS) {
		const double all = *expert;

		*expert = fmax(all / m, all - products);
		s->compute += EXCHANGE_SMS * (all - *expert);
	}
}

/* Seconds of a stage for all micro-batches, messages within it included. */
static double busy_seconds(const struct stage_cost *s)
{
	return s->compute + s->launch + s->traffic[BB_TRAFFIC_TENSOR] +
	       s->traffic[BB_TRAFFIC_EXPERT] + s->traffic[BB_TRAFFIC_CONTEXT];
}

static struct stage_cost stage_cost(const struct bb_hybrid_division *division,
				    const struct bb_hybrid_cluster *cluster,
				    const struct bb_hybrid_step *step,
				    const struct bb_hybrid_part *part, uint64_t stage)
{
	const struct bb_training *t = &division->training;
	const struct bb_memory_bytes moved =
		bb_memory_bytes_of(t, part, bb_hybrid_context(division),
				   bb_sorted_bytes(t, &division->grid, division->by_node));
	const double rate = cluster->memory_rate > 0 ? cluster->memory_rate : INFINITY;
	const double m = (double)t->micro_batches;
	/* A forward pass is a third of both passes. */
	const double launch = cluster->launch * (t->recompute == BB_RECOMPUTE_FULL ? 4. / 3 : 1);
	struct stage_cost s = {
		.time = stage_time(division, stage, cluster->flops,
				   cluster->attention_flops > 0 ? cluster->attention_flops
								: cluster->flops),
		.volume = bb_hybrid_volumes_of(step, part),
		.local = m * moved.pass / rate,
		.optimizer = moved.step / rate,
	};

	s.compute = s.local + m * (s.time.forward + s.time.input + s.time.weights);
	traffic_seconds(division, cluster, &s.volume, s.traffic);
	hide_traffic(division, part, &s);
	s.launch = fmax(m * (double)part->sparse * launch - busy_seconds(&s), 0);
	return s;
}

struct bb_bubble_form bb_hybrid_bubble(const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;

	return (struct bb_bubble_form){
		.schedule = division->schedule ? division->schedule : bb_bubble_usual(t->chunks),
		.stages = t->pp,
		.chunks = t->chunks,
		.micro_batches = t->micro_batches,
		.kept = division->kept > 0 ? division->kept : 2 * t->pp,
		.overlapped = division->overlap >= BB_OVERLAP_ALL,
	};
}

/* The bubble that SLOWEST makes. Operations that the memory limits, and messages within the stage,
   count as half of each of the forward pass and the gradient of the input. */
static bool division_bubble(const struct bb_hybrid_division *division,
			    const struct bb_hybrid_cluster *cluster,
			    const struct stage_cost *slowest, struct bb_bubble_orders *orders,
			    double most, struct bb_bubble *bubble)
{
	const struct bb_hybrid_link hop = ring_link(division, cluster, BB_TRAFFIC_PIPELINE);
	const struct stage_time *time = &slowest->time;
	struct bb_bubble_form form = bb_hybrid_bubble(division);
	const double rest = busy_seconds(slowest) / (double)form.micro_batches - time->forward -
			    time->input - time->weights;

	form.forward = time->forward + rest / 2;
	form.input = time->input + rest / 2;
	form.weights = time->weights;
	form.hop = hop.latency + (double)slowest->volume.boundary / hop.rate;
	return bb_bubble_find(&form, orders, most, bubble);
}

void bb_hybrid_cost_find(struct bb_hybrid_division *division,
			 const struct bb_hybrid_cluster *cluster, struct bb_bubble_orders *orders,
			 double most)
{
	const struct bb_training *t = &division->training;
	const struct bb_hybrid_step step = step_of(division);
	struct bb_hybrid_cost cost = {.compute = 0};
	struct stage_cost slowest = {.compute = -1};
	double optimizer = 0;
	struct bb_bubble bubble;
	struct bb_hybrid_part before = {.layers = 0};

	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_hybrid_part part = hybrid_stage(t, stage);
		struct stage_cost s;

		/* Stages between the first and the last with layers of the same kind are alike. */
		if (stage > 1 && !part.last && part.layers == before.layers &&
		    part.sparse == before.sparse && part.elements == before.elements)
			continue;
		before = part;
		s = stage_cost(division, cluster, &step, &part, stage);
		cost.traffic[BB_TRAFFIC_DATA] =
			fmax(cost.traffic[BB_TRAFFIC_DATA], s.traffic[BB_TRAFFIC_DATA]);
		cost.traffic[BB_TRAFFIC_EMBEDDING] =
			fmax(cost.traffic[BB_TRAFFIC_EMBEDDING], s.traffic[BB_TRAFFIC_EMBEDDING]);
		optimizer = fmax(optimizer, s.optimizer);
		if (slowest.compute < 0 || busy_seconds(&s) > busy_seconds(&slowest))
			slowest = s;
	}
	division->volume = slowest.volume;
	cost.compute = slowest.compute + optimizer;
	cost.local = slowest.local + optimizer;
	cost.launch = slowest.launch;
	cost.traffic[BB_TRAFFIC_TENSOR] = slowest.traffic[BB_TRAFFIC_TENSOR];
	cost.traffic[BB_TRAFFIC_EXPERT] = slowest.traffic[BB_TRAFFIC_EXPERT];
	cost.traffic[BB_TRAFFIC_CONTEXT] = slowest.traffic[BB_TRAFFIC_CONTEXT];
	cost.step = cost.compute + cost.launch;
	for (int i = 0; i < BB_TRAFFICS; i++)
		cost.step += cost.traffic[i];
	if (division_bubble(division, cluster, &slowest, orders, most - cost.step, &bubble)) {
		cost.bubble = bubble.idle;
		cost.traffic[BB_TRAFFIC_PIPELINE] = bubble.messages;
		cost.step += bubble.idle + bubble.messages;
	} else {
		cost.step = INFINITY;
	}
	division->cost = cost;
}

void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster)
{
	bb_hybrid_cross(division, cluster->node);
	bb_hybrid_cost_find(division, cluster, NULL, INFINITY);
}

double bb_hybrid_division_rate(struct bb_hybrid_division *division,
			       const struct bb_hybrid_cluster *cluster, double run)
{
	const struct bb_training *t = &division->training;
	struct bb_hybrid_cluster trial = *cluster;
	double low = run, high = 1e6 * run, stages = 0, step;

	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct stage_time flops = stage_time(division, stage, 1, 1);

		stages += flops.forward + flops.input + flops.weights;
	}
	step = stages * (double)t->micro_batches / (double)t->pp / run;
	/* The step gets shorter with faster computations, so bisection finds the rate. */
	while (high - low > 1e-12 * high) {
		trial.flops = (low + high) / 2;
		bb_hybrid_division_cost(division, &trial);
		*(division->cost.step > step ? &low : &high) = trial.flops;
	}
	return high < 1e6 * run ? high : 0;
}

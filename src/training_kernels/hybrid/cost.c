#include "training_kernels/hybrid/cost.h"

#include <math.h>
#include <string.h>

const enum bb_axis bb_traffic_axes[BB_TRAFFICS] = {
	[BB_TRAFFIC_TENSOR] = BB_AXIS_TP,    [BB_TRAFFIC_EXPERT] = BB_AXIS_EP,
	[BB_TRAFFIC_PIPELINE] = BB_AXIS_PP,  [BB_TRAFFIC_DATA] = BB_AXIS_DP,
	[BB_TRAFFIC_EMBEDDING] = BB_AXIS_PP, [BB_TRAFFIC_CONTEXT] = BB_AXIS_CP,
};

/* SMs that exchange rows beside products. */
#define EXCHANGE_SMS (20. / 132)

const char *const bb_term_words[BB_TERMS] = {
	[BB_TRAFFIC_TENSOR] = "tensor",
	[BB_TRAFFIC_EXPERT] = "expert",
	[BB_TRAFFIC_CONTEXT] = "context",
	[BB_TRAFFIC_PIPELINE] = "pipeline",
	[BB_TRAFFIC_DATA] = "data",
	[BB_TRAFFIC_EMBEDDING] = "embedding",
	[BB_TERM_BUBBLE] = "bubble",
	[BB_TERM_COMPUTE] = "compute",
	[BB_TERM_LAUNCH] = "wait for the CPU",
};
const char *const bb_overlap_words[] = {"none", "data", "all", "experts", NULL};

void bb_hybrid_division_set(struct bb_hybrid_division *division, const struct bb_grid *grid)
{
	division->grid = *grid;
	division->training.dp = (uint64_t)grid->dp;
	division->training.tp = (uint64_t)grid->tp;
	division->training.pp = (uint64_t)grid->pp;
	division->training.ep = (uint64_t)grid->ep;
}

/* ---- communication --------------------------------------------------------------------------- */

#define LOSS_BYTES 4 /* of a token, in each of its three all-reduces */

/* CALLS collectives of BYTES each among N ranks, each TURNS times around the ring. */
static void add_rings(struct bb_volume *v, uint64_t calls, uint64_t turns, int n, double bytes)
{
	if (n == 1)
		return;
	v->calls += calls;
	v->rounds += calls * turns * (uint64_t)(n - 1);
	v->sent += (double)(calls * turns) * bytes * (n - 1) / n;
}

/* CALLS all-to-alls among N ranks, each of which has BYTES for all of them together. */
static void add_exchanges(struct bb_volume *v, uint64_t calls, int n, double bytes)
{
	if (n == 1)
		return;
	v->calls += calls;
	v->rounds += calls;
	v->sent += (double)calls * bytes * (n - 1) / n;
}

static void add_context(const struct bb_hybrid_division *division, const struct bb_need *stage,
			uint64_t tokens, struct bb_volume *v)
{
	const struct bb_training *t = &division->training;
	const struct bb_hyper *h = &t->model->hyper;
	const int cp = division->grid.cp;
	const bool recomputes = t->recompute == BB_RECOMPUTE_FULL;
	const uint64_t passes = t->micro_batches * stage->layers;
	const uint64_t turns = (recomputes ? 4 : 3) * passes;
	const uint64_t again = (recomputes ? 6 : 4) * passes;
	/* Bytes of an element of all tokens, and elements of the queries, and of the output, of a
	   token on a rank; of the keys, and of the values. */
	const uint64_t element = t->recipe.precision->parameter * tokens;
	const uint64_t queries = (uint64_t)h->head_dim * bb_partition((uint64_t)h->heads, t->tp);
	const uint64_t keys = (uint64_t)h->head_dim * bb_partition((uint64_t)h->kv_heads, t->tp);

	if (division->exchanges) {
		add_exchanges(v, again, cp, (double)(element * queries));
		add_exchanges(v, again, cp, (double)(element * keys));
		return;
	}
	v->calls = v->rounds = turns * (uint64_t)(cp - 1);
	v->sent = (double)v->calls * (double)(2 * element * keys);
}

/* The reduction, and ZeRO's all-gathers, of ELEMENTS that RANKS share. */
static void add_data(const struct bb_training *t, uint64_t elements, int ranks, struct bb_volume *v)
{
	const uint64_t reductions = t->zero < 2 ? 1 : t->micro_batches;
	const uint64_t turns = t->zero == 3 ? 3 * reductions : reductions + 1;

	if (ranks == 1 || elements == 0)
		return;
	v->calls += t->zero == 0 ? 1 : turns;
	v->rounds += turns * (uint64_t)(ranks - 1);
	v->sent += (double)bb_zero_bytes(&t->recipe, elements, t->zero, (uint64_t)ranks,
					 t->micro_batches);
}

struct bb_hybrid_volumes bb_hybrid_volumes_of(const struct bb_hybrid_division *division,
					      const struct bb_need *stage)
{
	const struct bb_grid *g = &division->grid;
	const struct bb_training *t = &division->training;
	const struct bb_hyper *h = &t->model->hyper;
	const uint64_t m = t->micro_batches;
	const uint64_t tokens = (uint64_t)(h->seq / g->cp) * t->micro_batch;
	const uint64_t passes = t->recompute == BB_RECOMPUTE_FULL ? 3 : 2;
	/* Halves of layers that keep their tokens, and those with rows of experts. */
	const uint64_t own = m * (2 * stage->layers - stage->sparse), sparse = m * stage->sparse;
	const bool scatter = division->scatter && t->tp > 1, last = stage->stage == t->pp - 1;
	const bool parts = t->sequence_parallel || scatter;
	/* All virtual stages but the first of the model and the last have both neighbours. */
	const uint64_t chunks = t->chunks > 1 ? t->chunks : 1;
	const uint64_t ends = (stage->stage == 0) + last;
	const uint64_t messages = g->pp == 1 ? 0 : m * (2 * chunks - ends);
	struct bb_hybrid_volumes v = {.activation = (uint64_t)t->recipe.precision->parameter *
						    tokens * (uint64_t)h->hidden};
	const double activation = (double)v.activation, rows = activation * (double)h->top_k;
	struct bb_volume *const tensor = &v.of[BB_TRAFFIC_TENSOR];

	if (t->sequence_parallel) {
		add_rings(tensor, (2 * passes + 1) * own + 2 * m * ends, 1, g->tp, activation);
		add_rings(tensor, (2 * passes + 1) * sparse, 1, g->etp, rows * g->etp / g->tp);
	} else {
		add_rings(tensor, passes * (own + sparse) + m * ends, 2, g->tp, activation);
	}
	if (last)
		add_rings(tensor, 3 * m, 2, g->tp, (double)(LOSS_BYTES * tokens));
	v.boundary = parts ? (v.activation + t->tp - 1) / t->tp : v.activation;
	v.of[BB_TRAFFIC_PIPELINE] =
		(struct bb_volume){messages, messages, (double)messages * (double)v.boundary};
	if (scatter && !t->sequence_parallel)
		add_rings(tensor, messages, 1, g->tp, activation);
	add_exchanges(&v.of[BB_TRAFFIC_EXPERT], 2 * passes * sparse, bb_grid_expert_ranks(g),
		      t->sequence_parallel ? rows / g->tp : rows);
	add_context(division, stage, tokens, &v.of[BB_TRAFFIC_CONTEXT]);
	add_data(t, stage->elements - stage->experts, g->dp, &v.of[BB_TRAFFIC_DATA]);
	add_data(t, stage->experts, g->dp / g->ep, &v.of[BB_TRAFFIC_DATA]);
	if (ends == 1)
		add_rings(&v.of[BB_TRAFFIC_EMBEDDING], t->layout->embedding > 0, 2, 2,
			  (double)(t->layout->embedding / t->tp * t->recipe.precision->gradient));
	return v;
}

/* ---- the memory of a rank ------------------------------------------------------------------- */

#define LOGIT_BYTES 24
#define ROW_BYTES 2 /* of an element of a row */

/* Bytes of a layer for a token, but for scores: FORWARD pass or backward; SPARSE: it has experts.
 */
static double token_bytes(const struct bb_training *t, bool sparse, bool forward)
{
	const struct bb_hyper *h = &t->model->hyper;
	const bool gated = t->model->gated;
	const double each = t->sequence_parallel ? (double)t->tp : 1;
	const double width = (double)h->hidden;
	const double ffn = (double)(sparse ? h->expert_ffn * h->top_k + h->shared_ffn : h->ffn);
	const double sums = forward ? (gated ? 20 : 22) : (gated ? 24 : 34);
	const double inner = forward ? (gated ? 6 : 4) : (gated ? 10 : 6);
	const double rotated = gated ? (double)((h->heads + h->kv_heads) * h->head_dim) : 0;

	return sums * width / each + (inner * ffn + 4 * rotated) / (double)t->tp;
}

/* Bytes of the scores of a token. */
static double score_bytes(const struct bb_training *t, bool forward)
{
	const struct bb_hyper *h = &t->model->hyper;
	const bool gated = t->model->gated;

	if (!t->eager)
		return 0;
	return (forward ? (gated ? 8 : 13) : (gated ? 14 : 19)) * (double)(h->heads * h->seq) /
	       (double)t->tp;
}

double bb_sorted_bytes(const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const struct bb_hyper *h = &t->model->hyper;
	const double width = ROW_BYTES * (double)h->hidden, k = (double)h->top_k;
	const double own = t->sequence_parallel ? 1 / (double)t->tp : 1;
	const double gathered = own * division->grid.etp;
	const bool divided = bb_grid_expert_ranks(&division->grid) > 1;

	if (h->experts == 0)
		return 0;
	return (divided ? 4 * k * width * (t->sequence_parallel ? gathered : 1) : 0) +
	       (divided && division->by_node ? 0 : 2 * (k + 1) * width * own);
}

struct bb_memory_bytes bb_memory_bytes_of(const struct bb_hybrid_division *division,
					  const struct bb_need *stage, double sorted)
{
	const struct bb_training *t = &division->training;
	const struct bb_hyper *h = &t->model->hyper;
	const struct bb_states each = bb_states_each(&t->recipe);
	const double tokens = (double)h->seq / division->grid.cp * (double)t->micro_batch;
	const double passes = t->recompute == BB_RECOMPUTE_FULL ? 2 : 1;
	const double scores = score_bytes(t, true) * (t->recompute == BB_RECOMPUTE_NONE ? 1 : 2) +
			      score_bytes(t, false);
	const double kinds[] = {
		passes * token_bytes(t, false, true) + token_bytes(t, false, false) + scores,
		passes * token_bytes(t, true, true) + token_bytes(t, true, false) + scores +
			(passes + 1) * sorted,
	};
	const double layers = (double)(stage->layers - stage->sparse) * kinds[0] +
			      (double)stage->sparse * kinds[1];
	const double logits = stage->stage == t->pp - 1 && t->model->logits
				      ? LOGIT_BYTES * (double)h->vocab / (double)t->tp
				      : 0;
	const uint64_t replicas = t->zero > 0 ? t->dp : 1;
	const uint64_t updated =
		bb_partition(stage->elements - stage->experts, replicas) +
		bb_partition(stage->experts, replicas > t->ep ? replicas / t->ep : 1);

	return (struct bb_memory_bytes){
		.pass = tokens * (layers + logits) +
			2 * (double)each.gradients * (double)stage->elements,
		.step = (double)updated *
			(double)(2 * each.optimizer + each.gradients + each.parameters),
	};
}

/* ---- computations ---------------------------------------------------------------------------- */

/* FLOPs of the layers FIRST to LAST - 1. */
static struct bb_layers_work layers_work(const struct bb_training *t, int first, int last)
{
	const struct bb_layers_work *end = &t->layout->works[last - BB_LAYER_BEFORE];
	const struct bb_layers_work *begin = &t->layout->works[first - BB_LAYER_BEFORE];

	return (struct bb_layers_work){end->forward - begin->forward, end->input - begin->input,
				       end->weights - begin->weights, end->core - begin->core,
				       t->eager ? end->core - begin->core
						: end->flash - begin->flash};
}

/* FlashAttention skips the masked half of causal attention, and its backward pass repeats the
   product of queries and keys. Blocks alone are recomputed. */
struct bb_hybrid_passes bb_hybrid_passes_of(const struct bb_hybrid_division *division, int first,
					    int last, double flops, double attention_flops)
{
	const struct bb_training *t = &division->training;
	const struct bb_model *m = t->model;
	const int begin = first > 0 ? first : 0, end = last < m->blocks ? last : m->blocks;
	const struct bb_layers_work all = layers_work(t, first, last);
	const struct bb_layers_work blocks =
		end > begin ? layers_work(t, begin, end) : (struct bb_layers_work){.core = 0};
	const double each = (double)t->micro_batch / (double)t->tp / division->grid.cp;
	const double again = t->recompute == BB_RECOMPUTE_FULL ? 1 : 0;
	const double core_again = t->recompute == BB_RECOMPUTE_NONE ? 0 : 1;
	const double forward = all.forward - all.core;
	const double input = all.input - 2 * all.core + again * (blocks.forward - blocks.core);
	const double fast = each / flops;
	const double slow = attention_flops > 0 ? each / attention_flops : fast;

	return (struct bb_hybrid_passes){
		.forward = forward * fast + all.flash * slow,
		.input = input * fast +
			 (core_again * blocks.flash + (t->eager ? 2 : 2.5) * all.flash) * slow,
		.weights = all.weights * fast,
		.products = (forward + input + all.weights) * fast,
	};
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Members of the first group along AXIS on its first member's node. */
static int members_on_node(const struct bb_grid *g, enum bb_axis axis, int node)
{
	int members = 1;

	while (members < bb_grid_size(g, axis) && bb_grid_member(g, axis, 0, members) < node)
		members++;
	return members;
}

/* The link of the ring of TRAFFIC. */
static struct bb_cluster_link ring_link(const struct bb_hybrid_division *division,
					const struct bb_hybrid_cluster *c, int traffic)
{
	struct bb_cluster_link link = division->crosses[traffic] ? c->between : c->inside;
	const struct bb_grid *g = &division->grid;
	const enum bb_axis axis = bb_traffic_axes[traffic];

	if (!c->rails || !division->crosses[traffic] || axis == BB_AXIS_PP ||
	    bb_grid_size(g, axis) == 1)
		return link;
	link.rate = fmin(link.rate * members_on_node(g, axis, c->node), c->inside.rate);
	return link;
}

/* All-to-alls among RANKS, of which MEMBERS are on a node: what stays on the node and what leaves
   it by the rank's own link move at the same time, or, without rails, one message after another.
   SHARE of what would leave the node does; what stays moves COPIES times. */
static double exchange_seconds(const struct bb_volume *v, const struct bb_hybrid_cluster *c,
			       int ranks, int members, double share, double copies)
{
	const int others = ranks - members;
	const double rest = fmax(ranks - 1, 1), calls = (double)v->rounds;
	const double across = v->sent * (others / rest) * share / c->between.rate;
	const double within = v->sent * ((members - 1) * copies / rest) / c->inside.rate;

	if (!c->rails)
		return calls * ((members - 1) * c->inside.latency + others * c->between.latency) +
		       across + within;
	return calls * (others > 0 ? c->between.latency : c->inside.latency) + fmax(across, within);
}

/* Rows of experts, among replicas and the tensor ranks that hold different experts: directly from
   rank to rank, or once to each node of a token's experts, of which even loads give each the same
   chance, and from there to the ranks. */
static double expert_seconds(const struct bb_hybrid_division *division, const struct bb_volume *v,
			     const struct bb_hybrid_cluster *c)
{
	const struct bb_grid *g = &division->grid;
	const int tensors = members_on_node(g, BB_AXIS_TP, c->node) / g->etp;
	const int ranks = bb_grid_expert_ranks(g);
	const double routes = (double)division->training.model->hyper.top_k;
	int members = ranks;

	if (division->crosses[BB_TRAFFIC_EXPERT])
		members = tensors * (division->crosses[BB_TRAFFIC_TENSOR]
					     ? 1
					     : members_on_node(g, BB_AXIS_EP, c->node));
	members = members > 0 ? members : 1;
	const double nodes = (double)ranks / members;
	if (!division->by_node)
		return exchange_seconds(v, c, ranks, members, 1, 1);
	return exchange_seconds(v, c, ranks, members,
				nodes * (1 - pow(1 - 1 / nodes, routes)) / routes, nodes);
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* A stage in a step, of seconds. */
struct stage_cost {
	struct bb_hybrid_passes time; /* of a micro-batch */
	struct bb_hybrid_volumes volume;
	double of[BB_TERMS]; /* without bubble */
	double local, optimizer;
};

/* Shortens the traffic of a stage by what runs beside its computations. */
static void hide_traffic(const struct bb_hybrid_division *division, const struct bb_need *stage,
			 struct stage_cost *s)
{
	const struct bb_training *t = &division->training;
	const double m = (double)t->micro_batches;
	double *compute = &s->of[BB_TERM_COMPUTE], *data = &s->of[BB_TRAFFIC_DATA];
	const double beside = t->zero > 1 ? *compute : *compute / m;
	const double least = *data / (double)(stage->layers * (t->zero > 1 ? t->micro_batches : 1));
	const double products = m * s->time.products;
	const double attention = m * (s->time.forward + s->time.input + s->time.weights) - products;
	double *tensor = &s->of[BB_TRAFFIC_TENSOR], *context = &s->of[BB_TRAFFIC_CONTEXT];
	double *expert = &s->of[BB_TRAFFIC_EXPERT];

	if (division->overlap >= BB_OVERLAP_DATA)
		*data = fmax(*data - beside, least);
	if (division->overlap < BB_OVERLAP_ALL)
		return;
	if (!division->crosses[BB_TRAFFIC_TENSOR])
		*tensor = fmax(*tensor / (double)t->tp, *tensor - products);
	if (!division->exchanges)
		*context = fmax(*context - attention, 0);
	if (division->overlap >= BB_OVERLAP_EXPERTS) {
		const double all = *expert;

		*expert = fmax(all / m, all - products);
		*compute += EXCHANGE_SMS * (all - *expert);
	}
}

/* Seconds of a stage for all micro-batches, messages within it included. */
static double busy_seconds(const struct stage_cost *s)
{
	return s->of[BB_TERM_COMPUTE] + s->of[BB_TERM_LAUNCH] + s->of[BB_TRAFFIC_TENSOR] +
	       s->of[BB_TRAFFIC_EXPERT] + s->of[BB_TRAFFIC_CONTEXT];
}

static struct stage_cost stage_cost(const struct bb_hybrid_division *division,
				    const struct bb_hybrid_cluster *cluster,
				    const struct bb_need *stage)
{
	const struct bb_training *t = &division->training;
	const struct bb_memory_bytes moved =
		bb_memory_bytes_of(division, stage, bb_sorted_bytes(division));
	const double rate = cluster->memory_rate > 0 ? cluster->memory_rate : INFINITY;
	const double m = (double)t->micro_batches;
	const int first = (int)bb_layers_before((uint64_t)t->model->blocks, t->pp, stage->stage);
	const int last = first + (int)stage->layers + (stage->stage == t->pp - 1);
	/* A forward pass is a third of both passes. */
	const double launch = cluster->launch * (t->recompute == BB_RECOMPUTE_FULL ? 4. / 3 : 1);
	struct stage_cost s = {
		.time = bb_hybrid_passes_of(division, stage->stage == 0 ? BB_LAYER_BEFORE : first,
					    last, cluster->flops, cluster->attention_flops),
		.volume = bb_hybrid_volumes_of(division, stage),
		.local = m * moved.pass / rate,
		.optimizer = moved.step / rate,
	};
	const struct bb_volume *of = s.volume.of;

	s.of[BB_TERM_COMPUTE] = s.local + m * (s.time.forward + s.time.input + s.time.weights);
	for (int i = 0; i < BB_TRAFFICS; i++) {
		const struct bb_cluster_link link = ring_link(division, cluster, i);

		s.of[i] = (double)of[i].rounds * link.latency + of[i].sent / link.rate;
	}
	s.of[BB_TRAFFIC_EXPERT] = expert_seconds(division, &of[BB_TRAFFIC_EXPERT], cluster);
	if (division->exchanges)
		s.of[BB_TRAFFIC_CONTEXT] = exchange_seconds(
			&of[BB_TRAFFIC_CONTEXT], cluster, division->grid.cp,
			members_on_node(&division->grid, BB_AXIS_CP, cluster->node), 1, 1);
	hide_traffic(division, stage, &s);
	s.of[BB_TERM_LAUNCH] = fmax(m * (double)stage->sparse * launch - busy_seconds(&s), 0);
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

void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster,
			     struct bb_bubble_orders *orders, double most)
{
	const struct bb_training *t = &division->training;
	struct bb_hybrid_cost *cost = &division->cost;
	struct stage_cost slowest = {.of = {[BB_TERM_COMPUTE] = -1}};
	const struct bb_hybrid_passes *time = &slowest.time;
	double data = 0, embedding = 0, optimizer = 0, rest;
	struct bb_bubble_form form = bb_hybrid_bubble(division);
	struct bb_bubble bubble;
	struct bb_need before = {.layers = 0};
	const struct bb_grid *g = &division->grid;
	bool *crosses = division->crosses;

	for (int i = 0; i < BB_TRAFFICS; i++)
		crosses[i] = bb_grid_crosses(g, bb_traffic_axes[i], cluster->node);
	if (g->etp < g->tp)
		crosses[BB_TRAFFIC_EXPERT] |= crosses[BB_TRAFFIC_TENSOR];
	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_need need = bb_training_stage(t, stage);

		/* Stages between the first and the last with layers of the same kind are alike. */
		if (stage > 1 && stage < t->pp - 1 && need.layers == before.layers &&
		    need.sparse == before.sparse && need.elements == before.elements)
			continue;
		before = need;
		struct stage_cost s = stage_cost(division, cluster, &need);
		data = fmax(data, s.of[BB_TRAFFIC_DATA]);
		embedding = fmax(embedding, s.of[BB_TRAFFIC_EMBEDDING]);
		optimizer = fmax(optimizer, s.optimizer);
		if (busy_seconds(&s) > busy_seconds(&slowest))
			slowest = s;
	}
	division->volume = slowest.volume;
	slowest.of[BB_TRAFFIC_DATA] = data;
	slowest.of[BB_TRAFFIC_EMBEDDING] = embedding;
	slowest.of[BB_TRAFFIC_PIPELINE] = 0;
	*cost = (struct bb_hybrid_cost){.local = slowest.local + optimizer};
	memcpy(cost->of, slowest.of, sizeof(cost->of));
	cost->of[BB_TERM_COMPUTE] += optimizer;
	cost->step = cost->of[BB_TERM_COMPUTE] + cost->of[BB_TERM_LAUNCH];
	for (int i = 0; i < BB_TRAFFICS; i++)
		cost->step += cost->of[i];
	/* Operations that the memory limits, and messages within the stage, count as half of each
	   of the forward pass and the gradient of the input. */
	rest = busy_seconds(&slowest) / (double)form.micro_batches - time->forward - time->input -
	       time->weights;
	const struct bb_cluster_link hop = ring_link(division, cluster, BB_TRAFFIC_PIPELINE);
	form.forward = time->forward + rest / 2;
	form.input = time->input + rest / 2;
	form.weights = time->weights;
	form.hop = hop.latency + (double)slowest.volume.boundary / hop.rate;
	if (bb_bubble_find(&form, orders, most - cost->step, &bubble)) {
		cost->of[BB_TERM_BUBBLE] = bubble.idle;
		cost->of[BB_TRAFFIC_PIPELINE] = bubble.messages;
		cost->step += bubble.idle + bubble.messages;
	} else {
		cost->step = INFINITY;
	}
}

double bb_hybrid_division_rate(struct bb_hybrid_division *division,
			       const struct bb_hybrid_cluster *cluster, double run)
{
	const struct bb_training *t = &division->training;
	const struct bb_hybrid_passes flops =
		bb_hybrid_passes_of(division, BB_LAYER_BEFORE, t->model->blocks + 1, 1, 0);
	const double step = (flops.forward + flops.input + flops.weights) *
			    (double)t->micro_batches / (double)t->pp / run;
	struct bb_hybrid_cluster trial = *cluster;
	double low = run, high = 1e6 * run;

	/* The step gets shorter with faster computations, so bisection finds the rate. */
	while (high - low > 1e-12 * high) {
		trial.flops = (low + high) / 2;
		bb_hybrid_division_cost(division, &trial, NULL, INFINITY);
		*(division->cost.step > step ? &low : &high) = trial.flops;
	}
	return high < 1e6 * run ? high : 0;
}

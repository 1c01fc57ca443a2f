/*
 * plan.c - the predicted time of a step of a division, and the search of all divisions.
 */
#include "training_kernels/hybrid/plan.h"

#include "core/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SMs that exchange rows beside products. */
#define EXCHANGE_SMS (20. / 132)

const char *const bb_term_words[BB_TERMS] = {
	[BB_TRAFFIC_TENSOR] = "tensor communication",
	[BB_TRAFFIC_EXPERT] = "expert communication",
	[BB_TRAFFIC_CONTEXT] = "context communication",
	[BB_TRAFFIC_PIPELINE] = "pipeline communication",
	[BB_TRAFFIC_DATA] = "data communication",
	[BB_TRAFFIC_EMBEDDING] = "embedding communication",
	[BB_TERM_BUBBLE] = "bubble",
	[BB_TERM_COMPUTE] = "compute",
	[BB_TERM_LAUNCH] = "wait for the CPU",
};
const char *const bb_overlap_words[] = {"none", "data", "all", "experts", NULL};

/* ---- stages ---------------------------------------------------------------------------------- */

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
	const uint64_t layers = (uint64_t)m->blocks;
	const int begin = (int)bb_layers_before(layers, t->pp, stage);
	const int end = (int)bb_layers_before(layers, t->pp, stage + 1);
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

/* ---- links ----------------------------------------------------------------------------------- */

/* Computes what leaves nodes of NODE ranks. */
static void division_cross(struct bb_hybrid_division *division, int node)
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

/* Ranks of an all-to-all, and those of them on a rank's node. */
struct exchange {
	int ranks, members;
};

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

/* Rows of experts, among replicas and the tensor ranks that hold different experts: directly from
   rank to rank, or once to each node of a token's experts, of which even loads give each the same
   chance, and from there to the ranks. */
static double expert_seconds(const struct bb_hybrid_division *division, const struct bb_volume *v,
			     const struct bb_hybrid_cluster *c)
{
	const struct bb_grid *g = &division->grid;
	const int tensors = members_on_node(g, BB_AXIS_TP, c->node) / bb_grid_expert_tensor(g);
	struct exchange e = {.ranks = bb_grid_expert_ranks(g)};
	double others, nodes, routes;

	e.members = !division->crosses[BB_TRAFFIC_EXPERT] ? e.ranks
		    : division->crosses[BB_TRAFFIC_TENSOR]
			    ? tensors
			    : tensors * members_on_node(g, BB_AXIS_EP, c->node);
	e.members = e.members > 0 ? e.members : 1;
	others = e.ranks > 1 ? e.ranks - 1 : 1;
	if (!division->by_node)
		return exchange_seconds(v, c, e, 1, (e.members - 1) / others);
	nodes = (double)e.ranks / e.members;
	routes = (double)division->training.model->hyper.top_k;
	return exchange_seconds(v, c, e, nodes * (1 - pow(1 - 1 / nodes, routes)) / routes,
				(e.members - 1) * nodes / others);
}

/* EACH traffic of a rank, of volumes V, without overlap. */
static void traffic_seconds(const struct bb_hybrid_division *division,
			    const struct bb_hybrid_cluster *c, const struct bb_hybrid_volumes *v,
			    double each[BB_TRAFFICS])
{
	for (int i = 0; i < BB_TRAFFICS; i++) {
		const struct bb_cluster_link link = ring_link(division, c, i);

		each[i] = (double)v->of[i].rounds * link.latency + v->of[i].sent / link.rate;
	}
	each[BB_TRAFFIC_EXPERT] = expert_seconds(division, &v->of[BB_TRAFFIC_EXPERT], c);
	if (division->exchanges) {
		const struct exchange e = {bb_grid_size(&division->grid, BB_AXIS_CP),
					   members_on_node(&division->grid, BB_AXIS_CP, c->node)};

		each[BB_TRAFFIC_CONTEXT] =
			exchange_seconds(&v->of[BB_TRAFFIC_CONTEXT], c, e, 1,
					 (e.members - 1) / (e.ranks > 1 ? e.ranks - 1. : 1.));
	}
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* A stage in a step, of seconds. */
struct stage_cost {
	struct stage_time time; /* of a micro-batch */
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
		bb_memory_bytes_of(t, stage, bb_hybrid_context(division),
				   bb_sorted_bytes(t, &division->grid, division->by_node));
	const double rate = cluster->memory_rate > 0 ? cluster->memory_rate : INFINITY;
	const double m = (double)t->micro_batches;
	/* A forward pass is a third of both passes. */
	const double launch = cluster->launch * (t->recompute == BB_RECOMPUTE_FULL ? 4. / 3 : 1);
	struct stage_cost s = {
		.time = stage_time(division, stage->stage, cluster->flops,
				   cluster->attention_flops > 0 ? cluster->attention_flops
								: cluster->flops),
		.volume = bb_hybrid_volumes_of(&division->grid, t, division->exchanges,
					       division->scatter && t->tp > 1, stage),
		.local = m * moved.pass / rate,
		.optimizer = moved.step / rate,
	};

	s.of[BB_TERM_COMPUTE] = s.local + m * (s.time.forward + s.time.input + s.time.weights);
	traffic_seconds(division, cluster, &s.volume, s.of);
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

/* The bubble that SLOWEST makes. Operations that the memory limits, and messages within the stage,
   count as half of each of the forward pass and the gradient of the input. */
static bool division_bubble(const struct bb_hybrid_division *division,
			    const struct bb_hybrid_cluster *cluster,
			    const struct stage_cost *slowest, struct bb_bubble_orders *orders,
			    double most, struct bb_bubble *bubble)
{
	const struct bb_cluster_link hop = ring_link(division, cluster, BB_TRAFFIC_PIPELINE);
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

/* Computes volumes and cost of DIVISION, whose crossings are known. ORDERS as in bb_bubble_find: an
   order is searched only if the step may take at most MOST seconds; else it is a bound. */
static void find_cost(struct bb_hybrid_division *division, const struct bb_hybrid_cluster *cluster,
		      struct bb_bubble_orders *orders, double most)
{
	const struct bb_training *t = &division->training;
	struct bb_hybrid_cost *cost = &division->cost;
	struct stage_cost slowest = {.of = {[BB_TERM_COMPUTE] = -1}};
	double data = 0, embedding = 0, optimizer = 0;
	struct bb_bubble bubble;
	struct bb_need before = {.layers = 0};

	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_need need = bb_training_stage(t, stage);
		struct stage_cost s;

		/* Stages between the first and the last with layers of the same kind are alike. */
		if (stage > 1 && stage < t->pp - 1 && need.layers == before.layers &&
		    need.sparse == before.sparse && need.elements == before.elements)
			continue;
		before = need;
		s = stage_cost(division, cluster, &need);
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
	if (division_bubble(division, cluster, &slowest, orders, most - cost->step, &bubble)) {
		cost->of[BB_TERM_BUBBLE] = bubble.idle;
		cost->of[BB_TRAFFIC_PIPELINE] = bubble.messages;
		cost->step += bubble.idle + bubble.messages;
	} else {
		cost->step = INFINITY;
	}
}

void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster)
{
	division_cross(division, cluster->node);
	find_cost(division, cluster, NULL, INFINITY);
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

/* ---- the search ------------------------------------------------------------------------------ */

const char *const bb_misfit_reasons[BB_MISFITS] = {
	[BB_MISFIT_HEADS] = "tp does not divide the heads",
	[BB_MISFIT_LAYERS] = "more stages than layers",
	[BB_MISFIT_BATCH] = "dp and micro-batch do not divide the batch",
	[BB_MISFIT_ZERO] = ("ZeRO 2 or 3 with a pipeline, whose gradients stay whole while "
			    "micro-batches add to them"),
	[BB_MISFIT_SCHEDULE] = "the schedule has no order for such a pipeline",
	[BB_MISFIT_EXPERTS] = "ep and etp cannot divide the experts among these ranks",
	[BB_MISFIT_OTHER] = "conflict with cp, virtual stages, sequence parallelism or optimizer",
	[BB_MISFIT_MEMORY] = "does not fit into memory",
};

/* What is tried, and what has come of the settings of one (dp, tp, pp). */
struct search {
	const struct bb_hybrid_cluster *cluster;
	const struct bb_hybrid_space *space;
	/* Seconds of a step, above which no order is searched: the division is not the fastest. */
	double most;
	struct bb_bubble_orders orders;

	struct bb_hybrid_division best, least; /* fastest that fits; with least memory */
	enum bb_hybrid_misfit misfit; /* of the last setting that cannot be; BB_MISFITS: none */
	bool tried, unordered;        /* any setting; one that fits, but has no order */
};

/* Is VALUE the one that is GIVEN for a setting, or one of any? */
static bool is_open(int given, int value)
{
	return given == BB_ANY || given == value;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The memory of the stage that needs most. FlashAttention keeps nothing that grows with the square
   of a sequence, so that a part of one is a shorter sequence. */
static struct bb_need most_memory(const struct bb_hybrid_division *division)
{
	const struct bb_bubble_form form = bb_hybrid_bubble(division);
	struct bb_training t = division->training;
	struct bb_model part = *t.model;
	struct bb_need most = {.total = 0};

	part.hyper.seq /= (int64_t)bb_hybrid_context(division);
	t.model = &part;
	if (form.schedule == bb_pipeline_find("gpipe"))
		t.schedule = BB_GPIPE;
	for (uint64_t stage = 0; stage < t.pp; stage++) {
		const struct bb_need need =
			bb_training_keeping(&t, stage, bb_bubble_kept(&form, stage));

		if (stage == 0 || need.total > most.total)
			most = need;
	}
	return most;
}

/* Whether tensor and context ranks together can divide the heads. */
static bool heads_fit(const struct bb_hybrid_division *division)
{
	const struct bb_hyper *h = &division->training.model->hyper;
	const int64_t ranks = division->grid.tp * (int64_t)bb_hybrid_context(division);

	return h->heads % ranks == 0 && h->kv_heads % ranks == 0;
}

/* Keeps DIVISION if it is the fastest so far, with both ways of cp and of messages that the space
   leaves open. */
static void try_messages(struct search *s, struct bb_hybrid_division division)
{
	const struct bb_hybrid_space *space = s->space;
	const struct bb_training *t = &division.training;
	const bool divided = division.grid.cp > 1;
	const int most_exchanges = divided && heads_fit(&division);
	const bool scatters = t->pp > 1 && division.grid.tp > 1 && !t->sequence_parallel;

	for (int exchanges = 0; exchanges <= most_exchanges; exchanges++)
		for (int scatter = 0; scatter < 2; scatter++) {
			if ((divided && !is_open(space->exchanges, exchanges)) ||
			    !is_open(space->scatter, scatter) ||
			    (space->scatter == BB_ANY && scatter > scatters))
				continue;
			division.exchanges = exchanges;
			division.scatter = scatter;
			find_cost(&division, s->cluster, &s->orders, s->most);
			if (isinf(division.cost.step))
				s->unordered = true;
			else if (s->best.cost.step == 0 || division.cost.step < s->best.cost.step)
				s->best = division;
		}
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Whether virtual stages have equal numbers of layers, with embedding and head as layers or not. */
static bool chunks_fit(const struct bb_training *t)
{
	const uint64_t layers = (uint64_t)t->model->blocks, stages = t->pp * t->chunks;

	return t->chunks == 1 ||
	       (t->pp > 1 && (layers % stages == 0 || (layers + 2) % stages == 0));
}

/* Whether the ranks can divide the experts as DIVISION says; experts on fewer than the tensor ranks
   need each rank's own tokens. */
static bool experts_fit(const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const int tp = division->grid.tp, etp = bb_grid_expert_tensor(&division->grid);
	const int64_t experts = t->model->hyper.experts;

	if (tp % etp || (etp < tp && !t->sequence_parallel))
		return false;
	return experts > 0 ? experts % bb_grid_expert_ranks(&division->grid) == 0 &&
				     division->grid.dp % division->grid.ep == 0
			   : division->grid.ep == 1 && etp == tp;
}

static enum bb_hybrid_misfit division_misfit(const struct search *s,
					     const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const uint64_t cp = bb_hybrid_context(division), replicas = t->dp / cp;
	struct bb_training checked = *t;
	struct bb_error reason = {.text = ""};
	bool given;

	if (t->model->hyper.heads % division->grid.tp ||
	    (cp > 1 && s->space->exchanges == 1 && !heads_fit(division)))
		return BB_MISFIT_HEADS;
	if (division->grid.pp > t->model->blocks)
		return BB_MISFIT_LAYERS;
	if (s->space->batch % replicas ||
	    (s->space->micro_batch && s->space->batch / replicas % s->space->micro_batch))
		return BB_MISFIT_BATCH;
	if (t->zero > 1 && t->pp > 1)
		return BB_MISFIT_ZERO;
	if (!experts_fit(division))
		return BB_MISFIT_EXPERTS;
	/* Numbers of layers may differ where virtual stages are given. */
	given = s->space->chunks != BB_ANY && t->pp > 1 &&
		t->pp * t->chunks <= (uint64_t)t->model->blocks;
	if (!(given || chunks_fit(t)) ||
	    (cp > 1 && (t->eager || (uint64_t)t->model->hyper.seq % (2 * cp * t->tp))))
		return BB_MISFIT_OTHER;
	/* It wants whole layers in each chunk, where embedding and head may be layers too. */
	checked.chunks = 1;
	checked.schedule = BB_1F1B;
	return bb_training_check(&checked, &reason) == BB_OK ? BB_MISFITS : BB_MISFIT_OTHER;
}

/* A bound from below of the step of DIVISION: its products, divided equally among the ranks. */
static double least_step(const struct search *s, const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const struct bb_model *m = t->model;
	const struct bb_work *works = t->layout->works;
	const double again = t->recompute == BB_RECOMPUTE_FULL
				     ? works[m->blocks + 1].forward - works[1].forward
				     : 0;
	const double core = bb_attention_flops(m) * m->blocks;

	return (m->forward + m->backward + again -
		(t->recompute == BB_RECOMPUTE_FULL ? 4 : 3) * core) *
	       (double)s->space->batch / s->cluster->ranks / s->cluster->flops;
}

/* Tries DIVISION, whose settings but recomputation and micro-batch are chosen. */
static void try_batches(struct search *s, struct bb_hybrid_division division)
{
	struct bb_training *t = &division.training;
	const uint64_t replica = s->space->batch / (t->dp / bb_hybrid_context(&division));
	const uint64_t only = s->space->micro_batch, last = only ? only : replica;
	enum bb_hybrid_misfit misfit;

	t->schedule = t->chunks > 1 ? BB_INTERLEAVED : BB_1F1B;
	t->micro_batch = t->micro_batches = 1;
	misfit = division_misfit(s, &division);
	if (misfit != BB_MISFITS) {
		s->misfit = misfit;
		return;
	}
	s->tried = true;
	for (int r = 0; r <= BB_RECOMPUTE_FULL; r++) {
		t->recompute = (enum bb_recompute)r;
		if (!is_open(s->space->recompute, r) ||
		    (s->best.cost.step > 0 && least_step(s, &division) >= s->best.cost.step))
			continue;
		for (uint64_t b = only ? only : 1; b <= last; b++) {
			if (replica % b || (t->chunks > 1 && replica / b % t->pp))
				continue;
			t->micro_batch = b;
			t->micro_batches = replica / b;
			division.need = most_memory(&division);
			if (s->least.need.total == 0 || division.need.total < s->least.need.total)
				s->least = division;
			if (division.need.total > s->cluster->memory)
				break;
			try_messages(s, division);
		}
	}
}

/* Tries DIVISION, whose virtual stages are chosen, with all schedules, with and without sequence
   parallelism, and with all stages of ZeRO, as far as the space leaves them open. Without a
   pipeline all schedules are alike. */
static void try_schedules(struct search *s, struct bb_hybrid_division division)
{
	static const char *const searched[] = {"1f1b", "zb-h1", "zb-h2"};
	const struct bb_hybrid_space *space = s->space;
	const struct bb_pipeline_schedule *given = space->schedule;
	struct bb_training *t = &division.training;
	const int all = space->any_schedule && t->pp > 1 && t->chunks == 1 ? 3 : 1;
	const int tp = division.grid.tp;

	division.schedule = bb_bubble_usual(t->chunks);
	if (t->pp > 1 && given) {
		if (given->chunks ? t->chunks != (uint64_t)given->chunks : t->chunks == 1) {
			s->misfit = BB_MISFIT_SCHEDULE;
			return;
		}
		division.schedule = given;
	}
	for (int i = 0; i < all; i++) {
		if (all > 1)
			division.schedule = bb_pipeline_find(searched[i]);
		for (int parallel = 0; parallel <= (tp > 1); parallel++) {
			if (tp > 1 && !is_open(space->sequence_parallel, parallel))
				continue;
			t->sequence_parallel = parallel;
			for (t->zero = 0; t->zero < BB_ZERO_STAGES; t->zero++)
				if (space->zero == BB_ANY ? t->zero == 0 || t->dp > 1
							  : t->zero == space->zero)
					try_batches(s, division);
		}
	}
}

/* Tries DIVISION with each cp, each (ep, etp), where EP groups of ETP ranks have all experts, and
   all virtual stages. False: no cp is possible. */
static bool try_settings(struct search *s, struct bb_hybrid_division division)
{
	const struct bb_hybrid_space *space = s->space;
	const int64_t experts = space->base.model->hyper.experts;
	const bool any = space->any_experts && experts > 0, any_chunks = space->chunks == BB_ANY;
	const uint64_t chunks = space->chunks > 1 ? (uint64_t)space->chunks : 1;
	struct bb_grid *g = &division.grid;
	struct bb_training *t = &division.training;
	const uint64_t share = ((uint64_t)t->model->blocks + 2) / t->pp;
	const uint64_t most_chunks = !any_chunks ? chunks : t->pp > 1 && share > 0 ? share : 1;
	const int tp = g->tp, dp = g->dp, given_cp = space->grid.cp ? space->grid.cp : 1;
	const int given = space->grid.etp > 0 ? space->grid.etp : tp;
	const int64_t most = any ? experts : space->grid.ep;
	bool possible = false;

	s->best.cost.step = 0;
	s->least.need.total = 0;
	s->misfit = BB_MISFITS;
	s->tried = s->unordered = false;
	for (g->cp = 1; g->cp <= dp; g->cp++) {
		if (dp % g->cp || !is_open(given_cp, g->cp) ||
		    (space->grid.dp && dp != space->grid.dp * g->cp))
			continue;
		possible = true;
		for (g->etp = any ? 1 : given; g->etp <= (any ? tp : given); g->etp++)
			for (int64_t ep = any ? 1 : most; ep <= most; ep++) {
				const int64_t ranks = ep * g->etp;

				if (any &&
				    (most % ep || tp % g->etp || ranks % tp || dp % (ranks / tp)))
					continue;
				if (ranks % tp) {
					s->misfit = BB_MISFIT_EXPERTS;
					continue;
				}
				g->ep = (int)(ranks / tp);
				t->ep = (uint64_t)g->ep;
				division_cross(&division, s->cluster->node);
				for (t->chunks = any_chunks ? 1 : chunks; t->chunks <= most_chunks;
				     t->chunks++)
					if (!any_chunks || chunks_fit(t))
						try_schedules(s, division);
			}
	}
	return possible;
}

/* ---- all divisions --------------------------------------------------------------------------- */

/*
 * The search of an order takes up to seconds. So the division whose step has the least bound is
 * searched first, and then only those whose bound is below that step.
 */
static bool try_all(struct search *s, const struct bb_hybrid_division *division)
{
	const struct bb_pipeline_schedule *schedule = s->space->schedule;

	s->most = INFINITY;
	if (schedule && schedule->search) {
		s->most = -INFINITY;
		if (!try_settings(s, *division))
			return false;
		if (s->best.cost.step == 0)
			return true;
		find_cost(&s->best, s->cluster, &s->orders, INFINITY);
		s->most = (1 + 1e-9) * s->best.cost.step;
	}
	return try_settings(s, *division);
}

/* What has come of a (dp, tp, pp) goes to PLAN. */
static bb_status plan_add(struct bb_hybrid_plan *plan, const struct search *s,
			  struct bb_error *error)
{
	struct bb_hybrid_division *added;

	plan->tried++;
	if (s->best.cost.step > 0) {
		added = BB_ARRAY_ADD(plan->list, plan->n, plan->room);
		if (!added)
			return bb_no_memory(error, "the plan");
		*added = s->best;
		return BB_OK;
	}
	plan->misfits[!s->tried                 ? s->misfit
		      : s->unordered            ? BB_MISFIT_SCHEDULE
		      : s->least.need.total > 0 ? BB_MISFIT_MEMORY
						: BB_MISFIT_BATCH]++;
	if (s->least.need.total > 0 &&
	    (plan->nearest.need.total == 0 || s->least.need.total < plan->nearest.need.total))
		plan->nearest = s->least;
	return BB_OK;
}

static int division_compare(const void *a, const void *b)
{
	const double x = ((const struct bb_hybrid_division *)a)->cost.step;
	const double y = ((const struct bb_hybrid_division *)b)->cost.step;

	return (x > y) - (x < y);
}

bb_status bb_hybrid_plan_make(struct bb_hybrid_plan *plan, const struct bb_hybrid_cluster *cluster,
			      const struct bb_hybrid_space *space, struct bb_error *error)
{
	struct search s = {.cluster = cluster, .space = space};
	const struct bb_grid *fixed = &space->grid;
	bb_status status = BB_OK;

	*plan = (struct bb_hybrid_plan){.list = NULL};
	for (int tp = 1; tp <= cluster->ranks; tp++)
		for (int pp = 1; cluster->ranks % tp == 0 && pp <= cluster->ranks / tp; pp++) {
			const int dp = cluster->ranks / tp / pp;
			struct bb_hybrid_division division = {
				.grid = {tp, pp, dp, 1, .order = fixed->order},
				.overlap = space->overlap,
				.kept = space->kept,
				.by_node = space->by_node,
				.training = space->base};

			if (cluster->ranks / tp % pp || (fixed->tp && tp != fixed->tp) ||
			    (fixed->pp && pp != fixed->pp) || (fixed->dp && dp % fixed->dp))
				continue;
			division.training.tp = (uint64_t)tp;
			division.training.pp = (uint64_t)pp;
			division.training.dp = (uint64_t)dp;
			if (try_all(&s, &division))
				BB_TRY(status, plan_add(plan, &s, error), out);
		}
	if (plan->n > 0)
		qsort(plan->list, plan->n, sizeof(*plan->list), division_compare);
out:
	bb_bubble_orders_free(&s.orders);
	return status;
}

void bb_hybrid_plan_free(struct bb_hybrid_plan *plan)
{
	free(plan->list);
	*plan = (struct bb_hybrid_plan){.list = NULL};
}

/*
 * drive.c - the step that is run, and the experiment: the whole step and each of its parts alone,
 * timed against each other. The communication of the step is verified by known data: sums and
 * gathered tokens of layers, rows of experts, messages between stages, averaged gradients and
 * gathered parameters.
 */
#include "core/units.h"
#include "simulator/cluster/cluster.h"
#include "training_kernels/hybrid/hybrid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 2 /* forward and backward, as in any pipeline that is not folded */

/* ---- known data ------------------------------------------------------------------------------ */

/* Data of a half of a layer: summands, and this rank's part of their sum; with sequence parallelism
   also its piece, and the gathered pieces. */
struct hybrid_half {
	char *summands, *sum, *piece, *gathered;
};

/* Data that replicas share: equal parts of each, of which this rank's is at its PLACE; MINE: the
   gradients that it has after a step. */
struct hybrid_replica {
	int place;
	char *gradients, *mine, *parameters;
	const struct bb_patterns *averages;
};

/* Data of one rank; NULL where there is none. */
struct hybrid_data {
	const struct bb_hybrid_shape *shape;
	int rank;
	struct bb_known *known; /* its memory is NULL if time is virtual, or nothing is sent */
	struct hybrid_half halves[BB_HYBRID_HALVES];
	struct hybrid_replica replicas[2]; /* the second: of experts */
	struct bb_moe_rows rows;
	int *ranks;          /* [place]: ranks that divide the experts */
	char *sent, *got[2]; /* to other stages, and from them by lane */
	char *losses, *loss; /* a number per token, before and after its sum */
	char *embedding;     /* its gradient, summed by the first and the last stage */
	const struct bb_patterns *sums, *moved, *loss_sums, *end_sums;
};

static int data_place(const struct hybrid_data *d, enum bb_axis axis)
{
	return bb_grid_place(&d->shape->grid, axis, d->rank);
}

/* Member I of this rank's group along AXIS. */
static int data_member(const struct hybrid_data *d, enum bb_axis axis, int i)
{
	const struct bb_grid *g = &d->shape->grid;

	return bb_grid_member(g, axis, bb_grid_group(g, axis, d->rank), i);
}

/* ---- layout: what a step finds, and what it must leave --------------------------------------- */

/* GOT has PART elements of each member of this rank's group along AXIS, in order. CORRUPTS: with
   --fault corrupt, the first is wrong. */
static void check_gathered(struct hybrid_data *d, bool corrupts, char *got, enum bb_axis axis,
			   size_t part)
{
	const size_t bytes = part * bb_dtype_size(d->shape->dtype);

	for (int i = 0; i < bb_grid_size(&d->shape->grid, axis) && got; i++)
		bb_known_add(d->known, corrupts && i == 0 ? BB_KNOWN_VICTIM : BB_KNOWN_CHECK,
			     got + (size_t)i * bytes, d->moved, data_member(d, axis, i), 0, part);
}

static void lay_out_half(struct hybrid_data *d, int half)
{
	const struct bb_hybrid_shape *s = d->shape;
	const size_t place = (size_t)data_place(d, BB_AXIS_TP);
	const size_t part = bb_hybrid_part(s, half, d->rank);
	const size_t whole = s->sequence_parallel ? part * (size_t)s->grid.tp : part;
	struct hybrid_half *h = &d->halves[half];
	struct bb_known *k = d->known;

	h->summands = bb_known_lay_out(k, whole, s->dtype, d->sums, (int)place, 0);
	h->sum = bb_known_lay_out(k, part, s->dtype, d->moved, d->rank, 0);
	bb_known_add(k, half == 0 ? BB_KNOWN_VICTIM : BB_KNOWN_CHECK, h->sum, d->sums, BB_REDUCED,
		     s->sequence_parallel ? place * part : 0, part);
	if (!s->sequence_parallel)
		return;
	h->piece = bb_known_lay_out(k, part, s->dtype, d->moved, d->rank, 0);
	/* Shifted, so that even the rank's own piece is wrong until it is moved. */
	h->gathered = bb_known_lay_out(k, whole, s->dtype, d->moved, d->rank, 1);
	check_gathered(d, half == 0, h->gathered, BB_AXIS_TP, part);
}

/* ELEMENTS that the replicas along AXIS share. */
static void lay_out_replica(struct hybrid_data *d, struct hybrid_replica *r, enum bb_axis axis,
			    size_t elements)
{
	const struct bb_hybrid_shape *s = d->shape;
	const size_t n = (size_t)bb_grid_size(&s->grid, axis), place = (size_t)data_place(d, axis);
	const size_t part = (size_t)bb_partition(elements, n), before = place * part;
	struct bb_known *k = d->known;

	if (n == 1)
		return;
	r->place = (int)place;
	r->gradients = bb_known_lay_out(k, n * part, s->gradient_dtype, r->averages, (int)place, 0);
	r->mine = r->gradients;
	if (r->gradients && s->zero)
		r->mine += before * bb_dtype_size(s->gradient_dtype);
	bb_known_add(k, BB_KNOWN_VICTIM, r->mine, r->averages, BB_REDUCED, s->zero ? before : 0,
		     s->zero ? part : elements);
	if (!s->zero)
		return;
	r->parameters = bb_known_lay_out(k, n * part, s->dtype, d->moved, d->rank, 1);
	if (r->parameters)
		bb_known_add(k, BB_KNOWN_FILL, r->parameters + before * bb_dtype_size(s->dtype),
			     d->moved, d->rank, 0, part);
	check_gathered(d, true, r->parameters, axis, part);
}

/* Lays out all data of the rank, with at most BB_MOST_VICTIMS victims. Embedding and head also use
   that of the first half of a layer. */
static void data_lay_out(struct hybrid_data *d)
{
	const struct bb_hybrid_shape *s = d->shape;
	const int stage = data_place(d, BB_AXIS_PP), last = s->grid.pp - 1;
	const int place = data_place(d, BB_AXIS_TP);
	struct bb_known *k = d->known;

	if (s->grid.tp > 1)
		lay_out_half(d, 0);
	d->halves[1] = d->halves[0];
	if (s->grid.tp > 1 && s->sequence_parallel && s->load)
		lay_out_half(d, 1);
	if (stage == last && s->grid.tp > 1) {
		d->losses = bb_known_lay_out(k, s->tokens, BB_FLOAT, d->loss_sums, place, 0);
		/* Different from any sum. */
		d->loss = bb_known_lay_out(k, s->tokens, BB_FLOAT, d->loss_sums, place, 1);
		bb_known_add(k, BB_KNOWN_VICTIM, d->loss, d->loss_sums, BB_REDUCED, 0, s->tokens);
	}
	if (s->shared > 0 && last > 0 && (stage == 0 || stage == last)) {
		d->embedding = bb_known_lay_out(k, s->shared, s->gradient_dtype, d->end_sums,
						stage > 0, 0);
		bb_known_add(k, BB_KNOWN_VICTIM, d->embedding, d->end_sums, BB_REDUCED, 0,
			     s->shared);
	}
	lay_out_replica(d, &d->replicas[0], BB_AXIS_DP, (size_t)s->gradients[stage]);
	if (s->experts)
		lay_out_replica(d, &d->replicas[1], BB_AXIS_EDP, (size_t)s->experts[stage]);
	if (last > 0) {
		const size_t message = bb_hybrid_part(s, 0, d->rank);

		d->sent = bb_known_lay_out(k, message, s->dtype, d->moved, d->rank, 0);
		for (int lane = 0; lane < LANES; lane++) {
			const int from = stage + (lane == 0 ? -1 : 1);

			d->got[lane] = bb_known_lay_out(k, message, s->dtype, d->moved, d->rank, 0);
			if (from >= 0 && from <= last)
				bb_known_add(
					k, lane == (stage == 0) ? BB_KNOWN_VICTIM : BB_KNOWN_CHECK,
					d->got[lane], d->moved, data_member(d, BB_AXIS_PP, from), 0,
					message);
		}
	}
	if (!s->load || s->grid.ep == 1)
		return;
	d->rows = (struct bb_moe_rows){.load = s->load,
				       .hidden = s->hidden,
				       .dtype = s->dtype,
				       .place = data_place(d, BB_AXIS_EP),
				       .ranks = d->ranks};
	bb_moe_rows_lay_out(&d->rows, k, d->moved);
}

/* Bytes of the data of RANK. */
static size_t data_bytes(const struct bb_hybrid_shape *shape, int rank)
{
	struct bb_known known = {.memory = NULL};
	struct hybrid_data d = {.shape = shape, .rank = rank, .known = &known};

	data_lay_out(&d);
	return known.bytes;
}

/* Lays out D, of which shape and rank are set, in memory of KNOWN. */
static bb_status data_open(struct hybrid_data *d, struct bb_kernel *kernel, struct bb_known *known)
{
	const struct bb_hybrid_shape *s = d->shape;
	const struct bb_grid *g = &s->grid;
	const size_t bytes = data_bytes(s, d->rank);
	struct bb_engine *e = &kernel->engine;
	bb_status status;

	d->known = known;
	/* A single rank sends nothing. */
	if (bb_engine_is_virtual(e) || bytes == 0)
		return BB_OK;
	d->ranks = bb_kernel_keep(kernel, (size_t)g->ep, sizeof(*d->ranks));
	if (!d->ranks)
		return BB_EINTERNAL;
	for (int i = 0; i < g->ep; i++)
		d->ranks[i] = data_member(d, BB_AXIS_EP, i);
	BB_TRY(status, bb_engine_patterns(e, s->dtype, BB_SUM, g->tp, &d->sums), out);
	BB_TRY(status, bb_engine_patterns(e, s->dtype, -1, e->run->world.nranks, &d->moved), out);
	BB_TRY(status, bb_engine_patterns(e, BB_FLOAT, BB_SUM, g->tp, &d->loss_sums), out);
	BB_TRY(status, bb_engine_patterns(e, s->gradient_dtype, BB_SUM, 2, &d->end_sums), out);
	for (int i = 0; i < (s->experts ? 2 : 1); i++)
		BB_TRY(status,
		       bb_engine_patterns(e, s->gradient_dtype, BB_AVG,
					  bb_grid_size(g, i == 0 ? BB_AXIS_DP : BB_AXIS_EDP),
					  &d->replicas[i].averages),
		       out);
	BB_TRY(status, bb_engine_alloc(e, bytes, (void **)&known->memory), out);
	data_lay_out(d);
out:
	return status;
}

/* ---- the grid -------------------------------------------------------------------------------- */

/* REQUESTED, or 2 if that divides the LEFT ranks, else 1. *LEFT is divided by it; 0: it cannot be.
 */
static int choose_size(int64_t requested, int64_t *left)
{
	const int64_t n = requested ? requested : *left % 2 == 0 ? 2 : 1;

	*left = *left % n == 0 ? *left / n : 0;
	return (int)n;
}

static bb_status settle_grid(struct bb_run *run, struct bb_grid *grid)
{
	const struct bb_hybrid *h = run->own;
	const struct bb_hybrid_options *a = &h->options;
	const struct {
		const char *name;
		int64_t n;
	} requested[] = {{"dp", a->dp}, {"ep", a->dp ? 0 : a->ep}, {"tp", a->tp}, {"pp", a->pp}};
	struct bb_strbuf given = {0};
	int64_t left = run->world.nranks;

	*grid = (struct bb_grid){.ep = (int)a->ep, .order = (enum bb_grid_order)a->order, .cp = 1};
	/* The ranks that divide experts are replicas. */
	grid->dp = choose_size(a->dp ? a->dp : a->ep, &left);
	grid->etp = grid->tp = choose_size(a->tp, &left);
	grid->pp = choose_size(a->pp, &left);
	if (!a->dp) {
		grid->dp *= (int)left;
		left = left > 0;
	}
	if (left == 1)
		return BB_OK;
	if (a->preset)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--preset %s: it has %d ranks, but there are %d; give as many, "
			       "or --tp, --pp and --dp",
			       a->preset->name, bb_grid_ranks(&a->preset->grid), run->world.nranks);
	for (int i = 0; i < 4; i++)
		if (requested[i].n > (i == 1))
			bb_strbuf_addf(&given, "%s--%s %lld", given.length ? ", " : "",
				       requested[i].name, (long long)requested[i].n);
	bb_fail(&run->error, BB_EUSAGE,
		"%s: cannot divide the %d ranks; give numbers whose product divides %d, or "
		"equals it if all three are given",
		bb_strbuf_text(&given), run->world.nranks, run->world.nranks);
	bb_strbuf_free(&given);
	return BB_EUSAGE;
}

/* ---- the step that is run, derived from the options ------------------------------------------ */

/* Computations of a rank for a micro-batch in the layers FIRST to LAST - 1 of DIVISION. */
static struct bb_hybrid_time passes_time(const struct bb_hybrid_division *division, int first,
					 int last, double flops)
{
	const struct bb_hybrid_passes p = bb_hybrid_passes_of(division, first, last, flops, 0);
	const double backward = p.input + p.weights;

	return (struct bb_hybrid_time){p.forward, backward, flops * (p.forward + backward)};
}

/* Times at --flops, or such that the layers of a stage take --pass-time without recomputation; and
   the cost by the formula of --plan, with the same links and rate of computations. Without nodes
   all ranks are on one. */
static void settle_times(struct bb_hybrid *h, struct bb_hybrid_division *division,
			 const struct bb_options *options)
{
	const struct bb_hybrid_options *a = &h->options;
	const struct bb_model *m = &h->model;
	const int ranks = bb_grid_ranks(&h->shape.grid);
	const struct bb_cluster_link link = {options->config.link_rate,
					     options->config.link_latency};
	struct bb_hybrid_cluster cluster = {
		.ranks = ranks, .node = ranks, .inside = link, .between = link, .flops = a->flops};
	struct bb_hybrid_shape *s = &h->shape;
	struct bb_hybrid_time *const times[] = {&s->layer, &s->dense_layer, &s->embedding,
						&s->head};
	/* The first block that has experts, and the first that has none, where there are any, and
	   their numbers; then the layers before and behind the blocks. */
	int first[] = {0, 0, BB_LAYER_BEFORE, m->blocks}, n[2] = {0, 0};
	struct bb_hybrid_division once = *division;

	for (int i = m->blocks - 1; i >= 0; i--) {
		const bool dense = !bb_model_block(m, i).sparse;

		first[dense] = i;
		n[dense]++;
	}
	once.training.recompute = BB_RECOMPUTE_NONE;
	for (int i = 0; i < 2 && a->flops <= 0; i++)
		cluster.flops += n[i] * passes_time(&once, first[i], first[i] + 1, 1).flops /
				 s->grid.pp / (1e-9 * (double)a->pass_ns);
	/* The program repeats whole forward passes itself. */
	if (division->training.recompute == BB_RECOMPUTE_SELECTIVE)
		once.training.recompute = BB_RECOMPUTE_SELECTIVE;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		*times[i] = passes_time(&once, first[i], first[i] + 1, cluster.flops);
	if (options->virtual.cluster)
		bb_hybrid_cluster_set(&cluster, options->virtual.cluster);
	if (cluster.inside.rate <= 0)
		return;
	bb_hybrid_division_cost(division, &cluster, NULL, INFINITY);
	h->plan = division->cost;
}

/* The shape of the step T. */
static bb_status settle_shape(struct bb_hybrid *h, const struct bb_training *t,
			      struct bb_error *error)
{
	const struct bb_hybrid_options *a = &h->options;
	const struct bb_hyper *m = &h->model.hyper;
	const struct bb_grid g = h->shape.grid;
	const int64_t tokens = m->seq * a->micro_batch;
	const struct bb_moe_form form = {
		.nranks = g.ep,
		.experts = (int)m->experts,
		.top_k = (int)m->top_k,
		.tokens = tokens / (a->sequence_parallel ? g.tp : 1),
	};
	bb_status status = BB_OK;

	h->gradients = calloc(2 * (size_t)g.pp, sizeof(*h->gradients));
	if (!h->gradients)
		return bb_no_memory(error, "the stages");
	for (int stage = 0; stage < g.pp; stage++) {
		const struct bb_need need = bb_training_stage(t, (uint64_t)stage);

		h->gradients[stage] = need.elements - need.experts;
		h->gradients[g.pp + stage] = need.experts;
	}
	if (m->experts)
		status = bb_moe_load_make(&h->load, &form, error);
	h->shape = (struct bb_hybrid_shape){
		.grid = g,
		.layers = h->model.blocks,
		.micro_batches = (int)t->micro_batches,
		.activation = (size_t)(tokens * m->hidden),
		.tokens = (size_t)tokens,
		.shared = (size_t)(t->layout->embedding / t->tp),
		.recomputes = a->recompute == BB_RECOMPUTE_FULL,
		.sequence_parallel = a->sequence_parallel,
		.zero = (int)a->zero,
		.load = m->experts ? &h->load : NULL,
		.model = m->experts ? &h->model : NULL,
		.hidden = (size_t)m->hidden,
		.gradients = h->gradients,
		.experts = m->experts ? h->gradients + g.pp : NULL,
		.dtype = t->recipe.precision->parameter == 2 ? BB_BFLOAT16 : BB_FLOAT,
		.gradient_dtype = t->recipe.precision->gradient == 2 ? BB_BFLOAT16 : BB_FLOAT,
	};
	return status;
}

bb_status bb_hybrid_settle(struct bb_run *run)
{
	struct bb_hybrid *h = run->own;
	const struct bb_hybrid_options *a = &h->options;
	struct bb_grid *g = &h->shape.grid;
	struct bb_model_layout layout = {.before = NULL};
	struct bb_hybrid_division division = {.training = bb_training_alone(&h->model)};
	struct bb_training *const t = &division.training;
	uint64_t most = 0;
	bb_status status = settle_grid(run, g);

	BB_TRY(status, status, out);
	run->record.collective = bb_all_reduce.name;
	run->record.algorithms = a->algo_text;
	/* Sequences of a step. */
	const int64_t replica = a->batch_given ? a->batch / g->dp : 2 * g->pp * a->micro_batch;
	if (a->batch_given && (a->batch % g->dp || replica % a->micro_batch))
		return bb_fail(
			&run->error, BB_EUSAGE,
			"--batch %lld: not a multiple of %d replicas x micro-batches of %lld; give "
			"one",
			(long long)a->batch, g->dp, (long long)a->micro_batch);
	BB_TRY(status, bb_model_layout_make(&layout, &h->model, 0, &run->error), out);
	t->layout = &layout;
	t->recipe.precision = &bb_precisions[a->precision];
	t->zero = (int)a->zero;
	t->sequence_parallel = a->sequence_parallel;
	t->eager = a->attention == BB_ATTENTION_EAGER;
	/* A step that is run recomputes only on request. */
	t->recompute = a->recompute > BB_RECOMPUTE_FULL ? BB_RECOMPUTE_NONE
							: (enum bb_recompute)a->recompute;
	t->micro_batch = (uint64_t)a->micro_batch;
	t->micro_batches = (uint64_t)(replica / a->micro_batch);
	bb_hybrid_division_set(&division, g);
	BB_TRY(status, bb_training_check(t, &run->error), out);
	BB_TRY(status, settle_shape(h, t, &run->error), out);
	settle_times(h, &division, &run->options);
	BB_TRY(status, bb_fit_judge(&h->fit, t, h->capacity.usable, &run->error), out);
	/* Is there room for the data of the rank that has most? */
	for (int rank = 0; rank < run->world.nranks; rank++) {
		const uint64_t bytes = data_bytes(&h->shape, rank);

		most = bytes > most ? bytes : most;
	}
	status = bb_estimate_room(run, most, "--model", h->model.name, "gradients and activations",
				  "a smaller one, --plan or --backend sim");
out:
	bb_model_layout_free(&layout);
	return status;
}

/* ---- the experiment -------------------------------------------------------------------------- */

/* The step first. */
static const struct {
	const char *name;
	unsigned parts;
	enum bb_traffic traffic; /* of the communicating parts */
} kinds[] = {
	{"step", BB_HYBRID_STEP, 0},
	{"compute", BB_HYBRID_COMPUTE, 0},
	{"tensor", BB_HYBRID_TENSOR, BB_TRAFFIC_TENSOR},
	{"expert", BB_HYBRID_EXPERT, BB_TRAFFIC_EXPERT},
	{"pipeline", BB_HYBRID_PIPELINE, BB_TRAFFIC_PIPELINE},
	{"data", BB_HYBRID_DATA, BB_TRAFFIC_DATA},
	{"embedding", BB_HYBRID_EMBEDDING, BB_TRAFFIC_EMBEDDING},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* One kind in a step: seconds that this rank spends on it, in all watched steps until they are
   gathered, then the mean of all ranks; calls and bytes of the rank that sends most. */
struct hybrid_use {
	double seconds, calls, bytes;
};

/* One kind, as variant->setting. */
struct hybrid_variant {
	struct bb_variant variant;
	struct bb_hybrid_program own;
};

/* A driver's state. */
struct hybrid_session {
	struct bb_kernel kernel;
	const struct bb_hybrid *hybrid;
	struct hybrid_data data; /* of this rank, known to the step */
	struct hybrid_use uses[KINDS];
	double steps; /* watched */
};

static struct hybrid_session *hybrid_session_of(const struct hybrid_variant *v)
{
	return (struct hybrid_session *)v->variant.kernel;
}

static void data_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct hybrid_data *d = &hybrid_session_of(own)->data;
	const struct hybrid_half *h = &d->halves[o->item % BB_HYBRID_HALVES];
	const struct hybrid_replica *r = &d->replicas[o->item % 2];

	switch (o->work) {
	case BB_HYBRID_EXPERT:
		*(o->act == BB_ACT_SEND ? in : out) = bb_moe_rows_of(&d->rows, o);
		break;
	case BB_HYBRID_PIPELINE:
		if (o->act == BB_ACT_SEND)
			*in = d->sent;
		else
			*out = d->got[o->lane];
		break;
	case BB_HYBRID_DATA:
		bb_kernel_in_place(o, r->place,
				   o->collective == &bb_all_gather ? r->parameters : r->gradients,
				   in, out);
		break;
	case BB_HYBRID_EMBEDDING:
		*in = *out = d->embedding;
		break;
	default:
		if (o->item == BB_HYBRID_LOSS) {
			*in = d->losses;
			*out = d->loss;
			break;
		}
		*in = o->collective == &bb_all_gather ? h->piece : h->summands;
		*out = o->collective == &bb_all_gather ? h->gathered : h->sum;
	}
}

static void hybrid_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			   double from, double to, int source)
{
	const struct bb_program *step = &((struct bb_variant *)own)->taped.program;
	struct hybrid_session *s = hybrid_session_of(own);

	/* Messages travel beside computations, so only waits of the computing queue count. */
	for (size_t i = 1; i < KINDS; i++)
		if (o->work == (int)kinds[i].parts && o->queue == BB_HYBRID_COMPUTES)
			s->uses[i].seconds += to - from;
	/* The end of a step of this rank, or of each rank in virtual time. */
	s->steps += index + 1 == step->length(step, rank);
}

/* Counts what this rank sends, or all ranks in virtual time. */
static bb_status hybrid_opened(void *own, struct bb_runner *runner)
{
	struct hybrid_session *s = hybrid_session_of(own);
	const struct bb_engine *e = &s->kernel.engine;
	const bool all = bb_engine_is_virtual(e);
	const int first = all ? 0 : e->driver->rank;
	const int last = all ? e->run->world.nranks - 1 : first;
	bb_status status = BB_OK;

	for (int rank = first; rank <= last; rank++)
		for (size_t kind = 2; kind < KINDS && status == BB_OK; kind++) {
			struct bb_sent sent;

			status = bb_runner_count(runner, rank, (int)kinds[kind].parts, &sent);
			if (status == BB_OK && sent.bytes >= s->uses[kind].bytes) {
				s->uses[kind].calls = (double)sent.calls;
				s->uses[kind].bytes = sent.bytes;
			}
		}
	return status;
}

static bb_status hybrid_open(struct bb_engine *engine)
{
	struct hybrid_session *s = (struct hybrid_session *)engine;
	const struct bb_hybrid *h = s->hybrid = engine->run->own;
	const char *algorithm = h->options.algo_text;
	bb_status status = BB_OK;

	s->data = (struct hybrid_data){.shape = &h->shape, .rank = engine->driver->rank};
	for (size_t kind = 0; kind < KINDS && status == BB_OK; kind++) {
		struct hybrid_variant *v = bb_variant_new(&s->kernel, sizeof(*v));
		struct bb_hybrid_shape shape = h->shape;
		struct bb_trial trial = {
			.workload = {.stand_in = (enum bb_stand_in)h->options.stand_in}};
		bool exists = false; /* has any rank operations of this kind? */

		if (!v)
			return BB_EINTERNAL;
		v->variant.setting = kind;
		struct bb_taped *const taped = &v->variant.taped;
		if (kind == 0) {
			BB_TRY(status, data_open(&s->data, &s->kernel, &v->variant.known), out);
			trial.expects = &bb_known_expectation;
			trial.watch = (struct bb_timeline_watch){hybrid_observe, v};
			trial.opened = hybrid_opened;
		}
		shape.parts = kinds[kind].parts;
		BB_TRY(status,
		       bb_hybrid_write(taped, &v->own, &shape,
				       strcmp(algorithm, "auto") == 0 ? NULL : algorithm,
				       &engine->run->error),
		       out);
		trial.workload.buffers = s->data.known->memory ? data_buffers : NULL;
		for (int stage = 0; stage < taped->nsequences; stage++)
			exists |= taped->sequences[stage].length > 0;
		if (exists)
			status = bb_variant_add(&v->variant, &trial, NULL, "%s%s", kinds[kind].name,
						kind > 0 ? " alone" : "");
	}
out:
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

/* Groups of KIND with members on several hosts, or nodes of a cluster; BB_ABSENT in virtual time
   with equal links. */
static int64_t crossing(const struct hybrid_session *s, size_t kind)
{
	const struct bb_run *run = s->kernel.engine.run;
	const struct bb_cluster *cluster = run->options.virtual.cluster;
	const struct bb_grid *g = &s->hybrid->shape.grid;
	const enum bb_axis axis = bb_traffic_axes[kinds[kind].traffic];
	int64_t n = 0;

	if (cluster)
		return bb_grid_crossing(g, axis, cluster->gpus);
	if (bb_engine_is_virtual(&s->kernel.engine))
		return BB_ABSENT;
	for (int group = 0; group < bb_grid_groups(g, axis); group++) {
		const int node = run->infos[bb_grid_member(g, axis, group, 0)].node;
		bool crosses = false;

		for (int i = 0; i < bb_grid_size(g, axis); i++)
			crosses |= run->infos[bb_grid_member(g, axis, group, i)].node != node;
		n += crosses;
	}
	return n;
}

static bb_status hybrid_deliver(struct bb_engine *engine)
{
	const struct hybrid_session *s = (const struct hybrid_session *)engine;
	const struct bb_hybrid *h = s->hybrid;
	const struct bb_hybrid_cost *plan = &h->plan;
	const struct bb_grid *g = &h->shape.grid;
	const struct bb_options *options = &engine->run->options;
	struct bb_strbuf answer = {0};
	char links[160], text[BB_UNIT_TEXT];
	bb_status status = BB_OK;

	snprintf(links, sizeof(links), "%s",
		 options->cluster                ? "links of --cluster"
		 : options->config.link_rate > 0 ? "all equal, by --link; nodes are not modelled"
						 : "as they are");
	if (h->nodes)
		snprintf(links, sizeof(links),
			 "%s; each rank %.4g GB/s within a node, %.4g GB/s between nodes",
			 h->nodes->name, 1e-9 * h->nodes->gpu_rate, 1e-9 * h->nodes->nic_rate);
	for (size_t i = 0; i < engine->ntrials; i++) {
		const struct bb_trial *trial = &engine->trials[i];
		const size_t kind = ((const struct bb_variant *)trial->workload.own)->setting;
		const struct hybrid_use *use = &s->uses[kind];
		struct bb_hybrid_record r;

		BB_TRY(status, bb_engine_require(engine, i), out);
		bb_record_init(&bb_record_hybrid, &r);
		r.model = h->model.name;
		r.part = kinds[kind].name;
		r.order = bb_grid_order_names[g->order];
		r.algorithm = h->options.algo_text;
		r.compute = bb_stand_in_names[h->options.stand_in];
		r.links = links;
		r.nranks = engine->run->world.nranks;
		r.tp = g->tp;
		r.pp = g->pp;
		r.dp = g->dp;
		r.ep = g->ep;
		r.zero = h->options.zero;
		r.attention = bb_attention_words[h->options.attention];
		BB_FIT_SET(&r, &h->fit);
		r.sequence_parallel = h->options.sequence_parallel;
		r.micro_batch = h->options.micro_batch;
		r.micro_batches = h->shape.micro_batches;
		BB_TIMES_SET(&r, time_us, trial, 1);
		if (plan->step > 0)
			r.plan_us = 1e6 * (kind == 0   ? plan->step
					   : kind == 1 ? plan->of[BB_TERM_COMPUTE]
						       : plan->of[kinds[kind].traffic]);
		if (plan->step > 0 && kind == 0)
			r.plan_bubble_us = 1e6 * plan->of[BB_TERM_BUBBLE];
		if (kind > 0)
			r.in_step_us = 1e6 * use->seconds;
		if (kind >= 2) {
			r.crossing = crossing(s, kind);
			r.calls = (int64_t)use->calls;
			r.sent_bytes = use->bytes;
			r.sent_GBps =
				trial->stats.p50 > 0 ? 1e-9 * use->bytes / trial->stats.p50 : NAN;
		}
		if (kind == 0) {
			r.wrong = trial->wrong;
			bb_strbuf_addf(&answer, "# A step takes %s",
				       bb_format_duration(text, 1e-6 * r.time_us));
			if (r.plan_us > 0)
				bb_strbuf_addf(&answer, "; the formula of --plan gives %s",
					       bb_format_duration(text, 1e-6 * r.plan_us));
			bb_strbuf_add(&answer, "\n");
		}
		BB_TRY(status, bb_engine_deliver(engine, &bb_record_hybrid, &r, r.wrong), out);
	}
	status = bb_engine_answer(engine, &answer);
out:
	bb_strbuf_free(&answer);
	return status;
}

static bb_status hybrid_gather(struct bb_engine *engine)
{
	struct hybrid_session *s = (struct hybrid_session *)engine;
	const int n = engine->run->world.nranks;
	struct hybrid_use mine[KINDS];
	const void *all;
	bb_status status;

	for (size_t i = 0; i < KINDS; i++) {
		s->uses[i].seconds /= s->steps > 0 ? s->steps : 1;
		mine[i] = s->uses[i];
		s->uses[i].seconds = 0;
	}
	BB_TRY(status, bb_driver_gather(engine->driver, &bb_payload_real, mine, 3 * KINDS, &all),
	       out);
	const struct hybrid_use *of = all;
	for (int r = 0; r < n; r++)
		for (struct hybrid_use *use = s->uses; use < s->uses + KINDS; use++, of++) {
			use->seconds += of->seconds / n;
			use->calls = of->bytes >= use->bytes ? of->calls : use->calls;
			use->bytes = fmax(of->bytes, use->bytes);
		}
out:
	return status;
}

const struct bb_experiment bb_hybrid_experiment = {
	.bytes = sizeof(struct hybrid_session),
	.open = hybrid_open,
	.gather = hybrid_gather,
	.deliver = hybrid_deliver,
	.close = bb_kernel_close,
};

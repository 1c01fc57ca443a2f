/*
 * drive.c - the experiment: a whole step and each of its parts alone, timed against each other; the
 * communication of the step is verified.
 */
#include "core/clock.h"
#include "core/units.h"
#include "simulator/cluster.h"
#include "training_kernels/hybrid/hybrid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What a rank spends in watched steps: seconds of each kind. */
struct observed {
	double seconds[KINDS];
	double steps;
};

/* A driver's state. */
struct hybrid_session {
	struct bb_engine engine;
	const struct bb_hybrid *hybrid;
	struct bb_hybrid_job job;
	struct bb_hybrid_data data; /* of this rank */
	struct bb_program programs[KINDS];
	size_t kind_of[KINDS];          /* of each trial */
	struct observed observed, mean; /* of this rank; mean of all ranks, per step */
	struct bb_sent sent[KINDS];     /* in a step, by the rank that sends most of each kind */
};

/* ---- observation of steps
 * ----------------------------------------------------------------------------
 */

static void hybrid_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			   double from, double to, int source)
{
	struct hybrid_session *s = own;

	/* Messages travel beside computations, so only waits of the computing queue count. */
	for (size_t i = 1; i < KINDS; i++)
		if (o->work == (int)kinds[i].parts && o->queue == BB_HYBRID_COMPUTES)
			s->observed.seconds[i] += to - from;
	/* The end of a step of this rank, or of each rank in virtual time. */
	s->observed.steps += index + 1 == s->programs[0].length(&s->programs[0], rank);
}

/* ---- data ------------------------------------------------------------------------------------ */

static const struct bb_expectation expectation = {bb_hybrid_data_fill, bb_hybrid_data_victims,
						  bb_hybrid_data_verify};

static void keep_most(struct bb_sent *most, const struct bb_sent *sent)
{
	if (sent->bytes >= most->bytes)
		*most = *sent;
}

/* Counts what this rank sends, or all ranks in virtual time. */
static bb_status hybrid_opened(void *own, struct bb_runner *runner)
{
	struct hybrid_session *s = (struct hybrid_session *)((struct bb_hybrid_data *)own)->engine;
	const bool all = bb_engine_is_virtual(&s->engine);
	const int first = all ? 0 : s->engine.driver->rank;
	const int last = all ? s->engine.run->world.nranks - 1 : first;
	bb_status status = BB_OK;

	for (int rank = first; rank <= last; rank++)
		for (size_t kind = 2; kind < KINDS && status == BB_OK; kind++) {
			struct bb_sent sent;

			status = bb_runner_count(runner, rank, (int)kinds[kind].parts, &sent);
			keep_most(&s->sent[kind], &sent);
		}
	return status;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Does any rank have operations of KIND? */
static bool hybrid_exists(const struct hybrid_session *s, size_t kind)
{
	for (int r = 0; r < s->engine.run->world.nranks; r++)
		if (s->programs[kind].length(&s->programs[kind], r) > 0)
			return true;
	return false;
}

static bb_status hybrid_add_trial(struct hybrid_session *s, size_t kind)
{
	const char *algorithm = s->hybrid->options.algo_text;
	struct bb_hybrid_shape shape = s->job.shape;
	struct bb_trial trial = {.expects = kind == 0 ? &expectation : NULL};
	bb_status status;

	shape.parts = kinds[kind].parts;
	status = bb_hybrid_program_open(&s->programs[kind], &shape,
					strcmp(algorithm, "auto") == 0 ? NULL : algorithm,
					&s->engine.run->error);
	if (status != BB_OK || !hybrid_exists(s, kind))
		return status;
	s->kind_of[s->engine.ntrials] = kind;
	trial.workload =
		(struct bb_workload){.program = &s->programs[kind],
				     .stand_in = (enum bb_stand_in)s->hybrid->options.stand_in,
				     .buffers = s->data.memory ? bb_hybrid_data_buffers : NULL,
				     .own = &s->data};
	snprintf(trial.what, sizeof(trial.what), "%s%s", kinds[kind].name,
		 kind > 0 ? " alone" : "");
	if (kind == 0) {
		trial.watch = (struct bb_timeline_watch){hybrid_observe, s};
		trial.opened = hybrid_opened;
	}
	return bb_engine_add(&s->engine, &trial, NULL);
}

static bb_status hybrid_open(struct bb_engine *engine)
{
	struct hybrid_session *s = (struct hybrid_session *)engine;
	bb_status status;

	s->hybrid = engine->run->own;
	BB_TRY(status,
	       bb_hybrid_job_open(&s->job, s->hybrid, &engine->run->options, &engine->run->error),
	       out);
	BB_TRY(status, bb_hybrid_data_open(&s->data, &s->job.shape, engine), out);
	for (size_t kind = 0; kind < KINDS; kind++)
		BB_TRY(status, hybrid_add_trial(s, kind), out);
out:
	return status;
}

static void hybrid_close(struct bb_engine *engine)
{
	struct hybrid_session *s = (struct hybrid_session *)engine;

	for (size_t i = 0; i < KINDS; i++)
		bb_hybrid_program_close(&s->programs[i]);
	bb_hybrid_data_close(&s->data);
	bb_hybrid_job_close(&s->job);
}

/* ---- records --------------------------------------------------------------------------------- */

/* Groups of KIND with members on several hosts, or nodes of a cluster; BB_ABSENT in virtual time
   with equal links. */
static int64_t crossing(const struct hybrid_session *s, size_t kind)
{
	const struct bb_cluster *cluster = s->engine.run->options.virtual.cluster;
	const struct bb_grid *g = &s->job.shape.grid;
	const enum bb_axis axis = bb_traffic_axes[kinds[kind].traffic];
	int64_t n = 0;

	if (cluster)
		return bb_grid_crossing(g, axis, cluster->gpus);
	if (bb_engine_is_virtual(&s->engine))
		return BB_ABSENT;
	for (int group = 0; group < bb_grid_groups(g, axis); group++) {
		bool crosses = false;

		for (int i = 0; i < bb_grid_size(g, axis); i++) {
			const int first = bb_grid_member(g, axis, group, 0);
			const int other = bb_grid_member(g, axis, group, i);

			crosses |= strcmp(s->engine.run->infos[first].location.host,
					  s->engine.run->infos[other].location.host) != 0;
		}
		n += crosses;
	}
	return n;
}

#define LINKS_TEXT 160

/* TEXT = what is known of the links. */
static void describe_links(const struct hybrid_session *s, char text[LINKS_TEXT])
{
	const struct bb_backend_config *config = &s->engine.run->options.config;
	const struct bb_cluster *nodes = s->hybrid->nodes;

	if (nodes)
		snprintf(text, LINKS_TEXT,
			 "%s; each rank %.4g GB/s within a node, %.4g GB/s between nodes",
			 nodes->name, 1e-9 * nodes->gpu_rate, 1e-9 * nodes->nic_rate);
	else
		snprintf(text, LINKS_TEXT, "%s",
			 s->engine.run->options.cluster ? "links of --cluster"
			 : config->link_rate > 0 ? "all equal, by --link; nodes are not modelled"
						 : "as they are");
}

static void hybrid_describe_plan(const struct hybrid_session *s, size_t kind,
				 struct bb_hybrid_record *r)
{
	const struct bb_hybrid_cost *plan = &s->job.plan;

	if (plan->step <= 0)
		return;
	r->plan_us = 1e6 * (kind == 0   ? plan->step
			    : kind == 1 ? plan->compute
					: plan->traffic[kinds[kind].traffic]);
	if (kind == 0)
		r->plan_bubble_us = 1e6 * plan->bubble;
}

static void hybrid_describe(const struct hybrid_session *s, const struct bb_trial *trial,
			    size_t kind, const struct observed *mean, struct bb_hybrid_record *r)
{
	const struct bb_hybrid *h = s->hybrid;
	const struct bb_sent *sent = &s->sent[kind];

	bb_record_init(&bb_record_hybrid, r);
	r->model = h->model.name;
	r->part = kinds[kind].name;
	r->order = bb_grid_order_names[h->grid.order];
	r->algorithm = h->options.algo_text;
	r->compute = bb_stand_in_names[h->options.stand_in];
	r->nranks = s->engine.run->world.nranks;
	r->tp = h->grid.tp;
	r->pp = h->grid.pp;
	r->dp = h->grid.dp;
	r->ep = h->grid.ep;
	r->zero = h->options.zero;
	r->attention = bb_attention_words[h->options.attention];
	BB_FIT_SET(r, &h->fit);
	r->sequence_parallel = h->options.sequence_parallel;
	r->micro_batch = h->options.micro_batch;
	r->micro_batches = s->job.shape.micro_batches;
	r->time_us = 1e6 * trial->stats.p50;
	r->low_us = 1e6 * trial->stats.ci_low;
	r->high_us = 1e6 * trial->stats.ci_high;
	r->samples = (int64_t)trial->stats.n;
	hybrid_describe_plan(s, kind, r);
	if (kind > 0)
		r->in_step_us = 1e6 * mean->seconds[kind];
	if (kind >= 2) {
		r->crossing = crossing(s, kind);
		r->calls = (int64_t)sent->calls;
		r->sent_bytes = sent->bytes;
		r->sent_GBps = trial->stats.p50 > 0 ? 1e-9 * sent->bytes / trial->stats.p50 : NAN;
	}
	if (kind == 0)
		r->wrong = trial->wrong;
	r->end_unix_s = bb_clock_unix();
}

static void hybrid_add_answer(const struct bb_hybrid_record *r, struct bb_strbuf *out)
{
	char text[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# A step takes %s", bb_format_duration(text, 1e-6 * r->time_us));
	if (r->plan_us > 0)
		bb_strbuf_addf(out, "; the formula of --plan gives %s",
			       bb_format_duration(text, 1e-6 * r->plan_us));
	bb_strbuf_add(out, "\n");
}

static bb_status hybrid_deliver(struct bb_engine *engine)
{
	const struct hybrid_session *s = (const struct hybrid_session *)engine;
	struct bb_strbuf answer = {0};
	struct bb_hybrid_record r;
	char links[LINKS_TEXT];
	bb_status status = BB_OK;

	describe_links(s, links);
	for (size_t i = 0; i < engine->ntrials; i++) {
		BB_TRY(status, bb_engine_require(engine, i), out);
		hybrid_describe(s, &engine->trials[i], s->kind_of[i], &s->mean, &r);
		r.links = links;
		if (s->kind_of[i] == 0)
			hybrid_add_answer(&r, &answer);
		BB_TRY(status, bb_engine_deliver(engine, &bb_record_hybrid, &r, r.wrong), out);
	}
	status = bb_engine_answer(engine, &answer);
out:
	return status;
}

static const struct bb_payload_field sent_fields[] = {
	BB_PAYLOAD_FIELD("the number of calls", BB_PAYLOAD_UNSIGNED, struct bb_sent, calls,
			 .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the bytes", BB_PAYLOAD_REAL, struct bb_sent, bytes, .high = INT64_MAX),
	{.name = NULL}};
static const struct bb_payload sent_table = {"a count of messages", sizeof(struct bb_sent),
					     sent_fields, NULL};

/* Gathers the mean seconds of a step over all ranks, and the rank that sends most. */
static bb_status hybrid_gather(struct bb_engine *engine)
{
	struct hybrid_session *s = (struct hybrid_session *)engine;
	const int n = engine->run->world.nranks;
	struct observed mine = s->observed;
	const struct observed *of;
	const void *all;
	bb_status status;

	for (size_t i = 0; i < KINDS; i++)
		mine.seconds[i] /= mine.steps > 0 ? mine.steps : 1;
	status = bb_crew_gather(engine->driver, &bb_payload_seconds, &mine,
				sizeof(mine) / sizeof(double), &all);
	of = all;
	for (int r = 0; r < n && status == BB_OK; r++)
		for (size_t i = 0; i < KINDS; i++)
			s->mean.seconds[i] += of[r].seconds[i] / n;
	if (status == BB_OK)
		status = bb_crew_gather(engine->driver, &sent_table, s->sent, KINDS, &all);
	for (int r = 0; r < n && status == BB_OK; r++)
		for (size_t i = 0; i < KINDS; i++)
			keep_most(&s->sent[i],
				  &((const struct bb_sent *)all)[(size_t)r * KINDS + i]);
	return status;
}

const struct bb_experiment bb_hybrid_experiment = {
	.bytes = sizeof(struct hybrid_session),
	.open = hybrid_open,
	.gather = hybrid_gather,
	.deliver = hybrid_deliver,
	.close = hybrid_close,
};

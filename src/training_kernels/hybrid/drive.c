/*
 * drive.c - what every driver does: a whole step and each of its parts alone, timed against
 * each other, and what the step sent verified.
 */
#include "core/clock.h"
#include "simulator/cluster.h"
#include "training_kernels/hybrid/hybrid.h"
#include "training_kernels/trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The step first. */
static const struct {
	const char *name;
	unsigned parts;
	enum bb_traffic traffic; /* of those that communicate */
	enum bb_axis axis;
} kinds[] = {
	{"step", BB_HYBRID_STEP, 0, 0},
	{"compute", BB_HYBRID_COMPUTE, 0, 0},
	{"tensor", BB_HYBRID_TENSOR, BB_TRAFFIC_TENSOR, BB_AXIS_TP},
	{"expert", BB_HYBRID_EXPERT, BB_TRAFFIC_EXPERT, BB_AXIS_EP},
	{"pipeline", BB_HYBRID_PIPELINE, BB_TRAFFIC_PIPELINE, BB_AXIS_PP},
	{"data", BB_HYBRID_DATA, BB_TRAFFIC_DATA, BB_AXIS_DP},
	{"embedding", BB_HYBRID_EMBEDDING, BB_TRAFFIC_EMBEDDING, BB_AXIS_PP},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What a rank hears of watched steps: seconds of each kind. */
struct heard {
	double seconds[KINDS];
	double steps;
};

struct session {
	const struct bb_hybrid *hybrid;
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_group *world;
	struct bb_hybrid_job job;
	struct bb_hybrid_data data; /* of this rank */
	struct bb_program programs[KINDS];
	size_t kind_of[KINDS]; /* of each trial */
	struct bb_trials trials;
	struct heard heard;
	struct bb_sent sent[KINDS]; /* in a step, by the rank that sends most of each kind */
	int64_t wrong;              /* BB_ABSENT: not looked at */
	struct bb_error *error;
};

/* ---- what is heard ----------------------------------------------------------------------------
 */

static void done(void *own, int rank, size_t index, const struct bb_operation *o, double from,
		 double to, int source)
{
	struct session *s = own;

	/* Of the pipeline what computing waits for; messages are on their way beside it. */
	for (size_t i = 1; i < KINDS; i++)
		if (o->work == (int)kinds[i].parts && o->queue == BB_HYBRID_COMPUTES)
			s->heard.seconds[i] += to - from;
	/* A step of this rank, or of all of them where time is virtual, is heard to its end. */
	s->heard.steps += index + 1 == s->programs[0].length(&s->programs[0], rank);
}

/* ---- data -------------------------------------------------------------------------------------
 */

static void buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct session *s = own;

	bb_hybrid_data_buffers(&s->data, o, in, out);
}

static bb_status before_last(void *own)
{
	struct session *s = own;

	return bb_hybrid_data_fill(&s->data);
}

static bb_status after_last(void *own)
{
	struct session *s = own;
	uint64_t wrong = 0;
	const void *all;
	bb_status status = bb_hybrid_data_verify(&s->data, &wrong);

	if (status == BB_OK)
		status = bb_crew_gather(s->driver, &bb_payload_number, &wrong, 1, &all);
	s->wrong = 0;
	for (int r = 0; r < s->run->world.nranks && status == BB_OK; r++)
		s->wrong += (int64_t)((const uint64_t *)all)[r];
	return status;
}

static void keep_most(struct bb_sent *most, const struct bb_sent *sent)
{
	if (sent->bytes >= most->bytes)
		*most = *sent;
}

/* What this rank sends, or all of them where time is virtual. */
static bb_status opened(void *own, struct bb_player *player)
{
	struct session *s = own;
	const bool all = s->backend->virtual;
	const int first = all ? 0 : s->driver->rank;
	const int last = all ? s->run->world.nranks - 1 : first;
	bb_status status = BB_OK;

	for (int rank = first; rank <= last; rank++)
		for (size_t kind = 2; kind < KINDS && status == BB_OK; kind++) {
			struct bb_sent sent;

			status = bb_player_count(player, rank, (int)kinds[kind].parts, &sent);
			keep_most(&s->sent[kind], &sent);
		}
	return status;
}

/* ---- programs ---------------------------------------------------------------------------------
 */

/* Is there anything of KIND? */
static bool exists(const struct session *s, size_t kind)
{
	for (int r = 0; r < s->run->world.nranks; r++)
		if (s->programs[kind].length(&s->programs[kind], r) > 0)
			return true;
	return false;
}

static bb_status add_trial(struct session *s, size_t kind)
{
	struct bb_trial *trial = &s->trials.list[s->trials.n];
	const char *algorithm = s->hybrid->asked.algo_text;
	struct bb_hybrid_shape shape = s->job.shape;
	bb_status status;

	shape.parts = kinds[kind].parts;
	status =
		bb_hybrid_program_open(&s->programs[kind], &shape,
				       strcmp(algorithm, "auto") == 0 ? NULL : algorithm, s->error);
	if (status != BB_OK || !exists(s, kind))
		return status;
	s->kind_of[s->trials.n++] = kind;
	trial->play = (struct bb_play){.program = &s->programs[kind],
				       .stand_in = (enum bb_stand_in)s->hybrid->asked.stand_in,
				       .buffers = s->data.memory ? buffers : NULL,
				       .own = s};
	snprintf(trial->what, sizeof(trial->what), "%s%s", kinds[kind].name,
		 kind > 0 ? " alone" : "");
	if (kind > 0)
		return BB_OK;
	trial->watch = (struct bb_timeline_watch){done, s};
	trial->opened = opened;
	if (s->backend->has_data && s->run->options.check > 0) {
		trial->before_last = before_last;
		trial->after_last = after_last;
	}
	return BB_OK;
}

static bb_status open_session(struct session *s)
{
	bb_status status;

	BB_TRY(status, bb_run_attend(s->run, s->driver, NULL, &s->world), out);
	s->trials.list = calloc(KINDS, sizeof(*s->trials.list));
	if (!s->trials.list) {
		status = bb_fail(s->error, BB_EINTERNAL, "out of memory for a step of %s",
				 s->hybrid->model.name);
		goto out;
	}
	BB_TRY(status, bb_hybrid_job_open(&s->job, s->hybrid, &s->run->options.config, s->error),
	       out);
	BB_TRY(status, bb_hybrid_data_open(&s->data, &s->job.shape, s->run, s->driver), out);
	if (bb_driver_leads(s->driver))
		s->run->end.memory_user_bytes = (int64_t)s->data.bytes * s->run->world.nlocal;
	for (size_t kind = 0; kind < KINDS; kind++)
		BB_TRY(status, add_trial(s, kind), out);
	status = bb_run_begin(s->run, s->driver, NAN);
out:
	return status;
}

static void close_session(struct session *s)
{
	bb_trials_free(&s->trials);
	for (size_t i = 0; i < KINDS; i++)
		bb_hybrid_program_close(&s->programs[i]);
	free(s->trials.list);
	bb_hybrid_data_close(&s->data);
	bb_hybrid_job_close(&s->job);
	s->backend->group_close(s->world);
}

/* ---- what comes of it -------------------------------------------------------------------------
 */

/* Groups of KIND whose members are on several hosts, or on several nodes of a cluster; where time
   is virtual and links are all alike there are none. */
static int64_t crossing(const struct session *s, size_t kind)
{
	const struct bb_cluster *cluster = s->run->options.config.cluster;
	const struct bb_grid *g = &s->job.shape.grid;
	const enum bb_axis axis = kinds[kind].axis;
	int64_t n = 0;

	if (cluster)
		return bb_grid_crossing(g, axis, cluster->gpus);
	if (s->backend->virtual)
		return BB_ABSENT;
	for (int group = 0; group < bb_grid_groups(g, axis); group++) {
		bool crosses = false;

		for (int i = 0; i < bb_grid_size(g, axis); i++) {
			const int first = bb_grid_member(g, axis, group, 0);
			const int other = bb_grid_member(g, axis, group, i);

			crosses |= strcmp(s->run->infos[first].location.host,
					  s->run->infos[other].location.host) != 0;
		}
		n += crosses;
	}
	return n;
}

#define LINKS_TEXT 160

/* What is known of them. */
static void tell_links(const struct session *s, char text[LINKS_TEXT])
{
	const struct bb_backend_config *config = &s->run->options.config;
	const struct bb_cluster *nodes = s->hybrid->nodes;

	if (nodes)
		snprintf(text, LINKS_TEXT,
			 "%s; of a rank %.4g GB/s within a node, %.4g GB/s between", nodes->name,
			 1e-9 * nodes->gpu_rate, 1e-9 * nodes->nic_rate);
	else
		snprintf(text, LINKS_TEXT, "%s",
			 config->cluster ? "those of --cluster"
			 : config->link_rate > 0
				 ? "all alike, as --link says; nodes are not modelled"
				 : "as they are");
}

static void describe_plan(const struct session *s, size_t kind, struct bb_hybrid_record *r)
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

static void describe(const struct session *s, const struct bb_trial *trial, size_t kind,
		     const struct heard *mean, struct bb_hybrid_record *r)
{
	const struct bb_hybrid *h = s->hybrid;
	const struct bb_sent *sent = &s->sent[kind];

	bb_record_init(&bb_record_hybrid, r);
	r->model = h->model.name;
	r->part = kinds[kind].name;
	r->order = bb_grid_order_words[h->grid.order];
	r->algorithm = h->asked.algo_text;
	r->compute = bb_stand_in_names[h->asked.stand_in];
	r->nranks = s->run->world.nranks;
	r->tp = h->grid.tp;
	r->pp = h->grid.pp;
	r->dp = h->grid.dp;
	r->ep = h->grid.ep;
	r->zero = h->asked.zero;
	r->sequence_parallel = h->asked.sequence_parallel;
	r->micro_batch = h->asked.micro_batch;
	r->micro_batches = s->job.shape.micro_batches;
	r->time_us = 1e6 * trial->stats.p50;
	r->low_us = 1e6 * trial->stats.ci_low;
	r->high_us = 1e6 * trial->stats.ci_high;
	r->samples = (int64_t)trial->stats.n;
	describe_plan(s, kind, r);
	if (kind > 0)
		r->in_step_us = 1e6 * mean->seconds[kind];
	if (kind >= 2) {
		r->crossing = crossing(s, kind);
		r->calls = (int64_t)sent->calls;
		r->sent_bytes = sent->bytes;
		r->sent_GBps = trial->stats.p50 > 0 ? 1e-9 * sent->bytes / trial->stats.p50 : NAN;
	}
	if (kind == 0)
		r->wrong = s->wrong;
	r->end_unix_s = bb_clock_unix();
}

static bb_status deliver(const struct session *s, const struct heard *mean)
{
	struct bb_run *run = s->run;
	struct bb_hybrid_record r;
	char links[LINKS_TEXT];
	bb_status status = BB_OK;

	bb_ticker_hide(&run->ticker);
	tell_links(s, links);
	for (size_t i = 0; i < s->trials.n && status == BB_OK; i++) {
		if (s->trials.list[i].refusal[0])
			return bb_fail(s->error, BB_EUNSUPPORTED, "%s", s->trials.list[i].refusal);
		describe(s, &s->trials.list[i], s->kind_of[i], mean, &r);
		r.links = links;
		run->end.results++;
		run->end.wrong += r.wrong != BB_ABSENT && r.wrong > 0;
		status = bb_sinks_record(&run->sinks, &bb_record_hybrid, &r);
	}
	return status;
}

static const struct bb_payload_field sent_fields[] = {
	BB_PAYLOAD_FIELD("the number of calls", BB_PAYLOAD_UNSIGNED, struct bb_sent, calls,
			 .high = INT64_MAX),
	BB_PAYLOAD_FIELD("the bytes", BB_PAYLOAD_REAL, struct bb_sent, bytes, .high = INT64_MAX),
	{.name = NULL}};
static const struct bb_payload sent_table = {"a count of messages", sizeof(struct bb_sent),
					     sent_fields, NULL};

/* *MEAN = seconds of a step, over all ranks; and who sends most. */
static bb_status gather(struct session *s, struct heard *mean)
{
	const int n = s->run->world.nranks;
	struct heard mine = s->heard;
	const struct heard *of;
	const void *all;
	bb_status status;

	for (size_t i = 0; i < KINDS; i++)
		mine.seconds[i] /= mine.steps > 0 ? mine.steps : 1;
	status = bb_crew_gather(s->driver, &bb_payload_seconds, &mine,
				sizeof(mine) / sizeof(double), &all);
	of = all;
	*mean = (struct heard){.steps = 0};
	for (int r = 0; r < n && status == BB_OK; r++)
		for (size_t i = 0; i < KINDS; i++)
			mean->seconds[i] += of[r].seconds[i] / n;
	if (status == BB_OK)
		status = bb_crew_gather(s->driver, &sent_table, s->sent, KINDS, &all);
	for (int r = 0; r < n && status == BB_OK; r++)
		for (size_t i = 0; i < KINDS; i++)
			keep_most(&s->sent[i],
				  &((const struct bb_sent *)all)[(size_t)r * KINDS + i]);
	return status;
}

bb_status bb_hybrid_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct session s = {.hybrid = run->own,
			    .run = run,
			    .driver = driver,
			    .backend = run->options.backend,
			    .trials = {.run = run, .driver = driver},
			    .wrong = BB_ABSENT,
			    .error = &run->error};
	struct heard mean;
	bb_status status = open_session(&s);

	if (status == BB_OK)
		status = bb_trials_measure(&s.trials);
	if (status == BB_OK)
		status = gather(&s, &mean);
	if (status == BB_OK && bb_driver_leads(driver))
		status = deliver(&s, &mean);
	status = bb_crew_part(driver, status);
	if (status == BB_OK)
		bb_hybrid_data_release(&s.data);
	close_session(&s);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}

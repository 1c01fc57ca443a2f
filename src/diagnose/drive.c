/*
 * drive.c - the experiment: a round that shows the cost, the survey, steps, and the suspects once
 * more, each measured by a program whose times are collected on rank 0, which judges.
 */
#include "diagnose/diagnose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FULL_UP_TO 32 /* nodes */
#define BLIND 10      /* where only times this many times longer would be slow, nobody is judged */

#define WORK_NUMBERS 4096
#define WORK_REPEATS 64

/* The samples of one rank in the current round. */
struct round_samples {
	double requested_at;
	int n[BB_QUANTITIES];
	double *values[BB_QUANTITIES];
};

/* The measurement of a program by one driver. */
struct stage_run {
	struct bb_examiner *s;
	struct bb_probe probe;
	struct bb_program program;
	int nranks;                    /* whose times this driver records */
	int first;                     /* the first of them */
	struct round_samples *samples; /* [rank - first] */
	double *room;                  /* their values */
	float *times;                  /* [(rank - first) * per_rank + …] */
	size_t per_rank;
};

/* ---- computations --------------------------------------------------------------------------- */

/* The compiler cannot foresee the sum. */
static double work(void)
{
	double numbers[WORK_NUMBERS / 8] = {1};
	volatile double sum = 0;

	for (int i = 0; i < WORK_REPEATS; i++)
		for (int k = 1; k < WORK_NUMBERS / 8; k++)
			numbers[k] = numbers[k - 1] * 0.5 + numbers[k] * 0.25 + 1;
	sum += numbers[WORK_NUMBERS / 8 - 1];
	return sum;
}

/* Real backends only; in virtual time an operation's seconds are its time. */
static void compute(void *own, int rank, const struct bb_operation *o)
{
	const struct stage_run *p = own;
	double seconds = o->seconds;

	if (o->work != BB_PROBE_DELAY)
		/* When a deadline passes, ranks that have not entered are named. */
		atomic_fetch_add_explicit(&p->s->engine.driver->progress->entered, 1,
					  memory_order_relaxed);
	if (o->work == BB_PROBE_STEP) {
		work();
		seconds -= p->probe.work_s;
	}
	if (seconds > 0)
		bb_driver_delay(p->s->engine.driver, seconds);
}

/* ---- recording ------------------------------------------------------------------------------ */

/* Of steps the waits in their collectives; of rounds the medians of their requests. */
static void stage_record(void *own, int rank, size_t index, const struct bb_operation *o,
			 double from, double to, int source)
{
	struct stage_run *p = own;
	float *times = &p->times[(size_t)(rank - p->first) * p->per_rank];
	struct round_samples *a = &p->samples[rank - p->first];
	const int node = p->probe.ports->node[rank];
	const size_t last = 2 * (size_t)(BB_SMALL_REQUESTS + p->probe.large) - 1;
	const bool small = o->work == BB_PROBE_SMALL;

	if (o->work == BB_PROBE_GATHER)
		times[o->item] = (float)(to - from);
	if (o->act != BB_ACT_SEND && o->act != BB_ACT_RECV)
		return;
	const int partner = p->probe.ports->node[o->peer];
	const bool is_requester = (o->item % 2 == 0) == (node < partner);
	if (is_requester && o->act == BB_ACT_SEND)
		a->requested_at = from;
	/* The first of each kind is not counted. */
	if (is_requester && o->act == BB_ACT_RECV && o->item > 1 &&
	    o->item / 2 != BB_SMALL_REQUESTS) {
		const int q = small ? BB_LATENCY : BB_BANDWIDTH;

		a->values[q][a->n[q]++] = to - a->requested_at;
	}
	if (o->item != last || (o->act == BB_ACT_RECV) != is_requester)
		return;
	for (int q = 0; q < BB_QUANTITIES; q++) { /* the round has ended */
		const size_t round = (size_t)bb_probe_round_at(&p->probe, rank, index);
		const double middle = bb_low_median(a->values[q], (size_t)a->n[q]);

		times[round * BB_QUANTITIES + (size_t)q] =
			a->n[q] > 0 && middle > 0 ? (float)log(middle) : NAN;
		a->n[q] = 0;
	}
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* Prepare to measure PER_RANK times of each rank. The faults that no backend has are planted in the
   program. */
static bb_status stage_run_init(struct stage_run *p, struct bb_examiner *s, size_t per_rank)
{
	const struct bb_options *o = &s->engine.run->options;
	const struct bb_fault *fault = &o->fault;
	const bool link = fault->kind == BB_FAULT_SLOW_LINK, slow = fault->kind == BB_FAULT_SLOW;
	const bool virtual = bb_engine_is_virtual(&s->engine);
	const int large = 1 + (int)s->diagnose->options.large;
	const size_t each = (size_t)(large > BB_SMALL_REQUESTS ? large : BB_SMALL_REQUESTS);

	*p = (struct stage_run){
		.s = s,
		.nranks = virtual ? s->engine.run->world.nranks : 1,
		.first = virtual ? 0 : s->engine.driver->rank,
		.per_rank = per_rank,
		.probe = {
			.ports = &s->ports,
			.nranks = s->engine.run->world.nranks,
			.planted = {.rank = slow || fault->kind == BB_FAULT_LATE ? fault->rank : -1,
				    .send_s = slow ? fault->seconds : 0,
				    .late_s = fault->seconds,
				    .from = fault->rank,
				    .to = link ? fault->to : -1,
				    .back = !link,
				    .factor = o->virtual.flawed || (link && virtual)
						      ? 0
						      : fault->factor,
				    .rate = o->config.link_rate,
				    .latency = o->config.link_latency},
			.bytes = (size_t)s->diagnose->options.bytes,
			.large = large,
			.steps = (int)s->diagnose->options.steps,
			.work_s = BB_STEP_WORK_S}};
	const size_t n = (size_t)p->nranks;
	p->times = malloc((n * per_rank + 1) * sizeof(*p->times));
	p->samples = calloc(n, sizeof(*p->samples));
	p->room = malloc(n * BB_QUANTITIES * each * sizeof(*p->room));
	if (!p->times || !p->samples || !p->room)
		return BB_EINTERNAL;
	for (size_t i = 0; i < n * per_rank; i++)
		p->times[i] = NAN;
	for (size_t i = 0; i < n * BB_QUANTITIES; i++)
		p->samples[i / BB_QUANTITIES].values[i % BB_QUANTITIES] = &p->room[i * each];
	return BB_OK;
}

static void stage_run_close(struct stage_run *p)
{
	free(p->probe.met);
	free(p->samples);
	free(p->room);
	free(p->times);
}

/* NAN: the rank was not in this round. */
static const struct bb_payload_field time_fields[] = {
	{"a time", BB_PAYLOAD_ANY, 0, sizeof(float), 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload time_table = {"a time", sizeof(float), time_fields, NULL};

/* Measure p->program once. *SECONDS = the time of all; *ALL = what was recorded of all ranks, on
   rank 0, NULL elsewhere. */
static bb_status stage_run_measure(struct stage_run *p, const char *what, double *seconds,
				   const float **all)
{
	struct bb_engine *e = &p->s->engine;
	struct bb_trial trial = {.workload = {.program = &p->program, .compute = compute, .own = p},
				 .timing = BB_TIMING_STEPS,
				 .steps = 1,
				 .watch = {stage_record, p}};
	const void *got = p->times;
	bb_status status;

	bb_probe_program(&p->program, &p->probe);
	/* The gathers bring ranks together. What a slow link costs NCCL's may be unknown. */
	if (bb_engine_is_virtual(e) && e->run->options.virtual.slow_link.factor > 0)
		p->program.algorithm = BB_OWN "bruck";
	snprintf(trial.what, sizeof(trial.what), "%s", what);
	bb_engine_clear(e);
	BB_TRY(status, bb_engine_add(e, &trial, NULL), out);
	BB_TRY(status, bb_engine_measure(e), out);
	*seconds = e->trials[0].samples[0];
	if (!bb_engine_is_virtual(e))
		BB_TRY(status,
		       bb_driver_collect(e->driver, &time_table, p->times, p->per_rank, &got), out);
	*all = got;
out:
	return status;
}

/* Measure STAGE's rounds. WHAT names them if a deadline passes. Collective. */
static bb_status stage_measure(struct bb_examiner *s, struct bb_diagnose_stage *stage,
			       const char *what)
{
	const size_t ports = (size_t)s->ports.nodes * (size_t)s->ports.rails;
	const float *all = NULL;
	struct stage_run p;
	size_t rounds;
	bb_status status;

	if (s->pairs_at_once > 0) {
		if (bb_rounds_split(&stage->rounds, s->pairs_at_once) != BB_OK)
			return BB_EINTERNAL;
		stage->in_turn = true;
	}
	rounds = (size_t)stage->rounds.n;
	BB_TRY(status, stage_run_init(&p, s, rounds * BB_QUANTITIES), out);
	p.probe.rounds = &stage->rounds;
	p.probe.pause_s = stage->pause_s;
	p.probe.in_turn = stage->in_turn;
	p.probe.met = bb_probe_met(&stage->rounds, s->ports.rails);
	status = BB_EINTERNAL;
	if (!p.probe.met)
		goto out;
	BB_TRY(status, stage_run_measure(&p, what, &stage->seconds, &all), out);
	for (size_t q = 0; all && q < BB_QUANTITIES; q++) { /* rank by rank, to round by round */
		const size_t n = rounds * ports;
		struct bb_quantity *raw = &stage->raw[q], *even = &stage->measured[q];

		*raw = *even = (struct bb_quantity){&stage->rounds, s->ports.rails, NULL,
						    s->crowded ? s->places : NULL};
		raw->log_s = malloc((n + 1) * sizeof(float));
		even->log_s = malloc((n + 1) * sizeof(float));
		if (!raw->log_s || !even->log_s) {
			status = BB_EINTERNAL;
			goto out;
		}
		for (size_t i = 0; i < n; i++) {
			const size_t rank = (size_t)s->ports.rank[i % ports];

			raw->log_s[i] = even->log_s[i] =
				all[(rank * rounds + i / ports) * BB_QUANTITIES + q];
		}
	}
out:
	stage_run_close(&p);
	return status;
}

static void stage_free(struct bb_diagnose_stage *stage)
{
	bb_rounds_free(&stage->rounds);
	for (int q = 0; q < BB_QUANTITIES; q++) {
		free(stage->raw[q].log_s);
		free(stage->measured[q].log_s);
	}
	memset(stage, 0, sizeof(*stage));
}

/* ---- broadcasts of rank 0's decisions ------------------------------------------------------- */

/* Broadcast COUNT payloads at DATA from rank 0. Collective. */
static bb_status broadcast(struct bb_examiner *s, const struct bb_payload *table, void *data,
			   size_t count)
{
	const void *all;
	bb_status status = bb_driver_gather(s->engine.driver, table, data, count, &all);

	if (status == BB_OK)
		memcpy(data, all, count * table->bytes);
	return status;
}

/* Broadcast COUNT numbers from 0 to MOST, of BYTES bytes each. */
static bb_status broadcast_numbers(struct bb_examiner *s, const char *name, int64_t most,
				   void *data, size_t bytes, size_t count)
{
	const struct bb_payload_field fields[] = {
		{name, BB_PAYLOAD_UNSIGNED, 0, bytes, 1, 0, 0, most}, {.name = NULL}};

	return broadcast(s, &(struct bb_payload){name, bytes, fields, NULL}, data, count);
}

static bb_status broadcast_suspects(struct bb_examiner *s, struct bb_suspects *suspects)
{
	const size_t nodes = (size_t)s->ports.nodes;
	bb_status status;

	if (!suspects->standing) {
		suspects->nodes = s->ports.nodes;
		suspects->standing = calloc(nodes, 1);
		if (!suspects->standing)
			return BB_EINTERNAL;
	}
	BB_TRY(status, broadcast_numbers(s, "a standing", BB_SUSPECT, suspects->standing, 1, nodes),
	       out);
	BB_TRY(status,
	       broadcast_numbers(s, "the number of pairs", BB_MOST_PAIRS, &suspects->npairs,
				 sizeof(suspects->npairs), 1),
	       out);
	BB_TRY(status,
	       broadcast_numbers(s, "the mark of rails", 1, &suspects->rails,
				 sizeof(suspects->rails), 1),
	       out);
	if (suspects->npairs > 0)
		status = broadcast_numbers(s, "a node of a pair", s->ports.nodes - 1,
					   suspects->pairs, sizeof(suspects->pairs[0].a),
					   2 * (size_t)suspects->npairs);
out:
	return status;
}

/* ---- distances ------------------------------------------------------------------------------ */

/* Rank 0: take differences of distance off STAGE. */
static void level(struct bb_examiner *s, struct bb_diagnose_stage *stage)
{
	for (int q = 0; q < BB_QUANTITIES; q++) {
		if (s->places && !s->crowded)
			bb_level_apply(s->level[q], &stage->measured[q], s->places);
		bb_block_map_apply(&s->blocks[q], &stage->measured[q]);
	}
}

/* ---- the survey ----------------------------------------------------------------------------- */

/* Measure one round, which shows what the survey will cost: it waits for the slowest pair. */
static bb_status pilot(struct bb_examiner *s)
{
	const double requests = 1 + (double)s->diagnose->options.large;
	struct bb_diagnose_stage stage = {0};
	const struct bb_quantity *small = &stage.measured[BB_LATENCY];
	const struct bb_quantity *large = &stage.measured[BB_BANDWIDTH];
	double round_s, small_s = 0;
	bb_status status;

	BB_TRY(status,
	       bb_rounds_survey(&stage.rounds, s->ports.nodes, 1, false,
				(uint64_t)s->engine.run->options.seed),
	       out);
	BB_TRY(status, stage_measure(s, &stage, "a first round"), out);
	if (!bb_engine_leads(&s->engine))
		goto out;
	round_s = stage.seconds;
	for (int node = 0; node < s->ports.nodes; node++)
		for (int k = 0; k < s->ports.rails; k++) {
			const int ends[2] = {node, bb_rounds_partner(&stage.rounds, 0, node)};
			double pair_s = 0;

			for (int i = 0; i < 2 && ends[1] != BB_NOBODY; i++)
				pair_s += BB_SMALL_REQUESTS *
						  exp(bb_measured_at(small, 0, ends[i], k)) +
					  requests * exp(bb_measured_at(large, 0, ends[i], k));
			round_s = fmax(round_s, pair_s);
			small_s = fmax(small_s, exp(bb_measured_at(small, 0, node, k)) / 2);
		}
	status = bb_diagnose_announce(s, round_s, small_s);
out:
	stage_free(&stage);
	return status;
}

/* Measure the survey. Rank 0 fits it, and once more without the distances between blocks; where
   ranks share processors, the time of a rank's work depends on the others there and there is a
   floor, below which nobody is slow; what --link adds does not depend on them. */
static bb_status survey(struct bb_examiner *s, struct bb_suspects *suspects)
{
	const struct bb_backend_config *c = &s->engine.run->options.config;
	const struct bb_diagnose_options *a = &s->diagnose->options;
	bb_status status = stage_measure(s, &s->survey, "the survey");

	if (status != BB_OK || !bb_engine_leads(&s->engine))
		return status;
	/* Where ranks share processors, that decides their times, not distance. */
	for (int q = 0; q < BB_QUANTITIES && s->places && !s->crowded; q++)
		BB_TRY(status, bb_level_find(s->level[q], &s->survey.measured[q], s->places), out);
	level(s, &s->survey);
	for (int q = 0; q < BB_QUANTITIES; q++) {
		const struct bb_quantity *m = &s->survey.measured[q];
		const double bytes = q == BB_BANDWIDTH ? (double)a->bytes : 0;
		/* The request is a message too. */
		const double planned =
			c->link_rate > 0 ? 2 * c->link_latency + bytes / c->link_rate : 0;
		struct bb_view *v = &s->views[q];

		BB_TRY(status, bb_view_make(v, m, a->tolerance), out);
		if (s->crowded) {
			const double usual = exp(bb_typical_base(v->base, m->rails));

			v->floor = log(bb_slow_factor(BB_CROWDED, usual, planned));
		}
		if (v->floor == 0)
			BB_TRY(status, bb_block_map_find(&s->blocks[q], v), out);
		if (v->floor == 0 && s->blocks[q].n == 0)
			continue;
		bb_block_map_apply(&s->blocks[q], m);
		BB_TRY(status, bb_view_make(v, m, a->tolerance), out);
	}
	status = bb_suspect(suspects, s->views, BB_QUANTITIES);
out:
	return status;
}

/* ---- confirmation --------------------------------------------------------------------------- */

/* Measure the suspects again, and judge them; then those convicted once more, with all others
   silent. Nodes and rails first: a link may be slow because of its ends. */
static bb_status confirm_suspects(struct bb_examiner *s, const struct bb_suspects *suspects)
{
	const int most = s->ports.nodes - 1;
	const struct bb_payload_field fields[] = {
		BB_PAYLOAD_FIELD("how many", BB_PAYLOAD_SIGNED, struct bb_lone_plan, n,
				 .high = BB_MOST_LONE),
		BB_PAYLOAD_FIELD("how often", BB_PAYLOAD_SIGNED, struct bb_lone_plan, times,
				 .high = BB_CONFIRMING),
		BB_PAYLOAD_EACH("a node", BB_PAYLOAD_SIGNED, struct bb_lone_plan, list, .node,
				BB_MOST_LONE, .high = most),
		BB_PAYLOAD_EACH("its peer", BB_PAYLOAD_SIGNED, struct bb_lone_plan, list, .peer,
				BB_MOST_LONE, .low = -1, .high = most),
		BB_PAYLOAD_EACH("a rail", BB_PAYLOAD_SIGNED, struct bb_lone_plan, list, .rail,
				BB_MOST_LONE, .low = -1, .high = s->ports.rails - 1),
		{.name = NULL}};
	const struct bb_payload table = {"what to measure alone", sizeof(struct bb_lone_plan),
					 fields, NULL};
	const bool leads = bb_engine_leads(&s->engine);
	bb_status status;

	BB_TRY(status,
	       bb_rounds_confirm(&s->confirm.rounds, suspects,
				 (uint64_t)s->engine.run->options.seed + 1),
	       out);
	s->confirm.pause_s = BB_CONFIRM_PAUSE_S;
	BB_TRY(status, stage_measure(s, &s->confirm, "the rounds that confirm"), out);
	if (leads)
		level(s, &s->confirm);
	for (enum bb_accused who = BB_ACCUSED_NODES; who <= BB_ACCUSED_LINKS; who++) {
		struct bb_diagnose_stage *alone = &s->alone[who];
		struct bb_lone_plan plan = {0};
		const int first = s->verdicts.n;

		if (leads) {
			BB_TRY(status,
			       bb_convict(&s->verdicts, who, suspects, s->views,
					  s->confirm.measured, s->diagnose->options.tolerance),
			       out);
			bb_lone_plan_make(&plan, &s->verdicts, first);
		}
		BB_TRY(status, broadcast(s, &table, &plan, 1), out);
		if (plan.n == 0)
			continue;
		BB_TRY(status, bb_rounds_alone(&alone->rounds, suspects, &plan), out);
		alone->pause_s = BB_RETEST_PAUSE_S;
		alone->in_turn = true;
		BB_TRY(status, stage_measure(s, alone, "suspects alone"), out);
		if (!leads)
			continue;
		level(s, alone);
		BB_TRY(status, bb_acquit(&s->verdicts, first, s->views, alone->measured), out);
	}
out:
	return status;
}

/* Measure the steps. Rank 0: LATE = the ranks that come late. */
static bb_status find_late_ranks(struct bb_examiner *s, struct bb_verdicts *late)
{
	const struct bb_diagnose_options *a = &s->diagnose->options;
	const float *waits = NULL;
	double seconds = 0;
	struct stage_run p;
	bb_status status;

	BB_TRY(status, stage_run_init(&p, s, (size_t)a->steps), out);
	BB_TRY(status, stage_run_measure(&p, "steps", &seconds, &waits), out);
	if (waits)
		status = bb_find_stragglers(late, waits, (int)a->steps, s->engine.run->world.nranks,
					    seconds / (double)a->steps, a->tolerance);
out:
	stage_run_close(&p);
	return status;
}

/* ---- the experiment ------------------------------------------------------------------------- */

/* BB_EINTERNAL without a reason means that memory ran out; a reason that is there stays. */
static bb_status reported(struct bb_examiner *s, bb_status status)
{
	return status == BB_EINTERNAL ? bb_no_memory(&s->engine.run->error, "the diagnosis")
				      : status;
}

/* Rank 0 finds the places of the nodes' first ranks, if all ranks are on one host. A rank that
   waits for a processor would measure that wait: at most as many pairs meet at a time as have
   processors of their own. */
static bb_status diagnose_open(struct bb_engine *engine)
{
	struct bb_examiner *s = (struct bb_examiner *)engine;
	const struct bb_diagnose_options *a = &((struct bb_diagnose *)engine->run->own)->options;
	const struct bb_rank_info *infos = engine->run->infos;
	const int last = engine->run->world.nranks - 1;
	bb_status status;
	int least, nodes;

	s->diagnose = engine->run->own;
	BB_TRY(status, bb_ports_find(&s->ports, engine->run, a->node_ranks, &engine->run->error),
	       out);
	nodes = s->ports.nodes;
	if (bb_engine_leads(engine) && !bb_engine_is_virtual(engine) &&
	    infos[0].node == infos[last].node) {
		s->places = calloc((size_t)nodes, sizeof(*s->places));
		if (!s->places) {
			status = BB_EINTERNAL;
			goto out;
		}
		for (int i = 0; i < nodes; i++) {
			const struct bb_location *first =
				&infos[s->ports.rank[i * s->ports.rails]].location;

			s->places[i] = (struct bb_spot){first->device, first->numa};
		}
		s->crowded = bb_is_crowded(last + 1, engine->run->record.cores);
		if (s->crowded)
			s->pairs_at_once = (int)fmax(1, (double)(engine->run->record.cores /
								 (2 * (int64_t)s->ports.rails)));
	}
	BB_TRY(status,
	       broadcast_numbers(s, "the pairs at a time", INT32_MAX, &s->pairs_at_once,
				 sizeof(s->pairs_at_once), 1),
	       out);
	least = bb_survey_least(nodes);
	if (a->partners > least)
		least = (int)a->partners;
	status = bb_rounds_survey(&s->survey.rounds, nodes, least,
				  a->full || (!a->quick && nodes <= FULL_UP_TO),
				  (uint64_t)engine->run->options.seed);
out:
	return reported(s, status);
}

static bb_status diagnose_run(struct bb_engine *engine)
{
	struct bb_examiner *s = (struct bb_examiner *)engine;
	const struct bb_diagnose_options *a = &s->diagnose->options;
	const double most = fmax(log(BLIND), bb_tolerated(a->tolerance));
	struct bb_suspects suspects = {0};
	struct bb_verdicts late = {0}, again = {0};
	bb_status status;

	BB_TRY(status, pilot(s), out);
	BB_TRY(status, survey(s, &suspects), out);
	if (a->steps > 0)
		BB_TRY(status, find_late_ranks(s, &late), out);
	BB_TRY(status, broadcast_suspects(s, &suspects), out);
	if (bb_suspects_any(&suspects))
		BB_TRY(status, confirm_suspects(s, &suspects), out);
	/* Stragglers are the ranks that come late again. */
	int n = late.n;
	BB_TRY(status, broadcast_numbers(s, "how many came late", INT32_MAX, &n, sizeof(n), 1),
	       out);
	if (n > 0)
		BB_TRY(status, find_late_ranks(s, &again), out);
	for (int i = 0; i < again.n; i++)
		for (int k = 0; k < late.n; k++)
			if (late.list[k].node == again.list[i].node)
				BB_TRY(status, bb_verdicts_add(&s->verdicts, &again.list[i]), out);
	if (!bb_engine_leads(&s->engine))
		goto out;
	/* Noise alone, not --tolerance, hides all that is slow. */
	if (s->views[BB_LATENCY].limit > most && s->views[BB_BANDWIDTH].limit > most)
		s->diagnose->unjudged =
			"the noise is too large to judge anybody (see \"typical\"); measure on a "
			"quieter machine, or more often (-n)";
	if (s->verdicts.unjudged)
		s->diagnose->unjudged =
			"suspects have no reference pairs on the same processors; measure with "
			"fewer ranks, or on a quieter machine";
	status = bb_diagnose_report(s);
out:
	free(suspects.standing);
	free(late.list);
	free(again.list);
	return reported(s, status);
}

static void diagnose_close(struct bb_engine *engine)
{
	struct bb_examiner *s = (struct bb_examiner *)engine;

	for (int q = 0; q < BB_QUANTITIES; q++) {
		free(s->views[q].out);
		free(s->blocks[q].of);
	}
	free(s->verdicts.list);
	stage_free(&s->survey);
	stage_free(&s->confirm);
	for (int links = 0; links < 2; links++)
		stage_free(&s->alone[links]);
	free(s->ports.rank);
	free(s->places);
}

const struct bb_experiment bb_diagnose_experiment = {
	.bytes = sizeof(struct bb_examiner),
	.open = diagnose_open,
	.run = diagnose_run,
	.close = diagnose_close,
};

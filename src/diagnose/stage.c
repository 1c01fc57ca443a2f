/*
 * stage.c - measures rounds and steps, and collects the times of all ranks on rank 0.
 */
#include "diagnose/diagnose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
		bb_crew_delay(p->s->engine.driver, seconds);
}

/* ---- recording ------------------------------------------------------------------------------ */

static void round_record(void *own, int rank, size_t index, const struct bb_operation *o,
			 double from, double to, int source)
{
	struct stage_run *p = own;
	struct round_samples *a = &p->samples[rank - p->first];
	const int node = p->probe.ports->node[rank];
	const size_t last = 2 * (size_t)(BB_SMALL_REQUESTS + p->probe.large) - 1;
	const bool small = o->work == BB_PROBE_SMALL;
	int partner;
	bool is_requester;

	if (o->act != BB_ACT_SEND && o->act != BB_ACT_RECV)
		return;
	partner = p->probe.ports->node[o->peer];
	is_requester = (o->item % 2 == 0) == (node < partner);
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

		p->times[(size_t)(rank - p->first) * p->per_rank + round * BB_QUANTITIES +
			 (size_t)q] = a->n[q] > 0 && middle > 0 ? (float)log(middle) : NAN;
		a->n[q] = 0;
	}
}

static void step_record(void *own, int rank, size_t index, const struct bb_operation *o,
			double from, double to, int source)
{
	struct stage_run *p = own;

	if (o->act == BB_ACT_COLLECTIVE)
		p->times[(size_t)(rank - p->first) * p->per_rank + o->item] = (float)(to - from);
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* The faults that no backend has are planted in the program. */
static struct bb_planted plant(const struct bb_options *o)
{
	const struct bb_fault *fault = &o->fault;
	const bool link = fault->kind == BB_FAULT_SLOW_LINK, slow = fault->kind == BB_FAULT_SLOW;
	const bool virtual = o->backend->virtual;

	return (struct bb_planted){.rank = slow || fault->kind == BB_FAULT_LATE ? fault->rank : -1,
				   .send_s = slow ? fault->seconds : 0,
				   .late_s = fault->seconds,
				   .from = fault->rank,
				   .to = link ? fault->to : -1,
				   .back = !link,
				   .factor = o->virtual.flawed || (link && virtual) ? 0
										    : fault->factor,
				   .rate = o->config.link_rate,
				   .latency = o->config.link_latency};
}

/* Prepare to measure PER_RANK times of each rank. */
static bb_status stage_run_init(struct stage_run *p, struct bb_examiner *s, size_t per_rank)
{
	const bool virtual = bb_engine_is_virtual(&s->engine);
	const int large = 1 + (int)s->diagnose->options.large;
	const size_t each = (size_t)(large > BB_SMALL_REQUESTS ? large : BB_SMALL_REQUESTS);
	size_t n;

	*p = (struct stage_run){.s = s,
				.nranks = virtual ? s->engine.run->world.nranks : 1,
				.first = virtual ? 0 : s->engine.driver->rank,
				.per_rank = per_rank,
				.probe = {.ports = &s->ports,
					  .nranks = s->engine.run->world.nranks,
					  .planted = plant(&s->engine.run->options),
					  .bytes = (size_t)s->diagnose->options.bytes,
					  .large = large,
					  .steps = (int)s->diagnose->options.steps,
					  .work_s = BB_STEP_WORK_S}};
	n = (size_t)p->nranks;
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
	free((void *)(uintptr_t)p->probe.active);
	free(p->samples);
	free(p->room);
	free(p->times);
}

/* NAN: the rank was not in this round. */
static const struct bb_payload_field time_fields[] = {
	{"a time", BB_PAYLOAD_ANY, 0, sizeof(float), 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload time_table = {"a time", sizeof(float), time_fields, NULL};

/* Measure p->program once; RECORD gets this driver's operations. *SECONDS = the time of all; *ALL =
   what was recorded of all ranks, on rank 0, NULL elsewhere. */
static bb_status stage_run_measure(struct stage_run *p, const char *what,
				   void (*record)(void *own, int rank, size_t index,
						  const struct bb_operation *o, double from,
						  double to, int source),
				   double *seconds, const float **all)
{
	struct bb_engine *e = &p->s->engine;
	struct bb_trial trial = {.workload = {.program = &p->program, .compute = compute, .own = p},
				 .timing = BB_TIMING_STEPS,
				 .steps = 1,
				 .watch = {record, p}};
	const void *got = p->times;
	bb_status status;

	/* The gathers bring ranks together. What a slow link costs NCCL's may be unknown. */
	if (bb_engine_is_virtual(e) && e->run->options.config.slow_link.factor > 0)
		p->program.algorithm = BB_OWN "bruck";
	snprintf(trial.what, sizeof(trial.what), "%s", what);
	bb_engine_clear(e);
	BB_TRY(status, bb_engine_add(e, &trial, NULL), out);
	BB_TRY(status, bb_engine_measure(e), out);
	*seconds = e->trials[0].samples[0];
	if (!bb_engine_is_virtual(e))
		BB_TRY(status, bb_crew_collect(e->driver, &time_table, p->times, p->per_rank, &got),
		       out);
	*all = got;
out:
	return status;
}

/* Store ALL, which is rank by rank, in STAGE, round by round. */
static bb_status stage_store(struct bb_examiner *s, struct bb_diagnose_stage *stage,
			     const float *all)
{
	const size_t ports = (size_t)s->ports.nodes * (size_t)s->ports.rails;
	const size_t n = (size_t)stage->rounds.n * ports;

	for (int q = 0; q < BB_QUANTITIES; q++) {
		stage->log_s[q] = malloc((n + 1) * sizeof(float));
		stage->even[q] = malloc((n + 1) * sizeof(float));
		if (!stage->log_s[q] || !stage->even[q])
			return BB_EINTERNAL;
		for (size_t i = 0; i < n; i++) {
			const size_t round = i / ports, rank = (size_t)s->ports.rank[i % ports];

			stage->log_s[q][i] =
				all[(rank * (size_t)stage->rounds.n + round) * BB_QUANTITIES +
				    (size_t)q];
		}
		memcpy(stage->even[q], stage->log_s[q], n * sizeof(float));
		stage->measured[q] =
			(struct bb_quantity){&stage->rounds, s->ports.rails, stage->even[q],
					     bb_examiner_is_crowded(s) ? s->places : NULL};
	}
	return BB_OK;
}

bb_status bb_diagnose_stage_measure(struct bb_examiner *s, struct bb_diagnose_stage *stage,
				    const char *what)
{
	const float *all = NULL;
	struct stage_run p;
	bb_status status;

	if (s->pairs_at_once > 0) {
		if (bb_rounds_split(&stage->rounds, s->pairs_at_once) != BB_OK)
			return BB_EINTERNAL;
		stage->in_turn = true;
	}
	BB_TRY(status, stage_run_init(&p, s, (size_t)stage->rounds.n * BB_QUANTITIES), out);
	p.probe.rounds = &stage->rounds;
	p.probe.pause_s = stage->pause_s;
	p.probe.in_turn = stage->in_turn;
	p.probe.active = bb_probe_active(&stage->rounds, s->ports.rails);
	if (!p.probe.active) {
		status = BB_EINTERNAL;
		goto out;
	}
	bb_probe_rounds(&p.program, &p.probe);
	BB_TRY(status, stage_run_measure(&p, what, round_record, &stage->seconds, &all), out);
	if (all)
		status = stage_store(s, stage, all);
out:
	stage_run_close(&p);
	return status;
}

void bb_diagnose_stage_free(struct bb_diagnose_stage *stage)
{
	bb_rounds_free(&stage->rounds);
	for (int q = 0; q < BB_QUANTITIES; q++) {
		free(stage->log_s[q]);
		free(stage->even[q]);
	}
	memset(stage, 0, sizeof(*stage));
}

bb_status bb_diagnose_steps_measure(struct bb_examiner *s, float **waits)
{
	const size_t nranks = (size_t)s->engine.run->world.nranks,
		     steps = (size_t)s->diagnose->options.steps;
	const float *all = NULL;
	double seconds = 0;
	struct stage_run p;
	bb_status status;

	*waits = NULL;
	BB_TRY(status, stage_run_init(&p, s, steps), out);
	bb_probe_steps(&p.program, &p.probe);
	BB_TRY(status, stage_run_measure(&p, "steps", step_record, &seconds, &all), out);
	if (!all)
		goto out;
	s->step_s = seconds / (double)steps;
	*waits = malloc((steps * nranks + 1) * sizeof(**waits));
	if (!*waits) {
		status = BB_EINTERNAL;
		goto out;
	}
	for (size_t i = 0; i < steps * nranks; i++)
		(*waits)[i] = all[i % nranks * steps + i / nranks];
out:
	stage_run_close(&p);
	return status;
}

/*
 * deliver.c - the records of a stage.
 */
#include "core/clock.h"
#include "core/stats.h"
#include "training_kernels/zero/session.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CHECKSUM_TEXT 17

static double percent_off(double got, double wanted)
{
	return wanted > 0 ? 100 * (got - wanted) / wanted : NAN;
}

static void fill_subject(const struct bb_zero_session *s, const struct bb_zero_rank *z,
			 struct bb_zero_record *r)
{
	const struct bb_zero *zero = s->zero;

	r->model = zero->options.model_text;
	r->dtype = bb_dtype_name(zero->options.dtype);
	r->algorithm = z->has_peers ? zero->options.algo_text : NULL;
	r->overlap = zero->overlaps ? "on" : "off";
	r->nranks = zero->nranks;
	r->stage = z->stage;
	r->rank = z->rank;
	r->parameters = (int64_t)zero->units.elements;
	r->units = (int64_t)zero->units.n;
	r->padding = (int64_t)(z->places.whole - zero->units.elements);
	r->accumulate = zero->options.accumulate;
	r->steps = z->step;
	r->offload = zero->options.offload;
	r->alone = zero->alone;
}

static void fill_memory(const struct bb_zero_rank *z, struct bb_zero_record *r)
{
	const uint64_t n = z->stage == 0 ? 1 : (uint64_t)z->zero->nranks;
	const struct bb_states states =
		bb_states_of_rank(&z->zero->recipe, z->places.whole, 0, z->stage, n);
	const struct bb_usage *peak = &z->ledger.peak, *last = &z->ledger.now;
	int64_t *const peaks[BB_ZERO_POINTS] = {[BB_ZERO_MODEL] = &r->model_bytes,
						[BB_ZERO_WRAPPED] = &r->wrapped_bytes,
						[BB_ZERO_BEFORE] = &r->before_bytes,
						[BB_ZERO_AFTER] = &r->after_bytes};

	r->formula_parameters_bytes = (int64_t)states.parameters;
	r->formula_gradients_bytes = (int64_t)states.gradients;
	r->formula_optimizer_bytes = (int64_t)states.optimizer;
	r->formula_bytes = (int64_t)bb_states_sum(&states);
	r->parameters_bytes = (int64_t)peak->holds[BB_HOLD_PARAMETERS];
	r->gradients_bytes = (int64_t)peak->holds[BB_HOLD_GRADIENTS];
	r->optimizer_bytes = (int64_t)peak->holds[BB_HOLD_OPTIMIZER];
	r->communication_bytes = (int64_t)peak->holds[BB_HOLD_COMMUNICATION];
	r->held_bytes = (int64_t)bb_usage_held(peak);
	r->fragmentation_bytes = (int64_t)bb_usage_fragmentation(peak);
	r->reserved_bytes = (int64_t)peak->reserved;
	r->host_bytes = (int64_t)last->host;
	/* States that stay allocated, with offloaded ones. */
	r->states_error_percent = percent_off((double)(last->holds[BB_HOLD_PARAMETERS] +
						       last->holds[BB_HOLD_GRADIENTS] +
						       last->holds[BB_HOLD_OPTIMIZER] + last->host),
					      (double)r->formula_bytes);
	for (size_t i = 0; i < z->nmoments; i++)
		if (peaks[z->moments[i].point])
			*peaks[z->moments[i].point] = (int64_t)z->moments[i].peak;
}

/* Below this a few pages for any purpose exceed one percent. */
#define LEAST_BYTES (4 << 20)

static void fill_system(const struct bb_zero_session *s, const struct bb_zero_rank *z,
			const struct bb_zero_measured *m, struct bb_zero_record *r)
{
	if (m->system_at_first == BB_ABSENT || m->system_before == BB_ABSENT ||
	    m->system_after == BB_ABSENT)
		return;
	r->system_constant_bytes = m->system_before - m->system_at_first;
	r->system_bytes = m->system_after - m->system_before;
	r->system_reserved_bytes =
		(int64_t)z->ledger.now.reserved * (int64_t)s->engine.run->world.nlocal;
	if (r->system_reserved_bytes >= LEAST_BYTES)
		r->system_error_percent =
			percent_off((double)r->system_bytes, (double)r->system_reserved_bytes);
}

static void fill_traffic(const struct bb_zero_session *s, const struct bb_zero_rank *z,
			 struct bb_zero_record *r)
{
	const size_t size = bb_zero_size(z);
	const struct bb_zero_units *units = &s->zero->units;
	uint64_t elements = 0;

	if (s->zero->alone)
		return;
	for (size_t u = 0; u < units->n; u++)
		elements +=
			bb_zero_volume(units->list[u].elements, z->stage, (uint64_t)s->zero->nranks,
				       (uint64_t)s->zero->options.accumulate);
	r->wire_bytes = (int64_t)z->wire;
	r->formula_wire_bytes = (int64_t)(elements * size);
	r->wire_volumes = (double)z->wire / (double)(units->elements * size);
}

static double median_us(const struct bb_zero_measured *m, size_t n, size_t offset)
{
	struct bb_stats stats;

	for (size_t i = 0; i < n; i++)
		memcpy(&m->scratch[i], (const char *)&m->times[i] + offset, sizeof(double));
	bb_stats_compute(m->scratch, n, &stats);
	return 1e6 * stats.p50;
}

static void fill_times(const struct bb_zero_session *s, const struct bb_zero_measured *m,
		       struct bb_zero_record *r)
{
	const size_t n = m->timed;

	if (s->zero->alone)
		return;
#define MEDIAN(field) median_us(m, n, offsetof(struct bb_zero_times, field))
	r->step_us = MEDIAN(step);
	r->forward_us = MEDIAN(took[BB_ZERO_IN_FORWARD]);
	r->forward_wait_us = MEDIAN(waited[BB_ZERO_IN_FORWARD]);
	r->backward_us = MEDIAN(took[BB_ZERO_IN_BACKWARD]);
	r->backward_wait_us = MEDIAN(waited[BB_ZERO_IN_BACKWARD]);
	r->optimise_us = MEDIAN(took[BB_ZERO_IN_OPTIMIZER]);
	r->gather_us = MEDIAN(took[BB_ZERO_IN_GATHER]);
#undef MEDIAN
}

static bb_status deliver_moments(const struct bb_zero_session *s, const struct bb_zero_rank *z)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < z->nmoments && status == BB_OK; i++) {
		const struct bb_zero_moment *m = &z->moments[i];
		const bool layer = m->point == BB_ZERO_FORWARD || m->point == BB_ZERO_BACKWARD;
		const struct bb_zero_moment_record r = {
			.stage = z->stage,
			.moment = bb_zero_point_names[m->point],
			.item = layer ? (int64_t)m->item : BB_ABSENT,
			.parameters_bytes = (int64_t)m->now.holds[BB_HOLD_PARAMETERS],
			.gradients_bytes = (int64_t)m->now.holds[BB_HOLD_GRADIENTS],
			.optimizer_bytes = (int64_t)m->now.holds[BB_HOLD_OPTIMIZER],
			.communication_bytes = (int64_t)m->now.holds[BB_HOLD_COMMUNICATION],
			.held_bytes = (int64_t)bb_usage_held(&m->now),
			.fragmentation_bytes = (int64_t)bb_usage_fragmentation(&m->now),
			.reserved_bytes = (int64_t)m->now.reserved,
			.host_bytes = (int64_t)m->now.host,
			.peak_bytes = (int64_t)m->peak,
		};

		status = bb_sinks_record(&s->engine.run->sinks, &bb_record_zero_moment, &r);
	}
	return status;
}

static bb_status deliver_phases(const struct bb_zero_session *s, const struct bb_zero_record *r)
{
	struct bb_strbuf out = {0};
	bb_status status;

	bb_zero_text_phases(r, &out);
	if (bb_strbuf_failed(&out))
		status = bb_no_memory(&s->engine.run->error, "a line");
	else
		status = bb_sinks_comment(&s->engine.run->sinks, bb_strbuf_text(&out));
	bb_strbuf_free(&out);
	return status;
}

bb_status bb_zero_deliver(struct bb_zero_session *s, const struct bb_zero_rank *z,
			  const struct bb_zero_measured *m)
{
	char checksum[CHECKSUM_TEXT];
	struct bb_zero_record r;
	bb_status status;

	bb_record_init(&bb_record_zero, &r);
	fill_subject(s, z, &r);
	fill_memory(z, &r);
	fill_system(s, z, m, &r);
	fill_traffic(s, z, &r);
	fill_times(s, m, &r);
	if (bb_zero_trains(s->zero, s->engine.run)) {
		snprintf(checksum, sizeof(checksum), "%016llx",
			 (unsigned long long)m->sum.checksum);
		r.checksum = checksum;
		r.verified = s->has_reference ? "one rank alone" : "the first stage";
		r.wrong = (int64_t)m->sum.wrong;
		r.loss_scale = z->scale.scale;
		r.skipped = z->scale.skipped;
	}
	if (s->engine.run->options.check == 0) {
		r.verified = NULL;
		r.wrong = BB_ABSENT;
	}
	r.end_unix_s = bb_clock_unix();
	bb_ticker_hide(&s->engine.run->ticker);
	status = deliver_moments(s, z);
	if (status == BB_OK)
		status = bb_engine_deliver(&s->engine, &bb_record_zero, &r, r.wrong);
	return status == BB_OK && !s->zero->alone ? deliver_phases(s, &r) : status;
}

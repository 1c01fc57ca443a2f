/*
 * ddp_predict_data.c - a prediction as records.
 */
#include "training_kernels/ddp_predict.h"

#include "core/clock.h"

bb_status bb_prediction_open(struct bb_prediction *p)
{
	struct bb_run *run = p->run;
	struct bb_run_record *r = &run->record;

	bb_run_describe(run);
	r->nranks = p->nranks;
	r->algorithms = p->ddp->asked.algo_text;
	/* What only a run has. */
	r->min_bytes = r->max_bytes = r->step_factor = r->step_bytes = BB_ABSENT;
	r->warmup_iters = r->iters = r->check = BB_ABSENT;
	bb_record_init(&bb_record_end, &run->end);
	run->end.results = run->end.skipped = run->end.wrong = 0;
	/* One process of those that a launcher has started is enough. */
	if (run->environment.launch.proc > 0)
		return BB_OK;
	if (bb_sinks_open(&run->sinks, p->options, NULL, &bb_record_ddp, NULL, p->error) != BB_OK)
		return bb_error_status(p->error);
	return bb_sinks_begin(&run->sinks, &run->record);
}

static void describe_step(const struct bb_prediction *p, const struct bb_prediction_row *row,
			  bool overlap, struct bb_ddp_record *r)
{
	const struct bb_train_step *s = &row->steps[overlap];

	r->overlap = overlap ? "on" : "off";
	r->predicted_step_us = 1e6 * s->step_s;
	r->predicted_reduce_us = 1e6 * s->reduce_s;
	r->predicted_exposed_us = 1e6 * s->exposed_s;
	r->predicted_hidden = s->hidden;
	r->predicted_times_one = p->rows[BB_PREDICT_ONE].steps[overlap].step_s / s->step_s;
	r->predicted_times_tensor = p->rows[BB_PREDICT_TENSOR].steps[overlap].step_s / s->step_s;
	r->predicted_times_25M = p->rows[BB_PREDICT_DEFAULT].steps[overlap].step_s / s->step_s;
}

static void deliver(struct bb_prediction *p, const struct bb_ddp_record *r)
{
	p->run->end.results++;
	bb_sinks_record(&p->run->sinks, &bb_record_ddp, r);
}

bb_status bb_prediction_record(struct bb_prediction *p, const char *algorithm)
{
	const int asked = p->ddp->asked.overlap;
	struct bb_ddp_record r;

	bb_ddp_describe(p->ddp, p->nranks, &r);
	r.algorithm = algorithm;
	for (size_t i = 0; i < p->nrows; i++) {
		/* 25 MiB only where it is asked for. */
		if (i == BB_PREDICT_DEFAULT)
			continue;
		bb_ddp_describe_buckets(&r, &p->rows[i].buckets, p->rows[i].cap,
					p->rows[i].first_cap, p->computes ? p->ready : NULL,
					p->numbers);
		if (!algorithm)
			deliver(p, &r);
		for (int overlap = 1; overlap >= 0 && algorithm; overlap--) {
			if (asked == (overlap ? BB_OVERLAP_OFF : BB_OVERLAP_ON))
				continue;
			describe_step(p, &p->rows[i], overlap == 1, &r);
			deliver(p, &r);
		}
	}
	return p->run->sinks.status;
}

bb_status bb_prediction_skip(struct bb_prediction *p, const char *algorithm, const char *reason)
{
	struct bb_skip_record r;

	bb_record_init(&bb_record_skip, &r);
	r.collective = bb_all_reduce.name;
	r.algorithm = algorithm;
	r.reason = reason;
	p->run->end.skipped++;
	return bb_sinks_record(&p->run->sinks, &bb_record_skip, &r);
}

bb_status bb_prediction_end(struct bb_prediction *p, bb_status status)
{
	struct bb_end_record *end = &p->run->end;

	end->wall_s = bb_clock_now() - p->run->started;
	bb_time_text(end->end_time);
	end->verdict = status == BB_OK             ? "passed"
		       : status == BB_EUNSUPPORTED ? "nothing was run"
						   : "failed";
	end->exit_status = status;
	if (status != BB_OK)
		end->error = p->error->text;
	bb_sinks_end_data(&p->run->sinks, end);
	if (status == BB_OK)
		status = p->run->sinks.status;
	return status;
}

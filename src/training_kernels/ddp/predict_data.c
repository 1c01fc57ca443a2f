/*
 * predict_data.c - a prediction as records.
 */
#include "training_kernels/ddp/predict.h"

#include "training_kernels/shown.h"

bb_status bb_prediction_open(struct bb_prediction *p)
{
	return bb_shown_open(p->run, &bb_record_ddp, p->nranks, p->ddp->asked.algo_text);
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

bb_status bb_prediction_record(struct bb_prediction *p, const char *algorithm)
{
	const int asked = p->ddp->asked.overlap;
	struct bb_ddp_record r;
	bb_status status = BB_OK;

	bb_ddp_describe(p->ddp, p->nranks, &r);
	r.algorithm = algorithm;
	for (size_t i = 0; i < p->nrows && status == BB_OK; i++) {
		/* 25 MiB only where it is asked for. */
		if (i == BB_PREDICT_DEFAULT)
			continue;
		bb_ddp_describe_buckets(&r, &p->rows[i].buckets, p->rows[i].cap,
					p->rows[i].first_cap, p->computes ? p->ready : NULL,
					p->numbers);
		if (!algorithm)
			status = bb_shown_record(p->run, &bb_record_ddp, &r);
		for (int overlap = 1; overlap >= 0 && algorithm; overlap--) {
			if (asked == (overlap ? BB_OVERLAP_OFF : BB_OVERLAP_ON))
				continue;
			describe_step(p, &p->rows[i], overlap == 1, &r);
			status = bb_shown_record(p->run, &bb_record_ddp, &r);
		}
	}
	return status;
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

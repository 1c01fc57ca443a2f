#include "harness/run/estimate.h"

#include "core/clock.h"
#include "core/table.h"

bb_status bb_estimate_open(struct bb_run *run, const struct bb_record_kind *rows, int nranks,
			   const char *algorithms)
{
	struct bb_run_record *r = &run->record;

	bb_run_describe(run);
	r->nranks = nranks;
	r->algorithms = algorithms;
	r->min_bytes = r->max_bytes = r->step_factor = r->step_bytes = BB_ABSENT;
	r->warmup_iters = r->iters = r->check = BB_ABSENT;
	bb_record_init(&bb_record_end, &run->end);
	run->end.results = run->end.skipped = run->end.checked = run->end.wrong = 0;
	if (run->environment.launch.proc > 0)
		return BB_OK;
	if (bb_sinks_open(&run->sinks, &run->options, NULL, rows, NULL, &run->error) != BB_OK)
		return bb_error_status(&run->error);
	return bb_sinks_begin(&run->sinks, r);
}

bb_status bb_estimate_record(struct bb_run *run, const struct bb_record_kind *kind,
			     const void *record)
{
	run->end.results++;
	return bb_sinks_record(&run->sinks, kind, record);
}

bb_status bb_estimate_end(struct bb_run *run, struct bb_strbuf *out, bb_status status)
{
	struct bb_end_record *end = &run->end;

	end->wall_s = bb_clock_now() - run->started;
	bb_time_text(end->end_time);
	end->verdict = status == BB_OK             ? "passed"
		       : status == BB_EUNSUPPORTED ? "nothing was run"
						   : "failed";
	end->exit_status = status;
	if (status != BB_OK)
		end->error = run->error.text;
	bb_run_state(run, true);
	bb_sinks_end_data(&run->sinks, end);
	bb_run_forget(run);
	if (bb_options_stdout_taken(&run->options))
		bb_strbuf_clear(out);
	bb_strbuf_fold(out, 0, bb_fold_limit(stdout));
	return status == BB_OK ? run->sinks.status : status;
}

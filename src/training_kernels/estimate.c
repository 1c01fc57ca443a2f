#include "training_kernels/estimate.h"

#include "core/clock.h"
#include "core/table.h"
#include "core/units.h"

#include <string.h>

bb_status bb_estimate_room(struct bb_run *run, uint64_t bytes, const char *subject,
			   const char *data, const char *give)
{
	const uint64_t all = bytes * (uint64_t)run->world.nlocal;
	char need[BB_UNIT_TEXT], have[BB_UNIT_TEXT];

	if (all <= run->memory)
		return BB_OK;
	return bb_fail(&run->error, BB_EUNSUPPORTED,
		       "%s: %s take %s on %d rank%s, there is room for %s; give %s", subject, data,
		       bb_format_bytes(need, all), run->world.nlocal, bb_plural(run->world.nlocal),
		       bb_format_bytes(have, run->memory), give);
}

int bb_estimate_ranks(const struct bb_options *o, const struct bb_environment *environment)
{
	const int nprocs = environment->launch.nprocs;

	return (int)(o->threads * o->gpus) * (nprocs > 1 ? nprocs : 1);
}

const char *bb_estimate_noise(const struct bb_run *run)
{
	return run->record.virtual_time && isnan(run->record.link_noise) ? NULL : "95% confidence";
}

void bb_estimate_set_ranks(struct bb_options *o, const struct bb_environment *environment,
			   int64_t n)
{
	if (!o->threads_given && !o->gpus_given && environment->launch.nprocs <= 1 &&
	    o->backend->max_local > 1)
		o->gpus = n;
}

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
	run->end.results = run->end.skipped = run->end.wrong = 0;
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
	bb_sinks_end_data(&run->sinks, end);
	if (bb_options_stdout_taken(&run->options))
		bb_strbuf_clear(out);
	bb_strbuf_fold(out, 0, bb_fold_limit(stdout));
	return status == BB_OK ? run->sinks.status : status;
}

/*
 * conclude.c - the end of a run: verdict, end record and the last lines of text.
 */
#include "harness/run/run.h"

#include "backends/virtual.h"
#include "core/clock.h"

#include <sys/resource.h>

/* Returns the exit status; *VERDICT = its text. */
static int judge_run(struct bb_run *run, int caught, const char **verdict)
{
	const struct bb_end_record *end = &run->end;
	const bb_status measured = bb_error_status(&run->error);
	const char *gate = "below the gate";
	const bb_status judged = run->benchmark->judge ? run->benchmark->judge(run, &gate) : BB_OK;

	*verdict = "passed";
	if (caught) {
		*verdict = "interrupted";
		return 128 + caught;
	}
	if (measured == BB_EUNSUPPORTED && end->results == 0) {
		*verdict = "nothing was run";
		return BB_EUNSUPPORTED;
	}
	if (measured != BB_OK) {
		*verdict = measured == BB_ETIMEOUT ? "timed out" : "failed";
		return (int)measured;
	}
	if (end->wrong > 0) {
		*verdict = "wrong data";
		return BB_EDATA;
	}
	if (judged != BB_OK)
		*verdict = judged == BB_EBACKEND ? "could not judge" : gate;
	return (int)judged;
}

/* A run without a result is an error, even if nothing failed. */
static void require_results(struct bb_run *run)
{
	if (run->end.results > 0 || bb_error_status(&run->error) != BB_OK)
		return;
	if (bb_error_status(&run->nothing) != BB_OK)
		bb_fail(&run->error, BB_EUNSUPPORTED, "%s", run->nothing.text);
	else
		bb_fail(&run->error, BB_EUNSUPPORTED,
			"nothing that was requested can be run; the skipped lines say why");
}

static void sum_up(struct bb_run *run)
{
	if (run->begun && run->benchmark->sum_up && run->benchmark->sum_up(run) != BB_OK)
		(void)bb_no_memory(&run->error, "the comparison of results");
}

/* Writes the evaluators of the collectives in programs to BY, which the end record borrows, and to
   TEXT. The result of a single collective names its evaluator itself. */
static void report_evaluators(struct bb_run *run, struct bb_strbuf *by, struct bb_strbuf *text)
{
	const struct bb_virtual *virtual = run->options.backend->virtual;
	bool modelled;

	if (!(run->benchmark->queues || run->benchmark->programs) || !virtual || !run->context)
		return;
	modelled = virtual->summarize(run->context, by);
	if (by->length > 0)
		run->end.played_by = bb_strbuf_text(by);
	bb_strbuf_addf(text, "# Evaluated by: event simulation%s%s\n", by->length > 0 ? "; " : "",
		       bb_strbuf_text(by));
	if (modelled)
		bb_strbuf_add(text, "# The model ignores contention between concurrent collectives "
				    "and messages, except on shared rails\n");
}

/* Processor time and memory of this process. */
static void note_usage(struct bb_end_record *end)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return;
	end->processor_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	end->peak_memory_bytes = (int64_t)usage.ru_maxrss * 1024;
}

/* If the sinks have failed, only the exit status counts. */
int bb_run_conclude(struct bb_run *run, int caught)
{
	struct bb_end_record *end = &run->end;
	struct bb_strbuf text = {0}, by = {0};
	int status;

	end->wall_s = bb_clock_now() - run->started;
	note_usage(end);
	bb_time_text(end->end_time);
	if (!caught)
		require_results(run);
	sum_up(run);
	status = judge_run(run, caught, &end->verdict);
	end->exit_status = status;
	if (bb_error_status(&run->error) != BB_OK)
		end->error = run->error.text;
	if (run->begun) {
		report_evaluators(run, &by, &text);
		bb_run_counters_report(run, &text);
		/* The data first: a launcher may kill this process at any moment. */
		bb_sinks_end_data(&run->sinks, end);
		if (run->benchmark->tell)
			run->benchmark->tell(run, &text);
		if (text.length > 0)
			bb_sinks_comment(&run->sinks, bb_strbuf_text(&text));
		bb_sinks_end_text(&run->sinks, end);
	}
	end->played_by = NULL;
	bb_strbuf_free(&by);
	bb_strbuf_free(&text);
	/* A sink may have failed only now. */
	return status == 0 ? (int)run->sinks.status : status;
}

/*
 * conclude.c - the end of a run: verdict, end record and the last lines of text.
 */
#include "harness/run/health.h"

#include "backends/virtual.h"
#include "core/array.h"
#include "core/clock.h"
#include "core/table.h"
#include "core/units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Returns the exit status; *VERDICT = its text. */
static int judge_run(struct bb_run *run, int caught, const char **verdict)
{
	const struct bb_end_record *end = &run->end;
	const bb_status measured = bb_error_status(&run->error);
	const char *gate = "below the gate";
	const bb_status judged = run->benchmark->judge ? run->benchmark->judge(run, &gate) : BB_OK;
	const bool nothing = measured == BB_EUNSUPPORTED && end->results == 0;

	*verdict = caught                    ? "interrupted"
		   : nothing                 ? "nothing was run"
		   : measured == BB_ETIMEOUT ? "timed out"
		   : measured != BB_OK       ? "failed"
		   : end->wrong > 0          ? "wrong data"
		   : judged == BB_EBACKEND   ? "could not judge"
		   : judged != BB_OK         ? gate
					     : "passed";
	if (caught)
		return 128 + caught;
	if (measured != BB_OK)
		return (int)measured;
	return end->wrong > 0 ? BB_EDATA : (int)judged;
}

/* ---- what the run found, in words -------------------------------------------------------- */

void bb_run_answer(struct bb_run *run, const struct bb_strbuf *text, size_t from)
{
	bb_strbuf_add(&run->answers,
		      bb_strbuf_text(text) + (from < text->length ? from : text->length));
	bb_strbuf_add(&run->answers, "\n");
}

/* ---- the end ------------------------------------------------------------------------------ */

/* Completes the end record, whose verdict is set, with STATUS, and writes it for the data;
   CALCULATED: nothing was run. Its text borrows what forget frees. */
static void end_data(struct bb_run *run, int status, bool calculated)
{
	struct bb_end_record *end = &run->end;
	const struct bb_run_record *r = &run->record;
	struct bb_strbuf *out = &run->data; /* the outcome of the check of the data */
	char **answers = NULL, *rest;
	size_t n = 0, room = 0;

	for (char *line = run->answers.text ? strtok_r(run->answers.text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, "# ");
		if (*line && !BB_ARRAY_PUT(answers, n, room, line))
			(void)bb_no_memory(&run->error, "the answers of the run");
	}
	end->wall_s = bb_clock_now() - run->started;
	bb_time_text(end->end_time);
	end->exit_status = status;
	if (bb_error_status(&run->error) != BB_OK)
		end->error = run->error.text;
	if (end->wrong > 0)
		bb_strbuf_addf(out, "Wrong data in %lld of ", (long long)end->wrong);
	else if (end->checked > 0)
		bb_strbuf_add(out, "No wrong data in ");
	if (end->wrong == 0 && end->checked > 0 && end->checked < end->results)
		bb_strbuf_addf(out, "%lld of ", (long long)end->checked);
	bb_strbuf_addf(out, "%lld %s%s", (long long)end->results, calculated ? "record" : "result",
		       bb_plural(end->results));
	if (calculated)
		bb_strbuf_add(out, " calculated; nothing was run");
	else if (r->virtual_time)
		bb_strbuf_addf(out, " in virtual time, computed from %s%s%s%s%s",
			       r->cluster ? "--cluster " : "", r->cluster ? r->cluster : "",
			       r->link ? "--link " : "", r->link ? r->link : "",
			       r->calibrate ? " --calibrate" : "");
	else if (end->checked == 0)
		bb_strbuf_add(out, "; data was not checked");
	else if (end->checked < end->results)
		bb_strbuf_add(out, "; the others were not checked");
	if (r->fault)
		bb_strbuf_addf(out, ", with --fault %s", r->fault);
	if (end->skipped > 0)
		bb_strbuf_addf(out, "; %lld case%s skipped", (long long)end->skipped,
			       end->skipped == 1 ? " was" : "s were");
	end->data = out->length > 0 ? bb_strbuf_text(out) : NULL;
	end->answers = (struct bb_words){answers, n};
	bb_sinks_end_data(&run->sinks, end);
	end->answers.n = 0;
	free(answers);
}

static void forget(struct bb_run *run)
{
	run->end.data = NULL;
	bb_strbuf_free(&run->data);
	bb_strbuf_free(&run->answers);
}

bb_status bb_estimate_record(struct bb_run *run, const struct bb_record_kind *kind,
			     const void *record)
{
	run->end.results++;
	return bb_sinks_record(&run->sinks, kind, record);
}

bb_status bb_estimate_end(struct bb_run *run, struct bb_strbuf *out, bb_status status)
{
	run->end.verdict = status == BB_OK             ? "passed"
			   : status == BB_EUNSUPPORTED ? "nothing was run"
						       : "failed";
	end_data(run, status, true);
	forget(run);
	if (bb_options_stdout_taken(&run->options))
		bb_strbuf_clear(out);
	bb_strbuf_fold(out, 0, bb_fold_limit(stdout));
	return status == BB_OK ? run->sinks.status : status;
}

/* If the sinks have failed, only the exit status counts. */
int bb_run_conclude(struct bb_run *run, int caught)
{
	const struct bb_benchmark *benchmark = run->benchmark;
	struct bb_end_record *end = &run->end;
	const bool programs = benchmark->queues || benchmark->programs;
	struct bb_strbuf text = {0}, by = {0};
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		end->processor_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
		end->peak_memory_bytes = (int64_t)usage.ru_maxrss * 1024;
	}
	/* A run without a result is an error, even if nothing failed. */
	if (!caught && end->results == 0)
		bb_fail(&run->error, BB_EUNSUPPORTED, "%s",
			bb_error_status(&run->nothing) != BB_OK
				? run->nothing.text
				: "nothing that was requested can be run; the skipped lines say "
				  "why");
	if (run->begun && benchmark->sum_up && benchmark->sum_up(run) != BB_OK)
		(void)bb_no_memory(&run->error, "the comparison of results");
	if (bb_strbuf_failed(&run->answers))
		(void)bb_no_memory(&run->error, "the answers of the run");
	const int status = judge_run(run, caught, &end->verdict);
	if (run->begun) {
		const struct bb_virtual *virtual = run->options.backend->virtual;

		/* The result of a single collective names its evaluator itself. */
		if (programs && virtual && run->context) {
			const bool modelled = virtual->summarize(run->context, &by);

			end->evaluated_by = by.length > 0 ? bb_strbuf_text(&by) : NULL;
			bb_strbuf_addf(&text, "# Evaluated by: event simulation%s%s\n",
				       by.length > 0 ? "; " : "", bb_strbuf_text(&by));
			if (modelled)
				bb_strbuf_add(&text,
					      "# The model ignores contention between concurrent "
					      "collectives and messages, except on shared rails\n");
		}
		bb_run_counters_report(run, &text);
		if (benchmark->tell)
			benchmark->tell(run, &text);
		/* The data first: a launcher may kill this process at any moment. */
		end_data(run, status, run->options.predicts);
		if (text.length > 0)
			bb_sinks_comment(&run->sinks, bb_strbuf_text(&text));
		bb_sinks_end_text(&run->sinks, end);
	}
	forget(run);
	end->evaluated_by = NULL;
	bb_strbuf_free(&by);
	bb_strbuf_free(&text);
	/* A sink may have failed only now. */
	return status == 0 ? (int)run->sinks.status : status;
}

/*
 * record.c - what a row carries, one line a field, and the table that is printed.
 */
#include "core/units.h"
#include "harness/results/sink_table.h"
#include "harness/results/record_rows.h"
#include "training_kernels/data_parallel/data_parallel.h"

#include <stddef.h>
#include <stdio.h>

#define BB_RECORD bb_dp_record
static const struct bb_field way_fields[] = {
	ROW(STRING, way, "", "of doing the step"),
	ROW(INT, servers, "", "parameter servers; null: the way has none"),
	ROW(BOOL, colocated, "", "every worker is a server too"),
	ROW(STRING, server_does, "", "update parameters, or aggregate gradients; null: no server"),
	ROW(INT, nranks, "", "that take part, servers among them"),
	ROW(INT, workers, "", "ranks that compute gradients"),
	ROW(STRING, model, "", "whose gradients"),
	ROW(INT, parameters, "", "of the model"),
	ROW(INT, gradient_bytes, "bytes", "of all gradients: M"),
	ROW(STRING, dtype, "", "of gradients and parameters"),
	ROW(STRING, compute, "", "what computations stand for: --compute; real: --train"),
	ROW(DOUBLE, batch_us, "us", "forward and backward pass of a batch, as asked for"),
	ROW(INT, batches, "", "of a rank in a step"),
	ROW(INT, every, "", "steps from one averaging to the next; null: the way has none"),
	ROW(INT, program_steps, "", "steps that are played and timed in one"),
	ROW(STRING, algorithm, "", "of the collectives; null: there are none"),
	ROW(DOUBLE, step_us, "us", "a step until the last rank has done it: median"),
	ROW(DOUBLE, low_us, "us", "95% confidence interval of that median"),
	ROW(DOUBLE, high_us, "us", "its upper end"),
	ROW(DOUBLE, p95_us, "us", "95th percentile"),
	ROW(INT, samples, "", "playings that were timed; of --train: samples of a step"),
	ROW(DOUBLE, exposed_us, "us", "step_us less the batches: what communication adds"),
	ROW(DOUBLE, predicted_us, "us", "a step by the formula; null: no --link, or not a ring"),
	ROW(DOUBLE, error_percent, "%", "of the prediction: (predicted - measured) / measured"),
	ROW(STRING, formula, "", "of the prediction; docs/training.md has the letters"),
	ROW(DOUBLE, updates_per_s, "1/s", "updates of the parameters by all workers together"),
	ROW(INT, most_bytes, "bytes",
	    "parameters, gradients and sums that a root or server holds; where all ranks are "
	    "alike, each"),
	ROW(INT, worker_bytes, "bytes", "those that a worker holds; null: all are alike"),
	ROW(INT, wire_bytes, "bytes",
	    "that the busiest rank sends or receives in a step, whichever are more"),
	ROW(DOUBLE, port_busy, "fraction",
	    "of a step in which the busiest port is in use; null: --link has no port"),
	ROW(DOUBLE, speedup, "",
	    "batches per second over those of one rank that does nothing else"),
	ROW(DOUBLE, efficiency, "fraction", "speedup / nranks"),
	ROW(DOUBLE, staleness_mean, "updates",
	    "between a worker's parameters and its gradient; null: none can come between"),
	ROW(INT, staleness_most, "updates", "the most; 63: that, or more"),
	ROW(NUMBERS, staleness, "", "gradients by how many updates old they were, from 0 on"),
	ROW(INT, train_steps, "", "--train"),
	ROW(DOUBLE, loss, "", "of the trained model over all samples"),
	ROW(DOUBLE, apart, "", "the most that a parameter differs from those of one rank"),
	ROW(INT, wrong, "elements",
	    "parameters, summed gradients and losses whose bits differ from those of one rank with "
	    "all samples; null: not compared"),
	ROW(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_way = {"way",
					     "Of data-parallel training: a step done in one way.",
					     way_fields, sizeof(struct bb_dp_record)};

/* ---- the table ---------------------------------------------------------------------------- */

static void servers_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_dp_record *r = record;

	if (r->servers == BB_ABSENT)
		snprintf(text, BB_CELL_TEXT, "-");
	else if (r->colocated)
		snprintf(text, BB_CELL_TEXT, "all");
	else
		snprintf(text, BB_CELL_TEXT, "%lld", (long long)r->servers);
}

static void about(const void *record, struct bb_strbuf *out)
{
	const struct bb_dp_record *r = record;
	char batch[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %lld parameters, M = %.3f MiB of gradients (%s)\n", r->model,
		       (long long)r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	if (r->train_steps != BB_ABSENT) {
		bb_strbuf_addf(
			out,
			"# Trained for %lld steps of %lld samples; nothing is timed. #wrong: "
			"bits unlike one rank's with all samples\n",
			(long long)r->train_steps, (long long)r->samples);
		return;
	}
	bb_strbuf_addf(out, "# A batch: forward and backward %s (%s)",
		       bb_format_duration(batch, 1e-6 * r->batch_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %lld batches a step", (long long)r->batches);
	bb_strbuf_add(out, "\n# k: servers, all: every worker is one. root: memory of a root or "
			   "server, worker: of the others. wire: of the busiest rank\n");
}

#define MS(head_, width_, field_)                                                                  \
	{                                                                                          \
		.head = head_, .unit = "(ms)", .width = width_, .field = field_, .scale = 1e-3,    \
		.decimals = 3                                                                      \
	}
#define MIB(head_, width_, field_)                                                                 \
	{                                                                                          \
		.head = head_, .unit = "(MiB)", .width = width_, .field = field_,                  \
		.scale = 1.0 / (1 << 20), .decimals = 2                                            \
	}

static const struct bb_column columns[] = {
	{.head = "way", .width = -8, .field = "way"},
	{.head = "k", .width = 4, .cell = servers_cell},
	{.head = "ranks", .width = 5, .field = "nranks"},
	MS("step", 10, "step_us"),
	MS("exposed", 10, "exposed_us"),
	MS("formula", 10, "predicted_us"),
	{.head = "error", .unit = "(%)", .width = 6, .field = "error_percent", .decimals = 2},
	{.head = "updates", .unit = "(1/s)", .width = 8, .field = "updates_per_s", .decimals = 2},
	{.head = "speedup", .width = 7, .field = "speedup", .decimals = 3},
	{.head = "effic.",
	 .unit = "(%)",
	 .width = 6,
	 .field = "efficiency",
	 .scale = 100,
	 .decimals = 1},
	MIB("root", 9, "most_bytes"),
	MIB("worker", 9, "worker_bytes"),
	MIB("wire", 9, "wire_bytes"),
	{.head = "loss", .width = 9, .field = "loss", .decimals = 6},
	{.head = "apart", .width = 8, .field = "apart", .decimals = 6},
	{.head = "#wrong", .width = 6, .field = "wrong"},
	{.head = NULL},
};

static const struct bb_table table = {&bb_record_way, columns, about};

bb_status bb_dp_text_open(struct bb_sink **sink, FILE *file, const char *path)
{
	return bb_sink_table_open(sink, file, path, &table);
}

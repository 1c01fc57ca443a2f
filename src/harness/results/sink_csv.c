/*
 * sink_csv.c - tidy CSV: one row for each record of the kind that it holds.
 */
#include "harness/results/sink.h"

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	bb_record_csv_header(&sink->out, sink->rows);
	return bb_sink_write(sink, &sink->out);
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	if (kind != sink->rows)
		return BB_OK;
	bb_record_csv_row(&sink->out, kind, sink->run->run_id, r);
	return bb_sink_write(sink, &sink->out);
}

static const struct bb_sink_ops csv_ops = {.begin = begin, .record = record};

bb_status bb_sink_csv_open(struct bb_sink **sink, FILE *file, const char *path)
{
	*sink = bb_sink_new(sizeof(struct bb_sink), &csv_ops, file, path);
	return *sink ? BB_OK : BB_EINTERNAL;
}

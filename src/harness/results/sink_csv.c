/*
 * sink_csv.c - tidy CSV: one row for each record of the kind that it holds.
 */
#include "harness/results/sink.h"

struct csv {
	struct bb_sink sink;
	struct bb_strbuf row;
};

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct csv *csv = (struct csv *)sink;

	bb_record_csv_header(&csv->row, sink->rows);
	return bb_sink_write(sink, &csv->row);
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	struct csv *csv = (struct csv *)sink;

	if (kind != sink->rows)
		return BB_OK;
	bb_record_csv_row(&csv->row, kind, sink->run->run_id, r);
	return bb_sink_write(sink, &csv->row);
}

static void release(struct bb_sink *sink)
{
	bb_strbuf_free(&((struct csv *)sink)->row);
}

static const struct bb_sink_ops csv_ops = {.begin = begin, .record = record, .release = release};

bb_status bb_sink_csv_open(struct bb_sink **sink, FILE *file, const char *path)
{
	*sink = bb_sink_new(sizeof(struct csv), &csv_ops, file, path);
	return *sink ? BB_OK : BB_EINTERNAL;
}

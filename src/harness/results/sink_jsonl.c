/*
 * sink_jsonl.c - every record as one line of JSON.
 */
#include "harness/results/sink.h"

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	bb_record_json(&sink->out, kind, sink->run->run_id, r);
	bb_strbuf_add(&sink->out, "\n");
	return bb_sink_write(sink, &sink->out);
}

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	return record(sink, &bb_record_run, run);
}

static bb_status end(struct bb_sink *sink, const struct bb_end_record *r)
{
	return record(sink, &bb_record_end, r);
}

static const struct bb_sink_ops jsonl_ops = {.begin = begin, .record = record, .end = end};

bb_status bb_sink_jsonl_open(struct bb_sink **sink, FILE *file, const char *path)
{
	*sink = bb_sink_new(sizeof(struct bb_sink), &jsonl_ops, file, path);
	return *sink ? BB_OK : BB_EINTERNAL;
}

/*
 * record.c - what the record of a layer of experts carries, and the table that it is printed
 * as.
 */
#include "core/units.h"
#include "harness/results/sink_table.h"
#include "harness/results/record_rows.h"
#include "training_kernels/moe/moe.h"

#define BB_RECORD bb_moe_record
static const struct bb_field fields[] = {
	ROW(INT, nranks, "", "that experts are divided among"),
	ROW(INT, experts, "", "of the layer"),
	ROW(INT, top_k, "", "experts that a token goes through"),
	ROW(INT, hidden, "", "numbers of a token"),
	ROW(INT, tokens, "", "of each rank"),
	ROW(STRING, dtype, "", "of tokens"),
	ROW(DOUBLE, skew, "", "exponent of Zipf's law that the experts' shares follow"),
	ROW(DOUBLE, capacity, "", "of an expert, in even shares; 0: without limit"),
	ROW(INT, dropped_rows, "", "of each rank"),
	ROW(DOUBLE, dropped_share, "fraction", "of all rows"),
	ROW(INT, busiest, "", "the rank that most rows come to"),
	ROW(DOUBLE, imbalance, "", "its rows, in means of all ranks"),
	ROW(INT, sent_bytes, "bytes", "that a rank's rows are, before any are dropped"),
	ROW(INT, busiest_bytes, "bytes", "that come to the busiest rank from others in a dispatch"),
	ROW(INT, mean_bytes, "bytes", "that come to a rank, in the mean"),
	ROW(DOUBLE, counts_us, "us",
	    "exchange of counts alone: median, until the last rank is done"),
	ROW(DOUBLE, dispatch_us, "us", "dispatch alone, likewise"),
	ROW(DOUBLE, combine_us, "us", "combine alone, likewise"),
	ROW(DOUBLE, layer_us, "us", "counts, dispatch, experts and combine, likewise"),
	ROW(DOUBLE, low_us, "us", "95% confidence interval of that median"),
	ROW(DOUBLE, high_us, "us", "its upper end"),
	ROW(INT, samples, "", "layers that were timed"),
	ROW(STRING, compute, "", "what experts stood for: --compute; null: they compute nothing"),
	ROW(DOUBLE, dispatch_GBps, "GB/s", "busiest_bytes / dispatch_us"),
	ROW(DOUBLE, dispatch_mean_GBps, "GB/s", "mean_bytes / dispatch_us"),
	ROW(DOUBLE, combine_GBps, "GB/s", "busiest_bytes / combine_us"),
	ROW(DOUBLE, times_even, "",
	    "dispatch_us, in that of a skew of 0; null: that was not asked for"),
	ROW(DOUBLE, expected_times_even, "", "busiest_bytes, likewise"),
	ROW(INT, wrong, "elements", "of rows and counts, at experts and back; null: not looked at"),
	ROW(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC"),
	{.name = NULL},
};

const struct bb_record_kind bb_record_moe = {
	"experts", "Of expert parallelism: a layer of experts under one load.", fields,
	sizeof(struct bb_moe_record)};

static void about(const void *record, struct bb_strbuf *out)
{
	const struct bb_moe_record *r = record;

	bb_strbuf_addf(out,
		       "# %lld expert%s on %lld rank%s; %lld tokens of each rank through %lld "
		       "expert%s each, "
		       "%lld numbers of %s: %.3f MB a rank\n",
		       (long long)r->experts, bb_plural(r->experts), (long long)r->nranks,
		       bb_plural(r->nranks), (long long)r->tokens, (long long)r->top_k,
		       bb_plural(r->top_k), (long long)r->hidden, r->dtype,
		       1e-6 * (double)r->sent_bytes);
	if (r->capacity > 0)
		bb_strbuf_addf(out, "# an expert takes at most %g times its even share\n",
			       r->capacity);
}

#define US(head_, field_)                                                                          \
	{                                                                                          \
		.head = head_, .unit = "(us)", .width = 10, .field = field_, .decimals = 2         \
	}
#define RATE(head_, field_)                                                                        \
	{                                                                                          \
		.head = head_, .unit = "(GB/s)", .width = 9, .field = field_, .decimals = 3        \
	}

static const struct bb_column columns[] = {
	{.head = "skew", .width = 5, .field = "skew", .decimals = 2},
	{.head = "dropped",
	 .unit = "(%)",
	 .width = 7,
	 .field = "dropped_share",
	 .scale = 100,
	 .decimals = 2},
	{.head = "busiest", .unit = "(times)", .width = 7, .field = "imbalance", .decimals = 3},
	{.head = "receives",
	 .unit = "(MB)",
	 .width = 9,
	 .field = "busiest_bytes",
	 .scale = 1e-6,
	 .decimals = 3},
	US("counts", "counts_us"),
	US("dispatch", "dispatch_us"),
	US("combine", "combine_us"),
	US("layer", "layer_us"),
	RATE("dispatch", "dispatch_GBps"),
	RATE("mean", "dispatch_mean_GBps"),
	RATE("combine", "combine_GBps"),
	{.head = "even", .unit = "(times)", .width = 7, .field = "times_even", .decimals = 3},
	{.head = "bytes",
	 .unit = "(times)",
	 .width = 7,
	 .field = "expected_times_even",
	 .decimals = 3},
	{.head = "#wrong", .width = 6, .field = "wrong"},
	{.head = NULL},
};

static const struct bb_table table = {&bb_record_moe, columns, about};

bb_status bb_moe_text_open(struct bb_sink **sink, FILE *file, const char *path)
{
	return bb_sink_table_open(sink, file, path, &table);
}

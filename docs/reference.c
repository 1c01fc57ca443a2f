/*
 * reference.c - writes the pages of docs/ that follow from tables in the code: options, records,
 * algorithms.
 */
#include "core/about.h"
#include "diagnose/diagnose.h"
#include "collectives/collective.h"
#include "collectives/summary.h"
#include "harness/results/record.h"
#include "harness/run/health.h"
#include "memory/bandwidth/bandwidth.h"
#include "p2p/pairs.h"
#include "schedules/explain.h"
#include "schedules/matrices.h"
#include "schedules/schedule.h"
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/hybrid/hybrid.h"
#include "training_kernels/moe/moe.h"
#include "training_kernels/quantised/quantised.h"
#include "training_kernels/pipeline/pipeline.h"
#include "training_kernels/tensor/tensor.h"
#include "training_kernels/zero/zero.h"

#include <stdio.h>
#include <string.h>

/* ---- docs/options.md --------------------------------------------------------------------- */

static const char introduction[] =
	"# Options\n\n"
	"An option that nccl-tests has too has the same name and form here. `--help` prints the "
	"most used options of a program and two examples, `--help-all` every option, "
	"`--help-markdown` the tables of this page. Of an option given twice the last value "
	"counts. One difference is deliberate: without `-i` or `-f` the size doubles from row to "
	"row.\n";

static const char variables_and_statuses[] =
	"\n## Environment\n\n"
	"| Variable | Meaning |\n"
	"| --- | --- |\n"
	"| `NCCL_ALGO` | `Ring` or `Tree`: the algorithm without `--algo` |\n"
	"| `NCCL_TESTS_SPLIT` | `AND`, `OR`, `MOD`, `DIV` (or `&`, `\\|`, `%`, `/`) and a number: "
	"ranks with the same result form a group; all groups run at the same time. `+S%N` before "
	"it counts rank r as (r + S) % N |\n"
	"| `NCCL_TESTS_SPLIT_MASK` | a hexadecimal number: the same with `AND`; it overrides "
	"`NCCL_TESTS_SPLIT` |\n"
	"| `NCCL_TESTS_MIN_BW` | GB/s: the run fails (exit 7) when the average busbw is below 0.9 "
	"of "
	"it |\n"
	"| `NCCL_TESTS_ALLTOALLV_SPREAD` | 0 to 1: how uneven alltoallv is; 0 is even |\n"
	"| `NCCL_TESTS_ALLTOALLV_MATRIX_FILE`, `NCCL_TESTS_ALLTOALLV_MATRIX_SCALE` | as `--matrix` "
	"and `--matrix-scale`, see [numbers.md](numbers.md#matrices-of-alltoallv) |\n"
	"| `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, `LOCAL_RANK` | as torchrun sets "
	"them: several processes connect by them without MPI, see [launch.md](launch.md) |\n"
	"| `BUSBENCH_PORT` | port on which process 0 then listens (default: `MASTER_PORT` + 1) |\n"
	"| `BUSBENCH_SECRET` | at least 16 bytes, the same for all processes: each proves that it "
	"knows them before it may join, see [launch.md](launch.md) |\n"
	"| `BUSBENCH_ISA` | `plain`, `avx2` or `avx512`: vector instructions of ranks on CPUs "
	"(default: the widest that the processor has) |\n"
	"| `BUSBENCH_BACKEND_DIR` | absolute path of a folder with backends, searched after "
	"`backends` beside the binary and `../lib/busbench` from there |\n"
	"\nnccl-tests' `NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY` is not supported: alltoallv refuses to "
	"run with it (exit 5).\n"
	"\n## Exit status\n\n"
	"| Status | Meaning |\n"
	"| --- | --- |\n"
	"| 0 | passed |\n"
	"| 1 | internal error, or writing an output failed (a full disk) |\n"
	"| 2 | the request makes no sense, or names a file that cannot be written |\n"
	"| 3 | the backend, the hardware or a rank is not usable |\n"
	"| 4 | timed out |\n"
	"| 5 | nothing that was requested is supported |\n"
	"| 7 | wrong data, or below a gate |\n";

static const struct {
	const char *title;
	const struct bb_option *rows; /* NULL: those of BENCHMARK */
	const struct bb_benchmark *benchmark;
} sections[] = {
	{"All programs", bb_option_rows, NULL},
	{"All programs, about themselves", bb_about_rows, NULL},
	{"All programs whose data has a size to be chosen", bb_size_rows, NULL},
	{"Collectives", bb_collective_rows, NULL},
	{"barrier_perf", NULL, &bb_barrier_benchmark},
	{"p2p_bandwidth_perf", NULL, &bb_bandwidth_benchmark},
	{"p2p_latency_perf", NULL, &bb_latency_benchmark},
	{"mem_bandwidth_perf", NULL, &bb_memory_benchmark},
	{"ddp_bucket_perf", NULL, &bb_ddp_benchmark},
	{"pipeline_perf", NULL, &bb_pipeline_benchmark},
	{"tensor_parallel_perf", NULL, &bb_tensor_benchmark},
	{"hybrid_parallel_perf", NULL, &bb_hybrid_benchmark},
	{"moe_alltoall_perf", NULL, &bb_moe_benchmark},
	{"quantised_all_reduce_perf", NULL, &bb_quantised_benchmark},
	{"zero_perf", NULL, &bb_zero_benchmark},
	{"data_parallel_perf", NULL, &bb_dp_benchmark},
	{"diagnose", NULL, &bb_diagnose_benchmark},
};

static void write_options(struct bb_strbuf *out)
{
	const struct bb_option *rows;

	bb_strbuf_add(out, introduction);
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		bb_strbuf_addf(out, "\n## %s\n\n", sections[i].title);
		rows = sections[i].rows ? sections[i].rows : sections[i].benchmark->options;
		bb_options_markdown(&(struct bb_option_table){.rows = rows}, out);
	}
	bb_strbuf_add(out, variables_and_statuses);
}

/* ---- docs/records.md --------------------------------------------------------------------- */

static void write_records(struct bb_strbuf *out)
{
	static const struct bb_record_kind *const kinds[] = {
		&bb_record_run,         &bb_record_result,
		&bb_record_arrival,     &bb_record_winner,
		&bb_record_crossing,    &bb_record_schedule,
		&bb_record_message,     &bb_record_accuracy,
		&bb_record_barrier,     &bb_record_pair,
		&bb_record_finding,     &bb_record_ddp,
		&bb_record_pipeline,    &bb_record_pass,
		&bb_record_tensor,      &bb_record_tensor_equality,
		&bb_record_hybrid_plan, &bb_record_hybrid,
		&bb_record_moe,         &bb_record_quantised,
		&bb_record_zero,        &bb_record_zero_moment,
		&bb_record_strategy,    &bb_record_node,
		&bb_record_culprit,     &bb_record_pair_round,
		&bb_record_gpu,         &bb_record_counter,
		&bb_record_skip,        &bb_record_end};

#define NAME(kind, type, name) [BB_FIELD_##kind] = name,
	static const char *const types[] = {BB_FIELD_KINDS(NAME)[BB_FIELD_TEXT] = "string"};
#undef NAME

	bb_strbuf_addf(
		out,
		"# Records\n\n"
		"`--json FILE` writes every record as one line of JSON that begins with "
		"`schema` (%d), `kind` and `run_id`; `--csv FILE` writes the measured records "
		"(`result` for a collective), one row each, with semicolons between the numbers "
		"of an array. An unknown value is `null` in JSON and an empty cell in CSV. "
		"Units are in the names; GB is 10^9 bytes.\n\n"
		"A schema number promises that every field keeps its name, type, unit and meaning, "
		"and every kind of record its fields. New fields and kinds may come without a new "
		"number, so a reader ignores those that it does not know. A field that is renamed, "
		"removed or redefined raises the number, and the changelog names it; the report "
		"refuses files of a number that it does not know. The order of fields in JSON and "
		"of "
		"columns in CSV promises nothing: read CSV by its header.\n\n"
		"Schema 2: `topology_digest` of a run is gone; its `topology` says the same.\n\n"
		"Schema 3: kind `cost` is gone. Kinds `way`, `experts` and `meeting` are "
		"`strategy`, "
		"`moe` and `pair_round`; fields `way` are `strategy` (data_parallel_perf) and "
		"`scheme` "
		"(tensor_parallel_perf); `played_by` of the end is `evaluated_by`, and the source "
		"`played` of pipelines is `simulated`. Reports read all three.\n",
		BB_SCHEMA);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		bb_strbuf_addf(out,
			       "\n## %s\n\n%s\n\n| field | type | unit | meaning |\n"
			       "| --- | --- | --- | --- |\n",
			       kinds[i]->name, kinds[i]->brief);
		for (const struct bb_field *field = kinds[i]->fields; field->name; field++) {
			bb_strbuf_addf(out, "| `%s` | %s | %s | ", field->name, types[field->type],
				       field->unit);
			bb_strbuf_markdown(out, field->help);
			bb_strbuf_add(out, " |\n");
		}
	}
}

/* ---- docs/algorithms.md ------------------------------------------------------------------ */

#define PER_RANK 840 /* elements; a multiple of RANKS */
#define RANKS 8      /* for which volumes are given */

static struct bb_shape page_shape(const struct bb_collective *collective, int n, size_t *matrix)
{
	struct bb_shape shape = {.nranks = n, .count = PER_RANK};

	if (collective->flags & BB_VARIABLE) {
		bb_alltoallv_matrix(matrix, n, PER_RANK, 1.0);
		shape.matrix = matrix;
	}
	return shape;
}

static void add_row(struct bb_strbuf *out, const struct bb_algorithm *algorithm)
{
	static const int ranks[] = {4, RANKS, 13, 64};
	const struct bb_collective *collective = algorithm->collective;
	size_t matrix[64 * 64], rounds, wire;
	struct bb_shape shape;
	double cost, size;

	bb_strbuf_addf(out, "| `%s` | %s |", algorithm->name, algorithm->meaning);
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		struct bb_role role;

		shape = page_shape(collective, ranks[i], matrix);
		if (collective->refuses && collective->refuses(ranks[i])) {
			bb_strbuf_add(out, " – |");
			continue;
		}
		bb_algorithm_prepare(algorithm, &shape, 0, &role);
		bb_strbuf_addf(out, " %zu |", role.rounds);
	}
	shape = page_shape(collective, RANKS, matrix);
	cost = bb_algorithm_cost(algorithm, &shape, &rounds, &wire);
	size = (double)bb_size_count(collective, &shape);
	bb_strbuf_addf(out, " %.3g | %.3g |\n", (double)wire / size, cost / size);
}

/* The pictures of COLLECTIVE's algorithms, which scripts/rounds.py draws. */
static void add_pictures(struct bb_strbuf *out, const struct bb_collective *collective)
{
	for (int i = 0; bb_algorithms[i]; i++) {
		const char *name = bb_algorithms[i]->name;

		if (bb_algorithms[i]->collective == collective)
			bb_strbuf_addf(out, "\n![%s by %s, round by round](algorithms/%s-%s.svg)\n",
				       collective->name, name, collective->name, name);
	}
}

static void write_algorithms(struct bb_strbuf *out)
{
	const struct bb_collective *previous = NULL;

	bb_strbuf_addf(
		out,
		"# What the algorithms mean for each collective\n\n"
		"`ring` and `tree` exist for every collective (hypercube is its own); the others "
		"where they make sense. `NAME_perf --explain -g 4` prints one round by round, and "
		"a [report](reports.md) of its `--json` draws it.\n\n"
		"n is the number of ranks. *Rounds* are those of a call that is not cut into "
		"chunks, for n = 4, %d, 13 and 64. *Sent* is the most that one rank sends and "
		"*traffic* what all ranks together move in memory, both for n = %d out of place "
		"as multiples of the size that is printed: an element copied is 1, one that is "
		"received and added 1.5, two added at once 2.\n\n"
		"With chunks of c elements, `ring` and `tree` take more rounds with smaller "
		"messages. Where every rank handles one block in every round (all_reduce, "
		"all_gather, reduce_scatter, gather, scatter, alltoall by `ring`) the call becomes "
		"calls that follow each other without a pause, with c elements a block. A chain "
		"(broadcast, reduce by `ring`) of C chunks takes C + n - 2 rounds; the double tree "
		"of depth D = ceil(log2 n) takes C + D - 1 rounds up or down and C + 2D - 1 for "
		"all_reduce, C being the chunks of half of the data.\n\n"
		"In place, alltoall, alltoallv and sendrecv first copy their input aside, as IN "
		"and OUT are the same memory; naive all_reduce and some cases of recursive "
		"doubling do, too.\n\n"
		"In the pictures an arrow is a message, its colour the part of the data that it "
		"moves, and the text its content: `c0+c3` is the sum of element 2 of ranks 0 and "
		"3, `a-d 1..3` that of elements 0 to 3 of ranks 1 to 3. A solid arrow is added to "
		"what the receiver has, a dashed one replaces it; where nothing is added, all are "
		"solid. Copies within a rank are left out.\n\n"
		"This page is generated from the source; a test compares the two.\n",
		RANKS, RANKS);
	for (int i = 0; bb_algorithms[i]; i++) {
		const struct bb_collective *collective = bb_algorithms[i]->collective;

		if (collective != previous)
			bb_strbuf_addf(
				out,
				"\n## %s\n\n%c%s.\n\n"
				"| algorithm | meaning | rounds, n = 4 | %d | 13 | 64 | sent | "
				"traffic |\n"
				"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
				collective->name, collective->brief[0] - 'a' + 'A',
				collective->brief + 1, RANKS);
		previous = collective;
		add_row(out, bb_algorithms[i]);
		if (!bb_algorithms[i + 1] || bb_algorithms[i + 1]->collective != collective)
			add_pictures(out, collective);
	}
}

static const struct {
	const char *name;
	void (*write)(struct bb_strbuf *out);
} pages[] = {
	{"options", write_options},
	{"records", write_records},
	{"algorithms", write_algorithms},
};

int main(int argc, char **argv)
{
	struct bb_strbuf out = {0};
	bool written = false;

	for (size_t i = 0; argc == 2 && i < sizeof(pages) / sizeof(pages[0]); i++) {
		if (strcmp(argv[1], pages[i].name) == 0) {
			pages[i].write(&out);
			written = !bb_strbuf_failed(&out) &&
				  fputs(bb_strbuf_text(&out), stdout) >= 0 && fflush(stdout) == 0;
		}
	}
	bb_strbuf_free(&out);
	if (!written)
		fprintf(stderr, "usage: reference options|records|algorithms\n");
	return written ? 0 : 1;
}

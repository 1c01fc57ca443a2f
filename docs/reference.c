/*
 * reference.c - writes the pages of docs/ that follow from tables in the code: options, records,
 * algorithms.
 */
#include "collectives/barrier.h"
#include "core/about.h"
#include "diagnose/diagnose.h"
#include "collectives/collective.h"
#include "collectives/explanation.h"
#include "collectives/compare.h"
#include "harness/results/record.h"
#include "harness/run/run_counters.h"
#include "harness/run/run_gpus.h"
#include "memory/bandwidth/bandwidth.h"
#include "p2p/pairs.h"
#include "schedules/explain.h"
#include "training_kernels/data_parallel/data_parallel.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/hybrid/hybrid.h"
#include "training_kernels/moe/moe.h"
#include "training_kernels/pipeline/pipeline.h"
#include "training_kernels/tensor/tensor.h"
#include "training_kernels/zero/zero.h"

#include <stdio.h>
#include <string.h>

static const struct bb_option_section sections[] = {
	{"All programs", bb_option_rows},
	{"All programs, about themselves", bb_about_rows},
	{"All programs whose data has a size to be chosen", bb_size_rows},
	{"Collectives", bb_collective_rows},
	{"barrier_perf", bb_barrier_rows},
	{"p2p_bandwidth_perf", bb_bandwidth_rows},
	{"p2p_latency_perf", bb_latency_rows},
	{"mem_bandwidth_perf", bb_memory_rows},
	{"ddp_bucket_perf", bb_ddp_rows},
	{"pipeline_perf", bb_pipeline_rows},
	{"tensor_parallel_perf", bb_tensor_rows},
	{"hybrid_parallel_perf", bb_hybrid_rows},
	{"moe_alltoall_perf", bb_moe_rows},
	{"zero_perf", bb_zero_rows},
	{"data_parallel_perf", bb_dp_rows},
	{"diagnose", bb_diagnose_rows},
	{NULL, NULL},
};

static void write_options(struct bb_strbuf *out)
{
	bb_options_document(sections, out);
}

static void write_records(struct bb_strbuf *out)
{
	static const struct bb_record_kind *const kinds[] = {
		&bb_record_run,         &bb_record_result,
		&bb_record_arrival,     &bb_record_winner,
		&bb_record_schedule,    &bb_record_message,
		&bb_record_barrier,     &bb_record_pair,
		&bb_record_finding,     &bb_record_ddp,
		&bb_record_pipeline,    &bb_record_pass,
		&bb_record_tensor,      &bb_record_tensor_equality,
		&bb_record_hybrid_plan, &bb_record_hybrid,
		&bb_record_moe,         &bb_record_zero,
		&bb_record_zero_moment, &bb_record_strategy,
		&bb_record_node,        &bb_record_culprit,
		&bb_record_meeting,     &bb_record_gpu,
		&bb_record_counter,     &bb_record_skip,
		&bb_record_end,         NULL};

	bb_record_markdown(out, kinds);
}

static const struct {
	const char *name;
	void (*write)(struct bb_strbuf *out);
} pages[] = {
	{"options", write_options},
	{"records", write_records},
	{"algorithms", bb_document_algorithms},
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

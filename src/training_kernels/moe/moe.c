/*
 * moe.c - the descriptor of the benchmark of expert parallelism.
 */
#include "training_kernels/moe/moe.h"

#include "training_kernels/estimate.h"

#include <stdio.h>
#include <stdlib.h>

static void moe_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "published models (--preset):\n");
	for (const struct bb_moe_preset *p = bb_moe_presets; p->name; p++)
		bb_strbuf_addf(out, "    %-14s experts %lld, top-k %lld, hidden %lld; %s\n",
			       p->name, (long long)p->experts, (long long)p->top_k,
			       (long long)p->hidden, p->source);
}

static bb_status check_experts(struct bb_run *run, struct bb_moe_options *a)
{
	const int n = run->world.nranks;

	if (a->experts == 0)
		a->experts = 2 * (int64_t)n;
	if (a->experts % n)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--experts %lld: cannot be divided among %d ranks; give a multiple",
			       (long long)a->experts, n);
	if (a->top_k > a->experts)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--top-k %lld: there are %lld experts; give fewer",
			       (long long)a->top_k, (long long)a->experts);
	return BB_OK;
}

/* Rows of the busiest rank: its own, those that come, and those that come back. */
static bb_status check_room(struct bb_run *run, const struct bb_moe *moe)
{
	const struct bb_moe_options *a = &moe->asked;
	const uint64_t row = (uint64_t)a->hidden * bb_dtype_size(a->dtype);
	char subject[32];
	uint64_t most = 0;

	for (size_t i = 0; i < a->skews.n; i++) {
		const struct bb_moe_load *l = &moe->loads[i];
		const uint64_t rows = (uint64_t)(2 * l->rows_before[run->world.nranks] +
						 bb_moe_rows_at(l, l->busiest));

		most = rows > most ? rows : most;
	}
	snprintf(subject, sizeof(subject), "--tokens %lld", (long long)a->tokens);
	return bb_estimate_room(run, most * row, subject, "rows", "fewer");
}

static bb_status moe_plan(struct bb_run *run)
{
	struct bb_moe *moe = run->own;
	struct bb_moe_options *a = &moe->asked;
	bb_status status = check_experts(run, a);

	if (status != BB_OK)
		return status;
	moe->loads = calloc(a->skews.n, sizeof(*moe->loads));
	if (!moe->loads)
		return bb_no_memory(&run->error, "the loads of experts");
	for (size_t i = 0; i < a->skews.n && status == BB_OK; i++)
		status = bb_moe_load_make(&moe->loads[i],
					  &(const struct bb_moe_form){.nranks = run->world.nranks,
								      .experts = (int)a->experts,
								      .top_k = (int)a->top_k,
								      .tokens = a->tokens,
								      .skew = a->skews.list[i],
								      .capacity = a->capacity},
					  &run->error);
	return status == BB_OK ? check_room(run, moe) : status;
}

static void moe_tell(struct bb_run *run, struct bb_strbuf *out)
{
	bb_strbuf_add(
		out,
		"# busiest: rows of the busiest rank / mean. GB/s: bytes that the busiest rank "
		"receives (combine: sends) / time; mean: of the mean rank\n"
		"# even: dispatch time relative to no skew; bytes: the same ratio of the busiest "
		"rank's bytes\n");
}

static void close_moe(struct bb_run *run)
{
	struct bb_moe *moe = run->own;

	for (size_t i = 0; moe->loads && i < moe->asked.skews.n; i++)
		bb_moe_load_free(&moe->loads[i]);
	free(moe->loads);
}

const struct bb_benchmark bb_moe_benchmark = {
	.brief = "Expert parallelism: tokens to their experts and back, under even and uneven "
		 "loads.",
	.own_bytes = sizeof(struct bb_moe),
	.options = bb_moe_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "tokens are sent; leave it out, --tokens and --hidden set their "
				   "size"}},
	.queues = true,
	.check = bb_moe_check,
	.list = moe_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_moe,
	.plan = moe_plan,
	.experiment = &bb_moe_experiment,
	.tell = moe_tell,
	.close = close_moe,
};

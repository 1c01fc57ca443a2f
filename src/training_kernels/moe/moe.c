/*
 * moe.c - expert parallelism: options, record and descriptor of the benchmark.
 */
#include "training_kernels/moe/moe.h"

#include "core/units.h"
#include "training_kernels/estimate.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- options --------------------------------------------------------------------------------- */

/* Layers of published models. */
static const struct preset {
	const char *name, *source;
	int64_t experts, top_k, hidden;
} presets[] = {
	{"mixtral-8x7b", "Jiang et al. 2024, table 1; config.json of Mixtral-8x7B", 8, 2, 4096},
	{"deepseek-v3", "DeepSeek-AI 2024, section 4.2; config.json of DeepSeek-V3", 256, 8, 7168},
	{.name = NULL},
};

static const char *moe_preset_name(int index)
{
	return presets[index].name;
}

static const char *const dtypes[] = {"bfloat16", "half", "float", "f8e4m3", "f8e5m2", NULL};
/* No gemm: the FLOPs of experts are unknown. */
static const char *const stand_ins[] = {[BB_SLEEP] = "sleep", [BB_SPIN] = "spin", [BB_GEMM] = NULL};

#define BB_OPTIONS struct bb_moe_options
const struct bb_option bb_moe_rows[] = BB_OPTION_ROWS(BB_MOE_OPTIONS);

static bb_status moe_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			   const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_moe_options *a = &((struct bb_moe *)own)->options;
	const struct preset *p = presets + (a->preset_given ? a->preset : 0);

	if (!a->preset_given)
		return BB_OK;
	a->experts = a->experts_given ? a->experts : p->experts;
	a->top_k = a->top_k_given ? a->top_k : p->top_k;
	a->hidden = a->hidden_given ? a->hidden : p->hidden;
	return BB_OK;
}

/* ---- the record ------------------------------------------------------------------------------ */

static void moe_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_moe_record *r = record;

	bb_strbuf_addf(out,
		       "# %lld expert%s on %lld rank%s; %lld tokens of each rank through %lld "
		       "expert%s each, "
		       "%lld elements of %s: %.3f MB per rank\n",
		       (long long)r->experts, bb_plural(r->experts), (long long)r->nranks,
		       bb_plural(r->nranks), (long long)r->tokens, (long long)r->top_k,
		       bb_plural(r->top_k), (long long)r->hidden, r->dtype,
		       1e-6 * (double)r->sent_bytes);
	if (r->capacity > 0)
		bb_strbuf_addf(out, "# an expert takes at most %g times its even share\n",
			       r->capacity);
}

#define BB_RECORD bb_moe_record
BB_RECORD_KIND(bb_record_moe, BB_MOE_FIELDS, "experts",
	       "Expert parallelism: a layer of experts under one load.", .about = moe_about);

/* ---- the benchmark --------------------------------------------------------------------------- */

static void moe_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "published models (--preset):\n");
	for (const struct preset *p = presets; p->name; p++)
		bb_strbuf_addf(out, "    %-14s experts %lld, top-k %lld, hidden %lld; %s\n",
			       p->name, (long long)p->experts, (long long)p->top_k,
			       (long long)p->hidden, p->source);
}

static bb_status moe_check_experts(struct bb_run *run, struct bb_moe_options *a)
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
	const struct bb_moe_options *a = &moe->options;
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
	struct bb_moe_options *a = &moe->options;
	bb_status status = moe_check_experts(run, a);

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

static void moe_add_notes(struct bb_run *run, struct bb_strbuf *out)
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

	for (size_t i = 0; moe->loads && i < moe->options.skews.n; i++)
		bb_moe_load_free(&moe->loads[i]);
	free(moe->loads);
}

const struct bb_benchmark bb_moe_benchmark = {
	.brief = "Expert parallelism: tokens to their experts and back, under even and uneven "
		 "loads.",
	.examples = {"-g 4 --skew 0,0.5,1 --capacity 1.25",
		     "--backend sim --cluster hgx-h100:16 --preset deepseek-v3"},
	.own_bytes = sizeof(struct bb_moe),
	.options = bb_moe_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "tokens are sent; leave it out, --tokens and --hidden set their "
				   "size"}},
	.queues = true,
	.check = moe_check,
	.list = moe_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_moe,
	.plan = moe_plan,
	.experiment = &bb_moe_experiment,
	.tell = moe_add_notes,
	.close = close_moe,
};

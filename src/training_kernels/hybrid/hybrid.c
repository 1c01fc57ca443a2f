/*
 * hybrid.c - the descriptor of the benchmark of hybrid-parallel training.
 */
#include "training_kernels/hybrid/hybrid.h"

#include "simulator/cluster.h"
#include "training_kernels/estimate.h"

#include <stdio.h>

static void hybrid_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "published runs (--preset):\n");
	for (const struct bb_hybrid_preset *p = bb_hybrid_presets; p->name; p++)
		bb_strbuf_addf(out, "    %-14s %s\n", p->name, p->source);
	bb_model_list(out);
}

/* ---- the grid ------------------------------------------------------------------------------
 */

/* ASKED, or 2 if that divides the LEFT ranks, else 1. *LEFT is divided by it, or 0 if it cannot be.
 */
static int choose(int64_t asked, int64_t *left)
{
	const int64_t n = asked ? asked : *left % 2 == 0 ? 2 : 1;

	*left = *left % n == 0 ? *left / n : 0;
	return (int)n;
}

static bb_status settle_grid(struct bb_run *run, struct bb_grid *grid)
{
	const struct bb_hybrid *h = run->own;
	const struct bb_hybrid_options *a = &h->asked;
	const struct {
		const char *word;
		int64_t n;
	} asked[] = {{"dp", a->dp}, {"ep", a->dp ? 0 : a->ep}, {"tp", a->tp}, {"pp", a->pp}};
	const int n = (int)(sizeof(asked) / sizeof(asked[0]));
	struct bb_strbuf given = {0};
	int64_t left = run->world.nranks;

	*grid = (struct bb_grid){.ep = (int)a->ep, .order = (enum bb_grid_order)a->order};
	/* The ranks that divide experts are replicas. */
	grid->dp = choose(a->dp ? a->dp : a->ep, &left);
	grid->tp = choose(a->tp, &left);
	grid->pp = choose(a->pp, &left);
	if (!a->dp) {
		grid->dp *= (int)left;
		left = left > 0;
	}
	if (left == 1)
		return BB_OK;
	if (a->preset)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--preset %s: it has %d ranks, but there are %d; give as many, "
			       "or --tp, --pp and --dp",
			       a->preset->name, bb_grid_ranks(&a->preset->grid), run->world.nranks);
	for (int i = 0; i < n; i++)
		if (asked[i].n > (i == 1))
			bb_strbuf_addf(&given, "%s--%s %lld", given.length ? ", " : "",
				       asked[i].word, (long long)asked[i].n);
	bb_fail(&run->error, BB_EUSAGE,
		"%s: cannot divide the %d ranks; give numbers whose product divides %d, or "
		"equals it if all three are given",
		bb_strbuf_text(&given), run->world.nranks, run->world.nranks);
	bb_strbuf_free(&given);
	return BB_EUSAGE;
}

/* Is there room for the data of the rank that has most? */
static bb_status hybrid_check_room(struct bb_run *run, const struct bb_hybrid_shape *shape)
{
	const struct bb_hybrid *h = run->own;
	char subject[128];
	uint64_t most = 0;

	for (int rank = 0; rank < run->world.nranks; rank++) {
		const uint64_t bytes = bb_hybrid_data_bytes(shape, rank);

		most = bytes > most ? bytes : most;
	}
	snprintf(subject, sizeof(subject), "--model %s", h->model.name);
	return bb_estimate_room(run, most, subject, "gradients and activations",
				"a smaller one, --plan or --backend sim");
}

static bb_status hybrid_plan(struct bb_run *run)
{
	struct bb_hybrid *h = run->own;
	struct bb_hybrid_job job;
	bb_status status = settle_grid(run, &h->grid);

	if (status != BB_OK)
		return status;
	run->record.collective = bb_all_reduce.name;
	run->record.algorithms = h->asked.algo_text;
	status = bb_hybrid_job_open(&job, h, &run->options.config, &run->error);
	if (status == BB_OK)
		status = hybrid_check_room(run, &job.shape);
	bb_hybrid_job_close(&job);
	return status;
}

static void close_hybrid(struct bb_run *run)
{
	struct bb_hybrid *h = run->own;

	bb_model_free(&h->model);
	bb_cluster_free(h->nodes);
}

static bool hybrid_shows(const void *own)
{
	const struct bb_hybrid *h = own;

	return h->asked.plan;
}

const struct bb_benchmark bb_hybrid_benchmark = {
	.brief = "Hybrid-parallel training: divisions of a model, and the time of each part of a "
		 "step.",
	.own_bytes = sizeof(struct bb_hybrid),
	.options = bb_hybrid_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "sizes follow from the model; leave it out, --batch and "
				   "--micro-batch set them"}},
	.queues = true,
	.shows = hybrid_shows,
	.check = bb_hybrid_check,
	.list = hybrid_list,
	.show = bb_hybrid_show,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_hybrid,
	.plan = hybrid_plan,
	.experiment = &bb_hybrid_experiment,
	.close = close_hybrid,
};

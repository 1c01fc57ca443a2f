/*
 * fit.c - the combinations of parallelism that fit into GPUs.
 */
#include "models/memory/fits.h"
#include "core/recommend.h"
#include "memory/tool/tool.h"

#include <math.h>
#include <stdio.h>

#define ROWS 24
#define LEAST_SIZE (1 << 20)

/* Refuse a size that lacks its unit: it would be in bytes. */
static bb_status check_size(const struct job *job, const char *name, uint64_t bytes)
{
	if (bytes == 0 || bytes >= LEAST_SIZE)
		return BB_OK;
	return bb_fail(job->error, BB_EUSAGE,
		       "%s %llu: too few bytes for a GPU; give a unit, as in %s %lluG", name,
		       (unsigned long long)bytes, name,
		       (unsigned long long)(bytes < 1024 ? bytes : 80));
}

static void add_fit_text(struct job *job, const struct bb_fit *fit, uint64_t limit)
{
	const struct bb_training *t = &fit->training;
	const enum bb_category tightest = bb_need_tightest(&fit->need);
	const bool known = bb_training_has_activations(t);
	char batch[24];

	snprintf(batch, sizeof(batch), "%llu", (unsigned long long)t->micro_batch);
	bb_table_cellf(&job->table, "%llu\t%llu\t%llu\t%d\t%s\t%s\t%.2f\t%.2f\t%.0f%%\t%s",
		       (unsigned long long)t->dp, (unsigned long long)t->tp,
		       (unsigned long long)t->pp, t->zero,
		       known ? bb_recompute_words[t->recompute] : "-", known ? batch : "-",
		       GB(fit->need.total), GiB(fit->need.total),
		       100 * (double)fit->need.total / (double)limit, bb_category_words[tightest]);
}

static void add_fit_json(struct bb_json *j, const struct bb_fit *fit)
{
	const struct bb_training *t = &fit->training;
	const enum bb_category tightest = bb_need_tightest(&fit->need);

	bb_json_object(j);
	bb_json_add_uint(j, "dp", t->dp);
	bb_json_add_uint(j, "tp", t->tp);
	bb_json_add_uint(j, "pp", t->pp);
	bb_json_add_int(j, "zero", t->zero);
	bb_json_add_uint(j, "micro_batch", t->micro_batch);
	bb_json_add_uint(j, "micro_batches", t->micro_batches);
	bb_json_add_uint(j, "total_bytes", fit->need.total);
	bb_json_add_uint(j, "tightest_bytes", fit->need.bytes[tightest]);
	bb_json_add_string(j, "recompute", bb_recompute_words[t->recompute]);
	bb_json_add_string(j, "tightest", bb_category_words[tightest]);
	bb_json_end(j);
}

/* Why BEHIND comes later in the order of the list; OWN of a candidate is its training. */
static void fit_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		      struct bb_strbuf *out)
{
	const struct bb_training *a = ahead->own, *b = behind->own;

	bb_strbuf_add(out, a->recompute != b->recompute ? "it recomputes more"
			   : a->tp * a->pp != b->tp * b->pp
				   ? "more ranks divide a replica, and communicate in each layer "
				     "or wait in a pipeline"
			   : a->pp != b->pp
				   ? "it has more pipeline stages, and so a bubble"
				   : "a higher stage of ZeRO communicates as much or more");
}

/* The first two of the list. */
static void add_choice(struct job *job, const struct bb_fits *fits)
{
	char name[BB_FIT_NAME];
	struct bb_candidate list[2];
	const struct bb_recommendation choice = {.subject =
							 "combination, by least recomputation and "
							 "communication",
						 .list = list,
						 .n = fits->n < 2 ? fits->n : 2,
						 .cause = fit_cause};

	for (size_t i = 0; i < choice.n; i++) {
		const struct bb_training *t = &fits->list[i].training;

		list[i] = (struct bb_candidate){.seconds = NAN, .own = t};
		snprintf(list[i].name, sizeof(list[i].name), "%s", bb_fit_name(t, name));
	}
	bb_recommend(&choice, &job->text);
}

static void add_list(struct job *job, const struct bb_fits *fits, uint64_t limit)
{
	for (size_t i = 0; i < fits->n && i < ROWS; i++)
		add_fit_text(job, &fits->list[i], limit);
	if (fits->n == 0) {
		bb_strbuf_add(&job->text, "# nothing fits; the nearest combination:\n");
		add_fit_text(job, &fits->nearest, limit);
	}
	bb_memory_end_table(job);
	if (fits->n > ROWS)
		bb_strbuf_addf(&job->text, "# … and %zu more, all in --json\n", fits->n - ROWS);
	bb_strbuf_addf(&job->text, "# %zu of %zu fit\n", fits->n, fits->tried);

	bb_json_add_uint(&job->json, "tried", fits->tried);
	bb_json_add_array(&job->json, "fits");
	for (size_t i = 0; i < fits->n; i++)
		add_fit_json(&job->json, &fits->list[i]);
	bb_json_end(&job->json);
	bb_json_key(&job->json, "nearest");
	add_fit_json(&job->json, &fits->nearest);
}

bb_status bb_memory_fit(struct job *job, const struct bb_training *base)
{
	static const struct bb_table_head heads[] = {
		{"dp", "", 5},          {"tp", "", 4},         {"pp", "", 4},   {"ZeRO", "", 0},
		{"recompute", "", -10}, {"microbatch", "", 0}, {"GB", "", 8},   {"GiB", "", 8},
		{"full", "", 5},        {"tightest", "", -1},  {NULL, NULL, 0},
	};
	const struct options *o = job->o;
	const bool stage = o->zero_given || o->ds_config;
	struct bb_fits_space space = {
		.gpus = o->gpus_given ? (uint64_t)o->gpus : base->dp * base->tp * base->pp,
		.most_tp = (uint64_t)o->gpus_per_node,
		.most_pp =
			base->model && base->model->hyper.heads ? (uint64_t)base->model->blocks : 1,
		.micro_batch = o->micro_batch_given ? base->micro_batch : 0,
		.most_micro_batch = 64,
		.zero = stage ? base->zero : -1,
		.recompute = o->recompute_given ? (int)base->recompute : -1,
	};
	struct bb_fits fits = {.list = NULL};
	struct bb_capacity capacity;
	bb_status st;

	BB_TRY(st, check_size(job, "--fits", o->fits), out);
	BB_TRY(st, check_size(job, "--reserve", o->reserve), out);
	BB_TRY(st, bb_capacity_open(&capacity, "--fits", o->fits, NULL, o->reserve, job->error),
	       out);
	space.limit = capacity.usable;
	BB_TRY(st, bb_fits_find(&fits, base, &space, job->error), out);
	if (fits.tried == 0) {
		st = bb_fail(job->error, BB_EUSAGE,
			     "--fits: no division of the model among --gpus %llu agrees with the "
			     "other options",
			     (unsigned long long)space.gpus);
		goto out;
	}
	bb_json_add_uint(&job->json, "limit_bytes", space.limit);
	bb_json_add_uint(&job->json, "gpus", space.gpus);
	bb_strbuf_addf(&job->text,
		       "# GPUs: %llu, memory of each: ", (unsigned long long)space.gpus);
	bb_capacity_add(&job->text, &capacity);
	bb_strbuf_add(&job->text,
		      "\n# tightest: the largest category on the rank that needs most\n#\n");
	bb_table_columns(&job->table, heads, 4);
	add_list(job, &fits, space.limit);
	add_choice(job, &fits);
	st = fits.n > 0 ? BB_OK : BB_EDATA;
out:
	bb_fits_free(&fits);
	return st;
}

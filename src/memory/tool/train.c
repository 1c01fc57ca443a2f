/*
 * train.c - one training run, category by category; or the combinations of parallelism that fit
 * into GPUs.
 */
#include "models/memory/ds_config.h"
#include "core/recommend.h"
#include "memory/tool/tool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Merge the settings of --ds-config into O, a copy of the options, and BUFFERS. BB_EUSAGE if an
   option was given another value. With --fits each combination has its own microbatches. */
static bb_status merge_file(struct job *job, struct options *o, struct bb_training_buffers *buffers)
{
	struct bb_ds_config c;
	bb_status st = bb_ds_config_read(o->ds_config, job->has_model ? &job->model : NULL, NULL,
					 NULL, &c, job->error);
	struct bb_ds_setting settings[] = {
		{"zero", o->zero_given, o->zero, c.zero},
		{"offload", o->offload_given, o->offload, c.offload},
		{"precision", o->precision_given, o->precision, c.precision},
		{"optimizer", o->optimizer_given, o->optimizer, c.optimizer},
		{"micro-batch", o->micro_batch_given, o->micro_batch, (int64_t)c.micro_batch},
		{"micro-batches", o->micro_batches_given, o->micro_batches,
		 (int64_t)c.micro_batches},
	};

	for (int i = 4; i < 6; i++)
		if (o->fits_given || settings[i].in_file == 0)
			settings[i].in_file = -1;
	if (st == BB_OK)
		st = bb_ds_config_settle(settings, sizeof(settings) / sizeof(settings[0]),
					 o->ds_config, job->error);
	if (st != BB_OK)
		return st;
	o->zero = settings[0].value;
	o->offload = (int)settings[1].value;
	o->precision = (int)settings[2].value;
	o->optimizer = (int)settings[3].value;
	*buffers = c.buffers;
	buffers->hpz = (uint64_t)c.hpz;
	const int bits = o->precision == BB_ALL_FP32 ? 32 : 16;
	bb_ds_config_add_saving(&c, bits, &job->text);
	if (c.onebit.kind != BB_ONEBIT_NONE && c.total_steps > 0)
		bb_json_add_double(&job->json, "volume_saved",
				   bb_onebit_saving(&c.onebit, bits, c.total_steps));
	if (o->fits_given)
		return BB_OK;
	if (o->micro_batch_given)
		c.micro_batch = (uint64_t)o->micro_batch;
	if (o->micro_batches_given)
		c.micro_batches = (uint64_t)o->micro_batches;
	st = bb_ds_config_batch(&c, o->ds_config, (uint64_t)o->dp, job->error);
	o->micro_batch = (int64_t)c.micro_batch;
	o->micro_batches = (int64_t)c.micro_batches;
	return st;
}

static void add_category(struct job *job, const char *name, uint64_t bytes, uint64_t total,
			 const char *note)
{
	bb_table_cellf(&job->table, "%s\t%.3f\t%.3f", name, GB(bytes), GiB(bytes));
	if (total > 0)
		bb_table_cellf(&job->table, "%.1f%%", 100 * (double)bytes / (double)total);
	else
		bb_table_cell(&job->table, "");
	bb_table_cell(&job->table, note);
}

/* Add the categories of memory; unknown activations are null in JSON. */
static void add_need(struct job *job, const struct bb_training *t, const struct bb_need *need)
{
	const char *const notes[BB_CATEGORIES] = {
		[BB_NEED_PARAMETERS] =
			t->zero == 3 && t->buffers.hpz > 1 ? "with hpZ's second partition" : NULL,
		[BB_NEED_ERRORS] = "error memory of 1-bit exchanges",
		[BB_NEED_GATHERED] = t->buffers.live > 0 ? "parameters that stage 3 keeps, whole"
							 : "parameters and gradients of the "
							   "largest layer, whole",
		[BB_NEED_BUCKETS] = "DeepSpeed's, of --ds-config",
		[BB_NEED_RECOMPUTED] = "of one layer at a time",
		[BB_NEED_ENDS] = "embedding, last norm, head and logits",
	};
	static const struct bb_table_head heads[] = {
		{"", "", -11},    {"GB", "", 10}, {"GiB", "", 10},
		{"share", "", 7}, {"", "", -1},   {NULL, NULL, 0},
	};
	char key[32];

	bb_strbuf_addf(&job->text, "#\n# maximum: a rank of pipeline stage %ju\n", need->stage);
	bb_table_columns(&job->table, heads, 1);
	for (int i = 0; i < BB_CATEGORIES; i++) {
		const bool known = i < BB_NEED_ACTIVATIONS || bb_training_has_activations(t);

		if (i == BB_NEED_ERRORS && !t->recipe.optimizer->onebit)
			continue;
		snprintf(key, sizeof(key), "%s_bytes", bb_category_words[i]);
		bb_job_add_known(&job->json, key, known, need->bytes[i]);
		if (known && (need->bytes[i] > 0 || i <= BB_NEED_OPTIMIZER))
			add_category(job, bb_category_words[i], need->bytes[i], need->total,
				     notes[i] ? notes[i] : "");
	}
	if (need->total > 0)
		add_category(job, "total", need->total, need->total, "");
	else
		bb_table_cellf(&job->table, "total\tN/A\tN/A\t\tunknown: all states are on the "
					    "host; --model gives the rest");
	if (need->host > 0)
		add_category(job, "on the host", need->host, 0, "");
	bb_job_end_table(job);
	bb_job_add_known(&job->json, "total_bytes", need->total > 0, need->total);
	bb_json_add_uint(&job->json, "host_bytes", need->host);
	bb_json_add_uint(&job->json, "stage", need->stage);
	bb_json_add_uint(&job->json, "rank_parameters", need->elements);
}

/* ---- the combinations that fit ----------------------------------------------------------- */

#define ROWS 24
#define LEAST_SIZE (1 << 20)

/* Refuse a size that lacks its unit: it would be in bytes. */
static bb_status check_size(const struct job *job, const char *name, uint64_t bytes)
{
	if (bytes == 0 || bytes >= LEAST_SIZE)
		return BB_OK;
	return bb_fail(job->error, BB_EUSAGE,
		       "%s %ju: too few bytes for a GPU; give a unit, as in %s %juG", name, bytes,
		       name, bytes < 1024 ? bytes : 80);
}

static void add_fit_text(struct job *job, const struct bb_fit *fit, uint64_t limit)
{
	const struct bb_training *t = &fit->training;
	const enum bb_category tightest = bb_need_tightest(&fit->need);
	const bool known = bb_training_has_activations(t);
	char batch[24];

	snprintf(batch, sizeof(batch), "%ju", t->micro_batch);
	bb_table_cellf(&job->table, "%ju\t%ju\t%ju\t%d\t%s\t%s\t%.2f\t%.2f\t%.0f%%\t%s", t->dp,
		       t->tp, t->pp, t->zero, known ? bb_recompute_words[t->recompute] : "-",
		       known ? batch : "-", GB(fit->need.total), GiB(fit->need.total),
		       100 * (double)fit->need.total / (double)limit, bb_category_words[tightest]);
}

static void add_fit_json(struct bb_json *j, const char *key, const struct bb_fit *fit)
{
	const struct bb_training *t = &fit->training;
	const enum bb_category tightest = bb_need_tightest(&fit->need);

	bb_json_add_object(j, key);
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

static bb_status list_fits(struct job *job, const struct bb_training *base)
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
	struct bb_candidate first[2];
	struct bb_recommendation choice = {.subject = "combination, by least recomputation and "
						      "communication",
					   .list = first,
					   .cause = fit_cause};
	struct bb_fits fits = {.list = NULL};
	struct bb_capacity capacity;
	char name[BB_FIT_NAME];
	bb_status st;

	BB_TRY(st, check_size(job, "--fits", o->fits), out);
	BB_TRY(st, check_size(job, "--reserve", o->reserve), out);
	BB_TRY(st, bb_capacity_open(&capacity, "--fits", o->fits, NULL, o->reserve, job->error),
	       out);
	space.limit = capacity.usable;
	BB_TRY(st, bb_fits_find(&fits, base, &space, job->error), out);
	if (fits.tried == 0) {
		st = bb_fail(job->error, BB_EUSAGE,
			     "--fits: no division of the model among --gpus %ju agrees with the "
			     "other options",
			     space.gpus);
		goto out;
	}
	bb_json_add_uint(&job->json, "limit_bytes", space.limit);
	bb_json_add_uint(&job->json, "gpus", space.gpus);
	bb_strbuf_addf(&job->text, "# GPUs: %ju, memory of each: ", space.gpus);
	bb_capacity_add(&job->text, &capacity);
	bb_strbuf_add(&job->text,
		      "\n# tightest: the largest category on the rank that needs most\n#\n");
	bb_table_columns(&job->table, heads, 4);
	for (size_t i = 0; i < fits.n && i < ROWS; i++)
		add_fit_text(job, &fits.list[i], space.limit);
	if (fits.n == 0) {
		bb_strbuf_add(&job->text, "# nothing fits; the nearest combination:\n");
		add_fit_text(job, &fits.nearest, space.limit);
	}
	bb_job_end_table(job);
	if (fits.n > ROWS)
		bb_strbuf_addf(&job->text, "# … and %zu more, all in --json\n", fits.n - ROWS);
	bb_strbuf_addf(&job->text, "# %zu of %zu fit\n", fits.n, fits.tried);
	for (; choice.n < fits.n && choice.n < 2; choice.n++) {
		const struct bb_training *t = &fits.list[choice.n].training;

		first[choice.n] = (struct bb_candidate){.seconds = NAN, .own = t};
		snprintf(first[choice.n].name, sizeof(first->name), "%s", bb_fit_name(t, name));
	}
	bb_recommend(&choice, &job->text);
	bb_json_add_uint(&job->json, "tried", fits.tried);
	bb_json_add_array(&job->json, "fits");
	for (size_t i = 0; i < fits.n; i++)
		add_fit_json(&job->json, NULL, &fits.list[i]);
	bb_json_end(&job->json);
	add_fit_json(&job->json, "nearest", &fits.nearest);
	st = fits.n > 0 ? BB_OK : BB_EDATA;
out:
	free(fits.list);
	return st;
}

/* ---- the subject ----------------------------------------------------------------------------- */

bb_status bb_calculate_train(struct job *job)
{
	struct options o = *job->o;
	struct bb_training_buffers buffers = {0};
	struct bb_json *j = &job->json;
	bb_status st;

	BB_TRY(st, bb_job_open_model(job), out);
	if (o.ds_config)
		BB_TRY(st, merge_file(job, &o, &buffers), out);
	struct bb_training t = {
		.model = job->has_model ? &job->model : NULL,
		.layout = &job->layout,
		.recipe = {&bb_precisions[o.precision], &bb_optimizers[o.optimizer]},
		.trainable = o.trainable,
		.zero = (int)o.zero,
		.offload = (enum bb_offload)o.offload,
		.dp = (uint64_t)o.dp,
		.tp = (uint64_t)o.tp,
		.pp = (uint64_t)o.pp,
		.ep = (uint64_t)o.ep,
		.sequence_parallel = o.sequence_parallel,
		.eager = o.attention == BB_ATTENTION_EAGER,
		.schedule = (enum bb_pipelining)o.schedule,
		.chunks = (uint64_t)o.chunks,
		.micro_batch = (uint64_t)o.micro_batch,
		.micro_batches = (uint64_t)o.micro_batches,
		.recompute = (enum bb_recompute)o.recompute,
		.buffers = buffers,
	};
	if (o.fits_given)
		return list_fits(job, &t);
	if (t.micro_batches == 0)
		t.micro_batches = 4 * t.pp;
	BB_TRY(st, bb_training_check(&t, job->error), out);
	struct bb_need need = bb_training_most(&t);
	bb_strbuf_addf(&job->text,
		       "# ranks: %ju = dp %ju x tp %ju%s x pp %ju (%s; microbatches per step: "
		       "%ju, sequences per microbatch: %ju)\n",
		       t.dp * t.tp * t.pp, t.dp, t.tp,
		       t.sequence_parallel ? " sequence-parallel" : "", t.pp,
		       bb_pipeline_words[t.schedule], t.micro_batches, t.micro_batch);
	bb_strbuf_addf(&job->text,
		       "# ZeRO stage %d, offload %s, recomputation %s, %s; %g%% of the parameters "
		       "are trained\n",
		       t.zero, bb_offload_words[t.offload], bb_recompute_words[t.recompute],
		       bb_attention_name(t.eager ? BB_ATTENTION_EAGER : BB_ATTENTION_FLASH),
		       100 * t.trainable);
	bb_job_add_recipe(job, &t.recipe);
	if (!bb_training_has_activations(&t))
		bb_strbuf_add(
			&job->text,
			"# activations are known only for transformers: these are states only\n");
	bb_json_add_uint(j, "dp", t.dp);
	bb_json_add_uint(j, "tp", t.tp);
	bb_json_add_uint(j, "pp", t.pp);
	bb_json_add_uint(j, "ep", t.ep);
	bb_json_add_int(j, "zero", t.zero);
	bb_json_add_uint(j, "chunks", t.chunks);
	bb_json_add_uint(j, "micro_batch", t.micro_batch);
	bb_json_add_uint(j, "micro_batches", t.micro_batches);
	bb_json_add_string(j, "offload", bb_offload_words[t.offload]);
	bb_json_add_string(j, "schedule", bb_pipeline_words[t.schedule]);
	bb_json_add_string(j, "recompute", bb_recompute_words[t.recompute]);
	bb_json_add_double(j, "trainable", t.trainable);
	bb_json_add_bool(j, "sequence_parallel", t.sequence_parallel);
	bb_json_add_bool(j, "flash_attention", !t.eager);
	add_need(job, &t, &need);
	bb_strbuf_add(&job->text, "# not counted: CUDA, buffers of libraries, fragmentation\n");
out:
	return st;
}

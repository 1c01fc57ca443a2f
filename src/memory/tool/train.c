/*
 * train.c - one training run, category by category.
 */
#include "models/memory/ds_config.h"
#include "memory/tool/tool.h"

#include <stdio.h>

/* Take FROM_FILE where the file SAID it. BB_EUSAGE if the option was GIVEN another value. */
static bb_status merge(struct job *job, const char *option, bool given, uint64_t *value, bool said,
		       uint64_t from_file)
{
	if (said && given && *value != from_file)
		return bb_fail(job->error, BB_EUSAGE,
			       "--%s: contradicts --ds-config %.200s; leave one of them out",
			       option, job->o->ds_config);
	if (said)
		*value = from_file;
	return BB_OK;
}

static bb_status merge_states(struct job *job, const struct bb_ds_config *c, struct bb_training *t)
{
	const struct options *o = job->o;
	uint64_t zero = (uint64_t)t->zero, offload = (uint64_t)t->offload;
	uint64_t precision = (uint64_t)o->precision, optimizer = (uint64_t)o->optimizer;
	bb_status st;

	BB_TRY(st, merge(job, "zero", o->zero_given, &zero, c->zero >= 0, (uint64_t)c->zero), out);
	BB_TRY(st,
	       merge(job, "offload", o->offload_given, &offload, c->offload >= 0,
		     (uint64_t)c->offload),
	       out);
	BB_TRY(st,
	       merge(job, "precision", o->precision_given, &precision, c->precision != NULL,
		     c->precision ? (uint64_t)(c->precision - bb_precisions) : 0),
	       out);
	BB_TRY(st,
	       merge(job, "optimizer", o->optimizer_given, &optimizer, c->optimizer != NULL,
		     c->optimizer ? (uint64_t)(c->optimizer - bb_optimizers) : 0),
	       out);
	t->zero = (int)zero;
	t->offload = (enum bb_offload)offload;
	t->recipe = (struct bb_recipe){&bb_precisions[precision], &bb_optimizers[optimizer]};
out:
	return st;
}

static bb_status merge_file(struct job *job, struct bb_training *t)
{
	const struct options *o = job->o;
	const bool batch = o->micro_batch_given, batches = o->micro_batches_given;
	struct bb_ds_config c;
	bb_status st;

	BB_TRY(st, bb_ds_config_read(o->ds_config, &c, job->error), out);
	BB_TRY(st, merge_states(job, &c, t), out);
	/* With --fits each combination divides the batch in its own way. */
	if (o->fits_given)
		goto out;
	BB_TRY(st,
	       merge(job, "micro-batch", batch, &t->micro_batch, c.micro_batch > 0, c.micro_batch),
	       out);
	BB_TRY(st,
	       merge(job, "micro-batches", batches, &t->micro_batches, c.micro_batches > 0,
		     c.micro_batches),
	       out);
	if (batch)
		c.micro_batch = t->micro_batch;
	if (batches)
		c.micro_batches = t->micro_batches;
	BB_TRY(st, bb_ds_config_batch(&c, o->ds_config, t->dp, job->error), out);
	t->micro_batch = c.micro_batch;
	t->micro_batches = c.micro_batches;
out:
	return st;
}

static struct bb_training from_options(const struct job *job)
{
	const struct options *o = job->o;

	return (struct bb_training){
		.model = job->has_model ? &job->model : NULL,
		.layout = &job->layout,
		.recipe = {&bb_precisions[o->precision], &bb_optimizers[o->optimizer]},
		.trainable = o->trainable,
		.zero = (int)o->zero,
		.offload = (enum bb_offload)o->offload,
		.dp = (uint64_t)o->dp,
		.tp = (uint64_t)o->tp,
		.pp = (uint64_t)o->pp,
		.ep = (uint64_t)o->ep,
		.sequence_parallel = o->sequence_parallel,
		.flash = o->flash,
		.schedule = (enum bb_pipelining)o->schedule,
		.chunks = (uint64_t)o->chunks,
		.micro_batch = (uint64_t)o->micro_batch,
		.micro_batches = (uint64_t)o->micro_batches,
		.recompute = (enum bb_recompute)o->recompute,
	};
}

static void describe_run(struct job *job, const struct bb_training *t)
{
	const bool known = bb_training_has_activations(t);

	bb_strbuf_addf(&job->text,
		       "# ranks: %llu = dp %llu x tp %llu%s x pp %llu (%s; microbatches per step: "
		       "%llu, sequences per microbatch: %llu)\n",
		       (unsigned long long)(t->dp * t->tp * t->pp), (unsigned long long)t->dp,
		       (unsigned long long)t->tp, t->sequence_parallel ? " sequence-parallel" : "",
		       (unsigned long long)t->pp, bb_pipeline_words[t->schedule],
		       (unsigned long long)t->micro_batches, (unsigned long long)t->micro_batch);
	bb_strbuf_addf(&job->text,
		       "# ZeRO stage %d, offload %s, recomputation %s%s; %g%% of the parameters "
		       "are trained\n",
		       t->zero, bb_offload_words[t->offload], bb_recompute_words[t->recompute],
		       t->flash ? ", FlashAttention" : "", 100 * t->trainable);
	bb_memory_add_recipe(job, &t->recipe);
	if (!known)
		bb_strbuf_add(
			&job->text,
			"# activations are known only for transformers: these are states only\n");
}

static void add_json_run(struct job *job, const struct bb_training *t)
{
	struct bb_json *j = &job->json;

	bb_json_add_uint(j, "dp", t->dp);
	bb_json_add_uint(j, "tp", t->tp);
	bb_json_add_uint(j, "pp", t->pp);
	bb_json_add_uint(j, "ep", t->ep);
	bb_json_add_int(j, "zero", t->zero);
	bb_json_add_uint(j, "chunks", t->chunks);
	bb_json_add_uint(j, "micro_batch", t->micro_batch);
	bb_json_add_uint(j, "micro_batches", t->micro_batches);
	bb_json_add_string(j, "offload", bb_offload_words[t->offload]);
	bb_json_add_string(j, "schedule", bb_pipeline_words[t->schedule]);
	bb_json_add_string(j, "recompute", bb_recompute_words[t->recompute]);
	bb_json_add_double(j, "trainable", t->trainable);
	bb_json_add_bool(j, "sequence_parallel", t->sequence_parallel);
	bb_json_add_bool(j, "flash_attention", t->flash);
}

static void add_row(struct job *job, const char *name, uint64_t bytes, uint64_t total,
		    const char *note)
{
	bb_strbuf_addf(&job->text, "%-12s %12.3f %12.3f", name, GB(bytes), GiB(bytes));
	if (total > 0)
		bb_strbuf_addf(&job->text, " %7.1f%%", 100 * (double)bytes / (double)total);
	if (note)
		bb_strbuf_addf(&job->text, "  %s", note);
	bb_strbuf_add(&job->text, "\n");
}

/* The categories of the run; activations are null in JSON where they are not known. */
static void add_need(struct job *job, const struct bb_training *t, const struct bb_need *need)
{
	static const char *const notes[BB_CATEGORIES] = {
		[BB_NEED_GATHERED] = "parameters and gradients of the largest layer, whole",
		[BB_NEED_MADE_AGAIN] = "of one layer at a time",
		[BB_NEED_ENDS] = "embedding, last norm, head and logits",
	};
	char key[32];

	bb_strbuf_addf(&job->text, "#\n# rank that needs most: in pipeline stage %llu\n",
		       (unsigned long long)need->stage);
	bb_strbuf_addf(&job->text, "# %-10s %12s %12s %8s\n", "", "GB", "GiB", "share");
	for (int i = 0; i < BB_CATEGORIES; i++) {
		const bool known = i < BB_NEED_ACTIVATIONS || bb_training_has_activations(t);

		snprintf(key, sizeof(key), "%s_bytes", bb_category_words[i]);
		bb_memory_add_known(&job->json, key, known, need->bytes[i]);
		if (known && (need->bytes[i] > 0 || i <= BB_NEED_OPTIMIZER))
			add_row(job, bb_category_words[i], need->bytes[i], need->total, notes[i]);
	}
	add_row(job, "all", need->total, need->total, NULL);
	if (need->host > 0)
		add_row(job, "on the host", need->host, 0, NULL);
	bb_json_add_uint(&job->json, "total_bytes", need->total);
	bb_json_add_uint(&job->json, "host_bytes", need->host);
	bb_json_add_uint(&job->json, "stage", need->stage);
	bb_json_add_uint(&job->json, "rank_parameters", need->elements);
}

static bb_status check_options(const struct job *job)
{
	const struct options *o = job->o;

	if (!o->fits_given && o->gpus_given)
		return bb_fail(job->error, BB_EUSAGE, "--gpus %lld: valid only with --fits",
			       (long long)o->gpus);
	if (!o->fits_given && o->reserve > 0)
		return bb_fail(job->error, BB_EUSAGE, "--reserve: valid only with --fits");
	return BB_OK;
}

bb_status bb_memory_train(struct job *job)
{
	struct bb_training t;
	struct bb_need need;
	bb_status st;

	BB_TRY(st, check_options(job), out);
	BB_TRY(st, bb_memory_open_subject(job), out);
	t = from_options(job);
	if (job->o->ds_config)
		BB_TRY(st, merge_file(job, &t), out);
	if (job->o->fits_given)
		return bb_memory_fit(job, &t);
	if (t.micro_batches == 0)
		t.micro_batches = 4 * t.pp;
	BB_TRY(st, bb_training_check(&t, job->error), out);
	need = bb_training_most(&t);
	describe_run(job, &t);
	add_json_run(job, &t);
	add_need(job, &t, &need);
	bb_strbuf_add(&job->text, "# not counted: CUDA, buffers of libraries, fragmentation\n");
out:
	return st;
}

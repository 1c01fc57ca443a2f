/*
 * train.c - one training run, category by category.
 */
#include "models/memory/ds_config.h"
#include "memory/tool/tool.h"

#include <stdio.h>

/* Merge the settings of --ds-config into O, a copy of the options, and BUFFERS. BB_EUSAGE if an
   option was given another value. With --fits each combination has its own microbatches. */
static bb_status merge_file(const struct job *job, struct options *o,
			    struct bb_training_buffers *buffers)
{
	struct bb_ds_config c = {.zero = -1};
	bb_status st = bb_ds_config_read(o->ds_config, &c, job->error);
	const int64_t batch = o->fits_given || !c.micro_batch ? -1 : (int64_t)c.micro_batch;
	const int64_t batches = o->fits_given || !c.micro_batches ? -1 : (int64_t)c.micro_batches;
	const struct {
		const char *option;
		bool given;
		int64_t *number; /* of the option; or CHOICE */
		int *choice;
		int64_t in_file; /* -1: missing */
	} settings[] = {
		{"zero", o->zero_given, &o->zero, NULL, c.zero},
		{"offload", o->offload_given, NULL, &o->offload, c.offload},
		{"precision", o->precision_given, NULL, &o->precision, c.precision},
		{"optimizer", o->optimizer_given, NULL, &o->optimizer, c.optimizer},
		{"micro-batch", o->micro_batch_given, &o->micro_batch, NULL, batch},
		{"micro-batches", o->micro_batches_given, &o->micro_batches, NULL, batches},
	};

	if (st != BB_OK)
		return st;
	*buffers = bb_ds_config_buffers(&c, job->has_model ? &job->model : NULL);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const int64_t value =
			settings[i].number ? *settings[i].number : *settings[i].choice;
		const int64_t in_file = settings[i].in_file;

		if (in_file >= 0 && settings[i].given && value != in_file)
			return bb_fail(job->error, BB_EUSAGE,
				       "--%s: contradicts --ds-config %.200s; leave one of them "
				       "out",
				       settings[i].option, job->o->ds_config);
		if (in_file >= 0 && settings[i].number)
			*settings[i].number = in_file;
		else if (in_file >= 0)
			*settings[i].choice = (int)in_file;
	}
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

static struct bb_training from_options(const struct job *job, const struct options *o)
{
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
		.eager = o->attention == BB_ATTENTION_EAGER,
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
		       "# ZeRO stage %d, offload %s, recomputation %s, %s; %g%% of the parameters "
		       "are trained\n",
		       t->zero, bb_offload_words[t->offload], bb_recompute_words[t->recompute],
		       bb_attention_name(t->eager ? BB_ATTENTION_EAGER : BB_ATTENTION_FLASH),
		       100 * t->trainable);
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
	bb_json_add_bool(j, "flash_attention", !t->eager);
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

	bb_strbuf_addf(&job->text, "#\n# maximum: a rank of pipeline stage %llu\n",
		       (unsigned long long)need->stage);
	bb_table_columns(&job->table, heads, 1);
	for (int i = 0; i < BB_CATEGORIES; i++) {
		const bool known = i < BB_NEED_ACTIVATIONS || bb_training_has_activations(t);

		snprintf(key, sizeof(key), "%s_bytes", bb_category_words[i]);
		bb_memory_add_known(&job->json, key, known, need->bytes[i]);
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
	bb_memory_end_table(job);
	bb_memory_add_known(&job->json, "total_bytes", need->total > 0, need->total);
	bb_json_add_uint(&job->json, "host_bytes", need->host);
	bb_json_add_uint(&job->json, "stage", need->stage);
	bb_json_add_uint(&job->json, "rank_parameters", need->elements);
}

bb_status bb_memory_train(struct job *job)
{
	struct options o = *job->o;
	struct bb_training_buffers buffers = {0};
	struct bb_training t;
	struct bb_need need;
	bb_status st;

	BB_TRY(st, bb_memory_open_subject(job), out);
	if (o.ds_config)
		BB_TRY(st, merge_file(job, &o, &buffers), out);
	t = from_options(job, &o);
	t.buffers = buffers;
	if (o.fits_given)
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

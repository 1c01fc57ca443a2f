/*
 * infer.c - inference.
 */
#include "memory/tool/calculators.h"
#include "memory/tool/tool.h"

#include <math.h>
#include <stdio.h>

/* ---- what is calculated ---------------------------------------------------------------------- */

uint64_t bb_weight_bytes(uint64_t parameters, unsigned bits)
{
	return (parameters * bits + 7) / 8;
}

uint64_t bb_serving_rule(uint64_t parameters, unsigned bits)
{
	return parameters * bits * 3 / 20; /* 1.2 / 8, in integers */
}

uint64_t bb_cache_numbers(const struct bb_model *model, uint64_t tp, uint64_t tokens)
{
	const struct bb_hyper *h = &model->hyper;
	const uint64_t heads = ((uint64_t)h->kv_heads + tp - 1) / tp;
	const uint64_t token = h->kv_lora > 0 ? (uint64_t)(h->kv_lora + h->rope)
					      : heads * (uint64_t)(h->head_dim + h->value_dim);
	uint64_t sum = 0;

	for (int i = 0; i < model->blocks; i++) {
		const struct bb_block_kind block = bb_model_block(model, i);
		const uint64_t window = (uint64_t)h->window;
		const uint64_t seen = block.local && window < tokens ? window : tokens;

		if (block.decodes)
			sum = bb_bytes_add(
				sum, bb_bytes_times(token, seen + (block.cross ? tokens : 0)));
	}
	return sum;
}

uint64_t bb_cache_bytes(uint64_t numbers, uint64_t sequences, unsigned bits)
{
	const uint64_t all = bb_bytes_times(bb_bytes_times(numbers, sequences), bits);

	return all == UINT64_MAX ? all : all / 8 + (all % 8 > 0);
}

/* ---- the subject ----------------------------------------------------------------------------- */

struct inference {
	uint64_t weights, cache, rule, token; /* bytes */
	uint64_t context;
	uint64_t billions; /* of parameters, as in a model's name: 7 for 6,738,415,616 */
	bool has_cache;
};

static void add_bytes(struct job *job, const char *name, double bytes, const char *note)
{
	bb_table_cellf(&job->table, "%s\t%.3f\t%.3f\t%s", name, GB(bytes), GiB(bytes), note);
}

static void add_inference_text(struct job *job, const struct inference *p)
{
	static const struct bb_table_head heads[] = {
		{"", "", -11}, {"GB", "", 10}, {"GiB", "", 10}, {"", "", -1}, {NULL, NULL, 0}};
	const struct options *o = job->o;
	const struct bb_hyper *h = &job->model.hyper;
	/* GiB of a billion parameters with three decimals, as in articles: 3.725 for 32 bits, so
	   that Llama 2 7B has "26.075 GB". */
	const double each = round(1e3 * 1e9 / 8 * (double)o->bits / (1 << 30)) / 1e3;
	char token[BB_BOTH_TEXT], note[BB_BOTH_TEXT + 32];
	int local = 0;

	bb_strbuf_addf(&job->text, "# bits per weight: %jd", o->bits);
	if (p->has_cache)
		bb_strbuf_addf(
			&job->text,
			"; bits per key or value: %jd; sequences: %jd, tokens per sequence: %ju",
			o->cache_bits, o->batch, p->context);
	bb_strbuf_addf(&job->text, "\n# tensor-parallel ranks: %jd, memory of each:\n#\n", o->tp);
	bb_table_columns(&job->table, heads, 1);
	add_bytes(job, "weights", (double)p->weights, "");
	if (p->has_cache) {
		snprintf(note, sizeof(note), "%s per token", bb_job_bytes(token, p->token));
		add_bytes(job, "KV cache", (double)p->cache, note);
		add_bytes(job, "total", (double)bb_bytes_add(p->weights, p->cache), "");
	} else if (job->has_model && job->model.encoder) {
		bb_table_cellf(&job->table,
			       "KV cache\tN/A\tN/A\tnone: an encoder reads all tokens at once");
	}
	add_bytes(job, "rule", (double)p->rule,
		  "P x 4 / (32 / Q) x 1.2, for any batch and context");
	if (p->billions > 0 && o->tp == 1) {
		snprintf(note, sizeof(note), "%ju billion x %.3f GiB, often called GB", p->billions,
			 each);
		add_bytes(job, "rounded", each * (double)p->billions * (double)(1 << 30), note);
	}
	bb_job_end_table(job);
	/* Why the cache is smaller than its layers, heads and tokens suggest. */
	for (int i = 0; i < job->model.blocks && p->has_cache; i++)
		local += bb_model_block(&job->model, i).local;
	if (local > 0 && (uint64_t)h->window < p->context)
		bb_strbuf_addf(&job->text, "# %d of %d layers are local: they keep %jd tokens\n",
			       local, job->model.blocks, h->window);
	if (p->has_cache && h->kv_lora > 0)
		bb_strbuf_addf(&job->text,
			       "# latent attention: %jd numbers per token and layer, whole on "
			       "each rank\n",
			       h->kv_lora + h->rope);
	bb_strbuf_add(&job->text, "# not counted: activations, CUDA, buffers of libraries\n");
}

bb_status bb_calculate_infer(struct job *job)
{
	const struct options *o = job->o;
	const struct bb_hyper *h = &job->model.hyper;
	const uint64_t tp = (uint64_t)o->tp;
	const unsigned cache_bits = (unsigned)o->cache_bits;
	struct inference p = {.has_cache = false};
	struct bb_json *j = &job->json;
	bb_status st;

	BB_TRY(st, bb_job_open_model(job), out);
	if (o->context_given && job->has_model && job->model.encoder)
		return bb_fail(job->error, BB_EUSAGE,
			       "--context %jd: %s is an encoder, which reads all tokens at once "
			       "and keeps no keys and values; leave it out",
			       o->context, job->model.name);
	if (o->context_given && h->heads == 0)
		return bb_fail(job->error, BB_EUSAGE,
			       "--context %jd: a cache is known only for transformers; give one "
			       "with --model",
			       o->context);
	if (h->heads % o->tp)
		return bb_fail(job->error, BB_EUSAGE, "--tp %jd: does not divide the %jd heads",
			       o->tp, h->heads);
	const uint64_t share = bb_partition(job->parameters, tp);
	p.weights = bb_weight_bytes(share, (unsigned)o->bits);
	p.rule = bb_serving_rule(share, (unsigned)o->bits);
	p.billions = (job->parameters + 500000000) / 1000000000;
	p.has_cache = job->has_model && h->heads > 0 && !job->model.encoder;
	if (p.has_cache) {
		p.context = (uint64_t)(o->context_given ? o->context : h->seq);
		p.token = bb_cache_bytes(bb_cache_numbers(&job->model, tp, 1), 1, cache_bits);
		p.cache = bb_cache_bytes(bb_cache_numbers(&job->model, tp, p.context),
					 (uint64_t)o->batch, cache_bits);
	}
	if (p.cache == UINT64_MAX)
		return bb_fail(
			job->error, BB_EUSAGE,
			"--context %ju: the bytes exceed 64 bits; give fewer tokens or sequences",
			p.context);
	add_inference_text(job, &p);
	bb_json_add_int(j, "bits", o->bits);
	bb_json_add_int(j, "tp", o->tp);
	bb_json_add_uint(j, "weights_bytes", p.weights);
	bb_json_add_uint(j, "rule_bytes", p.rule);
	bb_job_add_known(j, "rounded_billions", p.billions > 0, p.billions);
	bb_job_add_known(j, "cache_bits", p.has_cache, (uint64_t)o->cache_bits);
	bb_job_add_known(j, "batch", p.has_cache, (uint64_t)o->batch);
	bb_job_add_known(j, "context", p.has_cache, p.context);
	bb_job_add_known(j, "token_bytes", p.has_cache, p.token);
	bb_job_add_known(j, "cache_bytes", p.has_cache, p.cache);
	bb_job_add_known(j, "total_bytes", p.has_cache, bb_bytes_add(p.weights, p.cache));
out:
	return st;
}

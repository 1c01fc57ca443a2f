/*
 * transformer.c - transformers, their tensors named and ordered as Hugging Face's transformers
 * registers them.
 *
 * FLOPs of a sequence of s tokens: a product with a matrix of in x out costs 2 s in out. Attention
 * costs 4 s² (heads x width of a head), scores and weighted sum together; a causal mask saves
 * nothing. For heads x width = h and a feed-forward network of 4 h a block costs s h (24 h + 4 s),
 * as in Qi et al. 2023 (arXiv 2401.10241), table 1.
 */
#include "models/parts.h"

#include <stdio.h>

#define PREFIX 40

/* Prefix of the names of a block's tensors: "transformer.h.3." */
struct prefix {
	char text[PREFIX];
};

static struct prefix begin_block(struct bb_builder *b, const char *before, int64_t block)
{
	struct prefix prefix;

	b->layer = (int)block;
	snprintf(prefix.text, sizeof(prefix.text), "%s.%lld.", before, (long long)block);
	return prefix;
}

static void begin_end(struct bb_builder *b)
{
	b->layer = b->model->blocks = (int)b->model->hyper.layers;
}

/* A linear layer, applied to TOKENS tokens of a sample. */
static void linear(struct bb_builder *b, double tokens, int64_t in, int64_t out, bool bias,
		   const char *prefix, const char *name)
{
	bb_build_product(b, 2 * tokens * (double)in * (double)out, true);
	bb_build_tensor(b, (uint64_t)out, (uint64_t)in, "%s%s.weight", prefix, name);
	if (bias)
		bb_build_tensor(b, (uint64_t)out, 1, "%s%s.bias", prefix, name);
}

static void norm(struct bb_builder *b, const char *prefix, const char *name)
{
	const uint64_t hidden = (uint64_t)b->model->hyper.hidden;

	bb_build_light(b);
	bb_build_tensor(b, hidden, 1, "%s%s.weight", prefix, name);
	bb_build_tensor(b, hidden, 1, "%s%s.bias", prefix, name);
}

static void attention(struct bb_builder *b)
{
	const struct bb_hyper *h = &b->model->hyper;
	const double s = (double)h->seq;

	bb_build_attention(b, 4 * s * s * (double)h->heads * (double)h->head_dim);
}

/* The projection to logits. Tied weights have no tensor of their own: the embedding completes their
   gradient. */
static void head(struct bb_builder *b)
{
	const struct bb_hyper *h = &b->model->hyper;

	b->model->logits = true;
	if (h->tied)
		bb_build_product(b, 2.0 * (double)h->seq * (double)h->hidden * (double)h->vocab,
				 true);
	else
		linear(b, (double)h->seq, h->hidden, h->vocab, false, "", "lm_head");
}

/* ---- gpt2 and bloom: one matrix for queries, keys and values, biases everywhere ------ */

/* Names of a block's parts, in order. */
struct decoder_names {
	const char *norm_1, *qkv, *out, *norm_2, *up, *down;
};

static void decoder_block(struct bb_builder *b, const char *prefix, const struct decoder_names *n)
{
	const struct bb_hyper *h = &b->model->hyper;
	const double s = (double)h->seq;

	norm(b, prefix, n->norm_1);
	linear(b, s, h->hidden, 3 * h->hidden, true, prefix, n->qkv);
	attention(b);
	linear(b, s, h->hidden, h->hidden, true, prefix, n->out);
	norm(b, prefix, n->norm_2);
	linear(b, s, h->hidden, h->ffn, true, prefix, n->up);
	linear(b, s, h->ffn, h->hidden, true, prefix, n->down);
}

static void decoder(struct bb_builder *b, const struct decoder_names *names)
{
	for (int64_t i = 0; i < b->model->hyper.layers; i++) {
		const struct prefix p = begin_block(b, "transformer.h", i);

		decoder_block(b, p.text, names);
	}
	begin_end(b);
	norm(b, "transformer.", "ln_f");
	head(b);
}

void bb_build_gpt2(struct bb_builder *b)
{
	static const struct decoder_names names = {"ln_1", "attn.c_attn", "attn.c_proj",
						   "ln_2", "mlp.c_fc",    "mlp.c_proj"};
	const struct bb_hyper *h = &b->model->hyper;

	bb_build_light(b);
	bb_build_tensor(b, (uint64_t)h->vocab, (uint64_t)h->hidden, "transformer.wte.weight");
	bb_build_tensor(b, (uint64_t)h->positions, (uint64_t)h->hidden, "transformer.wpe.weight");
	decoder(b, &names);
}

void bb_build_bloom(struct bb_builder *b)
{
	static const struct decoder_names names = {
		"input_layernorm",      "self_attention.query_key_value",
		"self_attention.dense", "post_attention_layernorm",
		"mlp.dense_h_to_4h",    "mlp.dense_4h_to_h"};
	const struct bb_hyper *h = &b->model->hyper;

	bb_build_light(b);
	bb_build_tensor(b, (uint64_t)h->vocab, (uint64_t)h->hidden,
			"transformer.word_embeddings.weight");
	norm(b, "transformer.", "word_embeddings_layernorm");
	decoder(b, &names);
}

/* ---- bert ---------------------------------------------------------------------------- */

static void bert_block(struct bb_builder *b, const char *prefix)
{
	const struct bb_hyper *h = &b->model->hyper;
	const double s = (double)h->seq;

	linear(b, s, h->hidden, h->hidden, true, prefix, "attention.self.query");
	linear(b, s, h->hidden, h->hidden, true, prefix, "attention.self.key");
	linear(b, s, h->hidden, h->hidden, true, prefix, "attention.self.value");
	attention(b);
	linear(b, s, h->hidden, h->hidden, true, prefix, "attention.output.dense");
	norm(b, prefix, "attention.output.LayerNorm");
	linear(b, s, h->hidden, h->ffn, true, prefix, "intermediate.dense");
	linear(b, s, h->ffn, h->hidden, true, prefix, "output.dense");
	norm(b, prefix, "output.LayerNorm");
}

/* The encoder and its pooler, which reads only the first token. */
void bb_build_bert(struct bb_builder *b)
{
	const struct bb_hyper *h = &b->model->hyper;
	const uint64_t hidden = (uint64_t)h->hidden;

	b->model->encoder = true;
	bb_build_light(b);
	bb_build_tensor(b, (uint64_t)h->vocab, hidden, "embeddings.word_embeddings.weight");
	bb_build_tensor(b, (uint64_t)h->positions, hidden, "embeddings.position_embeddings.weight");
	bb_build_tensor(b, (uint64_t)h->types, hidden, "embeddings.token_type_embeddings.weight");
	norm(b, "embeddings.", "LayerNorm");
	for (int64_t i = 0; i < h->layers; i++) {
		const struct prefix p = begin_block(b, "encoder.layer", i);

		bert_block(b, p.text);
	}
	begin_end(b);
	linear(b, 1, h->hidden, h->hidden, true, "", "pooler.dense");
}

/* ---- llama, mistral, mixtral: gated, no biases, norms registered last ---------------- */

/* The experts' matrices stacked, as transformers 5 registers them (MixtralExperts). */
static void fused_experts(struct bb_builder *b, const char *prefix)
{
	const struct bb_hyper *h = &b->model->hyper;
	const uint64_t hidden = (uint64_t)h->hidden, ffn = (uint64_t)h->ffn;
	const double tokens = (double)h->seq * (double)h->top_k;

	linear(b, (double)h->seq, h->hidden, h->experts, false, prefix, "mlp.gate");
	b->expert = true;
	b->matrices = (uint64_t)h->experts;
	bb_build_product(b, 6 * tokens * (double)h->hidden * (double)h->ffn, true);
	bb_build_tensor(b, 2 * ffn, hidden, "%smlp.experts.gate_up_proj", prefix);
	bb_build_tensor(b, hidden, ffn, "%smlp.experts.down_proj", prefix);
	b->matrices = 0;
	b->expert = false;
}

/* A router and its experts, as transformers 4 registers them (MixtralSparseMoeBlock). Each expert
   gets an equal share of the tokens, each of which goes to top_k experts. */
static void experts(struct bb_builder *b, const char *prefix)
{
	const struct bb_hyper *h = &b->model->hyper;
	const uint64_t hidden = (uint64_t)h->hidden, ffn = (uint64_t)h->ffn;
	const double tokens = (double)h->seq * (double)h->top_k / (double)h->experts;

	linear(b, (double)h->seq, h->hidden, h->experts, false, prefix, "block_sparse_moe.gate");
	b->expert = true;
	for (long long e = 0; e < h->experts && b->status == BB_OK; e++) {
		bb_build_product(b, 6 * tokens * (double)h->hidden * (double)h->ffn, true);
		bb_build_tensor(b, ffn, hidden, "%sblock_sparse_moe.experts.%lld.w1.weight", prefix,
				e);
		bb_build_tensor(b, hidden, ffn, "%sblock_sparse_moe.experts.%lld.w2.weight", prefix,
				e);
		bb_build_tensor(b, ffn, hidden, "%sblock_sparse_moe.experts.%lld.w3.weight", prefix,
				e);
	}
	b->expert = false;
}

static void llama_block(struct bb_builder *b, const char *prefix)
{
	const struct bb_hyper *h = &b->model->hyper;
	const int64_t q = h->heads * h->head_dim, kv = h->kv_heads * h->head_dim;
	const double s = (double)h->seq;
	const size_t norm_1 = b->model->nworks;
	size_t norm_2;

	bb_build_light(b);
	linear(b, s, h->hidden, q, false, prefix, "self_attn.q_proj");
	linear(b, s, h->hidden, kv, false, prefix, "self_attn.k_proj");
	linear(b, s, h->hidden, kv, false, prefix, "self_attn.v_proj");
	attention(b);
	linear(b, s, q, h->hidden, false, prefix, "self_attn.o_proj");
	norm_2 = b->model->nworks;
	bb_build_light(b);
	if (h->experts && h->fused) {
		fused_experts(b, prefix);
	} else if (h->experts) {
		experts(b, prefix);
	} else {
		linear(b, s, h->hidden, h->ffn, false, prefix, "mlp.gate_proj");
		linear(b, s, h->hidden, h->ffn, false, prefix, "mlp.up_proj");
		linear(b, s, h->ffn, h->hidden, false, prefix, "mlp.down_proj");
	}
	bb_build_tensor(b, (uint64_t)h->hidden, 1, "%sinput_layernorm.weight", prefix);
	bb_build_set_work(b, norm_1);
	bb_build_tensor(b, (uint64_t)h->hidden, 1, "%spost_attention_layernorm.weight", prefix);
	bb_build_set_work(b, norm_2);
}

void bb_build_llama(struct bb_builder *b)
{
	const struct bb_hyper *h = &b->model->hyper;

	b->model->gated = true;
	bb_build_light(b);
	bb_build_tensor(b, (uint64_t)h->vocab, (uint64_t)h->hidden, "model.embed_tokens.weight");
	for (int64_t i = 0; i < h->layers && b->status == BB_OK; i++) {
		const struct prefix p = begin_block(b, "model.layers", i);

		llama_block(b, p.text);
	}
	begin_end(b);
	bb_build_light(b);
	bb_build_tensor(b, (uint64_t)h->hidden, 1, "model.norm.weight");
	head(b);
}

/*
 * decoders.c - families of models: the parts of their blocks as Hugging Face's transformers
 * registers them, and the hyperparameters that each family has. A table stands in the order of
 * registration; BB_AT_… is the place of a part in the forward pass.
 */
#include "models/parts.h"

#define PART(kind_, name_, at_, rows_, columns_, ...)                                              \
	{                                                                                          \
		.name = name_, .kind = BB_PART_##kind_, .at = BB_AT_##at_,                         \
		.rows = BB_SIZE_##rows_, .columns = BB_SIZE_##columns_, ##__VA_ARGS__              \
	}
#define MATRIX(name, at, rows, columns, ...) PART(MATRIX, name, at, rows, columns, ##__VA_ARGS__)
#define EXPERT(name, of_, at, rows, columns)                                                       \
	PART(EXPERT, name, at, rows, columns, .of = of_, NEEDS(BB_HAS_MOE), LACKS(BB_HAS_FUSED))
#define RMS(name, at, rows, ...) PART(NORM, name, at, rows, ONE, ##__VA_ARGS__)
#define NORM(name, at, ...) PART(NORM, name, at, HIDDEN, ONE, BIAS, ##__VA_ARGS__)
#define BIAS .bias = BB_HAS_ALWAYS
#define MAY_BIAS .bias = BB_HAS_BIAS
#define MAY_MLP_BIAS .bias = BB_HAS_MLP_BIAS
#define NEEDS(traits) .needs = (traits)
#define LACKS(traits) .lacks = (traits)

/* A table of parts, which ends with one without a name. */
#define PARTS(table) static const struct bb_model_part table[BB_MODEL_PARTS + 1]

/* ---- the llama kind: gated, norms registered last ------------------------------------------- */

#define QUERIES_KEYS_VALUES                                                                        \
	MATRIX("self_attn.q_proj", Q, QUERIES, HIDDEN, LACKS(BB_HAS_MLA), MAY_BIAS),               \
		MATRIX("self_attn.k_proj", K, KEYS, HIDDEN, LACKS(BB_HAS_MLA), MAY_BIAS),          \
		MATRIX("self_attn.v_proj", V, KEYS, HIDDEN, LACKS(BB_HAS_MLA), MAY_BIAS)
#define LATENT                                                                                     \
	MATRIX("self_attn.q_proj", Q, QUERIES, HIDDEN, NEEDS(BB_HAS_MLA), LACKS(BB_HAS_Q_LORA)),   \
		MATRIX("self_attn.q_a_proj", Q, Q_LORA, HIDDEN, NEEDS(BB_HAS_Q_LORA), MAY_BIAS),   \
		RMS("self_attn.q_a_layernorm", Q, Q_LORA, NEEDS(BB_HAS_Q_LORA)),                   \
		MATRIX("self_attn.q_b_proj", Q, QUERIES, Q_LORA, NEEDS(BB_HAS_Q_LORA)),            \
		MATRIX("self_attn.kv_a_proj_with_mqa", K, KV_DOWN, HIDDEN, NEEDS(BB_HAS_MLA),      \
		       MAY_BIAS),                                                                  \
		RMS("self_attn.kv_a_layernorm", K, KV_LORA, NEEDS(BB_HAS_MLA)),                    \
		MATRIX("self_attn.kv_b_proj", K, KV_UP, KV_LORA, NEEDS(BB_HAS_MLA))
#define OUTPUT(...) MATRIX("self_attn.o_proj", OUT, HIDDEN, OUTPUTS, ##__VA_ARGS__)
#define GATED_MLP(mlp)                                                                             \
	MATRIX(mlp ".gate_proj", UP, FFN, HIDDEN, NEEDS(BB_HAS_GATE), LACKS(BB_HAS_MOE),           \
	       MAY_MLP_BIAS),                                                                      \
		MATRIX(mlp ".up_proj", UP, FFN, HIDDEN, LACKS(BB_HAS_MOE), MAY_MLP_BIAS),          \
		MATRIX(mlp ".down_proj", DOWN, HIDDEN, FFN, LACKS(BB_HAS_MOE), MAY_MLP_BIAS)
#define ROUTER(name, ...) MATRIX(name, ROUTER, EXPERTS, HIDDEN, NEEDS(BB_HAS_MOE), ##__VA_ARGS__)
#define FUSED (BB_HAS_MOE | BB_HAS_FUSED)
#define STACKED_EXPERTS                                                                            \
	PART(STACK, "mlp.experts.gate_up_proj", UP, EXPERT_2, HIDDEN, NEEDS(FUSED)),               \
		PART(STACK, "mlp.experts.down_proj", DOWN, HIDDEN, EXPERT, NEEDS(FUSED))
#define SEPARATE_EXPERTS                                                                           \
	EXPERT("mlp.experts", "gate_proj", UP, EXPERT, HIDDEN),                                    \
		EXPERT("mlp.experts", "up_proj", UP, EXPERT, HIDDEN),                              \
		EXPERT("mlp.experts", "down_proj", UP, HIDDEN, EXPERT)
#define SHARED_EXPERT(name, at)                                                                    \
	MATRIX(name ".gate_proj", at, SHARED, HIDDEN, NEEDS(BB_HAS_MOE | BB_HAS_SHARED)),          \
		MATRIX(name ".up_proj", at, SHARED, HIDDEN, NEEDS(BB_HAS_MOE | BB_HAS_SHARED)),    \
		MATRIX(name ".down_proj", at, HIDDEN, SHARED, NEEDS(BB_HAS_MOE | BB_HAS_SHARED))
#define TWO_NORMS                                                                                  \
	RMS("input_layernorm", NORM, HIDDEN), RMS("post_attention_layernorm", MIDDLE, HIDDEN)
PARTS(embed_tokens) = {PART(TABLE, "embed_tokens", NORM, VOCAB, HIDDEN)};
PARTS(last_rms) = {RMS("norm", NORM, HIDDEN)};

PARTS(llama_block) = {
	QUERIES_KEYS_VALUES,
	LATENT,
	OUTPUT(MAY_BIAS),
	RMS("self_attn.q_norm", Q_NORM, HEAD, NEEDS(BB_HAS_QK_NORM), LACKS(BB_HAS_POST_NORMS)),
	RMS("self_attn.k_norm", K_NORM, HEAD, NEEDS(BB_HAS_QK_NORM), LACKS(BB_HAS_POST_NORMS)),
	RMS("self_attn.q_norm", QK_NORM, HEAD, NEEDS(BB_HAS_QK_NORM | BB_HAS_POST_NORMS)),
	RMS("self_attn.k_norm", QK_NORM, HEAD, NEEDS(BB_HAS_QK_NORM | BB_HAS_POST_NORMS)),
	GATED_MLP("mlp"),
	MATRIX("mlp.gate", ROUTER, EXPERTS, HIDDEN, NEEDS(BB_HAS_MOE), LACKS(BB_HAS_FUSED)),
	STACKED_EXPERTS,
	MATRIX("mlp.gate", ROUTER, EXPERTS, HIDDEN, NEEDS(FUSED)),
	SEPARATE_EXPERTS,
	SHARED_EXPERT("mlp.shared_experts", SHARED),
	TWO_NORMS,
	RMS("pre_feedforward_layernorm", MIDDLE, HIDDEN, NEEDS(BB_HAS_POST_NORMS)),
	RMS("post_feedforward_layernorm", END, HIDDEN, NEEDS(BB_HAS_POST_NORMS))};

PARTS(qwen_block) = {
	QUERIES_KEYS_VALUES,
	OUTPUT(),
	GATED_MLP("mlp"),
	ROUTER("mlp.gate"),
	STACKED_EXPERTS,
	SEPARATE_EXPERTS,
	SHARED_EXPERT("mlp.shared_expert", SHARED_FIRST),
	MATRIX("mlp.shared_expert_gate", SHARED, ONE, HIDDEN, NEEDS(BB_HAS_MOE | BB_HAS_SHARED)),
	TWO_NORMS};

PARTS(mixtral_block) = {
	QUERIES_KEYS_VALUES,
	OUTPUT(),
	MATRIX("mlp.gate", ROUTER, EXPERTS, HIDDEN, NEEDS(BB_HAS_FUSED)),
	STACKED_EXPERTS,
	MATRIX("block_sparse_moe.gate", ROUTER, EXPERTS, HIDDEN, LACKS(BB_HAS_FUSED)),
	EXPERT("block_sparse_moe.experts", "w1", UP, EXPERT, HIDDEN),
	EXPERT("block_sparse_moe.experts", "w2", UP, HIDDEN, EXPERT),
	EXPERT("block_sparse_moe.experts", "w3", UP, EXPERT, HIDDEN),
	TWO_NORMS};

PARTS(deepseek_block) = {LATENT,
			 OUTPUT(MAY_BIAS),
			 GATED_MLP("mlp"),
			 STACKED_EXPERTS,
			 SEPARATE_EXPERTS,
			 ROUTER("mlp.gate"),
			 SHARED_EXPERT("mlp.shared_experts", SHARED),
			 TWO_NORMS};

PARTS(llama4_block) = {
	QUERIES_KEYS_VALUES,
	OUTPUT(MAY_BIAS),
	GATED_MLP("feed_forward"),
	PART(STACK, "feed_forward.experts.gate_up_proj", UP, HIDDEN, EXPERT_2, NEEDS(BB_HAS_MOE)),
	PART(STACK, "feed_forward.experts.down_proj", DOWN, EXPERT, HIDDEN, NEEDS(BB_HAS_MOE)),
	ROUTER("feed_forward.router"),
	SHARED_EXPERT("feed_forward.shared_expert", SHARED),
	TWO_NORMS};

PARTS(gpt_oss_block) = {
	PART(TENSOR, "self_attn.sinks", CORE, HEADS, ONE),
	QUERIES_KEYS_VALUES,
	OUTPUT(MAY_BIAS),
	ROUTER("mlp.router", BIAS),
	PART(STACK, "mlp.experts.gate_up_proj", UP, HIDDEN, EXPERT_2, NEEDS(BB_HAS_MOE)),
	PART(STACKED_BIAS, "mlp.experts.gate_up_proj_bias", UP_BIAS, EXPERTS, EXPERT_2,
	     NEEDS(BB_HAS_MOE)),
	PART(STACK, "mlp.experts.down_proj", DOWN, EXPERT, HIDDEN, NEEDS(BB_HAS_MOE)),
	PART(STACKED_BIAS, "mlp.experts.down_proj_bias", DOWN_BIAS, EXPERTS, HIDDEN,
	     NEEDS(BB_HAS_MOE)),
	TWO_NORMS};

PARTS(phi3_block) = {OUTPUT(), MATRIX("self_attn.qkv_proj", Q, QKV, HIDDEN),
		     MATRIX("mlp.gate_up_proj", UP, FFN_2, HIDDEN),
		     MATRIX("mlp.down_proj", DOWN, HIDDEN, FFN), TWO_NORMS};

/* ---- the gpt2 kind: one matrix for queries, keys and values ---------------------------------- */

PARTS(gpt2_embed) = {PART(TABLE, "wte", NORM, VOCAB, HIDDEN),
		     PART(TABLE, "wpe", NORM, POSITIONS, HIDDEN)};
PARTS(gpt2_block) = {NORM("ln_1", NORM),
		     PART(TRANSPOSED, "attn.c_attn", Q, QKV, HIDDEN, BIAS),
		     PART(TRANSPOSED, "attn.c_proj", OUT, HIDDEN, OUTPUTS, BIAS),
		     NORM("ln_2", MIDDLE),
		     PART(TRANSPOSED, "mlp.c_fc", UP, FFN, HIDDEN, BIAS),
		     PART(TRANSPOSED, "mlp.c_proj", DOWN, HIDDEN, FFN, BIAS)};
PARTS(ln_f) = {NORM("ln_f", NORM)};

PARTS(bloom_embed) = {PART(TABLE, "word_embeddings", NORM, VOCAB, HIDDEN),
		      NORM("word_embeddings_layernorm", NORM)};
PARTS(bloom_block) = {NORM("input_layernorm", NORM),
		      MATRIX("self_attention.query_key_value", Q, QKV, HIDDEN, BIAS),
		      MATRIX("self_attention.dense", OUT, HIDDEN, OUTPUTS, BIAS),
		      NORM("post_attention_layernorm", MIDDLE),
		      MATRIX("mlp.dense_h_to_4h", UP, FFN, HIDDEN, BIAS),
		      MATRIX("mlp.dense_4h_to_h", DOWN, HIDDEN, FFN, BIAS)};

PARTS(gpt_neox_embed) = {PART(TABLE, "embed_in", NORM, VOCAB, HIDDEN)};
PARTS(gpt_neox_block) = {NORM("input_layernorm", NORM),
			 NORM("post_attention_layernorm", MIDDLE),
			 MATRIX("attention.query_key_value", Q, QKV, HIDDEN, MAY_BIAS),
			 MATRIX("attention.dense", OUT, HIDDEN, OUTPUTS, MAY_BIAS),
			 MATRIX("mlp.dense_h_to_4h", UP, FFN, HIDDEN, BIAS),
			 MATRIX("mlp.dense_4h_to_h", DOWN, HIDDEN, FFN, BIAS)};
PARTS(gpt_neox_norm) = {NORM("final_layer_norm", NORM)};

PARTS(falcon_embed) = {PART(TABLE, "word_embeddings", NORM, VOCAB, HIDDEN)};
PARTS(falcon_block) = {
	MATRIX("self_attention.query_key_value", Q, QKV, HIDDEN, MAY_BIAS),
	MATRIX("self_attention.dense", OUT, HIDDEN, OUTPUTS, MAY_BIAS),
	MATRIX("mlp.dense_h_to_4h", UP, FFN, HIDDEN, MAY_BIAS),
	MATRIX("mlp.dense_4h_to_h", DOWN, HIDDEN, FFN, MAY_BIAS),
	NORM("ln_attn", NORM, NEEDS(BB_HAS_TWO_NORMS)),
	NORM("ln_mlp", NORM, NEEDS(BB_HAS_TWO_NORMS)),
	NORM("post_attention_layernorm", MIDDLE, LACKS(BB_HAS_TWO_NORMS | BB_HAS_PARALLEL)),
	NORM("input_layernorm", NORM, LACKS(BB_HAS_TWO_NORMS))};

/* The last norm and the projection behind it are registered before the blocks. */
PARTS(opt_embed) = {PART(TABLE, "embed_tokens", NORM, VOCAB, EMBEDDING),
		    PART(TABLE, "embed_positions", NORM, SLOTS, HIDDEN),
		    MATRIX("project_out", BEHIND, EMBEDDING, HIDDEN, NEEDS(BB_HAS_PROJECTION)),
		    MATRIX("project_in", Q, HIDDEN, EMBEDDING, NEEDS(BB_HAS_PROJECTION)),
		    NORM("final_layer_norm", BEHIND, NEEDS(BB_HAS_PRE_NORM))};
PARTS(opt_block) = {MATRIX("self_attn.k_proj", K, QUERIES, HIDDEN, MAY_BIAS),
		    MATRIX("self_attn.v_proj", V, QUERIES, HIDDEN, MAY_BIAS),
		    MATRIX("self_attn.q_proj", Q, QUERIES, HIDDEN, MAY_BIAS),
		    MATRIX("self_attn.out_proj", OUT, HIDDEN, QUERIES, MAY_BIAS),
		    NORM("self_attn_layer_norm", NORM, NEEDS(BB_HAS_PRE_NORM)),
		    NORM("self_attn_layer_norm", MIDDLE, LACKS(BB_HAS_PRE_NORM)),
		    MATRIX("fc1", UP, FFN, HIDDEN, MAY_BIAS),
		    MATRIX("fc2", DOWN, HIDDEN, FFN, MAY_BIAS),
		    NORM("final_layer_norm", MIDDLE, NEEDS(BB_HAS_PRE_NORM)),
		    NORM("final_layer_norm", END, LACKS(BB_HAS_PRE_NORM))};

/* ---- encoders, and an encoder with a decoder ------------------------------------------------ */

PARTS(bert_embed) = {PART(TABLE, "embeddings.word_embeddings", NORM, VOCAB, HIDDEN),
		     PART(TABLE, "embeddings.position_embeddings", K, POSITIONS, HIDDEN),
		     PART(TABLE, "embeddings.token_type_embeddings", Q, TYPES, HIDDEN),
		     NORM("embeddings.LayerNorm", END)};
PARTS(bert_block) = {MATRIX("attention.self.query", Q, QUERIES, HIDDEN, BIAS),
		     MATRIX("attention.self.key", K, QUERIES, HIDDEN, BIAS),
		     MATRIX("attention.self.value", V, QUERIES, HIDDEN, BIAS),
		     MATRIX("attention.output.dense", OUT, HIDDEN, QUERIES, BIAS),
		     NORM("attention.output.LayerNorm", MIDDLE),
		     MATRIX("intermediate.dense", UP, FFN, HIDDEN, BIAS),
		     MATRIX("output.dense", DOWN, HIDDEN, FFN, BIAS),
		     NORM("output.LayerNorm", END)};
PARTS(bert_pooler) = {
	MATRIX("pooler.dense", Q, HIDDEN, HIDDEN, .once = true, NEEDS(BB_HAS_POOLER), BIAS)};
PARTS(bert_heads) = {
	PART(TENSOR, "cls.predictions.bias", OUT, VOCAB, ONE, NEEDS(BB_HAS_LM)),
	MATRIX("cls.predictions.transform.dense", NORM, HIDDEN, HIDDEN, NEEDS(BB_HAS_LM), BIAS),
	NORM("cls.predictions.transform.LayerNorm", Q, NEEDS(BB_HAS_LM)),
	PART(PRODUCT, "cls.predictions.decoder", CORE, VOCAB, HIDDEN, NEEDS(BB_HAS_LM)),
	MATRIX("cls.seq_relationship", END, TWO, HIDDEN, .once = true, NEEDS(BB_HAS_NEXT), BIAS),
	MATRIX("classifier", END, LABELS, HIDDEN, .once = true, NEEDS(BB_HAS_CLASSES), BIAS),
	MATRIX("classifier", END, LABELS, HIDDEN, NEEDS(BB_HAS_SCORE), BIAS),
	MATRIX("classifier", END, ONE, HIDDEN, .once = true, NEEDS(BB_HAS_CHOICE), BIAS),
	MATRIX("qa_outputs", END, TWO, HIDDEN, NEEDS(BB_HAS_QUESTION), BIAS)};

PARTS(vit_embed) = {
	PART(TENSOR, "embeddings.cls_token", K, ONE, HIDDEN),
	PART(TENSOR, "embeddings.position_embeddings", V, POSITIONS, HIDDEN),
	PART(CONVOLUTION, "embeddings.patch_embeddings.projection", NORM, HIDDEN, PATCH, BIAS)};
PARTS(vit_block) = {MATRIX("attention.q_proj", Q, QUERIES, HIDDEN, MAY_BIAS),
		    MATRIX("attention.k_proj", K, QUERIES, HIDDEN, MAY_BIAS),
		    MATRIX("attention.v_proj", V, QUERIES, HIDDEN, MAY_BIAS),
		    MATRIX("attention.o_proj", OUT, HIDDEN, QUERIES, BIAS),
		    NORM("layernorm_before", NORM),
		    NORM("layernorm_after", MIDDLE),
		    MATRIX("mlp.fc1", UP, FFN, HIDDEN, BIAS),
		    MATRIX("mlp.fc2", DOWN, HIDDEN, FFN, BIAS)};
PARTS(vit_norm) = {NORM("layernorm", NORM), MATRIX("pooler.dense", Q, HIDDEN, HIDDEN, .once = true,
						   NEEDS(BB_HAS_POOLER), BIAS)};
PARTS(vit_heads) = {
	MATRIX("classifier", END, LABELS, HIDDEN, .once = true, NEEDS(BB_HAS_CLASSES), BIAS)};

/* ---- vision towers of models that read text, too; their heads are the projectors ------------ */

PARTS(siglip_embed) = {PART(CONVOLUTION, "embeddings.patch_embedding", NORM, HIDDEN, PATCH, BIAS),
		       PART(TABLE, "embeddings.position_embedding", Q, POSITIONS, HIDDEN)};
PARTS(siglip_block) = {NORM("layer_norm1", NORM),
		       MATRIX("self_attn.k_proj", K, QUERIES, HIDDEN, BIAS),
		       MATRIX("self_attn.v_proj", V, QUERIES, HIDDEN, BIAS),
		       MATRIX("self_attn.q_proj", Q, QUERIES, HIDDEN, BIAS),
		       MATRIX("self_attn.out_proj", OUT, HIDDEN, QUERIES, BIAS),
		       NORM("layer_norm2", MIDDLE),
		       MATRIX("mlp.fc1", UP, FFN, HIDDEN, BIAS),
		       MATRIX("mlp.fc2", DOWN, HIDDEN, FFN, BIAS)};
#define UNUSED(name, rows, columns)                                                                \
	PART(TENSOR, "head." name, Q, rows, columns, NEEDS(BB_HAS_POOLER))
/* Gemma 3 does not use the head. */
PARTS(siglip_norm) = {NORM("post_layernorm", NORM),
		      UNUSED("probe", ONE, HIDDEN),
		      UNUSED("attention.in_proj_weight", QKV, HIDDEN),
		      UNUSED("attention.in_proj_bias", QKV, ONE),
		      UNUSED("attention.out_proj.weight", HIDDEN, HIDDEN),
		      UNUSED("attention.out_proj.bias", HIDDEN, ONE),
		      UNUSED("layernorm.weight", HIDDEN, ONE),
		      UNUSED("layernorm.bias", HIDDEN, ONE),
		      UNUSED("mlp.fc1.weight", FFN, HIDDEN),
		      UNUSED("mlp.fc1.bias", FFN, ONE),
		      UNUSED("mlp.fc2.weight", HIDDEN, FFN),
		      UNUSED("mlp.fc2.bias", HIDDEN, ONE)};
PARTS(gemma3_projector) = {
	PART(RAW, "mm_input_projection_weight", UP, HIDDEN, EMBEDDING, .pooled = true),
	RMS("mm_soft_emb_norm", NORM, HIDDEN)};

PARTS(llama4_vision_embed) = {PART(TENSOR, "class_embedding", Q, HIDDEN, ONE),
			      PART(TENSOR, "positional_embedding_vlm", K, POSITIONS, HIDDEN),
			      MATRIX("patch_embedding.linear", NORM, HIDDEN, PATCH),
			      NORM("layernorm_pre", V), NORM("layernorm_post", BEHIND)};
PARTS(llama4_vision_block) = {MATRIX("self_attn.q_proj", Q, QUERIES, HIDDEN, BIAS),
			      MATRIX("self_attn.k_proj", K, QUERIES, HIDDEN, BIAS),
			      MATRIX("self_attn.v_proj", V, QUERIES, HIDDEN, BIAS),
			      MATRIX("self_attn.o_proj", OUT, HIDDEN, QUERIES, BIAS),
			      MATRIX("mlp.fc1", UP, FFN, HIDDEN, BIAS),
			      MATRIX("mlp.fc2", DOWN, HIDDEN, FFN, BIAS),
			      NORM("input_layernorm", NORM),
			      NORM("post_attention_layernorm", MIDDLE)};
PARTS(llama4_adapter) = {
	MATRIX("vision_adapter.mlp.fc1", UP, ADAPTER, FFN, .pooled = true),
	MATRIX("vision_adapter.mlp.fc2", DOWN, ADAPTER_OUT, ADAPTER_OUT, .pooled = true)};
PARTS(llama4_projector) = {MATRIX("linear_1", UP, EMBEDDING, VISION_OUT, .pooled = true)};

#define T5_ATTENTION(name, in, out)                                                                \
	MATRIX(name ".q", in, QUERIES, HIDDEN), MATRIX(name ".k", in, QUERIES, HIDDEN),            \
		MATRIX(name ".v", in, QUERIES, HIDDEN), MATRIX(name ".o", out, HIDDEN, QUERIES)
#define T5_RELATIVE                                                                                \
	PART(TABLE, "layer.0.SelfAttention.relative_attention_bias", CORE, BUCKETS, HEADS,         \
	     NEEDS(BB_HAS_FIRST))
#define T5_MLP(layer)                                                                              \
	MATRIX(layer ".DenseReluDense.wi", UP, FFN, HIDDEN, LACKS(BB_HAS_GATE)),                   \
		MATRIX(layer ".DenseReluDense.wi_0", UP, FFN, HIDDEN, NEEDS(BB_HAS_GATE)),         \
		MATRIX(layer ".DenseReluDense.wi_1", UP, FFN, HIDDEN, NEEDS(BB_HAS_GATE)),         \
		MATRIX(layer ".DenseReluDense.wo", DOWN, HIDDEN, FFN),                             \
		RMS(layer ".layer_norm", MIDDLE, HIDDEN)

PARTS(t5_embed) = {PART(TABLE, "shared", NORM, VOCAB, HIDDEN)};
PARTS(t5_encoder) = {T5_ATTENTION("layer.0.SelfAttention", Q, OUT), T5_RELATIVE,
		     RMS("layer.0.layer_norm", NORM, HIDDEN), T5_MLP("layer.1")};
PARTS(t5_decoder) = {T5_ATTENTION("layer.0.SelfAttention", Q, OUT),
		     T5_RELATIVE,
		     RMS("layer.0.layer_norm", NORM, HIDDEN),
		     T5_ATTENTION("layer.1.EncDecAttention", CROSS_IN, CROSS_OUT),
		     RMS("layer.1.layer_norm", CROSS_NORM, HIDDEN),
		     T5_MLP("layer.2")};
PARTS(t5_encoder_norm) = {RMS("encoder.final_layer_norm", NORM, HIDDEN)};
PARTS(t5_decoder_norm) = {RMS("decoder.final_layer_norm", NORM, HIDDEN)};

/* ---- heads ---------------------------------------------------------------------------------- */

PARTS(lm_heads) = {MATRIX("lm_head", NORM, VOCAB, EMBEDDING, NEEDS(BB_HAS_LM), LACKS(BB_HAS_TIED)),
		   PART(PRODUCT, "lm_head", NORM, VOCAB, EMBEDDING, NEEDS(BB_HAS_LM | BB_HAS_TIED)),
		   MATRIX("score", NORM, LABELS, EMBEDDING, NEEDS(BB_HAS_SCORE))};

static const struct bb_head decoder_heads[BB_MODEL_HEADS + 1] = {
	{"lm", {"ForCausalLM", "LMHeadModel"}, BB_HAS_LM, false},
	{"none", {"Model"}, 0, true},
	{"sequence", {"ForSequenceClassification"}, BB_HAS_SCORE, false},
};
static const struct bb_head t5_heads[BB_MODEL_HEADS + 1] = {
	{"lm", {"ForConditionalGeneration"}, BB_HAS_LM, false},
	{"none", {"Model"}, 0, true},
};
static const struct bb_head bert_classes[BB_MODEL_HEADS + 1] = {
	{"pooler", {"BertModel"}, BB_HAS_POOLER, true},
	{"pretraining", {"ForPreTraining"}, BB_HAS_POOLER | BB_HAS_LM | BB_HAS_NEXT, false},
	{"masked", {"ForMaskedLM"}, BB_HAS_LM, false},
	{"lm", {"LMHeadModel"}, BB_HAS_LM | BB_HAS_CAUSAL, false},
	{"next", {"ForNextSentencePrediction"}, BB_HAS_POOLER | BB_HAS_NEXT, false},
	{"sequence", {"ForSequenceClassification"}, BB_HAS_POOLER | BB_HAS_CLASSES, false},
	{"choice", {"ForMultipleChoice"}, BB_HAS_POOLER | BB_HAS_CHOICE, false},
	{"token", {"ForTokenClassification"}, BB_HAS_SCORE, false},
	{"question", {"ForQuestionAnswering"}, BB_HAS_QUESTION, false},
};
static const struct bb_head vit_classes[BB_MODEL_HEADS + 1] = {
	{"classes", {"ForImageClassification"}, BB_HAS_CLASSES, false},
	{"pooler", {"ViTModel"}, BB_HAS_POOLER, true},
};
static const struct bb_head vision_heads[BB_MODEL_HEADS + 1] = {
	{"lm", {"ForConditionalGeneration"}, BB_HAS_LM, false},
};
static const struct bb_head no_heads[BB_MODEL_HEADS + 1] = {{.word = "none"}};

/* ---- families ------------------------------------------------------------------------------- */

#define NEED(field) [BB_HYPER(field)] = BB_HYPER_NEEDED
#define MAY(field) [BB_HYPER(field)] = BB_HYPER_OPTIONAL
#define BASIC NEED(layers), NEED(hidden), NEED(heads), NEED(vocab), MAY(head)
#define TRANSFORMER BASIC, NEED(seq), MAY(tied), MAY(labels)
#define LLAMA TRANSFORMER, NEED(ffn), MAY(kv_heads), MAY(head_dim)
#define MOE NEED(experts), NEED(top_k), MAY(expert_ffn), MAY(fused)
#define LOCAL MAY(window), MAY(global_every)
#define MLA MAY(q_lora), NEED(kv_lora), NEED(nope), NEED(rope), NEED(value_dim)

#define LLAMA_KIND(block)                                                                          \
	.base = "model.", .before = embed_tokens, .stacks = {{"layers", block, last_rms}},         \
	.heads = lm_heads, .known = decoder_heads
#define GPT_KIND(embed, block)                                                                     \
	.base = "transformer.", .before = embed, .stacks = {{"h", block, ln_f}},                   \
	.heads = lm_heads, .known = decoder_heads

#define TOWER NEED(layers), NEED(hidden), NEED(heads), NEED(ffn), NEED(image), NEED(patch)

/* The configuration class in transformers, and its defaults: five that most have, and others. The
   vocabulary of DeepseekV2Config is left out: 32000 in version 4, 102400 in 5. */
#define CONFIG(name, layers, hidden, heads, vocab, seq, others)                                    \
	.class = name, .absent = "num_hidden_layers=" #layers " hidden_size=" #hidden              \
				 " num_attention_heads=" #heads " vocab_size=" #vocab              \
				 " max_position_embeddings=" #seq " " others

static const struct bb_family siglip_tower = {
	.name = "siglip_vision_model",
	.class = "SiglipVisionConfig",
	.absent = "num_hidden_layers=12 hidden_size=768 num_attention_heads=12 "
		  "intermediate_size=3072 image_size=224 patch_size=16 vision_use_head=1",
	.base = "model.vision_tower.",
	.before = siglip_embed,
	.stacks = {{"encoder.layers", siglip_block, siglip_norm}},
	.heads = gemma3_projector,
	.head_base = "model.multi_modal_projector.",
	.known = no_heads,
	.uses = {TOWER, MAY(pooled), MAY(vision_head), MAY(embedding)},
	.defaults = {.pooled = 256, .vision_head = 1},
};
static const struct bb_family llama4_tower = {
	.name = "llama4_vision_model",
	.class = "Llama4VisionConfig",
	.absent = "num_hidden_layers=34 hidden_size=768 num_attention_heads=16 "
		  "intermediate_size=5632 image_size=448 patch_size=14 projector_input_dim=4096 "
		  "projector_output_dim=4096 vision_output_dim=7680",
	.base = "vision_model.",
	.before = llama4_vision_embed,
	.stacks = {{"model.layers", llama4_vision_block, llama4_adapter}},
	.heads = llama4_projector,
	.head_base = "multi_modal_projector.",
	.known = no_heads,
	.traits = BB_HAS_CLASS_TOKEN,
	.uses = {TOWER, NEED(adapter), NEED(adapter_out), NEED(vision_out), MAY(embedding)},
};

#define LLAMA4                                                                                     \
	CONFIG("Llama4TextConfig", 48, 5120, 40, 202048, 131072,                                   \
	       "num_key_value_heads=8 head_dim=128 intermediate_size=8192 "                        \
	       "intermediate_size_mlp=16384 num_local_experts=16 num_experts_per_tok=1 "           \
	       "interleave_moe_layer_step=1 attention_chunk_size=8192 no_rope_layer_interval=4"),  \
		.traits = BB_HAS_GATE | BB_HAS_FUSED,                                              \
		.uses = {LLAMA,       NEED(experts),  MAY(top_k), NEED(expert_ffn),                \
			 MAY(shared), MAY(moe_every), MAY(bias),  LOCAL},                          \
		.defaults = {.shared = 1, .top_k = 1, .global_every = 4, .fused = 1},              \
		.keys = {{"intermediate_size", BB_HYPER(expert_ffn)},                              \
			 {"intermediate_size_mlp", BB_HYPER(ffn)}}
#define GEMMA3                                                                                     \
	CONFIG("Gemma3TextConfig", 26, 2304, 8, 262208, 131072,                                    \
	       "num_key_value_heads=4 head_dim=256 intermediate_size=9216 tie_word_embeddings=1 "  \
	       "sliding_window=4096"),                                                             \
		.traits = BB_HAS_GATE | BB_HAS_POST_NORMS | BB_HAS_QK_NORM,                        \
		.uses = {LLAMA, LOCAL, MAY(bias)}, .defaults = {.tied = 1, .global_every = 6}

const struct bb_family bb_families[] = {
	{"gpt2", "decoder with learned positions; kv and head width follow from heads",
	 GPT_KIND(gpt2_embed, gpt2_block), .uses = {TRANSFORMER, MAY(ffn), MAY(positions)},
	 .defaults = {.tied = 1}, .class = "GPT2Config",
	 .absent = "n_layer=12 n_embd=768 n_head=12 vocab_size=50257 n_positions=1024 "
		   "tie_word_embeddings=1"},
	{"bloom", "decoder with ALiBi and a norm behind the embedding",
	 GPT_KIND(bloom_embed, bloom_block), .uses = {TRANSFORMER, MAY(ffn)},
	 /* ALiBi has no limit, and transformers saves none; BLOOM was trained with 2048 (BigScience
	    2022). */
	 .defaults = {.tied = 1, .seq = 2048}, .class = "BloomConfig",
	 .absent = "n_layer=2 hidden_size=64 n_head=8 vocab_size=250880 tie_word_embeddings=1"},
	{"bert", "encoder; head=masked, pretraining, sequence and others", .base = "bert.",
	 .before = bert_embed, .stacks = {{"encoder.layer", bert_block, bert_pooler}},
	 .heads = bert_heads, .known = bert_classes, .encoder = true,
	 .uses = {BASIC, NEED(seq), MAY(ffn), MAY(positions), MAY(types), MAY(labels), MAY(tied)},
	 .defaults = {.types = 2, .labels = 2, .tied = 1},
	 CONFIG("BertConfig", 12, 768, 12, 30522, 512,
		"intermediate_size=3072 type_vocab_size=2 tie_word_embeddings=1")},
	{"llama", "decoder, gated, grouped keys and values; Llama 1 to 3", LLAMA_KIND(llama_block),
	 .traits = BB_HAS_GATE, .uses = {LLAMA, MAY(bias), MAY(mlp_bias)},
	 CONFIG("LlamaConfig", 32, 4096, 32, 32000, 2048, "intermediate_size=11008")},
	{"llama4_text", "Llama 4 without its vision: shared and fused experts, local layers",
	 LLAMA_KIND(llama4_block), LLAMA4},
	{"llama4", "Llama 4 with its vision tower; from a config.json alone",
	 .base = "language_model.model.", .before = embed_tokens,
	 .stacks = {{"layers", llama4_block, last_rms}}, .heads = lm_heads,
	 .head_base = "language_model.", .tower = &llama4_tower, .known = vision_heads, LLAMA4},
	{"mistral", "the same tensors as llama, local layers", LLAMA_KIND(llama_block),
	 .traits = BB_HAS_GATE, .uses = {LLAMA, LOCAL},
	 CONFIG("MistralConfig", 32, 4096, 32, 32000, 131072,
		"num_key_value_heads=8 intermediate_size=14336 sliding_window=4096")},
	{"mixtral",
	 "llama with experts, a module each as in transformers 4; fused=1: stacked as in 5",
	 LLAMA_KIND(mixtral_block), .traits = BB_HAS_GATE, .uses = {LLAMA, MOE, LOCAL},
	 CONFIG("MixtralConfig", 32, 4096, 32, 32000, 131072,
		"num_key_value_heads=8 intermediate_size=14336 num_local_experts=8 "
		"num_experts_per_tok=2")},
	{"qwen2", "llama with biases of queries, keys and values; Qwen 2 and 2.5",
	 LLAMA_KIND(qwen_block), .traits = BB_HAS_GATE | BB_HAS_BIAS, .uses = {LLAMA},
	 CONFIG("Qwen2Config", 32, 4096, 32, 151936, 32768,
		"num_key_value_heads=32 intermediate_size=22016")},
	{"qwen2_moe", "qwen2 with experts and a gated shared one", LLAMA_KIND(qwen_block),
	 .traits = BB_HAS_GATE,
	 .uses = {LLAMA, MOE, NEED(shared_ffn), MAY(dense), MAY(moe_every), MAY(bias)},
	 .defaults = {.bias = 1},
	 CONFIG("Qwen2MoeConfig", 24, 2048, 16, 151936, 32768,
		"num_key_value_heads=16 intermediate_size=5632 num_experts=60 "
		"num_experts_per_tok=4 moe_intermediate_size=1408 "
		"shared_expert_intermediate_size=5632 decoder_sparse_step=1 qkv_bias=1")},
	{"qwen3", "llama with norms of queries and keys", LLAMA_KIND(llama_block),
	 .traits = BB_HAS_GATE | BB_HAS_QK_NORM, .uses = {LLAMA, MAY(bias)},
	 CONFIG("Qwen3Config", 32, 4096, 32, 151936, 32768,
		"num_key_value_heads=32 head_dim=128 intermediate_size=22016")},
	{"qwen3_moe", "qwen3 with experts", LLAMA_KIND(llama_block),
	 .traits = BB_HAS_GATE | BB_HAS_QK_NORM,
	 .uses = {LLAMA, MOE, MAY(dense), MAY(moe_every), MAY(bias)},
	 CONFIG("Qwen3MoeConfig", 24, 2048, 32, 151936, 32768,
		"num_key_value_heads=4 intermediate_size=6144 num_experts=128 "
		"num_experts_per_tok=8 moe_intermediate_size=768 decoder_sparse_step=1")},
	{"gemma2", "llama with norms behind attention and feed-forward network; local layers",
	 LLAMA_KIND(llama_block), .traits = BB_HAS_GATE | BB_HAS_POST_NORMS,
	 .uses = {LLAMA, LOCAL, MAY(bias)}, .defaults = {.tied = 1, .global_every = 2},
	 CONFIG("Gemma2Config", 26, 2304, 8, 256000, 8192,
		"num_key_value_heads=4 head_dim=256 intermediate_size=9216 tie_word_embeddings=1 "
		"sliding_window=4096")},
	{"gemma3_text", "gemma2 with norms of queries and keys; Gemma 3 without its vision",
	 LLAMA_KIND(llama_block), GEMMA3},
	{"gemma3", "Gemma 3 with its vision tower; from a config.json alone",
	 .base = "model.language_model.", .before = embed_tokens,
	 .stacks = {{"layers", llama_block, last_rms}}, .heads = lm_heads, .tower = &siglip_tower,
	 .known = vision_heads, GEMMA3},
	{"deepseek_v2", "latent attention, dense blocks first, experts and shared ones",
	 LLAMA_KIND(deepseek_block), .traits = BB_HAS_GATE,
	 .uses = {TRANSFORMER, NEED(ffn), MOE, MLA, MAY(shared), MAY(dense), MAY(moe_every),
		  MAY(bias), MAY(mlp_bias)},
	 .class = "DeepseekV2Config",
	 .absent = "num_hidden_layers=32 hidden_size=4096 num_attention_heads=32 "
		   "max_position_embeddings=2048 intermediate_size=11008 n_routed_experts=64 "
		   "moe_intermediate_size=1407 n_shared_experts=2 first_k_dense_replace=0 "
		   "q_lora_rank=1536 kv_lora_rank=512 qk_nope_head_dim=128 qk_rope_head_dim=64 "
		   "v_head_dim=128"},
	{"deepseek_v3", "the same tensors as deepseek_v2", LLAMA_KIND(deepseek_block),
	 .traits = BB_HAS_GATE,
	 .uses = {TRANSFORMER, NEED(ffn), MOE, MLA, MAY(shared), MAY(dense), MAY(moe_every),
		  MAY(bias)},
	 CONFIG("DeepseekV3Config", 61, 7168, 128, 129280, 4096,
		"intermediate_size=18432 n_routed_experts=256 num_experts_per_tok=8 "
		"moe_intermediate_size=2048 n_shared_experts=1 first_k_dense_replace=3 "
		"q_lora_rank=1536 kv_lora_rank=512 qk_nope_head_dim=128 qk_rope_head_dim=64 "
		"v_head_dim=128")},
	{"gpt_oss", "experts in all blocks, biases, sinks; every second layer is local",
	 LLAMA_KIND(gpt_oss_block), .traits = BB_HAS_GATE | BB_HAS_FUSED,
	 .uses = {LLAMA, NEED(experts), NEED(top_k), MAY(bias), LOCAL},
	 .defaults = {.bias = 1, .global_every = 2, .fused = 1},
	 CONFIG("GptOssConfig", 36, 2880, 64, 201088, 131072,
		"num_key_value_heads=8 head_dim=64 intermediate_size=2880 num_local_experts=128 "
		"num_experts_per_tok=4 sliding_window=128 attention_bias=1")},
	{"phi3", "llama with queries, keys and values in one matrix, gate and up in another",
	 LLAMA_KIND(phi3_block), .traits = BB_HAS_GATE, .uses = {LLAMA, LOCAL},
	 CONFIG("Phi3Config", 32, 3072, 32, 32064, 4096, "intermediate_size=8192")},
	{"gpt_neox", "decoder with biases; GPT-NeoX and Pythia", .base = "gpt_neox.",
	 .before = gpt_neox_embed, .stacks = {{"layers", gpt_neox_block, gpt_neox_norm}},
	 .heads = lm_heads, .known = decoder_heads, .uses = {TRANSFORMER, MAY(ffn), MAY(bias)},
	 .defaults = {.bias = 1},
	 CONFIG("GPTNeoXConfig", 44, 6144, 64, 50432, 2048,
		"intermediate_size=24576 attention_bias=1")},
	{"opt", "decoder with biases and learned positions", .base = "model.decoder.",
	 .before = opt_embed, .stacks = {{"layers", opt_block, NULL}}, .heads = lm_heads,
	 .known = decoder_heads,
	 .uses = {TRANSFORMER, MAY(ffn), MAY(positions), MAY(embedding), MAY(pre_norm), MAY(bias)},
	 .defaults = {.tied = 1, .pre_norm = 1, .bias = 1},
	 CONFIG("OPTConfig", 12, 768, 12, 50272, 2048,
		"ffn_dim=3072 tie_word_embeddings=1 enable_bias=1 do_layer_norm_before=1")},
	{"falcon", "decoder; multi_query=1 as 7B, two_norms=1 with kv as 40B",
	 GPT_KIND(falcon_embed, falcon_block),
	 .uses = {TRANSFORMER, MAY(ffn), MAY(kv_heads), MAY(multi_query), MAY(two_norms),
		  MAY(parallel), MAY(bias)},
	 .defaults = {.tied = 1, .multi_query = 1, .parallel = 1, .seq = 2048},
	 CONFIG("FalconConfig", 32, 4544, 71, 65024, 2048,
		"tie_word_embeddings=1 multi_query=1 parallel_attn=1")},
	{"t5", "encoder and decoder; layers of the encoder, decoders of the decoder", .base = "",
	 .before = t5_embed,
	 .stacks = {{"encoder.block", t5_encoder, t5_encoder_norm},
		    {"decoder.block", t5_decoder, t5_decoder_norm}},
	 .heads = lm_heads, .known = t5_heads,
	 .uses = {BASIC, NEED(seq), MAY(tied), NEED(ffn), MAY(head_dim), MAY(decoders), MAY(gated),
		  MAY(buckets)},
	 .defaults = {.tied = 1, .buckets = 32, .seq = 512}, .class = "T5Config",
	 .absent = "num_layers=6 d_model=512 num_heads=8 vocab_size=32128 d_kv=64 d_ff=2048 "
		   "relative_attention_num_buckets=32"},
	{"vit", "vision transformer; image and patch in pixels", .base = "vit.",
	 .before = vit_embed, .stacks = {{"layers", vit_block, vit_norm}}, .heads = vit_heads,
	 .known = vit_classes, .encoder = true, .traits = BB_HAS_CLASS_TOKEN,
	 .uses = {NEED(layers), NEED(hidden), NEED(heads), MAY(ffn), NEED(image), NEED(patch),
		  MAY(labels), MAY(head), MAY(bias)},
	 .defaults = {.labels = 2, .bias = 1}, .class = "ViTConfig",
	 .absent = "num_hidden_layers=12 hidden_size=768 num_attention_heads=12 "
		   "intermediate_size=3072 qkv_bias=1 image_size=224 patch_size=16"},
	{"generic", "decoder of these numbers, each part as in llama, qwen3, gemma2 or deepseek_v2",
	 LLAMA_KIND(llama_block),
	 .uses = {LLAMA, MAY(experts), MAY(top_k), MAY(expert_ffn), MAY(fused), MAY(shared),
		  MAY(dense), MAY(moe_every), MAY(q_lora), MAY(kv_lora), MAY(nope), MAY(rope),
		  MAY(value_dim), LOCAL, MAY(bias), MAY(mlp_bias), MAY(qk_norm), MAY(gated)},
	 .defaults = {.gated = 1, .fused = 1, .top_k = 1}},
	{"resnet", "resnet:50; 18, 34, 50, 101 or 152 layers", .build = bb_build_resnet,
	 .known = no_heads, .uses = {NEED(layers)}},
	{"vgg", "vgg:16; 11, 13, 16 or 19 layers, without batch norms", .build = bb_build_vgg,
	 .known = no_heads, .uses = {NEED(layers)}},
	{"linear", "linear:20x2000; that many linear layers of that width, with bias",
	 .build = bb_build_linear, .known = no_heads, .uses = {NEED(layers), NEED(hidden)}},
	{.name = NULL},
};

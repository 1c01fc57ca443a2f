/*
 * defaults.c - what the configuration classes of Hugging Face's transformers take for a key that a
 * config.json lacks: their defaults in version 5.23.0, of keys that change a tensor, the sequence
 * or attention. Left out are those that are off or follow from others, and the vocabulary of
 * DeepseekV2Config, which is 32000 in version 4 and 102400 in 5.
 */
#include "models/parts.h"

#define LLAMA4_TEXT                                                                                \
	"num_hidden_layers=48 hidden_size=5120 num_attention_heads=40 "                            \
	"vocab_size=202048 max_position_embeddings=131072 num_key_value_heads=8 "                  \
	"head_dim=128 intermediate_size=8192 intermediate_size_mlp=16384 "                         \
	"num_local_experts=16 num_experts_per_tok=1 interleave_moe_layer_step=1 "                  \
	"attention_chunk_size=8192 no_rope_layer_interval=4"

#define GEMMA3_TEXT                                                                                \
	"num_hidden_layers=26 hidden_size=2304 num_attention_heads=8 "                             \
	"vocab_size=262208 max_position_embeddings=131072 num_key_value_heads=4 "                  \
	"head_dim=256 intermediate_size=9216 tie_word_embeddings=1 "                               \
	"sliding_window=4096"

const struct bb_config_class bb_config_classes[] = {
	{"gpt2", "GPT2Config",
	 "n_layer=12 n_embd=768 n_head=12 vocab_size=50257 n_positions=1024 "
	 "tie_word_embeddings=1"},
	{"bloom", "BloomConfig",
	 "n_layer=2 hidden_size=64 n_head=8 vocab_size=250880 tie_word_embeddings=1"},
	{"bert", "BertConfig",
	 "num_hidden_layers=12 hidden_size=768 num_attention_heads=12 vocab_size=30522 "
	 "max_position_embeddings=512 intermediate_size=3072 type_vocab_size=2 "
	 "tie_word_embeddings=1"},
	{"llama", "LlamaConfig",
	 "num_hidden_layers=32 hidden_size=4096 num_attention_heads=32 vocab_size=32000 "
	 "max_position_embeddings=2048 intermediate_size=11008"},
	{"llama4_text", "Llama4TextConfig", LLAMA4_TEXT},
	{"llama4", "Llama4TextConfig", LLAMA4_TEXT},
	{"llama4_vision_model", "Llama4VisionConfig",
	 "num_hidden_layers=34 hidden_size=768 num_attention_heads=16 intermediate_size=5632 "
	 "image_size=448 patch_size=14 projector_input_dim=4096 projector_output_dim=4096 "
	 "vision_output_dim=7680"},
	{"mistral", "MistralConfig",
	 "num_hidden_layers=32 hidden_size=4096 num_attention_heads=32 vocab_size=32000 "
	 "max_position_embeddings=131072 num_key_value_heads=8 intermediate_size=14336 "
	 "sliding_window=4096"},
	{"mixtral", "MixtralConfig",
	 "num_hidden_layers=32 hidden_size=4096 num_attention_heads=32 vocab_size=32000 "
	 "max_position_embeddings=131072 num_key_value_heads=8 intermediate_size=14336 "
	 "num_local_experts=8 num_experts_per_tok=2"},
	{"qwen2", "Qwen2Config",
	 "num_hidden_layers=32 hidden_size=4096 num_attention_heads=32 vocab_size=151936 "
	 "max_position_embeddings=32768 num_key_value_heads=32 intermediate_size=22016"},
	{"qwen2_moe", "Qwen2MoeConfig",
	 "num_hidden_layers=24 hidden_size=2048 num_attention_heads=16 vocab_size=151936 "
	 "max_position_embeddings=32768 num_key_value_heads=16 intermediate_size=5632 "
	 "num_experts=60 num_experts_per_tok=4 moe_intermediate_size=1408 "
	 "shared_expert_intermediate_size=5632 decoder_sparse_step=1 qkv_bias=1"},
	{"qwen3", "Qwen3Config",
	 "num_hidden_layers=32 hidden_size=4096 num_attention_heads=32 vocab_size=151936 "
	 "max_position_embeddings=32768 num_key_value_heads=32 head_dim=128 "
	 "intermediate_size=22016"},
	{"qwen3_moe", "Qwen3MoeConfig",
	 "num_hidden_layers=24 hidden_size=2048 num_attention_heads=32 vocab_size=151936 "
	 "max_position_embeddings=32768 num_key_value_heads=4 intermediate_size=6144 "
	 "num_experts=128 num_experts_per_tok=8 moe_intermediate_size=768 decoder_sparse_step=1"},
	{"gemma2", "Gemma2Config",
	 "num_hidden_layers=26 hidden_size=2304 num_attention_heads=8 vocab_size=256000 "
	 "max_position_embeddings=8192 num_key_value_heads=4 head_dim=256 intermediate_size=9216 "
	 "tie_word_embeddings=1 sliding_window=4096"},
	{"gemma3_text", "Gemma3TextConfig", GEMMA3_TEXT},
	{"gemma3", "Gemma3TextConfig", GEMMA3_TEXT},
	{"siglip_vision_model", "SiglipVisionConfig",
	 "num_hidden_layers=12 hidden_size=768 num_attention_heads=12 intermediate_size=3072 "
	 "image_size=224 patch_size=16 vision_use_head=1"},
	{"deepseek_v2", "DeepseekV2Config",
	 "num_hidden_layers=32 hidden_size=4096 num_attention_heads=32 "
	 "max_position_embeddings=2048 intermediate_size=11008 n_routed_experts=64 "
	 "moe_intermediate_size=1407 n_shared_experts=2 first_k_dense_replace=0 q_lora_rank=1536 "
	 "kv_lora_rank=512 qk_nope_head_dim=128 qk_rope_head_dim=64 v_head_dim=128"},
	{"deepseek_v3", "DeepseekV3Config",
	 "num_hidden_layers=61 hidden_size=7168 num_attention_heads=128 vocab_size=129280 "
	 "max_position_embeddings=4096 intermediate_size=18432 n_routed_experts=256 "
	 "num_experts_per_tok=8 moe_intermediate_size=2048 n_shared_experts=1 "
	 "first_k_dense_replace=3 q_lora_rank=1536 kv_lora_rank=512 qk_nope_head_dim=128 "
	 "qk_rope_head_dim=64 v_head_dim=128"},
	{"gpt_oss", "GptOssConfig",
	 "num_hidden_layers=36 hidden_size=2880 num_attention_heads=64 vocab_size=201088 "
	 "max_position_embeddings=131072 num_key_value_heads=8 head_dim=64 "
	 "intermediate_size=2880 num_local_experts=128 num_experts_per_tok=4 sliding_window=128 "
	 "attention_bias=1"},
	{"phi3", "Phi3Config",
	 "num_hidden_layers=32 hidden_size=3072 num_attention_heads=32 vocab_size=32064 "
	 "max_position_embeddings=4096 intermediate_size=8192"},
	{"gpt_neox", "GPTNeoXConfig",
	 "num_hidden_layers=44 hidden_size=6144 num_attention_heads=64 vocab_size=50432 "
	 "max_position_embeddings=2048 intermediate_size=24576 attention_bias=1"},
	{"opt", "OPTConfig",
	 "num_hidden_layers=12 hidden_size=768 num_attention_heads=12 vocab_size=50272 "
	 "max_position_embeddings=2048 ffn_dim=3072 tie_word_embeddings=1 enable_bias=1 "
	 "do_layer_norm_before=1"},
	{"falcon", "FalconConfig",
	 "num_hidden_layers=32 hidden_size=4544 num_attention_heads=71 vocab_size=65024 "
	 "max_position_embeddings=2048 tie_word_embeddings=1 multi_query=1 parallel_attn=1"},
	{"t5", "T5Config",
	 "num_layers=6 d_model=512 num_heads=8 vocab_size=32128 d_kv=64 d_ff=2048 "
	 "relative_attention_num_buckets=32"},
	{"vit", "ViTConfig",
	 "num_hidden_layers=12 hidden_size=768 num_attention_heads=12 intermediate_size=3072 "
	 "qkv_bias=1 image_size=224 patch_size=16"},
};

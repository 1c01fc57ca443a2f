#!/usr/bin/env python3
"""What transformers and torchvision register for each known model: the oracle tests/unit/models.jsonl.

    studies/models_oracle.py -l LIBRARY [NAME...]       JSON lines of the models that LIBRARY has (default: all of them)
    studies/models_oracle.py -l LIBRARY --print NAME    its tensors, and their order in the backward pass

LIBRARY is the version that must be installed: transformers-5.23.0, transformers-4.57.6 or torchvision-0.29.2, with
torch 2.15.0. The models are made on PyTorch's meta device, without memory for weights:

    pip install torch==2.15.0 transformers==5.23.0
    studies/models_oracle.py -l transformers-5.23.0 > models.jsonl; … -l transformers-4.57.6 >> models.jsonl

A line has the configuration as the library saves it, the number of parameters and of tensors, a hash of all names and
shapes in the order of registration, a hash of the names in the order in which autograd completes the gradients, and the
buckets of DistributedDataParallel in fp32: those of torch's own function for that order, as `_rebuild_buckets` calls it.
A shape of more than two numbers counts as in struct bb_tensor: stacked matrices; a kernel of a convolution as a row.
"""

import argparse
import contextlib
import json
import sys

import torch
import torch.distributed

FIRST_CAP, CAP = 1 << 20, 25 << 20  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, bucket_cap_mb
SEQUENCE = 8
MOST_SAVED = 4000
IMAGE = 99  # the token that stands for a part of an image


def llama(layers, hidden, heads, kv, ffn, vocab, positions, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv,
                intermediate_size=ffn, vocab_size=vocab, max_position_embeddings=positions, **more)  # fmt: skip


def bert(layers, hidden, heads, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden, **more)


def t5(layers, hidden, heads, ffn, width=64, **more):
    return dict(num_layers=layers, d_model=hidden, num_heads=heads, d_ff=ffn, d_kv=width, **more)


def bloom(layers, hidden, heads):
    return dict(n_layer=layers, hidden_size=hidden, n_head=heads)


def opt(layers, hidden, heads, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, ffn_dim=4 * hidden,
                vocab_size=50272, word_embed_proj_dim=more.pop("embedding", hidden), **more)  # fmt: skip


def vision(layers, hidden, heads, ffn, image, patch, **more):
    return dict(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=ffn, image_size=image,
                patch_size=patch, **more)  # fmt: skip


def gemma3(text, tower=None, **more):
    return dict(text_config=text, vision_config=tower or vision(27, 1152, 16, 4304, 896, 14, vision_use_head=False), image_token_id=IMAGE,
                image_token_index=IMAGE, **more)  # fmt: skip


def llama4(text, tower=None):
    return dict(text_config=text, image_token_id=IMAGE, image_token_index=IMAGE,
                vision_config=tower or vision(34, 1408, 16, 5632, 336, 14, vision_output_dim=4096, projector_input_dim=4096,
                                              projector_output_dim=4096))  # fmt: skip


GEMMA3 = dict(rope_theta=1000000.0)
PHI3 = dict(pad_token_id=32000)
V1_1 = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
V2 = dict(kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_shared_experts=2, first_k_dense_replace=1)
V3 = dict(q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256,
          num_experts_per_tok=8, n_shared_experts=1, first_k_dense_replace=3, moe_intermediate_size=2048)  # fmt: skip

# name: (class, arguments of its configuration). Sources: the papers of src/models/presets.c and the config.json that was
# published with each model. A name with a slash is no preset; it holds a variant of a family.
TRANSFORMERS = {
    "gpt2": ("GPT2LMHeadModel", {}),
    "gpt2-xl": ("GPT2LMHeadModel", dict(n_layer=48, n_embd=1600, n_head=25)),
    "bloom-176b": ("BloomForCausalLM", bloom(70, 14336, 112)),
    "bloom/560m": ("BloomForCausalLM", bloom(24, 1024, 16)),
    "bert-base": ("BertModel", bert(12, 768, 12)),
    "bert-large": ("BertModel", bert(24, 1024, 16)),
    "bert/pretraining": ("BertForPreTraining", bert(12, 768, 12)),
    "bert/masked": ("BertForMaskedLM", bert(12, 768, 12)),
    "bert/decoder": ("BertLMHeadModel", bert(12, 768, 12, is_decoder=True)),
    "bert/next": ("BertForNextSentencePrediction", bert(12, 768, 12)),
    "bert/sequence": ("BertForSequenceClassification", bert(12, 768, 12, num_labels=3)),
    "bert/token": ("BertForTokenClassification", bert(12, 768, 12, num_labels=9)),
    "bert/question": ("BertForQuestionAnswering", bert(12, 768, 12)),
    "bert/choice": ("BertForMultipleChoice", bert(12, 768, 12)),
    "llama2-7b": ("LlamaForCausalLM", llama(32, 4096, 32, 32, 11008, 32000, 4096)),
    "llama2-70b": ("LlamaForCausalLM", llama(80, 8192, 64, 8, 28672, 32000, 4096)),
    "llama3-8b": ("LlamaForCausalLM", llama(32, 4096, 32, 8, 14336, 128256, 8192)),
    "llama3-70b": ("LlamaForCausalLM", llama(80, 8192, 64, 8, 28672, 128256, 8192)),
    "llama3.1-8b": ("LlamaForCausalLM", llama(32, 4096, 32, 8, 14336, 128256, 131072)),
    "llama3.1-70b": ("LlamaForCausalLM", llama(80, 8192, 64, 8, 28672, 128256, 131072)),
    "llama3.1-405b": ("LlamaForCausalLM", llama(126, 16384, 128, 8, 53248, 128256, 131072)),
    "llama3.2-1b": ("LlamaForCausalLM", llama(16, 2048, 32, 8, 8192, 128256, 131072, head_dim=64, tie_word_embeddings=True)),
    "llama3.2-3b": ("LlamaForCausalLM", llama(28, 3072, 24, 8, 8192, 128256, 131072, head_dim=128, tie_word_embeddings=True)),
    "llama/biases": ("LlamaForCausalLM", llama(2, 64, 4, 2, 96, 100, 8, attention_bias=True, mlp_bias=True)),
    "llama/model": ("LlamaModel", llama(2, 64, 4, 2, 96, 100, 8)),
    "llama4-scout": ("Llama4ForCausalLM", llama(48, 5120, 40, 8, 8192, 202048, 10485760, intermediate_size_mlp=16384,
                     num_local_experts=16, interleave_moe_layer_step=1)),
    "llama4-maverick": ("Llama4ForCausalLM", llama(48, 5120, 40, 8, 8192, 202048, 1048576, intermediate_size_mlp=16384,
                        num_local_experts=128, interleave_moe_layer_step=2)),
    "mistral-7b": ("MistralForCausalLM", llama(32, 4096, 32, 8, 14336, 32000, 32768, sliding_window=4096)),
    "mixtral-8x7b/fused": ("MixtralForCausalLM", llama(32, 4096, 32, 8, 14336, 32000, 32768, num_local_experts=8, num_experts_per_tok=2)),
    "mixtral-8x22b/fused": ("MixtralForCausalLM", llama(56, 6144, 48, 8, 16384, 32000, 65536, num_local_experts=8, num_experts_per_tok=2)),
    "qwen2-7b": ("Qwen2ForCausalLM", llama(28, 3584, 28, 4, 18944, 152064, 131072)),
    "qwen2-72b": ("Qwen2ForCausalLM", llama(80, 8192, 64, 8, 29568, 152064, 131072)),
    "qwen2-57b-a14b/fused": ("Qwen2MoeForCausalLM", llama(28, 3584, 28, 4, 18944, 151936, 131072, moe_intermediate_size=2560,
                       shared_expert_intermediate_size=20480, num_experts=64, num_experts_per_tok=8)),
    "qwen2moe/dense": ("Qwen2MoeForCausalLM", llama(6, 64, 4, 2, 96, 100, 8, moe_intermediate_size=16, num_experts=4,
                       shared_expert_intermediate_size=32, num_experts_per_tok=2, decoder_sparse_step=2, mlp_only_layers=[0, 1])),
    "qwen2.5-0.5b": ("Qwen2ForCausalLM", llama(24, 896, 14, 2, 4864, 151936, 32768, tie_word_embeddings=True)),
    "qwen2.5-7b": ("Qwen2ForCausalLM", llama(28, 3584, 28, 4, 18944, 152064, 131072)),
    "qwen2.5-32b": ("Qwen2ForCausalLM", llama(64, 5120, 40, 8, 27648, 152064, 131072)),
    "qwen2.5-72b": ("Qwen2ForCausalLM", llama(80, 8192, 64, 8, 29568, 152064, 131072)),
    "qwen3-0.6b": ("Qwen3ForCausalLM", llama(28, 1024, 16, 8, 3072, 151936, 40960, head_dim=128, tie_word_embeddings=True)),
    "qwen3-8b": ("Qwen3ForCausalLM", llama(36, 4096, 32, 8, 12288, 151936, 40960, head_dim=128)),
    "qwen3-32b": ("Qwen3ForCausalLM", llama(64, 5120, 64, 8, 25600, 151936, 40960, head_dim=128)),
    "qwen3-30b-a3b/fused": ("Qwen3MoeForCausalLM", llama(48, 2048, 32, 4, 6144, 151936, 40960, head_dim=128, num_experts=128,
                      num_experts_per_tok=8, moe_intermediate_size=768)),
    "qwen3-235b-a22b/fused": ("Qwen3MoeForCausalLM", llama(94, 4096, 64, 4, 12288, 151936, 40960, head_dim=128, num_experts=128,
                        num_experts_per_tok=8, moe_intermediate_size=1536)),
    "gemma2-2b": ("Gemma2ForCausalLM", llama(26, 2304, 8, 4, 9216, 256000, 8192, head_dim=256)),
    "gemma2-9b": ("Gemma2ForCausalLM", llama(42, 3584, 16, 8, 14336, 256000, 8192, head_dim=256)),
    "gemma2-27b": ("Gemma2ForCausalLM", llama(46, 4608, 32, 16, 36864, 256000, 8192, head_dim=128)),
    "gemma3-1b": ("Gemma3ForCausalLM", llama(26, 1152, 4, 1, 6912, 262144, 32768, head_dim=256, sliding_window=512, **GEMMA3)),
    "gemma3-4b": ("Gemma3ForCausalLM", llama(34, 2560, 8, 4, 10240, 262208, 131072, head_dim=256, sliding_window=1024, **GEMMA3)),
    "gemma3-12b": ("Gemma3ForCausalLM", llama(48, 3840, 16, 8, 15360, 262208, 131072, head_dim=256, sliding_window=1024, **GEMMA3)),
    "gemma3-27b": ("Gemma3ForCausalLM", llama(62, 5376, 32, 16, 21504, 262208, 131072, head_dim=128, sliding_window=1024, **GEMMA3)),
    "gemma3-4b/vision": ("Gemma3ForConditionalGeneration", gemma3(llama(34, 2560, 8, 4, 10240, 262208, 131072, head_dim=256, sliding_window=1024))),
    "gemma3-27b/vision": ("Gemma3ForConditionalGeneration", gemma3(llama(62, 5376, 32, 16, 21504, 262208, 131072, head_dim=128, sliding_window=1024))),
    "gemma3/head": ("Gemma3ForConditionalGeneration", gemma3(llama(2, 64, 4, 2, 96, 100, 8, head_dim=16, sliding_window=4, eos_token_id=1),
                    vision(2, 32, 4, 48, 32, 8, vision_use_head=True), mm_tokens_per_image=4)),
    "llama4-scout/vision": ("Llama4ForConditionalGeneration", llama4(llama(48, 5120, 40, 8, 8192, 202048, 10485760, intermediate_size_mlp=16384,
                            num_local_experts=16, interleave_moe_layer_step=1))),
    "llama4/vision": ("Llama4ForConditionalGeneration", llama4(llama(4, 64, 4, 2, 48, 100, 8, head_dim=16, intermediate_size_mlp=96,
                      num_local_experts=4, interleave_moe_layer_step=2, attention_chunk_size=4),
                      vision(2, 32, 4, 128, 32, 8, vision_output_dim=40, projector_input_dim=40, projector_output_dim=40))),
    "deepseek-v2-lite/fused": ("DeepseekV2ForCausalLM", llama(27, 2048, 16, 16, 10944, 102400, 163840, moe_intermediate_size=1408, q_lora_rank=None,
                         n_routed_experts=64, num_experts_per_tok=6, **V2)),
    "deepseek-v2/fused": ("DeepseekV2ForCausalLM", llama(60, 5120, 128, 128, 12288, 102400, 163840, moe_intermediate_size=1536,
                    q_lora_rank=1536, n_routed_experts=160, num_experts_per_tok=6, **V2)),
    "deepseek-v3/fused": ("DeepseekV3ForCausalLM", llama(61, 7168, 128, 128, 18432, 129280, 163840, **V3)),
    "gpt-oss-20b": ("GptOssForCausalLM", llama(24, 2880, 64, 8, 2880, 201088, 131072, head_dim=64, sliding_window=128, num_local_experts=32,
                    num_experts_per_tok=4)),
    "gpt-oss-120b": ("GptOssForCausalLM", llama(36, 2880, 64, 8, 2880, 201088, 131072, head_dim=64, sliding_window=128,
                     num_local_experts=128, num_experts_per_tok=4)),
    "phi3-mini": ("Phi3ForCausalLM", llama(32, 3072, 32, 32, 8192, 32064, 4096, sliding_window=2047, **PHI3)),
    "phi3-medium": ("Phi3ForCausalLM", llama(40, 5120, 40, 10, 17920, 32064, 4096, sliding_window=2047, **PHI3)),
    "gpt-neox-20b": ("GPTNeoXForCausalLM", dict(num_hidden_layers=44, hidden_size=6144, num_attention_heads=64, intermediate_size=24576, vocab_size=50432)),
    "pythia-6.9b": ("GPTNeoXForCausalLM", dict(num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, intermediate_size=16384, vocab_size=50432)),
    "opt-125m": ("OPTForCausalLM", opt(12, 768, 12)),
    "opt-350m": ("OPTForCausalLM", opt(24, 1024, 16, embedding=512, do_layer_norm_before=False)),
    "opt-66b": ("OPTForCausalLM", opt(64, 9216, 72)),
    "opt-175b": ("OPTForCausalLM", opt(96, 12288, 96)),
    "falcon-7b": ("FalconForCausalLM", dict(num_hidden_layers=32, hidden_size=4544, num_attention_heads=71, multi_query=True)),
    "falcon-40b": ("FalconForCausalLM", dict(num_hidden_layers=60, hidden_size=8192, num_attention_heads=128, num_kv_heads=8, new_decoder_architecture=True)),
    "falcon-180b": ("FalconForCausalLM", dict(num_hidden_layers=80, hidden_size=14848, num_attention_heads=232, num_kv_heads=8, new_decoder_architecture=True)),
    "falcon/rw-1b": ("FalconForCausalLM", dict(num_hidden_layers=24, hidden_size=2048, num_attention_heads=32, vocab_size=50304, alibi=True,
                     bias=True, multi_query=False, parallel_attn=False)),
    "t5-small": ("T5ForConditionalGeneration", t5(6, 512, 8, 2048)),
    "t5-large": ("T5ForConditionalGeneration", t5(24, 1024, 16, 4096)),
    "t5-11b": ("T5ForConditionalGeneration", t5(24, 1024, 128, 65536, 128)),
    "flan-t5-xxl/tied": ("T5ForConditionalGeneration", t5(24, 4096, 64, 10240, **V1_1)),
    "vit-base": ("ViTForImageClassification", bert(12, 768, 12, num_labels=1000)),
    "vit-large": ("ViTForImageClassification", bert(24, 1024, 16, num_labels=1000)),
    "vit-huge": ("ViTForImageClassification", bert(32, 1280, 16, num_labels=1000, patch_size=14)),
    "vit/model": ("ViTModel", bert(12, 768, 12)),
    "vit/labels": ("ViTForImageClassification", bert(12, 768, 12, num_labels=7)),
}  # fmt: skip

# Version 4 registers a module for each expert, and leaves the head of T5 1.1 untied. Its routers cannot run on the meta
# device, so there is no backward pass.
SEPARATE = ("mixtral-8x7b", "mixtral-8x22b", "qwen2-57b-a14b", "qwen2moe/dense", "qwen3-30b-a3b", "qwen3-235b-a22b",
            "deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "flan-t5-xxl")  # fmt: skip

TORCHVISION = {"resnet:18": "resnet18", "resnet:34": "resnet34", "resnet50": "resnet50", "resnet:101": "resnet101",
               "resnet:152": "resnet152", "vgg:11": "vgg11", "vgg:13": "vgg13", "vgg16": "vgg16", "vgg:19": "vgg19"}  # fmt: skip


def fnv(words):
    value = 0xCBF29CE484222325
    for byte in "\n".join(words).encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def shape(tensor):
    """matrices x rows x columns, as in struct bb_tensor."""
    size = list(tensor.shape)
    if len(size) == 4:  # a convolution
        return 1, size[0], size[1] * size[2] * size[3]
    return tuple([1] * (3 - len(size)) + size) if len(size) > 1 else (1, size[0], 1)


def inputs(model, config):
    ids = torch.zeros(1, SEQUENCE, dtype=torch.long)
    if config is None or config.model_type == "vit":
        return dict(x=torch.zeros(1, 3, 224, 224)) if config is None else dict(pixel_values=torch.zeros(1, 3, 224, 224))
    if hasattr(config, "vision_config"):
        size = config.vision_config.image_size
        return dict(input_ids=ids, token_type_ids=ids, pixel_values=torch.zeros(1, 3, size, size)) if config.model_type == "gemma3" else dict(
            input_ids=ids, pixel_values=torch.zeros(1, 3, size, size))  # fmt: skip
    if config.is_encoder_decoder:
        return dict(input_ids=ids, decoder_input_ids=ids)
    if type(model).__name__ == "BertForMultipleChoice":
        return dict(input_ids=ids.unsqueeze(0))
    return dict(input_ids=ids)


def floats(value):
    """All floating-point tensors of a model's output."""
    if torch.is_tensor(value):
        return [value] if value.is_floating_point() and value.requires_grad else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in floats(part)]


def backward(model, config):
    """Names in the order in which autograd completes the gradients; those without one are left out."""
    order = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    model.train()
    if config is not None:
        config.use_cache = False
    output = model(**inputs(model, config))
    if config is not None and "logits" in output:
        output = output["logits"]
    sum(tensor.sum() for tensor in floats(output)).backward()
    return order


def buckets(parameters):
    """Bytes of DistributedDataParallel's buckets of PARAMETERS, which are in the order of their gradients."""
    groups, _ = torch.distributed._compute_bucket_assignment_by_size(parameters, [FIRST_CAP, CAP])
    return [sum(4 * parameters[i].numel() for i in group) for group in groups]


def describe(name, model, config, runs):
    parameters = dict(model.named_parameters())
    line = {
        "name": name,
        "class": type(model).__name__,
        "parameters": sum(p.numel() for p in parameters.values()),
        "tensors": len(parameters),
        "shapes": fnv("%s %dx%dx%d" % (n, *shape(p)) for n, p in parameters.items()),
    }
    if config is not None:
        config.architectures = [type(model).__name__]
        saved = json.loads(config.to_json_string())
        line["config"] = saved if hasattr(config, "vision_config") or len(json.dumps(saved)) <= MOST_SAVED else None
    order = backward(model, config) if runs else []
    if sorted(order) == sorted(parameters):
        sizes = buckets([parameters[n] for n in order])
        line.update(order=fnv(order), buckets=len(sizes), bytes=fnv(str(s) for s in sizes))
    return line, parameters, order


def make(name, library):
    """Model and configuration, None in torchvision."""
    if library == "torchvision":
        import torchvision

        with torch.device("meta"):
            return getattr(torchvision.models, TORCHVISION[name])(), None
    import transformers
    from transformers import masking_utils

    # It looks at values, which the meta device lacks; None means one sequence in a row.
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    kind, arguments = TRANSFORMERS[name if name in TRANSFORMERS else next(k for k in TRANSFORMERS if k.split("/")[0] == name)]
    kind = getattr(transformers, kind)
    for part in vars(sys.modules[kind.__module__]).values():
        # It counts the tokens of images, which the meta device cannot.
        if hasattr(part, "get_placeholder_mask"):
            part.get_placeholder_mask = lambda self, input_ids, inputs_embeds, image_features: torch.zeros_like(inputs_embeds, dtype=torch.bool)
    config = kind.config_class(**arguments)
    with torch.device("meta"), contextlib.suppress(ImportError):
        return kind(config), config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-l", "--library", required=True, choices=["transformers-5.23.0", "transformers-4.57.6", "torchvision-0.29.2"])
    parser.add_argument("--print", action="store_true", dest="text")
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    library, version = a.library.split("-")
    installed = __import__(library).__version__.split("+")[0]
    if installed != version or not torch.__version__.startswith("2.15.0"):
        sys.exit(f"{a.library} and torch 2.15.0 are needed; {library} {installed} and torch {torch.__version__} are installed")
    fused = version.startswith("5")
    names = a.names or {"torchvision": TORCHVISION}.get(library, TRANSFORMERS if fused else SEPARATE)
    for name in names:
        model, config = make(name, library)
        line, parameters, order = describe(name, model, config, fused or library == "torchvision")
        if not a.text:
            print(json.dumps(line), flush=True)
            continue
        for n, p in parameters.items():
            print("%s %dx%dx%d" % (n, *shape(p)))
        print("order:", *order, sep="\n")


if __name__ == "__main__":
    with torch.device("meta"):
        main()

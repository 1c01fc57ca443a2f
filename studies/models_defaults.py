#!/usr/bin/env python3
"""The defaults of transformers' configuration classes: the oracle tests/unit/model_defaults.jsonl.

    pip install transformers==5.23.0
    studies/models_defaults.py > tests/unit/model_defaults.jsonl

A line is the config.json of a family with all keys of its class that have a default and no object as value, as the
class's signature has them. src/models/decoders.c must read the same model from a file that lacks them all. What a class
leaves to others (null) stays null.
"""

import inspect
import json
import sys

import transformers

VERSION = "5.23.0"
CLASSES = {
    "gpt2": "GPT2Config", "bloom": "BloomConfig", "bert": "BertConfig", "llama": "LlamaConfig", "llama4_text": "Llama4TextConfig",
    "mistral": "MistralConfig", "mixtral": "MixtralConfig", "qwen2": "Qwen2Config", "qwen2_moe": "Qwen2MoeConfig",
    "qwen3": "Qwen3Config", "qwen3_moe": "Qwen3MoeConfig", "gemma2": "Gemma2Config", "gemma3_text": "Gemma3TextConfig",
    "deepseek_v2": "DeepseekV2Config", "deepseek_v3": "DeepseekV3Config", "gpt_oss": "GptOssConfig", "phi3": "Phi3Config",
    "gpt_neox": "GPTNeoXConfig", "opt": "OPTConfig", "falcon": "FalconConfig", "t5": "T5Config", "vit": "ViTConfig",
}  # fmt: skip
TOWERS = {"gemma3": ("Gemma3TextConfig", "SiglipVisionConfig"), "llama4": ("Llama4TextConfig", "Llama4VisionConfig")}


def defaults(name):
    found = {n: p.default for n, p in inspect.signature(getattr(transformers, name).__init__).parameters.items()}
    return {n: v for n, v in found.items() if v is None or isinstance(v, (bool, int)) or (isinstance(v, float) and n != "version")}




if transformers.__version__ != VERSION:
    sys.exit(f"transformers {VERSION} is needed; {transformers.__version__} is installed")
for family, name in CLASSES.items():
    print(json.dumps(defaults(name) | {"model_type": family, "transformers_version": VERSION}))
for family, (text, vision) in TOWERS.items():
    parts = {"text_config": defaults(text), "vision_config": defaults(vision)}
    print(json.dumps(parts | {"model_type": family, "transformers_version": VERSION}))

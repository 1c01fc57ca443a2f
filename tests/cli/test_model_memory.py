"""The binary model_memory: published figures through its command line, and refusals."""

import json
import os
import re
import tempfile

import kit
from kit import Settings, add, built, equal, execute, expect, test

GB, GiB = 10**9, 2**30
SUBJECTS = "train infer zero deepspeed checkpoint quantise".split()
CHAIN = "checkpoint --layers 6 --width 8 --rows 4 --repeat 3"


def memory(line, variant="", **options):
    return execute([built("model_memory", variant), *line.split()], **options)


def said(line, *codes):
    return json.loads(memory(line + " --json -").exits(*(codes or (0,))).out)


def near(got, wanted, off, what):
    expect(abs(got - wanted) <= off * 1.0001, f"{what}: {got}, not {wanted}")


# ---- training ----------------------------------------------------------------------------------


@test
def figures_of_the_articles():
    """GPT-3 in fp32 has 700 GB; LLaMA-2's 3.725 x 7 is GiB, and 25.10 with the true number of parameters."""
    equal(said("train --params 175B --precision fp32")["parameters_bytes"], 700 * GB, "GPT-3")
    near(said("--params 7B --precision fp32")["parameters_bytes"] / GiB, 26.075, 0.005, "LLaMA-2 7B")
    near(said("--model llama2-7b --precision fp32")["parameters_bytes"] / GiB, 25.10, 0.005, "LLaMA-2 7B")
    memory("--params 7B --precision fp32").exits(0).prints("28.000     26.077", "GB        GiB")


@test
def zero_of_the_paper():
    """Figure 1: 7.5B on 64 ranks, and models that ran without model parallelism."""
    rows = said("zero --params 7.5B --dp 64")["stages"]
    equal([r["zero"] for r in rows], [0, 1, 2, 3], "stages")
    for row, published, unit in zip(rows, (120, 31.4, 16.6, 1.9), (1, 0.1, 0.1, 0.1)):
        near(row["total_bytes"] / GB, published, unit, f"stage {row['zero']}")
    equal(rows[3]["world_bytes"], 120 * GB, "all ranks of stage 3")
    equal([r["sent_bytes"] * 64 // 63 // (15 * GB) for r in rows], [2, 2, 2, 3], "volumes")
    equal(len(said("zero --params 128B")["stages"]), 24, "stages of the usual sizes")
    more = said("zero --params 7.5B --dp 64 --micro-batches 4")["stages"]
    equal([b["sent_bytes"] / a["sent_bytes"] for a, b in zip(rows, more)], [1, 1, 2.5, 4], "accumulation")


@test
def train_and_zero_agree():
    for stage in range(4):
        one = said(f"train --model gpt2-xl --dp 12 --zero {stage}")
        row = said("zero --model gpt2-xl --dp 12")["stages"][stage]
        for kind in ("parameters", "gradients", "optimizer"):
            equal(one[kind + "_bytes"], row[kind + "_bytes"], f"{kind} of stage {stage}")


@test
def activations_of_the_paper():
    """Korthikanti et al.: a layer of GPT-3 in MiB, in whole models of 96 layers."""
    base = "--model gpt3-175b --micro-batch 1"
    stored = " --attention eager"
    for line, layer in [
        (stored, 2736),
        ("--tp 8" + stored, 552),
        ("--tp 8 --sequence-parallel" + stored, 342),
        ("--tp 8 --recompute selective", 312),
        ("--tp 8 --sequence-parallel --recompute selective", 102),
        ("--tp 8 --recompute full", 48),
        ("--flash-attention", 34 * 24 + 0.75),
        ("", 34 * 24 + 0.75),
    ]:
        equal(said(f"{base} {line}")["activations_bytes"], 96 * layer * (1 << 20), line)


@test
def attention_stores_scores_or_not():
    memory("--model gpt2").exits(0).prints(", FlashAttention;")
    memory("--model gpt2 --attention eager").exits(0).prints(", attention eager;")
    memory("--model gpt2 --attention eager --flash-attention").exits(2).says("--flash-attention and --attention eager exclude each other")
    # DeepSeek-V3, bf16, of a token and layer with experts: q and k of 192, v and output of 128 per head, latent 1536 + 576;
    # nine networks of 2048; twelve inputs of 7168; FlashAttention's sums. The first three layers have one network of 18432.
    attention = 2 * (128 * 2 * (192 + 128) + 2112) + 4 * 128
    token = 58 * (attention + 2 * (3 * 9 * 2048 + 12 * 7168)) + 3 * (attention + 2 * (3 * 18432 + 4 * 7168))
    equal(said("--model deepseek-v3 --seq 1024")["activations_bytes"], 1024 * token, "DeepSeek-V3")
    memory("--model deepseek-v3:layers=9").exits(2).says("deepseek-v3 has its own hyperparameters", "family deepseek_v3")


@test
def text_and_json_say_the_same():
    line = "--model gpt3-175b --dp 4 --tp 8 --pp 4 --zero 1 --recompute full"
    j, text = said(line), memory(line).exits(0).out
    for name in "parameters gradients optimizer activations recomputed ends".split():
        match = re.search(rf"^  {name} +([\d.]+) +([\d.]+)", text, re.M)
        equal(bool(match), j[name + "_bytes"] > 0, f"whether there is a line of {name}")
        if not match:
            continue
        near(float(match[1]), j[name + "_bytes"] / GB, 0.0005, name)
        near(float(match[2]), j[name + "_bytes"] / GiB, 0.0005, name)
    equal(sum(j[k] for k in j if k.endswith("_bytes") and k not in ("total_bytes", "host_bytes")), j["total_bytes"], "sum")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        equal(memory(f"{line} --json {path}").exits(0).out, text, "text beside a file")
        with open(path, encoding="utf-8") as file:
            equal(json.load(file), j, "the file")


@test
def fits_a_narrow_terminal():
    """Tables come in parts, and prose wraps; nothing is wider than the terminal, and no number is lost."""
    for line in ("train --model llama2-7b --dp 8 --zero 3", "zero --params 7.5B", "infer --model llama2-7b", "quantise",
                 "--model llama2-7b --gpus 8 --fits 80G", "deepspeed --model llama2-7b"):
        words = [built("model_memory"), *line.split()]
        narrow, wide = kit.on_terminal(60, words), memory(line).exits(0).out
        expect(all(len(row) <= 60 for row in narrow.splitlines()), f"wider than 60 columns:\n{narrow}")
        expect(any(60 < len(row) <= 80 for row in wide.splitlines()), f"folded without need:\n{wide}")
        numbers = set(re.findall(r"[\d.]+", wide)) - set(re.findall(r"[\d.]+", narrow))
        expect(not numbers, f"{numbers} are missing:\n{narrow}")


@test
def a_part_is_trained():
    j = said("--params 7B --trainable 1%")
    equal((j["parameters_bytes"], j["gradients_bytes"], j["optimizer_bytes"]), (14 * GB, GB * 14 // 100, GB * 84 // 100), "1%")
    memory("--params 7B --trainable 0%").exits(2).says("--trainable 0%: out of range")


@test
def a_size_has_no_activations():
    j = said("--params 7B")
    equal((j["activations_bytes"], j["model"]), (None, None), "what is not known")
    memory("--params 7B").exits(0).prints("states only")
    memory("--model resnet50").exits(0).prints("states only")


# ---- what fits ---------------------------------------------------------------------------------


@test
def what_fits_of_a_size():
    """7.5B on 64 GPUs: plain data parallelism needs 120 GB, more than 80 GiB; the stages need less."""
    line = "--params 7.5B --dp 64 --gpus-per-node 1"
    for limit, stages in [("112G", [0, 1, 2, 3]), ("80G", [1, 2, 3]), ("24G", [2, 3]), ("2G", [3])]:
        j = said(f"{line} --fits {limit} --reserve 0")
        equal([f["zero"] for f in j["fits"]], stages, limit)
        expect(all(f["total_bytes"] <= j["limit_bytes"] for f in j["fits"]), "more than the limit")
    j = said(f"{line} --fits 1G --reserve 0", 7)
    equal((j["fits"], j["nearest"]["zero"], j["nearest"]["tightest"]), ([], 3, "optimizer"), "nothing fits")
    memory(f"{line} --fits 1G --reserve 0").exits(7).prints("nothing fits", "GiB", "0 of 4 fit")


@test
def what_fits_of_a_model():
    line = "--model llama2-7b --gpus 8 --fits 80G"
    j = said(line)
    equal(j["limit_bytes"], (81559 << 20) - int(3.5 * GiB), "80G")
    for f in j["fits"]:
        equal(f["dp"] * f["tp"] * f["pp"], 8, "GPUs")
        one = said(
            f"--model llama2-7b --dp {f['dp']} --tp {f['tp']} --pp {f['pp']} --zero {f['zero']} "
            f"--micro-batch {f['micro_batch']} --recompute {f['recompute']}"
        ) if f is j["fits"][0] or f is j["fits"][-1] else None
        if one:
            equal(one["total_bytes"], f["total_bytes"], "the same run by itself")
            equal(max((one[k + "_bytes"], k) for k in "parameters gradients optimizer gathered activations recomputed ends".split())[1],
                  f["tightest"], "tightest")  # fmt: skip
    out = memory(line).exits(0).prints("tightest", "memory of each: 81.76 GB (85.52 by the driver of H100, less 3.76 in reserve)",
                                        "all in --json").out
    expect(kit.prose(out).endswith("by least recomputation and communication: dp 8, tp 1, pp 1, ZeRO 1, recompute none; next: "
                                   "dp 8, tp 1, pp 1, ZeRO 2, recompute none: a higher stage of ZeRO communicates as much or "
                                   "more\n"), out)
    kept = said(line + " --zero 3 --micro-batch 2 --recompute selective --reserve 8G")
    equal({(f["zero"], f["micro_batch"], f["recompute"]) for f in kept["fits"]}, {(3, 2, "selective")}, "what is given")
    equal(kept["limit_bytes"], (81559 << 20) - 8 * GiB, "what is left")


@test
def memory_by_the_driver():
    """A nominal size counts as what the driver of the card reports, any other as it is; the reserve is not part of it."""
    for size, bytes_ in [("80G", 81559 << 20), ("141G", 143771 << 20), ("24G", 24564 << 20), ("32G", 32510 << 20), ("96G", 97871 << 20),
                         ("40G", 40 * GiB), ("81559M", 81559 << 20), ("79.5G", int(79.5 * GiB))]:  # fmt: skip
        equal(said(f"--model gpt2 --fits {size} --reserve 0")["limit_bytes"], bytes_, size)
        equal(said(f"--model gpt2 --fits {size}")["limit_bytes"], bytes_ - int(3.5 * GiB), size)
    memory("--model gpt2 --fits 3G").exits(2).says("--reserve: 3.76 GB leave nothing of --fits 3.22 GB; give less, as in --reserve 0")
    text = execute([built("ddp_bucket_perf"), *"--model gpt2 -n 1 --cluster hgx-h200:1".split()]).exits(0).out
    expect("of 147.00 GB: " in text, text)


# ---- inference ---------------------------------------------------------------------------------


@test
def inference():
    for params, bits, rule in [("7B", 32, 33.6), ("7B", 16, 16.8), ("7B", 8, 8.4), ("7B", 4, 4.2), ("70B", 16, 168), ("70B", 4, 42)]:
        equal(said(f"infer --params {params} --bits {bits}")["rule_bytes"], round(rule * GB), f"{params} {bits}")
    j = said("infer --model llama2-7b")
    equal((j["token_bytes"], j["cache_bytes"], j["context"]), (524288, 2 * GiB, 4096), "Llama 2 7B")
    j = said("infer --model llama:layers=32,hidden=4096,heads=32,kv=8,vocab=128256,seq=131072,ffn=14336 --context 1")
    equal((j["token_bytes"], j["parameters"]), (131072, 8030261248), "Llama 3.1 8B")
    equal(said("infer --model gpt3-175b")["cache_bytes"], 9 * GiB, "GPT-3")
    j = said("infer --model llama2-70b --tp 16 --batch 3 --cache-bits 8")
    equal(j["token_bytes"], 2 * 80 * 1 * 128, "a head of 8 on each of 16 ranks")
    equal(j["cache_bytes"], 3 * 4096 * j["token_bytes"], "three sequences")
    equal(said("infer --params 7B")["cache_bytes"], None, "the cache of a size")
    memory("infer --model llama2-7b --bits 32").exits(0).prints("26.075 7 billion x 3.725 GiB")
    equal(said("infer --model gpt2")["rounded_billions"], None, "less than half a billion")
    equal(said("infer --model bert-large")["cache_bytes"], None, "the cache of an encoder")
    memory("infer --model bert-large").exits(0).prints("KV cache           N/A        N/A none: an encoder")


@test
def subject_of_options():
    """Without a subject, the options select it."""
    equal(said("--checkpoint-every 4 --repeat 1 --layers 4 --width 8")["subject"], "checkpoint", "--checkpoint-every")
    equal(said("--model gpt2 --bits 8")["subject"], "infer", "--bits")
    equal(said("--values 1,2,3")["subject"], "quantise", "--values")
    equal(said("--model gpt2 --nodes=2")["subject"], "deepspeed", "--nodes")
    equal(said("--model gpt2 --dp 2 --tp 2")["subject"], "train", "--dp")
    memory("infer --model llama2-7b").exits(0).prints("KV cache         2.147      2.000", "524.29 kB = 512.00 KiB")


# ---- DeepSpeed ---------------------------------------------------------------------------------


@test
def estimates_of_deepspeed():
    j = said("deepspeed --params 2851M --largest-layer 32M")
    table = [(e["zero"], round(e["host_bytes"] / GiB, 2), round(e["gpu_bytes"] / GiB, 2)) for e in j["estimates"]]
    equal(table, [(2, 127.45, 5.31), (2, 127.45, 11.28), (3, 71.69, 0.12), (3, 127.45, 0.12), (3, 63.72, 0.78),
                  (3, 127.45, 0.78), (3, 1.43, 6.09), (3, 127.45, 6.09)], "as documented")  # fmt: skip
    near(j["documented_zero2_gpu_bytes"] / GiB, 15.93, 0.005, "stage 2 in the documentation")
    memory("deepspeed --params 2851M --largest-layer 32M").exits(0).prints("15.93", "11.28", "GiB", "GB")
    # As in DeepSpeed's model_to_params: the parameters of a module itself, not of a block.
    for model, largest in (
        ("llama2-7b", 32000 * 4096),
        ("llama2-70b", 32000 * 8192),
        ("gpt3-175b", 50257 * 12288),
        ("bloom-176b", 250880 * 14336),
        ("resnet50", 512 * 512 * 9),
        ("linear:20x2000", 2000 * 2000 + 2000),
        ("mixtral-8x7b", 32000 * 4096),
        ("mixtral:32x4096x32x32000x32768x14336x8x2,kv=8,fused=1", 8 * 3 * 4096 * 14336),
    ):
        equal(said(f"deepspeed --model {model}")["largest_layer"], largest, f"largest layer of {model}")
    estimates = said("deepspeed --model llama2-70b --nodes 2 --gpus-per-node 8")["estimates"]
    offloaded = [e["gpu_bytes"] for e in estimates if e["offload"] == "parameters"]
    equal(offloaded, [1048576000] * 2, "a GPU's bytes with parameters offloaded")
    memory("deepspeed --model llama2-70b").exits(0).prints("# largest layer: 262,144,000 parameters, model.embed_tokens;")
    memory("--model mixtral-8x7b").exits(0).prints("# 995 tensors, as transformers 4 registers them")
    memory("--model mixtral:32x4096x32x32000x32768x14336x8x2,kv=8,fused=1").exits(0).prints("# 291 tensors, as transformers 5 registers them")


def with_config(text, line, codes=(0,)):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ds_config.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return memory(f"{line} --ds-config {path}").exits(*codes)


@test
def a_config_of_deepspeed():
    config = """{"bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "overlap_comm": true},
        "train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 2}"""
    got = json.loads(with_config(config, "--model llama2-7b --dp 8 --json -").out)
    words = "--zero 3 --offload optimizer --precision mixed --optimizer adamw --micro-batch 4 --micro-batches 2"
    plain = said(f"--model llama2-7b --dp 8 {words}")
    # DeepSpeed's defaults: 1e9 parameters stay gathered, 5e8 gradients are reduced and 5e7 parameters fetched at a time.
    buffers = {"gathered_bytes": 2 * 10**9, "buckets_bytes": 2 * (5 * 10**8 + 5 * 10**7)}
    total = plain["total_bytes"] - plain["gathered_bytes"] + sum(buffers.values())
    equal(got, plain | buffers | {"total_bytes": total}, "what the words say")
    with_config(config, f"--model llama2-7b --dp 8 {words}")
    got = json.loads(with_config("{}", "--params 1B --json -").out)
    equal((got["precision"], got["zero"], got["micro_batch"]), ("fp32", 0, 1), "DeepSpeed's defaults")
    got = json.loads(with_config(config, "--model llama2-7b --gpus 8 --fits 40G --json -").out)
    equal({f["zero"] for f in got["fits"]}, {3}, "what fits with that stage")


@test
def buckets_of_deepspeed():
    """In elements of the formats; twice the gradients if they overlap in stages 1 and 2; "auto" as transformers' Trainer sets it."""
    line, hidden, all_ = "--model llama2-7b --dp 8 --json -", 4096, 6738415616
    for zero, keys, gathered, buckets in [
        (0, {}, 0, 0),
        (1, {}, 0, 2 * (5 * 10**8 + 5 * 10**8)),
        (2, {"overlap_comm": True, "reduce_bucket_size": 2e8, "allgather_bucket_size": 3e8}, 0, 2 * (2 * 2 * 10**8 + 3 * 10**8)),
        (2, {"allgather_bucket_size": 1e12, "reduce_bucket_size": 0}, 0, 2 * all_),
        (3, {"overlap_comm": True, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_max_live_parameters": 0},
         4 * (4 * hidden**2 + 3 * 11008 * hidden + 2 * hidden), 2 * (hidden**2 + hidden**2 * 9 // 10)),
        (3, {"stage3_max_live_parameters": 1e12, "stage3_prefetch_bucket_size": 0, "reduce_bucket_size": 7}, 2 * all_, 14),
    ]:  # fmt: skip
        config = json.dumps({"bf16": {"enabled": True}, "zero_optimization": {"stage": zero, **keys}})
        got = json.loads(with_config(config, line).out)
        near(got["gathered_bytes"], gathered, 2**17, f"gathered of {zero} {keys}")
        equal(got["buckets_bytes"], buckets, f"buckets of {zero} {keys}")


@test
def hpz_of_deepspeed():
    """A second partition of the parameters among the ranks of a node, in stage 3 alone, on the host with the first."""
    whole = 2 * 6738415616
    for zero, more, parameters in [(3, {}, whole // 64 + whole // 8), (2, {}, whole), (3, {"offload_param": {"device": "cpu"}}, 0)]:
        keys = {"stage": zero, "zero_hpz_partition_size": 8, **more}
        config = json.dumps({"bf16": {"enabled": True}, "zero_optimization": keys})
        got = json.loads(with_config(config, "--model llama2-7b --dp 64 --json -").out)
        equal(got["parameters_bytes"], parameters, f"parameters of {keys}")
    config = '{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}'
    with_config(config, "--params 1B --dp 12", (2,)).says("--dp 12: zero_hpz_partition_size, 8, does not divide it")


@test
def everything_on_the_host():
    """A total of nothing is no number."""
    line = "--params 7B --dp 8 --zero 3 --offload parameters"
    memory(line).exits(0).prints("total              N/A        N/A", "all states are on the host")
    equal(said(line)["total_bytes"], None, "total")
    config = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}'
    equal(json.loads(with_config(config, "--params 7B --dp 8 --json -").out)["total_bytes"], 2 * 10**9 + 11 * 10**8, "DeepSpeed's buffers")


@test
def wrong_configs():
    for text, says in [
        ("{", "not JSON: line 1"),
        ("[]", "not a JSON object"),
        ('{"zero_optimization": 3}', "zero_optimization: 3 is not an object"),
        ('{"zero_optimization": {"stage": 4}}', "zero_optimization.stage: 4 is not a whole number from 0 to 3"),
        ('{"zero_optimization": {"stage": "3"}}', 'zero_optimization.stage: "3" is not'),
        ('{"zero_optimization": {"stage": 3, "offload_param": {"device": "gpu"}}}', 'offload_param.device: "gpu" is not'),
        ('{"fp16": {"enabled": 1}}', "fp16.enabled: 1 is not true or false"),
        ('{"fp16": {"enabled": true}, "bf16": {"enabled": true}}', "set only one"),
        ('{"optimizer": {"type": "Lion"}}', 'optimizer.type: "Lion" is not a known optimizer'),
        ('{"train_batch_size": 0}', "train_batch_size: 0 is not a whole number from 1"),
        ('{"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2}', "train_batch_size: 9 is not 2 x 4 x 1"),
        ('{"zero_optimization": {"stage": 2}}', "--zero: contradicts --ds-config"),
        ('{"zero_optimization": {"reduce_bucket_size": 1.5}}', "zero_optimization.reduce_bucket_size: 1.5 is not a whole number"),
        ('{"zero_optimization": {"stage3_max_live_parameters": -1}}', "stage3_max_live_parameters: -1 is not a whole number"),
        ('{"zero_optimization": {"allgather_bucket_size": "5e8"}}', 'allgather_bucket_size: "5e8" is not a whole number'),
        ('{"zero_optimization": {"overlap_comm": 1}}', "overlap_comm: 1 is not true or false"),
    ]:
        zero = " --zero 1" if "contradicts" in says else ""
        with_config(text, "--params 1B" + zero, (2,)).says(says, "ds_config.json")
    memory("--params 1B --ds-config /nonexistent").exits(2).says("/nonexistent: cannot be opened: No such file")


@test
def one_bit_optimizers():
    """Error memory of 4 P (1 + 1/N) bytes beside Adam's states; the volume; what DeepSpeed refuses."""
    config = os.path.join(os.path.dirname(__file__), "ds_onebit_adam.json")
    memory(f"--params 1B --dp 64 --ds-config {config}").exits(0).prints("errors           4.063", "freeze_step 400")
    got = said(f"--params 335141888 --dp 64 --ds-config {config}")
    equal(got["errors_bytes"], 4 * 335142912 * 65 // 64, "errors, padded")
    equal((got["optimizer"], got["precision"], got["optimizer_bytes"]), ("onebit-adam", "fp32", 8 * 335141888), "as it stands")
    equal(got["total_bytes"], 16 * 335141888 + got["errors_bytes"], "total")
    expect("errors_bytes" not in said("--params 1B"), "AdamW has no errors")

    def onebit(name, params="{}", more=""):
        return '{"optimizer": {"type": "%s", "params": %s}%s}' % (name, params, more)

    for share, saving, bits in ((15, "4.92", 16), (20, "4.00", 16), (25, "3.37", 16), (20, "4.44", 32)):
        steps = ', "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 100}}'
        steps += ', "fp16": {"enabled": true}' if bits == 16 else ""
        text = onebit("onebitadam", '{"freeze_step": %d}' % share, steps)
        with_config(text, "--params 1B").prints(f"1/{bits} of {bits}-bit gradients", f"of 100 steps: {saving} times less")
        got = json.loads(with_config(text, "--params 1B --json -").out)
        near(got["volume_saved"], 1 / (share / 100 + (1 - share / 100) / bits), 1e-9, "volume")
    with_config(onebit("onebitadam", '{"freeze_step": 200}', steps), "--params 1B").prints("200 of 100 steps: the compressed stage never begins")
    with_config(onebit("ZeroOneAdam", '{"var_freeze_step": 10}'), "--params 1B").prints("zero-one-adam", "var_freeze_step 10")
    zero = "refuses this optimizer with ZeRO"
    for text, says in [
        (onebit("OneBitAdam", "{}", ', "zero_optimization": {"stage": 1}'), zero),
        (onebit("ZeroOneAdam", "{}", ', "zero_optimization": {"stage": 3}'), zero),
        (onebit("OneBitLamb", "{}", ', "fp16": {"enabled": true, "loss_scale": 128}'), "without dynamic loss scaling"),
        (onebit("Lamb", "{}", ', "fp16": {"enabled": true, "loss_scale": 128}'), "without dynamic loss scaling"),
        (onebit("OneBitAdam", '{"amsgrad": true}'), "optimizer.params.amsgrad: true is not false"),
        (onebit("OneBitAdam", '{"var_freeze_step": 1}'), "optimizer.params.var_freeze_step: 1 is not a parameter of"),
        (onebit("OneBitAdam", '{"max_grad_norm": 1}'), "gradient_clipping"),
        (onebit("OneBitAdam", '{"betas": [0.8, 1]}'), "optimizer.params.betas: [0.8,1] is not"),
        (onebit("OneBitAdam", '{"freeze_step": 0.5}'), "optimizer.params.freeze_step: 0.5 is not a whole number from 0"),
        (onebit("OneBitAdam", '{"lr": -1}'), "optimizer.params.lr: -1 is not a number of at least 0"),
        (onebit("OneBitAdam", '{"comm_backend_name": "gloo"}'), 'comm_backend_name: "gloo" is not nccl, mpi, hccl'),
        (onebit("OneBitAdam", '{"cuda_aware": 1}'), "optimizer.params.cuda_aware: 1 is not true or false"),
        (onebit("OneBitAdam", "3"), "optimizer.params: 3 is not an object"),
    ]:
        with_config(text, "--params 1B", (2,)).says(says, "ds_config.json")
    memory("--params 1B --dp 8 --zero 2 --optimizer onebit-adam").exits(2).says("--optimizer onebit-adam", "--zero 0")
    memory("zero --params 1B --optimizer onebit-lamb").exits(2).says("--optimizer onebit-lamb", "with ZeRO")


@test
def a_config_of_hugging_face():
    """Together with a config of DeepSpeed: two files, one result."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
                       "vocab_size": 32000, "intermediate_size": 11008, "max_position_embeddings": 4096}, file)  # fmt: skip
        got = json.loads(with_config('{"fp16": {"enabled": true}}', f"--model {path} --json -").out)
    equal(got["total_bytes"], said("--model llama2-7b")["total_bytes"], "Llama 2 7B")


@test
def files_of_the_field():
    """Keys left to transformers' classes, and keys that change nothing: the models that their authors publish."""
    gemma = {"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999, "eoi_token_index": 256000,
             "eos_token_id": [1, 106], "image_token_index": 262144, "initializer_range": 0.02, "mm_tokens_per_image": 256,
             "model_type": "gemma3", "torch_dtype": "bfloat16",
             "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
                             "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
             "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model",
                               "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False}}  # fmt: skip
    llama = {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008,
             "max_sequence_length": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "pad_token_id": -1,
             "rms_norm_eps": 1e-06, "torch_dtype": "float16", "use_cache": True, "vocab_size": 32000}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        for config, parameters, says in [
            (gemma, 4_300_079_472, ["read as gemma3; keys that it lacks, by transformers' Gemma3TextConfig and SiglipVisionConfig: ",
                                    "text_config.num_attention_heads 8, text_config.vocab_size 262208"]),
            (llama, 6_738_415_616, ["read as llama; keys that it lacks, by transformers' LlamaConfig: max_position_embeddings 2048"]),
            (llama | {"quantization_config": {"quant_method": "awq"}}, 6_738_415_616, ["its weights are quantised (awq)"]),
        ]:  # fmt: skip
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            equal(said(f"--model {path}")["parameters"], parameters, "parameters")
            text = kit.prose(memory(f"--model {path}").exits(0).out)
            expect(all(words in text for words in says), text)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(llama | {"mamba_d_state": 16, "conv_kernel": 4, "bos_token_id": 1}, file)
        memory(f"--model {path}").exits(2).says("not known, and may change the tensors: mamba_d_state, conv_kernel; remove those")
    equal([said(f"--model resnet{n}")["parameters"] for n in (18, 34, 101, 152)], [11689512, 21797672, 44549160, 60192808], "torchvision")


# ---- checkpointing and quantisation ------------------------------------------------------------


@test
def checkpointing():
    j = said(CHAIN)
    equal([r["every"] for r in j["results"]], [None, 1, 2, 4, 6], "what is measured")
    for r in j["results"]:
        equal((r["same_result"], r["activation_bytes"]), (True, r["calculated_bytes"]), f"every {r['every']}")
        expect(r["forward_s"] > 0 and r["backward_s"] > 0, f"{r}")
        equal((r["repeated_layers"], r["repeated_s"] > 0), (6, True) if r["every"] else (0, False), "what is repeated")
    unit = 4 * 8 * 4
    equal([r["activation_bytes"] // unit for r in j["results"]], [30, 10, 12, 20, 30], "inputs of a layer")
    equal([r["every"] for r in said(CHAIN + " --checkpoint-every 3")["results"]], [None, 3], "one")
    memory(CHAIN).exits(0).prints("same", "MiB", "MB")


@test
def quantisation():
    j = said("quantise --values 1,2,3")
    found = {(r["bits"], r["method"]): r for r in j["results"]}
    equal(found[8, "minmax"]["codes"], [-127, 0, 127], "int8 by min/max")
    equal(found[8, "scale"]["codes"], [42, 85, 127], "int8 by scale")
    equal(found[4, "minmax"]["codes"], [-7, 0, 7], "int4 by min/max")
    equal(found[4, "scale"]["codes"], [2, 5, 7], "int4 by scale")
    equal(found[8, "minmax"]["numbers"], [1, 2, 3], "round trip")
    j = said("quantise --count 10001")
    for r in j["results"]:
        equal(r["bytes"], (10001 * r["bits"] + 7) // 8 + (8 if r["method"] == "minmax" else 4), "bytes")
        expect(0 < r["error_rms"] < r["error_most"] <= r["scale"] * 0.5001, f"{r}")
    equal(said("quantise --count 100"), said("quantise --count 100 --seed 1"), "the same numbers")
    equal(len(said("quantise --values 5 --format int4 --method scale")["results"]), 1, "one of four")


@test
def quantisation_step_by_step():
    """Scales, codes and errors of the conventions in use, worked out by hand."""

    def codes(line, coding):
        found = {r["coding"]: r for r in said(f"quantise {line}")["results"]}[coding]
        return found["codes"], found["numbers"]

    equal(codes("--values 1,2,3", "int8-minmax"), ([-127, 0, 127], [1, 2, 3]), "minmax")
    equal(codes("--values 1,2,3", "int8")[0], [42, 85, 127], "round(w / scale)")
    # The maximum of DeepSpeed is wrong by max/128; its minimum is exact.
    equal(codes("--values 1,2,3 --method ds", "ds-int8"), ([43, 85, 127], [1.0078125, 1.9921875, 2.9765625]), "DeepSpeed")
    equal(codes("--values=-3,-1.5,.1,3 --method ds", "ds-int8")[0], [-128, -64, 4, 127], "DeepSpeed's minimum")
    equal(codes("--values 1,2,3 --method ds", "ds-int4"), ([3, 5, 7], [1.125, 1.875, 2.625]), "DeepSpeed's int4")
    equal(codes("--values 1,2,3 --method torch", "torch-uint8"), ([85, 170, 255], [1, 2, 3]), "PyTorch")
    equal(codes("--values=-1,0,2 --method torch", "torch-uint8")[0], [0, 85, 255], "PyTorch's zero point")
    explained = lambda line: [row.split() for row in memory(f"quantise --explain {line}").exits(0).out.splitlines()]
    found = explained("--values 1,2,3 --format int8 --method minmax")
    for row in ("1 -127 -127 1 0", "2 0 0 2 0", "3 127 127 3 0"):
        expect(row.split() in found, f"{row} is not in {found}")
    for row in ("1 42.66667 43 1.007812 0.0078125", "3 128 127 2.976562 -0.0234375 clamped"):
        expect(row.split() in explained("--values 1,2,3 --method ds"), f"{row} of DeepSpeed")
    expect("0 0 0x00 0 0".split() in explained("--values=-1,0,2 --method mxfp8"), "bits of 0")
    memory("quantise --values=-1,0,2 --method torch --explain").exits(0).prints(
        "minimum -1, maximum 2: scale s = 0.01176471, z = 0, p = 85", "# torch-uint8: "
    )
    found = said("quantise --values 1,2,3 --method all")["results"]
    equal(len({r["coding"] for r in found}), 14, "codings")
    equal([r["bytes"] for r in said("quantise --count 1024 --method mxfp8")["results"]], [1056] * 2, "a byte for 32 numbers")


# ---- bad input, help ---------------------------------------------------------------------------


@test
def bad_input():
    for line, says in [
        ("", "give --model llama2-7b, or --params 7.5B"),
        ("trian --params 1B", 'trian: not a subject; did you mean "train"?'),
        ("train --params 1B --model gpt2", "--model gpt2 and --params exclude each other"),
        ("--params 7.5G", "expected a count"),
        ("--params 0", "--params 0: out of range"),
        ("--params 1B --seq 4", "--seq 4 needs --model"),
        ("--model llama2-7", "did you mean"),
        ("--model gpt2 --zero 4", "--zero 4: out of range"),
        ("--model gpt2 --optimizer adam", "did you mean adamw?"),
        ("--model gpt2 --precision fp8", "--precision fp8"),
        ("--model gpt2 --tp 5", "--tp 5: does not divide the 12 heads"),
        ("--model gpt2 --pp 13", "--pp 13: exceeds the 12 layers"),
        ("--model gpt2 --ep 2", "--ep 2: the model has no experts"),
        ("--model mixtral-8x7b --ep 8 --dp 4", "--ep 8: does not divide the data-parallel ranks"),
        ("--model gpt2 --optimizer adafactor --zero 1", "--optimizer adafactor"),
        ("--params 1B --optimizer adafactor", "give --model instead of --params"),
        ("--model gpt2 --offload parameters", "needs --zero 3"),
        ("--model gpt2 --dp 2 --pp 2 --zero 2", "--zero 2: gradients of a pipeline stay whole"),
        ("--model gpt2 --schedule interleaved", "needs --chunks 2 or more"),
        ("--model gpt2 --gpus 8", "--gpus 8 needs --fits"),
        ("--model gpt2 --fits 1G --reserve 1G", "--reserve: 1.07 GB leave nothing of --fits 1.07 GB"),
        ("--model gpt2 --fits 80", "give a unit, as in --fits 80G"),
        ("--model gpt2 --fits 80G --reserve 2", "give a unit, as in --reserve 2G"),
        ("train --model gpt2 --bits 8", "--bits: an option of model_memory infer, not of train"),
        ("--model gpt2 --checkpoint-every=4", "--checkpoint-every: an option of model_memory checkpoint, not of train"),
        ("infer --checkpoint-every 4", "--checkpoint-every: an option of model_memory checkpoint, not of infer"),
        ("--model gpt2 --bit 8", "--bit: unknown option"),
        ("infer --model bert-large --context 5", "bert-large is an encoder"),
        ("zero --params 1B --optimizer adafactor", "--optimizer adafactor"),
        ("infer --params 1B --context 5", "--context 5"),
        ("infer --model gpt2 --bits 33", "--bits 33: out of range"),
        ("infer --model gpt2 --tp 5", "--tp 5: does not divide the 12 heads"),
        ("deepspeed --params 1B", "give --largest-layer"),
        ("deepspeed --params 1B --largest-layer 2B", "exceeds the 1000000000 parameters"),
        ("checkpoint --layers 4096 --width 4096", "give a smaller chain"),
        ("checkpoint --checkpoint-every 0", "--checkpoint-every 0: out of range"),
        ("quantise --values 1,,2", "does not begin with an fp32 number"),
        ("quantise --values 1,nan", "does not begin with an fp32 number"),
        ("quantise --values 3e38,-3e38", "exceeds fp32"),
        ("quantise --explain", "--explain: shows at most 32 numbers"),
        ("quantise --method fp8 --format int4", "--format: the method has no such integers"),
        ("quantise --method dss", "--method dss"),
        ("--params 1B --json /nonexistent/x", "/nonexistent/x cannot be written"),
    ]:
        result = memory(line).exits(2).says(says)
        equal(result.out, "", "on stdout")


@test
def help_and_version():
    memory("--help").exits(0).prints(*SUBJECTS, "--model", "--fits", "the first that has all given options")
    memory("--version").exits(0).prints("model_memory (busbench) ")
    memory("--list").exits(0).prints("llama2-7b", "config.json of Hugging Face")
    with open(os.path.join(kit.ROOT, "docs", "memory.md"), encoding="utf-8") as file:
        page = file.read()
    for subject in SUBJECTS:
        memory(f"{subject} --help").exits(0).prints(f"Usage: model_memory {subject}")
        for section in memory(f"{subject} --help-markdown").exits(0).out.strip().split("### ")[1:]:
            expect("### " + section.strip() in page, f"docs/memory.md lacks of {subject}: {section}")


def sanitized(line):
    for variant in Settings.variants:
        memory(line, variant).exits(0)


for line in [
    "--model mixtral-8x7b --dp 16 --ep 8 --tp 2 --pp 5 --zero 1 --schedule gpipe --recompute full",
    "--model llama2-70b --gpus 64 --fits 80G --json -",
    "zero --params 7.5B",
    "infer --model llama2-70b --tp 16",
    "deepspeed --model llama2-7b",
    CHAIN,
    "quantise --count 101 --method all",
    "quantise --count 32 --method all --explain",
]:
    add(f"sanitized: {line}", sanitized, line, full=True)

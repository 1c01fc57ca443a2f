"""hybrid_parallel_perf --plan: its search, the parts of a step by hand, and published runs."""

import os
import random
import re
import subprocess
import sys

from kit import ROOT, built, equal, expect, run, test

LINKS = "--link 300GB/s,3us --node-link 12.5GB/s,5us --flops 150T"


def plans(line, codes=(0,)):
    found = run(f"{line} --json -").exits(*codes).records()
    return [r for r in found if r["kind"] == "hybrid_plan"], found


@test
def search_is_never_slower():
    """No division that can be given by hand is faster than the best of the search, in the model of both."""
    line = f"hybrid_parallel --plan --ranks 32 --batch 96 --model llama2-7b --overlap data --memory-rate 1.7TB/s {LINKS}"
    best = plans(line)[0][0]["step_us"]
    draw, seen = random.Random(24), 0
    for _ in range(80):
        tp, pp, cp = draw.choice((1, 2, 4, 8)), draw.choice((1, 2, 4)), draw.choice((1, 2, 4))
        given = {"tp": tp, "pp": pp, "cp": cp, "zero": draw.randrange(4 if pp == 1 else 2),
                 "virtual-stages": draw.choice((1, 2, 4, 8)) if pp > 1 else 1, "micro-batch": draw.choice((1, 2, 3, 4, 6, 8)),
                 "recompute": draw.choice(("none", "selective", "full"))}
        parallel = " --sequence-parallel" if tp > 1 and draw.random() < 0.5 else ""
        text = " ".join(f"--{name} {value}" for name, value in given.items()) + parallel
        rows, _ = plans(f"{line} --fixed {text}", (0, 5))
        seen += len(rows)
        expect(all(row["step_us"] >= best * (1 - 1e-9) for row in rows), f"{text}: {rows}, but the best is {best}")
    expect(seen > 10, f"{seen} divisions fit")


@test
def search_with_searched_orders():
    """With zb-auto the search leaves orders out by a bound, and finds the fastest division nevertheless."""
    line = f"hybrid_parallel --plan --ranks 8 --batch 24 --model llama2-7b --memory 60GB --schedule zb-auto --kept 3 {LINKS}"
    found, seen = {r["pp"]: r["step_us"] for r in plans(f"{line} --tp 2")[0]}, 0
    for pp in (2, 4):
        by_hand = {(micro, zero, parallel, recompute):
                   plans(f"{line} --fixed --tp 2 --pp {pp} --micro-batch {micro} --zero {zero} --recompute {recompute} {parallel}", (0, 5))[0]
                   for micro in (1, 2, 3, 6) for zero in (0, 1) for parallel in ("", "--sequence-parallel")
                   for recompute in ("none", "selective", "full")}  # fmt: skip
        steps = [rows[0]["step_us"] for rows in by_hand.values() if rows]
        seen += len(steps)
        expect(min(steps) >= found[pp] * (1 - 1e-9), f"pp {pp}: {min(steps)}, but the search finds {found[pp]}")
    expect(seen > 20, f"{seen} divisions fit")


@test
def search_of_llama2_70b():
    """The search finds what --zero 1 --sequence-parallel by hand found, and more."""
    line = "hybrid_parallel --plan --model llama2-70b --ranks 128 --batch 1024 --link 450GB/s,3us --node-link 50GB/s,10us --flops 400T"
    (best, second), (given, *_) = plans(line)[0][:2], plans(f"{line} --zero 1 --sequence-parallel --fixed")[0]
    expect(best["step_us"] < second["step_us"] and best["step_us"] < given["step_us"], (best, given))
    seconds = 1e-6 * best["step_us"]
    expect(abs(best["tokens_per_s"] - 1024 * 4096 / (128 * seconds)) < 1e-6 * best["tokens_per_s"], best)
    run(line).exits(0).prints("tokens per second and rank", "exposed communication:", "next: dp")


@test
def plan_of_a_cluster():
    """--cluster gives nodes, links and the number of ranks."""
    line = "hybrid_parallel --plan --model llama2-70b --batch 1024 --flops 400T --backend sim --cluster"
    out = run(f"{line} hgx-h100:16").exits(0).prints("# 128 ranks, 8 per node").out
    expect("between nodes" in out, out)
    equal({r["nranks"] for r in plans(f"{line} hgx-h100:16 --ranks 64")[0]}, {64}, "ranks")
    equal({r["nranks"] for r in plans(f"{line} hgx-h100:256 --tp 8 --pp 8")[0]}, {2048}, "more than a process has ranks")
    # Trays that share NVSwitches are one node, of which a job may use a part.
    run(f"{line} gb200-nvl72:36").exits(0).prints("# 144 ranks, 72 per node")
    run(f"{line} gb200-nvl72:36 --ranks 128 --node 64").exits(0).prints("# 128 ranks, 64 per node")
    run(f"{line} hgx-h100:2 --ranks 64").exits(2).says("--ranks 64: more than the 16 of --cluster")
    run(f"{line} hgx-h100:2 --node 16").exits(2).says("--node 16: more than the 8 ranks of a node of --cluster")
    run(f"{line} hgx-h100:2 --node-link 1GB/s").exits(2).says("--node-link 1GB/s and --cluster hgx-h100:2 exclude each other")
    run("hybrid_parallel --plan --preset deepspeed-3d --backend sim --cluster hgx-h100:4").exits(0).prints("# 32 ranks, 8 per node")


@test
def virtual_stages_and_context():
    """v virtual stages divide the bubble by v and wait for 2 (p v - 1) messages; cp ranks divide tokens and send keys and values."""
    line = f"hybrid_parallel --plan --ranks 32 --batch 64 --model llama2-7b --pp 4 --micro-batch 1 --zero 1 --recompute none --fixed " \
           f"--order tp-dp-pp {LINKS}"
    settings = ("--tp 8 --virtual-stages 1 --cp 1", "--tp 8 --virtual-stages 4 --cp 1", "--tp 4 --virtual-stages 1 --cp 2")
    (one,), (four,), (two,) = (plans(f"{line} {setting}")[0] for setting in settings)
    expect(abs(one["bubble_us"] / four["bubble_us"] - 4) < 1e-9, (one["bubble_us"], four["bubble_us"]))
    # 1f1b of 64 micro-batches on 4 stages waits for 2 x 3 x 17 - 2 messages.
    expect(abs(four["pipeline_us"] / one["pipeline_us"] - 30 / 100) < 1e-9, (one["pipeline_us"], four["pipeline_us"]))
    equal((two["dp"], two["cp"], two["micro_batches"]), (1, 2, 64), "replicas and micro-batches")
    equal(two["activation_bytes"], 2 * 2048 * 4096, "half of a sequence")
    # 8 layers of a stage, 64 micro-batches, once forward and twice backward: 2 matrices of 2048 tokens of 8 heads
    # of 128 numbers of 2 bytes, to one other rank at 300 GB/s.
    message = 2 * 2048 * 8 * 128 * 2
    expect(abs(two["context_us"] - 8 * 64 * 3 * (3 + 1e6 * message / 300e9)) < 1, two["context_us"])


@test
def schedules_of_a_pipeline():
    """--schedule: idle times by hand, from the rows' own F, B and W, which are equal without attention and messages."""
    line = "hybrid_parallel --plan --ranks 4 --batch 32 --micro-batch 1 --model llama2-7b --seq 8 --tp 1 --pp 4 --dp 1 --zero 0 " \
           "--recompute none --fixed --link 1000TB/s,0s --flops 100T --memory 10T"
    found = {name: plans(f"{line} --schedule {name}")[0][0] for name in ("naive", "gpipe", "1f1b", "zb-h1", "zb-h2", "zb-auto")}
    micro = found["1f1b"]["compute_us"] / 32
    for name, idle in {"naive": 3 * 32, "gpipe": 3, "1f1b": 3, "zb-h1": 1, "zb-h2": 0}.items():
        equal(found[name]["schedule"], name, "name")
        # Attention is 8 / (12 x 4096) of a layer and has no W.
        expect(abs(found[name]["bubble_us"] / micro - idle) < 0.03, (name, found[name]["bubble_us"] / micro))
    expect(found["zb-auto"]["bubble_us"] <= found["zb-h1"]["bubble_us"], found["zb-auto"])
    memory = {name: row["memory_bytes"] for name, row in found.items()}
    expect(memory["naive"] < memory["1f1b"] <= memory["zb-h1"] < memory["zb-h2"] < memory["gpipe"], memory)
    run(f"{line} --schedule interleaved").exits(5).prints("the schedule has no order")
    run(f"{line} --schedule zb-v").exits(5).prints("the schedule has no order")
    expect(plans(f"{line} --schedule zb-v --virtual-stages 2")[0], "zb-v")


@test
def exchanges_of_heads():
    """--cp-by: rings or all-to-alls of heads, whichever is faster, by hand."""
    line = "hybrid_parallel --plan --ranks 4 --batch 4 --model llama3-8b --seq 8192 --tp 1 --pp 1 --cp 4 --micro-batch 1 --zero 1 " \
           "--recompute none --link 100GB/s,0s --flops 1000T"
    ring, exchange, best = (plans(f"{line} --cp-by {way}")[0][0] for way in ("ring", "all-to-all", "any"))
    # A layer: keys and values of 2048 tokens to three others, three times; 3/4 of queries, keys, values and output, twice.
    equal((ring["context"], exchange["context"], best["context"]), ("ring", "all-to-all", "all-to-all"), "way")
    expect(abs(ring["context_us"] - 4 * 32 * 9 * 2 * 2048 * 2048 / 100e3) < 1, ring["context_us"])
    expect(abs(exchange["context_us"] - 4 * 32 * 1.5 * 2 * 2048 * (2 * 4096 + 2 * 1024) / 100e3) < 1, exchange["context_us"])
    # A ring through two nodes uses the links of its eight members in each: 512 tokens to each of 15 others, three times.
    wide = line.replace("--ranks 4", "--ranks 16 --node 8 --node-link 10GB/s,0s").replace("--cp 4", "--cp 16")
    (across,), _ = plans(f"{wide} --cp-by ring --link 300GB/s,0s")
    expect(abs(across["context_us"] - 4 * 32 * 45 * 2 * 512 * 2048 / 80e3) < 1, across["context_us"])
    run(f"{line} --cp-by all-to-all --tp 4 --ranks 16").exits(5).prints("tp does not divide the heads")


@test
def folded_experts():
    """--ep and --etp: DeepSeek-V3 as in NVIDIA's recipe, 64 groups of one rank among tp 2 and 64 replicas."""
    line = "hybrid_parallel --plan --ranks 1024 --batch 8192 --model deepseek-v3 --seq 4096 --tp 2 --pp 8 --micro-batch 1 " \
           "--virtual-stages 4 --zero 1 --recompute none --order tp-dp-pp --memory 1T --cp 1 --sequence-parallel " \
           "--link 360GB/s,0s --node-link 40GB/s,0s --flops 400T"
    (direct,), (once,) = (plans(f"{line} --ep 64 --etp 1 --dispatch {way}")[0] for way in ("ranks", "nodes"))
    equal((direct["dp"], direct["ep"], direct["etp"], direct["dispatch"]), (64, 64, 1, "ranks"), "division")
    # 8 layers of a stage, 128 micro-batches, 4 all-to-alls of 8 rows of 2048 tokens; 56 of 64 leave the node.
    rows = 8 * 128 * 4 * 8 * 2048 * 7168 * 2
    expect(abs(direct["expert_bytes"] / (rows * 63 / 64) - 1) < 1e-9, direct["expert_bytes"])
    expect(abs(direct["expert_us"] / (1e6 * rows * 56 / 64 / 40e9) - 1) < 1e-9, direct["expert_us"])
    # Each of the 7 other nodes is among those of a token's 8 experts with 1 - (7/8)^8.
    expect(abs(once["expert_us"] / (1e6 * rows / 8 * 7 * (1 - (7 / 8)**8) / 40e9) - 1) < 1e-9, once["expert_us"])
    run(f"{line} --ep 64 --etp 1 --dispatch nodes").exits(0).prints("ep 64, etp 1", "tokens per second and rank", "groups of 64")
    run(f"{line} --ep 48 --etp 1").exits(5).prints("ep and etp cannot divide the experts")
    # Hidden but for one of 128 micro-batches.
    (beside,), _ = plans(f"{line} --ep 64 --etp 1 --overlap experts --flops 40T")
    expect(abs(beside["expert_us"] / direct["expert_us"] - 1 / 128) < 1e-9, beside["expert_us"])


@test
def experts_are_searched():
    """Without --ep and --etp all are tried, and none by hand is faster."""
    line = f"hybrid_parallel --plan --ranks 32 --batch 64 --model mixtral-8x7b --seq 4096 --tp 2 --pp 2 --cp 1 --zero 1 {LINKS}"
    (best,), _ = plans(line)
    for ep, etp in ((1, 2), (2, 2), (4, 2), (8, 2), (2, 1), (8, 1)):
        rows, _ = plans(f"{line} --ep {ep} --etp {etp}", (0, 5))
        expect(all(row["step_us"] >= best["step_us"] * (1 - 1e-9) for row in rows), (ep, etp, rows, best))
    run(line).exits(0).prints("ep", "etp")


@test
def share_of_the_peak():
    """The peak of --cluster's GPU, or --peak; attention in 16 bits beside products in 8."""
    line = "hybrid_parallel --plan --model llama2-70b --batch 1024 --flops 400T --backend sim --cluster hgx-h100:16"
    run(line).exits(0).prints("of 989 TFLOPS)")
    (best, *_), _ = plans(line)
    expect(abs(best["mfu"] / best["flops_share"] - 400 / 989) < 1e-9, best)
    run(f"{line} --peak 1979T").exits(0).prints("of 1979 TFLOPS)")
    line = f"hybrid_parallel --plan --ranks 8 --batch 64 --model llama2-7b --tp 8 --micro-batch 1 --recompute none --memory 1T {LINKS}"
    (one,), (two,) = (plans(line + rate)[0] for rate in ("", " --attention-flops 75T"))
    equal(one["mfu"], None, "unknown peak")
    # Forward a half of 4 s^2 h of each layer, backward 1.25: once more at half the rate.
    more = 1.75 * 4 * 4096**2 * 4096 * 32 * 64 / 8 / 150e12
    expect(abs(two["compute_us"] - one["compute_us"] - 1e6 * more) < 1, (one["compute_us"], two["compute_us"], more))


@test
def wide_tensor_groups():
    """Tensor communication does not overlap across nodes, and within one no longer than products take."""
    line = "hybrid_parallel --plan --ranks 16 --batch 64 --model llama2-7b --tp 16 --micro-batch 1 --recompute none --fixed --memory 1T"
    for node, hides in ((16, True), (8, False)):
        settings = f"{line} --node {node} {LINKS}"
        (none,), (all_,) = (plans(f"{settings} --overlap {way}")[0] for way in ("none", "all"))
        equal(all_["tensor_us"] < none["tensor_us"], hides, f"nodes of {node}")
    slow = f"{line} --node 16 --link 1GB/s,0s --flops 150T"
    (none,), (all_,) = (plans(f"{slow} --overlap {way}")[0] for way in ("none", "all"))
    expect(none["tensor_us"] - all_["tensor_us"] <= none["compute_us"], (none, all_))


@test
def memory_takes_time():
    """Bytes that the memory moves, by hand: a layer of width 64 of gpt2 with FlashAttention, on one rank."""
    line = "hybrid_parallel --plan --ranks 1 --batch 1 --micro-batch 1 --zero 0 --recompute none --link 1GB/s --flops 1T " \
           "--model gpt2:layers=1,hidden=64,heads=4,vocab=100,seq=32"
    (row,), _ = plans(f"{line} --memory-rate 1GB/s")
    elements = 12 * 64**2 + 13 * 64 + (100 + 32) * 64 + 2 * 64
    layer = 32 * ((22 + 34) * 64 + (4 + 6) * 4 * 64)
    # Logits; gradients of 2 bytes read and written; states of 12 bytes, gradients and parameters.
    moved = layer + 32 * 24 * 100 + 4 * elements + (24 + 2 + 2) * elements
    expect(abs(row["local_us"] - 1e-3 * moved) < 1e-6, (row["local_us"], 1e-3 * moved))
    (without,), _ = plans(line)
    equal(without["local_us"], 0, "without a rate")


@test
def memory_of_experts_takes_time():
    """Two of four experts compute a token, with their own width, and each rank updates those that it holds. The rows of a
    token, of 128 bytes, are sorted by rank and back, and where ranks divide the experts also by expert."""
    line = "hybrid_parallel --plan --batch 2 --micro-batch 1 --zero 1 --recompute none --link 1GB/s --flops 1T --memory-rate 1GB/s " \
           "--model qwen3_moe:layers=1,hidden=64,heads=4,kv=4,head_dim=16,vocab=100,seq=32,ffn=512,experts=4,top_k=2,expert_ffn=32"
    dense = 4 * 64**2 + 4 * 64 + 2 * 16 + 2 * 64 + 64 + 2 * 6400
    held = 4 * 3 * 64 * 32
    passed = 32 * ((20 + 24) * 64 + (6 + 10) * 2 * 32 + 2 * 4 * 8 * 16 + 24 * 100)
    for ranks, ep in ((1, 1), (2, 2)):
        (row,), _ = plans(f"{line} --ranks {ranks} --ep {ep} --tp 1 --cp 1 --dp {ranks}")
        sorted_rows = 32 * 2 * 128 * (2 * (1 + 2) + (ep > 1) * 4 * 2)
        moved = 2 // ranks * (passed + sorted_rows + 4 * (dense + held / ep)) + (24 + 2 + 2) * (dense / ranks + held / ep)
        expect(abs(row["local_us"] - 1e-3 * moved) < 1e-6, (ranks, row["local_us"], 1e-3 * moved))


@test
def launch_time_of_published_runs():
    """The plan recommends the launch time that published runs have."""
    with open(os.path.join(ROOT, "docs", "training_runs.md"), encoding="utf-8") as file:
        (time,) = re.findall(r"so it is ([\d.]+ ms), the\s+least", file.read())
    run(f"hybrid_parallel --plan --ranks 8 --model mixtral-8x7b --seq 4096 {LINKS}").exits(0, 5).prints(f"on H100 {time})")


@test(full=True)
def training_runs():
    """docs/training_runs.md is what make validate writes."""
    found = subprocess.run([sys.executable, os.path.join(ROOT, "studies", "validate", "runs.py"),
                            os.path.dirname(built("hybrid_parallel_perf"))], capture_output=True,
                           text=True, check=True).stdout
    with open(os.path.join(ROOT, "docs", "training_runs.md"), encoding="utf-8") as file:
        expect(file.read() == found, "docs/training_runs.md is not what make validate writes")

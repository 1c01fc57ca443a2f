"""hybrid_parallel_perf: divisions of a model, planned; steps, run and verified."""

import json
import math
import re

import gpus
import mpi
from kit import ROOT, SANITIZERS, Settings, add, built, equal, execute, expect, prose, run, table_rows, test

BLOOM = "hybrid_parallel --plan --preset bloom-176b"
LINKS = "--link 300GB/s,3us --node-link 12.5GB/s,5us --flops 150T"


def plans(line, codes=(0,)):
    found = run(f"{line} --json -").exits(*codes).records()
    return [r for r in found if r["kind"] == "hybrid_plan"], found


@test
def bloom():
    """The published division is in the list, and sends the known bytes."""
    out = run(BLOOM).exits(0).out
    expect("# 384 ranks, 8 per node, 184.5 TFLOPS each; order tp-pp-dp\n# memory of a rank: 81.76 GB" in out, out)
    marked = [line.split() for line in out.splitlines() if line.startswith("  > ")]
    equal([row[1:4] for row in marked], [["8", "4", "12"]] * 2, "the published one, in both parts of the table")
    equal(marked[0][4], "128", "its micro-batches")
    expect("# In every row: cp 1, schedule 1f1b, virtual 1, ZeRO 1, sequence no, scatter no," in out, out)
    expect("# dp 8, tp 4, pp 12: bytes that a rank" in out, out)
    expect(prose(out).endswith("# Best division: dp 16, tp 8, pp 3, 102.3 s per step; next: dp 8, tp 8, pp 6, 0.9% longer: "
                               "2.52 s more pipeline communication\n"), out)
    expect("0 of 96 groups of 4 cross nodes" in out and "48 of 48 groups of 8 cross nodes" in out, out)
    rows, _ = plans(BLOOM)
    (r,) = [r for r in rows if r["published"]]
    equal((r["tp"], r["pp"], r["dp"], r["micro_batches"]), (4, 12, 8, 128), "division")
    equal((r["activation_bytes"], r["boundary_bytes"]), (112 << 20, 112 << 20), "bytes of a micro-batch")
    expect(abs(r["bubble_over_ideal"] - 0.0859) < 1e-4, r["bubble_over_ideal"])
    equal([r["place"] for r in rows], list(range(1, len(rows) + 1)), "places")
    equal(rows, sorted(rows, key=lambda r: r["step_us"]), "order")
    expect(all(r["memory_bytes"] <= r["memory_limit_bytes"] for r in rows), "too large")
    expect(all(r["reason"] for r in rows), "a way without a reason")


@test
def bloom_takes_its_time():
    """At 150 TFLOPS of the whole run the published division takes its published time, and is among the best."""
    rows, _ = plans(BLOOM)
    (r,) = [r for r in rows if r["published"]]
    b, seq, layers, width, words = 2048, 2048, 70, 14336, 250880
    flops = 96 * b * seq * layers * width**2 * (1 + seq / (6 * width) + words / (16 * layers * width))
    expect(abs(r["step_us"] / (1e6 * flops / (384 * 150e12)) - 1) < 1e-6, r["step_us"])
    expect(abs(1e-6 * r["step_us"] - 105) < 1, "the chronicles have some 105 s")
    expect(r["step_us"] < 1.05 * rows[0]["step_us"], f"{r['step_us']} of {rows[0]['step_us']}")
    equal({row["recompute"] for row in rows}, {"full"}, "as it was published")
    out = run(BLOOM).exits(0).out
    expect("whole run reached 150 TFLOPS" in out and "the published division is number" in out, out)
    # --flops is the rate of computations.
    (given,) = [r for r in plans(f"{BLOOM} --flops 150T")[0] if r["published"]]
    expect(given["step_us"] > 1.15 * r["step_us"], given)


@test
def deepspeed():
    """32 GPUs and the model of DeepSpeed's example, computed by hand: no tensor group leaves its node."""
    rows, _ = plans("hybrid_parallel --plan --preset deepspeed-3d")
    (r,) = [r for r in rows if r["published"]]
    equal((r["tp"], r["pp"], r["dp"], r["order"], r["zero"]), (4, 4, 2, "tp-dp-pp", 1), "division")
    equal((r["tensor_crossing"], r["pipeline_crossing"], r["data_crossing"]), (0, 8, 16), "groups that cross nodes")
    equal((r["micro_batch"], r["micro_batches"], r["recompute"]), (4, 16, "full"), "micro-batches")
    expect(abs(r["bubble_over_ideal"] - 3 / 16) < 1e-9, r["bubble_over_ideal"])
    # 4 sequences of 1024 tokens of 1024 numbers of 2 bytes.
    a = 8 << 20
    equal((r["activation_bytes"], r["boundary_bytes"]), (a, a), "bytes of a micro-batch")
    # The last of four stages: six layers of six all-reduces, one of the head, three of 4 bytes of a token.
    equal(r["tensor_bytes"], 16 * (6 * 6 + 1) * 3 * a // 2 + 16 * 3 * 3 * 4 * 4096 // 2, "tensor")
    equal((r["tensor_calls"], r["pipeline_calls"], r["pipeline_bytes"]), (16 * 40, 16, 16 * a), "calls")
    # Of six layers 12 h^2 and of the head V h, both divided by four, and vectors of 13 h and 2 h: half of
    # the gradients is scattered, and half of the parameters gathered.
    elements = (6 * 12 * 1024**2 + 50257 * 1024) // 4 + (6 * 13 + 2) * 1024
    equal(r["data_bytes"], 2 * elements, "data")
    out = prose(run("hybrid_parallel --plan --preset deepspeed-3d").exits(0).out)
    expect("354823168 parameters" in out and "the published division is" in out, out)


@test
def divisions_are_kept():
    rows, _ = plans(f"hybrid_parallel --plan --ranks 64 --model llama2-7b --tp 4 --micro-batch 1 {LINKS}")
    expect(rows and all(r["tp"] == 4 for r in rows), "--tp")
    expect(len({(r["dp"], r["pp"]) for r in rows}) == len(rows) > 2, "a division twice")
    (one,), _ = plans(f"hybrid_parallel --plan --ranks 64 --model llama2-7b --tp 4 --pp 2 --dp 8 {LINKS}")
    equal(one["reason"], "the only division that fits", "reason")


@test
def zero_in_a_pipeline():
    """Accumulated gradients stay whole, so stage 2 with a pipeline is not compared, as in model_memory."""
    line = "--model llama2-7b --micro-batch 1"
    rows, _ = plans(f"hybrid_parallel --plan --ranks 64 {line} --zero 2 {LINKS}")
    expect(rows and all(r["pp"] == 1 and r["zero"] == 2 for r in rows), rows)
    run(f"hybrid_parallel --plan --ranks 64 {line} --zero 2 {LINKS}").exits(0).prints("ZeRO 2 or 3 with a pipeline")
    rows, _ = plans(f"hybrid_parallel --plan --ranks 64 {line} --zero 1 {LINKS}")
    expect(any(r["pp"] > 1 for r in rows), rows)
    run("hybrid_parallel --plan --ranks 64 {} --zero 2 --pp 2 {}".format(line, LINKS)).exits(5).says("no division of")


@test
def slow_links_between_nodes():
    """Tensor groups across nodes are slower, and the reason says so."""
    rows, _ = plans(f"hybrid_parallel --plan --ranks 32 --model llama2-7b --node 4 {LINKS}")
    expect(rows[0]["tensor_crossing"] == 0, rows[0])
    across = [r for r in rows if r["tp"] == 32]
    expect(across and "tensor" in across[0]["reason"] and "across nodes" in across[0]["reason"], across)


@test
def experts():
    line = f"hybrid_parallel --plan --ranks 64 --model mixtral-8x7b --seq 4096 --micro-batch 1 --tp 1 {LINKS}"
    rows, _ = plans(f"{line} --ep 8 --zero 1")
    expect(rows and all((r["ep"], r["etp"]) == (8, 1) and r["expert_us"] > 0 for r in rows), rows)
    run(f"{line} --ep 8 --zero 1").exits(0).prints("expert", "groups of 8")


@test
def launch_of_experts():
    """A CPU that launches slowly favours large micro-batches, and the text says what it costs."""
    line = f"hybrid_parallel --plan --ranks 16 --model mixtral-8x7b --seq 4096 --batch 64 --dp 16 --tp 1 --ep 8 --memory 1T {LINKS}"
    fast, slow = (plans(f"{line} --launch-time {time}")[0][0] for time in ("1us", "20s"))
    equal(fast["launch_us"], 0, "it takes no time")
    equal((slow["micro_batch"], slow["recompute"] == "full"), (4, False), "one micro-batch, launched once")
    equal(round(1e-6 * (slow["step_us"] - slow["data_us"])), 20 * 32, "32 layers")
    run(f"{line} --launch-time 20s").exits(0).prints("# waits for the CPU, which launches layers with experts: ")


@test
def numbers_of_a_division():
    """The sizes of a division multiply to the ranks, wherever it is named."""
    line = "hybrid_parallel --plan --ranks 64 --model llama3.1-70b --seq 8192 --batch 64 --cp 4 --dp 4 --best 1 --memory 100G"
    out = run(f"{line} {LINKS} --overlap all").exits(0).out
    names = re.findall(r"(?:# |: )(dp \d+, tp \d+, pp \d+(?:, cp \d+)?)", out)
    expect(len(names) >= 4, out)
    for name in names:
        equal(math.prod(map(int, re.findall(r"\d+", name))), 64, name)


@test
def settings_of_a_plan():
    """What takes no time is named, and so is the memory of a known system's GPU."""
    line = "hybrid_parallel --plan --backend sim --cluster gb200-nvl72:8 --model qwen3-30b-a3b --seq 4096 --batch 64 --flops 1000T"
    run(line).exits(0).prints("32 ranks, 72 per node, 1000 TFLOPS each", "# memory of a rank: 194.92 GB (198.67 by the driver of GB200, less 3.76 in reserve)",
                              "# overlap: none; operations that the memory limits take no time",
                              "# launches of layers with experts take no time")  # fmt: skip
    run(f"{line} --memory 80G --overlap all --memory-rate 7TB/s --launch-time 9ms").exits(0).prints(
        "# memory of a rank: 81.76 GB", "# overlap: all; operations that the memory limits at 7000 GB/s", "# launch of a layer with experts: 9.00 ms")
    expect("launch" not in run(f"hybrid_parallel --plan --ranks 8 --model gpt2 {LINKS}").exits(0).out, "a model without experts")


@test
def nothing_fits():
    result = run(f"hybrid_parallel --plan --ranks 8 --model bloom-176b {LINKS}").exits(5)
    result.says("no division of bloom-176b among 8 ranks is possible").prints("does not fit into memory", "nearest to fitting")
    rows, found = plans(f"hybrid_parallel --plan --ranks 8 --model bloom-176b {LINKS}", (5,))
    equal((rows, found[-1]["exit_status"]), ([], 5), "records")


@test
def nodes_of_a_preset():
    """A preset runs with the placement of its plan."""
    line = "hybrid_parallel --backend sim -g 32 --preset deepspeed-3d --link 150GB/s,5us --node-link 3.125GB/s,5us"
    run(line).exits(0).prints("8 nodes of 4 ranks")


PLAN = "--plan --ranks 8"
BAD = [
    ("-g 8 --etp 2", "--etp 2 needs --plan"),
    ("-g 8 --launch-time 9ms", "--launch-time needs --plan"),
    ("-g 8 --schedule zb-h1", "--schedule zb-h1 needs --plan"),
    (f"{PLAN} {LINKS} --schedule zb-3", "--schedule"),
    (f"{PLAN} {LINKS} --kept 4", "--kept 4 needs --schedule zb-auto"),
    ("--plan --preset blom-176b", "did you mean bloom-176b?"),
    (f"--plan {LINKS}", "--plan needs --ranks"),
    (f"{PLAN} --flops 1T", "--plan needs --link"),
    (f"{PLAN} --link 1GB/s", "--plan needs --flops"),
    (f"{PLAN} --link 1GB/s --flops 1", "--flops 1: not a rate"),
    (f"{PLAN} {LINKS} --node-link 5", "--node-link 5: not a link"),
    (f"{PLAN} {LINKS} --node-link 5GB/s,x", "not a link"),
    (f"{PLAN} {LINKS} --tp 3", "--tp 3: does not divide the 8 ranks"),
    (f"{PLAN} {LINKS} --pp 5", "--pp 5: does not divide"),
    (f"{PLAN} {LINKS} --model resnet50", "not a transformer"),
    (f"{PLAN} {LINKS} --order pp", "--order"),
    (f"{PLAN} {LINKS} -g 4", "--plan and -g 4 exclude each other"),
    (f"{PLAN} {LINKS} --fault die:0", "--plan and --fault die:0 exclude each other"),
    (f"{PLAN} {LINKS} --pass-time 1ms", "--plan and --pass-time exclude each other"),
    ("-g 8 --tp 3", "--tp 3: cannot divide the 8 ranks"),
    ("-g 8 --tp 2 --pp 2 --dp 1", "--dp 1, --tp 2, --pp 2: cannot divide"),
    ("-g 8 --zero 2", "--zero 2 needs --plan"),
    ("-g 8 --ep 2", "--ep 2: the model has no experts"),
    ("-g 8 --ep 3 --model mixtral-8x7b", "--ep 3: cannot divide the 8 ranks"),
    ("-g 8 --dp 2 --ep 4 --model mixtral-8x7b", "--ep 4: does not divide the data-parallel ranks"),
    ("-g 8 --tp 1 --sequence-parallel", "--sequence-parallel: needs --tp 2 or more"),
    ("-g 8 --seq 33 --sequence-parallel", "the 33 tokens of a sequence cannot be divided among --tp 2"),
    ("-g 8 --preset bloom-176b", "--preset bloom-176b: it has 384 ranks, but there are 8"),
    ("-g 8 --flops 1T --pass-time 1ms", "--flops and --pass-time exclude each other"),
    ("-g 8 --node-link 1GB/s", "--node-link needs --plan or virtual time"),
    ("-g 8 --backend sim --link 1GB/s --node 4", "--node 4 needs --node-link"),
    ("-g 12 --backend sim --link 1GB/s --node-link 1GB/s", "--node 8: does not divide the 12 ranks"),
    (f"{PLAN} {LINKS} --algo ring", "--plan and --algo ring exclude each other"),
    ("-g 8 --algo ring,tree", "--algo ring,tree: one algorithm at a time"),
    ("-g 8 --algo rign", "did you mean \"ring\"?"),
    ("-g 8 --batch 3", "--batch 3: not a multiple"),
    ("-g 4 --model gpt2:layers=2,hidden=64,heads=4,vocab=100,seq=64 --tp 1 --pp 4", "--pp 4: exceeds the 2 layers"),
    ("-g 5 --tp 5 --pp 1", "--tp 5: does not divide the 12 heads"),
    (f"{PLAN} {LINKS} -b 8", "-b: sizes follow from the model"),
    (f"{PLAN} {LINKS} --zero 4", "--zero"),
]  # fmt: skip


def refused(words, sentence):
    result = run(f"hybrid_parallel {words}").exits(2).says(sentence)
    equal(result.out, "", "stdout")


for words, sentence in BAD:
    add(f"refused: {words[:40]} … {words[-16:]}", refused, words, sentence)


@test
def help_without_sizes():
    """--help-all lists no option that is always refused."""
    for binary in ("hybrid_parallel", "tensor_parallel", "moe_alltoall"):
        out = run(f"{binary} --help-all").exits(0).out
        expect("--minbytes" not in out and "--seed" in out, out)
    run("all_reduce --help-all").exits(0).prints("--minbytes", "Sizes:")


@test
def list_of_runs():
    out = run("hybrid_parallel --list").exits(0).out
    expect("bloom-176b" in out and "deepspeed-3d" in out, out)


# ---- steps that are run ----------------------------------------------------------------------

SMALL = "--model gpt2:layers=4,hidden=64,heads=4,vocab=100,seq=32 -n 3"
SHORT = f"{SMALL} --pass-time 200us"


def parts(result):
    """{part: record}."""
    found = result.exits(0).records()
    return {r["part"]: r for r in found if r["kind"] == "hybrid"}


def steps(line):
    return parts(run(f"hybrid_parallel {line} --json -"))


# Two layers of the last stage, 4 all-reduces of each, and one of the head, 4 micro-batches of 32 x 64
# numbers of two bytes; three all-reduces of four bytes of each token for the loss.
TENSOR = (2 * 4 + 1) * 4 * 4096 + 3 * 4 * 128


def check_eight(found):
    equal(set(found), {"step", "compute", "tensor", "pipeline", "data", "embedding"}, "parts")
    equal((found["step"]["tp"], found["step"]["pp"], found["step"]["dp"]), (2, 2, 2), "division")
    equal((found["step"]["wrong"], found["step"]["samples"]), (0, 3), "step")
    equal((found["tensor"]["calls"], found["tensor"]["sent_bytes"]), (36 + 12, TENSOR), "tensor")
    equal((found["pipeline"]["calls"], found["pipeline"]["sent_bytes"]), (4, 4 * 4096), "pipeline")
    equal((found["data"]["calls"], found["data"]["crossing"]), (1, 0), "data")
    # Half of 100 words of 64 numbers.
    equal((found["embedding"]["calls"], found["embedding"]["sent_bytes"]), (1, 50 * 64 * 2), "embedding")
    expect(all(r["time_us"] > 0 for r in found.values()), found)


@test
def eight_ranks():
    """2 x 2 x 2 on threads: all kinds of communication are counted and right."""
    check_eight(steps(f"-g 8 {SHORT}"))


# Layers of a feed-forward network that is four experts, of which a token goes through two.
EXPERTS = "--model mixtral:layers=2,hidden=64,heads=4,kv=4,ffn=64,experts=4,top_k=2,vocab=100,seq=32 -n 3 --pass-time 200us"


def check_all_ways(found, ep):
    """All kinds at once, 2 stages of a layer, 4 micro-batches: bytes computed by hand, all elements right."""
    equal(set(found), {"step", "compute", "tensor", "expert", "pipeline", "data"}, "parts")
    step = found["step"]
    equal((step["tp"], step["pp"], step["dp"], step["ep"]), (2, 2, 2, ep), "division")
    equal((step["zero"], step["sequence_parallel"], step["wrong"]), (1, True, 0), "step")
    # Five gathers and scatters of 32 tokens, and five of the twice as many rows at the experts; half of it is sent.
    # Two for the head, and three all-reduces of 4 bytes per token.
    equal((found["tensor"]["calls"], found["tensor"]["sent_bytes"]),
          (4 * (10 + 2 + 3), 4 * ((5 + 10 + 2) * 2048 + 3 * 128)), "tensor")  # fmt: skip
    # Four exchanges of the 32 rows of 16 tokens, of which half go to the other.
    equal((found["expert"]["calls"], found["expert"]["sent_bytes"]), (4 * 4, 4 * 4 * 2048), "expert")
    # Half a micro-batch of 32 tokens.
    equal((found["pipeline"]["calls"], found["pipeline"]["sent_bytes"]), (4, 4 * 2048), "pipeline")
    # Of a layer four matrices of attention, halved, the router and two norms; and of the head, halved,
    # with its norm: gradients are scattered and parameters gathered, half of 2 bytes each.
    layer = (4 * 64 * 64 + 4 * 64) // 2 + 2 * 64
    equal((found["data"]["calls"], found["data"]["sent_bytes"]), (2, 2 * (layer + 100 * 64 // 2 + 64)), "data")


@test
def all_ways_at_once():
    """Tensor, sequence, pipeline, data and expert parallelism, and ZeRO."""
    check_all_ways(steps(f"-g 8 {EXPERTS} --sequence-parallel --ep 2 --zero 1"), 2)


@test
def same_experts_are_reduced_apart():
    """Two of four replicas hold the same experts: one reduction among two ranks, one among four."""
    found = steps(f"-g 4 {EXPERTS} --tp 1 --pp 1 --ep 2 --algo ring")
    dense = 2 * 100 * 64 + 64 + 2 * (4 * 64 * 64 + 4 * 64 + 2 * 64)
    equal((found["data"]["calls"], found["data"]["sent_bytes"]),
          (2, 2 * (2 * 3 / 4 * dense + 2 / 2 * 2 * 2 * 3 * 64 * 64)), "data")  # fmt: skip
    equal(found["step"]["wrong"], 0, "wrong")


@test
def every_second_layer_has_experts():
    """A step and its formula count each layer by its own kind; the dense layers here compute most."""
    model = "qwen3_moe:layers=4,hidden=64,heads=4,kv=4,head_dim=16,vocab=100,seq=32,ffn=1024,experts=4,top_k=2,expert_ffn=64," \
            "moe_every=2"
    found = steps(f"-g 4 --model {model} -n 3 --tp 1 --pp 1 --ep 2 --backend sim --link 1GB/s,1us,port --flops 1G --algo ring")
    equal(found["expert"]["calls"], 2 * 2 * 4, "2 micro-batches, 2 layers, 4 exchanges of each")
    for part in ("compute", "expert"):
        equal(round(found[part]["time_us"]), round(found[part]["plan_us"]), part)


@test(full=True)
def over_mpi():
    mpi.need()
    check_eight(parts(mpi.run(8, f"hybrid_parallel {SHORT} --json -")))
    check_all_ways(parts(mpi.run(8, f"hybrid_parallel {EXPERTS} --sequence-parallel --ep 2 --zero 1 --json -")), 2)


@test
def on_gpus():
    check_eight(parts(gpus.run(f"hybrid_parallel --backend nccl -g 8 {SHORT} --compute spin --json -")))
    line = f"hybrid_parallel --backend nccl -g 8 {EXPERTS} --sequence-parallel --ep 2 --zero 1 --compute spin"
    check_all_ways(parts(gpus.run(f"{line} --json -")), 2)


def sanitized(variant):
    line = f"hybrid_parallel -g 8 {EXPERTS} --sequence-parallel --ep 2 --zero 1 --json -"
    check_all_ways(parts(run(line, SANITIZERS[variant], variant)), 2)
    run(f"{BLOOM} --json -", SANITIZERS[variant], variant).exits(0)


for variant in Settings.variants:
    add(f"planned and played ({variant})", sanitized, variant)


def divided(tp, pp, dp, kinds):
    found = steps(f"-g {tp * pp * dp} --tp {tp} --pp {pp} --dp {dp} --order tp-dp-pp {SHORT}")
    equal(set(found), {"step", "compute", *kinds}, "parts")
    equal(found["step"]["wrong"], 0, "wrong")


add("one rank", divided, 1, 1, 1, ())
add("tensor alone", divided, 4, 1, 1, ("tensor",))
add("pipeline alone", divided, 1, 3, 1, ("pipeline", "embedding"))
add("data alone", divided, 1, 1, 3, ("data",))
add("tensor and data", divided, 2, 1, 2, ("tensor", "data"))


# FLOPs of a layer over s h, h 64 and s 32: of the forward pass, of the backward pass, and of the core of attention
# forward. FlashAttention computes half of the core, and five products backward instead of four.
LAYER = {"eager": (24 * 64 + 4 * 32, 48 * 64 + 8 * 32, 4 * 32), "flash": (24 * 64 + 2 * 32, 48 * 64 + 5 * 32, 2 * 32)}


def virtual_time(algorithm, rounds, attention):
    """2 x 2 x 2, computed by hand. Between two ranks a ring takes two rounds, an exchange one."""
    latency = 20
    line = f"-g 8 {SMALL} --pass-time 3ms --backend sim --link 1000GB/s,{latency}us --algo {algorithm} --attention {attention}"
    found = steps(line)
    equal({r["attention"] for r in found.values()}, {attention}, "attention")
    reduction = rounds * latency
    forward, backward, _ = (3000 * flops / sum(LAYER[attention][:2]) for flops in LAYER[attention])
    first = forward + 5 * reduction  # two layers, and the embedding's sum
    head = 1500 * 3 * 200 / sum(LAYER[attention][:2])  # 3 x 2 V of a layer's
    last = 3000 + head + (8 + 1 + 3) * reduction
    # The last stage has the most work and is busy from its first micro-batch to its last.
    wanted = first + latency + 4 * last + latency + backward + 4 * reduction + 2 * reduction
    expect(abs(found["step"]["time_us"] - wanted) < 5, f"{found['step']['time_us']}, not {wanted}")
    inside = [found[k]["in_step_us"] for k in ("compute", "tensor", "pipeline", "data", "embedding")]
    expect(abs(sum(inside) - wanted) < 5, f"parts {inside} of {wanted}")


def as_planned(options):
    """Without a pipeline nothing is approximated: each part takes the time of --plan's formula."""
    line = f"-g 4 --pp 1 {SHORT} --backend sim --link 1GB/s,5us --algo ring"
    found = steps(f"{line} {options}")
    for part in found.values():
        expect(abs(part["time_us"] / part["plan_us"] - 1) < 1e-3, part)
    equal(found["step"]["plan_bubble_us"], 0, "bubble")
    return found


@test
def without_nodes():
    found = as_planned("--tp 2 --dp 2")
    equal([found[k]["crossing"] for k in ("tensor", "data")], [None, None], "nodes that are not modelled")
    expect("nodes are not modelled" in found["step"]["links"], found["step"])


@test
def with_nodes():
    """Tensor groups stay on their nodes, replicas do not: each kind takes the time of its links, computed by hand."""
    found = as_planned("--tp 2 --dp 2 --node 2 --node-link 100MB/s,50us")
    equal([found[k]["crossing"] for k in ("tensor", "data")], [0, 2], "groups that cross nodes")
    # An all-reduce of two: two messages of half, one after the other.
    elements = found["data"]["sent_bytes"]
    expect(abs(found["data"]["time_us"] - (2 * 50 + elements / 100)) < 1, found["data"])


add("as planned: sequence parallel, ZeRO, recomputed", as_planned, "--tp 2 --dp 2 --sequence-parallel --zero 1 --recompute full")
add("as planned: experts", as_planned, f"{EXPERTS} --tp 1 --ep 2")
add("as planned: an expert on each rank", as_planned, f"{EXPERTS} --tp 1 --ep 4")


def made_again(recompute, attention):
    """Recomputation repeats computations and their communication."""
    line = f"-g 8 {SMALL} --pass-time 3ms --backend sim --link 1000GB/s,20us --algo ring --attention {attention} --recompute"
    none, some = (steps(f"{line} {word}") for word in ("none", recompute))
    forward, backward, core = LAYER[attention]
    more = (forward if recompute == "full" else core) / (forward + backward)
    # Four micro-batches of the last stage, two layers each.
    expect(abs(some["compute"]["time_us"] - none["compute"]["time_us"] - 4 * 2 * 1500 * more) < 1, some)
    equal(some["tensor"]["calls"] - none["tensor"]["calls"], 4 * 2 * 2 if recompute == "full" else 0, "calls")


for kernels in LAYER:
    add(f"recomputed: all, {kernels}", made_again, "full", kernels)
    add(f"recomputed: attention, {kernels}", made_again, "selective", kernels)
    add(f"virtual time, ring, {kernels}", virtual_time, "ring", 2, kernels)
    add(f"virtual time, auto, {kernels}", virtual_time, "auto", 1, kernels)
    add(f"as planned: {kernels}", as_planned, f"--tp 2 --dp 2 --recompute selective --attention {kernels}")


@test
def memory_of_a_step():
    """The memory of a rank is that of model_memory, and attention that stores its scores needs more."""
    line = f"-g 4 --tp 2 --dp 2 --pp 1 {SHORT} --backend sim --link 1GB/s,5us"
    flash, eager = (steps(f"{line} --attention {kernels}")["step"]["memory_bytes"] for kernels in ("flash", "eager"))
    told = execute([built("model_memory"), *f"--model gpt2:layers=4,hidden=64,heads=4,vocab=100,seq=32 --tp 2 --dp 2 --json -".split()])
    equal(flash, json.loads(told.exits(0).out)["total_bytes"], "memory")
    run(f"hybrid_parallel {line} --link 1GB/s,5us --memory 1M --reserve 0 --attention eager").exits(0).prints("this division does not fit")
    # 5 bytes of each score of 2 heads and 4 layers; 4 bytes of each row of FlashAttention.
    equal(eager - flash, 4 * 2 * (5 * 32 * 32 - 4 * 32), "scores")


@test
def bloom_is_played():
    """All 384 ranks on 48 nodes in virtual time: the step against its published time and the plan."""
    line = "-g 384 --preset bloom-176b --backend sim --link 300GB/s,5us --node-link 6.25GB/s,5us --algo ring -n 1"
    found = steps(line)
    # Six layers of a middle stage, recomputed; the last stage has five and the head.
    equal((found["tensor"]["calls"], found["tensor"]["sent_bytes"]), (6 * 6 * 128, 756 << 30), "tensor")
    equal((found["pipeline"]["calls"], found["pipeline"]["sent_bytes"]), (2 * 128, 28 << 30), "pipeline")
    equal([found[k]["crossing"] for k in ("tensor", "pipeline", "data")], [0, 32, 48], "groups that cross nodes")
    step = found["step"]
    (planned,) = [r for r in plans(BLOOM)[0] if r["published"]]
    expect(abs(step["plan_us"] / planned["step_us"] - 1) < 1e-9, f"{step} of {planned}")
    # The plan assumes that each stage is as slow as the slowest and each message leaves its node; half of them stay.
    expect(0.95 < step["time_us"] / step["plan_us"] < 1, step)
    expect("48 nodes of 8 ranks" in step["links"], step)


@test
def algorithms():
    for name in ("ring", "tree", "direct"):
        found = steps(f"-g 4 --tp 2 --pp 1 {SHORT} --algo {name}")
        equal({(r["algorithm"], r["wrong"]) for r in found.values() if r["part"] == "step"}, {(name, 0)}, name)
    run(f"hybrid_parallel -g 4 {SHORT} --algo direct --link 1GB/s,1us").exits(5).says("direct")
    run(f"hybrid_parallel -g 4 {SHORT} --tp 1 --zero 1 --algo recursive_doubling").exits(5).says("reduce_scatter by")


def sent_by(algorithm, times):
    """An all-reduce among four sends more by some algorithms than by a ring, but never more than the port carries."""
    line = f"-g 4 --tp 4 --pp 1 {SHORT} --algo {algorithm}"
    for place in ("", "--backend sim --link 1GB/s,1us,port"):
        tensor = steps(f"{line} {place}")["tensor"]
        # Four all-reduces of 4096 bytes of each of four layers, two of the ends, three of the loss; two micro-batches.
        equal(tensor["sent_bytes"], times * 2 * ((4 * 4 + 2) * 4096 + 3 * 128), f"{algorithm} {place}")
    expect(tensor["sent_GBps"] <= 1, tensor)


# A ring sends three quarters twice, doubling all in each of two rounds, the root of `linear` all to three.
for name, times in (("ring", 1.5), ("recursive_doubling", 2), ("linear", 3)):
    add(f"sent by {name}", sent_by, name, times)


@test
def what_is_wrong_is_found():
    for division in ("--tp 1 --pp 1", "--tp 2 --dp 1 --pp 1", "--tp 1 --dp 1 --pp 2"):
        run(f"hybrid_parallel -g 2 {division} {SHORT} --fault corrupt:1").exits(7)


def every_kind_is_looked_at(options, wrong):
    """A wrong element of each kind of data is counted."""
    result = run(f"hybrid_parallel -g 8 {EXPERTS} {options} --fault corrupt:5 --json -").exits(7)
    (step,) = [r for r in map(json.loads, result.out.splitlines()) if r.get("part") == "step"]
    equal(step["wrong"], wrong, "wrong")


# Sums, a message, gradients, rows at the experts and rows that are back.
add("all kinds are looked at", every_kind_is_looked_at, "--ep 2", 5)
# Gathered data and parameters.
add("all kinds of parts are looked at", every_kind_is_looked_at, "--ep 2 --sequence-parallel --zero 1", 7)
# No messages except for the loss; gradients of experts beside all others.
add("both kinds of gradients are looked at", every_kind_is_looked_at, "--ep 2 --pp 1", 6)


@test
def a_rank_dies():
    run(f"hybrid_parallel -g 4 {SHORT} --fault die:2 -T 300").exits(3).says("rank 2")


@test
def needs_room():
    run("hybrid_parallel -g 8 --model gpt3-175b").exits(5).says("gradients and activations take")


@test
def table_of_parts():
    out = run(f"hybrid_parallel -g 4 {SHORT}").exits(0).out
    lines = table_rows(out)
    equal([line[0] for line in lines], ["step", "compute", "tensor", "pipeline", "embedding"], "rows")
    expect("dp 1, tp 2, pp 2, ep 1 (tp-pp-dp), ZeRO 0, 4 micro-batches of 1" in prose(out), out)

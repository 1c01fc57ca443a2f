"""hybrid_parallel_perf: ways of dividing a model, planned."""

import json

from kit import add, equal, expect, run, test

BLOOM = "hybrid_parallel --plan --preset bloom-176b"
LINKS = "--link 300GB/s,3us --node-link 12.5GB/s,5us --flops 150T"


def plans(line, codes=(0,)):
    found = [json.loads(text) for text in run(f"{line} --json -").exits(*codes).out.splitlines()]
    return [r for r in found if r["kind"] == "hybrid_plan"], found


@test
def bloom():
    """The published run is among them, and what it sends is what is known of it."""
    out = run(BLOOM).exits(0).out
    expect("# 384 ranks, 8 a node, each 80.0 GB and 150 TFLOPS; order tp-pp-dp" in out, out)
    marked = [line.split() for line in out.splitlines() if line.startswith(">")]
    equal([line[1:6] for line in marked], [["8", "4", "12", "2", "128"]], "the published one")
    expect("# dp 8, tp 4, pp 12: what a rank" in out, out)
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
def deepspeed():
    """32 GPUs, as in DeepSpeed's example: no tensor group leaves its node."""
    line = f"hybrid_parallel --plan --preset deepspeed-3d --model gpt2:layers=24,hidden=2048,heads=16,vocab=50257,seq=1024 {LINKS}"
    rows, _ = plans(line)
    (r,) = [r for r in rows if r["published"]]
    equal((r["tp"], r["pp"], r["dp"], r["order"], r["zero"]), (4, 4, 2, "tp-dp-pp", 1), "division")
    equal((r["tensor_crossing"], r["pipeline_crossing"], r["data_crossing"]), (0, 8, 16), "groups that cross nodes")


@test
def divisions_are_kept():
    rows, _ = plans(f"hybrid_parallel --plan --ranks 64 --model llama2-7b --tp 4 --micro-batch 1 {LINKS}")
    expect(rows and all(r["tp"] == 4 for r in rows), "--tp")
    expect(len({(r["dp"], r["pp"]) for r in rows}) == len(rows) > 2, "a division twice")
    (one,), _ = plans(f"hybrid_parallel --plan --ranks 64 --model llama2-7b --tp 4 --pp 2 --dp 8 {LINKS}")
    equal(one["reason"], "the only one that fits", "reason")


@test
def slow_links_between_nodes():
    """Tensor groups across nodes lose, and the reason says so."""
    rows, _ = plans(f"hybrid_parallel --plan --ranks 32 --model llama2-7b --node 4 {LINKS}")
    expect(rows[0]["tensor_crossing"] == 0, rows[0])
    across = [r for r in rows if r["tp"] == 32]
    expect(across and "tensor" in across[0]["reason"] and "across nodes" in across[0]["reason"], across)


@test
def experts():
    line = f"hybrid_parallel --plan --ranks 64 --model mixtral-8x7b --seq 4096 --micro-batch 1 --tp 1 {LINKS}"
    rows, _ = plans(f"{line} --ep 8 --zero 1")
    expect(rows and all(r["ep"] == 8 and r["expert_us"] > 0 for r in rows), rows)
    run(f"{line} --ep 8 --zero 1").exits(0).prints("expert", "groups of 8")


@test
def nothing_fits():
    result = run(f"hybrid_parallel --plan --ranks 8 --model bloom-176b {LINKS}").exits(5)
    result.says("no way to divide bloom-176b among 8 ranks is possible")
    rows, found = plans(f"hybrid_parallel --plan --ranks 8 --model bloom-176b {LINKS}", (5,))
    equal((rows, found[-1]["exit_status"]), ([], 5), "records")


PLAN = "--plan --ranks 8"
BAD = [
    ("--plan --preset blom-176b", "did you mean \"bloom-176b\"?"),
    (f"--plan {LINKS}", "give --ranks"),
    (f"{PLAN} --flops 1T", "depends on --link"),
    (f"{PLAN} --link 1GB/s", "depends on --flops"),
    (f"{PLAN} --link 1GB/s --flops 1", "--flops: \"1\" is not a rate"),
    (f"{PLAN} {LINKS} --node-link 5", "--node-link: \"5\" is not a link"),
    (f"{PLAN} {LINKS} --node-link 5GB/s,x", "is not a link"),
    (f"{PLAN} {LINKS} --tp 3", "--tp 3: does not divide the 8 ranks"),
    (f"{PLAN} {LINKS} --pp 5", "--pp 5: does not divide"),
    (f"{PLAN} {LINKS} --model resnet50", "is no transformer"),
    (f"{PLAN} {LINKS} --order pp", "--order"),
    (f"{PLAN} {LINKS} -g 4", "-g: --plan runs nothing"),
    (f"{PLAN} {LINKS} --fault die:0", "--fault"),
    (f"{PLAN} {LINKS} -b 8", "-b: what is sent follows from the model"),
    (f"{PLAN} {LINKS} --zero 4", "--zero"),
]  # fmt: skip


def refused(words, sentence):
    result = run(f"hybrid_parallel {words}").exits(2).says(sentence)
    equal(result.out, "", "stdout")


for words, sentence in BAD:
    add(f"refused: {words[:40]} … {words[-16:]}", refused, words, sentence)


@test
def list_of_runs():
    out = run("hybrid_parallel --list").exits(0).out
    expect("bloom-176b" in out and "deepspeed-3d" in out, out)

"""moe_alltoall_perf: tokens to their experts and back."""


import re

import gpus
import mpi
from kit import SANITIZERS, Settings, add, equal, expect, run, table_rows, test

SMALL = "--tokens 50 --hidden 24 -n 3"


def layers(result):
    """{skew: record}."""
    found = result.exits(0).records()
    return {r["skew"]: r for r in found if r["kind"] == "moe"}


def check(found, ranks):
    equal(list(found), [0, 0.5, 1], "skews")
    for r in found.values():
        equal((r["wrong"], r["samples"], r["nranks"]), (0, 3, ranks), r)
        equal(r["sent_bytes"], 50 * 2 * 24 * 2, "bytes of all rows")
        expect(all(r[f"{k}_us"] > 0 for k in ("counts", "dispatch", "combine", "layer")), r)
    imbalance = [r["imbalance"] for r in found.values()]
    equal(imbalance, sorted(imbalance), "imbalance")


def on_threads(ranks, options):
    check(layers(run(f"moe_alltoall -g {ranks} {SMALL} {options} --json -")), ranks)


for ranks in (2, 3, 4, 7):
    add(f"-g {ranks}", on_threads, ranks, "")
add("float, 6 experts", on_threads, 2, "--experts 6 -d half")
add("experts compute", on_threads, 3, "--expert-time 200us --compute spin")


@test
def over_mpi():
    mpi.need()
    check(layers(mpi.run(4, f"moe_alltoall {SMALL} --json -")), 4)


@test
def on_gpus():
    check(layers(gpus.run(f"moe_alltoall --backend nccl -g 3 {SMALL} --expert-time 100us --compute spin --json -")), 3)


def sanitized(variant):
    check(layers(run(f"moe_alltoall -g 4 {SMALL} --expert-time 100us --json -", SANITIZERS[variant], variant)), 4)
    line = f"moe_alltoall -g 4 {SMALL} --skew 16 --top-k 1 --capacity 2.5 --json -"
    equal([r["wrong"] for r in layers(run(line, SANITIZERS[variant], variant)).values()], [0], "wrong")


for variant in Settings.variants:
    add(f"verified ({variant})", sanitized, variant)


@test
def one_rank():
    found = layers(run(f"moe_alltoall -g 1 {SMALL} --json -"))
    equal([(r["wrong"], r["busiest_bytes"], r["times_even"]) for r in found.values()], [(0, 0, None)] * 3, "alone")


SIM = "moe_alltoall --backend sim --tokens 4096 --link 50GB/s,5us,port -n 1"


def published(preset, ranks, whole, away):
    (r,) = layers(run(f"{SIM} --preset {preset} -g {ranks} --skew 0 --json -")).values()
    equal((r["sent_bytes"], r["busiest_bytes"], r["mean_bytes"]), (whole << 20, away << 20, away << 20), "bytes")
    least = (away << 20) / 50e3
    expect(0 <= r["dispatch_us"] - least <= 5 * ranks, f"{r['dispatch_us']} us, not {least}")


add("Mixtral 8x7B", published, "mixtral-8x7b", 8, 64, 56)
add("DeepSeek-V3", published, "deepseek-v3", 8, 448, 392)
add("DeepSeek-V3 on 64", published, "deepseek-v3", 64, 448, 441)


@test
def time_follows_the_busiest():
    """With one port per rank a dispatch is never faster than the busiest rank's bytes, and hardly slower."""
    found = layers(run(f"{SIM} --preset mixtral-8x7b -g 8 --skew 0,0.5,1,2 --json -"))
    for r in found.values():
        least = r["busiest_bytes"] / 50e3
        expect(least <= r["dispatch_us"] < 1.1 * least and least <= r["combine_us"] < 1.2 * least, r)
    expect(found[2]["times_even"] > 2, "skew costs nothing")


def on_cluster(options):
    return layers(run(f"moe_alltoall --backend sim --tokens 8192 --skew 0 {options} --json -"))[0]


def as_long_as_its_parts(options):
    r = on_cluster(options)
    parts = r["counts_us"] + r["dispatch_us"] + r["combine_us"]
    expect(0.9 * parts <= r["layer_us"] <= 1.1 * parts, f"a layer of {r['layer_us']} us, its parts {parts}")


add("parts on one node", as_long_as_its_parts, "--cluster hgx-h100")
add("parts on two nodes", as_long_as_its_parts, "--cluster hgx-h100:2")
add("parts on five nodes", as_long_as_its_parts, "--cluster hgx-h100:5")
add("parts under noise", as_long_as_its_parts, "--cluster hgx-h100:2 --noise 0.01% -n 3")
add("parts where rails are shared", as_long_as_its_parts, "--cluster dgx-1v:2")


@test
def a_slower_link_is_no_faster():
    times = []
    for fault in ("", *(f"--fault slow_link:0:8:{factor}" for factor in (1.2, 1.5, 3))):
        r = on_cluster(f"--cluster hgx-h100:2 {fault}")
        times.append((r["counts_us"], r["dispatch_us"], r["combine_us"], r["layer_us"]))
    for less, more in zip(times, times[1:]):
        expect(all(a <= b for a, b in zip(less, more)), times)


@test
def capacity():
    """With a capacity of 1 no expert has more than under even load; dropped tokens are counted."""
    whole = layers(run(f"{SIM} --preset mixtral-8x7b -g 8 --skew 0,1 --json -"))
    cut = layers(run(f"{SIM} --preset mixtral-8x7b -g 8 --skew 0,1 --capacity 1 --json -"))
    equal((cut[0]["dropped_rows"], whole[1]["dropped_rows"]), (0, 0), "dropped")
    equal(cut[1]["busiest_bytes"], whole[0]["busiest_bytes"], "bytes of the busiest")
    expect(0.2 < cut[1]["dropped_share"] < 0.6, cut[1]["dropped_share"])
    expect(cut[1]["dispatch_us"] < whole[1]["dispatch_us"], "dropping saves nothing")


@test
def what_is_wrong_is_found():
    """A wrong byte in the counts, in a row at its expert, and in one that came back."""
    result = run(f"moe_alltoall -g 3 {SMALL} --fault corrupt:1 --json -").exits(7)
    found = result.records()
    equal([r["wrong"] for r in found if r["kind"] == "moe"], [3, 3, 3], "wrong")


@test
def a_rank_dies():
    run(f"moe_alltoall -g 3 {SMALL} --fault die:2 -T 300").exits(3).says("rank 2")


@test
def table_and_list():
    out = run(f"moe_alltoall -g 2 {SMALL} --capacity 1.25").exits(0).out
    lines = table_rows(out)
    equal([line[0] for line in lines], ["0.00", "0.50", "1.00"], "rows")
    expect(re.search("^# In every row: .*#wrong 0$", out, re.M), out)
    expect("# an expert takes at most 1.25 times its even share" in out, out)
    out = run("moe_alltoall --list").exits(0).out
    expect("deepseek-v3" in out and "mixtral-8x7b" in out, out)


BAD = [
    ("--preset mixtrl-8x7b", "did you mean mixtral-8x7b?"),
    ("--skew 0,", "--skew 0,: the list has an empty item"),
    ("--skew -1", "--skew -1: out of range; expected a list of numbers from 0 to 16, such as 0,0.5,1"),
    ("--skew nan", "--skew nan: not a number"),
    ("--skew " + ",".join(["1"] * 33), "more than the 32 items that a list may have"),
    ("--capacity x", "--capacity x: not a number"),
    ("-d int8", "-d int8: not a datatype of this option"),
    ("-g 3 --experts 8", "--experts 8: cannot be divided among 3 ranks"),
    ("-g 2 --experts 2 --top-k 3", "--top-k 3: there are 2 experts"),
    ("--tokens 0", "--tokens"),
    ("-b 8", "-b: tokens are sent; leave it out"),
    ("--compute gemm", "--compute gemm"),
]  # fmt: skip


def refused(words, sentence):
    result = run(f"moe_alltoall {words}").exits(2).says(sentence)
    equal(result.out, "", "stdout")


for words, sentence in BAD:
    add(f"refused: {words[:40]}", refused, words, sentence)


@test
def rows_need_room():
    run("moe_alltoall -g 8 --tokens 16000000 --hidden 100000").exits(5).says("--tokens 16000000: rows take ")

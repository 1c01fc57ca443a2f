"""Tensor and sequence parallelism: checks, counts and times of tensor_parallel_perf."""

import csv
import io
import os

import gpus
import mpi
from kit import SANITIZERS, Settings, add, equal, expect, run, table_rows, test

SHORT = "--model gpt2:layers=2,hidden=48,heads=12,vocab=96,seq=48 --layer-time 2ms -n 2 -w 0"
WAYS = [("layer", "tensor"), ("layer", "sequence"), ("layer", "ulysses"), ("layer", "ring"), ("embedding", "tensor"),
        ("embedding", "sequence"), ("loss", "tensor"), ("loss", "gather")]  # fmt: skip
MODULES = [(module, way) for way in ("tensor", "sequence", "ulysses", "ring") for module in ("attention", "mlp")]
MODULES += WAYS[4:]


def records(result, codes=(0,)):
    return result.exits(*codes).by_kind()


def parts(found):
    return {(r["part"], r["scheme"]): r for r in found["tensor_parallel"]}


# ---- equality ------------------------------------------------------------------------------

def verdicts(found):
    return {(r["module"], r["scheme"]): r["verdict"] for r in found["tensor_equality"]}


def all_equal(found, ranks):
    wanted = {name: "equal" for name in MODULES}
    if ranks > 1:
        wanted["mlp", "rows"] = "wrong, as it must be"
    equal(verdicts(found), wanted, "verdicts")
    for r in found["tensor_equality"]:
        expect(r["passed"] and r["nranks"] == ranks, f"{r}")
        if r["scheme"] == "rows":
            expect(r["wrong_outputs"] > 0.9 * r["outputs"], f"hardly wrong: {r}")
        else:
            equal((r["wrong_outputs"], r["wrong_gradients"]), (0, 0), f"wrong {r}")
        if r["scheme"] not in ("ring", "rows"):
            equal((r["off_ulps"], r["tolerance_ulps"]), (0, 0), f"bit for bit {r}")


def equality(ranks):
    found = records(run(f"tensor_parallel -g {ranks} --equality --json -"))
    all_equal(found, ranks)
    expect("tensor_parallel" not in found, "something was timed")


for ranks in (1, 2, 3, 4, 7, 8):
    add(f"equality of {ranks} ranks", equality, ranks)


@test
def equality_of_processes():
    mpi.need()
    all_equal(records(mpi.run(3, "tensor_parallel --equality --json -")), 3)


@test
def equality_table():
    out = run("tensor_parallel -g 4 --equality").exits(0).out
    rows = table_rows(out, keys=2)
    equal([tuple(row[:2]) for row in rows], MODULES + [("mlp", "rows")], "rows")
    equal([row[3] == "0" and row[5] == "0" for row in rows], [True] * 12 + [False], "rows without a wrong number")


@test
def the_check_can_fail():
    """One wrong number on one rank; the strategy that must be wrong stays wrong."""
    found = records(run("tensor_parallel -g 3 --equality --json - --fault corrupt:1"), (7,))
    wanted = {name: "wrong" for name in MODULES} | {("mlp", "rows"): "wrong, as it must be"}
    equal(verdicts(found), wanted, "verdicts")
    equal({r["wrong_outputs"] for r in found["tensor_equality"] if r["scheme"] != "rows"}, {1}, "wrong numbers")
    equal(found["end"][0]["verdict"], "wrong data", "verdict")


@test
def what_cannot_be_checked():
    run("tensor_parallel -g 2 --backend sim --link 1G,1us --equality").exits(5).says("moves no data")
    run(f"tensor_parallel -g 2 --backend sim --link 1G,1us {SHORT}").exits(0).prints("# Not compared with unsplit modules")
    run(f"tensor_parallel -g 2 {SHORT} -c 0").exits(0).prints("# Not compared with unsplit modules: -c 0")
    run("tensor_parallel --equality -c 0").exits(2).says("--equality", "-c 0")


# ---- time ----------------------------------------------------------------------------------

def consistent(found, names=WAYS):
    equal([(r["part"], r["scheme"]) for r in found["tensor_parallel"]], list(names), "rows")
    for r in found["tensor_parallel"]:
        equal(r["wire_bytes"], r["formula_bytes"], f"bytes of {r['part']} by {r['scheme']}")
        expect(abs(r["step_us"] - r["compute_us"] - r["exposed_us"]) < 1e-6, f"exposed {r}")
        if r["part"] == "layer":
            expect(abs(r["hidden_us"] + r["exposed_us"] - r["communicate_us"]) < 1e-6, f"hidden {r}")
        else:
            equal((r["hidden_us"], r["hidden"]), (None, None), f"hidden without computations {r}")
        expect(r["samples"] == 2 and r["step_us"] > 0, f"samples {r}")


@test
def timed():
    found = records(run(f"tensor_parallel -g 4 {SHORT} --json -"))
    consistent(found)
    all_equal(found, 4)
    equal(parts(found)["layer", "tensor"]["wire_bytes"], 4 * 2 * 3 / 4 * 48 * 48 * 2, "bytes of a layer")


@test
def timed_by_processes():
    mpi.need()
    consistent(records(mpi.run(2, f"tensor_parallel {SHORT} --json -")))


@test
def timed_on_gpus():
    """The CPU cannot reach the results of a GPU's collectives: a line says so, and everything else runs."""
    cublas = {"LD_LIBRARY_PATH": gpus.stand_in("cublas")}
    for compute in ("spin", "sleep", "gemm"):
        found = records(gpus.run(f"tensor_parallel --backend nccl -g 4 {SHORT} --compute {compute} --json -", cublas))
        consistent(found)
        expect("tensor_equality" not in found, "something was checked")
    gpus.run("tensor_parallel --backend nccl -g 2 --equality").exits(5).says("GPUs")


def sanitized(variant):
    found = records(run(f"tensor_parallel -g 4 --layers 2 {SHORT} --json -", SANITIZERS[variant], variant))
    consistent(found)
    all_equal(found, 4)


for variant in Settings.variants:
    add(f"timed and checked ({variant})", sanitized, variant)


@test
def csv_rows():
    out = run(f"tensor_parallel -g 2 {SHORT} -c 0 --csv -").exits(0).out
    rows = list(csv.DictReader(io.StringIO(out)))
    equal([(r["part"], r["scheme"]) for r in rows], WAYS, "rows")


SIM = "tensor_parallel -g 8 --backend sim --link 50GB/s,5us --flops 300T -n 2 -w 0 --json -"
GPT3 = f"{SIM} --model gpt3-175b"
MIB = 1 << 20


@test
def gpt3_over_8_ranks():
    """Sent and kept bytes as in Korthikanti et al.; times by the model of the links."""
    got = parts(records(run(f"{GPT3} --attention eager")))
    wire = {way: got["layer", way]["wire_bytes"] / MIB for way in ("tensor", "sequence", "ulysses", "ring")}
    equal(wire, {"tensor": 336, "sequence": 420, "ulysses": 42, "ring": 264}, "MiB on the wire")
    kept = {way: got["layer", way]["kept_formula_bytes"] / MIB for way in ("tensor", "sequence", "ulysses", "ring")}
    equal(kept, {"tensor": 552, "sequence": 342, "ulysses": 342, "ring": 102}, "MiB kept")
    for way in ("tensor", "sequence", "ulysses"):
        equal(got["layer", way]["kept_bytes"] / MIB, kept[way], f"MiB counted of {way}")
    equal(got["layer", "ring"]["kept_bytes"] / MIB, 102 + 2 * 2 * 2048 * 96 / 8 / MIB, "MiB counted of ring")
    equal(got["layer", "tensor"]["kept_unsplit_bytes"] / MIB, 2736, "MiB unsplit")
    equal(got["loss", "tensor"]["wire_bytes"], 3 * 2 * 7 / 8 * 2048 * 4, "three small all-reduces")
    expect(got["loss", "gather"]["step_us"] > 10 * got["loss", "tensor"]["step_us"], "gathering logits is no slower")
    for way in ("tensor", "sequence"):
        expect(0.3 < got["layer", way]["hidden"] < 0.6, f"the sums of gradients alone are hidden: {got['layer', way]}")


@test
def gpt3_by_flash_attention():
    """No scores: four bytes of each row and head instead, and of the core's 4 s h FLOPs half forward, five eighths
    backward."""
    eager, flash = (parts(records(run(f"{GPT3} --attention {kernels}"))) for kernels in ("eager", "flash"))
    row = 4 * 2048 * 96 / 8 / MIB
    for way, without in (("tensor", 312), ("sequence", 102), ("ulysses", 102), ("ring", 102)):
        r = flash["layer", way]
        equal((r["attention"], r["kept_formula_bytes"] / MIB, r["kept_bytes"] / MIB), ("flash", without + row, without + row), way)
        equal(r["wire_bytes"], eager["layer", way]["wire_bytes"], "bytes")
        saved = (4 * (1 - 1 / 2) + 8 * (1 - 5 / 8)) * 2048**2 * 12288 / 8 / 300e6
        expect(abs(eager["layer", way]["compute_us"] - r["compute_us"] - saved) < 1e-3 * saved, f"{way}: {r['compute_us']}")


@test
def layers_add_up():
    """In virtual time a step of three layers takes three steps of one; all bytes are counted."""
    one, three = (parts(records(run(f"{GPT3} --layers {n}"))) for n in (1, 3))
    for way in ("tensor", "sequence", "ulysses", "ring"):
        equal(three["layer", way]["wire_bytes"], 3 * one["layer", way]["wire_bytes"], "bytes")
        equal(three["layer", way]["calls"], 3 * one["layer", way]["calls"], "calls")
        expect(abs(three["layer", way]["step_us"] / one["layer", way]["step_us"] - 3) < 1e-9, f"steps of {way}")
    for field in ("wire_bytes", "calls", "layers"):
        equal(three["loss", "tensor"][field], one["loss", "tensor"][field], "the loss has no layers")


@test
def long_sequences_hide_a_ring():
    """Computing with a block grows with its square, sending it with its length."""
    hidden = []
    for seq in (8192, 131072):
        model = f"llama:layers=1,hidden=12288,heads=96,vocab=51200,ffn=32768,seq={seq}"
        r = parts(records(run(f"{SIM} --model {model} --scheme ring")))["layer", "ring"]
        equal(r["kept_bytes"], None, "what a gated MLP keeps is not counted")
        hidden.append(r["hidden"])
    expect(hidden[0] < 0.5 and hidden[1] > 0.9, f"hidden {hidden}")


@test
def each_part_is_recommended_once():
    """Its schemes need not follow each other."""
    result = run(f"tensor_parallel -g 4 --backend sim --link 1G,1us {SHORT} -c 0 --scheme tensor,sequence").exits(0)
    for part in ("layer", "embedding"):
        equal(result.out.count(f"scheme to split the {part}"), 1, part)


# ---- what cannot be done -------------------------------------------------------------------

@test
def what_cannot_be_split_is_told():
    """GPT-2 has 12 heads and a vocabulary of 50257, which eight ranks divide neither."""
    found = records(run("tensor_parallel -g 8 --backend sim --link 1G,1us -n 1 --json -"))
    equal([(r["collective"], r["algorithm"]) for r in found["skip"]], WAYS[:3], "skipped")
    expect("heads" in found["skip"][0]["reason"], f"{found['skip'][0]}")
    run("tensor_parallel -g 8 --backend sim --link 1G,1us -n 1 --scheme ulysses").exits(5).says("heads")
    run("tensor_parallel -g 8 --backend sim --link 1G,1us -n 1").exits(0).prints("# skipped: layer by ulysses: the number of ranks does not divide the heads")


for words, wanted in (
    ("--scheme tensr", ["--scheme tensr", "did you mean tensor?"]),
    ("--scheme rows", ["--scheme rows"]),
    ("--scheme ring,ring", ['"ring" is given twice']),
    ("-d double", ["-d double"]),
    ("--flops 10", ["--flops", "100T"]),
    ("--flops 10T --layer-time 1ms", ["--layer-time and --flops exclude each other"]),
    ("--model resnet50", ["not a transformer"]),
    ("--model mixtral-8x7b", ["experts"]),
    ("--model t5-small", ["encoders with decoders"]),
    ("--model generic:2x64x4x100x8x96,kv_lora=16,nope=8,rope=8,value_dim=8", ["latent attention"]),
    ("-b 1M", ["--seq"]),
):  # fmt: skip
    add(f"refused: {words}", lambda w, t: run(f"tensor_parallel {w}").exits(2).says(*t), words, wanted)


@test
def a_rank_dies():
    run(f"tensor_parallel -g 3 {SHORT} --fault die:2 -T 300").exits(3).says("rank 2")


@test
def listed():
    run("tensor_parallel --list").exits(0).prints("ulysses", "which is wrong", "gpt3-175b")

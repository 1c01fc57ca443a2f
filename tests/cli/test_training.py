"""Training kernels: results of ddp_bucket_perf for a model, and refusals."""

import csv
import json
import os
import random
import re
import tempfile

import gpus
import kit
import mpi
from kit import add, built, equal, expect, execute, prose, run, table_rows, test

PREDICT = "ddp_bucket --predict"
LINK = "-g 8 --link 10GB/s,5us"


def table(out, title):
    """The rows, split into words, of the table with this title."""
    lines = out.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("# " + title)), None)
    expect(start is not None, f"no table {title!r}:\n{out}")
    found = []
    for line in lines[start + 1 :]:
        if line == "#":
            break
        if not line.startswith("#"):
            found.append(line.split())
    return found


def cap_name(r):
    return {1: "tensor", None: r["grouping"]}.get(r["cap_bytes"]) or units(r["cap_bytes"])


def units(size):
    """Bytes as --buckets has them."""
    return next(f"{size >> shift}{unit}" for shift, unit in ((20, "M"), (10, "K"), (0, "")) if size % (1 << shift) == 0)


def steps(line, algorithm="ring"):
    """{(cap, overlap): step, reduce, exposed (ms), hidden (%), times one, tensor, 25M}."""
    def scaled(r, name, scale):
        return None if r[name] is None else round(r[name] * scale, 3)

    found = run(f"{PREDICT} {line} --algo {algorithm} --json -").exits(0).by_kind()["data_parallel"]
    return {(cap_name(r), r["overlap"]): [*(scaled(r, f"{name}_us", 1e-3) for name in ("step", "reduce", "exposed")),
                                          round(100 * (1 - r["exposed_us"] / r["reduce_us"]), 3) if r["reduce_us"] else None,
                                          *(scaled(r, f"times_{name}", 1) for name in ("one", "tensor", "25M"))] for r in found}


def counts(model, tensors, parameters, mib, buckets):
    out = run(f"{PREDICT} --model {model}").exits(0).out
    expect(f"# {tensors} tensors, {parameters} parameters, {4 * parameters} bytes of gradients ({mib} MiB)" in out, out)
    equal([int(r[1]) for r in table(out, "Buckets;")][:6], buckets, "buckets of 1M … 100M")


add("ResNet-50", counts, "resnet50", 161, 25557032, "97.49", [35, 13, 9, 5, 3, 2])
add("GPT-2", counts, "gpt2", 148, 124439808, "474.70", [50, 37, 25, 13, 7, 5])


@test
def buckets():
    """Buckets of ResNet-50 at 25 MiB, without a smaller first one, and in half the bytes."""
    out = run(f"{PREDICT} --buckets 25M").exits(0).out
    wanted = [["0", "2", "7.816"], ["1", "15", "30.043"], ["2", "12", "25.039"], ["3", "51", "25.320"], ["4", "81", "9.274"]]
    equal(table(out, "Buckets of 25M"), wanted, "buckets")
    out = run(f"{PREDICT} --buckets 25M --first-bucket cap").exits(0).out
    equal(table(out, "Buckets;")[0][1], "4", "buckets without a first one")
    for dtype in ("half", "bfloat16"):
        run(f"{PREDICT} -d {dtype}").exits(0).prints("51114064 bytes of gradients")


@test
def bucket_per_tensor():
    """--buckets 1 also closes the first bucket at its first tensor, as a run does."""
    found = table(run(f"{PREDICT} --model gpt2 --buckets 1").exits(0).out, "Buckets;")
    equal(found[0][:2], ["tensor", "148"], "buckets")


@test
def alike_in_one_line():
    out = run(f"{PREDICT} --model gpt2 --buckets 25M,1M").exits(0).out
    equal([r[:3] for r in table(out, "Buckets of 25M")],
          [["0", "4", "9.009"], ["1-11", "12", "27.038"], ["12", "12", "168.272"]], "buckets")  # fmt: skip
    expect("42 more" in out, out)
    equal(table(out, "Buckets of 1M")[-1], ["49", "1", "147.237"], "last bucket")
    expect(all(len(line) <= 100 for line in out.splitlines()), "lines are too long")


@test
def step_by_hand():
    """Two linear layers, small enough for a calculation by hand."""
    # FLOPs of a row: forward 2 * 200, backward 400 and, of the first layer, 200: 1000 in all, 1 ms.
    # A layer's gradients are 110 * 4 bytes; over 2 ranks a ring takes 2 (1 us + 220 B / 1 GB/s) = 2.44 us.
    line = "--model linear:2x10 -g 2 --link 1GB/s,1us --step-time 1ms --buckets 440 --first-bucket cap --overlap both"
    got = steps(line)
    # Ready at 400 and 600 us; ends at 402.44 and 602.44.
    equal(got["440", "on"][:4], [1.002, 0.005, 0.002, 50.0], "step, reduce, exposed, hidden")
    listed = table(run(f"{PREDICT} {line} --algo ring").exits(0).out, "Buckets of 440")
    equal([r[3:] for r in listed], [["0.400", "0.400", "0.602"]], "ready and start of the first, end of the last")
    equal(got["440", "off"][:4], [1.005, 0.005, 0.005, 0.0], "without overlap")
    equal(got["one", "on"][:4], [1.003, 0.003, 0.003, 0.0], "one bucket")


@test
def steps_follow():
    """Overlap helps, faster links help, and one of K batches is reduced."""
    base = steps(f"{LINK} --model gpt2 --flops 100T --batch 8 --overlap both")
    for (cap, overlap), row in base.items():
        if overlap == "on":
            expect(row[0] <= base[cap, "off"][0], f"overlap slows {cap} down")
            expect(row[2] <= row[1] + 0.001, f"more is exposed than there is: {cap}")
    equal(base["one", "on"][0], base["one", "off"][0], "one bucket hides nothing")
    equal(base["25M", "on"][6], 1.0, "25M against itself")
    many = steps(f"{LINK} --model gpt2 --flops 100T --batch 8 --accumulate 4")
    for cap in ("1M", "25M", "tensor"):
        equal(many[cap, "on"][2], base[cap, "on"][2], "exposed with --accumulate")
        one, four = base[cap, "on"], many[cap, "on"]
        expect(abs(four[0] - one[2] - 4 * (one[0] - one[2])) < 0.01, f"step of 4 batches: {four} from {one}")
    fast = steps("-g 8 --link 100GB/s,5us --model gpt2 --flops 100T --batch 8")
    expect(fast["25M", "on"][0] < base["25M", "on"][0], "faster links are slower")
    alone = steps("-g 1 --link 10GB/s,5us --model gpt2 --flops 100T --buckets 25M")
    equal(alone["25M", "on"][1:4], [0.0, 0.0, None], "one rank")


@test
def algorithms():
    """Several algorithms in turn; auto is never slower; one that cannot run is reported."""
    line = f"{PREDICT} {LINK} --model gpt2 --flops 100T --batch 8 --buckets 25M"
    result = run(f"{line} --algo ring,tree,auto --overlap on --json -").exits(0)
    found = {r["algorithm"]: r["step_us"] for r in result.by_kind()["data_parallel"] if r["cap_bytes"] == 25 << 20}
    expect(found["auto"] <= min(found.values()) * (1 + 1e-9), f"auto is not the best: {found}")
    out = run(f"{line} --algo ring,tree,auto").exits(0).prints("Evaluated by: event simulation; all_reduce among 8: ").out
    expect("start" not in out, "times of buckets of several algorithms")
    run(f"{line} --algo ring").exits(0).prints("start", "end")
    expect(len(records_of(f"{line} --algo all -g 6")) >= 6, "too few algorithms")
    cluster = f"{PREDICT} --cluster hgx-h100:1 --model gpt2 --flops 100T --buckets 25M"
    run(f"{cluster} --algo ring,nvlstree").exits(0).prints("# skipped: all_reduce by nvlstree: ", "NVLSTree is for several nodes")
    run(f"{cluster} --algo nvlstree").exits(5).says("NVLSTree is for several nodes")
    run(f"{line} --algo direct").exits(2).says("the sim backend has no algorithm \"direct\"")
    run(f"{line} --backend host").exits(2).says("--backend host: --predict simulates; leave one of them out")


def records_of(line):
    return {r["algorithm"] for r in run(f"{line} --json -").exits(0).by_kind()["data_parallel"]}


@test
def best_buckets():
    """The last lines name the best with its reason, or those that rounding cannot tell apart."""
    line = f"{PREDICT} {LINK} --model resnet50 --flops 10T --algo ring,tree"
    out = prose(run(line + " --buckets 1M,2M,4M").exits(0).out)
    expect(re.search(r"^# Best buckets, overlap on: 25M \(tree\), [\d.]+ ms; next: 4M \(tree\), [\d.]+% longer: its "
                     r"reductions take .* us longer$", out, re.M), out)
    out = prose(run(line + " --buckets 100M,200M").exits(0).out)
    expect("# Buckets of 100M to 200M" in out and re.search("^ +100M-200M ", out, re.M), out)
    expect("# Best buckets, overlap on: " in out, out)
    out = prose(run(line + " --buckets 100M,10M,200M").exits(0).out)
    expect("# Buckets of 100M to 200M" in out and "# Buckets of 200M" not in out and "or 200M" not in out, out)


@test
def time_of_a_batch():
    """FLOPs at a rate, or a time that is shared like the FLOPs."""
    eager = f"{PREDICT} --model gpt2 --attention eager"
    run(f"{eager} --flops 100T --batch 8").exits(0).prints("forward 23.3 ms, backward 46.7 ms (batch 8 at 100T)")
    run(f"{eager} --step-time 70ms").exits(0).prints("forward 23.3 ms, backward 46.7 ms")
    run(f"{eager} --seq 512").exits(0).prints("136.2 GFLOPs forward", "attention eager")
    # Of 12 x 4 s^2 h FLOPs of the core half are skipped forward; backward five products of that size replace four.
    run(f"{PREDICT} --model gpt2 --seq 512").exits(0).prints("131.3 GFLOPs forward, 265.1 GFLOPs", "FlashAttention")
    run(f"{PREDICT}").exits(0).prints("The step needs --link", "The step needs --flops RATE or --step-time TIME")


@test
def memory_of_ddp():
    """DDP says whether it fits, with the numbers of model_memory, in steps that run as well."""
    line = "--model llama2-7b -g 8 -d bfloat16 --json -"
    told = json.loads(execute([built("model_memory"), *"--model llama2-7b --dp 8 --micro-batches 1 --json -".split()]).exits(0).out)
    sim = "--backend sim --link 1GB/s,5us --buckets 25M -n 1"
    for command in (f"{PREDICT} {line}", f"ddp_bucket {sim} {line}", f"data_parallel --strategy ddp --backend sim --link 1GB/s,5us -n 1 {line}"):
        r = next(r for r in run(command).exits(0).records() if "fit" in r)
        equal((r["memory_bytes"], r["memory_limit_bytes"]), (told["total_bytes"], (81559 << 20) - (7 << 29)), command)
        equal(r["fit"], "does not fit: a rank needs 125.67 of 81.76 GB: parameters 13.48, gradients 13.48, optimizer 80.86, "
              "activations 17.86; this would: dp 8, tp 1, pp 1, ZeRO 1, recompute none, micro-batch 1, 54.92 GB", command)
    run(f"{PREDICT} --model llama2-7b -g 8 -d bfloat16 --memory 200G").exits(0).prints("# DDP fits, 125.67 of 210.99 GB: parameters")
    run(f"{PREDICT} --model llama2-7b -g 1 --memory 20G").exits(0).prints("nothing fits on these GPUs")
    run(f"{PREDICT} --model resnet50 -g 2").exits(0).prints("activations are known only for transformers")


@test
def list_and_docs():
    out = run("ddp_bucket --list").exits(0).out
    for name in ("resnet50", "gpt2-xl", "bert-large", "llama2-70b", "gpt3-175b", "mixtral-8x7b", "linear:20x2000"):
        expect(name in out, f"--list does not have {name}")
    for line in out.splitlines():
        words = line.split()
        if line.startswith("    ") and len(words) == 2 and ":" in words[1]:
            run(f"{PREDICT} --model {words[1]}").exits(0)
            both = [run(f"{PREDICT} --model {w}").exits(0).out.partition("gradients in")[2] for w in words]
            equal(*both, f"preset {words[0]}")


BAD = [
    ("--model gtp2", "did you mean \"gpt2\"?"),
    ("--model linear:20x0", "hidden: \"0\" is not a number"),
    ("--model /no/such/config.json", "No such file"),
    ("--model /dev/zero", "not a regular file"),
    ("--seq 100", "resnet50 has no sequence"),
    ("--buckets 1M,", "--buckets 1M,: the list has an empty item"),
    ("--buckets 25", None),
    ("--buckets 0", "--buckets 0: out of range"),
    ("--buckets 1M,x", "--buckets 1M,x: \"x\" is not a size"),
    ("--buckets " + ",".join(["1M"] * 40), "more than the 32 items that a list may have"),
    ("--first-bucket x", "--first-bucket x: not a size; expected a size from 1 to 1048576T or cap"),
    ("-d int8", "-d int8: not a datatype of this option"),
    ("-d flot", "did you mean float?"),
    ("--flops 100", "--flops 100: not a rate"),
    ("--flops -1T", "not a rate"),
    ("--flops 1T --step-time 1ms", "exclude each other: both set the time of a batch"),
    ("--batch 2 --step-time 1ms", "--batch 2 and --step-time exclude each other"),
    ("--batch 0", "--batch"),
    ("--accumulate 0", "--accumulate"),
    ("--overlap maybe", "--overlap"),
    ("--algo rign", "did you mean \"ring\"?"),
    ("--algo ring,", "there is an empty name in the list"),
    ("--algo ring,all", "all stands alone"),
    ("--algo " + ",".join(["ring"] * 40), "more than 32 algorithms"),
    ("-b 8", "-b: the model's gradients are reduced"),
    ("-e 8", "-e: the model's gradients are reduced"),
    ("--csv /no/such/folder/x", "--csv: /no/such/folder/x cannot be written"),
    ("--json - --csv -", "--csv and --json both write -"),
    ("--fault die:0", "--fault die:0 exclude each other: --predict runs nothing"),
    ("--link 10", "--link 10"),
    ("-g 2000", "-g"),
]  # fmt: skip


def refused(words, sentence):
    result = run(f"{PREDICT} {words}")
    if sentence is None:
        result.exits(0)
        return
    result.exits(2).says(sentence)
    equal(result.out, "", "stdout")
    equal(len(result.err.splitlines()), 1, "lines on stderr")


for words, sentence in BAD:
    add(f"refused: {words[:40]}", refused, words, sentence)


def records(line, codes=(0,)):
    """{kind: [record…]} of a prediction with --json -."""
    return run(f"{PREDICT} {line} --json -").exits(*codes).by_kind()


@test
def records_of_buckets():
    """Records equal the text, with all buckets; without --link and --flops there are no times."""
    found = records("--model gpt2 --buckets 25M,1M --first-bucket cap")
    equal([(r["grouping"], r["cap_bytes"]) for r in found["data_parallel"]],
          [("cap", 25 << 20), ("cap", 1 << 20), ("one", None), ("tensor", None)], "rows")  # fmt: skip
    for r in found["data_parallel"]:
        equal((r["tensors"], r["parameters"], r["gradient_bytes"]), (148, 124439808, 497759232), "model")
        equal(sum(r["bucket_bytes"]), r["gradient_bytes"], "bytes of all buckets")
        equal(sum(r["bucket_tensors"]), r["tensors"], "tensors of all buckets")
        equal(len(r["bucket_bytes"]), r["buckets"], "buckets")
        equal(max(r["bucket_bytes"]), r["most_bytes"], "largest")
        equal((r["algorithm"], r["overlap"], r["forward_us"], r["predicted_step_us"]), (None,) * 4, "times")
    equal(found["end"][0]["results"], 4, "results")
    equal((found["run"][0]["backend"], found["run"][0]["args"][1]), (None, "--predict"), "run")


@test
def records_of_steps():
    line = f"{LINK} --model gpt2 --flops 100T --batch 8 --buckets 25M --overlap both --algo ring,tree"
    found = records(line)
    equal(len(found["data_parallel"]), 3 * 2 * 2, "rows")
    for r in found["data_parallel"]:
        equal((r["nranks"], r["wrong"]), (8, None), "nranks, wrong")
        expect(r["exposed_us"] <= r["reduce_us"] * 1.000001, f"exposed {r}")
        compute = r["forward_us"] + r["backward_us"]
        expect(abs(r["step_us"] - compute - r["exposed_us"]) < 0.01, f"step {r}")
    equal(found["run"][0]["backend"], "sim", "backend")
    found = records("-g 8 --cluster hgx-h100:1 --flops 1T --algo nvlstree", (5,))
    equal((found["end"][0]["verdict"], found["end"][0]["exit_status"]), ("nothing was run", 5), "end")
    expect("data_parallel" not in found, "a record of what cannot be predicted")


@test
def long_names_are_whole():
    word = "llama:layers=2,hidden=64,heads=4,vocab=1000,seq=128,ffn=96,kv=2,tied=0"
    found = records(f"--model {word}")["data_parallel"]
    expect(len(word) > 63 and {r["model"] for r in found} == {word}, str(found[0]))


@test
def csv_beside_the_text():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.csv")
        out = run(f"{PREDICT} --buckets 25M --csv {path}").exits(0).out
        expect("# Buckets of 25M" in out, "no text")
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    equal([r["grouping"] for r in rows], ["cap", "one", "tensor"], "rows")
    equal(rows[0]["bucket_tensors"], "2;15;12;51;81", "tensors")


# ---- measured --------------------------------------------------------------------------------

SMALL = "--model linear:6x96 --buckets 64K,1M --step-time 3ms -n 3"


def rows(line, runner=run):
    """{(algorithm, grouping, cap, overlap): record} of a sweep."""
    found = runner(f"ddp_bucket {line} --json -").exits(0).records()
    return {(r["algorithm"], r["grouping"], r["cap_bytes"], r["overlap"]): r for r in found if r["kind"] == "data_parallel"}, found


def all_are_there(found, algorithms):
    groupings = [("cap", 64 << 10), ("cap", 1 << 20), ("cap", 25 << 20), ("one", None), ("tensor", None)]
    equal(set(found), {(a, *g, o) for a in algorithms for g in groupings for o in ("on", "off")}, "rows")
    for r in found.values():
        equal(len(r["bucket_us"]), r["buckets"], "a time of each bucket")
        equal(sum(r["bucket_bytes"]), r["gradient_bytes"], "bytes of all buckets")
        expect(r["step_us"] > 0 and r["compute_us"] > 0 and r["reduce_us"] > 0, r)
    for overlap in ("on", "off"):
        mine = [r for r in found.values() if r["overlap"] == overlap]
        best = [r for r in mine if r["best"]]
        equal([r["step_us"] for r in best], [min(r["step_us"] for r in mine)], "the best")


@test
def steps_are_measured_and_verified():
    """All bucket sizes and references on threads; averages are exact."""
    for ranks, algorithms in ((1, "auto"), (3, "ring,tree"), (4, "direct")):
        found, _ = rows(f"-g {ranks} {SMALL} --algo {algorithms}")
        if ranks > 1:
            all_are_there(found, algorithms.split(","))
        equal({r["wrong"] for r in found.values()}, {0}, "wrong")
        equal({r["samples"] for r in found.values()}, {3}, "samples")


@test
def same_buckets_are_measured_once():
    """Noise would tell two measurements apart. Every size has a record, every set of buckets a row."""
    line = f"--backend sim {LINK} --noise 5% --model resnet50 --buckets 100M,10M,200M --algo ring,tree"
    found, _ = rows(line)
    for algorithm in ("ring", "tree"):
        for overlap in ("on", "off"):
            first, second = (found[algorithm, "cap", size << 20, overlap] for size in (100, 200))
            equal((first["measured_as"], second["measured_as"]), (None, "100M"), "measured as")
            for name in ("bucket_bytes", "step_us", "low_us", "high_us", "reduce_us", "bucket_us", "wrong", "as_good"):
                equal(second[name], first[name], name)
    equal({key[2] for key, r in found.items() if r["measured_as"]}, {200 << 20}, "sizes with the buckets of another")
    out = run(f"ddp_bucket {line}").exits(0).out
    caps = [line[0] for line in table_rows(out, keys=5) if line[3:5] == ["ring", "on"]]
    equal(caps, ["100M-200M", "10M", "25M", "one", "tensor"], out)
    expect("# 100M to 200M: the same 2 buckets, measured once" in out and "10M to" not in out, out)
    expect(len(re.findall("100M to 200M [(]ring[)]", out)) <= 2 and "or 200M" not in out, out)


@test
def steps_on_gpus():
    """Computations by a kernel or by sleeping, averages by the library or by busbench's schedules."""
    cublas = {"LD_LIBRARY_PATH": gpus.stand_in("cublas")}
    for compute, variant in (("spin", ""), ("sleep", ""), ("gemm", ""), *(("spin", v) for v in kit.Settings.variants)):
        line = f"-g 3 --backend nccl {SMALL} --compute {compute} --algo ring,busbench:ring,auto"
        found, _ = rows(line, lambda words: gpus.run(words, cublas, variant))
        all_are_there(found, ["ring", "busbench:ring", "auto"])
        equal({r["wrong"] for r in found.values()}, {0}, "wrong")


@test
def steps_of_processes():
    words = ["mpirun", "-np", "2", kit.built("ddp_bucket_perf"), *f"{SMALL} --algo native,ring --json -".split()]
    found, _ = rows("", lambda words_of_line: mpi.Job(words).finish())
    all_are_there(found, ["native", "ring"])
    equal({r["wrong"] for r in found.values()}, {0}, "wrong")


@test
def virtual_time_is_the_step_model():
    """The step equals the model to the last digits."""
    line = f"-g 4 {SMALL} --accumulate 2 --algo ring,tree,auto --backend sim --link 1G,20us"
    found, _ = rows(line)
    all_are_there(found, ["ring", "tree", "auto"])
    for key, r in found.items():
        expect(abs(r["step_us"] - r["predicted_step_us"]) < 1e-9 * r["step_us"], f"{key}: {r['step_us']}, model {r['predicted_step_us']}")
        if r["hidden"] is not None:
            hidden = max(0, 1 - r["exposed_us"] / r["reduce_us"])
            expect(abs(r["hidden"] - hidden) < 1e-9, f"{key}: {r['hidden']}, not {hidden}")
    equal(rows(line)[0].keys(), found.keys(), "the same again")


@test
def reductions_add_up():
    """Also if ranks finish at different times, and the last one counts."""
    for words in ("-g 5", "-g 3 --algo tree,reduce+broadcast", "-g 6 --algo linear --link 1G,20us,port"):
        found, _ = rows(f"--backend sim --link 1G,20us {SMALL} {words}".replace("--link 1G,20us " if "port" in words else "\0", ""))
        for key, r in found.items():
            expect(abs(sum(r["bucket_us"]) - r["reduce_us"]) < 1e-6, f"{words}, {key}: {sum(r['bucket_us'])}, {r['reduce_us']}")
            expect(abs(r["error_percent"]) < 5, f"{words}, {key}: {r['error_percent']}%")


@test
def prediction_is_virtual_time():
    """--predict equals the measurement on sim."""
    line = f"-g 4 {SMALL} --algo ring --link 1G,20us"
    predicted, _ = rows(line + " --predict")
    played, _ = rows(line + " --backend sim")
    equal({key: r["step_us"] for key, r in predicted.items()}, {key: r["step_us"] for key, r in played.items()}, "steps")


@test
def accumulation_reduces_once():
    """The reductions of a step do not depend on the number of batches."""
    link = "--backend sim --link 1G,20us --algo ring"
    one, _ = rows(f"-g 4 {SMALL} {link}")
    many, _ = rows(f"-g 4 {SMALL} {link} --accumulate 5")
    for key, r in one.items():
        expect(abs(many[key]["reduce_us"] - r["reduce_us"]) < 1e-6, key)
        expect(abs(many[key]["compute_us"] - 5 * r["compute_us"]) < 1e-6, key)
        expect(abs(many[key]["exposed_us"] - r["exposed_us"]) < 1e-6, key)


@test
def wrong_averages_are_found():
    result = run(f"ddp_bucket -g 3 {SMALL} --fault corrupt:1").exits(7)
    expect("# Wrong data in 10 of " in result.out, result.out)


@test
def a_rank_dies():
    run(f"ddp_bucket -g 3 {SMALL} --fault die:2 -T 300").exits(3).says("rank 2")


@test
def what_cannot_be_done_is_told_once():
    """An algorithm without messages over a paced link is skipped once; the others run."""
    found, all_of_them = rows(f"-g 2 {SMALL} --algo ring,direct --link 1G,1us")
    all_are_there(found, ["ring"])
    skips = [r for r in all_of_them if r["kind"] == "skip"]
    equal([r["algorithm"] for r in skips], ["direct"], "skipped")
    run(f"ddp_bucket -g 2 {SMALL} --algo direct --link 1G,1us").exits(5).says("direct")


@test
def gradients_need_room():
    run("ddp_bucket -g 8 --model gpt3-175b").exits(5).says("gradients take")


@test
def table_of_steps():
    out = run(f"ddp_bucket -g 2 {SMALL}").exits(0).out
    lines = table_rows(out, keys=4)
    equal([line[0] for line in lines if line[3] == "on"], ["64K-one", "tensor"], "rows")
    expect(re.search("^# In every row: .*#wrong 0$", out, re.M), out)
    expect(re.search("^# (Best|Tied) buckets, overlap on", out, re.M) and "broadcasts the parameters" in out, out)


# ---- what else a step does ---------------------------------------------------------------------

MODES = "ddp_bucket -n 2 -w 1 --buckets 1M --step-time 2ms --json -"


@test
def optimizer_and_copies_are_verified():
    """All places and both ways of copying, with what belongs to a step besides; three ranks divide inexactly."""
    for words in ("-g 2 -d bfloat16", "-g 3"):
        found = run(f"{MODES} {words} --model linear:6x200 --optimizer after,own-queue,comm-queue --bucket-view all "
                    "--find-unused --accumulate 2 --overlap on").exits(0).by_kind()["data_parallel"]
        equal(sorted({(r["bucket_view"], r["optimizer"]) for r in found}),
              sorted((v, p) for v in ("off", "on") for p in ("after", "own-queue", "comm-queue")), "modes")
        size = 2 if "bfloat16" in words else 4
        for r in found:
            equal([r["wrong"], r["update_bytes"]], [0, 28 * r["parameters"]], "counted")
            equal(r["copy_bytes"], (4 if r["bucket_view"] == "off" else 2) * size * r["parameters"], "bytes of copies")
            equal(r["first_step_us"], r["step_us"], "the same buckets in the first step")


@test
def processes_update_and_copy():
    """Over MPI, and by threads over Gloo."""
    line = f"{SMALL} -n 1 -w 0 --optimizer after,own-queue,comm-queue --bucket-view off --overlap on --json -"
    jobs = [lambda: mpi.Job(["mpirun", "-np", "2", kit.built("ddp_bucket_perf"), *line.split()]).finish()]
    if os.path.exists(os.path.join(kit.Settings.build, "backends", "gloo.so")):
        jobs.append(lambda: run(f"ddp_bucket --backend gloo -g 2 {line}"))
    for job in jobs:
        found = job().exits(0).by_kind()["data_parallel"]
        equal(({r["optimizer"] for r in found}, {r["wrong"] for r in found}), ({"after", "own-queue", "comm-queue"}, {0}), "verified")


@test
def buffers_are_broadcast():
    line = "ddp_bucket --model resnet:18 -g 2 -n 1 -w 0 --buckets 25M --step-time 2ms --overlap on --sync-buffers"
    for r in run(f"{line} --find-unused --json -").exits(0).by_kind()["data_parallel"]:
        equal([r["wrong"], r["buffer_bytes"]], [0, 9600 * 4 + 20 * 8], "buffers of 20 batch norms")
    # On rank 0 the byte of a gradient, of a mean and of a counter.
    found = run(f"{line} --fault corrupt:0 --json -").exits(7).by_kind()["data_parallel"]
    equal({r["wrong"] for r in found}, {3}, "wrong elements")


@test
def wrong_parameters_are_found():
    """The byte of a gradient and that of its parameter."""
    for words in ("--optimizer own-queue", "--optimizer after --clip-grad-norm 0.5 --loss-scale 1024"):
        result = run(f"ddp_bucket -g 2 {SMALL} {words} --overlap on --fault corrupt:1").exits(7)
        expect("# Wrong data in 5 of 5 results" in result.out, result.out)


@test
def one_rank_updates_in_the_backward_pass():
    found = run(f"{MODES} --model linear:4x64 --optimizer backward,after --overlap on -g 1").exits(0).by_kind()["data_parallel"]
    equal({r["optimizer"] for r in found}, {"backward", "after"}, "places")
    equal({(r["wrong"], r["contention"] is None) for r in found if r["optimizer"] == "backward"}, {(0, True)}, "backward")
    line = f"{MODES} --model linear:4x64 --optimizer backward,after -g 1"
    found = run(line).exits(0).by_kind()["data_parallel"]
    equal({(r["optimizer"], r["overlap"]) for r in found}, {("backward", "on"), ("after", "on"), ("after", "off")}, "rows")
    run("ddp_bucket --optimizer backward -g 2 -n 1 --model linear:4x64").exits(5).says("only with one rank")


@test
def steps_in_virtual_time_are_their_formula():
    """The step and the recurrences agree; copies and updates take their bytes over the rate."""
    line = (f"{MODES} --model resnet50 --backend sim -g 4 --link 10GB/s,5us --memory-rate 1TB/s --algo ring --bucket-view all --sync-buffers "
            "--optimizer after,own-queue,comm-queue")
    first = {}
    for r in run(line).exits(0).by_kind()["data_parallel"]:
        expect(abs(r["predicted_step_us"] - r["step_us"]) < 1e-9 * r["step_us"], (r["predicted_step_us"], r["step_us"]))
        expect(abs(r["copy_us"] - r["copy_bytes"] * 1e-6) < 1e-6, r["copy_us"])
        expect(abs(r["update_us"] - r["update_bytes"] * 1e-6) < 1e-6, r["update_us"])
        equal(r["buffer_bytes"], 212480 + 424, "buffers")
        mode = (r["overlap"], r["bucket_view"], r["optimizer"])
        first.setdefault(mode, set()).add(round(r["first_step_us"], 6))
        if r["grouping"] == "one":
            expect(abs(r["first_step_us"] - r["step_us"]) < 1e-9 * r["step_us"], "its first step is like the others")
    expect(all(len(values) == 1 for values in first.values()), "the first step depends on no size")
    out = run(line.replace("--json -", "")).exits(0).out
    expect(re.search("^# Best optimizer, overlap on: own-queue", out, re.M), out)
    expect(re.search(r"^# Buffers \(ring\): 0.203 MiB in 2 broadcasts before each step, 0.0[1-9] ms$", out, re.M), out)
    expect(re.search(r"^# First step, overlap on: [\d.]+ ms, 1\.\d+ times", prose(out), re.M), out)


@test
def memory_rate_is_that_of_the_gpus():
    out = run(f"{MODES} --model resnet:18 --backend sim --cluster hgx-h100:1 --optimizer after --overlap on").exits(0)
    for r in out.by_kind()["data_parallel"]:
        expect(abs(r["update_us"] - r["update_bytes"] / 3350e9 * 1e6) < 1e-6, r["update_us"])


@test
def gradients_in_fp8():
    for name in ("f8e4m3", "f8e5m2"):
        found = run(f"{MODES} --model linear:6x200 -g 4 -d {name} --overlap on").exits(0).by_kind()["data_parallel"]
        equal({(r["dtype"], r["wrong"], r["gradient_bytes"] == r["parameters"]) for r in found}, {(name, 0, True)}, "fp8")
    run("ddp_bucket -g 2 --model linear:6x200 -n 2 -w 1 --step-time 2ms -d f8e4m3 --overlap on --fault corrupt:1").exits(7)


@test
def what_an_optimizer_forbids():
    for words, said in {
        "--optimizer own-queue --clip-grad-norm 1": "--optimizer own-queue: --clip-grad-norm needs all gradients",
        "--optimizer after,comm-queue --loss-scale 8": "--optimizer comm-queue: --loss-scale needs all gradients",
        "--optimizer after --clip-grad-norm 0": "--clip-grad-norm: give a number above 0",
        "--optimizer after --loss-scale -1": "--loss-scale: give a number above 0",
        "--clip-grad-norm 1": "--clip-grad-norm needs --optimizer",
        "--optimizer after -d double": "--optimizer: the CPU's passes have no double",
        "--bucket-view off -d f8e4m3": "--bucket-view: the CPU's passes have no f8e4m3",
        "--optimizer befor": "--optimizer befor",
        "--optimizer after --fusion horovod": "--optimizer and --fusion exclude each other",
        "--find-unused --fusion tf": "--find-unused",
        "--sync-buffers": "--sync-buffers: linear:2x8 has no buffers; leave it out",
        "--optimizer after --backend sim --link 1GB/s,1us": "--memory-rate",
    }.items():
        run(f"ddp_bucket -g 2 --model linear:2x8 {words}").exits(2).says(said)
    run("ddp_bucket -g 2 --model linear:2x8 --optimizer after --memory-rate 1TB/s").exits(5).says("measures this machine")


# ---- config.json -----------------------------------------------------------------------------

FAMILIES = {
    "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 16, "n_inner": None},
    "bloom": {"n_layer": 2, "hidden_size": 64, "n_head": 4, "vocab_size": 100, "seq_length": 16},
    "bert": {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
             "max_position_embeddings": 16, "intermediate_size": 256, "type_vocab_size": 2},
    "llama": {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
              "max_position_embeddings": 16, "intermediate_size": 96, "num_key_value_heads": 2},
    "mistral": {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
                "max_position_embeddings": 16, "intermediate_size": 96, "num_key_value_heads": 4},
    "mixtral": {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
                "max_position_embeddings": 16, "intermediate_size": 96, "num_key_value_heads": 4,
                "num_local_experts": 3, "num_experts_per_tok": 2},
}  # fmt: skip

# Parameters, calculated from the shapes of the tensors.
H, V, S = 64, 100, 16
GPT = 12 * H * H + 13 * H
GATED = 2 * H * H + 3 * H * 96 + 2 * H
PARAMETERS = {
    "gpt2": 2 * GPT + (V + S + 2) * H,
    "bloom": 2 * GPT + (V + 4) * H,
    "bert": 2 * GPT + (V + S + 2 + 2) * H + H * H + H,
    "llama": 2 * (GATED + H * H) + 2 * V * H + H,
    "mistral": 2 * (GATED + 2 * H * H) + 2 * V * H + H,
    "mixtral": 2 * (4 * H * H + 3 * 3 * H * 96 + 3 * H + 2 * H) + 2 * V * H + H,
}


def predict_file(text, *words):
    """Runs --predict with a file that contains TEXT."""
    with tempfile.NamedTemporaryFile("wb", suffix=".json") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
        file.flush()
        return execute([kit.built("ddp_bucket_perf"), "--predict", "--model", file.name, *words])


def family(name):
    result = predict_file(json.dumps({"model_type": name, "torch_dtype": "float16", "id2label": {"0": "a"}, **FAMILIES[name]}))
    result.exits(0).prints(f"({name})", f" {PARAMETERS[name]} parameters")


def without_a_key(name, key):
    """The class of transformers has it, or it follows from others."""
    derived = ("n_inner", "num_key_value_heads", "seq_length")
    config = {"model_type": name, **{k: v for k, v in FAMILIES[name].items() if k != key}}
    result = predict_file(json.dumps(config))
    if result.code == 2:  # a class's heads or positions need not go with the other numbers
        result.says("heads" if "head" in key or "hidden" in key or "embd" in key or "embed" in key else "positions")
    elif key not in derived or name in ("mistral", "mixtral"):
        result.exits(0).prints("# config.json: read as ", f" {key} ")


def wrong_value(name, key):
    for value in (-1, 0, 1e30, 2.5, "4", [4], {"a": 4}, True, 2**62):
        result = predict_file(json.dumps({"model_type": name, **FAMILIES[name], key: value}))
        result.exits(2).says(f": {key}: ", "is not a whole number")


def every_key(check, name):
    for key in FAMILIES[name]:
        check(name, key)


for name in FAMILIES:
    add(f"config.json of {name}", family, name)
    add(f"config.json of {name} without a key", every_key, without_a_key, name)
    add(f"config.json of {name} with a wrong value", every_key, wrong_value, name)


@test
def broken_files():
    """Truncated, altered or nested files give a sentence or a result, nothing else."""
    noise = random.Random(1)
    whole = json.dumps({"model_type": "llama", **FAMILIES["llama"]}).encode()
    for i in range(60):
        text = bytearray(whole[: noise.randrange(len(whole))] if i % 2 else whole)
        for _ in range(i % 5):
            if text:
                text[noise.randrange(len(text))] = noise.randrange(256)
        result = predict_file(bytes(text)).exits(0, 2)
        expect(result.code == 0 or len(result.err.splitlines()) == 1, f"not one sentence: {result}")
    predict_file("[" * 500000).exits(2).says("not JSON")
    predict_file('{"a":' * 100000).exits(2).says("not JSON")
    predict_file(b" " * (2 << 20)).exits(2).says("larger than 1M")
    with tempfile.NamedTemporaryFile("wb", suffix=".json") as file:
        os.truncate(file.name, 1 << 40)  # sparse, too large to read
        execute([kit.built("ddp_bucket_perf"), "--predict", "--model", file.name]).exits(2).says("larger than 1M")

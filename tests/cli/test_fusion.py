"""Rules of fusion in ddp_bucket_perf: groups and times by the formulas, data on every backend, refusals."""

import math
import re

import mpi
from kit import add, equal, expect, prose, run, test

SIM = "ddp_bucket --backend sim --link 10GB/s,20us -g 8 --overlap on --model resnet50 --step-time 40ms"
SMALL = "--fusion all --buckets 5K --fusion-threshold 6K,0 --cycle-time-ms 0.2 " \
        "--bytes-per-pack 0,6K --num-packs 0,3 --ddp-bucket-size 2K --pad-buckets"


def rows(line, start=run):
    """{label: record} of the steps."""
    return {r["label"]: r for r in start(f"{line} --json -").exits(0).by_kind()["data_parallel"]}


def horovod(tensors, threshold, cycle):
    """[(cycle's begin, bytes)] of TENSORS, [(bytes, ready)] of one datatype: written anew from controller.cc's comments."""
    found, now = [], 0
    while tensors:
        now += cycle
        here = [t for t in tensors if t[1] <= now * (1 + 1e-9)]
        tensors = tensors[len(here):]
        while here:
            fused = here.pop(0)[0]
            while here and fused + here[0][0] <= threshold:
                fused += here.pop(0)[0]
            found.append((now, fused))
    return found


@test
def cycles_of_horovod():
    """Buckets, their launches and the step follow from the tensors and the times of reductions alone."""
    found = rows(f"{SIM} --buckets 25M --fusion ddp,horovod --fusion-threshold 1M,16M --cycle-time-ms 1,2.5,30")
    each = found["tensor"]
    tensors = list(zip(each["bucket_bytes"], each["bucket_ready_us"]))
    for threshold in (1, 16):
        for cycle in (1, 2.5, 30):
            r = found[f"horovod {threshold}M {cycle:g}ms"]
            wanted = horovod(tensors, threshold << 20, 1000 * cycle)
            equal(r["bucket_bytes"], [b for _, b in wanted], "bytes of buckets")
            equal([r["cap_bytes"], r["cycle_us"], r["grouping"]], [threshold << 20, 1000 * cycle, "horovod"], "parameters")
            equal(len(r["cycles_us"]), math.ceil(each["backward_us"] / (1000 * cycle) - 1e-9), "cycles")
            end = 0
            for i, (launch, _) in enumerate(wanted):
                begin = max(launch + r["negotiation_us"], end)
                expect(abs(r["bucket_start_us"][i] - begin) < 1e-3, f"bucket {i} begins at {r['bucket_start_us'][i]}, not {begin}")
                end = begin + r["bucket_us"][i]
                expect(abs(r["bucket_end_us"][i] - end) < 1e-3, f"bucket {i} ends at {r['bucket_end_us'][i]}, not {end}")
            expect(abs(r["step_us"] - r["forward_us"] - end) < 1e-3 and abs(r["predicted_step_us"] / r["step_us"] - 1) < 1e-9,
                   f"step {r['step_us']}, {r['predicted_step_us']}, not {r['forward_us'] + end}")


@test
def threshold_is_rounded():
    """To 512 bytes for each rank of a node, if all nodes have as many."""
    for ranks, bytes_ in ((4, 1001472), (3, 1000000), (8, 1003520)):
        found = rows(f"{SIM} --fusion horovod --fusion-threshold 1000000 --node-ranks {ranks}")
        equal({r["cap_bytes"] for r in found.values() if r["grouping"] == "horovod"}, {bytes_}, f"nodes of {ranks}")


@test
def copies_of_fusions():
    """Buckets of several tensors are copied in and out beside their reduction, others are not."""
    line = f"{SIM} --fusion horovod --fusion-threshold 4M --cycle-time-ms 30 --bucket-view off --memory-rate 1GB/s"
    r = rows(line)["horovod 4M 30ms"]
    copy = [2 * b / 1e3 * (n > 1) for b, n in zip(r["bucket_bytes"], r["bucket_tensors"])]  # us
    expect(0 in copy and max(copy) > 0, "all alike")
    end = r["cycles_us"][0] + r["negotiation_us"]
    for i, reduce in enumerate(r["bucket_us"]):
        expect(abs(r["bucket_start_us"][i] - (end + copy[i])) < 1e-3, f"bucket {i} begins at {r['bucket_start_us'][i]}, not {end + copy[i]}")
        end += copy[i] + reduce + copy[i]
    expect(abs(r["step_us"] - r["forward_us"] - end) < 1e-3 and abs(r["error_percent"]) < 1e-9, f"step {r['step_us']}")


@test
def other_rules():
    """One list of tensors under each rule; equal groups are measured once."""
    found = rows("ddp_bucket --backend sim --link 10GB/s,20us -g 8 --overlap on --model resnet50 --step-time 40ms --fusion all "
                 "--bytes-per-pack 0,25M --num-packs 1,4 --ddp-bucket-size 10M --min-num-params 3M")
    each, whole = found["tensor"], found["one"]["gradient_bytes"]
    equal([found[label]["measured_as"] for label in ("tf one", "mirrored 1 pack", "one", "mirrored 4 packs")],
          [None, "tf one", "tf one", None], "measured as")
    equal([found["tf one"]["buckets"], found["mirrored 1 pack"]["buckets"]], [1, 1], "single packs")
    expect("fsdp 3M elem" in found, found.keys())
    expect(all(b > 25 << 20 for b in found["tf 25M"]["bucket_bytes"][:-1]), "a pack is closed too early")
    quarter = whole // 4 // 4
    equal(found["mirrored 4 packs"]["bucket_bytes"], [4 * quarter] * 3 + [whole - 12 * quarter], "packs")
    equal(found["mirrored 4 packs"]["bucket_ready_us"], [each["backward_us"]] * 4, "parts of one vector")
    expect(all(b >= 4 * 10**7 for b in found["megatron 10M elem"]["bucket_bytes"][:-1]), "a bucket is closed too early")
    for r in found.values():
        expect(abs(sum(r["bucket_bytes"]) - whole) < 1 and abs(r["error_percent"]) < 1e-9, f"{r['label']}: {r['error_percent']}")


@test
def caps_one_by_one():
    """A list of caps, as --predict prints it; the recommendation names rule and size."""
    out = run("ddp_bucket --predict --bucket-cap-list 1M,2M,25M").exits(0).out
    listed = out.partition("# Buckets of list")[2].splitlines()[2:8]
    equal([line.split()[1] for line in listed], "2 3 12 12 51 81".split(), "tensors")
    run("ddp_bucket --predict --fusion mirrored --num-packs 500").exits(0).prints("Buckets of mirrored 500 packs")
    out = prose(run(SIM + " --buckets 25M --fusion ddp,tf --bytes-per-pack 10M,30M").exits(0).out)
    expect(re.search("# Best buckets, overlap on: ddp tensor, .*; next: tf 10M, .* us more is exposed after the backward pass", out), out)


@test
def hierarchical():
    """Bytes by the formula."""
    line = "ddp_bucket --backend sim --cluster hgx-h100:4 --overlap on --model linear:1x1000 --fusion horovod"
    r = rows(f"{line} --step-time 1ms --hierarchical")["horovod 128M 1ms"]
    padded = math.ceil(1001000 / 512) * 512
    equal([r["padded_bytes"], r["node_ranks"]], [4 * padded, 8], "padded to 64 elements of each rank of a node")
    equal([r["inside_bytes"], r["across_bytes"]], [1.75 * 4 * padded, 1.5 * 4 * padded / 8], "bytes")
    text = prose(run(f"{line} --step-time 1ms --hierarchical").exits(0).out)
    expect("sends 7.01 MB within its node and 0.7511 MB across; one ring of all ranks sends 7.761 MB" in text, text)
    alone = rows(f"{line} --step-time 1ms --hierarchical --fusion-threshold 0")["horovod tensor 1ms"]
    equal(alone["padded_bytes"], 4 * 1001000, "no padding without a fusion")
    for ranks, unequal in ((12, True), (16, False)):
        text = prose(run(f"{line} --step-time 1ms --hierarchical -g {ranks}").exits(0).out)
        equal("# Nodes of 8 ranks, the last of 4: all gradients go by the first rank of each node" in text, unequal, text)


def verified(line, start=run, least=5):
    found = rows(f"ddp_bucket --model linear:7x31 --step-time 1ms -n 1 -w 0 --overlap on {line}", start)
    expect(len(found) >= least and all(r["wrong"] == 0 for r in found.values()), {k: r["wrong"] for k, r in found.items()})
    return found


for words in ("", "--hierarchical --node-ranks 2", "--hierarchical --node-ranks 3"):  # the last: nodes of 3 and 1
    add(f"data on host {words}", verified, f"--backend host -g 4 {SMALL} {words}", run, 12, cores=2)
add("data on host with copies", verified, f"--backend host -g 4 {SMALL} --bucket-view off --batched-copies", run, 12, cores=2)
FEW = "--fusion horovod --fusion-threshold 6K --cycle-time-ms 0.2 --hierarchical --node-ranks 2"
add("data on gloo", verified, f"--backend gloo -t 4 {FEW}", run, 3, cores=2)


@test
def data_on_mpi():
    mpi.need()
    verified(FEW, lambda line: mpi.run(4, line), 3)


@test(cores=2)
def two_datatypes():
    """Norms and biases in another datatype are in buckets of their own; Horovod looks over them."""
    line = "ddp_bucket --backend host -g 2 --model linear:6x40 --step-time 1ms -n 2 -w 0 --overlap on -d half --norm-datatype float " \
           "--fusion ddp,horovod --buckets 1M"
    found = rows(line)
    equal([found["one"]["buckets"], found["horovod 128M 1ms"]["buckets"]], [2, 2], "buckets")
    equal(sorted(found["one"]["bucket_bytes"]), [6 * 40 * 4, 6 * 40 * 40 * 2], "bytes")
    expect(all(r["wrong"] == 0 for r in found.values()), "wrong data")


@test(cores=2)
def corrupt_data():
    run(f"ddp_bucket --backend host -g 4 --model linear:7x31 --step-time 1ms -n 1 -w 0 {FEW} --fault corrupt:2").exits(7).prints("verdict: wrong data")


def refused(words, sentence):
    result = run(f"ddp_bucket --backend sim --link 1GB/s -g 4 {words}").exits(2).says(sentence)
    equal([result.out, len(result.err.splitlines())], ["", 1], "output")


for bad, why in [
    ("--fusion horovud", "did you mean horovod?"),
    ("--fusion-threshold 1M", "--fusion-threshold needs --fusion horovod"),
    ("--fusion horovod --buckets 1M", "--buckets needs --fusion ddp"),
    ("--fusion ddp,tf --num-packs 2", "--num-packs needs --fusion mirrored"),
    ("--fusion horovod --cycle-time-ms 0.0001", "more than 100000 cycles of a backward pass"),
    ("--fusion horovod --cycle-time-ms -1", "out of range"),
    ("--predict --fusion horovod", "its cycles need the time of a batch; give --step-time or --flops"),
    ("--fusion horovod --memory-rate 1TB/s --bucket-view on,off", "--bucket-view on: Horovod's fusions are copies; give --bucket-view off"),
    ("--bucket-cap-list 1M --first-bucket 2M", "both set the sizes of buckets"),
    ("--fusion mirrored --num-packs 4000 --model linear:1x8", "--num-packs 4000: the model has 72 parameters"),
    ("--fusion mirrored --norm-datatype half", "a pack has one datatype"),
    ("--hierarchical", "--hierarchical: 4 ranks in nodes of 4; give --node-ranks from 2 to 3"),
    ("--fusion horovod --fusion-threshold " + ",".join(f"{n}M" for n in range(1, 21)) + " --cycle-time-ms "
     + ",".join(str(n) for n in range(1, 21)), "--fusion: more than 128 groupings"),
]:  # fmt: skip
    add(f"refused: {bad[:50]}", refused, bad, why)

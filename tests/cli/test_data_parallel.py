"""Strategies of data-parallel training: times in virtual time, and results of training."""

import re

import gpus
import mpi
from kit import add, equal, expect, prose, run, test

SIM = "data_parallel --backend sim --model linear:4x100 --step-time 2ms"
SYNCHRONOUS = ("dp", "ps", "ddp", "zero")


def rows(line, runner=run):
    return runner(f"{line} --json -").exits(0).records("strategy")


def formula_us(r, rate, latency, port):
    """The step by the formulas of docs/training.md, with the largest part where parts differ."""
    n, workers, k = r["nranks"], r["workers"], r["servers"]
    compute = r["batch_us"] * r["batches"]
    size = r["gradient_bytes"] // r["parameters"]

    def entry(parts):
        return -(-r["parameters"] // parts) * size / rate * 1e6

    ring = 2 * (n - 1) * (latency + entry(n))
    if r["strategy"] == "dp":
        return compute + (n * (latency + entry(1)) if n > 1 else 0)
    if r["strategy"] == "average":
        return compute + ring / r["every"]
    if r["strategy"] in ("ddp", "zero") or r["colocated"]:
        return compute + ring
    alone = k * (latency + entry(k))
    pushed = max(workers * entry(k) + latency, alone + (-(-workers // k) - 1) * entry(k)) if port else alone
    return compute + pushed + workers * (latency + entry(k))


def agrees(link, ranks):
    """Steps in virtual time take the time of their formulas, for every number of ranks."""
    found = rows(f"{SIM} -g {ranks} --link {link} --scale --servers 1,2,4 --every 3 --accumulate 2")
    expect({r["strategy"] for r in found} == {*SYNCHRONOUS, "ps_async", "average"}, f"strategies: {found}")
    for r in found:
        # Every second server would have one worker less, and asynchronous workers begin at once.
        exact = r["strategy"] != "ps_async" and (r["servers"] or 1) < 4
        if exact or r["colocated"]:
            wanted = formula_us(r, 10e9, 5 if "5us" in link else 0, "port" in link)
            expect(abs(r["step_us"] / wanted - 1) < 1e-9, f"not what the formula says, {wanted}: {r}")
        expect(abs(r["error_percent"]) < 1e-9, f"not what is simulated: {r}")


for number in (2, 4, 8, 16):
    add(f"formulas of {number} ranks", agrees, "10GB/s,5us", number)
    add(f"formulas of {number} ranks with ports", agrees, "10GB/s,0us,port", number)


@test
def published_server():
    """100 MB at 25 GB/s and 8 workers: one server takes 64 ms, a server on every worker 7 ms."""
    line = "data_parallel --backend sim --model linear:1x4999 --step-time 1ns --link 25GB/s,port --strategy ps"
    # 4999 * 5000 floats are 99.98 MB.
    equal([round(r["step_us"] * 100 / 99.98, -1) for r in rows(f"{line} -g 9 --colocated off")], [64000], "one server")
    equal([round(r["step_us"] * 100 / 99.98, -1) for r in rows(f"{line} -g 10 --colocated off --servers 2")], [32000], "two")
    equal([round(r["step_us"] * 100 / 99.98, -1) for r in rows(f"{line} -g 8 --colocated on")], [7000], "on workers")
    equal([r["port_busy"] > 0.49 for r in rows(f"{line} -g 9 --colocated off")], [True], "the port of a server")


@test
def speedup_decays():
    """With more ranks the speedup rises and the efficiency falls."""
    found = [r for r in rows(f"{SIM} -g 16 --link 100MB/s,10us --scale --strategy ddp")]
    equal([r["nranks"] for r in found], [1, 2, 4, 8, 16], "ranks")
    equal(found[0]["efficiency"], 1, "of one rank")
    for few, many in zip(found, found[1:]):
        expect(few["speedup"] < many["speedup"] and few["efficiency"] > many["efficiency"], f"{few} {many}")


@test
def many_ranks():
    """A root with up to 16383 workers."""
    found = rows("data_parallel --backend sim -t 16 -g 1024 --model linear:1x10 --link 10GB/s,5us --scale --strategy dp")
    equal([r["nranks"] for r in found], [1 << k for k in range(15)], "ranks")
    for r in found:
        expect(abs(r["step_us"] / formula_us(r, 10e9, 5, False) - 1) < 1e-9, f"not what the formula says: {r}")


@test
def staleness():
    """With equal workers each gradient is as many updates late as there are other workers."""
    (r,) = rows(f"{SIM} -g 9 --link 1GB/s,port --strategy ps_async --steps 100")
    expect(6.5 < r["staleness_mean"] <= 7, f"mean staleness {r['staleness_mean']}")
    equal((r["staleness_most"], len(r["staleness"]), sum(r["staleness"])), (7, 8, 800), "histogram")


@test
def bytes_of_a_step():
    """A root receives all gradients, a server's port all of its part."""
    found = {(r["strategy"], r["colocated"]): r for r in rows(f"{SIM} -g 4 --link 1GB/s,1us --every 5")}
    size = 4 * (100 * 101) * 4
    for key, wire, most in ((("dp", False), 3, 5), (("ps", False), 3, 3), (("ps", True), 1.5, 2.75), (("ddp", False), 1.5, 2),
                            (("zero", False), 1.5, 2), (("average", False), 0.3, 2)):  # fmt: skip
        equal((found[key]["wire_bytes"], found[key]["most_bytes"]), (int(wire * size), int(most * size)), key)


def trains(ranks, words, runner=run):
    """Results equal those of one rank with all samples bit for bit, whatever the division."""
    found = rows(f"data_parallel {ranks} --train 12 --servers 1,2 {words}", runner)
    seen = set()
    for r in found:
        if r["strategy"] in SYNCHRONOUS:
            equal((r["wrong"], r["apart"]), (0, 0), r)
            seen.add(r["loss"])
        else:
            equal(r["wrong"], None, r)
    equal(len(seen), 1, "losses of synchronous ways")
    return found, seen.pop()


for number in (1, 2, 3, 5, 7):
    add(f"training on {number} ranks", trains, f"-g {number}", "")
    add(f"training on {number} ranks with batches", trains, f"-g {number}", "--accumulate 3 --server aggregate --samples 100")


@test
def training_does_not_depend_on_ranks():
    losses = {trains(f"-g {n}", f"--accumulate {k}")[1] for n, k in ((1, 1), (3, 1), (4, 2), (2, 5))}
    equal(len(losses), 1, "losses")


@test
def averaging_parameters_is_something_else():
    """Its result differs from that of one rank, more so the rarer it happens."""
    for every in (1, 4, 12):
        found, loss = trains("-g 4", f"--every {every}")
        (r,) = [r for r in found if r["strategy"] == "average"]
        expect(r["apart"] > 0 and r["loss"] != loss, f"the same as averaging gradients: {r}")


@test
def training_over_mpi():
    mpi.need()
    trains("", "", lambda line: mpi.run(3, line))


CODED = "fp32 int8 int8-ef int4 int4-ef fp8 fp8-ef adam onebit-adam zero-one-adam lamb onebit-lamb".split()
FEEDBACK = [name for name in CODED if name.endswith("-ef") or "one" in name]


def learns(ranks, words="", runner=run):
    """By codes: parameters are those of one rank that computes all exchanges; error feedback loses nothing."""
    found = rows(f"data_parallel {ranks} --train 60 --strategy ddp --coded all {words}", runner)
    equal([r["strategy"] for r in found], ["ddp", *CODED], "rows")
    for r in found[1:]:
        equal((r["wrong"], len(r["losses"]), r["apart"]), (0, 60, None), r)
        equal(r["feedback_gap"] is not None, r["strategy"] in FEEDBACK, r)
        expect((r["feedback_gap"] or 0) < 1e-5 and r["loss"] < r["losses"][0] / 2, f"does not learn: {r}")
    return {r["strategy"]: r for r in found[1:]}


for number in (2, 3, 5):
    add(f"coded training on {number} ranks", learns, f"-g {number}", "--samples 67")


@test
def coded_losses():
    """Codes of 8 bits cost nothing visible; 1-bit Adam and Adam part after the warm-up; batches change nothing."""
    found = learns("-g 4")
    for name in ("int8", "int8-ef", "fp8-ef"):
        expect(abs(found[name]["loss"] / found["fp32"]["loss"] - 1) < 0.02, f"{name} learns otherwise")
    one, adam = found["onebit-adam"], found["adam"]
    equal(one["losses"][:13], adam["losses"][:13], "twelve steps of warm-up, a fifth")
    expect(one["losses"][20:] != adam["losses"][20:], "a compressed phase")
    expect(one["wire_bytes"] < 0.3 * adam["wire_bytes"], "bytes")
    # 65 numbers, padded to 96, in 4 chunks with a scale each; the backend chooses how, whatever --algo.
    equal((found["int8"]["wire_bytes"], found["int8"]["algorithm"]), (2 * 3 * (96 // 4 + 4), None), "bytes of int8")
    equal(learns("-g 4", "--algo recursive_doubling")["int8"]["wire_bytes"], found["int8"]["wire_bytes"], "the same")
    for name, r in learns("-g 4", "--accumulate 3").items():
        expect(abs(r["loss"] / found[name]["loss"] - 1) < 1e-3, f"batches of {name}")
    result = run("data_parallel -g 2 --train 60 --strategy ddp --coded onebit-adam,int8").exits(0)
    result.prints("# onebit-adam: loss ", "; feedback: nothing lost beyond", "# int8: loss")
    short = run("data_parallel -g 2 --train 1 --strategy ddp --coded fp32").exits(0).out
    (line,) = (line for line in short.splitlines() if line.startswith("# fp32: "))
    expect("," not in line and "last" not in line, f"one loss: {line}")


@test
def coded_over_mpi():
    mpi.need()
    learns("", "", lambda line: mpi.run(3, line))
    # Two samples leave variances of almost 0: local steps diverge, on all ranks alike.
    words = "--train 300 --samples 2 --seed 4 --strategy ddp --coded zero-one-adam"
    _, r = rows(f"data_parallel {words}", lambda line: mpi.run(2, line))
    equal((r["wrong"], r["loss"], r["losses"][-1], r["losses"][0] > 0), (0, None, None, True), "a training that diverges")


@test
def coded_refusals():
    result = run("data_parallel -g 1 --train 4 --strategy ddp --coded int8,adam").exits(0)
    expect("there is one rank" in result.out and "adam" in result.out, result)
    run("data_parallel -g 2 --coded int8").exits(2).says("--coded", "--train")
    run("data_parallel -g 2 --train 16385 --coded int8").exits(2).says("--train 16385", "at most 16384")
    run("data_parallel -g 2 --train 4 --coded int9").exits(2).says("--coded int9", "int8")
    for rank in (0, 1):
        run(f"data_parallel -g 2 --train 4 --strategy ddp --coded int8,onebit-adam --fault corrupt:{rank}").exits(7)


@test
def corrupt_is_found():
    for rank in (0, 2):
        result = run(f"data_parallel -g 3 --train 4 --strategy ps,ddp,zero --fault corrupt:{rank}").exits(7)
        expect("Wrong data in " in result.out, result)


@test
def measured():
    """All strategies on threads, without a formula if the link is unknown."""
    found = rows("data_parallel -g 3 --model linear:2x50 --step-time 1ms -n 3 --strategy dp,ps,ps_async,ddp,zero,average")
    equal(len(found), 7, "rows")
    for r in found:
        expect(r["step_us"] >= 1000 and r["exposed_us"] >= 0, f"faster than computing: {r}")
        equal((r["predicted_us"], r["port_busy"]), (None, None), r)
    run("data_parallel -g 2 --model linear:2x50 --fault die:1 -T 300").exits(3).says("rank 1")


@test
def best_way():
    out = prose(run(f"{SIM} -g 4 --link 1GB/s,5us --strategy dp,ps,ddp,average").exits(0).out)
    expect(re.search(r"^# Tied strategy to reduce gradients \(equal but for rounding\): ps with a server on every rank or ddp, "
                     r"[\d.]+ ms per batch; next: ps with 2 servers, .*only 2 of its 4 ranks compute$|"
                     r"^# Tied strategy .*; next: dp, [\d.]+% longer: its step waits .* longer for communication$", out, re.M), out)


@test
def sampler():
    out = run("data_parallel --sampler 10 -g 4").exits(0).out
    out = prose(out)
    expect("# 12 places; 10 of 10 samples are in them, 0 are left out; 2 places repeat a sample" in out, out)
    expect("12 of 12: every epoch has the order of the first" in out, out)
    out = prose(run("data_parallel --sampler 10 -g 4 --drop-last --epochs 1").exits(0).out)
    expect("# 8 places; 8 of 10 samples are in them, 2 are left out; 0 places repeat a sample; 0 samples" in out, out)


@test
def refused():
    for line, status, word in (
        ("--strategy dp,pss", 2, "did you mean ps"),
        ("--strategy dp,dp", 2, "twice"),
        ("--strategy dp,", 2, "empty item"),
        ("--servers 0", 2, "--servers 0: out of range"),
        ("--servers 1,x", 2, '"x"'),
        ("--algo ring,tree", 2, "one algorithm"),
        ("--train 5", 2, "--every"),
        ("--train 4 --scale", 2, "--scale"),
        ("--train 4 --samples 1", 2, "fewer than the 2 ranks"),
        ("--samples 5", 2, "--train"),
        ("--drop-last", 2, "--sampler"),
        ("--sampler 5 --train 4", 2, "--train"),
        ("--sampler 5 --json x", 2, "--json"),
        ("--fault corrupt:0", 2, "--train"),
        ("-b 4", 2, "-b"),
        ("--train 4 --backend null", 5, "no data"),
        ("--train 4 --backend sim --link 1GB/s,1us", 5, "no data"),
        ("--model gpt3-175b", 5, "there is room for"),
        ("--strategy ps --colocated off --servers 2", 5, "no rank is left"),
    ):
        result = run(f"data_parallel -g 2 {line}").exits(status)
        expect(word in result.out + result.err, f"{line}: no {word}\n{result}")


@test
def on_gpus():
    """On stand-ins for GPUs: programs that NCCL cannot perform are skipped, and so is arithmetic."""
    result = gpus.run("data_parallel -g 3 --model linear:2x50 --step-time 1ms -n 2").exits(0)
    expect("# skipped: ps_async: the nccl backend cannot receive from any rank" in result.out, result)
    gpus.run("data_parallel -g 2 --train 4").exits(5).says("--train")

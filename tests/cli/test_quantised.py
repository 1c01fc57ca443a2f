"""quantised_all_reduce_perf: gradients as codes, with their bytes, errors and break-even bus bandwidth."""

import gpus
import mpi
from kit import SANITIZERS, Settings, add, equal, execute, built, expect, run, test

ALL = "--coding all --scheme all --node-ranks 2 -n 1 -w 0 -b 4000 -e 4000"
SCHEMES = ("alltoall", "ring", "allgather", "two-hops")


def rows(result):
    """{(coding, scheme): record} of a run with one size."""
    return {(r["coding"], r["scheme"]): r for r in result.exits(0).records() if r["kind"] == "quantised"}


def check(found, codings=14):
    equal(len(found), codings * len(SCHEMES), "rows")
    for r in found.values():
        equal((r["wrong"], r["sent_bytes"]), (0, r["formula_bytes"]), r)
        rate, here = r["break_even_GBps"], r["plain_GBps"]
        expect(rate is None or (rate > here) == (r["speedup"] > 1), r)
        expect(0 < r["rms_error"] <= r["max_error"] and 0 <= r["balance_error"] < 1e-5, r)
        expect(all(r[key] > 0 for key in ("plain_us", "coded_us", "coding_us", "exchange_us", "speedup", "busbw_GBps")), r)


def on_threads(ranks, options):
    check(rows(run(f"quantised_all_reduce -g {ranks} {ALL} {options} --json -")))


add("4 ranks", on_threads, 4, "")
add("6 ranks, errors kept", on_threads, 6, "--error-feedback on")
add("4 ranks, a scale for all", on_threads, 4, "--block 0 --error-feedback on -d half")


@test
def over_mpi():
    mpi.need()
    check(rows(mpi.run(4, f"quantised_all_reduce {ALL} --coding int8,sign --error-feedback on --json -")), 2)


@test
def over_gloo():
    """A rank is a thread here, too."""
    result = run(f"quantised_all_reduce --backend gloo -t 4 {ALL} --coding int8,sign --error-feedback on --json -")
    if result.code == 3 and "gloo" in result.err:
        return
    check(rows(result), 2)


@test
def on_gpus():
    gpus.run("quantised_all_reduce --backend nccl -g 2 -b 4K -e 4K").exits(5).says("the CPU codes the numbers", "--backend host")


def sanitized(variant):
    line = f"quantised_all_reduce -g 4 {ALL} --error-feedback on --json -"
    check(rows(run(line, SANITIZERS[variant], variant)))


for variant in Settings.variants:
    add(f"verified ({variant})", sanitized, variant)


def bytes_of(line, count):
    out = run(f"quantised_all_reduce --backend sim --memory-rate 1TB/s --link 10GB/s,1us -b {4 * count} -e {4 * count} {line} --json -")
    (r,) = rows(out).values()
    equal(r["sent_bytes"], r["formula_bytes"], "counted")
    return r["padded"], r["sent_bytes"]


@test
def sign_bytes():
    """1-bit Adam: 1/16 of what a ring of fp16 sends, padded, with its scales."""
    for count, ranks, padded, wanted in ((335141888, 64, 335142912, 82477080), (335141888, 8, 335141888, 73312344),
                                         (1000, 4, 1024, 216), (1000, 6, 1008, 250), (25557032, 16, 25557248, 5990100)):  # fmt: skip
        equal(bytes_of(f"-g {ranks} --coding sign", count), (padded, wanted), f"{count} on {ranks}")


@test
def two_hops_bytes():
    """qgZ, and the gather of the mean behind it."""
    gather = 31 * (2**24 // 32 // 2 + 4 * 128)
    wanted = 7340032 + 14336 + 786432 + 1536 + gather
    equal(bytes_of("-g 32 --coding ds-int4 --scheme two-hops --node-ranks 8", 2**24)[1], wanted, "4096 x 4096")


@test
def on_a_cluster():
    """Nodes are those of the cluster; a step is its coding and its exchange, and coding takes its bytes at the rate of memory."""
    line = "quantised_all_reduce --backend sim --cluster hgx-h100:2 -g 16 -b 16M -e 16M --coding int8 --block 0"
    found = rows(run(f"{line} --scheme alltoall,two-hops --memory-rate 1TB/s --json -"))
    for r in found.values():
        expect(abs(r["coded_us"] / (r["coding_us"] + r["exchange_us"]) - 1) < 1e-6, r)
        equal((r["wrong"], r["rms_error"], r["balance_error"]), (None,) * 3, "no data")
    r = found["int8", "alltoall"]
    count, chunk = 2**22, 2**18
    # Code all; read all codes and write a chunk's sum; code it; read all codes and write all numbers.
    traffic = 5 * count + count + 4 * chunk + 5 * chunk + 5 * count + 3 * 64 + 4
    expect(abs(r["coding_us"] - traffic / 1e6) < 1e-3, f"{r['coding_us']} us, not {traffic / 1e6}")
    equal(found["int8", "two-hops"]["node_ranks"], 8, "ranks of a node")
    there = rows(run(f"{line} --json -"))["int8", "alltoall"]["coding_us"]
    expect(abs(r["coding_us"] / there - 3.35) < 1e-3, "the memory of an H100 has 3.35 TB/s")


@test
def break_even():
    """Codes pay on links that are slower, and cost on links that are faster, than the break-even rate."""
    line = "quantised_all_reduce --backend sim -g 4 -b 64M -e 64M --memory-rate 20GB/s --json - --link"
    first = rows(run(f"{line} 1GB/s,0us,port --coding int8,sign --scheme alltoall,ring"))
    for (coding, scheme), r in first.items():
        expect(abs(r["break_even_GBps"] / r["model_break_even_GBps"] - 1) < 0.02, r)
        for factor in (0.9, 1.1):
            rate = f"{factor * r['break_even_GBps']:.3f}GB/s,0us,port --coding {coding} --scheme {scheme}"
            (there,) = rows(run(f"{line} {rate}")).values()
            equal(there["speedup"] > 1, factor < 1, f"{coding} by {scheme} at {factor} times the rate")
    (r,) = rows(run("quantised_all_reduce --backend sim -g 16 --memory-rate 1TB/s --link 1GB/s,0us,port --coding int8 --scheme allgather --json -")).values()
    equal((r["break_even_GBps"], r["model_break_even_GBps"]), (None, None), "it sends twice the bytes")
    run("quantised_all_reduce --backend sim -g 16 --memory-rate 1TB/s --link 1GB/s,0us,port --coding int8 --scheme allgather").prints("int8 by allgather never pays: its exchange alone takes")


@test
def the_best_and_the_skipped():
    """The answer has the plain all-reduce, too; a scheme is skipped once for all codings and sizes."""
    out = run("quantised_all_reduce -g 4 -n 3 -b 1K -e 4K -f 4 --coding int8,sign --scheme ring,two-hops").exits(0)
    out.prints("all-reduce of 4K", "plain all-reduce of float", "1 case was skipped")
    equal(out.out.count("# skipped: two-hops: "), 1, "skipped")


@test
def errors_of_schemes():
    """A ring codes each partial sum again; PyTorch's all-gather codes each number once."""
    out = run("quantised_all_reduce -g 8 -n 1 -b 256K -e 256K --coding ds-int8,ds-int4,fp8-e4m3,fp8-e5m2 --scheme all --node-ranks 4 --json -")
    found = rows(out)
    rms = lambda coding, scheme: found[coding, scheme]["rms_error"]
    for coding in ("ds-int8", "ds-int4"):
        expect(rms(coding, "allgather") < rms(coding, "alltoall") < rms(coding, "ring"), coding)
        expect(rms(coding, "alltoall") < rms(coding, "two-hops"), coding)
    expect(rms("fp8-e4m3", "alltoall") < rms("fp8-e5m2", "alltoall"), "a bit less of mantissa")


@test
def what_is_wrong_is_found():
    line = "quantised_all_reduce -g 3 -n 1 -b 4K -e 4K --coding int8 --fault corrupt:2"
    for options, wrong in (("", 1), ("--error-feedback on", 2)):
        (r,) = [r for r in run(f"{line} {options} --json -").exits(7).records() if r["kind"] == "quantised"]
        equal(r["wrong"], wrong, options)


@test
def refusals():
    for line, words in (
        ("--block 12", "a multiple of 8"),
        ("-b 3 -e 64", "an fp32 number has 4 bytes"),
        ("--coding int9", "did you mean int8"),
        ("--scheme tree", "allgather"),
        ("--backend sim --link 1GB/s", "--memory-rate: missing"),
    ):
        execute([built("quantised_all_reduce_perf"), *line.split()]).exits(2).says(words)
    execute([built("quantised_all_reduce_perf"), *"-g 4 --node-ranks 2 --scheme ring".split()]).exits(2).says("--node-ranks 2 needs --scheme two-hops")
    run("quantised_all_reduce -g 1").exits(5).says("there is one rank")
    run("quantised_all_reduce -g 4 --scheme two-hops").exits(5).says("at least 2 nodes", "--node-ranks")
    run("quantised_all_reduce -g 4 -b 1T -e 1T").exits(5).says("-e 1T", "give less")

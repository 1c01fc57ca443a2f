"""barrier_perf: barriers of the backend itself and all-reduces of 8 bytes."""


import gpus
import mpi
from kit import equal, expect, run, test

SCHEDULES = "ring tree recursive_doubling halving_doubling linear naive reduce+broadcast reduce_scatter+all_gather".split()


def barriers(result, *codes):
    """{requested algorithm: record}; None if skipped."""
    found = result.exits(*(codes or (0,))).records()
    return {r.get("algorithm_asked", r.get("algorithm")): r if r["kind"] == "barrier" else None
            for r in found if r["kind"] in ("barrier", "skip")}  # fmt: skip


def check(found, ranks, samples, wrong=0):
    """All kinds have ordered times, and those with data the right sums."""
    equal(list(found), ["barrier", "auto", *SCHEDULES], "barriers")
    for name, r in found.items():
        equal((r["nranks"], r["samples"]), (ranks, samples), name)
        equal(r["wrong"], None if name == "barrier" else wrong, f"{name}: wrong")
        times = [r[f"{k}_us"] for k in ("min", "p50", "p95", "p99")]
        expect(times[0] > 0 and times == sorted(times), f"{name}: {times}")


@test(cores=2)
def on_threads():
    for ranks in (1, 2, 5):
        check(barriers(run(f"barrier -g {ranks} -n 20 --json -")), ranks, 20)


@test
def in_processes():
    mpi.need()
    found = barriers(mpi.run(3, "barrier -n 20 --json -"))
    equal(found["auto"]["algorithm"], "native", "the library's choice")
    check(found, 3, 20)


@test
def on_gpus():
    found = barriers(gpus.run("barrier --backend nccl -g 3 -n 5 --json -"))
    equal(found["auto"]["algorithm"], "auto", "the library's choice")
    check(found, 3, 5)


@test
def on_null():
    check(barriers(run("barrier --backend null -g 4 -n 20 --json -")), 4, 20, wrong=None)


@test
def in_virtual_time():
    """A barrier takes one latency of the link for each message of 8 bytes that waits for the previous one."""
    found = barriers(run("barrier --backend sim -g 8 --link 1000TB/s,5us --json -"))
    equal(found.pop("barrier"), None, "clocks that meet")
    for name, rounds in {"ring": 14, "tree": 6, "recursive_doubling": 3, "halving_doubling": 6}.items():
        r = found[name]
        for key in ("min", "p50", "p99"):
            expect(abs(r[f"{key}_us"] - 5 * rounds) < 1e-3, f"{name}: {key} {r[f'{key}_us']}, not {rounds} latencies")
    run("barrier --backend sim -g 2 --link 25GB/s,5us --algo barrier").exits(5).says("none of the barriers")


@test
def others_than_the_library_are_measured():
    """Of AMD's library there is no model: barriers by schedules are simulated all the same."""
    found = barriers(run("barrier --backend sim --cluster mi300x-x8:1 -n 10 --json -"), 5)
    equal([name for name, r in found.items() if r], SCHEDULES, "measured")


@test(cores=2)
def wrong_sums_are_found():
    found = barriers(run("barrier -g 3 -n 5 --algo auto,ring --fault corrupt:1 --json -"), 7)
    equal([r["wrong"] for r in found.values()], [1, 1], "wrong")


@test(cores=2)
def precision_repeats_rounds():
    """At least -n barriers, until the median is precise enough or there is no room for more than 20,000."""
    r = barriers(run("barrier -g 2 -n 40 --algo barrier --precision 0.001% --json -"))["barrier"]
    expect(40 <= r["samples"] <= 20100, r)
    # In virtual time, as the load of a machine may widen the interval by its last sample.
    r = barriers(run("barrier -g 2 -n 20 --algo ring --backend sim --link 1GB/s,1ms --noise 50% --precision 5% --json -"))["ring"]
    precise = (r["ci_high_us"] - r["ci_low_us"]) / 2 <= 0.05 * r["p50_us"]
    expect(20 < r["samples"] < 20000 and precise, r)


@test
def sizes_are_refused():
    run("barrier -g 2 -b 8").exits(2).says("a barrier has no size")

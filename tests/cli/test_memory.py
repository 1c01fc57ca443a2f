"""mem_bandwidth_perf: what it measures, counts and verifies."""


import gpus
from kit import equal, expect, run, test

SMALL = "-b 64K -e 64K -n 4"


def records(result, codes=(0,)):
    return result.exits(*codes).by_kind()


def check_numbers(record, counts):
    """Counted bytes over the time of the median iteration."""
    expect(record["low_GBps"] <= record["GBps"] <= record["high_GBps"], f"quartiles {record}")
    bytes_ = record["GBps"] * record["p50_us"] * 1e3
    share = record["size_bytes"] // record["workers"] // 256 * 256
    expect(abs(bytes_ / (counts * share * record["workers"]) - 1) < 1e-6, f"bytes of {record}")


@test
def every_work_on_the_host():
    """By all ranks of a node and by one; written data is verified."""
    found = records(run(f"mem_bandwidth -g 2 {SMALL} --json -"))
    got = {(r["route"], r["workers"]): r for r in found["pair"]}
    works = {"read": 1, "write": 1, "copy": 2, "triad": 3}
    # Ranks may live on two nodes.
    expect({("latency", 1)} | {(work, 1) for work in works} <= set(got), f"works {sorted(got)}")
    for (work, _), r in got.items():
        equal(r["ends"], "memory", "ends")
        expect(r["place"].startswith("node "), f"place {r}")
        if work == "latency":
            expect(0 < r["p50_us"] <= r["p99_us"] and r["GBps"] is None and r["wrong"] is None, f"latency {r}")
            continue
        check_numbers(r, works[work])
        equal(r["wrong"], None if work == "read" else 0, f"verified {work}")
        equal((r["memory_from"] is None, r["memory_to"] is None), (work == "write", work == "read"), work)
    equal(found["end"][0]["results"], len(found["pair"]), "results")


@test
def choices():
    for words, works in (("copy", {"copy"}), ("read,latency", {"read", "latency"})):
        got = {r["route"] for r in records(run(f"mem_bandwidth -g 2 {SMALL} --work {words} --json -"))["pair"]}
        equal(got, works, f"--work {words}")
    got = {r["workers"] for r in records(run(f"mem_bandwidth -g 2 {SMALL} --work copy --workers one --json -"))["pair"]}
    equal(got, {1}, "--workers one")
    sizes = [r["size_bytes"] for r in records(run("mem_bandwidth -g 1 -b 1K -e 64K -f 8 --work read --workers one "
                                                  "--json -"))["pair"]]
    equal(sizes, [1024, 8192, 65536], "sizes")


@test
def bad_words():
    run("mem_bandwidth --work raed").exits(2).says("--work raed: not a valid choice (did you mean read?)")
    run("mem_bandwidth --work ,").exits(2).says("the list has an empty item")
    run("mem_bandwidth --workers two").exits(2).says("two")
    run("mem_bandwidth -g 1 --work kernel-copy -b 64K -e 64K").exits(5).says("no such case")
    run("mem_bandwidth --backend null").exits(5).says("the null backend has no memory to work on")
    run("mem_bandwidth -n 1000000").exits(2).says("from 1 to 100000")


@test
def too_much_memory():
    run("mem_bandwidth -g 1 -b 1K -e 1T -f 1073741824 -n 2 --work copy").exits(0).prints(
        "# skipped: copy 1099511627776 B: its arrays do not fit")
    run("mem_bandwidth -g 1 -b 1T -e 1T -n 2 --work copy").exits(5).prints("# skipped: copy")


@test
def wrong_data_is_found():
    found = records(run(f"mem_bandwidth -g 2 {SMALL} --fault corrupt:0 --json -"), (7,))
    wrong = {r["route"] for r in found["pair"] if r["wrong"]}
    equal(wrong, {"write", "copy", "triad"}, "where wrong data is found")
    equal(found["end"][0]["verdict"], "wrong data", "verdict")


@test
def a_dead_rank_ends_the_run():
    for r in records(run(f"mem_bandwidth -g 2 {SMALL} --work read --fault slow:1:2ms --json -"))["pair"]:
        expect(r["min_us"] >= 2000 if r["workers"] == 2 else r["min_us"] > 0, f"not slow: {r}")
    run(f"mem_bandwidth -g 2 {SMALL} --fault die:1 -T 300").exits(3).says("rank 1 ended before the run was over")


@test
def gpus_copy_to_and_from_the_host():
    """Device-local, host to device, device to host, and both at once, on two GPUs."""
    found = records(gpus.run(f"mem_bandwidth -g 2 {SMALL} --json -"))
    got = {(r["place"], r["route"], r["memory_from"], r["memory_to"]) for r in found["pair"]}
    for gpu in ("GPU 0", "GPU 1"):
        expect((gpu, "copy", "device", "device") in got, "device-local")
        expect((gpu, "copy", "host", "device") in got, "host to device")
        expect((gpu, "copy", "device", "host") in got, "device to host")
        expect((gpu, "both", "host", "device") in got, "both at once")
        for ends in (("pageable", "device"), ("device", "pageable")):
            expect((gpu, "copy", *ends) in got, f"from {ends[0]} to {ends[1]}")
        expect((gpu, "both", "pageable", "device") in got, "both at once, pageable")
        expect((gpu, "both", "pageable", "host") not in got, "what is the host's own affair")
        for space in ("device", "host"):
            expect((gpu, "latency", space, None) in got, f"latency of {space}")
    for r in found["pair"]:
        if r["route"] == "copy":
            check_numbers(r, 2 if r["memory_from"] == r["memory_to"] else 1)
        expect(not r["wrong"], f"wrong data {r}")
    text = gpus.run(f"mem_bandwidth -g 2 {SMALL} --work copy").exits(0).out
    expect("host -> device" in text and "# copy, GB/s, one rank at once, 64K" in text, text)


@test
def all_gpus_at_once():
    """All GPUs of the host to it, from it, and both; each moves its part, and the slowest counts."""
    line = "mem_bandwidth -g 4 -b 4K -e 4K -n 2 --json - --work"
    found = records(gpus.run(f"{line} copy,latency"))["pair"]
    got = {(r["place"], r["workers"], r["route"], r["memory_from"], r["memory_to"]) for r in found}
    for place in (("GPUs", 4), ("GPU 0", 1), ("GPU 3", 1)):
        expect((*place, "both", "host", "device") in got, f"both ways of {place}")
        for ends in (("host", "device"), ("device", "host"), ("device", "device")):
            expect((*place, "copy", *ends) in got, f"{ends} of {place}")
    equal({r["place"] for r in found if r["route"] == "latency"}, {f"GPU {i}" for i in range(4)}, "latency")
    for r in found:
        expect(not r["wrong"], f"wrong data {r}")
        if r["route"] == "copy":
            check_numbers(r, 2 if r["memory_from"] == r["memory_to"] else 1)
    for words, workers in (("copy --workers one", 1), ("kernel-copy --workers all -n 1 -w 0", 4)):
        rows = records(gpus.run(f"{line} {words}"))["pair"]
        equal({r["workers"] for r in rows}, {workers}, words)
    rows = records(gpus.run(f"{line} copy --workers all -g 1"))["pair"]
    equal({(r["place"], r["workers"]) for r in rows}, {("GPU 0", 1)}, "a GPU alone")


@test
def one_gpu_of_all_goes_wrong():
    line = "mem_bandwidth -g 3 -b 4K -e 4K -n 1 -w 0 --work copy --workers all --json - --fault"
    slow = records(gpus.run(f"{line} slow:2:2ms"))["pair"]
    expect(all(r["min_us"] * r["repeats"] >= 2000 for r in slow), "the slowest GPU does not count")
    wrong = records(gpus.run(f"{line} corrupt:1"), (7,))["pair"]
    expect(all(r["wrong"] > 0 for r in wrong), "not seen")

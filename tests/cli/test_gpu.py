"""The nccl backend from the command line, on stand-ins for GPUs (tests/fake)."""

import csv
import json
import os
import re
import tempfile

import gpus
import kit
from kit import COLLECTIVES, LONG, SANITIZERS, Result, Settings, add, equal, expect, listing, test

RANKS = (1, 2, 3, 4, 7, 8)
HYPERCUBE_RANKS = (1, 2, 4, 8)
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
ROOTED = ("broadcast", "reduce", "gather", "scatter")

# The stand-in for NCCL is a node without NVSwitches and without a reducing network.
RING = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
HAS = {"ring": RING, "tree": ("all_reduce",), "pat": ("all_gather", "reduce_scatter")}
NAMED = ("ring", "tree", "collnet", "nvls", "nvlstree", "pat")


def sentences(result):
    """Text on stderr, except about memory that stays until the process ends after a failure."""
    stays = r"fake: not let go: \d+ blocks of memory, $"
    return [text for text in result.err.splitlines() if not re.match(stays, text)]


def records(line, env=None):
    """The record of the run, those of its results, which must all be right, and the others."""
    result = gpus.right(gpus.run(line + " --json -", env))
    found = result.records()
    results = [r for r in found if r["kind"] == "result"]
    result.require(results and all(r["wrong"] == 0 for r in results), "wrong or no results")
    return found[0], results, [r for r in found[1:] if r["kind"] != "result"]


# ---- every collective, every algorithm ---------------------------------------------------------


def everything(name, n):
    """NCCL's algorithms and busbench's, at sizes that the ranks do not divide or below n."""
    result = gpus.passes(f"{name} --algo all -g {n} -b 1 -e 90000 -f 300 -n 2 -w 0")
    ran = {row.algorithm for row in result.rows()}
    wanted = {"auto"} | {way for way, names in HAS.items() if name in names}
    result.require(ran >= wanted, f"only {sorted(ran)} ran")
    for row in result.rows():
        result.require(row.dtype == "float" and row.op == ("sum" if name in REDUCING else "none"), str(row.words))


def named(name, n):
    """If NCCL lacks an algorithm, busbench's schedule of that name runs under its own name; others are skipped."""
    own = listing()[0][name]
    schedules = [a for a in own if a not in ("auto", "direct")]
    algorithms = ",".join([*NAMED, *(f"busbench:{a}" for a in schedules), "auto"])
    run, results, others = records(f"{name} --algo {algorithms} -g {n} -b 100 -e 3000 -f 30 -n 2")
    equal((run["backend"], run["backend_reason"]), ("nccl", "there are GPUs"), "backend, reason")
    expect(run["library"].startswith("NCCL 2."), f"library {run['library']}")
    pairs = {(r["algorithm_asked"], r["algorithm"]) for r in results}
    skipped = {r["algorithm"] for r in others if r["kind"] == "skip"}
    for way in NAMED:
        if name in HAS.get(way, ()):
            expect((way, way) in pairs, f"{way}: {pairs}")
        elif way in schedules:
            expect((f"busbench:{way}",) * 2 in pairs, f"{way}: {pairs}")
        else:
            expect(way in skipped, f"{way} ran: {pairs}")
    # Names of NCCL are distinguished; one that no number of ranks allows is skipped.
    for way in schedules:
        whose = f"busbench:{way}" if way in NAMED else way
        expect((whose, whose) in pairs or (whose in skipped and n & (n - 1)), f"{whose}: {pairs}")
    expect(name == "hypercube" or ("auto", "auto") in pairs, f"auto: {pairs}")


for name in COLLECTIVES:
    for n in HYPERCUBE_RANKS if name == "hypercube" else RANKS:
        add(f"{name} -g {n}", everything, name, n, full=n != (4 if name == "hypercube" else 3))
    add(f"{name} by name", named, name, 4, full=name not in ("all_reduce", "all_gather", "hypercube"))
for name in REDUCING:
    line = f"{name} --algo ring,busbench:tree,auto -d all -o all -g 3 -b 1000 -e 1000 -n 1"
    add(f"{name} -d all -o all", gpus.passes, line, full=name != "all_reduce")
for name in sorted(set(COLLECTIVES) - set(REDUCING)):
    add(f"{name} -d all", gpus.passes, f"{name} --algo all -d all -g 4 -b 1000 -e 1000 -n 1", full=name != "sendrecv")
for name in ROOTED:
    line = f"{name} --algo all -r all -g 3 -b 1000 -e 1000 -n 1"
    add(f"{name} -r all", gpus.passes, line, full=name != "gather")


@test
def stands_in():
    """NCCL's ring does not support bxor: one line says so, and the records name what ran."""
    line = "all_reduce -g 3 -b 40 -e 4000 -f 10 -n 2 -d int32 -o bxor,sum --algo ring,auto"
    result = gpus.passes(line)
    said = [text for text in result.out.splitlines() if "busbench:ring runs, because NCCL has no" in text]
    equal(said[0].split(":")[0], "# ring int32 bxor", "the line")
    equal(len(said), 1, "lines")
    for r in records(line)[1]:
        wanted = {("ring", "sum"): "ring", ("ring", "bxor"): "busbench:ring", ("auto", "sum"): "auto"}
        if (r["algorithm_asked"], r["op"]) in wanted:
            equal(r["algorithm"], wanted[r["algorithm_asked"], r["op"]], "algorithm")
        else:
            expect(r["algorithm"] in listing()[0]["all_reduce"], f"auto ran {r['algorithm']}")


@test
def compares():
    """Ring, tree and the library's choice side by side in one run."""
    result = gpus.passes("all_reduce -g 4 -b 1K -e 64K -f 8 -n 3 --algo ring,tree,auto")
    equal([row.algorithm for row in result.rows()], ["ring"] * 3 + ["tree"] * 3 + ["auto"] * 3, "algorithms")
    result.prints("# Backend nccl was chosen: there are GPUs", "# Comparison of all_reduce float sum")
    ranks = re.findall(r"^#\s+Rank\s+(\d) .* device\s+(\d) \[0000:(..):00\] Fake GPU", result.out, re.M)
    equal([r[:2] for r in ranks], [(str(r), str(r)) for r in range(4)], "ranks and devices")
    equal(len({r[2] for r in ranks}), 4, "different places")


@test
def protocols():
    _, results, _ = records("all_reduce -g 3 -b 4K -e 4K -n 2 --algo ring,tree,auto --proto LL,simple")
    asked = [r["algorithm_asked"] for r in results if not r["in_place"]]
    equal(asked, [f"{a}:{p}" for a in ("ring", "tree", "auto") for p in ("LL", "Simple")], "algorithms")
    gpus.run("all_reduce --proto LL129").exits(2).says("LL129", "LL128")
    gpus.run("all_reduce --proto LL --algo all").exits(2).says("all", "plain names")
    gpus.run("broadcast -g 2 -b 8 -e 8 --proto LL --algo tree").exits(5).says("tree:LL", "no such algorithm")


@test
def lacks_algorithms():
    """Whatever error reports a missing algorithm, it is skipped and the others run."""
    line = "all_reduce -g 3 -b 4K -e 4K -n 2 --algo nvls,ring"
    for env in ({}, {"BUSBENCH_FAKE_INTERNAL": "1"}):
        _, results, others = records(line, env)
        equal({r["algorithm"] for r in results}, {"ring"}, "ran")
        reasons = {r["algorithm"]: r["reason"] for r in others if r["kind"] == "skip"}
        expect("No algorithm/protocol" in reasons["nvls"], f"{reasons}")


@test
def falls_back():
    """Before 2.24 NCCL silently ran a ring instead, so only ring, and tree of all_reduce, can be forced there."""
    lax = {"BUSBENCH_FAKE_LAX": "1"}
    line = "all_reduce -g 3 -b 4K -e 4K -n 2 --algo nvls,tree,ring,ring:LL,auto"
    _, results, others = records(line, {**lax, "BUSBENCH_FAKE_VERSION": "22304"})
    equal({r["algorithm"] for r in results}, {"tree", "ring", "ring:LL", "auto"}, "ran")
    reasons = {r["algorithm"]: r["reason"] for r in others if r["kind"] == "skip"}
    expect("before 2.24" in reasons["nvls"], f"{reasons}")


@test
def strays():
    """What NCCL reports to be another algorithm than the forced one is no result of that one."""
    for env, reason in (({"BUSBENCH_FAKE_LAX": "1"}, "the library ran ring:LL instead"),
                        ({"BUSBENCH_FAKE_STRAY": "1"}, "the library ran nvls:Simple instead")):  # fmt: skip
        forced = "nvls" if "BUSBENCH_FAKE_LAX" in env else "ring"
        line = f"all_gather -g 3 -b 4K -e 4K -n 2 --algo {forced}"
        _, results, others = records(line + ",auto", env)
        equal({r["algorithm"] for r in results}, {"auto"}, "ran")
        equal({r["reason"] for r in others if r["kind"] == "skip"}, {reason}, "reasons")
        gpus.run(line + " --backend nccl", env).exits(5).prints(reason)
    named = "all_gather -g 3 -b 4K -e 4M -f 1024 -n 2 --algo ring,auto --proto LL,Simple"
    for right in (named, "all_gather -g 3 -b 4K -e 4K -n 2 --algo pat"):
        _, results, others = records(right)
        expect(results and not any("instead" in (r.get("reason") or "") for r in others), f"{others}")


@test
def warms_up_what_is_timed():
    """Under -m the first operations of a communicator are as many as those that are timed."""
    for flags in ("-m 4", "-m 4 -G 2", ""):
        gpus.passes(f"all_reduce -g 2 -b 4K -e 4K -n 2 -w 1 {flags}", {"BUSBENCH_FAKE_GROUPS": "1"})


@test
def configures_as_nccl_tests():
    """Blocks are scheduled for NVLink; sendrecv tells its two peers, where the headers have that; -x sets the policy."""
    policies = {"all_reduce": "", "sendrecv": "", "all_gather -x 1": " CTAPolicy=1", "alltoall -x 2 -R 2": " CTAPolicy=2"}
    for line, policy in policies.items():
        err = gpus.run(f"{line} -g 2 -b 4K -e 4K -n 1", {"BUSBENCH_FAKE_CONFIG": "1"}).exits(0).err
        told = f"fake: communicator by one ID with nvlinkCentricSched=1{policy}"
        expect(err in (f"{told}\n", f"{told}{' maxP2pPeers=2' if line == 'sendrecv' else ''}\n"), err)


@test
def divides_the_start():
    """The communicator of all ranks and its split are timed apart, in a line and in the run's record."""
    parts = ("connect_ms", "open_ms", "attach_ms", "world_ms")
    for env in ({}, {"NCCL_TESTS_SPLIT": "MOD 2"}):
        run = records("all_reduce -g 4 -b 4K -e 4K -n 1", env)[0]
        split = run["split_ms"]
        expect((split is not None) == bool(env) and (split is None or split > 0), f"split_ms {split}")
        expect(all(run[p] >= 0 for p in parts) and run["world_ms"] > 0, f"{[run[p] for p in parts]}")
        expect(sum(run[p] for p in parts) + (split or 0) <= run["init_ms"], "the parts exceed the whole")
        result = gpus.passes("all_reduce -g 4 -b 4K -e 4K -n 1", env)
        line = re.search(r"^# Start-up .* communicator [\d.]+(, its split [\d.]+)?, rest [\d.]+$", result.out, re.M)
        expect(line and bool(line[1]) == bool(env), result.out)


def makes_communicators(ranks, env, how):
    """How many communicators are made, each by its first rank's report."""
    made = gpus.run(f"all_reduce -g {ranks} -b 4K -e 4K -n 1", {"BUSBENCH_FAKE_CONFIG": "1", **env}).exits(0).right()
    equal(re.findall(r"^fake: communicator by (.*) with", made.err, re.M), how, "communicators")


SPLIT = {"NCCL_TESTS_SPLIT": "MOD 2"}
add("one ID", makes_communicators, 8, {}, ["one ID"])
add("a split world", makes_communicators, 5, SPLIT, ["one ID", "split"])
add("several IDs", makes_communicators, 8, {"TORCH_NCCL_RANKS_PER_ROOT": "3"}, ["3 IDs"])
add("an ID for each rank", makes_communicators, 5, {**SPLIT, "TORCH_NCCL_RANKS_PER_ROOT": "1"}, ["5 IDs", "split"])
add("several IDs in an old NCCL", makes_communicators, 4,
    {"TORCH_NCCL_RANKS_PER_ROOT": "3", "BUSBENCH_FAKE_VERSION": "22203"}, ["one ID"])


@test
def wrong_number_of_ranks_per_root():
    for value in ("0", "3x", "-1", "99999999999"):
        result = gpus.run("all_reduce -g 2 -b 8 -e 8 --backend nccl", {"TORCH_NCCL_RANKS_PER_ROOT": value})
        result.exits(2).says(f"TORCH_NCCL_RANKS_PER_ROOT={value}", "from 1 on")


@test
def parts_of_gpus():
    """Under MIG parts of a GPU are GPUs of their own to NCCL from 2.30.7 on, and reach no memory of each other."""
    mig = {"BUSBENCH_FAKE_MIG": "2"}
    gpus.passes("all_reduce -g 4 -b 4K -e 4K -n 2", {**mig, "BUSBENCH_FAKE_VERSION": "23007"})
    old = gpus.run("all_reduce -g 4 -b 4K -e 4K -n 2", {**mig, "BUSBENCH_FAKE_VERSION": "23004"})
    old.exits(2).says("4 GPUs are requested", "its processes see 2", "MIG")
    line = "p2p_bandwidth -g 2 -b 4K -e 4K -n 2 --backend nccl --json -"
    result = gpus.run(line, {**mig, "BUSBENCH_FAKE_VERSION": "23007"}).exits(0)
    skips = result.records("skip")
    expect(any("(MIG)" in r["reason"] for r in skips), f"{skips}")


@test
def copies_are_timed_by_events():
    """The speed of copies is that between the device's events; launches are no part of it."""
    line = "all_reduce -g 1 -b 4K -e 4K -n 1 --backend nccl"
    gpus.passes(line)
    gpus.run(line, {"BUSBENCH_FAKE_FAIL": "cudaEventElapsedTime:1"}).exits(3).says("cudaEventElapsedTime failed")


@test
def stuck_in_the_library():
    """A communicator that never comes about ends the run within its time limit."""
    result = gpus.run("all_reduce -g 2 -b 8 -e 8 -T 2 --backend nccl", {"BUSBENCH_FAKE_STUCK": "1"})
    result.exits(4).says("start-up did not end within 2.00 s (-T)")


@test
def shared_gpus_load_eagerly():
    """Kernels of ranks that share a context are loaded before any of them waits for another."""
    shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "BUSBENCH_FAKE_GPUS": "2"}
    gpus.passes("all_reduce -g 4 -b 4K -e 4K -n 2", shared)


def with_nvml(words):
    """What the driver would say (tests/topology/nvml.c)."""
    return {"LD_LIBRARY_PATH": os.path.join(kit.Settings.build, "tests", "nvml"), "FAKE_NVML": words}


@test
def tells_why_gpus_are_slow():
    """A record of each GPU with what its driver counted, and a mark on rows during which it lowered a clock."""
    line = "all_reduce -g 2 -b 4K -e 4K -n 2"
    _, results, others = records(line, with_nvml("gpus=2 sm=90 switch=18 ecc=3 throttle=2"))
    found = {r["rank"]: r for r in others if r["kind"] == "gpu"}
    equal(sorted(found), [0, 1], "GPUs")
    for r in found.values():
        told = (r["driver"], r["sm_MHz"], r["sm_most_MHz"], r["power_cap_W"], r["ecc_corrected"], r["nvlink_errors_before"])
        equal(told, ("580.65.06", 1410, 1980, 500, 3, 18), f"{r}")
        equal((r["mig"], r["rows_remapped"]), (None, None), "what the driver does not say")
    expect(found[0]["power_throttled_us"] > found[0]["power_throttled_us_before"], f"{found[0]}")
    equal({r["throttled"] for r in results}, {"power"}, "rows of a throttled GPU")
    out = gpus.passes(line, with_nvml("gpus=2 sm=90 throttle=2")).out
    equal(out.count("# Warning: the driver lowered the clock of a GPU"), 1, out)
    _, results, others = records(line, with_nvml("gpus=2 sm=90"))
    equal({r["throttled"] for r in results}, {None}, "rows of healthy GPUs")
    _, results, others = records(line)
    equal([r for r in others if r["kind"] == "gpu"], [], "without the driver's library")


@test
def tells_the_environment_of_nccl():
    """All that the user has set for NCCL, and nothing else of the environment."""
    run, _, _ = records("all_reduce -g 2 -b 4K -e 4K -n 1", {"NCCL_DEBUG": "WARN", "NCCL_ALGO": "Ring"})
    equal(sorted(run["nccl_environment"]), ["NCCL_ALGO=Ring", "NCCL_DEBUG=WARN"], "NCCL's variables")


@test
def begins_at_pages():
    """Buffers begin at multiples of 4 KiB, out of place and in place, whatever their size and whatever lies before."""
    aligned = {"BUSBENCH_FAKE_ALIGNED": "4096"}
    gpus.passes("all_reduce -g 2 -b 4 -e 3M -f 37 -n 4", aligned)
    gpus.passes("all_reduce -g 3 -b 1000 -e 100000 -f 10 -n 2 --algo busbench:ring,auto", aligned)
    result = gpus.run("all_reduce -g 2 -b 4K -e 4K -n 2 -u 1", {"BUSBENCH_FAKE_LEAKS": "1", **aligned}).exits(0)
    expect("fake: ncclAllReduce of 1024 elements from" in result.err, result.err)


@test
def registers_what_it_can():
    """The record says what -R came to, by what the library returns."""
    old = {"BUSBENCH_FAKE_VERSION": "22707"}
    for flags, env, version, used in (
        ("", {}, None, None),
        ("-R 1", {}, None, "local"),
        ("-R 1", {"NCCL_LOCAL_REGISTER": "0"}, None, "none"),
        ("-R 2", {}, None, "symmetric"),
        ("-R 2", {"NCCL_WIN_ENABLE": "0"}, None, "none"),
        ("-R 2", {"NCCL_WIN_ENABLE": "0"}, old, "local or symmetric"),
    ):
        line = f"all_reduce -g 2 -b 4K -e 4K -n 2 {flags}"
        newer = {"BUSBENCH_FAKE_VERSION": "23004"}
        _, results, _ = records(line, {**env, **(version or newer)})
        equal({r["registration"] for r in results}, {used}, f"{flags} {env}")
        out = gpus.passes(line, {**env, **(version or newer)}).out
        equal(out.count("# Warning: -R: "), used == "none", f"warnings of {flags} {env}")


# ---- features ----------------------------------------------------------------------------------


def feature(line, env, check):
    line = f"all_reduce -g 4 -b 40 -e 40000 -f 30 -n 4 --algo ring,busbench:ring,auto {line}"
    _, results, others = records(line, env)
    equal(len(results), 18, "results")
    for r in results:
        expect(check(r), f"{line}: {r}")
    return others


FEATURES = [  # and the field of the record
    ("-z 0", {}, lambda r: r["samples"] == 1 and r["iterations"] == 4),
    ("-z 1", {}, lambda r: r["samples"] > 0 and r["skew_p50_us"] is not None),
    ("-z 2", {}, lambda r: r["samples"] > 0 and r["skew_p50_us"] is not None),
    ("-z 3", {}, lambda r: r["samples"] == r["iterations"] == 4),
    ("-t 2 -g 2", {}, lambda r: r["nranks"] == 4),
    ("-G 3", {}, lambda r: r["iterations"] == 12 and r["samples"] == 1),
    ("-G 2 -m 3", {}, lambda r: r["iterations"] == 8),
    ("-I 1", {}, lambda r: r["samples"] == len(r["samples_us"]) == 4 and r["min_us"] > 0),
    ("-I 1 -K 2", {}, lambda r: r["samples"] == 4),
    ("-m 300", {}, lambda r: r["iterations"] == 4),
    ("-m 5", {}, lambda r: r["iterations"] == 4),
    ("-R 1", {}, lambda r: True),
    ("-R 2", {}, lambda r: True),
    ("-R 2 -G 1 -u 1", {}, lambda r: True),
    ("-y 1", {}, lambda r: True),
    ("-C 1", {}, lambda r: 0 < r["cpu_time_us"] < r["time_us"] * 100),
    ("-C 1 -G 2", {}, lambda r: r["cpu_time_us"] > 0),
    ("-u 3", {}, lambda r: True),
    ("-x 0", {}, lambda r: True),
    ("-x 1", {}, lambda r: True),
    ("-x 2", {}, lambda r: True),
    ("-c 3", {}, lambda r: True),
    ("-w 0", {}, lambda r: True),
    ("-p 1", {}, lambda r: True),
    ("--cache rotate", {}, lambda r: r["cache"] == "rotate" and r["verified"] == "pristine set"),
    ("--cache reuse", {}, lambda r: r["cache"] == "reuse"),
    ("--cache rewrite", {}, lambda r: r["cache"] == "rewrite" and r["samples"] == 4),
    ("--precision 50% --max-time 2", {}, lambda r: r["samples"] > 1 and r["ci_low_us"] > 0),
    ("", {"NCCL_TESTS_SPLIT": "MOD 2"}, lambda r: r["groups"] == [0, 1] and r["nranks"] == 2),
    ("-R 2 -z 1", {"NCCL_TESTS_SPLIT": "DIV 3"}, lambda r: r["groups"] == [0, 1] and r["nranks"] == 3),
    ("", {"NCCL_TESTS_DEVICE": "4"}, lambda r: True),
    ("", {"NCCL_ALGO": "ring", "NCCL_PROTO": "LL"}, lambda r: True),
]
# Features that other tests of this table cover.
WIDE = "-z 0,-z 1,-z 3,-G 3,-I 1,-m 300,-R 1,-R 2,-C 1 -G 2,-x 0,-x 2,-w 0,--cache reuse,-R 2 -z 1".split(",")
for line, env, check in FEATURES:
    name = " ".join([f"feature {line}", *(f"{k}={v}" for k, v in env.items())])
    add(name, feature, line, env, check, full=line in WIDE)


def one_set(line):
    """Without memory for two sets of buffers, the verified iteration runs alone on refilled buffers."""
    some = {"BUSBENCH_FAKE_BYTES": "8000000"}
    _, results, others = records(f"all_reduce -g 3 -b 500K -e 4M -n 3 --algo ring,busbench:tree {line}", some)
    last = [r for r in results if r["size_bytes"] == 2048000]
    expect(len(last) == 4 and any("refilled" in r["verified"] for r in last), f"not refilled: {last}")
    expect(all(r["verified"] == "pristine set" for r in results if r["size_bytes"] == 512000), "refilled")
    skipped = [r for r in others if r["kind"] == "skip"]
    equal({r["size_bytes"] for r in skipped}, {4096000}, "sizes skipped")
    expect(all("available" in r["reason"] for r in skipped), f"{skipped}")


for line in ("", "-G 2", "-G 2 -m 2", "-I 1", "-m 3", "-R 2", "-z 1", "--cache rewrite"):
    add(f"one set of buffers {line}", one_set, line, full=line not in ("", "-G 2 -m 2", "-R 2"))


@test
def per_iteration_columns():
    result = gpus.passes("all_reduce -g 3 -b 1K -e 4K -n 5 -I 1")
    for row in result.rows():
        for half in row.halves:
            least, most, p99, cv = map(float, half.per_iter)
            result.require(0 < least <= p99 <= most and cv >= 0, f"{half.per_iter}")


@test
def memory_report():
    """Buffers count as the user's; the memory of communicators is unknown."""
    out = gpus.passes("all_reduce -g 2 -b 8 -e 1K -M 1").out
    line = next(text for text in out.splitlines() if text.startswith("# Memory usage"))
    expect(re.search(r"User-Allocated +8\.0+ MB", line), line)


@test
def sets_leave_the_cache():
    """Buffers of 1 MiB move through twice the GPU's second-level cache; without it two sets are enough."""
    for cache, sets in (("0", 2), (str(8 << 20), 9)):
        out = gpus.passes("all_reduce -g 1 -b 1M -e 1M -n 2 -M 1", {"BUSBENCH_FAKE_L2": cache}).out
        line = next(text for text in out.splitlines() if text.startswith("# Memory usage"))
        used = float(re.search(r"User-Allocated +([0-9.]+) MB", line)[1])
        expect(max(4, 2 * sets) <= used < max(4, 2 * sets) + 3, f"cache {cache}: {line}")


@test
def devices():
    """NCCL_TESTS_DEVICE is the first device; enough must follow."""
    run, _, _ = records("all_reduce -g 3 -b 8 -e 8", {"NCCL_TESTS_DEVICE": "5"})
    equal([r["device"] for r in run["ranks"]], [5, 6, 7], "devices")
    gpus.run("all_reduce -g 3", {"NCCL_TESTS_DEVICE": "6"}).exits(2).says("9 GPUs", "only 8 exist", "NCCL_TESTS_DEVICE")
    for value in ("8", "-1", "two", "1x"):
        gpus.run("all_reduce", {"NCCL_TESTS_DEVICE": value}).exits(2).says(f"NCCL_TESTS_DEVICE={value}", "8 GPUs")
    gpus.run("all_reduce -g 9").exits(2).says("9 GPUs", "only 8 exist")
    gpus.run("all_reduce -t 2 -g 2", {"BUSBENCH_FAKE_GPUS": "3"}).exits(2).says("4 GPUs", "only 3 exist")


def excludes_graphs(flag):
    gpus.run(f"all_reduce -g 2 -G 1 {flag}").exits(2).says("-G 1", flag.split()[0])


for flag in ("-I 1", "-z 1", "-y 1", "--precision 5%", "--cache rewrite", "--fault slow:0:1ms"):
    add(f"-G 1 {flag}", excludes_graphs, flag)


@test
def refused():
    gpus.run("all_reduce -g 2 --link 1GB/s").exits(5).says("--link")
    gpus.run("all_reduce -g 2 --algo direct").exits(2).says("the nccl backend has no algorithm", "direct")
    gpus.run("all_reduce -g 2 --algo rnig").exits(2).says("rnig", "ring")


@test
def wrong_environment():
    """NCCL reads NCCL_ALGO itself, and its message is printed."""
    result = gpus.run("all_reduce -g 2 -b 8 -e 8", {"NCCL_ALGO": "Rnig"}).exits(3)
    result.says("ncclCommInitRankConfig", "Rnig")
    equal(len(sentences(result)), 1, "sentences")


# ---- faults ------------------------------------------------------------------------------------


def corrupt(rank, line):
    result = gpus.run(f"all_reduce -g 4 -b 1K -e 16K -f 4 -n 2 --fault corrupt:{rank} {line}").exits(7)
    result.quiet().prints("FAILED")
    for row in result.rows():
        for half in row.halves:
            result.require(half.wrong == "1", f"#wrong {half.wrong}")


for line in ("", "-G 2", "--algo busbench:tree", "-m 2 -R 1", "-z 3 --cache reuse"):
    add(f"corrupt {line}", corrupt, 2, line)


@test
def dies():
    for line in ("", "-G 1", "-R 2", "--algo tree,busbench:ring"):
        result = gpus.run(f"all_reduce -g 4 -b 1K -e 1M -T {LONG} --fault die:2 {line}").exits(3).says("rank 2")
        equal(len(sentences(result)), 1, "sentences")


@test
def is_slow():
    """No iteration is faster than the rank that the others wait for."""
    for r in records("all_reduce -g 3 -b 4K -e 4K -n 4 -I 1 --fault slow:1:20ms")[1]:
        expect(r["max_us"] >= 19000, f"{r['max_us']} us")
    for r in records("all_reduce -g 3 -b 4K -e 4K -n 4 -z 2 --fault slow:1:20ms")[1]:
        equal(r["last_rank"], 1, "last rank")


@test
def expires():
    """A missing rank is named although the others wait on their devices."""
    for line in ("", "-z 1", "-G 2 -m 2"):
        slow = "--fault slow:1:60s" if "-G" not in line else "--fault die:1"
        gpus.run(f"all_reduce -g 3 -b 8 -e 8 -T {kit.BRIEF} {slow} {line}").exits(4, 3).says("1")


# ---- no GPU ------------------------------------------------------------------------------------


@test
def no_gpu():
    none = {"BUSBENCH_FAKE_GPUS": "0"}
    why = "the nccl backend finds no GPU: no CUDA-capable device is detected (cudaErrorNoDevice)"
    result = gpus.run("all_reduce -b 8 -e 8 --backend nccl", none).exits(3)
    equal(result.err, f"all_reduce_perf: {why}\n", "sentence")
    result.require(not result.out, "something on stdout")
    result = gpus.passes("all_reduce -g 2 -b 8 -e 8", none)
    result.prints(f"# Backend host was chosen: {why}, and no launcher")
    for driver, said in (("0", "no NVIDIA driver is loaded"), ("11000", "CUDA driver version is insufficient")):
        result = gpus.run("all_reduce -b 8 -e 8 --backend nccl", {"BUSBENCH_FAKE_DRIVER": driver}).exits(3)
        result.says(f"finds no GPU: {said}", "(cudaErrorInsufficientDriver)")
    # Features of GPUs alone report why there are none.
    gpus.run("all_reduce -b 8 -e 8 -G 1", none).exits(5).says("-G 1", "host", why)


@test
def alltoallv_matrix():
    """NCCL's messages and busbench's schedules move the traffic of a file, also in place and in groups."""
    file = os.path.join(kit.ROOT, "docs", "moe-traffic.txt")
    result = gpus.passes(f"alltoallv -g 4 --matrix {file} --matrix-scale 64 --algo all -n 2 -d double")
    equal({row.size for row in result.rows()}, {64 * 1600, 64 * 2624}, "sizes")
    gpus.passes(f"alltoallv -g 5 --matrix {file} -n 2", {"NCCL_TESTS_SPLIT": "MOD 2"}).prints("its first 3 of 4 ranks")


# ---- failures ----------------------------------------------------------------------------------

# A command line, the calls that fail, and their numbers from 1; the message names the call, except for kernels.
FAILURES = [
    ("all_reduce -g 3", "cudaSetDevice cudaMemGetInfo cudaMalloc", (1, 3)),
    ("all_reduce -g 3", "cudaDeviceGetPCIBusId cudaGetDeviceProperties", (1, 3)),
    ("all_reduce -g 3", "cudaGetDevice cudaStreamCreateWithFlags ncclGetUniqueId", (1,)),
    ("all_reduce -g 1", "ncclGetVersion cudaRuntimeGetVersion cudaDriverGetVersion ncclCommDestroy", (1,)),
    ("all_reduce -g 3 -R 1 --algo auto,ring", "ncclCommInitRankConfig ncclCommRegister ncclGetUniqueId", (1, 2)),
    ("all_reduce -g 3 -R 1 --algo auto,ring", "ncclAllReduce ncclCommDeregister ncclCommDestroy", (1, 4)),
    ("all_reduce -g 3 -R 2", "ncclCommWindowRegister ncclMemAlloc", (1, 3)),
    ("all_reduce -g 3", "cudaStreamQuery cudaMemcpyAsync cudaMemsetAsync cudaPointerGetAttributes", (1, 40)),
    ("all_reduce -g 3", "cudaLaunchKernel", (5,)),  # the first of each rank loads a kernel
    ("all_reduce -g 3", "ncclAllReduce ncclMemFree cudaFree cudaStreamDestroy", (2,)),
    ("all_reduce -g 3 -I 1", "cudaEventCreateWithFlags cudaEventRecord cudaEventElapsedTime cudaEventDestroy", (1, 9)),
    ("all_reduce -g 3 -G 2 -m 2", "cudaStreamBeginCapture cudaStreamEndCapture ncclGroupStart ncclGroupEnd", (1, 8)),
    ("all_reduce -g 3 -G 2", "cudaGraphInstantiateWithFlags cudaGraphUpload cudaGraphLaunch cudaGraphDestroy", (1, 8)),
    ("alltoallv -g 4 -z 1", "ncclSend ncclRecv ncclGroupStart ncclGroupEnd", (1, 50)),
    ("all_gather -g 3 --algo busbench:ring", "ncclSend ncclRecv ncclGroupEnd", (1, 50)),
    ("reduce_scatter -g 2 -o mulsum", "ncclRedOpCreatePreMulSum ncclRedOpDestroy ncclReduceScatter", (1, 2)),
    ("broadcast -g 4", "ncclBroadcast", (1, 30)),
    ("reduce -g 4", "ncclReduce", (1, 30)),
    ("all_gather -g 5", "ncclCommSplit", (1, 4), {"NCCL_TESTS_SPLIT": "MOD 2"}),
    ("all_gather -g 5", "ncclCommInitRankScalable ncclGetUniqueId", (1, 2), {"TORCH_NCCL_RANKS_PER_ROOT": "2"}),
]


def fails(line, call, number, env=None):
    """The run ends before -T expires, names what failed where once, and keeps its rows."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "a.csv")
        env = {"BUSBENCH_FAKE_FAIL": f"{call}:{number}", **(env or {})}
        result = gpus.run(f"{line} -b 1K -e 16K -n 3 -T {LONG} --csv {table}", env)
        text = ""
        if os.path.exists(table):
            with open(table, encoding="utf-8") as file:
                text = file.read()
    result.exits(3)
    equal(len(sentences(result)), 1, f"sentences on stderr\n{result}")
    result.says("bb_gpu_fill" if call == "cudaLaunchKernel" else call, "failed in src/backends/nccl/", ".c:")
    result.says("was to fail" if call.startswith("nccl") else "cudaErrorUnknown")
    result.require(not text or text.endswith("\n"), "a row is cut")
    return list(csv.DictReader(text.splitlines()))


for line, calls, numbers, *env in FAILURES:
    for i, call in enumerate(calls.split()):
        for number in numbers:
            add(f"{call} {number} fails: {line}", fails, line, call, number, *env, full=i > 1 or number != numbers[-1])


@test
def keeps_rows():
    rows = fails("all_reduce -g 3", "ncclAllReduce", 100)
    expect(len(rows) >= 2 and all(row["end_unix_s"] for row in rows), f"{len(rows)} rows")


# ---- sanitized ---------------------------------------------------------------------------------

SAMPLE = [
    "all_reduce -g 4 --algo ring,tree,busbench:ring,auto -b 40 -e 4000 -f 10 -n 2 -d float,int32 -o sum,bxor,mulsum",
    "all_gather -g 3 --algo all -b 1 -e 3000 -f 50 -n 2 -R 2",
    "alltoallv -g 4 --algo all -b 1 -e 3000 -f 50 -n 2 -G 2 -m 2",
    f"alltoallv -g 4 --algo all --matrix {os.path.join(kit.ROOT, 'docs', 'moe-traffic.txt')} -n 2",
    "reduce -g 3 --algo all -b 1000 -e 1000 -n 2 -I 1 -M 1 -o avg",
    "sendrecv -g 2 --algo all -b 1000 -e 1000 -n 2 -z 1 -y 1 -u 3",
    "hypercube -g 4 -b 1000 -e 1000 -n 2 -C 1 --cache rewrite",
]
BROKEN = ("ncclCommInitRankConfig:2", "ncclAllReduce:20", "cudaEventRecord:4", "cudaMalloc:2", "cudaGraphLaunch:3")


def clean(result: Result):
    return result.require("Sanitizer" not in result.err and "runtime error" not in result.err, "not clean")


def sanitized(variant, line):
    gpus.passes(line, SANITIZERS[variant], variant)


def fails_sanitized(variant, failure):
    """Memory that others may read stays until the process ends, so leaks are not searched."""
    flags = "-I 1" if "Event" in failure else "-G 2" if "Graph" in failure else "-R 1"
    env = {**SANITIZERS[variant], "BUSBENCH_FAKE_FAIL": failure}
    env["ASAN_OPTIONS"] = "detect_leaks=0"
    clean(gpus.run(f"all_reduce -g 3 -b 1K -e 4K -n 3 {flags}", env, variant)).exits(3)


for variant in Settings.variants:
    for line in SAMPLE:
        add(f"{line} ({variant})", sanitized, variant, line)
    for failure in BROKEN:
        add(f"{failure} fails ({variant})", fails_sanitized, variant, failure)

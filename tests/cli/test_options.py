"""Every option does what its line in --help says."""

import json
import os
import re
import signal
import tempfile

import kit
from kit import COLLECTIVES, add, equal, expect, listing, passes, run, test


def records(line, kind="result", **options):
    return run(f"{line} --json -", **options).exits(0).records(kind)


# ---- nccl-tests' options ---------------------------------------------------------------------


@test
def iterations():
    """-n iterations of -m operations; each has a sample, and -K omits the first ones."""
    (r, _) = records("all_reduce -g 2 -b 1K -e 1K -n 7 -m 3 -w 2 -I 1")
    equal((r["iterations"], len(r["samples_us"])), (7, 7), "iterations of -n 7 -m 3")
    (config,) = records("all_reduce -g 2 -b 1K -e 1K -n 7 -m 3 -w 2", "run")
    equal((config["iters"], config["agg_iters"], config["warmup_iters"]), (7, 3, 2), "-n -m -w")
    passes("all_reduce -g 2 -b 1K -e 1K -n 1 -w 0")
    passes("all_reduce -g 2 -b 1K -e 1K -n 10 -K 9 -I 1")


@test
def cycles():
    equal([r["cycle"] for r in records("all_reduce -g 2 -b 8 -e 16 -N 3")], [1] * 4 + [2] * 4 + [3] * 4, "-N 3")


@test
def endless_cycles():
    """-N 0 runs until it is stopped, and keeps its measurements."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as text:
        process = kit.spawn([kit.built("all_reduce_perf"), "-b", "8", "-e", "8", "-N", "0"], stdout=text)

        def has_cycles():
            with open(text.name, encoding="utf-8") as so_far:  # TEXT's place is also where the process writes
                return len(kit.rows(so_far.read())) > 3

        kit.wait_for(has_cycles, "more than three cycles")
        process.send_signal(signal.SIGINT)
        kit.finish(process).exits(130)


@test
def unchecked():
    """-c 0 measures and prints N/A."""
    for row in passes("all_reduce -g 2 -b 8 -e 64 -c 0").rows():
        equal([half.wrong for half in row.halves], ["N/A", "N/A"], "#wrong")
    equal({r["verified"] for r in records("all_reduce -g 2 -b 8 -e 64 -c 0")}, {None}, "verified")


@test
def roots():
    """-r all, also written -1, uses every rank in turn, other values one."""
    for root in ("all", "-1"):
        equal([r.root for r in passes(f"broadcast -g 3 -b 8 -e 8 -r {root}").rows()], [0, 1, 2], f"-r {root}")
    equal([r.root for r in passes("scatter -g 3 -b 64 -e 64 -r 2").rows()], [2], "-r 2")
    equal([r.root for r in passes("all_reduce -g 2 -b 64 -e 64 -r 1").rows()], [-1], "root of all_reduce")


@test
def types_and_ops():
    """-d all -o all runs every valid pair once."""
    types = listing()[1]
    wanted = {(dtype, op) for op, dtypes in types.items() for dtype in dtypes}
    rows = passes("reduce_scatter -g 2 -b 64 -e 64 -d all -o all").rows()
    equal(sorted((r.dtype, r.op) for r in rows), sorted(wanted), "pairs")
    every = sorted({dtype for dtype, _ in wanted})
    equal(sorted(r.dtype for r in passes("alltoall -g 2 -b 64 -e 64 -d all -o all").rows()), every, "datatypes")
    expect(len(every) == 13 and len(types) == 14, f"{len(every)} datatypes and {len(types)} operations")


@test
def averages():
    """-a: the time is rank 0's, the mean, the minimum or the maximum over the ranks."""
    pick = {0: lambda t: t[0], 1: lambda t: sum(t) / len(t), 2: min, 3: max}
    for a, choose in pick.items():
        for r in records(f"broadcast -g 3 -b 64K -e 64K -n 5 --algo ring -a {a}"):
            wanted = choose(r["rank_mean_us"])
            expect(abs(r["time_us"] / wanted - 1) < 1e-6, f"-a {a}: {r['time_us']} of {r['rank_mean_us']}")


@test
def stamps_and_memory():
    for line in run("all_reduce -g 2 -b 8 -e 16 -S 1").exits(0).out.splitlines():
        if line and not line.startswith("#"):
            expect(re.search(r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", line), f"no time stamp: {line!r}")
    passes("all_reduce -g 2 -b 1M -e 1M -M 1").prints("Initialization", "User-Allocated", "Collective", "Total")


@test
def per_iteration_columns():
    (row,) = passes("all_reduce -g 2 -b 1K -e 1K -I 1").rows()
    for half in row.halves:
        low, high, p99, _ = map(float, half.per_iter)
        expect(low <= p99 <= high, f"i_min {low} i_p99 {p99} i_max {high}")


@test
def cpu_time():
    (r, _) = records("all_reduce -g 2 -b 1M -e 1M -C 1")
    expect(r["cpu_time_us"] > 0, "no CPU time with -C 1")
    (r, _) = records("all_reduce -g 2 -b 1M -e 1M")
    equal(r["cpu_time_us"], None, "CPU time without -C")


for flags in [
    "-z 1", "-z 2", "-z 3", "-p 1", "-p 0", "-t 2 -g 2", "-t 4", "-u 1", "-u 3 -d int8", "-u 7 -d double",
    "-m 5 -z 1", "-w 0 -n 1 -c 3", "-T 300", "-T 300000ms", "-T 0", "-x 0 --backend null -c 0", "--seed 77",
    "--cache rotate", "--cache reuse", "--cache rewrite", "--cache rewrite -m 2", "--precision 20%",
    "--precision 0.01% --max-time 20ms", "-i 4096 -f 1", "-I 1 -K 3 -S 1 -C 1 -M 1",
]:  # fmt: skip
    if "-x" not in flags:
        add(f"all_reduce {flags}", passes, f"all_reduce -g 3 -b 1000 -e 30000 -f 5 {flags}")
for long in [
    "--nthreads 1 --ngpus 2 --minbytes 1K --maxbytes 4K --stepfactor 2 --iters 3 --agg_iters 2 --warmup_iters 1 "
    "--run_cycles 1 --parallel_init 1 --check 1 --op sum --datatype float --root 0 --blocking 0 --cudagraph 0 "
    "--stream_null 0 --timeout 60 --report_cputime 0 --average 1 --local_register 0 --report_timestamps 1 "
    "--memory 1 --unalign 1 --per_iter_timing 1 --per_iter_skip 1 --device_implementation 0 --device_cta_count 16",
    "--stepbytes 1K --minbytes=1K --maxbytes=2K -g2 -n5",
]:
    add("long names", passes, f"all_reduce {long}")


# ---- busbench's own ----------------------------------------------------------------------------


@test
def precision():
    """Iterations continue until the interval is narrow, or --max-time is over."""
    (r, _) = records("all_reduce -g 2 -b 1K -e 1K --precision 5% --max-time 2s")
    half = (r["ci_high_us"] - r["ci_low_us"]) / 2 / r["p50_us"]
    expect(half <= 0.05 or r["iterations"] > 20, f"half the interval is {half:.3f} of the median")
    passes("all_reduce -g 2 -b 1K -e 1K --precision 0.001% --max-time 300ms")


@test
def max_time():
    """--max-time also ends the -n iterations, the rounds of trials and those of pairs."""
    line = "-n 100 --precision 0.001% --max-time"
    for r in records(f"all_reduce -g 2 -b 8 -e 8 --fault slow:0:20ms {line} 200ms"):
        expect(r["iterations"] < 20, f"{r['iterations']} iterations of at least 20 ms in 200 ms")
    line = f"--backend sim --noise 5% {line}"
    (r,) = records(f"barrier -g 2 --link 1GB/s,50ms --algo ring {line} 500ms", "barrier")
    expect(r["samples"] < 10, f"{r['samples']} barriers of 100 ms in 500 ms")
    (r,) = records(f"p2p_latency -g 2 --link 1GB/s,50ms {line} 300ms", "pair")
    equal(r["rounds"], 3, "rounds of a pair, which findings need")
    ddp = f"ddp_bucket -g 2 --link 25GB/s,5us --buckets 25M,50M --overlap both --step-time 100ms {line}"
    for limit, samples in ("1s", [20] * 8), ("25s", [40] * 2 + [20] * 6):
        equal([r["samples"] for r in records(f"{ddp} {limit}", "data_parallel")], samples, f"steps within {limit}")


@test
def cache_modes_are_recorded():
    for mode in ("rotate", "reuse", "rewrite"):
        equal({r["cache"] for r in records(f"all_reduce -g 2 -b 8 -e 8 --cache {mode}")}, {mode}, "cache")


@test
def nccl_algo():
    """NCCL_ALGO applies unless --algo is given."""
    for value, algorithm in (("Ring", "ring"), ("Tree", "tree"), ("TREE", "tree")):
        rows = passes("all_reduce -g 2 -b 8 -e 8", env={"NCCL_ALGO": value}).rows()
        equal([r.algorithm for r in rows], [algorithm], f"NCCL_ALGO={value}")
    rows = passes("all_reduce -g 2 -b 8 -e 8 --algo direct", env={"NCCL_ALGO": "Ring"}).rows()
    equal([r.algorithm for r in rows], ["direct"], "--algo beside NCCL_ALGO")


@test
def split():
    """NCCL_TESTS_SPLIT forms groups that run side by side; n is the group's."""
    for env, groups in [
        ({"NCCL_TESTS_SPLIT": "MOD 2"}, [0, 1, 0, 1]),
        ({"NCCL_TESTS_SPLIT": "%2"}, [0, 1, 0, 1]),
        ({"NCCL_TESTS_SPLIT": "DIV 2"}, [0, 0, 1, 1]),
        ({"NCCL_TESTS_SPLIT": "AND 0x2"}, [0, 0, 2, 2]),
        ({"NCCL_TESTS_SPLIT": "| 0b1"}, [1, 1, 3, 3]),
        ({"NCCL_TESTS_SPLIT_MASK": "1"}, [0, 1, 0, 1]),
    ]:
        result = passes("all_reduce -g 4 -b 64 -e 1K -f 4 -n 3 --algo all", env=env)
        found = [int(g) for g in re.findall(r"^#  Rank +\d+ Group +(\d+)", result.out, re.M)]
        equal(found, groups, f"groups of {env}")
        equal({r["nranks"] for r in records("all_reduce -g 4 -b 64 -e 64", env=env)}, {2}, "ranks of a group")
    for name in COLLECTIVES:
        passes(f"{name} -g 6 -b 256 -e 1K -n 3 --algo all -r all", env={"NCCL_TESTS_SPLIT": "MOD 3"})
    # Groups of 3 and 2.
    passes("all_reduce -g 5 -b 64 -e 1K -n 3 --algo all", env={"NCCL_TESTS_SPLIT": "MOD 2"})


@test
def least_bandwidth():
    """NCCL_TESTS_MIN_BW is a gate for the mean bus bandwidth."""
    run("all_reduce -g 2 -b 8 -e 8", env={"NCCL_TESTS_MIN_BW": "1e6"}).exits(7).prints("FAILED")
    run("all_reduce -g 2 -b 1M -e 1M", env={"NCCL_TESTS_MIN_BW": "0.000001"}).exits(0).prints("OK")


@test
def alltoallv_spread():
    """With NCCL_TESTS_ALLTOALLV_SPREAD 0 all pairs exchange equal amounts."""
    for spread in ("0", "0.5", "1"):
        passes("alltoallv -g 3 -b 1K -e 64K -f 8 --algo all", env={"NCCL_TESTS_ALLTOALLV_SPREAD": spread})


MATRIX = os.path.join(kit.ROOT, "docs", "moe-traffic.txt")


@test
def alltoallv_matrix():
    """--matrix runs the matrices of a file, of which the records keep the name; the size is the busiest rank's."""
    rows = passes(f"alltoallv -g 4 --matrix {MATRIX} --matrix-scale 100 --algo all -n 2").rows()
    equal({(r.size, r.count) for r in rows}, {(160000, 0), (262400, 0)}, "sizes and counts")
    found = {(r["matrix"], r["size_bytes"]) for r in records(f"alltoallv -g 4 --matrix {MATRIX} -n 2")}
    equal(found, {("layer 3", 1600), ("layer 11, hot expert", 2624)}, "matrices")
    # The first ranks of a larger matrix, by nccl-tests' variables; types of 1 and 8 bytes.
    env = {"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": MATRIX, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE": "16"}
    result = passes("alltoallv -g 3 -b 1M -e 1M -d int8,double --algo ring,tree,direct -n 2", env=env)
    equal({r.size for r in result.rows()}, {16 * 1184, 16 * 1920}, "sizes of 3 ranks")
    result.prints("# Matrix layer 3: ", "its first 3 of 4 ranks")


@test
def alltoallv_matrix_winners():
    """Matrices of the same size have comparisons of their own."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("0 64\n0 0\n\n0 0\n64 0\n")
        file.flush()
        name = os.path.basename(file.name)
        line = f"alltoallv -g 2 --matrix {file.name} --algo ring,naive"
        equal([r["matrix"] for r in records(line, "winner")], [f"{name}:1", f"{name}:2"], "winners")
        run(line).exits(0).right().prints(f"matrix {name}:1", f"matrix {name}:2", "rank 1 sends most")
        # A rank that sends and receives nothing, and a matrix without any bytes.
        file.write("0 0\n0 0\n")
        file.flush()
        equal([r.size for r in passes(f"alltoallv -g 2 --matrix {file.name} --algo direct").rows()], [64, 64, 0], "sizes")


@test
def alltoallv_matrix_explained():
    result = run(f"alltoallv -g 4 --matrix {MATRIX} --explain --algo pairwise").exits(0)
    result.prints("Matrix layer 3: ", "alltoallv by pairwise, 4 ranks\n", "Matrix layer 11")


# ---- telling about itself ----------------------------------------------------------------------


@test
def version_help_list():
    for name in COLLECTIVES:
        text = run(f"{name} --help").exits(0).prints("--minbytes", "--algo", "--explain", "--help-all").out
        equal(run(f"{name} -h").exits(0).out, text, "-h")
        run(f"{name} --version").exits(0).prints(f"{name}_perf (busbench) ", "compiler: ", "libraries: ", "commit: ")
    algorithms, types = listing()
    for name in COLLECTIVES:
        wanted = {"hypercube"} if name == "hypercube" else {"ring", "tree", "direct"}
        expect(wanted | {"auto"} <= set(algorithms[name]), f"{name} lists {algorithms[name]}")
    run("all_reduce --list").exits(0).prints("backend host", "backend null")


@test
def documents_are_current():
    """docs/ equals the output of `make docs`."""
    for page in ("options", "records", "algorithms"):
        with open(os.path.join(kit.ROOT, "docs", page + ".md"), encoding="utf-8") as file:
            text = file.read()
        now = kit.execute([kit.built("docs/reference"), page]).exits(0).out
        expect(text == now, f"docs/{page}.md is out of date: run make docs")
        if page == "options":
            markdown = run("alltoallv --help-markdown").exits(0).out
            tables = ["### " + part.strip() for part in markdown.split("### ")[1:]]
            missing = [table for table in tables if table not in text]
            expect(tables and not missing, f"docs/options.md lacks what --help-markdown prints: {missing}")


@test
def explain():
    """Each round with senders, receivers and chunks, and sums that can be checked by hand."""
    result = run("all_reduce --explain -g 4 --all").exits(0).prints("ring", "4")
    rounds = set(re.findall(r"[Rr]ound +(\d+)", result.out))
    result.require(len(rounds) >= 6, f"{len(rounds)} rounds, not 6")
    out = run("reduce_scatter --explain -g 4 --all").exits(0).out
    expect(re.search(r"\b0\b.*\b4\b.*\b8\b.*\b12\b", out, re.S), f"no 0, 4, 8, 12 in\n{out}")
    for name, names in listing()[0].items():
        for algorithm in set(names) - {"auto", "direct"}:
            run(f"{name} --explain -g 4 --algo {algorithm}").exits(0).prints(algorithm)
    run("all_reduce --explain -g 4 --algo direct").exits(5).says("direct")


@test
def explain_in_part():
    """At most 40 lines of 80 columns, unless --all is given; --round shows one round."""
    for words in ("-g 4", "-g 8 --algo tree", "-g 64 --algo naive", "-g 16 --round 3"):
        lines = run(f"all_reduce --explain {words}").exits(0).out.splitlines()
        expect(len(lines) <= 40 and max(map(len, lines)) <= 80, "\n".join(lines))
    one = run("all_reduce --explain -g 4 --algo ring --round 3").exits(0).out
    equal(re.findall(r"^Round (\d) of 6$", one, re.M), ["3"], "rounds")
    run("all_reduce --explain -g 4 --algo ring --round 7").exits(5).says("ring: only 6 rounds, no round 7 (--round)")
    run("all_reduce --explain -g 4 --algo ring,recursive_doubling --round 3").exits(0).prints(
        "Round 3 of 6", "recursive_doubling: only 2 rounds, no round 3"
    )
    run("all_reduce -g 2 --round 1").exits(2).says("--round 1 needs --explain")
    run("all_reduce -g 2 --all").exits(2).says("--all needs --explain")


@test
def explain_as_records():
    """A schedule and its messages, from which the picture is drawn; the totals are those of the messages."""
    for words in ("all_reduce -g 4 --algo ring", "broadcast -g 8 --algo tree -r 3", "alltoallv -g 3 --algo pairwise"):
        records = [json.loads(line) for line in run(f"{words} --explain --json -").exits(0).out.splitlines()]
        equal([r["kind"] for r in (records[0], records[1], records[-1])], ["run", "schedule", "end"], words)
        schedule, messages = records[1], records[2:-1]
        equal({r["kind"] for r in messages}, {"message"}, words)
        sent = [m for m in messages if m["from"] != m["to"]]
        equal(schedule["messages"], len(sent), f"messages of {words}")
        equal(schedule["elements"], sum(m["count"] for m in sent), f"elements of {words}")
        equal(schedule["rounds"], max(m["round"] for m in messages), f"rounds of {words}")
    one = run("all_reduce -g 4 --algo ring --explain --round 5 --json -").exits(0).out
    equal({json.loads(line).get("round", 5) for line in one.splitlines()}, {5}, "rounds of --round 5")
    first = json.loads(one.splitlines()[2])
    wanted = {"from": 0, "to": 1, "source": "OUT[3]", "content": "d0+d1+d2+d3=12", "part": 3, "adds": False}
    equal({key: first[key] for key in wanted}, wanted, "the first message of round 5")
    run("all_reduce --explain -g 4 --json /nowhere/x.jsonl").exits(2).says("/nowhere/x.jsonl")


@test
def explain_several():
    """Every named schedule in that order; names without a schedule get a line."""

    def explained(line):
        return re.findall(r"^\w+ by (\S+), ", run(line).exits(0).out, re.M)

    equal(explained("all_reduce --explain -g 4 --algo tree,direct,ring"), ["tree", "ring"], "of a list")
    run("all_reduce --explain -g 4 --algo tree,direct,bruck,auto").exits(0).prints(
        "direct: has no schedule", "bruck: not an algorithm of all_reduce", "auto: ", "at run time"
    )
    run("all_reduce --explain -g 4").exits(0).prints("auto is the backend's choice at run time")
    equal(explained("hypercube --explain -g 4"), ["hypercube"], "of hypercube")
    for name, names in listing()[0].items():
        wanted = set(names) - {"auto", "direct"}
        equal(set(explained(f"{name} --explain -g 4 --algo all")), wanted, f"of all of {name}")

"""Output: nccl-tests' text to the letter, CSV, JSON lines and -J, which all agree."""

import csv
import json
import os
import re
import statistics
import tempfile

from kit import Failure, add, built, equal, expect, on_terminal, passes, test

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")

# Rows without data are deterministic except for times.
NULL_RUNS = {
    "all_reduce": "all_reduce --backend null -g 4 -b 1K -e 16K -f 4",
    "reduce_roots": "reduce --backend null -g 3 -r all -b 64 -e 64 -o max,avg -d half,int32",
    "all_gather_steps": "all_gather --backend null -g 3 -b 100 -e 400 -i 100 -d double",
    "sendrecv_algorithms": "sendrecv --backend null -g 2 -b 8 -e 64 -f 8 --algo ring,tree",
    "alltoall_per_iter": "alltoall --backend null -t 2 -g 2 -b 1M -e 1M -I 1 -S 1 -d uint8",
    "hypercube": "hypercube --backend null -g 8 -b 1K -e 1K -M 1",
}


def kinds_of(run):
    """Kinds of the records without counters, which depend on what else uses the network meanwhile."""
    return [r["kind"] for r in run.records() if r["kind"] != "counter"]


def masked(text):
    """Replaces times by T, pids by P and the host by H; widths stay."""
    lines, judging = [], False
    for line in text.splitlines():
        line = re.sub(r"Pid +\d+ on +\S+", lambda m: "Pid P on H".ljust(len(m[0])), line)
        line = re.sub(r"(Avg bus bandwidth    : )\S+", r"\1T", line)
        line = re.sub(r"(Memory usage         : ).*", r"\1M", line)
        line = re.sub(r"busbench version \S+", "busbench version V", line)
        if line and not line.startswith("#"):
            line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "YYYY-MM-DD HH:MM:SS", line)
            line = line[:52] + re.sub(r" +\d[\d.e+]*(?= |$)", lambda m: "T".rjust(len(m[0])), line[52:])
        # Times decide the winner.
        judging = re.match("# (Comparison|Bounds|Algorithm) of ", line) or (judging and "Out of bounds" not in line)
        if not judging or re.match("# (Comparison|Bounds|Algorithm) of ", line):
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def golden(name, line):
    got = masked(passes(line).out)
    path = os.path.join(GOLDEN, name + ".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(got)
    with open(path, encoding="utf-8") as file:
        wanted = file.read()
    if got != wanted:
        raise Failure(f"{line}\n--- golden/{name}.txt\n{wanted}--- now\n{got}")


for name, line in NULL_RUNS.items():
    add(f"golden {name}", golden, name, line)


# ---- as nccl-tests' users read it ----------------------------------------------------------


@test
def thirteen_columns():
    """The formats of nccl-tests: %12 %12 %8 %6 %6 and twice %7 %6 %6 %6, two spaces apart."""
    result = passes("all_reduce -g 2 -b 8 -e 1M -f 4")
    half = r"  {time}  {bw}  {bw}  {wrong}".format(
        time=r"(?=.{7}  ) *[\d.e+]+", bw=r"(?=.{6}  ) *[\d.]+", wrong=r"(?=.{6}) *\d+"
    )
    pattern = re.compile(r"^[ \d]{12}  [ \d]{12}  +float  +sum  +-1" + half + half + r" *$")
    count = 0
    for row in result.out.splitlines():
        if row and not row.startswith("#"):
            result.require(pattern.match(row), f"not nccl-tests' columns: {row!r}")
            equal(len(row.split()), 13, "columns")
            count += 1
    equal(count, 9, "rows")
    result.prints("#       size         count      type   redop    root     time   algbw   busbw")
    result.prints("# Out of bounds values : 0 OK\n", "# Avg bus bandwidth    : ")
    result.prints("# Collective test starting: all_reduce_perf", "# Collective test concluded: all_reduce_perf")


@test
def numbers_follow_from_each_other():
    """algbw = size / time, except for hypercube; busbw = algbw * factor of the collective."""
    factors = {
        "all_reduce": lambda n: 2 * (n - 1) / n,
        "broadcast": lambda n: 1,
        "reduce": lambda n: 1,
        "sendrecv": lambda n: 1,
        "hypercube": lambda n: 1,
    }
    for name in "all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall sendrecv hypercube".split():
        out = passes(f"{name} -g 4 -b 64K -e 64K --json -").out
        for record in map(json.loads, out.splitlines()):
            if record["kind"] != "result":
                continue
            moved = record["size_bytes"] * (3 / 4 if name == "hypercube" else 1)
            algbw = moved / record["time_us"] / 1e3
            factor = factors.get(name, lambda n: (n - 1) / n)(4)
            expect(abs(algbw / record["algbw_GBps"] - 1) < 1e-6, f"{name}: algbw {record}")
            expect(abs(algbw * factor / record["busbw_GBps"] - 1) < 1e-6, f"{name}: busbw {record}")


@test
def sizes_round_as_in_nccl_tests():
    """Per-rank counts of gathering collectives are floored to 16 bytes, others to an element."""
    sizes = lambda line: [(r.size, r.count) for r in passes(line).rows()]
    equal(sizes("all_reduce -g 3 -b 7 -e 7"), [(4, 1)], "all_reduce of 7 B")
    equal(sizes("all_gather -g 3 -b 100 -e 100"), [(96, 8)], "all_gather of 100 B")
    equal(sizes("all_gather -g 4 -b 8 -e 8"), [(0, 0)], "all_gather of 8 B")
    equal(sizes("reduce_scatter -g 2 -b 1000 -e 1000 -d int8"), [(992, 496)], "reduce_scatter of 1000 B")
    equal(sizes("hypercube -g 4 -b 1K -e 1K"), [(1024, 64)], "hypercube of 1 KiB")
    equal([s for s, _ in sizes("broadcast -b 8 -e 1K")], [8, 16, 32, 64, 128, 256, 512, 1024], "doubling")
    equal([s for s, _ in sizes("broadcast -b 100 -e 350 -i 100")], [100, 200, 300], "steps")
    equal([s for s, _ in sizes("broadcast -b 1K -e 1M -f 10")], [1024, 10240, 102400, 1024000], "factor")


# ---- the files -----------------------------------------------------------------------------

NUMBERS = {"time": "time_us", "algbw": "algbw_GBps", "busbw": "busbw_GBps"}


def all_sinks(arguments, folder):
    paths = {kind: os.path.join(folder, kind) for kind in ("a.csv", "a.jsonl", "a.json")}
    result = passes(f"{arguments} --csv {paths['a.csv']} --json {paths['a.jsonl']} -J {paths['a.json']}")
    with open(paths["a.csv"], newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    with open(paths["a.jsonl"], encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    with open(paths["a.json"], encoding="utf-8") as file:
        document = json.load(file)
    return result, table, records, document


def shown(text, value):
    """True if TEXT is VALUE to its digits."""
    digits = len(text.split(".")[1]) if "." in text and "e" not in text else 0
    return abs(float(text) - value) <= 0.51 * 10**-digits or abs(float(text) / value - 1) < 0.01


def agree(arguments):
    with tempfile.TemporaryDirectory() as folder:
        result, table, records, document = all_sinks(arguments, folder)
    results = [r for r in records if r["kind"] == "result"]
    halves = [(row, half, place) for row in result.rows() for place, half in enumerate(row.halves)]
    equal(len(halves), len(results), "results in text and JSON lines")
    equal(len(table), len(results), "results in CSV and JSON lines")
    equal(len(document["results"]) * 2, len(results), "results in -J and JSON lines")
    equal(records[0]["kind"], "run", "first record")
    equal(records[-1]["kind"], "end", "last record")
    equal(records[-1]["results"], len(results), "results that the end record counts")
    equal({r["run_id"] for r in records}, {records[0]["run_id"]}, "run ids")
    equal({r["schema"] for r in records}, {3}, "schemas")
    for (row, half, place), cells, record in zip(halves, table, results):
        said = (row.algorithm, row.size, row.count, row.dtype, row.op, row.root, bool(place))
        keys = ("algorithm_asked", "size_bytes", "count", "dtype", "op", "root", "in_place")
        equal(said, tuple(record[k] for k in keys), "row in text and JSON lines")
        for name, field in NUMBERS.items():
            text = getattr(half, name)
            expect(shown(text, record[field]), f"text has {name} {text}, JSON lines {record[field]}")
        equal(half.wrong, "N/A" if record["wrong"] is None else str(record["wrong"]), "#wrong")
        for field, value in record.items():
            if field != "kind":
                equal(cells[field], cell(value), f"{field} in CSV and JSON lines")
    for old, out_of_place, in_place in zip(document["results"], results[::2], results[1::2]):
        equal((old["size"], old["count"], old["type"], old["redop"]),
              tuple(out_of_place[k] for k in ("size_bytes", "count", "dtype", "op")), "row in -J")
        for key, record in (("out_of_place", out_of_place), ("in_place", in_place)):
            equal(old[key]["time"], record["time_us"], "time in -J")
            equal(old[key]["bus_bw"], record["busbw_GBps"], "bus_bw in -J")
            equal(old[key]["nwrong"], record["wrong"], "nwrong in -J")


def cell(value):
    """A JSON value as written in CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return Numbers(value)
    if isinstance(value, float):
        return Number(value)
    return str(value)


class Numbers(list):
    """Compares with the text of several numbers."""

    def __eq__(self, text):
        return [float(word) for word in text.split(";") if word] == list(self)


class Number(float):
    """Compares with the text of a number."""

    def __eq__(self, text):
        return float(text) == float(self) if isinstance(text, str) else float(self) == text

    __hash__ = float.__hash__


for line in [
    "all_reduce -g 3 -b 8 -e 64K -f 8 --algo ring,tree,direct,auto",
    "reduce -g 2 -r all -b 8 -e 1K -f 8 -o sum,max -d float,int8",
    "alltoall -g 2 -b 1K -e 4K -c 0",
    "broadcast -g 2 -b 1K -e 1K -I 1 -n 5",
    "sendrecv --backend null -g 2 -b 1K -e 4K",
    "all_gather -g 2 -b 8 -e 8",
]:
    add(f"sinks agree: {line}", agree, line)

V3 = {
    "": "version start_time args env nccl_version config results out_of_bounds average_bus_bandwidth errors end_time",
    "config": "nthreads ngpus minimum_bytes maximum_bytes step_factor warmup_iters iterations "
    "aggregated_iterations validation graph blocking_collectives per_iter_timing per_iter_skip parallel_init devices",
    "device": "rank group pid hostname device device_hex device_info",
    "result": "size count type redop root out_of_place out_of_place_per_iter in_place in_place_per_iter "
    "actual_iterations experiment_name",
    "half": "time alg_bw bus_bw nwrong",
    "per_iter": "skipped_iterations min_us max_us avg_us p50_us p95_us p99_us stdev_us cv_pct times_us "
    "per_process_max_times_us",
}


@test
def nccl_tests_json():
    """-J has the keys of version 3 and no environment, and keeps an existing file."""
    with tempfile.TemporaryDirectory() as folder:
        line = "all_reduce -g 2 -b 1K -e 2K -n 7 -I 1"
        document = all_sinks(line, folder)[3]
        path = os.path.join(folder, "a.json")
        passes(f"{line} -J {path}", env={"SECRET": "hunter2"}).prints("a.json.0")
        with open(path + ".0", encoding="utf-8") as file:
            again = file.read()
    wanted = {k: set(v.split()) for k, v in V3.items()}
    result = document["results"][0]
    equal(set(document), wanted[""], "keys")
    equal(set(document["config"]), wanted["config"], "keys of config")
    equal(set(document["config"]["devices"][0]), wanted["device"], "keys of a device")
    equal(set(result), wanted["result"], "keys of a result")
    equal(set(result["in_place"]), wanted["half"], "keys of a placement")
    equal(set(result["in_place_per_iter"]), wanted["per_iter"], "keys of per-iteration times")
    equal(document["version"], 3, "version")
    equal(document["env"] or [], [], "env")
    equal(len(result["in_place_per_iter"]["times_us"]), 7, "times")
    equal(type(result["root"]), str, "type of root")
    equal(document["config"]["blocking_collectives"], "false", "blocking_collectives")
    expect("hunter2" not in again, "the environment is in the file")


@test
def standard_output_can_carry_csv_or_json():
    rows = list(csv.DictReader(passes("all_reduce -g 2 -b 8 -e 64 --csv -").out.splitlines()))
    equal([int(r["size_bytes"]) for r in rows], [8, 8, 16, 16, 32, 32, 64, 64], "sizes in CSV")
    equal(kinds_of(passes("all_reduce -g 2 -b 8 -e 64 --json -")), ["run"] + 8 * ["result"] + ["end"], "kinds")


@test
def what_follows_from_results_is_recorded():
    """Several algorithms: a winner per size and a crossover per pair, from the times of the results."""
    records = passes("all_reduce -g 3 -b 1K -e 64K -f 4 --algo ring,tree --json -").records()
    of = lambda kind: [r for r in records if r["kind"] == kind]
    times = {(r["algorithm"], r["size_bytes"]): r["time_us"] for r in of("result") if not r["in_place"]}
    sizes = sorted({size for _, size in times})
    equal([r["size_bytes"] for r in of("winner")], sizes, "sizes that have a winner")
    ahead = []
    for r in of("winner"):
        ring, tree = (times[name, r["size_bytes"]] for name in ("ring", "tree"))
        equal((r["algorithm"], r["time_us"]), min(("ring", ring), ("tree", tree), key=lambda one: one[1]), "winner")
        expect(abs(r["times_second"] - max(ring, tree) / min(ring, tree)) < 1e-6, f"{r} of {ring}, {tree}")
        ahead.append(r["algorithm"])
    crossing, = of("crossing")
    equal({crossing["ahead"], crossing["behind"]}, {"ring", "tree"}, "the pair")
    equal(crossing["ahead"], ahead[0], "ahead at first")
    changes = [(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 1) if ahead[i] != ahead[i + 1]]
    equal(len(crossing["crossing_bytes"]), len(changes), "crossings")
    for (low, high), at in zip(changes, crossing["crossing_bytes"]):
        expect(low <= at <= high, f"crossing at {at}, between {low} and {high}")
    alone = [json.loads(line)["kind"] for line in passes("all_reduce -g 3 -b 1K -e 4K --algo ring --json -").out.splitlines()]
    equal(set(alone) - {"counter"}, {"run", "result", "end"}, "kinds of one algorithm")


@test
def bandwidths_of_intervals_and_bounds():
    for r in map(json.loads, passes("all_gather -g 3 -b 1K -e 64K -f 4 --algo ring --json -").out.splitlines()):
        if r["kind"] == "result":
            for key, us in (("busbw_low_GBps", "ci_high_us"), ("busbw_high_GBps", "ci_low_us"), ("bound_busbw_GBps", "bound_us")):
                expect(abs(r[key] * r[us] / (r["busbw_GBps"] * r["time_us"]) - 1) < 1e-6, f"{key} {r[key]}, {us} {r[us]}")


@test
def arrivals_of_each_rank():
    """With -I each result has a record per rank; in each iteration some rank enters first."""
    run = passes("all_reduce -g 3 -b 1K -e 1K -n 7 -I 1 --json -")
    records = run.records()
    equal(kinds_of(run), ["run"] + 2 * (["result"] + 3 * ["arrival"]) + ["end"], "kinds")
    for i in (1, 5):
        equal([r["rank"] for r in records[i + 1:i + 4]], [0, 1, 2], "ranks")
        rows = [r["late_us"] for r in records[i + 1:i + 4]]
        equal([min(column) for column in zip(*rows)], 7 * [0], "how late the first rank is")
        late = [max(column) for column in zip(*rows)]
        expect(abs(max(late) - records[i]["skew_max_us"]) < 1e-6, f"{late} and skew_max_us {records[i]['skew_max_us']}")


@test
def numbers_follow_from_samples():
    """With -I all samples and arrivals are given, and with them every statistic of a row; -K leaves out the first samples alone."""
    n, size = 4, 1024
    records = passes(f"all_reduce -g {n} -b {size} -e {size} -n 9 -I 1 -K 2 --json -").records()

    def near(name, value, want):
        expect(abs(value - want) <= 1e-6 * abs(want) + 1e-6, f"{name}: {value} instead of {want}")

    for i in [i for i, r in enumerate(records) if r["kind"] == "result"]:
        r, samples = records[i], records[i]["samples_us"]
        kept = samples[2:]
        equal((len(samples), r["samples"], r["iterations"]), (9, 9, 9), "samples")
        for name, want in (("min_us", min(kept)), ("p50_us", statistics.median(kept)), ("max_us", max(kept)), ("mean_us", statistics.mean(kept)),
                           ("stdev_us", statistics.pstdev(kept)), ("cv_percent", 100 * statistics.pstdev(kept) / statistics.mean(kept)),
                           ("time_us", statistics.mean(r["rank_mean_us"])), ("algbw_GBps", size / r["time_us"] / 1e3),
                           ("busbw_GBps", 2 * (n - 1) / n * r["algbw_GBps"]), ("percent_of_bound", 100 * r["bound_us"] / r["time_us"])):  # fmt: skip
            near(name, r[name], want)
        expect(r["ci_low_us"] in kept and r["ci_high_us"] in kept, f"an interval of no samples: {r['ci_low_us']} to {r['ci_high_us']}")
        late = [[arrival["late_us"][k] for arrival in records[i + 1 : i + 1 + n]] for k in range(9)]
        last = [one.index(max(one)) for one in late]
        most = max(range(n), key=last.count)
        behind = [max(one) - sorted(one)[(n - 1) // 2] for one, rank in zip(late, last) if rank == most]
        for name, want in (("last_rank", most), ("last_share", last.count(most) / 9), ("last_late_us", statistics.mean(behind)),
                           ("skew_p50_us", statistics.median(map(max, late))), ("skew_max_us", max(map(max, late)))):  # fmt: skip
            near(name, r[name], want)


@test
def the_comparison():
    """Several algorithms end in a comparison with the winner of each size."""
    out = passes("all_reduce -g 4 -b 1K -e 64K -f 8 --algo ring,tree,auto").out
    for algorithm in ("ring", "tree", "auto"):
        expect(f"# Algorithm: {algorithm}\n" in out, f"no table of {algorithm}")
    block = out[out.index("# Comparison of all_reduce") :]
    sizes = re.findall(r"^# +(\d+K) .* (\w+) \d+\.\d+x", block, re.M)
    equal([size for size, _ in sizes], ["1K", "8K", "64K"], "sizes in the comparison")
    expect("auto chose" in block and "%" in block, "no choice or no bound in the comparison")
    expect("faster than" in block, "nothing about who overtakes whom")


@test
def skipped_sizes():
    """Sizes beyond the memory become lines, and the others run."""
    result = passes("all_reduce -g 64 -b 128 -e 128G -f 1073741824")
    result.prints("# skipped: auto 137438953472 B")
    equal([r.size for r in result.rows()], [128], "sizes that ran")


# ---- samples -------------------------------------------------------------------------------


@test
def a_sample_is_one_iteration_where_the_clock_does_not_matter():
    for line, apart in (
        ("all_reduce -g 2 -b 1M -e 1M -n 7", True),
        ("all_reduce -g 2 -b 8 -e 8 -n 7 -I 1", True),
        ("all_reduce -g 2 -b 8 -e 8 -n 40 -m 3", False),
        ("all_reduce -g 2 -b 8 -e 8 --precision 20%", False),
    ):
        records = passes(line + " --json -").records()
        for record in (r for r in records if r["kind"] == "result"):
            expect(0 < record["samples"] <= record["iterations"], f"{line}: {record}")
            if apart:
                equal(record["samples"], record["iterations"], line)
                equal(record["iterations"], 7, line)


# ---- progress ------------------------------------------------------------------------------


@test
def progress_counts_no_case_beyond_the_last():
    for line in (
        "all_reduce_perf --backend null -b 8 -e 16 -N 3",
        "ddp_bucket_perf -g 2 --backend null --buckets 25M --overlap on --step-time 1ms -n 5 --precision 0.001% "
        "--max-time 300ms",
    ):
        name, *words = line.split()
        text = on_terminal(100, [built(name), *words], stream="stderr")
        counts = [(int(a), int(b)) for a, b in re.findall(r"\[(\d+)/(\d+)\]", text)]
        expect(counts and all(a <= b for a, b in counts), f"{line}: {counts}")
        expect("about -" not in text, text)

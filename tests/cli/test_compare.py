"""acceptance compare: what became slower between two runs. Runs are simulated, with noise of known seeds."""

import gzip
import json
import os

from accept import Folder, acceptance
from kit import add, equal, expect, run, test

LINE = "all_reduce --backend sim --cluster hgx-h100:2 -b 1M -e 1G -f 32"
FAULT = "--fault lost_rail:0:2"


def measure(folder, side, seeds, more=""):
    """A folder with the records of runs with these seeds."""
    path = os.path.join(folder.name, side)
    os.makedirs(path, exist_ok=True)
    for seed in seeds:
        run(f"{LINE} --noise 2% --seed {seed} {more} --json {os.path.join(path, f'{seed}.jsonl')}").exits(0)
    return path


def verdict(result):
    return result.out.splitlines()[-1]


@test
def a_lost_rail():
    """Large sizes are slower by the interval, worst first, and the change is named."""
    with Folder() as f:
        before, after = measure(f, "before", range(1, 5)), measure(f, "after", range(5, 9), FAULT)
        result = acceptance("compare", before, after).exits(7)
    result.prints("# changed: fault: none -> lost_rail:0:2")
    expect("all_reduce auto float sum 1G out-of-place 16 ranks" in " ".join(result.out.split()), result)
    expect(max(map(len, result.out.splitlines()[2:])) <= 80, result)
    changes = [float(line.split("%")[0]) for line in result.out.splitlines() if line[0] != "#" and "%" in line[:10]]
    equal(changes, sorted(changes), "order")
    expect(-30 < changes[0] < -20, f"a rail of eight is lost and others share its bytes: {changes}")
    expect(verdict(result).startswith("Verdict: slower: "), verdict(result))


@test
def the_same_again():
    with Folder() as f:
        result = acceptance("compare", measure(f, "a", range(1, 5)), measure(f, "b", range(5, 9))).exits(0)
    equal(verdict(result), "Verdict: not slower by more than 5%: 6 of 6 results", "verdict")


def single(more, code, *said):
    """One run on each side."""
    with Folder() as f:
        paths = [os.path.join(f.name, name) for name in ("a.jsonl", "b.jsonl")]
        for path, fault in zip(paths, ("", FAULT)):
            run(f"{LINE} {more} {fault} --json {path}").exits(0)
        acceptance("compare", *paths).exits(code).prints(*said)


add("one run each", single, "--noise 2% -I 1", 7, "# One run on each side: the intervals hold within these runs")
add("without noise", single, "", 7, "% to -")
add("no interval", single, "--noise 2% -n 1", 7, "no interval", "# 6 without an interval", "are judged by their change alone")


def edited(path, target, change):
    """The records of PATH in the file TARGET, each changed by CHANGE(number of the result, record), which may return None."""
    n = 0
    with open(path, encoding="utf-8") as file, open(target, "w", encoding="utf-8") as out:
        for line in file:
            record = json.loads(line)
            if record["kind"] == "result":
                record, n = change(n, record), n + 1
            if record:
                out.write(json.dumps(record) + "\n")


def spread(factor):
    return lambda record: {**record, "ci_low_us": record["time_us"] / factor, "ci_high_us": record["time_us"] * factor}


@test
def an_answer_is_about_most_results():
    """Of 20 results 19 are too noisy, then 5, then 4: the last alone allows "not slower"; likewise with results that the
    second run lacks."""
    noisy, steady = spread(1.5), spread(1.001)
    with Folder() as f:
        whole, a, b = (os.path.join(f.name, name + ".jsonl") for name in ("whole", "a", "b"))
        run(f"all_reduce --backend sim --link 10GB/s,5us --noise 1% -g 4 -b 1K -e 512K -f 2 --json {whole}").exits(0)
        edited(whole, b, lambda n, r: steady(r))
        for too_noisy, code, said in (
            (19, 3, "Verdict: could not judge: 1 of 20 results can be judged, 80% are needed; 19 too noisy: repeat both sides"),
            (5, 3, "Verdict: could not judge: 15 of 20 results can be judged, 80% are needed; 5 too noisy: repeat both sides"),
            (4, 0, "Verdict: not slower by more than 5%: 16 of 20 results"),
        ):
            edited(whole, a, lambda n, r: (noisy if n < too_noisy else steady)(r))
            result = acceptance("compare", a, b).exits(code)
            equal(" ".join(("Verdict" + result.out.partition("Verdict")[2]).split()), said, "verdict")
        edited(whole, a, lambda n, r: steady(r))
        edited(whole, b, lambda n, r: steady(r) if n < 7 else None)
        result = acceptance("compare", a, b).exits(3)
        expect("7 of 20 results can be judged, 80% are needed; 13 only before: measure the same afterwards" in
               " ".join(result.out.split()), result)
        acceptance("compare", b, a).exits(0).prints("not slower by more than 5%: 7 of 7 results")


@test
def a_simulation_is_no_measurement():
    with Folder() as f:
        a, b = (os.path.join(f.name, name) for name in ("a.jsonl", "b.jsonl"))
        run(f"all_reduce -g 2 -b 8 -e 8 --json {a}").exits(0)
        run(f"all_reduce -g 2 -b 8 -e 8 --backend sim --link 10GB/s,5us --json {b}").exits(0)
        for pair in (a, b), (b, a):
            acceptance("compare", *pair).exits(3).prints("Verdict: could not judge: simulated and measured runs are not compared")


@test
def changes_of_every_run_are_named():
    """Not only those of the first run of a folder."""
    with Folder() as f:
        before, after = measure(f, "a", range(1, 4)), measure(f, "b", range(1, 3))
        run(f"{LINE} --noise 2% --seed 3 {FAULT} --json {os.path.join(after, '3.jsonl')}").exits(0)
        acceptance("compare", before, after).prints("# changed: fault: none -> none, lost_rail:0:2")


def with_counters(path, *moved):
    """Appends to the records of PATH one per counter that changed."""
    with open(path, "a", encoding="utf-8") as file:
        for host, device, counter, kind, by in moved:
            record = {"schema": 1, "kind": "counter", "run_id": "by-hand", "host": host, "device": device}
            record |= {"counter": counter, "class": kind, "before": 5, "after": 5 + by, "moved": by, "matters": True}
            file.write(json.dumps(record) + "\n")


@test
def counters_of_one_side():
    """Counters that rose on one side alone are reported, most serious first; falling and harmless ones are not."""
    errors, down = ("h1", "mlx5_0:1", "symbol_error", "symbol error"), ("h2", "eth0", "carrier_down_count", "link down")
    retransmits, speed = ("h1", "tcp", "RetransSegs", "retransmit"), ("h1", "cpu", "mean_MHz", "frequency")
    with Folder() as f:
        before, after = measure(f, "a", range(1, 3)), measure(f, "b", range(1, 3))
        with_counters(os.path.join(before, "1.jsonl"), (*retransmits, 7))
        with_counters(os.path.join(after, "1.jsonl"), (*errors, 3), (*down, 1), (*retransmits, 9), (*speed, 100))
        with_counters(os.path.join(after, "2.jsonl"), (*errors, 4), ("h3", "eth0", "rx_dropped", "discard", -5))
        forth = acceptance("compare", before, after).exits(0)
        back = acceptance("compare", after, before).exits(0)
    for result, side in ((forth, "after"), (back, "before")):
        equal(
            [line for line in result.out.splitlines() if line.startswith("# only")],
            [
                f"# only {side}: h2 eth0 carrier_down_count rose by 1 (link down)",
                f"# only {side}: h1 mlx5_0:1 symbol_error rose by 7 (symbol error)",
            ],
            "counters",
        )


@test
def nothing_in_common():
    with Folder() as f:
        paths = [os.path.join(f.name, name) for name in ("a.jsonl", "b.jsonl")]
        for path, name in zip(paths, ("broadcast", "reduce")):
            run(f"{name} -g 2 -b 8 -e 8 --json {path}").exits(0)
        acceptance("compare", *paths).exits(3).prints("Verdict: could not judge: nothing was measured on both sides")


@test
def wrong_data():
    with Folder() as f:
        paths = [os.path.join(f.name, name) for name in ("a.jsonl", "b.jsonl")]
        run(f"all_reduce -g 2 -b 8 -e 8 --json {paths[0]}").exits(0)
        run(f"all_reduce -g 2 -b 8 -e 8 --fault corrupt:1 --json {paths[1]}").exits(7)
        acceptance("compare", *paths).exits(7).prints("Verdict: wrong data in 2 results after")


@test
def bad_input():
    with Folder() as f:
        empty = os.path.join(f.name, "empty")
        os.makedirs(empty)
        acceptance("compare", empty).exits(2).says("compare: it takes two files or folders, BEFORE and AFTER; 1 given")
        acceptance("compare", empty, empty).exits(2).says(empty, "no record files (*.jsonl)")
        acceptance("compare", "/no/such", empty).exits(2).says("/no/such")
        log = os.path.join(f.name, "log")
        with open(log, "w", encoding="ascii") as file:
            file.write("no record\n")
        acceptance("compare", log, log).exits(2).says(f"{log} has no records; compare takes what --json wrote")
        acceptance("compare", empty, empty, "--tolerence", "5%").exits(2).says("--tolerence", "did you mean --tolerance")


@test
def logs_of_nccl_tests():
    """Logs are compared like records: rows of the same collective, type, size, placement and ranks."""
    head = "# Collective test starting: all_reduce_perf\n# size count type redop root time algbw busbw #wrong\n"
    row = "{0} {1} float sum -1 {2:.1f} {3:.2f} {4:.2f} 0 {2:.1f} {3:.2f} {4:.2f} {5}\n"

    def log(speed, wrong=0):
        sizes = (1 << 28, 1 << 29, 1 << 30)
        return head + "".join(row.format(s, s // 4, s / speed / 1e3, speed, 1.75 * speed, wrong) for s in sizes)

    with Folder() as f:
        fast, slow, wrong = f.write("a.log", log(270)), f.write("b.log", log(200)), f.write("c.log", log(270, 3))
        packed = f.name + "/a.log.gz"
        with gzip.open(packed, "wb") as file:
            file.write(log(270).encode())
        acceptance("compare", packed, fast).exits(0).prints("# 6 compared: 0 slower", "Verdict: not slower by more than 5%: 6 of 6")
        acceptance("compare", fast, slow).exits(7).prints("all_reduce library float 1G", "Verdict: slower: 6 of 6")
        acceptance("compare", fast, wrong).exits(7).prints("Verdict: wrong data in 3 results after")


@test
def what_gates_expect_is_not_measured():
    """Of a run of acceptance, the records that the simulator wrote for a gate are left out."""
    with Folder() as f:
        paths = [os.path.join(f.name, side, "records") for side in ("a", "b")]
        for path in paths:
            os.makedirs(path)
            run(f"{LINE} --json {os.path.join(path, 'ring.1.jsonl')}").exits(0)
        run(f"{LINE} {FAULT} --json {os.path.join(paths[1], 'ring.sim1.jsonl')}").exits(0)
        acceptance("compare", *map(os.path.dirname, paths)).exits(0).prints("# 6 compared: 0 slower by more than 5%, 0 slower by less")


def every_record(line, *fields):
    """Each record of a training kernel has a name of its own, also those that differ in FIELDS alone."""
    with Folder() as f:
        path = os.path.join(f.name, "run.jsonl")
        run(f"{line} --backend sim --link 10GB/s,5us --json {path}").exits(0)
        with open(path, encoding="utf-8") as file:
            records = [r for r in map(json.loads, file) if all(field in r for field in fields)]
        expect(len(records) > 1, f"{len(records)} records with {fields}")
        acceptance("compare", path, path, "--all").exits(0).prints(f"# {len(records)} compared: 0 slower")


add("parts of a layer", every_record, "tensor_parallel -g 4", "part", "scheme")
add("parts of a division", every_record, "hybrid_parallel -g 8", "part", "tp")
add("loads of experts", every_record, "moe_alltoall -g 4 --skew 0,1 --capacity 1.25", "skew", "capacity")

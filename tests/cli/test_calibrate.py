"""Predictions fitted to records: exact where times follow a law, refused without a basis."""

import json
import math
import os
import random
import statistics
import tempfile

from kit import expect, run, test

LINK = "--backend sim --link 10G,5us"


def records(line):
    return run(f"{line} --json -").exits(0).records()


def write(folder, lines):
    path = os.path.join(folder, "runs.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return path


def links(line):
    """Records of virtual links on a machine with a processor per rank, which the model can fit exactly."""
    return [{**r, "cores": 64} if r["kind"] == "run" else r for r in records(line.format(LINK))]


def off(known, line):
    """Errors of predictions from KNOWN."""
    with tempfile.TemporaryDirectory() as folder:
        predicted = times(records(line.format(f"--backend sim --calibrate {write(folder, known)}")))
    return max(abs(predicted[key] / time - 1) for key, time in times(records(line.format(LINK))).items())


def times(found):
    return {(r["algorithm"], r["size_bytes"], r["in_place"]): r["time_us"] for r in found if r["kind"] == "result"}


@test
def other_sizes():
    """Every fourth size of virtual runs predicts the sizes between."""
    sweep = "all_reduce {} -g 4 -b 1K -e 64M -f {} --algo ring,halving_doubling"
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, records(sweep.format(LINK, 4)))
        predicted = times(records(sweep.format(f"--backend sim --calibrate {path}", 2)))
        for key, time in times(records(sweep.format(LINK, 2))).items():
            expect(abs(predicted[key] / time - 1) < 1e-4, f"{key}: {predicted[key]} instead of {time}")
        out = run(f"all_reduce --backend sim --calibrate {path} -g 4 -b 1K -e 1M -f 32 --algo all").exits(0).out
        expect("# Calibration: 36 results, off by" in out, "residuals are not told")
        expect("all_reduce ring 4 ranks in-place: 9 results, off by" in out, "residuals of a series are not told")
        expect("other collectives: not tested, one collective was measured" in out, "what could not be tested is not told")
        (r, _) = [r for r in records(f"all_reduce --backend sim --calibrate {path} -g 4 -b 1M -e 1M") if r["kind"] == "result"]
        expect(r["algorithm"] in ("ring", "halving_doubling"), f"{r['algorithm']} was not measured")


def noisy(line, noise, seed):
    """Records of virtual links, each time of which has its own factor with this standard deviation."""
    draw = random.Random(seed)
    return [{**r, "time_us": r["time_us"] * math.exp(draw.gauss(0, noise)), "p50_us": None} if r["kind"] == "result" else r
            for r in links(line)]


def held(known, line, noise):
    """The share of times of LINE, with the same noise, inside their predicted intervals; median half-width."""
    truth = times(noisy(line, noise, 7))
    with tempfile.TemporaryDirectory() as folder:
        predicted = [r for r in records(line.format(f"--backend sim --calibrate {write(folder, known)}")) if r["kind"] == "result"]
    ends = [(r["predicted_low_us"], truth[r["algorithm"], r["size_bytes"], r["in_place"]], r["predicted_high_us"], r["time_us"])
            for r in predicted]
    return (sum(low <= time <= high for low, time, high, _ in ends) / len(ends),
            statistics.median((high - low) / 2 / time for low, _, high, time in ends))


@test
def intervals():
    """Intervals follow the noise of the records, hold times of sizes that were left out, and are absent without a basis."""
    sweep = "all_reduce {} -g 4 -b 1K -e 64M -f %d --algo ring,halving_doubling"
    widths = []
    for noise in (0.02, 0.1):
        share, width = held(noisy(sweep % 4, noise, 1), sweep % 2, noise)
        expect(share >= 0.85, f"noise of {noise}: {share} are inside")
        widths.append(width)
    expect(0.02 < widths[0] < 0.1 < widths[1] < 0.5, f"half-widths {widths}")
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, links("all_reduce {} -g 4 -b 1K -e 64K -f 4 --algo ring"))
        line = f"all_reduce --backend sim --calibrate {path} -g 4 -b 1K -e 64K -f 4 --algo ring"
        few = [r for r in records(line) if r["kind"] == "result"]
        out = run(line).exits(0).out
    expect(all(r["predicted_low_us"] is None for r in few), "4 sizes give an interval")
    expect("Interval" not in out, "an interval is told")


@test
def names_of_libraries():
    """Results of NCCL or its model are not used for a schedule of the same name."""
    known = records("all_reduce --backend sim --cluster hgx-h100:2 -b 1M -e 16M --algo ring,busbench:ring")
    for backend in ("sim", "nccl"):
        told = [{**r, "backend": backend} if r["kind"] == "run" else r for r in known]
        if backend == "nccl":
            told = [{**r, "library_algorithm": None} if r["kind"] == "result" else r for r in told]
        with tempfile.TemporaryDirectory() as folder:
            out = run(f"all_reduce --backend sim --calibrate {write(folder, told)} -g 4 -b 1M -e 1M --algo ring").exits(0).out
        expect("# Calibration: 10 results, " in out and "; 10 results are not of schedules" in out, out)


@test
def known_truth():
    """Pipelined trees, a schedule seen only among fewer ranks, another collective, more ranks."""
    sweep = "all_reduce {} -g %d -b 1K -e 16M -f %d --algo %s"
    known = [r for n in (2, 4) for r in links(sweep % (n, 4, "ring,halving_doubling,tree"))]
    expect(off(known, sweep % (4, 2, "ring,halving_doubling")) < 0.005, "sizes between")
    expect(off(known, sweep % (4, 2, "tree")) < 0.1, "sizes between of a pipelined tree")
    fewer = [r for r in known if r["kind"] != "result" or r["nranks"] == 2 or r["algorithm"] != "halving_doubling"]
    expect(off(fewer, sweep % (4, 2, "halving_doubling")) < 0.02, "a schedule that was seen among 2 ranks")
    expect(off(known, "all_gather {} -g 4 -b 1K -e 4M -f 4 --algo ring") < 0.25, "another collective")
    counts = [r for n in (2, 4) for r in links(f"all_gather {{}} -g {n} -b 64K -e 16M -f 4 --algo ring")]
    expect(off(counts, "all_gather {} -g 8 -b 1M -e 16M -f 4 --algo ring") < 0.25, "more ranks than were seen")


@test
def rounds_are_not_bytes():
    """The time of a round does not count as slow bytes of short messages."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, links("all_reduce {} -g 4 -b 1K -e 1M -f 4 --algo ring,halving_doubling"))
        out = run(f"all_reduce --backend sim --calibrate {path} -g 4 -b 1K -e 1K --algo ring").exits(0).out
    expect("# Calibration: a round takes 5.00 us among 4 ranks" in out, out)


@test
def real_records():
    """In a real run too, each known size is predicted as measured."""
    with tempfile.TemporaryDirectory() as folder:
        found = records("all_reduce --backend host -g 2 -b 4K -e 64K -f 4 --algo ring,direct -n 5")
        path = write(folder, found)
        out = run(f"all_reduce --backend sim --calibrate {path} -g 2 -b 4K -e 64K -f 4 --algo ring").exits(0).out
        expect("6 results are not of schedules" in out, "direct is none of the schedules")
        got = times(records(f"all_reduce --backend sim --calibrate {path} -g 2 -b 4K -e 64K -f 4 --algo ring"))
        for r in found:
            if r["kind"] == "result" and r["algorithm"] == "ring":
                time = r["p50_us"] if r["samples"] > 1 else r["time_us"]
                expect(abs(got["ring", r["size_bytes"], r["in_place"]] / time - 1) < 1e-6, "a known size is off")


@test
def medians():
    """The text names the fitted medians, because the table of the run prints means."""
    line = "all_reduce --backend sim --calibrate {} -g 4 -b 1K -e 64K -f 4 --algo ring"
    with tempfile.TemporaryDirectory() as folder:
        known = records(f"all_reduce {LINK} -g 4 -b 1K -e 64K -f 4 --algo ring")
        results = [r for r in known if r["kind"] == "result"]
        for single, words in ((len(results), None), (1, "; fitted to medians, 1 to the only sample"), (0, "; fitted to medians")):
            for i, r in enumerate(results):
                r["samples"], r["p50_us"] = (1, r["time_us"]) if i < single else (5, 3 * r["time_us"])
            out = run(line.format(write(folder, known))).exits(0).out
            (told,) = [text for text in out.splitlines() if " results, off by " in text and " ranks " not in text]
            expect(told.endswith(words) if words else "fitted" not in told, f"{told}: {words} expected")
        got = times(records(line.format(write(folder, known))))
        expect(all(abs(got[key] / time / 3 - 1) < 1e-6 for key, time in times(known).items()), "medians are not what is fitted")


@test
def numbers_out_of_range():
    """A result whose numbers no run can have is left out and counted; the others are fitted as without it."""
    known = links("all_reduce {} -g 4 -b 1K -e 64K -f 4 --algo ring")
    line = "all_reduce --backend sim --calibrate {} -g 4 -b 1K -e 64K -f 2 --algo ring"
    with tempfile.TemporaryDirectory() as folder:
        plain = times(records(line.format(write(folder, known))))
    last = [r for r in known if r["kind"] == "result"][-1]
    for key, value in (("count", 1e30), ("count", -1), ("count", 2**50), ("chunk_bytes", 1e30), ("chunk_bytes", -8),
                       ("nranks", 1e9), ("size_bytes", 1e400), ("time_us", 1e999), ("time_us", 0)):
        wrong = json.dumps({**last, key: value}).replace("Infinity", "1e999") + "\n"
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, [*known, wrong])
            out = run(line.format(path)).exits(0).out
            expect("; 1 result" in out, f"{key} {value}: {out}")
            expect(times(records(line.format(path))) == plain, f"{key} {value} moves predictions")


@test
def refused():
    with tempfile.TemporaryDirectory() as folder:
        empty = write(folder, ["", "no JSON\n", "{\n", '{"kind":"result"}\n', '{"kind":"result","x":[{"y":"}'])
        run(f"all_reduce --backend sim --calibrate {empty} -g 2").exits(2).says("has 0 results", "--json FILE")
        run("all_reduce --backend sim --calibrate tests/logs/h100.txt -g 2").exits(2).says("format of nccl-tests", "--cluster")
        run("all_reduce --backend sim --calibrate nowhere -g 2").exits(2).says("nowhere")
        path = write(folder, records(f"all_reduce {LINK} -g 4 -b 1K -e 1M -f 4 --algo ring"))
        run(f"all_reduce --backend host --calibrate {path} -g 2").exits(5).says("--backend sim")
        run(f"all_reduce {LINK} --calibrate {path} -g 2").exits(2).says("give one")
        run(f"all_reduce --backend sim --cluster hgx-h100:1 --calibrate {path}").exits(2).says("give one")
        run(f"alltoallv --backend sim --calibrate {path} -g 4 -b 1M -e 1M").exits(5).says("several sizes")
        run(f"pipeline --backend sim --calibrate {path} -g 4").exits(5).says("--calibrate is for collectives")

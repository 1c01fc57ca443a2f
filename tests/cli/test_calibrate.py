"""Predictions fitted to records: exact where times follow a law, refused without a basis."""

import json
import math
import os
import random
import re
import statistics
import sys
import tempfile

from kit import ROOT, built, execute, expect, run, test

sys.path.insert(0, os.path.join(ROOT, "studies", "validate"))
import calibrated as validate_calibrated  # noqa: E402
import sim as validate_sim  # noqa: E402

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
        found = [held(noisy(sweep % 4, noise, seed), sweep % 2, noise) for seed in range(1, 9)]
        share = statistics.mean(share for share, _ in found)
        expect(0.87 <= share <= 0.97, f"noise of {noise}: {share} are inside")
        widths.append(statistics.median(width for _, width in found))
    expect(0.02 < widths[0] < 0.1 < widths[1] < 0.5, f"half-widths {widths}")
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, links("all_reduce {} -g 4 -b 1K -e 64K -f 4 --algo ring"))
        line = f"all_reduce --backend sim --calibrate {path} -g 4 -b 1K -e 64K -f 4 --algo ring"
        few = [r for r in records(line) if r["kind"] == "result"]
        out = run(line).exits(0).out
    expect(all(r["predicted_low_us"] is None for r in few), "4 sizes give an interval")
    expect("# ring from 1K on: unknown, no comparable measurements" in out, out)


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
                       ("nranks", 1e9), ("size_bytes", 1e400), ("time_us", 1e999), ("time_us", 0),
                       ("time_us", 1e300), ("time_us", 1e-9)):
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
        run("all_reduce --backend sim --calibrate tests/logs/h100.txt -g 2").exits(2).says("log of nccl-tests", "--cluster")
        run("all_reduce --backend sim --calibrate nowhere -g 2").exits(2).says("nowhere")
        path = write(folder, records(f"all_reduce {LINK} -g 4 -b 1K -e 1M -f 4 --algo ring"))
        run(f"all_reduce --backend host --calibrate {path} -g 2").exits(5).says("--backend sim")
        run(f"all_reduce {LINK} --calibrate {path} -g 2").exits(2).says("exclude each other")
        run(f"all_reduce --backend sim --cluster hgx-h100:1 --calibrate {path}").exits(2).says("has 0 results of NCCL", "12 others")
        run(f"alltoallv --backend sim --calibrate {path} -g 4 -b 1M -e 1M").exits(5).says("several sizes")
        run(f"pipeline --backend sim --calibrate {path} -g 4").exits(5).says("--calibrate is for collectives")


# ---- NCCL on a cluster ----------------------------------------------------------------------------------------------

LOGS = os.path.join(ROOT, "tests", "logs")


def log(name):
    with open(os.path.join(LOGS, name), encoding="utf-8") as file:
        return file.readlines()


def is_row(line):
    return line[:1] == " " and line.split()[:1][0].isdigit()


def row(size, us, factor=1.75):
    """A row of nccl-tests with both halves alike."""
    half = f"{us:.2f} {size / us / 1e3:.2f} {size / us / 1e3 * factor:.2f} 0"
    return f" {size} {size // 4} float sum -1 {half} {half}\n"


def rows(lines, changed):
    """The log with CHANGED(row) for each row."""
    return [changed(line) if is_row(line) else line for line in lines]


def calibrated(lines, line, cluster="hgx-h100:1"):
    """A run calibrated by the log of these LINES."""
    with tempfile.TemporaryDirectory() as folder:
        return run(f"{line} --backend sim --cluster {cluster} --calibrate {write(folder, lines)}")


def measured_times(lines):
    found = {}
    for words in (line.split() for line in lines if is_row(line)):
        found.update({(int(words[0]), False): float(words[5]), (int(words[0]), True): float(words[9])})
    return found


@test
def log_of_nccl_tests():
    """Known sizes are predicted as measured, sizes left out within their intervals, and the text names what is unknown."""
    sweep = "all_reduce -g 8 -b 1M -e 16G -f 2"
    lines = log("h100.txt")
    out = calibrated(lines, sweep).exits(0).out
    for words in ("Calibration: 30 results", "Not fitted: nic_efficiency = 97.6%: no result is of several nodes",
                  "do not name NCCL's choices", "sizes between measured ones: 13 left out in turn",
                  "other collectives: not tested, one collective was measured", "nine in ten measurements should lie"):
        expect(words in out, f"{words}: {out}")
    truth = measured_times(lines)
    sizes = sorted({size for size, _ in truth})
    for known in (sizes, sizes[::2]):
        part = [line for line in lines if not is_row(line) or int(line.split()[0]) in known]
        found = [r for r in calibrated(part, sweep + " --json -").exits(0).records() if r["kind"] == "result"]
        inside = 0
        for r in found:
            time = truth[r["size_bytes"], r["in_place"]]
            inside += r["predicted_low_us"] <= time <= r["predicted_high_us"]
            expect((r["left_out_us"] is not None) == (r["size_bytes"] in known), f"{r['size_bytes']}: {r['left_out_us']} without it")
            expect(r["measured_us"] is None or abs(r["measured_us"] / time - 1) < 1e-9, "the measured time is not the log's")
            expect(r["size_bytes"] not in known or abs(r["time_us"] / time - 1) < 1e-3, f"{r['size_bytes']}: a known size is off")
        expect(len(found) == 30 and inside >= 27, f"{inside} of {len(found)} times are inside")


@test
def figures_of_a_site():
    """Planted figures of a cluster are found again in its simulated times, and serve a collective that was not measured,
    whose interval includes that of the cluster as described."""
    planted = "system = hgx-h100\nnodes = 4\nnic_efficiency = 70%\nnccl_nic_latency = 30us\n"
    sweep = "{} --backend sim --cluster {} -b 64K -e 16G -f 4"
    with tempfile.TemporaryDirectory() as folder:
        site = os.path.join(folder, "site.txt")
        with open(site, "w", encoding="utf-8") as file:
            file.write(planted)
        path = write(folder, records(sweep.format("all_reduce", site)))
        more = f" --calibrate {path}"
        out = run(sweep.format("all_reduce", "hgx-h100:4") + more).exits(0).out
        found = {name: float(value) for name, value in re.findall(r"# Fitted: (\w+) = ([0-9.]+)", out)}
        expect(abs(found.get("nic_efficiency", 0) - 70) < 3, f"{found}: nic_efficiency")
        expect(abs(found.get("nccl_nic_latency", 0) - 30) < 3, f"{found}: nccl_nic_latency")
        expect("are simulated, not measured" in out, "simulated results pass for measured ones")
        truth = times(records(sweep.format("all_gather", site)))
        plain = records(sweep.format("all_gather", "hgx-h100:4"))
        wide = records(sweep.format("all_gather", "hgx-h100:4") + more)
        described, fitted = times(plain), times(wide)
        for a, b in zip(wide, plain):
            if a["kind"] == "result":
                both = min(a["predicted_low_us"], b["predicted_low_us"]), max(a["predicted_high_us"], b["predicted_high_us"])
                near = abs(both[0] / a["predicted_low_us"] - 1) + abs(both[1] / a["predicted_high_us"] - 1)
                expect(near < 0.1, f"{a} does not include {b}")
        off = [statistics.median(abs(some[key] / time - 1) for key, time in truth.items()) for some in (described, fitted)]
        expect(off[0] > 0.2 and off[1] < 0.03, f"all_gather is off by {off[0]} as described, {off[1]} fitted")
        run(f"ddp_bucket --model gpt2 --backend sim --cluster hgx-h100:4 --buckets 25M{more}").exits(0)


@test
def latency_of_a_plug_in():
    """It is found again where the model has a usual one for the NICs, which the text names."""
    with tempfile.TemporaryDirectory() as folder:
        execute([built("topology"), "--system", "aws-p5", "--export", os.path.join(folder, "efa.xml")]).exits(0)
        for name, stated in (("usual", ""), ("slow", "nccl_nic_latency = 50us\n")):
            with open(os.path.join(folder, f"{name}.txt"), "w", encoding="utf-8") as file:
                file.write(f"topology = {folder}/efa.xml\nnodes = 2\n{stated}")
        sweep = f"all_reduce --backend sim -b 64 -e 1G -f 4 --cluster {folder}/"
        path = write(folder, records(sweep + "slow.txt"))
        out = run(f"{sweep}usual.txt --calibrate {path}").exits(0).out
    found = re.search(r"# Fitted: nccl_nic_latency = ([0-9.]+)us, described as 20.0us", out)
    expect(found and abs(float(found[1]) - 50) < 2, out)


@test
def records_of_nccl():
    """Records of the nccl backend name GPUs and hosts; a split has part of the ranks; its busbench:ring is not NCCL's."""
    known = records("all_reduce --backend sim --cluster hgx-h100:2 -b 1M -e 1G -f 4 --algo auto,ring:Simple,busbench:ring")

    def told(gpu, hosts):
        ranks = [{"rank": i, "host": f"n{i * hosts // 16}", "device": i % 8, "name": gpu} for i in range(16)]
        change = {"run": {"backend": "nccl", "virtual_time": False, "ranks": ranks}, "result": {"evaluator": None}}
        some = [{**r, **change.get(r["kind"], {})} for r in known if r["kind"] in change]
        return calibrated(some, "all_reduce -g 16 -b 1M -e 1M --algo auto,ring:Simple", "hgx-h100:2")

    out = told("NVIDIA H100 80GB HBM3", 2).exits(0).out
    for words in ("Calibration: 24 results", "12 results, not of NCCL", "all_reduce ring:Simple 16 ranks on 2 nodes in-place: 6 results"):
        expect(words in out, f"{words}: {out}")
    expect("no known GPU" not in out and "simulated, not" not in out, "a measured run on H100")
    told("NVIDIA A100-SXM4-80GB", 2).exits(2).says("NVIDIA A100", "--cluster dgx-a100")
    told("NVIDIA H100 80GB HBM3", 4).exits(2).says("16 ranks on 4 nodes", "give more nodes")


@test
def operation_of_the_log():
    """A log of avg, in text or as records, is compared with the ring that NCCL uses for it, not with NVLS."""
    line = "all_reduce --backend sim --cluster hgx-h100:1 -b 256M -e 4G -f 2 -o avg"
    text = run(line).exits(0).out.splitlines(keepends=True)
    for known in text, records(line):
        with tempfile.TemporaryDirectory() as folder:
            out = run(f"{line} --calibrate {write(folder, known)}").exits(0).out
            expect("# Calibration: 10 results, off by 0.0%" in out and "Unlike" not in out, out)


@test
def bad_logs():
    """What a log lacks or gets wrong is named; a log of another machine is refused."""
    line, lines = "all_reduce -g 8 -b 1M -e 1M", log("h100.txt")
    bare = [text for text in lines if is_row(text)]
    expect("name no known GPU" in calibrated(bare, line).exits(0).out, "a log without GPUs")
    expect("1 row is cut off, the first in line 31" in calibrated(log("h100-truncated.txt"), line).exits(0).out, "a truncated log")
    swapped = rows(lines, lambda text: text.replace(text.split()[6], "1.00", 1))
    expect("15 rows, whose algbw is not size over time" in calibrated(swapped, line).exits(0).out, "implausible rows")
    late = [*bare, row(1 << 31, 8463.8 * 30)]
    expect("2 times, more than 10 times as long" in calibrated(late, line).exits(0).out, "a time far off")
    slow = rows(lines, lambda text: row(int(text.split()[0]), 2.5 * float(text.split()[5])))
    expect("Unlike --cluster hgx-h100:1: 30 of 30 results" in calibrated(slow, line).exits(0).out, "another machine")
    short = rows(lines, lambda text: row(int(text.split()[0]), float(text.split()[5]) / 1e3))
    calibrated(short, line).exits(2).says("more than 10 times", "not microseconds")
    calibrated(log("a100.txt"), line).exits(2).says("NVIDIA A100", "has H100", "--cluster dgx-a100")
    calibrated(log("h100-two-nodes.txt"), line).exits(2).says("16 ranks on 2 nodes", "give more nodes")
    half = [text for text in lines if not re.match(r"#  Rank  [4-7]", text)]
    calibrated(half, line).exits(2).says("has 4 ranks, but busbw / algbw of its rows means 8")
    calibrated(bare[:1], line).exits(2).says("has 2 results of NCCL among several ranks, of at least 3")
    calibrated(["\0".join(text) for text in lines], line).exits(2).says("UTF-16")
    calibrated([], line).exits(2).says("nor a table of nccl-tests")
    calibrated(bare, "all_reduce -b 1M -e 1M", "mi300x-x8:1").exits(5).says("no model of NCCL")


@test
def published_runs():
    """Of the published rows of AWS p5, a part of the sizes halves the errors of the others below 256 MiB, and intervals hold
    nine in ten of each part left out."""
    rules, rows = validate_sim.read("model_rows.csv"), list(validate_sim.published())
    for r in rows:
        validate_sim.settle(r, validate_sim.rule_of(r, rules))
    rows = [r for r in rows if r["what"] in ("model", "fit") and validate_sim.machine(r["system"]) == "aws_p5"]
    build = os.path.dirname(built("all_reduce_perf"))
    validate_sim.predict(build, rows)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as clusters:
        validate_sim.strip_sites(clusters)
        found = list(validate_calibrated.lines(build, rows, folder, clusters))
    expect(len(found) >= 6, f"{len(found)} parts")
    for part in found:
        name = f"{part['known']} for {part['predicted']} {part['sizes']}"
        expect(float(part["inside"]) >= 0.9, f"{name}: {part['inside']} are inside")
        if part["known"].startswith("every") and part["sizes"].startswith("below"):
            expect(float(part["median"]) < 0.5 * float(part["plain_median"]), f"{name}: {part['median']}, {part['plain_median']} without")

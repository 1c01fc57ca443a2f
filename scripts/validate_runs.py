#!/usr/bin/env python3
"""Predict published training runs with hybrid_parallel_perf --plan, and compare the times of a step.

Each run of reports/reference/training_runs.csv is predicted with its own division. The only fitted number is the share
of the peak that matrix products reach, one for each kind of GPU and number format: the median of the sources' medians.
Each source is also predicted with the share of all others. Prints a table of every run in Markdown; what is left out is
there with its reason."""

import argparse
import csv
import json
import os
import statistics
import subprocess
import tempfile

from validate_sim import table

REFERENCE = os.path.join(os.path.dirname(__file__), "..", "reports", "reference")
# The division is given and ran, so memory decides nothing.
MEMORY = "16T"

INTRODUCTION = """# Published training runs

Written by `make validate` (scripts/validate_runs.py). `hybrid_parallel_perf --plan` predicts the time of a step of
published training runs ([data](../reports/reference/training_runs.csv)), each with its own division, and with links and
peaks of [its system](../reports/reference/training_systems.csv). {compared} of {all} runs are compared; the others have
their reason in the last column.

One number is fitted for each GPU and number format: the share of the peak that matrix products reach, the median of the
sources' medians. *source left out*: with the share of all other sources. *own share*: the share with which the run
takes its published time; none: communication alone takes longer. Errors are predicted / published - 1.

Some inputs are not in the sources. Memory moves at 86 to 90% of the datasheet's rate, as copies reach. What overlaps
follows from the software: nothing in Megatron-LM before 2023, data parallelism in FSDP and DeepSpeed's ZeRO-3, all in NeMo
and Megatron-Bridge. Attention of FP8 runs counts at the FP8 rate, though it is computed in 16 bits.

Misses above 15%, with likely reasons, none of them measured:

- P1 to P5: the times of DeepSpeed's ZeRO-3 of 2021 are those of 16 GB/s a GPU. NCCL's rings over all NICs of a node carry
  up to eight times as much, and the prediction assumes them.
- K6 and K7: wide matrices (25600) reach a higher share of the peak than narrow ones; the share here is one.
- B11: tensor parallelism of 8 with micro-batches of 2, where the matrices of a GPU are narrow. B2, at 14%, is alike.
- MO 1b, 3b and 7b: steps below 1.3 s may have a fixed part (kernel launches, synchronization, data) without a model.
"""


def read(name):
    with open(os.path.join(REFERENCE, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SYSTEMS = {row["name"]: row for row in read("training_systems.csv")}


class Planner:
    """Predictions of a build, by rate of computations."""

    def __init__(self, build):
        self.binary = os.path.join(build, "hybrid_parallel_perf")

    def command(self, run, flops):
        system = SYSTEMS[run["fabric"]]
        yield from (self.binary, "--plan", "--fixed", "--model", run["model"], "--ranks", run["gpus"], "--node", run["node"])
        yield from ("--order", run["order"], "--tp", run["tp"], "--pp", run["pp"], "--dp", run["dp"])
        yield from ("--batch", run["batch"], "--micro-batch", run["micro_batch"], "--recompute", run["recompute"])
        yield from ("--zero", run["zero"], "--memory", MEMORY, "--flops", f"{flops / 1e12:.6f}T")
        yield from ("--link", system["inside"], "--node-link", system["between"])
        yield from ("--virtual-stages", run["vp"], "--cp", run["cp"], "--attention", run["attention"])
        yield from ("--overlap", run["overlap"], "--memory-rate", system["memory_GBps"] + "GB/s")
        if run["sequence_parallel"] == "1":
            yield "--sequence-parallel"

    def record(self, run, flops):
        """The planned division of RUN at FLOPs per second, or the reason why there is none."""
        with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as file:
            done = subprocess.run([*self.command(run, flops), "--json", file.name], capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                return None, done.stderr.strip().splitlines()[-1]
            records = map(json.loads, file)
            return next(line for line in records if line["kind"] == "hybrid_plan"), None

    def seconds(self, run, share):
        record, reason = self.record(run, share * 1e12 * float(SYSTEMS[run["gpu"]]["peak_TFLOPS"]))
        if record is None:
            raise SystemExit(f"{run['id']}: {reason}")
        return 1e-6 * record["step_us"]

    def share(self, run):
        """The share of the peak with which RUN takes its published time, by secants: the time of a step is
        piecewise linear in the time of a FLOP. None: it takes longer even with instant computations."""
        published = float(run["step_s"])
        x, y = 2.0, self.seconds(run, 0.5)
        before, at = 1.0, self.seconds(run, 1.0)
        for _ in range(20):
            if abs(y - published) < 1e-6 * published:
                return 1 / x
            slope = (y - at) / (x - before)
            before, at = x, y
            x += (published - y) / slope if slope > 0 else 1.0
            if x <= 1e-3:
                return None
            y = self.seconds(run, 1 / x)
        return 1 / x


def median_share(runs):
    """The median of the medians of the sources, so that a source with many runs does not count more."""
    sources = {}
    for run in runs:
        sources.setdefault(run["source"], []).append(run["share"] or 1.0)
    return statistics.median(statistics.median(shares) for shares in sources.values())


def quantile(values, share):
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def errors_of(runs, key):
    errors = [abs(run[key]) for run in runs if run[key] is not None]
    if not errors:
        return ["0", "", "", ""]
    return [str(len(errors)), *(f"{100 * quantile(errors, share):.1f} %" for share in (0.5, 0.9, 1))]


def predict(planner, runs):
    """Adds to each of RUNS its own share of the peak, and the errors with those of its generation."""
    for run in runs:
        run["share"] = planner.share(run)
    for run in runs:
        same = [other for other in runs if other["gpu"] == run["gpu"]]
        others = [other for other in same if other["source"] != run["source"]]
        run["predicted"] = planner.seconds(run, median_share(same))
        run["error"] = run["predicted"] / float(run["step_s"]) - 1
        run["left"] = planner.seconds(run, median_share(others)) / float(run["step_s"]) - 1 if others else None


def summary(runs):
    sets = [("all", runs)]
    sets += [(name, [run for run in runs if run["gpu"] == name])
             for name in dict.fromkeys(run["gpu"] for run in runs)]
    sets += [(name, [run for run in runs if run["source"] == name])
             for name in dict.fromkeys(run["source"] for run in runs)]
    for name, some in sets:
        share = f"{median_share(some):.3f}" if name != "all" else ""
        yield [name, share, *errors_of(some, "error"), *errors_of(some, "left")]


def rows(runs):
    for run in runs:
        division = "/".join(run[key] for key in ("tp", "pp", "vp", "cp", "dp"))
        cells = [run["id"], run["source"], run["gpu"], run["gpus"], division, run["micro_batch"], run["step_s"]]
        if "error" in run:
            left = "" if run["left"] is None else f"{100 * run['left']:+.1f} %"
            share = f"{run['share']:.3f}" if run["share"] else "none"
            yield [*cells, f"{run['predicted']:.4g}", f"{100 * run['error']:+.1f} %", left, share]
        else:
            yield [*cells, "", "", "", run["reason"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default="build")
    args = parser.parse_args()
    runs = read("training_runs.csv")
    for run in runs:
        run["reason"] = run["left_out"]
    compared = [run for run in runs if not run["reason"]]
    predict(Planner(args.build), compared)
    print(INTRODUCTION.format(compared=len(compared), all=len(runs)))
    print("\n".join(table(["runs", "share of peak", "n", "median", "90 %", "most", "n left out", "median", "90 %", "most"],
                          summary(compared))))
    print()
    print("\n".join(table(["run", "source", "GPU", "GPUs", "t/p/v/c/d", "b", "published s", "predicted s", "error",
                           "source left out", "own share, or reason"], rows(runs))))


if __name__ == "__main__":
    main()

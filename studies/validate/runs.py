#!/usr/bin/env python3
"""Predict published training runs with hybrid_parallel_perf --plan, and compare the times of a step.

Each run of reports/reference/training_runs.csv is predicted with its own division. The only fitted number is the share
of the peak that matrix products reach, one for each kind of GPU and number format: the median of the sources' medians.
No CPU launches a layer with experts faster than the fastest of their runs, so that run sets the time of a launch.
Each source is also predicted with the share of all others. Prints a table of every run in Markdown; what is left out is
there with its reason."""

import argparse
import csv
import json
import os
import statistics
import subprocess
import tempfile
import textwrap

from sim import table

REFERENCE = os.path.join(os.path.dirname(__file__), "..", "..", "reports", "reference")
# The division is given and ran, so memory decides nothing.
MEMORY = "16T"

INTRODUCTION = """# Published training runs

Written by `make validate` (studies/validate/runs.py). `hybrid_parallel_perf --plan` predicts the time of a step of
published training runs ([data](../reports/reference/training_runs.csv)), each with its own division, and with links and
peaks of [its system](../reports/reference/training_systems.csv). {compared} of {all} runs are compared; the others have
their reason in the last column.

{result}

One number is fitted for each GPU and number format: the share of the peak that matrix products reach, the median of the
sources' medians. Products of attention reach the same share of the 16-bit peak, also in FP8 runs. *source left out*: with
the share of all other sources. *own share*: the share with which the run takes its published time; none: communication
alone takes longer. Errors are predicted / published - 1. Runs with experts have no part in the shares.

For runs with experts one more number is fitted, `--launch-time`: the time in which the CPU launches the kernels of a layer
with experts, forward and backward, for a micro-batch. No run is faster than its CPU, so it is {launch}, the least with
which any of them takes its published time; with the source left out the least of the others. Own shares are without it.
Two runs decide: Qwen3-30B (FP8, {qwen30b}) and MZ-TP4 (16 bits, {tp4}). In a layer both compute 1.4 TFLOP of products,
and take as long at different peaks; MZ-DeepEP-overlap computes twice as much in {overlap}. On B200 Qwen3-30B takes 8.8 ms a
layer with micro-batches of one sequence, and 12.6 ms with four (Megatron-Bridge 26.02, 26.04.01). Megatron-Core's report
on DeepSeek-V3 on GB200 finds the same gaps between kernels, and closes them by fused kernels and CUDA graphs; a run with
graphs of whole layers needs another launch time.

*search*: step of the fastest division that the search finds within the memory of the GPU, with the same batch, order of
ranks, attention and overlap, over that of the published division - 1; for zb-auto with as many stages.
{search}

Some inputs are not in the sources. Memory moves at 86 to 90% of the datasheet's rate, as copies reach. What overlaps
follows from the software: nothing in Megatron-LM before 2023, data parallelism in FSDP and DeepSpeed's ZeRO-3, all in NeMo
and Megatron-Bridge. A micro-batch is 1 where NVIDIA's recipes of models with experts name none; recomputation of single
operations counts as none. The ranks that divide experts share an NVLink domain of GB200 as far as they fit.

Chosen with results in view: the kinds of traffic, what overlaps in which software, and `--dispatch nodes`, which was added
when DeepSeek-V3 on H100 was predicted 47% too slow, and which its recipe uses. The sorting of rows by expert, the 20 of
132 SMs that exchange rows beside products (DeepSeek-V3, arXiv 2412.19437), and the launch time were added when Qwen3-30B
was predicted 48% and MZ-TP4 50% too fast. No constant was chosen so.

Two generations stay above 10% with a source left out:

- H100 in 16 bits has two sources. NeMo's own shares (DX) are 0.56 to 0.63. Those of MO are 0.55 to 0.59 for 13b to 70b,
  with which DX would be predicted to about 3%, and 0.38 to 0.47 for 7b to 1b, whose steps take 0.6 to 1.3 s; MO's median
  lies between its groups. On A100, MO's runs without recomputation have 0.56 to 0.65, those with it 0.66 to 0.75.
- GB200 in FP8 has two sources, a year of software apart, mostly of one model, Llama 3 405B: 0.42 to 0.43 of the peak in
  NeMo 25.05 (DX), 0.46 to 0.52 in Megatron-Bridge 26.04 (BR).

The share of the peak does not depend on shapes. Two mechanisms were tried on each matrix product and left out again: tiles
of 128 x 256 in whole waves of the SMs, and operands that are read from memory without overlap. The median difference of
own shares from those of other sources, in percent, with longer waits of interleaved stages than the planner has now:

| | A100 | H100 | H100 fp8 | GB200 fp8 |
| --- | --- | --- | --- | --- |
| one share | 5.1 | 15.4 | 7.0 | 13.6 |
| tiles | 8.2 | 17.5 | 7.1 | 12.6 |
| operands | 9.2 | 19.5 | 7.0 | 10.0 |
| both | 12.0 | 21.1 | 6.5 | 9.1 |

A100 gets worse, as its narrowest matrices (Z1.5B) have high shares.

Misses above 15%, with likely reasons, none of them measured:

{misses}
"""

# The beginnings of ids, and the likely reason of their misses.
REASONS = (
    ("P1 P2 P3 P4 P5", "the times of DeepSpeed's ZeRO-3 of 2021 are those of 16 GB/s a GPU. NCCL's rings over all NICs of a node "
     "carry up to eight times as much, and the prediction assumes them."),
    ("K6 K7", "wide matrices (25600) reach a higher share of the peak than narrow ones; the share here is one."),
    ("B11", "tensor parallelism of 8 with micro-batches of 2, where the matrices of a GPU are narrow."),
    ("MO-A100-40-3b", "a step of 1.3 s may have a fixed part (kernel launches, synchronization, data) without a model."),
    ("MO-H100-7b MO-H100-3b MO-H100-1b", "not known; on 8 to 64 GPUs the same models reach no more of the peak (46%, 44% "
     "and 42% MFU in the same source), so it is not the network."),
    ("DSV3-H100", "dispatch and combine run beside products in its recipe, and may hide less than here; without overlap "
     "the prediction is 27.7 s. Its MTP layer counts as a 62nd layer, without its head."),
    ("GPT-OSS-120B", "its experts have biases and a clamped activation, in kernels of their own; fused ones made a run of it "
     "93% faster (NVIDIA's developer blog, June 2026)."),
    ("MZ-DeepEP-overlap", "its CPU may take longer than the least; with CUDA graphs of router and preprocessing the same "
     "division takes 14% less (320 instead of 276 TFLOPS in the source)."),
    ("MZ-A2A", "not known; the same model and GPUs are within 6% in MZ-DeepEP and MZ-FSDP."),
)


def read(name):
    with open(os.path.join(REFERENCE, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SYSTEMS = {row["name"]: row for row in read("training_systems.csv")}
FLAGS = {"sequence_parallel": "--sequence-parallel", "scatter": "--scatter-gather"}


def peak_of(name):
    return 1e12 * float(SYSTEMS[name]["peak_TFLOPS"])


def rate(flops):
    return f"{flops / 1e12:.6f}T"


class Planner:
    """Predictions of a build, by rate of computations."""

    def __init__(self, build):
        self.binary = os.path.join(build, "hybrid_parallel_perf")

    def command(self, run, share):
        system = SYSTEMS[run["fabric"]]
        yield from (self.binary, "--plan", "--model", run["model"], "--ranks", run["gpus"], "--node", run["node"])
        yield from ("--order", run["order"], "--batch", run["batch"], "--attention", run["attention"])
        yield from ("--flops", rate(share * peak_of(run["gpu"])), "--attention-flops", rate(share * peak_of(run["fabric"])))
        yield from ("--link", system["inside"], "--node-link", system["between"])
        yield from ("--overlap", run["overlap"], "--memory-rate", system["memory_GBps"] + "GB/s")
        if run.get("launch"):
            yield from ("--launch-time", f"{1e9 * run['launch']:.0f}ns")

    def division(self, run):
        yield from ("--fixed", "--memory", MEMORY, "--tp", run["tp"], "--pp", run["pp"], "--dp", run["dp"])
        yield from ("--micro-batch", run["micro_batch"], "--recompute", run["recompute"], "--zero", run["zero"])
        yield from ("--virtual-stages", run["vp"], "--cp", run["cp"], "--cp-by", "ring")
        for option in ("schedule", "kept", "ep", "etp", "dispatch"):
            if run[option]:
                yield from ("--" + option, run[option])
        for option in ("sequence_parallel", "scatter"):
            if run[option] == "1":
                yield FLAGS[option]

    def record(self, run, share, options):
        """The best division of RUN with OPTIONS at SHARE of the peak."""
        with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as file:
            done = subprocess.run([*self.command(run, share), *options, "--json", file.name], capture_output=True,
                                  text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{run['id']}: {done.stderr.strip().splitlines()[-1]}")
            records = map(json.loads, file)
            return next(line for line in records if line["kind"] == "hybrid_plan")

    def published(self, run, share):
        return self.record(run, share, self.division(run))

    def seconds(self, run, share):
        return 1e-6 * self.published(run, share)["step_us"]

    def best(self, run, share):
        """The fastest division that fits into the memory of RUN's GPUs. The search leaves out zb-auto."""
        schedule = ("--schedule", run["schedule"], "--kept", run["kept"], "--pp", run["pp"]) if run["kept"] else ()
        return self.record(run, share, ("--memory", SYSTEMS[run["fabric"]]["memory"], *schedule))

    def launch(self, run, share):
        """The launch time of a layer with experts with which RUN takes its published time. The step is linear in it
        where it decides."""
        one, two = (self.seconds({**run, "launch": launch}, share) for launch in (1, 2))
        return 1 + (float(run["step_s"]) - one) / (two - one)

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


def has_experts(run):
    return run["ep"] != ""


def add_launches(planner, runs):
    """Adds to each of RUNS with experts the least launch time of any of them, and of those of other sources: no run is
    faster than its CPU."""
    sparse = [run for run in runs if has_experts(run)]
    own = {run["id"]: planner.launch(run, share_of(runs, run)) for run in sparse}
    for run in sparse:
        run["launch_own"] = own[run["id"]]
        run["launch"] = min(own.values())
        run["launch_left"] = min(own[other["id"]] for other in sparse if other["source"] != run["source"])


def dense_runs(runs, run):
    """Those of RUNS whose shares of the peak decide that of RUN."""
    return [other for other in runs if other["gpu"] == run["gpu"] and not has_experts(other)]


def share_of(runs, run):
    return median_share(dense_runs(runs, run))


def predict(planner, runs):
    """Adds to each of RUNS its own share of the peak, the errors with those of its generation, and the best division
    that the search finds. Runs with experts have no part in the shares."""
    for run in runs:
        run["share"] = planner.share(run)
    add_launches(planner, runs)
    for run in runs:
        others = [other for other in dense_runs(runs, run) if other["source"] != run["source"]]
        share = share_of(runs, run)
        found, best = planner.published(run, share), planner.best(run, share)
        run["predicted"] = 1e-6 * found["step_us"]
        run["error"] = run["predicted"] / float(run["step_s"]) - 1
        left = {**run, "launch": run.get("launch_left")}
        run["left"] = planner.seconds(left, median_share(others)) / float(run["step_s"]) - 1 if others else None
        run["best"] = best
        run["gain"] = best["step_us"] / found["step_us"] - 1
        run["fits"] = found["memory_bytes"] <= best["memory_limit_bytes"]


def summary(runs):
    dense, sparse = ([run for run in runs if has_experts(run) == experts] for experts in (False, True))
    sets = [("all", runs, False), ("dense models", dense, False), ("experts", sparse, False)]
    sets += [(name, [run for run in dense if run["gpu"] == name], True)
             for name in dict.fromkeys(run["gpu"] for run in dense)]
    sets += [(f"{source}, {gpu}", [run for run in dense if (run["source"], run["gpu"]) == (source, gpu)], True)
             for source, gpu in dict.fromkeys((run["source"], run["gpu"]) for run in dense)]
    for name, some, fitted in sets:
        share = f"{median_share(some):.3f}" if fitted else ""
        yield [name, share, *errors_of(some, "error"), *errors_of(some, "left")]


def result(runs):
    """The sentence that docs/validation.md repeats."""
    _, left_median, left_high, _ = errors_of(runs, "left")
    _, median, high, _ = errors_of(runs, "error")
    return (f"Steps of {len(runs)} published training runs: median error {median}, 90 % of them within {high}; with the "
            f"source left out {left_median} and {left_high}.")


def search(runs):
    """How the best divisions compare. A search that is slower than a division that it may choose is a defect."""
    slower = [run for run in runs if run["gain"] > 1e-9]
    for run in slower:
        if run["fits"]:
            raise SystemExit(f"{run['id']}: the search is slower than the published division")
    unknown = f", but for {len(slower)} runs whose published division does not fit"
    beyond = sum(not run["fits"] for run in runs)
    return (f"It is never slower{unknown if slower else ''}.\nAll of these divisions ran; {beyond} of {len(runs)} would not fit by "
            "model_memory's formula and its reserve.")


def misses(runs):
    missed = [run["id"] for run in runs if abs(run["error"]) > 0.15]
    for beginnings, reason in REASONS:
        ids = [name for name in missed if name.startswith(tuple(beginnings.split()))]
        missed = [name for name in missed if name not in ids]
        if ids:
            yield fill(f"- {', '.join(ids)}: {reason}", "  ")
    if missed:
        raise SystemExit(f"misses without a reason: {', '.join(missed)}")


def launches(runs):
    """Of the runs with experts, in words."""
    own = {run["id"]: f"{1e3 * run['launch_own']:.1f} ms" for run in runs if has_experts(run)}
    least = min(run["launch"] for run in runs if has_experts(run))
    return {"launch": f"{1e3 * least:.1f} ms", "qwen30b": own["Qwen3-30B"], "tp4": own["MZ-TP4"], "overlap": own["MZ-DeepEP-overlap"]}


def fill(text, indent=""):
    return textwrap.fill(text, 120, subsequent_indent=indent, break_on_hyphens=False)


def rows(runs):
    for run in runs:
        division = "/".join(run[key] for key in ("tp", "pp", "vp", "cp", "dp"))
        cells = [run["id"], run["source"], run["gpu"], run["gpus"], division, run["micro_batch"], run["step_s"]]
        if "error" in run:
            left = "" if run["left"] is None else f"{100 * run['left']:+.1f} %"
            share = f"{run['share']:.3f}" if run["share"] else "none"
            yield [*cells, f"{run['predicted']:.4g}", f"{100 * run['error']:+.1f} %", left, f"{100 * run['gain']:+.1f} %", share]
        else:
            yield [*cells, "", "", "", "", run["reason"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default="build")
    args = parser.parse_args()
    runs = read("training_runs.csv")
    for run in runs:
        run["reason"] = run["left_out"]
    compared = [run for run in runs if not run["reason"]]
    predict(Planner(args.build), compared)
    print(INTRODUCTION.format(compared=len(compared), all=len(runs), result=fill(result(compared)),
                              search=search(compared), misses="\n".join(misses(compared)), **launches(compared)))
    print("\n".join(table(["runs", "share of peak", "n", "median", "90 %", "most", "n left out", "median", "90 %", "most"],
                          summary(compared))))
    print()
    print("\n".join(table(["run", "source", "GPU", "GPUs", "t/p/v/c/d", "b", "published s", "predicted s", "error",
                           "source left out", "search", "own share, or reason"], rows(runs))))


if __name__ == "__main__":
    main()

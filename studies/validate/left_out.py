#!/usr/bin/env python3
"""Part of make validate: errors of the model on machines to which nothing was fitted.

Each machine is left out in turn. The constants of nccl.txt that were fitted to it are fitted anew to
the rows of all other machines that depend on them; without such rows they become NCCL's own constants.
Then its rows are predicted without the constants of its site. Writes two tables for docs/validation.md:
a line for each machine, and one for each row."""

import argparse
import csv
import math
import os
import subprocess
import sys
import tempfile

import sim as v

UNITS = ("GB/s", "us", "%", "")
# The search for a constant: the factor of the range above and below it, and the steps that narrow the range.
RANGE, STEPS = 1.6, 8
# A row depends on a constant if a change of a tenth moves its prediction by more.
DEPENDS = 0.005
GOLDEN = (math.sqrt(5) - 1) / 2
# Without a dependent row: NCCL's own constants (tuning.cc), or no such effect.
FALLBACK = {"ring_ll_rate": 87.7, "ring_ll128_share": 92, "ring_simple_hop": 3.4, "ring_ll_hop": 0.6, "ll128_hop_more": 0,
            "tree_net_more": 0, "ring_gather_channel": 100, "ring_wide_part": 100, "ring_wide_ll_hop": 0,
            "ring_wide_ll_rate": 282, "messages_base": 7.2, "messages_share": 100,
            "messages_stage": 0, "messages_issue": 0, "nvls_base": 25, "nvls_fill": 0,
            "nvls_wide_rate": 545, "nvls_gpu": 0, "nvls_gpu_least": 0, "ring_pcie_ll_hop": 1, "host_part": 100, "staged_part": 100, "ring_operations": 5, "tree_channels": 0}


class Constant:
    """A line of nccl.txt."""

    def __init__(self, section, line):
        self.section, self.key = section, line.split("=")[0].strip()
        text = line.split("=")[1].split("#")[0].strip()
        self.unit = next(unit for unit in UNITS if text.endswith(unit))
        self.published = self.value = float(text.removesuffix(self.unit))

    def __str__(self):
        return f"{self.key} {self.published:.4g} to {self.value:.3g} {self.unit}".rstrip()


class Model:
    """build/tests/predict, which predicts with any constants."""

    def __init__(self, build):
        # The reader of XML is beside the backends.
        backends = {"BUSBENCH_BACKEND_DIR": os.path.abspath(os.path.join(build, "backends"))}
        self.process = subprocess.Popen([os.path.join(build, "tests", "predict")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, **backends})

    def set(self, constant, value):
        self.process.stdin.write(f"set {constant.section} {constant.key} {value:.6g}{constant.unit}\n")

    def answers(self, verb, some, rows, clusters):
        """The answers to VERB for each of ROWS, with the current values of the constants SOME."""
        for constant in some:
            self.set(constant, constant.value)
        for row in rows:
            cluster, ranks, run = (v.command("", row, clusters)[i] for i in (4, 6, 8))
            self.process.stdin.write(f"{verb} {row['collective']} {cluster} {ranks} {run} {row['bytes']}\n")
        self.process.stdin.flush()
        answers = [self.process.stdout.readline() for _ in rows]
        if not all(answers):
            raise v.Failure("tests/predict has ended")
        for constant in some:
            self.set(constant, constant.published)
        return answers

    def errors(self, some, rows, clusters):
        """The errors of ROWS, as logarithms."""
        return [math.log(us / row["us"]) for us, row in zip(map(float, self.answers("ask", some, rows, clusters)), rows)]

    def slow(self, some, rows, clusters, plugin):
        """How many times as long ROWS take if an unknown plug-in of the network adds PLUGIN us to a hop."""
        self.process.stdin.write(f"set nccl interval_plugin {plugin:.6g}us\n")
        return map(float, self.answers("slow", some, rows, clusters))

    def fast(self, some, rows, clusters):
        """How many times as long ROWS take if the memory of the hosts costs nothing."""
        return map(float, self.answers("fast", some, rows, clusters))

    def classes(self, rows):
        """The number of the interval in nccl.txt that each of ROWS has."""
        return map(int, self.answers("class", (), rows, v.CLUSTERS))

    def kinds(self, rows):
        """The kind of machine of each of ROWS, and its nodes."""
        return map(str.split, self.answers("kind", (), rows, v.CLUSTERS))


def constants():
    """The fitted constants, with the machines that each was fitted to."""
    found, section, owners = [], "", set()
    with open(v.GENERAL[0], encoding="utf-8") as file:
        for line in file.read().splitlines():
            section = line.strip("[]") if line.startswith("[") else section
            if "# fitted:" not in line:
                continue
            sources = {part.split(",")[0].strip() for part in line.split("# fitted:")[1].split(";")}
            owners = owners if sources == {"the same"} else set(map(v.machine, sources))
            found.append((Constant(section, line), owners))
    return found


def fit(model, constant, some, rows):
    """Fit CONSTANT, one of SOME, to those of ROWS that depend on it. Returns how many do."""
    def tried(value, some_rows):
        constant.value = min(value, 100) if constant.unit == "%" else value
        return model.errors(some, some_rows, v.CLUSTERS)

    def loss(place):
        return sum(abs(error) for error in tried(math.exp(place), dependent))

    before = constant.value
    dependent = [row for row, less, more in zip(rows, tried(before / 1.1, rows), tried(before * 1.1, rows))
                 if abs(more - less) > DEPENDS]
    constant.value = before
    if not dependent:
        return 0
    low, high = math.log(before / RANGE), math.log(before * RANGE)
    places = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    losses = [loss(place) for place in places]
    for _ in range(STEPS):
        if losses[0] < losses[1]:
            high, places, losses = places[1], [places[1] - GOLDEN * (places[1] - low), places[0]], [None, losses[0]]
        else:
            low, places, losses = places[0], [places[1], places[0] + GOLDEN * (high - places[0])], [losses[1], None]
        losses = [loss(place) if known is None else known for place, known in zip(places, losses)]
    tried(math.exp((low + high) / 2), dependent[:1])
    return len(dependent)


def sizes(mine):
    """The figures of the rows MINE by size."""
    line = {}
    for size, wanted in (("large", True), ("small", False)):
        found = v.figures([row for row in mine if v.large(row) == wanted], "left_out")
        line.update({f"{size}_{key}": value if value is None or key == "rows" else f"{value:.4f}"
                     for key, value in found.items()})
    return line


def longest_plugin(counted, name):
    """The latency to expect of a plug-in of the network at most, from the clusters of other machines than NAME."""
    mine = {row["cluster"].split(":")[0] for row in counted if v.machine(row["system"]) == name}
    return v.longest_plugin([us for cluster, us in v.plugins(v.CLUSTERS).items() if cluster not in mine])


def left_out(model, clusters, counted, name):
    """The line of machine NAME; its rows get their predictions."""
    some = [constant for constant, owners in constants() if name in owners]
    others = [row for row in counted if v.machine(row["system"]) != name]
    mine = [row for row in counted if v.machine(row["system"]) == name]
    dependent = []
    for constant in some:
        candidates = [row for row in others if constant.section in ("nccl", row["generation"])]
        dependent.append(fit(model, constant, some, candidates))
        if not dependent[-1]:
            constant.value = FALLBACK.get(constant.key, constant.value)
    slow = model.slow(some, mine, clusters, longest_plugin(counted, name))
    for row, error, times, fast, one, kind in zip(mine, model.errors(some, mine, clusters), slow,
                                                  model.fast(some, mine, clusters), model.classes(mine), model.kinds(mine)):
        row["fast"] = fast
        row["left_out"], row["plugin"], row["class"], (row["kind"], row["nodes"]) = math.expm1(error), times, one, kind
    return {"machine": name, "constants": "; ".join(map(str, some)), "fitted to": " ".join(map(str, dependent)),
            **sizes(mine)}


def left_out_mpi(build, clusters, counted, name):
    """The line of machine NAME of Open MPI, whose constants are all those of its site."""
    mine = [row for row in counted if v.machine(row["system"]) == name]
    for row, record, _ in v.predicted(build, mine, clusters):
        row["left_out"], row["plugin"], row["class"] = record["time_us"] / row["us"] - 1, 1, ""
        row["kind"] = row["nodes"] = ""
        row["fast"] = 1
    return {"machine": name, "constants": "", "fitted to": "", **sizes(mine)}


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        out = csv.DictWriter(file, lines[0], lineterminator="\n")
        out.writeheader()
        out.writerows(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    parser.add_argument("folder", nargs="?", default=v.REFERENCE, help="where the tables go")
    arguments = parser.parse_args()
    try:
        rows = v.evaluate(arguments.build)
        counted, mpi = v.of_library(rows), v.of_library(rows, "Open MPI")
        model = Model(arguments.build)
        with tempfile.TemporaryDirectory() as clusters:
            v.strip_sites(clusters)
            lines = [left_out(model, clusters, counted, name)
                     for name in dict.fromkeys(v.machine(row["system"]) for row in counted)]
            lines += [left_out_mpi(arguments.build, clusters, mpi, name)
                      for name in dict.fromkeys(v.machine(row["system"]) for row in mpi)]
        write(os.path.join(arguments.folder, "left_out.csv"), lines)
        write(os.path.join(arguments.folder, "left_out_rows.csv"),
              [{"file": row["file"], "line": row["line"], "error": f"{row['left_out']:.4f}",
                "plugin": f"{row['plugin']:.3f}", "fast": f"{row['fast']:.3f}", "class": row["class"], "kind": row["kind"], "nodes": row["nodes"]} for row in counted + mpi])
    except v.Failure as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()

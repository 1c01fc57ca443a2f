#!/usr/bin/env python3
"""Part of make validate: errors of the model on machines to which nothing was fitted.

Each machine is left out in turn. The constants of nccl.txt that were fitted to it are fitted anew to
the rows of all others that they matter to; where none tells, they fall back to NCCL's own constants.
Then its rows are predicted without what was fitted to its site. Writes two tables that
docs/validation.md takes in: a line for each machine, and one for each row."""

import argparse
import csv
import math
import os
import subprocess
import sys
import tempfile

import validate_sim as v

UNITS = ("GB/s", "us", "%", "")
# Of a constant: what is looked at, over and under it, and how often the range is narrowed.
RANGE, STEPS = 1.6, 8
# Rows that a change of a tenth moves by less say nothing of it.
MATTERS = 0.005
GOLDEN = (math.sqrt(5) - 1) / 2
# Where no other row tells: what NCCL's own constants say (tuning.cc), or that there is no such effect.
UNTOLD = {"ring_ll_rate": 87.7, "ring_ll128_share": 92, "ring_simple_hop": 3.4, "ring_ll_hop": 0.6, "tree_net_more": 0,
          "ring_gather_part": 100, "ring_wide_part": 100, "messages_base": 7.2, "messages_share": 100,
          "messages_stage": 0, "messages_issue": 0, "nvls_base": 25, "nvls_fill": 0, "nvls_wide_rate": 545, "nvls_gpu": 0}


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
    """build/tests/predict, which answers with any constants."""

    def __init__(self, build):
        self.process = subprocess.Popen([os.path.join(build, "tests", "predict")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def set(self, constant, value):
        self.process.stdin.write(f"set {constant.section} {constant.key} {value:.6g}{constant.unit}\n")

    def errors(self, some, rows, clusters):
        """Of ROWS, as logarithms, with the values that the constants SOME have now."""
        for constant in some:
            self.set(constant, constant.value)
        for row in rows:
            cluster, ranks, run = (v.command("", row, clusters)[i] for i in (4, 6, 8))
            self.process.stdin.write(f"ask {row['collective']} {cluster} {ranks} {run} {row['bytes']}\n")
        self.process.stdin.flush()
        answers = [self.process.stdout.readline() for _ in rows]
        if not all(answers):
            raise v.Failure("tests/predict has ended")
        for constant in some:
            self.set(constant, constant.published)
        return [math.log(float(answer) / row["us"]) for answer, row in zip(answers, rows)]


def constants():
    """Those that were fitted, with the machines that each was fitted to."""
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
    """CONSTANT, one of SOME, anew to those of ROWS that it matters to. How many there are."""
    def tried(value, asked):
        constant.value = min(value, 100) if constant.unit == "%" else value
        return model.errors(some, asked, v.CLUSTERS)

    def loss(place):
        return sum(abs(error) for error in tried(math.exp(place), told))

    before = constant.value
    told = [row for row, less, more in zip(rows, tried(before / 1.1, rows), tried(before * 1.1, rows))
            if abs(more - less) > MATTERS]
    constant.value = before
    if not told:
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
    tried(math.exp((low + high) / 2), told[:1])
    return len(told)


def left_out(model, clusters, counted, name):
    """A row of the table, of machine NAME, whose rows get what is predicted of them."""
    some = [constant for constant, owners in constants() if name in owners]
    others = [row for row in counted if v.machine(row["system"]) != name]
    mine = [row for row in counted if v.machine(row["system"]) == name]
    told = []
    for constant in some:
        asked = [row for row in others if constant.section in ("nccl", row["generation"])]
        told.append(fit(model, constant, some, asked))
        if not told[-1]:
            constant.value = UNTOLD.get(constant.key, constant.value)
    for row, error in zip(mine, model.errors(some, mine, clusters)):
        row["left_out"], row["left_known"] = math.expm1(error), v.known(clusters, row["cluster"])
    line = {"machine": name, "constants": "; ".join(map(str, some)), "fitted to": " ".join(map(str, told))}
    for size, wanted in (("large", True), ("small", False)):
        found = v.figures([row for row in mine if v.large(row) == wanted], "left_out")
        line.update({f"{size}_{key}": value if value is None or key == "rows" else f"{value:.4f}"
                     for key, value in found.items()})
    return line


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
        counted = [row for row in rows if row["what"] in ("model", "fit")]
        model = Model(arguments.build)
        with tempfile.TemporaryDirectory() as clusters:
            v.strip_sites(clusters)
            lines = [left_out(model, clusters, counted, name)
                     for name in dict.fromkeys(v.machine(row["system"]) for row in counted)]
        write(os.path.join(arguments.folder, "left_out.csv"), lines)
        write(os.path.join(arguments.folder, "left_out_rows.csv"),
              [{"file": row["file"], "line": row["line"], "error": f"{row['left_out']:.4f}",
                "known": int(row["left_known"])} for row in counted])
    except v.Failure as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()

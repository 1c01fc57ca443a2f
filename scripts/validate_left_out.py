#!/usr/bin/env python3
"""Part of make validate: errors of the model on machines to which nothing was fitted.

Each machine to which constants of nccl.txt were fitted is left out in turn: these constants are fitted again to the rows
of all other machines that depend on them, and then its own rows are predicted, without the constants of its site. Writes
a table for docs/validation.md."""

import argparse
import csv
import math
import os
import shutil
import sys
import tempfile

import validate_sim as v

UNITS = ("GB/s", "us", "%")
# The factor by which a constant may change, steps of the search in that range, and rounds over all constants.
RANGE, STEPS, SWEEPS = 1.6, 6, 1
# Rows that a change of a tenth moves by less do not depend on it.
MATTERS = 0.005
GOLDEN = (math.sqrt(5) - 1) / 2


class Constant:
    """A line of nccl.txt, which the programs contain as it is."""

    def __init__(self, section, line):
        self.section, self.line = section, line
        self.key = line.split("=")[0].strip()
        text = line.split("=")[1].split("#")[0].strip()
        self.unit = next(unit for unit in UNITS if text.endswith(unit))
        self.published = self.value = float(text[:-len(self.unit)])

    def patched(self):
        """The line with another value, equally long."""
        room = self.line.index("#") - self.line.index("= ") - 3
        value = f"{self.value:.4g}{self.unit}"
        if len(value) > room:
            raise v.Failure(f"{self.key}: {value} is too long")
        return f"{self.line.split('=')[0]}= {value:<{room}} {self.line[self.line.index('#'):]}"

    def __str__(self):
        return f"{self.key} {self.published:.4g} to {self.value:.3g} {self.unit}"


def constants():
    """The fitted constants by machine."""
    found, section, owner = {}, "", None
    with open(v.GENERAL[0], encoding="utf-8") as file:
        for line in file.read().splitlines():
            section = line.strip("[]") if line.startswith("[") else section
            if "# fitted:" not in line:
                continue
            source = line.split("# fitted:")[1].split(",")[0].strip()
            owner = owner if source == "the same" else v.machine(source)
            found.setdefault(owner, []).append(Constant(section, line))
    return found


def errors(build, folder, some, rows, clusters):
    """Errors of ROWS, as logarithms, with the current values of the constants SOME."""
    for name in {f"{row['collective']}_perf" for row in rows}:
        with open(os.path.join(build, name), "rb") as file:
            program = file.read()
        for constant in some:
            line = constant.line.encode()
            if program.count(line) != 1:
                raise v.Failure(f"{name} has not the line {constant.line}")
            program = program.replace(line, constant.patched().encode())
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(program)
        shutil.copymode(os.path.join(build, name), path)
    found = {id(row): math.log(record["time_us"] / row["us"])
             for row, record, _ in v.predicted(folder, rows, clusters)}
    return [found[id(row)] for row in rows]


def fit(build, folder, constant, some, rows):
    """Fits CONSTANT, one of SOME, to those of ROWS that depend on it. Returns their number."""
    def tried(value, asked):
        constant.value = min(value, 100) if constant.unit == "%" else value
        return errors(build, folder, some, asked, v.CLUSTERS)

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


def left_out(build, counted):
    """A row of the table for each machine."""
    with tempfile.TemporaryDirectory() as folder:
        clusters = os.path.join(folder, "clusters")
        os.mkdir(clusters)
        v.strip_sites(clusters)
        for name, some in constants().items():
            others = [row for row in counted if v.machine(row["system"]) != name]
            mine = [row for row in counted if v.machine(row["system"]) == name]
            told = {}
            for _ in range(SWEEPS):
                for constant in some:
                    asked = [row for row in others if constant.section in ("nccl", row["generation"])]
                    told[constant.key] = fit(build, folder, constant, some, asked)
            for row, error in zip(mine, errors(build, folder, some, mine, clusters)):
                row["left_out"] = math.expm1(error)
            line = {"machine": name, "constants": "; ".join(map(str, some)),
                    "fitted to": " ".join(str(told[constant.key]) for constant in some)}
            for size, wanted in (("large", True), ("small", False)):
                found = v.figures([row for row in mine if v.large(row) == wanted], "left_out")
                line.update({f"{size}_{key}": value if value is None or key == "rows" else f"{value:.4f}"
                             for key, value in found.items()})
            yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    build = parser.parse_args().build
    try:
        rows = v.evaluate(build)
        counted = [row for row in rows if row["what"] in ("model", "fit")]
        lines = list(left_out(build, counted))
        out = csv.DictWriter(sys.stdout, lines[0], lineterminator="\n")
        out.writeheader()
        out.writerows(lines)
    except v.Failure as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()

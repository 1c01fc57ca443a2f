#!/usr/bin/env python3
"""Draws docs/algorithms/*.svg: the rounds of every algorithm of every collective, from the records of --explain.

    scripts/rounds.py BUILD FOLDER

Algorithms that communicate along trees of several levels are drawn for eight ranks, the others for four.
"""

import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True

from report import rounds
from report.records import Run

FEW, MANY = 4, 8  # ranks
COLLECTIVES = ("all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall alltoallv sendrecv "
               "hypercube").split()


def explained(build, collective, ranks):
    """{algorithm: its schedule} of those that can be drawn."""
    words = [os.path.join(build, f"{collective}_perf"), "--explain", "--algo", "all", "-g", str(ranks), "--json", "-"]
    lines = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    head, *records = map(json.loads, lines)
    run = Run(head, 1)
    run.records = records
    found, notes = rounds.schedules_of(run)
    if notes:
        raise ValueError("; ".join(notes))
    return {schedule.algorithm: schedule for schedule in found}


def pictures(build):
    """{file name: SVG} of all."""
    found = {}
    for collective in COLLECTIVES:
        many = explained(build, collective, MANY)
        for name, schedule in explained(build, collective, FEW).items():
            chosen = many[name] if rounds.Sheet(many[name]).depth > 1 else schedule
            found[f"{collective}-{name}.svg"] = rounds.strip(chosen)
    return found


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, data in pictures(sys.argv[1]).items():
        with open(os.path.join(sys.argv[2], name), "w", encoding="utf-8") as file:
            file.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The table of docs/gpu.md: which checks of ci/gpu_check.sh have been seen on a real GPU.

    scripts/gpu_table.py [RECORDS...]       writes it (default: reports/gpu/*.jsonl)
    scripts/gpu_table.py -n [RECORDS...]    prints the page instead

A row is a check of `ci/gpu_check.sh -l`. It has its latest result on each kind of machine, with the measured numbers.
Exit: 0 done, 1 records are of stand-ins or of a check that is no longer made.
"""

import argparse
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "gpu.md")
STORED = os.path.join(ROOT, "reports", "gpu", "*.jsonl")
BEGIN, END = "<!-- scripts/gpu_table.py writes from here -->\n", "<!-- to here -->\n"


def known_checks():
    """[(part, name)…] in the order that they are made in."""
    listed = subprocess.run([os.path.join(ROOT, "ci", "gpu_check.sh"), "-l"], capture_output=True, text=True, check=True)
    return [tuple(line.split("\t")) for line in listed.stdout.splitlines()]


def read(paths):
    """[(machine's record, check's record)…] in the order of the files."""
    pairs = []
    for path in paths:
        machines = {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                if record["kind"] == "machine":
                    if record["stand_in"]:
                        sys.exit(f"gpu_table.py: {path}: these are stand-ins' records, of no GPU")
                    machines[record["run"]] = record
                elif record["kind"] == "check":
                    pairs.append((machines[record["run"]], record))
    return pairs


def cell(pairs):
    """What is known of one check: the latest result on each kind of machine that made it."""
    seen, reason = {}, None
    for machine, record in pairs:
        if record["status"] == "skipped":
            reason = record["reason"]
            continue
        text = record["status"] if record["status"] == "passed" else f"**{record['status']}**: {record['reason']}"
        numbers = ", ".join(f"{name} {value:g}" for name, value in record["numbers"].items())
        nccl = f"NCCL {machine['nccl']}" if machine["nccl"] else "no NCCL"
        where = f"{machine['gpus']} × {machine['gpu']}, {nccl}, {machine['date'][:10]}"
        seen[machine["gpus"], machine["gpu"]] = f"{text} ({where})" + (f": {numbers}" if numbers else "")
    if seen:
        return "; ".join(seen.values())
    return f"not yet: {reason}" if reason else "not yet"


def table(pairs):
    checks = known_checks()
    for _, record in pairs:
        if (record["part"], record["name"]) not in checks:
            sys.exit(f"gpu_table.py: no check is called '{record['part']}: {record['name']}' any more")
    lines = ["| part | check | seen |", "| --- | --- | --- |"]
    for part, name in checks:
        mine = [pair for pair in pairs if (pair[1]["part"], pair[1]["name"]) == (part, name)]
        lines.append(f"| {part} | {name} | " + cell(mine).replace("|", "\\|").replace("\n", " ") + " |")
    return "\n".join(lines) + "\n" + machines(pairs)


def machines(pairs):
    """What the records were made on; nothing if there are none."""
    rows = {}
    for machine, _ in pairs:
        cells = [f"{machine['gpus']} × {machine['gpu']}", *(machine.get(name) or "unknown" for name in ("driver", "nccl", "headers", "clocks"))]
        rows[machine["run"]] = "| " + " | ".join([*cells, machine["date"]]) + " |"
    head = ["", "| machine | driver | NCCL | headers | clocks before | date |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows.values()]) + "\n" if rows else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", action="store_true", dest="dry", help="print the page instead of writing it")
    parser.add_argument("records", nargs="*")
    given = parser.parse_args()
    with open(PAGE, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    page = before + BEGIN + "\n" + table(read(given.records or sorted(glob.glob(STORED)))) + "\n" + END + rest.split(END)[1]
    if given.dry:
        sys.stdout.write(page)
    else:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page)


main()

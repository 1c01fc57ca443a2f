"""Runs the speed programs, and collects their JSON lines. Used by studies/perf and studies/tune.py."""

import json
import os
import statistics
import sys

import programs

BUILD = "build"  # set by use_build


def use_build(folder):
    """Look for the programs in FOLDER."""
    global BUILD  # pylint: disable=global-statement
    BUILD = folder


def size_text(size):
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def sizes(low, high):
    """From LOW, each four times the one before, to HIGH."""
    found = []
    while low <= high:
        found.append(low)
        low *= 4
    return found


def us(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(out, head, rows):
    """Append a table of numbers in Markdown."""
    out.append("| " + " | ".join(head) + " |")
    out.append("|" + " ---: |" * len(head))
    out.extend("| " + " | ".join(row) + " |" for row in rows)
    out.append("")


def host_command(ranks, low, high, factor, whats):
    return [f"{BUILD}/tests/host_speed", str(ranks), str(low), str(high), str(factor), *whats]


def mpirun(ranks, *command):
    crowded = ranks > len(os.sched_getaffinity(0))
    options = ["--mca", "mpi_yield_when_idle", "1"] if crowded else ["--bind-to", "core"]
    return ["mpirun", "--oversubscribe", *options, "-np", str(ranks), *command]


def mpi_command(ranks, low, high, factor):
    return mpirun(ranks, f"{BUILD}/tests/mpi_speed", str(low), str(high), str(factor))


def pair_row(row):
    """The row of a pair of ranks; pairs over one route form one row, their median."""
    what = "private" if row["from"] == row["to"] else row["route"]
    return {"size": row["size_bytes"] or 0, "what": what, "us": row["p50_us"]}


def rows_of(line):
    """The row of one line: of a speed program, or of a record of a perf binary."""
    if not line.startswith("{"):
        return []
    row = json.loads(line)
    if "kind" not in row:
        return [row]
    if row["kind"] == "pair":
        return [pair_row(row)]
    if row["kind"] != "result" or row["in_place"]:
        return []
    return [{"size": row["size_bytes"], "what": row["algorithm_asked"], "us": row["time_us"]}]


def run(command):
    """The rows that a program prints as JSON lines."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return [row for line in programs.output(command, env=environment).splitlines() for row in rows_of(line)]


def interleave(commands, repeats):
    """Run COMMANDS in turn, REPEATS times; medians as {(size, what): (microseconds, copies)}. A
    command may be a pair (what, command), which renames its rows."""
    times, copies = {}, {}
    for turn in range(repeats):
        for command in commands:
            name, command = command if isinstance(command, tuple) else (None, command)
            if sys.stderr.isatty():
                print(f"\r\033[K[{turn + 1}/{repeats}] {' '.join(command)[:90]}", end="",
                      file=sys.stderr, flush=True)
            for row in run(command):
                key = row["size"], name or row["what"]
                times.setdefault(key, []).append(row["us"])
                copies[key] = row.get("copies", 1.0)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return {key: (statistics.median(t), copies[key]) for key, t in times.items()}

"""Run the speed programs and put their JSON lines together. Used by perf.py and tune.py."""

import json
import os
import statistics
import subprocess
import sys

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


def host_command(ranks, low, high, factor, whats):
    return [f"{BUILD}/tests/host_speed", str(ranks), str(low), str(high), str(factor), *whats]


def mpi_command(ranks, low, high, factor):
    crowded = ranks > len(os.sched_getaffinity(0))
    options = ["--mca", "mpi_yield_when_idle", "1"] if crowded else ["--bind-to", "core"]
    return ["mpirun", "--oversubscribe", *options, "-np", str(ranks),
            f"{BUILD}/tests/mpi_speed", str(low), str(high), str(factor)]


def run(command):
    """The JSON lines a speed program prints; ends the script with its message if it fails."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def interleave(commands, repeats):
    """Run COMMANDS in turn, REPEATS times; medians as {(size, what): (microseconds, copies)}."""
    times, copies = {}, {}
    for turn in range(repeats):
        for number, command in enumerate(commands):
            if sys.stderr.isatty():
                print(f"\r\033[K[{turn + 1}/{repeats}] {' '.join(command)[:90]}", end="",
                      file=sys.stderr, flush=True)
            for row in run(command):
                key = row["size"], row["what"]
                times.setdefault(key, []).append(row["us"])
                copies[key] = row.get("copies", 1.0)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return {key: (statistics.median(t), copies[key]) for key, t in times.items()}

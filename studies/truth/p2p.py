"""Rows of make truth: real ranks with and without a planted slow link, on a machine with other load."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

import programs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNS = 10
COMMAND = "p2p_bandwidth_perf -g 4 -b 1M -e 1M"
FROM, TO, FACTOR = 1, 3, 4

# Repeated until killed, or until this process is gone. The build goes to a folder of its own.
BUILD = 'while kill -0 $PPID; do rm -rf "$0"; make -j2 B="$0" "$0/all_reduce_perf" "$0/p2p_bandwidth_perf"; done'
LOOPS = "for i in 1 2 3; do while kill -0 $PPID; do :; done & done; wait"


@contextlib.contextmanager
def beside(script):
    """Runs SCRIPT meanwhile, in a temporary folder; None: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        if not script:
            yield
            return
        # In the same session: Linux shares processors between sessions first (autogroup), which would hide the load.
        load = subprocess.Popen(["sh", "-c", script, os.path.join(folder, "build")], cwd=ROOT, process_group=0,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            os.killpg(load.pid, signal.SIGKILL)
            load.wait()


def findings(build, arguments):
    """The findings of a run, and whether a suspect could not be judged."""
    command = [os.path.join(build, COMMAND.split()[0]), *COMMAND.split()[1:], *arguments]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records.jsonl")
        text = programs.output([*command, "--json", path])
        with open(path, encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
    return [r for r in records if r["kind"] == "finding"], "# not judged:" in text


def row(build, where, planted):
    arguments = ["--fault", f"slow_link:{FROM}:{TO}:{FACTOR}"] if planted else []
    named = blamed = unjudged = 0
    factors = []
    for _ in range(RUNS):
        found, open_ones = findings(build, arguments)
        right = [f for f in found if planted and (f["from"], f["to"]) == (FROM, TO)]
        named += bool(right)
        blamed += len(found) > len(right)
        unjudged += open_ones
        factors += [1 / f["share"] for f in right]
    told = f"named in {named}, " if planted else ""
    told += f"others blamed in {blamed}, not all judged in {unjudged} of {RUNS} runs"
    if factors:
        told += f"; factor {min(factors):.1f} to {max(factors):.1f}"
    right = RUNS - blamed if not planted else min(named, RUNS - blamed)
    return [f"findings of 4 ranks, {where}", f"{FROM} -> {TO} {FACTOR} times as slow" if planted else "nothing",
            f"{FROM} -> {TO}" if planted else "nobody", told, f"{right} of {RUNS} right"]


def rows(build):
    for where, script in (("as the machine is", None), ("beside a build", BUILD), ("beside three busy loops", LOOPS)):
        for planted in (True, False):
            with beside(script):
                yield row(build, where, planted)


if __name__ == "__main__":
    for cells in rows(sys.argv[1] if len(sys.argv) > 1 else "build"):
        print("| " + " | ".join(cells) + " |", flush=True)

"""scripts/compare_torch.py: against PyTorch where this Python has it, and what it says without."""

import json
import os
import statistics
import subprocess
import sys
import tempfile

import kit
from kit import equal, expect, test

CORES = kit.ALL
SCRIPT = os.path.join(kit.ROOT, "scripts", "compare_torch.py")


def compare(line, env=None):
    return kit.execute([sys.executable, "-B", SCRIPT, kit.Settings.build, *line.split()], env)


def has_torch():
    words = [sys.executable, "-c", "import torch.distributed as d; raise SystemExit(not d.is_available())"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@test
def without_torch():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8") as file:
            file.write('raise ImportError("none here")\n')
        result = compare("", {"PYTHONPATH": folder}).exits(3).says("this Python has no PyTorch (none here)")
    equal(len(result.err.splitlines()), 1, "lines on stderr")


@test
def usage():
    for line, word in (("-b 0K", "-b"), ("--rounds 0", "--rounds"), ("-f 1", "-f"), ("--backend mpi", "mpi")):
        compare(line).exits(2).says(word)


@test
def compared():
    if not has_torch():
        raise kit.Skipped("this Python has no PyTorch with torch.distributed")
    if not os.path.exists(os.path.join(kit.Settings.build, "backends", "gloo.so")):
        raise kit.Skipped("the gloo backend was not built")
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "a.jsonl")
        line = "-n 3 -b 4K -e 16K --iterations 2 --warm-up 1 --rounds 2 --algo auto,ring --json"
        result = compare(f"{line} {table}").exits(0)
        with open(table, encoding="utf-8") as file:
            records = [json.loads(text) for text in file]
    for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
        rows = [(r["algorithm_asked"], r["algorithm"]) for r in records if r["operation"] == name]
        best = "ring" if name == "reduce_scatter" else "native"
        equal(rows, [("auto", best)] * 2 + [("ring", "ring")] * 2, name)
    expect({"DDP step", "without DDP"} <= {r["operation"] for r in records}, str(result))
    for r in records:
        equal(len(r["us"]), 2, f"rounds of {r}")
        if not r["torch_refused"]:
            ratios = [theirs / ours for theirs, ours in zip(r["torch_us"], r["us"])]
            equal(r["ratio"], statistics.median(ratios), "ratio")
    expect(max(map(len, result.out.splitlines())) <= 80, str(result))
    equal(sum(not line.startswith("#") for line in result.out.splitlines()), 1 + len(records), "rows")

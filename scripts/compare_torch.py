#!/usr/bin/env python3
"""Compares busbench with torch.distributed: collectives and DDP at the same sizes, ranks and iterations.

    scripts/compare_torch.py                                    # NCCL on all GPUs, or Gloo between 2 processes
    scripts/compare_torch.py -n 4 -b 64K -e 16M --algo native,ring,tree --json torch.jsonl

Both run in turn on this machine, round after round; the table has medians of the rounds, and the ratio of the two times
of a round with its range. A ratio above 1 means that busbench needs less time. PyTorch reduces in place, so busbench's
all_reduce does too. DDP trains linear layers; ddp_bucket_perf computes as long as PyTorch did without DDP.

Exit status: 0 compared; 2 usage; 3 no PyTorch with torch.distributed, or no such backend of busbench.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import textwrap

import processes
import programs
import speed

FOLDER = os.path.dirname(os.path.abspath(__file__))
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "alltoall"]
MAKE = {"gloo": "GLOO=1", "nccl": "CUDA=1"}
LAYERS, WIDTH, BATCH = 8, 512, 16
CAP = 25 << 20  # PyTorch's bucket_cap_mb
HEAD = ["operation", "size", "torch us", "us", "ratio", "range", "algorithm"]
COLUMNS = [14, 5, 8, 8, 5, 14, 19]


def give_up(message):
    print(f"compare_torch.py: {message}", file=sys.stderr)
    sys.exit(3)


def size_bytes(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 64K")
    return int(match[1]) << " KMG".index(match[2] or " ") * 10


def positive(text):
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def find_torch():
    """The module, whose distributed part can be used."""
    try:
        import torch  # pylint: disable=import-outside-toplevel
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    except (ImportError, OSError) as reason:
        give_up(f"this Python has no PyTorch ({reason}); install it, or run the script by a Python that has it")
    if not dist.is_available():
        give_up(f"PyTorch {torch.__version__} was built without torch.distributed")
    return torch


class Torch:
    """Ranks of torch.distributed, which wait for jobs."""

    def __init__(self, n, backend):
        command = [sys.executable, os.path.join(FOLDER, "torch_rank.py"), backend]
        self.ranks = processes.start(n, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for rank in self.ranks:
            rank.kill()
            rank.wait()

    def ask(self, **job):
        """The answer of rank 0, with the mean of all ranks' times."""
        for rank in self.ranks:
            rank.stdin.write(json.dumps(job) + "\n")
            rank.stdin.flush()
        answers = [rank.stdout.readline() for rank in self.ranks]
        if not all(answers):
            give_up("a rank of PyTorch ended; its reason is above")
        answers = [json.loads(answer) for answer in answers]
        times = {key: statistics.mean(a[key] for a in answers) for key in ("us", "compute_us") if key in answers[0]}
        return {**answers[0], **times}


class Comparison:
    """The times of both in each round, by operation, size and requested algorithm."""

    def __init__(self, options):
        self.options = options
        self.rows = {}

    def add(self, operation, size, answer, asked, algorithm, us):
        new = {"algorithm": algorithm, "call": answer.get("call"), "refused": answer.get("refused")}
        row = self.rows.setdefault((operation, size, asked), {**new, "torch_us": [], "us": []})
        row["us"].append(us)
        if not row["refused"]:
            row["torch_us"].append(answer["us"])

    def records(self):
        for (operation, size, asked), row in self.rows.items():
            ratios = [theirs / ours for theirs, ours in zip(row["torch_us"], row["us"])]
            yield {
                "kind": "torch_comparison", "operation": operation, "size_bytes": size, "algorithm_asked": asked,
                "algorithm": row["algorithm"], "nranks": self.options.ranks, "backend": self.options.backend,
                "torch": self.options.version, "torch_call": row["call"], "torch_refused": row["refused"],
                "torch_us": row["torch_us"], "us": row["us"],
                "ratio": statistics.median(ratios) if ratios else None,
                "ratio_range": [min(ratios), max(ratios)] if ratios else None,
            }  # fmt: skip


def ours(options, program, *arguments):
    """The records of busbench's ranks."""
    launch = [sys.executable, os.path.join(FOLDER, "processes.py"), str(options.ranks)]
    command = [f"{options.build}/{program}_perf", "--backend", options.backend, "-n", str(options.iterations)]
    return programs.records([*launch, *command, "-w", str(options.warm_up), *arguments])


def collective_round(options, torch, comparison, name):
    """busbench first: it rounds sizes to whole blocks of each rank, and PyTorch follows."""
    words = ["-b", str(options.begin), "-e", str(options.end), "-f", str(options.factor)]
    words += ["--algo", options.algo, "-c", "0", "--cache", "reuse"]
    answers = {}
    for r in ours(options, name, *words):
        if r["kind"] != "result" or r["in_place"] != (name == "all_reduce"):
            continue
        size = r["size_bytes"]
        if size not in answers:
            job = {"collective": name, "size": size, "iterations": options.iterations, "warm_up": options.warm_up}
            answers[size] = torch.ask(**job)
        comparison.add(name, size, answers[size], r["algorithm_asked"], r["algorithm"], r["time_us"])


def training_round(options, torch, comparison):
    shape = {"layers": LAYERS, "width": WIDTH, "batch": BATCH}
    answer = torch.ask(iterations=options.iterations, warm_up=options.warm_up, **shape)
    words = ["--model", f"linear:{LAYERS}x{WIDTH}", "--step-time", f"{answer['compute_us']:.0f}us", "--compute", "spin"]
    words += ["--buckets", str(CAP), "--overlap", "on", "-c", "0"]
    for r in ours(options, "ddp_bucket", *words):
        if r["kind"] == "data_parallel" and r["cap_bytes"] == CAP:
            size = r["gradient_bytes"]
            comparison.add("DDP step", size, answer, "auto", r["algorithm"], r["step_us"])
            alone = {**answer, "us": answer["compute_us"]}
            comparison.add("without DDP", size, alone, "none", "none", r["compute_us"])


def text_row(cells):
    """At most 79 columns; the longest names of algorithms are cut."""
    numbers = " ".join(f"{cell:>{width}}" for cell, width in zip(cells[1:-1], COLUMNS[1:-1]))
    return f"{cells[0]:<{COLUMNS[0]}} {numbers} {cells[-1][:COLUMNS[-1]]}"


def print_table(options, records):
    print(f"# PyTorch {options.version} against busbench, {options.backend}, {options.ranks} ranks, "
          f"{len(os.sched_getaffinity(0))} cores")  # fmt: skip
    load = os.getloadavg()[0]
    print(f"# {options.rounds} rounds in turn, {options.iterations} iterations each; load average {load:.1f}")
    print("# us: busbench's time; ratio: PyTorch's time over it, median of the rounds")
    print(text_row(HEAD))
    for r in records:
        times = [speed.us(statistics.median(r[key])) if r[key] else "-" for key in ("torch_us", "us")]
        ratios = ["-", "-"]
        if r["ratio"]:
            low, high = r["ratio_range"]
            ratios = [f"{r['ratio']:.3g}", f"{low:.3g} to {high:.3g}"]
        print(text_row([r["operation"], speed.size_text(r["size_bytes"]), *times, *ratios, r["algorithm"]]))
    for name, reason in sorted({(r["operation"], r["torch_refused"]) for r in records if r["torch_refused"]}):
        print(textwrap.fill(f"# {name}: PyTorch refuses it: {reason}", 79, subsequent_indent="# "))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder (default: build)")
    parser.add_argument("-n", "--ranks", type=positive, help="processes (default: number of GPUs, else 2)")
    parser.add_argument("-b", "--begin", type=size_bytes, default="64K", help="smallest size (default: 64K)")
    parser.add_argument("-e", "--end", type=size_bytes, default="16M", help="largest size (default: 16M)")
    parser.add_argument("-f", "--factor", type=positive, default=4, help="ratio of sizes (default: 4)")
    parser.add_argument("--algo", default="auto", metavar="LIST", help="algorithms of busbench (default: auto)")
    parser.add_argument("--iterations", type=positive, default=20, help="timed calls of a round (default: 20)")
    parser.add_argument("--warm-up", type=positive, default=5, help="calls before them (default: 5)")
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each (default: 5)")
    parser.add_argument("--backend", choices=["gloo", "nccl"], help="default: nccl with GPUs, else gloo")
    parser.add_argument("--json", metavar="FILE", help="a JSON line for each row, with the times of all rounds")
    options = parser.parse_args()
    if options.factor < 2:
        parser.error("-f is at least 2")
    return options


def main():
    options = parse()
    torch = find_torch()
    gpus = torch.cuda.device_count()
    options.version = torch.__version__
    options.backend = options.backend or ("nccl" if gpus else "gloo")
    options.ranks = options.ranks or (gpus if options.backend == "nccl" else 2)
    if options.backend == "nccl" and not 0 < options.ranks <= gpus:
        give_up(f"{options.ranks} ranks need as many GPUs, and PyTorch sees {gpus}")
    if not os.path.exists(f"{options.build}/backends/{options.backend}.so"):
        give_up(f"{options.build} has no backend {options.backend}: build it with make {MAKE[options.backend]}")
    comparison = Comparison(options)
    with Torch(options.ranks, options.backend) as ranks:
        for _ in range(options.rounds):
            for name in COLLECTIVES:
                collective_round(options, ranks, comparison, name)
            training_round(options, ranks, comparison)
    records = list(comparison.records())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(r) + "\n" for r in records)
    print_table(options, records)


if __name__ == "__main__":
    main()

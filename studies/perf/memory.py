"""Sections of make perf on memory itself: mem_bandwidth_perf against STREAM's kernels and sysbench."""

import os
import re
import shutil
import statistics

import programs
import speed

ITERATIONS = 7
WORKS = ("read", "write", "copy", "triad")


def measured(ranks, size, work):
    """GB/s of mem_bandwidth_perf, by all ranks at once and by one."""
    command = [f"{speed.BUILD}/mem_bandwidth_perf", "--backend", "host", "-g", str(ranks), "-b", str(size), "-e", str(size),
               "-n", str(ITERATIONS), "--work", work]
    return {r["workers"]: r["GBps"] for r in programs.records(command, "pair")}


def bare(kind, threads, size):
    return float(programs.output([f"{speed.BUILD}/tests/stream", kind, str(threads), str(size), str(ITERATIONS)]))


def sysbench(work, threads, size):
    """GB/s of sysbench, which reads and writes alone; None where it is not installed."""
    if work not in ("read", "write") or not shutil.which("sysbench"):
        return None
    out = programs.output(["sysbench", "memory", f"--threads={threads}", f"--memory-block-size={size}",
                           f"--memory-total-size={ITERATIONS * threads * size}", "--memory-scope=local",
                           f"--memory-oper={work}", "run"])
    return float(re.search(r"\(([0-9.]+) MiB/sec\)", out)[1]) * (1 << 20) / 1e9


def compared(mine, theirs):
    """A peer's median, and in parentheses how many times as fast busbench is; - where there is none."""
    if None in theirs:
        return "-"
    theirs = statistics.median(theirs)
    return f"{theirs:.1f} ({mine / theirs:.2f})"


def sections(out, repeats):
    ranks = len(os.sched_getaffinity(0))
    rows = []
    for workers in sorted({ranks, 1}, reverse=True):
        for size in (64 << 20, 512 << 20):
            for work in WORKS:
                mine, loop, other = [], [], []
                for _ in range(repeats):
                    mine.append(measured(ranks, size, work)[workers])
                    loop.append(bare(work, workers, size))
                    other.append(sysbench(work, workers, size))
                mine = statistics.median(mine)
                rows.append([str(workers), speed.size_text(size), work, f"{mine:.1f}", compared(mine, loop), compared(mine, other)])
    out.append("## Memory against STREAM's kernels and sysbench")
    out.append("")
    out.append("GB/s, reads and writes counted: `mem_bandwidth_perf` by so many cores at once, and bare loops over "
               "arrays of that size with stores past the caches as busbench's; sysbench reads and writes word by word, through "
               "the caches; in parentheses how many times as fast busbench is.")
    out.append("")
    speed.table(out, ["cores", "array", "work", "busbench", "bare loop", "sysbench"], rows)

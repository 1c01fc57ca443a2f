"""Sections of make perf on memory itself: mem_bandwidth_perf against STREAM's kernels."""

import json
import os
import statistics
import subprocess

import speed

ITERATIONS = 7
WORKS = ("read", "write", "copy", "triad")


def measured(ranks, size, work):
    """GB/s of mem_bandwidth_perf, by all ranks at once and by one."""
    out = subprocess.run([f"{speed.BUILD}/mem_bandwidth_perf", "--backend", "host", "-g", str(ranks), "-b", str(size),
                          "-e", str(size), "-n", str(ITERATIONS), "--work", work, "--json", "-"], check=True,
                         capture_output=True, text=True).stdout
    pairs = [r for r in map(json.loads, out.splitlines()) if r["kind"] == "pair"]
    return {r["workers"]: r["GBps"] for r in pairs}


def bare(kind, threads, size):
    out = subprocess.run([f"{speed.BUILD}/tests/stream", kind, str(threads), str(size), str(ITERATIONS)], check=True,
                         capture_output=True, text=True).stdout
    return float(out)


def sections(out, repeats):
    ranks = len(os.sched_getaffinity(0))
    rows = []
    for workers in sorted({ranks, 1}, reverse=True):
        for size in (64 << 20, 512 << 20):
            for work in WORKS:
                mine, loop = [], []
                for _ in range(repeats):
                    mine.append(measured(ranks, size, work)[workers])
                    loop.append(bare(work, workers, size))
                mine, loop = map(statistics.median, (mine, loop))
                rows.append([str(workers), speed.size_text(size), work, f"{mine:.1f}", f"{loop:.1f} ({mine / loop:.2f})"])
    out.append("## Memory against STREAM's kernels")
    out.append("")
    out.append("GB/s, reads and writes counted: `mem_bandwidth_perf` by so many cores at once, and bare loops over "
               "arrays of that size with stores past the caches as busbench's; in parentheses how many times as fast "
               "busbench's is.")
    out.append("")
    speed.table(out, ["cores", "array", "work", "busbench", "bare loop"], rows)

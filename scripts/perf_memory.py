"""Sections of make perf on memory itself: mem_bandwidth_perf against STREAM's copy kernel."""

import json
import os
import statistics
import subprocess

import speed

ITERATIONS = 7


def measured(ranks, size):
    """GB/s of mem_bandwidth_perf's copy, by all ranks at once and by one."""
    out = subprocess.run([f"{speed.BUILD}/mem_bandwidth_perf", "--backend", "host", "-g", str(ranks), "-b", str(size),
                          "-e", str(size), "-n", str(ITERATIONS), "--work", "copy", "--json", "-"], check=True,
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
            mine, plain, streaming = [], [], []
            for _ in range(repeats):
                mine.append(measured(ranks, size)[workers])
                streaming.append(bare("streaming", workers, size))
                plain.append(bare("plain", workers, size))
            mine, plain, streaming = map(statistics.median, (mine, plain, streaming))
            rows.append([str(workers), speed.size_text(size), f"{mine:.1f}", f"{streaming:.1f} ({mine / streaming:.2f})",
                         f"{plain:.1f} ({mine / plain:.2f})"])
    out.append("## Memory copy against STREAM's kernel")
    out.append("")
    out.append("GB/s, reads and writes counted: `mem_bandwidth_perf --work copy` by so many cores at once, and bare "
               "loops over the same arrays, with stores past the caches as busbench's and as the compiler makes them; "
               "in parentheses how many times as fast busbench's is.")
    out.append("")
    speed.table(out, ["cores", "array", "busbench", "bare loop, streaming", "bare loop, plain"], rows)

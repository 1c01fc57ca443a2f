"""The gloo backend's part of make perf: busbench's loop against a bare one around the same calls of Gloo."""

import os
import sys

import speed

KIB, MIB = 1 << 10, 1 << 20
COLLECTIVES = ("all_reduce", "all_gather", "alltoall")
BANDS = ((64 * KIB, 1 * MIB, 300), (4 * MIB, 64 * MIB, 10))  # sizes, iterations


def rows(name, ranks, most, repeats):
    for low, high, iterations in BANDS:
        high = min(high, most)
        if low > high:
            break
        bare = [f"{speed.BUILD}/tests/gloo_bare", str(ranks), str(iterations), name, *map(str, speed.sizes(low, high))]
        launch = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(speed.__file__)), "processes.py"), str(ranks)]
        ours = [*launch, f"{speed.BUILD}/{name}_perf", "--backend", "gloo", "--algo", "native", "-b", str(low), "-e",
                str(high), "-f", "4", "-n", str(iterations), "-c", "0", "--cache", "reuse", "--json", "-"]  # fmt: skip
        times = speed.interleave([("bare", bare), ("ours", ours)], repeats)
        for size in speed.sizes(low, high):
            loop, us = times[size, "bare"][0], times[size, "ours"][0]
            yield [name, speed.size_text(size), speed.us(loop), speed.us(us), f"{us / loop:.3f}"]


def sections(out, most, repeats):
    if not os.path.exists(f"{speed.BUILD}/backends/gloo.so"):
        out += ["## The gloo backend: not run, it was not built", ""]
        return
    for ranks in (2, 4):
        out += [f"## Gloo: busbench's loop against a bare one, {ranks} ranks", "",
                "Gloo's own collectives in microseconds. The bare loop adds by Gloo's sum, busbench by its kernels.", ""]  # fmt: skip
        found = [row for name in COLLECTIVES for row in rows(name, ranks, most, repeats)]
        speed.table(out, ["collective", "size", "bare us", "busbench us", "ratio"], found)

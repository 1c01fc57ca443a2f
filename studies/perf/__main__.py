#!/usr/bin/env python3
"""make perf: the speed of the host, mpi and gloo backends as ratios within one run, written as tables.

Every ratio compares two times of the same run: a plain copy by the same threads, a copy of the neighbour's freshly
written buffer, or Open MPI's MPI_Allreduce. Buffers are rewritten before each repetition; times are medians of
interleaved repetitions. Nothing passes or fails.
"""

import argparse
import datetime
import os
import platform
import shutil
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

import gloo  # noqa: E402
import memory  # noqa: E402
import mpi  # noqa: E402
import pairs  # noqa: E402
import programs  # noqa: E402
import sim  # noqa: E402
import speed  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
DIRECT = ["all_reduce", "all_gather", "broadcast", "reduce_scatter", "alltoall"]


def cpu_name():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown CPU"


def direct_section(out, ranks, low, high, repeats):
    """direct against copies: the time of its least bytes at copy speed over its own."""
    whats = ["copy", "xcopy"] + [f"{name}:direct" for name in DIRECT]
    result = speed.interleave([speed.host_command(ranks, low, high, 4, whats)], repeats)
    rows = []
    for size in sorted({key[0] for key in result}):
        copy, xcopy = result[size, "copy"][0], result[size, "xcopy"][0]
        row = [speed.size_text(size), speed.us(copy), speed.us(xcopy)]
        for name in DIRECT:
            time, copies = result[size, f"{name}:direct"]
            row.append(f"{speed.us(time)} ({copy * copies / time:.2f} / {xcopy * copies / time:.2f})")
        rows.append(row)
    out.append(f"## direct, {ranks} ranks")
    out.append("")
    out.append("Microseconds, and in parentheses the share of copy speed / of xcopy speed for the "
               "bytes that the collective needs at the least.")
    out.append("")
    speed.table(out, ["size", "copy", "xcopy", *DIRECT], rows)


def peer_section(out, ranks, low, high, factor, repeats):
    """The default against MPI_Allreduce."""
    if not shutil.which("mpirun") or not os.path.exists(f"{speed.BUILD}/tests/mpi_speed"):
        out.append(f"## Against MPI_Allreduce, {ranks} ranks: not run, Open MPI is not installed")
        out.append("")
        return
    commands = [speed.host_command(ranks, low, high, factor, ["all_reduce:auto"]),
                speed.mpi_command(ranks, low, high, factor)]
    result = speed.interleave(commands, repeats)
    rows = []
    for size in sorted({key[0] for key in result}):
        ours, peer = result[size, "all_reduce:auto"][0], result[size, "MPI_Allreduce"][0]
        rows.append([speed.size_text(size), speed.us(ours), speed.us(peer), f"{peer / ours:.2f}"])
    out.append(f"## The default against MPI_Allreduce, {ranks} ranks")
    out.append("")
    speed.table(out, ["size", "auto us", "MPI us", "times faster"], rows)


def schedule_section(out, ranks, low, high, repeats):
    """ring and tree against the time of the bytes they move at copy speed."""
    whats = ["copy", "xcopy", "all_reduce:ring", "all_reduce:tree", "all_reduce:halving_doubling",
             "all_reduce:recursive_doubling"]
    result = speed.interleave([speed.host_command(ranks, low, high, 4, whats)], repeats)
    rows = []
    for size in sorted({key[0] for key in result}):
        reference = result[size, "copy" if size >= 4 * MIB else "xcopy"][0]
        row = [speed.size_text(size), speed.us(reference)]
        for what in whats[2:]:
            time, copies = result[size, what]
            row.append(f"{speed.us(time)} ({time / (reference * copies):.2f})")
        rows.append(row)
    out.append(f"## Schedules, {ranks} ranks")
    out.append("")
    out.append("Microseconds, and in parentheses how many times what the moved bytes cost: at copy "
               "speed from 4M, at xcopy speed below.")
    out.append("")
    speed.table(out, ["size", "copy/xcopy", "ring", "tree", "halving_doubling", "recursive_doubling"],
          rows)


def overhead_section(out):
    """The cost of the harness itself per iteration."""
    command = [f"{speed.BUILD}/all_reduce_perf", "--backend", "null", "-b", "8", "-e", "8", "-n", "100000", "-g", "2"]
    times = [1e3 * row["p50_us"] for row in programs.records(command, "result")]
    out.append("## The harness itself")
    out.append("")
    out.append(f"One iteration on the null backend takes {min(times):.0f} ns (median of 100,000).")
    out.append("")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each program (default 3)")
    parser.add_argument("--most", type=int, default=64, help="largest size in MiB (default 64)")
    parser.add_argument("-o", "--output", help="default: perf.md in the build folder")
    options = parser.parse_args()
    speed.use_build(options.build)
    output = options.output or f"{options.build}/perf.md"
    most, repeats = options.most * MIB, options.repeats

    out = ["# Speed", "",
           f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, "
           f"{datetime.date.today()}. Written by `make perf`; all ratios are within one run.", ""]
    direct_section(out, 2, 64 * KIB, most, repeats)
    direct_section(out, 8, 64 * KIB, min(most, 16 * MIB), repeats)
    peer_section(out, 2, 8, most, 2, repeats)
    for ranks in (4, 8):
        peer_section(out, ranks, 16, min(most, 16 * MIB), 4, repeats)
    schedule_section(out, 2, 1 * MIB, most, repeats)
    schedule_section(out, 8, 64 * KIB, min(most, 16 * MIB), repeats)
    pairs.sections(out, most, repeats)
    overhead_section(out)
    memory.sections(out, repeats)
    mpi.sections(out, most, repeats)
    gloo.sections(out, most, repeats)
    sim.sections(out, repeats)
    text = "\n".join(out)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    print(text)
    print(f"written to {output}", file=sys.stderr)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""make tune: measure which algorithm is the fastest for each size and write the table that
`auto` reads (src/backends/host/tuning_table.inc). Build again afterwards.

direct stays unless another algorithm is clearly faster, so that noise does not decide."""

import argparse
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts"))

import programs  # noqa: E402
import speed  # noqa: E402

TABLE = "src/backends/host/tuning_table.inc"
CLEARLY = 1.08  # times as fast as direct
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
               "scatter", "alltoall", "sendrecv"]


def algorithms(collective):
    """The schedules that --list names for the collective on the host backend."""
    text = programs.output([f"{speed.BUILD}/{collective}_perf", "--list"])
    names, inside = [], False
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["backend"]:
            inside = words[1] == "host:"
        elif inside and words[:1] == [collective]:
            names = words[1:]
            break
    return [name for name in names if name not in ("auto", "direct", "naive")]


def best(result, sizes, collective):
    """[(size, algorithm)] for every size."""
    rows = []
    for size in sizes:
        times = {what.split(":")[1]: time for (at, what), (time, _) in result.items()
                 if at == size and what.startswith(collective + ":")}
        winner = min(times, key=times.get)
        if times["direct"] <= CLEARLY * times[winner]:
            winner = "direct"
        rows.append((size, winner))
    return rows


def merge(rows):
    """The last size of each run of the same winner; direct at the end needs no row."""
    merged = []
    for size, name in rows:
        if merged and merged[-1][1] == name:
            merged[-1] = (size, name)
        else:
            merged.append((size, name))
    while merged and merged[-1][1] == "direct":
        merged.pop()
    return merged


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each program (default 3)")
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks (default 2,4,8)")
    parser.add_argument("--most", type=int, default=16, help="largest size in MiB (default 16)")
    options = parser.parse_args()
    speed.use_build(options.build)
    cores = len(os.sched_getaffinity(0))
    ranks = sorted(int(n) for n in options.ranks.split(","))
    lines = ["/* collective, crowded, most ranks, most bytes, algorithm */"]
    for collective in COLLECTIVES:
        whats = [f"{collective}:direct"] + [f"{collective}:{a}" for a in algorithms(collective)]
        for n in ranks:
            # Of less than 16 bytes a rank the rounded collectives move nothing.
            low = 8 if collective in ("all_reduce", "broadcast", "reduce", "sendrecv") else 16 * n
            command = speed.host_command(n, low, options.most << 20, 8, whats)
            result = speed.interleave([command], options.repeats)
            sizes = sorted({size for size, _ in result})
            most = 1024 if n == ranks[-1] else n
            crowded = "true" if n > cores else "false"
            for size, name in merge(best(result, sizes, collective)):
                text = speed.size_text(size)
                text = text[:-1] + " " + text[-1] if text[-1] in "KMG" else text
                lines.append(f'{{ "{collective}", {crowded}, {most}, {text}, "{name}" }},')
    with open(TABLE, "w", encoding="utf-8") as table:
        table.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    print(f"written to {TABLE}; build again to use it")


if __name__ == "__main__":
    main()

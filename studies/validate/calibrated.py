#!/usr/bin/env python3
"""Part of make validate: --calibrate with published measurements. A part of the rows of a site, as a log of nccl-tests,
calibrates the description of the site without the constants fitted to it; the other rows are predicted. Writes
calibrated.csv for docs/validation.md, a line for each part and class of sizes."""

import argparse
import csv
import os
import sys
import tempfile

import sim as v

# Fewer rows cannot be fitted.
FEWEST = 3
LINE = "{:12d} {:12d} {:>8} {:>6} {:>6} {:>9.2f} {:>8.2f} {:>8.2f} {:>6}\n"


def series_of(row):
    return row["collective"], row["run"], int(row["ranks"])


def sizes_of(rows, series):
    return sorted({row["bytes"] for row in rows if series_of(row) == series})


def every(step):
    """Of each series every STEP-th size."""
    def split(rows):
        known = {(series, size) for series in set(map(series_of, rows)) for size in sizes_of(rows, series)[::step]}
        yield [row for row in rows if (series_of(row), row["bytes"]) in known]
    return split


def half(upper):
    """Of each series the smaller or the larger half of the sizes."""
    def split(rows):
        known = set()
        for series in set(map(series_of, rows)):
            sizes = sizes_of(rows, series)
            middle = len(sizes) // 2
            known |= {(series, size) for size in (sizes[middle:] if upper else sizes[:middle])}
        yield [row for row in rows if (series_of(row), row["bytes"]) in known]
    return split


def one(key):
    """One collective or one number of ranks, in turn."""
    def split(rows):
        values = sorted({key(row) for row in rows})
        for value in values if len(values) > 1 else ():
            yield [row for row in rows if key(row) == value]
    return split


def but_one(key):
    """All but one collective or number of ranks, in turn, where at least two remain."""
    def split(rows):
        values = sorted({key(row) for row in rows})
        for value in values if len(values) > 2 else ():
            yield [row for row in rows if key(row) != value]
    return split


def collective_of(row):
    return row["collective"]


def ranks_of(row):
    return int(row["ranks"])


SPLITS = (
    ("every second size", "the sizes between", every(2)),
    ("every fourth size", "the sizes between", every(4)),
    ("the smaller half of the sizes", "the larger half", half(False)),
    ("the larger half of the sizes", "the smaller half", half(True)),
    ("one collective", "the others", one(collective_of)),
    ("all collectives but one", "that one", but_one(collective_of)),
    ("one number of ranks", "the others", one(ranks_of)),
    ("all numbers of ranks but one", "that one", but_one(ranks_of)),
)


def site_of(row):
    """Rows of one machine with one description."""
    return v.machine(row["system"]), row["cluster"].split(":")[0]


def log_of(rows):
    """ROWS as nccl-tests prints them, a run for each series."""
    text = ""
    for series in sorted(set(map(series_of, rows))):
        collective, algorithm, ranks = series
        mine = [row for row in rows if series_of(row) == series]
        text += f"# Collective test starting: {collective}_perf\n"
        for rank in range(ranks):
            text += f"#  Rank {rank} Group 0 Pid {rank} on node{rank // mine[0]['per_node']} device 0 [0x0f] GPU\n"
        if algorithm != "auto":
            text += f"# Algorithm: {algorithm}\n"
        for placement in ("oop", "ip"):
            some = sorted((row for row in mine if (row["placement"] == "ip") == (placement == "ip")),
                          key=lambda row: row["bytes"])
            text += f"#  {'in-place' if placement == 'ip' else 'out-of-place'}\n" if some else ""
            factor = v.FACTORS.get(collective, lambda n: (n - 1) / n)(ranks)
            for row in some:
                rate = row["bytes"] / row["us"] / 1e3
                text += LINE.format(row["bytes"], row["bytes"] // 4, "float", "sum", -1, row["us"], rate, rate * factor, "0")
    return text


def predict(build, site, known, folder, clusters):
    """The rows of SITE but those KNOWN, with the errors and intervals of their predictions."""
    path = os.path.join(folder, "log.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(log_of(known))
    others = [row for row in site if row not in known]
    for row, record, _ in v.predicted(build, others, clusters, ("--calibrate", path)):
        ends = [record[f"predicted_{end}_us"] / record["time_us"] for end in ("low", "high")]
        yield {**row, "error": record["time_us"] / row["us"] - 1, "interval": ends}


def sites(build, counted, clusters):
    """The rows of each site, with their errors without a calibration as "plain"."""
    for site in dict.fromkeys(map(site_of, counted)):
        mine = [row for row in counted if site_of(row) == site]
        # All nodes of a site, so that results of all numbers of ranks have room.
        nodes = max(int(row["cluster"].split(":")[1]) for row in mine)
        mine = [{**row, "cluster": f"{site[1]}:{nodes}"} for row in mine]
        for row, record, _ in v.predicted(build, mine, clusters):
            row["plain"] = record["time_us"] / row["us"] - 1
        yield mine


def lines(build, counted, folder, clusters):
    some = list(sites(build, counted, clusters))
    for name, other, split in SPLITS:
        found = [row for site in some for known in split(site) if FEWEST <= len(known) < len(site)
                 for row in predict(build, site, known, folder, clusters)]
        for sizes, wanted in (("from 256 MiB on", True), ("below 256 MiB", False)):
            rows = [row for row in found if v.large(row) == wanted]
            if not rows:
                continue
            errors, plain = v.figures(rows), v.figures(rows, "plain")
            inside, width = v.held(rows, "error", "interval")
            numbers = {"median": errors["median"], "p90": errors["p90"], "inside": inside, "width": width,
                       "plain_median": plain["median"], "plain_p90": plain["p90"]}
            yield {"known": name, "predicted": other, "sizes": sizes, "rows": len(rows),
                   **{key: f"{value:.4f}" for key, value in numbers.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    parser.add_argument("folder", nargs="?", default=v.REFERENCE, help="where the table goes")
    arguments = parser.parse_args()
    try:
        rows = v.evaluate(arguments.build)
        counted = v.of_library(rows)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as clusters:
            v.strip_sites(clusters)
            found = list(lines(arguments.build, counted, folder, clusters))
    except v.Failure as failure:
        sys.exit(str(failure))
    with open(os.path.join(arguments.folder, "calibrated.csv"), "w", encoding="utf-8") as file:
        out = csv.DictWriter(file, found[0], lineterminator="\n")
        out.writeheader()
        out.writerows(found)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""make validate: what the sim backend predicts of NCCL, held against published measurements.

Every row of the files in reports/reference is in the table: predicted and compared, used to fit a
constant and therefore not counted, or left out for a reason that is said. Which row is what, and on
which cluster it is predicted, is in reports/reference/model_rows.csv."""

import argparse
import csv
import fnmatch
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REFERENCE = os.path.join(ROOT, "reports", "reference")
LARGE = 256 << 20
# Of a busbw of two decimals; what is known no better tells nothing.
COARSE = 0.05
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda n: 1, "reduce": lambda n: 1}
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Failure(Exception):
    """The table cannot be made."""


def read(name):
    with open(os.path.join(REFERENCE, name), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def bytes_of(text):
    """"16M" is 16 MiB."""
    unit = text[-1] if text[-1] in "KMG" else ""
    return int(text[:len(text) - len(unit)]) * UNITS[unit]


def published():
    """All rows of both files, alike."""
    for line, row in enumerate(read("reference_busbw.csv"), 2):
        yield {"file": "reference_busbw", "line": line, "system": row["id"], "ranks": row["nranks"],
               "collective": row["collective"], "algorithm": row["algo"], "size": row["size_bytes"],
               "placement": row["placement"], "time": row["time_us"], "busbw": row["busbw_GBps"]}
    for line, row in enumerate(read("scale_measurements.csv"), 2):
        yield {"file": "scale_measurements", "line": line, "system": row["system"], "ranks": row["ranks"],
               "collective": row["collective"], "algorithm": row["algo"], "size": row["size_bytes"],
               "placement": "", "time": row["time_us"], "busbw": row["busbw_GBs"]}


def rule_of(row, rules):
    """The first rule that fits, as a file of patterns is read."""
    for rule in rules:
        if all(fnmatch.fnmatchcase(row[key].strip(), rule[key])
               for key in ("file", "system", "ranks", "collective", "algorithm")):
            return rule
    raise Failure(f"{row['file']}.csv, line {row['line']}: no row of model_rows.csv fits {row['system']}")


def settle(row, rule):
    """What the row is, why, and the time that it says."""
    row.update(what=rule["class"], why=rule["reason"], cluster=rule["cluster"], run=rule["run"])
    if row["what"] != "model":
        return
    if not row["size"].isdigit():
        row.update(what="suspicious", why="no size is said")
        return
    row["bytes"], n, busbw = int(row["size"]), int(row["ranks"]), number(row["busbw"])
    factor = FACTORS.get(row["collective"], lambda n: (n - 1) / n)(n)
    row["us"] = number(row["time"])
    if row["us"] is None:
        if busbw == 0 or 0.005 / busbw > COARSE:
            row.update(what="too coarse", why="published as a bus bandwidth of two decimals alone")
            return
        row["us"] = row["bytes"] * factor / busbw / 1e3
    for fit in rule["fit"].split():
        size, placement = fit.rstrip("oip"), fit[len(fit.rstrip("oip")):]
        if bytes_of(size) == row["bytes"] and placement in ("", row["placement"]):
            row["what"] = "fit"


def command(build, row):
    name, nodes = row["cluster"].split(":")
    path = os.path.join(REFERENCE, "clusters", name + ".txt")
    cluster = f"{path if os.path.exists(path) else name}:{nodes}"
    return (f"{build}/{row['collective']}_perf", "--backend", "sim", "--cluster", cluster, "-g", row["ranks"],
            "--algo", row["run"])


def predict(build, rows):
    """Run each command once, over all sizes that are asked for."""
    runs = {}
    for row in rows:
        if row["what"] in ("model", "fit"):
            runs.setdefault(command(build, row), []).append(row)
    for words, asked in runs.items():
        sizes = [row["bytes"] for row in asked]
        words = [*words, "-b", str(min(sizes)), "-e", str(max(sizes)), "-f", "2", "--json", "-"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        records = map(json.loads, done.stdout.splitlines())
        # In steps of two all sizes are there; what is rounded is a little less than was asked for.
        times = {record["size_bytes"]: record for record in records
                 if record["kind"] == "result" and not record["in_place"]}
        for row in asked:
            record = times[max(size for size in times if size <= row["bytes"])]
            row["predicted"] = record["time_us"]
            row["chosen"] = record["library_algorithm"] or record["algorithm"]
            row["error"] = record["time_us"] / row["us"] - 1


def tail(errors):
    """The 90th percentile, nearest rank."""
    return sorted(errors)[-(-9 * len(errors) // 10) - 1]


def figures(rows):
    errors = [abs(row["error"]) for row in rows]
    return {"rows": len(errors), "median": statistics.median(errors) if errors else None,
            "p90": tail(errors) if errors else None}


def percent(value):
    return "" if value is None else f"{100 * value:.1f} %"


def large(row):
    return row["bytes"] >= LARGE


def group_of(row):
    return f"{row['system'].split(' (')[0].rstrip(',')}, {row['collective']}"


def ranks_of(rows):
    counts = sorted({int(row["ranks"]) for row in rows})
    return "-".join(dict.fromkeys(str(n) for n in (counts[0], counts[-1])))


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"


def size_text(size):
    for unit in ("", "K", "M"):
        if size < 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}G"


def fresh(rows):
    """Of systems of which no row was used to fit anything."""
    used = {group_of(row) for row in rows if row["what"] == "fit"} | {row["system"] for row in rows if row["what"] == "fit"}
    return [row for row in rows if row["what"] == "model" and not {group_of(row), row["system"]} & used]


def summary(rows):
    """What the tests hold on to: name, rows, figures, what is asked for."""
    counted = [row for row in rows if row["what"] == "model"]
    for name, some, median, p90 in (("from 256 MiB on", list(filter(large, counted)), 0.05, 0.15),
                                    ("below 256 MiB", [r for r in counted if not large(r)], 0.20, None),
                                    ("from 256 MiB on, of systems of which nothing was fitted",
                                     list(filter(large, fresh(rows))), None, None)):
        yield name, figures(some), median, p90


def summary_table(rows):
    yield from table(["sizes", "rows", "median error", "asked for", "p90", "asked for"],
                     ([name, f["rows"], percent(f["median"]), percent(median), percent(f["p90"]), percent(p90)]
                      for name, f, median, p90 in summary(rows)))


def groups(rows):
    names = dict.fromkeys(group_of(row) for row in rows if row["what"] in ("model", "fit"))
    for name in names:
        mine = [row for row in rows if row["what"] in ("model", "fit") and group_of(row) == name]
        counted = [row for row in mine if row["what"] == "model"]
        high, low = figures(list(filter(large, counted))), figures([r for r in counted if not large(r)])
        yield [name, ranks_of(mine), ", ".join(dict.fromkeys(row["cluster"] for row in mine)),
               len(mine) - len(counted), high["rows"], percent(high["median"]), percent(high["p90"]), low["rows"],
               percent(low["median"]), percent(low["p90"])]


def missed(row):
    return row["what"] == "model" and abs(row["error"]) > (0.15 if large(row) else 0.2)


def reason_of(row, reasons):
    for reason in reasons:
        if (fnmatch.fnmatchcase(row["system"], reason["system"])
                and fnmatch.fnmatchcase(row["collective"], reason["collective"])
                and bytes_of(reason["from"]) <= row["bytes"] <= bytes_of(reason["to"])):
            return reason["reason"]
    return "not known"


def misses(rows, reasons):
    """Those beyond what is asked for, with the first reason that fits."""
    found = {}
    for row in filter(missed, rows):
        found.setdefault((group_of(row), row["ranks"], reason_of(row, reasons)), []).append(row)
    for (name, ranks, why), some in found.items():
        yield [name, ranks, len(some), ", ".join(f"{size_text(row['bytes'])} {100 * row['error']:+.0f} %"
                                                 for row in some), why]


def left_out(rows):
    kinds = {}
    for row in rows:
        if row["what"] not in ("model", "fit"):
            kinds.setdefault((row["what"], row["why"], row["file"], row["system"].split(" (")[0]), []).append(row)
    for (what, why, file, system), some in sorted(kinds.items()):
        yield [what, system, len(some), f"{file}.csv", why]


def every(rows):
    for row in rows:
        if row["what"] in ("model", "fit"):
            yield [f"{row['file']}:{row['line']}", row["system"].split(" (")[0], row["collective"], row["ranks"],
                   size_text(row["bytes"]), row["placement"], f"{row['us']:.1f}", f"{row['predicted']:.1f}",
                   f"{100 * row['error']:+.1f} %", row["chosen"], "fit" if row["what"] == "fit" else ""]


def document(rows):
    counts = {what: sum(row["what"] == what for row in rows) for what in dict.fromkeys(r["what"] for r in rows)}
    yield "# How near the sim backend comes to NCCL\n"
    yield ("Written by `make validate` (scripts/validate_sim.py). Every row of the published measurements in "
           "`reports/reference` is\nhere: predicted and compared, used to fit a constant of the model and "
           "therefore not counted, or left out for a\nreason. Errors are of times; what the model is: "
           "[simulator.md](simulator.md).\n")
    yield "Rows: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + f"; {len(rows)} in all.\n"
    yield from summary_table(rows)
    yield ("\nThe constants are few, but the form of the model was found with all these rows in view.\n")
    yield "## By system\n"
    yield "Times predicted on a cluster of `reports/reference/clusters` or a known system.\n"
    yield from table(["system, collective", "ranks", "cluster", "fit", "rows ≥ 256M", "median", "p90", "rows < 256M",
                      "median", "p90"], groups(rows))
    yield "\n## Misses: beyond 15 % from 256 MiB on, 20 % below\n"
    yield from table(["system, collective", "ranks", "rows", "sizes and errors", "reason"],
                     misses(rows, read("model_misses.csv")))
    yield "\n## Left out\n"
    yield from table(["what it is", "system", "rows", "file", "reason"], left_out(rows))
    yield "\n## All\n"
    yield from table(["row", "system", "collective", "ranks", "size", "", "published us", "predicted us", "error",
                      "chosen", ""], every(rows))


def evaluate(build):
    """All rows of both files, settled and predicted."""
    rules, rows = read("model_rows.csv"), list(published())
    for row in rows:
        settle(row, rule_of(row, rules))
    predict(build, rows)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    arguments = parser.parse_args()
    try:
        rows = evaluate(arguments.build)
    except Failure as failure:
        sys.exit(str(failure))
    for line in document(rows):
        print(line)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""make validate: predictions of the sim backend against published measurements of NCCL.

Every row of the files in reports/reference is in the table: predicted and compared, used to fit a constant and
therefore not counted, or left out with a reason. reports/reference/model_rows.csv gives the class and the cluster of
each row."""

import argparse
import csv
import fnmatch
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REFERENCE = os.path.join(ROOT, "reports", "reference")
CLUSTERS = os.path.join(REFERENCE, "clusters")
# The constants for all sites.
GENERAL = (os.path.join(ROOT, "src", "simulator", "nccl.txt"), os.path.join(ROOT, "src", "simulator", "clusters.txt"))
LARGE = 256 << 20
# Largest rounding error of a row that is published as a busbw of two decimals.
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
    """All rows of both files, in one form."""
    for line, row in enumerate(read("reference_busbw.csv"), 2):
        yield {"file": "reference_busbw", "line": line, "system": row["id"], "ranks": row["nranks"],
               "collective": row["collective"], "algorithm": row["algo"], "size": row["size_bytes"],
               "placement": row["placement"], "time": row["time_us"], "busbw": row["busbw_GBps"]}
    for line, row in enumerate(read("scale_measurements.csv"), 2):
        yield {"file": "scale_measurements", "line": line, "system": row["system"], "ranks": row["ranks"],
               "collective": row["collective"], "algorithm": row["algo"], "size": row["size_bytes"],
               "placement": "", "time": row["time_us"], "busbw": row["busbw_GBs"]}


def rule_of(row, rules):
    """The first rule whose patterns fit."""
    for rule in rules:
        if all(fnmatch.fnmatchcase(row[key].strip(), rule[key])
               for key in ("file", "system", "ranks", "collective", "algorithm")):
            return rule
    raise Failure(f"{row['file']}.csv, line {row['line']}: no row of model_rows.csv fits {row['system']}")


def settle(row, rule):
    """Sets the row's class with its reason, and its time."""
    row.update(what=rule["class"], why=rule["reason"], cluster=rule["cluster"], run=rule["run"])
    if row["what"] != "model":
        return
    if not row["size"].isdigit():
        row.update(what="suspicious", why="published without a size")
        return
    row["bytes"], n, busbw = int(row["size"]), int(row["ranks"]), number(row["busbw"])
    factor = FACTORS.get(row["collective"], lambda n: (n - 1) / n)(n)
    row["us"] = number(row["time"])
    if row["us"] is None:
        if busbw == 0 or 0.005 / busbw > COARSE:
            row.update(what="too coarse", why="published only as a bus bandwidth of two decimals")
            return
        row["us"] = row["bytes"] * factor / busbw / 1e3
    for fit in rule["fit"].split():
        size, placement = fit.rstrip("oip"), fit[len(fit.rstrip("oip")):]
        if bytes_of(size) == row["bytes"] and placement in ("", row["placement"]):
            row["what"] = "fit"


def command(build, row, clusters):
    name, nodes = row["cluster"].split(":")
    path = os.path.join(clusters, name + ".txt")
    cluster = f"{path if os.path.exists(path) else name}:{nodes}"
    return (f"{build}/{row['collective']}_perf", "--backend", "sim", "--cluster", cluster, "-g", row["ranks"],
            "--algo", row["run"])


def predicted(build, rows, clusters):
    """(row, its record, the record of the run) of each row, from one run of each command over all its sizes."""
    runs = {}
    for row in rows:
        runs.setdefault(command(build, row, clusters), []).append(row)
    for words, asked in runs.items():
        sizes = [row["bytes"] for row in asked]
        words = [*words, "-b", str(min(sizes)), "-e", str(max(sizes)), "-f", "2", "--json", "-"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        records = [json.loads(line) for line in done.stdout.splitlines()]
        # In steps of two all sizes exist; a rounded one is slightly smaller than requested.
        times = {record["size_bytes"]: record for record in records
                 if record["kind"] == "result" and not record["in_place"]}
        for row in asked:
            yield row, times[max(size for size in times if size <= row["bytes"])], records[0]


def strip_sites(folder):
    """Writes all descriptions of sites to FOLDER, without the constants fitted to them."""
    for name in os.listdir(CLUSTERS):
        with open(os.path.join(CLUSTERS, name), encoding="utf-8") as file:
            lines = [line for line in file if "# fitted:" not in line]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.writelines(lines)


def predict(build, rows):
    """Predicts all rows that count by the description of their site, and those of unseen machines also without the
    constants fitted to it."""
    counted = [row for row in rows if row["what"] in ("model", "fit")]
    for row, record, run in predicted(build, counted, CLUSTERS):
        row["predicted"] = record["time_us"]
        row["chosen"] = record["library_algorithm"] or record["algorithm"]
        row["error"] = record["time_us"] / row["us"] - 1
        row["generation"] = re.search(r"\((\w+):", run["library"]).group(1)
    with tempfile.TemporaryDirectory() as folder:
        strip_sites(folder)
        for row, record, _ in predicted(build, unseen(counted), folder):
            row["unseen"] = record["time_us"] / row["us"] - 1


def machine(system):
    """The machine of a system: "mle_h200" of mle_h200_1n and mle_h200_16g."""
    return "_".join(re.split(r",| \(", system)[0].split("_")[:2])


def fitted(paths):
    """(section, system) of each constant that the files call fitted."""
    for path in paths:
        section = ""
        with open(path, encoding="utf-8") as file:
            for line in file:
                section = line.strip("[]\n") if line.startswith("[") else section
                if "# fitted:" in line:
                    for part in line.split("# fitted:")[1].split(";"):
                        yield section, part.split(",")[0].strip()


def unseen(rows):
    """Rows of machines to which no constant for all sites was fitted."""
    used = {machine(system) for _, system in fitted(GENERAL)}
    return [row for row in rows if machine(row["system"]) not in used]


def tail(errors):
    """The 90th percentile, nearest rank."""
    return sorted(errors)[-(-9 * len(errors) // 10) - 1]


def figures(rows, key="error"):
    errors = [abs(row[key]) for row in rows]
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


def summary(rows):
    """(name, figures, target of the median, target of p90), which the tests check."""
    counted = [row for row in rows if row["what"] == "model"]
    new = unseen([row for row in rows if row["what"] in ("model", "fit")])
    for name, some, key, median, p90 in (
            ("from 256 MiB on", list(filter(large, counted)), "error", 0.05, 0.15),
            ("below 256 MiB", [r for r in counted if not large(r)], "error", 0.20, None),
            ("from 256 MiB on, of unseen machines", list(filter(large, new)), "unseen", None, None),
            ("below 256 MiB, of unseen machines", [r for r in new if not large(r)], "unseen", None, None)):
        yield name, figures(some, key), median, p90


def summary_table(rows):
    yield from table(["sizes", "rows", "median error", "target", "p90", "target"],
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
    """Rows beyond the targets, with the first reason that fits."""
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


def honesty(rows):
    """States what the figures say about machines that are not in the files."""
    counted = [row for row in rows if row["what"] in ("model", "fit")]
    sections = {section for section, _ in fitted(GENERAL)}
    new = [row for row in counted if row["generation"] not in sections]
    names = list(dict.fromkeys(machine(row["system"]) for row in unseen(counted)))
    return textwrap.fill(
        f"Unseen machines ({', '.join(names)}): no constant for all sites (nccl.txt, clusters.txt) was fitted to their rows. "
        "Constants fitted to the site itself (`reports/reference/clusters`: NICs, their latency, the rate at which operations "
        "are issued) are left out, because nobody knows them before measuring there; all their rows count. These machines "
        "resemble seen ones: each generation of GPUs has its own constants, and generations without fitted constants have "
        f"{len(new)} row{'' if len(new) == 1 else 's'} ({', '.join(dict.fromkeys(row['generation'] for row in new))}). The "
        "form of the model was found with all rows in view except those of oci_gb200, oci_gb300 and Alps; nothing changed "
        "after these came.", 120)


def left_out_rows():
    """The rows of left_out.csv, which scripts/validate_left_out.py writes."""
    for row in read("left_out.csv"):
        yield [row["machine"], row["constants"], row["fitted to"],
               *(row[f"{size}_{key}"] if key == "rows" else percent(number(row[f"{size}_{key}"]))
                 for size in ("large", "small") for key in ("rows", "median", "p90"))]


def document(rows):
    counts = {what: sum(row["what"] == what for row in rows) for what in dict.fromkeys(r["what"] for r in rows)}
    yield "# Errors of the sim backend against NCCL\n"
    yield textwrap.fill(
        "Written by `make validate` (scripts/validate_sim.py). Every row of the published measurements in `reports/reference` "
        "is listed: predicted and compared, used to fit a constant of the model and therefore not counted, or left out with a "
        "reason. Errors are those of times. [simulator.md](simulator.md) describes the model.", 120) + "\n"
    yield "Rows: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + f"; {len(rows)} in all.\n"
    yield from summary_table(rows)
    yield "\n" + honesty(rows) + "\n"
    yield "## Each machine left out\n"
    yield textwrap.fill(
        "The constants of nccl.txt that were fitted to a machine are fitted again to the rows of all other machines that "
        "depend on them (least mean error, to within a few percent, by at most a factor of 1.6). Then its rows are predicted, "
        "without the constants of its site. A constant that no other row depends on stays. "
        "(`scripts/validate_left_out.py`)", 120) + "\n"
    yield from table(["machine", "constants", "rows fitted to", "rows ≥ 256M", "median", "p90", "rows < 256M", "median",
                      "p90"], left_out_rows())
    yield "\n## By system\n"
    yield "Times predicted on a cluster of `reports/reference/clusters` or a known system.\n"
    yield from table(["system, collective", "ranks", "cluster", "fit", "rows ≥ 256M", "median", "p90", "rows < 256M",
                      "median", "p90"], groups(rows))
    yield "\n## Misses: errors above 15 % from 256 MiB up, above 20 % below\n"
    yield from table(["system, collective", "ranks", "rows", "sizes and errors", "reason"],
                     misses(rows, read("model_misses.csv")))
    yield "\n## Left out\n"
    yield from table(["class", "system", "rows", "file", "reason"], left_out(rows))
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

#!/usr/bin/env python3
"""make validate: predictions of the sim backend against published measurements of NCCL and of Open MPI.

Every row of the files in reports/reference is in the table: predicted and compared, used to fit a constant and
therefore not counted, or left out with a reason. reports/reference/model_rows.csv gives the class and the cluster of
each row."""

import argparse
import csv
import fnmatch
import itertools
import json
import math
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
# An interval shall hold nine in ten measurements of another machine. Fitted to K machines it holds (1 + 1 / K) times
# that share, since the next machine may differ from all of them, but at most MOST of each class of sizes.
HELD, MOST = 0.9, (0.94, 0.94, 0.95)
REACHES = ("node", "shared", "nodes")
# The relative rounding error of a busbw of two decimals above which the row is not counted.
COARSE = 0.05
# Collectives of rows that name a call of MPI.
CALLS = {"MPI_Allreduce CPU": "all_reduce"}
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
    return (f"{build}/{CALLS.get(row['collective'], row['collective'])}_perf", "--backend", "sim", "--cluster", cluster, "-g", row["ranks"],
            "--algo", row["run"])


def predicted(build, rows, clusters, more=()):
    """(row, its record, the record of the run) of each row, from one run of each command over all its sizes. MORE:
    further words of the command."""
    runs = {}
    for row in rows:
        runs.setdefault(command(build, row, clusters), []).append(row)
    for words, wanted in runs.items():
        sizes = [row["bytes"] for row in wanted]
        words = [*words, "-b", str(min(sizes)), "-e", str(max(sizes)), "-f", "2", "--json", "-", *more]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        records = [json.loads(line) for line in done.stdout.splitlines()]
        # In steps of two all sizes exist; a rounded one is slightly smaller than requested.
        times = {record["size_bytes"]: record for record in records
                 if record["kind"] == "result" and not record["in_place"]}
        for row in wanted:
            yield row, times[max(size for size in times if size <= row["bytes"])], records[0]


def strip_sites(folder):
    """Writes all descriptions of sites to FOLDER, without the constants fitted to them."""
    for name in os.listdir(CLUSTERS):
        with open(os.path.join(CLUSTERS, name), encoding="utf-8") as file:
            lines = [line for line in file if "# fitted:" not in line]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.writelines(lines)


def room_of(text):
    """(ranks, nodes) of the cluster that TEXT describes."""
    return tuple(map(int, re.search(r"room for (\d+) ranks? on (\d+) node", text).groups()))


def reach_of(text, ranks):
    """Of the first RANKS of the cluster that TEXT describes: "node", "shared" (nodes that share switches), "nodes"."""
    room, nodes = room_of(text)
    shared = re.search(r"shared by (\d+) nodes", text)
    if ranks <= room // nodes:
        return "node"
    return "shared" if shared and ranks <= room // nodes * int(shared.group(1)) else "nodes"


def known(folder, cluster):
    """True if FOLDER says how fast operations are issued there, or what a network plug-in takes."""
    path = os.path.join(folder, cluster.split(":")[0] + ".txt")
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as file:
        return any(line.startswith(("nccl_issue", "nccl_process_gpus", "nccl_nic_latency")) for line in file)


def predict(build, rows):
    """Of all rows that count, as their site is described."""
    counted = [row for row in rows if row["what"] in ("model", "fit")]
    for row, record, run in predicted(build, counted, CLUSTERS):
        row["predicted"] = record["time_us"]
        row["chosen"] = record["library_algorithm"] or record["algorithm"]
        row["error"] = record["time_us"] / row["us"] - 1
        row["library"] = library_of(run)
        row["generation"] = "".join(re.findall(r"\((\w+):", run["library"]))
        row["interval"] = [record[f"predicted_{end}_us"] / record["time_us"] for end in ("low", "high")]
        room, nodes = room_of(run["network"])
        row["per_node"] = room // nodes
        row["reach"] = reach_of(run["network"], int(row["ranks"]))
        row["known"] = known(CLUSTERS, row["cluster"])


def library_of(run):
    return next(name for name in ("NCCL", "Open MPI") if f"a model of {name} " in run["library"])


def of_library(rows, library="NCCL"):
    """The rows that count and were predicted by the model of LIBRARY."""
    return [row for row in rows if row["what"] in ("model", "fit") and row["library"] == library]


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


def tail(errors):
    """The 90th percentile, nearest rank."""
    return sorted(errors)[-(-9 * len(errors) // 10) - 1]


def figures(rows, key="error"):
    errors = [abs(row[key]) for row in rows]
    return {"rows": len(errors), "median": statistics.median(errors) if errors else None,
            "p90": tail(errors) if errors else None}


def size_class(row):
    """As in bb_nccl_interval."""
    return 0 if row["bytes"] < 1 << 20 else 1 if not large(row) else 2


def shortest(pairs, share):
    """The shortest interval of (value, weight) that has SHARE of the weight."""
    pairs = sorted(pairs)
    need, first, weight, best = share * sum(w for _, w in pairs), 0, 0, None
    for value, more in pairs:
        weight += more
        while weight - pairs[first][1] >= need:
            weight -= pairs[first][1]
            first += 1
        if weight >= need and (best is None or value - pairs[first][0] < best[1] - best[0]):
            best = (pairs[first][0], value)
    return best


def interval(samples, reach, knows, size):
    """The interval of a class. With samples of fewer than three machines it includes sites known better or worse,
    then one node. Below 256 MiB, nodes that share switches count as one node."""
    alike = ("node", "shared") if size < 2 and reach != "nodes" else (reach,)
    for reaches, among in ((alike, (knows,)), (alike, (False, True)), (("node",), (False, True))):
        some = [sample for sample in samples if sample[1] in reaches and sample[2] in among and sample[3] == size]
        machines = [sample[0] for sample in some]
        if len(set(machines)) >= 3:
            break
    share = min(MOST[size], HELD * (1 + 1 / len(set(machines))))
    low, high = shortest([(sample[4], machines.count(sample[0]) ** -0.5) for sample in some], share)
    return math.floor(100 * low) / 100, math.ceil(100 * high) / 100


def samples(rows):
    """(machine, reach, known, size class, measured over predicted) of machines left out, and of sites as described."""
    counted = of_library(rows)
    return [(machine(row["system"]), row["reach"], row["left_known"], size_class(row), 1 / (1 + row["left_out"]))
            for row in counted] + [
        (machine(row["system"]), row["reach"], True, size_class(row), 1 / (1 + row["error"]))
        for row in counted if row["known"] and row["what"] == "model"]


def strictly_held(rows):
    """The share of rows, large and not, inside the interval that the other machines alone would have given."""
    counted = of_library(rows)
    all_samples, inside = samples(rows), {True: [], False: []}
    for name in {machine(row["system"]) for row in counted}:
        others, ends = [sample for sample in all_samples if sample[0] != name], {}
        for row in counted:
            if machine(row["system"]) == name:
                kind = row["reach"], row["left_known"], size_class(row)
                if kind not in ends:
                    ends[kind] = interval(others, *kind)
                low, high = ends[kind]
                inside[large(row)].append(low <= 1 / (1 + row["left_out"]) <= high)
    return {wanted: sum(some) / len(some) for wanted, some in inside.items()}


def interval_lines(rows):
    """The lines that nccl.txt has."""
    all_samples, source = samples(rows), "scripts/validate_left_out.py"
    for reach in REACHES:
        for knows in (False, True):
            found = [interval(all_samples, reach, knows, size) for size in range(3)]
            for end, name in enumerate(("low", "high")):
                key = f"interval_{reach}{'_site' if knows else ''}_{name}"
                yield f"{key:<26} = {' / '.join(f'{both[end]:.2f}' for both in found):<18} # left out: {source}"
                source = "the same"


def openmpi_interval_lines(rows):
    """Those of openmpi.txt, from both machines, each left out and as described."""
    for key, wanted in (("1048576", True), ("more", False)):
        some = [row for row in of_library(rows, "Open MPI") if (row["bytes"] < 1 << 20) == wanted]
        machines = [row["system"] for row in some]
        share = min(MOST[0], HELD * (1 + 1 / len(set(machines))))
        found = [(row, "left_out") for row in some] + [(row, "error") for row in some if row["what"] == "model"]
        low, high = shortest([(1 / (1 + row[key]), machines.count(row["system"]) ** -0.5) for row, key in found], share)
        yield f"{key:<7} = {math.floor(100 * low) / 100:.2f} {math.ceil(100 * high) / 100:.2f}"


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


def held(rows, key, name):
    """The share of ROWS inside the interval NAME, and its median half-width, in predicted times."""
    ends = [(1 / (1 + row[key]), *row[name]) for row in rows]
    return (sum(low <= value <= high for value, low, high in ends) / len(ends),
            statistics.median((high - low) / 2 for _, low, high in ends)) if ends else (None, None)


PARTS = (("fitted", "error", "interval"), ("same machine, other sizes", "error", "interval"),
         ("machine left out", "left_out", "left_interval"))


def part(rows, name, library="NCCL"):
    counted = of_library(rows, library)
    return {"fitted": [row for row in counted if row["what"] == "fit"], "machine left out": counted,
            "same machine, other sizes": [row for row in counted if row["what"] == "model"]}[name]


def summary(rows, library="NCCL"):
    """(name, figures, targets of the median, p90 and half-width), which the tests check."""
    for name, key, ends in PARTS:
        for sizes, wanted in (("from 256 MiB on", True), ("below 256 MiB", False)):
            some = [row for row in part(rows, name, library) if large(row) == wanted]
            if not some:
                continue
            found = figures(some, key)
            found["inside"], found["width"] = held(some, key, ends)
            targets = ((0.05, 0.15, 0.15) if wanted else (0.2, 0.6, 0.5)) if name == "machine left out" else (None,) * 3
            yield f"{name}, {sizes}", found, *targets


def summary_table(rows, library="NCCL"):
    yield from table(["part, sizes", "rows", "median error", "target", "p90", "target", "inside the interval",
                      "median half-width", "target"],
                     ([name, f["rows"], percent(f["median"]), percent(median), percent(f["p90"]), percent(p90),
                       percent(f["inside"]), percent(f["width"]), percent(width)]
                      for name, f, median, p90, width in summary(rows, library)))


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


def add_left_out(rows):
    """Adds to each row the error that validate_left_out.py found, and the interval that a run prints."""
    found = {(row["file"], int(row["line"])): row for row in read("left_out_rows.csv")}
    ends = intervals()
    for row in rows:
        if row["what"] in ("model", "fit"):
            left = found[row["file"], row["line"]]
            row["left_out"], row["left_known"] = float(left["error"]), left["known"] == "1"
            row["left_interval"] = row["interval"] if row["library"] != "NCCL" else \
                ends[row["reach"], row["left_known"], size_class(row)]


def intervals():
    """The intervals of nccl.txt: (reach, known, size class) -> (low, high)."""
    values = {}
    with open(GENERAL[0], encoding="utf-8") as file:
        for line in file:
            if line.startswith("interval_"):
                key, value = line.split("#")[0].split("=")
                values[key.strip()] = [float(word) for word in value.split("/")]
    return {(reach, knows, size): tuple(values[f"interval_{reach}{'_site' if knows else ''}_{end}"][size]
                                        for end in ("low", "high"))
            for reach in REACHES for knows in (False, True) for size in range(3)}


def small_sizes(build, rows):
    """Each collective in a node of 8: predicted, and measured on machines with the same nodes."""
    for name, cluster in (("A100", "dgx-a100"), ("H100", "hgx-h100"), ("H200", "hgx-h200"), ("B200", "hgx-b200")):
        same = {cluster} | {entry[:-4] for entry in os.listdir(CLUSTERS) if is_of(entry, cluster)}
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv",
                           "gather", "scatter"):
            some = [{"cluster": f"{cluster}:1", "ranks": "8", "collective": collective, "run": "auto", "bytes": size}
                    for size in (8 << 10, 128 << 10, 1 << 20, 16 << 20)]
            cells = []
            for row, record, _ in predicted(build, some, CLUSTERS):
                seen = [other for other in rows if other["what"] in ("model", "fit") and other["ranks"] == "8"
                        and other["collective"] == collective and other["bytes"] == row["bytes"]
                        and other["cluster"].split(":")[0] in same and other["cluster"].endswith(":1")]
                times = ", ".join(f"{us:.1f}" for us in sorted({one["us"] for one in seen}))
                cells.append(f"{record['time_us']:.1f}" + (f" ({times})" if times else ""))
            yield [name, collective, *cells]


def is_of(entry, cluster):
    with open(os.path.join(CLUSTERS, entry), encoding="utf-8") as file:
        return re.search(rf"^system\s*= {cluster}(-roce)?$", file.read(), re.M) is not None


def left_out_rows(rows, library="NCCL"):
    """The rows of left_out.csv, which scripts/validate_left_out.py writes."""
    machines = {machine(row["system"]) for row in of_library(rows, library)}
    for row in filter(lambda line: line["machine"] in machines, read("left_out.csv")):
        yield [row["machine"], row["constants"], row["fitted to"],
               *(row[f"{size}_{key}"] if key == "rows" else percent(number(row[f"{size}_{key}"]))
                 for size in ("large", "small") for key in ("rows", "median", "p90"))]


def calibrated_rows():
    """The rows of calibrated.csv, which scripts/validate_calibrated.py writes."""
    for row in read("calibrated.csv"):
        yield [row["known"], row["predicted"], row["sizes"], row["rows"],
               *(percent(float(row[key])) for key in ("median", "p90", "inside", "width", "plain_median", "plain_p90"))]


def fill(text):
    return textwrap.fill(text, 120) + "\n"


def openmpi(rows, mpi):
    """The section of Open MPI's rows, MPI."""
    yield "\n## Open MPI on CPUs\n"
    yield fill("OSU's all_reduce of floats on one node of CSCS: 128 ranks on two EPYC 7742; 71, 72 and 288 ranks on up to four "
               "Grace (eth-cscs/ext_mpi_collectives, ppam_2024). The source names no version of Open MPI; the times switch at "
               "the sizes of coll/tuned, which are the same from 4.1.0 to 5.0.9, and persistent calls at those of coll/libnbc. "
               "MPICH and ext_mpi_collectives have no model.")
    yield fill("Three constants are fitted, each to one row. Machine left out: all rows without these constants, by the figures "
               "that hold for all clusters. Two things stay. Pilatus sends within a node by its NIC, which its rows suggest and "
               "the source does not say; and the assumed figures were chosen with all rows in view. The intervals follow from "
               "these two machines alone, so a third may well lie outside.")
    yield from table(["row", "system", "ranks", "size", "published us", "predicted us", "error"],
                     ([cells[0], cells[1], *cells[3:5], *cells[6:9]] for cells in every(part(rows, "fitted", "Open MPI"))))
    yield "\n### Open MPI: misses, as above\n"
    yield from table(["system, collective", "ranks", "rows", "sizes and errors", "reason"],
                     misses(mpi, read("model_misses.csv")))
    yield "\n### Open MPI: machines left out\n"
    yield from table(["machine", "rows ≥ 256M", "median", "p90", "rows < 256M", "median", "p90"],
                     ([cells[0], *cells[3:]] for cells in left_out_rows(rows, "Open MPI")))
    yield "\n### Open MPI: all rows\n"
    yield from table(["row", "run", "ranks", "size", "published us", "predicted us", "error", "left out", "chosen", ""],
                     ([cells[0], row["algorithm"], *cells[3:5], *cells[6:9], f"{100 * row['left_out']:+.1f} %", *cells[9:]]
                      for row in mpi for cells in every([row])))


def document(build, rows):
    counts = {what: sum(row["what"] == what for row in rows) for what in dict.fromkeys(r["what"] for r in rows)}
    yield "# Errors of the sim backend against NCCL and Open MPI\n"
    yield fill("Written by `make validate` (scripts/validate_sim.py). Every row of the published measurements in "
               "`reports/reference` is listed: predicted and compared, used to fit a constant of the model, or left out with a "
               "reason. Errors are those of times. [simulator.md](simulator.md) describes the model. Each run prints the "
               "interval in which nine in ten measurements of unseen machines should lie.")
    yield "Rows: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + f"; {len(rows)} in all.\n"
    nccl, mpi = of_library(rows), of_library(rows, "Open MPI")
    yield f"NCCL, {len(nccl)} rows:\n"
    yield from summary_table(rows)
    yield f"\n[Open MPI](#open-mpi-on-cpus), {len(mpi)} rows:\n"
    yield from summary_table(rows, "Open MPI")
    yield ""
    yield fill("Fitted: rows to which a constant was fitted. Same machine, other sizes: other rows of the same sites. Machine "
               "left out: all rows, each machine predicted with constants fitted to the others.")
    yield "## Fitted\n"
    yield "`src/simulator/nccl.txt` names the rows to which each constant was fitted.\n"
    yield from table(["row", "system", "collective", "ranks", "size", "published us", "predicted us", "error"],
                     ([*cells[:5], *cells[6:9]] for cells in every(part(rows, "fitted"))))
    yield "\n## Same machine, other sizes\n"
    yield "Times predicted on a cluster of `reports/reference/clusters` or a known system.\n"
    yield from table(["system, collective", "ranks", "cluster", "fit", "rows ≥ 256M", "median", "p90", "rows < 256M",
                      "median", "p90"], groups(nccl))
    yield "\n### Misses: errors above 15 % from 256 MiB up, above 20 % below\n"
    yield from table(["system, collective", "ranks", "rows", "sizes and errors", "reason"],
                     misses(nccl, read("model_misses.csv")))
    yield "\n## Machine left out\n"
    yield fill("Each machine is left out in turn. The constants that were fitted to it are fitted again to all rows of other "
               "machines that depend on them (least mean error, by at most a factor of 1.6); if no other row depends on one, "
               "NCCL's own constant replaces it. Then its rows are predicted without the constants of its site. Facts that "
               "its source states of the run stay, such as the ranks per process. (`scripts/validate_left_out.py`)")
    yield from table(["machine", "constants", "rows fitted to", "rows ≥ 256M", "median", "p90", "rows < 256M", "median",
                      "p90"], left_out_rows(rows))
    yield "\n### Intervals\n"
    strict = strictly_held(rows)
    yield fill("The printed intervals follow from all machines left out. Intervals taken from the other machines alone would "
               f"hold {percent(strict[True])} of the rows from 256 MiB on and {percent(strict[False])} below: a network plug-in "
               "unlike all others, such as EFA on p4de, lies outside. The form of the model was found with all rows in view.")
    yield fill("Each interval, in predicted times, is the shortest that holds nine in ten measurements of the machines left "
               "out, each machine weighted by the square root of its rows. With k machines that share is multiplied by "
               f"1 + 1/k, up to {percent(MOST[0])}, and up to {percent(MOST[2])} from 256 MiB on. A site is known if its "
               "description says how fast operations are issued, or how long a network plug-in takes.")
    yield from table(["ranks", "site", "below 1 MiB", "below 256 MiB", "larger"],
                     ([{"node": "one node", "shared": "nodes that share switches", "nodes": "several nodes"}[reach],
                       "known" if knows else "", *(f"{low:.2f} to {high:.2f}" for low, high in (
                           intervals()[reach, knows, size] for size in range(3)))]
                      for reach in REACHES for knows in (False, True)))
    yield "\n## Calibrated\n"
    yield fill("A part of the rows of a site, as a log of nccl-tests, calibrates the cluster that its source describes, "
               "without the figures fitted to the site; the other rows are predicted. Where several parts are possible, each "
               "is used in turn. The last two columns are errors without `--calibrate`. The model keeps its constants, some "
               "of which were fitted to rows of these machines, and the rules of the calibration were found with these rows "
               "in view. A single collective or number of ranks says little of others. (`scripts/validate_calibrated.py`)")
    yield from table(["calibrated by", "predicted", "sizes", "rows", "median error", "p90", "inside the interval",
                      "median half-width", "median without", "p90 without"], calibrated_rows())
    yield "\n## 512 nodes of 8 H100\n"
    yield fill("16 and 64 MiB took 839 and 1198 us (arXiv 2411.13055). By its own constants NCCL chooses tree with LL128 and "
               "expects 303 and 660 us. On two nodes of p5, on Alps and in NVLSTree up to 1024 nodes a hop over the network "
               "takes about 20 us longer than these constants, except for the smallest messages (`tree_net_more`). Eighteen "
               "such hops explain the difference. These two rows led to the constant, but it was not fitted to them.")
    yield from table(["row", "size", "published us", "predicted us", "error", "chosen"],
                     ([cells[0], *cells[4:5], *cells[6:10]] for cells in every(rows) if "512 nodes" in cells[1]))
    yield "\n## Small sizes of every collective\n"
    yield fill("Times in us in a node of 8 GPUs with a process for each; in parentheses the published times of such nodes, where "
               "one process may have driven all GPUs (36 us for an operation, 86 us for an alltoall).")
    yield from table(["GPU", "collective", "8K", "128K", "1M", "16M"], small_sizes(build, rows))
    yield from openmpi(rows, mpi)
    yield "\n## Left out\n"
    yield from table(["class", "system", "rows", "file", "reason"], left_out(rows))
    yield "\n## All\n"
    yield from table(["row", "system", "collective", "ranks", "size", "", "published us", "predicted us", "error",
                      "chosen", ""], every(nccl))


def evaluate(build):
    """All rows of both files, settled and predicted."""
    rules, rows = read("model_rows.csv"), list(published())
    for row in rows:
        settle(row, rule_of(row, rules))
    predict(build, rows)
    return rows


def judged(build):
    """The same, and what became of them with their machine left out."""
    rows = evaluate(build)
    add_left_out(rows)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    parser.add_argument("--intervals", action="store_true", help="the lines of nccl.txt and openmpi.txt that follow from machines left out")
    arguments = parser.parse_args()
    try:
        rows = judged(arguments.build)
        lines = (interval_lines(rows), openmpi_interval_lines(rows)) if arguments.intervals else (
            document(arguments.build, rows),)
        for line in itertools.chain(*lines):
            print(line)
    except Failure as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()

"""Predictions of the sim backend beside published measurements: rows, their errors and intervals; for
studies/validate/page.py, left_out.py and calibrated.py."""

import csv
import fnmatch
import json
import math
import os
import re
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCE = os.path.join(ROOT, "reports", "reference")
CLUSTERS = os.path.join(REFERENCE, "clusters")
# The constants for all sites.
GENERAL = (os.path.join(ROOT, "src", "simulator", "nccl", "nccl.txt"), os.path.join(ROOT, "src", "simulator", "cluster", "clusters.txt"))
LARGE = 256 << 20
# An interval shall hold nine in ten measurements of another machine. Taken from K machines it holds (1 + 1 / K) times
# that share of theirs, since the next machine may differ from all of them.
HELD = 0.9
# Three machines are too few for that: of Open MPI's the interval holds this share, so that nine in ten rows lie
# inside.
HELD_MPI = 0.92
# The relative rounding error of a busbw of two decimals above which the row is not counted.
COARSE = 0.05
# Collectives of rows that name a call of MPI.
CALLS = {"MPI_Allreduce CPU": "all_reduce", "MPI_Bcast CPU": "broadcast", "MPI_Reduce CPU": "reduce",
         "MPI_Alltoall CPU": "alltoall"}
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
    """All rows of the three files, in one form."""
    for name in ("reference_busbw", "validation_busbw"):
        for line, row in enumerate(read(f"{name}.csv"), 2):
            yield {"file": name, "line": line, "system": row["id"], "ranks": row["nranks"],
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


def odd_part(size):
    """The sizes of one run, in steps of two, have the same."""
    return size // (size & -size)


def predicted(build, rows, clusters, more=()):
    """(row, its record, the record of the run) of each row, from one run of each command over all its sizes in steps of
    two. MORE: further words of the command."""
    runs = {}
    for row in rows:
        runs.setdefault((command(build, row, clusters), odd_part(row["bytes"])), []).append(row)
    for (words, _), wanted in runs.items():
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
    """Writes all descriptions of sites to FOLDER, with what holds of all clusters in place of constants fitted to them,
    or "yes"."""
    with open(GENERAL[1], encoding="utf-8") as file:
        general = file.read().split("\n[all]\n")[1].split("\n[")[0].splitlines(keepends=True)
    usual = {line.split("=")[0].strip(): line for line in general if "=" in line}
    for name in os.listdir(CLUSTERS):
        with open(os.path.join(CLUSTERS, name), encoding="utf-8") as file:
            lines = [usual.get(key, f"{key} = yes\n") if "# fitted:" in line else line
                     for line in file for key in [line.split("=")[0].strip()]]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.writelines(lines)


def room_of(text):
    """(ranks, nodes) of the cluster that TEXT describes."""
    return tuple(map(int, re.search(r"room for (\d+) ranks? on (\d+) node", text).groups()))


def plugins(folder):
    """The latency in microseconds that a network plug-in adds to a hop, by the clusters of FOLDER that state it."""
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for us in re.findall(r"^nccl_nic_latency\s*=\s*(\d+)us", file.read(), re.M):
                found[name.removesuffix(".txt")] = float(us)
    return found


def longest_plugin(known):
    """The latency that the next plug-in is unlikely to exceed, from KNOWN ones: their longest, and as much more as the
    highest of a few numbers lies below the end of their range."""
    return max(known) * (1 + 1 / len(known))


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


def share_of(machines):
    """The share of measurements of MACHINES that holds nine in ten of another one."""
    return min(1, HELD * (1 + 1 / len(set(machines))))


def interval(samples):
    """The shortest interval that holds enough of SAMPLES, (machine, value), a machine weighted by the square root of their
    number."""
    machines = [name for name, _ in samples]
    low, high = shortest([(value, machines.count(name) ** -0.5) for name, value in samples], share_of(machines))
    return math.floor(100 * low) / 100, math.ceil(100 * high) / 100


def sample(row):
    """Measured over predicted time of a row whose machine was left out. A slow plug-in of the network explains all up to
    the time with the longest one."""
    value = 1 / (1 + row["left_out"])
    return machine(row["system"]), value / row["plugin"] if value > row["plugin"] else min(value, 1)


def hull(ends):
    lows, highs = zip(*ends)
    return min(lows), max(highs)


def number_of(key):
    """The constant KEY of nccl.txt, one number."""
    with open(GENERAL[0], encoding="utf-8") as file:
        return float(re.search(rf"^{key} *= *([0-9.]+)", file.read(), re.M).group(1))


LIKE_LEAST, LIKE_NODES = number_of("like_least"), number_of("like_nodes")


def likeness(rows):
    """Of each kind of machine: the most nodes of a row, and of each class the machines and their number of rows."""
    found = {}
    for row in rows:
        kind = found.setdefault(row["kind"], {"nodes": 0, "rows": [{} for _ in range(4)]})
        kind["nodes"] = max(kind["nodes"], row["nodes"])
        counts, name = kind["rows"][row["class"]], machine(row["system"])
        counts[name] = counts.get(name, 0) + 1
    return found


def has_like(row, known):
    """Whether enough machines of KNOWN are like that of ROW, which does not count (bb_nccl_basis)."""
    kind = known.get(row["kind"])
    if kind is None:
        return False
    others = set(kind["rows"][row["class"]]) - {machine(row["system"])}
    return len(others) >= LIKE_LEAST and row["nodes"] <= LIKE_NODES * kind["nodes"]


def first_sight(one, without):
    """Measured over predicted time of rows of class ONE, all collectives but messages, whose kind of machine the model did not know, but for those of
    the machine WITHOUT."""
    return [(machine(row["system"]), float(row["time_us"]) / float(row["predicted_us"])) for row in read("first_sight.csv")
            if (int(row["size_bytes"]) >= 1 << 20) + (int(row["size_bytes"]) >= LARGE) == one
            and machine(row["system"]) != without]


def intervals(rows, without=None):
    """The intervals of each class of predictions (bb_nccl_interval_class), from ROWS: with enough machines that are
    alike, and without. The latter includes the former, and what the model predicted before it knew a kind."""
    known, like, unlike = likeness(rows), [], []
    for one in range(4):
        mine = [row for row in rows if row["class"] == one]
        alike = [sample(row) for row in mine if has_like(row, known)]
        alone = [sample(row) for row in mine if not has_like(row, known)]
        ends = [interval(some) for some in (alike, alone, first_sight(one, without)) if some]
        # Messages over nodes were measured on few machines, so their interval is no narrower.
        unlike.append(hull(ends + like[2:]))
        like.append(ends[0] if alike else unlike[-1])
    return like, unlike


def rounded_up(multiple):
    """As in likeness.c."""
    steps = 10 if multiple < 2 else 2
    return math.ceil(multiple * steps) / steps


def add_left_intervals(rows):
    """Adds to each row of NCCL the interval that the other machines alone give."""
    counted = of_library(rows)
    for name in {machine(row["system"]) for row in counted}:
        others = [row for row in counted if machine(row["system"]) != name]
        ends, known = intervals(others, name), likeness(others)
        for row in counted:
            if machine(row["system"]) == name:
                alike = has_like(row, known)
                low, high = ends[0 if alike else 1][row["class"]]
                low = low if alike else min(low, row["fast"])
                row["left_interval"] = low, rounded_up(high * row["plugin"]) if row["plugin"] != 1 else high


def interval_lines(rows):
    """The lines that nccl.txt has."""
    like, unlike = intervals(of_library(rows))
    ends = zip(("low", "high", "unlike_low", "unlike_high"), (*zip(*like), *zip(*unlike)))
    for key, value in (*((key, " / ".join(f"{end:.2f}" for end in some)) for key, some in ends),
                       ("plugin", f"{longest_plugin(plugins(CLUSTERS).values()):.0f}us")):
        source = "studies/validate/left_out.py" if key == "low" else "the same"
        yield f"interval_{key:<10} = {value:<24} # left out: {source}"


def likeness_lines(rows):
    """The lines of its section [likeness]."""
    for kind, found in sorted(likeness(of_library(rows)).items()):
        counts = " / ".join((str(found["nodes"]), *(f"{len(some)} {sum(some.values())}" for some in found["rows"])))
        yield f"{kind:<21} = {counts:<38} # left out: studies/validate/left_out.py"


def openmpi_interval_lines(rows):
    """Those of openmpi.txt, from all machines, each left out and as described."""
    for key, wanted in (("1048576", True), ("more", False)):
        some = [row for row in of_library(rows, "Open MPI") if (row["bytes"] < 1 << 20) == wanted]
        machines = [machine(row["system"]) for row in some]
        found = [(row, "left_out") for row in some] + [(row, "error") for row in some if row["what"] == "model"]
        low, high = shortest([(1 / (1 + row[key]), machines.count(machine(row["system"])) ** -0.5)
                              for row, key in found], HELD_MPI)
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
    """Adds to each row the error that left_out.py found, and the interval without its machine; of Open MPI,
    whose three machines are too few for that, the interval that a run prints."""
    found = {(row["file"], int(row["line"])): row for row in read("left_out_rows.csv")}
    for row in rows:
        if row["what"] in ("model", "fit"):
            left = found[row["file"], row["line"]]
            row["left_out"], row["plugin"], row["fast"] = (float(left[key]) for key in ("error", "plugin", "fast"))
            row["class"] = int(left["class"] or -1)
            row["kind"], row["nodes"] = left["kind"], int(left["nodes"] or 0)
            row["left_interval"] = row["interval"]
    add_left_intervals(rows)


def evaluate(build):
    """All rows of the three files, settled and predicted."""
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

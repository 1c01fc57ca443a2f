"""Rows of make truth: host runs, predicted by the sim backend after calibration on a part of them."""

import json
import os
import statistics
import tempfile

import programs

RANKS = (2, 4)
RUNS = 3  # interleaved; the shortest of each result counts, which other load disturbed least
RUN = ["-b", "1K", "-e", "16M", "-f", "2", "-n", "50", "-w", "5", "--algo", "ring,tree,halving_doubling", "-T", "600"]


def key(record):
    return record["nranks"], record["algorithm"], record["in_place"], record["size_bytes"]


def predictions(build, folder, known, ranks, algorithms):
    """(time, lower and upper end of its interval) predicted from the records KNOWN, by key."""
    path = os.path.join(folder, "known.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in known)
    command = [f"{build}/all_reduce_perf", "--backend", "sim", "--calibrate", path, "-g", str(ranks), *RUN[:6],
               "--algo", ",".join(algorithms)]
    return {key(record): tuple(record[field] for field in ("time_us", "predicted_low_us", "predicted_high_us"))
            for record in programs.records(command, "result")}


def row(what, calibrated, pairs):
    errors = [abs(predicted / measured - 1) for (predicted, _, _), measured in pairs]
    ends = [(low, measured, high) for (_, low, high), measured in pairs if low is not None]
    inside = f", {100 * sum(low <= time <= high for low, time, high in ends) / len(ends):.0f}% inside" if ends else ""
    return [what, f"calibrated on {calibrated}", f"{len(errors)} times",
            f"{100 * statistics.median(errors):.1f}% off", f"at most {100 * max(errors):.0f}%{inside}"]


def pairs_of(measured, predicted, wanted):
    return [(predicted[key(r)], r["p50_us"]) for r in measured if wanted(r)]


def rows(build):
    everything = []
    for ranks in RANKS * RUNS:
        everything += programs.records([f"{build}/all_reduce_perf", "--backend", "host", "-g", str(ranks), *RUN])
    times = {}
    for record in everything:
        if record["kind"] == "result":
            times.setdefault(key(record), []).append(record)
    measured = [min(some, key=lambda r: r["p50_us"]) for some in times.values()]
    runs = [r for r in everything if r["kind"] == "run"]
    algorithms = list(dict.fromkeys(r["algorithm"] for r in measured))

    def is_known(record):
        return record["size_bytes"].bit_length() % 2 == 1

    with tempfile.TemporaryDirectory() as folder:
        half = runs[:1] + [r for r in measured if is_known(r)]
        both = []
        for ranks in RANKS:
            predicted = predictions(build, folder, half, ranks, algorithms)
            for name in algorithms:
                pairs = pairs_of(measured, predicted, lambda r: not is_known(r) and r["nranks"] == ranks
                                 and r["algorithm"] == name)
                both += pairs
                yield row(f"prediction, all_reduce {name}, {ranks} ranks", "every other size", pairs)
        yield row("prediction, all of these", "every other size", both)
        few, last = RANKS[0], algorithms[-1]
        other = runs[:1] + [r for r in measured if r["nranks"] == few or r["algorithm"] != last]
        predicted = predictions(build, folder, other, RANKS[-1], [last])
        yield row(f"prediction, all_reduce {last}, {RANKS[-1]} ranks", f"the others, and it on {few} ranks",
                  pairs_of(measured, predicted, lambda r: r["nranks"] == RANKS[-1] and r["algorithm"] == last))

"""Tables of a page, and tidy CSV: a row for each measurement, units in the names."""

import csv
import io
import re

from report.page.read import KINDS, MEASURED, OTHERS
from report.values import clean, duration, memory, number, numbers, short, text, three

MOST_ROWS = 1000  # of one table of the page; CSV has all
MOST_UNKNOWN = 8  # kinds
LONG = 24  # numbers of an array that are shown

# Columns of the page's tables; other kinds show their first columns.
COLUMNS = {
    "result": (
        "collective algorithm_asked algorithm dtype op nranks size_bytes in_place time_us p50_us "
        "ci_low_us ci_high_us algbw_GBps busbw_GBps faultless_us percent_of_bound wrong p99_us cv_percent skew_p50_us last_rank"
    ).split(),
    "pair": (
        "quantity from to from_host to_host place memory_from memory_to path route p2p direction size_bytes "
        "GBps low_GBps high_GBps p50_us p99_us percent_of_bound wrong"
    ).split(),
    "data_parallel": (
        "algorithm grouping cap_bytes overlap buckets step_us low_us high_us predicted_step_us compute_us "
        "reduce_us exposed_us times_25M best wrong"
    ).split(),
    "pipeline": (
        "schedule stages microbatches chunks predicted_us p50_us p99_us predicted_bubble_over_total "
        "bubble_over_total off_percent peak_bytes wrong"
    ).split(),
    "tensor_parallel": (
        "model part way nranks calls wire_bytes formula_bytes kept_bytes compute_us communicate_us step_us "
        "low_us high_us exposed_us hidden"
    ).split(),
    "tensor_equality": (
        "module way nranks outputs wrong_outputs gradients wrong_gradients off_ulps verdict passed"
    ).split(),
    "zero": (
        "stage nranks overlap formula_bytes parameters_bytes gradients_bytes optimizer_bytes "
        "communication_bytes held_bytes reserved_bytes wire_bytes formula_wire_bytes step_us wrong"
    ).split(),
    "way": (
        "way servers nranks workers step_us low_us high_us predicted_us error_percent exposed_us most_bytes "
        "wire_bytes speedup efficiency wrong"
    ).split(),
    "hybrid_plan": (
        "place reason tp pp dp ep micro_batch recompute zero memory_bytes tightest step_us compute_us "
        "bubble_us tensor_us pipeline_us data_us"
    ).split(),
    "hybrid": (
        "part order tp pp dp ep zero micro_batch micro_batches algorithm calls sent_bytes crossing time_us low_us "
        "high_us plan_us sent_GBps in_step_us wrong"
    ).split(),
    "experts": (
        "skew capacity imbalance dropped_share counts_us dispatch_us combine_us layer_us low_us high_us "
        "dispatch_GBps times_even wrong"
    ).split(),
}
NAMES = {
    "result": "Results",
    "barrier": "Barriers",
    "pair": "Pairs",
    "data_parallel": "Steps by bucket size",
    "pipeline": "Schedules",
    "tensor_parallel": "Split layers",
    "tensor_equality": "Equality with the unsplit layer",
    "hybrid_plan": "Divisions",
    "hybrid": "Steps and their parts",
    "experts": "Loads",
    "zero": "Stages",
    "way": "Strategies",
    "skip": "Skipped",
    "finding": "Findings",
    "culprit": "Culprits",
    "node": "Nodes",
    "counter": "Counters that changed during the run",
}
# Heads that do not follow from the name of the column.
HEADS = {"ci_low_us": "p50, 95 % from", "ci_high_us": "p50, 95 % to"}
UNITS = (("_GBps", "GB/s"), ("_us", ""), ("_bytes", ""), ("_percent", "%"), ("_ms", "ms"), ("_unix_s", "s"))
COUNTS = (
    "nranks",
    "from",
    "to",
    "size_bytes",
    "rank",
    "root",
    "stages",
    "place",
    "stage",
    "last_rank",
    "wrong",
    "microbatches",
)


class Table:
    """SHARED: the values that all rows have in common, as text."""

    def __init__(self, name, heads, rows, shared, note):
        self.name, self.heads, self.rows, self.shared, self.note = name, heads, rows, shared, note


class Cell:
    """The text shown, and the key for sorting: a number, else the text."""

    def __init__(self, shown, key, numeric):
        self.shown, self.key, self.numeric = shown, key, numeric


def head(column):
    """A column's name in words: its unit goes into its cells or behind it."""
    if column in HEADS:
        return HEADS[column]
    for suffix, unit in UNITS:
        if column.endswith(suffix):
            name = column[: -len(suffix)].replace("_", " ")
            return f"{name}, {unit}" if unit else name
    if column == "GBps":
        return "GB/s"
    return column.replace("_", " ")


def cell(record, column):
    value = record.get(column)
    if isinstance(value, bool):
        return Cell("yes" if value else "no", str(int(value)), True)
    if number(record, column) is not None:
        return Cell(written(column, value), repr(value), True)
    if isinstance(value, str):
        return Cell(short(value), short(value), False)
    if isinstance(value, list):
        found = numbers(record, column, LONG)
        return Cell(", ".join(map(three, found)) + (" …" if len(value) > LONG else ""), str(len(value)), True)
    return Cell("–", "", True)


def written(column, value):
    if column.endswith("_us"):
        return duration(value)
    if column == "size_bytes" or column == "cap_bytes":
        return f"{value:,}"
    if column.endswith("_bytes"):
        return memory(value)
    if column == "confidence" and value >= 0.99995:
        return "> 0.9999"
    if column in COUNTS or isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10000 else f"{value:g}"
    return f"{value:.4f}" if column == "confidence" else three(value)


def columns_of(kind, records):
    wanted = (
        COLUMNS.get(kind) or [key for key in records[0] if key not in ("schema", "kind", "run_id", "end_unix_s")][:14]
    )
    used = [c for c in wanted if any(r.get(c) is not None for r in records[:MOST_ROWS])]
    return [
        c
        for c in used
        if c != "algorithm"
        or "algorithm_asked" not in used
        or any(r.get("algorithm") != r.get("algorithm_asked") for r in records[:MOST_ROWS])
    ]


def shared(records, columns):
    """{column: text} of the words and rank numbers that several rows all share."""
    if len(records) < 2:
        return {}
    first = records[0]
    return {
        c: cell(first, c).shown
        for c in columns
        if (isinstance(first.get(c), str) or c in ("nranks", "root")) and all(r.get(c) == first.get(c) for r in records)
    }


def unknown(runs):
    """Unknown kinds whose names can be file names."""
    kinds = dict.fromkeys(r["kind"] for run in runs for r in run.records if r["kind"] not in KINDS)
    return tuple(kind for kind in kinds if re.fullmatch("[a-z0-9_]{1,40}", kind))[:MOST_UNKNOWN]


def tables_of(run):
    found = []
    for kind in MEASURED + ("finding", "culprit", "skip", "counter") + unknown([run]):
        records = run.of(kind)
        if not records:
            continue
        columns = columns_of(kind, records)
        same = shared(records, columns)
        columns = [c for c in columns if c not in same]
        rows = [[cell(r, c) for c in columns] for r in records[:MOST_ROWS]]
        note = (
            f"The first {MOST_ROWS:,} of {len(records):,} rows; the CSV file has all."
            if len(records) > MOST_ROWS
            else None
        )
        found.append(
            Table(
                NAMES.get(kind, kind),
                [head(c) for c in columns],
                rows,
                ", ".join(f"{head(c)} {v}" for c, v in same.items()),
                note,
            )
        )
    return found


# ---- CSV ----------------------------------------------------------------------------------------------


OF_RUN = ("program", "backend", "host", "start_time", "version")


def plain(value):
    """A CSV cell as --csv writes it; text that a spreadsheet would run as a formula begins with a quote."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        value = clean(value)
        return "'" + value if value[:1] in ("=", "+", "-", "@") else value
    if isinstance(value, list):
        return ";".join(plain(v) for v in value if not isinstance(v, (list, dict)))
    return ""


def csv_files(runs):
    """{name: text}: a file per kind of record, with all runs."""
    files = {}
    for kind in MEASURED + OTHERS + unknown(runs):
        rows = [(run, r) for run in runs for r in run.of(kind)]
        if not rows:
            continue
        columns = list(
            dict.fromkeys(
                key
                for _, r in rows
                for key in r
                if key not in ("schema", "kind") and re.fullmatch(r"[A-Za-z0-9_]{1,60}", key)
            )
        )
        mine = [c for c in OF_RUN if c not in columns]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns[:1] + mine + columns[1:])
        for run, r in rows:
            cells = [plain(r.get(c)) for c in columns]
            writer.writerow(cells[:1] + [plain(text(run.head, c)) for c in mine] + cells[1:])
        files[f"{kind}.csv"] = out.getvalue()
    return files

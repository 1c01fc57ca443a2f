"""Tables of a page, and tidy CSV: a row for each measurement, units in the names."""

import csv
import io
import re

from report.page.read import KINDS, MEASURED, OTHERS
from report.values import clean, duration, memory, number, numbers, positive, short, size, text, three

MOST_ROWS = 1000  # of one table of the page; CSV has all
MOST_OPEN = 60  # rows of a table that is not folded
MOST_UNKNOWN = 8  # kinds
LONG = 24  # numbers of an array that are shown

# Columns of the page's tables; other kinds show their first columns.
COLUMNS = {
    "result": (
        "collective algorithm_asked algorithm dtype op nranks size_bytes in_place time_us p50_us "
        "ci_low_us ci_high_us algbw_GBps busbw_GBps faultless_us percent_of_bound wrong p99_us cv_percent skew_p50_us last_rank"
    ).split(),
    "schedule": (
        "collective algorithm matrix nranks root count rounds least_rounds messages elements least_elements "
        "busiest_elements traffic_elements"
    ).split(),
    "accuracy": (
        "collective dtype algorithm nranks by count rms_error expected_rms_error max_error rms_ulps overflows "
        "ranks_agree wrong"
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
        "model part scheme nranks calls wire_bytes formula_bytes kept_bytes compute_us communicate_us step_us "
        "low_us high_us exposed_us hidden"
    ).split(),
    "tensor_equality": (
        "module scheme nranks outputs wrong_outputs gradients wrong_gradients off_ulps verdict passed"
    ).split(),
    "zero": (
        "stage nranks overlap formula_bytes parameters_bytes gradients_bytes optimizer_bytes "
        "communication_bytes held_bytes reserved_bytes wire_bytes formula_wire_bytes step_us wrong"
    ).split(),
    "strategy": (
        "strategy servers nranks workers step_us low_us high_us predicted_us error_percent exposed_us most_bytes "
        "wire_bytes speedup efficiency loss feedback_gap wrong"
    ).split(),
    "hybrid_plan": (
        "place reason tp pp dp ep micro_batch recompute zero memory_bytes tightest step_us compute_us "
        "bubble_us tensor_us pipeline_us data_us"
    ).split(),
    "hybrid": (
        "part order tp pp dp ep zero micro_batch micro_batches algorithm calls sent_bytes crossing time_us low_us "
        "high_us plan_us sent_GBps in_step_us wrong"
    ).split(),
    "gpu": (
        "rank host bus driver sm_MHz sm_most_MHz memory_MHz temperature_C power_W power_cap_W throttle_reasons "
        "ecc_corrected ecc_uncorrected rows_remapped nvlink_errors pcie_replays power_throttled_us thermal_throttled_us"
    ).split(),
    "quantised": (
        "size_bytes coding scheme feedback nranks sent_bytes formula_bytes plain_us coded_us low_us high_us coding_us "
        "exchange_us speedup plain_GBps break_even_GBps model_break_even_GBps rms_error max_error wrong"
    ).split(),
    "moe": (
        "skew capacity imbalance dropped_share counts_us dispatch_us combine_us layer_us low_us high_us "
        "dispatch_GBps times_even wrong"
    ).split(),
}
NAMES = {
    "result": "Results",
    "barrier": "Barriers",
    "schedule": "Algorithms",
    "accuracy": "Rounding errors",
    "pair": "Pairs",
    "data_parallel": "Steps by bucket size",
    "pipeline": "Schedules",
    "tensor_parallel": "Split layers",
    "tensor_equality": "Equality with the unsplit layer",
    "hybrid_plan": "Divisions",
    "hybrid": "Steps and their parts",
    "moe": "Loads",
    "quantised": "Codes",
    "zero": "Stages",
    "strategy": "Strategies",
    "skip": "Skipped",
    "finding": "Findings",
    "culprit": "Culprits",
    "node": "Nodes",
    "gpu": "State of the GPUs after the run",
    "counter": "Counters that changed during the run",
}
# Heads that do not follow from the name of the column.
HEADS = {"ci_low_us": "p50, 95 % from", "ci_high_us": "p50, 95 % to"}
UNITS = (("_GBps", "GB/s"), ("_us", ""), ("_bytes", ""), ("_percent", "%"), ("_ms", "ms"), ("_unix_s", "s"))
ERRORS = "error_percent", "off_percent"  # of a prediction
EXACT = 0.005  # percent: less than two digits behind the point can show
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
    """Rows of RECORDS. SHARED: the columns that are left out because all rows, or two columns, have the same values, as
    text. FOLDED: its rows are hidden until a click."""

    def __init__(self, name, columns, records, folded=False):
        used = [c for c in columns if any(r.get(c) is not None for r in records)]
        constant, equal = shared(records, used)
        left = [c for c in used if c not in constant and c not in equal]
        told = [f"In all rows: {', '.join(f'{head(c)} {v}' for c, v in constant.items())}."] * bool(constant)
        told += [f"The same as {head(other)}: {', '.join(head(c) for c, o in equal.items() if o == other)}."
                 for other in dict.fromkeys(equal.values())]
        self.name, self.heads, self.shared = name, [head(c) for c in left], " ".join(told)
        self.rows = [[cell(r, c) for c in left] for r in records[:MOST_ROWS]]
        for cells in zip(*self.rows):
            if any(not c.numeric for c in cells):  # an unknown word stands where words do
                for c in cells:
                    c.numeric = False
        self.folded = folded or len(records) > MOST_OPEN
        self.note = (f"The first {MOST_ROWS:,} of {len(records):,} rows; the CSV file has all."
                     if len(records) > MOST_ROWS else None)


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
    if column == "root" and value == -1:
        return Cell("–", "", True)
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
    if column in ERRORS:
        return "exact" if abs(value) < EXACT else f"{value:+.{2 if abs(value) < 10 else 1}f}"
    if column.endswith("_percent") and abs(value) < EXACT:
        return "0"
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
    asked = "algorithm" in wanted and "algorithm_asked" in wanted
    if asked and all(r.get("algorithm") == r.get("algorithm_asked") for r in records):
        wanted = [c for c in wanted if c != "algorithm"]
    return wanted


def shared(records, columns):
    """({column: text} of the columns that have one value, {column: earlier one with the same values}) of several rows."""
    if len(records) < 2:
        return {}, {}
    values = {c: [r.get(c) for r in records] for c in columns}
    constant = {c: cell(records[0], c).shown for c in columns if all(v == values[c][0] for v in values[c])}
    if len(constant) == len(columns):
        constant = {}
    equal = {}
    for i, c in enumerate(columns):
        same = (o for o in columns[:i] if o not in equal and values[o] == values[c] and o[-3:] == c[-3:] == "_us")
        if c not in constant:
            equal |= {c: o for o in [next(same, None)] if o}
    return constant, equal


def merged_skips(records):
    """Skipped cases of one algorithm with one reason as one row."""
    rows = {}
    for r in records:
        key = tuple(text(r, k) for k in ("collective", "algorithm", "dtype", "op", "reason"))
        rows.setdefault(key, []).append(positive(r, "size_bytes"))
    found = []
    for (collective, algorithm, dtype, op, reason), sizes in rows.items():
        known = sorted({s for s in sizes if s})
        span = " to ".join(size(s) for s in dict.fromkeys(known[:1] + known[-1:]))
        found.append({"collective": collective, "algorithm": algorithm, "dtype": dtype, "op": op, "sizes": span or None,
                      "cases": len(sizes), "reason": reason})
    return found


def unknown(runs):
    """Unknown kinds whose names can be file names."""
    kinds = dict.fromkeys(r["kind"] for run in runs for r in run.records if r["kind"] not in KINDS)
    return tuple(kind for kind in kinds if re.fullmatch("[a-z0-9_]{1,40}", kind))[:MOST_UNKNOWN]


def tables_of(run):
    found = []
    for kind in MEASURED + ("finding", "culprit", "skip", "gpu", "counter") + unknown([run]):
        records = run.of(kind)
        if not records:
            continue
        name, records = NAMES.get(kind, kind), merged_skips(records) if kind == "skip" else records
        columns = columns_of(kind, records)
        found += by_health(columns, records) if kind == "node" else [Table(name, columns, records)]
    return found


def by_health(columns, records):
    """A table of the nodes that stand out, and a folded one of the others."""
    healthy = [r for r in records if text(r, "verdict") == "OK"]
    others = [r for r in records if text(r, "verdict") != "OK"]
    found = [Table("Nodes that stand out", columns, others)] if others else []
    return found + ([Table("Healthy nodes", columns, healthy, folded=True)] if healthy else [])


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

"""The verdict.json of an acceptance run: its sentences, gates as bars, and nodes."""

import shlex

from report import files, paper as ink
from report.page import chart
from report.page.figure import Figure
from report.page.nodes import BAD
from report.page.story import FAILED, PASSED, WARNED, Verdict
from report.page.tables import Table, by_health
from report.values import number, positive, short, text, three, words

MOST_BARS = 30
STATES = {"passed": PASSED, "warning": WARNED, "failed": FAILED}


def rows_of(document, key, most=1000):
    rows = document.get(key)
    if not isinstance(rows, list):
        raise files.BadFile(f"{key} is not a list")
    return [row for row in rows[:most] if isinstance(row, dict)]


def verdict_of(document):
    status = number(document, "exit_status")
    state = WARNED if status in (None, 3) else FAILED if status != 0 else PASSED
    counts = document.get("counts")
    if state == PASSED and (isinstance(counts, dict) and number(counts, "warning") or suspects(document)):
        state = WARNED
    word = text(document, "verdict", 60) or "no verdict"
    if document.get("virtual_time") is True:
        word += " (simulated)"
    return Verdict(state, word, words(document, "sentences"))


def suspects(document):
    return isinstance(document.get("nodes"), list) and any(
        text(node, "verdict") == "SUSPECT" for node in rows_of(document, "nodes")
    )


def title_of(document):
    profile, system = text(document, "profile", 60), text(document, "system", 60)
    parts = ["acceptance", profile, system if system != profile else None, text(document, "mode", 20)]
    if document.get("virtual_time") is True:
        parts.append("simulated")
    return " · ".join(part for part in parts if part)


def steps_of(document):
    """{run_id: (name of its step, reason of the step's first gate that failed, or None)}"""
    failed = {}
    for gate in rows_of(document, "gates"):
        if text(gate, "verdict") == "failed":
            failed.setdefault(text(gate, "step", 60), f"{text(gate, 'metric', 20)} {text(gate, 'reason') or 'failed'}")
    found = {}
    for step in rows_of(document, "steps"):
        runs, name = step.get("runs"), text(step, "name", 60)
        for run in runs if isinstance(runs, list) else ():
            if isinstance(run, dict) and text(run, "run_id") and name:
                found[text(run, "run_id")] = name, failed.get(name)
    return found


def gates(document):
    """A figure per unit: values as bars, limits across them."""
    by_unit = {}
    for g in worst_first(document):
        if positive(g, "value") and positive(g, "limit"):
            by_unit.setdefault(text(g, "unit", 16) or text(g, "metric", 20) or "value", []).append(g)
    figures = []
    for unit, found in list(by_unit.items())[:4]:
        shown = found[:MOST_BARS]
        bars = [
            (name, {part_of(g): g["value"]}, three(g["value"])) for name, g in zip(names_of(shown), shown)
        ]
        name = "share of the best at a smaller size" if unit == "no-dip" else unit
        paper = chart.bars(bars, PARTS, three, name, {i: g["limit"] for i, g in enumerate(shown)})
        more = f" {len(found) - MOST_BARS} more are in the table." if len(found) > MOST_BARS else ""
        figures.append(
            Figure(f"Gates, {unit}", paper, f"Line across a bar: the limit of the gate.{more}")
        )
    return figures


def names_of(gates):
    """Step and subject of each, and the metric if two would be alike."""
    keys = ("step", 60), ("subject", 200)
    plain = [": ".join(filter(None, (text(g, key, longest) for key, longest in keys))) for g in gates]
    metrics = [text(g, "metric", 20) for g in gates]
    return [f"{name}, {m}" if m and plain.count(name) > 1 else name for name, m in zip(plain, metrics)]


MOST_GATES, MOST_NODES = 6, 48
SIDES = (("good", "within the limit", ink.BLUE), ("bad", "beyond the limit", BAD))


def nodes(document):
    """A figure per gate that has a value per node: values with the limit, the slowest first."""
    by_gate = {}
    for node in rows_of(document, "nodes"):
        values = node.get("values")
        for v in values if isinstance(values, list) else ():
            if isinstance(v, dict) and positive(v, "value") and positive(v, "limit"):
                key = text(v, "step", 60), number(v, "line"), v.get("shared") is True
                by_gate.setdefault(key, []).append((text(node, "host", 200) or "node", v))
    figures = []
    for (step, _, shared), found in list(by_gate.items())[:MOST_GATES]:
        # Values beyond their limit first: low is bad for some metrics, high for others.
        found.sort(key=lambda pair: (pair[1].get("beyond") is not True, pair[1]["value"] / pair[1]["limit"]))
        shown, unit = found[:MOST_NODES], text(found[0][1], "unit", 16) or "value"
        bars = [
            (host, {"bad" if v.get("beyond") is True else "good": v["value"]}, three(v["value"]))
            for host, v in shown
        ]
        metric = text(found[0][1], "metric", 20) or "value"
        told = "Line across a bar: the limit of the gate."
        told += " The best pair of each node counts." if shared else ""
        more = len(found) - len(shown)
        told += f" {more} more are within it." if more > 0 else ""
        paper = chart.bars(bars, SIDES, three, f"{metric}, {unit}", {i: v["limit"] for i, (_, v) in enumerate(shown)})
        figures.append(Figure(f"Nodes in {step or 'a step'}: {metric}", paper, told))
    return figures


PARTS = (("good", "passed", ink.BLUE), ("warned", "passed with a warning", "#c48a00"), ("bad", "failed", BAD))


def part_of(gate):
    return {"passed": "good", "warning": "warned"}.get(text(gate, "verdict"), "bad")


def command_of(step):
    """The command line that was run; the profile's if the verdict has none."""
    return shlex.join(words(step, "args")) or text(step, "run")


GATES = "verdict step metric subject value unit limit expected bound runs from reason".split()
SOURCES = "step subject from provenance".split()


def tables(document):
    """What failed first; what was skipped, and nodes that are as they should be, are folded."""
    gates, steps = worst_first(document), rows_of(document, "steps")
    judged, skipped = ([g for g in gates if (text(g, "verdict") == "skipped") == skip] for skip in (False, True))
    found = by_health(("host", "verdict", "code", "reason"), rows_of(document, "nodes"))
    found += [Table("Gates", GATES, judged)] if judged else []
    found += [Table("Sources of the limits", SOURCES, judged, folded=True)] if judged else []
    found += [Table("Skipped gates", GATES, skipped, folded=True)] if skipped else []
    steps = [{**r, "command": command_of(r)} for r in steps]
    return found + ([Table("Steps", ("name", "command", "ranks", "nodes"), steps)] if steps else [])


WORST = "failed", "could not judge", "warning", "passed", "skipped"


def worst_first(document):
    place = {verdict: i for i, verdict in enumerate(WORST)}
    return sorted(rows_of(document, "gates"), key=lambda g: place.get(text(g, "verdict"), 0))


FACTS = (
    ("profile", "profile"),
    ("profile_path", "profile's file"),
    ("about", "about"),
    ("system", "system"),
    ("mode", "mode"),
    ("cluster", "simulated on"),
    ("fault", "planted fault"),
    ("version", "busbench"),
    ("start_time", "began, UTC"),
    ("end_time", "ended, UTC"),
)


def facts(document):
    return [(name, short(text(document, key), 200)) for key, name in FACTS if text(document, key)]

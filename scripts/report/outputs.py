"""Records and verdicts in the formats of other tools: OpenMetrics, github-action-benchmark, annotations of GitHub and
GitLab."""

import hashlib
import json
import os
import typing

from report.page.read import end_of, program_of
from report.values import count, number, positive, size, text, words

# Kind of record: the fields that name a measurement, and (value, low, high) of its measured fields.
MEASURED = {
    "result": ("collective algorithm_asked dtype op root size_bytes in_place nranks",
               ("time_us", None, None), ("busbw_GBps", "busbw_low_GBps", "busbw_high_GBps")),
    "barrier": ("algorithm_asked nranks", ("p50_us", "ci_low_us", "ci_high_us")),
    "pair": ("quantity route p2p direction from to place memory_from memory_to workers size_bytes",
             ("GBps", "low_GBps", "high_GBps"), ("p50_us", None, None)),
    "data_parallel": ("model algorithm grouping cap_bytes cap_count cycle_us overlap bucket_view optimizer nranks",
                      ("step_us", "low_us", "high_us")),
    "pipeline": ("schedule stages microbatches chunks", ("p50_us", None, None)),
    "tensor_parallel": ("model part scheme nranks", ("step_us", "low_us", "high_us")),
    "hybrid": ("part tp pp dp ep zero micro_batch", ("time_us", "low_us", "high_us")),
    "moe": ("skew capacity nranks", ("layer_us", "low_us", "high_us")),
    "quantised": ("size_bytes coding scheme feedback dtype nranks", ("coded_us", "low_us", "high_us"), ("break_even_GBps", None, None)),
    "zero": ("stage overlap nranks", ("step_us", None, None), ("held_bytes", None, None)),
    "strategy": ("strategy servers nranks", ("step_us", "low_us", "high_us")),
    "node": ("host node", ("sends_GBps", None, None), ("receives_GBps", None, None), ("latency_us", None, None)),
}  # fmt: skip
OF_RUN = "program backend host cluster link fault".split()  # name the run of a measurement
OF_CULPRIT = "code host node rank rail peer_host peer direction quantity".split()
OF_VERDICT = "profile system mode cluster fault".split()
# Ending of a field: unit of OpenMetrics with its factor, unit in words, which values are better.
UNITS = {
    "_GBps": ("bytes_per_second", 1e9, "GB/s", "bigger"),
    "_us": ("seconds", 1e-6, "us", "smaller"),
    "_bytes": ("bytes", 1, "bytes", "smaller"),
}


class Measure(typing.NamedTuple):
    """FIELD of KIND measured; LABELS name it, OF those of its run."""

    kind: str
    field: str
    of: dict
    labels: dict
    value: float
    low: typing.Optional[float]
    high: typing.Optional[float]


def labels_of(record, keys):
    """{field: value} of those that the record has; "none" and rank -1 are not there."""
    found = {}
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value != "none":
            found[key] = text(record, key)
        elif isinstance(value, bool) or (number(record, key) is not None and (key, value) != ("root", -1)):
            found[key] = value
    return found


def measures(source):
    """What was measured, the last time if several times."""
    found = {}
    for run in source.runs.values():
        of = labels_of(run.head, OF_RUN)
        for record in run.of(*MEASURED):
            keys, *fields = MEASURED[record["kind"]]
            labels = labels_of(record, keys.split())
            for field, low, high in fields:
                if positive(record, field):
                    key = record["kind"], field, *of.items(), *labels.items()
                    ends = (positive(record, low), positive(record, high)) if low else (None, None)
                    found[key] = Measure(record["kind"], field, of, labels, record[field], *ends)
    return list(found.values())


def verdicts(source):
    return [document for _, kind, document in source.documents if kind == "acceptance"]


def members(document, key):
    rows = document.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


# ---- OpenMetrics ----------------------------------------------------------------------------------------


class Families:
    """Families of metrics with their samples, by name."""

    def __init__(self):
        self.found = {}

    def add(self, name, unit, about, labels, value):
        name = f"busbench_{name}" + (f"_{unit}" if unit else "")
        quoted = ",".join(f'{key}="{escaped(v)}"' for key, v in labels.items())
        samples = self.found.setdefault(name, (unit, about, {}))[2]
        samples[quoted] = f"{name}{{{quoted}}} {float(value)!r}"

    def lines(self):
        for name, (unit, about, samples) in self.found.items():
            yield f"# HELP {name} {about}"
            yield f"# TYPE {name} gauge"
            if unit:
                yield f"# UNIT {name} {unit}"
            yield from samples.values()
        yield "# EOF"


def escaped(value):
    value = str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def unit_of(field):
    """(the field without its unit, what UNITS says about it)"""
    ending = next(ending for ending in UNITS if ("_" + field).endswith(ending))
    return ("_" + field).removesuffix(ending).strip("_") or "bandwidth", UNITS[ending]


def openmetrics(source):
    """Gauges without times, which node_exporter's textfile collector takes too."""
    families = Families()
    for run in source.runs.values():
        end, of = end_of(run), labels_of(run.head, OF_RUN)
        for key, name, about in (("exit_status", "run_exit_status", "Exit status of the run, 0: passed"),
                                 ("wrong", "run_wrong_results", "Results of the run with wrong data")):
            if number(end, key) is not None:
                families.add(name, "", about, of, end[key])
    for run in source.runs.values():
        for culprit in run.of("culprit"):
            families.add("culprit", "", "1: a culprit that a diagnosis has found",
                         {**labels_of(run.head, OF_RUN), **labels_of(culprit, OF_CULPRIT)}, 1)  # fmt: skip
    for m in sorted(measures(source), key=lambda m: (m.kind, m.field)):
        name, (unit, factor, _, _) = unit_of(m.field)
        families.add(f"{m.kind}_{name}", unit, f"{m.field} of a {m.kind} record", {**m.of, **m.labels}, m.value * factor)
    for document in verdicts(source):
        add_verdict(families, document)
    return "\n".join(families.lines()) + "\n"


def add_verdict(families, document):
    of = labels_of(document, OF_VERDICT)
    if number(document, "exit_status") is not None:
        families.add("acceptance_exit_status", "", "Exit status of the acceptance run, 0: passed", of, document["exit_status"])
    for gate in members(document, "gates"):
        labels = {**of, **labels_of(gate, ("step", "metric", "subject", "from", "unit"))}
        verdict = text(gate, "verdict", 20)
        if verdict in ("passed", "warning", "failed"):
            families.add("gate_failed", "", "1: the gate failed", labels, verdict == "failed")
    for key, about in ("value", "Measured value of a gate, in its unit"), ("limit", "Limit of a gate, in its unit"):
        for gate in members(document, "gates"):
            if number(gate, key) is not None:
                labels = {**of, **labels_of(gate, ("step", "metric", "subject", "from", "unit"))}
                families.add(f"gate_{key}", "", about, labels, gate[key])
    for node in members(document, "nodes"):
        labels = {**of, **labels_of(node, ("host", "verdict", "code"))}
        families.add("node_healthy", "", "1: the verdict about the node is OK", labels, text(node, "verdict") == "OK")


# ---- github-action-benchmark ------------------------------------------------------------------------------


def told(key, value):
    """A label in words."""
    if key == "in_place":
        return "in-place" if value else "out-of-place"
    if isinstance(value, str):
        return f"overlap {value}" if key == "overlap" else value
    return size(value) if key in ("size_bytes", "cap_bytes") else count(value, "rank") if key == "nranks" else f"{key} {value}"


def benchmark(source, better):
    """The list that its tools customBiggerIsBetter and customSmallerIsBetter read."""
    found = []
    for m in measures(source):
        name, (_, _, unit, which) = unit_of(m.field)
        if which != better:
            continue
        named = " ".join(told(key, value) for key, value in m.labels.items())
        one = {"name": f"{m.of.get('program', '')}: {named}, {name}", "unit": unit, "value": m.value}
        if m.low and m.high:
            one["range"] = f"{m.low:.6g} to {m.high:.6g}"
        found.append({**one, "extra": ", ".join(f"{key} {value}" for key, value in m.of.items())})
    return json.dumps(found, indent=1) + "\n"


# ---- annotations --------------------------------------------------------------------------------------------


class Problem(typing.NamedTuple):
    """LEVEL: error or warning. PATH: the profile, with the LINE of a gate; None for a problem of a run."""

    level: str
    title: str
    reason: str
    path: typing.Optional[str] = None
    line: int = 1


def problems(source):
    return [p for document in verdicts(source) for p in problems_of_verdict(document)] + [
        p for run in source.runs.values() for p in problems_of_run(run)
    ]


def problems_of_verdict(document):
    path = os.path.relpath(text(document, "profile_path") or "profile.yaml")
    levels = {"failed": "error", "could not judge": "error", "warning": "warning"}
    for gate in members(document, "gates"):
        level = levels.get(text(gate, "verdict", 20))
        if level:
            words = (text(gate, key) for key in ("step", "metric", "subject", "from"))
            title = " ".join(dict.fromkeys(filter(None, words)))  # a step called diagnosis has a metric of that name
            yield Problem(level, title, text(gate, "reason") or "no reason is given", path, int(positive(gate, "line") or 1))
    levels = {"BAD": "error", "UNKNOWN": "warning", "SUSPECT": "warning"}
    for node in members(document, "nodes"):
        level = levels.get(text(node, "verdict", 20))
        if level:
            title = f"node {text(node, 'host')}: {text(node, 'code', 40)}"
            yield Problem(level, title, text(node, "reason") or "no reason is given", path)


def problems_of_run(run):
    end = end_of(run)
    if end and number(end, "exit_status") == 0:
        return
    title = f"{program_of(run)}: {text(end, 'verdict', 60) or 'not finished'}"
    reasons = [text(end, "error")] + [text(r, "text") for r in run.of("culprit", "finding")]
    known = [reason for reason in reasons if reason] or [" ".join(words(run.head, "args")) or "no reason is given"]
    for reason in known:
        yield Problem("error" if end else "warning", title, reason)


def github(source):
    """Workflow commands, to be printed by a step of a job."""
    def data(value):
        return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def name(value):
        return data(value).replace(":", "%3A").replace(",", "%2C")

    def place(problem):
        return f"file={name(problem.path)},line={problem.line}," if problem.path else ""

    return "".join(f"::{p.level} {place(p)}title={name(p.title)}::{data(p.reason)}\n" for p in problems(source))


def gitlab(source):
    """A Code Quality report, whose fingerprints stay when lines move."""
    found, seen = [], {}
    for p in problems(source):
        key = f"{p.path or ''} {p.title}"
        seen[key] = seen.get(key, 0) + 1
        found.append({
            "description": f"{p.title}: {p.reason}",
            "check_name": "busbench",
            "fingerprint": hashlib.sha256(f"{key} {seen[key]}".encode()).hexdigest(),
            "severity": "major" if p.level == "error" else "minor",
            "location": {"path": p.path or p.title.partition(":")[0], "lines": {"begin": p.line}},
        })  # fmt: skip
    return json.dumps(found, indent=1) + "\n"


FORMATS = {
    "openmetrics": openmetrics,
    "customBiggerIsBetter": lambda source: benchmark(source, "bigger"),
    "customSmallerIsBetter": lambda source: benchmark(source, "smaller"),
    "github": github,
    "gitlab": gitlab,
}

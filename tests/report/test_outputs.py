"""scripts/report.py --format: what other tools read, held against records and against a parser of theirs."""

import json
import os
import re
import shutil
import sys
import tempfile

from kit import ROOT, equal, execute, expect, test

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "scripts")]

from report import outputs, values
from samples import GATE, LINK, REPORT, VERDICT, by_hand, everything, read, records_of, write_records

PARSER = os.path.join(ROOT, "tests", "report", "openmetrics.py")


def output(form, *paths):
    """What is printed; needs neither matplotlib nor Jinja2."""
    result = execute([sys.executable, "-B", REPORT, *paths, "--format", form]).exits(0)
    equal(result.err, "", "on stderr")
    return result.out


def write_verdict(folder, **more):
    path = os.path.join(folder, "verdict.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**VERDICT, "profile_path": os.path.join(os.getcwd(), "p.yaml"), **more}, file)
    return path


def small(folder):
    words = *LINK.split(), "-g", "3", "-b", "1K", "-e", "4K", "-f", "4", "--algo", "ring,tree"
    return records_of(folder, "small", "all_reduce_perf", *words)


LABEL = r'([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
FAMILY = re.compile(r"# HELP (\w+) (\S[^\n\\]*)\n# TYPE \1 gauge\n(?:# UNIT \1 ([a-z_]+)\n)?")
SAMPLE = re.compile(rf"([a-z_][a-z0-9_]*)\{{((?:{LABEL}(?:,(?!\}})|(?=\}})))*)\}} (-?[0-9.]+(?:e[+-]?[0-9]+)?)\n")


def samples_of(text):
    """[[name, labels, value]...] of OpenMetrics text with gauges alone; the grammar is that of its specification 1.0."""
    at, found, families = 0, [], {}
    while not text.startswith("# EOF\n", at):
        head, sample = FAMILY.match(text, at), SAMPLE.match(text, at)
        expect(head or sample, f"neither metadata nor a sample: {text[at : at + 200]!r}")
        if head:
            name, _, unit = head.groups()
            expect(name not in families and (not unit or name.endswith("_" + unit)), f"{head[0]!r}")
            families[name] = 0
        else:
            expect(families and sample[1] == list(families)[-1], f"{sample[0]!r} follows {list(families)[-1:]}")
            families[sample[1]] += 1
            pairs = re.findall(LABEL, sample[2])
            equal(len(dict(pairs)), len(pairs), f"different labels of {sample[0]!r}")
            plain = lambda value: re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value)
            found.append([sample[1], {name: plain(value) for name, value in pairs}, float(sample[5])])
        at = (head or sample).end()
    equal(text[at:], "# EOF\n", "the end")
    expect(families and all(families.values()), f"families without a sample: {families}")
    keys = [(name, *sorted(labels.items())) for name, labels, _ in found]
    equal(len(set(keys)), len(keys), "samples with different names and labels")
    return found


def exported(folder, *paths):
    """The samples of the files as OpenMetrics. Parsers of Prometheus read the same, where they are installed."""
    target = os.path.join(folder, "busbench.prom")
    execute([sys.executable, "-B", REPORT, *paths, "--format", "openmetrics", "-o", target]).exits(0)
    samples = samples_of(read(target))
    if shutil.which("promtool"):
        with open(target, encoding="utf-8") as file:
            execute(["promtool", "check", "metrics"], stdin=file).exits(0)
    result = execute([sys.executable, "-B", PARSER, target])
    if "has no prometheus_client" not in result.err:
        equal(json.loads(result.exits(0).out), samples, "what prometheus_client reads")
    return samples


@test
def openmetrics_has_every_result():
    """All kinds of records are there, with the values of the records in base units."""
    with tempfile.TemporaryDirectory() as folder:
        path, records = small(folder)
        paths = [one for one in everything(folder)[0] if not one.endswith("verdict.json")]
        paths.append(records_of(folder, "stages", *f"pipeline_perf -g 2 -n 4 {LINK}".split())[0])
        samples = exported(folder, path, write_verdict(folder), *paths)
        for r in (r for r in records if r["kind"] == "result"):
            mine = {"algorithm_asked": r["algorithm_asked"], "size_bytes": str(r["size_bytes"]), "in_place": str(int(r["in_place"])),
                    "program": "all_reduce_perf", "nranks": "3"}  # fmt: skip
            found = {name: v for name, labels, v in samples if mine.items() <= labels.items()}
            equal(found["busbench_result_time_seconds"], r["time_us"] * 1e-6, "time")
            equal(found["busbench_result_busbw_bytes_per_second"], r["busbw_GBps"] * 1e9, "bus bandwidth")
        names = {name for name, _, _ in samples}
        wanted = [f"{kind}_{outputs.unit_of(field)[0]}_{outputs.unit_of(field)[1][0]}"
                  for kind, (_, *fields) in outputs.MEASURED.items() for field, _, _ in fields]
        for name in wanted + ["run_exit_status", "acceptance_exit_status", "gate_value", "gate_limit"]:
            expect(f"busbench_{name}" in names, f"no {name} among {sorted(names)}")
        equal([v for name, _, v in samples if name == "busbench_gate_failed"], [1.0], "gates that failed")
        healthy = {labels["host"]: v for name, labels, v in samples if name == "busbench_node_healthy"}
        equal(healthy, {"n2": 0.0, "n3": 1.0}, "healthy nodes")


@test
def lists_of_benchmarks():
    """Bandwidths are in one list, times in the other, each under a name of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path, records = small(folder)
        results = [r for r in records if r["kind"] == "result"]
        for form, unit, field in (("customBiggerIsBetter", "GB/s", "busbw_GBps"), ("customSmallerIsBetter", "us", "time_us")):
            found = json.loads(output(form, path))
            equal({one["unit"] for one in found}, {unit}, "units")
            equal(sorted(one["value"] for one in found), sorted(r[field] for r in results), form)
            names = {one["name"] for one in found}
            equal(len(names), len(results), "different names")
            word = field.partition("_")[0]
            expect(f"all_reduce_perf: all_reduce tree float sum 4K out-of-place 3 ranks, {word}" in names, f"{names}")


@test
def annotations_name_what_failed():
    """A gate at its line of the profile, nodes and runs; passed runs have none, and no text begins a line of its own."""
    with tempfile.TemporaryDirectory() as folder:
        good, records = small(folder)
        equal((output("github", good), json.loads(output("gitlab", good))), ("", []), "of what passed")
        hand = write_records(os.path.join(folder, "hand.jsonl"), by_hand(records[0]))
        evil = {**GATE, "line": 7, "reason": "50% less\n::error::more"}
        verdict = write_verdict(folder, gates=[evil, {**GATE, "verdict": "passed"}, {**GATE, "verdict": "warning", "line": 9}])
        lines = output("github", verdict, hand).splitlines()
        equal(lines, [
            "::error file=p.yaml,line=7,title=a busbw all_reduce ring 1K baseline::50%25 less\N{REPLACEMENT CHARACTER}::error::more",
            "::warning file=p.yaml,line=9,title=a busbw all_reduce ring 1K baseline::too slow",
            "::error file=p.yaml,line=1,title=node n2%3A BB-BELOW-GATE::" + ("it is slow, " * 20).strip() + " ",
            "::error title=diagnose%3A culprits found::node2 sends at half of what is usual",
        ], "workflow commands")  # fmt: skip
        before = json.loads(output("gitlab", verdict, hand))
        equal([(p["location"]["path"], p["location"]["lines"]["begin"], p["severity"]) for p in before],
              [("p.yaml", 7, "major"), ("p.yaml", 9, "minor"), ("p.yaml", 1, "major"), ("diagnose", 1, "major")], "places")
        write_verdict(folder, gates=[{**evil, "line": 70}, {**GATE, "verdict": "warning", "line": 90}])
        after = json.loads(output("gitlab", verdict, hand))
        equal([p["fingerprint"] for p in after], [p["fingerprint"] for p in before], "fingerprints when lines move")
        equal(len({p["fingerprint"] for p in before}), len(before), "different fingerprints")


@test
def odd_values_do_no_harm():
    """Fields of other types, and texts with signs of the formats, are left out or quoted."""
    odd = [None, -1, 1e300, "7", [], {}, True, 'a"\\\n# EOF', 1e-300, 3]
    with tempfile.TemporaryDirectory() as folder:
        _, records = small(folder)
        change = lambda r, i: {k: v if k in ("schema", "kind", "run_id") or k.endswith(values.UNITS) else odd[(i + len(k)) % len(odd)] for k, v in r.items()}
        paths = []
        for i in range(len(odd)):
            changed = [r if r["kind"] == "run" else {**r, **change(r, i)} for r in records]
            changed = [dict(r, run_id=str(i)) for r in changed]
            changed = [dict(r, time_us=5.0, busbw_GBps=7.0) if r["kind"] == "result" else r for r in changed]
            paths.append(write_records(os.path.join(folder, f"{i}.jsonl"), changed))
            gate = {**change(GATE, i), "verdict": "failed"}
            paths.append(os.path.join(folder, f"verdict-{i}.json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                json.dump({**VERDICT, "gates": [gate, i], "nodes": [change(VERDICT["nodes"][0], i)]}, file)
        for form in ("github", "gitlab", "customBiggerIsBetter", "customSmallerIsBetter"):
            expect(output(form, *paths), f"{form} is empty")
        expect(len(exported(folder, *paths)) > len(odd), "the rest is not there")

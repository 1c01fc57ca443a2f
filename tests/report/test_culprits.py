"""Nothing that names a culprit is cut: 12 slow nodes with host names of 60 characters, in every form of output."""

import json
import os
import re
import sys
import tempfile

import kit
from accept import Folder, profile, step
from kit import equal, execute, expect, test

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from samples import REPORT, read, records_of, report, write_records

NODES = 14
HOSTS = [f"gpu-node-{n:02}." + "rack-with-a-long-name." * 2 + "cluster" for n in range(NODES)]
SLOW = HOSTS[:12]


def text_of(n):
    return (f"node {n} ({HOSTS[n]}, ranks {8 * n} to {8 * n + 7}) takes 1.75 times the typical time when it sends (latency and "
            f"bandwidth), in 100% of 32 measurements; both of its partners are fast with all others; confidence > 99.{n:02}%")  # fmt: skip


def diagnosed(folder):
    """A file of records of a diagnosis of 14 nodes, 12 of which are slow, as if they had been measured."""
    _, found = records_of(folder, "sample", *"diagnose -g 4 --backend sim --link 10GB/s,5us".split())
    kind = {r["kind"]: r for r in found}
    run = dict(kind["run"], virtual_time=False, link=None, nranks=NODES, host=HOSTS[0], ranks=[
        {"rank": n, "host": host, "device": 0} for n, host in enumerate(HOSTS)])  # fmt: skip
    same = {"schema": run["schema"], "run_id": run["run_id"]}
    culprits = [{**same, "kind": "culprit", "code": "BB-SLOW-NODE", "host": HOSTS[n], "node": n, "text": text_of(n)} for n in range(12)]
    nodes = [dict(kind["node"], host=host, node=n, verdict="BAD" if host in SLOW else "OK",
                  code="BB-SLOW-NODE" if host in SLOW else "BB-OK",
                  reason=text_of(n) if host in SLOW else "as fast as the others")
             for n, host in enumerate(HOSTS)]  # fmt: skip
    end = dict(kind["end"], verdict="culprits found", exit_status=7, results=NODES, data=f"{NODES} results; data was not checked",
               answers=[f"culprit: BB-SLOW-NODE: {text_of(n)}" for n in range(12)])  # fmt: skip
    return write_records(os.path.join(folder, "diagnosis.jsonl"), [run, *culprits, *nodes, end])


def has_all(where, text, wanted):
    """TEXT has all of WANTED, whatever its line breaks, escapes and markup."""
    plain = re.sub(r"\\(.)", r"\1", text).replace("&gt;", ">")
    squeezed = re.sub(r"\s+", "", plain)
    for one in wanted:
        expect(re.sub(r"\s+", "", one) in squeezed, f"{where}: without {one!r}:\n{text[:3000]}")


@test
def reports_of_a_run():
    reasons = [text_of(n) for n in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        path = diagnosed(folder)
        target = report(folder, path)[1]
        for name in "index.html", "summary.md":
            has_all(name, read(target, name), reasons)
        for form, wanted in (("github", [r.replace("%", "%25") for r in reasons]), ("gitlab", reasons),
                             ("openmetrics", [f'host="{host}"' for host in SLOW])):  # fmt: skip
            result = execute([sys.executable, "-B", REPORT, path, "--format", form]).exits(0)
            if form == "openmetrics":
                equal(result.out.count("busbench_culprit{"), 12, "samples of culprits")
                wanted = [f'host="{host}",code="BB-SLOW-NODE"' for host in SLOW]
            has_all(form, result.out, wanted)


@test
def outputs_of_acceptance():
    """Its text, verdict.json, JUnit and what the report makes of them; a launcher stands in for 14 nodes."""
    reasons = [text_of(n) for n in range(12)]
    with Folder() as f:
        canned = diagnosed(f.name)
        binaries = os.path.join(f.name, "bin")
        os.makedirs(binaries)
        kit.write_program(os.path.join(binaries, "mpirun"), f"#!/bin/sh\ncat {canned}\nexit 7\n")
        path = f.profile(profile(step("diagnose", name="who"), more=f"launcher: mpirun\nranks: {NODES}\n"))
        result = f.run(path, env={"PATH": binaries + ":" + os.environ["PATH"]}).exits(7)
        verdict = f.verdict()
        gate, = [g for g in verdict["gates"] if g["metric"] == "diagnosis"]
        has_all("text", result.out, reasons)
        has_all("gates of verdict.json", gate["reason"], reasons)
        equal({n["host"]: n["reason"] for n in verdict["nodes"] if n["verdict"] == "BAD"}, dict(zip(SLOW, reasons)), "nodes of verdict.json")
        has_all("sentences", " ".join(verdict["sentences"]), reasons)
        has_all("JUnit", f.junit().find(".//failure").get("message"), reasons)
        source = os.path.join(f.name, "out", "verdict.json")
        target = report(f.name, source)[1]
        for name in "index.html", "summary.md":
            has_all(name, read(target, name), reasons)
        for form in "github", "gitlab", "openmetrics":
            told = execute([sys.executable, "-B", REPORT, source, "--format", form]).exits(0).out
            has_all(form, told, SLOW if form == "openmetrics" else [r.replace("%", "%25") if form == "github" else r for r in reasons])

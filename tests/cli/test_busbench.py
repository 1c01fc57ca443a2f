"""The command busbench: the list of tools, and running them."""

import json
import os
import re
import tempfile

import kit
from kit import ROOT, built, equal, execute, expect, test


def busbench(*words, **options):
    return execute([built("busbench"), *words], **options)


def tools():
    return json.loads(busbench("--help-schema").exits(0).out)


@test
def lists_every_tool():
    """One line for each program of the build, within 80 columns."""
    text = busbench().exits(0).quiet().out
    equal(busbench("--help").exits(0).out, text, "--help")
    listed = re.findall(r"^  (\w+) +\S", text.split("\nExamples:")[0], re.M)
    equal(listed, [tool["name"] for tool in tools()], "the schema")
    expect(all(len(line) <= 80 for line in text.splitlines()), "a line is wider than 80 columns")
    programs = [n for n in os.listdir(kit.Settings.build) if re.search(r"_perf$|^(diagnose|topology|model_memory|acceptance)$", n)]
    expect(set(programs) <= {tool["command"] for tool in tools()}, f"of {programs} not all are listed")


@test
def runs_tools():
    for name in ("all_reduce", "all_reduce_perf"):
        busbench(name, *"-g 2 -b 8 -e 8 -n 1 -w 0".split()).exits(0).prints("# Avg bus bandwidth")
    busbench("alltoallv", *"-g 4 -b 8 -e 1K --fault corrupt:1".split()).exits(7)
    busbench("topology", "--version").exits(0).prints("topology (busbench) ")
    busbench("--version").exits(0).prints("busbench 0", "compiler: ")
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "busbench")
        os.symlink(built("busbench"), link)
        execute([link, "all_reduce", "--version"], cwd=folder).exits(0).prints("all_reduce_perf (busbench) ")
        log = os.path.join(ROOT, "tests", "logs", "h100.txt")
        busbench("acceptance", "check", "--records", log).exits(0).prints('"kind":"result"', '"busbw_GBps":483.35', '"verdict":"read from a log"')
        if busbench("report", log, "-o", folder + "/log/").exits(0, 3).code == 0:
            with open(folder + "/log/summary.md", encoding="utf-8") as page:
                expect("read from a log" in page.read(), "no verdict of the log")
        busbench("report", "/nonexistent.jsonl", "-o", folder + "/").exits(2).says("report.py: ", "/nonexistent.jsonl")


@test
def names():
    for folder, listed in (("ci/profiles", "profiles"), ("reports/reference/clusters", "clusters")):
        out = busbench(listed).exits(0).out
        for file in os.listdir(os.path.join(ROOT, folder)):
            if file.endswith(".xml"):  # the topology of a cluster
                continue
            expect(f"\n{os.path.splitext(file)[0]} " in "\n" + out, f"{file} is not in\n{out}")
        expect(out.splitlines()[-1].startswith(f"# files: {os.path.join(ROOT, folder)}/*."), out)
    expect("\nhgx-h100 " in busbench("clusters").out, "no known systems")
    expect("\nhgx-h100            8 H100 on NVLink 4, alone and as a pair of nodes\n" in busbench("profiles").out, "no text of a profile")


@test
def refuses():
    busbench("al_reduce").exits(2).says("al_reduce: no such tool; did you mean all_reduce?")
    busbench("ddp_buckets").exits(2).says("did you mean ddp_bucket?")
    busbench("xyzzy").exits(2).says("xyzzy: no such tool; busbench alone lists them")
    busbench("profiles", "x").exits(2).says("x: profiles takes no arguments")
    busbench("--frobnicate").exits(2).says("--frobnicate: unknown option")
    with tempfile.TemporaryDirectory() as folder:
        kit.copy_programs([built("busbench")], folder)
        copy = os.path.join(folder, "busbench")
        execute([copy, "acceptance"]).exits(5).says("acceptance: not in this build", f"there is no {folder}/acceptance")
        execute([copy, "report"]).exits(5).says("report: scripts/report.py is neither installed nor")

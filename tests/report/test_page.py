"""scripts/report.py FILE… -o FOLDER/: content of reports, also of bad files."""

import csv
import html
import json
import os
import re
import sys
import tempfile

from kit import ROOT, add, built, equal, execute, expect, test

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "scripts")]

from report import files, values
from report.page import tables
from samples import BASELINE, GATE, LINK, REPORT, RUNS, VERDICT, by_hand, collective, read, records_of, report, run_report, write_records


@test
def sizes_have_no_exponent():
    """Sizes are those of options, also just below the next unit."""
    equal([values.size(n * 1024) for n in (1, 25.3, 999, 1000, 1023, 1024)], ["1K", "25.3K", "999K", "1000K", "1023K", "1M"], "sizes")


@test
def tables_have_what_differs():
    """Columns with one value, or with the values of another one, are told above the table; small errors are words."""
    rows = [{"kind": "strategy", "strategy": w, "nranks": 4, "step_us": t, "low_us": t, "error_percent": e, "wrong": None}
            for w, t, e in (("dp", 3.0, 4.2e-6), ("ddp", 5.0, -2.818))]  # fmt: skip
    one = tables.Table("Ways", ["strategy", "nranks", "step_us", "low_us", "error_percent", "wrong"], rows)
    equal(one.heads, ["strategy", "step", "error, %"], "heads")
    equal(one.shared, "In all rows: nranks 4. The same as step: low.", "what is told above")
    equal([[c.shown for c in row] for row in one.rows], [["dp", "3.00\xa0µs", "exact"], ["ddp", "5.00\xa0µs", "-2.82"]], "cells")


@test
def skipped_cases_with_one_reason_are_one_row():
    skip = lambda size, reason: {"kind": "skip", "algorithm": "nvls", "size_bytes": size, "reason": reason}
    found = tables.merged_skips([skip(n << 10, "one node") for n in (4, 1, 64)] + [skip(1024, "no memory")])
    equal([(r["sizes"], r["cases"], r["reason"]) for r in found], [("1K to 64K", 3, "one node"), ("1K", 1, "no memory")], "rows")


@test
def healthy_nodes_are_a_count():
    with tempfile.TemporaryDirectory() as folder:
        _, records = records_of(folder, "head", "all_reduce_perf", "-g", "2", "-b", "1K", "-e", "1K", "-n", "2")
        path = write_records(os.path.join(folder, "culprit.jsonl"), by_hand(records[0]))
        page = read(report(folder, path)[1], "index.html")
        for name, n, state in ("Nodes that stand out", 1, " open"), ("Healthy nodes", 5, ""):
            wanted = f'<details class="data"{state}>\n<summary>{name} <span class="count">{n}</span>'
            expect(wanted in page, f"{wanted} is not on the page")
        expect("5 of 6 nodes: nothing stands out" in page, "the healthy nodes are not counted")


# ---- what is written ----------------------------------------------------------------------------------


@test
def csv_is_tidy():
    """A row per result, with all its fields and its origin; a run counts once."""
    with tempfile.TemporaryDirectory() as folder:
        path, records = collective(folder)
        _, target = report(folder, path, path)  # the second time it is left out
        results = [r for r in records if r["kind"] == "result"]
        rows = list(csv.DictReader(read(target, "result.csv").splitlines()))
        equal(len(rows), len(results), "rows")
        for row, r in zip(rows, results):
            equal((row["program"], row["host"]), ("all_reduce_perf", records[0]["host"]), "where it comes from")
            for key in ("size_bytes", "time_us", "busbw_GBps", "ci_low_us"):
                equal(float(row[key]), float(r[key]), key)
            equal(row["in_place"], str(int(r["in_place"])), "in_place")
            equal(len(row["samples_us"].split(";")), len(r["samples_us"]), "samples")
        equal(
            set(os.listdir(target)) - {"counter.csv"},  # is there where something else on the machine raised one
            {"index.html", "summary.md", "result.csv", "arrival.csv", "winner.csv", "crossing.csv"},
            "files",
        )
        write_records(path, [dict(r, dtype="=1+1") if r["kind"] == "result" else r for r in records])
        report(folder, path)
        equal({r["dtype"] for r in csv.DictReader(read(target, "result.csv").splitlines())}, {"'=1+1"}, "a formula")


@test
def says_what_was_found():
    """Page and Markdown begin with the verdict and its reasons, and have everything for a repetition."""
    with tempfile.TemporaryDirectory() as folder:
        path, records = collective(folder)
        _, target = report(folder, path)
        page, summary = read(target, "index.html"), read(target, "summary.md")
        results = sum(r["kind"] == "result" for r in records)
        # Which algorithm is faster, and whether noise lets that be told, differs from run to run.
        answers = [answer[0].upper() + answer[1:] for answer in records[-1]["answers"]]
        expect(any("ring" in answer and "tree" in answer for answer in answers) or len(answers) > 1, f"answers: {answers}")
        for text in (f"No wrong data in {results} results.", *answers):
            expect(text in page and text in summary, f"{text!r} is not told")
        expect(page.index("Passed") < page.index("<svg"), "the verdict is not first")
        for key in ("version", "host", "cpu", "os", "topology"):
            expect(str(records[0][key]) in page, f"the page lacks {key}")
        expect("--algo ring,tree,auto" in summary, "no command line in the Markdown")
        expect("<span>--algo</span> <span>ring,tree,auto</span>" in page, "no command line on the page")


def unfolded(text):
    """The '#' lines of TEXT, with those that the width of the text has broken put together, one space between words."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#   ") and lines:
            lines[-1] += " " + line[1:]
        elif line.startswith("#"):
            lines.append(line[1:])
    return [" ".join(line.split()).lower() for line in lines]


ANSWERED = {
    "all_reduce": "all_reduce_perf -g 2 -b 1K -e 4K -f 4 -n 5 --algo ring,tree",
    "one": f"all_reduce_perf -g 4 -b 1K -e 4K -f 4 --algo ring {LINK}",
    "wrong": "all_reduce_perf -g 2 -b 1K -e 1K -n 2 --algo ring,tree --fault corrupt:1",
    "barrier": "barrier_perf -g 2 -n 5",
    "bandwidth": "p2p_bandwidth_perf -g 2 -n 2 -b 64K -e 64K",
    "latency": "p2p_latency_perf -g 2 -n 3",
    "pairs": f"p2p_bandwidth_perf -g 4 -b 1M -e 1M --fault slow_link:1:2:4 {LINK}",
    "memory": "mem_bandwidth_perf -b 1M -e 1M -n 3",
    "buckets": "ddp_bucket_perf -g 2 -n 3 --model linear:4x32 --buckets 1M,25M --flops 10T",
    "predicted": f"ddp_bucket_perf --predict -g 8 {LINK} --flops 10T",
    "data": "data_parallel_perf -g 2 -n 2 --model linear:4x32",
    "data_sim": f"data_parallel_perf -g 4 {LINK}",
    "pipeline": "pipeline_perf -g 2 -n 2",
    "pipeline_predicted": "pipeline_perf --predict --stages 3 --schedule 1f1b,zb-h1",
    "tensor": "tensor_parallel_perf -g 2 -n 2 --equality",
    "tensor_sim": f"tensor_parallel_perf -g 4 {LINK}",
    "hybrid": f"hybrid_parallel_perf -g 8 {LINK}",
    "plan": "hybrid_parallel_perf --plan --preset bloom-176b",
    "moe": f"moe_alltoall_perf -g 4 --skew 0,1 {LINK}",
    "codes": f"quantised_all_reduce_perf -g 4 --memory-rate 1TB/s {LINK}",
    "zero": "zero_perf -g 2 -n 2 --model linear:4x32",
    "diagnosed": f"diagnose -g 6 {LINK}",
    "culprits": f"diagnose -g 8 --fault slow:2:5ms {LINK}",
}  # fmt: skip


def answered_alike(name):
    """The page of a run has the sentences of its text, in that order, and no other ones."""
    with tempfile.TemporaryDirectory() as folder:
        binary, *words = ANSWERED[name].split()
        path = os.path.join(folder, "run.jsonl")
        result = execute([built(binary), *words, "--json", path]).exits(0, 7)
        target = report(folder, path)[1]
        head = read(target, "summary.md").split("\n\n")[2]
        said = [html.unescape(re.sub(r"\\(.)", r"\1", line[2:])) for line in head.splitlines()]
        lines = [line.rstrip(".") for line in unfolded(result.out)]
        expect(said and all(sentence.endswith(".") for sentence in said), f"no sentences: {head}")
        for sentence in said:
            if not sentence.startswith(("Wrong data in", "No wrong data in")) and "calculated" not in sentence and "virtual" not in sentence:
                result.require(" ".join(sentence[:-1].lower().split()) in lines, f"the page alone says {sentence!r}")
        record = json.loads(read(path).splitlines()[-1])
        answers = [a[:1].upper() + a[1:].rstrip(".") + "." for a in record["answers"]]
        data = record["data"] + "."
        equal([" ".join(s.split()) for s in said], [" ".join(s.split()) for s in ([data] + answers if record["wrong"] else answers + [data])], "sentences of the page")


for kind in ANSWERED:
    add(f"the_page_of_{kind}_answers_as_the_text", answered_alike, kind)


@test
def what_is_worst_is_explained_first():
    """A passed verdict of acceptance does not explain the failure of another run."""
    with tempfile.TemporaryDirectory() as folder:
        slow, _ = records_of(folder, "slow", "all_reduce_perf", "-g", "2", "-b", "1K", "-e", "1K", "-n", "2")
        head = json.loads(read(slow).splitlines()[0])
        paths = [write_records(os.path.join(folder, "culprit.jsonl"), by_hand(head))]
        paths.append(os.path.join(folder, "verdict.json"))
        with open(paths[1], "w", encoding="utf-8") as file:
            json.dump({**VERDICT, "verdict": "passed", "exit_status": 0, "nodes": []}, file)
        _, target = report(folder, *paths)
        expect("&gt; 0.9999" in read(target, "index.html"), "nobody is sure to the last digit")
        said = read(target, "summary.md")
        culprit, acceptance = said.index("diagnose, run 1: culprits found."), said.index("Acceptance: passed.")
        expect(said.index("**culprits found**") < culprit < acceptance < said.index("One gate does not hold."), said[:600])


@test
def several_runs_are_told_apart():
    """Sentences about one of several runs name it; a folder needs no slash."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for ranks in ("2", "4"):
            words = *LINK.split(), "-b", "1K", "-e", "4K", "-g", ranks
            paths.append(records_of(folder, ranks, "all_reduce_perf", *words)[0])
        report(folder, *paths)  # skipped without what it needs
        words, target = [sys.executable, "-B", REPORT, *paths], os.path.join(folder, "of-both")
        execute([*words, "-o", target]).exits(0)
        contents = re.sub("<[^>]*>", "", read(target, "index.html").partition("<nav")[2].partition("</nav>")[0])
        for ranks in ("2", "4"):
            expect(f"all_reduce · {ranks} ranks · sim At 4K," in contents, f"{ranks} ranks are not told: {contents}")
        execute([*words, "-o", paths[0]]).exits(2).says("ends in .svg")


@test
def the_fastest_of_many_is_shown():
    """Pictures have eight algorithms: the fastest of ten is among them, whatever their order."""
    with tempfile.TemporaryDirectory() as folder:
        words = *LINK.split(), "-b", "64K", "-e", "64K", "-g", "4", "--algo", "ring"
        path, records = records_of(folder, "ten", "all_reduce_perf", *words)
        one = next(r for r in records if r["kind"] == "result" and not r["in_place"])
        many = [dict(one, algorithm_asked=f"a{n}", algorithm=f"a{n}", time_us=one["time_us"] * (10 - n)) for n in range(10)]
        _, target = report(folder, write_records(path, [records[0], *many, records[-1]]))
        page = read(target, "index.html")
        expect(">a9<" in page, "the fastest is not in the pictures")
        expect("2 more algorithms are in the table" in page, "the others are not told")


def played(records, identity, nranks, slower=1.0, **head):
    """The records as those of another run, with that number of ranks and changed fields of the run record."""
    changed = {"run": dict(head, nranks=nranks), "result": {"nranks": nranks}}
    found = [dict(r, run_id=identity, **changed.get(r["kind"], {})) for r in records]
    return [dict(r, time_us=r["time_us"] * slower) if r["kind"] == "result" else r for r in found]


def scaling_of(folder, runs):
    """The part of the page about all runs together: (headings, captions, notes)."""
    path = write_records(os.path.join(folder, "runs.jsonl"), [r for run in runs for r in run])
    page = read(report(folder, path)[1], "index.html")
    part = page.partition('<section id="scaling">')[2].partition("</section>")[0]
    found = [re.findall(f"<{tag}>(.*)</{tag}>", part) for tag in ("h3", "figcaption")]
    return [*found, re.findall('<p class="note">(.*)</p>', part)]


@test
def runs_of_one_line_belong_together():
    """Runs that differ in more than ranks are separate lines; those left out are named."""
    with tempfile.TemporaryDirectory() as folder:
        words = *LINK.split(), "-b", "1K", "-e", "4K", "-g", "4", "--algo", "ring"
        one = records_of(folder, "one", "all_reduce_perf", *words)[1]
        line = "all_reduce float sum, backend sim, link 10GB/s,5us"
        pair = [played(one, "a", 4), played(one, "b", 8)]
        equal(scaling_of(folder, pair), [[line], ["Virtual time."] * 3, []], "a pair")
        others = [dict(fault="slow:2:2ms"), dict(split="/2"), dict(link="1GB/s"), dict(cache="reuse"), dict(agg_iters=7)]
        others = [played(one, f"other-{i}", 16, **head) for i, head in enumerate(others)]
        equal(scaling_of(folder, others + [played(one, "c", 32)]), [[], [], []], "all alone")
        faulty = [played(one, f"f{n}", n, fault="slow:2:2ms") for n in (4, 8)]
        equal(scaling_of(folder, pair + faulty)[0], [line, line + ", fault slow:2:2ms"], "with a fault")
        clusters = [played(one, f"k{n}", 8 * n, link=None, cluster=f"hgx-h100:{n}") for n in (2, 4)]
        equal(scaling_of(folder, clusters)[0], [line.replace("link 10GB/s,5us", "cluster hgx-h100")], "clusters that grow")
        twice = scaling_of(folder, pair + [played(one, "again", 8, slower=3.0)])
        expect(all("Several runs of 8 ranks: each is a dot" in caption for caption in twice[1]), str(twice))
        wrong = [dict(r, wrong=3) if r["kind"] in ("result", "end") else r for r in played(one, "w", 16)]
        cut = [r for r in played(one, "cut", 32) if r["kind"] != "end"]
        told = scaling_of(folder, pair + [wrong, cut])[2]
        equal(told, [f"{line}: without run 3 (wrong data), run 4 (did not end)."], "what is left out")


@test
def machines_of_one_line_fit_each_other():
    """One rank on each of 4 machines, and runs on another machine, are separate lines."""
    with tempfile.TemporaryDirectory() as folder:
        words = "-b", "1K", "-e", "4K", "-g", "2", "-n", "2", "--algo", "ring"
        one = records_of(folder, "one", "all_reduce_perf", *words)[1]
        on = lambda name, ranks, hosts: played(
            one, name, ranks, ranks=[{"rank": i, "host": hosts[i % len(hosts)]} for i in range(ranks)]
        )
        full = [on("a", 2, ["h1"]), on("b", 4, ["h1"]), on("c", 8, ["h1", "h2"])]
        spread, elsewhere = on("d", 4, ["h1", "h2", "h3", "h4"]), on("e", 2, ["h9"])
        headings, captions, _ = scaling_of(folder, [*full, spread, elsewhere])
        equal(headings, ["all_reduce float sum, backend host, on h1, h2"], "lines")
        equal(set(captions), {"Measured."}, "no two runs of one number of ranks")


@test
def headings_say_what_is_planned():
    with tempfile.TemporaryDirectory() as folder:
        paths = [records_of(folder, name, *RUNS[name].split())[0] for name in ("pipeline", "plan")]
        page = read(report(folder, *paths)[1], "index.html")
        headings = re.findall("<h2>(.*)</h2>", page)
        equal(headings, ["pipeline · 3 stages · predicted", "hybrid_parallel · 384 ranks · a plan"], "headings")


@test
def gates_are_told_apart():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "verdict.json")
        gates = [GATE, {**GATE, "step": "b"}, {**GATE, "step": "b", "metric": "algbw"}]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**VERDICT, "gates": gates}, file)
        bars = re.findall(r">\s*([ab]: all_reduce[^<]*?)\s*<", read(report(folder, path)[1], "index.html"))
        wanted = ["a: all_reduce ring 1K", "b: all_reduce ring 1K, busbw", "b: all_reduce ring 1K, algbw"]
        equal(sorted(bars), sorted(wanted), "names of bars")


@test
def odd_baselines():
    """Baselines without date or number are left out; an invalid history is refused."""
    entry = BASELINE["entries"][0]
    odd = [
        {"date": "soon"}, {"date": 7}, {}, 5, None,
        {"date": "9999-12-31T23:59:59Z", "entries": [entry]},
        {"date": "2026-11-01T00:00:00Z", "entries": [entry, {**entry, "mean": "fast"}, {**entry, "mean": -1}, 3, {}]},
        {"date": "2026-11-02T00:00:00Z", "entries": {"mean": 3}},
        {"date": "2026-11-03T00:00:00Z", "entries": [{**entry, "low": None}, {**entry, "low": 99, "high": 1}]},
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "base.json")
        for history, status, pictures in (odd, 0, 1), ([], 0, 0), ("none", 7, 0):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**BASELINE, "history": history}, file)
            result, target = report(folder, path, status=status)
            if status == 0:
                equal(read(target, "index.html").count("<svg"), pictures, f"pictures of {history}")
            else:
                result.says("history is not a list")


@test
def a_failure_is_told_first():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bad.jsonl")
        execute(
            [built("all_reduce_perf"), "-g", "2", "-b", "1K", "-e", "1K", "--fault", "corrupt:1", "--json", path]
        ).exits(7)
        _, target = report(folder, path)
        page = read(target, "index.html")
        expect('class="verdict failed"' in page and "Wrong data" in page and "Wrong data in 2 of 2 results, with --fault corrupt:1." in page, page[-3000:])
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines[:-1])  # as after a crash
        report(folder, path)
        page = read(target, "index.html")
        expect('class="verdict warned"' in page and "did not end" in page, page[-3000:])


# ---- files that are not as they should be -----------------------------------------------------------------


def odd_files(records):
    """(name, text, message on stderr): files with usable parts."""
    lines = [json.dumps(r) for r in records]
    all_of = lambda lines: "\n".join(lines) + "\n"
    new = dict(records[1], schema=4)
    nan = lines[1].replace(str(records[1]["time_us"]), "NaN")
    return [
        ("broken", all_of(lines[:3] + ['{"kind": "res'] + lines[3:]), "line 4 is not JSON"),
        ("cut", all_of(lines)[:-40], f"line {len(lines)} is not JSON"),
        ("binary", all_of(lines).encode() + b"\xff\xfe\x00\n", "not JSON"),
        ("deep", all_of(lines + ["[" * 100000]), "not JSON"),
        ("nan", all_of([lines[0], nan] + lines[2:]), "line 2 is not JSON"),
        *((name, all_of(lines[:1] + [json.dumps(dict(records[1], **{field: value}))] + lines[2:]), f"line 2 is a record whose {field} is {why}")
          for name, field, value, why in (("text", "time_us", "7", "no number"), ("less", "busbw_GBps", -1, "negative"),
                                          ("more", "size_bytes", 1e300, "out of range"), ("array", "samples_us", [1, True], "no number"))),
        ("kind", all_of(lines + [json.dumps(dict(records[1], kind="news"))]), "1 record of the unknown kind 'news'"),
        ("schema", all_of(lines + [json.dumps(new)]), "1 record of schema 4"),
        ("stray", all_of(lines + [json.dumps(dict(records[1], run_id="x"))]), "1 record of a run that has no record"),
        ("list", all_of(lines + ["[]"]), "not a record: it has no kind"),
        ("long", all_of(lines + ['"' + "x" * (33 << 20) + '"']), "longer than 32 MiB"),
    ]


@test
def odd_files_are_told_about():
    """Usable parts are shown, the rest is named."""
    with tempfile.TemporaryDirectory() as folder:
        _, records = records_of(folder, "all", "all_reduce_perf", "-g", "2", "-b", "1K", "-e", "1K", "--algo", "ring")
        odd, identity = odd_files(records), records[0]["run_id"]
        paths = [os.path.join(folder, name + ".jsonl") for name, _, _ in odd]
        for path, (name, data, _) in zip(paths, odd):
            with open(path, "wb") as file:
                data = data if isinstance(data, bytes) else data.encode()
                file.write(data.replace(identity.encode(), name.encode()))
        result, target = report(folder, *paths)
        page = read(target, "index.html")
        expect("<summary>news" in page, "records of an unknown kind are not in a table")
        expect(os.path.exists(os.path.join(target, "news.csv")), "nor in CSV")
        equal(page.count("<h2>all_reduce"), len(odd), "runs on the page")
        for path, (name, _, said) in zip(paths, odd):
            told = [line for line in result.err.splitlines() if path in line and said in line]
            expect(told, f"{name}: {result.err!r}")
            expect(said.replace("'", "&#39;") in page, f"{name}: it is not on the page")


@test
def odd_values_do_no_harm():
    """Invalid and absurd values of fields without a unit are left out, and the page exists."""
    with tempfile.TemporaryDirectory() as folder:
        _, records = collective(folder)
        odd = [None, -1, 0, 1e300, "7", [], {}, True, [None, "x", 1e300], 1e-300, [-1, 5e-324, 7], 3]
        paths = []
        for i in range(0, len(odd), 2):
            changed = [
                {
                    k: v if k in ("schema", "kind") or k.endswith(values.UNITS) else str(i) if k == "run_id" else odd[i + hash_of(k, n) % 2]
                    for k, v in r.items()
                }
                for n, r in enumerate(records)
            ]
            paths.append(write_records(os.path.join(folder, f"{i}.jsonl"), changed))
        report(folder, *paths)


def hash_of(key, n):
    return sum(map(ord, key)) + n


@test
def files_that_cannot_be_used():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.jsonl")
        for text, said in (
            ("", "the file is empty"),
            ("<xml/>\n", "not JSON"),
            ('{"kind": "cake"}\n', "schema None"),
            ('{\n"kind": "cake"\n}\n', "it has kind 'cake'"),
            ("[1]\n", "no kind"),
        ):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            result, target = report(folder, path, status=7)
            expect("x.jsonl" in result.err and said in result.err, result.err)
            equal(len(result.err.splitlines()), 1, "lines on stderr")
            expect(not os.path.exists(target), "a report was written")
        report(folder, os.path.join(folder, "none.jsonl"), status=2)[0].says("none.jsonl: cannot be read")
        words = [sys.executable, "-B", REPORT, path]
        execute([*words, "-o", folder + "/", "--run", "1"]).exits(2).says("a single picture")
        run_report(folder).exits(7).says("x.jsonl")
        os.remove(path)
        run_report(folder).exits(2).says("no records (*.jsonl)")


@test
def folders():
    """A folder stands for its files, an acceptance run's for its verdict and runs; the report goes into it."""
    with tempfile.TemporaryDirectory() as folder:
        words = *LINK.split(), "-b", "1K", "-e", "1K"
        for ranks in ("2", "4"):
            path, records = records_of(folder, f"r{ranks}", "all_reduce_perf", *words, "-g", ranks)
        report(folder, path)  # skipped without what it needs
        run = lambda *words: run_report(*words).exits(0)
        equal(run(folder).out, os.path.join(folder, "report", "index.html") + "\n", "on stdout")
        equal(len(re.findall("<h2>all_reduce", read(folder, "report", "index.html"))), 2, "runs of the folder")
        inside = os.path.join(folder, "run", "records")
        os.makedirs(inside)
        with open(os.path.join(folder, "run", "verdict.json"), "w", encoding="utf-8") as file:
            step = VERDICT["steps"][0]
            json.dump({**VERDICT, "steps": [{**step, "name": name, "runs": [{"run_id": f"{name}.{n}"} for n in ns]}
                                            for name, ns in (("b", (2, 10)), ("a", (1,)), ("0", (1,)))]}, file)
        for name in ("0.1", "a.1", "a.sim1", "b.10", "b.2"):
            write_records(os.path.join(inside, name + ".jsonl"), [dict(r, run_id=name) for r in records])
        equal(run(os.path.join(folder, "run")).err, "", "on stderr")
        page = read(folder, "run", "report", "index.html")
        order = [os.path.basename(path) for path in files.expanded([os.path.join(folder, "run")])]
        equal(order, ["verdict.json", "b.2.jsonl", "b.10.jsonl", "a.1.jsonl", "0.1.jsonl"], "files of the run")
        heads = ["acceptance · p"] + [f"{step} · all_reduce · 4 ranks · sim" for step in "abb0"]
        equal([head.partition(" · run ")[0] for head in re.findall("<h2>(.*)</h2>", page)], heads, "the failed run, then those of each step")
        expect("– gate failed. <span class=\"answer\">Busbw too slow.</span>" in " ".join(page.split()), "the gate of the run")


@test
def a_file_that_cannot_be_drawn_is_left_out():
    """With a note; the failed run comes first."""
    with tempfile.TemporaryDirectory() as folder:
        words = "all_reduce_perf", "-g", "2", "-b", "1K", "-e", "1K", "-n", "2"
        good, _ = records_of(folder, "good", *words)
        bad = os.path.join(folder, "bad.jsonl")
        execute([built(words[0]), *words[1:], "--fault", "corrupt:1", "--json", bad]).exits(7)
        broken, undrawn = os.path.join(folder, "broken.jsonl"), os.path.join(folder, "undrawn.json")
        for path, text in (broken, "no record\n"), (undrawn, '{"kind": "model_memory"}\n'):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        result, target = report(folder, broken, good, undrawn, bad)
        page = read(target, "index.html")
        for path in broken, undrawn:
            expect(path in result.err and path in page and "the file is left out" in page, f"no note on {path}\n{result}")
        equal(re.findall(r"<h2>all_reduce[^<]*run (\d)", page), ["2", "1"], "order of the runs")
        expect("run 2: wrong data. Wrong data in 2 of 2 results, with --fault corrupt:1." in read(target, "summary.md"), "why it failed")
        report(folder, broken, undrawn, status=7)


@test
def the_map_of_nodes_shows_a_lost_rail():
    """Whichever record of a pair comes last, the slowest rail is drawn."""
    with tempfile.TemporaryDirectory() as folder:
        _, records = records_of(folder, "head", "all_reduce_perf", "-g", "2", "-b", "1K", "-e", "1K", "-n", "2")
        head = dict(records[0], program="diagnose")
        meeting = lambda a, b, rail, speed: {"schema": 1, "kind": "pair_round", "run_id": head["run_id"], "stage": "survey",
                                             "round": 0, "from": a, "to": b, "rail": rail, "GBps": speed}  # fmt: skip
        for lost in range(3):
            pairs = [meeting(a, b, rail, 12.25 if (a, rail) == (1, lost) else 36.5) for a in range(3) for b in range(3)
                     for rail in range(3) if a != b]  # fmt: skip
            _, target = report(folder, write_records(os.path.join(folder, f"{lost}.jsonl"), [head, *pairs]))
            page = read(target, "index.html")
            expect(page.count("12.2") >= 2 and "The slowest rail of each pair" in page, f"rail {lost} of node 1 does not show")

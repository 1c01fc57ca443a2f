"""scripts/report.py: pictures of healthy and faulty machines and of records, and refusals of other files."""

import json
import os
import re
import sys
import tempfile
import xml.etree.ElementTree

import kit
from kit import Skipped, add, built, equal, execute, expect, test

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

sys.path.insert(0, os.path.join(kit.ROOT, "scripts"))

from report.records import renamed
from samples import REPORT, records_of, run_report, write_records

OVERLAPS = os.path.join(kit.ROOT, "tests", "report", "overlaps.py")
SEEDS = os.path.join(kit.ROOT, "tests", "fuzz", "seeds", "topology")
SVG = "{http://www.w3.org/2000/svg}"


def topology(*words):
    return execute([built("topology"), *words]).exits(0)


def systems():
    return [line.split()[0] for line in topology("--list-systems").out.splitlines()]


def python(script, *words):
    """Runs a script of the reports. Skips the test if no Python here has matplotlib."""
    result = run_report(*words) if script == REPORT else execute([sys.executable, "-B", script, *words])
    if "has no matplotlib" in result.err:
        raise Skipped(result.err.strip())
    return result


def draw(source, target):
    result = python(REPORT, source, "-o", target).exits(0)
    equal(result.out + result.err, "", f"said while drawing {source}")
    with open(target, "rb") as file:
        return file.read()


def texts(svg):
    return {" ".join(e.itertext()): e for e in xml.etree.ElementTree.fromstring(svg).iter(SVG + "text")}


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- what is drawn --------------------------------------------------------------------------------


def has_all(words, path):
    """The SVG is well-formed and has each device and each bound."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "node.json")
        topology(*words, "--json", source)
        found = texts(draw(source, os.path.join(folder, "node.svg")))
        machine = read_json(source)
        wanted = [device["name"] for device in machine["devices"]] + [machine["name"]]
        wanted += [f"NUMA node {n['number']}" for n in machine["numa_nodes"]]
        wanted += [name for name in machine["bounds"] if name != "ranks"]
        equal([name for name in wanted if name not in found], [], f"not in the picture of {path}")


for name in ("dgx-1v", "dgx-2", "hgx-h100", "gb200-nvl72"):
    add(f"has all of {name}", has_all, ["--system", name], name)
for name in sorted(os.listdir(SEEDS)):
    add(f"has all of {name}", has_all, ["--topology", os.path.join(SEEDS, name)], name)
add("has all of this machine", has_all, [], "this machine")


def crowded(machine):
    """The machine with more disks and NICs than fit side by side, and long names."""
    for i in range(40):
        machine["pci"].append(dict(machine["pci"][-1], id=f"0001:{i:02x}:00.0"))
        machine["devices"].append(
            {"kind": "nvme", "name": f"nvme{i}n1_" + "x" * i, "model": "W" * 60, "pci": len(machine["pci"]) - 1,
             "numa_node": 0}
        )
    machine["name"] = "n" * 400
    machine["findings"] = ["word " * 500] * 50
    return machine


@test
def no_text_overlaps():
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name in systems():
            files.append(os.path.join(folder, name + ".json"))
            topology("--system", name, "--json", files[-1])
        for name in os.listdir(SEEDS):
            files.append(os.path.join(folder, name + ".json"))
            topology("--topology", os.path.join(SEEDS, name), "--json", files[-1])
        dense = read_json(os.path.join(folder, "dgx-2.json"))
        files.append(write(os.path.join(folder, "crowded.json"), json.dumps(crowded(dense))))
        for name, picture in json.loads(python(OVERLAPS, *files).exits(0).out).items():
            expect(len(picture["texts"]) > 5, f"{name}: {picture['texts']}")
            equal((picture["overlaps"], picture["outside"]), ([], []), f"texts of {name} that overlap, are outside")
            expect(picture["width"] <= 1200 or name == "crowded.json", f"{name} is {picture['width']} wide")


@test
def findings_stand_out():
    """Lanes at x8, links that are down and a port that is down have the colour of findings."""
    cases = [
        ("pcie-4090", "GPU0: runs at PCIe x8; the card supports x16", lambda j: j["pci"][at(j, "GPU0")]["now"].update(width=8),
         "Gen4 x8 of x16"),
        ("hgx-h100", "GPU0: 6 of 18 NVLinks are down", lambda j: j["links"][0].update(count=12, down=6), "×12 of 18"),
        ("dgx-1v", "GPU0: 1 of 1 NVLinks is down", lambda j: j["links"][0].update(count=0, down=1), "×0 of 1"),
        ("hgx-h100", "mlx5_0: its port is down", lambda j: j["devices"][8].update(state="down"), "down"),
    ]  # fmt: skip
    at = lambda j, name: next(d["pci"] for d in j["devices"] if d["name"] == name)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda ending: os.path.join(folder, "node." + ending)
        for name, finding, fault, text in cases:
            topology("--system", name, "--json", path("json"))
            machine = read_json(path("json"))
            fault(machine)
            machine["findings"] = [finding]
            write(path("json"), json.dumps(machine))
            found = texts(draw(path("json"), path("svg")))
            expect(finding in found, f"{finding!r} is not in the picture")
            expect(text in found, f"{text!r} is not in the picture of {name}")
            color = re.search(r"fill: (#\w+)", found[text].get("style", ""))
            equal(color and color[1], "#c24400", f"colour of {text!r}")


@test
def formats():
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "node.json")
        topology("--system", "pcie-h100", "--json", source)
        for suffix, begins in ((".svg", b"<?xml"), (".png", b"\x89PNG\r\n"), (".pdf", b"%PDF-"), (".PNG", b"\x89PNG")):
            first, second = [draw(source, os.path.join(folder, f"{i}{suffix}")) for i in range(2)]
            expect(first.startswith(begins), f"{suffix} begins with {first[:8]}")
            expect(first == second, f"{suffix}: two pictures of one machine differ")


# ---- what is no topology ----------------------------------------------------------------------------


def without(machine, *keys):
    inner = machine
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return machine


def with_value(machine, value, *keys):
    inner = machine
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return machine


def refused(path, target, words, status=7, options=()):
    result = python(REPORT, path, "-o", target, *options).exits(status).says(os.path.basename(path), words)
    equal((result.out, len(result.err.splitlines())), ("", 1), "on stdout, lines on stderr")
    expect(not os.path.exists(target), "a picture was written")


@test
def bad_files():
    good = topology("--system", "v100-x4", "--json", "-").out
    new = lambda: json.loads(good)
    cases = [
        ("", "the file is empty"),
        ("<xml/>", "not JSON"),
        ("[" * 100000, "not JSON"),
        (good[: len(good) // 2], "not JSON"),
        ('{"kind": "topology", "schema": NaN}', "NaN"),
        (good + good, "more follows"),
        ("[]", 'no "kind"'),
        ('{"kind": {}}', 'no "kind"'),
        ('{"kind": "record"}\n{"kind": "run"}\n', "'record' cannot be drawn"),
        (json.dumps(with_value(new(), 2, "schema")), "schema 2"),
        (json.dumps(without(new(), "links")), "no 'links'"),
        (json.dumps(without(new(), "devices", 0, "memory_bytes")), "devices[0]"),
        (json.dumps(with_value(new(), 3, "pci", 3, "parent")), "pci[3].parent"),
        (json.dumps(with_value(new(), -1, "devices", 0, "pci")), "devices[0].pci"),
        (json.dumps(with_value(new(), 99, "devices", 0, "pci")), "devices[0].pci"),
        (json.dumps(with_value(new(), "GPU9", "links", 0, "to")), "links[0]"),
        (json.dumps(with_value(new(), 10**30, "links", 0, "count")), "links[0].count"),
        (json.dumps(with_value(new(), True, "nodes")), "it.nodes"),
        (json.dumps(with_value(new(), [new()["packages"][0]] * 1000, "packages")), "more than"),
        (json.dumps(with_value(new(), 7, "numa_nodes", 0, "package")), "numa_nodes[0].package"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "node.json"), os.path.join(folder, "node.svg")
        for text, words in cases:
            refused(write(source, text), target, words)
        with open(source, "wb") as file:
            file.write(b"\xff\xfe\0")
        refused(source, target, "not JSON")


@test
def odd_words_are_drawn():
    """Texts that are formulas, mark-up or invalid characters elsewhere are drawn as they are."""
    machine = json.loads(topology("--system", "v100-x4", "--json", "-").out)
    machine["name"], machine["findings"] = "$\\frac{$ <b>&amp; \ud800\0", ["GPU0: \x1b[31m$x$"]
    machine["devices"][0]["model"] = "$_$"
    with tempfile.TemporaryDirectory() as folder:
        source = write(os.path.join(folder, "node.json"), json.dumps(machine))
        found = texts(draw(source, os.path.join(folder, "node.svg")))
        for text in ("$\\frac{$ <b>&amp; \ufffd\ufffd", "GPU0: \ufffd[31m$x$", "$_$ 16 GiB"):
            expect(text in found, f"{text!r} is not in the picture: {list(found)}")


@test
def usage():
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "node.json")
        topology("--system", "v100-x4", "--json", source)
        run = lambda *words: python(REPORT, *words).exits(2)
        run().says("usage")
        run(source, "-o", "node.gif").says("node.gif", ".svg")
        run(os.path.join(folder, "none.json"), "-o", os.path.join(folder, "a.svg")).says("none.json: cannot be read")
        empty = os.path.join(folder, "empty")
        os.mkdir(empty)
        run(empty, "-o", os.path.join(folder, "a.svg")).says("has no records (*.jsonl)")
        run(source, "--picture", "machine").says("need a single picture")
        run(source, "--format", "cake").says("invalid choice")
        run(source, "--format", "github", "--run", "1").says("--format has all")
        run(source, "-o", os.path.join(folder, "none", "a.svg")).says("a.svg: cannot be written")


# ---- records ------------------------------------------------------------------------------------------


def pipeline(folder, *words):
    return records_of(folder, "records", "pipeline_perf", "--gantt", "--stages", "3", "--microbatches", "4", *words)


def fills(svg):
    """Number of rectangles of each colour."""
    found = {}
    for path in xml.etree.ElementTree.fromstring(svg).iter(SVG + "path"):
        color = re.search(r"fill: (#\w+)", path.get("style", ""))
        if color:
            found[color[1]] = found.get(color[1], 0) + path.get("d").count("M ")
    return found


@test
def gantt_has_all_passes():
    """A rectangle of the right colour per pass, bubbles per schedule, a number per stage."""
    blue, orange, green = "#56b4e9", "#e69f00", "#12a57a"
    with tempfile.TemporaryDirectory() as folder:
        times = ["--tf", "1ms", "--tb", "1ms", "--tw", "1ms", "--schedule", "1f1b,zb-h1", "-n", "1"]
        path, records = pipeline(folder, *times)
        svg = draw(path, os.path.join(folder, "a.svg"))
        passes = [r["pass"] for r in records if r["kind"] == "pass"]
        equal(len(passes), 2 * 3 * 4 * (2 + 3), "passes")
        halves = {half: sum(half in one for one in passes) for half in "FBW"}
        wanted = {blue: halves["F"] + 1, orange: halves["B"] + 2, green: halves["W"] + 2}  # and the key
        equal({color: fills(svg)[color] for color in wanted}, wanted, "rectangles by colour")
        found = texts(svg)
        for r in records:
            if r["kind"] == "pipeline":
                known = [f"{100 * r[key]:.1f}%" for key in ("predicted_bubble_over_total", "bubble_over_total")]
                bubble = f"bubble: {known[0]} predicted, {known[1]} measured"
                expect(r["schedule"] in found and bubble in found, f"{r['schedule']}, {bubble!r}: {list(found)}")
        expect(any(text.startswith("measured: a step takes") for text in found), "no measured lanes")


@test
def narrow_passes_keep_their_colour():
    """Their white edges would cover them."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = pipeline(folder, "--predict", "--microbatches", "40", "--schedule", "zb-h1", "--tw", "100ms")
        edged = [e.get("d") for e in xml.etree.ElementTree.fromstring(draw(path, os.path.join(folder, "a.svg"))).iter(
            SVG + "path") if "stroke: #ffffff" in e.get("style", "")]
        lines = [line for d in edged for line in re.findall(r"M ([\d.]+) [\d.]+\s+L ([\d.]+)", d)]
        equal(len(lines), 3 * 40, "passes with an edge: each W, which is ten times as wide as others")
        equal([line for line in lines if float(line[1]) - float(line[0]) < 2.8], [], "narrow passes with an edge, pt")


@test
def gantt_of_a_prediction():
    """Without a measurement, one half of the picture, and no measured bubble."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = pipeline(folder, "--predict", "--schedule", "zb-v")
        found = " ".join(texts(draw(path, os.path.join(folder, "a.svg"))))
        expect("predicted: a step takes" in found and "measured" not in found, found)
        expect("chunks of a stage" in found, found)


@test
def gantt_of_chosen_schedules():
    with tempfile.TemporaryDirectory() as folder:
        path, _ = pipeline(folder, "--predict")
        target = os.path.join(folder, "a.svg")
        python(REPORT, path, "-o", target, "--schedule", "zb-h1,gpipe").exits(0)
        with open(target, encoding="utf-8") as file:
            order = [text for text in texts(file.read()) if text in ("naive", "gpipe", "1f1b", "zb-h1")]
        equal(order, ["zb-h1", "gpipe"], "schedules from top to bottom")
        os.remove(target)
        refused(path, target, "no 'zb'", 2, ["--schedule", "zb"])
        refused(path, target, "no ''", 2, ["--schedule", ""])
        refused(path, target, "--run 2", 2, ["--run", "2"])


@test
def no_text_of_records_overlaps():
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for i, words in enumerate((["--predict"], ["--predict", "--stages", "200", "--schedule", "1f1b"],
                                   ["--predict", "--stages", "20", "--microbatches", "120", "--schedule", "zb-h1"])):
            path, records = pipeline(folder, *words)
            sources.append(write_records(os.path.join(folder, f"{i}.jsonl"), records))
        records[0]["cpu"] = "W" * 500
        records[1]["schedule"] = "n" * 300
        sources.append(write_records(os.path.join(folder, "long.jsonl"),
                                     [dict(r, schedule="n" * 300) if r["kind"] == "pass" else r for r in records]))
        for name, picture in json.loads(python(OVERLAPS, *sources).exits(0).out).items():
            equal((picture["overlaps"], picture["outside"]), ([], []), f"texts of {name} that overlap, are outside")
            equal(picture["width"], 800, f"width of {name}")


@test
def one_of_several_runs():
    """The last run that can be drawn, with a note; --run selects another."""
    with tempfile.TemporaryDirectory() as folder:
        both = []
        for schedule in ("gpipe", "1f1b"):
            both += pipeline(folder, "--predict", "--schedule", schedule)[1]
        head = dict(both[0], run_id="other", program="all_reduce_perf")
        source = write_records(os.path.join(folder, "both.jsonl"), both + [head])
        target = os.path.join(folder, "a.svg")
        for options, drawn, said in (([], "1f1b", "--run 2"), (["--run", "1"], "gpipe", None)):
            result = python(REPORT, source, "-o", target, *options).exits(0)
            expect(said in result.err if said else not result.err, f"{options}: {result.err!r}")
            with open(target, encoding="utf-8") as file:
                equal({"gpipe", "1f1b"} & set(texts(file.read())), {drawn}, f"drawn with {options}")
        os.remove(target)
        refused(source, target, "these can: 1, 2", 2, ["--run", "3"])
        refused(source, target, "has 3 runs", 2, ["--run", "4"])


@test
def records_of_older_schemas():
    """The names before schema 3 give the same picture."""
    with tempfile.TemporaryDirectory() as folder:
        shapes = (("step.jsonl", ["pipeline", "-g", "2", "--backend", "sim", "--link", "1GB/s,1us", "--gantt", "--schedule", "1f1b"]),
                  ("moe.jsonl", ["moe_alltoall", "-g", "4", "--backend", "sim", "--link", "1GB/s,1us"]))
        for name, (program, *words) in shapes:
            new = [json.loads(line) for line in execute([built(program + "_perf"), *words, "--json", "-"]).exits(0).out.splitlines()
                   if line.startswith("{")]
            old = [dict(r, schema=2) for r in new]
            for r in old:
                r["kind"] = "experts" if r["kind"] == "moe" else r["kind"]
                r.update({key: "played" for key in ("source", "hop_source") if r.get(key) == "simulated"})
            expect(any(r != dict(n, schema=2) for r, n in zip(old, new)), f"nothing of {name} had another name")
            pictures = []
            for records in (new, old):
                draw(write_records(os.path.join(folder, name), records), os.path.join(folder, "a.svg"))
                with open(os.path.join(folder, "a.svg"), encoding="utf-8") as file:
                    pictures.append(sorted(texts(file.read())))
            equal(pictures[1], pictures[0], f"texts of {name}")
    for kind, old, today, new in (("way", "way", "strategy", "strategy"), ("tensor_parallel", "way", "tensor_parallel", "scheme"),
                                  ("tensor_equality", "way", "tensor_equality", "scheme"), ("end", "played_by", "end", "evaluated_by"),
                                  ("meeting", "from", "pair_round", "from"), ("pass", "way", "pass", "way")):
        equal(renamed({"kind": kind, old: "x", "n": 1}), {"kind": today, new: "x", "n": 1}, kind)


@test
def bad_records():
    """Incomplete or other records give a sentence, and no picture."""
    with tempfile.TemporaryDirectory() as folder:
        _, good = pipeline(folder, "--predict", "--schedule", "1f1b")
        first = next(i for i, r in enumerate(good) if r["kind"] == "pass")
        plan = next(i for i, r in enumerate(good) if r["kind"] == "pipeline")
        put = lambda i, **fields: good[:i] + [dict(good[i], **fields)] + good[i + 1 :]
        cases = [
            (good[:1], "no record can be drawn"),
            ([r for r in good if r["kind"] != "pipeline"], "no record can be drawn; the file has end, pass"),
            (put(0, schema=4), "schema 4"),
            (put(first, run_id="x"), "of a run that has no record"),
            (put(first, schedule="x"), "'x', which has no record"),
            (put(first, source="guessed"), "none of predicted, measured"),
            (put(first, stage=3), "stage 3"),
            (put(first, chunk=1), "chunk 1"),
            (put(first, from_us="0"), "from_us is not a number"),
            (put(first, from_us=1e9), "ends before it begins"),
            (put(first, to_us=1e300), "to_us is out of range"),
            (put(plan, stages=257), "257 stages, more than"),
            (put(plan, p50_us=[]), "p50_us is not a number"),
            ([good[0], 7], "record 2 is not an object"),
        ]
        source, target = os.path.join(folder, "bad.jsonl"), os.path.join(folder, "a.svg")
        for records, words in cases:
            refused(write_records(source, records), target, words)
        refused(write(source, json.dumps(good[0]) + "\n" + json.dumps(good[1])[:50]), target, "not JSON")
        source = os.path.join(folder, "node.json")
        topology("--system", "v100-x4", "--json", source)
        refused(source, target, "--schedule is about pipelines", 2, ["--schedule", "1f1b"])
        refused(source, target, "--run is about records", 2, ["--run", "1"])


@test
def unknown_times_are_left_out():
    with tempfile.TemporaryDirectory() as folder:
        path, records = pipeline(folder, "--predict", "--schedule", "1f1b")
        for r in records:
            if r["kind"] == "pipeline":
                r.update(predicted_us=None, predicted_bubble_over_total=None, compute=None)
            elif r["kind"] == "pass" and r["microbatch"] == 3:
                r.update(from_us=None, to_us=None)
        found = texts(draw(write_records(path, records), os.path.join(folder, "a.svg")))
        for text in ("bubble: unknown", "predicted", "6 passes without times are not drawn"):
            expect(text in found, f"{text!r} is not in the picture: {list(found)}")


@test
def pictures_of_a_report():
    """Any picture of a report alone, with its title, by the beginning of its name; the first without a name."""
    with tempfile.TemporaryDirectory() as folder:
        words = "-g", "3", "-b", "1K", "-e", "64K", "-f", "8", "--algo", "ring,tree", "--backend", "sim", "--link", "9GB/s,5us"
        path, records = records_of(folder, "records", "all_reduce_perf", *words)
        drawn = {}
        for kind in ("", "bus-bandwidth", "bus-bandwidth-log", "winn"):
            target = os.path.join(folder, "a.svg")
            python(REPORT, path, "-o", target, *(["--picture", kind] if kind else [])).exits(0)
            with open(target, encoding="utf-8") as file:
                drawn[kind] = file.read()
            found = texts(drawn[kind])
            wanted = {"Winners"} if kind == "winn" else {"Bus bandwidth", "bus bandwidth, GB/s", "64K"}
            wanted |= {"ring", "tree"}
            equal(sorted(wanted - set(found)), [], f"not in the picture of {kind!r}")
            expect(any("simulated with --link 9GB/s,5us" in one for one in found), list(found))
        equal(drawn[""] == drawn["bus-bandwidth"] != drawn["bus-bandwidth-log"], True, "the first is linear")
        os.remove(target)
        refused(path, target, "there are bus-bandwidth, bus-bandwidth-logarithmic, time, winners", 2, ["--picture", "cake"])
        refused(path, target, "there is 1 run", 2, ["--picture", "time", "--run", "2"])
        python(REPORT, path, "-o", folder + "/", "--picture", "time").exits(2).says("need a single picture")
        path, _ = pipeline_without_passes(folder)
        found = texts(draw(path, os.path.join(folder, "b.svg")))
        equal({"Steps of the schedules", "1f1b", "computing", "bubble"} - set(found), set(), "a pipeline without passes")


def pipeline_without_passes(folder):
    return records_of(folder, "pipeline", "pipeline_perf", "--predict", "--stages", "3", "--schedule", "gpipe,1f1b")


def buckets(folder, *words):
    """On simulated links, so always the same."""
    return records_of(folder, "records", "ddp_bucket_perf", "--buckets", "1M,25M", "--backend", "sim", "-g", "4", "-n", "6",
                      "--link", "10GB/s,5us", "--noise", "5%", "--flops", "10T", *words)


@test
def sweep_has_all_series():
    """A line and bars per algorithm and overlap, each size twice, and the marked steps."""
    with tempfile.TemporaryDirectory() as folder:
        path, records = buckets(folder, "--algo", "ring,tree")
        rows = [r for r in records if r["kind"] == "data_parallel"]
        equal(len(rows), 2 * 2 * 4, "rows")
        svg = draw(path, os.path.join(folder, "a.svg"))
        words = [" ".join(e.itertext()) for e in xml.etree.ElementTree.fromstring(svg).iter(SVG + "text")]
        for size in ("tensor", "1M", "25M", "one"):
            equal(words.count(size), 2, f"labels {size}")
        wanted = [f"{a}, overlap {o}" for a in ("ring", "tree") for o in ("on", "off")]
        wanted += ["resnet50, float, 4 ranks", "predicted by the model", "95% confidence interval", "computations alone"]
        equal([text for text in wanted if text not in words], [], "not in the picture")
        for answer in records[-1]["answers"]:
            expect(answer in " ".join(words), f"the picture does not say {answer!r}")
        bars = fills(svg)
        for color, algorithm in (("#0072b2", "ring"), ("#d55e00", "tree")):
            exposed = sum(r["algorithm"] == algorithm and r["exposed_us"] > 0 for r in rows)
            expect(bars[color] >= exposed > 0, f"{bars[color]} shapes in the colour of {algorithm}, {exposed} bars")


@test
def sweep_has_places_of_the_optimizer():
    """Rows that differ in bucket view or optimizer are series of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = buckets(folder, "--optimizer", "after,own-queue", "--bucket-view", "all", "--memory-rate", "1TB/s", "--overlap", "on")
        found = texts(draw(path, os.path.join(folder, "a.svg")))
        wanted = {f"auto, view {view}, {place}, overlap on" for view in ("on", "off") for place in ("after", "own-queue")}
        equal(wanted - set(found), set(), "not in the picture")


@test
def sweep_of_a_prediction():
    with tempfile.TemporaryDirectory() as folder:
        words = ["--predict", "-g", "8", "--link", "50GB/s,5us", "--flops", "400T"]
        path, _ = records_of(folder, "records", "ddp_bucket_perf", *words)
        found = texts(draw(path, os.path.join(folder, "a.svg")))
        expect("Time of a step, ms: median" in found, list(found))
        refused(path, os.path.join(folder, "b.svg"), "--schedule is about pipelines", 2, ["--schedule", "1f1b"])
        path, _ = records_of(folder, "records", "ddp_bucket_perf", "--predict")
        refused(path, os.path.join(folder, "b.svg"), "--link")


@test
def odd_sweeps():
    """Unknown values leave a gap; noise stays on the paper; other records are refused."""
    with tempfile.TemporaryDirectory() as folder:
        path, good = buckets(folder, "--algo", "ring")
        plain = [r for r in good if r["kind"] != "data_parallel"]
        rows = [r for r in good if r["kind"] == "data_parallel"]
        change = lambda **fields: plain + [dict(rows[0], **fields)] + rows[1:]
        null = ("low_us", "high_us", "compute_us", "exposed_us", "reduce_us", "predicted_step_us", "best", "algorithm")
        drawable = {
            "gap": change(step_us=None, exposed_us=None),
            "nulls": plain + [dict(r, **{key: None for key in null}) for r in rows],
            "negative": change(exposed_us=-1e4),
            "outlier": change(high_us=1e9),
            "one": plain + rows[:1],
            "zero": plain + [dict(rows[0], step_us=0, predicted_step_us=0, compute_us=0, low_us=0, high_us=0)],
            "long": change(algorithm="W" * 300, model="W" * 300),
            "many": plain + [dict(r, algorithm=f"algorithm {i}") for i in range(10) for r in rows],
        }
        sources = [write_records(os.path.join(folder, name), records) for name, records in drawable.items()]
        pictures = json.loads(python(OVERLAPS, *sources).exits(0).out)
        for name, picture in pictures.items():
            equal((picture["overlaps"], picture["outside"]), ([], []), f"texts of {name} that overlap, are outside")
        expect("continues outside" in pictures["outlier"]["texts"], "the interval is drawn as if it were all there")
        for fields, words in ((rows[1], "twice"), ({"cap_bytes": 0}, "not a size"), ({"overlap": "so"}, "on, off"),
                              ({"step_us": -1}, "step_us is out of range"), ({"nranks": None}, "nranks is not an integer")):
            source = write_records(os.path.join(folder, "bad.jsonl"), change(**fields))
            refused(source, os.path.join(folder, "a.svg"), words)

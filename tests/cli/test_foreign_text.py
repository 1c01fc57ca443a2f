"""Text of files and peers on a terminal: whatever a string field holds, it begins no line and controls nothing."""

import copy
import json
import os
import re
import tempfile
import unicodedata

from accept import Folder, acceptance
from kit import ROOT, add, built, execute, expect, run, test

FORGED = "Verdict: forged"
# Ends of lines, colours, direction of text, no width; of both ranges of control characters.
HOSTILE = f"x\n{FORGED}\r{FORGED}\x1b[31m\x85\u2028{FORGED}\u202e\u2066\u200f\u061c\u200b\ufeff\U000e0041\n  {FORGED}\n"
INSTEAD = "".join(c for c in HOSTILE if c >= " ")  # for files whose syntax has no escapes


def safe(result, before=r"[\s#]*"):
    """Nothing was obeyed: no unprintable character, and no line that a value began, BEFORE it at most blanks."""
    text = result.out + result.err
    found = {f"U+{ord(c):04X}" for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
    result.require(not found, f"{found} of a file")
    result.require(not re.search(rf"^{before}{FORGED}", text, re.M), "a value begins a line")
    return result.require(result.code >= 0, "ended by a signal")


def places(value, path=()):
    """Paths of all strings in a JSON value."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def changed(value, path, text):
    """A copy of VALUE in which the string at PATH is followed by TEXT."""
    new = copy.deepcopy(value)
    at = new
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] += text
    return new


def sample(f, name, line):
    """The records of a run, in a file and as values."""
    path = os.path.join(f.name, name)
    run(f"{line} --json {path}").exits(0)
    with open(path, encoding="utf-8") as file:
        return path, [json.loads(text) for text in file]


def written(f, records, ascii_only):
    """Two spellings: as escapes, and as the characters themselves where JSON allows that."""
    return f.write("hostile.jsonl", "".join(json.dumps(r, ensure_ascii=ascii_only) + "\n" for r in records))


def each_string_of_records(line):
    """Every string of a record, one after the other, in check, compare and the report."""
    with Folder() as f:
        path, records = sample(f, "a.jsonl", line)
        kinds = {r["kind"]: i for i, r in enumerate(records)}  # one of each
        fields = [(i, *at) for i in kinds.values() for at in places(records[i])]
        expect(len(fields) > 20, f"{len(fields)} strings in records")
        for n, at in enumerate(fields):
            hostile = written(f, changed(records, at, HOSTILE), n % 2 == 0)
            safe(acceptance("check", hostile))
            safe(acceptance("compare", path, hostile, "--all"))
        everywhere = records
        for at in fields:
            if at[1] not in ("kind", "run_id", "collective", "algorithm_asked"):
                everywhere = changed(everywhere, at, HOSTILE)
        hostile = written(f, everywhere, False)
        safe(acceptance("check", hostile, "--gpu", "H100"))
        safe(acceptance("compare", hostile, path, "--all"))
        report(f, hostile)


def report(f, path):
    page = os.path.join(f.name, "report")
    safe(execute(["python3", "-B", os.path.join(ROOT, "scripts", "report.py"), path, "-o", page + "/"]))
    for folder, _, names in os.walk(page):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            found = {f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
            expect(not found, f"{name}: {found}")
            expect(name.endswith(".csv") or not re.search(rf"^[\s#]*{FORGED}", text, re.M), f"{name}: a value begins a line")


add("strings of pairs", each_string_of_records, "p2p_bandwidth -g 2 -b 8 -e 8 -n 1 --backend sim --link 1GB/s")
add("strings of records", each_string_of_records, "all_reduce -g 2 -b 8 -e 1K -n 1 --algo ring,tree --backend sim --cluster hgx-h100")


@test
def logs():
    """Every line of a log of nccl-tests."""
    with open(os.path.join(ROOT, "tests", "logs", "h100.txt"), encoding="utf-8") as file:
        log = file.read().splitlines()
    with Folder() as f:
        for text in (INSTEAD, "\x1b[2J\v\f\x85\u202e"):
            path = f.write("log.txt", "".join(line + text + "\n" if n % 3 else text + line + "\n" for n, line in enumerate(log)))
            safe(acceptance("check", path))
            safe(acceptance("check", path, "--gpu", "H100"))
            safe(acceptance("check", path, "--records"))
            for n, line in enumerate(log[:40]):
                safe(acceptance("check", f.write("log.txt", "\n".join([*log[:n], line + text, *log[n + 1:]]))))


PROFILE = {
    "name": "p", "about": "of tests", "system": "hgx-h100", "launcher": "local", "ranks": "8", "nodes": "1", "repeats": "1",
    "time_limit": "100s", "takes": "1s",
    "steps": [{"name": "a", "run": "all_reduce_perf --backend sim --cluster hgx-h100 -g {per_node} -b 1K -e 64K", "takes": "1s",
               "gates": [{"metric": "busbw", "down": "5%", "warn": "3%", "from": {"cluster": "hgx-h100"},
                          "where": {"collective": "all_reduce", "algorithm": "auto", "dtype": "float", "op": "sum", "ranks": "8",
                                    "size": "1K", "placement": "out-of-place"}},
                         {"shape": "no-dip", "down": "50%", "from": {"rule": "a page says so"}}]}],
}  # fmt: skip


@test
def profiles():
    """Every string of a profile, in what is refused, shown and run."""
    with Folder() as f:
        acceptance("run", f.profile(json.dumps(PROFILE)), "--dry-run").exits(0)
        for at in places(PROFILE):
            path = f.profile(json.dumps(changed(PROFILE, at, HOSTILE)))
            if safe(acceptance("run", path, "--dry-run")).code == 0:
                safe(f.run(path, out=f"out{len(os.listdir(f.name))}"))
        for name in ("this-machine.yaml",):
            with open(os.path.join(ROOT, "ci", "profiles", name), encoding="utf-8") as file:
                lines = file.read().splitlines()
            for n, line in enumerate(lines):
                key, colon, value = line.partition(": ")
                if not colon or value[:1] in "{[>|&" or line.strip().startswith("#"):
                    continue
                other = [*lines[:n], f"{key}: {json.dumps(value + HOSTILE)}", *lines[n + 1 :]]
                safe(acceptance("run", f.profile("\n".join(other)), "--dry-run"))


@test
def topologies():
    """Every attribute of XML of each kind, and lines of nvidia-smi."""
    entity = "".join(f"&#{ord(c)};" for c in HOSTILE if c in "\n\r" or c > "~")
    seeds = os.path.join(ROOT, "tests", "fuzz", "seeds", "topology")
    with Folder() as f:
        for name in sorted(os.listdir(seeds)):
            with open(os.path.join(seeds, name), encoding="utf-8") as file:
                xml = file.read()
            if not name.endswith(".xml"):
                lines = xml.splitlines()
                for n, line in enumerate(lines):
                    for other in (line + INSTEAD, INSTEAD + line):
                        path = f.write("t.txt", "\n".join([*lines[:n], other, *lines[n + 1 :]]))
                        safe(execute([built("topology"), "--topology", path]))
                continue
            values = [m.end() - 1 for m in re.finditer(r'\b[\w:]+="[^"]*"', xml)]
            expect(len(values) > 10, f"{name}: {len(values)} attributes")
            for at in values[:: max(1, len(values) // 60)]:
                path = f.write("t.xml", f"{xml[:at]}{entity}{FORGED}{xml[at:]}")
                safe(execute([built("topology"), "--topology", path]))
            every = re.sub(r'(\b(?:name|value|model|modelname|arch|vendor|dev|gdr|Name|source|driver)="[^"]*)"',
                           rf'\1{entity}{FORGED}"', xml)  # fmt: skip
            path = f.write("t.xml", every)
            safe(execute([built("topology"), "--topology", path]))
            safe(execute([built("topology"), "--diff", path, "hgx-h100"]))


@test
def clusters():
    """Every value of a cluster's file, and a calibration's and a matrix's lines."""
    with open(os.path.join(ROOT, "reports", "reference", "clusters", "alps.txt"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    line = "all_reduce --backend sim --cluster {} -b 8 -e 8"
    with Folder() as f:
        for n, text in enumerate(lines):
            for other in (text + INSTEAD, INSTEAD + text):
                safe(run(line.format(f.write("c.txt", "\n".join([*lines[:n], other, *lines[n + 1 :]])))))
        safe(run(f"all_reduce --backend sim --calibrate {f.write('k.txt', INSTEAD)} -g 2 -b 8 -e 8"))
        safe(run(f"alltoallv -g 2 --matrix {f.write('m.txt', INSTEAD)}"))
        path, records = sample(f, "k.jsonl", "all_reduce -g 2 -b 8 -e 1K -n 1 --backend null -c 0")
        for at in [(i, *at) for i in (0, 1) for at in places(records[i])]:
            hostile = written(f, changed(records, at, HOSTILE), False)
            safe(run(f"all_reduce --backend sim --calibrate {hostile} -g 2 -b 8 -e 8"))


def each_string_of(seed, words):
    """Every string and key of a JSON configuration."""
    with open(os.path.join(ROOT, "tests", "fuzz", "seeds", seed), encoding="utf-8") as file:
        config = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        others = [changed(config, at, HOSTILE) for at in places(config)]
        others += [{**config, key: HOSTILE} for key in config] + [{**config, HOSTILE: 1}]
        for other in others:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(other, file)
            safe(execute([built("model_memory"), *[word.format(path) for word in words]]))


for seed in ("model/bert.json", "model/mixtral.json"):
    add(f"strings of {seed}", each_string_of, seed, ["train", "--model", "{}"])
add("strings of ds_config", each_string_of, "ds_config/zero3.json", ["train", "--model", "gpt2", "--ds-config", "{}"])


@test
def words_of_the_command_line():
    """They may hold a line break before two blanks, as a sentence of busbench may."""
    for word in ("--fault", "--algo", "--cluster", "--json", "--csv", "--topology", "-o", "-d"):
        safe(execute([built("all_reduce_perf"), "--backend", "sim", "-b", "8", "-e", "8", word, HOSTILE + "/" + HOSTILE]), "")
    safe(execute([built("topology"), "--system", HOSTILE]), "")
    safe(execute([built("acceptance"), "check", HOSTILE]), "")

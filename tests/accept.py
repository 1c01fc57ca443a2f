"""The binary acceptance, and folders for what it reads and writes."""

import json
import os
import tempfile
import xml.etree.ElementTree as xml

from kit import Settings, Skipped, built, equal, execute


def acceptance(*words, variant="", **options):
    # It is left out where libyaml is missing.
    if not os.path.exists(os.path.join(Settings.build, variant, "acceptance")):
        raise Skipped("acceptance was not built: no libyaml")
    return execute([built("acceptance", variant), *words], **options)


def step(run, gates="", name="a", more=""):
    """A step of a profile as YAML."""
    return f"  - name: {name}\n    run: {run}\n{more}" + (f"    gates:\n{gates}" if gates else "")


def profile(*steps, more=""):
    return f"name: p\n{more}steps:\n" + "".join(steps)


class Folder(tempfile.TemporaryDirectory):
    """A folder for profiles and what their runs write."""

    def __enter__(self):
        super().__enter__()
        return self

    def profile(self, text, name="p.yaml"):
        return self.write(name, text)

    def write(self, name, text):
        path = os.path.join(self.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run(self, profile, *words, out="out", **options):
        return acceptance("run", profile, "--quiet", "--no-report", "-o", os.path.join(self.name, out), *words, **options)

    def verdict(self, out="out"):
        with open(os.path.join(self.name, out, "verdict.json"), encoding="utf-8") as file:
            return json.load(file)

    def junit(self, out="out"):
        return xml.parse(os.path.join(self.name, out, "junit.xml")).getroot()


def count_launched(hosts, launcher, words, more=""):
    """Runs the steps of a profile under LAUNCHER on three hosts: the ranks that really start are those of the profile, two on
    each host, in one process a host with -t or -g and in one a rank without. WORDS begin the launcher's line, which has so many
    nodes and processes as {}."""
    ranks, null = "    ranks: 6\n    nodes: 3\n", "all_reduce_perf --backend null -b 8 -e 8 -n 1 -w 0"
    steps = {"threads": (f"{null} -t 2", ranks, 3), "gpus": (f"{null} -g {{per_node}}", ranks, 3), "ranks": (null, ranks, 6),
             "each": (f"{null} --ngpus=2", "    ranks: 2\n", 3)}  # fmt: skip
    text = profile(*(step(run, name=name, more=lines) for name, (run, lines, _) in steps.items()), more=f"launcher: {launcher}\n{more}")
    with Folder() as f:
        path, out = f.profile(text), os.path.join(f.name, "out")
        run = [built("acceptance"), "run", path, "--nodes", "3"]
        plan = hosts.execute([*run, "--dry-run"]).exits(0).out
        hosts.execute([*run, "--no-report", "-o", out]).exits(3)  # null has no data to check
        for name, (_, _, processes) in steps.items():
            with open(os.path.join(out, "records", f"{name}.1.jsonl"), encoding="utf-8") as file:
                record = json.loads(file.readline())
            started = [(rank["host"], rank["pid"]) for rank in record["ranks"]]
            equal(sorted(host for host, _ in started), ["h1", "h1", "h2", "h2", "h3", "h3"], f"hosts of {name}")
            equal(len(set(started)), processes, f"processes of {name}")
            line, = [line for line in plan.split(f"step {name}:")[1].splitlines() if "all_reduce_perf" in line][:1]
            equal(words.format(processes, processes // 3) in line, True, line)

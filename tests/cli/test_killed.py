"""Runs ended from outside: memory limits are kept, and completed rows are in the files."""

import json
import os
import re
import signal
import tempfile
import time

import kit
from kit import Skipped, built, equal, execute, expect, test

MiB = 1 << 20


def own_groups():
    """Folders of this process's control groups that limit memory, versions 1 and 2."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        paths = {words[1]: words[2] for words in (line.rstrip("\n").split(":", 2) for line in file)}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            place, kind = (part.split() for part in line.split(" - ", 1))
            if kind[0] == "cgroup2" and "" in paths:
                yield os.path.join(place[4], paths[""].removeprefix(place[3]).lstrip("/")), "memory.max"
            elif kind[0] == "cgroup" and "memory" in kind[2].split(","):
                name = next(c for c in paths if "memory" in c.split(","))
                yield os.path.join(place[4], paths[name].removeprefix(place[3]).lstrip("/")), "memory.limit_in_bytes"


def make_group(limit):
    """A new control group with that limit for processes to enter; few hosts allow it."""
    for parent, name in own_groups():
        group = os.path.join(parent, f"busbench-test-{os.getpid()}-{time.monotonic_ns()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(os.path.join(group, name), "w", encoding="ascii") as file:
                file.write(str(limit))
            return group
        except OSError:
            os.rmdir(group)
    raise Skipped("no control group can be made here")


@test
def keeps_the_limit_of_its_cgroup():
    """A job with a limit of 300 MiB ends in order, without the sizes that do not fit."""
    group = make_group(300 * MiB)
    inside = os.path.join(group, "step")
    try:
        os.mkdir(inside)  # the group above has the limit
        line = [built("all_reduce_perf"), *"-g 4 -b 1M -e 256M -f 16 -n 1 -w 1 --algo ring".split()]
        done = execute(["sh", "-c", f'echo $$ > {inside}/cgroup.procs; exec "$@"', "sh", *line]).exits(0)
        equal([row.size for row in done.rows()], [MiB, 16 * MiB], "sizes")
        expect(re.search(r"# skipped: ring 268435456 .* 0\.2\d GiB are available", done.out), f"no reason\n{done}")
    finally:
        for folder in (inside, group):
            if os.path.isdir(folder):
                os.rmdir(folder)


@test
def rows_are_in_the_files_when_they_are_done():
    """After SIGKILL each file has the rows that a reader saw before."""
    with tempfile.TemporaryDirectory() as folder:
        path = {name: os.path.join(folder, "run." + name) for name in ("jsonl", "csv", "json", "txt")}
        words = "-g 2 -b 8 -e 8 -n 1 -w 1 -N 0 --algo ring -c 0".split()
        with open(path["txt"], "w", encoding="utf-8") as text:
            process = kit.spawn([built("all_reduce_perf"), *words, "--json", path["jsonl"], "--csv", path["csv"],
                                 "-J", path["json"]], stdout=text)  # fmt: skip
        try:
            until = time.monotonic() + 60
            while results(path["jsonl"]) < 20 and time.monotonic() < until:
                time.sleep(0.01)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stderr.close()
        seen = results(path["jsonl"])
        expect(seen >= 20, f"{seen} rows")
        with open(path["csv"], encoding="utf-8") as file:
            expect(len(file.readlines()) >= seen, "rows are missing in the CSV file")
        with open(path["txt"], encoding="utf-8") as file:
            expect(len(kit.rows(file.read())) >= seen // 2 - 1, "rows are missing in the text")
        with open(path["json"], encoding="utf-8") as file:
            expect(len(json.load(file)["results"]) >= seen // 2 - 1, "rows are missing in nccl-tests' JSON")


def results(path):
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n")]
    return sum(json.loads(line)["kind"] == "result" for line in lines)

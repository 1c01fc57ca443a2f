"""acceptance baseline: the reference of later runs, and its history."""

import json
import os

from accept import Folder, acceptance, profile, step
from kit import equal, expect, test


@test
def baseline():
    run = "all_reduce_perf --backend sim --link 10GB/s,5us -g 4 -b 1M -e 4M -f 4 --algo ring"
    gate = ("      - metric: busbw\n        where: {size: 4M, placement: out-of-place}\n"
            "        from: {baseline: base/baseline.json}\n        down: 5%\n        up: 5%\n")
    with Folder() as f:
        path = f.profile(profile(step(run, gate)))
        f.run(path, out="early").exits(2).says("p.yaml:6", "acceptance baseline")
        f.run(path, "--dry-run").exits(2).prints("step a").says("p.yaml:6", "acceptance baseline")
        acceptance("baseline", path, "-n", "3", "--quiet", "-o", os.path.join(f.name, "base")).exits(0)
        with open(os.path.join(f.name, "base", "baseline.json"), encoding="utf-8") as file:
            entries = json.load(file)["entries"]
        inside = all(e["min"] <= e["mean"] * (1 + 1e-12) and e["mean"] <= e["max"] * (1 + 1e-12) for e in entries)
        expect(entries and inside and all(e["n"] == 3 for e in entries), entries)
        f.run(path).exits(0)
        gate, = [g for g in f.verdict()["gates"] if g["metric"] == "busbw"]
        expect("3 runs" in gate["provenance"], gate["provenance"])
        slower = f.profile(profile(step(run.replace("10GB", "9GB"), f"{open(path).read().split('gates:')[1][1:]}")), "slower.yaml")
        f.run(slower, out="slow").exits(7)
        faster = f.profile(open(path).read().replace("10GB", "12GB"), "faster.yaml")
        f.run(faster, out="fast").exits(0).prints("better than expected")
        f.run(faster, "--strict", out="strict").exits(7).prints("--strict fails for a warning; the first is in step a")


@test
def baseline_is_exact():
    """In virtual time a run reaches its own baseline to the last digit."""
    gate = "      - metric: time\n        from: {baseline: base/baseline.json}\n        up: 0%\n        down: 0%\n"
    with Folder() as f:
        path = f.profile(profile(step("all_reduce_perf --backend sim -g 4 --link 7GB/s,3us -b 8 -e 4M -f 2", gate)))
        acceptance("baseline", path, "-n", "2", "--quiet", "-o", os.path.join(f.name, "base")).exits(0)
        f.run(path, "--strict").exits(0)


@test
def baseline_of_the_healthy():
    """Steps that wait for a failure belong to no baseline, whose gates are not there yet."""
    gate = "      - metric: busbw\n        from: {baseline: base.json}\n        down: 5%\n"
    with Folder() as f:
        path = f.profile(profile(step("all_reduce_perf --backend sim --link 10GB/s,5us -g 4 -b 1M -e 1M", gate),
                                 step("diagnose --backend host -g 3", name="who", more="    when: failed\n")))  # fmt: skip
        into = os.path.join(f.name, "base.json")
        acceptance("baseline", path, "-n", "2", "--quiet", "-o", os.path.join(f.name, "b"), "--into", into).exits(0)
        f.run(path).exits(0)
        with open(into, encoding="utf-8") as file:
            equal({e["step"] for e in json.load(file)["entries"]}, {"a"}, "steps")


@test
def baseline_history():
    """A baseline in a file keeps the earlier ones, newest first, and only those of its profile."""
    run = "all_reduce_perf --backend sim --link {}GB/s,5us -g 4 -b 1M -e 1M --algo ring"
    gate = "      - metric: busbw\n        from: {baseline: base.json}\n        down: 5%\n"
    with Folder() as f:
        into = os.path.join(f.name, "base.json")
        for rate in (10, 9, 8):
            path = f.profile(profile(step(run.format(rate), gate)))
            words = ("-n", "2", "--quiet", "-o", os.path.join(f.name, str(rate)), "--into", into)
            acceptance("baseline", path, *words).exits(0).prints(f"Baseline of 2 runs: {into}")
        with open(into, encoding="utf-8") as file:
            text = file.read()
        f.run(path).exits(0)
        other = f.profile(open(path).read().replace("name: ", "name: other-", 1), "other.yaml")
        for path_, into_, why in (other, into, "holds the baseline of profile"), (path, path, "give a new path or a baseline"):
            acceptance("baseline", path_, "-n", "2", "--into", into_).exits(2).says(f"--into {into_}: ", why)
        with open(into, encoding="utf-8") as file:
            equal(file.read(), text, "the file after a refusal")
    new = json.loads(text)
    means = [[e["mean"] for e in b["entries"] if e["metric"] == "busbw"][0] for b in (new, *new["history"])]
    equal(len(means), 3, "baselines in the file")
    expect(means[0] < means[1] < means[2], f"not the newest first: {means}")
    dates = [b["date"] for b in (new, *new["history"])]
    equal(dates, sorted(dates, reverse=True), "dates")
    expect(all("history" not in b and b["entries"] for b in new["history"]), "a history in the history")

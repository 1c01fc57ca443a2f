"""Profiles and command lines that acceptance refuses, and limits of profiles."""

import os
import re

from accept import Folder, acceptance, profile, step
from kit import ROOT, add, equal, test

THIS_MACHINE = os.path.join(ROOT, "ci", "profiles", "this-machine.yaml")
RUN = "all_reduce_perf -g 2"
REFUSED = {
    "no provenance": (step(RUN, "      - metric: busbw\n        down: 5%\n"), "p.yaml:6", "does not say where it comes from"),
    "two sources": (step(RUN, "      - metric: busbw\n        from: {copy: 5%, bound: 5%}\n"), "p.yaml:6", "several sources"),
    "cannot fail": (step(RUN, "      - metric: busbw\n        down: 100%\n        from: {copy: 5%}\n"), "p.yaml:6", "can never fail"),
    "expects nothing": (step(RUN, "      - metric: busbw\n        from: {copy: 0%}\n"), "p.yaml:6", "cannot fail"),
    "hardly fails": (step(RUN, "      - metric: busbw\n        down: 99.9%\n        from: {copy: 5%}\n"), "p.yaml:6", "at most 95%"),
    "next to nothing": (step(RUN, "      - metric: busbw\n        from: {copy: 0.01%}\n"), "p.yaml:6", "at least 0.1%"),
    "next to nothing with its tolerance": (step(RUN, "      - metric: busbw\n        from: {bound: 1%}\n        down: 95%\n"),
                                           "p.yaml:6", "1% less down: 95% can hardly fail"),
    "a time from a bandwidth": (step(RUN, "      - metric: time\n        from: {topology: 80% of ring}\n"), "p.yaml:6", "is for busbw"),
    "blank": (step(RUN, "      - shape: no-dip\n        down: 5%\n        from: {rule: '  '}\n"), "p.yaml:6", "rule: is empty"),
    "shape of a run of one size": (step(RUN + " -b8M --maxbytes=8M", "      - shape: no-dip\n        down: 5%\n        from: {rule: why}\n"),
                                   "p.yaml:6", "one size, and a shape needs several"),
    "shape of one size": (step(RUN, "      - shape: no-dip\n        where: {size: 64K}\n        down: 5%\n        from: {rule: why}\n"),
                          "p.yaml:6", "64K is one size"),
    "selects nothing": (step(RUN, "      - metric: busbw\n        where: {size: 2M-1M}\n        from: {copy: 5%}\n"), "p.yaml:6", "selects nothing"),
    "metric": (step(RUN, "      - metric: buswb\n        from: {copy: 5%}\n"), "p.yaml:6", "did you mean \"busbw\"?"),
    "key": (step(RUN, "      - metrics: busbw\n"), "p.yaml:6", "Unexpected key: metrics"),
    "shape": (step(RUN, "      - shape: no-dip\n        down: 5%\n        from: {copy: 5%}\n"), "p.yaml:6", "needs rule:"),
    "reference": (step(RUN, "      - metric: busbw\n        where: {collective: all_reduce, size: 8G}\n        from: {reference: nobody}\n"),
                  "p.yaml:6", "nobody is no id"),
    "any program": (step("/bin/sh -c true"), "p.yaml:3", "not the name of a perf binary"),
    "no such program": (step("nosuch_perf -g 2"), "p.yaml:3", "there is no nosuch_perf in"),
    "second document": (step(RUN) + "---\nname: q\n", "p.yaml:5", "a second document"),
    "no steps": ("  []\n", "p.yaml:", "steps: has 0 entries"),
    "no YAML": ("  [", "p.yaml:", "libyaml"),
    "an alias": (step(RUN, more="    modes: &m quick\n    when: *m\n"), "p.yaml:5", "an alias repeats this"),
    "a key twice": (step(RUN, more="    run: x_perf\n"), "p.yaml:5", "run: is there twice"),
    "a list for a text": (step(RUN, more="    modes: [quick]\n"), "p.yaml:5", "modes: is no text"),
    "no name": ("  - run: x_perf\n", "p.yaml:3", "Missing key: name"),
}  # fmt: skip


def refused(text, *words):
    with Folder() as f:
        f.run(f.profile(profile(text))).exits(2).says(*words)


for what, (text, *words) in REFUSED.items():
    add("refused_" + what.replace(" ", "_"), refused, text, *words)


@test
def lines_of_the_head():
    for more, line in ("about: x\nranks: many\n", 3), ("launcher: ssh\n", 2), ("\n\ntime_limit: 2d\n", 4), ("nodes: 0\n", 2):
        with Folder() as f:
            f.run(f.profile(profile(step(RUN), more=more))).exits(2).says(f"p.yaml:{line}: {more.split()[-2]}")


@test
def outputs_stay_in_the_folder():
    """Output files of run: go into DIR/files; a path that leaves it ends the step, and nothing is written there."""
    with Folder() as f:
        run = "all_reduce_perf --backend host -g 2 -b 64 -e 64 -n 1 "
        path = f.profile(profile(step(run + "--csv rows.csv -J all.json")))
        f.run(path).exits(0)
        files = os.path.join(f.name, "out", "files")
        equal(sorted(os.listdir(files)), ["all.json", "rows.csv"], "files of the step")
    for words in ("--csv {0}/evil", "--csv={0}/evil", "--cs {0}/evil", "-J {0}/evil.json", "-J{0}/evil.json",
                  "--output_f={0}/evil.json", "--json {0}/evil --csv ../../evil", "--csv ../evil", "--csv a/../../../evil",
                  "--csv .. ", "--output-folder / --csv {0}/evil", "--output-folder=/ --csv evil",
                  "--csv", "--fault", "-- --csv {0}/evil"):  # fmt: skip
        with Folder() as f:
            path = f.profile(profile(step(run + words.format(f.name))))
            before = sorted(os.listdir(f.name)) + ["out"]
            f.run(path).exits(3)
            equal(sorted(os.listdir(f.name)), sorted(before), f"files beside the run's folder after {words}")
            equal(os.listdir(os.path.join(f.name, "out", "files")), [], f"files of a refused step, {words}")


@test
def nothing_moves_the_cursor():
    """Text of profiles and logs reaches terminal and JUnit without control characters."""
    with Folder() as f:
        path = f.profile(profile(step('"all_reduce_perf --no\\e[31m\\anonsense"')))
        f.run(path, "--dry-run").exits(0).prints(r"$'--no\x1b[31m\x07nonsense'")
        result = f.run(path).exits(3).prints("--no?[31m?nonsense")
        result.require(not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", result.out), "a control character")


@test
def usage():
    acceptance().exits(2).says("needs a subject")
    acceptance("rum").exits(2).says("did you mean \"run\"?")
    acceptance("run").exits(2).says("needs PROFILE")
    acceptance("--version", "word").exits(2).says("word")
    acceptance("run", "/nowhere.yaml").exits(2).says("/nowhere.yaml: cannot be opened: No such file")
    acceptance("run", "--strickt", THIS_MACHINE).exits(2).says("did you mean --strict?")
    acceptance("run", "--help").exits(0).prints("--resume")

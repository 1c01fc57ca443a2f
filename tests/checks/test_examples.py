"""ci/examples: the files are valid, and everything that they name exists."""

import glob
import os
import re
import subprocess

from kit import ROOT, Skipped, equal, expect, test

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "ci", "examples", "*")))


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def ending(*endings):
    found = [path for path in EXAMPLES if path.endswith(endings)]
    expect(found, f"no example ends with {endings}")
    return found


@test
def shells_can_be_read():
    for path in ending(".sh", ".sbatch"):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
        equal((done.returncode, done.stderr), (0, ""), path)
        expect(text_of(path).startswith("#!/usr/bin/env bash\n"), f"{path} is not of bash")
        expect(path.endswith(".sbatch") or os.access(path, os.X_OK), f"{path} cannot be run")


@test
def what_they_name_is_there():
    for path in EXAMPLES:
        text = text_of(path)
        for name in re.findall(r"\b((?:ci|scripts|docs)/[\w./-]+\.(?:yaml|yml|sh|py|md))", text):
            expect(os.path.exists(os.path.join(ROOT, name)), f"{path} names {name}")
        # Also those that are commented out.
        for name in re.findall(r"\b(?:profile|PROFILE): ([\w-]+)", text):
            expect(os.path.exists(os.path.join(ROOT, "ci", "profiles", name + ".yaml")), f"{path} names profile {name}")
        for program in re.findall(r"\b\w+_perf\b", text):
            source = os.path.join(ROOT, "src", "collectives", program + ".c")
            expect(os.path.exists(source), f"{path} names {program}")


@test
def jobs_can_be_read():
    """Valid for each service: steps with one key, scripts of lines, and results that the runs write."""
    try:
        import yaml
    except ImportError:
        raise Skipped("there is no PyYAML") from None
    files = {os.path.basename(path): yaml.safe_load(text_of(path)) for path in ending(".yml")}
    job, = files["github-actions.yml"]["jobs"].values()
    for step in job["steps"]:
        equal(len({"run", "uses"} & set(step)), 1, f"{step}")
        expect(set(step) <= {"run", "uses", "if", "with", "name"}, f"{step}")
    for row in job["strategy"]["matrix"]["include"]:
        equal(set(row), {"runner", "profile"}, "what a runner is told")
    job, = files["gitlab-ci.yml"].values()
    expect(all(isinstance(line, str) for line in job["script"]), f"{job['script']}")
    equal(job["artifacts"]["reports"]["junit"], "out/junit.xml", "JUnit")
    for text in map(text_of, ending(".yml")):
        expect("build/acceptance run ci/profiles/$" in text and " -o out" in text, "no run into out/")

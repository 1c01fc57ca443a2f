#!/usr/bin/env python3
"""Plants each mutant of mutants.py in a copy of the tree and runs the test that must notice it.

    tests/mutants/run.py [-k WORD] [-j JOBS] BUILD

The last line is "N killed, M survived". The copy has the objects of BUILD, a folder below the sources, so that only
files that a mutant changes are compiled. Each test must pass without a mutant before it can kill one.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

from mutants import MUTANTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# After fewer seconds a test that hangs has failed.
KIT, PATIENT, SHORT = "tests/kit.py", "\nLIMIT = 600\n", "\nLIMIT = 60\n"
OBJECTS = (".o", ".d", ".a")  # of a build; programs are linked anew
BUILD = ("src", "tests", "flags", "objects", "mpicc", "cuda", "libbusbench.a", "libbenchmarks.a")


class Broken(Exception):
    """The table does not fit the tree, or the tree is not in order."""


def copy_tree(build, folder):
    """The sources, and the objects of BUILD, as old as they are there."""
    whole = os.path.join(ROOT, build)

    def no_source(path, names):
        return [n for n in names if path == ROOT and (n == ".git" or n.startswith("build"))]

    def no_object(path, names):
        if path == whole:
            return [n for n in names if n not in BUILD]
        return [n for n in names if not n.endswith(OBJECTS) and not os.path.isdir(os.path.join(path, n))]

    shutil.copytree(ROOT, folder, symlinks=True, ignore=no_source)
    shutil.copytree(whole, os.path.join(folder, build), ignore=no_object)


def read_with(path, old):
    """The text of the file, in which OLD stands once."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(old) != 1:
        raise Broken(f"{path} has {text.count(old)} times, not once: {old!r}")
    return text


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Copy:
    def __init__(self, folder, build, jobs):
        self.folder, self.build, self.jobs = folder, build, jobs
        copy_tree(build, folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, programs):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        targets = [os.path.join(self.build, p) for p in programs]
        words = ["make", "-s", f"-j{self.jobs}", f"B={self.build}", *targets]
        done = subprocess.run(words, cwd=self.folder, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            raise Broken(f"{' '.join(words)}\n{done.stdout}{done.stderr}")

    def test(self, word):
        """(how many passed, names of those that failed) of the program or module that WORD begins with: others that -k
        selects are not built."""
        words = [sys.executable, "-B", "tests/run.py", "-j1", "-k", word, self.build]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        file = re.escape(word.split()[0])
        passed = re.findall(rf"^{file} +(\d+) passed", done.stdout, re.M)
        failed = re.findall(rf"^FAILED: ({file}: .*)$", done.stdout, re.M)
        if not passed:
            raise Broken(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
        return int(passed[0]), failed


def control(copy, mutants):
    """Without a mutant every test passes."""
    copy.make(sorted({p for m in mutants for p in m.programs}))
    for word in sorted({m.test for m in mutants}):
        passed, failed = copy.test(word)
        if failed or passed == 0:
            raise Broken(f"{word} does not pass without a mutant: {failed or 'no test was run'}")


def killer(copy, mutant):
    """The test that fails with MUTANT planted, or None."""
    edits = [(mutant.file, mutant.old, mutant.new)] + [(KIT, PATIENT, SHORT)] * mutant.hangs
    texts = [read_with(copy.path(file), old) for file, old, _ in edits]
    for (file, old, new), text in zip(edits, texts):
        write(copy.path(file), text.replace(old, new))
    try:
        copy.make(mutant.programs)
        failed = copy.test(mutant.test)[1]
    finally:
        for (file, _, _), text in zip(edits, texts):
            write(copy.path(file), text)
    return failed[0] if failed else None


def run(copy, mutants):
    survived = 0
    control(copy, mutants)
    for mutant in mutants:
        name = killer(copy, mutant)
        survived += name is None
        print(f"{mutant.name:<48} {'killed by ' + name if name else 'SURVIVED ' + mutant.test}", flush=True)
    print(f"{len(mutants) - survived} killed, {survived} survived")
    return 1 if survived else 0


def main():
    parser = argparse.ArgumentParser(description="Plants mutants; the tests must notice.")
    parser.add_argument("-k", default="", metavar="WORD", help="only mutants with WORD in name or file")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, metavar="JOBS", help="of make (default: number of cores)")
    parser.add_argument("build", metavar="BUILD")
    arguments = parser.parse_args()
    wanted = [m for m in MUTANTS if arguments.k in f"{m.name} {m.file}"]
    folder = tempfile.mkdtemp(prefix="busbench-mutants-")
    try:
        if not wanted:
            raise Broken(f"no mutant has {arguments.k!r}")
        if not re.fullmatch(r"build[\w.-]*", arguments.build):
            raise Broken(f"{arguments.build} is no folder build* of the sources")
        for mutant in wanted:
            read_with(os.path.join(ROOT, mutant.file), mutant.old)
        return run(Copy(os.path.join(folder, "tree"), arguments.build, arguments.j), wanted)
    except Broken as broken:
        print(f"mutants: {broken}", file=sys.stderr)
        return 2
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)


if __name__ == "__main__":
    sys.exit(main())

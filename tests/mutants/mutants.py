#!/usr/bin/env python3
"""Draws mutants and runs the tests that cover them: prints each survivor with its diff, and the share that was killed.

    tests/mutants/mutants.py [--seed SEED] [-n DRAWS] [-k WORD] [-j JOBS] [--share PERCENT] BUILD

BUILD/coverage has a build with gcov and a map of the lines that each test executes, made again when a source or a test
has changed. A mutant that does not compile, or whose code is that of the original, is drawn again. The unit tests that
execute its lines run first, the fastest first, then tests of programs, one of each file in turn, for PATIENCE seconds.
A test that takes several times as long as usual has failed. The exit status is 1 if less than PERCENT were killed.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import glob
import hashlib
import itertools
import json
import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import draw
import places

ROOT = draw.ROOT
sys.path.insert(0, os.path.join(ROOT, "tests"))
import kit
import run as runner

PATIENCE = 60
MEMORY = 6 << 30  # of a process: a mutant may allocate without end
FILE = 1 << 30  # bytes that it may write
GCOV = ["NVCC=none", "CFLAGS=-O1 -g0 -w --coverage", "CPPFLAGS=-include tests/mutants/flush.h"]
# Without debugging symbols, so that equal code makes equal objects; warnings do not count, wrong types do.
PLAIN = {" -g ": " -g0 ", " -Werror ": " -Wno-error -Werror=int-conversion -Werror=incompatible-pointer-types ", " -MMD -MP ": " "}

Covering = collections.namedtuple("Covering", "test content seconds programs lines")


class Broken(Exception):
    """The tree is not in order."""


def execute(words, folder, **options):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, shell=isinstance(words, str), **options)
    if done.returncode != 0:
        raise Broken(f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def make(folder, build, *words):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return execute(["make", f"B={build}", *words, "all", "units"], folder, env=env)


def commands_of(folder, build):
    """{target: the command that makes it} of objects, archives and programs."""
    lines = make(folder, build, "-n", "V=1").splitlines()
    return {m[1]: line for line in lines if (m := re.search(rf"(?:-o|ar rcs) ({re.escape(build)}/\S+)", line))}


def fails(test, seconds, folder, build, env=None):
    """Runs one test, which usually takes so many SECONDS."""
    limit = int(20 + 4 * seconds)
    words = [sys.executable, "-B", "tests/run.py", "-j1", "--limit", str(limit), "-k", test + " ", build]

    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))

    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, cwd=folder, env={**os.environ, **(env or {})}, stdin=quiet, stdout=quiet, stderr=quiet,
                               preexec_fn=bound, start_new_session=True)  # fmt: skip
    try:
        return process.wait(4 * limit) != 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait() != 0


# ---- which tests execute a line ------------------------------------------------------------


def tests_of(build):
    kit.Settings.build = os.path.join(ROOT, build)
    names = [f"{folder}/{name} " for folder, name in runner.units() if os.path.exists(kit.built(f"tests/{name}"))]
    for module in sorted(os.listdir(os.path.join(ROOT, "tests", "cli"))):
        if re.match(r"test_.*\.py$", module):
            label = f"cli/{module[:-3]}"
            names += [f"{label} {test.name}" for test in runner.load(os.path.join(ROOT, "tests", "cli", module), label)]
    return list(dict.fromkeys(names))


class Gcov:
    """A folder into which one test at a time writes what it executes."""

    def __init__(self, build, programs):
        self.prefix, self.build, self.programs = tempfile.mkdtemp(prefix="busbench-gcov-"), build, programs
        self.folder = self.prefix + os.path.join(ROOT, build)
        self.sources = {f[:-2] for f in draw.files() + [m.file for m in places.listed()]}
        for source in self.sources:
            os.makedirs(os.path.dirname(os.path.join(self.folder, source)), exist_ok=True)
            os.symlink(os.path.join(ROOT, build, source + ".gcno"), os.path.join(self.folder, source + ".gcno"))

    def close(self):
        shutil.rmtree(self.prefix)

    def cover(self, job):
        """What a test covers, which is nothing if it fails."""
        test, content = job
        started = time.monotonic()
        failed = fails(test, 100, ROOT, self.build, {"GCOV_PREFIX": self.prefix})
        seconds, lines = time.monotonic() - started, {}
        found = [os.path.join(at, f) for at, _, files in os.walk(self.folder) for f in files if f.endswith(".gcda")]
        ran = {os.path.relpath(f, self.folder)[:-5]: f for f in found}
        data = [f for name, f in ran.items() if name in self.sources]
        if data and not failed:
            for text in execute(["gcov", "--json-format", "--stdout", *data], self.folder).splitlines():
                for file in json.loads(text)["files"]:
                    lines[file["file"]] = sum(1 << n for n in {x["line_number"] for x in file["lines"] if x["count"]})
        for f in found:
            os.remove(f)
        programs = [program for main, program in self.programs.items() if main in ran]
        return Covering(test, content, seconds, programs, {f: hex(n) for f, n in lines.items() if n})


def shared(jobs, tools, function):
    """function(tool, job) of each job, as they are done; each of TOOLS works for one at a time."""
    free = queue.Queue()
    for tool in tools:
        free.put(tool)

    def work(job):
        tool = free.get()
        try:
            return function(tool, job)
        finally:
            free.put(tool)

    with concurrent.futures.ThreadPoolExecutor(len(tools)) as pool:
        for done in concurrent.futures.as_completed([pool.submit(work, job) for job in jobs]):
            yield done.result()


def digest(pattern):
    """Of the content of files below tests or src."""
    content = hashlib.sha256()
    for name in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
        if os.path.isfile(name):
            with open(name, "rb") as file:
                content.update(name.encode() + file.read())
    return content.hexdigest()[:16]


def coverage(build, jobs):
    """What each test covers that passes. Only tests that have changed run again while the sources are the same."""
    folder = os.path.join(build, "coverage")
    path = os.path.join(ROOT, folder, f"map-{digest('src/**')}.json")
    make(ROOT, folder, *GCOV, "-s", f"-j{jobs}")
    known = []
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        known = [Covering(*json.loads(line)) for line in file]
    wanted = {(test, digest(f"tests/{test.split()[0]}.*")) for test in tests_of(folder)}
    known = [c for c in known if (c.test, c.content) in wanted]
    missing = wanted - {(c.test, c.content) for c in known}
    if missing:
        print(f"mutants: notes which lines {len(missing)} tests execute", file=sys.stderr)
        programs = {m[1]: target[len(folder) + 1 :] for target, line in commands_of(ROOT, folder).items()
                    if not target.endswith((".o", ".a", ".so")) and (m := re.search(rf" {folder}/(\S+)\.o", line))}  # fmt: skip
        tools = [Gcov(folder, programs) for _ in range(jobs)]
        with open(path, "w", encoding="utf-8") as file:
            order = in_turn(sorted(missing), lambda job: job[0])
            for c in itertools.chain(known, shared(order, tools, Gcov.cover)):
                print(json.dumps(c), file=file, flush=True)
        for tool in tools:
            tool.close()
        return coverage(build, jobs)
    return known


def in_turn(items, name):
    """Unit tests, then tests of programs, one of each file in turn."""
    turns = collections.Counter()

    def turn(item):
        file = name(item).split()[0]
        turns[file] += file.startswith("cli/")
        return turns[file]

    return sorted(items, key=turn)


def choose(covering, mutant):
    """The tests for MUTANT, in the order in which they run."""
    spent, chosen = 0, []

    def execute_any(lines):
        mask = sum(1 << n for n in lines)
        return [c for c in covering if int(c.lines.get(mutant.file, "0"), 16) & mask]

    fitting = sorted(execute_any(mutant.lines()) or execute_any(mutant.body()), key=lambda c: c.seconds)
    for c in in_turn(fitting, lambda c: c.test):
        spent += c.seconds if c.test.startswith("cli/") else 0
        if spent <= PATIENCE:
            chosen.append(c)
    return chosen


# ---- planting ------------------------------------------------------------------------------


class Tree:
    """A copy of the sources and of the build, in which one mutant at a time is planted."""

    def __init__(self, build, number, folder):
        self.build, self.folder, self.originals = build, os.path.join(folder, str(number)), {}
        whole = os.path.join(ROOT, build)
        shutil.copytree(ROOT, self.folder, symlinks=True,
                        ignore=lambda path, names: [n for n in names if path == ROOT and (n == ".git" or n.startswith("build"))])  # fmt: skip
        shutil.copytree(whole, self.path(build), symlinks=True,
                        ignore=lambda path, names: ["coverage", "mutants"] if path == whole else [])  # fmt: skip
        self.commands = commands_of(self.folder, build)

    def path(self, name):
        return os.path.join(self.folder, name)

    def object(self, file):
        return f"{self.build}/{file[:-2]}.o"

    def compile(self, file, text):
        """The object of FILE with this text, or None if it does not compile."""
        command, target = self.commands[self.object(file)], self.object(file)
        for old, new in PLAIN.items():
            command = command.replace(old, new)
        with self.replaced([file, target]):
            with open(self.path(file), "w", encoding="utf-8") as out:
                out.write(text)
            with contextlib.suppress(Broken):
                execute(command, self.folder)
                with open(self.path(target), "rb") as made:
                    return made.read()
        return None

    @contextlib.contextmanager
    def replaced(self, names):
        """Files that may be written anew, until the originals are back."""
        for name in names:
            os.rename(self.path(name), self.path(name) + ".original")
        try:
            yield
        finally:
            for name in names:
                os.replace(self.path(name) + ".original", self.path(name))

    def prepare(self, mutant):
        """Makes the object of MUTANT, which is None if it does not compile or changes no code."""
        if mutant.file not in self.originals:
            self.originals[mutant.file] = self.compile(mutant.file, mutant.text)
        made = self.compile(mutant.file, mutant.mutated())
        mutant.object = made if made != self.originals[mutant.file] else None

    def killer(self, mutant, tests):
        """The first of TESTS that fails with MUTANT planted, or None."""
        target = self.object(mutant.file)
        users = {t for t, command in self.commands.items() if f" {target} " in command + " "}
        archives = [t for t in users if t.endswith(".a")]
        plugins = [t for t in users if t.endswith(".so") and os.path.exists(self.path(t))]
        with contextlib.ExitStack() as planted:
            planted.enter_context(self.replaced([target, *archives]))
            with open(self.path(target), "wb") as file:
                file.write(mutant.object)
            for archive in archives:  # anew: two of its objects may have one name
                execute(self.commands[archive], self.folder)
            linked = set()
            for c in tests:
                wanted = {f"{self.build}/{program}" for program in c.programs} | set(plugins)
                for program in sorted(wanted - linked):
                    planted.enter_context(self.replaced([program]))
                    execute(self.commands[program], self.folder)
                linked |= wanted
                if fails(c.test, c.seconds, self.folder, self.build):
                    return c.test
        return None


# ---- drawing -------------------------------------------------------------------------------


def prepared(trees, candidates, count):
    """The first COUNT of CANDIDATES that change the code: the same on any number of trees."""
    found, step = [], max(16, count // 4)
    while len(found) < count and candidates:
        some, candidates = candidates[:step], candidates[step:]
        collections.deque(shared(some, trees, Tree.prepare), 0)
        found += [m for m in some if m.object]
    return found[:count]


def judge(title, trees, covering, mutants):
    """Plants each of MUTANTS, and prints what became of it. Returns the share that was killed of those that change something."""
    counts = collections.Counter(killed=0, survived=0)

    def plant(tree, mutant):
        tests = choose(covering, mutant)
        return mutant, len(tests), tree.killer(mutant, tests)

    for mutant, tests, killer in shared(mutants, trees, plant):
        reason = places.reason(mutant)
        if killer:
            print(f"killed by {killer}: {mutant.file}:{mutant.lines()[-1]}: {mutant.says()[:100]}", flush=True)
        else:
            print(f"\n{'CHANGES NOTHING, ' + reason if reason else f'SURVIVED {tests} tests'}: {mutant.diff()}\n", flush=True)
        counts["killed" if killer else "change nothing" if reason else "survived"] += 1
    print(f"{title}: {', '.join(f'{n} {what}' for what, n in counts.items())}")
    return 100 * counts["killed"] / max(1, counts["killed"] + counts["survived"])


def main():
    parser = argparse.ArgumentParser(description="Draws mutants; the tests must notice.")
    parser.add_argument("--seed", default="1", help="any word (default: 1)")
    parser.add_argument("-n", type=int, default=200, metavar="DRAWS", help="number of mutants (default: 200)")
    parser.add_argument("-k", default="", metavar="WORD", help="only mutants with WORD in their file, and none of the listed")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, metavar="JOBS", help="(default: number of cores)")
    parser.add_argument("--share", type=float, default=85, metavar="PERCENT", help="to be killed (default: 85)")
    parser.add_argument("build", metavar="BUILD")
    arguments = parser.parse_args()
    folder, started = tempfile.mkdtemp(prefix="busbench-mutants-"), time.monotonic()
    try:
        covering = coverage(arguments.build, arguments.j)
        trees = [Tree(arguments.build, i, folder) for i in range(arguments.j)]
        drawn = prepared(trees, [m for m in draw.draw(arguments.seed) if arguments.k in m.file], arguments.n)
        listed = [] if arguments.k else prepared(trees, places.listed(), len(places.LISTED))
        alive = bool(listed) and judge("listed", trees, covering, listed) < 100
        share = judge(f"drawn with seed {arguments.seed}", trees, covering, drawn)
        print(f"{share:.1f}% of those that change something were killed, in {time.monotonic() - started:.0f} s")
        return 1 if alive or share < arguments.share else 0
    except (Broken, LookupError) as broken:
        print(f"mutants: {broken}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())

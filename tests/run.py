#!/usr/bin/env python3
"""Runs the tests of a build and closes with one line: N passed, N failed.

    tests/run.py [--full] [-k WORD] [--skipped-in FILE] [-j CORES] [--slowest N] [--under COMMAND] BUILD

Unit tests are the programs BUILD/tests/test_* (cmocka). Tests of binaries and sources are the modules test_*.py of
tests/checks, tests/cli and tests/report. A program that crashes, hangs or prints nothing has failed. Tests run in
parallel as cores allow: each declares how many it keeps busy on average (kit.add, CORES of its module; most tests of
several ranks keep one).
"""

import argparse
import importlib.util
import os
import re
import shlex
import signal
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True

import kit


class File:
    """The tests of one program or module: one line when all are done."""

    def __init__(self, name):
        self.name = name
        self.open = 0
        self.passed = self.failed = self.skipped = 0
        self.seconds = 0.0


class Report:
    def __init__(self):
        self.lock = threading.Lock()
        self.files = []
        self.failures = []
        self.times = []  # (seconds, file, test)

    def file(self, name):
        self.files.append(File(name))
        return self.files[-1]

    def add(self, file, name, passed, failures, skips, seconds):
        """failures: (name, text) each; skips likewise."""
        with self.lock:
            self.times.append((seconds, file.name, name))
            file.passed += passed
            file.failed += len(failures)
            file.skipped += len(skips)
            file.seconds += seconds
            self.tell("FAILED", file, failures)
            self.tell("skipped", file, skips)
            self.failures += [f"{file.name}: {name}" for name, _ in failures]
            file.open -= 1
            if file.open == 0:
                self.print(file)

    def print(self, file):
        counts = f"{file.passed} passed"
        counts += f", {file.failed} failed" if file.failed else ""
        counts += f", {file.skipped} skipped" if file.skipped else ""
        print(f"{file.name:<40} {counts:<30} {file.seconds:6.1f} s", flush=True)

    def tell(self, what, file, messages):
        """Prints messages at once, so that a run that is ended early has reported its failures."""
        for name, text in messages:
            print(f"{what}: {file.name}: {name}")
            for line in text.splitlines():
                print(f"    {line}")
        sys.stdout.flush()

    def print_slowest(self, count):
        for seconds, file, name in sorted(self.times, reverse=True)[:count]:
            print(f"{seconds:8.1f} s  {file}: {name}")

    def close(self):
        passed = sum(f.passed for f in self.files)
        failed = sum(f.failed for f in self.files)
        skipped = sum(f.skipped for f in self.files)
        if self.failures:
            print("\nfailed:")
            for name in self.failures:
                print(f"  {name}")
        if passed + failed == 0:
            print("no test was run")
            failed = 1
        print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
        sys.stdout.flush()
        return 1 if failed else 0


# ---- which of them ---------------------------------------------------------------------


class Choice:
    """Tests with a word in their file or name. SKIPPED_IN, what another run printed, leaves those that it skipped, and
    those of checks, which look at this build."""

    def __init__(self, word, skipped_in):
        self.word, self.skipped = word, None
        if skipped_in:
            with open(skipped_in, encoding="utf-8", errors="replace") as file:
                lines = [line.rstrip("\n").split(": ", 2) for line in file if line.startswith("skipped: ")]
            self.skipped = {(words[1], words[-1]) for words in lines}

    def may_want(self, label):
        """False if the word begins with another file, whose tests alone need be loaded."""
        return not re.match("(checks|cli|report|unit|gpu)/", self.word) or self.word.split()[0] in label

    def wants(self, label, name=None):
        if self.word not in f"{label} {name or ''} ":
            return False
        if self.skipped is None or label.startswith("checks/"):
            return True
        return (label, name) in self.skipped or (name is None and any(label == skipped for skipped, _ in self.skipped))


# ---- unit tests ------------------------------------------------------------------------


def run_unit(path, variant):
    """Runs a cmocka program. Returns the number of passed tests, the failures and the skips."""
    options = kit.SANITIZERS[variant] if variant else {}
    name = os.path.basename(path)
    try:
        result = kit.execute([*kit.Settings.under, path], {"CMOCKA_MESSAGE_OUTPUT": "TAP", **options})
    except kit.Failure as failure:
        return 0, [(name, str(failure))], []
    planned = sum(int(n) for n in re.findall(r"^1\.\.(\d+)", result.out, re.M))
    lines = re.findall(r"^(ok|not ok) \d+ (?:- )?(.*)$", result.out, re.M)
    skips = [(what, "") for state, what in lines if "SKIP" in what]
    good = [what for state, what in lines if state == "ok" and "SKIP" not in what]
    failures = [(what, str(result)) for state, what in lines if state != "ok" and "SKIP" not in what]
    if planned == 0:
        failures.append((name, f"ran no test\n{result}"))
    elif len(lines) < planned:
        failures.append((name, f"ended after {len(lines)} of {planned} tests\n{result}"))
    elif result.code != 0 and not failures:
        failures.append((name, f"ended badly\n{result}"))
    return len(good), failures, skips


def source_has(folder, name, pattern):
    with open(os.path.join(kit.ROOT, "tests", folder, name + ".c"), encoding="utf-8") as source:
        return folder == "gpu" or re.search(pattern, source.read())


def has_threads(folder, name):
    return source_has(folder, name, r"pthread_create|(ranks|processes)\.h")


def cores_of(folder, name):
    """Cores of a unit test. Tests with ranks run alone: ranks that share cores with others waste time slices."""
    return 1 / 4 if name in WAITING else kit.ALL if source_has(folder, name, r'"ranks\.h"') else 1


def units():
    """(folder, name) of each unit test."""
    for folder in ("unit", "gpu"):
        sources = os.listdir(os.path.join(kit.ROOT, "tests", folder))
        yield from ((folder, n[:-2]) for n in sorted(sources) if re.match(r"test_.*\.c$", n))


def was_left_out(folder):
    """True for tests of the nccl backend without the headers of CUDA and NCCL."""
    return folder == "gpu" and not os.path.exists(os.path.join(kit.Settings.build, "tests", "fake", "nccl.so"))


# Tests that mostly wait, for example for deadlines.
WAITING = ("test_control", "test_drivers", "test_late", "test_tcp", "test_tcp_strangers", "test_wire")

# Tests that execute themselves, which needs a kernel that knows their instructions.
NOT_EMULATED = ("test_child",)


def unit_jobs(report, choice):
    # Sanitizers do not run under an emulator.
    for variant in ("",) + (() if kit.Settings.under else kit.Settings.variants):
        for folder, name in units():
            if variant == "thread" and not has_threads(folder, name):
                continue
            label = f"{folder}/{name}" + (f" ({variant})" if variant else "")
            path = os.path.join(kit.Settings.build, variant, "tests", name)
            if not choice.wants(label):
                continue
            file = report.file(label)
            file.open = 1

            def job(file=file, path=path, variant=variant, folder=folder, name=name):
                started = time.monotonic()
                if kit.Settings.under and name in NOT_EMULATED:
                    result = 0, [], [(file.name, "executes itself, which fails under an emulator")]
                elif os.path.exists(path):
                    result = run_unit(path, variant)
                elif was_left_out(folder):
                    result = 0, [], [(file.name, "built without the headers of CUDA and NCCL")]
                else:
                    result = 0, [(file.name, f"{path} was not built")], []
                report.add(file, name, *result, time.monotonic() - started)

            yield job, cores_of(folder, name)


# ---- modules -----------------------------------------------------------------------------


def run_test(test):
    try:
        test.function(*test.arguments)
    except kit.Failure as failure:
        return 0, [(test.name, str(failure))], []
    except kit.Skipped as reason:
        return 0, [], [(test.name, str(reason))]
    except Exception:  # a defect of the test itself is a failure
        return 0, [(test.name, traceback.format_exc())], []
    return 1, [], []


def load(path, name):
    """The tests of one module; a module that does not load is one failing test."""
    kit.TESTS.clear()
    try:
        spec = importlib.util.spec_from_file_location(name.replace("/", "."), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for test in kit.TESTS:
            test.cores = test.cores or getattr(module, "CORES", 1)
    except Exception:
        text = traceback.format_exc()

        def fail():
            raise kit.Failure(text)

        kit.TESTS[:] = [kit.Test("loading it", fail, (), 1)]
    return list(kit.TESTS)


def module_jobs(report, choice):
    for folder in ("checks", "cli", "report"):
        path = os.path.join(kit.ROOT, "tests", folder)
        for name in sorted(os.listdir(path)):
            if not re.match(r"test_.*\.py$", name):
                continue
            label = f"{folder}/{name[:-3]}"
            if not choice.may_want(label):
                continue
            tests = [t for t in load(os.path.join(path, name), label) if choice.wants(label, t.name)]
            if not tests:
                continue
            file = report.file(label)
            file.open = len(tests)
            for test in tests:

                def job(file=file, test=test):
                    started = time.monotonic()
                    result = run_test(test)
                    report.add(file, test.name, *result, time.monotonic() - started)

                yield job, test.cores


# ---- side by side ------------------------------------------------------------------------


def run_all(jobs, cores):
    """Runs jobs, each (function, cores that it keeps busy): first those that mostly wait, because they take long, then
    the largest that fits the free cores. Fractions of a core are powers of two, so that their sums are exact."""
    waiting = sorted(jobs, key=lambda job: (job[1] >= 1, -job[1]))
    changed = threading.Condition()
    free = cores

    def run(function, share):
        nonlocal free
        try:
            function()
        finally:
            with changed:
                free += share
                changed.notify()

    threads = []
    while waiting:
        with changed:
            fitting = None
            while fitting is None:
                fitting = next((i for i, (_, wanted) in enumerate(waiting) if min(wanted, cores) <= free), None)
                if fitting is None:
                    changed.wait()
            function, wanted = waiting.pop(fitting)
            share = min(wanted, cores)
            free -= share
        threads.append(threading.Thread(target=run, args=(function, share)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def main():
    parser = argparse.ArgumentParser(description="Runs the tests of a build.")
    parser.add_argument("--full", action="store_true", help="also slow and wide tests, and all under sanitizers")
    parser.add_argument("-k", default="", metavar="WORD", help="only tests with WORD in their file or name")
    parser.add_argument("--skipped-in", metavar="FILE", help="only tests that another run, which printed FILE, skipped, and checks")
    parser.add_argument("-j", type=float, default=2.0 * (os.cpu_count() or 1), metavar="CORES",
                        help="cores to keep busy (default: twice all, because tests wait)")  # fmt: skip
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="print the N slowest tests at the end")
    parser.add_argument("--limit", type=int, default=kit.LIMIT, metavar="SECONDS", help="of a program, which then hangs")
    parser.add_argument("--under", default="", metavar="COMMAND", help="command that runs the unit tests, such as an emulator")
    parser.add_argument("build", metavar="BUILD")
    arguments = parser.parse_args()
    kit.Settings.given = arguments.build
    kit.Settings.build = os.path.abspath(arguments.build)
    kit.Settings.full = arguments.full
    kit.LIMIT = arguments.limit
    kit.Settings.variants = tuple(kit.SANITIZERS) if arguments.full else ()
    kit.Settings.under = shlex.split(arguments.under)
    # A shell lets the background commands of a script ignore SIGINT, and so would all programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    report = Report()
    choice = Choice(arguments.k, arguments.skipped_in)
    jobs = list(unit_jobs(report, choice)) + list(module_jobs(report, choice))
    run_all(jobs, max(arguments.j, 1))
    report.print_slowest(arguments.slowest)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

"""busbench as torchrun starts it: several processes without MPI."""

import contextlib
import csv
import itertools
import os
import random
import shlex
import signal
import tempfile
import threading
import time

import kit
from kit import built, expect

TIMEOUT = 2 * kit.BRIEF  # -T of runs that use it up, or half of it


PAIRS = range(20000, 32000, 2)  # of ports, below those that the kernel gives to whoever asks for any
NUMBERS = itertools.count(random.randrange(len(PAIRS)))


def used_ports():
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as file:
            yield from (int(line.split()[1].rpartition(":")[2], 16) for line in list(file)[1:])


def free_port():
    """One that nobody uses, nor its neighbour. It is not tried: a process that another test is starting would keep the
    socket open for a moment longer."""
    used = set(used_ports())
    while True:
        port = PAIRS[next(NUMBERS) % len(PAIRS)]
        if not used & {port, port + 1}:
            return port


class Job:
    """N processes of "all_reduce …", as torchrun starts them. CHANGED: {rank: variables that differ}, a
    value None being a variable that is not set; LINES: {rank: another command line, or None for none}. LIMITS: called in
    each process before it starts."""

    def __init__(self, n, line, changed=None, lines=None, hosts=None, master="localhost", program=built, limits=None, **common):
        self.processes, self.results = {}, {}
        self.started = time.monotonic()
        port = free_port()
        for rank in range(n):
            other = (lines or {}).get(rank, line)
            if other is None:
                continue
            env = {"RANK": str(rank), "WORLD_SIZE": str(n), "LOCAL_RANK": "0" if hosts else str(rank)}
            env |= {"MASTER_ADDR": master, "MASTER_PORT": str(port), **common, **(changed or {}).get(rank, {})}
            env = {name: value for name, value in env.items() if value is not None}
            name, *words = shlex.split(other)
            words = [program(name + "_perf"), *words]
            if hosts:
                settings = [f"{name}={value}" for name, value in env.items()]
                self.processes[rank] = hosts.spawn(["env", *settings, *words], host=rank + 1)
            else:
                self.processes[rank] = kit.spawn(words, env, preexec_fn=limits)

    def end(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def finish(self):
        """All end by themselves: their results by rank."""
        failures = []

        def one(rank, process):
            try:
                self.results[rank] = kit.finish(process, self.started)
            except kit.Failure as failure:
                failures.append(f"process {rank}: {failure}")

        threads = [threading.Thread(target=one, args=item) for item in self.processes.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(not failures, "\n".join(failures))
        return self.results


def everything(results):
    return "\n".join(f"process {rank}: {result}" for rank, result in sorted(results.items()))


def told_once(results, *words, code=None):
    """One sentence on all the stderrs, with these WORDS; all exit with CODE."""
    said = [line for result in results.values() for line in result.err.splitlines() if "_perf: " in line]
    expect(len(said) == 1, f"{len(said)} sentences, not one\n{everything(results)}")
    for word in words:
        expect(word in said[0], f"{word!r} is not in {said[0]!r}")
    for result in results.values():
        expect(code is None or result.code in (code, -signal.SIGKILL), f"not exit {code}\n{everything(results)}")
    return results


@contextlib.contextmanager
def running(n, line, **options):
    """A job that has written rows, and the table that process 0 writes."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "a.csv")
        job = Job(n, f"{line} --csv {table}", **options)
        try:
            kit.wait_for(lambda: kit.has_rows(table), "rows")
            job.started = time.monotonic()  # of what is done to it
            yield job, table
        finally:
            job.end()


def keeps_rows(table):
    with open(table, newline="", encoding="utf-8") as file:
        text = file.read()
    rows = list(csv.DictReader(text.splitlines()))
    expect(text.endswith("\n") and len(rows) > 8, f"{len(rows)} rows, or one is cut")

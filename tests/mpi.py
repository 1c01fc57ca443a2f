"""busbench under mpirun, on this machine or on the hosts of hosts.py, and its remaining processes."""

import contextlib
import csv
import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import kit

TIMEOUT = kit.BRIEF  # -T of runs that use it up

LOCAL = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "MPIEXEC_TIMEOUT": str(kit.LIMIT),  # should nobody be left to end it
}


@functools.lru_cache(None)
def missing():
    """The reason why mpirun cannot run busbench here; None if it can."""
    if not os.path.exists(os.path.join(kit.Settings.build, "backends", "mpi.so")):
        return "the mpi backend was not built"
    if not shutil.which("mpirun"):
        return "no mpirun here"
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    return None if "Open MPI" in said else "mpirun is not Open MPI's"


def need():
    if missing():
        raise kit.Skipped(missing())


class Job:
    """A command, usually mpirun, with all processes that it starts, on HOSTS or on this machine."""

    def __init__(self, words, env=None, hosts=None):
        need()
        self.token = f"TEST_JOB={uuid.uuid4()}"
        self.folder = tempfile.TemporaryDirectory(prefix="bb")
        where = hosts.environment() if hosts else {**LOCAL, "TMPDIR": self.folder.name}
        name, value = self.token.split("=")
        self.started = time.monotonic()
        self.process = kit.spawn(hosts.words(words) if hosts else words, {**where, name: value, **(env or {})})

    def finish(self):
        try:
            return kit.finish(self.process, self.started)
        finally:
            self.end()

    def end(self):
        """Ends all remaining processes."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.folder.cleanup()

    def processes(self, name=""):
        """{pid: command line} of its living processes with NAME in their program's path."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    mine = self.token.encode() in file.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
            except (OSError, ProcessLookupError):
                continue
            if mine and name in words[0]:
                found[int(pid)] = words[:-1]
        return found

    def ranks(self):
        """{rank: pid} of the living busbench processes."""
        found = {}
        for pid in self.processes("_perf"):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    values = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            except OSError:
                continue
            rank = values.get(b"OMPI_COMM_WORLD_RANK") or values.get(b"SLURM_PROCID")
            if rank is not None:
                found[int(rank)] = pid
        return found

    def await_start(self):
        """Waits until a busbench process exists or the launcher is gone."""
        kit.wait_for(lambda: self.processes("_perf") or self.process.poll() is not None, "a process starts")

    def await_gone(self):
        """Waits until all busbench processes have ended by themselves, or the test fails."""
        try:
            kit.wait_for(lambda: not self.processes("_perf"), "all processes end")
        except kit.Failure:
            self.end()
            raise

    def await_rows(self, table):
        kit.wait_for(lambda: kit.has_rows(table) or self.process.poll() is not None, "rows")
        if not kit.has_rows(table):
            raise kit.Failure(f"no rows\n{self.finish()}")


def words(n, line, options="", hosts=None, slots=1, program=kit.built):
    """mpirun -np N of "all_reduce -b 8 …". PROGRAM: a function from "all_reduce_perf" to a path."""
    name, *arguments = shlex.split(line)
    there = ["--host", hosts.names(slots)] if hosts else []
    return ["mpirun", *there, "-np", str(n), *shlex.split(options), program(name + "_perf"), *arguments]


def run(n, line, env=None, options="", hosts=None, slots=1):
    return Job(words(n, line, options, hosts, slots), env, hosts).finish()


def quiet(result):
    """Nothing is on stderr, except occasional messages of the launcher about its agent."""
    said = [line for line in result.err.splitlines() if line.strip() and "plm:rsh: Warning: setpgid" not in line]
    return result.require(not said, "something on stderr")


def passes(n, line, env=None, options="", hosts=None, slots=1):
    """It exits 0 with nothing on stderr and no wrong data."""
    return quiet(run(n, line, env, options, hosts, slots).exits(0)).right()


def records(text):
    return [json.loads(line) for line in text.splitlines()]


def measured(n, line, env=None, hosts=None, slots=1):
    """The record of a run that exits 0, and those of its results, which must be right."""
    result = quiet(run(n, line + " --json -", env, "", hosts, slots).exits(0))
    found = result.records()
    rows = [record for record in found if record["kind"] == "result"]
    result.require(rows and all(record["wrong"] == 0 for record in rows), "wrong or no rows")
    return found[0], rows


# ---- what goes wrong -----------------------------------------------------------------------------


@contextlib.contextmanager
def running(n, line, hosts=None, program=kit.built, env=None):
    """A job of N processes that has written rows, and the folder of its a.csv and a.jsonl."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "a.csv")
        files = f" --csv {table} --json {os.path.join(folder, 'a.jsonl')}"
        job = Job(words(n, line + files, hosts=hosts, program=program), env, hosts=hosts)
        try:
            job.await_rows(table)
            yield job, folder
        finally:
            job.end()


def ended(job):
    """All busbench processes end by themselves; then the launcher is ended."""
    job.await_start()
    job.await_gone()
    try:
        job.process.wait(30)
    except subprocess.TimeoutExpired:
        job.end()
    return job.finish()


def sentences(result):
    """Messages of busbench itself on stderr."""
    return [line for line in result.err.splitlines() if "_perf: " in line]


def told_once(result, *words):
    said = sentences(result)
    result.require(len(said) == 1, f"{len(said)} sentences, not one: {said}")
    return result.says(*words)


def keeps_rows(folder):
    """Completed rows are in both files, whole."""
    with open(os.path.join(folder, "a.csv"), newline="", encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(folder, "a.jsonl"), encoding="utf-8") as file:
        lines = file.read()
    kit.expect(text.endswith("\n") and lines.endswith("\n"), "a row is cut")
    table = list(csv.DictReader(text.splitlines()))
    found = records(lines)
    results = [r for r in found if r["kind"] == "result"]
    kit.expect(len(table) > 8 and all(row["end_unix_s"] for row in table), "rows are missing or cut")
    kit.expect(abs(len(results) - len(table)) <= 1, f"{len(table)} rows in the CSV, {len(results)} in the JSON lines")
    return found

"""Failures between processes: whatever dies, stalls or disagrees, all processes end in time, the cause is reported
once, and completed rows are kept."""

import os
import signal
import tempfile

import kit
import mpi
from hosts import Hosts
from kit import LIMIT, LONG, add, built, equal, expect, patiently, test
from mpi import TIMEOUT, ended, keeps_rows, running, sentences, told_once

CORES = 1 / 4  # processes mostly wait in vain

FOREVER = f"all_reduce -b 8 -e 1K -n 50 -N 0 -T {LONG}"
UNTIL_T = "all_reduce -b 8 -e 1K -n 50 -N 0 -T"


# ---- a process dies ------------------------------------------------------------------------------


def killed(rank):
    with running(3, FOREVER) as (job, folder):
        os.kill(job.ranks()[rank], signal.SIGKILL)
        result = ended(job)
        keeps_rows(folder)
    result.exits(137).require(len(sentences(result)) <= 1, "more than one cause")


for rank in (0, 2):
    add(f"rank {rank} is killed", killed, rank)


def dies(rank):
    job = mpi.Job(mpi.words(3, f"all_reduce -b 8 -e 1M -T {LONG} --fault die:{rank}"))
    result = told_once(ended(job), f"rank {rank}")
    result.require(result.code not in (0, 4), "passed, or ended by -T")


for rank in (0, 1):
    add(f"rank {rank} dies", dies, rank)


# ---- a process does not come ---------------------------------------------------------------------


def with_wrapper(folder, rank, instead, n, line):
    """The command of a run in which RANK executes INSTEAD."""
    text = f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != {rank} ] || {instead}\nexec "$@"\n'
    script = kit.write_program(os.path.join(folder, "wrapper"), text)
    words = mpi.words(n, line)
    at = next(i for i, word in enumerate(words) if word.endswith("_perf"))
    return words[:at] + [script] + words[at:]


def never_starts(rank):
    with tempfile.TemporaryDirectory() as folder:
        job = mpi.Job(with_wrapper(folder, rank, "exec sleep 100", 4, f"all_reduce -b 8 -e 8 -T {TIMEOUT}"))
        result = ended(job)
    told_once(result, "4 processes").exits(4)


for rank in (0, 2):
    add(f"rank {rank} never starts", never_starts, rank)


@test
@patiently
def arrives_late(seconds):
    """The missing rank is named."""
    result = mpi.run(3, f"all_reduce -b 8 -e 8 -n 5 -T {seconds} --fault slow:2:{LIMIT}s").exits(4)
    told_once(result, "had not: 2")


@test
@patiently
def stopped(seconds):
    """A rank stopped by SIGSTOP."""
    with running(3, f"{UNTIL_T} {seconds}") as (job, folder):
        os.kill(job.ranks()[1], signal.SIGSTOP)
        told_once(ended(job), "1").exits(4)
        equal(keeps_rows(folder)[-1]["kind"], "end", "last record")


@test(full=True)
@patiently
def a_host_is_cut_off(seconds):
    """Its link goes down during the run."""
    with Hosts(3) as hosts, running(3, f"{UNTIL_T} {seconds}", hosts) as (job, folder):
        hosts.cut(3)
        result = told_once(ended(job))
        keeps_rows(folder)
    expect(result.code != 0, str(result))


# ---- told to stop --------------------------------------------------------------------------------


@test
def mpirun_is_terminated():
    with running(3, FOREVER) as (job, folder):
        os.kill(job.process.pid, signal.SIGTERM)
        result = ended(job)
        keeps_rows(folder)
    result.require(result.code != 0 and len(sentences(result)) <= 1, "passed, or said too much")


@test
def the_disk_is_full():
    """Only process 0 writes; all end."""
    for flag in ("--csv", "--json"):
        job = mpi.Job(mpi.words(3, f"all_reduce -b 8 -e 64 -T {LONG} {flag} /dev/full"))
        told_once(ended(job).exits(1), "/dev/full", "No space left")


# ---- who does not fit ----------------------------------------------------------------------------


def patched(path, folder, old, new):
    """A copy of the file with equally many other bytes."""
    with open(path, "rb") as file:
        data = file.read()
    expect(old in data and len(old) == len(new), f"{old} is not in {path}")
    return kit.write_program(os.path.join(folder, os.path.basename(path)), data.replace(old, new))


def misfits(first, last, *said):
    """Two processes of FIRST and one of LAST do not start; the difference is reported once."""
    line = ["mpirun", "-np", "2", *first, ":", "-np", "1", *last]
    env = {"BUSBENCH_BACKEND_DIR": os.path.join(kit.Settings.build, "backends")}
    result = mpi.Job(line, env).finish().exits(2, 3)
    told_once(result, *said).require(not result.rows(), "rows in spite of it")


@test
def another_version():
    mpi.need()
    program = built("all_reduce_perf")
    version = kit.execute([program, "--version"]).out.split()[2]
    other = version[:-1] + ("8" if version[-1] == "9" else "9")
    with tempfile.TemporaryDirectory() as folder:
        copy = patched(program, folder, version.encode(), other.encode())
        equal(kit.execute([copy, "--version"]).out.split()[2], other, "version of the copy")
        misfits([program, "-b", "8"], [copy, "-b", "8"], version, other, "2")


@test
def another_command_line():
    misfits([built("all_reduce_perf"), "-b", "8"], [built("all_reduce_perf"), "-b", "16"], "2")


@test
def another_environment():
    line = [built("all_reduce_perf"), "-b", "8"]
    misfits(line, ["env", "BUSBENCH_ISA=plain", *line], "BUSBENCH_ISA of process 2", "plain")


@test
def another_algorithm():
    result = mpi.run(2, "all_reduce -b 8 -e 8 --algo direct")
    result.exits(2).says("the mpi backend has no algorithm", "direct")


def cannot_open(rank):
    """Only this process lacks something, and the collective start does not wait for it."""
    mpi.need()
    program = built("all_reduce_perf")
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if "avx2" not in file.read():
            raise kit.Skipped("no avx2 here")
    with tempfile.TemporaryDirectory() as folder:
        programs = [program, program]
        programs[rank] = patched(program, folder, b"avx2\0", b"none\0")
        line = [["-np", "1", which, "-b", "8", "-e", "8", "-T", "60"] for which in programs]
        env = {"BUSBENCH_BACKEND_DIR": os.path.join(kit.Settings.build, "backends"), "BUSBENCH_ISA": "avx2"}
        result = mpi.Job(["mpirun", *line[0], ":", *line[1]], env).finish().exits(2)
    told_once(result, "BUSBENCH_ISA=avx2: expected")


for rank in (0, 1):
    add(f"rank {rank} cannot open the backend", cannot_open, rank)


@test
def another_program():
    misfits([built("all_reduce_perf"), "-b", "8"], [built("all_gather_perf"), "-b", "8"], "all_gather", "2")


@test
def another_library():
    mpi.need()
    plugin = os.path.join(kit.Settings.build, "backends", "mpi.so")
    linked = kit.execute(["ldd", plugin]).out
    path = next((line.split()[2] for line in linked.splitlines() if "libmpi.so" in line), None)
    if not path:
        raise kit.Skipped("no libmpi.so in " + linked)
    line = [built("all_reduce_perf"), "-b", "8"]
    with tempfile.TemporaryDirectory() as folder:
        patched(path, folder, b"Open MPI v%d.%d.%d", b"Open MPI v%d.%d+%d")
        misfits(line, ["env", f"LD_LIBRARY_PATH={folder}", *line], "Open MPI v", "+", "2")

"""Processes that meet through the PMIx of their launcher, because there is no mpi backend. mpirun provides one, like
srun --mpi=pmix."""

import contextlib
import ctypes
import glob
import os
import shlex
import shutil
import signal
import subprocess
import tempfile

import gpus
import kit
import mpi
from kit import ROOT, add, equal, expect, patiently, test
from mpi import ended, keeps_rows, running, told_once

CORES = 1 / 2  # processes that mostly wait for each other


def need():
    mpi.need()
    try:
        ctypes.CDLL("libpmix.so.2")
    except OSError as why:
        raise kit.Skipped("no libpmix") from why


@contextlib.contextmanager
def installed(backend=None):
    """A function that gives the path of a program beside BACKEND alone, a path of it."""
    need()
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        kit.copy_programs(glob.glob(os.path.join(kit.Settings.build, "*_perf")), folder)
        if backend:
            os.mkdir(os.path.join(folder, "backends"))
            os.symlink(backend, os.path.join(folder, "backends", os.path.basename(backend)))
        yield lambda name: os.path.join(folder, name)


def passes(n, line, program, env=None):
    result = mpi.Job(mpi.words(n, line, program=program), env).finish().exits(0)
    mpi.quiet(result)
    return result


@test
def without_mpi():
    """All processes are there, and the output names the launch."""
    with installed() as program:
        result = passes(5, "all_reduce --backend null -b 8 -e 64K -f 64", program)
        records = passes(3, "all_gather --backend null -b 8 -e 8 --json -", program).records()
    result.prints("# Launch: OpenPMIx", "because the mpi backend cannot be loaded")
    equal(len(result.rows()), 3, "rows")
    equal(len(records[0]["ranks"]), 3, "ranks")
    expect(records[0]["launch"].startswith("OpenPMIx "), records[0]["launch"])


@test(cores=2, full=True)
def gpus_of_processes():
    """The nccl backend's processes exchange its identifiers, and their data is right."""
    with installed(os.path.join(gpus.installed().name, "backends", "nccl.so")) as program, gpus.shared() as env:
        result = passes(4, "all_reduce --backend nccl -b 8 -e 64K -f 64 --algo ring,busbench:tree", program, env)
    equal([half.wrong for row in result.rows() for half in row.halves], ["0"] * 12, "#wrong")


@test
def gloo_of_processes():
    """Processes without MPI and without GPUs, as srun --mpi=pmix starts them."""
    backend = os.path.abspath(os.path.join(kit.Settings.build, "backends", "gloo.so"))
    if not os.path.exists(backend):
        raise kit.Skipped("the gloo backend was not built")
    with installed(backend) as program:
        line = "all_reduce --backend gloo -b 8 -e 64K -f 64 -n 1 -w 0 --algo ring,native"
        passes(3, line, program, {"GLOO_SOCKET_IFNAME": "lo"}).right().prints("# Launch: OpenPMIx", "ranks: 3 ", "Gloo ")


@test
def mpi_comes_first():
    need()
    result = mpi.run(2, "all_reduce --backend null -b 8 -e 8").exits(0)
    result.require("OpenPMIx" not in result.out, "PMIx in spite of the mpi backend")


@test
def measuring_without_mpi_on_the_cpu():
    """auto has no backend for several processes then: refused, with the remedy."""
    with installed() as program:
        job = mpi.Job(mpi.words(2, "all_reduce -b 8 -e 8", program=program))
        told = job.finish().exits(3)
    told.says("there is no mpi backend here", "--backend gloo needs no MPI here").require(not told.rows(), "rows in spite of it")


@test
def launcher_gone():
    """PMIx's variables exist, but its server does not."""
    with installed() as program:
        env = {"PMIX_NAMESPACE": "1", "PMIX_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
        kit.execute([program("all_reduce_perf"), "--backend", "null", "-b", "8", "-e", "8"], env).exits(3).says(
            "OpenPMIx", "cannot be started: PMIx_Init returned"
        )


@test
def nothing_connects():
    """Neither MPI nor PMIx: both are named."""
    with installed() as program:
        env = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}
        kit.execute([program("all_reduce_perf"), "--backend", "null", "-b", "8", "-e", "8"], env).exits(3).says(
            "srun started 2 processes: there is no mpi backend here", "--mpi=pmix"
        )


@test
@patiently
def stopped(seconds):
    """A process stopped by SIGSTOP ends the run within -T, and rows are kept."""
    with installed() as program:
        line = f"all_reduce --backend null -b 8 -e 1K -n 50 -N 0 -T {seconds}"
        with running(3, line, program=program) as (job, folder):
            os.kill(job.ranks()[1], signal.SIGSTOP)
            # Open MPI 4.1's mpirun may crash or hang when it ends in the middle of a fence; busbench has ended by then.
            told_once(ended(job), "1").exits(4, -signal.SIGSEGV, -signal.SIGKILL).says("Exit code:    4")
            equal(keeps_rows(folder)[-1]["kind"], "end", "last record")


def dies(rank):
    with installed() as program:
        line = f"all_reduce --backend null -b 8 -e 1M -T {kit.LONG} --fault die:{rank}"
        result = told_once(ended(mpi.Job(mpi.words(3, line, program=program))), f"rank {rank}")
    result.require(result.code not in (0, 4), "passed, or ended by -T")


for number in (0, 1):
    add(f"rank {number} dies", dies, number)


HEADER = """
#include <pmix.h>
#include "launch/pmix_api.h"
#define SAME(a, b) _Static_assert((a) == (b), #a)
#define MEMBER(ours, theirs, member, of) SAME(offsetof(struct ours, member), offsetof(theirs, of))
SAME(sizeof(struct bb_pmix_proc), sizeof(pmix_proc_t));
SAME(sizeof(struct bb_pmix_value), sizeof(pmix_value_t));
SAME(sizeof(struct bb_pmix_info), sizeof(pmix_info_t));
MEMBER(bb_pmix_proc, pmix_proc_t, rank, rank);
MEMBER(bb_pmix_value, pmix_value_t, data.bytes.at, data.bo.bytes);
MEMBER(bb_pmix_value, pmix_value_t, data.bytes.size, data.bo.size);
MEMBER(bb_pmix_value, pmix_value_t, data.flag, data.flag);
MEMBER(bb_pmix_value, pmix_value_t, data.uint32, data.uint32);
MEMBER(bb_pmix_info, pmix_info_t, value, value);
SAME(BB_PMIX_SUCCESS, PMIX_SUCCESS);
SAME(BB_PMIX_GLOBAL, PMIX_GLOBAL);
SAME(BB_PMIX_RANK_WILDCARD, PMIX_RANK_WILDCARD);
SAME(BB_PMIX_BOOL, PMIX_BOOL);
SAME(BB_PMIX_UINT32, PMIX_UINT32);
SAME(BB_PMIX_BYTE_OBJECT, PMIX_BYTE_OBJECT);
SAME(sizeof(BB_PMIX_COLLECT_DATA PMIX_COLLECT_DATA), 2 * sizeof(BB_PMIX_COLLECT_DATA) - 1);
"""


@test
def same_as_the_header():
    """busbench's declarations of PMIx equal those of <pmix.h>."""
    flags = []
    if shutil.which("pkg-config"):
        said = subprocess.run(["pkg-config", "--cflags", "pmix"], capture_output=True, text=True, check=False)
        flags = shlex.split(said.stdout) if said.returncode == 0 else []
    words = ["gcc", "-I", os.path.join(ROOT, "src"), *flags, "-fsyntax-only", "-x", "c", "-"]
    if kit.execute([*words, "-include", "pmix.h"], stdin=subprocess.DEVNULL).code != 0:
        raise kit.Skipped("no pmix.h")
    done = subprocess.run(words, input=HEADER, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, done.stderr)

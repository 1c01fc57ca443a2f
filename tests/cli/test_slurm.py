"""Under Slurm: three nodes on this machine."""

import os
import signal
import tempfile
import time

import kit
import mpi
from kit import ROOT, built, equal, expect, test
from slurm import Slurm

SRUN = ["srun", "--mpi=pmix", "-N3"]


def program(line):
    name, *arguments = line.split()
    return [built(name + "_perf"), *arguments]


def crashed(result):
    """Under Slurm's PMIx Open MPI 4.1 crashes now and then in MPI_Init, whatever the program, when a
    message comes before its receiver is ready. Such a run, which has said nothing yet, is repeated."""
    began = "# busbench" in result.out or '"schema"' in result.out
    return "Segmentation fault" in result.out + result.err and not began


def done(cluster, words, output=None):
    """WORDS to their end, and what they printed, perhaps into OUTPUT."""
    for _ in range(5):
        result = cluster.execute(words)
        if output:
            with open(output, encoding="utf-8") as file:
                result.out = file.read()
        if not crashed(result):
            break
    return result


@test
def srun():
    """Ranks are where Slurm put them, and right."""
    mpi.need()
    with Slurm(3) as cluster:
        out = done(cluster, [*SRUN, "-K1", "-n3", *program("all_reduce -b 8 -e 64K -f 64 --algo all --json -")]).exits(0).out
        records = mpi.records(out)
        run, results = records[0], [r for r in records if r["kind"] == "result"]
        equal(sorted(rank["host"] for rank in run["ranks"]), ["h1", "h2", "h3"], "hosts")
        expect(results and all(r["wrong"] == 0 for r in results), "wrong or no rows")
        two = [*SRUN, "-K1", "-n6", "--ntasks-per-node=2"]
        result = done(cluster, two + program("alltoall -b 1K -e 1K")).exits(0)
        equal([row.size for row in result.rows()], [960], "rows")


@test
def without_pmix():
    """Each task would be alone in its world: refused, with what to do."""
    mpi.need()
    with Slurm(3) as cluster:
        result = cluster.execute(["srun", "-N3", "-n3"] + program("all_reduce -b 8 -e 8"))
    result.exits(3).says("--mpi=pmix").require(not result.rows(), "rows in spite of it")


def started(cluster, flags, table):
    """A run of three tasks that has written rows to TABLE."""
    words = [*SRUN, *flags, "-n3", *program(f"all_reduce -b 8 -e 1K -N 0 -T 3 --csv {table}")]
    for _ in range(5):
        job = mpi.Job(words, hosts=cluster)
        deadline = time.monotonic() + 20
        while job.process.poll() is None and time.monotonic() < deadline:
            if os.path.exists(table) and os.path.getsize(table) > 10000:
                return job
            time.sleep(0.02)
        result = job.finish(5)
        if not crashed(result):
            break
    raise kit.Failure(f"no rows\n{result}")


def killed(flags):
    """The others end within -T plus 5 s; what srun returns is its own affair, but for 0."""
    with Slurm(3) as cluster, tempfile.TemporaryDirectory() as folder:
        job = started(cluster, flags, os.path.join(folder, "a.csv"))
        try:
            os.kill(job.ranks()[2], signal.SIGKILL)
            job.await_gone(3 + 5 + 2)
            result = job.finish(15)
        finally:
            job.end()
    result.require(result.code != 0, "srun returns 0")


kit.add("a killed task", killed, [])
kit.add("a killed task, srun -K1", killed, ["-K1"])


@test
def batch_script():
    """The example of the documentation runs, and hands on busbench's exit status."""
    mpi.need()
    script = os.path.join(ROOT, "ci", "examples", "slurm.sbatch")
    with Slurm(3) as cluster, tempfile.TemporaryDirectory() as folder:
        for fault, code in ((None, 0), ("corrupt:1", 7)):
            path = os.path.join(folder, f"out{code}")
            more = ["--fault", fault] if fault else []
            words = ["sbatch", "-W", "-N3", "-o", path, script, *program("all_reduce -b 8 -e 8"), *more]
            result = done(cluster, words, path).exits(code)
            equal([row.size for row in result.rows()], [8], "rows of the batch job")

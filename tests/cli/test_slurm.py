"""Under Slurm: three nodes on this machine."""

import os
import shutil
import signal
import tempfile

import kit
import mpi
from accept import count_launched
from kit import ROOT, built, equal, expect, test
from slurm import Slurm

SRUN = ["srun", "--mpi=pmix", "-N3"]


def program(line):
    name, *arguments = line.split()
    return [built(name + "_perf"), *arguments]


@test
def srun():
    """Ranks are where Slurm put them, and right."""
    mpi.need()
    with Slurm(3) as cluster:
        out = cluster.execute([*SRUN, "-n3", *program("all_reduce -b 8 -e 64K -f 64 --algo all --json -")]).exits(0).out
        records = mpi.records(out)
        run, results = records[0], [r for r in records if r["kind"] == "result"]
        equal(sorted(rank["host"] for rank in run["ranks"]), ["h1", "h2", "h3"], "hosts")
        expect(results and all(r["wrong"] == 0 for r in results), "wrong or no rows")


@test
def steps_of_a_profile():
    mpi.need()
    with Slurm(3) as cluster:
        count_launched(cluster, "srun", "srun --mpi=pmix -K1 -N 3 -n {} --ntasks-per-node={} ")


@test
def without_pmix():
    """Each task would be alone in its world: refused, with the remedy."""
    mpi.need()
    with Slurm(3) as cluster:
        result = cluster.execute(["srun", "-N3", "-n3"] + program("all_reduce -b 8 -e 8"))
    result.exits(3).says("--mpi=pmix").require(not result.rows(), "rows in spite of it")


@test
def pmix_alone():
    """Without the mpi backend its tasks meet through srun's PMIx; a dead task ends the run."""
    mpi.need()
    with Slurm(3) as cluster, tempfile.TemporaryDirectory() as folder:
        kit.copy_programs([built("all_reduce_perf")], folder)
        perf = os.path.join(folder, "all_reduce_perf")
        words = [*SRUN, "-n6", perf, "--backend", "null", "-b", "8"]
        result = cluster.execute([*words, "-e", "8"]).exits(0).prints("# Launch: OpenPMIx")
        equal(len(result.rows()), 1, "rows")
        dead = cluster.execute([*words, "-e", "1M", "-T", str(kit.LONG), "--fault", "die:4"])
    dead.says("rank 4").require(dead.code != 0, "srun returns 0")


@test
def gloo():
    """Without MPI: over srun's PMIx, and by torchrun's variables as docs/launch.md sets them, where gloo is the default."""
    mpi.need()
    backend = os.path.join(kit.Settings.build, "backends", "gloo.so")
    if not os.path.exists(backend):
        raise kit.Skipped("the gloo backend was not built")
    variables = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS"
    with Slurm(3) as cluster, tempfile.TemporaryDirectory() as folder:
        kit.copy_programs([built("all_reduce_perf")], folder)
        perf = os.path.join(folder, "all_reduce_perf")
        os.mkdir(os.path.join(folder, "backends"))
        shutil.copy(backend, os.path.join(folder, "backends"))
        words = [perf, "-b", "8", "-e", "64K", "-f", "64", "--algo", "ring,native"]
        pmix = cluster.execute([*SRUN, "-n3", *words, "--backend", "gloo"]).exits(0).right()
        tcp = cluster.execute(
            ["env", "MASTER_ADDR=h1", "MASTER_PORT=29500"]
            + ["srun", "-N3", "-n6", "sh", "-c", f'{variables} exec "$0" "$@"', *words]
        )
    pmix.prints("# Launch: OpenPMIx", "ranks: 3 ", "at 10.77.0.1 (this host's name)")
    tcp.exits(0).right().prints("Backend gloo was chosen", "ranks: 6 ", "(route to MASTER_ADDR=h1)")


def started(cluster, flags, table):
    """A run of three tasks that has written rows to TABLE."""
    words = [*SRUN, *flags, "-n3", *program(f"all_reduce -b 8 -e 1K -N 0 -T {kit.BRIEF} --csv {table}")]
    job = mpi.Job(words, hosts=cluster)
    job.await_rows(table)
    return job


def killed(flags):
    """The others end by themselves; srun's status is its own, but not 0."""
    with Slurm(3) as cluster, tempfile.TemporaryDirectory() as folder:
        job = started(cluster, flags, os.path.join(folder, "a.csv"))
        try:
            os.kill(job.ranks()[2], signal.SIGKILL)
            job.await_gone()
            result = job.finish()
        finally:
            job.end()
    result.require(result.code != 0, "srun returns 0")


kit.add("a killed task", killed, [])
kit.add("a killed task, srun -K1", killed, ["-K1"])


@test
def batch_script():
    """The example of the documentation runs and passes on busbench's exit status."""
    mpi.need()
    script = os.path.join(ROOT, "ci", "examples", "slurm.sbatch")
    with Slurm(3) as cluster, tempfile.TemporaryDirectory() as folder:
        for fault, code in ((None, 0), ("corrupt:1", 7)):
            path = os.path.join(folder, f"out{code}")
            more = ["--fault", fault] if fault else []
            words = ["sbatch", "-W", "-N3", "-o", path, script, *program("all_reduce -b 8 -e 8"), *more]
            result = cluster.execute(words)
            with open(path, encoding="utf-8") as file:
                result.out = file.read()
            result.exits(code)
            equal([row.size for row in result.rows()], [8], "rows of the batch job")

"""The nccl backend in several processes, each with GPUs of its own (stand-ins): under mpirun and as torchrun starts
them. Whatever dies or fails, all end in time and report it once."""

import os
import re
import shlex
import signal
import tempfile

import gpus
import kit
import mpi
import tcp
from kit import COLLECTIVES, LONG, add, equal, expect, test

CORES = 1 / 2  # processes wait half of the time
WAYS = "ring,tree,busbench:ring,auto"
SOME = "-b 40 -e 40000 -f 30 -n 3"
BROKEN = f"all_reduce {SOME} -T {LONG} --algo auto,ring -R 1"
FOREVER = "all_reduce -b 8 -e 1K -n 50 -N 0"


# ---- all is well ---------------------------------------------------------------------------------


def under_mpirun(n, line, env=None):
    with gpus.shared() as shared:
        result = mpi.Job(mpi.words(n, line, program=gpus.built), {**shared, **(env or {})}).finish()
    return gpus.right(mpi.quiet(result))


def records(n, line, env=None):
    found = under_mpirun(n, line + " --json -", env).records()
    return found[0], [r for r in found if r["kind"] == "result"]


def everything(name, n):
    run, results = records(n, f"{name} {SOME} --algo {WAYS if name != 'hypercube' else 'auto'}")
    equal((run["backend"], run["nprocs"], run["nranks"]), ("nccl", n, n), "backend, processes, ranks")
    expect("MPI" in run["launch"] and run["library"].startswith("NCCL"), f"{run['launch']}, {run['library']}")
    equal([rank["device"] for rank in run["ranks"]], list(range(n)), "devices")
    equal(len({rank["pid"] for rank in run["ranks"]}), n, "processes")
    expect(all(r["wrong"] == 0 for r in results), "wrong results")
    ran = {r["algorithm"] for r in results}
    expect(name == "hypercube" or ran >= {"auto", "busbench:ring"}, f"{ran} ran")


for i, name in enumerate(COLLECTIVES):
    n = (4, 2)[i % 2] if name != "hypercube" else 4
    add(f"{name} -np {n}", everything, name, n, full=name not in ("all_reduce", "all_gather", "alltoallv"))


@test
def several_gpus_each():
    """Each process uses the GPUs after those of the earlier processes on its host."""
    run, results = records(2, f"reduce_scatter -g 3 {SOME} --algo {WAYS} -o sum,mulsum,bxor -d int32 -R 2")
    pids = [rank["pid"] for rank in run["ranks"]]
    equal([rank["device"] for rank in run["ranks"]], list(range(6)), "devices")
    expect(len(set(pids[:3])) == len(set(pids[3:])) == 1 and pids[0] != pids[3], f"processes {pids}")
    expect(all(r["wrong"] == 0 for r in results), "wrong results")


@test(full=True)
def features():
    for line, env in (("-G 2 -m 2", {}), ("-I 1", {}), ("-z 1", {}), ("", {"NCCL_TESTS_SPLIT": "MOD 2"})):
        _, results = records(4, f"all_reduce {SOME} --algo {WAYS} {line}", env)
        expect(results and all(r["wrong"] == 0 for r in results), f"wrong results of {line} {env}")


@test
def too_many_gpus():
    """The requests of all processes of a host are added, and reported once."""
    with gpus.shared() as shared:
        result = mpi.Job(mpi.words(3, "all_reduce -g 3 -b 8 -e 8", program=gpus.built), shared).finish()
    mpi.told_once(result.exits(2), "9 GPUs", "only 8 exist")


@test
def finds_what_is_corrupt():
    with gpus.shared() as shared:
        line = f"all_reduce {SOME} --fault corrupt:1"
        result = mpi.Job(mpi.words(2, line, program=gpus.built), shared).finish().exits(7)
    result.require(all(half.wrong == "1" for row in result.rows() for half in row.halves), "not found")


def without_mpi(n, line):
    with gpus.shared() as shared:
        results = tcp.Job(n, line + " --json -", program=gpus.built, **shared).finish()
    for result in results.values():
        result.exits(0).quiet()
    found = results[0].records()
    equal((found[0]["backend"], found[0]["nprocs"]), ("nccl", n), "backend, processes")
    equal([rank["device"] for rank in found[0]["ranks"]], list(range(found[0]["nranks"])), "devices")
    rows = [r for r in found if r["kind"] == "result"]
    expect(rows and all(r["wrong"] == 0 for r in rows), "wrong or no results")


for name, n in (("all_reduce", 4), ("alltoall", 2)):
    add(f"{name}, {n} processes without MPI", without_mpi, n, f"{name} {SOME} --algo {WAYS}")
add("2 processes of 2 GPUs without MPI", without_mpi, 2, f"all_gather -g 2 {SOME} --algo {WAYS}")


# ---- whose GPUs ----------------------------------------------------------------------------------


def each_its_own(n, line, **common):
    """A launcher may show each process only its own GPU, as device 0."""
    changed = {rank: {"BUSBENCH_FAKE_GPUS": "1", "BUSBENCH_FAKE_FIRST": str(rank)} for rank in range(n)}
    with gpus.shared() as shared:
        return tcp.Job(n, line, changed, program=gpus.built, **shared, **common).finish()


@test
def sees_its_own_only():
    results = each_its_own(3, f"all_reduce {SOME} --algo {WAYS} --json -")
    found = results[0].exits(0).records()
    equal([rank["device"] for rank in found[0]["ranks"]], [0, 0, 0], "devices")
    equal(len({rank["bus"] for rank in found[0]["ranks"]}), 3, "places")


def contexts(result):
    """The devices on which a process had a context; one on another's device would take memory there, and fail with
    exclusive GPUs."""
    found = re.findall(r"^fake: contexts on devices:((?: \d+)*)$", result.exits(0).err, re.M)
    result.require(len(found) == 1 and result.err.count("\n") == 1, "something else on stderr")
    return [int(device) for device in found[0].split()]


EACH = (  # that has calls of CUDA of its own
    "all_reduce -b 40 -e 40000 -f 30 -n 3 --algo ring,tree,busbench:ring,auto -o sum,mulsum,bxor -d int32",
    "all_reduce -b 40 -e 4000 -f 30 -n 3 -I 1 -M 1 -R 2",
    "all_gather -b 40 -e 4000 -f 30 -n 3 -G 2 -m 2 -R 1",
    "alltoall -b 40 -e 4000 -f 30 -n 3 -y 1 -z 1",
    "ddp_bucket --model resnet50 --compute spin -n 1 -w 0",
    "zero --model 1M -n 1 -w 0",
)


@test(full=True)
def one_gpu_is_the_only_one():
    """A process with GPU 3 never creates a context on another GPU, not even GPU 0."""
    third = {"NCCL_TESTS_DEVICE": "3", "BUSBENCH_FAKE_CONTEXTS": "1"}
    for line in (*EACH, "p2p_bandwidth -b 4K -e 4K -n 3", "mem_bandwidth -b 64K -e 64K -n 3"):
        equal(contexts(gpus.run(f"{line} --backend nccl", third)), [3], f"devices of {line}")
    line = "p2p_bandwidth -g 2 -b 4K -e 4K -n 3 --p2p on --backend nccl"
    equal(contexts(gpus.run(line, third)), [3, 4], f"devices of {line}")


def each_on_its_own(n, line):
    with gpus.shared() as shared:
        results = tcp.Job(n, line, program=gpus.built, **shared, BUSBENCH_FAKE_CONTEXTS="1").finish()
    equal({rank: contexts(result) for rank, result in results.items()}, {rank: [rank] for rank in range(n)}, "devices")


for line in EACH[:2]:
    add(f"contexts of 8 processes: {line}", each_on_its_own, 8, line, full=True)


@test
def same_gpu_twice():
    """Refused once with both numbers, unless NCCL allows it or counts the processes as several hosts."""
    one = {"BUSBENCH_FAKE_GPUS": "1"}
    for n, gpus_each, env, said in (
        (2, 1, one, ("2 GPUs are requested", "see 1:")),
        (3, 2, {"BUSBENCH_FAKE_GPUS": "2"}, ("6 GPUs are requested", "see 2:")),
        (2, 1, {**one, "NCCL_HOSTID": "same"}, ("2 GPUs are requested", "see 1:")),
    ):
        line = f"all_reduce -g {gpus_each} {SOME}"
        with gpus.shared() as shared:
            result = mpi.Job(mpi.words(n, line, program=gpus.built), {**shared, **env}).finish()
        mpi.told_once(result.exits(2), *said)
        with gpus.shared() as shared:
            results = tcp.Job(n, line, program=gpus.built, **shared, **env).finish()
        tcp.told_once(results, *said, code=2)
    records(2, f"all_reduce {SOME}", {**one, "NCCL_MULTI_RANK_GPU_ENABLE": "1"})
    changed = {rank: {"NCCL_HOSTID": str(rank)} for rank in range(2)}
    with gpus.shared() as shared:
        results = tcp.Job(2, f"all_reduce {SOME}", changed, program=gpus.built, **shared, **one).finish()
    gpus.right(results[0])


@test
def shares_memory():
    """Two processes that share 8 MB plan with half each: 80 percent of 4 MB are less than two buffers of 2 MiB."""
    env = {"BUSBENCH_FAKE_GPUS": "1", "BUSBENCH_FAKE_BYTES": "8000000", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    for more in ({}, {"NCCL_TESTS_DEVICE": "0"}):
        _, results = records(2, "all_reduce -b 1M -e 2M -n 2", {**env, **more})
        equal({r["size_bytes"] for r in results}, {1 << 20}, "sizes that ran")


@test
def not_all_can():
    """No rank uses what one GPU or library lacks: f8e4m3 is reduced from 9.0 on, PAT exists from 2.23 on, ncclAlltoAll
    from 2.28 on."""
    changed = {1: {"BUSBENCH_FAKE_CAPABILITY": "80"}, 2: {"BUSBENCH_FAKE_VERSION": "22200"}}
    line = "-b 4000 -e 4000 -n 2 -d f8e4m3,half --algo ring,pat,auto --json -"
    with gpus.shared() as shared:
        results = tcp.Job(3, f"reduce_scatter {line}", changed, program=gpus.built, **shared).finish()
    found = results[0].exits(0).records()
    ran = {(r["dtype"], r["algorithm_asked"]): r["algorithm"] for r in found if r["kind"] == "result"}
    equal(ran["half", "auto"], "auto", "half")
    expect(ran["f8e4m3", "auto"] != "auto", "f8e4m3 ran as what one of the GPUs cannot do")
    skipped = {(r["dtype"], r["algorithm"]): r["reason"] for r in found if r["kind"] == "skip"}
    expect("from 2.23 on" in skipped["half", "pat"], f"{skipped}")
    with gpus.shared() as shared:
        results = tcp.Job(3, f"alltoall {SOME} -T {LONG}", changed, program=gpus.built, **shared).finish()
    gpus.right(results[0])


def on_different(words, env):
    """Two processes under mpirun, the second without a GPU."""
    line = [gpus.built("all_reduce_perf"), "-b", "8", "-e", "8", *words]
    with gpus.shared() as shared:
        job = mpi.Job(["mpirun", "-np", "1", *line, ":", "-np", "1", "env", *env, *line], shared)
        return job.finish()


@test
def no_gpu():
    """Without GPUs the backend is mpi, with a reason; either all processes have GPUs or none."""
    none = "BUSBENCH_FAKE_GPUS=0"
    why = "the nccl backend finds no GPU"
    result = under_mpirun(2, "all_reduce -b 8 -e 8", dict([none.split("=")]))
    result.prints(f"# Backend mpi was chosen: mpirun started this, and {why}")
    result = on_different([], [none]).exits(2)
    mpi.told_once(result, "backend of process 1", "mpi instead of nccl", "--backend")
    mpi.told_once(on_different(["--backend", "nccl"], [none]).exits(3), "process 1", why)


# ---- a process dies ------------------------------------------------------------------------------


def killed(rank):
    line = f"{FOREVER} -T {LONG}"
    with gpus.shared() as shared, mpi.running(3, line, program=gpus.built, env=shared) as (job, folder):
        os.kill(job.ranks()[rank], signal.SIGKILL)
        result = mpi.ended(job)
        mpi.keeps_rows(folder)
    result.exits(137).require(len(mpi.sentences(result)) <= 1, "more than one cause")


def killed_without_mpi(rank):
    with gpus.shared() as shared, tcp.running(3, f"{FOREVER} -T {LONG}", program=gpus.built, **shared) as (job, table):
        job.processes[rank].kill()
        results = job.finish()
        tcp.keeps_rows(table)
    tcp.told_once(results, f"rank {rank} (", "is gone", code=3)


for rank in (0, 2):
    add(f"rank {rank} is killed", killed, rank, full=rank == 0)
    add(f"rank {rank} is killed without MPI", killed_without_mpi, rank, full=rank == 0)


@test
def stopped():
    """The others wait on their GPUs for a rank stopped by SIGSTOP."""
    line = f"{FOREVER} -T {kit.BRIEF}"
    with gpus.shared() as shared, mpi.running(3, line, program=gpus.built, env=shared) as (job, folder):
        os.kill(job.ranks()[1], signal.SIGSTOP)
        mpi.told_once(mpi.ended(job), "1").exits(4)
        equal(mpi.keeps_rows(folder)[-1]["kind"], "end", "last record")


def leaves(fault, code, *said):
    timeout = kit.BRIEF if code == 4 else LONG
    with gpus.shared() as shared:
        line = f"all_reduce -b 8 -e 1M -T {timeout} --fault {fault}"
        result = mpi.ended(mpi.Job(mpi.words(3, line, program=gpus.built), shared))
    mpi.told_once(result.exits(code), *said)


add("rank 0 dies", leaves, "die:0", 3, "rank 0 ended", full=True)
add("rank 2 dies", leaves, "die:2", 3, "rank 2 ended")
add("rank 1 is late", leaves, "slow:1:60s", 4, "had not: 1")


# ---- a call fails in one process -----------------------------------------------------------------


def fails(rank, failure):
    """The first cause is reported once, whoever waits where, and all exit 3 in time."""
    call = failure.split(":")[0]
    with gpus.shared() as shared:
        changed = {rank: {"BUSBENCH_FAKE_FAIL": failure}}
        results = tcp.Job(3, BROKEN, changed, program=gpus.built, **shared).finish()
    tcp.told_once(results, f"rank {rank}", call, "failed in src/backends/nccl/", code=3)


CALLS = (
    "cudaMalloc:1 ncclCommInitRankConfig:1 ncclCommInitRankConfig:2 ncclMemAlloc:1 ncclCommRegister:1 "
    "ncclAllReduce:1 ncclAllReduce:20 cudaStreamQuery:100 ncclCommDestroy:1 ncclCommDestroy:2 ncclMemFree:1 cudaFree:1"
)
FEW = ("ncclCommInitRankConfig:2", "ncclAllReduce:20", "ncclMemFree:1")
for call in CALLS.split():
    for rank in (0, 2):
        add(f"{call} fails at rank {rank}", fails, rank, call, full=rank == 0 or call not in FEW)


def fails_under_mpirun(rank, failure):
    with gpus.shared() as shared, tempfile.TemporaryDirectory() as folder:
        words = mpi.words(3, BROKEN, program=gpus.built)
        at = next(i for i, word in enumerate(words) if word.endswith("_perf"))
        export = f"export BUSBENCH_FAKE_FAIL={shlex.quote(failure)}"
        script = kit.write_program(os.path.join(folder, "one_fails"),
                                   f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != {rank} ] || {export}\nexec "$@"\n')  # fmt: skip
        result = mpi.ended(mpi.Job([*words[:at], script, *words[at:]], shared))
    mpi.told_once(result.exits(3), f"rank {rank}", failure.split(":")[0], "failed in src/backends/nccl/")


for call in ("ncclCommInitRankConfig:1", "ncclAllReduce:20", "ncclCommDestroy:1"):
    add(f"{call} fails at rank 1 under mpirun", fails_under_mpirun, 1, call, full=call != "ncclAllReduce:20")

"""Several hosts, simulated on this machine: places, traffic between them, clocks."""

import os
import tempfile

import gpus
import kit
import mpi
import tcp
from accept import count_launched
from hosts import Hosts, Link
from kit import equal, expect, test

CORES = 1 / 2  # processes that mostly wait for each other


def hosts_of(run):
    return [rank["host"] for rank in run["ranks"]]


@test
def three_hosts():
    """One rank or two on each; every algorithm crosses between hosts."""
    mpi.need()
    with Hosts(3) as hosts:
        for slots, names in ((1, ("all_reduce", "alltoall", "broadcast")), (2, ("all_reduce",))):
            n = 3 * slots
            for name in names:
                line = f"{name} -b 1 -e 90000 -f 90000 -n 1 -w 0 --algo all"
                run, rows = mpi.measured(n, line, hosts=hosts, slots=slots)
                equal(hosts_of(run), [f"h{1 + rank // slots}" for rank in range(n)], "hosts of the ranks")
                expect(len({row["algorithm"] for row in rows}) > 3, "few algorithms")
        text = mpi.run(3, "all_reduce -b 8 -e 8", hosts=hosts).exits(0)
        text.prints(" on         h1 ", " on         h2 ", " on         h3 ")


@test
def steps_of_a_profile():
    mpi.need()
    with Hosts(3) as hosts:
        count_launched(hosts, "mpirun", "mpirun -np {} -N {} ", f"launcher_args: --host {hosts.names(2)}\n")


@test
def groups_across_hosts():
    """A group per host, two ranks each."""
    mpi.need()
    with Hosts(3) as hosts:
        env = {"NCCL_TESTS_SPLIT": "DIV 2"}
        _, records = mpi.measured(6, "all_reduce -b 64K -e 64K", env, hosts=hosts, slots=2)
    for record in records:
        equal((record["groups"], len(record["group_time_us"])), ([0, 1, 2], 3), "groups")


@test
def a_slow_link():
    """Right results over a link that drops and delays packets."""
    mpi.need()
    with Hosts(3, links={3: Link(rate="100mbit")}) as hosts:
        mpi.measured(3, "all_reduce -b 64K -e 1M -f 16 -n 2 --algo ring,tree,native", hosts=hosts)


@test
def gpus_of_several_hosts():
    """All GPUs of each host at once, with NCCL and without it; a place begins with its host."""
    line = "mem_bandwidth -g 2 -b 4K -e 4K -n 1 --work copy --workers all --backend nccl --json -"
    apart = {rank: {"NCCL_HOSTID": str(rank)} for rank in range(2)}
    for nccl in ("0", "1"):
        with Hosts(2) as hosts, tempfile.TemporaryDirectory(prefix="bb") as folder:
            env = {"BUSBENCH_FAKE_NCCL": nccl, "BUSBENCH_FAKE_REGION": os.path.join(folder, "region")}
            job = tcp.Job(2, line, apart, hosts=hosts, master="h1", program=gpus.built, **env)
            pairs = job.finish()[0].exits(0).by_kind()["pair"]
        equal({(r["place"], r["workers"], r["wrong"]) for r in pairs}, {("h1 GPUs", 2, 0), ("h2 GPUs", 2, 0)}, "places")


CLOCK = "import time; print(time.monotonic())"


@test
def clocks_that_differ():
    """One host's clock is 1000 s ahead; arrivals are still compared on one clock."""
    mpi.need()
    if not os.path.exists("/proc/self/ns/time"):
        raise kit.Skipped("this kernel has no time namespaces")
    with Hosts(3, clocks={2: 1000}) as hosts:
        clocks = [float(hosts.execute(["python3", "-c", CLOCK], host=host).exits(0).out) for host in (1, 2)]
        expect(abs(clocks[1] - clocks[0] - 1000) < 10, f"clocks of h1 and h2: {clocks}")
        run, rows = mpi.measured(3, "all_reduce -b 8 -e 64K -f 64 --algo ring,native", hosts=hosts)
        _, late = mpi.measured(3, "all_reduce -b 8 -e 8 -n 5 --fault slow:2:20ms", hosts=hosts)
    expect(run["clock_uncertainty_us"] > 0, f"uncertainty of the run: {run['clock_uncertainty_us']}")
    for row in rows + late:
        expect(0 <= row["skew_p50_us"] <= row["skew_max_us"] < 1e6, f"skew: {row['skew_p50_us']} … {row['skew_max_us']}")
        expect(0 < row["clock_uncertainty_us"] < 1e6, f"uncertainty: {row['clock_uncertainty_us']}")
    for row in late:
        expect(row["last_rank"] == 2 and row["last_late_us"] > 1e4, f"{row['last_rank']=} {row['last_late_us']=}")

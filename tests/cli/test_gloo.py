"""The gloo backend on one machine, as torchrun starts it and as threads: right results, refusals, what dies."""

import os
import re
import signal
import socket
from types import SimpleNamespace

import kit
import mpi
from accept import Folder, profile, step
from kit import COLLECTIVES, LONG, add, built, equal, expect, passes, run, test
from hosts import Hosts
from tcp import TIMEOUT, Job, running, told_once

CORES = 1  # each rank has a thread of Gloo beside its driver, but they mostly wait for each other

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}
SWEEP = "--backend gloo -b 1 -e 90000 -f 300 -n 1 -w 0 --algo all"
FOREVER = "all_reduce --backend gloo -b 8 -e 64K -n 5 -N 0"


def needs_gloo():
    if not os.path.exists(os.path.join(kit.Settings.build, "backends", "gloo.so")):
        raise kit.Skipped("the gloo backend was not built")


def needs_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        raise kit.Skipped(f"no IPv6 here: {error}") from error


def by_threads(line, ranks):
    needs_gloo()
    return passes(f"{line} -t {ranks}", LOOPBACK)


def by_processes(n, line, **options):
    """Process 0's result of a run without faults."""
    needs_gloo()
    results = Job(n, line, **LOOPBACK, **options).finish()
    for result in results.values():
        result.exits(0).quiet().right()
    return results[0]


# ---- results -------------------------------------------------------------------------------------


def everything(name, ranks):
    """busbench's and Gloo's algorithms, at sizes that the ranks do not divide or below their number."""
    result = by_threads(f"{name} {SWEEP}", ranks)
    ran = {row.algorithm for row in result.rows()}
    result.require("native" in ran or name in WITHOUT_NATIVE, f"only {sorted(ran)} ran")


WITHOUT_NATIVE = "reduce_scatter sendrecv hypercube".split()

for name in COLLECTIVES:
    add(name, everything, name, 4 if name == "hypercube" else 3)


@test
def roots():
    for name in ("broadcast", "reduce", "gather", "scatter"):
        by_threads(f"{name} --backend gloo --algo native,ring -r all -b 1000 -e 1000 -n 1 -w 0", 3)


def types_and_operations(n, choice):
    """What Gloo's all_reduce and a schedule reduce."""
    line = f"all_reduce --backend gloo --algo native,native:bcube,ring {choice} -b 1000 -e 1000 -n 1 -w 0"
    result = by_processes(n, line)
    expect({row.algorithm for row in result.rows()} == {"native", "native:bcube", "ring"}, str(result))


add("each type", types_and_operations, 2, "-d all -o sum")
add("each operation", types_and_operations, 3, "-d int32 -o all")
add("each type and operation", types_and_operations, 4, "-d all -o all", full=True)


@test
def ring_beside_tree():
    result = by_processes(4, "all_reduce --backend gloo --algo ring,tree -b 1K -e 1M -f 32 -n 2 -w 1 --json -")
    records = result.by_kind()
    expect({r["algorithm"] for r in records["result"]} == {"ring", "tree"}, str(result))
    library = records["run"][0]["library"]
    for word in ("Gloo", "127.0.0.1", "GLOO_SOCKET_IFNAME=lo"):
        expect(word in library, f"{word!r} is not in {library!r}")


@test
def queues_and_messages():
    """Messages of queues, from any member too, and collectives of groups beside computations."""
    for name, n in (("moe_alltoall", 2), ("pipeline", 3), ("hybrid_parallel", 4)):
        by_processes(n, f"{name} --backend gloo -n 1 -w 0").prints("verdict: passed")


@test
def diagnosis():
    """All pairs are measured; a busy machine may look slow, or too busy to judge."""
    needs_gloo()
    words = [built("diagnose"), *"--backend gloo -t 3".split()]
    kit.execute(words, LOOPBACK).exits(0, 3, 7).prints("round trip of 8 bytes", "# verdict: ")


@test
def accepted():
    """A step of threads and one of mpirun's processes, whose data is right."""
    needs_gloo()
    mpi.need()
    run_line = "all_reduce_perf --backend gloo --algo ring,native -b 64K -e 64K -n 2"
    steps = step(f"{run_line} -t 3"), step(run_line, name="b", more="    launcher: mpirun\n")
    with Folder() as folder:
        folder.run(folder.profile(profile(*steps, more="ranks: 3\n")), env={**mpi.LOCAL, **LOOPBACK}).exits(0)
        gates = folder.verdict()["gates"]
    equal([(gate["step"], gate["verdict"]) for gate in gates], [("a", "passed"), ("b", "passed")], "correctness")


@test
def address_of_master():
    """Without GLOO_SOCKET_IFNAME the address is the one that leads to process 0."""
    needs_gloo()
    results = Job(2, "all_reduce --backend gloo -b 8 -e 8 -n 1", master="127.0.0.1").finish()
    results[0].exits(0).prints("at 127.0.0.1 (route to MASTER_ADDR=127.0.0.1)")


@test
def pairs():
    """Routes: transfers with verified data, both ways at once, and words back and forth."""
    for line in ("p2p_bandwidth -b 1M -e 1M -n 1 -w 0 --direction bidirectional", "p2p_latency -n 1 -w 0"):
        by_processes(2, f"{line} --backend gloo").prints("message (P2P off)", "verdict: passed")


@test
def all_to_one_and_back():
    """One rank with all others at once, each with a part of its own; corrupted parts are counted at their receivers."""
    for direction, wrong in (("all-to-one", [0, 2, 0]), ("one-to-all", [1, 0, 1])):
        line = f"p2p_bandwidth --backend gloo -b 3000 -e 300K -f 100 -n 2 -w 0 --direction {direction} --json -"
        found = by_processes(3, line).by_kind()["pair"]
        equal({(r["route"], r["direction"], r["wrong"]) for r in found}, {("message", direction, 0)}, "records")
        equal(len(found), 2 * 3, "sizes of each rank")
        line = f"p2p_bandwidth --backend gloo -t 3 -b 3K -e 3K -n 1 --direction {direction} --fault corrupt:1 --json -"
        found = run(line, LOOPBACK).exits(7).by_kind()["pair"]
        equal([r["wrong"] for r in found], wrong, f"wrong bytes of {direction}")


@test
def many_connections():
    """More than the usual limit of open files allows, of which 64 ranks would need 8000."""
    needs_gloo()
    words = [built("all_reduce_perf"), *"--backend gloo -t 6 -b 8 -e 8 -n 1 -w 0".split()]
    kit.execute(["sh", "-c", 'ulimit -Sn 48; exec "$0" "$@"', *words], LOOPBACK).exits(0).right()


# ---- several hosts -------------------------------------------------------------------------------


@test
def on_several_hosts():
    """Each host uses the address that leads to process 0; clocks that differ are compared by pings."""
    needs_gloo()
    with Hosts(3, clocks={2: 5}) as hosts:
        results = Job(3, "all_reduce --algo ring,native -b 8 -e 64K -f 64 -n 2 -w 0", hosts=hosts, master="h1").finish()
    for result in results.values():
        result.exits(0).quiet().right()
    results[0].prints("Backend gloo was chosen", "at 10.77.0.1 (route to MASTER_ADDR=h1)", "clocks within")


@test
def loopback_between_hosts():
    needs_gloo()
    with Hosts(2) as hosts:
        results = Job(2, "all_reduce -b 8 -e 8", hosts=hosts, master="h1", **LOOPBACK).finish()
    told_once(results, "announces the loopback address 127.0.0.1", "h2", "set GLOO_SOCKET_IFNAME", code=2)
    with Hosts(2) as hosts:
        two_each = SimpleNamespace(spawn=lambda words, host: hosts.spawn(words, host=(host + 1) // 2))
        results = Job(4, "all_reduce -b 8 -e 8", hosts=two_each, changed={1: LOOPBACK}, master="h1").finish()
    told_once(results, "rank 1 (h1) announces the loopback address 127.0.0.1, which rank 2 (h2)", code=2)


@test
def other_families():
    """An IPv4 address and an IPv6 one are refused before they connect."""
    needs_gloo()
    needs_ipv6()
    others = {1: {"MASTER_ADDR": "::1", "GLOO_SOCKET_IFNAME": None}}
    line = "all_reduce --backend gloo -b 8 -e 8"
    results = Job(2, line, changed=others, master="127.0.0.1", **LOOPBACK, BUSBENCH_SECRET="0123456789abcdef").finish()
    told_once(results, "ranks 0 (", ", 127.0.0.1) and 1 (", ", ::1) announce addresses of different families", code=2)


@test(full=True)
def a_host_is_cut_off():
    needs_gloo()
    with Hosts(3) as hosts, running(3, f"{FOREVER} --algo native -T {TIMEOUT}", hosts=hosts, master="h1") as (job, _):
        hosts.cut(3)
        results = job.finish()
    told_once({rank: results[rank] for rank in (0, 1)}, "did not end within", "rank 2", code=4)


@test
def threads_of_processes():
    """2 processes of 2 threads, over IPv6."""
    needs_gloo()
    needs_ipv6()
    results = Job(2, "all_reduce -t 2 -b 8 -e 64K -f 64 -n 1 -w 0 --algo ring,native", master="::1").finish()
    for result in results.values():
        result.exits(0).quiet().right()
    results[0].prints("ranks: 4 ", "at ::1 (route to MASTER_ADDR=::1)")


@test
def groups():
    """Two groups at the same time, each with connections of its own."""
    split = {"NCCL_TESTS_SPLIT": "MOD 2"}
    by_processes(4, "all_gather --backend gloo -b 8 -e 64K -f 64 -n 1 -w 0 --algo ring,native", **split).prints("Group  1")


# ---- launchers -----------------------------------------------------------------------------------


@test
def under_mpirun():
    """MPI's launch carries what ranks exchange before Gloo connects them; auto stays mpi."""
    needs_gloo()
    line = "all_reduce -b 8 -e 64K -f 64 -n 1 -w 0"
    result = mpi.passes(3, f"{line} --backend gloo --algo ring,native", LOOPBACK)
    result.prints("ranks: 3 ", "at 127.0.0.1 (GLOO_SOCKET_IFNAME=lo)")
    mpi.passes(2, line, LOOPBACK).prints("backend=mpi")


# ---- refusals ------------------------------------------------------------------------------------


@test
def refused_as_documented():
    """Each row of the table in docs/gloo.md."""
    needs_gloo()
    with open(os.path.join(kit.ROOT, "docs", "gloo.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `(\S+_perf.*|\w+=\S+ .*)` \| (.*) \| (\d) \|$", file.read(), re.M)
    expect(len(rows) >= 10, f"{len(rows)} rows")
    for command, reason, code in rows:
        settings, name, line = re.fullmatch(r"((?:\w+=\S+ )*)(\w+)_perf(.*)", command).groups()
        env = {**LOOPBACK, **dict(setting.split("=", 1) for setting in settings.split())}
        run(f"{name} --backend gloo -t 2 -b 8 -e 8{line}", env).exits(int(code)).says(reason)


@test
def skipped_beside_what_runs():
    needs_gloo()
    run("reduce_scatter --backend gloo -t 2 -b 8 -e 8 --algo native,ring", LOOPBACK).exits(0).prints("Gloo has no such collective")
    run("all_reduce --backend gloo -b 8 -e 8 --algo native,ring", LOOPBACK).exits(0).prints("Gloo connects at least two ranks")


# ---- what dies -----------------------------------------------------------------------------------


def killed(algorithm):
    needs_gloo()
    with running(3, f"{FOREVER} --algo {algorithm} -T {LONG}", **LOOPBACK) as (job, _):
        job.processes[2].kill()
        results = job.finish()
    told_once(results, "rank 2 (", "is gone: its process ended without reporting a cause", code=3)


for algorithm in ("ring", "native"):
    add(f"a rank is killed in {algorithm}", killed, algorithm)


def dies(rank, algorithm):
    """The one that is gone is named, not the one that noticed."""
    needs_gloo()
    line = f"all_reduce --backend gloo -b 8 -e 1M -T {LONG} --algo {algorithm} --fault die:{rank}"
    results = Job(4, line, **LOOPBACK).finish()
    said = [text for result in results.values() for text in result.err.splitlines() if "_perf: " in text]
    expect(len(said) == 1 and re.search(rf"_perf: rank {rank} (ended before|\(.* is gone)", said[0]), f"{said}")


for rank, algorithm in ((2, "native"), (2, "ring"), (0, "native")):
    add(f"rank {rank} dies in {algorithm}", dies, rank, algorithm)


@test
def told_to_end():
    """One rank alone gets a signal."""
    needs_gloo()
    with running(4, f"{FOREVER} --algo native -T {LONG}", **LOOPBACK) as (job, _):
        job.processes[2].send_signal(signal.SIGTERM)
        results = job.finish()
    told_once({rank: results[rank] for rank in (0, 1, 3)}, "rank 2 (", "was ended by signal 15", code=3)


@test
def stopped():
    needs_gloo()
    with running(3, f"{FOREVER} --algo ring -T {TIMEOUT}", **LOOPBACK) as (job, _):
        job.processes[1].send_signal(signal.SIGSTOP)
        kit.wait_for(lambda: all(job.processes[rank].poll() is not None for rank in (0, 2)), "the others end")
        job.processes[1].kill()
        results = job.finish()
    told_once(results, "did not end within", "rank 1", code=4)

"""Several processes without MPI: torchrun's variables, on this machine and on several hosts. Whatever dies, is missing
or does not fit, all end in time and report it once."""

import contextlib
import os
import signal
import socket
import time

import kit
from hosts import Hosts
from kit import LONG, add, built, equal, expect, run, test
from tcp import TIMEOUT, Job, everything, free_port, keeps_rows, running, told_once

CORES = 1 / 4  # processes mostly wait in vain

# Runs with BRIEF use up their time limit, or the half of it for joining.
SMALL = f"all_reduce -b 8 -e 64 --backend null -T {LONG}"
BRIEF = f"all_reduce -b 8 -e 64 --backend null -T {TIMEOUT}"
FOREVER = f"all_reduce -b 8 -e 1K -n 50 -N 0 --backend null -T {LONG}"
BRIEF_FOREVER = f"all_reduce -b 8 -e 1K -n 50 -N 0 --backend null -T {TIMEOUT}"
SECRET = "a secret of tests"


def passed(results, n):
    for rank, result in results.items():
        result.exits(0).quiet()
        result.require(rank == 0 or not result.out, f"process {rank} prints")
    results[0].prints(f"ranks: {n} ")
    expect(len(results[0].rows()) == 4, str(results[0]))


def outcome(n, line=SMALL, **options):
    return Job(n, line, **options).finish()


def brief_outcome(n, **options):
    return outcome(n, BRIEF, **options)


# ---- all is well ---------------------------------------------------------------------------------


def runs(n, master="localhost", **common):
    passed(outcome(n, master=master, **common), n)


for n in (1, 2, 4):
    add(f"{n} processes", runs, n)
add("by IPv4 address", runs, 2, "127.0.0.1")


@test
def by_ipv6_address():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        raise kit.Skipped(f"no IPv6 here: {error}")
    runs(2, "::1")


@test
def without_local_rank():
    runs(3, changed={rank: {"LOCAL_RANK": None} for rank in range(3)})


@test
def on_a_port_of_its_own():
    port = str(free_port())
    with socket.socket() as taken:  # MASTER_PORT + 1
        taken.bind(("", 0))
        taken.listen()
        runs(2, BUSBENCH_PORT=port, MASTER_PORT=str(taken.getsockname()[1] - 1))


@test
def one_after_the_other():
    """A port can be used again at once."""
    port = str(free_port())
    for _ in range(3):
        runs(2, BUSBENCH_PORT=port)


def connects(port, crowd):
    try:
        crowd.append(socket.create_connection(("127.0.0.1", port), kit.LIMIT))
    except ConnectionRefusedError:
        return False
    return True


@test
def among_strangers():
    """A port scanner, a browser and a silent connection do not keep the others out."""
    port = free_port()
    job = Job(3, SMALL, lines={2: None}, BUSBENCH_PORT=str(port))
    crowd = []
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 5000, b"\0" * 136, b"H"):
        for _ in range(5):
            kit.wait_for(lambda: connects(port, crowd), "somebody listens")
            with contextlib.suppress(OSError):
                crowd[-1].sendall(said)
    late = Job(3, SMALL, lines={0: None, 1: None}, BUSBENCH_PORT=str(port))
    passed({**job.finish(), **late.finish()}, 3)
    for connection in crowd:
        connection.close()


@test
def on_several_hosts():
    with Hosts(3) as hosts:
        results = outcome(3, hosts=hosts, master="h1")
        passed(results, 3)
        for rank in range(3):
            results[0].prints(f" on         h{rank + 1} device")


# ---- who does not come, and who goes -------------------------------------------------------------


@test
def never_comes():
    told_once(brief_outcome(3, lines={2: None}), "1 of the 3 processes", "RANK 2", "half of -T", code=4)


@test
def process_0_never_comes():
    told_once(brief_outcome(3, lines={0: None}), "cannot reach process 0 at localhost", "MASTER_ADDR", code=4)


@test
def comes_late():
    """The others wait for it, for their share of the time."""
    port = str(free_port())
    early = Job(3, SMALL, lines={0: None}, BUSBENCH_PORT=port)
    time.sleep(0.8)
    late = Job(3, SMALL, lines={1: None, 2: None}, BUSBENCH_PORT=port)
    passed({**early.finish(), **late.finish()}, 3)


@test
def nowhere():
    told_once(brief_outcome(2, lines={0: None}, master="no.such.host.invalid"), "no.such.host.invalid", code=4)


def killed(rank):
    with running(3, FOREVER) as (job, table):
        job.processes[rank].kill()
        results = job.finish()
        keeps_rows(table)
    told_once(results, f"rank {rank} (", "is gone: its process ended without reporting a cause", code=3)


for rank in (0, 2):
    add(f"process {rank} is killed", killed, rank)


@test
def stopped():
    with running(3, BRIEF_FOREVER) as (job, table):
        job.processes[1].send_signal(signal.SIGSTOP)
        kit.wait_for(lambda: all(job.processes[rank].poll() is not None for rank in (0, 2)), "the others end")
        job.processes[1].kill()
        results = job.finish()
        keeps_rows(table)
    told_once(results, "did not end within", code=4)


def stopped_at_start(rank):
    """It connects and then stays silent."""
    port = str(free_port())
    job = Job(4, BRIEF, lines={other: None for other in range(4) if other != rank}, BUSBENCH_PORT=port)
    time.sleep(0.3)
    job.processes[rank].send_signal(signal.SIGSTOP)
    others = Job(4, BRIEF, lines={rank: None}, BUSBENCH_PORT=port).finish()
    job.processes[rank].kill()
    job.finish()
    told_once(others, "did not ", code=4)


add("stopped at start", stopped_at_start, 1)


@test
def process_0_is_stopped():
    """Whenever that happens, one process per host reports it."""
    jobs = []
    for ms in (0, 5, 10, 20, 40):
        job = Job(4, BRIEF_FOREVER)
        time.sleep(ms / 1000)
        job.processes[0].send_signal(signal.SIGSTOP)
        jobs.append((job, job.processes.pop(0)))
    for job, first in jobs:
        results = job.finish()
        first.kill()
        kit.finish(first)
        told_once(results, code=4)


@test
def interrupted():
    with running(3, FOREVER) as (job, table):
        job.processes[0].send_signal(signal.SIGTERM)
        results = job.finish()
        keeps_rows(table)
    told_once(results, "interrupted")


@test
def a_host_is_cut_off():
    with Hosts(3) as hosts, running(3, BRIEF_FOREVER, hosts=hosts, master="h1") as (job, table):
        hosts.cut(3)
        results = job.finish()
        keeps_rows(table)
    for rank in range(3):
        expect(results[rank].code != 0, str(results[rank]))
    told_once({rank: results[rank] for rank in (0, 1)}, "did not end within", code=4)


# ---- who does not fit ----------------------------------------------------------------------------


@test
def another_world_size():
    """With a secret it belongs to the run, which ends at once; without one it may be a stranger."""
    differs, said = {2: {"WORLD_SIZE": "4"}}, ("process 2 (", "has WORLD_SIZE 4, process 0 (", "has 3")
    told_once(outcome(3, changed=differs, BUSBENCH_SECRET=SECRET), *said, code=2)
    results = brief_outcome(3, changed=differs)
    results[0].exits(2).says(*said)
    results[1].exits(2).require(not results[1].err, "something on stderr")
    results[2].exits(2).says("has WORLD_SIZE 3, process 2 (", "has 4")


@test
def the_same_rank_twice():
    differs, said = {2: {"RANK": "1"}}, ("have the same RANK", "process 1 (")
    told_once(outcome(3, changed=differs, BUSBENCH_SECRET=SECRET), *said, code=2)
    results = brief_outcome(3, changed=differs)
    results[0].exits(2).says(*said, "RANK 2")
    twice = sorted(results[rank].err for rank in (1, 2))
    expect(not twice[0] and "rejected this process" in twice[1], everything(results))


@test
def rank_0_twice():
    results = brief_outcome(3, changed={2: {"RANK": "0", "LOCAL_RANK": "0"}})
    said = everything(results)
    expect("cannot listen on port" in said and "RANK=0" in said, said)
    for result in results.values():
        result.exits(3, 4)


@test
def port_in_use():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        results = brief_outcome(2, BUSBENCH_PORT=port)
    results[0].exits(3).says(f"port {port} (BUSBENCH_PORT)", "Address already in use")
    results[1].exits(4).says("cannot reach process 0")


@test
def another_command_line():
    results = outcome(3, lines={2: SMALL.replace("-e 64", "-e 128")})
    told_once(results, "the command line of process 2", '"128" instead of "64"', code=2)


@test
def another_environment():
    results = outcome(3, changed={1: {"BUSBENCH_ISA": "plain"}})
    told_once(results, "BUSBENCH_ISA of process 1", "plain", code=2)


def refused(env, *said):
    line = [built("all_reduce_perf"), "-b", "8", "-e", "8", "--backend", "null"]
    everywhere = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    env = {name: value for name, value in {**everywhere, **env}.items() if value is not None}
    result = kit.execute(line, env).exits(2).says(*said)
    equal(len(result.err.splitlines()), 1, "lines on stderr")


for env, *said in (
    ({"RANK": None}, "RANK is not set"),
    ({"WORLD_SIZE": None}, "WORLD_SIZE is not set"),
    ({"MASTER_ADDR": None}, "MASTER_ADDR is not set"),
    ({"MASTER_PORT": None}, "MASTER_PORT is not set"),
    ({"RANK": "2"}, "RANK=2", "0 to 1"),
    ({"RANK": "first"}, 'RANK="first"'),
    ({"WORLD_SIZE": "0"}, 'WORLD_SIZE="0"'),
    ({"MASTER_PORT": "99999"}, 'MASTER_PORT="99999"', "1 to 65535"),
    ({"MASTER_PORT": "65535"}, "MASTER_PORT=65535", "BUSBENCH_PORT"),
    ({"BUSBENCH_PORT": "x"}, 'BUSBENCH_PORT="x"'),
    ({"LOCAL_RANK": "2"}, 'LOCAL_RANK="2"'),
):
    add(f"refused: {env}", refused, env, *said)


@test
def which_backend():
    """host is one process: it serves a world of one and is refused in a larger one, which gloo serves where it is."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    run("all_reduce -b 8 -e 8 -g 2", alone).exits(0).prints("backend=host", "ranks: 2 ")
    has_gloo = os.path.exists(os.path.join(kit.Settings.build, "backends", "gloo.so"))
    for words in (" --backend host",) if has_gloo else ("", " --backend host"):
        result = run("all_reduce -b 8 -e 8" + words, {**alone, "WORLD_SIZE": "2"}).exits(2)
        result.says("host backend is one process", "WORLD_SIZE=2", "mpirun", "--backend gloo")
    if has_gloo:
        results = outcome(2, "all_reduce -b 8 -e 8", GLOO_SOCKET_IFNAME="lo")
        results[0].exits(0).prints("Backend gloo was chosen: torchrun started 2 processes")
    # Scripts often export everything but RANK; such a run is refused instead of running alone.
    run("all_reduce -b 8 -e 8", {"WORLD_SIZE": "2", "MASTER_ADDR": "h1"}).exits(2).says("RANK is not set")
    run("all_reduce -b 8 -e 8", {"MASTER_ADDR": "h1", "MASTER_PORT": "29500"}).exits(0)
    for words in ("--help", "--version", "--list", "--explain -g 2"):
        run("all_reduce " + words, {**alone, "WORLD_SIZE": "many"}).exits(0)

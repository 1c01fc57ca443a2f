"""Pairs of processes over MPI: every pair is right in each state of the library."""


import mpi
from kit import ALL, Skipped, equal, expect, test

CORES = 1  # the launcher mostly waits; its ranks poll, but yield

MECHANISM = "btl_vader_single_copy_mechanism"


def records(n, line, env=None, codes=(0,)):
    """{kind: [record…]} of a run under mpirun."""
    result = mpi.run(n, line + " --json -", env)
    result.exits(*codes)
    return result.by_kind()


@test
def single_copy_on():
    """Messages, and one end that reads or writes the other's window; with itself a private copy."""
    found = records(3, "p2p_bandwidth -b 100 -e 1M -f 100 -n 5 --p2p on")
    said = found["run"][0]["library_p2p"]
    expect(said.startswith("on (single copy: pml=ob1 btl=") and f" {MECHANISM}=" in said, said)
    for route, actor in (("send", "both"), ("get", "target"), ("put", "source")):
        mine = [r for r in found["pair"] if r["route"] == route]
        one = {(r["from"], r["to"]) for r in mine if r["direction"] == "unidirectional"}
        both = {(r["from"], r["to"]) for r in mine if r["direction"] == "bidirectional"}
        equal(one, {(a, b) for a in range(3) for b in range(3) if a != b or route != "send"}, f"pairs of {route}")
        equal(both, {(0, 1), (0, 2), (1, 2)}, f"pairs of {route} both ways")
        for r in mine:
            equal((r["p2p"], r["actor"], r["wrong"], r["ends"]), ("on", actor, 0, "core"), f"{route}")


@test
def all_to_one_and_back():
    """Messages of one process to and from all others at once, and all others' windows."""
    found = records(3, "p2p_bandwidth -b 1000 -e 3M -f 3000 -n 3 --direction all --p2p on")
    for direction, routes in (("all-to-one", {"send", "put"}), ("one-to-all", {"send", "get"})):
        mine = [r for r in found["pair"] if r["direction"] == direction]
        ends = {(r["route"], r["size_bytes"], r["from"], r["to"]) for r in mine}
        equal(len(ends), 2 * 2 * 3, direction)
        equal({r["route"] for r in mine}, routes, direction)
        equal({r["wrong"] for r in mine}, {0}, direction)
    found = records(3, "p2p_bandwidth -b 3K -e 3K -n 1 --direction one-to-all --fault corrupt:1", codes=(7,))
    equal({(r["from"], r["wrong"]) for r in found["pair"]}, {(0, 1), (1, 0), (2, 1)}, "wrong")


@test
def single_copy_off():
    """The library is configured before it starts and reports its state; routes that need a single copy are skipped."""
    for env in (None, {f"OMPI_MCA_{MECHANISM}": "cma"}):
        found = records(2, "p2p_bandwidth -b 1M -e 1M -n 5 --p2p off", env)
        said = found["run"][0]["library_p2p"]
        expect(said.startswith("off (shared memory, two copies: ") and said.endswith(f"{MECHANISM}=none)"), said)
        equal({(r["route"], r["p2p"], r["wrong"]) for r in found["pair"]}, {("send", "off", 0)}, "routes")
    env = {f"OMPI_MCA_{MECHANISM}": "none"}
    found = records(2, "p2p_bandwidth -b 1M -e 1M -n 5", env)
    equal({(r["route"], r["p2p"]) for r in found["pair"]}, {("send", "off")}, "routes where it is off")
    equal({r["algorithm"] for r in found["skip"]}, {"get", "put"}, "what is skipped")
    expect(MECHANISM in found["skip"][0]["reason"], "reason")


@test(full=True)
def no_shared_memory():
    """The state follows from the library's remaining transports, however they were selected; only messages remain."""
    for env in ({"OMPI_MCA_btl": "self,tcp"}, {"OMPI_MCA_btl": "^vader,ofi"}):
        for choice in ("", " --p2p off"):
            found = records(3, "p2p_bandwidth -b 100 -e 1M -f 100 -n 5" + choice, env)
            said = found["run"][0]["library_p2p"]
            expect(said.startswith("off (no shared memory: pml=ob1 btl=") and "tcp" in said, said)
            equal({(r["route"], r["p2p"], r["wrong"]) for r in found["pair"]}, {("send", "off", 0)}, "routes")
            equal({r["algorithm"] for r in found.get("skip", [])}, set() if choice else {"get", "put"}, "skipped")
    for r in records(2, "p2p_latency -n 20", {"OMPI_MCA_btl": "self,tcp"})["pair"]:
        equal((r["route"], r["p2p"]), ("message", "off"), "words")


@test(full=True)
def states_are_runs():
    """Each suggested prefix of the command gives another state of the library."""
    result = mpi.run(2, "p2p_bandwidth -b 8 -e 8 --p2p both").exits(2).says("Leave out --p2p")
    lines = [line.split() for line in result.err.splitlines() if line.startswith("  OMPI_MCA_")]
    states = []
    for setting, *_ in lines:
        found = records(2, "p2p_bandwidth -b 8 -e 8 -n 1", dict([setting.split("=", 1)]))
        states.append(found["run"][0]["library_p2p"].split(":")[0])
    equal(states, ["on (single copy", "off (shared memory, two copies", "off (no shared memory"], "states")


@test
def one_process_has_no_pair():
    mpi.run(1, "p2p_bandwidth -b 8 -e 8").exits(2).says("give -np 2")


@test
def words():
    for n in (2, 3):
        found = records(n, "p2p_latency -n 20")
        equal({(r["from"], r["to"]) for r in found["pair"]}, {(a, b) for b in range(n) for a in range(b)}, "pairs")
        for r in found["pair"]:
            equal((r["route"], r["quantity"]), ("message", "latency"), "record")
            expect(0 < r["min_us"] <= r["p50_us"] <= r["p99_us"], f"times of {r}")


@test(full=True)
def wrong_data():
    found = records(3, "p2p_bandwidth -b 100 -e 100 --fault corrupt:1", codes=(7,))
    for r in found["pair"]:
        hit = r["to"] == 1 or (r["direction"] == "bidirectional" and r["from"] == 1)
        equal(r["wrong"], int(hit), f"wrong of {r['route']} {r['from']} -> {r['to']}")


@test(cores=ALL)
def slow_link():
    """A link 20 times as slow is found; other findings are the machine's. On a busy machine too few rounds may be
    undisturbed to judge it, and nothing is found."""
    line = "p2p_bandwidth -b 256K -e 256K -n 350 --direction unidirectional --fault slow_link:0:1:20"
    for _ in range(3):
        texts = [f for f in records(2, line).get("finding", []) if f["finding"] == "asymmetry"]
        if texts:
            equal([(f["from"], f["to"]) for f in texts], [(0, 1)], "asymmetry")
            return
    raise Skipped("this machine is too busy to judge a pair")


@test
def dies():
    mpi.run(3, "p2p_bandwidth -b 8 -e 8 --fault die:1 -T 300").exits(3).says("rank 1")

"""Counters of hosts during a run: retransmits over a lossy link, and nothing on an idle one."""

import json

import kit
import mpi
from hosts import Hosts, Link
from kit import equal, expect, test

CORES = 1 / 2


def counters(text):
    return [record for record in map(json.loads, text.splitlines()) if record["kind"] == "counter"]


@test
def a_link_that_drops():
    """Packets dropped behind a slow link are sent again, which the sender's counters show."""
    mpi.need()
    line = "all_reduce -b 2M -e 2M -n 3"
    with Hosts(2, links={2: Link(rate="100mbit")}) as hosts:
        for _ in range(5):  # a sender without a processor may send too slowly to lose anything
            found = counters(mpi.run(2, line + " --json -", hosts=hosts).exits(0).out)
            text = mpi.run(2, line, hosts=hosts).exits(0)
            if found and "# Counters that rose" in text.out:
                break
    again = [record for record in found if record["counter"] == "RetransSegs"]
    expect(again, f"no retransmits: {found}")
    for record in found:
        expect(record["host"] in ("h1", "h2"), f"host: {record}")
        equal(record["moved"], record["after"] - record["before"], "what moved")
        expect(record["moved"] != 0, f"did not move: {record}")
    equal(len(found), len({(r["host"], r["device"], r["counter"]) for r in found}), "counters, each once")
    text.prints("# Counters that rose during the run", " tcp: RetransSegs rose by ", "of the segments sent)")


@test
def processes_of_one_host():
    """One process reports for its host."""
    mpi.need()
    found = counters(mpi.run(3, "all_reduce -b 8 -e 8 --json -").exits(0).out)
    equal(len(found), len({(r["device"], r["counter"]) for r in found}), "counters, each once")


@test
def no_counters_of_virtual_time():
    for backend in ("sim --link 10GB/s,5us", "null"):
        found = counters(kit.run(f"all_reduce -g 4 -b 8 -e 8 --backend {backend} --json -").exits(0).out)
        equal(found, [], f"counters of {backend}")

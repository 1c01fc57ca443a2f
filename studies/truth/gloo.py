"""Links between hosts with planted rates, measured over Gloo without MPI; part of make truth. See shaped.py for the
truth of a shaped link."""

import json
import os
import sys

import kit
import shaped
from hosts import Hosts, Link
from tcp import Job

# The bucket that shapes a link is full when a pair's turn begins, so its bytes count in short messages.
RUNS = (
    ("p2p_bandwidth", "-b 16M -e 16M -n 3 -w 1 --direction unidirectional", "pair", "GBps"),
    ("sendrecv", "-b 4M -e 8M -n 10 --algo ring", "result", "busbw_GBps"),
    ("all_reduce", "-b 64M -e 64M -n 1 -w 0 --algo ring", "result", "busbw_GBps"),
)


def measured(hosts, build, binary, arguments, kind):
    """Process 0's records of KIND, of a run with one process on each host."""
    job = Job(hosts.n, f"{binary} --backend gloo -T 300 {arguments} --json -", hosts=hosts, master="h1",
              program=lambda name: os.path.abspath(f"{build}/{name}"))  # fmt: skip
    done = job.finish()[0]
    if done.code != 0:
        sys.exit(str(done))
    records = [json.loads(line) for line in done.out.splitlines()]
    return [r for r in records if r["kind"] == kind and not r.get("in_place")]


def crosses(record, host):
    """Does what was measured use the link of HOST?"""
    return record["kind"] == "result" or host - 1 in (record["from"], record["to"])


def rate_rows(build):
    """One of three hosts has a slow link, both ways."""
    for rate in ("100mbit", "500mbit"):
        truth = shaped.framed(rate, shaped.MTU) / 1e6
        with Hosts(3, links={3: Link(rate)}, mtu=shaped.MTU) as hosts:
            for binary, arguments, kind, field in RUNS:
                for r in measured(hosts, build, binary, arguments, kind):
                    if not crosses(r, 3):
                        continue
                    pair = f" {r['from']} to {r['to']}" if kind == "pair" else ", 3 hosts"
                    speed = 1e3 * r[field]
                    yield [f"gloo {binary}{pair}, {r['size_bytes'] >> 20}M", f"link of h3 {rate}", f"{truth:.2f} MB/s",
                           f"{speed:.2f} MB/s", shaped.off(speed, truth)]  # fmt: skip


def delay_rows(build):
    """Where ring overtakes tree. A message of Gloo leaves once its receiver has asked for it."""
    with shaped.delayed_hosts(build) as hosts:
        found = measured(hosts, build, "all_reduce", shaped.BOTH_WINNERS, "result")
    yield from shaped.crossover_rows(build, found, shaped.DELAYED, "gloo ", asked=True)


def rows(build):
    """All rows; without simulated hosts or the backend a row with the reason."""
    if not os.path.exists(f"{build}/backends/gloo.so"):
        yield ["gloo", "nothing", "", "", "skipped: the gloo backend was not built"]
        return
    for part in (rate_rows, delay_rows):
        try:
            yield from part(build)
        except kit.Skipped as reason:
            yield ["gloo", "nothing", "", "", f"skipped: {reason}"]

"""Links between hosts with planted rates and delays; part of make truth.

The rate of a shaped link counts Ethernet frames as the kernel does, from the destination address to the end of the
data. A full frame of MTU + 14 bytes has MTU - 52 bytes of the program, because IP takes 20 and TCP with time stamps 32.
The truth is therefore rate * (MTU - 52) / (MTU + 14). Acknowledgements are not counted, but take some of it, because in
a ring both directions carry data.

If all links are late and slow, the model evaluates the rounds of --explain: a message leaves when its sender has
finished the previous round and its link has carried the earlier messages. It occupies the links of both ends for its
bytes over the planted rate, the second from when its first frame has left the first, and arrives the planted delays
later."""

import json
import math
import os
import sys

import kit
import programs
from hosts import Hosts, Link

MIB = 1 << 20
MTU, JUMBO = 1500, 9000


def framed(rate, mtu):
    """Bytes per second of the program over a link of RATE."""
    return 1e6 / 8 * Link(rate).mbit() * (mtu - 52) / (mtu + 14)


# The model has no rendezvous, which Open MPI uses from 64 KiB up.
UNASKED = {"OMPI_MCA_btl_tcp_eager_limit": str(MIB), "OMPI_MCA_btl_tcp_rndv_eager_limit": str(MIB)}


def results(hosts, build, binary, arguments, env=None):
    """The result records, out of place, of a run with one rank on each host."""
    program = os.path.abspath(f"{build}/{binary}_perf")
    words = ["mpirun", "--host", hosts.names(), "-np", str(hosts.n), program, *arguments.split(), "--json", "-"]
    done = hosts.execute(words, env)
    if done.code != 0:
        sys.exit(str(done))
    records = [json.loads(line) for line in done.out.splitlines()]
    return [r for r in records if r["kind"] == "result" and not r["in_place"]]


def off(measured, truth):
    return f"{100 * (measured / truth - 1):+.1f}%"


def rate_rows(build):
    """One of three hosts has a slow link, both ways."""
    for rate in ("100mbit", "500mbit"):
        truth = framed(rate, MTU) / 1e6
        with Hosts(3, links={3: Link(rate)}, mtu=MTU) as hosts:
            for binary, arguments in (("sendrecv", "-b 4M -e 8M -n 10"), ("all_reduce", "-b 64M -e 64M -n 2 -w 0")):
                for r in results(hosts, build, binary, f"{arguments} -T 300 --algo ring"):
                    yield [f"ring {binary}, 3 hosts, {r['size_bytes'] // MIB}M, busbw", f"link of h3 {rate}",
                           f"{truth:.2f} MB/s", f"{1e3 * r['busbw_GBps']:.2f} MB/s", off(1e3 * r["busbw_GBps"], truth)]  # fmt: skip


# ---- where ring overtakes tree -------------------------------------------------------------------

# Long enough that the turns of 8 ranks and as many links on two cores hardly matter.
HOSTS, DELAY, RATE = 8, 5e-3, "20mbit"
ELEMENTS = 64  # of the explained call


def rounds(build, algorithm):
    """The messages of each round: (from, to, share of the data)."""
    size = str(4 * ELEMENTS)
    words = [f"{build}/all_reduce_perf", "--explain", "-g", str(HOSTS), "--algo", algorithm, "-b", size, "-e", size]
    messages = programs.records(words, "message")
    found = [[] for _ in range(max(m["round"] for m in messages))]
    for m in messages:
        found[m["round"] - 1].append((m["from"], m["to"], m["count"] / ELEMENTS))
    return found


def model_seconds(rounds_, size, asked):
    """Time of the rounds for SIZE bytes. No message is cut into chunks. ASKED: it leaves when its receiver's notice is
    there, which is sent when that begins the round."""
    latency, rate = 2 * DELAY, framed(RATE, JUMBO)
    done, sent, received = [0.0] * HOSTS, [0.0] * HOSTS, [0.0] * HOSTS
    for steps in rounds_:
        after = list(done)
        for a, b, share in steps:
            begin, wire = max(sent[a], done[a], done[b] + latency if asked else 0), share * size / rate
            sent[a] = begin + wire
            received[b] = max(received[b], begin + min(wire, JUMBO / rate)) + wire
            after[b] = max(after[b], received[b] + latency)
        done = after
    return max(done)


def crossover(ratios):
    """The size at which ring and tree take equally long, from {size: ring / tree}, interpolated between logarithms."""
    sizes = sorted(ratios)
    for a, b in zip(sizes, sizes[1:]):
        if ratios[a] > 1 >= ratios[b]:
            part = math.log(ratios[a]) / math.log(ratios[a] / ratios[b])
            return a * (b / a) ** part
    return math.nan


def crossover_rows(build, found, planted, who="", asked=False):
    """Ring and tree of the records FOUND, beside the model of their schedules; WHO measured."""
    schedules = {name: rounds(build, name) for name in ("ring", "tree")}
    model = lambda name, size: model_seconds(schedules[name], size, asked)
    times = {(r["algorithm"], r["size_bytes"]): r["p50_us"] * 1e-6 for r in found}
    for (name, size), measured in sorted(times.items()):
        truth = model(name, size)
        yield [f"{who}{name} all_reduce, {HOSTS} hosts, {size >> 10}K", planted,
               f"{1e3 * truth:.1f} ms", f"{1e3 * measured:.1f} ms", off(measured, truth)]  # fmt: skip
    sizes = sorted({size for _, size in times})
    truth = crossover({s: model("ring", s) / model("tree", s) for s in sizes})
    measured = crossover({s: times["ring", s] / times["tree", s] for s in sizes})
    yield [f"{who}tree wins below, ring above, {HOSTS} hosts", planted,
           f"{truth / 1024:.0f} KiB", f"{measured / 1024:.0f} KiB", off(measured, truth)]  # fmt: skip


DELAYED = f"links {1e3 * DELAY:g} ms, {RATE}"
BOTH_WINNERS = "-b 16K -e 256K -n 10 -T 300 --algo ring,tree"


def delayed_hosts(build):
    link = Link(RATE, DELAY)
    wire = os.path.abspath(f"{build}/tests/wire")
    return Hosts(HOSTS, links={i + 1: link for i in range(HOSTS)}, mtu=JUMBO, wire=wire)


def delay_rows(build):
    with delayed_hosts(build) as hosts:
        found = results(hosts, build, "all_reduce", BOTH_WINNERS, UNASKED)
    yield from crossover_rows(build, found, DELAYED)


def rows(build):
    """All rows; without simulated hosts a row with the reason."""
    for part in (rate_rows, delay_rows):
        try:
            yield from part(build)
        except kit.Skipped as reason:
            yield ["hosts", "nothing", "", "", f"skipped: {reason}"]

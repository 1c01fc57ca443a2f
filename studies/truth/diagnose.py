"""Culprits among hosts with planted faults; part of make truth.

Links are shaped, so that the typical speed is known and faults are real: another rate of a host's link, a separate path
with a lower rate between two hosts, a rate that goes up and down. A slow rail and a straggler are planted in the ranks,
because a host here has one network card."""

import json
import os
import sys

import kit
from hosts import Hosts, Link

# Messages are long compared with the tokens that an idle shaped link accumulates.
USUAL, SLOW = "100mbit", "25mbit"
ARGUMENTS = "-b 512K -n 1 --steps 40 -T 300"

# A separate link between the hosts A and B, shaped at both ends.
OWN_PATH = """
set -e
read -r a rest </run/hosts/h{a}
read -r b rest </run/hosts/h{b}
ip link add way netns "$a" type veth peer name way netns "$b"
for end in "$a {a} {b}" "$b {b} {a}"; do
    set -- $end
    nsenter -t $1 -n ip link set way up
    nsenter -t $1 -n ip route add 10.77.0.$3/32 dev way src 10.77.0.$2
    nsenter -t $1 -n tc qdisc add dev way root {shape}
done
"""

# Down and up, several times during the confirmation.
FLAP = """
read -r pid rest </run/hosts/h{host}
while sleep 0.1; do
    for shape in "{slow}" "{usual}"; do
        tc qdisc replace dev p{host} root $shape
        nsenter -t "$pid" -n tc qdisc replace dev eth0 root $shape
        sleep 0.2
    done
done
"""


def culprits(hosts, build, slots, arguments):
    """The culprits of a run with SLOTS ranks on each host, as sorted texts."""
    names = hosts.names(slots)
    words = ["mpirun", "--host", names, "-np", str(slots * hosts.n), os.path.abspath(f"{build}/diagnose")]
    done = hosts.execute([*words, *f"{ARGUMENTS} {arguments}".split(), "--json", "-"])
    if done.code == 3:
        return ["could not judge"]  # the machine is too busy
    if done.code not in (0, 7):
        sys.exit(str(done))
    found = [json.loads(line) for line in done.out.splitlines()]
    return sorted(
        f"{r['code']} {r['host']}" + (f"-{r['peer_host']}" if r["peer_host"] else "") + (f" rail {r['rail']}" if r["rail"] is not None else "")
        for r in found
        if r["kind"] == "culprit"
    )


def row(planted, wanted, got):
    right = "right" if sorted(wanted) == got else "WRONG"
    return ["culprits among hosts", planted, ", ".join(sorted(wanted)) or "none", ", ".join(got) or "none", right]


def links(n, *slow):
    return {i: Link(SLOW if i in slow else USUAL) for i in range(1, n + 1)}


def shaped_rows(build):
    for planted, wanted, slow in (
        ("nothing", [], ()),
        (f"link of h3 {SLOW}", ["BB-SLOW-NODE h3"], (3,)),
        (f"links of h2 and h7 {SLOW}", ["BB-SLOW-NODE h2", "BB-SLOW-NODE h7"], (2, 7)),
    ):
        with Hosts(8, links=links(8, *slow)) as hosts:
            yield row(f"8 hosts, {planted}", wanted, culprits(hosts, build, 1, ""))


def path_rows(build):
    for paths in ([(2, 5)], [(2, 5), (3, 8)]):
        with Hosts(8, links=links(8)) as hosts:
            for a, b in paths:
                done = hosts.execute(["sh", "-c", OWN_PATH.format(a=a, b=b, shape=Link(SLOW).shape())])
                if done.code:
                    sys.exit(str(done))
            told = " and ".join(f"h{a}-h{b}" for a, b in paths)
            yield row(f"8 hosts, {told} {SLOW}", [f"BB-SLOW-LINK h{a}-h{b}" for a, b in paths], culprits(hosts, build, 1, ""))


def flapping_rows(build):
    script = FLAP.format(host=3, slow=Link(SLOW).shape(), usual=Link(USUAL).shape())
    with Hosts(8, links=links(8)) as hosts:
        flapping = hosts.spawn(["sh", "-c", script])
        got = culprits(hosts, build, 1, "")
        flapping.kill()
        yield row(f"8 hosts, link of h3 now {USUAL}, now {SLOW}", ["BB-FLAPPING-NODE h3"], got)


def rank_rows(build):
    with Hosts(4) as hosts:
        yield row("4 hosts of 2 ranks, rank 5 sends 30 ms late", ["BB-SLOW-RAIL h3 rail 1"],
                  culprits(hosts, build, 2, "--fault slow:5:30ms --steps 0"))  # fmt: skip
        yield row("4 hosts of 2 ranks, rank 5 comes 30 ms late", ["BB-STRAGGLER h3"],
                  culprits(hosts, build, 2, "--fault late:5:30ms"))  # fmt: skip


def rows(build):
    """All rows; without simulated hosts a row with the reason."""
    for part in (shaped_rows, path_rows, flapping_rows, rank_rows):
        try:
            yield from part(build)
        except kit.Skipped as reason:
            yield ["culprits among hosts", "nothing", "", "", f"skipped: {reason}"]

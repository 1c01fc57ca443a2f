"""Planted faults are named in virtual time, and nothing healthy is blamed. Real ranks once."""

import os
import re
import shlex
import tempfile

import kit
from kit import Skipped, add, built, equal, execute, expect, test

VIRTUAL = "diagnose --backend sim -g 16 --link 10GB/s,5us --noise 5% -n 3"


def run(line):
    name, *arguments = shlex.split(line)
    return execute([built(name), *arguments])


def records(line, *codes):
    """{kind: [record…]} of a run with --json -."""
    return run(line + " --json -").exits(*codes).by_kind()


def named(line):
    """(code, node, peer, rail, direction) of the culprits."""
    found = records(line, 0, 7)
    culprits = found.get("culprit", [])
    equal(found["end"][0]["exit_status"], 7 if culprits else 0, "exit status")
    bad = {r["node"] for r in found["node"] if r["verdict"] == "BAD"}
    blamed = {c["node"] for c in culprits if "LINK" not in c["code"] and "EVERYWHERE" not in c["code"]}
    equal(bad, blamed, "nodes that are bad")
    return [(c["code"], c["node"], c["peer"], c["rail"], c["direction"]) for c in culprits]


PLANTED = (
    ("", []),
    ("--quick --partners 4", []),
    ("--fault slow_node:5:3", [("BB-SLOW-NODE", 5, None, None, "both")]),
    ("--fault slow:5:1ms", [("BB-SLOW-NODE", 5, None, None, "sends")]),
    ("--fault slow_link:3:7:4", [("BB-SLOW-LINK", 3, 7, None, "there")]),
    ("--fault slow_link:7:3:4", [("BB-SLOW-LINK", 3, 7, None, "back")]),
    ("--fault late:9:1ms", [("BB-STRAGGLER", 9, None, None, None)]),
    ("--node-ranks 4 --fault slow_node:5:3", [("BB-SLOW-RAIL", 1, None, 1, "both")]),
)


def planted(words, wanted):
    equal(named(f"{VIRTUAL} {words}"), wanted, words)


for words, wanted in PLANTED:
    add(f"planted {words or 'nothing'}", planted, words, wanted)


CLUSTER = "diagnose --backend sim --cluster hgx-h100:6"
LOST = [("BB-SHARED-RAIL", 3, None, 2, "both"), ("BB-SHARED-RAIL", 3, None, 3, "both")]


@test
def on_clusters():
    """Ranks of a lost rail use the next one: both are slow together and fast alone."""
    for words, wanted in (
        ("", []),
        ("--fault slow_node:3:2", [("BB-SLOW-NODE", 3, None, None, "both")]),
        ("--fault slow_rail:3:2:2", [("BB-SLOW-RAIL", 3, None, 2, "both")]),
        ("--fault lost_rail:3:2", LOST),
        ("--noise 5% --fault lost_rail:3:2", LOST),
        ("--noise 15% --fault slow_node:0:1.3", [("BB-SLOW-NODE", 0, None, None, "both")]),
        ("--noise 15% --fault slow_node:0:1.2", []),
    ):
        equal(named(f"{CLUSTER} {words}"), wanted, words)
    node = records(f"{CLUSTER} --fault lost_rail:3:2", 7)["node"][3]
    expect(node["reason"].endswith("; and BB-SHARED-RAIL: rail 3 (rank 27)"), node["reason"])
    equal(named("diagnose --backend sim --cluster dgx-1v:6"), [], "two GPUs of each rail, as everywhere")


@test
def few_nodes():
    """Among three nodes a bad link differs from a bad node."""
    line = "diagnose --backend sim -g 3 --link 10GB/s,5us --noise 5% -n 3"
    equal(named(f"{line} --fault slow_link:0:1:4"), [("BB-SLOW-LINK", 0, 1, None, "there")], "link")
    equal(named(f"{line} --fault slow_node:1:3"), [("BB-SLOW-NODE", 1, None, None, "both")], "node")
    out = run(line).exits(0).out
    expect(", 33 rounds of one pair, " in out, "rounds")
    least = "diagnose --backend sim -g 3 --link 10GB/s,5us --quick --partners 2 --steps 0 -n 1 --fault slow_node:1:3"
    equal(named(least), [("BB-SLOW-NODE", 1, None, None, "both")], "the least survey")


@test
def tolerance_is_not_noise():
    """Who calls only 20 times the time slow is not told that the noise is too large."""
    run(f"{VIRTUAL} --tolerance 95% --fault slow_node:5:3").exits(0).prints("# culprits: none\n", "# verdict: passed")


@test
def far_nodes_are_not_blamed():
    """Nodes below another, distant switch that are fast with each other."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("system = hgx-h100\nnodes = 12\nleaf_nodes = 9\nswitch_latency = 6us\n")
        file.flush()
        line = f"diagnose --backend sim --cluster {file.name} -g 96 --noise 3% -n 3"
        out = run(line).exits(0).out
        expect("block of the network: 3 nodes, from node 9 " in out and "# culprits: none" in out, out)
        equal(named(f"{line} --fault slow_node:10:3"), [("BB-SLOW-NODE", 10, None, None, "both")], "slow node")


@test
def slow_within_a_part():
    """A sample of three racks: a slow node is slow with its own rack and with the others."""
    line = "diagnose --backend sim --cluster gb200-nvl72:40"
    out = run(line).exits(0).out
    for first, last in ((18, 35), (36, 39)):
        expect(re.search(f" {last - first + 1} nodes, from node {first} .* to node {last} ", out), out)
    for words, node in (("--fault slow_node:3:3", 3), ("--noise 5% --fault slow_node:38:3", 38)):
        equal(named(f"{line} {words}"), [("BB-SLOW-NODE", node, None, None, "both")], words)


@test
def text_names_it():
    """A row per node, a sentence per culprit, the cost before the result, the verdict last."""
    out = run(f"{VIRTUAL} --fault slow_node:5:3").exits(7).out
    lines = out.splitlines()
    cost = next(i for i, line in enumerate(lines) if line.startswith("# Cost: "))
    culprit = next(i for i, line in enumerate(lines) if line.startswith("# culprit: BB-SLOW-NODE: node 5 "))
    expect(cost < culprit, "the cost stands first")
    expect(re.search(r"; confidence (> )?99\.\d\d%$", lines[culprit]), lines[culprit])
    codes = [line.split()[-1] for line in lines if not line.startswith("#")]
    equal(codes, ["BB-SLOW-NODE" if node == 5 else "BB-OK" for node in range(16)], "codes of nodes")
    equal(max(len(line) for line in lines if not line.startswith("#")) <= 80, True, "80 columns")
    expect(lines[-1].startswith("# verdict: culprit found"), lines[-1])


@test
def cost_is_linear_when_quick():
    """Each node meets equally many others, whatever the number of nodes; with --full all pairs meet."""
    for nodes in (64, 256):
        found = records(f"diagnose --backend sim -g {nodes} --link 10GB/s,5us --quick --partners 6 --steps 0 -n 1", 0)
        equal({r["partners"] for r in found["node"]}, {6}, f"partners of {nodes} nodes")
        equal(len([r for r in found["pair_round"] if r["stage"] == "survey"]), 6 * nodes, "rounds of pairs")
    found = records("diagnose --backend sim -g 9 --link 10GB/s,5us --full --steps 0 -n 1", 0)
    equal(len({(r["from"], r["to"]) for r in found["pair_round"]}), 72, "ordered pairs")


@test(cores=1 / 2)
def real_ranks():
    """Threads exchange real bytes, and one rank is 20 ms late with everything that it sends. Nobody else is blamed. On
    a busy machine, where a round trip takes scheduler slices, the late rank may not be blamed either; where it stands
    still for the time limit, none is judged."""
    line = "diagnose --backend host -g 4 -b 4K -n 1 --quick --partners 3 --steps 0 --fault slow:2:20ms"
    for _ in range(3):
        out = run(line).exits(0, 3, 4, 7).out
        culprits = re.findall(r"# culprit: (.*)", out)
        expect(all(c.startswith("BB-SLOW-NODE: node 2 ") for c in culprits), f"culprits {culprits}")
        if culprits:
            return
    typical = re.search(r"round trip of 8 bytes (\S+) us", out)
    if not typical:
        raise Skipped("this machine stands still")
    expect(float(typical[1]) > 250, f"a rank that is 20 ms late is not blamed: {out}")


@test
def crowded():
    """Ranks are not blamed for sharing a processor; the delay of a planted link is no work."""
    one = min(os.sched_getaffinity(0))
    line = f"taskset -c {one} {built('diagnose')} --backend host -g 4 -b 4K -n 1 --quick --partners 3 --steps 0"
    out = execute(shlex.split(line)).exits(0, 3, 7).out
    expect("# crowded: 4 ranks share 1 processor: " in out, out)
    slow = [float(x) for x in re.search(r"slow from (\S+) and (\S+) times", out).groups()]
    expect(min(slow) >= 8, f"slow from {slow}")
    line += " --link 4MB/s,20ms"
    out = execute(shlex.split(line)).exits(0, 3, 7).out
    slow = [float(x) for x in re.search(r"slow from (\S+) and (\S+) times", out).groups()]
    expect(min(slow) < 8, f"slow from {slow} with a link")


@test
def who_did_not_arrive():
    """A rank that is gone is named within the time limit."""
    run(f"diagnose --backend host -g 4 -b 4K --fault die:2 -T {kit.LONG}").exits(3, 4).says("2")


@test
def says_what_is_not_judged():
    """Too few steps; clusters whose last node has fewer ranks."""
    line = "diagnose --backend sim -g 7 --link 10GB/s,5us -n 1 -b 4K"
    for words, told in (("--steps 3", "3 steps are too few for 7 ranks; give --steps 4"), ("--steps 0", "0 steps are too few")):
        run(f"{line} {words}").exits(0).prints(f"# Stragglers are not judged: {told}")
    late = run(f"{line} --steps 4 --fault late:3:1ms").exits(7).prints("BB-STRAGGLER").out
    expect("is not judged" not in late and "# iters: 1 warmup iters: 1 seed: 1 " in late, late)


@test
def a_planted_link_that_is_not_measured():
    line = "diagnose --backend sim --cluster hgx-h100:4 --steps 0 --fault slow_link"
    for link, note in (
        ("3:17:4", "# --fault slow_link:3:17:4 joins rails 3 and 1, which never meet, and is not measured\n"),
        ("9:10:4", "# --fault slow_link:9:10:4 is within node 1 and is not measured\n"),
    ):
        run(f"{line}:{link}").exits(0).prints(note, "# culprits: none")
    expect("not measured" not in run(f"{line}:3:19:4").exits(7).out, "the note, of a link that is measured")


@test
def a_factor_beyond_a_thousand():
    out = run("diagnose --backend sim -g 8 --link 25GB/s,5us --steps 0 --fault slow:5:30ms").exits(7).out
    expect(re.search(r"BB-SLOW-NODE: node 5 .* takes \d{4,} times the typical time", out), out)


@test
def refuses():
    for words, code, what in (
        ("--backend host -g 2", 3, "two others to compare"),
        ("--backend sim -g 8 --link 1GB/s --quick --full", 2, "leave one of them out"),
        ("--backend sim -g 13 --link 1GB/s --node-ranks 4", 2, "these divide them: 1, 13"),
        ("--backend sim -g 8 --link 1GB/s --tolerance 100%", 2, "less than 100%"),
        ("--backend host -g 4 --fault slow_node:1:3", 2, "give --link"),
        ("--backend host -g 4 --fault slow_node:1", 2, "slow_node:NODE:FACTOR"),
        ("--backend host -g 4 --fault slow_link:1:4:2 --link 1G", 2, "0 to 3"),
        ("--backend host -g 4 --fault slow_link:1:3:2", 2, "give --link"),
        ("--backend host -g 4 --fault flapping_node:1:3:0.5", 2, "slow_node:NODE:FACTOR"),
        ("--backend host -g 4 -e 1M", 2, "leave it out"),
        ("--backend null -g 4", 5, "no messages between two ranks"),
        ("--backend host -g 4 --fault corrupt:1", 2, "slow:RANK:TIME"),
    ):
        run(f"diagnose {words}").exits(code).says(what)


@test
def healthy_nodes_of_many():
    """The text lists slow nodes, and all with -v; records always have all."""
    line = "diagnose --backend sim -g 64 --link 25GB/s,5us --noise 5% --fault slow_node:3:2"
    rows = [row for row in run(line).exits(7).out.splitlines() if " BB-" in row and row[0] != "#"]
    equal(len(rows), 1, f"rows {rows}")
    run(line).prints("# 63 healthy nodes are not listed; -v lists all nodes")
    equal(run(f"{line} -v").exits(7).out.count(" BB-OK\n"), 63, "healthy nodes with -v")
    equal(sum(r["code"] == "BB-OK" for r in records(line, 7)["node"]), 63, "healthy nodes in the records")

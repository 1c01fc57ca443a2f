"""Pairs of virtual ranks: matrices follow from the figures of the cluster, and faults show in them."""

import csv
import io
import os
import tempfile

from kit import ROOT, equal, expect, run, test

GPU, NIC = 400e9, 50e9
NVLINK_S, NET_S, SWITCH_S, OVERHEAD_S = 0.5e-6, 3e-6, 0.25e-6, 1e-6
FIGURES = """system = hgx-h100
nodes = 8
gpu_rate = 400GB/s
gpu_efficiency = 100%
nic_rate = 50GB/s
nic_efficiency = 100%
gpu_latency = 0.5us
net_latency = 3us
switch_latency = 0.25us
message_overhead = 1us
leaf_nodes = 2
pod_nodes = 4
"""
SIZE = 32 << 20
SIM = "--backend sim --link 25GB/s,5us"


def records(line, codes=(0,)):
    """{kind: [record…]} of a run with --json -."""
    return run(line + " --json -").exits(*codes).by_kind()


def on_cluster(line, check):
    """Records of LINE on eight nodes with known figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ours.cluster")
        with open(path, "w", encoding="utf-8") as file:
            file.write(FIGURES)
        check(records(f"{line} --backend sim --cluster {path}"))


def near(got, wanted, what):
    expect(abs(got - wanted) <= 1e-9 * wanted, f"{what}: {got!r}, not {wanted!r}")


def way_of(a, b):
    """Name, rate and latency of the path between two ranks."""
    m, n = a // 8, b // 8
    if m == n:
        return "NVLink", GPU, NVLINK_S
    if m // 4 != n // 4:
        return "core", NIC, NET_S + 4 * SWITCH_S
    if m // 2 != n // 2 or a % 8 != b % 8:
        return "spine", NIC, NET_S + 2 * SWITCH_S
    return "leaf", NIC, NET_S


@test
def all_to_one():
    """All others divide the port of one rank; with links of their own they do not."""
    for direction, end in (("all-to-one", "to"), ("one-to-all", "from")):

        def check(found):
            for r in found["pair"]:
                # Seven others in its node share its port of NVLink; 56 beyond share its rail, at the same time.
                near(r["bound_GBps"], 1e-9 * 63 / max(7 / GPU, 56 / NIC), direction)
                expect(90 < r["percent_of_bound"] < 100, f"{direction}: {r['percent_of_bound']}% of the bound")
                expect("port in --cluster" in r["bound_source"], r["bound_source"])
            equal([r[end] for r in found["pair"]], list(range(64)), "ranks")

        on_cluster(f"p2p_bandwidth --direction {direction} -b 63M -e 63M", check)
        for port, rate in (("", 75), (",port", 25)):
            for r in records(f"p2p_bandwidth {SIM}{port} -g 4 -b 96M -e 96M --direction {direction}")["pair"]:
                near(r["bound_GBps"], rate, "bound of links")
                expect(99 < r["percent_of_bound"] <= 100, f"links{port}: {r['percent_of_bound']}%")
    # The delay of a rank counts wherever it takes part, that of a link where it is used.
    slow = records(f"p2p_bandwidth {SIM} -g 3 -b 3M -e 3M --direction all-to-one --fault slow:2:1ms")["pair"]
    expect(all(r["min_us"] > 999 for r in slow), "slow rank")
    link = records(f"p2p_bandwidth {SIM} -g 3 -b 3M -e 3M --direction all-to-one --fault slow_link:0:1:4")["pair"]
    expect(link[1]["GBps"] < link[0]["GBps"] / 3, "slow link")
    near(link[0]["GBps"], link[2]["GBps"], "healthy links")


@test
def closed_forms():
    """A message takes its overhead, its bytes at the rate of its path, and the latency; in both directions each as
    long."""

    def check(found):
        one = {(r["from"], r["to"]): r for r in found["pair"] if r["direction"] == "unidirectional"}
        both = {(r["from"], r["to"]): r for r in found["pair"] if r["direction"] == "bidirectional"}
        equal(set(one), {(a, b) for a in range(64) for b in range(64) if a != b}, "pairs")
        equal(set(both), {(a, b) for a, b in one if a < b}, "pairs both ways")
        equal({r["path"] for r in one.values()}, {"NVLink", "leaf", "spine", "core"}, "paths")
        for (a, b), r in one.items():
            path, rate, latency = way_of(a, b)
            seconds = OVERHEAD_S + SIZE / rate + latency
            near(r["p50_us"], 1e6 * seconds, f"{a} -> {b}")
            near(r["GBps"], 1e-9 * SIZE / seconds, f"{a} -> {b}")
            near(r["percent_of_bound"], 100, f"bound of {a} -> {b}")
            equal((r["path"], r["from_node"], r["to_device"], r["ends"]), (path, a // 8, b % 8, "gpu"), "ends")
            if a < b:
                near(both[a, b]["GBps"], 2 * r["GBps"], f"{a} <-> {b}")
        equal(found.get("finding"), None, "findings")
        equal(found["run"][0]["pair_ranks"], None, "run")

    on_cluster("p2p_bandwidth", check)


@test
def words():
    def check(found):
        equal(len(found["pair"]), 64 * 63 // 2, "pairs")
        for r in found["pair"]:
            _, rate, latency = way_of(r["from"], r["to"])
            near(r["p50_us"], 1e6 * (OVERHEAD_S + 8 / rate + latency), f"{r['from']} <-> {r['to']}")

    on_cluster("p2p_latency", check)


@test
def links():
    for r in records(f"p2p_bandwidth {SIM} -g 3 -b 1K -e 1M -f 1024")["pair"]:
        near(r["p50_us"], 1e6 * (r["size_bytes"] / 25e9 + 5e-6), "a message")
        equal((r["path"], r["route"], r["samples"], r["repeats"], r["wrong"]), ("link", "send", 1, 1, None), "record")
    for r in records(f"p2p_latency {SIM},port -g 3")["pair"]:
        near(r["p50_us"], 1e6 * (8 / 25e9 + 5e-6), "a word")
    rows = list(csv.DictReader(io.StringIO(run(f"p2p_bandwidth {SIM} -g 3 --csv -").exits(0).out)))
    equal(len(rows), 6 + 3, "rows")
    out = run(f"p2p_bandwidth {SIM} -g 2").exits(0).prints("send (P2P on), 32M, GB/s", "bound: --link", "# findings: none").out
    expect("# topology" not in out, "the topology of the machine that it runs on")


@test
def kinds_of_ends():
    """An end is a GPU or a core of the cluster, or a rank where there is one of a node."""
    for words, kind in (("hgx-h100:1", "gpu"), ("epyc-7742:1", "core")):
        found = records(f"p2p_latency --backend sim --cluster {words} -g 2")["pair"]
        equal({r["ends"] for r in found}, {kind}, words)
    equal({r["ends"] for r in records(f"p2p_latency {SIM} -g 2")["pair"]}, {"rank"}, "--link")


@test
def noise():
    line = f"p2p_bandwidth {SIM} -g 3 --noise 5% --direction unidirectional"
    first, second = ([r["samples"] for r in records(line)["pair"]] for _ in range(2))
    equal(first, [20] * 6, "samples")
    equal(first, second, "the same seed")
    found = records(line + " --precision 0.5%")["pair"]
    expect(all(r["rounds"] > 7 and abs(r["GBps"] - 24.9) < 0.5 for r in found), f"--precision: {found[0]}")


def only(found, what, **values):
    findings = found.get("finding", [])
    expect(findings and all(f["finding"] == what for f in findings), f"not {what}: {[f['text'] for f in findings]}")
    for key, wanted in values.items():
        equal({f[key] for f in findings}, wanted, f"{key} of {what}")


@test
def faults():
    """The effect of a fault on a pair alone is in the matrix and in the text."""
    line = "p2p_bandwidth --backend sim --cluster hgx-h100:6 --fault"
    only(records(f"{line} slow_link:3:12:2"), "asymmetry", **{"from": {3}, "to": {12}})
    only(records(f"{line} slow_node:1:2"), "slow rank", rank=set(range(8, 16)))
    only(records(f"{line} slow_rail:1:2:2"), "slow rank", rank={10}, path={"leaf", "spine"})
    only(records("p2p_bandwidth --backend sim --cluster hgx-h100:2 -g 8 --fault slow:3:50us"), "slow rank", rank={3})
    found = records(f"{line} lost_rail:1:2")  # a pair alone has the remaining rail to itself
    equal(found.get("finding"), None, "findings of a lost rail")
    equal({r["path"] for r in found["pair"] if r["from"] == 10 and r["to"] == 18}, {"leaf"}, "path")
    found = records(f"p2p_bandwidth {SIM} -g 6 --fault slow_link:3:2:3")
    only(found, "asymmetry", **{"from": {3}, "to": {2}})
    run(f"p2p_bandwidth {SIM} -g 6 --fault slow_link:3:2:3 --findings fail").exits(7)


@test
def many_ranks():
    """With many ranks the pairs of some nodes, with every kind of path, and those of the fault."""
    found = records("p2p_bandwidth --backend sim --cluster hgx-h100:512 --direction unidirectional --fault slow_rail:77:5:3")
    equal(found["run"][0]["pair_ranks"], "0-31,256-263,616-623,2048-2055,4088-4095", "ranks")
    equal(len(found["pair"]), 64 * 63, "pairs")
    equal({r["path"] for r in found["pair"]}, {"NVLink", "leaf", "spine", "core"}, "paths")
    only(found, "slow rank", rank={77 * 8 + 5})
    out = run("p2p_latency --backend sim --cluster hgx-h100:512").exits(0).prints("# Pairs of 56 of the ranks: 0-31,256-263,").out
    expect("    4095" in out, "ranks are called by their place in the matrix")
    expect("# core: 640 pairs, median 4300" in out, out)
    run(f"p2p_bandwidth {SIM} -g 100000 -b 8 -e 8").exits(0).prints("# Pairs of 9 of the ranks: 0-7,99999")


@test
def neighbours():
    """sendrecv names the slowest path to a next rank, which all others wait for."""
    sim = "sendrecv --backend sim --cluster"
    run(f"{sim} hgx-h100:4 -b 1M -e 1M").exits(0).prints("# Slowest path between neighbours: 7 -> 8 over spine, 48.49 GB/s and 3 us")
    run(f"{sim} hgx-h100:1 -b 1M -e 1M").exits(0).prints("0 -> 1 over NVLink, 363.4 GB/s and 0.6 us")


@test
def refused():
    for line, code, word in (
        (f"p2p_bandwidth {SIM}", 2, "give -g 2"),
        (f"p2p_bandwidth {SIM} -g 4 --p2p off", 5, "--p2p off"),
        (f"p2p_bandwidth {SIM} -g 4 -w 5", 2, "-w 5"),
        (f"p2p_latency {SIM} -g 4 -b 8", 2, "-b"),
        (f"p2p_bandwidth {SIM} -g 4 --fault die:1", 5, "die:1"),
        (f"p2p_bandwidth {SIM} -g 4 --fault lost_rail:1:1", 2, "lost_rail:1:1"),
        ("p2p_bandwidth --backend sim --calibrate x.jsonl -g 4", 2, "--calibrate"),
        ("p2p_latency --backend sim -g 4", 2, "--link"),
        ("mem_bandwidth --backend sim --cluster hgx-h100:2", 5, "models links, not memory"),
    ):
        run(line).exits(code).says(word)


@test
def listed():
    text = run("p2p_latency --help-all").exits(0).prints("Kinds of --fault:", "slow_rail:NODE:RAIL:FACTOR").out
    expect("corrupt:RANK" not in text, "a word is never compared")
    run("p2p_bandwidth --list").exits(0).prints("backend sim", "a message over the modelled link")


@test
def pairs_as_published():
    """Both directions between two of 4 V100, as row v100x4_article of the reference table."""
    with open(os.path.join(ROOT, "reports", "reference", "reference_busbw.csv"), encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["id"], r["fabric"]) == ("v100x4_article", "NVLink2")]
    (published,) = [float(r["busbw_GBps"]) for r in rows if r["collective"] == "p2p_bidirectional"]
    line = "p2p_bandwidth --backend sim --cluster v100-x4 -g 4 -b 128M -e 128M --direction bidirectional --p2p on"
    rates = {round(r["GBps"], 1) for r in records(line)["pair"] if r["from"] != r["to"]}
    equal([abs(rate - published) < 0.02 * published for rate in rates], [True], f"{rates}, published {published}")

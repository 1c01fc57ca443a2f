"""Pairs of ranks: matrices and records; planted faults are found and nothing else."""

import csv
import io
import re

from kit import Failure, equal, expect, run, test

# Links of virtual ranks: time is exact.
LINKS = "--backend sim --link 1GB/s,5us -b 1M -e 1M"


def records(line, env=None, codes=(0,)):
    """{kind: [record…]} of a run with --json -."""
    return run(line + " --json -", env).exits(*codes).by_kind()


def pairs(line, **conditions):
    """{(from, to): record} of the pairs that meet the conditions."""
    return {(r["from"], r["to"]): r for r in records(line)["pair"] if all(r[k] == v for k, v in conditions.items())}


@test
def every_pair_has_a_record():
    """Each ordered pair, private copies on the diagonal, and each pair once in both directions."""
    found = records("p2p_bandwidth -g 3 -b 4K -e 64K -f 16 -n 5")
    for route, p2p, actor in (("read", "on", "target"), ("write", "on", "source"), ("staged", "off", "both")):
        for size in (4096, 65536):
            mine = [r for r in found["pair"] if r["route"] == route and r["size_bytes"] == size]
            one = {(r["from"], r["to"]) for r in mine if r["direction"] == "unidirectional"}
            both = {(r["from"], r["to"]) for r in mine if r["direction"] == "bidirectional"}
            wanted = {(a, b) for a in range(3) for b in range(3) if a != b or p2p == "on"}
            equal(one, wanted, f"pairs of {route} at {size}")
            equal(both, {(0, 1), (0, 2), (1, 2)}, f"pairs of {route} both ways at {size}")
            for r in mine:
                equal((r["p2p"], r["actor"], r["wrong"], r["ends"]), (p2p, actor, 0, "core"), "route")
                expect(r["low_GBps"] <= r["GBps"] <= r["high_GBps"], f"quartiles {r}")
                expect(r["min_us"] <= r["p50_us"] <= r["p99_us"] <= r["max_us"], f"times {r}")
                bounded = route != "staged" and r["direction"] == "unidirectional" and r["from"] != r["to"]
                equal(r["bound_GBps"] is not None, bounded, f"bound of {r['route']} {r['direction']}")
    equal(found["end"][0]["results"], len(found["pair"]), "results")
    expect(re.fullmatch("[0-9a-f]{16}", found["run"][0]["topology"]), "topology")


@test
def choices():
    """--p2p and --direction select what runs."""
    for words, routes in (("on", {"read", "write"}), ("off", {"staged"}), ("both", {"read", "write", "staged"})):
        got = {r["route"] for r in records(f"p2p_bandwidth -g 2 -b 8 -e 8 --p2p {words}")["pair"]}
        equal(got, routes, f"routes of --p2p {words}")
    for words in ("unidirectional", "bidirectional"):
        got = {r["direction"] for r in records(f"p2p_bandwidth -g 2 -b 8 -e 8 --direction {words}")["pair"]}
        equal(got, {words}, f"--direction {words}")


@test
def all_to_one_and_back():
    """Each rank with all others at once: the others write to it, or read from it; the data is verified at each of them."""
    for direction, route, actor in (("all-to-one", "write", "source"), ("one-to-all", "read", "target")):
        mine = records(f"p2p_bandwidth -g 3 -b 1000 -e 300000 -f 300 -n 2 --direction {direction}")["pair"]
        hubs = [(None, i) if direction == "all-to-one" else (i, None) for i in range(3)]
        equal(sorted((r["size_bytes"], r["from"] or 0, r["to"] or 0) for r in mine),
              sorted((size, a or 0, b or 0) for size in (1000, 300000) for a, b in hubs), direction)
        for r in mine:
            found = r["direction"], r["route"], r["actor"], r["wrong"], r["ends"]
            equal(found, (direction, route, actor, 0, "core"), direction)
            expect(r["bound_source"].startswith("private copies of the same bytes"), r["bound_source"])
            expect(0 < r["low_GBps"] <= r["GBps"] <= r["high_GBps"], f"quartiles {r}")


@test
def wrong_data_of_all():
    """A wrong byte counts at the rank that receives it: of all others, or from one."""
    for direction, wrong in (("all-to-one", [0, 3, 0, 0]), ("one-to-all", [1, 0, 1, 1])):
        found = records(f"p2p_bandwidth -g 4 -b 4K -e 4K -n 1 --direction {direction} --fault corrupt:1", codes=(7,))
        equal([r["wrong"] for r in found["pair"]], wrong, direction)


@test
def all_to_one_as_text():
    out = run("p2p_bandwidth -g 3 -b 512 -e 64K -f 128 -n 3 --direction all-to-one").exits(0).out
    for words in ("# All to one, write (P2P on), 512, GB/s: all other ranks send to this one at once",
                  "# All to one, write (P2P on), 64K", "bound   of it  #wrong", "# bound: private copies of the same bytes"):
        expect(words in out, out)
    equal([line.split()[0] for line in out.splitlines() if line.startswith(" ")], ["0", "1", "2"] * 2, "rows")
    run("p2p_bandwidth -g 4 -b 512 -e 512 --direction one-to-all").exits(5).prints("# skipped: read 512 B: fewer than 256")
    run("p2p_bandwidth -g 3 --direction all-to-one --p2p off").exits(5).says("all-to-one", "no such route")
    run("p2p_bandwidth -g 3 --direction all --fault slow_link:0:1:2").exits(2).says("--fault slow_link", "--direction both")


@test
def matrices():
    """A matrix per route, direction and size; rows are sources."""
    out = run("p2p_bandwidth -g 2 -b 64K -e 64K -n 3 --p2p on").exits(0).out
    titles = [line for line in out.splitlines() if "bandwidth, " in line]
    equal(len(titles), 4, "matrices")
    expect("data goes row -> column; diagonal: private copy" in titles[0], titles[0])
    expect("row <-> column" in titles[2], titles[2])
    for title in titles[:2]:
        rows = out[out.index(title) :].splitlines()[2:4]
        equal([len(row.split()) for row in rows], [3, 3], f"cells of {rows}")


@test
def csv_holds_pairs():
    rows = list(csv.DictReader(io.StringIO(run("p2p_bandwidth -g 2 -b 8 -e 8 --csv -").exits(0).out)))
    equal(len(rows), 4 + 4 + 2 + 3, "rows")
    equal({r["quantity"] for r in rows}, {"bandwidth"}, "quantity")


def only(found, what, **values):
    findings = found.get("finding", [])
    if len(findings) != 1 or findings[0]["finding"] != what or any(findings[0][k] != v for k, v in values.items()):
        raise Failure(f"not one {what} {values}: {[f['text'] for f in findings]}")


@test
def findings():
    """A planted fault is found and nothing else. studies/truth/p2p.py does the same on real ranks."""
    for ranks, a, b in ((2, 0, 1), (2, 1, 0), (4, 1, 2)):
        only(records(f"p2p_bandwidth {LINKS} -g {ranks} --fault slow_link:{a}:{b}:3"), "asymmetry", **{"from": a, "to": b})
    only(records(f"p2p_bandwidth {LINKS} -g 4 --fault slow:2:20ms"), "slow rank", rank=2)
    for ranks in (2, 4):
        result = run(f"p2p_bandwidth {LINKS} -g {ranks}").exits(0).prints("# findings: none")
        result.require("# finding:" not in result.out, "a finding")


@test
def findings_can_fail():
    line = f"p2p_bandwidth {LINKS} -g 2 --fault slow_link:0:1:3"
    said = "# finding: 0 -> 1 is slower than 1 -> 0", "# findings: 1, not counted in the verdict", "# verdict: passed"
    run(line).exits(0).prints(*said)
    run(line + " --findings fail").exits(7).prints("# finding:", "# verdict: findings")
    run(f"p2p_bandwidth {LINKS} -g 2 --findings fail").exits(0)


@test
def too_few_to_tell():
    line = "p2p_bandwidth -g 2 -b 64K -e 64K -n 2 --link 1GB/s --fault slow_link:0:1:9"
    run(line).exits(0).prints("# findings: too few iterations to judge (-n)")


@test
def slow_link():
    """Over every route one direction takes at least 9 times as long as its link lets the other be: 65.5 us."""
    pairs = records("p2p_bandwidth -g 2 -b 64K -e 64K -n 2 --direction unidirectional --link 1GB/s --fault slow_link:0:1:9")["pair"]
    slow = {r["route"]: r["min_us"] for r in pairs if (r["from"], r["to"]) == (0, 1)}
    expect(len(slow) >= 3 and min(slow.values()) >= 9 * 65.5, f"times over the slow link: {slow}")


@test
def wrong_data():
    """Every pair is checked at the receiving rank."""
    found = records("p2p_bandwidth -g 3 -b 100 -e 100 -n 3 --fault corrupt:1", codes=(7,))
    for r in found["pair"]:
        hit = r["to"] == 1 or (r["direction"] == "bidirectional" and r["from"] == 1)
        equal(r["wrong"], int(hit), f"wrong of {r['route']} {r['from']} -> {r['to']}")
    equal(found["end"][0]["verdict"], "wrong data", "verdict")
    unchecked = records("p2p_bandwidth -g 2 -b 100 -e 100 -n 3 -c 0")["pair"]
    equal({r["wrong"] for r in unchecked}, {None}, "wrong with -c 0")


@test
def precision():
    few = pairs("p2p_bandwidth -g 2 -b 64 -e 64 -n 7 --p2p off", direction="unidirectional")
    more = pairs("p2p_bandwidth -g 2 -b 64 -e 64 -n 7 --p2p off --precision 0.01% --max-time 30s", direction="unidirectional")
    equal({r["rounds"] for r in few.values()}, {7}, "rounds")
    expect(all(r["rounds"] > 7 for r in more.values()), "--precision did not repeat")


@test
def latency():
    found = records("p2p_latency -g 3 -n 50")
    equal({(r["from"], r["to"]) for r in found["pair"]}, {(0, 1), (0, 2), (1, 2)}, "pairs")
    equal({r["route"] for r in found["pair"]}, {"word", "message"}, "routes")
    for r in found["pair"]:
        expect(0 < r["min_us"] <= r["p50_us"] <= r["p99_us"], f"times of {r}")
        equal((r["quantity"], r["size_bytes"], r["GBps"], r["samples"]), ("latency", None, None, 50), "record")
    run("p2p_latency -g 2 -n 5").exits(0).prints("One-way latency, word (P2P on), ns, median: row <-> column")


@test
def latency_faults():
    """The word of a slow rank is late, and that of a slow link takes at least its latency."""
    only(records("p2p_latency --backend sim -g 4 --link 1GB/s,20us --fault slow:1:80us"), "slow rank", rank=1)
    for r in records("p2p_latency -g 2 -n 20 --link 1GB/s,20us")["pair"]:
        expect(r["min_us"] >= 20, f"{r['route']} takes {r['min_us']} us")


@test
def dies():
    run("p2p_bandwidth -g 3 -b 8 -e 8 --fault die:1 -T 300").exits(3).says("rank 1")


@test
def refused():
    for line, code, word in (
        ("p2p_bandwidth", 2, "give -g 2"),
        ("p2p_bandwidth -g 2 --backend null", 5, "null"),
        ("p2p_bandwidth -g 2 --algo ring", 2, "algo"),
        ("p2p_bandwidth -g 2 --p2p of", 2, "off"),
        ("p2p_bandwidth -g 2 --fault slow_link:0:0:2", 2, "slow_link"),
        ("p2p_bandwidth -g 2 --fault slow_link:0:1:0.5", 2, "slow_link"),
        ("p2p_bandwidth -g 2 --fault slow_link:0:1", 2, "slow_link"),
        ("p2p_bandwidth -g 2 --fault slow_link:0:2:2", 2, "0 to 1"),
        ("p2p_bandwidth -g 512", 2, "256"),
        ("p2p_latency -g 2 -b 8", 2, "-b"),
        ("p2p_latency -g 2 --fault corrupt:1", 2, "corrupt:1"),
        ("all_reduce -g 2 --fault slow_link:0:1:2", 2, "slow_link:0:1:2"),
        ("all_reduce --p2p on", 2, "--p2p"),
    ):
        run(line).exits(code).says(word)


@test
def too_large():
    run("p2p_bandwidth -g 2 -b 1T -e 1T").exits(5).prints("# skipped: read", "do not fit into memory")


@test
def help_and_list():
    for name in ("p2p_bandwidth", "p2p_latency"):
        text = run(f"{name} --help-all").exits(0).prints("--p2p", "--findings", "--timeout").out
        expect("--algo" not in text and "--root" not in text, "the help has options of collectives")
        expect(all(len(line) <= 100 for line in text.splitlines()), "the help is wider than 100 columns")
        run(f"{name} --list").exits(0).prints("staged", "word", "P2P on")

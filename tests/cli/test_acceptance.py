"""The binary acceptance: profiles, gates, verdicts and output files."""

import glob
import os
import re

import gpus
import mpi
from accept import Folder, acceptance, profile, step
from hosts import Hosts, Link
from kit import LIMIT, ROOT, Settings, Skipped, add, built, equal, execute, expect, spawn, test, write_program

THIS_MACHINE = os.path.join(ROOT, "ci", "profiles", "this-machine.yaml")
GATE = "      - metric: peak\n        from: {copy: 0.1%}\n"


# ---- verdicts ----------------------------------------------------------------------------------


@test
def this_machine():
    """The speed of a busy machine must not matter: only that the gates were judged."""
    with Folder() as f:
        result = f.run(THIS_MACHINE).exits(0, 3, 7)
        verdict = f.verdict()
        equal(verdict["exit_status"], result.code, "exit status")
        expect(" limit unit check\n" in result.out and " GB/s peak all_reduce" in result.out, result.out)
        gates = verdict["gates"]
        equal([g["verdict"] for g in gates if g["metric"] == "correctness"], ["passed"] * 3, "correctness")
        for gate in gates:
            expect(gate["verdict"] in ("passed", "warning", "could not judge", "failed"), f"{gate}")
            if gate["metric"] == "peak":
                expect((gate["value"] >= gate["limit"]) == (gate["verdict"] in ("passed", "warning")), f"{gate}")
                expect(gate["bound"] is None, f"{gate}")
                expect(("is beyond its bound" in gate["reason"]) == (gate["verdict"] == "warning"), f"{gate}")
                equal(gate["from"], "copy", "provenance")
        equal(len(verdict["sentences"]), 3, "sentences")
        equal(len(f.junit().findall(".//failure")), sum(g["verdict"] == "failed" for g in gates), "failures")
        for run in [r for s in verdict["steps"] for r in s["runs"]]:
            expect(os.path.exists(os.path.join(f.name, "out", run["records"])), run["records"])


def small(variant):
    with Folder() as f:
        path = f.profile(profile(step("all_reduce_perf --backend host -g 2 -b 64K -e 64K -n 3", GATE)))
        result = f.run(path, variant=variant).exits(0, 7)
        verdict = f.verdict()
        correctness, *peaks = verdict["gates"]
        equal((correctness["metric"], correctness["verdict"], len(peaks)), ("correctness", "passed", 2), "gates")
        for gate in peaks:  # the speed decides, not the test
            expect((gate["value"] >= gate["limit"]) == (gate["verdict"] in ("passed", "warning")), f"{gate}")
        equal(result.code, 7 if any(g["verdict"] == "failed" for g in peaks) else 0, "exit status")
        equal(verdict["args"][1:], ["run", path], "the command line that repeats it")
        words = "-b 64K -e 64K -n 3 --json -".split()
        equal(verdict["steps"][0]["args"][-len(words) :], words, "the command line of the step")


for variant in ("", *Settings.variants):
    add(f"small_{variant or 'plain'}", small, variant)


@test
def wrong_data_fails():
    """Data must be right without any gate."""
    with Folder() as f:
        path = f.profile(profile(step("all_reduce_perf --backend host -g 2 -b 4K -e 4K --fault corrupt:1")))
        f.run(path).exits(7).prints("wrong data in 2 of 2 results", "BB-WRONG-DATA", "state=drain")
        equal(f.verdict()["verdict"], "failed", "verdict")


def straggler(f, gate, *words):
    """A run whose rank 2 is 150 ms late, and the output folder. Nobody else is blamed; on a machine where others wait as
    long for a processor, nobody may be."""
    path = f.profile(profile(step("all_reduce_perf --backend host -g 4 -b 64K -e 64K -n 8 -w 0 --fault slow:2:150ms", gate)))
    for out in (f"try{i}{''.join(words)}" for i in range(3)):
        result = f.run(path, *words, out=out)
        node, = f.verdict(out)["nodes"]
        if node["code"] == "BB-STRAGGLER":
            expect("rank 2 " in node["reason"], node["reason"])
            return result, node["verdict"], out
    raise Skipped("this machine is too busy for a rank to be late")


@test(cores=1 / 2)
def a_slow_rank_is_named():
    with Folder() as f:
        result, verdict, _ = straggler(f, "      - metric: peak\n        from: {copy: 20%}\n")
        result.exits(7)
        equal(verdict, "BAD", "node")


@test(cores=1 / 2)
def a_suspect_is_a_warning():
    """No gate fails, but a rank is always late: an error only under --strict."""
    with Folder() as f:
        result, _, _ = straggler(f, "")
        result.exits(0).prints("| SUSPECT | BB-STRAGGLER | ", "Verdict: passed")
        result, _, out = straggler(f, "", "--strict")
        result.exits(7).prints("--strict fails for a node that is suspect", "Verdict: failed")
        suite, = [s for s in f.junit(out) if s.get("name") == "nodes"]
        expect("rank 2 " in suite.find("testcase/failure").get("message"), "JUnit")


@test
def repeats_have_an_interval():
    """Several runs are judged by the confidence bound; a single run has none, and the text says so."""
    gate = '      - metric: time\n        from: {link: "1MB/s,1s"}\n'
    for repeats, told in (3, "the ratios of 3 runs have the mean"), (1, "1 run: no interval"):
        with Folder() as f:
            path = f.profile(profile(step("all_reduce_perf --backend host -g 2 -b 64K -e 64K -n 3", gate, more=f"    repeats: {repeats}\n    ranks: 2\n")))
            result = f.run(path).exits(0)
            result.require(("one run, no confidence interval" in result.out) == (repeats == 1), "what is said of the bound")
            for g in [g for g in f.verdict()["gates"] if g["metric"] == "time"]:
                equal((g["bound"] is None, told in g["reason"]), (repeats == 1, True), f"{g}")


@test
def what_could_not_be_judged():
    """Steps that hang, fail or are not supported do not stop the others."""
    with Folder() as f:
        path = f.profile(profile(
            step("all_reduce_perf --backend host -g 2 -b 64M -e 64M -n 1000000 -T 0", GATE, "hangs",
                 "    time_limit: 500ms\n"),
            step("all_reduce_perf --backend host -g 2 --nonsense", "", "fails"),
            step("all_reduce_perf --backend host -g 2 -b 1K -e 1K -n 2 -G 3", GATE, "unsupported"),
            step("all_reduce_perf --backend host -g 2 -b 1K -e 1K -n 2", GATE.replace("from", "where: {size: 2K}\n        from"), "nothing"),
            step("all_reduce_perf --backend host -g 2 -b 1K -e 1K -n 2 -c 0", "", "unchecked"),
            step("all_reduce_perf -b 1K -e 1K -n 2", "", "ranks", "    ranks: 4\n    launcher: mpirun\n"),
            step("all_reduce_perf --backend host -g 2 -b 1K -e 1K -n 2", "", "last")))
        # A launcher that leaves each process alone.
        write_program(os.path.join(f.name, "mpirun"), '#!/bin/sh\nshift 4\nexec "$@"\n')
        f.run(path, env={"PATH": f.name + ":" + os.environ["PATH"]}).exits(3)
        gates = {(g["step"], g["metric"]): (g["verdict"], g["reason"]) for g in f.verdict()["gates"]}
        equal(gates["hangs", "peak"], ("could not judge", "ran past its time limit of 0.5 s"), "hangs")
        expect("--nonsense" in gates["fails", "correctness"][1], gates["fails", "correctness"])
        equal(gates["unsupported", "peak"][0], "skipped", "unsupported")
        equal(gates["nothing", "peak"], ("could not judge", "no record is selected by where:"), "nothing")
        equal(gates["unchecked", "correctness"][0], "could not judge", "unchecked")
        equal(gates["ranks", "correctness"], ("could not judge", "ran on 1 rank instead of the 4 of the profile"), "ranks")
        equal(gates["last", "correctness"][0], "passed", "last")
        root = f.junit()
        equal((len(root.findall(".//error")), len(root.findall(".//skipped"))), (6, 2), "JUnit")


@test
def names_of_junit_stay():
    """Lines above a gate, and other limits of it, change no name; gates of one name in a step are counted."""
    gates = [GATE, GATE.replace("0.1%", "500000%")]
    words = "all_reduce_perf --backend host -g 2 -b 1K -e 1K -n 2"
    with Folder() as f:
        f.run(f.profile(profile(step(words, "".join(gates)))), out="before").exits(0, 7)
        f.run(f.profile(profile(step(words, "# a comment\n" + "".join(gates)), more="about: edited\n")), out="after").exits(0, 7)
        before, after = ([case.get("name") for case in f.junit(out).findall(".//testcase")] for out in ("before", "after"))
        equal(before, after, "names")
        equal(len(set(before)), len(before), f"different names: {before}")
        expect(any(name.endswith(" (2)") for name in before), f"{before}")
        expect(not any("line" in name for name in before), f"{before}")
        for failure in f.junit("after").findall(".//failure"):
            expect(re.search(r"p\.yaml:\d+$", failure.text), f"{failure.text}")


@test
def diagnosed():
    """A culprit of diagnose fails its step. In virtual time no host is blamed."""
    with Folder() as f:
        path = f.profile(profile(step("diagnose --backend sim --link 10GB/s,5us,port -g 8 --fault slow:3:1ms")))
        f.run(path, "--dry-run").exits(0).prints("gate: no culprit")
        f.run(path).exits(7).prints("exit status 7: culprit found: node 3 ", "diagnosis")
        equal([g["metric"] for g in f.verdict()["gates"]], ["diagnosis"], "what failed")
        equal([n for n in f.verdict()["nodes"] if n["verdict"] == "BAD"], [], "nodes to blame")


# ---- systems that are not here -------------------------------------------------------------------

PROFILES = os.path.join(ROOT, "ci", "profiles")
# Clusters of the shipped profiles, and a fault with the gates that must notice it.
PLANNED = {
    "dgx-a100": (2, "lost_rail:0:2", {"pair_of_nodes", "rails"}),
    "hgx-h100": (2, "lost_rail:0:2", {"pair_of_nodes", "rails"}),
    "hgx-h200": (2, "lost_rail:0:2", {"pair_of_nodes"}),
    "hgx-b200": (2, "slow_rail:1:3:1.5", {"pair_of_nodes", "rails"}),
    "gb200-nvl72": (18, "slow_node:2:1.5", {"rack_alltoall"}),
}


def planned(name, nodes, fault, wanted):
    """In virtual time the gates pass on a healthy machine or are skipped, and those that should fail on a faulty one
    do."""
    path, cluster = os.path.join(PROFILES, name + ".yaml"), f"{name}:{nodes}"
    with Folder() as f:
        f.run(path, "--cluster", cluster, out="well").exits(0).prints("Verdict: passed (simulated)")
        verdict = f.verdict("well")
        equal((verdict["virtual_time"], verdict["cluster"], verdict["fault"]), (True, cluster, None), "what it is of")
        expect("no hardware was measured" in verdict["sentences"][2], verdict["sentences"])
        expect(verdict["sentences"][1].startswith("Every gate "), verdict["sentences"])
        expect({g["verdict"] for g in verdict["gates"]} <= {"passed", "skipped"}, f"{verdict['gates']}")
        equal(verdict["nodes"], [], "nodes that were at work")
        equal(f.junit("well").get("name"), f"{name}, simulated on {cluster}", "JUnit's name")
        f.run(path, "--cluster", cluster, "--fault", fault, out="ill").exits(7)
        failed = {g["step"] for g in f.verdict("ill")["gates"] if g["verdict"] == "failed"}
        expect(wanted <= failed, f"{fault} fails {failed}")


for name, what in PLANNED.items():
    add(f"planned_{name}", planned, name, *what)


@test
def planted_where_nothing_goes():
    """Faults that no step can notice: of a node beyond all steps, of a rail within one node, of a link that no ring
    uses."""
    path = os.path.join(PROFILES, "hgx-h100.yaml")
    for quick, cluster, fault, words in (
        ((), "hgx-h100:16", "lost_rail:5:2", "a step of 48 ranks on 6 nodes or more sees it, and the largest, pair_of_nodes, has 16 on 2"),
        (("--quick",), "hgx-h100:2", "lost_rail:0:2", "is in no step of --quick; steps of --full that see it: pair_of_nodes, rails"),
    ):
        with Folder() as f:
            f.run(path, *quick, "--cluster", cluster, "--fault", fault).exits(3).prints("Verdict: could not judge (simulated)", words)
            unjudged = [g for g in f.verdict()["gates"] if g["verdict"] == "could not judge"]
            equal([g["metric"] for g in unjudged], ["fault"], "gates that could not be judged")
            equal(len(f.junit().findall(".//error")), 1, "errors of JUnit")
    with Folder() as f:
        gate = "      - metric: busbw\n        from: {topology: 1% of ring}\n"
        ring = f.profile(profile(step("all_reduce_perf -b 1G -e 1G --algo busbench:ring", gate), more="system: hgx-h100\nranks: 8\nnodes: 1\n"))
        f.run(ring, "--cluster", "hgx-h100:1", "--fault", "slow_link:0:5:8").exits(3).prints("changes no time: nothing of a goes over it")
        f.run(ring, "--cluster", "hgx-h100:1", "--fault", "slow_link:0:1:8", out="touched").exits(0).prints("Verdict: passed")


def named_nodes(text):
    """Nodes that are named before the first number of a culprit."""
    return {int(n) for n in re.findall(r"node (\d+)", text.split(": ")[0])}


def blamed(verdict):
    """What is blamed by narrower groups, and by diagnose: sets of nodes."""
    found = [named_nodes(reason) for reason in culprits(verdict)]
    for gate in verdict["gates"]:
        if gate["metric"] == "diagnosis" and gate["verdict"] == "failed":
            found.append({int(n) for n in re.findall(r"node (\d+) \(", gate["reason"])})
    return found


# (nodes, fault, nodes at fault; none: within the limits; None: nothing that is measured shows it, or its cost is unknown)
PLANTED = [
    (nodes, fault.format(a=8 * a, b=8 * b), at)
    for nodes in (2, 3, 8, 29)
    for fault, a, b, at in (
        ("slow_link:{a}:{b}:3", 0, 1, {0, 1}),
        ("slow_link:{a}:{b}:3", nodes - 1, 0, {nodes - 1, 0}),  # the ring closes
        ("slow_link:{a}:{b}:1.1", 0, 1, set()),  # within the limits
    )
]
PLANTED += [(n, f"slow_link:8:0:{f}", {0, 1}) for n, f in ((8, 3), (29, 50))]  # of pairs both ways
PLANTED += [(29, f"slow_link:16:{to}:3", None) for to in (136, 223, 17, 25, 32)]  # far, another rail, the node itself
PLANTED += [(8, "slow_link:5:8:9", None), (2, "slow_link:3:4:9", None), (3, "slow_link:16:17:2", None)]
PLANTED += [(n, f"{kind}:{node}:{rest}", {node}) for n, node in ((3, 0), (3, 1), (8, 0), (8, 5), (29, 28))
            for kind, rest in (("slow_node", "1.7"), ("slow_rail", "2:2"), ("lost_rail", "7"))]  # fmt: skip
PLANTED += [(8, "slow:20:1ms", set()), (29, "slow:20:30ms", {2})]


@test
def blames_no_other():
    """Whatever the fault, its place and the number of nodes: its nodes are blamed, or nobody is."""
    path = os.path.join(PROFILES, "hgx-h100.yaml")
    for nodes, fault, at in PLANTED:
        with Folder() as f:
            ran = f.run(path, "--full", "--nodes", str(nodes), "--cluster", f"hgx-h100:{nodes}", "--fault", fault)
            verdict, what = f.verdict(), f"{fault} of {nodes} nodes"
            equal(ran.code, 3 if at is None else 7 if at else 0, f"status of {what}")
            found = blamed(verdict)
            # Of two nodes none can be blamed.
            expect(bool(found) == bool(at and nodes > 2) and all(at & them and len(them) < 3 for them in found), f"{what} blames {found}")
            if at is None:
                reasons = [g["reason"] for g in verdict["gates"] if g["verdict"] == "could not judge"]
                known = "changes no time", "so the cost of slow_link there is unknown", "give at least 3 nodes"
                expect(reasons and all(any(words in r for words in known) for r in reasons), f"{what}: {reasons}")


def culprits(verdict):
    return [g["reason"] for g in verdict["gates"] if g["metric"] == "culprit"]


@test
def narrowed_down():
    """A step on all nodes that fails is halved until the node, the path between two, or the smallest slow group is
    known."""
    gate = "      - metric: busbw\n        where: {placement: out-of-place}\n        from: {topology: 60% of ring}\n"
    run = "all_gather_perf --backend nccl -b 8G -e 8G --algo ring -g {per_node}"
    text = profile(step(run, gate, "all", "    nodes: all\n"), more="system: hgx-h100\nranks: 8\n")
    for nodes, fault, wanted, groups in (
        (232, "slow_node:231:1.7", "node 231: busbw 213.4 GB/s with node 230, limit 238.5; node 230 keeps to it with another node",
         ["116", "58", "29", "15", "8", "4", "2", "2+1"]),
        (232, "slow_link:72:80:4", "node 9 and node 10: busbw 96.85 GB/s, limit 238.5; each keeps to it with another node",
         ["116", "58", "29", "15", "8", "4", "2", "2+1"]),
        (3, "lost_rail:1:2", "node 1 or its path to node 0: busbw 193.6 GB/s, limit 238.5; node 0 keeps to it with another node", ["2", "2+1"]),
    ):  # fmt: skip
        with Folder() as f:
            path, cluster = f.profile(text), ("--nodes", str(nodes), "--cluster", f"hgx-h100:{nodes}")
            f.run(path, *cluster, "--fault", fault).exits(7)
            verdict = f.verdict()
            equal(culprits(verdict), [wanted], fault)
            ran = [s["name"] for s in verdict["steps"] if s["name"] != "all"]
            equal(ran, [f"all@{n}" for n in groups], "narrower steps")
            # The folder knows its nodes.
            acceptance("run", "--resume", os.path.join(f.name, "out"), "--no-report", "--quiet").exits(7).prints(wanted)
            f.run(path, *cluster, out="well").exits(0)
            ran = {g["step"] for g in f.verdict("well")["gates"] if g["verdict"] != "skipped"}
            equal(ran, {"all"}, "steps of healthy nodes")


@test
def time_of_a_plan():
    """The plan's last line: the sum over the runs, from the profile or an earlier run, or what is missing."""
    path = os.path.join(PROFILES, "hgx-h100.yaml")
    plan = acceptance("run", path, "--nodes", "232", "--dry-run").exits(0)
    equal(plan.out.splitlines()[-2:], ["Runs: 21, at most 11 more after a failure; time of 21 as the profile states, not measured",
                                       "Time: 10 min 30 s if healthy, at most 7 min more after a failure"], "time")  # fmt: skip
    with Folder() as f:
        small = f.profile(profile(step("all_reduce_perf -g 2 -b 1K -e 1K"), more="time_limit: 90s\n"))
        acceptance("run", small, "--dry-run").exits(0).prints(
            "Runs: 1; time of 1 unknown, give takes: or --times", "Time: unknown; the time limits allow 1 min 30 s")
        f.run(small).exits(0)
        out = os.path.join(f.name, "out")
        acceptance("run", small, "--dry-run", "--times", out).exits(0).prints(f"Runs: 1; time of 1 as measured in {out}\nTime: ", " s if healthy\n")
        acceptance("run", small, "--times", out).exits(2).says("--times", "needs --dry-run")
        acceptance("run", small, "--dry-run", "--times", f.name).exits(2).says("holds no verdict.json")
        acceptance("run", f.profile(profile(step("all_reduce_perf"), more="takes: long\n")), "--dry-run").exits(2).says("p.yaml:2: takes: long")


@test
def whole_clusters():
    """--nodes runs a step in groups of as many nodes as it has; who is to blame is asked only if one fails."""
    path = os.path.join(PROFILES, "hgx-h100.yaml")
    run = ("run", path, "--nodes", "29")
    plan = acceptance(*run, "--dry-run").exits(0)
    plan.prints("on 29 nodes, each alone, all at once", "on 14 groups of 2 nodes, all at once", "the last node is tested by rails@2+1",
                "on 1 group of 29 nodes", "env NCCL_TESTS_SPLIT=/8 mpirun -np 29 -N 1 -x NCCL_TESTS_SPLIT ",
                "env NCCL_TESTS_SPLIT=/16 mpirun -np 232 -N 8 -x NCCL_TESTS_SPLIT ",
                "env NCCL_TESTS_SPLIT=+8%232/16 mpirun -np 232 -N 8 -x NCCL_TESTS_SPLIT ", ", if an earlier step fails",
                "if it fails: groups of 15, 8, 5, 3, 2, 2 shifted by a node: at most 6 runs until the culprit is found")
    acceptance("run", path, "--dry-run").exits(0).prints("step all_nodes: left out; nodes: all needs --nodes")
    acceptance("run", path, "--node", "4", "--dry-run").exits(0).prints("on 4 nodes, each alone, all at once")
    acceptance("run", path, "--nodes", "1").exits(2).says("--nodes 1: step pair_of_nodes needs 2 nodes")
    acceptance(*run, "--cluster", "hgx-h100:28").exits(2).says("has 28 nodes; step all_reduce needs 29")
    with Folder() as f:
        large = ("--nodes", "232", "--cluster", "hgx-h100:232")
        f.run(path, *large).exits(0).prints("Verdict: passed (simulated)", "no earlier step failed")
        f.run(path, *large, "--fault", "lost_rail:100:2", out="ill").exits(7).prints("of node 100 ")
        verdict = f.verdict("ill")
        steps = {g["step"]: g["verdict"] for g in verdict["gates"] if g["verdict"] != "skipped"}
        # The pairs show who is slow, so that nothing else is narrowed down.
        equal([name for name, verdict in steps.items() if verdict == "failed"],
              ["pair_of_nodes", "pair_of_nodes@2+1", "rails", "all_nodes", "who_is_slow"], "steps")  # fmt: skip
        equal(culprits(verdict), ["node 100: busbw 361.8 GB/s with node 101, limit 422.9; node 101 keeps to it with another node"], "culprits")
        equal(verdict["args"][2:], [path, "--nodes", "232", "--cluster", "hgx-h100:232", "--fault", "lost_rail:100:2"], "repeats it")
        f.run(path, "--nodes", "29", "--cluster", "hgx-h100:29", out="left").exits(0)
        # The last node has a partner only in the shifted pairs.
        f.run(path, "--nodes", "29", "--cluster", "hgx-h100:29", "--fault", "lost_rail:28:2", out="last").exits(7)
        equal({words.split(":")[0] for words in culprits(f.verdict("last"))}, {"node 28 or its path to node 0"}, "culprits")
        acceptance("run", path, "--resume", os.path.join(f.name, "left"), "--nodes", "28", "--cluster", "hgx-h100:29").exits(2).says(
            "another --nodes or --ranks-per-node")


@test
def ranks_of_launchers():
    """A process a node with -g, a rank a process without it; other numbers are refused before anything starts."""
    def plan(run, *words, launcher="srun", lines=""):
        with Folder() as f:
            path = f.profile(profile(step(run, more=lines), more=f"launcher: {launcher}\nranks: 8\n"))
            return acceptance("run", path, "--dry-run", *words)

    gpus, srun = "all_reduce_perf --backend nccl -b 8G -e 8G ", "srun --mpi=pmix -K1 -N "
    for run, words, line in [
        (gpus + "-g 8", [], srun + "1 -n 1 --ntasks-per-node=1 "),
        (gpus, [], srun + "1 -n 8 --ntasks-per-node=8 "),
        (gpus + "-g8", ["--nodes", "29"], "env NCCL_TESTS_SPLIT=/8 " + srun + "29 -n 29 --ntasks-per-node=1 "),
        (gpus, ["--nodes", "29"], "env NCCL_TESTS_SPLIT=/8 " + srun + "29 -n 232 --ntasks-per-node=8 "),
        (gpus + "-t 2 --ng=2", ["--nodes", "29"], srun + "29 -n 58 --ntasks-per-node=2 "),
        (gpus + "-g {per_node}", ["--nodes", "29", "--ranks-per-node", "4"], srun + "29 -n 29 --ntasks-per-node=1 "),
    ]:
        plan(run, *words).exits(0).prints(line)
    plan(gpus + "-g 8", launcher="mpirun").exits(0).prints("mpirun -np 1 -N 1 ")
    plan(gpus + "-g 8", launcher="local").exits(0).require("mpirun" not in plan(gpus + "-g 8", launcher="local").out, "a launcher")
    plan(gpus + "-g 8", "--nodes", "29", "--ranks-per-node", "4").exits(2).says(
        "p.yaml:5: step a: 29 nodes x 4 ranks = 116 ranks are planned, but srun would start 29 processes x 8 ranks (-t x -g) = 232; ")
    plan(gpus + "-g 3").exits(2).says("1 node x 8 ranks = 8 ranks are planned, but srun would start 2 processes x 3 ranks (-t x -g) = 6")
    plan(gpus, launcher="local").exits(2).says("step a: 8 ranks are planned, but run: starts 1 (-t x -g); give -g {per_node}")
    plan("all_reduce_perf --backend host -t 8", "--nodes", "2").exits(2).says("srun would start 2 processes, but --backend host is one")
    plan("all_reduce_perf --backend mpi -t 8").exits(2).says("are 8 ranks a process, but on --backend mpi a rank is a process")
    plan(gpus + "-g 3", "--cluster", "hgx-h100").exits(0).prints("-t 1 -g 8 --cluster hgx-h100")


@test(full=True, cores=2)
def a_slow_host_is_named():
    """Four real hosts, one behind a slow link: its pairs fail with either neighbour, and diagnose names it."""
    mpi.need()
    pairs = "    ranks: 2\n    nodes: 2\n", "      - metric: busbw\n        from: {link: \"10MB/s,5ms\"}\n        down: 90%\n"
    text = profile(
        step("all_reduce_perf --backend mpi --algo busbench:ring -b 1M -e 1M -n 2 -w 1", pairs[1], "pairs", pairs[0]),
        step("all_reduce_perf --backend mpi -b 1K -e 1K", name="all", more="    nodes: all\n"),
        step("diagnose --backend mpi -b 64K --steps 0", name="culprit", more="    nodes: all\n    when: failed\n"),
        more="launcher: mpirun\nlauncher_args: --host HOSTS\nranks: 1\n")
    with Folder() as f, Hosts(4, links={3: Link(rate="5mbit")}) as hosts:
        text = text.replace("HOSTS", hosts.names())
        words = ("run", f.profile(text), "--nodes", "4", "--no-report", "-o", os.path.join(f.name, "out"))
        hosts.execute([built("acceptance"), *words]).exits(7)
        verdicts = {n["host"]: n["verdict"] for n in f.verdict()["nodes"]}
        reasons = culprits(f.verdict())
    equal(verdicts, {"h1": "OK", "h2": "OK", "h3": "BAD", "h4": "OK"}, "verdicts")
    equal([reason.split(":")[0] for reason in reasons], ["h3"], "culprits")


@test
def planned_wrongly():
    path = os.path.join(PROFILES, "hgx-h100.yaml")
    acceptance("run", path, "--cluster", "hgx-h10:2").exits(2).says("did you mean hgx-h100?")
    acceptance("run", path, "--cluster", "hgx-h100").exits(2).says("has 1 node; step pair_of_nodes needs 2")
    acceptance("run", path, "--cluster", "gb200-nvl72:4").exits(2).says("nodes of 4 ranks; step all_reduce has 8")
    acceptance("run", path, "--fault", "lost_rail:0:2").exits(2).says("--cluster")
    # A fault is refused before anything runs; one that only some programs support, by the first that does not.
    played = ("run", path, "--cluster", "hgx-h100:2", "--fault")
    acceptance(*played, "foo", "--dry-run").exits(2).says('"foo" is not a fault here', "or late:RANK:TIME (late:2:5ms)\n")
    for fault in "lost_rail:9:2", "lost_rail:0:99":
        acceptance(*played, fault, "--dry-run").exits(2).says("has nodes 0 to 1 with rails 0 to 7")
    with Folder() as f:
        for _ in range(2):  # it leaves nothing to continue
            f.run(path, *played[2:], "swap:3").exits(2).says("step all_reduce: all_reduce_perf: --fault", "lost_rail:NODE:RAIL (lost_rail:3:0)\n")
    acceptance("run", path, "--quick", "--cluster", "hgx-h100", "--dry-run").exits(0).prints("--backend sim -t 1 -g 8 --cluster hgx-h100", ": 1 run,")
    acceptance(*played[:4], "--dry-run").exits(0).prints("\nRuns: 6; simulated, the times of real runs do not apply\n")
    with Folder() as f:
        out = os.path.join(f.name, "out")
        f.run(path, "--quick", "--cluster", "hgx-h100").exits(0)
        acceptance("run", path, "--quick", "--resume", out).exits(2).says("another --cluster or --fault")


def on_stand_ins(text, code, env=None):
    """A profile for GPUs from the first command to the verdict, on stand-ins for CUDA and NCCL."""
    folder = gpus.installed().name
    if not os.path.exists(os.path.join(folder, "acceptance")):
        raise Skipped("acceptance was not built: no libyaml")
    with Folder() as f:
        path = f.profile(text)
        out = os.path.join(f.name, "out")
        words = [os.path.join(folder, "acceptance"), "run", path, "--quiet", "--no-report", "-o", out]
        execute(words, env).exits(code)
        return f.verdict()


def small_steps(name, keep):
    """The steps KEEP of a shipped profile, with sizes that fit into the stand-ins' memory. Published numbers of large
    sizes become a bound."""
    with open(os.path.join(PROFILES, name + ".yaml"), encoding="utf-8") as file:
        head, *steps = re.split(r"\n(?=  - name: )", re.sub(r"\n *#.*", "", file.read()).replace("repeats: 3", "repeats: 1"))
    text = "\n".join([head] + [step for step in steps if keep(step)]) + "\n"
    text = re.sub(r"\b\d+G\b", "1M", text.replace("256M", "128K")).replace("--backend nccl", "--backend nccl -n 1 -w 0")
    return re.sub(r"{reference: (mle_|oci_h100)[^}]*}", "{topology: 90% of ring}", text)


def slow_gpus(name):
    """Stand-ins compute on the CPU: data is right, and no gate of a GPU passes."""
    text = small_steps(name, lambda step: "launcher:" not in step and "nodes: all" not in step)
    verdict = on_stand_ins(text, 7)
    gates = verdict["gates"]
    equal({g["verdict"] for g in gates if g["metric"] == "correctness"}, {"passed"}, "correctness")
    equal({g["step"] for g in gates if (g["metric"], g["verdict"]) == ("busbw", "failed")},
          set(re.findall(r"  - name: (\w+)", text)), "steps whose bandwidth fails")  # fmt: skip
    node, = verdict["nodes"]
    equal((node["verdict"], node["code"]), ("BAD", "BB-BELOW-GATE"), "node")


for name in PLANNED:
    add(f"slow_gpus_{name}", slow_gpus, name, full=name != "hgx-h100")


@test(full=True)
def slow_gpus_under_mpirun():
    mpi.need()
    text = small_steps("hgx-h100", lambda step: "launcher: mpirun" in step).replace("1M", "64K")
    text = text.replace("    ranks: 16\n    nodes: 2", "    ranks: 8\n    nodes: 1\n    launcher_args: --oversubscribe --bind-to none")
    with gpus.shared() as env:
        gates = on_stand_ins(text, 7, {**mpi.LOCAL, **env})["gates"]
    equal([(g["step"], g["metric"], g["verdict"]) for g in gates],
          [(s, *rest) for s in ("pair_of_nodes", "rails") for rest in (("correctness", "passed"), ("busbw", "failed"))], "gates")  # fmt: skip


@test
def gpus_that_are_fast_enough():
    """Gates of links with a latency of a second pass on stand-ins, however busy the machine is."""
    gate = '      - metric: time\n        from: {link: "1MB/s,1s"}\n'
    run = "all_reduce_perf --backend nccl -g 8 -b 64K -e 64K -n 1 -w 0 --algo ring,tree"
    verdict = on_stand_ins(profile(step(run, gate), more="system: hgx-h100\nranks: 8\n"), 0)
    equal(len([g for g in verdict["gates"] if g["metric"] == "time" and g["verdict"] == "passed"]), 4, "gates")
    equal([n["verdict"] for n in verdict["nodes"]], ["OK"], "nodes")


# ---- running -----------------------------------------------------------------------------------


@test
def dry_run_runs_nothing():
    with Folder() as f:
        result = f.run(THIS_MACHINE, "--dry-run").exits(0)
        result.prints("all_reduce_perf --output-folder", "/files --backend host -g 2", "gate: no wrong data", "20% of what the copy speed of the same run allows")
        expect(not os.path.exists(os.path.join(f.name, "out")), "the folder was made")


@test
def shipped_profiles():
    """Each profile is valid, finds its references, and has a quick mode."""
    folder = os.path.join(ROOT, "ci", "profiles")
    names = sorted(os.listdir(folder))
    for name in "this-machine mpi-cluster dgx-a100 hgx-h100 hgx-h200 hgx-b200 gb200-nvl72".split():
        expect(name + ".yaml" in names, f"{name} is missing")
    for name in names:
        for mode in "--quick", "--full":
            acceptance("run", os.path.join(folder, name), mode, "--dry-run").exits(0).prints("step ", "gate: ")


@test
def quick_and_full():
    text = profile(step("all_reduce_perf -g 2 -b 1K -e 1K -n 2", "", "q", "    modes: quick\n"),
                   step("all_reduce_perf -g 2 -b 1K -e 1K -n 2", "", "f", "    modes: full\n"))
    with Folder() as f:
        path = f.profile(text)
        for words, wanted in (("--quick",), "q"), (("--full",), "f"), ((), "f"):
            result = f.run(path, "--dry-run", *words).exits(0)
            result.require(f"step {wanted}:" in result.out and result.out.count("step ") == 1, "other steps")
        f.run(path, "--quick", "--full").exits(2).says("one of them")


@test
def resumed():
    """Completed runs are not repeated; their records are kept."""
    with Folder() as f:
        path = f.profile(profile(step("all_reduce_perf -g 2 -b 1K -e 1K -n 2", "", "a"),
                                 step("all_reduce_perf -g 2 -b 1K -e 1K -n 2", "", "b")))
        f.run(path).exits(0)
        out = os.path.join(f.name, "out")
        f.run(path).exits(2).says("--resume")
        before = os.stat(os.path.join(out, "records", "a.1.jsonl")).st_mtime_ns
        runs = os.path.join(out, "runs.jsonl")
        with open(runs, encoding="utf-8") as file:
            lines = file.readlines()
        with open(runs, "w", encoding="utf-8") as file:
            file.writelines(lines[:2] + [lines[2][:20]])  # as if killed while b ran
        os.remove(os.path.join(out, "records", "b.1.jsonl"))
        acceptance("run", path, "--quiet", "--no-report", "--resume", out).exits(0)
        equal(os.stat(os.path.join(out, "records", "a.1.jsonl")).st_mtime_ns, before, "records of a")
        b = os.path.join(out, "records", "b.1.jsonl")
        written = os.stat(b).st_mtime_ns
        acceptance("run", path, "--quiet", "--no-report", "--resume", out).exits(0)
        equal(os.stat(b).st_mtime_ns, written, "records of b, which had ended")
        # Without a profile, the folder's own profile and options apply.
        os.remove(b)
        with open(runs, "w", encoding="utf-8") as file:
            file.writelines(lines[:2])
        acceptance("run", "--quiet", "--no-report", "--resume", out).exits(0)
        equal((f.verdict()["profile_path"], os.path.exists(b)), (path, True), "where the profile was, and records of b")
        acceptance("run", "--resume", f.name).exits(2).says("holds no run of acceptance")
        other = f.profile(profile(step("all_reduce_perf -g 3")), "other.yaml")
        acceptance("run", other, "--resume", out).exits(2).says("is not the profile of that run")


@test
def interrupted():
    with Folder() as f:
        path = f.profile(profile(step("all_reduce_perf -g 2 -b 64M -e 64M -n 1000000 -T 0", "", "a")))
        acceptance("--version")
        out = os.path.join(f.name, "out")
        process = spawn([built("acceptance"), "run", path, "-o", out])
        try:
            process.stderr.readline()  # it has begun
            process.terminate()
            said, err = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
        equal(process.returncode, 143, f"exit status\n{err}")
        expect(said.endswith(f"To resume: {built('acceptance')} run --resume {out}\nVerdict: interrupted\n"), said)
        equal(f.verdict()["verdict"], "interrupted", "verdict")


@test
def report():
    """The page is written if matplotlib and Jinja2 exist; without them the verdict stands alone."""
    with Folder() as f:
        path = f.profile(profile(step("all_reduce_perf --backend host -g 2 -b 64K -e 64K -n 3", GATE)))
        out = os.path.join(f.name, "out")
        result = acceptance("run", path, "--quiet", "-o", out).exits(0, 7)  # the speed decides, not the test
        page = os.path.join(out, "report", "index.html")
        result.require(("Report: " + page in result.out) == os.path.exists(page), "no such page")
        result.require(os.path.exists(page) or "No report: " in result.out, "nothing is said of the page")
        if os.path.exists(page):
            with open(page, encoding="utf-8") as file:
                expect(f.verdict()["verdict"] in file.read(), "the page lacks the verdict")


@test
def slurm_epilog():
    """It always exits 0, and drains a bad node only on request."""
    acceptance("--version")
    with Folder() as f:
        os.mkdir(os.path.join(f.name, "bin"))
        for name in "logger", "scontrol":
            write_program(os.path.join(f.name, "bin", name), f'#!/bin/sh\necho {name} "$@" >>{f.name}/said\n')
        os.symlink(built("acceptance"), os.path.join(f.name, "bin", "acceptance"))
        path = f.profile(profile(step("all_reduce_perf --backend host -g 2 -b 4K -e 4K --fault corrupt:1")))
        env = {"BUSBENCH": f.name, "PROFILE": path, "PATH": os.path.join(f.name, "bin") + ":" + os.environ["PATH"],
               "SLURMD_NODENAME": "n7"}  # fmt: skip
        drain = "scontrol update nodename=n7 state=drain reason=busbench:BB-WRONG-DATA\n"
        for more, wanted in ({}, f"logger -t busbench -- {drain}"), ({"DRAIN": "1"}, drain):
            execute([os.path.join(ROOT, "ci", "examples", "slurm-epilog.sh")], {**env, **more}).exits(0)
            with open(os.path.join(f.name, "said"), encoding="utf-8") as file:
                said = file.read()
            expect(wanted in said.splitlines(True), f"{wanted!r} is not in {said}")
            equal(drain in said.splitlines(True), bool(more), "drained")


def command_of(process):
    try:
        with open(process + "/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # it has ended
        return ""


@test
def nothing_is_left_behind():
    """mpirun's ranks, which have process groups of their own, are ended too."""
    with Folder() as f:
        seed = 10**9 + os.getpid()
        path = f.profile(profile(step(f"all_reduce_perf --backend mpi -b 16M -e 16M -n 1000000 -T 0 --seed {seed}", "", "a",
                                      "    time_limit: 3s\n"), more="launcher: mpirun\nranks: 2\n"))
        mpi.need()
        f.run(path, env=mpi.LOCAL).exits(3).prints("ran past its time limit of 3 s")
        equal([c for c in map(command_of, glob.glob("/proc/[0-9]*")) if str(seed) in c], [], "processes that are left")


# ---- other sources of expectations ---------------------------------------------------------------


@test
def simulator():
    """The expectation is the same command in virtual time, on a link or a known cluster."""
    gate = "      - metric: busbw\n        where: {{placement: in-place}}\n        from: {{{}}}\n        down: 5%\n"
    run = "all_reduce_perf --backend sim --link {} -g 8 -b 64M -e 64M --algo ring"
    with Folder() as f:
        for name, link, code in ("same", "20GB/s,5us", 0), ("slow", "18GB/s,5us", 7):
            path = f.profile(profile(step(run.format(link), gate.format('link: "20GB/s,5us"')), more="ranks: 8\n"), name)
            f.run(path, out="out-" + name).exits(code)
        for source, *words in ("cluster: nowhere:1", "nowhere: not a known system"), ("link: banana", "--link banana"), ("cluster: hgx-h100:0", "hgx-h100"):
            path = f.profile(profile(step(run.format("1GB/s,5us"), gate.format(source)), more="ranks: 8\n"), "no.yaml")
            f.run(path, "--dry-run").exits(2).says("no.yaml:7: gate of a: from:", *words)


@test
def pairs():
    """Bandwidths of pairs can have gates, private copies not; a latency has no data to check."""
    bandwidth = ("      - metric: bandwidth\n        where: {kind: pair, route: read, direction: unidirectional}\n"
                 "        from: {bound: 0.1%}\n")
    with Folder() as f:
        f.run(f.profile(profile(step("p2p_bandwidth_perf --backend host -g 2 -b 64K -e 64K", bandwidth),
                                step("p2p_latency_perf --backend host -g 2 -n 5", "", "b")))).exits(0)
        subjects = [g["subject"] for g in f.verdict()["gates"] if g["metric"] == "bandwidth"]
        equal([s.split(" read")[0] for s in subjects], ["bandwidth 64K from 0 to 1", "bandwidth 64K from 1 to 0"], "pairs")


@test
def shapes():
    """On links of 1 GB/s trees are faster for small sizes and rings for large ones; curves rise."""
    run = "all_reduce_perf --backend sim --link 1GB/s,20us,port -g 8 -b 1K -e 64M -f 4 --algo ring,tree"
    cross = "      - shape: crossover\n        between: tree, ring\n        window: {}\n        from: {{rule: this model}}\n"
    with Folder() as f:
        dip = "      - shape: no-dip\n        down: 1%\n        from: {rule: bandwidths rise}\n"
        f.run(f.profile(profile(step(run, cross.format("1K-64M") + dip)))).exits(0).prints("crossover", "no-dip")
        f.run(f.profile(profile(step(run, cross.format("32M-64M")))), out="high").exits(7).prints("window 32M-64M")
        down = "all_reduce_perf --backend sim --link 1GB/s,20us,port -g 8 -b 1K -e 1M -f 4 --algo ring,tree"
        f.run(f.profile(profile(step(down, cross.format("1M-64M").replace("tree, ring", "ring, tree")))), out="never")
        equal(f.verdict("never")["verdict"], "failed", "they do not cross that way")

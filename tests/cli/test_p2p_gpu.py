"""Pairs of GPUs, which are stand-ins (tests/fake)."""

import csv
import json
import os
import signal
import tempfile
import time
from types import SimpleNamespace

import gpus
import kit
import mpi
import tcp
from kit import SANITIZERS, Settings, add, equal, expect, test

DIRECT = {"read": "target", "write": "source", "read-kernel": "target", "write-kernel": "source"}

ROUTES = [(route, "on", actor) for route, actor in DIRECT.items()]
ROUTES += [("staged", "off", "both"), ("send", "on", "both"), ("send", "off", "both")]


def records(line, env=None, codes=(0,)):
    """{kind: [record…]} of a run that leaves nothing behind."""
    result = gpus.run(line + " --backend nccl --json -", env).exits(*codes)
    result.require(codes != (0,) or not result.err, "something on stderr")
    return result.by_kind()


@test
def every_route():
    """Every pair over every route, at sizes of one, less than one, and several pieces."""
    for sizes in ("-b 1 -e 5000 -f 70 -n 1 -w 0", "-b 5000001 -e 5000001 -n 1 -w 0 --direction bidirectional"):
        found = records(f"p2p_bandwidth -g 3 {sizes}")
        library = "on (NCCL_P2P_DISABLE is not set); in a child process off (NCCL_P2P_DISABLE=1)"
        equal(found["run"][0]["library_p2p"], library, "library_p2p")
        for route, p2p, actor in ROUTES:
            mine = [r for r in found["pair"] if (r["route"], r["p2p"]) == (route, p2p)]
            one = {(r["from"], r["to"]) for r in mine if r["direction"] == "unidirectional"}
            both = {(r["from"], r["to"]) for r in mine if r["direction"] == "bidirectional"}
            wanted = {(a, b) for a in range(3) for b in range(3) if a != b or route in DIRECT}
            expect(one in (wanted, set()), f"pairs of {route}: {one}")
            equal(both, {(0, 1), (0, 2), (1, 2)}, f"pairs of {route} both ways")
            for r in mine:
                equal((r["actor"], r["wrong"], r["ends"]), (actor, 0, "gpu"), route)
                equal(r["child_process"], (route, p2p) == ("send", "off"), f"who measured {route}, P2P {p2p}")


@test
def all_to_one_and_back():
    """One GPU with all others at once: their copy engines and kernels, and NCCL's messages in one group, on and off."""
    found = records("p2p_bandwidth -g 3 -b 600 -e 2M -f 3000 -n 2 --direction all-to-one")
    wanted = {("write", "on"), ("write-kernel", "on"), ("send", "on"), ("send", "off")}
    equal({(r["route"], r["p2p"], r["to"], r["wrong"]) for r in found["pair"]},
          {(*route, to, 0) for route in wanted for to in range(3)}, "all to one")
    found = records("p2p_bandwidth -g 3 -b 2M -e 2M -n 1 --direction one-to-all --p2p on --fault corrupt:2", codes=(7,))
    equal({(r["route"], r["from"], r["wrong"]) for r in found["pair"]},
          {(route, i, int(i != 2)) for route in ("read", "read-kernel", "send") for i in range(3)}, "one to all")


@test
def port_bounds_all_to_one():
    """The bound is that of a pair where all share a port, of NVSwitches or of PCIe; links of their own add up."""
    for words, times, why in (
        ("gpus=3 sm=90 switch=18", 1, "18 NVLink4"),
        ("gpus=3 sm=80 mesh=4", 2, "links to each of the others"),
        ("gpus=3 sm=90 gen=5 width=16", 1, "PCIe Gen5"),
    ):
        found = records("p2p_bandwidth -g 3 -b 8K -e 8K -n 1 -w 0 --p2p on --direction all", with_links(words))
        pair = {round(r["bound_GBps"], 6) for r in between(found) if r["direction"] == "unidirectional"}
        for r in (r for r in found["pair"] if r["direction"] in ("all-to-one", "one-to-all")):
            equal({round(r["bound_GBps"] / times, 6)}, pair, f"{words}: {r['bound_source']}")
            expect(why in r["bound_source"], r["bound_source"])


@test(full=True)
def without_peer_access():
    """Routes that need access are skipped with the reason, except in a GPU's own memory."""
    found = records("p2p_bandwidth -g 3 -b 64 -e 64 -n 2", {"BUSBENCH_FAKE_PEERS": "0"})
    pairs = {(r["from"], r["to"]) for r in found["pair"] if r["route"] in DIRECT}
    equal(pairs, {(0, 0), (1, 1), (2, 2)}, "pairs")
    equal({r["algorithm"] for r in found["skip"]}, set(DIRECT), "skipped")
    for r in found["skip"]:
        expect(r["reason"].startswith("0 <-> 1 and 2 other pairs: the GPUs have no access"), r["reason"])
    equal({r["route"] for r in found["pair"] if r["from"] != r["to"]}, {"staged", "send"}, "routes")
    line = "p2p_latency -g 2 -n 2 --backend nccl"
    gpus.run(line, {"BUSBENCH_FAKE_PEERS": "0"}).exits(5).prints("# skipped: word: 0 <-> 1: the GPUs have no access")


@test(full=True)
def library_switched_off():
    """NCCL's P2P is disabled before it starts; a setting of the user counts as it is."""
    found = records("p2p_bandwidth -g 2 -b 64 -e 64 -n 2 --p2p off")
    equal(found["run"][0]["library_p2p"], "off (NCCL_P2P_DISABLE=1)", "library_p2p")
    equal({(r["route"], r["p2p"]) for r in found["pair"]}, {("staged", "off"), ("send", "off")}, "routes")
    for env, p2p in (
        ({"NCCL_P2P_DISABLE": "1"}, {"off"}),
        ({"NCCL_P2P_DISABLE": "0"}, {"on", "off"}),
        ({"NCCL_P2P_LEVEL": "LOC"}, {"off"}),
        ({"NCCL_P2P_LEVEL": "SYS"}, {"on", "off"}),
    ):
        found = records("p2p_bandwidth -g 2 -b 8 -e 8 -n 1", env)
        equal({r["p2p"] for r in found["pair"] if r["route"] == "send"}, p2p, f"send with {env}")
    found = records("p2p_bandwidth -g 2 -b 8 -e 8 -n 1 --p2p on")
    equal({r["p2p"] for r in found["pair"]}, {"on"}, "--p2p on")


@test
def words():
    found = records("p2p_latency -g 3 -n 7")
    equal({(r["from"], r["to"], r["route"]) for r in found["pair"]},
          {(a, b, way) for way in ("word", "copy") for b in range(3) for a in range(b)}, "pairs")
    for r in found["pair"]:
        expect(0 < r["min_us"] <= r["p50_us"] <= r["p99_us"], f"times of {r}")


@test
def wrong_data():
    found = records("p2p_bandwidth -g 3 -b 100 -e 100 -n 1 --fault corrupt:1", codes=(7,))
    for r in found["pair"]:
        hit = r["to"] == 1 or (r["direction"] == "bidirectional" and r["from"] == 1)
        equal(r["wrong"], int(hit), f"wrong of {r['route']} {r['from']} -> {r['to']}")


@test(cores=kit.ALL, full=True)
def slow_link():
    """One direction takes 20 times as long over every route."""
    line = "p2p_bandwidth -g 2 -b 1K -e 1K -n 5 --direction unidirectional --fault slow_link:1:0:10"
    times = {(r["route"], r["p2p"], r["from"], r["to"]): r["min_us"] for r in records(line)["pair"]}
    for route, p2p, _ in ROUTES:
        there, back = times[route, p2p, 1, 0], times[route, p2p, 0, 1]
        expect(there > 2 * back, f"{route}: {there} us there, {back} us back at best")


def words_of(n, line):
    return ["mpirun", "-np", str(n), gpus.built("p2p_bandwidth_perf"), *f"--backend nccl {line}".split()]


def in_processes(n, line, hosts=None, changed=None, **env):
    """Process 0's result of processes that wait for each other in the kernel, where those of mpirun would poll."""
    with gpus.shared() as shared:
        results = tcp.Job(n, line, changed, hosts=hosts, program=gpus.built, **{**shared, **env}).finish()
    for result in results.values():
        result.exits(0).require("fake: " not in result.err, "something was not let go")
    return results[0]


def under_mpirun(n, line):
    with gpus.shared() as shared:
        result = mpi.Job(words_of(n, line), shared).finish().exits(0)
    return result.require("fake: " not in result.err, "something was not let go")


def among_processes(n, line, env=None):
    """({(route, from, to, wrong)…} of pairs of different ranks, {route: reason} of skipped routes)."""
    return between_ranks(in_processes(n, f"p2p_bandwidth --backend nccl {line} --json -", **(env or {})))


def between_ranks(result):
    found = result.records()
    pairs = {(r["route"], r["from"], r["to"], r["wrong"]) for r in found if r["kind"] == "pair" and r["from"] != r["to"]}
    return pairs, {r["algorithm"]: r["reason"] for r in found if r["kind"] == "skip"}


@test
def processes():
    """Each GPU in a process of its own: device memory is mapped, host memory shared."""
    pairs, skipped = between_ranks(under_mpirun(2, "-b 64 -e 64 -n 1 --json -"))
    equal({(route, wrong) for route, _, _, wrong in pairs}, {(r, 0) for r in (*DIRECT, "staged", "send")}, "routes")
    equal(skipped, {}, "skipped")


@test(full=True)
def staged_between_processes():
    """Part of a piece, as many pieces as slots, and more, in one direction and in both."""
    for n, size in ((3, 1), (2, 4 << 20), (2, 5_000_001)):
        pairs, _ = among_processes(n, f"-b {size} -e {size} -n 1 -w 0 --p2p off")
        one_way = {("staged", a, b, 0) for a in range(n) for b in range(n) if a != b}
        equal({p for p in pairs if p[0] == "staged"}, one_way, f"pairs of {size} B")
    pairs, skipped = among_processes(2, "-b 3M -e 3M -n 2", {"BUSBENCH_FAKE_PEERS": "0"})
    equal({p[0] for p in pairs}, {"staged", "send"}, "routes without peer access")
    equal(set(skipped), set(DIRECT), "skipped without it")


def on_two_hosts(line, other=None, **env):
    """{kind: [record…]} of two processes whose hosts have different names. OTHER: variables of the second."""
    elsewhere = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
    if kit.execute([*elsewhere, "true"]).code != 0:
        raise kit.Skipped("no second host on this machine: unshare cannot give a process a host name of its own")
    hosts = SimpleNamespace(spawn=lambda words, host: kit.spawn(words if host == 1 else [*elsewhere, *words]))
    changed = {1: {"BUSBENCH_FAKE_FIRST": "1", **(other or {})}}
    result = in_processes(2, f"{line} --backend nccl --json -", hosts, changed, **env)
    return {"skip": [], **result.by_kind()}


def between_processes(found):
    return {(r["route"], r["from"], r["to"], r["handle"], r.get("wrong")) for r in found["pair"] if r["from"] != r["to"]}


@test
def fabric_handles_reach_other_hosts():
    """Copy engines, kernels and round trips between two hosts, in memory that each maps of the other."""
    found = on_two_hosts("p2p_bandwidth -b 4000003 -e 4000003 -n 1 -w 0", BUSBENCH_FAKE_FABRIC="1")
    both = {(0, 1), (1, 0)}
    wanted = {(route, *ends, "fabric", 0) for route in DIRECT for ends in both} | {("send", *ends, None, 0) for ends in both}
    equal(between_processes(found), wanted, "pairs")
    equal({(r["algorithm"], r["reason"]) for r in found["skip"]}, {("staged", "0 <-> 1: the GPUs are in different hosts")}, "skipped")
    found = on_two_hosts("p2p_latency -n 3", BUSBENCH_FAKE_FABRIC="1")
    equal({(r["route"], r["handle"]) for r in found["pair"]}, {("word", "fabric"), ("copy", "fabric")}, "round trips")
    line = "p2p_bandwidth -g 2 -b 64K -e 64K -n 1 -w 0 --direction all-to-one"
    found = on_two_hosts(line, {"BUSBENCH_FAKE_FIRST": "2"}, BUSBENCH_FAKE_FABRIC="1")
    equal({(r["route"], r["to"], r["handle"]) for r in found["pair"]},
          {(route, to, handle) for route, handle in (("write", "fabric"), ("write-kernel", "fabric"), ("send", None)) for to in range(4)},
          "all to one")


@test
def no_fabric_handles():
    """Between hosts the reason is given, and nothing else is used in their place."""
    line = "p2p_bandwidth -b 64K -e 64K -n 1 -w 0 --p2p on"
    has, domain = {"BUSBENCH_FAKE_FABRIC": "1"}, {"BUSBENCH_FAKE_DOMAIN": "1"}
    for env, other, why in (
        (has, {"BUSBENCH_FAKE_FABRIC": "0"}, "HANDLE_TYPE_FABRIC_SUPPORTED"),
        ({**has, "BUSBENCH_FAKE_IMEX": "0"}, {}, "/dev/nvidia-caps-imex-channels"),
        (has, domain, "different NVLink domains"),
    ):
        found = on_two_hosts(line, other, **env)
        equal({r["route"] for r in found["pair"] if r["from"] != r["to"]}, {"send"}, f"routes with {env} {other}")
        equal({r["algorithm"] for r in found["skip"]}, set(DIRECT), "skipped")
        for r in found["skip"]:
            expect(why in r["reason"], r["reason"])


@test
def kinds_of_handles():
    """Within a host IPC handles are used, and fabric ones on request alone; never one in place of the other."""
    sizes = "-b 64K -e 64K -n 1 -w 0 --p2p on"
    line = "p2p_bandwidth --backend nccl " + sizes
    for words, env, handle in (
        ("", {"BUSBENCH_FAKE_FABRIC": "1"}, "ipc"),
        (" --handles ipc", {}, "ipc"),
        (" --handles fabric", {"BUSBENCH_FAKE_FABRIC": "1"}, "fabric"),
    ):
        in_processes(2, line + words, **env).prints(f"# Handles of GPU memory between processes: {handle}")
    result = in_processes(2, line + " --handles fabric")
    result.require("Handles of GPU memory" not in result.out, "handles are named that nobody uses")
    pairs, skipped = among_processes(2, sizes + " --handles fabric")
    equal({p[0] for p in pairs}, {"send"}, "routes")
    expect(all("HANDLE_TYPE_FABRIC_SUPPORTED" in why for why in skipped.values()), skipped)
    found = records("p2p_bandwidth -g 2 -b 64 -e 64 -n 1 --handles fabric")
    equal({r["handle"] for r in found["pair"]}, {None}, "handles within a process")


@test
def fabric_with_gpus_of_a_process():
    """GPUs of a process access each other's memory by its address, whatever handles it has."""
    line = "p2p_bandwidth --backend nccl -g 2 -b 64K -e 64K -n 1 -w 0 --json - --handles fabric"
    result = in_processes(2, line, BUSBENCH_FAKE_FABRIC="1")
    for r in result.by_kind()["pair"]:
        apart = r["from"] // 2 != r["to"] // 2 and r["route"] in DIRECT
        equal((r["handle"], r["wrong"]), ("fabric" if apart else None, 0), f"{r['route']} {r['from']} -> {r['to']}")


@test(full=True)
def fabric_fails():
    """Each call of the driver that makes or maps memory is named when it fails."""
    for call in ("cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemRetainAllocationHandle"):
        env = {"BUSBENCH_FAKE_FABRIC": "1", "BUSBENCH_FAKE_FAIL": f"{call}:1"}
        with gpus.shared() as shared:
            result = mpi.Job(words_of(2, "-b 64 -e 64 -n 1 --handles fabric"), {**shared, **env}).finish()
        expect(result.code != 0, f"{call} failed unnoticed")
        result.says(f"{call} failed in")


@test
def failed_calls_are_named():
    """Each call whose result is also an answer (access is enabled already, an event is not reached yet)."""
    line = "-b 64 -e 64 -n 1"
    failure = {"BUSBENCH_FAKE_FAIL": "cudaDeviceEnablePeerAccess:1"}
    gpus.run(f"p2p_bandwidth -g 2 --backend nccl {line}", failure).exits(3).says("cudaDeviceEnablePeerAccess failed in")
    with gpus.shared() as shared:
        result = mpi.Job(words_of(2, line + " --p2p off"), {**shared, "BUSBENCH_FAKE_FAIL": "cudaEventQuery:1"}).finish()
    expect(result.code != 0, "a failure was not noticed")
    result.says("cudaEventQuery failed in")


@test(full=True)
def staged_has_reasons():
    """Memory that cannot be pinned, or that is on another machine, is not shared."""
    pairs, skipped = among_processes(2, "-b 64 -e 64 -n 1 --p2p off", {"BUSBENCH_FAKE_PINS": "0"})
    equal({p[0] for p in pairs}, {"send"}, "routes")
    expect("cannot pin memory that processes share (cudaHostRegister)" in skipped["staged"], skipped)
    # NCCL believes in one host, but memory does not.
    found = on_two_hosts("p2p_bandwidth -b 64 -e 64 -n 1", NCCL_HOSTID="same")
    skipped = {r["algorithm"]: r["reason"] for r in found["skip"]}
    equal({reason for reason in skipped.values()}, {"0 <-> 1: the GPUs are in different hosts"}, "reasons")
    equal(set(skipped), {*DIRECT, "staged"}, "skipped")


@test(full=True)
def hosts_of_nccl_are_not_machines():
    """Different NCCL_HOSTID let two processes share a GPU. They reach each other's memory as on one machine, but do not
    wait for each other in kernels."""
    one = {"BUSBENCH_FAKE_GPUS": "1", "NCCL_TESTS_DEVICE": "0"}
    changed = {rank: {"NCCL_HOSTID": str(rank)} for rank in range(2)}
    for line, routes, refused in (
        ("p2p_bandwidth -b 64 -e 5000 -f 70 -n 1", {*DIRECT, "staged", "send"}, set()),
        ("p2p_latency -n 7", {"copy"}, {"word"}),
    ):
        with gpus.shared() as shared:
            line += " --backend nccl --json -"
            results = tcp.Job(2, line, changed, program=gpus.built, **shared, **one).finish()
        result = results[0].exits(0).require(not results[0].err, "something on stderr")
        found = result.records()
        pairs = [r for r in found if r["kind"] == "pair" and r["from"] != r["to"]]
        equal({r["route"] for r in pairs}, routes, f"routes of {line}")
        equal({r["algorithm"] for r in found if r["kind"] == "skip"}, refused, f"skipped by {line}")
        expect(all(not r.get("wrong") for r in pairs), f"{pairs}")


def mapped(pid):
    """True if the process has memory of staged transfers."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return "/memfd:busbench-staged" in file.read()
    except (OSError, ProcessLookupError):
        return False


@test
def staged_leaves_nothing():
    """A rank is killed during transfers: the others end in time, and nobody holds the memory any more."""
    with gpus.shared() as shared:
        job = mpi.Job(words_of(3, f"-b 8M -e 8M -n 100000 --p2p off -T {kit.BRIEF}"), shared)
        try:
            kit.wait_for(lambda: len([pid for pid in job.ranks().values() if mapped(pid)]) == 3, "memory is shared",
                         lambda: job.process.poll() is None)
            os.kill(job.ranks()[1], signal.SIGKILL)
            mpi.ended(job).exits(137)
        finally:
            job.end()
    equal(job.ranks(), {}, "processes left")
    equal([name for name in os.listdir("/dev/shm") if "busbench" in name], [], "files left")


HOST_ROUTES = {"pinned": "on", "pinned-kernel": "on", "pageable": "off"}


@test
def one_gpu_and_its_host():
    """Each direction and both, by pinned and pageable memory, selected by --p2p and --direction."""
    for words, routes, ways in (
        ("", HOST_ROUTES, {"unidirectional", "bidirectional"}),
        (" --p2p on --direction unidirectional", {"pinned": "on", "pinned-kernel": "on"}, {"unidirectional"}),
        (" --p2p off --direction bidirectional", {"pageable": "off"}, {"bidirectional"}),
    ):
        found = records("p2p_bandwidth -g 1 -b 4K -e 1M -f 256 -n 3" + words)
        ends = {"unidirectional": {(0, None, "source"), (None, 0, "target")}, "bidirectional": {(None, 0, "both")}}
        got = {(r["route"], r["p2p"], r["size_bytes"], r["direction"], r["from"], r["to"], r["actor"]) for r in found["pair"]}
        equal(got, {(route, p2p, size, way, *end) for route, p2p in routes.items() for size in (4096, 1 << 20)
                    for way in ways for end in ends[way]}, words)
        for r in found["pair"]:
            host = "pageable" if r["route"] == "pageable" else "host"
            equal({r["memory_from"], r["memory_to"]}, {"device", host}, "spaces")
            equal((r["wrong"], r["place"], r["ends"]), (0, "GPU 0", "memory"), "record")
            expect(0 < r["min_us"] <= r["p50_us"] <= r["p99_us"], f"times of {r}")


@test
def kernels_copy_pinned_memory():
    """Copies by kernels, one way and both at once, between the GPU and the memory of the host that kernels reach."""
    line = "mem_bandwidth -g 1 -b 64K -e 64K -n 2 --work kernel-copy"
    found = {(r["route"], r["memory_from"], r["memory_to"]): r for r in records(line)["pair"]}
    copies = {("kernel-copy", *ends) for ends in (("device", "device"), ("device", "host"), ("host", "device"))}
    equal(set(found), copies | {("kernel-both", "host", "device")}, "copies")
    for (route, a, b), r in found.items():
        times = 2 if a == b or route == "kernel-both" else 1
        expect(abs(r["GBps"] * r["p50_us"] - 1e-3 * times * 65536) < 1e-6 * r["GBps"] * r["p50_us"], f"counted bytes of {r}")
        equal(r["wrong"], 0, "wrong")
    wrong = records(line + " --fault corrupt:0", codes=(7,))["pair"]
    expect(all(r["wrong"] > 0 for r in wrong), "not seen")


@test
def one_gpu_as_text():
    """A matrix has both directions; the bound of pinned copies is the link's."""
    line = "p2p_bandwidth -g 1 -b 64K -e 64K -n 3 --backend nccl"
    out = gpus.run(line, with_links("gpus=1 sm=90")).exits(0).out
    for route, p2p in HOST_ROUTES.items():
        lines = out.split(f"# Unidirectional bandwidth, {route} (P2P {p2p}), 64K")[1].splitlines()
        cells = [line.split() for line in lines[1:4]]
        equal((cells[0], cells[1][:2], cells[2][0], cells[2][2]), (["#", "D\\D", "0", "host"], ["0", "N/A"], "host", "N/A"), out)
        expect(float(cells[1][2]) > 0 and float(cells[2][1]) > 0, "speeds")
        equal(lines[4].startswith("# of the bound: ") and "PCIe Gen" in lines[4], p2p == "on", lines[4])
        expect(f"# Bidirectional bandwidth, {route} (P2P {p2p}), 64K" in out, "both ways")
    gpus.run("p2p_bandwidth --list").exits(0).prints("pageable      bandwidth  P2P off")


@test
def one_gpu_goes_wrong():
    found = records("p2p_bandwidth -g 1 -b 4K -e 4K -n 1 --fault corrupt:0", codes=(7,))
    expect(all(r["wrong"] > 0 for r in found["pair"]), "not seen")
    found = records("p2p_bandwidth -g 1 -b 16M -e 16M -n 1 --fault slow:0:2ms")
    expect(all(r["min_us"] >= 2000 for r in found["pair"]), "not slow")
    found = records("p2p_bandwidth -g 1 -b 100 -e 512 -i 412 -n 1")
    equal({(r["algorithm"], r["size_bytes"]) for r in found["skip"]}, {(route, 100) for route in HOST_ROUTES}, "skipped")
    gpus.run("p2p_bandwidth -g 1 --backend nccl --precision 1%").exits(2).says("--precision")
    gpus.run("p2p_bandwidth -g 1 --backend nccl --direction one-to-all").exits(2).says("-g 2")
    gpus.run("p2p_latency -g 1 --backend nccl").exits(2).says("mem_bandwidth_perf --work latency")


@test
def dies():
    gpus.run("p2p_bandwidth -g 3 -b 8 -e 8 --backend nccl --fault die:1 -T 300").exits(3).says("rank 1")


@test
def halves_in_one_report():
    """Measurements of the child are in the parent's files and text, which the child does not touch."""
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        files = {kind: os.path.join(folder, kind) for kind in ("csv", "json")}
        words = " ".join(f"--{kind} {path}" for kind, path in files.items())
        result = gpus.run(f"p2p_bandwidth -g 2 -b 8 -e 64 -f 8 -n 3 --backend nccl {words}").exits(0)
        result.quiet()
        with open(files["csv"], encoding="utf-8") as file:
            rows = [(r["route"], r["p2p"], r["child_process"]) for r in csv.DictReader(file)]
        with open(files["json"], encoding="utf-8") as file:
            found = [json.loads(line) for line in file]
    equal(set(r for r in rows if r[0] == "send"), {("send", "on", "false"), ("send", "off", "true")}, "rows of send")
    equal([r["kind"] for r in found].count("run"), 1, "run records")
    pairs = [r for r in found if r["kind"] == "pair"]
    equal(found[-1]["results"], len(pairs), "results")
    times = [r["end_unix_s"] for r in pairs]
    expect(max(times[:-6]) >= max(times[-6:]), "the child was not first")
    for size in ("8", "64"):
        for p2p in ("on", "off"):
            result.prints(f"Unidirectional bandwidth, send (P2P {p2p}), {size}, GB/s")
    equal(result.out.count("# P2P of the library"), 1, "heads")


CHILD = "p2p_bandwidth -g 3 -b 4K -e 4K -n 3 --backend nccl"


@test
def failing_child():
    """Its failure is the run's, and nothing is reported; a later failure is the parent's."""
    result = gpus.run(CHILD + " --json -", {"BUSBENCH_FAKE_FAIL": "ncclSend:3"}).exits(3)
    result.says("ncclSend was to fail", "the child process that measures with P2P of the library off failed")
    result.require(not result.out, "half a result")
    result = gpus.run(CHILD + " --json -", {"BUSBENCH_FAKE_FAIL": "cudaEventCreateWithFlags:1"}).exits(3)
    result.require("child process" not in result.err, "the child is blamed")
    gpus.run(CHILD + " --p2p off", {"BUSBENCH_P2P_PARENT": "1"}).exits(2).says("BUSBENCH_P2P_PARENT=1", "unset it")


@test
def child_out_of_time():
    """-T applies to the child too, which names what takes too long."""
    result = gpus.run(f"{CHILD} --fault slow:1:60s -T {kit.BRIEF}").exits(4)
    result.says("send 0 -> 1: 4K", "failed with exit status 4").require(not result.out, "half a result")


def children(process):
    path = f"/proc/{process}/task/{process}/children"
    with open(path, encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def is_running(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def disturbed(to_parent, to_child, words=""):
    """The result of a run that gets signals while its child measures; the child is gone then."""
    name, *arguments = (CHILD + " -n 1000000 " + words).split()
    process = kit.spawn([gpus.built(name + "_perf"), *arguments])
    kit.wait_for(lambda: children(process.pid) or process.poll() is not None, "a child is started")
    child = children(process.pid)[0]
    time.sleep(0.3)
    for number, whom in ((to_child, child), (to_parent, process.pid)):
        if number:
            os.kill(whom, number)
    result = kit.finish(process)
    kit.wait_for(lambda: not is_running(child), "the child ends")
    return result.require(not result.out, "half a result")


@test
def interrupted_with_its_child():
    for number in (signal.SIGINT, signal.SIGTERM):
        result = disturbed(number, None).exits(128 + number)
        equal(result.err.count("interrupted"), 1, "times that it is said")
    disturbed(signal.SIGKILL, None).exits(-signal.SIGKILL)


@test(full=True)
def child_that_is_gone():
    disturbed(None, signal.SIGKILL).exits(3).says("was ended by signal 9 (Killed)")
    disturbed(None, signal.SIGSTOP, f"-T {kit.BRIEF}").exits(4).says(f"has sent nothing for {kit.BRIEF + 5} s (-T)")


def with_links(words):
    """GPUs described by NVML's stand-in (tests/topology/nvml.c)."""
    return {"LD_LIBRARY_PATH": os.path.join(kit.Settings.build, "tests", "nvml"), "FAKE_NVML": words}


def judged(line, env):
    """Records with findings, because stand-ins are far slower than NVLink; on a busy machine several runs may be needed
    for enough undisturbed rounds."""
    for _ in range(5):
        found = records(line, env)
        if found.get("finding"):
            return found
    raise kit.Skipped("this machine is too busy to judge pairs")


def between(found):
    """The pairs of two ranks."""
    return [r for r in found["pair"] if r["from"] != r["to"]]


@test
def links_tell_path_and_bound():
    """NVML gives the path between two GPUs, its bound, and the reason why a pair is slow."""
    line = "p2p_bandwidth -g 3 -b 8K -e 8K -n 7 --p2p on --direction unidirectional"
    found = judged(line, with_links("gpus=3 sm=90 switch=18 down=1:3"))
    for r in between(found):
        nvlinks = 17 if 1 in (r["from"], r["to"]) else 18
        equal(r["path"], f"NV{nvlinks}", f"path of {r['from']} -> {r['to']}")
        equal(round(r["bound_GBps"]), 25 * nvlinks, "bound")
        expect(r["bound_source"].startswith(f"{nvlinks} NVLink4 "), r["bound_source"])
    for r in (r for r in found["pair"] if r["from"] == r["to"]):
        equal((r["path"], r["bound_GBps"]), ("private copy", None), "a rank and itself")
    for f in found["finding"]:
        down = 1 in (f["rank"], f["from"], f["to"])
        equal(f["cause"], "1 NVLink of GPU1 is down" if down else None, f"cause of: {f['text']}")


@test
def nvml_tells_why_there_is_no_p2p():
    line = "p2p_bandwidth -g 2 -b 8K -e 8K -n 7 --p2p on --direction unidirectional"
    found = judged(line, with_links("gpus=2 sm=80 p2p=1"))
    for f in found["finding"]:
        why = None if f["rank"] is not None else "NVML: the chipset does not support P2P between them"
        equal(f["cause"], why, f"cause of: {f['text']}")


def sanitized(variant):
    """Both halves, and resources of both ends of the pipe when the child fails."""
    line = "p2p_bandwidth -g 2 -b 8 -e 8 -n 3 --backend nccl --direction unidirectional"
    result = gpus.run(line, SANITIZERS[variant], variant).exits(0)
    result.require(not result.err, "not clean")
    env = {**SANITIZERS[variant], "BUSBENCH_FAKE_FAIL": "ncclSend:3", "ASAN_OPTIONS": "detect_leaks=0"}
    result = gpus.run(line, env, variant).exits(3)
    result.require("Sanitizer" not in result.err and "runtime error" not in result.err, "not clean")


for name in Settings.variants:
    add(f"both halves ({name})", sanitized, name)

"""Stand-ins for GPUs on a machine without NCCL: what does not call it runs, the rest is refused."""

import json
import os

import gpus
import kit
import tcp
from kit import COLLECTIVES, add, equal, expect, test

NONE = {"BUSBENCH_FAKE_NCCL": "0"}
WHY = "the nccl backend needs NCCL 2.18 or newer; there is no stand-in for libnccl.so.2"
LIBRARY = "NCCL: not found, CUDA "


def records(line, env=None):
    result = gpus.run(line + " --json -", {**NONE, **(env or {})}).exits(0)
    result.quiet()
    found = result.records()
    expect(found[0]["backend"] == "nccl" and found[0]["library"].startswith(LIBRARY), f"{found[0]}")
    return found


# ---- refused -----------------------------------------------------------------------------------


def refused(line):
    """Refused before any output, with one sentence, whether the backend was named or chosen."""
    for backend in ("", "--backend nccl"):
        result = gpus.run(f"{line} {backend}", NONE).exits(3)
        equal(result.err, f"{line.split()[0]}_perf: {WHY}\n", "the sentence")
        result.require(not result.out, "something on stdout")


for name in COLLECTIVES:
    add(f"{name} is refused", refused, f"{name} -g 2 -b 8 -e 8")
for line in ("all_reduce -g 1", "all_reduce --algo busbench:ring -g 2", "zero --model 1001 -g 2", "ddp_bucket --model resnet50 -g 1",
             "pipeline --stages 2 -g 2", "diagnose -g 2"):  # fmt: skip
    if os.path.exists(os.path.join(kit.Settings.build, f"{line.split()[0]}_perf")):
        add(f"{line} is refused", refused, line)


@test
def is_listed():
    out = gpus.run("all_reduce --list", NONE).exits(0).out
    expect(f"  not usable: {WHY}\n" in out, out)


# ---- what is left ------------------------------------------------------------------------------


@test
def memory():
    found = records("mem_bandwidth -g 2 -b 64K -e 64K -n 2")
    expect(any(r["kind"] == "pair" and r["route"] == "copy" for r in found), "no results")
    gpus.run("mem_bandwidth -b 64K -e 64K -n 2", NONE).exits(0).prints(f"library: {LIBRARY}")


@test
def gpu_and_host():
    pairs = [r for r in records("p2p_bandwidth -g 1 -b 4K -e 4K -n 2") if r["kind"] == "pair"]
    expect(pairs and all(r["wrong"] in (0, None) for r in pairs), f"{pairs}")


@test(full=True)
def pairs():
    """All routes except NCCL's, in one direction and in both."""
    found = records("p2p_bandwidth -g 3 -b 1 -e 5000001 -f 70000 -n 2")
    equal(found[0]["library_p2p"], "off (no usable NCCL)", "library_p2p")
    pairs = [r for r in found if r["kind"] == "pair"]
    equal({r["route"] for r in pairs}, {"read", "write", "read-kernel", "write-kernel", "staged"}, "routes")
    equal({r["direction"] for r in pairs}, {"unidirectional", "bidirectional"}, "directions")
    expect(all(r["wrong"] == 0 and r["child_process"] is False for r in pairs), "wrong data")
    for r in (r for r in found if r["kind"] == "skip"):
        expect(r["algorithm"] == "send" and "libnccl.so.2" in r["reason"] and "NCCL_HOME" in r["reason"], f"{r}")
    equal({r["route"] for r in records("p2p_latency -g 2 -n 7") if r["kind"] == "pair"}, {"word", "copy"}, "pings")
    records("p2p_bandwidth -g 2 -b 8 -e 8 -n 1", {"BUSBENCH_FAKE_PEERS": "0"})


def among_processes(n, line, **env):
    """Ranks of other processes meet over host memory."""
    with gpus.shared() as shared:
        results = tcp.Job(n, line + " --backend nccl --json -", program=gpus.built, **shared, **NONE, **env).finish()
    for result in results.values():
        result.exits(0).quiet()
    found = results[0].records()
    wrong = [r for r in found if r["kind"] == "pair" and r["wrong"]]
    expect(not wrong, f"wrong data: {wrong}")
    return {r["route"] for r in found if r["kind"] == "pair" and r["from"] != r["to"]}


@test(full=True)
def pairs_of_processes():
    routes = {"read", "write", "read-kernel", "write-kernel", "staged"}
    equal(among_processes(3, "p2p_bandwidth -b 8 -e 3000001 -f 3000 -n 2"), routes, "routes")
    equal(among_processes(2, "p2p_bandwidth -g 2 -b 4K -e 4K -n 2"), routes, "routes of two GPUs each")
    equal(among_processes(2, "p2p_latency -n 5"), {"word", "copy"}, "pings")
    equal(among_processes(2, "p2p_bandwidth -b 4K -e 4K -n 2", BUSBENCH_FAKE_PEERS="0"), {"staged"}, "without peer access")


@test
def one_process_lacks_it():
    """If one process lacks NCCL, none calls it."""
    with gpus.shared() as shared:
        results = tcp.Job(2, "p2p_bandwidth -b 4K -e 4K -n 2 --backend nccl --p2p on --json -", {1: NONE}, program=gpus.built, **shared).finish()
    found = results[0].exits(0).records()
    expect(found[0]["library"].startswith("NCCL 2."), f"library {found[0]['library']}")
    expect("send" not in {r["route"] for r in found if r["kind"] == "pair"}, "a message was sent")
    with gpus.shared() as shared:
        results = tcp.Job(2, "all_reduce -b 8 -e 8 --backend nccl", {1: NONE}, program=gpus.built, **shared).finish()
    tcp.told_once(results, WHY, code=3)


@test
def zero_alone():
    if not os.path.exists(os.path.join(kit.Settings.build, "zero_perf")):
        raise kit.Skipped("built without jansson")
    records("zero --as-rank 0 --world 64 --model 75K")
    records("zero -g 1 --model 1001 -n 2")


@test
def too_old_is_like_none():
    """It is not called; the record names it."""
    old = {"BUSBENCH_FAKE_VERSION": "21701"}
    result = gpus.run("mem_bandwidth -b 64K -e 64K -n 1 --json -", old).exits(0)
    expect(json.loads(result.out.splitlines()[0])["library"].startswith("NCCL: not usable, CUDA "), result.out)

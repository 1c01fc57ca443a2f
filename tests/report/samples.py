"""Makes reports for their tests, from a file of each kind."""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading

import kit
from kit import Skipped, built, equal, execute, expect

REPORT = os.path.join(kit.ROOT, "scripts", "report.py")
LINK = "--backend sim --link 10GB/s,5us"


# Imports what reports need, then makes each in a child: alone a report spends half of its time on imports. A line of its
# input is the words of a report and the files for its output, its errors and its exit status.
SERVER = f"""
import json, os, pkgutil, runpy, sys
sys.path.insert(0, {os.path.dirname(REPORT)!r})
import jinja2, matplotlib.figure, matplotlib.backends.backend_agg, matplotlib.backends.backend_svg, report
for module in pkgutil.walk_packages(report.__path__, "report."):
    __import__(module.name)
print("ready", flush=True)
children = 0
for line in sys.stdin:
    words, out, err, status = json.loads(line)
    while children and os.waitpid(-1, os.WNOHANG)[0]:
        children -= 1
    children += 1
    if os.fork() == 0:
        for number, path in enumerate(("/dev/null", out, err)):
            os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600), number)
        code, sys.argv = 0, [{REPORT!r}, *words]
        try:
            runpy.run_path({REPORT!r}, run_name="__main__")
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            __import__("traceback").print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        with open(status + ".new", "w") as file:
            file.write(str(code))
        os.rename(status + ".new", status)
        os._exit(code)
for _ in range(children):
    os.wait()
"""
LOCK = threading.Lock()  # tests run side by side


@functools.lru_cache(None)
def started():
    """The server, by the first Python that has the modules; None: there is none."""
    for interpreter in (sys.executable, "/usr/bin/python3"):
        server = kit.spawn([interpreter, "-B", "-E", "-c", SERVER], stdin=subprocess.PIPE)
        if server.stdout.readline():
            atexit.register(server.communicate)  # its input ends, and so does it
            return server
    return None


def run_report(*words):
    """What report.py does with WORDS, as kit.execute gives it."""
    command = [sys.executable, "-B", REPORT, *words]
    with LOCK:
        server = started()
    if not server:
        return execute(command)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("out", "err", "status")]
        with LOCK:
            server.stdin.write(json.dumps([words, *paths]) + "\n")
            server.stdin.flush()
        kit.wait_for(lambda: os.path.exists(paths[2]), f"the end of {' '.join(command)}", lambda: server.poll() is None)
        out, err, status = (read(path) for path in paths)
        return kit.Result(command, int(status), out, err, 0)


def report(folder, *sources, status=0):
    """Runs the program. Skips the test if no Python here has its modules."""
    target = os.path.join(folder, "report", "")
    result = run_report(*sources, "-o", target)
    if result.code == 3:
        raise Skipped(result.err.strip())
    result.exits(status)
    expect("Traceback" not in result.err, result.err)
    if status == 0:
        equal(result.out, target + "index.html\n", "on stdout")
    return result, target


def records_of(folder, name, binary, *words):
    path = os.path.join(folder, name + ".jsonl")
    execute([built(binary), *words, "--json", path]).exits(0)
    with open(path, encoding="utf-8") as file:
        return path, [json.loads(line) for line in file]


def write_records(path, records):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def collective(folder, name="all", *words):
    return records_of(folder, name, *"all_reduce_perf -g 3 -b 1K -e 64K -f 8 -n 8 --algo ring,tree,auto -I 1".split(), *words)


# ---- one of every kind ----------------------------------------------------------------------------------


RUNS = {
    "ranks-8": "all_reduce_perf -g 8 -b 1K -e 64K -f 8 --algo ring,tree " + LINK,
    "ranks-64": "all_reduce_perf -g 64 -b 1K -e 64K -f 8 --algo ring,tree " + LINK,
    "latency": "p2p_latency_perf -g 2 -n 20",
    "zero": "zero_perf -g 2 --model linear:4x32",
    "tensor": "tensor_parallel_perf -g 4 " + LINK,
    "moe": "moe_alltoall_perf -g 4 --skew 0,1 " + LINK,
    "codes": "quantised_all_reduce_perf -g 4 --coding int8,fp8-e4m3,sign --scheme alltoall,ring --memory-rate 20GB/s " + LINK + ",port",
    "strategies": "data_parallel_perf -g 4 " + LINK,
    "learners": "data_parallel_perf -g 2 --train 40 --strategy ddp --coded all",
    "hybrid": "hybrid_parallel_perf -g 8 " + LINK,
    "plan": "hybrid_parallel_perf --plan --preset bloom-176b",
    "barrier": "barrier_perf -g 2 -n 20",
    "accuracy": "all_reduce_perf -g 2 --accuracy -d half,bfloat16 --accuracy-ranks 4,16",
    "pipeline": "pipeline_perf --predict --gantt --stages 3 --microbatches 4 --schedule 1f1b,zb-h1",
    "rounds": "all_reduce_perf --explain -g 4 --algo ring,tree,reduce_scatter+all_gather",
    "levels": "broadcast_perf --explain -g 8 --algo tree,linear",
    "buckets": "ddp_bucket_perf -g 4 --flops 10T --buckets 1M,25M -n 6 --noise 5% " + LINK,
    "fusion": "ddp_bucket_perf -g 4 --step-time 40ms --buckets 25M --fusion all --cycle-time-ms 1,5 -n 3 " + LINK,
}
MEMORY = (
    "zero --params 7.5B --dp 64",
    "train --model llama2-7b --dp 8",
    "train --model llama2-7b --fits 80G --gpus 8",
    "infer --model llama2-7b",
    "deepspeed --model llama2-7b",
    "quantise --count 1000",
)
# The pictures of a page about them.
PICTURES = (
    "Bus bandwidth",
    "Time",
    "Winners",
    "Percent of the bound",
    "Time against ranks",
    "Bus bandwidth against ranks",
    "Latency: ",
    "Bandwidth, GB/s: ",
    "Bandwidth of memory",
    "Sending speed of nodes",
    "Receiving speed of nodes",
    "From node to node",
    "Groups of the world",
    "Memory under the stages of ZeRO",
    "Memory in stage 3",
    "Strategies of splitting a layer",
    "A layer of experts",
    "Quantised all-reduces",
    "Where codes pay",
    "Strategies of data parallelism",
    "Reductions beside the backward pass",
    "Divisions of the model",
    "Memory of the divisions",
    "A step and its parts alone",
    "Barriers",
    "Rounding errors of all_reduce",
    "Steps of the schedules",
    "Memory of the schedules",
    "Memory of a rank in training",
    "Combinations that fit",
    "Memory of inference",
    "Memory of a GPU",
    "Memory of a node",
    "Bytes of the tensor",
    "Error",
    "Passes over time",
    "Bucket sizes",
    "Gates, GB/s",
    "Nodes in a: busbw",
    "The machine",
    "busbw over time",
    "Losses with coded communication",
)


CALIBRATED_PICTURES = ("Prediction and measurement", "Sizes left out")


def calibrated(folder):
    """(paths, all records): predictions by a log of nccl-tests, and by a run with several samples."""
    sweep = f"all_reduce_perf {LINK} -g 4 -b 1K -e 16M -f 4 --algo"
    known, _ = records_of(folder, "known", *f"{sweep} ring,tree -n 9 -I 1 --noise 5%".split())
    log = os.path.join(kit.ROOT, "tests", "logs", "h100.txt")
    runs = {
        "by-log": f"all_reduce_perf --backend sim --cluster hgx-h100:1 --calibrate {log} -b 64K -e 16G",
        "by-run": f"all_reduce_perf --backend sim --calibrate {known} -g 4 -b 1K -e 64M -f 4 --algo ring,tree,naive",
    }
    found = [records_of(folder, name, *line.split()) for name, line in runs.items()]
    return [path for path, _ in found], [r for _, records in found for r in records]


def by_hand(head):
    """Records of measurements that take long or need several machines."""
    new = lambda kind, **fields: {"schema": 1, "kind": kind, "run_id": "by-hand", **fields}
    pair = lambda a, b, **fields: new(
        "pair",
        quantity="bandwidth",
        route="read",
        direction="unidirectional",
        ends="gpu",
        size_bytes=1 << 25,
        p2p="on",
        GBps=20.0 - abs(a - b),
        wrong=0,
        path="NV18",
        **{"from": a, "to": b},
        **fields,
    )
    node = lambda n, share: new(
        "node",
        host=f"node{n}",
        node=n,
        verdict="OK" if share > 0.8 else "BAD",
        code="ok" if share > 0.8 else "slow-node",
        reason="it says so",
        latency_us=5.0,
        sends_GBps=10 * share,
        receives_GBps=10.0,
        sends_share=share,
        receives_share=1.0,
    )
    group = new(
        "result",
        collective="all_reduce",
        algorithm_asked="ring",
        algorithm="ring",
        dtype="float",
        op="sum",
        root=-1,
        size_bytes=1024,
        time_us=10.0,
        in_place=False,
        groups=[0, 1, 2],
        group_busbw_GBps=[5.0, 1.0, 4.9],
        worst_group=1,
    )
    memory = new(
        "pair",
        quantity="bandwidth",
        ends="memory",
        place="node 0",
        route="copy",
        memory_from="node 0",
        workers=2,
        GBps=30.0,
        bound_GBps=40.0,
    )
    return [
        dict(head, run_id="by-hand", program="diagnose"),
        group,
        memory,
        *[pair(a, b) for a in range(4) for b in range(4)],
        *[node(n, 0.5 if n == 2 else 1.0) for n in range(6)],
        *[
            new("pair_round", stage="survey", round=0, **{"from": a, "to": b}, rail=0, GBps=9.5)
            for a in range(6)
            for b in range(6)
            if a != b
        ],
        new("culprit", code="slow-node", host="node2", node=2, confidence=1.0, text="node2 sends at half of what is usual"),
        new("end", verdict="culprits found", exit_status=7, results=40, skipped=0, wrong=0, data="40 results; data was not checked",
            answers=["culprit: slow-node: node2 sends at half of what is usual"]),
    ]


GATE = {
    "step": "a",
    "metric": "busbw",
    "subject": "all_reduce ring 1K",
    "verdict": "failed",
    "reason": "too slow",
    "runs": 3,
    "value": 1.5,
    "bound": 1.4,
    "limit": 2.0,
    "expected": 2.1,
    "unit": "GB/s",
    "from": "baseline",
    "provenance": "here",
}
VALUE = {
    "step": "a",
    "metric": "busbw",
    "subject": "x",
    "line": 6,
    "value": 2.5,
    "limit": 2.0,
    "unit": "GB/s",
    "shared": False,
    "beyond": False,
}
SLOW = {**VALUE, "value": 1.5, "beyond": True}
VERDICT = {
    "schema": 1,
    "kind": "acceptance",
    "profile": "p",
    "verdict": "failed",
    "exit_status": 7,
    "gates": [GATE],
    "sentences": ["One gate does not hold.", "It is that of all_reduce.", "Node n2 stands out."],
    "nodes": [
        {"host": "n2", "verdict": "BAD", "code": "BB-BELOW-GATE", "reason": "it is slow, " * 20, "values": [SLOW]},
        {"host": "n3", "verdict": "OK", "code": "BB-OK", "reason": "nothing stands out", "values": [VALUE]},
    ],
    "args": ["build/acceptance", "run", "p.yaml", "--quick"],
    "steps": [
        {"name": "a", "run": "all_reduce_perf -g {ranks}", "args": ["all_reduce_perf", "-g", "2"], "ranks": 2, "runs": []}
    ],
}


def baseline(date, mean, **more):
    entry = {"step": "a", "subject": "all_reduce ring 1K", "metric": "busbw", "unit": "GB/s", "n": 3}
    entry |= {"mean": mean, "stdev": 0.1, "min": mean - 0.1, "max": mean + 0.1, "low": mean - 0.2, "high": mean + 0.2}
    return {"run_id": date, "date": f"{date}T10:00:00.000Z", "n": 3, "host": "n1", "entries": [entry], **more}


BASELINE = baseline(
    "2026-11-20", 8.0, schema=1, kind="acceptance_baseline", profile="p", version="2",
    history=[baseline("2026-11-13", 9.9, version="1"), baseline("2026-11-06", 10.0, version="1")],
)  # fmt: skip


def everything(folder):
    """(paths, all records): a file of each kind."""
    paths, records = [], []
    for name, words in RUNS.items():
        path, found = records_of(folder, name, *words.split())
        paths.append(path)
        records += found
    mine = by_hand(records[0])
    paths.append(write_records(os.path.join(folder, "by-hand.jsonl"), mine))
    machine, verdict, history = (os.path.join(folder, name + ".json") for name in ("machine", "verdict", "history"))
    execute([built("topology"), "--system", "hgx-h100", "--json", machine]).exits(0)
    for i, words in enumerate(MEMORY):
        paths.append(os.path.join(folder, f"memory-{i}.json"))
        execute([built("model_memory"), *words.split(), "--json", paths[-1]]).exits(0)
    with open(verdict, "w", encoding="utf-8") as file:
        json.dump(VERDICT, file, indent=2)
    with open(history, "w", encoding="utf-8") as file:
        json.dump(BASELINE, file, indent=2)
    return paths + [machine, verdict, history], records + mine

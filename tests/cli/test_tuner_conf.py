"""--tuner-conf: rows that NCCL's example tuner reads (plugins/tuner/example of github.com/NVIDIA/nccl), and how far
NCCL's own choice is behind; on stand-ins for GPUs and on the simulator."""

import json
import os
import re
import tempfile

import gpus
import kit
from kit import equal, expect, test

LINE_BYTES = 256  # of the tuner's buffer
COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")


def parse(path):
    """(collective, least, most, algorithm, protocol, channels, nodes, ranks, operations, registered) of each row. The tuner
    takes words that it does not know for others and says nothing: here they fail."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            expect(len(line) < LINE_BYTES and line.endswith("\n"), f"a line too long: {line!r}")
            if line.startswith("#") or line == "\n":
                continue
            words = [word.strip(" \t") for word in line.rstrip("\n").split(",") if word]
            expect(8 <= len(words) <= 10, f"number of fields: {words}")
            expect(words[0] in COLLECTIVES and words[3] in ALGORITHMS and words[4] in PROTOCOLS, f"{words}")
            rows.append((words[0], int(words[1]), int(words[2]), *words[3:5], *map(int, words[5:])))
    return rows


def find(rows, size):
    """What the tuner chooses: the first row that fits."""
    return next(row[3:5] for row in rows if row[1] <= size <= row[2])


def spelled(ran):
    algorithm, protocol = ran.split(":")
    return {"nvlstree": "nvls_tree"}.get(algorithm, algorithm), protocol.lower()


def check(out, path, nodes, ranks, collective):
    """Rows cover all sizes once; at each measured size they choose what was the fastest of what NCCL reported."""
    rows = parse(path)
    results = [json.loads(line) for line in out.splitlines()]
    told = [r for r in results if r["kind"] == "result" and not r["in_place"] and
            (r["library_algorithm"] or ":" in r["algorithm"]) and not r["algorithm"].startswith("busbench:")]  # fmt: skip
    equal({(row[0], *row[5:]) for row in rows}, {(collective, 0, nodes, ranks, -1, -1)}, "all but sizes and choices")
    equal((rows[0][1], rows[-1][2]), (0, 2**64 - 1), "sizes that are covered")
    for before, after in zip(rows, rows[1:]):
        equal(before[2] + 1, after[1], "a gap between rows")
        expect(before[3:5] != after[3:5], f"two rows for one: {before}, {after}")
    for winner in (r for r in results if r["kind"] == "winner"):
        here = [r for r in told if r["size_bytes"] == winner["size_bytes"]]
        best = min(r["time_us"] for r in here)
        choices = {spelled(r["library_algorithm"] or r["algorithm"]) for r in here if r["time_us"] == best}
        expect(find(rows, winner["size_bytes"]) in choices, f"at {winner['size_bytes']}: not one of {choices}")
        forced = min(r["time_us"] for r in here if r["algorithm_asked"] != "auto")
        auto = next(r["time_us"] for r in here if r["algorithm_asked"] == "auto")
        wanted = 100 * (auto / forced - 1)
        expect(abs(winner["auto_behind_percent"] - wanted) < 1e-6, f"{winner}: not {wanted}")


def measured(run, line, nodes, ranks, collective):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "nccl_tuner.conf")
        out = run(f"{line} --tuner-conf {path} --json -").exits(0).out
        check(out, path, nodes, ranks, collective)
        text = run(f"{line} --tuner-conf {path}").exits(0).out
        expect(re.search(r"^# +size +auto behind", text, re.M), text)


@test
def on_stand_ins():
    for algorithms in ("--algo all", "--algo auto,ring:LL,ring:LL128,tree:LL,tree:Simple"):
        measured(gpus.run, f"all_reduce -g 4 -b 1K -e 4M -f 64 -n 2 --backend nccl {algorithms}", 1, 4, "allreduce")
    measured(gpus.run, "all_gather -g 2 -b 1K -e 1M -f 32 -n 2 --backend nccl --algo all", 1, 2, "allgather")


@test
def on_the_simulator():
    for collective, word in (("all_reduce", "allreduce"), ("reduce_scatter", "reducescatter")):
        line = f"{collective} --backend sim --cluster hgx-h100:2 -b 1K -e 1G -f 32 --algo all"
        measured(kit.run, line, 2, 16, word)


@test
def nothing_is_known():
    """NCCL before 2.27 does not report its choice, and a name without a protocol says too little."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "conf")
        old = {"BUSBENCH_FAKE_VERSION": "22403", "NCCL_PROFILER_PLUGIN": "none"}
        line = f"all_reduce -g 2 -b 1K -e 1K -n 1 --backend nccl --algo ring,auto --tuner-conf {path}"
        gpus.run(line, old).exits(0).prints("# Warning: --tuner-conf: no rows")
        equal(parse(path), [], "rows")


@test
def refused():
    """Where no library chooses, where it has nothing to choose from, and where nothing can be written."""
    kit.run("all_reduce -g 2 -b 8 -e 8 --backend host --tuner-conf x").exits(5).says("--tuner-conf x: the host backend", "NCCL")
    gpus.run("alltoall -g 2 -b 8 -e 8 --backend nccl --tuner-conf x").exits(5).says("no algorithms to choose from for alltoall")
    line = "all_reduce -g 2 -b 8 -e 8 --backend nccl --tuner-conf /nowhere/x"
    gpus.run(line).exits(2).says("--tuner-conf: /nowhere/x cannot be written")
    line = "all_reduce --backend sim --cluster hgx-h100:2 -b 8 -e 8 --json one --tuner-conf one"
    kit.run(line, cwd=tempfile.gettempdir()).exits(2).says("--json and --tuner-conf both write one; give two files")

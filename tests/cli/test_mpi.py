"""The mpi backend under mpirun on one machine: right results, refusals, output printed once."""

import csv
import json
import os
import re
import socket
import tempfile

import kit
import mpi
from kit import ALL, COLLECTIVES, add, built, equal, execute, expect, rows, test

CORES = 1 / 2  # the launcher mostly waits; its ranks poll, but yield

RANKS = (2, 3, 4, 7)
HYPERCUBE_RANKS = (2, 4, 8)

# Ranks share two cores, so few iterations suffice.
SWEEP = "-b 1 -e 90000 -f 300 -n 2 -w 0 --algo all"


def algorithms(result):
    return {row.algorithm for row in result.rows()}


def everything(name, n):
    """busbench's and the library's algorithms, at sizes that the ranks do not divide or below n."""
    result = mpi.passes(n, f"{name} {SWEEP}")
    ran = algorithms(result)
    result.require(ran >= {"auto", "native"} or name == "hypercube", f"only {sorted(ran)} ran")
    result.require(any(a.startswith("native:") for a in ran) or name not in NATIVE, "no native:NAME ran")


NATIVE = "all_reduce all_gather reduce_scatter broadcast reduce gather scatter alltoall".split()

for name in COLLECTIVES:
    for n in HYPERCUBE_RANKS if name == "hypercube" else RANKS:
        add(f"{name} -np {n}", everything, name, n, full=n != (4 if name == "hypercube" else 3))
for name in ("all_reduce", "reduce_scatter", "reduce"):
    for which in ("native", "all"):
        line = f"{name} --algo {which} -d all -o all -b 1000 -e 1000 -n 1 -w 0"
        add(f"{name} --algo {which} -d all -o all", mpi.passes, 3, line, full=which == "all" or name != "all_reduce")
for name in ("broadcast", "reduce", "gather", "scatter"):
    line = f"{name} --algo all -r all -b 1000 -e 1000 -n 1 -w 0"
    add(f"{name} -r all", mpi.passes, 3, line, full=name != "gather")


@test
def averages():
    """-a selects among the ranks' times, which the record holds."""
    choices = (lambda t: t[0], lambda t: sum(t) / len(t), min, max)
    for a, choice in enumerate(choices):
        for record in mpi.measured(3, f"all_reduce -b 8 -e 64K -f 64 -a {a}")[1]:
            times = record["rank_mean_us"]
            equal(len(times), 3, "times")
            expect(abs(record["time_us"] - choice(times)) < 1e-6 * max(times), f"-a {a}: {record['time_us']} of {times}")


def split(n, sizes):
    """Each group of a split world has its own time and bandwidth; of equal groups the worst is named."""
    line = "all_reduce -b 64K -e 64K --algo ring,native"
    _, records = mpi.measured(n, line, {"NCCL_TESTS_SPLIT": "MOD 2"})
    equal(len(records), 4, "records")
    for record in records:
        equal((record["groups"], record["nranks"]), ([0, 1], sizes[0]), "groups, ranks of the first")
        expect(len(record["group_time_us"]) == len(record["group_busbw_GBps"]) == 2, f"groups' own: {record}")
        for size, time, busbw in zip(sizes, record["group_time_us"], record["group_busbw_GBps"]):
            factor = 2 * (size - 1) / size
            expect(abs(busbw / (record["size_bytes"] / time / 1e3 * factor) - 1) < 1e-3, f"busbw of a group: {record}")
        least = record["group_busbw_GBps"].index(min(record["group_busbw_GBps"]))
        equal(record["worst_group"], least if sizes[0] == sizes[1] else None, "worst group")


add("split into 3 and 2", split, 5, (3, 2))
add("split into 2 and 2", split, 4, (2, 2), full=True)


@test
def groups_object_together():
    """If one group cannot run an algorithm, none does, and all continue with the next."""
    line = "all_gather -b 1K -e 4K -n 3 --algo native:two_proc,native:ring,ring"
    for how, n in (("MOD 2", 5), ("DIV 2", 3)):
        _, found = mpi.measured(n, line, {"NCCL_TESTS_SPLIT": how})
        ran = {record["algorithm"] for record in found}
        expect("ring" in ran and "native:two_proc" not in ran, f"{how}: {ran} ran")


@test
def skips_an_algorithm_once():
    """An algorithm without any possible size has one line."""
    for n, algorithm, reason in ((3, "native:two_proc", "two ranks"), (1, "native:ring", "a single rank")):
        out = mpi.passes(n, f"all_gather -b 1K -e 4K -n 3 --algo {algorithm},ring").out
        lines = [line for line in out.splitlines() if line.startswith("# skipped")]
        equal(len(lines), 1, f"skipped lines with {n} ranks")
        expect(algorithm in lines[0] and reason in lines[0], lines[0])


@test
def names_the_ranks():
    """A line per process with host, pid and core; the records have the same."""
    out = mpi.passes(3, "all_reduce -b 8 -e 8").out
    found = re.findall(r"^#\s+Rank\s+(\d+) Group\s+0 Pid\s+(\d+) on\s+(\S+) device\s+(\S+) ", out, re.M)
    equal([int(f[0]) for f in found], [0, 1, 2], "ranks")
    equal(len({f[1] for f in found}), 3, "different pids")
    equal({f[2] for f in found}, {socket.gethostname().split(".")[0]}, "hosts")
    run, _ = mpi.measured(3, "all_reduce -b 8 -e 8")
    equal((run["kind"], run["backend"], run["nranks"], run["nprocs"]), ("run", "mpi", 3, 3), "the run")
    equal(len({rank["pid"] for rank in run["ranks"]}), 3, "different pids in the record")
    expect("MPI" in run["library"], f"library: {run['library']}")


@test
def one_process():
    """With mpirun or without."""
    mpi.passes(1, "all_reduce -b 8 -e 1K --algo all")
    mpi.need()
    env = {**mpi.LOCAL, "OMPI_MCA_ess_singleton_isolated": "1"}
    result = execute([built("all_reduce_perf"), *"--backend mpi -b 8 -e 1K".split()], env).exits(0)
    result.require(len(result.rows()) == 8, "not 8 rows").prints("mpi")


@test
def all_outputs_are_written_once():
    """Process 0 writes; every sink has every row."""
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("a.csv", "a.jsonl", "a.json")]
        result = mpi.passes(3, f"all_gather -b 1K -e 16K --csv {names[0]} --json {names[1]} -J {names[2]}")
        with open(names[0], newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        with open(names[1], encoding="utf-8") as file:
            lines = mpi.records(file.read())
        with open(names[2], encoding="utf-8") as file:
            json.load(file)
    equal(len(result.rows()), 5, "rows")
    equal(len(table), 10, "rows of the CSV")
    equal([r["kind"] for r in lines if r["kind"] not in ("result", "counter")], ["run", "end"], "records but the results")
    equal(len([r for r in lines if r["kind"] == "result"]), 10, "results")
    for text in ("Collective test starting", "Using devices", "Out of bounds values : 0 OK"):
        equal(result.out.count(text), 1, text)


@test
def survives_tags():
    """mpirun --tag-output prefixes each line of the text with [1,0]<stdout>:."""
    out = mpi.quiet(mpi.run(2, "all_reduce -b 8 -e 64", options="--tag-output").exits(0)).out
    lines = out.splitlines()
    expect(all(re.match(r"\[\d+,0\]<stdout>:", line) for line in lines), f"not all lines are process 0's:\n{out}")
    plain = "\n".join(re.sub(r"^\[\d+,0\]<stdout>: ?", "", line) for line in lines)
    equal([row.size for row in rows(plain)], [8, 16, 32, 64], "sizes")


@test
def null():
    """The cost of the harness itself over processes."""
    for row in mpi.passes(3, "all_reduce --backend null -b 8 -e 1K").rows():
        equal(row.halves[0].wrong, "N/A", "#wrong")


@test
def alltoallv_matrix():
    """All algorithms move the traffic of a file, which all processes must have."""
    file = os.path.join(kit.ROOT, "docs", "moe-traffic.txt")
    result = mpi.passes(3, f"alltoallv --matrix {file} --matrix-scale 64 --algo all -n 2 -w 0")
    equal({row.size for row in result.rows()}, {64 * 1184, 64 * 1920}, "sizes")
    result.require(algorithms(result) >= {"auto", "native", "ring", "naive"}, "not all algorithms")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("a", "16 32\n48 64\n"), ("b", "16 32\n48 80\n")):
            os.mkdir(os.path.join(folder, name))
            with open(os.path.join(folder, name, "m.txt"), "w", encoding="utf-8") as out:
                out.write(text)
        program = [built("alltoallv_perf"), "--matrix", "m.txt", "--backend", "mpi"]
        words = ["mpirun", "-np", "1", "--wdir", f"{folder}/a", *program, ":", "-np", "1", "--wdir", f"{folder}/b", *program]
        mpi.Job(words).finish().exits(2).says("m.txt differs between processes")


# ---- refused -----------------------------------------------------------------------------------


def refused(n, line, code, *said, env=None):
    """Exit status CODE with one sentence."""
    result = mpi.run(n, line, env).exits(code).says(*said)
    name = line.split()[0] + "_perf:"
    equal(sum(1 for text in result.err.splitlines() if text.startswith(name)), 1, f"sentences on stderr of {result}")
    result.require(not result.rows(), "rows in spite of it")


add("host backend under mpirun", refused, 2, "all_reduce --backend host -b 8 -e 8", 2, "host", "mpi")
add("-g under mpirun", refused, 2, "all_reduce -g 2 -b 8 -e 8", 2, "-g", "-np 4")
add("-t under mpirun", refused, 2, "all_reduce -t 3 -b 8 -e 8", 2, "-t", "-np 6")
add("an unknown native:NAME", refused, 2, "all_reduce --algo native:rin -b 8 -e 8", 2, "native:rin", "native:ring")
add("an unknown option", refused, 3, "all_reduce --bakend mpi", 2, "--bakend", "--backend")
add("a root that is none", refused, 2, "broadcast -r 2 -b 8 -e 8", 2, "2")


@test
def wrong_data_is_found_by_all():
    """Exit status 7 in every process."""
    with tempfile.TemporaryDirectory() as folder:
        keep = '#!/bin/sh\ntrap : TERM\n"$@"\ncode=$?\necho $code >"$0.$OMPI_COMM_WORLD_RANK"\nexit $code\n'
        script = kit.write_program(os.path.join(folder, "keep"), keep)
        command = mpi.words(3, "all_reduce -b 4K -e 4K --algo ring,native --fault corrupt:1")
        at = command.index(built("all_reduce_perf"))
        result = mpi.Job(command[:at] + [script] + command[at:]).finish().exits(7)
        codes = [open(f"{script}.{rank}", encoding="utf-8").read().strip() for rank in range(3)]
    equal(codes, ["7", "7", "7"], "exit statuses")
    for row in result.rows():
        result.require(all(int(half.wrong) > 0 for half in row.halves), f"{row.algorithm}: not seen")


@test
def alone_by_mistake():
    """A launcher of another MPI starts N worlds of one: refused, not reported N times."""
    mpi.need()
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        result = execute([built("all_reduce_perf"), "-b", "8", "-e", "8"], {**mpi.LOCAL, name: "2"})
        result.exits(3).says("2 processes", "alone").require(not result.rows(), "rows in spite of it")


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1])


def more_than_an_int():
    """Counts beyond an int, in pieces."""
    if available_bytes() < 22 << 30:
        raise kit.Skipped("needs 22 GiB of memory")
    for name, algorithm in (("broadcast", "native"), ("all_reduce", "ring")):
        line = f"{name} -b 2147483652 -e 2147483652 -d int8 -n 1 -w 0 --cache reuse --algo {algorithm} -T 300"
        result = mpi.passes(2, line)
        result.require(result.rows(), "no row: " + result.out)


add("more than 2^31 elements", more_than_an_int, cores=ALL, full=True)

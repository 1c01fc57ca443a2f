"""The library's own choice on stand-ins for GPUs and NCCL: recorded, compared, and null if unreported."""

import os

import gpus
import kit
from kit import equal, expect, test


def run(line, env=None, variant=""):
    result = gpus.run(f"{line} --backend nccl -n 2", env, variant).exits(0)
    return result.quiet()


def told(line, env=None, variant=""):
    """(requested algorithm, size, library_algorithm) of each out-of-place result."""
    records = run(line + " --json -", env, variant).records()
    return [(r["algorithm_asked"], r["size_bytes"], r["library_algorithm"]) for r in records
            if r["kind"] == "result" and not r["in_place"]]  # fmt: skip


@test
def by_size_and_algorithm():
    """The stand-in chooses tree for small all-reduces, and LL below 64 KiB."""
    equal(told("all_reduce -g 4 -b 1K -e 1M -f 1024 --algo auto,ring,tree"),
          [("auto", 1024, "tree:LL"), ("auto", 1048576, "ring:Simple"), ("ring", 1024, "ring:LL"),
           ("ring", 1048576, "ring:Simple"), ("tree", 1024, "tree:LL"), ("tree", 1048576, "tree:Simple")],
          "what the library chose")  # fmt: skip
    equal(told("all_gather -g 4 -b 1K -e 1K"), [("auto", 1024, "ring:LL")], "of all_gather")


@test(full=True)
def however_operations_are_made():
    for flags in ("-m 3", "-z 1", "-z 3", "-I 1", "-C 1", "-R 1", "-y 1", "-c 0", "-c 2", "-t 2"):
        got = told(f"all_reduce -g 2 -b 1K -e 1K {flags}")
        equal([word for _, _, word in got], ["tree:LL"], f"with {flags}")


@test
def not_told():
    """In graphs, on symmetric windows, with one rank, for messages and busbench's schedules, with another profiler."""
    for line, env in (
        ("all_reduce -g 2 -b 1K -e 1K -G 2", None),
        ("all_reduce -g 2 -b 1K -e 1K -R 2", None),
        ("all_reduce -g 1 -b 1K -e 1K", None),
        ("alltoall -g 2 -b 1K -e 1K", None),
        ("all_reduce -g 2 -b 1K -e 1K --algo busbench:ring", None),
        ("all_reduce -g 2 -b 1K -e 1K", {"NCCL_PROFILER_PLUGIN": "none"}),
    ):
        equal([word for _, _, word in told(line, env)], [None], f"{line}, {env}")


@test
def split_world():
    got = told("all_reduce -g 4 -b 1K -e 1K", {"NCCL_TESTS_SPLIT": "MOD 2"})
    equal([word for _, _, word in got], ["tree:LL"], "of the first group")


@test
def compared():
    result = run("all_reduce -g 4 -b 1K -e 1M -f 1024 --algo ring,tree,auto")
    result.prints("# auto chose tree:LL, ring:Simple from 1M")
    for line in result.out.splitlines():
        expect("ahead" in line or not line.startswith("#  ") or "nccl" not in line, f"names no algorithm: {line}")


@test(full=True)
def sanitized():
    for variant in kit.Settings.variants:
        gpus.stand_in("fake", "nccl.so", variant=variant)
        got = told("all_reduce -g 4 -b 1K -e 1M -f 1024 --algo auto,ring -R 1", None, variant)
        equal([word for _, _, word in got], ["tree:LL", "ring:Simple", "ring:LL", "ring:Simple"], variant)

"""The model of Open MPI on simulated nodes without GPUs: its choice, its times, and the published rows."""

import functools
import os
import sys
import tempfile

from kit import ROOT, built, equal, expect, run, test

sys.path.insert(0, os.path.join(ROOT, "studies", "validate"))
import sim as validate_sim  # noqa: E402

GRACE, EPYC = "--backend sim --cluster grace-x4:1", "--backend sim --cluster epyc-7742"


def records(line, kind="result"):
    return run(f"{line} --json -").exits(0).records(kind)


def chosen(line):
    return [r["library_algorithm"] for r in records(line) if not r["in_place"]]


@test
def names_library_and_algorithm():
    line = f"all_reduce {GRACE} -g 72 -b 128K -e 256K"
    (setting,) = records(line, kind="run")
    equal(setting["library"], "a model of Open MPI 4.1.0 to 5.0.9, coll/tuned", "library")
    equal(chosen(line), ["recursive_doubling", "rabenseifner"], "algorithms of 72 ranks")
    equal(chosen(f"all_reduce {EPYC}:1 -b 64K -e 256K"), ["nonoverlapping", "recursive_doubling", "rabenseifner"],
          "algorithms of 128 ranks")
    equal(chosen(f"all_reduce {GRACE} -b 32K -e 64K --algo nonblocking"), ["dissemination", "rabenseifner"], "libnbc")
    told = run(f"{line} --algo auto,ring").exits(0).out
    expect("auto chose recursive_doubling, rabenseifner from 256K" in told, told)


@test
def without_a_model_a_schedule_runs():
    told = run(f"reduce_scatter {EPYC}:1 -g 100 -b 1M -e 1M").exits(0).out
    expect("because Open MPI's algorithm for this size and number of ranks has no model" in told, told)
    run(f"all_gather {EPYC}:1 -b 1M -e 1M --algo nonblocking").exits(2, 5)


@test
def has_an_interval_where_rows_are():
    """Three collectives on one node were measured, and alltoall; over nodes Open MPI 5.0 runs another component."""
    one, two = (records(f"all_reduce {EPYC}:{nodes} -b 1M -e 1M")[0] for nodes in (1, 2))
    expect(0 < one["predicted_low_us"] < one["time_us"] < one["predicted_high_us"], f"{one}")
    equal((one["other_versions"], two["predicted_low_us"], two["other_versions"]),
          (None, None, "coll/han by Open MPI 5.0"), "of other versions, over two nodes")
    equal(records(f"all_gather {EPYC}:1 -b 1M -e 1M")[0]["predicted_low_us"], None, "interval of an all_gather")


@test
def packages_are_further_apart():
    """A message to another package arrives `package_latency` later; within one that changes nothing."""
    def time(folder, latency, ranks):
        path = os.path.join(folder, f"{latency}.cluster")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"system = epyc-7742\nnodes = 1\npackage_latency = {latency}us # a test\n")
        (record,) = records(f"sendrecv --backend sim --cluster {path} -g {ranks} -b 8 -e 8 --algo ring")[:1]
        return record["time_us"]

    with tempfile.TemporaryDirectory() as folder:
        equal(time(folder, 1, 64), time(folder, 5, 64), "ranks of one package")
        more = time(folder, 5, 65) - time(folder, 1, 65)
        expect(abs(more - 4) < 1e-6, f"two packages: {more} us more, not 4")


@test
def ranks_share_memory_and_nics():
    """Among ranks of a package large messages are slower than alone; over nodes all ranks share the NIC."""
    def time(line):
        return max(r["time_us"] for r in records(f"{line} -b 64M -e 64M --algo ring") if not r["in_place"])

    few, many = time(f"sendrecv {GRACE} -g 2"), time(f"sendrecv {GRACE} -g 72")
    expect(few < 64 * 1024**2 / 30e9 * 1e6 * 1.01 < many / 5, f"{few} us among 2, {many} among 72")
    # Half of the pairs of an alltoall of 256 cross: 128 x 128 blocks of a 256th leave a node.
    cross = max(r["time_us"] for r in records(f"alltoall {EPYC}:2 -b 64M -e 64M --algo pairwise") if not r["in_place"])
    least = 128 * 64 * 1024**2 / 2 / 24.25e9 * 1e6
    expect(least < cross < 1.5 * least, f"{cross} us over the NIC, at least {least}")


@test
def copies_its_input_first():
    """Open MPI copies IN to OUT before it reduces in OUT; in place there is nothing to copy."""
    out, inside = records(f"all_reduce {GRACE} -g 8 -b 1M -e 1M")
    more = out["time_us"] - inside["time_us"]
    expect(out["library_algorithm"] == "rabenseifner" and abs(more - 2**20 / 30e9 * 1e6) < 0.01, f"{more} us more")


@test
def loopback_takes_the_nic():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cpus.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("system = epyc-7742\nloopback = 1\n")
        told = run(f"all_reduce --backend sim --cluster {path}:1 -b 1M -e 1M").exits(0).out
        expect("messages take the NICs within a node, too, 86.02 GB/s a package beyond 302 MB of cache; 1 rail" in told, told)
        (row,) = [r for r in records(f"all_reduce --backend sim --cluster {path}:1 -b 1M -e 1M") if not r["in_place"]]
    least = 128 * 2 * (1 - 1 / 128) * 2**20 / 24.25e9 * 1e6
    expect(least < row["time_us"] < 1.1 * least, f"{row['time_us']} us, at least {least}")


# ---- validation --------------------------------------------------------------------------------

# What `make validate` found, and a little more.
HELD = {"same machine, other sizes, below 256 MiB": (0.18, 0.42), "machine left out, below 256 MiB": (0.18, 0.42)}


@functools.lru_cache(maxsize=None)
def evaluated():
    return validate_sim.judged(os.path.dirname(built("all_reduce_perf")))


@test
def published_rows():
    found = {name: figures for name, figures, *_ in validate_sim.summary(evaluated(), "Open MPI")}
    equal(set(found), set(HELD), "parts")
    for name, figures in found.items():
        median, p90 = HELD[name]
        expect(figures["median"] <= median and figures["p90"] <= p90, f"{name}: {figures}, no more than {HELD[name]}")
        expect(figures["inside"] >= 0.9, f"{name}: {figures}: the interval does not hold nine in ten")
    equal(found["machine left out, below 256 MiB"]["rows"], 145, "rows of Open MPI")


@test
def intervals_follow():
    """The intervals of openmpi.txt are those that follow from machines left out."""
    with open(os.path.join(ROOT, "src", "simulator", "openmpi", "openmpi.txt"), encoding="utf-8") as file:
        said = file.read().split("[interval]\n")[1].splitlines()
    equal(said, list(validate_sim.openmpi_interval_lines(evaluated())), "intervals")

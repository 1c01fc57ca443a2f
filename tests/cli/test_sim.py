"""Virtual time: the sim backend's numbers equal the closed forms, under the unmodified harness."""

import csv
import io
import os
import pty
import re
import signal
import subprocess
import tempfile

import kit
from kit import COLLECTIVES, LIMIT, ROOT, built, equal, execute, expect, passes, run, test

ALPHA, RATE = 5e-6, 25e9
SIM = "--backend sim --link 25G,5us"


def records(line, kind="result", **options):
    return run(f"{line} --json -", **options).exits(0).records(kind)


def near(got, wanted, what):
    expect(abs(got - wanted) <= 1e-9 * wanted, f"{what}: {got!r} us, not {wanted!r}")


def ring(n, size):
    return 2e6 * (n - 1) * (ALPHA + size / n / RATE)


def chain(n, size, chunk):
    return 1e6 * ((n - 1) * (ALPHA + chunk / RATE) + (size - chunk) / RATE)


# ---- the numbers -------------------------------------------------------------------------------


@test
def closed_forms():
    for n in (2, 8, 64):
        found = records(f"all_reduce {SIM} -g {n} -b 1M -e 64M -f 4 --algo ring")
        equal(len(found), 8, "results")
        for r in found:
            near(r["time_us"], ring(n, r["size_bytes"]), f"ring of {n} at {r['size_bytes']}")
            near(r["busbw_GBps"], r["algbw_GBps"] * 2 * (n - 1) / n, "busbw")


@test
def bounds():
    """Bytes that a rank sends, over all its links or through its port, at the rate of a link."""
    for n in (2, 8):
        for port, links in (("", n - 1), (",port", 1)):
            for r in records(f"all_reduce {SIM}{port} -g {n} -b 1M -e 16M -f 16 --algo ring"):
                near(r["bound_us"], 2e6 * (n - 1) / n * r["size_bytes"] / links / RATE, f"bound of {n}{port}")
                near(r["percent_of_bound"], 100 * r["bound_us"] / r["time_us"], "percentage of it")


@test
def chunks():
    """broadcast by ring is a chain; its message length is chosen, printed, and explains the time."""
    for r in records(f"broadcast {SIM} -g 8 -b 64M -e 1G -f 4 --algo ring"):
        near(r["time_us"], chain(8, r["size_bytes"], r["chunk_bytes"]), f"chain at {r['size_bytes']}")
        expect(r["time_us"] < 1.1e6 * (7 * ALPHA + r["size_bytes"] / RATE), f"{r['chunk_bytes']} is not the best")


@test
def auto_is_the_fastest():
    for collective in ("all_reduce", "all_gather", "broadcast", "alltoall"):
        found = [r for r in records(f"{collective} {SIM} -g 8 -b 64 -e 64M -f 1024 --algo all") if not r["in_place"]]
        for auto in (r for r in found if r["algorithm_asked"] == "auto"):
            others = [r["time_us"] for r in found if r["size_bytes"] == auto["size_bytes"]]
            expect(auto["time_us"] <= min(others) * 1.011, f"{collective}: auto took {auto['time_us']}, {min(others)} is possible")


@test
def sixteen_gibibytes():
    """Buffers take no memory."""
    (r, _) = records(f"all_reduce {SIM} -g 8 -b 16G -e 16G --algo ring")
    near(r["time_us"], ring(8, 16 << 30), "ring at 16G")


@test
def many_ranks():
    (r, _) = records(f"all_reduce {SIM} -t 2 -g 256 -b 1M -e 1M --algo ring")
    equal(r["nranks"], 512, "-t 2 -g 256")
    near(r["time_us"], ring(512, 1 << 20), "ring of 512")


@test
def every_collective():
    for name in COLLECTIVES:
        found = records(f"{name} {SIM} -g 8 -b 64K -e 64K --algo all")
        expect(found and all(r["time_us"] > 5 for r in found), f"{name}: faster than one message")
        expect(all(r["wrong"] is None for r in found), f"{name}: nothing is verified")


@test
def repeats_bit_by_bit():
    line = f"all_reduce {SIM} -g 8 -b 1K -e 16M -f 8 --algo ring,tree,auto --noise 5% --seed 4"
    first, second = records(line), records(line)
    equal([r["samples_us"] for r in first], [r["samples_us"] for r in second], "samples of one seed")
    equal([r["time_us"] for r in first], [r["time_us"] for r in second], "times of one seed")
    other = records(line.replace("seed 4", "seed 5"))
    expect(all(a["time_us"] != b["time_us"] for a, b in zip(first, other)), "another seed draws the same")


@test
def noise():
    """Each iteration is drawn separately; waiting for the slowest of many adds to the time."""
    quiet = ring(8, 1 << 20)
    (r, _) = records(f"all_reduce {SIM} -g 8 -b 1M -e 1M --algo ring --noise 5% -I 1")
    equal((r["iterations"], len(r["samples_us"])), (20, 20), "the usual counts")
    expect(len(set(r["samples_us"])) == 20, "iterations are alike")
    expect(quiet < r["p50_us"] < 1.1 * quiet, f"{r['p50_us']} against {quiet} without noise")


# ---- under the harness -------------------------------------------------------------------------


@test
def says_that_time_is_virtual():
    (config,) = records(f"all_reduce {SIM} -g 4 -b 1K -e 1K --noise 5%", "run")
    equal((config["backend"], config["virtual_time"], config["link_noise"]), ("sim", True, 0.05), "the run record")
    equal((config["nranks"], config["nprocs"], len(config["ranks"])), (4, 1, 4), "ranks")
    equal([r["device"] for r in config["ranks"]], [0, 1, 2, 3], "devices")
    equal([r["name"] for r in config["ranks"]], ["virtual"] * 4, "what they are")
    (config,) = records("all_reduce --backend null -g 2 -b 1K -e 1K", "run")
    equal((config["virtual_time"], config["link_noise"]), (False, None), "of the null backend")
    out = passes(f"all_reduce {SIM} -g 4 -b 1K -e 1K").out
    expect("# Virtual time: simulated with --link; no hardware was measured" in out, "the text does not say so")


@test
def what_links_of_their_own_favour():
    """With a link per pair tree beats ring at every size, and the text says so; with a port ring wins at large
    sizes."""
    hint = "# Each pair of ranks has its own link, which favours trees."
    compared = "all_reduce --backend sim -g 64 -b 8K -e 512M -f 16 --algo ring,tree --link 25GB/s,5us"
    passes(compared).prints(hint, ",port\n", "# tree is faster than ring at every size")
    out = passes(compared + ",port").prints("# tree is faster than ring below about 21.5M, slower above").out
    expect(hint not in out, "the hint, where there is a port")
    expect(hint not in passes("all_reduce --backend sim -g 2 -b 1K -e 1K --link 25GB/s,5us").out, "the hint, of a pair")
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        first = next(line for line in file if "--backend sim" in line and "--link" in line)
    expect(",port" in first, f"README's first example of virtual time: {first}")


@test
def what_is_not_known_is_not_told():
    for r in records(f"all_reduce {SIM} -g 4 -b 1K -e 1K"):
        for name in ("skew_p50_us", "last_rank", "wrong", "verified"):
            equal(r[name], None, name)
        equal(r["rank_mean_us"], [], "rank_mean_us")


@test
def iterations():
    """All iterations are equal, so there is one and no warm-up."""
    (config,) = records(f"all_reduce {SIM} -g 2 -b 1K -e 1K", "run")
    equal((config["iters"], config["warmup_iters"]), (1, 0), "-n, -w by default")
    (config,) = records(f"all_reduce {SIM} -g 2 -b 1K -e 1K -n 3 -w 2", "run")
    equal((config["iters"], config["warmup_iters"]), (3, 2), "-n, -w as given")
    for r in records(f"all_reduce {SIM} -g 4 -b 1M -e 1M --algo ring -n 7 -w 3 -m 2 -I 1"):
        for sample in r["samples_us"]:
            near(sample, ring(4, 1 << 20), "an iteration")


@test
def groups():
    """Groups have one size, and one stands for all."""
    split = {"NCCL_TESTS_SPLIT": "MOD 2"}
    for r in records(f"all_reduce {SIM} -g 8 -b 1M -e 1M --algo ring", env=split):
        equal((r["nranks"], r["groups"]), (4, [0, 1]), "groups")
        near(r["time_us"], ring(4, 1 << 20), "ring of 4")
        equal(r["group_time_us"][0], r["group_time_us"][1], "the groups' times")
    (config,) = records(f"all_reduce {SIM} -g 4 -b 1K -e 1K", "run", env=split)
    equal([r["group"] for r in config["ranks"]], [0, 1, 0, 1], "groups of the ranks")
    run(f"all_reduce {SIM} -g 8", env={"NCCL_TESTS_SPLIT": "MOD 3"}).exits(5).says("2 to 3 ranks", "groups of one size")


@test
def csv_says_the_same():
    line = f"all_reduce {SIM} -g 4 -b 1K -e 4K"
    rows = list(csv.DictReader(io.StringIO(passes(f"{line} --csv -").out)))
    equal([float(r["time_us"]) for r in rows], [r["time_us"] for r in records(line)], "times")


# ---- what makes no sense -------------------------------------------------------------------------


@test
def link_is_needed():
    run("all_reduce --backend sim -g 4").exits(2).says("give --link RATE,LATENCY", "--link 25GB/s,5us")


@test
def refused():
    run("all_reduce --backend host -g 2 --noise 5%").exits(5).says("--noise", "host", "--backend sim")
    run("all_reduce --backend null -g 2 --noise 5%").exits(5).says("--noise", "null")
    run(f"all_reduce {SIM} --noise 5").exits(2).says("--noise", "5")
    for backend in (SIM, "--backend null"):
        run(f"all_reduce {backend} -g 2 --fault corrupt:0").exits(5).says("--fault corrupt:0", "has no data")
    run(f"all_reduce {SIM} -g 2 -C 1").exits(5).says("-C 1", "CPU time")
    run(f"all_reduce {SIM} -t 1024 -g 1025").exits(2).says("-t 1024 times -g 1025", "1048576")
    run(f"mem_bandwidth {SIM} -g 2").exits(5).says("links, not memory")


@test
def only_sim_has_clusters():
    """--cluster, --calibrate and --noise choose sim, in every program that has them; another backend by name is refused."""
    def text(words, *backend):
        result = execute([built(words[0]), *words[1:], *backend])
        lines = [re.sub(r"Pid +\d+", "", line) for line in result.out.splitlines() if not line.startswith(("# Backend sim was chosen", "# Cost"))]
        return result.code, lines, result.err

    cluster = ["--cluster", "hgx-h100:4", "-b", "64K", "-e", "64K"]
    plain = {name: [] for name in ("ddp_bucket_perf", "pipeline_perf", "tensor_parallel_perf", "data_parallel_perf", "moe_alltoall_perf")}
    plain["ddp_bucket_perf"] = ["--predict", "--model", "gpt2"]
    lines = [[name, *cluster] for name in ("all_reduce_perf", "p2p_bandwidth_perf")]
    lines += [[name, *cluster[:2], *more] for name, more in plain.items()]
    lines += [[name, *cluster[:2]] for name in ("barrier_perf", "zero_perf", "p2p_latency_perf", "diagnose")]
    lines += [["hybrid_parallel_perf", *cluster[:2], "--plan", "--model", "gpt2", "--flops", "400T"],
              ["all_reduce_perf", "-g", "2", "--link", "1GB/s,2us", "--noise", "2%", "-b", "8", "-e", "8"]]  # fmt: skip
    for words in lines:
        chosen = text(words)
        equal(chosen[0], 0, f"{words}: {chosen[2]}")
        equal(chosen, text(words, "--backend", "sim"), f"{words}")
        if "--cluster" in words:
            refused = execute([built(words[0]), *words[1:], "--backend", "host"]).exits(5)
            refused.says("--cluster hgx-h100:4: the host backend measures this machine; give --backend sim")
    execute([built("all_reduce_perf"), *cluster]).exits(0).prints("# Backend sim was chosen: only sim has --cluster")
    execute([built("mem_bandwidth_perf"), *cluster[:2]]).exits(5).says("leave out --backend and --cluster")


@test
def clusters():
    """Ranks, names and rates follow from the system; impossible networks are refused."""
    out = passes("all_reduce --backend sim --cluster hgx-h100:4 -b 8 -e 1G -f 1024 --algo busbench:ring,halving_doubling,auto").out
    expect("# Cluster hgx-h100:4: room for 32 ranks on 4 nodes of hgx-h100" in out, "the cluster is not described")
    expect("8 rails of 48.49 GB/s" in out and "#  Rank" not in out, "rails, or a line for each rank")
    expect("simulated with --cluster" in out, "what time is computed from")
    passes("all_reduce --backend sim --cluster gb200-nvl72 -b 1M -e 1M --algo halving_doubling")
    passes("all_gather --backend sim --cluster dgx-1v:3 -g 7 -b 1M -e 1M")
    run("all_reduce --backend host --cluster hgx-h100:2").exits(5).says("--cluster hgx-h100:2", "--backend sim")
    run("all_reduce --backend sim --cluster hgx-h10:2").exits(2).says("did you mean hgx-h100")
    run("all_reduce --backend sim --cluster nowhere").exits(2).says("topology --list-systems lists them")
    passes("all_reduce --backend sim --cluster dgx-b200:2 -b 1M -e 1M")
    run("all_reduce --backend sim --cluster mi300x-x8:2 -b 1M -e 1M").exits(5).says("AMD GPUs run RCCL", "busbench:ring")
    passes("all_reduce --backend sim --cluster mi300x-x8:2 -b 1M -e 1M --algo busbench:ring").prints("xGMI between pairs, 312.5 GB/s")
    run("all_reduce --backend sim --cluster pcie-5090:2 -b 1M -e 1M").exits(5).says("no NIC whose rate is known")
    run("all_reduce --backend sim --cluster hgx-h100:2 -g 17").exits(2).says("17 ranks are more than the 16")
    run("all_reduce --backend sim --cluster hgx-h100 --link 1G").exits(2).says("--link 1G and --cluster hgx-h100", "both describe the links")
    run("all_reduce --backend sim").exits(2).says("--link", "--cluster hgx-h100:16")


@test
def cluster_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ours.cluster")
        with open(path, "w") as f:
            f.write("system = hgx-h100\nnodes = 2\nnic_rate = 25GB/s # a purchase\nnic_efficiency = 100%\n")
        out = passes(f"all_reduce --backend sim --cluster {path} -b 1G -e 1G --algo ring").out
        expect("16 ranks on 2 nodes" in out and "8 rails of 25 GB/s" in out, "the file does not hold")
        with open(path, "a") as f:
            f.write("net_latency = soon\n")
        run(f"all_reduce --backend sim --cluster {path}").exits(2).says("line 5", "net_latency", "2.7us")


@test
def captured_machine():
    """A machine read from a file equals the one that it was written from."""
    if not os.path.exists(built("topology")):
        return run("all_reduce --backend sim --cluster /dev/null/node.xml").exits(2)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "node.xml")
        subprocess.run([built("topology"), "--system", "hgx-h100", "--export", path], check=True, stdout=subprocess.DEVNULL)
        own = os.path.join(folder, "ours.cluster")
        with open(own, "w") as f:
            f.write(f"topology = {path}\nnodes = 4\n")
        line = "--algo halving_doubling -b 1M -e 1M"
        times = {text: [r["time_us"] for r in records(f"all_reduce --backend sim --cluster {text} {line}")]
                 for text in ("hgx-h100:4", f"{path}:4", own)}
        expect(len(set(map(tuple, times.values()))) == 1, f"they differ: {times}")
        with open(path, "w") as f:
            f.write("<system><cpu/>")
        run(f"all_reduce --backend sim --cluster {path}").exits(2).says("node.xml")


def costs(line, **options):
    """The effect of a fault on the time of each algorithm."""
    return {r["algorithm"]: r["time_us"] / r["faultless_us"] for r in records(line, **options) if not r["in_place"]}


@test
def groups_share():
    """In a split world the group of the fault is evaluated, and all others are as busy."""
    line = "all_reduce --backend sim --cluster hgx-h100:4 -b 1G -e 1G --algo auto,busbench:ring --fault"
    split = {"NCCL_TESTS_SPLIT": "MOD 8"}
    for fault in "slow_rail:3:2:2", "slow_rail:3:0:2", "lost_rail:3:0", "lost_rail:3:7":
        found = costs(f"{line} {fault}", env=split)
        expect(len(found) == 2 and all(1.9 < times < 2.001 for times in found.values()), f"{fault}: {found}")
    found = costs(f"{line} slow_link:2:10:4 --algo busbench:ring", env=split)
    expect(3.9 < found["busbench:ring"] < 4.001, f"a link of group 2: {found}")
    run(f"{line} slow_rail:3:2:2", env=split).exits(0).prints("# Simulated: the group of rank 26")
    run(f"{line} slow_link:0:9:4", env=split).exits(2).says("different groups", "--fault slow_link:0:9:4")
    run(f"{line} slow_rail:3:2:2 -g 16").exits(2).says("none of the 16 ranks", "--fault slow_rail:3:2:2")
    # Two GPUs share a NIC: eight groups with one GPU per node have half of it each, four groups with two GPUs two halves.
    line = "all_reduce --backend sim --cluster dgx-1v:4 -b 1G -e 1G --algo"
    halves, wholes = (records(f"{line} auto,busbench:ring", env={"NCCL_TESTS_SPLIT": f"MOD {n}"}) for n in (8, 4))
    rates = [r["busbw_GBps"] for r in halves + wholes if not r["in_place"]]
    for rate, parts in zip(rates, (1, 1, 2, 1), strict=True):
        expect(abs(rate / rates[0] - parts) < 0.01, f"{rates} GB/s")
    # Two nodes of a leaf share a quarter of a rail upwards, which half of the group's bytes take.
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "tapered.txt")
        with open(path, "w") as f:
            f.write("system = dgx-1v\nnodes = 4\nleaf_nodes = 2\nleaf_taper = 8\nnic_rate = 12GB/s\nnic_efficiency = 100%\n")
        line = f"all_reduce --backend sim --cluster {path} -b 1G -e 1G --algo halving_doubling"
        took, wanted = records(line, env=split)[0]["time_us"], 2e6 * 2**30 * (1 / 2 * 16 + 1 / 4 * 2) / 12e9
        expect(abs(took / wanted - 1) < 0.001, f"{took} us, not {wanted}")


@test
def faults():
    """A rail for two ranks takes twice the time, a late rank its delay, and whatever does not use them nothing."""
    line = "all_reduce --backend sim --cluster hgx-h100:4 -b 1G -e 1G --algo busbench:ring,halving_doubling,nvlstree --fault"
    found = costs(f"{line} lost_rail:3:2")
    expect(1.9 < found["halving_doubling"] <= 2 and abs(found["busbench:ring"] - 1) < 1e-9, f"a lost rail: {found}")
    expect(1.9 < found["nvlstree"] <= 2, f"a lost rail of NCCL's: {found}")
    near(found["nvlstree"], costs(f"{line} slow_rail:3:2:2")["nvlstree"], "a lost rail of NCCL's is shared with the next")
    found = costs(f"{line} slow_rail:0:7:3")
    expect(2.5 < found["busbench:ring"] <= 3, f"a slow rail: {found}")
    found = costs(f"{line} slow_node:1:2")
    expect(1.9 < found["busbench:ring"] <= 2 and 1.9 < found["halving_doubling"] <= 2, f"a slow node: {found}")
    expect(1.5 < found["nvlstree"] <= 2, f"a slow node of NCCL's: {found}")
    # NCCL's tuner does not know of a slow rail or node.
    sizes = "all_reduce --backend sim --cluster hgx-b200:4 -b 1M -e 1G"
    sound = [r["library_algorithm"] for r in records(sizes)]
    for fault in "slow_rail:1:0:2", "slow_node:1:3":
        equal([r["library_algorithm"] for r in records(f"{sizes} --fault {fault}")], sound, f"chosen under {fault}")
    found = costs(f"{line} slow_link:7:8:2")
    expect(1.9 < found["busbench:ring"] <= 2 and abs(found["halving_doubling"] - 1) < 1e-9, f"a slow link: {found}")
    late = records(f"all_reduce {SIM} -g 4 -b 8 -e 8 --algo recursive_doubling --fault slow:2:1ms")[0]
    near(late["time_us"], late["faultless_us"] + 1000, "a late rank")
    out = passes(f"{line} slow_node:1:2").out
    expect("# Cost of --fault slow_node:1:2" in out and "# Evaluated by: busbench:ring alike" in out, "the text does not tell")
    out = passes("moe_alltoall --backend sim --cluster hgx-h100:2 --fault slow_node:1:2 --skew 0").out
    expect("# All programs with --fault: " in out, "what a program loses is not told")
    run(f"{line} lost_rail:4:0").exits(2).says("nodes 0 to 3", "rails 0 to 7")
    run(f"all_reduce {SIM} -g 2 --fault lost_rail:0:0").exits(2).says("is not a fault here")
    run("all_reduce --backend sim --cluster pcie-4090:2 --fault lost_rail:0:0").exits(2).says("but one rail")


@test
def programs_on_clusters():
    """A step waits longer if its buckets cross nodes; adjacent stages on a node pass messages faster."""
    one, two = (records(f"ddp_bucket --model gpt2 --backend sim --cluster hgx-h100:{nodes} --buckets 25M --overlap off", kind="data_parallel")
                for nodes in (1, 2))
    expect(one and two and one[0]["step_us"] < two[0]["step_us"], "a step over two nodes is no longer")
    passes("pipeline --stages 16 --microbatches 32 --schedule 1f1b --backend sim --cluster hgx-h100:2")


@test
def programs_say_what_they_are_made_of():
    """Over links they are busbench's schedules, named with and without its prefix."""
    for name in ("ring", "busbench:ring"):
        line = f"ddp_bucket --model linear:2x64 {SIM} -g 4 --buckets 25M --overlap off --algo {name}"
        out = run(line).exits(0).out
        expect("# Evaluated by: event simulation; all_reduce among 4: ring alike; broadcast among 4: ring sweep\n" in out, out)
        expect(not records(line, kind="run")[0]["library"], "a library is named")
    run(f"all_reduce {SIM} -g 2 --algo nvlstree").exits(2).says("nvlstree is NCCL's own", "busbench's schedules")


@test
def scale():
    """Sizes at which a sweep of every message would take hours."""
    for algorithm in ("busbench:ring", "halving_doubling"):
        run(f"all_reduce --backend sim --cluster hgx-h100:512 -b 1G -e 1G --algo {algorithm}").exits(0)
    ring = passes(f"all_reduce {SIM} -g 100000 -b 400M -e 400M --algo ring").out
    time = float(re.search(r"\n +4194[0-9]+ .*?sum +-1 +([0-9.]+)", ring).group(1))
    expect(abs(time / (2 * 99999 * (5 + 419430400 / 1e5 / 25e3)) - 1) < 1e-3, f"{time} us")


@test
def evaluators_of_results():
    """Each result in virtual time names its evaluator; measured results have none."""
    line = "all_reduce --backend sim --cluster hgx-h100:512 -b 1M -e 1G -f 1024 --algo busbench:ring,busbench:tree,nvlstree"
    equal(list(dict.fromkeys(r["evaluator"] for r in records(line))), ["alike", "sweep", "model"], "evaluators")
    equal({r["evaluator"] for r in records("all_reduce --backend host -g 2 -b 1K -e 1K -n 1")}, {None}, "of a real run")


@test
def is_never_the_default():
    expect("sim" not in passes("all_reduce --link 1G,1us -g 2 -b 8 -e 8").out.split("backend=")[1].split()[0], "auto chose sim")


@test
def listed():
    found = subprocess.run([built("all_reduce_perf"), "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    expect("backend sim: ranks are virtual" in found, "--list does not name it")


@test
def tells_how_far_it_is():
    """A long evaluation shows progress on a terminal, and a signal ends it."""
    ours, theirs = pty.openpty()
    words = "--backend sim --cluster hgx-h100:2048 -b 1M -e 1M --algo busbench:pairwise --fault slow_link:1:2:3 -T 0".split()
    play = subprocess.Popen([built("alltoall_perf"), *words], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    told = b""
    while not re.search(rb"alltoall by pairwise: \d+%", told):
        told += os.read(ours, 4096)  # an error once it has ended
    play.send_signal(signal.SIGINT)
    equal(play.wait(timeout=LIMIT), 130, "exit status")
    os.close(ours)


@test
def ends_in_time():
    """With noise each of a billion messages of a ring of 16384 is evaluated; the deadline is in real time."""
    run(f"all_reduce {SIM} -g 16384 -b 1G -e 1G --algo ring --noise 1% -T {kit.BRIEF}").exits(4).says("ring at 1G did not end within")

"""The model of NCCL on simulated clusters: names, choices, and errors against published measurements."""

import csv
import functools
import os
import re
import subprocess
import sys
import tempfile

from kit import ROOT, built, equal, expect, run, test, write_program

sys.path.insert(0, os.path.join(ROOT, "studies", "validate"))
import left_out as validate_left_out  # noqa: E402
import page as validate  # noqa: E402
import sim as validate_sim  # noqa: E402

H100 = "--backend sim --cluster hgx-h100"


def records(line, kind="result", **options):
    return run(f"{line} --json -", **options).exits(0).records(kind)


def times(line, **options):
    found = records(line, **options)
    return {(r["algorithm_asked"], r["size_bytes"]): r["time_us"] for r in found if not r["in_place"]}


def near(got, wanted, what):
    expect(abs(got - wanted) <= 1e-9 * wanted, f"{what}: {got!r} us, not {wanted!r}")


# ---- names -------------------------------------------------------------------------------------


@test
def named_as_on_nccl():
    """On a cluster of GPUs plain names are NCCL's, and busbench's schedules have a prefix; elsewhere names are
    plain."""
    found = times(f"all_reduce {H100}:2 -b 1M -e 1M --algo ring,busbench:ring,ring:LL,ring:LL128,ring:Simple,auto:LL")
    size = 1 << 20
    expect(found["ring", size] != found["busbench:ring", size], "both rings take as long")
    near(found["ring", size], min(found[f"ring:{p}", size] for p in ("LL", "LL128", "Simple")), "ring at 1M")
    expect(found["auto:LL", size] <= found["ring:LL", size], "auto:LL took longer than ring:LL")
    (link,) = [r for r in records("all_reduce --backend sim --link 25G,5us -g 4 -b 1M -e 1M --algo ring") if not r["in_place"]]
    equal(link["algorithm"], "ring", "over --link")
    equal(link["library_algorithm"], None, "over --link")


@test
def says_what_it_chose():
    found = records(f"all_reduce {H100}:1 -b 64K -e 1G -f 16384 --algo auto")
    equal([r["library_algorithm"] for r in found], ["ring:LL"] * 2 + ["nvls:Simple"] * 2, "chosen")
    equal([r["algorithm"] for r in found], ["auto"] * 4, "algorithms")
    (setting,) = records(f"all_reduce {H100}:1 -b 1M -e 1M", kind="run")
    expect("model of NCCL" in setting["library"] and "fitted" in setting["library"], setting["library"])
    equal(setting["virtual_time"], True, "virtual time")
    told = run(f"all_reduce {H100}:1 -b 64K -e 1G -f 16384 --algo auto,ring").exits(0).out
    expect("auto chose ring:LL, nvls:Simple from 1G" in told, told)


@test
def operations_decide():
    """auto leaves NVLS where NVSwitches cannot reduce, and takes as long as the ring that it chooses; sums are as before."""
    def auto(dtype, op):
        line = f"all_reduce {H100}:1 -b 1G -e 1G -d {dtype} -o {op}"
        (record,) = [r for r in records(line) if not r["in_place"]]
        return record["library_algorithm"], record["time_us"]

    nvls = auto("float", "sum")
    ring = "ring:Simple", times(f"all_reduce {H100}:1 -b 1G -e 1G --algo ring")["ring", 1 << 30]
    equal(nvls[0], "nvls:Simple", "sum of floats")
    expect(1.25 < ring[1] / nvls[1] < 1.35, f"the ring takes {ring[1] / nvls[1]} times as long")
    for wanted, cells in ((ring, "float avg, float max, double min, half avg, bfloat16 mulsum, int8 sum, int32 prod, f8e4m3 sum"),
                          (nvls, "half max, bfloat16 sum, int64 min, double sum, uint32 sum")):
        for cell in cells.split(", "):
            equal(auto(*cell.split()), wanted, cell)
    for algorithm, nodes in (("nvls", 1), ("nvlstree", 4)):
        out = run(f"all_reduce {H100}:{nodes} -b 1M -e 1M -o avg --algo {algorithm}").exits(5)
        expect("NVSwitches reduce sums" in out.out, out.out)
    (tree,) = [r for r in records(f"all_reduce {H100}:4 -b 8G -e 8G -d f8e4m3") if not r["in_place"]]
    equal(tree["library_algorithm"], "tree:Simple", "fp8 among 32 ranks")
    out = run("all_reduce --backend sim --cluster dgx-a100 -b 1M -e 1M -d f8e4m3 --algo ring").exits(0)
    expect("busbench:ring runs, because NCCL reduces fp8 from Hopper on" in out.out, out.out)


@test
def refused():
    out = run(f"all_reduce {H100}:2 -b 1M -e 1M --algo nvls").exits(5)
    expect("NVLS is for one node" in out.out + out.err, out.err)
    out = run("all_reduce --backend sim --cluster pcie-l40s:2 -b 1M -e 1M --algo nvlstree").exits(5)
    expect("no NVSwitch" in out.out + out.err, out.err)
    out = run(f"all_gather {H100}:2 -b 1M -e 1M --algo tree").exits(0)
    expect("busbench:tree" in out.out, "tree of all_gather is busbench's")
    out = run(f"all_reduce {H100}:2 -b 1M -e 1M --algo ring -o band -d int32").exits(0)
    expect("busbench:ring" in out.out, "NCCL has no bitwise operations")


@test
def tapers():
    """Tapered links slow NCCL's rings, trees and messages like busbench's schedules over one rail."""
    def of(folder, collective, taper, algorithms, size="1G"):
        path = os.path.join(folder, f"{taper}.cluster")
        with open(path, "w") as f:
            f.write(f"system = hgx-h100\nnodes = 16\nleaf_nodes = 4\nleaf_taper = {taper}\n")
        # A group has one GPU of each node, hence a rail of its own.
        found = records(f"{collective} --backend sim --cluster {path} -b {size} -e {size} --algo {algorithms}",
                        env={"NCCL_TESTS_SPLIT": "MOD 8"})
        return [r["time_us"] for r in found if not r["in_place"]]

    with tempfile.TemporaryDirectory() as folder:
        for collective, algorithms, costs in (("all_reduce", "ring:Simple,busbench:ring", {2: 1, 4: 1, 8: 2, 16: 4}),
                                              ("sendrecv", "auto,busbench:ring", {4: 1, 8: 2}),
                                              ("alltoall", "auto,pairwise", {4: 3.2, 8: 6.4})):
            plain = of(folder, collective, 1, algorithms)
            for taper, cost in costs.items():
                for before, after in zip(plain, of(folder, collective, taper, algorithms)):
                    expect(abs(after / before / cost - 1) < 0.02, f"{collective}, taper {taper}: {after / before} times as long")
        # Six edges leave the busiest leaf, each with half of the bytes; of a node at most four.
        (plain, _), (model, played) = (of(folder, "all_reduce", taper, "tree:Simple,busbench:tree") for taper in (1, 8))
        expect(2.9 < model / plain < 3, f"tree: {model / plain} times as long, not 8 x 6 / 16")
        expect(played > model, "the tree that is played has no more links up than the modelled one")


@test
def shared_rails():
    """Of four GPUs that share a NIC all send in an alltoall, one in a sendrecv; without NVLink they change rails
    above. Schedules do not know that a root's bytes from peers and from its NIC pass one slot."""
    with tempfile.TemporaryDirectory() as folder:
        for taper, within in ((1, 0.08), (4, 0.1)):
            path = os.path.join(folder, f"{taper}.cluster")
            with open(path, "w") as f:
                f.write(f"system = pcie-l40s\nnodes = 8\nleaf_nodes = 4\nleaf_taper = {taper}\n")
            for collective, schedule in (("alltoall", "pairwise"), ("sendrecv", "busbench:ring"), ("gather", "linear"),
                                         ("scatter", "linear")):
                found = times(f"{collective} --backend sim --cluster {path} -b 1G -e 1G --algo auto,{schedule}")
                model, played = (found[name, 1 << 30] for name in ("auto", schedule))
                most = 0.25 if schedule == "linear" else within
                expect(-within < model / played - 1 < most, f"{collective}, taper {taper}: {model} us, played {played}")


@test
def uneven_messages():
    """Of alltoallv the busiest rank's bytes take what those of an alltoall take: it costs less only where larger messages
    have more channels."""
    sizes = "-b 1K -e 64M -f 8 --algo auto"
    for machine in (H100, f"{H100}:2"):
        even = times(f"alltoall {machine} {sizes}")
        equal(times(f"alltoallv {machine} {sizes}", env={"NCCL_TESTS_ALLTOALLV_SPREAD": "0"}), even, "without spread")
        before = even
        for spread in ("0.5", "1"):
            found = times(f"alltoallv {machine} {sizes}", env={"NCCL_TESTS_ALLTOALLV_SPREAD": spread})
            expect(all(found[key] >= 0.85 * before[key] for key in before), f"spread {spread}: {found}, with less {before}")
            before = found


@test
def all_collectives():
    """Every collective runs on a cluster of GPUs, by NCCL's model or by a schedule."""
    for name in ("all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "alltoall", "alltoallv",
                 "sendrecv", "hypercube"):
        found = records(f"{name} {H100}:4 -b 1M -e 64M -f 64")
        equal(len(found), 4, name)
        expect(all(r["time_us"] > 0 for r in found), name)
        before = {}
        for r in found:
            expect(r["time_us"] > before.get(r["in_place"], 0), f"{name}: {r['size_bytes']} takes no longer than less")
            before[r["in_place"]] = r["time_us"]


@test
def noise_and_groups():
    plain = f"all_reduce {H100}:4 -b 1M -e 1M --algo ring"
    noisy = [records(f"{plain} --noise 5% -n 20 --seed {seed}")[0] for seed in (1, 1, 2)]
    equal(noisy[0]["time_us"], noisy[1]["time_us"], "the same seed")
    expect(noisy[0]["time_us"] != noisy[2]["time_us"], "another seed")
    expect(noisy[0]["min_us"] < noisy[0]["max_us"], "noise")
    # One group per node, so no network is involved.
    (alone, _) = records(f"all_reduce {H100}:1 -b 1G -e 1G --algo nvls")
    (split, _) = records(f"all_reduce {H100}:4 -b 1G -e 1G --algo nvls", env={"NCCL_TESTS_SPLIT": "DIV 8"})
    near(split["time_us"], alone["time_us"], "groups of a node")


@test
def says_what_other_versions_choose():
    """NCCL 2.20 to 2.27 count a hop of NVLSTree as shorter, so they leave tree for it earlier; beyond two nodes they count
    five twelfths of the NICs' rate for it, so they leave it for rings earlier. NCCL 2.32 raises the latency of rings in
    one node of Blackwell, so it leaves LL128 for Simple later."""
    found = {r["size_bytes"]: r for r in records(f"all_reduce {H100}:128 -b 8M -e 1G -f 2") if not r["in_place"]}
    other = {size: r for size, r in found.items() if r["other_versions"]}
    expect(other and all(r["library_algorithm"].startswith("tree:") and
                         r["other_versions"] == "nvlstree:Simple by NCCL 2.20 to 2.27" for r in other.values()), other)
    expect(max(found) not in other, "the choice for 1 GiB is another one")
    size = min(other)
    text = run(f"all_reduce {H100}:128 -b {size} -e {size}").exits(0).out
    expect(f"# auto at {size >> 20}M: nvlstree:Simple by NCCL 2.20 to 2.27" in text, text)
    before, both = "ring:Simple by NCCL 2.20 to 2.27", "ring:LL128 by NCCL 2.27 and 2.32"
    blackwell = H100.replace("h100", "b200")
    for asked, chosen, wanted in ((f"all_reduce {H100}:2 -b 8G -e 8G", "nvlstree:Simple", None),
                                  (f"all_reduce {H100}:4 -b 512M -e 512M", "nvlstree:Simple", before),
                                  (f"all_reduce {H100}:4 -b 8G -e 8G", "ring:Simple", None),
                                  (f"all_gather {blackwell}:1 -b 32M -e 32M", "ring:Simple", both),
                                  (f"all_gather {blackwell}:1 -b 64M -e 64M", "ring:Simple", "ring:LL128 by NCCL 2.32"),
                                  (f"all_reduce {blackwell.replace('b200', 'b300')}:2 -b 16M -e 16M", "ring:LL128",
                                   "nvlstree:Simple by NCCL 2.27, tree:LL128 by 2.32")):
        (row, _) = records(asked)
        equal([row["library_algorithm"], row["other_versions"]], [chosen, wanted], asked)


@test
def one_gpu_on_a_node():
    """A node with one GPU has NCCL's model too: the network is all that it has."""
    cluster = os.path.join(validate_sim.CLUSTERS, "3090-x1.txt")
    found = records(f"all_reduce --backend sim --cluster {cluster}:2 -b 1K -e 512M -f 524288")
    equal([r["library_algorithm"] for r in found], ["ring:LL"] * 2 + ["ring:Simple"] * 2, "chosen")
    expect(all(r["predicted_low_us"] < r["time_us"] < r["predicted_high_us"] for r in found), "no interval")


@test
def peer_access():
    """Without peer access messages pass the host's memory, and cards below a switch share its link up."""
    with tempfile.TemporaryDirectory() as folder:
        def busbw(access, ranks, run="auto"):
            path = os.path.join(folder, "l40s.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"system = pcie-l40s\nnodes = 1\npeer_access = {access}\n")
            return records(f"all_reduce --backend sim --cluster {path} -g {ranks} -b 1G -e 1G --algo {run}")[0]["busbw_GBps"]

        expect(22 < busbw("yes", 4) < 24, "four cards below a switch, with peer access")
        expect(13 < busbw("no", 1 + 1) / 0.5 < 16, "two cards that share a link")
        expect(0.49 < busbw("no", 4) / busbw("no", 2) < 0.51, "four share it, not two")
        expect(busbw("no", 2, "busbench:ring") < busbw("yes", 2, "busbench:ring"), "schedules do not see it")
        failed = run_with_figure(folder, "peer_access = maybe").exits(2)
        expect('peer_access = "maybe": expected yes or no' in failed.err, failed.err)


@test
def interval_of_likeness():
    """A machine whose kind few others have gets the wide interval, and the text says so; more nodes than published too."""
    def basis(cluster, more=""):
        (found,) = [r for r in records(f"all_reduce --backend sim --cluster {cluster} {more} -b 1G -e 1G") if not r["in_place"]]
        return found["predicted_high_us"] / found["predicted_low_us"], found["predicted_from"]

    narrow, said = basis("hgx-h100:2")
    expect(narrow < 1.5 and said.endswith("machines: NVSwitches, all GPUs, InfiniBand"), f"{narrow}, {said}")
    for cluster, more, wanted in (
            ("pcie-4090:1", "", "6 rows of 1 machine, so the widest: PCIe without P2P, all GPUs, one node"),
            ("pcie-4090:1", "-g 3", "0 rows, so the widest: PCIe without P2P, some GPUs, one node"),
            ("pcie-l40s:2", "", "0 rows, so the widest: PCIe with P2P, all GPUs, another network"),
            ("aws-p5:32", "", "40 rows of 5 machines on fewer nodes, so the widest: NVSwitches, all GPUs, EFA")):
        width, said = basis(cluster, more)
        equal(said, wanted, cluster)
        expect(width > 2, f"{cluster}: {width}")
    text = run("all_reduce --backend sim --cluster pcie-4090:1 -b 1G -e 1G").exits(0).out
    expect("times the predicted time\n#   6 rows of 1 machine, so the widest: PCIe without P2P" in text, text)


def run_with_figure(folder, line):
    path = os.path.join(folder, "figure.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"system = pcie-l40s\nnodes = 1\n{line}\n")
    return run(f"all_reduce --backend sim --cluster {path} -b 1M -e 1M")


# ---- validation --------------------------------------------------------------------------------

# A change of the model that makes it worse is to be seen: what `make validate` found, and a little more.
# Targets that are missed stand beside the figures in docs/validation.md.
HELD = {"same machine, other sizes, from 256 MiB on": (0.035, 0.11), "same machine, other sizes, below 256 MiB": (0.11, 0.36),
        "machine left out, from 256 MiB on": (0.05, 0.15, 0.17), "machine left out, below 256 MiB": (0.2, 0.67, 0.5)}


@functools.lru_cache(maxsize=None)
def evaluated():
    return validate_sim.judged(os.path.dirname(built("all_reduce_perf")))


@test
def validated():
    rows = evaluated()
    for name, found, *_ in validate_sim.summary(rows):
        held = HELD.get(name, (0.05, 0.2))
        expect(all(found[key] <= most for key, most in zip(("median", "p90", "width"), held)), f"{name}: {found}, no more than {held}")
        expect(found["inside"] >= 0.9, f"{name}: {found}: the interval does not hold nine in ten")
    expect(sum(row["what"] == "model" for row in rows) >= 500, "rows are missing")


@test
def intervals_follow():
    """The intervals of nccl.txt are those that follow from machines left out."""
    with open(validate_sim.GENERAL[0], encoding="utf-8") as file:
        lines = file.read().splitlines()
    said = [line.split() for line in lines if line.startswith("interval_")]
    equal(said, [line.split() for line in validate_sim.interval_lines(evaluated())], "intervals")
    section = lines[lines.index("[likeness]") + 1:]
    equal(section[:section.index("")], list(validate_sim.likeness_lines(evaluated())), "kinds of machines")


@test
def says_its_interval():
    """Records have it, the text says it once for each range of sizes; a schedule that is played has none."""
    line = f"all_reduce {H100}:2 -b 64K -e 1G -f 16384 --algo auto,busbench:ring"
    for r in records(line):
        ends = r["predicted_low_us"], r["predicted_high_us"]
        if r["algorithm_asked"] == "auto":
            expect(0 < ends[0] < r["time_us"] < ends[1], f"{ends} around {r['time_us']}")
        else:
            equal(ends, (None, None), "interval of a schedule")
    (large,) = [r for r in records(f"all_reduce {H100}:1 -b 1G -e 1G --algo nvls") if not r["in_place"]]
    expect(large["predicted_high_us"] / large["predicted_low_us"] < 1.4, "one node, 1 GiB: a wide interval")
    expect(re.fullmatch(r"\d+ rows of \d+ machines: NVSwitches, all GPUs, one node", large["predicted_from"]), large["predicted_from"])
    text = run(line).exits(0).out
    equal(len(re.findall(r"^# auto from \w+ on: [0-9.]+ to [0-9.]+ times the predicted time$", text, re.M)), 2, text)


@test
def nothing_is_dropped():
    """Each row of the three files is in the table, and each row left out has a reason."""
    rules, rows = validate_sim.read("model_rows.csv"), list(validate_sim.published())
    used = set()
    for row in rows:
        rule = validate_sim.rule_of(row, rules)
        used.add(id(rule))
        validate_sim.settle(row, rule)
        expect(row["what"] in ("model", "fit") or row["why"], f"{row['file']}:{row['line']} has no reason")
    equal(len(used), len(rules), "rules that fit a row")
    for rule in rules:
        fits = [row for row in rows if row["what"] == "fit" and validate_sim.rule_of(row, rules) is rule]
        expect(len({row["bytes"] for row in fits}) == len(rule["fit"].split()), f"{rule['system']}: fit {rule['fit']}")
    for name in ("reference_busbw.csv", "validation_busbw.csv", "scale_measurements.csv"):
        with open(os.path.join(ROOT, "reports", "reference", name), encoding="utf-8") as file:
            equal(sum(row["file"] + ".csv" == name for row in rows), len(list(csv.DictReader(file))), name)


@test
def constants_have_sources():
    """Each constant is published, fitted or assumed, and records count them so."""
    counted = {"published": 0, "fitted": 0, "assumed": 0}
    with open(validate_sim.GENERAL[0], encoding="utf-8") as file:
        text = file.read()
    section = ""
    for line in text.splitlines():
        section = line.strip("[]") if line.startswith("[") else section
        if "=" not in line or line.startswith(("#", "interval_")) or section == "likeness":
            continue
        source = line.split("#", 1)[1].strip()
        kind = source.split(":")[0] if source.split(":")[0] in counted else "published"
        expect(kind != "published" or re.match(r"[a-z_]+\.cc(:\d+| of 2\.)|topo\.h:\d+|the same$|datasheet: |issue \d+: |aws-ofi-nccl [0-9a-f]{7}: ", source), f"{line} has no source")
        counted[kind] += section in ("nccl", "hopper")
    (setting,) = records(f"all_reduce {H100}:1 -b 1M -e 1M", kind="run")
    said = {word: int(number) for number, word in re.findall(r"(\d+) (?:are )?(published|fitted|assumed)", setting["library"])}
    equal(said, counted, "counted constants")


@test
def broken_constants():
    """A program with a broken data file reports it and ends in order."""
    with open(built("all_reduce_perf"), "rb") as file:
        program = file.read()
    with tempfile.TemporaryDirectory() as folder:
        path = write_program(os.path.join(folder, "all_reduce_perf"), program.replace(b"\nring_base ", b"\nring_vase "))
        done = subprocess.run([path, *H100.split()[:3], "hgx-h100:1"], capture_output=True, text=True, check=False)
    equal(done.returncode, 1, "exit status")
    expect("nccl.txt: line 9: ring_vase: unknown constant or malformed value" in done.stderr, done.stderr)


@test
def fits_are_said_on_both_sides():
    """Rows used for a fit are marked, and each mark belongs to a constant."""
    folder = validate_sim.CLUSTERS
    paths = [*validate_sim.GENERAL, *(os.path.join(folder, name) for name in os.listdir(folder))]
    said = {system for _, system in validate_sim.fitted(paths)} - {"the same"}
    marked = {re.split(r",| \(", row["system"])[0] for row in evaluated() if row["what"] == "fit"}
    equal(sorted(said), sorted(marked), "systems of which something was fitted")


@test
def left_out_is_of_these_constants():
    """left_out.csv is about the current constants."""
    said = {row["machine"]: row["constants"] for row in validate_sim.read("left_out.csv")}
    now = validate_left_out.constants()
    machines = {validate_sim.machine(row["system"]) for row in evaluated() if row["what"] in ("model", "fit")}
    equal(sorted(said), sorted(machines), "machines left out")
    for name, constants in said.items():
        equal([part.split(" to ")[0] for part in filter(None, constants.split("; "))],
              [f"{constant.key} {constant.published:.4g}" for constant, owners in now if name in owners],
              f"constants of {name}")


@test
def every_miss_has_a_reason():
    rows, reasons = evaluated(), validate_sim.read("model_misses.csv")
    for row in filter(validate_sim.missed, rows):
        expect(validate_sim.reason_of(row, reasons) != "not known",
               f"{row['file']}:{row['line']} ({row['system']}, {row['size']}) is off by {100 * row['error']:.0f} %")


@test
def page_is_written():
    """docs/validation.md is what make validate writes."""
    build = os.path.dirname(built("all_reduce_perf"))
    page = "\n".join(validate.document(build, evaluated())) + "\n"
    with open(os.path.join(ROOT, "docs", "validation.md"), encoding="utf-8") as file:
        expect(file.read() == page, "docs/validation.md is not what make validate writes")


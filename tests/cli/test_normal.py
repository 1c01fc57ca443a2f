"""acceptance check: is my number normal? Pasted logs of nccl-tests, and records."""

import os

from accept import Folder, acceptance
from kit import ROOT, add, built, equal, execute, expect, on_terminal, test

LOGS_AT = os.path.join(ROOT, "tests", "logs")

HEAD = """[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 536870912 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
[1,0]<stdout>:#  Rank  0 Group  0 Pid   3000 on    node-a device  0 [0x0f] NVIDIA H100 80GB HBM3
[1,0]<stdout>:#  Rank {} Group  0 Pid   3000 on    {} device  7 [0x0f] NVIDIA H100 80GB HBM3
"""
ROW = "[1,0]<stdout>:  8589934592    2147483648     float     sum      -1 {:8.0f}  {:.2f}  {:.2f}      0 {:8.0f}  {:.2f}  {:.2f}    N/A\n"


def log(ranks, busbw, factor, head=HEAD):
    """A log for RANKS, with a bus bandwidth computed with FACTOR."""
    algbw = busbw / factor
    half = (8589934592 / algbw / 1e3, algbw, busbw)
    return head.format(ranks - 1, "node-a" if ranks <= 8 else "node-h") + ROW.format(*half, *half)


def curve(rows):
    """A log of 8 ranks with (size, bus bandwidth out of place, in place) per row."""
    text = "# Collective test starting: all_reduce_perf\n" + HEAD.format(7, "node-a")
    for size, *busbw in rows:
        halves = [f"{size / (b / 1.75) / 1e3:.5g} {b / 1.75:.2f} {b:.2f} 0" for b in busbw]
        text += f"  {size} {size // 4} float sum -1 {halves[0]} {halves[1]}\n"
    return text


def checked(text, code, *words, arguments=()):
    with Folder() as f:
        return acceptance("check", f.write("log.txt", text), *arguments).exits(code).prints(*words)


@test
def a_wrong_number_of_ranks():
    """A README that says 64 ranks, with numbers of 96."""
    checked(log(64, 386.56, 2 * 95 / 96), 0, "The file gives 64 ranks, but busbw / algbw = 1.97921 means 96 ranks.", "Normal: the simulator expects 302.2 to 414.7 GB/s")


@test
def normal_low_and_high():
    checked(log(8, 478, 1.75), 0, "fits 8 ranks", "Normal, beside", "Verdict: normal")
    checked(log(8, 240, 1.75), 7, "Low: 50% of 2 published runs of H100 on 8 ranks", "p2p_bandwidth_perf", "Verdict: low")
    checked(log(16, 550, 1.875), 0, "Higher than 1 published run of H100 on 16 ranks: 470 GB/s (OCI")
    checked(log(8, 720, 1.75), 3, "Impossible on such links", "cannot be right")
    checked(log(8, 478, 1.75), 0, "--ranks gives 16 ranks, but busbw", "means 8 ranks", arguments=("--ranks", "16"))


@test
def switches_of_the_network_that_reduce():
    """450 GB/s on 32 nodes exceed trees and equal SHARP (the expectation in Azure's skills)."""
    checked(log(256, 450, 2 * 255 / 256), 0, "Possible only with switches that reduce (SHARP): up to 791.8", arguments=("--nodes", "32"))
    checked(log(256, 850, 2 * 255 / 256), 3, "Impossible on such links", arguments=("--nodes", "32"))


@test
def numbers_that_contradict_each_other():
    checked(log(8, 478, 1.75) + log(8, 478, 1.875, ""), 3, "Impossible", "no number of ranks")
    wrong = log(8, 478, 1.75).replace("273.14", "27.31", 1)
    checked(wrong, 0, "1 left out", "algbw is not size over time")


@test
def a_ratio_of_no_ranks():
    checked(log(8, 683, 2.5), 3, "Impossible", "no number of ranks of all_reduce")
    checked(log(8, 478, 1.75), 3, "no number of ranks of all_gather", arguments=("--collective", "all_gather"))
    checked(log(8, 478, 1.75), 3, "no number of ranks of broadcast", arguments=("--collective", "broadcast"))


@test
def wrong_data_is_never_normal():
    text = log(8, 478, 1.75)
    checked(text, 0, "The data of 1 result was not checked", "Verdict: normal")
    checked(text.replace("N/A", "5"), 7, "Wrong data in 1 result", "Verdict: wrong data")


@test
def a_ratio_of_several_collectives():
    bare = lambda text: text.replace("     sum      -1", "")
    checked(bare(log(8, 240, 0.875)), 3, "fits all_gather, reduce_scatter, alltoall", "on 8 ranks", "name it with --collective")
    checked(bare(log(8, 240, 1)), 3, "fits broadcast, reduce or sendrecv, or all_reduce on 2 ranks")
    columns = lambda factor, redop, root, check: log(8, 240, factor).replace("sum      -1", f"{redop} {root}").replace("N/A", check)
    for collective, *row in (("reduce_scatter", 0.875, "sum", "-1", "0"), ("all_gather", 0.875, "none", "-1", "0"),
                             ("alltoall", 0.875, "none", "-1", "N/A"), ("broadcast", 1, "none", "0", "0"), ("reduce", 1, "sum", "0", "0"),
                             ("sendrecv", 1, "sum", "-1", "N/A")):  # fmt: skip
        checked(columns(*row), 7, f"are those of {collective}.")
    checked(columns(0.875, "none", "0", "0"), 3, "name it with --collective")
    checked(log(8, 240, 1.75), 7, arguments=("--gpu", "h100"))


@test
def cards_by_their_full_names():
    """An unknown card is compared with nothing, even if its name resembles a known one."""
    for name in "NVIDIA H800 PCIe", "NVIDIA B100", "AMD Instinct MI210", "NVIDIA GeForce RTX 4090 D":
        other = log(8, 40, 1.75).replace("NVIDIA H100 80GB HBM3", name)
        said = checked(other, 3, f"Nothing is known about {name}.", "Verdict: could not judge: nothing to compare with")
        said.require("Did you mean" not in said.out, "another card is suggested")
    pcie = log(8, 40, 1.75).replace("H100 80GB HBM3", "H100 PCIe")
    checked(pcie, 3, "No known system with H100 PCIe has room for 8 ranks on 1 node; --cluster or --topology")
    checked(log(8, 40, 1.75), 3, "Nothing is known about H1000.", arguments=("--gpu", "H1000")).says("--gpu H1000: no such card is known")
    checked(log(8, 40, 1.75), 3, "Nothing is known about H100 PCLe. ", "Did you mean H100 PCIe?", arguments=("--gpu", "H100 PCLe"))


@test
def gpu_takes_every_name_that_is_printed():
    for name in "H100", "h100", "NVIDIA H100 80GB HBM3", "H100 80GB HBM3", "H100 SXM5 80GB", "hgx-h100":
        checked(log(8, 478, 1.75), 0, "published runs of H100 on 8 ranks", arguments=("--gpu", name))
    checked(log(8, 40, 1.75), 3, "No known system with H100 PCIe has room for 8 ranks", arguments=("--gpu", "H100 PCIe"))
    with Folder() as f:
        path = f.write("log", log(8, 478, 1.75))
        listed = acceptance("check", path, "--gpu", "FOO").exits(3).out.split("Known cards: ")[1].split(".\n")[0].split(", ")
        for name in listed:
            out = acceptance("check", path, "--gpu", name).out
            expect(f"Nothing is known about {name}." not in out, f"--gpu {name}: {out}")


@test
def nodes_choose_what_is_compared():
    """Eight ranks on two nodes use the network, with half the NICs of sixteen."""
    text = log(8, 240, 1.75)
    checked(text, 7, "published runs of H100 on 8 ranks", "Verdict: low")
    text = log(8, 90, 1.75)
    spread = 7, "the simulator expects 94.52 to 370.8 GB/s of 8 ranks on 2 x hgx-h100", "4 NICs", "Verdict: low"
    checked(text, *spread, arguments=("--nodes", "2"))
    checked(text.replace("node-a device  7", "node-b device  7"), *spread)


@test
def a_bare_row():
    row = log(8, 231, 1.75, "").replace("[1,0]<stdout>:", "2026-01-01T00:00:00.123Z ")
    checked(row, 3, "The file names no GPU; name it with --gpu")
    checked(row, 0, "all_reduce's alone", "The file gives no number of ranks; busbw / algbw = 1.75 means 8 ranks.", "A100", arguments=("--gpu", "A100"))
    old = " 8589934592 2147483648 float sum 65083 131.98 230.97 2e-07 65083 131.98 230.97 2e-07\n"
    checked(old, 0, "Normal", arguments=("--gpu", "a100"))


# ---- logs as people paste them: the same four rows, as launchers, loggers, pages and versions leave them ----

LINES = """\
# nThread 1 nGpus 8 minBytes 4294967296 maxBytes 8589934592 step: 2(factor)
# Collective test starting: all_reduce_perf_mpi
# Using devices
#  Rank  0 Group  0 Pid     17 on node-a device  0 [0x0f] NVIDIA H100 80GB HBM3
#  Rank  7 Group  0 Pid     18 on node-a device  7 [0xdb] NVIDIA H100 80GB HBM3
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  4294967296    1073741824     float     sum      -1    15838  271.18  474.57      0    15827  271.37  474.90      0
  8589934592    2147483648     float     sum      -1    31412  273.46  478.56      0    31430  273.30  478.28      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 476.57
"""


def prefixed(prefix):
    return "".join(prefix + line for line in LINES.splitlines(True))


BEGUN, REST = "  8589934592    2147483648     float     sum      -1", "    31412  273.46  478.56      0    31430  273.30  478.28      0"
PASTED = {
    "tags": prefixed("[1,0]<stdout>:"),
    "pods": prefixed("[pod/nccl-launcher-x7/launcher] "),
    "times": prefixed("2026-01-01T00:00:00.123456789Z stdout F "),
    "clock": prefixed("12:01:02.500 "),
    "srun -l": prefixed("0: "),
    "colours": prefixed("\033[36mworker-0 |\033[0m "),
    "CRLF": LINES.replace("\n", "\r\n"),
    "headings": LINES.replace("#wrong", "wrong").replace("#", ""),
    "blanks of a page": LINES.replace("  ", "\u00a0 "),
    "a table of Markdown": "".join(f"| {' | '.join(l.split())} |\n" for l in LINES.splitlines()),
    "without redop and root": LINES.replace("     sum      -1", ""),
    "errors": LINES.replace("     0 ", " 2e-07 ").replace("     0\n", " 0e+00\n"),
    "broken by NCCL's log": LINES.replace(BEGUN, BEGUN + "node-a:21:21 [0] NCCL INFO Launch mode Parallel\n"),
    "broken twice": prefixed("[1,0]<stdout>:").replace(BEGUN, BEGUN + " node-a:21:21 [0] NCCL INFO Connected all rings\n"
                                                       "[1,7]<stdout>:node-a:28:28 [7] NCCL INFO Connected all trees\n[1,0]<stdout>:"),
}  # fmt: skip


def pasted(text):
    checked(text, 0, "all_reduce, 8 ranks on 1 host, NVIDIA H100 80GB HBM3: 4 results", "At 8G: 478.3 GB/s. Normal", "Verdict: normal")


for what, text in PASTED.items():
    add("pasted_" + what.replace(" ", "_"), pasted, text)


@test
def pasted_of_one_placement():
    """A placement that was not run has no numbers or no columns."""
    none = LINES.replace("    31430  273.30  478.28      0", "      N/A     N/A     N/A    N/A")
    checked(none, 0, ": 3 results", "At 8G: 478.6 GB/s. Normal")
    half = "".join(line.split("      0    ")[0] + "      0\n" if "float" in line else line for line in LINES.splitlines(True))
    checked(half, 0, ": 2 results", "At 8G: 478.6 GB/s. Normal")
    checked(half.replace("out-of-place", ""), 0, ": 2 results", "At 8G: 478.6 GB/s. Normal")


@test
def pasted_and_cut_off():
    checked(LINES.replace(REST, "    31412"), 0, ": 2 results", "1 row left out, the first in line 9: cut off", "At 4G")
    failed = " node-a: Test CUDA failure common.cu:389 'an illegal memory access was encountered'"
    with Folder() as f:
        text = BEGUN + failed + "\n"
        acceptance("check", f.write("log", text)).exits(2).says("log:1: a row of nccl-tests ends before its numbers do")


@test
def cut_off_within_the_last_row():
    """Wherever a log ends, no other column is read as #wrong."""
    row = LINES.splitlines()[8]
    words = row.split()
    for kept in range(4, len(words)):
        cut = LINES[: LINES.index(row)] + " ".join(words[:kept]) + "\n"
        checked(cut, 0, ": 2 results", "1 row left out, the first in line 9: cut off", "At 4G: 474.6 GB/s. Normal")
    checked(cut[:-5] + "4\nAvg bus bandwidth    : 476.57\n", 0, ": 2 results", "1 row left out, the first in line 9")
    alone = [" ".join(words[:kept]) + "\n" for kept in (8, 12)]
    for text in alone[0], alone[1], alone[1].replace("478.28", "4"):
        with Folder() as f:
            acceptance("check", f.write("log", text)).exits(2).says("log:1: a row of nccl-tests ends before its numbers do")
    shifted = LINES.replace("273.46  478.56", "478.56  273.46")
    checked(shifted, 0, ": 3 results", "1 left out: algbw is not size over time, or busbw / algbw is not that out of place.")


@test
def pasted_with_errors_and_alone():
    checked(LINES.replace("478.28      0", "478.28  2e+00*"), 7, "Wrong data in 1 result")
    alone = LINES.replace("474.57", "0.00").replace("474.90", "0.00").replace("478.56", "0.00").replace("478.28", "0.00")
    checked(alone, 3, "every rank was alone", "MPI=1")


@test
def records_and_texts_of_our_own():
    words = [built("all_reduce_perf"), "--backend", "host", "-g", "2", "-b", "64K", "-e", "1M", "--algo", "ring,auto"]
    with Folder() as f:
        records = f.write("r.jsonl", execute(words + ["--json", "-"]).exits(0).out)
        for path in records, f.write("r.txt", execute(words).exits(0).out):
            result = acceptance("check", path).prints("all_reduce, ring, 2 ranks", "all_reduce, auto")
            result.exits(*((0, 3, 7) if path == records else (3, 7)))  # the speed of each size decides


@test
def simulated_records():
    """A simulated result is not low, however slow its links are."""
    words = [built("all_reduce_perf"), "--backend", "sim", "--link", "1MB/s,5us", "-g", "4", "-b", "1M", "-e", "1M", "--json", "-"]
    checked(execute(words).exits(0).out, 3, "Simulated in virtual time", "nothing to compare with")


@test
def shares_of_a_bound_in_records():
    run = '{"schema":1,"kind":"run","run_id":"a","backend":"host","ranks":[{"rank":0,"host":"a"},{"rank":1,"host":"a"}]}\n'
    result = ('{"schema":1,"kind":"result","collective":"all_reduce","nranks":2,"size_bytes":1000000,"time_us":1000,"algbw_GBps":1,'
              '"busbw_GBps":1,"wrong":0,"in_place":true,"percent_of_bound":%d,"bound_source":"%s"}\n')  # fmt: skip
    copy, link = "bytes this algorithm moves at this run's copy speed", "the most bytes a rank sends, through its port"
    checked(run + result % (10, copy), 7, "Low: the largest size reaches 10% of its bound")
    gpus = run.replace('"backend":"host"', '"backend":"nccl"').replace('"host":"a"}', '"host":"a","name":"NVIDIA B100"}')
    checked(gpus + result % (45, "NVLink"), 3, "Nothing is known about NVIDIA B100")
    large = result.replace("1000000,", "1073741824,")
    checked(gpus + large % (45, "NVLink"), 7, "Low: the largest size reaches 45% of its bound (NVLink); low is below 50%")
    checked(gpus + large % (55, "NVLink"), 0, "Normal: the largest size reaches 55% of its bound")
    checked(run + result % (105, copy), 0, "Normal: the largest size reaches 105%", "Verdict: normal")
    checked(run + result % (169, copy), 0, "Above its bound: the largest size reaches 169% of it in place", "still in a cache",
            "Verdict: higher than what it was compared with")  # fmt: skip
    checked(run + result % (169, link), 0, "169% of it in place", "the link is another one, or the bytes are miscounted")


@test
def curves_that_dip():
    """A dip to half at 1G and 2G is not normal, however fast 8G is."""
    healthy = curve([(2**k << 20, 478, 478) for k in range(8, 14)])
    checked(healthy, 0, "Verdict: normal")
    dip = curve([(2**k << 20, 240 if k in (10, 11) else 478, 478) for k in range(8, 14)])
    checked(dip, 7, "Dip: 1G out of place reaches 50% of the best at a smaller size", "Uneven: 1G reaches 240 GB/s out of place, 478 GB/s",
            "Normal, beside", "Next: repeat it", "Verdict: uneven")  # fmt: skip
    both = curve([(2**k << 20, 400 if k == 11 else 478, 400 if k == 11 else 478) for k in range(8, 14)])
    checked(both, 7, "Dip: 2G out of place reaches 84%", "Dip: 2G in place reaches 84%", "Verdict: uneven")
    alone = curve([(2**k << 20, 240 if k == 11 else 478, 478) for k in range(8, 14)])
    checked(alone, 0, "One row alone is slow: 2G out of place reaches 240 GB/s", "Verdict: normal")
    fallen = curve([(2**k << 20, 478 if k < 11 else 40, 478 if k < 11 else 41) for k in range(8, 14)])
    checked(fallen, 7, "Collapse: from 2G on at most 8% of the best at a smaller size, out of place", "Verdict: low")
    apart = curve([(2**k << 20, 470, 320) for k in range(8, 13)] + [(8 << 30, 478, 478)])
    checked(apart, 7, "Uneven: 256M reaches 320 GB/s in place, 470 GB/s out of place", "Verdict: uneven")


# ---- logs of ten machines: tests/logs/README.md says where their numbers come from ----

LOGS = {
    "h100": (0, "8 ranks on 1 host, NVIDIA H100 80GB HBM3", "Normal, beside", "of 1 x hgx-h100", "Verdict: normal"),
    "h100-two-nodes": (0, "16 ranks on 2 hosts", "Normal, beside", "of 2 x hgx-h100", "Verdict: normal"),
    "h100-pcie": (0, "36% of the ring bound of 1 x pcie-h100", "Verdict: normal"),
    "h100-nvl": (0, "of 1 x pcie-h100-nvl", "Verdict: normal"),
    "a100": (0, "At 8G: 231.6 GB/s. Normal, beside 2 published runs of A100", "of 1 x dgx-a100", "Verdict: normal"),
    "v100-x4": (0, "At 128M: 130 GB/s. Normal, beside 1 published run of V100", "87% of the ring bound of 1 x v100-x4", "Verdict: normal"),
    "l40s": (0, "Normal: the simulator expects", "74% of the ring bound of 1 x pcie-l40s", "Verdict: normal"),
    "b200": (0, "Normal, beside 2 published runs of B200", "of 1 x hgx-b200", "Verdict: normal"),
    "h100-dip": (7, "Dip: 1G out of place reaches 51%", "Uneven: 2G reaches 222 GB/s out of place", "Verdict: uneven"),
    "h100-truncated": (0, "1 row left out, the first in line 31: cut off before the numbers end", "At 8G: 480", "Verdict: normal"),
}


def of_a_machine(name):
    code, *words = LOGS[name]
    result = acceptance("check", os.path.join(LOGS_AT, name + ".txt")).exits(code).prints("all_reduce", *words)
    result.require(" 0 results" not in result.out, "results")


for name in LOGS:
    add("log_of_" + name, of_a_machine, name)


# ---- logs of the field: tests/logs/README.md says where they come from ----

FIELD = {
    "c01-1453-3nodes.txt": (7, "Low: the simulator expects", "Collapse: from 64M on at most 18%", "Verdict: low"),
    "c03-119-a100-4nic.txt": (0, "equals 4 NICs of 200 Gb/s (23.9 GB/s each)", "If a node has 4, that is all they carry: --nics 4"),
    "c03-119-a100-4nic.txt --nics 4": (0, "dgx-a100 with 4 NICs of 200 Gb/s", "Verdict: normal"),
    "c15-5090-socket.txt": (7, "4% of the ring bound", "Cause: ranks share a GPU", "sockets", "Line 13: # Rank 1", "Verdict: low"),
    "c18-h100-2n-196.txt": (7, "196.5 GB/s equals 4 NICs of 400 Gb/s (49.1 GB/s each): as if half of 8 work", "Verdict: low"),
    "nccl-v3.json": (7, "196.5 GB/s equals 4 NICs of 400 Gb/s (49.1 GB/s each): as if half of 8 work", "Verdict: low"),
    "c19-h200-vm.txt --gpu H200": (7, "14% of the NVLS bound", "ACS and ATS, without which data goes through the CPU", "Verdict: low"),
    "c28-78-alltoall.txt": (7, "64 ranks", "It would be low on V100, A100", "Verdict: low"),
    "c28-78-alltoall.txt --gpu V100": (7, "% of the all-to-all bound", "Verdict: low"),
    "c30-1161-h100pcie.txt": (3, "The file names no GPU", "It would be low on A100, A100 PCIe", "Verdict: could not judge"),
    "c30-1161-h100pcie.txt --gpu H100PCIe": (7, "39% of the ring bound of 1 x pcie-h100", "Verdict: low"),
    "c33-a100-p2p-off.txt": (7, "234.7 GB/s. Normal, beside 2 published runs of A100", "At 8G: 5.2 GB/s. Low", "Cause: P2P is off",
                             "Line 21: NCCL_P2P_DISABLE=1", "Verdict: low"),
    "c36-232-1gpu4nic.txt --gpu H100 --nodes 2": (0, "84% of the ring bound", "1 NIC × 400 Gb/s"),
    "c40-1676-gdr-off.txt": (7, "Cause: GPUDirect RDMA is off", "Line 21: learn01", "GPU Direct RDMA Disabled", "Verdict: low"),
}  # fmt: skip


def of_the_field(name):
    code, *words = FIELD[name]
    file, *arguments = name.replace("H100PCIe", "H100_PCIe").split()
    acceptance("check", os.path.join(LOGS_AT, "field", file), *arguments).exits(code).prints(*words)


for name in FIELD:
    add("field_" + name.replace(" ", "_"), of_the_field, name)


@test
def an_outlier_among_equals():
    """Eight like nodes, of which one is 7% slower: within the limits of published runs, and not like its equals."""
    with Folder() as f:
        speeds = [479.8, 480.2, 479.6, 447.0, 480.1, 479.9, 480.3, 480.0]
        paths = []
        for i, speed in enumerate(speeds):
            text = curve([(8 << 30, speed, speed)]).replace("node-a", f"gpu0{i}")
            paths.append(f.write(f"node{i}.log", text))
        result = acceptance("check", *paths).exits(7)
        result.prints("8 like runs (all_reduce, 8 ranks on 1 host, NVIDIA H100 80GB HBM3)", "node3.log (host gpu03) reaches 93.1% of the median of its equals at 8G: 447 of 480 GB/s",
                      "confidence 99.99%", "Verdict: 1 outlier among equals")  # fmt: skip
        healthy = [p for i, p in enumerate(paths) if i != 3]
        acceptance("check", *healthy).exits(0).prints("None is slower than its equals", "Verdict: normal")
        second = f.write("node8.log", curve([(8 << 30, 440, 440)]).replace("node-a", "gpu08"))
        acceptance("check", *paths, second).exits(7).prints("node3.log", "node8.log", "Verdict: 2 outliers among equals")
        broken = f.write("node9.log", "NCCL WARN remote process exited\n")
        acceptance("check", *healthy, broken).exits(3).prints("node9.log: no results; it ends with \"NCCL WARN", "None is slower than its equals")
        alone = acceptance("check", *healthy[:3]).exits(0)
        expect("like runs" not in alone.out, "three runs do not show what is usual")


@test
def findings_of_the_machine():
    """What the topology of the user shows is named before advice."""
    path = os.path.join(ROOT, "tests", "topology", "field", "nic-missing.xml")
    one = "--value", "10", "--collective", "all_reduce", "--gpu", "H100", "--nodes", "2"
    result = acceptance("check", *one, "--topology", path).exits(7)
    result.prints("nic-missing.xml, 7 NICs of 400 Gb/s", "Finding in its topology: GPU2: no NIC near it")


@test
def few_channels_are_a_cause():
    text = curve([(8 << 30, 120, 120)])
    command = "NCCL_MAX_NCHANNELS={} ./build/all_reduce_perf -b 8G -e 8G -g 8\n"
    checked(command.format(2) + text.split("\n", 1)[1], 7, "Cause: NCCL has few channels", "Line 1: NCCL_MAX_NCHANNELS=2", "Verdict: low")
    with Folder() as f:
        many = acceptance("check", f.write("log", command.format(24) + text.split("\n", 1)[1])).exits(7)
        expect("channels" not in many.out, many.out)


@test
def runs_that_died():
    """Rows before a failure are no healthy run; without rows the failure is quoted."""
    failure = " node-a: Test NCCL failure common.cu:392 'unhandled cuda error'\n"
    checked(LINES.replace("# Out of bounds", failure + "# Out of bounds"), 7, "The log reports an error. Line 10: ", "Verdict: failed")
    with Folder() as f:
        acceptance("check", f.write("log", LINES.split("  4294967296")[0] + failure)).exits(2).says("no results; it ends with \"Test NCCL failure")


@test
def the_collective_below_its_table():
    row = log(8, 240, 0.875)
    checked(row + "# Collective test concluded: all_gather_perf\n", 7, "all_gather, 8 ranks", "Verdict: low")


@test
def a_list_of_one_rank():
    """One rank of a list that was cut names one host of several; OSU's --validation has a column of words."""
    head = "#  Rank 15 Group  0 Pid 17 on node-b device 7 [0xdb] NVIDIA H100 80GB HBM3\n"
    checked(head + log(16, 470, 1.875, ""), 0, "16 ranks", "Machine: hgx-h100", "Verdict: normal")
    osu = "# OSU MPI-CUDA All-to-All Personalized Exchange Latency Test v7.4\n# Size       Avg Latency(us)        Validation\n"
    rows = "1048576                45000.5              {0}\n2097152                90000.7              {0}\n"
    checked(osu + rows.format("Pass"), 7, "alltoall: 2 results", "Verdict: low", arguments=("--ranks", "16", "--gpu", "H100", "--nodes", "2"))
    checked(osu + rows.format("Fail"), 7, "Verdict: wrong data", arguments=("--ranks", "16", "--gpu", "H100", "--nodes", "2"))
    cpus = osu.replace("MPI-CUDA", "MPI") + rows.format("Pass")
    checked(cpus, 3, "Not judged: the data of mpi is in the memory of CPUs", arguments=("--ranks", "16", "--gpu", "H100"))


@test
def algorithms_that_the_log_excludes():
    """Rings are normal where NVLS is off, excluded, or does not reduce the operation."""
    head = "NCCL_ALGO={} ./build/all_reduce_perf -b 8G -e 8G -g 8\n"
    row = curve([(8 << 30, 365.8, 365.8)])
    checked(row, 7, "Low: 76% of 2 published runs")
    for settings in "Ring", "Ring,Tree", "^NVLS,NVLSTree":
        checked(head.format(settings) + row.split("\n", 1)[1], 0, "Verdict: normal")
    checked("NCCL_NVLS_ENABLE=0 " + head.format("Ring,Tree,NVLS")[23:] + row.split("\n", 1)[1], 0, "Verdict: normal")
    checked(row.replace("float sum", "float avg"), 0, "by ring:Simple", "Verdict: normal")


@test
def one_number():
    def value(*arguments):
        return acceptance("check", "--value", *arguments)

    value("231", "--collective", "all_reduce", "--gpu", "H100", "--nodes", "2").exits(7).prints("At 8G: 231 GB/s. Low: 49% of 1 published run")
    value("231", "--collective", "all_reduce", "--gpu", "A100").exits(0).prints("Normal, beside 2 published runs of A100 on 8 ranks")
    value("18", "--collective", "all_reduce", "--gpu", "A100", "--size", "1M").exits(0).prints("At 1M: 18 GB/s. Normal")
    value("231", "--gpu", "A100").exits(2).says("--value: needs --collective")
    value("231", "--collective", "all_reduce").exits(2).says("--value: needs --gpu or --cluster")


@test
def machines_by_the_user():
    text, four = log(32, 193, 2 * 31 / 32), ("--nodes", "4")
    checked(text, 7, "Machine: hgx-h100, 8 NICs of 400 Gb/s InfiniBand (assumed", "equals 4 NICs", "If a node has 4, that is normal: --nics 4.",
            arguments=four)  # fmt: skip
    checked(text, 0, "Machine: hgx-h100 with 4 NICs of 400 Gb/s", "Verdict: normal", arguments=(*four, "--nics", "4"))
    checked(text, 0, "with 8 NICs of 200 Gb/s", "Verdict: normal", arguments=(*four, "--nic-rate", "200"))
    checked(log(16, 437, 1.875), 0, "Machine: aws-p5, 32 NICs of 100 Gb/s EFA", "published run of H100 on 16 ranks", arguments=("--cluster", "aws-p5"))
    # Data of CPUs: no published run compares.
    checked("# backend=mpi\n" + log(16, 437, 1.875), 0, "the simulator expects", "Verdict: normal", arguments=("--cluster", "hgx-h100"))
    for nics, least in (1, "20.54 to 28.18"), (2, "41.06 to 56.33"):
        one = "--value", "24", "--collective", "all_reduce", "--gpu", "A100", "--nodes", "2", "--ranks", "16", "--nics", str(nics)
        acceptance("check", *one).exits(0 if nics == 1 else 7).prints(f"dgx-a100 with {nics} NIC", f"expects {least} GB/s")
    pair = "--collective", "all_reduce", "--gpu", "RTX 3090", "--nodes", "2", "--ranks", "2", "--nics", "1", "--nic-rate", "100"
    acceptance("check", "--value", "1.5", *pair).exits(7).prints("12% of the ring bound", "Verdict: low")
    acceptance("check", "--value", "9.76", *pair).exits(0).prints("Verdict: normal")
    acceptance("check", "--value", "21", "--collective", "alltoall", "--gpu", "H20", "--nodes", "16").exits(7).prints("40% of the all-to-all bound")
    send = "--collective", "sendrecv", "--gpu", "H100", "--nodes", "4"
    acceptance("check", "--value", "12.5", *send).exits(7).prints("25% of the ring bound of 4 x hgx-h100: out of a node: 1 NIC")
    with Folder() as f:
        path = f.write("log", log(16, 437, 1.875))
        acceptance("check", path, "--nic-rate", "fast").exits(2).says("--nic-rate fast: not a rate in Gb/s")
        acceptance("check", path, "--cluster", "hgx-h1000").exits(2).says("hgx-h1000")
        acceptance("check", path, "--cluster", "gb200-nvl72").exits(7).prints("The log names NVIDIA H100 80GB HBM3, but gb200-nvl72 has GB200.")
        acceptance("check", path, "--cluster", "gb200-nvl72", "--nodes", "2").exits(2).says("gb200-nvl72 has 4 GPUs in a node, not 8")
        acceptance("check", path, "--cluster", "gb200-nvl72:2").exits(2).says("has 4 GPUs in a node, not 8")
        acceptance("check", path, "--cluster", "aws-p5", "--topology", "x.xml").exits(2).says("both name the machine")


@test
def every_log_is_there():
    there = sorted(name[:-4] for name in os.listdir(LOGS_AT) if name.endswith(".txt"))
    equal(there, sorted(LOGS), "logs in tests/logs")
    with open(os.path.join(LOGS_AT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    equal([name for name in there if f"`{name}.txt`" not in text], [], "logs without an origin")


@test
def command_lines_name_the_collective():
    """The command above a log names its collective, under any launcher; each of two commands its own."""
    row = "  8589934592 2147483648 float none -1 {0} 0 {0} 0\n"
    log_of = "$ mpirun -np 8 ./build/{}_perf -b 8G -e 8G\n" + HEAD.format(7, "node-a")
    gather = log_of.format("all_gather") + row.format("21000 409.04 357.91")
    checked(gather, 0, "all_gather, 8 ranks", "Normal: the simulator expects 307.5 to 421.9 GB/s")
    both = gather + log_of.format("all_reduce") + row.format("31429 273.31 478.30")
    checked(both, 0, "all_gather, 8 ranks", "all_reduce, 8 ranks", "Normal, beside")
    checked(gather.replace("all_gather_perf", "python train_perf.py"), 0, "does not name its collective", "are those of all_gather.")


@test
def small_sizes_alone():
    """Times that hardly grow with size are latency: the times are compared, where there is a model."""
    small = curve([(2**k, 2**k / 25e3 * 1.75, 2**k / 25e3 * 1.75) for k in range(13, 19)])
    checked(small, 0, "At 256K, bound by latency: 25 us. Normal: the simulator expects 12.96 to 51.11 us")
    checked(curve([(16384, 0.115, 0.115)]), 7, "At 16K, bound by latency: 249", "Low (slow): the simulator expects")
    amd = small.replace("NVIDIA H100 80GB HBM3", "AMD Instinct MI300X")
    checked(amd, 3, "At 256K, bound by latency: 25 us. Bandwidth shows at larger sizes", "Verdict: could not judge: bound by latency")


@test
def texts_of_other_backends():
    """Text names its backend like records: CPU caches make dips, and simulated numbers are no machine's."""
    dip = curve([(2**k << 20, 240 if k in (10, 11) else 478, 478) for k in range(8, 14)])
    checked("# busbench version 0.1.0 backend=sim\n" + dip, 3, "Simulated in virtual time")
    checked("# busbench version 0.1.0 backend=nccl\n" + dip, 7, "Dip: 1G")
    checked("# busbench version 0.1.0 backend=host\n" + dip.replace("NVIDIA H100 80GB HBM3", "CPU"), 3, "Not judged: the data of host is in the memory of CPUs")


@test
def numbers_that_are_none():
    text = LINES.replace("273.30  478.28", "inf -nan")
    checked(text, 0, ": 3 results", "1 left out: nan or inf is among their numbers", "At 8G: 478.6 GB/s. Normal")
    checked(BEGUN + " 0 inf inf 0 nan inf inf 0\n", 3, ": 0 results", "2 left out: nan or inf", "the numbers cannot be right")


@test
def texts_that_are_not_lines():
    with Folder() as f:
        wide = os.path.join(f.name, "wide.txt")
        with open(wide, "wb") as file:
            file.write(LINES.encode("utf-16"))
        acceptance("check", wide).exits(2).says("wide.txt: holds bytes of 0, as text in UTF-16 does")
        with open(wide, "wb") as file:
            file.write(LINES.replace("\n", "\r").encode())
        acceptance("check", wide).exits(2).says("wide.txt: its lines end in CR alone")
        acceptance("check", wide, "--nodes", "0").exits(2).says("--nodes 0: out of range")


@test
def nothing_to_check():
    checked_with = acceptance("check", "-").exits(2)
    checked_with.says("neither results of a collective nor a table of nccl-tests")
    with Folder() as f:
        acceptance("check", f.write("cut", '{"schema":1,"kind":"run","run_id":"a"}\n{"schema":1,"kind":"resu')).exits(2).says(":2:")
        acceptance("check", f.write("log", log(8, 478, 1.75)), "--collective", "all_reduc").exits(2).says("did you mean \"all_reduce\"?")


@test
def lines_wrap_on_a_terminal():
    """At words: the words stay the same, and only one that is wider than the terminal crosses its edge."""
    words = [built("acceptance"), "check", os.path.join(LOGS_AT, "h100.txt")]
    narrow, whole = on_terminal(60, words), execute(words).exits(0).out
    equal(narrow.split(), whole.split(), "words")
    expect(max(map(len, whole.splitlines())) > 100, "no line that must wrap")
    wide = [line for line in narrow.splitlines() if len(line) > 60 and len(line.split()) > 1]
    equal(wide, [], "lines that are too wide")

#!/usr/bin/env python3
"""make validate: predictions of the sim backend against published measurements of NCCL and of Open MPI.

Every row of the files in reports/reference is in the table: predicted and compared, used to fit a constant and
therefore not counted, or left out with a reason. reports/reference/model_rows.csv gives the class and the cluster of
each row."""

import argparse
import itertools
import os
import re
import statistics
import sys
import textwrap

from sim import (CLUSTERS, LIKE_LEAST, Failure, every, groups, interval_lines, intervals, judged, large, left_out,
                          likeness, likeness_lines, longest_plugin, machine, misses, number, of_library, openmpi_interval_lines, part, percent,
                          plugins, predicted, read, size_text, summary, summary_table, table, tail)


def small_sizes(build, rows):
    """Each collective in a node of 8: predicted, and measured on machines with the same nodes."""
    for name, cluster, aws in (("A100", "dgx-a100", "aws-p4de"), ("H100", "hgx-h100", "aws-p5"),
                               ("H200", "hgx-h200", "aws-p5en"), ("B200", "hgx-b200", "aws-p6-b200")):
        same = {cluster} | {entry[:-4] for entry in os.listdir(CLUSTERS) if is_of(entry, f"{cluster}(-roce)?|{aws}")}
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv",
                           "gather", "scatter"):
            some = [{"cluster": f"{cluster}:1", "ranks": "8", "collective": collective, "run": "auto", "bytes": size}
                    for size in (8 << 10, 128 << 10, 1 << 20, 16 << 20)]
            cells = []
            for row, record, _ in predicted(build, some, CLUSTERS):
                seen = [other for other in rows if other["what"] in ("model", "fit") and other["ranks"] == "8"
                        and other["collective"] == collective and other["bytes"] == row["bytes"]
                        and other["cluster"].split(":")[0] in same and other["cluster"].endswith(":1")]
                times = ", ".join(f"{us:.1f}" for us in sorted({one["us"] for one in seen}))
                cells.append(f"{record['time_us']:.1f}" + (f" ({times})" if times else ""))
            yield [name, collective, *cells]


def is_of(entry, systems):
    with open(os.path.join(CLUSTERS, entry), encoding="utf-8") as file:
        return re.search(rf"^system\s*= ({systems})$", file.read(), re.M) is not None


def left_out_rows(rows, library="NCCL"):
    """The rows of left_out.csv, which studies/validate/left_out.py writes."""
    machines = {machine(row["system"]) for row in of_library(rows, library)}
    for row in filter(lambda line: line["machine"] in machines, read("left_out.csv")):
        yield [row["machine"], row["constants"], row["fitted to"],
               *(row[f"{size}_{key}"] if key == "rows" else percent(number(row[f"{size}_{key}"]))
                 for size in ("large", "small") for key in ("rows", "median", "p90"))]


def calibrated_rows():
    """The rows of calibrated.csv, which studies/validate/calibrated.py writes."""
    for row in read("calibrated.csv"):
        yield [row["known"], row["predicted"], row["sizes"], row["rows"],
               *(percent(float(row[key])) for key in ("median", "p90", "inside", "width", "plain_median", "plain_p90"))]


def many_racks(build, rows):
    """Each row of 20 racks beside what the model has for the algorithms that may have run."""
    some = [{**row, "bytes": int(row["size"]), "cluster": "gb200-nvl72:360"} for row in rows
            if row["system"] == "cw_gb200_20r" and row["placement"] == "oop"]
    times = {(record["size_bytes"], run): record["time_us"] for run in ("ring:LL128", "tree:Simple", "auto")
             for _, record, _ in predicted(build, [{**row, "run": run} for row in some], CLUSTERS)}
    for row in some:
        cells = []
        for run in ("ring:LL128", "tree:Simple", "auto"):
            us = times[row["bytes"], run]
            cells.append(f"{us:.0f} ({100 * (us / float(row['time']) - 1):+.0f} %)")
        yield [f"{row['file']}:{row['line']}", size_text(row["bytes"]), f"{float(row['time']):.0f}", *cells]


FASTER = "HGX B200 8 GPUs, 2 nodes v2"


def with_faster_run(build, rows):
    """The median error of the faster of the two disputed runs from 256 MiB on, and the 90th percentile of machines left
    out as if it were counted."""
    some = [{**row, "cluster": "hgx-b200:2", "run": "auto", "bytes": int(row["size"])} for row in rows
            if row["system"] == FASTER]
    errors = [abs(record["time_us"] / float(row["time"]) - 1)
              for row, record, _ in predicted(build, filter(large, some), CLUSTERS)]
    others = [abs(row["left_out"]) for row in part(rows, "machine left out") if large(row)]
    return statistics.median(errors), tail(errors + others)


def fill(text):
    return textwrap.fill(text, 120) + "\n"


def openmpi(rows, mpi):
    """The section of Open MPI's rows, MPI."""
    yield "\n## Open MPI on CPUs\n"
    yield fill("OSU's all_reduce, broadcast and reduce of floats on one node of CSCS: 127 and 128 ranks on two EPYC 7742; 71 to "
               "288 ranks on up to four Grace (eth-cscs/ext_mpi_collectives, ppam_2024 and ppam_2024_journal); alltoall among 8 "
               "ranks on two nodes of 4 Grace (eth-cscs/cscs-docs). Broadcast and reduce are compared by the last rank. The times "
               "switch at the sizes of coll/tuned, which are the same from 4.1.0 to 5.0.9, and persistent calls at those of "
               "coll/libnbc. MPICH and ext_mpi_collectives have no model.")
    yield fill("No constant is fitted to a row, so a machine left out is predicted as it is described. Two things were decided with "
               "the rows in view: the form of the model, and which published figure it has where there are several. If the NIC of "
               "Pilatus had the 93 percent of osu_bibw instead of the 61 percent of an alltoall on Alps, the median over all rows "
               "would be 20.5 percent. The same logs have 18 other sizes, by which no choice was compared with another: of these "
               "414 rows the median error is 19.2 percent, the 90th percentile 46.3. The intervals follow from these three machines of one "
               "site, so a fourth may well lie outside.")
    yield "\n### Open MPI: misses, as above\n"
    yield from table(["system, collective", "ranks", "rows", "sizes and errors", "reason"],
                     misses(mpi, read("model_misses.csv")))
    yield "\n### Open MPI: machines left out\n"
    yield from table(["machine", "rows ≥ 256M", "median", "p90", "rows < 256M", "median", "p90"],
                     ([cells[0], *cells[3:]] for cells in left_out_rows(rows, "Open MPI")))
    yield "\n### Open MPI: all rows\n"
    yield from table(["row", "run", "ranks", "size", "published us", "predicted us", "error", "left out", "chosen", ""],
                     ([cells[0], row["algorithm"], *cells[3:5], *cells[6:9], f"{100 * row['left_out']:+.1f} %", *cells[9:]]
                      for row in mpi for cells in every([row])))


def training_runs():
    """The result that runs.py wrote."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "training_runs.md"), encoding="utf-8") as file:
        return re.search(r"Steps of [^.]*(?:[^\n]|\n(?!\n))*", file.read()).group().replace("\n", " ")


def missed_targets(rows):
    """A sentence with the targets that are missed."""
    names = ("median", "p90", "width"), ("median error", "p90", "median half-width")
    found = [f"{label} {percent(figures[key])}, target {percent(target)} ({name})"
             for name, figures, *targets in summary(rows)
             for key, label, target in zip(*names, targets) if target is not None and figures[key] > target]
    return f"Targets missed: {'; '.join(found)}." if found else "No target is missed."


def document(build, rows):
    counts = {what: sum(row["what"] == what for row in rows) for what in dict.fromkeys(r["what"] for r in rows)}
    yield "# Errors of the sim backend against NCCL and Open MPI\n"
    yield fill("Written by `make validate` (studies/validate/page.py). Every row of the published measurements in "
               "`reports/reference` is listed: predicted and compared, used to fit a constant of the model, or left out with a "
               "reason. Errors are those of times. [simulator.md](simulator.md) describes the model. Each run prints the "
               "interval in which nine in ten measurements of unseen machines should lie. For the part \"machine left out\" it "
               "was taken from the other machines alone.")
    yield "Rows: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + f"; {len(rows)} in all.\n"
    nccl, mpi = of_library(rows), of_library(rows, "Open MPI")
    median, p90 = with_faster_run(build, rows)
    yield f"NCCL, {len(nccl)} rows:\n"
    yield from summary_table(rows)
    yield "\n" + fill(f"{missed_targets(rows)} Two runs of alltoall and sendrecv on two nodes of HGX B200, one twice as fast as "
                      "the other, are not counted ([Left out](#left-out)). From 256 MiB on the faster one has a median error of "
                      f"{percent(median)}; with it p90 would be {percent(p90)} (machine left out).").rstrip()
    yield f"\n[Open MPI](#open-mpi-on-cpus), {len(mpi)} rows:\n"
    yield from summary_table(rows, "Open MPI")
    yield ""
    yield fill(f"[Training runs](training_runs.md) by the planner. {training_runs()}")
    yield fill("Fitted: rows to which a constant was fitted. Same machine, other sizes: other rows of the same sites. Machine "
               "left out: all rows, each machine predicted with constants fitted to the others.")
    yield "## Fitted\n"
    yield "`src/simulator/nccl/nccl.txt` names the rows to which each constant was fitted.\n"
    yield from table(["row", "system", "collective", "ranks", "size", "published us", "predicted us", "error"],
                     ([*cells[:5], *cells[6:9]] for cells in every(part(rows, "fitted"))))
    yield "\n## Same machine, other sizes\n"
    yield "Times predicted on a cluster of `reports/reference/clusters` or a known system.\n"
    yield from table(["system, collective", "ranks", "cluster", "fit", "rows ≥ 256M", "median", "p90", "rows < 256M",
                      "median", "p90"], groups(nccl))
    yield "\n### Misses: errors above 15 % from 256 MiB up, above 20 % below\n"
    yield from table(["system, collective", "ranks", "rows", "sizes and errors", "reason"],
                     misses(nccl, read("model_misses.csv")))
    yield "\n## Machine left out\n"
    yield fill("Each machine is left out in turn. The constants that were fitted to it are fitted again to all rows of other "
               "machines that depend on them (least mean error, by at most a factor of 1.6); if no other row depends on one, "
               "NCCL's own constant replaces it. Then its rows are predicted without the constants of its site. Facts that "
               "its source states of the run stay, such as the ranks per process. (`studies/validate/left_out.py`)")
    yield from table(["machine", "constants", "rows fitted to", "rows ≥ 256M", "median", "p90", "rows < 256M", "median",
                      "p90"], left_out_rows(rows))
    yield "\n### Intervals\n"
    yield fill("The interval of a prediction is the shortest that holds enough measurements of the machines left out, by the "
               "class of their sizes. From 256 MiB on messages over nodes (alltoall, gather, scatter, sendrecv) are a class of "
               "their own, because one of the four machines there took four times as long; their interval includes that of the "
               "others. A machine weighs the square root of its rows. Of k machines it must hold nine in ten times 1 + 1/k. "
               "Machines are alike if they have the same links within a node (NVSwitches, racks of them, NVLinks, PCIe with or "
               "without peer access, one GPU), use all GPUs of a node or some, and have the same network. A prediction has the "
               f"narrow interval if at least {LIKE_LEAST:.0f} machines with rows of its class are alike, on at least a quarter of its "
               "nodes; else the wide one, and the run says so. The wide one includes the narrow one, that of the machines left "
               "out without their like, and what the model predicted of five machines before it knew their kinds "
               "(`reports/reference/first_sight.csv`); its low end also the time by hosts whose memory costs nothing. "
               "That a row of this table lies inside is counted with the interval that the other machines alone give, so it is as if the machine were new; a run "
               "prints the interval that all of them give. The form of the model and of this rule were found with all rows in "
               "view.")
    known = plugins(CLUSTERS).values()
    yield fill("The network's plug-in differs most. Over nodes without InfiniBand whose description does not state its "
               "latency, the high end is a multiple of the time with a slow one. The longest of the "
               f"{len(known)} that are known, {max(known):.0f} us a hop, is raised by 1/{len(known)}, to {longest_plugin(known):.0f} us, as one "
               "estimates the end of a range from a few numbers of it.")
    yield from table(["multiple of the predicted time", "below 1 MiB", "below 256 MiB", "larger",
                      "larger, messages over nodes"],
                     ([name, *(f"{low:.2f} to {high:.2f}" for low, high in ends)]
                      for name, ends in zip(("machines alike", "few or none alike"), intervals(nccl))))
    yield "\nMachines and rows of each kind, by class:\n"
    yield from table(["kind", "most nodes", "below 1 MiB", "below 256 MiB", "larger", "larger, messages over nodes"],
                     ([kind, found["nodes"], *(f"{len(some)}, {sum(some.values())}" for some in found["rows"])]
                      for kind, found in sorted(likeness(nccl).items())))
    yield "\n## Calibrated\n"
    yield fill("A part of the rows of a site, as a log of nccl-tests, calibrates the cluster that its source describes, "
               "without the figures fitted to the site; the other rows are predicted. Where several parts are possible, each "
               "is used in turn. The last two columns are errors without `--calibrate`. The model keeps its constants, some "
               "of which were fitted to rows of these machines, and the rules of the calibration were found with these rows "
               "in view. A single collective or number of ranks says little of others. (`studies/validate/calibrated.py`)")
    yield from table(["calibrated by", "predicted", "sizes", "rows", "median error", "p90", "inside the interval",
                      "median half-width", "median without", "p90 without"], calibrated_rows())
    yield "\n## 512 nodes of 8 H100\n"
    yield fill("16 and 64 MiB took 839 and 1198 us (arXiv 2411.13055). By its own constants NCCL chooses tree with LL128 for the "
               "one and NVLSTree for the other, and expects 345 and 745 us. Its topology search finds 8 channels over nodes, one "
               "for each NIC, and its tuner gives a channel of a tree by LL128 29 GB/s, so NVLSTree is faster from 64 MiB on. On "
               "two nodes of p5, on Alps and in NVLSTree up to 1024 nodes a hop over the network takes about 20 us longer than "
               "these constants, except for the smallest messages (`tree_net_more`). Eighteen such hops explain the difference. "
               "These two rows led to the constant, but it was not fitted to them.")
    yield from table(["row", "size", "published us", "predicted us", "error", "chosen"],
                     ([cells[0], *cells[4:5], *cells[6:10]] for cells in every(rows) if "512 nodes" in cells[1]))
    yield "\n## 20 racks of 72 GB200\n"
    yield fill("CoreWeave's all_reduce among 1440 GPUs by NCCL 2.26.2 takes 5.4 ms and then 433 GB/s. Its choice is not "
               "published. A ring by LL128 has 2840 hops of 1.9 us within racks, which are 5.4 ms, and reaches 92 percent of "
               "the 65 percent of NVLinks that rings reach among trays. NVLSTree, the choice of NCCL 2.30.7 by its constants "
               "(auto), would take half as long. The rows are not counted, because the algorithm was inferred from them. Beyond three "
               "racks, the most that were counted, a run prints the widest of all intervals, which holds these rows.")
    yield from table(["row", "size", "published us", "ring:LL128", "tree:Simple", "auto"], many_racks(build, rows))
    yield "\n## Small sizes of every collective\n"
    yield fill("Times in us in a node of 8 GPUs with a process for each; in parentheses the published times of such nodes, where "
               "one process may have driven all GPUs (36 us for an operation, 86 us for an alltoall).")
    yield from table(["GPU", "collective", "8K", "128K", "1M", "16M"], small_sizes(build, rows))
    yield from openmpi(rows, mpi)
    yield "\n## Left out\n"
    yield from table(["class", "system", "rows", "file", "reason"], left_out(rows))
    yield "\n## All\n"
    yield from table(["row", "system", "collective", "ranks", "size", "", "published us", "predicted us", "error",
                      "chosen", ""], every(nccl))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="build folder")
    parser.add_argument("--intervals", action="store_true", help="the lines of nccl.txt and openmpi.txt that follow from machines left out")
    arguments = parser.parse_args()
    try:
        rows = judged(arguments.build)
        lines = (interval_lines(rows), likeness_lines(rows), openmpi_interval_lines(rows)) if arguments.intervals else (
            document(arguments.build, rows),)
        for line in itertools.chain(*lines):
            print(line)
    except Failure as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()

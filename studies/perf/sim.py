"""A section of make perf on the simulator: processor time and memory that virtual clusters take."""

import statistics

import programs
import speed

# Ranks, options, name.
CASES = [
    (1024, "-b 8 -e 4G -f 2 --algo busbench:ring,busbench:tree,nvlstree", "30 sizes of ring, tree and nvlstree"),
    (1024, "-b 1G -e 1G --algo busbench:ring", "ring"),
    (16384, "-b 1G -e 1G --algo busbench:ring", "ring"),
    (102400, "-b 1G -e 1G --algo busbench:ring", "ring"),
    (1024, "-b 1G -e 1G --algo busbench:tree", "tree"),
    (16384, "-b 1G -e 1G --algo busbench:tree", "tree"),
    (102400, "-b 64K -e 64K --algo busbench:tree", "tree of 64K"),
    (102400, "-b 1G -e 1G --algo busbench:tree", "tree"),
    (1024, "-b 1G -e 1G --algo halving_doubling", "halving_doubling"),
    (16384, "-b 1G -e 1G --algo halving_doubling", "halving_doubling"),
    (102400, "-b 1G -e 1G --algo halving_doubling", "halving_doubling"),
    (102400, "-b 1G -e 1G --algo nvlstree", "nvlstree"),
]


def sections(out, repeats):
    rows = []
    for ranks, words, name in CASES:
        command = [f"{speed.BUILD}/all_reduce_perf", "--backend", "sim", "--cluster", f"hgx-h100:{ranks // 8}", "-T", "0", *words.split()]
        runs = [programs.records(command, "result", "end") for _ in range(repeats)]
        middle = lambda key, unit=1: statistics.median(run[-1][key] for run in runs) / unit
        evaluators = sorted({r["evaluator"] for r in runs[0][:-1]})
        rows.append([str(ranks), name, ", ".join(evaluators), f"{middle('processor_s'):.2f}",
                     f"{middle('peak_memory_bytes', 1e6):.1f}"])
    out.append("## Clusters in virtual time")
    out.append("")
    out.append("`all_reduce_perf --backend sim --cluster hgx-h100:NODES`, 1 GiB unless a size is named; each run evaluates it twice, "
               "out of place and in place. Processor seconds of the whole program, which has one thread, and its peak memory.")
    out.append("")
    speed.table(out, ["ranks", "all_reduce by", "evaluator", "processor s", "peak MB"], rows)

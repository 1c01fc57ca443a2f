"""A section of make perf on the simulator: how long virtual clusters take in real time, and what memory."""

import os
import statistics
import subprocess

import speed

# Ranks, nodes of 8, what is asked for.
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


def played(ranks, words):
    """Wall seconds, processor seconds, peak MB and how it was played."""
    began = os.times().elapsed
    child = subprocess.Popen([f"{speed.BUILD}/all_reduce_perf", "--backend", "sim", "--cluster", f"hgx-h100:{ranks // 8}",
                              "-T", "0", *words.split()], stdout=subprocess.PIPE, text=True)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, out
    how = [line.split(": ", 1)[1] for line in out.splitlines() if line.startswith("# Played by: ")][0]
    ways = sorted({part.split()[-1] for part in how.split(", ")})
    return os.times().elapsed - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3, " ".join(ways)


def sections(out, repeats):
    rows = []
    for ranks, words, name in CASES:
        runs = [played(ranks, words) for _ in range(repeats)]
        wall, processor, memory = (statistics.median(run[i] for run in runs) for i in range(3))
        rows.append([str(ranks), name, runs[0][3], f"{processor:.2f}", f"{wall:.2f}", f"{memory:.1f}"])
    out.append("## Clusters in virtual time")
    out.append("")
    out.append("`all_reduce_perf --backend sim --cluster hgx-h100:NODES`, 1 GiB unless a size is named; each run plays it twice, "
               "out of place and in place. Real seconds of the whole program, which has one thread, and its peak memory.")
    out.append("")
    speed.table(out, ["ranks", "all_reduce by", "played by", "processor s", "wall s", "peak MB"], rows)

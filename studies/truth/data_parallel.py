"""Rows of make truth: strategies of data parallelism over paced ports against virtual time, which equals their
formulas except for ps_async."""

import programs

LINK = "100MB/s,1ms,port"
SWEEP = ["--model", "linear:10x300", "--step-time", "50ms", "--servers", "1,2", "-g", "4", "-n", "10", "--link", LINK, "-T", "600"]


def steps(build, backend):
    found = programs.records([f"{build}/data_parallel_perf", *SWEEP, "--backend", backend], "strategy")
    return {(r["strategy"], r["servers"], r["colocated"]): r["step_us"] for r in found}


def rows(build):
    truth = steps(build, "sim")
    for key, got in steps(build, "host").items():
        way, servers, colocated = key
        where = " on all ranks" if colocated else f", servers: {servers}" if servers else ""
        yield [f"step, {way}{where}", f"4 ranks, link {LINK}", f"{truth[key] / 1e3:.1f} ms", f"{got / 1e3:.1f} ms",
               f"{100 * (got / truth[key] - 1):+.1f}%"]

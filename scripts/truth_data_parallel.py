"""Rows of make truth: ways of data parallelism over paced ports, against the same in virtual time, which
but for ps_async are their formulas."""

import json
import subprocess
import sys

LINK = "100MB/s,1ms,port"
WAYS = ["--model", "linear:10x300", "--step-time", "50ms", "--servers", "1,2", "-g", "4", "-n", "10", "--link", LINK, "-T", "600"]


def steps(build, backend):
    command = [f"{build}/data_parallel_perf", *WAYS, "--backend", backend, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {(r["way"], r["servers"], r["colocated"]): r["step_us"] for r in records if r["kind"] == "way"}


def rows(build):
    truth = steps(build, "sim")
    for key, got in steps(build, "host").items():
        way, servers, colocated = key
        where = " on all ranks" if colocated else f", servers: {servers}" if servers else ""
        yield [f"step, {way}{where}", f"4 ranks, link {LINK}", f"{truth[key] / 1e3:.1f} ms", f"{got / 1e3:.1f} ms",
               f"{100 * (got / truth[key] - 1):+.1f}%"]

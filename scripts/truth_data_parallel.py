"""Rows of make truth: ways of data parallelism over paced ports, against their formulas."""

import json
import subprocess
import sys

LINK = "100MB/s,1ms,port"
WAYS = ["--model", "linear:10x300", "--step-time", "50ms", "--servers", "1,2", "-g", "4", "-n", "10", "--link", LINK, "-T", "600"]


def rows(build):
    command = [f"{build}/data_parallel_perf", *WAYS, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    for r in (json.loads(line) for line in done.stdout.splitlines()):
        if r["kind"] != "way":
            continue
        servers = " on all ranks" if r["colocated"] else f", {r['servers']} servers" if r["servers"] else ""
        yield [f"step, {r['way']}{servers}", f"4 ranks, link {LINK}", f"{r['predicted_us'] / 1e3:.1f} ms",
               f"{r['step_us'] / 1e3:.1f} ms", f"{100 * (r['step_us'] / r['predicted_us'] - 1):+.1f}%"]
